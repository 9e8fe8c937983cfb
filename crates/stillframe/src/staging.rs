//! Regions made where nobody sees them, and put in their place all at once.
//!
//! They are made in a hidden directory beside the regions, which no observer looks into, and their directory is renamed when
//! they are whole. A process that is killed before leaves the hidden directory, which nobody has locked then; whoever stages
//! next in the same directory of regions removes it.
//!
//! What is to be removed goes by the same way (`aside`): out of sight first, by one rename, and then away.

use crate::directory::{self, Directory, Obstacle};
use crate::files::{self, LeaseFile};
use crate::group::ranks_below;
use crate::{Error, RegionOptions, Result, inspect};
use std::fs::TryLockError;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use stillframe_kernel::folder::{About, Form};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::points;
use stillframe_kernel::trust::Distrust;
use stillframe_segment::{head, lease};

/// Ends of the hidden directories' names.
const SUFFIX: &str = ".staged";
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
    hidden: Hidden,
}

/// How long to look for a hidden directory to be free: of whoever looks for left-overs just then, which takes no time.
const PATIENCE: Duration = Duration::from_millis(100);

impl Staging {
    /// Begins, with the directory and mode that the options say. What dead processes left staged is removed.
    ///
    /// # Errors
    /// [`Error::Staged`] if another process stages this name; misuse if it is no name; environment if the directory
    /// cannot be made.
    pub fn begin(options: &RegionOptions, name: &str) -> Result<Staging> {
        let dir = files::new_region_dir(&options.dir, name)?;
        let root = Directory::make_root(&options.dir, options.mode, options.guard()?)?;
        sweep(&root)?;
        let hidden = Hidden::claim(&root, name, PATIENCE)?;
        points::hit("staging.begun");
        Ok(Staging { options: options.clone(), name: name.into(), dir, hidden })
    }

    /// Options for making the region here, under the name it will have, or that of a rank of so many.
    pub fn options(&self, rank: Option<(u32, u32)>) -> RegionOptions {
        let mut options = self.options.clone().dir(self.hidden.place.path()).fresh(false);
        (options.rank, options.rollback) = (rank, None);
        options
    }

    /// The hidden directory.
    pub fn path(&self) -> &Path {
        self.hidden.place.path()
    }

    /// Whether [`commit`](Staging::commit) would find its place taken, as things are: to be asked before the work is done.
    ///
    /// # Errors
    /// As [`commit`](Staging::commit).
    pub fn check(&self, replace: bool) -> Result<()> {
        match self.lock_what_is_there()? {
            Some(there) => there.check(&self.options.dir, replace),
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
        let (above, last) = match self.name.rsplit_once('/') {
            Some((above, last)) => (Some(above), last),
            None => (None, &*self.name),
        };
        let Hidden { root, place, .. } = &self.hidden;
        let (mut from, mut to) = (place.clone(), root.clone());
        if let Some(above) = above {
            let missing = || Error::io("open", &place.path().join(above), ErrorKind::NotFound.into());
            from = place.below(above)?.ok_or_else(missing)?;
            to = root.make_below(above, self.options.mode)?;
        }
        if place.below(&self.name)?.is_some_and(|made| made.has(lease::FILE)) {
            directory::check_neighbours(root, &self.name)
                .or_else(|error| if self.ranks_there()?.is_empty() { Err(error) } else { Ok(()) })?;
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
            there.check(&self.options.dir, replace)?;
            points::hit("staging.locked");
            from.folder().exchange(last, to.folder(), last).map_err(fail)?;
            points::hit("staging.exchanged");
            // A rank may have begun where the others were locked.
            if let Err(error) = there.lock_rest(place, &self.name) {
                from.folder().exchange(last, to.folder(), last).map_err(fail)?;
                return Err(error);
            }
            return Ok(());
        }
        Err(Error::InUse { region: self.name.clone(), pid: 0 })
    }

    fn ranks_there(&self) -> Result<Vec<u32>> {
        ranks_below(&self.hidden.root, &self.name)
    }

    /// Locks all that has the region's name, so that no producer begins meanwhile; `None` if it went away.
    fn lock_what_is_there(&self) -> Result<Option<There>> {
        let mut there = There::default();
        // What makes way is not written to, whatever mode it has.
        let root = self.hidden.root.guarded(self.options.looking()?);
        if !check_entries(&root, &self.name)? {
            return Ok(None);
        }
        there.lock_rest(&root, &self.name)?;
        Ok(Some(there))
    }
}

/// A hidden directory, of one process at a time. Dropped, it goes with all that is in it.
#[derive(Debug)]
pub(crate) struct Hidden {
    /// The directory that holds regions.
    root: Directory,
    name: String,
    pub(crate) place: Directory,
    /// Whoever has the hidden directory locked lives.
    lock: Unforked,
}

impl Hidden {
    /// Makes the one for this name, or waits until others do not have it any more.
    pub(crate) fn claim(root: &Directory, region: &str, patience: Duration) -> Result<Hidden> {
        let begin = Instant::now();
        let name = format!(".{}{SUFFIX}", region.replace('/', "%"));
        loop {
            match root.folder().make_folder(&name, 0o700) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(Error::io("open", &root.path().join(&name), error));
                }
                _ => {}
            }
            match try_lock(root, &name)? {
                // The sweep passes over what somebody looks at just then, who has it locked for an instant.
                Claim::Locked(place, _lock) if !place.names()?.is_empty() => root.remove_all(&name)?,
                Claim::Locked(place, lock) => return Ok(Hidden { root: root.clone(), name, place, lock }),
                // Whoever looks for left-overs has it for an instant, too.
                Claim::Held => std::thread::sleep(Duration::from_millis(1)),
                Claim::Gone => {}
            }
            if begin.elapsed() >= patience {
                return Err(Error::Staged { region: region.into() });
            }
        }
    }

    /// Lets others have the directory's name, so that they need not wait until what is in it is gone.
    pub(crate) fn give_way(&mut self) {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let other = format!("{}.{pid}.{number}{SUFFIX}", self.name);
        // Where that name is taken, by a process of another namespace that had the same number, others wait.
        if self.root.folder().rename_new(&self.name, self.root.folder(), &other).is_ok() {
            self.name = other;
        }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // What a forked child has of it is its parent's. Whoever stages next removes what cannot be removed here.
        if self.lock.is_ours() {
            let _ = self.root.remove_all(&self.name);
        }
    }
}

