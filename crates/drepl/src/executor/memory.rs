//! Moves between two places of memory: what is touched in which order, and by which thread.
//!
//! # Safety
//!
//! All raw memory of this crate passes through this module and its kernels, under one law:
//!
//! * No reference is made to either side: another process may write the source, and read or write the destination. Bytes
//!   are read and written through pointers, by value.
//! * A [`Readable`] and a [`Writable`] were vouched for when they were made; they do not overlap. [`run`] compares the
//!   extents of each move with their lengths before it touches a byte of it. Below it nothing is compared.
//! * The threads of one execution write disjoint bytes, because what they move was clipped to disjoint windows
//!   ([`share`](super::share)).
#![allow(unsafe_code)]

mod kernels;

use std::{marker::PhantomData, ops::Range};

use smallvec::SmallVec;

use self::kernels::{Kernel, Plane};
use super::{ExecuteError, Executor, share::shares};
use crate::transfer::{Axis, Move, Side, Transfer};

/// Memory that may be read, by this thread or another, as long as `'a`. Other processes may write it at any time.
#[derive(Clone, Copy)]
pub(super) struct Readable<'a> {
    address: *const u8,
    bytes: usize,
    of: PhantomData<&'a [u8]>,
}

/// Memory that this execution alone may write, as long as `'a`. Copies of one are used for disjoint bytes of it.
#[derive(Clone, Copy)]
pub(super) struct Writable<'a> {
    address: *mut u8,
    bytes: usize,
    of: PhantomData<&'a mut [u8]>,
}

// SAFETY: it may be read from any thread, as `&[u8]` may.
unsafe impl Send for Readable<'_> {}
// SAFETY: as above.
unsafe impl Sync for Readable<'_> {}
// SAFETY: it may be written from any thread; that threads write disjoint bytes is the law of this module.
unsafe impl Send for Writable<'_> {}
// SAFETY: as above.
unsafe impl Sync for Writable<'_> {}

