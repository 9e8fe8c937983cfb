//! The algebra of index sets, held against sets of numbers and of index tuples.

use std::collections::BTreeSet;

use crate::model::{Dice, Element, disjoint, elements, index_box, progression};
use drepl::{IndexBox, IndexSet, Progression};
use proptest::prelude::*;

fn set(of: &Progression) -> BTreeSet<u64> {
    of.iter().collect()
}

fn every(boxes: &[IndexBox]) -> BTreeSet<Element> {
    boxes.iter().flat_map(elements).collect()
}

/// Anything a `u64` can be, and often what is at the end of its range.
fn hostile() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..4_u64,
        (u64::MAX - 3)..=u64::MAX,
        (0..64_u32).prop_map(|bit| 1 << bit),
        (0..64_u32, 0..3_u64).prop_map(|(bit, less)| (1_u64 << bit).wrapping_sub(less)),
    ]
}

fn hostile_progression() -> impl Strategy<Value = Progression> {
    (hostile(), hostile(), hostile()).prop_filter_map("no progression", |(start, step, count)| {
        let room = (u64::MAX - 1).checked_sub(start)?;
        Progression::new(start, step, room.checked_div(step).map_or(1, |rooms| count.min(rooms + 1)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..Default::default() })]

    #[test]
    fn progressions_meet_in_exactly_the_indices_they_share(seed: u64) {
        let dice = &mut Dice(seed);
        let (a, b) = (progression(dice, 90), progression(dice, 90));
        let common: BTreeSet<u64> = set(&a).intersection(&set(&b)).copied().collect();
        prop_assert_eq!(a.intersection(&b).map(|both| set(&both)).unwrap_or_default(), common.clone());
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.contains_all(&b), common == set(&b));
        let rest: Vec<Progression> = a.difference(&b).collect();
        let mut left = BTreeSet::new();
        for index in rest.iter().flat_map(Progression::iter) {
            prop_assert!(left.insert(index), "{} is named twice", index);
        }
        prop_assert_eq!(left, set(&a).difference(&set(&b)).copied().collect());
        prop_assert!(rest.len() as f64 <= 2.0 + (a.count() as f64).sqrt());
        let (low, high) = (dice.roll(0, 95), dice.roll(0, 95));
        let clipped = a.clip(low, high).map(|clipped| set(&clipped)).unwrap_or_default();
        prop_assert_eq!(clipped, set(&a).into_iter().filter(|i| low <= *i && *i < high).collect());
        prop_assert!((0..95).all(|index| a.contains(index) == set(&a).contains(&index)));
    }

    #[test]
    fn sets_of_boxes_behave_as_sets_of_elements(seed: u64) {
        let dice = &mut Dice(seed);
        let rank = dice.roll(0, 5) as usize;
        let extents: Vec<u64> = (0..rank).map(|_| dice.roll(1, [1, 40, 12, 6, 4, 3][rank])).collect();
        let mut some = || -> Vec<IndexBox> { (0..dice.roll(0, 20)).map(|_| index_box(dice, &extents)).collect() };
        let (first, second) = (some(), some());
        let (a, b) = (IndexSet::of(first.clone()).unwrap(), IndexSet::of(second.clone()).unwrap());
        let (all_a, all_b) = (every(&first), every(&second));
        prop_assert_eq!(&disjoint(a.boxes()), &all_a);
        prop_assert_eq!(a.count(), all_a.len() as u128);
        let union = a.union(&b).unwrap();
        prop_assert_eq!(disjoint(union.boxes()), all_a.union(&all_b).cloned().collect());
        let both = a.intersection(&b).unwrap();
        prop_assert_eq!(disjoint(both.boxes()), all_a.intersection(&all_b).cloned().collect());
        let rest = a.difference(&b).unwrap();
        prop_assert_eq!(disjoint(rest.boxes()), all_a.difference(&all_b).cloned().collect());
        prop_assert_eq!(a.contains_all(&b).unwrap(), all_b.is_subset(&all_a));
        prop_assert!(union.contains_all(&a).unwrap());
        prop_assert!(both.union(&rest).unwrap().same_elements(&a).unwrap());
        let mut stepwise = IndexSet::new();
        first.iter().try_for_each(|one| stepwise.insert(one)).unwrap();
        prop_assert!(stepwise.same_elements(&a).unwrap());
        second.iter().try_for_each(|one| stepwise.remove(one)).unwrap();
        prop_assert!(stepwise.same_elements(&rest).unwrap());
        let sent = postcard::to_allocvec(&a).unwrap();
        prop_assert_eq!(postcard::from_bytes::<IndexSet>(&sent).unwrap(), a);
    }

    #[test]
    fn whatever_cuts_a_box_up_what_is_left_and_what_was_cut_make_it_again(seed: u64) {
        let dice = &mut Dice(seed);
        let rank = dice.roll(1, 3) as usize;
        let extents: Vec<u64> = (0..rank).map(|_| dice.roll(1, 24)).collect();
        let whole = IndexSet::from(IndexBox::all(&extents).unwrap());
        let cuts = IndexSet::of((0..dice.roll(1, 60)).map(|_| index_box(dice, &extents))).unwrap();
        let left = whole.difference(&cuts).unwrap();
        let again = left.union(&cuts).unwrap();
        prop_assert_eq!(again.count(), whole.count());
        prop_assert!(again.same_elements(&whole).unwrap());
    }

    #[test]
    fn no_number_makes_the_algebra_panic(
        a in hostile_progression(), b in hostile_progression(), low in hostile(), high in hostile()
    ) {
        prop_assert!(a.start() <= a.last() && a.last() < a.end());
        prop_assert!(a.contains(a.start()) && a.contains(a.last()) && !a.contains(a.end()));
        let _ = (a.position(low), a.to_string());
        if let Some(clipped) = a.clip(low, high) {
            prop_assert!(a.contains_all(&clipped) && low <= clipped.start() && clipped.end() <= high);
        }
        let both = a.intersection(&b);
        prop_assert_eq!(both, b.intersection(&a));
        if let Some(both) = both {
            prop_assert!(a.contains_all(&both) && b.contains_all(&both));
            // The neighbours of the common indices are not common, or outside of both.
            prop_assert!(both.count() == 1 || !(a.contains(both.start() + 1) && b.contains(both.start() + 1))
                || both.step() == 1);
        }
        if a.difference(&b).bound() < 1000 {
            let rest: u128 = a.difference(&b).map(|p| u128::from(p.count())).sum();
            prop_assert_eq!(rest + both.map_or(0, |both| u128::from(both.count())), u128::from(a.count()));
        }
        let boxes = [IndexBox::new([a, b]), IndexBox::new([b, a])];
        if let [Some(first), Some(second)] = boxes {
            let (one, other) = (IndexSet::from(first), IndexSet::from(second));
            // Too scattered is an answer.
            if let (Ok(union), Ok(both)) = (one.union(&other), one.intersection(&other)) {
                prop_assert_eq!(union.count() + both.count(), one.count() + other.count());
            }
        }
    }

    #[test]
    fn bytes_that_name_no_canonical_progression_are_refused(start in hostile(), step in hostile(), count in hostile()) {
        let sent = postcard::to_allocvec(&(start, step, count)).unwrap();
        match postcard::from_bytes::<Progression>(&sent) {
            Ok(read) => prop_assert_eq!((read.start(), read.step(), read.count()), (start, step, count)),
            Err(_) => prop_assert!(Progression::new(start, step, count).is_none_or(|made| made.step() != step)),
        }
    }
}

