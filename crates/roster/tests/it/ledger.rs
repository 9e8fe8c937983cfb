//! What the ledger says to people and to readers.

use drepl::{IndexBox, IndexSet, Progression};
use stillframe_roster::{
    ledger::Ledger,
    readiness::{Cause, Readiness},
    refusal::Refusal,
    roster::Closure,
    writer::{Node, Published, Stage, Version, Who, Writer},
};

fn who(process: u32) -> Who {
    Who { writer: Writer { node: Node(process), process, serial: 0 }, rank: Some(process) }
}

fn range(start: u64, end: u64) -> IndexSet {
    IndexBox::new([Progression::range(start, end).unwrap()]).unwrap().into()
}

fn publish(ledger: &mut Ledger, process: u32, versions: &[Version]) {
    let published = Published { newest: versions.last().copied(), present: versions.iter().copied().collect() };
    ledger.note(who(process).writer, published);
}

/// Two writers of an object of ten elements.
fn two() -> Ledger {
    let mut ledger = Ledger::new(IndexBox::all(&[10]).unwrap(), 0);
    ledger.declare(who(0), Stage::member(1, range(0, 5)), None).unwrap();
    ledger.declare(who(1), Stage::member(1, range(5, 10)), None).unwrap();
    ledger
}

#[test]
fn the_initial_version_is_whole_at_once_and_is_zeros() {
    let ledger = Ledger::new(IndexBox::all(&[10]).unwrap(), 3);
    assert!(ledger.is_whole(3).unwrap());
    assert_eq!(ledger.readiness(3, &range(2, 4)).unwrap(), Readiness::Ready(Vec::new()));
}

#[test]
fn an_overlap_names_both_fragments_and_what_they_share() {
    let refusal = two().declare(who(2), Stage::member(1, range(4, 7)), None).unwrap_err();
    let text = refusal.to_string();
    for part in ["rank 2", "rank 0", "both write [4] of version 1", "[4..7]", "[0..5]"] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}

#[test]
fn a_border_moves_between_two_versions_and_older_epochs_stay() {
    let mut ledger = two();
    publish(&mut ledger, 0, &[1]);
    publish(&mut ledger, 1, &[1]);
    ledger.declare(who(0), Stage::member(2, range(0, 7)), None).unwrap();
    assert_eq!(ledger.roster(2).closure().unwrap(), Closure::Overlapping, "rank 1 has still to say so");
    ledger.declare(who(1), Stage::member(2, range(7, 10)), None).unwrap();
    assert!(ledger.settle_disputes().is_empty());
    assert_eq!(ledger.roster(2).closure().unwrap(), Closure::Closed);
    assert!(ledger.is_whole(1).unwrap(), "version 1 is as it was");
    assert_eq!((ledger.roster(1).epoch, ledger.roster(2).epoch), (1, 2));
}

#[test]
fn a_fragment_that_grows_into_one_that_stays_is_refused() {
    let mut ledger = two();
    publish(&mut ledger, 0, &[1]);
    ledger.declare(who(0), Stage::member(2, range(0, 7)), None).unwrap();
    publish(&mut ledger, 1, &[1, 2]);
    let refused = ledger.settle_disputes();
    assert!(matches!(&refused[..], [(writer, 2, Refusal::Overlap(_))] if *writer == who(0).writer), "{refused:?}");
    assert_eq!(ledger.roster(2).closure().unwrap(), Closure::Closed, "it is as before");
}

#[test]
fn who_took_the_place_of_a_change_that_is_refused_has_to_wait_and_is_refused_too() {
    let mut ledger = Ledger::new(IndexBox::all(&[10]).unwrap(), 0);
    ledger.declare(who(0), Stage::member(1, range(0, 5)), None).unwrap();
    ledger.declare(who(1), Stage::member(1, range(5, 10)), None).unwrap();
    ledger.declare(who(0), Stage::member(2, range(5, 10)), None).unwrap();
    ledger.declare(who(2), Stage::member(2, range(0, 5)), None).unwrap();
    publish(&mut ledger, 2, &[2]);
    assert!(ledger.settle_disputes().is_empty());
    let waits = |ledger: &Ledger| matches!(ledger.readiness(2, &range(0, 5)).unwrap(), Readiness::Waiting(_));
    assert!(waits(&ledger), "rank 1 may stay, and then rank 0 is again where rank 2 is");
    publish(&mut ledger, 1, &[1, 2]);
    let refused: Vec<Writer> = ledger.settle_disputes().into_iter().map(|(writer, ..)| writer).collect();
    assert_eq!(refused, [who(0).writer], "what rank 0 was goes on, and it may still leave");
    assert!(waits(&ledger));
    publish(&mut ledger, 0, &[1, 2]);
    let refused: Vec<Writer> = ledger.settle_disputes().into_iter().map(|(writer, ..)| writer).collect();
    assert_eq!(refused, [who(2).writer]);
    assert!(ledger.is_whole(2).unwrap());
}

