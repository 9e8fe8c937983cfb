//! Arenas all of whose memory is there from the begin, in large pages where the kernel has some.
//!
//! A tmpfs has small pages unless the machine says otherwise, and takes memory when it is written. But the kernel moves what is
//! there into large pages for whoever asks (`MADV_COLLAPSE`, Linux 6.1), without rights or settings. So an arena can be filled once,
//! and after that it gives no memory back: what is free there reads as zeros, and keeps its pages.
//!
//! A file beside the arena says so, since the kernel does not. While it is filled the file has another name, and a lock of who does it.

use super::chunks::at;
use super::{Arena, Shared};
use crate::error::{Error, Result};
use crate::place::directory::Directory;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stillframe_kernel::{PAGE_BYTES, memory, points, space};
use stillframe_segment::arena::{self, CHUNK_BYTES};

/// Whether an arena has all its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filling {
    /// Memory comes as regions need it.
    Never,
    /// Somebody fills it just now.
    Going,
    /// Somebody began, and ended before it was done.
    Left,
    /// It is all there.
    Done {
        /// So much of it was in large pages when it was filled.
        large_bytes: u64,
    },
}

/// Chunks that are filled between two looks at whether to go on.
const STEP_CHUNKS: u32 = 16;

/// Longest time for which somebody has the lock of whoever fills an arena who only looks whether one does.
const LOOK_MAX: Duration = Duration::from_millis(20);

/// How often the kernel is asked for a large page that it could not give just then.
const TRIES: usize = 2;

impl Arena {
    /// Whether it has all its memory.
    ///
    /// # Errors
    /// Those of the files.
    pub fn filling(&self) -> Result<Filling> {
        let Some(directory) = self.shared.directory() else { return Ok(Filling::Never) };
        if let Some((mut file, _)) = directory.file(arena::FILLED)? {
            let mut text = String::new();
            let read = file.read_to_string(&mut text);
            read.map_err(|error| Error::io("read", &self.path().join(arena::FILLED), error))?;
            // Whoever filled it may have been stopped before he wrote how many.
            return Ok(Filling::Done { large_bytes: text.trim().parse().unwrap_or(0) });
        }
        match directory.file(arena::FILLING)? {
            None => Ok(Filling::Never),
            // Several may look at once.
            Some((file, _)) => match was_locked(directory, file.try_lock_shared())? {
                true => Ok(Filling::Left),
                false => Ok(Filling::Going),
            },
        }
    }

    /// Takes memory for all of it, in large pages as far as the kernel has some, once and for all: what regions give back stays the
    /// arena's. To be called right after it was made: other processes that have it open already may still give memory back.
    ///
    /// `watch` is told several times how many bytes are done, and says whether to go on. If it says no, `None` comes back, and the
    /// arena has more memory than it needs: remove it. Otherwise it is told how many bytes are in large pages. Memory on a tmpfs is
    /// never taken away, but where there is swap space the kernel may write it out.
    ///
    /// # Errors
    /// [`Error::NoSpace`] before or while memory is taken; [`Error::BadOption`] if it was handed in, consists of large pages of
    /// hugetlbfs, was opened to look only, or somebody fills it just now.
    pub fn fill(&self, watch: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Option<u64>> {
        let shared = &self.shared;
        shared.producers()?;
        let refused = |why: &str| Error::BadOption { option: "arena", why: format!("'{}' {why}", shared.name) };
        let directory = shared.directory().ok_or_else(|| refused("was handed in, and cannot be filled"))?;
        if shared.is_large {
            return Err(refused("lies on hugetlbfs, where the pool has its memory already"));
        }
        if let Filling::Done { large_bytes } = self.filling()? {
            return Ok(Some(large_bytes));
        }
        let mut mark = directory.create(arena::FILLING, shared.about.mode & 0o777)?;
        if !lock(directory, &mark)? {
            return Err(refused("is filled by another process just now"));
        }
        // Whoever found it left by somebody else may have removed it before this had the lock.
        shared.check_there()?;
        let missing =
            self.bytes().saturating_sub(directory.about(arena::FILE).map_or(0, |about| about.allocated_bytes));
        if let Some(error) = shared.lacks(missing) {
            directory.unlink(arena::FILLING)?;
            return Err(error);
        }
        points::hit("arena.fill.begin");
        let Some(large_bytes) = shared.fill(watch)? else { return Ok(None) };
        let written = write!(mark, "{large_bytes}");
        written.map_err(|error| Error::io("write", &shared.path.join(arena::FILLING), error))?;
        shared.is_filled.store(true, Ordering::Relaxed);
        let folder = directory.folder();
        let renamed = folder.rename(arena::FILLING, folder, arena::FILLED);
        renamed.map_err(|error| Error::io("rename", &shared.path.join(arena::FILLED), error))?;
        Ok(Some(large_bytes))
    }

    /// Whether chunks and pages keep their memory when they are given back.
    pub(crate) fn keeps_memory(&self) -> bool {
        self.shared.keeps_memory()
    }
}

impl Shared {
    /// As of the [arena](Arena::keeps_memory).
    pub(super) fn keeps_memory(&self) -> bool {
        self.is_large || self.is_filled.load(Ordering::Relaxed)
    }

