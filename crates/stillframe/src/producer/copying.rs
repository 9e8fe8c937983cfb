//! Copying the dirty pages of a publish to their frames.
//!
//! # Safety
//!
//! This module copies from memory the application owns. Its invariant: nobody writes the memory of a variable while publish
//! runs, or between the start and the end of one in the background. For managed memory the borrow checker sees to that, for
//! tracked memory given as slices too; whoever hands over raw addresses vouches for it.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use crate::list;
use crate::producer::collect::Job;
use crate::producer::gathering::{Run, push_run};
use crate::producer::state::Workspace;
use crate::store::draft::Draft;
use crate::working::source::Source;
use crate::working::tracker::kind::TrackerKind;
use std::ops::Range;
use stillframe_kernel::Failure;
use stillframe_kernel::background::{Background, Transfer};
use stillframe_kernel::child::CopyingChild;
use stillframe_kernel::copy::{PageCopy, Piece, copy_bytes};
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};

/// Most pages of one piece: threads share the work by pieces.
const PIECE_PAGES: usize = 64;

/// Most bytes that are copied in one go though they do not begin or end where a page does.
const SMALL_BYTES_MAX: usize = 8 * PAGE_BYTES;

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

    /// Takes frames for all dirty pages, and memory for those that have none; `all_held` as for
    /// [`Draft::take_memory`]. What is then to be copied where, and gathered where.
    pub(crate) fn prepare(
        &mut self,
        jobs: &mut [Job],
        draft: &mut Draft,
        all_held: bool,
    ) -> Result<(Vec<Piece>, Vec<Run>)> {
        self.take_frames(jobs, draft)?;
        draft.take_memory(all_held)?;
        self.places(jobs, draft)
    }

    /// What is to be copied where, and gathered where. Pages that follow each other in both places are together.
    fn places(&mut self, jobs: &[Job], draft: &Draft) -> Result<(Vec<Piece>, Vec<Run>)> {
        let (mut pieces, mut runs) = (Vec::new(), Vec::new());
        let fail = |failure| Error::system(draft.store().dir(), failure);
        for job in jobs {
            let Some(source) = self.source_mut(job.id, job.source) else { continue };
            for part in &draft.frames()[job.frames.clone()] {
                let window = part.window - source.maps.allocation.window as usize;
                let to = source.maps.address_for_writing(part.plane, window, part.pages, draft.planes())?;
                for (start, end) in part.pages.runs() {
                    let pushed = match source.gather {
                        Some(_) => push_run(&mut runs, job, window, start..end, to),
                        None => push_pieces(&mut pieces, job, source, window, start..end, to),
                    };
                    pushed.map_err(fail)?;
                }
            }
        }
        Ok((pieces, runs))
    }

    /// Copies the pieces by all threads: those of small arrays as they are, and of others page by page.
    pub(crate) fn copy(&mut self, pieces: &[Piece]) {
        let (mut copies, mut small) = (std::mem::take(&mut self.copies), std::mem::take(&mut self.small_pieces));
        copies.clear();
        small.clear();
        let pages: usize = pieces.iter().filter(|piece| is_whole(piece)).map(|piece| piece.bytes / PAGE_BYTES).sum();
        let parts = pieces.iter().filter(|piece| !is_whole(piece)).count();
        // Without memory for a list of all pages they are copied one by one.
        let is_listed = list::make_room(&mut copies, pages).is_ok() && list::make_room(&mut small, parts).is_ok();
        let mut rest = pieces;
        while let Some(piece) = join_first(&mut rest) {
            if !is_whole(&piece) {
                match is_listed {
                    true => small.push(piece),
                    // SAFETY: as for all of them together, below.
                    false => unsafe { copy_bytes(piece.from, piece.to, piece.bytes) },
                }
                continue;
            }
            for at in (0..piece.bytes).step_by(PAGE_BYTES) {
                let page = PageCopy { from: piece.from + at, to: piece.to + at };
                match is_listed {
                    true => copies.push(page),
                    // SAFETY: as for all of them together, below.
                    false => unsafe { self.copier.copy_here(std::slice::from_ref(&page)) },
                }
            }
        }
        // SAFETY: pages and pieces lie inside the memory the caller vouches for, each frame is chosen once, no version uses it,
        // and its space was taken.
        unsafe {
            self.copier.copy_pieces(&small);
            self.copier.copy_pages(&copies);
        }
        (self.copies, self.small_pieces) = (copies, small);
    }

    /// Begins to copy the pieces in the background, with a thread less than copy where the caller waits.
    pub(crate) fn transfer(&mut self, pieces: Vec<Piece>) -> Result<Transfer, Failure> {
        let background = self.background();
        // SAFETY: the targets are frames that no version uses, each chosen once; they stay taken and mapped until the transfer
        // is gone, because what would unmap them or give them up finishes or gives up the publish first.
        unsafe { background.start(pieces) }
    }

    fn background(&mut self) -> &Background {
        let threads = self.copier.threads() - 1;
        self.background.get_or_insert_with(|| Background::new(threads))
    }

    /// Has threads take pages back that a child has copied. Pages that are armed are left out: their next write is a fault anyway,
    /// by which it is found.
    pub(crate) fn own_after(&mut self, child: &CopyingChild, pieces: &[Piece], jobs: &[Job]) -> Option<Transfer> {
        if self.tracker.kind() == TrackerKind::SoftDirty {
            return None;
        }
        let sources = jobs.iter().filter_map(|job| self.variables.get(job.id)?.working.sources().get(job.source));
        let sources: Vec<&Source> = sources.filter(|source| source.gather.is_none()).collect();
        let is_armed = |piece: &&Piece| {
            let armed = sources.iter().find_map(|source| {
                let at = piece.from.wrapping_sub(source.memory.address);
                let is_own = at < source.memory.pages * PAGE_BYTES;
                source.collected.armed.get(at / WINDOW_BYTES).filter(|_| is_own)
            });
            armed.is_none_or(|armed| *armed)
        };
        let mut own = Vec::new();
        list::make_room(&mut own, pieces.len()).ok()?;
        own.extend(pieces.iter().filter(|piece| !is_armed(piece)).copied());
        self.background().own_after(child.process(), own).ok()
    }

    /// Begins to copy the pieces by a child process, as they are now. `None`: there can be none, or it has not got them all, as far
    /// as can be told.
    pub(crate) fn copy_in_child(&self, pieces: &[Piece]) -> Option<CopyingChild> {
        // SAFETY: as for `transfer`; the memory was looked for when the publish began.
        unsafe { CopyingChild::start(pieces, &self.maps, &self.copier) }.ok().flatten()
    }

    /// Whether the memory of the jobs is private to the process.
    pub(crate) fn is_private(&self, jobs: &[Job]) -> bool {
        jobs.iter().all(|job| {
            let source = self.variables.get(job.id).and_then(|state| state.working.sources().get(job.source));
            source.is_none_or(|source| {
                let before = job.before.as_ref().map(|before| before.address);
                let mut addresses = before.into_iter().chain([source.memory.address + source.page_offset]);
                source.memory.owned
                    || source.gather.is_some()
                    || addresses.all(|address| self.maps.is_private(address, source.bytes))
            })
        })
    }
}

