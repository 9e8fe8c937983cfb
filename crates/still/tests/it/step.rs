//! `still step`: a program that makes one version per call, and everything that can go wrong with it.
//!
//! The program is this test's own executable, told by its environment to be one.

use crate::support::{Guard, Scene, Told, until, wait};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use stillframe::{Observer, Region};

const MODE: &str = "STEP_TEST_MODE";
/// More than a window, and no whole number of pages.
const COUNT: usize = 300_001;

/// The program: reads version v, whose numbers are v and a half each, and writes v + 1.
#[test]
fn helper_process() {
    let Ok(mode) = std::env::var(MODE) else { return };
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let state = std::env::var("STILLFRAME_STATE").unwrap();
    let (read, write) = (number("STILLFRAME_READ"), number("STILLFRAME_WRITE").unwrap());
    let attempt = number("STILLFRAME_ATTEMPT").unwrap();
    // A mode is a word, and may have a version at which it holds, and the last attempt at which it does.
    let parts: Vec<&str> = mode.split(':').collect();
    let at = parts.get(1).and_then(|text| text.parse().ok());
    let until: u64 = parts.get(2).and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    let word = if at.is_none_or(|at: u64| at == write) && attempt <= until { parts[0] } else { "well" };
    eprintln!("writing version {write}, attempt {attempt}, {word}");
    if word == "silent" {
        return;
    }
    if parts[0] == "ranks" {
        return ranks(&state, read, write, word == "ranks");
    }
    if parts[0] == "parted" {
        return parted(&state, write);
    }
    if word == "between" {
        // As long as this has not begun, nobody produces the state.
        let [there, go] = ["there", "go"].map(|name| format!("{name}-{write}"));
        std::fs::write(there, "").unwrap();
        crate::support::until("the word to begin", || std::path::Path::new(&go).exists());
    }
    let mut region = Region::create(&state).unwrap();
    let x = region.loaned::<f64>("x", &[COUNT]).unwrap();
    let snapshot = read.map(|read| Observer::open(&state).unwrap().version(read).unwrap());
    let old = snapshot.as_ref().map(|snapshot| snapshot.slice::<f64>("x").unwrap());
    if let Some(old) = old {
        assert!(old.iter().all(|value| *value == read.unwrap() as f64 + 0.5), "the read state is not version {read:?}");
    }
    let mut loan = region.loan(&x).unwrap();
    loan[..COUNT / 2].fill(write as f64 + 0.5);
    match word {
        "abort" => std::process::abort(),
        "code" => std::process::exit(7),
        "ended" => end_job("-TERM"),
        "leaves" => return end_job("-0"),
        "refuses" => {
            end_job("-0");
            std::process::exit(7);
        }
        "hang" => std::thread::sleep(Duration::from_secs(1000)),
        "slow" => std::thread::sleep(Duration::from_millis(300)),
        "pause" => std::thread::sleep(Duration::from_millis(20)),
        "gate" => crate::support::until("the word to go on", || std::path::Path::new("go").exists()),
        _ => {}
    }
    loan[COUNT / 2..].fill(write as f64 + 0.5);
    loan.submit();
    let risky = word == "risky";
    region.publish(write).attr("half", write as f64 / 2.0).attr("risky", risky).commit().unwrap();
    if word == "late" {
        std::process::exit(9);
    }
}

/// What a program sees of the end of its job: all processes are signalled, one after the other, and the driver last. With the signal
/// 0 it goes on, as a program does that ends by itself when it is told to. When that began and ended is written down.
fn end_job(signal: &str) {
    let driver = std::os::unix::process::parent_id();
    let script = format!(
        "read begin rest < /proc/uptime; \
         (sleep 0.1; kill -TERM {driver}; read end rest < /proc/uptime; echo $begin $end >> {JOB_ENDS}) &"
    );
    Command::new("sh").args(["-c", &script]).status().unwrap();
    Command::new("kill").args([signal, &std::process::id().to_string()]).status().unwrap();
}

/// Seconds at which the job of a scene began to end, and at which its driver had been signalled.
const JOB_ENDS: &str = "job-ends";

/// How long after its program a driver expects the signal at least, in seconds, less what the clock of /proc/uptime leaves out.
const SIGNALS_APART: f64 = 0.48;

/// Runs a step whose program ends with its job. Where processors were too scarce to signal the driver in time, it is done once more.
fn step_of_ending_job(mode: &str, args: &[&str]) -> (Scene, Told) {
    loop {
        let scene = Scene::new();
        let told = step(&scene, mode, args);
        let ends = || std::fs::read_to_string(scene.file(JOB_ENDS)).unwrap_or_default();
        until("the signal to the driver", || ends().contains('\n'));
        let first: Vec<f64> = ends().lines().next().unwrap().split(' ').map(|second| second.parse().unwrap()).collect();
        if first[1] - first[0] < SIGNALS_APART {
            return (scene, told);
        }
        eprintln!("the driver was signalled only {:.2} s after its program: once more", first[1] - first[0]);
    }
}

/// A group of two ranks, the first of which has ended when the second begins.
fn parted(state: &str, write: u64) {
    for rank in 0..2 {
        let mut region = Region::options().rank(rank, 2).create(state).unwrap();
        region.array::<f64>("x", &[4]).unwrap();
        region.publish(write).commit().unwrap();
    }
}