#[test]
fn the_last_index_of_64_bits_is_no_index() {
    assert!(Progression::new(0, 1, u64::MAX).is_some());
    assert!(Progression::new(1, 1, u64::MAX).is_none());
    assert!(Progression::new(u64::MAX, 1, 1).is_none());
    assert!(Progression::new(0, 0, 2).is_none());
    assert!(Progression::new(5, 3, 0).is_none());
    assert_eq!(Progression::new(5, 0, 1), Progression::new(5, 7, 1));
}

#[test]
fn steps_whose_common_multiple_does_not_fit_meet_once_at_most() {
    let step = (1 << 32) + 15;
    let a = Progression::new(7, step, 1 << 31).unwrap();
    let b = Progression::new(7, step - 2, 1 << 31).unwrap();
    assert_eq!(a.intersection(&b), Progression::new(7, 1, 1));
    let c = Progression::new(8, step - 2, 1 << 31).unwrap();
    assert!(a.intersection(&c).is_none_or(|both| both.count() == 1));
}

#[test]
fn ranges_that_touch_are_named_as_one() {
    let part = |rows: (u64, u64), columns: (u64, u64)| {
        IndexBox::new([Progression::range(rows.0, rows.1).unwrap(), Progression::range(columns.0, columns.1).unwrap()])
            .unwrap()
    };
    let tiles: Vec<IndexBox> = (0..8)
        .flat_map(|i| (0..8).map(move |j| (i, j)))
        .map(|(i, j)| part((4 * i, 4 * i + 4), (2 * j, 2 * j + 2)))
        .collect();
    assert_eq!(IndexSet::of(tiles).unwrap().to_string(), "[0..32, 0..16]");
    let mut frame = IndexSet::from(part((0, 32), (0, 16)));
    frame.remove(&part((8, 16), (4, 8))).unwrap();
    assert!(frame.boxes().len() <= 4, "{frame}");
}

