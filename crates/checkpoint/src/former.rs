//! What is there already under the name of a version that is to be saved.

use crate::directory::Directory;
use crate::layout;
use crate::{Checkpoint, Error, Result};
use std::cmp::Ordering;
use std::io::ErrorKind;
use stillframe::AnySnapshot;

/// What is under a version's name.
pub(crate) enum Former {
    Nothing,
    /// This very version.
    Same(Box<Checkpoint>),
    /// Another run's, which was published before.
    Earlier,
    /// What is damaged is no checkpoint, and makes room for one.
    Damaged,
}

pub(crate) fn checkpoint(store: &Directory, version: u64) -> Result<Checkpoint> {
    Checkpoint::open_version(store.folder(), store.path(), version)
}

/// The checkpoint of a version, if its manifest and the sizes of its files are as they should be.
pub(crate) fn good(store: &Directory, version: u64) -> Result<Checkpoint> {
    let checkpoint = checkpoint(store, version)?;
    checkpoint.check().map(|()| checkpoint)
}

/// What is there under the name of a version that is to be saved.
///
/// # Errors
/// [`Error::Contradicts`] if it is a later run's, or of a format that is not this program's to move.
pub(crate) fn former(source: &AnySnapshot, store: &Directory) -> Result<Former> {
    let version = source.version();
    let name = layout::checkpoint_dir(version);
    let path = || store.path().join(&name);
    if let Err(error) = store.folder().about_name(&name) {
        return match error.kind() {
            ErrorKind::NotFound => Ok(Former::Nothing),
            _ => Err(Error::io("stat", &path(), error)),
        };
    }
    match good(store, version) {
        Ok(good) => match good.manifest().published_ns.cmp(&source.published_ns()) {
            Ordering::Less => Ok(Former::Earlier),
            Ordering::Equal => Ok(Former::Same(good.into())),
            Ordering::Greater => Err(Error::Contradicts { path: path(), version }),
        },
        Err(Error::Damaged { .. }) => Ok(Former::Damaged),
        Err(Error::ForeignFormat { .. }) => Err(Error::Contradicts { path: path(), version }),
        Err(error) => Err(error),
    }
}
