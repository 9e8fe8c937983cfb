//! What ranks retain for each other, at any speeds and in any order of their steps.
//!
//! The ranks are those of a model: sets of numbers. In one test they take turns at whole publishes, in another each is a
//! thread, and a scheduler lets one go on at each look at another rank, so that looks and changes mix in every order.
#![cfg(not(loom))]

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard};
use stillframe_protocol::retention::{Peer, Retention, is_everywhere};

#[derive(Debug, Clone, Default)]
struct Head {
    live: BTreeSet<u64>,
    newest: Option<u64>,
    tentative: Option<u64>,
    is_gone: bool,
}

/// A deterministic stream of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }
}

/// All heads, and who may take the next step.
struct World {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    heads: Vec<Head>,
    /// Whose step it is; `None` while nobody waits for others.
    turn: Option<usize>,
    running: Vec<usize>,
    numbers: Numbers,
    /// The newest version that any rank relied on.
    relied: Option<u64>,
}

impl State {
    fn common(&self) -> Option<u64> {
        let first = &self.heads[0].live;
        first.iter().rev().copied().find(|number| self.heads.iter().all(|head| head.live.contains(number)))
    }
}

impl World {
    fn new(ranks: usize, threads: bool, seed: u64) -> World {
        let running: Vec<usize> = if threads { (0..ranks).collect() } else { Vec::new() };
        let turn = running.first().copied();
        let heads = vec![Head::default(); ranks];
        let state = State { heads, turn, running, numbers: Numbers(seed), relied: None };
        World { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The world, when it is this rank's turn; the next turn is anybody's.
    fn step(&self, rank: usize) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap();
        while state.turn.is_some_and(|turn| turn != rank) {
            state = self.changed.wait(state).unwrap();
        }
        self.pass(&mut state);
        state
    }

    fn pass(&self, state: &mut State) {
        if !state.running.is_empty() {
            let index = state.numbers.below(state.running.len());
            state.turn = Some(state.running[index]);
            self.changed.notify_all();
        }
    }

    fn leave(&self, rank: usize) {
        let mut state = self.step(rank);
        state.running.retain(|other| *other != rank);
        state.turn = None;
        self.pass(&mut state);
    }
}

struct Other<'a> {
    world: &'a World,
    me: usize,
    other: usize,
}

impl Peer for Other<'_> {
    fn newest(&self) -> Option<u64> {
        self.world.step(self.me).heads[self.other].newest
    }

    fn has(&self, version: u64) -> bool {
        self.world.step(self.me).heads[self.other].live.contains(&version)
    }

    fn is_firm(&self, version: u64) -> bool {
        let tentative = self.world.step(self.me).heads[self.other].tentative;
        tentative != Some(version) && self.has(version)
    }

    fn may_publish(&self) -> bool {
        !self.world.step(self.me).heads[self.other].is_gone
    }
}

/// A rank and what it is allowed to retain.
struct Rank<'a> {
    world: &'a World,
    me: usize,
    peers: Vec<Other<'a>>,
    retention: Retention,
    keep: usize,
    drift: usize,
}

