//! The writers of an object, as its board and their regions tell.

use crate::board::{Attached, Entry, LockedBoard, News, Position, Stability};
use crate::error::Result;
use crate::shared::{self, COMPLETE, HERE, Shared};
use crate::verdict::{FragmentRefusal, Verdict};
use drepl::{Fragment, IndexSet};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stillframe::{Observer, ObserverOptions};
use stillframe_roster::ledger::Ledger;
use stillframe_roster::writer::{Elements, Node, Published, Stage, Version, Who, Writer};

/// A fragment to write, of any process.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) attached: Attached,
    pub(crate) fragment: Arc<Fragment>,
    pub(crate) elements: Elements,
    /// The first version that it writes.
    pub(crate) from: Version,
    /// The first version that it does not write any more, also because of one that takes its place and may still be refused.
    pub(crate) left: Option<Version>,
    /// The same, as it is for good.
    pub(crate) left_for_good: Option<Version>,
    /// Fragments that take its place, and from which version on; itself, while the home says nothing of it.
    heirs: BTreeMap<u32, Version>,
    /// Whether the runtime said that it died, of one of another node.
    died: bool,
    /// What the runtime says of one of this node.
    pub(crate) verdict: Option<Verdict>,
    /// Looks at its region; `None` until that is needed, or if the region is gone.
    observer: Option<Observer>,
    /// When it was found alive last, if somebody waited for the end of its process by then.
    found_alive: Option<Instant>,
    /// A version that all had, and that it let go for want of room.
    pub(crate) lapsed: Option<Version>,
}

/// How often writers are looked at again because some of them published meanwhile.
const LOOKS: usize = 20;

/// How often all is looked at again because somebody attached or detached meanwhile. Who gives up goes by what the one claims who is
/// changing the board, or knows less than there was: on a machine that is overrun a look may take as long as somebody comes and goes.
const TRIES: usize = 500;

/// The same, where a program that may only read may feign the lock, and would hold this one up at each call.
const DOUBTFUL_TRIES: usize = 20;

/// How long somebody may be changing the board before who looks at writers looks once more.
const UNSETTLED: Duration = Duration::from_micros(100);

/// How long a writer that was found alive is taken to live, where its process does: one that turns into another program loses its
/// regions, and does not end.
const TRUSTED: Duration = Duration::from_millis(500);

/// How far a writer is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    pub(crate) is_alive: bool,
    pub(crate) newest: Option<Version>,
    pub(crate) present: BTreeSet<Version>,
}

impl Member {
    pub(crate) fn who(&self) -> Who {
        let Attached { number, process, rank, .. } = self.attached;
        let (node, serial) =
            self.attached.remote.as_ref().map_or((HERE, number), |remote| (Node(remote.node), remote.number));
        Who { writer: Writer { node, process, serial }, rank }
    }

    /// Whether some of these elements are its own. Boxes with steps may lie within each other and have none in common.
    pub(crate) fn has_any(&self, elements: &Elements) -> bool {
        self.elements.boxes().iter().any(|own| elements.boxes().iter().any(|other| own.intersection(other).is_some()))
    }

    fn change_end(&mut self, change: impl FnOnce(&mut Option<Version>, &mut BTreeMap<u32, Version>)) {
        change(&mut self.left_for_good, &mut self.heirs);
        self.left = self.heirs.values().copied().chain(self.left_for_good).min();
    }

    /// Whether the runtime said that it died.
    pub(crate) fn has_died(&self) -> bool {
        self.died
    }

    /// Whether the home says nothing of it just now.
    pub(crate) fn is_kept(&self) -> bool {
        self.heirs.contains_key(&self.attached.number)
    }

    /// Whether a process of another node writes it.
    pub(crate) fn is_remote(&self) -> bool {
        self.attached.remote.is_some()
    }

    /// Number of the region with its versions.
    pub(crate) fn region_number(&self) -> u32 {
        if self.is_remote() { COMPLETE } else { self.attached.number }
    }