/// A group of two ranks, the second of which may die when the first has published.
fn ranks(state: &str, read: Option<u64>, write: u64, dies: bool) {
    let mut regions: Vec<Region> = [0, 1]
        .map(|rank| {
            let options = Region::options().rank(rank, 2);
            let options = read.into_iter().fold(options, |options, read| options.rollback(read));
            options.create(state).unwrap()
        })
        .into();
    for (rank, region) in regions.iter_mut().enumerate() {
        assert_eq!(region.newest(), read, "what only one rank published is taken back");
        if rank == 1 && dies {
            std::process::exit(3);
        }
        let x = region.loaned::<f64>("x", &[1000]).unwrap();
        let mut loan = region.loan(&x).unwrap();
        loan.fill((write * 2) as f64 + rank as f64);
        loan.submit();
        region.publish(write).commit().unwrap();
    }
}

fn program() -> [String; 4] {
    let own = std::env::current_exe().unwrap().display().to_string();
    [own, "--exact".into(), "step::helper_process".into(), "--nocapture".into()]
}

/// A driver that has not been started.
fn driver(scene: &Scene, mode: &str, args: &[&str]) -> Command {
    let mut command = scene.command(&["step", "--state", "state"]);
    command.args(args).arg("--").args(program()).env(MODE, mode).env_remove("SLURM_JOB_END_TIME");
    command
}

