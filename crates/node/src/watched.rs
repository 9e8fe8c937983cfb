//! One object: its writers, readers and subscribers of this node, and its home if that is here.

use crate::cluster::Cluster;
use crate::error::Result;
use crate::filling::Filling;
use crate::home::{Home, Outgoing};
use crate::network::Network;
use crate::reporting::{self, Reporting};
use crate::roster::{Heard, Missing, News};
use crate::sending::{self, Cargo, Job, Origin, Subscription, Way};
use drepl::Fragment;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stillframe::Snapshot;
use stillframe_object::relay::{LocalFragment, Receiver, Relay, Remote, RemoteFragment};
use stillframe_object::runtime::Reply;
use stillframe_object::{Cause, Object, Part, Writer as Named, bindings as bindings_of};
use stillframe_roster::message::{Decision, Report};
use stillframe_roster::readiness::{Loss, Readiness, Share};
use stillframe_roster::runtime::{Event, Runtime};
use stillframe_roster::writer::{Node, Revision, Stage, Version, Who, Writer};
use stillframe_wire::data::{FragmentText, Lost, Subscribe, Unsubscribe, Which};
use stillframe_wire::roster::{Ask, Layouts, ObjectChange, ObjectDecision, ObjectReport, Roster, RosterChange};
use stillframe_wire::{Message, ObjectId};

/// What an object needs of its node.
pub(crate) struct Surroundings<'a> {
    pub(crate) node: Node,
    pub(crate) cluster: &'a dyn Cluster,
    pub(crate) network: &'a dyn Network,
    /// Versions to send, by threads that need no lock.
    pub(crate) jobs: &'a mut Vec<(Node, Job)>,
    /// Elements of this node to put into its own fragments, by the same.
    pub(crate) own: &'a mut Vec<OwnJob>,
    /// What to tell readers of this node.
    pub(crate) replies: &'a mut Vec<(u64, Reply)>,
}

/// Elements of this node's writers for a fragment of this node.
#[derive(Debug)]
pub(crate) struct OwnJob {
    pub(crate) reader: u64,
    pub(crate) filling: Arc<Filling>,
    pub(crate) ways: Vec<Way>,
    /// Of each way.
    pub(crate) snapshots: Vec<Snapshot>,
}

/// A fragment of a process of this node that this runtime fills.
#[derive(Debug)]
struct Reader {
    layout: FragmentText,
    receiver: Receiver,
    /// Whether elements fill all of its bytes.
    is_full: bool,
    wanted: Option<Version>,
    /// Whose elements it had last.
    writers: Vec<Writer>,
    filling: Option<Arc<Filling>>,
    /// Whether elements of this node's own writers were put into it.
    has_own: bool,
    /// Of the version that is wanted, whose elements it consists of, as the home says.
    confirmed: Option<BTreeSet<Writer>>,
    /// Nodes that were asked to send.
    subscribed: BTreeSet<Node>,
}

/// An object.
#[derive(Debug)]
pub(crate) struct Watched {
    id: ObjectId,
    relay: Relay,
    protocol: Runtime,
    home: Option<Home>,
    local: BTreeMap<Writer, LocalFragment>,
    decided: BTreeSet<u32>,
    /// What the home was told last.
    reporting: Reporting,
    /// Of which writers which home knows the layouts.
    told_layouts: (Option<(Node, Revision)>, BTreeSet<Writer>),
    /// Who writes it, on all nodes.
    roster: Heard,
    /// Whether this node's programs have still to be told.
    is_untold: bool,
    /// Versions that are to be pinned and could not be, for want of something.
    unpinned: Vec<(Version, Vec<Writer>)>,
    pins: BTreeMap<Version, Vec<Snapshot>>,
    subscriptions: BTreeMap<(Node, u64), Subscription>,
    readers: BTreeMap<u64, Reader>,
}

impl Watched {
    pub(crate) fn new(object: &Object, node: Node) -> Watched {
        let relay = object.relay();
        let protocol = Runtime::new(node, relay.initial());
        Watched {
            id: ObjectId(relay.id()),
            relay,
            protocol,
            home: None,
            local: BTreeMap::new(),
            decided: BTreeSet::new(),
            reporting: Reporting::default(),
            told_layouts: (None, BTreeSet::new()),
            roster: Heard::default(),
            is_untold: false,
            unpinned: Vec::new(),
            pins: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            readers: BTreeMap::new(),
        }
    }

