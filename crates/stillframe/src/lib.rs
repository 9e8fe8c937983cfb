//! Look at a running simulation without stopping it.
//!
//! A program creates a [`Region`], gives it variables, and publishes numbered versions of them. Any number of other
//! programs open an [`Observer`] on it at any time and take [`Snapshot`]s: read-only, consistent, and unchanged for as long
//! as they are held. Nobody locks and nobody waits; pages that did not change exist once.
//!
//! Start with `docs/start.md`; the mechanism is told in `docs/architecture.md` and the shared files in `docs/format.md`.
//! Handles do not survive `fork`: a child opens its own.
#![deny(unsafe_code)]

mod any_observer;
// Regions do not live in arenas before the store knows of places.
#[cfg_attr(not(test), expect(dead_code, unused_imports))]
#[path = "place/arena/mod.rs"]
mod arena;
mod aside;
mod attachment;
mod block;
mod companions;
mod diagnose;
mod directory;
mod element;
mod error;
mod files;
mod gather;
mod group;
pub mod inspect;
mod loan;
mod managed;
mod mask;
mod observer;
mod options;
mod part;
mod place;
mod planes;
mod producer;
mod publish;
mod recovery;
mod region;
mod retirement;
mod room;
mod schemas;
mod snapshot;
mod staging;
mod sticky;
mod tables;
mod tracker;

pub use any_observer::{AnyObserver, AnySnapshot};
pub use arena::{Arena, ArenaOptions, ArenaUsage, RegionUsage};
pub use block::Block;
pub use element::Element;
pub use error::{Error, Family, Result, Shortage};
pub use group::{Group, GroupOptions, GroupSnapshot, GroupSnapshots, RankInfo, RankState};
pub use loan::{EndedLoan, Loan, LoanBytes};
pub use num_complex::Complex;
pub use observer::{Observer, ObserverOptions, Snapshots, VersionInfo};
pub use options::{RegionOptions, Rule};
pub use part::Part;
pub use region::{
    Array, Attributes, Declaration, KeptMemory, Kind, Loaned, Outcome, Publication, Published, Region, Statistics,
    Tracked, VariableId,
};
pub use snapshot::{Chunk, Chunks, Snapshot, VariableView, View};
pub use staging::Staging;
pub use stillframe_kernel::folder::Form;
pub use stillframe_kernel::fork::generation as fork_generation;
pub use stillframe_kernel::trust::{Distrust, NoTrust, Trust};
pub use stillframe_segment::dtype::{DTypeError, Field};
pub use stillframe_segment::{Corrupt, DType, Order, PAGE_BYTES, RANK_MAX, Scalar};
pub use tracker::{TRACKERS, TrackerKind};
