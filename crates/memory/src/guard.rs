//! Memory that nobody writes for a while: threads that try wait.

use crate::kernel::{Descriptor, Errno, ioctl, userfaultfd};

/// Numbers of userfaultfd(2) and ioctl_userfaultfd(2).
const USER_MODE_ONLY: i32 = 1;
const API: u64 = 0xaa;
const FEATURE_WRITE_PROTECTED_LARGE_PAGES: u64 = 1 << 12;
const REGISTER_WRITE_PROTECTED: u64 = 1 << 1;
const WRITE_PROTECTED: u64 = 1;
const SAY_API: usize = 0xc018_aa3f;
const REGISTER: usize = 0xc020_aa00;
const WRITE_PROTECT: usize = 0xc018_aa06;

/// While it lives, who writes to the memory waits. Then he finds what is there by then.
#[derive(Debug)]
pub struct Guard(#[expect(dead_code, reason = "ends by being closed")] Descriptor);

/// Whether the kernel has such guards for this user.
pub fn is_possible() -> bool {
    open().is_ok()
}

fn open() -> Result<Descriptor, Errno> {
    // Without the flag also system calls wait that write there, which only some users may ask for; with it they
    // fail.
    let file = userfaultfd(0).or_else(|_| userfaultfd(USER_MODE_ONLY))?;
    // SAFETY: the call reads and writes as many words as it is given.
    unsafe { ioctl(&file, SAY_API, &mut [API, FEATURE_WRITE_PROTECTED_LARGE_PAGES, 0])? };
    Ok(file)
}

impl Guard {
    /// Guards a range of large pages. An error where the kernel has no such guard for this user.
    pub fn new(address: usize, bytes: usize) -> Result<Guard, Errno> {
        let file = open()?;
        let (start, count) = (address as u64, bytes as u64);
        // SAFETY: each call reads and writes as many words as it is given. The memory is not changed by any.
        unsafe {
            ioctl(&file, REGISTER, &mut [start, count, REGISTER_WRITE_PROTECTED, 0])?;
            ioctl(&file, WRITE_PROTECT, &mut [start, count, WRITE_PROTECTED])?;
        }
        Ok(Guard(file))
    }
}
