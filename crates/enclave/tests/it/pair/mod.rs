//! Two enclaves of one kernel, and the programs that run in them.
#![allow(dead_code)]

use crate::common::Dir;
use crate::enclosure::{PROGRAM_PATH, as_user, may_enclose, of_helper};
use crate::helper::{Helper, Play, say, until};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use stillframe::{Region, RegionOptions, Rule};
use stillframe_enclave::{Agent, AgentOptions};
use stillframe_kernel::trust::Trust;
use stillframe_segment::arena::{CHUNK_BYTES, FILE};
use stillframe_segment::enclave::{AREA_BYTES, HEARTBEAT_AT, IDENTITY_AT};

/// Of what each enclave shares.
pub const BYTES: u64 = 64 << 20;

/// An agent, until its input ends. A name of an enclave behind `!` is that of a doorbell, behind `-` one to be forgotten.
pub fn be_agent(arguments: &[String]) {
    let [dir, name, peers @ ..] = arguments else { panic!("agent DIR NAME PEER...") };
    let (dir, trust) = (PathBuf::from(dir), Trust::Own);
    let (forgotten, peers): (Vec<&String>, Vec<&String>) = peers.iter().partition(|peer| peer.starts_with('-'));
    let (doorbells, peers): (Vec<&String>, Vec<&String>) = peers.into_iter().partition(|peer| peer.starts_with('!'));
    let doorbells = doorbells.iter().map(|doorbell| doorbell[1..].parse().unwrap()).collect();
    let peers = peers.into_iter().cloned().collect();
    let forgotten = forgotten.iter().map(|name| name[1..].into()).collect();
    let options = AgentOptions {
        dir,
        name: name.clone(),
        bytes: BYTES,
        peers,
        forgotten,
        sparse: false,
        doorbells,
        mode: 0o755,
        trust,
    };
    let agent = match Agent::begin(options) {
        Ok(agent) => agent,
        Err(error) => return say(&error.to_string()),
    };
    say("runs");
    agent.serve(std::io::stdin().as_fd()).unwrap();
}

/// Two enclaves, each with a directory of its own. The second one's processes have the files of the first one's directory in theirs, as a
/// machine has devices.
pub struct Pair {
    _dir: Dir,
    pub dirs: [PathBuf; 2],
    /// Whose processes there are, if not the test's own user's.
    user: Option<u32>,
}

/// The enclaves' names.
pub const NAMES: [&str; 2] = ["host", "guest"];

impl Pair {
    /// `None` where no process may have mounts of its own.
    pub fn new(name: &str) -> Option<Pair> {
        Pair::of(name, None)
    }

    /// As [`new`](Pair::new), with agents, producers and observers of another user, who is nobody in particular.
    pub fn of(name: &str, user: Option<u32>) -> Option<Pair> {
        if !may_enclose() {
            return None;
        }
        let dir = Dir::plain(name);
        let dirs = ["a", "b"].map(|side| dir.path().join(side));
        for file in NAMES.iter().flat_map(|name| dirs.each_ref().map(|side| side.join(name).join(FILE))) {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            File::create(&file).unwrap().set_len(BYTES).unwrap();
            for path in file.ancestors().take_while(|path| *path != dir.path()) {
                chown(path, user, user).unwrap();
            }
        }
        Some(Pair { _dir: dir, dirs, user })
    }

    pub fn start(&self, side: usize, role: &str, arguments: &[&str]) -> Helper {
        Helper::start(self.command(side, role, arguments))
    }

    /// The command for a helper in an enclave, to be changed before it is started.
    pub fn command(&self, side: usize, role: &str, arguments: &[&str]) -> Command {
        let devices: &[&str] = if side == 1 { &NAMES } else { &[] };
        self.command_in(&self.dirs[side], devices, role, arguments)
    }

    /// The directory of a third enclave, which is to have the arena of the second one, and nothing else of what lies beside that.
    pub fn third(&self) -> PathBuf {
        let dir = self._dir.path().join("c");
        std::fs::create_dir_all(dir.join(NAMES[1])).unwrap();
        File::create(dir.join(NAMES[1]).join(FILE)).unwrap();
        dir
    }

