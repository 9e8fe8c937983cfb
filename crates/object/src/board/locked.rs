//! A board while this process alone changes it.

use super::header::{BYTES_MAX, COUNTS_AT, HEADER_BYTES, Header};
use super::{Board, CLAIM_LOCK_AT, Entry, LOCK_AT, Position};
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stillframe_kernel::folder::Access;
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::lock;
use stillframe_kernel::points;

/// A board that is longer is written anew when at most half of its entries matter.
const COMPACT_BYTES: u64 = 1 << 16;

/// Tries to lock a board until that succeeds, at most so long.
pub(super) fn try_within<T>(
    limit: Duration,
    path: impl Fn() -> PathBuf,
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let (begin, mut pause) = (Instant::now(), Duration::from_micros(20));
    loop {
        if let Some(locked) = attempt()? {
            return Ok(locked);
        }
        if begin.elapsed() > limit {
            return Err(Error::Locked { path: path(), waited: limit });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
}

/// A board that nobody else changes until this is dropped.
#[derive(Debug)]
pub(crate) struct LockedBoard<'a> {
    board: &'a Board,
    /// The board, whose locks end before that beside it.
    file: Unforked,
    _lock: Unforked,
    /// The board's device and number.
    file_identity: (u64, u64),
    /// What the header says.
    header: Header,
    /// All that it says.
    pub(crate) entries: Vec<Entry>,
}

impl<'a> LockedBoard<'a> {
    /// Of a file that this process has locked.
    pub(super) fn new(
        board: &'a Board,
        lock: Unforked,
        file: Unforked,
        file_identity: (u64, u64),
        header: Header,
        entries: Vec<Entry>,
    ) -> LockedBoard<'a> {
        LockedBoard { board, file, _lock: lock, file_identity, header, entries }
    }

    /// Says that nothing above a version is complete until there is an entry, or the board is let go of. What was complete above it before
    /// shows when the writers are looked at after this.
    pub(crate) fn claim(&mut self, version: u64) -> Result<()> {
        let file = self.board.own(&self.file)?;
        self.board.write_claim(file, &mut self.header, Some(version))?;
        match self.board.show_lock(file, CLAIM_LOCK_AT)? {
            true => Ok(()),
            false => Err(Error::Locked { path: self.board.path(), waited: Duration::ZERO }),
        }
    }

    /// Ends a claim, if there is one.
    fn end_claim(&mut self) {
        if !self.header.has_claim {
            return;
        }
        // In a forked child it is the parent's. Where the file cannot be written, the claim ends with the lock, and whoever locks the board
        // next takes it out.
        if let Some(file) = self.file.get() {
            let _ = lock::unlock(file, CLAIM_LOCK_AT, 1);
            let _ = self.board.write_claim(file, &mut self.header, None);
        }
    }

    /// A number for a fragment, which is taken by adding its entry.
    pub(crate) fn next_number(&self) -> Result<u32> {
        let next = u32::try_from(self.header.next).ok().filter(|next| *next < crate::shared::COMPLETE);
        next.ok_or_else(|| self.board.corrupt(32, "all numbers of fragments are used up"))
    }

    /// Gives no fragment a number below this one any more.
    pub(crate) fn skip_numbers(&mut self, below: u32) -> Result<()> {
        let header = Header { next: self.header.next.max(below.into()), ..self.header };
        let file = self.board.own(&self.file)?;
        let written = file.write_all_at(&header.encode()[COUNTS_AT..COUNTS_AT + 16], COUNTS_AT as u64);
        written.map_err(|error| Error::io("write", self.board.path(), error))?;
        self.header = header;
        Ok(())
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
        let counts = self.header.counts + lines.len() as u64;
        if counts > BYTES_MAX {
            return Err(self.board.corrupt(self.header.counts, format!("it would have more than {BYTES_MAX} bytes")));
        }
        let file = self.board.own(&self.file)?;
        file.write_all_at(&lines, self.header.counts).map_err(|error| failed(error).needing(lines.len()))?;
        points::hit("board.written");
        let attached = entries.iter().filter(|entry| matches!(entry, Entry::Attach(_))).filter_map(Entry::number);
        let next = attached.map(|number| u64::from(number) + 1).fold(self.header.next, u64::max);
        let header = Header { counts, next, ..self.header };
        // Numbers that belong together go in one call: the kernel writes a page of a file at a time.
        file.write_all_at(&header.encode()[COUNTS_AT..COUNTS_AT + 16], COUNTS_AT as u64).map_err(failed)?;
        self.header = header;
        self.entries.extend(entries);
        self.end_claim();
        Ok(())
    }

    fn line(&self, entry: &Entry) -> Result<Vec<u8>> {
        let line = serde_json::to_vec(entry);
        let mut line = line.map_err(|error| self.board.corrupt(self.header.counts, error.to_string()))?;
        line.push(b'\n');
        Ok(line)
    }

    /// Writes the board anew without what does not matter any more, if that is most of it.
    pub(crate) fn compact(&mut self) -> Result<()> {
        if self.header.counts < COMPACT_BYTES {
            return Ok(());
        }
        let forgets = self.entries.iter().filter(|entry| matches!(entry, Entry::Forget { .. }));
        let forgotten: BTreeSet<u32> = forgets.filter_map(Entry::number).collect();
        let is_kept = |entry: &&Entry| entry.number().is_none_or(|number| !forgotten.contains(&number));
        let kept: Vec<Entry> = self.entries.iter().filter(is_kept).cloned().collect();
        if 2 * kept.len() > self.entries.len() {
            return Ok(());
        }
        // Under the lock of the board nobody else makes this file.
        let aside = format!(".new.{}", self.board.file);
        let outcome = self.replace(kept, &aside);
        if outcome.is_err() {
            // Where there is no room it would take some.
            let _ = self.board.directory.boards.folder().remove_file(&aside);
        }
        outcome
    }

    /// Puts a file with these entries in the place of the board's, made aside under another name.
    fn replace(&mut self, kept: Vec<Entry>, aside: &str) -> Result<()> {
        let failed = |error| Error::io("write", self.board.path(), error);
        let mut bytes = vec![0; HEADER_BYTES];
        for entry in &kept {
            bytes.extend(self.line(entry)?);
        }
        let header = Header::new(self.board.id.get(), bytes.len() as u64, self.header.next);
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        let boards = &self.board.directory.boards;
        let _ = boards.folder().remove_file(aside);
        let opened = boards.open(aside, Access::New(0))?;
        let (file, about) = opened.ok_or_else(|| Error::io("open", self.board.path(), ErrorKind::NotFound.into()))?;
        boards
            .permit(&file, &about)
            .and_then(|()| file.write_all_at(&bytes, 0))
            .map_err(|error| failed(error).needing(bytes.len()))?;
        // Nobody has the new file's lock before this lets go of both.
        let opened = boards.open_unforked(aside, Access::Write)?;
        let (unforked, about) = opened.ok_or_else(|| failed(ErrorKind::NotFound.into()))?;
        let file = self.board.own(&unforked)?;
        self.board.show_lock(file, LOCK_AT)?;
        boards.folder().rename(aside, boards.folder(), &self.board.file).map_err(failed)?;
        (self.file, self.file_identity, self.header, self.entries) = (unforked, about.identity, header, kept);
        Ok(())
    }

    /// The position behind all that it says.
    pub(crate) fn position(&self) -> Position {
        Position { identity: Some((self.file_identity, self.header.random)), bytes: self.header.counts }
    }
}

impl Drop for LockedBoard<'_> {
    fn drop(&mut self) {
        self.end_claim();
    }
}
