//! A publish being prepared.
//!
//! # Safety
//!
//! This module takes addresses of tracked memory. Its invariant: an address taken from a slice is used before that slice's borrow ends;
//! other addresses are vouched for by the caller of an `unsafe fn`.
#![allow(unsafe_code)]

use crate::element::Element;
use crate::error::{Error, Result};
use crate::producer::input::{Input, Inputs, Label};
use crate::producer::pending::Finish;
use crate::producer::state::Producer;
use crate::producer::statistics::Published;
use crate::section::{Section, Strided};
use crate::variable::{Tracked, VariableId};
use crate::working::dirty::{Subrange, Zeros};
use crate::working::layout::{Layout, Placed};
use std::ops::Range;
use std::time::Duration;
use stillframe_segment::{Order, PAGE_BYTES, Scalar};

/// Why a variable is refused.
const TWICE: &str = "it was given twice for one version";

/// A publish being prepared. It borrows the tracked arrays until it is committed, so that nobody writes them meanwhile.
#[derive(Debug)]
#[must_use = "nothing is published before commit"]
pub struct Publication<'a> {
    pub(crate) producer: &'a mut Producer,
    pub(crate) label: Label,
    pub(crate) inputs: Inputs,
    pub(crate) error: Option<Error>,
    guard: bool,
}

