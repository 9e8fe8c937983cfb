//! What can be said of the ranks of a group.

/// Whether a rank of a group has a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankState {
    /// Its producer lives.
    Live,
    /// Its producer is gone; the next one recovers it.
    Dead,
    /// It has not begun.
    Absent,
}

/// What can be said of a rank of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankInfo {
    /// The rank.
    pub rank: u32,
    /// Whether it has a producer.
    pub state: RankState,
    /// What its last producer wrote as its process number; 0 if it has not begun.
    pub pid: u32,
    /// Its newest version.
    pub newest: Option<u64>,
    /// Versions above its newest that the furthest rank has.
    pub behind: u64,
}
