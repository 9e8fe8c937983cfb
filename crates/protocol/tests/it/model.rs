//! The protocol under a model checker: every order of its steps, and every value a weak memory may show.
//!
//! The board is loom's atomics with the orderings its trait promises. The lock table is the weakest kernel there could be:
//! it counts, and orders nothing, so that the protocol's own fences must carry everything. The content of a slot is plain
//! memory, so that a reader that overlaps a writer is found however lucky the values are. Each promise is then broken
//! once on purpose, to show that the model notices.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p stillframe-protocol --release --test model`.
//!
//! # Safety
//!
//! The content is reached through loom's cells from several threads; loom ends the test at the first access that is not
//! ordered with a conflicting one.
#![cfg(loom)]
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;

use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use stillframe_protocol::{self as protocol, Board, Leased, Leases, Newest, Stamp, State};

/// The fewest slots with which one is used again while another is live.
const SLOTS: usize = 2;
/// Content is written in this many parts, so that half a version can be told from a whole one.
const PARTS: usize = 2;
/// Contents of producers that follow each other differ by this, whatever sequence numbers they use again.
const GENERATION: u64 = 100;

/// What producer and readers share.
struct Memory {
    newest: AtomicU64,
    stamps: [AtomicU64; SLOTS],
    holds: [AtomicU64; SLOTS],
    content: [[UnsafeCell<u64>; PARTS]; SLOTS],
}

// SAFETY: loom checks every access to the cells.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn new() -> Memory {
        Memory {
            newest: AtomicU64::new(0),
            stamps: std::array::from_fn(|_| AtomicU64::new(0)),
            holds: std::array::from_fn(|_| AtomicU64::new(0)),
            content: std::array::from_fn(|_| std::array::from_fn(|_| UnsafeCell::new(0))),
        }
    }

    fn read(&self, slot: usize) -> [u64; PARTS] {
        // SAFETY: loom checks that no write overlaps.
        std::array::from_fn(|part| self.content[slot][part].with(|content| unsafe { *content }))
    }
}

impl Leases for Memory {
    type Error = Infallible;

    fn hold(&self, slot: usize) -> Result<(), Infallible> {
        self.holds[slot].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self, slot: usize) {
        self.holds[slot].fetch_sub(1, Ordering::Relaxed);
    }

    fn is_held(&self, slot: usize) -> Result<bool, Infallible> {
        Ok(self.holds[slot].load(Ordering::Relaxed) > 0)
    }
}

/// How many steps a producer has left, and the last version it committed with them.
struct Life {
    steps: Cell<usize>,
    committed: Cell<u64>,
}

impl Life {
    fn step(&self) -> bool {
        let steps = self.steps.get();
        self.steps.set(steps.saturating_sub(1));
        steps > 0
    }
}

/// The board through the eyes of one who may die: of the dead no write arrives.
struct Eyes<'a> {
    memory: &'a Memory,
    life: Option<&'a Life>,
}

impl Eyes<'_> {
    fn live(&self) -> bool {
        self.life.is_none_or(Life::step)
    }
}

impl Board for Eyes<'_> {
    fn newest(&self) -> Newest {
        Newest(self.memory.newest.load(Ordering::Acquire))
    }

    fn set_newest(&self, newest: Newest) {
        if self.live() {
            self.memory.newest.store(newest.0, Ordering::Release);
            self.life.inspect(|life| life.committed.set(newest.sequence()));
        }
    }

    fn stamp(&self, slot: usize) -> Stamp {
        Stamp(self.memory.stamps[slot].load(Ordering::Acquire))
    }

    fn set_stamp(&self, slot: usize, stamp: Stamp) {
        if self.live() {
            self.memory.stamps[slot].store(stamp.0, Ordering::Release);
        }
    }

    fn slots(&self) -> usize {
        SLOTS
    }
}

fn sure<T>(result: Result<T, Infallible>) -> T {
    result.unwrap_or_else(|never| match never {})
}

