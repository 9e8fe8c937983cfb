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
    ) -> Result<Elsewhere> {
        let mut connection = Connection::open(&shared.site.directory)?;
        let (name, id) = (shared.name.clone(), shared.description.id);
        let request = Request::Read { name, id, text: text.into(), bindings: bindings.clone() };
        let region = match connection.ask(&request)? {
            Reply::Reading(region) => region,
            other => return Err(connection.failed(format!("it answered {other:?}"))),
        };
        let observer = shared.site.observing()?.open(&region)?;
        let sources = Sources::whole(shared, fragment, observer)?;
        Ok(Elsewhere { connection, sources, asked: None, waiting: None })
    }

    /// Looks once whether a version is there, and sleeps a little if it is not.
    fn look(&mut self, shared: &Shared, version: Version, deadline: Deadline) -> Result<Option<Vec<Snapshot>>> {
        if self.asked != Some(version) {
            self.connection.send(&Request::Version(version))?;
            (self.asked, self.waiting) = (Some(version), None);
        }
        if let Some(held) = self.sources.hold(version, deadline)? {
            return Ok(Some(held));
        }
        while let Some(reply) = self.connection.receive(Duration::ZERO)? {
            match reply {
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

/// Holds a version of a whole fragment, which the runtime puts together from where its elements are. `whom` says who has them as far as
/// this node knows: its runtime may hear from nobody.
pub(crate) fn hold<'a>(
    kept: &'a mut Option<Elsewhere>,
    shared: &Shared,
    fragment: &Arc<Fragment>,
    (text, bindings): (&str, &BTreeMap<String, i64>),
    version: Version,
    deadline: Deadline,
    whom: &dyn Fn() -> Result<String>,
) -> Result<(&'a Sources, Vec<Snapshot>)> {
    let mut begin = Instant::now();
    loop {
        shared.check_interrupt()?;
        if begin.elapsed() > THERE {
            // Nobody puts a version together any more of an object that was removed.
            shared.board.check_named()?;
            begin = Instant::now();
        }
        // Versions of a region ascend: for an older one than was asked for there is another region.
        let looked = match kept.take().filter(|open| open.asked.is_none_or(|asked| asked <= version)) {
            Some(open) => Ok(open),
            None => Elsewhere::open(shared, fragment, text, bindings),
        };
        let looked = looked.and_then(|mut open| Ok((open.look(shared, version, deadline)?, open)));
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
