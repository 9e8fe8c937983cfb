//! What two runtimes agree on, what is refused and with which words, and what changes make of reports.

use crate::bytes;

use crate::common::{maker::Maker, samples};
use drepl::{IndexBox, Progression};
use stillframe_roster::{
    message::Report,
    writer::{Elements, Node, Published, Role, Stage},
};
use stillframe_wire::{
    Fault, Kind, Message, bounds,
    hello::{Hello, Protocols, agree},
    liveness::Bye,
    roster::{ObjectChange, ObjectReport},
};

fn hello(node: u32, least: u16, most: u16) -> Hello {
    Hello {
        protocols: Protocols { least, most },
        job: "job".into(),
        node: Node(node),
        name: format!("host{node}"),
        incarnation: 1,
        abi: 3,
    }
}

/// Both sides come to the same, each with its own first.
fn both(one: &Hello, other: &Hello) -> Result<u16, Fault> {
    let (here, there) = (agree(one, other), agree(other, one));
    assert_eq!(here.as_ref().ok(), there.as_ref().ok());
    here
}

#[test]
fn the_newest_protocol_that_both_speak_is_spoken() {
    assert_eq!(both(&hello(1, 1, 3), &hello(2, 2, 5)), Ok(3));
    assert_eq!(both(&hello(1, 1, 1), &hello(2, 1, 1)), Ok(1));
    let fault = both(&hello(1, 1, 2), &hello(2, 3, 4)).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "here protocols 1 to 2 are spoken, there 3 to 4; install versions that have one in common"
    );
}

#[test]
fn runtimes_of_other_jobs_formats_and_of_the_same_node_are_refused_by_name() {
    let own = hello(1, 1, 1);
    let job = Hello { job: "other".into(), ..hello(2, 1, 1) };
    assert_eq!(both(&own, &job), Err(Fault::Job { own: "job".into(), theirs: "other".into() }));
    let again = Hello { incarnation: 2, name: "again".into(), ..hello(1, 1, 1) };
    assert_eq!(both(&own, &again), Err(Fault::Node { node: Node(1), own: "host1".into(), theirs: "again".into() }));
    let abi = Hello { abi: 4, ..hello(2, 1, 1) };
    assert_eq!(both(&own, &abi), Err(Fault::Abi { own: 3, theirs: 4 }));
}

fn fault(message: &Message) -> String {
    let mut body = Vec::new();
    let kind = message.encode(&mut body);
    match Message::decode(kind, &body) {
        Err(Fault::Invalid { what, .. }) => what.into(),
        Err(other) => other.to_string(),
        Ok(_) => panic!("nothing was wrong"),
    }
}

fn reported(change: impl FnOnce(&mut Report)) -> String {
    let mut report = samples::report();
    change(&mut report);
    fault(&Message::Reports(vec![ObjectReport {
        object: stillframe_wire::ObjectId(std::num::NonZeroU64::MIN),
        name: "heat".into(),
        report,
    }]))
}

#[test]
fn what_breaks_the_promises_of_a_report_is_refused() {
    let present = |newest, present: &[u64]| Published { newest, present: present.iter().copied().collect() };
    type Change = Box<dyn Fn(&mut Report)>;
    let cases: Vec<(&str, Change)> = vec![
        ("stages do not ascend", Box::new(|report| report.writers[0].record.stages[1].from = 10)),
        ("stages do not ascend", Box::new(|report| report.writers[0].record.stages.swap(0, 1))),
        ("numbers of stages do not ascend", Box::new(|report| report.writers[0].numbers[1] = 1)),
        (
            "a stage follows a death",
            Box::new(|report| {
                let told = &mut report.writers[1];
                told.record.stages.push(Stage { from: 99, role: Role::Left });
                told.numbers.push(5);
            }),
        ),
        ("more stages are accepted than there are", Box::new(|report| report.writers[1].accepted = 2)),
        ("a stage has a larger number than the largest", Box::new(|report| report.declared = 4)),
        (
            "a version is present above the newest",
            Box::new(move |report| report.writers[0].record.published = present(Some(11), &[11, 12])),
        ),
        (
            "a version is present above the newest",
            Box::new(move |report| report.writers[0].record.published = present(None, &[3])),
        ),
        ("writers do not ascend", Box::new(|report| report.writers.swap(0, 1))),
        ("writers do not ascend", Box::new(|report| report.writers[1].record.writer = report.writers[0].record.writer)),
        ("a report tells of a writer of another node", Box::new(|report| report.node = Node(8))),
        ("pins do not ascend", Box::new(|report| report.pins.swap(0, 1))),
        ("a version lies below the first of its epoch", Box::new(|report| report.announced.epoch = 12)),
        ("numbers of wants do not ascend", Box::new(|report| report.wants[1].number = 1)),
    ];
    for (what, change) in cases {
        assert_eq!(reported(change), what);
    }
}