    pub(crate) fn observer(&mut self, shared: &Shared, options: &ObserverOptions) -> Result<Option<&Observer>> {
        if self.observer.is_none() {
            self.observer = match options.clone().open(&shared.region(self.region_number())) {
                Ok(observer) => Some(observer),
                Err(stillframe::Error::NoRegion { .. }) => None,
                Err(error) => return Err(error.into()),
            };
        }
        Ok(self.observer.as_ref())
    }

    /// How far it is. One without a region has died. Of processes in `watched` somebody says when they end.
    pub(crate) fn standing(
        &mut self,
        shared: &Shared,
        options: &ObserverOptions,
        watched: &BTreeSet<u32>,
    ) -> Result<Standing> {
        let (is_remote, died) = (self.is_remote(), self.died);
        let is_told = watched.contains(&self.attached.process);
        let found = self.found_alive.filter(|found| is_told && found.elapsed() < TRUSTED);
        let Some(observer) = self.observer(shared, options)? else {
            return Ok(Standing { is_alive: is_remote && !died, ..Standing::default() });
        };
        // What a process published before it was seen to be dead is found after that. Of others only their runtime can tell: without
        // this node's, nothing is known.
        let is_alive = match is_remote {
            true => !died,
            // The kernel looks through the locks of all regions to answer.
            false if found.is_some() => !observer.has_ended(),
            false => observer.producer_alive(),
        };
        let versions = observer.versions();
        let newest = versions.last().map(|version| version.version);
        let lapsed = observer.lapsed().filter(|_| !is_remote);
        let present = versions.iter().filter(|version| !version.retiring).map(|version| version.version).collect();
        self.lapsed = lapsed;
        self.found_alive = if is_told && is_alive { found.or_else(|| Some(Instant::now())) } else { None };
        Ok(Standing { is_alive, newest, present })
    }

    /// Whether the runtime said that it does not count.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Refused(_)))
    }

    /// Whether a process of this node writes it, and no runtime has said whether it counts.
    pub(crate) fn is_undecided(&self) -> bool {
        self.verdict.is_none() && !self.is_remote()
    }

    /// Whether it takes part in any version from this one on.
    pub(crate) fn is_of(&self, version: Version) -> bool {
        !self.is_refused() && self.left.is_none_or(|left| left > version)
    }

    /// Whether it takes part in a version, as far as the board tells.
    pub(crate) fn is_in(&self, version: Version) -> bool {
        self.from <= version && self.is_of(version)
    }
}

/// All writers that a board tells of.
#[derive(Debug, Default)]
pub(crate) struct Members {
    position: Position,
    /// What the bell was before the board was read last.
    seen: u32,
    /// Whether somebody was changing it then.
    stability: Stability,
    /// The newest version that counts as complete, as whoever was changing the board then had claimed.
    claimed: Option<Version>,
    /// How often the board said anything new.
    changes: u64,
    pub(crate) list: BTreeMap<u32, Member>,
    /// Looks at what is complete over all nodes, once there is such a region.
    complete: Option<Observer>,
    /// What the bell was when that was looked for last.
    complete_looked: Option<u32>,
    /// Where the object's home says what is complete: the newest version that was complete before it did.
    pub(crate) follows: Option<Version>,
    /// The newest version that it said to be complete, when writers were looked at last.
    announced: Option<Version>,
    /// Processes of whose end somebody tells: as long as he says nothing, they live.
    pub(crate) watched: BTreeSet<u32>,
}

