//! Regions: the producer's side.
//!
//! # Safety
//!
//! This module makes slices of managed memory, and takes addresses of tracked memory. Its laws: a slice of managed memory
//! borrows the region, mutably if it can be written, so that no publish reads it and no resize moves it meanwhile; an address
//! taken from a slice is used before that slice's borrow ends; other addresses are vouched for by the caller of an `unsafe fn`.
#![allow(unsafe_code)]

use crate::directory::Directory;
use crate::loan::{Loan, LoanBytes};
use crate::mask::Mask;
use crate::place::{Source, Working};
use crate::producer::{Producer, VariableState};
use crate::publish::{Input, Label, Portion};
use crate::{DType, Element, Error, Order, Part, RegionOptions, Result, Scalar, TrackerKind};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use stillframe_segment::table::ZERO_PLANE;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};

/// Named single values of a version or a variable.
pub type Attributes = BTreeMap<String, Scalar>;

/// A variable of a region, whatever its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VariableId(pub(crate) u32);

impl VariableId {
    /// The variable's number, which no other variable of its region has or had.
    pub fn number(self) -> u32 {
        self.0
    }
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<T> {
            id: u32,
            elements: PhantomData<fn() -> T>,
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> $name<T> {
            /// The variable without its type.
            pub fn id(&self) -> VariableId {
                VariableId(self.id)
            }
        }
    };
}
handle!(
    /// A managed variable: memory of the region, reached with [`Region::slice_mut`].
    Array
);
handle!(
    /// A tracked variable: the application's own memory, handed over at each publish.
    Tracked
);
handle!(
    /// A loaned variable: written whole into free slots, see [`Region::loan`].
    Loaned
);

/// Who owns the memory of a variable, and its shape where the region must know it beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Memory of the region.
    Managed {
        /// The shape.
        shape: Vec<usize>,
    },
    /// Memory of the application; address and shape are given at each publish.
    Tracked,
    /// Slots of the planes, lent anew for each version.
    Loaned {
        /// The shape.
        shape: Vec<usize>,
    },
}

impl Kind {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kind::Managed { .. } => "managed",
            Kind::Tracked => "tracked",
            Kind::Loaned { .. } => "loaned",
        }
    }

    pub(crate) fn shape(&self) -> Option<&[usize]> {
        match self {
            Kind::Managed { shape } | Kind::Loaned { shape } => Some(shape),
            Kind::Tracked => None,
        }
    }

    pub(crate) fn is_tracked(&self) -> bool {
        matches!(self, Kind::Tracked)
    }
}

/// A variable to be added, with all that can be said of it.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// Name, unique in the region.
    pub name: String,
    /// Type of the elements.
    pub dtype: DType,
    /// Order of the elements; for tracked variables the one given at each publish counts.
    pub order: Order,
    /// Unit of measurement, empty if there is none.
    pub units: String,
    /// Anything else.
    pub attributes: Attributes,
    /// Who owns the memory.
    pub kind: Kind,
}

impl Declaration {
    /// A row-major variable without units or attributes.
    pub fn new(name: &str, dtype: DType, kind: Kind) -> Declaration {
        let (units, attributes) = (String::new(), Attributes::new());
        Declaration { name: name.into(), dtype, order: Order::C, units, attributes, kind }
    }
}

/// Memory of a managed variable that is no more, see [`Region::remove_keeping`].
#[derive(Debug)]
pub struct KeptMemory {
    _memory: Vec<crate::managed::Managed>,
}

/// Whether a publish made a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The version is there.
    Published,
    /// There was no room, and the rule is to leave the publish out. What was written is part of the next version.
    Skipped,
}

/// What a publish did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// The number of the version.
    pub version: u64,
    /// Whether it was published.
    pub outcome: Outcome,
    /// Pages that were dirty.
    pub dirty_pages: u64,
    /// Pages that were copied.
    pub copied_pages: u64,
    /// Pages of all variables.
    pub total_pages: u64,
    /// Time it took.
    pub duration: Duration,
}

