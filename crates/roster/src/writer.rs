//! Writers, and what they declare.

use std::{
    collections::BTreeSet,
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

use drepl::{IndexBox, IndexSet};

/// Number of a version. It increases, and may skip.
pub type Version = u64;

/// Number of a home's term: the revision of the name server's key that made it the home. A later home has a larger one.
pub type Revision = u64;

/// A node, as its runtime. One that comes back after it was lost is another node, with another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);

/// Who writes a fragment. A number is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer {
    /// Where it runs.
    pub node: Node,
    /// Its process on that node.
    pub process: u32,
    /// Tells apart the fragments of one process, and processes that had the same number one after the other.
    pub serial: u32,
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fragment {} of process {} on node {}", self.serial, self.process, self.node.0)
    }
}

/// Elements of an object, cheap to copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Elements(Arc<IndexSet>);

impl From<IndexSet> for Elements {
    fn from(set: IndexSet) -> Self {
        Self(Arc::new(set))
    }
}

impl From<IndexBox> for Elements {
    fn from(one: IndexBox) -> Self {
        IndexSet::from(one).into()
    }
}

impl Deref for Elements {
    type Target = IndexSet;

    fn deref(&self) -> &IndexSet {
        &self.0
    }
}

impl Hash for Elements {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.boxes().hash(state);
    }
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a writer is from a version on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Role {
    /// It writes these elements.
    Member {
        /// Its fragment.
        elements: Elements,
        /// How many writers the program said there are. `None`: the roster is closed when the object is covered.
        expected: Option<u32>,
    },
    /// It left by itself.
    Left,
    /// It died, or its node was lost.
    Died {
        /// What it would have written of the next version.
        elements: Elements,
    },
}

/// A change of what a writer is. It takes effect from a version on, until the next stage.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stage {
    /// The first version for which it counts.
    pub from: Version,
    /// What the writer is from then on.
    pub role: Role,
}

impl Stage {
    /// A fragment from a version on; the roster is closed when the object is covered.
    pub fn member(from: Version, elements: impl Into<Elements>) -> Self {
        Self { from, role: Role::Member { elements: elements.into(), expected: None } }
    }

    /// A fragment from a version on, one of so many.
    pub fn member_of(from: Version, elements: impl Into<Elements>, expected: u32) -> Self {
        Self { from, role: Role::Member { elements: elements.into(), expected: Some(expected) } }
    }

    /// No fragment from a version on.
    pub fn left(from: Version) -> Self {
        Self { from, role: Role::Left }
    }
}

/// Versions that a writer published.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Published {
    /// The newest that it ever published.
    pub newest: Option<Version>,
    /// Those that can be had now.
    pub present: BTreeSet<Version>,
}

/// Everything that is known of a writer: what its node's runtime says of it, or what lies in shared files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    /// Whose.
    pub writer: Writer,
    /// Its rank in a parallel program, for messages to people.
    pub rank: Option<u32>,
    /// What it is from which version on; ascending.
    pub stages: Vec<Stage>,
    /// What it published.
    pub published: Published,
}

impl Record {
    /// A writer that has declared nothing.
    pub fn new(writer: Writer, rank: Option<u32>) -> Self {
        Self { writer, rank, stages: Vec::new(), published: Published::default() }
    }

    /// What it is in a version.
    pub fn stage(&self, version: Version) -> Option<&Stage> {
        self.stages[..self.stages.partition_point(|stage| stage.from <= version)].last()
    }

    /// Its elements in a version, where it is a member of that version's roster.
    pub fn elements(&self, version: Version) -> Option<&Elements> {
        match &self.stage(version)?.role {
            Role::Member { elements, .. } => Some(elements),
            Role::Left | Role::Died { .. } => None,
        }
    }

    /// Whether it can publish nothing below or at a version any more, for it published that or a newer one.
    pub fn has_reached(&self, version: Version) -> bool {
        self.published.newest.is_some_and(|newest| newest >= version)
    }

    /// Takes back what it is from a version on, until its next stage, and what it published of that: of what it was before, and is
    /// again, it published nothing then.
    pub fn withdraw(&mut self, from: Version) {
        let Some(position) = self.stages.iter().position(|stage| stage.from == from) else { return };
        self.stages.remove(position);
        let until = self.stages.get(position).map_or(Version::MAX, |next| next.from);
        self.published.present.retain(|version| !(from..until).contains(version));
    }

    /// Puts an end to it behind what it published: it is a member of no version from then on.
    pub fn die(&mut self) {
        let Some(first) = self.stages.first().map(|stage| stage.from) else { return };
        let end = self.published.newest.map_or(first, |newest| newest.saturating_add(1).max(first));
        let later = self.stages.iter().filter(|stage| stage.from > end).find_map(|stage| self.elements(stage.from));
        if let Some(elements) = self.elements(end).or(later).cloned() {
            self.stages.retain(|stage| stage.from < end);
            self.stages.push(Stage { from: end, role: Role::Died { elements } });
        }
    }

    /// The version from which on it is a member of none, if it said that it leaves, or died.
    pub fn end(&self) -> Option<Version> {
        self.stages.last().filter(|last| !matches!(last.role, Role::Member { .. })).map(|last| last.from)
    }

    /// Whether it publishes nothing any more: it died, or left and has published what it was to.
    pub fn has_ended(&self) -> bool {
        self.stages.last().is_some_and(|last| match last.role {
            Role::Member { .. } => false,
            Role::Left => last.from.checked_sub(1).is_some_and(|last| self.has_reached(last)),
            Role::Died { .. } => true,
        })
    }

    /// Lets one that has ended be a member of no version from an earlier one on, because another took its place. What it published of
    /// those counts for nothing. Whether that makes a difference.
    pub fn end_at(&mut self, from: Version) -> bool {
        let (Some(first), Some(last)) = (self.stages.first(), self.stages.last()) else { return false };
        let (from, role) = (from.max(first.from), last.role.clone());
        if !self.has_ended() || last.from <= from {
            return false;
        }
        let role = match (role, self.elements(from)) {
            (Role::Died { .. }, Some(elements)) => Role::Died { elements: elements.clone() },
            (role, _) => role,
        };
        let before = if from == first.from { None } else { from.checked_sub(1) };
        self.stages.retain(|stage| stage.from < from);
        self.stages.push(Stage { from, role });
        self.published.present.retain(|version| *version < from);
        self.published.newest = self.published.newest.filter(|newest| *newest < from).or(before);
        true
    }

    /// The writer with its rank, for messages.
    pub fn who(&self) -> Who {
        Who { writer: self.writer, rank: self.rank }
    }
}

/// A writer as people know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who {
    /// Its name.
    pub writer: Writer,
    /// Its rank in a parallel program, if it said so.
    pub rank: Option<u32>,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rank {
            Some(rank) => write!(f, "rank {rank} ({})", self.writer),
            None => self.writer.fmt(f),
        }
    }
}
