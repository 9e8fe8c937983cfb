//! Messages that are to go to other nodes when the desk has done what it is at: so one wake-up of who sends them is for many, and
//! short ones of several objects are one message.

use std::collections::BTreeMap;
use stillframe_roster::writer::Node;
use stillframe_wire::Message;
use stillframe_wire::roster::{ObjectChange, ObjectDecision};

/// Objects that one message tells of, at most, and things that it tells of one of them for that to be short: a message stays far below
/// the bytes that it may have.
const OBJECTS_MAX: usize = 64;
const SHORT_MAX: usize = 16;

/// By the nodes that they go to, in the order in which they were put in.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    messages: BTreeMap<Node, Vec<Message>>,
}

impl Outbox {
    pub(crate) fn push(&mut self, to: Node, message: Message) {
        let messages = self.messages.entry(to).or_default();
        let Some(message) = (match messages.last_mut() {
            Some(last) => join(last, message),
            None => Some(message),
        }) else {
            return;
        };
        messages.push(message);
    }

    pub(crate) fn take(&mut self) -> BTreeMap<Node, Vec<Message>> {
        std::mem::take(&mut self.messages)
    }
}

/// Appends a message to the one before it, or returns it.
fn join(last: &mut Message, message: Message) -> Option<Message> {
    match (last, message) {
        (Message::Changes(all), Message::Changes(more)) if fits(all, &more, change_is_short) => all.extend(more),
        (Message::Decisions(all), Message::Decisions(more)) if fits(all, &more, decision_is_short) => all.extend(more),
        (_, message) => return Some(message),
    }
    None
}

fn fits<T>(all: &[T], more: &[T], is_short: fn(&T) -> bool) -> bool {
    // The first one may be long: the others are not looked at again.
    all.len() + more.len() <= OBJECTS_MAX && more.iter().chain(all.first()).all(is_short)
}

fn change_is_short(change: &ObjectChange) -> bool {
    change.writers.len() + change.gone.len() + change.pins.len() + change.wants.len() <= SHORT_MAX
}

fn decision_is_short(one: &ObjectDecision) -> bool {
    let decision = &one.decision;
    let writers = decision.proposed.as_ref().map_or(0, |(_, writers)| writers.len());
    decision.unpinned.len() + writers <= SHORT_MAX
        && decision.refused.is_empty()
        && decision.ended.is_empty()
        && decision.answers.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;
    use stillframe_roster::message::{Ceiling, Decision, Proposal, Unpinned};
    use stillframe_wire::ObjectId;

    const HERE: Node = Node(1);
    const THERE: Node = Node(2);

    fn decision(object: u64, unpinned: u32) -> Message {
        let (announced, unpinned) = (Proposal::initial(0), (0..unpinned).map(Node));
        let unpinned = unpinned.map(|node| Unpinned { node, is_lost: false }).collect();
        let (proposed, refused, ended, answers) = (None, Vec::new(), Vec::new(), Vec::new());
        let decision = Decision {
            node: HERE,
            revision: 1,
            serial: 1,
            declared: 0,
            announced,
            ceiling: Ceiling::initial(0),
            run_floor: 0,
            unpinned,
            proposed,
            refused,
            ended,
            answers,
        };
        let object = ObjectId(NonZeroU64::new(object).unwrap());
        Message::Decisions(vec![ObjectDecision { object, roster: 0, decision }])
    }

    /// How many objects each message tells of; 0 of another kind.
    fn objects(messages: &[Message]) -> Vec<usize> {
        let count = |message: &Message| match message {
            Message::Decisions(decisions) => decisions.len(),
            _ => 0,
        };
        messages.iter().map(count).collect()
    }

    #[test]
    fn short_messages_to_one_node_are_one_and_stay_in_order() {
        let mut outbox = Outbox::default();
        for object in 1..=3 {
            outbox.push(THERE, decision(object, 0));
        }
        outbox.push(HERE, decision(4, 0));
        outbox.push(THERE, Message::Ping(1));
        outbox.push(THERE, decision(5, 0));
        let all = outbox.take();
        assert_eq!(objects(&all[&THERE]), [3, 0, 1]);
        assert_eq!(objects(&all[&HERE]), [1]);
        let Message::Decisions(first) = &all[&THERE][0] else { panic!("they were decisions") };
        let order: Vec<u64> = first.iter().map(|one| one.object.0.get()).collect();
        assert_eq!(order, [1, 2, 3]);
        assert!(outbox.take().is_empty(), "it is told once");
    }

    #[test]
    fn long_messages_and_many_are_several() {
        let mut outbox = Outbox::default();
        let long = SHORT_MAX as u32 + 1;
        for unpinned in [0, long, 0, 0] {
            outbox.push(THERE, decision(1, unpinned));
        }
        assert_eq!(objects(&outbox.take()[&THERE]), [1, 1, 2]);
        for object in 1..=2 * OBJECTS_MAX as u64 + 1 {
            outbox.push(THERE, decision(object, 0));
        }
        assert_eq!(objects(&outbox.take()[&THERE]), [OBJECTS_MAX, OBJECTS_MAX, 1]);
    }
}
