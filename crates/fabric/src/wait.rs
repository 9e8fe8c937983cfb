//! How a thread waits for libfabric: it asks again and again, at first at once and then after pauses that grow. Not every provider has
//! something to sleep on, and all of them work only while they are asked.

use crate::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use stillframe_link::{Deadline, Line, Os};

/// Times that are asked without a pause.
const EAGER: u32 = 64;
/// Things that have happened and are taken together at most, so that a deadline is looked at now and then.
pub(crate) const TOGETHER: usize = 64;
/// How much later TCP may notice something than libfabric.
const MOMENT: Duration = Duration::from_millis(250);
/// The first pause and the longest.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];

/// A way for bulk, as each direction of it knows it.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) peer: SocketAddr,
    pub(crate) fabric: Arc<str>,
    pub(crate) silence: Duration,
    pub(crate) has_ended: Arc<AtomicBool>,
}

impl Way {
    /// An error of libfabric, as one of the connection.
    pub(crate) fn error(&self, error: Error) -> stillframe_link::Error {
        error.of_link(self.peer, &self.fabric)
    }

    /// The peer sent what no runtime sends.
    pub(crate) fn malformed(&self, what: &str) -> stillframe_link::Error {
        stillframe_link::Error::Malformed { peer: self.peer, what: what.into() }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    pub(crate) fn ended(&self) -> stillframe_link::Error {
        stillframe_link::Error::Ended { peer: self.peer, why: "it was cut".into() }
    }

    /// The peer has ended the connection.
    pub(crate) fn closed(&self) -> stillframe_link::Error {
        stillframe_link::Error::Closed { peer: self.peer, missing_bytes: 0 }
    }

    /// Nothing was taken for so long that the peer counts as gone.
    pub(crate) fn check_silence(&self, pace: &Pace) -> stillframe_link::Result<()> {
        if pace.quiet() < self.silence {
            return Ok(());
        }
        let source = Os { errno: libc::ETIMEDOUT, kind: std::io::ErrorKind::TimedOut };
        Err(stillframe_link::Error::Broken { peer: self.peer, call: "fi_cq_read", source })
    }

    /// Whether the peer ends the connection in a moment: libfabric notices before TCP does that the other side is gone.
    pub(crate) fn is_gone(&self, line: &Line) -> bool {
        let begin = Instant::now();
        while !self.has_ended() && !line.has_hung_up() {
            if begin.elapsed() > MOMENT {
                return false;
            }
            thread::sleep(PAUSES[1]);
        }
        true
    }
}

/// When to ask again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// How often nothing had happened, one time after the other.
    vain: u32,
    since: Instant,
}

impl Pace {
    pub(crate) fn new() -> Pace {
        Pace { vain: 0, since: Instant::now() }
    }

    /// For how long nothing has happened.
    pub(crate) fn quiet(&self) -> Duration {
        self.since.elapsed()
    }

    /// Nothing has happened: pauses. Whether it slept, so that it is time to look at other things.
    pub(crate) fn pause(&mut self) -> bool {
        self.vain = self.vain.saturating_add(1);
        if self.vain <= EAGER {
            thread::yield_now();
            return false;
        }
        let doubled = PAUSES[0].saturating_mul(1 << ((self.vain - EAGER).min(12) / 2));
        thread::sleep(doubled.min(PAUSES[1]));
        true
    }
}

/// A wait in progress.
pub(crate) struct Wait<'w> {
    way: &'w Way,
    what: &'static str,
    deadline: Deadline,
    pace: Pace,
}

impl<'w> Wait<'w> {
    pub(crate) fn new(way: &'w Way, what: &'static str, deadline: Deadline) -> Wait<'w> {
        Wait { way, what, deadline, pace: Pace::new() }
    }

    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Something has happened. A peer that always gives or takes something never lets it pause, so that the deadline is looked at here,
    /// too.
    pub(crate) fn go_on(&mut self) -> stillframe_link::Result<()> {
        self.pace = Pace::new();
        self.check()
    }

    /// Nothing has happened: pauses. Whether it slept.
    pub(crate) fn pause(&mut self) -> stillframe_link::Result<bool> {
        let has_slept = self.pace.pause();
        self.check()?;
        Ok(has_slept)
    }

    fn check(&self) -> stillframe_link::Result<()> {
        if self.way.has_ended() {
            return Err(self.way.ended());
        }
        if self.deadline.left().is_some_and(|left| left.is_zero()) {
            let (peer, what, waited) = (self.way.peer, self.what, self.deadline.waited());
            return Err(stillframe_link::Error::Timeout { peer, what, waited, is_intact: false });
        }
        Ok(())
    }
}
