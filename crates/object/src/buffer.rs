//! Memory of a fragment to read: at one address from the attach to the end, with bytes of its own or with a writer's.
//!
//! # Safety
//!
//! This module lays pages of a version over a mapping that it owns, and makes slices of it. Its invariants: pages are laid
//! while `self` is borrowed exclusively, so that no slice of it exists; as long as they lie there the snapshot that holds
//! their version is kept, so that nobody writes them; and the slice reaches no further than the pages that were laid, which is
//! the range that the snapshot was asked for.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use stillframe::{PAGE_BYTES, Snapshot};
use stillframe_kernel::Failure;
use stillframe_kernel::map::Mapping;

/// The memory.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// What it is for.
    path: PathBuf,
    /// One page more than the bytes take: they need not begin at one.
    map: Mapping,
    /// Where the bytes begin, within the first page.
    offset: usize,
    bytes: usize,
    /// Whether anybody may know the address: from then on it stays.
    is_placed: AtomicBool,
    /// Whether all bytes are zero.
    is_zero: bool,
    /// Holds the version whose pages lie here.
    shown: Option<Snapshot>,
}

/// That of the largest numbers there are.
const ALIGNMENT_BYTES: usize = 16;

/// Fragments from this size on get large pages.
const LARGE_BYTES: usize = 2 << 20;

impl Buffer {
    /// Zeroed memory, for what is at `path`.
    pub(crate) fn new(path: PathBuf, bytes: u64) -> Result<Buffer> {
        let failed = |failure| Error::system(&path, failure);
        let bytes = usize::try_from(bytes).map_err(|_| failed(Failure::no_memory(usize::MAX)))?;
        let whole = bytes.checked_next_multiple_of(PAGE_BYTES).and_then(|whole| whole.checked_add(PAGE_BYTES));
        let whole = whole.ok_or_else(|| failed(Failure::no_memory(bytes)))?;
        let map = Mapping::private(whole, bytes >= LARGE_BYTES).map_err(failed)?;
        Ok(Buffer { path, map, offset: 0, bytes, is_placed: AtomicBool::new(false), is_zero: true, shown: None })
    }

    /// The address of the first byte, which stays as long as this lives, for somebody knows it now.
    pub(crate) fn address(&self) -> usize {
        self.is_placed.store(true, Ordering::Relaxed);
        self.map.address() + self.offset
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is longer than offset and bytes together. It is private memory that is written through
        // `bytes_mut` alone, or pages of a version that the snapshot holds.
        unsafe { std::slice::from_raw_parts(self.address() as *const u8, self.bytes) }
    }

    /// The version whose pages lie here, if any do.
    pub(crate) fn shown(&self) -> Option<&Snapshot> {
        self.shown.as_ref()
    }

    /// Whether all bytes are known to be zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.is_zero
    }

    /// The bytes, to be written: those of a version that was shown are gone. What they are then is unspecified.
    pub(crate) fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        if self.shown.is_some() {
            self.lay_private(self.bytes >= LARGE_BYTES)?;
            self.shown = None;
        }
        self.is_zero = false;
        // SAFETY: as for `bytes`; the memory is private, and `self` is borrowed exclusively.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address() as *mut u8, self.bytes) })
    }

    fn lay_private(&mut self, is_large: bool) -> Result<()> {
        let laid = self.map.lay_private(0, self.map.bytes(), is_large);
        laid.map_err(|failure| Error::system(&self.path, failure))
    }

    /// Makes all bytes zero.
    pub(crate) fn clear(&mut self) -> Result<()> {
        if self.shown.is_some() || !self.is_zero {
            self.lay_private(self.bytes >= LARGE_BYTES)?;
            self.shown = None;
        }
        self.is_zero = true;
        Ok(())
    }

    /// Whether bytes that begin here in a variable can be shown at this memory's address, where every number is aligned.
    pub(crate) fn can_show(&self, at: usize) -> bool {
        match self.is_placed.load(Ordering::Relaxed) {
            true => at % PAGE_BYTES == self.offset,
            false => at.is_multiple_of(ALIGNMENT_BYTES),
        }
    }

    /// Shows bytes of a variable of a version instead of a copy, and holds the version.
    pub(crate) fn show(&mut self, snapshot: Snapshot, variable: &str, range: Range<usize>) -> Result<()> {
        let pages = range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES);
        if range.len() != self.bytes || !self.can_show(range.start) || pages.len() * PAGE_BYTES > self.map.bytes() {
            let wanted = format!("{} bytes at {}", range.len(), range.start);
            return Err(Error::Variable { name: snapshot.region().into(), found: "other pages".into(), wanted });
        }
        // SAFETY: the addresses are this mapping's own, which begins at a page; nobody has a slice of it, for `self` is
        // borrowed exclusively, and it is as long as the pages together.
        let laid = unsafe { snapshot.lay(variable, pages, self.map.address() as *mut u8) };
        if let Err(error) = laid {
            // Some pages of either version may lie here now.
            self.lay_private(false)?;
            (self.shown, self.is_zero) = (None, true);
            return Err(error.into());
        }
        self.offset = range.start % PAGE_BYTES;
        self.is_zero = false;
        self.shown = Some(snapshot);
        Ok(())
    }
}