#[test]
fn boxes_of_sets_are_those_that_the_type_has() {
    let axis = |start: u64, step: u64, count: u64| [start, step, count].map(u64::to_le_bytes).concat();
    let mut body = Vec::new();
    let subscribe = samples::all().into_iter().find(|(name, _)| *name == "subscribe").unwrap().1;
    subscribe.encode(&mut body);
    let first = axis(0, 4, 16);
    let at = body.windows(24).position(|bytes| bytes == first).unwrap();
    let refused = |place: usize, bytes: &[u8]| {
        let mut damaged = body.clone();
        damaged[place..place + bytes.len()].copy_from_slice(bytes);
        match Message::decode(Kind::SUBSCRIBE, &damaged) {
            Err(Fault::Invalid { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    };
    let no_progression = "an axis is no progression: it is empty, or leaves 64 bits";
    assert_eq!(refused(at, &axis(0, 4, 0)), no_progression);
    assert_eq!(refused(at, &axis(0, 0, 2)), no_progression);
    assert_eq!(refused(at, &axis(5, 4, 1)), no_progression, "one index has the step 1");
    assert_eq!(refused(at, &axis(u64::MAX, 1, 1)), no_progression);
    assert_eq!(refused(at, &axis(2, 2, 4)), "boxes of one set share elements");
    assert_eq!(refused(at - 5, &[0; 4]), "an empty set is written out");
    assert_eq!(refused(at - 5, &[1; 4]), "a set has more boxes than bytes are left for");
    assert_eq!(refused(at - 1, &[0]), "boxes without axes share their element");
    assert_eq!(refused(at - 9, &[2, 0, 0, 0]), "a set is named that was not written out before");
}

#[test]
fn texts_have_bounds_and_are_utf_8() {
    let long = Message::Bye(Bye { why: "x".repeat(bounds::NAME_BYTES_MAX + 1) });
    assert_eq!(fault(&long), "BYE (5) at byte 0: a reason of 4097 bytes, and at most 4096 are read");
    assert_eq!(
        Message::decode(Kind::BYE, &[3, 0, 0, 0, b'a', 0xff, b'b']),
        Err(Fault::Invalid { kind: Kind::BYE, offset: 5, what: "a text is not UTF-8" })
    );
    let bytes = bounds::BODY_BYTES_MAX + 1;
    assert_eq!(Message::decode(Kind::PING, &vec![0; bytes]), Err(Fault::Long { kind: Kind::PING, bytes }));
}

#[test]
fn sets_that_are_shared_are_written_once_and_shared_again() {
    let elements = |from: u64| -> Elements { IndexBox::new([Progression::range(from, 100).unwrap()]).unwrap().into() };
    let length = |sets: [Elements; 3]| {
        let mut report = samples::report();
        for (stage, elements) in report.writers[0].record.stages.iter_mut().zip(sets) {
            stage.role = Role::Member { elements, expected: None };
        }
        let object = stillframe_wire::ObjectId(std::num::NonZeroU64::MIN);
        let message = Message::Reports(vec![ObjectReport { object, name: "heat".into(), report }]);
        let mut body = Vec::new();
        message.encode(&mut body);
        let Some(Message::Reports(reports)) = bytes::decode(Kind::REPORTS, &body) else { panic!("no reports") };
        let places = reports[0].report.writers[0].record.stages.iter().map(|stage| match &stage.role {
            Role::Member { elements, .. } => std::ptr::from_ref::<drepl::IndexSet>(elements),
            _ => panic!("a member"),
        });
        let mut places: Vec<_> = places.collect();
        places.dedup();
        (body.len(), places.len())
    };
    let one = elements(0);
    let (shared, one_place) = length([one.clone(), one.clone(), one]);
    let (apart, three_places) = length([elements(0), elements(0), elements(0)]);
    assert_eq!((apart - shared, one_place, three_places), (2 * (4 + 1 + 24), 1, 3));
}

#[test]
fn changes_make_the_newer_report_of_the_older() {
    let object = stillframe_wire::ObjectId(std::num::NonZeroU64::MIN);
    for seed in 0..500 {
        let mut maker = Maker::new(seed);
        let (before, other) = (maker.report(), maker.report());
        // Some writers go, some come, some are told of anew, most stay.
        let (serial, node, floor) = (before.serial.saturating_add(1), before.node, before.floor);
        let mut after = Report { serial, node, floor, ..other };
        let before = Report { serial: after.serial - 1, ..before };
        for told in &mut after.writers {
            told.record.writer.node = before.node;
        }
        after.writers.extend(before.writers.iter().filter(|_| maker.below(4) > 0).cloned());
        after.writers.sort_by_key(|told| told.record.writer);
        after.writers.dedup_by_key(|told| told.record.writer);
        after.declared = after.declared.max(before.declared);
        let change = ObjectChange::between(object, &before, &after);
        let mut body = Vec::new();
        let kind = Message::Changes(vec![change]).encode(&mut body);
        let Some(Message::Changes(mut changes)) = bytes::decode(kind, &body) else { panic!("no changes") };
        let mut report = before.clone();
        let change = changes.pop().unwrap();
        change.clone().apply(&mut report).unwrap();
        assert_eq!(report, after);

        let known = report.serial;
        let fault = Fault::Base { node: before.node, base: before.serial, known };
        assert_eq!(change.apply(&mut report), Err(fault), "it is not one of the newer report");
        assert_eq!(report, after);
    }
}
