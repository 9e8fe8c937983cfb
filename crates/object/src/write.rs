//! Fragments to write.

use crate::board::{Attached, Entry, LockedBoard};
use crate::error::{Error, Overlap, Result, Writer};
use crate::layout::{self, Array};
use crate::member::{Member, Members, Standing};
use crate::object::Object;
use crate::shared::Shared;
use crate::source::Sources;
use crate::waiting::{self, Deadline, LOOK};
use drepl::executor::Executor;
use drepl::{Bindings, Fragment, View};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stillframe::{Element, KeptMemory, LoanBytes, Observer, PeerRegion, Published, Region, TrackerKind, VariableId};
use stillframe_kernel::points;
use stillframe_roster::refusal::Refusal;
use stillframe_roster::roster::Closure;
use stillframe_roster::writer::{Elements, Node, Version, Who};

/// How long a fragment waits for its elements to become free, and for the version at which it is attached, unless told.
const WAIT: Duration = Duration::from_secs(10);

/// Smaller fragments are copied by the thread that publishes: a process may have thousands of them.
const THREADS_BYTES: u64 = 4 << 20;

/// Fragments up to this size are compared with their newest version: that takes less time than to ask the kernel what was written.
const COMPARED_BYTES: u64 = 16 << 10;

/// How often a writer looks whether others left or died and left something behind.
const COLLECT: Duration = Duration::from_secs(1);

/// Options for attaching a fragment to write; see [`Object::write`].
#[derive(Debug, Clone)]
pub struct WriteOptions {
    object: Object,
    text: String,
    bindings: BTreeMap<String, i64>,
    version: Option<Version>,
    wait: Duration,
    rank: Option<u32>,
    writers: Option<u32>,
    keep: usize,
    bound_bytes: Option<u64>,
    is_loaned: bool,
}

impl WriteOptions {
    pub(crate) fn new(object: &Object, text: &str) -> WriteOptions {
        WriteOptions {
            object: object.clone(),
            text: text.into(),
            bindings: BTreeMap::new(),
            version: None,
            wait: WAIT,
            rank: None,
            writers: None,
            keep: 1,
            bound_bytes: None,
            is_loaned: false,
        }
    }

    /// The number of a name that the text leaves open.
    pub fn bind(mut self, name: &str, value: i64) -> Self {
        self.bindings.insert(name.into(), value);
        self
    }

