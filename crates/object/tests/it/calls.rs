//! What the five calls do, seen by who uses them.

use crate::common::{Dir, watchdog};
use std::thread;
use std::time::{Duration, Instant};
use stillframe_object::{Assembly, Error, Object, Objects, WriteFragment};
use stillframe_roster::readiness::Cause;

const SOON: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

fn objects(dir: &Dir) -> Objects {
    dir.objects()
}

fn grid(dir: &Dir) -> Object {
    objects(dir).create("grid", "var u [8,6] float64").create().unwrap()
}

/// Rows of the grid, in a fragment of their own.
fn rows(object: &Object, first: i64, count: i64) -> WriteFragment {
    let text = "{ var u [x:count,y:6] = u[x+first,y] }";
    object.write(text).bind("first", first).bind("count", count).rank(first as u32).attach().unwrap()
}

/// The element of a version.
fn element(version: u64, x: usize, y: usize) -> f64 {
    version as f64 * 1000.0 + x as f64 * 10.0 + y as f64
}

fn publish_rows(fragment: &mut WriteFragment, first: usize, version: u64) {
    for (at, value) in fragment.variable_mut::<f64>("u").unwrap().iter_mut().enumerate() {
        *value = element(version, first + at / 6, at % 6);
    }
    fragment.publish(version).unwrap();
}

fn whole(object: &Object, version: u64) -> Vec<f64> {
    let mut all = object.read("{ var u = u }").attach().unwrap();
    all.reattach(version, LONG).unwrap();
    all.variable::<f64>("u").unwrap().to_vec()
}

fn expected(version: u64) -> Vec<f64> {
    (0..48).map(|at| element(version, at / 6, at % 6)).collect()
}

#[test]
fn an_object_is_created_once_and_the_same_again_is_the_same() {
    let dir = Dir::new("create");
    let objects = objects(&dir);
    let first = objects.create("run/u", "var u [n] float64").bind("n", 5).create().unwrap();
    let again = Objects::options().dir(dir.path()).open().unwrap();
    let second = again.create("run/u", "var u [n] float64").bind("n", 5).create().unwrap();
    assert_eq!(first.description(), second.description());
    assert_eq!(objects.list().unwrap(), ["run/u"]);

    let other = again.create("run/u", "var u [n] float64").bind("n", 6).create();
    let Err(error @ Error::OtherText { .. }) = other else { panic!("{other:?}") };
    assert!(error.to_string().contains("n=5") && error.to_string().contains("n=6"), "{error}");
    let other = again.create("run/u", "var u [n] float64").bind("n", 5).initial(3).create();
    assert!(matches!(other, Err(Error::OtherText { .. })), "{other:?}");
    let wrong = again.create("v", "var v [n] float65").create();
    let Err(error @ Error::Text { .. }) = wrong else { panic!("{wrong:?}") };
    assert!(error.to_string().contains("float65"), "{error}");
    assert!(matches!(again.create("w", "").create(), Err(Error::Text { .. })));
    for name in ["", "../x", "a//b", ".hidden", "a b"] {
        assert!(again.create(name, "var u [5] float64").create().is_err(), "{name}");
    }
    let none = again.object_named("nobody");
    assert!(matches!(none, Err(Error::NoObject { .. })), "{none:?}");
}

#[test]
fn who_waits_for_an_object_gets_it() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("wait");
    let waiting = objects(&dir);
    let late = waiting.wait("u", SOON);
    assert!(matches!(&late, Err(error) if error.is_timeout()), "{late:?}");
    let there = thread::spawn(move || waiting.wait("u", LONG).unwrap().name().to_owned());
    thread::sleep(SOON);
    objects(&dir).create("u", "var u [4] int32").create().unwrap();
    assert_eq!(there.join().unwrap(), "u");
}

