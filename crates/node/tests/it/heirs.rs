//! Who takes the place of a writer that is gone goes on from the newest complete version, on all nodes, whatever that one had published.

use crate::common::{until, watchdog};
use crate::places::{Fault, Nodes};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stillframe_object::{Error, Object, Objects, WriteFragment, WriteOptions};

const LONG: Duration = Duration::from_secs(60);

fn left(object: &Object) -> WriteOptions {
    object.write("{ var v [x:4] = u[x] }")
}

fn right(object: &Object) -> WriteOptions {
    object.write("{ var v [x:4] = u[x+4] }")
}

/// What a writer publishes says who it is.
fn publish(fragment: &mut WriteFragment, who: i64, version: u64) {
    fragment.variable_mut::<i64>("v").unwrap().fill(100 * version as i64 + who);
    fragment.publish(version).unwrap();
}

/// Who wrote which half of a version.
fn halves(object: &Object, version: u64) -> [i64; 2] {
    let mut all = object.read("{ var v = u }").attach().unwrap();
    all.reattach(version, LONG).unwrap();
    let got = all.variable::<i64>("v").unwrap();
    let half = |from: usize| {
        assert!(got[from..from + 4].iter().all(|value| *value == got[from]), "{got:?}");
        got[from] - 100 * version as i64
    };
    [half(0), half(4)]
}

