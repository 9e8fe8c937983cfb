//! Waiting for versions of an object, and for whom.

use crate::error::{Error, Result};
use crate::member::{Member, Members, Standing};
use crate::runtime;
use crate::shared::Shared;
use drepl::IndexSet;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use stillframe_roster::ledger::Ledger;
use stillframe_roster::readiness::{Cause, Loss, Readiness, Share};
use stillframe_roster::roster::Closure;
use stillframe_roster::writer::Version;

/// Longest sleep before who waits looks whether a writer died: it is to be known within 10 ms.
pub(crate) const LOOK: Duration = Duration::from_millis(5);

/// How long this node's runtime, and the home of an object, may take to say what they know of a fragment or a version. Both answer as soon as
/// they can, so that it is no part of what somebody waits for others.
pub(crate) const HEARD: Duration = Duration::from_secs(30);

/// A time by which something is to be there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    begin: Instant,
    timeout: Duration,
}

impl Deadline {
    pub(crate) fn after(timeout: Duration) -> Deadline {
        Deadline { begin: Instant::now(), timeout }
    }

    pub(crate) fn waited(&self) -> Duration {
        self.begin.elapsed()
    }

    pub(crate) fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.begin.elapsed())
    }

    /// Whether nothing is to be waited for.
    pub(crate) fn is_zero(&self) -> bool {
        self.timeout.is_zero()
    }

    /// The same time, or so long from now on if that is later.
    pub(crate) fn at_least(&self, timeout: Duration) -> Deadline {
        Deadline::after(self.left().max(timeout))
    }
}

/// The newest complete version that can be had. The initial one is complete from the beginning, and what remains where all newer ones
/// [had to go](newest_lapsed).
///
/// Without a runtime that is the newest that all writers have. Once the node has had one, programs of other nodes may take a writer's
/// place, so that a version counts only up to the newest of which the home has said that it is complete.
pub(crate) fn newest_complete(shared: &Shared, members: &Members, ledger: &Ledger) -> Result<Version> {
    let (initial, most) = (ledger.initial(), members.newest_countable());
    Ok(ledger.newest_whole_within(initial, most).map_err(shared.scattered())?.unwrap_or(initial))
}

/// The newest version above another one that was complete, and that writers let go for want of room.
fn newest_lapsed(shared: &Shared, members: &Members, ledger: &Ledger, above: Version) -> Result<Option<Version>> {
    let most = members.newest_countable();
    let is_counted = |member: &&Member| !member.is_refused();
    let lapsed = members.list.values().filter(is_counted).filter_map(|member| member.lapsed);
    let lapsed: BTreeSet<Version> = lapsed.filter(|version| *version > above && *version <= most).collect();
    for version in lapsed.into_iter().rev() {
        // All that wrote when it went had it; somebody may have joined them since who has not.
        let mut owners = ledger.records().filter(|record| record.elements(version).is_some());
        if owners.all(|owner| owner.has_reached(version))
            && ledger.roster(version).closure().map_err(shared.scattered())? == Closure::Closed
        {
            return Ok(Some(version));
        }
    }
    Ok(None)
}

/// The newest version that was complete, whether or not all of it can still be had: by what this node's writers tell.
pub(crate) fn newest_reached(shared: &Shared, members: &Members, ledger: &Ledger) -> Result<Version> {
    let newest = newest_complete(shared, members, ledger)?;
    Ok(newest_lapsed(shared, members, ledger, newest)?.unwrap_or(newest))
}

