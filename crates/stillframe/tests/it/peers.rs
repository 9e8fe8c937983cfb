//! Regions that are no group and name each other as peers: what they retain for each other.
#![allow(unsafe_code)]

use crate::helper;

use crate::common::{Dir, Numbers, watchdog};
use crate::helper::{say, start};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;
use stillframe::{
    Arena, Array, Error, Family, Observer, Outcome, PAGE_BYTES, PeerRegion, Region, RegionOptions, Rule, Snapshot,
    inspect,
};

const WORDS: usize = 2 * PAGE_BYTES / 8;
const BYTES: u64 = (2 * PAGE_BYTES) as u64;
/// Longer than it takes to notice that a peer has begun, or is gone.
const NOTICED: Duration = Duration::from_millis(30);

fn run(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap()
}

/// Where regions may lie: each in a directory of its own, and all in an arena. Names are the same in both.
fn places(name: &str) -> [Dir; 2] {
    let [directory, arena] = [Dir::plain(name), Dir::plain(name)];
    let own = arena.path().file_name().unwrap().to_str().unwrap();
    Arena::options().dir("/dev/shm").bytes(1 << 30).regions(64).create(own).unwrap();
    [directory, arena]
}

fn peer(number: u64, from: u64) -> PeerRegion {
    PeerRegion { name: format!("o/{number}"), from, until: None }
}

/// A region with one array, all of which every version writes.
struct Writer {
    region: Region,
    array: Array<u64>,
    observer: Observer,
}

impl Writer {
    fn open(dir: &Path, number: u64, options: RegionOptions) -> Writer {
        let mut region = options.dir(dir).create(&format!("o/{number}")).unwrap();
        let array = region.array("a", &[WORDS]).unwrap();
        let observer = Observer::options().dir(dir).open(&format!("o/{number}")).unwrap();
        Writer { region, array, observer }
    }

    /// One of the run that all tests take, unless they are about runs.
    fn new(dir: &Dir, number: u64) -> Writer {
        Writer::open(dir.path(), number, Region::options().run(run(1)))
    }

    fn set_peers(&mut self, peers: &[PeerRegion]) {
        self.region.set_peers(peers).unwrap();
    }

    fn publish(&mut self, version: u64) {
        self.region.slice_mut(&self.array).fill(version);
        let published = self.region.publish(version).commit().unwrap();
        assert_eq!(published.outcome, Outcome::Published);
    }

    fn publish_all(&mut self, versions: impl IntoIterator<Item = u64>) {
        versions.into_iter().for_each(|version| self.publish(version));
    }

    fn live(&self) -> Vec<u64> {
        live(&self.observer)
    }
}

fn live(observer: &Observer) -> Vec<u64> {
    observer.versions().iter().filter(|info| !info.retiring).map(|info| info.version).collect()
}

/// Publishes versions and waits, as its arguments say: directory, number, its peer's number, last version.
fn writer_process(arguments: &[String]) {
    let [dir, numbers @ ..] = arguments else { panic!("{arguments:?}") };
    let [number, other, last] = numbers.iter().map(|n| n.parse::<u64>().unwrap()).collect::<Vec<_>>()[..] else {
        panic!("{arguments:?}")
    };
    let mut writer = Writer::open(Path::new(dir), number, Region::options().run(run(1)));
    writer.set_peers(&[peer(other, 0)]);
    writer.publish_all(1..=last);
    say("published");
    helper::wait_for_word();
}

