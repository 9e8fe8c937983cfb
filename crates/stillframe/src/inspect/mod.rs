//! Looking at regions from outside: which exist, who holds what, what is damaged, what can go.

pub(crate) mod damage;
pub(crate) mod diagnose;
pub(crate) mod holders;
pub(crate) mod region;
pub(crate) mod removal;
pub mod xpmem;

pub use crate::place::arena::EnclaveInfo;
pub use crate::place::broker::is_handed_out;
pub use crate::place::names::{aside_of, check_name, root, trust_to_look, trust_to_write};
pub use damage::verify;
pub use diagnose::{Diagnosis, Fact, TrackerProbe, diagnose};
pub use holders::{Holder, holders};
pub use region::{GroupInfo, PlaneInfo, RegionInfo, State, arena_of, arenas, group, region, regions};
pub use removal::{
    Hidden, HiddenLock, Removed, collect, collect_if, collectable, is_stepped, remove, remove_trusting, remove_unfilled,
};