#[test]
fn what_was_published_of_a_fragment_that_is_refused_is_not_of_the_one_before() {
    let mut ledger = two();
    publish(&mut ledger, 0, &[1]);
    ledger.declare(who(0), Stage::member(2, range(2, 7)), None).unwrap();
    publish(&mut ledger, 0, &[1, 2]);
    publish(&mut ledger, 1, &[1, 2]);
    assert_eq!(ledger.settle_disputes().len(), 1);
    let Readiness::Lost(losses) = ledger.readiness(2, &range(0, 5)).unwrap() else { panic!("it has other elements") };
    assert_eq!(losses[0].cause, Cause::Gone);
}

#[test]
fn writers_may_change_places_in_a_circle() {
    let mut ledger = Ledger::new(IndexBox::all(&[9]).unwrap(), 0);
    let block = |position: u32| range(u64::from(position % 3) * 3, u64::from(position % 3) * 3 + 3);
    (0..3).for_each(|rank| ledger.declare(who(rank), Stage::member(1, block(rank)), None).unwrap());
    (0..3).for_each(|rank| ledger.declare(who(rank), Stage::member(2, block(rank + 1)), None).unwrap());
    assert!(ledger.settle_disputes().is_empty());
    (0..3).for_each(|rank| publish(&mut ledger, rank, &[1, 2]));
    assert!(ledger.is_whole(2).unwrap());
}

#[test]
fn who_comes_into_the_way_of_what_was_read_is_refused() {
    let mut ledger = Ledger::new(IndexBox::all(&[10]).unwrap(), 0);
    ledger.declare(who(0), Stage::member(2, range(0, 7)), None).unwrap();
    publish(&mut ledger, 0, &[2]);
    assert!(matches!(ledger.readiness(2, &range(5, 7)).unwrap(), Readiness::Ready(_)));
    let refusal = ledger.declare(who(1), Stage::member(1, range(5, 10)), None).unwrap_err();
    assert!(matches!(refusal, Refusal::Overlap(_)), "{refusal}");
}

#[test]
fn a_reader_learns_whose_elements_died_and_which_are_still_to_come() {
    let mut ledger = two();
    publish(&mut ledger, 0, &[1]);
    let Readiness::Waiting(shares) = ledger.readiness(1, &range(4, 6)).unwrap() else { panic!() };
    assert_eq!((shares[0].who, &*shares[0].elements), (Some(who(1)), &range(5, 6)));
    ledger.die(who(1).writer);
    let Readiness::Lost(losses) = ledger.readiness(1, &range(4, 6)).unwrap() else { panic!() };
    assert_eq!((losses[0].cause, losses[0].share.who), (Cause::Died, Some(who(1))));
    assert!(matches!(ledger.readiness(1, &range(0, 5)).unwrap(), Readiness::Ready(_)), "the others may be read");
    ledger.declare(who(2), Stage::member(1, range(5, 10)), None).unwrap();
    publish(&mut ledger, 2, &[1]);
    assert!(ledger.is_whole(1).unwrap(), "another writer took its place");
}

#[test]
fn what_a_lost_node_had_is_lost() {
    let mut ledger = two();
    publish(&mut ledger, 0, &[1]);
    publish(&mut ledger, 1, &[1]);
    ledger.lose(Node(1));
    assert!(!ledger.is_whole(1).unwrap());
    let Readiness::Lost(losses) = ledger.readiness(1, &range(0, 10)).unwrap() else { panic!() };
    assert_eq!((losses.len(), losses[0].cause), (1, Cause::NodeLost));
}

#[test]
fn holes_are_known_where_the_program_said_how_many_write() {
    let mut ledger = Ledger::new(IndexBox::all(&[10]).unwrap(), 0);
    ledger.declare(who(0), Stage::member_of(1, range(0, 4), 2), None).unwrap();
    assert_eq!(ledger.roster(1).closure().unwrap(), Closure::Open { missing: Some(1) });
    ledger.declare(who(1), Stage::member_of(1, range(6, 10), 2), None).unwrap();
    assert_eq!(ledger.roster(1).closure().unwrap(), Closure::Closed);
    assert_eq!(ledger.holes(1).unwrap(), range(4, 6));
    let Readiness::Lost(losses) = ledger.readiness(1, &range(4, 5)).unwrap() else { panic!() };
    assert_eq!(losses[0].cause, Cause::Unwritten);
}

