//! The checkpointer as a whole: real producers in processes of their own, the real command, and accidents.
//!
//! A producer is this test binary started once more; its content tells whether a checkpoint is whole. `STILLFRAME_TEST_KILLS`
//! is the number of checkpointers killed at random instants.

use crate::support::{Scene, until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use stillframe::{Observer, Region, RegionOptions};
use stillframe_checkpoint::{Checkpointer, SaveOptions, State, Status, Store};

const PATIENCE: Duration = Duration::from_secs(600);
const WORDS: usize = 64 * 512;

/// What word `index` of version `version` is: each page is written by every third version, and tells by which.
fn word(version: u64, index: usize) -> u64 {
    let page = (index / 512) as u64;
    let last = version - (version + page) % 3 % (version + 1);
    last << 32 | index as u64
}

/// Steps that a producer is told to make, and what it says of each.
///
/// The arguments: the directory of regions, the name, rank and ranks (0 and 0: a region), how many words the array has.
/// Then on standard input, line by line: `publish FIRST LAST PAUSE_US`, `end`.
fn produce(arguments: &[String]) {
    let [dir, name, rank, ranks, words, fresh] = arguments else { panic!("{arguments:?}") };
    let number = |text: &str| text.parse::<u64>().unwrap();
    let mut options = Region::options().dir(dir).keep(2).fresh(fresh == "fresh");
    if number(ranks) > 0 {
        options = options.rank(number(rank) as u32, number(ranks) as u32);
    }
    let mut producer = Producer::open(options, name, number(words) as usize);
    println!("\n@open {}", producer.region.recovered().unwrap_or(0));
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).unwrap() > 0 {
        let parts: Vec<String> = line.split_whitespace().map(String::from).collect();
        match parts[0].as_str() {
            "publish" => {
                for version in number(&parts[1])..=number(&parts[2]) {
                    producer.publish(version);
                    std::thread::sleep(Duration::from_micros(number(&parts[3])));
                }
                println!("\n@published {}", parts[2]);
            }
            "end" => break,
            other => panic!("{other}"),
        }
        line.clear();
    }
}

struct Producer {
    region: Region,
    array: stillframe::Array<u64>,
}

impl Producer {
    fn open(options: RegionOptions, name: &str, words: usize) -> Producer {
        let mut region = options.create(name).unwrap();
        let array = region.array::<u64>("u", &[words]).unwrap();
        Producer { region, array }
    }

    fn publish(&mut self, version: u64) {
        for (index, element) in self.region.slice_mut(&self.array).iter_mut().enumerate() {
            let is = word(version, index);
            if *element != is {
                *element = is;
            }
        }
        let publication = self.region.publish(version).attr("step", version as i64 * 10);
        publication.attr("residual", 1.0 / (version + 1) as f64).attr("risky", version % 5 == 4).commit().unwrap();
    }
}

#[test]
fn helper_process() {
    let Ok(arguments) = std::env::var("STILLFRAME_TEST_PRODUCER") else { return };
    produce(&arguments.split('\n').map(String::from).collect::<Vec<_>>());
    std::process::exit(0);
}

