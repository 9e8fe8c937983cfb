//! One message of each kind or more, with all variants of what they have. They never change.

use std::{num::NonZeroU64, sync::Arc};

use drepl::{
    Bindings, IndexBox, Progression,
    transfer::{Axis, Move, Transfer},
};
use stillframe_roster::{
    message::{Ceiling, Decision, Ended, Proposal, Refused, Report, Told, Unpinned, Want},
    readiness::{Cause, Loss, Readiness, Share},
    refusal::{Overlap, Refusal},
    writer::{Elements, Node, Published, Record, Role, Stage, Who, Writer},
};
use stillframe_wire::{
    Message, ObjectId,
    data::{FragmentText, Lost, Piece, Sent, SourceShare, Sources, Subscribe, Unchanged, Unsubscribe},
    group::{
        GroupGet, GroupList, GroupListed, GroupLost, GroupName, GroupPiece, GroupRank, GroupRanks, GroupSent, RankTold,
        RankVersion, RunTold,
    },
    hello::{Hello, Protocols, Refuse},
    liveness::Bye,
    roster::{
        Ask, Declared, Describe, Description, Layouts, ObjectChange, ObjectDecision, ObjectReport, Roster, RosterChange,
    },
};

fn object(id: u64) -> ObjectId {
    ObjectId(NonZeroU64::new(id).unwrap())
}

fn writer(serial: u32) -> Writer {
    Writer { node: Node(7), process: 4242, serial }
}

fn who(serial: u32) -> Who {
    Who { writer: writer(serial), rank: (serial > 1).then_some(serial) }
}

fn block(low: u64, end: u64) -> Elements {
    IndexBox::new([Progression::range(0, 1).unwrap(), Progression::range(low, end).unwrap()]).unwrap().into()
}

fn strided() -> Elements {
    let one = |start, count| IndexBox::new([Progression::new(start, 4, count).unwrap()]).unwrap();
    drepl::IndexSet::from_disjoint(vec![one(0, 16), one(2, 9)], &mut 10).unwrap().into()
}

fn proposal(version: u64) -> Proposal {
    Proposal { version, epoch: 10, nodes: Arc::new([Node(3), Node(7)].into()) }
}

pub fn report() -> Report {
    let elements = block(0, 50);
    let member = |from, expected| Stage { from, role: Role::Member { elements: elements.clone(), expected } };
    let writing = Told {
        record: Record {
            writer: writer(1),
            rank: None,
            stages: vec![member(10, None), member(20, Some(4)), Stage { from: 30, role: Role::Left }],
            published: Published { newest: Some(12), present: [11, 12].into() },
        },
        numbers: vec![1, 2, 5],
        accepted: 1,
        is_restored: false,
    };
    let dead = Told {
        record: Record {
            writer: writer(2),
            rank: Some(2),
            stages: vec![Stage { from: 11, role: Role::Died { elements: elements.clone() } }],
            published: Published::default(),
        },
        numbers: vec![4],
        accepted: 0,
        is_restored: true,
    };
    let pin = proposal(11);
    Report {
        node: Node(7),
        revision: 100,
        serial: 9,
        heard: 3,
        declared: 5,
        writers: vec![writing, dead],
        pins: vec![pin.clone(), Proposal { version: 12, ..pin.clone() }],
        announced: pin,
        yielded: Some(Proposal { version: 10, epoch: 10, nodes: Arc::default() }),
        ceiling: Ceiling { version: 20, nodes: Arc::new([Node(3), Node(7)].into()) },
        floor: 8,
        run_floor: 7,
        wants: vec![
            Want { number: 1, version: 12, elements: strided() },
            Want { number: 2, version: 12, elements: Elements::default() },
        ],
    }
}

fn refusals() -> Vec<Refusal> {
    let elements = block(40, 60);
    vec![
        Refusal::Overlap(Box::new(Overlap {
            version: 10,
            first: who(1),
            first_elements: block(0, 50),
            second: who(3),
            second_elements: elements.clone(),
            elements: block(40, 50),
        })),
        Refusal::Outside { part: elements, shape: block(0, 50) },
        Refusal::Late { from: 3, settled: 9 },
        Refusal::Order { from: 8, last: 8 },
        Refusal::Scattered,
        Refusal::Unknown,
        Refusal::NotNext { version: 3, newest: 4 },
    ]
}

