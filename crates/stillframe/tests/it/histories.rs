//! Random histories of a producer beside a plain copy of everything, over all trackers.
//!
//! A history is a list of steps: variables are written, resized, pinned, lent, removed and added, published with and
//! without room, versions are held and let go, the producer ends and the next one recovers. After each step the memory of
//! the program is what was written to it, and each version is what it was at its publish. What fails is shrunk to the
//! shortest history, which is printed; `STILLFRAME_TEST_SEED` runs one seed again, and `STILLFRAME_TEST_HISTORIES` says how
//! many are tried.
#![allow(unsafe_code)]

use crate::common::content::{Content, check_version, first_difference};
use crate::common::{Dir, trackers, watchdog};
use crate::seed::Seed;
use crate::tier::by_tier;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::Cell;
use std::time::Duration;
use stillframe::{
    Array, Error, Loaned, MemoryUnit, Observer, Outcome, Region, RegionOptions, Rule, Snapshot, Tracked, TrackerKind,
};

const MIB: usize = 1 << 20;
/// Bytes that variables have: around pages and windows of 2 MiB, and some of each in between.
const SIZES: [usize; 14] = [
    0,
    1,
    100,
    4096,
    4097,
    50_000,
    100_000,
    1_000_000,
    2 * MIB - 4096,
    2 * MIB,
    2 * MIB + 1,
    2 * MIB + 700_000,
    4 * MIB,
    5 * MIB,
];
/// Versions that are held at a time.
const HELD_MAX: usize = 4;
const MANAGED: usize = 3;

#[derive(Debug, Clone)]
struct Setup {
    bound_bytes: Option<u64>,
    rule: u8,
    keep: usize,
    demote: bool,
    large_pages: bool,
    memory_unit: MemoryUnit,
    /// Managed variables there are. One alone gets into more trouble in as many steps.
    variables: usize,
    /// Bytes that variables of this history have. Few, so that they often get back a size that they had.
    sizes: [usize; MANAGED],
    /// Whether all memory is looked at after each step, which enters pages that nobody wrote.
    look: bool,
}

/// Numbers stand for a share of what there is when the step comes, so that steps mean something in any order.
#[derive(Debug, Clone)]
enum Step {
    Write {
        variable: usize,
        at: u32,
        bytes: usize,
    },
    /// To the size with this number.
    Resize {
        variable: usize,
        size: usize,
    },
    /// As the containers of C++ grow: written behind the end first, then resized, as far as there was memory before.
    Extend {
        variable: usize,
        bytes: usize,
    },
    Mark {
        variable: usize,
        at: u32,
        bytes: usize,
    },
    /// Pins a managed variable, or ends that.
    Pin {
        variable: usize,
        pinned: bool,
    },
    /// Adds or removes a managed variable.
    Toggle {
        variable: usize,
    },
    Lend {
        submit: bool,
    },
    ResizeLoaned {
        size: usize,
    },
    WriteTracked {
        buffer: usize,
        at: u32,
        bytes: usize,
    },
    ResizeTracked {
        buffer: usize,
        offset: usize,
        bytes: usize,
    },
    Publish {
        tracked: Option<usize>,
        times: usize,
    },
    /// Publishes more than there may be, so that all memory that can be given back is.
    Overfill,
    /// Many publishes between which single bytes are written, so that the rest turns cold.
    Quiet {
        publishes: usize,
        at: u32,
    },
    Hold,
    LetGo {
        index: usize,
    },
    /// Ends the producer and begins the next, perhaps with another size for one variable.
    Recover {
        change: Option<(usize, usize)>,
    },
}

fn size() -> impl Strategy<Value = usize> {
    select(&SIZES[..])
}

fn span() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1), 1..10_000usize, 1..300_000usize, Just(usize::MAX)]
}

