//! What a write to one fragment does to the others that hold the same elements.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use crate::{
    dataset::LeafId,
    fragment::{Fragment, Repeated},
    index::Index,
    index_box::{BOXES_MAX, IndexBox, TooScattered},
    index_set::IndexSet,
    plan::{Piece, Plan},
    planner::{self, PlanError, Source},
    transfer::TransferError,
    tree::each_overlap,
};

/// A fragment among those that are kept equal.
#[derive(Debug, Clone)]
pub struct Participant {
    /// What it holds, and where.
    pub fragment: Arc<Fragment>,
    /// Whether its bytes are stored. What is not is converted when it is read, so no write has to refresh it.
    pub materialised: bool,
    /// Whether it only receives: it is refreshed, but nothing may be written to it.
    pub readonly: bool,
}

/// Which elements of a fragment were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// All of them.
    All,
    /// Those of a leaf, as far as they lie in the fragment.
    Elements(LeafId, IndexSet),
    /// Those with a byte in a range, in bytes from the beginning of the fragment.
    Bytes(Range<u64>),
}

/// What refreshes one participant after a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// Position of the participant.
    pub destination: usize,
    /// From the participant that was written to, which is the only source. Nothing is missing: what was not written is
    /// left as it is.
    pub plan: Plan,
}

/// Elements that two fragments hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// Position of one fragment, and of the part that holds them.
    pub first: (usize, usize),
    /// Position of the other, which is never the same one, and of its part.
    pub second: (usize, usize),
    /// Whose elements they are.
    pub leaf: LeafId,
    /// Which.
    pub elements: IndexBox,
}

/// Why a write is refused, or why participants are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// No participant at the position.
    #[error("there is no participant {position}: there are {participants}")]
    NoSuchParticipant {
        /// What was named.
        position: usize,
        /// How many there are.
        participants: usize,
    },
    /// Written to what only receives.
    #[error("participant {position} is readonly: write to a fragment that holds the same elements and is not")]
    Readonly {
        /// Position of the participant.
        position: usize,
    },
    /// A fragment that can be written to holds an element at two places.
    #[error(
        "participant {position} holds elements [{}] twice, in its parts {} and {}: make it readonly, or narrow one",
        repeated.elements, repeated.first, repeated.second
    )]
    Repeated {
        /// Position of the participant.
        position: usize,
        /// Which elements, and where they lie.
        repeated: Box<Repeated>,
    },
    /// Fragments of several datasets, or too many boxes.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl From<TooScattered> for UpdateError {
    fn from(error: TooScattered) -> Self {
        Self::Plan(error.into())
    }
}

impl From<TransferError> for UpdateError {
    fn from(error: TransferError) -> Self {
        Self::Plan(error.into())
    }
}

/// Fragments that are kept equal where they hold the same elements.
#[derive(Debug)]
pub struct Updates {
    participants: Vec<Participant>,
    /// The materialised ones, at the same positions.
    materialised: Index,
    /// The participant at each position of the index.
    positions: Vec<usize>,
}

impl Updates {
    /// Participants, whose positions in the list name them.
    ///
    /// # Errors
    ///
    /// All have to be of one dataset, and those that are not readonly hold each element once: a write to one of two
    /// places would leave open which of them counts.
    pub fn new(participants: Vec<Participant>) -> Result<Self, UpdateError> {
        let mut materialised = Vec::new();
        let mut positions = Vec::new();
        for (position, participant) in participants.iter().enumerate() {
            if !planner::same_dataset(participant.fragment.dataset(), participants[0].fragment.dataset()) {
                return Err(PlanError::Dataset { position: Some(position) }.into());
            }
            if !participant.readonly
                && let Some(repeated) = participant.fragment.repeated()
            {
                return Err(UpdateError::Repeated { position, repeated: Box::new(repeated) });
            }
            if participant.materialised {
                let fragment = participant.fragment.clone();
                materialised.push(Source { fragment, version: 0, cost: 0, readable: true });
                positions.push(position);
            }
        }
        Ok(Self { participants, materialised: Index::new(materialised)?, positions })
    }

    /// The participants.
    pub fn participants(&self) -> &[Participant] {
        &self.participants
    }

