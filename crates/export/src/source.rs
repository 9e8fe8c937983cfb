//! Where the arrays come from: a version of a region or of a group, or a checkpoint.

use crate::error::{Error, Result};
use std::path::Path;
use stillframe::{AnySnapshot, Attributes, DType, Observer, Order};
use stillframe_checkpoint::{Checkpoint, Skipped, Store};

/// Something to export, held until it is dropped.
pub struct Source {
    name: String,
    version: u64,
    published_ns: u64,
    grouped: bool,
    /// The version's attributes, by rank.
    attributes: Vec<Attributes>,
    held: Held,
    skipped: Vec<Skipped>,
}

/// What is read from.
enum Held {
    Snapshot(AnySnapshot),
    Checkpoint(Box<Checkpoint>),
}

/// A variable of a rank.
#[derive(Debug, Clone)]
pub struct Described {
    /// The rank; 0 where there are no ranks.
    pub rank: usize,
    /// Whether there are no ranks.
    pub alone: bool,
    /// Name.
    pub name: String,
    /// Type of the elements.
    pub dtype: DType,
    /// Order of the elements.
    pub order: Order,
    /// Unit, empty if there is none.
    pub units: String,
    /// The variable's own attributes.
    pub attributes: Attributes,
    /// Shape, in the order of its indices.
    pub shape: Vec<usize>,
}

impl Source {
    /// Finds what `name` means: a region or a group of `dir`, else a directory of checkpoints, or one checkpoint.
    ///
    /// # Errors
    /// [`Error::Nothing`], and what keeps it from being read.
    pub fn open(dir: &Path, name: &str, version: Option<u64>) -> Result<Source> {
        if is_path(name) {
            return Source::open_checkpoint(Path::new(name), version);
        }
        match Observer::options().dir(dir).open_any(name) {
            Ok(observer) => {
                let snapshot = match version {
                    Some(version) => observer.version(version)?,
                    None => observer.newest()?,
                };
                Ok(Source::of_snapshot(snapshot))
            }
            Err(stillframe::Error::NoRegion { .. } | stillframe::Error::BadName { .. }) if Path::new(name).is_dir() => {
                Source::open_checkpoint(Path::new(name), version)
            }
            Err(stillframe::Error::NoRegion { .. }) => Err(Error::Nothing { name: name.into(), dir: dir.into() }),
            Err(error) => Err(error.into()),
        }
    }

    fn of_snapshot(snapshot: AnySnapshot) -> Source {
        Source {
            name: snapshot.name().into(),
            version: snapshot.version(),
            published_ns: snapshot.published_ns(),
            grouped: snapshot.is_group(),
            attributes: snapshot.ranks().iter().map(|rank| rank.attributes().clone()).collect(),
            held: Held::Snapshot(snapshot),
            skipped: Vec::new(),
        }
    }

    fn open_checkpoint(path: &Path, version: Option<u64>) -> Result<Source> {
        let mut skipped = Vec::new();
        let checkpoint = match (Checkpoint::open(path), version) {
            (Ok(checkpoint), None) => checkpoint,
            (Ok(checkpoint), Some(version)) if checkpoint.version() == version => checkpoint,
            (_, Some(version)) => Store::open(path)?.version(version)?,
            (Err(stillframe_checkpoint::Error::NoStore { .. }), None) => {
                Store::open(path)?.newest_naming(&mut skipped)?
            }
            (Err(error), None) => return Err(error.into()),
        };
        let manifest = checkpoint.manifest();
        let alone = || vec![manifest.attributes.clone()];
        let attributes = if manifest.ranks.is_some() { manifest.rank_attributes.clone() } else { alone() };
        Ok(Source {
            name: manifest.region.clone(),
            version: manifest.version,
            published_ns: manifest.published_ns,
            grouped: manifest.ranks.is_some(),
            attributes: if attributes.is_empty() { alone() } else { attributes },
            held: Held::Checkpoint(Box::new(checkpoint)),
            skipped,
        })
    }

    /// Name of the region or group.
    pub fn region(&self) -> &str {
        &self.name
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// When it was published, by the last rank; nanoseconds since 1970.
    pub fn published_ns(&self) -> u64 {
        self.published_ns
    }

    /// How many ranks there are, if it is a group's.
    pub fn ranks(&self) -> Option<usize> {
        let count = match &self.held {
            Held::Snapshot(snapshot) => snapshot.ranks().len(),
            Held::Checkpoint(checkpoint) => checkpoint.manifest().ranks.map_or(1, |ranks| ranks as usize),
        };
        self.grouped.then_some(count)
    }

    /// Newer checkpoints that are damaged.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// What it is, for messages.
    pub fn describe(&self) -> String {
        let what = if self.grouped { "group" } else { "region" };
        format!("version {} of {what} '{}'", self.version, self.name)
    }

    /// The variables of all ranks.
    pub fn variables(&self) -> Vec<Described> {
        let alone = !self.grouped;
        match &self.held {
            Held::Snapshot(snapshot) => {
                let of = |(rank, snapshot): (usize, &stillframe::Snapshot)| {
                    let describe = |variable: &stillframe::VariableView| Described {
                        rank,
                        alone,
                        name: variable.name.clone(),
                        dtype: variable.dtype.clone(),
                        order: variable.order,
                        units: variable.units.clone(),
                        attributes: variable.attributes.clone(),
                        shape: variable.shape.clone(),
                    };
                    snapshot.variables().iter().map(describe).collect::<Vec<_>>()
                };
                snapshot.ranks().iter().enumerate().flat_map(of).collect()
            }
            Held::Checkpoint(checkpoint) => {
                let describe = |variable: &stillframe_checkpoint::manifest::Variable| Described {
                    rank: variable.rank.unwrap_or(0) as usize,
                    alone,
                    name: variable.name.clone(),
                    dtype: variable.dtype.clone(),
                    order: variable.order,
                    units: variable.units.clone(),
                    attributes: variable.attributes.clone(),
                    shape: variable.shape.clone(),
                };
                checkpoint.manifest().variables.iter().map(describe).collect()
            }
        }
    }

    /// The version's attributes: those that all ranks tell alike, and what each tells besides.
    pub fn attributes(&self) -> (Attributes, Vec<Attributes>) {
        let Some((first, rest)) = self.attributes.split_first() else { return (Attributes::new(), Vec::new()) };
        let is_common = |name: &String| rest.iter().all(|other| other.get(name) == first.get(name));
        let pick = |from: &Attributes, common: bool| -> Attributes {
            let picked = from.iter().filter(|(name, _)| (first.contains_key(*name) && is_common(name)) == common);
            picked.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        (pick(first, true), self.attributes.iter().map(|from| pick(from, false)).collect())
    }

    /// Reads bytes of a rank's variable, from `offset` on, in the order of its memory.
    ///
    /// # Errors
    /// What keeps them from being read: of a checkpoint, a damaged chunk.
    pub fn read(&self, rank: usize, name: &str, offset: usize, out: &mut [u8]) -> Result<()> {
        match &self.held {
            Held::Snapshot(snapshot) => Ok(snapshot.ranks()[rank].read(name, offset, out)?),
            Held::Checkpoint(checkpoint) => {
                let rank = self.grouped.then_some(rank as u32);
                Ok(checkpoint.read(rank, name, offset..offset + out.len(), out)?)
            }
        }
    }
}

/// Whether a name cannot be a region's, but a path.
fn is_path(name: &str) -> bool {
    name.starts_with(['/', '.']) || name.ends_with('/')
}
