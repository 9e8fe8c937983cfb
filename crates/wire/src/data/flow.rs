//! Versions that are sent, and how far.

use stillframe_roster::{
    readiness::Cause,
    writer::{Version, Who},
};

use crate::item::records;

records! {
    /// Bytes of a version: those of the frame's bulk.
    Piece, 28 {
        /// For which subscription.
        subscription: u64,
        /// Of which version.
        version: Version,
        /// Of which share of its sources, from 0 on.
        share: u32,
        /// Where the bytes begin in the share, in bytes.
        offset: u64,
    }

    /// All bytes of a version were sent.
    Sent, 24 {
        /// For which subscription.
        subscription: u64,
        /// Which version.
        version: Version,
        /// When it was published, in nanoseconds since 1970.
        published_ns: u64,
    }

    /// Bytes of a version that are as in the one that the fragment [has](super::Subscribe::has): a piece without its bytes.
    Unchanged, 36 {
        /// For which subscription.
        subscription: u64,
        /// Of which version.
        version: Version,
        /// Of which share of its sources, from 0 on.
        share: u32,
        /// Where they begin in the share, in bytes.
        offset: u64,
        /// How many there are.
        bytes: u64,
    }

    /// A version cannot be had. Others may be.
    Lost, 18 {
        /// Of which subscription.
        subscription: u64,
        /// Which version.
        version: Version,
        /// Why.
        cause: Cause,
        /// Because of whom, if anybody.
        who: Option<Who>,
    }
}
