//! Namespaces for a helper process: what a container is to a program.
//!
//! # Safety
//!
//! What runs between fork and exec makes one system call and touches no memory.
#![allow(unsafe_code, dead_code)]

use crate::helper::command;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where a container has the directory that is mounted into it.
pub const INSIDE: &str = "/mnt";
pub const NOBODY: u32 = 65534;

/// The descriptor by which a container has the test's program: its path may be out of reach.
const PROGRAM: i32 = 3;
/// Its path there.
pub const PROGRAM_PATH: &str = "/proc/self/fd/3";

/// What a container is apart in.
#[derive(Clone, Copy)]
pub struct Enclosure {
    /// Whether the directory is mounted to be read only.
    pub is_read_only: bool,
    /// The user outside; it is root in a user namespace of its own. `None` is the test's own, and needs to be root.
    pub user: Option<u32>,
}

/// Mounts what is wanted, takes away the shared memory that everybody has, and becomes the program.
const ENTER: &str = "\
mount --bind \"$1\" \"$2\"
[ \"$3\" = rw ] || mount -o remount,bind,ro,nosuid,nodev \"$2\"
mount -t tmpfs -o size=1m none /dev/shm
shift 3
exec /proc/self/fd/3 \"$@\"";

impl Enclosure {
    /// The command for a helper in namespaces of its own: mounts, processes, network, System V objects, host name.
    #[track_caller]
    pub fn command(self, place: &Path, role: &str, arguments: &[&str]) -> Command {
        of_helper(&self.words(place), role, arguments)
    }

    /// The words that begin such a command.
    fn words(self, place: &Path) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(user) = self.user {
            words.extend(as_user(user));
        }
        words.extend(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"].map(String::from));
        words.extend(["--net", "--ipc", "--uts"].map(String::from));
        words.extend(self.user.map(|_| "--map-root-user".into()));
        words.extend(["sh", "-ec", ENTER, "sh", place.to_str().unwrap(), INSIDE].map(String::from));
        words.push(if self.is_read_only { "ro" } else { "rw" }.into());
        words
    }

    /// Whether this machine lets anybody have it: there the test's program runs none of its tests.
    fn is_allowed(self) -> bool {
        let mut tried = with_program(&self.words(Path::new("/dev/shm")));
        tried.args(["--exact", "no test of this name"]).stdin(Stdio::null()).stdout(Stdio::null());
        tried.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }
}

/// Whether namespaces can be made here; says so if not.
pub fn may_enclose() -> bool {
    let may = [None, Some(NOBODY)].into_iter().all(|user| Enclosure { is_read_only: true, user }.is_allowed());
    if !may {
        eprintln!("skipped: only root, where user namespaces are allowed, can make these namespaces");
    }
    may
}

/// The words that begin a command of another user.
pub fn as_user(user: u32) -> impl Iterator<Item = String> {
    let user = user.to_string();
    ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"].map(String::from).into_iter()
}

/// A command that begins with these words, which become the program at [`PROGRAM_PATH`], and ends in a helper.
#[track_caller]
pub fn of_helper(words: &[String], role: &str, arguments: &[&str]) -> Command {
    let helper = command(role, arguments);
    let mut outer = with_program(words);
    outer.args(helper.get_args());
    for (name, value) in helper.get_envs() {
        outer.env(name, value.unwrap_or_default());
    }
    outer
}

/// A command that hands the test's program on as a descriptor.
pub fn with_program(words: &[String]) -> Command {
    let program = File::open("/proc/self/exe").unwrap();
    let mut outer = Command::new(&words[0]);
    outer.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    // SAFETY: the calls are async-signal-safe, and the file is open for as long as the closure is there.
    unsafe {
        outer.pre_exec(move || {
            // What has the number already would else be closed by exec.
            let done = match program.as_raw_fd() {
                PROGRAM => libc::fcntl(PROGRAM, libc::F_SETFD, 0),
                other => libc::dup2(other, PROGRAM),
            };
            if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        })
    };
    outer
}