    pub(crate) fn id(&self) -> ObjectId {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        self.relay.name()
    }

    pub(crate) fn bit(&self) -> usize {
        self.relay.bit()
    }

    /// The processes of this node that write it and live.
    pub(crate) fn processes(&self) -> BTreeSet<u32> {
        let living = self.local.values().filter(|fragment| fragment.is_alive && fragment.left.is_none());
        living.map(|fragment| fragment.who.writer.process).collect()
    }

    /// Looks at the writers of this node, and does what follows.
    pub(crate) fn look(&mut self, around: &mut Surroundings) -> Result<()> {
        let fragments = self.relay.look()?;
        let mut seen = BTreeSet::new();
        for fragment in fragments {
            let writer = Writer { node: around.node, ..fragment.who.writer };
            seen.insert(writer);
            self.note_fragment(writer, &fragment)?;
            self.local.insert(writer, fragment);
        }
        // Those that the board does not tell of any more have no version left.
        let gone: Vec<Writer> = self.local.keys().copied().filter(|writer| !seen.contains(writer)).collect();
        for writer in gone {
            self.local.remove(&writer);
            self.drop_all_but(writer, &[]);
            self.protocol.die(writer);
        }
        for (version, writers) in std::mem::take(&mut self.unpinned) {
            self.pin(version, &writers)?;
        }
        self.tell_programs(around)?;
        self.settle(around)?;
        let readers: Vec<u64> = self.readers.keys().copied().collect();
        for reader in readers {
            self.fill_own(reader, around)?;
        }
        self.serve(around)
    }

    fn note_fragment(&mut self, writer: Writer, fragment: &LocalFragment) -> Result<()> {
        let number = writer.serial;
        if fragment.is_accepted.is_some() {
            self.decided.insert(number);
        }
        if fragment.is_accepted == Some(false) {
            // Its program is to detach it.
            return Ok(());
        }
        if self.protocol.record(writer).is_none() {
            if fragment.left.is_some_and(|left| left <= fragment.from) {
                return Ok(());
            }
            let stage = match fragment.writers {
                Some(writers) => Stage::member_of(fragment.from, fragment.elements.clone(), writers),
                None => Stage::member(fragment.from, fragment.elements.clone()),
            };
            let who = Who { writer, rank: fragment.who.rank };
            if fragment.is_accepted == Some(true) {
                self.protocol.restore(who, vec![stage]);
            } else if let Err(refusal) = self.protocol.declare(who, stage) {
                return self.decide(number, Err(refusal.to_string()));
            }
        }
        let known = |protocol: &Runtime| {
            let record = protocol.record(writer);
            record.and_then(|record| record.published.newest)
        };
        let newer = |version: &&Version| known(&self.protocol).is_none_or(|newest| **version > newest);
        let news: Vec<Version> = fragment.present.iter().filter(newer).copied().collect();
        for version in news {
            // What it is no member of counts for nobody.
            let _ = self.protocol.publish(writer, version);
        }
        if let Some(newest) = fragment.newest.filter(|newest| known(&self.protocol).is_none_or(|known| *newest > known))
        {
            let _ = self.protocol.publish(writer, newest);
        }
        self.drop_all_but(writer, &fragment.present);
        if let Some(left) = fragment.left
            && self.protocol.record(writer).is_some_and(|record| record.elements(left).is_some())
        {
            let _ = self.protocol.declare(Who { writer, rank: fragment.who.rank }, Stage::left(left));
        } else if !fragment.is_alive && fragment.left.is_none() {
            self.protocol.die(writer);
        }
        Ok(())
    }

    fn drop_all_but(&mut self, writer: Writer, present: &[Version]) {
        let record = self.protocol.record(writer);
        let known = record.into_iter().flat_map(|record| record.published.present.iter().copied());
        let gone: Vec<Version> = known.filter(|version| !present.contains(version)).collect();
        gone.into_iter().for_each(|version| self.protocol.drop(writer, version));
    }

