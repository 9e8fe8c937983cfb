//! A machine that was lost comes back with what its writers published meanwhile: what became complete without it keeps its content, also
//! when those that took its writers' places have ended or are forgotten. What it had a part in stays, too.

use drepl::{IndexBox, IndexSet, Progression};
use stillframe_roster::{
    home::Home,
    readiness::Readiness,
    refusal::Refusal,
    runtime::{Event, Runtime},
    writer::{Node, Stage, Version, Who, Writer},
};

/// The machine that stays, with the home; the one that is lost, under its two numbers; and one that only reads.
const STAYS: u32 = 5;
const LOST: u32 = 1;
const READS: u32 = 2;

/// Numbers that the lost machine has when it is back: below and above those of others.
const AGAIN: [u32; 2] = [4, 7];

/// How an heir ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It detaches.
    Left,
    /// It detaches, and nothing of it is left.
    Forgotten,
    Killed,
}

/// What a machine finds when it is back.
#[derive(Debug, Clone, Copy)]
struct Return {
    number: u32,
    is_new_home: bool,
    /// Whether its writer still lives.
    is_alive: bool,
}

impl Return {
    fn all() -> impl Iterator<Item = Return> {
        let both = [false, true];
        let of = move |number| {
            both.into_iter()
                .flat_map(move |is_new_home| both.map(|is_alive| Return { number, is_new_home, is_alive }).into_iter())
        };
        AGAIN.into_iter().flat_map(of)
    }

    fn first(self) -> Who {
        who(self.number, 1)
    }

    /// The runtime of the machine that is back, whose programs knew `floor` to be complete.
    fn runtime(self, floor: Version, versions: impl IntoIterator<Item = Version>) -> Runtime {
        let mut back = node(self.number);
        back.set_floor(floor, 0);
        back.restore(self.first(), vec![Stage::member(1, range(0, 4))]);
        publish(&mut back, self.first(), versions);
        if !self.is_alive {
            back.die(self.first().writer);
        }
        back
    }

    /// The home hears of the machine, or another one begins where that is.
    fn home(self, home: &mut Home, others: &mut [&mut Runtime], back: &mut Runtime) {
        if self.is_new_home {
            *home = Home::new(2, range(0, 8), 0, [STAYS, READS, self.number].map(Node));
            home.set_replaced([(Node(LOST), Node(self.number))]);
            others.iter_mut().for_each(|node| node.follow(2));
            back.follow(2);
        } else {
            home.replace(Node(LOST), Node(self.number));
        }
    }
}

fn who(node: u32, process: u32) -> Who {
    Who { writer: Writer { node: Node(node), process, serial: 0 }, rank: None }
}

fn range(start: u64, end: u64) -> IndexSet {
    IndexBox::new([Progression::range(start, end).unwrap()]).unwrap().into()
}

fn node(number: u32) -> Runtime {
    let mut node = Runtime::new(Node(number), 0);
    node.follow(1);
    node
}

fn publish(node: &mut Runtime, writer: Who, versions: impl IntoIterator<Item = Version>) {
    versions.into_iter().for_each(|version| node.publish(writer.writer, version).unwrap());
}

/// Lets nodes and home hear each other until nothing is new; what was refused.
fn exchange(home: &mut Home, nodes: &mut [&mut Runtime]) -> Vec<Event> {
    let mut refused = Vec::new();
    for _ in 0..6 {
        nodes.iter().for_each(|node| _ = home.receive(node.report()));
        for node in &mut *nodes {
            let Some(decision) = home.decision(node.node()).cloned() else { continue };
            for event in node.hear(decision) {
                match event {
                    Event::Pin { version, .. } => _ = node.hold(version),
                    Event::Refused { .. } => refused.push(event),
                    _ => {}
                }
            }
        }
    }
    refused
}

