//! Files that a command is told to write: there whole, or as they were.

use crate::failure::Failure;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use stillframe_file::{Error, WholeFile};

/// Whether a path leads to a pipe or a device, which are written to as they are.
pub fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

/// The file that a path leads to, if it is there.
pub fn place(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_path_buf())
}

/// Begins to write a file. A link stays one: the file that it leads to is written anew.
pub fn begin(path: &Path) -> Result<WholeFile, Failure> {
    WholeFile::begin(&place(path)).map_err(|error| unwritable(path, error))
}

/// Puts it in its place.
pub fn commit(path: &Path, whole: WholeFile) -> Result<(), Failure> {
    whole.commit().map_err(|error| unwritable(path, error))
}

/// Writes all of a file at once; a pipe or a device as it is.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error| Failure::file(path, error);
    if is_special(path) {
        let mut special = File::options().write(true).open(path).map_err(failed)?;
        return special.write_all(bytes).map_err(failed);
    }
    let whole = begin(path)?;
    whole.file().write_all(bytes).map_err(failed)?;
    commit(path, whole)
}

fn unwritable(path: &Path, error: Error) -> Failure {
    match error {
        Error::System { error, .. } => Failure::file(path, error),
        busy => Failure::Problem(busy.to_string()),
    }
}
