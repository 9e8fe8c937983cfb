//! What of the address space is there.

mod list;

pub use list::ListedMapping;

use crate::map::LARGE_BYTES;
use crate::{Failure, PAGE_BYTES};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

const PATH: &str = "/proc/self/maps";

/// The question of PROCMAP_QUERY, as the kernel's `struct procmap_query` has it.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    found_flags: u64,
    page_bytes: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    name_bytes: u32,
    build_id_bytes: u32,
    name: u64,
    build_id: u64,
}

impl Query {
    /// Whether the mapping found is private and of no file: a forked child finds there what was there when it was made. Reserved
    /// large pages have a file. Where the kernel has none for a write of the parent's it takes the child's.
    fn is_private(&self) -> bool {
        self.sharing() == Sharing::Private
    }

    fn sharing(&self) -> Sharing {
        Sharing::of(self.found_flags & VMA_SHARED != 0, self.inode)
    }
}

/// `_IOWR('f', 17, struct procmap_query)`
const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611;
const _: () = assert!(std::mem::size_of::<Query>() == 0x68);
/// The mapping at the address, if it can be read.
const VMA_READABLE: u64 = 1;
/// The mapping at the address, or else the next one.
const COVERING_OR_NEXT: u64 = 16;
/// That the mapping found is shared.
const VMA_SHARED: u64 = 8;

/// Whose writes memory shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Sharing {
    /// Those of this process.
    #[default]
    Private,
    /// In pages that this process did not write, those to the mapping's file, too.
    PrivateOfFile,
    /// Those of all processes that share it, or have its file.
    Shared,
}

impl Sharing {
    /// Of a mapping with the file of an inode, which is 0 if there is none.
    fn of(is_shared: bool, inode: u64) -> Sharing {
        match (is_shared, inode) {
            (true, _) => Sharing::Shared,
            (false, 0) => Sharing::Private,
            (false, _) => Sharing::PrivateOfFile,
        }
    }
}

/// What mappings consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backing {
    /// The largest pages, in bytes.
    pub page_bytes: usize,
    /// The most that is shared.
    pub sharing: Sharing,
}

/// The list of this process's mappings.
#[derive(Debug, Default)]
pub struct Maps {
    /// `None` inside where the kernel cannot be asked that way.
    file: OnceLock<Option<File>>,
    has_constant_files: bool,
}

impl Maps {
    /// Whether all memory at these addresses may be read. At most one page of each mapping is touched, so this takes a
    /// fraction of a microsecond for each, whatever its size. Before Linux 6.11 memory that is there and may not be read
    /// passes, and so does that of a file that was cut shorter.
    pub fn is_readable(&self, address: usize, bytes: usize) -> bool {
        self.look(address, bytes, true)
    }

    /// As [`is_readable`](Maps::is_readable), but touches nothing: memory of a file that was cut shorter passes.
    pub fn is_readable_untouched(&self, address: usize, bytes: usize) -> bool {
        self.look(address, bytes, false)
    }

