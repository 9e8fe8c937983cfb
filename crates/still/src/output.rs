//! Standard output, and what becomes of what cannot be written to it.

use std::io::{self, BufWriter, ErrorKind, Stdout, Write};

/// Standard output. What could not be written is an error once, and then dropped.
pub struct Output(BufWriter<Stdout>);

impl Output {
    pub fn new() -> Output {
        Output(BufWriter::new(io::stdout()))
    }

    fn forget_unwritten<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            let _ = std::mem::replace(self, Output::new()).0.into_parts();
        }
        result
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.0.write(bytes);
        self.forget_unwritten(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.0.flush();
        self.forget_unwritten(result)
    }
}

/// Lines about what a command does, which it goes on doing when they cannot be written.
#[derive(Debug, Default)]
pub struct EventLines {
    is_mute: bool,
}

impl EventLines {
    /// Writes a line at once. Behind one that could not be written none is, since it may have been written in part.
    pub fn write(&mut self, out: &mut dyn Write, line: &str) {
        if self.is_mute {
            return;
        }
        if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
            self.is_mute = true;
            // Whoever closes a pipe has read enough.
            if error.kind() != ErrorKind::BrokenPipe {
                let text = "still: what happens cannot be written any more, and goes on";
                let _ = writeln!(io::stderr(), "{text}: {error}");
            }
        }
    }

    /// Whether nothing is written any more.
    pub fn is_mute(&self) -> bool {
        self.is_mute
    }
}
