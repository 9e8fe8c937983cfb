//! Element types of variables.

use crate::{NESTING_MAX, RANK_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The type of a variable's elements. Byte order is the machine's own: a region never leaves its node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DType {
    /// Signed integer of 1, 2, 4 or 8 bytes.
    Int(u8),
    /// Unsigned integer of 1, 2, 4 or 8 bytes.
    Uint(u8),
    /// IEEE 754 number of 2, 4 or 8 bytes.
    Float(u8),
    /// The upper half of an IEEE 754 number of 4 bytes: its exponent, and 8 bits of precision.
    Bfloat16,
    /// Two IEEE 754 numbers, real part first; 8 or 16 bytes in all.
    Complex(u8),
    /// One byte, 0 or 1.
    Bool,
    /// That many bytes without further meaning, zero-padded when they hold text.
    Bytes(u32),
    /// Named fields at fixed offsets.
    Record {
        /// The fields, in the order of their declaration.
        fields: Vec<Field>,
        /// Distance in bytes from one element to the next.
        bytes: u32,
    },
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Field {
    /// Name, unique in its record.
    pub name: String,
    /// Type of the field.
    pub dtype: DType,
    /// Offset in bytes from the start of the element.
    pub offset: u32,
}

/// In which order the elements of an array follow each other in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Row-major, the last index runs fastest.
    #[default]
    C,
    /// Column-major, the first index runs fastest.
    Fortran,
}

/// Why a text or a record is not a dtype.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DTypeError {
    /// The text names no type.
    #[error(
        "'{0}' is no dtype: use int8…int64, uint8…uint64, float16, bfloat16, float32, float64, complex64, complex128, bool or bytesN"
    )]
    Unknown(String),
    /// A text that begins as a record does, and is none.
    #[error(
        r#"the text of a record is no JSON of the form {{"fields":[{{"name":…,"dtype":…,"offset":…}},…],"bytes":…}}: {0}"#
    )]
    Json(String),
    /// A record whose fields overlap, repeat, or reach past its end.
    #[error("field '{field}' of a record: {why}")]
    Field {
        /// The field that is wrong.
        field: String,
        /// In what way.
        why: &'static str,
    },
}

/// Why an array of a shape and an element type cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// More dimensions than a manifest has room for.
    #[error("{0} dimensions are more than {RANK_MAX}")]
    Rank(usize),
    /// More bytes than [`ARRAY_BYTES_MAX`].
    #[error("{shape:?} elements of {dtype} are too many")]
    Bytes {
        /// The shape.
        shape: Vec<usize>,
        /// The type of the elements.
        dtype: DType,
    },
}

/// Most bytes of an array.
pub const ARRAY_BYTES_MAX: usize = 1 << 46;

impl DType {
    /// Bytes of an array of such elements.
    ///
    /// # Errors
    /// Why such an array cannot be.
    pub fn array_bytes(&self, shape: &[usize]) -> Result<usize, ArrayError> {
        if shape.len() > RANK_MAX {
            return Err(ArrayError::Rank(shape.len()));
        }
        let bytes = shape.iter().try_fold(self.bytes(), |product, n| product.checked_mul(*n));
        let too_many = || ArrayError::Bytes { shape: shape.to_vec(), dtype: self.clone() };
        bytes.filter(|bytes| *bytes <= ARRAY_BYTES_MAX).ok_or_else(too_many)
    }

    /// Bytes of one element.
    pub fn bytes(&self) -> usize {
        match self {
            DType::Int(n) | DType::Uint(n) | DType::Float(n) | DType::Complex(n) => *n as usize,
            DType::Bool => 1,
            DType::Bfloat16 => 2,
            DType::Bytes(n) => *n as usize,
            DType::Record { bytes, .. } => *bytes as usize,
        }
    }

    /// A record with each field behind the last one, without padding.
    pub fn packed(fields: impl IntoIterator<Item = (impl Into<String>, DType)>) -> Result<DType, DTypeError> {
        let mut end = 0;
        let fields = fields
            .into_iter()
            .map(|(name, dtype)| {
                let field = Field { name: name.into(), offset: end, dtype };
                // A sum that is too large makes the last field reach past the end, which is an error below.
                end = end.saturating_add(field.dtype.bytes() as u32);
                field
            })
            .collect();
        let record = DType::Record { fields, bytes: end };
        record.check()?;
        Ok(record)
    }

