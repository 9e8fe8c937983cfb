//! Fragments to read of which other nodes have elements: the runtime of this node fills a region with them.

use crate::error::{Error, Result};
use crate::relief::Relief;
use crate::runtime::{Connection, Reply, Request};
use crate::shared::Shared;
use crate::source::Sources;
use crate::waiting::{Deadline, HEARD, LOOK};
use drepl::Fragment;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stillframe::Snapshot;
use stillframe_roster::writer::Version;

/// How long to wait before a runtime that is gone is looked for again.
const AGAIN: Duration = Duration::from_millis(20);

/// How often it is looked whether the object is there.
const THERE: Duration = Duration::from_millis(100);

/// How long this node's runtime may take to answer, however short the time is for which elements are waited for: it answers as soon as it
/// can, and nobody knows before whom a version waits for.
const ANSWERED: Duration = Duration::from_secs(10);

/// What the runtime fills for one fragment.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    connection: Connection,
    fragment: Arc<Fragment>,
    sources: Sources,
    asked: Asked,
    /// Whom the version waits for, as the runtime said last.
    waiting: Option<String>,
    /// Why the runtime cannot do what was asked.
    refused: Option<Refusal>,
}

/// What was asked for last.
#[derive(Debug, Default)]
struct Asked {
    /// The number of the request; 0 before the first one.
    number: u64,
    version: Version,
    /// Whether it was complete by then.
    is_complete: bool,
    /// How far above the one before.
    step: u64,
    /// What the runtime fetches then, once it has answered.
    next: Option<Version>,
    /// The number of changes of the board at that time: as long as there are no more, nobody has written anew what is there.
    changes: u64,
    /// Whether the runtime has answered.
    is_answered: bool,
    /// Whether it was fetched before.
    is_fetched: bool,
}

/// What became of the request to fill a fragment.
enum Opened {
    Filled(Box<Elsewhere>),
    Refused(Refusal),
}

/// What stands between a version and who wants it.
enum Pending {
    /// It may come, and is to be there by then.
    Until(Deadline),
    Refused(Refusal),
}

/// A fragment that the runtime does not fill.
#[derive(Debug)]
struct Refusal {
    error: Error,
    /// Whether it would be refused again, however long somebody waits.
    is_final: bool,
    /// Whether memory was given back since that the read had.
    had_memory: bool,
}

impl Refusal {
    fn new(shared: &Shared, why: &str, is_final: bool) -> Refusal {
        let why = format!("the runtime of this node cannot fetch what others have of the fragment: {why}");
        let error = Error::Plan { name: shared.name.clone(), why, is_timeout: !is_final };
        Refusal { error, is_final, had_memory: false }
    }

    /// For want of memory. What others take they may give back.
    fn no_memory(error: Error, had_memory: bool) -> Refusal {
        let is_final = !error.is_timeout();
        Refusal { error, is_final, had_memory }
    }
}

impl Asked {
    /// Whether what the region has of the version counts.
    fn counts(&self) -> bool {
        self.is_answered || self.is_fetched
    }
}

impl Elsewhere {
    fn open(shared: &Shared, wanted: &Wanted<'_>, limits: &Limits) -> Result<Opened> {
        let Wanted { fragment, text, bindings, .. } = *wanted;
        let mut connection = Connection::open_within(&shared.site.directory, limits.answered.left())?;
        let (name, id) = (shared.name.clone(), shared.description.id);
        let request = Request::Read { name: name.clone(), id, text: text.into(), bindings: bindings.clone() };
        let check = || shared.check_interrupt();
        let region = match connection.exchange_within(&request, limits.answered.left(), &check)? {
            Reply::Reading(region) => region,
            Reply::Failed(why) => return Ok(Opened::Refused(Refusal::new(shared, &why, false))),
            Reply::Refused(why) => return Ok(Opened::Refused(Refusal::new(shared, &why, true))),
            Reply::NoMemory { bytes, taken_bytes, bound_bytes } => {
                let error = Error::NoMemory { name, bytes, taken_bytes, bound_bytes };
                return Ok(Opened::Refused(Refusal::no_memory(error, false)));
            }
            other => return Err(connection.failed(format!("it answered {other:?}"))),
        };
        let (fragment, sources) = (fragment.clone(), sources_of(shared, fragment, &region)?);
        let asked = Asked::default();
        let (waiting, refused) = (None, None);
        Ok(Opened::Filled(Box::new(Elsewhere { connection, fragment, sources, asked, waiting, refused })))
    }

