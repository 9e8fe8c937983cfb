//! What the unit costs and saves in which memory for versions is taken: one region in pages and one in windows take turns.

use super::pattern::{Pattern, pages, write_pages};
use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::Result;
use measure::{PAGE_BYTES, median, seconds};
use serde_json::json;
use std::hint::black_box;
use stillframe::{Array, MEMORY_UNITS, MemoryUnit, Region};

/// Steps whose times are added up before a ratio is taken.
const BLOCK_STEPS: usize = 16;

/// A region of one managed array.
struct Subject {
    region: Region,
    variable: Array<u8>,
    version: u64,
}

impl Subject {
    fn create(setting: &Setting, unit: MemoryUnit) -> Result<Subject> {
        let options = Region::options().dir(setting.root()).keep(1).memory_unit(unit);
        let mut region = options.create(unit.name())?;
        let variable = region.array("data", &[setting.region_bytes])?;
        region.slice_mut(&variable).fill(1);
        Ok(Subject { region, variable, version: 0 })
    }

    /// Writes pages and publishes: the seconds of the publish.
    fn step(&mut self, dirty: &[u32]) -> Result<f64> {
        self.version += 1;
        write_pages(black_box(self.region.slice_mut(&self.variable)), dirty, self.version as u8);
        let mut outcome = Ok(());
        let time = seconds(|| outcome = self.region.publish(self.version).commit().map(drop));
        outcome?;
        Ok(time)
    }
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let patterns =
        [(Pattern::Stationary, 1.0), (Pattern::Block, 0.1), (Pattern::Random, 0.01), (Pattern::Random, 0.001)];
    patterns.into_iter().try_for_each(|(pattern, share)| compare(setting, report, pattern, share))
}

fn compare(setting: &Setting, report: &mut Report, pattern: Pattern, share: f64) -> Result<()> {
    let subjects = MEMORY_UNITS.map(|unit| Subject::create(setting, unit));
    let mut subjects = subjects.into_iter().collect::<Result<Vec<_>>>()?;
    let (settling, blocks) = (setting.repetitions(32, 4), setting.args.blocks.unwrap_or(setting.repetitions(7, 1)));
    let (mut ratios, mut sums, mut all) = (Vec::new(), [0.0; 2], [0.0; 2]);
    for step in 0..settling + blocks.max(1) * BLOCK_STEPS {
        let dirty = pages(pattern, share, setting.region_bytes / PAGE_BYTES, step as u64);
        for turn in 0..2 {
            let which = (step + turn) % 2;
            let time = subjects[which].step(&dirty)?;
            if step >= settling {
                sums[which] += time;
            }
        }
        if step >= settling && (step - settling) % BLOCK_STEPS == BLOCK_STEPS - 1 {
            ratios.push(sums[1] / sums[0]);
            all.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum);
            sums = [0.0; 2];
        }
    }
    let [small_ms, large_ms] = all.map(|seconds| seconds / (ratios.len() * BLOCK_STEPS) as f64 * 1e3);
    let bytes = |which: usize| subjects[which].region.statistics().plane_bytes;
    let case = json!({"pattern": pattern.to_string(), "dirty": share, "measures": "publish, large / small"});
    let detail =
        json!({"small_plane_bytes": bytes(0), "large_plane_bytes": bytes(1), "region_bytes": setting.region_bytes});
    let ratio = median(&mut ratios);
    report.add(Row { ratio, ..Row::new("memory-units", case, large_ms, "ms", small_ms).with(detail) })?;
    subjects.into_iter().try_for_each(|subject| Ok(subject.region.unlink()?))
}
