//! Reading back from disk what checkpoints share, a little with each.
//!
//! A chunk that changes in its file, as disks let happen, has the size it had. It would be linked into every later checkpoint
//! although memory has the right bytes, until the last one that does not share it is deleted. So linked files are read, past
//! the kernel's cache, and compared with their checksums: in rounds, each file once, for a share of the time that saving takes.
//! What has changed is written anew from memory.

use crate::base::StoredChunk;
use crate::digest::read_plain;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use stillframe_kernel::disk;

/// Reading back takes one part in so many of the time of all saves, over many of them.
const SHARE: i64 = 20;
/// What each save reads back in any case, so that small stores are read back whole.
const LEAST_BYTES: u64 = 1 << 20;

/// What is known from save to save.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounds {
    /// The present round. Files that were written or read back in it are known to be good.
    pub(crate) round: u64,
    /// The newest checkpoint all of whose files were written or read back in one round. Before there is one, the newest that
    /// was there when the store was opened.
    pub(crate) verified: Option<u64>,
    /// Time that was spent too much, which later saves make up for; never above 0.
    left_ns: i64,
    least_bytes: u64,
}

impl Rounds {
    /// Of a store whose newest checkpoint is this.
    pub(crate) fn new(newest: Option<u64>) -> Rounds {
        Rounds { round: 1, verified: newest, left_ns: 0, least_bytes: LEAST_BYTES }
    }

    /// Nothing is read back any more.
    #[cfg(test)]
    pub(crate) fn stop(&mut self) {
        (self.left_ns, self.least_bytes) = (i64::MIN / 2, 0);
    }

    /// Files are read back as in a new store.
    #[cfg(test)]
    pub(crate) fn start(&mut self) {
        (self.left_ns, self.least_bytes) = (0, LEAST_BYTES);
    }

    /// Takes note of the time that was spent on reading back, and of a checkpoint that was saved, if it is the newest.
    pub(crate) fn record(&mut self, done: &ReadBack, newest: Option<(u64, &[Vec<StoredChunk>])>) {
        self.left_ns = self.left_ns.saturating_add(done.earned_ns() - done.spent_ns.load(Ordering::Relaxed)).min(0);
        if let Some((version, stored)) = newest
            && stored.iter().flatten().all(|chunk| chunk.round >= self.round)
        {
            self.verified = Some(version);
            self.round += 1;
        }
    }
}

/// The reading back of one save.
#[derive(Debug)]
pub(crate) struct ReadBack {
    rounds: Rounds,
    threads: i64,
    begun: Instant,
    spent_ns: AtomicI64,
    bytes: AtomicU64,
    changed: Mutex<Vec<String>>,
}

impl ReadBack {
    /// Of a save by so many threads.
    pub(crate) fn new(rounds: Rounds, threads: usize) -> ReadBack {
        ReadBack {
            rounds,
            threads: threads as i64,
            begun: Instant::now(),
            spent_ns: AtomicI64::new(0),
            bytes: AtomicU64::new(0),
            changed: Mutex::default(),
        }
    }

    /// The present round, which files that are written now belong to.
    pub(crate) fn round(&self) -> u64 {
        self.rounds.round
    }

    /// Bytes that were read back.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The files that had changed, by their paths in the checkpoint.
    pub(crate) fn changed(&self) -> Vec<String> {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        changed.sort();
        changed
    }

    fn earned_ns(&self) -> i64 {
        nanoseconds(self.begun.elapsed()).saturating_mul(self.threads) / SHARE
    }

    fn is_due(&self) -> bool {
        self.bytes() < self.rounds.least_bytes
            || self.spent_ns.load(Ordering::Relaxed) <= self.rounds.left_ns.saturating_add(self.earned_ns())
    }

    /// What is known of a file that was linked, after it was read back if it is due; `None` if it has changed.
    pub(crate) fn look(
        &self,
        path: &str,
        stored: StoredChunk,
        open: impl FnOnce() -> io::Result<File>,
    ) -> Option<StoredChunk> {
        if stored.round >= self.rounds.round || !self.is_due() {
            return Some(stored);
        }
        let begin = Instant::now();
        let read = open().and_then(|file| {
            disk::drop_cached(&file);
            read_plain(&file, stored.bytes as usize, &mut [])
        });
        self.bytes.fetch_add(stored.bytes, Ordering::Relaxed);
        self.spent_ns.fetch_add(nanoseconds(begin.elapsed()), Ordering::Relaxed);
        // What cannot be read is as good as changed: memory has it.
        if read.is_ok_and(|found| found == stored.digest) {
            return Some(StoredChunk { round: self.rounds.round, ..stored });
        }
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).push(path.into());
        None
    }
}

fn nanoseconds(time: Duration) -> i64 {
    time.as_nanos().try_into().unwrap_or(i64::MAX)
}
