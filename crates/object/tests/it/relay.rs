//! What the runtime of a node tells its programs takes no complete version away from them.

use crate::common::{Dir, watchdog};
use std::process::Command;
use std::time::Duration;
use stillframe_object::receiver::Receiver;
use stillframe_object::relay::{FragmentRefusal, Relay, Remote, RemoteFragment};
use stillframe_object::runtime::{LOCK, RuntimeLock};
use stillframe_object::{Error, Object, Objects, WriteFragment};

/// A wait that hangs ends.
const LONG: Duration = Duration::from_secs(30);

/// The second half of the object.
const SECOND: &str = "{ var v [x:4] = u[x+4] }";

fn create(dir: &Dir) -> Object {
    dir.objects().create("u", "var u [8] int32").create().unwrap()
}

/// A fragment with one half of the object that a process of another node writes.
fn remote(node: u32, number: u32, from: u64, half: u32) -> RemoteFragment {
    RemoteFragment {
        remote: Remote { node, host: format!("node{node}"), number },
        process: 1,
        rank: None,
        from,
        left: None,
        died: false,
        text: format!("{{ var v [x:4] = u[x+{}] }}", 4 * half),
        bindings: Default::default(),
        writers: None,
    }
}

fn publish(fragment: &mut WriteFragment, version: u64) {
    fragment.variable_mut::<i32>("v").unwrap().fill(version as i32);
    fragment.publish(version).unwrap();
}

/// An object one half of which is written here and the other elsewhere, by `former`, complete with version 2.
fn shared(dir: &Dir, former: &RemoteFragment) -> (Object, Relay, WriteFragment) {
    let object = create(dir);
    let mut own = object.write("{ var v [x:4] = u[x] }").attach().unwrap();
    let mut relay = object.relay();
    assert!(!relay.tell(std::slice::from_ref(former)).unwrap());
    relay.decide(own.number(), Ok(())).unwrap();
    for version in 1..=2 {
        publish(&mut own, version);
        assert!(relay.complete(version).unwrap());
    }
    assert_eq!(object.newest().unwrap(), 2);
    (object, relay, own)
}

/// An object both halves of which are written here, by writers that count.
fn local(dir: &Dir) -> (Object, Relay, WriteFragment, WriteFragment) {
    let object = create(dir);
    let mut relay = object.relay();
    let half = |text| object.write(text).attach().unwrap();
    let (own, other) = (half("{ var v [x:4] = u[x] }"), half(SECOND));
    [&own, &other].into_iter().for_each(|writer| relay.decide(writer.number(), Ok(())).unwrap());
    (object, relay, own, other)
}

#[test]
fn a_writer_that_is_told_of_no_more_stays_until_a_version_without_it_is_complete() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("stays");
    let (former, heir) = (remote(1, 0, 1, 1), remote(1, 1, 3, 1));
    let (object, mut relay, mut own) = shared(&dir, &former);
    // The home knows by now that version 5 is complete, in which another one has its place.
    assert!(relay.tell(std::slice::from_ref(&heir)).unwrap());
    assert_eq!(object.newest().unwrap(), 2);
    publish(&mut own, 5);
    assert_eq!(object.newest().unwrap(), 2);
    assert!(relay.complete(5).unwrap());
    assert_eq!(object.newest().unwrap(), 5, "{:?}", object.writers());
    assert!(!relay.tell(&[heir]).unwrap());
    assert_eq!((object.newest().unwrap(), object.writers().unwrap().len()), (5, 2));
}

#[test]
fn what_a_former_runtime_said_is_complete_stays_when_nobody_writes_elsewhere_any_more() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("former");
    let (object, relay, _own) = shared(&dir, &remote(1, 0, 1, 1));
    drop(relay);
    let mut relay = object.relay();
    assert!(relay.tell(&[]).unwrap());
    assert_eq!(object.newest().unwrap(), 2);
}

#[test]
fn writers_of_a_node_whose_runtime_was_started_again_take_the_place_of_their_former_names() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("again");
    let (object, mut relay, mut own) = shared(&dir, &remote(1, 0, 1, 1));
    // The home knows the node by its new number, and has not heard of its writers yet.
    assert!(relay.tell(&[]).unwrap());
    assert_eq!(object.newest().unwrap(), 2);
    assert!(!relay.tell(&[remote(2, 0, 1, 1)]).unwrap());
    assert_eq!((object.newest().unwrap(), object.writers().unwrap().len()), (2, 2));
    publish(&mut own, 3);
    assert_eq!(object.newest().unwrap(), 2);
    relay.complete(3).unwrap();
    assert_eq!(object.newest().unwrap(), 3);
}

