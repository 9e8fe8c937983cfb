//! Nodes, homes, the network between them, and what may happen.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

use drepl::{IndexBox, IndexSet, Progression};

use super::{actions::Action, promise::members_of};
use crate::{
    home::Home,
    message::{Decision, Proposal, Report, Unpinned},
    planted::{Bug, Planted},
    readiness::Readiness,
    refusal::Refusal,
    runtime::{Event, Runtime},
    writer::{Node, Record, Role, Stage, Version, Who, Writer},
};

pub const INITIAL: Version = 0;

/// How often a writer tries to take another's place.
const TRIES: u32 = 3;

/// What a writer does, one after the other.
#[derive(Debug, Clone)]
pub enum Op {
    Declare(Stage),
    Publish(Version),
    /// Once a writer has died: attaches these elements in its place, from a version on, or else from the one that follows the newest
    /// that its node knows to be complete.
    Inherit {
        of: usize,
        start: u64,
        end: u64,
        from: Option<Version>,
    },
    /// Once that was accepted: publishes all versions up to this one.
    PublishUpTo(Version),
}

#[derive(Debug, Clone)]
pub struct Script {
    pub node: usize,
    pub ops: Vec<Op>,
}

impl Script {
    /// Whether it writes the first version.
    pub fn is_from_the_beginning(&self) -> bool {
        matches!(&self.ops[0], Op::Declare(stage) if stage.from == INITIAL + 1)
    }
}

/// From a version on, the sets of writers that may be its roster.
pub type Truth = Vec<(Version, Vec<BTreeSet<usize>>)>;

/// A small world, and how much may go wrong in it.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    pub extent: u64,
    pub nodes: usize,
    pub writers: Vec<Script>,
    pub truth: Truth,
    /// Node, version, first and end index.
    pub wants: Vec<(usize, Version, u64, u64)>,
    pub node_deaths: u8,
    pub writer_deaths: u8,
    pub yields: u8,
    pub drops: u8,
    pub home_changes: u8,
    /// How often a node is cut off.
    pub cuts: u8,
    /// How often a home gets ready to leave in order.
    pub retires: u8,
    /// Whether each home lies on a node, the first one on the first, and is cut off with it.
    pub homes_on_nodes: bool,
    /// How far above the newest version homes set a ceiling.
    pub margin: u64,
    /// The network keeps so many messages (at least the newest) from one end to another. Each may arrive at any time, again,
    /// or never.
    pub kept: usize,
    /// Whether all writers have attached before anything else happens.
    pub attached: bool,
    /// Whether each of them has then heard that this counts, before the next attached: so it is where attaching waits for it.
    pub heard: bool,
    /// Whether a writer may be refused.
    pub may_refuse: bool,
    /// Whether the program may be such that no version is complete.
    pub may_be_stuck: bool,
    pub bug: Option<Bug>,
}

/// The indices from one up to and without another.
pub fn range(start: u64, end: u64) -> IndexSet {
    IndexBox::new([Progression::range(start, end).unwrap()]).unwrap().into()
}

impl Setup {
    pub fn writer(&self, index: usize) -> Writer {
        Writer { node: Node(self.writers[index].node as u32), process: index as u32, serial: 0 }
    }

    pub fn rosters(&self, version: Version) -> &[BTreeSet<usize>] {
        &self.truth[self.truth.partition_point(|(from, _)| *from <= version) - 1].1
    }

    fn is_heir(&self, writer: Writer) -> bool {
        matches!(self.writers[writer.process as usize].ops[0], Op::Inherit { from: None, .. })
    }

    /// Whether nobody takes anyone's place, or a writer is one whose place somebody takes.
    pub(super) fn is_mortal(&self, writer: usize) -> bool {
        let mut ops = self.writers.iter().flat_map(|script| &script.ops);
        let mut heirs = ops.clone().filter(|op| matches!(op, Op::Inherit { .. }));
        heirs.next().is_none() || ops.any(|op| matches!(op, Op::Inherit { of, .. } if *of == writer))
    }

