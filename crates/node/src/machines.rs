//! Which node each machine is, whatever numbers its runtimes had one after the other.

use std::collections::{BTreeMap, BTreeSet};
use stillframe_roster::writer::Node;

/// Which node each machine is.
#[derive(Debug, Default)]
pub(crate) struct Machines {
    /// What each was last, by its memory.
    last: BTreeMap<u64, Machine>,
    /// Numbers that machines had before, of which etcd has still to tell that they are lost.
    former: BTreeSet<Node>,
}

/// A machine, as the newest runtime there told of it.
#[derive(Debug)]
struct Machine {
    name: String,
    node: Node,
    /// Whether it was told that it is lost.
    is_lost: bool,
}

/// What became of the node that a machine was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Former {
    /// The runtime was started again, and goes on with the same memory.
    Replaced(Node),
    /// What it had in memory is gone, and nobody has said so yet.
    Lost(Node),
}

impl Machines {
    /// A machine has this number from now on, and this memory; the ones before, if it had others. What it is called may change; a name
    /// with another memory is that of a machine that lost its own.
    pub fn join(&mut self, name: &str, node: Node, memory: u64) -> Vec<Former> {
        // Where etcd lost its count, a number may be given once more: then it is no other machine's any more.
        self.former.remove(&node);
        self.last.retain(|of, last| *of == memory || last.node != node);
        let is_emptied = |(of, last): &(&u64, &Machine)| **of != memory && last.name == name;
        let emptied = self.last.iter().filter(is_emptied).filter(|(_, last)| !last.is_lost);
        let lost: Vec<Node> = emptied.map(|(_, last)| last.node).collect();
        self.last.retain(|of, last| !is_emptied(&(of, last)));
        self.former.extend(&lost);
        let mut before: Vec<Former> = lost.into_iter().map(Former::Lost).collect();
        let replaced = self.last.insert(memory, Machine { name: name.into(), node, is_lost: false });
        if let Some(replaced) = replaced.filter(|replaced| replaced.node != node) {
            if !replaced.is_lost {
                self.former.insert(replaced.node);
            }
            before.push(Former::Replaced(replaced.node));
        }
        before
    }

    /// etcd says that a number is lost; whether that is news, and not of a machine that has another one by now.
    pub fn lose(&mut self, node: Node) -> bool {
        self.last.values_mut().filter(|last| last.node == node).for_each(|last| last.is_lost = true);
        !self.former.remove(&node)
    }

    /// Whether a machine had this number before, and it is still to be told that it is lost.
    pub fn is_former(&self, node: Node) -> bool {
        self.former.contains(&node)
    }

    /// Whether this is the number of the machine with this memory, as far as it was told.
    pub fn is_last(&self, memory: u64, node: Node) -> bool {
        self.last.get(&memory).is_some_and(|last| last.node == node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_one_node_whatever_numbers_it_had() {
        let mut machines = Machines::default();
        let mut join = |name: &str, node, memory| machines.join(name, Node(node), memory);
        assert_eq!(join("a", 1, 7), []);
        assert_eq!(join("b", 2, 8), []);
        assert_eq!(join("a", 1, 7), [], "it is told twice");
        assert_eq!(join("a", 5, 7), [Former::Replaced(Node(1))]);
        assert_eq!(join("a", 7, 7), [Former::Replaced(Node(5))]);
        // Before etcd gives up what it lost, all are there.
        assert_eq!(machines.former, BTreeSet::from([Node(1), Node(5)]));
        assert_eq!(machines.join("c", Node(1), 9), [], "etcd has lost its count");
        assert_eq!(machines.former, BTreeSet::from([Node(5)]));
        assert_eq!(machines.join("d", Node(2), 10), [], "once more");
        assert_eq!(machines.join("b", Node(8), 8), [], "its number is another's, whose connection stays");
        assert!(!machines.lose(Node(5)), "its machine has another number");
        assert!(machines.lose(Node(7)));
        assert_eq!(machines.join("a", Node(9), 7), [Former::Replaced(Node(7))], "it was only apart");
    }

    #[test]
    fn a_machine_that_lost_its_memory_is_not_the_one_that_it_was() {
        let mut machines = Machines::default();
        assert_eq!(machines.join("a", Node(1), 7), []);
        assert_eq!(machines.join("a", Node(2), 7), [Former::Replaced(Node(1))]);
        // Before its lease ends; etcd tells of that later.
        assert_eq!(machines.join("a", Node(3), 8), [Former::Lost(Node(2))]);
        assert!(!machines.lose(Node(2)), "it was told");
        // And after.
        assert!(machines.lose(Node(3)));
        assert_eq!(machines.join("a", Node(4), 9), []);
        assert_eq!(machines.former, BTreeSet::from([Node(1)]));
    }

    #[test]
    fn a_machine_may_be_called_otherwise() {
        let mut machines = Machines::default();
        assert_eq!(machines.join("a", Node(1), 7), []);
        assert_eq!(machines.join("b", Node(2), 7), [Former::Replaced(Node(1))]);
        assert_eq!(machines.join("c", Node(3), 8), []);
        let both = [Former::Lost(Node(3)), Former::Replaced(Node(2))];
        assert_eq!(machines.join("c", Node(4), 7), both, "another one of that name lost its memory");
        assert!(machines.is_last(7, Node(4)) && !machines.is_last(8, Node(3)));
    }
}
