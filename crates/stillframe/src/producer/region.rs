//! Regions: the producer's side.
//!
//! # Safety
//!
//! This module makes slices of managed memory, and takes addresses of tracked memory. Its invariants: a slice of managed memory
//! borrows the region, mutably if it can be written, so that no publish reads it and no resize moves it meanwhile; an address
//! taken from a slice is used before that slice's borrow ends; other addresses are vouched for by the caller of an `unsafe fn`.
#![allow(unsafe_code)]

use crate::element::Element;
use crate::error::{Error, Result};
use crate::mask::insert_pages;
use crate::part::Part;
use crate::place::Place;
use crate::place::directory::Directory;
use crate::producer::input::Label;
use crate::producer::options::RegionOptions;
use crate::producer::pending::{self, Finish};
use crate::producer::publication::Publication;
use crate::producer::state::Producer;
use crate::producer::statistics::{Published, Statistics};
use crate::store::ownership;
use crate::store::unit::MemoryUnit;
use crate::variable::{Array, Declaration, Kind, Loaned, Tracked, VariableId};
use crate::working::Working;
use crate::working::loan::{Loan, LoanBytes};
use crate::working::pages::Pages;
use crate::working::tracker::kind::TrackerKind;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stillframe_segment::PAGE_BYTES;

/// Memory of a managed variable that is no more, see [`Region::remove_keeping`].
#[derive(Debug)]
pub struct KeptMemory {
    _memory: Option<Pages>,
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
    pub(crate) producer: Producer,
}

impl RegionOptions {
    /// Creates the region, or recovers what a dead producer left under this name.
    ///
    /// # Errors
    /// [`Error::InUse`] if a producer of this name lives; [`Error::Corrupt`] if what was left cannot be recovered;
    /// [`Error::BadOption`] if an option makes no sense, or a living rank of the group tells another number of ranks;
    /// [`Error::VersionGone`] if the region does not have the version to roll back to.
    pub fn create(self, name: &str) -> Result<Region> {
        self.check()?;
        let mut options = self;
        take_from_environment(&mut options.tracker, "STILLFRAME_TRACKER")?;
        take_from_environment(&mut options.copy_unit, "STILLFRAME_COPY_UNIT")?;
        take_from_environment(&mut options.memory_unit, "STILLFRAME_MEMORY_UNIT")?;
        match std::env::var("STILLFRAME_CHECK").as_deref() {
            Ok("1") => options.check_writes = true,
            Ok("" | "0") | Err(_) => {}
            Ok(other) => {
                let why = format!("$STILLFRAME_CHECK is '{other}', and may be 1 or 0");
                return Err(Error::BadOption { option: "check_writes", why });
            }
        }
        Ok(Region { producer: Producer::open(options, name)? })
    }
}

