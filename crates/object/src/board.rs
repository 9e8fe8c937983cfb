//! The board of an object: who attached which fragment, from which version on, until when.
//!
//! It is a file of this machine that grows, entry by entry, under a lock. A header says how much of it counts, so that
//! what somebody wrote who died before he was done is written over by the next. Who only reads needs no lock.
//!
//! | bytes | |
//! |---|---|
//! | 0 to 7 | `STLBOARD` |
//! | 8 to 15 | 2, the number of this format |
//! | 16 to 23 | the id of the object, so that a board of a former one of the name is told from this one's |
//! | 24 to 31 | how many bytes of the file count, the header among them |
//! | 32 to 39 | the number of the next fragment |
//! | 40 to 63 | zeros |
//! | 64 on | entries, each a line of JSON |
//!
//! Numbers have 8 bytes, the lowest first. A board that consists mostly of entries that no longer matter is written anew
//! and put in its place; whoever read the old one sees that the file is another, and begins at its first entry.

mod header;

use crate::directory::{Directory, file_of};
use crate::error::{Error, Result};
use crate::names::Names;
use header::{BYTES_MAX, COUNTS_AT, HEADER_BYTES, Header};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stillframe_kernel::folder::Access;
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::{Failure, points, space};

/// Read at once with the header: all of most boards.
const FIRST_BYTES: usize = 4096;

/// A board that is longer is written anew when at most half of its entries matter.
const COMPACT_BYTES: u64 = 1 << 16;

/// How often a board is read before it counts as damaged.
const ATTEMPTS: usize = 4;

/// How long somebody may have a board's lock before who waits for it is told.
const LOCKED_MAX: Duration = Duration::from_secs(10);

/// A fragment to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// Its number, which no other fragment of the object has or had; its region is `objects/NAME/NUMBER`.
    pub number: u32,
    /// The process.
    pub process: u32,
    /// Its rank in a parallel program, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The first version that it writes.
    pub from: u64,
    /// Its layout.
    pub text: String,
    /// Numbers of the names that the text leaves open.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bindings: BTreeMap<String, i64>,
    /// How many writers the program said there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writers: Option<u32>,
    /// Where it runs, if that is another node: then this node's runtime tells of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
    /// Fragments whose writers are gone and whose places it takes, as long as it is not refused: of nodes together their homes say
    /// whether it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes: Vec<u32>,
}

/// Where a fragment of another node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// The node, from 1 on.
    pub node: u32,
    /// The node's name, for people.
    pub host: String,
    /// The fragment's number there.
    pub number: u32,
}

/// One line of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// A fragment was attached.
    Attach(Attached),
    /// A fragment writes nothing from a version on. Of several the smallest counts.
    Leave {
        /// Which.
        number: u32,
        /// The version.
        from: u64,
    },
    /// A fragment is as if it had never been: no version of it is left.
    Forget {
        /// Which.
        number: u32,
    },
    /// A fragment of another node publishes no more: its process died, or its node was lost.
    Die {
        /// Which.
        number: u32,
    },
    /// A fragment of this node counts on all nodes, as this node's runtime tells.
    Accept {
        /// Which.
        number: u32,
    },
    /// A fragment of this node counts on no node: others, of other nodes, stand against it.
    Refuse {
        /// Which.
        number: u32,
        /// Why.
        why: String,
    },
    /// A fragment of another node of which the home says nothing just now writes nothing from a version on, until it does: what is complete
    /// with it stays.
    Keep {
        /// Which.
        number: u32,
        /// The version; none: the home speaks of it again.
        from: Option<u64>,
    },
    /// From here on a version is complete only where the object's home says so, for programs of other nodes may write it, too.
    Follow {
        /// The newest version that was complete before.
        complete: u64,
    },
}

impl Entry {
    /// The fragment that it is about.
    fn number(&self) -> Option<u32> {
        match self {
            Entry::Attach(attached) => Some(attached.number),
            Entry::Follow { .. } => None,
            Entry::Leave { number, .. }
            | Entry::Forget { number }
            | Entry::Die { number }
            | Entry::Accept { number }
            | Entry::Refuse { number, .. }
            | Entry::Keep { number, .. } => Some(*number),
        }
    }
}

/// How far somebody has read a board.
#[derive(Debug, Clone, Default)]
pub(crate) struct Position {
    identity: Option<(u64, u64)>,
    bytes: u64,
}