fn run(command: &mut Command) -> Told {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = wait(child);
    Told {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        bytes: output.stdout,
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn step(scene: &Scene, mode: &str, args: &[&str]) -> Told {
    run(&mut driver(scene, mode, args))
}

fn events(told: &Told) -> Vec<Value> {
    told.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn names(told: &Told) -> Vec<String> {
    events(told).iter().map(|event| event["event"].as_str().unwrap().to_string()).collect()
}

/// The newest version, whose content is checked.
fn newest(scene: &Scene) -> Option<u64> {
    let snapshot = Observer::options().dir(scene.dir()).open("state").ok()?.newest().ok()?;
    let x = snapshot.slice::<f64>("x").unwrap();
    assert!(x.iter().all(|value| *value == snapshot.version() as f64 + 0.5), "version {}", snapshot.version());
    Some(snapshot.version())
}

#[test]
fn a_fresh_state_is_made_and_stepped_to_the_last_version() {
    let scene = Scene::new();
    let told = step(&scene, "well", &["--until", "5", "--json"]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert_eq!(names(&told), ["begun", "stepped", "stepped", "stepped", "stepped", "stepped", "stepped", "ended"]);
    assert_eq!(events(&told)[0]["origin"], "fresh");
    assert_eq!(newest(&scene), Some(5));
    let told = step(&scene, "well", &["--until", "7"]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.err.contains("begins with version 5, which is in memory"), "{}", told.err);
    assert_eq!(newest(&scene), Some(7));
    let told = step(&scene, "well", &["--until", "7", "--json"]);
    assert_eq!((told.code, names(&told)), (0, vec!["begun".to_string(), "ended".into()]), "nothing is left to do");
}

#[test]
fn a_step_that_fails_leaves_the_last_version_and_is_named() {
    for (mode, why) in [("abort:4", "was killed by SIGABRT"), ("code:4", "ended with code 7")] {
        let scene = Scene::new();
        let told = step(&scene, mode, &["--until", "9", "--log", "logs"]);
        assert_eq!(told.code, 1);
        let line = told.err.lines().last().unwrap();
        assert!(line.starts_with("still: the step to version 4 failed: "), "{line}");
        assert!(line.contains(why) && line.contains("version 3 is as it was"), "{line}");
        assert_eq!(newest(&scene), Some(3));
        let log = std::fs::read_to_string(scene.file("logs/version-4-attempt-1.log")).unwrap();
        assert!(log.contains("writing version 4, attempt 1"), "{log}");
        assert_eq!(std::fs::read_dir(scene.file("logs")).unwrap().count(), 1, "only failed steps leave a log");
        assert_eq!(step(&scene, "well", &["--until", "6"]).code, 0);
        assert_eq!(newest(&scene), Some(6));
    }
}

#[test]
fn where_there_is_no_version_yet_none_is_told() {
    let scene = Scene::new();
    let told = step(&scene, "abort:0:9", &["--until", "5", "--json"]);
    assert_eq!(names(&told), ["begun", "failed", "ended"], "{}", told.err);
    assert!(events(&told).iter().all(|event| event["version"].is_null()), "{}", told.out);
    assert_eq!(events(&told)[1]["write"], 0);
}

#[test]
fn a_step_is_tried_again_as_often_as_allowed() {
    let scene = Scene::new();
    let told = step(&scene, "abort:3:2", &["--until", "5", "--retries", "2", "--json"]);
    assert_eq!(told.code, 0, "{}", told.err);
    let failed: Vec<_> = events(&told).into_iter().filter(|event| event["event"] == "failed").collect();
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().all(|event| event["version"] == 2 && event["write"] == 3), "{failed:?}");
    let step_3 = events(&told).into_iter().find(|event| event["event"] == "stepped" && event["version"] == 3).unwrap();
    assert_eq!((step_3["attempt"].as_u64(), step_3["read"].as_u64()), (Some(3), Some(2)));
    assert_eq!(newest(&scene), Some(5));
    let told = step(&scene, "abort:7:9", &["--until", "9", "--retries", "2", "--json"]);
    assert_eq!((told.code, newest(&scene)), (1, Some(6)));
    assert_eq!(events(&told).last().unwrap()["exit"], 1);
}

#[test]
fn a_step_that_ends_well_without_a_version_is_an_error() {
    let scene = Scene::new();
    let told = step(&scene, "silent:2", &["--until", "5", "--retries", "5"]);
    assert_eq!(told.code, 1);
    assert!(told.err.contains("ended well but published nothing"), "{}", told.err);
    assert!(told.err.lines().last().unwrap().contains("a version above 1 of region state in"), "{}", told.err);
    assert_eq!(newest(&scene), Some(1));
    // Nor have ranks that were not there at the same time a version together.
    let scene = Scene::new();
    let told = step(&scene, "parted", &["--until", "1"]);
    assert_eq!(told.code, 1);
    assert!(told.err.contains("wait for each other"), "{}", told.err);
}

#[test]
fn what_happens_after_the_publish_is_told_and_changes_nothing() {
    let scene = Scene::new();
    let told = step(&scene, "late:2", &["--until", "3"]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.err.contains("the program published version 2, and then ended with code 9"), "{}", told.err);
    assert_eq!(newest(&scene), Some(3));
}

#[test]
fn a_step_that_hangs_is_killed_with_all_it_started() {
    let scene = Scene::new();
    let told = step(&scene, "hang:2:1", &["--until", "3", "--retries", "20", "--step-timeout", "2"]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.err.contains("took longer than 2 s and was killed"), "{}", told.err);
    assert_eq!(newest(&scene), Some(3));
    let script = "sleep 1000 & echo $! > pid; wait";
    // A program that gets no processor for so long is killed before it has started anything.
    let started = ["3", "30", "300"].into_iter().find_map(|seconds| {
        let told = run(scene
            .command(&["step", "--state", "other", "--until", "1", "--step-timeout", seconds, "--"])
            .args(["/bin/sh", "-c", script]));
        assert_eq!(told.code, 1);
        std::fs::read_to_string(scene.file("pid")).ok().filter(|pid| !pid.trim().is_empty())
    });
    let pid = started.expect("the program starts another one").trim().to_string();
    until("the end of what the program started", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn steps_killed_at_any_moment_are_made_again() {
    let scene = Scene::new();
    let (mut kills, mut last, mut random) = (0, 0, 12345u64);
    // Further where others take the processors from who kills.
    until("some kills", || {
        last += 25;
        let args = ["--until", &last.to_string(), "--retries", "1000000", "--json"];
        let mut command = driver(&scene, "pause", &args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let driver = child.id();
        let children = format!("/proc/{driver}/task/{driver}/children");
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                // The driver's end is the end of its file of children.
                while let Ok(text) = std::fs::read_to_string(&children) {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    if let Some(pid) = text.split_whitespace().next()
                        && kills < 60
                    {
                        let status = Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status().unwrap();
                        kills += u32::from(status.success());
                    }
                    std::thread::sleep(Duration::from_micros(random >> 48));
                }
            });
            wait(child)
        });
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(newest(&scene), Some(last));
        kills > 5
    });
}

/// A driver without an end, which a test kills. Its program goes on with the step, and is waited for before the scene is removed: it would
/// make the region anew.
struct Endless {
    driver: Child,
    programs: Vec<String>,
}

impl Endless {
    fn start(scene: &Scene) -> Endless {
        let mut command = driver(scene, "pause", &["--until", "1000000"]);
        let driver = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Endless { driver, programs: Vec::new() }
    }

    fn kill(&mut self) {
        let id = self.driver.id();
        // One that is stopped starts no further program.
        assert!(Command::new("kill").args(["-STOP", &id.to_string()]).status().unwrap().success());
        let is_stopped = || std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap().contains(") T ");
        until("the driver to stop", is_stopped);
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        self.programs = children.split_whitespace().map(str::to_owned).collect();
        self.driver.kill().unwrap();
        self.driver.wait().unwrap();
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        if self.programs.is_empty() && self.driver.try_wait().is_ok_and(|status| status.is_none()) {
            self.kill();
        }
        for program in &self.programs {
            let stat = format!("/proc/{program}/stat");
            until("the step's program to end", || {
                std::fs::read_to_string(&stat).map_or(true, |text| text.contains(") Z "))
            });
        }
    }
}

#[test]
fn a_driver_that_was_killed_goes_on_where_it_was() {
    let scene = Scene::new();
    let mut killed = Vec::new();
    for _ in 0..4 {
        let mut endless = Endless::start(&scene);
        let before = newest(&scene);
        until("a version", || newest(&scene) > before);
        endless.kill();
        killed.push(endless);
    }
    let version = newest(&scene).unwrap();
    let told = step(&scene, "well", &["--until", &(version + 2).to_string()]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(newest(&scene) >= Some(version + 2));
}

/// Between two steps nobody produces the state.
#[test]
fn what_a_driver_makes_is_not_taken_away_between_its_steps() {
    let scene = Scene::new();
    assert_eq!(step(&scene, "well", &["--until", "1"]).code, 0);
    let mut command = driver(&scene, "between", &["--until", "4"]);
    let mut running = Guard(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    for write in 2..=4 {
        until("the next step", || scene.file(&format!("there-{write}")).exists());
        assert!(scene.ok(&["gc"]).starts_with("nothing to remove"));
        assert!(scene.complaint(1, &["rm", "state"]).contains("between two steps"));
        assert_eq!(newest(&scene), Some(write - 1));
        std::fs::write(scene.file(&format!("go-{write}")), "").unwrap();
    }
    assert!(running.0.wait().unwrap().success());
    assert_eq!(newest(&scene), Some(4));
    scene.ok(&["gc"]);
    assert_eq!(newest(&scene), None);
}

#[test]
fn a_second_driver_is_refused() {
    let scene = Scene::new();
    assert_eq!(step(&scene, "well", &["--until", "1"]).code, 0);
    let _first = Endless::start(&scene);
    until("a step of the first driver", || newest(&scene) > Some(2));
    let told = step(&scene, "pause", &["--until", "1000000"]);
    assert_eq!(told.code, 1);
    assert!(told.err.contains("another `still step` runs region state"), "{}", told.err);
}

#[test]
fn a_stop_file_ends_the_run_between_steps_and_asks_for_requeue() {
    let scene = Scene::new();
    std::fs::write(scene.file("stop"), "").unwrap();
    let args = ["--until", "1000000", "--stop-file", "stop", "--json"];
    let told = step(&scene, "well", &args);
    assert_eq!((told.code, newest(&scene)), (85, None), "not even version 0 is made");
    std::fs::remove_file(scene.file("stop")).unwrap();
    let child = driver(&scene, "pause", &args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until("two versions", || newest(&scene) >= Some(2));
    std::fs::write(scene.file("stop"), "").unwrap();
    let output = wait(child);
    assert_eq!(output.status.code(), Some(85));
    let last = String::from_utf8_lossy(&output.stdout).lines().last().unwrap().to_string();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!((last["event"].as_str(), last["reason"].as_str()), (Some("ended"), Some("stop is there")));
    assert_eq!(last["version"].as_u64(), newest(&scene));
}

#[test]
fn a_signal_ends_the_run_after_the_step_that_runs() {
    for signal in ["TERM", "USR1", "HUP", "INT"] {
        let scene = Scene::new();
        let mut command = driver(&scene, "slow", &["--until", "1000000", "--json"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        until("a version", || newest(&scene) >= Some(0));
        let status = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
        assert!(status.success());
        let output = wait(child);
        assert_eq!(output.status.code(), Some(85), "{signal}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(&format!("SIG{signal} came")) && !text.contains("failed"), "{text}");
        assert!(newest(&scene).is_some());
    }
}

#[test]
fn a_program_that_is_ended_before_its_driver_is_no_failed_step() {
    for (mode, retries) in [("ended:2", "0"), ("ended:2", "3"), ("leaves:2", "0")] {
        let (scene, told) = step_of_ending_job(mode, &["--until", "5", "--json", "--retries", retries]);
        assert_eq!((told.code, newest(&scene)), (85, Some(1)), "{mode}: {}", told.out);
        assert_eq!(events(&told).last().unwrap()["reason"], "SIGTERM came", "{mode}: {}", told.out);
        assert!(!names(&told).contains(&"failed".into()), "{mode}: {}", told.out);
    }
}

#[test]
fn a_program_with_a_code_of_its_own_for_the_end_of_its_job_is_not_started_again() {
    let (scene, told) = step_of_ending_job("refuses:2", &["--until", "5", "--json", "--retries", "3"]);
    assert_eq!((told.code, newest(&scene)), (85, Some(1)), "{}", told.out);
    assert_eq!(names(&told).iter().filter(|name| *name == "failed").count(), 1, "{}", told.out);
}

#[test]
fn a_step_that_outlasts_the_grace_after_a_signal_is_ended() {
    let scene = Scene::new();
    let mut command = driver(&scene, "hang:2", &["--until", "5", "--grace", "0.2", "--json", "--retries", "3"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until("version 1", || newest(&scene) == Some(1));
    let status = Command::new("kill").args(["-TERM".to_string(), child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let output = wait(child);
    assert_eq!((output.status.code(), newest(&scene)), (Some(85), Some(1)));
}

#[test]
fn the_run_ends_before_the_time_does() {
    let scene = Scene::new();
    assert_eq!(step(&scene, "well", &["--until", "1"]).code, 0);
    // Where others take the processors, a step takes more time.
    let told = ["2", "8", "32"].into_iter().find_map(|limit| {
        let told = step(&scene, "slow", &["--until", "1000000", "--time-limit", limit, "--margin", "1", "--json"]);
        assert_eq!(told.code, 85, "{}", told.err);
        (newest(&scene) > Some(1)).then_some(told)
    });
    let told = told.expect("there was time for a step");
    let version = newest(&scene).unwrap();
    assert!(events(&told).last().unwrap()["reason"].as_str().unwrap().contains("are left"), "{}", told.out);
    // A job that has no time left makes no step at all.
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 5;
    let mut command = driver(&scene, "well", &["--until", "1000000", "--margin", "60"]);
    let told = run(command.env("SLURM_JOB_END_TIME", soon.to_string()));
    assert_eq!((told.code, newest(&scene)), (85, Some(version)), "{}", told.err);
    assert!(told.err.contains("no step was made"), "{}", told.err);
    let told = run(driver(&scene, "well", &["--until", "9"]).env("SLURM_JOB_END_TIME", "tomorrow"));
    assert_eq!(told.code, 2);
}

#[test]
fn version_0_may_come_from_another_command() {
    let scene = Scene::new();
    let init = program().map(|part| format!("'{part}'")).join(" ");
    let told = step(&scene, "well", &["--until", "2", "--init", &init]);
    assert_eq!((told.code, newest(&scene)), (0, Some(2)), "{}", told.err);
    let told = run(scene
        .command(&["step", "--state", "other", "--until", "2", "--init", "exit 3", "--"])
        .args(program())
        .env(MODE, "well"));
    assert_eq!(told.code, 1);
    assert!(told.err.contains("ended with code 3"), "{}", told.err);
}

#[test]
fn commands_that_make_no_sense_are_refused() {
    let scene = Scene::new();
    for args in [
        &["step", "--state", "a"][..],
        &["step", "--state", "a", "--until", "2"],
        &["step", "--state", "a", "--until", "2", "--every", "3", "--", "true"],
        &["step", "--state", "../a", "--until", "2", "--", "true"],
        &["step", "--state", "a", "--until", "2", "--", "no-such-program-anywhere"],
    ] {
        scene.complaint(2, args);
    }
}

/// Copies the files of a state to another directory of regions, and steps it there.
fn copied_by(tool: &str, script: &str, to: &std::path::Path) {
    let scene = Scene::new();
    assert_eq!(step(&scene, "well", &["--until", "3"]).code, 0);
    std::fs::create_dir_all(to).unwrap();
    let mut copy = Command::new("/bin/sh");
    let status = copy.args(["-c", script]).env("FROM", scene.dir()).env("TO", to).status().unwrap();
    assert!(status.success(), "{tool}");
    let there = |until: &str| {
        let mut command = driver(&scene, "well", &["--until", until, "--json"]);
        let told = run(command.env("STILLFRAME_DIR", to));
        assert_eq!(told.code, 0, "{tool}: {}", told.err);
        events(&told)
    };
    assert_eq!(there("3")[0]["version"], 3, "{tool}: the copy is the state");
    there("8");
    let snapshot = Observer::options().dir(to).open("state").unwrap().newest().unwrap();
    assert_eq!(snapshot.version(), 8);
    assert!(snapshot.slice::<f64>("x").unwrap().iter().all(|value| *value == 8.5), "{tool}");
    assert_eq!(scene.still(&["verify", "state", "--dir", &to.display().to_string()]).code, 0, "{tool}");
    // What was copied goes on as well, by itself.
    assert_eq!(step(&scene, "well", &["--until", "5"]).code, 0);
    assert_eq!(newest(&scene), Some(5));
}

#[test]
fn the_files_to_copy_are_named_unless_somebody_writes_them() {
    let scene = Scene::new();
    assert!(scene.complaint(1, &["export", "state", "--raw"]).contains("no region"));
    assert_eq!(step(&scene, "well", &["--until", "3"]).code, 0);
    let path = scene.dir().join("state").display().to_string();
    assert_eq!(scene.ok(&["export", "state", "--raw"]).trim_end(), path);
    let told = scene.json(&["export", "state", "--raw", "--json"]);
    assert_eq!((told["path"].as_str(), told["version"].as_u64()), (Some(path.as_str()), Some(3)));
    scene.complaint(2, &["export", "state", "--raw", "-o", "file.h5"]);
    let region = Region::options().dir(scene.dir()).create("state").unwrap();
    let line = scene.complaint(1, &["export", "state", "--raw"]);
    assert!(line.contains("produces region state") && line.contains("still checkpoint"), "{line}");
    drop(region);
    scene.ok(&["export", "state", "--raw"]);
    let group = |rank| Region::options().dir(scene.dir()).rank(rank, 2).create("group").unwrap();
    let (mut first, second) = (group(0), group(1));
    drop(second);
    scene.complaint(1, &["export", "group", "--raw"]);
    first.publish(1).commit().unwrap();
    drop(first);
    assert!(scene.complaint(1, &["export", "group", "--raw"]).contains("no version"), "not all ranks have one");
    // A version of one run alone is none of another's.
    let (mut first, mut second) = (group(0), group(1));
    first.publish(2).commit().unwrap();
    second.publish(2).commit().unwrap();
    drop((first, second));
    assert!(scene.ok(&["export", "group", "--raw"]).trim_end().ends_with("/group"));
}

fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

#[test]
fn a_copy_of_the_files_is_the_state() {
    let mut tools = vec![
        ("cp", r#"cp -r "$FROM/state" "$TO""#),
        ("cp -a", r#"cp -a "$FROM/state" "$TO""#),
        ("cp --sparse=always", r#"cp -r --sparse=always "$FROM/state" "$TO""#),
        ("cp --sparse=never", r#"cp -r --sparse=never "$FROM/state" "$TO""#),
        ("tar", r#"tar -C "$FROM" -c state | tar -C "$TO" -x"#),
        ("tar -S", r#"tar -C "$FROM" -c -S state | tar -C "$TO" -x"#),
    ];
    if has("rsync") {
        tools.push(("rsync", r#"rsync -a "$FROM/state" "$TO/""#));
        tools.push(("rsync -S", r#"rsync -a -S "$FROM/state" "$TO/""#));
    }
    for (tool, script) in tools {
        let in_memory = tempfile::Builder::new().prefix("still-test-copy-").tempdir_in("/dev/shm").unwrap();
        copied_by(tool, script, in_memory.path());
        let on_disk = tempfile::Builder::new().prefix("still-test-copy-").tempdir_in("/var/tmp").unwrap();
        copied_by(tool, script, on_disk.path());
    }
}

/// The versions that have a checkpoint.
fn saved(scene: &Scene) -> Vec<u64> {
    let entries = std::fs::read_dir(scene.file("store")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut versions: Vec<u64> =
        names.filter_map(|name| name.strip_prefix('v')?.strip_suffix(".zarr")?.parse().ok()).collect();
    versions.sort_unstable();
    versions
}

/// Takes the state out of memory, as the end of a job on its node does.
fn forget(scene: &Scene) {
    scene.ok(&["rm", "state"]);
}

#[test]
fn a_run_goes_on_from_its_newest_checkpoint() {
    let scene = Scene::new();
    let told = step(&scene, "well", &["--until", "7", "--to", "store", "--every", "3", "--keep", "2", "--json"]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert_eq!(names(&told).iter().filter(|name| *name == "saved").count(), 3, "3, 6 and the last");
    assert_eq!(saved(&scene), [6, 7]);
    forget(&scene);
    let told = step(&scene, "well", &["--until", "9", "--to", "store", "--json"]);
    assert_eq!((told.code, newest(&scene)), (0, Some(9)), "{}", told.err);
    let begin = &events(&told)[0];
    assert_eq!((begin["origin"].as_str(), begin["version"].as_u64()), (Some("checkpoint"), Some(7)));
}

#[test]
fn memory_counts_unless_a_checkpoint_is_newer() {
    let scene = Scene::new();
    let args = |until| ["--until", until, "--to", "store", "--json"];
    assert_eq!(step(&scene, "well", &args("3")).code, 0);
    let old = scene.file("old");
    let status = Command::new("cp").arg("-r").arg(scene.dir().join("state")).arg(&old).status().unwrap();
    assert!(status.success());
    assert_eq!(step(&scene, "well", &args("5")).code, 0);
    let origin = |told: &Told| {
        let begin = events(told).remove(0);
        (begin["origin"].as_str().unwrap().to_string(), begin["version"].as_u64().unwrap(), begin["memory"].as_u64())
    };
    assert_eq!(step(&scene, "well", &["--until", "6"]).code, 0);
    assert_eq!(origin(&step(&scene, "well", &args("7"))), ("memory".into(), 6, None));
    // The job comes back to a node where it ran long ago.
    forget(&scene);
    std::fs::rename(&old, scene.dir().join("state")).unwrap();
    assert_eq!(newest(&scene), Some(3));
    let told = step(&scene, "well", &args("8"));
    assert_eq!(origin(&told), ("checkpoint".into(), 7, Some(3)), "{}", told.out);
    assert_eq!((told.code, newest(&scene)), (0, Some(8)));
}

#[test]
fn a_run_that_gives_numbers_again_does_not_mix_with_the_one_before() {
    let scene = Scene::new();
    let args = |until| ["--until", until, "--to", "store", "--keep", "2", "--every", "1", "--json"];
    assert_eq!(step(&scene, "well", &args("6")).code, 0);
    assert_eq!(saved(&scene), [5, 6]);
    // The state is made anew, and has the last number of the run before, then a lower one.
    for (until, went) in [("6", vec![6]), ("2", vec![5, 6])] {
        forget(&scene);
        assert_eq!(step(&scene, "well", &["--until", until]).code, 0);
        let told = step(&scene, "well", &args(until));
        assert_eq!(told.code, 0, "{}", told.err);
        let note = events(&told).into_iter().find(|event| event["event"] == "noted").expect(&told.out);
        let versions = went.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let (note, to) = (note["text"].as_str().unwrap(), went.last().unwrap());
        assert!(note.contains(&format!("{versions} gave way")) && note.contains(&format!("earlier-{to}")), "{note}");
    }
    assert_eq!(saved(&scene), [2]);
    let told = step(&scene, "well", &args("5"));
    assert_eq!((told.code, saved(&scene)), (0, vec![4, 5]), "{}", told.err);
    // The newest by number is the newest state.
    forget(&scene);
    let told = step(&scene, "well", &args("6"));
    assert_eq!((told.code, events(&told)[0]["version"].as_u64()), (0, Some(5)), "{}", told.err);
}

#[test]
fn a_run_goes_on_when_nobody_reads_what_it_tells() {
    let scene = Scene::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = driver(&scene, "well", &["--until", "3", "--to", "store", "--json"]);
    let status = wait(command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap()).status;
    assert_eq!((status.code(), newest(&scene), saved(&scene)), (Some(0), Some(3), vec![3]));
    std::fs::write(scene.file("stop"), "").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = driver(&scene, "well", &["--until", "9", "--stop-file", "stop", "--json"]);
    let status = wait(command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap()).status;
    assert_eq!(status.code(), Some(85), "a run that was stopped is not done");
}

#[test]
fn a_run_whose_events_find_no_room_says_so_once_and_ends_as_it_would() {
    let scene = Scene::new();
    std::fs::write(scene.file("stop"), "").unwrap();
    for (args, code) in [(&["--until", "3", "--json"][..], 0), (&["--until", "9", "--stop-file", "stop", "--json"], 85)]
    {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = driver(&scene, "well", args);
        let child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let output = wait(child);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), newest(&scene)), (Some(code), Some(3)), "{told}");
        assert_eq!(told.matches("No space left on device").count(), 1, "{told}");
    }
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_is_used() {
    let scene = Scene::new();
    let args = ["--until", "4", "--to", "store", "--every", "2"];
    assert_eq!(step(&scene, "well", &args).code, 0);
    assert_eq!(saved(&scene), [2, 4]);
    let damage = |version: u64| {
        let chunk = scene.file(&format!("store/v{version:012}.zarr/x/c.0"));
        let mut bytes = std::fs::read(&chunk).unwrap();
        bytes[1000] ^= 1;
        std::fs::remove_file(&chunk).unwrap();
        std::fs::write(&chunk, bytes).unwrap();
    };
    damage(4);
    forget(&scene);
    let told = step(&scene, "well", &["--until", "3", "--to", "store", "--json"]);
    assert_eq!((told.code, newest(&scene)), (0, Some(3)), "{}", told.err);
    assert_eq!(names(&told)[..2], ["noted", "begun"]);
    let text = events(&told)[0]["text"].as_str().unwrap().to_string();
    assert!(text.contains("v000000000004.zarr"), "{text}");
    damage(3);
    damage(2);
    forget(&scene);
    let told = step(&scene, "well", &["--until", "9", "--to", "store"]);
    assert_eq!((told.code, newest(&scene)), (1, None), "{}", told.err);
    assert!(told.err.contains("none of them is good") && told.err.contains("to begin anew"), "{}", told.err);
}

#[test]
fn checkpoints_are_saved_before_risky_steps_when_asked_for_and_at_every_end() {
    let scene = Scene::new();
    let saves = |told: &Told| -> Vec<(u64, String)> {
        let events = events(told).into_iter().filter(|event| event["event"] == "saved");
        events.map(|event| (event["version"].as_u64().unwrap(), event["why"].as_str().unwrap().to_string())).collect()
    };
    let told = step(&scene, "risky:3", &["--until", "5", "--to", "store", "--json"]);
    assert_eq!(saves(&told), [(3, "the next step is risky".into()), (5, "the run ends".into())], "{}", told.err);
    let told = step(&scene, "well", &["--until", "9", "--to", "store", "--when", "half == 3.5", "--json"]);
    assert_eq!(saves(&told), [(7, "--when holds".into()), (9, "the run ends".into())], "{}", told.err);
    let told = step(&scene, "abort:12", &["--until", "15", "--to", "store", "--json"]);
    assert_eq!((told.code, saves(&told)), (1, vec![(11, "the run ends".into())]), "the last version before a failure");
    std::fs::write(scene.file("stop"), "").unwrap();
    assert_eq!(step(&scene, "well", &["--until", "13"]).code, 0);
    let told = step(&scene, "well", &["--until", "99", "--to", "store", "--stop-file", "stop", "--json"]);
    assert_eq!((told.code, saves(&told)), (85, vec![(13, "the run ends".into())]));
    let told = step(&scene, "pause", &["--until", "16", "--to", "store", "--every-seconds", "0", "--json"]);
    assert_eq!(saves(&told).len(), 3);
}

/// A run that saves each version, and has saved the third. It goes no further than the next ones before it is [let on](go_on).
fn saving_each(scene: &Scene) -> std::process::Child {
    assert_eq!(step(scene, "well", &["--until", "1", "--to", "store"]).code, 0);
    std::fs::create_dir(scene.file("moved")).unwrap();
    let mut command = driver(scene, "gate:5", &["--until", "20", "--to", "store", "--every", "1", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until("a checkpoint of version 3", || saved(scene).contains(&3));
    child
}

fn go_on(scene: &Scene) {
    std::fs::write(scene.file("go"), "").unwrap();
}

/// Takes the store away, with a file in its place, so that nothing can be saved any more.
fn take_away(scene: &Scene) {
    std::fs::rename(scene.file("store"), scene.file("moved/store")).unwrap();
    std::fs::write(scene.file("store"), "").unwrap();
}

#[test]
fn a_store_that_was_removed_and_made_again_is_taken_up() {
    for is_made in [true, false] {
        let scene = Scene::new();
        let child = saving_each(&scene);
        std::fs::rename(scene.file("store"), scene.file("moved/store")).unwrap();
        if is_made {
            let _ = std::fs::create_dir(scene.file("store"));
        }
        go_on(&scene);
        let output = wait(child);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(saved(&scene), [18, 19, 20]);
    }
}

#[test]
fn a_checkpoint_that_cannot_be_saved_stops_no_run_but_is_told() {
    let scene = Scene::new();
    let child = saving_each(&scene);
    take_away(&scene);
    go_on(&scene);
    let output = wait(child);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!((output.status.code(), newest(&scene)), (Some(1), Some(20)), "{text}");
    assert!(text.contains("is not saved: "), "{text}");
    assert!(text.lines().last().unwrap().contains("done, but the last version is in memory only"), "{text}");
}

#[test]
fn a_run_that_is_stopped_and_cannot_save_its_last_version_asks_for_no_requeue() {
    let scene = Scene::new();
    std::fs::create_dir(scene.file("moved")).unwrap();
    let args = ["--until", "1000000", "--to", "store", "--stop-file", "stop", "--json"];
    let child = driver(&scene, "pause", &args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until("version 3", || newest(&scene) >= Some(3));
    take_away(&scene);
    std::fs::write(scene.file("stop"), "").unwrap();
    let output = wait(child);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let reason = last["reason"].as_str().unwrap();
    assert!(reason.starts_with("stop is there, but the last version is in memory only: "), "{reason}");
    assert_eq!(last["exit"], 1);
}

/// A directory of regions that is removed with the test.
struct Regions(std::path::PathBuf);

impl Drop for Regions {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the job script of `docs/step.md` with a program that makes three versions and then has the store taken away; says what
/// it ends with.
fn run_job(scene: &Scene, job: &str) -> Told {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/step.md")).unwrap();
    let script = page.split("```sh\n").find(|block| block.starts_with("#!/bin/bash")).expect("a job script");
    let script = script.split("```").next().unwrap();
    let [own, rest @ ..] = program();
    let nbody = format!(
        "#!/bin/sh\nset -e\n\"{own}\" {}\nif [ $STILLFRAME_WRITE = 3 ]; then mv \"$SCRATCH/cluster\" gone; touch \"$SCRATCH/cluster\" stop; fi\n",
        rest.join(" ")
    );
    let bin = scene.file("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::create_dir_all(scene.file("scratch")).unwrap();
    for (path, text) in [("job", script), ("nbody", &nbody), ("bin/scontrol", "#!/bin/sh\ntouch requeued\n")] {
        std::fs::write(scene.file(path), text).unwrap();
        assert!(Command::new("chmod").arg("+x").arg(scene.file(path)).status().unwrap().success());
    }
    let still = std::path::Path::new(env!("CARGO_BIN_EXE_still")).parent().unwrap();
    let path = format!("{}:{}:{}", bin.display(), still.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(scene.file("job"));
    command.current_dir(scene.file("")).env("PATH", path).env("USER", "step-test").env("SLURM_JOB_ID", job);
    command.env("SCRATCH", scene.file("scratch")).env("HOME", scene.file("home")).env(MODE, "well");
    run(command.env_remove("SLURM_JOB_END_TIME"))
}

#[test]
fn the_job_script_gives_no_memory_back_that_is_nowhere_else() {
    for has_home in [true, false] {
        let scene = Scene::new();
        let job = format!("{}-{has_home}", std::process::id());
        let regions = Regions(format!("/dev/shm/stillframe-step-test-{job}").into());
        match has_home {
            true => std::fs::create_dir(scene.file("home")).unwrap(),
            // Nothing can be saved there either.
            false => std::fs::write(scene.file("home"), "").unwrap(),
        }
        let told = run_job(&scene, &job);
        assert_eq!(told.code, 1, "{}{}", told.out, told.err);
        assert!(!scene.file("requeued").exists());
        let memory = Observer::options().dir(&regions.0).open("cluster");
        match has_home {
            true => {
                let found = stillframe_checkpoint::Store::open(scene.file("home/cluster")).unwrap().versions().unwrap();
                assert_eq!((found, memory.is_err()), (vec![3], true), "{}{}", told.out, told.err);
            }
            false => assert_eq!(memory.unwrap().newest().unwrap().version(), 3),
        }
    }
}

#[test]
fn a_condition_that_makes_no_sense_is_refused_before_anything_runs() {
    let scene = Scene::new();
    let args = ["step", "--state", "state", "--until", "2", "--to", "store", "--when", "half ==", "--", "true"];
    scene.complaint(2, &args);
    assert_eq!(newest(&scene), None);
}

#[test]
fn a_condition_on_what_the_first_version_lacks_ends_the_run() {
    let scene = Scene::new();
    let misspelt = step(&scene, "well", &["--until", "9", "--to", "store", "--when", "halff > 1"]);
    assert_eq!((misspelt.code, newest(&scene)), (2, Some(0)), "{}", misspelt.err);
    assert!(misspelt.err.contains("has no attribute 'halff'"), "{}", misspelt.err);
}

#[test]
fn a_group_is_stepped_when_all_ranks_have_published() {
    let scene = Scene::new();
    let args = |until| ["--until", until, "--retries", "1", "--to", "store", "--json"];
    let told = step(&scene, "ranks:2:1", &args("4"));
    assert_eq!(told.code, 0, "{}", told.err);
    assert_eq!(names(&told).iter().filter(|name| *name == "failed").count(), 1);
    scene.ok(&["rm", "state"]);
    let told = step(&scene, "ranks:9", &args("6"));
    assert_eq!((told.code, events(&told)[0]["version"].as_u64()), (0, Some(4)), "{}", told.err);
    let group = stillframe::Group::options().dir(scene.dir()).open("state").unwrap().newest().unwrap();
    assert_eq!(group.version(), 6);
    for (rank, snapshot) in group.ranks().iter().enumerate() {
        assert!(snapshot.slice::<f64>("x").unwrap().iter().all(|value| *value == 12.0 + rank as f64));
    }
}