    /// What a write to a participant requires: an update for each other one that is materialised and holds elements that
    /// were written, sorted by position. They may be carried out in any order, or at the same time.
    ///
    /// # Errors
    ///
    /// The participant has to be there, and not to be readonly.
    pub fn write(&self, writer: usize, written: &Written) -> Result<Vec<Update>, UpdateError> {
        let participants = self.participants.len();
        let participant =
            self.participants.get(writer).ok_or(UpdateError::NoSuchParticipant { position: writer, participants })?;
        if participant.readonly {
            return Err(UpdateError::Readonly { position: writer });
        }
        let fragment = &participant.fragment;
        let dataset = fragment.dataset();
        let mut found = Vec::new();
        for (number, written) in elements(fragment, written)? {
            let own = &fragment.parts()[number];
            self.materialised.overlapping(own.leaf, &written, |place, source, part| {
                let destination = self.positions[place];
                let other = &source.fragment.parts()[part];
                if destination != writer
                    && let Some(elements) = written.intersection(&other.elements)
                {
                    let one = planner::carry(&elements, own, other);
                    let piece = Piece { source: writer, version: 0, leaf: own.leaf, elements, part };
                    found.push((destination, piece, one));
                }
            });
            if found.len() > BOXES_MAX {
                return Err(TooScattered.into());
            }
        }
        found.sort_by_key(|(destination, ..)| *destination);
        let mut updates: Vec<Update> = Vec::new();
        let mut rest = found.into_iter().peekable();
        while let Some((destination, ..)) = rest.peek() {
            let destination = *destination;
            let (mut pieces, mut carried) = (Vec::new(), Vec::new());
            while let Some((_, piece, one)) = rest.next_if(|(other, ..)| *other == destination) {
                pieces.push(piece);
                carried.push((writer, one));
            }
            let transfers = planner::transfers(carried)?;
            let mut leaves: Vec<LeafId> = pieces.iter().map(|piece| piece.leaf).collect();
            leaves.sort_unstable();
            leaves.dedup();
            let names = leaves.into_iter().map(|leaf| (leaf, dataset.leaf_name(leaf))).collect();
            let plan = Plan { pieces, missing: Vec::new(), transfers, names };
            updates.push(Update { destination, plan });
        }
        Ok(updates)
    }
}

/// What was written, as elements of the fragment's parts.
fn elements(fragment: &Fragment, written: &Written) -> Result<Vec<(usize, IndexBox)>, TooScattered> {
    match written {
        Written::All => {
            let parts = fragment.parts().iter().enumerate();
            Ok(parts.map(|(number, part)| (number, part.elements.clone())).collect())
        }
        Written::Bytes(bytes) => Ok(fragment.touched(bytes.clone())),
        Written::Elements(leaf, set) => {
            let (first, parts) = fragment.parts_of(*leaf);
            let mut found = Vec::new();
            for (number, part) in parts.iter().enumerate() {
                found.extend(
                    set.boxes().iter().filter_map(|one| Some((first + number, one.intersection(&part.elements)?))),
                );
                if found.len() > BOXES_MAX {
                    return Err(TooScattered);
                }
            }
            Ok(found)
        }
    }
}

/// The elements that more than one of the fragments holds: where several processes write at once, each element must have
/// one writer. Elements that one fragment holds twice are [`Fragment::repeated`].
///
/// # Errors
///
/// All have to be of one dataset; more than [`BOXES_MAX`] overlaps are not listed.
pub fn overlaps(fragments: &[&Fragment]) -> Result<Vec<Overlap>, PlanError> {
    let mut leaves: BTreeMap<LeafId, Vec<(usize, usize)>> = BTreeMap::new();
    for (position, fragment) in fragments.iter().enumerate() {
        if !planner::same_dataset(fragment.dataset(), fragments[0].dataset()) {
            return Err(PlanError::Dataset { position: Some(position) });
        }
        for (number, part) in fragment.parts().iter().enumerate() {
            leaves.entry(part.leaf).or_default().push((position, number));
        }
    }
    let mut found = Vec::new();
    for (leaf, parts) in leaves {
        let boxes: Vec<&IndexBox> =
            parts.iter().map(|(own, number)| &fragments[*own].parts()[*number].elements).collect();
        each_overlap(&boxes, |i, j, elements| {
            let (first, second) = (parts[i], parts[j]);
            if first.0 != second.0 {
                found.push(Overlap { first, second, leaf, elements });
            }
            if found.len() > BOXES_MAX { Err(TooScattered) } else { Ok(()) }
        })?;
    }
    found.sort_by_key(|overlap| (overlap.first, overlap.second));
    Ok(found)
}
