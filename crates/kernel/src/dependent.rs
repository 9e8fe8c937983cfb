//! Programs that end when whoever started them does, whatever ends it.
//!
//! # Safety
//!
//! What runs between fork and exec makes system calls with numbers, and nothing else: it allocates nothing and takes no lock.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the program be killed when the thread that starts it ends (prctl(2), PR_SET_PDEATHSIG): so that thread has to stay for as long as
/// the program is wanted.
pub fn dies_with_thread(command: &mut Command) {
    let parent = std::process::id();
    let prepare = move || {
        // SAFETY: the call takes numbers, and concerns the child alone.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call takes nothing. A parent that ended before is not told of any more.
        if unsafe { libc::getppid() } as u32 != parent {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    };
    // SAFETY: what is run in the child calls the kernel only.
    unsafe { command.pre_exec(prepare) };
}
