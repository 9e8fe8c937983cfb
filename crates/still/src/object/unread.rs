//! A version of an object that could not be read, and when it is tried again.

use crate::failure::Failure;
use std::time::{Duration, Instant};
use stillframe_object::Error;

/// How long nothing is tried after a version could not be read; twice as long after each further time, up to the other.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How often it is tried again once nobody writes any more, and after which pause at most.
const LAST_TRIES: u32 = 2;
const LAST_PAUSE_MAX: Duration = Duration::from_secs(5);

/// A version that was to be saved and could not be read, though that may still become possible.
#[derive(Debug)]
pub struct Unread {
    pub version: u64,
    error: Error,
    /// Tries that failed, one after the other, of this version and those before it.
    failures: u32,
    /// Those of them that nobody wrote any more when they began.
    last_failures: u32,
    /// When the last try began.
    begun: Instant,
    /// When the version is tried again.
    retry: Instant,
}

/// Whether what an error tells of may be over soon: other nodes may be reached again, a runtime be started, and others give back what they
/// have of memory.
pub fn may_pass(error: &Error) -> bool {
    use stillframe::Error as Engine;
    let is_short = |error: &Engine| {
        matches!(
            error,
            Engine::Timeout { .. }
                | Engine::NoSpace { .. }
                | Engine::NoFiles { .. }
                | Engine::NoMappings { .. }
                | Engine::ArenaFull { .. }
        )
    };
    error.is_timeout()
        || matches!(error, Error::NoRuntime { .. })
        || matches!(error, Error::Region(engine) if is_short(engine))
}

impl Unread {
    /// After a try that failed: `former` is what could not be read before, and `is_last` says that nobody wrote any more when this try began.
    pub fn new(former: Option<Unread>, version: u64, error: Error, begun: Instant, is_last: bool) -> Unread {
        let (failures, last_failures) = former.map_or((0, 0), |former| (former.failures, former.last_failures));
        let failures = failures.saturating_add(1);
        let last_failures = if is_last { last_failures.saturating_add(1) } else { 0 };
        let mut unread = Unread { version, error, failures, last_failures, begun, retry: begun };
        unread.retry = Instant::now() + unread.pause();
        unread
    }

    /// How long nothing is tried after the last try.
    pub fn pause(&self) -> Duration {
        let longest = if self.last_failures > 0 { LAST_PAUSE_MAX } else { PAUSE_MAX };
        PAUSE.saturating_mul(1 << self.failures.saturating_sub(1).min(10)).min(longest)
    }

    /// Whether a version is to be tried now. A newer one waits only where the last try ended before its pause would have.
    pub fn is_due(&self, version: u64) -> bool {
        let from = if version == self.version { self.retry } else { self.retry.min(self.begun + self.pause()) };
        Instant::now() >= from
    }

    /// Ends the pause.
    pub fn hasten(&mut self) {
        self.retry = self.retry.min(Instant::now());
    }

    /// Whether it was tried often enough since nobody writes any more.
    pub fn is_given_up(&self) -> bool {
        self.last_failures >= LAST_TRIES
    }

    /// Why it could not be read.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// With what a command ends that was to save it.
    pub fn failure(&self) -> Failure {
        Failure::Problem(format!("version {} is not saved: {}", self.version, self.error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late() -> Error {
        Error::TimeoutElsewhere { name: "u".into(), version: 1, waited: PAUSE, why: "node 2 is silent".into() }
    }

    #[test]
    fn what_fails_again_and_again_waits_longer_and_the_last_version_does_not() {
        let mut unread = Unread::new(None, 1, late(), Instant::now(), false);
        let mut pauses = vec![unread.pause().as_secs()];
        for is_last in [false, false, false, false, false, false, true, true] {
            assert!(!unread.is_given_up());
            unread = Unread::new(Some(unread), 1, late(), Instant::now(), is_last);
            pauses.push(unread.pause().as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 5, 5]);
        assert!(unread.is_given_up() && !unread.is_due(1));
        unread.hasten();
        assert!(unread.is_due(1));
    }

    #[test]
    fn a_newer_version_waits_no_longer_than_from_the_begin_of_the_try_before() {
        let Some(before) = Instant::now().checked_sub(PAUSE) else { return };
        let unread = Unread::new(None, 1, late(), before, false);
        assert!(unread.is_due(2) && !unread.is_due(1));
        assert!(!Unread::new(None, 1, late(), Instant::now(), false).is_due(2));
    }

    #[test]
    fn what_never_heals_does_not_pass() {
        let fault = |is_timeout| Error::Plan { name: "u".into(), why: "no room".into(), is_timeout };
        let runtime = Error::NoRuntime { path: "runtime".into(), why: "it has ended".into() };
        let memory = |bytes| Error::NoMemory { name: "u".into(), bytes, taken_bytes: 8, bound_bytes: 16 };
        let lost = Error::LostElsewhere { name: "u".into(), version: 1, why: "it went".into() };
        let damaged = Error::Corrupt { path: "board".into(), offset: 0, why: "?".into() };
        assert!([late(), fault(true), runtime, memory(16)].iter().all(may_pass));
        assert!(![fault(false), memory(17), lost, damaged, Error::Removed { name: "u".into() }].iter().any(may_pass));
    }
}
