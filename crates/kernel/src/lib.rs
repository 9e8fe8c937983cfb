//! The unsafe crate, in which Stillframe meets the kernel.
//!
//! # Safety
//!
//! All raw memory of the project passes through this crate, under one invariant:
//!
//! * No reference (`&T`, `&mut T`) is made to memory another process may write, except `&AtomicU64`/`&AtomicU32` and
//!   read-only slices of pages that a lease keeps from being rewritten.
//! * A [`Mapping`](map::Mapping) owns its address range; nobody else maps or unmaps inside it.
//! * Addresses that come from a caller (a tracked array) are only passed to the kernel, which checks them, except in the
//!   functions marked `unsafe`, whose callers vouch for them.
//! * System calls are checked for errors at the place of the call and reported as [`Failure`] with the call's name.
#![allow(unsafe_code)]

pub mod background;
pub mod child;
pub mod copy;
pub mod dependent;
pub mod descriptors;
pub mod disk;
mod entries;
pub mod event;
pub mod exit;
pub mod exits;
pub mod folder;
pub mod fork;
pub mod futex;
pub mod local;
pub mod lock;
pub mod map;
pub mod maps;
pub mod memory;
pub mod pagemap;
pub mod points;
pub mod priority;
pub mod processors;
pub mod readiness;
pub mod remark;
pub mod residency;
pub mod socket;
pub mod space;
pub mod stream;
pub mod thread;
pub mod trust;
pub mod uffd;
pub mod vfio;
pub mod view;
pub mod witness;
pub mod workers;

use once_cell::race::OnceNonZeroUsize;
use rustix::io::Errno;
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

/// Bytes of a page. Stillframe's format is defined for pages of 4 KiB only.
pub const PAGE_BYTES: usize = 4096;

/// A system call that did not succeed.
#[derive(Debug)]
pub struct Failure {
    /// Name of the call, as in its manual page.
    pub call: &'static str,
    /// What it was called on: sizes, addresses, a path.
    pub detail: String,
    /// The error it reported.
    pub source: io::Error,
}

impl Failure {
    /// The failure of `call` according to `errno`.
    pub fn last(call: &'static str, detail: impl Into<String>) -> Failure {
        Failure { call, detail: detail.into(), source: io::Error::last_os_error() }
    }

    /// The failure of `call` with an error that was returned.
    pub(crate) fn of(call: &'static str, detail: impl Into<String>, error: Errno) -> Failure {
        Failure { call, detail: detail.into(), source: error.into() }
    }

    /// That there is no memory for so many bytes.
    pub fn no_memory(bytes: usize) -> Failure {
        let source = io::Error::from_raw_os_error(libc::ENOMEM);
        Failure { call: "malloc", detail: format!("{bytes} bytes"), source }
    }

    /// The `errno` of the call.
    pub fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({}): {}", self.call, self.detail, self.source)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Number of processors the process was given when it was started, wherever the calling thread is bound.
pub fn processor_count() -> usize {
    processors::Processors::of_process().count().max(1)
}

/// Nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos().min(u64::MAX.into()) as u64)
}

/// The name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Nanoseconds of the machine's monotonic clock (`CLOCK_MONOTONIC`), the same in all processes.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer refers to a live timespec. The call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since the machine started, those of its sleep included (`CLOCK_BOOTTIME`): nobody sets this clock.
pub fn boot_ns() -> u64 {
    time_of(libc::CLOCK_BOOTTIME).as_nanos().min(u64::MAX.into()) as u64
}

/// Processor time of all threads of this process (`CLOCK_PROCESS_CPUTIME_ID`).
pub fn process_time() -> Duration {
    time_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time of this thread (`CLOCK_THREAD_CPUTIME_ID`).
pub(crate) fn thread_time() -> Duration {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer refers to a live timespec. The call cannot fail for a clock that there always is.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The effective user of this process.
pub fn user_id() -> u32 {
    // SAFETY: the call touches no memory.
    unsafe { libc::geteuid() }
}

/// Mappings a process may have (`vm.max_map_count`).
pub fn mappings_max() -> usize {
    const DEFAULT: NonZeroUsize = NonZeroUsize::new(65_530).unwrap();
    static LIMIT: OnceNonZeroUsize = OnceNonZeroUsize::new();
    let limit = LIMIT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT)
    });
    limit.get()
}

/// Bytes of a page of this system; all but [`PAGE_BYTES`] is foreign to Stillframe.
pub fn system_page_bytes() -> usize {
    // SAFETY: the call takes a number and touches no memory.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(0)
}
