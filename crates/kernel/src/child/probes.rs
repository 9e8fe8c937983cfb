//! Whether a forked child has memory as its parent has it. What was advised `MADV_WIPEONFORK` it finds empty, without an error,
//! and to ask for the advice (`VmFlags` in /proc/self/smaps) is to wait for a walk over all pages of the process, which takes as
//! long as the fork itself. So of each mapping one page that has memory is noted before the fork, and the child looks whether
//! it has memory there, too: a microsecond for each mapping.
//!
//! # Safety
//!
//! [`Probes::are_there`] runs in a child that was forked while other threads held locks: it takes no memory, and calls nothing
//! but the kernel.

use crate::copy::Piece;
use crate::maps::Maps;
use crate::pagemap::{ENTRY_POPULATED, Own, Pagemap};
use crate::{Failure, PAGE_BYTES};

const PATH: &std::ffi::CStr = c"/proc/self/pagemap";

/// Addresses of pages that had memory before the fork, one of each mapping that had any.
#[derive(Debug, Default)]
pub(super) struct Probes(Vec<usize>);

/// What was found in the part of a mapping that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Swapped,
    Memory,
}

impl Probes {
    /// Pages of what the pieces are read from. `None`: whether a child will have it cannot be told.
    pub(super) fn note(pieces: &[Piece], maps: &Maps) -> Result<Option<Probes>, Failure> {
        let mut pagemap = Pagemap::open()?;
        let mut probes = Vec::new();
        let (mut mapping, mut found) = (0..0, Found::Nothing);
        for piece in pieces {
            let (mut at, end) = (piece.from / PAGE_BYTES * PAGE_BYTES, piece.from + piece.bytes);
            while at < end {
                if !mapping.contains(&at) {
                    if found == Found::Swapped {
                        return Ok(None);
                    }
                    mapping = match maps.mapping(at) {
                        Ok(Some(mapping)) => mapping,
                        Ok(None) => return Ok(None),
                        // The kernel is too old to be asked, and then no memory of the application's comes here.
                        Err(_) => return Ok(Some(Probes::default())),
                    };
                    found = Found::Nothing;
                }
                let next = end.next_multiple_of(PAGE_BYTES).min(mapping.end);
                if found != Found::Memory {
                    if let Some(page) = pagemap.find_own(at, next - at, Own::Present)? {
                        probes.try_reserve(1).map_err(|_| Failure::no_memory(size_of_val(&*probes)))?;
                        probes.push(page);
                        found = Found::Memory;
                    } else if found == Found::Nothing && pagemap.find_own(at, next - at, Own::Swapped)?.is_some() {
                        // It may be armed and empty as well.
                        found = Found::Swapped;
                    }
                }
                at = next;
            }
        }
        Ok((found != Found::Swapped).then_some(Probes(probes)))
    }

    /// Whether the child that calls this has memory for all of them.
    pub(super) fn are_there(&self) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: the path is a text that ends, and the descriptor is the child's, which ends soon.
        let file = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, PATH.as_ptr(), flags) };
        file >= 0
            && self.0.iter().all(|address| {
                let mut entry = 0u64;
                let (bytes, offset) = (size_of::<u64>(), address / PAGE_BYTES * size_of::<u64>());
                // SAFETY: the call writes as many bytes as the number has.
                let read = unsafe { libc::syscall(libc::SYS_pread64, file, &raw mut entry, bytes, offset) };
                read == bytes as libc::c_long && entry & ENTRY_POPULATED != 0
            })
    }
}
