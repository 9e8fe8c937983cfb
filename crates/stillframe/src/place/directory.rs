//! Directories of regions: opening them, and opening, making and removing what lies in them.
//!
//! Everything is opened by one step from a directory that is open, and looked at before it is used: whose it is, who may
//! write to it, and whether it is what it should be.

use crate::error::{Error, Result};
use crate::place::broker::socket_in;
use crate::place::names::{self, is_own_file, rank_of};
use std::ffi::OsString;
use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use stillframe_kernel::folder::{About, Access, Folder, Form};
use stillframe_kernel::trust::{Guard, Refused};
use stillframe_segment::lease;

/// How often others may make or remove a directory at the same time before it is no coincidence.
const ATTEMPTS: usize = 100;

/// A directory itself, rather than whatever has its name by now: after a removal by force, the producer that goes on must not
/// write among the files of the next one.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    /// For messages.
    path: PathBuf,
    pub(crate) folder: Folder,
    guard: Guard,
}

/// Why a file was not opened.
pub(crate) enum Unopened {
    /// Nothing has its name.
    Missing,
    Failed(Error),
}

impl From<Error> for Unopened {
    fn from(error: Error) -> Unopened {
        Unopened::Failed(error)
    }
}

impl Directory {
    /// Opens the directory that holds regions; `None` if there is none.
    pub(crate) fn root(path: &Path, guard: Guard) -> Result<Option<Directory>> {
        if socket_in(path).is_some() {
            return Err(Error::only_to_look(path));
        }
        Directory::opened(guard.open_root(path), path.into(), guard)
    }

    /// A directory that is open, of which nothing was looked at yet.
    pub(crate) fn over(folder: Folder, path: &Path, guard: Guard) -> Directory {
        Directory { path: path.into(), folder, guard }
    }

    fn opened(opened: Result<Folder, Refused>, path: PathBuf, guard: Guard) -> Result<Option<Directory>> {
        match opened {
            Ok(folder) => Ok(Some(Directory { path, folder, guard })),
            Err(refused) if refused.is_missing() => Ok(None),
            Err(refused) => Err(Error::refused(&path, refused)),
        }
    }

    /// Opens the directory that holds regions. It is made, with those above it, as far as it is not there.
    pub(crate) fn make_root(path: &Path, mode: u32, guard: Guard) -> Result<Directory> {
        for _ in 0..ATTEMPTS {
            if let Some(root) = Directory::root(path, guard)? {
                return Ok(root);
            }
            make(path, mode)?;
        }
        Err(Error::io("open", path, ErrorKind::NotFound.into()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn guard(&self) -> Guard {
        self.guard
    }

    /// The same directory, looked at in another way from here on.
    pub(crate) fn guarded(&self, guard: Guard) -> Directory {
        Directory { guard, ..self.clone() }
    }

    fn child(&self, name: &str) -> Result<Option<Directory>> {
        Directory::opened(self.guard.open_folder(&self.folder, name), self.path.join(name), self.guard)
    }

    /// Opens the directory of a name below this one, which may have several parts; `None` if there is none.
    pub(crate) fn below(&self, name: &str) -> Result<Option<Directory>> {
        let mut at = self.clone();
        for part in name.split('/') {
            match at.child(part)? {
                Some(child) => at = child,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The directory in which the last part of a name lies, and that part; `None` if there is none.
    pub(crate) fn above<'a>(&self, name: &'a str) -> Result<Option<(Directory, &'a str)>> {
        Ok(match name.rsplit_once('/') {
            Some((above, last)) => self.below(above)?.map(|above| (above, last)),
            None => Some((self.clone(), name)),
        })
    }

    /// As [`below`](Directory::below), and makes the directories that are not there.
    pub(crate) fn make_below(&self, name: &str, mode: u32) -> Result<Directory> {
        let mut failure = ErrorKind::NotFound.into();
        for _ in 0..ATTEMPTS {
            match self.try_make_below(name, mode)? {
                Ok(directory) => return Ok(directory),
                // Another process removed the one above it together with its last region.
                Err(error) => failure = error,
            }
        }
        Err(Error::io("open", &self.path.join(name), failure))
    }

    fn try_make_below(&self, name: &str, mode: u32) -> Result<io::Result<Directory>> {
        let mut at = self.clone();
        for part in name.split('/') {
            if let Some(child) = at.child(part)? {
                at = child;
                continue;
            }
            let path = at.path.join(part);
            let made = at.folder.make_folder(part, mode);
            let child = match made {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Err(error)),
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(Error::io("open", &path, error)),
                _ => at.child(part)?,
            };
            let Some(child) = child else { return Ok(Err(ErrorKind::NotFound.into())) };
            if made.is_ok() {
                match child.folder.permit(mode) {
                    // What removes regions may take it again before it has its mode.
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Err(error)),
                    permitted => permitted.map_err(|error| Error::io("chmod", &path, error))?,
                }
            }
            at = child;
        }
        Ok(Ok(at))
    }

    /// What is known of what has a name here: of a link the link itself. `None` if nothing has it.
    pub(crate) fn about(&self, name: &str) -> Option<About> {
        self.folder.about_name(name).ok()
    }

    /// Whether anything has this name here.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.about(name).is_some()
    }

    /// Opens a file.
    pub(crate) fn open(&self, name: &str, access: Access) -> Result<(File, About), Unopened> {
        self.guard.open(&self.folder, name, access).map_err(|refused| match refused.is_missing() {
            true => Unopened::Missing,
            false => Unopened::Failed(Error::refused(&self.path.join(name), refused)),
        })
    }

    /// Opens a file to read it; `None` if there is none.
    pub(crate) fn file(&self, name: &str) -> Result<Option<(File, About)>> {
        match self.open(name, Access::Read) {
            Ok(opened) => Ok(Some(opened)),
            Err(Unopened::Missing) => Ok(None),
            Err(Unopened::Failed(error)) => Err(error),
        }
    }

    /// Opens a file to write it, or to lock it as a writer does, and makes it if need be. Who writes it gives it all the access
    /// that `mode` grants.
    pub(crate) fn try_create(&self, name: &str, mode: u32) -> Result<File, Unopened> {
        let (file, about) = self.open(name, Access::CreateExact(mode & 0o666 | 0o600))?;
        // A file that is only locked, to be removed, may have other names: what it is to those is not changed.
        if self.guard.is_writing() {
            permit(&file, &about, mode)
                .map_err(|error| Unopened::Failed(Error::io("chmod", &self.path.join(name), error)))?;
        }
        Ok(file)
    }

    /// As [`try_create`](Directory::try_create), in a directory that is there.
    pub(crate) fn create(&self, name: &str, mode: u32) -> Result<File> {
        self.try_create(name, mode).map_err(|unopened| match unopened {
            Unopened::Missing => Error::io("open", &self.path.join(name), ErrorKind::NotFound.into()),
            Unopened::Failed(error) => error,
        })
    }

    /// The names in the directory.
    pub(crate) fn names(&self) -> Result<Vec<OsString>> {
        self.folder.names().map_err(|error| Error::io("open", &self.path, error))
    }

    /// The names in the directory that are texts, as all of a region's are; none if it cannot be listed.
    pub(crate) fn texts(&self) -> Vec<String> {
        let names = self.folder.names().unwrap_or_default();
        names.into_iter().filter_map(|name| name.into_string().ok()).collect()
    }

    /// Takes a file's name away, if it is there.
    pub(crate) fn unlink(&self, name: &str) -> Result<()> {
        match self.folder.remove_file(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("unlink", &self.path.join(name), error)),
            _ => Ok(()),
        }
    }

    /// Removes a directory below this one and those above it, as far as nothing is in them.
    pub(crate) fn remove_empty(&self, mut name: &str) -> Result<()> {
        loop {
            if self.above(name)?.is_none_or(|(above, last)| above.folder.remove_folder(last).is_err()) {
                return Ok(());
            }
            match name.rsplit_once('/') {
                Some((above, _)) => name = above,
                None => return Ok(()),
            }
        }
    }

    /// Removes what has a name, with all that is in it, and follows no link.
    pub(crate) fn remove_all(&self, name: &str) -> Result<()> {
        match self.folder.remove_all(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("unlink", &self.path.join(name), error)),
            _ => Ok(()),
        }
    }
}

