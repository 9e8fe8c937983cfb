//! Equal bins of a histogram.

/// Least width of a bin, counted in the distances between the numbers of double precision where these lie farthest apart: no two
/// edges are the same number, however they were rounded.
const LEAST_WIDTH: f64 = 4.0;

/// How many numbers lie in each of equal bins.
#[derive(Debug, Clone, PartialEq)]
pub struct Bins {
    /// Where bins begin and end; one more than there are bins.
    pub edges: Vec<f64>,
    /// How many lie in each. The upper edge belongs to the last one.
    pub counts: Vec<u64>,
    /// How many lie below the first edge.
    pub below: u64,
    /// How many lie above the last one.
    pub above: u64,
}

impl Bins {
    /// Empty bins that hold all numbers between two finite ones, which may be the same. Where there is no room for so many bins,
    /// they reach farther on both sides.
    pub fn new(low: f64, high: f64, count: usize) -> Bins {
        let (low, high) = with_room(low, high, count);
        let is_wide = (high - low).is_infinite();
        let edge = |place: usize| match (place as f64 / count as f64, is_wide) {
            _ if place == count => high,
            (share, false) => low + (high - low) * share,
            // Halves of such numbers are exact, and so is twice the half.
            (share, true) => 2.0 * (low / 2.0 + (high / 2.0 - low / 2.0) * share),
        };
        Bins::of_edges((0..=count).map(edge).collect())
    }

    /// Empty bins between edges that ascend; there are two at least.
    pub fn of_edges(edges: Vec<f64>) -> Bins {
        let counts = vec![0; edges.len() - 1];
        Bins { edges, counts, below: 0, above: 0 }
    }

    /// The same bins without content.
    pub fn emptied(&self) -> Bins {
        Bins::of_edges(self.edges.clone())
    }

    /// Takes in a block. What is no number is in no bin; infinite numbers lie below or above.
    pub fn add(&mut self, block: &[f64]) {
        let (low, high) = (self.edges[0], self.edges[self.counts.len()]);
        let scale = self.counts.len() as f64 / (high - low);
        let last = self.counts.len() - 1;
        // Arithmetic has no scale for bins that are almost too wide for it, or too narrow.
        let is_scaled = scale.is_finite() && scale > 0.0;
        for &number in block {
            if number < low {
                self.below += 1;
            } else if number > high {
                self.above += 1;
            } else if !number.is_nan() {
                let bin = if is_scaled {
                    let bin = (((number - low) * scale) as usize).min(last);
                    // What arithmetic rounded across an edge goes where the edge says.
                    if number < self.edges[bin] {
                        bin.saturating_sub(1)
                    } else {
                        bin + usize::from(bin < last && number >= self.edges[bin + 1])
                    }
                } else {
                    self.edges.partition_point(|edge| *edge <= number).saturating_sub(1).min(last)
                };
                self.counts[bin] += 1;
            }
        }
    }

    /// The bins as a row of bars.
    pub fn draw(&self) -> String {
        const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let most = self.counts.iter().copied().max().unwrap_or(0).max(1);
        // What is there at all is seen.
        let bar = |count: &u64| BARS[(count * 8).div_ceil(most) as usize];
        self.counts.iter().map(bar).collect()
    }
}

/// Where bins begin and end that hold all numbers between two, with room for each of them.
fn with_room(low: f64, high: f64, count: usize) -> (f64, f64) {
    let half = high / 2.0 - low / 2.0;
    let least = LEAST_WIDTH / 2.0 * count as f64 * spacing(low.abs().max(high.abs()));
    if low < high && half >= least {
        return (low, high);
    }
    // Twice the least, so that the wider range has room where its numbers lie farther apart.
    let half = if low < high { 2.0 * least } else { f64::max(0.5, 2.0 * least) };
    let middle = low / 2.0 + high / 2.0;
    let (low, high) = (middle - half, middle + half);
    if high.is_infinite() {
        (f64::MAX - 2.0 * half, f64::MAX)
    } else if low.is_infinite() {
        (f64::MIN, f64::MIN + 2.0 * half)
    } else {
        (low, high)
    }
}

