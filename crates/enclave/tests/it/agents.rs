//! Enclaves that share memory: two directories of regions with locks of their own, as two kernels have them, over the same files.
#![allow(unsafe_code)]

use crate::common;
use crate::helper;

use crate::common::{Dir, watchdog};
use crate::enclosure::{NOBODY, may_enclose};
use crate::helper::{Helper, Play, check_play, enter, say, until, wait_for_word};
use crate::pair::{BYTES, NAMES, Pair, be_agent};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use stillframe::enclave::Handout;
use stillframe::inspect::{self, Holder, State};
use stillframe::{Arena, Observer, Outcome, Region, Rule};
use stillframe_enclave::{Admission, Agent, AgentOptions, Options, Service};
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::trust::Trust;
use stillframe_segment::arena::{self, CHUNK_BYTES, FILE, Geometry, MAGIC};
use stillframe_segment::enclave::{
    self, ABI_AT, AGENT, AREA_BYTES, ARENA_AT, Enclave, HEARTBEAT_AT, IDENTITY_AT, MACHINE, MACHINE_LOCK,
};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn helper_process() {
    enter(&[
        ("agent", be_agent),
        ("machine", be_machine),
        ("observe", observe),
        ("follow", follow),
        ("fill", fill),
        ("crowd", crowd),
        ("hold", hold),
        ("list", list),
        ("play", play),
        ("produce", produce),
        ("mark", mark),
        ("say", say_what_comes),
        ("ask", ask),
        ("answer", answer),
        ("rest", rest),
    ]);
}

fn open(dir: &str, name: &str) -> Observer {
    Observer::options().dir(dir).wait(LONG).open(name).unwrap()
}

/// Opens what lies in a directory by a relative path, and goes elsewhere, if that is asked for by a further argument.
fn wander<T>(dir: &str, how: &[String], open: impl FnOnce(&str) -> T) -> T {
    if how.is_empty() {
        return open(dir);
    }
    std::env::set_current_dir(dir).unwrap();
    let opened = open(".");
    std::env::set_current_dir("/").unwrap();
    opened
}

/// Holds the newest version until told.
fn observe(arguments: &[String]) {
    let [dir, name, how @ ..] = arguments else { panic!("observe DIR NAME [wanders]") };
    let observer = wander(dir, how, |dir| open(dir, name));
    let held = observer.newest().unwrap();
    check_play(&held);
    say("holds");
    wait_for_word();
    check_play(&held);
    let held = observer.newest_after(Some(held.version()), Some(LONG)).unwrap();
    check_play(&held);
    assert!(observer.producer_alive());
    say("followed");
    wait_for_word();
    check_play(&held);
}

/// Holds the newest version until told, whatever it is.
fn hold(arguments: &[String]) {
    let [dir, name] = arguments else { panic!("hold DIR NAME") };
    let held = open(dir, name).newest().unwrap();
    say("holds");
    wait_for_word();
    drop(held);
}

/// What is listed of each region of a directory, and who holds versions of it.
fn listed(dir: &Path) -> Vec<String> {
    let line = |info: inspect::RegionInfo| {
        let enclave =
            info.enclave.map(|enclave| format!("{}{}", enclave.name, if enclave.is_own { ", own" } else { "" }));
        let state = if info.state == State::Live { "live" } else { "dead" };
        let holders: Vec<String> = inspect::holders(dir, &info.name).unwrap().iter().map(Holder::to_string).collect();
        format!("{}: {state}, {enclave:?}, {holders:?}", info.name)
    };
    inspect::regions(dir).unwrap().into_iter().map(line).collect()
}

/// Says what is listed, in a line.
fn list(arguments: &[String]) {
    let [dir] = arguments else { panic!("list DIR") };
    say(&listed(Path::new(dir)).join("; "));
}

/// Publishes versions without room for a third one, and says why that is not published.
fn crowd(arguments: &[String]) {
    const COUNT: usize = 1 << 17;
    let [dir, name, timeout_ms] = arguments else { panic!("crowd DIR NAME TIMEOUT_MS") };
    let timeout = Some(Duration::from_millis(timeout_ms.parse().unwrap()));
    let options = Region::options().dir(dir).rule(Rule::Wait { timeout }).bound_bytes(2 * 8 * COUNT as u64);
    let mut region = options.create(name).unwrap();
    let u = region.array::<f64>("u", &[COUNT]).unwrap();
    for version in 1..=3 {
        region.slice_mut(&u).fill(version as f64);
        match region.publish(version).commit() {
            Ok(_) => say("published"),
            Err(error) => say(&error.to_string()),
        }
        wait_for_word();
    }
}

/// Says what comes of opening.
fn say_what_comes(arguments: &[String]) {
    let [dir, name] = arguments else { panic!("say DIR NAME") };
    match Observer::options().dir(dir).open(name).and_then(|observer| observer.newest()) {
        Ok(snapshot) => say(&format!("version {}", snapshot.version())),
        Err(error) => say(&error.to_string()),
    }
}

/// Publishes once, then 200 times when told, and then for as long as it lives.
fn produce(arguments: &[String]) {
    let [dir, name, how @ ..] = arguments else { panic!("produce DIR NAME [wanders]") };
    let options = |dir: &str| Region::options().dir(dir).rule(Rule::Wait { timeout: None });
    let mut play = wander(dir, how, |dir| Play::open(options(dir), name));
    play.step();
    say("published");
    wait_for_word();
    play.steps(200);
    say("more");
    wait_for_word();
    loop {
        play.step();
    }
}

/// Publishes, and begins again when told, 40 times each with a call between that is made nowhere else.
fn mark(arguments: &[String]) {
    let [dir, name] = arguments else { panic!("mark DIR NAME") };
    let mut play = Play::open(Region::options().dir(dir).rule(Rule::Wait { timeout: None }), name);
    play.step();
    loop {
        say("published");
        wait_for_word();
        for _ in 0..40 {
            play.write().unwrap();
            mark_here();
            play.publish().unwrap();
        }
        mark_here();
    }
}

