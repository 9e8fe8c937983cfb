//! Look at a running simulation without stopping it.
//!
//! A program creates a [`Region`], gives it variables, and publishes numbered versions of them. Any number of other
//! programs open an [`Observer`] on it at any time and take [`Snapshot`]s: read-only, consistent, and unchanged for as long
//! as they are held. Nobody locks and nobody waits; pages that did not change exist once.
//!
//! Start with `docs/start.md`; the mechanism is told in `docs/architecture.md` and the shared files in `docs/format.md`.
//! Handles do not survive `fork`: a child opens its own.
#![deny(unsafe_code)]

pub mod bfloat16;
mod block;
mod choice;
mod clock;
pub mod dimensions;
mod element;
pub mod enclave;
mod error;
mod group;
pub mod inspect;
mod list;
mod mask;
mod observer;
mod part;
mod place;
mod producer;
mod section;
mod store;
mod variable;
mod working;

pub use block::Block;
pub use element::Element;
pub use error::{Error, Family, RanksElsewhere, Result, Shortage};
pub use group::any::{AnyObserver, AnySnapshot};
pub use group::peers::PeerRegion;
pub use group::{Group, GroupOptions, GroupSnapshot, GroupSnapshots, RankInfo, RankState};
pub use half::{bf16, f16};
pub use num_complex::Complex;
pub use observer::chunks::{Chunk, Chunks};
pub use observer::options::ObserverOptions;
pub use observer::polite::Polite;
pub use observer::snapshot::Snapshot;
pub use observer::variable::VariableView;
pub use observer::view::View;
pub use observer::{Observer, Snapshots, VersionInfo};
pub use part::Part;
pub use place::arena::{Arena, ArenaOptions, ArenaUsage, Filling, RegionUsage};
pub use producer::aside::end_by_accident;
pub use producer::former::FormerGroup;
pub use producer::options::{RegionOptions, Rule};
pub use producer::pending::Finish;
pub use producer::publication::Publication;
pub use producer::region::{KeptMemory, Region};
pub use producer::staging::Staging;
pub use producer::statistics::{Outcome, Published, Statistics};
pub use section::{Section, Strided};
pub use stillframe_kernel::folder::Form;
pub use stillframe_kernel::fork::generation as fork_generation;
pub use stillframe_kernel::trust::{Distrust, NoTrust, Trust};
pub use stillframe_segment::dtype::{DTypeError, Field};
pub use stillframe_segment::{Corrupt, DType, Order, PAGE_BYTES, RANK_MAX, Scalar};
pub use store::unit::{MEMORY_UNITS, MemoryUnit};
pub use variable::{Array, Attributes, Declaration, Kind, Loaned, Tracked, VariableId};
pub use working::loan::{EndedLoan, Loan, LoanBytes};
pub use working::tracker::kind::{TRACKERS, TrackerKind};
pub use working::unit::{COPY_UNITS, CopyUnit};
