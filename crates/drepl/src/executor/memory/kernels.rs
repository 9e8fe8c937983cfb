//! The loops that move bytes.
//!
//! # Safety
//!
//! The invariant is that of [`memory`](super): pointers and nests come from moves that lie inside both sides, and no kernel
//! leaves the positions its nest names. A kernel reads a run of `run_bytes` bytes at each position and writes as many.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod slots;

use std::ptr::copy_nonoverlapping;

use crate::transfer::{Axis, LINE_BYTES, Move};

/// Two nested loops around a run.
pub(super) struct Nest {
    pub(super) rows: Axis,
    pub(super) columns: Axis,
    pub(super) run_bytes: usize,
    /// Long lines are written past the caches.
    pub(super) stream: bool,
}

/// What executes the nests of a move.
#[derive(Clone, Copy)]
pub(super) struct Kernel(unsafe fn(*const u8, *mut u8, &Nest));

impl Kernel {
    /// The kernel for a move.
    pub(super) fn of(each: &Move, transposed: bool, stream: bool) -> Kernel {
        Kernel(choose(each, if transposed { Shape::Transpose } else { Shape::Rows }, stream).0)
    }

    /// # Safety
    ///
    /// All positions of the nest are inside the move this kernel was chosen for.
    pub(super) unsafe fn run(self, from: *const u8, to: *mut u8, nest: &Nest) {
        // SAFETY: passed on.
        unsafe { (self.0)(from, to, nest) }
    }
}

/// What executes nests of one shape together.
#[derive(Clone, Copy)]
pub(super) struct Together(unsafe fn(&[(*const u8, *mut u8)], &Nest));

impl Together {
    /// For nests of moves like `each`.
    pub(super) fn of(each: &Move) -> Together {
        Together(choose(each, Shape::Rows, false).2)
    }

    /// # Safety
    ///
    /// All positions of the nest, from each of the places, are inside moves like the one this was chosen for.
    pub(super) unsafe fn run(self, places: &[(*const u8, *mut u8)], nest: &Nest) {
        // SAFETY: passed on.
        unsafe { (self.0)(places, nest) }
    }
}

/// What a kernel is to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Rows,
    Transpose,
    Fields,
}

/// Executes a nest.
type Nests = unsafe fn(*const u8, *mut u8, &Nest);

/// Executes one field of some records.
type Some = unsafe fn(&mut Field, usize);

/// Executes nests of one shape.
type Several = unsafe fn(&[(*const u8, *mut u8)], &Nest);

/// What executes the runs of a move: a nest of the shape, some records, and several nests. `stream`: long runs are written
/// past the caches.
fn choose(each: &Move, shape: Shape, stream: bool) -> (Nests, Some, Several) {
    fn kernel<R: Run>(shape: Shape) -> (Nests, Some, Several) {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            let nests: Nests = if shape == Shape::Transpose { avx2::transpose::<R> } else { avx2::rows::<R> };
            return (nests, avx2::some::<R>, avx2::together::<R>);
        }
        (if shape == Shape::Transpose { transpose::<R, false> } else { rows::<R> }, some::<R>, together::<R>)
    }
    match (each.swap_bytes, each.run_bytes) {
        (1, 1) => kernel::<Plain<u8>>(shape),
        (1, 2) => kernel::<Plain<u16>>(shape),
        (1, 4) => kernel::<Plain<u32>>(shape),
        (1, 8) => kernel::<Plain<u64>>(shape),
        (1, 12) => kernel::<Plain<[u32; 3]>>(shape),
        (1, 16) => kernel::<Plain<u128>>(shape),
        (1, 24) => kernel::<Plain<[u64; 3]>>(shape),
        (1, 32) => kernel::<Plain<[u64; 4]>>(shape),
        (1, 3..=7) => kernel::<Between<u32>>(shape),
        (1, 9..=15) => kernel::<Between<u64>>(shape),
        (1, 17..=31) => kernel::<Between<u128>>(shape),
        #[cfg(target_arch = "x86_64")]
        (1, STREAMED_BYTES..) if stream && has_avx2() => kernel::<Streamed>(shape),
        (1, 33..CHUNKED_BYTES) => kernel::<Chunks>(shape),
        (1, _) => kernel::<Bytes>(shape),
        (2, 2) => kernel::<Reversed<u16, 1>>(shape),
        (2, _) => kernel::<Numbers<u16>>(shape),
        (4, 4) => kernel::<Reversed<u32, 1>>(shape),
        (4, 8) => kernel::<Reversed<u32, 2>>(shape),
        (4, 12) => kernel::<Reversed<u32, 3>>(shape),
        (4, _) => kernel::<Numbers<u32>>(shape),
        (8, 8) => kernel::<Reversed<u64, 1>>(shape),
        (8, 16) => kernel::<Reversed<u64, 2>>(shape),
        (8, 24) => kernel::<Reversed<u64, 3>>(shape),
        _ => kernel::<Numbers<u64>>(shape),
    }
}

