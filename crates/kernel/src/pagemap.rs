//! Which pages were written (/proc/self/pagemap: the `PAGEMAP_SCAN` call and the entries themselves; see
//! Documentation/admin-guide/mm/pagemap.rst of the kernel).

use crate::fork::{Common, Unforked};
use crate::residency::{PAGES_MOST, are_resident};
use crate::{Failure, PAGE_BYTES};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const PAGEMAP_SCAN: u64 = 3 << 30 | 96 << 16 | (b'f' as u64) << 8 | 16;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
const PM_SCAN_WP_MATCHING: u64 = 1;
const PM_SCAN_CHECK_WPASYNC: u64 = 2;

/// Entry bit 55: written since the soft-dirty bits were last cleared.
pub const ENTRY_SOFT_DIRTY: u64 = 1 << 55;
/// Entry bit 56: mapped by this process alone.
pub const ENTRY_EXCLUSIVE: u64 = 1 << 56;
/// Entry bit 57: armed, and not written since.
pub const ENTRY_ARMED: u64 = 1 << 57;
/// Entry bit 61: a page of a file or of shared memory, not a private copy.
pub const ENTRY_FILE: u64 = 1 << 61;
/// Entry bit 62: swapped out.
pub const ENTRY_SWAPPED: u64 = 1 << 62;
/// Entry bits 62 and 63: the page has memory, or was swapped out.
pub const ENTRY_POPULATED: u64 = 3 << 62;

/// Whether a page has no memory, for all that its entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bare {
    /// It has some, or was swapped out.
    No,
    /// It has none.
    Yes,
    /// It was swapped out, or has none and was armed: the kernel says the same of both.
    Unknown,
}

/// What an entry says of whether its page has no memory.
pub fn bareness(entry: u64) -> Bare {
    match entry & ENTRY_POPULATED {
        0 => Bare::Yes,
        ENTRY_SWAPPED if entry & ENTRY_ARMED != 0 => Bare::Unknown,
        _ => Bare::No,
    }
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
#[derive(Debug, Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// The page map of this process. It is that of the process which opened it, so forked children have none of it.
#[derive(Debug)]
pub struct Pagemap {
    file: Arc<Unforked>,
    regions: Vec<PageRegion>,
    entries: Vec<u64>,
}

const PATH: &str = "/proc/self/pagemap";
static COMMON: Common = Common::new();
/// Runs of pages that one call may report, at first and at most: who sees that they do not suffice gets more.
const REGIONS_FIRST: usize = 32;
const REGIONS_MAX: usize = 8192;

/// How a scan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// All written pages were reported.
    Complete,
    /// Part of the range is not, or no longer, registered for asynchronous write protection: nothing is known of it.
    Unwatched,
}

/// Where memory of the process's own is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    Present,
    /// Or nowhere, of a page that was armed: the kernel says the same of both.
    Swapped,
}

impl Pagemap {
    /// Opens the page map; a process has one descriptor of it for all.
    pub fn open() -> Result<Pagemap, Failure> {
        let file =
            COMMON.get(|| File::open(PATH)).map_err(|source| Failure { call: "open", detail: PATH.into(), source })?;
        Ok(Pagemap { file, regions: Vec::new(), entries: Vec::new() })
    }

    /// The same page map, to be looked at by another thread.
    pub fn another(&self) -> Pagemap {
        Pagemap { file: self.file.clone(), regions: Vec::new(), entries: Vec::new() }
    }

    /// Calls `found` with the address and length of each run of pages in the range that are not armed; arms them if
    /// `rearm`. The runs come in ascending order.
    pub fn scan(
        &mut self,
        address: usize,
        bytes: usize,
        rearm: bool,
        found: impl FnMut(usize, usize),
    ) -> Result<Scan, Failure> {
        let arguments = ScanArguments {
            flags: PM_SCAN_CHECK_WPASYNC | if rearm { PM_SCAN_WP_MATCHING } else { 0 },
            category_mask: PAGE_IS_WRITTEN,
            return_mask: PAGE_IS_WRITTEN,
            ..ScanArguments::default()
        };
        self.walk(address, bytes, arguments, found)
    }

