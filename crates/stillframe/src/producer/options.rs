//! How a region is made.

use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::observer::options::ObserverOptions;
use crate::place::arena::Arena;
use crate::place::directory::Directory;
use crate::place::names::{self, hidden_name};
use crate::store::regions::Regions;
use crate::store::unit::MemoryUnit;
use crate::working::tracker::kind::TrackerKind;
use crate::working::unit::CopyUnit;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stillframe_kernel::trust::{Guard, Purpose, Trust};
use stillframe_segment::head::{RANKS_MAX, SLOTS};

/// What to do when a region's bound, or its file system, has no room for another version because observers hold old ones.
/// Where none is held nobody can let go, and it is an error; [`Skip`](Rule::Skip) leaves the publish out at the bound all the
/// same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Wait until an observer lets go, but no longer than `limit` in all since the newest version; then leave this publish
    /// out, and those that follow at once, until there is room. What was written is part of the next version. The default,
    /// with a limit of 1 s.
    WaitThenSkip {
        /// Longest wait between two versions, in however many publishes and loans.
        limit: Duration,
    },
    /// Wait until an observer lets go, at most for `timeout` in each publish if there is one; then it is an error.
    Wait {
        /// Longest wait.
        timeout: Option<Duration>,
    },
    /// Leave this publish out; what was written is part of the next one.
    Skip,
    /// Return an error; what was written is part of the next publish.
    Fail,
}

impl Default for Rule {
    fn default() -> Self {
        Rule::WaitThenSkip { limit: Duration::from_secs(1) }
    }
}

/// Options for creating or recovering a region.
#[derive(Debug, Clone)]
pub struct RegionOptions {
    pub(crate) dir: PathBuf,
    pub(crate) keep: usize,
    pub(crate) bound_bytes: Option<u64>,
    pub(crate) rule: Rule,
    threads: Option<usize>,
    pub(crate) tracker: Option<TrackerKind>,
    pub(crate) copy_unit: Option<CopyUnit>,
    pub(crate) memory_unit: Option<MemoryUnit>,
    pub(crate) constant_files: bool,
    pub(crate) mode: u32,
    pub(crate) large_pages: bool,
    pub(crate) demote: bool,
    pub(crate) check_writes: bool,
    /// Rank and number of ranks, if the region is of a group.
    pub(crate) rank: Option<(u32, u32)>,
    pub(crate) drift: usize,
    pub(crate) rollback: Option<u64>,
    pub(crate) fresh: bool,
    pub(crate) run: Option<NonZeroU64>,
    trust: Option<Trust>,
    pub(crate) arena: Option<Arena>,
    /// What leads to the arena, in the names by which observers that look in `dir` find its regions; `None` if it was not a
    /// name that led there.
    pub(crate) prefix: Option<String>,
    /// Whether it is made below a hidden name of the arena.
    pub(crate) hidden: bool,
}

/// Versions that a rank retains for slower ones, unless told otherwise.
const DRIFT_DEFAULT: usize = 16;

/// Most of the ring that versions retained may take; the rest is for those that observers hold.
const RETAINED_MAX: usize = SLOTS / 4 * 3;

/// Most threads a copy uses unless more are asked for: memory bandwidth is used up by few.
const THREADS_DEFAULT_MAX: usize = 4;

impl Default for RegionOptions {
    fn default() -> Self {
        RegionOptions {
            dir: names::root(),
            keep: 1,
            bound_bytes: None,
            rule: Rule::default(),
            threads: None,
            tracker: None,
            copy_unit: None,
            memory_unit: None,
            constant_files: false,
            mode: 0o700,
            large_pages: true,
            demote: true,
            check_writes: false,
            rank: None,
            drift: DRIFT_DEFAULT,
            rollback: None,
            fresh: false,
            run: None,
            trust: None,
            arena: None,
            prefix: None,
            hidden: false,
        }
    }
}

