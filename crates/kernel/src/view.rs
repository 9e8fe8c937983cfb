//! A directory seen through a mount of its own that is read-only (open_tree(2), mount_setattr(2)).
//!
//! A descriptor that is open to read can be opened once more to write, by its name in `/proc/self/fd`, if the modes of the file let its
//! holder. What was opened through this mount cannot: whoever tries, root too, is told that the file system is read-only. The
//! mount has no place, so that nobody can find it, and goes with its last descriptor. The files are the same ones as ever: their
//! content, locks and futexes are shared with all who have them by another way.
//!
//! # Safety
//!
//! A user without privileges makes the mount in a user namespace, which takes a process of its own: the child is forked, and until it
//! ends makes system calls only, on memory that was made before.

use crate::Failure;
use crate::folder::{About, Folder};
use crate::local;
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// The argument of mount_setattr(2).
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

static READ_ONLY: MountAttributes = MountAttributes { set: 1, clear: 0, propagation: 0, user_namespace: 0 };

/// How long the child may take, which makes four system calls.
const PATIENCE: Duration = Duration::from_secs(10);

/// The directory that a path leads to, read-only. It has to be this one still.
///
/// # Errors
/// As open_tree(2), mount_setattr(2), and unshare(2) of a user namespace where the first is not permitted otherwise. `ESTALE` if the
/// path leads elsewhere by now.
pub fn read_only(path: &Path, expected: &About) -> Result<Folder, Failure> {
    let tree = match open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC) {
        Ok(tree) => {
            make_read_only(tree.as_raw_fd()).map_err(|error| failure("mount_setattr", path, error))?;
            tree
        }
        Err(Errno::PERM) => by_child(path)?,
        Err(error) => return Err(failure("open_tree", path, error.into())),
    };
    let folder = Folder::from(File::from(tree));
    let about = folder.about().map_err(|error| failure("fstat", path, error))?;
    match about.identity == expected.identity {
        true => Ok(folder),
        false => Err(failure("open_tree", path, io::Error::from_raw_os_error(libc::ESTALE))),
    }
}

fn failure(call: &'static str, path: &Path, source: io::Error) -> Failure {
    Failure { call, detail: path.display().to_string(), source }
}

