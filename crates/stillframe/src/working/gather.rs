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

use crate::list;
use crate::mask::{Mask, insert_pages};
use crate::working::layout::{Layout, Placed};
use crate::working::narrow::Narrow;
use crate::working::narrow::rounding::Rounding;
use crate::working::sticky::Sticky;
use crate::working::tracker::Tracker;
use crate::working::tracker::memory::{Collected, Memory, Watch};
use std::mem::MaybeUninit;
use std::ops::Range;
use stillframe_kernel::Failure;
use stillframe_kernel::copy::{Copier, PartedPages, prefetch_at};
use stillframe_kernel::maps::{Maps, Sharing};
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

/// Where a section has fewer than one element of 8 bytes in each page, to look at the elements costs no more than to look
/// which of the pages were written. So the pages of a span are watched if there are no more than so many for a page that is
/// published, which bounds what is kept of them, too.
const SPAN_PAGES_MAX: usize = PAGE_BYTES / 8;

/// Pages that are gathered in the cache before they are written past it.
const GROUP_PAGES: usize = 8;

/// Most parts of a page, in memory, that are written past the cache from where they lie. Where there are more of them, a page is
/// gathered before.
const PARTS_MAX: usize = 16;

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

/// Bytes of rounded numbers that are written to a page before it is the next one's turn.
const ROUNDED_BYTES: usize = 256;

/// Pages that are written at once.
#[derive(Default)]
struct Batch {
    pages: PartedPages,
    /// Those of them that are gathered before.
    apart: [usize; GROUP_PAGES],
    apart_count: usize,
}

impl Batch {
    fn apart(&self) -> &[usize] {
        &self.apart[..self.apart_count]
    }
}

/// Memory for pages that were gathered.
#[repr(C, align(4096))]
struct Group([MaybeUninit<u8>; GROUP_PAGES * PAGE_BYTES]);

/// Memory for numbers that are to be rounded.
#[repr(C, align(64))]
struct Wide([MaybeUninit<u8>; WIDE_BYTES]);

/// Whether pages of a span are watched at all.
fn is_watched(span: &Memory, layout: &Layout) -> bool {
    span.pages / SPAN_PAGES_MAX <= layout.bytes().div_ceil(PAGE_BYTES)
}

impl Gather {
    pub(crate) fn new(placed: Placed) -> Result<Gather, Failure> {
        let (address, bytes) = (placed.address, placed.layout.span_bytes());
        let memory = Memory::of_application(address, bytes);
        let windows = if is_watched(&memory, &placed.layout) { memory.pages.div_ceil(WINDOW_PAGES) } else { 0 };
        Ok(Gather {
            placed,
            memory,
            watch: Watch::New,
            sticky: Sticky::new(windows)?,
            pending: list::filled(Mask::EMPTY, windows)?,
            collected: Collected::for_windows(windows)?,
        })
    }

    pub(crate) fn is_of(&self, placed: &Placed) -> bool {
        self.placed == *placed
    }

    fn layout(&self) -> &Layout {
        &self.placed.layout
    }

    /// Whether its pages are watched at all.
    fn is_watched(&self) -> bool {
        is_watched(&self.memory, self.layout())
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

    /// How many pages of the span are written together.
    pub(crate) fn unit_pages(&self) -> usize {
        self.memory.unit_pages
    }

    /// Whether others may change the span.
    pub(crate) fn sharing(&self) -> Sharing {
        self.memory.sharing
    }

    pub(crate) fn sharing_mut(&mut self) -> &mut Sharing {
        &mut self.memory.sharing
    }

    /// Windows of the span that are watched.
    pub(crate) fn windows(&self) -> usize {
        self.pending.len()
    }

    /// Where the span begins, and what the last search found of it.
    pub(crate) fn found(&self) -> (usize, &Collected) {
        (self.memory.address, &self.collected)
    }

    /// Notes a page of the span that another search found.
    pub(crate) fn note(&mut self, address: usize) {
        let page = (address - self.memory.address) / PAGE_BYTES;
        if let Some(pending) = self.pending.get_mut(page / WINDOW_PAGES) {
            pending.insert(page % WINDOW_PAGES);
        }
    }

    /// Finds what was written since the last search, or may have been: pages of what is published, of which there are so many.
    pub(crate) fn search(&mut self, tracker: &mut Tracker, maps: &Maps, pages: usize, out: &mut Collected) {
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
        tracker.collect(&mut self.memory, maps, &mut self.watch, &self.sticky, &mut self.collected);
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
            self.read(&Rounding::begin(), bytes, group.0.as_mut_ptr().cast());
            work(std::slice::from_raw_parts(group.0.as_ptr().cast(), length))
        }
    }

