//! What other enclaves hold of an arena's versions: an arena in memory that machines share (`stillframe_segment::enclave`).
//!
//! Behind its last chunk stands what this enclave's agent says: who it is, and whose leases count. Those others have arenas
//! of their own beside this one, under their names, in which they show what they hold. Their words may be anything: what is believed
//! of them is that a version is held, which the rule of the region bounds as it bounds any observer.

use crate::error::{Error, Result};
use crate::place::arena::bell::{Bell, Beside};
use crate::place::broker::Broker;
use crate::place::directory::Directory;
use once_cell::race::OnceBox;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::map::Mapping;
use stillframe_kernel::trust::Guard;
use stillframe_protocol::shown::{Shown, is_held_elsewhere};
use stillframe_segment::arena::{self, Geometry};
use stillframe_segment::enclave::{self, Enclave, PEERS_MAX};
use stillframe_segment::{Corrupt, PAGE_BYTES};

/// How often a thread tries to look at what another one looks at. Whoever interrupted a thread that looks would wait for it for ever.
const TRIES: usize = 1000;

/// How an arena is shared with other enclaves.
#[derive(Debug)]
pub(super) enum Sharing {
    /// It is not.
    None,
    /// It is this enclave's, and others look at it.
    Own(Box<Others>),
    /// It is another enclave's.
    Foreign(Owner),
}

/// The enclave whose arena it is, as observers of another one see it.
#[derive(Debug)]
pub(super) struct Owner {
    /// The agent of this enclave.
    agent: Broker,
    map: Arc<Mapping>,
    /// Where what the owner says begins.
    at: usize,
    /// Identity of its arena.
    arena: u64,
    /// What the agent of this enclave rings.
    bell: Option<Arc<Beside>>,
    /// Where it is known whether its machine runs.
    directory: Directory,
    /// The file of the machine's lock that was there first, and locked.
    machine: OnceBox<File>,
}

/// The other enclaves, as the producers of this one see them.
#[derive(Debug)]
pub(super) struct Others {
    map: Arc<Mapping>,
    /// Where what this enclave says begins.
    own: usize,
    /// Where the arenas of the others lie, and whose are believed.
    dir: PathBuf,
    guard: Guard,
    peers: Mutex<[Option<Peer>; PEERS_MAX]>,
    /// What producers ring for the agent.
    bell: Option<Arc<Beside>>,
}

/// Another enclave.
#[derive(Debug)]
struct Peer {
    identity: u64,
    /// What it says, behind its arena.
    area: Mapping,
}

/// What a peer shows of a region.
struct OfRegion<'a> {
    others: &'a Others,
    peer: &'a Peer,
    place: usize,
    region: u32,
}

impl Sharing {
    /// That of an arena in a directory: another enclave's has a socket of the agent beside it, an own one the agent's words behind it.
    ///
    /// # Errors
    /// [`Error::NoArena`] if it is another enclave's whose agent has not begun.
    pub(super) fn of(
        map: &Arc<Mapping>,
        geometry: &Geometry,
        directory: Option<&Directory>,
        is_writing: bool,
    ) -> Result<Sharing> {
        let (Some(directory), true) = (directory, has_area(geometry, map.bytes() as u64)) else {
            return Ok(Sharing::None);
        };
        let at = geometry.bytes() as usize;
        // Its agent may not have written there yet, and reading a hole where there is no memory would end the process.
        let taken = map.take_to_read(at, enclave::AREA_BYTES);
        taken.map_err(|failure| Error::system(&directory.path().join(arena::FILE), failure))?;
        let (map, guard) = (map.clone(), directory.guard().looking());
        // Other files are opened later, when the program may have gone to another directory.
        let path = std::path::absolute(directory.path()).unwrap_or_else(|_| directory.path().into());
        if directory.has(enclave::AGENT) {
            let socket = path.join(enclave::AGENT);
            let dir = path.parent().unwrap_or(&path);
            let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
            // Its agent says who it is when the arena is made.
            let half_made = || Error::NoArena { arena: name, dir: dir.into(), half_made: true };
            let said = Enclave::read(|offset| map.word64(at + offset).load(Acquire));
            let arena = said.ok_or_else(half_made)?.arena;
            let (agent, bell, machine) =
                (Broker::agent(&socket, guard), Beside::open(directory, false)?, OnceBox::new());
            let directory = directory.guarded(guard);
            return Ok(Sharing::Foreign(Owner { agent, map, at, arena, bell, directory, machine }));
        }
        let Some(dir) = path.parent() else { return Ok(Sharing::None) };
        // Its agent may come later. Until then nobody counts.
        let (dir, peers, bell) = (dir.into(), Mutex::default(), Beside::open(directory, is_writing)?);
        Ok(Sharing::Own(Box::new(Others { map, own: at, dir, guard, peers, bell })))
    }