    /// Checks of several ranges, made one right after the other.
    pub fn checks(&self) -> Checks<'_> {
        Checks { maps: self, readable: [const { 0..0 }; MAPPINGS_MAX], last: 0, next: 0, of_file: 0..0 }
    }

    /// The mapping in which an address lies, if there is one.
    ///
    /// # Errors
    /// Before Linux 6.11 the kernel cannot be asked.
    pub(crate) fn mapping(&self, address: usize) -> Result<Option<Range<usize>>, Failure> {
        let file = self.file.get_or_init(|| File::open(PATH).ok()).as_ref();
        let file = file.ok_or_else(|| Failure {
            call: "open",
            detail: PATH.into(),
            source: std::io::Error::from_raw_os_error(libc::ENOENT),
        })?;
        let found = query(file, address, 0)?;
        Ok(found.map(|found| found.start as usize..found.end as usize).filter(|found| found.contains(&address)))
    }

    /// Whether all memory at these addresses is there and the process's own: what others write to it, or to a file that it
    /// shows, is not seen, nor in a forked child what this process writes. Before Linux 6.11 none is known to be.
    pub fn is_private(&self, address: usize, bytes: usize) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        let Some(file) = self.file.get_or_init(|| File::open(PATH).ok()) else { return false };
        let mut at = address;
        while at < end {
            match query(file, at, 0) {
                Ok(Some(found)) if found.is_private() && found.end as usize > at => at = found.end as usize,
                _ => return false,
            }
        }
        true
    }

    /// Of a process in which nobody changes the files of private mappings, so that they show what this process writes alone.
    pub fn with_constant_files() -> Maps {
        Maps { has_constant_files: true, ..Maps::default() }
    }

    /// What the mappings of a range consist of. Their pages are those of the machine, or reserved large ones
    /// (Documentation/admin-guide/mm/hugetlbpage.rst). What is not mapped counts as private, in pages of the machine's.
    pub fn backing(&self, address: usize, bytes: usize) -> Backing {
        let range = address..address.saturating_add(bytes);
        let mut found = self.asked_backing(&range).unwrap_or_else(|| Backing {
            page_bytes: tried_page_bytes(range.clone()),
            // Nothing is known of what cannot be asked for, as of what is shared.
            sharing: list::sharing(&range).unwrap_or(Sharing::Shared),
        });
        if self.has_constant_files && found.sharing == Sharing::PrivateOfFile {
            found.sharing = Sharing::Private;
        }
        found
    }

    /// The largest pages of [`backing`](Maps::backing) alone, for which no list of all mappings is read.
    pub fn page_bytes(&self, address: usize, bytes: usize) -> usize {
        let range = address..address.saturating_add(bytes);
        self.asked_backing(&range).map_or_else(|| tried_page_bytes(range), |found| found.page_bytes)
    }

    /// `None` where the kernel cannot be asked.
    fn asked_backing(&self, range: &Range<usize>) -> Option<Backing> {
        let file = self.file.get_or_init(|| File::open(PATH).ok()).as_ref()?;
        let (mut at, mut most) = (range.start, Backing { page_bytes: PAGE_BYTES, sharing: Sharing::Private });
        while at < range.end {
            match query(file, at, COVERING_OR_NEXT).ok()? {
                Some(found) if (found.start as usize) < range.end && found.end as usize > at => {
                    most.page_bytes = most.page_bytes.max(found.page_bytes as usize);
                    most.sharing = most.sharing.max(found.sharing());
                    at = found.end as usize;
                }
                _ => break,
            }
        }
        Some(most)
    }

    fn look(&self, address: usize, bytes: usize, touches: bool) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        let file = self.file.get_or_init(|| File::open(PATH).ok()).as_ref();
        let mut at = address;
        while at < end {
            match file.map(|file| readable_end(file, at, end, touches)) {
                Some(Ok(Some(next))) => at = next,
                Some(Ok(None)) => return false,
                Some(Err(_)) | None => return is_mapped(at, end),
            }
        }
        true
    }
}

/// Checks of ranges of which many lie in few mappings: what the kernel said of a mapping holds for all of them.
#[derive(Debug)]
pub struct Checks<'a> {
    maps: &'a Maps,
    /// The mappings of no file that can be read and were asked for last.
    readable: [Range<usize>; MAPPINGS_MAX],
    /// The one that was used last.
    last: usize,
    /// The one whose place the next one takes.
    next: usize,
    /// The last mapping of a file, which may be shorter than that, so that the end of each range is to be asked for.
    of_file: Range<usize>,
}

/// Mappings that checks remember. Watching a part of one makes several of it, and arrays are seldom given in the order in which
/// they lie.
const MAPPINGS_MAX: usize = 64;

