//! One run: a store, who writes it, and what was said to be safe.

use super::disk::Disk;
use super::eyes::{Eyes, KINDS, Kind, Scene};
use super::pool::{CHUNK_BYTES, Pool};
use crate::reading::Numbers;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stillframe_checkpoint::{Checkpoint, Codec, Keep, SaveOptions, Saved, Saver, Store, is_safe, layout, newest_safe};
use stillframe_kernel::points::{Death, Fate, set_fate};
use stillframe_kernel::witness::set_witness;
use tempfile::TempDir;

/// What comes of a fate, comes after at most so many points and calls: a save passes about as many.
const FATE_MAX: usize = 110;

/// What happened in all runs.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    pub runs: u64,
    pub saved: u64,
    pub set_aside: u64,
    pub removed: u64,
    pub deaths: u64,
    pub failures: u64,
    pub crashes: u64,
    /// Crashes with something lost of which the file system had not said that it was on disk.
    pub losses: u64,
    /// Questions what is safe.
    pub questions: u64,
}

impl Totals {
    pub fn plus(self, other: Totals) -> Totals {
        Totals {
            runs: self.runs + other.runs,
            saved: self.saved + other.saved,
            set_aside: self.set_aside + other.set_aside,
            removed: self.removed + other.removed,
            deaths: self.deaths + other.deaths,
            failures: self.failures + other.failures,
            crashes: self.crashes + other.crashes,
            losses: self.losses + other.losses,
            questions: self.questions + other.questions,
        }
    }
}

/// How a call of the library ended.
enum End<T> {
    Done(T),
    Died,
}

pub struct World<'a> {
    pool: &'a Pool,
    dir: TempDir,
    store: PathBuf,
    scene: Rc<RefCell<Scene>>,
    options: SaveOptions,
    keep: Keep,
    saver: Option<Saver>,
    /// The version that was saved last, or was to be.
    last: Option<usize>,
    /// Versions that were said to be safe, and that nothing said since may take away.
    safe: BTreeSet<usize>,
    /// Checkpoints that were found whole, by what tells their files from others, and whose they are.
    known: HashMap<u64, usize>,
    /// Directories that were made.
    places: usize,
    totals: &'a mut Totals,
    steps: Vec<String>,
}

impl<'a> World<'a> {
    /// Plays the run of a seed. With `log`, what is wrong comes with every call.
    pub fn play(pool: &'a Pool, seed: u64, log: bool, totals: &'a mut Totals) -> Result<(), String> {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5151);
        for _ in 0..4 {
            numbers.next();
        }
        let dir = tempfile::Builder::new().prefix("simulator-").tempdir_in("/dev/shm").unwrap();
        let (store, attic) = (dir.path().join("0"), dir.path().join("attic"));
        fs::create_dir(&store).unwrap();
        fs::create_dir(&attic).unwrap();
        let kind = KINDS[[0, 0, 1, 2, 3][numbers.below(5)]];
        let keep = Keep { newest: 1 + numbers.below(3), every: [None, Some(2), Some(3)][numbers.below(3)] };
        let codec = [Codec::Plain, Codec::Lz4, Codec::Zstd { level: 1 }][[0, 0, 0, 0, 1, 2][numbers.below(6)]];
        let options = SaveOptions::new().chunk_bytes(CHUNK_BYTES).codec(codec).threads(1).keep(keep);
        let disk = Disk::new(&store, kind == Kind::Nfs);
        let log = log.then(Vec::new);
        let scene = Rc::new(RefCell::new(Scene { kind, disk, numbers, attic, owner: 0, failures: 0, log }));
        set_witness(Some(Box::new(Eyes(scene.clone()))));
        totals.runs += 1;
        let mut world = World {
            pool,
            dir,
            store,
            scene,
            options,
            keep,
            saver: None,
            last: None,
            safe: BTreeSet::new(),
            known: HashMap::new(),
            places: 0,
            totals,
            steps: Vec::new(),
        };
        let played = catch_unwind(AssertUnwindSafe(|| world.run()));
        set_fate(None);
        set_witness(None);
        let steps = world.steps.join("\n");
        match played {
            Ok(played) => played.map_err(|why| format!("{why}\n{kind:?}, {keep:?}, {codec:?}\n{steps}")),
            Err(payload) => {
                eprintln!("{kind:?}, {keep:?}, {codec:?}\n{steps}");
                resume_unwind(payload);
            }
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..3 + self.below(4) {
            self.step()?;
        }
        // The end is a good one: whatever happened, the next writer goes on.
        self.crash()?;
        self.open(None)?;
        let next = self.pool.next(self.last, &mut self.scene.borrow_mut().numbers);
        next.map_or(Ok(()), |next| self.save(next, None))?;
        self.crash()
    }