/// Whose elements a version consists of, if all can be had.
fn content(home: &Home, version: Version) -> Option<Vec<Writer>> {
    let Readiness::Ready(shares) = home.ledger().readiness(version, &range(0, 8)).unwrap() else { return None };
    let mut writers: Vec<Writer> = shares.iter().map(|share| share.who.unwrap().writer).collect();
    writers.sort();
    Some(writers)
}

/// A home, a machine that stays, and one that reads, where the other half's machine had a part in versions up to one, and was lost.
fn lost_after(complete: Version) -> (Home, Runtime, Runtime) {
    let mut home = Home::new(1, range(0, 8), 0, [STAYS, LOST, READS].map(Node));
    let (mut stays, mut lost, mut reads) = (node(STAYS), node(LOST), node(READS));
    lost.declare(who(LOST, 1), Stage::member(1, range(0, 4))).unwrap();
    stays.declare(who(STAYS, 2), Stage::member(1, range(4, 8))).unwrap();
    exchange(&mut home, &mut [&mut stays, &mut lost, &mut reads]);
    for version in 1..=complete {
        publish(&mut lost, who(LOST, 1), [version]);
        publish(&mut stays, who(STAYS, 2), [version]);
        exchange(&mut home, &mut [&mut stays, &mut lost, &mut reads]);
    }
    assert_eq!(home.announced().version, complete);
    home.lose(Node(LOST));
    (home, stays, reads)
}

/// Lets an heir of the lost half and the other writer complete versions.
fn inherit(home: &mut Home, stays: &mut Runtime, reads: &mut Runtime, heir: Who, versions: [Version; 2]) {
    let [first, last] = versions;
    stays.declare(heir, Stage::member(first, range(0, 4))).unwrap();
    for version in first..=last {
        publish(stays, who(STAYS, 2), [version]);
        publish(stays, heir, [version]);
        assert_eq!(exchange(home, &mut [stays, reads]), []);
    }
    assert_eq!(home.announced().version, last);
}

fn end(home: &mut Home, stays: &mut Runtime, reads: &mut Runtime, heir: Who, next: Version, end: End) {
    match end {
        End::Killed => stays.die(heir.writer),
        End::Left | End::Forgotten => stays.declare(heir, Stage::left(next)).unwrap(),
    }
    exchange(home, &mut [stays, reads]);
}

/// A writer that is back never has a part in what it missed: it is refused, if it lives.
fn assert_refused(returned: Return, refused: &[Event], names: &str) {
    let is_first = |event: &Event| matches!(event, Event::Refused { writer, .. } if *writer == returned.first().writer);
    assert_eq!(refused.iter().filter(|event| is_first(event)).count(), usize::from(returned.is_alive), "{names}");
    assert!(refused.iter().all(is_first), "{names}: {refused:?}");
}

#[test]
fn the_newest_complete_version_keeps_its_content_after_its_heir_has_ended() {
    for (returned, ended) in Return::all().flat_map(|returned| [End::Left, End::Killed].map(|end| (returned, end))) {
        let names = format!("{returned:?}, {ended:?}");
        let (mut home, mut stays, mut reads) = lost_after(0);
        let heir = who(STAYS, 3);
        inherit(&mut home, &mut stays, &mut reads, heir, [1, 2]);
        end(&mut home, &mut stays, &mut reads, heir, 3, ended);
        let before = [1, 2].map(|version| content(&home, version));
        assert_eq!(before[1], Some(vec![who(STAYS, 2).writer, heir.writer]), "{names}");

        let mut back = returned.runtime(0, 1..=2);
        returned.home(&mut home, &mut [&mut stays, &mut reads], &mut back);
        let refused = exchange(&mut home, &mut [&mut stays, &mut reads, &mut back]);
        assert_eq!(home.announced().version, 2, "{names}");
        assert_eq!([1, 2].map(|version| content(&home, version)), before, "{names}");
        assert_refused(returned, &refused, &names);
        let heard = back.record(returned.first().writer);
        assert!(heard.is_none_or(|record| record.published.present.is_empty()), "{names}: {heard:?}");
    }
}

