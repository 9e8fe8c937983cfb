//! Compaction: bringing together the pages that a recovered version has scattered.
//!
//! After many steps that write single pages, those of a window lie in two planes or more, in hundreds of pieces. To show
//! them as they lie takes a mapping for each piece; to copy the window takes memory for all of it. So the pages that lie
//! elsewhere are copied into the free frames of the plane that has most of the window, where there mostly is memory already,
//! and the version is committed once more, with tables that say so. What was the newest version before lives on as long as
//! somebody holds it.
//!
//! # Safety
//!
//! This module copies pages within planes. Its invariant: what is read is in use by a version; what is written was free, is marked
//! before, and has memory.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use crate::mask::Mask;
use crate::producer::state::Producer;
use crate::store::Store;
use crate::store::draft::{Content, Draft};
use crate::store::plane::pages_of;
use crate::store::planes::{Assignment, Planes};
use crate::store::version::{Subtable, Version};
use crate::working::pieces::{PIECES_MAX, count_pieces};
use crate::working::plane_maps::PlaneMaps;
use std::sync::Mutex;
use stillframe_kernel::copy::{Copier, PageCopy};
use stillframe_kernel::map::Mapping;
use stillframe_kernel::points;
use stillframe_segment::table::{SUBTABLE, ZERO_PLANE};
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES};

/// What a page that cannot be compacted costs, in pages that can: memory of its own is taken for it.
const OWN_COST: usize = 4;

/// Pages of a window in one plane for which mapping that is worth it: fewer are read as a file.
const MAPPED_PAGES_MIN: usize = 64;

/// Windows for which starting another thread is worth it.
const WINDOWS_PER_THREAD: usize = 4;

