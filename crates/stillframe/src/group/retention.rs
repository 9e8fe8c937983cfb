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
        let (common, order) = (self.retention.common(), self.by_want(store));
        if self.retire_uncommon(store, &order, common)? {
            return Ok(true);
        }
        let Some(index) = order.first().and_then(|version| index_of(store, *version)) else { return Ok(false) };
        self.retention.forget();
        store.retire(index).map(|_| true)
    }

    /// The same, but for the newest version that all have, which stays until there is a newer one: it goes only where this region's newest
    /// will never be one, so that nobody could go on.
    pub(crate) fn retire_beside_common(&mut self, store: &mut Store, keep: usize, drift: usize) -> Result<bool> {
        // Others may have gone on since the last publish.
        let before = store.versions().len();
        self.retire_spares(store, keep, drift)?;
        if store.versions().len() < before {
            return Ok(true);
        }
        let (known, order) = (self.retention.common(), self.by_want(store));
        if self.retire_uncommon(store, &order, known)? {
            return Ok(true);
        }
        let own = live(store);
        let (Some(oldest), Some(newest)) = (own.first().copied(), own.last().copied()) else { return Ok(false) };
        let is_certain = known.is_some() && self.is_trusted();
        let common = match known {
            Some(common) => Some(common),
            None => own.iter().rev().copied().find(|version| self.is_everywhere(*version)),
        };
        let Some(common) = common else { return Ok(false) };
        // Who is about to take somebody's place may go on from the oldest.
        let is_past = |version: &u64| *version < common && (is_certain || *version != oldest);
        let past = order.iter().copied().find(is_past);
        let is_stuck =
            || is_certain && order.contains(&common) && self.others.iter().any(|peer| peer.has_left_out(newest));
        let Some(version) = past.or_else(|| Some(common).filter(|_| is_stuck())) else { return Ok(false) };
        let Some(index) = index_of(store, version) else { return Ok(false) };
        if version == common {
            store.head.set_lapsed(version.max(store.head.lapsed()));
            points::hit("retire.lapsed");
        }
        self.retention.forget();
        store.retire(index).map(|_| true)
    }

    /// Whether a version stays for the peers that nobody holds and that is not the newest.
    pub(crate) fn keeps_any(&self, store: &Store) -> bool {
        !self.by_want(store).is_empty()
    }

    /// The live versions but for the newest, those that are wanted least first, of those that nobody holds.
    fn by_want(&self, store: &Store) -> Vec<u64> {
        let mut own = live(store);
        own.pop();
        let is_held = |version: &Version| store.leases.is_held(version.leased.slot).unwrap_or(true);
        let held: Vec<u64> = store.versions().iter().filter(|version| is_held(version)).map(|v| v.number).collect();
        let mut order = self.retention.by_want(&own);
        order.retain(|version| !held.contains(version));
        order
    }

    /// Retires the first of these versions that is not everywhere; whether there was one.
    fn retire_uncommon(&mut self, store: &mut Store, order: &[u64], common: Option<u64>) -> Result<bool> {
        for version in order.iter().copied().filter(|version| Some(*version) != common) {
            if self.retire_spare(store, Spare { version, is_past: false })? {
                return Ok(true);
            }
        }
        Ok(false)
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
