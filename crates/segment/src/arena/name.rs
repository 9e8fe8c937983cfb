//! Names of regions in an arena.

use super::layout::*;
use crate::Corrupt;

/// Where the search for a name begins in the index: CRC-32 (IEEE) of the name, of which the low bits are a bucket's number.
pub fn hash(name: &str) -> u32 {
    crc32fast::hash(name.as_bytes())
}

/// Whether a text can be a region's name in an arena. Who makes regions is stricter.
pub fn is_name(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-~/".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_good)
}

/// A name in the header, as it is written there.
pub fn encode_name(name: &str) -> [u8; NAME_FIELD_BYTES] {
    let mut bytes = [0; NAME_FIELD_BYTES];
    let name = &name.as_bytes()[..name.len().min(NAME_BYTES_MAX)];
    bytes[..4].copy_from_slice(&(name.len() as u32).to_le_bytes());
    bytes[8..8 + name.len()].copy_from_slice(name);
    bytes
}

/// A name in the header, found at `at`.
///
/// # Errors
/// If it is none.
pub fn decode_name(at: usize, bytes: &[u8; NAME_FIELD_BYTES]) -> Result<String, Corrupt> {
    let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    let name = bytes.get(8..).and_then(|rest| rest.get(..length)).unwrap_or(&[]);
    match std::str::from_utf8(name) {
        Ok(name) if is_name(name) => Ok(name.into()),
        _ => Err(Corrupt::new(FILE, at, "a region's name", format!("{:?}", String::from_utf8_lossy(name)))),
    }
}
