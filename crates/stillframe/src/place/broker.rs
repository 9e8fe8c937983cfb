//! Regions that a broker hands out: their files come by descriptors, over a socket.
//!
//! Each question has a connection of its own, which ends with the answer. So an observer that needs nothing new has nothing open to
//! the broker, and does not notice that it ends; and a forked child shares no connection with its parent.

use crate::error::{Error, Result};
use crate::place::directory::Unopened;
use crate::place::names::{self, is_for_observers};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stillframe_kernel::Failure;
use stillframe_kernel::folder::{About, Form};
use stillframe_kernel::fork::{Unforked, undivided};
use stillframe_kernel::local::{self, Message};
use stillframe_kernel::trust::{Guard, Refused};
use stillframe_segment::broker::{ANSWER_BYTES_MAX, Answer, Identity, Question};
use stillframe_segment::{arena, head};

/// Begins what stands in the place of a directory of regions where a broker hands them out.
const SCHEME: &str = "unix:";

/// How long a broker may take for an answer, which it gives in microseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it may take for a list, which may need many answers.
const LIST_PATIENCE: Duration = Duration::from_secs(30);

/// Most names in a list.
const NAMES_MAX: usize = 1_000_000;

/// How long an agent may be unseen by the other enclave, whose agent looks every 10 ms, if its machine has time for it.
const UNSEEN: Duration = Duration::from_secs(5);

/// The socket of the broker that this names in the place of a directory; `None` if it is a directory's path.
pub(crate) fn socket_in(dir: &Path) -> Option<PathBuf> {
    dir.to_str().and_then(|text| text.strip_prefix(SCHEME)).map(PathBuf::from)
}

/// What to use as the directory, and the name there: a name may begin with a broker's address, as in `unix:/run/sock#plate`.
pub(crate) fn addressed<'a>(dir: &Path, name: &'a str) -> (PathBuf, &'a str) {
    match name.split_once('#') {
        Some((address, name)) if address.starts_with(SCHEME) => (address.into(), name),
        _ => (dir.into(), name),
    }
}

/// Whether a name, looked for in what `dir` names, is that of something which a broker hands out, rather than in a directory.
pub fn is_handed_out(dir: &Path, name: &str) -> bool {
    socket_in(&addressed(dir, name).0).is_some()
}

/// A broker, by its address. Nothing is open.
#[derive(Debug, Clone)]
pub(crate) struct Broker {
    socket: PathBuf,
    /// As it was named, for messages.
    path: PathBuf,
    guard: Guard,
}

/// An open file that came from a broker.
#[derive(Debug)]
enum Handed {
    Plain(File),
    /// One that carries locks, which no forked child is to keep.
    Unforked(Unforked),
}

impl Handed {
    fn file(&self) -> Option<&File> {
        match self {
            Handed::Plain(file) => Some(file),
            Handed::Unforked(file) => file.get(),
        }
    }
}

impl Broker {
    /// The one that is named in the place of a directory; `None` if that is a directory's path.
    pub(crate) fn named(dir: &Path, guard: Guard) -> Option<Broker> {
        Some(Broker { socket: socket_in(dir)?, path: dir.into(), guard })
    }

    /// The agent that shows an enclave's leases to another one.
    pub(crate) fn agent(socket: &Path, guard: Guard) -> Broker {
        Broker { socket: socket.into(), path: socket.into(), guard }
    }

    /// Has it show another enclave that a slot is held, which this process has locked; `false` if that is not the enclave any more.
    /// An agent that has just begun has yet to be seen over there, which is waited for.
    pub(crate) fn show(&self, identity: u64, region: u32, slot: usize) -> Result<bool> {
        let deadline = Instant::now() + UNSEEN;
        loop {
            match self.ask(&Question::Show { identity, region, slot: slot as u32 })?.0 {
                Answer::Shown => return Ok(true),
                Answer::Gone => return Ok(false),
                Answer::Unseen if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
                Answer::Unseen => {
                    return Err(self.fail("is not seen by the other enclave: is an agent running there?"));
                }
                other => return Err(self.unexpected(&other)),
            }
        }
    }

    fn fail(&self, why: impl Into<String>) -> Error {
        Error::Broker { socket: self.socket.clone(), why: why.into() }
    }

