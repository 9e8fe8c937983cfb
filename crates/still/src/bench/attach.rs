//! From opening a region to the first byte of a snapshot.

use super::producer::Producer;
use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::Result;
use measure::{MIB, Memcpy, median, seconds};
use serde_json::json;
use std::hint::black_box;
use stillframe::Observer;

/// Attachments between two copies. The median of many is that of a machine that does this now and then, and the copies
/// in between keep the caches from holding nothing but the region.
const ATTACHMENTS: usize = 8;

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let small = (16 * MIB).min(setting.region_bytes);
    let mut memcpy = Memcpy::new(setting.region_bytes);
    for bytes in [small, setting.region_bytes] {
        let _producer = Producer::start(setting, "attach", bytes)?;
        let (mut chunked, mut viewed, mut copied) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..setting.repetitions(25, 3) {
            copied.push(memcpy.seconds(bytes));
            for _ in 0..ATTACHMENTS {
                chunked.push(attach_chunked(setting)?);
                viewed.push(attach_viewed(setting)?);
            }
        }
        let copy_us = median(&mut copied) * 1e6;
        for (access, mut times) in [("chunks", chunked), ("view", viewed)] {
            let case = json!({"bytes": bytes, "access": access});
            let p99_us = measure::p99(&mut times) * 1e6;
            let row = Row::new("attach", case, median(&mut times) * 1e6, "us", copy_us);
            report.add(row.with(json!({"p99_us": p99_us})))?;
        }
    }
    Ok(())
}

fn attach_chunked(setting: &Setting) -> Result<f64> {
    let mut first = Ok(None);
    let elapsed = seconds(|| {
        first = open(setting).and_then(|(_observer, snapshot)| {
            Ok(snapshot.chunks("data")?.next().and_then(|chunk| chunk.bytes.first().copied()))
        });
    });
    black_box(first?);
    Ok(elapsed)
}

fn attach_viewed(setting: &Setting) -> Result<f64> {
    let mut first = Ok(None);
    let elapsed = seconds(|| {
        first = open(setting).and_then(|(_observer, snapshot)| Ok(snapshot.slice::<u8>("data")?.first().copied()));
    });
    black_box(first?);
    Ok(elapsed)
}

fn open(setting: &Setting) -> Result<(Observer, stillframe::Snapshot)> {
    let observer = Observer::options().dir(setting.root()).open("attach")?;
    let snapshot = observer.newest()?;
    Ok((observer, snapshot))
}
