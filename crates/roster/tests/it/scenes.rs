//! Scenes at random: machines are lost, others take their writers' places, and they come back. Whatever was announced keeps its content.

use std::collections::{BTreeMap, BTreeSet};

use drepl::{IndexBox, IndexSet, Progression};
use stillframe_roster::{
    home::Home,
    readiness::Readiness,
    runtime::{Event, Runtime},
    writer::{Node, Stage, Version, Who, Writer},
};

const MACHINES: usize = 3;
/// The machine that stays. What all that are lost knew alone nobody knows when they are back one by one.
const STAYS: usize = 0;
const STEPS: usize = 160;
const SEEDS: u64 = 4000;

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A fragment as a machine's programs left it.
#[derive(Debug, Clone)]
struct Fragment {
    process: u32,
    half: u64,
    from: Version,
    present: BTreeSet<Version>,
    newest: Option<Version>,
    left: Option<Version>,
    is_alive: bool,
    is_accepted: bool,
}

impl Fragment {
    fn writes(&self) -> bool {
        self.is_alive && self.left.is_none()
    }
}

/// What a machine has, whether its runtime lives or not.
#[derive(Debug)]
struct Machine {
    runtime: Option<Runtime>,
    number: Node,
    former: Vec<Node>,
    is_lost: bool,
    fragments: BTreeMap<u32, Fragment>,
    /// The newest version that its programs know to be complete.
    complete: Version,
}

impl Machine {
    fn who(&self, process: u32) -> Who {
        Who { writer: Writer { node: self.number, process, serial: 0 }, rank: None }
    }

    /// Tells the runtime what programs did.
    fn look(&mut self) {
        let Some(mut runtime) = self.runtime.take() else { return };
        for fragment in self.fragments.values() {
            let who = self.who(fragment.process);
            if fragment.left.is_some_and(|left| left <= fragment.from) {
                continue;
            }
            if runtime.record(who.writer).is_none() {
                let stage = Stage::member(fragment.from, half(fragment.half));
                match fragment.is_accepted {
                    true => runtime.restore(who, vec![stage]),
                    false => _ = runtime.declare(who, stage),
                }
            }
            for version in &fragment.present {
                let newest = runtime.record(who.writer).and_then(|record| record.published.newest);
                if newest.is_none_or(|newest| newest < *version) {
                    let _ = runtime.publish(who.writer, *version);
                }
            }
            if let Some(left) = fragment.left {
                let _ = runtime.declare(who, Stage::left(left));
            } else if !fragment.is_alive {
                runtime.die(who.writer);
            }
        }
        self.runtime = Some(runtime);
    }

    fn hear(&mut self, home: &Home) {
        let Some(runtime) = &mut self.runtime else { return };
        let Some(decision) = home.decision(self.number) else { return };
        for event in runtime.hear(decision.clone()) {
            match event {
                Event::Pin { version, .. } => _ = runtime.hold(version),
                Event::Refused { writer, .. } => _ = self.fragments.remove(&writer.process),
                Event::Ended { writer, from } => {
                    let Some(fragment) = self.fragments.get_mut(&writer.process) else { continue };
                    fragment.left = Some(from);
                    fragment.present.retain(|version| *version < from);
                }
                Event::Complete(version) => self.complete = self.complete.max(version),
                _ => {}
            }
        }
        for writer in runtime.accepted().collect::<Vec<_>>() {
            if let Some(fragment) = self.fragments.get_mut(&writer.process) {
                fragment.is_accepted = true;
            }
        }
    }

    /// Starts its runtime again, under another number.
    fn start(&mut self, number: Node, revision: u64) {
        self.former.push(std::mem::replace(&mut self.number, number));
        let mut runtime = Runtime::new(number, 0);
        runtime.set_floor(self.complete, 0);
        runtime.follow(revision);
        (self.runtime, self.is_lost) = (Some(runtime), false);
        self.look();
    }
}

fn half(number: u64) -> IndexSet {
    IndexBox::new([Progression::range(number * 4, number * 4 + 4).unwrap()]).unwrap().into()
}

