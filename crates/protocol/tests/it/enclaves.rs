//! Leases across enclaves under a model checker, as `model.rs` has it for those of one kernel.
//!
//! The producer sees what the other enclave shows, and none of its locks. Observers and their agent are threads of the other enclave;
//! what they say to each other is ordered by a mutex, as a socket orders it. The lock table counts, and orders nothing.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p stillframe-protocol --release --test enclaves`.
//!
//! # Safety
//!
//! The content is reached through loom's cells from several threads; loom ends the test at the first access that is not
//! ordered with a conflicting one.
#![cfg(loom)]
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::convert::Infallible;
use std::sync::Arc;
use stillframe_protocol::shown::{self, Show, Shown};
use stillframe_protocol::{self as protocol, Board, Leased, Leases, Newest, Stamp};

/// The fewest slots with which one is used again while another is live.
const SLOTS: usize = 2;

/// What both enclaves have.
struct Memory {
    newest: AtomicU64,
    stamps: [AtomicU64; SLOTS],
    content: [UnsafeCell<u64>; SLOTS],
    /// What the observers' enclave shows.
    shown: AtomicU64,
    /// Whether the producer's counts it.
    is_admitted: AtomicBool,
    /// The locks of the observers' kernel.
    locks: [AtomicU64; SLOTS],
    /// The agent does one thing at a time.
    agent: Mutex<()>,
}

// SAFETY: loom checks every access to the cells.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn new(is_admitted: bool) -> Memory {
        Memory {
            newest: AtomicU64::new(0),
            stamps: std::array::from_fn(|_| AtomicU64::new(0)),
            content: std::array::from_fn(|_| UnsafeCell::new(0)),
            shown: AtomicU64::new(0),
            is_admitted: AtomicBool::new(is_admitted),
            locks: std::array::from_fn(|_| AtomicU64::new(0)),
            agent: Mutex::new(()),
        }
    }

    fn read(&self, slot: usize) -> u64 {
        // SAFETY: loom checks that no write overlaps.
        self.content[slot].with(|content| unsafe { *content })
    }
}

impl Board for Memory {
    fn newest(&self) -> Newest {
        Newest(self.newest.load(Ordering::Acquire))
    }

    fn set_newest(&self, newest: Newest) {
        self.newest.store(newest.0, Ordering::Release);
    }

    fn stamp(&self, slot: usize) -> Stamp {
        Stamp(self.stamps[slot].load(Ordering::Acquire))
    }

    fn set_stamp(&self, slot: usize, stamp: Stamp) {
        self.stamps[slot].store(stamp.0, Ordering::Release);
    }

    fn slots(&self) -> usize {
        SLOTS
    }
}

impl Show for Memory {
    fn show(&self, slot: usize) {
        self.shown.fetch_or(1 << slot, Ordering::Relaxed);
    }

    fn hide(&self, slot: usize) {
        self.shown.fetch_and(!(1 << slot), Ordering::Release);
    }
}

impl Shown for Memory {
    fn is_shown(&self, slot: usize) -> bool {
        self.shown.load(Ordering::Relaxed) >> slot & 1 == 1
    }

    fn is_admitted(&self) -> bool {
        self.is_admitted.load(Ordering::Relaxed)
    }
}

fn sure<T>(result: Result<T, Infallible>) -> T {
    result.unwrap_or_else(|never| match never {})
}

/// What the agent and the producer do. Where no planted bug takes their place, they are the real ones.
trait Protocol: 'static {
    fn show(memory: &Memory, slot: usize) -> bool {
        shown::show(memory, slot)
    }

    fn hide_unheld(memory: &Memory, slot: usize) -> bool {
        sure(shown::hide_unheld(memory, &Locks(memory), slot))
    }

    fn is_held_elsewhere(memory: &Memory, slot: usize) -> bool {
        shown::is_held_elsewhere(memory, slot)
    }
}

struct Real;
impl Protocol for Real {}

/// The locks of the observers' kernel.
struct Locks<'a>(&'a Memory);

impl Leases for Locks<'_> {
    type Error = Infallible;

    fn hold(&self, slot: usize) -> Result<(), Infallible> {
        self.0.locks[slot].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self, slot: usize) {
        self.0.locks[slot].fetch_sub(1, Ordering::Relaxed);
    }

    fn is_held(&self, slot: usize) -> Result<bool, Infallible> {
        Ok(self.0.locks[slot].load(Ordering::Relaxed) > 0)
    }
}

struct NotAdmitted;

/// Leases as an observer has them: a lock, and then the agent's word.
struct Observers<'a, P>(&'a Memory, std::marker::PhantomData<P>);

impl<P: Protocol> Leases for Observers<'_, P> {
    type Error = NotAdmitted;

    fn hold(&self, slot: usize) -> Result<(), NotAdmitted> {
        sure(Locks(self.0).hold(slot));
        let agent = self.0.agent.lock().unwrap();
        let is_shown = P::show(self.0, slot);
        drop(agent);
        if !is_shown {
            Locks(self.0).release(slot);
            return Err(NotAdmitted);
        }
        Ok(())
    }

    fn release(&self, slot: usize) {
        Locks(self.0).release(slot);
    }

    fn is_held(&self, _: usize) -> Result<bool, NotAdmitted> {
        Err(NotAdmitted)
    }
}

