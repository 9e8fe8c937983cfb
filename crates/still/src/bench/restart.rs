//! From the begin of a program that goes on to the moment its arrays can be used.

use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::{Error, Result};
use measure::{MIB, Memcpy, PAGE_BYTES, median, seconds};
use serde_json::json;
use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use stillframe::{Array, Observer, Region};
use stillframe_checkpoint::{Origin, Recovery, SaveOptions, Saver};

const NAME: &str = "restart";
/// Share of the pages that a step writes, where it does not write all.
const SHARE: usize = 10;
/// Steps of the run before, so that the pages of a version lie where they do after many.
const STEPS: u64 = 24;

/// Which pages the steps of the run before wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    All,
    Clustered,
    Scattered,
}

const WRITTEN: [(Written, &str); 3] =
    [(Written::All, "all"), (Written::Clustered, "10 % clustered"), (Written::Scattered, "10 % scattered")];

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let small = (64 * MIB).min(setting.region_bytes);
    let mut memcpy = Memcpy::new(setting.region_bytes);
    let mut sizes = vec![small, setting.region_bytes];
    sizes.dedup();
    for bytes in sizes {
        for (written, words) in WRITTEN {
            let (mut memory, mut disk, mut copies) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..setting.repetitions(5, 1) {
                copies.push(memcpy.seconds(bytes));
                run_before(setting, bytes, written)?;
                // Where pages lie in the planes is no matter to the disk.
                let store = (written == Written::All).then(|| OnDisk::save(setting)).transpose()?;
                memory.push(restart(setting, bytes, None)?);
                if let Some(store) = store {
                    Region::options().dir(setting.root()).create(NAME)?.unlink()?;
                    store.forget()?;
                    disk.push(restart(setting, bytes, Some(&store.0))?);
                }
            }
            let copy_ms = median(&mut copies) * 1e3;
            for (from, times) in [("memory", memory), ("disk", disk)] {
                if !times.is_empty() {
                    let case = json!({"bytes": bytes, "from": from, "written": words});
                    report.add(row(case, &times, copy_ms))?;
                }
            }
        }
        Region::options().dir(setting.root()).create(NAME)?.unlink()?;
    }
    Ok(())
}

/// Seconds of a restart.
struct Times {
    create: f64,
    declare: f64,
    read: f64,
    write: f64,
    publish: f64,
}

fn row(case: serde_json::Value, times: &[Times], copy_ms: f64) -> Row {
    let of = |part: fn(&Times) -> f64| median(&mut times.iter().map(part).collect::<Vec<_>>()) * 1e3;
    let detail = json!({
        "create_ms": of(|times| times.create),
        "declare_ms": of(|times| times.declare),
        "first_read_ms": of(|times| times.read),
        "first_write_ms": of(|times| times.write),
        "first_publish_ms": of(|times| times.publish),
    });
    Row::new("restart", case, of(|times| times.create + times.declare), "ms", copy_ms).with(detail)
}

/// A run that writes so, publishes, and ends.
fn run_before(setting: &Setting, bytes: usize, written: Written) -> Result<()> {
    let mut region = Region::options().dir(setting.root()).fresh(true).create(NAME)?;
    let array: Array<u8> = region.array("data", &[bytes])?;
    let (pages, steps) = (bytes / PAGE_BYTES, if written == Written::All { 3 } else { STEPS });
    for step in 0..steps {
        let data = region.slice_mut(&array);
        let mut write = |page: usize| data[page * PAGE_BYTES..][..PAGE_BYTES].fill(step as u8 + 1);
        let shift = step as usize * 7;
        match written {
            _ if step == 0 => (0..pages).for_each(write),
            Written::All => (0..pages).for_each(write),
            Written::Clustered => {
                let count = pages.div_ceil(SHARE);
                (0..count).for_each(|page| write((shift * count / 3 + page) % pages));
            }
            Written::Scattered => {
                (0..pages).filter(|page| (page * 31 + shift).is_multiple_of(SHARE)).for_each(&mut write)
            }
        }
        region.publish(step + 1).commit()?;
    }
    Ok(())
}

fn restart(setting: &Setting, bytes: usize, store: Option<&Path>) -> Result<Times> {
    let region = Region::options().dir(setting.root());
    let mut options = Recovery::options().region(region);
    if let Some(store) = store {
        options = options.checkpoints(store);
    }
    let (region, create) = timed(|| options.open(NAME));
    let mut region = region?;
    if matches!(region.origin(), Origin::Checkpoint { .. }) != store.is_some() {
        return Err(Error::Wrong(format!("a restart that was to be measured was {}", region.origin())));
    }
    let (array, declare) = timed(|| {
        let array: Array<u8> = region.array("data", &[bytes])?;
        black_box(region.slice_mut(&array).as_mut_ptr());
        Ok::<_, Error>(array)
    });
    let array = array?;
    let data = region.slice_mut(&array);
    let read = seconds(|| {
        black_box(data.iter().step_by(PAGE_BYTES).fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
    });
    let write = seconds(|| data.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte ^= 1));
    let version = region.version().unwrap_or(0) + 1;
    let (published, publish) = timed(|| region.publish(version).commit());
    published?;
    Ok(Times { create, declare, read, write, publish })
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begin = std::time::Instant::now();
    let value = work();
    (value, begin.elapsed().as_secs_f64())
}

/// A directory of checkpoints on a disk.
struct OnDisk(PathBuf);

impl OnDisk {
    /// Saves the newest version.
    fn save(setting: &Setting) -> Result<OnDisk> {
        let store = OnDisk(setting.args.disk.join(format!("still-bench-restart-{}", std::process::id())));
        let snapshot = Observer::options().dir(setting.root()).open(NAME)?.newest()?;
        Saver::open(&store.0, SaveOptions::default())?.save(&snapshot, &|_| {})?;
        Ok(store)
    }

    /// Lets the kernel forget what it knows of the files, so that they are read from the disk.
    fn forget(&self) -> Result<()> {
        let failed = |error| Error::system(format!("reading {}", self.0.display()))(error);
        let mut dirs = vec![self.0.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let kind = entry.file_type().map_err(failed)?;
                if kind.is_dir() {
                    dirs.push(entry.path());
                } else if kind.is_file() {
                    drop_pages(&File::open(entry.path()).map_err(failed)?);
                }
            }
        }
        Ok(())
    }
}

#[allow(unsafe_code)]
fn drop_pages(file: &File) {
    // SAFETY: the call takes numbers only. Best effort: a file system without a disk keeps its pages.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
