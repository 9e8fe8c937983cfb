//! Numbers that are of another type where they go: floating-point numbers, rounded to the nearest of the new type.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{
    strided::{Axes, Block, Flaw, Side, merge_axes},
    types::{ByteOrder, Primitive},
};

/// One strided block of numbers, each of which is read, converted and written.
///
/// Of several numbers of the new type that are equally near, that with an even last digit is taken. What is too large becomes
/// infinite, what is too small zero, and what is no number stays none (IEEE 754, 4.3.1 and 7.4). That is so where the thread rounds as
/// threads do unless a program changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversion {
    /// Offset in bytes of the first number in the source.
    pub from: u64,
    /// Offset in bytes of the first byte that is written.
    pub to: u64,
    /// What the numbers are in the source.
    pub source: Number,
    /// What they are in the destination.
    pub destination: Number,
    /// Which bytes of each number of the destination are written: all, but where a window cuts numbers.
    pub written: Range<u8>,
    /// Outermost first.
    pub axes: Axes,
}

/// How a number lies in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Number {
    /// Its type.
    pub float: Float,
    /// The order of its bytes.
    pub byte_order: ByteOrder,
}

/// Types of floating-point numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Float {
    /// IEEE 754 binary16.
    Float16,
    /// The upper half of a `Float32`.
    Bfloat16,
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary64.
    Float64,
}

impl Float {
    /// Bytes of one number.
    pub fn size_bytes(self) -> u64 {
        match self {
            Float::Float16 | Float::Bfloat16 => 2,
            Float::Float32 => 4,
            Float::Float64 => 8,
        }
    }

    /// The type of the numbers that a primitive consists of, and how many these are: two in a complex one. `None` where they are
    /// no floating-point numbers.
    pub fn of(primitive: Primitive) -> Option<(Float, u64)> {
        Some(match primitive {
            Primitive::Float16 => (Float::Float16, 1),
            Primitive::Bfloat16 => (Float::Bfloat16, 1),
            Primitive::Float32 => (Float::Float32, 1),
            Primitive::Float64 => (Float::Float64, 1),
            Primitive::Complex64 => (Float::Float32, 2),
            Primitive::Complex128 => (Float::Float64, 2),
            _ => return None,
        })
    }
}

/// Whether values of one primitive can be converted into those of another one, and back.
pub fn is_convertible(one: Primitive, other: Primitive) -> bool {
    let (one, other) = (Float::of(one), Float::of(other));
    matches!((one, other), (Some((_, one)), Some((_, other))) if one == other)
}

impl Conversion {
    /// Bytes that are written.
    pub fn moved_bytes(&self) -> u64 {
        self.axes.iter().fold(self.written_bytes(), |bytes, axis| bytes.saturating_mul(axis.count))
    }

    /// Bytes that are written of each number.
    pub(crate) fn written_bytes(&self) -> u64 {
        u64::from(self.written.end.saturating_sub(self.written.start))
    }

    /// The bytes of one side between the first and the last that is touched: begin and end. For conversions in normal form.
    pub(crate) fn extent(&self, side: Side) -> (u64, u64) {
        self.number().extent(side, &self.axes)
    }

    fn number(&self) -> Block {
        let (source_bytes, destination_bytes) = (self.source.float.size_bytes(), self.written_bytes());
        Block { from: self.from, to: self.to, source_bytes, destination_bytes }
    }

    /// The conversion in normal form, and nothing for one that writes nothing.
    pub(crate) fn normalised(mut self) -> Result<Option<Conversion>, Flaw> {
        let Range { start, end } = self.written;
        let is_within = start <= end && u64::from(end) <= self.destination.float.size_bytes();
        if self.source.float == self.destination.float || !is_within {
            return Err(Flaw::Numbers);
        }
        if start == end || self.axes.iter().any(|axis| axis.count == 0) {
            return Ok(None);
        }
        let mut number = self.number();
        number.arrange(&mut self.axes)?;
        (self.from, self.to) = (number.from, number.to);
        merge_axes(&mut self.axes);
        Ok(Some(self))
    }
}
