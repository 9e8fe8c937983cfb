//! A place of its own for every test, and the real program run in it under a watchdog.
#![allow(dead_code)]

#[path = "../../../../stillframe/tests/it/common/machine.rs"]
mod machine;
pub mod remote;

use machine::lock_machine;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use stillframe::{Array, Region};

/// Far more than any command takes; only what hangs meets it.
const PATIENCE: Duration = Duration::from_secs(600);

/// A directory of regions that is removed with everything in it.
pub struct Scene {
    folder: tempfile::TempDir,
}

/// What a command said and how it ended.
pub struct Told {
    pub code: i32,
    pub out: String,
    pub bytes: Vec<u8>,
    pub err: String,
}

impl Scene {
    pub fn new() -> Scene {
        let mut builder = tempfile::Builder::new();
        builder.prefix("still-test-");
        let folder = builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir());
        Scene { folder: folder.expect("a temporary directory") }
    }

    /// The directory of the regions.
    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("regions")
    }

    /// Where commands write their files.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command that has not been started. What looks takes what it needs, unless it is told something else: of a machine that is
    /// never idle nothing is left over, and every command here is to end before long.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.as_it_is(args);
        let looks = matches!(args.first(), Some(&("watch" | "stats")));
        let is_told = args.iter().any(|arg| ["--impolite", "--share", "--rate", "--processors"].contains(arg));
        if looks && !is_told {
            command.arg("--impolite");
        }
        command
    }

    /// A command that has not been started, with these arguments alone.
    pub fn as_it_is(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_still"));
        command.args(args).env("STILLFRAME_DIR", self.dir()).env_remove("STILLFRAME_TRACKER");
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn still(&self, args: &[&str]) -> Told {
        let child = self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("still starts");
        let Output { status, stdout, stderr } = wait(child);
        Told {
            code: status.code().unwrap_or_else(|| panic!("still {args:?} was ended by a signal: {status}")),
            out: String::from_utf8_lossy(&stdout).into_owned(),
            bytes: stdout,
            err: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// Runs a command that must end well, and returns what it printed.
    pub fn ok(&self, args: &[&str]) -> String {
        let told = self.still(args);
        assert_eq!((told.code, told.err.as_str()), (0, ""), "still {args:?}: {}", told.out);
        told.out
    }

    /// Runs a command that must end well and print JSON.
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(args)).expect("JSON")
    }

    /// Runs a command that must end with this code and one line of complaint, and returns that line.
    pub fn complaint(&self, code: i32, args: &[&str]) -> String {
        let told = self.still(args);
        assert_eq!(told.code, code, "still {args:?}: {} {}", told.out, told.err);
        assert!(told.err.starts_with("still: ") && told.err.lines().count() == 1, "still {args:?}: {}", told.err);
        told.err
    }

    /// A region with one array, which has not been published.
    pub fn region(&self, name: &str, shape: &[usize]) -> (Region, Array<f64>) {
        let mut region = Region::options().dir(self.dir()).keep(3).create(name).expect("a region");
        let array = region.array::<f64>("u", shape).expect("an array");
        (region, array)
    }
}

/// Waits for a child and reads what it says; ends it when it takes too long.
pub fn wait(child: Child) -> Output {
    let id = child.id();
    let (done, watch) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if watch.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
        }
    });
    let output = child.wait_with_output().expect("still ends");
    drop(done);
    watchdog.join().expect("the watchdog ends");
    output
}

/// A child that is ended with the test.
pub struct Guard(pub Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A mount namespace keeps whatever is mounted while it begins, and so do the pages of a pool. So tests that make some are apart from
/// those that have pools.
static APART: RwLock<()> = RwLock::new(());

/// For a test that makes mount namespaces.
pub fn apart_from_pools() -> RwLockWriteGuard<'static, ()> {
    lock_machine();
    APART.write().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that has a pool.
pub fn beside_pools() -> RwLockReadGuard<'static, ()> {
    lock_machine();
    APART.read().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `met`, within reason.
pub fn until(what: &str, mut met: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !met() {
        assert!(Instant::now() < end, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All files below `folder`, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = match std::fs::read_dir(folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    };
    found.sort();
    found
}
