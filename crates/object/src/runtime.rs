//! What a program asks the runtime of its node, over a socket in the directory of objects.
//!
//! A runtime (`still node`) speaks for this node to those of others. It listens at `.objects/runtime`. While it runs it holds a lock on
//! `.objects/locks/.runtime`, which only writers may open, and for all others one on `.objects/runtime.lock`. A request and a reply are a line of JSON each. A fragment to read has a connection of
//! its own: when that ends, the fragment is not filled any more. So has a group whose ranks on other nodes somebody wants; the crate
//! `stillframe` asks for those.

use crate::description::Description;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::objects::Objects;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stillframe_kernel::folder::Access;
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::local;
use stillframe_kernel::lock::{self, Evidence};
use stillframe_kernel::stream::Stream;

/// The runtime's socket, in the directory of objects.
pub const SOCKET: &str = "runtime";

/// The file on which a runtime shows while it runs that it does.
pub const LOCK: &str = "runtime.lock";

/// The lock of runtimes among those that only writers may take. No object has that name.
const WRITERS_LOCK: &str = ".runtime";

/// The longest line that is read, of either.
pub const LINE_BYTES_MAX: u64 = 8 << 20;

/// What a program asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Create an object on all nodes.
    Create {
        /// Its name.
        name: String,
        /// What it is created with.
        description: Description,
    },
    /// Remove an object from all nodes.
    Remove {
        /// Its name.
        name: String,
        /// The id of the object that is meant.
        id: NonZeroU64,
    },
    /// Remove the object from all nodes that this one has by a name, as far as the runtime knows which that is: what this node's directory
    /// says of it cannot be understood.
    Discard {
        /// Its name.
        name: String,
    },
    /// Fill a fragment from now on.
    Read {
        /// The object.
        name: String,
        /// Its id.
        id: NonZeroU64,
        /// The fragment's text.
        text: String,
        /// Numbers of the names that the text leaves open.
        bindings: BTreeMap<String, i64>,
    },
    /// Fill the fragment of this connection with a version, as soon as its elements are there.
    Version {
        /// Which.
        version: u64,
        /// Which one is to be fetched then, while the program works with this one.
        next: Option<u64>,
        /// The number of this request, which what is answered repeats: what was said of the same version before may hold no more.
        #[serde(default)]
        number: u64,
    },
    /// Say when the home of an object has said what is complete of it, since this runtime runs.
    Heard {
        /// The object.
        name: String,
        /// Its id.
        id: NonZeroU64,
    },
    /// Say which nodes there are.
    Nodes,
    /// Say which groups of regions there are on all nodes.
    Groups,
    /// Bring the ranks that other nodes have of a group of regions, for as long as this connection is open.
    Group {
        /// Its name.
        name: String,
    },
}

/// A node, as the runtime of this one knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSummary {
    /// Its number.
    pub number: u32,
    /// What it is called.
    pub name: String,
    /// Where its runtime listens.
    pub address: String,
    /// Whether it is this one.
    pub is_own: bool,
    /// Whether this node's runtime has a connection to it, on which it was heard in the last two thirds of a lease.
    pub is_connected: bool,
    /// Bytes that were sent to it since this node's runtime was started.
    pub sent_bytes: u64,
    /// Bytes that came from it.
    pub received_bytes: u64,
}

/// A group of regions, as all nodes together have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// Its name.
    pub name: String,
    /// How many ranks it has.
    pub ranks: u32,
    /// How many of them live.
    pub living: u32,
    /// The newest version that all have.
    pub newest: Option<u64>,
    /// The ranks of each node, by its number.
    pub nodes: BTreeMap<u32, Vec<u32>>,
}

