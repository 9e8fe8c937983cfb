//! Reading a fragment: from whom its elements come, version by version.

use crate::buffer::Buffer;
use crate::elsewhere::{self, Elsewhere, Wanted};
use crate::error::{Error, Result};
use crate::member::Members;
use crate::relief::{NoRelief, Relief};
use crate::shared::Shared;
use crate::source::Sources;
use crate::waiting::{self, Deadline};
use drepl::executor::Executor;
use drepl::{Fragment, IndexSet};
use std::collections::BTreeMap;
use std::sync::Arc;
use stillframe::Snapshot;
use stillframe_roster::writer::Version;

/// How often writers may let a version go while it is about to be held, before that is no coincidence.
const ATTEMPTS: usize = 1000;

/// The elements of a fragment, and what is known of those who write them.
#[derive(Debug)]
pub(crate) struct Reading {
    fragment: Arc<Fragment>,
    text: String,
    bindings: BTreeMap<String, i64>,
    wanted: IndexSet,
    members: Members,
    planned: Option<Plan>,
    elsewhere: Option<Elsewhere>,
    prefetches: bool,
}

/// From whom the elements come.
#[derive(Debug)]
struct Plan {
    /// The number of changes of the board that it was made with.
    changes: u64,
    /// The writers' fragments.
    numbers: Vec<u32>,
    sources: Sources,
}

/// A version of all wanted elements, which nobody takes away until this is dropped.
pub(crate) struct Held<'a> {
    shared: &'a Shared,
    sources: &'a Sources,
    snapshots: Vec<Snapshot>,
}

impl Reading {
    /// Of a fragment, with its text and the numbers of the names that this leaves open.
    pub(crate) fn new(
        shared: &Shared,
        fragment: &Arc<Fragment>,
        text: &str,
        bindings: BTreeMap<String, i64>,
    ) -> Result<Reading> {
        let wanted = shared.space.elements(fragment).map_err(shared.scattered())?;
        let (fragment, text, members) = (fragment.clone(), text.into(), Members::default());
        let (planned, elsewhere, prefetches) = (None, None, false);
        Ok(Reading { fragment, text, bindings, wanted, members, planned, elsewhere, prefetches })
    }

    /// Whether the next version of other nodes is fetched while the program works with one.
    pub(crate) fn prefetch(&mut self, prefetches: bool) {
        self.prefetches = prefetches;
    }

    /// The writers, as far as they were looked at.
    pub(crate) fn members(&mut self) -> &mut Members {
        &mut self.members
    }

    /// Gives back what the runtime of this node took for it.
    pub(crate) fn give_back(self, shared: &Shared) -> Result<()> {
        self.elsewhere.map_or(Ok(()), |open| open.close(shared))
    }

    /// Holds a version of all writers that have wanted elements, once these were published.
    pub(crate) fn hold<'a>(&'a mut self, shared: &'a Shared, version: Version, deadline: Deadline) -> Result<Held<'a>> {
        self.hold_with(shared, version, deadline, &NoRelief)
    }

    /// The same, with what the program can spare where this node's runtime has no memory.
    pub(crate) fn hold_with<'a>(
        &'a mut self,
        shared: &'a Shared,
        version: Version,
        deadline: Deadline,
        relief: &dyn Relief,
    ) -> Result<Held<'a>> {
        let Self { fragment, text, bindings, wanted, members, planned, elsewhere, prefetches } = self;
        for _ in 0..ATTEMPTS {
            members.refresh(shared)?;
            let is_current = |plan: &mut Plan| plan.changes == members.changes() && plan.sources.has(version);
            let (numbers, sources) = match planned.take_if(is_current) {
                Some(plan) => (plan.numbers, plan.sources),
                None => {
                    let found = waiting::wait(shared, members, version, wanted, deadline, Members::are_elsewhere)?;
                    let Some(numbers) = found else {
                        let is_complete = version <= members.announced(shared)?;
                        let (changes, prefetches) = (members.changes(), *prefetches);
                        let sought =
                            Wanted { fragment, text, bindings, version, is_complete, changes, prefetches, relief };
                        let whom = || members.known(shared, version, wanted);
                        let snapshots = match elsewhere::hold(elsewhere, shared, &sought, deadline, &whom) {
                            Err(lost @ Error::LostElsewhere { .. }) => {
                                return Err(waiting::unwritten(shared, members, version, wanted)?.unwrap_or(lost));
                            }
                            held => held?,
                        };
                        // Meanwhile another may have been given somebody's place, and have written the version as well.
                        if members.refresh(shared)? {
                            continue;
                        }
                        let Some(open) = elsewhere else { continue };
                        return Ok(Held { shared, sources: open.sources(), snapshots });
                    };
                    let sources = Sources::plan(shared, members, fragment, wanted, version, &numbers)?;
                    (numbers, sources)
                }
            };
            let held = sources.hold(version, deadline)?;
            // While it waited, another may have been given somebody's place.
            if members.refresh(shared)? {
                continue;
            }
            if let Some(snapshots) = held
                && waiting::counts(shared, members, &numbers, version)?
            {
                let plan = planned.insert(Plan { changes: members.changes(), numbers, sources });
                return Ok(Held { shared, sources: &plan.sources, snapshots });
            }
            // What can be had, and what is in the way, is looked for from the beginning.
            shared.check_interrupt()?;
        }
        let why = format!("version {version} went away again and again");
        Err(Error::Plan { name: shared.name.clone(), why, is_timeout: true })
    }
}

impl Held<'_> {
    /// When it was published by the last of its writers; see [`Snapshot::published_ns`].
    pub(crate) fn published_ns(&self) -> u64 {
        self.snapshots.iter().map(Snapshot::published_ns).max().unwrap_or(0)
    }

    /// What holds it.
    pub(crate) fn into_snapshots(self) -> Vec<Snapshot> {
        self.snapshots
    }

    /// Fills a fragment: by its pages, where they can be shown, which holds the version until it is filled again; else by a copy.
    pub(crate) fn fill(self, buffer: &mut Buffer, executor: &Executor) -> Result<()> {
        self.sources.fill(self.shared, self.snapshots, buffer, executor)
    }

    /// Copies it into memory. Bytes that belong to no element stay as they are.
    pub(crate) fn copy(&self, destination: &mut [u8], executor: &Executor) -> Result<()> {
        self.sources.copy(self.shared, &self.snapshots, destination, executor)
    }
}