#[test]
fn blocks_of_writers_are_read_in_other_layouts() {
    let dir = Dir::new("layouts");
    let object = grid(&dir);
    let (mut upper, mut lower) = (rows(&object, 0, 3), rows(&object, 3, 5));
    publish_rows(&mut upper, 0, 1);
    publish_rows(&mut lower, 3, 1);
    assert_eq!(whole(&object, 1), expected(1));

    let mut turned = object.read("view t columnmajor { var t [y:6,x:8] = u[x,y] }").attach().unwrap();
    turned.reattach(1, LONG).unwrap();
    assert_eq!(turned.variable::<f64>("t").unwrap(), expected(1), "a transpose in the other order is the same bytes");

    let mut coarse = object.read("{ var c [x:4,y:3] = u[2*x,2*y] }").attach().unwrap();
    coarse.reattach(1, LONG).unwrap();
    let wanted: Vec<f64> = (0..12).map(|at| element(1, 2 * (at / 3), 2 * (at % 3))).collect();
    assert_eq!(coarse.variable::<f64>("c").unwrap(), wanted);

    // Ghost cells around the first rows: what lies beyond the rim is zero.
    let mut ghosts = object.read("view g readonly clipped { var g [x:5,y:8] = u[x-1,y-1] }").attach().unwrap();
    ghosts.reattach(1, LONG).unwrap();
    let inside = |x: usize, y: usize| (1..=8).contains(&x) && (1..=6).contains(&y);
    let cell = |x: usize, y: usize| if inside(x, y) { element(1, x - 1, y - 1) } else { 0.0 };
    let wanted: Vec<f64> = (0..40).map(|at| cell(at / 8, at % 8)).collect();
    assert_eq!(ghosts.variable::<f64>("g").unwrap(), wanted);
    // Or what the text says, in all versions.
    let text = "view g readonly clipped fill -9 { var g [x:5,y:8] = u[x-1,y-1] }";
    let mut filled = object.read(text).attach().unwrap();
    let begun: Vec<f64> = (0..40).map(|at| if inside(at / 8, at % 8) { 0.0 } else { -9.0 }).collect();
    assert_eq!(filled.variable::<f64>("g").unwrap(), begun, "there is no version yet");
    let wanted: Vec<f64> = (0..40).map(|at| if inside(at / 8, at % 8) { cell(at / 8, at % 8) } else { -9.0 }).collect();
    for version in [1, 0, 1] {
        filled.reattach(version, LONG).unwrap();
        let wanted = if version == 1 { &wanted } else { &begun };
        assert_eq!(filled.variable::<f64>("g").unwrap(), *wanted, "version {version}");
    }
}

#[test]
fn a_fragment_keeps_its_address_and_shows_one_version() {
    let dir = Dir::new("address");
    let object = grid(&dir);
    let mut all = rows(&object, 0, 8);
    let mut reader = object.read("{ var w [x:2,y:6] = u[x+3,y] }").attach().unwrap();
    assert_eq!(reader.variable::<f64>("w").unwrap(), [0.0; 12], "the initial version is zeros");
    let (read_at, write_at) = (reader.address(), all.bytes_mut().unwrap().as_ptr());
    for version in [1, 2, 7] {
        publish_rows(&mut all, 0, version);
        assert_eq!(
            reader.version(),
            if version == 1 {
                0
            } else if version == 2 {
                1
            } else {
                2
            }
        );
        reader.reattach(version, LONG).unwrap();
        assert_eq!(reader.variable::<f64>("w").unwrap()[..], expected(version)[18..30]);
        assert_eq!((reader.address(), all.bytes_mut().unwrap().as_ptr().addr()), (read_at, write_at.addr()));
    }
    reader.reattach(0, LONG).unwrap();
    assert_eq!(reader.variable::<f64>("w").unwrap(), [0.0; 12]);
    assert_eq!(reader.address(), read_at);
}

