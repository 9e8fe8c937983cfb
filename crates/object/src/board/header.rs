//! The header of a board.

use crate::directory::random_number;

const MAGIC: [u8; 8] = *b"STLBOARD";
const FORMAT: u64 = 4;
pub(super) const HEADER_BYTES: usize = 64;

/// Where it says how many bytes count.
pub(super) const COUNTS_AT: usize = 24;

/// Where it says which version a claim is about.
pub(super) const CLAIM_AT: usize = 40;

/// What stands there where there is no claim.
const NO_CLAIM: u64 = u64::MAX;

/// The longest board that is read.
pub(super) const BYTES_MAX: u64 = 1 << 30;

/// What the header says, but for what is the same in all boards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) id: u64,
    pub(super) counts: u64,
    pub(super) next: u64,
    pub(super) has_claim: bool,
    pub(super) random: u64,
}

impl Header {
    /// Of a file that is written now.
    pub(super) fn new(id: u64, counts: u64, next: u64) -> Header {
        Header { id, counts, next, has_claim: false, random: random_number() }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Header, String> {
        let word = |at: usize| word(bytes, at);
        if bytes[..8] != MAGIC {
            return Err("it does not begin as a board does".into());
        }
        if word(8) != FORMAT {
            return Err(format!("it is of format {}, and this program reads {FORMAT}", word(8)));
        }
        let has_claim = claim(bytes) != Ok(None);
        let header = Header { id: word(16), counts: word(24), next: word(32), has_claim, random: word(48) };
        if !(HEADER_BYTES as u64..=BYTES_MAX).contains(&header.counts) || header.next > u64::from(u32::MAX) {
            return Err(format!("{} bytes of it, and {} fragments, cannot be", header.counts, header.next));
        }
        Ok(header)
    }

    /// Without a claim.
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[CLAIM_AT..].copy_from_slice(&self.encode_claim(None));
        let words = [(8, FORMAT), (16, self.id), (24, self.counts), (32, self.next)];
        for (at, word) in words {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The bytes from [`CLAIM_AT`] on.
    pub(super) fn encode_claim(&self, claim: Option<u64>) -> [u8; HEADER_BYTES - CLAIM_AT] {
        let claim = claim.unwrap_or(NO_CLAIM);
        let mut bytes = [0; HEADER_BYTES - CLAIM_AT];
        for (bytes, word) in bytes.chunks_mut(8).zip([claim, self.random, !claim]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// The claim in a header, if there is one.
pub(super) fn claim(bytes: &[u8]) -> Result<Option<u64>, String> {
    let word = |at: usize| word(bytes, at);
    let claim = word(CLAIM_AT);
    match claim == !word(CLAIM_AT + 16) {
        true => Ok(Some(claim).filter(|claim| *claim != NO_CLAIM)),
        false => Err("the claim there is half of one and half of another".into()),
    }
}