    /// The type as text: a plain type's name, a record as JSON, as in `{"fields":[{"name":"x","dtype":"float64","offset":0}],"bytes":8}`.
    pub fn to_text(&self) -> String {
        match self {
            // Neither names nor numbers can fail to become JSON.
            DType::Record { .. } => serde_json::to_string(self).unwrap_or_default(),
            plain => plain.to_string(),
        }
    }

    /// Reads what [`to_text`](DType::to_text) writes.
    ///
    /// # Errors
    /// What is wrong with the text or its record.
    pub fn from_text(text: &str) -> Result<DType, DTypeError> {
        if !text.trim_start().starts_with('{') {
            return text.parse();
        }
        let json = serde_json::from_str::<DTypeJson>(text);
        match json.map_err(|error| DTypeError::Json(error.to_string()))? {
            DTypeJson::Record { fields, bytes } => {
                let record = DType::Record { fields, bytes };
                record.check().map(|()| record)
            }
            DTypeJson::Name(name) => name.parse(),
        }
    }

    /// Checks what the type system cannot: sizes, and that the fields of a record fit side by side.
    pub fn check(&self) -> Result<(), DTypeError> {
        self.check_inside(0)
    }

    /// Checks it inside of so many records.
    fn check_inside(&self, depth: usize) -> Result<(), DTypeError> {
        let known = match self {
            DType::Int(n) | DType::Uint(n) => matches!(n, 1 | 2 | 4 | 8),
            DType::Float(n) => matches!(n, 2 | 4 | 8),
            DType::Complex(n) => matches!(n, 8 | 16),
            DType::Bool | DType::Bfloat16 => true,
            DType::Bytes(n) => *n > 0,
            DType::Record { fields, bytes } => return check_record(fields, *bytes, depth + 1),
        };
        if known { Ok(()) } else { Err(DTypeError::Unknown(self.to_string())) }
    }
}

fn check_record(fields: &[Field], bytes: u32, depth: usize) -> Result<(), DTypeError> {
    let fail = |field: &Field, why| Err(DTypeError::Field { field: field.name.clone(), why });
    if fields.is_empty() || bytes == 0 {
        return Err(DTypeError::Unknown("record without fields".into()));
    }
    if depth > NESTING_MAX {
        return fail(&fields[0], "it is inside of more than 32 records, and readers accept no more");
    }
    let mut spans: Vec<(u64, u64, &Field)> = Vec::with_capacity(fields.len());
    let mut names = BTreeSet::new();
    for field in fields {
        field.dtype.check_inside(depth)?;
        let end = field.offset as u64 + field.dtype.bytes() as u64;
        if end > bytes as u64 {
            return fail(field, "it reaches past the end of the record");
        }
        if !names.insert(&field.name) {
            return fail(field, "the name occurs twice");
        }
        spans.push((field.offset as u64, end, field));
    }
    spans.sort_by_key(|span| span.0);
    match spans.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => fail(pair[1].2, "it overlaps the field before it"),
        None => Ok(()),
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DType::Int(n) => write!(f, "int{}", *n as u32 * 8),
            DType::Uint(n) => write!(f, "uint{}", *n as u32 * 8),
            DType::Float(n) => write!(f, "float{}", *n as u32 * 8),
            DType::Complex(n) => write!(f, "complex{}", *n as u32 * 8),
            DType::Bool => write!(f, "bool"),
            DType::Bfloat16 => write!(f, "bfloat16"),
            DType::Bytes(n) => write!(f, "bytes{n}"),
            DType::Record { fields, .. } => {
                write!(f, "{{")?;
                for (index, field) in fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}: {}", field.name, field.dtype)?;
                }
                write!(f, "}}")
            }
        }
    }
}

impl std::str::FromStr for DType {
    type Err = DTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || DTypeError::Unknown(text.to_string());
        if text == "bool" {
            return Ok(DType::Bool);
        }
        if text == "bfloat16" {
            return Ok(DType::Bfloat16);
        }
        let digits = text.find(|c: char| c.is_ascii_digit()).ok_or_else(unknown)?;
        let (kind, number) = text.split_at(digits);
        let number: u32 = number.parse().map_err(|_| unknown())?;
        let bytes = u8::try_from(number / 8).ok().filter(|_| number.is_multiple_of(8));
        let dtype = match kind {
            "int" => bytes.map(DType::Int),
            "uint" => bytes.map(DType::Uint),
            "float" => bytes.map(DType::Float),
            "complex" => bytes.map(DType::Complex),
            "bytes" => Some(DType::Bytes(number)),
            _ => None,
        }
        .ok_or_else(unknown)?;
        dtype.check().map_err(|_| unknown())?;
        Ok(dtype)
    }
}