/// Records that are passed over field by field: so few that the loads of the next ones begin before the stores of these
/// have ended, as in a loop that has all fields in its body.
const RECORDS: usize = 8;

/// One field of records, at one of them.
#[derive(Clone, Copy)]
pub(super) struct Field {
    from: *const u8,
    to: *mut u8,
    columns: Axis,
    run_bytes: usize,
    swap_bytes: u8,
    some: unsafe fn(&mut Field, usize),
}

impl Field {
    /// The field that `each` moves along its innermost axis.
    pub(super) fn of(each: &Move, from: *const u8, to: *mut u8, stream: bool) -> Field {
        let columns = each.axes[each.axes.len() - 1];
        let (run_bytes, swap_bytes) = (each.run_bytes as usize, each.swap_bytes);
        Field { from, to, columns, run_bytes, swap_bytes, some: choose(each, Shape::Fields, stream).1 }
    }

    /// The same at another place.
    pub(super) fn at(&self, from: *const u8, to: *mut u8) -> Field {
        Field { from, to, ..*self }
    }
}

/// Moves all fields of all their records.
///
/// # Safety
///
/// All positions of the fields are inside of the moves they were made of.
pub(super) unsafe fn fields(fields: &mut [Field]) {
    let mut count = fields.iter().map(|field| field.columns.count).min().unwrap_or(0);
    // SAFETY: passed on.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            let done = slots::run(fields, count);
            count -= done;
            fields.iter_mut().for_each(|field| field.columns.count -= done);
        }
        for _ in 0..count / RECORDS as u64 {
            for field in fields.iter_mut() {
                (field.some)(field, RECORDS);
            }
        }
        for field in fields {
            // Some have records that others have not.
            let left = field.columns.count - count / RECORDS as u64 * RECORDS as u64;
            (field.some)(field, left as usize);
        }
    }
}

/// Moves one field of some records and goes on to the next ones.
///
/// # Safety
///
/// As [`fields`].
#[inline(always)]
unsafe fn some<R: Run>(field: &mut Field, records: usize) {
    let Field { from, to, columns, run_bytes, .. } = *field;
    let (from_step, to_step) = (columns.from_bytes as isize, columns.to_bytes as isize);
    let run_bytes = R::BYTES.unwrap_or(run_bytes);
    // SAFETY: passed on.
    unsafe {
        // The compiler makes a better loop of distances that it knows.
        match R::BYTES.map(|bytes| bytes as isize) {
            Some(bytes) if to_step == bytes => line::<R>(from, to, from_step, bytes, records, run_bytes),
            Some(bytes) if from_step == bytes => line::<R>(from, to, bytes, to_step, records, run_bytes),
            _ => line::<R>(from, to, from_step, to_step, records, run_bytes),
        }
    }
    field.from = from.wrapping_offset(records as isize * from_step);
    field.to = to.wrapping_offset(records as isize * to_step);
}

/// Moves `count` runs.
///
/// # Safety
///
/// There are as many positions on both sides.
#[inline(always)]
unsafe fn line<R: Run>(from: *const u8, to: *mut u8, from_step: isize, to_step: isize, count: usize, run_bytes: usize) {
    let mut place = (from, to);
    // SAFETY: passed on. Beyond the last run the pointers are not used.
    unsafe {
        for _ in 0..count / R::UNROLLED {
            for at in 0..R::UNROLLED as isize {
                R::fetch(place.0.wrapping_offset((at + 1) * from_step), run_bytes);
                R::carry(place.0.offset(at * from_step), place.1.offset(at * to_step), run_bytes);
            }
            let next = R::UNROLLED as isize;
            place = (place.0.wrapping_offset(next * from_step), place.1.wrapping_offset(next * to_step));
        }
        for _ in 0..count % R::UNROLLED {
            R::carry(place.0, place.1, run_bytes);
            place = (place.0.wrapping_offset(from_step), place.1.wrapping_offset(to_step));
        }
    }
}

