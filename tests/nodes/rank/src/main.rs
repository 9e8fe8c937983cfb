//! A rank that publishes, or a reader that checks what it reads, for tests that kill them and what they rely on.
//!
//! A version is a number of periods since an origin that all processes share. So a rank that begins anew knows which version is
//! due, and whoever reads a version knows since when it can be there. Each says line by line what it does:
//!
//! | line | |
//! |---|---|
//! | `begun NS` | it runs |
//! | `attached VERSION NS`, `detached NS` | it has its fragment, or has none and will attach anew |
//! | `published VERSION NS`, `seen VERSION NS` | all elements of a version were published, or read and checked |
//! | `newest VERSION`, `without TEXT` | a reader that was asked could read the newest complete version, or not and why |
//! | `waits TEXT`, `lost TEXT` | an error that may come while somebody is dead |
//! | `wrong TEXT` | what may never be |

mod read;
mod write;

use std::process::ExitCode;
use std::time::Duration;
use stillframe_kernel::boot_ns;
use stillframe_object::{Error, Object, Objects};

/// Columns of the object; rows are said by whoever creates it.
const COLUMNS: u64 = 2048;

/// How long somebody waits for one thing, before he says so and waits again.
const LIMIT: Duration = Duration::from_millis(500);

/// How long to wait before something is tried again.
const PAUSE: Duration = Duration::from_millis(20);

const USAGE: &str = "nodes-rank create NAME ROWS | remove NAME | write NAME ORIGIN PERIOD FIRST ROWS RANK ORDER | read NAME ORIGIN PERIOD";

/// The element of a version at a place: another version's, or another place's, is another number.
fn value(version: u64, index: u64) -> i64 {
    // The initial version is zero.
    if version == 0 { 0 } else { (version * 1_000_003 + index) as i64 }
}

/// Which version is due.
#[derive(Debug, Clone, Copy)]
struct Clock {
    origin_ns: u64,
    period_ns: u64,
}

impl Clock {
    fn version(&self) -> u64 {
        boot_ns().saturating_sub(self.origin_ns) / self.period_ns
    }

    fn wait_for(&self, version: u64) {
        let due_ns = self.origin_ns + version * self.period_ns;
        std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(boot_ns())));
    }
}

fn say(what: &str, text: impl std::fmt::Display) {
    println!("{what} {}", text.to_string().replace('\n', " "));
}

/// Whether an error may come while somebody is dead, or was a moment ago.
fn may_come(error: &Error) -> bool {
    error.is_timeout()
        || matches!(
            error,
            Error::Lost { .. } | Error::LostElsewhere { .. } | Error::NoRuntime { .. } | Error::Plan { .. }
        )
}

/// Says what an error is.
fn say_error(error: &Error) {
    match error {
        error if error.is_timeout() => say("waits", error),
        error if may_come(error) => say("lost", error),
        error => say("wrong", error),
    }
}

fn find(objects: &Objects, name: &str) -> Object {
    loop {
        match objects.wait(name, LIMIT) {
            Ok(object) => return object,
            Err(error @ (Error::NoObject { .. } | Error::NoRuntime { .. })) => say("waits", error),
            Err(error) => say("wrong", error),
        }
        std::thread::sleep(PAUSE);
    }
}

fn run(words: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    say("begun", boot_ns());
    let objects = Objects::open()?;
    let clock = |origin: &str, period: &str| -> Result<Clock, std::num::ParseIntError> {
        Ok(Clock { origin_ns: origin.parse()?, period_ns: period.parse()? })
    };
    match words {
        ["create", name, rows] => {
            let object = objects.create(name, "var grid [rows,columns] int64");
            object.bind("rows", rows.parse()?).bind("columns", COLUMNS as i64).create()?;
            say("created", name);
            Ok(())
        }
        ["remove", name] => {
            objects.remove(name, true)?;
            say("removed", name);
            Ok(())
        }
        ["write", name, origin, period, first, rows, rank, order] => {
            let band = write::Band { first: first.parse()?, rows: rows.parse()?, rank: rank.parse()?, order };
            write::run(&find(&objects, name), clock(origin, period)?, &band)
        }
        ["read", name, origin, period] => read::run(&find(&objects, name), clock(origin, period)?),
        _ => Err(USAGE.into()),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say("failed", error);
            ExitCode::FAILURE
        }
    }
}