/// Makes a directory and those above it, as far as they are not there.
fn make(dir: &Path, mode: u32) -> Result<()> {
    let mut failure = ErrorKind::NotFound.into();
    for _ in 0..ATTEMPTS {
        if dir.is_dir() {
            return Ok(());
        }
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            make(parent, mode)?;
        }
        match DirBuilder::new().mode(mode).create(dir) {
            Ok(()) => match Folder::open(dir, false).and_then(|folder| folder.permit(mode)) {
                Err(error) if error.kind() == ErrorKind::NotFound => failure = error,
                permitted => return permitted.map_err(|error| Error::io("chmod", dir, error)),
            },
            // Another process made it, or removed the one above it.
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => failure = error,
            Err(error) => return Err(Error::io("open", dir, error)),
        }
    }
    Err(Error::io("open", dir, failure))
}

/// Gives a file all the access that `mode` grants: the process's umask takes bits away that were asked for.
pub(crate) fn permit(file: &File, about: &About, mode: u32) -> std::io::Result<()> {
    let wanted = mode & 0o666;
    if about.mode & wanted != wanted {
        file.set_permissions(Permissions::from_mode(wanted))?;
    }
    Ok(())
}

/// The numbers that name directories below that of this name, ascending.
pub(crate) fn ranks_below(root: &Directory, name: &str) -> Result<Vec<u32>> {
    let Some(directory) = root.below(name)? else { return Ok(Vec::new()) };
    let names = directory.names()?.into_iter().filter_map(|name| name.into_string().ok());
    let mut ranks: Vec<u32> = names.filter_map(|name| rank_of(&name)).collect();
    ranks.sort_unstable();
    Ok(ranks)
}

/// Refuses to put a region inside another, where nobody would find it.
pub(crate) fn check_neighbours(root: &Directory, name: &str) -> Result<()> {
    for (end, _) in name.match_indices('/') {
        if root.below(&name[..end])?.is_some_and(|above| above.has(lease::FILE)) {
            return Err(names::inside(name, &name[..end]));
        }
    }
    let Some(directory) = root.below(name)? else { return Ok(()) };
    let is_region =
        |name: &String| !is_own_file(name) && directory.about(name).is_some_and(|about| about.form == Form::Folder);
    let others: Vec<String> = directory.texts().into_iter().filter(is_region).collect();
    let is_rank = |other: &String| {
        rank_of(other).is_some() && directory.below(other).is_ok_and(|it| it.is_some_and(|it| it.has(lease::FILE)))
    };
    match others.is_empty() {
        true => Ok(()),
        false if others.iter().any(is_rank) => Err(names::above_ranks(name)),
        false => Err(names::above_others(name)),
    }
}
