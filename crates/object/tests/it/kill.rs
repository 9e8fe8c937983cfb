//! Writers that are killed or stopped, at every named point and at any instant.
//!
//! Readers learn which writer is gone, never see a version that is mixed or torn, and what was complete stays; another
//! process takes the place of the dead one. `STILLFRAME_TEST_KILLS` is the number of kills at random instants.

use crate::helper;

use crate::common::{Dir, watchdog};
use crate::helper::{Helper, say, start};
#[cfg(feature = "points")]
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};
use stillframe_object::{Error, Object, Objects, WriteFragment};
use stillframe_roster::readiness::Cause;

const LONG: Duration = Duration::from_secs(60);
const ROWS: usize = 4;
const COLUMNS: usize = 700;

fn opened(dir: &Path) -> Object {
    let objects = Objects::options().dir(dir).open().unwrap();
    objects.create("run/u", "var u [4,700] int64").create().unwrap()
}

/// The row of a rank: more than a page, so that what is torn shows.
fn attach(object: &Object, rank: usize) -> Result<WriteFragment, Error> {
    object.write("{ var u [y:700] = u[rank,y] }").bind("rank", rank as i64).rank(rank as u32).wait(LONG).attach()
}

fn publish(fragment: &mut WriteFragment, rank: usize, version: u64) -> Result<(), Error> {
    let value = (version * 10 + rank as u64) as i64;
    fragment.variable_mut::<i64>("u")?.fill(value);
    fragment.publish(version).map(drop)
}

/// Whether what a fragment holds of a row is all of one version.
fn check_row(row: &[i64], rank: usize, version: u64) {
    let wanted = if version == 0 { 0 } else { (version * 10 + rank as u64) as i64 };
    assert!(row.iter().all(|value| *value == wanted), "row {rank} of version {version}: {:?}…", &row[..4]);
}

/// The newest complete version, read whole.
fn check_newest(object: &Object) -> u64 {
    let mut all = object.read("{ var u = u }").attach().unwrap();
    let newest = object.newest().unwrap();
    all.reattach(newest, LONG).unwrap();
    for (rank, row) in all.variable::<i64>("u").unwrap().chunks(COLUMNS).enumerate() {
        check_row(row, rank, newest);
    }
    newest
}

/// The writers, for messages.
fn standing(object: &Object) -> String {
    let writers = object.writers().unwrap();
    let told = writers.iter().map(|writer| {
        let (number, who, is_alive) = (writer.number, &writer.who, writer.is_alive);
        format!(
            "{number}: {who}, alive {is_alive}, from {} to {:?}, has {:?}",
            writer.from, writer.left, writer.versions
        )
    });
    told.collect::<Vec<_>>().join("\n")
}

/// Attaches the rows of a rank and publishes, in turn with others or as fast as it can; now and then it detaches and attaches
/// anew.
fn writer(arguments: &[String]) {
    let [dir, rank, limit, again] = arguments else { panic!("{arguments:?}") };
    let (rank, limit, again): (usize, u64, u64) =
        (rank.parse().unwrap(), limit.parse().unwrap(), again.parse().unwrap());
    let object = opened(Path::new(dir));
    let mut fragment = attach(&object, rank).unwrap();
    let begun = fragment.version();
    check_row(fragment.variable_mut("u").unwrap(), rank, begun);
    say(&format!("attached {}", fragment.version()));
    while fragment.version() < limit {
        let version = fragment.version() + 1;
        publish(&mut fragment, rank, version).unwrap();
        say(&format!("published {version}"));
        if again > 0 && version.is_multiple_of(again) {
            // The others have it too before this one leaves, so that it goes on where it was.
            while object.newest().unwrap() < version {
                object.wait_newer(version - 1, LONG).unwrap();
            }
            fragment.detach().unwrap();
            say("detached");
            fragment = attach(&object, rank).unwrap();
            say("again");
        } else {
            object.wait_newer(version.saturating_sub(2), LONG).unwrap();
        }
    }
    helper::wait_for_word();
}

#[test]
fn helper_process() {
    helper::enter(&[("writer", writer), ("heir", heir)]);
}

/// The other ranks, in this process: published up to a version.
fn publish_all(others: &mut [(usize, WriteFragment)], version: u64) {
    for (rank, fragment) in others.iter_mut().filter(|(_, fragment)| fragment.version() < version) {
        for next in fragment.version() + 1..=version {
            publish(fragment, *rank, next).unwrap();
        }
    }
}