#[test]
fn large_fragments_that_lie_together_are_shown_and_not_copied() {
    let dir = Dir::new("shown");
    let object = objects(&dir).create("big", "var u [256,1024] float64").create().unwrap();
    let mut writer = object.write("{ var u = u }").attach().unwrap();
    let mut reader = object.read("{ var w [x:128,y:1024] = u[x+64,y] }").attach().unwrap();
    let mut copied = object.read("{ var w [x:256,y:512] = u[x,y] }").attach().unwrap();
    let mut at = None;
    for version in 1..8u64 {
        let words = writer.variable_mut::<f64>("u").unwrap();
        // Few pages change, so that a version lies in several planes.
        for (at, word) in words.iter_mut().enumerate().skip(version as usize * 5000).step_by(20_011) {
            *word = element(version, at, 0);
        }
        let model = words.to_vec();
        writer.publish(version).unwrap();
        reader.reattach(version, LONG).unwrap();
        copied.reattach(version, LONG).unwrap();
        assert!(reader.is_shown() && !copied.is_shown());
        assert_eq!(*at.get_or_insert(reader.address()), reader.address());
        assert_eq!(reader.variable::<f64>("w").unwrap(), &model[64 * 1024..192 * 1024]);
        // What is shown is held: later versions leave it as it is.
        writer.variable_mut::<f64>("u").unwrap().iter_mut().step_by(500).for_each(|word| *word = -1.0);
        assert_eq!(reader.variable::<f64>("w").unwrap(), &model[64 * 1024..192 * 1024]);
    }
    reader.reattach(0, LONG).unwrap();
    assert!(!reader.is_shown() && reader.bytes().iter().all(|byte| *byte == 0));
    assert_eq!(at.unwrap(), reader.address());
}

#[test]
fn records_and_several_variables_are_one_object() {
    let dir = Dir::new("records");
    let text =
        "type Cell struct { rho float64; id int32 } var mesh [10] Cell; var time float64; var flux [4,3] float32";
    let object = objects(&dir).create("mix", text).create().unwrap();
    let mut cells = object.write("view c aligned { var c = mesh }").attach().unwrap();
    let mut rest = object.write("{ var time = time; var f = flux }").attach().unwrap();
    for (cell, bytes) in cells.bytes_mut().unwrap().chunks_exact_mut(16).enumerate() {
        bytes[..8].copy_from_slice(&(cell as f64).to_le_bytes());
        bytes[8..12].copy_from_slice(&(100 + cell as i32).to_le_bytes());
    }
    rest.variable_mut::<f64>("time").unwrap()[0] = 2.5;
    rest.variable_mut::<f32>("f").unwrap().fill(1.5);
    cells.publish(1).unwrap();
    assert_eq!(object.newest().unwrap(), 0, "time and flux are missing");
    let mut rho = object.read("{ var rho = mesh.rho }").attach().unwrap();
    rho.reattach(1, LONG).expect("nobody waits for elements that he does not want");
    let missing = object.read("{ var id = mesh.id; var t = time }").attach().unwrap().reattach(1, SOON).unwrap_err();
    assert!(missing.to_string().contains("time of process"), "{missing}");
    rest.publish(1).unwrap();
    assert_eq!(object.newest().unwrap(), 1);
    assert_eq!(rho.variable::<f64>("rho").unwrap(), (0..10).map(f64::from).collect::<Vec<_>>());
    let mut both = object.read("{ var id = mesh.id; var t = time; var f [y:3,x:4] = flux[x,y] }").attach().unwrap();
    both.reattach(1, LONG).unwrap();
    assert_eq!(both.variable::<i32>("id").unwrap(), (100..110).collect::<Vec<i32>>());
    assert!(both.variable::<f32>("f").is_err() || both.variable::<f32>("f").unwrap() == [1.5; 12]);
}

#[test]
fn two_fragments_with_an_element_in_common_are_an_error_that_shows_both() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("overlap");
    let object = grid(&dir);
    let mut first = rows(&object, 0, 5);
    let second = object.write("{ var v [x:4,y:2] = u[x+4,y+1] }").rank(7).attach();
    let Err(error @ Error::Overlap { .. }) = second else { panic!("{second:?}") };
    let text = error.to_string();
    for part in ["rank 0", "rank 7", "u[4, 1..3]", "u[0..5, 0..6]", "u[4..8, 1..3]", "version 1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Nothing is left of the one that was refused.
    let mut other = rows(&object, 5, 3);
    publish_rows(&mut first, 0, 1);
    publish_rows(&mut other, 5, 1);
    assert_eq!(whole(&object, 1), expected(1));
    // A living writer that goes on publishing keeps its elements.
    let late = object.write("{ var u = u }").wait(SOON).attach();
    assert!(matches!(late, Err(Error::Overlap { .. })), "{late:?}");
    assert_eq!(object.writers().unwrap().len(), 2);
}

