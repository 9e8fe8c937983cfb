//! Plans, held against a model that looks at each element by itself.

use crate::model;

use std::{collections::BTreeSet, sync::Arc};

use crate::model::Dice;
use drepl::{
    Bindings, Fragment, Index, IndexBox, Part, Plan, PlanError, Program, Progression, Share, Source, Wanted,
    dataset::{Dataset, LeafId, Object},
    executor::Executor,
    plan,
    types::{ByteOrder, Primitive, Type},
};
use proptest::prelude::*;

/// Holds a plan against the model: who gives what, what is missing, and every byte.
fn check(dice: &mut Dice, wanted: &Wanted<'_>, sources: &[Source], plan: &Plan) {
    let expected = model::assignment(wanted.fragment, wanted.versions.clone(), sources);
    let mut given = BTreeSet::new();
    for piece in &plan.pieces {
        let part = &wanted.fragment.parts()[piece.part];
        assert_eq!(piece.leaf, part.leaf);
        assert_eq!(piece.version, sources[piece.source].version);
        for element in model::elements(&piece.elements) {
            let key = (piece.part, element);
            assert_eq!(expected[&key].map(|found| found.0), Some(piece.source), "{key:?}\n{plan}");
            assert!(given.insert(key.clone()), "{key:?} comes twice\n{plan}");
        }
    }
    let found = expected.iter().filter(|(_, found)| found.is_some()).map(|(key, _)| key.clone());
    assert_eq!(given, found.collect());
    for (leaf, _) in wanted.fragment.leaves() {
        let of_leaf = |part: usize| wanted.fragment.parts()[part].leaf == leaf;
        let nowhere = expected.iter().filter(|((part, _), found)| of_leaf(*part) && found.is_none());
        let nowhere: BTreeSet<_> = nowhere.map(|((_, element), _)| element.clone()).collect();
        let missing = plan.missing.iter().filter(|missing| missing.leaf == leaf);
        assert_eq!(model::disjoint(missing.flat_map(|missing| missing.elements.boxes())), nowhere, "{plan}");
    }
    assert!(plan.missing.iter().all(|missing| !missing.elements.is_empty()));

    let buffers: Vec<Vec<u8>> = sources.iter().map(|source| dice.bytes(source.fragment.size_bytes())).collect();
    let before = dice.bytes(wanted.fragment.size_bytes());
    let mut right = before.clone();
    model::convert(wanted.fragment, &expected, sources, &buffers, &mut right);
    let mut direct = before.clone();
    for (source, transfer) in &plan.transfers {
        model::interpret(transfer, &buffers[*source], &mut direct);
    }
    assert_eq!(direct, right, "{plan}");

    let executor = Executor::new(1 + dice.roll(0, 1) as usize);
    let mut executed = before.clone();
    let all: Vec<_> = plan.transfers.iter().map(|(source, transfer)| (transfer, &buffers[*source][..])).collect();
    executor.run_all(&all, &mut executed).unwrap();
    assert_eq!(executed, right, "{plan}");

    // As it is done between nodes: a share is sent to the source, and what it packs comes back.
    let mut remote = before;
    for share in plan.clone().split() {
        let sent = Share::decode(&share.encode()).unwrap();
        assert_eq!(sent, share);
        assert!(sent.pieces.iter().all(|piece| piece.source == sent.source));
        let mut compact = vec![0; usize::try_from(sent.transfer.moved_bytes()).unwrap()];
        model::interpret(&sent.transfer.pack(), &buffers[sent.source], &mut compact);
        model::interpret(&share.transfer.unpack(), &compact, &mut remote);
    }
    assert_eq!(remote, right);
    assert_eq!(Plan::decode(&plan.encode()).unwrap(), *plan);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..Default::default() })]

    #[test]
    fn each_element_comes_from_the_newest_cheapest_first_source_and_no_other_byte_changes(seed: u64) {
        let dice = &mut Dice(seed);
        let dataset = model::dataset(dice);
        let sources = model::sources(dice, &dataset, *Dice(!seed).pick(&[3, 12, 40]));
        let parts = if dice.one_in(10) { 30 } else { 4 };
        let fragment = model::fragment(dice, &dataset, parts, false);
        let versions = if dice.one_in(2) { 0..=u64::MAX } else { 2..=dice.roll(1, 3) };
        let wanted = Wanted { fragment: &fragment, versions };
        let by_scan = plan(&wanted, &sources).unwrap();
        check(dice, &wanted, &sources, &by_scan);
        let index = Index::new(sources).unwrap();
        prop_assert_eq!(index.plan(&wanted).unwrap(), by_scan);
    }

    #[test]
    fn an_index_that_sources_come_to_and_leave_plans_as_one_made_of_those_that_are_there(seed: u64) {
        let dice = &mut Dice(seed);
        let dataset = model::dataset(dice);
        let mut index = Index::new(model::sources(dice, &dataset, 200)).unwrap();
        for _ in 0..dice.roll(1, 5) {
            for _ in 0..dice.roll(0, 150) {
                let there: Vec<usize> = index.sources().map(|(position, _)| position).collect();
                match dice.roll(0, 2) {
                    0 => {
                        let source = model::sources(dice, &dataset, 1).pop();
                        source.map(|source| index.insert(source).unwrap());
                    }
                    1 if !there.is_empty() => {
                        index.remove(*dice.pick(&there)).unwrap();
                    }
                    _ if !there.is_empty() => {
                        prop_assert!(index.update(*dice.pick(&there), dice.roll(1, 3), dice.roll(0, 2), true));
                    }
                    _ => prop_assert!(index.remove(7).is_none() && !index.update(7, 1, 1, true)),
                }
            }
            // A source that is gone is one that cannot be read.
            let end = index.sources().map(|(position, _)| position + 1).max().unwrap_or(0);
            let fragment = model::fragment(dice, &dataset, 3, false);
            let gone = || Source { fragment: Arc::new(fragment.clone()), version: 1, cost: 0, readable: false };
            let all: Vec<Source> = (0..end).map(|at| index.get(at).cloned().unwrap_or_else(gone)).collect();
            let wanted = Wanted::newest(&fragment);
            prop_assert_eq!(index.plan(&wanted).unwrap(), plan(&wanted, &all).unwrap());
            prop_assert_eq!(index.len(), index.sources().count());
        }
    }

    #[test]
    fn bytes_that_were_altered_are_refused_or_read_as_some_plan(seed: u64) {
        let dice = &mut Dice(seed);
        let dataset = model::dataset(dice);
        let sources = model::sources(dice, &dataset, 6);
        let fragment = model::fragment(dice, &dataset, 4, false);
        let plan = plan(&Wanted::newest(&fragment), &sources).unwrap();
        let mut sent = plan.encode();
        for _ in 0..dice.roll(1, 4) {
            match dice.roll(0, 2) {
                0 => sent.truncate(dice.roll(0, sent.len() as u64) as usize),
                1 => sent.push(dice.next() as u8),
                _ if !sent.is_empty() => {
                    let place = dice.roll(0, sent.len() as u64 - 1) as usize;
                    sent[place] = dice.next() as u8;
                }
                _ => {}
            }
        }
        if let Ok(read) = Plan::decode(&sent) {
            let _ = (read.to_string(), read.moved_bytes(), read.clone().split());
            prop_assert_eq!(Plan::decode(&read.encode()).unwrap(), read);
        }
        let _ = Share::decode(&sent);
    }
}

