//! The control page: a small shared file through which the harness, and not the contender, paces and
//! times the two processes, so that pacing and timing are the same for everybody in any language.
//!
//! ```text
//! u32  created   the producer's channel exists            (futex)
//! u32  ready     the observer is attached to it           (futex)
//! u32  summed    number of steps summed and released      (futex): the producer's credit
//! 52 bytes of padding
//! row[steps] of 8 x u64:
//!      begin, fill_start, fill_end, published, summed     (CLOCK_MONOTONIC, ns)
//!      bits of the sum, 2 x unused
//! ```

use crate::{Result, work};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// The producer may be this many steps ahead of the observer, see the README.
const AHEAD: u64 = 1;

#[repr(C, align(64))]
struct Head {
    created: AtomicU32,
    ready: AtomicU32,
    summed: AtomicU32,
}

/// The times of one step. The producer writes the first four, the observer the rest.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Row {
    begin: AtomicU64,
    fill_start: AtomicU64,
    fill_end: AtomicU64,
    published: AtomicU64,
    summed: AtomicU64,
    sum: AtomicU64,
}

impl Row {
    /// The contender has memory to write to: everything until here is part of publishing.
    pub fn filling(&self) {
        self.fill_start.store(now(), Relaxed);
    }

    pub fn filled(&self) {
        self.fill_end.store(now(), Relaxed);
    }

    /// To be called before the observer releases the data: the release is not part of the step.
    pub fn summed(&self, sum: f64) {
        self.summed.store(now(), Relaxed);
        self.sum.store(sum.to_bits(), Relaxed);
    }
}

/// What the runner reads out of a row, in ms.
pub struct Times {
    pub publish: f64,
    pub step: f64,
    /// From the end of the previous step's sum to the end of this one's.
    pub period: f64,
}

pub struct Control {
    map: *const u8,
    bytes: usize,
    steps: usize,
    elements: usize,
}

impl Control {
    pub fn create(path: &Path, steps: usize, elements: usize) -> Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        file.set_len((size_of::<Head>() + steps * size_of::<Row>()) as u64)?;
        Self::map(&file, steps, elements)
    }

    pub fn open(path: &Path, steps: usize, elements: usize) -> Result<Self> {
        Self::map(&File::options().read(true).write(true).open(path)?, steps, elements)
    }

    fn map(file: &File, steps: usize, elements: usize) -> Result<Self> {
        let bytes = size_of::<Head>() + steps * size_of::<Row>();
        Ok(Self { map: crate::shm::map(file, bytes)?, bytes, steps, elements })
    }

    fn head(&self) -> &Head {
        // SAFETY: the mapping is page aligned, at least `bytes` long, lives as long as `self`, and is
        // only ever accessed through atomics; zeroes are a valid `Head`.
        unsafe { &*self.map.cast() }
    }

    fn rows(&self) -> &[Row] {
        // SAFETY: as in `head`; the rows follow the head, whose size keeps them aligned.
        unsafe { std::slice::from_raw_parts(self.map.add(size_of::<Head>()).cast(), self.steps) }
    }

    /// The producer's whole life: `step` gets memory, fills it between `Row::filling` and
    /// `Row::filled`, and publishes it.
    pub fn produce(&self, mut step: impl FnMut(u64, &Row) -> Result<()>) -> Result<()> {
        raise(&self.head().created, 1);
        wait_for(&self.head().ready, 1);
        for (i, row) in (0u64..).zip(self.rows()) {
            // Outside the times: waiting for the observer is nobody's cost.
            wait_for(&self.head().summed, i.saturating_sub(AHEAD));
            row.begin.store(now(), Relaxed);
            step(i, row)?;
            row.published.store(now(), Relaxed);
        }
        // What was published must outlive its last reader.
        wait_for(&self.head().summed, self.steps as u64);
        Ok(())
    }

    pub fn wait_created(&self) {
        wait_for(&self.head().created, 1);
    }

    /// The observer's whole life after it attached: `step` waits for a step's data, sums it, calls
    /// `Row::summed` and releases the data.
    pub fn observe(&self, mut step: impl FnMut(u64, &Row) -> Result<()>) -> Result<()> {
        raise(&self.head().ready, 1);
        for (i, row) in (0u64..).zip(self.rows()) {
            step(i, row)?;
            self.check(i)?;
            raise(&self.head().summed, i as u32 + 1);
        }
        Ok(())
    }

    /// The observer must have seen exactly this step, whole.
    fn check(&self, step: u64) -> Result<()> {
        let found = f64::from_bits(self.rows()[step as usize].sum.load(Relaxed));
        let expected = work::expected(step, self.elements);
        match found == expected {
            true => Ok(()),
            false => Err(format!("wrong sum in step {step}: {found}, not {expected}").into()),
        }
    }

    /// The times of every step after the warm-up; checks every sum once more, for the contenders
    /// whose observer is not ours.
    pub fn times(&self, warmup: usize) -> Result<Vec<Times>> {
        let ms = |from: &AtomicU64, to: &AtomicU64| (to.load(Relaxed) as f64 - from.load(Relaxed) as f64) / 1e6;
        let rows = self.rows();
        (0..self.steps as u64).try_for_each(|step| self.check(step))?;
        Ok((warmup..self.steps)
            .map(|i| Times {
                publish: ms(&rows[i].begin, &rows[i].fill_start) + ms(&rows[i].fill_end, &rows[i].published),
                step: ms(&rows[i].begin, &rows[i].summed),
                period: ms(&rows[i - 1].summed, &rows[i].summed),
            })
            .collect())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: `map` and `bytes` are what mmap returned and was given; no reference outlives `self`.
        unsafe { libc::munmap(self.map.cast_mut().cast(), self.bytes) };
    }
}

/// CLOCK_MONOTONIC, which is one clock for all processes of the machine.
pub fn now() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec to write to; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn raise(word: &AtomicU32, value: u32) {
    word.store(value, Release);
    // SAFETY: FUTEX_WAKE only uses the address of `word` as a key.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Waits without a limit of its own: the runner kills both processes when one fails or time is up.
fn wait_for(word: &AtomicU32, at_least: u64) {
    loop {
        let value = word.load(Acquire);
        if u64::from(value) >= at_least {
            return;
        }
        // SAFETY: `word` is a valid futex word; a null timeout means none. Every failure (changed
        // value, signal) is answered by looking again.
        unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, std::ptr::null::<libc::timespec>())
        };
    }
}
