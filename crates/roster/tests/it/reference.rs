//! The ledger against a plain model: one process that knows everything, and looks at element after element.

use std::collections::BTreeMap;

use drepl::{IndexBox, IndexSet, Progression};
use proptest::prelude::*;
use stillframe_roster::{
    ledger::Ledger,
    readiness::Readiness,
    refusal::Refusal,
    writer::{Node, Published, Record, Stage, Version, Who, Writer},
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

/// What each writer declared, and of which elements it published what.
#[derive(Debug, Clone, Default)]
struct Plain {
    stages: BTreeMap<u32, BTreeMap<Version, Option<std::ops::Range<u64>>>>,
    published: BTreeMap<u32, Published>,
    parts: BTreeMap<(u32, Version), std::ops::Range<u64>>,
}

impl Plain {
    fn part(&self, writer: u32, version: Version) -> Option<std::ops::Range<u64>> {
        self.stages.get(&writer)?.range(..=version).next_back()?.1.clone()
    }

    fn writers(&self, version: Version, element: u64) -> Vec<u32> {
        let writes = |writer: &u32| self.part(*writer, version).is_some_and(|part| part.contains(&element));
        self.stages.keys().copied().filter(writes).collect()
    }

    /// Whether a writer has those elements of a version that are its own.
    fn has(&self, writer: u32, version: Version) -> bool {
        let is_there = self.published.get(&writer).is_some_and(|published| published.present.contains(&version));
        is_there && self.part(writer, version).as_ref() == self.parts.get(&(writer, version))
    }

    fn publish(&mut self, writer: u32, skip: Version) -> Option<Published> {
        let newest = self.published.get(&writer).and_then(|published| published.newest).unwrap_or(0);
        let version = newest + 1 + skip;
        let part = self.part(writer, version).filter(|_| version <= VERSIONS)?;
        self.parts.insert((writer, version), part);
        let published = self.published.entry(writer).or_default();
        published.newest = Some(version);
        published.present.insert(version);
        Some(published.clone())
    }

    /// As if a stage had never been declared: what the writer was before goes on. Of that it has published nothing since.
    fn refuse(&mut self, writer: u32, from: Version) {
        let Some(stages) = self.stages.get_mut(&writer) else { return };
        stages.remove(&from);
        let until = stages.range(from..).next().map_or(Version::MAX, |(next, _)| *next);
        let is_gone = stages.is_empty();
        if let Some(published) = self.published.get_mut(&writer) {
            published.present.retain(|version| !(from..until).contains(version));
        }
        if is_gone {
            self.stages.remove(&writer);
            self.published.remove(&writer);
        }
    }

    /// Whether a writer has left, and published all that it was to.
    fn has_ended(&self, writer: u32) -> bool {
        let left = self.stages.get(&writer).and_then(|stages| stages.last_key_value());
        let newest = self.published.get(&writer).and_then(|published| published.newest);
        left.is_some_and(|(from, part)| part.is_none() && newest.is_some_and(|newest| newest + 1 >= *from))
    }

    /// Another has its place from a version on, whatever it published from there on.
    fn end(&mut self, writer: u32, from: Version) -> Version {
        let stages = self.stages.get_mut(&writer).expect("it was there");
        let from = from.max(*stages.first_key_value().expect("it had a fragment").0);
        stages.split_off(&from);
        stages.insert(from, None);
        if let Some(published) = self.published.get_mut(&writer) {
            published.present.split_off(&from);
        }
        from
    }

    /// Whether no two write the same element of any version, so that nothing may still be refused.
    fn is_agreed(&self) -> bool {
        (1..=VERSIONS).all(|version| (0..EXTENT).all(|element| self.writers(version, element).len() <= 1))
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
    // Whose each element was that could be had once.
    let mut had = BTreeMap::new();
    for op in ops {
        match op {
            Op::Attach { writer, from, start, length } => {
                let part = start..EXTENT.min(start + length);
                let ended = |ledger: &Ledger| -> BTreeMap<u32, Option<Version>> {
                    (0..4).map(|other| (other, ledger.record(who(other).writer).and_then(Record::end))).collect()
                };
                let before = ended(&ledger);
                match ledger.declare(who(writer), Stage::member(from, range(part.start, part.end)), None) {
                    Ok(()) => {
                        for (other, now) in ended(&ledger) {
                            if other != writer && before[&other] != now {
                                assert!(plain.has_ended(other), "{other} has not left");
                                assert!(before[&other] > Some(from), "{other} had left before");
                                let from = plain.end(other, from);
                                had.retain(|(version, _), of| *of != other || *version < from);
                            }
                        }
                        plain.stages.entry(writer).or_default().insert(from, Some(part));
                    }
                    Err(Refusal::Overlap(overlap)) => {
                        let of = |version: &Version| *version <= overlap.version;
                        let theirs = &plain.stages[&overlap.first.writer.process];
                        let mut declared =
                            theirs.iter().filter(|(from, _)| of(from)).filter_map(|(_, part)| part.as_ref());
                        let is_theirs =
                            |first: &&std::ops::Range<u64>| *overlap.first_elements == range(first.start, first.end);
                        let first = declared.rfind(is_theirs).expect("what they declared is named");
                        let both = range(first.start.max(part.start), first.end.min(part.end));
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
                    plain.stages.entry(writer).or_default().insert(from, None);
                }
            }
            Op::Publish { writer, skip } => {
                if let Some(published) = plain.publish(writer, skip) {
                    ledger.note(who(writer).writer, published);
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
            plain.refuse(writer.process, from);
        }
        compare(&ledger, &plain, &mut had);
    }
}

fn compare(ledger: &Ledger, plain: &Plain, had: &mut BTreeMap<(Version, u64), u32>) {
    for version in 1..=VERSIONS {
        let is_whole = ledger.is_whole(version).unwrap();
        if plain.is_agreed() || is_whole {
            assert_eq!(is_whole, plain.is_whole(version), "version {version} of {plain:?}");
        }
        let holes = ledger.holes(version).unwrap();
        for element in 0..EXTENT {
            let writers = plain.writers(version, element);
            assert_eq!(holes.contains(&[element]), writers.is_empty(), "a hole of version {version} at {element}");
            let readiness = ledger.readiness(version, &range(element, element + 1)).unwrap();
            if let Readiness::Ready(shares) = &readiness {
                let from: Vec<u32> = shares.iter().filter_map(|share| Some(share.who?.writer.process)).collect();
                let [writer] = from[..] else { panic!("element {element} of version {version} is of {from:?}") };
                assert_eq!([writer], writers[..], "whose element {element} of version {version} is");
                assert!(plain.has(writer, version), "it was published");
                let first = *had.entry((version, element)).or_insert(writer);
                assert_eq!(first, writer, "element {element} of version {version} is of who had it first");
            }
            if let Readiness::Waiting(_) = readiness
                && is_whole
            {
                panic!("element {element} of version {version} is waited for, which is whole");
            }
        }
    }
    let newest = (1..=VERSIONS).rev().find(|version| ledger.is_whole(*version).unwrap());
    assert_eq!(ledger.newest_whole(0).unwrap(), newest);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_agrees_with_one_that_looks_at_each_element(ops in prop::collection::vec(op(), 1..40)) {
        play(ops);
    }
}
