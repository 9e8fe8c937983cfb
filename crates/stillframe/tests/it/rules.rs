//! What happens at a region's bound, and after publishes that failed: nothing that was written is ever lost.

use crate::helper;

use crate::common::{Dir, watchdog};
use crate::helper::{say, start, until};
use std::path::Path;
use std::time::{Duration, Instant};
use stillframe::{
    Array, DType, Declaration, Element, Error, Family, Kind, Observer, Outcome, Published, Region, Result, Rule,
    Snapshot, inspect,
};

const PAGES: usize = 64;
const WORDS: usize = PAGES * 512;
const BYTES: u64 = (PAGES * 4096) as u64;

/// Whether the producer of the region waits for room.
fn is_waiting(dir: &Path) -> bool {
    inspect::region(dir, "r").unwrap().waiting_ns.is_some()
}

/// A region with one array whose pages are all written by every version, and room for so many versions of it.
struct Tight {
    dir: Dir,
    region: Region,
    array: Array<u64>,
}

impl Tight {
    fn new(rule: Rule, versions: u64) -> Tight {
        let dir = Dir::new("tight");
        let mut region = dir.options().rule(rule).bound_bytes(versions * BYTES).create("r").unwrap();
        let array = region.array("a", &[WORDS]).unwrap();
        Tight { dir, region, array }
    }

    fn fill(&mut self, version: u64) {
        self.region.slice_mut(&self.array).fill(version);
    }

    fn publish(&mut self, version: u64) -> Result<Published> {
        self.fill(version);
        self.region.publish(version).commit()
    }

    fn hold(&self) -> Snapshot {
        self.dir.observe("r").newest().unwrap()
    }
}

fn is_all(snapshot: &Snapshot, value: u64) -> bool {
    snapshot.slice::<u64>("a").unwrap().iter().all(|element| *element == value)
}

fn check_bound(error: &Error, held: usize) {
    let Error::Bound { held: found, bound_bytes, needed_bytes, used_bytes, .. } = error else { panic!("{error}") };
    assert_eq!((*found, *needed_bytes), (held, BYTES));
    assert!(used_bytes + needed_bytes > *bound_bytes);
    let text = error.to_string();
    assert!(text.contains(&bound_bytes.to_string()) && text.contains(&used_bytes.to_string()), "{text}");
    assert!(text.contains("raise the bound"), "{text}");
    assert_eq!(error.family(), Family::Environment);
}

#[test]
fn the_rule_fail_says_who_is_in_the_way_and_loses_nothing() {
    let _watchdog = watchdog(300);
    let mut tight = Tight::new(Rule::Fail, 2);
    tight.publish(1).unwrap();
    let one = tight.hold();
    tight.publish(2).unwrap();
    let two = tight.hold();
    check_bound(&tight.publish(3).unwrap_err(), 1);
    assert!(is_all(&one, 1) && is_all(&two, 2) && is_all(&tight.hold(), 2));
    // What was written for the version that failed comes with the next, though nothing is written again.
    drop(one);
    drop(two);
    let published = tight.region.publish(4).commit().unwrap();
    assert_eq!(published.dirty_pages, PAGES as u64);
    assert!(is_all(&tight.hold(), 3));
    assert_eq!(tight.region.statistics().skipped, 0);
}

#[test]
fn the_rule_skip_leaves_versions_out_and_keeps_what_was_written() {
    let _watchdog = watchdog(300);
    let mut tight = Tight::new(Rule::Skip, 2);
    tight.publish(1).unwrap();
    let one = tight.hold();
    tight.publish(2).unwrap();
    for version in 3..6 {
        let published = tight.publish(version).unwrap();
        assert_eq!((published.outcome, published.copied_pages), (Outcome::Skipped, 0));
    }
    // Parts that are written only while versions are skipped are not forgotten either.
    tight.region.slice_mut(&tight.array)[7 * 512] = 77;
    assert_eq!(tight.region.publish(6).commit().unwrap().outcome, Outcome::Skipped);
    assert_eq!(tight.hold().version(), 2);
    assert!(is_all(&one, 1) && is_all(&tight.hold(), 2));
    drop(one);
    let published = tight.region.publish(6).commit().unwrap();
    assert_eq!((published.outcome, published.dirty_pages), (Outcome::Published, PAGES as u64));
    let snapshot = tight.hold();
    let slice = snapshot.slice::<u64>("a").unwrap();
    assert!(slice.iter().enumerate().all(|(index, element)| *element == if index == 7 * 512 { 77 } else { 5 }));
    assert_eq!(tight.region.statistics().skipped, 4);
}