    /// Gathers pages of what is published, and writes them past the cache to `to`.
    ///
    /// # Safety
    /// As this module's, and there are as many pages at `to` that nobody else reads or writes.
    pub(crate) unsafe fn copy(&self, mut pages: Range<usize>, mut to: usize, copier: &Copier) {
        let mut group = Group([const { MaybeUninit::uninit() }; GROUP_PAGES * PAGE_BYTES]);
        let (memory, rounding): (*mut u8, _) = (group.0.as_mut_ptr().cast(), Rounding::begin());
        let mut batches = [Batch::default(), Batch::default()];
        let [batch, next] = &mut batches;
        let (mut batch, mut next) = (batch, next);
        self.fill(batch, &pages, to, memory);
        while batch.pages.count() > 0 {
            // SAFETY: as the caller vouches; there is room for as many pages as lie apart.
            unsafe { self.gather_batch(&rounding, batch, memory) };
            pages.start += batch.pages.count();
            to += batch.pages.count() * PAGE_BYTES;
            // Asked for while these are written.
            self.fill(next, &pages, to, memory);
            // SAFETY: parts are pages that were gathered, or lie in the span; the targets are as the caller vouches.
            unsafe { copier.copy_parts(&batch.pages, &next.pages) };
            std::mem::swap(&mut batch, &mut next);
        }
    }

    /// Chooses the next pages that are written at once. The memory is asked for those of them that are to be gathered.
    fn fill(&self, batch: &mut Batch, pages: &Range<usize>, to: usize, memory: *mut u8) {
        batch.pages.clear();
        batch.apart_count = 0;
        for (index, page) in pages.clone().enumerate() {
            let to = to + index * PAGE_BYTES;
            if self.is_parted(page) && batch.pages.push(to, PARTS_MAX, |at| self.part_at(page * PAGE_BYTES + at)) {
                continue;
            }
            let room = memory as usize + batch.apart_count * PAGE_BYTES;
            let has_room = batch.apart_count < GROUP_PAGES;
            if !has_room || !batch.pages.push(to, 1, |at| Some((room + at, PAGE_BYTES - at))) {
                break;
            }
            batch.apart[batch.apart_count] = page;
            batch.apart_count += 1;
        }
        if self.layout().narrow().is_none() {
            let source = self.placed.address as *const u8;
            for run in batch.apart().chunk_by(|one, next| one + 1 == *next) {
                let bytes = self.bytes_of(&(run[0]..run[0] + run.len()));
                self.layout().transfer().fetch_window(source, bytes.start as u64..bytes.end as u64);
            }
        }
    }

    /// Gathers the pages of a batch that lie apart.
    ///
    /// # Safety
    /// As this module's, and there is room for as many pages at `memory`.
    unsafe fn gather_batch(&self, rounding: &Rounding, batch: &Batch, memory: *mut u8) {
        let mut room = memory;
        // SAFETY: as the caller vouches; each run has the room behind the one before.
        unsafe {
            if let Some(narrow) = self.layout().narrow() {
                return self.round_pages(rounding, narrow, batch.apart(), memory);
            }
            for run in batch.apart().chunk_by(|one, next| one + 1 == *next) {
                self.gather(rounding, run[0]..run[0] + run.len(), room);
                room = room.add(run.len() * PAGE_BYTES);
            }
        }
    }