    /// Calls `found` with each run of pages that have no memory, neither in RAM nor in swap.
    fn scan_holes(&mut self, address: usize, bytes: usize, found: impl FnMut(usize, usize)) -> Result<Scan, Failure> {
        let arguments = ScanArguments {
            category_inverted: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            category_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            return_mask: PAGE_IS_PRESENT,
            ..ScanArguments::default()
        };
        self.walk(address, bytes, arguments, found)
    }

    /// Calls `found` with the address of each of some pages that has no memory, neither in RAM nor in swap. `pages` are addresses of pages.
    /// Mostly one call of the kernel finds out for many of them.
    pub fn find_holes(
        &mut self,
        pages: impl Iterator<Item = usize>,
        mut found: impl FnMut(usize),
    ) -> Result<(), Failure> {
        let mut pages = pages.peekable();
        let mut group = [0; PAGES_MOST];
        while pages.peek().is_some() {
            let mut count = 0;
            for (place, page) in group.iter_mut().zip(&mut pages) {
                *place = page;
                count += 1;
            }
            let mut resident = [false; PAGES_MOST];
            // Where the kernel refuses it none is known to have memory.
            let _ = are_resident(&group[..count], &mut resident);
            for (page, _) in group[..count].iter().zip(resident).filter(|(_, is_resident)| !is_resident) {
                self.scan_holes(*page, PAGE_BYTES, |page, _| found(page))?;
            }
        }
        Ok(())
    }

    /// Calls `found` with each run of pages of a private mapping of a file that show what the file has, or will when they are read.
    /// A page that was swapped out looks as one that is armed and not there, and is among them.
    pub fn scan_of_file(
        &mut self,
        address: usize,
        bytes: usize,
        found: impl FnMut(usize, usize),
    ) -> Result<Scan, Failure> {
        let arguments = ScanArguments {
            category_inverted: PAGE_IS_PRESENT,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_FILE,
            return_mask: PAGE_IS_FILE,
            ..ScanArguments::default()
        };
        self.walk(address, bytes, arguments, found)
    }

