//! The formats, and which one a file is of.

use crate::writer::{Refusal, Writer};
use crate::{hdf5, netcdf};
use std::path::Path;

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
            Format::Hdf5 => Box::new(hdf5::File::create(path)?),
            Format::NetCdf => Box::new(netcdf::File::create(path)?),
        })
    }
}