fn mark_here() {
    // SAFETY: the call reads nothing, and closes nothing: there is no such descriptor.
    unsafe { libc::close(MARK) };
}

/// A descriptor that nobody has.
const MARK: i32 = 1_234_567;

/// Publishes until a version has this number, with a pause before each.
fn play(arguments: &[String]) {
    let [dir, name, last, pause_ms] = arguments else { panic!("play DIR NAME LAST PAUSE_MS") };
    let pause = Duration::from_millis(pause_ms.parse().unwrap());
    let mut play = Play::open(Region::options().dir(dir).rule(Rule::Wait { timeout: None }), name);
    let last = last.parse().unwrap();
    while play.version < last {
        std::thread::sleep(pause);
        play.step();
    }
    say(&format!("published {last}"));
}

/// Produces beside an enclave that leaves holes in its memory, where the file system is full.
fn fill(arguments: &[String]) {
    let [dir] = arguments else { panic!("fill DIR") };
    let (dir, trust, peers) = (PathBuf::from(dir), Trust::Own, vec!["guest".into()]);
    let options = AgentOptions {
        dir: dir.clone(),
        name: "host".into(),
        bytes: BYTES,
        peers,
        forgotten: Vec::new(),
        sparse: false,
        doorbells: Vec::new(),
        mode: 0o755,
        trust,
    };
    let agent = Agent::begin(options).unwrap();
    let mut play = Play::open(Region::options().dir(&dir).rule(Rule::default()), "host/r");
    let own = File::open(dir.join("host").join(FILE)).unwrap();
    let mut host_arena = [0; 8];
    let at = BYTES - CHUNK_BYTES as u64;
    own.read_exact_at(&mut host_arena, at + ARENA_AT as u64).unwrap();
    let guest = File::options().create_new(true).write(true).open(dir.join("guest").join(FILE)).unwrap();
    guest.set_len(BYTES).unwrap();
    let sizes = [1, 2].map(|less| Geometry::new(at / CHUNK_BYTES as u64 + 1 - less, 16).unwrap());
    // The enclave says who it is, and that its words tell of the host's regions, and writes none of them.
    let write = |geometry: &Geometry, identity: u64| {
        let mut header = geometry.encode(1);
        header[..8].copy_from_slice(&MAGIC.to_le_bytes());
        guest.write_all_at(&header, 0).unwrap();
        let said = Enclave { name: "guest".into(), identity, arena: 8, boot: [9; 16] };
        for at in sizes.each_ref().map(Geometry::bytes) {
            guest.write_all_at(&enclave::MAGIC.to_le_bytes(), at).unwrap();
            guest.write_all_at(&said.encode(), at + enclave::ABI_AT as u64).unwrap();
            guest.write_all_at(&host_arena, at + enclave::subject_at(0) as u64).unwrap();
        }
    };
    write(&sizes[0], 1);
    let rest = dir.join("rest");
    let take_rest = || {
        let mut file = File::options().create(true).append(true).open(&rest).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    };
    let mut publish = || {
        for _ in 0..5 {
            play.write().unwrap();
            let _ = play.publish();
        }
    };
    publish();
    // Whoever removes a region looks whether others hold something of it, before there is any memory again.
    let regions = [0, 1].map(|number| format!("host/r{number}"));
    regions.iter().for_each(|name| Play::open(Region::options().dir(&dir), name).step());
    for (number, name) in regions.iter().enumerate() {
        write(&sizes[number], number as u64 + 7);
        take_rest();
        agent.look().unwrap();
        let _ = inspect::remove(&dir, name, false);
        publish();
        std::fs::remove_file(&rest).unwrap();
        agent.look().unwrap();
        publish();
    }
    say("lives");
}

/// Looks at versions as they come, and checks each, until the last of them.
fn follow(arguments: &[String]) {
    let [dir, name, last, how @ ..] = arguments else { panic!("follow DIR NAME LAST [holds]") };
    let (observer, last) = (open(dir, name), last.parse().unwrap());
    let (mut seen, mut count) = (None, 0);
    // Held to the end, if that is asked for, whatever is published meanwhile.
    let first = (!how.is_empty()).then(|| observer.newest_after(None, Some(LONG)).unwrap());
    while seen != Some(last) {
        let snapshot = observer.newest_after(seen, Some(LONG)).unwrap();
        check_play(&snapshot);
        seen = Some(snapshot.version());
        count += 1;
    }
    first.iter().for_each(check_play);
    say(&format!("saw {count}"));
}

/// A region whose versions say nothing but that they are there.
fn bare(dir: &str, name: &str) -> Region {
    let mut region = Region::options().dir(dir).rule(Rule::Wait { timeout: None }).create(name).unwrap();
    region.array::<u64>("u", &[1]).unwrap();
    region
}

/// Publishes a version for each that comes, until one has this number.
fn answer(arguments: &[String]) {
    let [dir, ask, answer, last] = arguments else { panic!("answer DIR ASK ANSWER LAST") };
    let mut region = bare(dir, answer);
    let observer = open(dir, ask);
    let (mut asked, last) = (None, last.parse().unwrap());
    while asked < Some(last) {
        let number = observer.wait_newer(asked, Some(LONG)).unwrap();
        region.publish(number).commit().unwrap();
        asked = Some(number);
    }
}

/// Waits for two seconds for what does not come, in a region of the own enclave, and counts how often it slept meanwhile: in a device's
/// memory a kernel lets nobody sleep, and who looked again at once would never have slept.
fn rest(arguments: &[String]) {
    let [dir, name] = arguments else { panic!("rest DIR NAME") };
    let mut region = bare(dir, name);
    region.publish(1).commit().unwrap();
    let sleeps = || {
        let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let count = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse::<u64>().unwrap()
    };
    let (observer, before) = (open(dir, name), sleeps());
    let waited = observer.wait_newer(Some(1), Some(Duration::from_secs(2)));
    assert!(matches!(waited, Err(stillframe::Error::Timeout { .. })), "{waited:?}");
    assert!(sleeps() - before >= 10, "it slept {} times", sleeps() - before);
}