/// What the runtime answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// The object that is there.
    Created(Description),
    /// Whether it was there.
    Removed(bool),
    /// What the home of the object says is known to this node's programs, or the object is none any more.
    Heard,
    /// All nodes, by their numbers.
    Nodes(Vec<NodeSummary>),
    /// The region, within the arena of objects, in which the fragment's versions are published from now on.
    Reading(String),
    /// A version is wanted from now on, and what the region of this connection has of it counts, or will.
    Wanted {
        /// The number of the request.
        number: u64,
        /// Which one is fetched then.
        next: Option<u64>,
    },
    /// A version cannot be had.
    Lost {
        /// Which.
        version: u64,
        /// The number of the request.
        number: u64,
        /// Whose elements, and why not.
        why: String,
    },
    /// Whom a version waits for.
    Waiting {
        /// Which.
        version: u64,
        /// The number of the request.
        number: u64,
        /// Whose elements.
        why: String,
    },
    /// All groups, by their names.
    Groups(Vec<GroupSummary>),
    /// How it stands with a group. It is said again when it changes.
    Ranks {
        /// Whether all ranks have a version in common on this node.
        is_here: bool,
        /// What is waited for, or which nodes with ranks are lost; empty if there is nothing to say.
        why: String,
    },
    /// It cannot be done now.
    Failed(String),
    /// It can never be done.
    Refused(String),
    /// There is not as much memory left of what the runtime may take for fragments of this node's programs.
    NoMemory {
        /// What the fragment takes.
        bytes: u64,
        /// What is taken.
        taken_bytes: u64,
        /// How much there may be.
        bound_bytes: u64,
    },
}

/// The lock of the runtime of a directory, which ends with this, and with the process.
#[derive(Debug)]
pub struct RuntimeLock {
    /// That by which those who may only read see that there is a runtime.
    shown: Unforked,
    _lock: Unforked,
}

impl RuntimeLock {
    /// Takes the lock, unless another runtime has it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn take(objects: &Objects) -> Result<Option<RuntimeLock>> {
        let directory = objects.directory();
        let path = directory.objects.path.join(LOCK);
        let Some(own) = directory.lock(WRITERS_LOCK)? else { return Ok(None) };
        let place = directory.objects.with_folder_mode()?;
        let opened = place.open_unforked(LOCK, Access::CreateExact(0))?;
        let (shown, about) = opened.ok_or_else(|| Error::io("open", &path, ErrorKind::NotFound.into()))?;
        let Some(file) = shown.get() else { return Ok(None) };
        place.permit(file, &about).map_err(|error| Error::io("chmod", &path, error))?;
        let is_shown = lock::show(file, 0).map_err(|failure| Error::system(path, failure))?;
        Ok(is_shown.then_some(RuntimeLock { shown, _lock: own }))
    }

    /// A file in the directory, for who asks about its file system; nothing in a forked child.
    pub fn file(&self) -> Option<&File> {
        self.shown.get()
    }
}

/// Whether this node has a runtime now. A program that may only read cannot always tell a runtime's lock from that of a program that feigns
/// one.
pub(crate) fn is_running(directory: &Directory) -> Result<bool> {
    let Some((file, _)) = directory.objects.open(LOCK, Access::Read)? else { return Ok(false) };
    let evidence =
        lock::evidence(&file, 0).map_err(|failure| Error::system(directory.objects.path.join(LOCK), failure))?;
    match evidence {
        Evidence::None => Ok(false),
        Evidence::Certain => Ok(true),
        Evidence::Doubtful => Ok(directory.is_locked(WRITERS_LOCK)?.unwrap_or(true)),
    }
}

/// Whether this node has a runtime, or had one that may be started again.
pub(crate) fn is_expected(directory: &Directory) -> Result<bool> {
    Ok(directory.objects.open(LOCK, Access::Read)?.is_some())
}

/// The nodes of which this one is one; nothing if it has no runtime.
pub(crate) fn nodes(directory: &Directory) -> Result<Option<Vec<NodeSummary>>> {
    if !is_running(directory)? {
        return Ok(None);
    }
    let mut connection = Connection::open(directory)?;
    match connection.ask(&Request::Nodes)? {
        Reply::Nodes(nodes) => Ok(Some(nodes)),
        other => Err(connection.failed(format!("it answered {other:?}"))),
    }
}

