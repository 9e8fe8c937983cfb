//! A version of a fragment that a process of this node reads, as it is put together.

use crate::network::Incoming;
use crate::scatter;
use crate::sending::{Way, make_room};
use drepl::clip::part;
use drepl::executor::Executor;
use drepl::fragment::Fragment;
use drepl::transfer::{Axis, Move, Side, Transfer};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use stillframe::{LoanBytes, Snapshot, View};
use stillframe_kernel::points;
use stillframe_roster::writer::{Node, Version, Writer};
use stillframe_wire::data::SourceShare;

/// Memory of the next version, and whose elements are still to come.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) version: Version,
    /// Whose elements it consists of.
    pub(crate) writers: BTreeSet<Writer>,
    /// The fragment in an earlier version of the same writers.
    base: Option<View>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Until it is published.
    loan: Option<LoanBytes>,
    missing: BTreeSet<Writer>,
    /// Bytes that came of the share of each writer.
    came: BTreeMap<Writer, u64>,
    /// Memory for a piece that has to be taken apart.
    piece: Vec<u8>,
    published_ns: u64,
}

/// What became of elements of this node's writers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    Done,
    /// Others are just coming: it is to be asked again.
    Busy,
    /// With the reason.
    Failed(String),
}

/// Why bytes of a share could not be put where they belong.
enum Stop {
    /// The connection ended before them. They come once more, by the next one.
    Cut,
    /// They do not fit, with the reason.
    Unfit(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Stop {
        Stop::Unfit(why)
    }
}

/// The part of a share that some of its bytes are. Each of them goes to one place: a few could otherwise have the same place written for
/// hours.
fn part_of(share: &SourceShare, window: Range<u64>) -> Result<Transfer, Stop> {
    let bytes = window.end - window.start;
    let part = part(&share.transfer, Side::Source, window);
    match part.moved_bytes() {
        moved if moved == bytes => Ok(part),
        moved => Err(Stop::Unfit(format!("{bytes} bytes of a share would be written to {moved} places"))),
    }
}

impl Filling {
    /// Bytes that no element fills are as its text says, as those beyond the rim of the object: `is_full` says that there are none.
    pub(crate) fn new(
        version: Version,
        writers: BTreeSet<Writer>,
        base: Option<View>,
        mut loan: LoanBytes,
        fragment: &Fragment,
        is_full: bool,
    ) -> Filling {
        if !is_full {
            // What lay here before is nobody's.
            fragment.clear(&mut loan);
        }
        let state = State {
            loan: Some(loan),
            missing: writers.clone(),
            came: BTreeMap::new(),
            piece: Vec::new(),
            published_ns: 0,
        };
        Filling { version, writers, base, state: Mutex::new(state) }
    }

    /// Those of its writers that a node has, ascending.
    pub(crate) fn writers_of(&self, node: Node) -> impl Iterator<Item = Writer> {
        let first = Writer { node, process: 0, serial: 0 };
        self.writers.range(first..).copied().take_while(move |writer| writer.node == node)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a piece of a share where it belongs, as it comes: the next one, or it is left aside, as one of a connection before. Where
    /// several nodes have elements of the fragment, it comes into memory of its own first: who is slow holds up no other.
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
        if self.is_of_several_nodes() {
            let mut state = self.state();
            if !state.expects(share, offset) {
                return Ok(());
            }
            let mut piece = std::mem::take(&mut state.piece);
            drop(state);
            make_room(&mut piece, bytes)?;
            if bulk.read(&mut piece).is_err() {
                return Ok(());
            }
            return self.take(share, offset, bytes, |end, loan, kept| {
                let part = part_of(share, offset..end)?;
                executor.run(&part, &piece, loan).map_err(|error| error.to_string())?;
                *kept = piece;
                Ok(())
            });
        }
        self.take(share, offset, bytes, |end, loan, piece| {
            let part = part_of(share, offset..end)?;
            if let Some(mut places) = scatter::places(&part, bytes, loan) {
                return bulk.read_pieces(&mut places).map_err(|_| Stop::Cut);
            }
            make_room(piece, bytes)?;
            bulk.read(piece).map_err(|_| Stop::Cut)?;
            executor.run(&part, piece, loan).map_err(|error| Stop::Unfit(error.to_string()))
        })
    }

