//! The files of a checkpoint, opened so that no path in it and no link leads out of it.

use crate::{Error, Result};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use stillframe_kernel::disk;
use stillframe_kernel::folder::{Access, Folder, Form};

/// A directory and what lies below it. It is the directory itself, whatever has its name by now.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    path: PathBuf,
    folder: Folder,
}

/// Directories that lie in each other, at most: a checkpoint has a rank, a variable, and an axis of chunks for each.
const DEPTH_MAX: usize = 80;

impl Tree {
    /// Opens a directory, also through a symbolic link that its user names.
    pub(crate) fn open(path: &Path) -> Result<Tree> {
        let folder = Folder::open(path, true).map_err(|error| Error::reading("open", path, error))?;
        // Who may not list a checkpoint is told so here.
        folder.reopen().map_err(|error| Error::reading("open", path, error))?;
        Ok(Tree { path: path.into(), folder })
    }

    /// A directory that is open, and the name that it has in messages.
    pub(crate) fn of(folder: Folder, path: &Path) -> Tree {
        Tree { path: path.into(), folder }
    }

    /// The same directory, under another name in messages.
    pub(crate) fn at(&self, path: &Path) -> Tree {
        Tree::of(self.folder.clone(), path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What tells the directory from its copies; `None` where that cannot be told.
    pub(crate) fn birth(&self) -> Option<(u64, u64)> {
        self.folder.birth()
    }

    /// Brings files to disk, and the names of all directories that lead to them.
    ///
    /// # Errors
    /// The path, and the error of opening or fsync(2).
    pub(crate) fn sync_files<'a>(&self, files: impl Iterator<Item = &'a str>) -> Result<(), (PathBuf, io::Error)> {
        let mut folders = BTreeSet::from([""]);
        for file in files {
            let synced = self.file(file).and_then(|(opened, _)| sync(&opened));
            synced.map_err(|error| (self.path.join(file), error))?;
            folders.extend(file.match_indices('/').map(|(end, _)| &file[..end]));
        }
        for path in folders {
            let parts = path.split('/').filter(|part| !part.is_empty());
            let folder = parts.into_iter().try_fold(self.folder.clone(), |folder, part| folder.folder(part));
            folder.and_then(|folder| folder.sync()).map_err(|error| (self.path.join(path), error))?;
        }
        Ok(())
    }

    /// The directory of a file below this one, and its name there.
    pub(crate) fn place<'a>(&self, path: &'a str) -> io::Result<(Folder, &'a str)> {
        let (above, name) = path.rsplit_once('/').map_or((None, path), |(above, name)| (Some(above), name));
        let mut parts = above.into_iter().flat_map(|above| above.split('/')).chain([name]);
        if parts.any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the path leads out of the checkpoint"));
        }
        let parts = above.into_iter().flat_map(|above| above.split('/'));
        let folder = parts.into_iter().try_fold(self.folder.clone(), |folder, part| folder.folder(part))?;
        Ok((folder, name))
    }

    /// Opens a file below the directory: a regular one, and by way of directories only.
    pub(crate) fn file(&self, path: &str) -> io::Result<(File, Metadata)> {
        let (folder, name) = self.place(path)?;
        let file = folder.file(name, Access::Read)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok((file, metadata))
    }

    /// Brings the directory to disk with those in it, and with `files` their files, which whoever reads them next reads from
    /// there. `fail` makes the error of a call.
    pub(crate) fn sync(&self, files: bool, fail: &dyn Fn(&'static str, &Path, io::Error) -> Error) -> Result<()> {
        self.go_through(fail, &mut |folder, path| {
            let path = self.path.join(path);
            let mut below = Vec::new();
            for name in folder.names().map_err(|error| fail("readdir", &path, error))? {
                match folder.about_name(&name).map_err(|error| fail("stat", &path.join(&name), error))?.form {
                    Form::Folder => below.push(name),
                    Form::File if files => {
                        let opened = folder.file(&name, Access::Read);
                        let file = opened.map_err(|error| fail("open", &path.join(&name), error))?;
                        sync(&file).map_err(|error| fail("fsync", &path.join(&name), error))?;
                        disk::drop_cached(&file);
                    }
                    Form::File | Form::Link | Form::Pipe | Form::Other => {}
                }
            }
            folder.sync().map_err(|error| fail("fsync", &path, error))?;
            Ok(below)
        })
    }

    /// All that lies below: the paths of what is no directory. Directories that `enter` refuses are named themselves.
    pub(crate) fn walk(&self, enter: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut found = Vec::new();
        self.go_through(&Error::reading, &mut |folder, path| {
            let failed = |error| Error::reading("readdir", &self.path.join(path), error);
            let mut below = Vec::new();
            for name in folder.names().map_err(failed)? {
                let named = path.join(&name).to_string_lossy().into_owned();
                // What is a link is not followed: its form is that of a link.
                match folder.about_name(&name).map_err(failed)?.form {
                    Form::Folder if path.components().count() < DEPTH_MAX && enter(&named) => below.push(name),
                    _ => found.push(named),
                }
            }
            Ok(below)
        })?;
        found.sort();
        Ok(found)
    }

    /// Looks at each directory, with its path, and then at those in it that `look` names. One is open at a time, because there
    /// may be more than a process may have open.
    fn go_through(
        &self,
        fail: &dyn Fn(&'static str, &Path, io::Error) -> Error,
        look: &mut dyn FnMut(&Folder, &Path) -> Result<Vec<OsString>>,
    ) -> Result<()> {
        let mut left = vec![PathBuf::new()];
        while let Some(path) = left.pop() {
            let folder = path.iter().try_fold(self.folder.clone(), |folder, part| folder.folder(part));
            let folder = folder.map_err(|error| fail("open", &self.path.join(&path), error))?;
            if path.components().count() > DEPTH_MAX {
                let why = format!("more than {DEPTH_MAX} directories lie in each other");
                return Err(Error::Damaged { path: self.path.join(path), why });
            }
            left.extend(look(&folder, &path)?.into_iter().map(|name| path.join(name)));
        }
        Ok(())
    }
}

/// Brings a file to disk that somebody else wrote.
fn sync(file: &File) -> io::Result<()> {
    match disk::sync(file) {
        // Where it is not known there is nothing to be written, as in a file system that is an image, or no disk below.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        other => other,
    }
}
