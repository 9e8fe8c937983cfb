//! Machines whose runtime was started again, as another node: what they had is neither lost nor reported by its former name.

use std::collections::BTreeSet;

use super::Home;
use crate::writer::{Node, Writer};

impl Home {
    /// Sets the former numbers of runtimes that were started again, each with the one that it has now: what former homes said of these is
    /// not lost with them. To be set before any node has reported.
    pub fn set_replaced(&mut self, former: impl IntoIterator<Item = (Node, Node)>) {
        self.replaced = former.into_iter().collect();
    }

    /// Learns the former numbers of runtimes that were started again, each with the one that it has now, also of machines that were lost
    /// before this home began.
    pub fn learn_replaced(&mut self, former: impl IntoIterator<Item = (Node, Node)>) {
        self.replaced.extend(former);
    }

    /// All numbers that a node's machine had, and its present one.
    pub(super) fn numbers_of(&self, node: Node) -> Vec<Node> {
        let former = self.replaced.iter().filter(|(_, now)| **now == node).map(|(former, _)| *former);
        former.chain([node]).collect()
    }

    /// Whether nobody has any more what a node of this number had.
    pub(super) fn is_gone(&self, node: Node) -> bool {
        let lives = |node: &Node| self.known(*node).is_some();
        !lives(&node) && !self.replaced.get(&node).is_some_and(lives)
    }

    /// Whether what a node of this number had was lost, under this number or the one that its machine had last.
    pub(super) fn is_lost(&self, node: Node) -> bool {
        let last = self.replaced.get(&node).unwrap_or(&node);
        self.ledger.is_lost(node) || self.ledger.is_lost(*last)
    }

    /// The runtime of a machine was started again: as another node, which will report the same writers by other names. Until
    /// this both write the same, and what the new one reports is refused. Nodes with a new decision are returned.
    pub fn replace(&mut self, former: Node, node: Node) -> BTreeSet<Node> {
        self.carry_ended(former, node);
        let is_there = self.nodes.contains_key(&former) && !self.ledger.is_lost(former);
        if self.is_leading && !is_there {
            self.returned.insert(node);
        }
        let own: Vec<Writer> = self.ledger.records_of(former).map(|record| record.writer).collect();
        own.into_iter().for_each(|writer| self.ledger.forget(writer));
        self.nodes.remove(&former);
        // The run goes on, and what was complete before it.
        if let Some(floor) = self.floors.remove(&former) {
            self.floors.insert(node, floor);
        }
        if let Some(floor) = self.ledger.reserved.remove(&former) {
            self.ledger.reserved.insert(node, floor);
        }
        self.refused.remove(&former);
        self.ceilings.forget(former);
        // A ceiling that is heard of only now may name any of its numbers.
        self.replaced.values_mut().filter(|now| **now == former).for_each(|now| *now = node);
        self.replaced.insert(former, node);
        if !self.ledger.is_lost(node) && !self.nodes.contains_key(&node) {
            self.enter(node);
        }
        self.lead(BTreeSet::from([former, node]))
    }
}
