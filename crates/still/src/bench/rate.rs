//! How often a small region can be published.

use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::{Result, host::Pin};
use measure::{Memcpy, PAGE_BYTES, median, seconds};
use serde_json::json;
use std::hint::black_box;
use stillframe::Region;

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let _pin = Pin::to(0);
    let publishes = setting.repetitions(5_000, 500);
    let mut memcpy = Memcpy::new(PAGE_BYTES);
    let mut region = Region::options().dir(setting.root()).keep(1).threads(1).create("rate")?;
    let array = region.array::<u8>("data", &[PAGE_BYTES])?;
    let mut version = 0;
    let (mut rates, mut copies) = (Vec::new(), Vec::new());
    for _ in 0..setting.repetitions(21, 3) {
        let mut outcome = Ok(());
        let elapsed = seconds(|| {
            for _ in 0..publishes {
                version += 1;
                black_box(region.slice_mut(&array)).fill(version as u8);
                if let Err(error) = region.publish(version).commit() {
                    outcome = Err(error);
                    return;
                }
            }
        });
        outcome?;
        rates.push(publishes as f64 / elapsed);
        let elapsed = (0..publishes).map(|_| memcpy.seconds(PAGE_BYTES)).sum::<f64>();
        copies.push(publishes as f64 / elapsed);
    }
    region.unlink()?;
    let case = json!({"bytes": PAGE_BYTES, "threads": 1});
    report.add(Row::new("rate", case, median(&mut rates), "1/s", median(&mut copies)))?;
    Ok(())
}