    /// Ends it, and waits until the runtime has given back the memory that it took for it.
    pub(crate) fn close(self, shared: &Shared) -> Result<()> {
        self.connection.close(ANSWERED, &|| shared.check_interrupt())
    }

    /// Where the elements come from.
    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Begins to look for a version: asks for it, unless it is there already, which is the outcome.
    fn begin(&mut self, shared: &Shared, wanted: &Wanted<'_>) -> Result<Option<Vec<Snapshot>>> {
        // What was answered since, so that nothing of it stays.
        while let Some(reply) = self.connection.receive_now()? {
            // Of what is asked for anew it says nothing.
            if !matches!(reply, Reply::Lost { .. }) {
                self.hear(shared, reply)?;
            }
        }
        let is_same = self.asked.is_answered && self.asked.changes == wanted.changes;
        if is_same
            && (self.asked.version, self.asked.is_complete) == (wanted.version, wanted.is_complete)
            && let Some(held) = self.hold(Deadline::after(Duration::ZERO))?
        {
            return Ok(Some(held));
        }
        let is_fetched = is_same && self.asked.next == Some(wanted.version);
        let Wanted { version, is_complete, changes, prefetches, .. } = *wanted;
        // As far from this one as this one is from the one before.
        let step = match version.checked_sub(self.asked.version) {
            Some(0) => self.asked.step.max(1),
            Some(step) if self.asked.number > 0 => step,
            _ => 1,
        };
        let next = if prefetches { version.checked_add(step) } else { None };
        let number = self.asked.number + 1;
        self.connection.send(&Request::Version { version, next, number })?;
        self.asked = Asked { number, version, is_complete, step, next: None, changes, is_answered: false, is_fetched };
        (self.waiting, self.refused) = (None, None);
        Ok(None)
    }

    /// Holds the version that was asked for, if the region has it by then.
    fn hold(&self, deadline: Deadline) -> Result<Option<Vec<Snapshot>>> {
        let Some(held) = self.sources.hold(self.asked.version, deadline)? else { return Ok(None) };
        // A runtime that was started in the place of this one may fill another fragment under the same name.
        match self.connection.is_open()? {
            true => Ok(Some(held)),
            false => Err(self.connection.failed("it has ended")),
        }
    }

    /// Looks once whether the version is there that was asked for, and sleeps a little if it is not.
    fn look(&mut self, shared: &Shared, deadline: Deadline) -> Result<Option<Vec<Snapshot>>> {
        let begin = Instant::now();
        if self.asked.counts()
            && let Some(held) = self.hold(deadline)?
        {
            return Ok(Some(held));
        }
        // Where a newer version is there it has not slept.
        let longest = LOOK.min(deadline.left()).saturating_sub(begin.elapsed());
        let mut reply = match longest.is_zero() {
            true => self.connection.receive_now()?,
            false => self.connection.receive(longest)?,
        };
        while let Some(came) = reply {
            self.hear(shared, came)?;
            if self.refused.is_some() {
                break;
            }
            reply = self.connection.receive_now()?;
        }
        Ok(None)
    }