/// The regions that are to make way, locked.
#[derive(Debug, Default)]
pub(crate) struct There {
    locked: Vec<(String, LeaseFile)>,
}

impl There {
    /// Locks the region of this name, or its ranks, as far as they are not locked yet.
    pub(crate) fn lock_rest(&mut self, root: &Directory, name: &str) -> Result<()> {
        let mut found: Vec<String> = Vec::new();
        if root.below(name)?.is_some_and(|directory| directory.has(lease::FILE) || directory.has(head::FILE)) {
            found.push(name.into());
        }
        found.extend(ranks_below(root, name)?.into_iter().map(|rank| files::rank_name(name, rank)));
        found.retain(|name| self.locked.iter().all(|(locked, _)| locked != name));
        for name in found {
            match directory::try_lock(root, &name, 0o600)? {
                Ok((_, leases)) => self.locked.push((name, leases)),
                Err(Obstacle::Held) => {
                    let pid = root.below(&name)?.map_or(0, |directory| directory::producer_pid(&directory));
                    return Err(Error::InUse { pid, region: name });
                }
                Err(Obstacle::Removed | Obstacle::NoDirectory) => {}
            }
        }
        Ok(())
    }

    /// Refuses to replace a region that has something to lose, unless that was asked for.
    fn check(&self, root: &Path, replace: bool) -> Result<()> {
        if replace {
            return Ok(());
        }
        for (name, _) in &self.locked {
            let info = match inspect::region(root, name) {
                Err(Error::NoRegion { .. }) => continue,
                other => other?,
            };
            if info.newest.is_some() || matches!(info.state, inspect::State::Unreadable(_)) {
                return Err(Error::Survives { region: name.clone(), newest: info.newest });
            }
        }
        Ok(())
    }
}

/// Refuses to take away what is neither a region's nor a rank's; `false` if there is no directory.
pub(crate) fn check_entries(root: &Directory, name: &str) -> Result<bool> {
    let why = "what lies below it is not only its own, and would be lost; move that away, or choose another name";
    let stranger = || Error::BadName { name: name.into(), what: "region", why };
    let directory = match root.below(name) {
        Ok(Some(directory)) => directory,
        Ok(None) => return Ok(false),
        Err(Error::Untrusted { distrust: Distrust::Form { .. }, .. }) => return Err(stranger()),
        Err(error) => return Err(error),
    };
    let ranks = ranks_below(root, name)?;
    for entry in directory.names()? {
        let text = entry.to_str().ok_or_else(stranger)?;
        let is_folder = directory.about(text).is_some_and(|about| about.form == Form::Folder);
        let is_rank = ranks.iter().any(|rank| text == rank.to_string());
        match is_folder {
            true if is_rank => check_entries(root, &format!("{name}/{text}")).map(drop)?,
            false if files::is_own_file(text) => {}
            _ => return Err(stranger()),
        }
    }
    Ok(true)
}

enum Claim {
    Locked(Directory, Unforked),
    Held,
    Gone,
}

/// Locks a hidden directory, if it is still the one of its name.
fn try_lock(root: &Directory, hidden: &str) -> Result<Claim> {
    let Some(place) = root.below(hidden)? else { return Ok(Claim::Gone) };
    let claimed = match Unforked::open(|| place.folder().reopen()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Claim::Gone),
        other => other.map_err(|error| Error::io("open", place.path(), error))?,
    };
    let Some(file) = claimed.get() else { return Ok(Claim::Gone) };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Claim::Held),
        Err(TryLockError::Error(error)) => return Err(Error::io("flock", place.path(), error)),
    }
    let ours = About::of(file).map_err(|error| Error::io("fstat", place.path(), error))?;
    let is_there = root.about(hidden).is_some_and(|there| there.identity == ours.identity);
    Ok(if is_there { Claim::Locked(place, claimed) } else { Claim::Gone })
}

/// Whether a name is that of a hidden directory.
pub(crate) fn is_staged(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(SUFFIX)
}

/// The hidden directories, whoever made them.
fn staged(root: &Directory) -> impl Iterator<Item = String> {
    let is_folder = |name: &String| root.about(name).is_some_and(|about| about.form == Form::Folder);
    root.texts().into_iter().filter(|name| is_staged(name)).filter(is_folder)
}

/// The hidden directories whose makers are dead.
pub(crate) fn left_over(root: &Directory) -> Vec<String> {
    staged(root).filter(|name| matches!(try_lock(root, name), Ok(Claim::Locked(..)))).collect()
}

/// Removes what dead processes left staged. Others' are their own business.
fn sweep(root: &Directory) -> Result<()> {
    staged(root).try_for_each(|name| remove(root, &name).map(drop))
}

/// Removes a hidden directory if its maker is dead, and says how many bytes that frees.
pub(crate) fn remove(root: &Directory, name: &str) -> Result<u64> {
    let Ok(Claim::Locked(place, _lock)) = try_lock(root, name) else { return Ok(0) };
    let bytes = place.folder().allocated_bytes();
    root.remove_all(name).map(|()| bytes)
}
