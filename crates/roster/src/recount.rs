//! What a home keeps up to date with each message, against the same found anew from all that it knows.

use std::collections::{BTreeMap, BTreeSet};

use drepl::{IndexBox, IndexSet, Progression};

use super::Home;
use crate::{
    ledger::Ledger,
    runtime::{Event, Runtime},
    writer::{Node, Stage, Version, Who, Writer},
};

const EXTENT: u64 = 8;
const VERSIONS: Version = 8;

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn range(start: u64, end: u64) -> IndexSet {
    IndexBox::new([Progression::range(start, end).unwrap()]).unwrap().into()
}

/// Runtimes that live, and a home.
struct World {
    dice: Dice,
    runtimes: BTreeMap<Node, Runtime>,
    asked: BTreeMap<Node, Vec<Version>>,
    home: Home,
    next_node: u32,
    next_writer: u32,
    announced: Version,
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Dice(seed);
        (0..5).for_each(|_| _ = dice.roll(2));
        let count = 1 + dice.roll(4) as u32;
        let runtimes: BTreeMap<Node, Runtime> = (0..count).map(|node| (Node(node), runtime(Node(node), 1))).collect();
        let home = Home::new(1, range(0, EXTENT), 0, runtimes.keys().copied());
        World { dice, runtimes, asked: BTreeMap::new(), home, next_node: count, next_writer: 0, announced: 0 }
    }

    fn any_node(&mut self) -> Node {
        let nodes: Vec<Node> = self.runtimes.keys().copied().collect();
        nodes[self.dice.roll(nodes.len() as u64) as usize]
    }

    fn any_writer(&mut self, node: Node) -> Option<Writer> {
        let all: Vec<Writer> = self.runtimes[&node].records().map(|record| record.writer).collect();
        (!all.is_empty()).then(|| all[self.dice.roll(all.len() as u64) as usize])
    }

    fn step(&mut self) -> String {
        let node = self.any_node();
        let writer = self.any_writer(node);
        let roll = self.dice.roll(40);
        let said = format!("{roll} at {node:?} of {writer:?}");
        let (a, b, c) = (self.dice.roll(EXTENT), self.dice.roll(EXTENT), self.dice.roll(VERSIONS));
        let elements = match self.dice.roll(2) {
            0 => range(a.min(b), a.max(b) + 1),
            _ => range(a / 4 * 4, a / 4 * 4 + 4),
        };
        let own = self.runtimes.get_mut(&node).unwrap();
        let newest = |own: &Runtime, writer| own.record(writer).and_then(|one| one.published.newest).unwrap_or(0);
        match (roll, writer) {
            (0..=3, _) => {
                self.next_writer += 1;
                let writer = Writer { node, process: self.next_writer, serial: self.next_writer };
                let from = own.announced().version + 1 + c % 2;
                let stage = match self.dice.roll(4) {
                    0 => Stage::member_of(from, elements, 2),
                    _ => Stage::member(from, elements),
                };
                let _ = own.declare(Who { writer, rank: None }, stage);
            }
            (4, Some(writer)) => {
                let from = newest(own, writer) + 1 + c % 3;
                let _ = own.declare(Who { writer, rank: None }, Stage::member(from, elements));
            }
            (5, Some(writer)) => {
                let from = newest(own, writer) + 1 + c % 3;
                let _ = own.declare(Who { writer, rank: None }, Stage::left(from));
            }
            (6..=15, Some(writer)) => {
                let version = newest(own, writer) + 1 + c / 6;
                let _ = own.publish(writer, version);
            }
            (16, Some(writer)) => {
                let present = own.record(writer).and_then(|one| one.published.present.first().copied());
                if let Some(version) = present.filter(|version| !own.has_pinned(*version)) {
                    own.drop(writer, version);
                }
            }
            (17, Some(writer)) => own.die(writer),
            (18 | 19, _) => own.want(c % 3, own.announced().version + c / 3, elements),
            (20, _) => own.unwant(c % 3),
            (21, _) => _ = own.give_up(own.announced().version),
            (22, _) if c == 0 && self.runtimes.len() > 1 => {
                self.runtimes.remove(&node);
                self.home.lose(node);
                self.check(&format!("{said}: lost"));
            }
            (23, _) if c < 2 && self.runtimes.len() < 6 => {
                let new = Node(self.next_node);
                self.next_node += 1;
                self.runtimes.insert(new, runtime(new, self.home.revision()));
                self.home.admit(new);
            }
            (24, _) if c < 2 => {
                let new = Node(self.next_node);
                self.next_node += 1;
                let former = self.runtimes.remove(&node).unwrap();
                let mut again = runtime(new, self.home.revision());
                for record in former.records().filter(|record| !record.stages.is_empty()) {
                    let writer = Writer { node: new, ..record.writer };
                    again.restore(Who { writer, rank: None }, record.stages.clone());
                    for version in &record.published.present {
                        let _ = again.publish(writer, *version);
                    }
                }
                self.runtimes.insert(new, again);
                self.home.replace(node, new);
                self.check(&format!("{said}: replaced by {new:?}"));
            }
            (25, _) if c == 0 => {
                let revision = self.home.revision() + 1;
                self.home = Home::new(revision, range(0, EXTENT), 0, self.runtimes.keys().copied());
            }
            (26..=33, _) => self.report(node),
            _ => self.decide(node),
        }
        said
    }

    fn report(&mut self, node: Node) {
        let own = self.runtimes.get_mut(&node).unwrap();
        own.follow(self.home.revision());
        let report = own.report();
        self.home.receive(report);
        self.check(&format!("a report of {node:?}"));
    }

    fn decide(&mut self, node: Node) {
        let Some(decision) = self.home.decision(node).cloned() else { return };
        let own = self.runtimes.get_mut(&node).unwrap();
        for event in own.hear(decision) {
            match event {
                Event::Pin { version, .. } => self.asked.entry(node).or_default().push(version),
                Event::Complete(version) => self.announced = self.announced.max(version),
                _ => {}
            }
        }
        if self.dice.roll(3) > 0 {
            for version in self.asked.remove(&node).unwrap_or_default() {
                self.runtimes.get_mut(&node).unwrap().hold(version);
            }
        }
    }

    fn check(&self, what: &str) {
        check_ledger(self.home.ledger(), what);
        if !self.home.is_leading() {
            return;
        }
        let mut anew = self.home.clone();
        anew.look_at_pins();
        assert_eq!(anew.unpinned, self.home.unpinned, "{what}: who does not hold the announced version");
        assert_eq!(anew.pinning, self.home.pinning, "{what}: who has to pin {:?}", self.home.proposed);
        let mut anew = self.home.clone();
        let other = anew.refresh(BTreeSet::new(), true);
        let shown = |home: &Home| other.iter().map(|node| home.decision(*node).cloned()).collect::<Vec<_>>();
        assert!(other.is_empty(), "{what}: {:#?} would be {:#?}", shown(&self.home), shown(&anew));
        let mut anew = self.home.clone();
        let all: BTreeSet<Node> = anew.nodes.keys().copied().collect();
        let is_new = anew.advance(&all);
        assert!(!is_new, "{what}: {:?} after {:?}", anew.proposed, self.home.proposed);
    }
}

