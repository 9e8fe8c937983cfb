//! The board of an object: who attached which fragment, from which version on, until when.
//!
//! It is a file of this machine that grows, entry by entry, under a lock. A header says how much of it counts, so that
//! what somebody wrote who died before he was done is written over by the next. Who only reads needs no lock.
//!
//! | bytes | |
//! |---|---|
//! | 0 to 7 | `STLBOARD` |
//! | 8 to 15 | 4, the number of this format |
//! | 16 to 23 | the id of the object, so that a board of a former one of the name is told from this one's |
//! | 24 to 31 | how many bytes of the file count, the header among them |
//! | 32 to 39 | the number of the next fragment |
//! | 40 to 47 | the newest version that counts as complete while byte 1 of the file is locked: a claim; 2^64 - 1 if there is none |
//! | 48 to 55 | a random number, of this file alone |
//! | 56 to 63 | what is at 40, with all bits turned: a claim that is read while it is written is none |
//! | 64 on | entries, each a line of JSON |
//!
//! Numbers have 8 bytes, the lowest first. A board that consists mostly of entries that no longer matter is written anew
//! and put in its place; whoever read the old one sees that the file is another, and begins at its first entry. The file system may give it
//! the number that the old one had: so each has a number of its own.
//!
//! Who is about to write that a writer who is gone has no part in newer versions, or that the home alone says which are complete, claims
//! first that no version is complete above the one that he found, and looks at the writers once more then. Whoever finds the board locked for
//! longer than he waits goes by that: what became complete before the claim shows at that look, and what comes after it may be somebody
//! else's. The claim is a lock, which ends with the entry, and with the process.
//!
//! The lock of a board is that of a file beside it, `.objects/locks/NAME`, which only those may open who may write: a program that may
//! only read could hold a lock for ever, and nobody could attach. Whoever has it locks bytes of the board too, by which those who may only
//! read see that it is being changed. A program that may only read can feign that for others who may only read: these wait some milliseconds
//! at each call, and go by what the board says. A claim it cannot feign, but for one of a process that was killed with it, until the board is
//! locked again: who lets go of a claim takes its version out of the header.

mod header;
mod locked;
#[cfg(test)]
mod tests;

use crate::directory::{Directory, file_of};
use crate::error::{Error, Result};
use crate::names::Names;
use crate::shared;
use header::{CLAIM_AT, COUNTS_AT, HEADER_BYTES, Header};
pub(crate) use locked::LockedBoard;
use locked::try_within;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stillframe::Trust;
use stillframe_kernel::folder::Access;
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::lock::{self, Evidence};
use stillframe_kernel::{Failure, space};

/// Read at once with the header: all of most boards.
const FIRST_BYTES: usize = 4096;

/// How often a board is read before it counts as damaged.
const ATTEMPTS: usize = 4;

/// How long somebody may have a board's lock before who waits for it is told.
pub(crate) const LOCKED_MAX: Duration = Duration::from_secs(10);

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
        /// The first number from which on one of these elements may count, where it came too late.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<u64>,
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

/// Which file it is: its device and number, and the random number in it.
type Identity = ((u64, u64), u64);

/// The byte that whoever changes the board has locked.
const LOCK_AT: u64 = 0;

/// The byte that is locked for as long as a claim holds.
const CLAIM_LOCK_AT: u64 = 1;

/// How far somebody has read a board.
#[derive(Debug, Clone, Default)]
pub(crate) struct Position {
    identity: Option<Identity>,
    bytes: u64,
}

/// Whether a board was being changed when it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stability {
    /// Nobody was changing it.
    Settled,
    /// Somebody was, or it is not known.
    #[default]
    Changing,
    /// Somebody seemed to be, which a process that may only read can feign, as this one may.
    Doubtful,
}

/// What was read of a board.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Whether what was read before does not count any more.
    pub(crate) is_anew: bool,
    pub(crate) entries: Vec<Entry>,
    pub(crate) stability: Stability,
    /// The newest version that counts as complete, by the claim of who was changing it just before.
    pub(crate) claimed: Option<u64>,
}

/// The board of one object.
#[derive(Debug, Clone)]
pub(crate) struct Board {
    directory: Directory,
    trust: Trust,
    names: Arc<dyn Names>,
    name: String,
    file: String,
    id: NonZeroU64,
}

