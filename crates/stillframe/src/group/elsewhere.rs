//! Ranks on other nodes. The runtime of this node (`still node`), if there is one, brings them here for as long as somebody asks.
//!
//! It listens at a socket in the directory of regions, and takes and sends a line of JSON each: `docs/groups.md` says what it does.

use crate::observer::options::ObserverOptions;
use crate::place::broker::socket_in;
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stillframe_kernel::local;
use stillframe_kernel::stream::Stream;

/// The runtime's socket, below the directory of regions.
const SOCKET: &str = ".objects/runtime";

/// How long it may take for its first answer, which is that a version is here, or that none will be soon.
const ANSWER: Duration = Duration::from_secs(20);

/// How long it may take to take somebody up. Whoever waits for a version is held up by as much, each time that it is asked.
const CONNECT: Duration = Duration::from_millis(50);

/// How often it is looked for, where there is none, or none any more.
const AGAIN: Duration = Duration::from_millis(500);

/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Somebody who asks for ranks of other nodes, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    path: PathBuf,
    group: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    stream: Option<BufReader<Stream>>,
    asked: Option<Instant>,
    /// What came of a line so far.
    line: Vec<u8>,
    said: Option<Said>,
    /// Whether there was a runtime at any time.
    was_there: bool,
}

/// What the runtime says of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    /// Whether all ranks have a version in common on this node.
    is_here: bool,
    /// What it waits for, or knows of nodes that are lost; empty if there is nothing to say.
    why: String,
}

impl Elsewhere {
    /// Asks for the ranks of a group; `None` where no runtime would know of them: regions of an arena are of one node.
    pub(crate) fn ask(options: &ObserverOptions, group: &str) -> Option<Elsewhere> {
        if options.arena.is_some() || options.is_here || socket_in(&options.dir).is_some() {
            return None;
        }
        let path = options.dir.join(SOCKET);
        let elsewhere = Elsewhere { path, group: group.into(), state: Mutex::default() };
        elsewhere.look();
        Some(elsewhere)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears what the runtime said since, and asks one that was started since.
    pub(crate) fn look(&self) {
        let mut state = self.state();
        self.connect(&mut state);
        while state.receive(None) {}
    }

    /// Waits until the runtime knows whether there is a version; whether there is.
    pub(crate) fn wait(&self) -> bool {
        let begin = Instant::now();
        let mut state = self.state();
        self.connect(&mut state);
        while state.said.is_none() && state.stream.is_some() {
            let left = ANSWER.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            state.receive(Some(left));
        }
        state.said.as_ref().is_some_and(|said| said.is_here)
    }

    /// Whether a runtime makes regions here, which are gone when it ends, or makes them anew.
    pub(crate) fn makes_regions(&self) -> bool {
        self.state().was_there
    }

    /// What the runtime knows of why a version is not there.
    pub(crate) fn why(&self) -> Option<String> {
        self.look();
        let said = self.state().said.clone();
        said.map(|said| said.why).filter(|why| !why.is_empty())
    }

    fn connect(&self, state: &mut State) {
        if state.stream.is_some() || state.asked.is_some_and(|asked| asked.elapsed() < AGAIN) {
            return;
        }
        state.asked = Some(Instant::now());
        state.line.clear();
        // A name of a region has no letter that JSON would write otherwise.
        let line = format!("{{\"group\":{{\"name\":\"{}\"}}}}\n", self.group);
        // One that is stopped takes nobody up, and those who wait for it fill its queue.
        let connected = Stream::connect(&self.path, Instant::now() + CONNECT);
        let asked = connected.map_err(|failure| failure.source).and_then(|mut stream| {
            // Somebody else's is none.
            local::check_listener(stream.file()?, self.path.parent().unwrap_or(&self.path))?;
            stream.set_write_timeout(Some(AGAIN))?;
            stream.write_all(line.as_bytes())?;
            Ok(stream)
        });
        state.stream = asked.ok().map(BufReader::new);
        if state.stream.is_some() {
            // Why it was refused before is not why it is now.
            (state.was_there, state.said) = (true, None);
        }
    }
}

impl State {
    /// Takes a line that came, or comes within a time; whether there was one.
    fn receive(&mut self, longest: Option<Duration>) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        let socket = stream.get_ref();
        let set = socket.set_nonblocking(longest.is_none());
        let limit = longest.map(|longest| longest.max(Duration::from_micros(1)));
        let left = LINE_BYTES_MAX.saturating_sub(self.line.len() as u64);
        let got = set.and_then(|()| socket.set_read_timeout(limit));
        let got = got.and_then(|()| stream.take(left).read_until(b'\n', &mut self.line));
        match got {
            Ok(_) if self.line.last() == Some(&b'\n') => {
                if let Some(why) = refusal(&self.line) {
                    // It says no more on this connection. What it cannot do now it may do later.
                    (self.stream, self.said) = (None, Some(Said { is_here: false, why }));
                } else {
                    self.said = said(&self.line).or(self.said.take());
                }
                self.line.clear();
                true
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                false
            }
            // It ended. What it brought here goes, too.
            _ => {
                (self.stream, self.said) = (None, None);
                false
            }
        }
    }
}

/// Why it does not bring the group.
fn refusal(line: &[u8]) -> Option<String> {
    let reply: Value = serde_json::from_slice(line).ok()?;
    Some(format!("the runtime of this node does not bring them: {}", reply.get("failed")?.as_str()?))
}

fn said(line: &[u8]) -> Option<Said> {
    let reply: Value = serde_json::from_slice(line).ok()?;
    let ranks = reply.get("ranks")?;
    let (is_here, why) = (ranks.get("is_here")?.as_bool()?, ranks.get("why")?.as_str()?);
    Some(Said { is_here, why: why.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_of_ranks_is_heard() {
        let whole = said(br#"{"ranks":{"is_here":false,"why":"node n2 has rank 3"}}"#).unwrap();
        assert_eq!(whole, Said { is_here: false, why: "node n2 has rank 3".into() });
        for line in [&b"{}"[..], b"[1]", b"\xff", br#"{"ranks":{"is_here":1,"why":""}}"#, br#"{"failed":"no"}"#] {
            assert_eq!(said(line), None);
        }
        assert_eq!(refusal(br#"{"failed":"no"}"#).unwrap(), "the runtime of this node does not bring them: no");
        assert_eq!(refusal(br#"{"ranks":{"is_here":true,"why":""}}"#), None);
    }
}