#[test]
fn a_writer_that_is_told_of_again_is_the_same() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("same");
    let former = remote(1, 0, 1, 1);
    let (object, mut relay, mut own) = shared(&dir, &former);
    // A new home may not know of each layout at once.
    assert!(relay.tell(&[]).unwrap());
    assert!(!relay.tell(&[former]).unwrap());
    publish(&mut own, 3);
    relay.complete(3).unwrap();
    assert_eq!((object.newest().unwrap(), object.writers().unwrap().len()), (3, 2));
    assert!(object.writers().unwrap().iter().all(|writer| writer.is_alive));
}

#[test]
fn an_heir_that_is_not_accepted_yet_takes_no_complete_version_away() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("early");
    let mut former = remote(1, 0, 1, 1);
    let (object, mut relay, mut own) = shared(&dir, &former);
    // As on a node whose runtime is started again just now.
    std::fs::write(dir.path().join(".objects").join(LOCK), "").unwrap();
    former.left = Some(3);
    relay.tell(std::slice::from_ref(&former)).unwrap();
    let heir = object.write("{ var v [x:4] = u[x+4] }").zeros().attach().unwrap();
    assert_eq!(heir.version(), 2);
    // Another one on that node was there before it, and has published since.
    relay.tell(&[former, remote(1, 1, 3, 1)]).unwrap();
    (3..=5).for_each(|version| publish(&mut own, version));
    relay.complete(5).unwrap();
    assert_eq!(object.newest().unwrap(), 5, "{:?}", object.writers());
    publish(&mut own, 6);
    assert_eq!(object.newest().unwrap(), 5, "who writes knows it, too");
    relay.decide(heir.number(), Err("version 5 is complete".into())).unwrap();
    assert_eq!(object.newest().unwrap(), 5);
}

/// Numbers of nodes and fragments begin anew in another job, while the object and its board stay.
#[test]
fn a_fragment_with_the_numbers_of_a_former_one_is_another() {
    let _watchdog = watchdog(60);
    let former = remote(1, 0, 1, 1);
    let dead = RemoteFragment { died: true, ..former.clone() };
    let others = [
        ("part", &former, remote(1, 0, 1, 0)),
        ("process", &former, RemoteFragment { process: 2, ..former.clone() }),
        ("life", &dead, former.clone()),
    ];
    for (what, former, other) in others {
        let dir = Dir::new(&format!("another-{what}"));
        let object = create(&dir);
        let mut relay = object.relay();
        relay.tell(std::slice::from_ref(former)).unwrap();
        for _ in 0..2 {
            relay.tell(std::slice::from_ref(&other)).unwrap();
            let [writer] = &object.writers().unwrap()[..] else { panic!("{what}: {:?}", object.writers()) };
            assert!(writer.is_alive, "{what}: {writer:?}");
            assert_eq!(writer.who.0.writer.process, other.process, "{what}");
        }
    }
}

#[test]
fn a_refused_fragment_goes_at_once() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("refused");
    let former = remote(1, 0, 1, 1);
    let (object, mut relay, _own) = shared(&dir, &former);
    assert!(!relay.tell(&[former.clone(), remote(3, 0, 3, 0)]).unwrap());
    assert!(!relay.tell(&[former]).unwrap());
    assert_eq!((object.newest().unwrap(), object.writers().unwrap().len()), (2, 2));
}

