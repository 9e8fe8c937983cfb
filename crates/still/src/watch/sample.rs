//! What a look at the regions shows, compared with the look before.

use super::traffic::{NodeSample, Traffic};
use crate::failure::Failure;
use crate::region::{HolderSample, Want, name_state, plane_bytes};
use crate::units;
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;
use stillframe::PAGE_BYTES;
use stillframe::inspect::{self, Holder, RegionInfo};

/// All that was seen at one time. This is a line of `still watch --json`.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Milliseconds since the look before, none at the first.
    pub interval_ms: Option<f64>,
    /// The regions by name.
    pub regions: Vec<RegionSample>,
    /// The nodes of the job, if this one has a runtime; none when one region or group is watched.
    pub nodes: Vec<NodeSample>,
}

/// One region at one time.
#[derive(Debug, Clone, Serialize)]
pub struct RegionSample {
    pub name: String,
    pub state: &'static str,
    pub newest: Option<u64>,
    pub versions: usize,
    /// Process of a living producer.
    pub producer_pid: Option<u32>,
    pub tracker: Option<String>,
    /// Publishes per second of the interval.
    pub publish_rate_hz: Option<f64>,
    /// What a publish of the interval took on average, none without a publish.
    pub publish_ms: Option<f64>,
    /// Publishes of the interval that were skipped for want of memory.
    pub skipped: Option<u64>,
    /// Share of the pages that the last publish found modified.
    pub dirty_share: Option<f64>,
    /// What publishing copied per second of the interval.
    pub copied_bytes_per_s: Option<f64>,
    /// Memory behind all of its files.
    pub memory_bytes: u64,
    /// Memory behind its planes, a part of that.
    pub plane_bytes: u64,
    /// Memory of managed variables beside the planes, in the producer.
    pub working_bytes: u64,
    pub bound_bytes: Option<u64>,
    pub planes: Vec<PlaneSample>,
    pub holders: Vec<HolderSample>,
    /// What keeps its producer from publishing.
    #[serde(flatten)]
    pub want: Want,
}

impl RegionSample {
    /// Whether its producer lives, and then whether it can publish.
    pub fn state_of_producer(&self) -> &'static str {
        self.want.state().unwrap_or(self.state)
    }
}

/// Memory of a plane.
#[derive(Debug, Clone, Serialize)]
pub struct PlaneSample {
    pub index: usize,
    pub allocated_bytes: u64,
}

/// What only ever grows in a region.
#[derive(Debug, Clone, Copy)]
struct Counters {
    published: u64,
    skipped: u64,
    publish_ns: u64,
    copied_pages: u64,
}

impl Counters {
    fn of(info: &RegionInfo) -> Counters {
        Counters {
            published: info.published,
            skipped: info.skipped,
            publish_ns: info.publish_ns,
            copied_pages: info.copied_pages,
        }
    }

    /// What was added since `before`; none when the region is another one of the same name, which began anew.
    fn since(self, before: Counters) -> Option<Counters> {
        Some(Counters {
            published: self.published.checked_sub(before.published)?,
            skipped: self.skipped.checked_sub(before.skipped)?,
            publish_ns: self.publish_ns.checked_sub(before.publish_ns)?,
            copied_pages: self.copied_pages.checked_sub(before.copied_pages)?,
        })
    }
}

/// Looks at regions again and again.
pub struct Sampler {
    dir: PathBuf,
    only: Option<String>,
    before: HashMap<String, Counters>,
    before_ns: Option<u64>,
    traffic: Traffic,
}

impl Sampler {
    /// A sampler for all regions of `dir`, or for `only` one.
    pub fn new(dir: PathBuf, only: Option<String>) -> Sampler {
        Sampler { dir, only, before: HashMap::new(), before_ns: None, traffic: Traffic::default() }
    }

    /// Looks at the regions now.
    pub fn sample(&mut self) -> Result<Sample, Failure> {
        let infos = match &self.only {
            None => inspect::regions(&self.dir)?,
            Some(name) => match inspect::region(&self.dir, name) {
                Ok(info) => vec![info],
                Err(stillframe::Error::IsGroup { .. }) => {
                    inspect::group(&self.dir, name)?.map(|group| group.regions).unwrap_or_default()
                }
                // A region that was there may go: that is something to show, not an error.
                Err(stillframe::Error::NoRegion { .. }) if self.before_ns.is_some() => Vec::new(),
                Err(error) => return Err(error.into()),
            },
        };
        let time_ns = units::now_ns();
        let interval_ns = self.before_ns.map(|before_ns| time_ns.saturating_sub(before_ns).max(1));
        let before = std::mem::take(&mut self.before);
        let mut regions = Vec::new();
        for info in infos {
            let counters = Counters::of(&info);
            let gained = before.get(&info.name).and_then(|before| counters.since(*before));
            self.before.insert(info.name.clone(), counters);
            // Who holds what changes under way; a region that just went has no holders.
            let holders = inspect::holders(&self.dir, &info.name).unwrap_or_default();
            regions.push(RegionSample::new(info, gained, interval_ns, holders));
        }
        self.before_ns = Some(time_ns);
        let nodes = match self.only {
            None => self.traffic.sample(&self.dir, interval_ns),
            Some(_) => Vec::new(),
        };
        Ok(Sample { time_ns, interval_ms: interval_ns.map(|interval_ns| interval_ns as f64 / 1e6), regions, nodes })
    }

    /// The directory of the regions.
    pub fn dir(&self) -> &std::path::Path {
        &self.dir
    }
}

impl RegionSample {
    fn new(info: RegionInfo, gained: Option<Counters>, interval_ns: Option<u64>, holders: Vec<Holder>) -> RegionSample {
        let (state, _) = name_state(&info.state);
        let per_second = |count: u64| interval_ns.map(|interval_ns| count as f64 * 1e9 / interval_ns as f64);
        let newest = info.versions.iter().rev().find(|version| Some(version.version) == info.newest);
        let dirty_share = newest.map(|newest| newest.dirty_pages as f64 / newest.total_pages.max(1) as f64);
        let publishes = gained.filter(|gained| gained.published > 0);
        RegionSample {
            name: info.name.clone(),
            state,
            newest: info.newest,
            versions: info.versions.len(),
            producer_pid: (state == "live").then_some(info.producer_pid),
            tracker: info.tracker.map(|tracker| tracker.to_string()),
            publish_rate_hz: gained.and_then(|gained| per_second(gained.published)),
            publish_ms: publishes.map(|gained| gained.publish_ns as f64 / gained.published as f64 / 1e6),
            skipped: gained.map(|gained| gained.skipped),
            dirty_share,
            copied_bytes_per_s: gained.and_then(|gained| per_second(gained.copied_pages * PAGE_BYTES as u64)),
            memory_bytes: info.allocated_bytes,
            plane_bytes: plane_bytes(&info),
            working_bytes: if state == "live" { info.working_bytes } else { 0 },
            bound_bytes: info.bound_bytes,
            planes: info
                .planes
                .iter()
                .map(|plane| PlaneSample { index: plane.index, allocated_bytes: plane.allocated_bytes })
                .collect(),
            want: Want::of(&info, || holders.clone()),
            holders: holders.into_iter().map(HolderSample::new).collect(),
        }
    }
}
