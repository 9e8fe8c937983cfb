//! When to arm pages again.
//!
//! An armed page costs a fault (F) at its next write and is then copied (C); a page left unarmed costs a copy at every
//! publish but no fault. Leaving it is right as long as it turns dirty with a probability above C / (C + F), about 0.3 by
//! the measurements in `docs/architecture.md`. That probability is learned window by window: when a window is armed
//! again, the share of its unarmed pages that are dirty at the very next publish is a sample of it. A high share doubles
//! the number of publishes until the window is armed again, a low one halves it.

use crate::list;
use crate::mask::Mask;
use stillframe_kernel::Failure;

/// Longest time, in publishes, for which a window is left alone.
const PERIOD_MAX: u16 = 64;

/// Windows that are armed together, so that one call serves several.
const GROUP: usize = 8;

/// What is known of the pages of one window.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// Pages found dirty by the last collection.
    last: Mask,
    /// Pages that were unarmed when the window was last armed.
    sample: Mask,
    /// Publishes between two armings.
    period: u16,
    /// Publishes since the last arming.
    pub(crate) age: u16,
    /// Whether the next collection is the first after an arming.
    fresh: bool,
}

impl Window {
    const NEW: Window = Window { last: Mask::EMPTY, sample: Mask::EMPTY, period: 1, age: 0, fresh: false };
}

/// What is known of the windows of one place.
#[derive(Debug)]
pub(crate) struct Sticky {
    windows: Vec<Window>,
}

impl Sticky {
    /// Of this many windows nothing is known.
    pub(crate) fn new(windows: usize) -> Result<Sticky, Failure> {
        Ok(Sticky { windows: list::filled(Window::NEW, windows)? })
    }

    /// Forgets what is known of the windows from one on.
    pub(crate) fn forget(&mut self, from: usize) {
        let from = from.min(self.windows.len());
        self.windows[from..].fill(Window::NEW);
    }

    /// Whether a window is to be armed with the collection that comes now.
    pub(crate) fn is_due(&self, window: usize) -> bool {
        let window = &self.windows[window];
        window.age >= window.period - 1
    }

    /// Whether every page in `all` is known to be unarmed, so that looking for more dirty ones is idle.
    pub(crate) fn is_exhausted(&self, window: usize, all: Mask) -> bool {
        let state = &self.windows[window];
        !state.fresh && !self.is_due(window) && all.without(state.last).is_empty()
    }

    /// Learns from what a collection found in a window, `armed` saying whether the collection armed it.
    pub(crate) fn learn(&mut self, index: usize, dirty: Mask, armed: bool) {
        let window = &mut self.windows[index];
        if window.fresh {
            window.fresh = false;
            let sample = window.sample.count();
            let again = window.sample.and(dirty).count();
            if sample > 0 && again * 100 >= sample * 33 {
                if window.period < PERIOD_MAX {
                    window.period *= 2;
                    // Groups of windows take turns, so that no publish pays for all of them.
                    window.age = ((index / GROUP * 7) % window.period as usize) as u16;
                }
            } else if sample > 0 && again * 100 < sample * 28 {
                window.period = (window.period / 2).max(1);
            }
        }
        window.last = dirty;
        // What is never armed, as with trackers that arm nothing, gets older for as long as the program runs.
        window.age = window.age.saturating_add(1);
        if armed {
            window.age = 0;
            window.fresh = true;
            window.sample = dirty;
        }
    }

    /// Notes that a window was armed outside a collection, `hot` being the pages expected to be written next.
    pub(crate) fn rearmed(&mut self, index: usize, hot: Mask) {
        let window = &mut self.windows[index];
        *window = Window { last: Mask::EMPTY, sample: hot, age: 0, fresh: true, ..*window };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays publishes over one window; returns faults and copies per step of the last half.
    fn play(steps: usize, mut writes: impl FnMut(usize) -> Mask) -> (f64, f64) {
        let mut sticky = Sticky::new(1).unwrap();
        let (mut unarmed, mut faults, mut copies) = (Mask::FULL, 0, 0);
        for step in 0..steps {
            let written = writes(step);
            let counted = step >= steps / 2;
            faults += if counted { written.without(unarmed).count() } else { 0 };
            unarmed = unarmed.or(written);
            copies += if counted { unarmed.count() } else { 0 };
            let due = sticky.is_due(0);
            sticky.learn(0, unarmed, due);
            if due {
                unarmed = Mask::EMPTY;
            }
        }
        let half = (steps - steps / 2) as f64;
        (faults as f64 / half, copies as f64 / half)
    }

    fn random(step: usize, share: u64) -> Mask {
        let mut mask = Mask::EMPTY;
        for page in 0..512u64 {
            let mut x = (step as u64) << 32 | page;
            x = (x ^ x >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            if (x ^ x >> 32) % 100 < share {
                mask.insert(page as usize);
            }
        }
        mask
    }

    #[test]
    fn a_window_that_is_never_armed_stays_due_for_ever() {
        let mut sticky = Sticky::new(1).unwrap();
        for _ in 0..2 * usize::from(u16::MAX) {
            sticky.learn(0, Mask::FULL, false);
            assert!(sticky.is_due(0));
        }
    }

    #[test]
    fn pages_written_each_step_soon_take_no_faults() {
        let (faults, copies) = play(1000, |_| random(7, 30));
        let pages = random(7, 30).count() as f64;
        assert!(faults <= pages / 50.0, "{faults}");
        assert_eq!(copies, pages);
    }

    #[test]
    fn rarely_written_pages_are_not_copied_in_vain() {
        let (faults, copies) = play(1000, |step| random(step, 10));
        assert!(copies <= faults * 1.1, "{copies} copies, {faults} faults");
    }

    #[test]
    fn often_written_random_pages_are_copied_rather_than_faulted() {
        let (faults, _) = play(1000, |step| random(step, 60));
        assert!(faults < 0.1 * 512.0, "{faults}");
    }

    #[test]
    fn a_window_that_goes_quiet_is_left_alone_after_one_period() {
        let (faults, copies) = play(1000, |step| if step < 300 { random(7, 50) } else { Mask::EMPTY });
        assert_eq!((faults, copies), (0.0, 0.0));
    }
}
