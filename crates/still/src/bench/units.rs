//! What reserved large pages change for a publish of a tracked array: one in small pages and one in large ones take turns.

use super::pattern::{Pattern, pages, write_pages};
use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::host::PoolMemory;
use crate::trial::{Error, Result};
use measure::{Memory, PAGE_BYTES, median, seconds};
use serde_json::json;
use std::hint::black_box;
use std::ops::DerefMut;
use std::path::PathBuf;
use stillframe::{Arena, CopyUnit, Region, Tracked};
use stillframe_pages::Pool;
use stillframe_pages::supply::System;

/// Steps whose times are added up before a ratio is taken: in small pages, all windows are armed once in so many.
const BLOCK_STEPS: usize = 64;

/// A large page.
const LARGE_BYTES: usize = 2 * measure::MIB;

/// A region of one tracked array.
struct Subject {
    region: Region,
    variable: Tracked<u8>,
    memory: Box<dyn DerefMut<Target = [u8]>>,
    version: u64,
    /// The directory and the name of the arena of versions in large pages.
    arena: Option<(PathBuf, String)>,
}

/// Where a subject's array and versions lie.
#[derive(Clone, Copy, PartialEq)]
enum Pages {
    Small,
    /// The array in large pages.
    Array(CopyUnit),
    /// Its versions, too.
    All,
}

/// Seconds of a step.
#[derive(Default, Clone, Copy)]
struct Times {
    write: f64,
    publish: f64,
}

impl Times {
    fn all(&self) -> f64 {
        self.write + self.publish
    }

    fn add(&mut self, other: Times) {
        self.write += other.write;
        self.publish += other.publish;
    }
}

impl Subject {
    fn create(setting: &Setting, pool: &Pool, bytes: usize, pages: Pages) -> Result<Subject> {
        let mut options = Region::options().keep(1);
        let name = format!("units-{}", std::process::id());
        let mut place = None;
        options = match pages {
            Pages::All => {
                // Two versions, and one that is being made.
                let arena = Arena::options().dir(&pool.mount.path).bytes(4 * bytes as u64).regions(8).create(&name)?;
                place = Some((pool.mount.path.clone(), name));
                options.arena(&arena)
            }
            Pages::Array(unit) => options.dir(setting.root()).copy_unit(unit),
            Pages::Small => options.dir(setting.root()),
        };
        let mut region = options.create(if pages == Pages::Small { "small" } else { "large" })?;
        let variable = region.track("data")?;
        let memory: Box<dyn DerefMut<Target = [u8]>> = match pages {
            Pages::Small => Box::new(Memory::small(bytes)),
            _ => {
                let file = pool.file().map_err(|error| Error::Usage(error.to_string()))?;
                Box::new(PoolMemory::map(&file, bytes)?)
            }
        };
        let mut subject = Subject { region, variable, memory, version: 0, arena: place };
        subject.memory.fill(1);
        Ok(subject)
    }

    fn write(&mut self, dirty: &[u32]) -> f64 {
        let value = self.version as u8;
        seconds(|| write_pages(black_box(&mut self.memory), dirty, value))
    }

    fn publish(&mut self) -> Result<f64> {
        self.version += 1;
        let Subject { region, variable, memory, version, .. } = self;
        let mut outcome = Ok(());
        let time = seconds(|| {
            let publication = region.publish(*version).tracked(variable, memory, &[memory.len()]);
            outcome = publication.commit().map(drop);
        });
        outcome?;
        Ok(time)
    }

    fn step(&mut self, dirty: &[u32]) -> Result<Times> {
        Ok(Times { write: self.write(dirty), publish: self.publish()? })
    }

