//! Parts of global arrays: said when a variable is declared, read by observers, and held against shapes.
#![allow(unsafe_code)]

use crate::common::{Dir, watchdog};
use stillframe::{Attributes, Declaration, Element, Error, Kind, Part, RANK_MAX, Region, Scalar};

fn part(offset: &[usize], global_shape: &[usize]) -> Part {
    Part { offset: offset.to_vec(), global_shape: global_shape.to_vec() }
}

fn managed(name: &str, shape: &[usize]) -> Declaration {
    Declaration::new(name, f64::dtype(), Kind::Managed { shape: shape.to_vec() })
}

fn is_wrong_shape<T: std::fmt::Debug>(result: Result<T, Error>, about: &str) {
    match result {
        Err(error @ Error::WrongShape { .. }) => {
            assert!(error.to_string().contains(about), "{error} does not tell '{about}'");
        }
        other => panic!("{other:?} instead of a wrong shape"),
    }
}

#[test]
fn an_observer_reads_the_part_that_was_declared() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("declared");
    let mut region = dir.options().create("r").unwrap();
    let lower = part(&[512, 0], &[1024, 512]);
    region.declare(managed("u", &[512, 512]).part(lower.clone())).unwrap();
    region.declare(managed("alone", &[3])).unwrap();
    region.declare(managed("scalar", &[]).part(part(&[], &[]))).unwrap();
    region.declare(managed("empty", &[0]).part(part(&[7], &[7]))).unwrap();
    region.publish(1).commit().unwrap();
    let snapshot = dir.observe("r").newest().unwrap();
    assert_eq!(snapshot.variable("u").unwrap().part().unwrap(), Some(lower));
    assert_eq!(snapshot.variable("u").unwrap().attributes["offset"], Scalar::Text("512,0".into()));
    assert_eq!(snapshot.variable("u").unwrap().attributes["global_shape"], Scalar::Text("1024,512".into()));
    assert_eq!(snapshot.variable("alone").unwrap().part().unwrap(), None);
    assert_eq!(snapshot.variable("scalar").unwrap().part().unwrap(), Some(part(&[], &[])));
    assert_eq!(snapshot.variable("empty").unwrap().part().unwrap(), Some(part(&[7], &[7])));
}

#[test]
fn a_part_that_does_not_fit_is_refused() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("refused");
    let mut region = dir.options().create("r").unwrap();
    is_wrong_shape(region.declare(managed("u", &[4, 4]).part(part(&[5, 0], &[8, 4]))), "beyond");
    is_wrong_shape(region.declare(managed("u", &[4, 4]).part(part(&[0], &[8]))), "dimensions");
    is_wrong_shape(region.declare(managed("u", &[4]).part(part(&[usize::MAX], &[usize::MAX]))), "beyond");
    let with = |offset: Scalar, global_shape: Scalar| {
        let mut declaration = managed("u", &[4]);
        declaration.attributes.insert(Part::OFFSET.into(), offset);
        declaration.attributes.insert(Part::GLOBAL_SHAPE.into(), global_shape);
        declaration
    };
    is_wrong_shape(region.declare(with("0".into(), "4,4".into())), "2");
    is_wrong_shape(region.declare(with("zero".into(), "4".into())), "'zero'");
    is_wrong_shape(region.declare(with("-1".into(), "4".into())), "'-1'");
    is_wrong_shape(region.declare(with(0.5.into(), "4".into())), "'0.5'");
    is_wrong_shape(region.declare(with("".into(), "4".into())), "0 numbers");
    // One of the two alone is anybody's attribute, as the offset of a unit.
    let mut offset = managed("kelvin", &[4]);
    offset.attributes.insert("offset".into(), 273.15.into());
    region.declare(offset).unwrap();
    region.declare(with(" 0 ".into(), " 4".into())).unwrap();
}

