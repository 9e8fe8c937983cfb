//! The directory in which objects have their names and boards, and the files in it.

use crate::error::{Error, Result};
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use stillframe_kernel::folder::{About, Access, Folder, writers_mode};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::trust::{Guard, Purpose, Trust};
use stillframe_kernel::{unix_ns, user_id};

/// Below the directory of regions. Names of regions do not begin with a dot.
pub(crate) const OBJECTS: &str = ".objects";
const NAMES: &str = "names";
const BOARDS: &str = "boards";
const LOCKS: &str = "locks";

/// The directory of all objects. Copies are the same.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    /// That of regions.
    pub(crate) dir: PathBuf,
    pub(crate) objects: Part,
    pub(crate) names: Part,
    pub(crate) boards: Part,
    /// None where there is none, for whoever only looks.
    locks: Option<Part>,
}

/// A directory and how its files are looked at.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    folder: Folder,
    guard: Guard,
    mode: u32,
    /// Whether only those may read its files who may write them.
    is_of_writers: bool,
}

/// The file of an object. Its name has no parts, so that no object stands in the way of another.
pub(crate) fn file_of(name: &str) -> String {
    name.replace('/', ":")
}

/// A name for what is made before others may see it. What a process that died meanwhile leaves has a name that no object has, and goes
/// with the directory.
///
/// It is a random one: processes of several containers have the same numbers, and each would take the other's for what is left over.
pub(crate) fn aside_name() -> String {
    format!(".new.{:016x}", random_number())
}

/// A number that no other process has found, in no other container.
pub(crate) fn random_number() -> u64 {
    // The keys of the standard library's hasher are random numbers of the system.
    RandomState::new().hash_one((unix_ns(), std::process::id()))
}

/// Makes a directory if there is none, so that it is there with its mode or not at all: another process, maybe of another user, could
/// use it before. An error comes with the call that failed.
fn make_folder(above: &Folder, name: &OsStr, mode: u32) -> Result<(), (&'static str, io::Error)> {
    let aside = aside_name();
    above.make_folder(&aside, mode).map_err(|error| ("mkdir", error))?;
    // The process's umask takes bits away that were asked for.
    let permitted = above.folder(&aside).and_then(|folder| {
        if let Some(owner) = owner_beside_root(above)? {
            // Where that user is none of this container's it cannot be.
            let _ = folder.chown(owner.owner, owner.group);
        }
        folder.permit(mode)
    });
    let permitted = permitted.map_err(|error| ("chmod", error));
    let put = permitted.and_then(|()| above.rename_new(&aside, above, name).map_err(|error| ("renameat2", error)));
    if put.is_err() {
        let _ = above.remove_folder(&aside);
    }
    match put {
        Err((_, error)) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        put => put,
    }
}

/// The directory's owner and group, where this process is root and he is not: he could not open what root makes there.
fn owner_beside_root(folder: &Folder) -> io::Result<Option<About>> {
    match user_id() {
        0 => Ok(Some(folder.about()?).filter(|about| about.owner != 0)),
        _ => Ok(None),
    }
}

/// The object whose file this is.
pub(crate) fn name_of(file: &str) -> String {
    file.replace(':', "/")
}

/// Makes the directory of regions, and those above it, as far as they are not there.
fn make_root(dir: &Path, mode: u32) -> Result<()> {
    // Where the path ends in `..`, or is `/`, it is there or cannot be made.
    let Some(name) = dir.file_name().filter(|_| !dir.is_dir()) else { return Ok(()) };
    let above = match dir.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(above).map_err(|error| Error::io("mkdir", above, error))?;
    let opened = Folder::open(above, true).map_err(|error| Error::io("open", above, error))?;
    make_folder(&opened, name, mode).map_err(|(call, error)| Error::io(call, dir, error))
}

impl Directory {
    /// Opens the directories, and makes those that are not there.
    pub(crate) fn make(dir: &Path, mode: u32, trust: Trust) -> Result<Directory> {
        let guard = Guard::new(trust, Purpose::Write { granted: mode });
        make_root(dir, mode)?;
        let folder = guard.open_root(dir).map_err(|refused| Error::refused(dir, refused))?;
        let root = Part { path: dir.into(), folder, guard, mode, is_of_writers: false };
        let objects = root.made(OBJECTS)?;
        // Who may read or write what is there may do so with what is made now, whatever mode this program asks for. Where the directory is
        // sticky each user has files of his own.
        let objects = match objects.folder_mode()? & 0o1000 {
            0 => objects.with_folder_mode()?,
            _ => objects,
        };
        let (names, boards) = (objects.made(NAMES)?, objects.made(BOARDS)?);
        let locks = objects.with_folder_mode()?.of_writers().made(LOCKS)?;
        locks.repair_mode().map_err(|error| Error::io("chmod", &locks.path, error))?;
        Ok(Directory { dir: dir.into(), objects, names, boards, locks: Some(locks) })
    }