fn decision() -> Decision {
    let refused = |(number, refusal)| Refused { writer: writer(9), number, refusal };
    let share = Share { who: Some(who(3)), elements: block(0, 8) };
    let nobodys = Share { who: None, elements: share.elements.clone() };
    let loss = |cause| Loss { share: share.clone(), cause };
    Decision {
        node: Node(7),
        revision: 100,
        serial: 4,
        declared: 5,
        announced: proposal(11),
        ceiling: Ceiling { version: 20, nodes: Arc::new([Node(3), Node(7)].into()) },
        run_floor: 21,
        unpinned: vec![Unpinned { node: Node(3), is_lost: true }, Unpinned { node: Node(7), is_lost: false }],
        proposed: Some((proposal(12), vec![writer(1), writer(2)])),
        refused: (1..).zip(refusals()).map(refused).collect(),
        ended: vec![Ended { writer: writer(1), from: 4 }, Ended { writer: writer(3), from: 12 }],
        answers: vec![
            (1, Readiness::Ready(vec![share.clone()])),
            (2, Readiness::Waiting(vec![nobodys])),
            (3, Readiness::Lost([Cause::Died, Cause::NodeLost, Cause::Gone, Cause::Unwritten].map(loss).into())),
        ],
    }
}

fn transfer() -> Transfer {
    let rows = Move {
        from: 16,
        to: 0,
        run_bytes: 8,
        swap_bytes: 8,
        axes: [Axis { count: 5, from_bytes: 400, to_bytes: 64 }, Axis { count: 3, from_bytes: -16, to_bytes: 8 }]
            .into_iter()
            .collect(),
    };
    let rows = Move { from: 1000, ..rows };
    let run = Move { from: 4096, to: 8192, run_bytes: 512, swap_bytes: 1, axes: Default::default() };
    Transfer::new(vec![rows, run]).unwrap().unpack()
}

fn layout() -> FragmentText {
    FragmentText {
        text: "view g readonly { var g [x:4] = grid[x+xmin] }".into(),
        bindings: Bindings::from([("xmin", -3), ("n", i64::MAX)]),
    }
}

fn group_ranks() -> GroupRanks {
    GroupRanks {
        group: "heat".into(),
        size: 4,
        ranks: vec![
            RankTold { rank: 0, lives: true, ended: false, begun_ago_ns: 1_000_000, newest: Some(12) },
            RankTold { rank: 3, lives: false, ended: true, begun_ago_ns: 2_000_000, newest: None },
        ],
        runs: vec![RunTold { run: 0xfeed, begun_ago_ns: 2_000_000, seen_ago_ns: 0 }],
        versions: vec![RankVersion { version: 11, run: 0xfeed }, RankVersion { version: 12, run: 0xfeed }],
    }
}

