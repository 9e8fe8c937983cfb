//! The loops that round several numbers at once.
//!
//! # Safety
//!
//! The invariant is that of [`narrow`](super); the processor has AVX2 and F16C.
#![allow(unsafe_code)]

use super::Narrow;
use std::arch::x86_64::*;

/// Numbers that a loop takes at a time.
const STEP: usize = 16;

/// Rounds as many numbers as the loops take, and returns to how many bytes.
///
/// # Safety
/// As [`Narrow::round`].
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn round(narrow: Narrow, from: *const u8, to: *mut u8, bytes: usize) -> usize {
    let (doubles, singles) = (from.cast::<f64>(), from.cast::<f32>());
    let size = if narrow == Narrow::DoubleToSingle { 4 } else { 2 };
    let count = bytes / size / STEP * STEP;
    for at in (0..count).step_by(STEP) {
        // SAFETY: as the caller vouches, of a step that lies before the end.
        unsafe {
            let to = to.add(at * size);
            match narrow {
                Narrow::DoubleToSingle => {
                    for quarter in 0..4 {
                        let rounded = _mm256_cvtpd_ps(_mm256_loadu_pd(doubles.add(at + quarter * 4)));
                        _mm_storeu_ps(to.cast::<f32>().add(quarter * 4), rounded);
                    }
                }
                Narrow::DoubleToHalf => store_halves(odd(doubles.add(at)), odd(doubles.add(at + 8)), to),
                Narrow::DoubleToBfloat => store_bfloats(odd(doubles.add(at)), odd(doubles.add(at + 8)), to),
                Narrow::SingleToHalf => {
                    store_halves(_mm256_loadu_ps(singles.add(at)), _mm256_loadu_ps(singles.add(at + 8)), to);
                }
                Narrow::SingleToBfloat => {
                    store_bfloats(_mm256_loadu_ps(singles.add(at)), _mm256_loadu_ps(singles.add(at + 8)), to);
                }
            }
        }
    }
    count * size
}

/// Eight numbers as [`to_odd`](super::to_odd) makes them.
///
/// # Safety
/// They can be read.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn odd(from: *const f64) -> __m256 {
    // SAFETY: as the caller vouches.
    let (low, high) = unsafe { (_mm256_loadu_pd(from), _mm256_loadu_pd(from.add(4))) };
    _mm256_set_m128(odd_of_four(high), odd_of_four(low))
}

#[target_feature(enable = "avx2")]
#[inline]
fn odd_of_four(numbers: __m256d) -> __m128 {
    let nearest = _mm256_cvtpd_ps(numbers);
    let sign = _mm256_set1_pd(-0.0);
    let (own, back) = (_mm256_andnot_pd(sign, numbers), _mm256_andnot_pd(sign, _mm256_cvtps_pd(nearest)));
    let up = halves_of(_mm256_cmp_pd::<_CMP_LT_OQ>(back, own));
    let down = halves_of(_mm256_cmp_pd::<_CMP_GT_OQ>(back, own));
    let bits = _mm_castps_si128(nearest);
    let is_even = _mm_cmpeq_epi32(_mm_and_si128(bits, _mm_set1_epi32(1)), _mm_setzero_si128());
    // What is true is -1.
    let bits = _mm_sub_epi32(bits, _mm_and_si128(is_even, up));
    _mm_castsi128_ps(_mm_add_epi32(bits, _mm_and_si128(is_even, down)))
}

/// Truth values of 8 bytes, as such of 4.
#[target_feature(enable = "avx2")]
#[inline]
fn halves_of(truth: __m256d) -> __m128i {
    let truth = _mm256_castpd_ps(truth);
    let (low, high) = (_mm256_castps256_ps128(truth), _mm256_extractf128_ps::<1>(truth));
    _mm_castps_si128(_mm_shuffle_ps::<0b10_00_10_00>(low, high))
}

/// # Safety
/// There is room for 16 numbers.
#[target_feature(enable = "avx2,f16c")]
#[inline]
unsafe fn store_halves(first: __m256, second: __m256, to: *mut u8) {
    let first = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(first);
    let second = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(second);
    // SAFETY: as the caller vouches.
    unsafe { _mm256_storeu_si256(to.cast(), _mm256_set_m128i(second, first)) };
}

/// # Safety
/// There is room for 16 numbers.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store_bfloats(first: __m256, second: __m256, to: *mut u8) {
    // In each half of a register the numbers of both follow each other.
    let packed = _mm256_packus_epi32(bfloats(first), bfloats(second));
    let in_order = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
    // SAFETY: as the caller vouches.
    unsafe { _mm256_storeu_si256(to.cast(), in_order) };
}

/// Eight numbers as [`to_bfloat`](super::to_bfloat) makes them.
#[target_feature(enable = "avx2")]
#[inline]
fn bfloats(numbers: __m256) -> __m256i {
    let bits = _mm256_castps_si256(numbers);
    let upper = _mm256_srli_epi32::<16>(bits);
    let last = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    let half = _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff));
    let rounded = _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, half));
    let none = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    let is_none = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(numbers, numbers));
    _mm256_blendv_epi8(rounded, none, is_none)
}