    fn below(&self, limit: usize) -> usize {
        self.scene.borrow_mut().numbers.below(limit)
    }

    fn say(&mut self, what: impl Into<String>) {
        let mut scene = self.scene.borrow_mut();
        self.steps.extend(scene.log.iter_mut().flat_map(std::mem::take));
        self.steps.push(what.into());
    }

    /// A fate for what comes next, mostly none.
    fn fate(&mut self) -> Option<(Fate, u64)> {
        let after = self.below(FATE_MAX) as u64;
        match self.below(10) {
            0..3 => Some((Fate::Dies, after)),
            3..6 => Some((Fate::Fails, after * 2 / 3)),
            _ => None,
        }
    }

    fn step(&mut self) -> Result<(), String> {
        if self.saver.is_none() {
            let fate = self.fate().map(|(fate, after)| (fate, after / 5));
            return self.open(fate);
        }
        match self.below(10) {
            0 => {
                self.say("close");
                self.saver = None;
                self.check(false)
            }
            1 => self.ask(),
            2 => self.crash(),
            _ => {
                let next = self.pool.next(self.last, &mut self.scene.borrow_mut().numbers);
                let fate = self.fate();
                next.map_or(Ok(()), |next| self.save(next, fate))
            }
        }
    }

    /// Does something under a fate, and says how it ended and how many calls were made to fail.
    fn guarded<T>(
        &mut self,
        fate: Option<(Fate, u64)>,
        work: impl FnOnce(Option<Saver>) -> (Option<Saver>, T),
    ) -> (End<T>, u64) {
        let saver = self.saver.take();
        self.scene.borrow_mut().failures = 0;
        set_fate(fate);
        let end = catch_unwind(AssertUnwindSafe(|| work(saver)));
        set_fate(None);
        let failures = self.scene.borrow().failures;
        self.totals.failures += failures;
        match end {
            Ok((saver, result)) => {
                self.saver = saver;
                (End::Done(result), failures)
            }
            Err(payload) if payload.is::<Death>() => {
                self.totals.deaths += 1;
                self.say("  died");
                (End::Died, failures)
            }
            Err(payload) => {
                self.say("  panicked");
                resume_unwind(payload)
            }
        }
    }

    fn open(&mut self, fate: Option<(Fate, u64)>) -> Result<(), String> {
        self.say(format!("open, {fate:?}"));
        // The one before has to let go of the lock.
        self.saver = None;
        let (store, options) = (self.store.clone(), self.options.clone());
        match self.guarded(fate, move |_| match Saver::open(store, options) {
            Ok(saver) => (Some(saver), Ok(())),
            Err(error) => (None, Err(error)),
        }) {
            (End::Died, _) => self.go_on(),
            (End::Done(Err(error)), failures) if failures > 0 => {
                self.say(format!("  failed: {error}"));
                Ok(())
            }
            (End::Done(Err(error)), _) => Err(error.to_string()),
            (End::Done(Ok(())), failures) => {
                self.say("  opened");
                let left = self
                    .scene
                    .borrow()
                    .disk
                    .top()
                    .find(|(name, _)| layout::is_left_over(name))
                    .map(|(name, _)| name.to_string());
                match left.filter(|_| failures == 0) {
                    Some(name) => Err(format!("{name} was left")),
                    None => self.check(true),
                }
            }
        }
    }

    fn save(&mut self, index: usize, fate: Option<(Fate, u64)>) -> Result<(), String> {
        self.say(format!("save {}, {fate:?}", self.pool.name(index)));
        self.scene.borrow_mut().owner = index;
        let going = self.may_go(index);
        // A writer that died may have given it.
        let had_name = self.named().iter().any(|(_, owner)| *owner == index);
        self.last = Some(self.last.map_or(index, |last| last.max(index)));
        let version = &self.pool.versions[index];
        let (end, failures) = self.guarded(fate, |saver| {
            let result = saver.as_ref().map(|saver| saver.save(&version.snapshot, &|_| {}));
            (saver, result)
        });
        let number = version.number;
        match end {
            End::Done(None) => Ok(()),
            End::Died => {
                // It may have come as far as to that.
                self.forget(&going);
                self.go_on()
            }
            End::Done(Some(Err(error))) => {
                self.say(format!("  failed: {error}"));
                let has_name = self.named().iter().any(|(_, owner)| *owner == index);
                match failures {
                    0 => Err(error.to_string()),
                    1 if has_name && !had_name => Err(format!("version {number} has its name after an error")),
                    _ => self.check_sometimes(),
                }
            }
            End::Done(Some(Ok(saved))) => {
                self.say(format!(
                    "  saved, removed {:?}, aside {:?}, {:?}",
                    saved.removed, saved.set_aside, saved.trouble
                ));
                self.take_note(index, &saved, &going, failures)?;
                self.check_sometimes()
            }
        }
    }