/// A process that says things line by line, and is killed when dropped.
struct Process {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Process {
    fn start(mut command: Command) -> Process {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Process { child, lines, seen: Vec::new() }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line for which this is something.
    fn hear<T>(&mut self, what: &str, pick: impl Fn(&str) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen.push(line);
                    if let Some(found) = pick(self.seen.last().unwrap()) {
                        return found;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("'{what}' was not said: {:?}", self.seen),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended before it said '{what}': {:?}", self.seen),
            }
        }
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([format!("-{signal}"), self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end, within reason.
    fn end(&mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.seen.extend(self.lines.iter());
                return status;
            }
            assert!(Instant::now() < end, "it does not end: {:?}", self.seen);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn kill(&mut self) -> ExitStatus {
        self.child.kill().unwrap();
        self.end()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A producer in a process of its own.
struct Simulation(Process);

impl Simulation {
    fn start(scene: &Scene, name: &str, words: usize) -> Simulation {
        Simulation::begin(scene, name, (0, 0), words, false)
    }

    fn begin(scene: &Scene, name: &str, (rank, ranks): (u32, u32), words: usize, fresh: bool) -> Simulation {
        let mut command = Command::new("/proc/self/exe");
        command.args(["checkpoint::helper_process", "--exact", "--nocapture", "--test-threads=1"]);
        let dir = scene.dir();
        let fresh = if fresh { "fresh" } else { "recover" };
        let arguments = [dir.to_str().unwrap(), name, &rank.to_string(), &ranks.to_string(), &words.to_string(), fresh];
        command.env("STILLFRAME_TEST_PRODUCER", arguments.join("\n"));
        let mut process = Process::start(command);
        process.hear("open", |line| line.starts_with("@open").then_some(()));
        Simulation(process)
    }

    /// Publishes versions, and waits until it has.
    fn publish(&mut self, first: u64, last: u64) {
        self.begin_publishing(first, last, 0);
        self.published(last);
    }

    fn begin_publishing(&mut self, first: u64, last: u64, pause_us: u64) {
        self.0.tell(&format!("publish {first} {last} {pause_us}"));
    }

    fn published(&mut self, last: u64) {
        let text = format!("@published {last}");
        self.0.hear(&text, |line| (line == text).then_some(()));
    }

    fn end(mut self) {
        self.0.tell("end");
        assert!(self.0.end().success());
    }
}

/// `still checkpoint` with events in JSON.
struct Checkpoint(Process);

impl Checkpoint {
    /// One that takes what it needs, whatever else runs on this machine, unless it is told a share.
    fn command(scene: &Scene, args: &[&str]) -> Command {
        let mut all = vec!["checkpoint"];
        all.extend(args);
        all.extend(Some("--impolite").filter(|_| !args.contains(&"--share")));
        all.push("--json");
        scene.command(&all)
    }

    fn start(scene: &Scene, args: &[&str]) -> Checkpoint {
        Checkpoint(Process::start(Checkpoint::command(scene, args)))
    }

    /// Waits for an event.
    fn event(&mut self, name: &str) -> Value {
        self.0.hear(name, |line| {
            let event: Value = serde_json::from_str(line).unwrap();
            (event["event"] == name).then_some(event)
        })
    }

    fn saved(&mut self, version: u64) {
        self.0.hear(&format!("saved {version}"), |line| {
            let event: Value = serde_json::from_str(line).unwrap();
            (event["event"] == "saved" && event["version"] == version).then_some(())
        });
    }

    /// How many versions it has said are safe by now.
    #[cfg(feature = "points")]
    fn saved_so_far(&mut self) -> usize {
        self.0.seen.extend(self.0.lines.try_iter());
        numbers(&self.events(), "saved", "version").len()
    }

    /// Waits until a version could not be saved, and returns what is said of it.
    fn failed(&mut self, version: u64) -> Value {
        self.0.hear(&format!("failed {version}"), |line| {
            let event: Value = serde_json::from_str(line).unwrap();
            (event["event"] == "failed" && event["version"] == version).then_some(event)
        })
    }

    /// Waits for its good end, and returns what it said.
    fn end(mut self) -> Vec<Value> {
        let status = self.0.end();
        let events = self.events();
        assert!(status.success(), "{status}: {events:?}");
        events
    }

    fn events(&self) -> Vec<Value> {
        self.0.seen.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn numbers(events: &[Value], name: &str, key: &str) -> Vec<u64> {
    let of = events.iter().filter(|event| event["event"] == name);
    of.map(|event| event[key].as_u64().unwrap()).collect()
}

fn store(scene: &Scene) -> PathBuf {
    scene.file("ck")
}

/// The versions that are in a store, all of which are whole: their content is what was published under their number.
fn check_store(dir: &Path) -> Vec<u64> {
    let store = Store::open(dir).unwrap();
    let versions = store.versions().unwrap();
    for version in &versions {
        check_checkpoint(&store, *version);
    }
    versions
}

fn check_checkpoint(store: &Store, version: u64) {
    let checkpoint = store.version(version).unwrap_or_else(|error| panic!("version {version}: {error}"));
    let ranks = checkpoint.manifest().ranks;
    let ranks: Vec<Option<u32>> = ranks.map_or(vec![None], |ranks| (0..ranks).map(Some).collect());
    for rank in ranks {
        let variable = checkpoint.variable(rank, "u").unwrap();
        let mut bytes = vec![0; variable.shape.iter().product::<usize>() * 8];
        let length = bytes.len();
        checkpoint.read(rank, "u", 0..length, &mut bytes).unwrap();
        for (index, found) in bytes.chunks_exact(8).enumerate() {
            let found = u64::from_le_bytes(found.try_into().unwrap());
            assert_eq!(found, word(version, index), "version {version}, rank {rank:?}, word {index}");
        }
    }
    let step = checkpoint.attributes().get("step").unwrap().clone();
    assert_eq!(step, (version as i64 * 10).into());
}

/// What lies in a store beside checkpoints and its own files.
fn junk(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let known = ["lock", "status.json", "latest.zarr"];
    names.filter(|name| !(known.contains(&name.as_str()) || name.starts_with('v') && name.ends_with(".zarr"))).collect()
}

#[test]
fn each_version_is_saved_while_there_is_time_and_the_last_one_always() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    simulation.publish(1, 1);
    let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck"]);
    for version in 1..6 {
        checkpoint.saved(version);
        simulation.publish(version + 1, version + 1);
    }
    simulation.publish(7, 40);
    simulation.end();
    let events = checkpoint.end();
    let saved = numbers(&events, "saved", "version");
    assert_eq!((saved[..5].to_vec(), saved.last()), (vec![1, 2, 3, 4, 5], Some(&40)));
    let missed: u64 = numbers(&events, "missed", "count").iter().sum();
    assert_eq!(missed + saved.len() as u64, 40, "each version is either saved or missed");
    let last = &events.last().unwrap()["status"];
    assert_eq!((&last["state"], &last["newest_safe"], &last["missed"]), (&"ended".into(), &40.into(), &missed.into()));
    let kept = check_store(&store(&scene));
    assert_eq!((kept.len(), kept.last()), (3, Some(&40)));
    assert_eq!(junk(&store(&scene)), [""; 0]);
    assert_eq!(Status::read(store(&scene)).unwrap().unwrap().safe, kept);
    assert!(scene.ok(&["safe", "ck", "40"]).contains("version 40 is safe"));
    assert_eq!(scene.still(&["safe", "ck", "41"]).code, 1);
    assert_eq!(scene.json(&["safe", "ck", "5", "--or-newer", "--json"])["safe_version"], 40);
}

#[test]
fn multiples_of_a_number_are_saved_and_some_stay_for_ever() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    let mut checkpoint = Checkpoint::start(
        &scene,
        &["heat", "--to", "ck", "--every", "10", "--at-end", "--keep", "2", "--keep-every", "20"],
    );
    simulation.publish(3, 9);
    checkpoint.event("attached");
    for tens in 1..7 {
        simulation.publish(10 * tens, 10 * tens);
        checkpoint.saved(10 * tens);
        simulation.publish(10 * tens + 1, 10 * tens + 3);
    }
    simulation.end();
    let events = checkpoint.end();
    assert_eq!(numbers(&events, "saved", "version"), [10, 20, 30, 40, 50, 60, 63]);
    assert_eq!(check_store(&store(&scene)), [20, 40, 60, 63]);
}

/// Needs the feature `points`, by which it is known that a version was looked at for which the condition does not hold.
#[cfg(feature = "points")]
#[test]
fn a_condition_on_attributes_says_what_is_saved() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    simulation.publish(1, 1);
    let log = scene.file("points");
    let mut command = Checkpoint::command(
        &scene,
        &["heat", "--to", "ck", "--when", "risky && step > 50 && residual < 0.5", "--keep", "9"],
    );
    command.env("STILLFRAME_COUNT_POINTS", &log);
    let mut checkpoint = Checkpoint(Process::start(command));
    let seen = || {
        let points = std::fs::read_to_string(&log).unwrap_or_default();
        points.lines().filter(|point| *point == "look.seen").count()
    };
    let mut left_out = 0;
    for version in 1..=20 {
        if version > 1 {
            simulation.publish(version, version);
        }
        if [9, 14, 19].contains(&version) {
            checkpoint.saved(version);
        } else {
            left_out += 1;
            until("the version to be looked at", || seen() == left_out);
        }
    }
    simulation.end();
    let events = checkpoint.end();
    let (saved, missed) = (numbers(&events, "saved", "version"), numbers(&events, "missed", "count"));
    assert!(missed.is_empty(), "{events:?}");
    assert_eq!(saved, [9, 14, 19]);
}

#[test]
fn a_condition_that_cannot_be_decided_is_refused() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    simulation.publish(1, 1);
    simulation.end();
    let refused = scene.complaint(2, &["checkpoint", "heat", "--to", "ck", "--when", "step % 100 = 0"]);
    assert!(refused.contains("step % 100 <-- HERE = 0"), "{refused}");
    let unknown = scene.complaint(2, &["checkpoint", "heat", "--to", "ck", "--when", "risky && stepp > 3", "--json"]);
    assert!(unknown.contains("no attribute 'stepp'") && unknown.contains("residual"), "{unknown}");
}

#[test]
fn once_and_every_so_many_seconds() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    simulation.publish(1, 7);
    let text = scene.ok(&["checkpoint", "heat", "--to", "ck", "--once"]);
    assert!(text.contains("version 7 is safe"), "{text}");
    let again = scene.ok(&["checkpoint", "heat", "--to", "ck", "--once"]);
    assert!(again.contains("version 7 was safe before"), "{again}");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = scene.command(&["checkpoint", "heat", "--to", "unheard", "--once"]);
    let status = command.stdout(full).stderr(Stdio::null()).status().unwrap();
    assert_eq!(
        (status.code(), check_store(&scene.file("unheard"))),
        (Some(0), vec![7]),
        "there is room for checkpoints"
    );

    let begin = Instant::now();
    let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck", "--every-seconds", "0.3"]);
    checkpoint.saved(7);
    // There is always something new, and it is left until the time has come.
    for round in 1..5 {
        simulation.publish(6 * round + 2, 6 * round + 7);
        checkpoint.event("saved");
    }
    simulation.end();
    let events = checkpoint.end();
    let elapsed = begin.elapsed();
    let saved = numbers(&events, "saved", "version");
    assert!(saved.len() >= 5 && saved.len() as f64 <= elapsed.as_secs_f64() / 0.3 + 2.0, "{saved:?} in {elapsed:?}");
    check_store(&store(&scene));
}

#[test]
fn none_is_left_out_while_there_is_room_and_those_that_are_get_counted() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", 512 * 1024);
    simulation.publish(1, 1);
    let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck", "--all", "--held", "6", "--keep", "99"]);
    checkpoint.event("attached");
    // Six that come at once fit, and wait for each other: each comes as soon as the one before is held, for a producer waits for
    // nobody. The hold ends before it is said that the version is safe.
    let begin = Instant::now();
    let mut taken = || {
        checkpoint.0.seen.extend(checkpoint.0.lines.try_iter());
        let saved = numbers(&checkpoint.events(), "saved", "version").len();
        let pid = Some(checkpoint.0.child.id() as i32);
        let holders = stillframe::inspect::holders(&scene.dir(), "heat").unwrap();
        saved + holders.iter().filter(|holder| holder.pid == pid).map(|holder| holder.versions).sum::<usize>()
    };
    for version in 1..=6 {
        while taken() < version {
            assert!(begin.elapsed() < PATIENCE, "version {version} is not taken");
            std::thread::sleep(Duration::from_millis(1));
        }
        if version < 6 {
            simulation.publish(version as u64 + 1, version as u64 + 1);
        }
    }
    (2..=6)
        .for_each(|version| until("all to be safe", || scene.still(&["safe", "ck", &version.to_string()]).code == 0));
    // What comes while nobody looks goes, but for what the program keeps.
    checkpoint.0.signal("STOP");
    simulation.publish(7, 80);
    checkpoint.0.signal("CONT");
    simulation.end();
    let events = checkpoint.end();
    let mut saved = numbers(&events, "saved", "version");
    saved.sort();
    assert_eq!((saved[..6].to_vec(), saved.last()), (vec![1, 2, 3, 4, 5, 6], Some(&80)));
    let missed: u64 = numbers(&events, "missed", "count").iter().sum();
    assert!(missed > 60, "{events:?}");
    assert_eq!(missed + saved.len() as u64, 80, "{events:?}");
    // They are named, too.
    let named: u64 = events
        .iter()
        .filter(|event| event["event"] == "missed")
        .map(|event| event["before"].as_u64().unwrap() - event["after"].as_u64().unwrap() - 1)
        .sum();
    assert_eq!(named, missed);
    assert_eq!(check_store(&store(&scene)), saved);
}

#[test]
fn the_first_signal_finishes_and_leaves_nothing_behind() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    simulation.publish(1, 1);
    for signal in ["INT", "TERM"] {
        let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck"]);
        checkpoint.event("saved");
        simulation.begin_publishing(2, 3, 0);
        checkpoint.0.signal(signal);
        let events = checkpoint.end();
        assert_eq!(events.last().unwrap()["status"]["state"], "ended");
        check_store(&store(&scene));
        assert_eq!(junk(&store(&scene)), [""; 0]);
        simulation.published(3);
        simulation = {
            simulation.end();
            let mut next = Simulation::begin(&scene, "heat", (0, 0), WORDS, true);
            next.publish(1, 1);
            next
        };
        std::fs::remove_dir_all(store(&scene)).unwrap();
    }
}

#[test]
fn the_second_signal_drops_what_is_at_hand_and_leaves_nothing_behind() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", 64 << 20);
    simulation.publish(1, 1);
    // In words, for only these tell that a signal was seen.
    let mut checkpoint = Process::start(scene.command(&["checkpoint", "heat", "--to", "ck", "--impolite"]));
    until("it to save", || {
        let status = Status::read(store(&scene)).unwrap();
        status.is_some_and(|status| !status.saving.is_empty() || status.saved > 0)
    });
    checkpoint.signal("INT");
    // Two that come between two looks are one.
    checkpoint.hear("once more", |line| {
        let is_safe = line.starts_with("version 1 is safe");
        (is_safe || line == "finishing version 1; once more drops it").then_some(())
    });
    checkpoint.signal("INT");
    let code = checkpoint.end().code();
    // It may have been faster, but then it is whole.
    let safe = check_store(&store(&scene));
    let last = Status::read(store(&scene)).unwrap().unwrap();
    match safe.as_slice() {
        [1] => assert_eq!((code, last.state), (Some(0), State::Ended)),
        _ => {
            assert_eq!((safe.as_slice(), code, last.state), ([].as_slice(), Some(1), State::Failed), "{last:?}");
            assert_eq!(last.unsaved, [1]);
        }
    }
    assert_eq!(junk(&store(&scene)), [""; 0]);
    simulation.end();
}

