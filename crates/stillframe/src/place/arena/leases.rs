//! The locks of an arena's regions: leases on versions, and the sign that a producer lives.
//!
//! One opening has the locks of all regions that a process uses. Those of neighbours merge, so that the kernel has one lock
//! for many regions; and locks of one opening do not exclude each other, so what this process has is counted here.

use super::{Shared, exclusively};
use crate::clock;
use crate::error::{Error, Result};
use crate::place::directory::Unopened;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::lock::{self, Kind};
use stillframe_protocol::Leases;
use stillframe_segment::{Corrupt, arena, head};

/// Stands for a look at the head of a region among the slots that are counted.
const ATTACHED: usize = head::SLOTS;

impl Shared {
    /// The file with the leases on a region; an error in a forked child.
    fn slot_file(&self, region: u32) -> Result<&File> {
        let first = self.leases()?;
        let number = arena::lease_number(region);
        let Some(place) = number.checked_sub(1).and_then(|index| self.further.get(index as usize)) else {
            return Ok(first);
        };
        let opened = place.get_or_try_init(|| self.open_leases(number).map(Box::new))?;
        opened.get().ok_or_else(|| self.forked())
    }

    /// Opens a file with leases, which is there for as long as the arena is.
    fn open_leases(&self, number: u32) -> Result<Unforked> {
        let missing = || {
            let dir = self.path.parent().unwrap_or(&self.path).into();
            Error::NoArena { arena: self.name.clone(), dir, half_made: false }
        };
        let files = self.files.as_ref().ok_or_else(missing)?;
        let file = files.locks(&arena::lease_file(number)).map_err(|unopened| match unopened {
            Unopened::Missing => missing(),
            Unopened::Failed(error) => error,
        })?;
        // The name may be that of a later arena's file.
        files.is(arena::FILE, self.about.identity).then_some(file).ok_or_else(missing)
    }

    /// Takes the producer's lock of a region, which goes with the process; `false` if another producer has it.
    pub(super) fn try_produce(&self, region: u32) -> Result<bool> {
        let (producers, leases) = (self.producers()?, self.leases()?);
        // Who publishes looks for leases, and is not to be short of a descriptor then.
        self.slot_file(region)?;
        exclusively(&self.produced, |produced| {
            let own = arena::PRODUCER_AT + u64::from(region);
            if produced.contains(&region) || !self.try_lock(producers, Kind::Write, own, 1)? {
                return Ok(false);
            }
            // Who may write to the file can lock it so that this fails, and shows by that just what this would show.
            match self.try_lock(leases, Kind::Read, arena::LIVE_AT + u64::from(region), 1) {
                Ok(_) => {}
                Err(error) => {
                    let _ = lock::unlock(producers, own, 1);
                    return Err(error);
                }
            }
            produced.insert(region);
            Ok(true)
        })
    }

    /// Gives the producer's lock of a region back.
    pub(super) fn end_producing(&self, region: u32) {
        // In a forked child there is nothing to be given back.
        let (Ok(producers), Ok(leases)) = (self.producers(), self.leases()) else { return };
        exclusively(&self.produced, |produced| {
            if produced.remove(&region) {
                // An unlock of one's own lock cannot fail in a way that could be mended.
                let _ = lock::unlock(leases, arena::LIVE_AT + u64::from(region), 1);
                let _ = lock::unlock(producers, arena::PRODUCER_AT + u64::from(region), 1);
            }
        });
    }

    /// Whether anybody holds a version of a region.
    pub(super) fn is_any_held(&self, region: u32) -> Result<bool> {
        let (first, bytes) = arena::slots_range(region);
        // A forked child may find what is counted locked for ever.
        let file = self.slot_file(region)?;
        let is_own = exclusively(&self.holds, |holds| holds.range((region, 0)..(region + 1, 0)).next().is_some());
        let attached = arena::ATTACHED_AT + u64::from(region);
        Ok(is_own
            || self.is_locked(file, Kind::Write, first, bytes)?
            || self.is_locked(file, Kind::Write, attached, 1)?
            || self.sharing.others().map_or(Ok(false), |others| others.hold_any(region))?)
    }

    fn lock_slot(&self, file: &File, region: u32, slot: usize) -> Result<()> {
        let (at, bytes) = match slot {
            ATTACHED => (arena::ATTACHED_AT + u64::from(region), 1),
            slot => (arena::slot_at(region, slot), arena::lock_bytes(clock::monotonic_ms())),
        };
        if self.try_lock(file, Kind::Read, at, bytes)? {
            return Ok(());
        }
        // What is not locked must not be read, and nobody who means well locks a slot for writing.
        let name = arena::lease_file(arena::lease_number(region));
        Err(self.corrupt(Corrupt::new(&name, at as usize, "read locks only", "a write lock")))
    }
}

/// The leases of one region of an arena.
#[derive(Debug, Clone)]
pub(crate) struct ArenaLeases {
    shared: Arc<Shared>,
    name: String,
    number: u32,
    generation: u32,
}

impl super::Arena {
    /// Whether this process has the producer's lock of a region.
    pub(super) fn is_produced_here(&self, region: u32) -> bool {
        exclusively(&self.shared.produced, |produced| produced.contains(&region))
    }