/// Has an option that was left out be what the environment says, if it says anything.
fn take_from_environment<T: FromStr<Err = Error>>(option: &mut Option<T>, name: &str) -> Result<()> {
    if option.is_none()
        && let Ok(text) = std::env::var(name)
        && !text.is_empty()
    {
        *option = Some(text.parse()?);
    }
    Ok(())
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

    /// The region's name, by which observers find it: of a rank of a group `GROUP/RANK`, in an arena `ARENA/NAME`.
    pub fn name(&self) -> &str {
        &self.producer.name
    }

    /// The version that was recovered from a dead producer, if there was one. Managed and loaned variables declared with
    /// the same name, type, order and shape have its content; others can be read through an [`Observer`](crate::observer::Observer).
    pub fn recovered(&self) -> Option<u64> {
        self.producer.recovered
    }

    /// The tracker in use.
    pub fn tracker(&self) -> TrackerKind {
        self.producer.workspace.tracker.kind()
    }

    /// The newest version.
    pub fn newest(&self) -> Option<u64> {
        self.producer.store.newest_number()
    }

    /// The run that publishes the versions to come; all ranks of a group that live at a time have the same.
    pub fn run(&self) -> NonZeroU64 {
        self.producer.run
    }

    /// Gives the region another [bound](RegionOptions::bound_bytes), from the next publish or loan on. One below what its planes
    /// have takes nothing away: nothing more is taken until it is enough.
    pub fn set_bound_bytes(&mut self, bytes: Option<u64>) {
        self.producer.options.bound_bytes = bytes;
        self.producer.store.set_bound_bytes(bytes);
    }

    /// Has memory for versions taken and given back in another [unit](RegionOptions::memory_unit), from the next publish or loan on.
    pub fn set_memory_unit(&mut self, unit: MemoryUnit) {
        self.producer.options.memory_unit = Some(unit);
        self.producer.store.planes_mut().set_unit(unit);
    }

    /// Number of threads that copy.
    pub fn threads(&self) -> usize {
        self.producer.workspace.copier.threads()
    }

    /// Adds a variable.
    ///
    /// # Errors
    /// Misuse if the name is taken or is none, or the type or shape cannot be; environment if memory cannot be had.
    pub fn declare(&mut self, declaration: Declaration) -> Result<VariableId> {
        self.settle()?;
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
        match self.managed_bytes(VariableId(id)) {
            Ok((address, bytes)) => (address as usize, bytes),
            Err(_) => panic!("region '{}' has no managed variable with this handle", self.name()),
        }
    }

    /// Address and length of a managed variable's memory, for bindings. It stays until the variable is resized or removed
    /// or the region is dropped.
    ///
    /// # Errors
    /// Misuse if there is no such managed variable.
    pub fn managed_bytes(&self, id: VariableId) -> Result<(*mut u8, usize)> {
        let state = self.producer.state(id.0)?;
        match &state.working {
            Working::Managed(managed) => Ok((managed.pages.address() as *mut u8, managed.source.bytes)),
            _ => Err(state.wrong_kind("managed")),
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
        let state = self.producer.state(id.0)?;
        let meta = &state.meta;
        Ok(Declaration {
            name: meta.name.clone(),
            dtype: meta.dtype.clone(),
            order: meta.order,
            units: meta.units.clone(),
            attributes: meta.attributes.clone(),
            kind: state.kind(),
            pinned: state.is_pinned(),
        })
    }

    fn check_process(&self) -> Result<()> {
        self.producer.check_process()
    }

    /// For what changes variables, or which loans are theirs: finishes the publish that was started.
    fn settle(&mut self) -> Result<()> {
        self.check_process()?;
        self.producer.settle(None).map(drop)
    }

    /// Gives a managed variable another shape, keeping its leading bytes, or a loaned one. What a managed one gets beyond its
    /// old bytes is zero, also where it had bytes before that it gave up. Of a loaned one versions show zeros until a loan of
    /// the new shape is submitted.
    ///
    /// # Errors
    /// Misuse if the variable is tracked, the shape cannot be, or its part of a global array does not have it, and
    /// [`Error::IsPinned`] if it is pinned and would have to move; environment if memory cannot be had.
    pub fn resize(&mut self, id: VariableId, shape: &[usize]) -> Result<()> {
        self.settle()?;
        let producer = &mut self.producer;
        let Some(mut state) = producer.workspace.variables.remove(id.0) else {
            return Err(producer.unknown(&format!("number {}", id.0)));
        };
        let result = producer.resize(&mut state, shape);
        producer.workspace.variables.insert(id.0, state);
        result
    }

    /// Says that a variable is another part of its global array from the next version on, as after balancing the load, and
    /// gives it that part's shape as [`resize`](Region::resize) does. Of a tracked variable the shape is given at each
    /// publish, and has to fit from the next one on.
    ///
    /// # Errors
    /// As [`resize`](Region::resize), and misuse if the shape does not fit the part. Nothing is changed then.
    pub fn repart(&mut self, id: VariableId, shape: &[usize], part: &Part) -> Result<()> {
        self.settle()?;
        let state = self.producer.state(id.0)?;
        let (name, old, is_tracked) = (state.meta.name.clone(), state.part.clone(), state.is_tracked());
        part.check(shape).map_err(|why| Error::WrongShape { name, why })?;
        self.producer.state_mut(id.0)?.part = Some(part.clone());
        if !is_tracked && let Err(error) = self.resize(id, shape) {
            self.producer.state_mut(id.0)?.part = old;
            return Err(error);
        }
        part.write(&mut self.producer.state_mut(id.0)?.meta.attributes);
        self.producer.workspace.schema_changed = true;
        Ok(())
    }

    /// Removes a variable; versions that exist keep it.
    ///
    /// # Errors
    /// Misuse if there is no such variable.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.settle()?;
        let producer = &mut self.producer;
        let variables = &mut producer.workspace.variables;
        let id = variables.iter().find(|(_, state)| state.meta.name == name).map(|(id, _)| id);
        let Some(mut state) = id.and_then(|id| variables.remove(id)) else { return Err(producer.unknown(name)) };
        if let Working::Loaned(loaned) = &mut state.working {
            // A loan still being written keeps its frames to itself until the region is recovered or its files removed.
            let mut ended = std::mem::take(&mut loaned.loans);
            ended.retain(|loan| loan.ticket.is_submitted() || loan.ticket.is_discarded());
            producer.free_loans(&ended);
        }
        producer.drop_working(state.working);
        producer.workspace.schema_changed = true;
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
        self.settle()?;
        let producer = &mut self.producer;
        let dir = producer.store.dir().to_path_buf();
        let state = producer.state_mut(id.0)?;
        let Working::Managed(managed) = &mut state.working else { return Err(state.wrong_kind("managed")) };
        managed.pages.own_all().map_err(|failure| Error::system(&dir, failure))?;
        let state = producer.workspace.variables.remove(id.0);
        let state = state.ok_or_else(|| producer.unknown(&format!("number {}", id.0)))?;
        let kept = producer.drop_keeping(state.working);
        producer.workspace.schema_changed = true;
        Ok(KeptMemory { _memory: kept })
    }

    /// Declares bytes of a variable dirty that were written behind the processor's back, as by RDMA or a GPU. For a tracked
    /// variable the range is in the memory of its last publish. A managed one has to be [pinned](Region::pin) before a device
    /// is told of its memory, or else the device writes to pages that the variable may no longer have.
    ///
    /// # Errors
    /// Misuse if there is no such variable or the range is outside it.
    pub fn mark_dirty(&mut self, id: VariableId, range: Range<usize>) -> Result<()> {
        let state = self.producer.state_mut(id.0)?;
        let Some((_, page_offset, bytes)) = state.working.shown_at() else { return Ok(()) };
        if range.start > range.end || range.end > bytes {
            let name = state.meta.name.clone();
            return Err(Error::OutOfRange { name, start: range.start, end: range.end, bytes });
        }
        if let Some(source) = state.working.current_source_mut().filter(|_| !range.is_empty()) {
            let first = (page_offset + range.start) / PAGE_BYTES;
            let last = (page_offset + range.end).div_ceil(PAGE_BYTES);
            insert_pages(&mut source.pending, first, last);
        }
        Ok(())
    }

    /// Pins a managed variable: its memory stays where it is, in the same pages, until [`unpin`](Region::unpin) or its end.
    /// Before a device is told of the memory (`ibv_reg_mr`, `cudaHostRegister`, `MPI_Win_create`, fixed buffers of io_uring),
    /// and before it is advised, locked or bound (`madvise`, `mlock`, `mbind`), for all that goes with a page that is
    /// exchanged. What a device writes has to be told with [`mark_dirty`](Region::mark_dirty).
    ///
    /// It costs what demotion spares: the variable's memory exists in full beside the planes. Parts that showed a plane are
    /// copied by this call and by the next publish. The tracker [`PrivateCow`](TrackerKind::PrivateCow), which exchanges
    /// pages to find what was written, compares a pinned variable instead. [`resize`](Region::resize) works within the
    /// memory that the variable has, which is whole windows of 2 MiB.
    ///
    /// The kernel may still move or swap pages that no device has registered; this is not `mlock`. Memory of a tracked
    /// variable is the application's and never exchanged, so that pinning it says nothing new.
    ///
    /// # Errors
    /// Misuse if there is no such variable, or it is a loaned one, whose memory ends with each loan; environment if memory
    /// cannot be had: the variable is not pinned then.
    pub fn pin(&mut self, id: VariableId) -> Result<()> {
        self.settle()?;
        self.producer.pin(id.0)
    }

    /// Ends what [`pin`](Region::pin) began: from the next publish on its pages may be exchanged again. Devices have to be
    /// told to forget the memory first.
    ///
    /// # Errors
    /// Misuse if there is no such variable.
    pub fn unpin(&mut self, id: VariableId) -> Result<()> {
        self.check_process()?;
        self.producer.unpin(id.0)
    }

    /// Lends free frames for a loaned variable. What they hold is unspecified: write all of it, then submit.
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
        self.settle()?;
        loop {
            if let Some(loan) = self.producer.lend(id.0, None)? {
                return Ok(loan);
            }
        }
    }

    /// As [`loan_bytes`](Region::loan_bytes), but returns `None` when it has waited for `slice` and would wait on: to be called
    /// again, or [`stop_waiting`](Region::stop_waiting). For bindings that have to look for signals meanwhile.
    ///
    /// # Errors
    /// As [`loan`](Region::loan).
    pub fn loan_bytes_within(&mut self, id: VariableId, slice: Duration) -> Result<Option<LoanBytes>> {
        self.check_process()?;
        let begin = Instant::now();
        if !self.producer.settle(Some(slice))? {
            return Ok(None);
        }
        self.producer.lend(id.0, pending::left(Some(slice), begin))
    }

    /// Ends a wait for room that [`commit_within`](Publication::commit_within),
    /// [`loan_bytes_within`](Region::loan_bytes_within) or another call with a slice left open, and that will not go on.
    pub fn stop_waiting(&mut self) {
        if self.check_process().is_ok() {
            self.producer.end_wait();
        }
    }

    /// Begins a publish; nothing happens until [`commit`](Publication::commit).
    pub fn publish(&mut self, version: u64) -> Publication<'_> {
        let label = Label { number: version, ..Label::default() };
        Publication::new(&mut self.producer, label)
    }

    /// Finishes the publish that was [started](Publication::start): waits for the threads, copies what they did not get to, and
    /// makes the version visible. Returns what it did, once, also if it was finished by something else; `None` if there was
    /// none.
    ///
    /// # Errors
    /// As [`commit`](Publication::commit). Nothing was published then, and what was written is part of the next version.
    pub fn publish_finish(&mut self) -> Result<Option<Published>> {
        loop {
            if let Finish::Done(published) = self.producer.finish(None)? {
                return Ok(published);
            }
        }
    }

    /// As [`publish_finish`](Region::publish_finish), but gives up waiting after `slice`, as
    /// [`commit_within`](Publication::commit_within) does: for room, and for who still copies.
    ///
    /// # Errors
    /// As [`publish_finish`](Region::publish_finish).
    pub fn publish_finish_within(&mut self, slice: Duration) -> Result<Finish> {
        self.producer.finish(Some(slice))
    }

    /// Finishes the publish that was started, as all that changes variables does first, but gives up waiting after `slice`.
    /// `true` if none is left to be finished; what it did is for [`publish_finish`](Region::publish_finish) to tell. For bindings
    /// that have to look for signals, before calls that have no slice: they wait no more then.
    ///
    /// # Errors
    /// As [`publish_finish`](Region::publish_finish).
    pub fn publish_settle_within(&mut self, slice: Duration) -> Result<bool> {
        self.check_process()?;
        self.producer.settle(Some(slice))
    }

    /// Whether a publish was started and is not finished.
    pub fn is_publishing(&self) -> bool {
        self.producer.pending.is_some()
    }

    /// Finishes the publish that was started if nothing is left to be copied and there is room, so that there is nothing to wait
    /// for. `true` if none is left to be finished.
    ///
    /// # Errors
    /// As [`publish_finish`](Region::publish_finish).
    pub fn publish_test(&mut self) -> Result<bool> {
        self.check_process()?;
        self.producer.settle_if_ready()
    }

    /// Whether frames and blocks that are noted as in use are those that versions and loans use, for tests.
    ///
    /// # Errors
    /// What is wrong.
    #[cfg(feature = "points")]
    #[doc(hidden)]
    pub fn check_accounts(&self) -> std::result::Result<(), String> {
        let loaned = self.producer.workspace.variables.values().filter_map(|state| match &state.working {
            Working::Loaned(loaned) => Some(loaned),
            _ => None,
        });
        let loans = loaned.flat_map(|loaned| &loaned.loans);
        let pending = self.producer.pending.iter().flat_map(|pending| &pending.frames);
        self.producer.store.check_accounts(loans.flat_map(|loan| &loan.frames).chain(pending))
    }

    /// What the region did.
    pub fn statistics(&self) -> Statistics {
        self.producer.statistics
    }

    /// Ends the producer, keeping the region's files. The same as dropping it, but tells what went wrong.
    ///
    /// # Errors
    /// Those of [`publish_finish`](Region::publish_finish), of a publish that was started and not finished.
    pub fn close(mut self) -> Result<()> {
        self.settle()
    }

    /// Ends the producer as an accident would: observers and other ranks take it for one that died. For who publishes for
    /// somebody else who did.
    pub fn give_up(mut self) {
        if self.check_process().is_ok() {
            self.producer.abandon();
            let _aside = self.producer.end.say(false, false);
        }
    }

    /// Ends the producer and removes the region's files. Observers keep what they hold.
    ///
    /// # Errors
    /// Environment if a file cannot be removed.
    pub fn unlink(mut self) -> Result<()> {
        self.check_process()?;
        self.producer.abandon();
        let Producer { options, store, end, .. } = &self.producer;
        let _aside = end.say(true, true);
        match store.place.clone() {
            // The files are this region's, whatever has its name by now.
            Place::Directory { directory, .. } => match Directory::root(&options.dir, options.looking()?)? {
                Some(root) => ownership::remove(&root, &directory, &store.name),
                None => Ok(()),
            },
            Place::Arena(region) => {
                let (arena, own) = (region.arena().clone(), region.claimed().found());
                // The name goes first, so that nobody begins meanwhile; whoever has it by now keeps his.
                arena.take_name(&own)?;
                drop((self, region));
                // Where frames are on loan still, what the region owns is given back after the last of the loans.
                arena.give_back_unnamed(&own).map(drop)
            }
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.check_process().is_ok() {
            match std::thread::panicking() {
                true => self.producer.abandon(),
                false => self.producer.settle_at_end(),
            }
            // A panic is an accident, though it unwinds.
            let _aside = self.producer.end.say(!std::thread::panicking(), false);
            // Whoever waits for the next version learns at once that none will come. Where frames are on loan, the last of
            // the loans gives the lock back.
            if let Some(leases) = Arc::get_mut(&mut self.producer.store.leases) {
                leases.end_producing();
            }
            self.producer.store.head.notify();
        }
    }
}
