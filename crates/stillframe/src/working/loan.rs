//! Loans: free frames the application writes into directly.
//!
//! # Safety
//!
//! This module makes mutable slices of shared memory. Its invariant: frames on loan belong to one loan. They are marked as used
//! when they are lent, so no version shows them and no other loan has them, until the loan was submitted or dropped, after
//! which no slice of it exists. The next producer of the region knows of no loans; a loan has the producer's lock, so that
//! there is none before it ends, even if its region does. A forked child finds in the place of a loan pages of its own.
#![allow(unsafe_code)]

use crate::element::Element;
use crate::error::{Error, Result};
use crate::store::lease::RegionLeases;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use stillframe_kernel::map::Mapping;

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

/// Frames on loan, as bytes. What they hold at first is unspecified: write all of them.
///
/// Dropping it without [`submit`](LoanBytes::submit) gives the frames back unpublished.
#[derive(Debug)]
pub struct LoanBytes {
    map: Arc<LoanMap>,
    bytes: usize,
    ticket: Ticket,
    /// Has the producer's lock.
    _leases: Arc<RegionLeases>,
    /// What [`end`](LoanBytes::end) leaves at the loan's addresses.
    after: Option<After>,
}

/// Memory in the place of frames that are lent no more.
#[derive(Debug)]
pub(crate) enum After {
    /// The same frames, private.
    Frames(Mapping),
    /// Memory for a copy.
    Copy(Mapping),
}

/// The addresses of a loan that is over, see [`LoanBytes::end`].
#[derive(Debug)]
pub struct EndedLoan {
    _map: Arc<LoanMap>,
}

/// The windows of a loaned variable in one plane, lent again and again so that its page-table entries are made once.
#[derive(Debug)]
pub(crate) struct LoanMap {
    pub(crate) plane: usize,
    /// Where the windows lay in the plane's file when it was made.
    pub(crate) windows_at: Vec<u64>,
    pub(crate) map: Mapping,
    /// Whether the addresses no longer show the plane.
    replaced: AtomicBool,
}

impl LoanMap {
    pub(crate) fn new(plane: usize, windows_at: Vec<u64>, map: Mapping) -> LoanMap {
        LoanMap { plane, windows_at, map, replaced: AtomicBool::new(false) }
    }

    /// Whether the addresses no longer show the plane.
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }
}

impl LoanBytes {
    /// Frames shown by a map that is lent; `after` shows them privately, and `leases` have the producer's lock.
    pub(crate) fn new(
        map: Arc<LoanMap>,
        bytes: usize,
        ticket: Ticket,
        leases: Arc<RegionLeases>,
        after: After,
    ) -> Self {
        LoanBytes { map, bytes, ticket, _leases: leases, after: Some(after) }
    }

    /// Ends the loan like [`submit`](LoanBytes::submit), or if not `submit` like dropping it, but keeps its addresses
    /// valid for as long as the returned value lives: what is written there from now on reaches nobody, and what is read
    /// there is what was written until the frames are used again. For bindings, whose users may keep pointers.
    ///
    /// # Errors
    /// Environment if the process has no mappings left; the loan is then given up: its addresses stay for ever, and the
    /// region's name stays in use until the process ends.
    pub fn end(mut self, submit: bool) -> Result<EndedLoan> {
        let map = self.map.clone();
        map.replaced.store(true, Ordering::Release);
        let after = self.after.take().map(|after| match after {
            After::Frames(frames) => frames,
            After::Copy(copy) => {
                copy.copy_from(0, &map.map, 0, self.bytes);
                copy
            }
        });
        if let Some(after) = after
            && let Err(failure) = map.map.replace(0, after)
        {
            // Somebody may still write there, so nobody else may ever get these frames or addresses, nor the region.
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
        // SAFETY: the frames belong to this loan alone until it ends: no version shows them and no other loan has them.
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

/// Frames on loan, as elements. Dereferences to a slice; what it holds at first is unspecified.
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
