//! Removing regions.
//!
//! The name is free at once. What the region owns is given back when nobody holds a version of it any more: who looks takes
//! a lease and then asks whether the region is still there; who removes says that it is not, and then asks for leases. So one
//! of them sees the other. Where somebody still holds a version, whoever makes or removes a region later, or finds the arena
//! full, gives back what is left; so it is when who removes one dies.

use super::claimed::Claimed;
use super::filling::keep_unfilled;
use super::records::{Changes, Found};
use super::{Arena, Shared};
use crate::error::{Error, Result};
use crate::place::directory::Directory;
use std::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};
use std::sync::atomic::fence;
use std::time::{Duration, Instant};
use stillframe_kernel::points;
use stillframe_segment::arena::{self, State};
use stillframe_segment::lease;

/// Shortest time between two looks at all records for what is left of removed regions, as long as there is room.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

impl Arena {
    /// Removes a region: nobody finds it any more, and what it owns is given back, at once or when the last version of it is
    /// let go. Returns whether that was at once.
    pub(crate) fn remove(&self, claimed: Claimed) -> Result<bool> {
        let (shared, region) = (claimed.shared(), claimed.number());
        points::hit("arena.remove.begin");
        shared.change(|changes| {
            shared.sweep_now_and_then(changes)?;
            shared.with_pending(region, || shared.take_name(region))
        })?;
        points::hit("arena.remove.unlisted");
        self.give_back_removed(claimed)
    }

    /// Takes the name of a region away, if it is still there, whatever has that name by now.
    pub(crate) fn take_name(&self, own: &Found) -> Result<()> {
        let shared = &self.shared;
        shared.change(|_| match shared.is_current(own.number, own.generation) {
            true => shared.with_pending(own.number, || shared.take_name(own.number)),
            false => Ok(()),
        })
    }

    /// Gives back what a region owns whose name was taken, unless somebody has its producer's lock or holds a version of it:
    /// then others do that later.
    pub(crate) fn give_back_unnamed(&self, own: &Found) -> Result<bool> {
        let shared = &self.shared;
        if !shared.try_produce(own.number)? {
            return Ok(false);
        }
        let claimed = Claimed::new(shared, "", own.number, own.generation);
        match shared.state(own.number) == Some(State::Removing) && shared.generation(own.number) == own.generation {
            true => self.give_back_removed(claimed),
            false => Ok(false),
        }
    }

    /// Takes a region's name away though somebody produces it. He goes on in what it owns, which is given back after him.
    /// `false` if there is none.
    pub(crate) fn remove_by_force(&self, name: &str) -> Result<bool> {
        let shared = &self.shared;
        shared.change(|_| {
            let Some((region, _)) = shared.look_up(name)? else { return Ok(false) };
            shared.with_pending(region, || shared.take_name(region))?;
            Ok(true)
        })
    }

    /// Gives back what a region owns that has no name any more, at once or when the last version of it is let go. Returns
    /// whether that was at once.
    pub(super) fn give_back_removed(&self, mut claimed: Claimed) -> Result<bool> {
        let (shared, region) = (claimed.shared().clone(), claimed.number());
        let is_done = shared.give_back_all(region)?;
        if is_done {
            shared.change(|_| {
                shared.free(region);
                // Who looks for a free record finds it so, or not at all.
                claimed.end();
                Ok(())
            })?;
        }
        drop(claimed);
        points::hit("arena.remove.done");
        Ok(is_done)
    }

    /// Removes the arena with all its regions, unless one of them has a producer, or somebody fills it just now; with `force` also
    /// then. Who has it open keeps what he holds and goes on in files that nobody else can open, and makes no further region there.
    /// Returns the bytes that go when it is closed everywhere.
    ///
    /// # Errors
    /// [`Error::InUse`] if a producer lives, or who fills it.
    pub(crate) fn remove_whole(&self, root: &Directory, force: bool) -> Result<u64> {
        self.remove_if(root, force, |_| true).map(|removed| removed.unwrap_or(0))
    }

    /// As [`remove_whole`](Arena::remove_whole), unless it has all its memory: `None` if it has. It is this arena, and not another
    /// that got its name meanwhile.
    ///
    /// # Errors
    /// As of that; [`Error::NoArena`] if it was removed.
    pub(crate) fn remove_unfilled(&self, root: &Directory) -> Result<Option<u64>> {
        self.remove_if(root, false, |directory| !directory.has(arena::FILLED))
    }

