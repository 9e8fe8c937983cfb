//! Single values attached to versions and variables.

use serde::{Deserialize, Serialize};

/// A single value: an attribute of a version or of a variable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Json", try_from = "Json")]
pub enum Scalar {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// Text.
    Text(String),
}

/// A scalar in JSON, whose numbers are finite: others are objects, as in `{"float":"NaN"}`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Json {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    NotFinite { float: String },
}

impl From<Scalar> for Json {
    fn from(value: Scalar) -> Json {
        match value {
            Scalar::Bool(value) => Json::Bool(value),
            Scalar::Int(value) => Json::Int(value),
            Scalar::Float(value) if value.is_finite() => Json::Float(value),
            Scalar::Float(value) => Json::NotFinite { float: value.to_string() },
            Scalar::Text(value) => Json::Text(value),
        }
    }
}

impl TryFrom<Json> for Scalar {
    type Error = std::num::ParseFloatError;

    fn try_from(value: Json) -> Result<Scalar, Self::Error> {
        Ok(match value {
            Json::Bool(value) => Scalar::Bool(value),
            Json::Int(value) => Scalar::Int(value),
            Json::Float(value) => Scalar::Float(value),
            Json::Text(value) => Scalar::Text(value),
            Json::NotFinite { float } => Scalar::Float(float.parse()?),
        })
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Bool(value) => write!(f, "{value}"),
            Scalar::Int(value) => write!(f, "{value}"),
            Scalar::Float(value) => write!(f, "{value}"),
            Scalar::Text(value) => write!(f, "{value}"),
        }
    }
}

macro_rules! from {
    ($($kind:ty => $variant:ident),*) => {$(
        impl From<$kind> for Scalar {
            fn from(value: $kind) -> Self {
                Scalar::$variant(value.into())
            }
        }
    )*};
}
from!(bool => Bool, i8 => Int, i16 => Int, i32 => Int, i64 => Int, u8 => Int, u16 => Int, u32 => Int,
      f32 => Float, f64 => Float, &str => Text, String => Text);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_has_no_number_for_is_read_back() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.1, 1.0] {
            let text = serde_json::to_string(&Scalar::Float(value)).unwrap();
            let Scalar::Float(back) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
            assert!(back == value || back.is_nan() && value.is_nan(), "{text}");
        }
        assert!(serde_json::from_str::<Scalar>(r#"{"float":"much"}"#).is_err());
    }
}
