//! What is to be done to make a fragment: which source gives which part, and what nobody has.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    dataset::LeafId,
    encoding::{DecodeError, decode, encode},
    index_box::IndexBox,
    index_set::IndexSet,
    transfer::{self, Transfer},
};

/// How to make a wanted fragment from sources. It names no memory: it can be stored, sent, and carried out elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// Which source gives which elements, sorted by source. Pieces of one part of the wanted fragment share no element.
    pub pieces: Vec<Piece>,
    /// What no source has, one entry per leaf that something is missing of.
    pub missing: Vec<Missing>,
    /// The bytes to move, one transfer per source that gives something, sorted by source.
    pub transfers: Vec<(usize, Transfer)>,
    /// What the leaves of the wanted fragment are called, sorted by leaf.
    pub names: Vec<(LeafId, String)>,
}

/// Elements that one source gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Position of the source in the list or index that was planned with.
    pub source: usize,
    /// The version of the source.
    pub version: u64,
    /// Whose elements they are.
    pub leaf: LeafId,
    /// Which.
    pub elements: IndexBox,
    /// Position of the part of the wanted fragment that they come to lie in.
    pub part: usize,
}

/// Elements that no source has, or none in the wanted versions that can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Whose elements they are.
    pub leaf: LeafId,
    /// What the leaf is called: object and fields, as `mesh.rho`.
    pub name: String,
    /// Which.
    pub elements: IndexSet,
}

/// What one source has to do for a plan: see [`Plan::split`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Position of the source.
    pub source: usize,
    /// The version that the plan was made for.
    pub version: u64,
    /// What it gives.
    pub pieces: Vec<Piece>,
    /// The bytes to move: from the source into the wanted fragment, or in two halves by [`Transfer::pack`] where the
    /// source is and [`Transfer::unpack`] where the wanted fragment is.
    pub transfer: Transfer,
}

/// First bytes of what is stored: kind and version of the format in one number.
const PLAN_FORMAT: u8 = 0x12;
const SHARE_FORMAT: u8 = 0x22;

impl Plan {
    /// Whether every element of the wanted fragment comes from a source.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// What the leaf of a piece is called: object and fields, as `mesh.rho`.
    pub fn name(&self, leaf: LeafId) -> &str {
        let found = self.names.binary_search_by_key(&leaf, |name| name.0);
        found.map_or("", |place| &self.names[place].1)
    }

    /// How many moves there are, and how many blocks of numbers that are converted.
    pub fn steps(&self) -> (usize, usize) {
        let steps = self.transfers.iter().map(|(_, transfer)| (transfer.moves().len(), transfer.conversions().len()));
        steps.fold((0, 0), |(moves, conversions), step| (moves + step.0, conversions + step.1))
    }

    /// The number of bytes that are moved, as [`transfer::moved_bytes`] counts them.
    pub fn moved_bytes(&self) -> u64 {
        transfer::moved_bytes(self.transfers.iter().map(|(_, transfer)| transfer))
    }

    /// One share per source that gives something: to be sent to where the source is, while
    /// [`Transfer::unpack`] of the same share brings what comes back into the wanted fragment.
    pub fn split(self) -> Vec<Share> {
        let mut pieces = self.pieces.into_iter().peekable();
        let shares = self.transfers.into_iter().map(|(source, transfer)| {
            let mut own = Vec::new();
            while let Some(piece) = pieces.next_if(|piece| piece.source <= source) {
                own.push(piece);
            }
            Share { source, version: own.first().map_or(0, |piece: &Piece| piece.version), pieces: own, transfer }
        });
        shares.collect()
    }

    /// Bytes to store or to send.
    pub fn encode(&self) -> Vec<u8> {
        encode(self, PLAN_FORMAT)
    }

    /// The plan that [`encode`](Self::encode) was called on.
    ///
    /// # Errors
    ///
    /// Bytes of any other origin are refused where they contradict themselves. That no transfer leaves the buffers it
    /// is carried out on is checked when it is.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let plan: Self = decode(bytes, PLAN_FORMAT, "plan")?;
        let sorted = plan.pieces.is_sorted_by_key(|piece| piece.source)
            && plan.names.is_sorted_by(|a, b| a.0 < b.0)
            && plan.transfers.is_sorted_by(|a, b| a.0 < b.0);
        let known = |source: &usize| plan.transfers.binary_search_by_key(source, |(own, _)| *own).is_ok();
        if sorted && plan.pieces.iter().all(|piece| known(&piece.source)) {
            return Ok(plan);
        }
        let why = "its pieces do not belong to its transfers".to_owned();
        Err(DecodeError::Damaged { what: "plan", why })
    }
}

impl Share {
    /// Bytes to store or to send.
    pub fn encode(&self) -> Vec<u8> {
        encode(self, SHARE_FORMAT)
    }

    /// The share that [`encode`](Self::encode) was called on; for errors see [`Plan::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let share: Self = decode(bytes, SHARE_FORMAT, "share of a plan")?;
        if share.pieces.iter().all(|piece| piece.source == share.source && piece.version == share.version) {
            return Ok(share);
        }
        Err(DecodeError::Damaged { what: "share of a plan", why: "its pieces are of several sources".to_owned() })
    }
}

/// What is missing, as `grid[0..16, 32..63 step 2]`, boxes separated by commas.
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, elements) in self.elements.boxes().iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{}", Elements { name: &self.name, elements })?;
        }
        Ok(())
    }
}

/// `grid[0..16, 32..63 step 2]`, and `time` for a scalar.
struct Elements<'a> {
    name: &'a str,
    elements: &'a IndexBox,
}

impl fmt::Display for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.elements.rank() {
            0 => f.write_str(self.name),
            _ => write!(f, "{}[{}]", self.name, self.elements),
        }
    }
}

/// One line per piece, per source, and for what is missing:
///
/// ```text
/// source 3, version 7: grid[0..16, 32..48]  (256 elements)
/// missing: grid[16..32, 32..48]  (256 elements)
/// 256 of 512 elements from 1 source, 2048 bytes in 1 move
/// ```
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            let what = Elements { name: self.name(piece.leaf), elements: &piece.elements };
            let count = Amount(piece.elements.count().into(), "element");
            writeln!(f, "source {}, version {}: {what}  ({count})", piece.source, piece.version)?;
        }
        for missing in &self.missing {
            for elements in missing.elements.boxes() {
                let count = Amount(elements.count().into(), "element");
                writeln!(f, "missing: {}  ({count})", Elements { name: &missing.name, elements })?;
            }
        }
        let found: u128 = self.pieces.iter().map(|piece| u128::from(piece.elements.count())).sum();
        let missing: u128 = self.missing.iter().map(|missing| missing.elements.count()).sum();
        let (moves, conversions) = self.steps();
        write!(
            f,
            "{found} of {} from {}, {} in {}",
            Amount(found + missing, "element"),
            Amount(self.transfers.len() as u128, "source"),
            Amount(self.moved_bytes().into(), "byte"),
            Amount(moves as u128, "move"),
        )?;
        if conversions > 0 { write!(f, " and {}", Amount(conversions as u128, "conversion")) } else { Ok(()) }
    }
}

struct Amount(u128, &'static str);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}
