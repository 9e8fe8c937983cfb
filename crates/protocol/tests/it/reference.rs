//! Listing and recovery against a plain list of versions, for boards as producers leave them and boards full of rubbish.
#![cfg(not(loom))]

use proptest::prelude::*;
use std::cell::Cell;
use std::convert::Infallible;
use stillframe_protocol::{self as protocol, Board, Leased, Leases, Newest, Recovered, Stamp, State};

const SLOTS: usize = 5;

#[derive(Debug, Clone, Default, PartialEq)]
struct Words {
    newest: Cell<u64>,
    stamps: [Cell<u64>; SLOTS],
    /// Holds on each slot.
    holds: [Cell<u32>; SLOTS],
}

impl Board for Words {
    fn newest(&self) -> Newest {
        Newest(self.newest.get())
    }

    fn set_newest(&self, newest: Newest) {
        self.newest.set(newest.0);
    }

    fn stamp(&self, slot: usize) -> Stamp {
        Stamp(self.stamps[slot].get())
    }

    fn set_stamp(&self, slot: usize, stamp: Stamp) {
        self.stamps[slot].set(stamp.0);
    }

    fn slots(&self) -> usize {
        SLOTS
    }
}

impl Leases for Words {
    type Error = Infallible;

    fn hold(&self, slot: usize) -> Result<(), Infallible> {
        self.holds[slot].set(self.holds[slot].get() + 1);
        Ok(())
    }

    fn release(&self, slot: usize) {
        self.holds[slot].set(self.holds[slot].get() - 1);
    }

    fn is_held(&self, slot: usize) -> Result<bool, Infallible> {
        Ok(self.holds[slot].get() > 0)
    }
}

/// What a producer and its observers do.
#[derive(Debug, Clone)]
enum Step {
    Publish,
    /// Retires one of the versions that are not the newest.
    Retire(prop::sample::Index),
    /// Stamps a version live and dies before the commit; the next producer recovers.
    DieBeforeCommit,
    Die,
    Hold(prop::sample::Index),
    HoldNewest,
    Release(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Publish),
        3 => any::<prop::sample::Index>().prop_map(Step::Retire),
        1 => Just(Step::DieBeforeCommit),
        1 => Just(Step::Die),
        2 => any::<prop::sample::Index>().prop_map(Step::Hold),
        1 => Just(Step::HoldNewest),
        2 => any::<prop::sample::Index>().prop_map(Step::Release),
    ]
}

proptest! {
    #[test]
    fn versions_are_listed_leased_and_recovered_as_a_plain_list_says(steps in prop::collection::vec(step(), 0..60)) {
        let words = Words::default();
        let mut versions: Vec<Recovered> = Vec::new();
        let mut held: Vec<Leased> = Vec::new();
        let mut sequence = 0;
        for step in steps {
            let free = (0..SLOTS).find(|slot| versions.iter().all(|known| known.version.slot != *slot));
            match step {
                Step::Publish => if let Some(slot) = free {
                    sequence += 1;
                    protocol::commit(&words, slot, sequence);
                    versions.push(Recovered { version: Leased { slot, sequence }, state: State::Live });
                },
                Step::Retire(index) if versions.len() > 1 => {
                    let index = index.index(versions.len() - 1);
                    let is_held = held.contains(&versions[index].version);
                    let Ok(gone) = protocol::retire(&words, &words, versions[index].version);
                    prop_assert_eq!(gone, !is_held);
                    match gone {
                        true => drop(versions.remove(index)),
                        false => versions[index].state = State::Retiring,
                    }
                }
                Step::DieBeforeCommit => {
                    if let Some(slot) = free {
                        words.set_stamp(slot, Stamp::new(sequence + 1, State::Live));
                    }
                    prop_assert_eq!(&protocol::recover(&words), &versions);
                }
                Step::Die => prop_assert_eq!(&protocol::recover(&words), &versions),
                Step::Hold(index) if !versions.is_empty() => {
                    let wanted = versions[index.index(versions.len())];
                    let Ok(leased) = protocol::lease(&words, &words, wanted.version);
                    prop_assert_eq!(leased, wanted.state == State::Live);
                    held.extend(leased.then_some(wanted.version));
                }
                Step::HoldNewest => {
                    let Ok(leased) = protocol::lease_newest(&words, &words);
                    prop_assert_eq!(leased, versions.last().map(|last| last.version));
                    held.extend(leased);
                }
                Step::Release(index) if !held.is_empty() => {
                    protocol::release(&words, held.swap_remove(index.index(held.len())));
                }
                Step::Retire(_) | Step::Hold(_) | Step::Release(_) => {}
            }
            let live = |known: &&Recovered| known.state == State::Live;
            let expected: Vec<Leased> = versions.iter().filter(live).map(|known| known.version).collect();
            prop_assert_eq!(protocol::list(&words), expected);
            let holds: Vec<u32> = words.holds.iter().map(Cell::get).collect();
            let counted = |slot| held.iter().filter(|leased| leased.slot == slot).count() as u32;
            prop_assert_eq!(holds, (0..SLOTS).map(counted).collect::<Vec<_>>());
        }
    }

    #[test]
    fn rubbish_on_the_board_is_listed_and_recovered_without_harm(
        newest in (0u64..9, 0u64..256),
        stamps in prop::array::uniform5((0u64..9, prop_oneof![0u64..4, Just(255)])),
    ) {
        let words = Words::default();
        words.newest.set(newest.0 << 8 | newest.1);
        for (word, (sequence, state)) in words.stamps.iter().zip(stamps) {
            word.set(sequence << 8 | state);
        }
        let expected = |retiring: bool| {
            let all = stamps.iter().enumerate();
            let known = all.filter(|(_, (sequence, state))| {
                *sequence <= newest.0 && (*state == 1 || retiring && *state == 2) && (!retiring || *sequence > 0)
            });
            let mut known: Vec<(u64, usize)> = known.map(|(slot, (sequence, _))| (*sequence, slot)).collect();
            known.sort_by_key(|(sequence, _)| *sequence);
            known
        };
        let pair = |leased: &Leased| (leased.sequence, leased.slot);
        prop_assert_eq!(protocol::list(&words).iter().map(pair).collect::<Vec<_>>(), expected(false));
        let Ok(leased) = protocol::lease_newest(&words, &words);
        if let Some(leased) = leased {
            prop_assert_eq!(Newest::new(leased.sequence, leased.slot), words.newest());
            prop_assert_eq!(words.stamp(leased.slot), Stamp::new(leased.sequence, State::Live));
            protocol::release(&words, leased);
        }
        prop_assert!(words.holds.iter().all(|holds| holds.get() == 0));
        let recovered = protocol::recover(&words);
        prop_assert_eq!(recovered.iter().map(|one| pair(&one.version)).collect::<Vec<_>>(), expected(true));
        prop_assert_eq!(protocol::recover(&words), recovered.clone());
        for slot in 0..SLOTS {
            let known = recovered.iter().any(|one| one.version.slot == slot);
            prop_assert_eq!(words.stamp(slot).state() != Some(State::Free), known);
        }
    }
}
