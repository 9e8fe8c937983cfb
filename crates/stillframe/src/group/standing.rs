//! How far the ranks of a group are, and which versions all of them have.

use crate::error::Result;
use crate::observer::Observer;
use crate::observer::attachment::Hold;
use crate::observer::snapshot::Snapshot;
use ::stillframe_protocol as protocol;
use std::sync::Arc;
use stillframe_protocol::Leased;

pub(crate) type Members = Arc<[Option<Observer>]>;

/// Which of several versions in common.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pick {
    Newest,
    Oldest,
    Exactly(u64),
}

/// Versions that can be leased, ascending.
pub(crate) type List = Vec<(Leased, u64)>;

pub(crate) fn list(observer: &Observer) -> List {
    let mut list = observer.listed();
    list.sort_by_key(|(_, number)| *number);
    list
}

pub(crate) fn find(list: &List, version: u64) -> Option<Leased> {
    list.binary_search_by_key(&version, |(_, number)| *number).ok().map(|index| list[index].0)
}

/// A version that all ranks have, and its lease on each.
pub(crate) fn common(members: &Members, pick: Pick, after: Option<u64>) -> Option<(u64, Vec<Leased>)> {
    let lists: Option<Vec<List>> = members.iter().map(|member| member.as_ref().map(list)).collect();
    let lists = lists?;
    let shortest = lists.iter().min_by_key(|list| list.len())?;
    let everywhere = |version: u64| -> Option<(u64, Vec<Leased>)> {
        let leases: Option<Vec<Leased>> = lists.iter().map(|list| find(list, version)).collect();
        leases.map(|leases| (version, leases))
    };
    let mut numbers = shortest.iter().map(|(_, number)| *number).filter(|number| Some(*number) > after);
    match pick {
        Pick::Oldest => numbers.find_map(everywhere),
        Pick::Newest => numbers.rev().find_map(everywhere),
        Pick::Exactly(version) => everywhere(version),
    }
}

/// Holds a version on all ranks, or on none.
pub(crate) fn hold(members: &Members, leases: &[Leased], version: u64) -> Result<Option<Arc<[Snapshot]>>> {
    let mut holds = Vec::with_capacity(leases.len());
    for (member, leased) in members.iter().zip(leases) {
        let Some(observer) = member else { return Ok(None) };
        let shared = &observer.shared;
        if !protocol::lease(&shared.head, &shared.leases, *leased)? {
            return Ok(None);
        }
        holds.push(Hold { shared: shared.clone(), leased: *leased });
    }
    let snapshots = holds.into_iter().map(Snapshot::of).collect::<Result<Vec<_>>>()?;
    let is_it = snapshots.iter().all(|snapshot| snapshot.version() == version);
    Ok(is_it.then(|| snapshots.into()))
}

/// The rank for whose sake no version above `after` will ever be everywhere: it is gone, and none of the versions it has
/// can still be published by all others. Of several the one that is furthest behind, and
/// rather one that was killed than one that ended.
pub(crate) fn stopped(members: &Members, after: Option<u64>) -> Option<usize> {
    let lives: Vec<bool> =
        members.iter().map(|member| member.as_ref().is_none_or(|observer| observer.producer_alive())).collect();
    if lives.iter().all(|lives| *lives) {
        return None;
    }
    let lists: Vec<List> = members.iter().map(|member| member.as_ref().map_or(Vec::new(), list)).collect();
    let newest = |rank: usize| lists[rank].last().map(|(_, number)| *number);
    let may_come = |version: u64| {
        (0..members.len())
            .all(|rank| find(&lists[rank], version).is_some() || lives[rank] && newest(rank) < Some(version))
    };
    let is_stopped = |rank: &usize| {
        !lives[*rank] && !lists[*rank].iter().any(|(_, number)| Some(*number) > after && may_come(*number))
    };
    let has_ended = |rank: usize| members[rank].as_ref().is_some_and(|observer| observer.shared.head.ended_ns() != 0);
    (0..members.len()).filter(is_stopped).min_by_key(|rank| (newest(*rank), has_ended(*rank)))
}
