//! What is told about a region, in `ls` and `show` alike.

use crate::table::sanitize;
use crate::units;
use serde::Serialize;
use std::path::{Path, PathBuf};
use stillframe::VersionInfo;
use stillframe::inspect::{self, EnclaveInfo, Holder, RegionInfo, State};

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
    /// The enclave that produces it, if it is one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enclave: Option<EnclaveSummary>,
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
    /// What keeps its producer from publishing.
    #[serde(flatten)]
    pub want: Want,
}

/// An enclave: a virtual machine or its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnclaveSummary {
    pub name: String,
    /// Whether this command runs in it.
    pub is_own: bool,
}

impl EnclaveSummary {
    /// What the inspection says of an enclave.
    pub fn new(info: &EnclaveInfo) -> EnclaveSummary {
        EnclaveSummary { name: info.name.clone(), is_own: info.is_own }
    }

    /// For people: its name, and whether it is this one.
    pub fn describe(&self) -> String {
        format!("{}{}", sanitize(&self.name), if self.is_own { " (own)" } else { "" })
    }
}

/// What a producer that has no room does, and who holds what it would need. This is part of the entries of `still ls --json`
/// and of the lines of `still watch --json`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Want {
    /// Since when it has been waiting, in nanoseconds since 1970.
    pub waiting_ns: Option<u64>,
    /// When it left out the first publish since the newest version.
    pub skipping_ns: Option<u64>,
    /// How many it left out since then.
    pub skipping: u64,
    /// Who holds versions older than the newest meanwhile.
    pub blockers: Vec<HolderSample>,
}

/// Holders named in a line.
const NAMED_MAX: usize = 3;

impl Want {
    /// What a region's producer wants; `holders` is asked only if it wants anything.
    pub fn of(info: &RegionInfo, holders: impl FnOnce() -> Vec<Holder>) -> Want {
        if info.waiting_ns.is_none() && info.skipping_ns.is_none() {
            return Want::default();
        }
        let mut blockers: Vec<HolderSample> = holders().into_iter().map(HolderSample::new).collect();
        blockers.retain(|holder| holder.version.is_none() || holder.version < info.newest);
        let RegionInfo { waiting_ns, skipping_ns, skipping, .. } = *info;
        Want { waiting_ns, skipping_ns, skipping, blockers }
    }

    /// The word for it instead of a state, if there is anything.
    pub fn state(&self) -> Option<&'static str> {
        match (self.waiting_ns, self.skipping_ns) {
            (Some(_), _) => Some("waiting"),
            (None, Some(_)) => Some("skipping"),
            (None, None) => None,
        }
    }

    /// A line that says it, if there is anything to say.
    pub fn note(&self, now_ns: u64) -> Option<String> {
        let since = |then_ns| units::format_ms(units::elapsed_ms(then_ns, now_ns) as f64);
        let waiting =
            self.waiting_ns.map(|then_ns| format!("its producer has been waiting for room for {}", since(then_ns)));
        let skipping = self.skipping_ns.map(|then_ns| {
            format!(
                "{} left out for want of room in the last {}",
                units::count(self.skipping as usize, "version"),
                since(then_ns)
            )
        });
        let what: Vec<String> = waiting.into_iter().chain(skipping).collect();
        if what.is_empty() {
            return None;
        }
        let mut names: Vec<String> = self.blockers.iter().take(NAMED_MAX).map(|holder| holder.text.clone()).collect();
        if self.blockers.len() > NAMED_MAX {
            names.push(format!("{} more", self.blockers.len() - NAMED_MAX));
        }
        let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        Some(format!("{}{names}", what.join("; ")))
    }
}

