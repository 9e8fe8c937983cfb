//! One node.

use drepl::IndexBox;
use stillframe_node::reporting::{News, Reporting};
use stillframe_node::roster::Heard;
use stillframe_roster::message::Decision;
use stillframe_roster::readiness::Readiness;
use stillframe_roster::refusal::Refusal;
use stillframe_roster::runtime::{Event, Runtime};
use stillframe_roster::writer::{Node as Number, Revision, Stage, Version, Who, Writer};
use stillframe_wire::data::FragmentText;
use stillframe_wire::roster::{Layouts, ObjectReport};
use stillframe_wire::{Message, ObjectId};

/// Versions that a region keeps.
const KEPT: Version = 3;
/// The only reader of a node.
const READER: u64 = 1;

/// A node, as far as one object is concerned.
#[derive(Debug)]
pub struct Node {
    runtime: Runtime,
    reporting: Reporting,
    writers: Vec<(Writer, FragmentText)>,
    /// How many of them the home knows the layouts of.
    told: usize,
    wanted: Option<Version>,
    /// Versions that it heard to be complete.
    pub complete: Vec<Version>,
    /// Versions that its reader can have.
    pub ready: Vec<Version>,
    /// What was refused.
    pub refused: Vec<(Writer, Refusal)>,
    /// Who writes the object; none at nodes that stand for others here, for which there is no memory.
    pub roster: Option<Heard>,
}

impl Node {
    /// A node without writers. Whether it keeps the roster makes no difference for the others.
    pub fn new(number: Number, initial: Version, keeps_roster: bool) -> Self {
        Self {
            runtime: Runtime::new(number, initial),
            reporting: Reporting::default(),
            writers: Vec::new(),
            told: 0,
            wanted: None,
            complete: Vec::new(),
            ready: Vec::new(),
            refused: Vec::new(),
            roster: keeps_roster.then(Heard::default),
        }
    }

    /// A writer attaches.
    ///
    /// # Errors
    /// Where the node knows by itself that it cannot.
    pub fn attach(&mut self, writer: Writer, stage: Stage, text: FragmentText) -> Result<(), Refusal> {
        self.runtime.declare(Who { writer, rank: Some(writer.process) }, stage)?;
        self.writers.push((writer, text));
        Ok(())
    }

    /// A writer writes nothing from a version on.
    ///
    /// # Errors
    /// Where it cannot.
    pub fn leave(&mut self, writer: Writer, from: Version) -> Result<(), Refusal> {
        self.runtime.declare(Who { writer, rank: Some(writer.process) }, Stage::left(from))
    }

    /// Those writers publish a version that have a fragment in it. Of older ones as many stay as a region keeps.
    ///
    /// # Errors
    /// The number is not above the newest.
    pub fn publish(&mut self, version: Version) -> Result<(), Refusal> {
        for (writer, _) in &self.writers {
            let record = self.runtime.record(*writer);
            if record.is_some_and(|record| record.elements(version).is_some()) {
                self.runtime.publish(*writer, version)?;
            }
            if let Some(old) = version.checked_sub(KEPT).filter(|old| !self.runtime.has_pinned(*old)) {
                self.runtime.drop(*writer, old);
            }
        }
        Ok(())
    }

    /// There is a new home, to which all has to be told.
    pub fn follow(&mut self, revision: Revision) {
        self.runtime.follow(revision);
        self.reporting.forget();
        self.told = 0;
    }

    /// Its reader waits for elements of a version.
    pub fn want(&mut self, version: Version, elements: IndexBox) {
        self.wanted = Some(version);
        self.runtime.want(READER, version, elements);
    }

    /// Hears what the home decided.
    pub fn hear(&mut self, decision: Decision) {
        for event in self.runtime.hear(decision) {
            match event {
                Event::Pin { version, .. } => _ = self.runtime.hold(version),
                Event::Complete(version) => self.complete.push(version),
                Event::Answer { readiness: Readiness::Ready(_), .. } => {
                    self.ready.extend(self.wanted.take());
                    self.runtime.unwant(READER);
                }
                Event::Refused { writer, refusal, .. } => self.refused.push((writer, refusal)),
                _ => {}
            }
        }
    }

    /// What the home has to be told.
    pub fn news(&mut self, object: ObjectId, name: &str, home: Number) -> Vec<Message> {
        let news = self.reporting.news(&self.runtime, object, home);
        let mut messages = Vec::new();
        if news.is_some() && self.told < self.writers.len() {
            let layouts = self.writers[self.told..].to_vec();
            self.told = self.writers.len();
            messages.push(Message::Layouts(Layouts { object, name: name.into(), layouts }));
        }
        messages.extend(news.map(|news| match news {
            News::Whole(report) => Message::Reports(vec![ObjectReport { object, name: name.into(), report }]),
            News::Change(change) => Message::Changes(vec![change]),
        }));
        messages
    }
}