impl Producer {
    /// Compacts the scattered windows that the newest version shows, of those that these are maps of. What cannot be compacted,
    /// for want of blocks, of a ring slot or of free frames, stays as it is.
    pub(crate) fn compact(&mut self, maps: &mut PlaneMaps) -> Result<()> {
        let Producer { store, workspace, options, .. } = self;
        let Some(newest) = store.versions().last().cloned() else { return Ok(()) };
        let first = maps.allocation.window as usize;
        let planes_of = |store: &Store, window: usize| store.expand(newest.table[window]);
        let scattered: Vec<usize> = (first..first + maps.allocation.windows as usize)
            .filter(|window| newest.table.get(*window).is_some_and(|word| word & SUBTABLE != 0))
            .filter(|window| count_pieces(&planes_of(store, *window)) > PIECES_MAX)
            .collect();
        if scattered.is_empty() || store.free_slot().is_none() || store.next_sequence().is_err() {
            return Ok(());
        }
        let most_bytes = store.planes().present_bytes() + (scattered.len() * WINDOW_BYTES) as u64;
        let has_room = options.bound_bytes.is_none_or(|bound_bytes| most_bytes <= bound_bytes);
        if !has_room {
            store.planes_mut().scan_residency()?;
        }
        let plan = plan(store, &newest, &scattered, has_room);
        if plan.is_empty() {
            return Ok(());
        }
        let mut draft = store.draft();
        draft.take(plan);
        let compacted = copy(maps, &newest, &mut draft, &workspace.copier)
            .and_then(|has_memory| if has_memory { commit(draft, &newest).map(|()| true) } else { Ok(false) });
        match compacted {
            Ok(true) => {
                store.retire(store.versions().len() - 2)?;
                points::hit("compact.done");
                Ok(())
            }
            Ok(false) | Err(Error::NoSpace { .. } | Error::NoMappings { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Chooses a plane for each window, and the pages that are copied into it: with `has_room` also into frames that may have
/// no memory yet.
fn plan(store: &Store, newest: &Version, scattered: &[usize], has_room: bool) -> Vec<Assignment> {
    let planes = store.planes();
    let mut plan: Vec<Assignment> = Vec::new();
    for window in scattered.iter().copied() {
        let table = store.expand(newest.table[window]);
        let mut shown = vec![Mask::EMPTY; planes.count()];
        for (page, plane) in table.iter().enumerate() {
            if let Some(mask) = shown.get_mut(*plane as usize) {
                mask.insert(page);
            }
        }
        let pages = shown.iter().fold(Mask::EMPTY, |all, mask| all.or(*mask));
        if pages.runs().count() > PIECES_MAX {
            // Zeros between them, which are in no plane.
            continue;
        }
        let has_window = |plane: &usize| planes.plane(*plane).file.has_window(window).unwrap_or(false);
        let choices = shown.iter().enumerate().filter(|(plane, _)| has_window(plane)).map(|(plane, shown)| {
            let elsewhere = pages.without(*shown);
            let frames = if has_room { Planes::free } else { Planes::ready };
            let compacted = elsewhere.and(frames(planes, plane, window));
            let own = elsewhere.without(compacted);
            (compacted.count() + OWN_COST * own.count(), Assignment { window, plane, pages: compacted })
        });
        // Neighbours in one plane are one mapping.
        let hint = plan.last().map_or(usize::MAX, |part| part.plane);
        let best = choices.min_by_key(|(cost, part)| if part.plane == hint { *cost * 7 / 8 } else { *cost });
        plan.extend(best.map(|(_, part)| part).filter(|part| !part.pages.is_empty()));
    }
    plan
}

/// Copies the pages to the frames of the draft. `false`: there is no memory for them.
fn copy(maps: &mut PlaneMaps, newest: &Version, draft: &mut Draft, copier: &Copier) -> Result<bool> {
    let plan = draft.frames();
    let tables: Vec<Subtable> = plan.iter().map(|part| draft.store().expand(newest.table[part.window])).collect();
    for plane in 0..draft.planes().count() {
        maps.map(plane, draft.planes())?;
    }
    let work = Compaction { maps, planes: draft.planes(), copier };
    let failed = Mutex::new(None);
    copier.workers().parallel_for(plan.len(), plan.len() / WINDOWS_PER_THREAD, &|index| {
        let (part, table) = (&plan[index], &tables[index]);
        if let Err(error) = work.copy_window(part, table) {
            *failed.lock().unwrap_or_else(|poison| poison.into_inner()) = Some(error);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(|poison| poison.into_inner());
    draft.note_residency(failed.is_none())?;
    points::hit("compact.copied");
    match failed {
        None => Ok(true),
        // The kernel says that an address cannot be written when no memory is left for it.
        Some(Error::System { failure, .. }) if failure.errno() == libc::EFAULT => Ok(false),
        Some(error) => Err(error),
    }
}

/// Commits the newest version once more, with its pages compacted.
fn commit(mut draft: Draft, newest: &Version) -> Result<()> {
    draft.tabulate(Vec::clone(&newest.table), &[])?;
    draft.commit(Content::Again(newest), ["compact.described", "compact.committed"])
}

/// What the threads that compact an allocation share.
struct Compaction<'a> {
    maps: &'a PlaneMaps,
    planes: &'a Planes,
    copier: &'a Copier,
}

impl Compaction<'_> {
    /// Copies pages of a window, which lie where `table` says, into the plane that was chosen.
    fn copy_window(&self, part: &Assignment, table: &Subtable) -> Result<()> {
        let window = part.window - self.maps.allocation.window as usize;
        self.maps.with_window(part.plane, window, self.planes, |map, at| self.copy_into(map, at, part, table))?
    }

    /// As [`copy_window`](Compaction::copy_window), for a map of the chosen plane in which the window begins at `at`.
    fn copy_into(&self, map: &Mapping, at: usize, part: &Assignment, table: &Subtable) -> Result<()> {
        let window = part.window - self.maps.allocation.window as usize;
        // All that is in use or will be has its page-table entries made, many at a time, and memory. Other free frames are left
        // out: they may have none, and would get it.
        let entered = Mask::FULL.without(self.planes.free(part.plane, part.window)).or(part.pages);
        let has_memory =
            entered.runs().all(|(start, end)| map.has_memory(at + start * PAGE_BYTES, (end - start) * PAGE_BYTES));
        let mut counts = [0; ZERO_PLANE as usize + 1];
        part.pages.pages().for_each(|page| counts[table[page] as usize] += 1);
        let mut copies = Vec::new();
        for (start, end) in part.pages.runs() {
            let mut page = start;
            for run in table[start..end].chunk_by(|left, right| left == right) {
                let source = run[0] as usize;
                let to = at + page * PAGE_BYTES;
                if has_memory && counts[source] >= MAPPED_PAGES_MIN {
                    let from = self.maps.address(source, window, self.planes)? + page * PAGE_BYTES;
                    let pages = (0..run.len()).map(|page| page * PAGE_BYTES);
                    copies.extend(pages.map(|page| PageCopy { from: from + page, to: map.address() + to + page }));
                } else {
                    let (from, file) =
                        (pages_of(part.window, (page, page + run.len())), &self.planes.plane(source).file);
                    file.read_into(map, to, from).map_err(|failure| Error::system(file.path(), failure))?;
                }
                page += run.len();
            }
        }
        // SAFETY: all pages lie in the maps of the allocation. Those that are read are in use, so that nobody writes them and
        // they have memory. Those that are written were free and are marked, so that nobody else has them, and got memory above.
        unsafe { self.copier.copy_here(&copies) };
        Ok(())
    }
}
