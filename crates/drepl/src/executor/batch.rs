//! Dividing moves among threads by the bytes they write.

use std::ops::Range;
use std::sync::LazyLock;

use crate::clip::clip;
use crate::transfer::{Conversion, LINE_BYTES, Move, Schedule, Side, add_up};

/// Moves of one thread: position of the transfer, and parts of its moves.
pub(super) type Batch = Vec<(usize, Schedule)>;

/// What a thread gets of one transfer.
#[derive(Default, Clone)]
struct Parts {
    whole: Vec<Move>,
    /// What is cut off at the ends, which would stand between moves that are executed together.
    rest: Vec<Move>,
    conversions: Vec<Conversion>,
}

/// Bytes for which a thread is worth its start.
const BATCH_BYTES: u64 = 512 << 10;

/// How many threads run at a time. To find that out takes longer than many a move, so it is asked once.
static PROCESSORS: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));

/// Divides moves among at most `threads` threads, for 0 as many as there are processors. None where there is too little to divide.
///
/// The destination falls into clusters: what moves interleave in, and what lies between. Large ones are cut into one
/// stripe per thread, at lines; so each thread gets its part of every array, and records that fall into several arrays
/// are read by one thread only. Small ones are dealt out as they are.
pub(super) fn batches<'a>(
    threads: usize,
    work: impl Iterator<Item = &'a Schedule> + Clone,
    misalignment: u64,
) -> Option<Vec<Batch>> {
    let total_bytes = add_up(work.clone().map(Schedule::moved_bytes));
    let most = total_bytes / BATCH_BYTES;
    if most < 2 {
        return None;
    }
    let threads = if threads == 0 { *PROCESSORS } else { threads };
    let threads = most.min(threads as u64);
    if threads < 2 {
        return None;
    }
    let clusters =
        clusters(work.clone().flat_map(|schedule| schedule.extents(Side::Destination)), threads, misalignment);
    let mut batches: Vec<Batch> = vec![Vec::new(); threads as usize];
    for (position, schedule) in work.enumerate() {
        let mut parts: Vec<Parts> = vec![Parts::default(); threads as usize];
        let owners = |to: u64| {
            let cluster = &clusters[clusters.partition_point(|cluster| cluster.window.end <= to)];
            let owners = match cluster.owner {
                Some(owner) => owner..owner + 1,
                None => 0..threads,
            };
            owners.map(move |owner| (owner as usize, cluster.stripe(owner, threads, misalignment)))
        };
        for each in schedule.moves() {
            for (owner, stripe) in owners(each.to) {
                let Parts { whole, rest, .. } = &mut parts[owner];
                clip(each, Side::Destination, stripe, &mut |part| {
                    let list = if part.axes.len() == each.axes.len() { &mut *whole } else { &mut *rest };
                    list.push(part);
                });
            }
        }
        for each in schedule.conversions() {
            for (owner, stripe) in owners(each.to) {
                clip(each, Side::Destination, stripe, &mut |part| parts[owner].conversions.push(part));
            }
        }
        for (batch, Parts { mut whole, rest, conversions }) in batches.iter_mut().zip(parts) {
            whole.extend(rest);
            if !whole.is_empty() || !conversions.is_empty() {
                batch.push((position, Schedule::new(whole, conversions)));
            }
        }
    }
    Some(batches)
}

/// Bytes of the destination between which and all others no move reaches.
struct Cluster {
    window: Range<u64>,
    /// The thread that writes all of it; every thread a stripe where there is none.
    owner: Option<u64>,
}

impl Cluster {
    fn stripe(&self, owner: u64, threads: u64, misalignment: u64) -> Range<u64> {
        if self.owner.is_some() {
            return self.window.clone();
        }
        let bytes = u128::from(self.window.end - self.window.start);
        let cut = |at: u64| {
            let place = self.window.start + (bytes * u128::from(at) / u128::from(threads)) as u64;
            let line = ((place + misalignment) / LINE_BYTES * LINE_BYTES).saturating_sub(misalignment);
            if at == threads { self.window.end } else { line.max(self.window.start) }
        };
        if owner == 0 { self.window.start..cut(1) } else { cut(owner)..cut(owner + 1) }
    }
}