/// In JSON a plain type is its name, and a record an object of its fields and size.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum DTypeJson {
    Name(String),
    Record { fields: Vec<Field>, bytes: u32 },
}

impl Serialize for DType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            DType::Record { fields, bytes } => DTypeJson::Record { fields: fields.clone(), bytes: *bytes },
            plain => DTypeJson::Name(plain.to_string()),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DType {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dtype = match DTypeJson::deserialize(deserializer)? {
            DTypeJson::Name(name) => name.parse().map_err(serde::de::Error::custom)?,
            DTypeJson::Record { fields, bytes } => DType::Record { fields, bytes },
        };
        dtype.check().map_err(serde::de::Error::custom)?;
        Ok(dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plain_name_reads_back_as_itself() {
        for name in
            "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 bool bytes17"
                .split(' ')
        {
            assert_eq!(name.parse::<DType>().unwrap().to_string(), name);
        }
        for name in ["int7", "float8", "bfloat32", "complex32", "bytes0", "int", "", "int99999999999", "str8"] {
            assert!(name.parse::<DType>().is_err(), "{name}");
        }
    }

    #[test]
    fn every_type_reads_back_from_its_text() {
        let inner = DType::packed([("x", DType::Float(4)), ("y", DType::Float(4))]).unwrap();
        let outer = DType::packed([("at", inner), ("what", DType::Bytes(3))]).unwrap();
        for dtype in [DType::Int(2), DType::Complex(16), DType::Bool, DType::Bytes(17), outer] {
            assert_eq!(DType::from_text(&dtype.to_text()).unwrap(), dtype);
        }
        assert!(matches!(DType::from_text("float65"), Err(DTypeError::Unknown(_))));
        let error = DType::from_text("{\"fields\":[]").unwrap_err();
        assert!(error.to_string().contains("no JSON of the form {\"fields\""), "{error}");
    }

    #[test]
    fn records_are_inside_of_as_many_others_as_a_reader_accepts() {
        let outer = |inner: DType| DType::Record {
            bytes: 1,
            fields: vec![Field { name: "f".into(), dtype: inner, offset: 0 }],
        };
        let deepest = (0..NESTING_MAX).fold(DType::Bool, |inner, _| outer(inner));
        let variable = crate::Variable {
            id: 0,
            name: "v".into(),
            dtype: deepest.clone(),
            order: Order::C,
            units: String::new(),
            attributes: Default::default(),
        };
        let schema = crate::Schema { variables: vec![variable] };
        assert_eq!(crate::Schema::decode("schema.1", &schema.encode()), Ok(schema));
        let error = outer(deepest).check().unwrap_err();
        assert!(error.to_string().contains(&NESTING_MAX.to_string()), "{error}");
    }

    #[test]
    fn records_are_checked_and_survive_json() {
        let cell = DType::packed([("rho", DType::Float(8)), ("id", DType::Int(4))]).unwrap();
        assert_eq!(cell.bytes(), 12);
        let text = serde_json::to_string(&cell).unwrap();
        assert_eq!(serde_json::from_str::<DType>(&text).unwrap(), cell);
        assert_eq!(DType::from_text(&cell.to_text()).unwrap(), cell);
        assert!(DType::packed([("a", DType::Bytes(u32::MAX)), ("b", DType::Bytes(1))]).is_err());
        for bad in [
            r#"{"fields":[],"bytes":4}"#,
            r#"{"fields":[{"name":"a","dtype":"float64","offset":0}],"bytes":4}"#,
            r#"{"fields":[{"name":"a","dtype":"int8","offset":0},{"name":"a","dtype":"int8","offset":1}],"bytes":4}"#,
            r#"{"fields":[{"name":"a","dtype":"int32","offset":0},{"name":"b","dtype":"int8","offset":3}],"bytes":4}"#,
        ] {
            assert!(serde_json::from_str::<DType>(bad).is_err(), "{bad}");
            assert!(matches!(DType::from_text(bad), Err(DTypeError::Field { .. } | DTypeError::Unknown(_))), "{bad}");
        }
    }
}
