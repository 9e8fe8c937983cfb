//! The state machine of one node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    message::{Ceiling, Decision, Ended, Proposal, Report, Told, Unpinned, Want},
    planted::{Bug, Planted},
    readiness::Readiness,
    refusal::Refusal,
    writer::{Elements, Node, Record, Revision, Role, Stage, Version, Who, Writer},
};

/// What the runtime has to do, or to tell its readers and writers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// Take leases on the version of these writers, and then call [`Runtime::hold`]; or [`Runtime::drop`] if one is gone.
    Pin {
        /// The version.
        version: Version,
        /// The node's members of it.
        writers: Vec<Writer>,
    },
    /// Give back the leases on the version.
    Unpin(Version),
    /// The version is complete.
    Complete(Version),
    /// The newest complete version cannot be had whole any more.
    Unpinned {
        /// Which.
        version: Version,
        /// From whom not.
        nodes: Vec<Unpinned>,
    },
    /// What a writer declared does not count.
    Refused {
        /// Whose.
        writer: Writer,
        /// What.
        stage: Stage,
        /// Why.
        refusal: Refusal,
    },
    /// Another writer took the place of one of this node that had left or died.
    Ended {
        /// Which had.
        writer: Writer,
        /// The first version of which it has nothing any more.
        from: Version,
    },
    /// What a reader is told.
    Answer {
        /// Who asked.
        reader: u64,
        /// Whether it can have what it wants.
        readiness: Readiness,
    },
}

/// What the runtime of a node knows of an object. Of the node's writers it is the truth; a home can be made anew of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Runtime {
    node: Node,
    initial: Version,
    revision: Revision,
    serial: u64,
    /// Serial of the newest report that says something for which the home waits.
    due: u64,
    heard: u64,
    declared: u64,
    writers: BTreeMap<Writer, Told>,
    pins: BTreeMap<Version, Proposal>,
    pinning: Option<Proposal>,
    announced: Proposal,
    /// The newest complete version of which living nodes had all elements, as far as was said.
    newest_had: Version,
    unpinned: Vec<Unpinned>,
    yielded: Option<Proposal>,
    /// The newest that it has heard of.
    ceiling: Ceiling,
    /// The newest version that was complete before this runtime began.
    floor: Version,
    /// The newest version that was complete before the present run of the job began, as far as a former runtime learned it.
    run_floor: Version,
    /// By reader, with what was answered last.
    wants: BTreeMap<u64, (Want, Option<Readiness>)>,
    wanted: u64,
    pub(crate) planted: Planted,
}

impl Runtime {
    /// A node without writers.
    pub fn new(node: Node, initial: Version) -> Self {
        Self {
            node,
            initial,
            revision: 0,
            serial: 0,
            due: 0,
            heard: 0,
            declared: 0,
            writers: BTreeMap::new(),
            pins: BTreeMap::new(),
            pinning: None,
            announced: Proposal::initial(initial),
            newest_had: initial,
            unpinned: Vec::new(),
            yielded: None,
            ceiling: Ceiling::initial(initial),
            floor: initial,
            run_floor: initial,
            wants: BTreeMap::new(),
            wanted: 0,
            planted: Planted::default(),
        }
    }

    /// Sets the newest version that a former runtime of this machine told its programs to be complete, and the [run's
    /// floor](Self::run_floor) that it left. To be set before the first report.
    pub fn set_floor(&mut self, version: Version, run_floor: Version) {
        (self.floor, self.run_floor) = (version, run_floor);
    }

    /// The newest version that was complete before all runtimes of the job had ended and the present run began; the initial one where none
    /// was. It is known once a home was heard, and the next runtime of this machine has to have it.
    pub fn run_floor(&self) -> Version {
        self.run_floor
    }

    /// Whose it is.
    pub fn node(&self) -> Node {
        self.node
    }

    /// The home that it obeys.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The newest version that it knows to be complete.
    pub fn announced(&self) -> &Proposal {
        &self.announced
    }

    /// Whether it pins a version.
    pub fn has_pinned(&self, version: Version) -> bool {
        self.pins.contains_key(&version)
    }

    /// Whether a version of a writer can be had.
    pub fn has(&self, writer: Writer, version: Version) -> bool {
        self.writers.get(&writer).is_some_and(|told| told.record.published.present.contains(&version))
    }

