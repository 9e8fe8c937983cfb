//! One run: a producer, observers, and the plain copy.

use crate::common::content::{Content, check_version, first_difference};
use crate::common::{Dir, Numbers, trackers};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use stillframe::TrackerKind;
use stillframe::{Array, Error, Loaned, Observer, Outcome, Region, RegionOptions, Rule, Snapshot, Tracked};
use stillframe_kernel::points::{Death, Fate, set_fate};

const NAMES: [&str; 2] = ["a", "b"];
/// Bytes that variables have: around pages, and rarely around a window.
const SIZES: [usize; 10] = [0, 1, 100, 4095, 4096, 5000, 12_288, 20_000, 70_000, (2 << 20) + 5000];
/// Versions that are held at a time.
const HELD_MAX: usize = 3;
/// A death comes after at most so many points, calls and writes.
const FATE_MAX: usize = 60;

/// What happened in all runs.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    pub runs: u64,
    pub published: u64,
    pub deaths: u64,
    pub deaths_in_recovery: u64,
    /// Versions that were committed by who died before he knew.
    pub half_done: u64,
    pub failures: u64,
    pub refusals: u64,
    /// Versions that another machine held.
    pub held_elsewhere: u64,
}

impl Totals {
    pub fn plus(self, other: Totals) -> Totals {
        Totals {
            runs: self.runs + other.runs,
            published: self.published + other.published,
            deaths: self.deaths + other.deaths,
            deaths_in_recovery: self.deaths_in_recovery + other.deaths_in_recovery,
            half_done: self.half_done + other.half_done,
            failures: self.failures + other.failures,
            refusals: self.refusals + other.refusals,
            held_elsewhere: self.held_elsewhere + other.held_elsewhere,
        }
    }
}

/// A producer as it lives, with what its program knows.
struct Producer {
    region: Region,
    managed: [Option<(Array<u8>, Vec<u8>)>; 2],
    loaned: Loaned<u8>,
    /// What the next version shows of the loaned variable.
    lent: Vec<u8>,
    tracked: Tracked<u8>,
    /// What versions show of the tracked variable, once it was given.
    given: Option<Vec<u8>>,
}

struct Held {
    snapshot: Snapshot,
    content: Content,
}

/// What came of a call, or what is wrong with what it left.
type Checked = Result<Result<(), Error>, String>;

/// Where the region of a run lies.
pub struct Place {
    /// Its directory.
    pub dir: PathBuf,
    /// Another machine that sees it too.
    pub elsewhere: Option<Box<dyn Elsewhere>>,
    /// What is removed when this is dropped.
    #[allow(dead_code, reason = "it is kept for its end")]
    pub kept: Dir,
}

/// Another machine, whose kernel does not know the locks of this one.
pub trait Elsewhere {
    /// Where it sees the region.
    fn dir(&self) -> &Path;

    /// Has what was let go there shown to be so.
    fn settle(&self);
}

pub struct World<'a> {
    numbers: Numbers,
    place: Place,
    tracker: TrackerKind,
    keep: usize,
    bound_bytes: Option<u64>,
    skips: bool,
    producer: Option<Producer>,
    /// Memory that the program tracks.
    buffer: Vec<u8>,
    /// The newest version that was committed, with its content.
    newest: Option<(u64, Content)>,
    /// Those before it, for who returns to one.
    older: BTreeMap<u64, Content>,
    /// One who looks all the time, whoever produces.
    observer: Option<Observer>,
    /// The one whose commit was under way when the producer died.
    doubtful: Option<(u64, Content)>,
    version: u64,
    stamp: u8,
    held: Vec<Held>,
    totals: &'a mut Totals,
    log: bool,
    steps: Vec<String>,
}

/// How a step ended for the producer.
enum End<T> {
    Done(T),
    Died,
}