    fn decide(&mut self, number: u32, verdict: Result<(), String>) -> Result<()> {
        if self.decided.insert(number) {
            self.relay.decide(number, verdict)?;
        }
        Ok(())
    }

    /// Tells the home what is new here, hears what it decides if it is here, and does what follows, until nothing does.
    fn settle(&mut self, around: &mut Surroundings) -> Result<()> {
        loop {
            self.find_home(around)?;
            let mut is_new = self.report(around);
            let outgoing = self.home.as_mut().map(Home::outgoing).unwrap_or_default();
            for (node, outgoing) in outgoing {
                let to_here = node == around.node;
                match outgoing {
                    Outgoing::Decision(decision) if to_here => {
                        is_new = true;
                        self.hear(decision, around)?;
                    }
                    Outgoing::Roster { revision, news } if to_here => {
                        self.hear_roster(node, revision, news, around)?;
                    }
                    Outgoing::Decision(decision) => {
                        let decision = ObjectDecision { object: self.id, decision };
                        around.send(node, Message::Decisions(vec![decision]));
                    }
                    Outgoing::Roster { revision, news } => around.send(node, news.message(self.id, revision)),
                }
            }
            if !is_new {
                return Ok(());
            }
        }
    }

    /// Begins or ends to be the home, and follows a new one.
    fn find_home(&mut self, around: &Surroundings) -> Result<()> {
        let Some((node, revision)) = around.cluster.home(self.id) else { return Ok(()) };
        self.protocol.follow(revision);
        if node != around.node {
            self.home = None;
            return Ok(());
        }
        if self.home.as_ref().is_none_or(|home| home.revision() != revision) {
            let nodes = around.cluster.nodes();
            self.home = Some(Home::new(revision, self.relay.shape()?, self.relay.initial(), nodes.iter().copied()));
            for other in nodes.into_iter().filter(|other| *other != around.node) {
                around.send(other, self.ask(revision));
            }
        }
        Ok(())
    }

    /// Sends a report to the home, if it is another than before; whether it is.
    fn report(&mut self, around: &Surroundings) -> bool {
        let Some((home, _)) = around.cluster.home(self.id) else { return false };
        let Some(news) = self.reporting.news(&self.protocol, self.id, home) else { return false };
        let layouts = self.new_layouts((home, self.protocol.revision()));
        match (&mut self.home, news) {
            (Some(own), reporting::News::Whole(report)) if home == around.node => {
                own.note_layouts(layouts);
                own.receive(report);
            }
            (_, news) => {
                if !layouts.is_empty() {
                    let (object, name) = (self.id, self.name().into());
                    around.send(home, Message::Layouts(Layouts { object, name, layouts }));
                }
                around.send(home, self.message_of(news));
            }
        }
        true
    }

    fn message_of(&self, news: reporting::News) -> Message {
        match news {
            reporting::News::Whole(report) => {
                Message::Reports(vec![ObjectReport { object: self.id, name: self.name().into(), report }])
            }
            reporting::News::Change(change) => Message::Changes(vec![change]),
        }
    }

    fn ask(&self, revision: Revision) -> Message {
        Message::Ask(Ask { object: self.id, name: self.name().into(), revision })
    }

    /// Layouts that a home was not told yet.
    fn new_layouts(&mut self, home: (Node, Revision)) -> Vec<(Writer, FragmentText)> {
        if self.told_layouts.0 != Some(home) {
            self.told_layouts = (Some(home), BTreeSet::new());
        }
        let told = &mut self.told_layouts.1;
        told.retain(|writer| self.local.contains_key(writer));
        let new = self.local.iter().filter(|(writer, _)| told.insert(**writer));
        let layout = |(writer, fragment): (&Writer, &LocalFragment)| {
            let (text, bindings) = (fragment.text.clone(), bindings_of(&fragment.bindings));
            (*writer, FragmentText { text, bindings })
        };
        new.map(layout).collect()
    }

