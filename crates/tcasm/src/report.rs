//! What a program learns when something fails: `errno`, and a line on standard error for each cause.

use crate::kernel;
use crate::lock::lock;
use once_cell::race::OnceBool;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};
use stillframe::Error;

/// Why a call fails: the number that goes into `errno`, and a text that says what to do.
#[derive(Debug)]
pub struct Problem {
    pub errno: i32,
    pub text: String,
}

impl Problem {
    pub fn new(errno: i32, text: impl Into<String>) -> Problem {
        Problem { errno, text: text.into() }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let errno = match &error {
            Error::InUse { .. } => libc::EBUSY,
            Error::NoSpace { .. } | Error::Bound { .. } | Error::NoSlot { .. } | Error::ArenaFull { .. } => {
                libc::ENOSPC
            }
            Error::Denied { .. } => libc::EACCES,
            Error::NoFiles { .. } => libc::EMFILE,
            Error::NoMappings { .. } => libc::ENOMEM,
            Error::BadName { .. } => libc::ENAMETOOLONG,
            Error::System { failure, .. } => failure.source.raw_os_error().unwrap_or(libc::EIO),
            Error::NoTracker { .. } | Error::ForeignPages { .. } => libc::ENOSYS,
            Error::Corrupt { .. } => libc::EIO,
            _ => libc::EINVAL,
        };
        Problem { errno, text: error.to_string() }
    }
}

/// Whether `STILLFRAME_VERBOSE` asks for everything to be said: read once, because another thread may change the environment.
pub fn is_verbose() -> bool {
    static IS_VERBOSE: OnceBool = OnceBool::new();
    let read = || std::env::var_os("STILLFRAME_VERBOSE").is_some_and(|value| !value.is_empty() && value != "0");
    IS_VERBOSE.get_or_init(read)
}

pub type Told = Option<HashSet<(String, i32)>>;

/// What was said already. Nobody who has it waits for anything.
pub fn told() -> MutexGuard<'static, Told> {
    static TOLD: Mutex<Told> = Mutex::new(None);
    lock(&TOLD)
}

/// Says what went wrong with a file, each cause once, unless asked to say it always.
pub fn complain(file: &str, problem: &Problem) {
    let is_new = told().get_or_insert_with(HashSet::new).insert((file.to_string(), problem.errno));
    if is_new || is_verbose() {
        say(&format!("{file}: {}", problem.text));
    }
}

/// Says what was done, if that was asked for.
pub fn remark(text: impl FnOnce() -> String) {
    if is_verbose() {
        say(&text());
    }
}

fn say(text: &str) {
    // One write, so that lines of several processes do not mix; nobody is left to tell when it fails. The standard
    // library's standard error has a lock, which a forked child would find taken for ever while another thread says something.
    kernel::write(libc::STDERR_FILENO, format!("stillframe: {}\n", text.replace('\n', " ")).as_bytes());
}