impl Board {
    pub(crate) fn new(
        directory: &Directory,
        trust: Trust,
        names: &Arc<dyn Names>,
        name: &str,
        id: NonZeroU64,
    ) -> Board {
        let (directory, names, file) = (directory.clone(), names.clone(), file_of(name));
        Board { directory, trust, names, name: name.into(), file, id }
    }

    /// Who keeps the names of objects.
    pub(crate) fn names(&self) -> &Arc<dyn Names> {
        &self.names
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.boards.path.join(&self.file)
    }

    pub(crate) fn corrupt(&self, offset: u64, why: impl Into<String>) -> Error {
        Error::Corrupt { path: self.path(), offset, why: why.into() }
    }

    /// What was added behind a position, which is moved there. A board that is not there yet is empty.
    pub(crate) fn read(&self, position: &mut Position) -> Result<News> {
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

    fn try_read(&self, position: &mut Position) -> Result<News> {
        let boards = &self.directory.boards;
        let Some((file, about)) = boards.open(&self.file, Access::Read)? else {
            return Ok(News { stability: Stability::Settled, ..self.anew(position, None) });
        };
        let evidence = |at| lock::evidence(&file, at).map_err(|failure| self.failed(failure));
        let asked = match evidence(LOCK_AT)? {
            Evidence::None => Some(false),
            Evidence::Certain => Some(true),
            Evidence::Doubtful => self.directory.is_locked(&self.file)?,
        };
        let is_locked = asked.unwrap_or(true);
        // One that is not the board any more says nothing of who changes the one in its place.
        let is_there = || boards.identity(&self.file) == Some(about.identity);
        let stability = match asked {
            None => Stability::Doubtful,
            Some(false) if is_there() => Stability::Settled,
            Some(_) => Stability::Changing,
        };
        // Before the entries: a claim that has ended by now has them in its place.
        let is_claimed = is_locked && evidence(CLAIM_LOCK_AT)? != Evidence::None;
        let claimed = if is_claimed { self.read_claim(&file)? } else { None };
        let (news, header) = self.read_from(&file, about.identity, position)?;
        let claimed = claimed.filter(|_| header.is_some_and(|header| header.id == self.id.get()));
        Ok(News { stability, claimed, ..news })
    }

    fn read_claim(&self, file: &File) -> Result<Option<u64>> {
        let mut bytes = [0; HEADER_BYTES];
        let got = space::read_begin(file, &mut bytes).map_err(|error| Error::io("read", self.path(), error))?;
        if got < HEADER_BYTES {
            return Ok(None);
        }
        header::claim(&bytes).map_err(|why| self.corrupt(CLAIM_AT as u64, why))
    }

    fn anew(&self, position: &mut Position, identity: Option<Identity>) -> News {
        let had = position.identity.is_some() && position.bytes > 0;
        *position = Position { identity, bytes: HEADER_BYTES as u64 };
        News { is_anew: had, ..News::default() }
    }

    /// `file_identity` is the file's device and number.
    fn read_from(
        &self,
        file: &File,
        file_identity: (u64, u64),
        position: &mut Position,
    ) -> Result<(News, Option<Header>)> {
        let failed = |error| Error::io("read", self.path(), error);
        let mut bytes = vec![0; FIRST_BYTES];
        let got = space::read_begin(file, &mut bytes).map_err(failed)?;
        bytes.truncate(got);
        // One that is being made counts as empty.
        if bytes.len() < HEADER_BYTES || bytes[..8] == [0; 8] {
            return Ok((self.anew(position, None), None));
        }
        let header = Header::decode(&bytes).map_err(|why| self.corrupt(0, why))?;
        let identity = (file_identity, header.random);
        if header.id != self.id.get() {
            return Ok((self.anew(position, Some(identity)), Some(header)));
        }
        let mut news = match position.identity == Some(identity) {
            true => News::default(),
            false => self.anew(position, Some(identity)),
        };
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
        let locked = self.lock_within(LOCKED_MAX)?;
        // Whoever was removing the object may have died before the board went.
        self.check_named()?;
        Ok(locked)
    }

    /// As [`lock`](Board::lock), and waits at most so long for who has it. Also where the name is gone, and what is left of the object is to
    /// go: for who removes it, and for a runtime.
    pub(crate) fn lock_within(&self, limit: Duration) -> Result<LockedBoard<'_>> {
        try_within(limit, || self.path(), || self.try_lock())
    }