    /// Opens the directories for who only looks; `None` if there are none.
    pub(crate) fn look(dir: &Path, trust: Trust) -> Result<Option<Directory>> {
        let guard = Guard::new(trust, Purpose::Look);
        let folder = match guard.open_root(dir) {
            Ok(folder) => folder,
            Err(refused) if refused.is_missing() => return Ok(None),
            Err(refused) => return Err(Error::refused(dir, refused)),
        };
        let root = Part { path: dir.into(), folder, guard, mode: 0, is_of_writers: false };
        let Some(objects) = root.opened(OBJECTS)? else { return Ok(None) };
        let (names, boards) = (objects.opened(NAMES)?, objects.opened(BOARDS)?);
        let locks = objects.opened(LOCKS).ok().flatten();
        Ok(names.zip(boards).map(|(names, boards)| Directory { dir: dir.into(), objects, names, boards, locks }))
    }

    /// Takes the lock of a name, which only those who may write can take, unless somebody else has it.
    pub(crate) fn lock(&self, name: &str) -> Result<Option<Unforked>> {
        let path = self.lock_path(name);
        let missing = || Error::io("open", &path, ErrorKind::NotFound.into());
        let locks = self.locks.as_ref().ok_or_else(missing)?;
        loop {
            // A child that is forked meanwhile has the lock for no longer than this process.
            let (unforked, about) = locks.open_unforked(name, Access::CreateExact(0))?.ok_or_else(missing)?;
            let file = unforked.get().ok_or_else(|| Error::Forked { name: name.into() })?;
            let taken = lock::try_lock(file, Kind::Write, 0, 1).map_err(|failure| Error::system(&path, failure))?;
            if !taken {
                return Ok(None);
            }
            // Whoever had it may have removed the file.
            if locks.identity(name) == Some(about.identity) {
                locks.permit(file, &about).map_err(|error| Error::io("chmod", &path, error))?;
                return Ok(Some(unforked));
            }
        }
    }

    pub(crate) fn lock_path(&self, name: &str) -> PathBuf {
        self.objects.path.join(LOCKS).join(name)
    }

    /// Whether somebody has the lock of a name; nothing for whoever may not know.
    pub(crate) fn is_locked(&self, name: &str) -> Result<Option<bool>> {
        let Some(locks) = &self.locks else { return Ok(None) };
        let file = match locks.guard.open(&locks.folder, name, Access::Read) {
            Ok((file, _)) => file,
            Err(refused) if refused.is_missing() => return Ok(Some(false)),
            Err(_) => return Ok(None),
        };
        let held = lock::is_held(&file, Kind::Read, 0, 1);
        held.map(Some).map_err(|failure| Error::system(locks.path.join(name), failure))
    }

