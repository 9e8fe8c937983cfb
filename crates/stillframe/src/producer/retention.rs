//! Which versions a producer lets go.

use crate::error::Result;
use crate::group::peers::Peers;
use crate::producer::options::RegionOptions;
use crate::store::Store;

/// Retires the versions that are not wanted any more, and asks again for those that were held.
pub(crate) fn retire_unwanted(store: &mut Store, peers: Option<&mut Peers>, options: &RegionOptions) -> Result<()> {
    match peers {
        None => store.retire_old(options.keep),
        Some(peers) => {
            store.retire_old(usize::MAX)?;
            peers.retire_spares(store, options.keep, options.drift)
        }
    }
}

/// Retires a live version for want of room, if there is another; true if there was one to retire.
pub(crate) fn retire_for_room(store: &mut Store, peers: Option<&mut Peers>) -> Result<bool> {
    match peers {
        None => store.retire_oldest(),
        Some(peers) => peers.retire_least_wanted(store),
    }
}
