//! What tracking and publishing cost, relative to a `memcpy` of the whole region.

use super::pattern::{Pattern, pages, write_pages};
use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::Result;
use measure::{Memcpy, Memory, PAGE_BYTES, median, seconds};
use serde_json::json;
use std::hint::black_box;
use stillframe::{Array, Published, Region, Tracked};

/// Steps whose times are added up before a ratio is taken. Faults come in bursts, whenever the pages of a window are
/// armed again, and a block has to hold at least one whole rotation of that.
const BLOCK_STEPS: usize = 64;

/// Whose memory is tracked.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Memory that the region has allocated
    Managed,
    /// Memory that the application has allocated
    Tracked,
}

/// A region of one variable of either kind.
struct Subject {
    region: Region,
    variable: Variable,
}

enum Variable {
    Managed(Array<u8>),
    Tracked(Tracked<u8>, Memory),
}

impl Subject {
    fn create(setting: &Setting, threads: Option<usize>) -> Result<Subject> {
        let options = Region::options().dir(setting.root()).keep(1);
        let options = match threads {
            Some(threads) => options.threads(threads),
            None => options,
        };
        let mut region = options.create("publish")?;
        let variable = match setting.args.kind {
            Kind::Managed => Variable::Managed(region.array("data", &[setting.region_bytes])?),
            Kind::Tracked => Variable::Tracked(region.track("data")?, Memory::new(setting.region_bytes)),
        };
        let mut subject = Subject { region, variable };
        subject.memory().fill(1);
        Ok(subject)
    }

    fn memory(&mut self) -> &mut [u8] {
        match &mut self.variable {
            Variable::Managed(array) => self.region.slice_mut(array),
            Variable::Tracked(_, memory) => memory,
        }
    }

    fn publish(&mut self, version: u64) -> Result<Published> {
        let publication = self.region.publish(version);
        Ok(match &self.variable {
            Variable::Managed(_) => publication.commit()?,
            Variable::Tracked(variable, memory) => publication.tracked(variable, memory, &[memory.len()]).commit()?,
        })
    }
}

/// Sums over the steps of a block, in seconds.
#[derive(Default, Clone, Copy)]
struct Sums {
    tracked_write: f64,
    publish: f64,
    plain_write: f64,
    memcpy: f64,
    dirty_pages: f64,
    copied_pages: f64,
}

impl Sums {
    fn cost(&self) -> f64 {
        self.tracked_write - self.plain_write + self.publish
    }
}

struct Case {
    pattern: Pattern,
    share: f64,
    threads: Option<usize>,
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let args = setting.args;
    let mut memcpy = Memcpy::new(setting.region_bytes);
    let threads = args.threads.or(Some(1));
    if args.dirty.contains(&0.0) {
        report.add(nothing_dirty(setting, &mut memcpy, threads)?)?;
    }
    for &pattern in &args.pattern {
        for share in args.dirty.iter().filter(|percent| **percent > 0.0).map(|percent| percent / 100.0) {
            report.add(tracking(setting, &mut memcpy, Case { pattern, share, threads })?)?;
        }
    }
    if args.threads.is_none() && args.dirty.contains(&100.0) {
        report.add(default_threads(setting, &mut memcpy)?)?;
    }
    Ok(())
}

fn nothing_dirty(setting: &Setting, memcpy: &mut Memcpy, threads: Option<usize>) -> Result<Row> {
    let blocks = measure_blocks(setting, memcpy, &Case { pattern: Pattern::Stationary, share: 0.0, threads })?;
    let value = mean_ms(&blocks, |sums| sums.publish);
    let baseline = mean_ms(&blocks, |sums| sums.memcpy);
    let case = json!({"kind": kind_name(setting), "dirty": 0.0, "threads": threads});
    Ok(Row::new("publish", case, value, "ms", baseline).with(detail(&blocks, |sums| sums.publish / sums.memcpy)))
}

fn tracking(setting: &Setting, memcpy: &mut Memcpy, case: Case) -> Result<Row> {
    let blocks = measure_blocks(setting, memcpy, &case)?;
    let value = mean_ms(&blocks, Sums::cost);
    let baseline = mean_ms(&blocks, |sums| sums.memcpy);
    let ratio = median_of(&blocks, |sums| sums.cost() / sums.memcpy);
    let case = json!({"kind": kind_name(setting), "pattern": case.pattern.to_string(), "dirty": case.share,
                      "threads": case.threads});
    Ok(Row {
        ratio,
        ..Row::new("publish", case, value, "ms", baseline).with(detail(&blocks, |sums| sums.cost() / sums.memcpy))
    })
}