    fn hear(&mut self, decision: Decision, around: &mut Surroundings) -> Result<()> {
        let mut done = Ok(());
        for event in self.protocol.hear(decision) {
            let heard = match event {
                Event::Pin { version, writers } => self.pin(version, &writers),
                Event::Unpin(version) => {
                    self.pins.remove(&version);
                    self.unpinned.retain(|(unpinned, _)| *unpinned != version);
                    Ok(())
                }
                Event::Complete(version) => self.relay.complete(version).map_err(Into::into),
                // What cannot be had any more, readers learn when they want it.
                Event::Unpinned { .. } => Ok(()),
                Event::Refused { writer, refusal, .. } => self.decide(writer.serial, Err(refusal.to_string())),
                Event::Answer { reader, readiness } => self.answer(reader, readiness, around),
            };
            // One that does not succeed keeps no other from it; all are looked at again later.
            done = done.and(heard);
        }
        let is_undecided = |writer: &Writer| !self.decided.contains(&writer.serial);
        let accepted: Vec<Writer> = self.protocol.accepted().filter(is_undecided).collect();
        for writer in accepted {
            done = done.and(self.decide(writer.serial, Ok(())));
        }
        done
    }

    fn pin(&mut self, version: Version, writers: &[Writer]) -> Result<()> {
        let mut held = Vec::new();
        for writer in writers {
            match self.relay.hold(writer.serial, version) {
                Ok(Some(snapshot)) => held.push(snapshot),
                Ok(None) => {
                    self.protocol.drop(*writer, version);
                    return Ok(());
                }
                Err(error) => {
                    self.unpinned.push((version, writers.to_vec()));
                    return Err(error.into());
                }
            }
        }
        if self.protocol.hold(version).is_none() {
            self.pins.insert(version, held);
        }
        Ok(())
    }

    fn hear_roster(&mut self, from: Node, revision: Revision, news: News, around: &Surroundings) -> Result<()> {
        let heard = match news.base {
            None => Ok(self.roster.hear(revision, news.serial, Arc::unwrap_or_clone(news.declared))),
            Some(_) => self.roster.change(revision, news),
        };
        match heard {
            Ok(is_new) => self.is_untold |= is_new,
            Err(Missing) => around.send(from, self.ask(revision)),
        }
        if self.is_untold { self.tell_programs(around) } else { Ok(()) }
    }

    /// Tells this node's programs of fragments on other nodes, and which version is complete.
    fn tell_programs(&mut self, around: &Surroundings) -> Result<()> {
        if !self.is_untold {
            return Ok(self.relay.complete(self.protocol.announced().version)?);
        }
        let others = self.roster.declared().filter(|one| one.writer.node != around.node);
        let remote: Vec<RemoteFragment> = others
            .map(|one| RemoteFragment {
                remote: Remote {
                    node: one.writer.node.0,
                    host: around.cluster.host(one.writer.node),
                    number: one.writer.serial,
                },
                process: one.writer.process,
                rank: one.rank,
                from: one.from,
                left: one.left,
                died: one.died,
                text: one.layout.text.clone(),
                bindings: numbers(&one.layout),
                writers: one.expected,
            })
            .collect();
        self.relay.tell(&remote)?;
        self.is_untold = false;
        self.relay.complete(self.protocol.announced().version)?;
        Ok(())
    }

    /// Takes a message of another node.
    pub(crate) fn receive(&mut self, from: Node, message: Message, around: &mut Surroundings) -> Result<()> {
        match message {
            Message::Ask(Ask { revision, .. }) => {
                self.protocol.follow(revision);
                self.forget_told();
                if let Some(home) = self.home.as_mut().filter(|home| home.revision() == revision) {
                    home.forget_told(from);
                }
            }
            Message::Layouts(Layouts { layouts, .. }) => {
                self.find_home(around)?;
                let is_own = layouts.iter().all(|(writer, _)| writer.node == from);
                if let Some(home) = self.home.as_mut().filter(|_| is_own) {
                    home.note_layouts(layouts);
                }
            }
            Message::Roster(Roster { revision, serial, declared, .. }) => {
                let (declared, gone) = (Arc::new(declared), Arc::default());
                self.hear_roster(from, revision, News { base: None, serial, declared, gone }, around)?;
            }
            Message::RosterChange(RosterChange { revision, base, serial, declared, gone, .. }) => {
                let (declared, gone) = (Arc::new(declared), Arc::new(gone));
                self.hear_roster(from, revision, News { base: Some(base), serial, declared, gone }, around)?;
            }
            Message::Subscribe(subscribe) => return self.subscribe(from, *subscribe, around),
            Message::Unsubscribe(Unsubscribe { subscription }) => {
                self.subscriptions.remove(&(from, subscription));
            }
            Message::Lost(Lost { subscription, version, cause, who }) => {
                let whose = who.map_or_else(|| "its elements".into(), |who| format!("elements of {}", Named(who)));
                let why = Part { who: None, elements: whose, cause: Some(cause) }.to_string();
                self.lose_version(subscription, version, &why, around);
            }
            // Others belong to no object, or are taken where no lock is held.
            _ => {}
        }
        self.settle(around)
    }

