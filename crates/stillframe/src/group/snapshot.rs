//! Versions of a group, held on all ranks.

use crate::error::Result;
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

    /// Lets go of this version for a later one, and brings what was viewed along on all ranks, as [`Snapshot::advance`] does.
    ///
    /// # Errors
    /// As [`Snapshot::advance`].
    pub fn advance(&mut self, next: GroupSnapshot) -> Result<()> {
        self.ranks.iter().zip(next.ranks.iter()).try_for_each(|(own, next)| next.check_region(own))?;
        // What a clone of this snapshot has stays as it is.
        let mut older = std::mem::replace(self, next);
        let older = Arc::get_mut(&mut older.ranks).into_iter().flatten();
        older.zip(self.ranks.iter()).try_for_each(|(older, next)| older.advance(next.clone()))
    }
}
