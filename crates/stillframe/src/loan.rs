//! Loans: free slots the application writes into directly.
//!
//! # Safety
//!
//! This module makes mutable slices of shared memory. Its one law: slots on loan belong to one loan. They are marked as used
//! when they are lent, so no version shows them and no other loan has them, until the loan was submitted or dropped, after
//! which no slice of it exists. The next producer of the region knows of no loans; a loan has the producer's lock, so that
//! there is none before it ends, even if its region does. A forked child finds in the place of a loan pages of its own.
#![allow(unsafe_code)]

use crate::files::LeaseFile;
use crate::mask::Mask;
use crate::planes::Assignment;
use crate::room::Room;
use crate::{Element, Error, Result};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;
use stillframe_kernel::map::Mapping;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES};

const WRITING: u8 = 0;
const SUBMITTED: u8 = 1;
const DISCARDED: u8 = 2;

/// Whether a loan is being written, was submitted, or was given back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ticket(Arc<AtomicU8>);

impl Ticket {
    fn set(&self, state: u8) {
        self.0.store(state, Ordering::Release);
    }

    pub(crate) fn is_submitted(&self) -> bool {
        self.0.load(Ordering::Acquire) == SUBMITTED
    }

    pub(crate) fn is_discarded(&self) -> bool {
        self.0.load(Ordering::Acquire) == DISCARDED
    }
}

/// The producer's side of a loan.
#[derive(Debug)]
pub(crate) struct OpenLoan {
    pub(crate) ticket: Ticket,
    pub(crate) assignments: Vec<Assignment>,
    /// Serial number of the place it lies in, which is no longer the variable's after a resize.
    pub(crate) place: u64,
}

/// Slots on loan, as bytes. What they hold at first is unspecified: write all of them.
///
/// Dropping it without [`submit`](LoanBytes::submit) gives the slots back unpublished.
#[derive(Debug)]
pub struct LoanBytes {
    map: Arc<LoanMap>,
    bytes: usize,
    ticket: Ticket,
    /// Has the producer's lock.
    _leases: Arc<LeaseFile>,
    /// The same slots, private: what [`end`](LoanBytes::end) leaves at the loan's addresses.
    after: Option<Mapping>,
}

/// The addresses of a loan that is over, see [`LoanBytes::end`].
#[derive(Debug)]
pub struct EndedLoan {
    _map: Arc<LoanMap>,
}

/// A place in one plane, lent again and again so that its page-table entries are made once.
#[derive(Debug)]
pub(crate) struct LoanMap {
    plane: usize,
    map: Mapping,
    /// Whether the addresses no longer show the plane.
    replaced: AtomicBool,
}

impl LoanBytes {
    /// Ends the loan like [`submit`](LoanBytes::submit), or if not `submit` like dropping it, but keeps its addresses
    /// valid for as long as the returned value lives: what is written there from now on reaches nobody, and what is read
    /// there is what was written until the slots are used again. For bindings, whose users may keep pointers.
    ///
    /// # Errors
    /// Environment if the process has no mappings left; the loan is then given up: its addresses stay for ever, and the
    /// region's name stays in use until the process ends.
    pub fn end(mut self, submit: bool) -> Result<EndedLoan> {
        let map = self.map.clone();
        map.replaced.store(true, Ordering::Release);
        if let Some(after) = self.after.take()
            && let Err(failure) = map.map.replace(0, after)
        {
            // Somebody may still write there, so nobody else may ever get these slots or addresses, nor the region.
            std::mem::forget(self);
            return Err(Error::NoMappings { failure });
        }
        if submit {
            self.submit();
        }
        Ok(EndedLoan { _map: map })
    }

    /// Address of the first byte, on a page boundary.
    pub fn ptr(&self) -> *mut u8 {
        self.map.map.address() as *mut u8
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Hands the content to the next publish. Nothing is copied; the memory must not be written any more.
    pub fn submit(self) {
        self.ticket.set(SUBMITTED);
    }
}

impl Deref for LoanBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the slots belong to this loan alone until it ends: no version shows them and no other loan has them.
        unsafe { self.map.map.bytes_at(0, self.bytes) }
    }
}

impl DerefMut for LoanBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed exclusively.
        unsafe { self.map.map.bytes_at_mut(0, self.bytes) }
    }
}

impl Drop for LoanBytes {
    fn drop(&mut self) {
        // After `submit` this finds the ticket submitted and leaves it so.
        let _ = self.ticket.0.compare_exchange(WRITING, DISCARDED, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Slots on loan, as elements. Dereferences to a slice; what it holds at first is unspecified.
#[derive(Debug)]
pub struct Loan<T> {
    bytes: LoanBytes,
    elements: PhantomData<T>,
}

impl<T: Element> Loan<T> {
    pub(crate) fn new(bytes: LoanBytes) -> Loan<T> {
        Loan { bytes, elements: PhantomData }
    }

    /// Hands the content to the next publish. Nothing is copied.
    pub fn submit(self) {
        self.bytes.submit();
    }
}

impl<T: Element> Deref for Loan<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.bytes)
    }
}

impl<T: Element> DerefMut for Loan<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.bytes)
    }
}

