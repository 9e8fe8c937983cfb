//! A version of a fragment that a process of this node reads, as it is put together.

use drepl::executor::Executor;
use drepl::transfer::Transfer;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use stillframe::{LoanBytes, Snapshot};
use stillframe_roster::writer::{Version, Writer};

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

    /// Puts a writer's elements where they belong: from their compact form, if the transfer is the second half of one.
    pub(crate) fn put(
        &self,
        writer: Writer,
        published_ns: u64,
        transfer: &Transfer,
        bytes: &[u8],
        executor: &Executor,
    ) -> Result<(), String> {
        let mut state = self.state();
        if !state.missing.contains(&writer) {
            // It came before, or nobody waits for it.
            return Ok(());
        }
        let Some(loan) = &mut state.loan else { return Ok(()) };
        executor.run(transfer, bytes, loan).map_err(|error| error.to_string())?;
        state.missing.remove(&writer);
        state.published_ns = state.published_ns.max(published_ns);
        Ok(())
    }

    /// Puts elements of a writer of this node.
    pub(crate) fn put_own(
        &self,
        writer: Writer,
        snapshot: &Snapshot,
        variable: &str,
        transfer: &Transfer,
        executor: &Executor,
    ) -> Result<(), String> {
        if snapshot.is_foreign() {
            let mut bytes = Vec::new();
            let length = transfer.source_bytes() as usize;
            bytes.try_reserve_exact(length).map_err(|_| format!("there is no memory for {length} bytes"))?;
            bytes.resize(length, 0);
            snapshot.read(variable, 0, &mut bytes).map_err(|error| error.to_string())?;
            return self.put(writer, snapshot.published_ns(), transfer, &bytes, executor);
        }
        let view = snapshot.view(variable).map_err(|error| error.to_string())?;
        self.put(writer, snapshot.published_ns(), transfer, &view, executor)
    }

    /// The memory with all elements, and when the last of them was published; nothing while any is missing.
    pub(crate) fn finish(&self) -> Option<(LoanBytes, u64)> {
        let mut state = self.state();
        if !state.missing.is_empty() {
            return None;
        }
        let published_ns = state.published_ns;
        state.loan.take().map(|loan| (loan, published_ns))
    }
}
