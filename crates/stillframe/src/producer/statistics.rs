//! What publishes did.

use std::time::Duration;

/// Whether a publish made a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The version is there.
    Published,
    /// There was no room, and the rule is to leave the publish out. What was written is part of the next version.
    Skipped,
}

/// What a publish did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// The number of the version.
    pub version: u64,
    /// Whether it was published.
    pub outcome: Outcome,
    /// Pages that were dirty.
    pub dirty_pages: u64,
    /// Pages that were copied.
    pub copied_pages: u64,
    /// Pages of all variables.
    pub total_pages: u64,
    /// Time it took.
    pub duration: Duration,
}

/// What a region did since this producer opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Versions published.
    pub published: u64,
    /// Publishes left out by the rule.
    pub skipped: u64,
    /// Pages found dirty, over all publishes.
    pub dirty_pages: u64,
    /// Pages copied, over all publishes.
    pub copied_pages: u64,
    /// Pages of all variables at the last publish.
    pub total_pages: u64,
    /// Bytes of memory behind the planes.
    pub plane_bytes: u64,
    /// Bytes of memory of managed variables that exist beside the planes, at most.
    pub working_bytes: u64,
    /// Time spent in publish.
    pub publish_time: Duration,
}
