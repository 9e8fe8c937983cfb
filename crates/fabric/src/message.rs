//! What two ends say to each other: bytes in, checked values out.
//!
//! Numbers are little-endian. An **address**, inside TLS, before anything else:
//!
//! | bytes | |
//! |---|---|
//! | 1 | version of this form, 1 |
//! | 8, 16 | tag and token of chunks to this side |
//! | 8, 16 | tag and token of grants to this side |
//! | 2, n | address of the endpoint that receives chunks, as libfabric has it |
//! | 2, n | address of the endpoint that sends chunks and receives grants |
//!
//! A **chunk** is a head and bytes of bulk, at most [`CHUNK_BYTES`]:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | number, from 0, each one more than the one before |
//! | 8 | 4 | bytes that follow the head, at least 1 |
//! | 12 | 4 | 1 if it is the last of a frame, else 0 |
//! | 16 | 16 | token |
//!
//! A **grant** says how many chunks may be sent since the begin: a number of 8 bytes and the token, 16 bytes. It never falls, and is
//! at most [`WINDOW`] above the chunks that were sent.
//!
//! Tags and tokens are random, and each side makes up those for what it receives. So a message of somebody else on the network, who
//! has not read them there, goes to no buffer, and one that guesses the tag ends the connection.

use crate::error::Error;

/// Bytes of bulk in a chunk at most.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of a chunk's head.
pub const HEAD_BYTES: usize = 32;
/// Bytes of a grant.
pub const GRANT_BYTES: usize = 24;
/// Chunks that a receiver has room for.
pub const WINDOW: u64 = 16;

const TOKEN_BYTES: usize = 16;
const VERSION: u8 = 1;
/// Bits of a tag that every provider has.
const TAG_BITS: u32 = 48;

/// What messages to an endpoint carry, so that it takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// The tag of messages.
    pub tag: u64,
    /// What they say themselves.
    pub token: [u8; TOKEN_BYTES],
}

impl Pass {
    /// A pass of random bytes.
    pub fn new(random: &[u8; 32]) -> Pass {
        let (tag, rest) = random.split_at(8);
        let mut token = [0; TOKEN_BYTES];
        token.copy_from_slice(&rest[..TOKEN_BYTES]);
        Pass { tag: number(tag) & ((1 << TAG_BITS) - 1), token }
    }

    fn is_shown(&self, token: &[u8]) -> bool {
        // Takes as long wherever it differs.
        let differs = |all: u8, (one, other): (&u8, &u8)| all | (one ^ other);
        token.len() == TOKEN_BYTES && self.token.iter().zip(token).fold(0, differs) == 0
    }
}

/// Up to eight bytes as a number.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Where an end is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// For chunks to it.
    pub chunks: Pass,
    /// For grants to it.
    pub grants: Pass,
    /// The endpoint that receives chunks.
    pub receives: Vec<u8>,
    /// The endpoint that sends chunks.
    pub sends: Vec<u8>,
}

impl Address {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        for pass in [&self.chunks, &self.grants] {
            bytes.extend_from_slice(&pass.tag.to_le_bytes());
            bytes.extend_from_slice(&pass.token);
        }
        for address in [&self.receives, &self.sends] {
            bytes.extend_from_slice(&(address.len() as u16).to_le_bytes());
            bytes.extend_from_slice(address);
        }
        bytes
    }

    /// An address of bytes that anybody may have sent.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn decode(bytes: &[u8]) -> Result<Address, Error> {
        let mut rest = bytes;
        let mut take = |count: usize| {
            let (taken, left) = rest.split_at_checked(count).ok_or(Error::Address { why: "it ends too early" })?;
            rest = left;
            Ok::<&[u8], Error>(taken)
        };
        if take(1)? != [VERSION] {
            return Err(Error::Address { why: "it is of another version" });
        }
        let mut pass = || {
            let tag = number(take(8)?);
            let mut token = [0; TOKEN_BYTES];
            token.copy_from_slice(take(TOKEN_BYTES)?);
            match tag >> TAG_BITS {
                0 => Ok(Pass { tag, token }),
                _ => Err(Error::Address { why: "a tag that nobody makes" }),
            }
        };
        let (chunks, grants) = (pass()?, pass()?);
        let mut address = || {
            let count = number(take(2)?) as usize;
            Ok::<Vec<u8>, Error>(take(count)?.to_vec())
        };
        let (receives, sends) = (address()?, address()?);
        match rest.is_empty() {
            true => Ok(Address { chunks, grants, receives, sends }),
            false => Err(Error::Address { why: "something follows it" }),
        }
    }
}

