//! How the demonstration stands.

/// What an observer has said about itself.
#[derive(Default, Clone, Copy)]
pub struct Sight {
    /// Versions seen.
    pub seen: u64,
    /// Versions whose content was not what was published.
    pub torn: u64,
    /// Bytes of anonymous memory.
    pub memory_bytes: u64,
}

/// What the dashboard and the summary are made from.
pub struct Progress {
    /// Steps done, all of them published.
    pub steps: u64,
    /// Seconds since the first step.
    pub seconds: f64,
    /// Share of the time or of the steps that is over.
    pub done: f64,
    /// Share of pages that changed with the last step.
    pub dirty_share: f64,
    /// Seconds that publishing took.
    pub publish_seconds: f64,
    /// Bytes of the arrays.
    pub array_bytes: u64,
    /// Bytes that the region's files take.
    pub file_bytes: u64,
}
