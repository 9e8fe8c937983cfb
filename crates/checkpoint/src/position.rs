//! Where versions stand among others, to tell how many were left out between two.

use stillframe::{AnySnapshot, Snapshot};

/// A place before or behind a version among those of its region's files, or of each rank's: how many stand before it.
#[derive(Debug, Clone)]
pub(crate) struct Position(Vec<u64>);

impl Position {
    pub fn before(snapshot: &AnySnapshot) -> Position {
        Position(snapshot.ranks().iter().map(Snapshot::sequence).collect())
    }

    pub fn behind(snapshot: &AnySnapshot) -> Position {
        Position(snapshot.ranks().iter().map(|rank| rank.sequence() + 1).collect())
    }

    /// How many versions stand between an earlier place and this one, if both are of one region; at least so many that
    /// all ranks of a group had are not told, at most that many.
    pub fn since(&self, earlier: &Position) -> u64 {
        if self.0.len() != earlier.0.len() {
            return 0;
        }
        let apart = self.0.iter().zip(&earlier.0).map(|(later, earlier)| later.saturating_sub(*earlier));
        apart.min().unwrap_or(0)
    }
}