/// Names and messages.
pub fn all() -> Vec<(&'static str, Message)> {
    let (subscription, version) = (77, 12);
    let (before, mut after) = (report(), report());
    (after.serial, after.heard) = (11, 4);
    after.writers[0].record.published = Published { newest: Some(13), present: [12, 13].into() };
    after.writers.pop();
    let mut change = ObjectChange::between(object(1), &before, &after);
    change.yielded = None;
    let transfer = transfer();
    let subscribe = |has| {
        Message::Subscribe(Box::new(Subscribe {
            subscription,
            object: object(0xfeed),
            name: "heat".into(),
            fragment: layout(),
            elements: strided(),
            writers: vec![writer(1), writer(3)],
            version,
            has,
        }))
    };
    let hello = Hello {
        protocols: Protocols { least: 1, most: 3 },
        job: "heat-4711".into(),
        node: Node(7),
        name: "knoten-é".into(),
        incarnation: 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef,
        abi: 3,
    };
    vec![
        ("hello", Message::Hello(hello)),
        ("refuse", Message::Refuse(Refuse { why: "another job".into() })),
        ("ping", Message::Ping(0x0102_0304_0506_0708)),
        ("pong", Message::Pong(u64::MAX)),
        ("bye", Message::Bye(Bye { why: "the job ended".into() })),
        (
            "reports",
            Message::Reports(vec![
                ObjectReport { object: object(1), name: "heat".into(), report: report() },
                ObjectReport {
                    object: object(2),
                    name: "flow".into(),
                    report: Report { writers: Vec::new(), ..report() },
                },
            ]),
        ),
        ("changes", Message::Changes(vec![change])),
        (
            "decisions",
            Message::Decisions(vec![ObjectDecision { object: object(u64::MAX), roster: 9, decision: decision() }]),
        ),
        ("ask", Message::Ask(Ask { object: object(3), name: "heat".into(), revision: 5 })),
        (
            "layouts",
            Message::Layouts(Layouts {
                object: object(3),
                name: "heat".into(),
                layouts: vec![(writer(1), layout()), (writer(2), layout())],
            }),
        ),
        (
            "roster",
            Message::Roster(Roster {
                object: object(3),
                revision: 5,
                serial: 9,
                declared: vec![
                    Declared {
                        writer: writer(1),
                        rank: Some(4),
                        layout: layout(),
                        from: 1,
                        left: Some(7),
                        died: true,
                        expected: None,
                    },
                    Declared {
                        writer: writer(2),
                        rank: None,
                        layout: layout(),
                        from: 8,
                        left: None,
                        died: false,
                        expected: Some(2),
                    },
                ],
                is_last: true,
            }),
        ),
        ("describe", Message::Describe(Describe { object: object(3), name: "heat".into() })),
        (
            "description",
            Message::Description(Description { object: object(3), name: "heat".into(), initial: 7, text: layout() }),
        ),
        (
            "roster-change",
            Message::RosterChange(RosterChange {
                object: object(3),
                revision: 5,
                base: 9,
                serial: 11,
                declared: vec![Declared {
                    writer: writer(3),
                    rank: Some(6),
                    layout: layout(),
                    from: 8,
                    left: None,
                    died: false,
                    expected: None,
                }],
                gone: vec![writer(1), writer(2)],
                is_last: false,
            }),
        ),
        ("subscribe", subscribe(None)),
        ("subscribe-again", subscribe(Some(9))),
        ("unsubscribe", Message::Unsubscribe(Unsubscribe { subscription })),
        (
            "sources",
            Message::Sources(Sources {
                subscription,
                epoch: 10,
                shares: vec![
                    SourceShare { writer: writer(1), bytes: transfer.source_bytes(), transfer },
                    SourceShare { writer: writer(2), bytes: 0, transfer: Transfer::default() },
                ],
            }),
        ),
        ("piece", Message::Piece(Piece { subscription, version, share: 1, offset: 1 << 33 })),
        ("sent", Message::Sent(Sent { subscription, version, published_ns: 1_700_000_000_123_456_789 })),
        ("lost-of", Message::Lost(Lost { subscription, version, cause: Cause::Died, who: Some(who(3)) })),
        ("lost", Message::Lost(Lost { subscription, version, cause: Cause::Unwritten, who: None })),
        (
            "unchanged",
            Message::Unchanged(Unchanged { subscription, version, share: 1, offset: 1 << 33, bytes: 1 << 20 }),
        ),
        ("group-follow", Message::GroupFollow(GroupName { group: "heat".into() })),
        ("group-leave", Message::GroupLeave(GroupName { group: "heat".into() })),
        ("group-ranks", Message::GroupRanks(group_ranks())),
        (
            "group-get",
            Message::GroupGet(GroupGet { fetch: 5, group: "heat".into(), version, run: 0xfeed, ranks: vec![0, 3] }),
        ),
        (
            "group-rank",
            Message::GroupRank(GroupRank { fetch: 5, rank: 3, published_ns: 1 << 60, content: "{}".into() }),
        ),
        ("group-piece", Message::GroupPiece(GroupPiece { fetch: 5, rank: 3, variable: 1, offset: 4096 })),
        ("group-sent", Message::GroupSent(GroupSent { fetch: 5, rank: 3 })),
        ("group-lost", Message::GroupLost(GroupLost { fetch: 5, rank: 3, why: "it went".into() })),
        ("group-list", Message::GroupList(GroupList { number: 9 })),
        ("group-listed", Message::GroupListed(GroupListed { number: 9, groups: vec![group_ranks(), group_ranks()] })),
    ]
}