fn clusters(extents: impl Iterator<Item = (u64, u64)>, threads: u64, misalignment: u64) -> Vec<Cluster> {
    let mut extents: Vec<(u64, u64)> = extents.collect();
    extents.sort_unstable();
    let mut clusters: Vec<Cluster> = Vec::new();
    for (begin, end) in extents {
        match clusters.last_mut() {
            Some(last) if begin < last.window.end => last.window.end = last.window.end.max(end),
            _ => clusters.push(Cluster { window: begin..end, owner: None }),
        }
    }
    let spanned_bytes: u64 = clusters.iter().map(|cluster| cluster.window.end - cluster.window.start).sum();
    let mut before = 0;
    // Small clusters that share a line with the one before them go to its thread.
    let mut last: Option<(u64, u64)> = None;
    for cluster in &mut clusters {
        let bytes = cluster.window.end - cluster.window.start;
        if bytes < spanned_bytes / (4 * threads) || bytes < threads * 4 * LINE_BYTES {
            let owner = (u128::from(before) * u128::from(threads) / u128::from(spanned_bytes)) as u64;
            let line = (cluster.window.start + misalignment) / LINE_BYTES;
            let owner = match last {
                Some((last_line, last_owner)) if last_line == line => last_owner,
                _ => owner,
            };
            cluster.owner = Some(owner);
            last = Some(((cluster.window.end - 1 + misalignment) / LINE_BYTES, owner));
        } else {
            last = Some(((cluster.window.end - 1 + misalignment) / LINE_BYTES, threads - 1));
        }
        before += bytes;
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{Axis, Transfer};

    /// How often each byte is written.
    fn written<'a>(moves: impl Iterator<Item = &'a Move>, bytes: u64) -> Vec<u8> {
        let mut times = vec![0; bytes as usize];
        for each in moves {
            let mut begins = vec![each.to];
            for axis in &each.axes {
                let along =
                    |begin: u64| (0..axis.count).map(move |at| begin.wrapping_add_signed(at as i64 * axis.to_bytes));
                begins = begins.into_iter().flat_map(along).collect();
            }
            for begin in begins {
                times[begin as usize..][..each.run_bytes as usize].iter_mut().for_each(|times| *times += 1);
            }
        }
        times
    }

    #[test]
    fn threads_write_each_byte_once_and_none_that_no_move_writes() {
        let array = |to: u64, run_bytes: u64, counts: &[u64], gap: u64| {
            let mut step = run_bytes;
            let mut axes: Vec<Axis> = Vec::new();
            for count in counts {
                axes.push(Axis { count: *count, from_bytes: run_bytes as i64, to_bytes: (step + gap) as i64 });
                step = (step + gap) * count;
            }
            // The source does not matter but for its order, against which some are written.
            axes.iter_mut().step_by(2).for_each(|axis| axis.from_bytes = -axis.from_bytes);
            let swap_bytes = if run_bytes.is_multiple_of(8) { 8 } else { 1 };
            Move { from: 1 << 30, to, run_bytes, swap_bytes, axes: axes.into_iter().collect() }
        };
        let records = |offset: u64| (0..5).map(move |field| (offset + field * 8, 8u64));
        let cases: [Vec<Move>; 5] = [
            vec![array(3, 8, &[200_000], 5)],
            vec![array(0, 3, &[700, 500], 1), array(2 << 20, 40, &[3, 9000], 0)],
            records(7).map(|(to, bytes)| array(to, bytes, &[40_000], 32)).collect(),
            (0..4000).map(|at| array(at * 500 + at % 7, 24, &[5, 3], at % 3)).collect(),
            vec![
                array(1, 2_000_000, &[], 0),
                array(2_000_001, 1, &[31, 7, 11, 3], 2),
                array(2_200_000, 8, &[300, 90], 0),
            ],
        ];
        for (number, case) in cases.into_iter().enumerate() {
            let transfer = Transfer::new(case).unwrap();
            let bytes = transfer.destination_bytes();
            let whole = written(transfer.moves().iter(), bytes);
            assert!(whole.iter().all(|times| *times <= 1), "case {number} writes a byte twice by itself");
            for (threads, misalignment) in [(2, 0), (2, 13), (3, 1), (4, 63)] {
                let batches = batches(threads, std::iter::once(transfer.schedule()), misalignment).unwrap();
                let parts = || batches.iter().flatten().flat_map(|(_, parts)| parts.moves());
                assert!(written(parts(), bytes) == whole, "case {number}, {threads} threads");
                assert!(batches.iter().all(|batch| !batch.is_empty()), "case {number}, {threads} threads");
            }
        }
    }
}
