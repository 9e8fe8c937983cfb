//! One object: its writers of this node, its home if that is here, and what follows from what both say.

use crate::error::Result;
use crate::filling::Filling;
use crate::home::{Home, Outgoing};
use crate::known::{Known, numbers};
use crate::readers::{Asked, Readers};
use crate::reporting::{self, Reporting};
use crate::roster::{Heard, Missing, News};
use crate::subscriptions::Subscriptions;
use crate::surroundings::Surroundings;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use stillframe_kernel::points;
use stillframe_object::relay::{LocalFragment, Refused, Remote, RemoteFragment};
use stillframe_object::{Object, Part, Writer as Named, bindings as bindings_of};
use stillframe_roster::message::{Decision, Report};
use stillframe_roster::runtime::{Event, Runtime};
use stillframe_roster::writer::{Node, Revision, Role, Stage, Version, Who, Writer};
use stillframe_wire::data::{FragmentText, Lost, Unsubscribe};
use stillframe_wire::roster::{Ask, Layouts, ObjectChange, ObjectDecision, ObjectReport, Roster, RosterChange};
use stillframe_wire::{Message, ObjectId};

/// An object.
#[derive(Debug)]
pub(crate) struct Watched {
    known: Known,
    /// Whether this node's programs can find it. Else none has a fragment of it, and there is nothing to look at, nor anybody to tell.
    has_name: bool,
    /// Where its files on this node were removed, though it is there on others: the first number of a fragment that none of them had.
    removed: Option<u32>,
    home: Option<Home>,
    /// Layouts of other nodes' writers that came before the names told that the home is here, and the term that they told of then: the
    /// reports that follow may come after that.
    early_layouts: (Revision, BTreeMap<Writer, FragmentText>),
    /// Whether no home acts, so that what is new here could not be told.
    is_homeless: bool,
    decided: BTreeSet<u32>,
    /// What this node's writers have still to be told of their fragments.
    verdicts: BTreeMap<u32, Result<(), Refused>>,
    /// Fragments of this node whose places others took, and of which its programs have still to be told that.
    ended: BTreeMap<u32, Version>,
    /// What the home was told last.
    reporting: Reporting,
    /// Of which writers which home knows the layouts.
    told_layouts: (Option<(Node, Revision)>, BTreeSet<Writer>),
    /// Whether this node's programs have still to be told.
    is_untold: bool,
    /// Whether a home was heard, and this node's programs were told then what is complete.
    has_heard: bool,
    has_told: bool,
    /// Whether programs still know fragments of which the home speaks no more, for what is complete consists of them.
    keeps_former: bool,
    /// Whether a decision was left, of a home that the names did not tell of yet.
    has_missed: bool,
    /// The term and the serial of the roster that the newest decision needs.
    needed_roster: (Revision, u64),
    /// Versions that are to be pinned and could not be, for want of something.
    unpinned: Vec<(Version, Vec<Writer>)>,
    subscriptions: Subscriptions,
    readers: Readers,
}

impl Watched {
    pub(crate) fn new(object: &Object, node: Node) -> Result<Watched> {
        let relay = object.relay();
        let mut protocol = Runtime::new(node, relay.initial());
        protocol.set_floor(relay.newest_complete()?, relay.run_floor()?);
        let (local, pins, lost) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let (id, roster) = (ObjectId(relay.id()), Heard::default());
        let restarted = BTreeMap::new();
        let known = Known { id, relay, protocol, roster, local, pins, lost, restarted };
        Ok(Watched {
            known,
            has_name: true,
            removed: None,
            home: None,
            early_layouts: (0, BTreeMap::new()),
            is_homeless: false,
            decided: BTreeSet::new(),
            verdicts: BTreeMap::new(),
            ended: BTreeMap::new(),
            reporting: Reporting::default(),
            told_layouts: (None, BTreeSet::new()),
            is_untold: false,
            has_heard: false,
            has_told: false,
            keeps_former: false,
            has_missed: false,
            needed_roster: (0, 0),
            unpinned: Vec::new(),
            subscriptions: Subscriptions::default(),
            readers: Readers::default(),
        })
    }

    /// One whose name this node's directory does not have: other nodes are told that nobody here writes it, and its home can be here.
    pub(crate) fn without_name(object: &Object, node: Node) -> Result<Watched> {
        Ok(Watched { has_name: false, ..Watched::new(object, node)? })
    }

