//! Primitives, records and arrays: what objects consist of. A type has no layout; a fragment gives it one.

use std::{fmt, sync::Arc};

/// What one leaf element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Primitive {
    /// One byte, 0 or 1.
    Bool,
    /// One byte, two's complement, as all that follow.
    Int8,
    /// Two bytes.
    Int16,
    /// Four bytes.
    Int32,
    /// Eight bytes.
    Int64,
    /// One byte.
    UInt8,
    /// Two bytes.
    UInt16,
    /// Four bytes.
    UInt32,
    /// Eight bytes.
    UInt64,
    /// IEEE 754 binary16.
    Float16,
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary64.
    Float64,
    /// Two `Float32`: real and imaginary part.
    Complex64,
    /// Two `Float64`: real and imaginary part.
    Complex128,
    /// A fixed number of bytes, padded with zeros: `string16`.
    Text(u32),
    /// The upper half of a `Float32`. It stands last, as plans are encoded by these positions.
    Bfloat16,
}

/// A type of the language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// A number, truth value or string.
    Primitive(Primitive),
    /// Named fields.
    Record(Arc<Record>),
    /// One pair of brackets.
    Array(Arc<Array>),
}

/// A record: named fields in the order they were declared in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    name: Option<Arc<str>>,
    fields: Vec<Field>,
    /// Bytes that a view leaves out before each field and behind the last one; empty where it leaves out none.
    gaps_bytes: Vec<u64>,
    /// Positions of the fields, sorted by their names.
    by_name: Vec<u32>,
    /// Leaves of all fields before each.
    leaves_before: Vec<u32>,
    leaves: u32,
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// No other field of the record has it.
    pub name: Arc<str>,
    /// What it consists of.
    pub kind: Type,
}

/// An array: one pair of brackets. The elements of `[2,3][4]float64` are arrays of four.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Elements along each axis, as written. Never empty, and none is 0.
    pub extents: Vec<u64>,
    /// What each element is.
    pub element: Type,
}

/// Which axis of one pair of brackets is contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub enum AxisOrder {
    /// The last index is the fastest, as in C.
    #[default]
    RowMajor,
    /// The first index is the fastest, as in Fortran.
    ColumnMajor,
}

/// The order of the bytes of a number in a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum ByteOrder {
    /// The lowest byte first.
    LittleEndian,
    /// The highest byte first, as in netCDF's classic format.
    BigEndian,
}

/// Where the fields of a record lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub enum Packing {
    /// Back to back.
    #[default]
    Packed,
    /// Each at a multiple of its alignment, and the record's size rounded up to its own: what C compilers do on the
    /// usual 64-bit machines (System V ABI, AMD64 supplement, 3.1.2).
    Aligned,
}

/// What a view says about the bytes of its variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Layout {
    /// Which axis is contiguous.
    pub order: AxisOrder,
    /// Where fields lie, and variables within the view.
    pub packing: Packing,
    /// How numbers lie.
    pub byte_order: ByteOrder,
}

/// Records and arrays that contain each other deeper than this are refused, so that nothing that walks over types can
/// exhaust a stack.
pub const DEPTH_MAX: usize = 64;

impl Primitive {
    /// All but strings, which have a length in their name.
    pub const NAMED: [(&'static str, Self); 15] = [
        ("bool", Self::Bool),
        ("int8", Self::Int8),
        ("int16", Self::Int16),
        ("int32", Self::Int32),
        ("int64", Self::Int64),
        ("uint8", Self::UInt8),
        ("uint16", Self::UInt16),
        ("uint32", Self::UInt32),
        ("uint64", Self::UInt64),
        ("float16", Self::Float16),
        ("bfloat16", Self::Bfloat16),
        ("float32", Self::Float32),
        ("float64", Self::Float64),
        ("complex64", Self::Complex64),
        ("complex128", Self::Complex128),
    ];

    /// The primitive of a name of the language: `float64`, `string16`.
    pub fn from_name(name: &str) -> Option<Self> {
        if let Some(digits) = name.strip_prefix("string") {
            let plain = !digits.starts_with(['0', '+']);
            return digits.parse().ok().filter(|_| plain).map(Self::Text);
        }
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, primitive)| *primitive)
    }

    /// Bytes of one element.
    pub fn size_bytes(self) -> u64 {
        match self {
            Self::Bool | Self::Int8 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 | Self::Float16 | Self::Bfloat16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 | Self::Complex64 => 8,
            Self::Complex128 => 16,
            Self::Text(bytes) => bytes.into(),
        }
    }

    /// Bytes of the numbers it consists of: those that change places between byte orders, and its alignment in C.
    pub fn word_bytes(self) -> u64 {
        match self {
            Self::Complex64 => 4,
            Self::Complex128 => 8,
            Self::Text(_) => 1,
            _ => self.size_bytes(),
        }
    }
}

