//! What this node tells others of its ranks of a group, as long as they follow it.

use crate::groups::local::{LocalRanks, Shown};
use crate::groups::sending::Held;
use crate::network::Network;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use stillframe_roster::writer::Node;
use stillframe_wire::Message;
use stillframe_wire::group::{GroupGet, GroupLost, GroupRanks};

/// How often ranks are looked at that do not publish.
const LOOK: Duration = Duration::from_millis(20);

/// The same while there are none.
const ABSENT: Duration = Duration::from_millis(50);

/// Versions that follow each other so soon are told of together.
const GATHER: Duration = Duration::from_micros(500);

/// Ranks that others follow.
#[derive(Debug)]
pub(super) struct Telling {
    group: String,
    network: Arc<dyn Network>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Who follows, and whether it knows the last report.
    followers: BTreeMap<Node, bool>,
    /// What each node asked for last.
    asked: BTreeMap<Node, Held>,
    /// The number of that, and whether it was called off since.
    requests: BTreeMap<Node, (u64, bool)>,
    local: LocalRanks,
    last: Option<GroupRanks>,
    is_over: bool,
}

impl Telling {
    pub(super) fn new(dir: &Path, group: &str, shown: &Shown, network: Arc<dyn Network>) -> Telling {
        let local = LocalRanks::new(dir, group, shown);
        let state = State {
            followers: BTreeMap::new(),
            asked: BTreeMap::new(),
            requests: BTreeMap::new(),
            local,
            last: None,
            is_over: false,
        };
        Telling { group: group.into(), network, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node follows, or has to be told again.
    pub(super) fn follow(&self, node: Node) {
        let mut state = self.state();
        state.followers.insert(node, false);
        // Its runtime may be another one, which counts anew.
        state.requests.remove(&node);
        drop(state);
        self.changed.notify_all();
    }

    /// A node may have missed what it was told.
    pub(super) fn tell_again(&self, node: Node) {
        self.state().followers.entry(node).and_modify(|is_told| *is_told = false);
        self.changed.notify_all();
    }

    /// A node follows no more; whether nobody does.
    pub(super) fn leave(&self, node: Node) -> bool {
        let mut state = self.state();
        state.followers.remove(&node);
        state.asked.remove(&node);
        state.requests.remove(&node);
        state.is_over |= state.followers.is_empty();
        self.changed.notify_all();
        state.is_over
    }

    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        state.asked.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// Tells followers what is new, until nobody follows.
    pub(super) fn run(&self) {
        loop {
            let slowest = {
                let mut state = self.state();
                if state.is_over {
                    return state.local.let_go();
                }
                self.tell(&mut state);
                state.local.slowest()
            };
            match slowest {
                Some((observer, newest)) => {
                    if observer.wait_newer(newest, Some(LOOK)).is_ok() {
                        thread::sleep(GATHER);
                    }
                }
                None => {
                    let state = self.state();
                    let pause = if state.local.is_empty() { ABSENT } else { LOOK };
                    let is_idle = |state: &mut State| !state.is_over && state.followers.values().all(|told| *told);
                    drop(self.changed.wait_timeout_while(state, pause, is_idle));
                }
            }
        }
    }

    fn tell(&self, state: &mut State) {
        let State { followers, local, last, .. } = state;
        let ranks = local.look();
        local.hold(&ranks);
        let is_new = last.as_ref().is_none_or(|last| is_other(last, &ranks));
        for (node, is_told) in followers.iter_mut().filter(|(_, is_told)| is_new || !**is_told) {
            self.network.send(*node, vec![Message::GroupRanks(ranks.clone())]);
            *is_told = true;
        }
        *last = Some(ranks);
    }

    /// Sends a version of ranks to a node, or tells it that it went. What it asked for before it waits for no more. Without ranks a request
    /// calls off the one of that number.
    pub(super) fn send(&self, to: Node, get: &GroupGet) {
        let GroupGet { fetch, version, run, .. } = *get;
        let is_call_off = get.ranks.is_empty();
        let mut state = self.state();
        // Numbers only rise. What comes late, on a connection that ended, is waited for no more.
        let (newest, is_called_off) = state.requests.get(&to).copied().unwrap_or_default();
        if fetch < newest || (fetch == newest && is_called_off) {
            return;
        }
        state.requests.insert(to, (fetch, is_call_off));
        state.asked.remove(&to);
        if is_call_off {
            return;
        }
        let taken = state.local.take(version, run).unwrap_or_default();
        let (mut ranks, mut missing) = (Vec::new(), get.ranks.clone());
        for (rank, snapshot) in taken.into_iter().filter(|(rank, _)| get.ranks.binary_search(rank).is_ok()) {
            missing.retain(|missing| *missing != rank);
            ranks.push((rank, snapshot));
        }
        if let Some(rank) = missing.first().copied() {
            let why = format!("its node has version {version} no more");
            return self.network.send(to, vec![Message::GroupLost(GroupLost { fetch, rank, why })]);
        }
        let held = Held::new(fetch, ranks);
        let job = held.job();
        state.asked.insert(to, held);
        drop(state);
        self.network.transmit(to, Box::new(job));
    }

    /// The group.
    pub(super) fn group(&self) -> &str {
        &self.group
    }
}

/// Whether anything is another but the time that has passed.
fn is_other(one: &GroupRanks, other: &GroupRanks) -> bool {
    let ranks = |all: &GroupRanks| {
        let rank = |told: &stillframe_wire::group::RankTold| (told.rank, told.lives, told.ended, told.newest);
        all.ranks.iter().map(rank).collect::<Vec<_>>()
    };
    let runs = |all: &GroupRanks| all.runs.iter().map(|told| (told.run, told.seen_ago_ns == 0)).collect::<Vec<_>>();
    one.size != other.size || one.versions != other.versions || ranks(one) != ranks(other) || runs(one) != runs(other)
}