/// What a region did since this producer opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Versions published.
    pub published: u64,
    /// Publishes left out by the rule.
    pub skipped: u64,
    /// Pages found dirty, over all publishes.
    pub dirty_pages: u64,
    /// Pages copied, over all publishes.
    pub copied_pages: u64,
    /// Pages of all variables at the last publish.
    pub total_pages: u64,
    /// Bytes of memory behind the planes.
    pub plane_bytes: u64,
    /// Bytes of memory of managed variables that exist beside the planes, at most.
    pub working_bytes: u64,
    /// Time spent in publish.
    pub publish_time: Duration,
}

/// A region and its producer: the variables of one program, published together.
///
/// The region's files stay when it is dropped, so that observers keep what they hold and the next producer of the name
/// recovers the last version; [`unlink`](Region::unlink) removes them. The producer lives until its last loan ends, too.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("stillframe-doc-{}", std::process::id()));
/// let mut region = stillframe::Region::options().dir(&dir).create("heat")?;
/// let u = region.array::<f64>("u", &[4, 4])?;
/// region.slice_mut(&u).fill(1.5);
/// region.publish(1).attr("time", 0.1).commit()?;
///
/// let observer = stillframe::Observer::options().dir(&dir).open("heat")?;
/// assert_eq!(observer.newest()?.slice::<f64>("u")?, [1.5; 16]);
/// # region.unlink()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), stillframe::Error>(())
/// ```
#[derive(Debug)]
pub struct Region {
    producer: Producer,
}

impl Region {
    /// Options for creating a region.
    pub fn options() -> RegionOptions {
        RegionOptions::default()
    }

    /// Creates a region, or recovers what a dead producer left, with default options.
    ///
    /// # Errors
    /// As [`RegionOptions::create`].
    pub fn create(name: &str) -> Result<Region> {
        Region::options().create(name)
    }

    pub(crate) fn open(options: RegionOptions, name: &str) -> Result<Region> {
        Ok(Region { producer: Producer::open(options, name)? })
    }

    /// The region's name.
    pub fn name(&self) -> &str {
        &self.producer.name
    }

    /// The version that was recovered from a dead producer, if there was one. Managed and loaned variables declared with
    /// the same name, type, order and shape have its content; others can be read through an [`Observer`](crate::Observer).
    pub fn recovered(&self) -> Option<u64> {
        self.producer.recovered
    }

    /// The tracker in use.
    pub fn tracker(&self) -> TrackerKind {
        self.producer.tracker.kind()
    }

    /// The newest version.
    pub fn newest(&self) -> Option<u64> {
        self.producer.newest_number()
    }

    /// Number of threads that copy.
    pub fn threads(&self) -> usize {
        self.producer.copier.threads()
    }

    /// Adds a variable.
    ///
    /// # Errors
    /// Misuse if the name is taken or is none, or the type or shape cannot be; environment if memory cannot be had.
    pub fn declare(&mut self, declaration: Declaration) -> Result<VariableId> {
        self.check_process()?;
        self.producer.declare(declaration).map(VariableId)
    }

    /// Adds a managed variable, zeroed or as recovered.
    ///
    /// # Errors
    /// As [`declare`](Region::declare).
    pub fn array<T: Element>(&mut self, name: &str, shape: &[usize]) -> Result<Array<T>> {
        let id = self.declare(Declaration::new(name, T::dtype(), Kind::Managed { shape: shape.to_vec() }))?.0;
        Ok(Array { id, elements: PhantomData })
    }

    /// Adds a tracked variable; its memory is handed over at each publish.
    ///
    /// # Errors
    /// As [`declare`](Region::declare).
    pub fn track<T: Element>(&mut self, name: &str) -> Result<Tracked<T>> {
        let id = self.declare(Declaration::new(name, T::dtype(), Kind::Tracked))?.0;
        Ok(Tracked { id, elements: PhantomData })
    }

