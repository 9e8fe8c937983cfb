//! Regions made where nobody sees them, and put in their place all at once.
//!
//! They are made in a hidden directory beside the regions, which no observer looks into, and their directory is renamed when
//! they are whole; in an arena below hidden names. A process that is killed before leaves what is hidden, which nobody has
//! locked then; whoever stages next among the same regions removes it.
//!
//! What is to be removed goes by the same way (`aside`): out of sight first, by one rename, and then away.

use crate::error::{Error, Result};
use crate::group::run;
use crate::inspect::region::{RegionInfo, State, region};
use crate::place::arena::Arena;
use crate::place::arena::hidden::HiddenRegions;
use crate::place::directory::{self, Directory};
use crate::place::hidden::{Hidden, sweep};
use crate::place::names::{self, hidden_name};
use crate::producer::options::RegionOptions;
use crate::store::ownership::{REMOVAL, check_entries};
use crate::store::regions::{Ending, Locked, Regions};
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use stillframe_kernel::points;
use stillframe_segment::lease;

/// How often somebody else may come first before it is no coincidence.
const ATTEMPTS: usize = 100;

/// A hidden place for one region, or for all ranks of one group, while they are made: to restore them as a whole or not at
/// all. Regions are made there with [`options`](Staging::options) and closed; [`commit`](Staging::commit) puts them in
/// their place. Dropped before that, it removes them.
///
/// ```
/// # use stillframe::{Kind, Observer, Region, Staging};
/// # let dir = std::env::temp_dir().join(format!("stillframe-doc-staging-{}", std::process::id()));
/// let staging = Staging::begin(&Region::options().dir(&dir), "heat")?;
/// let mut region = staging.options(None).create("heat")?;
/// region.array::<f64>("u", &[4])?;
/// region.publish(120).commit()?;
/// region.close()?;
/// assert!(Observer::options().dir(&dir).open("heat").is_err());
/// staging.commit(false)?;
/// assert_eq!(Observer::options().dir(&dir).open("heat")?.newest()?.version(), 120);
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), stillframe::Error>(())
/// ```
#[derive(Debug)]
pub struct Staging {
    options: RegionOptions,
    name: String,
    /// Where the region's directory will be.
    dir: PathBuf,
    room: Room,
    /// All ranks are of one run, although they are made one after the other.
    run: NonZeroU64,
}

/// Where nobody sees them.
#[derive(Debug)]
enum Room {
    Directory(Hidden),
    Arena(HiddenRegions),
}

impl Staging {
    /// Begins, with the directory and mode that the options say. What dead processes left staged is removed. Who looks for
    /// left-overs, or takes a region of this name away, has the name for a moment, and is waited for.
    ///
    /// # Errors
    /// [`Error::Staged`] if another process stages this name, and goes on for longer than that takes; misuse if it is no name; environment if the directory
    /// cannot be made.
    pub fn begin(options: &RegionOptions, name: &str) -> Result<Staging> {
        let (options, name) = &options.resolve(name)?;
        let dir = options.dir.join(name);
        let room = match &options.arena {
            Some(arena) => {
                arena.sweep_hidden()?;
                Room::Arena(HiddenRegions::claim(arena, name, REMOVAL)?)
            }
            None => {
                let root = Directory::make_root(&options.dir, options.mode, options.guard()?)?;
                sweep(&root)?;
                Room::Directory(Hidden::claim(&root, name, REMOVAL)?)
            }
        };
        points::hit("staging.begun");
        Ok(Staging { options: options.clone(), name: name.clone(), dir, room, run: run::new() })
    }

    /// The name by which the region or group is made with [`options`](Staging::options): of one that lies in an arena, that
    /// within the arena.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Options for making the region here, under the name it will have, or that of a rank of so many.
    pub fn options(&self, rank: Option<(u32, u32)>) -> RegionOptions {
        let mut options = self.options.clone().fresh(false);
        match &self.room {
            Room::Directory(hidden) => options.dir = hidden.place.path().into(),
            Room::Arena(_) => options.hidden = true,
        }
        (options.rank, options.rollback, options.run) = (rank, None, Some(self.run));
        options
    }

    /// The directory in whose file system the regions are made.
    pub fn path(&self) -> &Path {
        match &self.room {
            Room::Directory(hidden) => hidden.place.path(),
            Room::Arena(hidden) => hidden.arena().path(),
        }
    }

    /// Whether [`commit`](Staging::commit) would find its place taken, as things are: to be asked before the work is done.
    ///
    /// # Errors
    /// As [`commit`](Staging::commit).
    pub fn check(&self, replace: bool) -> Result<()> {
        match self.lock_what_is_there()? {
            Some(there) => self.check_there(&there, replace),
            None => Ok(()),
        }
    }