impl<'a> World<'a> {
    /// Plays the run of a seed, in a place.
    pub fn play(
        seed: u64,
        log: bool,
        totals: &'a mut Totals,
        place: impl FnOnce(&mut Numbers) -> Place,
    ) -> Result<(), String> {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5151);
        for _ in 0..4 {
            numbers.next();
        }
        let place = place(&mut numbers);
        let all: Vec<TrackerKind> = trackers().into_iter().filter(|kind| *kind != TrackerKind::SoftDirty).collect();
        let tracker = all[numbers.below(all.len())];
        let bound_bytes = (numbers.below(3) == 0).then(|| [64u64 << 10, 256 << 10, 3 << 20][numbers.below(3)]);
        let (keep, skips) = (1 + numbers.below(3), numbers.below(2) == 0);
        totals.runs += 1;
        let mut world = World {
            numbers,
            place,
            tracker,
            keep,
            bound_bytes,
            skips,
            producer: None,
            buffer: vec![0; 9000],
            newest: None,
            older: BTreeMap::new(),
            observer: None,
            doubtful: None,
            version: 0,
            stamp: 0,
            held: Vec::new(),
            totals,
            log,
            steps: Vec::new(),
        };
        let played = world.run();
        set_fate(None);
        let setting = format!("{} keep {keep} bound {bound_bytes:?} skip {skips}", tracker.name());
        played.map_err(|why| format!("{why}\n{setting}\n{}", world.steps.join("\n")))
    }

    fn run(&mut self) -> Result<(), String> {
        let steps = 5 + self.numbers.below(25);
        self.begin()?;
        for _ in 0..steps {
            self.step()?;
            self.check_held()?;
            if self.producer.is_none() {
                self.begin()?;
            }
            self.check_newest()?;
            self.check_observer()?;
        }
        // The end is a good one, and nothing is left over.
        self.held.clear();
        self.settle();
        self.say("end");
        self.publish(None)?;
        self.check_newest()?;
        let damage = stillframe::inspect::verify(&self.place.dir, "r").map_err(|error| error.to_string())?;
        if !damage.is_empty() {
            return Err(format!("{damage:?}"));
        }
        match self.producer.take() {
            Some(producer) => producer.region.unlink().map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    fn say(&mut self, what: impl Into<String>) {
        let what = what.into();
        if self.log {
            eprintln!("{what}");
        }
        self.steps.push(what);
    }

    fn stamp(&mut self) -> u8 {
        self.stamp = self.stamp % 255 + 1;
        self.stamp
    }

    fn options(&self) -> RegionOptions {
        let rule = if self.skips { Rule::Skip } else { Rule::Fail };
        let options =
            Region::options().dir(&self.place.dir).tracker(self.tracker).keep(self.keep).rule(rule).threads(1);
        match self.bound_bytes {
            Some(bytes) => options.bound_bytes(bytes),
            None => options,
        }
    }

    /// A fate for what comes next, mostly none.
    fn fate(&mut self) -> Option<(Fate, u64)> {
        let after = self.numbers.below(FATE_MAX) as u64;
        let fate = match self.numbers.below(10) {
            0..3 => Some((Fate::Dies, after)),
            3 => Some((Fate::Fails, after / 8)),
            _ => None,
        };
        if let Some((fate, after)) = fate {
            self.say(format!("  {fate:?} after {after}"));
        }
        fate
    }

    /// Begins as the producer, however often that fails, and takes up what it finds.
    fn begin(&mut self) -> Result<(), String> {
        loop {
            self.say("begin");
            let sizes = [0, 1].map(|_| self.numbers.below(SIZES.len()));
            let known = self.newest.as_ref().map(|(_, content)| content.clone()).unwrap_or_default();
            // Mostly the sizes that there were.
            let is_same = self.numbers.below(4) > 0;
            let size = |index: usize| match known.get(NAMES[index]) {
                Some(content) if is_same => content.len(),
                _ => SIZES[sizes[index]],
            };
            let (sizes, lent_bytes) = ([size(0), size(1)], known.get("loaned").map_or(9000, Vec::len));
            let wanted = self.rollback();
            let options = match wanted {
                Some(version) => self.options().rollback(version),
                None => self.options(),
            };
            let fate = self.fate();
            let made = guarded(fate, move || {
                let mut region = options.create("r")?;
                let managed = [0, 1].map(|index| region.array::<u8>(NAMES[index], &[sizes[index]]));
                let [a, b] = managed;
                let (loaned, tracked) = (region.loaned::<u8>("loaned", &[lent_bytes])?, region.track::<u8>("tracked")?);
                Ok::<_, Error>((region, [a?, b?], loaned, tracked))
            });
            match made {
                (End::Died, _) => {
                    self.totals.deaths += 1;
                    self.totals.deaths_in_recovery += 1;
                    self.say("  died");
                    self.learn_rollback(wanted)?;
                }
                (End::Done(Err(error)), has_failed) if has_failed => {
                    self.refuse(&error);
                    self.learn_rollback(wanted)?;
                }
                // A rank may go first for want of room, or be retired by now.
                (End::Done(Err(Error::VersionGone { .. })), _) if wanted.is_some() => self.say("  gone"),
                (End::Done(Err(error)), _) => return Err(format!("{error}")),
                (End::Done(Ok((region, arrays, loaned, tracked))), has_failed) => {
                    self.totals.failures += u64::from(has_failed);
                    if let Some(version) = wanted {
                        self.return_to(version);
                    }
                    return self.take_up(region, arrays, sizes, loaned, lent_bytes, tracked);
                }
            }
        }
    }

    /// A version to return to, seldom.
    fn rollback(&mut self) -> Option<u64> {
        let is_certain = self.doubtful.is_none();
        if !is_certain || self.numbers.below(6) > 0 {
            return None;
        }
        let listed = Observer::options().dir(&self.place.dir).open("r").map(|observer| observer.versions());
        let there = listed.unwrap_or_default().into_iter().filter(|info| !info.retiring).map(|info| info.version);
        let known: Vec<u64> = there.filter(|version| self.older.contains_key(version)).collect();
        if known.is_empty() {
            return None;
        }
        let version = known[self.numbers.below(known.len())];
        self.say(format!("return to {version}"));
        Some(version)
    }

    /// An older version is the newest again.
    fn return_to(&mut self, version: u64) {
        if let Some(content) = self.older.get(&version).cloned() {
            self.newest = Some((version, content));
            self.older.retain(|older, _| *older < version);
        }
    }

    /// Whoever died over a return may have come as far as that.
    fn learn_rollback(&mut self, wanted: Option<u64>) -> Result<(), String> {
        let Some(wanted) = wanted else { return Ok(()) };
        let seen = self.newest_snapshot()?.version();
        if seen == wanted {
            self.return_to(wanted);
        }
        Ok(())
    }

    fn refuse(&mut self, error: &Error) {
        self.totals.failures += 1;
        self.say(format!("  failed: {error}"));
    }

    fn take_up(
        &mut self,
        region: Region,
        arrays: [Array<u8>; 2],
        sizes: [usize; 2],
        loaned: Loaned<u8>,
        lent_bytes: usize,
        tracked: Tracked<u8>,
    ) -> Result<(), String> {
        let found = region.recovered();
        let doubtful = self.doubtful.take();
        if doubtful.as_ref().is_some_and(|(version, _)| Some(*version) == found) {
            self.totals.half_done += 1;
            self.set_newest(doubtful);
        }
        let known = self.newest.as_ref().map(|(version, _)| *version);
        if found != known {
            return Err(format!("version {found:?} was recovered, not {known:?}"));
        }
        let content = self.newest.as_ref().map(|(_, content)| content.clone()).unwrap_or_default();
        let begin = |name: &str, bytes: usize| {
            content.get(name).filter(|content| content.len() == bytes).cloned().unwrap_or_else(|| vec![0; bytes])
        };
        let mut managed = [None, None];
        for (index, array) in arrays.into_iter().enumerate() {
            let copy = begin(NAMES[index], sizes[index]);
            same("recovered", NAMES[index], region.slice(&array), &copy)?;
            managed[index] = Some((array, copy));
        }
        let lent = begin("loaned", lent_bytes);
        self.producer = Some(Producer { region, managed, loaned, lent, tracked, given: None });
        Ok(())
    }

    fn set_newest(&mut self, newest: Option<(u64, Content)>) {
        self.older.extend(std::mem::replace(&mut self.newest, newest));
    }

    fn step(&mut self) -> Result<(), String> {
        let (stamp, variable) = (self.stamp(), self.numbers.below(2));
        let share = |numbers: &mut Numbers, length: usize| {
            let start = numbers.below(length + 1);
            start..start + numbers.below(length - start + 1)
        };
        match self.numbers.below(20) {
            0..5 => {
                let Some(producer) = &mut self.producer else { return Ok(()) };
                if let Some((array, copy)) = &mut producer.managed[variable] {
                    let range = share(&mut self.numbers, copy.len());
                    if self.numbers.below(4) == 0 {
                        // What a device may have written, though it has not.
                        self.say(format!("mark {variable} {range:?}"));
                        return self.mark(variable, range);
                    }
                    producer.region.slice_mut(array)[range.clone()].fill(stamp);
                    copy[range.clone()].fill(stamp);
                    self.say(format!("write {variable} {range:?}"));
                }
                Ok(())
            }
            5..8 => self.resize(variable),
            8 => self.toggle(variable),
            9 | 10 => self.lend(stamp),
            11 => {
                let range = share(&mut self.numbers, self.buffer.len());
                self.buffer[range].fill(stamp);
                self.say("write tracked");
                Ok(())
            }
            12..17 => {
                let gives = self.numbers.below(3) == 0;
                self.say(format!("publish, tracked {gives}"));
                let fate = self.fate();
                self.publish_with(gives, fate)
            }
            17 => {
                if self.held.len() < HELD_MAX
                    && let Some((_, content)) = &self.newest
                {
                    let content = content.clone();
                    let snapshot = match &self.place.elsewhere {
                        Some(elsewhere) if self.numbers.below(3) > 0 => {
                            self.totals.held_elsewhere += 1;
                            newest_in(elsewhere.dir())?
                        }
                        _ => self.newest_snapshot()?,
                    };
                    self.held.push(Held { snapshot, content });
                    self.say("hold");
                }
                Ok(())
            }
            18 => {
                if !self.held.is_empty() {
                    let index = self.numbers.below(self.held.len());
                    self.held.remove(index);
                    self.settle();
                    self.say(format!("let go {index}"));
                }
                Ok(())
            }
            _ => {
                // A good end.
                self.say("close");
                self.producer = None;
                Ok(())
            }
        }
    }

    fn mark(&mut self, variable: usize, range: Range<usize>) -> Result<(), String> {
        let marked = self.producer.as_mut().and_then(|producer| {
            let (array, _) = producer.managed[variable].as_ref()?;
            Some(producer.region.mark_dirty(array.id(), range))
        });
        marked.unwrap_or(Ok(())).map_err(|error| error.to_string())
    }

    /// Does something with the producer, which may be its end.
    fn with<T>(&mut self, fate: Option<(Fate, u64)>, work: impl FnOnce(&mut Producer) -> T) -> Option<(T, bool)> {
        let mut producer = self.producer.take()?;
        // What dies with the producer, and what stays for the next one, is decided by what is moved there.
        let (end, has_failed) = guarded(fate, move || {
            let result = work(&mut producer);
            (producer, result)
        });
        match end {
            End::Done((producer, result)) => {
                self.producer = Some(producer);
                Some((result, has_failed))
            }
            End::Died => {
                self.totals.deaths += 1;
                self.say("  died");
                None
            }
        }
    }

    fn resize(&mut self, variable: usize) -> Result<(), String> {
        let size = SIZES[self.numbers.below(SIZES.len())];
        self.say(format!("resize {variable} to {size}"));
        let fate = self.fate();
        let resized = self.with(fate, |producer| match &mut producer.managed[variable] {
            Some((array, copy)) => {
                let resized = producer.region.resize(array.id(), &[size]);
                if resized.is_ok() {
                    copy.resize(size, 0);
                }
                same("resized", NAMES[variable], producer.region.slice(array), copy).map(|()| resized)
            }
            None => Ok(Ok(())),
        });
        self.expect(resized)
    }

    /// What came of a call that may have failed because it was to.
    fn expect(&mut self, done: Option<(Checked, bool)>) -> Result<(), String> {
        match done {
            None => Ok(()),
            Some((Err(why), _)) => Err(why),
            Some((Ok(Ok(())), has_failed)) => {
                self.totals.failures += u64::from(has_failed);
                Ok(())
            }
            Some((Ok(Err(error)), true)) => {
                self.refuse(&error);
                Ok(())
            }
            Some((Ok(Err(error)), false)) => Err(error.to_string()),
        }
    }

    fn toggle(&mut self, variable: usize) -> Result<(), String> {
        let size = SIZES[self.numbers.below(SIZES.len())];
        self.say(format!("toggle {variable}, {size}"));
        let fate = self.fate();
        let dormant = self.dormant(variable, size);
        let toggled = self.with(fate, |producer| match producer.managed[variable].take() {
            Some(_) => Ok(producer.region.remove(NAMES[variable])),
            None => match producer.region.array::<u8>(NAMES[variable], &[size]) {
                Ok(array) => {
                    let found = producer.region.slice(&array).to_vec();
                    let is_right = found.iter().all(|byte| *byte == 0) || dormant.as_ref() == Some(&found);
                    producer.managed[variable] = Some((array, found));
                    match is_right {
                        true => Ok(Ok(())),
                        false => {
                            Err(format!("what was declared of {variable} is neither zeros nor what was recovered"))
                        }
                    }
                }
                Err(error) => Ok(Err(error)),
            },
        });
        self.expect(toggled)
    }

    /// What a variable that is declared again may begin with, besides zeros.
    fn dormant(&self, variable: usize, bytes: usize) -> Option<Vec<u8>> {
        let (_, content) = self.newest.as_ref()?;
        content.get(NAMES[variable]).filter(|content| content.len() == bytes).cloned()
    }

    fn lend(&mut self, stamp: u8) -> Result<(), String> {
        let submits = self.numbers.below(3) > 0;
        self.say(format!("lend, submit {submits}"));
        let fate = self.fate();
        let lent = self.with(fate, |producer| {
            let loaned = producer.loaned;
            producer.region.loan(&loaned).map(|mut loan| {
                loan.fill(stamp);
                if submits {
                    loan.submit();
                    producer.lent.fill(stamp);
                }
            })
        });
        match lent {
            Some((Err(error), has_failed)) if has_failed || self.may_refuse(&error) => {
                self.totals.refusals += u64::from(!has_failed);
                self.totals.failures += u64::from(has_failed);
                Ok(())
            }
            Some((Err(error), _)) => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    fn may_refuse(&self, error: &Error) -> bool {
        self.bound_bytes.is_some() && matches!(error, Error::Bound { .. })
    }

    fn publish(&mut self, fate: Option<(Fate, u64)>) -> Result<(), String> {
        self.publish_with(false, fate)
    }

    fn publish_with(&mut self, gives: bool, fate: Option<(Fate, u64)>) -> Result<(), String> {
        let Some(producer) = &self.producer else { return Ok(()) };
        self.version += 2;
        let version = self.version;
        let mut content = Content::new();
        for (name, managed) in NAMES.into_iter().zip(&producer.managed) {
            if let Some((_, copy)) = managed {
                content.insert(name, copy.clone());
            }
        }
        content.insert("loaned", producer.lent.clone());
        let given = gives.then(|| self.buffer.clone()).or(producer.given.clone());
        content.extend(given.clone().map(|given| ("tracked", given)));
        self.doubtful = Some((version, content.clone()));
        let buffer = std::mem::take(&mut self.buffer);
        let kept = &buffer;
        let in_background = self.numbers.below(2) == 0;
        let published = self.with(fate, |producer| {
            let publication = producer.region.publish(version);
            let publication = match gives {
                true => publication.tracked(&producer.tracked, kept, &[kept.len()]),
                false => publication,
            };
            match in_background {
                true => publication.commit_while(|| {}).map(|((), published)| published),
                false => publication.commit(),
            }
        });
        self.buffer = buffer;
        match published {
            // It may have been committed; that is found out by who recovers.
            None => return Ok(()),
            Some((Ok(done), has_failed)) if done.outcome == Outcome::Published => {
                self.totals.failures += u64::from(has_failed);
                self.totals.published += 1;
                self.set_newest(Some((version, content)));
                if let Some(producer) = &mut self.producer {
                    producer.given = given;
                }
            }
            Some((Ok(_), has_failed)) if has_failed || self.skips && self.bound_bytes.is_some() => {
                self.totals.refusals += 1;
                self.say("  skipped");
            }
            Some((Err(error), has_failed)) if has_failed || self.may_refuse(&error) => {
                self.totals.refusals += u64::from(!has_failed);
                self.totals.failures += u64::from(has_failed);
                self.say(format!("  failed: {error}"));
            }
            Some((result, _)) => return Err(format!("{result:?}")),
        }
        self.doubtful = None;
        self.check_memory()
    }

    /// What the program has is what it wrote.
    fn check_memory(&self) -> Result<(), String> {
        let Some(producer) = &self.producer else { return Ok(()) };
        for (name, managed) in NAMES.into_iter().zip(&producer.managed) {
            if let Some((array, copy)) = managed {
                same("the program's", name, producer.region.slice(array), copy)?;
            }
        }
        producer.region.check_accounts()?;
        let taken = producer.region.statistics().plane_bytes;
        match self.bound_bytes {
            Some(bound) if taken > bound => Err(format!("{taken} bytes are taken, {bound} may be")),
            _ => Ok(()),
        }
    }

    fn newest_snapshot(&self) -> Result<Snapshot, String> {
        newest_in(&self.place.dir)
    }

    /// What was let go elsewhere is seen to be free.
    fn settle(&self) {
        self.place.elsewhere.iter().for_each(|elsewhere| elsewhere.settle());
    }

    /// What one sees who looks all the time.
    fn check_observer(&mut self) -> Result<(), String> {
        let Some((version, content)) = &self.newest else { return Ok(()) };
        if self.observer.is_none() {
            self.observer =
                Some(Observer::options().dir(&self.place.dir).open("r").map_err(|error| error.to_string())?);
        }
        let Some(observer) = &self.observer else { return Ok(()) };
        let snapshot = observer.newest().map_err(|error| error.to_string())?;
        match snapshot.version() == *version {
            true => check_version(&snapshot, content),
            false => {
                Err(format!("version {} is the newest to who looks all the time, not {version}", snapshot.version()))
            }
        }
    }

    /// What an observer sees that comes now is the newest version.
    fn check_newest(&self) -> Result<(), String> {
        let Some((version, content)) = &self.newest else { return Ok(()) };
        let snapshot = self.newest_snapshot()?;
        if snapshot.version() != *version {
            return Err(format!("version {} is the newest, not {version}", snapshot.version()));
        }
        check_version(&snapshot, content)
    }

    fn check_held(&self) -> Result<(), String> {
        self.held.iter().try_for_each(|held| check_version(&held.snapshot, &held.content))
    }
}

fn newest_in(dir: &Path) -> Result<Snapshot, String> {
    let observer = Observer::options().dir(dir).open("r");
    observer.and_then(|observer| observer.newest()).map_err(|error| error.to_string())
}

fn same(whose: &str, name: &str, found: &[u8], expected: &[u8]) -> Result<(), String> {
    first_difference(found, expected).map_or(Ok(()), |difference| Err(format!("{whose} {name}: {difference}")))
}

/// Does something under a fate. Tells how it ended, and whether a call was made to fail.
fn guarded<T>(fate: Option<(Fate, u64)>, work: impl FnOnce() -> T) -> (End<T>, bool) {
    set_fate(fate);
    let end = catch_unwind(AssertUnwindSafe(work));
    let has_come = fate.is_some() && set_fate(None).is_none();
    match end {
        Ok(result) => (End::Done(result), has_come),
        Err(payload) if payload.is::<Death>() => (End::Died, false),
        Err(payload) => resume_unwind(payload),
    }
}
