//! Room for versions of other nodes in the file system of this one.

use crate::groups::loss::{Cause, Loss};
use std::fs::File;
use std::path::{Path, PathBuf};
use stillframe_kernel::disk::room_bytes;

/// The file system that regions are in.
#[derive(Debug, Clone)]
pub(super) struct Room {
    dir: PathBuf,
    /// How much is free of it where a test says so.
    #[cfg(test)]
    pub(super) free: std::sync::Arc<std::sync::Mutex<Option<u64>>>,
}

impl Room {
    pub(super) fn new(dir: &Path) -> Room {
        Room {
            dir: dir.into(),
            #[cfg(test)]
            free: std::sync::Arc::default(),
        }
    }

    /// Refuses what would leave programs of this node without memory: room for it has to be there, and an eighth of all beside it.
    ///
    /// # Errors
    /// How much is free.
    pub(super) fn check(&self, bytes: u64) -> Result<(), Loss> {
        let room = File::open(&self.dir)
            .map_err(|error| error.to_string())
            .and_then(|dir| room_bytes(&dir).map_err(|error| error.to_string()));
        let (free, all) = room.map_err(Loss::here)?;
        #[cfg(test)]
        let free = self.free.lock().ok().and_then(|free| *free).unwrap_or(free);
        match bytes.saturating_add(all / 8) > free {
            true => {
                let why = format!("its {bytes} bytes have no room here, where {free} are free of {all}");
                Err(Loss::new(Cause::Room, why))
            }
            false => Ok(()),
        }
    }
}