/// The distance from a number that is not negative to the next one.
fn spacing(number: f64) -> f64 {
    if number == f64::MAX { number - number.next_down() } else { number.next_up() - number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks that edges ascend and are finite, and that each number is between the edges of the bin that counts it.
    fn check(mut bins: Bins, numbers: &[f64]) {
        let edges = bins.edges.clone();
        assert!(
            edges.iter().all(|edge| edge.is_finite()) && edges.windows(2).all(|pair| pair[0] < pair[1]),
            "{edges:?}"
        );
        // Edges themselves are where arithmetic errs.
        let numbers: Vec<f64> = numbers.iter().chain(&edges).copied().collect();
        bins.add(&numbers);
        let count = bins.counts.len();
        for bin in 0..count {
            let last = bin + 1 == count;
            let inside = |number: &&f64| {
                **number >= edges[bin] && (**number < edges[bin + 1] || last && **number == edges[count])
            };
            assert_eq!(bins.counts[bin], numbers.iter().filter(inside).count() as u64, "bin {bin} of {edges:?}");
        }
        let nans = numbers.iter().filter(|number| number.is_nan()).count() as u64;
        assert_eq!(bins.counts.iter().sum::<u64>() + bins.below + bins.above + nans, numbers.len() as u64);
    }

    proptest! {
        #[test]
        fn each_number_is_in_the_bin_between_whose_edges_it_lies(
            numbers in proptest::collection::vec(-1.5f64..1.5, 1..500),
            count in 1usize..40,
        ) {
            let bins = Bins::new(-1.1, 0.7, count);
            prop_assert_eq!((bins.edges[0], bins.edges[count]), (-1.1, 0.7));
            check(bins, &numbers);
        }

        #[test]
        fn every_finite_range_has_room_for_its_bins(
            one in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO,
            other in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO,
            steps in 0u64..300,
            count in 1usize..70,
        ) {
            let near = f64::from_bits(one.to_bits().saturating_sub(steps));
            for (low, high) in [(one.min(other), one.max(other)), (one.min(near), one.max(near)), (one, one)] {
                let bins = Bins::new(low, high, count);
                prop_assert!(bins.edges[0] <= low && high <= bins.edges[count]);
                prop_assert_eq!(&Bins::new(bins.edges[0], bins.edges[count], count), &bins);
                check(bins, &[low, high, low / 2.0 + high / 2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
            }
        }
    }

    #[test]
    fn one_number_has_bins_around_it() {
        assert_eq!(Bins::new(3.0, 3.0, 4).edges, [2.5, 2.75, 3.0, 3.25, 3.5]);
        for number in [0.0, 1e20, -1e20, 1e300, f64::MAX, f64::MIN, 5e-324] {
            let mut bins = Bins::new(number, number, 64);
            bins.add(&[number]);
            assert_eq!((bins.counts.iter().sum::<u64>(), bins.below, bins.above), (1, 0, 0), "{number}");
        }
    }

    #[test]
    fn edges_are_those_of_the_python_package() {
        // The same numbers as in the tests of `stillframe.analysis`.
        for (low, high, edges) in [
            (1e20, 1e20, [1e20 - 262144.0, 1e20 - 131072.0, 1e20, 1e20 + 131072.0, 1e20 + 262144.0]),
            (0.0, 5e-324, [-8e-323, -4e-323, 0.0, 4e-323, 8e-323]),
            (-1.5e308, 1.5e308, [-1.5e308, -7.5e307, 0.0, 7.5e307, 1.5e308]),
        ] {
            assert_eq!(Bins::new(low, high, 4).edges, edges);
        }
    }

    #[test]
    fn ends_that_have_room_stay() {
        for (low, high) in [(-1.7e308, 1.7e308), (f64::MIN, f64::MAX), (1e20, 1e20 + 64.0 * 65536.0), (0.0, 1e-321)] {
            let bins = Bins::new(low, high, 32);
            assert_eq!((bins.edges[0], bins.edges[32]), (low, high));
        }
        let bins = Bins::new(-1.5e308, 1.5e308, 2);
        assert_eq!(bins.edges[1], 0.0);
    }

    #[test]
    fn bars_show_what_is_there() {
        let bins = Bins { counts: vec![0, 1, 800, 400], ..Bins::new(0.0, 4.0, 4) };
        assert_eq!(bins.draw(), " ▁█▄");
    }
}