    /// Takes a report, if this is the home.
    pub(crate) fn take_report(&mut self, from: Node, report: Report, around: &mut Surroundings) -> Result<()> {
        self.find_home(around)?;
        if let Some(home) = self.home.as_mut().filter(|_| report.node == from) {
            home.receive(report);
        }
        self.settle(around)
    }

    /// Takes what is new since a report, if this is the home.
    pub(crate) fn take_change(&mut self, from: Node, change: ObjectChange, around: &mut Surroundings) -> Result<()> {
        self.find_home(around)?;
        if let Some(home) = self.home.as_mut().filter(|_| change.node == from)
            && home.change(change).is_err()
        {
            let revision = home.revision();
            around.send(from, self.ask(revision));
        }
        self.settle(around)
    }

    /// Takes a decision of the home.
    pub(crate) fn take_decision(&mut self, decision: Decision, around: &mut Surroundings) -> Result<()> {
        self.hear(decision, around)?;
        self.settle(around)
    }

    /// A home has to be told all again.
    fn forget_told(&mut self) {
        self.reporting.forget();
        self.told_layouts = (None, BTreeSet::new());
    }

    fn subscribe(&mut self, from: Node, subscribe: Subscribe, around: &mut Surroundings) -> Result<()> {
        let Subscribe { subscription, fragment: layout, writers, which, .. } = subscribe;
        let Which::One(version) = which else { return Ok(()) };
        let key = (from, subscription);
        let known = self.subscriptions.remove(&key).filter(|known| known.layout == layout);
        let (fragment, planned, is_told) = match known {
            Some(known) => (known.fragment, known.planned, known.is_told),
            None => match self.relay.fragment(&layout.text, &numbers(&layout)) {
                Ok((view, _)) => (view.fragment, None, false),
                Err(_) => {
                    let lost = Lost { subscription, version, cause: Cause::Unwritten, who: None };
                    around.send(from, Message::Lost(lost));
                    return Ok(());
                }
            },
        };
        let is_served = false;
        let subscription = Subscription { layout, fragment, version, writers, is_served, planned, is_told };
        self.subscriptions.insert(key, subscription);
        self.serve(around)
    }

    /// Sends what subscribers wait for and what all of their writers have.
    fn serve(&mut self, around: &mut Surroundings) -> Result<()> {
        let Watched { subscriptions, relay, protocol, local, .. } = self;
        for ((to, number), subscription) in subscriptions.iter_mut().filter(|(_, one)| !one.is_served) {
            let (to, number, version) = (*to, *number, subscription.version);
            let lost = |writer: Writer| {
                let who = Some(Who { writer, rank: None });
                Message::Lost(Lost { subscription: number, version, cause: Cause::Gone, who })
            };
            let is_lost = |writer: Writer| {
                protocol
                    .record(writer)
                    .is_none_or(|record| record.has_reached(version) && !protocol.has(writer, version))
            };
            if let Some(writer) = subscription.writers.iter().find(|writer| is_lost(**writer)) {
                subscription.is_served = true;
                around.send(to, lost(*writer));
                continue;
            }
            if !subscription.writers.iter().all(|writer| protocol.has(*writer, version)) {
                continue;
            }
            subscription.is_served = true;
            let Some(cargo) = cargo_of(subscription, local) else {
                around.send(to, Message::Lost(Lost { subscription: number, version, cause: Cause::Gone, who: None }));
                continue;
            };
            let mut snapshots = Vec::new();
            for writer in cargo.iter().map(Cargo::writer) {
                match relay.hold(writer.serial, version)? {
                    Some(snapshot) => snapshots.push(snapshot),
                    None => {
                        around.send(to, lost(writer));
                        break;
                    }
                }
            }
            if snapshots.len() == cargo.len() {
                let is_new = !std::mem::replace(&mut subscription.is_told, true);
                around.jobs.push((to, Job { subscription: number, version, cargo, snapshots, is_new }));
            }
        }
        Ok(())
    }