fn whole() -> IndexSet {
    IndexBox::new([Progression::range(0, 8).unwrap()]).unwrap().into()
}

struct World {
    dice: Dice,
    machines: Vec<Machine>,
    home: Home,
    next_node: u32,
    next_process: u32,
    /// By version, whose it is.
    announced: BTreeMap<Version, BTreeSet<u32>>,
    /// How often a machine came back after versions were announced without it.
    returns: usize,
    done: Vec<String>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Dice(seed);
        (0..5).for_each(|_| _ = dice.roll(2));
        let machine = |number: usize| {
            let number = Node(number as u32);
            let mut runtime = Runtime::new(number, 0);
            runtime.follow(1);
            let (former, fragments) = (Vec::new(), BTreeMap::new());
            Machine { runtime: Some(runtime), number, former, is_lost: false, fragments, complete: 0 }
        };
        let home = Home::new(1, whole(), 0, (0..MACHINES).map(|number| Node(number as u32)));
        let machines = (0..MACHINES).map(machine).collect();
        let (next_node, announced) = (MACHINES as u32, BTreeMap::new());
        World { dice, machines, home, next_node, next_process: 1, announced, returns: 0, done: Vec::new() }
    }

    fn step(&mut self) {
        let place = self.dice.roll(MACHINES as u64) as usize;
        let roll = self.dice.roll(40);
        let done = match roll {
            0..=3 => self.attach(place),
            4..=15 => self.publish(place),
            16 => self.end(place, false),
            17 => self.end(place, true),
            18 => self.stop(place),
            19..=20 => self.lose(place),
            21..=23 => self.start(place),
            24 => self.change_home(),
            _ => self.talk(place),
        };
        if done {
            self.note(roll, place);
        }
    }

    /// Notes what happened, for people.
    fn note(&mut self, roll: u64, place: usize) {
        let what = ["attaches", "publishes", "detaches", "dies", "stops", "is lost", "starts", "home changes", "talks"];
        let kind = [3, 15, 16, 17, 18, 20, 23, 24].iter().position(|last| roll <= *last).unwrap_or(what.len() - 1);
        let announced = self.home.announced();
        let fragments = self.machines[place]
            .fragments
            .values()
            .map(|one| format!("{}:{} {}.. {:?} {:?}", one.process, one.half, one.from, one.newest, one.left));
        let fragments: Vec<String> = fragments.collect();
        let (number, complete) = (self.machines[place].number.0, self.machines[place].complete);
        self.done.push(format!(
            "{place} (node {number}) {}: {fragments:?}, knows {complete}; home {} {}: {} {:?}",
            what[kind],
            self.home.revision(),
            if self.home.is_leading() { "leads" } else { "waits" },
            announced.version,
            announced.nodes
        ));
    }

    fn attach(&mut self, place: usize) -> bool {
        let half = self.dice.roll(2);
        let is_taken = |machine: &Machine| {
            !machine.is_lost && machine.fragments.values().any(|fragment| fragment.half == half && fragment.writes())
        };
        if self.machines.iter().any(is_taken) && self.dice.roll(8) > 0 {
            return false;
        }
        self.next_process += 1;
        let (process, machine) = (self.next_process, &mut self.machines[place]);
        let (from, present) = (machine.complete + 1, BTreeSet::new());
        let fragment =
            Fragment { process, half, from, present, newest: None, left: None, is_alive: true, is_accepted: false };
        machine.fragments.insert(process, fragment);
        machine.look();
        true
    }

    fn publish(&mut self, place: usize) -> bool {
        let machine = &mut self.machines[place];
        let count = machine.fragments.len() as u64;
        if count == 0 {
            return false;
        }
        let chosen = self.dice.roll(count) as usize;
        let fragment = machine.fragments.values_mut().nth(chosen).unwrap();
        if !fragment.writes() {
            return false;
        }
        let next = fragment.newest.map_or(fragment.from, |newest| newest + 1);
        fragment.newest = Some(next);
        fragment.present.insert(next);
        machine.look();
        true
    }

    /// A writer detaches, or dies.
    fn end(&mut self, place: usize, dies: bool) -> bool {
        let machine = &mut self.machines[place];
        let Some(fragment) = machine.fragments.values_mut().find(|fragment| fragment.writes()) else { return false };
        match dies {
            true => fragment.is_alive = false,
            false => fragment.left = Some(fragment.newest.map_or(fragment.from, |newest| newest + 1)),
        }
        machine.look();
        true
    }

    fn stop(&mut self, place: usize) -> bool {
        if place == STAYS {
            return false;
        }
        let is_new = self.machines[place].runtime.take().is_some();
        is_new && !self.machines[place].is_lost
    }

    fn lose(&mut self, place: usize) -> bool {
        let machine = &mut self.machines[place];
        if place == STAYS || machine.is_lost || self.dice.roll(2) > 0 {
            return false;
        }
        (machine.runtime, machine.is_lost) = (None, true);
        let number = machine.number;
        self.home.lose(number);
        true
    }

    fn start(&mut self, place: usize) -> bool {
        if self.machines[place].runtime.is_some() {
            return false;
        }
        self.next_node += 1;
        let (number, former) = (Node(self.next_node * 7 % 1009), self.machines[place].number);
        let missed = self.announced.range(self.machines[place].complete + 1..);
        let own = &self.machines[place].fragments;
        self.returns +=
            usize::from(missed.into_iter().any(|(_, whose)| !whose.iter().any(|one| own.contains_key(one))));
        self.machines[place].start(number, self.home.revision());
        self.home.replace(former, number);
        true
    }

    fn change_home(&mut self) -> bool {
        let living: Vec<Node> = self.machines.iter().filter(|one| !one.is_lost).map(|one| one.number).collect();
        self.machines[STAYS].hear(&self.home);
        self.machines[STAYS].look();
        let revision = self.home.revision() + 1;
        self.home = Home::new(revision, whole(), 0, living);
        let replaced = self.machines.iter().flat_map(|one| one.former.iter().map(|former| (*former, one.number)));
        self.home.set_replaced(replaced.collect::<Vec<_>>());
        self.machines.iter_mut().filter_map(|one| one.runtime.as_mut()).for_each(|one| one.follow(revision));
        true
    }

    fn talk(&mut self, place: usize) -> bool {
        let Some(runtime) = &self.machines[place].runtime else { return false };
        self.home.receive(runtime.report());
        if self.dice.roll(3) > 0 {
            self.machines[place].hear(&self.home);
            self.machines[place].look();
        }
        true
    }

    /// Whose elements a version consists of, if all can be had.
    fn content(&self, version: Version) -> Option<BTreeSet<u32>> {
        let Readiness::Ready(shares) = self.home.ledger().readiness(version, &whole()).unwrap() else { return None };
        Some(shares.iter().map(|share| share.who.unwrap().writer.process).collect())
    }

    fn check(&mut self, seed: u64) {
        if !self.home.is_leading() {
            return;
        }
        let version = self.home.announced().version;
        if version > 0 && !self.home.announced().is_gone() && !self.announced.contains_key(&version) {
            let roster = self.home.ledger().roster(version);
            let members = roster.members.iter().map(|member| member.record.writer.process).collect();
            self.announced.insert(version, members);
        }
        for (version, before) in &self.announced {
            if let Some(now) = self.content(*version) {
                let scene = || format!("seed {seed}, version {version}, {:#?}", self.done);
                assert_eq!(now, *before, "{}", scene());
            }
        }
    }
}

#[test]
fn what_was_announced_keeps_its_content_whoever_comes_back() {
    let (mut announced, mut returns) = (0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
            world.check(seed);
        }
        announced += world.announced.len();
        returns += world.returns;
    }
    println!("{announced} versions announced, {returns} returns after some");
    assert!(announced > 1000 && returns > 100, "{announced} versions announced, {returns} returns");
}
