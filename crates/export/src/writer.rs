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
