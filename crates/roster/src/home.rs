//! The state machine of an object's home.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ceiling::CeilingRound;
use drepl::{IndexSet, index_box::TooScattered};

use crate::{
    derived::Derived,
    ledger::Ledger,
    message::{Decision, Ended, Proposal, Refused, Report, Unpinned},
    planted::{Bug, Planted},
    readiness::Readiness,
    writer::{Elements, Node, Record, Revision, Version},
};

/// What the home knows of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Known {
    /// Its newest report.
    report: Arc<Report>,
    /// The newest decision for it.
    decision: Option<Decision>,
    /// Serial of the first decision with the present proposal.
    proposed: u64,
}

/// What the home of an object knows and decides. It is soft: a new home learns it from the runtimes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Home {
    revision: Revision,
    ledger: Ledger,
    nodes: BTreeMap<Node, Option<Known>>,
    is_leading: bool,
    is_fenced: bool,
    announced: Proposal,
    proposed: Option<Proposal>,
    /// Whether the roster of that was not fixed before: no former home may have announced it.
    has_fixed: bool,
    refused: BTreeMap<Node, Vec<Refused>>,
    /// Nodes that are to hold the announced version, and do not.
    unpinned: BTreeSet<Node>,
    /// Nodes that have still to pin the proposed version.
    pinning: BTreeSet<Node>,
    ceilings: CeilingRound,
    /// Former numbers of nodes whose runtimes were started again, and those that they have now.
    replaced: BTreeMap<Node, Node>,
    /// Nodes of machines that were lost, or that this home never knew, and are back with what they had.
    returned: BTreeSet<Node>,
    /// What was complete on each node before the present run of the job.
    floors: BTreeMap<Node, Version>,
    /// The version of a former run that is announced as gone, as long as nothing else is.
    former: Option<Version>,
    /// The first version that somebody of this run writes on each node, from before any of its versions was announced.
    begun: BTreeMap<Node, Version>,
    readers: Derived<Readers>,
}

/// Whose readers want elements that lie on which node. It follows from the reports.
#[derive(Debug, Clone, Default)]
struct Readers {
    /// What the ledger counted when it was made.
    changes: u64,
    /// By the node of the elements; also some that want them no more.
    of_writers: BTreeMap<Node, BTreeSet<Node>>,
}