impl Type {
    /// How many leaves it has. Types of a dataset have at most [`LEAVES_MAX`](crate::dataset::LEAVES_MAX).
    pub(crate) fn leaves(&self) -> u32 {
        match self {
            Self::Primitive(_) => 1,
            Self::Array(array) => array.element.leaves(),
            Self::Record(record) => record.leaves,
        }
    }

    /// How many numbers, truth values and strings a value has, or `u128::MAX` where that is less: strings may have no bytes.
    pub(crate) fn places(&self) -> u128 {
        match self {
            Self::Primitive(_) => 1,
            Self::Array(array) => {
                let extents = array.extents.iter().map(|extent| u128::from(*extent));
                extents.fold(array.element.places(), u128::saturating_mul)
            }
            Self::Record(record) => {
                let places = record.fields.iter().map(|field| field.kind.places());
                places.fold(0, u128::saturating_add)
            }
        }
    }

    /// `[extents]element`.
    pub fn array(extents: Vec<u64>, element: Self) -> Self {
        Self::Array(Arc::new(Array { extents, element }))
    }

    /// A record without a name.
    pub fn record<N: Into<Arc<str>>>(fields: impl IntoIterator<Item = (N, Self)>) -> Self {
        let fields = fields.into_iter().map(|(name, kind)| Field { name: name.into(), kind }).collect();
        Self::Record(Arc::new(Record::new(None, fields)))
    }
}

impl Record {
    /// A record of these fields: at least one, and no two of one name.
    pub fn new(name: Option<Arc<str>>, fields: Vec<Field>) -> Self {
        let mut by_name: Vec<u32> = (0..fields.len() as u32).collect();
        by_name.sort_by_key(|position| &fields[*position as usize].name);
        let mut leaves = 0_u32;
        let before = fields.iter().map(|field| {
            let before = leaves;
            // Types that no dataset takes can have more leaves than can be counted.
            leaves = leaves.saturating_add(field.kind.leaves());
            before
        });
        let leaves_before = before.collect();
        Self { name, fields, gaps_bytes: Vec::new(), by_name, leaves_before, leaves }
    }

    /// The same with bytes that a view leaves out, before each field and behind the last one. What has such gaps is not the type that
    /// was declared under the name, and has none.
    pub(crate) fn with_gaps(self, gaps_bytes: Vec<u64>) -> Self {
        match gaps_bytes.iter().any(|bytes| *bytes > 0) {
            true => Self { gaps_bytes, name: None, ..self },
            false => self,
        }
    }

    /// Bytes that a view leaves out before each field and behind the last one; empty where it leaves out none.
    pub fn gaps_bytes(&self) -> &[u64] {
        &self.gaps_bytes
    }

    /// The same under a name.
    pub(crate) fn named(&self, name: &str) -> Self {
        Self { name: Some(name.into()), ..self.clone() }
    }

    /// The name it was declared under, if it was.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// Its fields, in the order they were declared in.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field of a name, and its position.
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        let found = self.by_name.binary_search_by_key(&name, |position| &self.fields[*position as usize].name);
        let position = self.by_name[found.ok()?] as usize;
        Some((position, &self.fields[position]))
    }

    /// How many leaves the fields before one have.
    pub(crate) fn leaves_before(&self, position: usize) -> u32 {
        self.leaves_before[position]
    }
}

impl ByteOrder {
    /// The byte order of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::BigEndian } else { Self::LittleEndian };
}

impl Default for Layout {
    fn default() -> Self {
        Self { order: AxisOrder::RowMajor, packing: Packing::Packed, byte_order: ByteOrder::NATIVE }
    }
}

impl Layout {
    /// Bytes of a value of the type; `None` where they do not fit an `i64`.
    pub fn size_bytes(&self, kind: &Type) -> Option<u64> {
        let size = match kind {
            Type::Primitive(primitive) => primitive.size_bytes(),
            Type::Array(array) => {
                let element = self.size_bytes(&array.element)?;
                array.extents.iter().try_fold(element, |size, extent| size.checked_mul(*extent))?
            }
            Type::Record(record) => {
                let mut place = Placement::new(self.packing);
                self.field_offsets(record, &mut place)?;
                place.size_bytes()?
            }
        };
        (size <= i64::MAX as u64).then_some(size)
    }

