//! What is looked at when a name may be that of a region or of a group.

use crate::error::{Error, Result};
use crate::group::{Group, GroupSnapshot};
use crate::observer::Observer;
use crate::observer::options::ObserverOptions;
use crate::observer::snapshot::Snapshot;
use crate::variable::Attributes;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// A look at a region or at a group, whichever has the name; see [`ObserverOptions::open_any`].
#[derive(Debug, Clone)]
pub enum AnyObserver {
    /// A region.
    Region(Observer),
    /// A group.
    Group(Group),
}

/// A version of a region or of a group, held. Cloning shares the holds.
#[derive(Debug, Clone)]
pub enum AnySnapshot {
    /// Of a region.
    Region(Snapshot),
    /// Of a group.
    Group(GroupSnapshot),
}

impl ObserverOptions {
    /// Opens a region or a group, whichever has the name.
    ///
    /// ```
    /// # use stillframe::{Observer, Region};
    /// # let dir = std::env::temp_dir().join(format!("stillframe-doc-any-{}", std::process::id()));
    /// # let mut region = Region::options().dir(&dir).create("heat")?;
    /// # region.publish(4).commit()?;
    /// let snapshot = Observer::options().dir(&dir).open_any("heat")?.newest()?;
    /// assert_eq!(snapshot.version(), 4);
    /// // One part of a region, one per rank of a group.
    /// assert_eq!(snapshot.ranks().len(), 1);
    /// # drop(snapshot);
    /// # region.unlink()?;
    /// # std::fs::remove_dir_all(&dir).ok();
    /// # Ok::<(), stillframe::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](ObserverOptions::open) and [`GroupOptions::open`](crate::GroupOptions::open).
    pub fn open_any(self, name: &str) -> Result<AnyObserver> {
        let begin = Instant::now();
        let (group, wait) = (Group::options_of(&self), self.wait);
        match self.open(name) {
            Err(Error::IsGroup { .. }) => {
                let left = wait.saturating_sub(begin.elapsed());
                group.wait(left).open(name).map(AnyObserver::Group)
            }
            other => other.map(AnyObserver::Region),
        }
    }
}

impl AnyObserver {
    /// The name.
    pub fn name(&self) -> &str {
        match self {
            AnyObserver::Region(observer) => observer.name(),
            AnyObserver::Group(group) => group.name(),
        }
    }

    /// Number of ranks, if it is a group.
    pub fn size(&self) -> Option<usize> {
        match self {
            AnyObserver::Region(_) => None,
            AnyObserver::Group(group) => Some(group.size()),
        }
    }

    /// Whether anybody may still publish.
    pub fn is_alive(&self) -> bool {
        match self {
            AnyObserver::Region(observer) => observer.producer_alive(),
            AnyObserver::Group(group) => group.is_alive(),
        }
    }

    /// Whether the name is still that of what is looked at, as [`Observer::is_current`]. A group looks for its ranks by
    /// itself.
    pub fn is_current(&self) -> bool {
        match self {
            AnyObserver::Region(observer) => observer.is_current(),
            AnyObserver::Group(_) => true,
        }
    }

    /// When the producer, or each rank's, began, in nanoseconds since 1970; `None` for a rank that has not. It differs
    /// between runs.
    ///
    /// # Errors
    /// As [`Group::begun_ns`].
    pub fn begun_ns(&self) -> Result<Vec<Option<u64>>> {
        match self {
            AnyObserver::Region(observer) => Ok(vec![Some(observer.begun_ns())]),
            AnyObserver::Group(group) => group.begun_ns(),
        }
    }

    /// Sleeps as long as a polite process has to before it looks again, as [`Observer::pause`].
    pub fn pause(&self, timeout: Option<Duration>) -> bool {
        match self {
            AnyObserver::Region(observer) => observer.pause(timeout),
            AnyObserver::Group(group) => group.pause(timeout),
        }
    }

    /// Holds the newest version.
    ///
    /// # Errors
    /// As [`Observer::newest`] and [`Group::newest`].
    pub fn newest(&self) -> Result<AnySnapshot> {
        match self {
            AnyObserver::Region(observer) => observer.newest().map(AnySnapshot::Region),
            AnyObserver::Group(group) => group.newest().map(AnySnapshot::Group),
        }
    }