    fn take_note(&mut self, index: usize, saved: &Saved, going: &[(u64, usize)], failures: u64) -> Result<(), String> {
        if let Some(trouble) = saved.trouble.as_ref().filter(|_| failures == 0) {
            return Err(format!("trouble with nothing: {trouble}"));
        }
        self.totals.saved += 1;
        self.totals.removed += saved.removed.len() as u64;
        self.totals.set_aside += saved.set_aside.iter().map(|aside| aside.versions.len() as u64).sum::<u64>();
        for removed in &saved.removed {
            let gone = going.iter().find(|(version, _)| version == removed);
            let (_, gone) = gone.ok_or_else(|| format!("version {removed} was removed, and had to stay"))?;
            self.safe.remove(gone);
        }
        if saved.trouble.is_some() {
            // What could not be deleted may have lost its name.
            self.forget(going);
        }
        self.safe.insert(index);
        Ok(())
    }

    /// Versions that the keep rule may have let go.
    fn forget(&mut self, going: &[(u64, usize)]) {
        self.safe.retain(|index| !going.iter().any(|(_, gone)| gone == index));
    }

    /// The checkpoints that have their names, by number.
    fn named(&self) -> Vec<(u64, usize)> {
        let scene = self.scene.borrow();
        let named = scene.disk.top().filter_map(|(name, owner)| Some((layout::checkpoint_version(name)?, owner?)));
        named.collect()
    }

    /// What the keep rule does not keep once a version is saved.
    fn may_go(&self, index: usize) -> Vec<(u64, usize)> {
        let saved = self.pool.versions[index].number;
        let mut staying: Vec<(u64, usize)> =
            self.named().into_iter().filter(|(version, owner)| *version < saved || *owner > index).collect();
        staying.push((saved, index));
        staying.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
        let stays =
            |version: u64| version == saved || self.keep.every.is_some_and(|every| version.is_multiple_of(every));
        staying.into_iter().skip(self.keep.newest).filter(|(version, _)| !stays(*version)).collect()
    }

    /// After a death: the machine goes on, or does not.
    fn go_on(&mut self) -> Result<(), String> {
        match self.below(2) {
            0 => self.crash(),
            _ => self.check(false),
        }
    }

    fn check_sometimes(&mut self) -> Result<(), String> {
        match self.below(4) {
            0 => self.check(false),
            // Whoever writes goes on; somebody else sees what would be there.
            1 => self.peek(),
            _ => Ok(()),
        }
    }

    /// Somebody asks what is safe, and counts on it.
    fn ask(&mut self) -> Result<(), String> {
        let fate = match self.below(3) {
            0 => Some((Fate::Fails, 0)),
            _ => None,
        };
        let (named, store) = (self.named(), self.store.clone());
        let asked = match self.below(2) {
            0 => None,
            _ => named.get(self.below(named.len().max(1))).map(|(version, _)| *version),
        };
        self.say(format!("ask for {asked:?}, {fate:?}"));
        self.totals.questions += 1;
        let (end, failures) = self.guarded(fate, move |saver| {
            let answer = match asked {
                Some(version) => is_safe(store, version).map(|is_safe| is_safe.then_some(version)),
                None => newest_safe(store),
            };
            (saver, answer)
        });
        match end {
            End::Died => Ok(()),
            End::Done(Err(_)) if failures > 0 => Ok(()),
            End::Done(Err(error)) => Err(error.to_string()),
            End::Done(Ok(None)) if named.is_empty() => Ok(()),
            End::Done(Ok(None)) => Err("nothing is safe, although checkpoints are there".into()),
            End::Done(Ok(Some(version))) => {
                let owner = named.iter().find(|(number, _)| *number == version);
                let (_, owner) = owner.ok_or_else(|| format!("version {version} is safe, and not there"))?;
                self.say(format!("  version {} is safe", self.pool.name(*owner)));
                // Between two names it is told by its name only in the end.
                let has_names = matches!(self.scene.borrow().kind, Kind::Local | Kind::Plain);
                if let Some(newer) = self.safe.last().filter(|last| asked.is_none() && has_names && owner < *last) {
                    return Err(format!("version {} is safe and newer", self.pool.name(*newer)));
                }
                self.safe.insert(*owner);
                Ok(())
            }
        }
    }

