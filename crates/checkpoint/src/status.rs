//! What a checkpointer says of itself, for people and schedulers.

use crate::directory::Directory;
use crate::{Error, Result, layout};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::path::Path;
use stillframe::Trust;
use stillframe_kernel::folder::Access;
use stillframe_kernel::trust::{Guard, Purpose, Refused};
use stillframe_kernel::{host_name, unix_ns};

/// The format of the status file that this program writes.
const FORMAT_VERSION: u32 = 1;
/// The status while it is written.
const PARTIAL: &str = ".status.json.partial";
/// Longest status that is read: some 20 bytes for each checkpoint.
const BYTES_MAX: u64 = 1 << 28;

/// Whether a checkpointer is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is.
    Running,
    /// It ended, and all that it had to save is safe.
    Ended,
    /// It ended, and something it had to save is not safe; `error` says why.
    Failed,
}

/// A version that is being saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saving {
    /// The version.
    pub version: u64,
    /// Bytes of all its variables.
    pub bytes: u64,
    /// Bytes of these that are written, or linked.
    pub bytes_done: u64,
}

/// What a checkpointer says of itself; as JSON it is the file `status.json` of its directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the format of this status.
    pub format_version: u32,
    /// The region or group.
    pub region: String,
    /// Its process.
    pub pid: u32,
    /// The host it runs on.
    pub host: String,
    /// Whether it is at work.
    pub state: State,
    /// The versions that are safe, ascending, as the directory had them at this time.
    pub safe: Vec<u64>,
    /// The newest of them.
    pub newest_safe: Option<u64>,
    /// The versions that are being saved.
    pub saving: Vec<Saving>,
    /// Versions that were to be saved and could not be, ascending; of those that a later one stands for, none.
    #[serde(default)]
    pub unsaved: Vec<u64>,
    /// Versions that were to be saved, and went before they could be.
    pub missed: u64,
    /// Versions saved.
    pub saved: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// Bytes that were not written because files of the checkpoint before were linked.
    pub linked_bytes: u64,
    /// What went wrong last, until it went well again.
    pub error: Option<String>,
    /// When this was written, in nanoseconds since 1970.
    pub updated_ns: u64,
}

impl Status {
    /// A status of this process, of nothing done.
    pub(crate) fn new(region: &str) -> Status {
        Status {
            format_version: FORMAT_VERSION,
            region: region.into(),
            pid: std::process::id(),
            host: host_name(),
            state: State::Running,
            safe: Vec::new(),
            newest_safe: None,
            saving: Vec::new(),
            unsaved: Vec::new(),
            missed: 0,
            saved: 0,
            written_bytes: 0,
            linked_bytes: 0,
            error: None,
            updated_ns: unix_ns(),
        }
    }

    /// What the last checkpointer at work in a directory said of itself; `None` if none ever did. A checkpointer that was
    /// killed still says that it is running.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the file is not a status; [`Error::Unreadable`].
    pub fn read(dir: impl AsRef<Path>) -> Result<Option<Status>> {
        let (dir, path) = (dir.as_ref(), dir.as_ref().join(layout::STATUS));
        // Whoever wrote it: but a link may lead anywhere, and a pipe to nothing.
        let guard = Guard::new(Trust::Any, Purpose::Look);
        let opened = match guard.open_root(dir).and_then(|store| guard.open(&store, layout::STATUS, Access::Read)) {
            Err(refused) if refused.is_missing() => return Ok(None),
            Err(Refused::System(error)) => return Err(Error::reading("open", &path, error)),
            Err(refused) => return Err(Error::refused(&path, refused)),
            Ok((file, _)) => file,
        };
        let mut text = Vec::new();
        opened.take(BYTES_MAX).read_to_end(&mut text).map_err(|error| Error::reading("read", &path, error))?;
        serde_json::from_slice(&text).map(Some).map_err(|error| Error::Damaged { path, why: error.to_string() })
    }

    /// Puts this in the place of the directory's status, at once. It is no proof of anything, and so not synced.
    pub(crate) fn write(&self, store: &Directory) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        store.replace(PARTIAL, layout::STATUS, &text)
    }
}
