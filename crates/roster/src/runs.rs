//! Former runs of a job, whose versions nodes remember.
//!
//! Where all runtimes of a job end and are started again, what was complete before is so still for the programs of the nodes that remember
//! it. Where a machine is new, a part of it is lost, as with a node: so a home announces the highest [floor](crate::message::Report::floor)
//! of its nodes as a version that is gone, and nobody begins with its number. A machine that is only late may have that part: then
//! the version is proposed as any other.
//!
//! Where the run has begun below the floor by then, its programs go on, and numbers are given twice: the machine that remembers was not there.

use drepl::index_box::TooScattered;

use super::Home;
use crate::{
    message::{Proposal, Report},
    writer::{Node, Record, Role, Version},
};

impl Home {
    /// Notes what a node had complete before the present run of the job. Which run that was, a home learns from the node's first report alone:
    /// what was announced since then is of this run.
    pub(super) fn note_floor(&mut self, report: &Report) {
        let is_unknown = || report.floor > self.announced.version || self.is_former_announced();
        let floor = match self.floors.get(&report.node) {
            Some(floor) => *floor,
            // Its machine may have heard of a version that the others did not.
            None if is_unknown() && !self.is_of_this_run(report.node) => report.floor,
            None => report.run_floor,
        };
        self.floors.insert(report.node, floor);
        self.ledger.note_floor(&report.writers, floor);
    }

    /// Whether no version of this run is known to be complete, and what is announced as gone can only be of a former one.
    fn is_former_announced(&self) -> bool {
        self.former.is_some() || self.announced.is_gone() && self.reported_proposals().iter().all(Proposal::is_gone)
    }

    /// Whether a machine has had a part in what was proposed in this run, under this number or a former one.
    fn is_of_this_run(&self, node: Node) -> bool {
        let numbers = self.numbers_of(node);
        let names = |proposal: &Proposal| numbers.iter().any(|number| proposal.nodes.contains(number));
        self.reported_proposals().iter().any(names)
    }

    /// Notes with which versions a node's writers of this run begin: it goes on also while their runtime is started again, and nobody tells of
    /// them.
    pub(super) fn note_begun(&mut self, node: Node) {
        if self.announced.is_gone() {
            match self.ledger.records_of(node).filter_map(|record| self.first_of_run(record)).min() {
                Some(begun) => _ = self.begun.insert(node, begun),
                None => _ = self.begun.remove(&node),
            }
        }
    }

    /// The first version of which a writer has elements, if it is of this run.
    fn first_of_run(&self, record: &Record) -> Option<Version> {
        let mut members = record.stages.iter().filter(|stage| matches!(stage.role, Role::Member { .. }));
        let first = members.next().filter(|_| !self.ledger.floors.contains_key(&record.writer));
        first.map(|stage| stage.from)
    }

    /// Reserves the numbers of former runs, where no version of this run was announced, and none of them can be: fragments that are declared
    /// only now are refused below. The floors of all nodes that have reported are noted, and which fragments were accepted.
    pub(super) fn reserve_floor(&mut self) {
        let (initial, announced) = (self.ledger.initial(), self.announced.version);
        if announced > initial && !self.announced.is_gone() {
            return;
        }
        let highest = self.floors.iter().filter(|(node, _)| !self.is_lost(**node)).map(|(_, floor)| *floor).max();
        let Some(floor) = highest.filter(|floor| *floor > initial && *floor >= announced) else { return };
        if floor == announced {
            if self.is_former_announced() {
                (self.former, self.ledger.gone) = (Some(floor), Some(floor));
            }
            return;
        }
        self.ledger.reserved = (!self.has_begun(floor)).then_some(floor);
    }

    /// Whether somebody of this run has begun at or below a version.
    fn has_begun(&self, version: Version) -> bool {
        let silent = self.begun.iter().filter(|(node, _)| !self.is_lost(**node)).map(|(_, begun)| *begun);
        let mut begun = self.ledger.records().filter_map(|record| self.first_of_run(record)).chain(silent);
        begun.any(|begun| begun <= version)
    }

    /// Announces the version whose number is reserved as gone, unless all of it is there; whether it did. What the nodes reported is merged.
    pub(super) fn announce_floor(&mut self) -> bool {
        let Some(floor) = self.ledger.reserved.take() else { return false };
        if self.is_retiring() || self.ledger.is_whole(floor).unwrap_or(false) {
            return false;
        }
        self.give_up_proposal();
        self.announced = Proposal::gone(floor);
        self.ledger.settle(floor, floor);
        (self.former, self.ledger.gone) = (Some(floor), Some(floor));
        true
    }

    /// The version of a former run that was announced as gone, if a machine that was late has the rest of it.
    pub(super) fn whole_former(&self) -> Result<Option<Version>, TooScattered> {
        let Some(former) = self.former else { return Ok(None) };
        let is_given_up = |report: &Report| report.yielded.as_ref().is_some_and(|yielded| yielded.version >= former);
        Ok((self.ledger.is_whole(former)? && !self.reports().any(is_given_up)).then_some(former))
    }
}
