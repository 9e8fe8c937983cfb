//! Publishing a version.
//!
//! In order: find the dirty pages, choose frames for them that no version uses, take memory for those that have none, copy,
//! describe the version, commit, retire what is no longer wanted. Whatever fails before the commit leaves the region as it
//! was, with the dirty pages remembered.
//!
//! # Safety
//!
//! This module copies from memory the application owns. Its invariant: nobody writes the memory of a variable while publish
//! runs. For managed memory the borrow checker sees to that, for tracked memory given as slices too; whoever hands over raw
//! addresses vouches for it.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use crate::mask::Mask;
use crate::producer::collect::Job;
use crate::producer::input::{Input, Label};
use crate::producer::retention;
use crate::producer::room::Room;
use crate::producer::state::{Producer, VariableState, Workspace};
use crate::producer::statistics::{Outcome, Published};
use crate::store::draft::{Content, Description, Draft};
use crate::store::planes::Assignment;
use crate::working::Working;
use std::time::{Duration, Instant};
use stillframe_kernel::copy::{PageCopy, copy_bytes};
use stillframe_kernel::points;
use stillframe_segment::head::Counter;
use stillframe_segment::table::ZERO_PLANE;
use stillframe_segment::{Extent, PAGE_BYTES, WINDOW_PAGES};

/// The submitted loans of a variable, as indices, and the one that the next version shows.
#[derive(Debug)]
struct Submitted {
    id: u32,
    loans: Vec<usize>,
    shown: Option<usize>,
}

/// What a version that was committed shows.
#[derive(Debug)]
struct Committed {
    extents: Vec<Extent>,
    submitted: Vec<Submitted>,
    copied_pages: usize,
}

impl Producer {
    /// Publishes a version. `None`: there is no room yet, and `slice` is over, see [`with_room`](Producer::with_room).
    pub(crate) fn publish(
        &mut self,
        label: &Label,
        inputs: &[Input],
        slice: Option<Duration>,
    ) -> Result<Option<Published>> {
        let begin = Instant::now();
        self.check_process()?;
        self.check_number(label.number)?;
        for input in inputs {
            self.check_mapped(input)?;
        }
        self.check_parts(inputs)?;
        for input in inputs {
            self.take_input(input)?;
        }
        points::hit("publish.begin");
        let mut jobs = Vec::with_capacity(self.workspace.variables.len());
        if let Err(error) = self.workspace.collect(&self.store, inputs, &mut jobs) {
            self.workspace.remember(&jobs);
            return Err(error);
        }
        points::hit("publish.collected");
        let dirty_pages: usize = jobs.iter().map(|job| job.dirty).sum();
        let all_held = self.peers.is_some();
        let room = self.with_room(slice, &mut |workspace, mut draft| {
            workspace.take_frames(&mut jobs, &mut draft)?;
            draft.take_memory(all_held)?;
            workspace.write(label, inputs, &jobs, draft, dirty_pages)
        });
        let total_pages = self.workspace.total_pages();
        let published = |outcome, copied_pages: usize, duration| Published {
            version: label.number,
            outcome,
            dirty_pages: dirty_pages as u64,
            copied_pages: copied_pages as u64,
            total_pages,
            duration,
        };
        match room {
            Ok(Room::Made(committed)) => {
                let copied_pages = committed.copied_pages;
                self.forget_waiting();
                self.end_publish(committed, &jobs);
                let published = published(Outcome::Published, copied_pages, begin.elapsed());
                self.count(&published);
                Ok(Some(published))
            }
            room => {
                self.workspace.remember(&jobs);
                if let Room::Later = room? {
                    return Ok(None);
                }
                self.skip(label.number);
                self.statistics.skipped += 1;
                self.store.head.add(Counter::Skipped, 1);
                Ok(Some(published(Outcome::Skipped, 0, begin.elapsed())))
            }
        }
    }

