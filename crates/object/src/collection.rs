//! What writers leave behind that detach or die, and when it goes.

use crate::board::{Entry, LockedBoard};
use crate::error::Result;
use crate::member::{Member, Members};
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

/// The numbers of what writers left that are gone, as far as no complete version needs it: none will need it any more.
pub(crate) fn find_unneeded(shared: &Shared, board: &mut LockedBoard<'_>) -> Result<Vec<u32>> {
    let mut members = Members::of_locked(shared, board)?;
    let (standings, newest) = waiting::survey(shared, &mut members)?;
    let is_unneeded = |(number, member): &(&u32, &Member)| {
        let standing = standings.get(number).cloned().unwrap_or_default();
        // What other nodes have, their runtimes look after. Who takes its place may still be refused.
        !standing.is_alive
            && !member.is_remote()
            && is_unneeded(member.attached.from, member.left_for_good, standing.newest, newest)
    };
    Ok(members.list.iter().filter(is_unneeded).map(|(number, _)| *number).collect())
}

/// How who removes fragments gets the board in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Whoever has it is waited for.
    Waits,
    /// The entries of what was removed stay where somebody has it, until somebody removes again.
    Passes,
}

/// Removes fragments that nobody needs. To give back much memory takes long, so others may have the board meanwhile.
pub(crate) fn remove(shared: &Shared, unneeded: &[u32], patience: Patience) -> Result<()> {
    let (mut removed, mut failed) = (Vec::new(), None);
    for number in unneeded {
        points::hit("collect.forget");
        // The region first: one that the board does not tell of any more is removed by nobody.
        match shared.remove_region(*number, false) {
            Ok(()) => removed.push(*number),
            // The others are in nobody's way.
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if !removed.is_empty() {
        let board = match patience {
            Patience::Waits => Some(shared.board.lock()?),
            Patience::Passes => shared.board.try_lock()?,
        };
        if let Some(mut board) = board {
            forget(shared, &mut board, &removed)?;
            drop(board);
            shared.bell.ring();
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Takes removed fragments from the board, but for those that somebody else has taken from it meanwhile.
fn forget(shared: &Shared, board: &mut LockedBoard<'_>, removed: &[u32]) -> Result<()> {
    let members = Members::of_locked(shared, board)?;
    for number in removed.iter().filter(|number| members.list.contains_key(number)) {
        board.add(Entry::Forget { number: *number })?;
    }
    board.compact()
}
