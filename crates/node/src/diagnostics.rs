//! What a runtime reports on its standard error, for people.
//!
//! Nobody may read it, or be able to: an ssh that has ended, a full disk, a driver that reads the first line only. The runtime goes on
//! whatever becomes of a line, so a thread of its own writes them, and where that one waits the newest are left out.

use std::io::{Write, stderr};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Lines that wait at most.
const LINES_MAX: usize = 256;

/// Reports a line. Returns at once.
pub fn report(text: String) {
    static QUEUE: OnceLock<Option<SyncSender<String>>> = OnceLock::new();
    let queue = QUEUE.get_or_init(|| start(|line| _ = write(line)));
    if let Some(queue) = queue {
        let _ = queue.try_send(text);
    }
}

/// Reports a line before it returns, for a program that ends then. A line that cannot be written is nobody's.
pub fn report_last(text: &str) {
    let _ = write(text);
}

fn write(text: &str) -> std::io::Result<()> {
    // Unlike `eprintln`, this is no panic where it cannot be written.
    stderr().write_all(format!("still node: {text}\n").as_bytes())
}

/// A queue whose lines a thread writes; nothing where there is no thread to be had.
fn start(mut write: impl FnMut(&str) + Send + 'static) -> Option<SyncSender<String>> {
    let (queue, lines) = sync_channel::<String>(LINES_MAX);
    let named = thread::Builder::new().name("stillframe-diagnostics".into());
    named.spawn(move || lines.into_iter().for_each(|line| write(&line))).ok().map(|_| queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_nobody_reads_holds_nobody_up() {
        let (written, seen) = channel();
        let (go_on, gate) = channel::<()>();
        let queue = start(move |line| {
            let _ = gate.recv();
            let _ = written.send(line.to_owned());
        });
        let queue = queue.unwrap();
        let taken = (0..10_000).filter(|number| queue.try_send(number.to_string()).is_ok()).count();
        // One may be with who writes.
        assert!((LINES_MAX..=LINES_MAX + 1).contains(&taken), "{taken}");
        drop(go_on);
        let first: Vec<String> = (0..LINES_MAX).map(|_| seen.recv().unwrap()).collect();
        assert_eq!(first[..2], ["0", "1"]);
    }
}
