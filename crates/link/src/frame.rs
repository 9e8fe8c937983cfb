//! Heads of frames: a frame is a head, a body and bulk.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | `SFL` and the version of the protocol |
//! | 4 | 2 | kind |
//! | 6 | 2 | zero |
//! | 8 | 4 | bytes of the body |
//! | 12 | 8 | bytes of bulk |
//!
//! Numbers are little-endian. The body follows the head. Where the bulk is, [`Bulk`](crate::bulk) says.

use crate::error::Error;

/// Version of the protocol.
pub const VERSION: u16 = 1;
/// Bytes of a head.
pub const HEAD_BYTES: usize = 20;
/// Bytes of a body at most.
pub const BODY_BYTES_MAX: usize = 16 << 20;
/// Bytes of bulk at most.
pub const BULK_BYTES_MAX: u64 = 1 << 40;

const MAGIC: [u8; 4] = [b'S', b'F', b'L', VERSION as u8];

/// What a frame is, and how much follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What the body is.
    pub kind: u16,
    /// Bytes of the body, at most [`BODY_BYTES_MAX`].
    pub body_bytes: usize,
    /// Bytes of bulk, at most [`BULK_BYTES_MAX`].
    pub bulk_bytes: u64,
}

impl Head {
    /// The head of a frame.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn new(kind: u16, body_bytes: usize, bulk_bytes: u64) -> Result<Head, Error> {
        if body_bytes > BODY_BYTES_MAX {
            let (bytes, max_bytes) = (body_bytes as u64, BODY_BYTES_MAX as u64);
            return Err(Error::TooLarge { part: "body", bytes, max_bytes });
        }
        if bulk_bytes > BULK_BYTES_MAX {
            return Err(Error::TooLarge { part: "bulk", bytes: bulk_bytes, max_bytes: BULK_BYTES_MAX });
        }
        Ok(Head { kind, body_bytes, bulk_bytes })
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.kind.to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.body_bytes as u32).to_le_bytes());
        bytes[12..].copy_from_slice(&self.bulk_bytes.to_le_bytes());
        bytes
    }

    /// A head of bytes that anybody may have sent.
    ///
    /// # Errors
    /// A text that says what is wrong with it.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Head, String> {
        let [m0, m1, m2, version, k0, k1, z0, z1, b0, b1, b2, b3, bulk @ ..] = *bytes;
        if [m0, m1, m2] != MAGIC[..3] {
            return Err(format!("{:02x?} where a frame begins", &bytes[..4]));
        }
        if version != MAGIC[3] {
            return Err(format!("a frame of version {version}"));
        }
        if [z0, z1] != [0, 0] {
            return Err("a head with bits that nobody sets".into());
        }
        let head = Head::new(
            u16::from_le_bytes([k0, k1]),
            u32::from_le_bytes([b0, b1, b2, b3]) as usize,
            u64::from_le_bytes(bulk),
        );
        head.map_err(|error| format!("a head that says too much: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_head_is_read_as_it_was_written(kind: u16, body in 0..=BODY_BYTES_MAX, bulk in 0..=BULK_BYTES_MAX) {
            let head = Head::new(kind, body, bulk).unwrap();
            prop_assert_eq!(Head::decode(&head.encode()), Ok(head));
        }

        #[test]
        fn whatever_comes_is_refused_or_within_the_limits(mut bytes: [u8; HEAD_BYTES], is_begun: bool) {
            if is_begun {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[6..8].fill(0);
            }
            if let Ok(head) = Head::decode(&bytes) {
                prop_assert!(head.body_bytes <= BODY_BYTES_MAX && head.bulk_bytes <= BULK_BYTES_MAX);
                prop_assert_eq!(head.encode(), bytes);
            }
        }
    }

    #[test]
    fn what_is_too_long_is_no_head() {
        assert!(Head::new(0, BODY_BYTES_MAX + 1, 0).unwrap_err().to_string().contains("body"));
        assert!(Head::new(0, 0, BULK_BYTES_MAX + 1).unwrap_err().to_string().contains("bulk"));
    }
}
