//! Which node is to be the home of a shard.
//!
//! Each shard prefers one of the nodes, all of which agree on it as long as they know of the same nodes. A node that comes or goes changes
//! that of no shard but those that prefer it (rendezvous hashing). That nobody claims a shard but who is preferred is no rule that anything
//! relies on: terms say who is a home.

use std::collections::BTreeSet;
use stillframe_etcd::{SHARDS, Shard};
use stillframe_roster::writer::Node;

/// The node of these that a shard prefers.
pub(crate) fn preferred(shard: Shard, nodes: &[Node]) -> Option<Node> {
    nodes.iter().copied().max_by_key(|node| (weight(shard, *node), *node))
}

/// Those shards that prefer a node.
pub(crate) fn preferring(node: Node, shards: &[Shard], nodes: &[Node]) -> Vec<Shard> {
    shards.iter().copied().filter(|shard| preferred(*shard, nodes) == Some(node)).collect()
}

/// Those of the shards that a node holds which it gives up: they prefer another node that it reaches, and there is no object of them. What
/// has objects stays, as each of their writers would have to report anew.
pub(crate) fn to_give_up(
    own: Node,
    held: &[Shard],
    nodes: &[Node],
    in_use: &BTreeSet<Shard>,
    is_reached: impl Fn(Node) -> bool,
) -> Vec<Shard> {
    let goes = |shard: &Shard| {
        let other = preferred(*shard, nodes).filter(|node| *node != own);
        !in_use.contains(shard) && other.is_some_and(&is_reached)
    };
    held.iter().copied().filter(goes).collect()
}

/// How much a shard prefers a node to others: a number of SplitMix64 for each pair.
fn weight(shard: Shard, node: Node) -> u64 {
    let pair = u64::from(node.0) * u64::from(SHARDS) + u64::from(shard.number()) + 1;
    let mut mixed = pair.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards_of(node: u32, nodes: &[Node]) -> Vec<Shard> {
        preferring(Node(node), &Shard::all().collect::<Vec<_>>(), nodes)
    }

    #[test]
    fn shards_are_spread_over_all_nodes() {
        for count in [1, 2, 3, 4, 8] {
            let nodes: Vec<Node> = (1..=count).map(Node).collect();
            let counts: Vec<usize> = (1..=count).map(|node| shards_of(node, &nodes).len()).collect();
            assert_eq!(counts.iter().sum::<usize>(), Shard::all().count());
            let fair = 64 / count as usize;
            assert!(counts.iter().all(|some| (fair / 2..=fair * 2).contains(some)), "{counts:?}");
        }
    }

    #[test]
    fn a_node_that_comes_or_goes_moves_no_shard_but_its_own() {
        let (all, fewer) = ([1, 2, 3, 7].map(Node), [1, 3, 7].map(Node));
        for shard in Shard::all() {
            let (before, after) = (preferred(shard, &all), preferred(shard, &fewer));
            assert!(before == after || before == Some(Node(2)), "{shard:?}");
        }
    }

    #[test]
    fn what_has_objects_or_prefers_who_is_not_reached_is_kept() {
        let (nodes, all) = ([1, 2, 3].map(Node), Shard::all().collect::<Vec<_>>());
        let theirs = shards_of(2, &nodes);
        let in_use = BTreeSet::from([theirs[0]]);
        let given = to_give_up(Node(1), &all, &nodes, &in_use, |node| node == Node(2));
        assert_eq!(given, theirs[1..]);
        assert_eq!(to_give_up(Node(1), &shards_of(1, &nodes), &nodes, &BTreeSet::new(), |_| true), []);
    }
}
