//! Runs of a group: which versions of its ranks belong together.
//!
//! Ranks of one run publish the same numbers for the same steps. Those of two runs may publish the same numbers for other
//! steps, and a group that returned to an earlier version does: where one rank died before it had returned, its versions have
//! the numbers of the others' new ones. So each version names the run that published it, and is the same as another rank's
//! only if that names the same.
//!
//! Ranks talk to nobody. A run is therefore what the locks of producers show: it begins with the first rank that begins while
//! none of the group lives, and every rank that begins while one lives is of that one's. Who returns from versions is not of the
//! run that published them, should somebody of that live on. Ranks find out one after the other.

use crate::clock;
use crate::error::{Error, Result};
use crate::place::names;
use crate::store::ownership::REMOVAL;
use crate::store::regions::{Regions, Site};
use crate::store::turn::Turn;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;
use stillframe_protocol::{self as protocol, Board};
use stillframe_segment::head;

/// A run that is no other.
pub(crate) fn new() -> NonZeroU64 {
    loop {
        let number = RandomState::new().hash_one((std::process::id(), clock::unix_ns()));
        if let Some(run) = NonZeroU64::new(number) {
            return run;
        }
    }
}

/// The turn of whoever finds out the run, or makes a producer known or unknown to those who do.
///
/// # Errors
/// `Timeout` if a rank that begins has it for longer than it takes: it was stopped.
pub(crate) fn turn(regions: &Regions, group: &str) -> Result<Turn> {
    Turn::take_unnamed(regions, &format!("{group}~run")).map_err(|error| match error {
        Error::Staged { .. } => {
            let what = "another rank of the group that begins, and seems to be stopped";
            Error::Timeout { region: regions.shown(group), what, waited: REMOVAL }
        }
        error => error,
    })
}

/// The runs that published the versions of a region which are above a number, or all: who begins without them is of none of
/// those.
pub(crate) fn runs_above(regions: &Regions, name: &str, version: Option<u64>) -> Result<BTreeSet<u64>> {
    let Some(head) = regions.find(name)?.as_ref().and_then(Site::head) else { return Ok(BTreeSet::new()) };
    let live = (0..head.slots()).filter(|slot| head.stamp(*slot).state() == Some(protocol::State::Live));
    let above = live.filter(|slot| Some(head.number_at(*slot)) > version);
    Ok(above.map(|slot| head.run_at(slot)).collect())
}

/// The run that a rank is of: that of the ranks which live, but for those that it gave up; a new one if there is none. Where
/// ranks of several live it is the one that began last. Asked by whoever has the [`turn`].
pub(crate) fn find(
    regions: &Regions,
    group: &str,
    (rank, ranks): (u32, u32),
    given_up: &BTreeSet<u64>,
) -> Result<NonZeroU64> {
    let mut found = None;
    for other in regions.ranks_below(group)?.into_iter().filter(|other| *other != rank) {
        let Some(site) = regions.find(&names::rank_name(group, other))? else { continue };
        let Some(head) = site.head().filter(|head| head.number32(head::RANKS_AT) == ranks) else { continue };
        // One that lives and has yet to find out comes later than this.
        let Some(run) = NonZeroU64::new(head.number64(head::RUN_AT)) else { continue };
        if !given_up.contains(&run.get()) && site.is_alive() {
            found = found.max(Some((head.number64(head::BEGUN_NS_AT), run)));
        }
    }
    Ok(found.map_or_else(new, |(_, run)| run))
}
