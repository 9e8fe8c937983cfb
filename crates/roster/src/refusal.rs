//! Why something that a writer declared does not count.

use drepl::index_box::TooScattered;

use crate::writer::{Elements, Version, Who};

/// Two fragments that have elements in common in one version.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error(
    "{second} and {first} both write {elements} of version {version}: {second} has {second_elements}, {first} has {first_elements}"
)]
pub struct Overlap {
    /// The first version in which both write them.
    pub version: Version,
    /// Who was there before.
    pub first: Who,
    /// What it declared.
    pub first_elements: Elements,
    /// Who came later.
    pub second: Who,
    /// What it declared.
    pub second_elements: Elements,
    /// What both have.
    pub elements: Elements,
}

/// Why a stage of a writer was refused. It is as if the writer had never declared it. Who sends refusals to other nodes has
/// a form for each: so this is no `non_exhaustive` enum, and a new one is not forgotten there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// Another writer has some of the elements.
    #[error(transparent)]
    Overlap(#[from] Box<Overlap>),
    /// A box is not within the object.
    #[error("{part} lies outside of the object, which is {shape}; clip the fragment to it")]
    Outside {
        /// The box.
        part: Elements,
        /// The object.
        shape: Elements,
    },
    /// The change would be one of versions whose roster is fixed.
    #[error(
        "a change from version {from} on comes too late: rosters up to version {settled} are fixed; say a later one"
    )]
    Late {
        /// From when on it was to count.
        from: Version,
        /// The newest version that is fixed.
        settled: Version,
    },
    /// Stages of a writer have to be declared in ascending order.
    #[error("a change from version {from} on was declared after one from version {last} on; say a later one")]
    Order {
        /// From when on it was to count.
        from: Version,
        /// The newest change before.
        last: Version,
    },
    /// The writer's elements are cut into too many boxes to be told apart from others.
    #[error(
        "the fragment's elements lie too scattered to be told apart from those of others; attach fewer or larger boxes"
    )]
    Scattered,
    /// The writer left, died, or was never there.
    #[error("the writer is not a member of the roster; attach a fragment with another serial")]
    Unknown,
    /// A publish of a number that is not above the writer's newest, or for which the writer has no fragment.
    #[error("version {version} cannot be published: it is not above {newest}, or the writer has no fragment in it")]
    NotNext {
        /// The number.
        version: Version,
        /// The writer's newest, or the object's initial version.
        newest: Version,
    },
}

impl From<TooScattered> for Refusal {
    fn from(_: TooScattered) -> Self {
        Self::Scattered
    }
}
