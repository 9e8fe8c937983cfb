//! Fragments to write.

use crate::board::Entry;
use crate::collection::{self, Patience};
use crate::error::{Error, Result};
use crate::layout::{self, Array};
use crate::member::{Member, Members};
use crate::reading::Reading;
use crate::runtime;
use crate::shared::{COMPLETE, Shared};
use crate::verdict::{FragmentRefusal, Verdict};
use crate::waiting::{self, Deadline};
use drepl::executor::Executor;
use drepl::index_box::TooScattered;
use drepl::{Fragment, View};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stillframe::{Element, KeptMemory, LoanBytes, Observer, PeerRegion, Published, Region, VariableId};
use stillframe_kernel::points;
use stillframe_roster::ledger::Ledger;
use stillframe_roster::roster::Closure;
use stillframe_roster::writer::Version;

/// How often a writer looks whether others left or died and left something behind.
const COLLECT: Duration = Duration::from_secs(1);

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

/// The region of a fragment that is being attached.
pub(crate) struct Made {
    pub(crate) region: Region,
    pub(crate) variable: VariableId,
    pub(crate) is_loaned: bool,
}

impl WriteFragment {
    /// A fragment that is on the board, at a version; what is known of others is as of then.
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        number: u32,
        view: &View,
        made: Made,
        version: Version,
        members: Members,
    ) -> WriteFragment {
        WriteFragment {
            shared: shared.clone(),
            number,
            view: view.clone(),
            region: Some(made.region),
            variable: made.variable,
            loan: None,
            is_loaned: made.is_loaned,
            observer: None,
            previous: None,
            newest: version,
            members,
            follows_others: false,
            trusted: Arc::new(AtomicU64::new(u64::MAX)),
            collected: Instant::now(),
            generation: stillframe::fork_generation(),
        }
    }

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

    /// Where this node has a runtime: waits until that says that the fragment counts on all nodes.
    pub(crate) fn wait_accepted(&mut self, deadline: Deadline) -> Result<()> {
        let shared = self.shared.clone();
        loop {
            self.members.refresh(&shared)?;
            match self.members.list.get(&self.number) {
                Some(member) if member.verdict.is_some() => return self.check_accepted(),
                Some(_) => {}
                // The board went with its object, which nobody says anything of any more.
                None => shared.board.check_named()?,
            }
            if !runtime::is_running(&shared.site.directory)? {
                // Without one it publishes all the same, and a runtime that comes later tells the others.
                return Ok(());
            }
            let left = deadline.left();
            if left.is_zero() {
                let why =
                    format!("it has not said for {} ms whether the fragment counts", deadline.waited().as_millis());
                return Err(Error::NoRuntime { path: shared.site.directory.objects.path.join(runtime::SOCKET), why });
            }
            shared.check_interrupt()?;
            shared.bell.sleep(self.members.seen(), left.min(waiting::LOOK));
        }
    }

    /// Fills it with zeros.
    pub(crate) fn clear(&mut self) -> Result<()> {
        if self.is_loaned {
            // That of others is new.
            self.bytes_mut()?.fill(0);
        }
        Ok(())
    }

    /// Fills it with the content of the version at which it was attached.
    pub(crate) fn load(&mut self, text: &str, bindings: &BTreeMap<String, i64>, deadline: Deadline) -> Result<()> {
        let (shared, version) = (self.shared.clone(), self.newest);
        if version == shared.description.initial {
            return self.clear();
        }
        let mut reading = Reading::new(&shared, &self.view.fragment, text, bindings.clone())?;
        let held = reading.hold(&shared, version, deadline)?;
        held.copy(self.bytes_mut()?, &Executor::new(0))
    }

    /// All its bytes, to be written. The address is the same at each call, but for a [loaned](crate::WriteOptions::loaned) one.
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
        self.publish_of(version, None)
    }

    /// The same of a version that was published before, as one of a checkpoint, at a time in nanoseconds since 1970.
    pub(crate) fn publish_of(&mut self, version: u64, published_ns: Option<u64>) -> Result<Published> {
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
        // What the board says may have been read at any of these steps, or at a publish that was refused before.
        self.check_accepted()?;
        self.trusted.store(self.members.settled().map_or(u64::MAX, u64::from), Ordering::SeqCst);
        self.previous = None;
        if let Some(loan) = self.loan.take() {
            loan.submit();
        }
        let mut publication = self.region()?.publish(version);
        if let Some(published_ns) = published_ns {
            publication = publication.published_ns(published_ns);
        }
        let published = publication.commit()?;
        if published.outcome == stillframe::Outcome::Published {
            self.newest = version;
            self.shared.give_hint();
        }
        if self.members.list.len() > 1 && self.collected.elapsed() > COLLECT {
            self.collected = Instant::now();
            // The version is there. What cannot be removed now stays until somebody tries again.
            let _ = self.collect();
        }
        Ok(published)
    }

    fn check_accepted(&self) -> Result<()> {
        match self.members.list.get(&self.number).and_then(|member| member.verdict.as_ref()) {
            Some(Verdict::Refused(FragmentRefusal { why, next })) => {
                Err(Error::NotAccepted { name: self.shared.name.clone(), why: why.clone(), next: *next })
            }
            _ => Ok(()),
        }
    }

    /// Retains from now on what those have still to publish who write the object now. Versions that lack a writer still are complete
    /// never as things are, whoever publishes them: so the newest complete one stays, in which also those have a part who left.
    fn follow_others(&mut self) -> Result<()> {
        let follows = self.members.follows;
        if follows.is_none() && self.members.list.keys().all(|number| *number == self.number) {
            return Ok(self.region()?.set_peers(&[])?);
        }
        let shared = self.shared.clone();
        let standings = self.members.look(&shared)?;
        let ledger = self.members.ledger_of(&shared, &standings)?;
        let newest = waiting::newest_reached(&shared, &self.members, &ledger)?;
        let open = open_epochs(&ledger, newest).map_err(shared.scattered())?;
        let is_peer = |member: &Member| member.left.is_none() || !open.is_empty() && member.is_of(newest);
        let others = self.members.list.iter().filter(|(number, member)| **number != self.number && is_peer(member));
        // Of each region what all fragments need that it stands for.
        let mut peers: BTreeMap<u32, PeerRegion> = BTreeMap::new();
        let own = others
            .map(|(_, member)| (member.region_number(), member.from, member.left.filter(|_| !member.is_remote())));
        // What is complete stays until the home says that a newer one is.
        let home = follows.map(|base| (COMPLETE, base.saturating_add(1), None));
        for (number, from, until) in own.chain(home) {
            let peer = peers.entry(number).or_insert_with(|| PeerRegion { name: shared.region(number), from, until });
            peer.from = peer.from.min(from);
        }
        let peers: Vec<PeerRegion> = peers.into_values().collect();
        let (bell, trusted) = (shared.bell.clone(), self.trusted.clone());
        let is_current = move || u64::from(bell.seen()) == trusted.load(Ordering::SeqCst);
        Ok(self.region()?.set_peers_while(&peers, &open, is_current)?)
    }

    /// Removes what one of the others left, if nobody else is just about to. It is one at a time: much memory goes slowly, and this holds up a
    /// publish.
    fn collect(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        let standings = self.members.standings(&shared)?;
        if standings.values().all(|standing| standing.is_alive) {
            return Ok(());
        }
        // Nobody waits here: whoever has the board may be stopped.
        let Some(mut board) = shared.board.try_lock()? else { return Ok(()) };
        let unneeded = collection::find_unneeded(&shared, &mut board)?;
        drop(board);
        collection::remove(&shared, &unneeded[..unneeded.len().min(1)], Patience::Passes)
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
        let mut board = match self.shared.board.lock() {
            Ok(board) => board,
            Err(error) => {
                // The runtime finds out by the region that it is gone.
                drop(region);
                self.shared.give_hint();
                return Err(error);
            }
        };
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
        let unneeded = match board.entries.len() > 2 {
            true => collection::find_unneeded(&self.shared, &mut board).unwrap_or_default(),
            false => Vec::new(),
        };
        drop(board);
        self.shared.bell.ring();
        self.shared.give_hint();
        let _ = collection::remove(&self.shared, &unneeded, Patience::Passes);
        Ok(())
    }
}

/// The versions above the newest complete one whose rosters are not closed, and that could take its place. Before there is any complete
/// one, what the first writers have in common stays for those who are still to come.
fn open_epochs(ledger: &Ledger, newest: Version) -> Result<Vec<Range<Version>>, TooScattered> {
    let Some(first) = newest.checked_add(1) else { return Ok(Vec::new()) };
    let mut begins = ledger.epochs().split_off(&first);
    begins.insert(first);
    let mut open = Vec::new();
    let ends = begins.iter().skip(1).copied().chain([Version::MAX]);
    for (begin, end) in begins.iter().copied().zip(ends) {
        let is_begin = begin == first && newest == ledger.initial();
        if !is_begin && ledger.roster(begin).closure()? != Closure::Closed {
            open.push(begin..end);
        }
    }
    Ok(open)
}

impl Drop for WriteFragment {
    fn drop(&mut self) {
        // There is nobody to tell. What cannot be said on the board now, others find out: it is as if its process had died.
        let _ = self.end();
    }
}
