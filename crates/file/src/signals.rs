//! Names that a signal takes with it when it ends the process.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// The names there are.
static NAMES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The names. While they are held, none of the signals that a user or a batch system ends programs with ends this one.
pub fn hold() -> MutexGuard<'static, Vec<PathBuf>> {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(begin);
    names()
}

fn names() -> MutexGuard<'static, Vec<PathBuf>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to wait for signals. Where that fails, they end the process, and its names stay until somebody takes them over.
fn begin() {
    let (ready, begun) = mpsc::channel();
    let wait = move || {
        let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal)))
        else {
            return;
        };
        let _ = ready.send(());
        for signal in signals.forever() {
            // Held to the end, so that none is made any more.
            let names = names();
            for name in names.iter() {
                let _ = std::fs::remove_file(name);
            }
            let _ = emulate_default_handler(signal);
        }
    };
    if std::thread::Builder::new().name("signals".into()).spawn(wait).is_ok() {
        let _ = begun.recv();
    }
}

/// Whether the process was started to survive a signal, as `nohup` and shells' background jobs are.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
