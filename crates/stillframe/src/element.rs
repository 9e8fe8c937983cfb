//! Rust types that can be elements of variables.

use crate::{DType, Order};
use bytemuck::Pod;
use half::{bf16, f16};
use num_complex::Complex;

/// A plain type with a [`DType`] of its own. Implement it for your own `#[repr(C)]` records (derive `bytemuck::Pod`)
/// by returning a [`DType::Record`] of the same size.
pub trait Element: Pod {
    /// The type of the elements.
    fn dtype() -> DType;
}

macro_rules! element {
    ($($rust:ty => $dtype:expr),* $(,)?) => {$(
        impl Element for $rust {
            fn dtype() -> DType {
                $dtype
            }
        }
    )*};
}
element! {
    i8 => DType::Int(1), i16 => DType::Int(2), i32 => DType::Int(4), i64 => DType::Int(8),
    u8 => DType::Uint(1), u16 => DType::Uint(2), u32 => DType::Uint(4), u64 => DType::Uint(8),
    f16 => DType::Float(2), bf16 => DType::Bfloat16,
    f32 => DType::Float(4), f64 => DType::Float(8),
    Complex<f32> => DType::Complex(8), Complex<f64> => DType::Complex(16),
}

impl<const N: usize> Element for [u8; N] {
    fn dtype() -> DType {
        DType::Bytes(N as u32)
    }
}

/// Distance in bytes between neighbours along each dimension.
pub(crate) fn strides(dtype: &DType, shape: &[usize], order: Order) -> Vec<usize> {
    let mut strides = vec![0; shape.len()];
    let mut stride = dtype.bytes();
    let mut step = |dimension: usize| {
        strides[dimension] = stride;
        // Only an array without elements can have dimensions whose product is too large, and nobody follows its strides.
        stride = stride.saturating_mul(shape[dimension]);
    };
    match order {
        Order::C => (0..shape.len()).rev().for_each(&mut step),
        Order::Fortran => (0..shape.len()).for_each(&mut step),
    }
    strides
}
