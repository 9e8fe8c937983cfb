//! How fast versions of an object become complete, and so how many of them its home may announce ahead of what all nodes acknowledged.

use std::time::{Duration, Instant};
use stillframe_roster::writer::Version;

/// For so long an object goes on while another node does not answer: longer than the usual lease, after which that node is lost.
const SILENCE: Duration = Duration::from_secs(6);

/// How long to count before the margin is changed.
const SPAN: Duration = Duration::from_secs(1);

/// The margin of an object with a few versions a minute. Whoever takes the place of all its writers leaves out up to so many numbers.
const MARGIN_MIN: u64 = 8;

/// The most, for programs whose numbers are those of steps, of which they publish one in thousands.
const MARGIN_MAX: u64 = 1 << 20;

/// Counts versions.
#[derive(Debug)]
pub(crate) struct Pace {
    since: Instant,
    from: Version,
    margin: u64,
}

impl Pace {
    pub(crate) fn new(initial: Version) -> Pace {
        Pace { since: Instant::now(), from: initial, margin: MARGIN_MIN }
    }

    /// How many versions above the newest may be announced before all nodes have acknowledged more.
    pub(crate) fn margin(&self) -> u64 {
        self.margin
    }

    /// Notes the newest complete version; whether the margin is another one for that.
    pub(crate) fn note(&mut self, newest: Version) -> bool {
        let span = self.since.elapsed();
        if span < SPAN || newest == self.from {
            return false;
        }
        let margin = margin(newest.saturating_sub(self.from), span);
        (self.since, self.from) = (Instant::now(), newest);
        std::mem::replace(&mut self.margin, margin) != margin
    }
}

/// So many versions as come while nothing is heard of a node, at this pace; and twice as many as came last, however slowly.
fn margin(versions: u64, span: Duration) -> u64 {
    let expected = versions as f64 * (SILENCE.as_secs_f64() / span.as_secs_f64()).max(2.0);
    (expected as u64).clamp(MARGIN_MIN, MARGIN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_lasts_for_as_long_as_a_node_may_be_silent() {
        assert_eq!(margin(1, Duration::from_secs(60)), MARGIN_MIN);
        assert_eq!(margin(100, Duration::from_secs(1)), 600);
        assert_eq!(margin(10, Duration::from_secs(2)), 30);
        assert_eq!(margin(1000, Duration::from_secs(60)), 2000);
        assert_eq!(margin(u64::MAX, SPAN), MARGIN_MAX);
    }
}
