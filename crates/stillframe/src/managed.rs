//! Managed working memory: cold pages exist once.
//!
//! A managed variable starts as anonymous memory in large pages. Pages that stay clean need not exist twice, as working
//! memory and in a plane: their window is replaced by a private mapping of the plane that holds them, and the kernel's
//! copy-on-write separates what is written later. Hot pages keep memory of their own on top of that mapping. What was
//! recovered begins so, which is why a restart takes no time to speak of: in as many mappings as it has pieces, where they
//! are few, and else with pages of its own on top where its plane has others.
//!
//! One invariant carries this: *a page without memory of its own shows the newest version's slot*. It holds because a page
//! is found dirty only after a write gave it memory of its own ([`Managed::own_pages`] makes sure), and because the slot
//! of a page that is not dirty stays in use by every later version.
//!
//! It speaks of the variable's pages. Behind them, where it may grow without moving, lies anonymous memory: no plane is ever
//! shown there, what a resize cuts off is given back at once ([`Managed::cut`]), and the versions that follow have no slots
//! for it. So what a variable gets back is zeros, and takes no memory until it is written.

use crate::mask::Mask;
use crate::planes::Planes;
use crate::tracker::Tracker;
use crate::{Error, Result};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use stillframe_kernel::Failure;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::workers::Workers;
use stillframe_segment::table::ZERO_PLANE;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};

/// Publishes over which hot pages are collected before a window is judged.
const EPOCH: u8 = 16;
/// A window with more newly hot pages than this in an epoch is not stable enough to be shared.
const NEW_PAGES_MAX: usize = 5;
/// A window is shared when at least so many of its pages would be freed.
const COLD_PAGES_MIN: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Window {
    /// Pages that have, or may have, memory of their own.
    private: Mask,
    /// Pages dirty in this epoch.
    hot: Mask,
    /// Pages dirty in the epoch before.
    before: Mask,
    age: u8,
    /// Whether the variable's pages are a private mapping of a plane rather than anonymous memory.
    shared: bool,
}

/// The working memory of a managed variable.
#[derive(Debug)]
pub(crate) struct Managed {
    pub(crate) memory: Mapping,
    windows: Vec<Window>,
    /// Whether large pages are asked for.
    large: bool,
}

impl Window {
    /// Anonymous memory of which nothing is known.
    const NEW: Window = Window { private: Mask::FULL, hot: Mask::FULL, before: Mask::EMPTY, age: 0, shared: false };
}

/// The planes of the pages of a window in the newest version.
pub(crate) type Subtable = [u8; WINDOW_PAGES];

impl Managed {
    /// Zeroed memory of whole windows.
    pub(crate) fn new(windows: usize, large: bool) -> Result<Managed, Failure> {
        let memory = Mapping::private(windows.max(1) * WINDOW_BYTES, large)?;
        Ok(Managed { memory, windows: vec![Window::NEW; windows.max(1)], large })
    }

    pub(crate) fn address(&self) -> usize {
        self.memory.address()
    }

    /// Whether a window shows a plane.
    pub(crate) fn is_shared(&self, window: usize) -> bool {
        self.windows[window].shared
    }

    /// Number of windows that show a plane.
    pub(crate) fn shared_windows(&self) -> usize {
        self.windows.iter().filter(|window| window.shared).count()
    }

    /// Bytes of memory of its own, at most.
    pub(crate) fn private_bytes(&self) -> u64 {
        self.windows.iter().map(|window| (window.private.count() * PAGE_BYTES) as u64).sum()
    }

    /// Gives dirty pages memory of their own, if a write did not do so already.
    pub(crate) fn own_pages(&mut self, window: usize, dirty: Mask) -> Result<(), Failure> {
        let Managed { memory, windows, .. } = self;
        let state = &mut windows[window];
        for (start, end) in dirty.without(state.private).runs() {
            let bytes = (end - start) * PAGE_BYTES;
            memory.touch(window * WINDOW_BYTES + start * PAGE_BYTES, bytes).map_err(|failure| {
                let detail = format!("copies of {bytes} bytes of a plane: memory is short, or its file was cut");
                Failure { detail, ..failure }
            })?;
        }
        state.private = state.private.or(dirty);
        Ok(())
    }

