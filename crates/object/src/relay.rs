//! What the runtime of a node does with an object: it tells the node's programs of fragments on other nodes, and fills
//! fragments to read with elements that are there.

use crate::board::{Attached, Entry, LockedBoard};
use crate::description::Description;
use crate::error::Result;
use crate::home;
use crate::layout;
use crate::member::{Member, Members};
use crate::object::Object;
use crate::receiver::Receiver;
use crate::shared::{self, COMPLETE, Shared};
use crate::verdict::Verdict;
use drepl::{Fragment, IndexSet, View};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use stillframe::{DType, Declaration, Kind, Region, Rule, Snapshot, TrackerKind, VariableId};
use stillframe_roster::writer::Version;

pub use crate::board::Remote;
pub use crate::verdict::FragmentRefusal;
pub use fragments::{LocalFragment, RemoteFragment};

/// How long who has the lock of a board is waited for. The runtime has other objects to care for, and comes again.
const SOON: Duration = Duration::from_millis(100);

/// The variable of the region of complete versions that keeps the newest version of before the present run of the job.
const RUN_FLOOR: &str = "run_floor";

/// An object of this node, for its runtime.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    members: Members,
    /// Where complete versions are published, once the home has said that one is.
    complete: Option<(Region, VariableId)>,
    /// The newest version that can be had, where one above it was given up: what it consists of stays.
    had: Option<Version>,
    /// The newest version of before the present run of the job.
    run_floor: Version,
    readers: u32,
    /// Whether it rang the bell for what a former runtime may have written without.
    has_rung: bool,
    /// Whether the board could not be had to write on it that the home says what is complete.
    is_unfollowed: bool,
}

