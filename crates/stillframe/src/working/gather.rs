//! Sections: memory whose elements are gathered where they are published.
//!
//! What is watched and what is published are different bytes here. The tracker finds written pages of the *span*, the memory
//! from the first byte of the section to the last, gaps included. From those follow the pages of the version that are dirty:
//! those that have something of a written page. What lies in gaps alone, such as whole rows of ghosts, is in none of them.
//!
//! # Safety
//!
//! This module reads memory the application owns. Its invariant: a section's span can be read, and nobody writes it while publish
//! runs. For slices the borrow checker sees to that; whoever hands over raw addresses vouches for it. Reading is through
//! `drepl`, which makes no reference to it.
#![allow(unsafe_code)]

use crate::mask::{Mask, insert_pages};
use crate::working::layout::{Layout, Placed};
use crate::working::sticky::Sticky;
use crate::working::tracker::Tracker;
use crate::working::tracker::memory::{Collected, Memory, Watch};
use std::mem::MaybeUninit;
use std::ops::Range;
use stillframe_kernel::copy::{Copier, PageCopy};
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

/// Where a section has fewer than one element of 8 bytes in each page, to look at the elements costs no more than to look
/// which of the pages were written. So the pages of a span are watched if there are no more than so many for a page that is
/// published, which bounds what is kept of them, too.
const SPAN_PAGES_MAX: usize = PAGE_BYTES / 8;

/// Pages that are gathered in the cache before they are written past it.
const GROUP_PAGES: usize = 8;

/// Bytes of numbers that are gathered before they are rounded.
const WIDE_BYTES: usize = 8 << 10;

/// Where a section lies, and what is known of its pages.
#[derive(Debug)]
pub(crate) struct Gather {
    placed: Placed,
    /// The span.
    memory: Memory,
    watch: Watch,
    sticky: Sticky,
    /// Pages of the span that are dirty although no tracker will say so again.
    pending: Vec<Mask>,
    collected: Collected,
}

/// Memory for pages that were gathered.
#[repr(C, align(4096))]
struct Group([MaybeUninit<u8>; GROUP_PAGES * PAGE_BYTES]);

/// Memory for numbers that are to be rounded.
#[repr(C, align(64))]
struct Wide([MaybeUninit<u8>; WIDE_BYTES]);

impl Gather {
    pub(crate) fn new(placed: Placed) -> Gather {
        let (address, bytes) = (placed.address, placed.layout.span_bytes());
        let base = address / PAGE_BYTES * PAGE_BYTES;
        let end = address - base + bytes;
        let whole = usize::from(address != base)..end / PAGE_BYTES;
        let whole = whole.start..whole.end.max(whole.start);
        let memory = Memory { address: base, pages: end.div_ceil(PAGE_BYTES), whole, owned: false, pinned: false };
        let mut gather = Gather {
            placed,
            memory,
            watch: Watch::New,
            sticky: Sticky::default(),
            pending: Vec::new(),
            collected: Collected::default(),
        };
        if gather.is_watched() {
            let windows = gather.memory.pages.div_ceil(WINDOW_PAGES);
            gather.sticky.reset(windows);
            gather.pending.resize(windows, Mask::EMPTY);
        }
        gather
    }

    pub(crate) fn is_of(&self, placed: &Placed) -> bool {
        self.placed == *placed
    }

    fn layout(&self) -> &Layout {
        &self.placed.layout
    }

    /// Whether its pages are watched at all.
    fn is_watched(&self) -> bool {
        self.memory.pages / SPAN_PAGES_MAX <= self.layout().bytes().div_ceil(PAGE_BYTES)
    }

    /// Whether it was looked at before.
    pub(crate) fn is_known(&self) -> bool {
        self.watch != Watch::New
    }

    /// Addresses of the pages that a tracker watches.
    pub(crate) fn watched(&self) -> (usize, usize) {
        if !self.is_watched() {
            return (self.memory.address, self.memory.address);
        }
        let Memory { address, whole, .. } = &self.memory;
        (address + whole.start * PAGE_BYTES, address + whole.end * PAGE_BYTES)
    }

    pub(crate) fn unwatch(&self, tracker: &mut Tracker) {
        tracker.unwatch(&self.memory, self.watch);
    }

    /// Addresses of the pages that the last search found dirty.
    pub(crate) fn dirty_addresses(&self) -> impl Iterator<Item = usize> {
        let masks = self.collected.dirty.iter().enumerate();
        let pages = masks.flat_map(|(window, mask)| mask.pages().map(move |page| window * WINDOW_PAGES + page));
        pages.map(|page| self.memory.address + page * PAGE_BYTES)
    }

    /// Notes a page of the span that another search found.
    pub(crate) fn note(&mut self, address: usize) {
        let page = (address - self.memory.address) / PAGE_BYTES;
        if let Some(pending) = self.pending.get_mut(page / WINDOW_PAGES) {
            pending.insert(page % WINDOW_PAGES);
        }
    }