#[test]
fn with_all_what_failed_is_held_and_tried_again_itself() {
    let scene = Scene::new();
    let Some(small) = Small::new(&scene, "9m", 128 * 1024, &["--all", "--keep", "9"]) else { return };
    let Small { mount: _mount, store, ballast, mut simulation, mut checkpoint } = small;
    std::fs::write(&ballast, vec![1; 7_500_000]).unwrap();
    // One after the other: a producer waits for nobody, and goes on from what is not held yet.
    for version in 2..=4 {
        simulation.publish(version, version);
        let failed = checkpoint.failed(version);
        assert!(failed["error"].as_str().unwrap().contains("space"), "{failed}");
    }
    // The program lets go of them, and ends, before there is space again. Its end is seen, and nothing tried, until there is.
    checkpoint.0.signal("STOP");
    simulation.end();
    std::fs::remove_file(&ballast).unwrap();
    checkpoint.0.signal("CONT");
    assert_eq!(checkpoint.0.end().code(), Some(0));
    assert_eq!(check_store(&store), [1, 2, 3, 4]);
    let last = checkpoint.events().last().unwrap()["status"].clone();
    assert_eq!(
        (&last["state"], &last["unsaved"], &last["missed"]),
        (&"ended".into(), &serde_json::json!([]), &0.into())
    );
}

