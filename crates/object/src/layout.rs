//! What the memory of a fragment is to a region: one variable, of the fragment's own type where that has one.

use crate::error::{Error, Result};
use bytemuck::Pod;
use drepl::Fragment;
use drepl::types::{AxisOrder, ByteOrder, Primitive, Type};
use stillframe::{DType, Declaration, Element, Kind, Order};

/// The variable of a fragment that is not one array of numbers.
const BYTES: &str = "fragment";

/// The type of numbers, as regions call it.
pub fn dtype(primitive: Primitive) -> DType {
    let bytes = primitive.size_bytes() as u8;
    match primitive {
        Primitive::Bool => DType::Bool,
        Primitive::Int8 | Primitive::Int16 | Primitive::Int32 | Primitive::Int64 => DType::Int(bytes),
        Primitive::UInt8 | Primitive::UInt16 | Primitive::UInt32 | Primitive::UInt64 => DType::Uint(bytes),
        Primitive::Float16 | Primitive::Float32 | Primitive::Float64 => DType::Float(bytes),
        Primitive::Bfloat16 => DType::Bfloat16,
        Primitive::Complex64 | Primitive::Complex128 => DType::Complex(bytes),
        Primitive::Text(bytes) => DType::Bytes(bytes),
    }
}

/// An array of numbers that lie together.
struct Dense {
    primitive: Primitive,
    shape: Vec<usize>,
    order: Order,
}

/// What a variable of a fragment is, if it is such an array in the byte order of this machine.
fn dense(variable: &drepl::Variable) -> Option<Dense> {
    let layout = &variable.layout;
    let own = if cfg!(target_endian = "little") { ByteOrder::LittleEndian } else { ByteOrder::BigEndian };
    let (mut shape, mut kind, mut levels) = (Vec::new(), &variable.kind, 0);
    while let Type::Array(array) = kind {
        shape.extend(array.extents.iter().map(|extent| *extent as usize));
        (kind, levels) = (&array.element, levels + 1);
    }
    let Type::Primitive(primitive) = kind else { return None };
    let order = match layout.order {
        AxisOrder::RowMajor => Order::C,
        // The axes of inner brackets lie within each element of the outer ones.
        AxisOrder::ColumnMajor if levels > 1 => return None,
        AxisOrder::ColumnMajor => Order::Fortran,
    };
    let is_own = layout.byte_order == own || primitive.word_bytes() == 1;
    (is_own && shape.len() <= stillframe::RANK_MAX).then_some(Dense { primitive: *primitive, shape, order })
}

/// The variable that a fragment's region has: all its bytes.
pub(crate) fn declaration(fragment: &Fragment, is_loaned: bool) -> Declaration {
    let whole = match fragment.variables() {
        [only] if only.offset_bytes == 0 => dense(only).map(|dense| (only.name.to_string(), dense)),
        _ => None,
    };
    let whole = whole.filter(|(name, dense)| {
        let elements = dense.shape.iter().map(|extent| *extent as u64).product::<u64>();
        elements * dense.primitive.size_bytes() == fragment.size_bytes() && !name.is_empty() && name.len() <= 200
    });
    let kind = |shape| if is_loaned { Kind::Loaned { shape } } else { Kind::Managed { shape } };
    match whole {
        Some((name, dense)) => {
            let mut declaration = Declaration::new(&name, dtype(dense.primitive), kind(dense.shape));
            declaration.order = dense.order;
            declaration
        }
        None => Declaration::new(BYTES, DType::Uint(1), kind(vec![fragment.size_bytes() as usize])),
    }
}

/// A variable of a fragment that is an array of numbers which lie together, in the byte order of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Its name in the fragment.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Its extents, as the text says them.
    pub shape: Vec<usize>,
    /// Which index runs fastest in memory.
    pub order: Order,
    /// The bytes of the fragment that it is.
    pub bytes: std::ops::Range<usize>,
}

/// The variable of this name as an array; without a name, the only one that the fragment has.
pub(crate) fn array(object: &str, fragment: &Fragment, name: Option<&str>) -> Result<Array> {
    let all = fragment.variables();
    let found = match (name, all) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(name), all) => all.iter().find(|variable| *variable.name == *name),
    };
    let fault = |found: String| {
        let wanted = name.map_or("one variable: say which".into(), |name| format!("a variable '{name}'"));
        Error::Variable { name: object.into(), found, wanted }
    };
    let Some(variable) = found else {
        let names: Vec<&str> = all.iter().map(|variable| &*variable.name).collect();
        return Err(fault(format!("the variables {}", names.join(", "))));
    };
    let Some(Dense { primitive, shape, order }) = dense(variable) else {
        let name = &variable.name;
        return Err(fault(format!("'{name}', whose numbers lie apart or in another byte order: use its bytes")));
    };
    let (start, elements) = (variable.offset_bytes as usize, shape.iter().product::<usize>());
    let bytes = start..start + elements * primitive.size_bytes() as usize;
    Ok(Array { name: variable.name.to_string(), dtype: dtype(primitive), shape, order, bytes })
}

/// Where a variable of a fragment lies, for who wants its elements as a slice of their type.
pub(crate) fn range<T: Element>(object: &str, fragment: &Fragment, name: &str) -> Result<std::ops::Range<usize>> {
    let found = array(object, fragment, Some(name))?;
    if found.dtype == T::dtype() {
        return Ok(found.bytes);
    }
    let wanted = format!("a variable '{name}' of {}", T::dtype());
    Err(Error::Variable { name: object.into(), found: format!("'{name}' of {}", found.dtype), wanted })
}

/// Bytes as elements; an error where they are not aligned.
pub(crate) fn cast<'a, T: Pod>(object: &str, bytes: &'a [u8]) -> Result<&'a [T]> {
    bytemuck::try_cast_slice(bytes).map_err(|error| unaligned(object, error))
}

/// As [`cast`], to be written.
pub(crate) fn cast_mut<'a, T: Pod>(object: &str, bytes: &'a mut [u8]) -> Result<&'a mut [T]> {
    bytemuck::try_cast_slice_mut(bytes).map_err(|error| unaligned(object, error))
}

fn unaligned(object: &str, error: bytemuck::PodCastError) -> Error {
    let found = format!("bytes that cannot be seen as elements: {error}");
    Error::Variable { name: object.into(), found, wanted: "aligned ones: say 'aligned' in its view".into() }
}