#[test]
fn the_rule_wait_gives_up_after_its_timeout() {
    let _watchdog = watchdog(300);
    let timeout = Duration::from_millis(60);
    let mut tight = Tight::new(Rule::Wait { timeout: Some(timeout) }, 2);
    tight.publish(1).unwrap();
    let one = tight.hold();
    tight.publish(2).unwrap();
    let begin = Instant::now();
    check_bound(&tight.publish(3).unwrap_err(), 1);
    assert!(begin.elapsed() >= timeout);
    assert!(is_all(&one, 1));
    drop(one);
    tight.region.publish(3).commit().unwrap();
    assert!(is_all(&tight.hold(), 3));
}

#[test]
fn a_wait_ends_when_a_thread_lets_go() {
    let _watchdog = watchdog(300);
    let mut tight = Tight::new(Rule::Wait { timeout: None }, 2);
    tight.publish(1).unwrap();
    let one = tight.hold();
    tight.publish(2).unwrap();
    let dir = tight.dir.path().to_path_buf();
    let thread = std::thread::spawn(move || {
        until("the producer to wait", || is_waiting(&dir));
        assert!(is_all(&one, 1));
        drop(one);
    });
    assert_eq!(tight.publish(3).unwrap().outcome, Outcome::Published);
    thread.join().unwrap();
    assert!(is_all(&tight.hold(), 3));
}

#[test]
fn a_thread_that_holds_its_own_snapshot_does_not_stop_itself() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("own");
    let mut region = dir.options().bound_bytes(2 * BYTES).create("r").unwrap();
    let array = region.array("a", &[WORDS]).unwrap();
    let mut tight = Tight { dir, region, array };
    tight.publish(1).unwrap();
    let one = tight.hold();
    tight.publish(2).unwrap();
    assert_eq!(tight.publish(3).unwrap().outcome, Outcome::Skipped);
    assert!(is_all(&one, 1) && is_all(&tight.hold(), 2));
}

fn holder(arguments: &[String]) {
    let observer = Observer::options().dir(&arguments[0]).open("r").unwrap();
    let snapshot = observer.newest().unwrap();
    say("holds");
    helper::wait_for_word();
    assert!(is_all(&snapshot, 1));
    drop(snapshot);
    helper::wait_for_word();
}

#[test]
fn a_wait_ends_when_a_process_lets_go_or_is_killed() {
    let _watchdog = watchdog(300);
    for is_killed in [false, true] {
        let mut tight = Tight::new(Rule::Wait { timeout: None }, 2);
        tight.publish(1).unwrap();
        let mut helper = start("holder", &[tight.dir.path().to_str().unwrap()]);
        helper.expect("holds");
        tight.publish(2).unwrap();
        let pid = helper.pid();
        let dir = tight.dir.path().to_path_buf();
        let killer = std::thread::spawn(move || {
            until("the producer to wait", || is_waiting(&dir));
            match is_killed {
                true => drop(helper.kill()),
                false => helper.tell(),
            }
            helper
        });
        assert_eq!(tight.publish(3).unwrap().outcome, Outcome::Published);
        assert!(is_all(&tight.hold(), 3), "{pid}");
        drop(killer.join().unwrap());
    }
}

#[test]
fn a_bound_too_small_for_one_version_is_an_error_under_every_rule_that_does_not_skip() {
    let _watchdog = watchdog(300);
    for rule in [Rule::Fail, Rule::Wait { timeout: None }] {
        let mut tight = Tight::new(rule, 1);
        tight.publish(1).unwrap();
        // The newest version stays until there is a newer one, so there is no room for that.
        check_bound(&tight.publish(2).unwrap_err(), 0);
        assert!(is_all(&tight.hold(), 1));
    }
}

