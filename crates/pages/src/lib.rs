//! Pools of large pages.
//!
//! A **pool** is memory that is taken from the kernel once, in pages of 2 MiB or 1 GiB, and which the kernel neither reclaims
//! nor moves nor merges as long as the pool is there: what the paper (HPMMAP, section III) does by taking memory offline. Here
//! it is a mounted hugetlbfs with a least size (`min_size`), below `/run/stillframe/pages`. Who may use it is said by the owner
//! and mode of the directory. What a process takes of it is free again when the process ends, however it does.
//!
//! | module | |
//! |---|---|
//! | [`page`] | the two sizes of pages |
//! | [`supply`] | how many there are, as `/sys` tells and is told |
//! | [`mounts`] | where file systems of them are mounted |
//! | [`pool`] | one pool |
//! | [`holders`] | who has what of it |
//! | `fill` | filling its pages once |
//! | `note` | what was gathered for it, beside it |
//! | [`reserve`] | making a pool, and giving it back |
//! | [`mod@unit`] | having it made again after a restart |
//!
//! Each uses only those above it.
#![forbid(unsafe_code)]

pub mod error;
mod fill;
pub mod holders;
pub mod mounts;
mod note;
pub mod page;
pub mod pool;
pub mod reserve;
pub mod supply;
pub mod unit;

pub use error::{Error, Result};
pub use page::Page;
pub use pool::Pool;
