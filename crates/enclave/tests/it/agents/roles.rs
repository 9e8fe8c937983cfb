//! What helper processes do: producers, observers and machines of an enclave. `tests/kernels/enclave.sh` has some of them, too.

use super::LONG;
use crate::helper::{Play, check_play, say, until, wait_for_word};
use crate::pair::BYTES;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stillframe::inspect::{self, Holder, State};
use stillframe::{Observer, Region, Rule, Trust};
use stillframe_enclave::{Agent, AgentOptions};
use stillframe_segment::arena::{CHUNK_BYTES, FILE, Geometry, MAGIC};
use stillframe_segment::enclave::{self, ARENA_AT, Enclave};

pub fn open(dir: &str, name: &str) -> Observer {
    Observer::options().dir(dir).wait(LONG).open(name).unwrap()
}

/// Opens what lies in a directory by a relative path, and goes elsewhere, if that is asked for by a further argument.
pub fn wander<T>(dir: &str, how: &[String], open: impl FnOnce(&str) -> T) -> T {
    if how.is_empty() {
        return open(dir);
    }
    std::env::set_current_dir(dir).unwrap();
    let opened = open(".");
    std::env::set_current_dir("/").unwrap();
    opened
}

/// Holds the newest version until told.
pub fn observe(arguments: &[String]) {
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
pub fn hold(arguments: &[String]) {
    let [dir, name] = arguments else { panic!("hold DIR NAME") };
    let held = open(dir, name).newest().unwrap();
    say("holds");
    wait_for_word();
    drop(held);
}

/// What is listed of each region of a directory, and who holds versions of it.
pub fn listed(dir: &Path) -> Vec<String> {
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
pub fn list(arguments: &[String]) {
    let [dir] = arguments else { panic!("list DIR") };
    say(&listed(Path::new(dir)).join("; "));
}

/// Publishes versions without room for a third one, and says why that is not published, if it is not to wait for ever.
pub fn crowd(arguments: &[String]) {
    const COUNT: usize = 1 << 17;
    let [dir, name, timeout_ms @ ..] = arguments else { panic!("crowd DIR NAME [TIMEOUT_MS]") };
    let timeout = timeout_ms.first().map(|timeout_ms| Duration::from_millis(timeout_ms.parse().unwrap()));
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
pub fn say_what_comes(arguments: &[String]) {
    let [dir, name] = arguments else { panic!("say DIR NAME") };
    match Observer::options().dir(dir).open(name).and_then(|observer| observer.newest()) {
        Ok(snapshot) => say(&format!("version {}", snapshot.version())),
        Err(error) => say(&error.to_string()),
    }
}

/// Publishes once, then 200 times when told, and then for as long as it lives.
pub fn produce(arguments: &[String]) {
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
pub fn mark(arguments: &[String]) {
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

pub fn mark_here() {
    // SAFETY: the call reads nothing, and closes nothing: there is no such descriptor.
    unsafe { libc::close(MARK) };
}

/// A descriptor that nobody has.
pub const MARK: i32 = 1_234_567;

/// Publishes until a version has this number, with a pause before each.
pub fn play(arguments: &[String]) {
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
pub fn fill(arguments: &[String]) {
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
pub fn follow(arguments: &[String]) {
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

/// Checks versions as they come, until it has seen so many, one of them so late.
pub fn check(arguments: &[String]) {
    let [dir, name, count, least] = arguments else { panic!("check DIR NAME COUNT LEAST") };
    let (observer, count, least): (_, u64, u64) = (open(dir, name), count.parse().unwrap(), least.parse().unwrap());
    let (mut seen, mut checked) = (None, 0);
    while checked < count || seen < Some(least) {
        let snapshot = observer.newest_after(seen, Some(LONG)).unwrap();
        check_play(&snapshot);
        seen = Some(snapshot.version());
        checked += 1;
    }
    say("checked");
}

/// A region whose versions say nothing but that they are there.
pub fn bare(dir: &str, name: &str) -> Region {
    let mut region = Region::options().dir(dir).rule(Rule::Wait { timeout: None }).create(name).unwrap();
    region.array::<u64>("u", &[1]).unwrap();
    region
}

/// Publishes a version for each that comes, until one has this number.
pub fn answer(arguments: &[String]) {
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

/// Waits in a region of the own enclave for a version that comes once it has slept some times: in a device's memory a kernel lets nobody
/// sleep, and who looked again at once would never sleep.
pub fn rest(arguments: &[String]) {
    let [dir, name] = arguments else { panic!("rest DIR NAME") };
    let mut region = bare(dir, name);
    region.publish(1).commit().unwrap();
    let observer = open(dir, name);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || {
            // SAFETY: the call takes nothing.
            sender.send(unsafe { libc::gettid() }).unwrap();
            observer.wait_newer(Some(1), None).unwrap()
        });
        let status = format!("/proc/self/task/{}/status", receiver.recv().unwrap());
        let sleeps = || {
            let text = std::fs::read_to_string(&status).unwrap();
            let count = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            count.unwrap().trim().parse::<u64>().unwrap()
        };
        let before = sleeps();
        until("who waits to sleep", || waits.is_finished() || sleeps() >= before + 10);
        assert!(!waits.is_finished(), "nothing came yet");
        region.publish(2).commit().unwrap();
        assert_eq!(waits.join().unwrap(), 2);
    });
}

/// Publishes versions, and waits each time until another enclave has answered by one of the same number.
pub fn ask(arguments: &[String]) {
    let [dir, ask, answer, last] = arguments else { panic!("ask DIR ASK ANSWER LAST") };
    let mut region = bare(dir, ask);
    region.publish(1).commit().unwrap();
    let (observer, last) = (open(dir, answer), last.parse().unwrap());
    observer.wait_newer(None, Some(LONG)).unwrap();
    for number in 2..=last {
        // Long enough for the other side to sleep, and at no fixed distance from when it looks.
        std::thread::sleep(Duration::from_micros(4000 + number * 377 % 1000));
        region.publish(number).commit().unwrap();
        while observer.wait_newer(Some(number - 1), Some(LONG)).unwrap() < number {}
    }
    say(&format!("a version there and one back {} times", last - 1));
}

/// The program of a machine, which ends when it is killed.
pub fn be_machine(arguments: &[String]) {
    let [dir, name] = arguments else { panic!("machine DIR NAME") };
    let lock = stillframe_enclave::begin_machine(std::path::Path::new(dir), name, 0o755, Trust::Own);
    say(&lock.as_ref().map_or_else(|error| error.to_string(), |_| "runs".into()));
    wait_for_word();
}
