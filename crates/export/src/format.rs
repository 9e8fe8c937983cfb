//! What a format has to be able to do.

use crate::content::{Array, Group};
use crate::error::Error;
use std::path::Path;

/// How arrays are laid out.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'a> {
    /// In chunks of this shape; in one run if there is none.
    pub chunk: Option<&'a [usize]>,
    /// Level of deflate, 1 to 9, for chunks.
    pub deflate: u8,
    /// Whether all elements will be written.
    pub whole: bool,
}

/// Why a library refused.
#[derive(Debug)]
pub enum Refusal {
    /// It says so itself.
    Library {
        /// What was to be done.
        what: String,
        /// Its words.
        text: String,
    },
    /// A name breaks a rule of the format.
    Name(Error),
}

/// A file of the format, written from begin to end: a group, its arrays, their pieces, the next group.
pub trait Writer {
    /// Begins a group; the root is the first.
    fn group(&mut self, group: &Group) -> Result<(), Refusal>;
    /// Begins an array of it.
    fn array(&mut self, array: &Array, layout: Layout) -> Result<(), Refusal>;
    /// Writes a box of that array: its elements, row-major.
    fn write(&mut self, start: &[usize], count: &[usize], bytes: &[u8]) -> Result<(), Refusal>;
    /// Ends the file, and tells which attributes the format has no place for.
    fn close(self: Box<Self>) -> Result<Vec<String>, Refusal>;
}

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// HDF5.
    Hdf5,
    /// netCDF-4, which is a kind of HDF5.
    NetCdf,
}

impl Format {
    /// The format that a file's ending says.
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()?.to_lowercase().as_str() {
            "h5" | "hdf5" => Some(Format::Hdf5),
            "nc" | "nc4" => Some(Format::NetCdf),
            _ => None,
        }
    }

    /// Its name, and its library's.
    pub fn name(self) -> &'static str {
        match self {
            Format::Hdf5 => "HDF5",
            Format::NetCdf => "netCDF",
        }
    }

    /// Begins a file.
    pub fn create(self, path: &Path) -> Result<Box<dyn Writer>, Refusal> {
        Ok(match self {
            Format::Hdf5 => Box::new(crate::hdf5::File::create(path)?),
            Format::NetCdf => Box::new(crate::netcdf::File::create(path)?),
        })
    }
}
