//! Many measured times in a few numbers.

use serde::Serialize;

/// Times of the same thing, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// How many.
    pub count: usize,
    /// Their mean.
    pub mean_ns: f64,
    /// Their standard deviation.
    pub deviation_ns: f64,
    /// Half of them are not longer.
    pub median_ns: u64,
    /// One in a hundred is longer.
    pub p99_ns: u64,
    /// The longest.
    pub most_ns: u64,
}

impl Figures {
    /// Of some times; zeros of none.
    pub fn of(mut times: Vec<u64>) -> Figures {
        times.sort_unstable();
        let count = times.len();
        let mean_ns = times.iter().sum::<u64>() as f64 / count.max(1) as f64;
        let square = |time: &u64| (*time as f64 - mean_ns).powi(2);
        let deviation_ns = (times.iter().map(square).fold(0.0, |sum, one| sum + one) / count.max(1) as f64).sqrt();
        let at = |part: f64| times.get(((count as f64 * part) as usize).min(count.saturating_sub(1))).copied();
        let [median_ns, p99_ns, most_ns] = [0.5, 0.99, 1.0].map(|part| at(part).unwrap_or(0));
        Figures { count, mean_ns, deviation_ns, median_ns, p99_ns, most_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_times_and_none() {
        let figures = Figures::of((1..=100).rev().collect());
        assert_eq!((figures.count, figures.median_ns, figures.p99_ns, figures.most_ns), (100, 51, 100, 100));
        assert!((figures.mean_ns - 50.5).abs() < 1e-9 && (figures.deviation_ns - 28.866).abs() < 1e-3);
        assert_eq!(Figures::of(Vec::new()).most_ns, 0);
    }
}
