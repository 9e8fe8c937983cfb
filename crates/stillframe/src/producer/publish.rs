//! Publishing a version.
//!
//! In order: find the dirty pages, choose frames for them that no version uses, take memory for those that have none, copy,
//! describe the version, commit, retire what is no longer wanted. Whatever fails before the commit leaves the region as it
//! was, with the dirty pages remembered.
//!
//! A publish in the background (`pending`) goes the same way, in two parts: it takes frames and
//! memory, and all that follows comes when it is finished.

use crate::error::{Error, Result};
use crate::list;
use crate::mask::Mask;
use crate::producer::collect::Job;
use crate::producer::input::{Inputs, Label};
use crate::producer::pending;
use crate::producer::retention;
use crate::producer::room::Room;
use crate::producer::state::{Producer, VariableState, Variables, Workspace};
use crate::producer::statistics::{Outcome, Published};
use crate::store::draft::{Content, Description, Draft};
use crate::store::planes::Assignment;
use crate::working::Working;
use std::borrow::Cow;
use std::time::{Duration, Instant};
use stillframe_kernel::{Failure, points};
use stillframe_segment::head::Counter;
use stillframe_segment::table::ZERO_PLANE;
use stillframe_segment::{Extent, WINDOW_PAGES};

/// The submitted loans of a variable, as indices, and the one that the next version shows.
#[derive(Debug)]
pub(crate) struct Submitted {
    id: u32,
    loans: Vec<usize>,
    shown: Option<usize>,
}

/// What a version that was committed shows.
#[derive(Debug)]
pub(crate) struct Committed {
    /// Where it has the variables that the version before had elsewhere, or not at all.
    extents: Vec<Extent>,
    pub(crate) copied_pages: usize,
}

impl Producer {
    /// Publishes a version, after what is left of one that was started. `None`: `slice` is over, and that one is not finished or
    /// there is no room yet, see [`with_room`](Producer::with_room).
    pub(crate) fn publish(
        &mut self,
        label: &Label,
        inputs: &Inputs,
        slice: Option<Duration>,
    ) -> Result<Option<Published>> {
        let begin = Instant::now();
        if !self.settle(slice)? {
            return Ok(None);
        }
        let slice = pending::left(slice, begin);
        let (mut jobs, dirty_pages) = self.collect(label, inputs)?;
        let all_held = self.peers.is_some();
        let room = self.with_room(slice, &mut |workspace, mut draft| {
            let (pieces, runs) = workspace.prepare(&mut jobs, &mut draft, all_held)?;
            workspace.copy(&pieces);
            workspace.gather(&runs);
            points::hit("publish.copied");
            let submitted = workspace.submitted_loans();
            let committed = workspace.conclude(label, inputs, &jobs, &submitted, draft)?;
            Ok((committed, submitted))
        });
        match room {
            Ok(Room::Made((committed, submitted))) => {
                let copied_pages = committed.copied_pages;
                self.end_publish(committed, &submitted, &jobs);
                Ok(Some(self.count(label.number, dirty_pages, Some(copied_pages), begin.elapsed())))
            }
            room => {
                self.workspace.remember(&jobs);
                match room? {
                    Room::Later => Ok(None),
                    _ => Ok(Some(self.leave_out(label.number, dirty_pages, begin.elapsed()))),
                }
            }
        }
    }

    /// Finds the dirty pages of a version, and their number. On an error they are remembered.
    pub(crate) fn collect(&mut self, label: &Label, inputs: &Inputs) -> Result<(Vec<Job>, usize)> {
        self.check_process()?;
        self.check_number(label.number)?;
        let mut checks = self.workspace.maps.checks();
        for input in inputs.iter() {
            self.check_mapped(input, &mut checks)?;
        }
        self.check_parts(inputs)?;
        let mut jobs = Vec::new();
        let room = list::make_room(&mut jobs, self.workspace.variables.len());
        room.map_err(|failure| Error::system(self.store.dir(), failure))?;
        self.take_inputs(inputs)?;
        points::hit("publish.begin");
        if let Err(error) =
            self.workspace.collect(&self.store, inputs, self.options.copy_unit.unwrap_or_default(), &mut jobs)
        {
            self.workspace.remember(&jobs);
            return Err(error);
        }
        points::hit("publish.collected");
        let dirty_pages = jobs.iter().map(|job| job.dirty).sum();
        Ok((jobs, dirty_pages))
    }

    /// Leaves a version out, as the rule says.
    pub(crate) fn leave_out(&mut self, version: u64, dirty_pages: usize, duration: Duration) -> Published {
        self.skip(version);
        self.count(version, dirty_pages, None, duration)
    }

    fn check_number(&self, version: u64) -> Result<()> {
        if version == u64::MAX {
            let why = format!(
                "{version} is the greatest number, after which no version could follow: take {} at most",
                version - 1
            );
            return Err(Error::BadOption { option: "version", why });
        }
        match self.store.newest_number() {
            Some(newest) if version <= newest => {
                Err(Error::NotIncreasing { region: self.store.name.clone(), version, newest })
            }
            _ => Ok(()),
        }
    }

