//! Writes to one of several fragments of the same data, held against a model that looks at each element by itself.

use crate::model;

use std::{collections::BTreeMap, sync::Arc};

use crate::model::{Dice, Element};
use drepl::{Fragment, IndexSet, Part, Participant, Updates, Written, dataset::LeafId, overlaps, update::UpdateError};
use proptest::prelude::*;

fn participants(dice: &mut Dice) -> Vec<Participant> {
    let dataset = model::dataset(dice);
    (0..dice.roll(1, 7))
        .map(|_| {
            let readonly = dice.one_in(3);
            let fragment = Arc::new(model::fragment(dice, &dataset, 4, !readonly));
            Participant { fragment, materialised: !dice.one_in(4), readonly }
        })
        .collect()
}

fn written(dice: &mut Dice, fragment: &Fragment) -> Written {
    match dice.roll(0, 2) {
        0 => Written::All,
        1 => {
            let leaf = LeafId(dice.roll(0, fragment.dataset().leaves().len() as u64 - 1) as u32);
            let extents = &fragment.dataset().leaves()[leaf.0 as usize].extents;
            let boxes: Vec<_> = (0..dice.roll(0, 4)).map(|_| model::index_box(dice, extents)).collect();
            Written::Elements(leaf, IndexSet::of(boxes).unwrap())
        }
        _ => {
            let start = dice.roll(0, fragment.size_bytes() + 3);
            Written::Bytes(start..dice.roll(start, fragment.size_bytes() + 9))
        }
    }
}

/// Which part of the writer holds each element that was written.
fn changed<'f>(fragment: &'f Fragment, written: &Written) -> BTreeMap<(LeafId, Element), &'f Part> {
    let mut changed = BTreeMap::new();
    for part in fragment.parts() {
        for element in model::elements(&part.elements) {
            let bytes = model::bytes_of(part, &element);
            let hit = match written {
                Written::All => true,
                Written::Elements(leaf, set) => *leaf == part.leaf && set.contains(&element),
                Written::Bytes(range) => bytes.iter().any(|byte| range.contains(&(*byte as u64))),
            };
            if hit {
                changed.insert((part.leaf, element), part);
            }
        }
    }
    changed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..Default::default() })]

    #[test]
    fn a_write_refreshes_what_was_written_in_every_materialised_fragment_and_nothing_else(seed: u64) {
        let dice = &mut Dice(seed);
        let participants = participants(dice);
        let updates = Updates::new(participants.clone()).unwrap();
        let writer = dice.roll(0, participants.len() as u64 - 1) as usize;
        let fragment = &participants[writer].fragment;
        let written = written(dice, fragment);
        let found = updates.write(writer, &written);
        if participants[writer].readonly {
            prop_assert_eq!(found, Err(UpdateError::Readonly { position: writer }));
            return Ok(());
        }
        let found = found.unwrap();
        prop_assert!(found.is_sorted_by(|a, b| a.destination < b.destination));
        let changed = changed(fragment, &written);
        let source = dice.bytes(fragment.size_bytes());
        for (position, participant) in participants.iter().enumerate() {
            let before = dice.bytes(participant.fragment.size_bytes());
            let mut right = before.clone();
            let mut concerned = false;
            for part in participant.fragment.parts() {
                for element in model::elements(&part.elements) {
                    let Some(from) = changed.get(&(part.leaf, element.clone())) else { continue };
                    if participant.materialised && position != writer {
                        concerned = true;
                        model::copy(&element, from, &source, part, &mut right);
                    }
                }
            }
            let own: Vec<_> = found.iter().filter(|update| update.destination == position).collect();
            prop_assert_eq!(own.len(), usize::from(concerned));
            let mut after = before;
            for (from, transfer) in own.iter().flat_map(|update| &update.plan.transfers) {
                prop_assert_eq!(*from, writer);
                model::interpret(transfer, &source, &mut after);
            }
            prop_assert_eq!(after, right);
            prop_assert!(own.iter().all(|update| update.plan.is_complete()));
        }
    }

    #[test]
    fn bytes_touch_the_elements_that_have_one_of_them(seed: u64) {
        let dice = &mut Dice(seed);
        let dataset = model::dataset(dice);
        let fragment = model::fragment(dice, &dataset, 3, false);
        let start = dice.roll(0, fragment.size_bytes() + 2);
        let range = start..dice.roll(start, fragment.size_bytes() + 2);
        let touched = fragment.touched(range.clone());
        for (number, part) in fragment.parts().iter().enumerate() {
            let boxes: Vec<_> = touched.iter().filter(|found| found.0 == number).map(|found| &found.1).collect();
            prop_assert!(boxes.len() <= 2 * part.elements.rank() + 2);
            let hit = |element: &Element| {
                model::bytes_of(part, element).iter().any(|byte| range.contains(&(*byte as u64)))
            };
            let expected = model::elements(&part.elements).into_iter().filter(hit).collect();
            prop_assert_eq!(model::disjoint(boxes), expected);
        }
    }

    #[test]
    fn writers_that_overlap_are_found_with_the_elements_they_share(seed: u64) {
        let dice = &mut Dice(seed);
        let participants = participants(dice);
        let fragments: Vec<&Fragment> = participants.iter().map(|participant| &*participant.fragment).collect();
        let found = overlaps(&fragments).unwrap();
        for (i, first) in fragments.iter().enumerate() {
            for (j, second) in fragments.iter().enumerate() {
                for (a, part) in first.parts().iter().enumerate() {
                    for (b, other) in second.parts().iter().enumerate() {
                        let common = part.elements.intersection(&other.elements).filter(|_| part.leaf == other.leaf);
                        let named = found.iter().filter(|o| o.first == (i, a) && o.second == (j, b));
                        let named: Vec<_> = named.map(|overlap| overlap.elements.clone()).collect();
                        prop_assert_eq!(named, common.filter(|_| i < j).into_iter().collect::<Vec<_>>());
                    }
                }
            }
        }
        for fragment in fragments {
            let twice = fragment.parts().iter().enumerate().any(|(a, part)| {
                let same = |other: &&drepl::Part| other.leaf == part.leaf;
                fragment.parts()[..a].iter().filter(same).any(|o| o.elements.intersection(&part.elements).is_some())
            });
            match fragment.repeated() {
                None => prop_assert!(!twice),
                Some(repeated) => {
                    let parts = [repeated.first, repeated.second].map(|number| &fragment.parts()[number]);
                    prop_assert_ne!(repeated.first, repeated.second);
                    prop_assert_eq!(parts[0].leaf, parts[1].leaf);
                    prop_assert!(parts.iter().all(|part| part.elements.contains_all(&repeated.elements)));
                }
            }
        }
    }
}

#[test]
fn who_writes_must_hold_each_element_once_and_be_there() {
    let dice = &mut Dice(1);
    let (fragment, twice) = loop {
        let dataset = model::dataset(dice);
        let fragment = Arc::new(model::fragment(dice, &dataset, 4, false));
        if let Some(twice) = fragment.repeated() {
            break (fragment, twice);
        }
    };
    let participant = |readonly| Participant { fragment: fragment.clone(), materialised: true, readonly };
    let refused = Updates::new(vec![participant(true), participant(false)]).unwrap_err();
    assert_eq!(refused, UpdateError::Repeated { position: 1, repeated: Box::new(twice) });
    assert!(refused.to_string().contains("twice"));
    let updates = Updates::new(vec![participant(true)]).unwrap();
    let refused = updates.write(1, &Written::All).unwrap_err();
    assert_eq!(refused, UpdateError::NoSuchParticipant { position: 1, participants: 1 });
}
