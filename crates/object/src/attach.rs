//! Attaching fragments to write.

use crate::board::{Attached, Entry};
use crate::collection::{self, Patience};
use crate::error::{Error, Overlap, Result, Writer};
use crate::home;
use crate::layout;
use crate::member::{Member, Members, Standing};
use crate::runtime;
use crate::shared::{self, HERE, Shared};
use crate::waiting::{self, Deadline, HEARD, LOOK};
use crate::write::{Made, WriteFragment};
use drepl::{Fragment, View};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stillframe::{Observer, Region, TrackerKind, VariableId};
use stillframe_kernel::points;
use stillframe_roster::readiness::Cause;
use stillframe_roster::refusal::Refusal;
use stillframe_roster::writer::{Elements, Version, Who};

/// How long a fragment waits for its elements to become free, and for the version at which it is attached, unless told.
const WAIT: Duration = Duration::from_secs(10);

/// That a fragment of another node was detached, or a version is complete, may not be known here yet for so long.
const NEWS: Duration = Duration::from_millis(500);

/// Smaller fragments are copied by the thread that publishes: a process may have thousands of them.
const THREADS_BYTES: u64 = 4 << 20;

/// Fragments up to this size are compared with their newest version: that takes less time than to ask the kernel what was written.
const COMPARED_BYTES: u64 = 16 << 10;

/// Options for attaching a fragment to write; see [`Object::write`](crate::Object::write).
#[derive(Debug, Clone)]
pub struct WriteOptions {
    shared: Arc<Shared>,
    text: String,
    bindings: BTreeMap<String, i64>,
    version: Option<Version>,
    wait: Duration,
    rank: Option<u32>,
    writers: Option<u32>,
    keep: usize,
    bound_bytes: Option<u64>,
    is_loaned: bool,
    begins_with_zeros: bool,
    is_first: bool,
}

