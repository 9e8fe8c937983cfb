//! What writers leave behind that detach or die, and when it goes.

use crate::board::{Entry, LockedBoard};
use crate::error::Result;
use crate::member::Members;
use crate::shared::Shared;
use crate::waiting;
use stillframe_kernel::points;
use stillframe_roster::writer::Version;

/// Whether no version from the newest complete one on needs anything of a writer that is gone, by the first version that it
/// was to write, the one from which on it left, and its newest.
pub(crate) fn is_unneeded(from: Version, left: Option<Version>, newest: Option<Version>, complete: Version) -> bool {
    // The first version for which it is not needed.
    let own = newest.map_or(from, |newest| newest.saturating_add(1));
    let end = left.map_or(own, |left| left.min(own));
    // One that never published is not needed at all, once it said that it leaves.
    let is_empty = left.is_some_and(|left| left <= from || newest.is_none());
    is_empty || complete >= end
}

/// Removes what writers left that are gone, as far as no complete version needs it.
pub(crate) fn collect(shared: &Shared, board: &mut LockedBoard<'_>) -> Result<()> {
    let mut members = Members::of_locked(shared, board)?;
    let (standings, newest) = waiting::survey(shared, &mut members)?;
    let mut failed = None;
    for (number, member) in &members.list {
        let standing = standings.get(number).cloned().unwrap_or_default();
        // What other nodes have, their runtimes look after.
        if standing.is_alive || member.is_remote() {
            continue;
        }
        // Who takes its place may still be refused.
        if is_unneeded(member.attached.from, member.left_for_good, standing.newest, newest) {
            points::hit("collect.forget");
            // The region first: one that the board does not tell of any more is removed by nobody.
            match shared.remove_region(*number, false) {
                Ok(()) => board.add(Entry::Forget { number: *number })?,
                // The others are in nobody's way.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
    }
    board.compact()?;
    failed.map_or(Ok(()), Err)
}