/// Publishes versions, waits each time until another enclave has answered by one of the same number, and says how long it took.
fn ask(arguments: &[String]) {
    let [dir, ask, answer, last] = arguments else { panic!("ask DIR ASK ANSWER LAST") };
    let mut region = bare(dir, ask);
    region.publish(1).commit().unwrap();
    let (observer, last) = (open(dir, answer), last.parse().unwrap());
    observer.wait_newer(None, Some(LONG)).unwrap();
    let mut times = Vec::new();
    for number in 2..=last {
        // Long enough for the other side to sleep, and at no fixed distance from when it looks.
        std::thread::sleep(Duration::from_micros(4000 + number * 377 % 1000));
        let begin = Instant::now();
        region.publish(number).commit().unwrap();
        while observer.wait_newer(Some(number - 1), Some(LONG)).unwrap() < number {}
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let quantile = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    say(&format!("a version there and one back: p50 {:.2} ms, p99 {:.2} ms", quantile(0.5), quantile(0.99)));
}

#[test]
fn a_version_that_another_enclave_holds_stays_and_goes_when_it_lets_go() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("stays") else { return };
    let _agents = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    play.steps(200);
    assert!(pair.is_held(0));
    play.step_until_heard(&mut observer);
    observer.tell();
    observer.wait();
    until("what was shown to be hidden", || !pair.is_held(0));
}

/// Versions of a producer on this side, which stay for an observer on the other one. Returns the producer.
fn go_across(pair: &Pair, side: usize) -> Helper {
    let mut producer = pair.start(side, "produce", &[&format!("{}/r", NAMES[side])]);
    producer.expect("published");
    let mut observer = pair.observe(1 - side);
    producer.tell();
    producer.expect("more");
    assert!(pair.is_held(side));
    observer.tell();
    producer.tell();
    observer.expect("followed");
    observer.tell();
    observer.wait();
    until("what was shown to be hidden", || !pair.is_held(side));
    producer
}

/// Where an enclave's files lie is known for good when they are opened.
#[test]
fn who_named_the_directory_by_a_relative_path_may_go_elsewhere() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("relative") else { return };
    let _agents = pair.agents();
    let mut producer = pair.start(0, "produce", &["host/r", "wanders"]);
    producer.expect("published");
    let mut observer = pair.start(1, "observe", &["host/r", "wanders"]);
    observer.expect("holds");
    producer.tell();
    producer.expect("more");
    assert!(pair.is_held(0));
}

/// The same from the other side, on which the producer lives.
#[test]
fn versions_go_either_way() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("either") else { return };
    let _agents = pair.agents();
    let mut producer = go_across(&pair, 1);
    // The dead producer is no longer said to live.
    producer.kill();
    let observer = Observer::options().dir(&pair.dirs[0]).open("guest/r").unwrap();
    until("its end to be seen", || !observer.producer_alive());
    check_play(&observer.newest().unwrap());
}

#[test]
fn an_ordinary_user_has_agents_producers_and_observers() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::of("user", Some(NOBODY)) else { return };
    let _agents = pair.agents();
    let _producers = [0, 1].map(|side| go_across(&pair, side));
}

#[test]
fn all_enclaves_list_all_regions_by_the_same_names_and_say_whose_they_are() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("list") else { return };
    let _agents = pair.agents();
    let play = pair.produce();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    // Neither an arena nor a region beside them is an enclave's.
    let beside = pair.options().create("beside").unwrap();
    let pool = Arena::options().dir(&pair.dirs[0]).bytes(BYTES).create("pool").unwrap();
    let pooled = Region::options().arena(&pool).create("r").unwrap();
    let own = |state: &str| {
        let others = ["beside: live, None, []", "pool/r: live, None, []"];
        let guest = format!("guest/r: {state}, Some(\"guest\"), []");
        [others[0], &guest, &format!("host/r: {state}, Some(\"host, own\"), []"), others[1]].map(String::from)
    };
    let guests =
        |state: &str| format!("guest/r: {state}, Some(\"guest, own\"), []; host/r: {state}, Some(\"host\"), []");
    let asked = || pair.start(1, "list", &[]).hear().unwrap();
    until("the producers to be seen", || listed(&pair.dirs[0]) == own("live") && asked() == guests("live"));
    for name in ["host/r", "guest/r"] {
        check_play(&open(pair.dirs[0].to_str().unwrap(), name).newest().unwrap());
        pair.start(1, "say", &[name]).expect("version 1");
    }
    drop(play);
    producer.kill();
    until("their ends to be seen", || listed(&pair.dirs[0]) == own("dead") && asked() == guests("dead"));
    drop((beside, pooled));
}

#[test]
fn versions_that_another_enclave_holds_are_said_to_be_held_there() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("held") else { return };
    let _agents = pair.agents();
    let mut play = pair.produce();
    let mut observers = [0, 0].map(|_| pair.observe(1));
    let holders = || inspect::holders(&pair.dirs[0], "host/r").unwrap();
    let held = |version, versions| Holder {
        pid: None,
        enclave: Some("guest".into()),
        command: None,
        state: '?',
        version: Some(version),
        versions,
        age_ms: None,
    };
    assert_eq!(holders(), [held(1, 1)]);
    assert_eq!(holders()[0].to_string(), "somebody in enclave guest holds version 1");
    play.step();
    let later = pair.observe(1);
    play.step();
    assert_eq!(holders(), [held(1, 2)]);
    // Who holds them is seen there.
    let said = pair.start(1, "list", &[]).hear().unwrap();
    for observer in observers.iter().chain([&later]) {
        assert!(said.contains(&format!("({}) holds version ", observer.pid())), "{said}");
    }
    // Somebody of this enclave is told by himself, and first.
    let own = Observer::options().dir(&pair.dirs[0]).open("host/r").unwrap().newest().unwrap();
    let [first, second] = &holders()[..] else { panic!("{:?}", holders()) };
    assert_eq!((first.pid, first.version, &first.enclave), (Some(std::process::id() as i32), Some(3), &None));
    assert_eq!(*second, held(1, 2));
    drop(own);
    observers.iter_mut().for_each(|observer| drop(observer.kill()));
    until("what the dead held to be hidden", || holders() == [held(2, 1)]);
    drop(later);
    until("all to be hidden", || holders().is_empty());
}