impl WriteOptions {
    pub(crate) fn new(shared: &Arc<Shared>, text: &str) -> WriteOptions {
        WriteOptions {
            shared: shared.clone(),
            text: text.into(),
            bindings: BTreeMap::new(),
            version: None,
            wait: WAIT,
            rank: None,
            writers: None,
            keep: 1,
            bound_bytes: None,
            is_loaned: false,
            begins_with_zeros: false,
            is_first: false,
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

    /// How long to wait for a living writer to detach elements that this one wants, for the version of
    /// [`version`](WriteOptions::version), and without that for the newest version of who detached the elements, if others have still to
    /// publish it; 10 seconds by default. Whether the fragment counts on all nodes, and the content of the newest
    /// complete version, are waited for in any case, 30 seconds at least.
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

    /// Begins with zeros, whatever content the version has that it is attached at. So a program goes on whose content cannot be had
    /// any more, as that of a node that died: it puts there what it computed or kept itself.
    pub fn zeros(mut self) -> Self {
        self.begins_with_zeros = true;
        self
    }

    /// Attaches it only where nobody has written the object; else that is [`Error::Survives`].
    pub(crate) fn first(mut self) -> Self {
        self.is_first = true;
        self
    }

    /// Attaches the fragment: from then on it is waited for in all versions above the one that it begins with.
    ///
    /// # Errors
    /// [`Error::Overlap`] with both fragments, if another one that does not go has some of the elements; [`Error::Text`];
    /// [`Error::NotWritable`]; [`Error::Refused`] if a newer version is complete already; those of a region that is made.
    pub fn attach(self) -> Result<WriteFragment> {
        let shared = self.shared.writing()?;
        let view = shared.view(&self.text, &shared::bindings(&self.bindings))?;
        check(&shared, &view)?;
        let elements = shared.space.elements(&view.fragment).map_err(shared.scattered())?.into();
        let deadline = Deadline::after(self.wait);
        // What this node's runtime says to be complete, once it has refused an older one: a node that joins learns it by the answer.
        let mut announced = shared.description.initial;
        // The first number that is nobody's yet, once the home has refused one.
        let mut first = Version::MIN;
        loop {
            match self.try_attach(&shared, &view, &elements, &mut announced, first, deadline)? {
                // That the others know of it has to be sure before the program goes on, and others count on it.
                Attempt::Attached(mut fragment, is_heir) => match fragment.wait_accepted(deadline.at_least(HEARD)) {
                    Ok(()) => match self.fill(&mut fragment, deadline) {
                        Ok(()) => return Ok(*fragment),
                        // Others publish on: what was the newest complete version may be one of those before by now.
                        Err(error) if error.is_loss() => match self.find_newer(&shared, fragment.version())? {
                            Some(newer) => {
                                announced = newer;
                                fragment.detach()?;
                            }
                            None if self.is_to_be_told(&shared, &error, deadline)? => fragment.detach()?,
                            None => return Err(error.of_content()),
                        },
                        Err(error) => return Err(error),
                    },
                    Err(error @ Error::NotAccepted { next, .. }) => match self
                        .find_newer(&shared, fragment.version())?
                    {
                        Some(newer) => {
                            announced = newer;
                            fragment.detach()?;
                        }
                        // A version between that others have begun may never be complete. Zeros are the content of none.
                        None if self.begins_with_zeros && self.version.is_none() && next > Some(first) => {
                            first = next.unwrap_or(first);
                            fragment.detach()?;
                        }
                        // What was to become complete with what the one before published may have been given up.
                        None if is_heir && self.version.is_none() && !deadline.left().is_zero() => fragment.detach()?,
                        None => return Err(error),
                    },
                    Err(error) => return Err(error),
                },
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
        }
    }

    /// Puts the content of the version into a fragment with which it begins.
    fn fill(&self, fragment: &mut WriteFragment, deadline: Deadline) -> Result<()> {
        // One that is complete has only to be brought.
        let deadline = if self.version.is_none() { deadline.at_least(HEARD) } else { deadline };
        match self.begins_with_zeros {
            true => fragment.clear(),
            false => fragment.load(&self.text, &self.bindings, deadline),
        }
    }

    /// Whether this node's runtime has still to tell whose elements a complete version has. What is complete has been published: where the
    /// one who died first is taken for theirs, another one's count.
    fn is_to_be_told(&self, shared: &Shared, error: &Error, deadline: Deadline) -> Result<bool> {
        let Error::Lost { losses, .. } = error else { return Ok(false) };
        let have_died = losses.iter().all(|part| part.cause == Some(Cause::Died));
        let may_wait = self.version.is_none() && have_died && !deadline.left().is_zero();
        Ok(may_wait && runtime::is_expected(&shared.site.directory)?)
    }

    /// The newest complete version, where a fragment was attached at an older one that nobody had asked for.
    fn find_newer(&self, shared: &Shared, version: Version) -> Result<Option<Version>> {
        let refused = Deadline::after(NEWS);
        while self.version.is_none() && !refused.left().is_zero() {
            let seen = shared.bell.seen();
            let announced = shared.newest_announced()?;
            if announced > version {
                return Ok(Some(announced));
            }
            shared.check_interrupt()?;
            shared.bell.sleep(seen, LOOK);
        }
        Ok(None)
    }

    fn try_attach(
        &self,
        shared: &Arc<Shared>,
        view: &View,
        elements: &Elements,
        announced: &mut Version,
        first: Version,
        deadline: Deadline,
    ) -> Result<Attempt> {
        let seen = shared.bell.seen();
        let mut board = shared.board.lock()?;
        let mut members = Members::of_locked(shared, &board)?;
        // This attach rings once itself.
        let rings = 1 + u32::from(home::follow_expected(shared, &mut board, &mut members)?);
        let (standings, newest) = waiting::survey(shared, &mut members)?;
        if self.is_first {
            check_unwritten(shared, &members, newest)?;
        }
        let version = self.version.unwrap_or(newest.max(*announced));
        let from =
            version.checked_add(1).ok_or_else(|| self.refused(Refusal::Late { from: version, settled: newest }))?;
        if from <= newest {
            return Err(self.refused(Refusal::Late { from, settled: newest }));
        }
        let from = from.max(first);
        let number = shared.free_number(board.next_number()?)?;
        let mut leaving = Vec::new();
        for (other, member) in &mut members.list {
            if !member.is_of(from) || !member.has_any(elements) {
                continue;
            }
            let standing = standings.get(other).cloned().unwrap_or_default();
            // One of another node that has left is told of with the version from which on it did.
            if !standing.is_alive || member.is_remote() && member.left.is_some() {
                leaving.push(*other);
            } else if deadline.left().is_zero()
                || stays(member, &standing, from) && (!member.is_remote() || deadline.waited() > NEWS)
            {
                return Err(self.overlap(shared, elements, number, from, member, deadline.waited())?);
            } else {
                let observer = match member.is_remote() {
                    true => None,
                    false => member.observer(shared, &shared.site.observing()?)?.cloned(),
                };
                return Ok(Attempt::Taken(observer, seen));
            }
        }
        // Who leaves between two versions leaves the newest for who comes after him, and the others may have still to publish it. Of several
        // nodes a home says what becomes of it.
        if self.version.is_none()
            && members.follows.is_none()
            && !deadline.left().is_zero()
            && waiting::may_follow(shared, &members, &standings, &leaving, version)?
        {
            return Ok(Attempt::Taken(None, seen));
        }
        // Of several nodes a home says whether what those published who are gone is complete with a newer version than is known here.
        let is_shared = !leaving.is_empty() && members.follows.is_some();
        if is_shared && self.version.is_none() {
            *announced = shared.newest_announced()?.max(*announced);
            if *announced > version {
                return Ok(Attempt::Late);
            }
        }
        let (region, variable) = self.make_region(shared, number, &view.fragment)?;
        points::hit("attach.made");
        if !leaving.is_empty() {
            // Others may count on versions of those who are gone, and let older ones go for their sake. From the bell on they do
            // that no more, until they know of this fragment; and what they have published until then shows now.
            shared.bell.ring();
            let mut is_late = waiting::survey(shared, &mut members)?.1 > newest;
            if !is_late {
                // Others may wait for the board for less long than it takes until this one counts. The version stays there: nobody lets it
                // go any more. What became complete before the claim shows now.
                let claimed = board.claim(version).and_then(|()| waiting::survey(shared, &mut members));
                is_late = match claimed {
                    Ok((_, complete)) => complete > newest,
                    Err(error) => {
                        region.unlink()?;
                        return Err(error);
                    }
                };
            }
            if is_late {
                region.unlink()?;
                return Ok(Attempt::Late);
            }
        }
        let is_heir = !leaving.is_empty();
        let takes = if is_shared { std::mem::take(&mut leaving) } else { Vec::new() };
        let attached = Attached {
            number,
            process: std::process::id(),
            rank: self.rank,
            from,
            text: self.text.clone(),
            bindings: self.bindings.clone(),
            writers: self.writers,
            remote: None,
            takes,
        };
        // Those who are gone leave with the entry of the one who has their place, or not at all.
        let leaves = leaving.into_iter().map(|number| Entry::Leave { number, from });
        board.add_all(leaves.chain([Entry::Attach(attached.clone())]).collect())?;
        let (members, unneeded) = if members.list.is_empty() {
            // So the first publish finds nothing new, unless somebody else attaches until then.
            members.note(shared, vec![Entry::Attach(attached)])?;
            members.is_at(board.position(), seen.wrapping_add(rings));
            (members, Vec::new())
        } else {
            let unneeded = collection::find_unneeded(shared, &mut board).unwrap_or_default();
            let _ = board.compact();
            (Members::default(), unneeded)
        };
        drop(board);
        shared.bell.ring();
        shared.give_hint();
        points::hit("attach.done");
        // What cannot be removed now stays until somebody else tries; the fragment is attached.
        let _ = collection::remove(shared, &unneeded, Patience::Passes);
        let made = Made { region, variable, is_loaned: self.is_loaned };
        // Who begins with zeros goes on from any version.
        let version = if first > version { from - 1 } else { version };
        let fragment = WriteFragment::begin(shared, number, view, made, version, members);
        Ok(Attempt::Attached(Box::new(fragment), is_heir))
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
        Error::Refused { name: self.shared.name.clone(), refusal }
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
        let own = stillframe_roster::writer::Writer { node: HERE, process, serial: number };
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
    /// And whether it takes the place of one that is gone.
    Attached(Box<WriteFragment>, bool),
    /// A living writer has some of the elements, and may still detach them; or has still to publish what the one who detached them did.
    Taken(Option<Observer>, u32),
    /// A newer version became complete meanwhile.
    Late,
}

/// Whether a living writer cannot make room any more for one that writes its elements from a version on.
fn stays(member: &Member, standing: &Standing, from: Version) -> bool {
    member.attached.from >= from || standing.newest.is_some_and(|newest| newest >= from)
}

/// Refuses an object that anybody has written, or is to write.
fn check_unwritten(shared: &Shared, members: &Members, newest: Version) -> Result<()> {
    let newest = newest.max(shared.newest_announced()?);
    match newest > shared.description.initial || members.list.values().any(|member| !member.is_refused()) {
        true => Err(Error::Survives { name: shared.name.clone(), newest }),
        false => Ok(()),
    }
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