impl Checks<'_> {
    /// As [`Maps::is_readable`].
    pub fn is_readable(&mut self, address: usize, bytes: usize) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        let file = self.maps.file.get_or_init(|| File::open(PATH).ok()).as_ref();
        let mut at = address;
        while at < end {
            if let Some(readable_end) = self.known_end(at) {
                at = readable_end;
                continue;
            }
            if self.of_file.contains(&at) {
                return self.maps.is_readable(at, end - at);
            }
            match file.map(|file| query(file, at, VMA_READABLE)) {
                Some(Ok(Some(found))) if found.inode == 0 && found.end as usize > at => {
                    (self.last, self.next) = (self.next, (self.next + 1) % MAPPINGS_MAX);
                    self.readable[self.last] = found.start as usize..found.end as usize;
                    at = found.end as usize;
                }
                Some(Ok(Some(found))) => {
                    self.of_file = found.start as usize..found.end as usize;
                    return self.maps.is_readable(at, end - at);
                }
                _ => return self.maps.is_readable(at, end - at),
            }
        }
        true
    }

    /// The end of the mapping in which an address lies, if it is remembered.
    fn known_end(&mut self, address: usize) -> Option<usize> {
        if !self.readable[self.last].contains(&address) {
            self.last = self.readable.iter().position(|mapping| mapping.contains(&address))?;
        }
        Some(self.readable[self.last].end)
    }
}

/// The end of the readable mapping at an address, if there is one; and, if it is of a file and may be touched, has it there up
/// to `end`.
fn readable_end(file: &File, address: usize, end: usize, touches: bool) -> Result<Option<usize>, Failure> {
    Ok(query(file, address, VMA_READABLE)?.and_then(|found| {
        let next = found.end as usize;
        let is_there = !touches || found.inode == 0 || is_in_file(next.min(end) - 1);
        // What ends at or before its beginning would be asked for again and again.
        Some(next).filter(|next| *next > address && is_there)
    }))
}

/// The largest pages of the mappings of a range, where the kernel does not tell: it refuses to move a part of a large page, even
/// to where it is already.
fn tried_page_bytes(range: Range<usize>) -> usize {
    let is_refused = |address: usize| {
        // The system call itself, because programs may have put their own mremap before libc's.
        // SAFETY: a page that keeps its size and may not be moved stays as it is and where it is.
        let moved = unsafe { libc::syscall(libc::SYS_mremap, address, PAGE_BYTES, PAGE_BYTES, 0, 0) };
        moved == -1 && Failure::last("mremap", "").errno() == libc::EINVAL
    };
    // The sizes of x86-64; other processors have more of them, and the search takes one for the next larger.
    for (smaller, bytes) in [(LARGE_BYTES, LARGE_BYTES * 512), (PAGE_BYTES, LARGE_BYTES)] {
        let first = range.start / bytes * bytes;
        if (first..range.end).step_by(bytes).any(|page| is_refused(page + smaller)) {
            return bytes;
        }
    }
    PAGE_BYTES
}

/// The mapping at an address, if there is one of this kind.
fn query(file: &File, address: usize, flags: u64) -> Result<Option<Query>, Failure> {
    let size = std::mem::size_of::<Query>() as u64;
    let mut query = Query { size, flags, address: address as u64, ..Query::default() };
    // SAFETY: the structure is the one the call takes, and asks for no text to be written elsewhere.
    if unsafe { libc::ioctl(file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) } == 0 {
        return Ok(Some(query));
    }
    let failure = Failure::last("ioctl", "PROCMAP_QUERY");
    if failure.errno() == libc::ENOENT { Ok(None) } else { Err(failure) }
}

/// Whether a file's mapping has its file behind an address. Files are cut at their end, so the last page answers for those
/// before it.
fn is_in_file(address: usize) -> bool {
    let page = address / PAGE_BYTES * PAGE_BYTES;
    // SAFETY: the advice reads a page that is about to be read anyway, with an error where touching it would be a signal.
    let result = unsafe { libc::madvise(page as *mut libc::c_void, PAGE_BYTES, libc::MADV_POPULATE_READ) };
    // Memory of devices and the like is not for this call to judge.
    result == 0 || Failure::last("madvise", "MADV_POPULATE_READ").errno() != libc::EFAULT
}