    /// Takes away the lock of a name, which the caller has.
    pub(crate) fn remove_lock(&self, name: &str) -> io::Result<()> {
        match self.locks.as_ref().map_or(Ok(()), |locks| locks.folder.remove_file(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Whether files may be written.
    pub(crate) fn is_writing(&self) -> bool {
        self.objects.guard.is_writing()
    }
}

impl Part {
    /// The same for files that only those may open who may write them.
    pub(crate) fn of_writers(&self) -> Part {
        Part { mode: writers_mode(self.mode), is_of_writers: true, ..self.clone() }
    }

    /// The same for files with the mode that the directory has, whoever made it.
    pub(crate) fn with_folder_mode(&self) -> Result<Part> {
        Ok(Part { mode: self.folder_mode()?, ..self.clone() })
    }

    fn folder_mode(&self) -> Result<u32> {
        let about = self.folder.about().map_err(|error| Error::io("stat", &self.path, error))?;
        Ok(about.mode & 0o1777)
    }

    /// Gives a directory of this user's the mode that it is to have.
    fn repair_mode(&self) -> io::Result<()> {
        let about = self.folder.about()?;
        match about.owner == user_id() && about.mode & 0o1777 != self.mode & 0o1777 {
            true => self.folder.permit(self.mode),
            false => Ok(()),
        }
    }

    fn opened(&self, name: &str) -> Result<Option<Part>> {
        let path = self.path.join(name);
        match self.guard.open_folder(&self.folder, name) {
            Ok(folder) => Ok(Some(Part { path, folder, ..self.clone() })),
            Err(refused) if refused.is_missing() => Ok(None),
            Err(refused) => Err(Error::refused(path, refused)),
        }
    }

    fn made(&self, name: &str) -> Result<Part> {
        if let Some(there) = self.opened(name)? {
            return Ok(there);
        }
        let failed = |call, error| Error::io(call, self.path.join(name), error);
        make_folder(&self.folder, name.as_ref(), self.mode).map_err(|(call, error)| failed(call, error))?;
        self.opened(name)?.ok_or_else(|| failed("open", ErrorKind::NotFound.into()))
    }

    /// Opens a file; `None` if it is not there.
    pub(crate) fn open(&self, name: &str, access: Access) -> Result<Option<(File, About)>> {
        let access = match access {
            Access::Create(_) | Access::CreateExact(_) => Access::CreateExact(self.file_mode()),
            Access::New(_) => Access::New(self.file_mode()),
            access => access,
        };
        match self.guard.open(&self.folder, name, access) {
            Ok(opened) => Ok(Some(opened)),
            Err(refused) if refused.is_missing() => Ok(None),
            Err(refused) => Err(Error::refused(self.path.join(name), refused)),
        }
    }

    /// As [`open`](Part::open), so that forked children have neither the file nor the locks that are taken on it.
    pub(crate) fn open_unforked(&self, name: &str, access: Access) -> Result<Option<(Unforked, About)>> {
        let mut about = None;
        let opened = Unforked::open(|| match self.open(name, access) {
            Ok(Some((file, found))) => {
                about = Some(found);
                Ok(file)
            }
            Ok(None) => Err(None),
            Err(error) => Err(Some(error)),
        });
        match opened {
            Ok(file) => Ok(about.map(|about| (file, about))),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// The mode of files: that of the directories, without the right to execute.
    fn file_mode(&self) -> u32 {
        self.mode & 0o666 | 0o600
    }

    /// Gives a file of this user's the bits of its mode that it lacks: whatever the umask took, or a process did not come to that made
    /// it where the file system has no `O_TMPFILE`. What root makes is the directory's owner's, who could not open it else.
    pub(crate) fn permit(&self, file: &File, about: &About) -> std::io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        if about.owner != user_id() {
            return Ok(());
        }
        let (mode, wanted) = (about.mode & 0o777, self.file_mode());
        if mode & wanted != wanted || (self.is_of_writers && mode != wanted) {
            file.set_permissions(std::fs::Permissions::from_mode(wanted))?;
        }
        // Only what was made just now: another file of root's may have got the name since, and says what only root may read.
        if about.bytes == 0
            && let Some(owner) = owner_beside_root(&self.folder)?
        {
            let _ = std::os::unix::fs::fchown(file, Some(owner.owner), Some(owner.group));
        }
        Ok(())
    }

    pub(crate) fn identity(&self, name: &str) -> Option<(u64, u64)> {
        self.folder.about_name(name).ok().map(|about| about.identity)
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let names = self.folder.names().map_err(|error| Error::io("readdir", &self.path, error))?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).filter(|name| !name.starts_with('.')).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Of another user's folder without its mode, who is of the group could write nothing.
    #[test]
    fn a_folder_is_there_with_its_mode_or_not_at_all() {
        const MODE: u32 = 0o770;
        let dir = tempfile::tempdir().unwrap();
        for round in 0..300 {
            let place = dir.path().join(round.to_string());
            let is_made = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_made.load(Ordering::Relaxed) {
                        for name in ["", OBJECTS, ".objects/names", ".objects/boards"] {
                            let mode = About::at(&place.join(name), true).map_or(MODE, |about| about.mode);
                            assert_eq!(mode & 0o777, MODE, "{name}");
                        }
                    }
                });
                let made = Directory::make(&place, MODE, Trust::Own);
                is_made.store(true, Ordering::Relaxed);
                made.unwrap();
            });
            assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1, "nothing else is left");
        }
    }

    #[test]
    fn locks_are_for_those_who_may_write() {
        let locks = [(0o700, 0o700), (0o750, 0o700), (0o755, 0o700), (0o770, 0o770), (0o775, 0o770), (0o777, 0o777)];
        for (mode, wanted) in locks {
            let dir = tempfile::tempdir().unwrap();
            let made = Directory::make(dir.path(), mode, Trust::Own).unwrap();
            let lock = made.lock("u").unwrap().expect("nobody has it");
            let mode_of = |name: &str| About::at(&dir.path().join(OBJECTS).join(name), false).unwrap().mode & 0o777;
            assert_eq!((mode_of(LOCKS), mode_of("locks/u")), (wanted, wanted & 0o666), "{mode:o}");
            assert!(made.lock("u").unwrap().is_none() && made.is_locked("u").unwrap() == Some(true), "{mode:o}");
            assert_eq!(made.is_locked("v").unwrap(), Some(false), "{mode:o}");
            drop(lock);
            assert_eq!(made.is_locked("u").unwrap(), Some(false), "{mode:o}");
        }
    }

    /// It may be that of a process of another container, which has the same number and is just about to put it in its place.
    #[test]
    fn what_looks_left_over_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let others: Vec<PathBuf> =
            (0..50).map(|serial| dir.path().join(format!(".new.{}.{serial}", std::process::id()))).collect();
        others.iter().for_each(|other| std::fs::create_dir(other).unwrap());
        Directory::make(dir.path(), 0o700, Trust::Own).unwrap();
        assert!(others.iter().all(|other| other.is_dir()));
        assert_ne!(aside_name(), aside_name());
    }
}
