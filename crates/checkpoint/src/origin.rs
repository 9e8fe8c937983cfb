//! What a run goes on from, and which of what is left it asks for.

use std::path::PathBuf;
use stillframe::RegionOptions;

/// What a run goes on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A version that was still in memory.
    Memory {
        /// The version.
        version: u64,
    },
    /// A checkpoint.
    Checkpoint {
        /// The version.
        version: u64,
        /// The checkpoint's directory.
        path: PathBuf,
    },
    /// Nothing: there was none.
    Fresh,
}

impl Origin {
    /// The version, if there is one.
    pub fn version(&self) -> Option<u64> {
        match self {
            Origin::Memory { version } | Origin::Checkpoint { version, .. } => Some(*version),
            Origin::Fresh => None,
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Memory { version } => write!(f, "going on from version {version}, which was still in memory"),
            Origin::Checkpoint { version, path } => {
                write!(f, "going on from version {version} of the checkpoint {}", path.display())
            }
            Origin::Fresh => write!(f, "beginning with nothing"),
        }
    }
}

/// How a program begins; see [`Recovery`](crate::Recovery).
#[derive(Debug, Clone, Default)]
pub struct RecoveryOptions {
    pub(crate) region: RegionOptions,
    pub(crate) checkpoints: Option<PathBuf>,
    pub(crate) version: Option<u64>,
}

impl RecoveryOptions {
    /// How the region is made: its directory, its rank and the number of ranks, and whatever else. With
    /// [`fresh`](RegionOptions::fresh) the run begins with nothing, whatever there is; what `rollback` says is left aside.
    pub fn region(mut self, options: RegionOptions) -> Self {
        self.region = options;
        self
    }

    /// The directory that checkpoints are saved in. It need not be there.
    pub fn checkpoints(mut self, dir: impl Into<PathBuf>) -> Self {
        self.checkpoints = Some(dir.into());
        self
    }

    /// The version to go on from, wherever it is; by default what was published last.
    pub fn version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }
}
