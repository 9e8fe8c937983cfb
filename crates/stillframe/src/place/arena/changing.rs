//! Changing records: one process at a time.

use super::{Arena, Shared, exclusively};
use crate::error::{Error, Result};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stillframe_kernel::folder::{self, About};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::lock::{self, Kind};
use stillframe_segment::arena;

/// Longest time for which somebody else makes an arena, or makes or removes a record in it: that takes microseconds, or
/// milliseconds where the kernel has to find memory.
pub(super) const CHANGE_MAX: Duration = Duration::from_secs(10);

/// The right to change records, or to make the arena: one process has it at a time.
pub(super) struct Changing<'a> {
    file: &'a File,
}

impl<'a> Changing<'a> {
    /// Takes it, if nobody has it.
    fn try_begin(file: &'a File, path: &Path) -> Result<Option<Changing<'a>>> {
        let is_had = lock::try_lock(file, Kind::Write, arena::CREATE_AT, 1);
        Ok(is_had.map_err(|failure| Error::system(path, failure))?.then_some(Changing { file }))
    }

    /// Waits for it. `pid` is what is known of the process that has it.
    pub(super) fn begin(file: &'a File, name: &str, path: &Path, pid: impl Fn() -> u32) -> Result<Changing<'a>> {
        let begin = Instant::now();
        let mut attempts = 0;
        loop {
            if let Some(changing) = Changing::try_begin(file, path)? {
                return Ok(changing);
            }
            let waited = begin.elapsed();
            if waited >= CHANGE_MAX {
                return Err(Error::ArenaBusy { arena: name.into(), pid: pid(), waited });
            }
            attempts += 1;
            match attempts {
                ..32 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        // An unlock of one's own lock cannot fail in a way that could be mended.
        let _ = lock::unlock(self.file, arena::CREATE_AT, 1);
    }
}

impl Shared {
    /// Does something that nobody else does at the same time, once what another process left half done is mended.
    pub(super) fn change<T>(&self, work: impl FnOnce(&mut super::Changes) -> Result<T>) -> Result<T> {
        let producers = self.producers()?;
        // Threads share the opening, and with it the lock.
        exclusively(&self.changes, |changes| {
            let pid = self.map.word32(arena::CREATOR_PID_AT);
            let changing = Changing::begin(producers, &self.name, &self.path, || pid.load(Ordering::Relaxed))?;
            self.change_now(&changing, changes, work)
        })
    }

    /// As [`change`](Shared::change), unless another process is doing something of the kind.
    pub(super) fn try_change<T>(&self, work: impl FnOnce(&mut super::Changes) -> Result<T>) -> Result<Option<T>> {
        let producers = self.producers()?;
        exclusively(&self.changes, |changes| match Changing::try_begin(producers, &self.path)? {
            Some(changing) => self.change_now(&changing, changes, work).map(Some),
            None => Ok(None),
        })
    }

    fn change_now<T>(
        &self,
        _changing: &Changing,
        changes: &mut super::Changes,
        work: impl FnOnce(&mut super::Changes) -> Result<T>,
    ) -> Result<T> {
        self.check_there()?;
        self.map.word32(arena::CREATOR_PID_AT).store(std::process::id(), Ordering::Relaxed);
        self.mend()?;
        work(changes)
    }

    /// An error if the arena was removed: nobody would find what is made or published there.
    pub(super) fn check_there(&self) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        match About::of(&self.file).is_ok_and(|about| about.links == 0) {
            true => Err(Error::NoArena { arena: self.name.clone(), dir: files.path().into(), half_made: false }),
            false => Ok(()),
        }
    }
}

impl Arena {
    /// Waits for the right to begin as a rank, which one of them has at a time until what is returned goes; `None` if somebody has
    /// it for longer than this.
    pub(crate) fn lock_beginnings(&self, patience: Duration) -> Result<Option<Unforked>> {
        let (begin, shared) = (Instant::now(), &self.shared);
        // Locks of one opening merge, and threads share that.
        let opened = Unforked::open(|| {
            folder::reopen(shared.producers()?, true).map_err(|error| Error::io("open", &shared.path, error))
        })?;
        while let Some(file) = opened.get() {
            if shared.try_lock(file, Kind::Write, arena::BEGIN_AT, 1)? {
                return Ok(Some(opened));
            }
            if begin.elapsed() >= patience {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Err(shared.forked())
    }
}
