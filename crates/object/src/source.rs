//! Where the elements of a fragment to read come from, and how they get there.

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::layout;
use crate::member::{Member, Members};
use crate::shared::Shared;
use crate::waiting::{Deadline, LOOK};
use drepl::executor::Executor;
use drepl::transfer::Transfer;
use drepl::{Fragment, IndexSet, Source, Wanted};
use std::ops::Range;
use std::sync::Arc;
use stillframe::{Observer, Snapshot, View};
use stillframe_kernel::Failure;
use stillframe_roster::writer::Version;

/// Bytes that lie together on both sides are shown instead of copied from this size on: below it a copy costs less than to
/// map pages, and holds no version.
pub(crate) const SHOWN_BYTES_MIN: usize = 256 << 10;

/// A writer's fragment.
#[derive(Debug)]
struct Origin {
    observer: Observer,
    /// What the region calls all of its bytes.
    variable: String,
    bytes: u64,
    transfer: Transfer,
}

/// How a fragment is filled from those of the writers of some versions.
#[derive(Debug)]
pub(crate) struct Sources {
    origins: Vec<Origin>,
    /// The versions of which the same writers have the wanted elements.
    versions: Range<Version>,
    /// Of the only one, the bytes that the fragment is, one behind the other.
    direct: Option<Range<usize>>,
    /// The object's id, which all regions of its fragments have as their run.
    run: std::num::NonZeroU64,
}

impl Sources {
    /// Plans to fill a fragment with a version that can be had from the fragments of these numbers.
    pub(crate) fn plan(
        shared: &Shared,
        members: &mut Members,
        wanted: &Fragment,
        elements: &IndexSet,
        version: Version,
        numbers: &[u32],
    ) -> Result<Sources> {
        let fault = |why: String| Error::Plan { name: shared.name.clone(), why, is_timeout: false };
        let versions = valid(members, elements, version, numbers);
        let sources: Vec<Source> = numbers
            .iter()
            .filter_map(|number| members.list.get(number))
            .map(|member| Source { fragment: member.fragment.clone(), version, cost: 0, readable: true })
            .collect();
        let wanted_newest = Wanted { fragment: wanted, versions: version..=version };
        let plan = drepl::plan(&wanted_newest, &sources).map_err(|error| fault(error.to_string()))?;
        if sources.len() != numbers.len() || !plan.is_complete() {
            return Err(fault("the writers that have the elements are others than a moment ago".into()));
        }
        let options = shared.site.observing()?;
        let mut origins = Vec::new();
        for (source, transfer) in plan.transfers {
            let gone = || fault(format!("the region of fragment {} is gone", numbers[source]));
            let member = members.list.get_mut(&numbers[source]).ok_or_else(gone)?;
            let observer = member.observer(shared, &options)?.ok_or_else(gone)?.clone();
            let variable = layout::declaration(&member.fragment, false).name;
            origins.push(Origin { observer, variable, bytes: member.fragment.size_bytes(), transfer });
        }
        let direct = match &origins[..] {
            [only] => together(&only.transfer, wanted.size_bytes()),
            _ => None,
        };
        Ok(Sources { origins, versions, direct, run: shared.description.id })
    }

    /// A region that has a whole fragment, in the layout that is wanted.
    pub(crate) fn whole(shared: &Shared, fragment: &Arc<Fragment>, observer: Observer) -> Result<Sources> {
        let fault = |why: String| Error::Plan { name: shared.name.clone(), why, is_timeout: false };
        let source = Source { fragment: fragment.clone(), version: 0, cost: 0, readable: true };
        let wanted = Wanted { fragment, versions: 0..=0 };
        let plan = drepl::plan(&wanted, &[source]).map_err(|error| fault(error.to_string()))?;
        let variable = layout::declaration(fragment, true).name;
        let bytes = fragment.size_bytes();
        let transfers = plan.transfers.into_iter();
        let origin = |(_, transfer)| Origin { observer: observer.clone(), variable: variable.clone(), bytes, transfer };
        let origins: Vec<Origin> = transfers.map(origin).collect();
        let direct = origins.first().and_then(|only| together(&only.transfer, bytes));
        Ok(Sources { origins, versions: 0..Version::MAX, direct, run: shared.description.id })
    }

    /// Whether the same writers have the wanted elements of a version, as long as the board says nothing new.
    pub(crate) fn has(&self, version: Version) -> bool {
        self.versions.contains(&version)
    }

