//! A network namespace of their own, with nothing in it but loopback, for two children that talk over
//! sockets: SST gives out loopback addresses when told to, but listens on every interface.

use crate::Result;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

const NET: i32 = libc::CLONE_NEWNET;
/// Who is not root may make a network namespace inside a user namespace.
const USER_AND_NET: i32 = libc::CLONE_NEWUSER | libc::CLONE_NEWNET;

/// The command will start in a new namespace. `spawn` returns when that is done, or with its error.
pub fn make(command: &mut Command) {
    // SAFETY: `new_namespace` makes system calls only, which is allowed between fork and exec.
    unsafe { command.pre_exec(new_namespace) };
}

/// The command will start in the namespace of process `pid`, a child of ours that is not reaped yet.
pub fn join(command: &mut Command, pid: u32) -> Result<()> {
    // SAFETY: a system call without pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(format!("pidfd_open: {}", io::Error::last_os_error()).into());
    }
    // SAFETY: the file descriptor is new, so nobody else owns it.
    let process = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    // SAFETY: the closure makes system calls only, which is allowed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            check(libc::setns(process.as_raw_fd(), NET))
                .or_else(|_| check(libc::setns(process.as_raw_fd(), USER_AND_NET)))
        })
    };
    Ok(())
}

/// Whether this machine lets us.
pub fn test() -> Result<()> {
    let mut command = Command::new("true");
    make(&mut command);
    match command.status() {
        Ok(_) => Ok(()),
        Err(e) => Err(format!("cannot make a network namespace to keep it on loopback: {e}").into()),
    }
}

fn new_namespace() -> io::Result<()> {
    // SAFETY: system calls; `up` is a valid ifreq, alive during the call, that names the interface.
    unsafe {
        check(libc::unshare(NET)).or_else(|_| check(libc::unshare(USER_AND_NET)))?;
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        check(socket)?;
        let mut up: libc::ifreq = std::mem::zeroed();
        up.ifr_name[0] = b'l' as libc::c_char;
        up.ifr_name[1] = b'o' as libc::c_char;
        up.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        check(libc::ioctl(socket, libc::SIOCSIFFLAGS, &up))
    }
}

fn check(result: i32) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