/// Leases as the producer asks for them.
struct Producers<'a, P>(&'a Memory, std::marker::PhantomData<P>);

impl<P: Protocol> Leases for Producers<'_, P> {
    type Error = Infallible;

    fn hold(&self, _: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn release(&self, _: usize) {}

    fn is_held(&self, slot: usize) -> Result<bool, Infallible> {
        Ok(P::is_held_elsewhere(self.0, slot))
    }
}

fn look<P: Protocol>(memory: &Memory) {
    let leases = Observers::<P>(memory, std::marker::PhantomData);
    let Ok(Some(leased)) = protocol::lease_newest(memory, &leases) else { return };
    assert_eq!(memory.read(leased.slot), leased.sequence, "the content is the version's");
    loom::thread::yield_now();
    assert_eq!(memory.read(leased.slot), leased.sequence, "the content stays");
    protocol::release(&leases, leased);
}

/// The agent looks once whether what it shows is still held.
fn clean<P: Protocol>(memory: &Memory) {
    for slot in 0..SLOTS {
        let agent = memory.agent.lock().unwrap();
        if memory.is_shown(slot) {
            P::hide_unheld(memory, slot);
        }
        drop(agent);
    }
}

fn publish_three<P: Protocol>(memory: &Memory) {
    let leases = Producers::<P>(memory, std::marker::PhantomData);
    let mut versions: Vec<Leased> = Vec::new();
    let mut sequence = 0;
    for _ in 0..3 {
        let newest = sequence;
        let retire = |versions: &mut Vec<Leased>, newest| {
            versions.retain(|one| one.sequence == newest || !sure(protocol::retire(memory, &leases, *one)));
        };
        retire(&mut versions, newest);
        let Some(slot) = (0..SLOTS).find(|slot| versions.iter().all(|version| version.slot != *slot)) else { continue };
        sequence += 1;
        // SAFETY: loom checks that no other access overlaps.
        memory.content[slot].with_mut(|content| unsafe { *content = sequence });
        protocol::commit(memory, slot, sequence);
        versions.push(Leased { slot, sequence });
        retire(&mut versions, sequence);
    }
}

/// A producer publishes so often that a slot is used twice, while somebody in the other enclave looks, its agent cleans if it
/// is to, and the enclave is admitted from the beginning or meanwhile.
fn run<P: Protocol>(preemptions: usize, cleans: bool, is_admitted: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let memory = Arc::new(Memory::new(is_admitted));
        let spawn = |work: fn(&Memory)| {
            let memory = memory.clone();
            loom::thread::spawn(move || work(&memory))
        };
        let mut others = vec![spawn(look::<P>)];
        if cleans {
            others.push(spawn(clean::<P>));
        }
        if !is_admitted {
            others.push(spawn(|memory| memory.is_admitted.store(true, Ordering::Relaxed)));
        }
        publish_three::<P>(&memory);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn what_another_enclave_holds_is_whole_and_stays() {
    run::<Real>(4, false, true);
}

#[test]
fn an_agent_that_cleans_hides_nothing_that_is_held() {
    run::<Real>(3, true, true);
}

#[test]
fn an_enclave_that_is_just_admitted_holds_what_it_leases() {
    run::<Real>(3, false, false);
}

/// Each planted bug is the real function with one thing left out or turned round.
mod planted {
    use super::*;

    struct ShowUnadmitted;
    impl Protocol for ShowUnadmitted {
        fn show(memory: &Memory, slot: usize) -> bool {
            memory.show(slot);
            true
        }
    }

    #[test]
    #[should_panic]
    fn a_lease_of_an_enclave_that_does_not_count_is_noticed() {
        run::<ShowUnadmitted>(3, false, false);
    }

    struct SaysYes;
    impl Protocol for SaysYes {
        fn show(memory: &Memory, _: usize) -> bool {
            fence(Ordering::SeqCst);
            memory.is_admitted()
        }
    }

    #[test]
    #[should_panic]
    fn an_agent_that_says_yes_and_shows_nothing_is_noticed() {
        run::<SaysYes>(3, false, true);
    }

    struct HideWhatIsHeld;
    impl Protocol for HideWhatIsHeld {
        fn hide_unheld(memory: &Memory, slot: usize) -> bool {
            memory.hide(slot);
            true
        }
    }

    #[test]
    #[should_panic]
    fn a_word_that_is_given_up_while_its_holder_lives_is_noticed() {
        run::<HideWhatIsHeld>(3, true, true);
    }

    struct ShownButNotAsked;
    impl Protocol for ShownButNotAsked {
        fn is_held_elsewhere(_: &Memory, _: usize) -> bool {
            false
        }
    }

    #[test]
    #[should_panic]
    fn a_retirement_that_does_not_look_at_the_words_is_noticed() {
        run::<ShownButNotAsked>(3, false, true);
    }
}