fn setup() -> impl Strategy<Value = Setup> {
    let bound_bytes = prop_oneof![
        2 => Just(None),
        5 => select(&[1u64, 2, 3, 4, 6, 9, 14][..]).prop_map(|mib| Some(mib << 20)),
    ];
    let switches = (prop::bool::weighted(0.8), any::<bool>(), any::<bool>(), any::<bool>());
    let variables = prop_oneof![2 => Just(1), 1 => Just(MANAGED)];
    (bound_bytes, 0..3u8, 1..4usize, variables, [size(), size(), size()], switches).prop_map(
        |(bound_bytes, rule, keep, variables, sizes, (demote, large_pages, large_units, look))| Setup {
            bound_bytes,
            rule,
            keep,
            demote,
            large_pages,
            memory_unit: if large_units { MemoryUnit::Large } else { MemoryUnit::Small },
            variables,
            sizes,
            look,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    // The first variable is the only one of most histories.
    let (variable, number) = (|| prop_oneof![3 => Just(0), 1 => 1..MANAGED], || 0..MANAGED);
    prop_oneof![
        6 => (variable(), any::<u32>(), span()).prop_map(|(variable, at, bytes)| Step::Write { variable, at, bytes }),
        4 => (variable(), number()).prop_map(|(variable, size)| Step::Resize { variable, size }),
        2 => (variable(), span()).prop_map(|(variable, bytes)| Step::Extend { variable, bytes }),
        4 => (variable(), any::<u32>(), span()).prop_map(|(variable, at, bytes)| Step::Mark { variable, at, bytes }),
        2 => (variable(), any::<bool>()).prop_map(|(variable, pinned)| Step::Pin { variable, pinned }),
        1 => variable().prop_map(|variable| Step::Toggle { variable }),
        1 => any::<bool>().prop_map(|submit| Step::Lend { submit }),
        1 => number().prop_map(|size| Step::ResizeLoaned { size }),
        1 => (0..2usize, any::<u32>(), span())
            .prop_map(|(buffer, at, bytes)| Step::WriteTracked { buffer, at, bytes }),
        1 => (0..2usize, 0..5000usize, size())
            .prop_map(|(buffer, offset, bytes)| Step::ResizeTracked { buffer, offset, bytes }),
        10 => (prop::option::of(0..2usize), 1..3usize)
            .prop_map(|(tracked, times)| Step::Publish { tracked, times }),
        4 => Just(Step::Overfill),
        // A few teach a window that pages are written again and again, many that the others are not.
        5 => (prop_oneof![4 => 2..8usize, 1 => 34..60usize], any::<u32>())
            .prop_map(|(publishes, at)| Step::Quiet { publishes, at }),
        2 => Just(Step::Hold),
        2 => (0..HELD_MAX).prop_map(|index| Step::LetGo { index }),
        1 => prop::option::weighted(0.3, (variable(), number())).prop_map(|change| Step::Recover { change }),
    ]
}

struct Held {
    snapshot: Snapshot,
    content: Content,
}

const NAMES: [&str; MANAGED] = ["a", "b", "c"];

/// A producer, and a plain copy of what it and its observers must have.
struct Play {
    setup: Setup,
    tracker: TrackerKind,
    dir: Dir,
    region: Option<Region>,
    managed: [Option<(Array<u8>, Vec<u8>)>; MANAGED],
    /// Bytes that they can have without moving, at least.
    room: [usize; MANAGED],
    loaned: Option<Loaned<u8>>,
    /// What the next version shows of the loaned variable.
    lent: Vec<u8>,
    tracked: Option<Tracked<u8>>,
    /// Memory that the program tracks, and where in it the array begins.
    buffers: Vec<(Vec<u8>, usize)>,
    /// What versions show of the tracked variable until it is given again.
    given: Option<Vec<u8>>,
    /// The newest version's content.
    newest: Option<Content>,
    /// What the recovered version has of variables that were not declared yet.
    dormant: Content,
    version: u64,
    stamp: u8,
    observer: Option<Observer>,
    held: Vec<Held>,
    refusals: usize,
    /// Bytes of managed memory that came to exist in the planes alone while it was quiet.
    demoted_bytes: usize,
}

/// The place of a step's range in so many bytes.
fn range(at: u32, bytes: usize, length: usize) -> std::ops::Range<usize> {
    let start = ((u64::from(at) * length as u64) >> 32) as usize;
    if bytes == usize::MAX { 0..length } else { start..start.saturating_add(bytes).min(length) }
}

/// What a variable begins with that is declared: what was recovered, if it has as many bytes, or zeros.
fn begin(dormant: &mut Content, name: &str, bytes: usize) -> Vec<u8> {
    dormant.remove(name).filter(|content| content.len() == bytes).unwrap_or_else(|| vec![0; bytes])
}

impl Play {
    fn new(tracker: TrackerKind, setup: &Setup) -> Play {
        let mut play = Play {
            setup: setup.clone(),
            tracker,
            dir: Dir::new("history"),
            region: None,
            managed: [const { None }; MANAGED],
            room: [0; MANAGED],
            loaned: None,
            lent: vec![0; 30_000],
            tracked: None,
            buffers: vec![(vec![0; 150_000], 300), (vec![0; 150_000], 0)],
            given: None,
            newest: None,
            dormant: Content::new(),
            version: 0,
            stamp: 0,
            observer: None,
            held: Vec::new(),
            refusals: 0,
            demoted_bytes: 0,
        };
        let is_there = |number: usize| number < setup.variables;
        play.open(std::array::from_fn(|number| is_there(number).then_some(setup.sizes[number])), 30_000);
        play
    }

    fn options(&self) -> RegionOptions {
        let Setup { bound_bytes, rule, keep, demote, large_pages, memory_unit, .. } = self.setup;
        let rule = match rule {
            0 => Rule::Skip,
            1 => Rule::Fail,
            _ => Rule::Wait { timeout: Some(Duration::from_millis(3)) },
        };
        let options = self.dir.options().tracker(self.tracker).keep(keep).rule(rule);
        let options = options.demote(demote).large_pages(large_pages).memory_unit(memory_unit);
        match bound_bytes {
            Some(bytes) => options.bound_bytes(bytes),
            None => options,
        }
    }

    /// Begins as the producer, with variables of these sizes.
    fn open(&mut self, sizes: [Option<usize>; MANAGED], loaned_bytes: usize) {
        let mut region = self.options().create("r").unwrap();
        self.dormant = self.newest.clone().unwrap_or_default();
        let mut recovered = |name: &str, bytes: usize| begin(&mut self.dormant, name, bytes);
        for (index, (name, bytes)) in NAMES.into_iter().zip(sizes).enumerate() {
            self.managed[index] =
                bytes.map(|bytes| (region.array::<u8>(name, &[bytes]).unwrap(), recovered(name, bytes)));
            self.room[index] = bytes.unwrap_or(0);
        }
        self.loaned = Some(region.loaned::<u8>("loaned", &[loaned_bytes]).unwrap());
        self.lent = recovered("loaned", loaned_bytes);
        self.tracked = Some(region.track::<u8>("tracked").unwrap());
        self.given = None;
        self.region = Some(region);
        self.observer = Some(self.dir.observe("r"));
    }

    fn stamp(&mut self) -> u8 {
        self.stamp = self.stamp % 255 + 1;
        self.stamp
    }

    fn run(&mut self, step: &Step) -> Result<(), String> {
        let stamp = self.stamp();
        let region = self.region.as_mut().unwrap();
        match *step {
            Step::Write { variable, at, bytes } => {
                if let Some((array, copy)) = &mut self.managed[variable] {
                    let range = range(at, bytes, copy.len());
                    region.slice_mut(array)[range.clone()].fill(stamp);
                    copy[range].fill(stamp);
                }
            }
            Step::Resize { variable, size } => {
                let bytes = self.setup.sizes[size];
                if let Some((array, copy)) = &mut self.managed[variable] {
                    let (id, before) = (array.id(), region.managed_bytes(array.id()).unwrap().0);
                    match (region.resize(id, &[bytes]), region.declared(id).unwrap().pinned) {
                        (Ok(()), false) => {}
                        (Ok(()), true) if region.managed_bytes(id).unwrap().0 == before => {}
                        (Err(Error::IsPinned { room_bytes, .. }), true) if bytes > room_bytes => return self.check(),
                        (resized, pinned) => return Err(format!("{resized:?} though pinned is {pinned}")),
                    }
                    copy.resize(bytes, 0);
                    self.room[variable] = self.room[variable].max(bytes);
                }
            }
            Step::Extend { variable, bytes } => {
                if let Some((array, copy)) = &mut self.managed[variable] {
                    let (old, new) = (copy.len(), copy.len().saturating_add(bytes).min(self.room[variable]));
                    let (address, _) = region.managed_bytes(array.id()).unwrap();
                    // SAFETY: the variable had as many bytes, so that it has memory there, which nobody else refers to.
                    unsafe { address.add(old).write_bytes(stamp, new - old) };
                    region.resize(array.id(), &[new]).unwrap();
                    copy.resize(new, stamp);
                }
            }
            Step::Mark { variable, at, bytes } => {
                if let Some((array, copy)) = &self.managed[variable] {
                    region.mark_dirty(array.id(), range(at, bytes, copy.len())).unwrap();
                }
            }
            Step::Pin { variable, pinned } => {
                if let Some((array, _)) = &self.managed[variable] {
                    match pinned {
                        true => region.pin(array.id()).unwrap(),
                        false => region.unpin(array.id()).unwrap(),
                    }
                }
            }
            Step::Toggle { variable } if variable >= self.setup.variables => {}
            Step::Toggle { variable } => match self.managed[variable].take() {
                Some(_) => region.remove(NAMES[variable]).unwrap(),
                None => {
                    let bytes = self.setup.sizes[variable];
                    self.room[variable] = bytes;
                    let array = region.array::<u8>(NAMES[variable], &[bytes]).unwrap();
                    self.managed[variable] = Some((array, begin(&mut self.dormant, NAMES[variable], bytes)));
                }
            },
            Step::Lend { submit } => match region.loan(&self.loaned.unwrap()) {
                Ok(mut loan) => {
                    loan.fill(stamp);
                    if submit {
                        loan.submit();
                        self.lent.fill(stamp);
                    }
                }
                Err(error) => self.check_refusal(&error)?,
            },
            Step::ResizeLoaned { size } => {
                let bytes = self.setup.sizes[size];
                region.resize(self.loaned.unwrap().id(), &[bytes]).unwrap();
                self.lent = vec![0; bytes];
            }
            Step::WriteTracked { buffer, at, bytes } => {
                let (memory, offset) = &mut self.buffers[buffer];
                let length = memory.len() - *offset;
                memory[*offset..][range(at, bytes, length)].fill(stamp);
            }
            Step::ResizeTracked { buffer, offset, bytes } => {
                self.buffers[buffer] = (vec![stamp; offset + bytes], offset);
            }
            Step::Publish { tracked, times } => (0..times).try_for_each(|_| self.publish(tracked))?,
            Step::Overfill => {
                if let Some(bound_bytes) = self.setup.bound_bytes {
                    let published = self.given.take();
                    self.buffers.push((vec![stamp; bound_bytes as usize + 4096], 0));
                    let is_published = self.try_publish(Some(2))?;
                    self.buffers.pop();
                    self.given = published;
                    if is_published {
                        return Err("more bytes were published than there may be".into());
                    }
                }
            }
            Step::Quiet { publishes, at } => {
                self.publish(None)?;
                let before = self.working_bytes();
                for _ in 0..publishes {
                    let stamp = self.stamp();
                    let region = self.region.as_mut().unwrap();
                    for (array, copy) in self.managed.iter_mut().flatten() {
                        let range = range(at, 1, copy.len());
                        region.slice_mut(array)[range.clone()].fill(stamp);
                        copy[range].fill(stamp);
                    }
                    self.try_publish(None)?;
                }
                self.demoted_bytes += before.saturating_sub(self.working_bytes());
                self.publish(None)?;
            }
            Step::Hold => {
                if let (Some(content), true) = (&self.newest, self.held.len() < HELD_MAX) {
                    let snapshot = self.observer.as_ref().unwrap().newest().map_err(|error| error.to_string())?;
                    self.held.push(Held { snapshot, content: content.clone() });
                }
            }
            Step::LetGo { index } => {
                if index < self.held.len() {
                    self.held.remove(index);
                }
            }
            Step::Recover { change } => {
                self.observer = None;
                self.region = None;
                let mut sizes = self.managed.each_ref().map(|managed| managed.as_ref().map(|(_, copy)| copy.len()));
                if let Some((variable, size)) = change
                    && variable < self.setup.variables
                {
                    sizes[variable] = Some(self.setup.sizes[size]);
                }
                self.open(sizes, self.lent.len());
            }
        }
        self.check()
    }

    fn working_bytes(&self) -> usize {
        self.region.as_ref().unwrap().statistics().working_bytes as usize
    }

    fn check_refusal(&mut self, error: &Error) -> Result<(), String> {
        self.refusals += 1;
        match error {
            Error::Bound { .. } if self.setup.bound_bytes.is_some() => Ok(()),
            error => Err(format!("{error:?}")),
        }
    }

    /// Publishes, and checks the version if there is one.
    fn publish(&mut self, buffer: Option<usize>) -> Result<(), String> {
        if !self.try_publish(buffer)? {
            return Ok(());
        }
        let snapshot = self.observer.as_ref().unwrap().newest().map_err(|error| error.to_string())?;
        if snapshot.version() != self.version {
            return Err(format!("the newest version is {}, not {}", snapshot.version(), self.version));
        }
        check_version(&snapshot, self.newest.as_ref().unwrap())
    }

    fn try_publish(&mut self, buffer: Option<usize>) -> Result<bool, String> {
        self.version += 2;
        let mut publication = self.region.as_mut().unwrap().publish(self.version);
        let slice = buffer.map(|buffer| {
            let (memory, offset) = &self.buffers[buffer];
            &memory[*offset..]
        });
        if let Some(slice) = slice {
            publication = publication.tracked(&self.tracked.unwrap(), slice, &[slice.len()]);
        }
        match publication.commit() {
            Ok(published) if published.outcome == Outcome::Published => {}
            Ok(_) if self.setup.bound_bytes.is_some() && self.setup.rule == 0 => {
                self.refusals += 1;
                return Ok(false);
            }
            Ok(published) => return Err(format!("{published:?}")),
            Err(error) => return self.check_refusal(&error).map(|()| false),
        }
        self.given = slice.map(<[u8]>::to_vec).or(self.given.take());
        let mut content = Content::new();
        for (name, managed) in NAMES.into_iter().zip(&self.managed) {
            if let Some((_, copy)) = managed {
                content.insert(name, copy.clone());
            }
        }
        content.insert("loaned", self.lent.clone());
        if let Some(given) = &self.given {
            content.insert("tracked", given.clone());
        }
        self.newest = Some(content);
        self.dormant.clear();
        Ok(true)
    }

    /// Compares everything with the copy.
    fn check(&self) -> Result<(), String> {
        self.held.iter().try_for_each(|held| check_version(&held.snapshot, &held.content))?;
        if self.setup.look { self.check_memory() } else { Ok(()) }
    }

    fn check_memory(&self) -> Result<(), String> {
        let region = self.region.as_ref().unwrap();
        for (name, managed) in NAMES.into_iter().zip(&self.managed) {
            if let Some((array, copy)) = managed
                && let Some(difference) = first_difference(region.slice(array), copy)
            {
                return Err(format!("the program's {name}: {difference}"));
            }
        }
        Ok(())
    }
}

/// Plays a history. Returns how often there was no room, and how many bytes were demoted.
fn play(tracker: TrackerKind, setup: &Setup, steps: &[Step]) -> Result<(usize, usize), String> {
    let mut play = Play::new(tracker, setup);
    for (number, step) in steps.iter().enumerate() {
        play.run(step).map_err(|why| format!("step {number}, {step:?}: {why}"))?;
    }
    play.check_memory()?;
    // What nobody holds any more makes room, and no page is lost on the way there.
    play.held.clear();
    play.publish(None)?;
    play.check_memory()?;
    Ok((play.refusals, play.demoted_bytes))
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn whatever_a_producer_does_its_memory_and_its_versions_stay_what_they_are() {
    let histories = number("STILLFRAME_TEST_HISTORIES").unwrap_or_else(|| by_tier(10, 40));
    let _watchdog = watchdog(600 + 10 * histories);
    // The same ones each time, unless others are asked for.
    let seeds = match Seed::asked() {
        Seed::Usual => 0..histories,
        Seed::Given(seed) => seed..seed + 1,
        Seed::Random(first) => first..first + histories,
    };
    eprintln!("STILLFRAME_TEST_SEED={}, and those after it", seeds.start);
    for tracker in trackers() {
        let totals = Cell::new((0, 0));
        for seed in seeds.clone() {
            let config = Config { cases: 1, failure_persistence: None, max_shrink_iters: 3000, ..Config::default() };
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&seed.to_le_bytes());
            let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
            let steps = prop::collection::vec(step(), 1..60);
            let result = runner.run(&(setup(), steps), |(setup, steps)| {
                let (refusals, demoted_bytes) = play(tracker, &setup, &steps).map_err(TestCaseError::fail)?;
                let (all_refusals, all_demoted_bytes) = totals.get();
                totals.set((all_refusals + refusals, all_demoted_bytes + demoted_bytes));
                Ok(())
            });
            if let Err(TestError::Fail(why, (setup, steps))) = result {
                panic!("{tracker}, STILLFRAME_TEST_SEED={seed}: {why}\n{setup:?}\n{steps:#?}");
            }
        }
        let (refusals, demoted_bytes) = totals.get();
        eprintln!(
            "{tracker}: {} histories, {refusals} refusals, {demoted_bytes} bytes demoted",
            seeds.end - seeds.start
        );
        if seeds.end - seeds.start >= 40 {
            // Histories in which nothing happens prove nothing.
            assert!(refusals > 0, "{tracker}");
            assert!(demoted_bytes > 0 || tracker == TrackerKind::FullCopy, "{tracker}");
        }
    }
}