#[test]
fn a_producer_that_has_no_room_says_in_which_enclave_versions_are_held() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("crowd") else { return };
    let _agents = pair.agents();
    let said = pair.dirs[0].join("said");
    let mut command = pair.command(0, "crowd", &["host/crowded", "2500"]);
    command.stderr(File::create(&said).unwrap()).env_remove(stillframe_kernel::remark::QUIET);
    let mut producer = Helper::start(command);
    producer.expect("published");
    let mut observer = pair.start(1, "hold", &["host/crowded"]);
    observer.expect("holds");
    for expected in [None, Some("published")] {
        expected.into_iter().for_each(|expected| producer.expect(expected));
        producer.tell();
    }
    let error = producer.hear().unwrap();
    assert!(
        error.contains("1 versions are held by observers, some of them in enclave guest: raise the bound"),
        "{error}"
    );
    let said = std::fs::read_to_string(said).unwrap();
    assert!(
        said.contains("has waited for room for 2 s: somebody in enclave guest holds version 1; 'still show"),
        "{said}"
    );
}

#[test]
fn an_agent_may_die_and_another_one_goes_on() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("agent") else { return };
    let [_host, mut guest] = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    guest.kill();
    play.steps(100);
    assert!(pair.is_held(0));
    // Nobody shows what is to be held now.
    let said = pair.start(1, "say", &["host/r"]).hear().unwrap();
    assert!(said.contains("no broker answers"), "{said}");
    let _guest = pair.agent(1);
    play.steps(100);
    play.step_until_heard(&mut observer);
    observer.kill();
    until("the dead to hold nothing", || !pair.is_held(0));
}

/// That an arena is another enclave's is known as well when its agent has ended by itself, and was not killed.
#[test]
fn an_agent_that_has_ended_lets_nobody_hold_what_is_not_shown() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("ended") else { return };
    let [_host, guest] = pair.agents();
    let mut play = pair.produce();
    guest.finish();
    let said = pair.start(1, "say", &["host/r"]).hear().unwrap();
    assert!(said.contains("no broker answers"), "{said}");
    let _guest = pair.agent(1);
    let mut observer = pair.observe(1);
    play.steps(100);
    assert!(pair.is_held(0));
    play.step_until_heard(&mut observer);
}

/// Who holds what in another enclave's arena is known by that one's locks. So nobody else makes or removes anything there.
#[test]
fn nothing_is_made_or_removed_in_the_arena_of_another_enclave() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("foreign") else { return };
    let _agents = pair.agents();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    // Of a producer that is dead, as what `still gc` removes.
    producer.kill();
    let mut observer = pair.start(1, "observe", &["guest/r"]);
    observer.expect("holds");
    let dir = &pair.dirs[0];
    let seen = Observer::options().dir(dir).open("guest/r").unwrap();
    until("the end of the producer to be seen", || !seen.producer_alive());
    assert!(inspect::collect(dir).unwrap().is_empty());
    let refused = |result: Result<(), stillframe::Error>| {
        let said = result.unwrap_err().to_string();
        assert!(said.contains("of another enclave"), "{said}");
    };
    for name in ["guest/r", "guest/s"] {
        refused(pair.options().create(name).map(drop));
    }
    for force in [false, true] {
        for name in ["guest/r", "guest"] {
            refused(inspect::remove(dir, name, force).map(drop));
        }
    }
    check_play(&seen.newest().unwrap());
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    observer.tell();
    observer.expect("followed");
}

/// The program of a machine, which ends when it is killed.
fn be_machine(arguments: &[String]) {
    let [dir, name] = arguments else { panic!("machine DIR NAME") };
    let lock = stillframe_enclave::begin_machine(std::path::Path::new(dir), name, 0o755, Trust::Own);
    say(&lock.as_ref().map_or_else(|error| error.to_string(), |_| "runs".into()));
    wait_for_word();
}

/// A machine that is gone holds nothing, though its words still stand there.
#[test]
fn an_enclave_that_is_dead_is_waited_for_no_longer() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("dead") else { return };
    let mut machine = pair.machine();
    assert!(pair.start(0, "machine", &["guest"]).hear().unwrap().contains("in use"));
    let [mut host, mut guest] = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    guest.kill();
    observer.kill();
    assert!(pair.is_held(0) && pair.admits(0));
    machine.kill();
    until("the host to count it no more", || !pair.admits(0));
    play.steps(100);
    assert!(pair.is_held(0));
    // Another agent of the host knows as well.
    host.kill();
    let _host = pair.agent(0);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!pair.admits(0));
}