/// What was read of a board.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Whether what was read before does not count any more.
    pub(crate) is_anew: bool,
    pub(crate) entries: Vec<Entry>,
}

/// The board of one object.
#[derive(Debug, Clone)]
pub(crate) struct Board {
    directory: Directory,
    names: Arc<dyn Names>,
    name: String,
    file: String,
    id: NonZeroU64,
}

impl Board {
    pub(crate) fn new(directory: &Directory, names: &Arc<dyn Names>, name: &str, id: NonZeroU64) -> Board {
        Board { directory: directory.clone(), names: names.clone(), name: name.into(), file: file_of(name), id }
    }

    /// Who keeps the names of objects.
    pub(crate) fn names(&self) -> &Arc<dyn Names> {
        &self.names
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.boards.path.join(&self.file)
    }

    fn corrupt(&self, offset: u64, why: impl Into<String>) -> Error {
        Error::Corrupt { path: self.path(), offset, why: why.into() }
    }

    /// What was added behind a position, which is moved there, and whether nobody was changing the board just before that was read. A
    /// board that is not there yet is empty.
    pub(crate) fn read(&self, position: &mut Position) -> Result<(News, bool)> {
        for _ in 0..ATTEMPTS {
            let mut next = position.clone();
            match self.try_read(&mut next) {
                // Somebody may be writing the header just now, which is not read in one piece.
                Err(Error::Corrupt { .. }) => std::thread::sleep(Duration::from_micros(200)),
                Err(error) => return Err(error),
                Ok(news) => {
                    *position = next;
                    return Ok(news);
                }
            }
        }
        self.try_read(position)
    }

    fn failed(&self, failure: Failure) -> Error {
        Error::system(self.path(), failure)
    }

    fn try_read(&self, position: &mut Position) -> Result<(News, bool)> {
        let boards = &self.directory.boards;
        let Some((file, about)) = boards.open(&self.file, Access::Read)? else {
            return Ok((self.anew(position, None), true));
        };
        // One that is not the board any more says nothing of who changes the one in its place.
        let is_locked = lock::is_held(&file, Kind::Read, 0, 1).map_err(|failure| self.failed(failure))?;
        let is_settled = !is_locked && boards.identity(&self.file) == Some(about.identity);
        self.read_from(&file, about.identity, position).map(|(news, _)| (news, is_settled))
    }

    fn anew(&self, position: &mut Position, identity: Option<(u64, u64)>) -> News {
        let had = position.identity.is_some() && position.bytes > 0;
        *position = Position { identity, bytes: HEADER_BYTES as u64 };
        News { is_anew: had, entries: Vec::new() }
    }

