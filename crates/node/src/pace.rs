//! How fast versions of an object become complete, and so how many of them its home may announce ahead of what all nodes acknowledged.

use std::time::{Duration, Instant};
use stillframe_roster::writer::Version;

/// How many leases' worth of versions a ceiling lies above the newest one. It is raised at half of that, so that an object goes on for
/// longer than it takes until a node that does not answer is lost.
const LEASES: u32 = 4;

/// How long to count before the margin is changed.
const SPAN: Duration = Duration::from_secs(1);

/// The margin of an object with few versions. Whoever takes the place of all its writers leaves out up to so many numbers.
const MARGIN_MIN: u64 = 2;

/// The most, for programs whose numbers are those of steps, of which they publish one in thousands.
const MARGIN_MAX: u64 = 1 << 20;

/// Counts versions.
#[derive(Debug)]
pub(crate) struct Pace {
    silence: Duration,
    /// The newest version at first, with which nobody counts: numbers may begin anywhere.
    first: Option<Version>,
    /// Since when versions are counted, and the newest one then.
    since: Option<(Instant, Version)>,
    margin: u64,
}

impl Pace {
    /// Of an object on nodes with such leases.
    pub(crate) fn new(lease: Duration) -> Pace {
        Pace { silence: lease.saturating_mul(LEASES), first: None, since: None, margin: MARGIN_MIN }
    }

    /// How many versions above the newest may be announced before all nodes have acknowledged more.
    pub(crate) fn margin(&self) -> u64 {
        self.margin
    }

    /// Notes the newest complete version; whether the margin is another one for that.
    pub(crate) fn note(&mut self, newest: Version) -> bool {
        let first = *self.first.get_or_insert(newest);
        let Some((begin, from)) = self.since else {
            self.since = (newest != first).then(|| (Instant::now(), newest));
            return false;
        };
        let span = begin.elapsed();
        if span < SPAN || newest == from {
            return false;
        }
        let margin = margin(newest.saturating_sub(from), span, self.silence);
        self.since = Some((Instant::now(), newest));
        std::mem::replace(&mut self.margin, margin) != margin
    }
}

/// So many versions as come while nothing is heard of a node, at this pace; and twice as many as came last, however slowly.
fn margin(versions: u64, span: Duration, silence: Duration) -> u64 {
    let expected = versions as f64 * (silence.as_secs_f64() / span.as_secs_f64()).max(2.0);
    (expected as u64).clamp(MARGIN_MIN, MARGIN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_lasts_for_as_long_as_a_node_may_be_silent() {
        let seconds = |versions, span| margin(versions, Duration::from_secs(span), Duration::from_secs(6));
        assert_eq!(seconds(1, 60), MARGIN_MIN);
        assert_eq!(seconds(2, 60), 4);
        assert_eq!(seconds(100, 1), 600);
        assert_eq!(seconds(10, 2), 30);
        assert_eq!(seconds(1000, 60), 2000, "of a program whose numbers are those of steps");
        assert_eq!(seconds(u64::MAX, 1), MARGIN_MAX);
    }

    #[test]
    fn the_first_version_may_have_any_number() {
        let mut pace = Pace::new(Duration::ZERO);
        for newest in [0, 0, 5_000_000] {
            assert!(!pace.note(newest));
        }
        assert_eq!(pace.since.map(|(_, newest)| newest), Some(5_000_000));
    }
}