impl Home {
    /// A home that begins its term. It decides nothing until all nodes have reported to it, or were lost.
    pub fn new(
        revision: Revision,
        shape: impl Into<Elements>,
        initial: Version,
        nodes: impl IntoIterator<Item = Node>,
    ) -> Self {
        Self {
            revision,
            ledger: Ledger::new(shape, initial),
            nodes: nodes.into_iter().map(|node| (node, None)).collect(),
            is_leading: false,
            is_fenced: false,
            announced: Proposal::initial(initial),
            proposed: None,
            has_fixed: false,
            refused: BTreeMap::new(),
            unpinned: BTreeSet::new(),
            pinning: BTreeSet::new(),
            ceilings: CeilingRound::new(initial),
            replaced: BTreeMap::new(),
            returned: BTreeSet::new(),
            floors: BTreeMap::new(),
            former: None,
            begun: BTreeMap::new(),
            readers: Derived::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn plant(&mut self, planted: Planted) {
        self.ledger.planted = planted;
    }

    fn planted(&self) -> Planted {
        self.ledger.planted
    }

    /// Its term.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether all nodes have reported, so that it decides.
    pub fn is_leading(&self) -> bool {
        self.is_leading && !self.is_fenced
    }

    /// Whether a report was for a later home: this one has lost its role, and decides nothing any more.
    pub fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// What it knows of the writers.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The newest complete version.
    pub fn announced(&self) -> &Proposal {
        &self.announced
    }

    /// Has each new ceiling lie this many versions above the newest one. So many may become complete while a node does not answer; and
    /// whoever takes the place of writers that were lost together with the home leaves out up to so many numbers. With zero, which
    /// is the default, all nodes are asked for each version.
    pub fn set_margin(&mut self, versions: u64) {
        self.ceilings.set_margin(versions);
    }

    /// The version that nodes are to pin.
    pub fn proposed(&self) -> Option<&Proposal> {
        self.proposed.as_ref()
    }

    /// A node was lost, with all that its writers published. Nodes with a new [decision](Self::decision) are returned.
    pub fn lose(&mut self, node: Node) -> BTreeSet<Node> {
        self.ledger.lose(node);
        let former = self.replaced.iter().filter(|(_, now)| **now == node).map(|(former, _)| *former);
        self.lead(former.chain([node]).collect())
    }

    /// Takes what a runtime reports. Older reports, and those for other homes, are left alone. Nodes with a
    /// new [decision](Self::decision) are returned.
    pub fn receive(&mut self, report: Report) -> BTreeSet<Node> {
        let node = report.node;
        if report.revision > self.revision {
            self.is_fenced = true;
        }
        let is_others = report.revision != self.revision;
        let is_heard = !is_others && !self.is_fenced && !self.ledger.is_lost(node);
        let Some(known) = self.nodes.get_mut(&node).filter(|_| is_heard) else { return BTreeSet::new() };
        let is_first = known.is_none();
        match known {
            Some(known) if known.report.serial >= report.serial && !self.ledger.planted.has(Bug::OldReports) => {
                return BTreeSet::new();
            }
            Some(known) => {
                if known.report.ceiling != report.ceiling {
                    self.ceilings.hear(node, &report.ceiling);
                }
                known.report = Arc::new(report);
            }
            None => *known = Some(Known { report: Arc::new(report), decision: None, proposed: 0 }),
        }
        let mut touched = BTreeSet::from([node]);
        if self.is_leading {
            let displaced = if is_first { self.exclude_returned(node) } else { Vec::new() };
            self.merge(node, false);
            if self.announce_floor() {
                touched.extend(self.nodes.keys());
            }
            self.name_heirs(displaced);
            // Its programs know by now.
            if self.refused.get(&node).is_none_or(Vec::is_empty) {
                self.returned.remove(&node);
            }
            touched.extend(self.settle_disputes());
            touched.extend(self.ledger.unheard());
        }
        self.lead(touched)
    }

    /// The newest report of a node, if it is one to this home.
    pub fn report(&self, node: Node) -> Option<&Report> {
        self.known(node).map(|known| &*known.report)
    }

    /// The newest decision for a node; nothing as long as not all nodes have reported.
    pub fn decision(&self, node: Node) -> Option<&Decision> {
        let known = self.nodes.get(&node)?.as_ref()?;
        known.decision.as_ref().filter(|_| self.is_leading())
    }

    fn known(&self, node: Node) -> Option<&Known> {
        self.nodes.get(&node)?.as_ref().filter(|_| !self.ledger.is_lost(node))
    }

    fn reports(&self) -> impl Iterator<Item = &Report> {
        self.nodes.values().flatten().map(|known| &*known.report).filter(|report| !self.ledger.is_lost(report.node))
    }

    /// Decides, after nodes were lost or have reported. Nodes with a new decision are returned.
    fn lead(&mut self, touched: BTreeSet<Node>) -> BTreeSet<Node> {
        let is_known = |(node, known): (&Node, &Option<Known>)| known.is_some() || self.ledger.is_lost(*node);
        let is_hasty = self.planted().has(Bug::HastyHome);
        if self.is_fenced || !self.is_leading && !is_hasty && !self.nodes.iter().all(is_known) {
            return BTreeSet::new();
        }
        let mut is_new = !self.is_leading;
        if is_new {
            self.is_leading = true;
            self.take_over();
            self.look_at_pins();
            self.note_ceilings(&self.nodes.keys().copied().collect());
        }
        self.note_ceilings(&touched);
        is_new |= self.note_pins(&touched);
        is_new |= self.advance(&touched);
        is_new |= self.set_ceiling(&touched);
        self.refresh(touched, is_new)
    }

    /// Learns from the reports what former homes accepted, and may have announced.
    fn take_over(&mut self) {
        let nodes: Vec<Node> = self.nodes.keys().copied().collect();
        if !self.planted().has(Bug::ForgetfulHome) {
            let pins = |report: &Report, version| report.pins.iter().any(|pin| pin.version == version);
            let holds = |node: &Node, version| self.known(*node).is_some_and(|known| pins(&known.report, version));
            let is_held = |pin: &&Proposal| pin.nodes.iter().all(|node| holds(node, pin.version));
            let held = self.reports().flat_map(|report| report.pins.iter().filter(is_held));
            // What was announced as gone a machine that was late may have had.
            let order = |one: &&Proposal| (one.version, !one.is_gone(), one.epoch);
            let announced = self.reports().map(|report| &report.announced).chain(held).max_by_key(order).cloned();

            // A node that holds it no more may have held it; of one that is lost nobody knows.
            let held_once = |node: &Node, version| match self.known(*node) {
                Some(known) => {
                    let let_go = known.report.yielded.iter().chain([&known.report.announced]);
                    pins(&known.report, version) || let_go.into_iter().any(|newest| newest.version >= version)
                }
                None => true,
            };
            let known = self.reports().flat_map(|report| report.pins.iter().chain(&report.yielded));
            let settled = known.filter(|pin| pin.nodes.iter().all(|node| held_once(node, pin.version)));
            let mut settled: BTreeMap<Version, Version> = settled.map(|pin| (pin.version, pin.epoch)).collect();

            self.announced = announced.unwrap_or_else(|| self.announced.clone());
            if let Some(version) = self.take_over_ceiling() {
                self.announced = Proposal::gone(version);
            }
            settled.insert(self.announced.version, self.announced.epoch);
            settled.into_iter().for_each(|(version, epoch)| _ = self.ledger.settle(version, epoch));
            self.ledger.taken_over = Some(self.announced.clone());
        }
        let reports: Vec<Arc<Report>> = self.nodes.values().flatten().map(|known| known.report.clone()).collect();
        let proposals = self.reported_proposals();
        let displaced = reports.iter().flat_map(|report| self.exclude_absent(report, &proposals)).collect();
        for node in &nodes {
            self.merge(*node, true);
        }
        // Whoever wants a place may have a lower number than who has a version whole with the writer that had it.
        nodes.iter().for_each(|node| self.note_accepted(*node));
        // All of them, before anything that is new is compared with what nodes remember.
        reports.iter().for_each(|report| self.note_floor(report));
        for node in nodes {
            self.forget_published(node);
            self.merge(node, false);
        }
        self.announce_floor();
        // All that was published has to be known by now: it says who was in a version.
        self.settle_disputes();
        self.name_heirs(displaced);
    }

    /// Announces what is pinned everywhere, gives up what cannot be, and proposes the newest version that is whole; whether it did
    /// any of these.
    fn advance(&mut self, touched: &BTreeSet<Node>) -> bool {
        let mut is_new = false;
        if let Some(proposal) = self.proposed.take() {
            if self.is_pinned() && self.is_below_ceiling(&proposal) {
                self.announced = proposal;
                // From here on the run goes by its own numbers.
                self.former = None;
                let version = self.announced.version;
                self.ledger.gone.take_if(|gone| *gone == version);
            } else if self.can_be_pinned(&proposal, touched) {
                self.proposed = Some(proposal);
                return false;
            } else {
                self.proposed = Some(proposal);
                self.give_up_proposal();
            }
            is_new = true;
        }
        // Where the fragments lie too scattered to be told apart nothing is complete.
        if let Ok(Some(version)) = self.newest_to_propose()
            && !self.is_retiring()
        {
            let roster = self.ledger.roster(version);
            let (epoch, nodes) = (roster.epoch, roster.nodes());
            // Mostly they are the same, and need not be there twice, nor be told twice.
            let nodes = if nodes == *self.announced.nodes { self.announced.nodes.clone() } else { Arc::new(nodes) };
            self.has_fixed = self.ledger.settle(version, epoch);
            self.proposed = Some(Proposal { version, epoch, nodes });
            is_new = true;
        }
        if is_new {
            self.look_at_pins();
        }
        is_new
    }

    /// Gives up what is proposed: its roster may change again, unless it was fixed before.
    fn give_up_proposal(&mut self) {
        if let Some(proposal) = self.proposed.take_if(|_| self.has_fixed) {
            self.ledger.unsettle(proposal.version);
        }
        self.proposed = None;
    }

    fn newest_to_propose(&self) -> Result<Option<Version>, TooScattered> {
        let announced = self.announced.version;
        let newest = self.ledger.newest_whole(announced)?;
        if newest.is_none() {
            return self.whole_former();
        }
        if self.planted().has(Bug::PinAnew) {
            return Ok(newest);
        }
        let yielded = self.reports().filter_map(|report| report.yielded.as_ref()).map(|one| one.version).max();
        match yielded.filter(|yielded| *yielded > announced) {
            Some(yielded) => self.ledger.newest_whole(yielded),
            None => Ok(newest),
        }
    }

    fn is_pinned(&self) -> bool {
        self.planted().has(Bug::Unpinned) || self.pinning.is_empty()
    }

    /// Whether nothing is in the way of a proposal. Nobody had given it up when it was made.
    fn can_be_pinned(&self, proposal: &Proposal, touched: &BTreeSet<Node>) -> bool {
        let is_given_up = |node: &Node| {
            let yielded = self.known(*node).and_then(|known| known.report.yielded.as_ref());
            yielded.is_some_and(|yielded| yielded.version >= proposal.version) && !self.planted().has(Bug::PinAnew)
        };
        let mut touched = touched.iter().filter(|node| proposal.nodes.contains(node));
        self.ledger.is_whole(proposal.version).unwrap_or(false) && !touched.any(is_given_up)
    }

    /// Notes which nodes do not hold the announced version, and which have still to pin the proposed one.
    fn look_at_pins(&mut self) {
        let announced = &self.announced;
        let unpinned = announced.nodes.iter().copied().filter(|node| !self.holds(*node, announced.version)).collect();
        let pinning = self.proposed.iter().flat_map(|one| one.nodes.iter().map(move |node| (*node, one)));
        let pinning =
            pinning.filter(|(node, proposal)| !self.has_pinned(*node, proposal)).map(|(node, _)| node).collect();
        (self.unpinned, self.pinning) = (unpinned, pinning);
    }

    /// The same of a few nodes; whether others than before do not hold the announced version, or one of those was lost.
    fn note_pins(&mut self, touched: &BTreeSet<Node>) -> bool {
        let mut is_new = false;
        for node in touched {
            let is_unpinned = self.announced.nodes.contains(node) && !self.holds(*node, self.announced.version);
            let was_unpinned = if is_unpinned { !self.unpinned.insert(*node) } else { self.unpinned.remove(node) };
            is_new |= is_unpinned != was_unpinned || is_unpinned && self.is_lost(*node);
            let Some(proposal) = self.proposed.as_ref().filter(|proposal| proposal.nodes.contains(node)) else {
                continue;
            };
            match self.has_pinned(*node, proposal) {
                true => self.pinning.remove(node),
                false => self.pinning.insert(*node),
            };
        }
        is_new
    }

    fn holds(&self, node: Node, version: Version) -> bool {
        self.known(node).is_some_and(|known| known.report.pins.iter().any(|pin| pin.version == version))
    }

    /// Whether a node has pinned what is proposed: not what was proposed by its number before.
    fn has_pinned(&self, node: Node, proposal: &Proposal) -> bool {
        // What it pinned before it heard the proposal it may have let go of since.
        let has = |known: &Known| known.report.heard >= known.proposed && known.report.pins.contains(proposal);
        self.known(node).is_some_and(has)
    }

    /// Makes new decisions for the nodes for which they are others than before, and returns these. All may need one, or only those of
    /// which something was heard, and whose readers want something of them.
    fn refresh(&mut self, touched: BTreeSet<Node>, is_all: bool) -> BTreeSet<Node> {
        let mut refreshed = BTreeSet::new();
        let reading = self.reading(&touched);
        let nodes: BTreeSet<Node> = match is_all {
            true => self.reports().map(|report| report.node).collect(),
            false => touched.into_iter().chain(reading).collect(),
        };
        let unpinned = self.unpinned.iter().map(|node| Unpinned { node: *node, is_lost: self.is_lost(*node) });
        let unpinned: Vec<Unpinned> = unpinned.collect();
        for node in nodes {
            let Some(made) = self.decide(node, &unpinned) else { continue };
            let Some(known) = self.nodes.get_mut(&node).and_then(Option::as_mut) else { continue };
            let before = known.decision.as_ref();
            let serial = before.map_or(0, |before| before.serial);
            if before.is_none_or(|before| *before != Decision { serial, ..made.clone() }) {
                let proposal = |decision: &Decision| decision.proposed.as_ref().map(|(proposal, _)| proposal.version);
                if before.and_then(proposal) != proposal(&made) {
                    known.proposed = serial + 1;
                    // Whatever it pinned, it has not heard of this.
                    if self.proposed.as_ref().is_some_and(|proposal| proposal.nodes.contains(&node)) {
                        self.pinning.insert(node);
                    }
                }
                known.decision = Some(Decision { serial: serial + 1, ..made });
                refreshed.insert(node);
            }
        }
        refreshed
    }

    /// Nodes whose readers may be told something else, after something was heard of others.
    fn reading(&mut self, touched: &BTreeSet<Node>) -> BTreeSet<Node> {
        let changes = self.ledger.changes();
        if std::mem::replace(&mut self.readers.changes, changes) != changes {
            self.readers.of_writers.clear();
            let reports = self.reports().filter(|report| !report.wants.is_empty());
            let reading: BTreeSet<Node> = reports.map(|report| report.node).collect();
            reading.iter().for_each(|node| self.note_reader(*node));
            return reading;
        }
        touched.iter().for_each(|node| self.note_reader(*node));
        touched.iter().filter_map(|node| self.readers.of_writers.get(node)).flatten().copied().collect()
    }

    /// Notes on which nodes the elements lie that a node's readers want.
    fn note_reader(&mut self, node: Node) {
        let Some(known) = self.nodes.get(&node).and_then(Option::as_ref) else { return };
        let wants = known.report.wants.iter();
        let near: BTreeSet<Node> =
            wants.flat_map(|want| self.ledger.near(&want.elements)).map(|record| record.writer.node).collect();
        for of in near {
            self.readers.of_writers.entry(of).or_default().insert(node);
        }
    }

    fn decide(&self, node: Node, unpinned: &[Unpinned]) -> Option<Decision> {
        let report = &self.known(node)?.report;
        let members = |proposal: &Proposal| {
            let is_member = |record: &&Record| record.elements(proposal.version).is_some();
            let own = self.ledger.records_of(node).filter(is_member).map(|record| record.writer);
            (proposal.clone(), own.collect())
        };
        let answer = |elements: &IndexSet, version| match self.ledger.readiness(version, elements) {
            Ok(readiness) => readiness,
            Err(_) => Readiness::Waiting(Vec::new()),
        };
        Some(Decision {
            node,
            revision: self.revision,
            serial: 0,
            declared: report.declared,
            announced: self.announced.clone(),
            ceiling: self.ceilings.ceiling().clone(),
            run_floor: self.floors.get(&node).copied().unwrap_or(report.run_floor),
            unpinned: unpinned.to_vec(),
            // Others have nothing of it to pin.
            proposed: self.proposed.as_ref().filter(|proposal| proposal.nodes.contains(&node)).map(members),
            refused: self.refused.get(&node).cloned().unwrap_or_default(),
            ended: self.ledger.ended_of(node).map(|(writer, from)| Ended { writer, from }).collect(),
            answers: report.wants.iter().map(|want| (want.number, answer(&want.elements, want.version))).collect(),
        })
    }
}

#[path = "absence.rs"]
mod absence;
#[path = "ceiling.rs"]
mod ceiling;
#[path = "merging.rs"]
mod merging;
#[cfg(test)]
#[path = "recount.rs"]
mod recount;
#[path = "restarts.rs"]
mod restarts;
#[path = "runs.rs"]
mod runs;
