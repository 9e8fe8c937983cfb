//! A group of which programs of this node want ranks that are on other nodes: they are shown in regions of this one, version by
//! version, for as long as somebody wants them.

mod standing;

use crate::cluster::Cluster;
use crate::groups::choosing::{ASKED_AGAIN_MAX, Choice, SILENCE, Told};
use crate::groups::fetch::{Fetch, Progress};
use crate::groups::local::LocalRanks;
use crate::groups::loss::{Cause, Failure, Loss, PAUSES};
use crate::groups::region::{Place, RankRegion};
use crate::network::{Incoming, Network};
use standing::Standing;
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

/// How long a version may be on its way without any byte of it, once there was one.
const PATIENCE: Duration = Duration::from_secs(10);

/// How soon nodes are asked again whose runs do not seem to be one.
const AGAIN: Duration = PAUSES[0];

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
    /// The nodes that were asked to tell of their ranks; none before the first.
    followed: Option<BTreeSet<Node>>,
    fetch: Option<Arc<Fetch>>,
    /// Nodes that are lost, and ranks that were there.
    lost: BTreeMap<Node, Vec<u32>>,
    has_news: bool,
    is_over: bool,
    /// Whether its thread has ended, and its regions are gone.
    is_gone: bool,
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
    failed: Option<Failure>,
    /// When nodes were asked again last, and how often they were.
    asked_again: (Option<Instant>, u32),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Work {
    fn fail(&mut self, version: u64, loss: Loss) {
        self.failed = Some(Failure::after(self.failed.as_ref(), version, loss, Instant::now()));
    }

    /// How much each rank had in the version that was to be put here last, of those that had one.
    fn needed_bytes(&self) -> Vec<u64> {
        self.ranks.values().filter_map(|rank| lock(rank).needed_bytes()).collect()
    }
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
            followed: None,
            fetch: None,
            lost: BTreeMap::new(),
            has_news: false,
            is_over: false,
            is_gone: false,
        };
        Bringing { node, place, cluster, network, next_fetch, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
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
        let mut state = self.state();
        let State { followed, is_gone, .. } = &*state;
        if *is_gone {
            return;
        }
        // It may have missed that nobody here asks it any more. With the lock: who begins to follow it does so after that.
        if !followed.as_ref().is_some_and(|followed| followed.contains(&from)) {
            return self.leave(from);
        }
        // What a node has is lost no more, whatever node had it before.
        state.lost.retain(|node, lost| {
            lost.retain(|rank| ranks.ranks.iter().all(|told| told.rank != *rank));
            *node != from && !lost.is_empty()
        });
        state.told.hear(from, ranks);
        state.has_news = true;
        self.changed.notify_all();
    }

    /// There is a connection to a node, or from it. It may not know that its ranks are wanted, nor which.
    pub(super) fn connected(&self, node: Node) {
        let mut state = self.state();
        if state.is_over || state.followed.is_none() {
            return;
        }
        self.give_up(&mut state, |fetch| fetch.is_unanswered(node));
        self.follow(&mut state, node);
    }

    /// A connection from a node has ended, after all that came on it.
    pub(super) fn disconnected(&self, node: Node, connection: u64) {
        self.give_up(&mut self.state(), |fetch| fetch.is_coming_on(node, connection));
    }

    /// A node does not live any more. Of one that was started again as another nothing is lost.
    pub(super) fn lose(&self, node: Node, is_replaced: bool) {
        let mut state = self.state();
        state.followed.iter_mut().for_each(|followed| _ = followed.remove(&node));
        let ranks = state.told.forget(node);
        if !is_replaced && !ranks.is_empty() {
            state.lost.insert(node, ranks);
        }
        self.give_up(&mut state, |fetch| fetch.is_from(node));
        state.has_news = true;
        self.changed.notify_all();
    }

    /// Gives up the version that is on its way, if it is such a one, and asks nodes to send no more of it.
    fn give_up(&self, state: &mut State, is_such: impl FnOnce(&Fetch) -> bool) {
        let Some(fetch) = state.fetch.take_if(|fetch| is_such(fetch)) else { return };
        for node in fetch.nodes() {
            let Choice { version, run, .. } = fetch.choice;
            let (group, fetch, ranks) = (self.place.group.clone(), fetch.number, Vec::new());
            self.network.send(node, vec![Message::GroupGet(GroupGet { fetch, group, version, run, ranks })]);
        }
        state.has_news = true;
        self.changed.notify_all();
    }

    fn follow(&self, state: &mut State, node: Node) {
        state.followed.get_or_insert_default().insert(node);
        self.network.send(node, vec![Message::GroupFollow(GroupName { group: self.place.group.clone() })]);
    }

    fn leave(&self, node: Node) {
        self.network.send(node, vec![Message::GroupLeave(GroupName { group: self.place.group.clone() })]);
    }

    /// The other nodes.
    fn others(&self) -> impl Iterator<Item = Node> {
        let own = self.node;
        self.cluster.nodes().into_iter().filter(move |node| *node != own)
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
                self.fetch(fetch).into_iter().for_each(|one| one.begin(from, rank.clone(), bulk));
            }
            Message::GroupPiece(piece) => {
                let GroupPiece { fetch, .. } = piece;
                self.fetch(fetch).into_iter().for_each(|one| one.receive(from, &piece, bulk));
                return;
            }
            Message::GroupSent(GroupSent { fetch, rank }) => {
                self.fetch(fetch).into_iter().for_each(|one| one.end(from, rank, bulk));
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
        // Nobody follows any more once it is over.
        let followed = self.state().followed.take();
        followed.into_iter().flatten().for_each(|node| self.leave(node));
        work.ranks.values().for_each(|rank| lock(rank).remove());
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
        let (places, fetch) = {
            let mut state = self.state();
            if state.followed.is_none() {
                state.followed = Some(BTreeSet::new());
                self.others().for_each(|node| self.follow(&mut state, node));
            }
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
        let is_idle = choice.is_none() && !is_waiting;
        if let Some(choice) = choice.filter(|choice| self.is_due(work, choice.version)) {
            let version = choice.version;
            self.begin(work, &places, choice).unwrap_or_else(|loss| work.fail(version, loss));
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
            let mut state = self.state();
            nodes.into_iter().filter(|node| *node != self.node).for_each(|node| self.follow(&mut state, node));
        }
        true
    }

    /// Publishes a version that has come, or gives it up.
    fn finish(&self, work: &mut Work, fetch: &Arc<Fetch>) {
        let Choice { version, run, .. } = fetch.choice;
        let failed = match fetch.progress(PATIENCE) {
            Progress::Coming => return,
            Progress::Whole => fetch.publish().err(),
            Progress::Lost(loss) => Some(loss),
        };
        let is_it = |one: &Fetch| one.number == fetch.number;
        match failed {
            // What of it was published is asked for no more.
            Some(loss) => {
                work.fail(version, loss);
                self.give_up(&mut self.state(), is_it);
            }
            None => {
                (work.present, work.failed) = (Some((run, version)), None);
                self.state().fetch.take_if(|one| is_it(one));
            }
        }
    }

    /// Whether a version may be asked for: after one that could not be had for a time, or once there is room.
    fn is_due(&self, work: &Work, version: u64) -> bool {
        let Some(failure) = &work.failed else { return true };
        // Each rank may have room alone, and not all together.
        let needed_bytes = || work.needed_bytes().into_iter().try_fold(0_u64, u64::checked_add);
        let has_room = || needed_bytes().is_some_and(|bytes| self.place.room.check(bytes).is_ok());
        failure.is_past(version, Instant::now(), has_room)
    }

    /// Asks all nodes for a version.
    ///
    /// # Errors
    /// What is in the way here.
    fn begin(&self, work: &mut Work, places: &BTreeMap<u32, (Node, RankTold)>, choice: Choice) -> Result<(), Loss> {
        let own_run = choice.runs.get(&self.node).copied();
        let local = match own_run {
            Some(run) => match work.local.take(choice.version, run) {
                Some(local) => local,
                None => return Ok(()),
            },
            None => Vec::new(),
        };
        let Some(run) = NonZeroU64::new(own_run.unwrap_or(choice.run)) else { return Ok(()) };
        let others =
            || places.iter().filter(|(_, (node, _))| *node != self.node).map(|(rank, (node, _))| (*rank, *node));
        let made = self.make(work, &others().map(|(rank, _)| rank).collect(), places.len() as u32, run);
        made.map_err(|why| Loss::new(Cause::Unasked, why))?;
        if work.failed.is_none() {
            // As they were in the version before. Where that was too large, this one is asked for to see whether it is.
            let needed_bytes = work.needed_bytes().into_iter().max();
            needed_bytes.map_or(Ok(()), |bytes| self.place.room.check(bytes))?;
        }
        let (mut asked, mut arriving): (BTreeMap<Node, Vec<u32>>, Vec<_>) = (BTreeMap::new(), Vec::new());
        for (rank, node) in others() {
            let Some(region) = work.ranks.get(&rank) else { continue };
            // Some may have been published where others could not.
            if !lock(region).has(choice.version) {
                asked.entry(node).or_default().push(rank);
                arriving.push((rank, node, region.clone()));
            }
        }
        let mut state = self.state();
        // Who was lost meanwhile answers no more.
        if asked.keys().any(|node| !state.told.has_heard(*node)) {
            return Ok(());
        }
        let number = self.next_fetch.fetch_add(1, Ordering::Relaxed);
        state.fetch = Some(Arc::new(Fetch::new(number, choice.clone(), arriving, local)));
        for (node, ranks) in asked {
            let Some(run) = choice.runs.get(&node).copied() else { continue };
            let (group, version) = (self.place.group.clone(), choice.version);
            // With the lock: it may be called off after that.
            self.network.send(node, vec![Message::GroupGet(GroupGet { fetch: number, group, version, run, ranks })]);
        }
        Ok(())
    }

    /// Makes regions for the ranks of other nodes. Those of another run, or of another number of ranks, are made anew.
    fn make(&self, work: &mut Work, wanted: &BTreeSet<u32>, size: u32, run: NonZeroU64) -> Result<(), String> {
        let Work { ranks, present, .. } = work;
        ranks.retain(|rank, region| {
            let mut region = lock(region);
            let stays = wanted.contains(rank) && region.run() == run && region.size() == size;
            if !stays {
                region.remove();
                // What was here of all ranks is not any more.
                *present = None;
            }
            stays
        });
        for rank in wanted {
            match work.ranks.entry(*rank) {
                Entry::Occupied(occupied) => lock(occupied.get()).resume()?,
                Entry::Vacant(vacant) => {
                    let made = RankRegion::make(&self.place, (*rank, size), run)?;
                    vacant.insert(Arc::new(Mutex::new(made)));
                }
            }
        }
        Ok(())
    }
}
