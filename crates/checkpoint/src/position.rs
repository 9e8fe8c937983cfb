//! Where versions stand among others, to tell how many were left out between two.

use stillframe::{AnySnapshot, Snapshot};

/// Where a version stands among those of its region's files, or of each rank's.
#[derive(Debug, Clone)]
pub(crate) struct Position(Vec<u64>);

impl Position {
    pub fn of(snapshot: &AnySnapshot) -> Position {
        Position(snapshot.ranks().iter().map(Snapshot::sequence).collect())
    }

    /// How many versions there were between an older one and this one, if both are of one region; at least so many that
    /// all ranks of a group had are not told, at most that many.
    pub fn since(&self, older: &Position) -> u64 {
        if self.0.len() != older.0.len() {
            return 0;
        }
        let apart = self.0.iter().zip(&older.0).map(|(new, old)| new.saturating_sub(*old + 1));
        apart.min().unwrap_or(0)
    }
}