    /// Its writers.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.writers.values().map(|told| &told.record)
    }

    /// What it knows of one of its writers.
    pub fn record(&self, writer: Writer) -> Option<&Record> {
        self.writers.get(&writer).map(|told| &told.record)
    }

    /// Which of its reports is newest: [`report`](Self::report) says the same as long as revision and serial do.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Which of its reports the home has to have. What is newer than that it need not know before the next: that a decision was heard,
    /// and what follows from that alone.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// There is something that the home has to know.
    fn tell(&mut self) {
        self.serial += 1;
        self.due = self.serial;
    }

    /// Its writers of whose stages a home has accepted some.
    pub fn accepted(&self) -> impl Iterator<Item = Writer> {
        self.writers.values().filter(|told| told.accepted > 0).map(|told| told.record.writer)
    }

    /// Lets a writer attach, repart or leave from a version on. Whether it counts, a decision will say.
    ///
    /// # Errors
    ///
    /// Where the node knows by itself that it cannot count.
    pub fn declare(&mut self, who: Who, stage: Stage) -> Result<(), Refusal> {
        let from = stage.from;
        let known = self.writers.get(&who.writer);
        if known.is_none() && !matches!(stage.role, Role::Member { .. }) {
            return Err(Refusal::Unknown);
        }
        let newest = known.and_then(|told| told.record.published.newest).unwrap_or(self.initial);
        if from <= newest {
            return Err(Refusal::Late { from, settled: newest });
        }
        match known.and_then(|told| told.record.stages.last()) {
            Some(last) if matches!(last.role, Role::Died { .. }) => return Err(Refusal::Unknown),
            Some(last) if last.from >= from => return Err(Refusal::Order { from, last: last.from }),
            _ => {}
        }
        self.tell();
        self.declared += 1;
        let told = self.writers.entry(who.writer).or_insert_with(|| Told {
            record: Record::new(who.writer, who.rank),
            numbers: Vec::new(),
            accepted: 0,
            is_restored: false,
        });
        told.record.stages.push(stage);
        told.numbers.push(self.declared);
        Ok(())
    }

    /// Takes note of a writer that a former runtime of this machine spoke for, and that a home accepted. The node is another one
    /// since then, and so is the writer's name.
    pub fn restore(&mut self, who: Who, stages: Vec<Stage>) {
        self.tell();
        let first = self.declared + 1;
        self.declared += stages.len() as u64;
        let (numbers, accepted) = ((first..=self.declared).collect(), stages.len());
        let record = Record { stages, ..Record::new(who.writer, who.rank) };
        self.writers.insert(who.writer, Told { record, numbers, accepted, is_restored: true });
    }

    /// A writer published a version.
    ///
    /// # Errors
    ///
    /// The number has to be above its newest, and it has to be a member of the version's roster.
    pub fn publish(&mut self, writer: Writer, version: Version) -> Result<(), Refusal> {
        let record = &mut self.writers.get_mut(&writer).ok_or(Refusal::Unknown)?.record;
        let newest = record.published.newest.unwrap_or(self.initial);
        if version <= newest || record.elements(version).is_none() {
            return Err(Refusal::NotNext { version, newest });
        }
        record.published.newest = Some(version);
        record.published.present.insert(version);
        self.tell();
        Ok(())
    }

    /// A version of a writer is gone, for its region's bounds. Those that are pinned do not go.
    pub fn drop(&mut self, writer: Writer, version: Version) {
        if let Some(told) = self.writers.get_mut(&writer)
            && told.record.published.present.remove(&version)
        {
            self.tell();
        }
    }

    /// A writer died. What it published stays; it is a member of no later version.
    pub fn die(&mut self, writer: Writer) {
        let Some(told) = self.writers.get_mut(&writer) else { return };
        let before = told.record.stages.clone();
        told.record.die();
        if told.record.stages != before {
            self.declared += 1;
            let kept = told.record.stages.len() - 1;
            told.numbers.truncate(kept);
            told.numbers.push(self.declared);
            told.accepted = told.accepted.min(kept);
            self.tell();
        }
    }

    /// Another writer has the place of one that left or died, from a version on; whether that is new.
    pub fn end(&mut self, writer: Writer, from: Version) -> bool {
        let Some(told) = self.writers.get_mut(&writer) else { return false };
        let is_new = told.end_at(from, self.declared + 1);
        if is_new {
            self.declared += 1;
            self.tell();
        }
        is_new
    }

    /// A reader waits for elements of a version.
    pub fn want(&mut self, reader: u64, version: Version, elements: impl Into<Elements>) {
        self.tell();
        self.wanted += 1;
        let number = self.wanted;
        self.wants.insert(reader, (Want { number, version, elements: elements.into() }, None));
    }

    /// A reader does not wait any more.
    pub fn unwant(&mut self, reader: u64) {
        if self.wants.remove(&reader).is_some() {
            self.tell();
        }
    }

    /// There is a new home. Former ones are not obeyed from now on.
    pub fn follow(&mut self, revision: Revision) {
        if revision > self.revision {
            (self.revision, self.heard) = (revision, 0);
            self.tell();
        }
    }

    /// The leases that [`Event::Pin`] asked for are held.
    pub fn hold(&mut self, version: Version) -> Option<Event> {
        match self.pinning.take_if(|proposal| proposal.version == version) {
            Some(proposal) => {
                self.tell();
                self.pins.insert(version, proposal);
                None
            }
            None => Some(Event::Unpin(version)),
        }
    }

    /// Gives up a pin for want of memory. The version is not pinned anew.
    pub fn give_up(&mut self, version: Version) -> Option<Event> {
        let proposal = self.pins.remove(&version)?;
        if !self.planted.has(Bug::SilentYield) {
            self.tell();
            if self.yielded.as_ref().is_none_or(|yielded| yielded.version < version) {
                self.yielded = Some(proposal);
            }
        }
        Some(Event::Unpin(version))
    }

    /// Takes what a home decided. Decisions of former homes, and older ones, are left alone.
    pub fn hear(&mut self, mut decision: Decision) -> Vec<Event> {
        let is_former = decision.revision < self.revision && !self.planted.has(Bug::NoFence);
        if decision.node != self.node || is_former {
            return Vec::new();
        }
        self.follow(decision.revision);
        if decision.serial <= self.heard && !self.planted.has(Bug::OldDecisions) {
            return Vec::new();
        }
        self.heard = decision.serial;
        self.serial += 1;
        self.share_nodes(&mut decision.announced.nodes);
        self.share_nodes(&mut decision.ceiling.nodes);
        if let Some((proposal, _)) = &mut decision.proposed {
            self.share_nodes(&mut proposal.nodes);
        }
        let mut events = Vec::new();
        // The home says of stages that they are refused until it hears that they are gone.
        let mut is_due = self.accept(&decision, &mut events);
        // What was pinned already counts once the home hears that this was heard.
        let proposed = decision.proposed.as_ref().filter(|(_, writers)| !writers.is_empty());
        let is_pinned = proposed.is_some_and(|(proposal, _)| self.pins.get(&proposal.version) == Some(proposal));
        is_due |= is_pinned && !self.planted.has(Bug::SilentPin);
        if !decision.announced.is_gone() {
            self.newest_had = decision.announced.version;
        }
        self.pin(&decision, &mut events);
        // The home announces nothing above the former one before all nodes have acknowledged this one.
        is_due |= decision.ceiling != self.ceiling && !self.planted.has(Bug::SilentPin);
        self.ceiling = decision.ceiling;
        self.run_floor = decision.run_floor;
        // What was announced as gone a machine that was late may have had.
        let is_back = decision.announced.version == self.announced.version
            && self.announced.is_gone()
            && !decision.announced.is_gone();
        if decision.announced.version > self.announced.version || is_back {
            self.announced = decision.announced.clone();
            self.unpinned.clear();
            events.push(Event::Complete(self.announced.version));
            is_due |= self.prune();
        }
        if is_due {
            self.due = self.serial;
        }
        if decision.announced.version == self.announced.version && decision.unpinned != self.unpinned {
            self.unpinned = decision.unpinned;
            events.push(Event::Unpinned { version: self.announced.version, nodes: self.unpinned.clone() });
        }
        // What was said of what a reader wanted before says nothing of what it wants now.
        let answers: BTreeMap<u64, Readiness> = decision.answers.into_iter().collect();
        for (reader, (want, known)) in &mut self.wants {
            if let Some(readiness) = answers.get(&want.number)
                && known.as_ref() != Some(readiness)
            {
                *known = Some(readiness.clone());
                events.push(Event::Answer { reader: *reader, readiness: readiness.clone() });
            }
        }
        events
    }

    /// Keeps equal sets of nodes once: a message that has the same twice names it once.
    fn share_nodes(&self, nodes: &mut Arc<BTreeSet<Node>>) {
        let known = self.pins.values().chain([&self.announced]).map(|known| &known.nodes);
        if let Some(known) = known.chain([&self.ceiling.nodes]).find(|known| *known == nodes) {
            *nodes = known.clone();
        }
    }

    /// Whether stages are gone.
    fn accept(&mut self, decision: &Decision, events: &mut Vec<Event>) -> bool {
        let before = events.len();
        for refused in &decision.refused {
            let Some(told) = self.writers.get_mut(&refused.writer) else { continue };
            let Some(position) = told.numbers.iter().position(|number| *number == refused.number) else { continue };
            told.numbers.remove(position);
            let stage = told.record.stages[position].clone();
            told.record.withdraw(stage.from);
            told.accepted -= usize::from(position < told.accepted);
            if told.record.stages.is_empty() {
                self.writers.remove(&refused.writer);
            }
            events.push(Event::Refused { writer: refused.writer, stage, refusal: refused.refusal.clone() });
        }
        for Ended { writer, from } in decision.ended.iter().copied() {
            if self.end(writer, from) {
                events.push(Event::Ended { writer, from });
            }
        }
        for told in self.writers.values_mut() {
            told.accepted = told.numbers.partition_point(|number| *number <= decision.declared);
        }
        events.len() > before
    }

    fn pin(&mut self, decision: &Decision, events: &mut Vec<Event>) {
        let proposed = decision.proposed.as_ref().map(|(proposal, _)| proposal.version);
        let announced = match proposed {
            Some(_) if self.planted.has(Bug::EarlyUnpin) => None,
            // Of a version that is gone nobody has anything: the one before is all that is left.
            _ => Some(self.newest_had),
        };
        let gone = |version: &Version| Some(*version) != proposed && Some(*version) != announced;
        events.extend(self.pins.keys().copied().filter(gone).map(Event::Unpin));
        self.pins.retain(|version, _| !gone(version));
        self.pinning.take_if(|proposal| gone(&proposal.version));
        let Some((proposal, writers)) = &decision.proposed else { return };
        let version = proposal.version;
        // One that was given up and is proposed once more may be of other nodes: what is pinned says whose it is.
        let is_asked = self.pins.get(&version) == Some(proposal) || self.pinning.as_ref() == Some(proposal);
        let is_given_up = self.yielded.as_ref().is_some_and(|yielded| yielded.version >= version);
        if writers.is_empty() || is_asked || is_given_up && !self.planted.has(Bug::PinAnew) {
            return;
        }
        let is_there = writers.iter().all(|writer| self.has(*writer, version));
        if is_there || self.planted.has(Bug::Unpublished) {
            self.pinning = Some(proposal.clone());
            events.push(Event::Pin { version, writers: writers.clone() });
        }
    }

    /// Forgets stages that were over before the oldest version that is needed, and writers that left before it; whether there were any.
    fn prune(&mut self) -> bool {
        let announced = self.announced.version;
        let stages = |writers: &BTreeMap<Writer, Told>| writers.values().map(|told| told.numbers.len()).sum::<usize>();
        let before = stages(&self.writers);
        self.writers.retain(|_, told| {
            let present = &told.record.published.present;
            let oldest = present.first().map_or(announced, |oldest| announced.min(*oldest));
            let over = told.record.stages.partition_point(|stage| stage.from <= oldest).saturating_sub(1);
            told.record.stages.drain(..over);
            told.numbers.drain(..over);
            told.accepted = told.accepted.saturating_sub(over);
            let is_needed = !present.is_empty() || told.record.stages.len() > 1;
            is_needed || told.record.stages.iter().any(|stage| stage.role != Role::Left || stage.from > oldest)
        });
        stages(&self.writers) != before
    }

    /// What to tell the home now. It is to be sent when another one is [due](Self::due), and again until the home has heard it.
    pub fn report(&self) -> Report {
        let mut wants: Vec<Want> = self.wants.values().map(|(want, _)| want.clone()).collect();
        wants.sort_unstable_by_key(|want| want.number);
        Report {
            node: self.node,
            revision: self.revision,
            serial: self.serial,
            heard: self.heard,
            declared: self.declared,
            writers: self.writers.values().cloned().collect(),
            pins: self.pins.values().cloned().collect(),
            announced: self.announced.clone(),
            yielded: self.yielded.clone(),
            ceiling: self.ceiling.clone(),
            floor: self.floor,
            run_floor: self.run_floor,
            wants,
        }
    }
}
