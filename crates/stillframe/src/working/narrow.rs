//! Numbers that are shown with fewer bits than they have in memory.
//!
//! All of them are rounded once, to the nearest, and to the even one of two that are as near. What is too large becomes
//! infinite, and what is no number stays none. The way from 8 bytes to 2 leads over 4, rounded to *odd*: where something is
//! lost, the last bit is 1. The number of 4 bytes is then never in the middle between two of the shorter ones unless the one of
//! 8 bytes is, and rounding it is rounding that.
//!
//! # Safety
//!
//! Numbers are read and written through pointers, because the program's memory is among them. Whoever calls vouches for as many
//! as are named. Loops compiled for instructions that a processor may lack are called where it was asked for them.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
pub(crate) mod rounding;

use crate::working::narrow::rounding::Rounding;
use half::f16;
use stillframe_segment::DType;

/// From which numbers to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Narrow {
    DoubleToSingle,
    DoubleToHalf,
    DoubleToBfloat,
    SingleToHalf,
    SingleToBfloat,
}

impl Narrow {
    /// How elements of one type become those of another; `None` if they do not.
    pub(crate) fn between(memory: &DType, shown: &DType) -> Option<Narrow> {
        match (memory, shown) {
            (DType::Float(8), DType::Float(4)) | (DType::Complex(16), DType::Complex(8)) => {
                Some(Narrow::DoubleToSingle)
            }
            (DType::Float(8), DType::Float(2)) => Some(Narrow::DoubleToHalf),
            (DType::Float(8), DType::Bfloat16) => Some(Narrow::DoubleToBfloat),
            (DType::Float(4), DType::Float(2)) => Some(Narrow::SingleToHalf),
            (DType::Float(4), DType::Bfloat16) => Some(Narrow::SingleToBfloat),
            _ => None,
        }
    }

    /// Bytes in memory for each byte that is shown.
    pub(crate) fn ratio(self) -> usize {
        match self {
            Narrow::DoubleToHalf | Narrow::DoubleToBfloat => 4,
            Narrow::DoubleToSingle | Narrow::SingleToHalf | Narrow::SingleToBfloat => 2,
        }
    }

    /// Rounds numbers at `from` to `bytes` bytes of shorter ones at `to`. Neither has to be aligned.
    ///
    /// # Safety
    /// `from` can be read for as many numbers as `bytes` bytes hold of the shorter ones, and `to` written; they do not overlap.
    pub(crate) unsafe fn round(self, _rounding: &Rounding, from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: as the caller vouches; the loops round the first numbers, and the rest is rounded one by one.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("f16c") {
                let done = avx2::round(self, from, to, bytes);
                return self.round_each(from.add(done * self.ratio()), to.add(done), bytes - done);
            }
            self.round_each(from, to, bytes);
        }
    }

    /// As [`round`](Narrow::round), on any processor.
    ///
    /// # Safety
    /// As there.
    unsafe fn round_each(self, from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: as the caller vouches.
        unsafe {
            match self {
                Narrow::DoubleToSingle => each(from, to, bytes, |number: f64| number as f32),
                Narrow::DoubleToHalf => each(from, to, bytes, |number| f16::from_f32_const(to_odd(number))),
                Narrow::DoubleToBfloat => each(from, to, bytes, |number| to_bfloat(to_odd(number))),
                Narrow::SingleToHalf => each(from, to, bytes, f16::from_f32_const),
                Narrow::SingleToBfloat => each(from, to, bytes, to_bfloat),
            }
        }
    }
}

/// # Safety
/// As [`Narrow::round`].
unsafe fn each<F, T>(from: *const u8, to: *mut u8, bytes: usize, round: impl Fn(F) -> T) {
    for number in 0..bytes / size_of::<T>() {
        // SAFETY: as the caller vouches.
        unsafe {
            let rounded = round(from.cast::<F>().add(number).read_unaligned());
            to.cast::<T>().add(number).write_unaligned(rounded);
        }
    }
}

/// The number of 4 bytes next to this one whose last bit is 1, or the number itself if 4 bytes have it.
fn to_odd(number: f64) -> f32 {
    let nearest = number as f32;
    let (bits, back) = (nearest.to_bits(), f64::from(nearest));
    let is_even = bits & 1 == 0;
    // Bits count upwards with the magnitude, whatever the sign.
    let up = u32::from(is_even & (back.abs() < number.abs()));
    let down = u32::from(is_even & (back.abs() > number.abs()));
    f32::from_bits(bits + up - down)
}