#[test]
fn older_versions_keep_their_content_after_an_heirs_heir_came() {
    let ends = [End::Left, End::Forgotten, End::Killed];
    for (returned, ended) in Return::all().flat_map(|returned| ends.map(|end| (returned, end))) {
        let names = format!("{returned:?}, {ended:?}");
        let (mut home, mut stays, mut reads) = lost_after(5);
        let (heir, next) = (who(STAYS, 3), who(STAYS, 4));
        inherit(&mut home, &mut stays, &mut reads, heir, [6, 7]);
        let read = content(&home, 7);
        assert_eq!(read, Some(vec![who(STAYS, 2).writer, heir.writer]), "{names}");
        end(&mut home, &mut stays, &mut reads, heir, 8, ended);
        if ended == End::Forgotten {
            (6..=7).for_each(|version| stays.drop(heir.writer, version));
        }
        inherit(&mut home, &mut stays, &mut reads, next, [8, 8]);
        assert_eq!(stays.record(heir.writer).is_none(), ended == End::Forgotten, "{names}");
        // The next version is proposed, and not complete yet.
        publish(&mut stays, who(STAYS, 2), [9]);
        publish(&mut stays, next, [9]);
        home.receive(stays.report());
        stays.hear(home.decision(Node(STAYS)).unwrap().clone());
        stays.hold(9);
        let before = [6, 7, 8].map(|version| content(&home, version));

        let mut back = returned.runtime(5, 4..=9);
        returned.home(&mut home, &mut [&mut stays, &mut reads], &mut back);
        home.receive(back.report());
        let refused = exchange(&mut home, &mut [&mut stays, &mut reads, &mut back]);
        let after = [6, 7, 8].map(|version| content(&home, version));
        assert_eq!(after, before, "{names}: {refused:?}");
        let both = Some(vec![who(STAYS, 2).writer, next.writer]);
        publish(&mut stays, who(STAYS, 2), [10]);
        publish(&mut stays, next, [10]);
        exchange(&mut home, &mut [&mut stays, &mut reads, &mut back]);
        assert_eq!((home.announced().version, content(&home, 10)), (10, both.clone()), "{names}");
        assert!([None, both].contains(&content(&home, 9)), "{names}");
        assert_refused(returned, &refused, &names);
        if !returned.is_alive {
            let mut own = vec![returned.first().writer, who(STAYS, 2).writer];
            own.sort();
            assert_eq!(content(&home, 5), Some(own), "{names}: what it had a part in stays");
        }
    }
}

/// Also once it was started again after that, or another home begins: it is known by then that it had no part.
#[test]
fn what_a_machine_missed_it_has_not_later_either() {
    for is_new_home in [false, true] {
        let (mut home, mut stays, mut reads) = lost_after(5);
        let heir = who(STAYS, 3);
        inherit(&mut home, &mut stays, &mut reads, heir, [6, 7]);
        end(&mut home, &mut stays, &mut reads, heir, 8, End::Forgotten);
        (6..=7).for_each(|version| stays.drop(heir.writer, version));
        inherit(&mut home, &mut stays, &mut reads, who(STAYS, 4), [8, 8]);
        // Its runtime ends before it has heard anything.
        home.replace(Node(LOST), Node(6));
        let returned = Return { number: 7, is_new_home: false, is_alive: false };
        let mut back = returned.runtime(5, 4..=7);
        if is_new_home {
            home = Home::new(2, range(0, 8), 0, [STAYS, READS, 7].map(Node));
            home.set_replaced([(Node(LOST), Node(7)), (Node(6), Node(7))]);
            [&mut stays, &mut reads, &mut back].into_iter().for_each(|node| node.follow(2));
        } else {
            home.replace(Node(6), Node(7));
        }
        exchange(&mut home, &mut [&mut stays, &mut reads, &mut back]);
        let own = back.record(returned.first().writer).unwrap();
        assert_eq!(own.published.present, [4, 5].into(), "{own:?}");
        assert_eq!([6, 7].map(|version| content(&home, version)), [None, None]);
    }
}