#[test]
fn what_somebody_holds_stays_for_slower_peers_whatever_the_drift() {
    let _watchdog = watchdog(120);
    for dir in places("held") {
        let mut fast = Writer::open(dir.path(), 1, Region::options().run(run(1)).drift(2));
        let mut slow = Writer::new(&dir, 2);
        fast.set_peers(&[peer(2, 0)]);
        slow.set_peers(&[peer(1, 0)]);
        [&mut fast, &mut slow].into_iter().for_each(|writer| writer.publish_all([1]));
        fast.publish_all(2..=4);
        // As the runtime of a node, which is about to say that it is complete.
        let held = fast.observer.version(4).unwrap();
        fast.publish_all(5..=20);
        assert!(fast.live().contains(&4), "{:?}", fast.live());
        slow.publish(4);
        fast.publish(21);
        assert_eq!(fast.live()[0], 4, "{:?}", fast.live());
        drop(held);
    }
}

#[test]
fn helper_process() {
    helper::enter(&[("writer", writer_process)]);
}

#[test]
fn a_fast_and_a_slow_region_have_a_common_version_at_all_times() {
    let _watchdog = watchdog(120);
    for dir in places("apart") {
        let [mut fast, mut slow] = [0, 1].map(|number| Writer::new(&dir, number));
        fast.set_peers(&[peer(1, 0)]);
        slow.set_peers(&[peer(0, 0)]);
        fast.publish(1);
        slow.publish(1);
        fast.publish_all(2..=8);
        assert_eq!((fast.live(), slow.live()), ((1..=8).collect(), vec![1]));
        slow.publish_all(2..=4);
        assert_eq!(slow.live(), [4], "what all have is known at once to who has it last");
        fast.publish(9);
        assert_eq!(fast.live(), [4, 5, 6, 7, 8, 9]);
        fast.publish_all(10..=60);
        assert!(fast.live().len() <= 17 && fast.live()[0] == 4, "{:?}", fast.live());
    }
}

#[test]
fn names_are_those_within_the_arena_that_was_given() {
    let _watchdog = watchdog(120);
    let dir = Dir::plain("within");
    let arena = Arena::options().dir(dir.path()).bytes(64 << 20).create("objects").unwrap();
    let create = |name: &str| {
        let mut region = Region::options().arena(&arena).run(run(1)).create(name).unwrap();
        region.array::<u64>("a", &[WORDS]).unwrap();
        region
    };
    let (mut fast, mut slow) = (create("o/0"), create("o/1"));
    fast.set_peers(&[peer(1, 0)]).unwrap();
    slow.set_peers(&[peer(0, 0)]).unwrap();
    slow.publish(1).commit().unwrap();
    (1..=5).for_each(|version| _ = fast.publish(version).commit().unwrap());
    let observer = Observer::options().dir(dir.path()).open("objects/o/0").unwrap();
    assert_eq!(live(&observer), [1, 2, 3, 4, 5]);
}

#[test]
fn a_peer_that_joins_counts_as_having_what_is_older_and_is_waited_for_from_then_on() {
    let _watchdog = watchdog(120);
    for dir in places("joins") {
        let mut first = Writer::new(&dir, 0);
        first.publish_all(1..=5);
        assert_eq!(first.live(), [5]);
        // It has not begun yet.
        first.set_peers(&[peer(1, 7)]);
        first.publish(6);
        assert_eq!(first.live(), [6], "nobody else takes part in version 6");
        first.publish_all(7..=8);
        assert_eq!(first.live(), [6, 7, 8]);
        first.set_peers(&[peer(1, 8)]);
        assert_eq!(first.live(), [7, 8], "it takes part later than was said before");
        first.publish(9);
        assert_eq!(first.live(), [7, 8, 9]);
        let mut second = Writer::new(&dir, 1);
        second.set_peers(&[peer(0, 0)]);
        second.publish(8);
        std::thread::sleep(NOTICED);
        first.publish(10);
        assert_eq!(first.live(), [8, 9, 10]);
        second.publish_all(9..=10);
        assert_eq!(second.live(), [10]);
        first.publish(11);
        assert_eq!(first.live(), [10, 11]);
    }
}

