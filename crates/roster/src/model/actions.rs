//! What may happen next, and the network that parts.

use std::collections::BTreeSet;

use super::world::{Setup, World};
use crate::{
    planted::Bug,
    writer::{Node, Version, Writer},
};

/// What can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Step {
        writer: usize,
    },
    Report {
        home: usize,
        node: usize,
        kept: usize,
    },
    Decision {
        home: usize,
        node: usize,
        kept: usize,
    },
    ChangeHome,
    Follow {
        node: usize,
    },
    KillNode {
        node: usize,
    },
    LoseNode {
        home: usize,
        node: usize,
    },
    KillWriter {
        writer: usize,
    },
    Yield {
        node: usize,
        version: Version,
    },
    Drop {
        writer: usize,
        version: Version,
    },
    /// The newest home is about to leave in order.
    Retire,
    /// Nothing goes between a node and any home from here on.
    Cut {
        node: usize,
    },
}

impl World {
    pub fn actions(&self, setup: &Setup) -> Vec<Action> {
        let mut actions = Vec::new();
        for (writer, script) in setup.writers.iter().enumerate() {
            let Some(runtime) = self.runtimes[script.node].as_ref().filter(|_| !self.dead.contains(&writer)) else {
                continue;
            };
            if self.can_step(setup, writer) && !self.seen.refused.contains(&writer) {
                actions.push(Action::Step { writer });
            }
            let record = runtime.record(self.writer(setup, writer));
            if self.writer_deaths > 0 && record.is_some() && setup.is_mortal(writer) {
                actions.push(Action::KillWriter { writer });
            }
            if self.drops > 0
                && let Some(record) = record
            {
                let droppable = record.published.present.iter().rev().skip(1);
                let droppable = droppable.filter(|version| !runtime.has_pinned(**version));
                actions.extend(droppable.map(|version| Action::Drop { writer, version: *version }));
            }
        }
        for (node, runtime) in self.runtimes.iter().enumerate() {
            for home in 0..self.homes.len() {
                let is_apart = !self.reaches(setup, node, home);
                let kept = |messages: usize| 0..if is_apart { 0 } else { messages };
                actions.extend(kept(self.reports[home][node].len()).map(|kept| Action::Report { home, node, kept }));
                // Who keeps the names is not cut off.
                let is_told = !(setup.homes_on_nodes && self.apart.contains(&home));
                let may_be_lost = is_told && (runtime.is_none() || is_apart);
                if may_be_lost && !self.homes[home].ledger().is_lost(Node(node as u32)) {
                    actions.push(Action::LoseNode { home, node });
                }
            }
            let Some(runtime) = runtime else { continue };
            for home in (0..self.homes.len()).filter(|home| self.reaches(setup, node, *home)) {
                actions.extend((0..self.decisions[home][node].len()).map(|kept| Action::Decision { home, node, kept }));
            }
            let newest = self.homes.len();
            if (runtime.revision() as usize) < newest && !self.apart.contains(&node) {
                actions.push(Action::Follow { node });
            }
            if self.cuts > 0 {
                actions.push(Action::Cut { node });
            }
            if self.node_deaths > 0 {
                actions.push(Action::KillNode { node });
            }
            if self.yields > 0 {
                let pins = runtime.report().pins.into_iter();
                actions.extend(pins.map(|pin| Action::Yield { node, version: pin.version }));
            }
        }
        if self.retires > 0 {
            actions.push(Action::Retire);
        }
        let may_change = !setup.homes_on_nodes || self.apart.contains(&(self.homes.len() - 1));
        if self.homes.len() <= usize::from(setup.home_changes) && may_change {
            actions.push(Action::ChangeHome);
        }
        actions
    }

    /// What programs of a node find complete of what all its writers have, if these are all: up to what they were told of.
    pub fn find_alone(&self, setup: &Setup, node: usize) -> Option<Version> {
        let runtime = self.runtimes[node].as_ref()?;
        let is_alone = setup.bug == Some(Bug::LoneBoards);
        let most = if is_alone { Version::MAX } else { runtime.announced().version };
        let mut ledger = crate::ledger::Ledger::new(super::world::range(0, setup.extent), super::world::INITIAL);
        // Who is not accepted yet has no part in what others are told of.
        let accepted: BTreeSet<Writer> = runtime.accepted().collect();
        for record in runtime.records().filter(|record| is_alone || accepted.contains(&record.writer)) {
            ledger.restore(record.who(), record.stages.clone());
            ledger.note(record.writer, record.published.clone());
        }
        ledger.newest_whole_within(super::world::INITIAL, most).unwrap()
    }
}
