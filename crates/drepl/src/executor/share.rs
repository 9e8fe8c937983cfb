//! Dividing moves among threads by the bytes they write.

use std::ops::Range;

use super::{clip::clip, memory::LINE_BYTES};
use crate::transfer::{Move, Side};

/// Moves of one thread: position of the transfer, and parts of its moves.
pub(super) type Share = Vec<(usize, Vec<Move>)>;

/// Bytes for which a thread is worth its start.
const SHARE_BYTES: u64 = 512 << 10;

/// Divides moves among at most `threads` threads. None where there is too little to divide.
///
/// The destination falls into regions: what moves interleave in, and what lies between. Large ones are cut into one
/// stripe per thread, at lines; so each thread gets its part of every array, and records that fall into several arrays
/// are read by one thread only. Small ones are dealt out as they are.
pub(super) fn shares<'a>(
    threads: usize,
    work: impl Iterator<Item = &'a [Move]> + Clone,
    misalignment: u64,
) -> Option<Vec<Share>> {
    let moved_bytes = |moves: &[Move]| moves.iter().map(Move::moved_bytes).sum::<u64>();
    let total_bytes: u64 = work.clone().map(moved_bytes).sum();
    let threads = (threads as u64).min(total_bytes / SHARE_BYTES);
    if threads < 2 {
        return None;
    }
    let regions = regions(work.clone().flatten(), threads, misalignment);
    let mut shares: Vec<Share> = vec![Vec::new(); threads as usize];
    for (position, moves) in work.enumerate() {
        let mut parts: Vec<(Vec<Move>, Vec<Move>)> = vec![Default::default(); threads as usize];
        for each in moves {
            let region = &regions[regions.partition_point(|region| region.window.end <= each.to)];
            let owners = match region.owner {
                Some(owner) => owner..owner + 1,
                None => 0..threads,
            };
            for owner in owners {
                let (whole, rest) = &mut parts[owner as usize];
                // What is cut off at the ends would stand between moves that are executed together.
                clip(each, Side::Destination, region.stripe(owner, threads, misalignment), &mut |part| {
                    let list = if part.axes.len() == each.axes.len() { &mut *whole } else { &mut *rest };
                    list.push(part);
                });
            }
        }
        for (share, (mut whole, rest)) in shares.iter_mut().zip(parts) {
            whole.extend(rest);
            if !whole.is_empty() {
                share.push((position, whole));
            }
        }
    }
    Some(shares)
}

/// Bytes of the destination between which and all others no move reaches.
struct Region {
    window: Range<u64>,
    /// The thread that writes all of it; every thread a stripe where there is none.
    owner: Option<u64>,
}

impl Region {
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

fn regions<'a>(moves: impl Iterator<Item = &'a Move>, threads: u64, misalignment: u64) -> Vec<Region> {
    let mut extents: Vec<(u64, u64)> = moves.map(|each| each.extent(Side::Destination)).collect();
    extents.sort_unstable();
    let mut regions: Vec<Region> = Vec::new();
    for (begin, end) in extents {
        match regions.last_mut() {
            Some(last) if begin < last.window.end => last.window.end = last.window.end.max(end),
            _ => regions.push(Region { window: begin..end, owner: None }),
        }
    }
    let spanned_bytes: u64 = regions.iter().map(|region| region.window.end - region.window.start).sum();
    let mut before = 0;
    // Small regions that share a line with the one before them go to its thread.
    let mut last: Option<(u64, u64)> = None;
    for region in &mut regions {
        let bytes = region.window.end - region.window.start;
        if bytes < spanned_bytes / (4 * threads) || bytes < threads * 4 * LINE_BYTES {
            let owner = (u128::from(before) * u128::from(threads) / u128::from(spanned_bytes)) as u64;
            let line = (region.window.start + misalignment) / LINE_BYTES;
            let owner = match last {
                Some((last_line, last_owner)) if last_line == line => last_owner,
                _ => owner,
            };
            region.owner = Some(owner);
            last = Some(((region.window.end - 1 + misalignment) / LINE_BYTES, owner));
        } else {
            last = Some(((region.window.end - 1 + misalignment) / LINE_BYTES, threads - 1));
        }
        before += bytes;
    }
    regions
}
