//! Which versions a checkpointer saves, and how.

use super::event::Listener;
use super::obstacle::Obstacle;
use crate::when::When;
use crate::{Error, Event, Result, SaveOptions};
use std::path::PathBuf;
use std::time::Duration;
use stillframe::{AnyObserver, Arena, Observer, Polite, inspect};
use stillframe_kernel::priority::NICE_MAX;

/// A tenth of the weight of a thread that does not step back.
const NICE: u32 = 10;

/// Options for saving versions as they come.
pub struct CheckpointerOptions {
    pub(super) regions: PathBuf,
    pub(super) arena: Option<Arena>,
    pub(super) every: Option<u64>,
    pub(super) every_time: Option<Duration>,
    pub(super) when: Option<When>,
    pub(super) at_end: bool,
    pub(super) once: bool,
    pub(super) all: bool,
    pub(super) held: usize,
    pub(super) held_bytes: Option<u64>,
    pub(super) save: SaveOptions,
    pub(super) nice: u32,
    pub(super) own_session: bool,
    pub(super) share: Option<f64>,
    pub(super) wait: Duration,
    pub(super) follow: Duration,
    pub(super) listener: Option<Listener>,
    pub(super) obstacle: Obstacle,
}

impl std::fmt::Debug for CheckpointerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("CheckpointerOptions");
        shown.field("regions", &self.regions).field("every", &self.every).field("every_time", &self.every_time);
        shown.field("when", &self.when).field("at_end", &self.at_end).field("once", &self.once).field("all", &self.all);
        shown
            .field("held", &self.held)
            .field("held_bytes", &self.held_bytes)
            .field("save", &self.save)
            .field("nice", &self.nice)
            .field("own_session", &self.own_session)
            .field("share", &self.share);
        shown.field("wait", &self.wait).field("follow", &self.follow).finish_non_exhaustive()
    }
}

impl Default for CheckpointerOptions {
    fn default() -> Self {
        CheckpointerOptions {
            regions: inspect::root(),
            arena: None,
            every: None,
            every_time: None,
            when: None,
            at_end: false,
            once: false,
            all: false,
            held: CheckpointerOptions::HELD,
            held_bytes: None,
            save: SaveOptions::default(),
            nice: NICE,
            own_session: false,
            share: None,
            wait: Duration::ZERO,
            follow: Duration::ZERO,
            listener: None,
            obstacle: Obstacle::default(),
        }
    }
}

impl CheckpointerOptions {
    /// Versions that are held at once with [`all`](Self::all), unless [`held`](Self::held) says otherwise.
    pub const HELD: usize = 8;

    /// Options that ask for nothing: every version is due.
    pub fn new() -> CheckpointerOptions {
        CheckpointerOptions::default()
    }

