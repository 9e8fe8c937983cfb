//! What runtimes and homes really say goes over the wire, and comes to what it comes to without.

use std::{collections::BTreeMap, num::NonZeroU64};

use crate::common::maker::Maker;
use drepl::{IndexBox, Progression};
use stillframe_roster::{
    home::Home,
    message::{Decision, Report},
    runtime::{Event, Runtime},
    writer::{Elements, Node, Stage, Who, Writer},
};
use stillframe_wire::{
    Message, ObjectId,
    roster::{ObjectChange, ObjectDecision, ObjectReport},
};

const ELEMENTS: u64 = 24;
const NODES: u32 = 3;

fn object() -> ObjectId {
    ObjectId(NonZeroU64::MIN)
}

fn carry(message: Message) -> Message {
    let mut body = Vec::new();
    let kind = message.encode(&mut body);
    match Message::decode(kind, &body) {
        Ok(decoded) => {
            assert_eq!(decoded, message);
            decoded
        }
        Err(fault) => panic!("{fault}: {message:?}"),
    }
}

fn carry_report(report: Report) -> Report {
    match carry(Message::Reports(vec![ObjectReport { object: object(), name: "heat".into(), report }])) {
        Message::Reports(mut reports) => reports.pop().unwrap().report,
        other => panic!("{other:?}"),
    }
}

fn carry_decision(decision: Decision) -> Decision {
    match carry(Message::Decisions(vec![ObjectDecision { object: object(), roster: 1, decision }])) {
        Message::Decisions(mut decisions) => decisions.pop().unwrap().decision,
        other => panic!("{other:?}"),
    }
}

struct World {
    maker: Maker,
    runtimes: Vec<Runtime>,
    home: Home,
    sent: BTreeMap<u32, Report>,
    serial: u32,
    refused: usize,
    complete: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let nodes = || (0..NODES).map(Node);
        Self {
            maker: Maker::new(seed),
            runtimes: nodes().map(|node| Runtime::new(node, 0)).collect(),
            home: home(1),
            sent: BTreeMap::new(),
            serial: 0,
            refused: 0,
            complete: 0,
        }
    }

    fn elements(&mut self) -> Elements {
        let third = ELEMENTS / u64::from(NODES);
        let (low, count) = match self.maker.below(4) {
            0 => (self.maker.below(ELEMENTS), 1 + self.maker.below(8)),
            _ => (third * self.maker.below(u64::from(NODES)), third),
        };
        IndexBox::new([Progression::range(low, low + count).unwrap()]).unwrap().into()
    }

    fn step(&mut self) {
        let node = self.maker.below(u64::from(NODES)) as usize;
        let elements = self.elements();
        let writers: Vec<Writer> = self.runtimes[node].records().map(|record| record.writer).collect();
        let writer = writers.get(self.maker.below(writers.len() as u64 + 1) as usize).copied();
        let newest = self.runtimes[node].announced().version;
        let version = newest + self.maker.below(4);
        let runtime = &mut self.runtimes[node];
        match (self.maker.below(16), writer) {
            (0..3, None) => {
                self.serial += 1;
                let writer = Writer { node: runtime.node(), process: 1, serial: self.serial };
                let _ = runtime.declare(Who { writer, rank: Some(self.serial) }, Stage::member(version, elements));
            }
            (0, Some(writer)) => drop(runtime.declare(Who { writer, rank: None }, Stage::left(version))),
            (1, Some(writer)) => drop(runtime.declare(Who { writer, rank: None }, Stage::member(version, elements))),
            (2, Some(writer)) if self.maker.below(4) == 0 => runtime.die(writer),
            (3, _) => runtime.want(self.maker.below(3), version, elements),
            (4, _) => runtime.unwant(self.maker.below(3)),
            (5, Some(writer)) if !runtime.has_pinned(version) => runtime.drop(writer, version),
            (6, _) => drop(runtime.give_up(version)),
            (7, _) if self.maker.below(8) == 0 => {
                self.home = home(self.home.revision() + 1);
                self.runtimes.iter_mut().for_each(|runtime| runtime.follow(self.home.revision()));
            }
            (_, Some(writer)) => drop(runtime.publish(writer, version)),
            (_, None) => {}
        }
        self.talk(node);
    }

    /// A report goes to the home whole, and as a change of the one before; then all hear what it decided.
    fn talk(&mut self, node: usize) {
        let report = self.runtimes[node].report();
        let carried = carry_report(report.clone());
        if let Some(mut before) = self.sent.insert(node as u32, carried.clone())
            && before.serial < report.serial
        {
            let change = ObjectChange::between(object(), &before, &report);
            let Message::Changes(mut changes) = carry(Message::Changes(vec![change])) else { panic!("no changes") };
            changes.pop().unwrap().apply(&mut before).unwrap();
            assert_eq!(before, report);
        }
        self.home.receive(carried);
        for runtime in &mut self.runtimes {
            let Some(decision) = self.home.decision(runtime.node()) else { continue };
            for event in runtime.hear(carry_decision(decision.clone())) {
                match event {
                    Event::Pin { version, .. } => drop(runtime.hold(version)),
                    Event::Refused { .. } => self.refused += 1,
                    Event::Complete(_) => self.complete += 1,
                    _ => {}
                }
            }
        }
    }
}

fn home(revision: u64) -> Home {
    let shape = IndexBox::new([Progression::range(0, ELEMENTS).unwrap()]).unwrap();
    Home::new(revision, shape, 0, (0..NODES).map(Node))
}

#[test]
fn what_runtimes_and_homes_say_arrives_as_it_was() {
    let (mut refused, mut complete) = (0, 0);
    for seed in 0..300 {
        let mut world = World::new(seed);
        (0..120).for_each(|_| world.step());
        refused += world.refused;
        complete += world.complete;
    }
    assert!(refused > 100 && complete > 100, "{refused} refused, {complete} complete: too little happened");
}
