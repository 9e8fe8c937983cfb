//! Moves between two places of memory: what is touched in which order, and by which thread.
//!
//! # Safety
//!
//! All raw memory of this crate passes through this module and its kernels, under one invariant:
//!
//! * No reference is made to either side: another process may write the source, and read or write the destination. Bytes
//!   are read and written through pointers, by value.
//! * A [`Readable`] and a [`Writable`] were vouched for when they were made; they do not overlap. [`run`] compares
//!   how far each schedule reaches with their lengths before it touches a byte. Below it nothing is compared.
//! * The threads of one execution write disjoint bytes, because what they move was clipped to disjoint windows
//!   ([`batch`](super::batch)).
#![allow(unsafe_code)]

mod kernels;
mod numbers;
mod window;

use std::{
    marker::PhantomData,
    sync::{Mutex, PoisonError},
};

use smallvec::SmallVec;

#[cfg(target_arch = "x86_64")]
use self::kernels::Piece;
use self::kernels::{CHUNKED_BYTES, Field, Kernel, Nest, Together};
use super::{
    ExecuteError, Executor,
    batch::{Batch, batches},
    thread,
};
use crate::transfer::{Axis, LINE_BYTES, Move, RECORD_BYTES, Schedule, Side, Transfer, add_up, interleave};

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
// SAFETY: it may be written from any thread; that threads write disjoint bytes is the invariant of this module.
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
            work.push((transfer.schedule(), Readable { address: *address, bytes: *bytes, of: PhantomData }));
        }
        let destination = Writable { address: destination, bytes: destination_bytes, of: PhantomData };
        run_divided(self.threads(), &work, destination)
    }
}