    /// Gives back the memory of all pages from `pages` on, which read as zeros then. Returns how many windows showed a plane
    /// and do not any more. On an error nothing has changed.
    pub(crate) fn cut(&mut self, pages: usize) -> Result<usize, Failure> {
        let from = pages * PAGE_BYTES;
        if from < self.memory.bytes() {
            self.memory.lay_private(from, self.memory.bytes() - from, self.large)?;
        }
        let whole = pages.div_ceil(WINDOW_PAGES);
        if let Some(last) = self.windows.get_mut(pages / WINDOW_PAGES).filter(|_| pages < whole * WINDOW_PAGES) {
            last.private = last.private.or(Mask::FULL.without(Mask::first(pages % WINDOW_PAGES)));
        }
        let cut = &mut self.windows[whole..];
        let shared = cut.iter().filter(|window| window.shared).count();
        cut.fill(Window::NEW);
        Ok(shared)
    }

    /// Gives all pages memory of their own, so that the content stays whatever happens to the planes.
    pub(crate) fn own_all(&mut self) -> Result<(), Failure> {
        (0..self.windows.len()).try_for_each(|window| self.own_pages(window, Mask::FULL))
    }

    /// Notes which pages of a window were dirty at a publish; true if the window should now be shared.
    pub(crate) fn observe(&mut self, window: usize, dirty: Mask, valid: Mask) -> bool {
        let state = &mut self.windows[window];
        state.hot = state.hot.or(dirty);
        state.age += 1;
        if state.age < EPOCH {
            return false;
        }
        let stable = state.hot.without(state.before).count() <= NEW_PAGES_MAX;
        let cold = state.private.and(valid).without(state.hot).count();
        let enough = cold >= COLD_PAGES_MIN.min(valid.count().div_ceil(2)).max(1);
        if stable && enough {
            // Judged again at the next publish if there is no time for it in this one.
            state.age -= 1;
            return true;
        }
        state.before = state.hot;
        state.hot = Mask::EMPTY;
        state.age = 0;
        false
    }

    /// The pages that were dirty of late and had better keep memory of their own.
    pub(crate) fn hot(&self, window: usize) -> Mask {
        self.windows[window].hot
    }

    /// Replaces the `valid` pages of a window, the first ones, by a private mapping of the plane that holds most of them.
    /// Pages in `keep`, and those of other planes, keep their content in memory of their own. The content of the window does
    /// not change. `false`: no plane has any of its pages, as before they are first written, and the window stays as it is.
    pub(crate) fn share(
        &mut self,
        index: usize,
        first: u32,
        valid: Mask,
        keep: Mask,
        table: &Subtable,
        planes: &Planes,
    ) -> Result<bool> {
        let Some(overlay) = Overlay::new(first as usize + index, valid, keep, table, planes)? else {
            let window = &mut self.windows[index];
            *window = Window { hot: Mask::EMPTY, before: window.hot, age: 0, ..*window };
            return Ok(false);
        };
        overlay.fill(planes, |mapping, page| {
            let from = index * WINDOW_BYTES + page * PAGE_BYTES;
            mapping.copy_from(page * PAGE_BYTES, &self.memory, from, PAGE_BYTES);
            Ok(())
        })?;
        let Overlay { mapping, private, .. } = overlay;
        let path = planes.plane(0).path.clone();
        self.memory.replace(index * WINDOW_BYTES, mapping).map_err(|failure| Error::system(&path, failure))?;
        let window = &mut self.windows[index];
        let private = private.or(Mask::FULL.without(valid));
        *window = Window { private, hot: Mask::EMPTY, before: window.hot, age: 0, shared: true };
        Ok(true)
    }