    /// What addresses of a value of the type are a multiple of; 1 in packed layouts.
    pub fn alignment_bytes(&self, kind: &Type) -> u64 {
        match (self.packing, kind) {
            (Packing::Packed, _) => 1,
            (_, Type::Primitive(primitive)) => primitive.word_bytes(),
            (_, Type::Array(array)) => self.alignment_bytes(&array.element),
            (_, Type::Record(record)) => {
                record.fields().iter().map(|field| self.alignment_bytes(&field.kind)).max().unwrap_or(1)
            }
        }
    }

    /// Where the fields of a record begin, counted from its own beginning; `None` where that does not fit an `i64`.
    pub fn field_offsets_bytes(&self, record: &Record) -> Option<Vec<u64>> {
        self.field_offsets(record, &mut Placement::new(self.packing))
    }

    fn field_offsets(&self, record: &Record, place: &mut Placement) -> Option<Vec<u64>> {
        let mut gaps = record.gaps_bytes.iter();
        let mut offsets = Vec::with_capacity(record.fields.len());
        for field in record.fields() {
            place.skip(gaps.next().copied().unwrap_or(0))?;
            offsets.push(place.add(self.size_bytes(&field.kind)?, self.alignment_bytes(&field.kind))?);
        }
        place.skip(gaps.next().copied().unwrap_or(0))?;
        Some(offsets)
    }

    /// Distances in bytes between neighbours along each axis of an array; `None` where they do not fit an `i64`.
    pub fn strides_bytes(&self, array: &Array) -> Option<Vec<u64>> {
        strides(self.order, array.extents.iter().copied(), self.size_bytes(&array.element)?)
    }
}

/// Distances between neighbours along each axis of an array without gaps.
pub(crate) fn strides(
    order: AxisOrder,
    extents: impl DoubleEndedIterator<Item = u64> + ExactSizeIterator,
    element_bytes: u64,
) -> Option<Vec<u64>> {
    let mut next = element_bytes;
    let mut stride = |extent: u64| {
        let stride = next;
        next = next.checked_mul(extent).filter(|bytes| *bytes <= i64::MAX as u64)?;
        Some(stride)
    };
    match order {
        AxisOrder::ColumnMajor => extents.map(stride).collect(),
        AxisOrder::RowMajor => {
            let mut strides = extents.rev().map(&mut stride).collect::<Option<Vec<_>>>()?;
            strides.reverse();
            Some(strides)
        }
    }
}

/// Puts values one behind the other, as records and fragments hold them.
#[derive(Debug)]
pub(crate) struct Placement {
    packing: Packing,
    end: u64,
    alignment: u64,
}

impl Placement {
    pub fn new(packing: Packing) -> Self {
        Self { packing, end: 0, alignment: 1 }
    }

    /// Where the next value begins.
    pub fn add(&mut self, size: u64, alignment: u64) -> Option<u64> {
        let alignment = if self.packing == Packing::Packed { 1 } else { alignment };
        let offset = self.end.checked_next_multiple_of(alignment)?;
        self.end = offset.checked_add(size).filter(|end| *end <= i64::MAX as u64)?;
        self.alignment = self.alignment.max(alignment);
        Some(offset)
    }

    /// Leaves out so many bytes.
    pub fn skip(&mut self, bytes: u64) -> Option<()> {
        self.end = self.end.checked_add(bytes).filter(|end| *end <= i64::MAX as u64)?;
        Some(())
    }

    pub fn alignment_bytes(&self) -> u64 {
        self.alignment
    }

    /// Bytes of all together, so that the same can follow.
    pub fn size_bytes(&self) -> Option<u64> {
        self.end.checked_next_multiple_of(self.alignment).filter(|size| *size <= i64::MAX as u64)
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(bytes) => write!(out, "string{bytes}"),
            _ => {
                let name = Self::NAMED.iter().find(|(_, primitive)| primitive == self);
                out.write_str(name.map_or("", |(name, _)| name))
            }
        }
    }
}

/// As the language writes it; records by their names where they have one.
impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primitive(primitive) => primitive.fmt(out),
            Self::Array(array) => {
                for (axis, extent) in array.extents.iter().enumerate() {
                    write!(out, "{}{extent}", if axis == 0 { "[" } else { "," })?;
                }
                write!(out, "]{}", array.element)
            }
            Self::Record(record) => match record.name() {
                Some(name) => out.write_str(name),
                None => {
                    let mut gaps = record.gaps_bytes.iter();
                    let mut entries = Vec::new();
                    for field in record.fields() {
                        entries.extend(gap(gaps.next()));
                        entries.push(format!("{} {}", field.name, field.kind));
                    }
                    entries.extend(gap(gaps.next()));
                    write!(out, "struct {{ {} }}", entries.join("; "))
                }
            },
        }
    }
}

fn gap(bytes: Option<&u64>) -> Option<String> {
    bytes.filter(|bytes| **bytes > 0).map(|bytes| format!("skip {bytes}"))
}
