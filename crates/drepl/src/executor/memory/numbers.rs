//! Conversions: numbers that are read, rounded to another type, and written.
//!
//! # Safety
//!
//! The invariant is that of [`memory`](super): numbers are read and written through pointers, by value, at any address.
#![allow(unsafe_code)]

use half::{bf16, f16};

use super::{ONE, for_each};
use crate::transfer::{Conversion, Float, Number};
use crate::types::ByteOrder;

/// A type of numbers in memory. All of them have a value among those of `f64`.
trait Word {
    const BYTES: usize;

    /// The number that lies there, with its bytes reversed or not.
    ///
    /// # Safety
    ///
    /// `at` is valid for reads of `BYTES` bytes.
    unsafe fn read<const SWAPS: bool>(at: *const u8) -> f64;

    /// Puts the nearest number there.
    ///
    /// # Safety
    ///
    /// `at` is valid for writes of `BYTES` bytes.
    unsafe fn write<const SWAPS: bool>(value: f64, at: *mut u8);
}

macro_rules! word {
    ($name:ty, $bits:ty, $widened:expr, $rounded:expr) => {
        impl Word for $name {
            const BYTES: usize = size_of::<$bits>();

            unsafe fn read<const SWAPS: bool>(at: *const u8) -> f64 {
                // SAFETY: the caller vouches for the bytes, whatever their alignment.
                let bits = unsafe { at.cast::<$bits>().read_unaligned() };
                $widened(<$name>::from_bits(if SWAPS { bits.swap_bytes() } else { bits }))
            }

            unsafe fn write<const SWAPS: bool>(value: f64, at: *mut u8) {
                let bits = <$name>::to_bits($rounded(value));
                // SAFETY: as above.
                unsafe { at.cast::<$bits>().write_unaligned(if SWAPS { bits.swap_bytes() } else { bits }) }
            }
        }
    };
}

word!(f64, u64, |value| value, |value| value);
word!(f32, u32, f64::from, |value| value as f32);
word!(f16, u16, f64::from, |value| f16::from_f32(with_sticky_bit(value)));
word!(bf16, u16, f64::from, |value| bf16::from_f32(with_sticky_bit(value)));

/// A number with digits enough that what it is rounded to is what the value is rounded to: cut off, and odd where something was
/// (S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
/// `half` cuts off what 32 bits of a `f64` say.
fn with_sticky_bit(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    if back == value || value.is_nan() {
        return nearest;
    }
    let below = nearest.to_bits() - u32::from(back.abs() > value.abs());
    f32::from_bits(below | 1)
}

/// Executes one conversion.
///
/// # Safety
///
/// All its positions lie inside of what `from` may be read for and `to` written for; no other thread touches the bytes written.
pub(super) unsafe fn convert(each: &Conversion, from: *const u8, to: *mut u8) {
    // SAFETY: passed on.
    unsafe {
        match each.source.float {
            Float::Float16 => convert_from::<f16>(each, from, to),
            Float::Bfloat16 => convert_from::<bf16>(each, from, to),
            Float::Float32 => convert_from::<f32>(each, from, to),
            Float::Float64 => convert_from::<f64>(each, from, to),
        }
    }
}

/// # Safety
///
/// As [`convert`]; numbers of the source are of this type.
unsafe fn convert_from<S: Word>(each: &Conversion, from: *const u8, to: *mut u8) {
    // SAFETY: passed on.
    unsafe {
        match each.destination.float {
            Float::Float16 => convert_to::<S, f16>(each, from, to),
            Float::Bfloat16 => convert_to::<S, bf16>(each, from, to),
            Float::Float32 => convert_to::<S, f32>(each, from, to),
            Float::Float64 => convert_to::<S, f64>(each, from, to),
        }
    }
}

/// # Safety
///
/// As [`convert`]; numbers of both sides are of these types.
unsafe fn convert_to<S: Word, D: Word>(each: &Conversion, from: *const u8, to: *mut u8) {
    let swaps = |number: Number| number.byte_order != ByteOrder::NATIVE;
    // SAFETY: passed on.
    unsafe {
        match (swaps(each.source), swaps(each.destination)) {
            (false, false) => convert_all::<S, D, false, false>(each, from, to),
            (false, true) => convert_all::<S, D, false, true>(each, from, to),
            (true, false) => convert_all::<S, D, true, false>(each, from, to),
            (true, true) => convert_all::<S, D, true, true>(each, from, to),
        }
    }
}

/// # Safety
///
/// As [`convert_to`].
unsafe fn convert_all<S: Word, D: Word, const FROM: bool, const TO: bool>(
    each: &Conversion,
    from: *const u8,
    to: *mut u8,
) {
    let (inner, outer) = each.axes.split_last().unwrap_or((&ONE, &[]));
    let (from_step, to_step) = (inner.from_bytes as isize, inner.to_bytes as isize);
    let is_whole = usize::from(each.written.end - each.written.start) == D::BYTES;
    let is_dense = is_whole && (from_step, to_step) == (S::BYTES as isize, D::BYTES as isize);
    for_each(outer, |from_at, to_at| {
        let from = from.wrapping_offset(each.from as isize + from_at as isize);
        let to = to.wrapping_offset(each.to as isize + to_at as isize);
        for at in 0..inner.count as isize {
            // Constant steps let the compiler convert several numbers at once.
            let (source, destination) = match is_dense {
                true => (at * S::BYTES as isize, at * D::BYTES as isize),
                false => (at * from_step, at * to_step),
            };
            // SAFETY: indices below the counts of all axes name positions of the conversion.
            unsafe {
                let value = S::read::<FROM>(from.offset(source));
                let to = to.offset(destination);
                match is_whole {
                    true => D::write::<TO>(value, to),
                    false => write_some::<D, TO>(value, to, each),
                }
            }
        }
    });
}

/// Writes those bytes of a number that lie in a window.
///
/// # Safety
///
/// `to` is valid for writes of as many bytes as are written of a number.
unsafe fn write_some<D: Word, const SWAPS: bool>(value: f64, to: *mut u8, each: &Conversion) {
    let mut whole = [0; size_of::<f64>()];
    let written = &each.written;
    // SAFETY: no number is longer than eight bytes, and the written ones are among them: a transfer has no other conversions.
    unsafe {
        D::write::<SWAPS>(value, whole.as_mut_ptr());
        let first = whole.as_ptr().add(usize::from(written.start));
        to.copy_from_nonoverlapping(first, usize::from(written.end - written.start));
    }
}