/// Executes all moves, on up to `threads` threads; 0 is one for each processor.
pub(super) fn run_divided(
    threads: usize,
    work: &[(&Schedule, Readable<'_>)],
    destination: Writable<'_>,
) -> Result<(), ExecuteError> {
    if threads != 1
        && let Some(batches) = batches(threads, work.iter().map(|(schedule, _)| *schedule), destination.misalignment())
    {
        let result = Mutex::new(Ok(()));
        let execute = |batch: usize| {
            let batch: &Batch = &batches[batch];
            let parts: Vec<_> = batch.iter().map(|(position, parts)| (parts, work[*position].1)).collect();
            // SAFETY: the batches write disjoint bytes.
            let executed = unsafe { run(&parts, destination) };
            if executed.is_err() {
                *result.lock().unwrap_or_else(PoisonError::into_inner) = executed;
            }
        };
        let is_whole = thread::parallel_for(batches.len(), batches.len(), &execute);
        let result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
        return if is_whole { result } else { result.and(Err(ExecuteError::Inconsistent)) };
    }
    // SAFETY: there is one thread.
    unsafe { run(work, destination) }
}

/// Bytes from which on long runs are written past the caches. They would not stay there, and lines that are not read
/// before they are written cost a third less of what the memory can move.
const STREAM_BYTES: u64 = 8 << 20;

/// A move, and where its source is.
#[derive(Clone, Copy)]
struct Task<'a> {
    each: &'a Move,
    source: *const u8,
}

/// Executes moves on this thread. Those that interleave are executed together, of whichever source.
///
/// # Safety
///
/// No other thread touches the bytes that the moves write.
unsafe fn run<'a>(work: &[(&'a Schedule, Readable<'_>)], destination: Writable<'_>) -> Result<(), ExecuteError> {
    for (schedule, source) in work {
        if schedule.source_bytes() > source.bytes() || schedule.destination_bytes() > destination.bytes() {
            return Err(ExecuteError::Inconsistent);
        }
    }
    let moved_bytes = add_up(work.iter().map(|(schedule, _)| schedule.moved_bytes()));
    let stream = moved_bytes >= STREAM_BYTES;
    let mut tasks: SmallVec<[Task<'_>; 16]> = SmallVec::new();
    if let [(schedule, source)] = work {
        for group in schedule.groups() {
            tasks.clear();
            tasks.extend(group.iter().map(|each| Task { each, source: source.address }));
            // SAFETY: all moves lie inside both sides.
            unsafe { run_group(&tasks, destination.address, stream) };
        }
    } else {
        let group = |(schedule, source): &(&'a Schedule, Readable<'_>)| {
            let address = source.address;
            schedule.groups().map(move |group| (address, group))
        };
        let mut groups: SmallVec<[(*const u8, &[Move]); 8]> = work.iter().flat_map(group).collect();
        groups.sort_by_key(|(_, group)| group[0].to);
        for (source, group) in groups {
            if tasks.first().is_some_and(|first| group.len() > 1 || !interleave(first.each, &group[0])) {
                // SAFETY: as above.
                unsafe { run_group(&tasks, destination.address, stream) };
                tasks.clear();
            }
            tasks.extend(group.iter().map(|each| Task { each, source }));
        }
        // SAFETY: as above.
        unsafe { run_group(&tasks, destination.address, stream) };
    }
    for (schedule, source) in work {
        for each in schedule.conversions() {
            // SAFETY: all of them lie inside both sides.
            unsafe { numbers::convert(each, source.address, destination.address) };
        }
    }
    kernels::end_stream(stream);
    Ok(())
}

/// Executes a single move, or several that interleave.
///
/// # Safety
///
/// All positions of the moves lie inside of what their sources may be read for and `to` written for; no other thread touches
/// the bytes written.
unsafe fn run_group(group: &[Task<'_>], to: *mut u8, stream: bool) {
    // SAFETY: passed on.
    unsafe {
        match group {
            [] => {}
            #[cfg(target_arch = "x86_64")]
            _ if stream && abut(group) && kernels::can_join(to) => run_joined(group, to),
            [single] => run_single(single.each, single.source, to, stream),
            [shape, ..] if transposed(shape.each).is_some() => run_tiles(group, to),
            [shape, others @ ..]
                if has_own_lines(shape.each) && others.iter().all(|task| alike(shape.each, task.each)) =>
            {
                run_nests(group, to, stream);
            }
            _ => run_fields(group, to, stream),
        }
    }
}

/// Executes one move: nest by nest.
///
/// # Safety
///
/// As [`run_group`].
unsafe fn run_single(each: &Move, from: *const u8, to: *mut u8, stream: bool) {
    let Some(last) = each.axes.len().checked_sub(1) else {
        // SAFETY: the caller vouches for the only run.
        return unsafe { kernels::copy(from.add(each.from as usize), to.add(each.to as usize), each, stream) };
    };
    let fastest = transposed(each);
    let (rows, columns) = match fastest {
        Some(rows) => roomy(each, rows),
        None => (last.checked_sub(1), last),
    };
    let kernel = Kernel::of(each, fastest.is_some(), stream);
    let nest = Nest {
        rows: rows.map_or(ONE, |rows| each.axes[rows]),
        columns: each.axes[columns],
        run_bytes: each.run_bytes as usize,
        stream,
    };
    let is_outer = |at: &usize| *at != columns && Some(*at) != rows;
    let outer: SmallVec<[Axis; 6]> = (0..=last).filter(is_outer).map(|at| each.axes[at]).collect();
    for_each(&outer, |from_at, to_at| {
        // SAFETY: indices below the counts of all axes name positions of the move.
        unsafe {
            let from = from.add((each.from as i64 + from_at) as usize);
            kernel.run(from, to.add((each.to as i64 + to_at) as usize), &nest);
        }
    });
}

/// Executes moves that interleave, and are none of them transposes, record by record along the innermost axis.
///
/// # Safety
///
/// As [`run_group`].
unsafe fn run_fields(group: &[Task<'_>], to: *mut u8, stream: bool) {
    let columns = group[0].each.axes.len() - 1;
    let kernels: SmallVec<[Field; 16]> =
        group.iter().map(|task| Field::of(task.each, task.source, to, stream)).collect();
    let mut fields: SmallVec<[Field; 16]> = SmallVec::new();
    let longest = |at: usize| group.iter().map(|task| task.each.axes[at].count).max().unwrap_or(0);
    let counts: SmallVec<[u64; 6]> = (0..columns).map(longest).collect();
    let mut index: SmallVec<[u64; 6]> = SmallVec::from_elem(0, columns);
    loop {
        fields.clear();
        for (Task { each, source }, field) in group.iter().zip(&kernels) {
            let mut place = (each.from as i64, each.to as i64);
            let inside = each.axes.iter().zip(&index).all(|(axis, at)| {
                place.0 += axis.from_bytes * *at as i64;
                place.1 += axis.to_bytes * *at as i64;
                *at < axis.count
            });
            if inside {
                // SAFETY: the index is below the counts of the outer axes.
                fields.push(unsafe { field.at(source.add(place.0 as usize), to.add(place.1 as usize)) });
            }
        }
        // SAFETY: all fields are those of moves, at an index of theirs.
        unsafe { kernels::fields(&mut fields) };
        if !advance(&mut index, &counts) {
            return;
        }
    }
}

/// Whether no line holds two runs along the innermost axis, which are short.
fn has_own_lines(each: &Move) -> bool {
    let apart = |axis: &Axis| axis.from_bytes.unsigned_abs().min(axis.to_bytes.unsigned_abs()) >= LINE_BYTES;
    each.run_bytes < CHUNKED_BYTES && each.axes.last().is_some_and(apart)
}

/// Whether moves differ in where they begin, and in nothing else.
fn alike(first: &Move, second: &Move) -> bool {
    first.run_bytes == second.run_bytes && first.swap_bytes == second.swap_bytes && first.axes == second.axes
}

/// Executes moves that are [`alike`], and of which lines hold one run each: nest by nest, all of them together.
///
/// # Safety
///
/// As [`run_group`]; the moves have axes.
unsafe fn run_nests(group: &[Task<'_>], to: *mut u8, stream: bool) {
    let each = group[0].each;
    let columns = each.axes.len() - 1;
    let rows = columns.checked_sub(1);
    let nest = Nest {
        rows: rows.map_or(ONE, |rows| each.axes[rows]),
        columns: each.axes[columns],
        run_bytes: each.run_bytes as usize,
        stream,
    };
    let kernel = Together::of(each);
    let first =
        |task: &Task<'_>| (task.source.wrapping_add(task.each.from as usize), to.wrapping_add(task.each.to as usize));
    let begins: SmallVec<[_; 8]> = group.iter().map(first).collect();
    let mut places = begins.clone();
    for_each(&each.axes[..rows.unwrap_or(0)], |from_at, to_at| {
        for (place, begin) in places.iter_mut().zip(&begins) {
            *place = (begin.0.wrapping_offset(from_at as isize), begin.1.wrapping_offset(to_at as isize));
        }
        // SAFETY: indices below the counts of all axes name positions of each move.
        unsafe { kernel.run(&places, &nest) };
    });
}

/// Whether moves make up rows without gaps, of runs so long that most of their lines are whole and yet so short that
/// those which are not matter.
#[cfg(target_arch = "x86_64")]
fn abut(group: &[Task<'_>]) -> bool {
    let (first, last) = (group[0].each, group[group.len() - 1].each);
    let Some(columns) = first.axes.last() else { return false };
    let fits = |each: &Move| {
        let alike = each.axes.iter().zip(&first.axes).all(|(a, b)| a.count == b.count && a.to_bytes == b.to_bytes);
        let long = (2 * LINE_BYTES..RECORD_BYTES).contains(&each.run_bytes);
        let places = each.axes.iter().fold(each.to, |bits, axis| bits | axis.to_bytes as u64);
        let words = (each.run_bytes | places).is_multiple_of(kernels::WORD_BYTES);
        alike && long && words && each.swap_bytes == 1
    };
    columns.to_bytes as u64 == last.to.wrapping_sub(first.to).wrapping_add(last.run_bytes)
        && group.iter().all(|task| fits(task.each))
        && group.windows(2).all(|two| two[0].each.to + two[0].each.run_bytes == two[1].each.to)
}

/// Executes moves that make up rows without gaps: whole lines of the destination, also where two moves or two rows meet.
///
/// # Safety
///
/// As [`run_group`]; what [`abut`] and [`kernels::can_join`] say holds.
#[cfg(target_arch = "x86_64")]
unsafe fn run_joined(group: &[Task<'_>], to: *mut u8) {
    let columns = group[0].each.axes.len() - 1;
    let rows = group[0].each.axes[columns].count;
    let counts: SmallVec<[u64; 6]> = group[0].each.axes[..columns].iter().map(|axis| axis.count).collect();
    let mut index: SmallVec<[u64; 6]> = SmallVec::from_elem(0, columns);
    let mut pieces: SmallVec<[Piece; 8]> = SmallVec::new();
    loop {
        let distance = |each: &Move, side: Side| -> i64 {
            each.axes.iter().zip(&index).map(|(axis, at)| axis.bytes(side) * *at as i64).sum()
        };
        pieces.clear();
        for Task { each, source } in group {
            let from = (each.from as i64 + distance(each, Side::Source)) as usize;
            let run_bytes = each.run_bytes as usize;
            let from_bytes = each.axes[columns].from_bytes as isize;
            pieces.push(Piece { from: source.wrapping_add(from), from_bytes, run_bytes });
        }
        let first = (group[0].each.to as i64 + distance(group[0].each, Side::Destination)) as usize;
        // SAFETY: the pieces are the runs of the moves at an index of theirs.
        unsafe { kernels::join(&pieces, rows, to.wrapping_add(first)) };
        if !advance(&mut index, &counts) {
            return;
        }
    }
}

/// Edge of the tiles in which transposes that interleave are executed, in runs. Both sides of a tile stay in the cache
/// of the first or second level until all moves are done with it.
const TILE: u64 = 64;

/// Executes moves that interleave, and are transposes, tile by tile.
///
/// # Safety
///
/// As [`run_group`].
unsafe fn run_tiles(group: &[Task<'_>], to: *mut u8) {
    let columns = group[0].each.axes.len() - 1;
    let longest = |at: usize| group.iter().map(|task| task.each.axes[at].count).max().unwrap_or(0);
    let rows = transposed(group[0].each).unwrap_or(0);
    let tiles: SmallVec<[u64; 6]> = (0..=columns)
        .map(|at| if at == rows || at == columns { longest(at).div_ceil(TILE) } else { longest(at) })
        .collect();
    let mut index: SmallVec<[u64; 6]> = SmallVec::from_elem(0, tiles.len());
    loop {
        'moves: for Task { each, source } in group {
            let mut part = Move { axes: SmallVec::new(), ..(*each).clone() };
            for (at, (axis, tile)) in each.axes.iter().zip(&index).enumerate() {
                let inner = at == rows || at == columns;
                let begin = if inner { tile * TILE } else { *tile };
                let Some(left) = axis.count.checked_sub(begin).filter(|left| *left > 0) else { continue 'moves };
                part.from = part.from.wrapping_add_signed(begin as i64 * axis.from_bytes);
                part.to = part.to.wrapping_add_signed(begin as i64 * axis.to_bytes);
                part.axes.push(Axis { count: if inner { left.min(TILE) } else { 1 }, ..*axis });
            }
            // Lines of the tile are written by several moves, and have to stay.
            // SAFETY: a part of a move has positions of the move.
            unsafe { run_single(&part, *source, to, false) };
        }
        if !advance(&mut index, &tiles) {
            return;
        }
    }
}

/// An axis that is none.
const ONE: Axis = Axis { count: 1, from_bytes: 0, to_bytes: 0 };

/// The axis along which the source is fastest, where that is not the innermost, along which the destination is, and runs
/// are so short that lines hold several.
fn transposed(each: &Move) -> Option<usize> {
    let columns = each.axes.len().checked_sub(1)?;
    let step = |at: &usize| each.axes[*at].from_bytes.unsigned_abs();
    let fastest = (0..columns).rev().min_by_key(step)?;
    (step(&fastest) < step(&columns) && each.run_bytes < LINE_BYTES).then_some(fastest)
}

/// Indices along an axis from which on a nest of a transpose has work enough for its loops.
const ROOMY: u64 = 8;

/// The rows and the columns of the nests of a transpose: the axes that are fastest in the source (`rows`) and in the
/// destination (the last), and instead of one that has few indices the next one along which lines hold several runs.
fn roomy(each: &Move, rows: usize) -> (Option<usize>, usize) {
    let columns = each.axes.len() - 1;
    let better = |own: usize, other: usize, side: Side| {
        let step = |at: &usize| each.axes[*at].bytes(side).unsigned_abs();
        let has_room = |at: &usize| *at != other && each.axes[*at].count >= ROOMY && step(at) < LINE_BYTES;
        if each.axes[own].count >= ROOMY { own } else { (0..=columns).filter(has_room).min_by_key(step).unwrap_or(own) }
    };
    let rows = better(rows, columns, Side::Source);
    (Some(rows), better(columns, rows, Side::Destination))
}

/// Passes the distances in the source and in the destination at each index of `axes` to `each`.
fn for_each(axes: &[Axis], mut each: impl FnMut(i64, i64)) {
    let mut index: SmallVec<[u64; 6]> = SmallVec::from_elem(0, axes.len());
    let (mut from, mut to) = (0, 0);
    loop {
        each(from, to);
        let mut at = axes.len();
        loop {
            if at == 0 {
                return;
            }
            at -= 1;
            index[at] += 1;
            from += axes[at].from_bytes;
            to += axes[at].to_bytes;
            if index[at] < axes[at].count {
                break;
            }
            from -= axes[at].from_bytes * index[at] as i64;
            to -= axes[at].to_bytes * index[at] as i64;
            index[at] = 0;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_memory_is_moved_like_slices_and_its_lengths_are_compared() {
        let axis = Axis { count: 100, from_bytes: 24, to_bytes: 8 };
        let axes = [axis].into_iter().collect();
        let transfer = Transfer::new(vec![Move { from: 8, to: 0, run_bytes: 8, swap_bytes: 8, axes }]).unwrap();
        let source: Vec<u8> = (0..transfer.source_bytes()).map(|at| (at * 7) as u8).collect();
        let (mut expected, mut raw) = (vec![0; 800], vec![0; 800]);
        Executor::new(1).run(&transfer, &source, &mut expected).unwrap();
        let mut run = |source_bytes: usize| {
            let work = [(&transfer, source.as_ptr(), source_bytes)];
            // SAFETY: both buffers are at least as long as said, and used by nothing else meanwhile.
            unsafe { Executor::new(2).run_raw(&work, raw.as_mut_ptr(), raw.len()) }
        };
        assert!(matches!(run(source.len() - 1), Err(ExecuteError::SourceLength { .. })));
        run(source.len()).unwrap();
        assert_eq!(raw, expected);
    }
}