#[test]
fn with_all_each_version_that_is_not_safe_is_an_error_in_the_end() {
    let scene = Scene::new();
    let Some(small) = Small::new(&scene, "9m", 128 * 1024, &["--all", "--keep", "9"]) else { return };
    let Small { mount: _mount, store, ballast, mut simulation, mut checkpoint } = small;
    std::fs::write(&ballast, vec![1; 7_500_000]).unwrap();
    for version in 2..=3 {
        simulation.publish(version, version);
        checkpoint.failed(version);
    }
    simulation.end();
    assert_eq!(checkpoint.0.end().code(), Some(1));
    assert_eq!(check_store(&store), [1]);
    let last = checkpoint.events().last().unwrap()["status"].clone();
    assert_eq!((&last["state"], &last["unsaved"]), (&"failed".into(), &serde_json::json!([2, 3])));
    assert!(last["error"].as_str().unwrap().starts_with("version 3, and 1 before it, are not saved: "), "{last}");
}

#[test]
fn a_producer_that_is_killed_in_the_middle_of_a_save_takes_nothing_with_it() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", 8 << 20);
    simulation.publish(5, 5);
    let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck"]);
    checkpoint.event("begun");
    assert!(simulation.0.kill().signal().is_some());
    checkpoint.end();
    assert_eq!(check_store(&store(&scene)), [5]);
}

