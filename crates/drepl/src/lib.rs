//! DRepl: describe a layout of data once, and get any other layout of it.
//!
//! A *dataset* holds *objects*: typed arrays and records without a layout. A *fragment* is an actual buffer: it says
//! which elements of which objects lie in it, and where. From a wanted fragment and the fragments that exist, the
//! *planner* computes which source gives which part, and the *executor* moves the bytes. Halos, restarts with another
//! number of ranks, structures of arrays out of arrays of structures, and collation into one file are all this one
//! operation.
//!
//! The language is specified in `docs/drepl-language.md`. It goes back to Ionkov, Lang and Maltzahn, "DRepl: Optimizing
//! access to application data for analysis and visualization", MSST 2013, and to the dialect in Otstott et al., "A
//! Foundation for Automated Placement of Data", Figure 1.
//!
//! Modules, from the bottom up; each uses only those above it in this list:
//!
//! | module | |
//! |---|---|
//! | [`encoding`] | bytes to store or to send |
//! | [`types`] | primitives, records and arrays |
//! | [`progression`], [`index_box`], [`tree`], [`index_set`] | sets of indices, their algebra, and which of many boxes meet one |
//! | [`dataset`] | objects, and the leaves they consist of |
//! | [`fragment`] | what lies where in one buffer |
//! | [`text`], [`program`] | a text, its syntax tree, its mistakes |
//! | [`bindings`], [`schema`] | what it describes once its names have numbers; `sent`, these and fragments as bytes |
//! | [`transfer`]; `strided`, `moves`, `conversion` | byte moves between two buffers, and numbers converted on the way |
//! | [`clip`] | the part of them in a window |
//! | [`executor`] | moves the bytes |
//! | [`plan`](mod@plan), [`planner`], [`index`] | which source gives which part of a wanted fragment |
//! | [`update`] | what a write to one fragment does to the others |
//! | [`picture`] | drawings of plans |
//!
//! No module knows anything about shared memory, processes or files of Stillframe.

pub mod bindings;
pub mod clip;
mod conversion;
mod cover;
pub mod dataset;
pub mod encoding;
pub mod executor;
pub mod fill;
pub mod fragment;
pub mod index;
pub mod index_box;
pub mod index_set;
mod moves;
pub mod picture;
pub mod plan;
pub mod planner;
pub mod program;
pub mod progression;
mod resolve;
pub mod schema;
mod sent;
mod strided;
pub mod text;
pub mod transfer;
pub mod tree;
pub mod types;
pub mod update;

pub use bindings::Bindings;
pub use dataset::Dataset;
pub use fragment::{Fragment, FragmentError, Part, Variable};
pub use index::Index;
pub use index_box::IndexBox;
pub use index_set::IndexSet;
pub use plan::{Missing, Piece, Plan, Share};
pub use planner::{PlanError, Source, Wanted, plan};
pub use program::Program;
pub use progression::Progression;
pub use schema::{Replica, Schema, View};
pub use text::diagnostic::{Diagnostic, Diagnostics};
pub use update::{Overlap, Participant, Update, Updates, Written, overlaps};
