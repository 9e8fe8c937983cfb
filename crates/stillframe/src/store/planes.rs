//! The producer's planes: which frame to write next, and where memory is taken and given back.
//!
//! Free frames that have memory are written again before new ones are taken.

use crate::error::{Error, Result};
use crate::list;
use crate::mask::{Mask, insert_pages};
use crate::place::Place;
use crate::store::plane::{Plane, pages_of};
use crate::store::unit::MemoryUnit;

use std::ops::Range;
use stillframe_kernel::Failure;
use stillframe_segment::{PAGE_BYTES, PLANES_MAX, WINDOW_PAGES};

/// All planes of a region.
#[derive(Debug)]
pub(crate) struct Planes {
    place: Place,
    list: Vec<Plane>,
    windows: usize,
    present_pages: u64,
    unit: MemoryUnit,
    /// How often memory nobody needs was looked for.
    turn: usize,
}

/// Part of a window that goes to one plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) window: usize,
    pub(crate) plane: usize,
    pub(crate) pages: Mask,
}

/// Planes made before pages of one window are spread over several with free frames. A choice of contiguity over memory:
/// free frames without memory cost nothing.
const PLANES_EASY: usize = 8;

impl Planes {
    pub(crate) fn new(place: Place) -> Planes {
        Planes { place, list: Vec::new(), windows: 0, present_pages: 0, unit: MemoryUnit::Small, turn: 0 }
    }

    /// In which units memory is taken and given back.
    pub(crate) fn unit(&self) -> MemoryUnit {
        self.unit
    }

