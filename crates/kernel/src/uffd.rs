//! Asynchronous write protection (userfaultfd(2), `UFFD_FEATURE_WP_ASYNC`, Linux 6.7).
//!
//! An armed page takes one fault at its first write, in which the kernel itself disarms it; nobody is woken and no
//! handler runs. What was written is found later with [`crate::pagemap`].

use crate::Failure;
use crate::fork::{Common, Unforked};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::Arc;

const UFFD_USER_MODE_ONLY: i32 = 1;
const UFFD_API: u64 = 0xAA;
const FEATURES: u64 =
    FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_HUGETLBFS_SHMEM | FEATURE_WP_UNPOPULATED | FEATURE_WP_ASYNC;
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1;
const FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const REGISTER_MODE_WP: u64 = 2;
const WRITEPROTECT_MODE_WP: u64 = 1;
const COPY_MODE_DONTWAKE: u64 = 1;
const COPY_MODE_WP: u64 = 2;

// Numbers of linux/userfaultfd.h: _IOWR(0xAA, nr, size).
const UFFDIO_API: u64 = request(3, 0x3F, 24);
const UFFDIO_REGISTER: u64 = request(3, 0x00, 32);
const UFFDIO_UNREGISTER: u64 = request(2, 0x01, 16);
const UFFDIO_COPY: u64 = request(3, 0x03, 40);
const UFFDIO_WRITEPROTECT: u64 = request(3, 0x06, 24);

const fn request(direction: u64, number: u64, bytes: u64) -> u64 {
    direction << 30 | bytes << 16 | 0xAA << 8 | number
}

/// A userfaultfd whose write protection is resolved by the kernel. It works on the memory of the process that opened it, so
/// forked children have none of it.
#[derive(Debug)]
pub struct Userfault {
    file: Arc<Unforked>,
}

static COMMON: Common = Common::new();

fn control(
    descriptor: RawFd,
    call: &'static str,
    number: u64,
    words: &mut [u64],
    detail: impl FnOnce() -> String,
) -> Result<(), Failure> {
    // SAFETY: `words` has at least the size encoded in the request number: each caller below passes that many.
    match unsafe { libc::ioctl(descriptor, number as _, words.as_mut_ptr()) } {
        0 => Ok(()),
        _ => {
            let source = std::io::Error::last_os_error();
            Err(Failure { call, detail: detail(), source })
        }
    }
}

fn open() -> Result<File, Failure> {
    // SAFETY: the call takes flags only.
    let raw = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | UFFD_USER_MODE_ONLY) };
    if raw < 0 {
        return Err(Failure::last("userfaultfd", "UFFD_USER_MODE_ONLY"));
    }
    // SAFETY: the call returned a new descriptor, owned by nobody else.
    let file = unsafe { File::from_raw_fd(raw as i32) };
    let mut api = [UFFD_API, FEATURES, 0u64];
    control(file.as_raw_fd(), "ioctl(UFFDIO_API)", UFFDIO_API, &mut api, || "WP_ASYNC".into())?;
    Ok(file)
}

impl Userfault {
    /// Opens one; an error says that this kernel cannot, or that this process may not. The kernel refuses it memory that
    /// another one watches.
    pub fn open() -> Result<Userfault, Failure> {
        Ok(Userfault { file: Unforked::open(open)?.into() })
    }

    /// The one that a process has in common, for memory of which its user knows that nobody else has it watched.
    pub fn common() -> Result<Userfault, Failure> {
        Ok(Userfault { file: COMMON.get(open)? })
    }

    fn control(
        &self,
        call: &'static str,
        number: u64,
        words: &mut [u64],
        detail: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let Some(file) = self.file.get() else {
            let source = std::io::Error::from_raw_os_error(libc::EBADF);
            return Err(Failure { call, detail: "in a forked child".into(), source });
        };
        control(file.as_raw_fd(), call, number, words, detail)
    }

    /// Lets pages in this range be armed. They start unarmed, but for those that were armed elsewhere and moved here, which
    /// kernels before 6.12.11 leave so (CVE-2025-21696): a write disarms them no more, unless they are disarmed first.
    pub fn register(&self, address: usize, bytes: usize) -> Result<(), Failure> {
        let mut words = [address as u64, bytes as u64, REGISTER_MODE_WP, 0];
        self.control("ioctl(UFFDIO_REGISTER)", UFFDIO_REGISTER, &mut words, || describe(address, bytes))
    }

    /// Disarms the range and lets go of it.
    pub fn unregister(&self, address: usize, bytes: usize) -> Result<(), Failure> {
        let mut words = [address as u64, bytes as u64];
        self.control("ioctl(UFFDIO_UNREGISTER)", UFFDIO_UNREGISTER, &mut words, || describe(address, bytes))
    }

    /// Gives registered pages these bytes, and arms them: memory of their own that is neither zeroed before nor, where they
    /// show a file, filled from that. Pages that were touched before are an error, and so are those of a file on a disk.
    pub fn fill(&self, address: usize, pages: &[u8]) -> Result<(), Failure> {
        let mut done = 0;
        while done < pages.len() {
            let left = &pages[done..];
            let (to, from) = ((address + done) as u64, left.as_ptr() as u64);
            let mut words = [to, from, left.len() as u64, COPY_MODE_DONTWAKE | COPY_MODE_WP, 0];
            match self.control("ioctl(UFFDIO_COPY)", UFFDIO_COPY, &mut words, String::new) {
                // A call that was cut short says how far it came.
                Err(failure) if failure.errno() == libc::EAGAIN => done += (words[4] as i64).max(0) as usize,
                result => return result,
            }
        }
        Ok(())
    }

    /// Arms every page of the range, those that have no memory yet included.
    pub fn arm(&self, address: usize, bytes: usize) -> Result<(), Failure> {
        self.protect(address, bytes, WRITEPROTECT_MODE_WP)
    }

    /// Disarms every page of the range, whoever armed it.
    pub fn disarm(&self, address: usize, bytes: usize) -> Result<(), Failure> {
        self.protect(address, bytes, 0)
    }

    fn protect(&self, address: usize, bytes: usize, mode: u64) -> Result<(), Failure> {
        let mut words = [address as u64, bytes as u64, mode];
        self.control("ioctl(UFFDIO_WRITEPROTECT)", UFFDIO_WRITEPROTECT, &mut words, || describe(address, bytes))
    }
}

fn describe(address: usize, bytes: usize) -> String {
    format!("{bytes} bytes at {address:#x}")
}
