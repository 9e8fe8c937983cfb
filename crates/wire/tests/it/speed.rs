//! How long reports of many writers take. Nothing is asserted; it prints:
//!
//! `cargo test --release -p stillframe-wire --test speed -- --ignored --nocapture`

use std::{collections::BTreeSet, hint::black_box, num::NonZeroU64, sync::Arc, time::Instant};

use drepl::{IndexBox, Progression};
use stillframe_roster::{
    message::{Ceiling, Proposal, Report, Told},
    writer::{Node, Published, Record, Role, Stage, Writer},
};
use stillframe_wire::{
    Message, ObjectId,
    roster::{ObjectChange, ObjectReport},
};

/// A node whose writers have 32×32 blocks of an array, and two present versions each.
fn report(writers: u32) -> Report {
    let told = |serial: u32| {
        let low = |index: u32| u64::from(index) * 32;
        let range = |low| Progression::range(low, low + 32).unwrap();
        let block =
            IndexBox::new([Progression::range(0, 1).unwrap(), range(low(serial / 32)), range(low(serial % 32))]);
        let elements = block.unwrap().into();
        Told {
            record: Record {
                writer: Writer { node: Node(1), process: serial, serial: 1 },
                rank: Some(serial),
                stages: vec![Stage { from: 1, role: Role::Member { elements, expected: Some(writers) } }],
                published: Published { newest: Some(100), present: [99, 100].into() },
            },
            numbers: vec![u64::from(serial) + 1],
            accepted: 1,
            is_restored: false,
        }
    };
    let nodes: Arc<BTreeSet<Node>> = Arc::new((0..64).map(Node).collect());
    let pin = Proposal { version: 99, epoch: 1, nodes };
    Report {
        node: Node(1),
        revision: 1,
        serial: 500,
        heard: 100,
        declared: u64::from(writers),
        writers: (0..writers).map(told).collect(),
        pins: vec![pin.clone()],
        announced: pin,
        yielded: None,
        ceiling: Ceiling::initial(100),
        floor: 0,
        run_floor: 0,
        wants: Vec::new(),
    }
}

/// The median of many runs, in microseconds.
fn median_us(mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..401)
        .map(|_| {
            let begin = Instant::now();
            run();
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn show(what: &str, message: &Message) {
    let mut body = Vec::new();
    let kind = message.encode(&mut body);
    let encode = median_us(|| {
        body.clear();
        black_box(message.encode(&mut body));
    });
    let mut kept = None;
    // What was decoded before is freed within the time.
    let decode = median_us(|| kept = black_box(Message::decode(kind, &body)).ok());
    assert_eq!(kept.as_ref(), Some(message));
    println!("{what}: {} bytes, encoded in {encode:.1} µs, decoded in {decode:.1} µs", body.len());
}

#[test]
#[ignore = "prints how long it takes, which only a release build tells"]
fn reports_of_1000_writers() {
    let object = ObjectId(NonZeroU64::MIN);
    let before = report(1000);
    let mut after = Report { serial: 501, ..before.clone() };
    for told in &mut after.writers[500..502] {
        told.record.published = Published { newest: Some(101), present: [100, 101].into() };
    }
    let whole = ObjectReport { object, name: "heat".into(), report: after.clone() };
    let clone = median_us(|| drop(black_box(self::report(1000))));
    println!("the same made anew in memory, and freed: {clone:.1} µs");
    show("a report of 1000 writers", &Message::Reports(vec![whole]));

    let change = ObjectChange::between(object, &before, &after);
    show("the change of 2 of 1000 writers", &Message::Changes(vec![change.clone()]));
    let between = median_us(|| drop(black_box(ObjectChange::between(object, &before, &after))));
    let mut report = before.clone();
    let apply = median_us(|| {
        report.serial = 500;
        change.clone().apply(black_box(&mut report)).unwrap();
    });
    assert_eq!(report, after);
    println!("the change found in {between:.1} µs, applied in {apply:.1} µs");
}
