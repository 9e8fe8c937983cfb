//! The home of an object: since when it, and no program by itself, says which versions are complete.
//!
//! Programs of one machine without a runtime find out by themselves which versions all writers have. Once a runtime has been there, programs
//! of other nodes may take a writer's place as soon as its node counts as lost, whatever that node's own programs see. So from then
//! on a version is complete where the home of the object says so, which the runtime of each node publishes in a region of its own.

use crate::board::{Entry, LockedBoard};
use crate::error::{Error, Result, Writer};
use crate::member::{Member, Members};
use crate::runtime::{self, Connection, Reply, Request};
use crate::shared::Shared;
use crate::waiting::{self, Deadline, LOOK};

/// Writes on the board, which nobody else changes meanwhile, that the home says from here on what is complete, and what was complete before;
/// whether that was not there yet. `members` are those of the board.
pub(crate) fn follow(shared: &Shared, board: &mut LockedBoard<'_>, members: &mut Members) -> Result<bool> {
    if members.follows.is_some() {
        return Ok(false);
    }
    // Whoever looked at the writers before the board was locked looks again, and whoever looks while it is locked waits, or goes by the
    // claim.
    shared.bell.ring();
    let (_, newest) = waiting::survey(shared, members)?;
    board.claim(newest)?;
    let (_, complete) = waiting::survey(shared, members)?;
    let entry = Entry::Follow { complete };
    board.add(entry.clone())?;
    members.note(shared, vec![entry])?;
    Ok(true)
}

/// The same where this node has a runtime, or had one that may be started again.
pub(crate) fn follow_expected(shared: &Shared, board: &mut LockedBoard<'_>, members: &mut Members) -> Result<bool> {
    Ok(runtime::is_expected(&shared.site.directory)? && follow(shared, board, members)?)
}

/// Waits until the runtime of this node has heard the home of an object, at most so long: one that has just joined others knows the name,
/// and not yet what is complete. Where no runtime answers, what is known here has to do.
pub(crate) fn wait_heard(shared: &Shared, deadline: Deadline) -> Result<()> {
    // Who may only look may not see the file.
    if deadline.left().is_zero() || !runtime::is_running(&shared.site.directory).unwrap_or(false) {
        return Ok(());
    }
    match hear(shared, deadline) {
        Err(error @ Error::Interrupted { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// Makes sure that nobody is known to write an object, and that this node would know of all who do: its board tells of writers of other
/// nodes only once the runtime has heard the object's home. Without a runtime it tells of all.
///
/// # Errors
/// [`Error::InUse`]; [`Error::Unheard`]; [`Error::Removed`]; [`Error::NoRuntime`].
pub(crate) fn check_unused(shared: &Shared, deadline: Deadline) -> Result<()> {
    if !runtime::is_running(&shared.site.directory)? {
        return Ok(());
    }
    // Whoever finds it removed, damaged or in use need not wait for its home.
    let mut members = Members::default();
    members.refresh(shared)?;
    waiting::check_there(shared, &members)?;
    members.check_in_use(shared)?;
    hear(shared, deadline)
}

/// Asks the runtime of this node, which runs, and waits until it has heard the home of an object.
fn hear(shared: &Shared, deadline: Deadline) -> Result<()> {
    let mut connection = Connection::open_within(&shared.site.directory, deadline.left())?;
    connection.send(&Request::Heard { name: shared.name.clone(), id: shared.description.id })?;
    loop {
        shared.check_interrupt()?;
        let left = deadline.left();
        match connection.receive(LOOK.min(left))? {
            Some(Reply::Heard) => return Ok(()),
            Some(Reply::Failed(why)) => return Err(connection.failed(why)),
            Some(other) => return Err(connection.failed(format!("it answered {other:?}"))),
            None if left.is_zero() => {
                return Err(Error::Unheard { name: shared.name.clone(), waited: deadline.waited() });
            }
            None => {}
        }
    }
}

impl Members {
    /// # Errors
    /// [`Error::InUse`] if a writer lives.
    pub(crate) fn check_in_use(&mut self, shared: &Shared) -> Result<()> {
        let standings = self.standings(shared)?;
        let is_living = |(number, member): &(&u32, &Member)| {
            (member.left.is_none() || member.is_kept())
                && standings.get(number).is_some_and(|standing| standing.is_alive)
        };
        match self.list.iter().find(is_living) {
            Some((_, member)) => Err(Error::InUse { name: shared.name.clone(), who: Writer(member.who()).to_string() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