/// The bits of the nearest number that has the upper half alone.
fn to_bfloat(number: f32) -> u16 {
    let bits = number.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    // One of the bits that stay says that it is none.
    let none = bits >> 16 | 0x40;
    (if number.is_nan() { none } else { rounded }) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;
    use proptest::prelude::*;

    fn rounded(narrow: Narrow, from: &[u8]) -> Vec<u8> {
        let bytes = from.len() / narrow.ratio();
        let (mut to, mut plain) = (vec![0; bytes], vec![0; bytes]);
        // SAFETY: all of them are as long as is said.
        unsafe {
            narrow.round(&Rounding::begin(), from.as_ptr(), to.as_mut_ptr(), bytes);
            narrow.round_each(from.as_ptr(), plain.as_mut_ptr(), bytes);
        }
        let is_nan = |bytes: &[u8]| f16::from_ne_bytes([bytes[0], bytes[1]]).is_nan();
        // Which of the numbers that are none it is may differ between processors.
        if to.chunks(2).zip(plain.chunks(2)).any(|(one, other)| one != other && !(is_nan(one) && is_nan(other))) {
            panic!("{narrow:?}: loops differ");
        }
        to
    }

    /// The nearest of all numbers that 2 bytes have, by looking at each; of two the even one. `of` gives the number of bits.
    fn nearest(number: f64, of: &dyn Fn(u16) -> f64, infinite: u16) -> u16 {
        let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
        let magnitude = number.abs();
        // The first that is not below: bits count upwards with the number.
        let (mut low, mut high) = (0u16, infinite);
        while low < high {
            let middle = (low + high) / 2;
            if of(middle) < magnitude { low = middle + 1 } else { high = middle }
        }
        if low == 0 {
            return sign;
        }
        // Beyond the largest one the next would be as far as the one before.
        let above = if low == infinite { 2.0 * of(infinite - 1) - of(infinite - 2) } else { of(low) };
        let (to_above, to_below) = (above - magnitude, magnitude - of(low - 1));
        let is_below = to_below < to_above || to_below == to_above && low % 2 == 1;
        sign | if is_below { low - 1 } else { low }
    }

    /// How the bytes of a number are rounded, what their bits stand for, and which are infinite.
    type Case<'a> = (Narrow, &'a [u8], f64, &'a dyn Fn(u16) -> f64, u16);

    fn check(number: f64) {
        let half = |bits: u16| f16::from_bits(bits).to_f64();
        let bfloat = |bits: u16| bf16::from_bits(bits).to_f64();
        let double = number.to_ne_bytes();
        let single = (number as f32).to_ne_bytes();
        let cases: [Case; 4] = [
            (Narrow::DoubleToHalf, &double, number, &half, 0x7c00),
            (Narrow::DoubleToBfloat, &double, number, &bfloat, 0x7f80),
            (Narrow::SingleToHalf, &single, f64::from(number as f32), &half, 0x7c00),
            (Narrow::SingleToBfloat, &single, f64::from(number as f32), &bfloat, 0x7f80),
        ];
        for (narrow, bytes, number, of, infinite) in cases {
            let all = rounded(narrow, &bytes.repeat(21));
            let found = u16::from_ne_bytes([all[0], all[1]]);
            assert!(all.chunks(2).all(|one| one == found.to_ne_bytes()));
            let expected = if number.is_infinite() {
                infinite | if number < 0.0 { 0x8000 } else { 0 }
            } else {
                nearest(number, of, infinite)
            };
            assert_eq!(found, expected, "{narrow:?} of {number:e}: {:e}", of(found));
        }
    }

    #[test]
    fn the_middles_of_two_and_what_is_beside_them_are_rounded_once() {
        for of in [|bits: u16| f16::from_bits(bits).to_f64(), |bits: u16| bf16::from_bits(bits).to_f64()] {
            for bits in (0..0x7f80u16).step_by(7) {
                let (one, next) = (of(bits), of(bits + 1));
                if !next.is_finite() || one.is_nan() {
                    continue;
                }
                let middle = (one + next) / 2.0;
                for number in [one, middle, middle.next_up(), middle.next_down(), one.next_up(), one.next_down()] {
                    check(number);
                    check(-number);
                }
            }
        }
        for number in [f64::MAX, f64::INFINITY, f64::MIN_POSITIVE, 65519.999, 65520.0, 3.3961e38, 3.4e38, 0.0] {
            check(number);
            check(-number);
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        for narrow in [Narrow::DoubleToHalf, Narrow::DoubleToBfloat, Narrow::SingleToHalf, Narrow::SingleToBfloat] {
            for bits in [f64::NAN.to_bits(), 0x7ff0_0000_0000_0001, 0xfff0_0000_0000_0001] {
                let double = f64::from_bits(bits);
                let bytes = match narrow {
                    Narrow::DoubleToHalf | Narrow::DoubleToBfloat => double.to_ne_bytes().to_vec(),
                    _ => (double as f32).to_ne_bytes().to_vec(),
                };
                let found = rounded(narrow, &bytes.repeat(21));
                let found = u16::from_ne_bytes([found[0], found[1]]);
                let is_nan = match narrow {
                    Narrow::DoubleToHalf | Narrow::SingleToHalf => f16::from_bits(found).is_nan(),
                    _ => bf16::from_bits(found).is_nan(),
                };
                assert!(is_nan, "{narrow:?} of {bits:x} is {found:x}");
            }
        }
    }

    proptest! {
        #[test]
        fn numbers_are_rounded_to_the_nearest(number in any::<f64>(), small in -70000.0..70000.0f64) {
            check(number);
            check(small);
            let single: f32 = small as f32;
            prop_assert_eq!(rounded(Narrow::DoubleToSingle, &small.to_ne_bytes()), single.to_ne_bytes());
        }

        #[test]
        fn any_count_of_them_is_rounded(numbers in prop::collection::vec(any::<f64>(), 0..70)) {
            let narrow = Narrow::DoubleToSingle;
            let expected: Vec<f32> = numbers.iter().map(|number| *number as f32).collect();
            prop_assert_eq!(rounded(narrow, bytemuck::cast_slice(&numbers)), bytemuck::cast_slice::<f32, u8>(&expected));
        }
    }
}
