//! A version of a group on its way here, rank by rank. Nothing of it is published before all of it is there.

use crate::groups::choosing::Choice;
use crate::groups::content::Content;
use crate::groups::region::RankRegion;
use crate::network::Incoming;
use std::collections::BTreeMap;
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
    heard: Mutex<Instant>,
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
    lost: Option<String>,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    Coming,
    Whole,
    /// It cannot be had, for the reason given.
    Lost(String),
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
        Fetch { number, choice, ranks, _local: local, heard: Mutex::new(Instant::now()) }
    }

    fn with(&self, from: Node, rank: u32, work: impl FnOnce(&Arriving, &mut State) -> Result<(), String>) {
        let Some(arriving) = self.ranks.get(&rank).filter(|arriving| arriving.node == from) else { return };
        *lock(&self.heard) = Instant::now();
        let mut state = lock(&arriving.state);
        if state.lost.is_some() {
            return;
        }
        if let Err(why) = work(arriving, &mut state) {
            state.loans.clear();
            state.lost = Some(format!("rank {rank}: {why}"));
        }
    }

    /// What a rank consists of.
    pub(super) fn begin(&self, from: Node, rank: GroupRank) {
        let GroupRank { rank, published_ns, content, .. } = rank;
        self.with(from, rank, |arriving, state| {
            if state.content.is_some() {
                return Err("it came twice".into());
            }
            let content = Content::read(&content)?;
            state.loans = lock(&arriving.region).prepare(&content)?;
            (state.content, state.published_ns) = (Some(content), published_ns);
            Ok(())
        });
    }

    /// Bytes of a rank: the next ones.
    pub(super) fn receive(&self, from: Node, piece: &GroupPiece, bulk: &mut dyn Incoming) {
        self.with(from, piece.rank, |_, state| {
            let State { loans, at, .. } = state;
            while loans.get(at.0).is_some_and(|loan| at.1 == loan.len()) {
                *at = (at.0 + 1, 0);
            }
            let end = usize::try_from(bulk.left_bytes()).ok().and_then(|bytes| at.1.checked_add(bytes));
            let place = end.and_then(|end| loans.get_mut(at.0)?.get_mut(at.1..end));
            let is_next = (piece.variable as usize, piece.offset) == (at.0, at.1 as u64);
            let Some(place) = place.filter(|_| is_next) else { return Err("bytes came that fit nowhere".into()) };
            bulk.read(place).map_err(|error| error.to_string())?;
            at.1 += place.len();
            Ok(())
        });
    }

    /// All of a rank came.
    pub(super) fn end(&self, from: Node, rank: u32) {
        self.with(from, rank, |_, state| {
            let State { loans, at, .. } = state;
            let mut left = loans.iter().enumerate().skip(at.0);
            let has_all = left.all(|(number, loan)| loan.len() == if number == at.0 { at.1 } else { 0 });
            state.is_whole = state.content.is_some() && has_all;
            if state.is_whole { Ok(()) } else { Err("not all of it came".into()) }
        });
    }

    /// A rank cannot be had.
    pub(super) fn lose(&self, from: Node, rank: u32, why: &str) {
        self.with(from, rank, |_, _| Err(why.into()));
    }

    /// Whether anything comes from a node.
    pub(super) fn is_from(&self, node: Node) -> bool {
        self.ranks.values().any(|arriving| arriving.node == node)
    }

    /// How far it is; lost, if nothing has come for so long.
    pub(super) fn progress(&self, patience: Duration) -> Progress {
        let mut is_whole = true;
        for arriving in self.ranks.values() {
            // Whoever has it is just putting bytes there.
            let Ok(state) = arriving.state.try_lock() else {
                is_whole = false;
                continue;
            };
            if let Some(why) = &state.lost {
                return Progress::Lost(why.clone());
            }
            is_whole &= state.is_whole;
        }
        if is_whole {
            return Progress::Whole;
        }
        match lock(&self.heard).elapsed() > patience {
            true => Progress::Lost(format!("nothing came for {} s", patience.as_secs())),
            false => Progress::Coming,
        }
    }

    /// Publishes all of it.
    ///
    /// # Errors
    /// Why a rank was not published.
    pub(super) fn publish(&self) -> Result<(), String> {
        let mut failed = None;
        for (rank, arriving) in &self.ranks {
            let State { content, published_ns, loans, .. } = std::mem::take(&mut *lock(&arriving.state));
            let Some(content) = content else { continue };
            let published = lock(&arriving.region).publish(self.choice.version, published_ns, &content, loans);
            if let Err(error) = published {
                failed.get_or_insert(format!("rank {rank}: {error}"));
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
