//! Bringing files to disk (fsync(2), syncfs(2), sync_file_range(2), posix_fadvise(2), statfs(2)).

use crate::Failure;
use crate::witness::{self, Call};
use rustix::fs::{self, Advice, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Brings a file to disk, or the names in a directory.
///
/// # Errors
/// As fsync(2).
pub fn sync(file: &File) -> io::Result<()> {
    witness::call(Call::Sync(file), || file.sync_all())
}

/// Brings all that was written to the file system of `file` to disk, names included. From Linux 5.8 on it also reports
/// what could not be written since `file` was opened, whoever wrote it.
pub fn sync_file_system(file: &File) -> Result<(), Failure> {
    let synced = witness::call(Call::SyncFileSystem(file), || Ok(fs::syncfs(file)?));
    synced.map_err(|source| Failure { call: "syncfs", detail: String::new(), source })
}

/// Asks the kernel to begin writing what was written to `file`, and does not wait. It is a hint, and may do nothing.
pub fn begin_writeback(file: &File) {
    // SAFETY: the call takes numbers and a descriptor, which is open, and touches no memory.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Lets go of what the kernel has cached of `file` and was written, so that the next read is from the disk. It is a hint, and may
/// do nothing.
pub fn drop_cached(file: &File) {
    let _ = witness::call(Call::DropCached(file), || Ok(fs::fadvise(file, 0, None, Advice::DontNeed)?));
}

/// Makes writes to `file` go past the kernel's cache, or through it again. Past it, offsets, lengths and addresses have to
/// be multiples of what the disk asks for; pages always are. File systems that cannot refuse.
pub fn set_direct(file: &File, direct: bool) -> Result<(), Failure> {
    let mut flags = fs::fcntl_getfl(file).map_err(|error| Failure::of("fcntl(F_GETFL)", "", error))?;
    flags.set(OFlags::DIRECT, direct);
    fs::fcntl_setfl(file, flags).map_err(|error| Failure::of("fcntl(F_SETFL)", "O_DIRECT", error))
}

/// How many bytes the file system of `file` can have (fstatvfs(3)).
pub fn capacity_bytes(file: &File) -> Result<u64, Failure> {
    let told = fs::fstatvfs(file).map_err(|error| Failure::of("fstatvfs", "", error))?;
    Ok(told.f_blocks.saturating_mul(told.f_frsize))
}

/// What kind of file system a file is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// ext2, ext3 or ext4.
    Ext,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// Memory.
    Tmpfs,
    /// Any other, by the number the kernel has for it.
    Other(i64),
}

/// The file system of `file`.
pub fn file_system(file: &File) -> Result<FileSystem, Failure> {
    if let Some(kind) = witness::file_system() {
        return Ok(kind);
    }
    let status = fs::fstatfs(file).map_err(|error| Failure::of("fstatfs", "", error))?;
    // The numbers have different types on different machines.
    Ok(match status.f_type as i64 & 0xffff_ffff {
        0xef53 => FileSystem::Ext,
        0x5846_5342 => FileSystem::Xfs,
        0x9123_683e => FileSystem::Btrfs,
        0x0102_1994 => FileSystem::Tmpfs,
        other => FileSystem::Other(other),
    })
}

/// How many bytes of the file system of `file` are free for its user, and how many it has.
pub fn room_bytes(file: &File) -> Result<(u64, u64), Failure> {
    let status = fs::fstatvfs(file).map_err(|error| Failure::of("fstatvfs", "", error))?;
    let bytes = |blocks: u64| blocks.saturating_mul(status.f_frsize);
    Ok((bytes(status.f_bavail), bytes(status.f_blocks)))
}

/// Whether [`sync_file_system`] can be called and reports what could not be written: from Linux 5.8 on, unless a container refuses
/// the call.
pub fn reports_lost_writes() -> bool {
    // No descriptor has this number, so that nothing is brought to disk where the call is let through.
    // SAFETY: the call takes a number, and touches no memory.
    let called = unsafe { libc::syncfs(-1) };
    if called != 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EBADF) {
        return false;
    }
    let names = rustix::system::uname();
    let release = names.release().to_string_lossy();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_known_and_can_be_synced() {
        let memory = File::open("/dev/shm").unwrap();
        assert_eq!(file_system(&memory).unwrap(), FileSystem::Tmpfs);
        sync_file_system(&memory).unwrap();
        begin_writeback(&memory);
        drop_cached(&memory);
    }
}