/// Whether a version that former writers published above another one, and left behind when they detached, may still become complete:
/// all of its other writers have it, or live and have still to publish it. Those who began with the older one or after it are no part of what goes on.
pub(crate) fn may_follow(
    shared: &Shared,
    members: &Members,
    standings: &BTreeMap<u32, Standing>,
    former: &[u32],
    above: Version,
) -> Result<bool> {
    let mut left = BTreeMap::new();
    for number in former {
        let (Some(member), Some(standing)) = (members.list.get(number), standings.get(number)) else { continue };
        let newest = standing.newest.filter(|newest| *newest > above && !member.is_remote());
        let has_left = |newest: &Version| member.left_for_good == newest.checked_add(1);
        if let Some(newest) = newest.filter(has_left) {
            left.insert(newest, member.from);
        }
    }
    if left.is_empty() {
        return Ok(false);
    }
    let ledger = members.published_ledger(shared, standings)?;
    // Of several that have left, as where ranks merge, one may have been further than the others.
    for (version, from) in left.into_iter().rev() {
        let may_have = |(number, member): (&u32, &Member)| {
            let standing = standings.get(number).cloned().unwrap_or_default();
            let is_to_publish = standing.is_alive && standing.newest < Some(version);
            standing.present.contains(&version) || is_to_publish && member.from <= from.max(above)
        };
        if members.list.iter().filter(|(_, member)| member.is_in(version)).all(may_have)
            && ledger.roster(version).closure().map_err(shared.scattered())? == Closure::Closed
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The newest version that was complete, whether or not this node still has its part of it.
///
/// # Errors
/// [`Error::Removed`], among others: versions of an object never go backwards.
pub(crate) fn newest_known(shared: &Shared, members: &mut Members) -> Result<Version> {
    let ledger = members.ledger(shared)?;
    check_there(shared, members)?;
    let mut newest = newest_reached(shared, members, &ledger)?;
    if members.follows.is_some() {
        let announced = members.announced(shared)?;
        // Who is not accepted yet may have a part in it, and may be refused.
        let may_have_part = |member: &Member| member.is_undecided() && member.attached.from <= announced;
        newest = if members.list.values().any(may_have_part) { newest } else { newest.max(announced) };
    }
    check_kept(shared, newest == ledger.initial())?;
    Ok(newest)
}

/// How far each writer is, of a board that is locked, and the newest complete version, whether or not all of it can still be had.
pub(crate) fn survey(shared: &Shared, members: &mut Members) -> Result<(BTreeMap<u32, Standing>, Version)> {
    let standings = members.standings(shared)?;
    let ledger = members.ledger_of(shared, &standings)?;
    let newest = newest_reached(shared, members, &ledger)?;
    Ok((standings, newest))
}

/// All complete versions that can still be had, ascending.
pub(crate) fn complete(shared: &Shared, members: &mut Members) -> Result<Vec<Version>> {
    let ledger = members.ledger(shared)?;
    check_there(shared, members)?;
    let mut versions: Vec<Version> =
        ledger.records().flat_map(|record| record.published.present.iter().copied()).collect();
    versions.sort_unstable();
    versions.dedup();
    let mut complete = Vec::new();
    for version in versions.into_iter().take_while(|version| *version <= members.newest_countable()) {
        if ledger.is_whole(version).map_err(shared.scattered())? {
            complete.push(version);
        }
    }
    check_kept(shared, complete.is_empty())?;
    Ok(complete)
}

/// What is known of wanted elements of a version.
pub(crate) enum Finding {
    /// All can be had, from the fragments with these numbers.
    Ready(Vec<u32>),
    /// These are still to come.
    Waiting(Vec<Share>),
    /// These will not come. The newest complete version that can be read instead, if there is any.
    Lost(Vec<Loss>, Option<Version>),
}

/// Whether elements of a version can be had.
pub(crate) fn look(shared: &Shared, members: &mut Members, version: Version, wanted: &IndexSet) -> Result<Finding> {
    let ledger = members.ledger(shared)?;
    let waiting = match ledger.readiness(version, wanted).map_err(shared.scattered())? {
        Readiness::Ready(shares) => {
            let numbers = shares.iter().filter_map(|share| Some(share.who?.writer.serial)).collect();
            return Ok(Finding::Ready(numbers));
        }
        Readiness::Lost(losses) => {
            let newest = newest_complete(shared, members, &ledger)?;
            // Where a newer one is known, nobody means the initial version, which is zeros.
            let is_known = newest > ledger.initial() || newest_known(shared, members)? == newest;
            return Ok(Finding::Lost(losses, is_known.then_some(newest)));
        }
        Readiness::Waiting(shares) => shares,
    };
    // Nobody attaches to a version that is older than a complete one, so that what nobody has of it does not come.
    let readable = newest_complete(shared, members, &ledger)?;
    let mut newest = newest_reached(shared, members, &ledger)?;
    if waiting.iter().any(|share| share.who.is_none()) && members.follows.is_some() {
        newest = newest.max(members.announced(shared)?);
    }
    let nobodys: Vec<Loss> = waiting
        .iter()
        .filter(|share| share.who.is_none() && version <= newest)
        .map(|share| Loss { share: members.last_owner(share), cause: Cause::Gone })
        .collect();
    match nobodys.is_empty() {
        true => Ok(Finding::Waiting(waiting)),
        false => {
            // The newest may be one of which nobody has anything any more; and nobody means the initial version, which is zeros.
            let is_known = readable > ledger.initial() || readable == newest;
            Ok(Finding::Lost(nobodys, (readable != version && is_known).then_some(readable)))
        }
    }
}

/// The error that nobody writes some of the wanted elements of a version, if that is so by what this node's board tells: the home says of what
/// others have only in words why it is lost.
pub(crate) fn unwritten(
    shared: &Shared,
    members: &mut Members,
    version: Version,
    wanted: &IndexSet,
) -> Result<Option<Error>> {
    let ledger = members.ledger(shared)?;
    let readiness = ledger.readiness(version, wanted).map_err(shared.scattered())?;
    let Readiness::Lost(mut losses) = readiness else { return Ok(None) };
    losses.retain(|loss| loss.cause == Cause::Unwritten);
    if losses.is_empty() {
        return Ok(None);
    }
    let newest = newest_complete(shared, members, &ledger)?;
    // Of older ones the board may have forgotten the writers.
    if version < newest {
        return Ok(None);
    }
    let complete = (newest > ledger.initial()).then_some(newest);
    Ok(Some(Error::Lost { name: shared.name.clone(), version, losses: Members::losses(shared, &losses), complete }))
}

/// Whether a version of these writers counts: it is complete, or all of them live. The place of one that is gone may be somebody's of
/// another node by now, who writes the version as well.
pub(crate) fn counts(shared: &Shared, members: &mut Members, numbers: &[u32], version: Version) -> Result<bool> {
    let sure = match members.follows {
        Some(_) => members.announced(shared)?,
        None => members.newest_countable(),
    };
    if version <= sure {
        return Ok(true);
    }
    let options = shared.site.observing()?;
    for number in numbers {
        let Some(member) = members.list.get_mut(number) else { return Ok(false) };
        let standing = member.standing(shared, &options, &members.watched)?;
        let unsure = members.list.get(number).and_then(|member| members.unsure(member, &standing));
        if unsure.is_some_and(|unsure| unsure.contains(&version)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sleeps until something may have changed of what is waited for: a version of a writer, or the board.
pub(crate) fn sleep(
    shared: &Shared,
    members: &mut Members,
    version: Version,
    waiting: &[Share],
    left: Duration,
) -> Result<()> {
    shared.check_interrupt()?;
    let longest = left.min(LOOK);
    for number in waiting.iter().filter_map(|share| Some(share.who?.writer.serial)) {
        let Some(member) = members.list.get_mut(&number) else { continue };
        let Some(observer) = member.observer(shared, &shared.site.observing()?)? else { continue };
        // What is there and does not count yet, somebody else has to say something of.
        if observer.newest_number() >= Some(version) {
            continue;
        }
        return match observer.wait_newer(Some(version.saturating_sub(1)), Some(longest)) {
            Ok(_) | Err(stillframe::Error::Timeout { .. }) => Ok(()),
            Err(stillframe::Error::ProducerGone { .. }) => {
                // The ledger says so at the next look, unless it left by itself and somebody else is to come.
                shared.bell.sleep(members.seen(), longest);
                Ok(())
            }
            Err(error) => Err(error.into()),
        };
    }
    shared.bell.sleep(members.seen(), longest);
    Ok(())
}

/// An error if the object was removed, and its board with it: a version of it comes no more. One that was only created has no writers
/// either, and is there.
pub(crate) fn check_there(shared: &Shared, members: &Members) -> Result<()> {
    match members.list.is_empty() {
        true => shared.board.check_named(),
        false => Ok(()),
    }
}

/// An error if the object was removed, where nothing of it is left. Its board goes last: until then, or for good if whoever removed it died,
/// it tells of writers whose versions are gone.
pub(crate) fn check_kept(shared: &Shared, is_empty: bool) -> Result<()> {
    match is_empty {
        true => shared.board.check_named(),
        false => Ok(()),
    }
}

/// Waits until wanted elements of a version can be had, and says from which fragments; `None` as soon as somebody else is to look,
/// as `stop` says of the writers.
pub(crate) fn wait(
    shared: &Shared,
    members: &mut Members,
    version: Version,
    wanted: &IndexSet,
    deadline: Deadline,
    stop: impl Fn(&Members, Version, &IndexSet) -> bool,
) -> Result<Option<Vec<u32>>> {
    let name = || shared.name.clone();
    loop {
        members.refresh(shared)?;
        if stop(members, version, wanted) {
            return Ok(None);
        }
        let finding = look(shared, members, version, wanted)?;
        // Whoever is to look may have become known only there: what was found is nothing to go by then.
        if stop(members, version, wanted) {
            return Ok(None);
        }
        match finding {
            Finding::Ready(numbers) => return Ok(Some(numbers)),
            Finding::Lost(losses, complete) => {
                let losses = Members::losses(shared, &losses);
                return Err(Error::Lost { name: name(), version, losses, complete });
            }
            Finding::Waiting(shares) => {
                check_there(shared, members)?;
                let left = deadline.left();
                if left.is_zero() {
                    let (waited, waiting) = (deadline.waited(), Members::parts(shared, &shares));
                    return Err(Error::Timeout { name: name(), version, waited, waiting });
                }
                sleep(shared, members, version, &shares, left)?;
            }
        }
    }
}

/// Waits until a version of which all elements can be had counts as complete.
pub(crate) fn wait_counted(shared: &Shared, members: &mut Members, version: Version, deadline: Deadline) -> Result<()> {
    loop {
        members.look(shared)?;
        if members.newest_countable() >= version {
            return Ok(());
        }
        check_there(shared, members)?;
        let left = deadline.left();
        if left.is_zero() {
            let (name, waited, waiting) = (shared.name.clone(), deadline.waited(), Vec::new());
            return Err(Error::Timeout { name, version, waited, waiting });
        }
        sleep(shared, members, version, &[], left)?;
    }
}

/// Whether all writers are gone, and nothing of what they left can still become complete: where this node's runtime runs, the home may have
/// still to say so.
fn have_ended(shared: &Shared, members: &Members, standings: &BTreeMap<u32, Standing>) -> Result<bool> {
    let has_left = |member: &Member| member.left.is_some() && !member.is_kept();
    let is_unsure = |number: &u32, member: &Member| {
        let standing = standings.get(number).filter(|_| members.follows.is_some());
        standing.is_some_and(|standing| members.unsure(member, standing).is_some())
    };
    let has_gone = |(number, member): (&u32, &Member)| has_left(member) || is_unsure(number, member);
    if members.list.is_empty() || !members.list.iter().all(has_gone) {
        return Ok(false);
    }
    let published = members.published_ledger(shared, standings)?;
    let counted = members.newest_countable().max(published.initial());
    let may_follow = published.newest_whole(counted).map_err(shared.scattered())?.is_some();
    Ok(!may_follow || !runtime::is_running(&shared.site.directory)?)
}

/// Waits for a complete version above one, and says which is the newest.
pub(crate) fn wait_newer(
    shared: &Shared,
    members: &mut Members,
    after: Version,
    deadline: Deadline,
) -> Result<Version> {
    let shape = shared.space.shape().map_err(shared.scattered())?;
    // Since when all writers have left.
    let mut ended: Option<Instant> = None;
    loop {
        let standings = members.look(shared)?;
        let ledger = members.ledger_of(shared, &standings)?;
        let newest = newest_complete(shared, members, &ledger)?;
        if newest > after {
            return Ok(newest);
        }
        // The version that comes next: the smallest above it that any writer has, else any.
        let present = ledger.records().flat_map(|record| record.published.present.iter().copied());
        let next = present.filter(|version| *version > newest).min().unwrap_or(newest.saturating_add(1));
        let readiness = ledger.readiness(next, &shape).map_err(shared.scattered())?;
        let name = || shared.name.clone();
        // Where a newer one was complete, nobody means the initial version, which is zeros.
        let complete = (newest_reached(shared, members, &ledger)? == newest).then_some(newest);
        let waiting = match readiness {
            Readiness::Waiting(shares) => shares,
            // Another one may become complete in spite of it: what died can be attached anew.
            Readiness::Lost(losses) => {
                let others = members.list.iter().any(|(number, member)| {
                    member.is_of(next) && standings.get(number).is_some_and(|standing| standing.is_alive)
                });
                if !others {
                    let losses = Members::losses(shared, &losses);
                    return Err(Error::Lost { name: name(), version: next, losses, complete });
                }
                losses.into_iter().map(|loss| loss.share).collect()
            }
            Readiness::Ready(_) => Vec::new(),
        };
        check_there(shared, members)?;
        ended = if have_ended(shared, members, &standings)? { ended.or_else(|| Some(Instant::now())) } else { None };
        let left = deadline.left();
        if ended.is_some_and(|since| since.elapsed() >= GRACE || left.is_zero()) {
            return Err(Error::Ended { name: name(), complete });
        }
        if left.is_zero() {
            let (waited, waiting) = (deadline.waited(), Members::parts(shared, &waiting));
            let published = members.published_ledger(shared, &standings)?;
            let whole = published.newest_whole(newest).map_err(shared.scattered())?;
            let whole = whole.filter(|_| members.follows.is_some());
            let waiting = if members.list.is_empty() { Vec::new() } else { waiting };
            return Err(Error::NoNewer { name: name(), after, waited, waiting, whole });
        }
        sleep(shared, members, next, &waiting, left)?;
    }
}

/// How long there may be no writer before who waits for versions takes it for the end: writers may leave and attach anew
/// between two versions.
const GRACE: Duration = Duration::from_secs(1);