    /// The directory has its name. Where that was gone, programs of this node know nothing any more.
    ///
    /// # Errors
    /// Those of the object's files.
    pub(crate) fn note_name(&mut self) -> Result<()> {
        if let Some(first) = self.removed {
            self.known.relay.begin_anew(first)?;
            (self.removed, self.is_untold, self.keeps_former) = (None, true, false);
        }
        self.has_name = true;
        Ok(())
    }

    /// Goes on without the files of this node, which somebody removed because they were damaged: the object is there on other nodes, and what
    /// its home here knows and decided holds.
    pub(crate) fn lose_name(&mut self) {
        let numbers = self.known.local.keys().map(|writer| writer.serial.saturating_add(1));
        self.removed = numbers.chain(self.removed).max().or(Some(0));
        (self.has_name, self.has_told) = (false, false);
        self.verdicts.clear();
        self.ended.clear();
    }

    /// The object was removed: fragments of it are filled no more.
    pub(crate) fn end(self) {
        self.readers.remove_all();
    }

    pub(crate) fn id(&self) -> ObjectId {
        self.known.id
    }

    pub(crate) fn name(&self) -> &str {
        self.known.relay.name()
    }

    /// Whether it has to be looked at again, for there was no home to tell what is new, or it could not be told.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_homeless || self.known.relay.is_unfollowed()
    }

    /// Whether this node's programs know what a home said, since this runtime runs.
    pub(crate) fn has_told_programs(&self) -> bool {
        self.has_told && !self.is_untold
    }

    /// Whether it has to be looked at now and then, although nobody says anything of it.
    pub(crate) fn is_open(&self) -> bool {
        self.is_waiting() || self.home.as_ref().is_some_and(Home::is_waiting)
    }

    /// Whether the board tells of writers of this node.
    pub(crate) fn has_writers(&self) -> bool {
        !self.known.local.is_empty()
    }

    /// What is known of it, but for the home.
    pub(crate) fn known(&mut self) -> &mut Known {
        &mut self.known
    }

    /// Looks at the writers of this node, and does what follows.
    pub(crate) fn look(&mut self, around: &mut Surroundings) -> Result<()> {
        if self.has_name
            && let Some(fragments) = self.known.relay.look()?
        {
            self.note_fragments(fragments, around)?;
        }
        if let Some(home) = &mut self.home {
            home.look(Instant::now());
        }
        // First, for what was complete until now is held still, and only what changed since has to be sent.
        let served = self.subscriptions.serve(&mut self.known, around);
        let told = self.tell_writers();
        let unpinned = std::mem::take(&mut self.unpinned);
        let pinned = unpinned.into_iter().map(|(version, writers)| self.pin(version, &writers));
        let pinned = pinned.collect::<Vec<_>>().into_iter().collect::<Result<()>>();
        // While somebody has the board, or a version cannot be held, other nodes are told all the same.
        let told = told.and_then(|()| self.tell_programs(around));
        self.settle(around).and(told).and(pinned)?;
        self.readers.fill_all_own(&mut self.known, around)?;
        served
    }

    fn note_fragments(&mut self, fragments: Vec<LocalFragment>, around: &Surroundings) -> Result<()> {
        let mut seen = BTreeSet::new();
        for fragment in fragments {
            let writer = Writer { node: around.node, ..fragment.who.writer };
            seen.insert(writer);
            self.note_fragment(writer, &fragment)?;
            self.known.local.insert(writer, fragment);
        }
        // Those that the board does not tell of any more have no version left.
        let gone: Vec<Writer> = self.known.local.keys().copied().filter(|writer| !seen.contains(writer)).collect();
        for writer in gone {
            self.known.local.remove(&writer);
            self.drop_all_but(writer, &[]);
            self.known.protocol.die(writer);
        }
        Ok(())
    }

    fn note_fragment(&mut self, writer: Writer, fragment: &LocalFragment) -> Result<()> {
        let number = writer.serial;
        if fragment.is_accepted.is_some() {
            self.decided.insert(number);
        }
        if fragment.is_accepted == Some(false) || self.verdicts.get(&number).is_some_and(Result::is_err) {
            // Its program is to detach it.
            return Ok(());
        }
        if self.known.protocol.record(writer).is_none() {
            if fragment.left.is_some_and(|left| left <= fragment.from) {
                return Ok(());
            }
            let stage = match fragment.writers {
                Some(writers) => Stage::member_of(fragment.from, fragment.elements.clone(), writers),
                None => Stage::member(fragment.from, fragment.elements.clone()),
            };
            let who = Who { writer, rank: fragment.who.rank };
            if fragment.is_accepted == Some(true) {
                self.known.protocol.restore(who, vec![stage]);
            } else if let Err(refusal) = self.known.protocol.declare(who, stage) {
                self.decide(number, Err((&refusal).into()));
                return Ok(());
            }
        }
        let known = |protocol: &Runtime| {
            let record = protocol.record(writer);
            record.and_then(|record| record.published.newest)
        };
        // What it published from there on, where another has its place, counts for nothing.
        let newer = |protocol: &Runtime, version: Version| {
            fragment.left.is_none_or(|left| version < left) && known(protocol).is_none_or(|newest| version > newest)
        };
        let news = fragment.present.iter().copied().filter(|version| newer(&self.known.protocol, *version));
        for version in news.collect::<Vec<_>>() {
            // What it is no member of counts for nobody.
            let _ = self.known.protocol.publish(writer, version);
        }
        if let Some(newest) = fragment.newest.filter(|newest| newer(&self.known.protocol, *newest)) {
            let _ = self.known.protocol.publish(writer, newest);
        }
        self.drop_all_but(writer, &fragment.present);
        if let Some(left) = fragment.left
            && self.known.protocol.record(writer).is_some_and(|record| record.elements(left).is_some())
        {
            let _ = self.known.protocol.declare(Who { writer, rank: fragment.who.rank }, Stage::left(left));
        } else if !fragment.is_alive && fragment.left.is_none() {
            self.known.protocol.die(writer);
        }
        Ok(())
    }

    fn drop_all_but(&mut self, writer: Writer, present: &[Version]) {
        let record = self.known.protocol.record(writer);
        let known = record.into_iter().flat_map(|record| record.published.present.iter().copied());
        let gone: Vec<Version> = known.filter(|version| !present.contains(version)).collect();
        gone.into_iter().for_each(|version| self.known.protocol.drop(writer, version));
    }

    fn decide(&mut self, number: u32, verdict: Result<(), Refused>) {
        // One that counted may count no more: when it was lost meanwhile, and another one took its place.
        if self.decided.insert(number) || verdict.is_err() {
            self.verdicts.insert(number, verdict);
        }
    }

    /// Tells writers of this node whether their fragments count. Where that does not succeed now, it is tried again.
    fn tell_writers(&mut self) -> Result<()> {
        while let Some((number, verdict)) = self.verdicts.first_key_value() {
            points::hit("verdict.heard");
            self.known.relay.decide(*number, verdict.clone())?;
            self.verdicts.pop_first();
        }
        // Then, for an heir that counts says so, too: a runtime that comes later finds out the rest.
        while let Some((number, from)) = self.ended.first_key_value() {
            self.known.relay.end(*number, *from)?;
            self.ended.pop_first();
        }
        Ok(())
    }

    /// Brings the home up to what is new, and readers who waited for others.
    fn settle(&mut self, around: &mut Surroundings) -> Result<()> {
        let settled = self.settle_home(around);
        self.readers.bring_shared(&mut self.known, around).and(settled)
    }

    /// Tells the home what is new here, hears what it decides if it is here, and does what follows, until nothing does.
    fn settle_home(&mut self, around: &mut Surroundings) -> Result<()> {
        let mut done = Ok(());
        loop {
            // A home that may have lost its role decides nothing.
            let home = around.cluster.home(self.known.id);
            self.is_homeless = home.is_none();
            let Some(home) = home else { return done };
            self.follow_home(home, around)?;
            let mut is_new = self.report(home.0, around);
            let outgoing = self.home.as_mut().map(Home::outgoing).unwrap_or_default();
            // The home takes all of it for sent: what does not succeed here now is tried again, and keeps nobody from the rest.
            for (node, outgoing) in outgoing {
                let to_here = node == around.node;
                match outgoing {
                    Outgoing::Decision { decision, .. } if to_here => {
                        is_new = true;
                        let heard = self.hear(decision, around);
                        done = done.and(heard);
                    }
                    Outgoing::Roster { revision, news } if to_here => {
                        let heard = self.hear_roster(node, revision, news, around);
                        done = done.and(heard);
                    }
                    Outgoing::Decision { roster, decision } => {
                        let decision = ObjectDecision { object: self.known.id, roster, decision };
                        points::hit("decision.made");
                        around.send(node, Message::Decisions(vec![decision]));
                    }
                    Outgoing::Roster { revision, news } => {
                        around.send(node, news.message(self.known.id, revision));
                        points::hit("roster.sent");
                    }
                }
            }
            if !is_new {
                return done;
            }
        }
    }

    /// Follows the home that there is now.
    fn find_home(&mut self, around: &mut Surroundings) -> Result<()> {
        match around.cluster.home(self.known.id) {
            Some(home) => self.follow_home(home, around),
            None => Ok(()),
        }
    }

    /// Begins or ends to be the home, and follows a new one.
    fn follow_home(&mut self, (node, revision): (Node, Revision), around: &mut Surroundings) -> Result<()> {
        self.known.protocol.follow(revision);
        if node != around.node {
            if std::mem::take(&mut self.has_missed) {
                around.send(node, self.ask(revision));
            }
            self.home = None;
            if revision > self.early_layouts.0 {
                self.early_layouts.1.clear();
            }
            return Ok(());
        }
        if self.home.as_ref().is_none_or(|home| home.revision() != revision) {
            let nodes = around.cluster.nodes();
            let (shape, initial) = (self.known.relay.shape()?, self.known.relay.initial());
            let mut home = Home::new(revision, shape, initial, nodes.iter().copied(), around.cluster.lease());
            home.set_replaced(around.cluster.replaced());
            home.note_layouts(std::mem::take(&mut self.early_layouts.1).into_iter().collect());
            self.home = Some(home);
            points::hit("home.begun");
            let own = around.node;
            for other in nodes.into_iter().filter(|other| *other != own) {
                around.send(other, self.ask(revision));
            }
            points::hit("home.asked");
        }
        Ok(())
    }

    /// Sends a report to the home, if it is another than before; whether it is.
    fn report(&mut self, home: Node, around: &mut Surroundings) -> bool {
        let Some(news) = self.reporting.news(&self.known.protocol, self.known.id, home) else { return false };
        let layouts = self.new_layouts((home, self.known.protocol.revision()));
        match (&mut self.home, news) {
            (Some(own), reporting::News::Whole(report)) if home == around.node => {
                own.note_layouts(layouts);
                own.receive(report);
            }
            (_, news) => {
                let layouts = reporting::layouts(self.known.id, self.name(), layouts);
                layouts.into_iter().for_each(|layouts| around.send(home, Message::Layouts(layouts)));
                around.send(home, self.message_of(news));
                points::hit("report.sent");
            }
        }
        true
    }

    fn message_of(&self, news: reporting::News) -> Message {
        match news {
            reporting::News::Whole(report) => {
                Message::Reports(vec![ObjectReport { object: self.known.id, name: self.name().into(), report }])
            }
            reporting::News::Change(change) => Message::Changes(vec![change]),
        }
    }

    fn ask(&self, revision: Revision) -> Message {
        Message::Ask(Ask { object: self.known.id, name: self.name().into(), revision })
    }

    /// Layouts that a home was not told yet.
    fn new_layouts(&mut self, home: (Node, Revision)) -> Vec<(Writer, FragmentText)> {
        if self.told_layouts.0 != Some(home) {
            self.told_layouts = (Some(home), BTreeSet::new());
        }
        let told = &mut self.told_layouts.1;
        told.retain(|writer| self.known.local.contains_key(writer));
        let new = self.known.local.iter().filter(|(writer, _)| told.insert(**writer));
        let layout = |(writer, fragment): (&Writer, &LocalFragment)| {
            let (text, bindings) = (fragment.text.clone(), bindings_of(&fragment.bindings));
            (*writer, FragmentText { text, bindings })
        };
        new.map(layout).collect()
    }

    fn hear(&mut self, decision: Decision, around: &mut Surroundings) -> Result<()> {
        let (node, revision) = (decision.node, decision.revision);
        let mut events = self.known.protocol.hear(decision);
        self.known.relay.set_run_floor(self.known.protocol.run_floor());
        let is_of_home = node == around.node && revision == self.known.protocol.revision();
        let is_first = is_of_home && !std::mem::replace(&mut self.has_heard, true);
        // First, for what was complete before is let go of: programs would see neither.
        events.sort_by_key(|event| !matches!(event, Event::Complete(_)));
        for event in &events {
            match event {
                Event::Refused { writer, refusal, .. } => self.decide(writer.serial, Err(refusal.into())),
                Event::Ended { writer, from } => _ = self.ended.insert(writer.serial, *from),
                _ => {}
            }
        }
        let is_undecided = |writer: &Writer| !self.decided.contains(&writer.serial);
        let accepted: Vec<Writer> = self.known.protocol.accepted().filter(is_undecided).collect();
        for writer in accepted {
            // That it died was accepted. It was a member of no version, and whoever was there before it keeps his part in all.
            let is_member = |stage: &Stage| matches!(stage.role, Role::Member { .. });
            let record = self.known.protocol.record(writer);
            let has_counted =
                record.is_none_or(|record| record.published.newest.is_some() || record.stages.iter().any(is_member));
            let verdict = if has_counted { Ok(()) } else { Err("its process died before the fragment counted".into()) };
            self.decide(writer.serial, verdict);
        }
        // Before anything is pinned: whatever is complete with a fragment, a runtime that comes later knows that it counts.
        let mut done = self.tell_writers();
        for event in events {
            let heard = match event {
                Event::Pin { version, writers } => self.pin(version, &writers),
                Event::Unpin(version) => {
                    self.known.pins.remove(&version);
                    self.unpinned.retain(|(unpinned, _)| *unpinned != version);
                    Ok(())
                }
                Event::Complete(_) => {
                    points::hit("complete.heard");
                    self.tell_programs(around)
                }
                Event::Answer { reader, readiness } => self.readers.answer(&mut self.known, reader, readiness, around),
                // What cannot be had any more, readers learn when they want it.
                Event::Unpinned { .. } | Event::Refused { .. } | Event::Ended { .. } => Ok(()),
            };
            // One that does not succeed keeps no other from it; all are looked at again later.
            done = done.and(heard);
        }
        // Also where nothing is complete that was not before.
        if is_first { done.and(self.tell_programs(around)) } else { done }
    }

    fn pin(&mut self, version: Version, writers: &[Writer]) -> Result<()> {
        if !self.verdicts.is_empty() || !self.ended.is_empty() {
            self.unpinned.push((version, writers.to_vec()));
            return Ok(());
        }
        let mut held = BTreeMap::new();
        for writer in writers {
            match self.known.hold(*writer, version) {
                Ok(Some(snapshot)) => _ = held.insert(*writer, snapshot),
                Ok(None) => {
                    self.known.protocol.drop(*writer, version);
                    return Ok(());
                }
                Err(error) => {
                    self.unpinned.push((version, writers.to_vec()));
                    return Err(error);
                }
            }
        }
        points::hit("pin.held");
        if self.known.protocol.hold(version).is_none() {
            self.known.pins.insert(version, held);
        }
        Ok(())
    }

    fn hear_roster(&mut self, from: Node, revision: Revision, news: News, around: &mut Surroundings) -> Result<()> {
        let heard = match news.base {
            None => {
                let declared = Arc::unwrap_or_clone(news.declared);
                Ok(self.known.roster.hear(revision, news.serial, declared, news.is_last))
            }
            Some(_) => self.known.roster.change(revision, news),
        };
        match heard {
            Ok(is_new) => {
                self.is_untold |= is_new;
                self.known.note_heard();
            }
            Err(Missing) => around.send(from, self.ask(revision)),
        }
        if self.is_untold { self.tell_programs(around) } else { Ok(()) }
    }

    /// Tells this node's programs of fragments on other nodes, and which version is complete. In this order: who is told of a version
    /// knows its writers, and those of the version before go only when there is a newer one.
    fn tell_programs(&mut self, around: &Surroundings) -> Result<()> {
        if !self.has_name {
            return Ok(());
        }
        self.tell_writers()?;
        // Programs would look for who has a version's elements, and find nobody. What was lost on the way comes with the next connection.
        if self.known.roster.is_behind() || self.known.roster.at() < self.needed_roster {
            return Ok(());
        }
        if self.is_untold {
            self.tell_roster(around)?;
        }
        let (announced, is_gone) = (self.known.protocol.announced().version, self.known.protocol.announced().is_gone());
        if is_gone {
            // Nobody has written in the places of those that were lost, of whom errors go on to tell.
            self.known.relay.give_up(announced)?;
        } else if self.known.relay.complete(announced)? {
            // Others have written what was theirs, up to there.
            self.known.lost.retain(|lost| lost.from > announced);
            if self.keeps_former {
                self.tell_roster(around)?;
            }
        }
        // The roster is as new as that: who has no part in a version by now has none for good.
        self.readers.settle(&self.known.roster, announced);
        self.has_told |= self.has_heard;
        Ok(())
    }

    fn tell_roster(&mut self, around: &Surroundings) -> Result<()> {
        let others = self.known.roster.declared().filter(|one| one.writer.node != around.node);
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
        points::hit("roster.heard");
        self.keeps_former = self.known.relay.tell(&remote)?;
        self.is_untold = false;
        points::hit("roster.told");
        Ok(())
    }

    /// Takes a message of another node.
    pub(crate) fn receive(&mut self, from: Node, message: Message, around: &mut Surroundings) -> Result<()> {
        match message {
            Message::Ask(Ask { revision, .. }) => {
                // Of a term that the names do not tell of nobody may ever be the home. Where they do a little later, it is followed then.
                if around.cluster.home(self.known.id).is_some_and(|(_, known)| known == revision) {
                    self.known.protocol.follow(revision);
                }
                self.forget_told();
                if let Some(home) = self.home.as_mut().filter(|home| home.revision() == revision) {
                    home.forget_told(from);
                }
            }
            Message::Layouts(Layouts { layouts, .. }) => {
                self.find_home(around)?;
                let is_own = layouts.iter().all(|(writer, _)| writer.node == from);
                match &mut self.home {
                    _ if !is_own => {}
                    Some(home) => home.note_layouts(layouts),
                    None => {
                        self.early_layouts.0 = self.known.protocol.revision();
                        self.early_layouts.1.extend(layouts);
                    }
                }
            }
            Message::Roster(Roster { revision, serial, declared, is_last, .. }) => {
                let (declared, gone) = (Arc::new(declared), Arc::default());
                self.hear_roster(from, revision, News { base: None, serial, declared, gone, is_last }, around)?;
            }
            Message::RosterChange(RosterChange { revision, base, serial, declared, gone, is_last, .. }) => {
                let (base, declared, gone) = (Some(base), Arc::new(declared), Arc::new(gone));
                self.hear_roster(from, revision, News { base, serial, declared, gone, is_last }, around)?;
            }
            Message::Subscribe(subscribe) => {
                return self.subscriptions.subscribe(&mut self.known, from, *subscribe, around);
            }
            Message::Unsubscribe(Unsubscribe { subscription }) => {
                self.subscriptions.unsubscribe(from, subscription);
            }
            Message::Lost(Lost { subscription, version, cause, who }) => {
                let whose = who.map_or_else(|| "its elements".into(), |who| format!("elements of {}", Named(who)));
                let why = Part { who: None, elements: whose, cause: Some(cause) }.to_string();
                // One that is not asked any more may say so late.
                if who.is_none_or(|who| self.readers.waits_for(subscription, version, who.writer)) {
                    self.readers.lose_version(&mut self.known, subscription, version, &why, around);
                }
            }
            // Others belong to no object, or are taken where no lock is held.
            _ => {}
        }
        self.settle(around)
    }

    /// Takes a report, if this is the home.
    pub(crate) fn take_report(&mut self, from: Node, report: Report, around: &mut Surroundings) -> Result<()> {
        self.find_home(around)?;
        // One for a home that the names do not tell of says nothing: where they do a little later, that home asks for all.
        let is_for = |home: &Home| report.node == from && report.revision <= home.revision();
        if let Some(home) = self.home.as_mut().filter(|home| is_for(home)) {
            home.receive(report);
            points::hit("report.taken");
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
        points::hit("change.taken");
        self.settle(around)
    }

    /// Takes a decision of the home.
    pub(crate) fn take_decision(
        &mut self,
        from: Node,
        ObjectDecision { roster, decision, .. }: ObjectDecision,
        around: &mut Surroundings,
    ) -> Result<()> {
        let home = around.cluster.home(self.known.id);
        if decision.revision > self.known.protocol.revision() && home != Some((from, decision.revision)) {
            // If the names tell of that home a little later, it is asked to say all again.
            self.has_missed = true;
            return Ok(());
        }
        if decision.revision >= self.known.protocol.revision() {
            self.needed_roster = self.needed_roster.max((decision.revision, roster));
        }
        self.hear(decision, around)?;
        self.settle(around)
    }

    /// A home has to be told all again.
    fn forget_told(&mut self) {
        self.reporting.forget();
        self.told_layouts = (None, BTreeSet::new());
    }

    /// Begins to fill a fragment of this node; the region that its versions are published in.
    pub(crate) fn read(
        &mut self,
        reader: u64,
        text: String,
        bindings: &BTreeMap<String, i64>,
        around: &Surroundings,
    ) -> Result<String> {
        self.readers.read(&mut self.known, reader, text, bindings, around)
    }

    /// A reader wants a version, and then perhaps another one: which one it gets then.
    pub(crate) fn want(&mut self, reader: u64, asked: Asked, around: &mut Surroundings) -> Result<Option<Version>> {
        let wanted = self.readers.want(&mut self.known, reader, asked, around);
        self.settle(around).and(wanted)
    }

    /// A reader is gone.
    pub(crate) fn leave(&mut self, reader: u64, around: &mut Surroundings) -> Result<()> {
        let left = self.readers.leave(&mut self.known, reader, around);
        self.settle(around).and(left)
    }

    /// What a piece of a fragment is to be put into.
    pub(crate) fn filling(&self, subscription: u64, version: Version) -> Option<Arc<Filling>> {
        self.readers.filling(subscription, version)
    }

    /// Whether a fragment of this node is filled by what others send for this subscription.
    pub(crate) fn subscribes(&self, subscription: u64) -> bool {
        self.readers.subscribes(subscription)
    }

    /// Publishes a fragment that has all elements, if the home says that they are the right ones; and begins with the next.
    pub(crate) fn finish(&mut self, subscription: u64, around: &mut Surroundings) -> Result<()> {
        let done = self.readers.finish(&mut self.known, subscription, around);
        // Others may wait for what came here, or for what will not.
        self.settle(around).and(done)
    }

    /// What a reader wants was lost on its way.
    pub(crate) fn lose_version(
        &mut self,
        subscription: u64,
        version: Version,
        why: &str,
        around: &mut Surroundings,
    ) -> Result<()> {
        self.readers.lose_version(&mut self.known, subscription, version, why, around);
        self.readers.bring_shared(&mut self.known, around)
    }

    /// There is a new connection to a node: what was sent to it may be lost.
    pub(crate) fn reconnect(&mut self, node: Node, around: &mut Surroundings) -> Result<()> {
        self.subscriptions.tell_again(node);
        if let Some(home) = &mut self.home {
            // One whose lease has ended may not know that yet. It would be waited for, and nobody would say once more that it is lost.
            if around.cluster.nodes().contains(&node) {
                home.learn_replaced(around.cluster.replaced());
                home.admit(node);
            }
            home.forget_told(node);
            let revision = home.revision();
            around.send(node, self.ask(revision));
        }
        if around.cluster.home(self.known.id).is_some_and(|(home, _)| home == node) {
            self.forget_told();
        }
        self.readers.ask_again(&mut self.known, node, around)?;
        self.settle(around)
    }

    /// The runtime of a machine was started again, as another node.
    pub(crate) fn replace(&mut self, former: Node, node: Node, around: &mut Surroundings) -> Result<()> {
        self.subscriptions.forget(former);
        self.known.replace(former, node);
        if let Some(home) = &mut self.home {
            home.replace(former, node);
        }
        self.readers.replace(&mut self.known, former);
        self.settle(around)
    }

    /// A node was lost.
    pub(crate) fn lose(&mut self, node: Node, around: &mut Surroundings) -> Result<()> {
        self.subscriptions.forget(node);
        self.known.lose(node);
        let looked = self.readers.look_again(&mut self.known, around);
        if let Some(home) = &mut self.home {
            home.lose(node);
        }
        self.settle(around).and(looked)
    }

    /// Lets the home announce nothing any more, if it is here: this node is about to leave.
    pub(crate) fn retire(&mut self, around: &mut Surroundings) -> Result<()> {
        if let Some(home) = &mut self.home {
            home.retire();
        }
        self.settle(around)
    }

    /// Whether no home is here that announces anything.
    pub(crate) fn is_retiring(&self) -> bool {
        self.home.as_ref().is_none_or(|home| home.protocol().is_retiring())
    }

    /// Whether no home is here, or all nodes know that it announces nothing any more.
    pub(crate) fn has_retired(&self) -> bool {
        self.home.as_ref().is_none_or(|home| home.protocol().has_retired())
    }

    /// The home may be another one.
    pub(crate) fn change_home(&mut self, around: &mut Surroundings) -> Result<()> {
        self.settle(around)
    }
}
