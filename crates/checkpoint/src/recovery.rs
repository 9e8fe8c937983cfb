//! Create or recover: one call with which a program begins, whatever is left of the run before.
//!
//! What is taken is what was published last: a region that is still in memory, or the newest good checkpoint. The ranks of a
//! group take the same, without talking to each other; `decision` has how.

use crate::decision::{self, Decision, DecisionFile};
use crate::repartition::{self, Block, Piece};
use crate::restore::RestoreOptions;
use crate::{Checkpoint, Error, Result, Store, workers};
use std::ops::{Deref, DerefMut, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stillframe::{
    Attributes, DType, Element, Family, Group, Kind, Observer, Order, Part, Region, RegionOptions, Snapshot,
    TrackerKind, VariableId,
};
use stillframe_kernel::points;

/// Bytes that are compared at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// What a run goes on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A version that was still in memory.
    Memory {
        /// The version.
        version: u64,
    },
    /// A checkpoint.
    Checkpoint {
        /// The version.
        version: u64,
        /// The checkpoint's directory.
        path: PathBuf,
    },
    /// Nothing: there was none.
    Fresh,
}

impl Origin {
    /// The version, if there is one.
    pub fn version(&self) -> Option<u64> {
        match self {
            Origin::Memory { version } | Origin::Checkpoint { version, .. } => Some(*version),
            Origin::Fresh => None,
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Memory { version } => write!(f, "going on from version {version}, which was still in memory"),
            Origin::Checkpoint { version, path } => {
                write!(f, "going on from version {version} of the checkpoint {}", path.display())
            }
            Origin::Fresh => write!(f, "beginning with nothing"),
        }
    }
}

/// How a program begins; see [`Recovery`].
#[derive(Debug, Clone, Default)]
pub struct RecoveryOptions {
    region: RegionOptions,
    checkpoints: Option<PathBuf>,
    version: Option<u64>,
}

/// A region that was created or recovered, and what it goes on from.
///
/// ```
/// # use stillframe::Region;
/// use stillframe_checkpoint::{Origin, Recovery};
/// # let dir = std::env::temp_dir().join(format!("stillframe-doc-recovery-{}", std::process::id()));
/// for run in 0..2 {
///     let region = Region::options().dir(&dir);
///     let mut region = Recovery::options().region(region).checkpoints(dir.join("heat.checkpoints")).open("heat")?;
///     eprintln!("heat: {}", region.origin());
///     let u = region.array::<f64>("u", &[1024])?; // as it was, or zeros
///     if *region.origin() == Origin::Fresh {
///         region.slice_mut(&u).fill(20.0);
///     }
///     let first = region.version().map_or(0, |version| version + 1);
///     assert_eq!((first, region.slice(&u)[0]), (3 * run, 20.0));
///     for step in first..first + 3 {
///         region.publish(step).commit()?;
///     }
/// }
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), stillframe_checkpoint::Error>(())
/// ```
#[derive(Debug)]
pub struct Recovery {
    /// The region. It is reached through the recovery itself, too.
    pub region: Region,
    recovered: Recovered,
}

/// What was recovered, apart from the region: it reads what the arrays of the program do not have by themselves, until the
/// first version is published.
#[derive(Debug)]
pub struct Recovered {
    origin: Origin,
    attributes: Attributes,
    skipped: Vec<String>,
    /// Rank and number of ranks of this run.
    rank: Option<(u32, u32)>,
    source: Source,
}

/// Where the recovered version can be read.
#[derive(Debug)]
enum Source {
    Nothing,
    /// In the directory of regions, under the name that the region or group has.
    Region {
        dir: PathBuf,
        name: String,
        version: u64,
    },
    /// Held: what a group of another number of ranks left.
    Held(Arc<[Snapshot]>),
    Files(Box<Checkpoint>),
}

impl Recovery {
    /// Options for beginning.
    pub fn options() -> RecoveryOptions {
        RecoveryOptions::default()
    }

