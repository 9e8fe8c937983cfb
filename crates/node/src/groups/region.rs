//! A region of this node in which a rank of another one is shown.

use crate::groups::content::Content;
use crate::groups::local::Shown;
use crate::groups::record::Record;
use std::fs::File;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use stillframe::{Error, LoanBytes, Observer, Region, VariableId, inspect};
use stillframe_kernel::disk::room_bytes;

/// A rank that is shown.
#[derive(Debug)]
pub(super) struct RankRegion {
    dir: PathBuf,
    group: String,
    rank: (u32, u32),
    run: NonZeroU64,
    shown: Shown,
    /// While the rank lives.
    region: Option<Region>,
    begun_ns: u64,
    /// What is declared in it.
    declared: Option<(Content, Vec<VariableId>)>,
}

/// Where a rank is to be shown, and as which.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) group: String,
    pub(super) shown: Shown,
    pub(super) record: Record,
}

impl Place {
    pub(super) fn region(&self, rank: u32) -> String {
        format!("{}/{rank}", self.group)
    }
}

impl RankRegion {
    /// Makes the region of a rank, unless a program of this node has one.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn make(place: &Place, rank: (u32, u32), run: NonZeroU64) -> Result<RankRegion, String> {
        let name = place.region(rank.0);
        match Observer::options().dir(&place.dir).here().open(&name) {
            Err(Error::NoRegion { .. }) => {}
            _ => {
                return Err(format!(
                    "rank {} is on another node, and this one has a region '{name}' of a former run: remove that with \
                     'still rm'",
                    rank.0
                ));
            }
        }
        let (dir, group, shown) = (place.dir.clone(), place.group.clone(), place.shown.clone());
        place.record.add(&name);
        let mut made = RankRegion { dir, group, rank, run, shown, region: None, begun_ns: 0, declared: None };
        made.begin().map_err(|error| error.to_string())?;
        Ok(made)
    }

    fn name(&self) -> String {
        format!("{}/{}", self.group, self.rank.0)
    }

    fn begin(&mut self) -> stillframe::Result<()> {
        let (name, (rank, ranks)) = (self.name(), self.rank);
        self.shown.set(&name, true);
        let options = Region::options().dir(&self.dir).rank(rank, ranks).run(self.run).threads(1);
        match options.create(&self.group) {
            Ok(region) => {
                let begun_ns = Observer::options().dir(&self.dir).here().open(&name).map_or(0, |own| own.begun_ns());
                (self.region, self.begun_ns, self.declared) = (Some(region), begun_ns, None);
                Ok(())
            }
            Err(error) => {
                match self.begun_ns {
                    0 => self.shown.remove(&name),
                    _ => self.shown.set(&name, false),
                }
                Err(error)
            }
        }
    }

    /// The run that its versions are of.
    pub(super) fn run(&self) -> NonZeroU64 {
        self.run
    }

    /// Number of ranks of its group.
    pub(super) fn size(&self) -> u32 {
        self.rank.1
    }

    /// Memory for each variable of the next version.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn prepare(&mut self, content: &Content) -> Result<Vec<LoanBytes>, String> {
        check_room(&self.dir, content.bytes()?)?;
        let prepared = self.declare(content);
        let ids = prepared.map_err(|error| error.to_string())?;
        let Some(region) = &mut self.region else { return Err("it is not made".into()) };
        let loans = ids.into_iter().map(|id| region.loan_bytes(id)).collect::<stillframe::Result<Vec<_>>>();
        let loans = loans.map_err(|error| error.to_string())?;
        let fits = |(loan, variable): (&LoanBytes, &super::content::Described)| {
            variable.bytes().is_ok_and(|bytes| bytes == loan.len() as u64)
        };
        match loans.iter().zip(&content.variables).all(fits) {
            true => Ok(loans),
            false => Err("a variable has another size here".into()),
        }
    }

    /// Declares the variables of a version, if they are others than those of the one before.
    fn declare(&mut self, content: &Content) -> stillframe::Result<Vec<VariableId>> {
        if self.region.is_none() {
            self.begin()?;
        }
        let Some(region) = &mut self.region else { return Ok(Vec::new()) };
        if let Some((before, ids)) = &self.declared
            && before.is_declared_as(content)
        {
            let both = before.variables.iter().zip(&content.variables).zip(ids);
            for ((before, now), id) in both.filter(|((before, now), _)| before.shape != now.shape) {
                debug_assert_eq!(before.meta.name, now.meta.name);
                region.resize(*id, &now.shape)?;
            }
        } else {
            for variable in self.declared.take().iter().flat_map(|(before, _)| &before.variables) {
                region.remove(&variable.meta.name)?;
            }
            let ids = content.variables.iter().map(|variable| region.declare(variable.declaration()));
            let ids = ids.collect::<stillframe::Result<Vec<_>>>();
            let ids = match ids {
                Ok(ids) => ids,
                Err(error) => {
                    // What was declared of them is in the way of others.
                    for variable in &content.variables {
                        let _ = region.remove(&variable.meta.name);
                    }
                    return Err(error);
                }
            };
            self.declared = Some((content.clone(), ids));
        }
        match &mut self.declared {
            Some((before, ids)) => {
                before.variables.clone_from(&content.variables);
                Ok(ids.clone())
            }
            None => Ok(Vec::new()),
        }
    }

    /// Publishes a version that was written whole.
    pub(super) fn publish(
        &mut self,
        version: u64,
        published_ns: u64,
        content: &Content,
        loans: Vec<LoanBytes>,
    ) -> stillframe::Result<()> {
        let Some(region) = &mut self.region else { return Ok(()) };
        loans.into_iter().for_each(LoanBytes::submit);
        let publication = region.publish(version).published_ns(published_ns);
        let with = |publication: stillframe::Publication<'_>| {
            let all = content.attributes.iter();
            all.fold(publication, |publication, (name, value)| publication.attr(name, value.clone())).commit()
        };
        with(publication).map(drop)
    }

    /// The rank has ended, by itself or not. What it published stays.
    pub(super) fn end(&mut self, by_itself: bool) {
        self.declared = None;
        let Some(region) = self.region.take() else { return };
        match by_itself {
            true => drop(region),
            false => region.give_up(),
        }
        self.shown.set(&self.name(), false);
    }

    /// Removes the region, unless a program of this node has taken its name since.
    pub(super) fn remove(&mut self) {
        let name = self.name();
        self.declared = None;
        match self.region.take() {
            Some(region) => _ = region.unlink(),
            None => {
                let there = Observer::options().dir(&self.dir).here().open(&name);
                if there.is_ok_and(|there| there.begun_ns() == self.begun_ns && !there.producer_alive()) {
                    let _ = inspect::remove(&self.dir, &name, false);
                }
            }
        }
        self.shown.remove(&name);
    }
}

/// Refuses what would leave programs of this node without memory: room for it has to be there, and an eighth beside it.
fn check_room(dir: &Path, bytes: u64) -> Result<(), String> {
    let room = File::open(dir)
        .map_err(|error| error.to_string())
        .and_then(|dir| room_bytes(&dir).map_err(|error| error.to_string()));
    let (free, all) = room?;
    match bytes.saturating_add(all / 8) > free {
        true => Err(format!("its {bytes} bytes have no room here, where {free} are free of {all}")),
        false => Ok(()),
    }
}
