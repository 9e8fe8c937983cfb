//! Publishing a version.
//!
//! In order: find the dirty pages, choose slots for them that no version uses, take memory for those that have none, copy,
//! describe the version, commit, retire what is no longer wanted. Whatever fails before the commit leaves the region as it
//! was, with the dirty pages remembered.
//!
//! # Safety
//!
//! This module copies from memory the application owns. Its one law: nobody writes the memory of a variable while publish
//! runs. For managed memory the borrow checker sees to that, for tracked memory given as slices too; whoever hands over raw
//! addresses vouches for it.
#![allow(unsafe_code)]

use crate::mask::Mask;
use crate::place::{Source, Working};
use crate::planes::Assignment;
use crate::producer::{Producer, VariableState, Version, expand, expand_window};
use crate::region::{Attributes, Outcome, Published};
use crate::room::Room;
use crate::tracker::{Tracker, TrackerKind, Watch};
use crate::{Error, Order, Result, files};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stillframe_kernel::copy::{PageCopy, copy_bytes, equal_bytes};
use stillframe_kernel::points;
use stillframe_protocol::{self as protocol, Leased, State};
use stillframe_segment::head::{Counter, Descriptor};
use stillframe_segment::table::{self, Entry, SUBTABLE, ZERO_PLANE};
use stillframe_segment::{Extent, Manifest, PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES, manifest};

/// Addresses a tracked variable keeps knowledge about.
const SOURCES_MAX: usize = 4;
/// Windows shared with a plane in one publish, as a divisor of the windows there are.
const SHARE_DIVISOR: usize = 64;

/// What a version is called, and what is said of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Label {
    pub(crate) number: u64,
    /// Nanoseconds since 1970; the time of the commit if there are none.
    pub(crate) published_ns: Option<u64>,
    pub(crate) attributes: Attributes,
}

/// Where a tracked variable is this time.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) id: u32,
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) shape: Vec<usize>,
    pub(crate) order: Order,
    pub(crate) portion: Option<Portion>,
}

/// The pages of a tracked variable that are published, when not all are.
#[derive(Debug, Clone)]
pub(crate) struct Portion {
    pub(crate) pages: std::ops::Range<usize>,
    /// Address of the variable's content as it was, for pages outside that no version shows.
    pub(crate) before: Option<usize>,
}

impl Portion {
    /// The pages of a window that are published.
    fn mask(&self, window: usize) -> Mask {
        let page = |page: usize| page.saturating_sub(window * WINDOW_PAGES).min(WINDOW_PAGES);
        let mut mask = Mask::EMPTY;
        mask.insert_run(page(self.pages.start), page(self.pages.end).max(page(self.pages.start)));
        mask
    }
}

/// The part of a plan that belongs to one source.
#[derive(Debug)]
struct Job {
    id: u32,
    source: usize,
    dirty: usize,
    assignments: std::ops::Range<usize>,
    before: Option<Before>,
}

/// The pages of a source that a version shows as they were before it was written, window by window.
#[derive(Debug)]
struct Before {
    address: usize,
    pages: Vec<Mask>,
}

impl Before {
    fn has(&self, page: usize) -> bool {
        self.pages[page / WINDOW_PAGES].has(page % WINDOW_PAGES)
    }
}