/// Its programs know less than what was complete with it: the newest version was announced while its runtime was away.
#[test]
fn what_a_machine_had_a_part_in_stays_whatever_its_programs_know() {
    for (returned, is_lost) in Return::all().flat_map(|returned| [(returned, false), (returned, true)]) {
        let names = format!("{returned:?}, lost: {is_lost}");
        let mut home = Home::new(1, range(0, 8), 0, [STAYS, LOST, READS].map(Node));
        let (mut stays, mut former, mut reads) = (node(STAYS), node(LOST), node(READS));
        former.declare(who(LOST, 1), Stage::member(1, range(0, 4))).unwrap();
        stays.declare(who(STAYS, 2), Stage::member(1, range(4, 8))).unwrap();
        for version in 1..=6 {
            publish(&mut former, who(LOST, 1), [version]);
            publish(&mut stays, who(STAYS, 2), [version]);
            if version < 6 {
                exchange(&mut home, &mut [&mut stays, &mut former, &mut reads]);
            }
        }
        // Version 6 is proposed, and its runtime ends.
        home.receive(former.report());
        home.receive(stays.report());
        assert_eq!(home.proposed().map(|proposal| proposal.version), Some(6), "{names}");
        stays.hear(home.decision(Node(STAYS)).unwrap().clone());
        stays.hold(6);
        if is_lost {
            home.lose(Node(LOST));
        }
        let mut back = returned.runtime(4, 3..=7);
        returned.home(&mut home, &mut [&mut stays, &mut reads], &mut back);
        let refused = exchange(&mut home, &mut [&mut stays, &mut reads, &mut back]);
        assert_eq!(refused, [], "{names}");
        let mut both = vec![returned.first().writer, who(STAYS, 2).writer];
        both.sort();
        for version in 3..=6 {
            assert_eq!(content(&home, version), Some(both.clone()), "{names}, version {version}");
        }
        publish(&mut stays, who(STAYS, 2), [7]);
        exchange(&mut home, &mut [&mut stays, &mut reads, &mut back]);
        assert_eq!((home.announced().version, content(&home, 7)), (7, Some(both)), "{names}");
    }
}

/// What a writer is told that lives, and whose place others had.
#[test]
fn a_writer_that_is_back_is_told_whose_elements_they_are_where_that_is_known() {
    let returned = Return { number: 7, is_new_home: true, is_alive: true };
    for ended in [End::Left, End::Forgotten] {
        let (mut home, mut stays, mut reads) = lost_after(5);
        let heir = who(STAYS, 3);
        inherit(&mut home, &mut stays, &mut reads, heir, [6, 7]);
        if ended == End::Forgotten {
            end(&mut home, &mut stays, &mut reads, heir, 8, ended);
            (6..=7).for_each(|version| stays.drop(heir.writer, version));
            // The whole is written by others then.
            stays.declare(who(STAYS, 4), Stage::member(9, range(0, 4))).unwrap();
            publish(&mut stays, who(STAYS, 4), [9]);
            publish(&mut stays, who(STAYS, 2), [9]);
            exchange(&mut home, &mut [&mut stays, &mut reads]);
        }
        let mut back = returned.runtime(5, 4..=7);
        returned.home(&mut home, &mut [&mut stays, &mut reads], &mut back);
        let refused = exchange(&mut home, &mut [&mut stays, &mut reads, &mut back]);
        let [Event::Refused { refusal: Refusal::Overlap(overlap), .. }] = &refused[..] else { panic!("{refused:?}") };
        let heir = if ended == End::Forgotten { who(STAYS, 4) } else { heir };
        assert_eq!((overlap.first, overlap.second), (heir, returned.first()), "{overlap}");
    }
}