/// What other machines see is memory, and no locks of the host's kernel.
#[test]
fn an_enclave_that_is_dead_is_known_to_those_who_do_not_see_its_lock() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("unseen") else { return };
    let dir = pair.third();
    let third = |role, arguments: &[&str]| Helper::start(pair.command_in(&dir, &["guest"], role, arguments));
    let mut machine = pair.machine();
    let [host, guest] = pair.agents();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let mut agent = third("agent", &["third", "guest"]);
    agent.expect("runs");
    let counts = || {
        let mut word = [0; 8];
        let at = BYTES - CHUNK_BYTES as u64 + enclave::admitted_at(0) as u64;
        File::open(dir.join("third").join(FILE)).unwrap().read_exact_at(&mut word, at).unwrap();
        u64::from_le_bytes(word) != 0
    };
    let listed = || third("list", &[]).hear().unwrap();
    until("the third one to count the guest", counts);
    until("the producer to be seen", || listed().contains("guest/r: live"));
    guest.finish();
    machine.kill();
    producer.kill();
    until("its end to be recorded", || pair.word(1, IDENTITY_AT) == 0);
    until("the third one to count it no more", || !counts());
    assert!(listed().contains("guest/r: dead"), "{}", listed());
    // An agent of the host that never saw the lock of that machine knows as well.
    host.finish();
    std::fs::remove_file(pair.dirs[0].join("guest").join(MACHINE)).unwrap();
    let _host = pair.agent(0);
    pair.let_host_look();
    assert_eq!(pair.word(0, enclave::admitted_at(0)), 0);
    // And it begins anew.
    let _guest = pair.agent(1);
    pair.meet();
    until("the third one to count it again", counts);
}

/// Who starts a machine waits until nobody records the end of the last one any more: else that would end this one for all others.
#[test]
fn the_end_of_a_machine_is_recorded_before_the_next_one_begins_or_not_at_all() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("record") else { return };
    let mut machine = pair.machine();
    let [_host, mut guest] = pair.agents();
    guest.kill();
    let identity = pair.word(1, IDENTITY_AT);
    let path = pair.dirs[0].join("guest").join(MACHINE_LOCK);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    assert!(lock::try_lock(&file, Kind::Write, 0, 1).unwrap());
    machine.kill();
    until("the host to count it no more", || !pair.admits(0));
    let mut next = pair.start(0, "machine", &["guest"]);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(pair.word(1, IDENTITY_AT), identity, "somebody else records just now");
    lock::unlock(&file, 0, 1).unwrap();
    next.expect("runs");
    // Whether the end was recorded in between or not, nobody does so while this one runs.
    let identity = pair.word(1, IDENTITY_AT);
    pair.let_host_look();
    assert_eq!(pair.word(1, IDENTITY_AT), identity);
}

/// Who may read the file that tells whether a machine runs can lock it, and keeps no machine alive by that.
#[test]
fn an_enclave_that_is_dead_is_known_whoever_has_its_file_locked() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("locked") else { return };
    let mut machine = pair.machine();
    let [_host, mut guest] = pair.agents();
    guest.kill();
    machine.kill();
    let file = File::open(pair.dirs[0].join("guest").join(MACHINE)).unwrap();
    assert!(lock::try_lock(&file, Kind::Read, 0, 0).unwrap());
    until("the host to count it no more", || !pair.admits(0));
    until("its end to be recorded", || pair.word(1, IDENTITY_AT) == 0);
    // Nor does he keep it from starting again.
    let _next = pair.machine();
    let _guest = pair.agent(1);
    pair.meet();
    let of_owner = std::fs::metadata(pair.dirs[0].join("guest").join(MACHINE_LOCK)).unwrap();
    assert_eq!(of_owner.permissions().mode() & 0o777, 0o600);
}

/// Whoever saw that a machine ended sees that it has started again.
#[test]
fn a_machine_that_was_started_again_runs() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("again") else { return };
    let mut machine = pair.machine();
    let [_host, mut guest] = pair.agents();
    let open = || Observer::options().dir(&pair.dirs[0]).open("guest/r").unwrap();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let observer = open();
    until("the producer to live", || observer.producer_alive());
    producer.kill();
    guest.kill();
    machine.kill();
    until("it to have ended", || !observer.producer_alive());
    let _machine = pair.machine();
    let _guest = pair.agent(1);
    pair.meet();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let again = open();
    until("the next producer to live", || again.producer_alive());
    drop(observer);
}

/// Whoever has files from a broker asks no agent: what he held, the enclave's producers would not see.
#[test]
fn a_broker_hands_out_no_arena_of_another_enclave() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("handed-out") else { return };
    let [_host, _guest] = pair.agents();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let _own = Arena::options().dir(&pair.dirs[0]).open("host").unwrap();
    let mut own = Region::options().dir(&pair.dirs[0]).create("host/r").unwrap();
    own.publish(1).commit().unwrap();
    let socket = pair.dirs[0].join("broker");
    let options = Options { socket: socket.clone(), mode: 0o600, trust: Trust::Own, stays: false };
    let handout = Handout::new(&pair.dirs[0], None, &[]).unwrap().accept_plain(true);
    let service = Service::begin(&options, handout, Admission::default()).unwrap();
    let (stop, stops) = std::os::unix::net::UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| service.serve(std::os::fd::AsFd::as_fd(&stops)).unwrap());
        let open = |name: &str| Observer::options().open(&format!("unix:{}#{name}", socket.display()));
        assert_eq!(open("host/r").unwrap().newest().unwrap().version(), 1);
        let error = open("guest/r").unwrap_err().to_string();
        assert!(error.contains("another enclave's"), "{error}");
        drop(stop);
    });
    check_play(&Observer::options().dir(&pair.dirs[0]).open("guest/r").unwrap().newest().unwrap());
}

/// It was started without its lock, which somebody else had for a moment.
#[test]
fn a_machine_that_runs_is_not_taken_for_one_that_has_ended() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("unlocked") else { return };
    let [_host, _guest] = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    let identity = pair.word(1, IDENTITY_AT);
    pair.machine().kill();
    for _ in 0..20 {
        play.steps(20);
        pair.let_host_look();
    }
    assert!(pair.admits(0) && pair.is_held(0));
    assert_eq!(pair.word(1, IDENTITY_AT), identity);
    play.step_until_heard(&mut observer);
}

