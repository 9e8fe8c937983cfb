//! Space in files: taking it before it is written, and giving it back (fallocate(2)).

use crate::map::Mapping;
use crate::{Failure, points};
use rustix::fs::{self, FallocateFlags, SeekFrom};
use rustix::io::{Errno, retry_on_intr};
use std::fs::{File, read_to_string};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Of sysfs, in which a device's memory is a file (statfs(2)).
const SYSFS_MAGIC: i64 = 0x6265_6572;

fn fallocate(file: &File, flags: FallocateFlags, start: u64, bytes: u64) -> Result<(), Failure> {
    let done = retry_on_intr(|| fs::fallocate(file, flags, start, bytes));
    done.map_err(|error| Failure::of("fallocate", format!("{bytes} bytes at {start}"), error))
}

/// Makes sure that `bytes` at `start` have memory or disk behind them, so that writing them cannot fail later.
pub fn take(file: &File, start: u64, bytes: u64) -> Result<(), Failure> {
    if let Some(source) = points::fails(libc::ENOSPC) {
        return Err(Failure { call: "fallocate", detail: format!("{bytes} bytes at {start}"), source });
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, start, bytes) {
        Err(_) if is_device(file) => Ok(()),
        done => done,
    }
}

/// Whether the `bytes` of a file, of which so many are allocated, can be read through a map. A tmpfs allocates what is missing when it is
/// read there, and ends the process with SIGBUS if it is full; other file systems show a hole as zeros.
pub fn is_there(file: &File, allocated_bytes: u64, bytes: u64) -> bool {
    allocated_bytes >= bytes || !fs::fstatfs(file).is_ok_and(|status| status.f_type == libc::TMPFS_MAGIC)
}

/// Gives the space behind `bytes` at `start` back; they read as zeros afterwards.
pub fn give_back(file: &File, start: u64, bytes: u64) -> Result<(), Failure> {
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, bytes)
}

/// The ranges from `start` to `end` that hold data (`SEEK_DATA`, lseek(2)). A file system may leave out space that was taken
/// and never written, and may count holes as data. Moves the file's offset.
pub fn data_ranges(file: &File, start: u64, end: u64) -> Result<Vec<std::ops::Range<u64>>, Failure> {
    let seek = |to: SeekFrom| match fs::seek(file, to) {
        Ok(at) => Ok(at.min(end)),
        // There is nothing of the kind behind it.
        Err(Errno::NXIO) => Ok(end),
        Err(error) => Err(Failure::of("lseek", format!("{to:?}"), error)),
    };
    let mut ranges = Vec::new();
    let mut at = start;
    while at < end {
        let data = seek(SeekFrom::Data(at))?;
        if data >= end {
            break;
        }
        at = seek(SeekFrom::Hole(data))?.max(data + 1);
        ranges.push(data..at);
    }
    Ok(ranges)
}

/// Where the first byte is that is not zero, if there is one. Moves the file's offset.
pub fn first_content(file: &File) -> Result<Option<u64>, Failure> {
    let mut bytes = vec![0; 1 << 20];
    for range in data_ranges(file, 0, u64::MAX >> 1)? {
        let mut at = range.start;
        while at < range.end {
            let most = bytes.len().min((range.end - at).try_into().unwrap_or(usize::MAX));
            let length = file.read_at(&mut bytes[..most], at);
            let length = length.map_err(|source| Failure { call: "pread", detail: format!("at {at}"), source })?;
            if let Some(first) = bytes[..length].iter().position(|byte| *byte != 0) {
                return Ok(Some(at + first as u64));
            }
            if length == 0 {
                return Ok(None);
            }
            at += length as u64;
        }
    }
    Ok(None)
}

/// Whether a file is a device's memory (sysfs): all of it is there, for good, and it is read and written by maps alone.
pub fn is_device(file: &File) -> bool {
    fs::fstatfs(file).is_ok_and(|status| status.f_type == SYSFS_MAGIC)
}