/// The protocol's functions. Where no planted bug takes their place, they are the real ones.
trait Protocol: 'static {
    fn lease_newest(board: &Eyes, leases: &Memory) -> Option<Leased> {
        sure(protocol::lease_newest(board, leases))
    }

    fn lease(board: &Eyes, leases: &Memory, wanted: Leased) -> bool {
        sure(protocol::lease(board, leases, wanted))
    }

    fn join(board: &Eyes, leases: &Memory, wanted: Leased, is_leased: impl FnOnce() -> bool) -> bool {
        sure(protocol::join(board, leases, wanted, is_leased))
    }

    fn release(leases: &Memory, leased: Leased) {
        protocol::release(leases, leased);
    }

    fn commit(board: &Eyes, slot: usize, sequence: u64) {
        protocol::commit(board, slot, sequence);
    }

    fn retire(board: &Eyes, leases: &Memory, version: Leased) -> bool {
        sure(protocol::retire(board, leases, version))
    }
}

struct Real;
impl Protocol for Real {}

/// A producer that keeps one version and uses slots again as soon as it may.
struct Producer<'a> {
    board: Eyes<'a>,
    versions: Vec<Leased>,
    sequence: u64,
    generation: u64,
}

impl<'a> Producer<'a> {
    fn new(memory: &'a Memory, life: Option<&'a Life>) -> Producer<'a> {
        Producer { board: Eyes { memory, life }, versions: Vec::new(), sequence: 0, generation: 0 }
    }

    /// Publishes unless readers hold all slots.
    fn publish<P: Protocol>(&mut self) {
        self.retire_old::<P>();
        let free = (0..SLOTS).find(|slot| self.versions.iter().all(|version| version.slot != *slot));
        let Some(slot) = free else { return };
        let sequence = self.sequence + 1;
        for part in &self.board.memory.content[slot] {
            if self.board.live() {
                // SAFETY: loom checks that no other access overlaps.
                part.with_mut(|content| unsafe { *content = self.generation * GENERATION + sequence });
            }
        }
        P::commit(&self.board, slot, sequence);
        self.sequence = sequence;
        self.versions.push(Leased { slot, sequence });
        self.retire_old::<P>();
    }

    fn retire_old<P: Protocol>(&mut self) {
        let newest = self.sequence;
        let board = &self.board;
        self.versions.retain(|version| version.sequence == newest || !P::retire(board, board.memory, *version));
    }

    /// Takes over from a producer that died after it had committed `committed`.
    fn recover(memory: &'a Memory, committed: u64) -> Producer<'a> {
        let board = Eyes { memory, life: None };
        let found = protocol::recover(&board);
        assert_eq!(board.newest().sequence(), committed);
        assert_eq!(found.last().map_or(0, |last| last.version.sequence), committed, "the last commit is there");
        assert!(found.last().is_none_or(|last| last.state == State::Live), "the last commit is live");
        for slot in 0..SLOTS {
            let stamp = board.stamp(slot);
            let known = found.iter().any(|one| Stamp::new(one.version.sequence, one.state) == stamp);
            assert!(known || stamp.state() == Some(State::Free), "slot {slot} is {stamp:?} of no version");
        }
        if let Some(last) = found.last() {
            assert_eq!(memory.read(last.version.slot), [committed; PARTS], "the last commit is whole");
        }
        let versions = found.into_iter().map(|one| one.version).collect();
        Producer { board, versions, sequence: committed, generation: 1 }
    }
}

/// Which version a reader asks for.
#[derive(Clone, Copy)]
enum Wish {
    Newest,
    Oldest,
}

fn look<P: Protocol>(memory: &Memory, wish: Wish) {
    let board = Eyes { memory, life: None };
    let leased = match wish {
        Wish::Newest => P::lease_newest(&board, memory),
        Wish::Oldest => protocol::list(&board).first().copied().filter(|first| P::lease(&board, memory, *first)),
    };
    if let Some(leased) = leased {
        read_and_release::<P>(memory, leased);
    }
}

fn read_and_release<P: Protocol>(memory: &Memory, leased: Leased) {
    let board = Eyes { memory, life: None };
    let content = memory.read(leased.slot);
    assert_eq!(content[0] % GENERATION, leased.sequence, "the content is the version's");
    assert_eq!(content, [content[0]; PARTS], "the content is whole");
    assert!(board.newest().sequence() >= leased.sequence, "the version is committed");
    assert_eq!(memory.read(leased.slot), content, "the content stays");
    P::release(memory, leased);
}

fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// One producer publishes three versions, so that the first slot is used twice, and each wish has a reader.
fn live<P: Protocol>(preemptions: usize, wishes: &'static [Wish]) {
    explore(preemptions, move || {
        let memory = Arc::new(Memory::new());
        let readers: Vec<_> = wishes
            .iter()
            .map(|wish| {
                let memory = memory.clone();
                loom::thread::spawn(move || look::<P>(&memory, *wish))
            })
            .collect();
        let mut producer = Producer::new(&memory, None);
        for _ in 0..3 {
            producer.publish::<P>();
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

/// One who holds a version hands it on, and lets go of it, while the producer publishes two more: the version is retired, and its
/// slot used again as soon as it may.
fn handed_on<P: Protocol>(preemptions: usize) {
    explore(preemptions, move || {
        let memory = Arc::new(Memory::new());
        let mut producer = Producer::new(&memory, None);
        producer.publish::<P>();
        let leased = P::lease_newest(&Eyes { memory: &memory, life: None }, &memory).unwrap();
        let is_leased = Arc::new(AtomicBool::new(true));
        let joining = {
            let (memory, is_leased) = (memory.clone(), is_leased.clone());
            loom::thread::spawn(move || {
                let board = Eyes { memory: &memory, life: None };
                if P::join(&board, &memory, leased, || is_leased.load(Ordering::Acquire)) {
                    read_and_release::<P>(&memory, leased);
                }
            })
        };
        let holding = {
            let memory = memory.clone();
            loom::thread::spawn(move || {
                is_leased.store(false, Ordering::Release);
                P::release(&memory, leased);
            })
        };
        producer.publish::<P>();
        producer.publish::<P>();
        joining.join().unwrap();
        holding.join().unwrap();
    });
}

/// A producer dies after each number of its steps, and another takes over and publishes, while a reader looks.
fn mortal<P: Protocol>(preemptions: usize, wish: Wish) {
    // Two publishes of two parts, a stamp and a commit each, and the two stamps of a retirement.
    const STEPS: usize = 2 * (PARTS + 2) + 2;
    for steps in 0..=STEPS {
        explore(preemptions, move || {
            let memory = Arc::new(Memory::new());
            let reader = {
                let memory = memory.clone();
                loom::thread::spawn(move || look::<P>(&memory, wish))
            };
            let life = Life { steps: Cell::new(steps), committed: Cell::new(0) };
            let mut first = Producer::new(&memory, Some(&life));
            first.publish::<P>();
            first.publish::<P>();
            let mut second = Producer::recover(&memory, life.committed.get());
            second.publish::<P>();
            second.publish::<P>();
            reader.join().unwrap();
        });
    }
}

#[test]
fn what_a_reader_of_the_newest_version_holds_is_whole_and_stays() {
    live::<Real>(5, &[Wish::Newest]);
}

#[test]
fn what_a_reader_of_a_chosen_version_holds_is_whole_and_stays() {
    live::<Real>(5, &[Wish::Oldest]);
}

#[test]
fn two_readers_do_not_get_into_each_others_way() {
    live::<Real>(2, &[Wish::Newest, Wish::Oldest]);
}

#[test]
fn what_is_handed_on_is_whole_and_stays() {
    handed_on::<Real>(3);
}

#[test]
fn a_producer_may_die_at_any_step_while_the_newest_version_is_read() {
    mortal::<Real>(3, Wish::Newest);
}

#[test]
fn a_producer_may_die_at_any_step_while_a_chosen_version_is_read() {
    mortal::<Real>(3, Wish::Oldest);
}

/// Each planted bug is the real function with one thing left out or turned round.
mod planted {
    use super::*;

    struct LeaseWithoutFence;
    impl Protocol for LeaseWithoutFence {
        fn lease(board: &Eyes, leases: &Memory, wanted: Leased) -> bool {
            sure(leases.hold(wanted.slot));
            if board.stamp(wanted.slot) == Stamp::new(wanted.sequence, State::Live) {
                return true;
            }
            leases.release(wanted.slot);
            false
        }
    }

    #[test]
    #[should_panic]
    fn a_lease_without_a_fence_is_noticed() {
        live::<LeaseWithoutFence>(3, &[Wish::Oldest]);
    }

    struct LeaseWithoutSecondLook;
    impl Protocol for LeaseWithoutSecondLook {
        fn lease(_: &Eyes, leases: &Memory, wanted: Leased) -> bool {
            sure(leases.hold(wanted.slot));
            fence(Ordering::SeqCst);
            true
        }
    }

    #[test]
    #[should_panic]
    fn a_lease_that_does_not_look_at_the_stamp_again_is_noticed() {
        live::<LeaseWithoutSecondLook>(3, &[Wish::Oldest]);
    }

    struct LeaseOfWhatIsLive;
    impl Protocol for LeaseOfWhatIsLive {
        fn lease(board: &Eyes, leases: &Memory, wanted: Leased) -> bool {
            sure(leases.hold(wanted.slot));
            fence(Ordering::SeqCst);
            if board.stamp(wanted.slot).state() == Some(State::Live) {
                return true;
            }
            leases.release(wanted.slot);
            false
        }
    }

    #[test]
    #[should_panic]
    fn a_lease_that_does_not_compare_the_sequence_number_is_noticed() {
        live::<LeaseOfWhatIsLive>(3, &[Wish::Oldest]);
    }

    struct JoinWithoutAsking;
    impl Protocol for JoinWithoutAsking {
        fn join(board: &Eyes, leases: &Memory, wanted: Leased, _: impl FnOnce() -> bool) -> bool {
            sure(protocol::join(board, leases, wanted, || true))
        }
    }

    #[test]
    #[should_panic]
    fn a_join_that_does_not_ask_is_noticed() {
        handed_on::<JoinWithoutAsking>(3);
    }

    struct JoinAfterAsking;
    impl Protocol for JoinAfterAsking {
        fn join(board: &Eyes, leases: &Memory, wanted: Leased, is_leased: impl FnOnce() -> bool) -> bool {
            let answer = is_leased();
            sure(protocol::join(board, leases, wanted, || answer))
        }
    }

    #[test]
    #[should_panic]
    fn a_join_that_asks_before_it_locks_is_noticed() {
        handed_on::<JoinAfterAsking>(3);
    }

    struct ReleaseWithoutFence;
    impl Protocol for ReleaseWithoutFence {
        fn release(leases: &Memory, leased: Leased) {
            leases.release(leased.slot);
        }
    }

    #[test]
    #[should_panic]
    fn a_release_without_a_fence_is_noticed() {
        live::<ReleaseWithoutFence>(3, &[Wish::Oldest]);
    }

    struct RetireWithoutFence;
    impl Protocol for RetireWithoutFence {
        fn retire(board: &Eyes, leases: &Memory, version: Leased) -> bool {
            board.set_stamp(version.slot, Stamp::new(version.sequence, State::Retiring));
            if sure(leases.is_held(version.slot)) {
                return false;
            }
            fence(Ordering::Acquire);
            board.set_stamp(version.slot, Stamp::new(version.sequence, State::Free));
            true
        }
    }

    #[test]
    #[should_panic]
    fn a_retirement_without_a_fence_is_noticed() {
        live::<RetireWithoutFence>(3, &[Wish::Oldest]);
    }

    struct RetireWithoutSecondFence;
    impl Protocol for RetireWithoutSecondFence {
        fn retire(board: &Eyes, leases: &Memory, version: Leased) -> bool {
            board.set_stamp(version.slot, Stamp::new(version.sequence, State::Retiring));
            fence(Ordering::SeqCst);
            if sure(leases.is_held(version.slot)) {
                return false;
            }
            board.set_stamp(version.slot, Stamp::new(version.sequence, State::Free));
            true
        }
    }

    #[test]
    #[should_panic]
    fn a_slot_written_before_the_locks_have_answered_is_noticed() {
        live::<RetireWithoutSecondFence>(3, &[Wish::Oldest]);
    }

    struct AskBeforeStamp;
    impl Protocol for AskBeforeStamp {
        fn retire(board: &Eyes, leases: &Memory, version: Leased) -> bool {
            if sure(leases.is_held(version.slot)) {
                return false;
            }
            fence(Ordering::SeqCst);
            board.set_stamp(version.slot, Stamp::new(version.sequence, State::Retiring));
            board.set_stamp(version.slot, Stamp::new(version.sequence, State::Free));
            true
        }
    }

    #[test]
    #[should_panic]
    fn a_retirement_that_asks_before_it_stamps_is_noticed() {
        live::<AskBeforeStamp>(3, &[Wish::Oldest]);
    }

    struct NewestBeforeStamp;
    impl Protocol for NewestBeforeStamp {
        fn commit(board: &Eyes, slot: usize, sequence: u64) {
            board.set_newest(Newest::new(sequence, slot));
            board.set_stamp(slot, Stamp::new(sequence, State::Live));
        }
    }

    #[test]
    #[should_panic(expected = "the last commit is there")]
    fn a_commit_that_names_a_version_before_it_is_live_is_noticed() {
        mortal::<NewestBeforeStamp>(2, Wish::Newest);
    }
}

/// Three ranks: one retires version 2 tentatively, one publishes it, one looks whether all have it. All have version 1.
mod group {
    use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::Arc;
    use stillframe_protocol::retention::{Peer, Retention, is_everywhere};

    #[derive(Default)]
    struct Head {
        newest: AtomicU64,
        has_two: AtomicBool,
        tentative: AtomicU64,
    }

    struct Seen(Arc<Head>);

    impl Peer for Seen {
        fn newest(&self) -> Option<u64> {
            Some(self.0.newest.load(Ordering::Acquire))
        }

        fn has(&self, version: u64) -> bool {
            version == 1 || version == 2 && self.0.has_two.load(Ordering::Acquire)
        }

        fn is_firm(&self, version: u64) -> bool {
            self.0.tentative.load(Ordering::Acquire) != version && self.has(version)
        }

        fn may_publish(&self) -> bool {
            true
        }
    }

    fn head(newest: u64, has_two: bool) -> Arc<Head> {
        let head =
            Head { newest: AtomicU64::new(newest), has_two: AtomicBool::new(has_two), tentative: AtomicU64::new(0) };
        Arc::new(head)
    }

    /// `looks` is what the retiring rank asks before it lets go.
    fn run(looks: fn(&[Seen]) -> bool) {
        loom::model(move || {
            let (retiring, publishing, looking) = (head(3, true), head(1, false), head(2, true));
            let seen = |heads: [&Arc<Head>; 2]| heads.map(|head| Seen(head.clone()));
            let others = seen([&publishing, &looking]);
            let retirement = {
                let head = retiring.clone();
                loom::thread::spawn(move || {
                    head.tentative.store(2, Ordering::Release);
                    if !looks(&others) {
                        head.has_two.store(false, Ordering::Release);
                    }
                    head.tentative.store(0, Ordering::Release);
                })
            };
            let publishes = {
                let head = publishing.clone();
                loom::thread::spawn(move || {
                    head.has_two.store(true, Ordering::Release);
                    head.newest.store(2, Ordering::Release);
                })
            };
            let mut retention = Retention::default();
            let spares = retention.spares(&[1, 2], 1, 2, &seen([&retiring, &publishing]));
            retirement.join().unwrap();
            publishes.join().unwrap();
            let is_there = retiring.has_two.load(Ordering::Acquire);
            let relies = retention.common() == Some(2);
            assert!(is_there || !relies, "what was relied on is gone");
            assert_eq!(relies, spares.iter().any(|spare| spare.version == 1));
        });
    }

    #[test]
    fn a_version_that_a_rank_relies_on_stays() {
        run(|others| is_everywhere(2, others));
    }

    #[test]
    #[should_panic(expected = "what was relied on is gone")]
    fn a_tentative_retirement_without_a_fence_is_noticed() {
        run(|others| others.iter().all(|other| other.has(2)));
    }
}
