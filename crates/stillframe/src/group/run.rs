//! Runs of a group: which versions of its ranks belong together.
//!
//! Ranks of one run publish the same numbers for the same steps. Those of two runs may publish the same numbers for other
//! steps, and a group that returned to an earlier version does: where one rank died before it had returned, its versions have
//! the numbers of the others' new ones. So each version names the run that published it, and is the same as another rank's
//! only if that names the same.
//!
//! Ranks talk to nobody. A run is therefore what the locks of producers show: it begins with the first rank that begins while
//! none of the group lives, and every rank that begins while one lives is of that one's. Ranks find out one after the other.
//! Where ranks do so little that one has ended before another begins, the later one is of the same run if it has nothing of an
//! earlier one.

use crate::clock;
use crate::error::Result;
use crate::place::names;
use crate::store::regions::Regions;
use crate::store::turn::Turn;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;
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
pub(crate) fn turn(regions: &Regions, group: &str) -> Result<Turn> {
    Turn::take(regions, &format!("{group}~run"))
}

/// The run that a rank is of: that of the ranks which live. If none does it is a new one, or, for a rank that begins with
/// nothing, the run which others began and ended by themselves before it came. Asked by whoever has the [`turn`].
pub(crate) fn find(regions: &Regions, group: &str, rank: (u32, u32), has_versions: bool) -> Result<NonZeroU64> {
    let (rank, ranks) = rank;
    let (mut ended, mut killed) = (None, Vec::new());
    for other in regions.ranks_below(group)?.into_iter().filter(|other| *other != rank) {
        let Some(site) = regions.find(&names::rank_name(group, other))? else { continue };
        let Some(head) = site.head().filter(|head| head.number32(head::RANKS_AT) == ranks) else { continue };
        // One that lives and has yet to find out comes later than this.
        let Some(run) = NonZeroU64::new(head.number64(head::RUN_AT)) else { continue };
        if site.is_alive() {
            return Ok(run);
        }
        match head.ended_ns() {
            0 => killed.push(run),
            ended_ns => ended = ended.max(Some((ended_ns, run))),
        }
    }
    let joined = ended.map(|(_, run)| run).filter(|run| !has_versions && !killed.contains(run));
    Ok(joined.unwrap_or_else(new))
}
