//! What a format has to be able to do.

use crate::content::{Array, Group};
use crate::error::Error;

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

impl Refusal {
    /// There is no array of this number.
    pub fn no_array(number: usize) -> Refusal {
        Refusal::Library { what: format!("array {number}"), text: "it was not added before its elements".into() }
    }
}

/// A file of the format, written from begin to end: all groups with their arrays, then the pieces of these. Whoever adds an array to
/// a netCDF file behind pieces of another has the library look at all that were added before.
pub trait Writer {
    /// Begins a group; the root is the first.
    fn group(&mut self, group: &Group) -> Result<(), Refusal>;
    /// Adds an array to it.
    fn array(&mut self, array: &Array, layout: Layout) -> Result<(), Refusal>;
    /// Writes a box of an array, the file's first one being number 0: its elements, row-major.
    fn write(&mut self, number: usize, start: &[usize], count: &[usize], bytes: &[u8]) -> Result<(), Refusal>;
    /// Ends the file, and tells what readers do not find in it.
    fn close(self: Box<Self>) -> Result<Remarks, Refusal>;
}

/// What readers do not find in a file.
#[derive(Debug, Default)]
pub struct Remarks {
    /// Attributes that the format has no place for.
    pub left_out: Vec<LeftOut>,
    /// Paths of the variables that readers of netCDF do not see in a file of HDF5.
    pub unseen: Vec<String>,
}

/// An attribute that is not in the file.
#[derive(Debug)]
pub struct LeftOut {
    /// What it is of, and its name.
    pub attribute: String,
    /// Why it is not there.
    pub why: &'static str,
}

impl LeftOut {
    /// One whose name the format uses for something else.
    pub fn of_name(of: &str, name: &str) -> LeftOut {
        LeftOut { attribute: format!("{of}: {name}"), why: "whose name the format keeps for itself" }
    }

    /// One whose text has a zero byte.
    pub fn of_text(of: &str, name: &str) -> LeftOut {
        LeftOut { attribute: format!("{of}: {name}"), why: "whose text has a zero byte, at which the format ends it" }
    }
}