    /// Fills a new working memory, which lies from window `first` on in the planes, with a version that was recovered:
    /// `table` tells the planes of the pages of a window. Nothing is copied but pages that lie among others of another plane,
    /// which get memory of their own, armed; and whole windows, where the tracker or the pieces do not allow for that.
    /// The workers copy; at most `pieces_max` mappings are made. Returns the windows that were copied.
    pub(crate) fn adopt(
        &mut self,
        first: u32,
        table: impl Fn(usize) -> Subtable,
        planes: &Planes,
        tracker: &Tracker,
        workers: &Workers,
        pieces_max: usize,
    ) -> Result<Vec<usize>> {
        let mut shown: Vec<Piece> = Vec::new();
        let (mut mixed, mut copied) = (Vec::new(), Vec::new());
        for index in 0..self.windows.len() {
            let table = table(index);
            let all = pieces(index, &table);
            let (showing, own) = match all.len() > PIECES_MAX && tracker.is_filling() {
                true => pieces_below(index, &table),
                false => (all.clone(), Mask::EMPTY),
            };
            if showing.len() > PIECES_MAX || shown.len() + showing.len() > pieces_max {
                self.windows[index] = Window { hot: Mask::EMPTY, ..self.windows[index] };
                copied.push((index, all));
            } else if !showing.is_empty() {
                let mut private = own;
                (0..WINDOW_PAGES).filter(|page| table[*page] == ZERO_PLANE).for_each(|page| private.insert(page));
                self.windows[index] = Window { private, hot: Mask::EMPTY, before: Mask::EMPTY, age: 0, shared: true };
                if !own.is_empty() {
                    mixed.push(Mixed { index, own, pieces: all });
                }
                for piece in showing {
                    match shown.last_mut() {
                        Some(last) if last.plane == piece.plane && last.page + last.pages == piece.page => {
                            last.pages += piece.pages;
                        }
                        _ => shown.push(piece),
                    }
                }
            }
        }
        for Piece { plane, page, pages } in shown {
            let plane = planes.plane(plane as usize);
            let at = (first as usize * WINDOW_BYTES + page * PAGE_BYTES) as u64;
            self.memory
                .lay_copy_on_write(page * PAGE_BYTES, &plane.file, at, pages * PAGE_BYTES)
                .map_err(|failure| Error::system(&plane.path, failure))?;
        }
        for Mixed { index, pieces, .. } in self.fill_own(mixed, first, planes, tracker, workers) {
            let fresh = Mapping::private(WINDOW_BYTES, false)
                .and_then(|fresh| self.memory.replace(index * WINDOW_BYTES, fresh))
                .map_err(|failure| Error::system(&planes.plane(0).path, failure));
            fresh?;
            self.windows[index] = Window { hot: Mask::EMPTY, ..Window::NEW };
            copied.push((index, pieces));
        }
        copied.sort_unstable_by_key(|(index, _)| *index);
        let maps = self.map_planes(first, copied.iter().flat_map(|(_, pieces)| pieces), planes)?;
        self.copy_windows(&copied, &maps, workers);
        Ok(copied.into_iter().map(|(index, _)| index).collect())
    }

    /// Maps the planes in which these pieces lie.
    fn map_planes<'a>(
        &self,
        first: u32,
        pieces: impl Iterator<Item = &'a Piece>,
        planes: &Planes,
    ) -> Result<Vec<Option<Mapping>>> {
        let mut maps: Vec<Option<Mapping>> = (0..planes.count()).map(|_| None).collect();
        for piece in pieces {
            if maps[piece.plane as usize].is_none() {
                let (plane, bytes) = (planes.plane(piece.plane as usize), self.windows.len() * WINDOW_BYTES);
                let map = Mapping::shared(&plane.file, u64::from(first) * WINDOW_BYTES as u64, bytes, false);
                maps[piece.plane as usize] = Some(map.map_err(|failure| Error::system(&plane.path, failure))?);
            }
        }
        Ok(maps)
    }

    /// Gives pages of windows that show a plane memory of their own. Returns the windows where the kernel cannot.
    fn fill_own(
        &self,
        mixed: Vec<Mixed>,
        first: u32,
        planes: &Planes,
        tracker: &Tracker,
        workers: &Workers,
    ) -> Vec<Mixed> {
        let address = |page: usize| self.address() + page * PAGE_BYTES;
        for run in mixed.chunk_by(|one, next| one.index + 1 == next.index) {
            // What is not watched is not filled.
            let _ = tracker.watch(address(run[0].index * WINDOW_PAGES), run.len() * WINDOW_BYTES);
        }
        let failed = Mutex::new(Vec::new());
        workers.share(mixed.len(), mixed.len() / WINDOWS_PER_THREAD, &|number| {
            let Mixed { index, own, pieces } = &mixed[number];
            let is_own = |piece: &&Piece| own.has(piece.page % WINDOW_PAGES);
            // Read as a file and copied from the cache, which spares the page-table entries of the plane.
            let mut buffer = [0; FILL_PAGES * PAGE_BYTES];
            for Piece { plane, page, pages } in pieces.iter().filter(is_own) {
                for start in (0..*pages).step_by(FILL_PAGES) {
                    let buffer = &mut buffer[..(pages - start).min(FILL_PAGES) * PAGE_BYTES];
                    let at = (first as usize * WINDOW_BYTES + (page + start) * PAGE_BYTES) as u64;
                    let read = planes.plane(*plane as usize).file.read_exact_at(buffer, at).is_ok();
                    if !read || tracker.fill(address(page + start), buffer).is_err() {
                        failed.lock().unwrap_or_else(|poison| poison.into_inner()).push(*index);
                        return;
                    }
                }
            }
        });
        let failed = failed.into_inner().unwrap_or_else(|poison| poison.into_inner());
        mixed.into_iter().filter(|mixed| failed.contains(&mixed.index)).collect()
    }

    /// Copies the pieces of windows into memory of their own.
    fn copy_windows(&self, copied: &[(usize, Vec<Piece>)], maps: &[Option<Mapping>], workers: &Workers) {
        workers.share(copied.len(), copied.len() / WINDOWS_PER_THREAD, &|number| {
            let (index, pieces) = &copied[number];
            self.memory.populate_for_writing(index * WINDOW_BYTES, WINDOW_BYTES);
            for Piece { plane, page, pages } in pieces {
                if let Some(map) = &maps[*plane as usize] {
                    let at = page * PAGE_BYTES;
                    self.memory.copy_from(at, map, at, pages * PAGE_BYTES);
                }
            }
        });
    }
}

