//! The ledger against a plain model: one process that knows everything, and looks at element after element.

use std::collections::BTreeMap;

use drepl::{IndexBox, IndexSet, Progression};
use proptest::prelude::*;
use stillframe_roster::{
    ledger::Ledger,
    readiness::Readiness,
    refusal::Refusal,
    writer::{Node, Published, Stage, Version, Who, Writer},
};

const EXTENT: u64 = 6;
const VERSIONS: Version = 5;

#[derive(Debug, Clone)]
enum Op {
    Attach { writer: u32, from: Version, start: u64, length: u64 },
    Leave { writer: u32, from: Version },
    Publish { writer: u32, skip: Version },
    Let { writer: u32 },
}

fn op() -> impl Strategy<Value = Op> {
    let writer = 0..4_u32;
    prop_oneof![
        4 => (writer.clone(), 1..=3_u64, 0..EXTENT, 1..=EXTENT)
            .prop_map(|(writer, from, start, length)| Op::Attach { writer, from, start, length }),
        1 => (writer.clone(), 1..=VERSIONS).prop_map(|(writer, from)| Op::Leave { writer, from }),
        6 => (writer.clone(), 0..2_u64).prop_map(|(writer, skip)| Op::Publish { writer, skip }),
        1 => writer.prop_map(|writer| Op::Let { writer }),
    ]
}

/// What each writer is in each version, and what it published.
#[derive(Debug, Clone, Default)]
struct Plain {
    parts: BTreeMap<(u32, Version), std::ops::Range<u64>>,
    published: BTreeMap<u32, Published>,
}

impl Plain {
    fn change(&mut self, writer: u32, from: Version, part: Option<std::ops::Range<u64>>) {
        for version in from..=VERSIONS {
            self.parts.remove(&(writer, version));
            if let Some(part) = &part {
                self.parts.insert((writer, version), part.clone());
            }
        }
    }

    fn writers(&self, version: Version, element: u64) -> Vec<u32> {
        let here = self.parts.iter().filter(|((_, of), part)| *of == version && part.contains(&element));
        here.map(|((writer, _), _)| *writer).collect()
    }

    fn has(&self, writer: u32, version: Version) -> bool {
        self.published.get(&writer).is_some_and(|published| published.present.contains(&version))
    }

    fn is_whole(&self, version: Version) -> bool {
        (0..EXTENT).all(|element| match self.writers(version, element)[..] {
            [writer] => self.has(writer, version),
            _ => false,
        })
    }
}

fn who(process: u32) -> Who {
    Who { writer: Writer { node: Node(process % 2), process, serial: 0 }, rank: Some(process) }
}

fn range(start: u64, end: u64) -> IndexSet {
    IndexBox::new([Progression::range(start, end).unwrap()]).unwrap().into()
}

fn play(ops: Vec<Op>) {
    let mut ledger = Ledger::new(IndexBox::all(&[EXTENT]).unwrap(), 0);
    let mut plain = Plain::default();
    for op in ops {
        match op {
            Op::Attach { writer, from, start, length } => {
                let end = EXTENT.min(start + length);
                match ledger.declare(who(writer), Stage::member(from, range(start, end)), None) {
                    Ok(()) => plain.change(writer, from, Some(start..end)),
                    Err(Refusal::Overlap(overlap)) => {
                        let first = &plain.parts[&(overlap.first.writer.process, overlap.version)];
                        assert_eq!(*overlap.first_elements, range(first.start, first.end));
                        let both = range(first.start.max(start), first.end.min(end));
                        assert_eq!(*overlap.elements, both, "what both have is named");
                    }
                    Err(Refusal::Late { .. } | Refusal::Order { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            Op::Leave { writer, from } => {
                if ledger.record(who(writer).writer).is_some()
                    && ledger.declare(who(writer), Stage::left(from), None).is_ok()
                {
                    plain.change(writer, from, None);
                }
            }
            Op::Publish { writer, skip } => {
                let published = plain.published.entry(writer).or_default();
                let version = published.newest.unwrap_or(0) + 1 + skip;
                if version <= VERSIONS && plain.parts.contains_key(&(writer, version)) {
                    published.newest = Some(version);
                    published.present.insert(version);
                    ledger.note(who(writer).writer, published.clone());
                }
            }
            Op::Let { writer } => {
                let published = plain.published.entry(writer).or_default();
                published.present.pop_first();
                ledger.note(who(writer).writer, published.clone());
            }
        }
        for (writer, from, refusal) in ledger.settle_disputes() {
            assert!(matches!(refusal, Refusal::Overlap(_)), "{refusal}");
            // As if it had never been declared: what the writer was before goes on.
            let process = writer.process;
            if ledger.record(writer).is_none() {
                plain.published.remove(&process);
            }
            let before = |version| ledger.record(writer).and_then(|record| record.elements(version)).cloned();
            for version in from..=VERSIONS {
                plain.parts.remove(&(process, version));
                if let Some(elements) = before(version) {
                    let axis = elements.boxes()[0].axes()[0];
                    plain.parts.insert((process, version), axis.start()..axis.end());
                }
            }
        }
        compare(&ledger, &plain);
    }
}

fn compare(ledger: &Ledger, plain: &Plain) {
    for version in 1..=VERSIONS {
        assert_eq!(ledger.is_whole(version).unwrap(), plain.is_whole(version), "version {version} of {plain:?}");
        let holes = ledger.holes(version).unwrap();
        for element in 0..EXTENT {
            let writers = plain.writers(version, element);
            assert_eq!(holes.contains(&[element]), writers.is_empty(), "a hole of version {version} at {element}");
            let readiness = ledger.readiness(version, &range(element, element + 1)).unwrap();
            if let Readiness::Ready(shares) = &readiness {
                let from: Vec<u32> = shares.iter().filter_map(|share| Some(share.who?.writer.process)).collect();
                assert_eq!(from, writers, "whose element {element} of version {version} is");
                assert!(from.iter().all(|writer| plain.has(*writer, version)), "it was published");
            }
            if let Readiness::Waiting(_) = readiness
                && plain.is_whole(version)
            {
                panic!("element {element} of version {version} is waited for, which is whole");
            }
        }
    }
    let newest = (1..=VERSIONS).rev().find(|version| plain.is_whole(*version));
    assert_eq!(ledger.newest_whole(0).unwrap(), newest);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_agrees_with_one_that_looks_at_each_element(ops in prop::collection::vec(op(), 1..40)) {
        play(ops);
    }
}