/// Whoever finds the end recorded while it runs says once more who it is.
#[test]
fn an_agent_that_was_taken_for_ended_says_who_it_is() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("mistaken") else { return };
    let [_host, _guest] = pair.agents();
    let identity = pair.word(1, IDENTITY_AT);
    let at = BYTES - CHUNK_BYTES as u64 + IDENTITY_AT as u64;
    pair.area(1).write_all_at(&[0; 8], at).unwrap();
    until("it to say so", || pair.word(1, IDENTITY_AT) == identity);
    pair.meet();
}

/// Its agent cannot say so any more.
#[test]
fn a_producer_ends_with_its_machine_or_before_its_agent() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("gone") else { return };
    let mut machine = pair.machine();
    let [_host, guest] = pair.agents();
    let observer = Observer::options().dir(&pair.dirs[0]).wait(LONG);
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let seen = observer.open("guest/r").unwrap();
    until("it to be said to live", || seen.producer_alive());
    producer.kill();
    guest.finish();
    assert!(!seen.producer_alive());

    let mut guest = pair.agent(1);
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    until("it to be said to live", || seen.producer_alive());
    guest.kill();
    producer.kill();
    assert!(seen.producer_alive());
    machine.kill();
    until("its end to be seen", || !seen.producer_alive());
    let newest = seen.newest().unwrap();
    check_play(&newest);
    // Also by who waits again and again for less time than an agent may come late.
    let wait = || seen.newest_after(Some(newest.version()), Some(Duration::from_millis(20)));
    until("who waits to be told", || matches!(wait(), Err(stillframe::Error::ProducerGone { .. })));
}

/// An agent that cannot make the files of a peer's leases says so, and shows and counts nothing until it can.
#[test]
fn a_peer_whose_leases_cannot_be_known_is_listened_to_once_they_can() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("leases") else { return };
    let obstacle = pair.dirs[0].join("guest").join(arena::lease_file(0));
    std::fs::create_dir_all(&obstacle).unwrap();
    let _agents = [0, 1].map(|side| pair.agent(side));
    until("the guest to count the host", || pair.admits(1));
    pair.let_host_look();
    assert_eq!(pair.word(0, enclave::admitted_at(0)), 0);
    std::fs::remove_dir(&obstacle).unwrap();
    pair.meet();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let mut observer = pair.observe(0);
    producer.tell();
    producer.expect("more");
    assert!(pair.is_held(1));
    observer.tell();
    producer.tell();
    observer.expect("followed");
}

#[test]
fn a_machine_that_starts_anew_is_another_one_and_holds_nothing() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("anew") else { return };
    let [_host, mut guest] = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    guest.kill();
    observer.kill();
    let before = pair.word(1, IDENTITY_AT);
    // As it is after a start of the kernel.
    let at = BYTES - CHUNK_BYTES as u64 + stillframe_segment::enclave::MAGIC_AT as u64;
    pair.area(1).write_all_at(&[0; 8], at).unwrap();
    let _guest = pair.agent(1);
    until("the host to count the new one", || pair.admits(0));
    assert_ne!(pair.word(1, IDENTITY_AT), before);
    assert!(!pair.is_held(0));
    let mut observer = pair.observe(1);
    play.steps(100);
    play.step_until_heard(&mut observer);
}

/// Whoever may connect may do so as often as he likes, and the agent has files to open all the same.
#[test]
fn clients_that_say_nothing_leave_an_agent_its_files() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("crowd") else { return };
    let _guest = pair.agent(1);
    let inner = helper::command("agent", &[pair.dirs[0].to_str().unwrap(), "host", "guest", "second", "third"]);
    let mut few = Command::new("sh");
    few.args(["-c", "ulimit -n 96; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap()).args(inner.get_args());
    few.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut host = Helper::start({
        few.stdin(Stdio::piped()).stdout(Stdio::piped());
        few
    });
    host.expect("runs");
    until("the agents to meet", || [0, 1].iter().all(|side| pair.admits(*side)));
    let mut clients = Vec::new();
    for _ in 0..20 {
        for name in ["guest", "second", "third"] {
            let socket = pair.dirs[0].join(name).join(AGENT);
            clients.extend((0..50).map_while(|_| {
                stillframe_kernel::local::connect(&socket, Instant::now() + Duration::from_secs(1)).ok()
            }));
        }
        clients.drain(..clients.len().saturating_sub(300));
        let before = pair.word(0, HEARTBEAT_AT);
        until("the agent to look, or to end", || {
            pair.word(0, HEARTBEAT_AT) > before + 10 || !matches!(host.try_hear_end(Duration::ZERO), Some(None))
        });
        assert!(pair.word(0, HEARTBEAT_AT) > before + 10, "the agent has ended");
    }
    drop(clients);
    let _play = pair.produce();
    pair.observe(1).kill();
}

/// Holes in an enclave's memory take memory when they are read, and where there is none nobody is ended by that.
#[test]
fn an_enclave_that_leaves_holes_ends_nobody_where_memory_is_used_up() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    let dir = Dir::plain("holes");
    let inner = helper::command("fill", &[dir.path().to_str().unwrap()]);
    let mut small = Command::new("unshare");
    let user: &[&str] = if stillframe_kernel::user_id() == 0 { &[] } else { &["-r"] };
    small.args(user).args(["-m", "--propagation", "private", "sh", "-c"]);
    small.arg("mount -t tmpfs -o size=16m,mode=755 none \"$1\" && shift && exec \"$@\"").arg("sh").arg(dir.path());
    small.arg(std::env::current_exe().unwrap()).args(inner.get_args());
    small.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    small.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut helper = Helper::start(small);
    assert_eq!(helper.hear().as_deref(), Some("lives"));
}

