//! The `arena` file: many regions in one file of fixed length.
//!
//! The file is cut into chunks of one window, numbered by their offset. The first chunks hold the arena's own tables: a
//! header, an index of regions by name (a hash table with linear probing), an owner word for each chunk, a record for each
//! region, and an owner word for each page. All numbers are little-endian. Where each table lies follows from the number of
//! chunks and the most regions, so that a header can only be right or wrong.
//!
//! A chunk belongs to one region, or is *small*: then each of its pages has an owner, and the words of its pages mean
//! something only then. Owner words are taken by compare-and-swap. The index and the state of records are changed by one
//! process at a time, whoever has the write lock on the byte at [`CREATE_AT`]; the word at [`PENDING_AT`] says what it is
//! changing, so that whoever gets the lock after its death can undo or finish that.
//!
//! The locks of all regions lie in a few files, or in one: ranges of all kinds are apart. The kernel looks through the locks of a
//! file one by one, so leases on many regions lie in several ([`lease_file`]).

mod geometry;
mod layout;
mod locks;
mod name;
pub mod record;
mod words;

pub use geometry::{Geometry, Unfit};
pub use layout::*;
pub use locks::*;
pub use name::{decode_name, encode_name, hash, is_name};
pub use record::{Record, State, encode_span};
pub use words::{Bucket, Owner, Pending, next_generation, word_of};

#[cfg(test)]
mod tests;