    /// Who wakes those that wait for versions of a region, in an arena that lies in a device's memory or in a file.
    pub(super) fn bell(&self, region: u32, is_device: bool) -> Bell {
        match self {
            Sharing::None => Bell::None,
            Sharing::Own(others) => {
                let own = |beside: &Arc<Beside>| Bell::Own { beside: beside.clone(), region, is_device };
                others.bell.as_ref().map_or(Bell::None, own)
            }
            Sharing::Foreign(owner) => Bell::Foreign(owner.bell.clone()),
        }
    }

    /// Whether the enclave whose arena it is is this one; `None` if it is no enclave's.
    pub(super) fn is_own(&self) -> Option<bool> {
        match self {
            Sharing::None => None,
            Sharing::Own(others) => others.said().map(|_| true),
            Sharing::Foreign(_) => Some(false),
        }
    }

    pub(super) fn others(&self) -> Option<&Others> {
        match self {
            Sharing::Own(others) => Some(others),
            _ => None,
        }
    }

    pub(super) fn owner(&self) -> Option<&Owner> {
        match self {
            Sharing::Foreign(owner) => Some(owner),
            _ => None,
        }
    }
}

impl Owner {
    fn word(&self, offset: usize) -> u64 {
        self.map.word64(self.at + offset).load(Acquire)
    }

    /// Has the owner shown that a slot of a region is held, which this process has locked; `false` if the owner is gone.
    pub(super) fn show(&self, region: u32, slot: usize) -> Result<bool> {
        self.agent.show(self.arena, region, slot)
    }

    /// Whether the owner says that the producer of a region lives. Of a machine that has ended the last word still stands there, until
    /// its end is recorded, and then as well.
    ///
    /// # Errors
    /// Those of the file that tells whether the machine runs.
    pub(super) fn says_produced(&self, region: u32) -> Result<bool> {
        let says = self.word(enclave::ARENA_AT) == self.arena
            && self.word(enclave::IDENTITY_AT) != 0
            && self.word(enclave::produced_at(region)) >> (region % 64) & 1 == 1;
        Ok(says && !self.has_ended()?)
    }

    /// Whether its machine has ended. One of which nobody said that it began may run.
    fn has_ended(&self) -> Result<bool> {
        let failed = |failure| Error::system(&self.directory.path().join(enclave::MACHINE), failure);
        let ends = |file: &File| lock::has_ended(file).map_err(failed);
        // One that was kept was locked.
        if let Some(file) = self.machine.get()
            && !ends(file)?
        {
            return Ok(false);
        }
        // If it was started again since, there is a new file. One that went with its directory had ended.
        let Some((file, _)) = self.directory.file(enclave::MACHINE)? else { return Ok(self.machine.get().is_some()) };
        if lock::is_held(&file, Kind::Read, enclave::RUNNING_AT, 1).map_err(failed)? {
            let _ = self.machine.set(Box::new(file));
            return Ok(false);
        }
        ends(&file)
    }
}

impl Others {
    /// Whether another enclave holds a slot of a region.
    ///
    /// # Errors
    /// If the file of a peer's arena that counts cannot be opened: what it holds is not known.
    pub(super) fn hold(&self, region: u32, slot: usize) -> Result<bool> {
        self.any(region, |shown| is_held_elsewhere(shown, slot))
    }

    /// Whether another enclave holds any slot of a region.
    ///
    /// # Errors
    /// As [`hold`](Others::hold).
    pub(super) fn hold_any(&self, region: u32) -> Result<bool> {
        self.any(region, |shown| shown.is_admitted() && shown.word() != 0)
    }