    pub fn elements(&self, writer: usize, version: Version) -> Option<IndexSet> {
        if let Some(Op::Inherit { start, end, .. }) = self.writers[writer].ops.first() {
            return Some(range(*start, *end));
        }
        let mut stages = self.writers[writer].ops.iter().filter_map(|op| match op {
            Op::Declare(stage) if stage.from <= version => Some(&stage.role),
            _ => None,
        });
        match stages.next_back()? {
            Role::Member { elements, .. } => Some((**elements).clone()),
            Role::Left | Role::Died { .. } => None,
        }
    }
}

/// A value with its hash, shared until it changes: states differ from each other in few of these.
#[derive(Debug, Clone)]
pub struct Hashed<T>(Arc<(T, u64)>);

impl<T: Hash> Hashed<T> {
    fn new(value: T) -> Self {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Self(Arc::new((value, hasher.finish())))
    }
}

impl<T> Deref for Hashed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.0
    }
}

impl<T> Hash for Hashed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.1.hash(state);
    }
}

/// Lets a home hear of something: it names all nodes for which it decided something new.
fn refreshed(home: &mut Home, hear: impl FnOnce(&mut Home) -> BTreeSet<Node>) {
    let nodes = (0..8).map(Node);
    let serial = |home: &Home, node| home.decision(node).map(|decision| decision.serial);
    let before: Vec<_> = nodes.clone().map(|node| serial(home, node)).collect();
    let named = hear(home);
    for (node, before) in nodes.zip(before).filter(|_| home.is_leading()) {
        let after = serial(home, node);
        assert!(after == before || named.contains(&node), "{node:?} has a new decision and is not named");
    }
}

#[derive(Debug, Clone, Hash)]
pub struct World {
    pub runtimes: Vec<Option<Hashed<Runtime>>>,
    pub homes: Vec<Hashed<Home>>,
    pub(super) reports: Vec<Vec<Vec<Hashed<Report>>>>,
    pub(super) decisions: Vec<Vec<Vec<Hashed<Decision>>>>,
    pub(super) steps: Vec<usize>,
    /// How often a writer that takes another's place was refused and tries again.
    pub(super) tries: Vec<u32>,
    pub(super) dead: BTreeSet<usize>,
    pub(super) node_deaths: u8,
    pub(super) writer_deaths: u8,
    pub(super) yields: u8,
    pub(super) drops: u8,
    pub(super) kept: usize,
    pub cuts: u8,
    pub(super) retires: u8,
    /// Nodes that are cut off.
    pub apart: BTreeSet<usize>,
    pub seen: Seen,
}

/// What really happened, as nobody in the world knows it.
#[derive(Debug, Clone, Hash, Default)]
pub struct Seen {
    pub published: BTreeSet<(usize, Version)>,
    pub refused: BTreeSet<usize>,
    pub announced: BTreeMap<Version, (Proposal, BTreeSet<Writer>)>,
    /// What programs of a node found complete by themselves, and its node.
    pub found_alone: BTreeMap<Version, usize>,
    pub given_up: BTreeSet<(usize, Version)>,
    pub told: BTreeMap<usize, Readiness>,
    pub unpinned: BTreeMap<usize, (Version, Vec<Unpinned>)>,
}

impl Seen {
    pub fn newest(&self) -> Version {
        self.announced.keys().next_back().copied().unwrap_or(INITIAL)
    }

    pub fn has_yielded(&self, version: Version) -> bool {
        self.given_up.iter().any(|(_, given_up)| *given_up == version)
    }
}

pub type Checked = Result<(), String>;

impl World {
    pub fn new(setup: &Setup) -> Result<Self, String> {
        let planted = Planted { bug: setup.bug };
        let runtime = |node: usize| {
            let mut runtime = Runtime::new(Node(node as u32), INITIAL);
            runtime.planted = planted;
            runtime.follow(1);
            for (reader, (_, version, start, end)) in setup.wants.iter().enumerate().filter(|(_, want)| want.0 == node)
            {
                runtime.want(reader as u64, *version, range(*start, *end));
            }
            Some(Hashed::new(runtime))
        };
        let mut world = Self {
            runtimes: (0..setup.nodes).map(runtime).collect(),
            homes: Vec::new(),
            reports: Vec::new(),
            decisions: Vec::new(),
            steps: vec![0; setup.writers.len()],
            tries: vec![0; setup.writers.len()],
            dead: BTreeSet::new(),
            node_deaths: setup.node_deaths,
            writer_deaths: setup.writer_deaths,
            yields: setup.yields,
            drops: setup.drops,
            kept: setup.kept.max(1),
            cuts: setup.cuts,
            retires: setup.retires,
            apart: BTreeSet::new(),
            seen: Seen::default(),
        };
        world.begin_home(setup);
        let writers = 0..if setup.attached { setup.writers.len() } else { 0 };
        for node in 0..setup.nodes {
            world.send_report(node);
        }
        for writer in writers.filter(|writer| matches!(setup.writers[*writer].ops[0], Op::Declare(_))) {
            world.step(setup, writer)?;
            if setup.heard {
                world.talk(setup)?;
            }
        }
        Ok(world)
    }

