//! Child processes of a scene, started from this executable, and the lines they exchange with their parent.

use super::{Error, Result, host};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long a process of a scene may keep another one waiting.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A child process, seen from its parent. Dropping it ends the process.
pub struct Child {
    role: String,
    process: std::process::Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Child {
    /// Starts this executable as `still <arguments…>` with `root` as its directory of regions.
    pub fn start(root: &Path, arguments: &[&str]) -> Result<Child> {
        Child::start_in(&[], root, arguments)
    }

    /// As [`start`](Child::start), by a command that becomes the one which follows it.
    pub fn start_in(before: &[&str], root: &Path, arguments: &[&str]) -> Result<Child> {
        let role = arguments.join(" ");
        let program = std::env::current_exe().map_err(Error::system("readlink /proc/self/exe"))?;
        let mut words = before.iter().map(OsStr::new).chain([program.as_os_str()]);
        let mut process = Command::new(words.next().unwrap_or_default())
            .args(words)
            .args(arguments)
            .env("STILLFRAME_DIR", root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::system(format!("start of '{role}'")))?;
        let input = process.stdin.take();
        let output = process.stdout.take();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()).map_while(|line| line.ok())
            {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Child { role, process, input, lines })
    }

    /// Number of the process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends a line.
    pub fn tell(&mut self, line: &str) -> Result<()> {
        let sent = match &mut self.input {
            Some(input) => writeln!(input, "{line}"),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        sent.map_err(|error| self.broken(format!("does not listen: {error}")))
    }

    /// Waits for the next line.
    pub fn hear(&self) -> Result<String> {
        self.lines.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => self.broken(format!("said nothing for {} s", PATIENCE.as_secs())),
            RecvTimeoutError::Disconnected => self.broken("ended too early; its message is above".into()),
        })
    }

    /// The next line if there is one already.
    pub fn overhear(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// Sends a line and waits for the answer.
    pub fn ask(&mut self, line: &str) -> Result<String> {
        self.tell(line)?;
        self.hear()
    }

    /// Waits for the next line and reads it as numbers.
    pub fn hear_numbers<const N: usize>(&self) -> Result<[u64; N]> {
        let line = self.hear()?;
        parse_numbers(&line).ok_or_else(|| self.broken(format!("said '{line}', which is not {N} numbers")))
    }

    /// Waits for the next line and reads it as numbers, however many.
    pub fn hear_list(&self) -> Result<Vec<u64>> {
        let line = self.hear()?;
        let numbers: Result<_, _> = line.split_whitespace().map(str::parse).collect();
        numbers.map_err(|_| self.broken(format!("said '{line}', which is not all numbers")))
    }

    /// Closes the child's input, which asks it to end.
    pub fn dismiss(&mut self) {
        self.input = None;
    }

    fn broken(&self, why: String) -> Error {
        Error::Child { role: self.role.clone(), why }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.dismiss();
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            match self.process.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                _ => return,
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads a line of numbers, as processes of a scene send them.
pub fn parse_numbers<const N: usize>(line: &str) -> Option<[u64; N]> {
    let numbers: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

/// The parent, seen from a child process.
pub struct Parent {
    lines: Receiver<String>,
}

impl Parent {
    /// Listens to the parent from now on. The process ends when the parent does or dismisses it.
    pub fn listen() -> Parent {
        host::die_with_parent();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lines().map_while(|line| line.ok()) {
                if sender.send(line).is_err() {
                    return;
                }
            }
            // The main thread sees the closed channel and ends in order, unless it is stuck somewhere.
            drop(sender);
            std::thread::sleep(Duration::from_secs(1));
            std::process::exit(0);
        });
        Parent { lines }
    }

    /// Waits for the next line; none when the parent has dismissed this process.
    pub fn hear(&self) -> Option<String> {
        self.lines.recv().ok()
    }

    /// Sends a line.
    pub fn tell(&self, line: impl std::fmt::Display) -> Result<()> {
        let mut output = std::io::stdout().lock();
        writeln!(output, "{line}").and_then(|()| output.flush()).map_err(Error::system("write to the parent"))
    }
}