fn default_threads(setting: &Setting, memcpy: &mut Memcpy) -> Result<Row> {
    let blocks = measure_blocks(setting, memcpy, &Case { pattern: Pattern::Stationary, share: 1.0, threads: None })?;
    let value = mean_ms(&blocks, |sums| sums.publish);
    let baseline = mean_ms(&blocks, |sums| sums.memcpy);
    let ratio = median_of(&blocks, |sums| sums.publish / sums.memcpy);
    let case = json!({"kind": kind_name(setting), "dirty": 1.0, "threads": "default", "measures": "publish alone"});
    Ok(Row {
        ratio,
        ..Row::new("publish", case, value, "ms", baseline).with(detail(&blocks, |sums| sums.publish / sums.memcpy))
    })
}

/// Steps of the tracked array, which is written and published, take turns with steps of an equally large plain array,
/// which is written in the same way and copied whole.
fn measure_blocks(setting: &Setting, memcpy: &mut Memcpy, case: &Case) -> Result<Vec<Sums>> {
    let mut subject = Subject::create(setting, case.threads)?;
    let total = setting.region_bytes / PAGE_BYTES;
    // The intervals at which windows are armed again adapt by doubling, up to the length of a block.
    // With random pages the planes do not grow any more when every page was written a few times.
    let turns = if case.share > 0.0 { (4.0 / case.share) as usize } else { 0 };
    let settling = setting.repetitions(turns.clamp(150, 400), 40);
    let mut blocks = Vec::new();
    let mut sums = Sums::default();
    let measured = setting.args.blocks.unwrap_or(setting.repetitions(3, 1)).max(1) * BLOCK_STEPS;
    for step in 0..settling + measured {
        let dirty = pages(case.pattern, case.share, total, step as u64);
        let value = step as u8;
        let tracked_write = seconds(|| write_pages(black_box(subject.memory()), &dirty, value));
        let mut published = None;
        let publish = seconds(|| published = Some(subject.publish(step as u64 + 1)));
        let Some(published) = published.transpose()? else { continue };
        if step < settling {
            continue;
        }
        sums.tracked_write += tracked_write;
        sums.publish += publish;
        sums.dirty_pages += published.dirty_pages as f64;
        sums.copied_pages += published.copied_pages as f64;
        sums.plain_write += seconds(|| write_pages(black_box(&mut memcpy.source), &dirty, value));
        sums.memcpy += memcpy.seconds(setting.region_bytes);
        if (step - settling) % BLOCK_STEPS == BLOCK_STEPS - 1 {
            blocks.push(std::mem::take(&mut sums));
        }
    }
    subject.region.unlink()?;
    Ok(blocks)
}

fn median_of(blocks: &[Sums], value: impl Fn(&Sums) -> f64) -> f64 {
    median(&mut blocks.iter().map(value).collect::<Vec<_>>())
}

fn mean_ms(blocks: &[Sums], value: impl Fn(&Sums) -> f64) -> f64 {
    median_of(blocks, value) / BLOCK_STEPS as f64 * 1e3
}

fn detail(blocks: &[Sums], ratio: impl Fn(&Sums) -> f64) -> serde_json::Value {
    let ratios: Vec<f64> = blocks.iter().map(ratio).collect();
    json!({
        "publish_ms": mean_ms(blocks, |sums| sums.publish),
        "extra_write_ms": mean_ms(blocks, |sums| sums.tracked_write - sums.plain_write),
        "plain_write_ms": mean_ms(blocks, |sums| sums.plain_write),
        "dirty_pages": median_of(blocks, |sums| sums.dirty_pages) / BLOCK_STEPS as f64,
        "copied_pages": median_of(blocks, |sums| sums.copied_pages) / BLOCK_STEPS as f64,
        "ratio_min": ratios.iter().copied().fold(f64::INFINITY, f64::min),
        "ratio_max": ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "blocks": blocks.len(),
        "block_steps": BLOCK_STEPS,
    })
}

fn kind_name(setting: &Setting) -> &'static str {
    match setting.args.kind {
        Kind::Managed => "managed",
        Kind::Tracked => "tracked",
    }
}