    fn system(&self, failure: Failure) -> Error {
        match (failure.call, failure.errno()) {
            ("connect", libc::ENOENT | libc::ECONNREFUSED | libc::ENOTDIR) => {
                Error::NoBroker { socket: self.socket.clone() }
            }
            ("connect", libc::EACCES | libc::EPERM) => Error::Denied { path: self.socket.clone() },
            ("connect", libc::ETIMEDOUT) => self.silent(),
            // It was ended before it answered.
            ("recvmsg" | "sendmsg", libc::ECONNRESET | libc::EPIPE) => Error::NoBroker { socket: self.socket.clone() },
            _ => Error::system(&self.socket, failure),
        }
    }

    fn silent(&self) -> Error {
        self.fail(format!("does not answer within {} s: is it stopped?", PATIENCE.as_secs()))
    }

    /// Asks, and waits for the answer and the files that come with it.
    fn ask(&self, question: &Question) -> Result<(Answer, Vec<(String, Handed)>)> {
        self.ask_until(question, Instant::now() + PATIENCE)
    }

    fn ask_until(&self, question: &Question, deadline: Instant) -> Result<(Answer, Vec<(String, Handed)>)> {
        let socket = local::connect(&self.socket, deadline).map_err(|failure| self.system(failure))?;
        let peer = local::peer(&socket).map_err(|failure| self.system(failure))?;
        let trusted = self.guard.check_listener(peer.user, peer.group);
        trusted.map_err(|distrust| Error::refused(&self.socket, Refused::Distrust(distrust)))?;
        // A broker that refuses somebody says so, and may have ended the connection by now.
        let sent = local::send(&socket, &question.encode(), &[]);
        let mut bytes = vec![0; ANSWER_BYTES_MAX];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.silent());
            }
            let waited = local::wait_any(&[socket.as_fd()], Some(left));
            if !waited.map_err(|failure| self.system(failure))?[0] {
                continue;
            }
            // A child that is forked here would have the files with locks for as long as it lives. What is not wanted is closed
            // behind it, as a close may wait, and a fork would wait for it.
            let (came, unwanted) = undivided(|| match local::receive(&socket, &mut bytes) {
                Ok(Some(mut message)) => {
                    let came = self.understand(&mut message, &bytes);
                    (Some(came), message.files)
                }
                Ok(None) => (None, Vec::new()),
                Err(failure) => (Some(Err(self.system(failure))), Vec::new()),
            });
            drop(unwanted);
            if let Some(came) = came {
                return came.map_err(|error| match (error, sent) {
                    (Error::NoBroker { .. }, Err(failure)) => self.system(failure),
                    (error, _) => error,
                });
            }
        }
    }

    /// What a message says, and the files that are wanted, which are taken out of it.
    fn understand(&self, message: &mut Message, bytes: &[u8]) -> Result<(Answer, Vec<(String, Handed)>)> {
        let (bytes, files) = (&bytes[..message.bytes], &mut message.files);
        if message.is_cut {
            return Err(
                self.fail(format!("is no broker of regions: its answer has more than {ANSWER_BYTES_MAX} bytes"))
            );
        }
        if message.lacks_files {
            let source = std::io::Error::from_raw_os_error(libc::EMFILE);
            return Err(self.system(Failure { call: "recvmsg", detail: "files of a region".into(), source }));
        }
        if bytes.is_empty() {
            return Err(Error::NoBroker { socket: self.socket.clone() });
        }
        let answer =
            Answer::decode(bytes).map_err(|garbled| self.fail(format!("is no broker of regions: {garbled}")))?;
        let names: &[String] = match &answer {
            Answer::Region { files } | Answer::Arena { files, .. } | Answer::More { files } => files,
            Answer::Refused { why } => return Err(self.fail(format!("refuses: {why}"))),
            _ => &[],
        };
        if names.len() != files.len() {
            return Err(self.fail(format!("hands out {} files and names {}", files.len(), names.len())));
        }
        let mut handed = Vec::new();
        for (name, file) in names.iter().zip(std::mem::take(files)) {
            // A lease is closed where nothing forks, so that only a file may be one.
            let is_lease = arena::is_lease_file(name);
            let is_file = !is_lease || About::of(&file).is_ok_and(|about| about.form == Form::File);
            if !is_for_observers(name) || !is_file {
                files.push(file);
                continue;
            }
            let file = match is_lease {
                true => Handed::Unforked(Unforked::open(|| Ok::<_, Error>(file))?),
                false => Handed::Plain(file),
            };
            handed.push((name.clone(), file));
        }
        Ok((answer, handed))
    }

    /// The region of a name, or the arena in which it lies, and what of the name leads there; `None` if there is none.
    pub(crate) fn open(&self, name: &str) -> Result<Option<(HandedOut, Option<String>)>> {
        let (answer, files) = self.ask(&Question::Open { name: name.into() })?;
        match answer {
            Answer::Region { .. } => Ok(Some((HandedOut::new(self, name, head::FILE, files)?, None))),
            Answer::Arena { leads, .. } if leads.is_empty() || name.starts_with(&format!("{leads}/")) => {
                Ok(Some((HandedOut::new(self, &leads, arena::FILE, files)?, Some(leads))))
            }
            Answer::Missing => Ok(None),
            other => Err(self.unexpected(&other)),
        }
    }

    fn unexpected(&self, answer: &Answer) -> Error {
        self.fail(format!("answers what was not asked: {answer:?}"))
    }

    /// The ranks of a group that have a region.
    pub(crate) fn ranks(&self, name: &str) -> Result<Vec<u32>> {
        let (mut all, mut after, end) = (Vec::new(), None, Instant::now() + LIST_PATIENCE);
        loop {
            let question = Question::Ranks { name: name.into(), after };
            match self.ask_until(&question, end.min(Instant::now() + PATIENCE))?.0 {
                Answer::Ranks { ranges, next } => {
                    if ranges.first().zip(after).is_some_and(|((first, _), after)| *first <= after) {
                        return Err(self.fail("tells ranks that do not ascend"));
                    }
                    let is_rank = |(_, last): &(u32, u32)| *last < head::RANKS_MAX;
                    let are_ranks = ranges.iter().all(is_rank);
                    all.extend(ranges.into_iter().take_while(is_rank).flat_map(|(first, last)| first..=last));
                    match next {
                        // One that does not go on would go on for ever, and nothing comes behind the last rank.
                        Some(next) if are_ranks && all.last() == Some(&next) && Some(next) > after => {
                            after = Some(next)
                        }
                        _ => return Ok(all),
                    }
                }
                Answer::Missing => return Ok(all),
                other => return Err(self.unexpected(&other)),
            }
        }
    }

    /// The names of all regions and arenas.
    pub(crate) fn names(&self) -> Result<(Vec<String>, Vec<String>)> {
        let (mut all_regions, mut all_arenas, mut after) = (Vec::new(), Vec::new(), String::new());
        let end = Instant::now() + LIST_PATIENCE;
        loop {
            let question = Question::Names { after: after.clone() };
            match self.ask_until(&question, end.min(Instant::now() + PATIENCE))?.0 {
                Answer::Names { regions, arenas, next } => {
                    for names in [&regions, &arenas] {
                        self.check_names(&after, names)?;
                    }
                    all_regions.extend(regions);
                    all_arenas.extend(arenas);
                    if all_regions.len() + all_arenas.len() > NAMES_MAX {
                        return Err(self.fail(format!("tells more than {NAMES_MAX} names")));
                    }
                    match next {
                        // One that does not go on would go on for ever.
                        Some(next) if next > after => after = next,
                        _ => return Ok((all_regions, all_arenas)),
                    }
                }
                Answer::Missing => return Ok((all_regions, all_arenas)),
                other => return Err(self.unexpected(&other)),
            }
        }
    }

    /// Refuses names that are none, or not in their order behind the one that was asked on from.
    fn check_names(&self, after: &str, names: &[String]) -> Result<()> {
        let mut before = after;
        for name in names {
            if *name.as_str() <= *before || names::region_dir(Path::new(""), name).is_err() {
                return Err(self.fail(format!("tells names that do not ascend, or are none: {name:?}")));
            }
            before = name;
        }
        Ok(())
    }
}