impl<'a> Publication<'a> {
    pub(crate) fn new(producer: &'a mut Producer, label: Label) -> Publication<'a> {
        let inputs = std::mem::take(&mut producer.workspace.inputs);
        Publication { producer, label, inputs, error: None, guard: false }
    }

    /// Where a tracked variable is this time, and its shape. Tracked variables left out keep their last content.
    pub fn tracked<T: Element>(mut self, tracked: &Tracked<T>, elements: &'a [T], shape: &[usize]) -> Self {
        let bytes = std::mem::size_of_val(elements);
        let memory = std::ptr::slice_from_raw_parts(elements.as_ptr().cast(), bytes);
        // SAFETY: the slice is borrowed until the commit, so it is readable and nobody writes it.
        unsafe { self.push(tracked.id, memory, shape, Order::C, None) };
        self
    }

    /// As [`tracked`](Publication::tracked), for memory that Rust does not know.
    ///
    /// # Safety
    /// The memory is readable, and nobody writes it until the commit returns.
    pub unsafe fn tracked_raw(
        mut self,
        id: VariableId,
        address: *const u8,
        bytes: usize,
        shape: &[usize],
        order: Order,
    ) -> Self {
        // SAFETY: as the caller vouches.
        unsafe { self.push(id.0, std::ptr::slice_from_raw_parts(address, bytes), shape, order, None) };
        self
    }

    /// As [`tracked_raw`](Publication::tracked_raw), but publishes only the pages that `range`, in bytes of the variable,
    /// touches. The others keep what the newest version shows of them, and what was written there is part of the first
    /// later publish that includes it.
    ///
    /// Where the newest version shows nothing, as before the first publish, after the variable grew, or when it was
    /// published from another address, the content at `before` is published instead: as many bytes as the variable has.
    /// `None` says that this does not happen, and is misuse if it does.
    ///
    /// # Safety
    /// As [`tracked_raw`](Publication::tracked_raw), for both memories.
    pub unsafe fn tracked_part(
        mut self,
        id: VariableId,
        memory: *const [u8],
        shape: &[usize],
        order: Order,
        range: Range<usize>,
        before: Option<*const u8>,
    ) -> Self {
        // SAFETY: as the caller vouches.
        unsafe { self.push(id.0, memory, shape, order, Some((range, before))) };
        self
    }

    /// The elements of an array that a tracked variable shows this time. They are gathered into the version as they are published:
    /// what lies between them is not copied, and the version has no room for it. Where the variable's elements have fewer bits
    /// than those of the array, they are rounded on the way: `f64` to `f32`, [`f16`](crate::f16) or [`bf16`](crate::bf16), `f32` to
    /// the last two, and `Complex<f64>` to `Complex<f32>`; to the nearest, to the even one of two as near, and to infinity what
    /// is too large.
    ///
    /// A page of the version is copied if something was written to a page of the array from which one of its elements comes.
    /// [`mark_dirty`](crate::Region::mark_dirty) counts bytes as versions show them. Sections are copied before a publish that is
    /// [started](Publication::start) returns.
    pub fn section<S: Element, V: Element>(
        mut self,
        tracked: &Tracked<V>,
        elements: &'a [S],
        section: &Section,
    ) -> Self {
        let bytes = size_of::<S>();
        let distance = |elements: &usize| elements.saturating_mul(bytes) as isize;
        match section.places(elements.len()) {
            Ok(places) => {
                let strides: Vec<isize> = places.strides.iter().map(distance).collect();
                let address = elements.as_ptr().wrapping_add(places.first).cast();
                let memory = Strided {
                    address,
                    shape: &places.shape,
                    strides: &strides,
                    dtype: S::dtype(),
                    order: places.order,
                };
                // SAFETY: the elements lie in the slice, which is borrowed until the commit: it is readable and nobody writes it.
                unsafe { self.push_section(tracked.id, &memory) };
            }
            Err(why) => self.refuse(tracked.id, why),
        }
        self
    }

    /// As [`section`](Publication::section), for memory that Rust does not know, and any distances between its elements. All
    /// memory from the first byte of the section to the last has to be there.
    ///
    /// # Safety
    /// The memory is readable from the first byte of the elements to the last, and nobody writes it until the commit returns.
    pub unsafe fn section_raw(mut self, id: VariableId, memory: &Strided<'_>) -> Self {
        // SAFETY: as the caller vouches.
        unsafe { self.push_section(id.0, memory) };
        self
    }

    /// # Safety
    /// As [`section_raw`](Publication::section_raw).
    unsafe fn push_section(&mut self, id: u32, memory: &Strided<'_>) {
        let Strided { address, shape, strides, dtype, order } = memory;
        let shown = match self.producer.state(id) {
            Ok(state) => &state.meta.dtype,
            Err(error) => {
                self.error = self.error.take().or(Some(error));
                return;
            }
        };
        match Layout::place(*address as usize, dtype, shown, shape, strides, *order) {
            Ok(Placed { layout, address }) if layout.is_plain() => {
                let memory = std::ptr::slice_from_raw_parts(address as *const u8, layout.bytes());
                // SAFETY: as the caller vouches.
                unsafe { self.push(id, memory, shape, *order, None) };
            }
            Ok(placed) if self.inputs.get(id).is_none() => {
                let (address, bytes, shape) = (placed.address, placed.layout.bytes(), (*shape).into());
                let section = Some(Box::new(placed));
                self.inputs.insert(Input {
                    id,
                    address,
                    bytes,
                    shape,
                    order: *order,
                    section,
                    subrange: None,
                    zeros: None,
                });
            }
            Ok(_) => self.refuse(id, TWICE.into()),
            Err(why) => self.refuse(id, why),
        }
    }

    /// Notes what is wrong with a variable, unless something was before.
    fn refuse(&mut self, id: u32, why: String) {
        let name = self.producer.state(id).map(|state| state.meta.name.clone());
        let error = name.map_or_else(|error| error, |name| Error::WrongShape { name, why });
        self.error = self.error.take().or(Some(error));
    }

    /// # Safety
    /// As [`tracked_part`](Publication::tracked_part).
    unsafe fn push(
        &mut self,
        id: u32,
        memory: *const [u8],
        shape: &[usize],
        order: Order,
        subrange: Option<(Range<usize>, Option<*const u8>)>,
    ) {
        let (address, bytes) = (memory.cast::<u8>() as usize, memory.len());
        let check = self.producer.state(id).and_then(|state| {
            let name = || state.meta.name.clone();
            let expected = state.meta.dtype.array_bytes(shape);
            let expected = expected.map_err(|why| Error::WrongShape { name: name(), why: why.to_string() })?;
            if expected != bytes {
                let why =
                    format!("shape {shape:?} of {} is {expected} bytes, and the memory has {bytes}", state.meta.dtype);
                return Err(Error::WrongShape { name: name(), why });
            }
            if self.inputs.get(id).is_some() {
                return Err(Error::WrongShape { name: name(), why: TWICE.into() });
            }
            match &subrange {
                Some((range, _)) if range.start > range.end || range.end > bytes => {
                    Err(Error::OutOfRange { name: name(), start: range.start, end: range.end, bytes })
                }
                _ => Ok(()),
            }
        });
        let subrange = subrange.map(|(range, before)| {
            let page_offset = address % PAGE_BYTES;
            let first = (page_offset + range.start) / PAGE_BYTES;
            let end = if range.is_empty() { first } else { (page_offset + range.end).div_ceil(PAGE_BYTES) };
            Box::new(Subrange { pages: first..end, before: before.map(|before| before as usize) })
        });
        match check {
            Ok(()) => {
                let shape = shape.into();
                self.inputs.insert(Input { id, address, bytes, shape, order, section: None, subrange, zeros: None });
            }
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
    }

    /// Says which bytes of a tracked variable that was given for this version are zeros: in its memory, and in the one
    /// `before` of [`tracked_part`](Publication::tracked_part); in any order. Whole pages of them are published
    /// without being looked at, and take no room. For private mappings of sparse files, of which looking at a hole takes
    /// room of the file's own, and ends the process by `SIGBUS` where there is none. Nothing is touched to find out whether the
    /// memory is there; the caller knows that the files are long enough.
    pub fn zeros(self, id: VariableId, memory: &[Range<usize>], before: &[Range<usize>]) -> Self {
        self.say_zeros(id, memory, before, false)
    }

    /// As [`zeros`](Publication::zeros), of a private mapping that other threads may write meanwhile: the bytes of pages that
    /// were holes of its file, and had no memory of their own, when the caller looked. Those that have some when the written
    /// pages are searched, or get some later, are as any others, so that no write is lost.
    pub fn holes(self, id: VariableId, memory: &[Range<usize>], before: &[Range<usize>]) -> Self {
        self.say_zeros(id, memory, before, true)
    }

    fn say_zeros(mut self, id: VariableId, memory: &[Range<usize>], before: &[Range<usize>], are_holes: bool) -> Self {
        match self.inputs.get_mut(id.0) {
            Some(input) if input.section.is_some() => {
                self.refuse(id.0, "it is a section, of which zeros cannot be told".into());
            }
            Some(input) => {
                let pages = |ranges: &[Range<usize>]| {
                    let pages = ranges.iter().map(|range| whole_pages(range, input.address % PAGE_BYTES, input.bytes));
                    in_order(pages.filter(|pages| !pages.is_empty()).collect())
                };
                input.zeros = Some(Box::new(Zeros { memory: pages(memory), before: pages(before), are_holes }));
            }
            // What was given wrongly is the error to be told.
            None if self.error.is_some() => {}
            None => self.refuse(id.0, "it was not given for this version".into()),
        }
        self
    }

    /// Adds an attribute of the version.
    pub fn attr(mut self, name: &str, value: impl Into<Scalar>) -> Self {
        self.label.attributes.insert(name.into(), value.into());
        self
    }

    /// Says when the version was published, in nanoseconds since 1970: for one that is put back, and that was published
    /// before. Without it, it is the time of the commit.
    pub fn published_ns(mut self, published_ns: u64) -> Self {
        self.label.published_ns = Some(published_ns);
        self
    }

    /// Publishes the version. On an error nothing was published, and what was written is part of the next version.
    ///
    /// # Errors
    /// Misuse if the version does not increase or is the greatest number ([`Error::BadOption`]), if a variable was given wrongly,
    /// or if no reader would accept so much ([`Error::Limit`]); environment if there is no room.
    pub fn commit(mut self) -> Result<Published> {
        loop {
            if let Some(published) = self.publish(None)? {
                return Ok(published);
            }
        }
    }

    /// As [`commit`](Publication::commit), but returns `None` when it has waited for `slice` and would wait on, for room or for
    /// what is left of a publish that was started: to be published again, or
    /// [`stop_waiting`](crate::Region::stop_waiting). For bindings that have to look for signals meanwhile.
    ///
    /// # Errors
    /// As [`commit`](Publication::commit).
    pub fn commit_within(mut self, slice: Duration) -> Result<Option<Published>> {
        self.publish(Some(slice))
    }

    /// For a publish that is [started](Publication::start): the program may write, free and map memory before it is finished. A
    /// child process copies, which has the memory as it was. That costs the time of a fork (about 10 ms for 1 GiB in pages of
    /// 4 KiB) when it is started, a fault at the first write to each page of the process afterwards, and memory for the pages that are
    /// written until it is finished. Arrays that are shared with other processes or lie in a mapping of a file, and those that
    /// forked children do not get or find empty (`MADV_DONTFORK`, `MADV_WIPEONFORK`), are copied when it is started.
    pub fn guard(mut self) -> Self {
        self.guard = true;
        self
    }

    /// Publishes the version while `work` runs: threads copy on processors that are free, and what they did not get to is copied
    /// when `work` is done. It may read the variables, which stay borrowed.
    ///
    /// # Errors
    /// As [`commit`](Publication::commit). Where the version cannot be started, `work` does not run.
    pub fn commit_while<T>(mut self, work: impl FnOnce() -> T) -> Result<(T, Published)> {
        /// Ends the copying even if the work panics, before what is copied may be written.
        struct Started<'a>(&'a mut Producer);
        impl Drop for Started<'_> {
            fn drop(&mut self) {
                self.0.abandon();
            }
        }
        while !self.begin(None)? {}
        let started = Started(self.producer);
        let done = work();
        match started.0.finish(None)? {
            Finish::Done(Some(published)) => Ok((done, published)),
            // The one that was started is finished here and nowhere else.
            _ => Err(Error::NoVersion { region: started.0.name.clone() }),
        }
    }