/// Who counted would count for ever, if the agent that comes next did not know of him.
#[test]
fn an_enclave_that_counts_is_named_again_or_forgotten() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("named-again") else { return };
    let [host, mut guest] = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    host.finish();
    let told = pair.start(0, "agent", &["host"]).hear().unwrap();
    assert!(told.contains("--peer guest") && told.contains("--forget guest"), "{told}");
    assert!(pair.admits(0) && pair.is_held(0));
    observer.kill();
    guest.kill();
    let mut host = pair.start(0, "agent", &["host", "-guest"]);
    host.expect("runs");
    assert!(!pair.admits(0));
    play.steps(100);
}

/// Places of an enclave's arena where it wrote nothing, which it may name as a version's, have memory before anybody here reads them.
#[test]
fn the_arena_of_an_enclave_has_memory_before_anybody_reads_it() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("memory") else { return };
    let [_host, _guest] = pair.agents();
    let _play = pair.produce();
    pair.observe(1).kill();
    let about = pair.area(0).metadata().unwrap();
    assert!(about.blocks() * 512 >= BYTES - CHUNK_BYTES as u64, "{} of {BYTES}", about.blocks() * 512);
}

/// What others hold of an arena they hold still when an agent was killed while it said who it is.
#[test]
fn an_arena_stays_the_same_whenever_its_agent_is_killed() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("same") else { return };
    let [_host, mut guest] = pair.agents();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let mut observer = pair.observe(0);
    guest.kill();
    let before = pair.word(1, IDENTITY_AT);
    // The magic goes first and comes last.
    let at = BYTES - CHUNK_BYTES as u64 + stillframe_segment::enclave::MAGIC_AT as u64;
    pair.area(1).write_all_at(&[0; 8], at).unwrap();
    let _guest = pair.agent(1);
    until("the two to meet again", || {
        pair.word(1, IDENTITY_AT) != before && [0, 1].iter().all(|side| pair.admits(*side))
    });
    assert!(pair.is_held(1));
    producer.tell();
    producer.expect("more");
    observer.tell();
    producer.tell();
    observer.expect("followed");
}

#[test]
fn who_is_not_counted_gets_no_version() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("alone") else { return };
    let mut host = pair.agent(0);
    let _play = pair.produce();
    let mut guest = pair.start(1, "agent", &["guest", "host"]);
    guest.expect("runs");
    until("the guest to count", || pair.admits(0));
    let admitted = BYTES - CHUNK_BYTES as u64 + stillframe_segment::enclave::admitted_at(0) as u64;
    host.kill();
    pair.area(0).write_all_at(&[0; 8], admitted).unwrap();
    let said = pair.start(1, "say", &["host/r"]).hear().unwrap();
    assert!(said.contains("is not seen"), "{said}");
}

/// A machine that is paused holds what it holds, for as long as it likes, and then goes on.
#[test]
fn an_enclave_that_is_paused_holds_what_it_held() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("paused") else { return };
    let [_host, guest] = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    observer.stop();
    guest.stop();
    play.steps(300);
    assert!(pair.is_held(0) && pair.admits(0));
    observer.signal(libc::SIGCONT);
    guest.signal(libc::SIGCONT);
    play.step_until_heard(&mut observer);
    observer.tell();
    observer.wait();
    until("what was shown to be hidden", || !pair.is_held(0));
}

/// The thread that says where a publish begins, in what strace wrote.
fn thread(text: &str) -> &str {
    let line = text.lines().find(|line| line.contains(&format!("close({MARK}"))).unwrap();
    line.split_whitespace().next().unwrap()
}

/// Asking another enclave for what it holds takes loads of words, and no call of the kernel more than without it.
#[test]
fn a_publish_makes_no_system_call_more_for_another_enclave() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("calls") else { return };
    if Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        return eprintln!("skipped: strace is missing");
    }
    let log = pair.dirs[0].join("calls");
    let mut host = pair.agent(0);
    let inner = helper::command("mark", &[pair.dirs[0].to_str().unwrap(), "host/r"]);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(&log).arg(std::env::current_exe().unwrap()).args(inner.get_args());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut producer = Helper::start(command);
    producer.expect("published");
    let mut seen = 0;
    let mut calls = |producer: &mut Helper| {
        producer.tell();
        producer.expect("published");
        let text = std::fs::read_to_string(&log).unwrap();
        // A call that another thread's comes between is written in two parts.
        let parts: Vec<&str> = text.split(&format!("close({MARK}")).collect();
        // Those of the thread that publishes, whose number begins each of its lines.
        let own = |part: &&str| {
            let line = |line: &&str| line.starts_with(&format!("{} ", thread(&text))) && !line.contains("resumed>");
            part.lines().skip(1).filter(line).count()
        };
        // Of each publish but the first ones, in which what changed since the last measurement is noticed. Versions differ in what
        // they take, and a call that waited is made twice: the least is what a publish takes.
        let counts: Vec<usize> = parts[seen + 1..parts.len() - 1].iter().skip(5).map(own).collect();
        seen = parts.len() - 1;
        assert!(counts.len() > 30);
        counts.into_iter().min().unwrap()
    };
    let alone = calls(&mut producer);
    let mut guest = pair.agent(1);
    until("the agents to meet", || [0, 1].iter().all(|side| pair.admits(*side)));
    let asked = calls(&mut producer);
    let mut observer = pair.observe(1);
    let held = calls(&mut producer);
    assert!(pair.is_held(0));
    eprintln!(
        "system calls of a publish: {alone} alone, {asked} with another enclave, {held} while that holds a version"
    );
    assert!(alone > 0 && asked <= alone && held <= alone, "{alone}, {asked}, {held}");
    observer.kill();
    producer.kill();
    host.kill();
    guest.kill();
}

#[test]
fn none_of_many_versions_is_torn() {
    let _watchdog = watchdog(600);
    let Some(pair) = Pair::new("many") else { return };
    let _agents = pair.agents();
    let mut play = pair.produce();
    let last = common::versions() * 20;
    let mut followers = [0, 0].map(|_| pair.start(1, "follow", &["host/r", &last.to_string()]));
    while play.version < last {
        play.step();
    }
    for follower in &mut followers {
        let said = follower.hear().unwrap();
        let count: u64 = said.strip_prefix("saw ").unwrap().parse().unwrap();
        assert!(count > 10, "{count}");
    }
}