/// The dataset `var grid [extents] float64`.
fn grid(extents: &[u64]) -> Arc<Dataset> {
    let kind = Type::array(extents.to_vec(), Type::Primitive(Primitive::Float64));
    Arc::new(Dataset::new(vec![Object { name: "grid".into(), kind }]).unwrap())
}

/// These elements of the only leaf, packed in row-major order.
fn packed(dataset: &Arc<Dataset>, elements: IndexBox) -> Fragment {
    let mut strides_bytes = smallvec::SmallVec::new();
    let mut bytes = 8;
    for axis in elements.axes().iter().rev() {
        strides_bytes.insert(0, bytes as i64);
        bytes *= axis.count();
    }
    let byte_order = ByteOrder::LittleEndian;
    let (leaf, primitive) = (LeafId(0), Primitive::Float64);
    let part = Part { leaf, primitive, elements, offset_bytes: 0, strides_bytes, byte_order };
    Fragment::new(dataset.clone(), Vec::new(), vec![part], bytes).unwrap()
}

fn ranges<const N: usize>(bounds: [(u64, u64); N]) -> IndexBox {
    IndexBox::new(bounds.map(|(low, end)| Progression::range(low, end).unwrap())).unwrap()
}

fn source(fragment: Fragment, version: u64) -> Source {
    Source { fragment: Arc::new(fragment), version, cost: 0, readable: true }
}

/// Blocks of a three-dimensional array, in no order.
fn blocks(dataset: &Arc<Dataset>, extent: u64, per_axis: [u64; 3]) -> Vec<Source> {
    let [a, b, c] = per_axis;
    let count = a * b * c;
    let place = |at: u64| [at / (b * c), at / c % b, at % c];
    let cut = |at: u64, parts: u64| (extent * at / parts, extent * (at + 1) / parts);
    (0..count)
        // 1237 is prime, and larger than any factor of the numbers of blocks in these tests.
        .map(|at| place(at * 1237 % count))
        .map(|[i, j, k]| source(packed(dataset, ranges([cut(i, a), cut(j, b), cut(k, c)])), 1))
        .collect()
}