    /// Starts the publish and returns when the dirty pages are known: threads copy them on processors that are free. It is
    /// finished by [`publish_finish`](crate::Region::publish_finish), by the next publish, or by what changes the variables;
    /// until then observers do not see it.
    ///
    /// # Safety
    /// Until it is finished nobody writes any variable of the region, and the memory of tracked ones stays, unless it is
    /// [guarded](Publication::guard).
    ///
    /// # Errors
    /// As [`commit`](Publication::commit), of what is known by then, and those of a publish before it that was not finished.
    pub unsafe fn start(mut self) -> Result<()> {
        while !self.begin(None)? {}
        Ok(())
    }

    /// Starts the publish [guarded](Publication::guard): all memory may be written and freed from then on.
    ///
    /// # Errors
    /// As [`start`](Publication::start); [`Error::ChildGone`] may come when it is finished.
    pub fn start_guarded(mut self) -> Result<()> {
        self.guard = true;
        while !self.begin(None)? {}
        Ok(())
    }

    /// As [`start`](Publication::start), but returns `false` when it has waited for `slice` and would wait on, as
    /// [`commit_within`](Publication::commit_within) does.
    ///
    /// # Safety
    /// As [`start`](Publication::start).
    ///
    /// # Errors
    /// As [`start`](Publication::start).
    pub unsafe fn start_within(mut self, slice: Duration) -> Result<bool> {
        self.begin(Some(slice))
    }

