//! The files of a checkpoint, opened so that no path in it and no link leads out of it.

use crate::{Error, Result};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A directory and what lies below it. It is the directory itself, whatever has its name by now.
#[derive(Debug)]
pub(crate) struct Tree {
    path: PathBuf,
    handle: File,
}

/// Directories that lie in each other, at most: a checkpoint has a rank, a variable, and an axis of chunks for each.
const DEPTH_MAX: usize = 80;

impl Tree {
    /// Opens a directory, also through a symbolic link that its user names.
    pub(crate) fn open(path: &Path) -> Result<Tree> {
        let handle = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(path);
        let handle = handle.map_err(|error| Error::reading("open", path, error))?;
        Ok(Tree { path: path.into(), handle })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file below the directory: a regular one, and by way of directories only.
    pub(crate) fn file(&self, path: &str) -> io::Result<(File, Metadata)> {
        let mut at: Option<File> = None;
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            if part.is_empty() || part == "." || part == ".." {
                return Err(io::Error::new(ErrorKind::InvalidInput, "the path leads out of the checkpoint"));
            }
            let is_last = parts.peek().is_none();
            // A pipe in the place of a file is not to be waited for.
            let kind = if is_last { libc::O_NONBLOCK } else { libc::O_DIRECTORY };
            let above = at.as_ref().unwrap_or(&self.handle);
            let beside = format!("/proc/self/fd/{}/{part}", above.as_raw_fd());
            at = Some(File::options().read(true).custom_flags(libc::O_NOFOLLOW | kind).open(beside)?);
        }
        let file = at.ok_or(ErrorKind::InvalidInput)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok((file, metadata))
    }

    /// All that lies below: the paths of what is no directory. Directories that `enter` refuses are named themselves.
    pub(crate) fn walk(&self, enter: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut open = vec![(PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd())), String::new(), 0)];
        while let Some((dir, prefix, depth)) = open.pop() {
            let failed = |error| Error::reading("readdir", &self.path.join(&prefix), error);
            for entry in std::fs::read_dir(&dir).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
                // What is a link is not followed: its type is that of a link.
                let is_dir = entry.file_type().map_err(failed)?.is_dir();
                match is_dir && depth < DEPTH_MAX && enter(&path) {
                    true => open.push((entry.path(), format!("{path}/"), depth + 1)),
                    false => found.push(path),
                }
            }
        }
        found.sort();
        Ok(found)
    }
}
