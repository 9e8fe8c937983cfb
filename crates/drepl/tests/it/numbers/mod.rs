//! What converting a number means, by a search among all numbers of the new type.

#![allow(dead_code)]

use std::sync::LazyLock;

use drepl::{
    transfer::{Conversion, Float, Number},
    types::ByteOrder,
};

/// Bits of the exponent and of the fraction.
fn digits(of: Float) -> (u32, u32) {
    match of {
        Float::Float16 => (5, 10),
        Float::Bfloat16 => (8, 7),
        Float::Float32 => (8, 23),
        Float::Float64 => (11, 52),
    }
}

fn power(exponent: i64) -> f64 {
    // In two steps: the smallest numbers of a float64 are no normal ones.
    2f64.powi((exponent / 2) as i32) * 2f64.powi((exponent - exponent / 2) as i32)
}

/// The number of some bits; of what is no number, nothing.
fn value(bits: u64, of: Float) -> Option<f64> {
    let (exponents, fractions) = digits(of);
    let fraction = bits & ((1 << fractions) - 1);
    let exponent = (bits >> fractions & ((1 << exponents) - 1)) as i64;
    let bias = (1i64 << (exponents - 1)) - 1;
    let sign = if bits >> (exponents + fractions) == 1 { -1.0 } else { 1.0 };
    if exponent == (1 << exponents) - 1 {
        return (fraction == 0).then_some(sign * f64::INFINITY);
    }
    let (whole, exponent) = if exponent == 0 { (fraction, 1) } else { (fraction | 1 << fractions, exponent) };
    Some(sign * (whole as f64) * power(exponent - bias - i64::from(fractions)))
}

/// All numbers of a type of 16 bits that are not negative, ascending; the last is what infinity would be if it were one.
fn all(of: Float) -> Vec<f64> {
    let (exponents, fractions) = digits(of);
    let infinity = ((1u64 << exponents) - 1) << fractions;
    let finite = (0..infinity).filter_map(|bits| value(bits, of));
    finite.chain([power(1 << (exponents - 1))]).collect()
}

/// The bits of the nearest number of another type.
pub fn converted(bits: u64, from: Float, to: Float) -> u64 {
    static FLOAT16: LazyLock<Vec<f64>> = LazyLock::new(|| all(Float::Float16));
    static BFLOAT16: LazyLock<Vec<f64>> = LazyLock::new(|| all(Float::Bfloat16));
    let (from_fractions, (exponents, fractions)) = (digits(from).1, digits(to));
    let sign = bits >> (8 * from.size_bytes() - 1) << (exponents + fractions);
    let Some(value) = value(bits, from) else {
        // Its sign and first digits stay, and it is quiet.
        let fraction = u128::from(bits & ((1 << from_fractions) - 1)) << 64 >> from_fractions << fractions >> 64;
        return sign | ((1 << exponents) - 1) << fractions | 1 << (fractions - 1) | fraction as u64;
    };
    match to {
        Float::Float64 => value.to_bits(),
        Float::Float32 => u64::from((value as f32).to_bits()),
        Float::Float16 | Float::Bfloat16 => {
            let known = if to == Float::Float16 { &*FLOAT16 } else { &*BFLOAT16 };
            let magnitude = value.abs();
            let above = known.partition_point(|number| *number < magnitude).min(known.len() - 1);
            let below = above.saturating_sub(1);
            // Both differences are exact: the numbers are near each other, or one of them is zero.
            let (down, up) = (magnitude - known[below], known[above] - magnitude);
            let nearest = if down < up || down == up && below % 2 == 0 { below } else { above };
            sign | nearest as u64
        }
    }
}

fn read(bytes: &[u8], number: Number) -> u64 {
    let push = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
    match number.byte_order {
        ByteOrder::BigEndian => bytes.iter().fold(0, push),
        ByteOrder::LittleEndian => bytes.iter().rev().fold(0, push),
    }
}

/// Carries out conversions number by number.
pub fn interpret(conversions: &[Conversion], source: &[u8], destination: &mut [u8]) {
    for one in conversions {
        let mut places = vec![(one.from as i64, one.to as i64)];
        for axis in &one.axes {
            let along = |(from, to): &(i64, i64)| {
                let (from, to) = (*from, *to);
                (0..axis.count as i64).map(move |at| (from + at * axis.from_bytes, to + at * axis.to_bytes))
            };
            places = places.iter().flat_map(along).collect();
        }
        let bytes = one.source.float.size_bytes() as usize;
        for (from, to) in places {
            let bits = read(&source[from as usize..][..bytes], one.source);
            let bits = converted(bits, one.source.float, one.destination.float);
            let mut bytes = bits.to_le_bytes()[..one.destination.float.size_bytes() as usize].to_vec();
            if one.destination.byte_order == ByteOrder::BigEndian {
                bytes.reverse();
            }
            let written = &bytes[usize::from(one.written.start)..usize::from(one.written.end)];
            destination[to as usize..][..written.len()].copy_from_slice(written);
        }
    }
}