#[test]
fn a_plan_says_who_gives_what_and_what_nobody_has() {
    let dataset = grid(&[64, 64]);
    let old = source(packed(&dataset, ranges([(0, 32), (0, 64)])), 3);
    let new = source(packed(&dataset, ranges([(0, 16), (0, 32)])), 4);
    let fragment = packed(&dataset, ranges([(8, 40), (0, 64)]));
    let plan = plan(&Wanted::newest(&fragment), &[old, new]).unwrap();
    assert!(!plan.is_complete());
    assert_eq!(plan.missing[0].to_string(), "grid[32..40, 0..64]");
    assert_eq!(
        plan.to_string(),
        "source 0, version 3: grid[8..16, 32..64]  (256 elements)\n\
         source 0, version 3: grid[16..32, 0..64]  (1024 elements)\n\
         source 1, version 4: grid[8..16, 0..32]  (256 elements)\n\
         missing: grid[32..40, 0..64]  (512 elements)\n\
         1536 of 2048 elements from 2 sources, 12288 bytes in 3 moves"
    );
}

#[test]
fn fields_that_are_missing_are_named_with_their_objects() {
    let number = || Type::Primitive(Primitive::Float32);
    let cell = Type::record([("rho", number()), ("flux", Type::array(vec![3], number()))]);
    let objects = vec![
        Object { name: "mesh".into(), kind: Type::array(vec![100], cell) },
        Object { name: "time".into(), kind: Type::Primitive(Primitive::Float64) },
    ];
    let dataset = Arc::new(Dataset::new(objects).unwrap());
    let part = |leaf, elements, offset_bytes, strides: &[i64]| Part {
        leaf: LeafId(leaf),
        primitive: dataset.leaves()[leaf as usize].primitive,
        elements,
        offset_bytes,
        strides_bytes: strides.into(),
        byte_order: ByteOrder::LittleEndian,
    };
    let flux = IndexBox::new([Progression::new(32, 2, 16).unwrap(), Progression::all(3).unwrap()]).unwrap();
    let parts = vec![part(2, IndexBox::new([]).unwrap(), 0, &[]), part(1, flux, 8, &[12, 4])];
    let fragment = Fragment::new(dataset.clone(), Vec::new(), parts, 200).unwrap();
    let plan = plan(&Wanted::newest(&fragment), &[]).unwrap();
    let names: Vec<String> = plan.missing.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["mesh.flux[32..63 step 2, 0..3]", "time"]);
}

#[test]
fn a_hole_among_thousands_of_blocks_is_one_range() {
    let dataset = grid(&[128, 128, 128]);
    let mut sources = blocks(&dataset, 128, [16, 16, 16]);
    let whole = packed(&dataset, IndexBox::all(&[128; 3]).unwrap());
    let complete = plan(&Wanted::newest(&whole), &sources).unwrap();
    assert!(complete.is_complete());
    assert_eq!((complete.pieces.len(), complete.transfers.len()), (4096, 4096));
    assert_eq!(complete.moved_bytes(), 128 * 128 * 128 * 8);
    sources[1000].readable = false;
    let holed = plan(&Wanted::newest(&whole), &sources).unwrap();
    assert_eq!(holed.missing[0].elements.boxes(), [sources[1000].fragment.parts()[0].elements.clone()]);
    // An older source of everything fills it, and gives nothing else.
    sources.insert(0, source(whole.clone(), 0));
    let filled = plan(&Wanted::newest(&whole), &sources).unwrap();
    assert!(filled.is_complete());
    assert_eq!(filled.pieces.len(), 4096);
    assert_eq!(filled.pieces[0].elements, sources[1001].fragment.parts()[0].elements);
}

#[test]
fn blocks_of_another_number_of_ranks_are_made_of_those_that_overlap_them() {
    let dataset = grid(&[96, 96, 96]);
    let index = Index::new(blocks(&dataset, 96, [16, 16, 16])).unwrap();
    let mut elements = 0;
    for wanted in blocks(&dataset, 96, [16, 16, 12]) {
        let plan = index.plan(&Wanted::newest(&wanted.fragment)).unwrap();
        assert!(plan.is_complete());
        assert_eq!(plan.pieces.len(), 2);
        elements += plan.pieces.iter().map(|piece| piece.elements.count()).sum::<u64>();
    }
    assert_eq!(elements, 96 * 96 * 96);
}