    /// As [`lock`](Board::lock), unless somebody else has it.
    pub(crate) fn try_lock(&self) -> Result<Option<LockedBoard<'_>>> {
        let Some(lock) = self.directory.lock(&self.file)? else { return Ok(None) };
        let boards = &self.directory.boards;
        // A child that is forked meanwhile has its locks for no longer than this process.
        let opened = boards.open_unforked(&self.file, Access::CreateExact(0))?;
        let (unforked, about) = opened.ok_or_else(|| Error::io("open", self.path(), ErrorKind::NotFound.into()))?;
        boards.permit(self.own(&unforked)?, &about).map_err(|error| Error::io("chmod", self.path(), error))?;
        self.begin(lock, unforked, about.identity)
    }

    /// Shows those who may only read that the board is being changed, or that there is a claim.
    fn show_lock(&self, file: &File, at: u64) -> Result<bool> {
        lock::show(file, at).map_err(|failure| self.failed(failure))
    }

    /// A file of the board's that this process has open, and not one that forked it.
    fn own<'a>(&self, file: &'a Unforked) -> Result<&'a File> {
        file.get().ok_or_else(|| Error::Forked { name: self.name.clone() })
    }

    fn begin(&self, lock: Unforked, unforked: Unforked, file_identity: (u64, u64)) -> Result<Option<LockedBoard<'_>>> {
        let mut position = Position::default();
        let file = self.own(&unforked)?;
        let (news, mut header) = self.read_from(file, file_identity, &mut position)?;
        if let Some(header) = header.as_mut().filter(|header| header.has_claim) {
            // Of who died with it: somebody may feign its lock.
            self.write_claim(file, header, None)?;
        }
        if !self.show_lock(file, LOCK_AT)? {
            return Ok(None);
        }
        match header {
            Some(header) if header.id == self.id.get() => {
                Ok(Some(LockedBoard::new(self, lock, unforked, file_identity, header, news.entries)))
            }
            // One of a former object of the name, or one that nobody finished.
            former => {
                if let Err(error) = self.check_named() {
                    if former.is_none() {
                        // It was made just now, for nobody. Who waits for its lock sees that it is gone.
                        let _ = self.remove();
                    }
                    return Err(error);
                }
                if former.is_some_and(|former| former.next > 0) {
                    // While the board tells of them, so that the next finds them where this process dies meanwhile. What cannot be removed
                    // is in nobody's way.
                    let _ = shared::remove_written(&self.directory.dir, self.trust, &self.name);
                }
                let failed = |error| Error::io("write", self.path(), error);
                let header = Header::new(self.id.get(), HEADER_BYTES as u64, 0);
                file.set_len(0).map_err(failed)?;
                file.write_all_at(&header.encode(), 0).map_err(failed)?;
                Ok(Some(LockedBoard::new(self, lock, unforked, file_identity, header, Vec::new())))
            }
        }
    }

    fn write_claim(&self, file: &File, header: &mut Header, claim: Option<u64>) -> Result<()> {
        let bytes = header.encode_claim(claim);
        file.write_all_at(&bytes, CLAIM_AT as u64).map_err(|error| Error::io("write", self.path(), error))?;
        header.has_claim = claim.is_some();
        Ok(())
    }

    /// Whether the name is still this object's. It stays so while the board is locked, for who removes an object has the lock.
    pub(crate) fn check_named(&self) -> Result<()> {
        match self.names.get(&self.name)? {
            Some(description) if description.id == self.id => Ok(()),
            _ => Err(Error::Removed { name: self.name.clone() }),
        }
    }

    /// Takes away the board, and then its lock, which the caller has.
    pub(crate) fn remove(&self) -> Result<()> {
        remove_files(&self.directory, &self.file)
    }

    /// Locks the board of the object that has a name, whatever it says, until what is returned is dropped.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody has had it for longer than `limit`.
    pub(crate) fn lock_any(directory: &Directory, name: &str, limit: Duration) -> Result<Unforked> {
        let file = file_of(name);
        try_within(limit, || directory.boards.path.join(&file), || directory.lock(&file))
    }

    /// Takes away the board of the object that has a name, whatever it says, and then its lock, which the caller has.
    pub(crate) fn remove_any(directory: &Directory, name: &str) -> Result<()> {
        remove_files(directory, &file_of(name))
    }
}

fn remove_files(directory: &Directory, file: &str) -> Result<()> {
    match directory.boards.folder().remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(Error::io("unlink", directory.boards.path.join(file), error));
        }
        _ => {}
    }
    directory.remove_lock(file).map_err(|error| Error::io("unlink", directory.lock_path(file), error))
}