#[test]
fn versions_held_in_all_slots_of_the_ring_are_a_bound() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("ring");
    let mut region = dir.options().rule(Rule::Fail).keep(4).create("r").unwrap();
    let array = region.array::<u64>("a", &[5 * 512]).unwrap();
    let observer = dir.observe("r");
    let mut held = Vec::new();
    let mut version = 0;
    let error = loop {
        version += 1;
        region.slice_mut(&array)[version % 5 * 512] = version as u64;
        match region.publish(version as u64).commit() {
            Ok(_) => held.push((observer.newest().unwrap(), region.slice(&array).to_vec())),
            Err(error) => break error,
        }
    };
    let Error::NoSlot { slots, held: count, .. } = &error else { panic!("{error}") };
    // All but the newest, which is not counted as held although it is.
    assert_eq!((*slots, *count, held.len()), (64, 63, 64));
    for (snapshot, content) in &held {
        assert_eq!(snapshot.slice::<u64>("a").unwrap(), content);
    }
    // Any of them may go.
    held.remove(30);
    region.publish(version as u64).commit().unwrap();
    assert_eq!(observer.newest().unwrap().slice::<u64>("a").unwrap(), region.slice(&array));
    assert!(matches!(region.publish(1000).commit(), Err(Error::NoSlot { .. })));
    for (snapshot, content) in &held {
        assert_eq!(snapshot.slice::<u64>("a").unwrap(), content);
    }
    held.clear();
    region.publish(1000).commit().unwrap();
    assert!(observer.versions().len() <= 4);
}