    /// The version whose content the fragment has at first, and above which it publishes: by default the newest complete one,
    /// which is the initial one, zeros, before anything was published. Who had its elements until then does not matter: so a
    /// program goes on with another number of processes.
    pub fn version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }

    /// How long to wait for a living writer to detach elements that this one wants, and for the version of
    /// [`version`](WriteOptions::version); 10 seconds by default.
    pub fn wait(mut self, timeout: Duration) -> Self {
        self.wait = timeout;
        self
    }

    /// The rank in a parallel program, for messages to people.
    pub fn rank(mut self, rank: u32) -> Self {
        self.rank = Some(rank);
        self
    }

    /// How many writers there are, if they do not cover the object together. A version is complete when so many have published
    /// it. Without it, it is when all elements were.
    pub fn writers(mut self, writers: u32) -> Self {
        self.writers = Some(writers);
        self
    }

    /// How many of the newest versions stay in any case; 1 by default. What other writers have still to publish stays
    /// besides.
    pub fn keep(mut self, versions: usize) -> Self {
        self.keep = versions;
        self
    }

    /// The most bytes that its versions may take.
    pub fn bound_bytes(mut self, bytes: u64) -> Self {
        self.bound_bytes = Some(bytes);
        self
    }

    /// Lends memory of the next version to be written, whole, for each publish, which then copies nothing. The memory is at
    /// another address after each publish; [`WriteFragment::previous`] has the version before. For programs that
    /// compute a new array from an old one.
    pub fn loaned(mut self) -> Self {
        self.is_loaned = true;
        self
    }

    /// Attaches the fragment: from then on it is waited for in all versions above the one that it begins with.
    ///
    /// # Errors
    /// [`Error::Overlap`] with both fragments, if another one that does not go has some of the elements; [`Error::Text`];
    /// [`Error::NotWritable`]; [`Error::Refused`] if a newer version is complete already; those of a region that is made.
    pub fn attach(self) -> Result<WriteFragment> {
        let shared = self.object.shared().clone();
        let bindings: Bindings = self.bindings.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let view = shared.view(&self.text, &bindings)?;
        check(&shared, &view)?;
        let elements = shared.space.elements(&view.fragment).map_err(shared.scattered())?.into();
        let deadline = Deadline::after(self.wait);
        let mut fragment = loop {
            match self.try_attach(&shared, &view, &elements, deadline)? {
                Attempt::Attached(fragment) => break *fragment,
                Attempt::Late => {}
                Attempt::Taken(observer, seen) => {
                    shared.check_interrupt()?;
                    match observer {
                        Some(observer) => {
                            drop(observer.wait_newer(observer.versions().last().map(|v| v.version), Some(LOOK)))
                        }
                        None => shared.bell.sleep(seen, LOOK),
                    }
                }
            }
        };
        fragment.load(deadline)?;
        Ok(fragment)
    }

    fn try_attach(
        &self,
        shared: &Arc<Shared>,
        view: &View,
        elements: &Elements,
        deadline: Deadline,
    ) -> Result<Attempt> {
        let seen = shared.bell.seen();
        let mut board = shared.board.lock()?;
        if board.has_former {
            // They were to be removed with their object, whether writers live or not.
            shared.remove_regions(true)?;
        }
        let mut members = Members::of_locked(shared, &board)?;
        let standings = members.standings(shared)?;
        let ledger = members.ledger_of(shared, &standings)?;
        let newest = waiting::newest_complete(shared, &ledger)?;
        let version = self.version.unwrap_or(newest);
        let from =
            version.checked_add(1).ok_or_else(|| self.refused(Refusal::Late { from: version, settled: newest }))?;
        if from <= newest {
            return Err(self.refused(Refusal::Late { from, settled: newest }));
        }
        let number = board.next_number()?;
        let mut leaving = Vec::new();
        for (other, member) in &mut members.list {
            if !member.is_of(from) || !meets(elements, &member.elements) {
                continue;
            }
            let standing = standings.get(other).cloned().unwrap_or_default();
            if !standing.is_alive {
                leaving.push(Entry::Leave { number: *other, from });
            } else if stays(member, &standing, from) || deadline.left().is_zero() {
                return Err(self.overlap(shared, elements, number, from, member, deadline.waited())?);
            } else {
                let observer = member.observer(shared, &shared.site.observing()?)?.cloned();
                return Ok(Attempt::Taken(observer, seen));
            }
        }
        let (region, variable) = self.make_region(shared, number, &view.fragment)?;
        points::hit("attach.made");
        if !leaving.is_empty() {
            // Others may count on versions of those who are gone, and let older ones go for their sake. From the bell on they do
            // that no more, until they know of this fragment; and what they have published until then shows now.
            shared.bell.ring();
            let standings = members.standings(shared)?;
            let ledger = members.ledger_of(shared, &standings)?;
            if waiting::newest_complete(shared, &ledger)? > newest {
                region.unlink()?;
                return Ok(Attempt::Late);
            }
        }
        for entry in leaving {
            board.add(entry)?;
        }
        let attached = Attached {
            number,
            process: std::process::id(),
            rank: self.rank,
            from,
            text: self.text.clone(),
            bindings: self.bindings.clone(),
            writers: self.writers,
        };
        board.add(Entry::Attach(attached.clone()))?;
        let members = if members.list.is_empty() {
            // So the first publish finds nothing new, unless somebody else attaches until then.
            members.note(shared, vec![Entry::Attach(attached)])?;
            members.is_at(board.position(), seen.wrapping_add(1));
            members
        } else {
            // What cannot be removed now stays until somebody else tries; the fragment is attached.
            let _ = collect(shared, &mut board);
            Members::default()
        };
        drop(board);
        shared.bell.ring();
        points::hit("attach.done");
        Ok(Attempt::Attached(Box::new(WriteFragment {
            shared: shared.clone(),
            number,
            view: view.clone(),
            region: Some(region),
            variable,
            loan: None,
            is_loaned: self.is_loaned,
            observer: None,
            previous: None,
            newest: version,
            members,
            follows_others: false,
            trusted: Arc::new(AtomicU64::new(u64::MAX)),
            collected: Instant::now(),
            generation: stillframe::fork_generation(),
        })))
    }

    fn make_region(&self, shared: &Shared, number: u32, fragment: &Fragment) -> Result<(Region, VariableId)> {
        let arena = shared.site.arena()?;
        let mut options =
            Region::options().arena(&arena).run(shared.description.id).keep(self.keep).trust(shared.site.trust);
        if fragment.size_bytes() < THREADS_BYTES {
            options = options.threads(1);
        }
        if fragment.size_bytes() <= COMPARED_BYTES {
            options = options.tracker(TrackerKind::FullCopy);
        }
        if let Some(bytes) = self.bound_bytes {
            options = options.bound_bytes(bytes);
        }
        let name = shared.region(number);
        let mut region = options.clone().create(&name)?;
        if region.newest().is_some() {
            // One of a former object of the name, whose remover died.
            region.unlink()?;
            region = options.create(&name)?;
        }
        let variable = region.declare(layout::declaration(fragment, self.is_loaned))?;
        Ok((region, variable))
    }

    fn refused(&self, refusal: Refusal) -> Error {
        Error::Refused { name: self.object.name().into(), refusal }
    }

    fn overlap(
        &self,
        shared: &Shared,
        elements: &Elements,
        number: u32,
        from: Version,
        other: &Member,
        waited: Duration,
    ) -> Result<Error> {
        let common = elements.intersection(&other.elements).map_err(shared.scattered())?;
        let process = std::process::id();
        let own = stillframe_roster::writer::Writer { node: Node(0), process, serial: number };
        let overlap = Box::new(Overlap {
            version: from.max(other.attached.from),
            elements: shared.space.shown(&common),
            first: Writer(other.who()),
            first_elements: shared.space.shown(&other.elements),
            second: Writer(Who { writer: own, rank: self.rank }),
            second_elements: shared.space.shown(elements),
            waited: if waited < LOOK { Duration::ZERO } else { waited },
        });
        Ok(Error::Overlap { name: shared.name.clone(), overlap })
    }
}