/// A process that keeps versions alive, or another enclave in which somebody does.
#[derive(Debug, Clone, Serialize)]
pub struct HolderSample {
    /// The process, none when it is out of sight.
    pub pid: Option<i32>,
    /// The enclave, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enclave: Option<String>,
    pub command: Option<String>,
    /// The kernel's letter for what the process does.
    pub state: char,
    /// Whether it is stopped, and so will not let go by itself.
    pub stopped: bool,
    /// The oldest version it holds.
    pub version: Option<u64>,
    /// How many it holds.
    pub versions: usize,
    /// For how long it has been holding one, none of an enclave.
    pub age_ms: Option<u64>,
    /// Who it is and what it holds, for people.
    #[serde(skip)]
    pub text: String,
}

impl HolderSample {
    /// What the inspection says of a holder.
    pub fn new(holder: Holder) -> HolderSample {
        HolderSample {
            text: sanitize(&holder.to_string()),
            stopped: holder.is_stopped(),
            pid: holder.pid,
            enclave: holder.enclave,
            command: holder.command,
            state: holder.state,
            version: holder.version,
            versions: holder.versions,
            age_ms: holder.age_ms,
        }
    }
}

impl Summary {
    /// Puts together what the inspection says.
    pub fn new(info: RegionInfo, dir: &Path, now_ns: u64) -> Summary {
        // Who holds what changes under way; a region that just went has no holders.
        let want = Want::of(&info, || inspect::holders(dir, &info.name).unwrap_or_default());
        let (state, reason) = name_state(&info.state);
        let versions = &info.versions;
        let newest = versions.iter().rev().find(|version| Some(version.version) == info.newest);
        Summary {
            name: info.name.clone(),
            path: info.path.clone(),
            state,
            reason,
            enclave: info.enclave.as_ref().map(EnclaveSummary::new),
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
            want,
        }
    }

    /// Whether its producer lives, and then whether it can publish.
    pub fn state_of_producer(&self) -> &'static str {
        self.want.state().unwrap_or(self.state)
    }

    /// Whether another enclave produces it, so that this one sees nothing of who else holds versions.
    pub fn is_others(&self) -> bool {
        self.enclave.as_ref().is_some_and(|enclave| !enclave.is_own)
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

/// Publishes per second over the versions that are kept, not those that are only held and have gaps between them; when the
/// next one is overdue, no more than the time since the newest allows, however many there were before.
fn estimate_rate(versions: &[VersionInfo], now_ns: u64) -> Option<f64> {
    let mut kept = versions.iter().filter(|version| !version.retiring);
    let first = kept.next()?;
    let (count, last) = kept.fold((0, first), |(count, _), version| (count + 1, version));
    let span_ns = last.published_ns.checked_sub(first.published_ns).filter(|span_ns| *span_ns > 0)?;
    let usual_ns = span_ns as f64 / f64::from(count);
    let since_ns = now_ns.saturating_sub(last.published_ns) as f64;
    Some(1e9 / usual_ns.max(since_ns - usual_ns))
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
            run: None,
            retiring: false,
        };
        let versions = [version(1, 1_000_000_000), version(2, 1_100_000_000), version(3, 1_200_000_000)];
        assert_eq!(estimate_rate(&versions, 1_250_000_000), Some(10.0));
        assert!(estimate_rate(&versions, 11_200_000_000).unwrap() < 0.3);
        // However many there are.
        let many: Vec<_> = (0..64).map(|number| version(number, 1_000_000_000 + number * 10_000_000)).collect();
        assert!((estimate_rate(&many, 1_640_000_000).unwrap() - 100.0).abs() < 1e-9);
        assert!(estimate_rate(&many, 8_640_000_000).unwrap() < 0.15);
        let held = |number, retiring| VersionInfo { retiring, ..version(number, number * 1_000_000_000) };
        assert_eq!(estimate_rate(&[held(1, true), held(50, false)], 50_000_000_000), None);
        assert_eq!(estimate_rate(&[held(1, true), held(50, false), held(51, false)], 51_000_000_000), Some(1.0));
        assert_eq!(estimate_rate(&versions[..1], 2_000_000_000), None);
        assert_eq!(estimate_rate(&[], 0), None);
    }
}