    /// The address of the first page of the range that has memory of its own, neither a file's nor the page of zeros.
    pub(crate) fn find_own(&mut self, address: usize, bytes: usize, own: Own) -> Result<Option<usize>, Failure> {
        let place = match own {
            Own::Present => PAGE_IS_PRESENT,
            Own::Swapped => PAGE_IS_SWAPPED,
        };
        let mut arguments = ScanArguments {
            size: std::mem::size_of::<ScanArguments>() as u64,
            start: address as u64,
            end: (address + bytes) as u64,
            max_pages: 1,
            category_inverted: PAGE_IS_FILE | PAGE_IS_PFNZERO,
            category_mask: PAGE_IS_FILE | PAGE_IS_PFNZERO | place,
            return_mask: place,
            ..ScanArguments::default()
        };
        let mut regions = [PageRegion::default()];
        loop {
            match call(&self.file, &mut arguments, &mut regions) {
                Ok(count) => return Ok((count > 0).then_some(regions[0].start as usize)),
                Err(failure) if failure.errno() == libc::EINTR => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    fn walk(
        &mut self,
        address: usize,
        bytes: usize,
        mut arguments: ScanArguments,
        mut found: impl FnMut(usize, usize),
    ) -> Result<Scan, Failure> {
        let end = (address + bytes) as u64;
        arguments.size = std::mem::size_of::<ScanArguments>() as u64;
        arguments.start = address as u64;
        arguments.end = end;
        let mut is_short = self.regions.is_empty();
        while arguments.start < end {
            if is_short {
                let regions = (self.regions.len() * 4).clamp(REGIONS_FIRST, REGIONS_MAX);
                // What there is of the list does, too: more calls are made with it.
                match self.regions.try_reserve(regions - self.regions.len()) {
                    Ok(()) => self.regions.resize(regions, PageRegion::default()),
                    Err(_) if self.regions.is_empty() => {
                        return Err(Failure::no_memory(regions * size_of::<PageRegion>()));
                    }
                    Err(_) => {}
                }
            }
            let count = match call(&self.file, &mut arguments, &mut self.regions) {
                Ok(count) => count,
                Err(failure) if failure.errno() == libc::EPERM => return Ok(Scan::Unwatched),
                Err(failure) if failure.errno() == libc::EINTR => continue,
                Err(failure) => return Err(failure),
            };
            for region in &self.regions[..count.min(self.regions.len())] {
                found(region.start as usize, (region.end - region.start) as usize);
            }
            // It stops where a large page is to be armed in part, and what is behind was not reported.
            if arguments.walk_end <= arguments.start {
                return Err(Failure {
                    call: "ioctl(PAGEMAP_SCAN)",
                    detail: format!("stopped at {:#x} of {bytes} bytes at {address:#x}", arguments.start),
                    source: std::io::ErrorKind::Unsupported.into(),
                });
            }
            arguments.start = arguments.walk_end;
            is_short = count >= self.regions.len();
        }
        Ok(Scan::Complete)
    }

    /// Calls `visit` with the index and the entry of each page of the range.
    pub fn entries(&mut self, address: usize, pages: usize, mut visit: impl FnMut(usize, u64)) -> Result<(), Failure> {
        const CHUNK: usize = 4096;
        let chunk = CHUNK.min(pages);
        let more = chunk.saturating_sub(self.entries.len());
        self.entries.try_reserve(more).map_err(|_| Failure::no_memory(chunk * size_of::<u64>()))?;
        self.entries.resize(chunk, 0);
        let mut index = 0;
        while index < pages {
            let count = CHUNK.min(pages - index);
            let file = self.file.get().ok_or_else(forked)?;
            let buffer = &mut self.entries[..count];
            let offset = (address / PAGE_BYTES + index) as u64 * 8;
            file.read_exact_at(bytemuck::cast_slice_mut(buffer), offset).map_err(|source| Failure {
                call: "pread",
                detail: format!("{PATH} at {offset}"),
                source,
            })?;
            for (place, entry) in buffer.iter().enumerate() {
                visit(index + place, *entry);
            }
            index += count;
        }
        Ok(())
    }
}

/// Has the kernel fill in the regions; says how many it did.
fn call(file: &Unforked, arguments: &mut ScanArguments, regions: &mut [PageRegion]) -> Result<usize, Failure> {
    arguments.regions = regions.as_mut_ptr() as u64;
    arguments.regions_len = regions.len() as u64;
    let descriptor = file.get().ok_or_else(forked)?.as_raw_fd();
    // SAFETY: the arguments name a live buffer of `regions_len` regions, which the kernel fills.
    let count = unsafe { libc::ioctl(descriptor, PAGEMAP_SCAN as _, &raw mut *arguments) };
    usize::try_from(count).map_err(|_| {
        let ScanArguments { start, end, .. } = arguments;
        Failure::last("ioctl(PAGEMAP_SCAN)", format!("{} bytes at {start:#x}", *end - *start))
    })
}

fn forked() -> Failure {
    let source = std::io::Error::from_raw_os_error(libc::EBADF);
    Failure { call: "read", detail: format!("{PATH} of the process that forked this one"), source }
}

/// Clears the soft-dirty bits of the whole process (Documentation/admin-guide/mm/soft-dirty.rst).
pub fn clear_soft_dirty() -> Result<(), Failure> {
    std::fs::write("/proc/self/clear_refs", "4").map_err(|source| Failure {
        call: "write",
        detail: "/proc/self/clear_refs".into(),
        source,
    })
}
