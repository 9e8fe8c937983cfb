//! A version of a fragment on its way, and the numbers by which home and senders know it.

use crate::filling::Filling;
use crate::known::Known;
use crate::surroundings::Surroundings;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use stillframe_roster::readiness::Share;
use stillframe_roster::writer::{Node, Version, Writer};
use stillframe_wire::Message;
use stillframe_wire::data::Unsubscribe;

/// A version of a fragment on its way.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) wanted: Option<Version>,
    pub(super) filling: Option<Arc<Filling>>,
    /// The version of the same writers that its fragment has already.
    pub(super) has: Option<Version>,
    /// Whether it waits for another reader of this node, which is just brought the same.
    pub(super) is_shared: bool,
    /// Whether elements of this node's own writers were put into it.
    pub(super) has_own: bool,
    /// Whose elements the version consists of, as the home says.
    pub(super) confirmed: Option<BTreeSet<Writer>>,
    /// Whom it waits for, as the home says.
    pub(super) waiting: Option<String>,
    /// Elements of which the home says that nobody has attached them.
    pub(super) unattached: Vec<Share>,
    /// Nodes that were asked to send.
    subscribed: BTreeSet<Node>,
    /// The newest version that they were asked for in this turn.
    newest_asked: Option<Version>,
    /// How often it was asked for something that is to be told from what was asked for before.
    turn: u32,
}

/// Bits of a subscription's number that say which of its reader it is: one for the index of the place, and those of the turn.
const PLACE_BITS: u32 = 24;

/// Bits of the turn. Turns are told apart as long as nothing is on its way for millions of them.
const TURN_MASK: u64 = ((1 << (PLACE_BITS - 1)) - 1) << 1;

/// The number of a place, by which the home knows it.
pub(super) fn number_of(reader: u64, index: usize) -> u64 {
    reader << PLACE_BITS | index as u64
}

/// The reader to which a place or a subscription belongs.
pub(crate) fn reader_of(number: u64) -> u64 {
    number >> PLACE_BITS
}

/// Which of its reader's places it is, or is of.
pub(crate) fn index_of(number: u64) -> usize {
    (number & 1) as usize
}

/// Among which numbers all subscriptions of a subscription's place are: every other one, from the first on.
pub(crate) fn subscriptions_of_place(subscription: u64) -> RangeInclusive<u64> {
    subscription & !TURN_MASK..=subscription | TURN_MASK
}

impl Place {
    /// Waits for nothing any more.
    pub(super) fn end(&mut self, known: &mut Known, number: u64) {
        known.protocol.unwant(number_of(reader_of(number), index_of(number)));
        (self.wanted, self.filling, self.confirmed, self.waiting) = (None, None, None, None);
        (self.is_shared, self.unattached) = (false, Vec::new());
    }

    /// Begins to be filled. What was asked for before, of the same version or a newer one, may still come, and counts no more: it may leave
    /// bytes out that are as in a version of which this one takes nothing.
    pub(super) fn fill(&mut self, number: u64, filling: Filling, has: Option<Version>, around: &mut Surroundings) {
        if self.newest_asked.is_some_and(|asked| asked >= filling.version) {
            self.end_turn(number, around);
        }
        (self.filling, self.has, self.has_own) = (Some(Arc::new(filling)), has, false);
    }

    /// Lets nothing more be sent of what was asked for. What is asked for from now on has another number.
    pub(super) fn end_turn(&mut self, number: u64, around: &mut Surroundings) {
        let subscription = self.subscription(number);
        for node in std::mem::take(&mut self.subscribed) {
            around.send(node, Message::Unsubscribe(Unsubscribe { subscription }));
        }
        (self.turn, self.newest_asked) = (self.turn.wrapping_add(1), None);
    }

    /// A node is asked to send a version.
    pub(super) fn note_asked(&mut self, node: Node, version: Version) {
        self.subscribed.insert(node);
        self.newest_asked = Some(version);
    }

    /// A node is not there any more: it is asked for nothing.
    pub(super) fn forget(&mut self, node: Node) {
        self.subscribed.remove(&node);
    }

    /// By which number others know what they send to it, as long as this turn lasts.
    pub(super) fn subscription(&self, number: u64) -> u64 {
        number & !TURN_MASK | u64::from(self.turn) << 1 & TURN_MASK
    }

    /// Whether a subscription is one of this turn.
    pub(super) fn is_turn_of(&self, subscription: u64) -> bool {
        self.subscription(subscription) == subscription
    }
}
