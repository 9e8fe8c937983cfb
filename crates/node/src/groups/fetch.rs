//! A version of a group on its way here, rank by rank. Nothing of it is published before all of it is there.

use crate::groups::choosing::Choice;
use crate::groups::content::Content;
use crate::groups::loss::Loss;
use crate::groups::region::RankRegion;
use crate::network::Incoming;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stillframe::{LoanBytes, Snapshot};
use stillframe_roster::writer::Node;
use stillframe_wire::group::{GroupPiece, GroupRank};

/// A version that is fetched.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) number: u64,
    pub(super) choice: Choice,
    ranks: BTreeMap<u32, Arriving>,
    /// The same version of ranks of this node, held until it is there.
    _local: Vec<(u32, Snapshot)>,
    /// What came last from each node, as soon as anything did.
    came: Mutex<BTreeMap<Node, Came>>,
}

/// When something came last, and on which connection.
#[derive(Debug, Clone, Copy)]
struct Came {
    at: Instant,
    connection: u64,
}

/// A rank of another node.
#[derive(Debug)]
struct Arriving {
    node: Node,
    region: Arc<Mutex<RankRegion>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    content: Option<Content>,
    published_ns: u64,
    loans: Vec<LoanBytes>,
    /// The variable whose bytes come next, and how many of it came.
    at: (usize, usize),
    is_whole: bool,
    lost: Option<Loss>,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    Coming,
    Whole,
    Lost(Loss),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fetch {
    pub(super) fn new(
        number: u64,
        choice: Choice,
        ranks: impl IntoIterator<Item = (u32, Node, Arc<Mutex<RankRegion>>)>,
        local: Vec<(u32, Snapshot)>,
    ) -> Fetch {
        let arriving = |(rank, node, region)| (rank, Arriving { node, region, state: Mutex::default() });
        let ranks = ranks.into_iter().map(arriving).collect();
        Fetch { number, choice, ranks, _local: local, came: Mutex::default() }
    }

    fn with(
        &self,
        (from, rank): (Node, u32),
        connection: Option<u64>,
        work: impl FnOnce(&Arriving, &mut State) -> Result<(), Loss>,
    ) {
        let Some(arriving) = self.ranks.get(&rank).filter(|arriving| arriving.node == from) else { return };
        let note = || {
            let came = connection.map(|connection| Came { at: Instant::now(), connection });
            came.into_iter().for_each(|came| _ = lock(&self.came).insert(from, came));
        };
        note();
        let mut state = lock(&arriving.state);
        if state.lost.is_some() {
            return;
        }
        if let Err(Loss { cause, why }) = work(arriving, &mut state) {
            state.loans.clear();
            state.lost = Some(Loss::new(cause, format!("rank {rank}: {why}")));
        }
        // To put bytes where they belong takes time, too.
        note();
    }

    /// What a rank consists of.
    pub(super) fn begin(&self, from: Node, rank: GroupRank, bulk: &dyn Incoming) {
        let GroupRank { rank, published_ns, content, .. } = rank;
        self.with((from, rank), Some(bulk.connection()), |arriving, state| {
            if state.content.is_some() {
                return Err(Loss::there("it came twice"));
            }
            let content = Content::read(&content).map_err(Loss::there)?;
            state.loans = lock(&arriving.region).prepare(&content)?;
            (state.content, state.published_ns) = (Some(content), published_ns);
            Ok(())
        });
    }

    /// Bytes of a rank: the next ones.
    pub(super) fn receive(&self, from: Node, piece: &GroupPiece, bulk: &mut dyn Incoming) {
        self.with((from, piece.rank), Some(bulk.connection()), |_, state| {
            let State { loans, at, .. } = state;
            while loans.get(at.0).is_some_and(|loan| at.1 == loan.len()) {
                *at = (at.0 + 1, 0);
            }
            let end = usize::try_from(bulk.left_bytes()).ok().and_then(|bytes| at.1.checked_add(bytes));
            let place = end.and_then(|end| loans.get_mut(at.0)?.get_mut(at.1..end));
            let is_next = (piece.variable as usize, piece.offset) == (at.0, at.1 as u64);
            let Some(place) = place.filter(|_| is_next) else {
                return Err(Loss::there("bytes came that fit nowhere"));
            };
            bulk.read(place).map_err(|error| Loss::there(error.to_string()))?;
            at.1 += place.len();
            Ok(())
        });
    }

    /// All of a rank came.
    pub(super) fn end(&self, from: Node, rank: u32, bulk: &dyn Incoming) {
        self.with((from, rank), Some(bulk.connection()), |_, state| {
            let State { loans, at, .. } = state;
            let mut left = loans.iter().enumerate().skip(at.0);
            let has_all = left.all(|(number, loan)| loan.len() == if number == at.0 { at.1 } else { 0 });
            state.is_whole = state.content.is_some() && has_all;
            if state.is_whole { Ok(()) } else { Err(Loss::there("not all of it came")) }
        });
    }

    /// A rank cannot be had.
    pub(super) fn lose(&self, from: Node, rank: u32, why: &str) {
        // That comes on the connection for messages, too.
        self.with((from, rank), None, |_, _| Err(Loss::there(why)));
    }

    /// The nodes from which it comes.
    pub(super) fn nodes(&self) -> BTreeSet<Node> {
        self.ranks.values().map(|arriving| arriving.node).collect()
    }

    /// Whether anything comes from a node.
    pub(super) fn is_from(&self, node: Node) -> bool {
        self.ranks.values().any(|arriving| arriving.node == node)
    }

    /// Whether a node has still to send some of it, and sent nothing so far: it may not know that it was asked.
    pub(super) fn is_unanswered(&self, node: Node) -> bool {
        self.is_from(node) && !lock(&self.came).contains_key(&node)
    }

    /// Whether a node was sending it on a connection, and not all came.
    pub(super) fn is_coming_on(&self, node: Node, connection: u64) -> bool {
        let is_on = lock(&self.came).get(&node).is_some_and(|came| came.connection == connection);
        // Of one that somebody is just putting bytes to not all came.
        let is_whole = |arriving: &Arriving| arriving.state.try_lock().is_ok_and(|state| state.is_whole);
        let is_left = |arriving: &Arriving| arriving.node == node && !is_whole(arriving);
        is_on && self.ranks.values().any(is_left)
    }

    /// How far it is; lost, if a node that has begun to send it has sent nothing for so long. Before that it may have other things to
    /// send, however long these take.
    pub(super) fn progress(&self, patience: Duration) -> Progress {
        let (mut awaited, mut busy) = (BTreeSet::new(), BTreeSet::new());
        for Arriving { node, state, .. } in self.ranks.values() {
            // Whoever has it is just putting bytes there.
            let Ok(state) = state.try_lock() else {
                busy.insert(*node);
                continue;
            };
            if let Some(loss) = &state.lost {
                return Progress::Lost(loss.clone());
            }
            if !state.is_whole {
                awaited.insert(*node);
            }
        }
        if awaited.is_empty() && busy.is_empty() {
            return Progress::Whole;
        }
        let came = lock(&self.came);
        let is_silent = |node: &&Node| came.get(node).is_some_and(|came| came.at.elapsed() > patience);
        match awaited.difference(&busy).find(is_silent) {
            Some(node) => {
                let why = format!("nothing more of it came from node {} for {} s", node.0, patience.as_secs());
                Progress::Lost(Loss::there(why))
            }
            None => Progress::Coming,
        }
    }

    /// Publishes all of it.
    ///
    /// # Errors
    /// Why a rank was not published. Others may have been.
    pub(super) fn publish(&self) -> Result<(), Loss> {
        let mut failed = None;
        for (rank, arriving) in &self.ranks {
            let State { content, published_ns, loans, .. } = std::mem::take(&mut *lock(&arriving.state));
            let Some(content) = content else { continue };
            let published = lock(&arriving.region).publish(self.choice.version, published_ns, &content, loans);
            if let Err(why) = published {
                failed.get_or_insert(Loss::here(format!("rank {rank}: {why}")));
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
