//! How a thread waits for libfabric: it asks again and again, at first at once and then after pauses that grow. Not every provider has
//! something to sleep on, and all of them work only while they are asked.

use crate::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use stillframe_link::{Deadline, Os};

/// Times that are asked without a pause.
const EAGER: u32 = 64;
/// Things that have happened and are taken together at most, so that a deadline is looked at now and then.
pub(crate) const TOGETHER: usize = 64;
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

    fn ended(&self) -> stillframe_link::Error {
        stillframe_link::Error::Ended { peer: self.peer, why: "it was cut".into() }
    }
}

/// A wait in progress.
pub(crate) struct Wait<'w> {
    way: &'w Way,
    what: &'static str,
    deadline: Deadline,
    /// How often nothing had happened, one time after the other.
    vain: u32,
    since: Instant,
}

impl<'w> Wait<'w> {
    pub(crate) fn new(way: &'w Way, what: &'static str, deadline: Deadline) -> Wait<'w> {
        Wait { way, what, deadline, vain: 0, since: Instant::now() }
    }

    /// Something has happened. A peer that always gives or takes something never lets it pause, so that the deadline is looked at here,
    /// too.
    pub(crate) fn go_on(&mut self) -> stillframe_link::Result<()> {
        self.vain = 0;
        self.since = Instant::now();
        self.check()
    }

    /// For how long nothing has happened.
    pub(crate) fn quiet(&self) -> Duration {
        self.since.elapsed()
    }

    /// Nothing has happened: pauses. Whether it paused at all, so that it is time to look at other things.
    pub(crate) fn pause(&mut self) -> stillframe_link::Result<bool> {
        self.vain = self.vain.saturating_add(1);
        if self.vain <= EAGER {
            thread::yield_now();
            return Ok(false);
        }
        let doubled = PAUSES[0].saturating_mul(1 << ((self.vain - EAGER).min(10) / 2));
        thread::sleep(doubled.min(PAUSES[1]));
        self.check()?;
        Ok(true)
    }

    fn check(&self) -> stillframe_link::Result<()> {
        if self.way.has_ended.load(Ordering::Acquire) {
            return Err(self.way.ended());
        }
        if self.deadline.left().is_some_and(|left| left.is_zero()) {
            let (peer, what, waited) = (self.way.peer, self.what, self.deadline.waited());
            return Err(stillframe_link::Error::Timeout { peer, what, waited, is_intact: false });
        }
        Ok(())
    }

    /// The peer takes nothing any more, and nobody knows why.
    pub(crate) fn check_silence(&self) -> stillframe_link::Result<()> {
        if self.quiet() < self.way.silence {
            return Ok(());
        }
        let source = Os { errno: libc::ETIMEDOUT, kind: std::io::ErrorKind::TimedOut };
        Err(stillframe_link::Error::Broken { peer: self.way.peer, call: "fi_cq_read", source })
    }
}
