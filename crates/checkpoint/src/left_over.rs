//! What killed writers left in a store.

use crate::directory::{Directory, Lock};
use crate::layout::{self, LATEST_NEW};
use crate::{Error, Result, earlier};
use stillframe_kernel::points;

/// Removes what killed writers left, and returns its names. What they had exchanged is set aside. Only the holder of the lock
/// may, for what living writers are at work on looks the same.
pub(crate) fn clean(store: &Directory, _lock: &Lock) -> Result<Vec<String>> {
    let mut cleaned = Vec::new();
    let names = store.folder().names().map_err(|error| Error::io("readdir", store.path(), error))?;
    let is_there = |version: u64| store.folder().has(layout::checkpoint_dir(version));
    // Names that are no text are none of ours.
    for name in names.into_iter().filter_map(|name| name.into_string().ok()) {
        if name == LATEST_NEW {
            store.remove_all(&name)?;
        } else if layout::is_left_over(&name) {
            points::hit("open.clean");
            // No left-over, but an earlier run's checkpoint that made room for another of its number, or that other.
            if earlier::recover(store, &name)? || earlier::finish(store, &name)? {
                continue;
            }
            store.discard(&name)?;
        } else {
            // A directory for what an earlier run left, of which nothing came. With that in the store it says that this is
            // to go.
            if layout::earlier_version(&name).is_some_and(|highest| !is_there(highest)) {
                let _ = store.folder().remove_folder(&name);
            }
            continue;
        }
        cleaned.push(name);
    }
    cleaned.sort();
    Ok(cleaned)
}