    /// The store as it may be if the machine stops now.
    fn stop_machine(&mut self) -> (PathBuf, Disk) {
        self.places += 1;
        let to = self.dir.path().join(self.places.to_string());
        let (disk, said) = {
            let mut scene = self.scene.borrow_mut();
            let Scene { disk, numbers, attic, .. } = &mut *scene;
            disk.crash(&self.store, attic, &to, numbers)
        };
        self.totals.crashes += 1;
        self.totals.losses += u64::from(said != "None");
        self.say(format!("  the machine stops, lost: {said}"));
        (to, disk)
    }

    /// What would be there after the machine stopped, while it does not.
    fn peek(&mut self) -> Result<(), String> {
        let (place, disk) = self.stop_machine();
        let present = std::mem::replace(&mut self.store, place);
        let here = std::mem::replace(&mut self.scene.borrow_mut().disk, disk);
        let checked = self.check(false);
        self.store = present;
        self.scene.borrow_mut().disk = here;
        checked
    }

    /// The machine stops, and what is on its disk is what there is from then on.
    fn crash(&mut self) -> Result<(), String> {
        self.saver = None;
        let (place, disk) = self.stop_machine();
        self.store = place;
        self.scene.borrow_mut().disk = disk;
        self.check(false)
    }

    /// What was said to be safe is there, and good; and whatever is there is. Before a writer opened it, what takes the place of
    /// another may not have come to the move of that.
    fn check(&mut self, is_opened: bool) -> Result<(), String> {
        let mut present = BTreeSet::new();
        let scene = self.scene.borrow();
        let is_dir = |name: &&str| layout::earlier_version(name).is_some();
        let aside: Vec<PathBuf> =
            scene.disk.top().map(|(name, _)| name).filter(is_dir).map(|name| self.store.join(name)).collect();
        drop(scene);
        for dir in [self.store.clone()].into_iter().chain(aside) {
            let entries = Store::open(dir).and_then(|store| store.entries()).map_err(|error| error.to_string())?;
            for entry in entries {
                let checkpoint = entry.checkpoint.map_err(|error| format!("what is there is damaged: {error}"))?;
                present.insert(self.whose(&checkpoint)?);
            }
        }
        for index in &self.safe {
            if !present.contains(index) && (is_opened || !self.is_giving_way(*index)) {
                return Err(format!("version {} was safe, and is lost", self.pool.name(*index)));
            }
        }
        let Some(newest_safe) = self.safe.last().copied() else { return Ok(()) };
        let newest = Store::open(&self.store).and_then(|store| store.newest()).map_err(|error| error.to_string())?;
        let newest = self.whose(&newest)?;
        match newest >= newest_safe {
            true => Ok(()),
            false => {
                Err(format!("version {} is the newest, not {}", self.pool.name(newest), self.pool.name(newest_safe)))
            }
        }
    }

    /// Whose checkpoint it is that is there, if it is whole. The same files need not be read twice.
    fn whose(&mut self, checkpoint: &Checkpoint) -> Result<usize, String> {
        let path = checkpoint.path().strip_prefix(&self.store).map_err(|error| error.to_string())?;
        let print = self.scene.borrow().disk.print(path);
        let print = print.ok_or_else(|| format!("{} is there, and the model does not know of it", path.display()))?;
        if let Some(index) = self.known.get(&print) {
            return Ok(*index);
        }
        let index = self.pool.whose(checkpoint)?;
        self.known.insert(print, index);
        Ok(index)
    }

    /// Whether a version is whole under the name of what takes its place, which has its own.
    fn is_giving_way(&self, index: usize) -> bool {
        let partial = self.store.join(layout::partial_dir(self.pool.versions[index].number));
        let is_whole =
            |path: &Path| Checkpoint::open(path).ok().and_then(|checkpoint| self.pool.whose(&checkpoint).ok());
        is_whole(&partial) == Some(index)
            && is_whole(&self.store.join(self.pool.dir(index))).is_some_and(|other| other > index)
    }
}