/// As on a node that is cut off, or whose runtime was killed: others may have taken the places of its writers.
#[test]
fn what_all_writers_of_a_node_have_is_complete_only_when_the_runtime_says_so() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("alone");
    let (object, mut relay, mut own, mut other) = local(&dir);
    let mut both = |version| [&mut own, &mut other].into_iter().for_each(|writer| publish(writer, version));
    (1..=2).for_each(&mut both);
    assert_eq!(object.newest().unwrap(), 2, "no runtime has been there");
    assert_eq!(relay.look().unwrap().unwrap().len(), 2);
    assert_eq!(object.newest().unwrap(), 2, "it was complete before");
    (3..=5).for_each(&mut both);
    let fresh = || dir.objects().wait("u", Duration::ZERO).unwrap().newest().unwrap();
    assert_eq!((object.newest().unwrap(), fresh()), (2, 2), "{:?}", object.writers());
    let newer = object.wait_newer(2, Duration::from_millis(50));
    assert!(matches!(newer, Err(stillframe_object::Error::NoNewer { .. })), "{newer:?}");
    relay.complete(5).unwrap();
    assert_eq!((object.newest().unwrap(), fresh()), (5, 5), "{:?}", object.writers());
    drop(relay);
    (6..=40).for_each(&mut both);
    assert_eq!((object.newest().unwrap(), fresh()), (5, 5), "{:?}", object.writers());
    // Whoever comes goes on from there, and can have it.
    let mut held = object.read("{ var all = u }").attach().unwrap();
    held.reattach(5, Duration::from_secs(30)).unwrap();
    assert_eq!(held.variable::<i32>("all").unwrap(), [5; 8]);
    drop((own, other));
    assert_eq!((object.newest().unwrap(), fresh()), (5, 5), "{:?}", object.writers());
    let heir = object.write(SECOND).wait(Duration::ZERO).attach().unwrap();
    assert_eq!(heir.version(), 5);
}

/// Holds what a runtime holds that runs.
fn run(dir: &Dir) -> RuntimeLock {
    let objects = Objects::options().dir(dir.path()).as_runtime().open().unwrap();
    RuntimeLock::take(&objects).unwrap().expect("there is no other runtime")
}

#[test]
fn who_waits_for_no_other_writer_still_hears_whether_the_fragment_counts() {
    let _watchdog = watchdog(60);
    for verdict in [Ok(()), Err(FragmentRefusal::from("others have them"))] {
        let dir = Dir::new("patience");
        let object = create(&dir);
        let _running = run(&dir);
        let attached = std::thread::scope(|scope| {
            let attaching = scope.spawn(|| object.write(SECOND).wait(Duration::ZERO).attach());
            let mut relay = object.relay();
            let own = loop {
                match relay.look().unwrap().as_deref() {
                    Some([own]) => break own.who.writer.serial,
                    _ if attaching.is_finished() => break 0,
                    _ => std::thread::yield_now(),
                }
            };
            // What it does until then tells nobody anything: it looks again and again.
            std::thread::sleep(Duration::from_millis(50));
            patiently(|| relay.decide(own, verdict.clone()));
            attaching.join().unwrap()
        });
        match verdict {
            Ok(()) => assert!(attached.is_ok(), "{}", attached.unwrap_err()),
            Err(_) => assert!(matches!(attached, Err(Error::NotAccepted { .. })), "{attached:?}"),
        }
    }
}

#[test]
fn what_all_have_left_comes_to_an_end_unless_the_home_may_still_say_that_it_is_complete() {
    let _watchdog = watchdog(120);
    let ended = |object: &Object| matches!(object.wait_newer(2, LONG), Err(Error::Ended { complete: Some(2), .. }));
    for (last, may_follow) in [([3, 4], true), ([2, 4], false)] {
        let dir = Dir::new("over");
        let (object, mut relay, own, other) = local(&dir);
        let running = run(&dir);
        assert_eq!(relay.look().unwrap().unwrap().len(), 2);
        for (mut writer, last) in [own, other].into_iter().zip(last) {
            (1..=last).for_each(|version| publish(&mut writer, version));
            writer.detach().unwrap();
        }
        relay.complete(2).unwrap();
        if may_follow {
            let newer = object.wait_newer(2, Duration::from_millis(1500));
            assert!(matches!(newer, Err(Error::NoNewer { whole: Some(3), .. })), "{newer:?}");
            drop(running);
        }
        assert!(ended(&object), "{:?}", object.writers());
    }
}