impl RegionOptions {
    /// The directory that holds the region's own; by default `$STILLFRAME_DIR`, else `/dev/shm/stillframe-<uid>`.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = dir.into();
        self
    }

    /// Makes the region in an arena instead of a directory of its own. It is found as `ARENA/NAME`, and shares the arena's length
    /// with its other regions. Without this the name `ARENA/NAME`, or the arena's directory as [`dir`](RegionOptions::dir), leads
    /// to the same region.
    pub fn arena(mut self, arena: &Arena) -> Self {
        self.dir = arena.path().into();
        self.prefix = None;
        self.arena = Some(arena.clone());
        self
    }

    /// How many of the newest versions stay although nobody holds them; 1 by default, at most half of the ring (32).
    pub fn keep(mut self, versions: usize) -> Self {
        self.keep = versions;
        self
    }

    /// Bound on the bytes of memory behind the planes. Without one the file system's size is the bound.
    pub fn bound_bytes(mut self, bytes: u64) -> Self {
        self.bound_bytes = Some(bytes);
        self
    }

    /// What to do when there is no room; by default wait at most 1 s in all since the newest version, then skip.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// Threads that copy at a publish, and that enter loans in the page tables and take them out, the calling one included;
    /// by default the processors that the process was given when it was started, shared among the ranks of its group, at most
    /// 4. They run on all of those, wherever the thread that creates the region is bound.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The ranks of a group publish at about the same time, and share their node's processors with each other.
    pub(crate) fn copy_threads(&self) -> usize {
        let ranks = self.rank.map_or(1, |(_, ranks)| ranks as usize);
        let share = stillframe_kernel::processor_count() / ranks.max(1);
        self.threads.unwrap_or(share.clamp(1, THREADS_DEFAULT_MAX))
    }

    /// The tracker to use; by default `$STILLFRAME_TRACKER`, else the best that works.
    pub fn tracker(mut self, tracker: TrackerKind) -> Self {
        self.tracker = Some(tracker);
        self
    }

    /// In which units tracked arrays that lie in reserved large pages are copied; by default `$STILLFRAME_COPY_UNIT`, else what is
    /// learned to be better. It changes nothing of what a version shows.
    pub fn copy_unit(mut self, unit: CopyUnit) -> Self {
        self.copy_unit = Some(unit);
        self
    }

    /// In which units memory for versions is taken and given back; by default `$STILLFRAME_MEMORY_UNIT`, else in pages. It changes
    /// nothing of what a version shows.
    pub fn memory_unit(mut self, unit: MemoryUnit) -> Self {
        self.memory_unit = Some(unit);
        self
    }

    /// Promises that nobody changes the files of which tracked arrays are private mappings. Pages that the program did not write are
    /// not compared then, nor read at all after the first version that shows them; a version may lack what somebody changed all the
    /// same.
    pub fn constant_files(mut self, are_constant: bool) -> Self {
        self.constant_files = are_constant;
        self
    }

    /// Access mode of the region's directory; 0o700 by default. With 0o750 the group may observe.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Whether managed variables of at least 2 MiB, and whole windows of loaned ones, ask for large pages; true by default.
    pub fn large_pages(mut self, large_pages: bool) -> Self {
        self.large_pages = large_pages;
        self
    }

    /// Whether publishes in the background look if a variable is written before they are finished, and are then an error that
    /// names the variable and the page; false by default, but true with `STILLFRAME_CHECK=1` in the environment. All that is
    /// copied is read three times more.
    pub fn check_writes(mut self, check_writes: bool) -> Self {
        self.check_writes = check_writes;
        self
    }

    /// Whether pages of managed variables that stay clean are shared with the planes, so that they exist once; true by
    /// default. [`Region::pin`](crate::Region::pin) excepts a variable.
    pub fn demote(mut self, demote: bool) -> Self {
        self.demote = demote;
        self
    }

    /// Makes the region one of a group: [`create`](RegionOptions::create) takes the group's name, and the region's is
    /// `name/rank`. Versions stay until all `ranks` ranks have published them, see [`drift`](RegionOptions::drift).
    pub fn rank(mut self, rank: u32, ranks: u32) -> Self {
        self.rank = Some((rank, ranks));
        self
    }

    /// How many versions beyond those of [`keep`](RegionOptions::keep) stay for slower ranks of the group, or for slower
    /// [peers](crate::Region::set_peers); 16 by default, from 2 to 32, and together with `keep` at most 48. When slower ones
    /// are further behind, versions in between go, but never the newest one that all have, nor one that somebody holds.
    pub fn drift(mut self, versions: usize) -> Self {
        self.drift = versions;
        self
    }

    /// Drops the versions above `version` when a region is recovered, so that they can be published again: for the ranks
    /// of a group, which may have died at different versions. A region that is new, or whose newest version is not above
    /// it, stays as it is.
    pub fn rollback(mut self, version: u64) -> Self {
        self.rollback = Some(version);
        self
    }

    /// Whether to begin with nothing: what a dead producer left under this name is not recovered, so that version numbers may
    /// begin again. Observers keep what they hold, and open the name again to see the new run. The first rank of a group to
    /// begin so does this for all ranks of the last run. False by default.
    ///
    /// What a producer left that ended by itself is removed. If it did not, and published something, it is set aside as
    /// `NAME~1`, if memory has room for as much again: one for each name, until a producer of the name that published
    /// something ends by itself, or finds the file system full.
    pub fn fresh(mut self, fresh: bool) -> Self {
        self.fresh = fresh;
        self
    }

    /// Whose directories and files are taken for good, besides those of the process's user and of root; by default
    /// `$STILLFRAME_TRUST`, else nobody's. A directory or file that belongs to somebody else, or that others may write to, is
    /// refused otherwise ([`Error::Untrusted`]), unless [`mode`](RegionOptions::mode) grants just that.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = Some(trust);
        self
    }

    /// Whose directories and files are taken for good, as [`trust`](RegionOptions::trust) said or by default.
    ///
    /// # Errors
    /// [`Error::BadOption`] if `$STILLFRAME_TRUST` says nothing of the kind.
    pub fn trusted(&self) -> Result<Trust> {
        Ok(names::trust(self.trust)?.unwrap_or_default())
    }

    /// How the region's files are looked at before they are written.
    pub(crate) fn guard(&self) -> Result<Guard> {
        Ok(Guard::new(self.trusted()?, Purpose::Write { granted: self.mode }))
    }

    /// How they are looked at before names are taken away.
    pub(crate) fn looking(&self) -> Result<Guard> {
        Ok(Guard::new(self.trusted()?, Purpose::Look))
    }

    /// The directory that holds the region's own, as [`dir`](RegionOptions::dir) said or by default.
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// The arena, as [`arena`](RegionOptions::arena) said.
    pub fn chosen_arena(&self) -> Option<&Arena> {
        self.arena.as_ref()
    }

    /// Options for observing what these make, under the same name.
    pub fn observing(&self) -> ObserverOptions {
        let options = Observer::options().dir(&self.dir).here();
        match &self.arena {
            Some(arena) => options.arena(arena),
            None => options,
        }
    }

    /// The name that the region or group has in its place, as long as it is hidden another one.
    pub(crate) fn inner(&self, name: &str) -> String {
        if self.hidden { hidden_name(name) } else { name.into() }
    }

    /// What the region is called towards its users: as it was named, in an arena that was given as such `ARENA/NAME`.
    pub(crate) fn full_name(&self, name: &str) -> String {
        match (&self.arena, &self.prefix) {
            (Some(arena), None) => format!("{}/{name}", arena.name()),
            _ => self.shown(name),
        }
    }

    /// The regions of the arena in which it is made.
    pub(crate) fn regions_of(&self, arena: &Arena) -> Regions {
        Regions::Arena { arena: arena.clone(), prefix: self.prefix.clone().unwrap_or_default() }
    }

    /// The name by which observers that look in the same directory find the region.
    pub(crate) fn shown(&self, name: &str) -> String {
        format!("{}{name}", self.prefix.as_deref().unwrap_or(""))
    }

    /// What is meant if the directory is that of an arena, or the name leads into one: a region there, and its name in it.
    pub(crate) fn resolve(&self, name: &str) -> Result<(RegionOptions, String)> {
        names::new_region_dir(&self.dir, name)?;
        if self.arena.is_none()
            && let Some(root) = Directory::root(&self.dir, self.guard()?)?
            && let Some((arena, [prefix, region])) = Arena::of_own_region(&root, name)?
        {
            let dir = self.dir.clone();
            return Ok((RegionOptions { dir, prefix: Some(prefix), ..self.clone().arena(&arena) }, region));
        }
        Ok((self.clone(), name.into()))
    }

    /// The run of the group that the rank belongs to, as [`GroupSnapshot::run`](crate::GroupSnapshot::run) tells it: for ranks
    /// that are made one after the other, and are of one run all the same. Without it a rank is of the run of those that live,
    /// or begins a new one.
    pub fn run(mut self, run: NonZeroU64) -> Self {
        self.run = Some(run);
        self
    }

    /// Rank and number of ranks, as [`rank`](RegionOptions::rank) said.
    pub fn rank_and_ranks(&self) -> Option<(u32, u32)> {
        self.rank
    }

    /// Whether to begin with nothing, as [`fresh`](RegionOptions::fresh) said.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Refuses options that make no sense.
    pub(crate) fn check(&self) -> Result<()> {
        let fail = |option, why: String| Err(Error::BadOption { option, why });
        if self.keep == 0 || self.keep > SLOTS / 2 {
            return fail("keep", format!("{} is not between 1 and {}", self.keep, SLOTS / 2));
        }
        if let Some(threads @ (0 | 1025..)) = self.threads {
            return fail("threads", format!("{threads} is not between 1 and 1024"));
        }
        if self.mode & 0o700 != 0o700 || self.mode > 0o777 {
            return fail("mode", format!("{:#o} locks the owner out", self.mode));
        }
        if let Some((rank, ranks)) = self.rank {
            if ranks == 0 || ranks > RANKS_MAX {
                return fail("ranks", format!("{ranks} is not between 1 and {RANKS_MAX}"));
            }
            if rank >= ranks {
                return fail("rank", format!("{rank} is not below {ranks}, the number of ranks"));
            }
            self.check_drift()?;
        }
        Ok(())
    }

    /// Refuses a drift that makes no sense, of a region that has peers.
    pub(crate) fn check_drift(&self) -> Result<()> {
        if self.drift < 2 || self.drift > SLOTS / 2 || self.keep + self.drift > RETAINED_MAX {
            let why = format!(
                "{} is not between 2 and {}, or is above {RETAINED_MAX} together with keep, {}",
                self.drift,
                SLOTS / 2,
                self.keep
            );
            return Err(Error::BadOption { option: "drift", why });
        }
        Ok(())
    }
}
