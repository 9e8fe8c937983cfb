//! Where the files of regions lie.

pub(crate) mod directory;
pub(crate) mod hidden;
pub(crate) mod names;
pub(crate) mod plane_file;
