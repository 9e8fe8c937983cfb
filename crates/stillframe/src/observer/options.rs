//! How an observer is opened.

use crate::error::Result;
use crate::observer::polite::{Pace, Polite};
use crate::place::arena::Arena;
use crate::place::files::Root;
use crate::place::names;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stillframe_kernel::trust::Trust;

/// Options for opening an observer.
#[derive(Debug, Clone)]
pub struct ObserverOptions {
    pub(crate) dir: PathBuf,
    pub(crate) wait: Duration,
    pub(crate) populate: Option<usize>,
    pub(crate) trust: Option<Trust>,
    pub(crate) arena: Option<Arena>,
    /// Whether it is the group that was set aside in that arena.
    pub(crate) is_former: bool,
    /// Whether only ranks of this node are looked for.
    pub(crate) is_here: bool,
    pub(crate) polite: Option<Polite>,
    /// How fast it goes on, once it is polite.
    pub(crate) pace: Option<Arc<Pace>>,
}

impl ObserverOptions {
    /// The directory that holds the region's own; by default `$STILLFRAME_DIR`, else `/dev/shm/stillframe-<uid>`. `unix:PATH` stands for
    /// the regions that a broker hands out at that socket (`still enclave serve`); a name may begin so, too: `unix:PATH#NAME`.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = dir.into();
        self
    }

    /// Looks into an arena that this process has open, by the names that regions have within it. Regions of an arena with a
    /// directory are found without this too, as `ARENA/REGION`; those of one that was handed in as a descriptor are not.
    pub fn arena(mut self, arena: &Arena) -> Self {
        self.dir = arena.path().into();
        self.arena = Some(arena.clone());
        self
    }

    /// How long to wait for the region to appear and to have a first version; not at all by default.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Whose directories and files are taken for good, besides those of the process's user and of root; by default
    /// `$STILLFRAME_TRUST`, else nobody's in the directory that is the user's by default, and everybody's in one that is
    /// named. What an observer reads of a region is checked whoever made it. But its owner can change what was published, and
    /// a file that he cuts shorter while memory that shows it is looked at ends the process with a `SIGBUS`.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = Some(trust);
        self
    }

    /// Enters all pages of a variable in the page tables when it is first seen whole ([`slice`](crate::Snapshot::slice),
    /// [`view`](crate::Snapshot::view)), by so many threads, the calling one included, which also take them out in the end. For
    /// programs that read all of a large variable: without this, pages are entered as they are first read.
    pub fn populate(mut self, threads: usize) -> Self {
        self.populate = Some(threads);
        self
    }

    /// Takes of the machine only what others leave, for as long as the process lives: for programs that look and do nothing
    /// else. After each version that it waited for, an observer sleeps before it holds the next, until what the process used is
    /// within its budget; see [`Polite`].
    pub fn polite(mut self, polite: Polite) -> Self {
        self.polite = Some(polite);
        self
    }

    /// Looks only for what is on this node, and does not ask its runtime (`still node`) for ranks on others.
    pub fn here(mut self) -> Self {
        self.is_here = true;
        self
    }

    /// Becomes polite, if that is asked for and not done yet.
    pub(crate) fn begin_polite(&mut self) -> Result<()> {
        if let Some(polite) = self.polite.take() {
            self.pace = Some(Arc::new(polite.begin()?));
        }
        Ok(())
    }

    /// Options for the regions of a group that is found where these would look.
    pub(crate) fn for_ranks(&self) -> ObserverOptions {
        ObserverOptions { wait: Duration::ZERO, populate: None, ..self.clone() }
    }

    /// The name that a region or group has within the arena.
    pub(crate) fn inner(&self, name: &str) -> String {
        if self.is_former { names::former_name(name) } else { name.into() }
    }

    /// A name as observers and groups tell it.
    pub(crate) fn shown(&self, name: &str) -> String {
        self.arena.as_ref().map_or_else(|| name.into(), |arena| format!("{}/{name}", arena.name()))
    }

    /// The directory that holds the region's own, if it is there.
    pub(crate) fn root(&self) -> Result<Option<Root>> {
        Root::open(&self.dir, names::looking(&self.dir, self.trust)?)
    }
}