    fn remove_if(
        &self,
        root: &Directory,
        force: bool,
        is_wanted: impl FnOnce(&Directory) -> bool,
    ) -> Result<Option<u64>> {
        let shared = &self.shared;
        let missing = || Error::NoRegion { region: self.name().into(), dir: root.path().into() };
        let directory = shared.directory().ok_or_else(missing)?;
        // Nobody makes a region meanwhile.
        shared.change(|_| {
            // Nor fills what others left.
            let kept = keep_unfilled(directory)?;
            if kept.is_none() && !force {
                let pid = shared.map.word32(arena::CREATOR_PID_AT).load(Acquire);
                return Err(Error::in_use(self.name(), pid));
            }
            if !is_wanted(directory) {
                return Ok(None);
            }
            let mut locked = Vec::new();
            for (name, found) in self.regions_and_hidden()?.into_iter().filter(|_| !force) {
                if !shared.try_produce(found.number)? {
                    let pid = shared.record(found.number)?.map_or(0, |record| record.pid);
                    return Err(Error::in_use(format!("{}/{name}", self.name()), pid));
                }
                // Nor begins to produce one that is there.
                locked.push(Claimed::new(shared, &name, found.number, found.generation));
            }
            Arena::remove_files(root, directory, self.name()).map(Some)
        })
    }

    /// Removes the files of an arena and its directory, of which what else somebody put there stays. Returns the bytes that
    /// they take.
    pub(crate) fn remove_files(root: &Directory, directory: &Directory, name: &str) -> Result<u64> {
        let bytes = directory.about(arena::FILE).map_or(0, |about| about.allocated_bytes);
        // The arena goes in one step: without this file there is none.
        directory.unlink(arena::FILE)?;
        points::hit("arena.remove.unlinked");
        for name in [arena::FILLED, arena::FILLING] {
            directory.unlink(name)?;
        }
        // The file whose lock the caller has goes last: as long as it has its name, nobody makes another arena here, of which the
        // files would go, too.
        let mut locks: Vec<String> = directory.texts().into_iter().filter(|name| arena::is_lease_file(name)).collect();
        locks.sort_by_key(|name| name == lease::PRODUCER_FILE);
        for name in locks {
            directory.unlink(&name)?;
        }
        root.remove_empty(name)?;
        Ok(bytes)
    }

    /// Gives back what is left of removed regions that nobody holds any more. Returns of how many.
    pub(crate) fn collect(&self) -> Result<usize> {
        self.shared.sweep()
    }
}

impl Shared {
    /// Says that a region was removed: nobody finds it any more. The caller has the creation lock.
    pub(super) fn take_name(&self, region: u32) -> Result<()> {
        self.map.word32(arena::REMOVING_AT).fetch_add(1, AcqRel);
        self.set_state(region, State::Removing);
        points::hit("arena.remove.marked");
        self.unlist(region)
    }

    /// Gives back all that a removed region owns, unless somebody holds a version of it. The caller has its producer's lock.
    fn give_back_all(&self, region: u32) -> Result<bool> {
        fence(SeqCst);
        if self.is_any_held(region)? {
            return Ok(false);
        }
        let owned = self.owned(region)?;
        for pages in owned.pages {
            // A run may go on in the next chunk, and is checked before any of it is given back.
            self.give_back_pages(region, pages)?;
        }
        owned.chunks.into_iter().flatten().try_for_each(|chunk| self.give_back_chunk(region, chunk))?;
        points::hit("arena.remove.given");
        Ok(true)
    }

    /// Makes the record of a removed region free, that owns nothing. The caller has the creation lock and the producer's.
    fn free(&self, region: u32) {
        let removing = self.map.word32(arena::REMOVING_AT);
        // Too low a hint is mended when the arena is full, too high a one would cost a search now and then for ever.
        let _ = removing.fetch_update(AcqRel, Acquire, |count| count.checked_sub(1));
        // Who died when he had marked it, to put another in its place, left it in the index.
        let _ = self.unlist(region);
        self.set_span(region, &(0..0));
        self.set_state(region, State::Free);
    }

    /// Gives back what is left of removed regions that nobody holds any more. Returns of how many.
    fn sweep(&self) -> Result<usize> {
        self.change(|_| self.sweep_changing())
    }

    /// As `sweep`, for who finds no room: where another process is just changing records, however long, it does nothing.
    pub(super) fn sweep_for_room(&self) -> Result<usize> {
        Ok(self.try_change(|_| self.sweep_changing())?.unwrap_or(0))
    }

    /// As `sweep`, by who has the creation lock.
    pub(super) fn sweep_changing(&self) -> Result<usize> {
        let mut count = 0;
        for region in 0..self.records_end()? {
            if self.state(region) != Some(State::Removing) || !self.try_produce(region)? {
                continue;
            }
            let swept = match self.state(region) {
                Some(State::Removing) => self.give_back_all(region),
                _ => Ok(false),
            };
            if let Ok(true) = swept {
                self.free(region);
                count += 1;
            }
            self.end_producing(region);
            swept?;
        }
        Ok(count)
    }

    /// As `sweep`, if there seems to be something, and not too often. The caller has the creation lock.
    pub(super) fn sweep_now_and_then(&self, changes: &mut Changes) -> Result<()> {
        let is_due = changes.swept.is_none_or(|swept| swept.elapsed() >= SWEEP_EVERY);
        if is_due && self.map.word32(arena::REMOVING_AT).load(Acquire) > 0 {
            self.sweep_changing()?;
            changes.swept = Some(Instant::now());
        }
        Ok(())
    }
}
