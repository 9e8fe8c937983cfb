//! What a region begins with.

use crate::attribute::{Kept, c_text};
use crate::failure::Failure;
use checkpoint::{Origin, Recovered};
use std::ffi::{CString, c_char};

/// Where the content came from that a region begins with.
#[repr(C)]
pub enum stillframe_origin_code {
    /// There was nothing: a first run.
    STILLFRAME_ORIGIN_FRESH = 0,
    /// The region of the last run was still in memory.
    STILLFRAME_ORIGIN_MEMORY = 1,
    /// A checkpoint.
    STILLFRAME_ORIGIN_CHECKPOINT = 2,
}
use stillframe_origin_code::*;

/// What a region begins with. Texts live as long as the region's handle.
#[repr(C)]
pub struct stillframe_origin {
    /// A number of stillframe_origin_code. 0 is a first run.
    pub kind: u32,
    /// Checkpoints that are damaged and were left out.
    pub skipped_count: u32,
    /// The version that was recovered; 0 in a first run.
    pub version: u64,
    /// The checkpoint; "" if it is none.
    pub path: *const c_char,
    /// All of it in a sentence, for the log.
    pub sentence: *const c_char,
    /// The damaged checkpoints, a line each; "" if there are none.
    pub skipped: *const c_char,
    /// 0.
    pub reserved: [u64; 4],
}

/// What a recovered region remembers of it.
pub struct Beginning {
    /// Until the first publish.
    recovered: Option<Recovered>,
    pub attributes: Kept,
    kind: u32,
    version: u64,
    path: CString,
    sentence: CString,
    skipped: CString,
    skipped_count: u32,
}

impl Beginning {
    pub fn new(recovered: Recovered) -> Beginning {
        let (kind, path) = match recovered.origin() {
            Origin::Fresh => (STILLFRAME_ORIGIN_FRESH, CString::default()),
            Origin::Memory { .. } => (STILLFRAME_ORIGIN_MEMORY, CString::default()),
            Origin::Checkpoint { path, .. } => (STILLFRAME_ORIGIN_CHECKPOINT, c_text(&path.to_string_lossy())),
        };
        Beginning {
            attributes: Kept::new(recovered.attributes()),
            kind: kind as u32,
            version: recovered.version().unwrap_or(0),
            path,
            sentence: c_text(&recovered.origin().to_string()),
            skipped: c_text(&recovered.skipped().join("\n")),
            skipped_count: recovered.skipped().len() as u32,
            recovered: Some(recovered),
        }
    }

    pub fn origin(&self) -> stillframe_origin {
        stillframe_origin {
            kind: self.kind,
            skipped_count: self.skipped_count,
            version: self.version,
            path: self.path.as_ptr(),
            sentence: self.sentence.as_ptr(),
            skipped: self.skipped.as_ptr(),
            reserved: [0; 4],
        }
    }

    /// Lets go of the recovered version, which the next one takes the place of.
    pub fn end(&mut self) {
        self.recovered = None;
    }
}

/// What was recovered, while it can be read.
pub fn recovered(beginning: &Option<Beginning>) -> Result<&Recovered, Failure> {
    match beginning {
        None => {
            Err(Failure::argument("region", "it was made by stillframe_create: stillframe_recover finds what was left"))
        }
        Some(beginning) => beginning.recovered.as_ref().ok_or_else(|| {
            Failure::argument(
                "region",
                "it has published: what was recovered is read and filled in before the first publish",
            )
        }),
    }
}
