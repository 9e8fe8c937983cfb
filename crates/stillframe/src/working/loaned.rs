//! Loaned variables: frames of the planes, lent anew for each version.

use crate::error::{Error, Result};
use crate::store::planes::{Assignment, Planes};
use crate::store::space::Allocation;
use crate::working::loan::{After, LoanMap, Ticket};
use std::sync::Arc;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::workers::Workers;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};

/// The windows of a loaned variable, and its loans.
#[derive(Debug)]
pub(crate) struct Loaned {
    pub(crate) allocation: Allocation,
    pub(crate) bytes: usize,
    pub(crate) loans: Vec<OpenLoan>,
    /// Maps that were lent, to be lent again, so that their page-table entries are made once.
    maps: Vec<Arc<LoanMap>>,
}

/// The producer's side of a loan.
#[derive(Debug)]
pub(crate) struct OpenLoan {
    pub(crate) ticket: Ticket,
    pub(crate) frames: Vec<Assignment>,
    /// Serial number of the allocation it lies in, which is no longer the variable's after a resize.
    pub(crate) serial: u64,
}

impl Loaned {
    pub(crate) fn new(allocation: Allocation, bytes: usize) -> Loaned {
        Loaned { allocation, bytes, loans: Vec::new(), maps: Vec::new() }
    }

    /// Lies in other windows from here on. Loans of the old ones go on, and are of no use.
    pub(crate) fn move_to(&mut self, allocation: Allocation, bytes: usize) {
        (self.allocation, self.bytes) = (allocation, bytes);
        self.maps.clear();
    }

    pub(crate) fn pages(&self) -> usize {
        self.bytes.div_ceil(PAGE_BYTES)
    }

    /// Takes out the loans that were given back unpublished.
    pub(crate) fn take_discarded(&mut self) -> Vec<OpenLoan> {
        let (ended, open) = std::mem::take(&mut self.loans).into_iter().partition(|loan| loan.ticket.is_discarded());
        self.loans = open;
        ended
    }

    /// The submitted loans as indices, and of them the one that the next version shows: the last that lies where the variable
    /// is.
    pub(crate) fn submitted(&self) -> (Vec<usize>, Option<usize>) {
        let submitted: Vec<usize> =
            (0..self.loans.len()).filter(|index| self.loans[*index].ticket.is_submitted()).collect();
        let shown = submitted.iter().copied().rfind(|index| self.loans[*index].serial == self.allocation.serial);
        (submitted, shown)
    }

    /// A map of the windows in a plane: one that an earlier loan had and no longer uses, or a new one, whose page-table entries
    /// the workers make. Frames that are recycled were written before.
    pub(crate) fn map(
        &mut self,
        plane: usize,
        planes: &Planes,
        workers: &Arc<Workers>,
        is_recycled: bool,
        large_pages: bool,
    ) -> Result<Arc<LoanMap>> {
        self.maps.retain(|known| !known.is_replaced());
        let file = &planes.plane(plane).file;
        file.take_windows(self.allocation.range())?;
        let windows_at = file.windows_at(self.allocation.range())?;
        let is_same = |known: &&Arc<LoanMap>| known.plane == plane && known.windows_at == windows_at;
        if let Some(free) = self.maps.iter().filter(is_same).find(|known| Arc::strong_count(known) == 1) {
            return Ok(free.clone());
        }
        let mut map = file.map_unforked(self.allocation.range())?;
        map.unmap_by(workers);
        // Only windows that the variable fills, for a large page takes memory for all frames of its window.
        let whole = self.pages() / WINDOW_PAGES * WINDOW_BYTES;
        let collapsed = if large_pages && whole > 0 && map.collapse(0, whole) { whole } else { 0 };
        let rest = self.pages() * PAGE_BYTES - collapsed;
        match is_recycled {
            true => map.populate_by(collapsed, rest, workers),
            false => map.populate_for_writing_by(collapsed, rest, workers),
        }
        let map = Arc::new(LoanMap::new(plane, windows_at, map));
        self.maps.push(map.clone());
        Ok(map)
    }

    /// The same windows of a plane, private: what a loan that is over leaves at its addresses. Of large pages it is memory for a
    /// copy.
    pub(crate) fn map_after(&self, plane: usize, planes: &Planes) -> Result<After> {
        let (file, windows) = (&planes.plane(plane).file, self.allocation.range());
        if file.is_hugetlb() {
            let copy = Mapping::private(windows.len() * WINDOW_BYTES, true);
            return Ok(After::Copy(copy.map_err(|failure| Error::system(file.path(), failure))?));
        }
        file.map_private(windows.start * WINDOW_PAGES..windows.end * WINDOW_PAGES).map(After::Frames)
    }
}
