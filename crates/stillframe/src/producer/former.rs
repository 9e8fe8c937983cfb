//! Groups of an arena that are set aside while one with another number of ranks begins under their name.
//!
//! Whoever recovers with another number of ranks reads the run before until the new one has published. Until then it keeps
//! its regions under a name that nobody is shown, from which they come back should the new run die first.

use crate::error::{Error, Result};
use crate::group::Group;
use crate::inspect::removal::remove_from;
use crate::observer::Observer;
use crate::observer::options::ObserverOptions;
use crate::place::arena::Arena;
use crate::place::names;
use crate::producer::options::RegionOptions;
use crate::store::regions::Regions;
use stillframe_protocol::Leases;
use stillframe_segment::head;

/// The group of the run before, of a name that leads into an arena.
#[derive(Debug, Clone)]
pub struct FormerGroup {
    arena: Arena,
    prefix: String,
    name: String,
}

impl FormerGroup {
    /// Of the group that the options would make a rank of; `None` if the name leads into no arena.
    ///
    /// # Errors
    /// Those of opening the arena.
    pub fn of(options: &RegionOptions, name: &str) -> Result<Option<FormerGroup>> {
        let (options, name) = options.resolve(name)?;
        let prefix = options.prefix.clone().unwrap_or_default();
        Ok(options.arena.map(|arena| FormerGroup { arena, prefix, name }))
    }

    fn regions(&self) -> Regions {
        Regions::Arena { arena: self.arena.clone(), prefix: self.prefix.clone() }
    }

    fn hidden(&self) -> String {
        names::former_name(&self.name)
    }

    /// Sets the group aside, in one step. What was set aside before goes.
    ///
    /// # Errors
    /// [`Error::InUse`] if a rank has a producer.
    pub fn set_aside(&self) -> Result<()> {
        self.rename(&self.name, &self.hidden())
    }

    /// Brings the group that was set aside back, in one step. What began under its name goes.
    ///
    /// # Errors
    /// As [`set_aside`](FormerGroup::set_aside).
    pub fn bring_back(&self) -> Result<()> {
        self.rename(&self.hidden(), &self.name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let regions = self.regions();
        let (moved, replaced) = (regions.lock_all(from)?, regions.lock_all(to)?);
        regions.rename(from, to, moved, replaced)
    }

    /// Removes what was set aside, if anything was.
    ///
    /// # Errors
    /// Environment.
    pub fn remove(&self) -> Result<()> {
        match remove_from(&self.regions(), &self.hidden(), false) {
            Ok(_) | Err(Error::NoRegion { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Opens what was set aside.
    ///
    /// # Errors
    /// As [`GroupOptions::open`](crate::GroupOptions::open).
    pub fn open(&self) -> Result<Group> {
        let observer = ObserverOptions { is_former: true, ..Observer::options().arena(&self.arena) };
        Group::options_of(&observer).open(&self.name)
    }

    /// Bytes of memory behind what was set aside.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the arena is damaged.
    pub fn allocated_bytes(&self) -> Result<u64> {
        self.arena.family(&self.hidden())?.iter().try_fold(0, |bytes, (name, _)| {
            let found = self.arena.find(name)?;
            Ok(bytes + found.map_or(Ok(0), |found| self.arena.bytes_of(&found))?)
        })
    }

    /// Whether somebody holds a version of what was set aside.
    ///
    /// # Errors
    /// As [`allocated_bytes`](FormerGroup::allocated_bytes).
    pub fn is_held(&self) -> Result<bool> {
        for (name, _) in self.arena.family(&self.hidden())? {
            let Some(found) = self.arena.find(&name)? else { continue };
            let leases = self.arena.leases(&name, &found);
            for slot in 0..head::SLOTS {
                if leases.is_held(slot)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
