//! Room for a file, before it is written and when it could not be.

use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Refuses what cannot fit into the file system of `file`, which is to be `path`.
///
/// # Errors
/// [`Error::NoRoom`].
pub fn check(path: &Path, file: &File, needed: u64) -> Result<()> {
    let found = rustix::fs::fstatvfs(file).map_err(|error| Error::file(path, error))?;
    let available = found.f_bavail.saturating_mul(found.f_frsize);
    // Some file systems do not tell, and say zero.
    if found.f_blocks > 0 && available < needed {
        return Err(Error::NoRoom { path: path.into(), needed, available });
    }
    Ok(())
}

/// What the system says to more bytes in this file, because the formats' libraries do not pass on why they failed.
pub fn obstacle(file: &File) -> Option<io::Error> {
    let probe = vec![1; 1 << 20];
    let end = file.metadata().map(|meta| meta.len()).unwrap_or(0);
    file.write_all_at(&probe, end).and_then(|()| file.sync_all()).err()
}