/// Whose writers were there before the runtime, and one of which died before it said anything of them.
#[test]
fn what_was_complete_before_the_first_runtime_stays_so_whoever_comes() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("before");
    let object = create(&dir);
    let half = |text| object.write(text).attach().unwrap();
    let (mut own, mut dying) = (half("{ var v [x:4] = u[x] }"), half(SECOND));
    (1..=2).for_each(|version| [&mut own, &mut dying].into_iter().for_each(|writer| publish(writer, version)));
    let mut relay = object.relay();
    assert_eq!(relay.look().unwrap().unwrap().len(), 2);
    drop(dying);
    let heir = object.write(SECOND).attach().unwrap();
    assert_eq!((heir.version(), object.newest().unwrap()), (2, 2), "{:?}", object.writers());
    relay.tell(&[remote(1, 0, 4, 0)]).unwrap();
    assert_eq!(object.newest().unwrap(), 2, "{:?}", object.writers());
}

/// It writes so on the board itself, before its fragment is there.
#[test]
fn who_attaches_where_a_runtime_was_once_leaves_to_it_what_is_complete() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("expected");
    let object = create(&dir);
    std::fs::write(dir.path().join(".objects").join(LOCK), "").unwrap();
    let mut own = object.write("{ var v = u }").attach().unwrap();
    (1..=3).for_each(|version| publish(&mut own, version));
    assert_eq!((object.newest().unwrap(), object.versions().unwrap()), (0, vec![]));
    let mut relay = object.relay();
    assert_eq!(relay.look().unwrap().unwrap().len(), 1);
    relay.complete(3).unwrap();
    assert_eq!((object.newest().unwrap(), object.versions().unwrap().last()), (3, Some(&3)));
}

#[test]
fn what_a_dead_writer_was_ahead_with_is_complete_only_when_the_runtime_says_so() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("ahead");
    let (object, mut relay, mut own, mut dying) = local(&dir);
    // Somebody of another node reads it, or will write it.
    let mut gone = remote(1, 0, 1, 1);
    (gone.left, gone.died) = (Some(1), true);
    relay.tell(&[gone]).unwrap();
    for version in 1..=2 {
        publish(&mut own, version);
        publish(&mut dying, version);
        relay.complete(version).unwrap();
    }
    (3..=5).for_each(|version| publish(&mut dying, version));
    publish(&mut own, 3);
    assert_eq!(object.newest().unwrap(), 2, "all have version 3, of which nothing was said");
    drop(dying);
    let fragments = relay.look().unwrap().unwrap();
    assert!(fragments.iter().any(|one| one.left == Some(6) && one.present == [2, 3, 4, 5]), "{fragments:?}");
    publish(&mut own, 4);
    publish(&mut own, 5);
    // Somebody of another node may have its place from version 3 on.
    assert_eq!(object.newest().unwrap(), 2, "{:?}", object.writers());
    relay.complete(3).unwrap();
    publish(&mut own, 6);
    assert_eq!(object.newest().unwrap(), 3, "{:?}", object.writers());
    relay.complete(5).unwrap();
    assert_eq!(object.newest().unwrap(), 5, "{:?}", object.writers());
    publish(&mut own, 7);
    assert_eq!(object.versions().unwrap().last(), Some(&5), "{:?}", object.writers());
}

#[test]
fn a_runtime_that_is_started_again_says_what_is_complete_of_dead_writers_where_nobody_writes_elsewhere() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("restart");
    let (object, mut relay, mut own, mut dying) = local(&dir);
    publish(&mut own, 1);
    (1..=3).for_each(|version| publish(&mut dying, version));
    drop(dying);
    assert!(relay.look().unwrap().is_some());
    drop(relay);
    let mut relay = object.relay();
    (2..=3).for_each(|version| publish(&mut own, version));
    assert!(relay.look().unwrap().is_some());
    assert!(!relay.tell(&[]).unwrap());
    assert_eq!(object.newest().unwrap(), 1);
    assert!(relay.complete(3).unwrap());
    assert_eq!(object.newest().unwrap(), 3, "{:?}", object.writers());
}

/// As where the runtime held a version for all, and was killed before it heard that this is complete.
#[test]
fn what_is_complete_stays_so_on_a_node_that_has_no_part_of_it_left() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("let-go");
    let (object, mut relay, mut own) = shared(&dir, &remote(1, 0, 1, 1));
    publish(&mut own, 4);
    assert!(relay.complete(3).unwrap());
    (5..=7).for_each(|version| publish(&mut own, version));
    assert_eq!((object.newest().unwrap(), object.versions().unwrap()), (3, vec![]), "{:?}", object.writers());
    // It is not waited for: what comes next can be had.
    let newer = object.wait_newer(2, Duration::from_millis(50));
    assert!(matches!(newer, Err(stillframe_object::Error::NoNewer { .. })), "{newer:?}");
    assert!(relay.complete(7).unwrap());
    assert_eq!((object.newest().unwrap(), object.wait_newer(2, Duration::from_secs(30)).unwrap()), (7, 7));
}