#[test]
fn a_version_held_at_the_moment_it_is_given_up_is_whole_or_refused() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("moment");
    let mut region = dir.options().create("r").unwrap();
    let array = region.array::<u64>("a", &[3 * 512]).unwrap();
    region.slice_mut(&array).fill(1);
    region.publish(1).commit().unwrap();
    let (done, held) = (std::sync::atomic::AtomicBool::new(false), std::sync::atomic::AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let look = |which: usize| {
            let (dir, done, held) = (&dir, &done, &held);
            move || {
                let observer = dir.observe("r");
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    // Mostly versions that are about to go.
                    let result = match which {
                        0 => observer.newest(),
                        _ => observer
                            .versions()
                            .first()
                            .map_or_else(|| observer.newest(), |v| observer.version(v.version)),
                    };
                    match result {
                        Ok(snapshot) => {
                            let slice = snapshot.slice::<u64>("a").unwrap();
                            for _ in 0..20 {
                                assert!(slice.iter().all(|element| *element == snapshot.version()));
                            }
                            held.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                        Err(Error::VersionGone { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        };
        let threads: Vec<_> = (0..3).map(|which| scope.spawn(look(which))).collect();
        let mut version = 2;
        while version < 20_000 || held.load(std::sync::atomic::Ordering::Relaxed) <= 100 {
            region.slice_mut(&array).fill(version);
            region.publish(version).commit().unwrap();
            version += 1;
            // Of threads that found something wrong none looks any more.
            assert!(version < 20_000 || !threads.iter().all(|thread| thread.is_finished()));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_tracked_variable_left_out_after_a_failed_publish_is_as_it_was_published_last() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("left-out");
    for rule in [Rule::Fail, Rule::Skip] {
        let mut region = dir.options().rule(rule).bound_bytes(3 * BYTES).keep(1).create("r").unwrap();
        let array = region.array::<u64>("a", &[WORDS]).unwrap();
        let tracked = region.track::<u64>("t").unwrap();
        let other = region.track::<u64>("other").unwrap();
        let first = vec![1u64; 512 * 8];
        let observer = dir.observe("r");
        let mut version = 0;
        let mut expected = first.clone();
        region.slice_mut(&array).fill(9);
        region.publish(1).tracked(&tracked, &first, &[first.len()]).commit().unwrap();
        let mut buffers: Vec<Vec<u64>> = (0..7).map(|index| vec![index + 2; 512 * (8 + 3 * index as usize)]).collect();
        for round in 0..40 {
            version += 10;
            // A version that fails for the room the array takes, having been given the tracked variable elsewhere.
            let held = observer.newest().unwrap();
            region.slice_mut(&array).fill(version);
            region.publish(version).commit().unwrap();
            let also_held = observer.newest().unwrap();
            region.slice_mut(&array).fill(version + 1);
            let index = round % buffers.len();
            buffers[index].fill(version);
            let mut failed = 0;
            for attempt in 0..2 {
                let buffer = &buffers[(index + attempt) % 7];
                let shape = [buffer.len() / 8, 8];
                let publication = region.publish(version + 1).tracked(&tracked, buffer, &shape);
                let result = publication.tracked(&other, buffer, &shape).commit();
                failed += usize::from(!matches!(result, Ok(Published { outcome: Outcome::Published, .. })));
            }
            assert_eq!(failed, 2);
            drop(held);
            drop(also_held);
            region.publish(version + 2).commit().unwrap();
            let snapshot = observer.newest().unwrap();
            assert!(snapshot.slice::<u64>("t").unwrap() == expected, "round {round}");
            assert_eq!(snapshot.variable("t").unwrap().shape.iter().product::<usize>(), expected.len());
            assert!(is_all(&snapshot, version + 1));
            drop(snapshot);
            let given = &buffers[(index + 2) % 7];
            let publication = region.publish(version + 3).tracked(&tracked, given, &[given.len()]);
            publication.commit().unwrap();
            expected.clone_from(given);
            let snapshot = observer.newest().unwrap();
            assert!(snapshot.slice::<u64>("t").unwrap() == expected, "round {round}");
            assert!(snapshot.variable("other").is_err(), "it was never published");
            assert!(snapshot.changed(&snapshot, "t").unwrap().is_empty());
        }
        region.unlink().unwrap();
    }
}

#[test]
fn a_failed_publish_does_not_give_up_what_was_recovered() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("dormant");
    let mut region = dir.options().create("r").unwrap();
    for name in ["a", "b"] {
        let array = region.array::<u64>(name, &[WORDS]).unwrap();
        region.slice_mut(&array).fill(7);
    }
    region.publish(1).commit().unwrap();
    drop(region);
    let mut region = dir.options().rule(Rule::Fail).bound_bytes(2 * BYTES).create("r").unwrap();
    let held = dir.observe("r").newest().unwrap();
    let a = region.array::<u64>("a", &[WORDS]).unwrap();
    region.slice_mut(&a).fill(8);
    assert!(matches!(region.publish(2).commit(), Err(Error::Bound { .. })));
    let b = region.array::<u64>("b", &[WORDS]).unwrap();
    assert!(region.slice(&b).iter().all(|element| *element == 7));
    assert!(is_all(&held, 7));
}

#[test]
fn a_fresh_region_begins_with_nothing_but_never_takes_a_living_one() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("fresh");
    let begin = |version| {
        let mut region = dir.options().fresh(true).create("run")?;
        let array = region.array::<u64>("a", &[1000])?;
        assert_eq!((region.recovered(), region.slice(&array)[0]), (None, 0));
        region.slice_mut(&array).fill(version);
        region.publish(version).commit()?;
        Ok::<Region, Error>(region)
    };
    let first = begin(5).unwrap();
    assert!(matches!(begin(1), Err(Error::InUse { .. })), "the producer lives");
    let held = dir.observe("run").newest().unwrap();
    drop(first);
    let second = begin(1).unwrap();
    let seen = dir.observe("run").newest().unwrap();
    assert_eq!((seen.version(), held.version()), (1, 5));
    assert!(is_all(&seen, 1) && held.slice::<u64>("a").unwrap().iter().all(|value| *value == 5));
    drop(second);
}

#[test]
fn a_variable_that_takes_the_place_of_a_recovered_one_begins_with_zeros() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("recovered");
    let names = ["a", "b", "t", "l"];
    let other = vec![7u64; WORDS + 100];
    let mut region = dir.options().create("r").unwrap();
    for name in &names[..2] {
        let array = region.array::<u64>(name, &[WORDS]).unwrap();
        region.slice_mut(&array).fill(7);
    }
    let t = region.track::<u64>("t").unwrap();
    let l = region.loaned::<u64>("l", &[WORDS]).unwrap();
    let mut loan = region.loan(&l).unwrap();
    loan.fill(7);
    loan.submit();
    region.publish(1).tracked(&t, &other, &[other.len()]).commit().unwrap();
    drop(region);
    // Another shape, another type; tracked variables begin without content, too. Pages that nobody wrote have no memory.
    let mut region = dir.options().large_pages(false).create("r").unwrap();
    let a = region.array::<u64>("a", &[WORDS + 1]).unwrap();
    let b = region.array::<f32>("b", &[2 * WORDS]).unwrap();
    let _t = region.track::<u64>("t").unwrap();
    let _l = region.loaned::<u64>("l", &[WORDS, 1]).unwrap();
    let new: Vec<Array<u64>> =
        ["n1", "n2", "n3"].iter().map(|name| region.array::<u64>(name, &[WORDS]).unwrap()).collect();
    region.slice_mut(&a)[5] = 5;
    region.slice_mut(&b)[5] = 5.0;
    for new in &new {
        region.slice_mut(new)[5] = 5;
    }
    region.publish(2).commit().unwrap();
    let snapshot = dir.observe("r").newest().unwrap();
    for name in ["a", "n1", "n2", "n3"] {
        let slice = snapshot.slice::<u64>(name).unwrap();
        let wrong = slice.iter().enumerate().find(|(index, element)| **element != if *index == 5 { 5 } else { 0 });
        assert_eq!(wrong, None, "{name}");
    }
    assert_eq!(snapshot.slice::<f32>("b").unwrap(), region.slice(&b));
    assert!(snapshot.slice::<u64>("l").unwrap().iter().all(|element| *element == 0));
    assert!(snapshot.variable("t").is_err());
}

#[test]
fn a_loan_of_a_variable_that_was_resized_or_removed_meanwhile_reaches_nobody() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("loan");
    let mut region = dir.options().create("r").unwrap();
    let l = region.loaned::<u64>("l", &[WORDS]).unwrap();
    let observer = dir.observe("r");
    let mut loans = vec![region.loan(&l).unwrap(), region.loan(&l).unwrap()];
    region.resize(l.id(), &[5 * WORDS * 8]).unwrap();
    // These get the place that the loans lie in.
    let a = region.array::<u64>("a", &[WORDS]).unwrap();
    region.slice_mut(&a).fill(3);
    region.publish(1).commit().unwrap();
    let snapshot = observer.newest().unwrap();
    loans[0].fill(5);
    loans.remove(0).submit();
    region.publish(2).commit().unwrap();
    assert!(is_all(&snapshot, 3) && is_all(&observer.newest().unwrap(), 3));
    assert!(observer.newest().unwrap().slice::<u64>("l").unwrap().iter().all(|element| *element == 0));
    let late = region.loan(&l).unwrap();
    region.remove("l").unwrap();
    region.slice_mut(&a).fill(4);
    region.publish(3).commit().unwrap();
    late.submit();
    loans[0].fill(6);
    loans.remove(0).submit();
    region.slice_mut(&a)[0] = 4;
    region.publish(4).commit().unwrap();
    assert!(is_all(&snapshot, 3) && is_all(&observer.newest().unwrap(), 4));
    let small = region.loaned::<u64>("l", &[WORDS]).unwrap();
    let mut loan = region.loan(&small).unwrap();
    // A loan of a variable that shrinks ends in windows that are no more.
    region.resize(small.id(), &[1]).unwrap();
    loan.fill(8);
    loan.submit();
    region.publish(5).commit().unwrap();
    assert!(is_all(&observer.newest().unwrap(), 4));
    assert_eq!(observer.newest().unwrap().slice::<u64>("l").unwrap(), [0]);
}

#[test]
fn misuse_is_told_clearly_and_changes_nothing() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("misuse");
    let mut region = dir.options().create("r").unwrap();
    let a = region.array::<u64>("a", &[10, 20]).unwrap();
    let t = region.track::<f64>("t").unwrap();
    let l = region.loaned::<u64>("l", &[3]).unwrap();
    region.slice_mut(&a).fill(1);
    let content = [1.5f64; 30];
    region.publish(5).tracked(&t, &content, &[5, 6]).commit().unwrap();
    region.slice_mut(&a)[3] = 2;
    let misuse = |error: Error, parts: &[&str]| {
        let text = error.to_string();
        assert_eq!(error.family(), Family::Misuse, "{text}");
        for part in parts {
            assert!(text.contains(part), "'{part}' is not in: {text}");
        }
    };
    for version in [0, 4, 5] {
        let error = region.publish(version).commit().unwrap_err();
        assert!(matches!(error, Error::NotIncreasing { newest: 5, .. }), "{error}");
        misuse(error, &["5", "higher"]);
    }
    misuse(
        region.publish(u64::MAX).commit().unwrap_err(),
        &["18446744073709551615", "greatest", "18446744073709551614 at most"],
    );
    misuse(region.publish(6).tracked(&t, &content, &[30, 2]).commit().unwrap_err(), &["'t'", "480", "240"]);
    misuse(region.publish(6).tracked(&t, &content, &[usize::MAX, 3]).commit().unwrap_err(), &["'t'", "too many"]);
    misuse(region.publish(6).tracked(&t, &content, &[30; 9]).commit().unwrap_err(), &["9 dimensions"]);
    let twice = region.publish(6).tracked(&t, &content, &[30]).tracked(&t, &content, &[30]).commit();
    misuse(twice.unwrap_err(), &["twice"]);
    misuse(region.array::<u64>("a", &[1]).unwrap_err(), &["already", "'a'"]);
    for name in ["", "a b", "a[0]", "a/b", "\u{7}"] {
        misuse(region.array::<u64>(name, &[1]).unwrap_err(), &["cannot name"]);
    }
    misuse(region.array::<u64>("big", &[usize::MAX, 2]).unwrap_err(), &["too many"]);
    misuse(region.array::<u64>("deep", &[1; 9]).unwrap_err(), &["9 dimensions"]);
    let unsized_record = DType::Record { fields: Vec::new(), bytes: 3 };
    let declaration = Declaration::new("odd", DType::Int(3), Kind::Tracked);
    misuse(region.declare(declaration).unwrap_err(), &["'odd'"]);
    drop(unsized_record);
    misuse(region.remove("none").unwrap_err(), &["'none'", "a, t, l"]);
    misuse(region.resize(t.id(), &[4]).unwrap_err(), &["'t'", "tracked"]);
    misuse(region.loan_bytes(a.id()).unwrap_err(), &["'a'", "managed"]);
    misuse(region.managed_bytes(l.id()).unwrap_err(), &["'l'", "loaned"]);
    misuse(region.mark_dirty(a.id(), 1..1601).unwrap_err(), &["1601", "1600"]);
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = 5..1;
    misuse(region.mark_dirty(a.id(), backwards).unwrap_err(), &["5..1"]);
    region.mark_dirty(a.id(), 1600..1600).unwrap();
    misuse(dir.options().keep(0).create("q").unwrap_err(), &["keep"]);
    misuse(dir.options().keep(33).create("q").unwrap_err(), &["keep", "32"]);
    misuse(dir.options().threads(0).create("q").unwrap_err(), &["threads"]);
    misuse(dir.options().mode(0o077).create("q").unwrap_err(), &["mode"]);
    for name in ["", ".", "..", "a/../b", "/a", "a//b", "a/", "ä"] {
        misuse(dir.options().create(name).unwrap_err(), &["cannot name a region"]);
        misuse(Observer::options().dir(dir.path()).open(name).unwrap_err(), &["cannot name a region"]);
    }

    let observer = dir.observe("r");
    let snapshot = observer.newest().unwrap();
    misuse(snapshot.slice::<u64>("b").unwrap_err(), &["'b'", "a, t, l"]);
    misuse(snapshot.slice::<f64>("a").unwrap_err(), &["'a'", &u64::dtype().to_string(), &f64::dtype().to_string()]);
    misuse(snapshot.slice::<u32>("a").unwrap_err(), &["'a'"]);
    misuse(snapshot.read("a", 1599, &mut [0; 2]).unwrap_err(), &["1601", "1600"]);
    misuse(snapshot.read("a", usize::MAX, &mut [0; 2]).unwrap_err(), &["1600"]);
    misuse(snapshot.chunks_in("a", 0..1601).map(drop).unwrap_err(), &["1601"]);
    misuse(snapshot.view("none").map(drop).unwrap_err(), &["'none'"]);
    misuse(snapshot.changed(&snapshot, "none").unwrap_err(), &["'none'"]);
    let mut region2 = dir.options().create("r2").unwrap();
    region2.publish(1).commit().unwrap();
    let error = snapshot.changed(&dir.observe("r2").newest().unwrap(), "a").unwrap_err();
    misuse(error, &["different regions", "'r'", "'r2'"]);
    let error = observer.version(4).unwrap_err();
    assert!(matches!(error, Error::VersionGone { version: 4, oldest: Some(5), newest: Some(5), .. }), "{error}");
    let missing = Observer::options().dir(dir.path()).open("none").unwrap_err();
    assert!(matches!(missing, Error::NoRegion { .. }) && missing.to_string().contains("'none'"), "{missing}");

    // Nothing of all this was published, and nothing that was written before was lost.
    assert_eq!(observer.newest().unwrap().version(), 5);
    let published = region.publish(6).commit().unwrap();
    assert_eq!(published.dirty_pages, 1);
    let snapshot = observer.newest().unwrap();
    assert_eq!(snapshot.slice::<u64>("a").unwrap(), region.slice(&a));
    assert_eq!(snapshot.slice::<f64>("t").unwrap(), content);
    assert_eq!(snapshot.variable("t").unwrap().shape, [5, 6]);
}

#[test]
fn helper_process() {
    helper::enter(&[("holder", holder)]);
    until("nothing", || true);
}

#[test]
fn snapshots_of_two_runs_with_one_name_are_not_taken_for_versions_of_one() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("runs");
    let publish = |value: u64| {
        let mut region = dir.options().fresh(true).create("r").unwrap();
        let array = region.array::<u64>("u", &[4096]).unwrap();
        region.slice_mut(&array).fill(value);
        region.publish(7).commit().unwrap();
        let observer = dir.observe("r");
        (region, observer.newest().unwrap(), observer)
    };
    let (region, first, observer) = publish(1);
    assert!(observer.is_current());
    let begun_ns = observer.begun_ns();
    drop(region);
    let (mut region, second, again) = publish(2);
    // In both files the version lies in the same planes.
    assert_eq!(second.changed(&first, "u").unwrap(), vec![0..4096 * 8]);
    assert!(!second.is_of_same_files(&first) && first.is_of_same_files(&first.clone()));
    assert!(!observer.is_current() && again.is_current());
    assert!(again.begun_ns() > begun_ns);
    assert_eq!(second.sequence(), 1);
    region.publish(100).commit().unwrap();
    let third = again.newest().unwrap();
    assert_eq!((third.sequence(), third.changed(&second, "u").unwrap()), (2, vec![]));
}