    /// Lets all nodes report to the first home, and hear what it decides.
    fn talk(&mut self, setup: &Setup) -> Checked {
        for node in 0..setup.nodes {
            let kept = self.reports[0][node].len() - 1;
            self.act(setup, Action::Report { home: 0, node, kept })?;
        }
        for node in 0..setup.nodes {
            if let Some(kept) = self.decisions[0][node].len().checked_sub(1) {
                self.act(setup, Action::Decision { home: 0, node, kept })?;
            }
        }
        Ok(())
    }

    fn begin_home(&mut self, setup: &Setup) {
        let shape = IndexBox::all(&[setup.extent]).unwrap();
        let nodes = (0..setup.nodes).map(|node| Node(node as u32));
        let mut home = Home::new(self.homes.len() as u64 + 1, shape, INITIAL, nodes);
        home.plant(Planted { bug: setup.bug });
        home.set_margin(setup.margin);
        self.homes.push(Hashed::new(home));
        self.reports.push(vec![Vec::new(); setup.nodes]);
        self.decisions.push(vec![Vec::new(); setup.nodes]);
    }

    /// Whether messages go between a node and a home.
    pub fn reaches(&self, setup: &Setup, node: usize, home: usize) -> bool {
        let is_home_apart = setup.homes_on_nodes && self.apart.contains(&home);
        self.apart.contains(&node) == is_home_apart
    }

    fn send_report(&mut self, node: usize) {
        let Some(runtime) = &self.runtimes[node] else { return };
        let home = runtime.revision() as usize - 1;
        keep(&mut self.reports[home][node], runtime.report(), self.kept);
    }

    /// Lets something happen, and says what is wrong then.
    pub fn act(&mut self, setup: &Setup, action: Action) -> Checked {
        match action {
            Action::Step { writer } => self.step(setup, writer)?,
            Action::Report { home, node, kept } => {
                let report = (*self.reports[home][node][kept]).clone();
                self.change_home(home, setup, |home| refreshed(home, |home| home.receive(report)))?;
            }
            Action::LoseNode { home, node } => {
                self.change_home(home, setup, |home| refreshed(home, |home| home.lose(Node(node as u32))))?
            }
            Action::Decision { home, node, kept } => {
                let decision = (*self.decisions[home][node][kept]).clone();
                self.change_node(node, setup, |runtime| runtime.hear(decision))?;
            }
            Action::ChangeHome => self.begin_home(setup),
            Action::Retire => {
                self.retires -= 1;
                self.change_home(self.homes.len() - 1, setup, |home| refreshed(home, Home::retire))?;
            }
            Action::Cut { node } => {
                self.cuts -= 1;
                self.apart.insert(node);
            }
            Action::Follow { node } => {
                let revision = self.homes.len() as u64;
                self.change_node(node, setup, |runtime| {
                    runtime.follow(revision);
                    Vec::new()
                })?;
            }
            Action::KillNode { node } => {
                self.runtimes[node] = None;
                self.node_deaths -= 1;
            }
            Action::KillWriter { writer } => {
                self.writer_deaths -= 1;
                self.dead.insert(writer);
                let name = self.writer(setup, writer);
                self.change_node(setup.writers[writer].node, setup, |runtime| {
                    runtime.die(name);
                    Vec::new()
                })?;
            }
            Action::Yield { node, version } => {
                self.yields -= 1;
                self.seen.given_up.insert((node, version));
                self.change_node(node, setup, |runtime| {
                    runtime.give_up(version);
                    Vec::new()
                })?;
            }
            Action::Drop { writer, version } => {
                self.drops -= 1;
                let name = self.writer(setup, writer);
                self.change_node(setup.writers[writer].node, setup, |runtime| {
                    runtime.drop(name, version);
                    Vec::new()
                })?;
            }
        }
        self.check_pins()
    }