/// Takes the first of the pieces out, with those behind it that go on where it ends, if all of them together are small.
fn join_first(pieces: &mut &[Piece]) -> Option<Piece> {
    let (first, mut rest) = pieces.split_first()?;
    let mut joined = *first;
    while let Some((next, others)) = rest.split_first()
        && next.from == joined.from.wrapping_add(joined.bytes)
        && next.to == joined.to + joined.bytes
        && joined.bytes + next.bytes <= SMALL_BYTES_MAX
    {
        joined.bytes += next.bytes;
        rest = others;
    }
    *pieces = rest;
    Some(joined)
}

fn is_whole(piece: &Piece) -> bool {
    [piece.from, piece.to, piece.bytes].iter().all(|number| number.is_multiple_of(PAGE_BYTES))
}

/// Adds what copies a run of pages of a window to the frames that begin at `to` for that window.
fn push_pieces(
    pieces: &mut Vec<Piece>,
    job: &Job,
    source: &Source,
    window: usize,
    run: Range<usize>,
    to: usize,
) -> Result<(), Failure> {
    let (first, end) = (window * WINDOW_PAGES + run.start, window * WINDOW_PAGES + run.end);
    let to = |page: usize| to + (page - window * WINDOW_PAGES) * PAGE_BYTES;
    let whole = first.max(source.memory.whole.start)..end.min(source.memory.whole.end).max(first);
    let is_plain = job.before.is_none();
    let mut page = first;
    while page < end {
        let before = job.before.as_ref().filter(|before| before.has(page));
        let base = before.map_or(source.memory.address, |before| before.address.wrapping_sub(source.page_offset));
        let from = base.wrapping_add(page * PAGE_BYTES);
        let pages = match whole.contains(&page) {
            true if is_plain => PIECE_PAGES.min(whole.end - page),
            _ => 1,
        };
        let part = if pages > 1 { 0..pages * PAGE_BYTES } else { source.part(page) };
        let (from, to) = (from.wrapping_add(part.start), to(page) + part.start);
        list::push(pieces, Piece { from, to, bytes: part.len() })?;
        page += pages;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Pieces that go on where the one before ends, or lie elsewhere in one place or in both.
        #[test]
        fn joined_pieces_are_the_same_bytes_in_the_same_order(
            all in prop::collection::vec((1usize..=3 * PAGE_BYTES, 0usize..4), 0..60),
        ) {
            let (mut pieces, mut from, mut to) = (Vec::new(), 0, 0);
            for (bytes, gap) in all {
                (from, to) = (from + PAGE_BYTES * (gap & 1), to + PAGE_BYTES * (gap >> 1));
                pieces.push(Piece { from, to, bytes });
                (from, to) = (from + bytes, to + bytes);
            }
            let (mut rest, mut joined) = (&pieces[..], Vec::new());
            while let Some(piece) = join_first(&mut rest) {
                prop_assert!(piece.bytes <= SMALL_BYTES_MAX);
                joined.push(piece);
            }
            let bytes = |pieces: &[Piece]| -> Vec<(usize, usize)> {
                pieces.iter().flat_map(|piece| (0..piece.bytes).map(|at| (piece.from + at, piece.to + at))).collect()
            };
            prop_assert_eq!(bytes(&joined), bytes(&pieces));
            // None is left alone that could be joined.
            let is_next = |pair: &[Piece]| {
                let [one, next] = pair else { return false };
                (one.from + one.bytes, one.to + one.bytes) == (next.from, next.to)
            };
            for pair in joined.windows(2).filter(|pair| is_next(pair)) {
                let first = pieces.iter().find(|piece| piece.from == pair[1].from).map_or(0, |piece| piece.bytes);
                prop_assert!(pair[0].bytes + first > SMALL_BYTES_MAX);
            }
        }
    }

    #[test]
    fn large_pieces_stay_alone() {
        let large = SMALL_BYTES_MAX - 100;
        let piece = |at: usize, bytes: usize| Piece { from: at, to: PAGE_BYTES + at, bytes };
        let all = [piece(0, 100), piece(100, large + 1), piece(large + 101, 8)];
        let mut rest = &all[..];
        assert_eq!(join_first(&mut rest), Some(piece(0, 100)));
        assert_eq!(join_first(&mut rest), Some(piece(100, large + 9)));
        assert_eq!(join_first(&mut rest), None);
    }
}
