//! Checkpoints of running simulations, in files that need no Stillframe to be read.
//!
//! A *store* is a directory with the checkpoints of one region or one group. Each checkpoint is a directory in it, complete
//! in itself: a Zarr group with an array for each variable, a manifest, and a checksum of every file. `docs/checkpoint-format.md`
//! has every name and field.
//!
//! [`Saver`] writes one version at a time; what it returns as saved is on disk, and whoever looks at the store sees whole
//! checkpoints only.
#![deny(unsafe_code)]

mod base;
mod checkpoint;
mod checkpointer;
mod chunks;
mod codec;
mod damage;
mod decision;
mod digest;
mod directory;
mod earlier;
mod error;
mod former;
mod keep;
pub mod layout;
mod left_over;
pub mod manifest;
mod options;
mod origin;
mod pages;
mod partial;
mod position;
mod read_back;
mod recovered;
mod recovery;
pub mod removal;
mod repartition;
mod restore;
mod safe;
mod save;
mod saved;
mod schedule;
mod search;
mod status;
mod store;
mod tree;
mod verify;
mod when;
mod workers;
mod zarr;

pub use checkpoint::Checkpoint;
pub use checkpointer::{Checkpointer, CheckpointerOptions, Event, Obstacle};
pub use damage::{Damage, Fault};
pub use digest::Digest;
pub use earlier::SetAside;
pub use error::{Error, Result};
pub use keep::Keep;
pub use layout::Grid;
pub use manifest::Manifest;
pub use options::{Codec, SaveOptions};
pub use origin::{Origin, RecoveryOptions};
pub use recovered::{Recovered, RecoveredVariable};
pub use recovery::Recovery;
pub use restore::{RestoreOptions, Restored, restore, restore_newest};
pub use safe::{is_safe, newest_safe, wait_safe, wait_safe_from};
pub use save::Saver;
pub use saved::{Phase, Progress, Saved};
pub use status::{Saving, State, Status};
pub use store::{Entries, Entry, Skipped, Store};
pub use verify::Reading;
pub use when::When;