    /// What a writer is called now.
    pub fn writer(&self, setup: &Setup, index: usize) -> Writer {
        Writer { serial: self.tries[index], ..setup.writer(index) }
    }

    pub(super) fn can_step(&self, setup: &Setup, writer: usize) -> bool {
        let script = &setup.writers[writer];
        let name = self.writer(setup, writer);
        let Some(runtime) = self.runtimes[script.node].as_ref() else { return false };
        match script.ops.get(self.steps[writer]) {
            None => false,
            Some(Op::Declare(_) | Op::Publish(_)) => true,
            // On another node it is known when a home has told it.
            Some(Op::Inherit { of, .. }) => {
                let dead = self.writer(setup, *of);
                // A new home may never have heard of a writer whose node was lost.
                let has_heard = |home: &Hashed<Home>| {
                    let ledger = home.ledger();
                    ledger.record(dead).map_or(ledger.is_lost(dead.node), Record::has_ended)
                };
                let is_known = dead.node.0 as usize == script.node || self.homes.iter().any(has_heard);
                let is_gone = self.dead.contains(of) || self.apart.contains(&setup.writers[*of].node);
                is_gone && is_known && self.tries[writer] < TRIES
            }
            Some(Op::PublishUpTo(last)) => {
                let is_due = runtime.record(name).and_then(next_of).is_some_and(|next| next <= *last);
                is_due && runtime.accepted().any(|accepted| accepted == name)
            }
        }
    }

    fn step(&mut self, setup: &Setup, writer: usize) -> Checked {
        let script = &setup.writers[writer];
        let op = &script.ops[self.steps[writer]];
        if !matches!(op, Op::PublishUpTo(_)) {
            self.steps[writer] += 1;
        }
        let name = self.writer(setup, writer);
        let who = Who { writer: name, rank: None };
        let (mut done, mut published) = (Ok(()), None);
        self.change_node(script.node, setup, |runtime| {
            done = match op {
                Op::Declare(stage) => runtime.declare(who, stage.clone()),
                Op::Inherit { start, end, from, .. } => {
                    let from = from.unwrap_or(runtime.announced().version + 1);
                    runtime.declare(who, Stage::member(from, range(*start, *end)))
                }
                Op::Publish(version) => {
                    published = Some(*version);
                    runtime.publish(name, *version)
                }
                Op::PublishUpTo(_) => {
                    published = runtime.record(name).and_then(next_of);
                    published.map_or(Ok(()), |version| runtime.publish(name, version))
                }
            };
            Vec::new()
        })?;
        if let Some(version) = published
            && done.is_ok()
        {
            self.seen.published.insert((writer, version));
        }
        done.map_err(|refusal| format!("the script of {name} is wrong: {refusal}"))
    }

    fn change_home(&mut self, index: usize, setup: &Setup, change: impl FnOnce(&mut Home)) -> Checked {
        let mut home = (*self.homes[index]).clone();
        let before = home.announced().clone();
        change(&mut home);
        if *home.announced() != before {
            self.check_announced(setup, &home)?;
            if home.announced().version < before.version {
                return Err(format!("a home announced {} after {}", home.announced().version, before.version));
            }
        }
        for node in 0..setup.nodes {
            if let Some(decision) = home.decision(Node(node as u32)) {
                keep(&mut self.decisions[index][node], decision.clone(), self.kept);
            }
        }
        // Numbers up to one that is gone are complete nowhere but on the side that was cut off.
        let gone = home.ledger().taken_over.as_ref().filter(|taken_over| taken_over.is_gone());
        let is_gone = |version: Version| gone.is_some_and(|gone| version <= gone.version);
        let leaves_out = |former: &Hashed<Home>| gone.is_some_and(|gone| gone.version > former.announced().version);
        let has_retired = |former: &&Hashed<Home>| former.is_leading() && former.has_retired();
        if self.homes[..index].last().filter(has_retired).is_some_and(leaves_out) {
            return Err("numbers are left out although the home before had retired".into());
        }
        for (version, (_, members)) in &self.seen.announced {
            let is_complete = home.announced().version >= *version && !is_gone(*version);
            if is_complete && !members_of(&home, *version).is_subset(members) {
                return Err(format!("version {version} was announced, and has got other writers"));
            }
        }
        self.homes[index] = Hashed::new(home);
        Ok(())
    }