    /// The leases of a region, as it was found.
    pub(crate) fn leases(&self, name: &str, found: &super::Found) -> ArenaLeases {
        ArenaLeases::new(&self.shared, name, found.number, found.generation)
    }
}

impl ArenaLeases {
    pub(super) fn new(shared: &Arc<Shared>, name: &str, number: u32, generation: u32) -> ArenaLeases {
        ArenaLeases { shared: shared.clone(), name: name.into(), number, generation }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Name of the region.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether the region is still there.
    pub(crate) fn is_current(&self) -> bool {
        self.shared.is_current(self.number, self.generation)
    }

    /// The file with the leases; an error in a forked child.
    pub(crate) fn file(&self) -> Result<&File> {
        self.shared.slot_file(self.number)
    }

    /// Whether a producer lives. A reader that locks its byte looks like one.
    pub(crate) fn is_produced(&self) -> Result<bool> {
        let file = self.shared.leases()?;
        if let Some(owner) = self.shared.sharing.owner() {
            return Ok(self.is_current() && owner.says_produced(self.number)?);
        }
        let is_own = exclusively(&self.shared.produced, |produced| produced.contains(&self.number));
        let at = arena::LIVE_AT + u64::from(self.number);
        Ok(self.is_current() && (is_own || self.shared.is_locked(file, Kind::Write, at, 1)?))
    }

    /// The other enclaves that hold versions of the region: the name of each, and a bit for each slot. Those of another enclave's
    /// regions that one knows itself.
    pub(crate) fn enclaves(&self) -> Result<Vec<(String, u64)>> {
        self.shared.sharing.others().map_or(Ok(Vec::new()), |others| others.holders(self.number))
    }

    /// Keeps what the region has as it is, whoever removes it, for who looks at its head; `None` if it was removed already.
    pub(crate) fn attach(&self) -> Result<Option<Attached>> {
        match self.hold(ATTACHED) {
            Ok(()) => Ok(Some(Attached { leases: self.clone() })),
            Err(Error::NoRegion { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A lease of its own on a slot that somebody holds already: it ends when the last copy of the file is closed.
    pub(crate) fn keep(&self, slot: usize) -> Result<File> {
        let file = self.shared.reopen_leases(arena::lease_number(self.number), self.file()?)?;
        self.shared.lock_slot(&file, self.number, slot)?;
        Ok(file)
    }

    fn gone(&self) -> Error {
        Error::NoRegion { region: self.name.clone(), dir: self.shared.path.clone() }
    }
}

/// A look at the head of a region. As long as it lives, what the region owns is not given back.
///
/// Pages that were given back have no memory: in a full file system, reading them through a map would end the process.
#[derive(Debug)]
pub(crate) struct Attached {
    leases: ArenaLeases,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.leases.release(ATTACHED);
    }
}

impl Leases for ArenaLeases {
    type Error = Error;

    fn hold(&self, slot: usize) -> Result<()> {
        let file = self.file()?;
        exclusively(&self.shared.holds, |holds| {
            let count = holds.get(&(self.number, slot)).copied().unwrap_or(0);
            if count == 0 {
                self.shared.lock_slot(file, self.number, slot)?;
                self.shared.held_slots.fetch_add(usize::from(slot != ATTACHED), SeqCst);
            }
            holds.insert((self.number, slot), count + 1);
            Ok::<_, Error>(())
        })?;
        if let Some(owner) = self.shared.sharing.owner().filter(|_| slot != ATTACHED) {
            let shown = owner.show(self.number, slot);
            if !matches!(shown, Ok(true)) {
                self.release(slot);
                return Err(shown.err().unwrap_or_else(|| self.gone()));
            }
        }
        // Who removes the region says so first, and looks for locks then.
        fence(SeqCst);
        if self.is_current() {
            return Ok(());
        }
        self.release(slot);
        Err(self.gone())
    }

    fn release(&self, slot: usize) {
        let Ok(file) = self.file() else { return };
        exclusively(&self.shared.holds, |holds| {
            let key = (self.number, slot);
            match holds.get(&key).copied() {
                None => {}
                Some(0 | 1) => {
                    holds.remove(&key);
                    self.shared.held_slots.fetch_sub(usize::from(slot != ATTACHED), SeqCst);
                    // An unlock of one's own lock cannot fail in a way that could be mended.
                    let _ = match slot {
                        ATTACHED => lock::unlock(file, arena::ATTACHED_AT + u64::from(self.number), 1),
                        slot => lock::unlock(file, arena::slot_at(self.number, slot), arena::SLOT_STRIDE),
                    };
                }
                Some(count) => drop(holds.insert(key, count - 1)),
            }
        });
    }

    fn is_held(&self, slot: usize) -> Result<bool> {
        let file = self.file()?;
        // Who holds shows himself before he looks whether the version is still there, as who retires it does before this.
        let has_own = self.shared.held_slots.load(SeqCst) > 0;
        let is_own = has_own && exclusively(&self.shared.holds, |holds| holds.contains_key(&(self.number, slot)));
        let at = arena::slot_at(self.number, slot);
        let others = self.shared.sharing.others();
        Ok(is_own
            || others.map_or(Ok(false), |others| others.hold(self.number, slot))?
            || self.shared.is_locked(file, Kind::Write, at, 1)?)
    }
}