    fn check_number(&self, version: u64) -> Result<()> {
        match self.store.newest_number() {
            Some(newest) if version <= newest => {
                Err(Error::NotIncreasing { region: self.store.name.clone(), version, newest })
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, published: &Published) {
        let statistics = &mut self.statistics;
        statistics.published += 1;
        statistics.dirty_pages += published.dirty_pages;
        statistics.copied_pages += published.copied_pages;
        statistics.total_pages = published.total_pages;
        statistics.publish_time += published.duration;
        let head = &self.store.head;
        head.add(Counter::Published, 1);
        head.add(Counter::DirtyPages, published.dirty_pages);
        head.add(Counter::CopiedPages, published.copied_pages);
        head.add(Counter::PublishNs, published.duration.as_nanos() as u64);
    }

    /// After the commit: ends the loans that are shown, lets old versions go, demotes cold windows, gives idle memory back. The
    /// version is published, so nothing here is an error of its publish: what could not be done is tried again at the next.
    fn end_publish(&mut self, committed: Committed, jobs: &[Job]) {
        for extent in committed.extents {
            if let Some(state) = self.workspace.variables.get_mut(&extent.variable) {
                state.shown = Some(extent);
            }
        }
        for undeclared in std::mem::take(&mut self.workspace.undeclared) {
            self.store.free(undeclared.extent.window, undeclared.extent.windows() as u32);
        }
        self.take_loans(&committed.submitted);
        let Producer { store, peers, options, workspace, .. } = self;
        let _ = retention::retire_unwanted(store, peers.as_mut(), options);
        for job in jobs {
            let _ = workspace.demote_cold(job, store, options.demote);
        }
        store.planes_mut().cool(false);
        self.update_counters();
    }

    /// Ends the loans that the version just committed shows, or that those replaced, and those that were given back.
    fn take_loans(&mut self, submitted: &[Submitted]) {
        let mut ended = Vec::new();
        for Submitted { id, loans, shown } in submitted {
            let Some(Working::Loaned(loaned)) = self.workspace.variables.get_mut(id).map(|state| &mut state.working)
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
    /// Takes frames for all dirty pages.
    fn take_frames(&mut self, jobs: &mut [Job], draft: &mut Draft) -> Result<()> {
        for job in jobs {
            let start = draft.frames().len();
            let Some(source) = self.source_mut(job.id, job.source) else { continue };
            let first = source.maps.allocation.window as usize;
            for window in 0..source.windows() {
                let dirty = source.collected.dirty[window].without(source.blank(window));
                if !dirty.is_empty() {
                    source.hint = draft.take_frames(first + window, dirty, source.hint)?;
                }
            }
            job.frames = start..draft.frames().len();
        }
        Ok(())
    }

    /// Copies, describes and commits.
    fn write(
        &mut self,
        label: &Label,
        inputs: &[Input],
        jobs: &[Job],
        mut draft: Draft,
        dirty_pages: usize,
    ) -> Result<Committed> {
        let copied_pages = self.copy(jobs, &draft)?;
        points::hit("publish.copied");
        if self.schema_changed {
            draft.write_schema(&self.schema())?;
            self.schema_changed = false;
        }
        let submitted = self.submitted_loans();
        let extents = self.extents(inputs);
        let mut words = draft.base();
        for (window, windows) in self.left_windows(&draft, &extents) {
            words[window as usize..(window + windows) as usize].fill(u32::from(ZERO_PLANE));
        }
        let mut others = self.cut_pages(&mut words, &draft, &extents);
        others.extend(self.shown_frames(&submitted));
        others.extend(self.blank_pages(jobs));
        draft.tabulate(words, &others)?;
        let description = Description {
            number: label.number,
            published_ns: label.published_ns,
            attributes: &label.attributes,
            extents: &extents,
            dirty_pages: dirty_pages as u64,
            total_pages: self.total_pages(),
        };
        draft.commit(Content::New(description), ["publish.described", "publish.committed"])?;
        Ok(Committed { extents, submitted, copied_pages })
    }

    /// Copies the dirty pages to their frames, and returns their number.
    fn copy(&mut self, jobs: &[Job], draft: &Draft) -> Result<usize> {
        let mut copies = std::mem::take(&mut self.copies);
        copies.clear();
        let mut edges = 0;
        for job in jobs {
            let Some(source) = self.source_mut(job.id, job.source) else { continue };
            for part in &draft.frames()[job.frames.clone()] {
                let window = part.window - source.maps.allocation.window as usize;
                let to = source.maps.address_for_writing(part.plane, window, part.pages, draft.planes())?;
                for in_window in part.pages.pages() {
                    let (page, to) = (window * WINDOW_PAGES + in_window, to + in_window * PAGE_BYTES);
                    let base = match &job.before {
                        Some(before) if before.has(page) => before.address.wrapping_sub(source.page_offset),
                        _ => source.memory.address,
                    };
                    let from = base.wrapping_add(page * PAGE_BYTES);
                    if source.memory.whole.contains(&page) && from.is_multiple_of(PAGE_BYTES) {
                        copies.push(PageCopy { from, to });
                    } else {
                        let part = source.part(page);
                        // SAFETY: the part lies inside the memory the caller vouches for; the frame was chosen because
                        // no version uses it, and has space behind it.
                        unsafe { copy_bytes(from.wrapping_add(part.start), to + part.start, part.len()) };
                        edges += 1;
                    }
                }
            }
        }
        // SAFETY: whole pages lie inside the memory the caller vouches for, each frame is chosen once, no version uses it,
        // and its space was taken.
        unsafe { self.copier.copy_pages(&copies) };
        let copied = copies.len() + edges;
        self.copies = copies;
        Ok(copied)
    }

    /// Where the version to come has its variables.
    fn extents(&self, inputs: &[Input]) -> Vec<Extent> {
        let extent = |state: &VariableState| {
            let given = !state.is_tracked() || inputs.iter().any(|input| input.id == state.meta.id);
            if !given {
                // What it was given for publishes that failed since is not what any version shows.
                return state.shown.clone();
            }
            let (allocation, page_offset, bytes) = state.working.shown_at()?;
            Some(Extent {
                variable: state.meta.id,
                order: state.order,
                shape: state.shape.iter().map(|n| *n as u64).collect(),
                window: allocation.window,
                page_offset: page_offset as u16,
                bytes: bytes as u64,
                allocation: allocation.serial,
            })
        };
        self.variables.values().filter_map(|state| extent(state)).collect()
    }

    /// The windows that a version with these extents leaves out: of sources that are no more or will be copied whole when
    /// they are used again, and of variables of the recovered version that were not declared again.
    fn left_windows(&self, draft: &Draft, extents: &[Extent]) -> Vec<(u32, u32)> {
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
    fn cut_pages(&self, words: &mut [u32], draft: &Draft, extents: &[Extent]) -> Vec<Assignment> {
        let mut cut = Vec::new();
        for extent in extents {
            let Some(state) = self.variables.get(&extent.variable) else { continue };
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
    fn submitted_loans(&self) -> Vec<Submitted> {
        let mut all = Vec::new();
        for (id, state) in &self.variables {
            if let Working::Loaned(loaned) = &state.working {
                let (loans, shown) = loaned.submitted();
                all.extend((!loans.is_empty()).then_some(Submitted { id: *id, loans, shown }));
            }
        }
        all
    }

    fn shown_frames(&self, submitted: &[Submitted]) -> Vec<Assignment> {
        let frames = |submitted: &Submitted| match &self.variables.get(&submitted.id)?.working {
            Working::Loaned(loaned) => Some(&loaned.loans[submitted.shown?].frames),
            _ => None,
        };
        submitted.iter().filter_map(frames).flatten().copied().collect()
    }

    /// The pages that the version shows as zeros and the one before it did not.
    fn blank_pages(&self, jobs: &[Job]) -> Vec<Assignment> {
        let mut pages = Vec::new();
        for job in jobs {
            let source = self.variables.get(&job.id).and_then(|state| state.working.sources().get(job.source));
            let Some(source) = source else { continue };
            let first = source.maps.allocation.window as usize;
            let blank = source.blank.iter().enumerate().filter(|(_, pages)| !pages.is_empty());
            pages.extend(blank.map(|(window, pages)| Assignment {
                window: first + window,
                plane: usize::from(ZERO_PLANE),
                pages: *pages,
            }));
        }
        pages
    }
}
