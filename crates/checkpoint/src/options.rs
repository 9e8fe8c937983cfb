//! How versions are saved.

use crate::layout::CHUNK_BYTES_LIMIT;
use crate::manifest::CodecName;
use crate::{Error, Keep, Result};
use stillframe::{Region, Trust};
use stillframe_kernel::trust::{Guard, Purpose};

/// How the bytes of chunks are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codec {
    /// As they are in memory.
    #[default]
    Plain,
    /// Zarr's codec `zstd`.
    Zstd {
        /// Compression level, 1 to 22; 3 is usual.
        level: i32,
    },
    /// Zarr's codec `blosc` with lz4 and bytes shuffled by the size of the elements.
    Lz4,
}

impl Codec {
    /// The codec's name in a manifest.
    pub fn name(self) -> CodecName {
        match self {
            Codec::Plain => CodecName::Bytes,
            Codec::Zstd { .. } => CodecName::Zstd,
            Codec::Lz4 => CodecName::Lz4,
        }
    }
}

/// Options for saving versions.
#[derive(Debug, Clone)]
pub struct SaveOptions {
    pub(crate) chunk_bytes: Option<usize>,
    pub(crate) codec: Codec,
    pub(crate) threads: usize,
    pub(crate) keep: Keep,
    trust: Option<Trust>,
}

/// Directories of projects are a group's, and a mask that lets the group write is what their members have.
const GROUP_WRITES: u32 = 0o020;
/// Most threads that save a version, unless more are asked for: the disk is the bottleneck, and a simulation needs the rest.
const THREADS_DEFAULT_MAX: usize = 4;

impl Default for SaveOptions {
    fn default() -> Self {
        let threads = stillframe_kernel::processor_count().min(THREADS_DEFAULT_MAX);
        SaveOptions { chunk_bytes: None, codec: Codec::Plain, threads, keep: Keep::default(), trust: None }
    }
}

impl SaveOptions {
    /// The options nobody asked for anything else in.
    pub fn new() -> SaveOptions {
        SaveOptions::default()
    }

    /// Bytes of a chunk, about. Each chunk is a file, and the unit in which a checkpoint shares content with the one before. By
    /// default it is between 1/4096 and 1/2048 of the checkpoint, but at least 512 KiB and at most 32 MiB.
    pub fn chunk_bytes(mut self, bytes: usize) -> Self {
        self.chunk_bytes = Some(bytes);
        self
    }

    /// How chunks are stored; plain by default.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Threads that write; by default as many as there are processors, at most 4.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Which checkpoints stay when a new one is safe; the newest 3 by default.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Whose directory this may be, besides the process's user's and root's; by default `$STILLFRAME_TRUST`, else nobody's.
    /// The group of the directory may write to it in any case, and so put other checkpoints there.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = Some(trust);
        self
    }

    /// How the directory and its files are looked at before they are written.
    pub(crate) fn guard(&self) -> Result<Guard> {
        let options = Region::options();
        let trust = self.trust.map_or(options.trusted(), Ok)?;
        Ok(Guard::new(trust, Purpose::Write { granted: GROUP_WRITES }))
    }

    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |option, why: String| Err(Error::BadOption { option, why });
        if let Some(bytes) = self.chunk_bytes.filter(|bytes| !(4096..=CHUNK_BYTES_LIMIT).contains(bytes)) {
            return refuse("chunk_bytes", format!("{bytes} is not between 4096 and {CHUNK_BYTES_LIMIT}"));
        }
        if self.threads == 0 || self.threads > 1024 {
            return refuse("threads", format!("{} is not between 1 and 1024", self.threads));
        }
        if self.keep.newest == 0 {
            return refuse("keep", "at least one checkpoint has to stay".into());
        }
        if self.keep.every == Some(0) {
            return refuse("keep_every", "0 is no distance: leave the option out, or use 1 for all".into());
        }
        match self.codec {
            Codec::Zstd { level } if !(1..=22).contains(&level) => {
                refuse("codec", format!("level {level} of zstd is not between 1 and 22"))
            }
            _ => Ok(()),
        }
    }
}
