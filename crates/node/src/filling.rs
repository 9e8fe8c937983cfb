//! A version of a fragment that a process of this node reads, as it is put together.

use crate::network::Incoming;
use crate::sending::{Way, make_room};
use drepl::clip::part;
use drepl::executor::Executor;
use drepl::transfer::{Side, Transfer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use stillframe::{LoanBytes, Snapshot};
use stillframe_kernel::points;
use stillframe_roster::writer::{Version, Writer};
use stillframe_wire::data::SourceShare;

/// Memory of the next version, and whose elements are still to come.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) version: Version,
    /// Whose elements it consists of.
    pub(crate) writers: BTreeSet<Writer>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Until it is published.
    loan: Option<LoanBytes>,
    missing: BTreeSet<Writer>,
    /// Bytes that came of the share of each writer.
    came: BTreeMap<Writer, u64>,
    /// A piece that has to be taken apart.
    piece: Vec<u8>,
    published_ns: u64,
}

impl Filling {
    /// Bytes that no element fills are zero, as those beyond the rim of the object: `is_full` says that there are none.
    pub(crate) fn new(version: Version, writers: BTreeSet<Writer>, mut loan: LoanBytes, is_full: bool) -> Filling {
        if !is_full {
            // What lay here before is nobody's.
            loan.fill(0);
        }
        let state = State {
            loan: Some(loan),
            missing: writers.clone(),
            came: BTreeMap::new(),
            piece: Vec::new(),
            published_ns: 0,
        };
        Filling { version, writers, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a piece of a share where it belongs, as it comes: the next one, or it is left aside, as one of a connection before.
    ///
    /// # Errors
    /// Why it does not fit.
    pub(crate) fn receive(
        &self,
        share: &SourceShare,
        offset: u64,
        bulk: &mut dyn Incoming,
        executor: &Executor,
    ) -> Result<(), String> {
        let bytes = bulk.left_bytes();
        let Some(end) = offset.checked_add(bytes).filter(|end| *end <= share.bytes) else {
            return Err(format!("{bytes} bytes came behind {offset}, and the share has {}", share.bytes));
        };
        let mut state = self.state();
        let State { loan, missing, came, piece, .. } = &mut *state;
        let Some(loan) = loan.as_mut().filter(|_| missing.contains(&share.writer)) else { return Ok(()) };
        let came = came.entry(share.writer).or_default();
        if *came != offset {
            return Ok(());
        }
        match together(&share.transfer).and_then(|begin| loan.get_mut(begin..)?.get_mut(offset as usize..end as usize))
        {
            Some(place) => bulk.read(place).map_err(|error| error.to_string())?,
            None => {
                make_room(piece, bytes)?;
                bulk.read(piece).map_err(|error| error.to_string())?;
                let part = part(&share.transfer, Side::Source, offset..end);
                executor.run(&part, piece, loan).map_err(|error| error.to_string())?;
            }
        }
        points::hit("fill.piece");
        *came = end;
        if end == share.bytes {
            missing.remove(&share.writer);
        }
        Ok(())
    }

    /// All of these shares were sent. Those with bytes have come, or belonged to what was asked for before.
    pub(crate) fn end(&self, shares: &[SourceShare], published_ns: u64) {
        let mut state = self.state();
        let empty = shares.iter().filter(|share| share.bytes == 0);
        empty.for_each(|share| _ = state.missing.remove(&share.writer));
        state.published_ns = state.published_ns.max(published_ns);
    }

    /// Puts elements of a writer of this node.
    ///
    /// # Errors
    /// Why that failed.
    pub(crate) fn put_own(&self, way: &Way, snapshot: &Snapshot, executor: &Executor) -> Result<(), String> {
        let Way { writer, variable, transfer, .. } = way;
        let mut state = self.state();
        let Some(loan) = &mut state.loan else { return Ok(()) };
        let run = |source: &[u8], loan: &mut LoanBytes| {
            executor.run(transfer, source, loan).map_err(|error| error.to_string())
        };
        if snapshot.is_foreign() {
            let mut bytes = Vec::new();
            make_room(&mut bytes, transfer.source_bytes())?;
            snapshot.read(variable, 0, &mut bytes).map_err(|error| error.to_string())?;
            run(&bytes, loan)?;
        } else {
            let view = snapshot.view(variable).map_err(|error| error.to_string())?;
            run(&view, loan)?;
        }
        state.missing.remove(writer);
        state.published_ns = state.published_ns.max(snapshot.published_ns());
        Ok(())
    }

    /// The memory with all elements, and when the last of them was published; nothing while any is missing.
    pub(crate) fn finish(&self) -> Option<(LoanBytes, u64)> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // A share is just coming, and whoever takes it asks again.
            Err(TryLockError::WouldBlock) => return None,
        };
        if !state.missing.is_empty() {
            return None;
        }
        let published_ns = state.published_ns;
        state.loan.take().map(|loan| (loan, published_ns))
    }
}

/// Where a transfer puts its bytes, if they come together and as they are.
fn together(transfer: &Transfer) -> Option<usize> {
    let [one] = transfer.moves() else { return None };
    let is_whole = one.from == 0 && one.swap_bytes == 1 && one.axes.is_empty();
    usize::try_from(one.to).ok().filter(|_| is_whole)
}
