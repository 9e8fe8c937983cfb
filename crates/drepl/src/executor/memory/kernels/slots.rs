//! Records whose fields of 4 and 8 bytes lie in slots of 8, and as many arrays: four records and four slots at a time,
//! transposed in registers.
//!
//! # Safety
//!
//! The invariant is that of [`kernels`](super); the processor has AVX2.
#![allow(unsafe_code)]

use std::{arch::x86_64::*, ptr::null_mut};

use smallvec::SmallVec;

use super::Field;

/// Bytes of a slot.
const SLOT_BYTES: isize = 8;

/// Slots and records that are transposed together.
const EDGE: usize = 4;

/// Slots of the largest records.
const SLOTS: usize = 64;

/// What lies in a slot: one field of 8 bytes or up to two of 4; where their arrays are, null where there is none.
#[derive(Clone, Copy)]
struct Slot {
    whole: *mut u8,
    halves: [*mut u8; 2],
    /// Which byte goes where, the same in both slots of half a register.
    order: [u8; 16],
}

impl Slot {
    fn new() -> Slot {
        Slot { whole: null_mut(), halves: [null_mut(); 2], order: std::array::from_fn(|byte| byte as u8) }
    }

    /// Puts a field at a byte of the slot; false where that is taken or none for a field.
    fn put(&mut self, array: *mut u8, within: usize, bytes: usize, swaps: bool) -> bool {
        let free = self.whole.is_null() && (bytes == 4 || self.halves == [null_mut(); 2]);
        match (bytes, within) {
            (8, 0) if free => self.whole = array,
            (4, 0) if free && self.halves[0].is_null() => self.halves[0] = array,
            (4, 4) if free && self.halves[1].is_null() => self.halves[1] = array,
            _ => return false,
        }
        for first in [within, within + 8] {
            if swaps {
                self.order[first..first + bytes].reverse();
            }
        }
        true
    }
}

/// Moves all fields of as many of `count` records as it can, which may be none, and says how many.
///
/// # Safety
///
/// As [`fields`](super::fields), where AVX2 is.
pub(super) unsafe fn run(fields: &mut [Field], count: u64) -> u64 {
    if count < 4 * EDGE as u64 {
        return 0;
    }
    let array = |bytes: i64, field: &Field| bytes == field.run_bytes as i64;
    let step = (fields[0].columns.from_bytes, fields[0].columns.to_bytes);
    let into = if fields.iter().all(|field| field.columns.from_bytes == step.0 && array(field.columns.to_bytes, field))
    {
        false
    } else if fields.iter().all(|field| field.columns.to_bytes == step.1 && array(field.columns.from_bytes, field)) {
        true
    } else {
        return 0;
    };
    let record_bytes = if into { step.1 } else { step.0 } as isize;
    let place = |field: &Field| if into { field.to as isize } else { field.from as isize };
    let first = (0..fields.len()).min_by_key(|at| place(&fields[*at])).unwrap_or(0);
    let base = place(&fields[first]);
    let mut slots: SmallVec<[Slot; 16]> = SmallVec::new();
    let mut filled_bytes = 0;
    let mut any_swaps = false;
    for field in fields.iter() {
        let offset = place(field) - base;
        let (slot, within) = ((offset / SLOT_BYTES) as usize, (offset % SLOT_BYTES) as usize);
        let swaps = field.swap_bytes > 1;
        if record_bytes < SLOT_BYTES || slot >= SLOTS || swaps && usize::from(field.swap_bytes) != field.run_bytes {
            return 0;
        }
        if slots.len() <= slot {
            slots.resize(slot + 1, Slot::new());
        }
        let array = if into { field.from.cast_mut() } else { field.to };
        if !slots[slot].put(array, within, field.run_bytes, swaps) {
            return 0;
        }
        any_swaps |= swaps;
        filled_bytes += field.run_bytes as isize;
    }
    let span_bytes = slots.len() as isize * SLOT_BYTES;
    // A tile that is stored reaches into all bytes up to its end: they have to be of the records, each of one field.
    let reach_bytes = fields.iter().map(|field| place(field) - base + field.run_bytes as isize).max().unwrap_or(0);
    if span_bytes > record_bytes + 4 || into && (filled_bytes != record_bytes || reach_bytes != record_bytes) {
        return 0;
    }
    // Of the last records, a tile would reach beyond the end.
    let tiles = (count / EDGE as u64).saturating_sub(1 + (32 / record_bytes as u64) / EDGE as u64);
    // SAFETY: each slot of the tiles is inside of the fields, or of what follows them.
    unsafe {
        match (into, any_swaps) {
            (true, true) => arrays_to_records::<true>(&slots, fields[first].to, record_bytes, tiles),
            (true, false) => arrays_to_records::<false>(&slots, fields[first].to, record_bytes, tiles),
            (false, true) => records_to_arrays::<true>(&slots, fields[first].from, record_bytes, tiles),
            (false, false) => records_to_arrays::<false>(&slots, fields[first].from, record_bytes, tiles),
        }
    }
    let done = tiles * EDGE as u64;
    for field in fields {
        field.from = field.from.wrapping_offset(done as isize * field.columns.from_bytes as isize);
        field.to = field.to.wrapping_offset(done as isize * field.columns.to_bytes as isize);
    }
    done
}

