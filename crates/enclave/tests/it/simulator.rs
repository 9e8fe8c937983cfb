//! The engine's simulator, with its region in an arena that another machine sees too: versions are also held there, by the second kind of
//! lease. What must hold is said in `crates/stillframe/tests/it/simulator.rs`.
#![cfg(feature = "points")]
#![allow(unsafe_code)]

use crate::common::{Dir, Numbers, watchdog};
use crate::runs::Runs;
use crate::world::{Elsewhere, Place, Totals, World};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use stillframe_enclave::{Agent, AgentOptions};
use stillframe_kernel::trust::Trust;
use stillframe_segment::arena::FILE;

const NAMES: [&str; 2] = ["host", "guest"];
/// Of what each machine shares; most of it never gets memory.
const BYTES: u64 = 256 << 20;

/// In the environment of a process that has mounts of its own.
const INSIDE: &str = "STILLFRAME_TEST_INSIDE";

/// Two directories over the same files, each with locks and an agent of its own, as two kernels have them.
struct Pair {
    /// What is mounted in the second one.
    mounted: Vec<PathBuf>,
    /// Where the second one sees the first one's arena.
    dir: PathBuf,
    agents: [Arc<Agent>; 2],
    end: Option<UnixStream>,
    serving: Option<JoinHandle<()>>,
}

impl Pair {
    fn begin(_: &mut Numbers) -> Place {
        let kept = Dir::plain("simulator-pair");
        let dirs = ["a", "b"].map(|side| kept.path().join(side));
        let mut mounted = Vec::new();
        for name in NAMES {
            let [first, second] = dirs.each_ref().map(|dir| dir.join(name).join(FILE));
            for file in [&first, &second] {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            }
            File::create(&first).unwrap().set_len(BYTES).unwrap();
            File::create(&second).unwrap();
            mount(&first, &second);
            mounted.push(second);
        }
        let agents = [0, 1].map(|side| {
            let (dir, name, peers) = (dirs[side].clone(), NAMES[side].into(), vec![NAMES[1 - side].into()]);
            let options = AgentOptions {
                dir,
                name,
                bytes: BYTES,
                peers,
                forgotten: Vec::new(),
                sparse: true,
                doorbells: Vec::new(),
                mode: 0o700,
                trust: Trust::Own,
            };
            Arc::new(Agent::begin(options).unwrap())
        });
        // Each sees the other one, and that it is seen.
        (0..2).for_each(|_| agents.iter().for_each(|agent| _ = agent.look().unwrap()));
        let (stop, end) = UnixStream::pair().unwrap();
        let agent = agents[1].clone();
        let serving = std::thread::spawn(move || agent.serve(stop.as_fd()).unwrap());
        let pair = Pair { mounted, dir: dirs[1].join(NAMES[0]), agents, end: Some(end), serving: Some(serving) };
        // Until it listens, the other machine would take the arena for its own.
        while !pair.dir.join(stillframe_segment::enclave::AGENT).exists() {
            std::thread::yield_now();
        }
        Place { dir: dirs[0].join(NAMES[0]), elsewhere: Some(Box::new(pair)), kept }
    }
}

impl Elsewhere for Pair {
    fn dir(&self) -> &Path {
        &self.dir
    }

    fn settle(&self) {
        self.agents[1].look().unwrap();
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        drop(self.end.take());
        self.serving.take().into_iter().for_each(|serving| _ = serving.join());
        for file in &self.mounted {
            let file = CString::new(file.as_os_str().as_bytes()).unwrap();
            // SAFETY: the text lives through the call.
            unsafe { libc::umount2(file.as_ptr(), libc::MNT_DETACH) };
        }
    }
}

/// Has a file seen in another place, by this process alone, which has mounts of its own.
fn mount(from: &Path, to: &Path) {
    let [from, to] = [from, to].map(|path| CString::new(path.as_os_str().as_bytes()).unwrap());
    let null = std::ptr::null();
    // SAFETY: the texts live through the call; a bind mount takes no further words.
    let done = unsafe { libc::mount(from.as_ptr(), to.as_ptr(), null, libc::MS_BIND, null.cast()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Runs this test in a process with mounts of its own, where there may be one.
fn begin_inside() {
    let user: &[&str] = if stillframe_kernel::user_id() == 0 { &[] } else { &["-r"] };
    let inside = |program: &OsStr| {
        let mut command = Command::new("unshare");
        command.args(user).args(["-m", "--propagation", "private"]).arg(program);
        command
    };
    if !inside("true".as_ref()).status().is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no process may have mounts of its own here");
    }
    let own = std::env::current_exe().unwrap();
    let test = std::thread::current().name().expect("the test's name").to_string();
    let status = inside(own.as_os_str()).args([&test, "--exact", "--nocapture"]).env(INSIDE, "1").status().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn whoever_dies_and_whatever_fails_no_version_that_another_machine_holds_is_lost_or_mixed() {
    if std::env::var_os(INSIDE).is_none() {
        return begin_inside();
    }
    let runs = Runs::asked();
    let _watchdog = watchdog(1200 + runs.count + 2 * runs.seconds.unwrap_or(0));
    let player = || |seed, tells, totals: &mut Totals| World::play(seed, tells, totals, Pair::begin);
    let Some(totals) = runs.play(player, Totals::plus) else { return };
    let count = runs.count;
    if count >= 200 {
        assert!(totals.deaths > count / 10 && totals.failures > count / 10, "{totals:?}");
        assert!(totals.held_elsewhere > count / 4, "{totals:?}");
    }
}