    /// Goes on with a version, from asking for it to holding it; or says what it waits for.
    fn advance(
        &mut self,
        shared: &Shared,
        wanted: &Wanted<'_>,
        begins: bool,
        limits: &Limits,
    ) -> Result<Result<Vec<Snapshot>, Pending>> {
        if begins && let Some(held) = self.begin(shared, wanted)? {
            return Ok(Ok(held));
        }
        // Once it has answered, what is there counts.
        let limit = limits.of(&self.asked);
        let held = self.look(shared, limit)?;
        Ok(held.ok_or_else(|| self.refused.take().map_or(Pending::Until(limit), Pending::Refused)))
    }

    /// Takes a reply. What is said of an earlier request may hold no more.
    fn hear(&mut self, shared: &Shared, reply: Reply) -> Result<()> {
        let asked = &mut self.asked;
        match reply {
            Reply::Reading(region) => self.sources = sources_of(shared, &self.fragment, &region)?,
            Reply::Wanted { number, next } if number == asked.number => (asked.is_answered, asked.next) = (true, next),
            Reply::Lost { version, number, why } if number == asked.number => {
                return Err(Error::LostElsewhere { name: shared.name.clone(), version, why });
            }
            Reply::Waiting { number, why, .. } if number == asked.number => self.waiting = Some(why),
            Reply::Failed(why) => self.refused = Some(Refusal::new(shared, &why, false)),
            Reply::Refused(why) => self.refused = Some(Refusal::new(shared, &why, true)),
            Reply::NoMemory { bytes, taken_bytes, bound_bytes } => {
                return Err(Error::NoMemory { name: shared.name.clone(), bytes, taken_bytes, bound_bytes });
            }
            _ => {}
        }
        Ok(())
    }

    /// Whom the version waits for, as far as it is known.
    fn waits_for(&self, whom: &dyn Fn() -> Result<String>) -> Result<String> {
        match &self.waiting {
            Some(waiting) => Ok(waiting.clone()),
            None if self.asked.is_answered => whom(),
            None => Ok("the runtime of this node has not answered yet: it may be stopped ('still ls')".into()),
        }
    }
}

fn sources_of(shared: &Shared, fragment: &Arc<Fragment>, region: &str) -> Result<Sources> {
    let observer = shared.site.observing()?.open(region)?;
    Sources::whole(shared, fragment, observer)
}

/// What is read of a fragment.
pub(crate) struct Wanted<'a> {
    pub(crate) fragment: &'a Arc<Fragment>,
    pub(crate) text: &'a str,
    pub(crate) bindings: &'a BTreeMap<String, i64>,
    pub(crate) version: Version,
    /// Whether it is complete, as this node knows.
    pub(crate) is_complete: bool,
    /// The number of changes of the board.
    pub(crate) changes: u64,
    /// Whether the next version is fetched meanwhile.
    pub(crate) prefetches: bool,
    /// What the program can spare where the runtime has no memory.
    pub(crate) relief: &'a dyn Relief,
}

/// For how long what is waited for.
struct Limits {
    /// As the caller says.
    own: Deadline,
    /// For the answer of the runtime.
    answered: Deadline,
    /// For the elements.
    brought: Deadline,
}

impl Limits {
    /// Who waits for nobody has what is complete all the same: that has only to be brought.
    fn new(own: Deadline, is_complete: bool) -> Limits {
        let brought = if is_complete && own.is_zero() { own.at_least(HEARD) } else { own };
        Limits { own, answered: brought.at_least(ANSWERED), brought }
    }

    fn of(&self, asked: &Asked) -> Deadline {
        if asked.counts() { self.brought } else { self.answered }
    }
}

/// Memory that the runtime does not have for a read.
#[derive(Default)]
struct Shortage {
    /// Whether the runtime refused last.
    is_now: bool,
    /// Whether it ever did.
    was_once: bool,
}

