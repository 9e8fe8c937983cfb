//! One element of an array, taken out of its bytes.

use stillframe::{DType, bf16, f16};

/// An element.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float32(f32),
    Float64(f64),
    Complex32([f32; 2]),
    Complex64([f64; 2]),
    Bytes(Vec<u8>),
    Record(Vec<(String, Value)>),
}

/// Takes an element of type `dtype` from the start of `bytes`; missing bytes count as zero.
pub fn decode(dtype: &DType, bytes: &[u8]) -> Value {
    match dtype {
        DType::Bool => Value::Bool(bytes.first().is_some_and(|byte| *byte != 0)),
        DType::Int(1) => Value::Int(i8::from_ne_bytes(head(bytes)).into()),
        DType::Int(2) => Value::Int(i16::from_ne_bytes(head(bytes)).into()),
        DType::Int(4) => Value::Int(i32::from_ne_bytes(head(bytes)).into()),
        DType::Int(_) => Value::Int(i64::from_ne_bytes(head(bytes))),
        DType::Uint(1) => Value::Uint(u8::from_ne_bytes(head(bytes)).into()),
        DType::Uint(2) => Value::Uint(u16::from_ne_bytes(head(bytes)).into()),
        DType::Uint(4) => Value::Uint(u32::from_ne_bytes(head(bytes)).into()),
        DType::Uint(_) => Value::Uint(u64::from_ne_bytes(head(bytes))),
        DType::Float(2) => Value::Float32(f16::from_ne_bytes(head(bytes)).to_f32()),
        DType::Bfloat16 => Value::Float32(bf16::from_ne_bytes(head(bytes)).to_f32()),
        DType::Float(4) => Value::Float32(f32::from_ne_bytes(head(bytes))),
        DType::Float(_) => Value::Float64(f64::from_ne_bytes(head(bytes))),
        DType::Complex(8) => Value::Complex32([0, 4].map(|at| f32::from_ne_bytes(head(tail(bytes, at))))),
        DType::Complex(_) => Value::Complex64([0, 8].map(|at| f64::from_ne_bytes(head(tail(bytes, at))))),
        DType::Bytes(count) => Value::Bytes(bytes[..bytes.len().min(*count as usize)].to_vec()),
        DType::Record { fields, .. } => {
            let one = |field: &stillframe::Field| {
                (field.name.clone(), decode(&field.dtype, tail(bytes, field.offset as usize)))
            };
            Value::Record(fields.iter().map(one).collect())
        }
    }
}

fn tail(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or_default()
}

fn head<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    let count = bytes.len().min(N);
    array[..count].copy_from_slice(&bytes[..count]);
    array
}

