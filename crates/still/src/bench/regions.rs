//! What a small region costs: memory, descriptors, and the time to make it and to open it.

use super::memory::Holding;
use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::{Error, Result};
use measure::{Memcpy, median, seconds};
use serde_json::json;
use std::hint::black_box;
use stillframe::{Loaned, Observer, Region, Snapshot};

/// Bytes of the one variable that each region has.
const BYTES: usize = 64 << 10;
/// Regions that fit into the descriptors which a process has by default, 1024.
const REGIONS: usize = 100;

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let mut memcpy = Memcpy::new(BYTES);
    let (mut created, mut published, mut opened, mut copied) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut taken_bytes, mut descriptors) = (Vec::new(), Vec::new());
    for _ in 0..setting.repetitions(21, 3) {
        let before = (Holding::of(setting, &[std::process::id()])?, count_descriptors()?);
        let mut regions = Vec::with_capacity(REGIONS);
        for number in 0..REGIONS {
            let name = format!("regions-{number}");
            let mut made = None;
            created.push(seconds(|| made = Some(create(setting, &name))) * 1e6);
            let (mut region, variable) = made.ok_or(Error::Wrong("nothing was made".into()))??;
            let mut outcome = Ok(());
            published.push(seconds(|| outcome = publish(&mut region, &variable)) * 1e6);
            outcome?;
            regions.push(region);
            copied.push(memcpy.seconds(BYTES) * 1e6);
        }
        let after = (Holding::of(setting, &[std::process::id()])?, count_descriptors()?);
        taken_bytes.push((after.0.total().saturating_sub(before.0.total())) as f64 / REGIONS as f64);
        descriptors.push((after.1.saturating_sub(before.1)) as f64 / REGIONS as f64);
        for number in 0..REGIONS {
            let name = format!("regions-{number}");
            let mut found = None;
            opened.push(seconds(|| found = Some(open(setting, &name))) * 1e6);
            black_box(found.ok_or(Error::Wrong("nothing was opened".into()))??);
        }
        regions.into_iter().try_for_each(Region::unlink)?;
    }
    let copy_us = median(&mut copied);
    for (measures, mut times) in [("create", created), ("first publish", published), ("open", opened)] {
        let p99_us = measure::p99(&mut times);
        let row = Row::new("regions", case(measures), median(&mut times), "us", copy_us);
        report.add(row.with(json!({ "p99_us": p99_us })))?;
    }
    report.add(Row::new("regions", case("memory"), median(&mut taken_bytes), "B", BYTES as f64))?;
    // Of descriptors there is no yardstick but the region that takes one.
    report.add(Row::new("regions", case("descriptors"), median(&mut descriptors), "", 1.0))
}

fn case(measures: &str) -> serde_json::Value {
    json!({"place": "directory", "bytes": BYTES, "measures": measures})
}

fn create(setting: &Setting, name: &str) -> Result<(Region, Loaned<u8>)> {
    let mut region = Region::options().dir(setting.root()).threads(1).create(name)?;
    let variable = region.loaned::<u8>("data", &[BYTES])?;
    Ok((region, variable))
}

fn publish(region: &mut Region, variable: &Loaned<u8>) -> Result<()> {
    let mut loan = region.loan(variable)?;
    loan.fill(1);
    loan.submit();
    region.publish(1).commit()?;
    Ok(())
}

/// An observer and the newest version, read until its first byte.
fn open(setting: &Setting, name: &str) -> Result<(Observer, Snapshot)> {
    let observer = Observer::options().dir(setting.root()).open(name)?;
    let snapshot = observer.newest()?;
    black_box(snapshot.slice::<u8>("data")?.first());
    Ok((observer, snapshot))
}

fn count_descriptors() -> Result<usize> {
    let entries = std::fs::read_dir("/proc/self/fd").map_err(Error::system("read /proc/self/fd"))?;
    Ok(entries.count())
}