    /// Adds a loaned variable.
    ///
    /// # Errors
    /// As [`declare`](Region::declare).
    pub fn loaned<T: Element>(&mut self, name: &str, shape: &[usize]) -> Result<Loaned<T>> {
        let id = self.declare(Declaration::new(name, T::dtype(), Kind::Loaned { shape: shape.to_vec() }))?.0;
        Ok(Loaned { id, elements: PhantomData })
    }

    /// The content of a managed variable.
    ///
    /// # Panics
    /// If the handle is of another region, or its variable was removed.
    pub fn slice<T: Element>(&self, array: &Array<T>) -> &[T] {
        let (address, bytes) = self.managed(array.id);
        // SAFETY: the memory belongs to the region, is aligned to a page, and stays while `self` is borrowed; nobody
        // writes it but through `&mut self`.
        let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, bytes) };
        bytemuck::cast_slice(bytes)
    }

    /// The content of a managed variable, to be written. Borrows the region, so that nothing is published meanwhile.
    ///
    /// # Panics
    /// As [`slice`](Region::slice).
    pub fn slice_mut<T: Element>(&mut self, array: &Array<T>) -> &mut [T] {
        let [slice] = self.slices_mut([array]);
        slice
    }

    /// The contents of several managed variables, to be written together.
    ///
    /// # Panics
    /// As [`slice`](Region::slice), or if a variable occurs twice.
    pub fn slices_mut<T: Element, const N: usize>(&mut self, arrays: [&Array<T>; N]) -> [&mut [T]; N] {
        for (index, array) in arrays.iter().enumerate() {
            assert!(arrays[..index].iter().all(|other| other.id != array.id), "a variable cannot be borrowed twice");
        }
        arrays.map(|array| {
            let (address, bytes) = self.managed(array.id);
            // SAFETY: as for `slice`; the variables differ, so their memory does, and `self` is borrowed exclusively.
            let bytes = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) };
            bytemuck::cast_slice_mut(bytes)
        })
    }

    fn managed(&self, id: u32) -> (usize, usize) {
        let source = self.producer.variables.get(&id).and_then(|state| state.sources.get(state.current?));
        match source {
            Some(source) if matches!(source.working, Working::Managed(_)) => (source.memory.address, source.bytes),
            _ => panic!("region '{}' has no managed variable with this handle", self.name()),
        }
    }

    /// Address and length of a managed variable's memory, for bindings. It stays until the variable is resized or removed
    /// or the region is dropped.
    ///
    /// # Errors
    /// Misuse if there is no such managed variable.
    pub fn managed_bytes(&self, id: VariableId) -> Result<(*mut u8, usize)> {
        let state = self.state(id.0)?;
        let source = state.current.and_then(|index| state.sources.get(index));
        match source {
            Some(source) if matches!(source.working, Working::Managed(_)) => {
                Ok((source.memory.address as *mut u8, source.bytes))
            }
            _ => Err(wrong_kind(state, "managed")),
        }
    }

    /// The content of a managed variable, whatever its type, to be written.
    ///
    /// # Errors
    /// As [`managed_bytes`](Region::managed_bytes).
    pub fn bytes_mut(&mut self, id: VariableId) -> Result<&mut [u8]> {
        let (address, bytes) = self.managed_bytes(id)?;
        // SAFETY: as for `slices_mut`, of a single variable.
        Ok(unsafe { std::slice::from_raw_parts_mut(address, bytes) })
    }

    /// A variable as it is declared: with the shape and the part it has by now.
    ///
    /// # Errors
    /// Misuse if there is no such variable.
    pub fn declared(&self, id: VariableId) -> Result<Declaration> {
        let VariableState { meta, kind, shape, .. } = self.state(id.0)?;
        let kind = match kind {
            Kind::Managed { .. } => Kind::Managed { shape: shape.clone() },
            Kind::Loaned { .. } => Kind::Loaned { shape: shape.clone() },
            Kind::Tracked => Kind::Tracked,
        };
        Ok(Declaration {
            name: meta.name.clone(),
            dtype: meta.dtype.clone(),
            order: meta.order,
            units: meta.units.clone(),
            attributes: meta.attributes.clone(),
            kind,
        })
    }

    fn state(&self, id: u32) -> Result<&VariableState> {
        self.producer.variables.get(&id).ok_or_else(|| self.producer.unknown(&format!("number {id}")))
    }

    fn check_process(&self) -> Result<()> {
        self.producer.leases.file().map(drop)
    }

    /// Gives a managed variable another shape, keeping its leading bytes, or a loaned one. What a managed one gets beyond its
    /// old bytes is zero, also where it had bytes before that it gave up. Of a loaned one versions show zeros until a loan of
    /// the new shape is submitted.
    ///
    /// # Errors
    /// Misuse if the variable is tracked, the shape cannot be, or its part of a global array does not have it; environment
    /// if memory cannot be had.
    pub fn resize(&mut self, id: VariableId, shape: &[usize]) -> Result<()> {
        self.check_process()?;
        let producer = &mut self.producer;
        let Some(mut state) = producer.variables.remove(&id.0) else {
            return Err(producer.unknown(&format!("number {}", id.0)));
        };
        let fits = state.part.as_ref().map_or(Ok(()), |part| part.check(shape));
        let fits = fits.map_err(|why| Error::WrongShape { name: state.meta.name.clone(), why });
        let result = fits.and_then(|()| producer.resize(&mut state, shape));
        producer.variables.insert(id.0, state);
        result
    }

    /// Says that a variable is another part of its global array from the next version on, as after balancing the load, and
    /// gives it that part's shape as [`resize`](Region::resize) does. Of a tracked variable the shape is given at each
    /// publish, and has to fit from the next one on.
    ///
    /// # Errors
    /// As [`resize`](Region::resize), and misuse if the shape does not fit the part. Nothing is changed then.
    pub fn repart(&mut self, id: VariableId, shape: &[usize], part: &Part) -> Result<()> {
        self.check_process()?;
        let state = self.state(id.0)?;
        let (name, old, is_tracked) = (state.meta.name.clone(), state.part.clone(), state.kind.is_tracked());
        part.check(shape).map_err(|why| Error::WrongShape { name, why })?;
        self.producer.variable(id.0)?.part = Some(part.clone());
        if !is_tracked && let Err(error) = self.resize(id, shape) {
            self.producer.variable(id.0)?.part = old;
            return Err(error);
        }
        part.write(&mut self.producer.variable(id.0)?.meta.attributes);
        self.producer.schema_changed = true;
        Ok(())
    }

    /// Removes a variable; versions that exist keep it.
    ///
    /// # Errors
    /// Misuse if there is no such variable.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.check_process()?;
        let producer = &mut self.producer;
        let id = producer.variables.iter().find(|(_, state)| state.meta.name == name).map(|(id, _)| *id);
        let Some(state) = id.and_then(|id| producer.variables.remove(&id)) else {
            return Err(producer.unknown(name));
        };
        for loan in &state.loans {
            // A loan still being written keeps its slots to itself until the region is recovered or its files removed.
            if loan.ticket.is_submitted() || loan.ticket.is_discarded() {
                producer.free_loan(loan);
            }
        }
        for source in state.sources {
            producer.drop_source(source);
        }
        producer.schema_changed = true;
        Ok(())
    }

    /// Removes a managed variable as [`remove`](Region::remove) does, but leaves its memory: pointers from
    /// [`managed_bytes`](Region::managed_bytes) stay valid, and what they point to is the caller's alone, for as long as the
    /// returned value lives. For bindings, whose users may keep pointers beyond the region. Pages that show the planes, as
    /// those of a recovered variable do, are copied.
    ///
    /// # Errors
    /// Misuse if there is no such managed variable; environment if there is no memory for the copies, and then the variable
    /// stays.
    pub fn remove_keeping(&mut self, id: VariableId) -> Result<KeptMemory> {
        self.check_process()?;
        self.managed_bytes(id)?;
        let producer = &mut self.producer;
        let dir = producer.dir.clone();
        for source in &mut producer.variable(id.0)?.sources {
            if let Working::Managed(managed) = &mut source.working {
                managed.own_all().map_err(|failure| Error::system(&dir, failure))?;
            }
        }
        let state = producer.variables.remove(&id.0).ok_or_else(|| producer.unknown(&format!("number {}", id.0)))?;
        let mut kept = Vec::new();
        for mut source in state.sources {
            if let Working::Managed(managed) = std::mem::replace(&mut source.working, Working::Tracked) {
                producer.shared_windows = producer.shared_windows.saturating_sub(managed.shared_windows());
                kept.push(managed);
            }
            producer.drop_source(source);
        }
        producer.schema_changed = true;
        Ok(KeptMemory { _memory: kept })
    }

    /// Declares bytes of a variable dirty that were written behind the processor's back, as by RDMA or a GPU. For a tracked
    /// variable the range is in the memory of its last publish.
    ///
    /// # Errors
    /// Misuse if there is no such variable or the range is outside it.
    pub fn mark_dirty(&mut self, id: VariableId, range: Range<usize>) -> Result<()> {
        let unknown = self.producer.unknown(&format!("number {}", id.0));
        let state = self.producer.variables.get_mut(&id.0).ok_or(unknown)?;
        let name = state.meta.name.clone();
        let Some(source) = state.current.and_then(|index| state.sources.get_mut(index)) else { return Ok(()) };
        if range.start > range.end || range.end > source.bytes {
            return Err(Error::OutOfRange { name, start: range.start, end: range.end, bytes: source.bytes });
        }
        if !range.is_empty() {
            let first = (source.page_offset + range.start) / PAGE_BYTES;
            let last = (source.page_offset + range.end).div_ceil(PAGE_BYTES);
            crate::mask::insert_pages(&mut source.pending, first, last);
        }
        Ok(())
    }

    /// Lends free slots for a loaned variable. What they hold is unspecified: write all of it, then submit.
    ///
    /// A loan may be written after the region was dropped, and then reaches nobody. Until it is submitted or dropped, too,
    /// nobody else can take the region over: its name is in use.
    ///
    /// # Errors
    /// Environment if there is no room, by the region's rule: what is lent cannot be left out, so that where a publish would
    /// be, this is an error.
    pub fn loan<T: Element>(&mut self, loaned: &Loaned<T>) -> Result<Loan<T>> {
        self.loan_bytes(VariableId(loaned.id)).map(Loan::new)
    }

    /// As [`loan`](Region::loan), without a type.
    ///
    /// # Errors
    /// As [`loan`](Region::loan).
    pub fn loan_bytes(&mut self, id: VariableId) -> Result<LoanBytes> {
        self.check_process()?;
        loop {
            if let Some(loan) = self.producer.lend(id.0, None)? {
                return Ok(loan);
            }
        }
    }

    /// As [`loan_bytes`](Region::loan_bytes), but returns `None` when it has waited for `slice` and the rule would wait on: to
    /// be called again, or [`stop_waiting`](Region::stop_waiting). For bindings that have to look for signals meanwhile.
    ///
    /// # Errors
    /// As [`loan`](Region::loan).
    pub fn loan_bytes_within(&mut self, id: VariableId, slice: Duration) -> Result<Option<LoanBytes>> {
        self.check_process()?;
        self.producer.lend(id.0, Some(slice))
    }

    /// Ends a wait that [`commit_within`](Publication::commit_within) or [`loan_bytes_within`](Region::loan_bytes_within) left
    /// open, and that will not go on.
    pub fn stop_waiting(&mut self) {
        if self.check_process().is_ok() {
            self.producer.end_wait();
        }
    }

    /// Begins a publish; nothing happens until [`commit`](Publication::commit).
    pub fn publish(&mut self, version: u64) -> Publication<'_> {
        let label = Label { number: version, ..Label::default() };
        Publication { region: self, label, inputs: Vec::new(), error: None }
    }

    /// What the region did.
    pub fn statistics(&self) -> Statistics {
        self.producer.statistics
    }

    /// Ends the producer, keeping the region's files. The same as dropping it.
    ///
    /// # Errors
    /// None today; kept for those to come.
    pub fn close(self) -> Result<()> {
        Ok(())
    }

    /// Ends the producer and removes the region's files. Observers keep what they hold.
    ///
    /// # Errors
    /// Environment if a file cannot be removed.
    pub fn unlink(self) -> Result<()> {
        self.check_process()?;
        let Producer { options, directory, name, end, .. } = &self.producer;
        let _aside = end.say(true, true);
        // The files are this region's, whatever has its name by now.
        match Directory::root(&options.dir, options.looking()?)? {
            Some(root) => crate::directory::remove(&root, directory, name),
            None => Ok(()),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.check_process().is_ok() {
            // A panic is an accident, though it unwinds.
            let _aside = self.producer.end.say(!std::thread::panicking(), false);
            // Whoever waits for the next version learns at once that none will come. Where slots are on loan, the last of
            // the loans gives the lock back.
            if let Some(leases) = Arc::get_mut(&mut self.producer.leases) {
                leases.end_producing();
            }
            self.producer.head.ring();
        }
    }
}