/// The files of a region or arena, as a broker hands them out.
#[derive(Debug)]
pub(crate) struct HandedOut {
    broker: Broker,
    /// By which name the broker knows it.
    name: String,
    /// For messages.
    path: PathBuf,
    identity: Identity,
    /// Files that came and were not asked for yet.
    ready: Mutex<BTreeMap<String, Handed>>,
    /// Whether the broker said that the name is not this one's any more.
    is_gone: AtomicBool,
}

impl HandedOut {
    fn new(broker: &Broker, name: &str, first: &str, files: Vec<(String, Handed)>) -> Result<HandedOut> {
        let path = if name.is_empty() { broker.path.clone() } else { broker.path.join(name) };
        let ready: BTreeMap<String, Handed> = files.into_iter().collect();
        let file = ready.get(first).and_then(Handed::file);
        let file = file.ok_or_else(|| broker.fail(format!("hands out '{name}' without its file '{first}'")))?;
        let about = About::of(file).map_err(|error| Error::io("fstat", &path, error))?;
        let (identity, is_gone) = (about.identity, AtomicBool::new(false));
        Ok(HandedOut { broker: broker.clone(), name: name.into(), path, identity, ready: Mutex::new(ready), is_gone })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn ready(&self) -> MutexGuard<'_, BTreeMap<String, Handed>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for further files of this very region.
    fn more(&self, files: &[&str]) -> Result<Vec<(String, Handed)>> {
        if self.is_gone.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let files = files.iter().map(|file| file.to_string()).collect();
        let question = Question::More { name: self.name.clone(), identity: self.identity, files };
        let (answer, files) = self.broker.ask(&question)?;
        match answer {
            Answer::More { .. } => Ok(files),
            Answer::Gone | Answer::Missing => {
                self.is_gone.store(true, Ordering::Relaxed);
                Ok(Vec::new())
            }
            other => Err(self.broker.unexpected(&other)),
        }
    }

    fn take(&self, name: &str) -> Result<Handed, Unopened> {
        let ready = self.ready().remove(name);
        let found = match ready {
            // What was opened before a fork is the parent's.
            Some(handed) if handed.file().is_some() => Some(handed),
            _ => self.more(&[name])?.into_iter().find_map(|(came, handed)| (came == name).then_some(handed)),
        };
        found.ok_or(Unopened::Missing)
    }

    fn check(&self, name: &str, file: &File) -> Result<About, Unopened> {
        let path = self.path.join(name);
        let about = About::of(file).map_err(|error| Error::io("fstat", &path, error))?;
        let checked = self.broker.guard.check(&about, Form::File);
        checked.map_err(|distrust| Error::refused(&path, Refused::Distrust(distrust)))?;
        Ok(about)
    }

    /// A file that carries no locks.
    pub(crate) fn file(&self, name: &str) -> Result<(File, About), Unopened> {
        match self.take(name)? {
            Handed::Plain(file) => {
                let about = self.check(name, &file)?;
                Ok((file, about))
            }
            Handed::Unforked(_) => Err(Unopened::Missing),
        }
    }

    /// A file that carries locks, by an opening of its own.
    pub(crate) fn locks(&self, name: &str) -> Result<Unforked, Unopened> {
        match self.take(name)? {
            Handed::Unforked(file) => {
                file.get().map_or(Err(Unopened::Missing), |open| self.check(name, open))?;
                Ok(file)
            }
            Handed::Plain(_) => Err(Unopened::Missing),
        }
    }

    /// Whether this is what was opened, and the broker has not said otherwise since.
    pub(crate) fn is(&self, identity: Identity) -> bool {
        self.identity == identity && !self.is_gone.load(Ordering::Relaxed)
    }

    /// Whether the name is still this one's. A broker that does not answer has not said otherwise.
    pub(crate) fn is_current(&self) -> bool {
        self.more(&[]).is_err() || !self.is_gone.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_begin_with_an_address() {
        let dir = Path::new("/dev/shm/x");
        assert_eq!(addressed(dir, "plate"), (dir.into(), "plate"));
        assert_eq!(addressed(dir, "unix:/run/a b/sock#pool/u"), ("unix:/run/a b/sock".into(), "pool/u"));
        assert_eq!(addressed(dir, "a#b"), (dir.into(), "a#b"));
        assert_eq!(socket_in(Path::new("unix:/run/s")), Some("/run/s".into()));
        assert_eq!(socket_in(Path::new("/unix:/run/s")), None);
    }
}