/// Moves the only run of a move without axes.
///
/// # Safety
///
/// `from` may be read and `to` written for the run.
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, each: &Move, stream: bool) {
    let run_bytes = each.run_bytes as usize;
    // SAFETY: passed on.
    unsafe {
        match each.swap_bytes {
            #[cfg(target_arch = "x86_64")]
            1 if stream && STREAMED.contains(&each.run_bytes) && has_avx2() => avx2::stream(from, to, run_bytes),
            1 => copy_nonoverlapping(from, to, run_bytes),
            2 => reverse::<u16>(from, to, run_bytes),
            4 => reverse::<u32>(from, to, run_bytes),
            _ => reverse::<u64>(from, to, run_bytes),
        }
    }
}

/// Moves a long run of numbers whose bytes are reversed.
///
/// # Safety
///
/// As [`Run::carry`].
unsafe fn reverse<T: Number>(from: *const u8, to: *mut u8, run_bytes: usize) {
    // Beyond the head registers are written as a whole, and none of them into two lines.
    let head = to.align_offset(REGISTER_BYTES).min(run_bytes) / size_of::<T>() * size_of::<T>();
    for (at, bytes) in [(0, head), (head, run_bytes - head)] {
        let (from, to) = (from.wrapping_add(at), to.wrapping_add(at));
        // SAFETY: passed on; head and rest make up the run.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if has_avx2() {
                avx2::carry::<Numbers<T>>(from, to, bytes);
                continue;
            }
            Numbers::<T>::carry(from, to, bytes);
        }
    }
}

/// Bytes of the processor's registers for several numbers.
const REGISTER_BYTES: usize = 32;

/// A run of at least [`STREAMED_BYTES`] that is written past the caches.
#[cfg(target_arch = "x86_64")]
struct Streamed;

#[cfg(target_arch = "x86_64")]
impl Run for Streamed {
    const BYTES: Option<usize> = None;

    #[inline(always)]
    unsafe fn carry(from: *const u8, to: *mut u8, run_bytes: usize) {
        // SAFETY: passed on.
        unsafe {
            avx2::stream(from, to, run_bytes);
        }
    }

    #[inline(always)]
    fn fetch(from: *const u8, run_bytes: usize) {
        // Longer ones are found by the processor itself.
        for line in (0..run_bytes.min(4096)).step_by(LINE_BYTES as usize) {
            self::fetch(from.wrapping_add(line));
        }
    }
}

/// Runs that have at least as many bytes are written past the caches: most of their lines are whole.
#[cfg(target_arch = "x86_64")]
const STREAMED_BYTES: u64 = 256;

/// Single runs that are written past the caches here. The C library's memcpy does it for longer ones, from several pages
/// at a time.
#[cfg(target_arch = "x86_64")]
const STREAMED: std::ops::Range<u64> = STREAMED_BYTES..128 << 20;

/// How one run is moved. `run_bytes` is what the kind of run stands for, or within what it stands for.
trait Run {
    /// Bytes of the run, where all runs of this kind have as many.
    const BYTES: Option<usize>;

    /// Runs in the body of a loop over many: one where a run is a loop by itself.
    const UNROLLED: usize = if Self::BYTES.is_some() { 8 } else { 1 };

    /// # Safety
    ///
    /// `from` may be read and `to` written for `run_bytes` bytes.
    unsafe fn carry(from: *const u8, to: *mut u8, run_bytes: usize);

    /// Asks the memory for a run that is moved later. It may lie anywhere.
    #[inline(always)]
    fn fetch(_from: *const u8, _run_bytes: usize) {}

    /// Edge of the tiles that [`tile`](Self::tile) transposes, in runs; 0 where it transposes none.
    const EDGE: usize = 0;

    /// Transposes a tile: reads `lines[0]` lines of `EDGE` runs that are `steps[0]` bytes apart, and writes `lines[1]`
    /// such lines that are `steps[1]` bytes apart, upwards. Runs of lines that are not read are zero.
    ///
    /// # Safety
    ///
    /// The processor has AVX2, the lines may be read and written, and there are at most `EDGE` on each side.
    unsafe fn tile(_from: *const u8, _to: *mut u8, _steps: [isize; 2], _lines: [usize; 2]) {}
}

/// A number whose bytes can be reversed.
trait Number: Copy {
    fn reversed(self) -> Self;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            #[inline(always)]
            fn reversed(self) -> Self {
                self.swap_bytes()
            }
        }
    )*};
}
numbers!(u16, u32, u64);

/// A run that is one value of `T`.
struct Plain<T>(T);

impl<T: Copy> Run for Plain<T> {
    const BYTES: Option<usize> = Some(size_of::<T>());

