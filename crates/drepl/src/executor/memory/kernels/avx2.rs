//! The loops of [`kernels`](super) compiled for AVX2, and those that need its registers.
//!
//! # Safety
//!
//! The invariant is that of [`kernels`](super); the processor has AVX2, as `has_avx2` said.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Nest, Run};

/// # Safety
///
/// As [`Kernel::run`](super::Kernel::run), where AVX2 is.
#[target_feature(enable = "avx2,bmi2,movbe")]
pub(super) unsafe fn rows<R: Run>(from: *const u8, to: *mut u8, nest: &Nest) {
    // SAFETY: passed on.
    unsafe { super::rows::<R>(from, to, nest) }
}

/// # Safety
///
/// As [`Kernel::run`](super::Kernel::run), where AVX2 is.
#[target_feature(enable = "avx2,bmi2,movbe")]
pub(super) unsafe fn transpose<R: Run>(from: *const u8, to: *mut u8, nest: &Nest) {
    // SAFETY: passed on.
    unsafe { super::transpose::<R, true>(from, to, nest) }
}

/// # Safety
///
/// As [`Together::run`](super::Together::run), where AVX2 is.
#[target_feature(enable = "avx2,bmi2,movbe")]
pub(super) unsafe fn together<R: Run>(places: &[(*const u8, *mut u8)], nest: &Nest) {
    // SAFETY: passed on.
    unsafe { super::together::<R>(places, nest) }
}

/// # Safety
///
/// As [`staged`](super::staged), where AVX2 is. Not inlined: pages of the stack that the stage needs would be touched for
/// every nest that needs none.
#[inline(never)]
#[target_feature(enable = "avx2,bmi2,movbe")]
pub(super) unsafe fn staged<R: Run>(from: *const u8, to: *mut u8, nest: &Nest, tiled: bool) {
    // SAFETY: passed on.
    unsafe { super::staged::<R>(from, to, nest, tiled) }
}

/// # Safety
///
/// As [`Kernel::run`](super::Kernel::run), where AVX2 is.
#[target_feature(enable = "avx2,bmi2,movbe")]
pub(super) unsafe fn carry<R: Run>(from: *const u8, to: *mut u8, run_bytes: usize) {
    // SAFETY: passed on.
    unsafe { R::carry(from, to, run_bytes) }
}

/// # Safety
///
/// As [`fields`](super::fields), where AVX2 is.
#[target_feature(enable = "avx2,bmi2,movbe")]
pub(super) unsafe fn some<R: Run>(field: &mut super::Field, records: usize) {
    // SAFETY: passed on.
    unsafe { super::some::<R>(field, records) }
}

/// Copies a run and writes its whole lines past the caches.
///
/// # Safety
///
/// As [`Run::carry`], where AVX2 is; the run has at least 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn stream(from: *const u8, to: *mut u8, run_bytes: usize) {
    let head = to.align_offset(64);
    let lines = (run_bytes - head) / 64;
    // SAFETY: head, lines and tail make up the run; the lines are aligned.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        let (mut source, mut line) = (from.add(head), to.add(head));
        for _ in 0..lines {
            let low = _mm256_loadu_si256(source.cast());
            let high = _mm256_loadu_si256(source.add(32).cast());
            _mm256_stream_si256(line.cast(), low);
            _mm256_stream_si256(line.add(32).cast(), high);
            source = source.add(64);
            line = line.add(64);
        }
        std::ptr::copy_nonoverlapping(source, line, run_bytes - head - lines * 64);
    }
}

/// Words that are taken, and behind them as many that are not: a window of it is the mask of a line.
const TAKEN: [i32; 32] = {
    let mut taken = [0; 32];
    let mut at = 0;
    while at < 16 {
        taken[at] = -1;
        at += 1;
    }
    taken
};

/// # Safety
///
/// As [`join`](super::join).
#[target_feature(enable = "avx2")]
pub(super) unsafe fn join(pieces: &[super::Piece], rows: u64, to: *mut u8) {
    let head = to.align_offset(64);
    let mut line = to.wrapping_add(head);
    // Bytes of the line that end the piece before, and where they are.
    let mut begun = (0, std::ptr::null::<u8>());
    for row in 0..rows as isize {
        for (at, piece) in pieces.iter().enumerate() {
            let mut from = piece.from.wrapping_offset(row * piece.from_bytes);
            let mut left = piece.run_bytes;
            for ahead in (0..left).step_by(64) {
                super::fetch(from.wrapping_offset(piece.from_bytes).wrapping_add(ahead));
            }
            // SAFETY: all bytes that are read are of this piece or of the end of the one before, and as many are
            // written; a line that is put together is whole, because every piece has more bytes than a line.
            unsafe {
                if row == 0 && at == 0 {
                    std::ptr::copy_nonoverlapping(from, to, head);
                    (from, left) = (from.add(head), left - head);
                } else if begun.0 > 0 {
                    let next = from.wrapping_sub(begun.0);
                    let window = TAKEN.as_ptr().add(16 - begun.0 / 4);
                    for half in 0..2 {
                        let words =
                            |place: *const u8, mask| _mm256_maskload_epi32(place.wrapping_add(half * 32).cast(), mask);
                        let taken = _mm256_loadu_si256(window.add(half * 8).cast());
                        let others = _mm256_xor_si256(taken, _mm256_set1_epi32(-1));
                        let both = _mm256_or_si256(words(begun.1, taken), words(next, others));
                        _mm256_stream_si256(line.add(half * 32).cast(), both);
                    }
                    line = line.add(64);
                    (from, left) = (from.add(64 - begun.0), left - (64 - begun.0));
                }
                for _ in 0..left / 64 {
                    let low = _mm256_loadu_si256(from.cast());
                    let high = _mm256_loadu_si256(from.add(32).cast());
                    _mm256_stream_si256(line.cast(), low);
                    _mm256_stream_si256(line.add(32).cast(), high);
                    (from, line) = (from.add(64), line.add(64));
                }
            }
            begun = (left % 64, from);
        }
    }
    // SAFETY: the last piece has these bytes, and the destination room for them.
    unsafe { std::ptr::copy_nonoverlapping(begun.1, line, begun.0) };
}