impl crate::producer::Producer {
    /// Lends free slots for a whole loaned variable.
    /// `None`: there is no room yet, and `slice` is over, see [`with_room`](crate::producer::Producer::with_room).
    pub(crate) fn lend(&mut self, id: u32, slice: Option<Duration>) -> Result<Option<LoanBytes>> {
        let region = self.name.clone();
        let state = self.variable(id)?;
        if !matches!(state.kind, crate::Kind::Loaned { .. }) {
            let name = state.meta.name.clone();
            return Err(Error::WrongKind { name, expected: "loaned", found: state.kind.name() });
        }
        self.end_loans(id);
        let state =
            self.variables.get(&id).ok_or(Error::UnknownVariable { region, name: String::new(), known: Vec::new() })?;
        let Some(source) = state.current.and_then(|index| state.sources.get(index)) else {
            return Err(Error::NoVersion { region: self.name.clone() });
        };
        let place = source.place.serial;
        let (window, windows, bytes) = (source.place.window, source.place.windows, source.bytes);
        let pages: Vec<_> = (0..source.windows()).map(|window| source.valid(window)).collect();
        let present_bytes = self.planes.present_bytes();
        let room = self.with_room(slice, &mut |producer, plan| {
            let plane = producer.planes.assign_whole(window as usize, &pages, plan)?;
            producer.allocate(plan)?;
            Ok((plane, std::mem::take(plan)))
        })?;
        let (plane, assignments) = match room {
            Room::Made(made) => made,
            // What is lent cannot be left out.
            Room::Refused(error) => return Err(error),
            Room::Later => return Ok(None),
        };
        let ticket = Ticket::default();
        let is_recycled = self.planes.present_bytes() == present_bytes;
        let maps = self.loan_map(id, window, windows, plane, &pages, is_recycled).and_then(|map| {
            let plane = self.planes.plane(plane);
            let at = window as u64 * WINDOW_BYTES as u64;
            let after = Mapping::copy_on_write(&plane.file, at, map.map.bytes());
            after.map(|after| (map, after)).map_err(|failure| Error::system(&plane.path, failure))
        });
        let (map, after) = match maps {
            Ok(maps) => maps,
            Err(error) => {
                self.free_loan(&OpenLoan { ticket, assignments, place });
                return Err(error);
            }
        };
        if let Some(state) = self.variables.get_mut(&id) {
            state.loans.push(OpenLoan { ticket: ticket.clone(), assignments, place });
        }
        Ok(Some(LoanBytes { map, bytes, ticket, _leases: self.leases.clone(), after: Some(after) }))
    }

    /// A map of a variable's place in a plane: one that an earlier loan had and no longer uses, or a new one, whose page-table
    /// entries the copy threads make. Slots that are recycled were written before.
    fn loan_map(
        &mut self,
        id: u32,
        window: u32,
        windows: u32,
        plane: usize,
        pages: &[Mask],
        is_recycled: bool,
    ) -> Result<Arc<LoanMap>> {
        let large_pages = self.options.large_pages;
        let known = &mut self.variable(id)?.loan_maps;
        known.retain(|known| !known.replaced.load(Ordering::Acquire));
        if let Some(free) = known.iter().find(|known| known.plane == plane && Arc::strong_count(known) == 1) {
            return Ok(free.clone());
        }
        let workers = self.copier.workers();
        let file = self.planes.plane(plane);
        let (at, bytes) = (window as u64 * WINDOW_BYTES as u64, windows as usize * WINDOW_BYTES);
        let mut map = Mapping::shared_unforked(file.file.clone(), at, bytes)
            .map_err(|failure| Error::system(&file.path, failure))?;
        map.unmap_by(workers);
        let count: usize = pages.iter().map(|mask| mask.count()).sum();
        // Only windows that the variable fills, for a large page takes memory for all slots of its window.
        let whole = pages.iter().take_while(|mask| **mask == Mask::FULL).count() * WINDOW_BYTES;
        let gathered = if large_pages && whole > 0 && map.gather_large_pages(0, whole) { whole } else { 0 };
        let rest = count * PAGE_BYTES - gathered;
        match is_recycled {
            true => map.populate_by(gathered, rest, workers),
            false => map.populate_for_writing_by(gathered, rest, workers),
        }
        let map = Arc::new(LoanMap { plane, map, replaced: AtomicBool::new(false) });
        self.variable(id)?.loan_maps.push(map.clone());
        Ok(map)
    }

    /// Frees the slots of loans that were given back.
    pub(crate) fn end_loans(&mut self, id: u32) {
        let Some(state) = self.variables.get_mut(&id) else { return };
        let (ended, open) =
            std::mem::take(&mut state.loans).into_iter().partition(|loan: &OpenLoan| loan.ticket.is_discarded());
        state.loans = open;
        let ended: Vec<OpenLoan> = ended;
        for loan in ended {
            self.free_loan(&loan);
        }
    }

    pub(crate) fn free_loan(&mut self, loan: &OpenLoan) {
        for assignment in &loan.assignments {
            self.planes.unmark(assignment.plane, assignment.window, assignment.pages);
        }
    }
}