impl Members {
    /// Reads what is new on the board; whether there was anything.
    pub(crate) fn refresh(&mut self, shared: &Shared) -> Result<bool> {
        let seen = shared.bell.seen();
        if self.is_settled() && self.seen == seen {
            return Ok(false);
        }
        // Whether it is settled is asked between the bell and the entries: who changes it from then on rings, and what was changed before
        // is read.
        let News { is_anew, entries, stability, claimed } = shared.board.read(&mut self.position)?;
        if is_anew {
            self.list.clear();
            (self.complete, self.complete_looked, self.follows, self.announced) = (None, None, None, None);
        }
        let is_new = is_anew || !entries.is_empty();
        self.changes += u64::from(is_new);
        if let Err(error) = self.note(shared, entries) {
            // Nobody goes on with half of what the board says.
            let watched = std::mem::take(&mut self.watched);
            *self = Members { changes: self.changes, watched, ..Members::default() };
            return Err(error);
        }
        (self.seen, self.stability, self.claimed) = (seen, stability, claimed);
        Ok(is_new)
    }

    /// What the bell was when the board was read last, if nobody was changing it then. As long as that is what it is, no writer takes
    /// the place of another that is gone.
    pub(crate) fn settled(&self) -> Option<u32> {
        self.is_settled().then_some(self.seen)
    }

    /// Whether the board was read, and nobody was changing it then.
    fn is_settled(&self) -> bool {
        self.stability == Stability::Settled
    }

    /// What the bell was before the board was read last.
    pub(crate) fn seen(&self) -> u32 {
        self.seen
    }

    /// How often the board said anything new: what was planned with as many changes still holds.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Reads a board that is locked.
    pub(crate) fn of_locked(shared: &Shared, board: &LockedBoard<'_>) -> Result<Members> {
        let mut members = Members { position: board.position(), ..Members::default() };
        members.note(shared, board.entries.clone())?;
        Ok(members)
    }

    /// Says how far the board was read, and what the bell will be if nobody else rings it meanwhile.
    pub(crate) fn is_at(&mut self, position: Position, seen: u32) {
        (self.position, self.seen, self.stability, self.claimed) = (position, seen, Stability::Settled, None);
    }

    pub(crate) fn note(&mut self, shared: &Shared, entries: Vec<Entry>) -> Result<()> {
        for entry in entries {
            match entry {
                Entry::Attach(attached) => {
                    let fragment = shared.view(&attached.text, &shared::bindings(&attached.bindings))?.fragment;
                    let elements = shared.space.elements(&fragment).map_err(shared.scattered())?.into();
                    let (number, from) = (attached.number, attached.from);
                    let member = Member {
                        attached,
                        fragment,
                        elements,
                        from,
                        left: None,
                        left_for_good: None,
                        heirs: BTreeMap::new(),
                        died: false,
                        verdict: None,
                        observer: None,
                        found_alive: None,
                        lapsed: None,
                    };
                    self.list.insert(number, member);
                    self.begin_heir(number);
                }
                Entry::Leave { number, from } => self.change(number, |member| {
                    member.change_end(|left, _| *left = Some(left.map_or(from, |left| left.min(from))));
                }),
                Entry::Forget { number } => {
                    self.end_heir(number);
                    self.list.remove(&number);
                }
                Entry::Die { number } => self.change(number, |member| member.died = true),
                Entry::Accept { number } => {
                    self.change(number, |member| {
                        (member.verdict, member.from) = (Some(Verdict::Accepted), member.attached.from);
                    });
                    self.begin_heir(number);
                }
                Entry::Keep { number, from } => self.change(number, |member| {
                    member.change_end(|_, heirs| match from {
                        Some(from) => _ = heirs.insert(number, from),
                        None => _ = heirs.remove(&number),
                    });
                }),
                Entry::Follow { complete } => self.follows = Some(complete),
                Entry::Refuse { number, why, next } => {
                    self.end_heir(number);
                    let refused = FragmentRefusal { why, next };
                    self.change(number, |member| member.verdict = Some(Verdict::Refused(refused)));
                }
            }
        }
        Ok(())
    }

    /// A fragment takes the places of others, from the version on with which it begins.
    fn begin_heir(&mut self, number: u32) {
        let Some(member) = self.list.get(&number) else { return };
        let (takes, from) = (member.attached.takes.clone(), member.from);
        for former in takes {
            self.change(former, |member| member.change_end(|_, heirs| _ = heirs.insert(number, from)));
        }
    }