fn wrong_kind(state: &VariableState, expected: &'static str) -> Error {
    Error::WrongKind { name: state.meta.name.clone(), expected, found: state.kind.name() }
}

impl Producer {
    pub(crate) fn unknown(&self, name: &str) -> Error {
        Error::UnknownVariable { region: self.name.clone(), name: name.into(), known: self.names() }
    }

    pub(crate) fn variable(&mut self, id: u32) -> Result<&mut VariableState> {
        if !self.variables.contains_key(&id) {
            return Err(self.unknown(&format!("number {id}")));
        }
        match self.variables.get_mut(&id) {
            Some(state) => Ok(state),
            None => unreachable!("the key was just found"),
        }
    }

    fn resize(&mut self, state: &mut VariableState, shape: &[usize]) -> Result<()> {
        if state.kind.is_tracked() {
            return Err(wrong_kind(state, "managed and loaned"));
        }
        let bytes = state.meta.dtype.array_bytes(shape);
        let bytes = bytes.map_err(|why| Error::WrongShape { name: state.meta.name.clone(), why: why.to_string() })?;
        let fits = state.current.and_then(|index| state.sources.get(index)).is_some_and(|source| {
            bytes.div_ceil(WINDOW_BYTES).max(1) <= source.place.windows as usize
                && matches!(source.working, Working::Managed(_))
        });
        if fits && let Some(source) = state.current.and_then(|index| state.sources.get_mut(index)) {
            self.resize_in_place(source, bytes)?;
            state.shape = shape.to_vec();
            return Ok(());
        }
        let old: Vec<Source> = std::mem::take(&mut state.sources);
        let current = state.current.take();
        if let Err(error) = self.furnish(state, bytes) {
            state.sources = old;
            state.current = current;
            return Err(error);
        }
        state.shape = shape.to_vec();
        for source in old {
            if let (Working::Managed(from), Some(Working::Managed(to))) =
                (&source.working, state.sources.last().map(|source| &source.working))
            {
                to.memory.copy_from(0, &from.memory, 0, source.bytes.min(bytes));
            }
            self.drop_source(source);
        }
        Ok(())
    }

