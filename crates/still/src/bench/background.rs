//! How long a publish in the background holds the program up, relative to a `memcpy` of the whole region.

use super::pattern::{Pattern, pages, write_pages};
use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::Result;
use measure::{Memcpy, Memory, median};
use serde_json::json;
use std::time::{Duration, Instant};
use stillframe::{Region, Tracked};

/// Time that the program works between the start and the end, as a multiple of the time of a memcpy: enough for one thread
/// that has a processor to itself.
const WORK: f64 = 4.0;

/// Seconds that parts of a publish took.
struct Times {
    start: f64,
    finish: f64,
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let mut memcpy = Memcpy::new(setting.region_bytes);
    let mut memory = Memory::new(setting.region_bytes);
    let mut region = Region::options().dir(setting.root()).keep(1).threads(2).create("background")?;
    let data = region.track::<u8>("data")?;
    let mut version = 0;
    let mut copy_s: Vec<f64> = (0..5).map(|_| memcpy.seconds(setting.region_bytes)).collect();
    let work = Duration::from_secs_f64(median(&mut copy_s) * WORK);
    // The first publishes make planes, and learn which pages are written every time.
    for dirty in [1.0, 0.0] {
        let (mut all, mut copies) = (Vec::new(), Vec::new());
        let settling = setting.repetitions(20, 8);
        for round in 0..settling + setting.repetitions(21, 5) {
            version += 1;
            if dirty > 0.0 {
                memory.fill(version as u8);
            }
            let times = publish(&mut region, &data, &memory, version, work)?;
            if round >= settling {
                all.push(times);
                copies.push(memcpy.seconds(setting.region_bytes));
            }
        }
        let copy_ms = median(&mut copies) * 1e3;
        for (part, time) in [("start", (|t| t.start) as fn(&Times) -> f64), ("finish", |t| t.finish)] {
            let mut times: Vec<f64> = all.iter().map(time).collect();
            let case = json!({"call": part, "dirty": dirty, "work": WORK});
            let detail = json!({"p99_ms": measure::p99(&mut times) * 1e3});
            report.add(Row::new("background", case, median(&mut times) * 1e3, "ms", copy_ms).with(detail))?;
        }
    }
    region.unlink()?;
    // A fork walks over all memory of the process.
    drop((memory, memcpy));
    guard(setting, report, work)
}

/// A program that writes a hundredth of its pages while the others are published.
struct Program {
    region: Region,
    data: Tracked<u8>,
    memory: Memory,
    version: u64,
}

impl Program {
    fn new(setting: &Setting) -> Result<Program> {
        let mut region = Region::options().dir(setting.root()).keep(1).threads(2).create("guarded")?;
        let data = region.track("data")?;
        Ok(Program { region, data, memory: Memory::new(setting.region_bytes), version: 0 })
    }

    /// Seconds of a step in which all pages are written, then published in the background while the program works, and a
    /// hundredth of them is written once more: meanwhile if that is guarded, else when all is published.
    fn step(&mut self, guarded: bool, work: Duration) -> Result<f64> {
        let begin = Instant::now();
        self.version += 1;
        let Program { region, data, memory, version } = self;
        memory.fill(*version as u8);
        let publication = region.publish(*version).tracked(data, memory, &[memory.len()]);
        let written = pages(Pattern::Random, 0.01, memory.len() / measure::PAGE_BYTES, *version);
        if guarded {
            publication.start_guarded()?;
            write_pages(memory, &written, 1);
            busy(work);
            region.publish_finish()?;
        } else {
            publication.commit_while(|| busy(work))?;
            write_pages(memory, &written, 1);
        }
        Ok(begin.elapsed().as_secs_f64())
    }

    /// Seconds of the second of two such steps. What the first of them meets is left by the other kind.
    fn second_step(&mut self, guarded: bool, work: Duration) -> Result<f64> {
        self.step(guarded, work)?;
        self.step(guarded, work)
    }
}

/// Computes for this time.
fn busy(time: Duration) {
    measure::spin_until(time, || false);
}

fn guard(setting: &Setting, report: &mut Report, work: Duration) -> Result<()> {
    let mut program = Program::new(setting)?;
    let (mut times, mut plain_times) = (Vec::new(), Vec::new());
    let settling = setting.repetitions(6, 2);
    for round in 0..settling + setting.repetitions(21, 5) {
        let (time, plain_time) = (program.second_step(true, work)?, program.second_step(false, work)?);
        if round >= settling {
            times.push(time);
            plain_times.push(plain_time);
        }
    }
    let mut ratios: Vec<f64> = times.iter().zip(&plain_times).map(|(time, plain)| time / plain).collect();
    let case = json!({"call": "whole step, guarded", "written": 0.01, "work": WORK});
    let row = Row::new("background", case, median(&mut times) * 1e3, "ms", median(&mut plain_times) * 1e3);
    report.add(Row { ratio: median(&mut ratios), ..row })?;
    Ok(program.region.unlink()?)
}

fn publish(region: &mut Region, data: &Tracked<u8>, memory: &[u8], version: u64, work: Duration) -> Result<Times> {
    let begin = Instant::now();
    let publication = region.publish(version).tracked(data, memory, &[memory.len()]);
    let ((started, worked), _) = publication.commit_while(|| {
        let started = begin.elapsed();
        std::thread::sleep(work);
        (started, begin.elapsed())
    })?;
    Ok(Times { start: started.as_secs_f64(), finish: (begin.elapsed() - worked).as_secs_f64() })
}
