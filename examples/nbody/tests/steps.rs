//! However the steps are made, by one call or by one call each, killed, restored or moved, they are the same to the last bit.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use stillframe::{Attributes, Observer};

const NBODY: &str = env!("CARGO_BIN_EXE_nbody");
const BODIES: &str = "300";
const LAST: &str = "50";
/// Far more than any command takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command line, which lies beside the example when all is built.
fn still() -> PathBuf {
    let still = Path::new(NBODY).with_file_name("still");
    assert!(still.exists(), "{} is missing: `make test-build` builds it", still.display());
    still
}

struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Scene {
        Scene(tempfile::Builder::new().prefix("nbody-test-").tempdir_in("/dev/shm").unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("STILLFRAME_DIR", self.path("regions")).current_dir(self.0.path());
        for name in ["STILLFRAME_STATE", "STILLFRAME_READ", "STILLFRAME_WRITE", "SLURM_JOB_END_TIME"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn driver(&self, until: &str, args: &[&str]) -> Command {
        let mut command = self.command(&still());
        command.args(["step", "--state", "cluster", "--until", until]).args(args);
        command.args(["--", NBODY, "--bodies", BODIES]);
        command
    }

    /// The state: numbers bit by bit, and what was told beside them.
    fn state(&self) -> (u64, Vec<Vec<u64>>, Attributes) {
        let snapshot = Observer::options().dir(self.path("regions")).open("cluster").unwrap().newest().unwrap();
        let bits = |name| snapshot.slice::<f64>(name).unwrap().iter().map(|number| number.to_bits()).collect();
        (snapshot.version(), ["x", "v", "m"].map(bits).to_vec(), snapshot.attributes().clone())
    }
}

/// Ends a child that hangs.
fn wait(child: Child) -> Output {
    let id = child.id();
    let (done, watch) = channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if watch.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    watchdog.join().unwrap();
    output
}

fn succeed(command: &mut Command) {
    let output = wait(command.spawn().unwrap());
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The state that one call leaves that makes all steps.
fn expected() -> (u64, Vec<Vec<u64>>, Attributes) {
    let scene = Scene::new();
    // Version 0 and fifty more.
    succeed(scene.command(Path::new(NBODY)).args(["--bodies", BODIES, "--steps", "51"]));
    let state = scene.state();
    assert_eq!(state.0, 50);
    state
}

#[test]
fn steps_of_one_call_each_are_the_steps_of_one_call() {
    let scene = Scene::new();
    succeed(&mut scene.driver(LAST, &[]));
    assert_eq!(scene.state(), expected());
}

#[test]
fn steps_that_were_killed_and_made_again_are_the_same() {
    let scene = Scene::new();
    let child = scene.driver(LAST, &["--retries", "1000000"]).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let killer = std::thread::spawn(move || {
        let (mut kills, mut random) = (0, 1u64);
        while let Ok(text) = std::fs::read_to_string(&children) {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if let Some(pid) = text.split_whitespace().next().filter(|_| kills < 40) {
                let killed = Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status().unwrap();
                kills += u32::from(killed.success());
            }
            std::thread::sleep(Duration::from_micros(random >> 49));
        }
        kills
    });
    let output = wait(child);
    assert!(killer.join().unwrap() > 0);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(scene.state(), expected());
}

#[test]
fn a_run_that_went_on_from_a_checkpoint_is_the_same() {
    let scene = Scene::new();
    succeed(&mut scene.driver("20", &["--to", "store"]));
    succeed(scene.command(&still()).args(["rm", "cluster"]));
    succeed(&mut scene.driver(LAST, &["--to", "store"]));
    assert_eq!(scene.state(), expected());
}

#[test]
fn a_run_that_went_on_in_a_copy_of_its_files_is_the_same() {
    let (scene, other) = (Scene::new(), Scene::new());
    succeed(&mut scene.driver("20", &[]));
    std::fs::create_dir(other.path("regions")).unwrap();
    succeed(Command::new("cp").arg("-r").arg(scene.path("regions/cluster")).arg(other.path("regions")));
    succeed(&mut other.driver(LAST, &[]));
    assert_eq!(other.state(), expected());
    assert_eq!(scene.state().0, 20, "what was copied is as it was");
}