    /// Why so much memory is not to be had, as far as is known. Whoever took all that there is would have the kernel end processes.
    fn lacks(&self, bytes: u64) -> Option<Error> {
        match memory::available_bytes() {
            Some(free_bytes) if free_bytes < bytes => {
                let (path, free_bytes) = (self.path.clone(), Some(free_bytes));
                Some(Error::NoSpace { path, needed_bytes: bytes, free_bytes, lacks_inodes: false })
            }
            _ => (!space::may_take(&self.file, bytes)).then(|| Error::no_space(&self.path, bytes)),
        }
    }

    fn fill(&self, watch: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Option<u64>> {
        let mut large_bytes = 0;
        let end = self.geometry.free_chunks().end;
        for chunk in 0..end {
            if chunk.is_multiple_of(STEP_CHUNKS) && watch(at(chunk)).is_break() {
                return Ok(None);
            }
            large_bytes += self.fill_chunk(chunk)?;
        }
        let is_wanted = watch(at(end)).is_continue();
        Ok(is_wanted.then_some(large_bytes))
    }

    /// Gives a chunk memory; returns how much of it is a large page.
    fn fill_chunk(&self, chunk: u32) -> Result<u64> {
        let take = |bytes: usize| {
            let taken = space::take(&self.file, at(chunk), bytes as u64);
            taken.map_err(|failure| self.system(failure).needing(bytes as u64))
        };
        // The kernel makes a large page of a small one and zeros, but not of nothing. So nothing is written twice.
        take(PAGE_BYTES)?;
        if (0..TRIES).any(|_| self.map.collapse(at(chunk) as usize, CHUNK_BYTES)) {
            return Ok(CHUNK_BYTES as u64);
        }
        take(CHUNK_BYTES)?;
        Ok(0)
    }
}

/// Whether the arena in a directory has all its memory, and keeps it.
pub(super) fn is_filled(directory: Option<&Directory>) -> bool {
    directory.is_some_and(|directory| directory.has(arena::FILLED))
}

/// What keeps others from filling an arena, as long as it lives.
pub(super) enum Unfilled {
    /// Nobody ever began.
    Never,
    /// Somebody began and ended; nobody else goes on.
    Left { _mark: File },
}

/// Keeps others from going on where somebody began to fill the arena in a directory; `None` if somebody fills it just now.
pub(super) fn keep_unfilled(directory: &Directory) -> Result<Option<Unfilled>> {
    match directory.file(arena::FILLING)? {
        None => Ok(Some(Unfilled::Never)),
        Some((file, _)) => Ok(lock(directory, &file)?.then_some(Unfilled::Left { _mark: file })),
    }
}

/// Takes the lock of whoever fills an arena, as long as this opening of the file lives. Who looks has it for an instant.
fn lock(directory: &Directory, file: &File) -> Result<bool> {
    let begin = Instant::now();
    loop {
        match was_locked(directory, file.try_lock())? {
            false if begin.elapsed() < LOOK_MAX => std::thread::sleep(Duration::from_millis(1)),
            is_locked => return Ok(is_locked),
        }
    }
}

fn was_locked(directory: &Directory, tried: Result<(), TryLockError>) -> Result<bool> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(Error::io("flock", &directory.path().join(arena::FILLING), error)),
    }
}