impl Relay {
    /// Of an object. What a former runtime said of other nodes counts until this one says something else: without it writers
    /// would let versions go that others still need.
    pub fn new(object: &Object) -> Relay {
        Relay {
            shared: object.shared().clone(),
            members: Members::default(),
            complete: None,
            had: None,
            run_floor: object.shared().description.initial,
            readers: 0,
            has_rung: false,
            is_unfollowed: false,
        }
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// What the object is.
    pub fn description(&self) -> &Description {
        &self.shared.description
    }

    /// The object's id.
    pub fn id(&self) -> NonZeroU64 {
        self.shared.description.id
    }

    /// The version that exists at once.
    pub fn initial(&self) -> Version {
        self.shared.description.initial
    }

    /// The newest version that this node's programs know to be complete over all nodes; the initial one where none was.
    ///
    /// # Errors
    /// Those of the region that says so.
    pub fn newest_complete(&self) -> Result<Version> {
        self.shared.newest_announced()
    }

    /// The newest version that was complete before the present run of the job, as the former runtime of this node left it; the initial one
    /// where it left none.
    ///
    /// # Errors
    /// Those of the region that says so.
    pub fn run_floor(&self) -> Result<Version> {
        let Some(observer) = self.shared.observe_complete()? else { return Ok(self.initial()) };
        let mut bytes = [0; 8];
        match observer.newest().and_then(|newest| newest.read(RUN_FLOOR, 0, &mut bytes)) {
            Ok(()) => Ok(u64::from_ne_bytes(bytes).max(self.initial())),
            // Of a former build, or just made.
            Err(stillframe::Error::UnknownVariable { .. } | stillframe::Error::NoVersion { .. }) => Ok(self.initial()),
            Err(error) => Err(error.into()),
        }
    }

    /// Leaves what was complete before the present run of the job to the next runtime of this node, with the next version that is complete.
    pub fn set_run_floor(&mut self, version: Version) {
        self.run_floor = version;
    }

    /// All elements of the object.
    ///
    /// # Errors
    /// [`Error::Plan`] if they are too many boxes.
    pub fn shape(&self) -> Result<IndexSet> {
        self.shared.space.shape().map_err(self.shared.scattered())
    }

    /// Elements as people write them.
    pub fn shown(&self, elements: &IndexSet) -> String {
        self.shared.space.shown(elements)
    }

    /// What the text of a fragment describes, and its elements.
    ///
    /// # Errors
    /// [`Error::Text`].
    pub fn fragment(&self, text: &str, bindings: &BTreeMap<String, i64>) -> Result<(View, IndexSet)> {
        let view = self.shared.view(text, &shared::bindings(bindings))?;
        let elements = self.shared.space.elements(&view.fragment).map_err(self.shared.scattered())?;
        Ok((view, elements))
    }

    /// Begins anew with an object whose files on this node were removed, though it is there on others: what was told of it here is to be told
    /// again. Fragments that are attached have numbers from this one on: others know those of the removed ones. One that was attached before
    /// this is refused, and its program may attach again.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody has the board just now; those of the object's files.
    pub fn begin_anew(&mut self, first: u32) -> Result<()> {
        let mut board = self.shared.board.lock_within(SOON)?;
        board.skip_numbers(first)?;
        let members = Members::of_locked(&self.shared, &board)?;
        let early = members.list.range(..first).filter(|(_, member)| member.is_undecided()).map(|(number, _)| *number);
        let early: Vec<u32> = early.collect();
        let why = "the object had just come back to this node when the fragment was attached: attach again";
        board.add_all(
            early.iter().map(|number| Entry::Refuse { number: *number, why: why.into(), next: None }).collect(),
        )?;
        drop(board);
        if !early.is_empty() {
            self.shared.bell.ring();
        }
        (self.members, self.complete, self.had) = (Members::default(), None, None);
        (self.has_rung, self.is_unfollowed) = (false, false);
        Ok(())
    }

    /// The fragments of this node's processes, as they are now; `None` as long as those go by themselves, for their board cannot be had to
    /// write on it that the home says what is complete.
    ///
    /// # Errors
    /// Those of the object's files.
    pub fn look(&mut self) -> Result<Option<Vec<LocalFragment>>> {
        let standings = self.members.look(&self.shared)?;
        self.is_unfollowed = !self.members.list.is_empty() && !self.follow()?;
        if self.is_unfollowed {
            return Ok(None);
        }
        let own = self.members.list.iter().filter(|(_, member)| !member.is_remote());
        let local = own.map(|(number, member)| {
            let standing = standings.get(number).cloned().unwrap_or_default();
            let Attached { from, text, bindings, writers, .. } = member.attached.clone();
            LocalFragment {
                who: member.who(),
                elements: member.elements.clone(),
                fragment: member.fragment.clone(),
                text,
                bindings,
                writers,
                from,
                left: member.left_for_good,
                is_alive: standing.is_alive,
                newest: standing.newest,
                present: standing.present.into_iter().collect(),
                is_accepted: member.verdict.as_ref().map(|verdict| *verdict == Verdict::Accepted),
            }
        });
        Ok(Some(local.collect()))
    }

    /// Whether [`look`](Relay::look) is to be called again, for somebody else has the board just now.
    pub fn is_unfollowed(&self) -> bool {
        self.is_unfollowed
    }

    /// Has programs go by what the home says to be complete; whether they do.
    fn follow(&mut self) -> Result<bool> {
        if self.members.follows.is_some() {
            return Ok(true);
        }
        let Some(mut board) = self.shared.board.try_lock()? else { return Ok(false) };
        let mut members = Members::of_locked(&self.shared, &board)?;
        home::follow(&self.shared, &mut board, &mut members)?;
        drop(board);
        self.shared.bell.ring();
        Ok(true)
    }

    /// Somebody waits for the end of a process, and says when it has [ended](Relay::note_end): until then it lives.
    pub fn note_watched(&mut self, process: u32) {
        self.members.watched.insert(process);
    }

    /// Whether somebody waits for the end of a process.
    pub fn is_watched(&self, process: u32) -> bool {
        self.members.watched.contains(&process)
    }

    /// A process has ended.
    pub fn note_end(&mut self, process: u32) {
        self.members.watched.remove(&process);
    }

    /// Holds a version of a fragment of this node; `None` if it is gone.
    ///
    /// # Errors
    /// Those of the fragment's region.
    pub fn hold(&mut self, number: u32, version: Version) -> Result<Option<Snapshot>> {
        let options = self.shared.site.observing()?;
        let Some(member) = self.members.list.get_mut(&number) else { return Ok(None) };
        let Some(observer) = member.observer(&self.shared, &options)? else { return Ok(None) };
        match observer.version(version) {
            Ok(snapshot) if snapshot.run() == Some(self.shared.description.id) => Ok(Some(snapshot)),
            Ok(_) | Err(stillframe::Error::VersionGone { .. } | stillframe::Error::NoRegion { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What the region of a fragment calls all of its bytes.
    pub fn variable(fragment: &Fragment) -> String {
        layout::declaration(fragment, false).name
    }

    /// Tells this node's programs which fragments there are on other nodes: these, and no others. Those that the newest complete
    /// version consists of stay until others have their elements of it or a newer one is [complete](Relay::complete): else programs would
    /// find none. Whether any stays, and this is to be called again.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody has the board just now; those of the object's files.
    pub fn tell(&mut self, remote: &[RemoteFragment]) -> Result<bool> {
        if self.complete.is_none() {
            self.members.refresh(&self.shared)?;
            // What a former runtime said was of versions that are complete.
            if !remote.is_empty() || self.members.list.values().any(Member::is_remote) {
                self.complete = Some(self.make_complete()?);
            }
        }
        let mut board = self.shared.board.lock_within(SOON)?;
        let mut members = Members::of_locked(&self.shared, &board)?;
        let before = board.entries.len();
        if !remote.is_empty() || !members.list.is_empty() {
            home::follow(&self.shared, &mut board, &mut members)?;
        }
        let mut known: BTreeMap<(u32, u32), Vec<&Member>> = BTreeMap::new();
        for member in members.list.values() {
            let there = member.attached.remote.as_ref();
            there.into_iter().for_each(|there| known.entry((there.node, there.number)).or_default().push(member));
        }
        let mut changes = Vec::new();
        for one in remote {
            let of_number = known.get_mut(&(one.remote.node, one.remote.number));
            let same =
                of_number.and_then(|all| Some(all.swap_remove(all.iter().position(|member| one.matches(member))?)));
            changes.extend(match same {
                Some(member) => one.changes(member),
                None => one.attach(&mut board)?,
            });
        }
        let (entries, stays) = self.forget(&board, remote, known.into_values().flatten().collect())?;
        for entry in changes.into_iter().chain(entries) {
            board.add(entry)?;
        }
        let is_new = board.entries.len() > before;
        // Where nobody of this node attaches to write nobody else makes it smaller. What cannot be done now can be later.
        let _ = board.compact();
        drop(board);
        // A runtime that was killed between an entry and the bell left programs that look at the board again only when it rings.
        if is_new || !std::mem::replace(&mut self.has_rung, true) {
            self.shared.bell.ring();
        }
        Ok(stays)
    }

    /// What is said of fragments of other nodes that are told of no more, beside those that are; whether any stays.
    fn forget(
        &self,
        board: &LockedBoard<'_>,
        remote: &[RemoteFragment],
        untold: Vec<&Member>,
    ) -> Result<(Vec<Entry>, bool)> {
        let newest = self.complete.as_ref().and_then(|(region, _)| region.newest());
        let complete = self.had.or(newest);
        let needed = match complete.filter(|_| !untold.is_empty()) {
            Some(complete) => self.needed(board, remote, complete)?,
            None => BTreeSet::new(),
        };
        // Of the versions after it those that stay are no members, unless they are told of again.
        let from = complete.map(|complete| complete.saturating_add(1));
        let entry = |member: &Member| {
            let number = member.attached.number;
            match needed.contains(&number) {
                true => member.left.is_none().then_some(Entry::Keep { number, from }),
                false => Some(Entry::Forget { number }),
            }
        };
        Ok((untold.into_iter().filter_map(entry).collect(), !needed.is_empty()))
    }

    /// Fragments of other nodes that are told of no more, and that a complete version consists of: no other has their elements of it.
    fn needed(&self, board: &LockedBoard<'_>, remote: &[RemoteFragment], complete: Version) -> Result<BTreeSet<u32>> {
        let members = Members::of_locked(&self.shared, board)?;
        let told: BTreeMap<(u32, u32), &RemoteFragment> =
            remote.iter().map(|one| ((one.remote.node, one.remote.number), one)).collect();
        let is_told = |member: &Member| {
            let there = member.attached.remote.as_ref()?;
            Some(told.get(&(there.node, there.number)).is_some_and(|one| one.matches(member)))
        };
        let parts = members.list.values().filter(|member| member.is_in(complete));
        let parts = parts.filter_map(|member| Some((member, is_told(member)?)));
        let (told, untold): (Vec<_>, Vec<_>) = parts.partition(|(_, is_told)| *is_told);
        let needed = untold.into_iter().map(|(member, _)| member);
        let needed = needed.filter(|member| !told.iter().any(|(other, _)| other.has_any(&member.elements)));
        Ok(needed.map(|member| member.attached.number).collect())
    }

    /// Tells the writer of a fragment of this node whether it counts on all nodes.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody has the board just now; those of the object's files.
    pub fn decide(&mut self, number: u32, verdict: Result<(), FragmentRefusal>) -> Result<()> {
        let mut board = self.shared.board.lock_within(SOON)?;
        board.add(match verdict {
            Ok(()) => Entry::Accept { number },
            Err(FragmentRefusal { why, next }) => Entry::Refuse { number, why, next },
        })?;
        drop(board);
        self.shared.bell.ring();
        Ok(())
    }

    /// Another writer has the place of a fragment of this node whose process is gone, from a version on.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody has the board just now; those of the object's files.
    pub fn end(&mut self, number: u32, from: Version) -> Result<()> {
        let mut board = self.shared.board.lock_within(SOON)?;
        board.add(Entry::Leave { number, from })?;
        drop(board);
        self.shared.bell.ring();
        Ok(())
    }

    fn make_complete(&self) -> Result<(Region, VariableId)> {
        let arena = self.shared.site.arena()?;
        let options = Region::options().arena(&arena).run(self.shared.description.id).trust(self.shared.site.trust);
        let name = self.shared.region(COMPLETE);
        if self.shared.observe_complete()?.is_none() {
            // One of a former object of the name would go on with its versions.
            self.shared.remove_region(COMPLETE, true)?;
        }
        // One that a former runtime left says what was complete then, and that still is.
        // It has one number, which hardly ever changes: to compare it takes less than to ask what was written.
        // Without room it is tried again, and keeps nobody waiting.
        let options = options.threads(1).tracker(TrackerKind::FullCopy).rule(Rule::Fail);
        let mut region = options.create(&name)?;
        let floor = Declaration::new(RUN_FLOOR, DType::Uint(8), Kind::Managed { shape: vec![1] });
        let variable = region.declare(floor)?;
        Ok((region, variable))
    }

    /// Tells this node's programs that a version is complete over all nodes; whether that is new.
    ///
    /// # Errors
    /// Those of a publish.
    pub fn complete(&mut self, version: Version) -> Result<bool> {
        let is_new = self.announce(version)?;
        let newest = self.complete.as_ref().and_then(|(region, _)| region.newest());
        // Also of a version that was given up, and is there after all.
        let was_given_up = newest == Some(version) && self.had.take().is_some();
        Ok(is_new || was_given_up)
    }

    /// Tells this node's programs that a version may have been complete and is nobody's any more, so that whoever goes on begins above it;
    /// whether that is new. What the version before consists of stays: programs read that, or learn from it who was lost.
    ///
    /// # Errors
    /// Those of a publish.
    pub fn give_up(&mut self, version: Version) -> Result<bool> {
        let before = self.complete.as_ref().and_then(|(region, _)| region.newest()).or(Some(self.initial()));
        let is_new = self.announce(version)?;
        if is_new {
            self.had = self.had.or(before);
        }
        Ok(is_new)
    }

    fn announce(&mut self, version: Version) -> Result<bool> {
        if version <= self.initial() {
            return Ok(false);
        }
        // Also where nobody is known to have written: programs would take zeros for the newest version.
        if self.complete.is_none() {
            let mut board = self.shared.board.lock_within(SOON)?;
            let mut members = Members::of_locked(&self.shared, &board)?;
            home::follow(&self.shared, &mut board, &mut members)?;
            drop(board);
            self.complete = Some(self.make_complete()?);
        }
        let Some((region, variable)) = &mut self.complete else { return Ok(false) };
        let is_new = region.newest().is_none_or(|newest| newest < version);
        if is_new {
            region.bytes_mut(*variable)?.copy_from_slice(&self.run_floor.to_ne_bytes());
            region.publish(version).commit()?;
            self.shared.bell.ring();
        }
        Ok(is_new)
    }

    /// A region for a fragment that a process of this node reads.
    ///
    /// # Errors
    /// [`Error::Text`]; those of a region that is made.
    pub fn receive(&mut self, text: &str, bindings: &BTreeMap<String, i64>) -> Result<Receiver> {
        let (view, elements) = self.fragment(text, bindings)?;
        Receiver::make(&self.shared, &mut self.readers, view.fragment, elements)
    }
}

impl RemoteFragment {
    /// Whether a board's entry tells of this fragment. Nodes and fragments have numbers of one job: in the next one another fragment may
    /// have those of one that the board still keeps.
    fn matches(&self, member: &Member) -> bool {
        let attached = &member.attached;
        let is_back = member.has_died() && !self.died;
        attached
            .remote
            .as_ref()
            .is_some_and(|there| (there.node, there.number) == (self.remote.node, self.remote.number))
            && (attached.process, &attached.text, &attached.bindings) == (self.process, &self.text, &self.bindings)
            && !is_back
    }

    /// Puts it on a board; what has become of it since then.
    fn attach(&self, board: &mut LockedBoard<'_>) -> Result<Vec<Entry>> {
        let number = board.next_number()?;
        let RemoteFragment { remote, process, rank, from, text, bindings, writers, .. } = self.clone();
        let (remote, takes) = (Some(remote), Vec::new());
        board.add(Entry::Attach(Attached { number, process, rank, from, text, bindings, writers, remote, takes }))?;
        Ok(self.ends(number, None, false))
    }

    /// What has become of it since the board told of it.
    fn changes(&self, member: &Member) -> Vec<Entry> {
        let number = member.attached.number;
        let back = member.is_kept().then_some(Entry::Keep { number, from: None });
        back.into_iter().chain(self.ends(number, member.left_for_good, member.has_died())).collect()
    }

    fn ends(&self, number: u32, left: Option<Version>, has_died: bool) -> Vec<Entry> {
        let leaves = self.left.filter(|from| left != Some(*from)).map(|from| Entry::Leave { number, from });
        let dies = (self.died && !has_died).then_some(Entry::Die { number });
        leaves.into_iter().chain(dies).collect()
    }
}

impl Object {
    /// What the runtime of this node does with it.
    pub fn relay(&self) -> Relay {
        Relay::new(self)
    }
}

mod fragments;
