//! Messages and versions as frames of a connection.

use super::LIMIT;
use crate::network::{Incoming, Outgoing, Transmission};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};
use stillframe_link::{Frame, Sender, Source};
use stillframe_wire::data::FragmentText;
use stillframe_wire::group::GroupRanks;
use stillframe_wire::{Kind, Message};

/// About how much memory a message takes, and each item of its lists.
pub(super) const ITEM_BYTES: usize = 256;

/// About how much memory a message takes: that of its lists and texts, which others may make long.
pub(super) fn about_bytes(message: &Message) -> usize {
    let texts =
        |layouts: &mut dyn Iterator<Item = &FragmentText>| layouts.map(|layout| layout.text.len()).sum::<usize>();
    let ranks = |told: &GroupRanks| {
        let GroupRanks { group, ranks, runs, versions, .. } = told;
        group.len() + size_of_val(&ranks[..]) + size_of_val(&runs[..]) + size_of_val(&versions[..])
    };
    let (items, text_bytes) = match message {
        Message::Reports(reports) => {
            (reports.iter().map(|one| one.report.writers.len() + one.report.wants.len()).sum(), 0)
        }
        Message::Decisions(all) => {
            (all.iter().map(|one| one.decision.answers.len() + one.decision.refused.len()).sum(), 0)
        }
        Message::Layouts(all) => (all.layouts.len(), texts(&mut all.layouts.iter().map(|(_, layout)| layout))),
        Message::Roster(roster) => (roster.declared.len(), texts(&mut roster.declared.iter().map(|one| &one.layout))),
        Message::RosterChange(change) => {
            (change.declared.len() + change.gone.len(), texts(&mut change.declared.iter().map(|one| &one.layout)))
        }
        Message::Subscribe(one) => (one.writers.len() + one.elements.boxes().len(), one.fragment.text.len()),
        Message::GroupRanks(told) => (0, ranks(told)),
        Message::GroupListed(listed) => (listed.groups.len(), listed.groups.iter().map(ranks).sum()),
        Message::GroupGet(get) => (0, size_of_val(&get.ranks[..])),
        Message::Description(one) => (0, one.name.len() + one.text.text.len()),
        _ => (0, 0),
    };
    (1 + items) * ITEM_BYTES + text_bytes
}

/// Sends messages. One that is too long is left out, and `say` is told so: whoever ended the connection for it would tell all of it anew on
/// the next one, without end, and nothing of what others have to say would arrive.
pub(super) fn send_messages(out: &mut Out<'_>, messages: VecDeque<Message>, say: impl Fn(String)) -> io::Result<()> {
    for message in messages {
        let kind = out.encode(&message, 0);
        match out.sender.queue(kind.0, &out.body, LIMIT) {
            Err(error @ stillframe_link::Error::TooLarge { .. }) => {
                say(format!("it is not told {}: {error}", what(&message)));
            }
            queued => queued.map_err(io::Error::other)?,
        }
    }
    out.sender.flush(LIMIT).map_err(io::Error::other)
}

/// What a message is about, for people.
fn what(message: &Message) -> String {
    match message {
        Message::Reports(reports) => {
            let names: Vec<String> = reports.iter().map(|one| format!("'{}'", one.name)).collect();
            format!("which fragments of object {} are on this node, where fewer would have to be", names.join(", "))
        }
        Message::Layouts(layouts) => format!("how fragments of object '{}' lie", layouts.name),
        message => format!("something of kind {}", message.kind()),
    }
}

pub(super) fn send_versions(out: &mut Out<'_>, versions: VecDeque<Box<dyn Transmission>>) -> io::Result<()> {
    versions.into_iter().try_for_each(|version| version.run(out))
}

/// A connection, how much went to the other side, and memory for one message.
pub(super) struct Out<'a> {
    pub(super) sender: &'a Sender,
    pub(super) sent_bytes: &'a AtomicU64,
    pub(super) body: Vec<u8>,
}

impl Out<'_> {
    fn encode(&mut self, message: &Message, bulk_bytes: usize) -> Kind {
        self.body.clear();
        let kind = message.encode(&mut self.body);
        // Pings go all the time, and are nobody's data.
        if !matches!(message, Message::Ping(_) | Message::Pong(_)) {
            self.sent_bytes.fetch_add((self.body.len() + bulk_bytes) as u64, Ordering::Relaxed);
        }
        kind
    }
}

impl Outgoing for Out<'_> {
    fn send(&mut self, message: Message, bulk: &[u8]) -> io::Result<()> {
        let kind = self.encode(&message, bulk.len());
        let source = if bulk.is_empty() { Source::Nothing } else { Source::Bytes(bulk) };
        self.sender.send(kind.0, &self.body, source, LIMIT).map_err(io::Error::other)
    }
}

/// What follows a message in its frame.
pub(super) struct InFrame<'a, 'r> {
    pub(super) frame: &'a mut Frame<'r>,
    pub(super) connection: u64,
}

impl Incoming for InFrame<'_, '_> {
    fn left_bytes(&self) -> u64 {
        self.frame.left_bytes()
    }

    fn connection(&self) -> u64 {
        self.connection
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<()> {
        self.frame.read(into, LIMIT).map_err(io::Error::other)
    }

    fn read_pieces(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        self.frame.read_pieces(into, LIMIT).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillframe_wire::group::{GroupListed, RankTold};

    #[test]
    fn what_is_said_of_many_ranks_counts_by_its_size() {
        let told = |rank| RankTold { rank, lives: true, ended: false, begun_ago_ns: 0, newest: None };
        let ranks = (0..1000).map(told).collect();
        let ranks = GroupRanks { group: "g".into(), size: 1000, ranks, runs: Vec::new(), versions: Vec::new() };
        let least = 1000 * size_of::<RankTold>();
        assert!(about_bytes(&Message::GroupRanks(ranks.clone())) > least);
        let listed = GroupListed { number: 1, groups: vec![ranks; 3] };
        assert!(about_bytes(&Message::GroupListed(listed)) > 3 * least);
    }
}
