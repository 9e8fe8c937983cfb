//! What is measured: for each kind of the executor the arrays, and the moves between them.

use clap::ValueEnum;
use drepl::transfer::{Axis, Conversion, Float, Move, Number, Transfer};
use drepl::types::ByteOrder;

/// One layout into another.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An array into another
    Contiguous,
    /// Every fourth number of an array
    EveryFourth,
    /// An array into every fourth number of another
    IntoEveryFourth,
    /// Records of two doubles, a float and an integer into four arrays
    RecordsToArrays,
    /// Four arrays into such records
    ArraysToRecords,
    /// Vectors of three doubles into three arrays
    VectorsToArrays,
    /// Three arrays into vectors of three doubles
    ArraysToVectors,
    /// `[i,j]` into `[j,i]`, doubles
    Transpose2d,
    /// The same, where rows are a power of two long
    Transpose2dPower,
    /// `[i,j]` into `[j,i]`, floats
    Transpose2dFloat,
    /// `[k,j,i]` into `[i,j,k]`, doubles
    Transpose3d,
    /// The six faces of a block into the ghost cells around another
    Halo,
    /// An array of doubles in the other byte order
    ByteOrder,
    /// An array of doubles into one of floats
    SinglePrecision,
}

impl Kind {
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The extent for which the larger side has about `bytes` bytes: elements, or cells along an edge.
    pub fn extent(self, bytes: usize) -> usize {
        let root = |power: f64, numbers: usize| (numbers as f64).powf(1.0 / power).round() as usize;
        match self {
            Kind::Contiguous => bytes / 8 * 8,
            Kind::EveryFourth | Kind::IntoEveryFourth => bytes / 32,
            Kind::RecordsToArrays | Kind::ArraysToRecords | Kind::VectorsToArrays | Kind::ArraysToVectors => bytes / 24,
            Kind::Transpose2d => root(2.0, bytes / 8),
            Kind::Transpose2dPower => 1 << root(2.0, bytes / 8).ilog2(),
            Kind::Transpose2dFloat => root(2.0, bytes / 4),
            Kind::Transpose3d => root(3.0, bytes / 8),
            Kind::Halo => root(3.0, bytes / 8) - 2,
            Kind::ByteOrder | Kind::SinglePrecision => bytes / 8,
        }
    }

    /// Bytes of the source and of the destination.
    pub fn bytes(self, n: usize) -> (usize, usize) {
        match self {
            Kind::Contiguous => (n, n),
            Kind::EveryFourth => (32 * n, 8 * n),
            Kind::IntoEveryFourth => (8 * n, 32 * n),
            Kind::RecordsToArrays | Kind::ArraysToRecords | Kind::VectorsToArrays | Kind::ArraysToVectors => {
                (24 * n, 24 * n)
            }
            Kind::Transpose2d | Kind::Transpose2dPower => (8 * n * n, 8 * n * n),
            Kind::Transpose2dFloat => (4 * n * n, 4 * n * n),
            Kind::Transpose3d => (8 * n * n * n, 8 * n * n * n),
            Kind::Halo => (8 * (n + 2).pow(3), 8 * (n + 2).pow(3)),
            Kind::ByteOrder => (8 * n, 8 * n),
            Kind::SinglePrecision => (8 * n, 4 * n),
        }
    }

    /// The moves of it.
    pub fn transfer(self, n: usize) -> Transfer {
        let plain = |from: usize, to: usize, run_bytes: usize, axes: &[(usize, usize, usize)]| {
            let axis = |(count, from, to): &(usize, usize, usize)| Axis {
                count: *count as u64,
                from_bytes: *from as i64,
                to_bytes: *to as i64,
            };
            let axes = axes.iter().map(axis).collect();
            Move { from: from as u64, to: to as u64, run_bytes: run_bytes as u64, swap_bytes: 1, axes }
        };
        // Where fields lie in a record, where their arrays begin, and their bytes.
        let fields = [(0, 0, 8), (8, 8 * n, 8), (16, 16 * n, 4), (20, 20 * n, 4)];
        let moves = match self {
            Kind::Contiguous => vec![plain(0, 0, n, &[])],
            Kind::EveryFourth => vec![plain(0, 0, 8, &[(n, 32, 8)])],
            Kind::IntoEveryFourth => vec![plain(0, 0, 8, &[(n, 8, 32)])],
            Kind::RecordsToArrays => {
                fields.iter().map(|(field, array, bytes)| plain(*field, *array, *bytes, &[(n, 24, *bytes)])).collect()
            }
            Kind::ArraysToRecords => {
                fields.iter().map(|(field, array, bytes)| plain(*array, *field, *bytes, &[(n, *bytes, 24)])).collect()
            }
            Kind::VectorsToArrays => vec![plain(0, 0, 8, &[(n, 24, 8), (3, 8, 8 * n)])],
            Kind::ArraysToVectors => vec![plain(0, 0, 8, &[(n, 8, 24), (3, 8 * n, 8)])],
            Kind::Transpose2d | Kind::Transpose2dPower => vec![plain(0, 0, 8, &[(n, 8, 8 * n), (n, 8 * n, 8)])],
            Kind::Transpose2dFloat => vec![plain(0, 0, 4, &[(n, 4, 4 * n), (n, 4 * n, 4)])],
            Kind::Transpose3d => {
                vec![plain(0, 0, 8, &[(n, 8, 8 * n * n), (n, 8 * n, 8 * n), (n, 8 * n * n, 8)])]
            }
            Kind::Halo => {
                let (cell, row, plane) = (8, 8 * (n + 2), 8 * (n + 2) * (n + 2));
                let steps = [plane, row, cell];
                let mut moves = Vec::new();
                for axis in 0..3 {
                    let corner: usize = steps.iter().sum::<usize>() - steps[axis];
                    let face: Vec<_> = (0..3).filter(|at| *at != axis).map(|at| (n, steps[at], steps[at])).collect();
                    moves.push(plain(corner + n * steps[axis], corner, 8, &face));
                    moves.push(plain(corner + steps[axis], corner + (n + 1) * steps[axis], 8, &face));
                }
                moves
            }
            Kind::ByteOrder => vec![Move { swap_bytes: 8, ..plain(0, 0, 8, &[(n, 8, 8)]) }],
            Kind::SinglePrecision => vec![],
        };
        let number = |float| Number { float, byte_order: ByteOrder::NATIVE };
        let singles = Conversion {
            from: 0,
            to: 0,
            source: number(Float::Float64),
            destination: number(Float::Float32),
            written: 0..4,
            axes: [Axis { count: n as u64, from_bytes: 8, to_bytes: 4 }].into_iter().collect(),
        };
        let conversions = if self == Kind::SinglePrecision { vec![singles] } else { vec![] };
        Transfer::converting(moves, conversions).expect("the moves of a benchmark are a transfer")
    }
}
