//! Removing objects: those that nobody writes, by force, and those of which the name or the board cannot be understood.

use crate::board::{Board, LOCKED_MAX};
use crate::error::{Error, Result};
use crate::hints;
use crate::home;
use crate::names::Names;
use crate::names::directory::DirectoryNames;
use crate::object::Object;
use crate::objects::Objects;
use crate::shared::{self, COMPLETE};
use crate::waiting::{self, Deadline, HEARD};
use std::num::NonZeroU64;
use std::time::Duration;

/// What an object has to be for it to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Any,
    /// No writer lives.
    Unused,
    /// The same, and no version was published.
    Unwritten,
}

impl Condition {
    fn of(force: bool) -> Condition {
        if force { Condition::Any } else { Condition::Unused }
    }
}

/// Whether what an object is, or who writes it, cannot be understood.
fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Text { .. } | Error::Refused { .. })
}

impl Objects {
    /// Removes an object with all that was published of it. Who reads a version keeps it until he lets go.
    ///
    /// # Errors
    /// Unless `force`, [`Error::InUse`] while a writer lives, and [`Error::Unheard`] where it is not known whether one does on another
    /// node; [`Error::NoObject`].
    pub fn remove(&self, name: &str, force: bool) -> Result<()> {
        let objects = self.writing()?;
        match objects
            .object_named(name)
            .and_then(|object| objects.remove_whole(&object, Condition::of(force), LOCKED_MAX))
        {
            Err(error) if is_damage(&error) => objects.remove_damaged(name, force, LOCKED_MAX),
            other => other,
        }
    }

    /// As [`remove`](Objects::remove) by force, if the object of that name has this id, for a runtime of which others want something
    /// meanwhile: it waits at most so long for who has the board.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody has the board just now; those of the object's files.
    pub fn remove_id(&self, name: &str, id: NonZeroU64, limit: Duration) -> Result<()> {
        let Some(there) = self.names.get(name)?.filter(|there| there.id == id) else { return Ok(()) };
        match self.object_described(name, &there) {
            Ok(object) => self.remove_object_within(&object, true, limit),
            Err(error) if is_damage(&error) => self.writing()?.remove_damaged(name, true, limit),
            Err(error) => Err(error),
        }
    }

    /// As [`remove`](Objects::remove) this object, and never another one that has its name by now.
    ///
    /// # Errors
    /// As [`remove`](Objects::remove); [`Error::Removed`].
    pub fn remove_object(&self, object: &Object, force: bool) -> Result<()> {
        self.remove_object_within(object, force, LOCKED_MAX)
    }

    fn remove_object_within(&self, object: &Object, force: bool, limit: Duration) -> Result<()> {
        let objects = self.writing()?;
        match objects.remove_whole(object, Condition::of(force), limit) {
            Err(error) if is_damage(&error) => match objects.names.get(object.name())? {
                Some(there) if there.id == object.description().id => {
                    objects.remove_damaged(object.name(), force, limit)
                }
                _ => Err(Error::Removed { name: object.name().into() }),
            },
            other => other,
        }
    }

    /// Removes an object of which the name or the board cannot be understood. Without force from this node alone: who writes it on others
    /// cannot be found out.
    fn remove_damaged(&self, name: &str, force: bool, limit: Duration) -> Result<()> {
        let id = || self.names.get(name).ok().flatten().map(|description| description.id);
        let meant = id();
        let lock = Board::lock_any(&self.site.directory, name, limit)?;
        if meant.is_some() && id() != meant {
            // Somebody else has removed it, and what has the name now is another one.
            return Ok(());
        }
        if !force {
            shared::check_unwritten(&self.site, name)?;
        }
        shared::remove_regions(&self.site, name)?;
        // Before the name: somebody may create the next object of it at once.
        Board::remove_any(&self.site.directory, name)?;
        drop(lock);
        match self.has_own_names && !force {
            true => DirectoryNames::new(self.site.directory.clone(), self.site.bell.clone()).discard(name)?,
            false => self.names.discard(name)?,
        };
        self.site.bell.ring();
        // Of an object of all nodes the runtime of this one puts the name back.
        self.site.hints.give(hints::bit_of(name));
        Ok(())
    }

    /// Removes an object that this program created and could put nothing into, unless somebody else has by now.
    ///
    /// # Errors
    /// As [`remove`](Objects::remove); [`Error::Survives`] if a version was published.
    pub fn remove_unwritten(&self, object: &Object) -> Result<()> {
        self.writing()?.remove_whole(object, Condition::Unwritten, LOCKED_MAX)
    }

    fn remove_whole(&self, object: &Object, condition: Condition, limit: Duration) -> Result<()> {
        let shared = object.shared().writing()?;
        let force = condition == Condition::Any;
        if !force {
            // While the board is locked the runtime could not write there whom it hears of.
            home::check_unused(&shared, Deadline::after(HEARD))?;
        }
        let board = shared.board.lock_within(limit)?;
        let mut members = crate::member::Members::of_locked(&shared, &board)?;
        if !force {
            // Nobody attaches while the board is locked.
            members.check_in_use(&shared)?;
        }
        if condition == Condition::Unwritten {
            let newest = waiting::survey(&shared, &mut members)?.1.max(shared.newest_announced()?);
            if newest > shared.description.initial {
                return Err(Error::Survives { name: shared.name.clone(), newest });
            }
        }
        // Nobody finds it from now on; what is left of it when this process dies here goes with the next object of the name.
        self.names.remove(&shared.name, shared.description.id)?;
        for number in members.list.keys().chain([&COMPLETE]) {
            // What is complete a runtime publishes, which lives and may not have heard yet that the name is gone.
            shared.remove_region(*number, force || *number == COMPLETE)?;
        }
        let removed = shared.board.remove();
        drop(board);
        // Who waits for versions learns that there is no board any more.
        shared.site.bell.ring();
        removed
    }
}
