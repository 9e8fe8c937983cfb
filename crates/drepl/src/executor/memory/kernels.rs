//! The loops that move bytes.
//!
//! # Safety
//!
//! The law is that of [`memory`](super): pointers and planes come from moves that lie inside both sides, and no kernel
//! leaves the positions its plane names. A kernel reads a run of `run_bytes` bytes at each position and writes as many.
#![allow(unsafe_code)]

use std::ptr::copy_nonoverlapping;

use crate::transfer::{Axis, Move};

/// Two loops around a run.
pub(super) struct Plane {
    pub(super) rows: Axis,
    pub(super) columns: Axis,
    pub(super) run_bytes: usize,
}

/// What executes the planes of a move.
#[derive(Clone, Copy)]
pub(super) struct Kernel(unsafe fn(*const u8, *mut u8, &Plane));

impl Kernel {
    /// The kernel for a move whose planes have the axis `rows` beside the innermost.
    pub(super) fn of(each: &Move, rows: Option<usize>) -> Kernel {
        let columns = each.axes[each.axes.len() - 1].from_bytes.unsigned_abs();
        let transposed =
            rows.is_some_and(|rows| each.axes[rows].from_bytes.unsigned_abs() < columns) && each.run_bytes < 64;
        if transposed { choose::<true>(each) } else { choose::<false>(each) }
    }

    /// # Safety
    ///
    /// All positions of the plane are inside the move this kernel was chosen for.
    pub(super) unsafe fn run(self, from: *const u8, to: *mut u8, plane: &Plane) {
        // SAFETY: passed on.
        unsafe { (self.0)(from, to, plane) }
    }
}

fn choose<const TRANSPOSED: bool>(each: &Move) -> Kernel {
    fn kernel<R: Run, const TRANSPOSED: bool>() -> Kernel {
        Kernel(if TRANSPOSED { transpose::<R> } else { rows::<R> })
    }
    match (each.swap_bytes, each.run_bytes) {
        (1, 1) => kernel::<Plain<u8>, TRANSPOSED>(),
        (1, 2) => kernel::<Plain<u16>, TRANSPOSED>(),
        (1, 4) => kernel::<Plain<u32>, TRANSPOSED>(),
        (1, 8) => kernel::<Plain<u64>, TRANSPOSED>(),
        (1, 12) => kernel::<Plain<[u32; 3]>, TRANSPOSED>(),
        (1, 16) => kernel::<Plain<u128>, TRANSPOSED>(),
        (1, 24) => kernel::<Plain<[u64; 3]>, TRANSPOSED>(),
        (1, 32) => kernel::<Plain<[u64; 4]>, TRANSPOSED>(),
        (1, 3..=7) => kernel::<Between<u32>, TRANSPOSED>(),
        (1, 9..=15) => kernel::<Between<u64>, TRANSPOSED>(),
        (1, 17..=31) => kernel::<Between<u128>, TRANSPOSED>(),
        (1, _) => kernel::<Bytes, TRANSPOSED>(),
        (2, 2) => kernel::<Reversed<u16, 1>, TRANSPOSED>(),
        (2, _) => kernel::<Numbers<u16>, TRANSPOSED>(),
        (4, 4) => kernel::<Reversed<u32, 1>, TRANSPOSED>(),
        (4, 8) => kernel::<Reversed<u32, 2>, TRANSPOSED>(),
        (4, 12) => kernel::<Reversed<u32, 3>, TRANSPOSED>(),
        (4, _) => kernel::<Numbers<u32>, TRANSPOSED>(),
        (8, 8) => kernel::<Reversed<u64, 1>, TRANSPOSED>(),
        (8, 16) => kernel::<Reversed<u64, 2>, TRANSPOSED>(),
        (8, 24) => kernel::<Reversed<u64, 3>, TRANSPOSED>(),
        _ => kernel::<Numbers<u64>, TRANSPOSED>(),
    }
}

/// Moves the only run of a move without axes.
///
/// # Safety
///
/// `from` may be read and `to` written for the run.
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, each: &Move) {
    let run_bytes = each.run_bytes as usize;
    // SAFETY: passed on.
    unsafe {
        match each.swap_bytes {
            1 => Bytes::carry(from, to, run_bytes),
            2 => Numbers::<u16>::carry(from, to, run_bytes),
            4 => Numbers::<u32>::carry(from, to, run_bytes),
            _ => Numbers::<u64>::carry(from, to, run_bytes),
        }
    }
}

/// How one run is moved. `run_bytes` is what the kind of run stands for, or within what it stands for.
trait Run {
    /// Bytes of the run, where all runs of this kind have as many.
    const BYTES: Option<usize>;

    /// # Safety
    ///
    /// `from` may be read and `to` written for `run_bytes` bytes.
    unsafe fn carry(from: *const u8, to: *mut u8, run_bytes: usize);
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
}

/// A run of at least one and at most two `T`: the first and the last, which may overlap.
struct Between<T>(T);

impl<T: Copy> Run for Between<T> {
    const BYTES: Option<usize> = None;

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
unsafe fn rows<R: Run>(from: *const u8, to: *mut u8, plane: &Plane) {
    let (rows, columns) = (plane.rows, plane.columns);
    let run_bytes = R::BYTES.unwrap_or(plane.run_bytes);
    for row in 0..rows.count as isize {
        // SAFETY: the position is one of the plane.
        unsafe {
            let from = from.offset(row * rows.from_bytes as isize);
            let to = to.offset(row * rows.to_bytes as isize);
            for column in 0..columns.count as isize {
                R::carry(
                    from.offset(column * columns.from_bytes as isize),
                    to.offset(column * columns.to_bytes as isize),
                    run_bytes,
                );
            }
        }
    }
}

/// Blocks of as many rows and columns as runs fit a cache line, so that lines of both sides are used as a whole. The
/// source is fastest along the rows, the destination along the columns.
///
/// # Safety
///
/// As [`Kernel::run`].
unsafe fn transpose<R: Run>(from: *const u8, to: *mut u8, plane: &Plane) {
    let block = match R::BYTES.unwrap_or(plane.run_bytes) {
        0..=4 => 16,
        _ => 8,
    };
    let (rows, columns) = (plane.rows, plane.columns);
    let mut column = 0;
    while column < columns.count {
        let high = (column + block).min(columns.count);
        let mut row = 0;
        while row < rows.count {
            let low = (row + block).min(rows.count);
            let part = Plane {
                rows: Axis { count: low - row, ..rows },
                columns: Axis { count: high - column, ..columns },
                run_bytes: plane.run_bytes,
            };
            // SAFETY: the part begins at a position of the plane and ends at one.
            unsafe {
                let from_bytes = row as i64 * rows.from_bytes + column as i64 * columns.from_bytes;
                let to_bytes = row as i64 * rows.to_bytes + column as i64 * columns.to_bytes;
                self::rows::<R>(from.offset(from_bytes as isize), to.offset(to_bytes as isize), &part);
            }
            row = low;
        }
        column = high;
    }
}
