//! The interfaces of XPMEM and XEMEM, and the one of snapshots over them, on a stock kernel.
//!
//! XPMEM maps memory of one process into others by a kernel module; XEMEM gives its segments names; the XASM paper adds
//! memory of which versions are kept and exported. Here a range that is shared lies in a file in the directory of regions,
//! and a version is one of a Stillframe region. `docs/xpmem.md` says what is equal and what is not.
//!
//! `xpmem`, `xemem` and `xasm` have the functions of the headers of these names, and `call` what all of them have in common.
//! `state` is what is known of this process: the `segment`s that it made, what it was granted (`access`), and its
//! `attachment`s. `record` is how a segment is told to others, in the `directory` of regions, and `process` whose it is and
//! whether that process lives. `sharing` moves memory into files, `areas` knows what memory there is, and `space` has the
//! region of which versions are kept.
//!
//! # Safety
//!
//! The library lives in somebody else's process and touches four kinds of memory: what callers hand in as arguments, during the
//! call; ranges that a caller shares, whose content it moves without changing it; ranges that a caller wants replaced, by an
//! attachment at an address of his choice; and mappings of its own. It makes no reference to memory that others may write. No
//! function called from outside lets a panic through.
#![allow(unsafe_code)]

mod access;
mod areas;
mod attachment;
mod call;
mod directory;
mod fork;
mod memory;
mod problem;
mod process;
mod record;
mod segment;
mod sharing;
mod space;
mod state;
mod xasm;
mod xemem;
mod xpmem;