#[test]
fn a_peer_that_is_not_named_any_more_frees_what_was_kept_for_it() {
    let _watchdog = watchdog(120);
    for dir in places("leaves") {
        let [mut a, mut b, mut c] = [0, 1, 2].map(|number| Writer::new(&dir, number));
        a.set_peers(&[peer(1, 0), peer(2, 0)]);
        b.set_peers(&[peer(0, 0), peer(2, 0)]);
        c.publish(1);
        b.publish_all(1..=5);
        a.publish_all(1..=10);
        assert_eq!(a.live(), (1..=10).collect::<Vec<_>>());
        a.set_peers(&[peer(1, 0)]);
        assert_eq!(a.live(), (5..=10).collect::<Vec<_>>(), "at once, and not at the next publish");
        a.set_peers(&[]);
        assert_eq!(a.live(), [10]);
        a.publish(11);
        assert_eq!(a.live(), [11]);
    }
}

#[test]
fn what_is_common_is_looked_for_anew_when_a_peer_leaves() {
    let _watchdog = watchdog(120);
    for dir in places("anew") {
        let options = || Region::options().run(run(1)).keep(2);
        let [mut a, mut b, mut c] = [0, 1, 2].map(|number| Writer::open(dir.path(), number, options()));
        a.set_peers(&[peer(1, 0), peer(2, 0)]);
        b.set_peers(&[peer(0, 0), peer(2, 0)]);
        c.publish_all([2, 4]);
        b.publish_all([2, 3]);
        a.publish_all([2, 3, 4]);
        assert_eq!(a.live(), [2, 3, 4], "the third one left out version 3");
        a.set_peers(&[peer(1, 0)]);
        assert_eq!(a.live(), [3, 4], "without it 3 is common");
        a.publish_all([5, 6]);
        b.set_peers(&[peer(0, 0)]);
        b.publish(7);
        assert_eq!((a.live(), b.live()), (vec![3, 4, 5, 6], vec![3, 7]));
    }
}

#[test]
fn peers_may_change_while_a_publish_is_under_way() {
    let _watchdog = watchdog(120);
    for dir in places("under-way") {
        let [mut fast, mut slow] = [0, 1].map(|number| Writer::new(&dir, number));
        slow.publish(1);
        fast.set_peers(&[peer(1, 0)]);
        fast.publish_all(1..=5);
        fast.region.slice_mut(&fast.array).fill(6);
        // SAFETY: nothing is written before the end.
        unsafe { fast.region.publish(6).start() }.unwrap();
        fast.set_peers(&[]);
        assert_eq!(fast.live(), [5]);
        fast.set_peers(&[peer(1, 0)]);
        fast.region.publish_finish().unwrap();
        assert_eq!(fast.live(), [5, 6]);
        for version in [5, 6] {
            let held = fast.observer.version(version).unwrap();
            assert!(held.slice::<u64>("a").unwrap().iter().all(|word| *word == version));
        }
        assert_eq!(inspect::verify(dir.path(), "o/0").unwrap(), []);
    }
}

#[test]
fn nothing_is_kept_for_a_peer_that_is_killed_or_ended_but_what_both_have() {
    let _watchdog = watchdog(120);
    for dir in places("gone") {
        let mut writer = Writer::new(&dir, 0);
        writer.set_peers(&[peer(1, 0)]);
        let path = dir.path().to_str().unwrap();
        let mut other = start("writer", &[path, "1", "0", "3"]);
        other.expect("published");
        std::thread::sleep(NOTICED);
        writer.publish_all(1..=9);
        assert_eq!(writer.live(), (3..=9).collect::<Vec<_>>());
        other.kill();
        std::thread::sleep(NOTICED);
        writer.publish(10);
        assert_eq!(writer.live(), [3, 10], "it was killed");
        // The next producer of its region goes on.
        let mut again = Writer::new(&dir, 1);
        again.set_peers(&[peer(0, 0)]);
        std::thread::sleep(NOTICED);
        writer.publish_all(11..=13);
        assert_eq!(writer.live(), [3, 10, 11, 12, 13]);
        drop(again);
        std::thread::sleep(NOTICED);
        writer.publish(14);
        assert_eq!(writer.live(), [3, 14], "it ended");
        // Who is named when it is gone already is not waited for either.
        let mut late = Writer::new(&dir, 2);
        late.set_peers(&[peer(1, 0)]);
        late.publish_all(4..=6);
        assert_eq!(late.live(), [6]);
    }
}

