//! Backed regions of this process, and copies of what they hold.
//!
//! All backed regions are variables of one Stillframe region, so that a copy is one version of all of them. A copy that is kept,
//! or exported as a segment, is a hold on its version.
//!
//! # Safety
//! Memory at an address of the program's choice is made here and never taken away, so that it can be read at each copy, unless
//! the program unmaps it; that, the engine finds out. That nobody writes during a copy is the program's to see to.

use crate::directory::{self, Directory};
use crate::memory::{self, Where};
use crate::problem::Problem;
use crate::record::Content;
use std::collections::BTreeMap;
use std::ops::Range;
use stillframe::{Declaration, Element, Kind, MemoryUnit, Observer, Order, Region, Rule, Snapshot, VariableId};

/// Where a backed region goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Anywhere,
    At(usize),
}

/// How a backed region's memory is taken and given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePolicy {
    /// In small pages, of which those that stay unwritten are shared with the versions.
    ByPage,
    /// In large pages where the kernel has some, which stay what they are.
    ByChunk,
}

/// A backed region that is to be.
#[derive(Debug)]
pub struct Wanted<'a> {
    pub place: Place,
    /// Of whole pages.
    pub bytes: usize,
    /// Bytes in which versions may differ.
    pub backing_bytes: u64,
    pub policy: PagePolicy,
    pub name: &'a str,
}

/// A backed region.
#[derive(Debug)]
struct Backed {
    bytes: usize,
    name: String,
    variable: VariableId,
    /// Whether its memory is this library's, at an address that was asked for; else the engine has made it.
    is_tracked: bool,
    policy: PagePolicy,
}

/// The backed regions of a process.
#[derive(Debug)]
pub struct Space {
    region: Region,
    observer: Observer,
    /// Bytes that all versions may take together.
    bound_bytes: u64,
    /// By their first address.
    backed: BTreeMap<usize, Backed>,
    /// Copies that are kept.
    copies: BTreeMap<u32, Snapshot>,
    copied: u64,
}

/// Above the numbers of processes, which are ids too (proc_sys_kernel(5), pid_max).
const COPIES_BEGIN: u64 = 1 << 22;

impl Space {
    /// None yet, for the process of a number.
    pub fn begin(directory: &Directory, process: u32) -> Result<Space, Problem> {
        let common = directory.common_mode()?;
        // Who may read the region's files may step into its directory.
        let mode = 0o700 | common & 0o044 | (common & 0o044) >> 2;
        let name = directory::region_name(process);
        // What is lacking is the program's own to give back, and waiting for that would be waiting for oneself.
        let options = Region::options().dir(directory::path()).fresh(true).rule(Rule::Fail).mode(mode).bound_bytes(0);
        let observing = options.observing();
        let region = options.create(&name)?;
        let observer = observing.open(&name)?;
        Ok(Space { region, observer, bound_bytes: 0, backed: BTreeMap::new(), copies: BTreeMap::new(), copied: 0 })
    }

    /// Makes a backed region, zeroed, and returns where.
    pub fn map(&mut self, wanted: &Wanted<'_>) -> Result<usize, Problem> {
        let name = self.free_name(wanted.name);
        let (address, variable) = match wanted.place {
            Place::Anywhere => self.make(&name, wanted)?,
            Place::At(address) => self.place(&name, wanted, address)?,
        };
        memory::wish_large_pages(address, wanted.bytes, wanted.policy == PagePolicy::ByChunk);
        // One version of it, and what others differ in.
        let more = (wanted.bytes as u64).saturating_add(wanted.backing_bytes);
        self.bound_bytes = self.bound_bytes.saturating_add(more);
        self.region.set_bound_bytes(Some(self.bound_bytes));
        let is_tracked = wanted.place != Place::Anywhere;
        let policy = wanted.policy;
        self.backed.insert(address, Backed { bytes: wanted.bytes, name, variable, is_tracked, policy });
        // Versions have all of them in common, and pages where one of them is irregular.
        let is_regular = self.backed.values().all(|backed| backed.policy == PagePolicy::ByChunk);
        self.region.set_memory_unit(if is_regular { MemoryUnit::Large } else { MemoryUnit::Small });
        Ok(address)
    }

