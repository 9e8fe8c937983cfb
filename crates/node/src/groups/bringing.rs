//! A group of which programs of this node want ranks that are on other nodes: they are shown in regions of this one, version by
//! version, for as long as somebody wants them.

use crate::cluster::Cluster;
use crate::groups::choosing::{ASKED_AGAIN_MAX, Choice, SILENCE, Told};
use crate::groups::fetch::{Fetch, Progress};
use crate::groups::local::LocalRanks;
use crate::groups::region::{Place, RankRegion};
use crate::network::{Incoming, Network};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stillframe_object::runtime::Reply;
use stillframe_roster::writer::Node;
use stillframe_wire::Message;
use stillframe_wire::group::{GroupGet, GroupLost, GroupName, GroupPiece, GroupRank, GroupRanks, GroupSent, RankTold};

/// How often ranks of this node are looked at.
const LOOK: Duration = Duration::from_millis(2);

/// The same while there are none.
const ABSENT: Duration = Duration::from_millis(50);

/// How long a group stays after the last who wanted it: programs that open it again and again find it.
const LINGER: Duration = Duration::from_secs(2);

/// How long a version may be on its way without any byte of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// How soon after a version that could not be had the next one is asked for, and nodes whose runs do not seem to be one.
const AGAIN: Duration = Duration::from_millis(50);

/// A group that is brought here.
#[derive(Debug)]
pub(super) struct Bringing {
    node: Node,
    place: Place,
    cluster: Arc<dyn Cluster>,
    network: Arc<dyn Network>,
    /// Numbers of versions that are asked for, for all groups.
    next_fetch: Arc<AtomicU64>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    told: Told,
    /// Who wants it, and what each was told last.
    clients: BTreeMap<u64, Option<Standing>>,
    /// Since when nobody does.
    unwanted: Option<Instant>,
    fetch: Option<Arc<Fetch>>,
    /// Nodes that are lost, and ranks that were there.
    lost: BTreeMap<Node, Vec<u32>>,
    has_news: bool,
    is_over: bool,
    /// Whether its thread has ended, and its regions are gone.
    is_gone: bool,
}

/// How it stands with the group, for who wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Standing {
    is_here: bool,
    why: String,
}

/// What came of a step.
struct Outcome {
    /// How it stands then, if that can be said.
    standing: Option<Standing>,
    /// Where the ranks are, if nothing of them is on its way or about to be.
    idle: Option<BTreeMap<u32, (Node, RankTold)>>,
}

/// What only the thread that brings has.
struct Work {
    local: LocalRanks,
    ranks: BTreeMap<u32, Arc<Mutex<RankRegion>>>,
    /// The run and number of the newest version that is here.
    present: Option<(u64, u64)>,
    begun: Instant,
    failed: Option<(Instant, String)>,
    is_following: bool,
    /// When nodes were asked again last, and how often they were.
    asked_again: (Option<Instant>, u32),
}

/// Who is told what.
pub(super) type Tell = dyn Fn(u64, &Reply) + Send + Sync;