#[test]
fn nothing_is_kept_for_a_peer_whose_region_was_removed_until_there_is_another() {
    let _watchdog = watchdog(120);
    for dir in places("removed") {
        let [mut writer, mut other] = [0, 1].map(|number| Writer::new(&dir, number));
        writer.set_peers(&[peer(1, 0)]);
        other.publish_all(1..=3);
        writer.publish_all(1..=9);
        assert_eq!(writer.live(), (3..=9).collect::<Vec<_>>());
        drop(other.observer);
        other.region.unlink().unwrap();
        std::thread::sleep(NOTICED);
        writer.publish(10);
        assert_eq!(writer.live(), [10], "nobody can have what was removed");
        let mut anew = Writer::new(&dir, 1);
        std::thread::sleep(NOTICED);
        writer.publish_all(11..=13);
        assert_eq!(writer.live(), [10, 11, 12, 13]);
        anew.publish_all(12..=13);
        writer.publish(14);
        assert_eq!(writer.live(), [13, 14]);
    }
}

#[test]
fn at_the_bound_the_common_version_goes_last() {
    let _watchdog = watchdog(120);
    for dir in places("bound") {
        let options = || Region::options().run(run(1)).bound_bytes(4 * BYTES).rule(Rule::Fail);
        let mut fast = Writer::open(dir.path(), 0, options());
        let mut slow = Writer::new(&dir, 1);
        slow.publish(1);
        fast.set_peers(&[peer(1, 0)]);
        for version in 1..=30 {
            fast.publish(version);
            assert_eq!(fast.live()[0], 1, "{:?}", fast.live());
        }
        assert!((3..=4).contains(&fast.live().len()), "{:?}", fast.live());
        // Others that are named do not make it forget which is common.
        fast.set_peers(&[peer(1, 0), peer(2, 100)]);
        fast.publish(31);
        fast.set_peers(&[peer(1, 0)]);
        fast.publish_all(32..=40);
        assert_eq!(fast.live()[0], 1);
        // What is held stays, and so there is nothing else.
        let others = fast.live().split_off(1);
        let held: Vec<Snapshot> = others.iter().map(|version| fast.observer.version(*version).unwrap()).collect();
        let mut version = 40;
        while fast.live()[0] == 1 {
            version += 1;
            fast.publish(version);
            assert!(version < 50, "{:?}", fast.live());
        }
        assert!(held.iter().all(|held| fast.live().contains(&held.version())), "{:?}", fast.live());
        assert!(fast.live().contains(&version));
    }
}

#[test]
fn versions_of_another_run_are_not_the_same() {
    let _watchdog = watchdog(120);
    for dir in places("runs") {
        let mut other = Writer::open(dir.path(), 1, Region::options().run(run(2)));
        other.publish_all(1..=3);
        let mut writer = Writer::new(&dir, 0);
        writer.set_peers(&[peer(1, 0)]);
        writer.publish_all(1..=5);
        assert_eq!(writer.live(), [4, 5], "of the numbers up to 3 the other has none of this run");
    }
}

#[test]
fn what_was_taken_over_is_common_if_the_same_run_published_it() {
    let _watchdog = watchdog(120);
    for dir in places("former") {
        let [mut a, mut b] = [0, 1].map(|number| Writer::new(&dir, number));
        a.publish_all(1..=5);
        b.publish_all(1..=5);
        drop((a, b));
        let [mut a, _b] = [0, 1].map(|number| Writer::open(dir.path(), number, Region::options().run(run(2))));
        assert_eq!(a.region.recovered(), Some(5));
        a.set_peers(&[peer(1, 0)]);
        a.publish_all(6..=8);
        assert_eq!(a.live(), [5, 6, 7, 8]);
    }
}