/// Who comes after it has no part in it, whatever the home says of him.
#[test]
fn what_is_complete_stays_so_when_somebody_comes() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("comes");
    let (object, mut relay, mut own) = shared(&dir, &remote(1, 0, 1, 1));
    publish(&mut own, 4);
    assert!(relay.complete(3).unwrap());
    (5..=7).for_each(|version| publish(&mut own, version));
    own.detach().unwrap();
    let _heir = object.write("{ var v [x:4] = u[x] }").version(3).zeros().attach().unwrap();
    assert_eq!(object.newest().unwrap(), 3, "{:?}", object.writers());
}

#[test]
fn what_is_complete_stays_so_when_a_runtime_dies_that_takes_it_over() {
    let _watchdog = watchdog(60);
    for point in ["recover.begin:1", "recover.done:1"] {
        let dir = Dir::new("takes-over");
        let (object, relay, _own) = shared(&dir, &remote(1, 0, 1, 1));
        drop(relay);
        let mut dying = Command::new(std::env::current_exe().unwrap());
        dying.args(["relay::other", "--exact"]).env(PLACE, dir.path()).env(POINT, point);
        if dying.status().unwrap().success() {
            eprintln!("skipped: built without named points");
            return;
        }
        let fresh = || dir.objects().wait("u", Duration::ZERO).unwrap().newest().unwrap();
        assert_eq!((object.newest().unwrap(), fresh()), (2, 2), "{point}");
        assert!(!object.relay().tell(&[remote(1, 0, 1, 1)]).unwrap());
        assert_eq!((object.newest().unwrap(), fresh()), (2, 2), "{point}");
    }
}

/// Whoever removed it died when it had no name any more, and no board.
#[test]
fn what_was_complete_of_a_former_object_of_the_name_is_not_believed() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("former-object");
    drop(shared(&dir, &remote(1, 0, 1, 1)));
    for part in ["names", "boards"] {
        std::fs::remove_file(dir.path().join(".objects").join(part).join("u")).unwrap();
    }
    let object = create(&dir);
    let mut relay = object.relay();
    relay.tell(&[remote(1, 0, 1, 0), remote(1, 1, 1, 1)]).unwrap();
    assert_eq!((object.newest().unwrap(), object.versions().unwrap()), (0, vec![]), "{:?}", object.writers());
    assert!(relay.complete(1).unwrap(), "it is new");
    assert_eq!(object.newest().unwrap(), 1);
}

#[test]
fn writers_of_whom_the_home_says_nothing_just_now_have_not_ended() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("unheard");
    let object = create(&dir);
    let mut relay = object.relay();
    let others = [remote(1, 0, 1, 0), remote(1, 1, 1, 1)];
    relay.tell(&others).unwrap();
    relay.complete(1).unwrap();
    assert!(relay.tell(&[]).unwrap());
    let waited = object.wait_newer(1, Duration::from_millis(1500));
    assert!(matches!(waited, Err(stillframe_object::Error::NoNewer { .. })), "{waited:?}");
    assert!(!relay.tell(&others).unwrap());
    relay.complete(2).unwrap();
    assert_eq!((object.newest().unwrap(), object.writers().unwrap().len()), (2, 2));
    assert!(object.writers().unwrap().iter().all(|writer| writer.is_alive && writer.left.is_none()));
}

#[test]
fn who_is_accepted_has_its_part_in_what_was_said_to_be_complete_before() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("accepted");
    let (object, mut relay, mut own) = shared(&dir, &remote(1, 0, 1, 1));
    let mut gone = remote(1, 0, 1, 1);
    gone.left = Some(3);
    relay.tell(&[gone]).unwrap();
    let mut heir = object.write("{ var v [x:4] = u[x+4] }").version(2).zeros().attach().unwrap();
    [&mut own, &mut heir].into_iter().for_each(|writer| publish(writer, 3));
    relay.complete(3).unwrap();
    assert_ne!(object.newest().unwrap(), 3, "it may be refused");
    relay.decide(heir.number(), Ok(())).unwrap();
    assert_eq!(object.newest().unwrap(), 3, "{:?}", object.writers());
}