    fn change_node(&mut self, node: usize, setup: &Setup, change: impl FnOnce(&mut Runtime) -> Vec<Event>) -> Checked {
        let Some(hashed) = &self.runtimes[node] else { return Ok(()) };
        let mut runtime = (**hashed).clone();
        let (before, due) = (runtime.announced().version, runtime.due());
        for event in change(&mut runtime) {
            match event {
                Event::Pin { version, writers } => {
                    if !writers.iter().all(|writer| runtime.has(*writer, version)) {
                        return Err(format!("version {version} is to be pinned and is not there"));
                    }
                    runtime.hold(version);
                }
                Event::Unpin(_) | Event::Complete(_) | Event::Ended { .. } => {}
                Event::Unpinned { version, nodes } => {
                    self.seen.unpinned.insert(node, (version, nodes));
                }
                // Another version became complete meanwhile: it goes on from that.
                Event::Refused { writer, refusal: Refusal::Late { .. }, .. } if setup.is_heir(writer) => {
                    let writer = writer.process as usize;
                    (self.tries[writer], self.steps[writer]) = (self.tries[writer] + 1, 0);
                }
                Event::Refused { writer, refusal, .. } if !setup.may_refuse => {
                    return Err(format!("{writer} was refused: {refusal}"));
                }
                Event::Refused { writer, .. } => {
                    self.seen.refused.insert(writer.process as usize);
                }
                Event::Answer { reader, readiness } => {
                    self.check_answer(setup, reader as usize, &readiness)?;
                    self.seen.told.insert(reader as usize, readiness);
                }
            }
        }
        if runtime.announced().version < before {
            return Err(format!("node {node} is told of version {} after {before}", runtime.announced().version));
        }
        let is_due = runtime.due() != due;
        self.runtimes[node] = Some(Hashed::new(runtime));
        self.check_boards(setup, node)?;
        if is_due {
            self.send_report(node);
        }
        Ok(())
    }

    /// Goes on without any further accident until nothing changes: all messages arrive, and all writers come to their end.
    pub fn finish(&mut self, setup: &Setup) -> Checked {
        for _ in 0..200 {
            let before = self.fingerprint();
            for action in self.actions(setup) {
                let is_fair = match action {
                    Action::Step { writer } => {
                        let mut own = self.actions(setup).into_iter();
                        own.any(|now| now == Action::Step { writer })
                    }
                    Action::Follow { .. } | Action::LoseNode { .. } => true,
                    Action::Report { home, node, kept } => kept + 1 == self.reports[home][node].len(),
                    Action::Decision { home, node, kept } => kept + 1 == self.decisions[home][node].len(),
                    _ => false,
                };
                if is_fair {
                    self.act(setup, action)?;
                }
            }
            if self.fingerprint() == before {
                return Ok(());
            }
        }
        Err("messages go on for ever".into())
    }

    /// Whether an announced version can be had no more, because a node died, was cut off or gave up its pin.
    pub fn has_lost(&self, version: Version) -> bool {
        let nodes = self.seen.announced.get(&version).into_iter().flat_map(|(proposal, _)| proposal.nodes.iter());
        let is_lost = |node: usize| self.runtimes[node].is_none() || self.apart.contains(&node);
        self.seen.has_yielded(version) || nodes.into_iter().any(|node| is_lost(node.0 as usize))
    }

    pub fn is_dead(&self, writer: usize, setup: &Setup) -> bool {
        self.dead.contains(&writer) || self.runtimes[setup.writers[writer].node].is_none()
    }

    /// Two states of a million have the same with a probability of one to thirty million.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// The version that a writer publishes next.
fn next_of(record: &Record) -> Option<Version> {
    record.published.newest.or(record.stages.first()?.from.checked_sub(1)).map(|newest| newest + 1)
}

fn keep<T: Hash + PartialEq>(messages: &mut Vec<Hashed<T>>, message: T, kept: usize) {
    if messages.last().is_some_and(|last| **last == message) {
        return;
    }
    messages.push(Hashed::new(message));
    if messages.len() > kept {
        messages.remove(0);
    }
}