/// A window that shows a plane but for some pages.
#[derive(Debug)]
struct Mixed {
    index: usize,
    /// The pages that the plane does not have.
    own: Mask,
    /// Where all of its pages lie.
    pieces: Vec<Piece>,
}

/// Pages side by side in one plane, counted from the first page of the working memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    plane: u8,
    page: usize,
    pages: usize,
}

/// Pieces of a recovered window above which it is not shown as it lies: each piece takes one of the process's mappings.
pub(crate) const PIECES_MAX: usize = 8;
/// Pages that get memory of their own in one call.
const FILL_PAGES: usize = 8;
/// Windows to copy for which starting another thread is worth it.
const WINDOWS_PER_THREAD: usize = 4;

/// The pieces in which the pages of a window lie, but for those that are zeros.
fn pieces(index: usize, table: &Subtable) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (page, plane) in table.iter().enumerate().filter(|(_, plane)| **plane != ZERO_PLANE) {
        let page = index * WINDOW_PAGES + page;
        match pieces.last_mut() {
            Some(last) if last.plane == *plane && last.page + last.pages == page => last.pages += 1,
            _ => pieces.push(Piece { plane: *plane, page, pages: 1 }),
        }
    }
    pieces
}

/// The number of pieces in which the pages of a window lie.
pub(crate) fn count_pieces(table: &Subtable) -> usize {
    pieces(0, table).len()
}

/// The pieces of a window if the plane that has most of its pages had all of them, and the pages that it does not have.
fn pieces_below(index: usize, table: &Subtable) -> (Vec<Piece>, Mask) {
    let mut counts = [0; ZERO_PLANE as usize];
    table.iter().filter(|plane| **plane != ZERO_PLANE).for_each(|plane| counts[*plane as usize] += 1);
    let most = (0..ZERO_PLANE).max_by_key(|plane| counts[*plane as usize]).unwrap_or(0);
    let (mut below, mut own) = (*table, Mask::EMPTY);
    for (page, plane) in below.iter_mut().enumerate().filter(|(_, plane)| **plane != ZERO_PLANE && **plane != most) {
        *plane = most;
        own.insert(page);
    }
    (pieces(index, &below), own)
}

/// A private mapping of the plane with most of a window's pages, and the pages it does not show.
struct Overlay {
    mapping: Mapping,
    private: Mask,
    plane: usize,
    window: usize,
}

impl Overlay {
    /// `None`: no plane has any page of the window.
    fn new(window: usize, valid: Mask, keep: Mask, table: &Subtable, planes: &Planes) -> Result<Option<Overlay>> {
        let (keep, rest) = (keep.and(valid), valid.without(keep));
        let mut counts = [0usize; 256];
        for page in rest.pages() {
            counts[table[page] as usize] += 1;
        }
        counts[ZERO_PLANE as usize] = 0;
        let Some((plane, count)) = counts.iter().enumerate().max_by_key(|(_, count)| **count) else { return Ok(None) };
        if *count == 0 || plane >= planes.count() {
            return Ok(None);
        }
        let mut private = keep;
        for page in rest.pages().filter(|page| table[*page] as usize != plane) {
            private.insert(page);
        }
        let file = planes.plane(plane);
        let mapping = Mapping::copy_on_write(&file.file, (window * WINDOW_BYTES) as u64, valid.count() * PAGE_BYTES)
            .map_err(|failure| Error::system(&file.path, failure))?;
        Ok(Some(Overlay { mapping, private, plane, window }))
    }

    /// Gives the private pages content of their own.
    ///
    /// The first write to a page of a private mapping makes the kernel look for the file's page first, and take memory
    /// for it where the file has none: memory nobody counts, and a fatal signal if there is none left. So the slots
    /// below are taken beforehand, which can fail in peace, and given back afterwards.
    fn fill(&self, planes: &Planes, mut write: impl FnMut(&Mapping, usize) -> Result<()>) -> Result<()> {
        let bare = self.private.without(planes.present(self.plane, self.window));
        let result = planes
            .take_bare(self.plane, self.window, bare)
            .and_then(|()| self.private.pages().try_for_each(|page| write(&self.mapping, page)));
        planes.give_back_bare(self.plane, self.window, bare);
        result
    }
}
