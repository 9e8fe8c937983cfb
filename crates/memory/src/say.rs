//! Lines on standard error, made without memory from anybody.

use crate::kernel;
use crate::signals;
use std::fmt::{Display, Formatter, Result, Write};
use std::sync::atomic::{AtomicU64, Ordering};

const LINE_BYTES: usize = 1024;

struct Line {
    bytes: [u8; LINE_BYTES],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> Result {
        let room = &mut self.bytes[self.used..LINE_BYTES - 1];
        let count = room.len().min(text.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.used += count;
        Ok(())
    }
}

/// Which file standard error was when the program began: its device and its number.
static ERRORS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

fn errors() -> Option<[u64; 2]> {
    // SAFETY: plain data, which the call fills.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        (libc::fstat(libc::STDERR_FILENO, &mut found) == 0).then_some([found.st_dev, found.st_ino])
    }
}

/// Remembers what standard error is: a program may close it, and get its number for a file of its own.
pub fn remember() {
    let found = kernel::quietly(errors).unwrap_or_default();
    ERRORS.iter().zip(found).for_each(|(word, number)| word.store(number, Ordering::Relaxed));
}

/// Says a line, if standard error is still what it was. Lines of several processes do not mix.
pub fn say(text: impl Display) {
    let expected = ERRORS.each_ref().map(|word| word.load(Ordering::Relaxed));
    if kernel::quietly(errors) != Some(expected) {
        return;
    }
    let mut line = Line { bytes: [0; LINE_BYTES], used: 0 };
    let _ = write!(line, "stillframe: {text}");
    line.bytes[line.used] = b'\n';
    signals::without_pipe(|| kernel::write(libc::STDERR_FILENO, &line.bytes[..=line.used]));
}

/// A number of bytes, to be read by people.
pub struct Bytes(pub usize);

impl Display for Bytes {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self.0 {
            bytes if bytes >= 10 << 30 => write!(out, "{} GiB", bytes >> 30),
            bytes if bytes >= 1 << 20 => write!(out, "{} MiB", bytes >> 20),
            bytes => write!(out, "{} KiB", bytes >> 10),
        }
    }
}
