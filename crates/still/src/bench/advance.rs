//! From one version to the next, for an observer that already reads the region.

use super::pattern::Pattern;
use super::producer::Producer;
use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::{Result, child::PATIENCE};
use measure::{MIB, Memcpy, median};
use serde_json::json;
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;
use stillframe::{Observer, Snapshot};

/// How the observer reaches the bytes.
#[derive(Clone, Copy)]
enum Access {
    /// Piece by piece, where they lie.
    Chunks,
    /// As one array, which is brought along from version to version.
    View,
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let whole = setting.region_bytes;
    let mut sizes = vec![(16 * MIB).min(whole / 16), (256 * MIB).min(whole / 4), whole];
    sizes.dedup();
    let mut memcpy = Memcpy::new(whole);
    for bytes in sizes {
        let shares: &[f64] = if bytes == whole { &[0.001, 0.01, 0.1] } else { &[0.01] };
        let mut producer = Producer::start(setting, "advance", bytes)?;
        for &share in shares {
            measure_case(setting, report, &mut memcpy, &mut producer, bytes, share)?;
        }
    }
    Ok(())
}

fn measure_case(
    setting: &Setting,
    report: &mut Report,
    memcpy: &mut Memcpy,
    producer: &mut Producer,
    bytes: usize,
    share: f64,
) -> Result<()> {
    let observer = Observer::options().dir(setting.root()).open("advance")?;
    let (mut copied, mut changed_bytes, mut pieces) = (Vec::new(), Vec::new(), 0);
    let mut seconds = Vec::new();
    let warming = 8;
    for access in [Access::Chunks, Access::View] {
        let (mut last, mut times) = (observer.newest()?, Vec::new());
        for round in 0..warming + setting.repetitions(31, 5) {
            producer.step(Pattern::Random, share)?;
            let start = Instant::now();
            let (changed, sum) = advance(&observer, &mut last, access)?;
            let elapsed = start.elapsed().as_secs_f64();
            black_box(sum);
            if round >= warming {
                times.push(elapsed);
                changed_bytes.push(changed as f64);
            }
            copied.push(memcpy.seconds(bytes));
        }
        seconds.push(times);
        pieces = last.chunks("data")?.count();
    }
    let copy_us = median(&mut copied) * 1e6;
    let changed_bytes = median(&mut changed_bytes);
    for (access, mut times) in ["chunks", "view"].into_iter().zip(seconds) {
        let case = json!({"bytes": bytes, "changed": share, "access": access});
        let detail = json!({"changed_bytes": changed_bytes, "pieces": pieces, "p99_us": measure::p99(&mut times) * 1e6,
                            "memcpy_changed_us": copy_us * changed_bytes / bytes as f64});
        report.add(Row::new("advance", case, median(&mut times) * 1e6, "us", copy_us).with(detail))?;
    }
    Ok(())
}

/// Goes on from `last` to the newest version and reads what changed. Returns its bytes, and their sum.
fn advance(observer: &Observer, last: &mut Snapshot, access: Access) -> Result<(usize, u64)> {
    let next = observer.newest_after(Some(last.version()), Some(PATIENCE))?;
    let changed = next.changed(last, "data")?;
    let sum = match access {
        Access::Chunks => {
            *last = next;
            sum_chunks(last, &changed)?
        }
        Access::View => {
            last.advance(next)?;
            let bytes = last.slice::<u8>("data")?;
            changed.iter().fold(0, |total: u64, range| total.wrapping_add(sum_words(&bytes[range.clone()])))
        }
    };
    Ok((changed.iter().map(|range| range.len()).sum(), sum))
}

/// Adds up the words in `ranges`, where they lie.
fn sum_chunks(snapshot: &Snapshot, ranges: &[Range<usize>]) -> Result<u64> {
    let mut total = 0u64;
    for range in ranges {
        for chunk in snapshot.chunks_in("data", range.clone())? {
            total = total.wrapping_add(sum_words(chunk.bytes));
        }
    }
    Ok(total)
}

/// Adds up `bytes` as words, which reads each of them once. Ranges are whole pages, so no byte is left over.
fn sum_words(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0, |total, word| total.wrapping_add(u64::from_ne_bytes(*word)))
}