impl<'a> Readable<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Readable<'a> {
        Readable { address: bytes.as_ptr(), bytes: bytes.len(), of: PhantomData }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

impl<'a> Writable<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Writable<'a> {
        Writable { address: bytes.as_mut_ptr(), bytes: bytes.len(), of: PhantomData }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Bytes from an address that is a multiple of 64 to the first one: where a cache line begins.
    pub(super) fn misalignment(&self) -> u64 {
        self.address as u64 % LINE_BYTES
    }
}

/// Bytes of a cache line, on all machines that matter here.
pub(super) const LINE_BYTES: u64 = 64;

impl Executor {
    /// As [`run_all`](Executor::run_all), on memory to which no reference may exist because other processes write it:
    /// shared mappings. What they write meanwhile arrives in part, or not.
    ///
    /// # Safety
    ///
    /// Each source address has to be valid for reads of its number of bytes and `destination` for writes of
    /// `destination_bytes`, until this returns. The destination overlaps no source, and no other thread of this process
    /// writes either of them meanwhile or reads the destination.
    pub unsafe fn run_raw(
        &self,
        transfers: &[(&Transfer, *const u8, usize)],
        destination: *mut u8,
        destination_bytes: usize,
    ) -> Result<(), ExecuteError> {
        for (position, (transfer, _, bytes)) in transfers.iter().enumerate() {
            super::check_source(position, transfer, *bytes as u64)?;
            super::check_destination(transfer, destination_bytes as u64)?;
        }
        let mut work: SmallVec<[_; 4]> = SmallVec::new();
        for (transfer, address, bytes) in transfers {
            work.push((transfer.moves(), Readable { address: *address, bytes: *bytes, of: PhantomData }));
        }
        let destination = Writable { address: destination, bytes: destination_bytes, of: PhantomData };
        run_shared(self.threads(), &work, destination)
    }
}

/// Executes all moves, on up to `threads` threads.
pub(super) fn run_shared(
    threads: usize,
    work: &[(&[Move], Readable<'_>)],
    destination: Writable<'_>,
) -> Result<(), ExecuteError> {
    if threads > 1
        && let Some(shares) = shares(threads, work.iter().map(|(moves, _)| *moves), destination.misalignment())
    {
        return std::thread::scope(|scope| {
            let execute = |share: Vec<(usize, Vec<Move>)>| {
                share.iter().try_for_each(|(position, moves)| {
                    // SAFETY: the shares write disjoint bytes.
                    unsafe { run(moves, work[*position].1, destination) }
                })
            };
            let mut shares = shares.into_iter();
            let first = shares.next();
            let others: Vec<_> = shares.map(|share| scope.spawn(move || execute(share))).collect();
            let mut result = first.map_or(Ok(()), execute);
            for other in others {
                let ended = other.join().unwrap_or(Err(ExecuteError::Inconsistent));
                result = result.and(ended);
            }
            result
        });
    }
    for (moves, source) in work {
        // SAFETY: there is one thread.
        unsafe { run(moves, *source, destination)? };
    }
    Ok(())
}

/// Executes moves on this thread.
///
/// # Safety
///
/// No other thread touches the bytes that `moves` write.
unsafe fn run(moves: &[Move], source: Readable<'_>, destination: Writable<'_>) -> Result<(), ExecuteError> {
    let mut rest = moves;
    while let Some(first) = rest.first() {
        let (group, after) = rest.split_at(1 + rest[1..].iter().take_while(|each| interleave(first, each)).count());
        for each in group {
            let inside = each.extent(Side::Source).1 <= source.bytes()
                && each.extent(Side::Destination).1 <= destination.bytes();
            if !inside {
                return Err(ExecuteError::Inconsistent);
            }
        }
        // SAFETY: all moves of the group lie inside both sides.
        unsafe { run_group(group, source.address, destination.address) };
        rest = after;
    }
    Ok(())
}

/// How far fields of one record may lie apart for moves of them to be executed together.
const RECORD_BYTES: u64 = 4096;

/// Whether two moves touch the same cache lines of one side at the same indices. Counts of the outermost axis may differ:
/// threads cut moves at lines, which are not at the same index in each.
fn interleave(first: &Move, second: &Move) -> bool {
    let alike = |side: Side| {
        first.offset(side).abs_diff(second.offset(side)) < RECORD_BYTES
            && first.axes.iter().map(|axis| axis.bytes(side)).eq(second.axes.iter().map(|axis| axis.bytes(side)))
    };
    let inner = |each: &Move| each.axes.iter().skip(1).map(|axis| axis.count).collect::<SmallVec<[u64; 4]>>();
    !first.axes.is_empty()
        && first.axes.len() == second.axes.len()
        && (alike(Side::Source) || alike(Side::Destination))
        && inner(first) == inner(second)
}

/// Bytes of one side that a tile of a group spans at most. Both sides of it stay in the cache of the first level until
/// all moves of the group are done with it.
const TILE_BYTES: u64 = 8192;

/// Executes moves that interleave tile by tile, or a single one as a whole.
///
/// # Safety
///
/// All positions of the moves lie inside of what `from` may be read for and `to` written for; no other thread touches
/// the bytes written.
unsafe fn run_group(group: &[Move], from: *const u8, to: *mut u8) {
    let shape = &group[0];
    let Some(columns) = shape.axes.len().checked_sub(1) else {
        for each in group {
            // SAFETY: the caller vouches for the only run.
            unsafe { kernels::copy(from.add(each.from as usize), to.add(each.to as usize), each) };
        }
        return;
    };
    let rows = rows(shape);
    let kernels: SmallVec<[Kernel; 8]> = group.iter().map(|each| Kernel::of(each, rows)).collect();
    let [tile_rows, tile_columns] = if group.len() > 1 { tile(shape, rows) } else { [u64::MAX; 2] };
    let largest = |at: usize| group.iter().map(|each| each.axes[at].count).max().unwrap_or(0);
    let outer: SmallVec<[usize; 6]> = (0..columns).filter(|at| Some(*at) != rows).collect();
    let counts: SmallVec<[u64; 6]> = outer.iter().map(|at| largest(*at)).collect();
    let mut index: SmallVec<[u64; 6]> = SmallVec::from_elem(0, outer.len());
    loop {
        for row in steps(rows.map_or(1, largest), tile_rows) {
            for column in steps(largest(columns), tile_columns) {
                for (each, kernel) in group.iter().zip(&kernels) {
                    let axis = |at: usize, window: &Range<u64>| {
                        let axis = each.axes[at];
                        Axis { count: axis.count.min(window.end).saturating_sub(window.start), ..axis }
                    };
                    let step = |(at, index): (&usize, &u64)| {
                        let axis = each.axes[*at];
                        (*index < axis.count)
                            .then_some((*index as i64 * axis.from_bytes, *index as i64 * axis.to_bytes))
                    };
                    let mut place = (each.from as i64, each.to as i64);
                    let mut begins = |at: usize, index: u64| {
                        place.0 += index as i64 * each.axes[at].from_bytes;
                        place.1 += index as i64 * each.axes[at].to_bytes;
                    };
                    if outer.iter().zip(&index).any(|pair| step(pair).is_none()) {
                        continue;
                    }
                    outer.iter().zip(&index).for_each(|(at, index)| begins(*at, *index));
                    begins(columns, column.start);
                    if let Some(rows) = rows {
                        begins(rows, row.start);
                    }
                    let one = Axis { count: 1, from_bytes: 0, to_bytes: 0 };
                    let plane = Plane {
                        rows: rows.map_or(one, |rows| axis(rows, &row)),
                        columns: axis(columns, &column),
                        run_bytes: each.run_bytes as usize,
                    };
                    if plane.rows.count == 0 || plane.columns.count == 0 {
                        continue;
                    }
                    // SAFETY: indices below the counts of all axes name positions of the move.
                    unsafe { kernel.run(from.add(place.0 as usize), to.add(place.1 as usize), &plane) };
                }
            }
        }
        if !advance(&mut index, &counts) {
            return;
        }
    }
}

/// The axis of a move that makes a plane with the innermost: the one along which the source is fastest where that is
/// another one and runs are shorter than a line, the next otherwise.
fn rows(each: &Move) -> Option<usize> {
    let columns = each.axes.len() - 1;
    let step = |at: &usize| each.axes[*at].from_bytes.unsigned_abs();
    let fastest = (0..columns).rev().min_by_key(step)?;
    let transposed = step(&fastest) < step(&columns) && each.run_bytes < LINE_BYTES;
    Some(if transposed { fastest } else { columns - 1 })
}

/// Rows and columns of a tile.
fn tile(each: &Move, rows: Option<usize>) -> [u64; 2] {
    let reach = |axis: &Axis| axis.from_bytes.unsigned_abs().max(axis.to_bytes.unsigned_abs());
    let columns = each.axes[each.axes.len() - 1];
    let Some(rows) = rows.map(|at| each.axes[at]) else {
        return [1, (TILE_BYTES / reach(&columns)).max(16)];
    };
    if rows.from_bytes.unsigned_abs() < columns.from_bytes.unsigned_abs() {
        // A transpose: as many lines as it has numbers in a line, on both sides.
        return [64, 64];
    }
    let tile_columns = (TILE_BYTES / reach(&columns)).max(16);
    [(tile_columns / columns.count).max(1), tile_columns]
}

/// Ranges of `step` indices, up to `count`.
fn steps(count: u64, step: u64) -> impl Iterator<Item = Range<u64>> {
    let mut begin = 0;
    std::iter::from_fn(move || {
        (begin < count).then(|| {
            let window = begin..begin.saturating_add(step).min(count);
            begin = window.end;
            window
        })
    })
}

/// The next index, the last axis fastest; false after the last.
fn advance(index: &mut [u64], counts: &[u64]) -> bool {
    for (at, count) in index.iter_mut().zip(counts).rev() {
        *at += 1;
        if *at < *count {
            return true;
        }
        *at = 0;
    }
    false
}