    fn end(self) -> Result<()> {
        self.region.unlink()?;
        if let Some((dir, name)) = self.arena {
            stillframe::inspect::remove(&dir, &name, false)?;
        }
        Ok(())
    }
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let bytes = setting.region_bytes.next_multiple_of(LARGE_BYTES);
    let name = &setting.args.pool;
    // An array, or one and its versions.
    let (least, most) = (bytes as u64, 6 * bytes as u64);
    let system = System::default();
    let found = Pool::find(&system, name).and_then(|pool| Ok((pool.size(&system)?, pool)));
    let pool = match found {
        Ok((size, pool)) if size.free_bytes >= least => pool,
        found => {
            let why = match found {
                Ok((size, _)) => format!("{} MiB of it are free", size.free_bytes >> 20),
                Err(error) => error.to_string(),
            };
            let advice = format!("sudo still pages reserve {}M --name {name}", most >> 20);
            eprintln!("units: left out, for it needs {} MiB of the pool '{name}': {why}; {advice}", least >> 20);
            return Ok(());
        }
    };
    let has_room = pool.size(&system).is_ok_and(|size| size.free_bytes >= most);
    for (case, pages) in [("array", Pages::Array(CopyUnit::Learned)), ("array and versions", Pages::All)] {
        if pages == Pages::All && !has_room {
            eprintln!("units: versions in large pages are left out, for these need {} MiB in all", most >> 20);
            continue;
        }
        steps(setting, report, &pool, (case, pages), (Pattern::Stationary, 1.0))?;
        first_step(setting, report, &pool, (case, pages))?;
    }
    for unit in [CopyUnit::Learned, CopyUnit::Small, CopyUnit::Large] {
        for share in [0.001, 0.01, 0.1] {
            let case = format!("array, {unit}");
            steps(setting, report, &pool, (&case, Pages::Array(unit)), (Pattern::Random, share))?;
        }
    }
    Ok(())
}

/// Steps that write a share of the pages and publish: writing and publishing in all.
fn steps(
    setting: &Setting,
    report: &mut Report,
    pool: &Pool,
    (name, large): (&str, Pages),
    (pattern, share): (Pattern, f64),
) -> Result<()> {
    let bytes = setting.region_bytes.next_multiple_of(LARGE_BYTES);
    let mut subjects = [Pages::Small, large]
        .into_iter()
        .map(|pages| Subject::create(setting, pool, bytes, pages))
        .collect::<Result<Vec<_>>>()?;
    let (settling, blocks) = (setting.repetitions(150, 10), setting.args.blocks.unwrap_or(setting.repetitions(3, 1)));
    let block_steps = setting.repetitions(BLOCK_STEPS, 8);
    let (mut ratios, mut sums, mut all) = (Vec::new(), [Times::default(); 2], [Times::default(); 2]);
    for step in 0..settling + blocks.max(1) * block_steps {
        let dirty = pages(pattern, share, bytes / PAGE_BYTES, step as u64);
        for turn in 0..2 {
            let which = (step + turn) % 2;
            let times = subjects[which].step(&dirty)?;
            if step >= settling {
                sums[which].add(times);
            }
        }
        if step >= settling && (step - settling) % block_steps == block_steps - 1 {
            ratios.push(sums[1].all() / sums[0].all());
            all.iter_mut().zip(&sums).for_each(|(all, sums)| all.add(*sums));
            sums = [Times::default(); 2];
        }
    }
    let count = (ratios.len() * block_steps) as f64;
    let ms = |seconds: f64| seconds / count * 1e3;
    let case = json!({"large": name, "pattern": pattern.to_string(), "dirty": share, "measures": "write and publish"});
    let detail = json!({
        "write_ms": ms(all[1].write), "publish_ms": ms(all[1].publish),
        "small_write_ms": ms(all[0].write), "small_publish_ms": ms(all[0].publish),
        "copied_pages": subjects[1].region.statistics().copied_pages / subjects[1].version.max(1),
        "small_copied_pages": subjects[0].region.statistics().copied_pages / subjects[0].version.max(1),
    });
    let ratio = median(&mut ratios);
    report.add(Row { ratio, ..Row::new("units", case, ms(all[1].all()), "ms", ms(all[0].all())).with(detail) })?;
    subjects.into_iter().try_for_each(Subject::end)
}

/// The time in which all pages are written after a publish that armed all of them.
fn first_step(setting: &Setting, report: &mut Report, pool: &Pool, (name, large): (&str, Pages)) -> Result<()> {
    let bytes = setting.region_bytes.next_multiple_of(LARGE_BYTES);
    let all: Vec<u32> = (0..(bytes / PAGE_BYTES) as u32).collect();
    let (mut ratios, mut times) = (Vec::new(), [Vec::new(), Vec::new()]);
    for round in 0..setting.repetitions(11, 3) {
        let mut took = [0.0; 2];
        for turn in 0..2 {
            let which = (round + turn) % 2;
            let mut subject = Subject::create(setting, pool, bytes, [Pages::Small, large][which])?;
            subject.publish()?;
            took[which] = subject.write(&all);
            subject.end()?;
        }
        ratios.push(took[1] / took[0]);
        times.iter_mut().zip(took).for_each(|(times, took)| times.push(took * 1e3));
    }
    let [mut small, mut large] = times;
    let case = json!({"large": name, "dirty": 1.0, "measures": "write after arming"});
    let ratio = median(&mut ratios);
    report.add(Row { ratio, ..Row::new("units", case, median(&mut large), "ms", median(&mut small)) })
}
