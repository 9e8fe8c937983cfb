//! What of the address space is there.

use crate::{Failure, PAGE_BYTES};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

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

/// `_IOWR('f', 17, struct procmap_query)`
const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611;
const _: () = assert!(std::mem::size_of::<Query>() == 0x68);
/// The mapping at the address, if it can be read.
const VMA_READABLE: u64 = 1;

/// The list of this process's mappings.
#[derive(Debug, Default)]
pub struct Maps {
    /// `None` inside where the kernel cannot be asked that way.
    file: OnceLock<Option<File>>,
}

impl Maps {
    /// Whether all memory at these addresses may be read. No page is touched, so this takes a fraction of a microsecond for
    /// each mapping, whatever its size. Before Linux 6.11 memory that is there and may not be read passes.
    pub fn is_readable(&self, address: usize, bytes: usize) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        let file = self.file.get_or_init(|| File::open("/proc/self/maps").ok()).as_ref();
        let mut at = address;
        while at < end {
            match file.map(|file| readable_end(file, at)) {
                Some(Ok(Some(next))) => at = next,
                Some(Ok(None)) => return false,
                Some(Err(_)) | None => return is_mapped(at, end),
            }
        }
        true
    }
}

/// The end of the readable mapping at an address, if there is one.
fn readable_end(file: &File, address: usize) -> Result<Option<usize>, Failure> {
    let size = std::mem::size_of::<Query>() as u64;
    let mut query = Query { size, flags: VMA_READABLE, address: address as u64, ..Query::default() };
    // SAFETY: the structure is the one the call takes, and asks for no text to be written elsewhere.
    if unsafe { libc::ioctl(file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) } == 0 {
        // What ends at or before its beginning would be asked for again and again.
        return Ok(Some(query.end as usize).filter(|end| *end > address));
    }
    let failure = Failure::last("ioctl", "PROCMAP_QUERY");
    if failure.errno() == libc::ENOENT { Ok(None) } else { Err(failure) }
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

    #[test]
    fn memory_is_readable_where_all_of_it_is_there() {
        let memory = Mapping::private(8 * PAGE_BYTES, false).unwrap();
        let (start, bytes) = (memory.address(), memory.bytes());
        let without = Maps { file: OnceLock::from(None) };
        for maps in [Maps::default(), without] {
            assert!(maps.is_readable(start, bytes));
            assert!(maps.is_readable(start + 100, 1));
            assert!(maps.is_readable(start + bytes - 1, 1));
            assert!(maps.is_readable(0, 0));
            assert!(!maps.is_readable(0, 1));
            assert!(!maps.is_readable(usize::MAX - 5, 4));
            assert!(!maps.is_readable(usize::MAX - 5, 100));
        }
        drop(memory);
        // Whoever gets these addresses next, it is not all of them and all that follows.
        assert!(!Maps::default().is_readable(start, 1 << 46));
    }

    #[test]
    fn memory_that_may_not_be_read_is_told_where_the_kernel_can() {
        let memory = Mapping::reserve(PAGE_BYTES).unwrap();
        let maps = Maps::default();
        let asked = File::open("/proc/self/maps").map(|file| readable_end(&file, memory.address()));
        match asked {
            Ok(Ok(found)) => assert!(found.is_none() && !maps.is_readable(memory.address(), 1)),
            _ => assert!(maps.is_readable(memory.address(), 1)),
        }
    }
}
