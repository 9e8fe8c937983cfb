//! Whether wanted elements of a version can be had, and if not, because of whom.

use std::fmt;

use drepl::{IndexSet, index_box::TooScattered};

use crate::{
    ledger::Ledger,
    planted::Bug,
    roster::{Closure, Member},
    writer::{Elements, Role, Version, Who},
};

/// Some of the wanted elements, and who writes them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Share {
    /// The writer; `None`: nobody.
    pub who: Option<Who>,
    /// Those of its elements that are wanted.
    pub elements: Elements,
}

/// Why elements of a version cannot be had, now or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Their writer died before it published the version.
    Died,
    /// The node of their writer was lost.
    NodeLost,
    /// Their writer published the version and let go of it, or went past it.
    Gone,
    /// The roster is closed by its number of writers, and none of them writes these.
    Unwritten,
}

/// Elements that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Loss {
    /// Whose, and which.
    pub share: Share,
    /// Why.
    pub cause: Cause,
}

/// What a reader that wants elements of a version is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Readiness {
    /// All can be had, from these. Without any: all are zero, for it is the initial version.
    Ready(Vec<Share>),
    /// These are still to be published. Those of nobody wait for somebody to attach.
    Waiting(Vec<Share>),
    /// These cannot be had. The others may be.
    Lost(Vec<Loss>),
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.who {
            Some(who) => write!(f, "{} of {who}", self.elements),
            None => write!(f, "{} of no writer", self.elements),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            Cause::Died => "it died before it published them",
            Cause::NodeLost => "its node was lost",
            Cause::Gone => "it has let go of the version, or left it out",
            Cause::Unwritten => "all writers have attached",
        };
        write!(f, "{}: {cause}", self.share)
    }
}

impl Ledger {
    /// Whether elements of a version can be had. Members outside of them do not matter, nor whether the version is complete.
    pub fn readiness(&self, version: Version, wanted: &IndexSet) -> Result<Readiness, TooScattered> {
        if version == self.initial() {
            return Ok(Readiness::Ready(Vec::new()));
        }
        let (mut ready, mut waiting, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = wanted.intersection(self.shape())?;
        let near = self.near(wanted);
        let is_of_two_runs = self.is_of_two_runs(version);
        for member in near.iter().filter_map(|record| Member::of(record, version)) {
            let elements = member.elements.intersection(wanted)?;
            if elements.is_empty() {
                continue;
            }
            rest = rest.difference(&elements)?;
            let share = Share { who: Some(member.record.who()), elements: elements.into() };
            if is_of_two_runs {
                lost.push(Loss { share, cause: Cause::Gone });
            } else if self.is_disputed(member.record.writer, version) {
                waiting.push(share);
            } else if member.has(version)
                || self.planted.has(Bug::StaleElements) && member.record.published.newest.is_some()
            {
                ready.push(share);
            } else if self.is_lost(member.record.writer.node) {
                lost.push(Loss { share, cause: Cause::NodeLost });
            } else if member.record.has_reached(version) {
                lost.push(Loss { share, cause: Cause::Gone });
            } else {
                waiting.push(share);
            }
        }
        for record in near {
            let Some(stage) = record.stage(version) else { continue };
            let Role::Died { elements } = &stage.role else { continue };
            let elements = elements.intersection(&rest)?;
            if !elements.is_empty() {
                rest = rest.difference(&elements)?;
                let cause = if self.is_lost(record.writer.node) { Cause::NodeLost } else { Cause::Died };
                lost.push(Loss { share: Share { who: Some(record.who()), elements: elements.into() }, cause });
            }
        }
        if !rest.is_empty() {
            let share = Share { who: None, elements: rest.into() };
            // Nobody attaches to a version of a former run: who had these is gone.
            let is_gone = self.gone.is_some_and(|gone| version <= gone);
            match self.closure(version)? {
                Closure::Closed => lost.push(Loss { share, cause: Cause::Unwritten }),
                _ if is_gone => lost.push(Loss { share, cause: Cause::NodeLost }),
                _ => waiting.push(share),
            }
        }
        Ok(match (lost.is_empty(), waiting.is_empty()) {
            (false, _) => Readiness::Lost(lost),
            (true, false) => Readiness::Waiting(waiting),
            (true, true) => Readiness::Ready(ready),
        })
    }
}