    /// Begins to fill a fragment of this node; the region that its versions are published in.
    pub(crate) fn read(&mut self, reader: u64, text: String, bindings: &BTreeMap<String, i64>) -> Result<String> {
        let receiver = self.relay.receive(&text, bindings)?;
        let layout = FragmentText { text, bindings: bindings_of(bindings) };
        let region = receiver.name().to_owned();
        let (wanted, writers, filling, has_own, confirmed) = (None, Vec::new(), None, false, None);
        let subscribed = BTreeSet::new();
        let is_full = is_full(receiver.fragment());
        let one = Reader { layout, receiver, is_full, wanted, writers, filling, has_own, confirmed, subscribed };
        self.readers.insert(reader, one);
        Ok(region)
    }

    /// A reader wants a version.
    pub(crate) fn want(&mut self, reader: u64, version: Version, around: &mut Surroundings) -> Result<()> {
        let Some(one) = self.readers.get_mut(&reader) else { return Ok(()) };
        (one.wanted, one.filling, one.confirmed) = (Some(version), None, None);
        self.protocol.unwant(reader);
        self.protocol.want(reader, version, one.receiver.elements().clone());
        // Whoever had the elements of the version before mostly has those of this one: they are asked at once, and what they send
        // counts if the home says the same.
        if !one.writers.is_empty() {
            let writers = one.writers.clone();
            self.fill(reader, version, &writers, around)?;
        }
        self.settle(around)
    }

    /// A reader is gone.
    pub(crate) fn leave(&mut self, reader: u64, around: &mut Surroundings) -> Result<()> {
        self.protocol.unwant(reader);
        if let Some(one) = self.readers.remove(&reader) {
            for node in one.subscribed {
                around.send(node, Message::Unsubscribe(Unsubscribe { subscription: reader }));
            }
            one.receiver.remove()?;
        }
        self.settle(around)
    }

    fn answer(&mut self, reader: u64, readiness: Readiness, around: &mut Surroundings) -> Result<()> {
        let Some(one) = self.readers.get_mut(&reader) else { return Ok(()) };
        let Some(version) = one.wanted else { return Ok(()) };
        match readiness {
            Readiness::Waiting(shares) => {
                let why = format!("still to come are {}", self.shown(&shares));
                around.replies.push((reader, Reply::Waiting { version, why }));
            }
            Readiness::Lost(losses) => {
                let parts = losses.iter().map(|Loss { share, cause }| self.part(share, Some(*cause)).to_string());
                let why = parts.collect::<Vec<_>>().join("; ");
                self.end(reader);
                around.replies.push((reader, Reply::Lost { version, why }));
            }
            Readiness::Ready(shares) => {
                let writers: Vec<Writer> = shares.iter().filter_map(|share| Some(share.who?.writer)).collect();
                one.confirmed = Some(writers.iter().copied().collect());
                let is_current =
                    one.filling.as_ref().is_some_and(|filling| Some(&filling.writers) == one.confirmed.as_ref());
                if !is_current {
                    self.fill(reader, version, &writers, around)?;
                }
                self.finish(reader)?;
            }
        }
        Ok(())
    }

