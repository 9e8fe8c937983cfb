//! What it costs to publish an attached fragment, beside a plain variable in a region of an arena.

use super::{Report, Setting, clear, objects};
use crate::bench::report::Row;
use crate::trial::measure::{MIB, PAGE_BYTES, median, seconds};
use crate::trial::{Error, Result};
use serde_json::json;
use std::hint::black_box;
use stillframe::{Arena, Array, Region};
use stillframe_object::WriteFragment;

/// Steps whose times are added up before a ratio is taken; see the benchmark `publish`.
const BLOCK_STEPS: usize = 64;

/// Blocks before those that count.
const SETTLING: usize = 3;

const ARENA: &str = "pool";

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    for bytes in [PAGE_BYTES, 64 << 10, MIB] {
        // A tenth of a page would be the page.
        let shares: &[f64] = if bytes == PAGE_BYTES { &[1.0] } else { &[0.1, 1.0] };
        for share in shares {
            for writers in [1, 2] {
                report.add(compare(setting, bytes, *share, writers)?)?;
            }
        }
    }
    Ok(())
}

fn compare(setting: &Setting, bytes: usize, share: f64, writers: usize) -> Result<Row> {
    let (mut fragments, mut plain) = (attach(setting, bytes, writers)?, plain(setting, bytes, writers)?);
    let mut ratios = Vec::new();
    let (mut subject_us, mut plain_us) = (Vec::new(), Vec::new());
    let mut version = 0;
    for block in 0..SETTLING + setting.repetitions(41, 5) {
        let (mut of_fragments, mut of_plain) = (0.0, 0.0);
        for step in 0..BLOCK_STEPS {
            version += 1;
            // Each goes first as often as the other.
            for turn in 0..2 {
                if (turn + step) % 2 == 0 {
                    of_fragments += publish_fragments(&mut fragments, share, version)?;
                } else {
                    of_plain += publish_plain(&mut plain, share, version)?;
                }
            }
        }
        if block >= SETTLING {
            ratios.push(of_fragments / of_plain);
            let calls = (BLOCK_STEPS * writers) as f64;
            subject_us.push(of_fragments / calls * 1e6);
            plain_us.push(of_plain / calls * 1e6);
        }
    }
    fragments.into_iter().try_for_each(WriteFragment::detach)?;
    plain.into_iter().try_for_each(|(region, _)| region.unlink())?;
    clear(setting.root())?;
    std::fs::remove_dir_all(setting.root().join(ARENA)).map_err(Error::system("remove the arena"))?;
    let case = json!({"part": "publish", "bytes": bytes, "dirty": share, "writers": writers});
    let row = Row::new("objects", case, median(&mut subject_us), "us", median(&mut plain_us));
    let ratio = median(&mut ratios);
    let detail = json!({ "ratio_min": ratios.first(), "ratio_max": ratios.last(), "blocks": ratios.len() });
    Ok(Row { ratio, ..row.with(detail) })
}

/// Fragments of one object, one behind the other.
fn attach(setting: &Setting, bytes: usize, writers: usize) -> Result<Vec<WriteFragment>> {
    let objects = objects(setting.root())?;
    let object = objects.create("publish", "var u [n] uint8").bind("n", (bytes * writers) as i64).create()?;
    let attach = |writer: usize| {
        let text = "{ var u [x:bytes] = u[x+first] }";
        let options = object.write(text).bind("bytes", bytes as i64).bind("first", (bytes * writer) as i64);
        Ok(options.attach()?)
    };
    (0..writers).map(attach).collect()
}

/// Regions with the options that those of small fragments have.
fn plain(setting: &Setting, bytes: usize, writers: usize) -> Result<Vec<(Region, Array<u8>)>> {
    let arena = Arena::options().dir(setting.root()).bytes(1 << 30).regions(64).create(ARENA)?;
    let create = |writer: usize| {
        let mut region = Region::options().arena(&arena).keep(1).threads(1).create(&format!("plain-{writer}"))?;
        let array = region.array::<u8>("u", &[bytes])?;
        Ok((region, array))
    };
    (0..writers).map(create).collect()
}

/// Writes a share of the pages, equally far from each other.
fn write(memory: &mut [u8], share: f64, version: u64) {
    let every = (1.0 / share).round() as usize;
    for page in black_box(memory).chunks_mut(PAGE_BYTES).step_by(every) {
        page.fill(version as u8);
    }
}

fn publish_fragments(fragments: &mut [WriteFragment], share: f64, version: u64) -> Result<f64> {
    for fragment in &mut *fragments {
        write(fragment.bytes_mut()?, share, version);
    }
    let mut outcome = Ok(());
    let elapsed = seconds(|| {
        outcome = fragments.iter_mut().try_for_each(|fragment| fragment.publish(version).map(drop));
    });
    outcome?;
    Ok(elapsed)
}

fn publish_plain(regions: &mut [(Region, Array<u8>)], share: f64, version: u64) -> Result<f64> {
    for (region, array) in &mut *regions {
        write(region.slice_mut(array), share, version);
    }
    let mut outcome = Ok(());
    let elapsed = seconds(|| {
        outcome = regions.iter_mut().try_for_each(|(region, _)| region.publish(version).commit().map(drop));
    });
    outcome?;
    Ok(elapsed)
}