/// What must be so after the writer of row 0 was killed: nothing complete is lost, readers are told, and another one goes on.
fn check_after(object: &Object, others: &mut [(usize, WriteFragment)]) {
    let newest = check_newest(object);
    let next = newest + 1;
    publish_all(others, next);
    // It may have published the next version just before it died.
    let mut first = object.read("{ var u [y:700] = u[0,y] }").attach().unwrap();
    match first.reattach(next, Duration::from_millis(200)) {
        Ok(()) => check_row(first.variable("u").unwrap(), 0, next),
        Err(Error::Lost { losses, .. }) => {
            assert_eq!(losses[0].cause, Some(Cause::Died));
            assert!(losses[0].to_string().contains("rank 0"), "{}", losses[0]);
        }
        // It never attached, or had just left.
        Err(Error::Timeout { waiting, .. }) => assert!(waiting.iter().all(|part| part.who.is_none()), "{waiting:?}"),
        Err(error) => panic!("{error}"),
    }
    let before = standing(object);
    let mut heir = attach(object, 0).unwrap();
    let begun = heir.version();
    assert!(begun >= newest);
    check_row(heir.variable_mut("u").unwrap(), 0, begun);
    for version in begun + 1..begun + 4 {
        publish(&mut heir, 0, version).unwrap();
        publish_all(others, version);
        let newest = check_newest(object);
        assert_eq!(newest, version, "{before}\n{}", standing(object));
    }
    heir.detach().unwrap();
    object.collect().unwrap();
    let writers = object.writers().unwrap();
    assert_eq!(writers.len(), ROWS, "what dead writers left is gone: {writers:?}");
}

fn others(object: &Object) -> Vec<(usize, WriteFragment)> {
    (1..ROWS).map(|rank| (rank, attach(object, rank).unwrap())).collect()
}

#[test]
fn who_waits_learns_at_once_who_died() {
    let _watchdog = watchdog(120);
    for killed in [2, 0] {
        let dir = Dir::new("learns");
        let object = opened(dir.path());
        let place = dir.path().to_str().unwrap();
        let mut ranks: Vec<Helper> =
            (0..ROWS).map(|rank| start("writer", &[place, &rank.to_string(), "3", "0"])).collect();
        object.wait_newer(2, LONG).unwrap();
        let (path, (ready, is_ready)) = (dir.path().to_path_buf(), std::sync::mpsc::channel());
        let reader = std::thread::spawn(move || {
            let object = opened(&path);
            let mut all = object.read("{ var u = u }").attach().unwrap();
            all.reattach(3, LONG).unwrap();
            ready.send(()).unwrap();
            let error = all.reattach(4, LONG).unwrap_err();
            (error, Instant::now())
        });
        is_ready.recv().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        ranks[killed].kill();
        let killed_at = Instant::now();
        let (error, told_at) = reader.join().unwrap();
        let Error::Lost { losses, complete, .. } = &error else { panic!("{error}") };
        assert_eq!(*complete, Some(3));
        assert!(losses.iter().any(|loss| loss.to_string().contains(&format!("rank {killed} "))), "{error}");
        println!("told after {:.1} ms", told_at.saturating_duration_since(killed_at).as_secs_f64() * 1e3);
        assert_eq!(check_newest(&object), 3);
    }
}

#[test]
fn writers_killed_at_any_instant() {
    let _watchdog = watchdog(600);
    let kills: u64 = std::env::var("STILLFRAME_TEST_KILLS").map_or(25, |kills| kills.parse().unwrap());
    let dir = Dir::new("instants");
    let object = opened(dir.path());
    let mut others = others(&object);
    for round in 0..kills {
        let arguments = [dir.path().to_str().unwrap(), "0", "100000000", "3"];
        let mut writer = start("writer", &arguments);
        let begin = Instant::now();
        let lives = Duration::from_micros(2000 + (round * 7919) % 40_000);
        // The others go on with it until it is killed.
        while begin.elapsed() < lives {
            let next = object.newest().unwrap() + 1;
            publish_all(&mut others, next);
            let _ = object.wait_newer(next - 1, Duration::from_micros(500));
        }
        writer.kill();
        check_after(&object, &mut others);
    }
}