    fn read_from(&self, file: &File, identity: (u64, u64), position: &mut Position) -> Result<(News, Option<Header>)> {
        let failed = |error| Error::io("read", self.path(), error);
        let mut bytes = vec![0; FIRST_BYTES];
        let got = space::read_begin(file, &mut bytes).map_err(failed)?;
        bytes.truncate(got);
        let mut news = match position.identity == Some(identity) {
            true => News::default(),
            false => self.anew(position, Some(identity)),
        };
        // One that is being made counts as empty.
        if bytes.len() < HEADER_BYTES || bytes[..8] == [0; 8] {
            return Ok((news, None));
        }
        let header = Header::decode(&bytes).map_err(|why| self.corrupt(0, why))?;
        if header.id != self.id.get() {
            return Ok((self.anew(position, Some(identity)), Some(header)));
        }
        if header.counts < position.bytes {
            return Err(self.corrupt(COUNTS_AT as u64, format!("{} bytes count, and there were more", header.counts)));
        }
        let at = position.bytes;
        let lines = if header.counts <= bytes.len() as u64 {
            bytes[at as usize..header.counts as usize].to_vec()
        } else {
            // A header that lies makes nobody take memory.
            let there = file.metadata().map_err(failed)?.len();
            if there < header.counts {
                return Err(self.corrupt(there, format!("it ends here, and {} bytes count", header.counts)));
            }
            let mut lines = Vec::new();
            let wanted = (header.counts - at) as usize;
            lines.try_reserve_exact(wanted).map_err(|_| self.failed(Failure::no_memory(wanted)))?;
            lines.resize(wanted, 0);
            file.read_exact_at(&mut lines, at).map_err(failed)?;
            lines
        };
        let mut offset = at;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let entry = serde_json::from_slice(line);
            news.entries.push(entry.map_err(|error| self.corrupt(offset, format!("no entry of a board: {error}")))?);
            offset += line.len() as u64;
        }
        position.bytes = header.counts;
        Ok((news, Some(header)))
    }

    /// Makes the board if need be, and keeps others from it, at most for a few milliseconds.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody has had it for long; [`Error::Removed`] if the name is not this object's any more.
    pub(crate) fn lock(&self) -> Result<LockedBoard<'_>> {
        self.lock_within(LOCKED_MAX)
    }

    /// As [`lock`](Board::lock), and waits at most so long for who has it.
    pub(crate) fn lock_within(&self, limit: Duration) -> Result<LockedBoard<'_>> {
        let begin = Instant::now();
        let mut pause = Duration::from_micros(20);
        loop {
            if let Some(locked) = self.try_lock()? {
                return Ok(locked);
            }
            if begin.elapsed() > limit {
                return Err(Error::Locked { path: self.path(), waited: limit });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }

    /// As [`lock`](Board::lock), unless somebody else has it.
    pub(crate) fn try_lock(&self) -> Result<Option<LockedBoard<'_>>> {
        let boards = &self.directory.boards;
        loop {
            let opened = boards.open(&self.file, Access::CreateExact(0))?;
            let (file, about) = opened.ok_or_else(|| Error::io("open", self.path(), ErrorKind::NotFound.into()))?;
            if !lock::try_lock(&file, Kind::Write, 0, 1).map_err(|failure| self.failed(failure))? {
                return Ok(None);
            }
            // Whoever had it may have put another file in its place.
            if boards.identity(&self.file) == Some(about.identity) {
                boards.permit(&file, &about).map_err(|error| Error::io("chmod", self.path(), error))?;
                return self.begin(file, about.identity).map(Some);
            }
        }
    }

    fn begin(&self, file: File, identity: (u64, u64)) -> Result<LockedBoard<'_>> {
        let mut position = Position::default();
        let (news, header) = self.read_from(&file, identity, &mut position)?;
        let entries = news.entries;
        let mut locked = LockedBoard { board: self, file, identity, counts: 0, next: 0, has_former: false, entries };
        match header {
            Some(header) if header.id == self.id.get() => (locked.counts, locked.next) = (header.counts, header.next),
            // One of a former object of the name, or one that nobody finished.
            former => {
                if let Err(error) = self.check_named() {
                    if former.is_none() {
                        // It was made just now, for nobody. Who waits for its lock sees that it is gone.
                        let _ = self.remove();
                    }
                    return Err(error);
                }
                locked.has_former = former.is_some_and(|former| former.next > 0);
                let failed = |error| Error::io("write", self.path(), error);
                locked.counts = HEADER_BYTES as u64;
                let header = Header { id: self.id.get(), counts: locked.counts, next: 0 };
                locked.file.set_len(0).map_err(failed)?;
                locked.file.write_all_at(&header.encode(), 0).map_err(failed)?;
            }
        }
        Ok(locked)
    }

    /// Whether the name is still this object's. It stays so while the board is locked, for who removes an object has the lock.
    pub(crate) fn check_named(&self) -> Result<()> {
        match self.names.get(&self.name)? {
            Some(description) if description.id == self.id => Ok(()),
            _ => Err(Error::Removed { name: self.name.clone() }),
        }
    }

    /// Takes the board away.
    pub(crate) fn remove(&self) -> Result<()> {
        Board::remove_file(&self.directory, &self.name)
    }

    /// Takes away the board of the object that has a name, whatever it says.
    pub(crate) fn remove_file(directory: &Directory, name: &str) -> Result<()> {
        let file = file_of(name);
        match directory.boards.folder().remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io("unlink", directory.boards.path.join(file), error))
            }
            _ => Ok(()),
        }
    }
}

/// A board that nobody else changes until this is dropped.
#[derive(Debug)]
pub(crate) struct LockedBoard<'a> {
    board: &'a Board,
    file: File,
    identity: (u64, u64),
    counts: u64,
    next: u64,
    /// Whether a former object of the name, whose remover died, may have left fragments.
    pub(crate) has_former: bool,
    /// All that it says.
    pub(crate) entries: Vec<Entry>,
}