#[test]
fn ranks_that_hold_every_nth_element_are_collated() {
    let dataset = grid(&[4096 * 16]);
    let cyclic = |rank: u64| {
        let elements = IndexBox::new([Progression::new(rank * 1237 % 4096, 4096, 16).unwrap()]).unwrap();
        source(packed(&dataset, elements), 1)
    };
    let sources: Vec<Source> = (0..4096).map(cyclic).collect();
    let whole = packed(&dataset, IndexBox::all(&[4096 * 16]).unwrap());
    let plan = plan(&Wanted::newest(&whole), &sources).unwrap();
    assert!(plan.is_complete());
    assert_eq!(plan.pieces.len(), 4096);
}

#[test]
fn strides_without_a_common_divisor_are_planned_while_few_and_refused_when_many() {
    // Of each 30 030 elements, 5 760 are no multiple of any of the first six primes.
    let extent = 30_030 * 1_000_000_000_000;
    let dataset = grid(&[extent]);
    let every = |step: u64| {
        let axis = Progression::new(0, step, extent.div_ceil(step)).unwrap();
        source(packed(&dataset, IndexBox::new([axis]).unwrap()), 0)
    };
    let wanted = packed(&dataset, ranges([(0, extent)]));
    let few: Vec<Source> = [13, 11, 7, 5, 3, 2].map(every).into();
    let made = plan(&Wanted::newest(&wanted), &few).unwrap();
    assert_eq!(made.missing[0].elements.count(), 5_760 * 1_000_000_000_000);
    assert_eq!(Plan::decode(&made.encode()).unwrap(), made);

    let many: Vec<Source> = (1009..1109).step_by(2).map(every).collect();
    for sources in [&many[..2], &many] {
        let refused = plan(&Wanted::newest(&wanted), sources).unwrap_err();
        assert!(refused.to_string().contains("given up"), "{refused}");
    }
}

#[test]
fn parts_of_a_view_that_hold_an_element_twice_lack_it_once() {
    let dataset = Program::parse("var x [1000]int8").unwrap().bind(&Bindings::new()).unwrap();
    let text = "readonly { var a [i:600] = x[i]; var b [i:300] = x[2*i+200]; var c [i:500] = x[i+450] }";
    let wanted = dataset.fragment(&format!("view {text}"), &Bindings::new()).unwrap();
    let held = dataset.fragment("{ var s [i:100] = x[3*i+300] }", &Bindings::new()).unwrap();
    let made = plan(&Wanted::newest(&wanted), &[source(held.as_ref().clone(), 0)]).unwrap();
    let lacks = |index: u64| !(300..600).contains(&index) || !index.is_multiple_of(3);
    let asked = |index: u64| {
        index < 600 || (200..800).contains(&index) && index.is_multiple_of(2) || (450..950).contains(&index)
    };
    let elements = &made.missing[0].elements;
    assert!((0..1000).all(|index| elements.contains(&[index]) == (lacks(index) && asked(index))));
    assert_eq!(elements.count(), (0..1000).filter(|index| lacks(*index) && asked(*index)).count() as u128);
}

#[test]
fn fragments_of_another_dataset_are_refused_and_of_an_equal_one_are_not() {
    let (one, equal, other) = (grid(&[8, 8]), grid(&[8, 8]), grid(&[8, 9]));
    let all = |dataset| packed(dataset, ranges([(0, 8), (0, 8)]));
    let sources = [source(all(&equal), 1), source(all(&other), 1)];
    let fragment = all(&one);
    let wanted = Wanted::newest(&fragment);
    assert!(plan(&wanted, &sources[..1]).unwrap().is_complete());
    assert_eq!(plan(&wanted, &sources), Err(PlanError::Dataset { position: Some(1) }));
    assert!(Index::new(sources.to_vec()).is_err());
    let index = Index::new(sources[1..].to_vec()).unwrap();
    assert_eq!(index.plan(&wanted), Err(PlanError::Dataset { position: None }));
    assert!(!Index::default().plan(&wanted).unwrap().is_complete());
}

#[test]
fn bytes_that_are_no_plan_are_refused() {
    let dataset = grid(&[8, 8]);
    let fragment = packed(&dataset, ranges([(0, 8), (0, 8)]));
    let plan = plan(&Wanted::newest(&fragment), &[source(fragment.clone(), 5)]).unwrap();
    let sent = plan.encode();
    assert!((0..sent.len()).all(|end| Plan::decode(&sent[..end]).is_err()));
    assert!(Share::decode(&sent).unwrap_err().to_string().contains("no share of a plan"));
    let longer = [&sent[..], &[0]].concat();
    assert!(Plan::decode(&longer).unwrap_err().to_string().contains("1 bytes follow"));
    let mut crossed = plan.clone();
    crossed.pieces[0].source = 3;
    assert!(Plan::decode(&crossed.encode()).unwrap_err().to_string().contains("do not belong"));
}
