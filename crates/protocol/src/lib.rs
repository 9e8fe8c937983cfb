//! How a version is published, leased, retired and recovered.
//!
//! The protocol is code over two traits and knows neither memory nor kernel: [`Board`] is the part of the shared `head`
//! file that everybody reads and the producer writes, [`Leases`] are the record locks of the `lease` file. It runs over
//! the real ones in production, and over a model checker's in `tests/it/model.rs`. What takes the place of locks between two kernels
//! is in [`shown`].
//!
//! # The rules
//!
//! A ring of slots holds the versions that exist. A slot's *stamp* is its sequence number (publishes are numbered from 1)
//! and its state: free, live or retiring. The board's *newest* names sequence number and slot of the last commit.
//!
//! * **Publish** writes the content and the description of a version into places no version uses, stamps its slot live,
//!   and commits by storing *newest*. Before that store nobody may see the version, whatever its slot says.
//! * **Lease**: read *newest*, take a read lock on the slot, then look at the slot's stamp again. If it still says live
//!   with the same sequence number, the version cannot go away until the lock does. Otherwise let go and start over.
//! * **Retire**: stamp the slot retiring, then ask the kernel whether anybody holds a lock on it. If nobody does, nobody
//!   ever will, because whoever locks it from now on sees the stamp. If somebody does, ask again later.
//! * **Recover**: what *newest* names is the last version. Slots stamped with a higher sequence number never were
//!   committed; all others are as they say.
//!
//! Lease and retire are each other's mirror: one locks and then reads the stamp, the other stamps and then reads the
//! locks. A sequentially consistent fence between the two halves of each makes sure that at least one sees the other.
//!
//! What was read under a lease was read before its pages are written again: a release fence goes before the lock does, and
//! an acquire fence follows the answer that nobody has one. The locks themselves are not relied on to order memory.
#![forbid(unsafe_code)]

pub mod retention;
pub mod shown;

#[cfg(loom)]
use loom::sync::atomic::{Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{Ordering, fence};

/// State of a ring slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing is here.
    Free,
    /// A version that may be leased.
    Live,
    /// A version that may not be leased any more, though some may still hold it.
    Retiring,
}

/// Sequence number and state of a slot, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Stamp of a slot in this state.
    pub fn new(sequence: u64, state: State) -> Stamp {
        Stamp(sequence << 8 | state as u64)
    }

    /// Number of the publish that filled the slot.
    pub fn sequence(self) -> u64 {
        self.0 >> 8
    }

    /// State of the slot; `None` for a number that is no state.
    pub fn state(self) -> Option<State> {
        match self.0 & 0xff {
            0 => Some(State::Free),
            1 => Some(State::Live),
            2 => Some(State::Retiring),
            _ => None,
        }
    }
}

/// Sequence number and slot of the newest version, in one word; zero before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Newest(pub u64);

impl Newest {
    /// The word for a version.
    pub fn new(sequence: u64, slot: usize) -> Newest {
        Newest(sequence << 8 | slot as u64)
    }

    /// Number of the last publish; zero if there was none.
    pub fn sequence(self) -> u64 {
        self.0 >> 8
    }

    /// Slot of the newest version.
    pub fn slot(self) -> usize {
        (self.0 & 0xff) as usize
    }
}

/// The words everybody reads and only the producer writes.
pub trait Board {
    /// Loads the newest word, with acquire ordering.
    fn newest(&self) -> Newest;
    /// Stores the newest word, with release ordering.
    fn set_newest(&self, newest: Newest);
    /// Loads the stamp of a slot, with acquire ordering.
    fn stamp(&self, slot: usize) -> Stamp;
    /// Stores the stamp of a slot, with release ordering.
    fn set_stamp(&self, slot: usize, stamp: Stamp);
    /// Number of slots.
    fn slots(&self) -> usize;
}

/// The locks that keep versions alive.
pub trait Leases {
    /// Why a lock could not be taken or asked for.
    type Error;
    /// Takes a shared lock on a slot; it is counted, so that several of one owner may overlap.
    fn hold(&self, slot: usize) -> Result<(), Self::Error>;
    /// Gives it back; whoever leased calls [`release`] instead.
    fn release(&self, slot: usize);
    /// Whether anybody else holds a lock on a slot.
    fn is_held(&self, slot: usize) -> Result<bool, Self::Error>;
}

/// A version that was leased: it stays until the slot is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leased {
    /// Slot of the version.
    pub slot: usize,
    /// Sequence number of the version.
    pub sequence: u64,
}