    /// The version that [`open`](RecoveryOptions::open) would go on from, without opening or changing anything: for programs
    /// of which one rank chooses, tells all others, and every rank gives it as [`version`](RecoveryOptions::version).
    ///
    /// # Errors
    /// As [`open`](RecoveryOptions::open).
    pub fn choose(name: &str, options: &RecoveryOptions) -> Result<Option<u64>> {
        let mut search = Search::new(options, name);
        Ok(match search.next()? {
            Found::Memory(memory) => Some(memory.version),
            Found::Checkpoint(checkpoint) => Some(checkpoint.version()),
            Found::Nothing => None,
        })
    }

    /// The region alone. Nothing can be read any more that it does not have.
    pub fn into_region(self) -> Region {
        self.region
    }

    /// The region and what was recovered, apart.
    pub fn into_parts(self) -> (Region, Recovered) {
        (self.region, self.recovered)
    }

    /// What the run goes on from.
    pub fn origin(&self) -> &Origin {
        &self.recovered.origin
    }

    /// The version the run goes on from; `None` if it begins with nothing.
    pub fn version(&self) -> Option<u64> {
        self.recovered.version()
    }

    /// The attributes of that version: of the rank itself, or of rank 0 if the number of ranks is another one.
    pub fn attributes(&self) -> &Attributes {
        &self.recovered.attributes
    }

    /// What would have been newer and is damaged, in words.
    pub fn skipped(&self) -> &[String] {
        &self.recovered.skipped
    }

    /// As [`Recovered::read`].
    ///
    /// # Errors
    /// As [`Recovered::read`].
    pub fn read<T: Element>(&self, name: &str, offset: &[usize], shape: &[usize], out: &mut [T]) -> Result<()> {
        self.recovered.read(name, offset, shape, out)
    }

    /// As [`Recovered::read_bytes`].
    ///
    /// # Errors
    /// As [`Recovered::read_bytes`].
    pub fn read_bytes(
        &self,
        name: &str,
        dtype: &DType,
        order: Order,
        offset: &[usize],
        shape: &[usize],
        out: &mut [u8],
    ) -> Result<()> {
        self.recovered.read_bytes(name, dtype, order, offset, shape, out)
    }

    /// As [`Recovered::fill`].
    ///
    /// # Errors
    /// As [`Recovered::fill`].
    pub fn fill(&mut self, id: VariableId) -> Result<()> {
        self.recovered.fill(&mut self.region, id)
    }
}

impl Deref for Recovery {
    type Target = Region;

    fn deref(&self) -> &Region {
        &self.region
    }
}

impl DerefMut for Recovery {
    fn deref_mut(&mut self) -> &mut Region {
        &mut self.region
    }
}

impl RecoveryOptions {
    /// How the region is made: its directory, its rank and the number of ranks, and whatever else. With
    /// [`fresh`](RegionOptions::fresh) the run begins with nothing, whatever there is; what `rollback` says is left aside.
    pub fn region(mut self, options: RegionOptions) -> Self {
        self.region = options;
        self
    }

    /// The directory that checkpoints are saved in. It need not be there.
    pub fn checkpoints(mut self, dir: impl Into<PathBuf>) -> Self {
        self.checkpoints = Some(dir.into());
        self
    }

