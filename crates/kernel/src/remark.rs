//! What the library says by itself: a line on the program's standard error.
//!
//! It must not harm a program that never asked for it. So it is said by a thread of the library's own: where nobody reads a
//! full pipe, that thread waits and not the program; where nobody can read any more, `SIGPIPE`, which goes to the thread that
//! writes, is held back there. And it is one write, past the standard library's standard error, whose lock a forked child
//! would find taken for ever.

use crate::thread::Thread;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_WRITTEN_AT_ONCE: AtomicBool = AtomicBool::new(false);

/// Environment variable that asks for silence, if it is neither empty nor 0.
pub const QUIET: &str = "STILLFRAME_QUIET";

fn is_quiet() -> bool {
    std::env::var_os(QUIET).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Has every remark of this process written before [`say`] returns. For programs of Stillframe's own: they may wait for their
/// standard error, and may end right after a remark, which a thread would then not come to write.
pub fn write_at_once() {
    IS_WRITTEN_AT_ONCE.store(true, Ordering::Relaxed);
}

/// Says what `text` makes, after "stillframe: ", unless silence was asked for. Returns at once, unless
/// [`write_at_once`] was called; where no thread can be had, nothing is said.
pub fn say(text: impl FnOnce() -> String + Send + 'static) {
    if is_quiet() {
        return;
    }
    let write = move || {
        let line = line(&text());
        // SAFETY: the bytes live through the call. Nobody is left to tell when it fails.
        unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    };
    if IS_WRITTEN_AT_ONCE.load(Ordering::Relaxed) {
        write();
    } else {
        let _ = Thread::start("stillframe-say", write);
    }
}

/// One line, whatever names of other programs are in it.
fn line(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    format!("stillframe: {text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_one_line() {
        assert_eq!(line("a\nb\x1b[31m"), "stillframe: a?b?[31m\n");
    }
}
