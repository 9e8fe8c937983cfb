//! What the last looks showed, for the curves.

use super::sample::{RegionSample, Sample};
use std::collections::{HashMap, VecDeque};

/// Looks that are remembered: more than the widest terminal shows.
const LOOKS_MAX: usize = 512;

/// The curves of one region, the newest value first.
#[derive(Debug, Default, Clone)]
pub struct Curves {
    pub publish_rate_hz: VecDeque<f64>,
    pub dirty_share: VecDeque<f64>,
    pub publish_ms: VecDeque<f64>,
}

impl Curves {
    fn add(&mut self, region: &RegionSample) {
        let published = region.publish_rate_hz.is_some_and(|rate| rate > 0.0);
        push(&mut self.publish_rate_hz, region.publish_rate_hz.unwrap_or(0.0));
        // Without a publish nothing was found modified, whatever the last one had found.
        push(&mut self.dirty_share, region.dirty_share.filter(|_| published).unwrap_or(0.0));
        push(&mut self.publish_ms, region.publish_ms.unwrap_or(0.0));
    }
}

fn push(curve: &mut VecDeque<f64>, value: f64) {
    curve.push_front(value);
    curve.truncate(LOOKS_MAX);
}

/// The curves of all regions.
#[derive(Debug, Default)]
pub struct History {
    curves: HashMap<String, Curves>,
}

impl History {
    /// Adds a look, and forgets regions that are gone.
    pub fn add(&mut self, sample: &Sample) {
        self.curves.retain(|name, _| sample.regions.iter().any(|region| region.name == *name));
        for region in &sample.regions {
            self.curves.entry(region.name.clone()).or_default().add(region);
        }
    }

    /// The curves of the region called `name`.
    pub fn of(&self, name: &str) -> Curves {
        self.curves.get(name).cloned().unwrap_or_default()
    }
}