/// How often a lease starts over before it gives up because the producer publishes faster than it can lock.
const ATTEMPTS: usize = if cfg!(loom) { 2 } else { 10_000 };

/// Leases the newest version. `None`: there is none, or the board holds words that are no slot.
pub fn lease_newest<L: Leases>(board: &impl Board, leases: &L) -> Result<Option<Leased>, L::Error> {
    for _ in 0..ATTEMPTS {
        let newest = board.newest();
        if newest.sequence() == 0 || newest.slot() >= board.slots() {
            return Ok(None);
        }
        let wanted = Leased { slot: newest.slot(), sequence: newest.sequence() };
        if lease(board, leases, wanted)? {
            return Ok(Some(wanted));
        }
    }
    Ok(None)
}

/// Leases one version. `false`: it is gone, or about to go.
pub fn lease<L: Leases>(board: &impl Board, leases: &L, wanted: Leased) -> Result<bool, L::Error> {
    leases.hold(wanted.slot)?;
    fence(Ordering::SeqCst);
    if board.stamp(wanted.slot) == Stamp::new(wanted.sequence, State::Live) {
        return Ok(true);
    }
    leases.release(wanted.slot);
    Ok(false)
}

/// Leases a version that somebody leases already, also one that is retiring. `is_leased` tells whether that one leases it still,
/// and is asked when the lock is there: a producer that asked before that found his, and one that asks later finds this one.
/// `false`: it is gone, or may go.
pub fn join<L: Leases>(
    board: &impl Board,
    leases: &L,
    wanted: Leased,
    is_leased: impl FnOnce() -> bool,
) -> Result<bool, L::Error> {
    leases.hold(wanted.slot)?;
    fence(Ordering::SeqCst);
    let stamp = board.stamp(wanted.slot);
    let is_there = matches!(stamp.state(), Some(State::Live | State::Retiring)) && stamp.sequence() == wanted.sequence;
    if is_there && is_leased() {
        return Ok(true);
    }
    leases.release(wanted.slot);
    Ok(false)
}

/// Gives a leased version back. Nothing of it may be read any more.
pub fn release<L: Leases>(leases: &L, leased: Leased) {
    fence(Ordering::Release);
    leases.release(leased.slot);
}

/// The committed versions that can be leased now, in the order of their publishing.
pub fn list(board: &impl Board) -> Vec<Leased> {
    let newest = board.newest().sequence();
    let mut found: Vec<Leased> = (0..board.slots())
        .map(|slot| (slot, board.stamp(slot)))
        .filter(|(_, stamp)| stamp.state() == Some(State::Live) && stamp.sequence() <= newest)
        .map(|(slot, stamp)| Leased { slot, sequence: stamp.sequence() })
        .collect();
    found.sort_by_key(|leased| leased.sequence);
    found
}

/// Commits the version whose content and description are complete.
pub fn commit(board: &impl Board, slot: usize, sequence: u64) {
    board.set_stamp(slot, Stamp::new(sequence, State::Live));
    board.set_newest(Newest::new(sequence, slot));
}

/// Takes a version out of circulation. `true`: nobody holds it, its slot is free and its pages may be reused. `false`:
/// somebody holds it; call again later. The newest version must not be retired.
pub fn retire<L: Leases>(board: &impl Board, leases: &L, version: Leased) -> Result<bool, L::Error> {
    board.set_stamp(version.slot, Stamp::new(version.sequence, State::Retiring));
    fence(Ordering::SeqCst);
    if leases.is_held(version.slot)? {
        return Ok(false);
    }
    fence(Ordering::Acquire);
    board.set_stamp(version.slot, Stamp::new(version.sequence, State::Free));
    Ok(true)
}

/// What a dead producer left in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// The version.
    pub version: Leased,
    /// Whether it can be leased, or was being retired.
    pub state: State,
}

/// Sets the board in order after a producer died at any instant. Returns the versions that exist, in the order of their
/// publishing; the last one, if live, is the newest.
pub fn recover(board: &impl Board) -> Vec<Recovered> {
    let newest = board.newest().sequence();
    let mut found = Vec::new();
    for slot in 0..board.slots() {
        let stamp = board.stamp(slot);
        let version = Leased { slot, sequence: stamp.sequence() };
        match stamp.state() {
            Some(state @ (State::Live | State::Retiring)) if stamp.sequence() <= newest && stamp.sequence() > 0 => {
                found.push(Recovered { version, state });
            }
            _ => board.set_stamp(slot, Stamp::new(stamp.sequence().min(newest), State::Free)),
        }
    }
    found.sort_by_key(|recovered| recovered.version.sequence);
    found
}