#[test]
fn a_bound_that_is_raised_is_room_for_the_next_publish() {
    let mut tight = Tight::new(Rule::Fail, 1);
    tight.publish(1).unwrap();
    check_bound(&tight.publish(2).unwrap_err(), 0);
    tight.region.set_bound_bytes(Some(2 * BYTES));
    assert_eq!(stillframe::inspect::region(tight.dir.path(), "r").unwrap().bound_bytes, Some(2 * BYTES));
    tight.publish(2).unwrap();
    let held = tight.hold();
    tight.publish(3).unwrap();
    check_bound(&tight.publish(4).unwrap_err(), 1);
    tight.region.set_bound_bytes(None);
    tight.publish(4).unwrap();
    // A lower one takes nothing away.
    tight.region.set_bound_bytes(Some(BYTES));
    assert!(is_all(&held, 2) && is_all(&tight.hold(), 4));
}

#[test]
fn a_version_that_is_held_can_be_handed_on_after_it_was_retired() {
    let _watchdog = watchdog(300);
    let mut tight = Tight::new(Rule::Fail, 8);
    tight.publish(1).unwrap();
    let observer = tight.dir.observe("r");
    let held = observer.newest().unwrap();
    tight.publish(2).unwrap();
    tight.publish(3).unwrap();
    assert!(matches!(observer.version(1), Err(Error::VersionGone { .. })));
    let handed = tight.dir.observe("r").version_held(1, || true).unwrap();
    drop(held);
    for version in 4..10 {
        tight.publish(version).unwrap();
        assert!(is_all(&handed, 1));
    }
    // Who has let go by then hands nothing on, nor is what is no more there.
    assert!(matches!(observer.version_held(1, || false), Err(Error::VersionGone { version: 1, .. })));
    assert!(matches!(observer.version_held(2, || true), Err(Error::VersionGone { version: 2, .. })));
    assert!(is_all(&observer.version_held(9, || true).unwrap(), 9));
    drop(handed);
    // What was held for long is asked about now and then.
    let mut version = 10;
    while !matches!(observer.version_held(1, || true), Err(Error::VersionGone { .. })) {
        tight.publish(version).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        version += 1;
    }
}