    /// The directory that holds the regions; by default `$STILLFRAME_DIR`, else `/dev/shm/stillframe-<uid>`.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.regions = dir.into();
        self
    }

    /// Looks for the region in an arena that this process has open, by the name that it has within it.
    pub fn arena(mut self, arena: &Arena) -> Self {
        self.arena = Some(arena.clone());
        self
    }

    /// Versions whose number is a multiple of this are due, and if such a one was not published or went, the next.
    ///
    /// Of the rules (this, [`every_time`](Self::every_time), [`when`](Self::when), [`at_end`](Self::at_end)) any one is enough; with
    /// none, every version is due.
    pub fn every(mut self, versions: u64) -> Self {
        self.every = Some(versions);
        self
    }

    /// A version is due so long after the last one was begun to be saved; the first one at once.
    pub fn every_time(mut self, interval: Duration) -> Self {
        self.every_time = Some(interval);
        self
    }

    /// Versions for which a condition on their attributes holds are due, such as `step % 100 == 0 && residual < 1e-3`.
    ///
    /// It knows the version's attributes by their names (of a group, those of rank 0), `version`, `published_ns`, and `age`,
    /// the seconds since it was published; `attributes["wall time"]` is for names that are no identifiers. Whole and real
    /// numbers mix. A name that the first version does not have ends the checkpointer with an error.
    ///
    /// # Errors
    /// [`Error::Expression`], which position the place.
    pub fn when(mut self, condition: &str) -> Result<Self> {
        self.when = Some(When::parse(condition)?);
        Ok(self)
    }

    /// The last version is due when the producer is gone, and the newest when the checkpointer is
    /// [stopped](crate::Checkpointer::stop).
    pub fn at_end(mut self, at_end: bool) -> Self {
        self.at_end = at_end;
        self
    }

    /// To end with the first version that is due, safe or not.
    pub fn once(mut self, once: bool) -> Self {
        self.once = once;
        self
    }

    /// Whether versions that come faster than they can be saved are held and saved one after the other, several at once,
    /// up to [`held`](Self::held) and [`held_bytes`](Self::held_bytes). By default the newest comes first, and those in
    /// between are left out. Either way those that are left out are counted.
    pub fn all(mut self, all: bool) -> Self {
        self.all = all;
        self
    }

    /// Most versions that are held at once with [`all`](Self::all), 1 to 32; 8 by default. Beyond it versions wait with the
    /// producer, as long as that keeps them.
    pub fn held(mut self, versions: usize) -> Self {
        self.held = versions;
        self
    }

    /// Most bytes of memory that held versions may take with [`all`](Self::all), counted as the pages that were written for
    /// each; by default a quarter of the memory that is available at the start. One version is held whatever it takes.
    pub fn held_bytes(mut self, bytes: u64) -> Self {
        self.held_bytes = Some(bytes);
        self
    }

    /// How versions are saved, and which checkpoints stay.
    pub fn save(mut self, options: SaveOptions) -> Self {
        self.save = options;
        self
    }

    /// How far the threads that save step back behind others that want the processors: their nice value, 0 to 19, and 10 by
    /// default. They also do not take a processor from another thread when they wake (`SCHED_BATCH`). With 0 they are as the
    /// thread that starts the checkpointer; a nice value that is higher already stays.
    ///
    /// A simulation on the same processors so goes on as if little were beside it, and it takes longer until a version is
    /// safe. The thread that looks for versions does not step back: it needs little, and none is to be missed.
    pub fn nice(mut self, nice: u32) -> Self {
        self.nice = nice;
        self
    }

    /// Whether the process does nothing but save. If it leads its session (setsid(2)), the session's autogroup then gets the
    /// nice value, too: the kernel shares out time among sessions first, and the threads' values count within one (sched(7)).
    pub fn own_session(mut self, own: bool) -> Self {
        self.own_session = own;
        self
    }

    /// How much of one processor the process takes where nothing is left over, above 0 and at most 1: after a version is saved,
    /// versions are left out until that is so. Where processors stay idle it takes more. Not with [`all`](Self::all) and
    /// [`once`](Self::once). As much as it needs by default. For a process that does nothing but save: all that it computes counts.
    pub fn share(mut self, share: f64) -> Self {
        self.share = Some(share);
        self
    }

    /// How long to wait for the region, and a living producer of it, to appear; not at all by default. After that, what the
    /// last producer left is taken, if there is something.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long to wait for the next producer when one is gone; not at all by default, which ends the checkpointer.
    pub fn follow(mut self, follow: Duration) -> Self {
        self.follow = follow;
        self
    }

    /// Calls this with what happens, from the checkpointer's threads, which wait for it meanwhile.
    pub fn listen(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Why versions that are due are not published in the region, for whoever makes them only to be saved. Who keeps it says so there.
    pub fn obstacle(mut self, obstacle: &Obstacle) -> Self {
        self.obstacle = obstacle.clone();
        self
    }

    /// Whether anything says which versions are due.
    pub(super) fn has_rule(&self) -> bool {
        self.every.is_some() || self.every_time.is_some() || self.when.is_some() || self.at_end
    }

    pub(super) fn check(&self) -> Result<()> {
        let refuse = |option, why: &str| Err(Error::BadOption { option, why: why.into() });
        if self.every == Some(0) {
            return refuse("every", "0 is no distance: use 1 for every version");
        }
        if self.every_time == Some(Duration::ZERO) {
            return refuse("every_time", "0 seconds are no interval: leave the option out to save every version");
        }
        if !(1..=32).contains(&self.held) {
            return refuse("held", "it is not between 1 and 32: the producer needs room for versions, too");
        }
        if self.nice > NICE_MAX {
            return refuse("nice", "it is not between 0 and 19");
        }
        if self.held_bytes == Some(0) {
            return refuse("held_bytes", "no version can be held in 0 bytes");
        }
        Ok(())
    }
}

/// Looks at what has this name; `None` if nothing has.
pub(super) fn find(options: &CheckpointerOptions, name: &str) -> Result<Option<AnyObserver>> {
    let looking = Observer::options().dir(&options.regions);
    let looking = match &options.arena {
        Some(arena) => looking.arena(arena),
        None => looking,
    };
    let looking = match options.share.filter(|_| !options.all && !options.once) {
        Some(share) => looking.polite(Polite::new().share(share).keep_class()),
        None => looking,
    };
    match looking.open_any(name) {
        Ok(target) => Ok(Some(target)),
        Err(stillframe::Error::NoRegion { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
