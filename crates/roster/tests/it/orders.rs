//! Changes and publishes in any order: what could be read once stays, and comes from the same writer, unless that is gone, another
//! took its place, and the version was not whole.

use drepl::{IndexBox, IndexSet, Progression};
use proptest::prelude::*;
use std::collections::BTreeMap;
use stillframe_roster::{
    ledger::Ledger,
    readiness::Readiness,
    writer::{Node, Published, Record, Stage, Version, Who, Writer},
};

const ELEMENTS: u64 = 4;
const VERSIONS: Version = 6;

#[derive(Debug, Clone)]
enum Step {
    Declare { who: u32, from: Version, start: u64, count: u64 },
    Leave { who: u32, from: Version },
    Publish { who: u32, version: Version },
    Die { who: u32 },
}

fn steps() -> impl Strategy<Value = Step> {
    let (who, version) = (0..4u32, 1..=VERSIONS);
    prop_oneof![
        4 => (who.clone(), version.clone(), 0..ELEMENTS, 1..=ELEMENTS)
            .prop_map(|(who, from, start, count)| Step::Declare { who, from, start, count: count.min(ELEMENTS - start) }),
        1 => (who.clone(), version.clone()).prop_map(|(who, from)| Step::Leave { who, from }),
        6 => (who.clone(), version).prop_map(|(who, version)| Step::Publish { who, version }),
        1 => who.prop_map(|who| Step::Die { who }),
    ]
}

fn name(process: u32) -> Who {
    Who { writer: Writer { node: Node(process), process, serial: 0 }, rank: None }
}

fn range(start: u64, end: u64) -> IndexSet {
    IndexBox::new([Progression::range(start, end).unwrap()]).unwrap().into()
}

fn take(ledger: &mut Ledger, step: &Step) {
    match *step {
        Step::Declare { who, from, start, count } => {
            let _ = ledger.declare(name(who), Stage::member(from, range(start, start + count)), None);
        }
        Step::Leave { who, from } if ledger.record(name(who).writer).is_some() => {
            let _ = ledger.declare(name(who), Stage::left(from), None);
        }
        Step::Publish { who, version } => {
            let Some(record) = ledger.record(name(who).writer) else { return };
            let Published { newest, mut present } = record.published.clone();
            if newest < Some(version) && record.elements(version).is_some() {
                present.insert(version);
                ledger.note(name(who).writer, Published { newest: Some(version), present });
            }
        }
        Step::Die { who } => ledger.die(name(who).writer),
        Step::Leave { .. } => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_could_be_read_stays_and_is_the_same_writers(steps in prop::collection::vec(steps(), 1..24)) {
        let mut ledger = Ledger::new(IndexBox::all(&[ELEMENTS]).unwrap(), 0);
        let mut read: BTreeMap<(Version, u64), Who> = BTreeMap::new();
        let mut whole: BTreeMap<Version, Vec<Writer>> = BTreeMap::new();
        for (number, step) in steps.iter().enumerate() {
            let ended: Vec<Writer> =
                ledger.records().filter(|record| record.has_ended()).map(|record| record.writer).collect();
            take(&mut ledger, step);
            if let Step::Declare { from, .. } = *step {
                let is_taken = |version: Version, writer: Writer| {
                    let end = ledger.record(writer).and_then(Record::end);
                    version >= from && ended.contains(&writer) && end.is_some_and(|end| end <= version)
                };
                read.retain(|(version, _), who| !is_taken(*version, who.writer));
            }
            let refused = ledger.settle_disputes();
            for version in 1..=VERSIONS {
                for element in 0..ELEMENTS {
                    let readiness = ledger.readiness(version, &range(element, element + 1)).unwrap();
                    let before = read.get(&(version, element)).copied();
                    if let Readiness::Ready(shares) = &readiness {
                        prop_assert_eq!(shares.len(), 1, "step {}: {:?}", number, shares);
                        let who = shares[0].who.unwrap();
                        read.insert((version, element), who);
                    }
                    let now = read.get(&(version, element)).copied();
                    let is_ready = matches!(readiness, Readiness::Ready(_));
                    let is_same = before.is_none() || is_ready && before == now;
                    prop_assert!(is_same, "step {number}: version {version}, {element}: {before:?}, {readiness:?}, {refused:?}");
                }
                let is_whole = ledger.is_whole(version).unwrap();
                let members: Vec<Writer> = ledger.roster(version).members.iter().map(|member| member.record.writer).collect();
                if let Some(known) = whole.get(&version) {
                    prop_assert!(is_whole && *known == members, "step {number}: version {version}: {known:?}, {members:?}");
                }
                if is_whole {
                    ledger.settle(version, ledger.roster(version).epoch);
                    whole.insert(version, members);
                }
            }
        }
    }
}
