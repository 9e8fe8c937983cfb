//! Finding the dirty pages of a publish.

use crate::error::{Error, Result};
use crate::list;
use crate::mask::Mask;
use crate::producer::input::{Input, Inputs};
use crate::producer::state::{Producer, VariableState, Variables, Workspace};
use crate::store::Store;
use crate::working::Working;
use crate::working::dirty::{Dirty, Known, Zeros};
use crate::working::source::Source;
use crate::working::tracker::Tracker;
use crate::working::tracker::kind::TrackerKind;
use crate::working::tracker::neighbours::Neighbour;
use crate::working::unit::CopyUnit;
use std::ops::Range;
use stillframe_kernel::Failure;
use stillframe_kernel::maps::{Checks, Maps, Sharing};
use stillframe_kernel::workers::Workers;
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

/// A source whose dirty pages are published.
#[derive(Debug)]
pub(crate) struct Job {
    /// The variable, and which of its sources it is.
    pub(crate) id: u32,
    pub(crate) source: usize,
    /// Number of dirty pages.
    pub(crate) dirty: usize,
    /// Its frames among those of the draft.
    pub(crate) frames: Range<usize>,
    pub(crate) before: Option<Before>,
}

/// The pages of a source that a version shows as they were before it was written, window by window.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) address: usize,
    pages: Vec<Mask>,
}

impl Before {
    pub(crate) fn has(&self, page: usize) -> bool {
        self.pages[page / WINDOW_PAGES].has(page % WINDOW_PAGES)
    }
}

impl Producer {
    /// An array that was freed is an error while nothing has been touched, not a signal while it is copied.
    pub(crate) fn check_mapped(&self, input: &Input, checks: &mut Checks) -> Result<()> {
        let bytes = input.memory_bytes();
        if input.is_plain() && checks.is_readable(input.address, bytes) {
            return Ok(());
        }
        let before = input.subrange.as_ref().and_then(|subrange| subrange.before);
        let known = input.zeros.as_deref().unwrap_or(Zeros::NONE);
        let before = before.map(|address| (address, &known.before));
        for (address, zeros) in std::iter::once((input.address, &known.memory)).chain(before) {
            let is_readable = |part: Range<usize>| match input.zeros {
                Some(_) => self.workspace.maps.is_readable_untouched(address.wrapping_add(part.start), part.len()),
                None => checks.is_readable(address.wrapping_add(part.start), part.len()),
            };
            if !Zeros::others(zeros, input.address % PAGE_BYTES, bytes).all(is_readable) {
                let name = self.state(input.id)?.meta.name.clone();
                return Err(Error::NotMapped { name, address, bytes });
            }
        }
        Ok(())
    }

    /// Refuses shapes that do not fit the parts of global arrays which the variables are said to be.
    pub(crate) fn check_parts(&self, inputs: &Inputs) -> Result<()> {
        for state in self.workspace.variables.values() {
            let Some(part) = &state.part else { continue };
            let input = inputs.get(state.meta.id);
            let shape = match (input, &state.shown) {
                (Some(input), _) => input.shape.to_vec(),
                (None, Some(shown)) if state.is_tracked() => shown.shape.iter().map(|n| *n as usize).collect(),
                _ => continue,
            };
            part.check(&shape).map_err(|why| Error::WrongShape { name: state.meta.name.clone(), why })?;
        }
        Ok(())
    }

    /// Has tracked variables published from where they are this time, which mostly is where they were.
    pub(crate) fn take_inputs(&mut self, inputs: &Inputs) -> Result<()> {
        let sequence = self.store.sequence();
        let mut states = self.workspace.variables.iter_mut();
        let mut moved = Vec::new();
        for input in inputs.iter() {
            // Both are in the order of their numbers.
            let state = states.find(|(id, _)| *id >= input.id).filter(|(id, _)| *id == input.id);
            if !state.is_some_and(|(_, state)| state.is_given_again(input, sequence)) {
                let noted = list::push(&mut moved, input);
                noted.map_err(|failure| Error::system(self.store.dir(), failure))?;
            }
        }
        drop(states);
        moved.into_iter().try_for_each(|input| self.take_input(input))
    }