/// For another process: the directory in which it attaches a fragment, and ends.
const PLACE: &str = "STILLFRAME_TEST_DIRECTORY";

/// For it as well: where it is killed as a runtime.
const POINT: &str = "STILLFRAME_DIE_AT";

/// The other process: it does nothing unless it was started by a test.
#[test]
fn other() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let object = Objects::options().dir(place).open().unwrap().wait("u", Duration::ZERO).unwrap();
    if std::env::var_os(POINT).is_some() {
        object.relay().tell(&[remote(1, 0, 1, 1)]).unwrap();
        std::process::exit(0);
    }
    let fragment = object.write(SECOND).zeros().wait(Duration::ZERO).attach().unwrap();
    assert_eq!(fragment.version(), 1);
    std::process::exit(0);
}

#[test]
fn who_comes_after_an_heir_that_died_has_the_content_once_the_home_says_whose_it_is() {
    let _watchdog = watchdog(60);
    // Until then nothing is said of that heir, or a former home has accepted it.
    for is_accepted in [false, true] {
        come_after(is_accepted);
    }
}

/// Whoever attaches may have the board for longer than a runtime waits for it: that tries again.
fn patiently(mut writes: impl FnMut() -> Result<(), Error>) {
    loop {
        match writes() {
            Err(Error::Locked { .. }) => {}
            outcome => return outcome.unwrap(),
        }
    }
}

fn come_after(is_accepted: bool) {
    let dir = Dir::new("after");
    let (object, mut relay, mut own, mut dying) = local(&dir);
    std::fs::write(dir.path().join(".objects").join(LOCK), "").unwrap();
    let mut gone = remote(1, 0, 1, 1);
    (gone.left, gone.died) = (Some(1), true);
    relay.tell(&[gone]).unwrap();
    [&mut own, &mut dying].into_iter().for_each(|writer| publish(writer, 1));
    relay.complete(1).unwrap();
    publish(&mut dying, 2);
    drop(dying);
    // It takes the place from version 2 on, and has no answer before it dies.
    let mut other = Command::new(std::env::current_exe().unwrap());
    assert!(other.args(["relay::other", "--exact"]).env(PLACE, dir.path()).status().unwrap().success());
    let undecided = |relay: &mut Relay| {
        let fragments = relay.look().unwrap().unwrap().into_iter();
        fragments.filter(|one| one.is_accepted.is_none()).map(|one| one.who.writer.serial).collect::<Vec<_>>()
    };
    let heir = undecided(&mut relay)[0];
    if is_accepted {
        relay.decide(heir, Ok(())).unwrap();
    }
    publish(&mut own, 2);
    relay.complete(2).unwrap();
    std::thread::scope(|scope| {
        let attaching =
            scope.spawn(|| object.write(SECOND).attach().map(|mut next| next.bytes_mut().unwrap().to_vec()));
        // Version 2 was whole before it, as the home says when this node's runtime is back.
        std::thread::sleep(Duration::from_millis(1500));
        match is_accepted {
            true => patiently(|| relay.end(heir, 2)),
            false => patiently(|| relay.decide(heir, Err("version 2 is complete".into()))),
        }
        let content = attaching.join().unwrap().unwrap();
        assert_eq!(content, [2_i32; 4].map(i32::to_ne_bytes).concat());
    });
}

#[test]
fn a_fragment_that_does_not_count_is_told_so_at_each_publish() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("told");
    let (_object, mut relay, mut own, mut other) = local(&dir);
    [&mut own, &mut other].into_iter().for_each(|writer| publish(writer, 1));
    relay.decide(own.number(), Err("another one has its place".into())).unwrap();
    for version in 2..=4 {
        let error = own.publish(version).unwrap_err();
        assert!(matches!(error, stillframe_object::Error::NotAccepted { .. }), "{error}");
        assert_eq!(own.version(), 1);
    }
}

/// Writers of other nodes come and go for days, and nobody of this node attaches.
#[test]
fn a_board_that_tells_of_other_nodes_alone_does_not_grow() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("grows");
    let object = create(&dir);
    let mut relay = object.relay();
    (0..2000).for_each(|number| _ = relay.tell(&[remote(1, number, number.into(), 1)]).unwrap());
    let boards = std::fs::read_dir(dir.path().join(".objects/boards")).unwrap();
    let bytes: u64 = boards.map(|board| board.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < 256 << 10, "{bytes} bytes");
    relay.tell(&[remote(1, 7, 7, 1)]).unwrap();
    assert_eq!(object.writers().unwrap().len(), 1);
}