#[test]
fn a_stopped_checkpointer_stops_nobody() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", 1 << 20);
    simulation.publish(1, 1);
    let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck"]);
    checkpoint.event("begun");
    checkpoint.0.signal("STOP");
    simulation.publish(2, 60);
    checkpoint.0.signal("CONT");
    checkpoint.saved(60);
    simulation.end();
    checkpoint.end();
    assert_eq!(check_store(&store(&scene)).last(), Some(&60));
}

#[test]
fn a_second_checkpointer_of_a_directory_is_refused() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    simulation.publish(1, 1);
    let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck"]);
    checkpoint.saved(1);
    let refused = scene.complaint(1, &["checkpoint", "heat", "--to", "ck"]);
    assert!(refused.contains(&checkpoint.0.child.id().to_string()), "{refused}");
    assert!(
        Status::read(store(&scene)).unwrap().unwrap().pid == checkpoint.0.child.id(),
        "the first one's status stays"
    );
    // Beside it, into another directory, is fine.
    scene.ok(&["checkpoint", "heat", "--to", "other", "--once"]);
    simulation.end();
    checkpoint.end();
}

#[test]
fn the_next_run_is_followed_and_never_mixed_with_the_last_one() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    simulation.publish(1, 3);
    let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck", "--follow", "60", "--keep", "2"]);
    checkpoint.saved(3);
    for version in 4..=6 {
        simulation.publish(version, version);
        checkpoint.saved(version);
    }
    simulation.0.kill();
    checkpoint.event("gone");
    // One that goes on.
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    checkpoint.event("new-run");
    simulation.publish(7, 7);
    checkpoint.saved(7);
    simulation.0.kill();
    // One that begins anew, with numbers that are taken.
    let mut simulation = Simulation::begin(&scene, "heat", (0, 0), WORDS, true);
    simulation.publish(2, 2);
    assert_eq!(checkpoint.event("set-aside")["versions"], serde_json::json!([6, 7]));
    checkpoint.saved(2);
    until("only the new run to be there", || check_store(&store(&scene)) == [2]);
    assert_eq!(check_store(&store(&scene).join("earlier-7")), [6, 7]);
    simulation.publish(7, 7);
    checkpoint.saved(7);
    checkpoint.0.signal("INT");
    checkpoint.end();
    assert_eq!(check_store(&store(&scene)), [2, 7]);
    simulation.end();
    // The same number of another run.
    let mut simulation = Simulation::begin(&scene, "heat", (0, 0), WORDS, true);
    simulation.publish(7, 7);
    scene.ok(&["checkpoint", "heat", "--to", "ck", "--once"]);
    assert_eq!((check_store(&store(&scene)), check_store(&store(&scene).join("earlier-7-2"))), (vec![2, 7], vec![7]));
    simulation.end();
}

#[test]
fn a_group_is_saved_whose_ranks_come_late_and_drift() {
    let scene = Scene::new();
    let mut checkpoint =
        Checkpoint::start(&scene, &["heat", "--to", "ck", "--wait", "60", "--at-end", "--every", "10"]);
    let mut ranks: Vec<Simulation> = Vec::new();
    until("it to wait", || Status::read(store(&scene)).unwrap().is_some());
    for rank in 0..3 {
        ranks.push(Simulation::begin(&scene, "heat", (rank, 3), WORDS, false));
    }
    assert_eq!(checkpoint.event("attached")["ranks"], 3);
    let mut last = 0;
    until("three to be safe", || {
        for (rank, pause_us) in [300, 1000, 3000].into_iter().enumerate() {
            ranks[rank].begin_publishing(last + 1, last + 95, pause_us);
        }
        last += 95;
        ranks.iter_mut().for_each(|rank| rank.published(last));
        Store::open(store(&scene)).is_ok_and(|store| store.versions().unwrap().len() > 2)
    });
    ranks.into_iter().for_each(Simulation::end);
    let events = checkpoint.end();
    let saved = numbers(&events, "saved", "version");
    assert_eq!(saved.last(), Some(&last), "{events:?}");
    assert!(saved.len() > 2, "{saved:?}");
    check_store(&store(&scene));
}

#[test]
fn a_rank_that_is_killed_is_named_and_what_all_have_is_saved() {
    let scene = Scene::new();
    let mut ranks: Vec<Simulation> =
        (0..2).map(|rank| Simulation::begin(&scene, "heat", (rank, 2), WORDS, false)).collect();
    ranks.iter_mut().for_each(|rank| rank.publish(1, 4));
    let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck", "--at-end", "--every", "100"]);
    checkpoint.event("attached");
    ranks[0].publish(5, 8);
    ranks[1].publish(5, 5);
    ranks[1].0.kill();
    let told = checkpoint.event("rank-gone");
    assert!(told["error"].as_str().unwrap().contains("rank 1 of 2"), "{told}");
    ranks[0].0.kill();
    checkpoint.end();
    assert_eq!(check_store(&store(&scene)), [5]);
}