fn await_newest(object: &Object, version: u64) {
    let begin = Instant::now();
    while object.newest().unwrap() != version {
        assert!(begin.elapsed() < LONG, "{} and not {version}: {:?}", object.newest().unwrap(), object.writers());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Two nodes with an object each half of which somebody writes, both at version 2.
fn both(nodes: &Nodes) -> ([Object; 2], [WriteFragment; 2]) {
    let here = nodes.objects(0).create("u", "var u [8] int64").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut first = left(&here).attach().unwrap();
    let mut other = right(&there).attach().unwrap();
    for version in 1..=2 {
        publish(&mut first, 1, version);
        publish(&mut other, 2, version);
    }
    [&here, &there].into_iter().for_each(|object| await_newest(object, 2));
    ([here, there], [first, other])
}

/// The same; the first half's writer is then ahead, and gone.
fn ahead(nodes: &Nodes) -> ([Object; 2], WriteFragment) {
    let (objects, [mut first, other]) = both(nodes);
    (3..=6).for_each(|version| publish(&mut first, 1, version));
    (objects, other)
}

fn go_on(objects: &[Object; 2], other: &mut WriteFragment, heir: &mut WriteFragment) {
    assert_eq!(heir.version(), 2);
    assert!(heir.variable_mut::<i64>("v").unwrap().iter().all(|value| *value == 201), "it begins with its content");
    (3..=6).for_each(|version| publish(other, 2, version));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(
        objects.each_ref().map(|object| object.newest().unwrap()),
        [2, 2],
        "what is left over counts for nothing"
    );
    for version in 3..=7 {
        if version == 7 {
            publish(other, 2, version);
        }
        publish(heir, 3, version);
        for object in objects {
            await_newest(object, version.max(3));
            assert_eq!(halves(object, version), [3, 2], "version {version}");
        }
    }
}

#[test]
fn an_heir_goes_on_where_others_publish_the_same_versions_later() {
    let _watchdog = watchdog(120);
    for place in 0..2 {
        let nodes = Nodes::new("heirs", 2);
        let (objects, mut other) = ahead(&nodes);
        let mut heir = left(&objects[place]).wait(LONG).attach().unwrap();
        go_on(&objects, &mut other, &mut heir);
    }
}

#[test]
fn an_heir_goes_on_whatever_runtimes_are_started_again() {
    let _watchdog = watchdog(240);
    for (place, restarted) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut nodes = Nodes::new("again", 2);
        let (objects, mut other) = ahead(&nodes);
        let mut heir = left(&objects[place]).wait(LONG).attach().unwrap();
        nodes.stop(restarted);
        nodes.start(restarted);
        // Of what the other publishes before its node knows of the heir it keeps the newest.
        (3..=6).for_each(|version| publish(&mut other, 2, version));
        for version in 3..=7 {
            if version == 7 {
                publish(&mut other, 2, version);
            }
            publish(&mut heir, 3, version);
            for object in &objects {
                if version < 6 {
                    let newest = object.newest().unwrap();
                    assert!((2..=version).contains(&newest), "{newest} at {version}");
                    continue;
                }
                await_newest(object, version);
                assert_eq!(halves(object, version), [3, 2], "version {version}");
            }
        }
    }
}

#[test]
fn an_heir_that_came_without_a_runtime_counts_when_there_is_one() {
    let _watchdog = watchdog(120);
    let mut nodes = Nodes::new("without", 2);
    let (objects, mut other) = ahead(&nodes);
    nodes.stop(0);
    let mut heir = left(&objects[0]).attach().unwrap();
    nodes.start(0);
    go_on(&objects, &mut other, &mut heir);
}

#[test]
fn what_became_complete_while_there_was_no_runtime_stays() {
    let _watchdog = watchdog(120);
    let mut nodes = Nodes::new("meanwhile", 2);
    let (objects, mut other) = ahead(&nodes);
    publish(&mut other, 2, 3);
    await_newest(&objects[1], 3);
    await_newest(&objects[0], 3);
    nodes.stop(0);
    publish(&mut other, 2, 4);
    // It does not know whether that is complete by now.
    let mut heir = left(&objects[0]).attach().unwrap();
    assert_eq!(heir.version(), 3);
    nodes.start(0);
    let (mut is_refused, begin) = (false, Instant::now());
    while !is_refused && objects[1].newest().unwrap() < 7 {
        let writers = || objects.each_ref().map(|object| object.writers().unwrap());
        assert!(begin.elapsed() < LONG, "heir {}, other {}: {:?}", heir.version(), other.version(), writers());
        let next = heir.version() + 1;
        heir.variable_mut::<i64>("v").unwrap().fill(100 * next as i64 + 3);
        match heir.publish(next) {
            Ok(_) if next > other.version() => publish(&mut other, 2, next),
            Ok(_) => {}
            Err(Error::NotAccepted { .. }) => is_refused = true,
            Err(error) => panic!("{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let newest = objects[1].newest().unwrap();
    let first = match is_refused {
        true => 1,
        false => 3,
    };
    assert_eq!(halves(&objects[1], newest), [first, 2], "version {newest}");
}

/// The runtime of a node ends, and its programs go on: for the others it is lost.
#[test]
fn programs_of_a_lost_node_complete_nothing_beside_who_took_their_places() {
    let _watchdog = watchdog(120);
    let mut nodes = Nodes::new("beside", 3);
    let lost = nodes.objects(2).create("u", "var u [8] int64").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut own = lost.write("{ var v = u }").keep(8).attach().unwrap();
    publish(&mut own, 1, 1);
    [&lost, &there].into_iter().for_each(|object| await_newest(object, 1));
    nodes.stop(2);
    (2..=5).for_each(|version| publish(&mut own, 1, version));
    nodes.lose(2);
    let shown = there.read("{ var v = u }").attach().unwrap().fill_newest(Duration::ZERO, &mut [0; 64]);
    assert!(shown.is_err(), "nobody means zeros: {shown:?}");
    let mut heir = there.write("{ var v = u }").zeros().attach().unwrap();
    // The home may have been cut off with the writer, and have completed some versions more.
    let newest = heir.version() + 2;
    assert!(newest > 3, "{newest}");
    (newest - 1..=newest).for_each(|version| publish(&mut heir, 2, version));
    await_newest(&there, newest);
    assert_eq!((lost.newest().unwrap(), lost.versions().unwrap()), (1, vec![1]), "{:?}", lost.writers());
    nodes.start(2);
    await_newest(&lost, newest);
    assert_eq!([halves(&lost, newest), halves(&there, newest)], [[2, 2], [2, 2]]);
    // Its program is told, too.
    let mut version = newest.max(5) + 1;
    let begin = Instant::now();
    let told = loop {
        match own.publish(version) {
            Ok(_) => assert!(begin.elapsed() < LONG, "{:?}", lost.writers()),
            Err(error) => break error,
        }
        version += 1;
    };
    assert!(matches!(told, Error::NotAccepted { .. }), "{told}");
}

#[test]
fn an_heir_of_a_lost_nodes_writer_goes_on() {
    let _watchdog = watchdog(120);
    let mut nodes = Nodes::new("lost", 2);
    let (objects, mut other) = ahead(&nodes);
    nodes.stop(0);
    nodes.lose(0);
    let mut heir = left(&objects[1]).zeros().wait(LONG).attach().unwrap();
    assert_eq!(heir.version(), 2);
    for version in 3..=7 {
        publish(&mut other, 2, version);
        publish(&mut heir, 3, version);
        await_newest(&objects[1], version);
        assert_eq!(halves(&objects[1], version), [3, 2]);
    }
}

/// What others completed in its writer's place keeps its content when a lost machine is back, also where they have ended.
#[test]
fn what_was_complete_without_a_lost_node_keeps_its_content_when_it_is_back() {
    let _watchdog = watchdog(120);
    let mut nodes = Nodes::new("absent", 2);
    let here = nodes.objects(0).create("u", "var u [8] int64").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut first = left(&here).keep(8).attach().unwrap();
    let mut other = right(&there).keep(8).attach().unwrap();
    for version in 1..=2 {
        publish(&mut first, 1, version);
        publish(&mut other, 2, version);
        [&here, &there].into_iter().for_each(|object| await_newest(object, version));
    }
    nodes.stop(0);
    (3..=6).for_each(|version| publish(&mut first, 1, version));
    drop(first);
    nodes.lose(0);
    // The next home may go on above numbers that the former one may have given.
    let mut newest = 2;
    for round in 0..2 {
        let mut heir = left(&there).zeros().keep(8).wait(LONG).attach().unwrap();
        for version in heir.version() + 1..=heir.version() + 2 {
            publish(&mut other, 2, version);
            publish(&mut heir, 3 + round, version);
            await_newest(&there, version);
            assert_eq!(halves(&there, version), [3 + round, 2], "version {version}");
            newest = version;
        }
    }
    nodes.start(0);
    await_newest(&here, newest);
    for object in [&here, &there] {
        for version in 3..=newest {
            let mut all = object.read("{ var v = u }").attach().unwrap();
            match all.reattach(version, LONG) {
                Ok(_) => {
                    assert_ne!(all.variable::<i64>("v").unwrap()[0], 100 * version as i64 + 1, "version {version}")
                }
                Err(error) => assert!(matches!(error, Error::Lost { .. } | Error::LostElsewhere { .. }), "{error}"),
            }
        }
    }
}

/// Heirs come again and again on both nodes, beside one that publishes all the while.
#[test]
fn heirs_of_one_on_two_nodes_are_never_refused_and_take_no_version_away() {
    let _watchdog = watchdog(300);
    let nodes = Nodes::new("joins", 2);
    let (objects, mut other) = ahead(&nodes);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let version = other.version() + 1;
                publish(&mut other, 2, version);
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let run = || -> Result<(), String> {
            // As each node has heard: one hears later than the other what is complete.
            let mut newest = [2, 2];
            for round in 0..60_u64 {
                let place = (round / 2 % 2) as usize;
                let object = &objects[place];
                // Where it is told later that the one before has left, it is in the way.
                let begin = Instant::now();
                let in_the_way = |object: &Object| {
                    object.writers().unwrap().iter().any(|one| one.is_alive && one.text.contains("u[x] }"))
                };
                while in_the_way(object) && begin.elapsed() < LONG {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let told = |error| format!("round {round} on node {place}: {error}");
                let mut heir = left(object).wait(LONG).attach().map_err(told)?;
                let ahead = object.writers().unwrap().iter().filter_map(|writer| writer.newest).max().unwrap();
                for version in ahead + 1..ahead + 1 + round % 4 {
                    publish(&mut heir, 3, version);
                    let now = object.newest().unwrap();
                    if now < newest[place] {
                        return Err(format!("round {round}: {now} after {newest:?}: {:?}", object.writers()));
                    }
                    newest[place] = now;
                }
                drop(heir);
            }
            let begin = Instant::now();
            while objects.iter().any(|object| object.newest().unwrap() < newest[0].max(newest[1])) {
                if begin.elapsed() > LONG {
                    return Err(format!("after {newest:?}: {:?}", objects[0].writers()));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        let done = run();
        is_over.store(true, Ordering::Relaxed);
        done.unwrap();
    });
}

/// For another process: the directory of the node on which it attaches the first half.
const PLACE: &str = "STILLFRAME_TEST_DIRECTORY";

/// The other process: it does nothing unless it was started by a test, and attaches as long as it lives.
#[test]
fn other() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let object = Objects::options().dir(place).open().unwrap().wait("u", LONG).unwrap();
    let attached = left(&object).wait(LONG).attach();
    panic!("it was to be killed before: {attached:?}");
}

/// An heir that was killed before it counted, where the versions of both halves are 3 and one half's writer has left.
fn killed_early(nodes: &Nodes) -> ([Object; 2], WriteFragment) {
    let ([here, there], [mut first, mut second]) = both(nodes);
    publish(&mut first, 1, 3);
    drop(first);
    // Nobody says that the first half of version 3 is there, nor whether who comes next counts.
    nodes.set_homeless(true);
    let mut heir = Command::new(std::env::current_exe().unwrap());
    let mut heir = heir.args(["heirs::other", "--exact"]).env(PLACE, nodes.dir(0)).spawn().unwrap();
    let begin = Instant::now();
    while !here.writers().unwrap().iter().any(|writer| writer.who.0.writer.process == heir.id()) {
        assert!(begin.elapsed() < LONG, "{:?}", here.writers());
        std::thread::sleep(Duration::from_millis(5));
    }
    heir.kill().unwrap();
    heir.wait().unwrap();
    publish(&mut second, 2, 3);
    // Its runtime is to notice that before it tells the home of it.
    std::thread::sleep(Duration::from_millis(100));
    nodes.set_homeless(false);
    ([here, there], second)
}

#[test]
fn an_heir_that_died_before_it_counted_takes_no_version_away() {
    let _watchdog = watchdog(120);
    let run = || {
        let nodes = Nodes::new("early", 2);
        let ([here, there], mut second) = killed_early(&nodes);
        let begin = Instant::now();
        while there.newest().unwrap() != 3 {
            // On a busy machine it may be told of as one that lives, and count: then it has the place from version 3 on.
            let first = there.writers().unwrap().into_iter().find(|writer| writer.from == 1 && !writer.is_alive);
            if first.is_some_and(|first| first.left == Some(3)) {
                return false;
            }
            assert!(begin.elapsed() < LONG, "{:?}", there.writers());
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(300));
        let mut next = left(&here).attach().unwrap();
        assert_eq!(next.version(), 3, "{:?}", here.writers());
        assert!(next.variable_mut::<i64>("v").unwrap().iter().all(|value| *value == 301), "it begins with its content");
        [&here, &there].into_iter().for_each(|object| await_newest(object, 3));
        publish(&mut next, 3, 4);
        publish(&mut second, 2, 4);
        for object in [&here, &there] {
            await_newest(object, 4);
            assert_eq!(halves(object, 4), [3, 2]);
        }
        true
    };
    let counted = (0..10).take_while(|_| !run()).count();
    eprintln!("{counted} heirs counted before they were known to be dead");
    assert!(counted < 10, "all heirs counted");
}

/// The home is lost with the node of a writer, in the instant before it says that a version is complete which another node holds. What others
/// may have begun is nobody else's: who goes on with zeros begins above it.
#[test]
fn an_heir_with_zeros_begins_above_a_version_that_was_proposed() {
    let _watchdog = watchdog(120);
    let mut nodes = Nodes::new("proposed", 2);
    let mut created =
        (0..).map(|number| nodes.objects(0).create(&format!("u{number}"), "var u [8] int64").create().unwrap());
    let here = created.find(|object| object.description().id.get() % 2 == 0).unwrap();
    let there = nodes.objects(1).wait(here.name(), LONG).unwrap();
    let mut first = left(&here).attach().unwrap();
    let mut other = right(&there).attach().unwrap();
    for version in 1..=2 {
        publish(&mut first, 1, version);
        publish(&mut other, 2, version);
    }
    [&here, &there].into_iter().for_each(|object| await_newest(object, 2));
    nodes.set_fault(1, 0, Fault { loses_pins_of: 3, ..Fault::default() });
    publish(&mut first, 1, 3);
    publish(&mut other, 2, 3);
    until("the other node holds it", || nodes.lost_pins() > 0);
    assert_eq!(here.newest().unwrap(), 2);
    nodes.stop(0);
    nodes.lose(0);
    let mut heir = left(&there).zeros().wait(LONG).attach().unwrap();
    assert_eq!(heir.version(), 3, "nobody knows what that was");
    publish(&mut other, 2, 4);
    publish(&mut heir, 3, 4);
    await_newest(&there, 4);
    assert_eq!(halves(&there, 4), [3, 2]);
}