    /// A fragment takes nobody's place any more.
    fn end_heir(&mut self, number: u32) {
        let takes = self.list.get(&number).map_or_else(Vec::new, |member| member.attached.takes.clone());
        for former in takes {
            self.change(former, |member| member.change_end(|_, heirs| _ = heirs.remove(&number)));
        }
    }

    fn change(&mut self, number: u32, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.list.get_mut(&number) {
            change(member);
        }
    }

    /// Whether any of the elements belong to a process of another node in a version.
    pub(crate) fn are_elsewhere(&self, version: Version, wanted: &IndexSet) -> bool {
        let meets = |member: &Member| {
            let own = member.elements.boxes();
            own.iter().any(|one| wanted.boxes().iter().any(|other| one.meets(other)))
        };
        self.list.values().any(|member| member.is_remote() && member.is_in(version) && meets(member))
    }

    /// How far each is, all at one instant: else a version that all had might be in none of the lists, because one of them had
    /// let it go for the next by the time it was looked at.
    pub(crate) fn standings(&mut self, shared: &Shared) -> Result<BTreeMap<u32, Standing>> {
        let mut standings: BTreeMap<u32, Standing> = BTreeMap::new();
        if self.list.is_empty() {
            return Ok(standings);
        }
        let options = shared.site.observing()?;
        for _ in 0..LOOKS {
            let before = self.newest_numbers(shared, &options)?;
            for (number, member) in &mut self.list {
                let mut standing = member.standing(shared, &options, &self.watched)?;
                // Writers that publish all the while are looked at again, and what each had at any look counts.
                if let Some(known) = standings.remove(number) {
                    standing.present.extend(known.present);
                }
                standings.insert(*number, standing);
            }
            if self.newest_numbers(shared, &options)? == before {
                break;
            }
        }
        if self.follows.is_some() {
            let announced = self.announced(shared)?;
            self.announced = Some(announced);
            // What was complete before the home spoke needs nobody's word. Of what follows, one that takes nobody's place has its part,
            // unless another node's may stand against it.
            let has_others = self.list.values().any(Member::is_remote);
            let is_heir = |member: &Member| member.is_undecided() && !member.attached.takes.is_empty();
            if Some(announced) > self.follows && (has_others || self.list.values().any(is_heir)) {
                self.defer_undecided(announced);
            }
        }
        Ok(standings)
    }

    /// Who is not accepted yet has no part in a version that is complete over all nodes already: if it says so, it will be refused.
    fn defer_undecided(&mut self, announced: Version) {
        let is_early = |member: &&Member| member.is_undecided() && member.from <= announced;
        let early: Vec<u32> = self.list.values().filter(is_early).map(|member| member.attached.number).collect();
        let from = announced.saturating_add(1);
        for number in early {
            self.changes += 1;
            self.change(number, |member| member.from = from);
            self.begin_heir(number);
        }
    }

    /// The newest version that may count as complete: any, unless the object's home says which, or a claim on its board.
    pub(crate) fn newest_countable(&self) -> Version {
        match self.follows {
            Some(base) => self.announced.unwrap_or(base),
            None => self.claimed.unwrap_or(Version::MAX),
        }
    }

    /// Versions of a writer that is gone that are not complete yet, whoever has them: somebody of another node may take its place before
    /// the home says that they are, or somebody of this one is about to.
    pub(crate) fn unsure(&self, member: &Member, standing: &Standing) -> Option<Range<Version>> {
        let has_gone = !member.is_remote() && (member.left_for_good.is_some() || !standing.is_alive);
        let sure = self.newest_countable();
        let newest = standing.newest.filter(|newest| has_gone && *newest > sure)?;
        Some(sure.saturating_add(1)..newest.saturating_add(1))
    }

