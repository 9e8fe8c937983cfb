//! Memory in pages of one kind.
//!
//! # Safety
//!
//! A [`Memory`] owns its range of addresses, and is the only one that writes there. Bytes are read and written through it, by
//! volatile accesses, so that the compiler leaves none out; two threads do so only with [`AtomicU8`].
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::AtomicU8;

/// Bytes of a small page.
pub const SMALL_BYTES: usize = 4 << 10;
/// Bytes of a large page.
pub const LARGE_BYTES: usize = 2 << 20;
/// Bytes of a page of the largest kind.
pub const HUGE_BYTES: usize = 1 << 30;

/// Which pages a program's memory lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Pages of 4 KiB.
    Small,
    /// Anonymous memory that asks for large pages (`MADV_HUGEPAGE`), and has small ones where there are none.
    Thp,
    /// Reserved pages of 2 MiB (hugetlb).
    Hugetlb,
    /// Reserved pages of 1 GiB (hugetlb).
    Gigantic,
}

impl Kind {
    /// The page that a first touch makes.
    pub fn page_bytes(self) -> usize {
        match self {
            Kind::Small => SMALL_BYTES,
            Kind::Thp | Kind::Hugetlb => LARGE_BYTES,
            Kind::Gigantic => HUGE_BYTES,
        }
    }
}

/// Private memory that nobody has touched.
#[derive(Debug)]
pub struct Memory {
    begin: usize,
    bytes: usize,
    reserved: (usize, usize),
}

fn call(name: &str, code: libc::c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            Err(io::Error::new(error.kind(), format!("{name}: {error}")))
        }
    }
}

impl Memory {
    /// So many bytes, rounded up to whole pages of the kind.
    ///
    /// # Errors
    /// Those of mmap(2): of reserved pages there may be too few.
    pub fn new(kind: Kind, bytes: usize) -> io::Result<Memory> {
        let bytes = bytes.next_multiple_of(kind.page_bytes().max(LARGE_BYTES));
        let hugetlb = match kind {
            Kind::Small | Kind::Thp => 0,
            Kind::Hugetlb => libc::MAP_HUGETLB | libc::MAP_HUGE_2MB,
            Kind::Gigantic => libc::MAP_HUGETLB | libc::MAP_HUGE_1GB,
        };
        // The kernel places reserved pages at their own boundaries.
        let around = if hugetlb == 0 { LARGE_BYTES } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | hugetlb;
        // SAFETY: without an address the kernel chooses one that is free.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes + around, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let reserved = (at as usize, bytes + around);
        let memory = Memory { begin: reserved.0.next_multiple_of(LARGE_BYTES), bytes, reserved };
        match kind {
            Kind::Small => memory.advise("MADV_NOHUGEPAGE", libc::MADV_NOHUGEPAGE)?,
            Kind::Thp => memory.advise("MADV_HUGEPAGE", libc::MADV_HUGEPAGE)?,
            Kind::Hugetlb | Kind::Gigantic => {}
        }
        Ok(memory)
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Has all pages made at once (`MADV_POPULATE_WRITE`).
    ///
    /// # Errors
    /// Those of madvise(2).
    pub fn populate(&self) -> io::Result<()> {
        self.advise("MADV_POPULATE_WRITE", libc::MADV_POPULATE_WRITE)
    }

    /// Lets small pages become large ones.
    ///
    /// # Errors
    /// Those of madvise(2).
    pub fn allow_large(&self) -> io::Result<()> {
        self.advise("MADV_HUGEPAGE", libc::MADV_HUGEPAGE)
    }

    /// Has its small pages, from an offset on, made into a large one.
    ///
    /// # Errors
    /// Those of madvise(2).
    pub fn collapse(&self, offset: usize) -> io::Result<()> {
        assert!(offset + LARGE_BYTES <= self.bytes);
        // SAFETY: the range lies in its own; the bytes stay as they are.
        let code =
            unsafe { libc::madvise((self.begin + offset) as *mut libc::c_void, LARGE_BYTES, libc::MADV_COLLAPSE) };
        call("MADV_COLLAPSE", code)
    }

    fn advise(&self, name: &str, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is its own; none of these advices takes bytes away.
        call(name, unsafe { libc::madvise(self.begin as *mut libc::c_void, self.bytes, advice) })
    }

    /// Writes a byte.
    pub fn touch(&self, offset: usize) {
        assert!(offset < self.bytes);
        // SAFETY: the byte is its own, and nobody has a reference to it.
        unsafe { ((self.begin + offset) as *mut u8).write_volatile(1) }
    }

    /// A byte that several threads write.
    pub fn shared(&self, offset: usize) -> &AtomicU8 {
        assert!(offset < self.bytes);
        // SAFETY: the byte lives as long as this does, and whoever uses it as an atomic does so only.
        unsafe { AtomicU8::from_ptr((self.begin + offset) as *mut u8) }
    }

    /// Writes all bytes, as fast as the machine does.
    pub fn fill(&mut self, value: u8) {
        // SAFETY: the range is its own, and borrowed alone.
        unsafe { std::ptr::write_bytes(std::hint::black_box(self.begin as *mut u8), value, self.bytes) }
    }

    /// The number at a place, of 8 bytes each.
    pub fn number(&self, index: usize) -> u64 {
        assert!(index < self.bytes / 8);
        // SAFETY: the number lies in its own range, aligned, and is written through it only.
        unsafe { ((self.begin + index * 8) as *const u64).read_volatile() }
    }

    /// Puts a number at a place.
    pub fn put(&mut self, index: usize, number: u64) {
        assert!(index < self.bytes / 8);
        // SAFETY: as above.
        unsafe { ((self.begin + index * 8) as *mut u64).write_volatile(number) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the range was mapped so, and is used no more.
        let _ = unsafe { libc::munmap(self.reserved.0 as *mut libc::c_void, self.reserved.1) };
    }
}

/// Nanoseconds of a clock that never goes back.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer refers to a live timespec. The call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What this process has counted: faults that needed no disk.
pub fn faults() -> u64 {
    // SAFETY: all zeros are such a value.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: the pointer refers to a live value.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    usage.ru_minflt as u64
}