    pub(crate) fn set_unit(&mut self, unit: MemoryUnit) {
        self.unit = unit;
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Windows for which all planes have room.
    pub(crate) fn windows(&self) -> usize {
        self.windows
    }

    pub(crate) fn plane(&self, plane: usize) -> &Plane {
        &self.list[plane]
    }

    pub(crate) fn present_bytes(&self) -> u64 {
        let unscanned_pages: u64 = self.list.iter().map(|plane| plane.unscanned_pages).sum();
        (self.present_pages + unscanned_pages) * PAGE_BYTES as u64
    }

    /// Makes all planes long enough for `windows` windows.
    pub(crate) fn grow(&mut self, windows: usize) -> Result<()> {
        if windows <= self.windows {
            return Ok(());
        }
        for plane in &mut self.list {
            plane.grow(windows)?;
        }
        self.windows = windows;
        Ok(())
    }

    /// Opens the planes a dead producer left, until one is missing. [`assume_residency`](Planes::assume_residency) must follow, when the frames
    /// in use are marked.
    pub(crate) fn recover(&mut self, windows: usize) -> Result<()> {
        self.windows = windows;
        (0..self.place.planes_there()?).try_for_each(|_| self.add().map(drop))
    }

    /// Takes the frames in use of recovered planes for all that has memory. What free frames have is found out before any is
    /// chosen, so that beginning does not take the time of it.
    pub(crate) fn assume_residency(&mut self) -> Result<()> {
        for plane in &mut self.list {
            plane.present.clone_from(&plane.in_use);
            let present_pages = plane.present_pages();
            self.present_pages += present_pages;
            match plane.file.taken_pages()? {
                Some(taken_pages) if taken_pages >= present_pages => {
                    plane.unscanned_pages = taken_pages - present_pages;
                }
                _ => plane.scan_residency()?,
            }
        }
        Ok(())
    }

    /// Finds out which free frames have memory, if that is not known. They keep it, for a program that runs once per version
    /// would otherwise take it, zeroed, and give it back each time.
    pub(crate) fn scan_residency(&mut self) -> Result<()> {
        for plane in self.list.iter_mut().filter(|plane| plane.unscanned_pages > 0) {
            let before = plane.present_pages();
            let scanned = plane.scan_residency();
            // A scan that fails has found out a part.
            self.present_pages = self.present_pages + plane.present_pages() - before;
            scanned?;
            plane.unscanned_pages = 0;
        }
        Ok(())
    }

    /// Notes that frames have memory because they were written, and how much planes have by now of which nobody looked where
    /// it is.
    pub(crate) fn note_residency(&mut self, written: &[Assignment]) -> Result<()> {
        for Assignment { window, plane, pages } in written {
            let present = &mut self.list[*plane].present[*window];
            self.present_pages += pages.without(*present).count() as u64;
            *present = present.or(*pages);
        }
        for plane in &mut self.list {
            let taken_pages = plane.file.taken_pages()?;
            plane.unscanned_pages = taken_pages.map_or(0, |taken| taken.saturating_sub(plane.present_pages()));
        }
        Ok(())
    }

    /// Opens or makes one more plane and returns its number.
    fn add(&mut self) -> Result<usize> {
        let number = self.list.len();
        let mut plane = Plane::new(self.place.open_plane(number)?);
        plane.grow(self.windows)?;
        self.list.push(plane);
        stillframe_kernel::points::hit("plane.created");
        Ok(number)
    }

    /// Marks frames as used by a version that exists.
    pub(crate) fn mark(&mut self, plane: usize, window: usize, pages: Mask) {
        if let Some(mask) = self.list.get_mut(plane).and_then(|plane| plane.in_use.get_mut(window)) {
            *mask = mask.or(pages);
        }
    }

    /// Marks frames as used by no version.
    pub(crate) fn unmark(&mut self, plane: usize, window: usize, pages: Mask) {
        if let Some(mask) = self.list.get_mut(plane).and_then(|plane| plane.in_use.get_mut(window)) {
            *mask = mask.without(pages);
        }
    }

    /// Frames of a window that are free and have memory.
    pub(crate) fn ready(&self, plane: usize, window: usize) -> Mask {
        let plane = &self.list[plane];
        plane.present[window].without(plane.in_use[window])
    }

    /// Frames of a window that no version uses.
    pub(crate) fn free(&self, plane: usize, window: usize) -> Mask {
        Mask::FULL.without(self.list[plane].in_use[window])
    }

    /// Chooses frames for the dirty pages of a window and marks them used. `hint` is the plane to prefer, so that
    /// neighbouring windows end up side by side.
    pub(crate) fn assign(&mut self, window: usize, dirty: Mask, hint: usize, out: &mut Vec<Assignment>) -> Result<()> {
        self.scan_residency()?;
        let count = self.list.len();
        let order = || (hint..count).chain(0..hint.min(count));
        let mut rest = dirty;
        if let Some(plane) = order().find(|plane| dirty.without(self.ready(*plane, window)).is_empty()) {
            return self.give(window, plane, dirty, &mut rest, out);
        }
        if let Some(plane) = order()
            .find(|plane| dirty.without(self.free(*plane, window)).is_empty() && self.ready(*plane, window).is_empty())
            && self.best_ready(window, dirty).is_none()
        {
            return self.give(window, plane, dirty, &mut rest, out);
        }
        while let Some(plane) = self.best_ready(window, rest) {
            let pages = rest.and(self.ready(plane, window));
            self.give(window, plane, pages, &mut rest, out)?;
        }
        while !rest.is_empty() {
            let whole = order().find(|plane| rest.without(self.free(*plane, window)).is_empty());
            let plane = match whole {
                Some(plane) => plane,
                None if self.list.len() < PLANES_EASY => self.add()?,
                None => match self.best_free(window, rest) {
                    Some(plane) => plane,
                    None if self.list.len() < PLANES_MAX => self.add()?,
                    None => {
                        return Err(Error::NoSlot {
                            region: self.place.path().display().to_string(),
                            slots: PLANES_MAX,
                            held: 0,
                            enclaves: Vec::new(),
                        });
                    }
                },
            };
            let pages = rest.and(self.free(plane, window));
            self.give(window, plane, pages, &mut rest, out)?;
        }
        Ok(())
    }

    fn give(
        &mut self,
        window: usize,
        plane: usize,
        pages: Mask,
        rest: &mut Mask,
        out: &mut Vec<Assignment>,
    ) -> Result<()> {
        list::push(out, Assignment { window, plane, pages }).map_err(|failure| self.no_memory(failure))?;
        self.mark(plane, window, pages);
        *rest = rest.without(pages);
        Ok(())
    }

    /// The plane with most of `wanted` free and with memory.
    fn best_ready(&self, window: usize, wanted: Mask) -> Option<usize> {
        self.best(wanted, |plane| self.ready(plane, window))
    }

    fn best_free(&self, window: usize, wanted: Mask) -> Option<usize> {
        self.best(wanted, |plane| self.free(plane, window))
    }

    fn best(&self, wanted: Mask, frames: impl Fn(usize) -> Mask) -> Option<usize> {
        let counts = (0..self.list.len()).map(|plane| (wanted.and(frames(plane)).count(), plane));
        counts
            .filter(|(count, _)| *count > 0)
            .max_by_key(|(count, plane)| (*count, usize::MAX - plane))
            .map(|best| best.1)
    }

    fn no_memory(&self, failure: Failure) -> Error {
        Error::system(self.place.path(), failure)
    }

    /// A plane in which so many pages from the begin of a window on are free, for a loan.
    pub(crate) fn assign_whole(&mut self, window: usize, pages: usize, out: &mut Vec<Assignment>) -> Result<usize> {
        self.scan_residency()?;
        let windows = pages.div_ceil(WINDOW_PAGES);
        let of = |index: usize| Mask::first((pages - index * WINDOW_PAGES).min(WINDOW_PAGES));
        list::make_room(out, windows).map_err(|failure| self.no_memory(failure))?;
        let fits = |planes: &Planes, plane: usize, ready: bool| {
            (0..windows).all(|index| {
                let frames =
                    if ready { planes.ready(plane, window + index) } else { planes.free(plane, window + index) };
                of(index).without(frames).is_empty()
            })
        };
        let all = 0..self.list.len();
        let chosen = all.clone().find(|plane| fits(self, *plane, true)).or_else(|| {
            let mut all = all;
            all.find(|plane| fits(self, *plane, false))
        });
        let plane = match chosen {
            Some(plane) => plane,
            None if self.list.len() < PLANES_MAX => self.add()?,
            None => {
                let region = self.place.path().display().to_string();
                return Err(Error::NoSlot { region, slots: PLANES_MAX, held: 0, enclaves: Vec::new() });
            }
        };
        for index in 0..windows {
            self.mark(plane, window + index, of(index));
            out.push(Assignment { window: window + index, plane, pages: of(index) });
        }
        Ok(plane)
    }

    /// Pages of an assignment that have no memory yet, and in large units those beside them.
    pub(crate) fn missing(&self, assignment: &Assignment, unit: MemoryUnit) -> Mask {
        let present = self.list[assignment.plane].present[assignment.window];
        let missing = assignment.pages.without(present);
        match unit {
            MemoryUnit::Large if !missing.is_empty() => Mask::FULL.without(present),
            _ => missing,
        }
    }

    /// Frames of a window that have memory.
    pub(crate) fn present(&self, plane: usize, window: usize) -> Mask {
        self.list[plane].present[window]
    }

    /// Takes memory for frames that have none for as long as it takes to look at them.
    pub(crate) fn take_bare(&self, plane: usize, window: usize, pages: Mask) -> Result<()> {
        let file = &self.list[plane].file;
        pages.runs().try_for_each(|run| file.take(pages_of(window, run)))
    }

    /// Gives back what [`take_bare`](Planes::take_bare) took, or part of it.
    pub(crate) fn give_back_bare(&self, plane: usize, window: usize, pages: Mask) {
        for run in pages.runs() {
            // Memory that stays is found free by the next producer.
            let _ = self.list[plane].file.give_back(pages_of(window, run));
        }
    }

    /// Takes memory for the pages of `assignments` that have none, in as few calls as possible: all of it or nothing.
    pub(crate) fn allocate(&mut self, assignments: &[Assignment], unit: MemoryUnit) -> Result<()> {
        let mut runs: Vec<(usize, Range<usize>)> = Vec::new();
        for assignment in assignments {
            for run in self.missing(assignment, unit).runs() {
                let pages = pages_of(assignment.window, run);
                match runs.last_mut() {
                    Some((plane, last)) if *plane == assignment.plane && last.end == pages.start => {
                        last.end = pages.end
                    }
                    _ => list::push(&mut runs, (assignment.plane, pages)).map_err(|failure| self.no_memory(failure))?,
                }
            }
        }
        let needed_bytes = runs.iter().map(|(_, pages)| (pages.len() * PAGE_BYTES) as u64).sum();
        // To take a page in vain keeps nobody else from one.
        if let Some(plane) = runs.first().map(|run| &self.list[run.0])
            && needed_bytes > PAGE_BYTES as u64
            && !plane.file.may_take(needed_bytes)
        {
            return Err(Error::no_space(plane.file.path(), needed_bytes));
        }
        for (index, (plane, pages)) in runs.iter().enumerate() {
            if let Err(error) = self.list[*plane].file.take(pages.clone()) {
                // Some file systems keep part of what they could not take whole, and an arena the windows' places.
                for (plane, pages) in &runs[..=index] {
                    let plane = &self.list[*plane];
                    let _ = plane.file.give_back(pages.clone());
                    let windows = pages.start / WINDOW_PAGES..pages.end.div_ceil(WINDOW_PAGES);
                    for window in windows.filter(|window| plane.present[*window].is_empty()) {
                        let _ = plane.file.release(window);
                    }
                }
                return Err(error.needing(needed_bytes));
            }
        }
        for (plane, pages) in runs {
            let first = pages.start / WINDOW_PAGES;
            let start = pages.start % WINDOW_PAGES;
            let present = &mut self.list[plane].present[first..];
            // Parts of one window may both have named the pages beside them.
            let windows = 0..(start + pages.len()).div_ceil(WINDOW_PAGES);
            let count = |present: &[Mask]| present[windows.clone()].iter().map(|mask| mask.count() as u64).sum::<u64>();
            let before = count(present);
            insert_pages(present, start, start + pages.len());
            self.present_pages += count(present) - before;
        }
        Ok(())
    }

    /// Whether the file system may have so many bytes.
    pub(crate) fn may_take(&self, bytes: u64) -> bool {
        self.list.first().is_none_or(|plane| plane.file.may_take(bytes))
    }

    /// Gives back memory of free frames: all of it, or in a few windows the frames that were free at the last visit too.
    pub(crate) fn cool(&mut self, everything: bool) {
        // A full turn takes this many calls, so that frames used every few hundred publishes keep their memory. A prime number: of
        // frames that are used every second publish, or third, no two visits in turn find the same ones free.
        const TURN: usize = 509;
        let turn = self.turn % TURN;
        let (from, to) = match everything {
            true => (0, self.windows),
            false => (turn * self.windows / TURN, (turn + 1) * self.windows / TURN),
        };
        self.turn += usize::from(!everything);
        // What cannot be looked at is looked at again when it is wanted.
        let _ = self.scan_residency();
        (from..to).for_each(|window| self.cool_window(window, everything));
    }

    /// Gives back memory of free frames in the windows from `from` on, until it was so many pages or a little more: of windows that are
    /// nobody's all of it, in the others that of frames that were free at the last visit too. The window to go on with; `None` if
    /// none is left.
    pub(crate) fn cool_windows(&mut self, from: usize, pages: u64, is_taken: impl Fn(usize) -> bool) -> Option<usize> {
        let _ = self.scan_residency();
        let before = self.present_pages;
        for window in from..self.windows {
            if before - self.present_pages >= pages {
                return Some(window);
            }
            self.cool_window(window, !is_taken(window));
        }
        None
    }

    fn cool_window(&mut self, window: usize, everything: bool) {
        for plane in &mut self.list {
            let ready = plane.present[window].without(plane.in_use[window]);
            // In large units a window goes as it came, whole, unless there is no room for others.
            let stays = self.unit == MemoryUnit::Large && !plane.in_use[window].is_empty();
            let cold = match everything {
                true => ready,
                false if stays => Mask::EMPTY,
                false => ready.and(plane.idle[window]),
            };
            // Of a window that stays nothing is idle, or a part of it would go when it is not in use the next time.
            plane.idle[window] = if stays { Mask::EMPTY } else { ready.without(cold) };
            for (start, end) in cold.runs() {
                if plane.file.give_back(pages_of(window, (start, end))).is_ok() {
                    let mut run = Mask::EMPTY;
                    run.insert_run(start, end);
                    plane.present[window] = plane.present[window].without(run);
                    self.present_pages -= (end - start) as u64;
                }
            }
            if !cold.is_empty() && plane.present[window].is_empty() && plane.in_use[window].is_empty() {
                // A window that stays where it is is released when it is cold the next time.
                let _ = plane.file.release(window);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::directory::Directory;
    use stillframe_kernel::trust::{Guard, Purpose, Trust};

    const WINDOWS: usize = 6;
    const PAGES: usize = 4;

    fn planes(name: &str) -> (Planes, std::path::PathBuf) {
        let dir = std::env::temp_dir().join(format!("stillframe-planes-{name}-{}", std::process::id()));
        let root =
            Directory::make_root(&dir, 0o700, Guard::new(Trust::Own, Purpose::Write { granted: 0o700 })).unwrap();
        let directory = root.make_below("r", 0o700).unwrap();
        let mut planes = Planes::new(Place::Directory { directory, mode: 0o600 });
        planes.grow(WINDOWS).unwrap();
        (planes, dir)
    }

    #[test]
    fn frames_that_are_used_in_turn_keep_their_memory() {
        for period in [2, 3, 4] {
            let (mut planes, dir) = planes(&format!("turn{period}"));
            let mut versions = std::collections::VecDeque::new();
            for round in 0..3000 {
                let mut taken = Vec::new();
                (0..WINDOWS).for_each(|window| planes.assign(window, Mask::first(PAGES), 0, &mut taken).unwrap());
                planes.allocate(&taken, MemoryUnit::Small).unwrap();
                versions.push_back(taken);
                if versions.len() == period {
                    let gone: Vec<Assignment> = versions.pop_front().unwrap();
                    gone.iter().for_each(|part| planes.unmark(part.plane, part.window, part.pages));
                }
                planes.cool(false);
                let frames = (round + 1).min(period) * WINDOWS * PAGES;
                assert_eq!(planes.present_pages, frames as u64, "publish {round}, period {period}");
            }
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }

    #[test]
    fn memory_that_is_free_is_given_back_in_turns_of_bounded_size() {
        let (mut planes, dir) = planes("bounded");
        let fill = |planes: &mut Planes| {
            let mut taken = Vec::new();
            (0..WINDOWS).for_each(|window| planes.assign(window, Mask::first(PAGES), 0, &mut taken).unwrap());
            planes.allocate(&taken, MemoryUnit::Small).unwrap();
            taken.iter().for_each(|taken| planes.unmark(taken.plane, taken.window, taken.pages));
            assert_eq!(planes.present_pages, (WINDOWS * PAGES) as u64);
        };
        let left = |planes: &Planes| planes.present_pages as usize / PAGES;
        fill(&mut planes);
        // What is nobody's goes in turns, each of which is over with the window that fills it.
        let two_windows = 2 * PAGES as u64;
        assert_eq!(planes.cool_windows(0, two_windows, |_| false), Some(2));
        assert_eq!(left(&planes), 4);
        assert_eq!(planes.cool_windows(2, two_windows - 1, |_| false), Some(4));
        assert_eq!(left(&planes), 2);
        assert_eq!(planes.cool_windows(4, u64::MAX, |_| false), None);
        assert_eq!(left(&planes), 0);
        // Of what is somebody's nothing goes at the first visit, and what is free then and now at the second.
        fill(&mut planes);
        assert_eq!(planes.cool_windows(0, two_windows, |_| true), None);
        assert_eq!(left(&planes), WINDOWS);
        planes.mark(0, 4, Mask::first(PAGES));
        assert_eq!(planes.cool_windows(0, two_windows, |_| true), Some(2));
        assert_eq!(planes.cool_windows(2, u64::MAX, |_| true), None);
        assert_eq!(left(&planes), 1);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
