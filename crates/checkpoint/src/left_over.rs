//! What killed writers left in a store.

use crate::directory::{Lock, names, remove_tree};
use crate::layout::{self, LATEST_NEW};
use crate::{Error, Result, earlier};
use std::fs;
use std::path::Path;
use stillframe_kernel::points;

/// Removes what killed writers left, and returns its names. What they had exchanged is set aside. Only the holder of the lock
/// may, for what living writers are at work on looks the same.
pub(crate) fn clean(dir: &Path, _lock: &Lock) -> Result<Vec<String>> {
    let mut cleaned = Vec::new();
    for name in names(dir)? {
        let path = dir.join(&name);
        if name == LATEST_NEW {
            fs::remove_file(&path).map_err(|error| Error::io("unlink", &path, error))?;
        } else if layout::is_left_over(&name) {
            points::hit("open.clean");
            // No left-over, but an earlier run's checkpoint that made room for another of its number.
            if earlier::recover(dir, &path)? {
                continue;
            }
            remove_tree(&path)?;
        } else {
            continue;
        }
        cleaned.push(name);
    }
    cleaned.sort();
    Ok(cleaned)
}