    fn begin(&mut self, slice: Option<Duration>) -> Result<bool> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.producer.start(&mut self.label, &mut self.inputs, self.guard, slice),
        }
    }

    fn publish(&mut self, slice: Option<Duration>) -> Result<Option<Published>> {
        match self.error.take() {
            Some(error) => Err(error),
            None => {
                let published = self.producer.publish(&self.label, &self.inputs, slice)?;
                if published.is_some() {
                    self.producer.workspace.inputs = std::mem::take(&mut self.inputs).emptied();
                }
                Ok(published)
            }
        }
    }
}

/// The pages that have no bytes but those of the range, of a variable that begins so many bytes behind the begin of a page.
fn whole_pages(range: &Range<usize>, page_offset: usize, bytes: usize) -> Range<usize> {
    let (start, end) = (range.start.min(bytes), range.end.min(bytes));
    let first = if start == 0 { 0 } else { (page_offset + start).div_ceil(PAGE_BYTES) };
    let last = if end == bytes { (page_offset + end).div_ceil(PAGE_BYTES) } else { (page_offset + end) / PAGE_BYTES };
    first..last.max(first)
}

/// The same pages, ascending and apart.
fn in_order(mut runs: Vec<Range<usize>>) -> Vec<Range<usize>> {
    runs.sort_unstable_by_key(|run| run.start);
    runs.dedup_by(|run, last| {
        let is_joined = run.start <= last.end;
        if is_joined {
            last.end = last.end.max(run.end);
        }
        is_joined
    });
    runs
}