    /// Memory of the engine's.
    fn make(&mut self, name: &str, wanted: &Wanted<'_>) -> Result<(usize, VariableId), Problem> {
        let declaration = Declaration::new(name, u8::dtype(), Kind::Managed { shape: vec![wanted.bytes] });
        let variable = self.region.declare(match wanted.policy {
            PagePolicy::ByPage => declaration,
            PagePolicy::ByChunk => declaration.pinned(),
        })?;
        let (address, _) = self.region.managed_bytes(variable)?;
        Ok((address as usize, variable))
    }

    /// Memory at an address, where nothing is.
    fn place(&mut self, name: &str, wanted: &Wanted<'_>, address: usize) -> Result<(usize, VariableId), Problem> {
        // SAFETY: only free addresses are taken.
        let at = unsafe { memory::map_private(Where::Free(address), wanted.bytes)? };
        match self.region.declare(Declaration::new(name, u8::dtype(), Kind::Tracked)) {
            Ok(variable) => Ok((at, variable)),
            Err(error) => {
                // SAFETY: the memory was just made.
                let _ = unsafe { memory::unmap(at, wanted.bytes) };
                Err(error.into())
            }
        }
    }

    /// A name that no variable has, and that a variable may have.
    fn free_name(&self, wanted: &str) -> String {
        let plain = |c: char| if c.is_whitespace() || c.is_control() || "[]:/".contains(c) { '_' } else { c };
        let mut name: String = wanted.chars().map(plain).take(40).collect();
        if name.is_empty() {
            name = "region".into();
        }
        let is_taken = |name: &str| self.backed.values().any(|backed| backed.name == name);
        let numbered = (2..).map(|number| format!("{name}.{number}"));
        std::iter::once(name.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(name)
    }

    /// Keeps what all backed regions hold as a version, and returns the copy's id.
    pub fn copy(&mut self) -> Result<u32, Problem> {
        if self.backed.is_empty() {
            return Err(Problem::NothingBacked);
        }
        let id = u32::try_from(COPIES_BEGIN + self.copied)
            .map_err(|_| Problem::argument("dst", "this process has made as many copies as there are ids"))?;
        let version = self.region.newest().unwrap_or(0) + 1;
        let mut publication = self.region.publish(version);
        for (address, backed) in self.backed.iter().filter(|(_, backed)| backed.is_tracked) {
            let shape = [backed.bytes];
            // SAFETY: the memory was made to be read, and the program does not write it during the call.
            publication = unsafe {
                publication.tracked_raw(backed.variable, *address as *const u8, backed.bytes, &shape, Order::C)
            };
        }
        publication.commit()?;
        let snapshot = self.observer.version(version)?;
        self.copied += 1;
        self.copies.insert(id, snapshot);
        Ok(id)
    }

    /// Lets go of a copy.
    pub fn destroy(&mut self, id: u32) -> Result<(), Problem> {
        self.copies.remove(&id).map(drop).ok_or(Problem::NoCopy { id })
    }

    /// The backed regions that lie in a range, as a whole or in part: their first addresses and lengths.
    pub fn overlapping(&self, range: &Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let before = self.backed.range(..range.end).rev();
        // Regions do not overlap, so that those which end before the range have none in it before them.
        let in_it = before.take_while({
            let start = range.start;
            move |(address, backed)| **address + backed.bytes > start
        });
        in_it.map(|(address, backed)| (*address, backed.bytes))
    }

    /// What a segment of a range shows, and a hold on it: the newest version. `None` if nothing of the range is backed.
    pub fn export(&self, range: &Range<usize>) -> Result<Option<(Content, Snapshot)>, Problem> {
        let Some((start, bytes)) = self.overlapping(range).last() else { return Ok(None) };
        if range.start < start || range.end > start + bytes {
            return Err(Problem::NotBacked { start: range.start, bytes: range.len() });
        }
        let Some(backed) = self.backed.get(&start) else { return Ok(None) };
        let Some(version) = self.region.newest() else { return Err(Problem::NotCopied { start }) };
        let snapshot = self.observer.version(version)?;
        if snapshot.variable(&backed.name).is_err() {
            return Err(Problem::NotCopied { start });
        }
        let content = Content::Version {
            region: self.region.name().into(),
            version,
            variable: backed.name.clone(),
            offset: (range.start - start) as u64,
        };
        Ok(Some((content, snapshot)))
    }
}
