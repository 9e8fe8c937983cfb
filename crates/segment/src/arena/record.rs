//! Records of regions, and the offsets inside one.

use super::geometry::Geometry;
use super::layout::*;
use super::name::is_name;
use crate::Corrupt;
use std::ops::Range;

/// State, 4 bytes.
pub const STATE_AT: usize = 0;
/// Generation, 4 bytes: grows with each region that gets the record, and is never 0 for one.
pub const GENERATION_AT: usize = 4;
/// Chunks outside which the region owns nothing, 8 bytes: `end << 32 | first`, 0 for none.
pub const SPAN_AT: usize = 8;
/// Page with the beginning of the region's head, 4 bytes, 0 if there is none.
pub const HEAD_PAGE_AT: usize = 16;
/// Process number of the last producer, 4 bytes; for people only.
pub const PID_AT: usize = 20;
/// Time of creation in nanoseconds since 1970, 8 bytes.
pub const CREATED_NS_AT: usize = 24;
/// Length of the name in bytes, 4 bytes.
pub const NAME_BYTES_AT: usize = 32;
/// The name, 216 bytes.
pub const NAME_AT: usize = 40;

/// State of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No region has it.
    Free,
    /// A region is being made: nobody sees it, and who made it died if nobody has the lock.
    Making,
    /// A region has it.
    Used,
    /// The region was removed, and has its chunks and pages until nobody holds a version of it.
    Removing,
    /// A region has it whose name is just being written.
    Renaming,
}

impl State {
    /// The state of this number, if it is one.
    pub fn decode(word: u32) -> Option<State> {
        let all = [State::Free, State::Making, State::Used, State::Removing, State::Renaming];
        all.into_iter().find(|state| *state as u32 == word)
    }
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whether a region has it.
    pub state: State,
    /// Tells the regions apart that had the record one after the other.
    pub generation: u32,
    /// Page with the beginning of the region's head.
    pub head_page: Option<u32>,
    /// Chunks outside which the region owns nothing.
    pub span: Range<u32>,
    /// Process number of the last producer; for people only.
    pub pid: u32,
    /// Time of creation in nanoseconds since 1970.
    pub created_ns: u64,
    /// Name of the region.
    pub name: String,
}

impl Record {
    /// The record as bytes.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let words = [
            (STATE_AT, self.state as u32),
            (GENERATION_AT, self.generation),
            (HEAD_PAGE_AT, self.head_page.unwrap_or(0)),
            (PID_AT, self.pid),
            (NAME_BYTES_AT, self.name.len() as u32),
        ];
        for (at, word) in words {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[SPAN_AT..SPAN_AT + 8].copy_from_slice(&encode_span(&self.span).to_le_bytes());
        bytes[CREATED_NS_AT..CREATED_NS_AT + 8].copy_from_slice(&self.created_ns.to_le_bytes());
        bytes[NAME_AT..NAME_AT + self.name.len()].copy_from_slice(self.name.as_bytes());
        bytes
    }
}

impl Geometry {
    /// Takes a record apart that says it is in use.
    ///
    /// # Errors
    /// If a number in it makes no sense, or the name is none.
    pub fn decode_record(&self, region: u32, bytes: &[u8; RECORD_BYTES]) -> Result<Record, Corrupt> {
        let word32 = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let word64 = |at: usize| u64::from(word32(at)) | u64::from(word32(at + 4)) << 32;
        let fail = |at: usize, expected: String, found: String| {
            Err(Corrupt::new(FILE, self.record_at(region) + at, expected, found))
        };
        let Some(state) = State::decode(word32(STATE_AT)) else {
            return fail(STATE_AT, "a state from 0 to 4".into(), word32(STATE_AT).to_string());
        };
        let generation = word32(GENERATION_AT);
        if generation == 0 && state != State::Free {
            return fail(GENERATION_AT, "a number above 0".into(), "0".into());
        }
        let head_page = word32(HEAD_PAGE_AT);
        if head_page != 0 && !self.free_chunks().contains(&chunk_of(head_page)) {
            let expected = format!("a page of chunks {:?}", self.free_chunks());
            return fail(HEAD_PAGE_AT, expected, head_page.to_string());
        }
        // A name that is just being written is nobody's.
        let name_bytes = if state == State::Renaming { 0 } else { word32(NAME_BYTES_AT) as usize };
        if name_bytes > NAME_BYTES_MAX {
            return fail(NAME_BYTES_AT, format!("at most {NAME_BYTES_MAX}"), name_bytes.to_string());
        }
        let name = std::str::from_utf8(&bytes[NAME_AT..NAME_AT + name_bytes]).unwrap_or("");
        if !matches!(state, State::Free | State::Renaming) && !is_name(name) {
            return fail(NAME_AT, "a region's name".into(), format!("{name:?}"));
        }
        Ok(Record {
            state,
            generation,
            head_page: (head_page != 0).then_some(head_page),
            span: self.decode_span(region, word64(SPAN_AT))?,
            pid: word32(PID_AT),
            created_ns: word64(CREATED_NS_AT),
            name: name.into(),
        })
    }

    /// The chunks outside which a region owns nothing, found at [`SPAN_AT`] of its record.
    ///
    /// # Errors
    /// If there are no such chunks.
    pub fn decode_span(&self, region: u32, word: u64) -> Result<Range<u32>, Corrupt> {
        let (first, end) = (word as u32, (word >> 32) as u32);
        let all = self.free_chunks();
        if word == 0 || (first < end && all.start <= first && end <= all.end) {
            return Ok(first..end);
        }
        let at = self.record_at(region) + SPAN_AT;
        Err(Corrupt::new(FILE, at, format!("chunks of {} to {}", all.start, all.end), format!("{first} to {end}")))
    }
}

/// The span word of these chunks.
pub const fn encode_span(span: &Range<u32>) -> u64 {
    (span.start as u64) | (span.end as u64) << 32
}
