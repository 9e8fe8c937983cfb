//! What holes have in memory that a view begins with.

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::types::{ByteOrder, Layout, Primitive, Type};

/// The value of holes: one for all numbers of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fill {
    /// A whole number; in complex numbers the real part, with 0 as the imaginary one.
    Number(i64),
    /// No number: `nan`; in complex numbers both parts.
    NotANumber,
}

/// As the language writes it.
impl fmt::Display for Fill {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(out),
            Self::NotANumber => out.write_str("nan"),
        }
    }
}

/// The bytes of one element.
type Element = SmallVec<[u8; 16]>;

impl Fill {
    /// The bytes of an element with this value, of a string none: it is zeros, as it was; `None` where its type does not have the value.
    pub(crate) fn element(self, primitive: Primitive, order: ByteOrder) -> Option<Element> {
        let mut words: Element = match primitive {
            Primitive::Text(_) => return (self == Self::Number(0)).then(Element::new),
            Primitive::Bool => self.whole(0..=1)?.to_le_bytes()[..1].into(),
            Primitive::Int8 => self.whole(i8::MIN.into()..=i8::MAX.into())?.to_le_bytes()[..1].into(),
            Primitive::Int16 => self.whole(i16::MIN.into()..=i16::MAX.into())?.to_le_bytes()[..2].into(),
            Primitive::Int32 => self.whole(i32::MIN.into()..=i32::MAX.into())?.to_le_bytes()[..4].into(),
            Primitive::Int64 => self.whole(i64::MIN..=i64::MAX)?.to_le_bytes()[..].into(),
            Primitive::UInt8 => self.whole(0..=u8::MAX.into())?.to_le_bytes()[..1].into(),
            Primitive::UInt16 => self.whole(0..=u16::MAX.into())?.to_le_bytes()[..2].into(),
            Primitive::UInt32 => self.whole(0..=u32::MAX.into())?.to_le_bytes()[..4].into(),
            Primitive::UInt64 => self.whole(0..=i64::MAX)?.to_le_bytes()[..].into(),
            Primitive::Float16 => self.half()?.to_le_bytes()[..].into(),
            Primitive::Bfloat16 => self.brain()?.to_le_bytes()[..].into(),
            Primitive::Float32 | Primitive::Complex64 => self.single()?.to_le_bytes()[..].into(),
            Primitive::Float64 | Primitive::Complex128 => self.double()?.to_le_bytes()[..].into(),
        };
        if order == ByteOrder::BigEndian {
            words.reverse();
        }
        if matches!(primitive, Primitive::Complex64 | Primitive::Complex128) {
            match self {
                Self::Number(_) => words.resize(2 * words.len(), 0),
                Self::NotANumber => words.extend_from_slice(&words.clone()),
            }
        }
        Some(words)
    }

    fn whole(self, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        match self {
            Self::Number(number) => Some(number).filter(|number| range.contains(number)),
            Self::NotANumber => None,
        }
    }

    fn double(self) -> Option<f64> {
        match self {
            Self::NotANumber => Some(f64::NAN),
            Self::Number(number) => Some(number as f64).filter(|double| *double as i128 == i128::from(number)),
        }
    }

    fn single(self) -> Option<f32> {
        match self {
            Self::NotANumber => Some(f32::NAN),
            Self::Number(number) => Some(number as f32).filter(|single| *single as i128 == i128::from(number)),
        }
    }

    /// The bits of a `bfloat16`: the upper half of a `float32`.
    fn brain(self) -> Option<u16> {
        let bits = self.single()?.to_bits();
        (self == Self::NotANumber || bits.trailing_zeros() >= 16).then_some((bits >> 16) as u16)
    }

    /// The bits of a `float16` (IEEE 754 binary16): 5 of the exponent and 10 of the fraction. Its largest number is 65504.
    fn half(self) -> Option<u16> {
        let single = self.single()?;
        if single.is_nan() {
            return Some(0x7e00);
        }
        let (sign, bits) = ((single.to_bits() >> 16 & 0x8000) as u16, single.abs().to_bits());
        if bits == 0 {
            return Some(sign);
        }
        // Whole numbers have exponents of 0 and more, of which a float32 counts from 127 on and a float16 from 15.
        let exponent = (bits >> 23) - 127;
        (exponent <= 15 && bits.trailing_zeros() >= 13)
            .then(|| sign | ((exponent + 15) << 10) as u16 | (bits >> 13 & 0x3ff) as u16)
    }
}

/// The first primitive of a type that does not have the value.
pub(crate) fn unfit(fill: Fill, kind: &Type) -> Option<Primitive> {
    match kind {
        Type::Primitive(primitive) => fill.element(*primitive, ByteOrder::NATIVE).is_none().then_some(*primitive),
        Type::Array(array) => unfit(fill, &array.element),
        Type::Record(record) => record.fields().iter().find_map(|field| unfit(fill, &field.kind)),
    }
}

/// Gives the elements of a value, as far as they lie in a piece of memory that is zero, the value of holes. The value begins at a byte
/// that counts from the piece's first, and may lie before it. `None` where the type is too large for its bytes to be counted.
pub(crate) fn put(fill: Fill, kind: &Type, layout: &Layout, at: i128, piece: &mut [u8]) -> Option<()> {
    let size = layout.size_bytes(kind)?;
    // The bytes of the value that lie in the piece.
    let (first, end) = ((-at).max(0), (piece.len() as i128 - at).min(size.into()));
    if first >= end {
        return Some(());
    }
    match kind {
        Type::Primitive(primitive) => {
            let element = fill.element(*primitive, layout.byte_order)?;
            let bytes = element.get(first as usize..element.len().min(end as usize)).unwrap_or_default();
            let begin = (at + first) as usize;
            piece.get_mut(begin..begin + bytes.len())?.copy_from_slice(bytes);
        }
        Type::Array(array) => {
            let one = i128::from(layout.size_bytes(&array.element)?);
            // The elements lie one behind the other, in whatever order; those from `whole` to `behind` are not cut.
            let (whole, behind) = ((first + one - 1) / one, end / one);
            if first % one != 0 {
                put(fill, &array.element, layout, at + first / one * one, piece)?;
            }
            if behind >= whole && end % one != 0 {
                put(fill, &array.element, layout, at + behind * one, piece)?;
            }
            if whole < behind {
                put(fill, &array.element, layout, at + whole * one, piece)?;
                let bytes = piece.get_mut((at + whole * one) as usize..(at + behind * one) as usize)?;
                let mut done = one as usize;
                while done < bytes.len() {
                    let next = done.min(bytes.len() - done);
                    bytes.copy_within(..next, done);
                    done += next;
                }
            }
        }
        Type::Record(record) => {
            for (field, offset) in record.fields().iter().zip(layout.field_offsets_bytes(record)?) {
                put(fill, &field.kind, layout, at + i128::from(offset), piece)?;
            }
        }
    }
    Some(())
}
