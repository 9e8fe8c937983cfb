//! All nodes, the home, and the messages between them.

use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use stillframe_node::home::{Home, Outgoing};
use stillframe_node::roster::News;
use stillframe_roster::refusal::Refusal;
use stillframe_roster::writer::{Node as Number, Revision, Stage, Version, Writer};
use stillframe_wire::bounds::BODY_BYTES_MAX;
use stillframe_wire::kind::Kind;
use stillframe_wire::roster::{Ask, ObjectDecision};
use stillframe_wire::{Message, ObjectId};

use crate::cost::{Cost, Memory, Meter};
use crate::grid::Grid;
use crate::node::Node;

/// Where the home is.
const HOME: Number = Number(0);
const NAME: &str = "simulation/u";
const INITIAL: Version = 0;
const LEASE: Duration = Duration::from_secs(3);

/// A message on its way.
#[derive(Debug)]
enum Carried {
    /// From the home's own node to it, or back: nothing is encoded.
    Own(Box<Message>),
    /// Over the network.
    Sent(Kind, Rc<Vec<u8>>),
    /// Who writes the object.
    Roster(Revision, Rc<Told>),
}

/// A roster, or what is new of it, that is sent to many nodes: it is encoded and decoded once here, and counted for each.
#[derive(Debug)]
struct Told {
    news: News,
    bytes: u64,
    encode_ns: u64,
    decode_ns: u64,
    /// As it is decoded.
    heard: Option<News>,
}

/// Nodes that keep the roster are so many that all they keep is about this many fragments.
const KEPT_MAX: u64 = 1_000_000;

/// The world of one object.
#[derive(Debug)]
pub struct World {
    /// Which fragment has which block.
    pub grid: Grid,
    /// The nodes, by their numbers.
    pub nodes: Vec<Node>,
    home: Home,
    object: ObjectId,
    to_home: Vec<(Number, Carried)>,
    to_nodes: Vec<Vec<Carried>>,
    /// Those that were sent in this turn.
    rosters: Vec<Rc<Told>>,
    cost: Cost,
}

impl World {
    /// Nodes without writers.
    pub fn new(grid: Grid) -> Self {
        let numbers = (0..grid.nodes).map(Number);
        let mut world = Self {
            grid,
            nodes: numbers.clone().map(|number| Node::new(number, INITIAL, keeps(grid, number))).collect(),
            home: Home::new(1, grid.shape(), INITIAL, numbers, LEASE),
            object: ObjectId(NonZeroU64::MIN),
            to_home: Vec::new(),
            to_nodes: (0..grid.nodes).map(|_| Vec::new()).collect(),
            rosters: Vec::new(),
            cost: Cost::default(),
        };
        (0..world.nodes.len()).for_each(|node| world.at(node, |node| node.follow(1)));
        world
    }

    /// What all cost until now.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// How much memory all had taken. `allocated` tells how many bytes the process has allocated.
    pub fn end(self, allocated: fn() -> i64) -> Memory {
        let Self { mut nodes, home, rosters, to_nodes, .. } = self;
        let freed = |work: &mut dyn FnMut()| {
            let before = allocated();
            work();
            before - allocated()
        };
        drop((rosters, to_nodes));
        let mut home = Some(home);
        let home_bytes = freed(&mut || home = None);
        // The last has joined late: none of what it has is shared.
        let mut last = nodes.last_mut().and_then(|node| node.roster.take());
        nodes.iter_mut().for_each(|node| node.roster = None);
        let roster_bytes = freed(&mut || last = None);
        let nodes_bytes = freed(&mut || nodes.clear());
        Memory { home_bytes, nodes_bytes, roster_bytes }
    }

    /// The home of the object.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Does something at a node, and sends what the home has to be told after that.
    fn at<T>(&mut self, node: usize, work: impl FnOnce(&mut Node) -> T) -> T {
        let meter = Meter::start();
        let done = work(&mut self.nodes[node]);
        self.count_node(&meter);
        self.report(node);
        done
    }

    fn count_node(&mut self, meter: &Meter) {
        self.cost.nodes_ns += meter.read_ns();
    }

    fn report(&mut self, node: usize) {
        let meter = Meter::start();
        let number = Number(node as u32);
        let messages = self.nodes[node].news(self.object, NAME, HOME);
        self.count_node(&meter);
        for message in messages {
            let meter = Meter::start();
            let carried = carry(message, number == HOME);
            self.cost.nodes_ns += meter.read_ns();
            self.cost.in_messages += 1;
            self.cost.in_bytes += bytes_of(&carried);
            self.to_home.push((number, carried));
        }
    }