/// What was accepted meanwhile counts: whoever was given a place goes on, though the one who had it lives and stands still.
#[test]
fn an_heir_goes_on_beside_a_writer_that_is_back_and_stands_still() {
    for (is_new_home, is_again) in [(false, false), (true, false), (false, true), (true, true)] {
        let (mut home, mut stays, mut lost) =
            (Home::new(1, range(0, 8), 0, [STAYS, LOST].map(Node)), node(STAYS), node(LOST));
        let (writes, first, heir) = (who(STAYS, 0), who(LOST, 1), who(STAYS, 2));
        stays.declare(writes, Stage::member(1, range(4, 8))).unwrap();
        lost.declare(first, Stage::member(1, range(0, 4))).unwrap();
        for version in 1..=5 {
            publish(&mut stays, writes, [version]);
            publish(&mut lost, first, [version]);
            exchange(&mut home, &mut [&mut stays, &mut lost]);
        }
        let mut back = Return { number: AGAIN[0], is_new_home, is_alive: true };
        let mut again = back.runtime(5, 1..=5);
        if is_new_home {
            // The home was lost with it, and the next one has never heard of it.
            home = Home::new(2, range(0, 8), 0, [Node(STAYS)]);
            [&mut stays, &mut again].into_iter().for_each(|node| node.follow(2));
            exchange(&mut home, &mut [&mut stays]);
        } else {
            home.lose(Node(LOST));
        }
        stays.declare(heir, Stage::member(6, range(0, 4))).unwrap();
        assert_eq!(exchange(&mut home, &mut [&mut stays]), Vec::new());
        // It is back before anything was proposed without it.
        if is_new_home {
            home.learn_replaced([(Node(LOST), Node(back.number))]);
            home.admit(Node(back.number));
        } else {
            home.replace(Node(LOST), Node(back.number));
        }
        if is_again {
            // Its runtime is started once more before it has heard that.
            home.receive(again.report());
            let former = std::mem::replace(&mut back.number, AGAIN[1]);
            again = back.runtime(5, 1..=5);
            again.follow(home.revision());
            home.replace(Node(former), Node(back.number));
        }
        let refused = exchange(&mut home, &mut [&mut stays, &mut again]);
        let is_its = |event: &Event| {
            let Event::Refused { writer, refusal: Refusal::Overlap(overlap), .. } = event else { return false };
            *writer == back.first().writer && overlap.first == heir
        };
        assert!(refused.iter().any(is_its), "{refused:?}");
        publish(&mut stays, writes, [6]);
        publish(&mut stays, heir, [6]);
        exchange(&mut home, &mut [&mut stays, &mut again]);
        assert_eq!(home.announced().version, 6);
    }
}

/// The home begins when a machine is lost, and has never heard of it when that is back under another number.
#[test]
fn a_home_that_never_knew_a_machine_learns_what_it_had_a_part_in() {
    let (mut home, mut stays, mut lost) =
        (Home::new(1, range(0, 8), 0, [STAYS, LOST].map(Node)), node(STAYS), node(LOST));
    let (writes, first) = (who(STAYS, 0), who(LOST, 1));
    stays.declare(writes, Stage::member(1, range(4, 8))).unwrap();
    lost.declare(first, Stage::member(1, range(0, 4))).unwrap();
    for version in 1..=5 {
        publish(&mut stays, writes, [version]);
        publish(&mut lost, first, [version]);
        exchange(&mut home, &mut [&mut stays, &mut lost]);
    }
    for is_alive in [true, false] {
        let mut home = Home::new(2, range(0, 8), 0, [Node(STAYS)]);
        stays.follow(2);
        exchange(&mut home, &mut [&mut stays]);
        assert_eq!(home.announced().version, 5);
        // Its programs were not told of version 5.
        let back = Return { number: AGAIN[0], is_new_home: true, is_alive };
        let mut again = back.runtime(4, 1..=5);
        again.follow(2);
        home.learn_replaced([(Node(LOST), Node(back.number))]);
        home.admit(Node(back.number));
        assert_eq!(exchange(&mut home, &mut [&mut stays, &mut again]), Vec::new());
        let readiness = home.ledger().readiness(5, &range(0, 8)).unwrap();
        assert!(matches!(readiness, Readiness::Ready(_)), "{readiness:?}");
    }
}
