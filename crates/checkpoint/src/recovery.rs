//! Create or recover: one call with which a program begins, whatever is left of the run before.
//!
//! What is taken is what was published last: a region that is still in memory, or the newest good checkpoint. The ranks of a
//! group take the same, without talking to each other; `decision` has how.

use crate::decision::{self, Decision, DecisionFile};
use crate::origin::{Origin, RecoveryOptions};
use crate::recovered::{Recovered, RecoveredVariable, Source};
use crate::restore::RestoreOptions;
use crate::search::{Found, Search};
use crate::{Checkpoint, Result, workers};
use std::ops::{Deref, DerefMut};
use stillframe::{Attributes, DType, Element, Family, Order, Region, TrackerKind, VariableId};
use stillframe_kernel::points;

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

    /// The variables of that version; see [`Recovered::variables`].
    ///
    /// # Errors
    /// As [`Recovered::variables`].
    pub fn variables(&self) -> Result<Vec<RecoveredVariable>> {
        self.recovered.variables()
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
        offset: Option<&[usize]>,
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
    /// Creates the region: with what is still in memory under its name, else with the newest good checkpoint, else with
    /// nothing; with the checkpoint too if that was published later than what is in memory. What is damaged is left aside
    /// and named by [`skipped`](Recovery::skipped).
    ///
    /// All ranks of a group that begin while one of them lives go on from the same version, whatever each of them had.
    ///
    /// # Errors
    /// Of the engine: `InUse` if a producer of the name, or a rank of an earlier run, lives; `Corrupt` if what is in memory is damaged
    /// and there is no checkpoint. [`Error::NoCheckpoint`](crate::Error::NoCheckpoint) if there are checkpoints but none is good, and
    /// nothing is in memory; [`Error::NoSuchVersion`](crate::Error::NoSuchVersion) if a version was asked for that is nowhere. Nothing
    /// is lost then.
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
        let (observing, dir) = (self.region.observing(), self.region.directory().into());
        Source::Region { observing, dir, name: name.into(), version }
    }

    /// Puts a checkpoint into memory if it has as many ranks, or else makes sure that all of it can be read. `false` if it is
    /// damaged.
    fn bring(&self, checkpoint: &Checkpoint, name: &str, ranks: Option<u32>, search: &mut Search) -> Result<bool> {
        let result = match checkpoint.manifest().ranks == ranks {
            true => RestoreOptions::new().replace(true).restore(checkpoint, &self.region, name, &|_| {}).map(drop),
            false => checkpoint.check_chunks(workers::default_threads()),
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
        if let Some(arena) = self.region.chosen_arena().filter(|arena| arena.is_handed_in()) {
            let why = format!(
                "ranks agree by files beside the arena what they go on from, and arena '{}' was handed in as a descriptor: make it \
                 in a directory",
                arena.name()
            );
            return Err(stillframe::Error::BadOption { option: "arena", why }.into());
        }
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
        let options = match decision.as_they_were(ranks) {
            Some(version) => self.region.clone().rollback(version),
            None => self.region.clone().fresh(true),
        };
        let region = match decision.run {
            Some(run) => options.run(run).create(name)?,
            None => options.create(name)?,
        };
        decision.run = Some(region.run());
        points::hit("recovery.created");
        let source = match (&decision.origin(), decision.former) {
            (Origin::Fresh, _) => Source::Nothing,
            (origin, true) => {
                let version = origin.version().unwrap_or_default();
                let group = decision::open_former(&self.region, name)?;
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
        let mut search = Search::new(self, name);
        loop {
            let (origin, stored, former) = match search.next()? {
                Found::Nothing => {
                    decision::remove_former(&self.region, name)?;
                    (Origin::Fresh, 0, false)
                }
                Found::Memory(memory) => {
                    let (version, stored) = (memory.version, memory.ranks);
                    match (stored == ranks, memory.is_former) {
                        (true, true) => decision::bring_back(&self.region, name)?,
                        (false, false) => decision::set_aside(&self.region, name)?,
                        (true, false) => decision::remove_former(&self.region, name)?,
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
                    decision::remove_former(&self.region, name)?;
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
            Source::Region { observing, name, version, .. } => {
                let name = rank.map_or(name.clone(), |(rank, _)| format!("{name}/{rank}"));
                observing.clone().open(&name)?.version(*version)?.attributes().clone()
            }
        };
        Ok(Recovery { region, recovered: Recovered { origin, attributes, skipped, rank, source } })
    }
}