    /// Holds a version of all, once all have it; `None` if one of them does not come, or not in time.
    pub(crate) fn hold(&self, version: Version, deadline: Deadline) -> Result<Option<Vec<Snapshot>>> {
        for origin in &self.origins {
            match origin.observer.wait_newer(version.checked_sub(1), Some(deadline.left().min(LOOK))) {
                Ok(_) => {}
                Err(
                    stillframe::Error::Timeout { .. }
                    | stillframe::Error::ProducerGone { .. }
                    | stillframe::Error::NoRegion { .. },
                ) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        let mut held = Vec::with_capacity(self.origins.len());
        for origin in &self.origins {
            match origin.observer.version(version) {
                Ok(snapshot) if snapshot.run() == Some(self.run) => held.push(snapshot),
                Ok(_) | Err(stillframe::Error::VersionGone { .. } | stillframe::Error::NoRegion { .. }) => {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(held))
    }

    /// Fills a fragment with a version that is held: by its pages, where they can be shown, else by a copy.
    pub(crate) fn fill(
        &self,
        shared: &Shared,
        held: Vec<Snapshot>,
        buffer: &mut Buffer,
        executor: &Executor,
    ) -> Result<()> {
        if let (Some(range), [origin]) = (&self.direct, &self.origins[..])
            && range.len() >= SHOWN_BYTES_MIN
            && buffer.can_show(range.start)
            && let Some(snapshot) = held.first().filter(|snapshot| !snapshot.is_foreign())
        {
            origin.check(shared, snapshot)?;
            match buffer.show(snapshot.clone(), &origin.variable, range.clone()) {
                // Without mappings to spare it is copied.
                Err(Error::Region(stillframe::Error::NoMappings { .. })) => {}
                other => return other,
            }
        }
        // What may fail comes first, while the fragment still is as it was.
        let views = self.views(shared, &held)?;
        self.carry_out(shared, &views, buffer.bytes_mut()?, executor)
    }

    /// Copies a version that is held into memory. Bytes that belong to no element stay as they are.
    pub(crate) fn copy(
        &self,
        shared: &Shared,
        held: &[Snapshot],
        destination: &mut [u8],
        executor: &Executor,
    ) -> Result<()> {
        self.carry_out(shared, &self.views(shared, held)?, destination, executor)
    }

    /// The bytes of the writers' fragments.
    fn views(&self, shared: &Shared, held: &[Snapshot]) -> Result<Vec<Bytes>> {
        let origins = self.origins.iter().zip(held);
        let view = |(origin, snapshot): (&Origin, &Snapshot)| {
            origin.check(shared, snapshot)?;
            origin.bytes(shared, snapshot)
        };
        origins.map(view).collect()
    }

    fn carry_out(&self, shared: &Shared, views: &[Bytes], destination: &mut [u8], executor: &Executor) -> Result<()> {
        let work: Vec<(&Transfer, &[u8])> =
            self.origins.iter().zip(views).map(|(origin, view)| (&origin.transfer, view.bytes())).collect();
        let fault = |error: drepl::executor::ExecuteError| {
            let (name, why) = (shared.name.clone(), error.to_string());
            Error::Plan { name, why, is_timeout: false }
        };
        executor.run_all(&work, destination).map_err(fault)
    }
}

/// Bytes of a writer's fragment.
enum Bytes {
    Shown(View),
    /// Of a file that its owner, another user, could cut short meanwhile.
    Read(Vec<u8>),
}

impl Bytes {
    fn bytes(&self) -> &[u8] {
        match self {
            Bytes::Shown(view) => view,
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl Origin {
    /// Whether the region has what the board says of it.
    fn check(&self, shared: &Shared, snapshot: &Snapshot) -> Result<()> {
        let found = snapshot.variable(&self.variable)?.bytes as u64;
        if found == self.bytes {
            return Ok(());
        }
        let why = format!("{} has {found} bytes, and the board says {}", snapshot.region(), self.bytes);
        Err(Error::Corrupt { path: shared.board.path(), offset: 0, why })
    }

    fn bytes(&self, shared: &Shared, snapshot: &Snapshot) -> Result<Bytes> {
        if !snapshot.is_foreign() {
            return Ok(Bytes::Shown(snapshot.view(&self.variable)?));
        }
        let bytes = self.transfer.source_bytes() as usize;
        let mut read = Vec::new();
        let failed = |_| Error::system(shared.board.path(), Failure::no_memory(bytes));
        read.try_reserve_exact(bytes).map_err(failed)?;
        read.resize(bytes, 0);
        snapshot.read(&self.variable, 0, &mut read)?;
        Ok(Bytes::Read(read))
    }
}

/// The versions around one in which the wanted elements have the same writers, as far as the board tells.
fn valid(members: &Members, elements: &IndexSet, version: Version, numbers: &[u32]) -> Range<Version> {
    let mut versions = 0..Version::MAX;
    let meets = |member: &Member| {
        let own = member.elements.boxes();
        own.iter().any(|one| elements.boxes().iter().any(|other| one.meets(other)))
    };
    for (number, member) in members.list.iter().filter(|(_, member)| meets(member)) {
        let (from, left) = (member.from, member.left.unwrap_or(Version::MAX));
        if numbers.contains(number) {
            versions = versions.start.max(from)..versions.end.min(left);
        } else if from > version {
            versions.end = versions.end.min(from);
        } else if left <= version {
            versions.start = versions.start.max(left);
        }
    }
    versions
}

/// The bytes of the source that a transfer moves one behind the other into all of a destination, if it does that.
fn together(transfer: &Transfer, bytes: u64) -> Option<Range<usize>> {
    let [one] = transfer.moves() else { return None };
    if one.swap_bytes != 1 || one.to != 0 {
        return None;
    }
    let mut run = one.run_bytes;
    for axis in one.axes.iter().rev() {
        let is_next = i64::try_from(run).is_ok_and(|run| axis.from_bytes == run && axis.to_bytes == run);
        if !is_next && axis.count > 1 {
            return None;
        }
        run = run.checked_mul(axis.count)?;
    }
    let (start, length) = (usize::try_from(one.from).ok()?, usize::try_from(run).ok()?);
    (run == bytes).then_some(start..start + length)
}
