//! Where the files of regions lie.

pub(crate) mod arena;
pub(crate) mod directory;
pub(crate) mod hidden;
pub(crate) mod names;
pub(crate) mod plane_file;
pub(crate) mod stretch;
pub(crate) mod table_memory;

use crate::error::{Error, Result};

/// Refuses pages of another size than the format's.
pub(crate) fn check_pages() -> Result<()> {
    match stillframe_kernel::system_page_bytes() {
        stillframe_kernel::PAGE_BYTES => Ok(()),
        found_bytes => Err(Error::ForeignPages { found_bytes }),
    }
}