/// Reverses the bytes of each number of `BYTES` bytes, 4 or 8, if `REVERSED`.
#[inline(always)]
unsafe fn turned<const BYTES: usize, const REVERSED: bool>(all: __m256i) -> __m256i {
    if !REVERSED {
        return all;
    }
    // SAFETY: only called where AVX2 is.
    unsafe {
        let half = match BYTES {
            8 => _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8),
            _ => _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12),
        };
        _mm256_shuffle_epi8(all, _mm256_broadcastsi128_si256(half))
    }
}

/// Transposes 4 by 4 numbers of 8 bytes; `REVERSED`: also the bytes of each.
///
/// # Safety
///
/// As [`Run::tile`].
#[inline(always)]
pub(super) unsafe fn tile_of_8<const REVERSED: bool>(
    from: *const u8,
    to: *mut u8,
    steps: [isize; 2],
    lines: [usize; 2],
) {
    // SAFETY: passed on; the lines have 32 bytes each.
    unsafe {
        let line = |at: usize| match at < lines[0] {
            true => turned::<8, REVERSED>(_mm256_loadu_si256(from.offset(at as isize * steps[0]).cast())),
            false => _mm256_setzero_si256(),
        };
        let store = |at: usize, all: __m256i| {
            if at < lines[1] {
                _mm256_storeu_si256(to.offset(at as isize * steps[1]).cast(), all);
            }
        };
        let read = [line(0), line(1), line(2), line(3)];
        let even = [_mm256_unpacklo_epi64(read[0], read[1]), _mm256_unpacklo_epi64(read[2], read[3])];
        let odd = [_mm256_unpackhi_epi64(read[0], read[1]), _mm256_unpackhi_epi64(read[2], read[3])];
        store(0, _mm256_permute2x128_si256::<0x20>(even[0], even[1]));
        store(1, _mm256_permute2x128_si256::<0x20>(odd[0], odd[1]));
        store(2, _mm256_permute2x128_si256::<0x31>(even[0], even[1]));
        store(3, _mm256_permute2x128_si256::<0x31>(odd[0], odd[1]));
    }
}

/// Transposes 8 by 8 numbers of 4 bytes; `REVERSED`: also the bytes of each.
///
/// # Safety
///
/// As [`Run::tile`].
#[inline(always)]
pub(super) unsafe fn tile_of_4<const REVERSED: bool>(
    from: *const u8,
    to: *mut u8,
    steps: [isize; 2],
    lines: [usize; 2],
) {
    // SAFETY: passed on; the lines have 32 bytes each.
    unsafe {
        let quarter = |at: usize, right: usize| match at < lines[0] {
            true => _mm_loadu_si128(from.offset(at as isize * steps[0]).add(right * 16).cast()),
            false => _mm_setzero_si128(),
        };
        // Lines 0 and 4, 1 and 5, ... share a register, so that what remains stays inside its halves.
        let half = |at: usize, right: usize| {
            let low = _mm256_castsi128_si256(quarter(at, right));
            turned::<4, REVERSED>(_mm256_inserti128_si256::<1>(low, quarter(at + 4, right)))
        };
        for right in 0..2 {
            let read = [half(0, right), half(1, right), half(2, right), half(3, right)];
            let even = [_mm256_unpacklo_epi32(read[0], read[1]), _mm256_unpacklo_epi32(read[2], read[3])];
            let odd = [_mm256_unpackhi_epi32(read[0], read[1]), _mm256_unpackhi_epi32(read[2], read[3])];
            let store = |at: usize, all: __m256i| {
                let at = right * 4 + at;
                if at < lines[1] {
                    _mm256_storeu_si256(to.offset(at as isize * steps[1]).cast(), all);
                }
            };
            store(0, _mm256_unpacklo_epi64(even[0], even[1]));
            store(1, _mm256_unpackhi_epi64(even[0], even[1]));
            store(2, _mm256_unpacklo_epi64(odd[0], odd[1]));
            store(3, _mm256_unpackhi_epi64(odd[0], odd[1]));
        }
    }
}