impl Shortage {
    /// Waits until the runtime is to be asked once more.
    ///
    /// # Errors
    /// What it refused with, if it is not; those of the relief.
    fn wait(&mut self, refusal: Refusal, relief: &dyn Relief, limits: &Limits) -> Result<()> {
        let Refusal { error, is_final, had_memory } = refusal;
        if is_final {
            return Err(error);
        }
        let mut limit = limits.own;
        if matches!(error, Error::NoMemory { .. }) {
            self.is_now = true;
            let is_first = !std::mem::replace(&mut self.was_once, true);
            if relief.give_back(had_memory)? || had_memory {
                if is_first {
                    // It is there.
                    return Ok(());
                }
                limit = limits.answered;
            }
        }
        if limit.left() <= AGAIN {
            return Err(error);
        }
        std::thread::sleep(AGAIN);
        Ok(())
    }

    /// The runtime is about to be asked for the fragment.
    fn ask_again(&mut self, relief: &dyn Relief) -> Result<()> {
        if std::mem::take(&mut self.is_now) { relief.ask_again() } else { Ok(()) }
    }
}

/// Holds a version of a whole fragment, which the runtime puts together from where its elements are. `whom` says who has them as far as
/// this node knows: its runtime may hear from nobody.
pub(crate) fn hold(
    kept: &mut Option<Elsewhere>,
    shared: &Shared,
    wanted: &Wanted<'_>,
    deadline: Deadline,
    whom: &dyn Fn() -> Result<String>,
) -> Result<Vec<Snapshot>> {
    let limits = Limits::new(deadline, wanted.is_complete);
    let mut begin = Instant::now();
    let (mut was_kept, mut has_begun, mut shortage) = (kept.is_some(), false, Shortage::default());
    loop {
        shared.check_interrupt()?;
        if begin.elapsed() > THERE {
            // Nobody puts a version together any more of an object that was removed.
            shared.board.check_named()?;
            begin = Instant::now();
        }
        let looked = match kept.take() {
            Some(open) => Ok(open),
            None => {
                has_begun = false;
                shortage.ask_again(wanted.relief)?;
                match Elsewhere::open(shared, wanted, &limits) {
                    Ok(Opened::Filled(open)) => Ok(*open),
                    Ok(Opened::Refused(refusal)) => {
                        shortage.wait(refusal, wanted.relief, &limits)?;
                        continue;
                    }
                    Err(error) => Err(error),
                }
            }
        };
        let looked = looked.and_then(|mut open| {
            let begins = !std::mem::replace(&mut has_begun, true);
            match open.advance(shared, wanted, begins, &limits) {
                // What it has already is not to be what is missing.
                Err(error @ Error::NoMemory { .. }) => open.close(shared).and(Err(error)),
                advanced => Ok((advanced?, open)),
            }
        });
        match looked {
            Ok((Ok(held), open)) => {
                *kept = Some(open);
                return Ok(held);
            }
            Ok((Err(Pending::Refused(refusal)), open)) => {
                // What it has is not to be what is in the way. A runtime that has ended has given that back.
                if let Err(error @ Error::Interrupted { .. }) = open.close(shared) {
                    return Err(error);
                }
                shortage.wait(refusal, wanted.relief, &limits)?;
            }
            Ok((Err(Pending::Until(limit)), open)) => {
                let open = kept.insert(open);
                if limit.left().is_zero() {
                    let (name, version, waited) = (shared.name.clone(), wanted.version, deadline.waited());
                    return Err(Error::TimeoutElsewhere { name, version, waited, why: open.waits_for(whom)? });
                }
            }
            Err(error @ Error::NoMemory { .. }) => {
                shortage.wait(Refusal::no_memory(error, true), wanted.relief, &limits)?;
            }
            // It may be started again, and what it filled goes with it.
            Err(Error::NoRuntime { .. } | Error::Region(stillframe::Error::NoRegion { .. }))
                if was_kept || deadline.left() > AGAIN =>
            {
                was_kept = false;
                std::thread::sleep(AGAIN.min(deadline.left()));
            }
            Err(error) => return Err(error),
        }
    }
}