/// # Safety
///
/// As [`run`]; `EDGE` records and 32 bytes beyond the first byte of the last group of slots may be read for each tile.
#[target_feature(enable = "avx2,bmi2,movbe")]
unsafe fn records_to_arrays<const SWAP: bool>(slots: &[Slot], base: *const u8, record_bytes: isize, tiles: u64) {
    let mut place = base;
    let split = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    // SAFETY: passed on.
    unsafe {
        for tile in 0..tiles as usize {
            let mut from = place;
            for group in slots.chunks(EDGE) {
                let columns = transpose(std::array::from_fn(|at| {
                    _mm256_loadu_si256(from.offset(at as isize * record_bytes).cast())
                }));
                from = from.add(EDGE * SLOT_BYTES as usize);
                for (slot, mut column) in group.iter().zip(columns) {
                    if SWAP {
                        column = _mm256_shuffle_epi8(column, order(slot));
                    }
                    if !slot.whole.is_null() {
                        _mm256_storeu_si256(slot.whole.add(tile * 32).cast(), column);
                        continue;
                    }
                    let halves = _mm256_permutevar8x32_epi32(column, split);
                    if !slot.halves[0].is_null() {
                        let low = _mm256_castsi256_si128(halves);
                        _mm_storeu_si128(slot.halves[0].add(tile * 16).cast(), low);
                    }
                    if !slot.halves[1].is_null() {
                        let high = _mm256_extracti128_si256::<1>(halves);
                        _mm_storeu_si128(slot.halves[1].add(tile * 16).cast(), high);
                    }
                }
            }
            place = place.offset(EDGE as isize * record_bytes);
        }
    }
}

/// # Safety
///
/// As [`run`]; `EDGE` records and 32 bytes beyond the first byte of the last group of slots may be written for each
/// tile, and what follows a record is written later.
#[target_feature(enable = "avx2,bmi2,movbe")]
unsafe fn arrays_to_records<const SWAP: bool>(slots: &[Slot], base: *mut u8, record_bytes: isize, tiles: u64) {
    let mut place = base;
    let join = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    // SAFETY: passed on.
    unsafe {
        for tile in 0..tiles as usize {
            // The last group comes first: what it spoils of the next records is written by the others, and by the
            // next tile.
            for (at, group) in slots.chunks(EDGE).enumerate().rev() {
                let half = |array: *mut u8| match array.is_null() {
                    true => _mm_setzero_si128(),
                    false => _mm_loadu_si128(array.add(tile * 16).cast()),
                };
                let column = |slot: &Slot| {
                    let read = if slot.whole.is_null() {
                        let low = _mm256_castsi128_si256(half(slot.halves[0]));
                        _mm256_permutevar8x32_epi32(_mm256_inserti128_si256::<1>(low, half(slot.halves[1])), join)
                    } else {
                        _mm256_loadu_si256(slot.whole.add(tile * 32).cast())
                    };
                    if SWAP { _mm256_shuffle_epi8(read, order(slot)) } else { read }
                };
                let zero = _mm256_setzero_si256();
                let columns = [
                    group.first().map_or(zero, column),
                    group.get(1).map_or(zero, column),
                    group.get(2).map_or(zero, column),
                    group.get(3).map_or(zero, column),
                ];
                let to = place.add(at * EDGE * SLOT_BYTES as usize);
                for (at, record) in transpose(columns).into_iter().enumerate() {
                    _mm256_storeu_si256(to.offset(at as isize * record_bytes).cast(), record);
                }
            }
            place = place.offset(EDGE as isize * record_bytes);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn order(slot: &Slot) -> __m256i {
    // SAFETY: the slot has 16 bytes there.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(slot.order.as_ptr().cast()) })
}

/// Transposes 4 by 4 numbers of 8 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(rows: [__m256i; EDGE]) -> [__m256i; EDGE] {
    let even = [_mm256_unpacklo_epi64(rows[0], rows[1]), _mm256_unpacklo_epi64(rows[2], rows[3])];
    let odd = [_mm256_unpackhi_epi64(rows[0], rows[1]), _mm256_unpackhi_epi64(rows[2], rows[3])];
    [
        _mm256_permute2x128_si256::<0x20>(even[0], even[1]),
        _mm256_permute2x128_si256::<0x20>(odd[0], odd[1]),
        _mm256_permute2x128_si256::<0x31>(even[0], even[1]),
        _mm256_permute2x128_si256::<0x31>(odd[0], odd[1]),
    ]
}