    /// Holds a given version.
    ///
    /// # Errors
    /// As [`Observer::version`] and [`Group::version`].
    pub fn version(&self, version: u64) -> Result<AnySnapshot> {
        match self {
            AnyObserver::Region(observer) => observer.version(version).map(AnySnapshot::Region),
            AnyObserver::Group(group) => group.version(version).map(AnySnapshot::Group),
        }
    }

    /// Holds the smallest version above `version` (any, for `None`), waiting for it at most `timeout` (for ever, for
    /// `None`).
    ///
    /// # Errors
    /// As [`Observer::next_after`] and [`Group::next_after`].
    pub fn next_after(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<AnySnapshot> {
        match self {
            AnyObserver::Region(observer) => observer.next_after(version, timeout).map(AnySnapshot::Region),
            AnyObserver::Group(group) => group.next_after(version, timeout).map(AnySnapshot::Group),
        }
    }

    /// Holds the newest version above `version` (any, for `None`), skipping those in between; waits as
    /// [`next_after`](AnyObserver::next_after) does.
    ///
    /// # Errors
    /// As [`next_after`](AnyObserver::next_after).
    pub fn newest_after(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<AnySnapshot> {
        match self {
            AnyObserver::Region(observer) => observer.newest_after(version, timeout).map(AnySnapshot::Region),
            AnyObserver::Group(group) => group.newest_after(version, timeout).map(AnySnapshot::Group),
        }
    }

    /// Waits until there is a version above `version` (any, for `None`) and returns the newest's number, without holding
    /// it; waits as [`next_after`](AnyObserver::next_after) does.
    ///
    /// # Errors
    /// As [`next_after`](AnyObserver::next_after).
    pub fn wait_newer(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<u64> {
        match self {
            AnyObserver::Region(observer) => observer.wait_newer(version, timeout),
            AnyObserver::Group(group) => group.wait_newer(version, timeout),
        }
    }
}

impl AnySnapshot {
    /// The snapshots of all ranks, in order; of a region its own.
    pub fn ranks(&self) -> &[Snapshot] {
        match self {
            AnySnapshot::Region(snapshot) => std::slice::from_ref(snapshot),
            AnySnapshot::Group(group) => group.ranks(),
        }
    }

    /// Whether it is of a group.
    pub fn is_group(&self) -> bool {
        matches!(self, AnySnapshot::Group(_))
    }

    /// The name of the region or group.
    pub fn name(&self) -> &str {
        match self {
            AnySnapshot::Region(snapshot) => snapshot.region(),
            AnySnapshot::Group(group) => group.name(),
        }
    }

    /// The producers' number of the version.
    pub fn version(&self) -> u64 {
        match self {
            AnySnapshot::Region(snapshot) => snapshot.version(),
            AnySnapshot::Group(group) => group.version(),
        }
    }

    /// The run that published the version, as [`Snapshot::run`].
    pub fn run(&self) -> Option<NonZeroU64> {
        self.ranks().first().and_then(Snapshot::run)
    }

    /// Time of publishing in nanoseconds since 1970; of a group, when the last rank did.
    pub fn published_ns(&self) -> u64 {
        self.ranks().iter().map(Snapshot::published_ns).max().unwrap_or(0)
    }

    /// The version's attributes; of a group, those of rank 0.
    pub fn attributes(&self) -> &Attributes {
        match self {
            AnySnapshot::Region(snapshot) => snapshot.attributes(),
            AnySnapshot::Group(group) => group.rank(0).attributes(),
        }
    }
}

impl From<Snapshot> for AnySnapshot {
    fn from(snapshot: Snapshot) -> AnySnapshot {
        AnySnapshot::Region(snapshot)
    }
}

impl From<&Snapshot> for AnySnapshot {
    fn from(snapshot: &Snapshot) -> AnySnapshot {
        AnySnapshot::Region(snapshot.clone())
    }
}

impl From<GroupSnapshot> for AnySnapshot {
    fn from(group: GroupSnapshot) -> AnySnapshot {
        AnySnapshot::Group(group)
    }
}

impl From<&GroupSnapshot> for AnySnapshot {
    fn from(group: &GroupSnapshot) -> AnySnapshot {
        AnySnapshot::Group(group.clone())
    }
}

impl From<&AnySnapshot> for AnySnapshot {
    fn from(snapshot: &AnySnapshot) -> AnySnapshot {
        snapshot.clone()
    }
}
