//! What every contender computes: the fill, the sum, and the sum the observer must find.
//!
//! `native/boost.cpp` and `native/sst.py` do the same arithmetic. All values are multiples of 1/4 and
//! all partial sums stay far below 2^53, so the sum is exact in any order of addition.

use std::mem::MaybeUninit;

/// Elements per block; a payload is a whole number of blocks.
pub const BLOCK: usize = 1024;

/// `x[i] = step + i / 1024 + (i % 1024) / 4`, written once, in order, as a simulation would.
pub fn fill_uninit(step: u64, out: &mut [MaybeUninit<f64>]) {
    let ramp: [f64; BLOCK] = std::array::from_fn(|i| i as f64 * 0.25);
    for (block, values) in out.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let base = (step + block as u64) as f64;
        for (value, r) in values.iter_mut().zip(&ramp) {
            value.write(base + r);
        }
    }
}

pub fn fill(step: u64, out: &mut [f64]) {
    // SAFETY: same layout, same length, exclusively borrowed; `fill_uninit` only ever writes
    // initialised values, so `out` is still fully initialised afterwards.
    let out = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), out.len()) };
    fill_uninit(step, out);
}

/// Sixteen accumulators: enough independent additions for the loop to wait for memory only.
pub fn sum(data: &[f64]) -> f64 {
    let mut acc = [0.0; 16];
    for values in data.as_chunks::<16>().0 {
        for (a, v) in acc.iter_mut().zip(values) {
            *a += v;
        }
    }
    acc.iter().sum()
}

/// What `sum` must return for `n` elements filled for `step`.
pub fn expected(step: u64, n: usize) -> f64 {
    let (block, blocks) = (BLOCK as f64, (n / BLOCK) as f64);
    let bases = blocks * step as f64 + blocks * (blocks - 1.0) / 2.0;
    let ramp = 0.25 * block * (block - 1.0) / 2.0;
    block * bases + blocks * ramp
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_fill_is_the_expected_one_and_differs_between_steps() {
        let mut data = vec![0.0; 8 * BLOCK];
        for step in [0, 1, 25] {
            fill(step, &mut data);
            assert_eq!(sum(&data), expected(step, data.len()));
        }
        assert_ne!(expected(1, data.len()), expected(2, data.len()));
    }
}