/// What a runtime did that cannot be.
pub(crate) fn failed(directory: &Directory, why: String) -> Error {
    Error::NoRuntime { path: directory.objects.path.join(SOCKET), why }
}

/// The groups of regions of all nodes; nothing if this one has no runtime.
pub(crate) fn groups(directory: &Directory) -> Result<Option<Vec<GroupSummary>>> {
    if !is_running(directory)? {
        return Ok(None);
    }
    let mut connection = Connection::open(directory)?;
    match connection.ask(&Request::Groups)? {
        Reply::Groups(groups) => Ok(Some(groups)),
        other => Err(connection.failed(format!("it answered {other:?}"))),
    }
}

/// A connection to the runtime, which ends for that when this process lets go of it, whatever its forked children do.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<Stream>,
    path: PathBuf,
    /// What came of a line so far.
    line: Vec<u8>,
    /// Whether the runtime was found to have closed it.
    has_ended: bool,
    /// The limit of reads that the socket has.
    limit: Option<Duration>,
}

impl Connection {
    /// Connects to the runtime. One that is stopped takes nobody up, and those who wait for it fill its queue.
    pub(crate) fn open(directory: &Directory) -> Result<Connection> {
        Connection::open_within(directory, ANSWER)
    }

    /// The same, with a limit of the caller's if that is less.
    pub(crate) fn open_within(directory: &Directory, longest: Duration) -> Result<Connection> {
        let path = directory.objects.path.join(SOCKET);
        let refused = |why: String| Error::NoRuntime { path: path.clone(), why };
        let connected = Stream::connect(&path, Instant::now() + longest.min(ANSWER));
        let stream = connected.map_err(|failure| refused(failure.to_string()))?;
        let checked = stream.file().and_then(|socket| local::check_listener(socket, &directory.objects.path));
        checked.map_err(|error| Error::NoRuntime { path: path.clone(), why: error.to_string() })?;
        let failed = |error| Error::NoRuntime { path: path.clone(), why: format!("setsockopt: {error}") };
        stream.set_write_timeout(Some(ANSWER)).map_err(failed)?;
        Ok(Connection { stream: BufReader::new(stream), path, line: Vec::new(), has_ended: false, limit: None })
    }

    pub(crate) fn failed(&self, why: impl Into<String>) -> Error {
        Error::NoRuntime { path: self.path.clone(), why: why.into() }
    }

    pub(crate) fn send(&mut self, request: &Request) -> Result<()> {
        let line = serde_json::to_vec(request);
        let mut line = line.map_err(|error| self.failed(error.to_string()))?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(|error| {
            self.has_ended = matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
            self.failed(format!("write: {error}"))
        })
    }

    /// A reply that came, or that comes within that time.
    pub(crate) fn receive(&mut self, longest: Duration) -> Result<Option<Reply>> {
        // A limit of zero would be none.
        let limit = longest.max(Duration::from_micros(1));
        if self.limit != Some(limit) {
            let set = self.stream.get_mut().set_read_timeout(Some(limit));
            set.map_err(|error| self.failed(format!("setsockopt: {error}")))?;
            self.limit = Some(limit);
        }
        let left = LINE_BYTES_MAX.saturating_sub(self.line.len() as u64);
        let got = (&mut self.stream).take(left).read_until(b'\n', &mut self.line);
        self.has_ended = match &got {
            Ok(_) => self.line.last() != Some(&b'\n'),
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        match got {
            Ok(0) => return Err(self.failed("it closed the connection")),
            Ok(_) if self.line.last() != Some(&b'\n') => return Err(self.failed("it closed the connection in a line")),
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(self.failed(format!("read: {error}"))),
        }
        let line = std::mem::take(&mut self.line);
        let reply = serde_json::from_slice(&line);
        reply.map(Some).map_err(|error| self.failed(format!("it sent no reply: {error}")))
    }

    /// Sends a request, and waits for its reply.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Reply> {
        match self.exchange(request, &|| Ok(()))? {
            Reply::Failed(why) => Err(self.failed(why)),
            reply => Ok(reply),
        }
    }

