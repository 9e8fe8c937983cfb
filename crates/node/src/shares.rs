//! What the shares are of which other nodes send pieces.

use crate::readers::{index_of, subscriptions_of_place};
use std::collections::BTreeMap;
use std::sync::Arc;
use stillframe_roster::writer::{Node, Version};
use stillframe_wire::data::{SourceShare, Sources};

/// So many are known of each subscription: those that hold now, and those before. What was sent by these on a connection that has ended
/// may still be read when what holds now was told on the next one.
const TOLD_MAX: usize = 2;

/// Shares, and the version from which on they hold.
type Told = (Version, Arc<Vec<SourceShare>>);

/// By the node that sends and the number of the subscription: from which version on they hold, and what they are.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    told: BTreeMap<(Node, u64), Vec<Told>>,
}

impl Shares {
    /// A node says what it sends from a version on. What it said of later ones, if it was asked for those before, holds no more.
    pub(crate) fn hear(&mut self, from: Node, sources: Sources) {
        let Sources { subscription, epoch, shares } = sources;
        self.forget_former(from, subscription);
        let told = self.told.entry((from, subscription)).or_default();
        told.retain(|(version, _)| *version < epoch);
        told.push((epoch, Arc::new(shares)));
        let excess = told.len().saturating_sub(TOLD_MAX);
        told.drain(..excess);
    }

    /// Forgets what a node said of former subscriptions of the same place. A reader would otherwise leave some behind with each turn.
    fn forget_former(&mut self, from: Node, subscription: u64) {
        let numbers = subscriptions_of_place(subscription);
        let of_place = self.told.range((from, *numbers.start())..=(from, *numbers.end()));
        // Those of its reader's other place are between them.
        let is_former = |number: &u64| index_of(*number) == index_of(subscription) && *number != subscription;
        let former: Vec<u64> = of_place.map(|((_, number), _)| *number).filter(is_former).collect();
        former.into_iter().for_each(|number| _ = self.told.remove(&(from, number)));
    }

    /// The shares of a version.
    pub(crate) fn of(&self, from: Node, subscription: u64, version: Version) -> Option<Arc<Vec<SourceShare>>> {
        let told = self.told.get(&(from, subscription))?;
        told.iter().rev().find(|(epoch, _)| *epoch <= version).map(|(_, shares)| shares.clone())
    }

    /// Forgets subscriptions.
    pub(crate) fn forget(&mut self, is_one: impl Fn(Node, u64) -> bool) {
        self.told.retain(|(from, subscription), _| !is_one(*from, *subscription));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drepl::transfer::Transfer;
    use stillframe_roster::writer::Writer;

    const FROM: Node = Node(1);

    fn sources(epoch: Version, process: u32) -> Sources {
        let writer = Writer { node: FROM, process, serial: 0 };
        let share = SourceShare { writer, transfer: Transfer::default(), bytes: 0 };
        Sources { subscription: 7, epoch, shares: vec![share] }
    }

    fn process(shares: &Shares, version: Version) -> Option<u32> {
        shares.of(FROM, 7, version).map(|shares| shares[0].writer.process)
    }

    /// The second place of the reader with this number, in its first turn.
    const PLACE: u64 = 5 << 24 | 1;

    #[test]
    fn what_was_said_of_former_subscriptions_of_a_place_is_forgotten() {
        let mut shares = Shares::default();
        let others = [PLACE - 1, (5 << 24) + (9 << 1), 4 << 24 | 1, 6 << 24 | 1];
        for number in others.into_iter().chain((0..3).map(|turn| PLACE + (turn << 1))) {
            shares.hear(FROM, Sources { subscription: number, ..sources(3, 1) });
        }
        shares.hear(Node(2), Sources { subscription: PLACE, ..sources(3, 1) });
        let of = |from, number| shares.of(from, number, 3).is_some();
        assert!(of(FROM, PLACE + 4) && !of(FROM, PLACE) && !of(FROM, PLACE + 2), "the newest is left");
        assert!(of(Node(2), PLACE), "of another node");
        assert!(of(FROM, others[1]) && of(FROM, others[2]) && of(FROM, others[3]), "of other places");
    }

    #[test]
    fn a_piece_of_an_older_version_that_comes_late_is_of_the_shares_that_held_then() {
        let mut shares = Shares::default();
        shares.hear(FROM, sources(3, 1));
        assert_eq!([2, 3, 5].map(|version| process(&shares, version)), [None, Some(1), Some(1)]);
        shares.hear(FROM, sources(6, 2));
        assert_eq!([5, 6, 9].map(|version| process(&shares, version)), [Some(1), Some(2), Some(2)]);
        shares.hear(FROM, sources(6, 3));
        assert_eq!([5, 6].map(|version| process(&shares, version)), [Some(1), Some(3)], "told again");
        shares.hear(FROM, sources(9, 4));
        assert_eq!([5, 8, 9].map(|version| process(&shares, version)), [None, Some(3), Some(4)]);
        shares.hear(FROM, sources(4, 5));
        assert_eq!(
            [3, 4, 9].map(|version| process(&shares, version)),
            [None, Some(5), Some(5)],
            "an older version was asked for"
        );
        shares.forget(|from, _| from == FROM);
        assert_eq!(process(&shares, 9), None);
    }
}