    /// The other enclaves that hold slots of a region: the name of each, and a bit for each slot.
    ///
    /// # Errors
    /// As [`hold`](Others::hold).
    pub(super) fn holders(&self, region: u32) -> Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for place in 0..PEERS_MAX {
            let admitted = self.admitted(place);
            if admitted == 0 {
                continue;
            }
            // What others have open is for who publishes: nobody waits there for who only asks.
            let peer = self.open(place, admitted)?;
            let shown = OfRegion { others: self, peer: &peer, place, region };
            let slots = shown.word();
            if slots != 0 && shown.is_admitted() {
                found.push((self.name(place), slots));
            }
        }
        Ok(found)
    }

    fn any(&self, region: u32, holds: impl Fn(&OfRegion<'_>) -> bool) -> Result<bool> {
        // As long as nobody else can be asked, somebody may hold it.
        let Some(mut peers) = self.peers() else { return Ok(true) };
        for (place, known) in peers.iter_mut().enumerate() {
            let admitted = self.admitted(place);
            if admitted == 0 {
                *known = None;
                continue;
            }
            if known.as_ref().is_none_or(|peer| peer.identity != admitted) {
                *known = Some(self.open(place, admitted)?);
            }
            if let Some(peer) = known
                && holds(&OfRegion { others: self, peer, place, region })
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn peers(&self) -> Option<MutexGuard<'_, [Option<Peer>; PEERS_MAX]>> {
        for _ in 0..TRIES {
            match self.peers.try_lock() {
                Ok(peers) => return Some(peers),
                // Who panicked with it has changed nothing by halves.
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    /// The identity of the enclave at this place that counts, or zero.
    fn admitted(&self, place: usize) -> u64 {
        self.word(enclave::admitted_at(place))
    }

    /// One that this enclave's agent wrote.
    fn word(&self, offset: usize) -> u64 {
        self.map.word64(self.own + offset).load(Acquire)
    }

    /// Who this enclave is said to be; `None` if no agent ever said so.
    fn said(&self) -> Option<Enclave> {
        Enclave::read(|offset| self.word(offset))
    }

    /// The name of the enclave at this place.
    fn name(&self, place: usize) -> String {
        let mut name = [0; enclave::NAME_FIELD_BYTES];
        self.map.read(self.own + enclave::name_at(place), &mut name);
        enclave::decode_name(&name).unwrap_or("?").into()
    }

    fn open(&self, place: usize, identity: u64) -> Result<Peer> {
        let name = self.name(place);
        let none = || Error::NoArena { arena: name.clone(), dir: self.dir.clone(), half_made: false };
        let root = Directory::root(&self.dir, self.guard)?.ok_or_else(none)?;
        let directory = root.below(&name)?.ok_or_else(none)?;
        let (file, about) = directory.file(arena::FILE)?.ok_or_else(none)?;
        let path = directory.path().join(arena::FILE);
        // What the peer's header says does not matter: the agent has read it, and noted the place, before it let the peer count.
        let place_at = enclave::area_at(place);
        let at = self.word(place_at);
        if at == 0 || !at.is_multiple_of(PAGE_BYTES as u64) || !enclave::has_room(at, about.bytes) {
            let corrupt = Corrupt::new("enclave", place_at, "where the other enclave says what it holds", at);
            return Err(Error::Corrupt { dir: directory.path().into(), corrupt });
        }
        let area = Mapping::shared(&file, at, enclave::AREA_BYTES, false);
        // The enclave may have left holes there, and reading one where there is no memory would end the process.
        let area = area.and_then(|area| area.take_to_read(0, enclave::AREA_BYTES).map(|()| area));
        Ok(Peer { identity, area: area.map_err(|failure| Error::system(&path, failure))? })
    }
}

/// Whether there is room for what an enclave says in a file of so many bytes, behind its arena.
pub(super) fn has_area(geometry: &Geometry, file_bytes: u64) -> bool {
    geometry.regions() <= enclave::REGIONS_MAX && enclave::has_room(geometry.bytes(), file_bytes)
}

impl OfRegion<'_> {
    /// The bits of the slots that the peer shows.
    fn word(&self) -> u64 {
        let word = |offset: usize| self.peer.area.word64(offset).load(Acquire);
        let arena = self.others.word(enclave::ARENA_AT);
        let ours = (0..PEERS_MAX).filter(|place| word(enclave::subject_at(*place)) == arena);
        ours.map(|place| word(enclave::shown_at(place, self.region))).fold(0, |all, one| all | one)
    }
}

impl Shown for OfRegion<'_> {
    fn is_shown(&self, slot: usize) -> bool {
        self.word() >> slot & 1 == 1
    }

    fn is_admitted(&self) -> bool {
        let said = self.peer.area.word64(enclave::IDENTITY_AT).load(Acquire);
        self.others.admitted(self.place) == self.peer.identity && said == self.peer.identity
    }
}