    /// Takes bytes of a share from the version before, which they are as: the next ones, or they are left aside.
    ///
    /// # Errors
    /// Why that cannot be.
    pub(crate) fn keep(&self, share: &SourceShare, offset: u64, bytes: u64, executor: &Executor) -> Result<(), String> {
        // Without one nothing else than all bytes was asked for: it belongs to what was asked before.
        let Some(base) = &self.base else { return Ok(()) };
        self.take(share, offset, bytes, |end, loan, _| {
            let part = part_of(share, offset..end)?;
            let staying = Transfer::new(part.moves().iter().map(staying).collect());
            let staying = staying.map_err(|error| error.to_string())?;
            executor.run(&staying, base, loan).map_err(|error| Stop::Unfit(error.to_string()))
        })
    }

    fn is_of_several_nodes(&self) -> bool {
        self.writers.first().map(|writer| writer.node) != self.writers.last().map(|writer| writer.node)
    }

    /// Puts bytes of a share, up to where they end in it, if they are the next ones and it still is waited for.
    fn take(
        &self,
        share: &SourceShare,
        offset: u64,
        bytes: u64,
        put: impl FnOnce(u64, &mut LoanBytes, &mut Vec<u8>) -> Result<(), Stop>,
    ) -> Result<(), String> {
        let end = offset.checked_add(bytes).filter(|end| *end <= share.bytes);
        let end =
            end.ok_or_else(|| format!("{bytes} bytes came behind {offset}, and the share has {}", share.bytes))?;
        let mut state = self.state();
        if !state.expects(share, offset) {
            return Ok(());
        }
        let State { loan, missing, came, piece, .. } = &mut *state;
        let Some(loan) = loan else { return Ok(()) };
        match put(end, loan, piece) {
            Ok(()) => {}
            Err(Stop::Cut) => return Ok(()),
            Err(Stop::Unfit(why)) => return Err(why),
        }
        points::hit("fill.piece");
        came.insert(share.writer, end);
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

    /// Puts elements of writers of this node.
    pub(crate) fn put_own(&self, ways: &[Way], snapshots: &[Snapshot], executor: &Executor) -> Put {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Put::Busy,
        };
        let mut own = ways.iter().zip(snapshots);
        match own.try_for_each(|(way, snapshot)| state.put_own(way, snapshot, executor)) {
            Ok(()) => Put::Done,
            Err(why) => Put::Failed(why),
        }
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

impl State {
    /// Whether these bytes of a share are the next ones, and are waited for.
    fn expects(&self, share: &SourceShare, offset: u64) -> bool {
        let came = self.came.get(&share.writer).copied().unwrap_or_default();
        self.loan.is_some() && self.missing.contains(&share.writer) && came == offset
    }

    fn put_own(&mut self, way: &Way, snapshot: &Snapshot, executor: &Executor) -> Result<(), String> {
        let Way { writer, variable, transfer, .. } = way;
        let Some(loan) = &mut self.loan else { return Ok(()) };
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
        self.missing.remove(writer);
        self.published_ns = self.published_ns.max(snapshot.published_ns());
        Ok(())
    }
}

/// A move of the bytes that another one writes, to where they are.
fn staying(each: &Move) -> Move {
    let axis = |axis: &Axis| Axis { from_bytes: axis.to_bytes, ..*axis };
    Move { from: each.to, swap_bytes: 1, axes: each.axes.iter().map(axis).collect(), ..each.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of the moves write the same byte again and again; as many bytes as they write lie together behind them.
    #[test]
    fn one_byte_is_not_written_to_thousands_of_places() {
        const MOVES: u64 = 1000;
        let run = |from, to, run_bytes| Move { from, to, run_bytes, swap_bytes: 1, axes: Default::default() };
        let mut moves: Vec<Move> = (0..MOVES).map(|_| run(0, 0, 1)).collect();
        moves.push(run(MOVES, MOVES, MOVES));
        let transfer = Transfer::new(moves).unwrap();
        assert_eq!((transfer.moved_bytes(), transfer.source_bytes()), (2 * MOVES, 2 * MOVES));
        let share = SourceShare { writer: Writer { node: Node(1), process: 1, serial: 1 }, transfer, bytes: 2 * MOVES };
        assert!(matches!(part_of(&share, 0..1), Err(Stop::Unfit(_))));
        assert!(part_of(&share, MOVES..2 * MOVES).is_ok());
    }
}
