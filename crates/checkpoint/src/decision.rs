//! What the ranks of a group go on from, decided by the first of them and found by the others.
//!
//! The ranks of a run begin when they like and say nothing to each other, but they have the directory of regions in common.
//! A file in it keeps the decision. The first rank locks it, sees that nobody lives who joined the one that is there, decides
//! anew, and makes everything ready; all others find a decision that living ranks joined, and join it. A run whose ranks are
//! all dead leaves a decision that nobody heeds. Who dies before it joined leaves none at all.

use crate::directory::Directory;
use crate::origin::Origin;
use crate::tree::Tree;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stillframe::{FormerGroup, Group, Observer, RankState, RegionOptions, inspect};
use stillframe_kernel::folder::{About, Access, Folder};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::thread::Thread;
use stillframe_kernel::trust::{Guard, Purpose};

/// What all ranks of a run go on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decision {
    /// Ranks of the run.
    ranks: u32,
    version: Option<u64>,
    /// The checkpoint, if it is one.
    checkpoint: Option<PathBuf>,
    /// Ranks of the run that left the version; 0 for a single region.
    stored_ranks: u32,
    /// Whether what is in memory was set aside, for it has another number of ranks.
    pub(crate) former: bool,
    /// What is damaged, in words.
    pub(crate) skipped: Vec<String>,
    /// Ranks that go on from it.
    pub(crate) joined: Vec<u32>,
    /// The run that they are, once one of them has begun.
    #[serde(default)]
    pub(crate) run: Option<NonZeroU64>,
}

impl Decision {
    pub(crate) fn new(origin: &Origin, ranks: u32, stored_ranks: u32, former: bool, skipped: Vec<String>) -> Decision {
        let checkpoint = match origin {
            Origin::Checkpoint { path, .. } => Some(path.clone()),
            _ => None,
        };
        Decision {
            ranks,
            version: origin.version(),
            checkpoint,
            stored_ranks,
            former,
            skipped,
            joined: Vec::new(),
            run: None,
        }
    }

    pub(crate) fn origin(&self) -> Origin {
        match (self.version, &self.checkpoint) {
            (None, _) => Origin::Fresh,
            (Some(version), None) => Origin::Memory { version },
            (Some(version), Some(path)) => Origin::Checkpoint { version, path: path.clone() },
        }
    }

    /// The version that each of so many ranks finds in its own region, if it does.
    pub(crate) fn as_they_were(&self, ranks: u32) -> Option<u64> {
        self.version.filter(|_| self.stored_ranks == ranks && !self.former)
    }

    /// Whether a rank may join a decision that living ranks joined.
    pub(crate) fn admit(&self, root: &Path, name: &str, rank: u32, ranks: u32) -> Result<()> {
        let lives = self.joined.iter().find(|rank| is_alive(root, name, **rank)).copied().unwrap_or(rank);
        if self.ranks != ranks {
            let why = format!(
                "{ranks}, but rank {lives} of group '{name}' lives and says {}: end that run, or take another name",
                self.ranks
            );
            return Err(stillframe::Error::BadOption { option: "ranks", why }.into());
        }
        if self.joined.contains(&rank) {
            // Either this run's rank died, or those that live are of the run before.
            return Err(in_use(root, name, lives));
        }
        Ok(())
    }
}

fn rank_name(name: &str, rank: u32) -> String {
    format!("{name}/{rank}")
}

fn in_use(root: &Path, name: &str, rank: u32) -> Error {
    let region = rank_name(name, rank);
    let pid = inspect::region(root, &region).map_or(0, |info| info.producer_pid);
    stillframe::Error::InUse { region, pid, rank: None }.into()
}

/// Whether the producer of a rank lives.
pub(crate) fn is_alive(root: &Path, name: &str, rank: u32) -> bool {
    let observer = Observer::options().dir(root).here().open(&rank_name(name, rank));
    observer.is_ok_and(|observer| observer.producer_alive())
}

/// Fails if a rank of an earlier run lives.
pub(crate) fn check_nobody_lives(root: &Path, name: &str) -> Result<()> {
    let Ok(group) = Group::options().dir(root).here().open(name) else { return Ok(()) };
    let Ok(ranks) = group.ranks() else { return Ok(()) };
    match ranks.iter().find(|rank| rank.state == RankState::Live) {
        Some(rank) => Err(in_use(root, name, rank.rank)),
        None => Ok(()),
    }
}