/// The first bytes of a file, as far as it has as many.
///
/// # Errors
/// As pread(2), and as mmap(2) if it is a device's memory.
pub fn read_begin(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if is_device(file) => return read_mapped(file, bytes),
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

fn read_mapped(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let length = (file.metadata()?.len()).min(bytes.len() as u64) as usize;
    let map = Mapping::shared(file, 0, length, false).map_err(|failure| failure.source)?;
    map.read(0, &mut bytes[..length]);
    Ok(length)
}

/// Bytes that can still be written to the file system of `file`; `None` where it does not say, as one without a bound.
pub fn free_bytes(file: &File) -> Option<u64> {
    let status = fs::fstatvfs(file).ok()?;
    let has_bound = !matches!(status.f_blocks, 0 | u64::MAX);
    let bound_bytes = has_bound.then(|| status.f_bavail.saturating_mul(status.f_frsize));
    match large_page_bytes(file) {
        Some(page_bytes) => free_large_bytes(Path::new("/sys"), page_bytes, bound_bytes),
        None => bound_bytes,
    }
}

/// The same of hugetlbfs: its bound, if it has one, promises no pages, which are the kernel's and all such file systems'.
fn free_large_bytes(sys: &Path, page_bytes: u64, bound_bytes: Option<u64>) -> Option<u64> {
    let folder = sys.join(format!("kernel/mm/hugepages/hugepages-{}kB", page_bytes >> 10));
    let bytes = |name: &str| {
        let count: u64 = read_to_string(folder.join(name)).ok()?.trim().parse().ok()?;
        Some(count.saturating_mul(page_bytes))
    };
    let free_bytes = bytes("free_hugepages")?;
    match bound_bytes {
        // Of the pages that are promised to somebody, some may be promised to this file system (its option `min_size`).
        Some(bound_bytes) => Some(bound_bytes.min(free_bytes)),
        None => Some(free_bytes.saturating_sub(bytes("resv_hugepages")?)),
    }
}

/// Whether the file system of `file` has no room for one more file, as those have none that were made with a number of them and
/// have used it up.
pub fn lacks_inodes(file: &File) -> bool {
    fs::fstatvfs(file).is_ok_and(|status| status.f_files > 0 && status.f_favail == 0)
}

/// Bytes of the large pages that a file consists of, if it lies on hugetlbfs: of such a file only whole pages have memory or
/// none, and it is read and written by maps alone.
pub fn large_page_bytes(file: &File) -> Option<u64> {
    let status = fs::fstatfs(file).ok()?;
    (status.f_type == libc::HUGETLBFS_MAGIC).then_some(status.f_bsize as u64)
}

/// Whether [`take`] is worth trying for so many bytes: `false` where it is known to fail. A tmpfs takes page by page and gives
/// all of them back when one is missing, so that a try in vain leaves nothing to anybody for as long as it lasts; what it has
/// free it tells exactly, unless it has no limit. Other file systems reserve, and what they tell is only about so.
pub fn may_take(file: &File, bytes: u64) -> bool {
    let Ok(status) = fs::fstatfs(file) else { return true };
    let is_exact = status.f_type == libc::TMPFS_MAGIC && status.f_blocks > 0;
    !is_exact || status.f_bfree.saturating_mul(status.f_bsize as u64) >= bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_BYTES;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_was_written_is_told_from_what_was_only_taken() {
        let path = format!("/dev/shm/stillframe-space-{}", std::process::id());
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let page = PAGE_BYTES as u64;
        file.set_len(10 * page).unwrap();
        take(&file, 0, 3 * page).unwrap();
        for at in [1, 5, 6, 9] {
            file.write_all_at(&[1], at * page).unwrap();
        }
        let ranges = |start: u64, end: u64| -> Vec<(u64, u64)> {
            let ranges = data_ranges(&file, start * page, end * page).unwrap();
            ranges.into_iter().map(|range| (range.start / page, range.end / page)).collect()
        };
        assert_eq!(ranges(0, 10), [(1, 2), (5, 7), (9, 10)]);
        assert_eq!(ranges(6, 9), [(6, 7)]);
        assert_eq!(ranges(2, 5), []);
        assert_eq!(ranges(10, 15), []);
        assert!(may_take(&file, page));
    }

    #[test]
    fn what_is_free_is_told_where_it_is_known() {
        const PAGE: u64 = 2 << 20;
        let sys = std::env::temp_dir().join(format!("stillframe-free-{}", std::process::id()));
        assert_eq!(free_large_bytes(&sys, PAGE, None), None, "a kernel without such pages");
        let folder = sys.join("kernel/mm/hugepages/hugepages-2048kB");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("free_hugepages"), "30\n").unwrap();
        std::fs::write(folder.join("resv_hugepages"), "3\n").unwrap();
        assert_eq!(free_large_bytes(&sys, PAGE, None), Some(27 * PAGE));
        assert_eq!(free_large_bytes(&sys, PAGE, Some(4 * PAGE)), Some(4 * PAGE));
        assert_eq!(free_large_bytes(&sys, PAGE, Some(40 * PAGE)), Some(30 * PAGE));
        assert_eq!(free_large_bytes(&sys, PAGE << 9, None), None);
        std::fs::remove_dir_all(&sys).unwrap();
        // It has no bound, and says that all of nothing is free.
        assert_eq!(free_bytes(&File::open("/proc/self/status").unwrap()), None);
    }
}
