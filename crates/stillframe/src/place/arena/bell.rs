//! What wakes who waits for versions of an arena that enclaves share (`stillframe_segment::bell`).

use crate::error::{Error, Result};
use crate::place::directory::{Directory, Unopened};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use stillframe_kernel::folder::Access;
use stillframe_kernel::futex;
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::map::Mapping;
use stillframe_segment::bell::{BELL_BYTES, COUNT_AT, FILE, LOCK_AT, SURE_AT, region_at};

/// The file beside an arena.
#[derive(Debug)]
pub(crate) struct Beside {
    file: File,
    map: Mapping,
}

/// Who wakes those that wait for versions of a region.
#[derive(Debug, Clone, Default)]
pub(crate) enum Bell {
    /// The kernel, by a word in its head alone.
    #[default]
    None,
    /// It is an arena of this enclave, of which others are told as well.
    Own {
        beside: Arc<Beside>,
        region: u32,
        /// Whether it lies in a device's memory, where the kernel wakes nobody.
        is_device: bool,
    },
    /// The agent of this enclave, if there is a file at all: the region is another one's.
    Foreign(Option<Arc<Beside>>),
}

impl Beside {
    /// That beside an arena in a directory; `None` if no agent has made one. Who produces rings it.
    pub(super) fn open(directory: &Directory, is_writing: bool) -> Result<Option<Arc<Beside>>> {
        let access = if is_writing { Access::Write } else { Access::Read };
        let (file, about) = match directory.open(FILE, access) {
            Ok(opened) => opened,
            Err(Unopened::Missing) => return Ok(None),
            Err(Unopened::Failed(error)) => return Err(error),
        };
        // One that is too short has just been made.
        if about.bytes < BELL_BYTES as u64 {
            return Ok(None);
        }
        let map = Mapping::shared(&file, 0, BELL_BYTES, is_writing);
        let map = map.map_err(|failure| Error::system(&directory.path().join(FILE), failure))?;
        Ok(Some(Arc::new(Beside { file, map })))
    }

    /// Whether it is rung at once when something is published in another enclave: its agent says so, and lives.
    fn is_sure(&self) -> bool {
        self.map.word32(SURE_AT).load(Acquire) == 1
            && lock::is_held(&self.file, Kind::Write, LOCK_AT, 1).unwrap_or(false)
    }
}

impl Bell {
    /// Whether the region is another enclave's.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self, Bell::Foreign(_))
    }

    /// Whether who sleeps on [`word`](Bell::word) is woken by the next publish.
    pub(crate) fn is_sure(&self) -> bool {
        match self {
            Bell::None | Bell::Own { .. } => true,
            Bell::Foreign(beside) => beside.as_ref().is_some_and(|beside| beside.is_sure()),
        }
    }

    /// The word on which those sleep who wait for versions; that of the head is `notifications`.
    pub(crate) fn word<'a>(&'a self, notifications: &'a AtomicU32) -> &'a AtomicU32 {
        match self {
            Bell::Own { beside, region, is_device: true } => beside.map.word32(region_at(*region)),
            Bell::Foreign(Some(beside)) => beside.map.word32(COUNT_AT),
            Bell::None | Bell::Own { .. } | Bell::Foreign(None) => notifications,
        }
    }

    /// Lets everybody who waits look again. Only who produces does.
    pub(crate) fn ring(&self, notifications: &AtomicU32) {
        notifications.fetch_add(1, Release);
        match self {
            Bell::None | Bell::Foreign(_) => futex::wake_all(notifications),
            Bell::Own { beside, is_device, .. } => {
                let word = self.word(notifications);
                if *is_device {
                    word.fetch_add(1, Release);
                }
                futex::wake_both(word, beside.map.word32(COUNT_AT));
            }
        }
    }
}