    /// Asks all nodes that have elements of a fragment for a version of these writers.
    fn fill(&mut self, reader: u64, version: Version, writers: &[Writer], around: &mut Surroundings) -> Result<()> {
        let id = self.id;
        let Some(one) = self.readers.get_mut(&reader) else { return Ok(()) };
        let loan = one.receiver.loan()?;
        let filling = Arc::new(Filling::new(version, writers.iter().copied().collect(), loan, one.is_full));
        (one.filling, one.has_own) = (Some(filling.clone()), false);
        one.writers = writers.to_vec();
        let mut by_node: BTreeMap<Node, Vec<Writer>> = BTreeMap::new();
        for writer in writers {
            by_node.entry(writer.node).or_default().push(*writer);
        }
        for (node, writers) in by_node {
            if node == around.node {
                continue;
            }
            one.subscribed.insert(node);
            let subscribe = Subscribe {
                subscription: reader,
                object: id,
                name: self.relay.name().into(),
                fragment: one.layout.clone(),
                elements: one.receiver.elements().clone().into(),
                writers,
                which: Which::One(version),
                credit_bytes: u64::MAX,
            };
            around.send(node, Message::Subscribe(Box::new(subscribe)));
        }
        self.fill_own(reader, around)
    }

    /// Puts elements of this node's own writers into a fragment.
    fn fill_own(&mut self, reader: u64, around: &mut Surroundings) -> Result<()> {
        let Some(one) = self.readers.get_mut(&reader).filter(|one| !one.has_own) else { return Ok(()) };
        let Some(filling) = one.filling.clone() else { return Ok(()) };
        let own: Vec<Writer> = filling.writers.iter().copied().filter(|writer| writer.node == around.node).collect();
        if own.is_empty() || !own.iter().all(|writer| self.protocol.has(*writer, filling.version)) {
            return Ok(());
        }
        let origins: Vec<Origin> = own.iter().filter_map(|writer| origin_of(*writer, &self.local)).collect();
        let Ok(ways) = sending::plan(one.receiver.fragment(), &origins) else { return Ok(()) };
        let mut snapshots = Vec::new();
        for way in &ways {
            match self.relay.hold(way.writer.serial, filling.version)? {
                Some(snapshot) => snapshots.push(snapshot),
                // The home will say so, too.
                None => return Ok(()),
            }
        }
        one.has_own = true;
        around.own.push(OwnJob { reader, filling, ways, snapshots });
        Ok(())
    }

    /// What a piece of a fragment is to be put into.
    pub(crate) fn filling(&self, reader: u64, version: Version) -> Option<Arc<Filling>> {
        let filling = self.readers.get(&reader)?.filling.as_ref()?;
        (filling.version == version).then(|| filling.clone())
    }

    /// Publishes a fragment that has all elements, if the home says that they are the right ones.
    pub(crate) fn finish(&mut self, reader: u64) -> Result<()> {
        let Some(one) = self.readers.get_mut(&reader) else { return Ok(()) };
        let Some(filling) = &one.filling else { return Ok(()) };
        if one.confirmed.as_ref() != Some(&filling.writers) || one.wanted != Some(filling.version) {
            return Ok(());
        }
        let version = filling.version;
        if let Some((loan, published_ns)) = filling.finish() {
            one.receiver.publish(version, published_ns, loan)?;
            self.end(reader);
        }
        Ok(())
    }

    fn end(&mut self, reader: u64) {
        self.protocol.unwant(reader);
        if let Some(one) = self.readers.get_mut(&reader) {
            (one.wanted, one.filling, one.confirmed) = (None, None, None);
        }
    }

    pub(crate) fn lose_version(&mut self, reader: u64, version: Version, why: &str, around: &mut Surroundings) {
        let is_wanted = |one: &&mut Reader| one.filling.as_ref().is_some_and(|filling| filling.version == version);
        let Some(one) = self.readers.get_mut(&reader).filter(is_wanted) else { return };
        let is_confirmed = one.confirmed.is_some();
        // Others may have the elements of this version. What the home says counts.
        (one.filling, one.writers) = (None, Vec::new());
        if is_confirmed {
            self.end(reader);
            around.replies.push((reader, Reply::Lost { version, why: why.into() }));
        }
    }