#[cfg(feature = "points")]
#[test]
fn writers_killed_at_every_point() {
    use std::collections::BTreeMap;
    let _watchdog = watchdog(1200);
    let dir = Dir::new("points");
    let run = |name: &str, variables: &[(&str, String)]| {
        let place = dir.path().join(name);
        std::fs::create_dir(&place).unwrap();
        let object = opened(&place);
        let mut others = others(&object);
        let mut command = helper::command("writer", &[place.to_str().unwrap(), "0", "8", "3"]);
        command.envs(variables.iter().map(|(name, value)| (*name, value)));
        let mut writer = Helper::start(command);
        // Until it is done, or dead, the others keep up with it.
        loop {
            publish_all(&mut others, (object.newest().unwrap() + 1).min(8));
            match writer.try_hear_end(Duration::from_millis(1)) {
                None => break,
                Some(Some(line)) if line == "published 8" => break,
                Some(_) => {}
            }
        }
        (object, others, writer)
    };
    let count = dir.path().join("passed");
    let (.., writer) = run("count", &[("STILLFRAME_COUNT_POINTS", count.to_str().unwrap().into())]);
    drop(writer);
    let mut passed: BTreeMap<String, u64> = BTreeMap::new();
    for name in std::fs::read_to_string(&count).unwrap().lines() {
        *passed.entry(name.to_owned()).or_default() += 1;
    }
    for name in ["attach.made", "attach.done", "board.written", "detach.told"] {
        assert!(passed.contains_key(name), "{name}: {passed:?}");
    }
    let mut killed = 0;
    for (name, times) in &passed {
        // The first, one in the middle, and the last time.
        let mut at = vec![1, times.div_ceil(2), *times];
        at.dedup();
        for number in at {
            let (object, mut others, mut writer) =
                run(&format!("{name}-{number}"), &[("STILLFRAME_DIE_AT", format!("{name}:{number}"))]);
            let (status, _) = writer.wait();
            killed += u64::from(status.signal() == Some(libc::SIGKILL));
            println!("{name}:{number}");
            check_after(&object, &mut others);
        }
    }
    assert!(killed >= passed.len() as u64, "{killed} of {} points were reached", passed.len());
}

/// Takes the places of the writers of the first rows, all at once.
fn heir(arguments: &[String]) {
    let object = opened(Path::new(&arguments[0]));
    let _fragment = object.write("{ var u [x:2,y:700] = u[x,y] }").wait(Duration::ZERO).attach().unwrap();
    say("attached");
    helper::wait_for_word();
}

/// Where nobody has their places, what they were ahead with counts once the others have it, too.
#[cfg(feature = "points")]
#[test]
fn an_heir_that_is_killed_before_it_is_attached_takes_nothing_away() {
    let _watchdog = watchdog(120);
    for number in 1.. {
        let dir = Dir::new("heir");
        let object = opened(dir.path());
        let mut others: Vec<_> = (0..ROWS).map(|rank| (rank, attach(&object, rank).unwrap())).collect();
        publish_all(&mut others, 1);
        let mut ahead = others.drain(..2).collect::<Vec<_>>();
        publish_all(&mut ahead, 3);
        drop(ahead);
        let mut command = helper::command("heir", &[dir.path().to_str().unwrap()]);
        command.env("STILLFRAME_DIE_AT", format!("board.written:{number}"));
        let mut heir = Helper::start(command);
        if heir.hear().is_some() {
            assert!(number > 1, "it passes the point at least once");
            return;
        }
        publish_all(&mut others, 3);
        assert_eq!(check_newest(&object), 3, "killed at {number}:\n{}", standing(&object));
    }
}

#[test]
fn a_stopped_process_holds_nobody_up_for_ever() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("stopped");
    let object = opened(dir.path());
    let mut others = others(&object);
    let mut writer = start("writer", &[dir.path().to_str().unwrap(), "0", "100000000", "0"]);
    assert!(writer.hear().unwrap().starts_with("attached"));
    publish_all(&mut others, 1);
    object.wait_newer(0, LONG).unwrap();
    writer.stop();
    let mut first = object.read("{ var u [y:700] = u[0,y] }").attach().unwrap();
    let version = 10_000;
    let error = first.reattach(version, Duration::from_millis(30)).unwrap_err();
    let Error::Timeout { waiting, .. } = &error else { panic!("{error}") };
    assert!(waiting[0].to_string().contains("rank 0"), "{error}");
    // What is complete can be read, and others publish, while it stands still.
    check_newest(&object);
    let newest = object.newest().unwrap();
    publish_all(&mut others, newest + 2);
    check_newest(&object);
}