impl LockedBoard<'_> {
    /// A number for a fragment, which is taken by adding its entry.
    pub(crate) fn next_number(&self) -> Result<u32> {
        let next = u32::try_from(self.next).ok().filter(|next| *next < crate::shared::COMPLETE);
        next.ok_or_else(|| self.board.corrupt(32, "all numbers of fragments are used up"))
    }

    /// Adds an entry; whoever reads the board from now on finds it.
    pub(crate) fn add(&mut self, entry: Entry) -> Result<()> {
        self.add_all(vec![entry])
    }

    /// Adds entries that belong together: whoever reads the board finds all of them or none, also where there is no room for all, or this
    /// process dies meanwhile.
    pub(crate) fn add_all(&mut self, entries: Vec<Entry>) -> Result<()> {
        let failed = |error| Error::io("write", self.board.path(), error);
        let mut lines = Vec::new();
        for entry in &entries {
            lines.extend(self.line(entry)?);
        }
        let counts = self.counts + lines.len() as u64;
        if counts > BYTES_MAX {
            return Err(self.board.corrupt(self.counts, format!("it would have more than {BYTES_MAX} bytes")));
        }
        self.file.write_all_at(&lines, self.counts).map_err(|error| failed(error).needing(lines.len()))?;
        points::hit("board.written");
        let attached = entries.iter().filter(|entry| matches!(entry, Entry::Attach(_))).filter_map(Entry::number);
        let next = attached.map(|number| u64::from(number) + 1).fold(self.next, u64::max);
        let header = Header { id: self.board.id.get(), counts, next };
        // Numbers that belong together go in one call: the kernel writes a page of a file at a time.
        self.file.write_all_at(&header.encode()[COUNTS_AT..COUNTS_AT + 16], COUNTS_AT as u64).map_err(failed)?;
        (self.counts, self.next) = (counts, next);
        self.entries.extend(entries);
        Ok(())
    }

    fn line(&self, entry: &Entry) -> Result<Vec<u8>> {
        let line = serde_json::to_vec(entry);
        let mut line = line.map_err(|error| self.board.corrupt(self.counts, error.to_string()))?;
        line.push(b'\n');
        Ok(line)
    }

    /// Writes the board anew without what does not matter any more, if that is most of it.
    pub(crate) fn compact(&mut self) -> Result<()> {
        let forgets = self.entries.iter().filter(|entry| matches!(entry, Entry::Forget { .. }));
        let forgotten: BTreeSet<u32> = forgets.filter_map(Entry::number).collect();
        let is_kept = |entry: &&Entry| entry.number().is_none_or(|number| !forgotten.contains(&number));
        let kept: Vec<Entry> = self.entries.iter().filter(is_kept).cloned().collect();
        if self.counts < COMPACT_BYTES || 2 * kept.len() > self.entries.len() {
            return Ok(());
        }
        let failed = |error| Error::io("write", self.board.path(), error);
        let mut bytes = vec![0; HEADER_BYTES];
        for entry in &kept {
            bytes.extend(self.line(entry)?);
        }
        let header = Header { id: self.board.id.get(), counts: bytes.len() as u64, next: self.next };
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        let boards = &self.board.directory.boards;
        // Under the lock of the board nobody else makes this file.
        let aside = format!(".new.{}", self.board.file);
        let _ = boards.folder().remove_file(&aside);
        let opened = boards.open(&aside, Access::New(0))?;
        let (file, about) = opened.ok_or_else(|| Error::io("open", self.board.path(), ErrorKind::NotFound.into()))?;
        boards
            .permit(&file, &about)
            .and_then(|()| file.write_all_at(&bytes, 0))
            .map_err(|error| failed(error).needing(bytes.len()))?;
        // Nobody has the new file's lock before this lets go of both.
        let (file, about) = boards.open(&aside, Access::Write)?.ok_or_else(|| failed(ErrorKind::NotFound.into()))?;
        lock::try_lock(&file, Kind::Write, 0, 1).map_err(|failure| self.board.failed(failure))?;
        boards.folder().rename(&aside, boards.folder(), &self.board.file).map_err(failed)?;
        (self.file, self.identity, self.counts, self.entries) = (file, about.identity, header.counts, kept);
        Ok(())
    }

    /// The position behind all that it says.
    pub(crate) fn position(&self) -> Position {
        Position { identity: Some(self.identity), bytes: self.counts }
    }
}
