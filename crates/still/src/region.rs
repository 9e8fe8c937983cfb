//! What is told about a region, in `ls` and `show` alike.

use crate::units;
use serde::Serialize;
use std::path::PathBuf;
use stillframe::VersionInfo;
use stillframe::inspect::{RegionInfo, State};

/// A region in a few values. This is an entry of `still ls --json`.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// The folder of its files.
    pub path: PathBuf,
    /// `live`, `dead`, `incomplete` or `unreadable`.
    pub state: &'static str,
    /// Why it is unreadable.
    pub reason: Option<String>,
    /// Rank in its group, and number of ranks, if it is of one.
    pub rank: Option<u32>,
    pub ranks: Option<u32>,
    /// The newest version, none before the first publish.
    pub newest: Option<u64>,
    /// How many versions there are.
    pub versions: usize,
    /// When the newest version was published, in nanoseconds since 1970.
    pub published_ns: Option<u64>,
    /// When the region was created, in nanoseconds since 1970.
    pub created_ns: u64,
    /// Publishes per second, measured over the versions that are kept.
    pub rate_hz: Option<f64>,
    /// Memory behind all of its files.
    pub memory_bytes: u64,
    /// Memory behind its planes, a part of that.
    pub plane_bytes: u64,
    /// Memory of managed variables beside the planes, in the producer.
    pub working_bytes: u64,
    /// The most memory its planes may have, none without a bound.
    pub bound_bytes: Option<u64>,
    /// Process of the producer, when it lives.
    pub producer_pid: Option<u32>,
    /// How modified pages are found.
    pub tracker: Option<String>,
    /// How many versions the producer wants kept.
    pub keep: u32,
    /// Publishes that made a version, since the region was created.
    pub published: u64,
    /// Publishes that were skipped for want of memory.
    pub skipped: u64,
}

impl Summary {
    /// Puts together what the inspection says.
    pub fn new(info: RegionInfo, now_ns: u64) -> Summary {
        let (state, reason) = name_state(&info.state);
        let versions = &info.versions;
        let newest = versions.iter().rev().find(|version| Some(version.version) == info.newest);
        Summary {
            name: info.name.clone(),
            path: info.path.clone(),
            state,
            reason,
            rank: info.rank.map(|(rank, _)| rank),
            ranks: info.rank.map(|(_, ranks)| ranks),
            newest: info.newest,
            versions: versions.len(),
            published_ns: newest.map(|version| version.published_ns),
            created_ns: info.created_ns,
            rate_hz: (state == "live").then(|| estimate_rate(versions, now_ns)).flatten(),
            memory_bytes: info.allocated_bytes,
            plane_bytes: plane_bytes(&info),
            working_bytes: if state == "live" { info.working_bytes } else { 0 },
            bound_bytes: info.bound_bytes,
            producer_pid: (state == "live").then_some(info.producer_pid),
            tracker: info.tracker.map(|tracker| tracker.to_string()),
            keep: info.keep,
            published: info.published,
            skipped: info.skipped,
        }
    }

    /// Milliseconds since the last publish.
    pub fn age_ms(&self, now_ns: u64) -> Option<u64> {
        self.published_ns.map(|then_ns| units::elapsed_ms(then_ns, now_ns))
    }
}

/// The word for a state, and the reason of one that has a reason.
pub fn name_state(state: &State) -> (&'static str, Option<String>) {
    match state {
        State::Live => ("live", None),
        State::Dead => ("dead", None),
        State::Incomplete => ("incomplete", None),
        State::Unreadable(why) => ("unreadable", Some(why.clone())),
    }
}

/// Memory behind the planes of a region.
pub fn plane_bytes(info: &RegionInfo) -> u64 {
    info.planes.iter().map(|plane| plane.allocated_bytes).sum()
}

/// Publishes per second over the kept versions; less and less while the next one is overdue.
fn estimate_rate(versions: &[VersionInfo], now_ns: u64) -> Option<f64> {
    let (first, last) = (versions.first()?, versions.last()?);
    let span_ns = last.published_ns.checked_sub(first.published_ns).filter(|span_ns| *span_ns > 0)?;
    let gaps = (versions.len() - 1) as f64;
    let usual_ns = span_ns as f64 / gaps;
    let waiting_ns = now_ns.saturating_sub(last.published_ns) as f64;
    if waiting_ns <= 2.0 * usual_ns {
        return Some(1e9 / usual_ns);
    }
    Some((gaps + 1.0) * 1e9 / (span_ns as f64 + waiting_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_sinks_when_nothing_follows() {
        let version = |version, published_ns| VersionInfo {
            version,
            published_ns,
            dirty_pages: 1,
            total_pages: 2,
            retiring: false,
        };
        let versions = [version(1, 1_000_000_000), version(2, 1_100_000_000), version(3, 1_200_000_000)];
        assert_eq!(estimate_rate(&versions, 1_250_000_000), Some(10.0));
        assert!(estimate_rate(&versions, 11_200_000_000).unwrap() < 0.3);
        assert_eq!(estimate_rate(&versions[..1], 2_000_000_000), None);
        assert_eq!(estimate_rate(&[], 0), None);
    }
}
