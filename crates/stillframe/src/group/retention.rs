//! Which versions a region with peers lets go, when those may still want them.

use crate::error::Result;
use crate::group::peers::Peers;
use crate::store::Store;
use crate::store::version::Version;
use stillframe_kernel::points;
use stillframe_protocol::retention::{Retention, Spare};
use stillframe_protocol::{Leases, State};

impl Peers {
    /// Retires the versions that neither `keep` nor the peers want, with `drift` for slower ones.
    pub(crate) fn retire_spares(&mut self, store: &mut Store, keep: usize, drift: usize) -> Result<()> {
        let own = live(store);
        self.look();
        let Peers { retention, others, .. } = self;
        let spares = retention.spares(&own, keep, drift, others);
        if !spares.is_empty() && !self.is_trusted() {
            // They are found again by a look at peers that are the right ones.
            self.retention = Retention::default();
            return Ok(());
        }
        spares.into_iter().try_for_each(|spare| self.retire_spare(store, spare).map(drop))
    }

    /// Retires one version that is not the newest, unless it turns out to be everywhere; whether it was retired.
    fn retire_spare(&mut self, store: &mut Store, spare: Spare) -> Result<bool> {
        let Some(index) = index_of(store, spare.version) else { return Ok(false) };
        if spare.is_past {
            return store.retire(index).map(|_| true);
        }
        // Nothing would be won, and whoever holds it may do so because it is about to be common.
        if store.is_held(index)? {
            return Ok(false);
        }
        store.head.set_tentative(store.versions()[index].leased.sequence);
        points::hit("retire.tentative");
        let stays = self.is_everywhere(spare.version);
        let result = if stays { Ok(false) } else { store.retire(index).map(|_| true) };
        store.head.set_tentative(0);
        result
    }

    /// Retires the version that the peers want least, of those that nobody holds: of others nothing would be won. What all
    /// have goes last. True if there was one to retire.
    pub(crate) fn retire_least_wanted(&mut self, store: &mut Store) -> Result<bool> {
        let mut own = live(store);
        own.pop();
        let (common, mut order) = (self.retention.common(), self.retention.by_want(&own));
        let is_held = |version: &Version| store.leases.is_held(version.leased.slot).unwrap_or(true);
        let held: Vec<u64> = store.versions().iter().filter(|version| is_held(version)).map(|v| v.number).collect();
        order.retain(|version| !held.contains(version));
        for version in order.iter().copied().filter(|version| Some(*version) != common) {
            if self.retire_spare(store, Spare { version, is_past: false })? {
                return Ok(true);
            }
        }
        let Some(version) = order.first().copied() else { return Ok(false) };
        let Some(index) = index_of(store, version) else { return Ok(false) };
        // It was complete: whoever finds nothing complete from here on has to know that, and not begin below it.
        if Some(version) == common || self.is_everywhere(version) {
            store.head.set_lapsed(version.max(store.head.lapsed()));
            points::hit("retire.lapsed");
        }
        self.retention.forget();
        store.retire(index).map(|_| true)
    }
}

/// The numbers of the live versions.
fn live(store: &Store) -> Vec<u64> {
    let live = store.versions().iter().filter(|version| version.state == State::Live);
    live.map(|version| version.number).collect()
}

fn index_of(store: &Store, number: u64) -> Option<usize> {
    store.versions().iter().position(|version| version.number == number && version.state == State::Live)
}