    #[inline(always)]
    unsafe fn carry(from: *const u8, to: *mut u8, _: usize) {
        // SAFETY: passed on.
        unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) }
    }

    const EDGE: usize = edge(size_of::<T>());

    #[inline(always)]
    unsafe fn tile(from: *const u8, to: *mut u8, steps: [isize; 2], lines: [usize; 2]) {
        // SAFETY: passed on.
        unsafe { tile::<false>(size_of::<T>(), from, to, steps, lines) }
    }
}

/// Edge of the tiles in which numbers of `bytes` bytes are transposed: as many as a register holds; 0 where there are none.
const fn edge(bytes: usize) -> usize {
    match bytes {
        4 | 8 if cfg!(target_arch = "x86_64") => REGISTER_BYTES / bytes,
        _ => 0,
    }
}

/// Transposes a tile of numbers of `bytes` bytes, and reverses them.
///
/// # Safety
///
/// As [`Run::tile`], and [`edge`] is not 0.
#[inline(always)]
unsafe fn tile<const REVERSED: bool>(bytes: usize, from: *const u8, to: *mut u8, steps: [isize; 2], lines: [usize; 2]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: passed on.
    unsafe {
        match bytes {
            8 => avx2::tile_of_8::<REVERSED>(from, to, steps, lines),
            _ => avx2::tile_of_4::<REVERSED>(from, to, steps, lines),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, from, to, steps, lines);
}

/// A run of at least one and at most two `T`: the first and the last, which may overlap.
struct Between<T>(T);

impl<T: Copy> Run for Between<T> {
    const BYTES: Option<usize> = None;
    const UNROLLED: usize = 8;

    #[inline(always)]
    unsafe fn carry(from: *const u8, to: *mut u8, run_bytes: usize) {
        if run_bytes < size_of::<T>() {
            // SAFETY: passed on.
            return unsafe { Bytes::carry(from, to, run_bytes) };
        }
        let last = run_bytes - size_of::<T>();
        // SAFETY: both values lie inside the run.
        unsafe {
            let head = from.cast::<T>().read_unaligned();
            let tail = from.add(last).cast::<T>().read_unaligned();
            to.cast::<T>().write_unaligned(head);
            to.add(last).cast::<T>().write_unaligned(tail);
        }
    }
}

/// A run of more than 32 bytes: 32 at a time, and the last 32, which may overlap those before.
struct Chunks;

/// Runs that have fewer bytes are so short that a call of memcpy costs more than it does better.
pub(super) const CHUNKED_BYTES: u64 = 256;

impl Run for Chunks {
    const BYTES: Option<usize> = None;

    #[inline(always)]
    unsafe fn carry(from: *const u8, to: *mut u8, run_bytes: usize) {
        type Chunk = Plain<[u64; 4]>;
        let last = run_bytes - size_of::<Chunk>();
        let mut at = 0;
        // SAFETY: all chunks lie inside the run.
        unsafe {
            while at < last {
                Chunk::carry(from.add(at), to.add(at), size_of::<Chunk>());
                at += size_of::<Chunk>();
            }
            Chunk::carry(from.add(last), to.add(last), size_of::<Chunk>());
        }
    }
}

/// A run of any length.
struct Bytes;

impl Run for Bytes {
    const BYTES: Option<usize> = None;

    #[inline(always)]
    unsafe fn carry(from: *const u8, to: *mut u8, run_bytes: usize) {
        // SAFETY: passed on; source and destination do not overlap.
        unsafe { copy_nonoverlapping(from, to, run_bytes) }
    }
}

/// A run of `COUNT` numbers whose bytes are reversed.
struct Reversed<T, const COUNT: usize>(T);

impl<T: Number, const COUNT: usize> Run for Reversed<T, COUNT> {
    const BYTES: Option<usize> = Some(COUNT * size_of::<T>());

    #[inline(always)]
    unsafe fn carry(from: *const u8, to: *mut u8, _: usize) {
        for at in 0..COUNT {
            // SAFETY: the run has COUNT numbers.
            unsafe { to.cast::<T>().add(at).write_unaligned(from.cast::<T>().add(at).read_unaligned().reversed()) };
        }
    }

    const EDGE: usize = if COUNT == 1 { edge(size_of::<T>()) } else { 0 };

    #[inline(always)]
    unsafe fn tile(from: *const u8, to: *mut u8, steps: [isize; 2], lines: [usize; 2]) {
        // SAFETY: passed on.
        unsafe { tile::<true>(size_of::<T>(), from, to, steps, lines) }
    }
}

/// A run of any number of numbers whose bytes are reversed.
struct Numbers<T>(T);

impl<T: Number> Run for Numbers<T> {
    const BYTES: Option<usize> = None;

    #[inline(always)]
    unsafe fn carry(from: *const u8, to: *mut u8, run_bytes: usize) {
        for at in 0..run_bytes / size_of::<T>() {
            // SAFETY: the run has as many numbers.
            unsafe { to.cast::<T>().add(at).write_unaligned(from.cast::<T>().add(at).read_unaligned().reversed()) };
        }
    }
}

/// Row by row, along the columns.
///
/// # Safety
///
/// As [`Kernel::run`].
#[inline(always)]
unsafe fn rows<R: Run>(from: *const u8, to: *mut u8, nest: &Nest) {
    let (from_step, to_step) = (nest.columns.from_bytes as isize, nest.columns.to_bytes as isize);
    // The compiler makes a better loop of a distance that it knows.
    // SAFETY: passed on.
    unsafe {
        match R::BYTES.map(|bytes| bytes as isize) {
            Some(bytes) if to_step == bytes => stepped::<R>(from, to, nest, from_step, bytes),
            Some(bytes) if from_step == bytes => stepped::<R>(from, to, nest, bytes, to_step),
            _ => stepped::<R>(from, to, nest, from_step, to_step),
        }
    }
}

/// Row by row, some columns of each nest and then of the next.
///
/// # Safety
///
/// As [`Together::run`].
#[inline(always)]
unsafe fn together<R: Run>(places: &[(*const u8, *mut u8)], nest: &Nest) {
    let run_bytes = R::BYTES.unwrap_or(nest.run_bytes);
    let (from_step, to_step) = (nest.columns.from_bytes as isize, nest.columns.to_bytes as isize);
    for row in 0..nest.rows.count as isize {
        let mut at = (row * nest.rows.from_bytes as isize, row * nest.rows.to_bytes as isize);
        let mut left = nest.columns.count as usize;
        if let [first, second] = places {
            // One by one: the second of a row and the first of the next are often of one line.
            let starts = [first, second].map(|(from, to)| (from.wrapping_offset(at.0), to.wrapping_offset(at.1)));
            for column in 0..left as isize {
                for (from, to) in starts {
                    // SAFETY: all positions are of the nest.
                    unsafe { R::carry(from.offset(column * from_step), to.offset(column * to_step), run_bytes) };
                }
            }
            continue;
        }
        while left > 0 {
            let count = left.min(RECORDS);
            for (from, to) in places {
                // SAFETY: all positions are of the nest.
                unsafe { line::<R>(from.offset(at.0), to.offset(at.1), from_step, to_step, count, run_bytes) };
            }
            at = (at.0 + count as isize * from_step, at.1 + count as isize * to_step);
            left -= count;
        }
    }
}

/// # Safety
///
/// As [`Kernel::run`]; the steps are those of the columns.
#[inline(always)]
unsafe fn stepped<R: Run>(from: *const u8, to: *mut u8, nest: &Nest, from_step: isize, to_step: isize) {
    let run_bytes = R::BYTES.unwrap_or(nest.run_bytes);
    for row in 0..nest.rows.count as isize {
        // SAFETY: all positions are of the nest.
        unsafe {
            let from = from.offset(row * nest.rows.from_bytes as isize);
            let to = to.offset(row * nest.rows.to_bytes as isize);
            line::<R>(from, to, from_step, to_step, nest.columns.count as usize, run_bytes);
        }
    }
}

/// Columns of a transpose that are passed over for one block of rows after the other: their pages stay in the second
/// level of the translation buffer, and lines of theirs that blocks share in the second level of the cache.
const SWEEP: u64 = 1024;

/// Columns of a block of a transpose: two lines of each stay in the first level of the cache, and rows of the destination
/// are long enough to be seen coming.
const BLOCK_COLUMNS: u64 = 128;

/// Columns or rows so few that they are passed over one by one along the others.
const FEW: u64 = 8;

/// Bytes that such a pass advances in the side that is farther spread.
const STRIP_BYTES: u64 = 4096;

/// Runs of such a pass along the longer axis, at least.
const STRIP_LEAST: u64 = 16;

/// Blocks of some rows and columns, so that lines of both sides are used as a whole: two lines of the source, because
/// processors read neighbours in pairs, and as many columns as keep the pages that are written few. The source is fastest
/// along the rows, the destination along the columns.
///
/// # Safety
///
/// As [`Kernel::run`].
#[inline(always)]
unsafe fn transpose<R: Run, const AVX2: bool>(from: *const u8, to: *mut u8, nest: &Nest) {
    let (rows, columns) = (nest.rows, nest.columns);
    // SAFETY: all parts are of the nest.
    unsafe {
        let run_bytes = R::BYTES.unwrap_or(nest.run_bytes);
        let tiled =
            AVX2 && R::EDGE > 0 && rows.from_bytes as usize == run_bytes && columns.to_bytes as usize == run_bytes;
        if rows.count < FEW || columns.count < FEW {
            let into_records = columns.count < rows.count;
            let (few, dense) = match into_records {
                true => (columns.count, rows.to_bytes == columns.to_bytes * columns.count as i64),
                false => (rows.count, columns.from_bytes == rows.from_bytes * rows.count as i64),
            };
            return match (few, into_records) {
                _ if !tiled || !dense || few > R::EDGE as u64 => strips::<R>(from, to, nest),
                (2, false) => records::<R, 2, false>(from, to, nest),
                (2, true) => records::<R, 2, true>(from, to, nest),
                (3, false) => records::<R, 3, false>(from, to, nest),
                (3, true) => records::<R, 3, true>(from, to, nest),
                (4, false) => records::<R, 4, false>(from, to, nest),
                (4, true) => records::<R, 4, true>(from, to, nest),
                _ => strips::<R>(from, to, nest),
            };
        }
        let height = block_rows(run_bytes);
        let nest_bytes = rows.count.saturating_mul(columns.count).saturating_mul(run_bytes as u64);
        // Lines that lie so far apart take each other's place in the first level of the cache.
        let crowded = columns.from_bytes % CROWDED_BYTES == 0 || rows.to_bytes % CROWDED_BYTES == 0;
        #[cfg(target_arch = "x86_64")]
        if AVX2 && columns.to_bytes as usize == run_bytes && columns.count >= WIDE && (nest.stream || crowded) {
            return avx2::staged::<R>(from, to, nest, tiled);
        }
        let (width, height) =
            if nest_bytes <= SMALL_BYTES { (columns.count, rows.count) } else { (BLOCK_COLUMNS, height) };
        for sweep in (0..columns.count).step_by(SWEEP as usize) {
            let sweep_end = (sweep + SWEEP).min(columns.count);
            for row in (0..rows.count).step_by(height as usize) {
                let row_end = (row + height).min(rows.count);
                for column in (sweep..sweep_end).step_by(width as usize) {
                    let column_end = (column + width).min(sweep_end);
                    let from_bytes = row as i64 * rows.from_bytes + column as i64 * columns.from_bytes;
                    let to_bytes = row as i64 * rows.to_bytes + column as i64 * columns.to_bytes;
                    let (from, to) = (from.offset(from_bytes as isize), to.offset(to_bytes as isize));
                    let part = Nest {
                        rows: Axis { count: row_end - row, ..rows },
                        columns: Axis { count: column_end - column, ..columns },
                        ..*nest
                    };
                    block::<R>(from, to, &part, tiled, false);
                }
            }
        }
    }
}

/// Distance of lines of which a processor's first cache holds few: half of the bytes that one way of it has.
const CROWDED_BYTES: i64 = 2048;

/// Bytes of a nest up to which its transpose is one block: all lines of it stay in the cache.
const SMALL_BYTES: u64 = 8 << 10;

/// Rows of a block of a transpose: two lines of the source, because processors read neighbours in pairs.
fn block_rows(run_bytes: usize) -> u64 {
    (2 * LINE_BYTES / run_bytes as u64).clamp(8, 32)
}

/// Columns that are worth a stage.
const WIDE: u64 = 32;

/// Some rows of a transpose on their way: they stay in the first level of the cache.
#[repr(align(64))]
struct Stage([std::mem::MaybeUninit<u8>; STAGE_BYTES + 32 * 2 * LINE_BYTES as usize]);

/// Bytes of a stage without the gaps between its lines.
const STAGE_BYTES: usize = 16 << 10;

/// A transpose whose blocks are made in a stage and written from there line by line: rows of the destination that begin
/// anywhere in a cache line are written as whole lines, without reading them first, and few pages are written at a time.
///
/// # Safety
///
/// As [`Kernel::run`]; the destination is dense along the columns. `tiled`: the source is along the rows, and tiles of `R`
/// can be transposed.
#[inline(always)]
unsafe fn staged<R: Run>(from: *const u8, to: *mut u8, nest: &Nest, tiled: bool) {
    let (rows, columns) = (nest.rows, nest.columns);
    let run_bytes = R::BYTES.unwrap_or(nest.run_bytes);
    let edge = R::EDGE.max(1) as u64;
    let height = block_rows(run_bytes);
    let widest = STAGE_BYTES as u64 / height / run_bytes as u64;
    // As wide as each other, and made up of tiles.
    let width = columns.count.div_ceil(columns.count.div_ceil(widest)).next_multiple_of(edge).min(widest);
    // The gap keeps the lines of a stage out of each other's place in the cache.
    let line_bytes = (width * run_bytes as u64).next_multiple_of(LINE_BYTES) + LINE_BYTES;
    let mut stage = Stage([std::mem::MaybeUninit::uninit(); _]);
    let stage = stage.0.as_mut_ptr().cast::<u8>();
    for column in (0..columns.count).step_by(width as usize) {
        let across = Axis { count: width.min(columns.count - column), ..columns };
        for row in (0..rows.count).step_by(height as usize) {
            let down = Axis { count: height.min(rows.count - row), to_bytes: line_bytes as i64, ..rows };
            let from_bytes = row as i64 * rows.from_bytes + column as i64 * columns.from_bytes;
            let to_bytes = row as i64 * rows.to_bytes + column as i64 * columns.to_bytes;
            // SAFETY: the block is one of the nest, and the stage has as many lines as it has rows, each as long as a
            // row of it or longer.
            unsafe {
                let (from, to) = (from.offset(from_bytes as isize), to.offset(to_bytes as isize));
                block::<R>(from, stage, &Nest { rows: down, columns: across, ..*nest }, tiled, true);
                for at in 0..down.count as isize {
                    let line = stage.offset(at * line_bytes as isize);
                    put(line, to.offset(at * rows.to_bytes as isize), across.count as usize * run_bytes, nest.stream);
                }
            }
        }
    }
}

/// Transposes a block: in tiles of `R` where `tiled` says that there are some, and else run by run. The last tiles of a row
/// and of a column begin as far before the end as they are long, and write some runs a second time. Where the block is
/// `staged`, the source is read line by line, because what is written stays in the cache; elsewhere the destination is
/// written line by line.
///
/// # Safety
///
/// As [`Kernel::run`].
#[inline(always)]
unsafe fn block<R: Run>(from: *const u8, to: *mut u8, nest: &Nest, tiled: bool, staged: bool) {
    let (rows, columns) = (nest.rows, nest.columns);
    let edge = R::EDGE as u64;
    if !tiled || rows.count < edge || columns.count < edge {
        // SAFETY: passed on.
        return unsafe { self::rows::<R>(from, to, nest) };
    }
    let steps = [columns.from_bytes as isize, rows.to_bytes as isize];
    let place = |row: u64, column: u64| {
        let from_bytes = row as i64 * rows.from_bytes + column as i64 * columns.from_bytes;
        let to_bytes = row as i64 * rows.to_bytes + column as i64 * columns.to_bytes;
        (from.wrapping_offset(from_bytes as isize), to.wrapping_offset(to_bytes as isize))
    };
    // SAFETY: all tiles are of the nest.
    unsafe {
        if !staged {
            for row in (0..rows.count).step_by(R::EDGE.max(1)) {
                for column in (0..columns.count).step_by(R::EDGE.max(1)) {
                    let (from, to) = place(row.min(rows.count - edge), column.min(columns.count - edge));
                    R::tile(from, to, steps, [R::EDGE; 2]);
                }
            }
            return;
        }
        for column in (0..columns.count).step_by(R::EDGE.max(1)) {
            let column = column.min(columns.count - edge);
            if nest.stream {
                // What the next but one block reads.
                for at in column..column + edge {
                    let next = place(2 * rows.count, at).0;
                    fetch(next);
                    fetch(next.wrapping_add(LINE_BYTES as usize));
                }
            }
            for row in (0..rows.count).step_by(R::EDGE.max(1)) {
                let (from, to) = place(row.min(rows.count - edge), column);
                R::tile(from, to, steps, [R::EDGE; 2]);
            }
        }
    }
}

/// Asks the memory for a line that is read later. It may lie anywhere.
#[inline(always)]
pub(super) fn fetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: what is asked for is not touched, and need not exist.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// Copies bytes of a stage.
///
/// # Safety
///
/// As [`Run::carry`]; `stream` only where AVX2 is.
#[inline(always)]
unsafe fn put(from: *const u8, to: *mut u8, bytes: usize, stream: bool) {
    // SAFETY: passed on.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if stream && bytes as u64 >= STREAMED_BYTES {
            return avx2::stream(from, to, bytes);
        }
        let _ = stream;
        copy_nonoverlapping(from, to, bytes);
    }
}