#[test]
fn fragments_that_cannot_be_written_are_refused() {
    let dir = Dir::new("refused");
    let object = grid(&dir);
    let attach = |text: &str| object.write(text).attach().unwrap_err();
    assert!(matches!(attach("view v readonly { var u = u }"), Error::NotWritable { .. }));
    assert!(matches!(attach("view v readonly { var a = u; var b = u }"), Error::NotWritable { .. }));
    for text in ["{ var u = v }", "{ var u [x:9,y:6] = u[x,y] }", "{ var u [x:n] = u[x,0] }", "var u", ""] {
        assert!(matches!(attach(text), Error::Text { .. }), "{text}: {}", attach(text));
    }
    let mut fragment = object.write("{ var u = u }").attach().unwrap();
    assert!(matches!(fragment.variable_mut::<f32>("u"), Err(Error::Variable { .. })));
    assert!(matches!(fragment.variable_mut::<f64>("v"), Err(Error::Variable { .. })));
    fragment.publish(5).unwrap();
    for version in [0, 4, 5] {
        assert!(matches!(fragment.publish(version), Err(Error::NotIncreasing { newest: 5, .. })));
    }
    assert!(matches!(object.write("{ var u = u }").version(3).attach(), Err(Error::Refused { .. })), "5 is complete");
}

#[test]
fn who_waits_is_told_for_whom() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("whom");
    let object = grid(&dir);
    let mut upper = rows(&object, 0, 4);
    publish_rows(&mut upper, 0, 1);
    let mut all = object.read("{ var u = u }").attach().unwrap();
    let nobody = all.reattach(1, SOON).unwrap_err();
    assert!(nobody.is_timeout() && nobody.to_string().contains("u[4..8, 0..6], which nobody has attached"), "{nobody}");
    let mut lower = rows(&object, 4, 4);
    let slow = all.reattach(1, SOON).unwrap_err();
    assert!(slow.to_string().contains("u[4..8, 0..6] of rank 4"), "{slow}");
    let newer = object.wait_newer(0, SOON).unwrap_err();
    assert!(newer.is_timeout() && newer.to_string().contains("rank 4"), "{newer}");
    assert_eq!(all.version(), 0, "an error leaves what was shown");
    // The elements that are wanted are waited for, not the whole version.
    let mut above = object.read("{ var u [x:4,y:6] = u[x,y] }").attach().unwrap();
    above.reattach(1, LONG).unwrap();

    let waiting = thread::spawn(move || {
        all.reattach(1, LONG).unwrap();
        all.variable::<f64>("u").unwrap().to_vec()
    });
    thread::sleep(SOON);
    publish_rows(&mut lower, 4, 1);
    assert_eq!(waiting.join().unwrap(), expected(1));
    assert_eq!(object.wait_newer(0, LONG).unwrap(), 1);
}

#[test]
fn a_version_that_went_or_was_left_out_is_lost() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("gone");
    let object = grid(&dir);
    let mut all = rows(&object, 0, 8);
    for version in [1, 3] {
        publish_rows(&mut all, 0, version);
    }
    for version in [1, 2] {
        let error = object.read("{ var u = u }").attach().unwrap().reattach(version, LONG).unwrap_err();
        let Error::Lost { losses, complete, .. } = &error else { panic!("{error}") };
        assert_eq!((losses[0].cause, *complete), (Some(Cause::Gone), Some(3)), "{error}");
    }
    assert_eq!(object.versions().unwrap(), [3]);
    let mut kept = object.read("{ var u = u }").attach().unwrap();
    kept.reattach(3, LONG).unwrap();
    publish_rows(&mut all, 0, 4);
    assert_eq!(kept.variable::<f64>("u").unwrap(), expected(3), "a copy stays");
}