#[test]
fn residues_that_fill_each_others_gaps_are_named_as_one() {
    let residue = |first, step| IndexBox::new([Progression::new(first, step, 10).unwrap()]).unwrap();
    let name = |boxes: &[IndexBox]| IndexSet::of(boxes.to_vec()).unwrap().to_string();
    assert_eq!(name(&[residue(0, 4), residue(2, 4)]), "[0..39 step 2]");
    assert_eq!(name(&[residue(2, 3), residue(0, 3), residue(1, 3)]), "[0..30]");
    assert_eq!(name(&[residue(0, 3), residue(30, 3)]), "[0..58 step 3]");
    let ones: Vec<IndexBox> = [3, 9, 15, 21].map(|i| IndexBox::new(Progression::new(i, 1, 1)).unwrap()).to_vec();
    assert_eq!(name(&ones), "[3..22 step 6]");
}

#[test]
fn boxes_that_cut_each_other_into_too_many_pieces_are_an_error() {
    let whole = IndexBox::all(&[1 << 40]).unwrap();
    let sieve: Vec<IndexBox> = [1_000_003, 1_000_033, 1_000_037, 1_000_039]
        .map(|step| IndexBox::new([Progression::new(0, step, (1 << 40) / step).unwrap()]).unwrap())
        .to_vec();
    let refused = IndexSet::from(whole).difference(&IndexSet::from(sieve[0].clone())).and_then(|rest| {
        let mut rest = rest;
        sieve[1..].iter().try_for_each(|one| rest.remove(one))
    });
    assert!(refused.is_err());
}

#[test]
fn thousands_of_blocks_are_put_together_again_whether_they_lie_apart_or_interleave() {
    let block = |i: u64, j: u64, k: u64| {
        IndexBox::new([i, j, k].map(|at| Progression::range(8 * at, 8 * at + 8).unwrap())).unwrap()
    };
    let mut blocks: Vec<IndexBox> = Vec::new();
    for at in 0..4096 {
        // Multiplied by an odd number modulo 4096: each block once, in no order.
        let at = at * 1237 % 4096;
        blocks.push(block(at / 256, at / 16 % 16, at % 16));
    }
    assert_eq!(IndexSet::of(blocks.clone()).unwrap().to_string(), "[0..128, 0..128, 0..128]");
    let whole = IndexSet::from(IndexBox::all(&[128, 128, 128]).unwrap());
    let removed = blocks.split_off(4095);
    let hole = whole.difference(&IndexSet::of(blocks.clone()).unwrap()).unwrap();
    assert_eq!(hole.boxes(), removed);

    let rank = |r: u64| IndexBox::new([Progression::new(r * 1237 % 4096, 4096, 8).unwrap()]).unwrap();
    let mut cyclic: Vec<IndexBox> = (0..4096).map(rank).collect();
    assert_eq!(IndexSet::of(cyclic.clone()).unwrap().to_string(), "[0..32768]");
    let removed = cyclic.pop().unwrap();
    let whole = IndexSet::from(IndexBox::all(&[32768]).unwrap());
    assert_eq!(whole.difference(&IndexSet::of(cyclic.clone()).unwrap()).unwrap().boxes(), [removed]);
}

#[test]
fn boxes_from_elsewhere_are_a_set_as_they_are_if_they_share_nothing() {
    use drepl::index_set::NotDisjoint;
    let one = |start, step, count| IndexBox::new([Progression::new(start, step, count).unwrap()]).unwrap();
    let apart = vec![one(1, 2, 50), one(0, 2, 50), one(200, 1, 5)];
    let mut comparisons = 100;
    let set = IndexSet::from_disjoint(apart.clone(), &mut comparisons).unwrap();
    assert_eq!(set.boxes(), apart);
    assert_eq!(comparisons, 95, "each with itself, and two with each other");

    let shared = vec![one(0, 2, 50), one(200, 1, 5), one(4, 3, 2)];
    assert_eq!(IndexSet::from_disjoint(shared, &mut 100), Err(NotDisjoint::Overlap { first: 0, second: 2 }));
    let ranks = vec![one(0, 1, 1), IndexBox::new([]).unwrap()];
    assert_eq!(IndexSet::from_disjoint(ranks, &mut 100), Err(NotDisjoint::Ranks { second: 1 }));
    assert_eq!(IndexSet::from_disjoint(apart, &mut 4), Err(NotDisjoint::TooScattered));
    assert_eq!(IndexSet::from_disjoint(Vec::new(), &mut 0), Ok(IndexSet::new()));
}
