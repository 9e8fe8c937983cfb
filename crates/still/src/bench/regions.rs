//! What a small region costs: memory, descriptors, and the time to make it and to open it.

use super::memory::Holding;
use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::{Error, Result};
use measure::{Memcpy, median, seconds};
use serde_json::{Value, json};
use std::hint::black_box;
use stillframe::{Arena, Array, Loaned, Observer, Region, Snapshot};

/// Bytes of the one variable that each region has.
const BYTES: usize = 64 << 10;
/// Regions that fit into the descriptors which a process has by default, 1024.
const REGIONS: usize = 100;
/// Bytes of an arena for each region: a chunk for the pages of each of two versions, and its share of the chunks with heads
/// and tables.
const ARENA_BYTES: u64 = (4 << 20) + (64 << 10);
const ARENA: &str = "pool";

/// Where the regions lie.
#[derive(Clone)]
enum Home {
    Directory,
    Arena(Arena),
}

impl Home {
    fn arena(setting: &Setting, regions: usize) -> Result<Home> {
        let options = Arena::options().dir(setting.root()).regions(regions as u32 + 8);
        Ok(Home::Arena(options.bytes(ARENA_BYTES * (regions as u64 + 8)).create(ARENA)?))
    }

    fn name(&self) -> &'static str {
        match self {
            Home::Directory => "directory",
            Home::Arena(_) => "arena",
        }
    }
}

/// The kind of the variable, and how it is written before the first publish.
#[derive(Clone, Copy)]
enum Kind {
    Loaned,
    Managed,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Loaned => "loaned",
            Kind::Managed => "managed",
        }
    }
}

enum Variable {
    Loaned(Loaned<u8>),
    Managed(Array<u8>),
}

/// Regions of one place, and what was measured of them.
struct Bench<'a> {
    setting: &'a Setting<'a>,
    home: Home,
    kind: Kind,
    memcpy: Memcpy,
    created: Vec<f64>,
    published: Vec<f64>,
    again: Vec<f64>,
    opened: Vec<f64>,
    held: Vec<f64>,
    copied: Vec<f64>,
    bytes: Vec<f64>,
    page_tables: Vec<f64>,
    descriptors: Vec<f64>,
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let repetitions = setting.repetitions(21, 3);
    for kind in [Kind::Loaned, Kind::Managed] {
        Bench::new(setting, Home::Directory, kind).run(REGIONS, repetitions)?.report(REGIONS, report)?;
        let home = Home::arena(setting, REGIONS)?;
        Bench::new(setting, home, kind).run(REGIONS, repetitions)?.report(REGIONS, report)?;
        remove_arena(setting)?;
    }
    // As many as a program has that keeps its objects in regions of their own.
    let many = setting.args.regions.unwrap_or(if setting.args.quick { 1000 } else { 16_000 });
    for kind in [Kind::Loaned, Kind::Managed] {
        let home = Home::arena(setting, many)?;
        Bench::new(setting, home, kind).run(many, 1)?.report(many, report)?;
        remove_arena(setting)?;
    }
    Ok(())
}

fn remove_arena(setting: &Setting) -> Result<()> {
    std::fs::remove_dir_all(setting.root().join(ARENA)).map_err(Error::system("remove the arena"))
}

