//! A version of a fragment that a process of this node reads, as it is put together.

use crate::network::Incoming;
use crate::sending::{Way, zeros};
use drepl::executor::Executor;
use drepl::transfer::Transfer;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use stillframe::{LoanBytes, Snapshot};
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
    published_ns: u64,
}

impl Filling {
    pub(crate) fn new(version: Version, writers: BTreeSet<Writer>, mut loan: LoanBytes) -> Filling {
        // What lies beyond the rim of the object is zero, and what lay here before is nobody's.
        loan.fill(0);
        let state = State { loan: Some(loan), missing: writers.clone(), published_ns: 0 };
        Filling { version, writers, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a share of another node where it belongs, as it comes.
    ///
    /// # Errors
    /// Why it does not fit.
    pub(crate) fn receive(
        &self,
        share: &SourceShare,
        bulk: &mut dyn Incoming,
        executor: &Executor,
    ) -> Result<(), String> {
        if bulk.left_bytes() != share.bytes {
            return Err(format!("{} bytes came, and the share has {}", bulk.left_bytes(), share.bytes));
        }
        let mut state = self.state();
        if !state.missing.contains(&share.writer) {
            return Ok(());
        }
        let Some(loan) = &mut state.loan else { return Ok(()) };
        match together(&share.transfer).filter(|range| range.end <= loan.len()) {
            Some(range) => bulk.read(&mut loan[range]).map_err(|error| error.to_string())?,
            None => {
                let mut bytes = zeros(share.bytes)?;
                bulk.read(&mut bytes).map_err(|error| error.to_string())?;
                executor.run(&share.transfer, &bytes, loan).map_err(|error| error.to_string())?;
            }
        }
        state.missing.remove(&share.writer);
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
            let mut bytes = zeros(transfer.source_bytes())?;
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

/// Where a transfer puts all of its bytes, if they belong together and as they are.
fn together(transfer: &Transfer) -> Option<Range<usize>> {
    let [one] = transfer.moves() else { return None };
    let (begin, length) = (usize::try_from(one.to).ok()?, usize::try_from(one.run_bytes).ok()?);
    let is_whole = one.from == 0 && one.swap_bytes == 1 && one.axes.is_empty();
    is_whole.then_some(begin..begin.checked_add(length)?)
}