/// End of the name of the file that keeps a decision.
pub(crate) const RECOVERY: &str = "recovery";
/// End of the name of the directory that has the group of the run before.
pub(crate) const FORMER: &str = "former";

/// A name as one of a hidden directory or file.
pub(crate) fn hidden_name(name: &str, what: &str) -> String {
    format!(".{}.{what}", name.replace('/', "%"))
}

/// The group whose decision a hidden file keeps.
pub(crate) fn decided_group(hidden: &str) -> Option<String> {
    Some(hidden.strip_prefix('.')?.strip_suffix(RECOVERY)?.strip_suffix('.')?.replace('%', "/"))
}

/// The directory that has the group of the run before, under its name, while one of another number of ranks begins; in an
/// arena the group has no directory.
fn former(root: &Path, name: &str) -> PathBuf {
    root.join(hidden_name(name, FORMER))
}

/// The directory of regions, if it is the user's own.
fn open_root(region: &RegionOptions) -> Result<Directory> {
    Directory::open(region.directory(), Guard::new(region.trusted()?, Purpose::Look))
}

/// Takes the group out of the way of one with another number of ranks, in one step.
pub(crate) fn set_aside(region: &RegionOptions, name: &str) -> Result<()> {
    if let Some(former) = FormerGroup::of(region, name)? {
        return Ok(former.set_aside()?);
    }
    let root = open_root(region)?;
    let former = hidden_name(name, FORMER);
    root.remove_all(&former)?;
    rename(&root, name, &format!("{former}/{name}"))
}

/// Puts the group that was set aside back in its place. What began there and has no version all ranks have goes.
pub(crate) fn bring_back(region: &RegionOptions, name: &str) -> Result<()> {
    if let Some(former) = FormerGroup::of(region, name)? {
        return Ok(former.bring_back()?);
    }
    let (root, dir) = (open_root(region)?, region.directory());
    for info in inspect::regions(dir)?.iter().filter(|info| info.name.rsplit_once('/').is_some_and(|at| at.0 == name)) {
        inspect::remove(dir, &info.name, false)?;
    }
    let former = hidden_name(name, FORMER);
    let (above, last) = place(&root, name)?;
    let _ = above.remove_folder(last);
    rename(&root, &format!("{former}/{name}"), name)?;
    root.remove_all(&former)
}

/// Opens the group that was set aside.
pub(crate) fn open_former(region: &RegionOptions, name: &str) -> stillframe::Result<Group> {
    match FormerGroup::of(region, name)? {
        Some(former) => former.open(),
        None => Group::options().dir(former(region.directory(), name)).here().open(name),
    }
}

pub(crate) fn remove_former(region: &RegionOptions, name: &str) -> Result<()> {
    if let Some(former) = FormerGroup::of(region, name)? {
        return Ok(former.remove()?);
    }
    match open_root(region) {
        Err(Error::System { failure, .. }) if failure.errno() == libc::ENOENT => Ok(()),
        root => root?.remove_all(&hidden_name(name, FORMER)),
    }
}

/// How often it is looked whether all ranks have published.
const ROUND: Duration = Duration::from_millis(20);

/// Removes the group that was set aside when all ranks have a version of this run, and not before: until then it is all
/// there is, should they die. Ends with the rank. Without a thread for it, the next run removes it.
pub(crate) fn remove_former_later(region: RegionOptions, name: &str, rank: u32) {
    let name = name.to_string();
    let watch = move || {
        let root = region.directory();
        while is_alive(root, &name, rank) {
            // Nobody sets another one aside between the look and the removal.
            // Where the group was removed meanwhile its file went with it, and is not made anew.
            let Ok(Some(lock)) = DecisionFile::lock_as(&region, &name, Access::Write) else { return };
            if Group::options().dir(root).here().open(&name).and_then(|group| group.newest()).is_ok() {
                let _ = remove_former(&region, &name);
                return;
            }
            drop(lock);
            std::thread::sleep(ROUND);
        }
    };
    let _ = Thread::start("stillframe-former", watch);
}

