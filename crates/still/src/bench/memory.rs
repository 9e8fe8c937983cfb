//! How much memory a producer, an observer and their region take together.
//!
//! A page of a region's files that several processes map is one page of memory, and it is in the file system's account
//! whether or not anybody maps it. So the files are counted once, by the blocks they have been given, and the processes
//! by what else they hold: anonymous memory, and file pages (of the executable and libraries) shared out proportionally.
//! The kernel reports those as `Pss_Anon` and `Pss_File` and keeps shared memory apart from both as `Pss_Shmem`, which is
//! left out here because the blocks have counted it.

use super::pattern::Pattern;
use super::producer::Producer;
use super::report::{Report, Row};
use super::{CHILD_COMMAND, Setting};
use crate::trial::child::PATIENCE;
use crate::trial::{Child, Error, Parent, Result};
use serde_json::json;
use stillframe::{Observer, Snapshot};

/// What the reading process needs to know.
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// Name of the region
    name: String,
}

/// Bytes by where they are, at one moment.
#[derive(Clone, Copy, Default)]
pub(super) struct Holding {
    anonymous: u64,
    executables: u64,
    region_files: u64,
    pub(super) page_tables: u64,
}

impl Holding {
    /// What these processes and the files below the benchmark's root take.
    pub(super) fn of(setting: &Setting, processes: &[u32]) -> Result<Holding> {
        let mut sum = Holding { region_files: setting.place.allocated_bytes(), ..Holding::default() };
        for pid in processes {
            let rollup = read(&format!("/proc/{pid}/smaps_rollup"))?;
            sum.anonymous += field_bytes(&rollup, "Pss_Anon:");
            sum.executables += field_bytes(&rollup, "Pss_File:");
            sum.page_tables += field_bytes(&read(&format!("/proc/{pid}/status"))?, "VmPTE:");
        }
        Ok(sum)
    }

    pub(super) fn total(&self) -> u64 {
        self.anonymous + self.executables + self.region_files
    }
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    for pattern in [Pattern::Block, Pattern::Stationary] {
        let share = 0.1;
        let mut producer = Producer::start(setting, "memory", setting.region_bytes)?;
        let mut reader = Child::start(setting.root(), &[CHILD_COMMAND, "reader", "memory"])?;
        let settling = setting.repetitions(100, 70);
        let mut largest = Holding::default();
        for step in 0..settling + 16 {
            let [version, _] = producer.step(pattern, share)?;
            // The reader still holds the version before, so this is the moment when most versions are alive.
            let before = Holding::of(setting, &[producer.pid(), reader.pid()])?;
            let seen = reader.ask("advance")?;
            if seen != version.to_string() {
                return Err(Error::Wrong(format!("the observer saw version {seen} when {version} was the newest")));
            }
            let after = Holding::of(setting, &[producer.pid(), reader.pid()])?;
            if step >= settling {
                largest = [largest, before, after].into_iter().max_by_key(Holding::total).unwrap_or_default();
            }
        }
        let name = if pattern == Pattern::Block { "one block" } else { "scattered" };
        let case = json!({"dirty": share, "pages": name, "keep": 1, "observers": 1});
        let detail = json!({"anonymous": largest.anonymous, "executables": largest.executables,
                            "region_files": largest.region_files, "page_tables": largest.page_tables});
        let region_bytes = setting.region_bytes as f64;
        report.add(Row::new("memory", case, largest.total() as f64, "B", region_bytes).with(detail))?;
    }
    Ok(())
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(Error::system(format!("read {path}")))
}

/// The value of a line such as `Pss_Anon:   12 kB`.
fn field_bytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Takes the newest version whenever the parent asks, reads it whole and holds it until the next one.
pub fn play(args: Args) -> Result<()> {
    let parent = Parent::listen();
    let observer = Observer::options().open(&args.name)?;
    let mut held: Option<Snapshot> = None;
    while parent.hear().is_some() {
        let next = observer.newest_after(held.as_ref().map(Snapshot::version), Some(PATIENCE))?;
        let mut sum = 0u64;
        for chunk in next.chunks("data")? {
            sum = chunk.bytes.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)));
        }
        std::hint::black_box(sum);
        parent.tell(next.version())?;
        held = Some(next);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_field_of_the_rollup_is_read_in_bytes() {
        let text = "Rss: 7 kB\nPss_Anon:          12 kB\nPss_File: 3 kB\n";
        assert_eq!(super::field_bytes(text, "Pss_Anon:"), 12 * 1024);
        assert_eq!(super::field_bytes(text, "Pss_Shmem:"), 0);
    }
}
