//! What a node knows of an object: its own writers, and what the home says.

use crate::error::Result;
use crate::roster::Heard;
use crate::sending::Origin;
use drepl::IndexSet;
use std::collections::BTreeMap;
use stillframe::Snapshot;
use stillframe_kernel::exits::Exits;
use stillframe_object::relay::{LocalFragment, Relay};
use stillframe_object::{Cause, Part, Parts, Writer as Named};
use stillframe_roster::readiness::{Loss, Share};
use stillframe_roster::runtime::Runtime;
use stillframe_roster::writer::{Node, Version, Who, Writer};
use stillframe_wire::ObjectId;
use stillframe_wire::data::FragmentText;
use stillframe_wire::roster::Declared;

/// An object, as its files and its home tell of it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) id: ObjectId,
    pub(crate) relay: Relay,
    pub(crate) protocol: Runtime,
    /// Who writes it, on all nodes.
    pub(crate) roster: Heard,
    /// The fragments of this node's writers.
    pub(crate) local: BTreeMap<Writer, LocalFragment>,
    /// Versions that this node holds for all.
    pub(crate) pins: BTreeMap<Version, BTreeMap<Writer, Snapshot>>,
    /// Writers of nodes that were lost, as the home said last before.
    pub(crate) lost: Vec<Lost>,
    /// What writers of a machine had declared whose runtime was started again, by the node that it is now: if that one ends before it has
    /// said so anew, nobody else knows of them.
    pub(crate) restarted: BTreeMap<Node, Vec<Declared>>,
}

/// A writer of a node that was lost. If the home was lost with it, the next one has never heard of it.
#[derive(Debug)]
pub(crate) struct Lost {
    who: Who,
    elements: IndexSet,
    /// The first version that it writes.
    pub(crate) from: Version,
}

impl Known {
    /// The processes of this node that write it and live.
    fn processes(&self) -> impl Iterator<Item = u32> {
        let living = self.local.values().filter(|fragment| fragment.is_alive && fragment.left.is_none());
        living.map(|fragment| fragment.who.writer.process)
    }

    /// Whether a process that lives writes it.
    pub(crate) fn is_written(&self) -> bool {
        self.processes().next().is_some()
    }

    /// Whether a process that lives writes it, of these.
    pub(crate) fn is_of_any(&self, processes: &[u32]) -> bool {
        self.processes().any(|process| processes.contains(&process))
    }

    /// Has the end of its processes waited for; whether all ends will be told.
    pub(crate) fn follow_exits(&mut self, exits: &Exits) -> bool {
        let new: Vec<u32> = self.processes().filter(|process| !self.relay.is_watched(*process)).collect();
        let mut are_told = true;
        for process in new {
            match exits.add(process) {
                Ok(true) => self.relay.note_watched(process),
                _ => are_told = false,
            }
        }
        are_told
    }

    /// Processes have ended.
    pub(crate) fn note_ends(&mut self, ended: &[u32]) {
        ended.iter().for_each(|process| self.relay.note_end(*process));
    }

    /// Where the elements of writers of this node are; nothing if one of them is not known.
    pub(crate) fn origins(&self, writers: &[Writer]) -> Option<Vec<Origin>> {
        let origin = |writer: &Writer| {
            let fragment = &self.local.get(writer)?.fragment;
            Some((*writer, fragment.clone(), Relay::variable(fragment)))
        };
        writers.iter().map(origin).collect()
    }

    /// Holds a version of each of these writers; or who has it no more.
    pub(crate) fn hold_all(
        &mut self,
        writers: impl IntoIterator<Item = Writer>,
        version: Version,
    ) -> Result<Result<Vec<Snapshot>, Writer>> {
        let mut snapshots = Vec::new();
        for writer in writers {
            match self.hold(writer, version)? {
                Some(snapshot) => snapshots.push(snapshot),
                None => return Ok(Err(writer)),
            }
        }
        Ok(Ok(snapshots))
    }

    /// Holds a version of a writer; nothing if it is gone.
    pub(crate) fn hold(&mut self, writer: Writer, version: Version) -> Result<Option<Snapshot>> {
        // The writer may have let go of it since it was pinned.
        match self.pins.get(&version).and_then(|pinned| pinned.get(&writer)) {
            Some(pinned) => Ok(Some(pinned.clone())),
            None => Ok(self.relay.hold(writer.serial, version)?),
        }
    }

    /// Elements and who writes them, for people.
    pub(crate) fn shown(&self, shares: &[Share]) -> String {
        let parts: Vec<Part> = shares.iter().map(|share| self.part(share, None)).collect();
        Parts(&parts).to_string()
    }

    /// The runtime of a machine was started again, as another node, which says anew what its writers declared.
    pub(crate) fn replace(&mut self, former: Node, node: Node) {
        let declared = self.end(former);
        self.restarted.insert(node, declared);
    }

    /// The home has told of writers: of machines whose runtime was started again, those that say anew what they declared.
    pub(crate) fn note_heard(&mut self) {
        let Known { restarted, roster, .. } = self;
        restarted.retain(|node, _| !roster.declared().any(|one| one.writer.node == *node));
    }

    /// What writers of a node had declared that is no more.
    fn end(&mut self, node: Node) -> Vec<Declared> {
        let before = self.restarted.remove(&node).unwrap_or_default();
        let declared = self.roster.end(node);
        if declared.is_empty() { before } else { declared }
    }

    /// Notes the writers of a node that was lost, as they had declared.
    pub(crate) fn lose(&mut self, node: Node) {
        for one in self.end(node) {
            // What cannot be read now could not before.
            let Ok((_, elements)) = self.relay.fragment(&one.layout.text, &numbers(&one.layout)) else { continue };
            self.lost.push(Lost { who: Who { writer: one.writer, rank: one.rank }, elements, from: one.from });
        }
    }

    /// What is lost of elements of a version that nobody has attached, as the home says: those of writers that were lost.
    pub(crate) fn lost_of(&self, version: Version, shares: &[Share]) -> Vec<Loss> {
        let mut losses = Vec::new();
        for share in shares.iter().filter(|share| share.who.is_none()) {
            for lost in self.lost.iter().filter(|lost| lost.from <= version) {
                let Ok(elements) = lost.elements.intersection(&share.elements) else { continue };
                if !elements.is_empty() {
                    let share = Share { who: Some(lost.who), elements: elements.into() };
                    losses.push(Loss { share, cause: Cause::NodeLost });
                }
            }
        }
        losses
    }

    pub(crate) fn part(&self, share: &Share, cause: Option<Cause>) -> Part {
        Part { who: share.who.map(Named), elements: self.relay.shown(&share.elements), cause }
    }
}

/// Numbers of the names that a text leaves open, as boards have them.
pub(crate) fn numbers(layout: &FragmentText) -> BTreeMap<String, i64> {
    layout.bindings.iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
