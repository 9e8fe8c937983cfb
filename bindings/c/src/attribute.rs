//! Attributes: named single values of versions and variables.

use crate::call::Call;
use crate::failure::Failure;
use engine::{Attributes, Scalar};
use std::ffi::{CString, c_char};

/// A number of stillframe_type_code.
pub type stillframe_type = u32;

/// Types of attributes.
#[repr(C)]
pub enum stillframe_type_code {
    /// In the member integer: 0 or 1.
    STILLFRAME_BOOL = 0,
    /// In the member integer.
    STILLFRAME_INT = 1,
    /// In the member real.
    STILLFRAME_FLOAT = 2,
    /// In the member text.
    STILLFRAME_TEXT = 3,
}
use stillframe_type_code::*;

/// An attribute. The member that holds the value is that of its type; the others are 0 or NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_attribute {
    pub name: *const c_char,
    pub r#type: stillframe_type,
    /// 0.
    pub reserved: u32,
    pub integer: i64,
    pub real: f64,
    pub text: *const c_char,
}

/// Attributes that a caller gives.
pub fn take(call: &Call, given: &[stillframe_attribute]) -> Result<Attributes, Failure> {
    let mut taken = Attributes::new();
    for attribute in given {
        let name = call.text("attributes.name", attribute.name)?;
        let value = match attribute.r#type {
            code if code == STILLFRAME_BOOL as u32 => Scalar::Bool(attribute.integer != 0),
            code if code == STILLFRAME_INT as u32 => Scalar::Int(attribute.integer),
            code if code == STILLFRAME_FLOAT as u32 => Scalar::Float(attribute.real),
            code if code == STILLFRAME_TEXT as u32 => {
                Scalar::Text(call.text("attributes.text", attribute.text)?.to_string())
            }
            other => return Err(Failure::argument("attributes.type", format!("there is no type {other}"))),
        };
        taken.insert(name.to_string(), value);
    }
    Ok(taken)
}

/// Attributes in the form that C sees, kept for as long as pointers to them may be used.
pub struct Kept {
    all: Vec<(CString, Scalar, CString)>,
}

/// A text for C, which ends where a zero in it would end it there.
pub fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

impl Kept {
    pub fn new(attributes: &Attributes) -> Kept {
        let keep = |(name, value): (&String, &Scalar)| {
            let text = if let Scalar::Text(text) = value { c_text(text) } else { CString::default() };
            (c_text(name), value.clone(), text)
        };
        Kept { all: attributes.iter().map(keep).collect() }
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    pub fn at(&self, index: usize) -> Result<stillframe_attribute, Failure> {
        let Some((name, value, text)) = self.all.get(index) else {
            let why = format!("there are {} attributes, so no number {index}", self.all.len());
            return Err(Failure::argument("index", why));
        };
        let (mut integer, mut real, mut chars) = (0, 0.0, std::ptr::null());
        let code = match value {
            Scalar::Bool(value) => {
                integer = i64::from(*value);
                STILLFRAME_BOOL
            }
            Scalar::Int(value) => {
                integer = *value;
                STILLFRAME_INT
            }
            Scalar::Float(value) => {
                real = *value;
                STILLFRAME_FLOAT
            }
            Scalar::Text(_) => {
                chars = text.as_ptr();
                STILLFRAME_TEXT
            }
        };
        Ok(stillframe_attribute { name: name.as_ptr(), r#type: code as u32, reserved: 0, integer, real, text: chars })
    }

    pub fn named(&self, name: &str) -> Result<stillframe_attribute, Failure> {
        let names = || self.all.iter().map(|(name, _, _)| name.to_string_lossy().into_owned());
        match names().position(|known| known == name) {
            Some(index) => self.at(index),
            None => Err(Failure::unknown_attribute(name, &names().collect::<Vec<_>>())),
        }
    }
}
