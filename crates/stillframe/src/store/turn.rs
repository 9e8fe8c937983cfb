//! Turns: what one process at a time does for a name.

use crate::error::{Error, Result};
use crate::place::arena::hidden::HiddenRegions;
use crate::place::hidden::Hidden;
use crate::store::ownership::REMOVAL;
use crate::store::regions::Regions;
use stillframe_kernel::fork::Unforked;

/// Kept from others until it is dropped, or its process dies.
pub(crate) enum Turn {
    /// With a hidden directory to work in.
    Directory(Hidden),
    /// With hidden names to work with.
    Arena { _hidden: HiddenRegions },
    /// Of an arena, with nothing.
    Unnamed { _lock: Unforked },
}

impl Turn {
    /// Waits for the turn, while others have it.
    ///
    /// # Errors
    /// `Staged` if somebody has it for longer than anything takes that is done in one.
    pub(crate) fn take(regions: &Regions, name: &str) -> Result<Turn> {
        Ok(match regions {
            Regions::Directory(root) => Turn::Directory(Hidden::claim(root, name, REMOVAL)?),
            Regions::Arena { arena, .. } => Turn::Arena { _hidden: HiddenRegions::claim(arena, name, REMOVAL)? },
        })
    }

    /// As [`take`](Turn::take), for what needs no names. In an arena it takes no room then, and others have the turn for no name
    /// meanwhile.
    ///
    /// # Errors
    /// As [`take`](Turn::take).
    pub(crate) fn take_unnamed(regions: &Regions, name: &str) -> Result<Turn> {
        let Regions::Arena { arena, .. } = regions else { return Turn::take(regions, name) };
        let lock = arena.lock_beginnings(REMOVAL)?;
        lock.map(|lock| Turn::Unnamed { _lock: lock }).ok_or_else(|| Error::Staged { region: name.into() })
    }
}