#[test]
fn a_variable_keeps_within_its_part() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("resized");
    let mut region = dir.options().create("r").unwrap();
    let id = region.declare(managed("u", &[4]).part(part(&[4], &[8]))).unwrap();
    is_wrong_shape(region.resize(id, &[5]), "beyond");
    region.resize(id, &[3]).unwrap();
    region.publish(1).commit().unwrap();
    is_wrong_shape(region.repart(id, &[6], &part(&[3], &[8])), "beyond");
    region.repart(id, &[6], &part(&[2], &[8])).unwrap();
    region.publish(2).commit().unwrap();
    let old = dir.observe("r").newest().unwrap();
    region.repart(id, &[1], &part(&[7], &[8])).unwrap();
    region.publish(3).commit().unwrap();
    let new = dir.observe("r").newest().unwrap();
    for (snapshot, offset, elements) in [(old, 2, 6), (new, 7, 1)] {
        let u = snapshot.variable("u").unwrap();
        assert_eq!((u.part().unwrap(), &u.shape[..]), (Some(part(&[offset], &[8])), &[elements][..]));
    }
}

#[test]
fn a_tracked_array_is_held_against_its_part_at_each_publish() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("tracked");
    let mut region = dir.options().create("r").unwrap();
    let declaration = Declaration::new("t", f32::dtype(), Kind::Tracked).part(part(&[10], &[20]));
    let id = region.declare(declaration).unwrap();
    let memory = [1.5f32; 20];
    let publish = |region: &mut Region, version, elements: usize| {
        // SAFETY: the array lives and is not written while it is published.
        let publication = unsafe {
            region.publish(version).tracked_raw(
                id,
                memory.as_ptr().cast(),
                4 * elements,
                &[elements],
                stillframe::Order::C,
            )
        };
        publication.commit()
    };
    is_wrong_shape(publish(&mut region, 1, 11), "beyond");
    publish(&mut region, 1, 10).unwrap();
    region.repart(id, &[20], &part(&[0], &[20])).unwrap();
    publish(&mut region, 2, 20).unwrap();
    region.repart(id, &[5], &part(&[15], &[20])).unwrap();
    // What it last held is not what its part says any more.
    is_wrong_shape(region.publish(3).commit(), "beyond");
    publish(&mut region, 3, 5).unwrap();
    assert_eq!(dir.observe("r").newest().unwrap().variable("t").unwrap().part().unwrap(), Some(part(&[15], &[20])));
}

#[test]
fn what_another_part_held_is_not_recovered_as_this_one() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("recovered");
    let declare = |region: &mut Region, offset| {
        let id = region.declare(managed("u", &[4]).part(part(&[offset], &[8]))).unwrap();
        region.managed_bytes(id).unwrap().0.cast::<f64>()
    };
    let mut region = dir.options().create("r").unwrap();
    let content = declare(&mut region, 4);
    // SAFETY: the region's memory, until it is dropped.
    unsafe { content.write(7.5) };
    region.publish(1).commit().unwrap();
    drop(region);
    for (offset, expected) in [(4, 7.5), (0, 0.0)] {
        let mut region = dir.options().create("r").unwrap();
        assert_eq!(region.recovered(), Some(1));
        let content = declare(&mut region, offset);
        // SAFETY: as above.
        let found = unsafe { content.read() };
        assert_eq!(found, expected, "at offset {offset}");
    }
}

#[test]
fn parts_of_any_number_of_dimensions_are_read_as_written() {
    for dimensions in 0..=RANK_MAX {
        let numbers: Vec<usize> = (0..dimensions).map(|dimension| dimension * 1_000_003).collect();
        let all: Vec<usize> = numbers.iter().map(|number| number + 2).collect();
        let (shape, written) = (vec![2; dimensions], part(&numbers, &all));
        written.check(&shape).unwrap();
        let mut attributes = Attributes::new();
        written.write(&mut attributes);
        assert_eq!(Part::of(&attributes), Ok(Some(written)));
    }
}