    /// Lets all writers attach from a version on. Each node tells the home of its own at once.
    ///
    /// # Errors
    /// Where a node knows by itself that one cannot.
    pub fn attach_all(&mut self, from: Version) -> Result<(), Refusal> {
        let Grid { nodes, fragments, .. } = self.grid;
        let mut by_node: Vec<Vec<u32>> = vec![Vec::new(); nodes as usize];
        (0..fragments).for_each(|fragment| by_node[self.grid.node(fragment).0 as usize].push(fragment));
        for (node, own) in by_node.into_iter().enumerate() {
            let grid = self.grid;
            self.at(node, |node| {
                own.into_iter().try_for_each(|fragment| {
                    let stage = Stage::member(from, grid.block(fragment));
                    node.attach(grid.writer(fragment), stage, grid.text(fragment))
                })
            })?;
        }
        Ok(())
    }

    /// Lets the writer of a fragment leave.
    ///
    /// # Errors
    /// Where it cannot.
    pub fn leave(&mut self, fragment: u32, from: Version) -> Result<(), Refusal> {
        let writer = self.grid.writer(fragment);
        self.at(writer.node.0 as usize, |node| node.leave(writer, from))
    }

    /// Lets a new writer attach a fragment on a node.
    ///
    /// # Errors
    /// Where it cannot.
    pub fn attach(&mut self, fragment: u32, node: u32, from: Version) -> Result<(), Refusal> {
        let number = self.grid.fragments + fragment;
        let writer = Writer { node: Number(node), process: number, serial: number };
        let (stage, text) = (Stage::member(from, self.grid.block(fragment)), self.grid.text(fragment));
        self.at(node as usize, |node| node.attach(writer, stage, text))
    }

    /// All writers publish a version; each node reports once.
    ///
    /// # Errors
    /// The number is not above the newest.
    pub fn publish(&mut self, version: Version) -> Result<(), Refusal> {
        (0..self.nodes.len()).try_for_each(|node| self.at(node, |node| node.publish(version)))
    }

    /// A reader on each node that has writers waits for elements of a version, of some of the next node's writers.
    pub fn want(&mut self, version: Version) {
        let Grid { nodes, fragments, .. } = self.grid;
        for node in 0..nodes {
            let fragment = u64::from(node + 1) * u64::from(fragments) / u64::from(nodes) % u64::from(fragments);
            let elements = self.grid.neighbourhood(fragment as u32);
            self.at(node as usize, |node| node.want(version, elements));
        }
    }

    /// Another node joins.
    pub fn join(&mut self) {
        let number = Number(self.nodes.len() as u32);
        self.nodes.push(Node::new(number, INITIAL, true));
        self.to_nodes.push(Vec::new());
        let meter = Meter::start();
        self.home.admit(number);
        self.home.forget_told(number);
        self.count_home(&meter);
        self.ask(number);
    }

    /// The home begins another term, as one that knows nothing.
    pub fn change_home(&mut self) {
        let numbers = (0..self.nodes.len() as u32).map(Number);
        let revision = self.home.revision() + 1;
        let meter = Meter::start();
        let new = Home::new(revision, self.grid.shape(), INITIAL, numbers.clone(), LEASE);
        self.count_home(&meter);
        self.home = new;
        numbers.for_each(|number| self.ask(number));
    }

    fn ask(&mut self, number: Number) {
        let ask = Ask { object: self.object, name: NAME.into(), revision: self.home.revision() };
        self.send(number, Message::Ask(ask));
    }

    fn send(&mut self, to: Number, message: Message) {
        let meter = Meter::start();
        let carried = carry(message, to == HOME);
        self.cost.home_ns += meter.read_ns();
        self.cost.out_messages += 1;
        self.cost.out_bytes += bytes_of(&carried);
        self.to_nodes[to.0 as usize].push(carried);
    }

    fn count_home(&mut self, meter: &Meter) {
        self.cost.home_ns += meter.read_ns();
    }

    /// Lets all messages arrive, and all that they cause.
    pub fn settle(&mut self) {
        while self.turn() {}
    }

    /// Lets the messages arrive that are on their way; whether there were any.
    pub fn turn(&mut self) -> bool {
        let reports = std::mem::take(&mut self.to_home);
        let mut any = !reports.is_empty();
        for (from, carried) in reports {
            self.hear_report(from, carried);
        }
        self.send_outgoing();
        for node in 0..self.nodes.len() {
            let messages = std::mem::take(&mut self.to_nodes[node]);
            any |= !messages.is_empty();
            for carried in messages {
                self.hear_at(node, carried);
            }
        }
        self.rosters.clear();
        any
    }

