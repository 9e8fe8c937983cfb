//! Bytes that nobody meant make a fault or a message of just these bytes, and take no more memory than they may.
#![allow(unsafe_code)]
//!
//! # Safety
//!
//! The allocator leaves everything to that of the system, and counts.

use crate::bytes;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use crate::common::{
    maker::{KINDS, Maker},
    samples,
};
use stillframe_wire::{Fault, Kind, Message, bounds};

thread_local! {
    /// Bytes that this thread has now, and the most that it had.
    static TAKEN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(given: usize, back: usize) {
    // A thread that ends counts no more.
    let _ = TAKEN.try_with(|taken| {
        let (now, most) = taken.get();
        let now = (now + given).saturating_sub(back);
        taken.set((now, most.max(now)));
    });
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: what the caller promises is what the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // Both may be there for a while.
        count(bytes, 0);
        count(0, layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.realloc(old, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most memory that decoding had at one time, in bytes.
fn memory_bytes(kind: Kind, body: &[u8]) -> usize {
    let before = TAKEN.get().0;
    TAKEN.set((before, before));
    let decoded = std::hint::black_box(Message::decode(kind, body));
    let most = TAKEN.get().1 - before;
    drop(decoded);
    most
}

fn check(kind: Kind, body: &[u8]) -> Option<Message> {
    let (taken, allowed) = (memory_bytes(kind, body), bounds::MEMORY_FACTOR * body.len());
    assert!(taken <= allowed, "{kind}: {taken} bytes of memory for a body of {}: {body:?}", body.len());
    bytes::decode(kind, body)
}

fn frames() -> Vec<(Kind, Vec<u8>)> {
    let random = (0..KINDS).map(|number| Maker::new(number as u64).message(number % KINDS));
    let all = samples::all().into_iter().map(|(_, message)| message).chain(random);
    let encode = |message: Message| {
        let mut body = Vec::new();
        (message.encode(&mut body), body)
    };
    all.map(encode).collect()
}

#[test]
fn a_message_that_is_cut_short_is_none() {
    for (kind, body) in frames() {
        assert!(check(kind, &body).is_some());
        for end in 0..body.len() {
            assert_eq!(check(kind, &body[..end]), None, "{kind} up to byte {end}");
        }
        let longer = [&body[..], &[0]].concat();
        let rest = Fault::Rest { kind, offset: body.len(), bytes: 1 };
        assert_eq!(Message::decode(kind, &longer), Err(rest));
    }
}

#[test]
fn every_byte_may_be_another() {
    for (kind, body) in frames() {
        let mut damaged = body.clone();
        for place in 0..body.len() {
            let others = (0..8).map(|bit| body[place] ^ (1 << bit));
            for other in others.chain([0, 1, 2, 3, 0x7f, 0x80, 0xff]) {
                damaged[place] = other;
                check(kind, &damaged);
            }
            damaged[place] = body[place];
        }
    }
}

#[test]
fn a_message_of_one_kind_may_be_said_to_be_of_another() {
    for (_, body) in frames() {
        for (kind, _) in Kind::ALL {
            check(*kind, &body);
        }
    }
}

#[test]
fn numbers_that_lie_within_each_other_take_no_more_than_allowed() {
    for kind in [Kind::REPORTS, Kind::CHANGES, Kind::DECISIONS, Kind::SUBSCRIBE, Kind::SOURCES] {
        let bodies = frames().into_iter().filter(|(own, _)| *own == kind).map(|(_, body)| body);
        for mut body in bodies {
            // Wherever a number of things is, it says as many as there could be, and bytes follow that could be these.
            let length = body.len();
            body.resize(length + (1 << 14), 1);
            let damaged = body.clone();
            for place in 0..length.saturating_sub(4) {
                for most in [1 << 9, 1 << 10, 1 << 12, 1 << 14] {
                    body[place..place + 4].copy_from_slice(&u32::to_le_bytes(most));
                    check(kind, &body);
                }
                if place % 3 != 0 {
                    body[place..place + 4].copy_from_slice(&damaged[place..place + 4]);
                }
            }
        }
    }
}

#[test]
fn what_takes_the_most_memory_for_its_bytes_is_decoded_all_the_same() {
    use drepl::{
        IndexBox, IndexSet, Progression,
        transfer::{Axis, Move, Transfer},
    };
    use std::{num::NonZeroU64, sync::Arc};
    use stillframe_roster::{message::*, readiness::*, refusal::*, writer::*};
    use stillframe_wire::{ObjectId, data::*, roster::*};

    let object = ObjectId(NonZeroU64::MIN);
    let writer = |serial| Writer { node: Node(1), process: 1, serial };
    let single = |index| Elements::from(IndexBox::new([Progression::range(index, index + 1).unwrap()]).unwrap());
    let told = |serial: u32, elements: Elements| Told {
        record: Record {
            writer: writer(serial),
            rank: None,
            stages: vec![Stage { from: 0, role: Role::Died { elements } }],
            published: Published { newest: Some(1), present: [1].into() },
        },
        numbers: vec![1],
        accepted: 0,
        is_restored: false,
    };
    let proposal = |version| Proposal { version, epoch: 0, nodes: Arc::new([Node(1)].into()) };
    let report = Report {
        node: Node(1),
        revision: 1,
        serial: 1,
        heard: 1,
        declared: 1,
        writers: (0..1000).map(|serial| told(serial, single(u64::from(serial)))).collect(),
        pins: (0..1000).map(proposal).collect(),
        announced: proposal(1),
        yielded: None,
        ceiling: Ceiling { version: 1, nodes: Arc::new((0..1000).map(Node).collect()) },
        floor: 0,
        run_floor: 0,
        wants: (0..1000).map(|reader| Want { number: reader, version: 1, elements: single(reader) }).collect(),
    };
    let decision = Decision {
        node: Node(1),
        revision: 1,
        serial: 1,
        declared: 1,
        announced: proposal(1),
        ceiling: Ceiling { version: 1, nodes: Arc::new((0..1000).map(Node).collect()) },
        run_floor: 1,
        unpinned: (0..1000).map(|node| Unpinned { node: Node(node), is_lost: false }).collect(),
        proposed: None,
        refused: vec![Refused { writer: writer(1), number: 1, refusal: Refusal::Unknown }; 1000],
        ended: (0..1000).map(|serial| Ended { writer: writer(serial), from: 1 }).collect(),
        answers: (0..1000)
            .map(|reader| {
                (
                    reader,
                    Readiness::Lost(vec![
                        Loss { share: Share { who: None, elements: single(1) }, cause: Cause::Gone };
                        3
                    ]),
                )
            })
            .collect(),
    };
    let many: Vec<IndexBox> = (0..10_000)
        .map(|index| IndexBox::new([Progression::range(3 * index, 3 * index + 1).unwrap()]).unwrap())
        .collect();
    let scattered = Elements::from(IndexSet::from_disjoint(many, &mut 1_000_000).unwrap());
    let five: Vec<IndexBox> = (0..10_000)
        .map(|index| {
            IndexBox::new([index, 0, 0, 0, 0].map(|low| Progression::range(3 * low, 3 * low + 1).unwrap())).unwrap()
        })
        .collect();
    let deep = Elements::from(IndexSet::from_disjoint(five, &mut 1_000_000).unwrap());
    let names = (0..2000).map(|number| (format!("{number:04}"), 0_i64));
    let subscribe = |elements| {
        Message::Subscribe(Box::new(Subscribe {
            subscription: 1,
            object,
            name: "n".into(),
            fragment: FragmentText { text: String::new(), bindings: names.clone().collect() },
            elements,
            writers: Vec::new(),
            version: 1,
            has: None,
        }))
    };
    let runs = |axes: &[Axis]| {
        let one = |number: u64| Move {
            from: 1 << 20,
            to: number << 24,
            run_bytes: 1,
            swap_bytes: 1,
            axes: axes.iter().copied().collect(),
        };
        let transfer = Transfer::new((0..10_000).map(one).collect()).unwrap();
        let share = SourceShare { writer: writer(1), bytes: transfer.source_bytes(), transfer };
        Message::Sources(Sources { subscription: 1, epoch: 1, shares: vec![share] })
    };
    let axis = |to_bytes| Axis { count: 2, from_bytes: 5, to_bytes };
    let messages = [
        Message::Reports(vec![ObjectReport { object, name: "n".into(), report }]),
        Message::Decisions(vec![ObjectDecision { object, roster: 1, decision }]),
        subscribe(scattered),
        subscribe(deep),
        runs(&[]),
        runs(&[axis(2)]),
        runs(&[axis(1000), axis(400), axis(100), axis(40), axis(16), axis(4)]),
    ];
    for message in messages {
        let mut body = Vec::new();
        let kind = message.encode(&mut body);
        assert!(Message::decode(kind, &body).is_ok(), "{:?}", Message::decode(kind, &body).err());
        println!("{kind}: {:.1} bytes of memory for each", memory_bytes(kind, &body) as f64 / body.len() as f64);
        assert!(check(kind, &body) == Some(message));
    }
}

#[test]
fn boxes_that_cut_each_other_take_little_time_to_refuse_or_take() {
    // Strides without a common divisor, which the algebra of sets would cut into very many pieces.
    let mut body = Vec::new();
    [1_u64, 1].iter().for_each(|number| body.extend(number.to_le_bytes()));
    body.extend([1, 0, 0, 0, b'n', 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    let count = 40_000_u32;
    body.extend(count.to_le_bytes());
    body.push(2);
    for number in 0..u64::from(count) {
        let axes = [(number, 1, 1), (number % 7, 2 * number + 3, 1 << 20)];
        axes.iter().for_each(|(start, step, count)| {
            [*start, *step, *count].iter().for_each(|number| body.extend(number.to_le_bytes()));
        });
    }
    // No writers, and the newest version.
    body.extend([0; 5]);
    body.extend(1_u64.to_le_bytes());
    assert!(check(Kind::SUBSCRIBE, &body).is_some());

    // All within each other's range: too much work to find out that they share nothing.
    let mut body = body[..21 + 17].to_vec();
    let at = body.len() - 1 - 4;
    body.truncate(at);
    body.extend(count.to_le_bytes());
    body.push(1);
    for number in 0..u64::from(count) {
        [number, u64::from(count), 1000].iter().for_each(|number| body.extend(number.to_le_bytes()));
    }
    // No writers, and the newest version.
    body.extend([0; 5]);
    body.extend(1_u64.to_le_bytes());
    match Message::decode(Kind::SUBSCRIBE, &body) {
        Err(Fault::Invalid { what, .. }) => assert!(what.contains("too scattered"), "{what}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn numbers_that_each_could_be_true_but_not_together_are_refused_before_memory_is_taken() {
    const BYTES: usize = 1 << 20;
    let mut body = Vec::new();
    // As many things of each as bytes are left for, each within the first of the one before.
    let number = |body: &mut Vec<u8>, least_bytes: usize| {
        let count = (BYTES - body.len() - 8) / least_bytes;
        body.extend(u32::try_from(count).unwrap().to_le_bytes());
    };
    number(&mut body, 101); // decisions
    body.extend([1; 8 + 8 + 4 + 3 * 8]);
    body.extend([0; 8 + 8 + 4 + 8 + 4 + 8 + 4 + 1 + 4 + 4]);
    number(&mut body, 13); // answers
    body.extend([0, 0, 0, 0, 0, 0, 0, 0, 2]);
    number(&mut body, 6); // losses
    body.extend([0, 0, 1, 0, 0, 0]);
    number(&mut body, 24); // boxes
    body.push(1);
    body.resize(BYTES, 0);
    match Message::decode(Kind::DECISIONS, &body) {
        Err(Fault::Memory { kind: Kind::DECISIONS, .. }) => {}
        other => panic!("{:?}", other.map(|_| ())),
    }
    assert!(check(Kind::DECISIONS, &body).is_none());
}