    /// Makes managed memory shorter, or longer by as much as its place has. What is cut off becomes zeros now rather than when
    /// it comes back: the containers of C++ write behind the end first and grow over it afterwards.
    fn resize_in_place(&mut self, source: &mut Source, bytes: usize) -> Result<()> {
        let Working::Managed(managed) = &mut source.working else { return Ok(()) };
        let (old_bytes, old_pages, pages) = (source.bytes, source.memory.pages, bytes.div_ceil(PAGE_BYTES));
        let fail = |failure| Error::system(&self.dir, failure);
        let end = bytes.min(old_bytes);
        if end % PAGE_BYTES > 0 && (bytes < old_bytes || bytes > old_bytes && !source.zero_end) {
            let (page, mut last) = (end / PAGE_BYTES, Mask::EMPTY);
            last.insert(page % WINDOW_PAGES);
            managed.own_pages(page / WINDOW_PAGES, last).map_err(fail)?;
            managed.memory.write(end, &[0; PAGE_BYTES][end % PAGE_BYTES..]);
            source.pending[page / WINDOW_PAGES].insert(page % WINDOW_PAGES);
        }
        source.zero_end |= bytes != old_bytes;
        if pages < old_pages {
            let cut = managed.cut(pages).map_err(fail)?;
            self.shared_windows = self.shared_windows.saturating_sub(cut);
            source.forget(pages);
        }
        source.set_memory(source.memory.address, bytes);
        // Pages that the newest version still has from before they were cut off, if nothing was published since.
        for window in old_pages / WINDOW_PAGES..source.windows() {
            let shown = self.subtable(source.place.window as usize + window);
            let new = source.valid(window).without(Mask::first(old_pages.saturating_sub(window * WINDOW_PAGES)));
            new.pages().filter(|page| shown[*page] != ZERO_PLANE).for_each(|page| source.pending[window].insert(page));
        }
        Ok(())
    }
}