    /// Has a tracked variable published from where it is this time.
    fn take_input(&mut self, input: &Input) -> Result<()> {
        let given = input.given();
        let sequence = self.store.sequence();
        let state = self.state_mut(input.id)?;
        let Working::Tracked(tracked) = &mut state.working else {
            return Err(self.state(input.id)?.wrong_kind("tracked"));
        };
        let mut new = None;
        if let Some(windows) = tracked.windows_for(&given) {
            let former = tracked.make_way(&given);
            if let Some(source) = former.map_err(|failure| Error::system(self.store.dir(), failure))? {
                let allocation = source.maps.allocation;
                source.unwatch(&mut self.workspace.tracker);
                // Until the next version is there, the newest may be all there is of its content.
                self.store.leave(allocation.window, allocation.windows);
            }
            let allocation = self.store.allocate(windows)?;
            let source = match given.section {
                Some(placed) => Source::gathered(allocation, placed.clone()),
                None => Source::new(allocation, false),
            };
            match source {
                Ok(source) => new = Some(source),
                Err(failure) => {
                    self.store.free(allocation.window, allocation.windows);
                    return Err(Error::system(self.store.dir(), failure));
                }
            }
        }
        let state = self.state_mut(input.id)?;
        if let Working::Tracked(tracked) = &mut state.working {
            tracked.switch_to(&given, new, sequence);
        }
        state.shape = input.shape.to_vec();
        state.order = input.order;
        Ok(())
    }
}

/// What a publish finds dirty pages with.
struct Finding<'a> {
    tracker: &'a mut Tracker,
    workers: &'a Workers,
    store: &'a Store,
    unit: CopyUnit,
}

impl VariableState {
    /// Whether it was published from what is given already; notes for which publish it is.
    fn is_given_again(&mut self, input: &Input, sequence: u64) -> bool {
        let Working::Tracked(tracked) = &mut self.working else { return false };
        tracked.is_at(&input.given(), sequence) && self.shape[..] == input.shape[..] && self.order == input.order
    }

    /// Which of its sources the version shows; `None` if it is tracked and was not given, or has none.
    fn given(&self, input: Option<&Input>) -> Option<usize> {
        self.working.current().filter(|_| !self.is_tracked() || input.is_some())
    }

    /// Finds the pages to be published, after a search.
    fn find_dirty(&mut self, job: &mut Job, input: Option<&Input>, finding: &mut Finding) -> Result<()> {
        let Finding { tracker, workers, store, unit } = finding;
        let subrange = input.and_then(|input| input.subrange.as_deref());
        let Dirty { pages, unshown } = match &mut self.working {
            Working::Managed(managed) => managed.collect(tracker, workers, store, self.shown.as_ref())?,
            Working::Tracked(tracked) => {
                let zeros = input.and_then(|input| input.zeros.as_deref()).unwrap_or(Zeros::NONE);
                tracked.collect(store, &Known { workers, subrange, zeros, unit: *unit, shown: self.shown.as_ref() })?
            }
            Working::Loaned(_) => return Ok(()),
        };
        let before = match subrange.map(|subrange| subrange.before) {
            Some(Some(address)) => Some(Before { address, pages: unshown }),
            Some(None) if unshown.iter().any(|pages| !pages.is_empty()) => {
                let why = "no version shows the rest of it, which a publish of a part needs to be told".into();
                return Err(Error::WrongShape { name: self.meta.name.clone(), why });
            }
            _ => None,
        };
        (job.dirty, job.before) = (pages, before);
        Ok(())
    }
}

impl Workspace {
    /// Finds the dirty pages of everything that may have changed. On an error the jobs have those found until then.
    pub(crate) fn collect(
        &mut self,
        store: &Store,
        inputs: &Inputs,
        unit: CopyUnit,
        jobs: &mut Vec<Job>,
    ) -> Result<()> {
        let Workspace { variables, tracker, maps, copier, .. } = self;
        let searched = search_neighbours(variables, inputs, tracker, maps);
        let overlapping = searched.map_err(|failure| Error::system(store.dir(), failure))?;
        let workers = copier.workers();
        let is_apart = !overlapping && tracker.kind() != TrackerKind::SoftDirty;
        let mut next = 0;
        while !is_apart && let Some((id, state)) = variables.first_mut(next..) {
            next = id + 1;
            let input = inputs.get(id);
            let Some(index) = state.given(input) else { continue };
            state.working.sources_mut()[index].search(tracker, maps);
            jobs.push(Job { id, source: index, dirty: 0, frames: 0..0, before: None });
            if overlapping {
                tell(variables, (id, index));
            }
            if let (Some(state), Some(job)) = (variables.get_mut(id), jobs.last_mut()) {
                state.find_dirty(job, input, &mut Finding { tracker, workers, store, unit })?;
            }
        }
        for (id, state) in variables.iter_mut().filter(|_| is_apart) {
            let input = inputs.get(id);
            let Some(index) = state.given(input) else { continue };
            let source = &mut state.working.sources_mut()[index];
            source.search(tracker, maps);
            if input.is_none_or(Input::is_plain) && source.is_as_shown(state.shown.as_ref(), store)? {
                continue;
            }
            jobs.push(Job { id, source: index, dirty: 0, frames: 0..0, before: None });
            if let Some(job) = jobs.last_mut() {
                state.find_dirty(job, input, &mut Finding { tracker, workers, store, unit })?;
            }
        }
        if tracker.kind() == TrackerKind::SoftDirty {
            self.search_the_rest(jobs);
        }
        self.tracker.finish()
    }

