//! Primitives, records and arrays: what objects consist of. A type has no layout; a fragment gives it one.

use std::sync::Arc;

/// What one leaf element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Primitive {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    Float32,
    Float64,
    /// Two `Float32`: real and imaginary part.
    Complex64,
    /// Two `Float64`: real and imaginary part.
    Complex128,
    /// A fixed number of bytes, padded with zeros: `string16`.
    Text(u32),
}

/// A type of the language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Primitive(Primitive),
    Record(Arc<Record>),
    Array(Arc<Array>),
}

/// A record: named fields in the order they were declared in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The name it was declared under, if it was.
    pub name: Option<Arc<str>>,
    pub fields: Vec<Field>,
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: Arc<str>,
    pub kind: Type,
}

/// An array: one pair of brackets. The elements of `[2,3][4]float64` are arrays of four.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Elements along each axis, as written. Never empty, and none is 0.
    pub extents: Vec<u64>,
    pub element: Type,
}

/// Which axis of one pair of brackets is contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// The last index is the fastest, as in C.
    #[default]
    RowMajor,
    /// The first index is the fastest, as in Fortran.
    ColumnMajor,
}

/// The order of the bytes of a number in a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum ByteOrder {
    LittleEndian,
    BigEndian,
}

/// Where the fields of a record lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Packing {
    /// Back to back.
    #[default]
    Packed,
    /// Each at a multiple of its alignment, and the record's size rounded up to its own: what C compilers do on the
    /// usual 64-bit machines (System V ABI, AMD64 supplement, 3.1.2).
    Aligned,
}

/// What a view says about the bytes of its variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    pub order: Order,
    pub packing: Packing,
    pub byte_order: ByteOrder,
}
