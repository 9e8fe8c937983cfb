//! Clocks, medians and memory to copy.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a mebibyte.
pub const MIB: usize = 1 << 20;

/// Seconds that `work` takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// The middle of `values`, or the mean of the two in the middle. The order of `values` is lost.
pub fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// The value that 99 % of `values` do not exceed. The order of `values` is lost.
pub fn p99(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(values, 0.99)
}

/// The value that a share of the sorted `values` does not exceed.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Page-aligned, populated memory from the ordinary allocator, as an application would have it.
pub struct Memory {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Memory {
    /// Allocates `len` bytes and writes all of them once, so that later writes meet no first-touch fault.
    pub fn new(len: usize) -> Self {
        let mut bytes = vec![0; len + PAGE_BYTES];
        let start = bytes.as_ptr().align_offset(PAGE_BYTES);
        bytes.fill(1);
        Self { bytes, start, len }
    }

    /// The same in pages of 4 KiB, whatever the kernel prefers.
    pub fn small(len: usize) -> Self {
        let mut bytes = vec![0; len + PAGE_BYTES];
        super::host::refuse_large(&mut bytes);
        let start = bytes.as_ptr().align_offset(PAGE_BYTES);
        bytes.fill(1);
        Self { bytes, start, len }
    }

    /// The same in large pages, where the kernel has some.
    pub fn large(len: usize) -> Self {
        let mut bytes = vec![0; len + PAGE_BYTES];
        super::host::advise_large(&mut bytes);
        let start = bytes.as_ptr().align_offset(PAGE_BYTES);
        bytes.fill(1);
        Self { bytes, start, len }
    }
}

impl std::ops::Deref for Memory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl std::ops::DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// The yardstick: one call of libc's `memcpy` from one populated array into another.
pub struct Memcpy {
    /// What is copied; benchmarks that need an untracked array to write to use it as such.
    pub source: Memory,
    target: Memory,
}

impl Memcpy {
    /// Allocates both arrays.
    pub fn new(bytes: usize) -> Self {
        Self { source: Memory::new(bytes), target: Memory::new(bytes) }
    }

    /// Seconds that copying the first `bytes` takes.
    pub fn seconds(&mut self, bytes: usize) -> f64 {
        let elapsed =
            seconds(|| black_box(&mut *self.target)[..bytes].copy_from_slice(&black_box(&*self.source)[..bytes]));
        black_box(&self.target[0]);
        elapsed
    }
}

/// Calls `ready` until it returns true or `limit` is over; says which of the two happened.
pub fn spin_until(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !ready() {
        if start.elapsed() > limit {
            return false;
        }
        std::hint::spin_loop();
    }
    true
}

/// Reads "64M", "1G", "4096" and the like.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 1,
        "k" => 1 << 10,
        "m" => MIB,
        "g" => 1 << 30,
        _ => return Err(format!("'{text}' is no size: write for instance 4096, 64M or 1G")),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{text}' is no size: write for instance 64M or 1G"))?;
    Ok((number * factor as f64) as usize)
}

/// `bytes` with a binary unit.
pub fn human_bytes(bytes: usize) -> String {
    let bytes = bytes as f64;
    let (value, unit) = match bytes {
        b if b >= 1e9 => (b / (1u64 << 30) as f64, "GiB"),
        b if b >= 1e6 => (b / MIB as f64, "MiB"),
        b => (b / 1024.0, "KiB"),
    };
    if value.fract() < 0.05 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_values_lies_between_the_middle_two() {
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn a_share_of_the_values_does_not_exceed_its_quantile() {
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        let of = |share| quantile(&values, share);
        assert_eq!([of(0.0), of(0.5), of(0.99), of(0.999), of(1.0)], [1.0, 500.0, 990.0, 999.0, 1000.0]);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn sizes_are_read_with_and_without_units() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64M"), Ok(64 * MIB));
        assert_eq!(parse_bytes("1GiB"), Ok(1 << 30));
        assert_eq!(parse_bytes("0.5g"), Ok(1 << 29));
        assert!(parse_bytes("one").is_err());
    }

    #[test]
    fn memory_is_aligned_and_as_long_as_asked_for() {
        let mut memory = Memory::new(3 * PAGE_BYTES + 1);
        assert_eq!(memory.as_ptr() as usize % PAGE_BYTES, 0);
        assert_eq!(memory.len(), 3 * PAGE_BYTES + 1);
        memory.fill(7);
    }
}
