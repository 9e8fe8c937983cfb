//! Words to sleep on, which change with the names and boards of a directory: one for each object, or for a few that share it.

use crate::directory::Directory;
use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stillframe_kernel::folder::Access;
use stillframe_kernel::futex;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::space;

const FILE: &str = "bell";
const BYTES: usize = 256 << 10;

/// A word. All are mapped once in a process for each directory that it opened.
#[derive(Debug, Clone)]
pub(crate) struct Bell {
    map: Arc<Mapping>,
    /// Where the word lies.
    at: usize,
    is_writing: bool,
}

/// Of which all processes get the same: FNV-1a.
pub(crate) fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

impl Bell {
    /// Opens it; who writes makes it if need be. `None` for who looks, if it is not there yet: whoever makes it gives it its length
    /// and its memory one after the other, and may have died in between, or found the file system full.
    pub(crate) fn open(directory: &Directory) -> Result<Option<Bell>> {
        let is_writing = directory.is_writing();
        let access = if is_writing { Access::CreateExact(0) } else { Access::Read };
        let path = directory.objects.path.join(FILE);
        let Some((file, about)) = directory.objects.open(FILE, access)? else { return Ok(None) };
        if is_writing {
            // To set the same length again does no harm to who is just using it.
            directory.objects.permit(&file, &about).map_err(|error| Error::io("chmod", &path, error))?;
            if about.bytes < BYTES as u64 {
                file.set_len(BYTES as u64).map_err(|error| Error::io("ftruncate", &path, error))?;
            }
            // A word without memory, on a full file system, would end the process that touches it.
            if about.allocated_bytes < BYTES as u64 {
                space::take(&file, 0, BYTES as u64).map_err(|failure| Error::system(&path, failure).needing(BYTES))?;
            }
        } else if about.bytes < BYTES as u64 || !space::is_there(&file, about.allocated_bytes, BYTES as u64) {
            return Ok(None);
        }
        let map = Mapping::shared(&file, 0, BYTES, is_writing).map_err(|failure| Error::system(&path, failure))?;
        Ok(Some(Bell { map: Arc::new(map), at: 0, is_writing }))
    }

    /// The word of an object. That thousands are attached, one after the other, is no news to most of them.
    pub(crate) fn of(&self, name: &str) -> Bell {
        Bell { at: hash(name) as usize % (BYTES / 4) * 4, ..self.clone() }
    }

    fn word(&self) -> &AtomicU32 {
        self.map.word32(self.at)
    }

    /// What it is now. Whoever looks at a board after this, and sleeps on what this returned, misses no change.
    pub(crate) fn seen(&self) -> u32 {
        self.word().load(Ordering::SeqCst)
    }

    /// Tells everybody that something changed.
    pub(crate) fn ring(&self) {
        if self.is_writing {
            self.word().fetch_add(1, Ordering::SeqCst);
            futex::wake_all(self.word());
        }
    }

    /// Sleeps until it is not what was seen any more, at most so long.
    pub(crate) fn sleep(&self, seen: u32, longest: Duration) {
        futex::wait(self.word(), seen, Some(longest));
    }
}
