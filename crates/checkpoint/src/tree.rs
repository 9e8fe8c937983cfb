//! The files of a checkpoint, opened so that no path in it and no link leads out of it.

use crate::{Error, Result};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
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

    pub(crate) fn path(&self) -> &Path {
        &self.path
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

    /// All that lies below: the paths of what is no directory. Directories that `enter` refuses are named themselves.
    pub(crate) fn walk(&self, enter: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut open = vec![(self.folder.clone(), String::new(), 0)];
        while let Some((folder, prefix, depth)) = open.pop() {
            let failed = |error| Error::reading("readdir", &self.path.join(&prefix), error);
            for name in folder.names().map_err(failed)? {
                let path = format!("{prefix}{}", name.to_string_lossy());
                // What is a link is not followed: its form is that of a link.
                let is_folder = folder.about_name(&name).map_err(failed)?.form == Form::Folder;
                match is_folder && depth < DEPTH_MAX && enter(&path) {
                    true => open.push((folder.folder(&name).map_err(failed)?, format!("{path}/"), depth + 1)),
                    false => found.push(path),
                }
            }
        }
        found.sort();
        Ok(found)
    }
}