    /// Puts what was made in its place, where observers see it and the next producer of the name recovers it: a region, or
    /// all ranks of a group. If a region without a producer is there, it makes way if it has no version; with `replace` it
    /// does in any case. Observers keep what they hold.
    ///
    /// # Errors
    /// [`Error::InUse`] if a producer of the name lives; [`Error::Survives`] if a region is there that has versions or cannot
    /// be read, without `replace`; [`Error::BadName`] if other regions or files are in the way. Nothing is changed then.
    pub fn commit(self, replace: bool) -> Result<()> {
        match &self.room {
            Room::Directory(hidden) => self.commit_in_directory(hidden, replace),
            Room::Arena(hidden) => self.commit_in_arena(hidden.arena(), replace),
        }
    }

    fn commit_in_arena(&self, arena: &Arena, replace: bool) -> Result<()> {
        let regions = self.options.regions_of(arena);
        let hidden = hidden_name(&self.name);
        points::hit("staging.made");
        let made = regions.lock_all(&hidden)?;
        let there = regions.lock_all(&self.name)?;
        self.check_there(&there, replace)?;
        let told = |error| names::with_shown_names(error, |name| self.options.full_name(name));
        arena.check_above(&self.name).map_err(told)?;
        if made.iter().any(|locked| locked.name() == hidden) && arena.has_others_below(&self.name)? {
            return Err(told(names::above_others(&self.name)));
        }
        points::hit("staging.locked");
        regions.rename(&hidden, &self.name, made, there)?;
        points::hit("staging.renamed");
        Ok(())
    }

    fn commit_in_directory(&self, hidden: &Hidden, replace: bool) -> Result<()> {
        let (above, last) = match self.name.rsplit_once('/') {
            Some((above, last)) => (Some(above), last),
            None => (None, &*self.name),
        };
        let Hidden { root, place, .. } = hidden;
        let (mut from, mut to) = (place.clone(), root.clone());
        if let Some(above) = above {
            let missing = || Error::io("open", &place.path().join(above), ErrorKind::NotFound.into());
            from = place.below(above)?.ok_or_else(missing)?;
            to = root.make_below(above, self.options.mode)?;
        }
        if place.below(&self.name)?.is_some_and(|made| made.has(lease::FILE)) {
            directory::check_neighbours(root, &self.name).or_else(|error| {
                if directory::ranks_below(root, &self.name)?.is_empty() { Err(error) } else { Ok(()) }
            })?;
        }
        let fail = |error| Error::io("renameat2", &self.dir, error);
        for _ in 0..ATTEMPTS {
            points::hit("staging.made");
            match from.folder().rename_new(last, to.folder(), last) {
                Ok(()) => {
                    points::hit("staging.renamed");
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(fail(error)),
            }
            let Some(mut there) = self.lock_what_is_there()? else { continue };
            self.check_there(&there, replace)?;
            points::hit("staging.locked");
            from.folder().exchange(last, to.folder(), last).map_err(fail)?;
            points::hit("staging.exchanged");
            // A rank may have begun where the others were locked.
            if let Err(error) = Regions::Directory(place.clone()).lock_rest(&self.name, &mut there) {
                from.folder().exchange(last, to.folder(), last).map_err(fail)?;
                return Err(error);
            }
            return Ok(());
        }
        Err(Error::in_use(&self.name, 0))
    }

    /// Locks all that has the region's name, so that no producer begins meanwhile; `None` if it went away.
    fn lock_what_is_there(&self) -> Result<Option<Vec<Locked>>> {
        match &self.room {
            Room::Directory(hidden) => {
                // What makes way is not written to, whatever mode it has.
                let root = hidden.root.guarded(self.options.looking()?);
                match check_entries(&root, &self.name)? {
                    true => Regions::Directory(root).lock_all(&self.name).map(Some),
                    false => Ok(None),
                }
            }
            Room::Arena(hidden) => self.options.regions_of(hidden.arena()).lock_all(&self.name).map(Some),
        }
    }

    /// Refuses to replace a region that has something to lose, unless that was asked for.
    fn check_there(&self, there: &[Locked], replace: bool) -> Result<()> {
        if replace {
            return Ok(());
        }
        for locked in there {
            let name = self.options.shown(locked.name());
            let newest = match &self.room {
                Room::Directory(_) => match region(&self.options.dir, &name) {
                    Err(Error::NoRegion { .. }) => continue,
                    info => match info? {
                        RegionInfo { state: State::Unreadable(_), newest, .. } => newest,
                        RegionInfo { newest: Some(newest), .. } => Some(newest),
                        _ => continue,
                    },
                },
                // An arena may have no directory in which it could be found.
                Room::Arena(hidden) => {
                    let site = self.options.regions_of(hidden.arena()).find(locked.name())?;
                    match site.map_or(Ending::Empty, |site| site.ending()) {
                        Ending::Empty => continue,
                        Ending::Good(newest) | Ending::Bad(newest) => newest,
                    }
                }
            };
            return Err(Error::Survives { region: name, newest });
        }
        Ok(())
    }
}
