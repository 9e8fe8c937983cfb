//! Versions of a group, held on all ranks.

use crate::observer::snapshot::Snapshot;
use std::num::NonZeroU64;
use std::sync::Arc;

/// The same version of all ranks of a group, held on all of them. Cloning shares the holds.
#[derive(Debug, Clone)]
pub struct GroupSnapshot {
    pub(super) version: u64,
    pub(super) ranks: Arc<[Snapshot]>,
}

impl GroupSnapshot {
    /// The producers' number of the version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The run that published the version on all ranks; `None` if a producer did that knew of no runs.
    pub fn run(&self) -> Option<NonZeroU64> {
        self.ranks.first().and_then(Snapshot::run)
    }

    /// The name of the group.
    pub fn name(&self) -> &str {
        // Its ranks are regions called `group/rank`.
        let rank = self.ranks.first().map_or("", Snapshot::region);
        rank.rsplit_once('/').map_or(rank, |(name, _)| name)
    }

    /// The snapshots of all ranks, in order.
    pub fn ranks(&self) -> &[Snapshot] {
        &self.ranks
    }

    /// The snapshot of a rank.
    ///
    /// # Panics
    /// If the group does not have so many.
    pub fn rank(&self, rank: usize) -> &Snapshot {
        &self.ranks[rank]
    }
}