fn runtime(node: Node, revision: u64) -> Runtime {
    let mut runtime = Runtime::new(node, 0);
    runtime.follow(revision);
    runtime
}

fn check_ledger(ledger: &Ledger, what: &str) {
    let anew = ledger.anew();
    for version in 0..=2 * VERSIONS + 4 {
        assert_eq!(ledger.is_whole(version), anew.is_whole(version), "{what}: whether {version} is whole");
        assert_eq!(ledger.closure(version), anew.closure(version), "{what}: whether {version} is closed");
        assert_eq!(ledger.roster(version).epoch, anew.roster(version).epoch, "{what}: the epoch of {version}");
        assert_eq!(ledger.newest_whole(version), anew.newest_whole(version), "{what}: what is whole above {version}");
        for start in 0..EXTENT {
            let one = range(start, start + 1);
            assert_eq!(ledger.readiness(version, &one), anew.readiness(version, &one), "{what}: {start} of {version}");
        }
    }
}

#[test]
fn what_is_kept_is_what_is_found_anew() {
    let seeds = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let first = std::env::var("FIRST").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut complete = 0;
    for seed in first..first + seeds {
        let mut world = World::new(seed);
        let mut done = Vec::new();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..300 {
                done.push(world.step());
            }
        }));
        if let Err(why) = result {
            println!("seed {seed}, step {}: last {:?}", done.len(), done.last());
            std::panic::resume_unwind(why);
        }
        complete += world.announced;
    }
    println!("{complete} versions were complete");
    assert!(complete > seeds);
}