impl<'a> Rank<'a> {
    fn new(world: &'a World, me: usize, keep: usize, drift: usize) -> Rank<'a> {
        let ranks = world.state.lock().unwrap().heads.len();
        let peers = (0..ranks).filter(|other| *other != me).map(|other| Other { world, me, other }).collect();
        Rank { world, me, peers, retention: Retention::default(), keep, drift }
    }

    fn publish(&mut self, version: u64) {
        let own: Vec<u64> = {
            let mut state = self.world.step(self.me);
            let head = &mut state.heads[self.me];
            head.live.insert(version);
            head.newest = Some(version);
            head.live.iter().copied().collect()
        };
        let spares = self.retention.spares(&own, self.keep, self.drift, &self.peers);
        {
            let mut state = self.world.step(self.me);
            state.relied = state.relied.max(self.retention.common());
            self.check(&state);
        }
        for spare in spares {
            if !spare.is_past {
                self.world.step(self.me).heads[self.me].tentative = Some(spare.version);
                if is_everywhere(spare.version, &self.peers) {
                    self.retention.forget();
                    self.world.step(self.me).heads[self.me].tentative = None;
                    continue;
                }
            }
            let mut state = self.world.step(self.me);
            state.heads[self.me].live.remove(&spare.version);
            self.check(&state);
            drop(state);
            self.world.step(self.me).heads[self.me].tentative = None;
        }
        let state = self.world.step(self.me);
        let head = &state.heads[self.me];
        let kept = head.live.iter().rev().take(self.keep);
        assert_eq!(head.newest, kept.max().copied());
        // One more than allowed may be there for a publish if it turned out to be everywhere.
        assert!(head.live.len() <= self.keep + self.drift + 1, "{:?}", head.live);
    }

    /// What any rank relied on is everywhere, or something newer is.
    fn check(&self, state: &State) {
        if state.relied.is_some() {
            assert!(state.common() >= state.relied, "{:?} was relied on: {:?}", state.relied, state.heads);
        }
    }
}

#[test]
fn what_a_rank_relies_on_stays_in_every_order_of_steps() {
    for seed in 0..300 {
        let mut numbers = Numbers(seed);
        let (ranks, drift, stride) = (2 + numbers.below(3), 2 + numbers.below(3), 1 + numbers.below(3) as u64);
        let skips = numbers.below(3) == 0;
        let world = World::new(ranks, true, seed);
        std::thread::scope(|scope| {
            for me in 0..ranks {
                let world = &world;
                let mut numbers = Numbers(seed << 8 | me as u64);
                scope.spawn(move || {
                    let mut rank = Rank::new(world, me, 1, drift);
                    for version in (1..40).map(|number| number * stride) {
                        if !(skips && numbers.below(5) == 0) {
                            rank.publish(version);
                        }
                    }
                    world.leave(me);
                });
            }
        });
        let state = world.state.lock().unwrap();
        assert!(skips || state.common() == Some(39 * stride));
        assert!(state.relied.is_some(), "nobody found a common version");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// The group goes on: at the latest when the slowest rank comes to where the furthest was when it last went on.
    #[test]
    fn a_common_version_exists_and_advances(
        speeds in prop::collection::vec(1u32..40, 2..6),
        drift in 2usize..20,
        keep in 1usize..4,
        stride in prop::sample::select(vec![1u64, 2, 7, 64, 1000]),
        seed in any::<u64>(),
    ) {
        let world = World::new(speeds.len(), false, 0);
        let mut ranks: Vec<Rank> = (0..speeds.len()).map(|me| Rank::new(&world, me, keep, drift)).collect();
        let mut next = vec![1; ranks.len()];
        let mut numbers = Numbers(seed);
        let total: u32 = speeds.iter().sum();
        let mut common = None;
        let mut goal = None;
        for _ in 0..3000 {
            let mut ticket = numbers.below(total as usize) as u32;
            let me = speeds.iter().position(|speed| { let hit = ticket < *speed; ticket = ticket.saturating_sub(*speed); hit });
            let me = me.unwrap();
            ranks[me].publish(next[me] * stride);
            next[me] += 1;
            let state = world.state.lock().unwrap();
            let slowest = state.heads.iter().map(|head| head.newest).min().unwrap();
            if slowest.is_some() {
                let now = state.common();
                prop_assert!(now >= common && now.is_some(), "{now:?} after {common:?}: {:?}", state.heads);
                if now > common {
                    let furthest = state.heads.iter().map(|head| head.newest).max().unwrap();
                    goal = furthest.max(now.map(|now| now + stride));
                    common = now;
                } else {
                    prop_assert!(slowest < goal, "stays at {common:?} with all at {goal:?}: {:?}", state.heads);
                }
            }
        }
    }

    /// With numbers left out at random there is a common version as soon as there ever was one, and it grows.
    #[test]
    fn ranks_that_skip_numbers_still_meet(
        ranks in 2usize..5, drift in 2usize..20, share in 3usize..8, seed in any::<u64>(),
    ) {
        let world = World::new(ranks, false, 0);
        let mut all: Vec<Rank> = (0..ranks).map(|me| Rank::new(&world, me, 1, drift)).collect();
        let mut next = vec![1; ranks];
        let mut numbers = Numbers(seed);
        let (mut common, mut advances) = (None, 0);
        for _ in 0..6000 {
            let me = numbers.below(ranks);
            next[me] += 1;
            if numbers.below(share) == 0 {
                continue;
            }
            all[me].publish(next[me]);
            let now = world.state.lock().unwrap().common();
            prop_assert!(now >= common);
            advances += usize::from(now > common);
            common = now;
        }
        prop_assert!(advances >= 5, "{advances} advances, the last to {common:?}");
    }
}

#[test]
fn nothing_is_retained_for_a_rank_that_is_gone_but_what_all_have() {
    let world = World::new(3, false, 0);
    let mut ranks: Vec<Rank> = (0..3).map(|me| Rank::new(&world, me, 1, 16)).collect();
    for version in 1..=10 {
        ranks.iter_mut().for_each(|rank| rank.publish(version));
    }
    for version in 11..=14 {
        ranks[0].publish(version);
    }
    assert_eq!(world.state.lock().unwrap().heads[0].live, BTreeSet::from([10, 11, 12, 13, 14]));
    world.state.lock().unwrap().heads[2].is_gone = true;
    for version in 15..100 {
        ranks[0].publish(version);
    }
    assert_eq!(world.state.lock().unwrap().heads[0].live, BTreeSet::from([10, 99]));
}

#[test]
fn what_remains_at_the_bound_is_spread_evenly() {
    let world = World::new(2, false, 0);
    let (mut fast, mut slow) = (Rank::new(&world, 0, 1, 16), Rank::new(&world, 1, 1, 16));
    slow.publish(1);
    (1..=1000).for_each(|version| fast.publish(version));
    let live: Vec<u64> = world.state.lock().unwrap().heads[0].live.iter().copied().collect();
    assert_eq!(live.len(), 17);
    let steps: Vec<u64> = live[2..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| *step <= 150), "{live:?}");
    // What is common stays when room is needed, longer than all else.
    let order = fast.retention.by_want(&live[..16]);
    assert_eq!(order.last(), Some(&1));
    assert_eq!(order[14], live[1]);
}