/// Whoever is not counted holds nothing, though an enclave that is says that it is the same one.
#[test]
fn an_enclave_that_claims_anothers_identity_has_nobody_counted() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("claim") else { return };
    let mut guest = pair.agent(1);
    // The host listens to a third enclave alone.
    let evil = pair.dirs[0].join("evil");
    std::fs::create_dir(&evil).unwrap();
    std::fs::copy(pair.dirs[0].join("guest").join(FILE), evil.join(FILE)).unwrap();
    let identity = pair.word(1, IDENTITY_AT);
    let said = Enclave { name: "evil".into(), identity, arena: 7, boot: [7; 16] };
    let at = BYTES - CHUNK_BYTES as u64 + stillframe_segment::enclave::ABI_AT as u64;
    File::options().write(true).open(evil.join(FILE)).unwrap().write_all_at(&said.encode(), at).unwrap();
    let mut host = pair.start(0, "agent", &["host", "evil"]);
    host.expect("runs");
    let _play = pair.produce();
    let admitted = stillframe_segment::enclave::admitted_at(0);
    until("the third one to count", || pair.word(0, admitted) == identity);
    let subject = || pair.word(1, enclave::subject_at(0));
    until("the second one to know the arena", || subject() == pair.word(0, ARENA_AT));
    let said = pair.start(1, "say", &["host/r"]).hear().unwrap();
    assert!(said.contains("is not seen"), "{said}");
    guest.kill();
}

/// Whatever an enclave writes to its memory, the other's versions stay what they are, and its producer goes on.
#[test]
fn an_enclave_that_writes_garbage_harms_nobody_but_itself() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("garbage") else { return };
    let [mut host, mut guest] = pair.agents();
    let mut play = Play::open(pair.options().rule(Rule::default()), "host/r");
    play.step();
    guest.kill();
    let (area, mut state) = (pair.area(1), 7u64);
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 11
    };
    for round in 0..300 {
        for _ in 0..100 {
            let at = match round % 3 {
                0 => random() % BYTES,
                1 => BYTES - CHUNK_BYTES as u64 + random() % AREA_BYTES as u64,
                _ => random() % 4096,
            };
            let word = [0, u64::MAX, random(), random() << 40][random() as usize % 4];
            area.write_all_at(&word.to_le_bytes()[..(BYTES - at).min(8) as usize], at).unwrap();
        }
        play.write().unwrap();
        assert_eq!(play.publish().unwrap().outcome, Outcome::Published);
        let own = Observer::options().dir(&pair.dirs[0]).open("host/r").unwrap();
        check_play(&own.newest().unwrap());
    }
    assert!(host.try_hear_end(Duration::from_millis(50)).is_some(), "the agent of the host has ended");
}

/// Producers that come, and agents that are started anew, while the other enclave's words are damaged go on as if it had none, and
/// listen to it when it has.
#[test]
fn who_comes_while_the_other_enclave_is_damaged_goes_on() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("damaged") else { return };
    let [host, _guest] = pair.agents();
    let write = |at: u64, bytes: &[u8]| pair.area(1).write_all_at(bytes, at).unwrap();
    let mut header = vec![0; 4096];
    pair.area(1).read_exact_at(&mut header, 0).unwrap();
    write(0, &[0xa5; 4096]);
    let mut play = pair.produce();
    play.steps(20);
    drop(host);
    let mut host = pair.agent(0);
    play.steps(20);
    // The other one's name is not what it was called.
    let area = BYTES - CHUNK_BYTES as u64;
    let own = Enclave { name: "host".into(), identity: 5, arena: 6, boot: [0; 16] };
    let mut said = vec![0; own.encode().len()];
    pair.area(1).read_exact_at(&mut said, area + ABI_AT as u64).unwrap();
    write(0, &header);
    // Its own agent puts that right again.
    until("it to count no more", || {
        write(area + ABI_AT as u64, &own.encode());
        pair.word(0, enclave::admitted_at(0)) == 0
    });
    play.steps(20);
    write(area + ABI_AT as u64, &said);
    until("it to count again", || pair.admits(0));
    assert!(host.try_hear_end(Duration::from_millis(50)).is_some(), "the agent of the host has ended");
    let mut observer = pair.observe(1);
    play.steps(200);
    play.step_until_heard(&mut observer);
}

#[test]
fn names_and_memory_that_cannot_be_shared_are_refused() {
    let _watchdog = watchdog(300);
    let dir = Dir::plain("refused");
    let begin = |name: &str, bytes: u64, peers: &[&str]| {
        let peers = peers.iter().map(|name| name.to_string()).collect();
        let (dir, trust) = (dir.path().to_path_buf(), Trust::Own);
        let doorbells = Vec::new();
        Agent::begin(AgentOptions {
            dir,
            name: name.into(),
            bytes,
            peers,
            forgotten: Vec::new(),
            sparse: false,
            doorbells,
            mode: 0o755,
            trust,
        })
        .map(drop)
        .map_err(|error| error.to_string())
    };
    for (name, peers) in [("", &[][..]), ("a/b", &[]), ("..", &[]), ("a", &["a"]), ("a", &["b c"])] {
        assert!(begin(name, BYTES, peers).is_err(), "{name}");
    }
    assert!(begin("small", 1 << 20, &[]).unwrap_err().contains("too few"));
    begin("fine", BYTES, &["other"]).unwrap();
    begin("fine", BYTES, &["other"]).unwrap();
    assert!(!dir.path().join("other").join(AGENT).exists());
    // Another arena is there, which has no room behind it.
    stillframe::Arena::options().dir(dir.path()).bytes(BYTES).create("full").unwrap();
    assert!(begin("full", BYTES, &[]).is_err());
}