/// A box of one leaf of an object of several: the leaf's number, and its indices.
fn in_leaf(leaf: u64, axes: [(u64, u64); 2]) -> IndexBox {
    let axes = axes.map(|(start, end)| Progression::range(start, end).unwrap());
    IndexBox::new([Progression::range(leaf, leaf + 1).unwrap()].into_iter().chain(axes)).unwrap()
}

/// An object of a matrix of 4 by 6 and of a vector of 9, which has an axis of one index more.
fn matrix_and_vector() -> Ledger {
    let shape = IndexSet::of([in_leaf(0, [(0, 4), (0, 6)]), in_leaf(1, [(0, 9), (0, 1)])]).unwrap();
    Ledger::new(shape, 0)
}

#[test]
fn leaves_of_different_rank_have_nothing_in_common_and_are_both_needed() {
    let mut ledger = matrix_and_vector();
    let (matrix, vector) = (in_leaf(0, [(0, 4), (0, 6)]), in_leaf(1, [(0, 9), (0, 1)]));
    ledger.declare(who(0), Stage::member(1, matrix.clone()), None).unwrap();
    assert_eq!(ledger.roster(1).closure().unwrap(), Closure::Open { missing: None });
    assert_eq!(ledger.holes(1).unwrap(), IndexSet::from(vector.clone()), "the matrix has none");
    publish(&mut ledger, 0, &[1]);
    assert!(!ledger.is_whole(1).unwrap(), "the vector is missing");
    // The same indices as elements of the matrix, of another leaf.
    ledger.declare(who(1), Stage::member(1, in_leaf(1, [(0, 4), (0, 1)])), None).unwrap();
    assert_eq!(ledger.holes(1).unwrap(), IndexSet::from(in_leaf(1, [(4, 9), (0, 1)])));
    ledger.declare(who(2), Stage::member(1, in_leaf(1, [(4, 9), (0, 1)])), None).unwrap();
    assert!(ledger.settle_disputes().is_empty());
    assert_eq!(ledger.roster(1).closure().unwrap(), Closure::Closed);
    assert!(ledger.holes(1).unwrap().is_empty());
    publish(&mut ledger, 1, &[1]);
    let wanted = IndexSet::of([matrix, vector]).unwrap();
    let Readiness::Waiting(shares) = ledger.readiness(1, &wanted).unwrap() else { panic!() };
    assert_eq!(shares.iter().map(|share| share.who).collect::<Vec<_>>(), [Some(who(2))]);
    publish(&mut ledger, 2, &[1]);
    assert!(ledger.is_whole(1).unwrap());
    let Readiness::Ready(shares) = ledger.readiness(1, &wanted).unwrap() else { panic!() };
    assert_eq!(shares.iter().map(|share| share.elements.count()).collect::<Vec<_>>(), [24, 4, 5]);
}

#[test]
fn what_is_in_the_box_around_all_leaves_but_in_none_is_outside() {
    let mut ledger = matrix_and_vector();
    for part in [in_leaf(0, [(0, 5), (0, 1)]), in_leaf(1, [(0, 4), (0, 2)]), in_leaf(2, [(0, 1), (0, 1)])] {
        let refused = ledger.declare(who(0), Stage::member(1, part.clone()), None);
        let Err(Refusal::Outside { part: named, .. }) = &refused else { panic!("{part}: {refused:?}") };
        assert_eq!(**named, IndexSet::from(part));
    }
    let unpadded = ledger.declare(who(0), Stage::member(1, range(0, 4)), None);
    assert!(matches!(unpadded, Err(Refusal::Outside { .. })), "a box of too few axes is of no leaf: {unpadded:?}");
    assert_eq!(ledger.records().count(), 0, "nothing has changed");
    // The first column of both: one box, which no box of the shape has alone.
    let columns = IndexBox::new([(0, 2), (0, 4), (0, 1)].map(|(start, end)| Progression::range(start, end).unwrap()));
    ledger.declare(who(0), Stage::member(1, columns.unwrap()), None).unwrap();
    let rest = IndexSet::of([in_leaf(0, [(0, 4), (1, 6)]), in_leaf(1, [(4, 9), (0, 1)])]).unwrap();
    assert!(ledger.holes(1).unwrap().same_elements(&rest).unwrap());
}