    /// The newest version that this node's runtime knows to be complete, or what was complete before; the initial one where none has been.
    pub(crate) fn announced(&mut self, shared: &Shared) -> Result<Version> {
        if self.complete.is_none() && self.complete_looked != Some(self.seen) {
            self.complete = shared.observe_complete()?;
            self.complete_looked = Some(self.seen);
        }
        let base = self.follows.unwrap_or(shared.description.initial);
        Ok(self.complete.as_ref().and_then(Observer::newest_number).map_or(base, |newest| newest.max(base)))
    }

    fn newest_numbers(&mut self, shared: &Shared, options: &ObserverOptions) -> Result<Vec<Option<Version>>> {
        let newest = |member: &mut Member| Ok(member.observer(shared, options)?.and_then(Observer::newest_number));
        self.list.values_mut().map(newest).collect()
    }

    /// The writers as the board tells of them now, and how far each is.
    ///
    /// What follows from a change of the board, as a version that is let go of because a new writer has the next one, follows
    /// when the bell was rung. So writers are looked at again if the board changed meanwhile: else a former writer's
    /// version would be missed, and the new writer's not known of.
    pub(crate) fn look(&mut self, shared: &Shared) -> Result<BTreeMap<u32, Standing>> {
        self.refresh(shared)?;
        let mut found = None;
        for tried in 0..TRIES {
            let standings = self.standings(shared)?;
            let is_new = self.refresh(shared)?;
            if !is_new && self.is_settled() {
                return Ok(standings);
            }
            // Of a board that somebody has locked the claim counts that was read after them.
            found = (!is_new).then_some(standings);
            if !is_new && self.stability == Stability::Doubtful && tried >= DOUBTFUL_TRIES {
                break;
            }
            if !self.is_settled() {
                // Somebody is just about to take the place of another, by what he has seen of the writers.
                std::thread::sleep(UNSETTLED);
            }
        }
        found.map_or_else(|| self.standings(shared), Ok)
    }

    /// All that is known of the object, for who wants to know which versions are complete, and what can be had.
    pub(crate) fn ledger(&mut self, shared: &Shared) -> Result<Ledger> {
        let standings = self.look(shared)?;
        self.ledger_of(shared, &standings)
    }

    pub(crate) fn ledger_of(&self, shared: &Shared, standings: &BTreeMap<u32, Standing>) -> Result<Ledger> {
        self.ledger_with(shared, standings, |member, standing| self.unsure(member, standing))
    }

    /// The same with what those published who are gone, whether or not it counts.
    pub(crate) fn published_ledger(&self, shared: &Shared, standings: &BTreeMap<u32, Standing>) -> Result<Ledger> {
        self.ledger_with(shared, standings, |_, _| None)
    }

    fn ledger_with(
        &self,
        shared: &Shared,
        standings: &BTreeMap<u32, Standing>,
        unsure: impl Fn(&Member, &Standing) -> Option<Range<Version>>,
    ) -> Result<Ledger> {
        let shape = shared.space.shape().map_err(shared.scattered())?;
        let mut ledger = Ledger::new(shape, shared.description.initial);
        for member in self.list.values() {
            let attached = &member.attached;
            if member.is_refused() || member.left.is_some_and(|left| left <= member.from) {
                continue;
            }
            let stage = match attached.writers {
                Some(writers) => Stage::member_of(member.from, member.elements.clone(), writers),
                None => Stage::member(member.from, member.elements.clone()),
            };
            // Whoever put them on the board had compared them with those that were there.
            let left = member.left.map(Stage::left);
            ledger.restore(member.who(), std::iter::once(stage).chain(left).collect());
            let standing = standings.get(&attached.number).cloned().unwrap_or_default();
            let (is_alive, unsure) = (standing.is_alive, unsure(member, &standing));
            let mut published = Published { newest: standing.newest, present: standing.present };
            ledger.note(member.who().writer, published.clone());
            if !is_alive {
                ledger.die(member.who().writer);
            }
            if let Some(unsure) = unsure {
                // They are waited for.
                published.newest = unsure.start.checked_sub(1);
                published.present.retain(|version| *version < unsure.start);
                ledger.note(member.who().writer, published);
            }
        }
        Ok(ledger)
    }
}
