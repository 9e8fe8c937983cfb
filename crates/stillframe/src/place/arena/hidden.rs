//! Names that nobody is shown, below which regions are made before they get their own.
//!
//! A region of a hidden name of its own, without a head, is the lock: its producer is whoever works there. A process that is
//! killed leaves what it made; whoever works below hidden names next in the arena removes it.

use super::Arena;
use super::claimed::Claimed;
use crate::error::{Error, Result};
use crate::place::names::{self, hidden_name};
use std::time::Duration;

/// Begins the names of locks.
const LOCK: &str = ".staging/";

/// The hidden name of a region or group, of one process at a time. Dropped, it goes with all that has it.
#[derive(Debug)]
pub(crate) struct HiddenRegions {
    arena: Arena,
    region: String,
    /// The lock, which goes last.
    claimed: Option<Claimed>,
}

impl HiddenRegions {
    /// Begins below the hidden name of a region, or waits until others do not have it any more.
    pub(crate) fn claim(arena: &Arena, region: &str, patience: Duration) -> Result<HiddenRegions> {
        let claimed = arena.claim_any(&format!("{LOCK}{region}"), patience).map_err(|error| match error {
            Error::InUse { .. } => Error::Staged { region: region.into() },
            error => error,
        })?;
        let hidden = HiddenRegions { arena: arena.clone(), region: region.into(), claimed: Some(claimed) };
        hidden.clear()?;
        Ok(hidden)
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The name that what is made has.
    pub(crate) fn name(&self) -> String {
        hidden_name(&self.region)
    }

    /// Removes what is there.
    fn clear(&self) -> Result<()> {
        for (name, number) in self.arena.family(&self.name())? {
            match self.arena.try_claim(&name)? {
                Some(Some(claimed)) => drop(self.arena.remove(claimed)?),
                // A producer of this process goes on without a name, and what it owns is given back after him.
                Some(None) if self.arena.is_produced_here(number) => drop(self.arena.remove_by_force(&name)?),
                Some(None) | None => {}
            }
        }
        Ok(())
    }
}

impl Drop for HiddenRegions {
    fn drop(&mut self) {
        // In a forked child this fails at once: what it has is its parent's.
        let _ = self.clear();
        let _ = self.claimed.take().map(|claimed| self.arena.remove(claimed));
    }
}

impl Arena {
    /// The names that somebody is or was working below, and whether he is dead.
    pub(crate) fn left_over(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for (name, region) in self.regions_and_hidden()? {
            if let Some(staged) = name.strip_prefix(LOCK)
                && !self.leases(&name, &region).is_produced()?
            {
                found.push(staged.to_string());
            }
        }
        Ok(found)
    }

    /// Removes what dead processes left below hidden names.
    pub(crate) fn sweep_hidden(&self) -> Result<()> {
        for name in self.left_over()? {
            match HiddenRegions::claim(self, &name, Duration::ZERO) {
                // Somebody else came first.
                Ok(_) | Err(Error::Staged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Names and numbers of all regions that are shown, in the order of the names.
    pub(crate) fn regions(&self) -> Result<Vec<(String, super::Found)>> {
        let mut regions = self.regions_and_hidden()?;
        regions.retain(|(name, _)| names::region_dir(std::path::Path::new(""), name).is_ok());
        Ok(regions)
    }
}
