//! What lies in a region's shared files, and how bytes found there are checked.
//!
//! Every offset in this crate is documented in `docs/format.md`, and a test holds that document against the constants
//! here. Nothing in this crate does I/O: it turns bytes into checked values and back. Bytes read from a segment are
//! hostile until they have passed through here, because any process of the same user may have written them.
#![forbid(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!(
    "segments, checkpoints and what is exported have numbers of little-endian machines, as they lie in memory"
);

pub mod arena;
pub mod bell;
pub mod broker;
pub mod description;
pub mod dtype;
pub mod enclave;
pub mod head;
pub mod index;
pub mod lease;
pub mod manifest;
pub mod scalar;
pub mod schema;
pub mod table;

pub use description::Description;
pub use dtype::{DType, Field, Order};
pub use manifest::{Extent, Manifest};
pub use scalar::Scalar;
pub use schema::{Schema, Variable};

/// Bytes of a page, the unit in which content is tracked, copied and shared.
pub const PAGE_BYTES: usize = 4096;
/// Pages of a window, the unit of bookkeeping.
pub const WINDOW_PAGES: usize = 512;
/// Bytes of a window: one large page.
pub const WINDOW_BYTES: usize = PAGE_BYTES * WINDOW_PAGES;
/// Bytes of a block, the unit in which the `tables` file is allocated. A block holds one sub-table.
pub const BLOCK_BYTES: usize = 512;
/// Highest number of dimensions of a variable.
pub const RANK_MAX: usize = 8;
/// Most records that an element type may have one inside the other.
pub const NESTING_MAX: usize = 32;
/// Number of planes a region can have; higher plane numbers have other meanings.
pub const PLANES_MAX: usize = 254;

/// Something in a shared file is not what its format says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file} at byte {offset}: expected {expected}, found {found}")]
pub struct Corrupt {
    /// Name of the file inside the region's directory.
    pub file: String,
    /// Offset in bytes of the offending value.
    pub offset: u64,
    /// What a healthy file has there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl Corrupt {
    /// Names a file that is not there though others refer to it.
    pub fn missing(file: &str) -> Self {
        Corrupt::new(file, 0, "a file that versions refer to", "none")
    }

    /// Names a file that ends before all its bytes.
    pub fn cut(file: &str, length: u64, bytes: u64) -> Self {
        Corrupt::new(file, length as usize, format!("{bytes} bytes"), "the end of the file")
    }

    /// Names a value that breaks the format.
    pub fn new(file: &str, offset: usize, expected: impl ToString, found: impl ToString) -> Self {
        Self { file: file.to_string(), offset: offset as u64, expected: expected.to_string(), found: found.to_string() }
    }
}