    /// The version to go on from, wherever it is; by default what was published last.
    pub fn version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }

    /// Creates the region: with what is still in memory under its name, else with the newest good checkpoint, else with
    /// nothing; with the checkpoint too if that was published later than what is in memory. What is damaged is left aside
    /// and named by [`skipped`](Recovery::skipped).
    ///
    /// All ranks of a group that begin while one of them lives go on from the same version, whatever each of them had.
    ///
    /// # Errors
    /// Of the engine: `InUse` if a producer of the name, or a rank of an earlier run, lives; `Corrupt` if what is in memory
    /// is damaged and there is no checkpoint. [`Error::NoCheckpoint`] if there are checkpoints but none is good, and nothing is in memory;
    /// [`Error::NoSuchVersion`] if a version was asked for that is nowhere. Nothing is lost then.
    pub fn open(self, name: &str) -> Result<Recovery> {
        match self.region.rank_and_ranks() {
            None => self.open_region(name),
            Some((rank, ranks)) => self.open_rank(name, rank, ranks),
        }
    }

    fn open_region(self, name: &str) -> Result<Recovery> {
        let mut search = Search::new(&self, name);
        loop {
            let (region, origin, source) = match search.next()? {
                Found::Nothing => (self.region.clone().fresh(true).create(name)?, Origin::Fresh, Source::Nothing),
                Found::Memory(memory) => {
                    let version = memory.version;
                    let region = match self.region.clone().rollback(version).create(name) {
                        Err(error) if error.family() == Family::Corrupt => {
                            search.leave_memory(error);
                            continue;
                        }
                        other => other?,
                    };
                    (region, Origin::Memory { version }, self.in_memory(name, version))
                }
                Found::Checkpoint(checkpoint) => {
                    if !self.bring(&checkpoint, name, None, &mut search)? {
                        continue;
                    }
                    let (version, path) = (checkpoint.version(), checkpoint.path().to_path_buf());
                    let (region, source) = match checkpoint.manifest().ranks {
                        None => (self.region.clone().create(name)?, self.in_memory(name, version)),
                        Some(_) => (self.region.clone().fresh(true).create(name)?, Source::Files(checkpoint)),
                    };
                    (region, Origin::Checkpoint { version, path }, source)
                }
            };
            return Recovery::new(region, origin, source, search.skipped, None);
        }
    }

    fn in_memory(&self, name: &str, version: u64) -> Source {
        Source::Region { dir: self.region.directory().into(), name: name.into(), version }
    }

    /// Puts a checkpoint into memory if it has as many ranks, or else makes sure that all of it can be read. `false` if it is
    /// damaged.
    fn bring(&self, checkpoint: &Checkpoint, name: &str, ranks: Option<u32>, search: &mut Search) -> Result<bool> {
        let result = match checkpoint.manifest().ranks == ranks {
            true => RestoreOptions::new().replace(true).restore(checkpoint, &self.region, name, &|_| {}).map(drop),
            false => checkpoint.verify(workers::default_threads(), &|_| {}).and_then(|damages| match damages.first() {
                None => Ok(()),
                Some(damage) => Err(Error::Damaged { path: checkpoint.path().into(), why: damage.to_string() }),
            }),
        };
        match result {
            Err(error) if error.family() == Family::Corrupt => {
                search.leave_checkpoint(checkpoint.path(), &error);
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }

    fn open_rank(self, name: &str, rank: u32, ranks: u32) -> Result<Recovery> {
        let root = self.region.directory().to_path_buf();
        // Whoever decides, or restores, keeps the others waiting: they need what it does.
        let mut file = DecisionFile::lock(&self.region, name)?;
        let mut decision = match file.read() {
            Some(known) if known.joined.iter().any(|rank| decision::is_alive(&root, name, *rank)) => {
                known.admit(&root, name, rank, ranks)?;
                known
            }
            _ => {
                decision::check_nobody_lives(&root, name)?;
                let decision = self.decide(name, ranks)?;
                points::hit("recovery.decided");
                decision
            }
        };
        let region = match decision.as_they_were(ranks) {
            Some(version) => self.region.clone().rollback(version).create(name)?,
            None => self.region.clone().fresh(true).create(name)?,
        };
        points::hit("recovery.created");
        let source = match (&decision.origin(), decision.former) {
            (Origin::Fresh, _) => Source::Nothing,
            (origin, true) => {
                let version = origin.version().unwrap_or_default();
                let group = Group::options().dir(decision::former(&root, name)).open(name)?;
                Source::Held(group.version(version)?.ranks().to_vec().into())
            }
            (Origin::Checkpoint { path, .. }, _) if decision.as_they_were(ranks).is_none() => {
                Source::Files(Box::new(Checkpoint::open(path)?))
            }
            (origin, _) => self.in_memory(name, origin.version().unwrap_or_default()),
        };
        decision.joined.push(rank);
        file.write(&decision)?;
        points::hit("recovery.joined");
        if decision.former && decision.joined.len() == ranks as usize {
            decision::remove_former_later(self.region.clone(), name, rank);
        }
        Recovery::new(region, decision.origin(), source, decision.skipped, Some((rank, ranks)))
    }

    /// Decides for all ranks what they go on from, and makes that ready for them. Nobody of the group lives.
    fn decide(&self, name: &str, ranks: u32) -> Result<Decision> {
        let root = self.region.directory();
        let mut search = Search::new(self, name);
        loop {
            let (origin, stored, former) = match search.next()? {
                Found::Nothing => {
                    decision::remove_former(root, name)?;
                    (Origin::Fresh, 0, false)
                }
                Found::Memory(memory) => {
                    let (version, stored) = (memory.version, memory.ranks);
                    match (stored == ranks, memory.is_former) {
                        (true, true) => decision::bring_back(root, name)?,
                        (false, false) => decision::set_aside(root, name)?,
                        (true, false) => decision::remove_former(root, name)?,
                        (false, true) => {}
                    }
                    if stored == ranks
                        && let Err(error) = self.roll_back(name, version, ranks)
                    {
                        if error.family() == Family::Corrupt {
                            search.leave_memory(error);
                            continue;
                        }
                        return Err(error.into());
                    }
                    (Origin::Memory { version }, stored, stored != ranks)
                }
                Found::Checkpoint(checkpoint) => {
                    if !self.bring(&checkpoint, name, Some(ranks), &mut search)? {
                        continue;
                    }
                    decision::remove_former(root, name)?;
                    let path = std::path::absolute(checkpoint.path()).unwrap_or(checkpoint.path().into());
                    let stored = checkpoint.manifest().ranks.unwrap_or(0);
                    (Origin::Checkpoint { version: checkpoint.version(), path }, stored, false)
                }
            };
            return Ok(Decision::new(&origin, ranks, stored, former, search.skipped));
        }
    }

    /// Takes all ranks to the version, so that none shows a later one of the last run beside an earlier one of this.
    fn roll_back(&self, name: &str, version: u64, ranks: u32) -> stillframe::Result<()> {
        (0..ranks).try_for_each(|rank| {
            let options = self.region.clone().rank(rank, ranks).threads(1).tracker(TrackerKind::FullCopy);
            options.rollback(version).create(name)?.close()
        })
    }
}

impl Recovery {
    fn new(
        region: Region,
        origin: Origin,
        source: Source,
        skipped: Vec<String>,
        rank: Option<(u32, u32)>,
    ) -> Result<Recovery> {
        let attributes = match &source {
            Source::Nothing => Attributes::new(),
            Source::Files(checkpoint) => checkpoint.attributes().clone(),
            Source::Held(ranks) => ranks[0].attributes().clone(),
            Source::Region { dir, version, .. } => {
                Observer::options().dir(dir).open(region.name())?.version(*version)?.attributes().clone()
            }
        };
        Ok(Recovery { region, recovered: Recovered { origin, attributes, skipped, rank, source } })
    }
}

/// What is in memory under a name.
#[derive(Debug)]
struct InMemory {
    version: u64,
    published_ns: u64,
    /// 0 for a single region.
    ranks: u32,
    /// Whether it was set aside by a run with another number of ranks, which did not get far enough.
    is_former: bool,
}

enum Found {
    Memory(InMemory),
    Checkpoint(Box<Checkpoint>),
    Nothing,
}

/// The search for what to go on from, again and again while what is found turns out to be damaged.
struct Search<'a> {
    options: &'a RecoveryOptions,
    name: &'a str,
    skipped: Vec<String>,
    /// Why memory is of no use.
    damage: Option<stillframe::Error>,
    /// Checkpoints that are of no use.
    left: Vec<PathBuf>,
}

