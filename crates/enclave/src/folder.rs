//! The directories of enclaves, each with the arena of one, in a directory of regions.

use crate::error::{Error, Result};
use crate::socket::{explain, system};
use std::io::ErrorKind;
use std::path::Path;
use stillframe_kernel::folder::Folder;
use stillframe_kernel::trust::Guard;
use stillframe_segment::enclave::{NAME_BYTES_MAX, is_name};

/// Refuses what cannot be an enclave's name.
pub(crate) fn check_name(dir: &Path, name: &str) -> Result<()> {
    match is_name(name) {
        true => Ok(()),
        false => {
            let why = format!("'{name}' is no enclave's name: 1 to {NAME_BYTES_MAX} letters, digits, '-' and '_'");
            Err(Error::NotShared { path: dir.join(name), why })
        }
    }
}

/// Opens the directory of an enclave, and makes it if there is none.
pub(crate) fn make_folder(dir: &Path, name: &str, mode: u32, guard: Guard) -> Result<Folder> {
    let path = dir.join(name);
    let root = guard.open_root(dir).map_err(|refused| explain(dir, refused))?;
    let is_new = match root.make_folder(name, mode) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(system(&path, "mkdir", error)),
        made => made.is_ok(),
    };
    let folder = guard.open_folder(&root, name).map_err(|refused| explain(&path, refused))?;
    // The process's umask takes bits away that were asked for.
    if is_new {
        folder.permit(mode).map_err(|error| system(&path, "chmod", error))?;
    }
    Ok(folder)
}
