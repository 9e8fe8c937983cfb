//! Metadata to Python and back.
//!
//! A dtype crosses as its name, such as `"float64"`, or for a record as `([(name, dtype, offset), ...], bytes)`.

use crate::errors;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use std::time::Duration;
use stillframe::{Attributes, DType, Error, Field, NoTrust, Order, Polite, Scalar, Trust};

/// Share, bytes per second, and numbers of processors.
pub type PoliteRow = (f64, Option<u64>, Option<Vec<usize>>);

/// How politely to look.
pub fn polite((share, bytes_per_s, processors): &PoliteRow) -> Polite {
    let polite = Polite::new().share(*share);
    let polite = match bytes_per_s {
        Some(bytes) => polite.bytes_per_s(*bytes),
        None => polite,
    };
    match processors {
        Some(numbers) => polite.processors(numbers.iter().map(|number| *number..=*number)),
        None => polite,
    }
}

/// A dtype as Python sees it.
pub fn dtype_to_python<'py>(py: Python<'py>, dtype: &DType) -> PyResult<Bound<'py, PyAny>> {
    match dtype {
        DType::Record { fields, bytes } => {
            let fields = fields
                .iter()
                .map(|field| Ok((&field.name, dtype_to_python(py, &field.dtype)?, field.offset)))
                .collect::<PyResult<Vec<_>>>()?;
            Ok((fields, bytes).into_pyobject(py)?.into_any())
        }
        plain => Ok(plain.to_string().into_pyobject(py)?.into_any()),
    }
}

/// A dtype from what Python gives.
pub fn dtype_from_python(value: &Bound<'_, PyAny>) -> PyResult<DType> {
    let py = value.py();
    let dtype = match value.cast::<PyString>() {
        Ok(name) => name.to_str()?.parse().map_err(|error: <DType as std::str::FromStr>::Err| error.to_string()),
        Err(_) => {
            let (fields, bytes): (Vec<(String, Bound<'_, PyAny>, u32)>, u32) = value.extract()?;
            let fields = fields
                .into_iter()
                .map(|(name, dtype, offset)| Ok(Field { name, dtype: dtype_from_python(&dtype)?, offset }))
                .collect::<PyResult<Vec<_>>>()?;
            let record = DType::Record { fields, bytes };
            record.check().map(|()| record).map_err(|error| error.to_string())
        }
    };
    dtype.map_err(|why| errors::misuse(py, why))
}

/// The dtype in the language of the buffer protocol.
pub fn buffer_format(dtype: &DType) -> String {
    match dtype {
        DType::Int(1) => "b".into(),
        DType::Int(2) => "h".into(),
        DType::Int(4) => "i".into(),
        DType::Int(_) => "q".into(),
        DType::Uint(1) => "B".into(),
        DType::Uint(2) => "H".into(),
        DType::Uint(4) => "I".into(),
        DType::Uint(_) => "Q".into(),
        DType::Float(2) => "e".into(),
        // The language has none: the bits.
        DType::Bfloat16 => "H".into(),
        DType::Float(4) => "f".into(),
        DType::Float(_) => "d".into(),
        DType::Complex(8) => "Zf".into(),
        DType::Complex(_) => "Zd".into(),
        DType::Bool => "?".into(),
        DType::Bytes(n) => format!("{n}s"),
        DType::Record { fields, bytes } => record_format(fields, *bytes).unwrap_or_else(|| format!("{bytes}s")),
    }
}

/// `None` for records that the language cannot express.
fn record_format(fields: &[Field], bytes: u32) -> Option<String> {
    let mut fields: Vec<&Field> = fields.iter().collect();
    fields.sort_by_key(|field| field.offset);
    let mut text = String::from("T{");
    let mut end = 0;
    for field in fields {
        if field.name.contains([':', '\0']) {
            return None;
        }
        pad(&mut text, field.offset.checked_sub(end)?);
        // The sign switches off the alignment that would else be assumed.
        let sign = if matches!(field.dtype, DType::Record { .. }) { "" } else { "=" };
        text += &format!("{sign}{}:{}:", buffer_format(&field.dtype), field.name);
        end = field.offset + field.dtype.bytes() as u32;
    }
    pad(&mut text, bytes.checked_sub(end)?);
    text.push('}');
    Some(text)
}

fn pad(text: &mut String, bytes: u32) {
    if bytes > 0 {
        *text += &format!("{bytes}x");
    }
}

/// `"C"` or `"F"`.
pub fn order_to_python(order: Order) -> &'static str {
    match order {
        Order::C => "C",
        Order::Fortran => "F",
    }
}

/// From `"C"` or `"F"`.
pub fn order_from_python(py: Python<'_>, order: &str) -> PyResult<Order> {
    match order {
        "C" => Ok(Order::C),
        "F" => Ok(Order::Fortran),
        other => Err(errors::misuse(py, format!("order is 'C' or 'F', not '{other}'"))),
    }
}

/// Attributes as a dictionary.
pub fn attributes_to_python<'py>(py: Python<'py>, attributes: &Attributes) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in attributes {
        match value {
            Scalar::Bool(value) => dict.set_item(name, value)?,
            Scalar::Int(value) => dict.set_item(name, value)?,
            Scalar::Float(value) => dict.set_item(name, value)?,
            Scalar::Text(value) => dict.set_item(name, value)?,
        }
    }
    Ok(dict)
}

/// Attributes from a dictionary of plain values.
pub fn attributes_from_python(dict: &Bound<'_, PyDict>) -> PyResult<Attributes> {
    let mut attributes = Attributes::new();
    for (name, value) in dict.iter() {
        let scalar = scalar_from_python(&value).ok_or_else(|| {
            let why = format!("attribute {name}: {value:?} is neither bool, int of 64 bits, float nor str");
            errors::misuse(dict.py(), why)
        })?;
        attributes.insert(name.extract()?, scalar);
    }
    Ok(attributes)
}

fn scalar_from_python(value: &Bound<'_, PyAny>) -> Option<Scalar> {
    // A bool is an int to Python, so it comes first.
    if let Ok(value) = value.cast::<PyBool>() {
        Some(Scalar::Bool(value.is_true()))
    } else if value.is_instance_of::<PyInt>() {
        value.extract().ok().map(Scalar::Int)
    } else if value.is_instance_of::<PyFloat>() {
        value.extract().ok().map(Scalar::Float)
    } else {
        value.extract().ok().map(Scalar::Text)
    }
}

/// Whose files are believed, as Python says it.
pub fn trust(py: Python<'_>, text: Option<&str>) -> PyResult<Option<Trust>> {
    let trust = text.map(str::parse).transpose();
    trust.map_err(|error: NoTrust| errors::raise(py, Error::from(error)))
}

/// A time in seconds from Python; `None` and infinity are no limit.
pub fn seconds(py: Python<'_>, what: &str, value: Option<f64>) -> PyResult<Option<Duration>> {
    match value {
        None => Ok(None),
        Some(value) if value == f64::INFINITY => Ok(None),
        Some(value) => Duration::try_from_secs_f64(value)
            .map(Some)
            .map_err(|_| errors::misuse(py, format!("{what}={value}: give seconds, 0 or more, or None for no limit"))),
    }
}