impl Value {
    /// The value as a real number, as far as it is one; of a complex number its magnitude.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Bool(value) => Some(f64::from(u8::from(*value))),
            Value::Int(value) => Some(*value as f64),
            Value::Uint(value) => Some(*value as f64),
            Value::Float32(value) => Some(f64::from(*value)),
            Value::Float64(value) => Some(*value),
            Value::Complex32([re, im]) => Some(f64::from(*re).hypot(f64::from(*im))),
            Value::Complex64([re, im]) => Some(re.hypot(*im)),
            Value::Bytes(_) | Value::Record(_) => None,
        }
    }

    /// The value in JSON. What JSON has no number for (`nan`, `inf`) becomes text; a complex number is `[re, im]`.
    pub fn json(&self) -> serde_json::Value {
        use serde_json::json;
        let float = |value: f64| if value.is_finite() { json!(value) } else { json!(value.to_string().to_lowercase()) };
        // Through its shortest decimal text a 0.1 in single precision stays 0.1.
        let single = |value: f32| float(value.to_string().parse().unwrap_or(f64::from(value)));
        match self {
            Value::Bool(value) => json!(value),
            Value::Int(value) => json!(value),
            Value::Uint(value) => json!(value),
            Value::Float32(value) => single(*value),
            Value::Float64(value) => float(*value),
            Value::Complex32(parts) => json!(parts.map(single)),
            Value::Complex64(parts) => json!(parts.map(float)),
            Value::Bytes(bytes) => json!(format_bytes(bytes)),
            Value::Record(fields) => fields
                .iter()
                .map(|(name, value)| (name.clone(), value.json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
}

/// The shortest text that reads back as the same value.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{}", if *value { "True" } else { "False" }),
            Value::Int(value) => write!(f, "{value}"),
            Value::Uint(value) => write!(f, "{value}"),
            Value::Float32(value) => f.write_str(&lower_nan(format!("{value:?}"))),
            Value::Float64(value) => f.write_str(&lower_nan(format!("{value:?}"))),
            // Without a sign before it, nobody reads the second part.
            Value::Complex32([re, im]) if im.is_nan() => f.write_str(&lower_nan(format!("{re:?}+nanj"))),
            Value::Complex64([re, im]) if im.is_nan() => f.write_str(&lower_nan(format!("{re:?}+nanj"))),
            Value::Complex32([re, im]) => f.write_str(&lower_nan(format!("{re:?}{im:+?}j"))),
            Value::Complex64([re, im]) => f.write_str(&lower_nan(format!("{re:?}{im:+?}j"))),
            Value::Bytes(bytes) => f.write_str(&format_bytes(bytes)),
            Value::Record(fields) => {
                write!(f, "(")?;
                for (place, (name, value)) in fields.iter().enumerate() {
                    let comma = if place == 0 { "" } else { ", " };
                    write!(f, "{comma}{name}={value}")?;
                }
                write!(f, ")")
            }
        }
    }
}

fn lower_nan(text: String) -> String {
    if text.contains('N') { text.replace("NaN", "nan") } else { text }
}

/// Text when the bytes are printable text padded with zeros, else every odd byte as `\xNN`.
pub fn format_bytes(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    match std::str::from_utf8(&bytes[..end]) {
        Ok(text) if !text.contains(char::is_control) => text.into(),
        _ => bytes[..end].escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plain_type_reads_its_own_bytes() {
        assert_eq!(decode(&DType::Int(2), &(-300i16).to_ne_bytes()), Value::Int(-300));
        assert_eq!(decode(&DType::Uint(8), &u64::MAX.to_ne_bytes()), Value::Uint(u64::MAX));
        assert_eq!(decode(&DType::Float(4), &0.1f32.to_ne_bytes()).to_string(), "0.1");
        let pair: Vec<u8> = [1.5f64, -2.0].iter().flat_map(|part| part.to_ne_bytes()).collect();
        assert_eq!(decode(&DType::Complex(16), &pair).to_string(), "1.5-2.0j");
        let pair = |re: f64, im: f64| Value::Complex64([re, im]).to_string();
        assert_eq!(pair(f64::NAN, f64::NAN), "nan+nanj");
        assert_eq!(pair(-0.0, f64::NEG_INFINITY), "-0.0-infj");
        assert_eq!(Value::Complex32([f32::INFINITY, -f32::NAN]).to_string(), "inf+nanj");
        assert_eq!(decode(&DType::Bytes(4), b"ab\0\0").to_string(), "ab");
        assert_eq!(decode(&DType::Bytes(3), b"\x01\xff\0").to_string(), "\\x01\\xff");
        assert_eq!(decode(&DType::Float(8), &[]), Value::Float64(0.0));
        assert_eq!(decode(&DType::Float(2), &f16::from_f32(-1.5).to_ne_bytes()), Value::Float32(-1.5));
        assert_eq!(decode(&DType::Bfloat16, &bf16::from_f32(-1.5).to_ne_bytes()), Value::Float32(-1.5));
    }

    #[test]
    fn json_has_no_number_for_infinities() {
        assert_eq!(Value::Float64(f64::NAN).json(), "nan");
        assert_eq!(Value::Float64(f64::NEG_INFINITY).json(), "-inf");
        assert_eq!(Value::Float32(0.1).json().to_string(), "0.1");
    }
}