/// The directory that has a path's last name, below the directory of regions, and that name. What is above is made.
fn place<'a>(root: &Directory, path: &'a str) -> Result<(Folder, &'a str)> {
    let Some((above, last)) = path.rsplit_once('/') else { return Ok((root.folder().clone(), path)) };
    let mut folder = root.folder().clone();
    for part in above.split('/') {
        let made = match folder.make_folder(part, 0o700) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => folder.folder(part),
        };
        folder = made.map_err(|error| Error::io("mkdir", &root.path().join(above), error))?;
    }
    Ok((folder, last))
}

fn rename(root: &Directory, from: &str, to: &str) -> Result<()> {
    let (to_folder, to_last) = place(root, to)?;
    let tree = Tree::of(root.folder().clone(), root.path());
    let renamed = tree.place(from).and_then(|(folder, last)| folder.rename(last, &to_folder, to_last));
    renamed.map_err(|error| Error::io("rename", &root.path().join(from), error))
}

/// The decision's file, locked.
pub(crate) struct DecisionFile {
    file: Unforked,
    path: PathBuf,
}

impl DecisionFile {
    /// Waits until nobody else decides or joins. A file that is not there is made.
    pub(crate) fn lock(region: &RegionOptions, name: &str) -> Result<DecisionFile> {
        let dir = region.directory();
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| Error::io("mkdir", dir, error))?;
        let missing = || Error::io("open", &dir.join(hidden_name(name, RECOVERY)), ErrorKind::NotFound.into());
        DecisionFile::lock_as(region, name, Access::Create(0o600))?.ok_or_else(missing)
    }

    /// The same of a file that is opened so; `None` if it is gone.
    fn lock_as(region: &RegionOptions, name: &str, access: Access) -> Result<Option<DecisionFile>> {
        let (dir, root) = (region.directory(), open_root(region)?);
        let hidden = hidden_name(name, RECOVERY);
        let path = dir.join(&hidden);
        let guard = Guard::new(region.trusted()?, Purpose::Write { granted: 0 });
        loop {
            let opened = Unforked::open(|| guard.open(root.folder(), &hidden, access).map(|(file, _)| file));
            let opened = match opened {
                Err(refused) if refused.is_missing() => return Ok(None),
                opened => opened.map_err(|refused| Error::refused(&path, refused))?,
            };
            let Some(file) = opened.get() else { continue };
            opened.lock_whole().map_err(|error| Error::io("flock", &path, error))?;
            // It goes with the group when that is removed, which may have been while it was waited for.
            let ours = About::of(file).map_err(|error| Error::io("fstat", &path, error))?.identity;
            if About::at(&path, true).is_ok_and(|there| there.identity == ours) {
                return Ok(Some(DecisionFile { file: opened, path }));
            }
        }
    }

    /// The decision; `None` if there is none, or whoever wrote it died over it.
    pub(crate) fn read(&self) -> Option<Decision> {
        let file = self.file.get()?;
        let mut text = vec![0; usize::try_from(file.metadata().ok()?.len()).ok()?];
        file.read_exact_at(&mut text, 0).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(crate) fn write(&mut self, decision: &Decision) -> Result<()> {
        let text = serde_json::to_vec(decision).unwrap_or_default();
        let write = |file: &File| {
            file.set_len(0)?;
            file.write_all_at(&text, 0)
        };
        // Only a forked child, which decides nothing, has no file.
        self.file.get().map_or(Ok(()), write).map_err(|error| Error::io("write", &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    //! # Safety
    //!
    //! A forked child does nothing but wait to be killed.
    #![allow(unsafe_code)]

    use super::*;
    use stillframe::Region;

    #[test]
    fn a_forked_child_keeps_no_rank_waiting() {
        let dir = tempfile::Builder::new().prefix("decision-").tempdir_in("/dev/shm").unwrap();
        let region = Region::options().dir(dir.path());
        let file = DecisionFile::lock(&region, "heat").unwrap();
        // SAFETY: as of the module.
        let child = match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: as of the module.
                unsafe { libc::pause() };
            },
            child => child,
        };
        drop(file);
        let (said, hears) = std::sync::mpsc::channel();
        std::thread::spawn(move || said.send(DecisionFile::lock(&region, "heat").is_ok()));
        let is_locked = hears.recv_timeout(Duration::from_secs(60));
        // SAFETY: the child is one of this process, and was not waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert!(is_locked.unwrap());
    }
}
