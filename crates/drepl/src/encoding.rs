//! Bytes to store or to send, and what they are made of again.

use serde::{Deserialize, Serialize};

/// Why bytes are not what they were taken for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by something else, or by another version of this crate.
    #[error("the bytes are no {what} of this version of drepl: {}", begin(*found, *expected))]
    Format {
        /// What was expected.
        what: &'static str,
        /// The first byte, if there is one.
        found: Option<u8>,
        /// What it should have been.
        expected: u8,
    },
    /// Cut short, altered, or contradicting themselves.
    #[error("the bytes begin as a {what} and are damaged: {why}")]
    Damaged {
        /// What was expected.
        what: &'static str,
        /// What was found to be wrong.
        why: String,
    },
}

fn begin(found: Option<u8>, expected: u8) -> String {
    found.map_or("there are none".into(), |found| format!("they begin with {found}, not with {expected}"))
}

/// The bytes of a value. The first one says what it is, and in which version of its format.
pub(crate) fn encode<T: Serialize>(value: &T, format: u8) -> Vec<u8> {
    // Writing to a Vec fails only for types that postcard cannot write at all, and these are none.
    postcard::to_extend(value, vec![format]).unwrap_or_default()
}

/// The value of bytes that begin with this format.
pub(crate) fn decode<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    expected: u8,
    what: &'static str,
) -> Result<T, DecodeError> {
    match bytes.split_first() {
        Some((format, rest)) if *format == expected => match postcard::take_from_bytes(rest) {
            Ok((value, [])) => Ok(value),
            Ok((_, rest)) => Err(DecodeError::Damaged { what, why: format!("{} bytes follow it", rest.len()) }),
            Err(error) => Err(DecodeError::Damaged { what, why: error.to_string() }),
        },
        _ => Err(DecodeError::Format { what, found: bytes.first().copied(), expected }),
    }
}