/// The threads of a process: their names, nice values and policies.
fn threads(pid: &str) -> Vec<(String, i64, i64)> {
    let stat = |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("stat")).ok();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().filter_map(stat);
    let thread = |stat: String| {
        let (name, rest) = stat.split_once('(').unwrap().1.rsplit_once(") ").unwrap();
        let fields: Vec<i64> = rest.split(' ').skip(1).map(|field| field.trim().parse().unwrap_or_default()).collect();
        (name.to_string(), fields[15], fields[37])
    };
    tasks.map(thread).collect()
}

/// Seconds of processor time that a process used (proc(5), `stat`).
fn used_s(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

#[test]
fn where_nothing_is_left_over_it_keeps_to_its_share_and_still_saves() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    simulation.publish(1, 1);
    let ends = std::sync::atomic::AtomicBool::new(false);
    let share = std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // Without a share it would have as much as any of them.
        let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck", "--nice", "0", "--share", "2%"]);
        checkpoint.event("saved");
        let (begin, before) = (Instant::now(), used_s(checkpoint.0.child.id()));
        for round in 0..4 {
            simulation.publish(2 + 100 * round, 101 + 100 * round);
            checkpoint.event("saved");
        }
        let share = (used_s(checkpoint.0.child.id()) - before) / begin.elapsed().as_secs_f64();
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        simulation.end();
        let missed: u64 = numbers(&checkpoint.end(), "missed", "count").iter().sum();
        assert!(missed > 0, "what is left out is told");
        share
    });
    assert!(share < 0.2, "{share} of a processor");
}

#[test]
fn a_session_of_its_own_counts_as_its_threads_do() {
    if !Path::new("/proc/self/autogroup").exists() {
        eprintln!("skipped: this kernel has no autogroups");
        return;
    }
    let scene = Scene::new();
    let still = Checkpoint::command(&scene, &["heat", "--to", "ck", "--wait", "60", "--nice", "13"]);
    let mut command = Command::new("setsid");
    command.arg(still.get_program()).args(still.get_args()).current_dir(still.get_current_dir().unwrap());
    command.envs(still.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    let found = || std::fs::read_to_string(format!("/proc/{}/autogroup", child.id())).unwrap_or_default();
    while !found().trim_end().ends_with("nice 13") && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    let told = found();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(told.trim_end().ends_with("nice 13"), "{told:?}");
}

#[test]
fn the_leader_of_the_session_may_be_out_of_sight() {
    // In a container that was entered from outside, getsid(2) is 0.
    let entered = |program: &str| {
        let mut command = Command::new("setsid");
        command.args(["-w", "unshare", "-Urpf", program]).stdout(Stdio::null());
        command
    };
    if !entered("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no PID namespaces here");
        return;
    }
    let scene = Scene::new();
    let still = Checkpoint::command(&scene, &["heat", "--to", "ck"]);
    let mut command = entered(still.get_program().to_str().unwrap());
    command.args(still.get_args()).current_dir(still.get_current_dir().unwrap());
    command.envs(still.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let told = command.stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.code() == Some(1) && text.contains("--wait SECONDS waits"), "{}: {text}", told.status);
}

