//! What is told about a group, in `ls` and `show` alike.

use crate::context::Context;
use crate::failure::Failure;
use crate::region::{EnclaveSummary, Summary};
use crate::table::{Align, Table, sanitize};
use crate::units;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use stillframe::inspect::{self, GroupInfo};
use stillframe::{RankInfo, RankState};

/// Versions that a living rank may be behind before it is called slow: ranks are never quite together.
const BEHIND_USUAL: u64 = 1;

/// A group in a few values. This is an entry of `still ls --json`.
#[derive(Debug, Serialize)]
pub struct GroupSummary {
    /// Its name.
    pub name: String,
    /// `live` if the producers of all ranks live, `dead` if none does, else `partial`.
    pub state: &'static str,
    /// The newest version that all ranks have.
    pub newest: Option<u64>,
    /// The versions that all ranks have.
    pub versions: Vec<u64>,
    /// When the last rank published the newest of them, in nanoseconds since 1970.
    pub published_ns: Option<u64>,
    /// Publishes per second of the slowest rank.
    pub rate_hz: Option<f64>,
    /// Memory behind the files of all ranks.
    pub memory_bytes: u64,
    /// The ranks.
    pub ranks: Vec<RankSummary>,
    /// What is known of the regions of the ranks that have begun.
    #[serde(skip)]
    pub regions: Vec<Summary>,
}

/// A rank of a group.
#[derive(Debug, Serialize)]
pub struct RankSummary {
    /// The rank.
    pub rank: u32,
    /// `live`, `dead`, or `absent` if it has not begun.
    pub state: &'static str,
    /// Process of the producer, when it lives.
    pub producer_pid: Option<u32>,
    /// Its newest version.
    pub newest: Option<u64>,
    /// Versions above that which the furthest rank has.
    pub behind: u64,
}

impl RankSummary {
    fn new(info: &RankInfo) -> RankSummary {
        RankSummary {
            rank: info.rank,
            state: match info.state {
                RankState::Live => "live",
                RankState::Dead => "dead",
                RankState::Absent => "absent",
            },
            producer_pid: (info.state == RankState::Live).then_some(info.pid),
            newest: info.newest,
            behind: info.behind,
        }
    }
}

/// The group of this name, if there is one.
pub fn find(context: &Context, name: &str, now_ns: u64) -> Result<Option<GroupSummary>, Failure> {
    Ok(inspect::group(&context.dir, name)?.map(|info| GroupSummary::new(info, &context.dir, now_ns)))
}

impl GroupSummary {
    fn new(info: GroupInfo, dir: &Path, now_ns: u64) -> GroupSummary {
        let newest = info.versions.last().copied();
        let published = |region: &inspect::RegionInfo| {
            let version = region.versions.iter().find(|version| Some(version.version) == newest);
            version.map(|version| version.published_ns)
        };
        let published_ns = info.regions.iter().filter_map(published).max();
        let live = info.ranks.iter().filter(|rank| rank.state == RankState::Live).count();
        let regions: Vec<Summary> = info.regions.into_iter().map(|region| Summary::new(region, dir, now_ns)).collect();
        GroupSummary {
            name: info.name,
            state: match live {
                0 => "dead",
                _ if live == info.ranks.len() => "live",
                _ => "partial",
            },
            newest,
            versions: info.versions,
            published_ns,
            rate_hz: regions.iter().filter_map(|region| region.rate_hz).min_by(f64::total_cmp),
            memory_bytes: regions.iter().map(|region| region.memory_bytes).sum(),
            ranks: info.ranks.iter().map(RankSummary::new).collect(),
            regions,
        }
    }

    /// How many ranks live, or that all or none do.
    pub fn describe_state(&self) -> String {
        let live = self.ranks.iter().filter(|rank| rank.state == "live").count();
        match self.state {
            "partial" => format!("{live}/{} live", self.ranks.len()),
            state => state.into(),
        }
    }

    /// What keeps the group from going on: ranks that are missing, gone or slow.
    pub fn notes(&self) -> Vec<String> {
        let Some(furthest) = self.ranks.iter().max_by_key(|rank| rank.newest) else { return Vec::new() };
        let at = |rank: &RankSummary| rank.newest.map_or("without a version".into(), |newest| format!("at {newest}"));
        let slow = self.ranks.iter().filter(|rank| rank.state == "live").max_by_key(|rank| rank.behind);
        let is_slow =
            |rank: &RankSummary| rank.behind > BEHIND_USUAL && slow.is_some_and(|slow| slow.behind == rank.behind);
        let note = |rank: &RankSummary| {
            let found = match rank.state {
                "absent" => return Some(format!("rank {} has not begun", rank.rank)),
                "dead" if self.state != "dead" => "is dead",
                "live" if is_slow(rank) => "is slowest",
                _ => return None,
            };
            let far = if rank.newest == furthest.newest {
                ", as far as any".into()
            } else {
                format!(" while rank {} is {}", furthest.rank, at(furthest))
            };
            Some(format!("rank {} {found}, {}{far}", rank.rank, at(rank)))
        };
        self.ranks.iter().filter_map(note).collect()
    }

    /// Writes the ranks as a table.
    pub fn write_ranks(&self, now_ns: u64, out: &mut dyn Write) -> Result<(), Failure> {
        let mut table = Table::new(&[
            ("RANK", Align::Right),
            ("STATE", Align::Left),
            ("NEWEST", Align::Right),
            ("BEHIND", Align::Right),
            ("VERSIONS", Align::Right),
            ("MEMORY", Align::Right),
            ("PRODUCER", Align::Right),
            ("AGE", Align::Right),
        ])
        .indented(2);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        for rank in &self.ranks {
            let name = format!("{}/{}", self.name, rank.rank);
            let region = self.regions.iter().find(|region| region.name == name);
            table.push(vec![
                rank.rank.to_string(),
                region.map_or(rank.state, Summary::state_of_producer).into(),
                or_dash(rank.newest.map(|newest| newest.to_string())),
                rank.behind.to_string(),
                or_dash(region.map(|region| region.versions.to_string())),
                or_dash(region.map(|region| units::format_bytes(region.memory_bytes))),
                or_dash(rank.producer_pid.map(|pid| pid.to_string())),
                or_dash(region.and_then(|region| region.age_ms(now_ns)).map(|ms| units::format_ms(ms as f64))),
            ]);
        }
        Ok(table.write(out)?)
    }

    /// The enclave that produces it, if it is one's.
    pub fn enclave(&self) -> Option<&EnclaveSummary> {
        self.regions.iter().find_map(|region| region.enclave.as_ref())
    }

    /// The row of `still ls`.
    pub fn row(&self, now_ns: u64) -> Vec<String> {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        let age_ms = self.published_ns.map(|then_ns| units::elapsed_ms(then_ns, now_ns));
        vec![
            sanitize(&self.name),
            self.describe_state(),
            or_dash(self.newest.map(|version| version.to_string())),
            self.versions.len().to_string(),
            units::format_bytes(self.memory_bytes),
            or_dash(self.rate_hz.map(units::format_rate)),
            units::count(self.ranks.len(), "rank"),
            or_dash(age_ms.map(|age_ms| units::format_ms(age_ms as f64))),
            // The ranks of a group lie together.
            self.enclave().map_or_else(String::new, EnclaveSummary::describe),
        ]
    }
}
