//! The pages of managed working memory: cold ones exist once.
//!
//! A managed variable starts as anonymous memory in large pages. Pages that stay clean need not exist twice, as working
//! memory and in a plane: their window is replaced by a private mapping of the plane that holds them, and the kernel's
//! copy-on-write separates what is written later. Hot pages keep memory of their own on top of that mapping. What was
//! recovered begins so, which is why a restart takes no time to speak of: in as many mappings as it has pieces, where they
//! are few, and else with pages of its own on top where its plane has others.
//!
//! One invariant carries this: *a page without memory of its own shows the newest version's frame*. It holds because a page
//! is found dirty only after a write gave it memory of its own ([`Pages::own_pages`] makes sure), and because the frame
//! of a page that is not dirty stays in use by every later version.
//!
//! It speaks of the variable's pages. Behind them, where it may grow without moving, lies anonymous memory: no plane is ever
//! shown there, what a resize cuts off is given back at once ([`Pages::cut`]), and the versions that follow have no frames
//! for it. So what a variable gets back is zeros, and takes no memory until it is written.

use crate::error::{Error, Result};
use crate::list;
use crate::mask::Mask;
use crate::store::planes::Planes;
use crate::store::version::Subtable;
use crate::working::overlay::Overlay;
use std::ops::Range;
use stillframe_kernel::Failure;
use stillframe_kernel::map::Mapping;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};

/// Publishes over which hot pages are collected before a window is judged.
const EPOCH: u8 = 16;

/// A window with more newly hot pages than this in an epoch is not stable enough to be demoted.
const NEW_PAGES_MAX: usize = 5;

/// A window is demoted when at least so many of its pages would be freed.
const COLD_PAGES_MIN: usize = 64;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Pages that have, or may have, memory of their own.
    pub(crate) private: Mask,
    /// Pages dirty in this epoch.
    pub(crate) hot: Mask,
    /// Pages dirty in the epoch before.
    pub(crate) before: Mask,
    pub(crate) age: u8,
    /// Whether the variable's pages are a private mapping of a plane rather than anonymous memory.
    pub(crate) demoted: bool,
}

/// The pages of a managed variable's memory, whole windows of them.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) memory: Mapping,
    pub(crate) windows: Vec<Window>,
    /// Whether large pages are asked for.
    large: bool,
}

impl Window {
    /// Anonymous memory of which nothing is known.
    pub(crate) const NEW: Window =
        Window { private: Mask::FULL, hot: Mask::FULL, before: Mask::EMPTY, age: 0, demoted: false };
}

impl Pages {
    /// Zeroed memory of whole windows.
    pub(crate) fn new(windows: usize, large: bool) -> Result<Pages, Failure> {
        let memory = Mapping::private(windows.max(1) * WINDOW_BYTES, large)?;
        Ok(Pages { memory, windows: list::filled(Window::NEW, windows.max(1))?, large })
    }

    pub(crate) fn address(&self) -> usize {
        self.memory.address()
    }

    /// Whether a window shows a plane.
    pub(crate) fn is_demoted(&self, window: usize) -> bool {
        self.windows[window].demoted
    }

    /// Number of windows that show a plane.
    pub(crate) fn demoted_windows(&self) -> usize {
        self.windows.iter().filter(|window| window.demoted).count()
    }

    /// Bytes of memory of its own, at most.
    pub(crate) fn private_bytes(&self) -> u64 {
        self.windows.iter().map(|window| (window.private.count() * PAGE_BYTES) as u64).sum()
    }

    /// Those of some pages of a window of which nobody noted that they have memory of their own.
    pub(crate) fn shared(&self, window: usize, pages: Mask) -> Mask {
        pages.without(self.windows[window].private)
    }

    /// Notes that pages of a window have memory of their own.
    pub(crate) fn note_own(&mut self, window: usize, pages: Mask) {
        let state = &mut self.windows[window];
        state.private = state.private.or(pages);
    }

    /// Gives dirty pages memory of their own by writing to those of which nobody noted that they have it.
    pub(crate) fn own_pages(&mut self, window: usize, dirty: Mask) -> Result<(), Failure> {
        let Pages { memory, windows, .. } = self;
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
        let shared = cut.iter().filter(|window| window.demoted).count();
        cut.fill(Window::NEW);
        Ok(shared)
    }

    /// Makes zeros of the pages in a range, which stay the pages that they are.
    pub(crate) fn clear(&self, pages: Range<usize>) {
        for page in pages {
            self.memory.write(page * PAGE_BYTES, &[0; PAGE_BYTES]);
        }
    }

    /// Gives windows that show a plane anonymous memory again, with the same content: the first `bytes` of all, of which there
    /// are none but zeros behind. All of their pages count as written since. On an error those before it have theirs.
    pub(crate) fn promote(&mut self, bytes: usize) -> Result<(), Failure> {
        for index in 0..self.windows.len() {
            if !self.windows[index].demoted {
                continue;
            }
            let (at, own) = (index * WINDOW_BYTES, Mapping::private(WINDOW_BYTES, self.large)?);
            own.copy_from(0, &self.memory, at, bytes.saturating_sub(at).min(WINDOW_BYTES));
            self.memory.replace(at, own)?;
            self.windows[index] = Window::NEW;
        }
        Ok(())
    }

    /// Gives all pages memory of their own, so that the content stays whatever happens to the planes.
    pub(crate) fn own_all(&mut self) -> Result<(), Failure> {
        (0..self.windows.len()).try_for_each(|window| self.own_pages(window, Mask::FULL))
    }

    /// Notes which pages of a window were dirty at a publish; true if the window should be demoted.
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
    pub(crate) fn demote(
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
        let path = planes.plane(0).file.path().to_path_buf();
        self.memory.replace(index * WINDOW_BYTES, mapping).map_err(|failure| Error::system(&path, failure))?;
        let window = &mut self.windows[index];
        let private = private.or(Mask::FULL.without(valid));
        *window = Window { private, hot: Mask::EMPTY, before: window.hot, age: 0, demoted: true };
        Ok(true)
    }
}

/// Each demoted window takes one of the process's mappings, and the application needs most of them for itself.
pub(crate) fn demoted_windows_max() -> usize {
    stillframe_kernel::mappings_max() / 4
}
