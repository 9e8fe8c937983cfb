//! What writers leave behind that detach or die, and when it goes.

use crate::board::{Entry, LockedBoard};
use crate::error::Result;
use crate::member::Members;
use crate::shared::Shared;
use crate::waiting;
use stillframe_kernel::points;

/// Removes what writers left that are gone, as far as no complete version needs it.
pub(crate) fn collect(shared: &Shared, board: &mut LockedBoard<'_>) -> Result<()> {
    let mut members = Members::of_locked(shared, board)?;
    let standings = members.standings(shared)?;
    let ledger = members.ledger_of(shared, &standings)?;
    let newest = waiting::newest_complete(shared, &ledger)?;
    for (number, member) in &members.list {
        let standing = standings.get(number).cloned().unwrap_or_default();
        if standing.is_alive {
            continue;
        }
        // The first version for which it is not needed.
        let own = standing.newest.map_or(member.attached.from, |newest| newest.saturating_add(1));
        let end = member.left.map_or(own, |left| left.min(own));
        // One that never published is not needed at all, once it said that it leaves.
        let is_empty = member.left.is_some_and(|left| left <= member.attached.from)
            || standing.newest.is_none() && member.left.is_some();
        if is_empty || newest >= end {
            points::hit("collect.forget");
            // The region first: one that the board does not tell of any more is removed by nobody.
            shared.remove_region(*number, false)?;
            board.add(Entry::Forget { number: *number })?;
        }
    }
    board.compact()
}