/// A transpose between records without gaps, of `FIELDS` runs each, and as many arrays: tiles of one edge of records.
/// What a tile reads or writes beyond its records is of the following ones, which are written after it; the last records
/// are in no tile.
///
/// # Safety
///
/// As [`Kernel::run`]; tiles of `R` can be transposed, and have at least `FIELDS` lines.
#[inline(always)]
unsafe fn records<R: Run, const FIELDS: usize, const INTO: bool>(from: *const u8, to: *mut u8, nest: &Nest) {
    let (rows, columns) = (nest.rows, nest.columns);
    let (few, long) = if INTO { (columns, rows) } else { (rows, columns) };
    let lines = if INTO { [FIELDS, R::EDGE] } else { [R::EDGE, FIELDS] };
    let steps = [columns.from_bytes as isize, rows.to_bytes as isize];
    let edge = R::EDGE as isize;
    let tiles = (long.count / R::EDGE as u64).saturating_sub(1);
    let mut place = (from, to);
    // SAFETY: a record of a tile is followed by as many as the tile reaches into.
    unsafe {
        for _ in 0..tiles {
            R::tile(place.0, place.1, steps, lines);
            place.0 = place.0.offset(edge * long.from_bytes as isize);
            place.1 = place.1.offset(edge * long.to_bytes as isize);
        }
        let long = Axis { count: long.count - tiles * R::EDGE as u64, ..long };
        self::rows::<R>(place.0, place.1, &Nest { rows: few, columns: long, ..*nest });
    }
}

