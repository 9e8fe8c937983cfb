//! How far the ranks of a group are, and which versions all of them have.

use crate::error::Result;
use crate::observer::attachment::Hold;
use crate::observer::snapshot::Snapshot;
use crate::observer::{Listed, Observer};
use ::stillframe_protocol as protocol;
use std::sync::Arc;
use stillframe_protocol::Leased;
use stillframe_segment::head;

/// How often ranks' lists are read anew because one of them changed meanwhile.
const ATTEMPTS: usize = 1000;

pub(crate) type Members = Arc<[Option<Observer>]>;

/// Which of several versions in common.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pick {
    Newest,
    Oldest,
    Exactly(u64),
}

/// Versions that can be leased, ascending.
pub(crate) type List = Vec<Listed>;

pub(crate) fn list(observer: &Observer) -> List {
    let mut list = observer.listed();
    list.sort_by_key(|listed| listed.number);
    list
}

/// The version of a rank that is the same as another rank's. One of the same number that another run published is not.
fn find_same(list: &List, version: &Listed) -> Option<Leased> {
    let index = list.binary_search_by_key(&version.number, |listed| listed.number).ok()?;
    Some(list[index]).filter(|found| found.run == version.run).map(|found| found.leased)
}

/// The versions that all ranks have, ascending, and the lease on each; none if a rank has not begun.
fn in_common(lists: &[List]) -> impl DoubleEndedIterator<Item = (u64, Vec<Leased>)> {
    let shortest = lists.iter().min_by_key(|list| list.len());
    shortest.into_iter().flatten().filter_map(|version| {
        let leases: Option<Vec<Leased>> = lists.iter().map(|list| find_same(list, version)).collect();
        leases.map(|leases| (version.number, leases))
    })
}

/// The numbers of the versions that all ranks have, ascending.
pub(crate) fn numbers(members: &Members) -> Vec<u64> {
    lists(members).map_or(Vec::new(), |lists| in_common(&lists).map(|(number, _)| number).collect())
}

/// A version, or else the newest, of a number that all ranks have although it is not one of the group: the number, a rank, and
/// another whose version a different run published.
pub(crate) fn mixed(members: &Members, version: Option<u64>) -> Option<(u64, usize, usize)> {
    let lists = lists(members)?;
    let mut candidates =
        lists.first()?.iter().rev().filter(|listed| version.is_none_or(|version| listed.number == version));
    candidates.find_map(|first| {
        let has_number = |list: &List| list.iter().any(|listed| listed.number == first.number);
        let other = lists.iter().position(|list| find_same(list, first).is_none())?;
        lists.iter().all(has_number).then_some((first.number, 0, other))
    })
}

/// Looks for something in the ranks' lists until it is found, or the lists were the same before and after: they are read one after the
/// other, and meanwhile a rank may have let go of a version for the sake of a newer one.
pub(crate) fn find_steady<T>(members: &Members, find: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    find_between(|| lists(members), find)
}

fn find_between<L: PartialEq, T>(
    mut read: impl FnMut() -> L,
    mut find: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let mut before = read();
    for _ in 0..ATTEMPTS {
        if let Some(found) = find()? {
            return Ok(Some(found));
        }
        let after = read();
        if after == before {
            break;
        }
        before = after;
    }
    Ok(None)
}

fn lists(members: &Members) -> Option<Vec<List>> {
    members.iter().map(|member| member.as_ref().map(list)).collect()
}

/// A version that all ranks have, and its lease on each.
pub(crate) fn common(members: &Members, pick: Pick, after: Option<u64>) -> Option<(u64, Vec<Leased>)> {
    let lists = lists(members)?;
    let mut found = in_common(&lists).filter(|(number, _)| Some(*number) > after);
    match pick {
        Pick::Oldest => found.next(),
        Pick::Newest => found.next_back(),
        Pick::Exactly(version) => found.find(|(number, _)| *number == version),
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
    let newest = |rank: usize| lists[rank].last().map(|listed| listed.number);
    // One that has yet to find out of which run it is may be of any.
    let is_of = |rank: usize, run: u64| {
        members[rank].as_ref().is_none_or(|rank| [0, run].contains(&rank.shared.head.number64(head::RUN_AT)))
    };
    let may_come = |version: &Listed| {
        (0..members.len()).all(|rank| {
            let may_publish = lives[rank] && newest(rank) < Some(version.number) && is_of(rank, version.run);
            find_same(&lists[rank], version).is_some() || may_publish
        })
    };
    let is_stopped = |rank: &usize| {
        !lives[*rank] && !lists[*rank].iter().any(|version| Some(version.number) > after && may_come(version))
    };
    let has_ended = |rank: usize| members[rank].as_ref().is_some_and(|observer| observer.shared.head.ended_ns() != 0);
    (0..members.len()).filter(is_stopped).min_by_key(|rank| (newest(*rank), has_ended(*rank)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_found_while_lists_change_is_looked_for_again() {
        let (mut lists, mut looks) = ([1, 2, 3].into_iter(), 0);
        let found = find_between(
            || lists.next(),
            || {
                looks += 1;
                Ok((looks == 3).then_some("common"))
            },
        );
        assert_eq!(found.unwrap(), Some("common"));
    }

    #[test]
    fn what_is_not_found_between_two_equal_lists_is_not_there() {
        let (mut lists, mut looks) = ([1, 2, 2, 3].into_iter(), 0);
        let found = find_between(
            || lists.next(),
            || {
                looks += 1;
                Ok(None::<()>)
            },
        );
        assert_eq!((found.unwrap(), looks), (None, 2));
    }
}