    /// There is a new connection to a node: what was sent to it may be lost.
    pub(crate) fn reconnect(&mut self, node: Node, around: &mut Surroundings) -> Result<()> {
        // It asks again for what it waits for, perhaps before this is known here.
        let of_node = self.subscriptions.iter_mut().filter(|((from, _), _)| *from == node);
        of_node.for_each(|(_, one)| one.is_told = false);
        if let Some(home) = &mut self.home {
            home.admit(node);
            home.forget_told(node);
            let revision = home.revision();
            around.send(node, self.ask(revision));
        }
        if around.cluster.home(self.id).is_some_and(|(home, _)| home == node) {
            self.forget_told();
        }
        let again = |one: &Reader| one.filling.as_ref().map(|filling| (filling.version, one.writers.clone()));
        let asked: Vec<_> = self.readers.iter().filter_map(|(reader, one)| Some((*reader, again(one)?))).collect();
        for (reader, (version, writers)) in asked {
            if writers.iter().any(|writer| writer.node == node) {
                self.fill(reader, version, &writers, around)?;
            }
        }
        self.settle(around)
    }

    /// The runtime of a machine was started again, as another node.
    pub(crate) fn replace(&mut self, former: Node, node: Node, around: &mut Surroundings) -> Result<()> {
        self.subscriptions.retain(|(from, _), _| *from != former);
        if let Some(home) = &mut self.home {
            home.replace(former, node);
        }
        for (reader, one) in &mut self.readers {
            one.subscribed.remove(&former);
            if !one.writers.iter().any(|writer| writer.node == former) {
                continue;
            }
            // The same elements will come from the new node, when the home says so.
            (one.writers, one.filling, one.confirmed) = (Vec::new(), None, None);
            if let Some(version) = one.wanted {
                self.protocol.unwant(*reader);
                self.protocol.want(*reader, version, one.receiver.elements().clone());
            }
        }
        self.settle(around)
    }

    /// A node was lost.
    pub(crate) fn lose(&mut self, node: Node, around: &mut Surroundings) -> Result<()> {
        self.subscriptions.retain(|(from, _), _| *from != node);
        if let Some(home) = &mut self.home {
            home.lose(node);
        }
        self.settle(around)
    }

    /// The home may be another one.
    pub(crate) fn change_home(&mut self, around: &mut Surroundings) -> Result<()> {
        self.settle(around)
    }

    fn shown(&self, shares: &[Share]) -> String {
        let parts = shares.iter().map(|share| self.part(share, None).to_string());
        parts.collect::<Vec<_>>().join("; ")
    }

    fn part(&self, share: &Share, cause: Option<Cause>) -> Part {
        Part { who: share.who.map(Named), elements: self.relay.shown(&share.elements), cause }
    }
}

/// Whether elements fill all bytes of a fragment: then all of it moves into another one of its kind.
fn is_full(fragment: &Arc<Fragment>) -> bool {
    let own = Writer { node: Node(0), process: 0, serial: 0 };
    let ways = sending::plan(fragment, &[(own, fragment.clone(), String::new())]);
    ways.is_ok_and(|ways| ways.iter().map(|way| way.transfer.moved_bytes()).sum::<u64>() == fragment.size_bytes())
}

fn origin_of(writer: Writer, local: &BTreeMap<Writer, LocalFragment>) -> Option<Origin> {
    let fragment = &local.get(&writer)?.fragment;
    Some((writer, fragment.clone(), Relay::variable(fragment)))
}

/// What is sent of a subscription's writers.
fn cargo_of(subscription: &mut Subscription, local: &BTreeMap<Writer, LocalFragment>) -> Option<Arc<Vec<Cargo>>> {
    if let Some((writers, cargo)) = &subscription.planned
        && *writers == subscription.writers
    {
        return Some(cargo.clone());
    }
    let origins = subscription.writers.iter().map(|writer| origin_of(*writer, local));
    let origins: Option<Vec<Origin>> = origins.collect();
    let ways = sending::plan(&subscription.fragment, &origins?).ok()?;
    let cargo = Arc::new(ways.into_iter().map(Cargo::new).collect::<Vec<_>>());
    subscription.planned = Some((subscription.writers.clone(), cargo.clone()));
    subscription.is_told = false;
    Some(cargo)
}

/// Numbers of the names that a text leaves open, as boards have them.
fn numbers(layout: &FragmentText) -> BTreeMap<String, i64> {
    layout.bindings.iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Surroundings<'_> {
    fn send(&self, to: Node, message: Message) {
        self.network.send(to, message);
    }
}
