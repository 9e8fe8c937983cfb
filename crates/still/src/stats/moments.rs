//! Sums over numbers that come block by block.

use crate::value::Value;
use stillframe::{DType, bf16, f16};

/// Numbers that are worked on together. Their copies in double precision stay in a processor's first cache.
const BLOCK: usize = 2048;
/// How large a deviation from the mean may be, and one divided by it how small, before its square is scaled: so far from the limits of
/// double precision that sums of squares do not reach them.
const ROOM: f64 = 1e120;
/// Sums that run beside each other, so that an addition need not wait for the one before.
const LANES: usize = 8;

/// Takes elements of one type apart, block by block.
pub struct Decoder {
    size: usize,
    decode: fn(&[u8], &mut Vec<f64>),
    block: Vec<f64>,
    /// The beginning of an element that a border between pieces cuts.
    rest: Vec<u8>,
}

impl Decoder {
    /// For elements of this type; none if they are no numbers.
    pub fn new(dtype: &DType) -> Option<Decoder> {
        macro_rules! plain {
            ($type:ty) => {
                |bytes, block| {
                    let (elements, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
                    block.extend(elements.iter().map(|element| <$type>::from_ne_bytes(*element) as f64));
                }
            };
        }
        macro_rules! half {
            ($type:ty) => {
                |bytes, block| {
                    let (elements, _) = bytes.as_chunks::<2>();
                    block.extend(elements.iter().map(|element| <$type>::from_ne_bytes(*element).to_f64()));
                }
            };
        }
        macro_rules! complex {
            ($type:ty) => {
                |bytes, block| {
                    let (parts, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
                    let (pairs, _) = parts.as_chunks::<2>();
                    let magnitude = |[re, im]: &[[u8; size_of::<$type>()]; 2]| {
                        (<$type>::from_ne_bytes(*re) as f64).hypot(<$type>::from_ne_bytes(*im) as f64)
                    };
                    block.extend(pairs.iter().map(magnitude));
                }
            };
        }
        let decode: fn(&[u8], &mut Vec<f64>) = match dtype {
            DType::Bool => |bytes, block| block.extend(bytes.iter().map(|byte| f64::from(u8::from(*byte != 0)))),
            DType::Int(1) => plain!(i8),
            DType::Int(2) => plain!(i16),
            DType::Int(4) => plain!(i32),
            DType::Int(_) => plain!(i64),
            DType::Uint(1) => plain!(u8),
            DType::Uint(2) => plain!(u16),
            DType::Uint(4) => plain!(u32),
            DType::Uint(_) => plain!(u64),
            DType::Float(2) => half!(f16),
            DType::Bfloat16 => half!(bf16),
            DType::Float(4) => plain!(f32),
            DType::Float(_) => plain!(f64),
            DType::Complex(8) => complex!(f32),
            DType::Complex(_) => complex!(f64),
            DType::Bytes(_) | DType::Record { .. } => return None,
        };
        Some(Decoder { size: dtype.bytes(), decode, block: Vec::with_capacity(BLOCK), rest: Vec::new() })
    }

    /// Passes on the elements of the next piece, in blocks. An element that the piece's end cuts comes with the next one.
    pub fn take(&mut self, mut bytes: &[u8], visit: &mut dyn FnMut(&[u8], &mut Vec<f64>)) {
        if !self.rest.is_empty() {
            let missing = (self.size - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if self.rest.len() < self.size {
                return;
            }
            let whole = std::mem::take(&mut self.rest);
            self.pass(&whole, visit);
        }
        let end = bytes.len() - bytes.len() % self.size;
        for block in bytes[..end].chunks(BLOCK * self.size) {
            self.pass(block, visit);
        }
        self.rest.extend_from_slice(&bytes[end..]);
    }

    fn pass(&mut self, bytes: &[u8], visit: &mut dyn FnMut(&[u8], &mut Vec<f64>)) {
        self.block.clear();
        (self.decode)(bytes, &mut self.block);
        visit(bytes, &mut self.block);
    }
}

/// What is known of the numbers of a version.
#[derive(Debug, Clone, Default)]
pub struct Moments {
    /// Numbers, without those that are none.
    pub count: u64,
    /// How many are no number.
    pub nans: u64,
    /// Their sum.
    pub sum: f64,
    mean: f64,
    /// Sum of the squares of the deviations from the mean, each divided by 2 to the `exponent`.
    squares: f64,
    /// 0 unless the squares would be too large for a number of double precision, or too small.
    exponent: i32,
    least: Option<Value>,
    most: Option<Value>,
}

impl Moments {
    /// Takes in a block: its bytes, and the same as numbers, which are used up.
    pub fn add(&mut self, dtype: &DType, bytes: &[u8], block: &mut Vec<f64>) {
        let mut total = sum(block);
        if total.is_nan() {
            let all = block.len();
            block.retain(|number| !number.is_nan());
            self.nans += (all - block.len()) as u64;
            total = sum(block);
        }
        if block.is_empty() {
            return;
        }
        let ends = fold_ends(block);
        let (least, most) = extremes(dtype, bytes, ends);
        if self.least.as_ref().is_none_or(|known| is_less(&least, known)) {
            self.least = Some(least);
        }
        if self.most.as_ref().is_none_or(|known| is_less(known, &most)) {
            self.most = Some(most);
        }
        let (before, new) = (self.count as f64, block.len() as f64);
        let count = before + new;
        let mean = if total.is_infinite() && ends.0.is_finite() && ends.1.is_finite() {
            // Their sum is too large for a number, which their mean is not.
            block.iter().map(|number| number / new).sum::<f64>().clamp(ends.0, ends.1)
        } else {
            total / new
        };
        self.make_room(ends, mean);
        let scale = 2.0_f64.powi(-self.exponent);
        block.iter_mut().for_each(|number| *number = (*number * scale - mean * scale).powi(2));
        let squares = sum(block);
        // Before the first block there is no mean from which its own could be apart.
        let apart = if self.count == 0 { 0.0 } else { mean * scale - self.mean * scale };
        // Chan, Golub and LeVeque's rule for two samples, which loses nothing where the mean is large.
        let step = mean - self.mean;
        self.mean = if step.is_finite() {
            self.mean + step * (new / count)
        } else {
            self.mean * (before / count) + mean * (new / count)
        };
        self.squares += squares + apart * apart * (before * new / count);
        self.count += block.len() as u64;
        self.sum += total;
    }

    /// Chooses an exponent with which the squares of the deviations of numbers between these ends, and of their mean from the mean so
    /// far, are neither too large nor too small.
    fn make_room(&mut self, (least, most): (f64, f64), mean: f64) {
        // Halves, as differences may be too large themselves.
        let (least, most, mean) = (least / 2.0, most / 2.0, mean / 2.0);
        let apart = if self.count == 0 { 0.0 } else { (mean - self.mean / 2.0).abs() };
        let widest = (most - mean).max(mean - least).max(apart);
        let scaled = widest * 2.0_f64.powi(-self.exponent);
        let is_lost = scaled > ROOM || scaled < 1.0 / ROOM && self.squares == 0.0;
        if is_lost && widest > 0.0 && widest.is_finite() {
            let exponent = (widest.log2() as i32).clamp(-1000, 1000);
            if self.squares > 0.0 {
                self.squares *= 2.0_f64.powi(self.exponent - exponent).powi(2);
            }
            self.exponent = exponent;
        }
    }

    /// The smallest number, exactly as it is in the array; not a number if there is none.
    pub fn least(&self) -> Value {
        self.least.clone().unwrap_or(Value::Float64(f64::NAN))
    }

    /// The largest number.
    pub fn most(&self) -> Value {
        self.most.clone().unwrap_or(Value::Float64(f64::NAN))
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { f64::NAN } else { self.mean }
    }

    /// The standard deviation, of the population.
    pub fn deviation(&self) -> f64 {
        if self.count == 0 {
            return f64::NAN;
        }
        (self.squares / self.count as f64).sqrt() * 2.0_f64.powi(self.exponent)
    }
}

/// All numbers of a block as one, in lanes; `join` has to be indifferent to the order.
fn fold(block: &[f64], first: f64, join: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [first; LANES];
    let (rows, rest) = block.as_chunks::<LANES>();
    for row in rows {
        for (lane, number) in lanes.iter_mut().zip(row) {
            *lane = join(*lane, *number);
        }
    }
    lanes.iter().chain(rest).fold(first, |all, number| join(all, *number))
}

/// The smallest and the largest number of a block.
fn fold_ends(block: &[f64]) -> (f64, f64) {
    // Without what is no number a plain comparison does, which processors have for several numbers at once.
    let least = fold(block, f64::INFINITY, |least, number| if number < least { number } else { least });
    let most = fold(block, f64::NEG_INFINITY, |most, number| if number > most { number } else { most });
    (least, most)
}

fn sum(block: &[f64]) -> f64 {
    fold(block, 0.0, |sum, number| sum + number)
}

/// Smallest and largest number of a block that is not empty, from the ends of it in double precision, which has all numbers but those of
/// eight bytes.
fn extremes(dtype: &DType, bytes: &[u8], (least, most): (f64, f64)) -> (Value, Value) {
    let (elements, _) = bytes.as_chunks::<8>();
    match dtype {
        DType::Int(8) => {
            let values = || elements.iter().map(|element| i64::from_ne_bytes(*element));
            (Value::Int(values().min().unwrap_or(0)), Value::Int(values().max().unwrap_or(0)))
        }
        DType::Uint(8) => {
            let values = || elements.iter().map(|element| u64::from_ne_bytes(*element));
            (Value::Uint(values().min().unwrap_or(0)), Value::Uint(values().max().unwrap_or(0)))
        }
        _ => {
            let value = |number: f64| match dtype {
                DType::Int(_) => Value::Int(number as i64),
                DType::Bool | DType::Uint(_) => Value::Uint(number as u64),
                DType::Float(2 | 4) | DType::Bfloat16 => Value::Float32(number as f32),
                _ => Value::Float64(number),
            };
            (value(least), value(most))
        }
    }
}

/// Whether one of two numbers of the same type is less than the other.
fn is_less(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => one < other,
        (Value::Uint(one), Value::Uint(other)) => one < other,
        _ => one.number() < other.number(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moments(dtype: &DType, bytes: &[u8], pieces: &[usize]) -> Moments {
        let mut found = Moments::default();
        let mut decoder = Decoder::new(dtype).unwrap();
        let mut from = 0;
        for end in pieces.iter().copied().chain([bytes.len()]) {
            let end = end.clamp(from, bytes.len());
            decoder.take(&bytes[from..end], &mut |bytes, block| found.add(dtype, bytes, block));
            from = end;
        }
        found
    }

    proptest! {
        #[test]
        fn pieces_may_end_within_elements(
            numbers in proptest::collection::vec(-1e3f64..1e3, 1..5000),
            mut pieces in proptest::collection::vec(0usize..40_000, 0..6),
        ) {
            pieces.sort_unstable();
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
            let found = moments(&DType::Float(8), &bytes, &pieces);
            let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
            let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
            prop_assert_eq!(found.count, numbers.len() as u64);
            prop_assert_eq!(found.least(), Value::Float64(numbers.iter().copied().fold(f64::MAX, f64::min)));
            prop_assert_eq!(found.most(), Value::Float64(numbers.iter().copied().fold(f64::MIN, f64::max)));
            prop_assert!((found.mean() - mean).abs() < 1e-9);
            prop_assert!((found.deviation() - variance.sqrt()).abs() < 1e-9);
        }
    }

    #[test]
    fn a_large_mean_does_not_hide_the_deviation() {
        let bytes: Vec<u8> = (0..100_000).flat_map(|place| (1e9 + f64::from(place % 2)).to_ne_bytes()).collect();
        let found = moments(&DType::Float(8), &bytes, &[]);
        assert!((found.deviation() - 0.5).abs() < 1e-9, "{}", found.deviation());
    }

    #[test]
    fn numbers_of_any_size_have_a_deviation() {
        let deviation = |numbers: &[f64]| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
            let found = moments(&DType::Float(8), &bytes, &[]);
            (found.mean(), found.deviation())
        };
        for size in [1e200, 1e300, f64::MAX / 4.0, 1e-200, 1e-300, 1.0] {
            let (mean, found) = deviation(&[size, 3.0 * size]);
            assert!((mean / size - 2.0).abs() < 1e-14 && (found / size - 1.0).abs() < 1e-14, "{size}: {mean}, {found}");
            // In many blocks, of which the first are zeros or small.
            let numbers: Vec<f64> =
                (0..5 * BLOCK).map(|place| if place < BLOCK { 0.0 } else { size * (place % 2) as f64 }).collect();
            let (mean, found) = deviation(&numbers);
            assert!((mean / size - 0.4).abs() < 1e-12, "{size}: {mean}");
            assert!((found / size - 0.24_f64.sqrt()).abs() < 1e-12, "{size}: {found}");
        }
        assert_eq!(deviation(&[f64::MAX, f64::MIN]), (0.0, f64::MAX));
        assert_eq!(deviation(&[f64::MAX; 3 * BLOCK]).1, 0.0);
        assert_eq!(deviation(&[1e200, 1e200]), (1e200, 0.0));
        assert!(deviation(&[1.0, f64::INFINITY]).1.is_nan());
    }

    #[test]
    fn whole_numbers_of_eight_bytes_are_exact() {
        let bytes: Vec<u8> = [i64::MAX - 1, 3, i64::MIN + 1].iter().flat_map(|number| number.to_ne_bytes()).collect();
        let found = moments(&DType::Int(8), &bytes, &[]);
        assert_eq!((found.least(), found.most()), (Value::Int(i64::MIN + 1), Value::Int(i64::MAX - 1)));
        let found = moments(&DType::Uint(8), &u64::MAX.to_ne_bytes(), &[]);
        assert_eq!(found.least(), Value::Uint(u64::MAX));
    }

    #[test]
    fn what_is_no_number_is_counted_and_left_out() {
        let bytes: Vec<u8> = [1f32, f32::NAN, 3.0].iter().flat_map(|number| number.to_ne_bytes()).collect();
        let found = moments(&DType::Float(4), &bytes, &[]);
        assert_eq!((found.count, found.nans, found.mean(), found.deviation()), (2, 1, 2.0, 1.0));
        assert_eq!((found.least(), found.most()), (Value::Float32(1.0), Value::Float32(3.0)));
        let none = moments(&DType::Float(4), &f32::NAN.to_ne_bytes(), &[]);
        assert!(none.mean().is_nan() && none.least().number().unwrap().is_nan());
    }

    #[test]
    fn complex_numbers_count_by_magnitude_and_truth_by_one() {
        let bytes: Vec<u8> = [3f64, 4.0, 0.0, 1.0].iter().flat_map(|number| number.to_ne_bytes()).collect();
        assert_eq!(moments(&DType::Complex(16), &bytes, &[5]).mean(), 3.0);
        assert_eq!(moments(&DType::Bool, &[1, 0, 0, 1], &[]).mean(), 0.5);
        assert!(Decoder::new(&DType::Bytes(4)).is_none());
    }
}
