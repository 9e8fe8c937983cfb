//! What a checkpointer tells while it works.

use crate::Saved;
use std::path::PathBuf;
use std::time::Duration;

/// What a checkpointer tells while it works.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// It looks at the region, or at the group of so many ranks.
    Attached {
        /// Number of ranks, if it is a group.
        ranks: Option<usize>,
        /// The newest version.
        newest: Option<u64>,
    },
    /// It begins to save a version.
    Begun {
        /// The version.
        version: u64,
        /// Bytes of all its variables.
        bytes: u64,
    },
    /// A version is safe.
    Saved(Saved),
    /// Versions that were to be saved went before they could be held.
    Missed {
        /// How many.
        count: u64,
        /// The version before them.
        after: Option<u64>,
        /// The version after them.
        before: u64,
    },
    /// A version could not be saved.
    Failed {
        /// The version.
        version: u64,
        /// Why, and what to do.
        error: String,
        /// The number of the error.
        code: i32,
        /// How long nothing is tried; `None` if nothing will be.
        retry: Option<Duration>,
    },
    /// The condition could not be decided for a version, which is taken as one for which it does not hold.
    Undecided {
        /// Why.
        error: String,
    },
    /// A rank of the group is gone, and nothing new can come until it is back.
    RankGone {
        /// Which, and how far it came.
        error: String,
    },
    /// The producer is gone.
    Gone {
        /// How long the next one is waited for.
        follow: Duration,
    },
    /// Another producer of the name has begun.
    NewRun {
        /// The newest version it has.
        newest: Option<u64>,
    },
    /// Checkpoints of an earlier run, whose numbers are given again, were moved. Told before [`Saved`](Event::Saved) of the
    /// version that took their place, whose [`set_aside`](Saved::set_aside) says the same.
    SetAside {
        /// The versions.
        versions: Vec<u64>,
        /// Where they are.
        to: PathBuf,
    },
    /// The directory was removed, and was made again.
    Remade,
}

impl Event {
    /// A single version was to be saved, and will not be.
    pub fn missed(version: u64) -> Event {
        Event::Missed { count: 1, after: version.checked_sub(1), before: version.saturating_add(1) }
    }
}

/// Whoever hears of events.
pub(super) type Listener = Box<dyn Fn(&Event) + Send + Sync>;