    fn hear_report(&mut self, from: Number, carried: Carried) {
        let meter = Meter::start();
        match opened(carried) {
            Message::Layouts(layouts) => self.home.note_layouts(layouts.layouts),
            Message::Reports(reports) => {
                reports.into_iter().filter(|one| one.report.node == from).for_each(|one| self.home.receive(one.report));
            }
            Message::Changes(changes) => {
                let own = changes.into_iter().filter(|one| one.node == from);
                own.for_each(|one| self.home.change(one).expect("messages arrive in order"));
            }
            _ => {}
        }
        self.count_home(&meter);
        self.send_outgoing();
    }

    fn send_outgoing(&mut self) {
        let meter = Meter::start();
        let outgoing = self.home.outgoing();
        self.cost.home_ns += meter.read_ns();
        for (to, one) in outgoing {
            match one {
                Outgoing::Decision { roster, decision } => {
                    self.send(to, Message::Decisions(vec![ObjectDecision { object: self.object, roster, decision }]));
                }
                Outgoing::Roster { revision, news } => self.send_roster(to, revision, news),
            }
        }
    }

    fn send_roster(&mut self, to: Number, revision: Revision, news: News) {
        let is_same = |told: &&Rc<Told>| Arc::ptr_eq(&told.news.declared, &news.declared);
        let told = match self.rosters.iter().rev().find(is_same) {
            Some(told) => told.clone(),
            None => {
                let told = Rc::new(Told::of(self.object, revision, news));
                self.rosters.push(told.clone());
                told
            }
        };
        self.cost.out_messages += 1;
        self.cost.home_ns += told.encode_ns;
        if to != HOME {
            self.cost.long_messages += u64::from(told.bytes > BODY_BYTES_MAX as u64);
            self.cost.out_bytes += told.bytes;
            self.cost.roster_bytes += told.bytes;
        }
        self.to_nodes[to.0 as usize].push(Carried::Roster(revision, told));
    }

    fn hear_roster(&mut self, node: usize, revision: Revision, told: &Told) {
        self.cost.nodes_ns += told.decode_ns;
        // A node that cannot decode it knows nothing of it.
        let (Some(heard), Some(news)) = (&mut self.nodes[node].roster, told.heard.clone()) else { return };
        let meter = Meter::start();
        match news.base {
            None => _ = heard.hear(revision, news.serial, news.declared.to_vec(), news.is_last),
            Some(_) => _ = heard.change(revision, news).expect("messages arrive in order"),
        }
        self.count_node(&meter);
    }

    fn hear_at(&mut self, node: usize, carried: Carried) {
        if let Carried::Roster(revision, told) = &carried {
            return self.hear_roster(node, *revision, told);
        }
        let meter = Meter::start();
        let message = opened(carried);
        self.cost.nodes_ns += meter.read_ns();
        match message {
            Message::Ask(ask) => self.at(node, |node| node.follow(ask.revision)),
            Message::Decisions(decisions) => {
                decisions.into_iter().for_each(|one| self.at(node, |node| node.hear(one.decision)));
            }
            _ => {}
        }
    }
}

impl Told {
    fn of(object: ObjectId, revision: Revision, news: News) -> Self {
        let (meter, mut body) = (Meter::start(), Vec::new());
        let kind = news.message(object, revision).encode(&mut body);
        let encode_ns = meter.read_ns();
        let meter = Meter::start();
        let heard = match Message::decode(kind, &body) {
            Ok(Message::Roster(roster)) => {
                let (declared, gone) = (Arc::new(roster.declared), Arc::default());
                Some(News { base: None, serial: roster.serial, declared, gone, is_last: roster.is_last })
            }
            Ok(Message::RosterChange(change)) => {
                let (declared, gone) = (Arc::new(change.declared), Arc::new(change.gone));
                Some(News { base: Some(change.base), serial: change.serial, declared, gone, is_last: change.is_last })
            }
            _ => None,
        };
        Self { news, bytes: body.len() as u64, encode_ns, decode_ns: meter.read_ns(), heard }
    }
}

fn keeps(grid: Grid, node: Number) -> bool {
    u64::from(node.0) * u64::from(grid.fragments) < KEPT_MAX
}

fn carry(message: Message, is_own: bool) -> Carried {
    if is_own {
        return Carried::Own(Box::new(message));
    }
    let mut body = Vec::new();
    let kind = message.encode(&mut body);
    Carried::Sent(kind, Rc::new(body))
}

fn bytes_of(carried: &Carried) -> u64 {
    match carried {
        Carried::Own(_) => 0,
        Carried::Sent(_, body) => body.len() as u64,
        Carried::Roster(_, told) => told.bytes,
    }
}

fn opened(carried: Carried) -> Message {
    match carried {
        Carried::Own(message) => *message,
        Carried::Sent(kind, body) => Message::decode(kind, &body).expect("what was encoded here is decoded"),
        Carried::Roster(revision, told) => told.news.message(ObjectId(NonZeroU64::MIN), revision),
    }
}