impl<'a> Search<'a> {
    fn new(options: &'a RecoveryOptions, name: &'a str) -> Search<'a> {
        Search { options, name, skipped: Vec::new(), damage: None, left: Vec::new() }
    }

    fn leave_memory(&mut self, error: stillframe::Error) {
        self.skipped.push(format!("in memory: {error}"));
        self.damage = Some(error);
    }

    fn leave_checkpoint(&mut self, path: &Path, error: &Error) {
        self.left.push(path.into());
        self.skipped.push(error.to_string());
    }

    fn next(&mut self) -> Result<Found> {
        if self.options.region.is_fresh() {
            return Ok(Found::Nothing);
        }
        let memory = match self.damage {
            Some(_) => None,
            None => match self.memory() {
                Err(error) if error.family() == Family::Corrupt => {
                    self.leave_memory(error);
                    None
                }
                other => other?,
            },
        };
        if let Some(checkpoint) = self.checkpoint(memory.as_ref().map(|memory| memory.published_ns))? {
            return Ok(Found::Checkpoint(checkpoint.into()));
        }
        if let Some(memory) = memory {
            return Ok(Found::Memory(memory));
        }
        // Rather no beginning than one that takes the last hope of recovering away.
        if let Some(damage) = self.damage.take() {
            return Err(damage.into());
        }
        match (&self.options.checkpoints, self.options.version) {
            (Some(dir), _) if !self.left.is_empty() => {
                Err(Error::NoCheckpoint { dir: dir.clone(), skipped: self.skipped.clone() })
            }
            (Some(dir), Some(version)) => {
                let known = Store::open(dir).and_then(|store| store.versions()).unwrap_or_default();
                Err(Error::NoSuchVersion { dir: dir.clone(), version, known })
            }
            (None, Some(version)) => {
                let (region, oldest, newest) = (self.name.into(), None, None);
                Err(stillframe::Error::VersionGone { region, version, oldest, newest }.into())
            }
            _ => Ok(Found::Nothing),
        }
    }

    /// The newest good checkpoint, if it was published after `published_ns`, or the version asked for.
    fn checkpoint(&mut self, published_ns: Option<u64>) -> Result<Option<Checkpoint>> {
        let Some(dir) = &self.options.checkpoints else { return Ok(None) };
        let store = match Store::open(dir) {
            Err(Error::NoStore { .. }) if !dir.exists() => return Ok(None),
            other => other?,
        };
        for entry in store.entries()?.into_iter().rev() {
            let is_wanted = self.options.version.is_none_or(|version| version == entry.version);
            if !is_wanted || self.left.contains(&entry.path) {
                continue;
            }
            let checked = entry.checkpoint.and_then(|checkpoint| {
                let is_later = published_ns.is_none_or(|memory_ns| checkpoint.manifest().published_ns > memory_ns);
                match is_later {
                    true => checkpoint.check().map(|()| Some(checkpoint)),
                    false => Ok(None),
                }
            });
            match checked {
                Ok(Some(checkpoint)) => return Ok(Some(checkpoint)),
                Ok(None) => {}
                Err(error) if error.family() == Family::Corrupt => self.leave_checkpoint(&entry.path, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn memory(&mut self) -> stillframe::Result<Option<InMemory>> {
        let (dir, name, wanted) = (self.options.region.directory(), self.name, self.options.version);
        if self.options.region.rank_and_ranks().is_some() {
            let found = self.group_in(dir, false)?;
            let former = self.group_in(&decision::former(dir, name), true)?;
            return Ok([found, former].into_iter().flatten().max_by_key(|memory| memory.published_ns));
        }
        let observer = match Observer::options().dir(dir).open(name) {
            Err(stillframe::Error::NoRegion { .. }) => return Ok(None),
            other => other?,
        };
        let snapshot = match wanted {
            None => observer.newest(),
            Some(version) => observer.version(version),
        };
        match snapshot {
            Err(stillframe::Error::NoVersion { .. } | stillframe::Error::VersionGone { .. }) => Ok(None),
            Err(error) => Err(error),
            Ok(snapshot) => Ok(Some(InMemory {
                version: snapshot.version(),
                published_ns: snapshot.published_ns(),
                ranks: 0,
                is_former: false,
            })),
        }
    }

    fn group_in(&mut self, dir: &Path, is_former: bool) -> stillframe::Result<Option<InMemory>> {
        let group = match Group::options().dir(dir).open(self.name) {
            Err(stillframe::Error::NoRegion { .. }) => return Ok(None),
            other => other?,
        };
        let snapshot = match self.options.version {
            None => group.newest(),
            Some(version) => group.version(version),
        };
        match snapshot {
            Err(error @ (stillframe::Error::NoCommonVersion { .. } | stillframe::Error::RankMissing { .. })) => {
                let has_any = group.ranks()?.iter().any(|rank| rank.newest.is_some());
                if has_any && !self.skipped.contains(&error.to_string()) {
                    self.skipped.push(format!("in memory: {error}"));
                }
                Ok(None)
            }
            Err(stillframe::Error::NoVersion { .. } | stillframe::Error::VersionGone { .. }) => Ok(None),
            Err(error) => Err(error),
            Ok(snapshot) => Ok(Some(InMemory {
                version: snapshot.version(),
                published_ns: snapshot.ranks().iter().map(Snapshot::published_ns).max().unwrap_or(0),
                ranks: snapshot.ranks().len() as u32,
                is_former,
            })),
        }
    }
}

/// A variable as one of the ranks stored it.
struct Stored {
    rank: usize,
    dtype: DType,
    piece: Piece,
    is_part: bool,
}

/// The recovered version, opened for reading.
enum Reader<'a> {
    Memory(Vec<Snapshot>),
    Files(&'a Checkpoint),
}

impl Reader<'_> {
    fn rank(&self, rank: usize) -> Option<u32> {
        match self {
            Reader::Files(checkpoint) => checkpoint.manifest().ranks.map(|_| rank as u32),
            Reader::Memory(_) => None,
        }
    }

    /// The variable of this name, as far as ranks stored it.
    fn stored(&self, name: &str) -> Result<Vec<Stored>> {
        let stored = |rank: usize, dtype: &DType, order, shape: &[usize], part: Option<Part>| {
            let is_part = part.is_some();
            let part = part.unwrap_or(Part { offset: vec![0; shape.len()], global_shape: shape.to_vec() });
            // A part that reaches out of its array has no place in it.
            part.check(shape).map_err(|why| stillframe::Error::WrongShape { name: name.into(), why })?;
            Ok(Stored { rank, dtype: dtype.clone(), piece: Piece { part, shape: shape.to_vec(), order }, is_part })
        };
        match self {
            Reader::Memory(ranks) => ranks
                .iter()
                .enumerate()
                .filter_map(|(rank, snapshot)| Some((rank, snapshot.variables().iter().find(|v| v.name == name)?)))
                .map(|(rank, view)| stored(rank, &view.dtype, view.order, &view.shape, view.part()?))
                .collect(),
            Reader::Files(checkpoint) => checkpoint
                .manifest()
                .variables
                .iter()
                .filter(|variable| variable.name == name)
                .map(|variable| {
                    let wrong = |why| stillframe::Error::WrongShape { name: name.into(), why };
                    let part = Part::of(&variable.attributes).map_err(wrong)?;
                    stored(variable.rank.unwrap_or(0) as usize, &variable.dtype, variable.order, &variable.shape, part)
                })
                .collect(),
        }
    }

    fn read(&self, name: &str, rank: usize, range: Range<usize>, out: &mut [u8]) -> Result<()> {
        match self {
            Reader::Files(checkpoint) => checkpoint.read(self.rank(rank), name, range, out),
            Reader::Memory(ranks) => {
                out.copy_from_slice(&ranks[rank].view(name)?[range]);
                Ok(())
            }
        }
    }
}

impl Recovered {
    /// What the run goes on from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The version the run goes on from; `None` if it begins with nothing.
    pub fn version(&self) -> Option<u64> {
        self.origin.version()
    }

    /// The attributes of that version: of the rank itself, or of rank 0 if the number of ranks is another one.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// What would have been newer and is damaged, in words.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Whether each rank has what it had.
    fn is_as_it_was(&self) -> bool {
        matches!(self.source, Source::Nothing | Source::Region { .. })
    }

    fn reader(&self, name: &str) -> Result<Reader<'_>> {
        Ok(match &self.source {
            Source::Nothing => return Err(Error::NothingRecovered { name: name.into() }),
            Source::Held(ranks) => Reader::Memory(ranks.to_vec()),
            Source::Files(checkpoint) => Reader::Files(checkpoint),
            Source::Region { dir, name, version } => match self.rank {
                None => Reader::Memory(vec![Observer::options().dir(dir).open(name)?.version(*version)?]),
                Some(_) => Reader::Memory(Group::options().dir(dir).open(name)?.version(*version)?.ranks().to_vec()),
            },
        })
    }

    /// Reads a box of a variable of the recovered version into `out`, row-major: of the global array, if the variable is a
    /// part of one, from whichever ranks have it; else of the variable of this rank. For tracked arrays, and for any other
    /// number of ranks. It works until the first version is published.
    ///
    /// Where parts overlap, [`Part::owned`] says whose elements count. A variable that is no part and was stored by another
    /// number of ranks is read if it is the same on all of them.
    ///
    /// # Errors
    /// Misuse if there is no such variable, of another type, or the box reaches beyond it; [`Error::Uncovered`];
    /// [`Error::PerRank`]; [`Error::NothingRecovered`] if the run begins with nothing; those of reading a checkpoint.
    pub fn read<T: Element>(&self, name: &str, offset: &[usize], shape: &[usize], out: &mut [T]) -> Result<()> {
        self.read_bytes(name, &T::dtype(), Order::C, offset, shape, bytemuck::cast_slice_mut(out))
    }

    /// As [`read`](Recovered::read), for elements of any type in any order; `out` has as many bytes as the box.
    ///
    /// # Errors
    /// As [`read`](Recovered::read).
    pub fn read_bytes(
        &self,
        name: &str,
        dtype: &DType,
        order: Order,
        offset: &[usize],
        shape: &[usize],
        out: &mut [u8],
    ) -> Result<()> {
        let reader = self.reader(name)?;
        let mut stored = reader.stored(name)?;
        let Some(first) = stored.first() else { return Err(self.unknown(&reader, name)) };
        if let Some(other) = stored.iter().find(|stored| stored.dtype != *dtype) {
            let (expected, found) = (dtype.clone(), other.dtype.clone());
            return Err(stillframe::Error::WrongDType { name: name.into(), expected, found }.into());
        }
        if !first.is_part {
            let rank = match (self.is_as_it_was(), self.rank) {
                (true, rank) => rank.map_or(0, |(rank, _)| rank as usize),
                (false, _) => {
                    self.check_same(&reader, name, &stored)?;
                    first.rank
                }
            };
            stored.retain(|stored| stored.rank == rank);
        } else {
            // Ranks that say nothing of where theirs lies have no place in the global array.
            let global_shape = first.piece.part.global_shape.clone();
            stored.retain(|stored| stored.is_part && stored.piece.part.global_shape == global_shape);
        }
        let Some(first) = stored.first() else { return Err(self.unknown(&reader, name)) };
        let wanted = Part { offset: offset.to_vec(), global_shape: first.piece.part.global_shape.clone() };
        let wrong = |why| Error::Engine(stillframe::Error::WrongShape { name: name.into(), why });
        wanted.check(shape).map_err(wrong)?;
        let bytes = shape.iter().product::<usize>() * dtype.bytes();
        if out.len() != bytes {
            let found = out.len();
            return Err(wrong(format!("shape {shape:?} of {dtype} is {bytes} bytes, and the memory has {found}")));
        }
        let pieces: Vec<Piece> = stored.iter().map(|stored| stored.piece.clone()).collect();
        repartition::read(name, dtype, &pieces, &Block::new(offset, shape), order, out, |index, range, to| {
            reader.read(name, stored[index].rank, range, to)
        })
    }

    fn unknown(&self, reader: &Reader, name: &str) -> Error {
        let mut known: Vec<String> = match reader {
            Reader::Memory(ranks) => ranks.iter().flat_map(Snapshot::variables).map(|v| v.name.clone()).collect(),
            Reader::Files(checkpoint) => checkpoint.manifest().variables.iter().map(|v| v.name.clone()).collect(),
        };
        known.sort();
        known.dedup();
        let region = match reader {
            Reader::Memory(ranks) => ranks.first().map_or(String::new(), |rank| rank.region().into()),
            Reader::Files(checkpoint) => checkpoint.manifest().region.clone(),
        };
        stillframe::Error::UnknownVariable { region, name: name.into(), known }.into()
    }

    /// Fails if a variable that is no part is not the same on all ranks that stored it.
    fn check_same(&self, reader: &Reader, name: &str, stored: &[Stored]) -> Result<()> {
        let ranks = self.rank.map_or(1, |(_, ranks)| ranks);
        let differs = || Error::PerRank { name: name.into(), stored: stored.len() as u32, ranks };
        let Some((first, others)) = stored.split_first() else { return Ok(()) };
        let bytes = first.piece.shape.iter().product::<usize>() * first.dtype.bytes();
        let (mut left, mut right) = (vec![0; BLOCK_BYTES.min(bytes)], vec![0; BLOCK_BYTES.min(bytes)]);
        for other in others {
            if other.is_part || other.piece.shape != first.piece.shape || other.piece.order != first.piece.order {
                return Err(differs());
            }
            for start in (0..bytes).step_by(BLOCK_BYTES) {
                let end = bytes.min(start + BLOCK_BYTES);
                reader.read(name, first.rank, start..end, &mut left[..end - start])?;
                reader.read(name, other.rank, start..end, &mut right[..end - start])?;
                if left[..end - start] != right[..end - start] {
                    return Err(differs());
                }
            }
        }
        Ok(())
    }

    /// Gives a managed variable its content: its box of the global array if it is a part of one. What it has by itself,
    /// because the run has as many ranks and the same parts, is left as it is; when the run begins with nothing, all is.
    ///
    /// # Errors
    /// As [`read`](Recovered::read), and misuse if the variable is not managed.
    pub fn fill(&self, region: &mut Region, id: VariableId) -> Result<()> {
        let declared = region.declared(id)?;
        let Kind::Managed { shape } = &declared.kind else {
            let found = if declared.kind == Kind::Tracked { "tracked" } else { "loaned" };
            return Err(stillframe::Error::WrongKind { name: declared.name, expected: "managed", found }.into());
        };
        if let Source::Nothing = self.source {
            return Ok(());
        }
        let name = &declared.name;
        let wrong = |why| Error::Engine(stillframe::Error::WrongShape { name: name.clone(), why });
        let part = Part::of(&declared.attributes).map_err(wrong)?;
        let reader = self.reader(name)?;
        if self.is_as_it_was() {
            let own = self.rank.map_or(0, |(rank, _)| rank as usize);
            let is_same = |stored: &Stored| {
                stored.rank == own
                    && stored.dtype == declared.dtype
                    && stored.piece.order == declared.order
                    && stored.piece.shape == *shape
                    && part.as_ref().is_none_or(|part| *part == stored.piece.part || !stored.is_part)
            };
            if reader.stored(name)?.iter().any(is_same) {
                return Ok(());
            }
        }
        let offset = part.map_or(vec![0; shape.len()], |part| part.offset);
        drop(reader);
        self.read_bytes(name, &declared.dtype, declared.order, &offset, shape, region.bytes_mut(id)?)
    }
}
