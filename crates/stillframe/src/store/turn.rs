//! Turns: what one process at a time does for a name.

use crate::error::Result;
use crate::place::arena::hidden::HiddenRegions;
use crate::place::hidden::Hidden;
use crate::store::ownership::REMOVAL;
use crate::store::regions::Regions;

/// Kept from others until it is dropped, or its process dies.
pub(crate) enum Turn {
    /// With a hidden directory to work in.
    Directory(Hidden),
    /// With hidden names to work with.
    Arena { _hidden: HiddenRegions },
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
}