    /// The same, with a refusal as a reply, and with a check of whether the wait is to go on.
    pub(crate) fn exchange(&mut self, request: &Request, check: &dyn Fn() -> Result<()>) -> Result<Reply> {
        self.exchange_within(request, ANSWER, check)
    }

    /// The same, with a limit of the caller's if that is less.
    pub(crate) fn exchange_within(
        &mut self,
        request: &Request,
        longest: Duration,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Reply> {
        self.send(request)?;
        let (begin, longest) = (Instant::now(), longest.min(ANSWER));
        loop {
            let left = longest.saturating_sub(begin.elapsed());
            if let Some(reply) = self.receive(left.min(CHECK))? {
                return Ok(reply);
            }
            if left.is_zero() {
                return Err(self.failed(format!("it has not answered for {} ms", begin.elapsed().as_millis())));
            }
            check()?;
        }
    }

    /// A reply that came.
    pub(crate) fn receive_now(&mut self) -> Result<Option<Reply>> {
        if self.stream.buffer().is_empty() {
            let socket = self.stream.get_ref().file().map_err(|error| self.failed(error.to_string()))?;
            let signs = local::watch(&[(socket.as_fd(), true)], Some(Duration::ZERO));
            let signs = signs.map_err(|failure| self.failed(failure.to_string()))?;
            if !signs.iter().any(|sign| sign.is_any()) {
                return Ok(None);
            }
        }
        self.receive(Duration::ZERO)
    }

    /// Whether the runtime still has its end of it, also where it sent something before it went.
    pub(crate) fn is_open(&self) -> Result<bool> {
        let socket = self.stream.get_ref().file().map_err(|error| self.failed(error.to_string()))?;
        let signs = local::watch(&[(socket.as_fd(), false)], Some(Duration::ZERO));
        let signs = signs.map_err(|failure| self.failed(failure.to_string()))?;
        Ok(!signs.iter().any(|sign| sign.ended))
    }

    /// Ends it, and waits until the runtime has done so, too: then it has given back what it took for it. Whoever is not answered within
    /// that time has let go of it all the same.
    ///
    /// # Errors
    /// Those of the check.
    pub(crate) fn close(mut self, longest: Duration, check: &dyn Fn() -> Result<()>) -> Result<()> {
        if self.stream.get_ref().end_writing().is_err() {
            return Ok(());
        }
        let begin = Instant::now();
        loop {
            let left = longest.saturating_sub(begin.elapsed());
            // What it said before its end is for nobody any more.
            if left.is_zero() || self.receive(left.min(CHECK)).is_err() {
                return Ok(());
            }
            check()?;
        }
    }

    /// Whether the runtime closed it, as one does that ends.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }
}

/// How long a runtime may take for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// How often whoever waits for an answer is asked whether he still does.
const CHECK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_may_only_read_keeps_no_runtime_from_beginning_and_feigns_none() {
        let place = tempfile::tempdir().unwrap();
        let objects = Objects::options().dir(place.path()).mode(0o755).as_runtime().open().unwrap();
        let reader = || Objects::options().dir(place.path()).look().unwrap().expect("there are objects");
        drop(RuntimeLock::take(&objects).unwrap().expect("there is no other"));
        let feigned = File::open(place.path().join(".objects").join(LOCK)).unwrap();
        assert!(lock::try_lock(&feigned, lock::Kind::Read, 0, 1).unwrap());
        assert!(!is_running(objects.directory()).unwrap());
        let held = RuntimeLock::take(&objects).unwrap().expect("a lock to read is none of a runtime");
        assert!(RuntimeLock::take(&objects).unwrap().is_none());
        drop(feigned);
        assert!(is_running(objects.directory()).unwrap() && is_running(reader().directory()).unwrap());
        drop(held);
        assert!(!is_running(objects.directory()).unwrap() && !is_running(reader().directory()).unwrap());
    }
}