fn make_read_only(tree: i32) -> io::Result<()> {
    let (number, flags) = (libc::SYS_mount_setattr, libc::AT_EMPTY_PATH);
    // SAFETY: the text and the attributes live through the call, and the size is theirs.
    let done =
        unsafe { libc::syscall(number, tree, c"".as_ptr(), flags, &raw const READ_ONLY, size_of::<MountAttributes>()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the child says that could not do a step: its `errno`, and which step.
const STEPS: [&str; 3] = ["unshare", "open_tree", "mount_setattr"];

/// The mount as made by a child in a user namespace of its own, in which every user may.
fn by_child(path: &Path) -> Result<OwnedFd, Failure> {
    let text = CString::new(path.as_os_str().as_bytes()).map_err(|error| failure("open_tree", path, error.into()))?;
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (own, childs) = pair.map_err(|error| failure("socketpair", path, error.into()))?;
    // SAFETY: the child calls the kernel only, and ends by _exit.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => return Err(failure("fork", path, io::Error::last_os_error())),
        0 => {
            let code = make_for_parent(&text, childs.as_raw_fd());
            // SAFETY: the call ends the process without running what belongs to its parent.
            unsafe { libc::_exit(code) }
        }
        _ => drop(childs),
    }
    let mut bytes = [0; 8];
    let came = local::wait_any(&[own.as_fd()], Some(PATIENCE)).and_then(|_| local::receive(&own, &mut bytes));
    let mut status = 0;
    // SAFETY: the number is that of a child that was not waited for yet, and the pointer is to a live number.
    unsafe {
        if !matches!(came, Ok(Some(_))) {
            libc::kill(pid, libc::SIGKILL);
        }
        libc::waitpid(pid, &mut status, 0);
    }
    if let Some(tree) = came?.and_then(|message| message.files.into_iter().next()) {
        return Ok(tree.into());
    }
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 0 };
    let (step, errno) = (code as usize >> 6, code & 63);
    let call = STEPS.get(step).filter(|_| errno != 0).copied().unwrap_or("fork");
    Err(failure(call, path, io::Error::from_raw_os_error(if errno == 0 { libc::EIO } else { errno })))
}

/// What the child does; how it ends.
fn make_for_parent(path: &CString, socket: i32) -> i32 {
    let code = |step: i32| {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        step << 6 | errno & 63
    };
    let flags = libc::OPEN_TREE_CLONE | libc::O_CLOEXEC as u32;
    // SAFETY: all calls take numbers, and pointers to memory that lives through them; the message is laid out as cmsg(3) says, in room
    // that is aligned and large enough for one descriptor.
    unsafe {
        // Nobody else ends it if it hangs in a file system, and its parent is killed.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) != 0 {
            return code(0);
        }
        // Other rights may have taken it back.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let tree = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) as i32;
        if tree < 0 {
            return code(1);
        }
        if make_read_only(tree).is_err() {
            return code(2);
        }
        let mut byte = [0u8; 1];
        let mut piece = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut room = [0u64; 4];
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(tree);
        if libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL) == 1 { 0 } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{Access, reopen};
    use crate::lock::{self, Kind};
    use std::os::unix::fs::PermissionsExt;

    /// In a process of its own, which may become another user.
    fn as_nobody(act: impl FnOnce()) -> i32 {
        // SAFETY: the child uses what this thread made, and ends without running what belongs to its parent.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
                    assert_eq!(libc::setresgid(65534, 65534, 65534), 0);
                    assert_eq!(libc::setresuid(65534, 65534, 65534), 0);
                    act();
                }));
                libc::_exit(i32::from(done.is_err()));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            status
        }
    }

    fn check(path: &Path) {
        let plain = Folder::open(path, false).unwrap();
        let seen = match read_only(path, &plain.about().unwrap()) {
            Ok(seen) => seen,
            // A system where nobody may: the broker goes by modes there.
            Err(failure) => return eprintln!("skipped: {failure}"),
        };
        let file = seen.file("file", Access::Read).unwrap();
        let refused = |error: io::Error| assert_eq!(error.raw_os_error(), Some(libc::EROFS), "{error}");
        refused(reopen(&file, true).unwrap_err());
        refused(seen.file("file", Access::Write).unwrap_err());
        refused(seen.file("new", Access::Create(0o600)).unwrap_err());
        refused(file.set_permissions(std::fs::Permissions::from_mode(0o777)).unwrap_err());
        refused(seen.remove_file("file").unwrap_err());
        // It is the same file, with the same locks.
        let writable = plain.file("file", Access::Write).unwrap();
        assert_eq!(About::of(&writable).unwrap().identity, About::of(&file).unwrap().identity);
        assert!(lock::try_lock(&file, Kind::Read, 0, 1).unwrap());
        assert!(lock::is_held(&writable, Kind::Write, 0, 1).unwrap());
        // What comes later is there, too.
        std::fs::write(path.join("later"), "x").unwrap();
        assert!(seen.has("later"));
        let elsewhere = Folder::open(Path::new("/"), false).unwrap().about().unwrap();
        assert_eq!(read_only(path, &elsewhere).unwrap_err().errno(), libc::ESTALE);
    }

    #[test]
    fn what_is_seen_through_it_cannot_be_written_by_anybody() {
        let path = std::path::PathBuf::from(format!("/dev/shm/stillframe-view-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("file"), "content").unwrap();
        for name in [".", "file"] {
            std::fs::set_permissions(path.join(name), std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        check(&path);
        if crate::user_id() == 0 {
            std::fs::remove_file(path.join("later")).ok();
            assert_eq!(as_nobody(|| check(&path)), 0);
        }
        std::fs::remove_dir_all(&path).unwrap();
    }

    static SAYS: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(-1);

    /// Says that it is there, and hangs; not for ever, if nobody ends it.
    extern "C" fn hang(_: i32) {
        // SAFETY: the calls are allowed in a handler, and the pointer is to a byte that lives for ever.
        unsafe {
            libc::write(SAYS.load(std::sync::atomic::Ordering::Relaxed), c"x".as_ptr().cast(), 1);
            libc::alarm(600);
            loop {
                libc::pause();
            }
        }
    }

    /// Hangs the next process in which this thread, or a child, makes a user namespace.
    fn hang_in_unshare() {
        let code = |class: u32, size: u32, mode: u32| (class | size | mode) as u16;
        let answer = |k: u32| libc::sock_filter { code: code(libc::BPF_RET, 0, libc::BPF_K), jt: 0, jf: 0, k };
        let is_call = code(libc::BPF_JMP, libc::BPF_JEQ, libc::BPF_K);
        let mut filter = [
            libc::sock_filter { code: code(libc::BPF_LD, libc::BPF_W, libc::BPF_ABS), jt: 0, jf: 0, k: 0 },
            libc::sock_filter { code: is_call, jt: 0, jf: 1, k: libc::SYS_unshare as u32 },
            answer(libc::SECCOMP_RET_TRAP),
            answer(libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the calls take numbers, a handler that may be called at any time, and a program that lives through the last one.
        unsafe {
            libc::signal(libc::SIGSYS, hang as *const () as libc::sighandler_t);
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
        }
    }

    #[test]
    fn a_child_that_hangs_ends_with_its_parent() {
        let (mut reads, says) = std::io::pipe().unwrap();
        // SAFETY: the child uses what this thread made, and ends without running what belongs to its parent.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            SAYS.store(says.as_raw_fd(), std::sync::atomic::Ordering::Relaxed);
            let done = std::panic::catch_unwind(|| {
                hang_in_unshare();
                let _ = by_child(Path::new("/"));
            });
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(done.is_err())) };
        }
        drop(says);
        let mut byte = [0];
        std::io::Read::read_exact(&mut reads, &mut byte).unwrap();
        // SAFETY: the number is that of a child that was not waited for yet, and the pointer is to a live number.
        unsafe {
            assert_eq!(libc::kill(pid, libc::SIGKILL), 0);
            assert_eq!(libc::waitpid(pid, &mut 0, 0), pid);
        }
        // The end of the last process that could say something.
        let ended = local::wait_any(&[reads.as_fd()], Some(Duration::from_secs(120))).unwrap();
        assert_eq!(ended, [true], "the child goes on without its parent");
    }
}
