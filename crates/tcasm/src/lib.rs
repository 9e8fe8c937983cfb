//! TCASM's interface on a stock kernel, as a library to be preloaded.
//!
//! The TCASM paper (Otstott, Ionkov, Lang, Zhao) lets a program publish a private mapping of a file below `/dev/shm` with
//! `msync(address, length, MS_SYNC | MS_UPDATE)`, for which it changes the kernel. Here the calls are taken before they
//! reach it: what is published becomes a version of a Stillframe region named after the file, and a read-only mapping of
//! the file gets the pages of the newest one. `docs/tcasm.md` says what is equal and what is not.
//!
//! `entry` and `removal` have the functions that stand in for the C library's, and `next` those. `producer` and `observer` have
//! what the two kinds of mappings need, `publishing` what a version shows, `file` and `files` what is known of files, and
//! `state` and `ranges` which addresses are whose.
//!
//! # Safety
//!
//! The library lives in somebody else's process and touches three kinds of memory: what a caller of `mmap` is about to be
//! given, before he is; what he published, while he waits in `msync`; and mappings of its own. Everything else is passed to
//! the kernel, which checks it. A lock that stays with the one who waited for it keeps what it is a part of. No function
//! called from outside lets a panic through, and none waits for another process.
#![allow(unsafe_code)]

mod begin;
mod change;
mod entry;
mod file;
mod files;
mod fork;
mod handler;
mod holes;
mod inside;
mod kernel;
mod later;
mod lock;
mod names;
mod next;
mod observer;
mod pristine;
mod producer;
mod publishing;
mod ranges;
mod removal;
mod report;
mod state;