/// The head of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its number.
    pub number: u64,
    /// Bytes that follow, 1 to [`CHUNK_BYTES`].
    pub bytes: usize,
    /// Whether it is the last of a frame.
    pub is_last: bool,
}

impl Head {
    /// Its bytes.
    pub fn encode(&self, pass: &Pass) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.bytes as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.is_last).to_le_bytes());
        bytes[16..].copy_from_slice(&pass.token);
        bytes
    }

    /// The head of a message that anybody may have sent.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(message: &[u8], pass: &Pass) -> Result<Head, &'static str> {
        let (head, rest) = message.split_at_checked(HEAD_BYTES).ok_or("a chunk without a head")?;
        if !pass.is_shown(&head[16..]) {
            return Err("a chunk without this connection's token");
        }
        let bytes = number(&head[8..12]) as usize;
        if bytes == 0 || bytes > CHUNK_BYTES || bytes != rest.len() {
            return Err("a chunk that lies about its length");
        }
        let is_last = match number(&head[12..16]) {
            0 => false,
            1 => true,
            _ => return Err("a chunk with bits that nobody sets"),
        };
        Ok(Head { number: number(&head[..8]), bytes, is_last })
    }
}

/// The bytes of a grant.
pub fn encode_grant(granted: u64, pass: &Pass) -> [u8; GRANT_BYTES] {
    let mut bytes = [0; GRANT_BYTES];
    bytes[..8].copy_from_slice(&granted.to_le_bytes());
    bytes[8..].copy_from_slice(&pass.token);
    bytes
}

/// A grant that anybody may have sent to somebody who has sent so many chunks, and was granted so many before.
///
/// # Errors
/// What is wrong with it.
pub fn decode_grant(message: &[u8], pass: &Pass, sent: u64, before: u64) -> Result<u64, &'static str> {
    let (count, token) = message.split_at_checked(8).ok_or("a grant that is too short")?;
    if !pass.is_shown(token) {
        return Err("a grant without this connection's token");
    }
    let granted = number(count);
    if granted < before || granted > sent.saturating_add(WINDOW) {
        return Err("a grant of more chunks than anybody has room for, or of fewer than before");
    }
    Ok(granted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const PASS: Pass = Pass { tag: 5, token: [7; TOKEN_BYTES] };

    proptest! {
        #[test]
        fn an_address_is_read_as_it_was_written(
            one: [u8; 32], two: [u8; 32], receives in vec(any::<u8>(), 0..300), sends in vec(any::<u8>(), 0..300),
        ) {
            let address = Address { chunks: Pass::new(&one), grants: Pass::new(&two), receives, sends };
            let bytes = address.encode();
            prop_assert_eq!(Address::decode(&bytes), Ok(address));
            prop_assert!(Address::decode(&bytes[..bytes.len() - 1]).is_err());
        }

        #[test]
        fn what_is_read_of_any_bytes_is_written_as_they_are(mut bytes in vec(any::<u8>(), 0..200), is_begun: bool) {
            if let (true, Some(first)) = (is_begun, bytes.first_mut()) {
                *first = VERSION;
            }
            if let Ok(address) = Address::decode(&bytes) {
                prop_assert_eq!(address.encode(), bytes);
            }
        }

        #[test]
        fn a_chunk_says_its_own_length_or_is_refused(number: u64, bytes in 1..1000_usize, is_last: bool, cut in 0..1040_usize) {
            let head = Head { number, bytes, is_last };
            let mut message = head.encode(&PASS).to_vec();
            message.resize(HEAD_BYTES + bytes, 1);
            prop_assert_eq!(Head::decode(&message, &PASS), Ok(head));
            message.resize(cut, 1);
            prop_assert_eq!(Head::decode(&message, &PASS).is_ok(), cut == HEAD_BYTES + bytes);
        }

        #[test]
        fn no_bytes_grant_more_than_the_window(bytes in vec(any::<u8>(), 0..40), sent in 0..u64::MAX - WINDOW, count: u64) {
            let before = sent;
            for message in [bytes, encode_grant(count, &PASS).to_vec(), encode_grant(sent + count % 40, &PASS).to_vec()] {
                if let Ok(granted) = decode_grant(&message, &PASS, sent, before) {
                    prop_assert!((before..=sent + WINDOW).contains(&granted));
                }
            }
        }
    }

    #[test]
    fn a_message_with_another_token_is_refused() {
        let other = Pass { token: [8; TOKEN_BYTES], ..PASS };
        let mut message = Head { number: 0, bytes: 1, is_last: true }.encode(&PASS).to_vec();
        message.push(1);
        assert!(Head::decode(&message, &other).unwrap_err().contains("token"));
        assert!(decode_grant(&encode_grant(1, &PASS), &other, 0, 0).unwrap_err().contains("token"));
    }
}