impl Bringing {
    pub(super) fn new(
        node: Node,
        place: Place,
        cluster: Arc<dyn Cluster>,
        network: Arc<dyn Network>,
        next_fetch: Arc<AtomicU64>,
    ) -> Bringing {
        let state = State {
            told: Told::new(),
            clients: BTreeMap::new(),
            unwanted: None,
            fetch: None,
            lost: BTreeMap::new(),
            has_news: false,
            is_over: false,
            is_gone: false,
        };
        Bringing { node, place, cluster, network, next_fetch, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, work: impl FnOnce(&mut State)) {
        let mut state = self.state();
        work(&mut state);
        state.has_news = true;
        self.changed.notify_all();
    }

    /// A program wants the group; `false` if it is just ending.
    pub(super) fn want(&self, client: u64) -> bool {
        let mut state = self.state();
        if state.is_over {
            return false;
        }
        state.clients.insert(client, None);
        (state.unwanted, state.has_news) = (None, true);
        self.changed.notify_all();
        true
    }

    /// A program does not want it any more.
    pub(super) fn close(&self, client: u64) {
        self.change(|state| {
            if state.clients.remove(&client).is_some() && state.clients.is_empty() {
                state.unwanted = Some(Instant::now());
            }
        });
    }

    pub(super) fn end(&self) {
        self.change(|state| state.is_over = true);
    }

    pub(super) fn hear(&self, from: Node, ranks: GroupRanks) {
        self.change(|state| {
            state.lost.remove(&from);
            state.told.hear(from, ranks);
        });
    }

    /// There is a connection to a node, which may not know that its ranks are wanted.
    pub(super) fn connected(&self, node: Node) {
        let abandoned = {
            let state = self.state();
            state.fetch.clone().filter(|fetch| fetch.is_from(node))
        };
        // What was on its way may be lost.
        abandoned.into_iter().for_each(|fetch| self.abandon(&fetch));
        self.follow(node);
    }

    /// A node does not live any more. Of one that was started again as another nothing is lost.
    pub(super) fn lose(&self, node: Node, is_replaced: bool) {
        self.change(|state| {
            let ranks = state.told.forget(node);
            if !is_replaced && !ranks.is_empty() {
                state.lost.insert(node, ranks);
            }
            state.fetch.take_if(|fetch| fetch.is_from(node));
        });
    }

    fn abandon(&self, fetch: &Arc<Fetch>) {
        self.change(|state| _ = state.fetch.take_if(|one| one.number == fetch.number));
    }

    fn follow(&self, node: Node) {
        self.network.send(node, vec![Message::GroupFollow(GroupName { group: self.place.group.clone() })]);
    }

    fn fetch(&self, number: u64) -> Option<Arc<Fetch>> {
        self.state().fetch.clone().filter(|fetch| fetch.number == number)
    }

    /// Whether a version of this number is on its way.
    pub(super) fn fetches(&self, number: u64) -> bool {
        self.fetch(number).is_some()
    }

    /// Whether nobody wanted it any more, and its regions are gone.
    pub(super) fn is_gone(&self) -> bool {
        self.state().is_gone
    }

    /// Waits until the regions of a group that nobody wants are gone.
    pub(super) fn wait_for_end(&self) {
        let is_there = |state: &mut State| !state.is_gone;
        drop(self.changed.wait_while(self.state(), is_there));
    }

    /// Takes what belongs to a version that was asked for, if it still is.
    pub(super) fn receive(&self, from: Node, message: Message, bulk: &mut dyn Incoming) {
        match message {
            Message::GroupRank(rank) => {
                let GroupRank { fetch, .. } = rank;
                self.fetch(fetch).into_iter().for_each(|one| one.begin(from, rank.clone()));
            }
            Message::GroupPiece(piece) => {
                let GroupPiece { fetch, .. } = piece;
                self.fetch(fetch).into_iter().for_each(|one| one.receive(from, &piece, bulk));
                return;
            }
            Message::GroupSent(GroupSent { fetch, rank }) => {
                self.fetch(fetch).into_iter().for_each(|one| one.end(from, rank));
            }
            Message::GroupLost(GroupLost { fetch, rank, why }) => {
                self.fetch(fetch).into_iter().for_each(|one| one.lose(from, rank, &why));
            }
            _ => return,
        }
        self.change(|_| ());
    }

    /// Brings versions until nobody wants them.
    pub(super) fn run(&self, tell: &Tell) {
        let local = LocalRanks::new(&self.place.dir, &self.place.group, &self.place.shown);
        let mut work = Work {
            local,
            ranks: BTreeMap::new(),
            present: None,
            begun: Instant::now(),
            failed: None,
            is_following: false,
            asked_again: (None, 0),
        };
        loop {
            {
                let pause = if work.local.is_empty() { ABSENT } else { LOOK };
                let is_idle = |state: &mut State| !state.has_news && !state.is_over;
                let waited = self.changed.wait_timeout_while(self.state(), pause, is_idle);
                let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                state.has_news = false;
                state.is_over |= state.unwanted.is_some_and(|unwanted| unwanted.elapsed() > LINGER);
                if state.is_over {
                    state.fetch = None;
                    break;
                }
            }
            let Outcome { standing, idle } = self.step(&mut work);
            // First, for whoever sees that a rank ended asks why.
            let is_said = standing.is_some();
            self.answer(standing, tell);
            if let Some(places) = idle {
                self.end_ranks(&mut work, &places, is_said);
            }
        }
        if work.is_following {
            for node in self.cluster.nodes().into_iter().filter(|node| *node != self.node) {
                self.network.send(node, vec![Message::GroupLeave(GroupName { group: self.place.group.clone() })]);
            }
        }
        work.ranks.values().for_each(|rank| rank.lock().unwrap_or_else(PoisonError::into_inner).remove());
        self.change(|state| state.is_gone = true);
    }

    /// Does what there is to do; how it stands then.
    fn step(&self, work: &mut Work) -> Outcome {
        let own = work.local.look();
        work.local.hold(&own);
        if own.size > 0 && own.ranks.len() == own.size as usize && work.ranks.is_empty() {
            // All are here, and nobody else has to be asked.
            return Outcome { standing: Some(Standing { is_here: true, why: String::new() }), idle: None };
        }
        if !work.is_following {
            work.is_following = true;
            self.cluster.nodes().into_iter().filter(|node| *node != self.node).for_each(|node| self.follow(node));
        }
        let (places, fetch) = {
            let mut state = self.state();
            match own.ranks.is_empty() {
                true => _ = state.told.forget(self.node),
                false => state.told.hear(self.node, own),
            }
            (state.told.places(self.node), state.fetch.clone())
        };
        if let Some(fetch) = fetch {
            self.finish(work, &fetch);
        }
        let is_waiting = self.state().fetch.is_some();
        let choice = match is_waiting {
            true => None,
            false => self.state().told.choose(&places, work.present),
        };
        let is_soon = work.failed.as_ref().is_some_and(|(at, _)| at.elapsed() < AGAIN);
        let is_idle = choice.is_none() && !is_waiting;
        if let Some(choice) = choice.filter(|_| !is_soon) {
            self.begin(work, &places, choice);
        }
        let is_asking = self.is_asking_again(work, &places);
        let standing = if is_asking { None } else { self.standing(work, &places) };
        Outcome { standing, idle: is_idle.then_some(places) }
    }

    /// Asks nodes again whose runs do not seem to be one, a few times; whether it still does.
    fn is_asking_again(&self, work: &mut Work, places: &BTreeMap<u32, (Node, RankTold)>) -> bool {
        let (last, times) = &mut work.asked_again;
        if work.present.is_some() || !self.state().told.is_in_doubt(places) {
            // Another run may be in doubt later.
            *times = 0;
            return false;
        }
        if *times >= ASKED_AGAIN_MAX {
            return false;
        }
        if last.is_none_or(|last| last.elapsed() >= AGAIN) {
            (*last, *times) = (Some(Instant::now()), *times + 1);
            let nodes: BTreeSet<Node> = places.values().map(|(node, _)| *node).collect();
            nodes.into_iter().filter(|node| *node != self.node).for_each(|node| self.follow(node));
        }
        true
    }

    /// Publishes a version that has come, or gives it up.
    fn finish(&self, work: &mut Work, fetch: &Arc<Fetch>) {
        match fetch.progress(PATIENCE) {
            Progress::Coming => return,
            Progress::Whole => {
                work.failed = fetch.publish().err().map(|why| (Instant::now(), why));
                work.present = Some((fetch.choice.run, fetch.choice.version));
            }
            Progress::Lost(why) => work.failed = Some((Instant::now(), why)),
        }
        self.state().fetch.take_if(|one| one.number == fetch.number);
    }

    /// Asks all nodes for a version.
    fn begin(&self, work: &mut Work, places: &BTreeMap<u32, (Node, RankTold)>, choice: Choice) {
        let own_run = choice.runs.get(&self.node).copied();
        let local = match own_run {
            Some(run) => match work.local.take(choice.version, run) {
                Some(local) => local,
                None => return,
            },
            None => Vec::new(),
        };
        let Some(run) = NonZeroU64::new(own_run.unwrap_or(choice.run)) else { return };
        let mut asked: BTreeMap<Node, Vec<u32>> = BTreeMap::new();
        for (rank, (node, _)) in places.iter().filter(|(_, (node, _))| *node != self.node) {
            asked.entry(*node).or_default().push(*rank);
        }
        if let Err(why) = self.make(work, &asked, places.len() as u32, run) {
            work.failed = Some((Instant::now(), why));
            return;
        }
        let number = self.next_fetch.fetch_add(1, Ordering::Relaxed);
        let regions = asked.iter().flat_map(|(node, ranks)| ranks.iter().map(|rank| (*rank, *node)));
        let regions = regions.filter_map(|(rank, node)| Some((rank, node, work.ranks.get(&rank)?.clone())));
        let fetch = Arc::new(Fetch::new(number, choice.clone(), regions, local));
        self.state().fetch = Some(fetch);
        for (node, ranks) in asked {
            let Some(run) = choice.runs.get(&node).copied() else { continue };
            let (group, version) = (self.place.group.clone(), choice.version);
            self.network.send(node, vec![Message::GroupGet(GroupGet { fetch: number, group, version, run, ranks })]);
        }
    }

    /// Makes regions for the ranks of other nodes. Those of another run, or of another number of ranks, are made anew.
    fn make(
        &self,
        work: &mut Work,
        asked: &BTreeMap<Node, Vec<u32>>,
        size: u32,
        run: NonZeroU64,
    ) -> Result<(), String> {
        let wanted: BTreeSet<u32> = asked.values().flatten().copied().collect();
        let Work { ranks, present, .. } = work;
        ranks.retain(|rank, region| {
            let mut region = region.lock().unwrap_or_else(PoisonError::into_inner);
            let stays = wanted.contains(rank) && region.run() == run && region.size() == size;
            if !stays {
                region.remove();
                // What was here of all ranks is not any more.
                *present = None;
            }
            stays
        });
        for rank in wanted {
            if let Entry::Vacant(vacant) = work.ranks.entry(rank) {
                let made = RankRegion::make(&self.place, (rank, size), run)?;
                vacant.insert(Arc::new(Mutex::new(made)));
            }
        }
        Ok(())
    }

    /// Shows that ranks ended from which nothing will come any more; those of nodes that were lost once observers were told of that.
    fn end_ranks(&self, work: &mut Work, places: &BTreeMap<u32, (Node, RankTold)>, is_said: bool) {
        let is_lost = |rank: &u32| is_said && self.state().lost.values().any(|ranks| ranks.contains(rank));
        for (rank, region) in &work.ranks {
            let ended = match places.get(rank) {
                Some((_, told)) if told.lives => None,
                Some((_, told)) => {
                    let is_past = |(_, other): &(Node, RankTold)| !other.lives || other.newest >= told.newest;
                    places.values().all(is_past).then_some(told.ended)
                }
                None => is_lost(rank).then_some(false),
            };
            if let Some(by_itself) = ended {
                region.lock().unwrap_or_else(PoisonError::into_inner).end(by_itself);
            }
        }
    }

    fn standing(&self, work: &Work, places: &BTreeMap<u32, (Node, RankTold)>) -> Option<Standing> {
        let state = self.state();
        let is_here = work.present.is_some();
        let mut nodes = self.cluster.nodes().into_iter().filter(|node| *node != self.node);
        let has_silent = nodes.any(|node| !state.told.has_heard(node)) && work.begun.elapsed() < SILENCE;
        // What was heard since the last choice may be enough for the next one.
        let may_come = || state.told.choose(&state.told.places(self.node), None).is_some() && work.failed.is_none();
        if !is_here && (has_silent || state.fetch.is_some() || may_come()) {
            return None;
        }
        let mut why = Vec::new();
        for (node, ranks) in &state.lost {
            why.push(format!("node {} is lost, which had {}", self.called(*node), listed(ranks)));
        }
        let mut by_node: BTreeMap<Node, Vec<u32>> = BTreeMap::new();
        for (rank, (node, _)) in places.iter().filter(|(_, (node, _))| *node != self.node) {
            by_node.entry(*node).or_default().push(*rank);
        }
        for (node, ranks) in by_node {
            let verb = if ranks.len() == 1 { "is" } else { "are" };
            why.push(format!("{} {verb} on node {}", listed(&ranks), self.called(node)));
        }
        let lost: BTreeSet<u32> = state.lost.values().flatten().copied().collect();
        let missing = (0..state.told.size()).filter(|rank| !places.contains_key(rank) && !lost.contains(rank));
        let missing: Vec<u32> = missing.collect();
        if !missing.is_empty() {
            why.push(format!("{} began on no node", listed(&missing)));
        }
        if let Some((_, failed)) = &work.failed {
            why.push(format!("a version could not be brought here: {failed}"));
        }
        Some(Standing { is_here, why: why.join("; ") })
    }

    fn called(&self, node: Node) -> String {
        let host = self.cluster.host(node);
        if host.is_empty() { node.0.to_string() } else { format!("{} ({host})", node.0) }
    }

    /// Tells those who want the group how it stands, if they do not know.
    fn answer(&self, standing: Option<Standing>, tell: &Tell) {
        let Some(standing) = standing else { return };
        let mut told = Vec::new();
        for (client, last) in &mut self.state().clients {
            if last.as_ref() != Some(&standing) {
                *last = Some(standing.clone());
                told.push(*client);
            }
        }
        let Standing { is_here, why } = standing;
        let reply = Reply::Ranks { is_here, why };
        told.into_iter().for_each(|client| tell(client, &reply));
    }
}

/// Ranks, for people.
fn listed(ranks: &[u32]) -> String {
    const SHOWN: usize = 8;
    let all: Vec<String> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    let more = ranks.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} {}{more}", if ranks.len() == 1 { "rank" } else { "ranks" }, all.join(", "))
}