    /// Finds what was written since the last search, or may have been: pages of what is published, of which there are so many.
    pub(crate) fn search(&mut self, tracker: &mut Tracker, pages: usize, out: &mut Collected) {
        let windows = pages.div_ceil(WINDOW_PAGES);
        for masks in [&mut out.dirty, &mut out.unsure] {
            masks.clear();
            masks.resize(windows, Mask::EMPTY);
        }
        out.armed.clear();
        out.armed.resize(windows, false);
        if !self.is_watched() {
            insert_pages(&mut out.unsure, 0, pages);
            return;
        }
        tracker.collect(&self.memory, &mut self.watch, &self.sticky, &mut self.collected);
        for (window, pending) in self.pending.iter_mut().enumerate() {
            let Collected { dirty, armed, .. } = &self.collected;
            *pending = pending.or(dirty[window]);
            self.sticky.learn(window, *pending, armed[window]);
        }
        self.show(&self.pending, &mut out.dirty);
        self.show(&self.collected.unsure, &mut out.unsure);
        self.pending.fill(Mask::EMPTY);
    }

    /// Adds the pages of what is published that have something of these pages of the span.
    fn show(&self, span: &[Mask], shown: &mut [Mask]) {
        let mut run: Option<Range<usize>> = None;
        for (window, mask) in span.iter().enumerate() {
            for (start, end) in mask.runs() {
                let (start, end) = (window * WINDOW_PAGES + start, window * WINDOW_PAGES + end);
                match &mut run {
                    Some(run) if run.end == start => run.end = end,
                    _ => {
                        if let Some(run) = run.replace(start..end) {
                            self.show_run(run, shown);
                        }
                    }
                }
            }
        }
        if let Some(run) = run {
            self.show_run(run, shown);
        }
    }

    fn show_run(&self, pages: Range<usize>, shown: &mut [Mask]) {
        let offset = self.placed.address - self.memory.address;
        let byte = |page: usize| (page * PAGE_BYTES).saturating_sub(offset).min(self.layout().span_bytes());
        self.layout().shown_pages(byte(pages.start)..byte(pages.end), |pages| {
            insert_pages(shown, pages.start, pages.end);
        });
    }

    /// Gathers a page of what is published, and passes on what it has.
    ///
    /// # Safety
    /// As this module's: the span can be read, and nobody writes it.
    pub(crate) unsafe fn with_page<T>(&self, page: usize, work: impl FnOnce(&[u8]) -> T) -> T {
        let mut group = Group([const { MaybeUninit::uninit() }; GROUP_PAGES * PAGE_BYTES]);
        let bytes = page * PAGE_BYTES..((page + 1) * PAGE_BYTES).min(self.layout().bytes());
        let length = bytes.len();
        // SAFETY: as the caller vouches; the memory has room for a page, all bytes of which are written before they are read.
        unsafe {
            self.read(bytes, group.0.as_mut_ptr().cast());
            work(std::slice::from_raw_parts(group.0.as_ptr().cast(), length))
        }
    }

    /// Gathers pages of what is published, and writes them past the cache to `to`.
    ///
    /// # Safety
    /// As this module's, and there are as many pages at `to` that nobody else reads or writes.
    pub(crate) unsafe fn copy(&self, pages: Range<usize>, to: usize, copier: &Copier) {
        let mut group = Group([const { MaybeUninit::uninit() }; GROUP_PAGES * PAGE_BYTES]);
        let memory: *mut u8 = group.0.as_mut_ptr().cast();
        for first in pages.clone().step_by(GROUP_PAGES) {
            let count = GROUP_PAGES.min(pages.end - first);
            let bytes = first * PAGE_BYTES..((first + count) * PAGE_BYTES).min(self.layout().bytes());
            let length = bytes.len();
            let copies: [PageCopy; GROUP_PAGES] = std::array::from_fn(|index| PageCopy {
                from: memory as usize + index * PAGE_BYTES,
                to: to + (first - pages.start + index) * PAGE_BYTES,
            });
            // SAFETY: as the caller vouches; what is gathered is no more than the memory, which begins with a page; what is behind
            // the last element is zeros, so that all bytes of the pages were written.
            unsafe {
                self.read(bytes, memory);
                memory.add(length).write_bytes(0, count * PAGE_BYTES - length);
                copier.copy_here(&copies[..count]);
            }
        }
    }

    /// Gathers bytes of what is published.
    ///
    /// # Safety
    /// As this module's, and `to` has room for as many bytes as there are.
    unsafe fn read(&self, bytes: Range<usize>, to: *mut u8) {
        let Placed { layout, address } = &self.placed;
        let source = *address as *const u8;
        let Some(narrow) = layout.narrow() else {
            // SAFETY: as the caller vouches.
            return unsafe { layout.transfer().run_window(source, bytes.start as u64..bytes.end as u64, to) };
        };
        let (ratio, step) = (layout.ratio(), WIDE_BYTES / layout.ratio());
        let mut wide = Wide([const { MaybeUninit::uninit() }; WIDE_BYTES]);
        let memory: *mut u8 = wide.0.as_mut_ptr().cast();
        for start in bytes.clone().step_by(step) {
            let end = bytes.end.min(start + step);
            let window = (start * ratio) as u64..(end * ratio) as u64;
            // SAFETY: as the caller vouches; the window has no more bytes than the memory, and all of them are written before they
            // are read. What they are rounded to has room behind what was written before.
            unsafe {
                layout.transfer().run_window(source, window, memory);
                let from = std::slice::from_raw_parts(memory, (end - start) * ratio);
                let to = std::slice::from_raw_parts_mut(to.add(start - bytes.start), end - start);
                narrow.round(from, to);
            }
        }
    }
}
