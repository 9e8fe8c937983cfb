//! The producer of the benchmarks that watch from outside: writes pages and publishes when told to.

use super::measure::{PAGE_BYTES, parse_bytes};
use super::pattern::{Pattern, pages, write_pages};
use super::{CHILD_COMMAND, Setting};
use crate::trial::{Child, Error, Parent, Result};
use clap::ValueEnum;
use stillframe::Region;

/// What the producer's region is.
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// Name of the region
    name: String,
    /// Size of its only variable, `data`
    #[arg(value_parser = parse_bytes)]
    bytes: usize,
}

/// A producer process, told what to do by its parent.
pub struct Producer(Child);

impl Producer {
    /// Starts a producer that has published version 1 of a region whose pages have all been written.
    pub fn start(setting: &Setting, name: &str, bytes: usize) -> Result<Producer> {
        let bytes = bytes.to_string();
        let mut child = Child::start(setting.root(), &[CHILD_COMMAND, "producer", name, &bytes])?;
        child.ask("all 1")?;
        Ok(Producer(child))
    }

    /// Writes `share` of the pages and publishes; gives the version and the number of pages it was found to change.
    pub fn step(&mut self, pattern: Pattern, share: f64) -> Result<[u64; 2]> {
        self.0.tell(&format!("{pattern} {share}"))?;
        self.0.hear_numbers()
    }

    /// Number of the process.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }
}

/// Answers lines of a pattern and a share with a version and its number of dirty pages.
pub fn play(args: Args) -> Result<()> {
    let parent = Parent::listen();
    let mut region = Region::options().keep(1).create(&args.name)?;
    let array = region.array::<u8>("data", &[args.bytes])?;
    let mut version = 0;
    while let Some(line) = parent.hear() {
        let (pattern, share) = line.split_once(' ').unwrap_or((&line, "1"));
        let share: f64 = share.parse().map_err(|_| Error::Usage(format!("'{share}' is no share")))?;
        let memory = region.slice_mut(&array);
        version += 1;
        match Pattern::from_str(pattern, true) {
            Ok(pattern) => {
                let dirty = pages(pattern, share, args.bytes / PAGE_BYTES, version);
                write_pages(memory, &dirty, version as u8);
            }
            Err(_) => memory.fill(version as u8),
        }
        let published = region.publish(version).commit()?;
        parent.tell(format_args!("{} {}", published.version, published.dirty_pages))?;
    }
    Ok(region.unlink()?)
}
