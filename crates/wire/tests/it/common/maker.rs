//! Sound messages of every kind, at random.

use std::{collections::BTreeSet, num::NonZeroU64, sync::Arc};

use drepl::{
    Bindings, IndexBox, IndexSet, Progression,
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

/// How many kinds there are.
pub const KINDS: usize = 31;

pub struct Maker {
    state: u64,
    sets: Vec<Elements>,
    nodes: Vec<Arc<BTreeSet<Node>>>,
}

impl Maker {
    pub fn new(seed: u64) -> Self {
        Self { state: seed, sets: Vec::new(), nodes: Vec::new() }
    }

    /// Splitmix64.
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Mostly small, sometimes anything.
    fn number(&mut self) -> u64 {
        if self.below(8) == 0 { self.next() } else { self.below(1000) }
    }

    fn many<T>(&mut self, most: u64, make: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }

    fn maybe<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Option<T> {
        (self.below(2) == 0).then(|| make(self))
    }

    fn ascending(&mut self, most: u64) -> Vec<u64> {
        let numbers: BTreeSet<u64> = self.many(most, Self::number).into_iter().collect();
        numbers.into_iter().collect()
    }

    fn text(&mut self) -> String {
        let all = ["", "heat", "grid/α", "x", "a name with spaces\n", "∂u/∂t"];
        all[self.below(6) as usize].into()
    }

    fn name(&mut self) -> String {
        format!("{}{}", self.text(), self.below(100))
    }

    fn object(&mut self) -> ObjectId {
        ObjectId(NonZeroU64::new(self.number().max(1)).unwrap())
    }

    fn progression(&mut self, start: u64) -> Progression {
        Progression::new(start + self.below(10), 1 + self.below(4), 1 + self.below(20)).unwrap()
    }

    fn set(&mut self) -> IndexSet {
        let rank = self.below(6);
        let count = if rank == 0 { 1 } else { 1 + self.below(4) };
        let boxes: Vec<IndexBox> = (0..count)
            .map(|position| {
                let axes: Vec<_> =
                    (0..rank).map(|axis| self.progression(if axis == 0 { position * 100 } else { 0 })).collect();
                IndexBox::new(axes).unwrap()
            })
            .collect();
        IndexSet::from_disjoint(boxes, &mut 100).unwrap()
    }

    /// Often one that was there before.
    pub fn elements(&mut self) -> Elements {
        match self.below(4) {
            0 => Elements::default(),
            1 if !self.sets.is_empty() => {
                let known = self.below(self.sets.len() as u64) as usize;
                self.sets[known].clone()
            }
            _ => {
                let made = Elements::from(self.set());
                self.sets.push(made.clone());
                made
            }
        }
    }

    fn node(&mut self) -> Node {
        Node(self.number() as u32)
    }

    fn node_set(&mut self) -> Arc<BTreeSet<Node>> {
        match self.below(3) {
            0 if !self.nodes.is_empty() => {
                let known = self.below(self.nodes.len() as u64) as usize;
                self.nodes[known].clone()
            }
            _ => {
                let made: Arc<BTreeSet<Node>> = Arc::new(self.many(20, Self::node).into_iter().collect());
                self.nodes.push(made.clone());
                made
            }
        }
    }

    fn writer(&mut self) -> Writer {
        Writer { node: self.node(), process: self.number() as u32, serial: self.number() as u32 }
    }

    fn writer_of(&mut self, node: Node) -> Writer {
        Writer { node, ..self.writer() }
    }

    fn rank(&mut self) -> Option<u32> {
        self.maybe(|own| own.number() as u32)
    }

    fn who(&mut self) -> Who {
        Who { writer: self.writer(), rank: self.rank() }
    }

    fn told(&mut self, writer: Writer, declared: u64) -> Told {
        let froms = self.ascending(4);
        let count = froms.len();
        let stages: Vec<Stage> = froms
            .into_iter()
            .enumerate()
            .map(|(position, from)| {
                let is_last = position + 1 == count;
                let role = match self.below(4) {
                    0 => Role::Left,
                    1 if is_last => Role::Died { elements: self.elements() },
                    _ => Role::Member { elements: self.elements(), expected: self.rank() },
                };
                Stage { from, role }
            })
            .collect();
        let numbers = (declared - count as u64 + 1..=declared).collect();
        let mut present = self.ascending(13);
        let newest = present.last().copied().or_else(|| self.maybe(Self::number));
        if self.below(2) == 0 {
            present.pop();
        }
        let published = Published { newest, present: present.into_iter().collect() };
        let record = Record { writer, rank: self.rank(), stages, published };
        let accepted = self.below(count as u64 + 1) as usize;
        Told { record, numbers, accepted, is_restored: self.below(2) == 0 }
    }

    fn proposal(&mut self, version: u64) -> Proposal {
        let epoch = self.number().min(version);
        Proposal { version, epoch, nodes: self.node_set() }
    }

    fn any_proposal(&mut self) -> Proposal {
        let version = self.number();
        self.proposal(version)
    }

    fn ceiling(&mut self) -> Ceiling {
        Ceiling { version: self.number(), nodes: self.any_proposal().nodes }
    }

    fn proposals(&mut self) -> Vec<Proposal> {
        self.ascending(3).into_iter().map(|version| self.proposal(version)).collect()
    }

    fn wants(&mut self) -> Vec<Want> {
        let readers = self.ascending(3);
        readers
            .into_iter()
            .map(|reader| Want { number: reader, version: self.number(), elements: self.elements() })
            .collect()
    }

    pub fn report(&mut self) -> Report {
        let (node, declared) = (self.node(), 4 + self.below(1 << 40));
        let writers: BTreeSet<Writer> = self.many(5, |own| own.writer_of(node)).into_iter().collect();
        Report {
            node,
            revision: self.number(),
            serial: self.number(),
            heard: self.number(),
            declared,
            writers: writers.into_iter().map(|writer| self.told(writer, declared)).collect(),
            pins: self.proposals(),
            announced: self.any_proposal(),
            yielded: self.maybe(Self::any_proposal),
            ceiling: self.ceiling(),
            floor: self.number(),
            run_floor: self.number(),
            wants: self.wants(),
        }
    }

    fn share(&mut self) -> Share {
        Share { who: self.maybe(Self::who), elements: self.elements() }
    }

    fn cause(&mut self) -> Cause {
        [Cause::Died, Cause::NodeLost, Cause::Gone, Cause::Unwritten][self.below(4) as usize]
    }

    fn loss(&mut self) -> Loss {
        Loss { share: self.share(), cause: self.cause() }
    }

    fn readiness(&mut self) -> Readiness {
        match self.below(3) {
            0 => Readiness::Ready(self.many(3, Self::share)),
            1 => Readiness::Waiting(self.many(3, Self::share)),
            _ => Readiness::Lost(self.many(3, Self::loss)),
        }
    }

    fn refusal(&mut self) -> Refusal {
        match self.below(7) {
            0 => Refusal::Overlap(Box::new(Overlap {
                version: self.number(),
                first: self.who(),
                first_elements: self.elements(),
                second: self.who(),
                second_elements: self.elements(),
                elements: self.elements(),
            })),
            1 => Refusal::Outside { part: self.elements(), shape: self.elements() },
            2 => Refusal::Late { from: self.number(), settled: self.number() },
            3 => Refusal::Order { from: self.number(), last: self.number() },
            4 => Refusal::Scattered,
            5 => Refusal::Unknown,
            _ => Refusal::NotNext { version: self.number(), newest: self.number() },
        }
    }

    fn decision(&mut self) -> Decision {
        let node = self.node();
        let unpinned: BTreeSet<Node> = self.many(3, Self::node).into_iter().collect();
        let ended: BTreeSet<Writer> = self.many(3, |own| own.writer_of(node)).into_iter().collect();
        let readers = self.ascending(3);
        Decision {
            node,
            revision: self.number(),
            serial: self.number(),
            declared: self.number(),
            announced: self.any_proposal(),
            ceiling: self.ceiling(),
            run_floor: self.number(),
            unpinned: unpinned.into_iter().map(|node| Unpinned { node, is_lost: self.below(2) == 0 }).collect(),
            proposed: self.maybe(|own| {
                let writers: BTreeSet<Writer> = own.many(4, |own| own.writer_of(node)).into_iter().collect();
                (own.any_proposal(), writers.into_iter().collect())
            }),
            refused: self.many(3, |own| Refused {
                writer: own.writer_of(node),
                number: own.number(),
                refusal: own.refusal(),
            }),
            ended: ended.into_iter().map(|writer| Ended { writer, from: self.number() }).collect(),
            answers: readers.into_iter().map(|reader| (reader, self.readiness())).collect(),
        }
    }

    fn change(&mut self) -> ObjectChange {
        let (object, before, mut after) = (self.object(), self.report(), self.report());
        after.serial = before.serial.saturating_add(1 + self.below(10));
        let before =
            Report { node: after.node, serial: before.serial.min(after.serial - 1), writers: Vec::new(), ..before };
        let mut change = ObjectChange::between(object, &before, &after);
        let told = |name: &Writer| after.writers.iter().any(|told| told.record.writer == *name);
        let gone: BTreeSet<Writer> = self.many(3, |own| own.writer_of(after.node)).into_iter().collect();
        change.gone = gone.into_iter().filter(|name| !told(name)).collect();
        change
    }

    pub fn transfer(&mut self) -> Transfer {
        let moves = self.many(6, Self::a_move);
        let apart = moves
            .into_iter()
            .enumerate()
            .map(|(position, each)| Move { to: each.to + ((position as u64) << 32), ..each });
        let mut made = Transfer::new(apart.collect()).unwrap();
        if self.below(3) == 0 {
            made = self.records();
        }
        match self.below(3) {
            0 => made,
            1 => made.pack(),
            _ => made.unpack(),
        }
    }

    /// Fields of records that go to other records, or apart: their moves interleave on one side or both.
    pub fn records(&mut self) -> Transfer {
        let fields = 1 + self.below(5);
        let (rows, cells) = (1 + self.below(4), 1 + self.below(6));
        let is_apart = self.below(2) == 0;
        let (from_cell, to_cell) =
            (8 * (fields + self.below(3)), if is_apart { 8 } else { 8 * (fields + self.below(3)) });
        let of_field = |number: u64| Move {
            from: 8 * number,
            to: if is_apart { number * 4096 } else { 8 * (fields - 1 - number) },
            run_bytes: 8,
            swap_bytes: 1,
            axes: [(rows, from_cell * cells, to_cell * cells), (cells, from_cell, to_cell)]
                .map(|(count, from, to)| Axis { count, from_bytes: from as i64, to_bytes: to as i64 })
                .into_iter()
                .collect(),
        };
        Transfer::new((0..fields).filter(|_| self.below(8) > 0).map(of_field).collect()).unwrap()
    }

    fn a_move(&mut self) -> Move {
        let swap_bytes = [1_u8, 2, 4, 8][self.below(4) as usize];
        let run_bytes = u64::from(swap_bytes) * (1 + self.below(4));
        let mut block = run_bytes as i64;
        let mut axes: Vec<Axis> = (0..self.below(6))
            .map(|_| {
                let count = 1 + self.below(5);
                let to_bytes = block + 8 * self.below(3) as i64;
                block = to_bytes * count as i64;
                let from_bytes = self.below(400) as i64 - 200;
                Axis { count, from_bytes, to_bytes: if self.below(4) == 0 { -to_bytes } else { to_bytes } }
            })
            .collect();
        let middle = self.below(axes.len() as u64 + 1) as usize;
        axes.rotate_left(middle);
        Move { from: 1 << 20, to: 1 << 20, run_bytes, swap_bytes, axes: axes.into_iter().collect() }
    }

    fn source(&mut self) -> SourceShare {
        let transfer = self.transfer();
        SourceShare { writer: self.writer(), bytes: transfer.source_bytes() + self.below(3), transfer }
    }

    fn fragment(&mut self) -> FragmentText {
        let bindings = self.many(4, |own| (own.name(), own.next() as i64));
        FragmentText { text: self.text(), bindings: bindings.into_iter().collect::<Bindings>() }
    }

    /// Ascending.
    fn writers(&mut self) -> Vec<Writer> {
        let writers: BTreeSet<Writer> = self.many(5, Self::writer).into_iter().collect();
        writers.into_iter().collect()
    }

    fn declared(&mut self, writer: Writer) -> Declared {
        let from = self.number();
        Declared {
            writer,
            rank: self.maybe(|own| own.number() as u32),
            layout: self.fragment(),
            from,
            left: self.maybe(|own| from.saturating_add(own.below(9))),
            died: self.below(2) == 1,
            expected: self.maybe(|own| own.number() as u32),
        }
    }

    fn subscribe(&mut self) -> Subscribe {
        Subscribe {
            subscription: self.number(),
            object: self.object(),
            name: self.name(),
            fragment: self.fragment(),
            elements: self.elements(),
            writers: self.writers(),
            version: self.number(),
            has: self.maybe(Self::number),
        }
    }

    fn hello(&mut self) -> Hello {
        let least = self.number() as u16;
        Hello {
            protocols: Protocols { least, most: least.saturating_add(self.below(5) as u16) },
            job: self.text(),
            node: self.node(),
            name: self.text(),
            incarnation: u128::from(self.next()) << 64 | u128::from(self.next()),
            abi: self.number() as u32,
        }
    }

    fn group_ranks(&mut self) -> GroupRanks {
        let told = |own: &mut Self, rank| {
            let lives = own.below(2) == 1;
            let (ended, begun_ago_ns) = (!lives && own.below(2) == 1, own.next());
            RankTold { rank, lives, ended, begun_ago_ns, newest: own.maybe(Self::number) }
        };
        let numbers: BTreeSet<u32> = self.many(5, |own| own.below(1 << 16) as u32).into_iter().collect();
        let ranks: Vec<RankTold> = numbers.into_iter().map(|rank| told(self, rank)).collect();
        let runs: BTreeSet<u64> = self.many(4, Self::next).into_iter().collect();
        let runs = runs.into_iter().map(|run| RunTold { run, begun_ago_ns: self.next(), seen_ago_ns: self.next() });
        let runs = runs.collect();
        let versions: BTreeSet<u64> = self.many(5, Self::number).into_iter().collect();
        let versions = versions.into_iter().map(|version| RankVersion { version, run: self.next() }).collect();
        let size = ranks.last().map_or(0, |last: &RankTold| last.rank + 1);
        GroupRanks { group: self.name(), size, ranks, runs, versions }
    }

    /// A message of a kind, by its position.
    pub fn message(&mut self, kind: usize) -> Message {
        let (subscription, version) = (self.number(), self.number());
        match kind {
            0 => Message::Hello(self.hello()),
            1 => Message::Refuse(Refuse { why: self.text() }),
            2 => Message::Ping(self.next()),
            3 => Message::Pong(self.next()),
            4 => Message::Bye(Bye { why: self.text() }),
            5 => Message::Reports(self.many(3, |own| ObjectReport {
                object: own.object(),
                name: own.name(),
                report: own.report(),
            })),
            6 => Message::Changes(self.many(3, Self::change)),
            7 => Message::Decisions(self.many(3, |own| ObjectDecision {
                object: own.object(),
                roster: version,
                decision: own.decision(),
            })),
            8 => Message::Subscribe(Box::new(self.subscribe())),
            9 => Message::Unsubscribe(Unsubscribe { subscription }),
            10 => Message::Sources(Sources { subscription, epoch: version, shares: self.many(4, Self::source) }),
            11 => Message::Piece(Piece { subscription, version, share: self.number() as u32, offset: self.number() }),
            12 => Message::Sent(Sent { subscription, version, published_ns: self.next() }),
            13 => {
                let (share, offset, bytes) = (self.number() as u32, self.number(), self.number());
                Message::Unchanged(Unchanged { subscription, version, share, offset, bytes })
            }
            14 => Message::Ask(Ask { object: self.object(), name: self.name(), revision: self.number() }),
            15 => {
                let layouts = self.writers().into_iter().map(|writer| (writer, self.fragment())).collect();
                Message::Layouts(Layouts { object: self.object(), name: self.name(), layouts })
            }
            16 => {
                let declared = self.writers().into_iter().map(|writer| self.declared(writer)).collect();
                let is_last = self.below(2) == 0;
                Message::Roster(Roster {
                    object: self.object(),
                    revision: version,
                    serial: self.number(),
                    declared,
                    is_last,
                })
            }
            17 => {
                let (base, mut declared, mut gone) = (self.number(), Vec::new(), Vec::new());
                for writer in self.writers() {
                    match self.below(3) {
                        0 => gone.push(writer),
                        _ => declared.push(self.declared(writer)),
                    }
                }
                let (object, serial) = (self.object(), base.saturating_add(self.below(3)));
                let is_last = self.below(2) == 0;
                Message::RosterChange(RosterChange { object, revision: version, base, serial, declared, gone, is_last })
            }
            18 => Message::GroupFollow(GroupName { group: self.name() }),
            19 => Message::GroupLeave(GroupName { group: self.name() }),
            20 => Message::GroupRanks(self.group_ranks()),
            21 => {
                let ranks: BTreeSet<u32> = self.many(4, |own| own.number() as u32).into_iter().collect();
                let (group, run, ranks) = (self.name(), self.next(), ranks.into_iter().collect());
                Message::GroupGet(GroupGet { fetch: subscription, group, version, run, ranks })
            }
            22 => {
                let (rank, published_ns, content) = (self.number() as u32, self.next(), self.text());
                Message::GroupRank(GroupRank { fetch: subscription, rank, published_ns, content })
            }
            23 => {
                let (rank, variable, offset) = (self.number() as u32, self.number() as u32, self.number());
                Message::GroupPiece(GroupPiece { fetch: subscription, rank, variable, offset })
            }
            24 => Message::GroupSent(GroupSent { fetch: subscription, rank: self.number() as u32 }),
            25 => Message::GroupLost(GroupLost { fetch: subscription, rank: self.number() as u32, why: self.text() }),
            26 => Message::GroupList(GroupList { number: subscription }),
            27 => {
                let groups = self.many(3, Self::group_ranks);
                Message::GroupListed(GroupListed { number: subscription, groups })
            }
            28 => Message::Describe(Describe { object: self.object(), name: self.name() }),
            29 => {
                let (object, name, text) = (self.object(), self.name(), self.fragment());
                Message::Description(Description { object, name, initial: version, text })
            }
            _ => Message::Lost(Lost { subscription, version, cause: self.cause(), who: self.maybe(Self::who) }),
        }
    }
}