#[test]
fn a_program_goes_on_with_other_numbers_of_writers() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("parts");
    let object = grid(&dir);
    let starts: [&[i64]; 4] = [&[0, 2, 4, 6], &[0, 4], &[0], &[0, 1, 2, 3, 4, 5, 6, 7]];
    let mut version = 0;
    for (round, starts) in starts.iter().enumerate() {
        let ends = starts[1..].iter().copied().chain([8]);
        let parts: Vec<(i64, i64)> = starts.iter().copied().zip(ends).collect();
        let mut writers: Vec<WriteFragment> = parts.iter().map(|(from, to)| rows(&object, *from, to - from)).collect();
        for (writer, (from, to)) in writers.iter_mut().zip(&parts) {
            assert_eq!(writer.version(), version, "round {round}");
            let wanted = if version == 0 { vec![0.0; 48] } else { expected(version) };
            let range = *from as usize * 6..*to as usize * 6;
            assert_eq!(writer.variable_mut::<f64>("u").unwrap(), &wanted[range], "round {round}");
        }
        for _ in 0..3 {
            version += 1;
            for (writer, (from, _)) in writers.iter_mut().zip(&parts) {
                publish_rows(writer, *from as usize, version);
            }
            assert_eq!(object.newest().unwrap(), version);
            assert_eq!(whole(&object, version), expected(version));
        }
        // What is not complete when they leave counts no more.
        let last = writers.len() > 1;
        if last {
            publish_rows(&mut writers[0], 0, version + 1);
        }
        drop(writers);
        assert_eq!(object.newest().unwrap(), version);
        assert_eq!(whole(&object, version), expected(version), "what was complete stays when all have left");
    }
    object.collect().unwrap();
    let left = object.writers().unwrap();
    assert_eq!(left.len(), 8, "only those of the last complete version are left: {left:?}");
    assert!(left.iter().all(|writer| !writer.is_alive));
    let ended = object.wait_newer(version, LONG).unwrap_err();
    assert!(matches!(ended, Error::Ended { complete: Some(12), .. }), "{ended}");
}

#[test]
fn elements_change_hands_between_two_versions() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("hands");
    let object = grid(&dir);
    let (mut upper, mut lower) = (rows(&object, 0, 4), rows(&object, 4, 4));
    publish_rows(&mut upper, 0, 1);
    publish_rows(&mut lower, 4, 1);
    // Each detaches and attaches another part, without a barrier in between: who comes first waits for the other.
    let other = object.clone();
    let first = thread::spawn(move || {
        upper.detach().unwrap();
        let mut fragment = rows(&other, 0, 6);
        let begun = fragment.variable_mut::<f64>("u").unwrap().to_vec();
        publish_rows(&mut fragment, 0, 2);
        (fragment, begun)
    });
    thread::sleep(SOON);
    lower.detach().unwrap();
    let mut lower = rows(&object, 6, 2);
    publish_rows(&mut lower, 6, 2);
    let (_upper, begun) = first.join().unwrap();
    assert_eq!(begun, expected(1)[..36]);
    object.wait_newer(1, LONG).unwrap();
    assert_eq!(whole(&object, 2), expected(2));
    object.collect().unwrap();
    assert_eq!(object.writers().unwrap().len(), 2, "what was left of version 1 is gone");
}

#[test]
fn loaned_fragments_are_published_without_a_copy() {
    let dir = Dir::new("loaned");
    let object = grid(&dir);
    let mut fragment = object.write("{ var u = u }").loaned().attach().unwrap();
    assert!(fragment.previous().unwrap().is_empty());
    assert!(fragment.bytes_mut().unwrap().iter().all(|byte| *byte == 0));
    let mut model = vec![0.0; 48];
    for version in 1..6u64 {
        {
            let (old, new) = fragment.previous_and_next().unwrap();
            let old: &[f64] = if old.is_empty() { &[0.0; 48] } else { bytemuck::cast_slice(old) };
            for (at, cell) in bytemuck::cast_slice_mut::<u8, f64>(new).iter_mut().enumerate() {
                *cell = old[at] + element(version, at, 1);
            }
        }
        model.iter_mut().enumerate().for_each(|(at, cell)| *cell += element(version, at, 1));
        let published = fragment.publish(version).unwrap();
        assert_eq!(published.copied_pages, 0);
        assert_eq!(whole(&object, version), model);
    }
}

#[test]
fn writers_may_say_how_many_they_are() {
    let dir = Dir::new("counted");
    let object = grid(&dir);
    let attach = |text: &str| object.write(text).writers(2).attach().unwrap();
    let (mut one, mut two) = (attach("{ var u [x:8] = u[x,0] }"), attach("{ var u [x:8] = u[x,5] }"));
    one.publish(1).unwrap();
    assert_eq!(object.newest().unwrap(), 0);
    two.publish(1).unwrap();
    assert_eq!(object.newest().unwrap(), 1);
    let hole = object.read("{ var u = u }").attach().unwrap().reattach(1, LONG).unwrap_err();
    let Error::Lost { losses, .. } = &hole else { panic!("{hole}") };
    assert_eq!(losses[0].cause, Some(Cause::Unwritten), "{hole}");
    object.read("{ var u [x:8] = u[x,5] }").attach().unwrap().reattach(1, LONG).unwrap();
}