#[test]
fn lists_that_make_no_sense_are_refused_and_change_nothing() {
    let _watchdog = watchdog(120);
    for dir in places("refused") {
        let [mut writer, mut other] = [0, 1].map(|number| Writer::new(&dir, number));
        other.publish(1);
        writer.set_peers(&[peer(1, 0)]);
        let mut refused = |peers: &[PeerRegion], words: &str| {
            let error = writer.region.set_peers(peers).unwrap_err();
            assert_eq!(error.family(), Family::Misuse, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        };
        refused(&[peer(1, 0), peer(0, 0)], "'o/0' is the region itself");
        refused(&[peer(1, 0), peer(2, 0), peer(1, 4)], "'o/1' is named twice");
        refused(&[PeerRegion { name: "../o".into(), from: 0, until: None }], "'../o' cannot name a region");
        refused(&vec![peer(1, 0); 1 << 16], "65536 regions are named");
        writer.publish_all(1..=4);
        assert_eq!(writer.live(), [1, 2, 3, 4], "the peer is as before");

        let mut rank = Region::options().dir(dir.path()).rank(0, 2).create("g").unwrap();
        for peers in [&[peer(1, 0)][..], &[]] {
            let error = rank.set_peers(peers).unwrap_err();
            assert!(matches!(error, Error::BadOption { option: "peers", .. }), "{error}");
        }
        let mut narrow = Writer::open(dir.path(), 2, Region::options().drift(1));
        let error = narrow.region.set_peers(&[peer(1, 0)]).unwrap_err();
        assert!(matches!(error, Error::BadOption { option: "drift", .. }), "{error}");
        // A rank of a group is no peer.
        rank.array::<u64>("a", &[WORDS]).unwrap();
        rank.publish(3).commit().unwrap();
        writer.set_peers(&[PeerRegion { name: "g/0".into(), from: 0, until: None }]);
        writer.publish(5);
        assert_eq!(writer.live(), [1, 2, 3, 4, 5]);
    }
}

const KEEP: usize = 2;
const DRIFT: usize = 8;

/// Regions that come and go, each with what is known of it.
struct Members<'a> {
    dir: &'a Dir,
    numbers: Numbers,
    all: Vec<Member>,
    /// Numbers of regions so far.
    made: u64,
    common: Option<u64>,
}

struct Member {
    number: u64,
    from: u64,
    newest: Option<u64>,
    /// `None`: it ended, or died.
    writer: Option<Writer>,
    observer: Observer,
    speed: usize,
}

impl Member {
    fn has(&self, version: u64) -> bool {
        version < self.from || live(&self.observer).contains(&version)
    }
}

