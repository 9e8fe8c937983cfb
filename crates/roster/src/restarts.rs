//! Machines whose runtime was started again, as another node: what they had is neither lost nor reported by its former name.

use std::collections::{BTreeSet, btree_map::Entry};

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

    /// A node has joined.
    pub fn admit(&mut self, node: Node) {
        let numbers = self.numbers_of(node);
        let is_back = numbers.len() > 1 && !numbers.iter().any(|number| self.is_there(*number));
        self.enter(node, is_back);
    }

    /// Waits for the first report of a node, if it is new: perhaps of a machine that this home took for lost, or never knew, and that is back
    /// with what it had.
    fn enter(&mut self, node: Node, is_back: bool) {
        if self.ledger.is_lost(node) {
            return;
        }
        if self.is_leading && is_back {
            self.returned.insert(node);
        }
        let Entry::Vacant(vacant) = self.nodes.entry(node) else { return };
        vacant.insert(None);
        if self.is_leading {
            self.ceilings.excuse(node);
        }
    }

    /// Whether this home knows a node of this number, which was not lost.
    fn is_there(&self, number: Node) -> bool {
        self.nodes.contains_key(&number) && !self.ledger.is_lost(number)
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
        // It may be started once more before its programs were told that others have their places.
        let is_back = self.returned.remove(&former) || !self.is_there(former);
        let own: Vec<Writer> = self.ledger.records_of(former).map(|record| record.writer).collect();
        own.into_iter().for_each(|writer| self.ledger.forget(writer));
        self.nodes.remove(&former);
        // The run goes on, and what was complete before it.
        if let Some(floor) = self.floors.remove(&former) {
            self.floors.insert(node, floor);
        }
        if let Some(begun) = self.begun.remove(&former) {
            self.begun.insert(node, begun);
        }
        self.refused.remove(&former);
        self.ceilings.forget(former);
        // A ceiling that is heard of only now may name any of its numbers.
        self.replaced.values_mut().filter(|now| **now == former).for_each(|now| *now = node);
        self.replaced.insert(former, node);
        self.enter(node, is_back);
        self.lead(BTreeSet::from([former, node]))
    }
}