enum Attempt {
    Attached(Box<WriteFragment>),
    /// A living writer has some of the elements, and may still detach them.
    Taken(Option<Observer>, u32),
    /// A newer version became complete meanwhile.
    Late,
}

/// Whether a living writer cannot make room any more for one that writes its elements from a version on.
fn stays(member: &Member, standing: &Standing, from: Version) -> bool {
    member.attached.from >= from || standing.newest.is_some_and(|newest| newest >= from)
}

/// Whether they have an element in common. Boxes with steps may lie within each other and have none.
fn meets(one: &Elements, other: &Elements) -> bool {
    one.boxes().iter().any(|one| other.boxes().iter().any(|other| one.intersection(other).is_some()))
}

/// Refuses views that nobody can write.
fn check(shared: &Shared, view: &View) -> Result<()> {
    let fault = |why: String| Err(Error::NotWritable { name: shared.name.clone(), why });
    if view.readonly {
        return fault("its view says readonly".into());
    }
    if view.fragment.size_bytes() == 0 {
        return fault("it has no elements".into());
    }
    if let Some(repeated) = view.fragment.repeated() {
        return fault(format!("elements [{}] lie in it twice, and could be written differently", repeated.elements));
    }
    Ok(())
}

/// Removes what writers left that are gone, as far as no complete version needs it.
pub(crate) fn collect(shared: &Shared, board: &mut LockedBoard<'_>) -> Result<()> {
    let mut members = Members::of_locked(shared, board)?;
    let standings = members.standings(shared)?;
    let ledger = members.ledger_of(shared, &standings)?;
    let newest = waiting::newest_complete(shared, &ledger)?;
    for (number, member) in &members.list {
        let standing = standings.get(number).cloned().unwrap_or_default();
        if standing.is_alive {
            continue;
        }
        // The first version for which it is not needed.
        let own = standing.newest.map_or(member.attached.from, |newest| newest.saturating_add(1));
        let end = member.left.map_or(own, |left| left.min(own));
        // One that never published is not needed at all, once it said that it leaves.
        let is_empty = member.left.is_some_and(|left| left <= member.attached.from)
            || standing.newest.is_none() && member.left.is_some();
        if is_empty || newest >= end {
            points::hit("collect.forget");
            // The region first: one that the board does not tell of any more is removed by nobody.
            shared.remove_region(*number, false)?;
            board.add(Entry::Forget { number: *number })?;
        }
    }
    board.compact()
}