#[test]
fn what_saves_steps_back_and_what_looks_does_not() {
    let scene = Scene::new();
    let (_, own, _) = threads("self").swap_remove(0);
    for (number, (options, nice)) in
        [(&[][..], 10), (&["--nice", "13"], 13), (&["--nice", "0"], 0)].into_iter().enumerate()
    {
        let to = format!("ck{number}");
        let args = [&["heat", "--to", &to, "--wait", "60", "--all"], options].concat();
        let checkpoint = Checkpoint::start(&scene, &args);
        let pid = checkpoint.0.child.id().to_string();
        // What these tests are run with stays.
        let (batch, nice) = (if nice > 0 { i64::from(libc::SCHED_BATCH) } else { 0 }, own.max(nice));
        let begin = Instant::now();
        loop {
            let found = threads(&pid);
            let are = |name: &str, nice, policy| {
                let mut of = found.iter().filter(|thread| thread.0.starts_with(name)).peekable();
                of.peek().is_some() && of.all(|thread| (thread.1, thread.2) == (nice, policy))
            };
            if are("checkpoint save", nice, batch) && are("checkpoint look", own, 0) && are("still", own, 0) {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{options:?}: {found:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let told = scene.still(&["checkpoint", "heat", "--to", "ck", "--nice", "20"]);
    assert!(told.code == 2 && told.err.contains("20 is not in 0..=19"), "{}", told.err);
}

#[test]
fn a_region_that_is_not_there_is_an_error_unless_it_is_waited_for() {
    let scene = Scene::new();
    let told = scene.complaint(1, &["checkpoint", "heat", "--to", "ck"]);
    assert!(told.contains("--wait"), "{told}");
    let told = scene.still(&["checkpoint", "heat", "--to", "ck", "--wait", "0.2"]);
    assert_eq!(told.code, 1, "{}", told.err);
    assert_eq!(Status::read(store(&scene)).unwrap().unwrap().state, State::Failed);
    let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck", "--wait", "60", "--once"]);
    let pid = checkpoint.0.child.id();
    until("it to wait", || Status::read(store(&scene)).unwrap().is_some_and(|status| status.pid == pid));
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    assert_eq!(checkpoint.event("attached")["newest"], Value::Null);
    simulation.publish(1, 1);
    checkpoint.saved(1);
    checkpoint.end();
    simulation.end();
}

#[test]
fn a_directory_that_was_removed_is_made_again_and_told() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    simulation.publish(1, 1);
    let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck"]);
    checkpoint.saved(1);
    // Whatever it is writing at this moment.
    while std::fs::remove_dir_all(store(&scene)).is_err() {}
    simulation.publish(2, 2);
    checkpoint.event("remade");
    checkpoint.saved(2);
    simulation.end();
    checkpoint.end();
    assert_eq!(check_store(&store(&scene)), [2]);
}

#[test]
fn a_directory_that_cannot_be_written_to_is_an_error_that_says_so() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    simulation.publish(1, 1);
    std::fs::write(scene.file("file"), "no directory").unwrap();
    scene.complaint(1, &["checkpoint", "heat", "--to", "file"]);
    scene.complaint(1, &["checkpoint", "heat", "--to", "/proc/nowhere"]);
    simulation.end();
}

/// A small file system of its own, where the user may mount one.
struct Mount(PathBuf);

impl Mount {
    fn new(scene: &Scene, size: &str) -> Option<Mount> {
        let path = scene.file("small");
        std::fs::create_dir(&path).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(&path).stderr(Stdio::null());
        let is_mounted = command.status().is_ok_and(|status| status.success());
        is_mounted.then_some(Mount(path))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A simulation whose first version is saved on a small file system, and whose next ones are to be.
struct Small {
    mount: Mount,
    store: PathBuf,
    /// Where a file takes the room away.
    ballast: PathBuf,
    simulation: Simulation,
    checkpoint: Checkpoint,
}

impl Small {
    /// `None`, and a word about it, where the file system cannot be had.
    fn new(scene: &Scene, size: &str, words: usize, rules: &[&str]) -> Option<Small> {
        let Some(mount) = Mount::new(scene, size) else {
            eprintln!("skipped: this user may not mount a file system");
            return None;
        };
        let (store, ballast) = (mount.0.join("ck"), mount.0.join("ballast"));
        let mut simulation = Simulation::start(scene, "heat", words);
        simulation.publish(1, 1);
        let to = ["heat", "--to", store.to_str().unwrap()];
        let mut command = Checkpoint::command(scene, &[&to, rules].concat());
        command.stderr(Stdio::null());
        let mut checkpoint = Checkpoint(Process::start(command));
        checkpoint.saved(1);
        Some(Small { mount, store, ballast, simulation, checkpoint })
    }
}

#[test]
fn a_full_disk_is_told_and_tried_again_and_what_was_safe_stays() {
    let scene = Scene::new();
    let Some(small) = Small::new(&scene, "3m", 128 * 1024, &["--keep", "1"]) else { return };
    let Small { mount: _mount, store, ballast, mut simulation, mut checkpoint } = small;
    std::fs::write(&ballast, vec![1; 1_500_000]).unwrap();
    simulation.publish(2, 2);
    let failed = checkpoint.event("failed");
    assert!(failed["error"].as_str().unwrap().contains("space"), "{failed}");
    assert_eq!(failed["retry_seconds"], 1.0);
    assert_eq!(check_store(&store), [1]);
    until("the status to tell it", || Status::read(&store).is_ok_and(|status| status.unwrap().error.is_some()));
    assert_eq!(junk(&store), [""; 0]);
    // Space comes back, without another version.
    std::fs::remove_file(&ballast).unwrap();
    checkpoint.saved(2);
    assert_eq!(check_store(&store), [2]);
    // It does not come back, and the program ends.
    std::fs::write(&ballast, vec![1; 1_500_000]).unwrap();
    simulation.publish(3, 3);
    checkpoint.event("failed");
    simulation.end();
    let status = checkpoint.0.end();
    assert_eq!(status.code(), Some(1));
    assert_eq!(checkpoint.events().last().unwrap()["status"]["state"], "failed");
    assert_eq!(check_store(&store), [2]);
}

#[test]
fn nothing_is_written_into_the_place_of_a_file_system_that_was_unmounted() {
    let scene = Scene::new();
    let Some(small) = Small::new(&scene, "3m", WORDS, &[]) else { return };
    let Small { mount, mut simulation, mut checkpoint, .. } = small;
    let place = mount.0.clone();
    drop(mount);
    simulation.publish(2, 2);
    let failed = checkpoint.event("failed");
    assert_eq!(failed["code"], 1112, "{failed}");
    assert_eq!(std::fs::read_dir(place).unwrap().count(), 0);
    checkpoint.0.signal("INT");
    checkpoint.0.end();
    simulation.end();
}

#[test]
fn a_checkpointer_may_be_killed_at_any_instant() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", 256 * 1024);
    simulation.publish(1, 1);
    scene.ok(&["checkpoint", "heat", "--to", "ck", "--once"]);
    simulation.begin_publishing(2, 100_000, 500);
    let kills: u64 = std::env::var("STILLFRAME_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let (mut seed, mut before) = (7u64, 1);
    for _ in 0..kills {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mut checkpoint = Checkpoint::start(&scene, &["heat", "--to", "ck", "--keep", "2"]);
        std::thread::sleep(Duration::from_micros((seed >> 33) % 120_000));
        checkpoint.0.kill();
        // What it said was safe is, and something always is.
        let kept = check_store(&store(&scene));
        let told = numbers(&checkpoint.events(), "saved", "version").last().copied().unwrap_or(before);
        assert!(kept.last() >= Some(&told), "{kept:?} after {told}");
        before = *kept.last().unwrap();
        assert_eq!(stillframe_checkpoint::newest_safe(store(&scene)).unwrap(), Some(before));
    }
    scene.ok(&["checkpoint", "heat", "--to", "ck", "--once"]);
    assert_eq!(junk(&store(&scene)), [""; 0], "left-overs are cleaned up");
    let holders = stillframe::inspect::holders(&scene.dir(), "heat").unwrap();
    assert!(holders.is_empty(), "{holders:?}");
    simulation.0.kill();
}

/// Named points at which the command is killed; needs the feature `points`.
#[cfg(feature = "points")]
#[test]
fn a_checkpointer_may_be_killed_at_every_point() {
    let scene = Scene::new();
    let mut simulation = Simulation::start(&scene, "heat", WORDS);
    simulation.publish(1, 1);
    scene.ok(&["checkpoint", "heat", "--to", "ck", "--once"]);
    // What is saved in a round: links, new chunks, and something that has to go, after what the last one left was cleaned. It ends
    // when the checkpointer has, or has saved as many as that takes.
    let round = |checkpoint: &mut Checkpoint, simulation: &mut Simulation, first: u64| {
        let end = Instant::now() + PATIENCE;
        simulation.publish(first, first);
        let mut last = first;
        while checkpoint.0.child.try_wait().unwrap().is_none() && checkpoint.saved_so_far() < 4 {
            assert!(Instant::now() < end, "it neither saves nor ends: {:?}", checkpoint.0.seen);
            last += 1;
            simulation.publish(last, last);
            std::thread::sleep(Duration::from_millis(15));
        }
        last
    };
    let args = ["heat", "--to", "ck", "--keep", "2"];
    let log = scene.file("points");
    let mut command = Checkpoint::command(&scene, &args);
    command.env("STILLFRAME_COUNT_POINTS", &log);
    let mut checkpoint = Checkpoint(Process::start(command));
    checkpoint.saved(1);
    let mut version = round(&mut checkpoint, &mut simulation, 2);
    checkpoint.0.signal("INT");
    checkpoint.end();
    let text = std::fs::read_to_string(&log).unwrap();
    let points: std::collections::BTreeSet<&str> = text.lines().collect();
    for expected in ["open.locked", "save.chunks", "save.written", "save.synced", "save.renamed", "save.committed"] {
        assert!(points.contains(expected), "the scenario does not pass {expected}: {points:?}");
    }
    assert!(points.iter().any(|point| point.starts_with("remove.")), "{points:?}");
    let (mut died, count) = (0, points.len());
    for point in points {
        for occurrence in [1, 3] {
            let mut command = Checkpoint::command(&scene, &args);
            command.env("STILLFRAME_DIE_AT", format!("{point}:{occurrence}"));
            let mut checkpoint = Checkpoint(Process::start(command));
            let last = round(&mut checkpoint, &mut simulation, version + 1);
            version = last;
            died += usize::from(checkpoint.0.child.try_wait().unwrap().is_some());
            checkpoint.0.kill();
            let told = numbers(&checkpoint.events(), "saved", "version").last().copied();
            let kept = check_store(&store(&scene));
            assert!(!kept.is_empty() && kept.last().copied() >= told, "{point}:{occurrence}: {kept:?} after {told:?}");
            let mut next = Checkpoint::start(&scene, &["heat", "--to", "ck", "--keep", "2", "--once"]);
            next.saved(last);
            next.end();
            assert_eq!(junk(&store(&scene)), [""; 0], "{point}:{occurrence}");
            // One more than are to stay may be left of a writer that died between the two, until the next one writes.
            let kept = check_store(&store(&scene));
            assert!((2..=3).contains(&kept.len()) && kept.last() == Some(&last), "{point}:{occurrence}: {kept:?}");
        }
    }
    // Not all points are passed in each round, and not all three times.
    assert!(died > count, "only {died} checkpointers died at {count} points");
    simulation.end();
}

#[test]
fn a_program_may_save_its_own_versions_and_wait_for_them() {
    let scene = Scene::new();
    let mut producer = Producer::open(Region::options().dir(scene.dir()), "heat", WORDS);
    producer.publish(1);
    let options = Checkpointer::options().dir(scene.dir()).every(10).at_end(true).save(SaveOptions::new());
    let checkpointer = options.start("heat", store(&scene)).unwrap();
    assert!(!checkpointer.wait_safe(1, Duration::from_millis(50)).unwrap());
    (2..=10).for_each(|version| producer.publish(version));
    assert!(checkpointer.wait_safe(10, PATIENCE).unwrap());
    assert_eq!(checkpointer.newest_safe(), Some(10));
    producer.publish(13);
    assert_eq!(checkpointer.wait_safe_from(12, Duration::from_millis(50)).unwrap(), None);
    let status = checkpointer.stop().unwrap();
    assert_eq!((status.state, status.newest_safe, status.saved), (State::Ended, Some(13), 2));
    assert_eq!(check_store(&store(&scene)), [10, 13]);
    // Dropped, it ends at once.
    drop(Checkpointer::options().dir(scene.dir()).start("heat", store(&scene)).unwrap());
    assert_eq!(junk(&store(&scene)), [""; 0]);
    let observer = Observer::options().dir(scene.dir()).open("heat").unwrap();
    until("all holds to end", || stillframe::inspect::holders(&scene.dir(), observer.name()).unwrap().is_empty());
}
