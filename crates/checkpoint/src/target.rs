//! What is looked at: a region or a group, in the same words.

use crate::Source;
use std::path::Path;
use std::time::Duration;
use stillframe::{Attributes, Error, Group, GroupSnapshot, Observer, PAGE_BYTES, Result, Snapshot};

/// A look at a region or a group.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Region(Observer),
    Group(Group),
}

/// What tells one run from the next: when the producer, or each rank's, began.
pub(crate) type Run = Vec<Option<u64>>;

impl Target {
    /// Looks at what has this name; `None` if nothing has.
    pub fn find(dir: &Path, name: &str) -> Result<Option<Target>> {
        let found = match Observer::options().dir(dir).open(name) {
            Ok(observer) => Target::Region(observer),
            Err(Error::NoRegion { .. }) => return Ok(None),
            Err(Error::IsGroup { .. }) => match Group::options().dir(dir).open(name) {
                Ok(group) => Target::Group(group),
                Err(Error::NoRegion { .. }) => return Ok(None),
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        Ok(Some(found))
    }

    /// Number of ranks, if it is a group.
    pub fn ranks(&self) -> Option<usize> {
        match self {
            Target::Region(_) => None,
            Target::Group(group) => Some(group.size()),
        }
    }

    /// Whether anybody may still publish.
    pub fn is_alive(&self) -> bool {
        match self {
            Target::Region(observer) => observer.producer_alive(),
            Target::Group(group) => group.is_alive(),
        }
    }

    /// Whether the name is still that of what is looked at. A group looks for its ranks by itself.
    pub fn is_current(&self) -> bool {
        match self {
            Target::Region(observer) => observer.is_current(),
            Target::Group(_) => true,
        }
    }

    pub fn run(&self) -> Result<Run> {
        match self {
            Target::Region(observer) => Ok(vec![Some(observer.begun_ns())]),
            Target::Group(group) => group.begun_ns(),
        }
    }

    pub fn wait_newer(&self, version: Option<u64>, timeout: Duration) -> Result<u64> {
        match self {
            Target::Region(observer) => observer.wait_newer(version, Some(timeout)),
            Target::Group(group) => group.wait_newer(version, Some(timeout)),
        }
    }

    pub fn newest(&self) -> Result<Held> {
        match self {
            Target::Region(observer) => observer.newest().map(Held::Region),
            Target::Group(group) => group.newest().map(Held::Group),
        }
    }

    pub fn version(&self, version: u64) -> Result<Held> {
        match self {
            Target::Region(observer) => observer.version(version).map(Held::Region),
            Target::Group(group) => group.version(version).map(Held::Group),
        }
    }

    pub fn next_after(&self, version: Option<u64>, timeout: Duration) -> Result<Held> {
        match self {
            Target::Region(observer) => observer.next_after(version, Some(timeout)).map(Held::Region),
            Target::Group(group) => group.next_after(version, Some(timeout)).map(Held::Group),
        }
    }
}

/// A version that is held.
#[derive(Debug, Clone)]
pub(crate) enum Held {
    Region(Snapshot),
    Group(GroupSnapshot),
}

impl Held {
    pub fn source(&self) -> Source<'_> {
        match self {
            Held::Region(snapshot) => Source::Region(snapshot),
            Held::Group(snapshot) => Source::Group(snapshot),
        }
    }

    fn parts(&self) -> &[Snapshot] {
        match self {
            Held::Region(snapshot) => std::slice::from_ref(snapshot),
            Held::Group(snapshot) => snapshot.ranks(),
        }
    }

    pub fn version(&self) -> u64 {
        match self {
            Held::Region(snapshot) => snapshot.version(),
            Held::Group(snapshot) => snapshot.version(),
        }
    }

    /// When it was published; of a group, when the last rank did.
    pub fn published_ns(&self) -> u64 {
        self.parts().iter().map(Snapshot::published_ns).max().unwrap_or(0)
    }

    /// The version's attributes; of a group, those of rank 0.
    pub fn attributes(&self) -> &Attributes {
        static NONE: Attributes = Attributes::new();
        self.parts().first().map_or(&NONE, Snapshot::attributes)
    }

    /// Bytes of all variables.
    pub fn bytes(&self) -> u64 {
        self.parts().iter().flat_map(Snapshot::variables).map(|variable| variable.bytes as u64).sum()
    }

    /// Bytes of memory that holding it takes beside the version after it, about: of the pages that were written for it.
    pub fn cost_bytes(&self) -> u64 {
        self.parts().iter().map(|part| part.dirty_and_total_pages().0 * PAGE_BYTES as u64).sum()
    }

    /// How many versions there were between an older one and this one, if both are of one region; at least so many that
    /// all ranks of a group had are not told, at most that many.
    pub fn between(&self, older: &Position) -> u64 {
        let position = self.position();
        if position.0.len() != older.0.len() {
            return 0;
        }
        let apart = position.0.iter().zip(&older.0).map(|(new, old)| new.saturating_sub(*old + 1));
        apart.min().unwrap_or(0)
    }

    /// Where it stands among the versions of its files.
    pub fn position(&self) -> Position {
        Position(self.parts().iter().map(Snapshot::sequence).collect())
    }
}

/// Where a version stands among those of its region's files, or of each rank's.
#[derive(Debug, Clone)]
pub(crate) struct Position(Vec<u64>);
