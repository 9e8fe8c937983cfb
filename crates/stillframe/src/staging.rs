//! Regions made where nobody sees them, and put in their place all at once.
//!
//! They are made in a hidden directory beside the regions, which no observer looks into, and their directory is renamed when
//! they are whole. A process that is killed before leaves the hidden directory, which nobody has locked then; whoever stages
//! next in the same directory of regions removes it.
//!
//! What is to be removed goes by the same way (`aside`): out of sight first, by one rename, and then away.

use crate::directory::{self, Obstacle};
use crate::files::{self, LeaseFile};
use crate::group::ranks_below;
use crate::{Error, RegionOptions, Result, inspect};
use std::fs::{DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::{points, rename};
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
        directory::make(&options.dir, options.mode)?;
        sweep(&options.dir)?;
        let hidden = Hidden::claim(&options.dir, name, PATIENCE)?;
        points::hit("staging.begun");
        Ok(Staging { options: options.clone(), name: name.into(), dir, hidden })
    }

    /// Options for making the region here, under the name it will have, or that of a rank of so many.
    pub fn options(&self, rank: Option<(u32, u32)>) -> RegionOptions {
        let mut options = self.options.clone().dir(&self.hidden.place).fresh(false);
        (options.rank, options.rollback) = (rank, None);
        options
    }

    /// The hidden directory.
    pub fn path(&self) -> &Path {
        &self.hidden.place
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
        let made = self.hidden.place.join(&self.name);
        if let Some(parent) = self.dir.parent() {
            directory::make(parent, self.options.mode)?;
        }
        if made.join(lease::FILE).exists() {
            directory::check_neighbours(&self.options.dir, &self.dir, &self.name)
                .or_else(|error| if self.ranks_there()?.is_empty() { Err(error) } else { Ok(()) })?;
        }
        for _ in 0..ATTEMPTS {
            points::hit("staging.made");
            match rename::rename_new(&made, &self.dir) {
                Ok(()) => {
                    points::hit("staging.renamed");
                    return Ok(());
                }
                Err(failure) if failure.errno() == libc::EEXIST => {}
                Err(failure) => return Err(Error::system(&self.dir, failure)),
            }
            let Some(mut there) = self.lock_what_is_there()? else { continue };
            there.check(&self.options.dir, replace)?;
            points::hit("staging.locked");
            rename::exchange(&made, &self.dir).map_err(|failure| Error::system(&self.dir, failure))?;
            points::hit("staging.exchanged");
            // A rank may have begun where the others were locked.
            if let Err(error) = there.lock_rest(&made, &self.name) {
                rename::exchange(&made, &self.dir).map_err(|failure| Error::system(&self.dir, failure))?;
                return Err(error);
            }
            return Ok(());
        }
        Err(Error::InUse { region: self.name.clone(), pid: 0 })
    }

    fn ranks_there(&self) -> Result<Vec<u32>> {
        ranks_below(&self.dir)
    }

    /// Locks all that has the region's name, so that no producer begins meanwhile; `None` if it went away.
    fn lock_what_is_there(&self) -> Result<Option<There>> {
        let mut there = There::default();
        match check_entries(&self.dir, &self.name) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(error),
        }
        there.lock_rest(&self.dir, &self.name)?;
        Ok(Some(there))
    }
}

/// A hidden directory, of one process at a time. Dropped, it goes with all that is in it.
#[derive(Debug)]
pub(crate) struct Hidden {
    pub(crate) place: PathBuf,
    /// Whoever has the hidden directory locked lives.
    lock: Unforked,
}

impl Hidden {
    /// Makes the one for this name, or waits until others do not have it any more.
    pub(crate) fn claim(root: &Path, name: &str, patience: Duration) -> Result<Hidden> {
        let begin = Instant::now();
        let place = root.join(format!(".{}{SUFFIX}", name.replace('/', "%")));
        loop {
            match DirBuilder::new().mode(0o700).create(&place) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(Error::io("open", &place, error));
                }
                _ => {}
            }
            match try_lock(&place)? {
                // The sweep passes over what somebody looks at just then, who has it locked for an instant.
                Claim::Locked(_lock) if !is_empty(&place) => {
                    std::fs::remove_dir_all(&place).map_err(|error| Error::io("unlink", &place, error))?;
                }
                Claim::Locked(lock) => return Ok(Hidden { place, lock }),
                // Whoever looks for left-overs has it for an instant, too.
                Claim::Held => std::thread::sleep(Duration::from_millis(1)),
                Claim::Gone => {}
            }
            if begin.elapsed() >= patience {
                return Err(Error::Staged { region: name.into() });
            }
        }
    }

    /// Lets others have the directory's name, so that they need not wait until what is in it is gone.
    pub(crate) fn give_way(&mut self) {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = self.place.file_name().unwrap_or_default().to_string_lossy();
        let (pid, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let other = self.place.with_file_name(format!("{name}.{pid}.{number}{SUFFIX}"));
        // Where that name is taken, by a process of another namespace that had the same number, others wait.
        if rename::rename_new(&self.place, &other).is_ok() {
            self.place = other;
        }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // What a forked child has of it is its parent's. Whoever stages next removes what cannot be removed here.
        if self.lock.is_ours() {
            let _ = std::fs::remove_dir_all(&self.place);
        }
    }
}