impl<'a> Bench<'a> {
    fn new(setting: &'a Setting<'a>, home: Home, kind: Kind) -> Bench<'a> {
        let none = Vec::new;
        let (created, published, again, opened, held) = (none(), none(), none(), none(), none());
        let (copied, bytes, page_tables, descriptors) = (none(), none(), none(), none());
        let memcpy = Memcpy::new(BYTES);
        Bench {
            setting,
            home,
            kind,
            memcpy,
            created,
            published,
            again,
            opened,
            held,
            copied,
            bytes,
            page_tables,
            descriptors,
        }
    }

    fn run(mut self, count: usize, repetitions: usize) -> Result<Self> {
        let own = [std::process::id()];
        let names: Vec<String> = (0..count).map(|number| format!("regions-{number}")).collect();
        for _ in 0..repetitions {
            // One region is there before the others, with its observer, as is whatever a process has once.
            let mut first = self.create("first")?;
            publish(&mut first.0, &first.1, 1)?;
            let looking = self.open("first")?;
            let before = (Holding::of(self.setting, &own)?, count_descriptors()?);
            let mut regions = Vec::with_capacity(count);
            for name in &names {
                let mut made = None;
                let taken = seconds(|| made = Some(self.create(name)));
                self.created.push(taken * 1e6);
                let (mut region, variable) = made.ok_or(Error::Wrong("nothing was made".into()))??;
                let mut outcome = Ok(());
                self.published.push(seconds(|| outcome = publish(&mut region, &variable, 1)) * 1e6);
                outcome?;
                regions.push((region, variable));
                self.copied.push(self.memcpy.seconds(BYTES) * 1e6);
            }
            let after = (Holding::of(self.setting, &own)?, count_descriptors()?);
            let each = |before: u64, after: u64| after.saturating_sub(before) as f64 / count as f64;
            self.bytes.push(each(before.0.total(), after.0.total()));
            self.page_tables.push(each(before.0.page_tables, after.0.page_tables));
            self.descriptors.push(each(before.1, after.1));
            for name in &names {
                let mut found = None;
                let taken = seconds(|| found = Some(self.open(name)));
                self.opened.push(taken * 1e6);
                black_box(found.ok_or(Error::Wrong("nothing was opened".into()))??);
            }
            // In a directory, regions and what is held of them would take more descriptors than there are.
            if let Home::Arena(_) = self.home {
                self.hold_all(&names, &mut regions)?;
            }
            drop(looking);
            first.0.unlink()?;
            regions.into_iter().try_for_each(|(region, _)| region.unlink())?;
        }
        Ok(self)
    }

    /// Holds a version of every region at once, and publishes beside that.
    fn hold_all(&mut self, names: &[String], regions: &mut [(Region, Variable)]) -> Result<()> {
        let mut held = Vec::with_capacity(names.len());
        for name in names {
            let mut found = None;
            let taken = seconds(|| found = Some(self.open(name)));
            self.held.push(taken * 1e6);
            held.push(found.ok_or(Error::Wrong("nothing was opened".into()))??);
        }
        for (region, variable) in regions {
            let mut outcome = Ok(());
            self.again.push(seconds(|| outcome = publish(region, variable, 2)) * 1e6);
            outcome?;
        }
        Ok(())
    }

    fn create(&self, name: &str) -> Result<(Region, Variable)> {
        let options = Region::options().dir(self.setting.root()).threads(1);
        let options = match &self.home {
            Home::Directory => options,
            Home::Arena(arena) => options.arena(arena),
        };
        let mut region = options.create(name)?;
        let variable = match self.kind {
            Kind::Loaned => Variable::Loaned(region.loaned::<u8>("data", &[BYTES])?),
            Kind::Managed => Variable::Managed(region.array::<u8>("data", &[BYTES])?),
        };
        Ok((region, variable))
    }

    /// An observer and the newest version, read until its first byte.
    fn open(&self, name: &str) -> Result<(Observer, Snapshot)> {
        let options = Observer::options().dir(self.setting.root());
        let observer = match &self.home {
            Home::Directory => options.open(name)?,
            Home::Arena(_) => options.open(&format!("{ARENA}/{name}"))?,
        };
        let snapshot = observer.newest()?;
        black_box(snapshot.slice::<u8>("data")?.first());
        Ok((observer, snapshot))
    }

    fn report(mut self, count: usize, report: &mut Report) -> Result<()> {
        let (place, kind) = (self.home.name(), self.kind.name());
        let case = |measures: &str| -> Value {
            json!({"place": place, "kind": kind, "regions": count, "bytes": BYTES, "measures": measures})
        };
        let copy_us = median(&mut self.copied);
        let times = [
            ("create", self.created),
            ("first publish", self.published),
            ("open", self.opened),
            ("open, all held", self.held),
            ("publish, all held", self.again),
        ];
        for (measures, mut times) in times.into_iter().filter(|(_, times)| !times.is_empty()) {
            let p99_us = measure::p99(&mut times);
            let row = Row::new("regions", case(measures), median(&mut times), "us", copy_us);
            report.add(row.with(json!({ "p99_us": p99_us })))?;
        }
        let page_tables = median(&mut self.page_tables);
        let row = Row::new("regions", case("memory"), median(&mut self.bytes), "B", BYTES as f64);
        report.add(row.with(json!({ "page_tables": page_tables })))?;
        // Of descriptors there is no yardstick but the region that takes one.
        report.add(Row::new("regions", case("descriptors"), median(&mut self.descriptors), "", 1.0))
    }
}

fn publish(region: &mut Region, variable: &Variable, version: u64) -> Result<()> {
    match variable {
        Variable::Loaned(variable) => {
            let mut loan = region.loan(variable)?;
            loan.fill(1);
            loan.submit();
        }
        Variable::Managed(variable) => region.slice_mut(variable).fill(version as u8),
    }
    region.publish(version).commit()?;
    Ok(())
}

fn count_descriptors() -> Result<u64> {
    let entries = std::fs::read_dir("/proc/self/fd").map_err(Error::system("read /proc/self/fd"))?;
    Ok(entries.count() as u64)
}