impl Members<'_> {
    fn join(&mut self) {
        let newest = self.all.iter().filter_map(|member| member.newest).max();
        let from = newest.map_or(0, |newest| newest + 1 + self.numbers.below(3) as u64);
        let (number, speed) = (self.made, 1 + self.numbers.below(12));
        self.made += 1;
        let options = Region::options().run(run(1)).keep(KEEP).drift(DRIFT).threads(1);
        let writer = Writer::open(self.dir.path(), number, options);
        let observer = writer.observer.clone();
        self.all.push(Member { number, from, newest: None, writer: Some(writer), observer, speed });
        self.name();
    }

    /// Tells all the present list, each in an order of its own.
    fn name(&mut self) {
        let peers: Vec<PeerRegion> = self.all.iter().map(|member| peer(member.number, member.from)).collect();
        for (index, member) in self.all.iter_mut().enumerate() {
            let mut others = peers.clone();
            others.remove(index);
            if !others.is_empty() {
                let turns = self.numbers.below(others.len());
                others.rotate_left(turns);
            }
            if let Some(writer) = &mut member.writer {
                writer.set_peers(&others);
            }
        }
    }

    fn living(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|index| self.all[*index].writer.is_some()).collect()
    }

    /// Takes one from the list, unless those that stay all joined above the common version: it would be nobody's.
    fn leave(&mut self, index: usize) {
        let others = || self.all.iter().enumerate().filter(|(other, _)| *other != index);
        if !others().any(|(_, member)| Some(member.from) <= self.common) {
            return;
        }
        let member = self.all.remove(index);
        self.name();
        drop(member.observer);
        if let Some(writer) = member.writer {
            drop(writer.observer);
            writer.region.unlink().unwrap();
        }
    }

    fn step(&mut self) {
        let living = self.living();
        match self.numbers.below(60) {
            0 if self.all.len() < 5 => self.join(),
            1 if living.len() > 2 => {
                let index = living[self.numbers.below(living.len())];
                self.leave(index);
            }
            2 if living.len() > 2 => {
                let index = living[self.numbers.below(living.len())];
                self.all[index].writer = None;
            }
            3 | 4 => {
                if let Some(index) = self.all.iter().position(|member| member.writer.is_none()) {
                    self.leave(index);
                }
            }
            _ => {
                let tickets: usize = living.iter().map(|index| self.all[*index].speed).sum();
                let mut ticket = self.numbers.below(tickets);
                let chosen = living.into_iter().find(|index| {
                    let speed = self.all[*index].speed;
                    let is_hit = ticket < speed;
                    ticket = ticket.saturating_sub(speed);
                    is_hit
                });
                self.publish(chosen.unwrap());
            }
        }
        let common = self.find_common();
        assert!(common >= self.common, "{common:?} is common after {:?}", self.common);
        self.common = common;
    }

    fn publish(&mut self, index: usize) {
        // Now and then a number is left out.
        let skipped = u64::from(self.numbers.below(10) == 0);
        let member = &mut self.all[index];
        let version = member.newest.map_or(member.from, |newest| newest + 1) + skipped;
        member.writer.as_mut().unwrap().publish(version);
        member.newest = Some(version);
        self.check_retained(index);
    }

    /// The newest version that all have which take part in it.
    fn find_common(&self) -> Option<u64> {
        let known: BTreeSet<u64> = self.all.iter().flat_map(|member| live(&member.observer)).collect();
        known.into_iter().rev().find(|version| self.all.iter().all(|member| member.has(*version)))
    }

    /// Looks whether a region that has just published retains what it must, and nothing that it need not.
    fn check_retained(&self, index: usize) {
        let own = &self.all[index];
        let retained = live(&own.observer);
        let others = || self.all.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, member)| member);
        let newest = |member: &Member| member.newest.max(member.from.checked_sub(1));
        let slowest = others().map(newest).chain([own.newest]).min().unwrap();
        let common = retained.iter().rev().copied().find(|version| others().all(|other| other.has(*version)));
        let (older, kept) = retained.split_at(retained.len().saturating_sub(KEEP));
        assert_eq!(kept.last().copied(), own.newest);
        assert!(older.len() <= DRIFT + 1, "{retained:?}");
        for version in older {
            assert!(
                Some(*version) == common || Some(*version) > slowest,
                "{version} is of no use: all are at {slowest:?}, and {common:?} is common: {retained:?}"
            );
        }
    }
}

#[test]
fn regions_that_come_and_go_in_any_order_keep_what_they_have_in_common() {
    let _watchdog = watchdog(600);
    for seed in 0..30 {
        for dir in places("order") {
            let numbers = Numbers(seed << 20 | 77);
            let mut members = Members { dir: &dir, numbers, all: Vec::new(), made: 0, common: None };
            (0..2).for_each(|_| members.join());
            (0..400).for_each(|_| members.step());
            assert!(members.common > Some(3), "seed {seed}: only up to {:?}", members.common);
        }
    }
}