fn is_mapped(address: usize, end: usize) -> bool {
    let start = address / PAGE_BYTES * PAGE_BYTES;
    // The system call itself, because programs may have put their own msync before libc's.
    // SAFETY: with MS_ASYNC the call only walks over the mappings; it neither reads nor writes memory.
    unsafe { libc::syscall(libc::SYS_msync, start, end - start, libc::MS_ASYNC) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Mapping;
    use std::os::fd::FromRawFd;

    #[test]
    fn memory_is_readable_where_all_of_it_is_there() {
        let memory = Mapping::private(8 * PAGE_BYTES, false).unwrap();
        let (start, bytes) = (memory.address(), memory.bytes());
        let without = Maps { file: OnceLock::from(None), has_constant_files: false };
        for maps in [Maps::default(), without] {
            assert!(maps.is_readable(start, bytes));
            assert!(maps.is_readable(start + 100, 1));
            assert!(maps.is_readable(start + bytes - 1, 1));
            assert!(maps.is_readable(0, 0));
            assert!(!maps.is_readable(0, 1) && !maps.is_readable_untouched(0, 1));
            assert!(!maps.is_readable(usize::MAX - 5, 4));
            assert!(!maps.is_readable(usize::MAX - 5, 100));
        }
        drop(memory);
        // Whoever gets these addresses next, it is not all of them and all that follows.
        assert!(!Maps::default().is_readable(start, 1 << 46));
    }

    #[test]
    fn a_file_that_was_cut_beneath_its_mapping_is_told_where_the_kernel_can() {
        // SAFETY: the name is a string that ends, and the descriptor is nobody else's.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"cut".as_ptr(), libc::MFD_CLOEXEC)) };
        file.set_len(8 * PAGE_BYTES as u64).unwrap();
        let (bytes, protection) = (8 * PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE);
        for kind in [libc::MAP_SHARED, libc::MAP_PRIVATE] {
            file.set_len(bytes as u64).unwrap();
            // SAFETY: a new mapping at an address of the kernel's choice.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, kind, file.as_raw_fd(), 0) };
            assert_ne!(at, libc::MAP_FAILED);
            let (at, maps) = (at as usize, Maps::default());
            assert!(maps.is_readable(at, bytes));
            file.set_len(bytes as u64 / 2 - 100).unwrap();
            let asked = File::open(PATH).map(|file| readable_end(&file, at, at + bytes, true));
            assert!(matches!(asked, Ok(Ok(None)) | Ok(Err(_)) | Err(_)));
            assert!(!maps.is_readable(at, bytes) || !matches!(asked, Ok(Ok(_))));
            assert!(maps.is_readable(at, bytes / 2));
            assert!(maps.is_readable_untouched(at, bytes));
            // SAFETY: the mapping from above, which nobody uses any more.
            unsafe { libc::munmap(at as *mut libc::c_void, bytes) };
        }
    }

    #[test]
    fn large_pages_of_a_range_are_told_either_way() {
        let (large, protection) = (2 << 20, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let around = unsafe { libc::mmap(std::ptr::null_mut(), 4 * large, protection, flags, -1, 0) } as usize;
        let start = around.next_multiple_of(large);
        let is_large = {
            let flags = flags | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB | libc::MAP_NORESERVE | libc::MAP_FIXED;
            // SAFETY: it lies inside the mapping from above. Nobody touches it, so that no page has to be there.
            (unsafe { libc::mmap((start + large) as *mut libc::c_void, large, protection, flags, -1, 0) })
                != libc::MAP_FAILED
        };
        let maps = Maps::default();
        let expected = if is_large { large } else { PAGE_BYTES };
        for (at, bytes, expected) in [
            (start, large, PAGE_BYTES),
            (start, large + 1, expected),
            (start + large, large, expected),
            (start + 2 * large, PAGE_BYTES, PAGE_BYTES),
            (0, PAGE_BYTES, PAGE_BYTES),
        ] {
            assert_eq!(maps.page_bytes(at, bytes), expected, "{bytes} bytes at {at:#x}");
            assert_eq!(maps.backing(at, bytes).page_bytes, expected, "{bytes} bytes at {at:#x}");
            assert_eq!(tried_page_bytes(at..at + bytes), expected, "{bytes} bytes at {at:#x}");
        }
        // SAFETY: the mappings from above, which nobody uses any more.
        unsafe { libc::munmap(around as *mut libc::c_void, 4 * large) };
    }

    #[test]
    fn what_is_shared_is_told_either_way() {
        // SAFETY: the name is a string that ends, and the descriptor is nobody else's.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"of file".as_ptr(), libc::MFD_CLOEXEC)) };
        file.set_len(4 * PAGE_BYTES as u64).unwrap();
        let around = Mapping::private(8 * PAGE_BYTES, false).unwrap();
        let place = |page: usize, flags, descriptor| {
            let (at, protection) = (around.address() + page * PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE);
            let (at, flags) = (at as *mut libc::c_void, flags | libc::MAP_FIXED);
            // SAFETY: it lies inside the mapping from above.
            assert_ne!(unsafe { libc::mmap(at, PAGE_BYTES, protection, flags, descriptor, 0) }, libc::MAP_FAILED);
        };
        place(2, libc::MAP_PRIVATE, file.as_raw_fd());
        place(4, libc::MAP_SHARED, file.as_raw_fd());
        place(6, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
        let without = Maps { file: OnceLock::from(None), has_constant_files: false };
        for maps in [Maps::default(), without] {
            let sharing = |first: usize, pages: usize| {
                maps.backing(around.address() + first * PAGE_BYTES, pages * PAGE_BYTES).sharing
            };
            for (first, pages, expected) in [
                (0, 2, Sharing::Private),
                (1, 2, Sharing::PrivateOfFile),
                (2, 1, Sharing::PrivateOfFile),
                (3, 1, Sharing::Private),
                (0, 8, Sharing::Shared),
                (4, 1, Sharing::Shared),
                (5, 2, Sharing::Shared),
                (7, 1, Sharing::Private),
                (7, 0, Sharing::Private),
            ] {
                assert_eq!(sharing(first, pages), expected, "{pages} pages from {first}");
            }
        }
        let constant = Maps::with_constant_files();
        for (first, expected) in [(2, Sharing::Private), (4, Sharing::Shared)] {
            assert_eq!(constant.backing(around.address() + first * PAGE_BYTES, PAGE_BYTES).sharing, expected);
        }
    }

    #[test]
    fn ranges_of_a_mapping_are_checked_as_others_are() {
        let memory = Mapping::private(8 * PAGE_BYTES, false).unwrap();
        let (maps, address) = (Maps::default(), memory.address());
        let mut checks = maps.checks();
        for page in [0, 3, 7] {
            assert!(checks.is_readable(address + page * PAGE_BYTES, PAGE_BYTES));
        }
        assert!(checks.is_readable(address, 8 * PAGE_BYTES));
        // More mappings than are remembered, in any order, and some of a file.
        let (pages, program) = (3 * MAPPINGS_MAX, File::open("/proc/self/exe").unwrap());
        let many = Mapping::private(pages * PAGE_BYTES, false).unwrap();
        for page in (1..pages).step_by(2) {
            many.lay_copy_on_write(page * PAGE_BYTES, &program, 0, PAGE_BYTES).unwrap();
        }
        let mut checks = maps.checks();
        for round in 0..2 {
            for page in (0..pages - 3).map(|page| (page * 101 + round) % (pages - 3)) {
                assert!(checks.is_readable(many.address() + page * PAGE_BYTES + 7, 2 * PAGE_BYTES));
            }
        }
        drop(many);
        drop(memory);
        assert!(!maps.checks().is_readable(address, 1));
        assert!(!maps.checks().is_readable(usize::MAX - 1, 2));
    }

    #[test]
    fn memory_that_may_not_be_read_is_told_where_the_kernel_can() {
        let memory = Mapping::reserve(PAGE_BYTES).unwrap();
        let maps = Maps::default();
        let asked = File::open(PATH).map(|file| readable_end(&file, memory.address(), memory.address() + 1, true));
        match asked {
            Ok(Ok(found)) => assert!(found.is_none() && !maps.is_readable(memory.address(), 1)),
            _ => assert!(maps.is_readable(memory.address(), 1)),
        }
    }
}
