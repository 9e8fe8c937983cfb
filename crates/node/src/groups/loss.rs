//! Versions that could not be had, and how long it takes until one is asked for again.

use std::time::{Duration, Instant};

/// The shortest and the longest pause. Each is twice as long as the one before.
pub(super) const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(30)];

/// Why a version cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) cause: Cause,
    pub(super) why: String,
}

/// Where it lies that a version cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// With a node that has ranks: of another version it may be different.
    There,
    /// With this node: of another version it would most likely be the same.
    Here,
    /// With this node, where there is no room.
    Room,
    /// With this node, and no other one was asked for it.
    Unasked,
}

/// A version that could not be had.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    at: Instant,
    pub(super) loss: Loss,
    version: u64,
    pause: Duration,
    /// Whether another version would most likely not be had either.
    is_lasting: bool,
}

impl Loss {
    pub(super) fn new(cause: Cause, why: impl Into<String>) -> Loss {
        Loss { cause, why: why.into() }
    }

    pub(super) fn there(why: impl Into<String>) -> Loss {
        Loss::new(Cause::There, why)
    }

    pub(super) fn here(why: impl Into<String>) -> Loss {
        Loss::new(Cause::Here, why)
    }
}

impl Failure {
    /// One that comes after another one, if that was not followed by a version that could be had.
    pub(super) fn after(former: Option<&Failure>, version: u64, loss: Loss, at: Instant) -> Failure {
        let is_here = |loss: &Loss| loss.cause != Cause::There;
        let is_alike = |former: &&Failure| former.loss.why == loss.why || is_here(&former.loss) && is_here(&loss);
        let alike = former.filter(is_alike);
        let is_lasting = is_here(&loss) || alike.is_some_and(|former| former.is_lasting || former.version != version);
        let same = alike.or(former.filter(|former| former.version == version));
        // Where nobody was asked it costs nobody anything.
        let longer = same.filter(|_| loss.cause != Cause::Unasked).map(|former| (former.pause * 2).min(PAUSES[1]));
        Failure { at, loss, version, pause: longer.unwrap_or(PAUSES[0]), is_lasting }
    }

    /// Whether a version may be asked for at a time, or at once since there is room for it now.
    pub(super) fn is_past(&self, version: u64, now: Instant, has_room: impl FnOnce() -> bool) -> bool {
        let is_news = version != self.version && !self.is_lasting;
        let pause = if is_news { PAUSES[0] } else { self.pause };
        now.saturating_duration_since(self.at) >= pause || self.loss.cause == Cause::Room && has_room()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long it takes until a version may be asked for.
    fn pause(failure: &Failure, version: u64) -> Duration {
        let after =
            |milliseconds: &u64| failure.is_past(version, failure.at + Duration::from_millis(*milliseconds), || false);
        Duration::from_millis((0..=30_000).find(after).expect("none is longer"))
    }

    #[test]
    fn what_fails_again_and_again_is_asked_for_less_and_less_often() {
        let at = Instant::now();
        let fail = |former: Option<&Failure>, version, loss| Failure::after(former, version, loss, at);
        let mut failure = fail(None, 1, Loss::new(Cause::Room, "no room for 7 bytes"));
        for milliseconds in [50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            assert_eq!(pause(&failure, 1), Duration::from_millis(milliseconds));
            // With another version it is the same.
            assert_eq!(pause(&failure, 2), Duration::from_millis(milliseconds));
            failure = fail(Some(&failure), 2, Loss::new(Cause::Room, format!("no room for {milliseconds} bytes")));
        }
        for version in [2, 3] {
            let unasked = fail(Some(&failure), version, Loss::new(Cause::Unasked, "no room for 7 bytes"));
            assert_eq!(pause(&unasked, 3), PAUSES[0]);
        }
        // What went there is another one's reason.
        let there = |version: u64| Loss::there(format!("its node has version {version} no more"));
        failure = fail(Some(&failure), 3, there(3));
        assert_eq!(pause(&failure, 3), PAUSES[0]);
        failure = fail(Some(&failure), 3, there(3));
        assert_eq!((pause(&failure, 3), pause(&failure, 4)), (PAUSES[0] * 2, PAUSES[0]));
        failure = fail(Some(&failure), 4, there(4));
        assert_eq!(pause(&failure, 4), PAUSES[0]);
        // What is said of each version is no matter of one.
        for version in 5..8 {
            failure = fail(Some(&failure), version, Loss::there("its variables take 9 bytes to describe"));
        }
        assert_eq!((pause(&failure, 7), pause(&failure, 8)), (PAUSES[0] * 4, PAUSES[0] * 4));
    }

    #[test]
    fn what_had_no_room_is_asked_for_as_soon_as_it_has() {
        let at = Instant::now();
        for (cause, is_past) in [(Cause::Room, true), (Cause::Here, false), (Cause::There, false)] {
            let failure = Failure::after(None, 1, Loss::new(cause, "no room"), at);
            assert_eq!((failure.is_past(1, at, || true), failure.is_past(1, at, || false)), (is_past, false));
        }
    }
}