    /// What ends a search of soft-dirty bits ends it for all memory of the process, that of other sources included.
    fn search_the_rest(&mut self, jobs: &[Job]) {
        let Workspace { variables, tracker, maps, .. } = self;
        for (id, state) in variables.iter_mut() {
            for (index, source) in state.working.sources_mut().iter_mut().enumerate() {
                let searched = jobs.iter().any(|job| (job.id, job.source) == (id, index));
                if !searched && source.is_known() {
                    source.search(tracker, maps);
                    source.remember();
                }
            }
        }
    }

    /// Keeps the dirty pages of a publish that did not happen for the next one.
    pub(crate) fn remember(&mut self, jobs: &[Job]) {
        for job in jobs {
            if let Some(source) = self.source_mut(job.id, job.source) {
                source.remember();
            }
        }
    }
}

/// Searches those of the sources together that lie side by side. Whether some page is watched for two sources, as when two
/// variables swap their buffers or managed memory is tracked too.
fn search_neighbours(
    variables: &mut Variables,
    inputs: &Inputs,
    tracker: &mut Tracker,
    maps: &Maps,
) -> Result<bool, Failure> {
    let mut all = Vec::new();
    list::make_room(&mut all, variables.len())?;
    for (id, state) in variables.iter_mut() {
        let is_given = !state.is_tracked() || inputs.get(id).is_some();
        let current = state.working.current().filter(|_| is_given);
        for (index, source) in state.working.sources_mut().iter_mut().enumerate() {
            source.remember_search();
            let neighbour = Neighbour::new(source, current == Some(index));
            if !neighbour.watched.is_empty() {
                list::push(&mut all, neighbour)?;
            }
        }
    }
    Ok(tracker.search_neighbours(&mut all, maps))
}

/// Notes what a search found in all sources that have some of the same pages.
fn tell(variables: &mut Variables, finder: (u32, usize)) {
    let source = |variables: &Variables, window: Option<usize>| {
        let source = variables.get(finder.0)?.working.sources().get(finder.1)?;
        let found = window.map(|window| source.watched_window(window));
        Some((source.watched(), source.sharing(), source.watched_windows(), found))
    };
    let Some((addresses, sharing, windows, _)) = source(variables, None) else { return };
    if sharing != Sharing::Private {
        tell_sharing(variables, addresses, sharing);
    }
    for window in 0..windows {
        if let Some((_, _, _, Some((address, dirty)))) = source(variables, Some(window)) {
            tell_others(variables, finder, address, dirty);
        }
    }
}

/// Notes in all sources with some of these addresses that others may change what is there: the search that found other memory there
/// had it watched again, and the searches of the others find nothing new.
fn tell_sharing(variables: &mut Variables, (start, end): (usize, usize), sharing: Sharing) {
    for source in variables.values_mut().flat_map(|state| state.working.sources_mut().iter_mut()) {
        let (own_start, own_end) = source.watched();
        if own_start < end && start < own_end {
            source.note_sharing(sharing);
        }
    }
}

/// Notes pages of a window found dirty for one source in all others that have them: the search that found them armed them, and none
/// will find them again.
fn tell_others(variables: &mut Variables, finder: (u32, usize), window_address: usize, dirty: Mask) {
    for (id, state) in variables.iter_mut() {
        let sources = state.working.sources_mut().iter_mut().enumerate();
        for (_, source) in sources.filter(|(index, _)| (id, *index) != finder) {
            let (start, end) = source.watched();
            let addresses = dirty.pages().map(|page| window_address + page * PAGE_BYTES);
            for address in addresses.filter(|address| (start..end).contains(address)) {
                source.note(address);
            }
        }
    }
}