/// A fragment that is written: memory in the layout that was asked for, of which versions are published.
///
/// When it is dropped it is detached, as by [`detach`](WriteFragment::detach).
#[derive(Debug)]
pub struct WriteFragment {
    shared: Arc<Shared>,
    number: u32,
    view: View,
    /// `None` once it was detached.
    region: Option<Region>,
    variable: VariableId,
    /// Memory of the next version, once it was asked for.
    loan: Option<LoanBytes>,
    is_loaned: bool,
    observer: Option<Observer>,
    /// The version before, if it was asked for.
    previous: Option<stillframe::View>,
    /// Its newest version, or the one at which it was attached.
    newest: Version,
    members: Members,
    /// Whether its region was told of those who write the object, as the members know them.
    follows_others: bool,
    /// What the bell was when it was last known who writes the object; none of the bell's values if that is not known.
    trusted: Arc<AtomicU64>,
    collected: Instant,
    generation: u32,
}

impl WriteFragment {
    /// The name of its object.
    pub fn object(&self) -> &str {
        &self.shared.name
    }

    /// What lies where in it.
    pub fn fragment(&self) -> &Arc<Fragment> {
        &self.view.fragment
    }

    /// Its number, which no other fragment of the object has or had.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its newest version, or the one at which it was attached.
    pub fn version(&self) -> u64 {
        self.newest
    }

    /// Its region, which observers find as any other.
    pub fn region(&mut self) -> Result<&mut Region> {
        let forked = || Error::Forked { name: self.shared.name.clone() };
        self.region.as_mut().ok_or_else(forked)
    }

    /// Fills it with the content of the version at which it was attached.
    fn load(&mut self, deadline: Deadline) -> Result<()> {
        let (shared, version) = (self.shared.clone(), self.newest);
        if version == shared.description.initial {
            if self.is_loaned {
                self.bytes_mut()?.fill(0);
            }
            return Ok(());
        }
        let fragment = self.view.fragment.clone();
        let wanted = shared.space.elements(&fragment).map_err(shared.scattered())?;
        let mut members = Members::default();
        loop {
            let numbers = waiting::wait(&shared, &mut members, version, &wanted, deadline)?;
            let sources = Sources::plan(&shared, &mut members, &fragment, &wanted, version, &numbers)?;
            if let Some(held) = sources.hold(version, deadline)? {
                return sources.copy(&shared, &held, self.bytes_mut()?, &Executor::new(0));
            }
            shared.check_interrupt()?;
        }
    }