    /// Counts a publish, with the pages that were copied; `None` if it was left out.
    pub(crate) fn count(
        &mut self,
        version: u64,
        dirty_pages: usize,
        copied_pages: Option<usize>,
        duration: Duration,
    ) -> Published {
        let total_pages = self.workspace.total_pages();
        let outcome = if copied_pages.is_some() { Outcome::Published } else { Outcome::Skipped };
        let (dirty_pages, copied_pages) = (dirty_pages as u64, copied_pages.unwrap_or(0) as u64);
        let (statistics, head) = (&mut self.statistics, &self.store.head);
        if outcome == Outcome::Skipped {
            statistics.skipped += 1;
            head.add(Counter::Skipped, 1);
        } else {
            statistics.published += 1;
            statistics.dirty_pages += dirty_pages;
            statistics.copied_pages += copied_pages;
            statistics.total_pages = total_pages;
            statistics.publish_time += duration;
            head.add(Counter::Published, 1);
            head.add(Counter::DirtyPages, dirty_pages);
            head.add(Counter::CopiedPages, copied_pages);
            head.add(Counter::PublishNs, duration.as_nanos() as u64);
        }
        Published { version, outcome, dirty_pages, copied_pages, total_pages, duration }
    }

    /// After the commit: ends the loans that are shown, lets old versions go, demotes cold windows of the jobs given, gives idle
    /// memory back. The version is published, so nothing here is an error of its publish: what could not be done is tried
    /// again at the next.
    pub(crate) fn end_publish(&mut self, committed: Committed, submitted: &[Submitted], jobs: &[Job]) {
        self.forget_waiting();
        for extent in committed.extents {
            if let Some(state) = self.workspace.variables.get_mut(extent.variable) {
                state.shown = Some(extent);
            }
        }
        for undeclared in std::mem::take(&mut self.workspace.undeclared) {
            self.store.free(undeclared.extent.window, undeclared.extent.windows() as u32);
        }
        self.take_loans(submitted);
        let Producer { store, peers, options, workspace, .. } = self;
        let _ = retention::retire_unwanted(store, peers.as_mut(), options);
        for job in jobs {
            let _ = workspace.demote_cold(job, store, options.demote);
        }
        store.cool();
        self.update_counters();
    }

    /// Ends the loans that the version just committed shows, or that those replaced, and those that were given back.
    fn take_loans(&mut self, submitted: &[Submitted]) {
        let mut ended = Vec::new();
        for Submitted { id, loans, shown } in submitted {
            let Some(Working::Loaned(loaned)) = self.workspace.variables.get_mut(*id).map(|state| &mut state.working)
            else {
                continue;
            };
            for index in loans.iter().rev() {
                let loan = loaned.loans.remove(*index);
                // The one that is shown is in the version, so its frames stay in use.
                ended.extend((Some(*index) != *shown).then_some(loan));
            }
        }
        for state in self.workspace.variables.values_mut() {
            if let Working::Loaned(loaned) = &mut state.working {
                ended.extend(loaned.take_discarded());
            }
        }
        self.free_loans(&ended);
    }
}

impl Workspace {
    /// Describes and commits a version whose pages are copied.
    pub(crate) fn conclude(
        &mut self,
        label: &Label,
        inputs: &Inputs,
        jobs: &[Job],
        submitted: &[Submitted],
        mut draft: Draft,
    ) -> Result<Committed> {
        let copied_pages = draft.frames().iter().map(|part| part.pages.count()).sum();
        if self.schema_changed {
            draft.write_schema(&self.schema())?;
            self.schema_changed = false;
        }
        let extents = extents(&self.variables, inputs);
        let mut words = draft.base()?;
        for (window, windows) in self.left_windows(&draft, &extents) {
            words[window as usize..(window + windows) as usize].fill(u32::from(ZERO_PLANE));
        }
        let mut others = self.cut_pages(&mut words, &draft, &extents);
        let dir = draft.store().dir();
        self.shown_frames(submitted, &mut others).map_err(|failure| Error::system(dir, failure))?;
        self.blank_pages(jobs, &mut others).map_err(|failure| Error::system(dir, failure))?;
        draft.tabulate(words, &others)?;
        let description = Description {
            number: label.number,
            published_ns: label.published_ns,
            attributes: &label.attributes,
            extents: &extents,
            dirty_pages: jobs.iter().map(|job| job.dirty as u64).sum(),
            total_pages: self.total_pages(),
        };
        draft.commit(Content::New(description), ["publish.described", "publish.committed"])?;
        let is_new = |extent| match extent {
            Cow::Owned(extent) => Some(extent),
            Cow::Borrowed(_) => None,
        };
        Ok(Committed { extents: extents.into_iter().filter_map(is_new).collect(), copied_pages })
    }