/// A publish being prepared. It borrows the tracked arrays until it is committed, so that nobody writes them meanwhile.
#[derive(Debug)]
#[must_use = "nothing is published before commit"]
pub struct Publication<'a> {
    region: &'a mut Region,
    label: Label,
    inputs: Vec<Input>,
    error: Option<Error>,
}

impl<'a> Publication<'a> {
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

    /// # Safety
    /// As [`tracked_part`](Publication::tracked_part).
    unsafe fn push(
        &mut self,
        id: u32,
        memory: *const [u8],
        shape: &[usize],
        order: Order,
        portion: Option<(Range<usize>, Option<*const u8>)>,
    ) {
        let (address, bytes) = (memory.cast::<u8>() as usize, memory.len());
        let check = self.region.state(id).and_then(|state| {
            let name = || state.meta.name.clone();
            let expected = state.meta.dtype.array_bytes(shape);
            let expected = expected.map_err(|why| Error::WrongShape { name: name(), why: why.to_string() })?;
            if expected != bytes {
                let why =
                    format!("shape {shape:?} of {} is {expected} bytes, and the memory has {bytes}", state.meta.dtype);
                return Err(Error::WrongShape { name: name(), why });
            }
            if self.inputs.iter().any(|input| input.id == id) {
                return Err(Error::WrongShape { name: name(), why: "it was given twice for one version".into() });
            }
            match &portion {
                Some((range, _)) if range.start > range.end || range.end > bytes => {
                    Err(Error::OutOfRange { name: name(), start: range.start, end: range.end, bytes })
                }
                _ => Ok(()),
            }
        });
        let portion = portion.map(|(range, before)| {
            let page_offset = address % PAGE_BYTES;
            let first = (page_offset + range.start) / PAGE_BYTES;
            let end = if range.is_empty() { first } else { (page_offset + range.end).div_ceil(PAGE_BYTES) };
            Portion { pages: first..end, before: before.map(|before| before as usize) }
        });
        match check {
            Ok(()) => self.inputs.push(Input { id, address, bytes, shape: shape.to_vec(), order, portion }),
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
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
    /// Misuse if the version does not increase or a variable was given wrongly, or if no reader would accept so much
    /// ([`Error::Limit`]); environment if there is no room.
    pub fn commit(mut self) -> Result<Published> {
        loop {
            if let Some(published) = self.publish(None)? {
                return Ok(published);
            }
        }
    }

    /// As [`commit`](Publication::commit), but returns `None` when it has waited for room for `slice` and the rule would wait
    /// on: to be published again, or [`stop_waiting`](Region::stop_waiting). For bindings that have to look for signals
    /// meanwhile.
    ///
    /// # Errors
    /// As [`commit`](Publication::commit).
    pub fn commit_within(mut self, slice: Duration) -> Result<Option<Published>> {
        self.publish(Some(slice))
    }

    fn publish(&mut self, slice: Option<Duration>) -> Result<Option<Published>> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.region.producer.publish(&self.label, &self.inputs, slice),
        }
    }
}