#[test]
fn a_removed_object_is_gone_and_its_name_is_free() {
    let dir = Dir::new("removed");
    let objects = objects(&dir);
    let object = grid(&dir);
    let mut writer = rows(&object, 0, 8);
    publish_rows(&mut writer, 0, 1);
    assert!(matches!(objects.remove("grid", false), Err(Error::InUse { .. })));
    let mut reader = object.read("{ var u = u }").attach().unwrap();
    reader.reattach(1, LONG).unwrap();
    writer.detach().unwrap();
    objects.remove("grid", false).unwrap();
    assert!(matches!(objects.object_named("grid"), Err(Error::NoObject { .. })));
    assert_eq!(reader.variable::<f64>("u").unwrap(), expected(1));
    assert_eq!(objects.list().unwrap(), Vec::<String>::new());
    let again = objects.create("grid", "var u [8,6] float64").create().unwrap();
    assert_eq!((again.newest().unwrap(), again.writers().unwrap().len()), (0, 0));
    let mut writer = rows(&again, 0, 8);
    publish_rows(&mut writer, 0, 1);
    assert_eq!(whole(&again, 1), expected(1));
    let stale = reader.reattach(2, SOON);
    assert!(stale.is_err(), "an object is not another one that has its name later");
}

#[test]
fn waiting_ends_when_it_is_told_to() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("ends");
    let object = grid(&dir);
    let begin = Instant::now();
    assert!(object.read("{ var u = u }").attach().unwrap().reattach(1, SOON).unwrap_err().is_timeout());
    assert!(object.wait_newer(0, SOON).unwrap_err().is_timeout());
    assert!(object.read("{ var u = u }").attach().unwrap().reattach_newer(0, SOON).unwrap_err().is_timeout());
    assert!(begin.elapsed() >= 3 * SOON);
}

#[test]
fn an_object_is_put_together_in_a_region_and_taken_back() {
    let dir = Dir::new("assembly");
    let text = "type Cell struct { rho float64; id int32 } var mesh [5] Cell; var u [n,6] float64; var time float64";
    let object = objects(&dir).create("a/b", text).bind("n", 8).create().unwrap();
    let mut upper = object.write("{ var u [x:3,y:6] = u[x,y]; var t = time }").attach().unwrap();
    let mut lower = object.write("view l columnmajor { var u [x:5,y:6] = u[x+3,y] }").attach().unwrap();
    let mut cells = object.write("{ var m = mesh }").attach().unwrap();
    let mut assembly = Assembly::new(&object, 2).unwrap();
    let observer = assembly.observe().unwrap();
    for version in [1, 2, 5] {
        for (at, value) in upper.variable_mut::<f64>("u").unwrap().iter_mut().enumerate() {
            *value = element(version, at / 6, at % 6);
        }
        upper.variable_mut::<f64>("t").unwrap()[0] = version as f64;
        for (at, value) in lower.variable_mut::<f64>("u").unwrap().iter_mut().enumerate() {
            *value = element(version, 3 + at % 5, at / 5);
        }
        for (cell, bytes) in cells.bytes_mut().unwrap().chunks_exact_mut(12).enumerate() {
            bytes[..8].copy_from_slice(&(cell as f64 + 0.5).to_le_bytes());
            bytes[8..].copy_from_slice(&(version as i32 + cell as i32).to_le_bytes());
        }
        upper.publish(version).unwrap();
        lower.publish(version).unwrap();
        cells.publish(version).unwrap();
        assembly.take(version, LONG).unwrap();
        let snapshot = observer.newest().unwrap();
        assert_eq!(snapshot.version(), version);
        assert_eq!(snapshot.slice::<f64>("u").unwrap(), expected(version));
        assert_eq!(snapshot.variable("u").unwrap().shape, [8, 6]);
        assert_eq!(snapshot.slice::<f64>("time").unwrap(), [version as f64]);
        assert_eq!(snapshot.slice::<f64>("mesh.rho").unwrap(), [0.5, 1.5, 2.5, 3.5, 4.5]);
        assert_eq!(snapshot.slice::<i32>("mesh.id").unwrap()[4], version as i32 + 4);
        assert_eq!(snapshot.attributes()["object"], text.to_owned().into());
    }
    assert!(assembly.take(6, SOON).unwrap_err().is_timeout());
    assert_eq!(assembly.newest(), Some(5));

    let again = objects(&dir).create("again", text).bind("n", 8).create().unwrap();
    again.adopt(&observer.newest().unwrap()).unwrap();
    assert_eq!(again.newest().unwrap(), 5);
    assert_eq!(whole(&again, 5), expected(5));
    let mut part = again.write("{ var u [x:2,y:6] = u[x+4,y] }").attach().unwrap();
    assert_eq!((part.version(), part.variable_mut::<f64>("u").unwrap().to_vec()), (5, expected(5)[24..36].to_vec()));
    let other = objects(&dir).create("other", "var u [8,7] float64").create().unwrap();
    assert!(matches!(other.adopt(&observer.newest().unwrap()), Err(Error::Variable { .. })));
}