    /// The command for a helper that has arenas of the first enclave's directory in another one, as a machine has devices.
    pub fn command_in(&self, dir: &Path, devices: &[&str], role: &str, arguments: &[&str]) -> Command {
        let mut words: Vec<String> = self.user.into_iter().flat_map(as_user).collect();
        if !devices.is_empty() {
            let bind = |name: &&str| {
                let [from, to] = [&self.dirs[0], dir].map(|side| side.join(name).join(FILE));
                format!("mount --bind '{}' '{}' && ", from.display(), to.display())
            };
            let binds: String = devices.iter().map(bind).collect();
            // Who is not root is root in a user namespace.
            let is_root = self.user.is_none() && stillframe_kernel::user_id() == 0;
            words.extend(["unshare", "-m", "--propagation", "private"].map(String::from));
            words.extend((!is_root).then(|| "-r".into()));
            words.extend(["sh".into(), "-c".into(), binds + "exec \"$@\"", "sh".into()]);
        }
        words.push(PROGRAM_PATH.into());
        of_helper(&words, role, &[&[dir.to_str().unwrap()], arguments].concat())
    }

    pub fn agent(&self, side: usize) -> Helper {
        self.agent_with(side, &[])
    }

    /// An agent with further arguments.
    pub fn agent_with(&self, side: usize, further: &[&str]) -> Helper {
        let mut agent = self.start(side, "agent", &[&[NAMES[side], NAMES[1 - side]], further].concat());
        agent.expect("runs");
        agent
    }

    /// The program of the guest's machine, which the host has started.
    pub fn machine(&self) -> Helper {
        let mut machine = self.start(0, "machine", &[NAMES[1]]);
        machine.expect("runs");
        machine
    }

    /// Waits until the host's agent has looked several times.
    pub fn let_host_look(&self) {
        let looked = self.word(0, HEARTBEAT_AT);
        until("the host to look", || self.word(0, HEARTBEAT_AT) > looked + 3);
    }

    /// Both agents, which have seen each other.
    pub fn agents(&self) -> [Helper; 2] {
        let agents = [0, 1].map(|side| self.agent(side));
        self.meet();
        agents
    }

    pub fn meet(&self) {
        until("the agents to meet", || [0, 1].iter().all(|side| self.admits(*side)));
    }

    pub fn area(&self, side: usize) -> File {
        File::options().read(true).write(true).open(self.dirs[0].join(NAMES[side]).join(FILE)).unwrap()
    }

    pub fn word(&self, side: usize, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        self.area(side).read_exact_at(&mut bytes, BYTES - CHUNK_BYTES as u64 + offset as u64).unwrap();
        u64::from_le_bytes(bytes)
    }

    pub fn admits(&self, side: usize) -> bool {
        let admitted = self.word(side, stillframe_segment::enclave::admitted_at(0));
        admitted != 0
            && admitted == self.word(1 - side, IDENTITY_AT)
            && self.word(side, stillframe_segment::enclave::subject_at(0)) != 0
    }

    pub fn options(&self) -> RegionOptions {
        Region::options().dir(&self.dirs[0]).rule(Rule::Wait { timeout: None })
    }

    /// A producer in the first enclave, which has published.
    pub fn produce(&self) -> Play {
        let mut play = Play::open(self.options(), "host/r");
        play.step();
        play
    }

    /// An observer in an enclave, of the other one's region.
    pub fn observe(&self, side: usize) -> Helper {
        let mut observer = self.start(side, "observe", &[&format!("{}/r", NAMES[1 - side])]);
        observer.expect("holds");
        observer
    }

    /// Whether anything of this enclave is shown to be held by the other one.
    pub fn is_held(&self, side: usize) -> bool {
        let mut bytes = vec![0; AREA_BYTES - stillframe_segment::enclave::SHOWN_AT];
        let at = BYTES - CHUNK_BYTES as u64 + stillframe_segment::enclave::SHOWN_AT as u64;
        self.area(1 - side).read_exact_at(&mut bytes, at).unwrap();
        bytes.iter().any(|byte| *byte != 0)
    }
}