    /// Gathers pages of numbers that are rounded. Of those whose numbers lie together in memory some of each are rounded in turns:
    /// memory is fastest where it is read in several places at a time.
    ///
    /// # Safety
    /// As [`gather_batch`](Gather::gather_batch).
    unsafe fn round_pages(&self, rounding: &Rounding, narrow: Narrow, pages: &[usize], memory: *mut u8) {
        let (ratio, mut lanes, mut count) = (narrow.ratio(), [(0usize, memory); GROUP_PAGES], 0);
        for (index, page) in pages.iter().enumerate() {
            let to = memory.wrapping_add(index * PAGE_BYTES);
            let window = (page * PAGE_BYTES * ratio) as u64..((page + 1) * PAGE_BYTES * ratio) as u64;
            match self.layout().transfer().run_of(window) {
                Some(from) => {
                    lanes[count] = (self.placed.address + from as usize, to);
                    prefetch_at(lanes[count].0, ROUNDED_BYTES * ratio);
                    count += 1;
                }
                // SAFETY: as the caller vouches.
                None => unsafe { self.gather(rounding, *page..page + 1, to) },
            }
        }
        for at in (0..PAGE_BYTES).step_by(ROUNDED_BYTES) {
            for (from, to) in &lanes[..count] {
                let next = at + ROUNDED_BYTES;
                if next < PAGE_BYTES {
                    prefetch_at(from + next * ratio, ROUNDED_BYTES * ratio);
                }
                // SAFETY: the numbers lie in the span, and the room is that of a page.
                unsafe { narrow.round(rounding, (from + at * ratio) as *const u8, to.add(at), ROUNDED_BYTES) };
            }
        }
    }

    /// Bytes of pages of what is published.
    fn bytes_of(&self, pages: &Range<usize>) -> Range<usize> {
        let byte = |page: usize| (page * PAGE_BYTES).min(self.layout().bytes());
        byte(pages.start)..byte(pages.end)
    }

    /// Whether a page is written from where its elements lie: they are shown as they are, and in few parts.
    fn is_parted(&self, page: usize) -> bool {
        let layout = self.layout();
        let is_long = || layout.transfer().moves().iter().any(|each| each.run_bytes >= (PAGE_BYTES / PARTS_MAX) as u64);
        layout.narrow().is_none() && (page + 1) * PAGE_BYTES <= layout.bytes() && is_long()
    }

    /// The address of a byte of what is published, and how many from it on lie together.
    fn part_at(&self, byte: usize) -> Option<(usize, usize)> {
        let (from, bytes) = self.layout().transfer().run_at(byte as u64)?;
        Some((self.placed.address + from as usize, bytes as usize))
    }

    /// Gathers pages of what is published. Behind the last element there are zeros.
    ///
    /// # Safety
    /// As this module's, and there is room for as many pages at `to`.
    unsafe fn gather(&self, rounding: &Rounding, pages: Range<usize>, to: *mut u8) {
        let bytes = self.bytes_of(&pages);
        let length = bytes.len();
        // SAFETY: as the caller vouches; the rest of the last page is inside the room, too.
        unsafe {
            self.read(rounding, bytes, to);
            to.add(length).write_bytes(0, pages.len() * PAGE_BYTES - length);
        }
    }

    /// Gathers bytes of what is published.
    ///
    /// # Safety
    /// As this module's, and `to` has room for as many bytes as there are.
    unsafe fn read(&self, rounding: &Rounding, bytes: Range<usize>, to: *mut u8) {
        let Placed { layout, address } = &self.placed;
        let (transfer, source) = (layout.transfer(), *address as *const u8);
        let Some(narrow) = layout.narrow() else {
            // SAFETY: as the caller vouches.
            return unsafe { transfer.run_window(source, bytes.start as u64..bytes.end as u64, to) };
        };
        let (ratio, step) = (layout.ratio(), WIDE_BYTES / layout.ratio());
        let mut wide = Wide([const { MaybeUninit::uninit() }; WIDE_BYTES]);
        let memory: *mut u8 = wide.0.as_mut_ptr().cast();
        for start in bytes.clone().step_by(step) {
            let end = bytes.end.min(start + step);
            let window = (start * ratio) as u64..(end * ratio) as u64;
            transfer.fetch_window(source, window.end..window.end + WIDE_BYTES as u64);
            let from = match transfer.run_of(window.clone()) {
                Some(from) => source.wrapping_add(from as usize),
                None => {
                    // SAFETY: as the caller vouches; the window has no more bytes than the memory.
                    unsafe { transfer.run_window(source, window, memory) };
                    memory.cast_const()
                }
            };
            // SAFETY: the numbers lie together in the span, or were gathered; there is room behind what was written before.
            unsafe { narrow.round(rounding, from, to.add(start - bytes.start), end - start) };
        }
    }
}
