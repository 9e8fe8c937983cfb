//! The ranks of a group that have begun.

use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::observer::options::ObserverOptions;
use crate::place::arena::Arena;
use crate::place::names;
use stillframe_segment::{Corrupt, head};

/// The ranks of a group, as far as they have begun; `None` if there is no group of this name. Observers that are `known`
/// are used again.
///
/// What is left of an earlier run with another number of ranks is no part of it: a rank counts if it tells the number of
/// ranks that the living ranks tell or, if none lives, the one that began last.
pub(crate) fn survey(
    options: &ObserverOptions,
    name: &str,
    known: &[Option<Observer>],
) -> Result<Option<Vec<Option<Observer>>>> {
    names::region_dir(&options.dir, name)?;
    let Some(ranks) = ranks_below(options, name)? else { return Ok(None) };
    let mut found = Vec::new();
    let mut failures = Vec::new();
    for rank in ranks {
        let reused = known.get(rank as usize).cloned().flatten().filter(|observer| observer.shared.is_named());
        let observer = match reused {
            Some(observer) => observer,
            None => match options.open_once(&names::rank_name(name, rank)) {
                Ok(observer) => observer,
                Err(Error::NoRegion { .. }) => continue,
                Err(error) => {
                    failures.push((rank, error));
                    continue;
                }
            },
        };
        let shared = &observer.shared;
        let ranks = shared.head.number32(head::RANKS_AT);
        if ranks > head::RANKS_MAX {
            let expected = format!("at most {} ranks", head::RANKS_MAX);
            return Err(shared.corrupt(Corrupt::new(head::FILE, head::RANKS_AT, expected, ranks)));
        }
        if ranks > 0 && shared.head.number32(head::RANK_AT) == rank {
            let order = (observer.producer_alive(), shared.head.number64(head::BEGUN_NS_AT));
            found.push((rank, ranks, order, observer));
        }
    }
    let Some(size) = found.iter().max_by_key(|(_, _, order, _)| *order).map(|(_, ranks, _, _)| *ranks) else {
        // A group of which no rank can be read is no group that is not there.
        return failures.into_iter().next().map_or(Ok(None), |(_, error)| Err(error));
    };
    if let Some((_, error)) = failures.into_iter().find(|(rank, _)| *rank < size) {
        return Err(error);
    }
    let mut members = vec![None; size as usize];
    for (rank, ranks, _, observer) in found {
        if ranks == size && rank < size {
            members[rank as usize] = Some(observer);
        }
    }
    Ok(Some(members))
}

/// The ranks of a group that have a region; `None` if there are no regions at all.
fn ranks_below(options: &ObserverOptions, name: &str) -> Result<Option<Vec<u32>>> {
    if let Some(arena) = &options.arena {
        return arena.ranks_below(&options.inner(name)).map(Some);
    }
    let Some(root) = options.root()? else { return Ok(None) };
    Ok(Some(match Arena::of_region(&root, name)? {
        Some((arena, group)) => arena.ranks_below(&group)?,
        None => root.ranks_below(name)?,
    }))
}