/// A runtime is killed: what it had filled is nobody's.
#[test]
fn what_a_runtime_filled_that_is_gone_is_removed_by_the_next_one() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("filled");
    let object = create(&dir);
    let mut relay = object.relay();
    let [dead, lives] = [(), ()].map(|()| relay.receive(SECOND, &Default::default()).unwrap());
    let names = [&dead, &lives].map(|receiver: &Receiver| receiver.name().to_owned());
    let filled = || {
        let regions = stillframe::inspect::regions(&dir.path().join("objects")).unwrap().into_iter();
        regions.map(|region| region.name).filter(|name| names.contains(name)).collect::<Vec<_>>()
    };
    drop(dead);
    assert_eq!(filled(), names);
    dir.objects().remove_filled().unwrap();
    assert_eq!(filled(), names[1..], "one that is filled still stays");
}

/// The object is back on a node whose files of it were removed, and a program was quicker than its runtime.
#[test]
fn who_attached_before_the_runtime_began_anew_is_told_to_attach_again() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("early");
    let object = create(&dir);
    let _running = run(&dir);
    let attached = std::thread::scope(|scope| {
        let attaching = scope.spawn(|| object.write(SECOND).attach());
        let mut relay = object.relay();
        while relay.look().unwrap().unwrap_or_default().is_empty() && !attaching.is_finished() {
            std::thread::yield_now();
        }
        patiently(|| relay.begin_anew(7));
        attaching.join().unwrap()
    });
    assert!(matches!(&attached, Err(Error::NotAccepted { why, .. }) if why.contains("attach again")), "{attached:?}");
    let numbered = std::thread::scope(|scope| {
        let attaching = scope.spawn(|| object.write(SECOND).attach());
        let mut relay = object.relay();
        let number = loop {
            let all = relay.look().unwrap().unwrap_or_default();
            match all.iter().find(|one| one.is_accepted.is_none()) {
                Some(one) => break one.who.writer.serial,
                None if attaching.is_finished() => break 0,
                None => std::thread::yield_now(),
            }
        };
        patiently(|| relay.decide(number, Ok(())));
        attaching.join().unwrap().map(|_| number)
    });
    assert_eq!(numbered.unwrap(), 7);
}

/// A home that was lost with its writers may have said that versions are complete of which nobody else has anything.
#[test]
fn what_a_lost_node_may_have_completed_names_it_and_is_not_advised() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("given-up");
    let former = remote(7, 0, 1, 1);
    let (object, mut relay, _own) = shared(&dir, &former);
    assert!(relay.tell(&[]).unwrap(), "it stays for version 2");
    assert!(relay.give_up(4).unwrap());
    assert!(relay.tell(&[]).unwrap(), "nobody has anything of version 4");
    assert!(!relay.give_up(4).unwrap());
    let mut reader = object.read(SECOND).attach().unwrap();
    let lost = reader.reattach(4, LONG).unwrap_err();
    let text = lost.to_string();
    assert!(matches!(lost, Error::Lost { complete: None, .. }), "{text}");
    assert!(text.contains("node 7"), "{text}");
    // Whoever goes on begins above it.
    assert_eq!(object.newest().unwrap(), 4);
}

/// All writers were lost with the home, and the next one knows of none: it says what was complete to a node that has just joined.
#[test]
fn what_was_complete_is_known_where_nobody_is_known_to_have_written_it() {
    let _watchdog = watchdog(60);
    for is_gone in [false, true] {
        let dir = Dir::new("unknown-writers");
        let object = create(&dir);
        let mut relay = object.relay();
        assert!(!relay.tell(&[]).unwrap());
        let told = if is_gone { relay.give_up(7) } else { relay.complete(7) };
        assert!(told.unwrap(), "that is new");
        assert_eq!(object.newest().unwrap(), 7);
        let mut reader = object.read(SECOND).attach().unwrap();
        let read = reader.reattach(7, Duration::ZERO);
        assert!(read.is_err(), "nobody means zeros: {read:?}");
    }
}