/// A transpose with few rows or few columns: strips of the longer axis, each passed over once for each of the few.
///
/// # Safety
///
/// As [`Kernel::run`].
#[inline(always)]
unsafe fn strips<R: Run>(from: *const u8, to: *mut u8, nest: &Nest) {
    let (few, long) = match nest.rows.count < nest.columns.count {
        true => (nest.rows, nest.columns),
        false => (nest.columns, nest.rows),
    };
    if long.count <= STRIP_LEAST {
        // SAFETY: it is the nest.
        return unsafe { rows::<R>(from, to, &Nest { rows: few, columns: long, ..*nest }) };
    }
    let reach = long.from_bytes.unsigned_abs().max(long.to_bytes.unsigned_abs());
    let strip = (STRIP_BYTES / reach).max(STRIP_LEAST);
    for begin in (0..long.count).step_by(strip as usize) {
        let count = (long.count - begin).min(strip);
        let part = Nest { rows: few, columns: Axis { count, ..long }, ..*nest };
        // SAFETY: the part is one of the nest.
        unsafe {
            let from = from.offset((begin as i64 * long.from_bytes) as isize);
            let to = to.offset((begin as i64 * long.to_bytes) as isize);
            rows::<R>(from, to, &part);
        }
    }
}

/// A run of each row, at the first row.
#[cfg(target_arch = "x86_64")]
pub(super) struct Piece {
    pub(super) from: *const u8,
    /// From row to row.
    pub(super) from_bytes: isize,
    pub(super) run_bytes: usize,
}

/// Lines of several pieces are put together of words.
#[cfg(target_arch = "x86_64")]
pub(super) const WORD_BYTES: u64 = 4;

/// Whether [`join`] can be called for runs of whole words, to places that are whole words from `to`.
#[cfg(target_arch = "x86_64")]
pub(super) fn can_join(to: *mut u8) -> bool {
    has_avx2() && (to as u64).is_multiple_of(WORD_BYTES)
}

/// Writes rows that are made up of pieces, one behind the other, past the caches.
///
/// # Safety
///
/// The pieces may be read in all rows, and as many bytes be written; [`can_join`] says yes, and each piece has two lines
/// or more.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn join(pieces: &[Piece], rows: u64, to: *mut u8) {
    // SAFETY: passed on.
    unsafe { avx2::join(pieces, rows, to) }
}

/// What was written past the caches is in memory before anything that this thread writes later.
pub(super) fn end_stream(stream: bool) {
    #[cfg(target_arch = "x86_64")]
    if stream {
        // SAFETY: all processors of this architecture have the instruction.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = stream;
}

/// Whether the loops that the compiler made for AVX2 can run.
#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("movbe")
}