    /// All its bytes, to be written. The address is the same at each call, but for a [loaned](WriteOptions::loaned) one.
    ///
    /// # Errors
    /// Of a loaned one environment, if there is no memory for the next version.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        let variable = self.variable;
        if !self.is_loaned {
            return Ok(self.region()?.bytes_mut(variable)?);
        }
        if self.loan.is_none() {
            self.loan = Some(self.region()?.loan_bytes(variable)?);
        }
        match &mut self.loan {
            Some(loan) => Ok(loan),
            None => unreachable!("the loan was just taken"),
        }
    }

    /// One of its variables as an array, for bindings: what lies where, and of which type. Without a name, the only one.
    ///
    /// # Errors
    /// [`Error::Variable`] if there is no such variable, or it is none whose numbers lie together.
    pub fn array(&self, name: Option<&str>) -> Result<Array> {
        layout::array(&self.shared.name, &self.view.fragment, name)
    }

    /// The elements of one of its variables, in their order in memory.
    ///
    /// # Errors
    /// [`Error::Variable`] if there is no such variable, or its elements are others or lie apart; as
    /// [`bytes_mut`](WriteFragment::bytes_mut).
    pub fn variable_mut<T: Element>(&mut self, name: &str) -> Result<&mut [T]> {
        let object = self.shared.clone();
        let range = layout::range::<T>(&object.name, &self.view.fragment, name)?;
        layout::cast_mut(&object.name, &mut self.bytes_mut()?[range])
    }

    /// Of a loaned fragment: the bytes of its newest version, to be read, and those of the next, to be written. Before the first
    /// publish there are none to be read.
    ///
    /// # Errors
    /// As [`bytes_mut`](WriteFragment::bytes_mut).
    pub fn previous_and_next(&mut self) -> Result<(&[u8], &mut [u8])> {
        self.look_at_previous()?;
        self.bytes_mut()?;
        let previous = self.previous.as_deref().unwrap_or(&[]);
        match &mut self.loan {
            Some(loan) => Ok((previous, loan)),
            None => Err(Error::NotWritable { name: self.shared.name.clone(), why: "its memory is not loaned".into() }),
        }
    }

    /// The bytes of its newest version, which stay as they are until the next publish; none before the first.
    ///
    /// # Errors
    /// Environment if they cannot be mapped.
    pub fn previous(&mut self) -> Result<&[u8]> {
        self.look_at_previous()?;
        Ok(self.previous.as_deref().unwrap_or(&[]))
    }

    /// Of a loaned fragment: the loan of the next version itself, which is then the caller's to submit before the publish. For
    /// bindings, whose users may keep pointers.
    ///
    /// # Errors
    /// As [`bytes_mut`](WriteFragment::bytes_mut); [`Error::NotWritable`] if its memory is not loaned.
    pub fn take_loan(&mut self) -> Result<LoanBytes> {
        if self.is_loaned {
            self.bytes_mut()?;
        }
        let refused = || Error::NotWritable { name: self.shared.name.clone(), why: "its memory is not loaned".into() };
        self.loan.take().ok_or_else(refused)
    }

    /// As [`previous`](WriteFragment::previous), with a hold of its own, which may last longer than the fragment.
    ///
    /// # Errors
    /// As [`previous`](WriteFragment::previous).
    pub fn previous_view(&mut self) -> Result<Option<stillframe::View>> {
        self.look_at_previous()?;
        Ok(self.previous.clone())
    }

    /// The address of the memory of a fragment that is not loaned, and its length in bytes.
    ///
    /// # Errors
    /// Misuse if it is loaned.
    pub fn address(&mut self) -> Result<(*mut u8, usize)> {
        let variable = self.variable;
        Ok(self.region()?.managed_bytes(variable)?)
    }

    /// Detaches it as [`detach`](WriteFragment::detach) does, but leaves the memory of a fragment that is not loaned: its
    /// address stays valid as long as the first of what is returned lives, whatever the second says. For bindings, whose users
    /// may keep pointers.
    ///
    /// # Errors
    /// As [`detach`](WriteFragment::detach); environment if there is no memory for what has to be copied. The memory then
    /// stays for ever, and the fragment is attached until the process ends.
    pub fn detach_keeping(mut self) -> (Option<KeptMemory>, Result<()>) {
        let variable = self.variable;
        if self.is_loaned {
            return (None, self.end());
        }
        match self.region().and_then(|region| Ok(region.remove_keeping(variable)?)) {
            Ok(kept) => (Some(kept), self.end()),
            Err(error) => {
                std::mem::forget(self);
                (None, Err(error))
            }
        }
    }

    fn look_at_previous(&mut self) -> Result<()> {
        let newest = self.region()?.newest();
        let (Some(newest), None) = (newest, &self.previous) else { return Ok(()) };
        let observer = match &self.observer {
            Some(observer) => observer,
            None => self.observer.insert(self.shared.site.observing()?.open(&self.shared.region(self.number))?),
        };
        let name = layout::declaration(&self.view.fragment, self.is_loaned).name;
        self.previous = Some(observer.version(newest)?.view(&name)?);
        Ok(())
    }

    /// Makes what it holds now the next version of these elements. Nobody writes its memory meanwhile.
    ///
    /// # Errors
    /// [`Error::NotIncreasing`]; [`Error::GreatestNumber`]; those of a region's publish. Then there is no new version.
    pub fn publish(&mut self, version: u64) -> Result<Published> {
        if version <= self.newest {
            return Err(Error::NotIncreasing { name: self.shared.name.clone(), version, newest: self.newest });
        }
        if version == Version::MAX {
            // Who leaves does so from the version after its newest on.
            return Err(Error::GreatestNumber { name: self.shared.name.clone() });
        }
        if self.members.refresh(&self.shared)? {
            self.follows_others = false;
        }
        if !self.follows_others {
            self.follow_others()?;
            self.follows_others = true;
        }
        self.trusted.store(self.members.settled().map_or(u64::MAX, u64::from), Ordering::SeqCst);
        self.previous = None;
        if let Some(loan) = self.loan.take() {
            loan.submit();
        }
        let published = self.region()?.publish(version).commit()?;
        if published.outcome == stillframe::Outcome::Published {
            self.newest = version;
        }
        if self.members.list.len() > 1 && self.collected.elapsed() > COLLECT {
            self.collected = Instant::now();
            // The version is there. What cannot be removed now stays until somebody tries again.
            let _ = self.collect();
        }
        Ok(published)
    }

    /// Retains from now on what those have still to publish who write the object now. As long as somebody's elements have no
    /// other writer yet, the newest complete version is one of his, and he counts as one who will publish no more.
    fn follow_others(&mut self) -> Result<()> {
        if self.members.list.keys().all(|number| *number == self.number) {
            return Ok(self.region()?.set_peers(&[])?);
        }
        let shared = self.shared.clone();
        let ledger = self.members.ledger(&shared)?;
        let newest = waiting::newest_complete(&shared, &ledger)?;
        let is_closed = ledger.roster(Version::MAX).closure().map_err(shared.scattered())? == Closure::Closed;
        let is_peer = |member: &Member| member.left.is_none() || !is_closed && member.is_in(newest);
        let others = self.members.list.iter().filter(|(number, member)| **number != self.number && is_peer(member));
        let peers: Vec<PeerRegion> = others
            .map(|(number, member)| PeerRegion { name: shared.region(*number), from: member.attached.from })
            .collect();
        let (bell, trusted) = (shared.bell.clone(), self.trusted.clone());
        let is_current = move || u64::from(bell.seen()) == trusted.load(Ordering::SeqCst);
        Ok(self.region()?.set_peers_while(&peers, is_current)?)
    }

    /// Removes what others left, if nobody else is just about to.
    fn collect(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        let standings = self.members.standings(&shared)?;
        if standings.values().all(|standing| standing.is_alive) {
            return Ok(());
        }
        // Nobody waits here: whoever has the board may be stopped.
        let Some(mut board) = shared.board.try_lock()? else { return Ok(()) };
        collect(&shared, &mut board)?;
        drop(board);
        shared.bell.ring();
        Ok(())
    }

    /// Detaches it: what it published stays as long as a complete version needs it, and above that it is waited for no more.
    ///
    /// # Errors
    /// Those of the object's files.
    pub fn detach(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if self.generation != stillframe::fork_generation() {
            // The parent has it.
            self.loan = None;
            self.region = None;
            return Ok(());
        }
        let Some(region) = self.region.take() else { return Ok(()) };
        (self.loan, self.previous, self.observer) = (None, None, None);
        let mut board = self.shared.board.lock()?;
        match region.newest() {
            Some(newest) => {
                board.add(Entry::Leave { number: self.number, from: newest.saturating_add(1) })?;
                points::hit("detach.told");
                region.close()?;
            }
            None => {
                region.unlink()?;
                points::hit("detach.told");
                board.add(Entry::Forget { number: self.number })?;
            }
        }
        if board.entries.len() > 2 {
            let _ = collect(&self.shared, &mut board);
        }
        drop(board);
        self.shared.bell.ring();
        Ok(())
    }
}

impl Drop for WriteFragment {
    fn drop(&mut self) {
        // There is nobody to tell. What cannot be said on the board now, others find out: it is as if its process had died.
        let _ = self.end();
    }
}
