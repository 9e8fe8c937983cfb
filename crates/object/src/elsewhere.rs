//! Fragments to read of which other nodes have elements: the runtime of this node fills a region with them.

use crate::error::{Error, Result};
use crate::runtime::{Connection, Reply, Request};
use crate::shared::Shared;
use crate::source::Sources;
use crate::waiting::{Deadline, LOOK};
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

/// What the runtime fills for one fragment.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    connection: Connection,
    fragment: Arc<Fragment>,
    sources: Sources,
    asked: Option<Version>,
    /// Whom the version waits for, as the runtime said last.
    waiting: Option<String>,
}

impl Elsewhere {
    fn open(
        shared: &Shared,
        fragment: &Arc<Fragment>,
        text: &str,
        bindings: &BTreeMap<String, i64>,
        deadline: Deadline,
    ) -> Result<Elsewhere> {
        let mut connection = Connection::open_within(&shared.site.directory, deadline.left())?;
        let (name, id) = (shared.name.clone(), shared.description.id);
        let request = Request::Read { name, id, text: text.into(), bindings: bindings.clone() };
        let check = || shared.check_interrupt();
        let region = match connection.exchange_within(&request, deadline.left(), &check)? {
            Reply::Reading(region) => region,
            Reply::Failed(why) => return Err(connection.failed(why)),
            other => return Err(connection.failed(format!("it answered {other:?}"))),
        };
        let (fragment, sources) = (fragment.clone(), sources_of(shared, fragment, &region)?);
        Ok(Elsewhere { connection, fragment, sources, asked: None, waiting: None })
    }

    /// Looks once whether a version is there, and sleeps a little if it is not.
    fn look(
        &mut self,
        shared: &Shared,
        version: Version,
        prefetches: bool,
        deadline: Deadline,
    ) -> Result<Option<Vec<Snapshot>>> {
        if self.asked != Some(version) {
            // As far from this one as this one is from the one before.
            let step = self.asked.and_then(|before| version.checked_sub(before)).unwrap_or(1);
            let next = if prefetches { version.checked_add(step) } else { None };
            self.connection.send(&Request::Version { version, next })?;
            (self.asked, self.waiting) = (Some(version), None);
        }
        let begin = Instant::now();
        if let Some(held) = self.sources.hold(version, deadline)? {
            // A runtime that was started in the place of this one may fill another fragment under the same name.
            return match self.connection.is_open()? {
                true => Ok(Some(held)),
                false => Err(self.connection.failed("it has ended")),
            };
        }
        // Where a newer version is there it has not slept.
        let mut longest = LOOK.min(deadline.left()).saturating_sub(begin.elapsed());
        while let Some(reply) = self.connection.receive(longest)? {
            longest = Duration::ZERO;
            match reply {
                Reply::Reading(region) => self.sources = sources_of(shared, &self.fragment, &region)?,
                Reply::Lost { version: lost, why } if lost == version => {
                    return Err(Error::LostElsewhere { name: shared.name.clone(), version, why });
                }
                Reply::Waiting { version: waits, why } if waits == version => self.waiting = Some(why),
                Reply::Failed(why) => return Err(self.connection.failed(why)),
                // Of a version that was asked for before.
                _ => {}
            }
        }
        Ok(None)
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
    /// Whether the next version is fetched meanwhile.
    pub(crate) prefetches: bool,
}

/// Holds a version of a whole fragment, which the runtime puts together from where its elements are. `whom` says who has them as far as
/// this node knows: its runtime may hear from nobody.
pub(crate) fn hold<'a>(
    kept: &'a mut Option<Elsewhere>,
    shared: &Shared,
    wanted: &Wanted<'_>,
    deadline: Deadline,
    whom: &dyn Fn() -> Result<String>,
) -> Result<(&'a Sources, Vec<Snapshot>)> {
    let Wanted { fragment, text, bindings, version, prefetches } = *wanted;
    let mut begin = Instant::now();
    loop {
        shared.check_interrupt()?;
        if begin.elapsed() > THERE {
            // Nobody puts a version together any more of an object that was removed.
            shared.board.check_named()?;
            begin = Instant::now();
        }
        let looked = match kept.take() {
            Some(open) => Ok(open),
            None => Elsewhere::open(shared, fragment, text, bindings, deadline),
        };
        let looked = looked.and_then(|mut open| Ok((open.look(shared, version, prefetches, deadline)?, open)));
        match looked {
            Ok((Some(held), open)) => return Ok((&kept.insert(open).sources, held)),
            Ok((None, open)) => {
                let why = open.waiting.clone();
                *kept = Some(open);
                if deadline.left().is_zero() {
                    let (name, waited) = (shared.name.clone(), deadline.waited());
                    let why = why.map_or_else(whom, Ok)?;
                    return Err(Error::TimeoutElsewhere { name, version, waited, why });
                }
            }
            // It may be started again, and what it filled goes with it.
            Err(Error::NoRuntime { .. } | Error::Region(stillframe::Error::NoRegion { .. }))
                if deadline.left() > AGAIN =>
            {
                std::thread::sleep(AGAIN.max(LOOK))
            }
            Err(error) => return Err(error),
        }
    }
}
