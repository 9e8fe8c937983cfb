//! What may be done where a signal handler may be running: nothing that allocates or waits.

use crate::kernel::{Stat, fstat};
use crate::names;
use libc::{c_char, c_int};
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Text of at most so many bytes, with a zero behind it.
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    fn new() -> Text<N> {
        Text { bytes: [0; N], length: 0 }
    }

    fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let room = self.bytes.get_mut(self.length..end).filter(|_| end < N).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Longest path that is looked at. A handler may have a stack of few pages.
const PATH_BYTES: usize = 1024;

/// A file below `/dev/shm` that has a region and is about to lose its last name.
pub struct Doomed {
    path: [u8; PATH_BYTES],
    length: usize,
    pub key: (u64, u64),
}

impl Doomed {
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path[..self.length]))
    }
}

/// An open file, closed with it.
struct Open(c_int);

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this one's own.
        unsafe { libc::close(self.0) };
    }
}

/// Whether unlinkat(2) with these arguments may remove a file that has a region: one on the device of `/dev/shm`, with no other
/// name. Costs one system call.
pub fn may_be_doomed(directory: c_int, name: *const c_char) -> bool {
    if name.is_null() || !names::is_known() {
        return false;
    }
    // SAFETY: `stat` is plain data, valid when zeroed.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the arguments are the caller's of unlinkat, which takes the same; the call writes at most a `stat`.
    let found = unsafe { libc::fstatat(directory, name, &mut stat, libc::AT_SYMLINK_NOFOLLOW) } == 0;
    let is_regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    let (key, bytes, names) = ((stat.st_dev, stat.st_ino), 0, u64::from(stat.st_nlink as u32));
    found && names == 1 && names::may_be_shared(&Stat { key, bytes, names, is_regular })
}

/// The file that unlinkat(2) with these arguments is about to remove, if it has a region; of those that
/// [may be](may_be_doomed) so.
pub fn doomed(directory: c_int, name: *const c_char) -> Option<Doomed> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: as for fstatat above.
    let open = Open(unsafe { libc::openat(directory, name, flags) });
    let stat = fstat(open.0).filter(|stat| stat.names == 1 && names::may_be_shared(stat))?;
    let mut link = Text::<32>::new();
    write!(link, "/proc/self/fd/{}", open.0).ok()?;
    let mut found = Doomed { path: [0; PATH_BYTES], length: 0, key: stat.key };
    // SAFETY: the text ends with a zero, and the call writes at most as many bytes as there are.
    let length = unsafe { libc::readlink(link.as_ptr(), found.path.as_mut_ptr().cast(), PATH_BYTES) };
    found.length = usize::try_from(length).ok().filter(|length| *length < PATH_BYTES)?;
    (names::is_ours(found.path()) && has_region(found.path())?).then_some(found)
}

/// Whether there is a region for a file.
fn has_region(path: &Path) -> Option<bool> {
    let mut head = Text::<PATH_BYTES>::new();
    head.write_str(names::root().to_str()?).and_then(|()| head.write_char('/')).ok()?;
    names::write_region_name(path, &mut head)?;
    head.write_str("/head").ok()?;
    // SAFETY: the text ends with a zero.
    Some(unsafe { libc::access(head.as_ptr(), libc::F_OK) } == 0)
}

/// Whether this thread may be in a signal handler. One blocks its own signal, unless it was installed with `SA_NODEFER`
/// (sigaction(2)), so where neither is so, none is running.
pub fn may_be_handling() -> bool {
    // SAFETY: a set of signals is plain data, and the call writes the thread's.
    let mut blocked: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above; nothing is blocked by it.
    if unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut blocked) } != 0 {
        return true;
    }
    (1..=libc::SIGRTMAX()).any(|signal| {
        // SAFETY: plain data, valid when zeroed.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: the calls read and write what is this function's own.
        unsafe {
            libc::sigismember(&blocked, signal) == 1
                // What the C library keeps to itself has no handlers of programs.
                || libc::sigaction(signal, std::ptr::null(), &mut action) == 0
                    && action.sa_flags & libc::SA_NODEFER != 0
        }
    })
}
