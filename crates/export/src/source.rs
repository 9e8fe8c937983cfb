//! Where the arrays come from: a version of a region or of a group, or a checkpoint.

use crate::error::{Error, Result};
use std::path::Path;
use stillframe::{Attributes, DType, Group, Observer, Order, Snapshot};

/// Something to export, held until it is dropped.
pub struct Source {
    name: String,
    version: u64,
    published_ns: u64,
    grouped: bool,
    ranks: Vec<Snapshot>,
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
    /// Finds what `name` means: a region or a group of `dir`, else a directory of checkpoints.
    ///
    /// # Errors
    /// [`Error::Nothing`], and what keeps it from being read.
    pub fn open(dir: &Path, name: &str, version: Option<u64>) -> Result<Source> {
        match Observer::options().dir(dir).open(name) {
            Ok(observer) => {
                let snapshot = match version {
                    Some(version) => observer.version(version)?,
                    None => observer.newest()?,
                };
                Ok(Source::of(name, false, vec![snapshot]))
            }
            Err(stillframe::Error::IsGroup { .. }) => {
                let group = Group::options().dir(dir).open(name)?;
                let snapshot = match version {
                    Some(version) => group.version(version)?,
                    None => group.newest()?,
                };
                Ok(Source::of(name, true, snapshot.ranks().to_vec()))
            }
            Err(stillframe::Error::NoRegion { .. }) => Err(Error::Nothing { name: name.into(), dir: dir.into() }),
            Err(error) => Err(error.into()),
        }
    }

    fn of(name: &str, grouped: bool, ranks: Vec<Snapshot>) -> Source {
        Source {
            name: name.into(),
            version: ranks.first().map_or(0, Snapshot::version),
            published_ns: ranks.iter().map(Snapshot::published_ns).max().unwrap_or(0),
            grouped,
            ranks,
        }
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
        self.grouped.then_some(self.ranks.len())
    }

    /// What it is, for messages.
    pub fn describe(&self) -> String {
        let what = if self.grouped { "group" } else { "region" };
        format!("version {} of {what} '{}'", self.version, self.name)
    }

    /// The variables of all ranks.
    pub fn variables(&self) -> Vec<Described> {
        let all = self.ranks.iter().enumerate().flat_map(|(rank, snapshot)| {
            snapshot.variables().iter().map(move |variable| Described {
                rank,
                alone: !self.grouped,
                name: variable.name.clone(),
                dtype: variable.dtype.clone(),
                order: variable.order,
                units: variable.units.clone(),
                attributes: variable.attributes.clone(),
                shape: variable.shape.clone(),
            })
        });
        all.collect()
    }

    /// The version's attributes: those that all ranks tell alike, and what each tells besides.
    pub fn attributes(&self) -> (Attributes, Vec<Attributes>) {
        let all: Vec<&Attributes> = self.ranks.iter().map(Snapshot::attributes).collect();
        let Some((first, rest)) = all.split_first() else { return (Attributes::new(), Vec::new()) };
        let is_common = |name: &String| rest.iter().all(|other| other.get(name) == first.get(name));
        let pick = |from: &Attributes, common: bool| -> Attributes {
            let picked = from.iter().filter(|(name, _)| (first.contains_key(*name) && is_common(name)) == common);
            picked.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        (pick(first, true), all.iter().map(|from| pick(from, false)).collect())
    }

    /// Reads bytes of a rank's variable, from `offset` on, in the order of its memory.
    ///
    /// # Errors
    /// What keeps them from being read.
    pub fn read(&self, rank: usize, name: &str, offset: usize, out: &mut [u8]) -> Result<()> {
        Ok(self.ranks[rank].read(name, offset, out)?)
    }
}