    /// The windows that a version with these extents leaves out: of sources that are no more or will be copied whole when
    /// they are used again, and of variables of the recovered version that were not declared again.
    fn left_windows(&self, draft: &Draft, extents: &[Cow<'_, Extent>]) -> Vec<(u32, u32)> {
        let stale = self.variables.values().flat_map(|state| state.working.sources()).filter(|source| source.stale);
        let undeclared = self.undeclared.iter().map(|undeclared| &undeclared.extent);
        let mut left = draft.store().leaving().to_vec();
        left.extend(stale.map(|source| (source.maps.allocation.window, source.maps.allocation.windows)));
        left.extend(undeclared.map(|extent| (extent.window, extent.windows().max(1) as u32)));
        left.retain(|(window, _)| extents.iter().all(|extent| extent.window != *window));
        left
    }

    /// Leaves windows behind the last one of a variable out of a window table, and lists the pages behind its last page in
    /// that window if they are in the table. A variable that became shorter had them.
    fn cut_pages(&self, words: &mut [u32], draft: &Draft, extents: &[Cow<'_, Extent>]) -> Vec<Assignment> {
        let mut cut = Vec::new();
        // Those that are where they were are as long.
        for extent in extents.iter().filter(|extent| matches!(extent, Cow::Owned(_))) {
            let Some(state) = self.variables.get(extent.variable) else { continue };
            let shown = state.shown.as_ref().filter(|shown| shown.allocation == extent.allocation);
            if shown.is_some_and(|shown| shown.pages() <= extent.pages()) {
                continue;
            }
            let allocations = state.working.allocations();
            let Some(at) = allocations.iter().find(|at| at.serial == extent.allocation) else { continue };
            let pages = extent.pages() as usize;
            let (start, end) = (at.window as usize, (at.window + at.windows) as usize);
            words[(start + pages.div_ceil(WINDOW_PAGES)).min(end)..end].fill(u32::from(ZERO_PLANE));
            if pages.is_multiple_of(WINDOW_PAGES) {
                continue;
            }
            let (window, first) = (start + pages / WINDOW_PAGES, pages % WINDOW_PAGES);
            if draft.store().expand(words[window])[first..].iter().any(|plane| *plane != ZERO_PLANE) {
                let pages = Mask::FULL.without(Mask::first(first));
                cut.push(Assignment { window, plane: usize::from(ZERO_PLANE), pages });
            }
        }
        cut
    }

    /// The loans submitted by now. Others may be submitted at any time, by other threads: they are for later versions.
    pub(crate) fn submitted_loans(&self) -> Vec<Submitted> {
        let mut all = Vec::new();
        for (id, state) in self.variables.iter() {
            if let Working::Loaned(loaned) = &state.working {
                let (loans, shown) = loaned.submitted();
                all.extend((!loans.is_empty()).then_some(Submitted { id, loans, shown }));
            }
        }
        all
    }

    /// Adds the frames of the loans that the version shows.
    fn shown_frames(&self, submitted: &[Submitted], out: &mut Vec<Assignment>) -> Result<(), Failure> {
        let frames = |submitted: &Submitted| match &self.variables.get(submitted.id)?.working {
            Working::Loaned(loaned) => Some(&loaned.loans[submitted.shown?].frames),
            _ => None,
        };
        for frames in submitted.iter().filter_map(frames) {
            list::make_room(out, frames.len())?;
            out.extend_from_slice(frames);
        }
        Ok(())
    }

    /// Adds the pages that the version shows as zeros and the one before it did not.
    fn blank_pages(&self, jobs: &[Job], out: &mut Vec<Assignment>) -> Result<(), Failure> {
        for job in jobs {
            let source = self.variables.get(job.id).and_then(|state| state.working.sources().get(job.source));
            let Some(source) = source else { continue };
            let first = source.maps.allocation.window as usize;
            for (window, pages) in source.blank.iter().enumerate().filter(|(_, pages)| !pages.is_empty()) {
                let plane = usize::from(ZERO_PLANE);
                list::push(out, Assignment { window: first + window, plane, pages: *pages })?;
            }
        }
        Ok(())
    }
}

/// Where the version to come has its variables.
fn extents<'a>(variables: &'a Variables, inputs: &Inputs) -> Vec<Cow<'a, Extent>> {
    let extent = |state: &'a VariableState| {
        let shown = state.shown.as_ref().map(Cow::Borrowed);
        let given = !state.is_tracked() || inputs.get(state.meta.id).is_some();
        // What it was given for publishes that failed since is not what any version shows.
        if !given || state.is_where_shown() {
            return shown;
        }
        let (allocation, page_offset, bytes) = state.working.shown_at()?;
        Some(Cow::Owned(Extent {
            variable: state.meta.id,
            order: state.order,
            shape: state.shape.iter().map(|n| *n as u64).collect(),
            window: allocation.window,
            page_offset: page_offset as u16,
            bytes: bytes as u64,
            allocation: allocation.serial,
        }))
    };
    variables.values().filter_map(|state| extent(state)).collect()
}