#[test]
fn views_and_replicas_of_the_objects_own_text_are_attached_by_name() {
    let dir = Dir::new("named");
    let text = "type Cell struct { rho float64; id int32 } var mesh [6] Cell
        view cells { var m = mesh } view rho readonly { var r = mesh.rho } view ids { var i [j:3] = mesh[2*j].id }
        replica both { view rho; view ids }";
    let object = objects(&dir).create("mesh", text).create().unwrap();
    let mut writer = object.write("cells").attach().unwrap();
    for (cell, bytes) in writer.bytes_mut().unwrap().chunks_exact_mut(12).enumerate() {
        bytes[..8].copy_from_slice(&(cell as f64).to_le_bytes());
        bytes[8..].copy_from_slice(&(10 * cell as i32).to_le_bytes());
    }
    writer.publish(1).unwrap();
    object.wait_for(1, LONG).unwrap();
    assert!(object.wait_for(2, SOON).unwrap_err().is_timeout());
    let mut both = object.read("both").attach().unwrap();
    both.reattach(1, LONG).unwrap();
    assert_eq!(both.variable::<f64>("rho.r").unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(both.variable::<i32>("ids.i").unwrap(), [0, 20, 40]);
    assert!(matches!(object.write("rho").attach(), Err(Error::NotWritable { .. })));
    assert!(matches!(object.write("nothing").attach(), Err(Error::Text { .. })));
}

#[test]
fn the_newest_complete_version_never_goes_back() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("forward");
    let object = grid(&dir);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let publish = |first: i64| {
        let (object, stop) = (object.clone(), stop.clone());
        thread::spawn(move || {
            let mut fragment = rows(&object, first, 4);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let version = fragment.version() + 1;
                publish_rows(&mut fragment, first as usize, version);
                // As ghosts would: nobody is more than a version ahead.
                while object.newest().unwrap() + 1 < version && !stop.load(std::sync::atomic::Ordering::Relaxed) {}
            }
        })
    };
    let writers = [publish(0), publish(4)];
    object.wait_newer(0, LONG).unwrap();
    let other = dir.objects().object_named("grid").unwrap();
    let (mut newest, begin) = (0, Instant::now());
    while newest <= 5 || begin.elapsed() < Duration::from_secs(1) {
        let now = other.newest().unwrap();
        assert!(now >= newest, "{now} after {newest}");
        newest = now;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

#[test]
fn who_opened_an_object_to_look_and_then_writes_is_noticed() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("looked");
    let object = dir.objects().create("u", "var u [8] int32").create().unwrap();
    let mut all = object.read("{ var v = u }").attach().unwrap();
    assert!(all.reattach(1, Duration::from_millis(20)).unwrap_err().is_timeout());
    let looking = Objects::options().dir(dir.path()).look().unwrap().unwrap();
    let mut writer = looking.object_named("u").unwrap().write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    all.reattach(1, LONG).unwrap();
    assert_eq!(object.newest().unwrap(), 1);
    writer.detach().unwrap();
    assert!(!object.is_alive().unwrap());
}
