//! A region of this node in which a rank of another one is shown.

use crate::groups::content::Content;
use crate::groups::local::Shown;
use crate::groups::loss::Loss;
use crate::groups::record::Record;
use crate::groups::room::Room;
use std::num::NonZeroU64;
use std::path::PathBuf;
use stillframe::{Error, LoanBytes, Observer, Outcome, Published, Region, VariableId, inspect};

/// A rank that is shown.
#[derive(Debug)]
pub(super) struct RankRegion {
    dir: PathBuf,
    group: String,
    rank: (u32, u32),
    run: NonZeroU64,
    shown: Shown,
    record: Record,
    room: Room,
    /// While the rank lives.
    region: Option<Region>,
    begun_ns: u64,
    /// What is declared in it.
    declared: Option<(Content, Vec<VariableId>)>,
    /// The newest version in it.
    newest: Option<u64>,
    /// How much the version has that was to be put there last.
    needed_bytes: Option<u64>,
}

/// Where a rank is to be shown, and as which.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) group: String,
    pub(super) shown: Shown,
    pub(super) record: Record,
    pub(super) room: Room,
}

impl RankRegion {
    /// Makes the region of a rank, unless a program of this node has one.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn make(place: &Place, rank: (u32, u32), run: NonZeroU64) -> Result<RankRegion, String> {
        let (dir, group) = (place.dir.clone(), place.group.clone());
        let (shown, record, room) = (place.shown.clone(), place.record.clone(), place.room.clone());
        let (region, begun_ns, declared) = (None, 0, None);
        let (newest, needed_bytes) = (None, None);
        let mut made =
            RankRegion { dir, group, rank, run, shown, record, room, region, begun_ns, declared, newest, needed_bytes };
        made.begin()?;
        Ok(made)
    }

    fn name(&self) -> String {
        format!("{}/{}", self.group, self.rank.0)
    }

    /// Begins to produce the region, for the first time or again, unless its name is a program's.
    fn begin(&mut self) -> Result<(), String> {
        let (name, (rank, ranks)) = (self.name(), self.rank);
        match self.observe() {
            Err(Error::NoRegion { .. }) => {}
            Ok(there) if self.begun_ns > 0 && there.begun_ns() == self.begun_ns => {}
            _ => {
                return Err(format!(
                    "rank {rank} is on another node, and this one has a region '{name}' of a former run: remove that with \
                     'still rm'"
                ));
            }
        }
        self.record.add(&name);
        self.shown.set(&name, true);
        let options = Region::options().dir(&self.dir).rank(rank, ranks).run(self.run).threads(1);
        match options.create(&self.group) {
            Ok(region) => {
                let begun_ns = self.observe().map_or(0, |own| own.begun_ns());
                (self.region, self.begun_ns, self.declared) = (Some(region), begun_ns, None);
                Ok(())
            }
            Err(error) => {
                match self.begun_ns {
                    0 => self.shown.remove(&name),
                    _ => self.shown.set(&name, false),
                }
                Err(error.to_string())
            }
        }
    }

    /// What has its name on this node now.
    fn observe(&self) -> stillframe::Result<Observer> {
        Observer::options().dir(&self.dir).here().open(&self.name())
    }

    /// The run that its versions are of.
    pub(super) fn run(&self) -> NonZeroU64 {
        self.run
    }

    /// Number of ranks of its group.
    pub(super) fn size(&self) -> u32 {
        self.rank.1
    }

    /// Whether it has a version, after which no other came.
    pub(super) fn has(&self, version: u64) -> bool {
        self.newest == Some(version)
    }

    /// How much the version has that was to be put there last, as the next one may.
    pub(super) fn needed_bytes(&self) -> Option<u64> {
        self.needed_bytes
    }

    /// Makes sure that it has a producer here: the rank may have ended, and begun again.
    ///
    /// # Errors
    /// Why that cannot be.
    pub(super) fn resume(&mut self) -> Result<(), String> {
        if self.region.is_none() { self.begin() } else { Ok(()) }
    }

    /// Memory for each variable of the next version.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn prepare(&mut self, content: &Content) -> Result<Vec<LoanBytes>, Loss> {
        let bytes = content.bytes().map_err(Loss::there)?;
        self.needed_bytes = Some(bytes);
        self.room.check(bytes)?;
        self.resume().map_err(Loss::here)?;
        let prepared = self.declare(content);
        let ids = prepared.map_err(|error| Loss::here(error.to_string()))?;
        let Some(region) = &mut self.region else { return Err(Loss::here("it is not made")) };
        let loans = ids.into_iter().map(|id| region.loan_bytes(id)).collect::<stillframe::Result<Vec<_>>>();
        let loans = loans.map_err(|error| Loss::here(error.to_string()))?;
        let fits = |(loan, variable): (&LoanBytes, &super::content::Described)| {
            variable.bytes().is_ok_and(|bytes| bytes == loan.len() as u64)
        };
        match loans.iter().zip(&content.variables).all(fits) {
            true => Ok(loans),
            false => Err(Loss::here("a variable has another size here")),
        }
    }

    /// Declares the variables of a version, if they are others than those of the one before.
    fn declare(&mut self, content: &Content) -> stillframe::Result<Vec<VariableId>> {
        if self.region.is_some() && self.declared.as_ref().is_some_and(|(before, _)| before.is_declared_as(content)) {
            // What was resized in part is declared anew with the next version.
            self.resize(content).inspect_err(|_| self.discard())?;
        } else if let Some(region) = &mut self.region {
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

    /// Gives the variables the shapes that those of a version have.
    fn resize(&mut self, content: &Content) -> stillframe::Result<()> {
        let (Some(region), Some((before, ids))) = (&mut self.region, &self.declared) else { return Ok(()) };
        let both = before.variables.iter().zip(&content.variables).zip(ids);
        for ((before, now), id) in both.filter(|((before, now), _)| before.shape != now.shape) {
            debug_assert_eq!(before.meta.name, now.meta.name);
            region.resize(*id, &now.shape)?;
        }
        Ok(())
    }

    /// Publishes a version that was written whole.
    ///
    /// # Errors
    /// Why it was not.
    pub(super) fn publish(
        &mut self,
        version: u64,
        published_ns: u64,
        content: &Content,
        loans: Vec<LoanBytes>,
    ) -> Result<(), String> {
        let Some(region) = &mut self.region else { return Err("its region has ended here".into()) };
        loans.into_iter().for_each(LoanBytes::submit);
        let publication = region.publish(version).published_ns(published_ns);
        let all = content.attributes.iter();
        let publication = all.fold(publication, |publication, (name, value)| publication.attr(name, value.clone()));
        let why = match publication.commit() {
            Ok(Published { outcome: Outcome::Published, .. }) => {
                self.newest = Some(version);
                return Ok(());
            }
            Ok(Published { outcome: Outcome::Skipped, .. }) => format!("there is no room here for version {version}"),
            Err(error) => error.to_string(),
        };
        self.discard();
        Err(why)
    }

    /// Gives back the memory of a version that was not published: it is fetched again, or never. With its variables, which the next version
    /// declares anew, goes what was written for them; versions that are published keep theirs.
    fn discard(&mut self) {
        let (Some(region), Some((content, _))) = (&mut self.region, self.declared.take()) else { return };
        for variable in &content.variables {
            let _ = region.remove(&variable.meta.name);
        }
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
                if self.observe().is_ok_and(|there| there.begun_ns() == self.begun_ns && !there.producer_alive()) {
                    let _ = inspect::remove(&self.dir, &name, false);
                }
            }
        }
        self.shown.remove(&name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    #[test]
    fn a_version_that_cannot_be_published_keeps_no_memory() {
        const BYTES: u64 = 8 << 20;
        let dir = tempfile::Builder::new().prefix("stillframe-test-unpublished-").tempdir_in("/dev/shm").unwrap();
        std::fs::create_dir(dir.path().join(".objects")).unwrap();
        let (shown, record, room) = (Shown::default(), Record::begin(dir.path()), Room::new(dir.path()));
        let place = Place { dir: dir.path().into(), group: "heat".into(), shown, record, room };
        let content = format!(
            r#"{{"attributes":{{}},"variables":[{{"meta":{{"id":0,"name":"u","dtype":"uint8","order":"c"}},"shape":[{BYTES}]}}]}}"#
        );
        let content = Content::read(&content).unwrap();
        let mut rank = RankRegion::make(&place, (1, 2), NonZeroU64::new(7).unwrap()).unwrap();
        let loans = rank.prepare(&content).unwrap();
        rank.publish(5, 0, &content, loans).unwrap();
        for _ in 0..8 {
            let loans = rank.prepare(&content).unwrap();
            let why = rank.publish(3, 0, &content, loans).unwrap_err();
            assert!(why.contains('5'), "{why}");
        }
        let loans = rank.prepare(&content).unwrap();
        rank.publish(6, 0, &content, loans).unwrap();
        let plane_bytes = rank.region.as_ref().unwrap().statistics().plane_bytes;
        assert!(plane_bytes <= 3 * BYTES, "{plane_bytes}");
        let there = Observer::options().dir(dir.path()).here().open("heat/1").unwrap();
        assert_eq!(there.newest().unwrap().variable("u").unwrap().bytes as u64, BYTES);
        rank.remove();
    }

    /// A rank that was shown here ended, began here and crashed, and begins elsewhere again.
    #[test]
    fn what_a_program_left_under_the_name_of_a_rank_is_not_written_over() {
        let dir = tempfile::Builder::new().prefix("stillframe-test-shown-").tempdir_in("/dev/shm").unwrap();
        std::fs::create_dir(dir.path().join(".objects")).unwrap();
        let record = Record::begin(dir.path());
        let place = Place {
            dir: dir.path().into(),
            group: "heat".into(),
            shown: Shown::default(),
            record,
            room: Room::new(dir.path()),
        };
        let content =
            r#"{"attributes":{},"variables":[{"meta":{"id":0,"name":"u","dtype":"int64","order":"c"},"shape":[4]}]}"#;
        let content = Content::read(content).unwrap();
        let mut rank = RankRegion::make(&place, (1, 2), NonZeroU64::new(7).unwrap()).unwrap();
        let loans = rank.prepare(&content).unwrap();
        rank.publish(1, 0, &content, loans).unwrap();
        rank.end(false);
        // As it was, it goes on.
        let loans = rank.prepare(&content).unwrap();
        rank.publish(2, 0, &content, loans).unwrap();
        rank.end(false);
        let mut program = Region::options().dir(dir.path()).rank(1, 2).create("heat").unwrap();
        program.publish(9).commit().unwrap();
        program.give_up();
        let error = rank.prepare(&content).unwrap_err();
        assert!(error.why.contains("still rm"), "{error:?}");
        rank.remove();
        let left = Observer::options().dir(dir.path()).here().open("heat/1").unwrap();
        assert_eq!(left.newest_number(), Some(9));
        drop(left);
        inspect::remove(dir.path(), "heat/1", true).unwrap();
    }
}