/// The regions that are to make way, locked.
#[derive(Debug, Default)]
pub(crate) struct There {
    locked: Vec<(String, LeaseFile)>,
}

impl There {
    /// Locks the region in `dir`, or its ranks, as far as they are not locked yet.
    pub(crate) fn lock_rest(&mut self, dir: &Path, name: &str) -> Result<()> {
        let mut found: Vec<(PathBuf, String)> = Vec::new();
        if dir.join(lease::FILE).exists() || dir.join(head::FILE).exists() {
            found.push((dir.to_path_buf(), name.into()));
        }
        found.extend(
            ranks_below(dir)?.into_iter().map(|rank| (dir.join(rank.to_string()), files::rank_name(name, rank))),
        );
        found.retain(|(_, name)| self.locked.iter().all(|(locked, _)| locked != name));
        for (dir, name) in found {
            match directory::try_lock(&dir, &name, 0o600)? {
                Ok(leases) => self.locked.push((name, leases)),
                Err(Obstacle::Held) => return Err(Error::InUse { pid: directory::producer_pid(&dir), region: name }),
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
pub(crate) fn check_entries(dir: &Path, name: &str) -> Result<bool> {
    let why = "what lies below it is not only its own, and would be lost; move that away, or choose another name";
    let stranger = || Error::BadName { name: name.into(), what: "region", why };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Err(stranger()),
        Err(error) => return Err(Error::io("open", dir, error)),
    };
    let ranks = ranks_below(dir)?;
    for entry in entries {
        let entry = entry.map_err(|error| Error::io("readdir", dir, error))?;
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let text = entry.file_name().to_string_lossy().into_owned();
        let is_rank = ranks.iter().any(|rank| text == rank.to_string());
        match is_dir {
            true if is_rank => check_entries(&entry.path(), &format!("{name}/{text}")).map(drop)?,
            false if files::is_own_file(&text) => {}
            _ => return Err(stranger()),
        }
    }
    Ok(true)
}

enum Claim {
    Locked(Unforked),
    Held,
    Gone,
}

/// Locks a hidden directory, if it is still the one of its name.
fn try_lock(place: &Path) -> Result<Claim> {
    let claimed = match Unforked::open(File::options().read(true), place) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Claim::Gone),
        other => other.map_err(|error| Error::io("open", place, error))?,
    };
    let Some(file) = claimed.get() else { return Ok(Claim::Gone) };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Claim::Held),
        Err(TryLockError::Error(error)) => return Err(Error::io("flock", place, error)),
    }
    let ours = file.metadata().map_err(|error| Error::io("fstat", place, error))?;
    let is_there = std::fs::symlink_metadata(place).is_ok_and(|there| there.ino() == ours.ino());
    Ok(if is_there { Claim::Locked(claimed) } else { Claim::Gone })
}

fn is_empty(place: &Path) -> bool {
    std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_none())
}

/// Whether a path is that of a hidden directory.
pub(crate) fn is_staged(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') && name.ends_with(SUFFIX)
}

/// The hidden directories, whoever made them.
fn staged(root: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    dirs.filter(|path| is_staged(path))
}

/// The hidden directories whose makers are dead.
pub(crate) fn left_over(root: &Path) -> Vec<PathBuf> {
    staged(root).filter(|path| matches!(try_lock(path), Ok(Claim::Locked(_)))).collect()
}

/// Removes what dead processes left staged. Others' are their own business.
fn sweep(root: &Path) -> Result<()> {
    staged(root).try_for_each(|place| remove(&place).map(drop))
}

/// Removes a hidden directory if its maker is dead, and says how many bytes that frees.
pub(crate) fn remove(place: &Path) -> Result<u64> {
    let Ok(Claim::Locked(_lock)) = try_lock(place) else { return Ok(0) };
    let bytes = allocated_bytes(place);
    match std::fs::remove_dir_all(place) {
        Ok(()) => Ok(bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(bytes),
        Err(error) => Err(Error::io("unlink", place, error)),
    }
}

/// Bytes of memory or disk behind a directory and all below it.
pub(crate) fn allocated_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.filter_map(|entry| match entry.file_type().ok()?.is_dir() {
        true => Some(allocated_bytes(&entry.path())),
        false => entry.metadata().ok().map(|meta| meta.blocks() * 512),
    });
    bytes.sum()
}