/// The submitted loans of a variable, as indices, and the one that the next version shows.
#[derive(Debug)]
struct Submitted {
    id: u32,
    loans: Vec<usize>,
    shown: Option<usize>,
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
        let number = label.number;
        self.leases.file()?;
        if let Some(newest) = self.newest_number()
            && number <= newest
        {
            return Err(Error::NotIncreasing { region: self.name.clone(), version: number, newest });
        }
        for input in inputs {
            self.check_mapped(input)?;
        }
        self.check_parts(inputs)?;
        for input in inputs {
            self.take_input(input)?;
        }
        points::hit("publish.begin");
        let mut jobs = Vec::with_capacity(self.variables.len());
        if let Err(error) = self.collect(inputs, &mut jobs) {
            self.remember(&jobs);
            return Err(error);
        }
        points::hit("publish.collected");
        let dirty_pages: usize = jobs.iter().map(|job| job.dirty).sum();
        let room = self.with_room(slice, &mut |producer, plan| {
            producer.assign(&mut jobs, plan)?;
            producer.allocate(plan)?;
            producer.write(label, inputs, &jobs, plan, dirty_pages)
        });
        let copied_pages = match room {
            Ok(Room::Made(copied)) => copied,
            room => {
                self.remember(&jobs);
                if let Room::Later = room? {
                    return Ok(None);
                }
                self.skip(number);
                self.statistics.skipped += 1;
                self.head.add(Counter::Skipped, 1);
                return Ok(Some(Published {
                    version: number,
                    outcome: Outcome::Skipped,
                    dirty_pages: dirty_pages as u64,
                    copied_pages: 0,
                    total_pages: self.total_pages(),
                    duration: begin.elapsed(),
                }));
            }
        };
        self.forget_waiting();
        self.settle(&jobs);
        let total_pages = self.total_pages();
        let duration = begin.elapsed();
        let statistics = &mut self.statistics;
        statistics.published += 1;
        statistics.dirty_pages += dirty_pages as u64;
        statistics.copied_pages += copied_pages as u64;
        statistics.total_pages = total_pages;
        statistics.publish_time += duration;
        self.head.add(Counter::Published, 1);
        self.head.add(Counter::DirtyPages, dirty_pages as u64);
        self.head.add(Counter::CopiedPages, copied_pages as u64);
        self.head.add(Counter::PublishNs, duration.as_nanos() as u64);
        Ok(Some(Published {
            version: number,
            outcome: Outcome::Published,
            dirty_pages: dirty_pages as u64,
            copied_pages: copied_pages as u64,
            total_pages,
            duration,
        }))
    }

    pub(crate) fn newest_number(&self) -> Option<u64> {
        self.versions.last().map(|version| version.number)
    }

    fn total_pages(&self) -> u64 {
        let current = self.variables.values().filter_map(|state| state.sources.get(state.current?));
        current.map(|source| source.memory.pages as u64).sum()
    }

    /// An array that was freed is an error while nothing has been touched, not a signal while it is copied.
    fn check_mapped(&mut self, input: &Input) -> Result<()> {
        let bytes = input.bytes;
        let before = input.portion.as_ref().and_then(|portion| portion.before);
        for address in std::iter::once(input.address).chain(before) {
            if !self.maps.is_readable(address, bytes) {
                let name = self.variable(input.id)?.meta.name.clone();
                return Err(Error::NotMapped { name, address, bytes });
            }
        }
        Ok(())
    }

    /// Refuses shapes that do not fit the parts of global arrays which the variables are said to be.
    fn check_parts(&self, inputs: &[Input]) -> Result<()> {
        for state in self.variables.values() {
            let Some(part) = &state.part else { continue };
            let input = inputs.iter().find(|input| input.id == state.meta.id);
            let shape = match (input, &state.shown) {
                (Some(input), _) => input.shape.clone(),
                (None, Some(shown)) if state.kind.is_tracked() => shown.shape.iter().map(|n| *n as usize).collect(),
                _ => continue,
            };
            part.check(&shape).map_err(|why| Error::WrongShape { name: state.meta.name.clone(), why })?;
        }
        Ok(())
    }

    /// Finds or makes the source for the address a tracked variable has this time.
    fn take_input(&mut self, input: &Input) -> Result<()> {
        let sequence = self.sequence;
        let windows_needed = (input.address % PAGE_BYTES + input.bytes).div_ceil(WINDOW_BYTES).max(1);
        let state = self.variable(input.id)?;
        if !state.kind.is_tracked() {
            let name = state.meta.name.clone();
            return Err(Error::WrongKind { name, expected: "tracked", found: state.kind.name() });
        }
        let old = state.current;
        let found = state.sources.iter().position(|source| {
            source.memory.address + source.page_offset == input.address
                && source.place.windows as usize >= windows_needed
        });
        let index = match found {
            Some(index) => index,
            None => {
                // The same address with too little room behind it, or the address unused for longest, makes way.
                let same = state.sources.iter().position(|s| s.memory.address + s.page_offset == input.address);
                let oldest = (0..state.sources.len()).min_by_key(|index| state.sources[*index].used);
                let full = state.sources.len() >= SOURCES_MAX;
                if let Some(victim) = same.or(oldest.filter(|_| full)) {
                    let state = self.variable(input.id)?;
                    let source = state.sources.remove(victim);
                    state.current = match state.current {
                        Some(current) if current == victim => None,
                        Some(current) if current > victim => Some(current - 1),
                        other => other,
                    };
                    self.leave_source(source);
                }
                // A quarter more than needed, so that arrays that grow a little at a time keep their place.
                let room = if windows_needed > 1 { windows_needed + windows_needed / 4 } else { 1 };
                let place = self.new_place(room as u32)?;
                let state = self.variable(input.id)?;
                state.sources.push(Source::new(place, Working::Tracked));
                state.sources.len() - 1
            }
        };
        let state = self.variable(input.id)?;
        state.shape = input.shape.clone();
        state.order = input.order;
        let source = &mut state.sources[index];
        source.used = sequence;
        if source.memory.address + source.page_offset != input.address || source.bytes != input.bytes {
            source.set_memory(input.address, input.bytes);
        }
        let switched = old.filter(|old| *old != index && found.is_some() && *old < state.sources.len());
        state.current = Some(index);
        if let Some(old) = switched {
            // A buffer that is rewritten whole each time it is used is not worth keeping in the versions in between.
            let source = &mut state.sources[old];
            if source.written_percent >= 50 {
                source.stale = true;
            }
        }
        Ok(())
    }

    /// Finds the dirty pages of everything that may have changed. On an error the jobs have those found until then.
    fn collect(&mut self, inputs: &[Input], jobs: &mut Vec<Job>) -> Result<()> {
        let Producer { variables, tracker, tables, table, planes, dir, .. } = self;
        let overlapping = is_overlapping(variables);
        let ids: Vec<u32> = variables.keys().copied().collect();
        for id in ids {
            let Some(state) = variables.get_mut(&id) else { continue };
            let input = inputs.iter().find(|input| input.id == id);
            let given = !state.kind.is_tracked() || input.is_some();
            let Some(index) = state.current.filter(|_| given) else { continue };
            let source = &mut state.sources[index];
            if matches!(source.working, Working::Loaned) {
                continue;
            }
            collect_source(tracker, source);
            jobs.push(Job { id, source: index, dirty: 0, assignments: 0..0, before: None });
            if overlapping {
                let dirty: Vec<usize> = source.dirty_addresses().collect();
                tell_others(variables, (id, index), &dirty);
            }
            let Some(state) = variables.get_mut(&id) else { continue };
            let portion = input.and_then(|input| input.portion.as_ref());
            let VariableState { sources, shown, meta, .. } = state;
            let source = &mut sources[index];
            let mut before = Vec::new();
            // Pages that the newest version shows from this very place, as whole as they are now.
            let shown_pages = match shown {
                Some(shown) if shown.place == source.place.serial && !source.stale => match shown.bytes as usize {
                    bytes if bytes >= source.bytes => source.memory.pages,
                    bytes => (source.page_offset + bytes) / PAGE_BYTES,
                },
                _ => 0,
            };
            if source.stale {
                source.stale = false;
                crate::mask::insert_pages(&mut source.pending, 0, source.memory.pages);
            }
            let (mut dirty_pages, mut written_pages) = (0, 0);
            for window in 0..source.windows() {
                let valid = source.valid(window);
                let unsure = source.collected.unsure[window].and(valid);
                written_pages += source.collected.dirty[window].and(valid).count();
                let mut dirty = source.collected.dirty[window].or(source.pending[window]).and(valid);
                if !unsure.without(dirty).is_empty() {
                    let planes_of = expand_window(tables, table, source.place.window as usize + window);
                    for page in unsure.without(dirty).pages() {
                        if differs(source, window * WINDOW_PAGES + page, planes_of[page], planes)? {
                            dirty.insert(page);
                        }
                    }
                }
                source.pending[window] = Mask::EMPTY;
                source.sticky.learn(window, dirty, source.collected.armed[window]);
                if let Some(portion) = portion {
                    let outside = valid.without(portion.mask(window));
                    let seen = Mask::first(shown_pages.saturating_sub(window * WINDOW_PAGES).min(WINDOW_PAGES));
                    let unseen = outside.without(seen);
                    before.push(unseen);
                    source.pending[window] = dirty.and(outside).or(unseen);
                    dirty = dirty.without(outside).or(unseen);
                }
                dirty_pages += dirty.count();
                source.collected.dirty[window] = dirty;
                if let Working::Managed(managed) = &mut source.working {
                    managed.own_pages(window, dirty).map_err(|failure| Error::system(dir, failure))?;
                }
            }
            source.written_percent = written_pages * 100 / source.memory.pages.max(1);
            let name = meta.name.clone();
            let before = match portion.map(|portion| portion.before) {
                Some(Some(address)) => Some(Before { address, pages: before }),
                Some(None) if before.iter().any(|pages| !pages.is_empty()) => {
                    let why = "no version shows the rest of it, which a publish of a part needs to be told".into();
                    return Err(Error::WrongShape { name, why });
                }
                _ => None,
            };
            if let Some(job) = jobs.last_mut() {
                job.dirty = dirty_pages;
                job.before = before;
            }
        }
        if tracker.kind() == TrackerKind::SoftDirty {
            // What ends this search ends it for all memory of the process, that of other sources included.
            for (id, state) in variables.iter_mut() {
                for (index, source) in state.sources.iter_mut().enumerate() {
                    let searched = jobs.iter().any(|job| (job.id, job.source) == (*id, index));
                    if !searched && source.watch != Watch::New && !matches!(source.working, Working::Loaned) {
                        collect_source(tracker, source);
                        for (pending, dirty) in source.pending.iter_mut().zip(&source.collected.dirty) {
                            *pending = pending.or(*dirty);
                        }
                    }
                }
            }
        }
        tracker.finish()
    }

    /// Keeps the dirty pages of a publish that did not happen for the next one.
    fn remember(&mut self, jobs: &[Job]) {
        for job in jobs {
            let Some(source) = self.variables.get_mut(&job.id).and_then(|state| state.sources.get_mut(job.source))
            else {
                continue;
            };
            for (pending, dirty) in source.pending.iter_mut().zip(&source.collected.dirty) {
                *pending = pending.or(*dirty);
            }
        }
    }

    pub(crate) fn roll_back(&mut self, plan: &[Assignment]) {
        for assignment in plan {
            self.planes.unmark(assignment.plane, assignment.window, assignment.pages);
        }
    }

    /// Chooses slots for all dirty pages.
    fn assign(&mut self, jobs: &mut [Job], out: &mut Vec<Assignment>) -> Result<()> {
        for job in jobs {
            let start = out.len();
            let Some(source) = self.variables.get_mut(&job.id).and_then(|state| state.sources.get_mut(job.source))
            else {
                continue;
            };
            for window in 0..source.windows() {
                let dirty = source.collected.dirty[window];
                if !dirty.is_empty() {
                    self.planes.assign(source.place.window as usize + window, dirty, source.hint, out)?;
                    source.hint = out.last().map_or(0, |assignment| assignment.plane);
                }
            }
            job.assignments = start..out.len();
        }
        Ok(())
    }

    /// Copies, describes and commits. Returns the number of pages copied.
    fn write(
        &mut self,
        label: &Label,
        inputs: &[Input],
        jobs: &[Job],
        plan: &[Assignment],
        dirty_pages: usize,
    ) -> Result<usize> {
        let copied = self.copy(jobs, plan)?;
        points::hit("publish.copied");
        if self.schema_changed {
            self.write_schema()?;
        }
        let submitted = self.submitted_loans();
        let extents = self.extents(inputs);
        let words = Arc::new(self.make_table(plan, &self.shown_slots(&submitted), &extents)?);
        let described = self.describe(label, words.clone(), &extents, dirty_pages);
        if described.is_err() {
            self.release_table(&words);
        }
        let version = described?;
        points::hit("publish.described");
        self.head.set(Counter::Planes, self.planes.count() as u64);
        protocol::commit(&self.head, version.leased.slot, version.leased.sequence);
        points::hit("publish.committed");
        self.sequence = version.leased.sequence;
        self.table = version.table.clone();
        self.versions.push(version);
        self.head.ring();
        self.drop_left(&extents);
        for extent in extents {
            if let Some(state) = self.variables.get_mut(&extent.variable) {
                state.shown = Some(extent);
            }
        }
        self.take_loans(&submitted);
        Ok(copied)
    }

    fn copy(&mut self, jobs: &[Job], plan: &[Assignment]) -> Result<usize> {
        let mut copies = std::mem::take(&mut self.copies);
        copies.clear();
        let mut edges = 0;
        for job in jobs {
            let Some(source) = self.variables.get_mut(&job.id).and_then(|state| state.sources.get_mut(job.source))
            else {
                continue;
            };
            for assignment in &plan[job.assignments.clone()] {
                let window = assignment.window - source.place.window as usize;
                let to =
                    source.place.map_for_writing(assignment.plane, window, assignment.pages, &self.planes)?.address();
                for page in assignment.pages.pages() {
                    let page = window * WINDOW_PAGES + page;
                    let base = match &job.before {
                        Some(before) if before.has(page) => before.address.wrapping_sub(source.page_offset),
                        _ => source.memory.address,
                    };
                    let from = base.wrapping_add(page * PAGE_BYTES);
                    if source.memory.whole.contains(&page) && from.is_multiple_of(PAGE_BYTES) {
                        copies.push(PageCopy { from, to: to + page * PAGE_BYTES });
                    } else {
                        let part = source.part(page);
                        // SAFETY: the part lies inside the memory the caller vouches for; the slot was chosen because
                        // no version uses it, and has space behind it.
                        unsafe {
                            copy_bytes(from.wrapping_add(part.start), to + page * PAGE_BYTES + part.start, part.len())
                        };
                        edges += 1;
                    }
                }
            }
        }
        // SAFETY: whole pages lie inside the memory the caller vouches for, each slot is chosen once, no version uses it,
        // and its space was taken.
        unsafe { self.copier.copy_pages(&copies) };
        let copied = copies.len() + edges;
        self.copies = copies;
        Ok(copied)
    }

    /// The window table of the version to come. Every block it names is counted for it.
    fn make_table(&mut self, plan: &[Assignment], loans: &[Assignment], extents: &[Extent]) -> Result<Vec<u32>> {
        let mut words = Vec::clone(&self.table);
        words.resize(self.space.windows(), u32::from(ZERO_PLANE));
        for (window, windows) in self.left_windows(extents) {
            words[window as usize..(window + windows) as usize].fill(u32::from(ZERO_PLANE));
        }
        let cut = self.cut_pages(&mut words, extents);
        for word in words.iter().filter(|word| **word & SUBTABLE != 0) {
            self.tables.retain(word & !SUBTABLE, WINDOW_PAGES);
        }
        let mut all: Vec<&Assignment> = plan.iter().chain(loans).chain(&cut).collect();
        all.sort_by_key(|part| part.window);
        for parts in all.chunk_by(|left, right| left.window == right.window) {
            let window = parts[0].window;
            let old = words[window];
            let new = match parts[..] {
                [part] if part.pages == Mask::FULL => Entry::Uniform(part.plane as u8),
                _ => {
                    let mut subtable = expand(&self.tables, old);
                    for part in parts.iter() {
                        for (start, end) in part.pages.runs() {
                            subtable[start..end].fill(part.plane as u8);
                        }
                    }
                    if subtable.iter().all(|plane| *plane == subtable[0]) {
                        Entry::Uniform(subtable[0])
                    } else {
                        match self.tables.take(WINDOW_PAGES) {
                            Ok(block) => {
                                self.tables.write(block, &subtable);
                                Entry::Mixed(block)
                            }
                            Err(error) => {
                                self.release_table(&words);
                                return Err(error);
                            }
                        }
                    }
                }
            };
            if old & SUBTABLE != 0 {
                self.tables.release(old & !SUBTABLE, WINDOW_PAGES);
            }
            words[window] = new.encode();
        }
        Ok(words)
    }

    /// Leaves windows behind the last one of a variable out of a window table, and lists the pages behind its last page in
    /// that window if they are in the table. A variable that became shorter had them.
    fn cut_pages(&self, words: &mut [u32], extents: &[Extent]) -> Vec<Assignment> {
        let mut cut = Vec::new();
        for extent in extents {
            let Some(state) = self.variables.get(&extent.variable) else { continue };
            let shown = state.shown.as_ref().filter(|shown| shown.place == extent.place);
            if shown.is_some_and(|shown| shown.pages() <= extent.pages()) {
                continue;
            }
            let mut places = state.sources.iter().map(|source| &source.place);
            let Some(place) = places.find(|place| place.serial == extent.place) else { continue };
            let pages = extent.pages() as usize;
            let (start, end) = (place.window as usize, (place.window + place.windows) as usize);
            words[(start + pages.div_ceil(WINDOW_PAGES)).min(end)..end].fill(u32::from(ZERO_PLANE));
            if pages.is_multiple_of(WINDOW_PAGES) {
                continue;
            }
            let (window, first) = (start + pages / WINDOW_PAGES, pages % WINDOW_PAGES);
            if expand(&self.tables, words[window])[first..].iter().any(|plane| *plane != ZERO_PLANE) {
                let pages = Mask::FULL.without(Mask::first(first));
                cut.push(Assignment { window, plane: usize::from(ZERO_PLANE), pages });
            }
        }
        cut
    }

    pub(crate) fn release_table(&mut self, words: &[u32]) {
        for word in words.iter().filter(|word| **word & SUBTABLE != 0) {
            self.tables.release(word & !SUBTABLE, WINDOW_PAGES);
        }
    }

    /// Where the version to come has its variables.
    fn extents(&self, inputs: &[Input]) -> Vec<Extent> {
        let extent = |state: &VariableState| {
            let given = !state.kind.is_tracked() || inputs.iter().any(|input| input.id == state.meta.id);
            if !given {
                // What it was given for publishes that failed since is not what any version shows.
                return state.shown.clone();
            }
            let source = state.sources.get(state.current?)?;
            Some(Extent {
                variable: state.meta.id,
                order: state.order,
                shape: state.shape.iter().map(|n| *n as u64).collect(),
                window: source.place.window,
                page_offset: source.page_offset as u16,
                bytes: source.bytes as u64,
                place: source.place.serial,
            })
        };
        self.variables.values().filter_map(extent).collect()
    }

    /// Writes manifest, window table and descriptor of the version to come.
    fn describe(
        &mut self,
        label: &Label,
        words: Arc<Vec<u32>>,
        extents: &[Extent],
        dirty_pages: usize,
    ) -> Result<Version> {
        let sequence = self.next_sequence()?;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        Manifest::encode(extents, &label.attributes, &mut bytes);
        let manifest_bytes = bytes.len();
        self.check_limit(
            "the bytes of the version's manifest",
            manifest_bytes as u64,
            manifest::BYTES_MAX as u64,
            "publish with fewer or shorter attributes, or remove variables",
        )?;
        let manifest_crc = table::checksum(&bytes);
        let manifest = self.tables.take(manifest_bytes)?;
        self.tables.write(manifest, &bytes);
        bytes.clear();
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        let table_block = match self.tables.take(bytes.len()) {
            Ok(block) => block,
            Err(error) => {
                self.tables.release(manifest, manifest_bytes);
                return Err(error);
            }
        };
        self.tables.write(table_block, &bytes);
        let descriptor = Descriptor {
            version: label.number,
            manifest_block: manifest,
            manifest_bytes: manifest_bytes as u32,
            table_block,
            windows: words.len() as u32,
            manifest_crc,
            table_crc: table::checksum(&bytes),
            published_ns: label.published_ns.unwrap_or_else(files::unix_ns),
            dirty_pages: dirty_pages as u64,
            total_pages: self.total_pages(),
            schema: self.schema,
        };
        self.bytes = bytes;
        // `with_room` made sure of a free slot, and nothing took it since.
        let slot = self.free_slot().unwrap_or(0);
        self.head.set_descriptor(slot, &descriptor);
        Ok(Version {
            leased: Leased { slot, sequence },
            number: label.number,
            state: State::Live,
            table: words,
            manifest: (manifest, manifest_bytes),
            table_block,
            schema: self.schema,
        })
    }

    /// The loans submitted by now. Others may be submitted at any time, by other threads: they are for later versions.
    fn submitted_loans(&self) -> Vec<Submitted> {
        let submitted = self.variables.iter().map(|(id, state)| {
            let place = state.current.and_then(|index| state.sources.get(index)).map(|source| source.place.serial);
            let loans: Vec<usize> =
                (0..state.loans.len()).filter(|index| state.loans[*index].ticket.is_submitted()).collect();
            // A loan that lies where the variable was before a resize is of no use.
            let shown = loans.iter().copied().rfind(|index| Some(state.loans[*index].place) == place);
            Submitted { id: *id, loans, shown }
        });
        submitted.filter(|submitted| !submitted.loans.is_empty()).collect()
    }

    fn shown_slots(&self, submitted: &[Submitted]) -> Vec<Assignment> {
        let slots =
            |submitted: &Submitted| Some(&self.variables.get(&submitted.id)?.loans[submitted.shown?].assignments);
        submitted.iter().filter_map(slots).flatten().copied().collect()
    }

    /// Ends the loans that the version just committed shows, or that those replaced.
    fn take_loans(&mut self, submitted: &[Submitted]) {
        for Submitted { id, loans, shown } in submitted {
            for index in loans.iter().rev() {
                let Some(state) = self.variables.get_mut(id) else { continue };
                let loan = state.loans.remove(*index);
                // The one that is shown is in the version, so its slots stay in use.
                if Some(*index) != *shown {
                    self.free_loan(&loan);
                }
            }
        }
        let ids: Vec<u32> =
            self.variables.iter().filter(|(_, state)| !state.loans.is_empty()).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.end_loans(id));
    }

    /// After the commit: lets old versions go, shares cold windows, gives idle memory back. The version is published, so
    /// nothing here is an error of its publish: what could not be done is tried again at the next.
    fn settle(&mut self, jobs: &[Job]) {
        let _ = self.retire_unwanted();
        for job in jobs {
            let _ = self.share_cold(job);
        }
        self.planes.cool(false);
        self.update_counters();
    }

    fn share_cold(&mut self, job: &Job) -> Result<()> {
        let kind = self.tracker.kind();
        let demote = self.options.demote && matches!(kind, TrackerKind::WpAsync | TrackerKind::SoftDirty);
        let Producer { variables, tracker, tables, table, planes, shared_windows, .. } = self;
        let Some(source) = variables.get_mut(&job.id).and_then(|state| state.sources.get_mut(job.source)) else {
            return Ok(());
        };
        let windows = source.windows();
        let mut budget = windows.div_ceil(SHARE_DIVISOR);
        for window in 0..windows {
            let valid = source.valid(window);
            let dirty = source.collected.dirty[window];
            let armed = source.collected.armed[window];
            let Working::Managed(managed) = &mut source.working else { return Ok(()) };
            let wanted = match kind {
                // This tracker arms a window by sharing it.
                TrackerKind::PrivateCow => armed && !dirty.is_empty(),
                _ if demote => managed.observe(window, dirty, valid) && budget > 0,
                _ => false,
            };
            if !wanted || (*shared_windows >= shared_windows_max() && !managed.is_shared(window)) {
                continue;
            }
            budget = budget.saturating_sub(1);
            points::hit("demote.begin");
            let first = source.place.window;
            let planes_of = expand_window(tables, table, first as usize + window);
            let keep = if kind == TrackerKind::PrivateCow { Mask::EMPTY } else { managed.hot(window) };
            let was_shared = managed.is_shared(window);
            match managed.share(window, first, valid, keep, &planes_of, planes) {
                Ok(true) => {}
                Ok(false) => continue,
                // Sharing is an economy: without mappings or space to spare the window stays as it is.
                Err(Error::NoMappings { .. } | Error::NoSpace { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
            points::hit("demote.replaced");
            *shared_windows += usize::from(!was_shared);
            let address = source.memory.address + window * WINDOW_BYTES;
            // What is written behind the variable's end shall be found when the variable has grown over it.
            let bytes = valid.count() * PAGE_BYTES;
            if kind == TrackerKind::WpAsync && tracker.rewatch(address, bytes).is_err() {
                source.watch = Watch::New;
            }
            source.sticky.rearmed(window, keep);
            points::hit("demote.done");
        }
        Ok(())
    }
}

/// Each shared window takes one of the process's mappings, and the application needs most of them for itself.
pub(crate) fn shared_windows_max() -> usize {
    stillframe_kernel::mappings_max() / 4
}

fn collect_source(tracker: &mut Tracker, source: &mut Source) {
    let mut collected = std::mem::take(&mut source.collected);
    tracker.collect(&source.memory, &mut source.watch, &source.sticky, &mut collected);
    source.collected = collected;
}

/// Whether some page is watched for two sources, as when two variables swap their buffers or managed memory is tracked too.
fn is_overlapping(variables: &BTreeMap<u32, VariableState>) -> bool {
    let sources = variables.values().flat_map(|state| &state.sources);
    let mut ranges: Vec<(usize, usize)> = sources.map(|source| source.watched()).collect();
    ranges.sort_unstable();
    ranges.windows(2).any(|pair| pair[1].0 < pair[0].1)
}

/// Notes pages found dirty for one source in all others that have them: the search that found them armed them, and none
/// will find them again.
fn tell_others(variables: &mut BTreeMap<u32, VariableState>, finder: (u32, usize), addresses: &[usize]) {
    for (id, state) in variables.iter_mut() {
        for (_, source) in state.sources.iter_mut().enumerate().filter(|(index, _)| (*id, *index) != finder) {
            let (start, end) = source.watched();
            for address in addresses.iter().filter(|address| (start..end).contains(address)) {
                let page = (address - source.memory.address) / PAGE_BYTES;
                source.pending[page / WINDOW_PAGES].insert(page % WINDOW_PAGES);
            }
        }
    }
}

/// Whether a page of the working memory differs from its slot in the newest version.
fn differs(source: &mut Source, page: usize, plane: u8, planes: &crate::planes::Planes) -> Result<bool> {
    if plane == ZERO_PLANE || plane as usize >= planes.count() {
        return Ok(true);
    }
    let part = source.part(page);
    let from = source.memory.address + page * PAGE_BYTES + part.start;
    let slot = source.place.map(plane as usize, planes)?.address() + page * PAGE_BYTES + part.start;
    // SAFETY: the part lies inside the memory the caller vouches for, and the slot inside the map of its place; its
    // space was taken when it was written.
    Ok(!unsafe { equal_bytes(from, slot, part.len()) })
}
