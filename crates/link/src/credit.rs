//! How many bytes may be under way.
//!
//! Whoever receives grants; whoever sends takes, and what was taken comes back when the receiver says that it has it. How these
//! words travel is the caller's affair.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::deadline::Deadline;

/// Bytes granted, taken and returned since the begin. Pure: it neither waits nor locks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes that may be under way at once.
    pub granted: u64,
    /// Bytes taken, in all.
    pub taken: u64,
    /// Bytes of these that came back.
    pub returned: u64,
}

impl Counts {
    /// Bytes that are under way.
    pub fn under_way(&self) -> u64 {
        self.taken - self.returned
    }

    /// Bytes that can be taken.
    pub fn free(&self) -> u64 {
        self.granted.saturating_sub(self.under_way())
    }

    /// Takes bytes if they are free.
    pub fn take(&mut self, bytes: u64) -> bool {
        let Some(taken) = self.taken.checked_add(bytes) else { return false };
        let is_free = bytes <= self.free();
        if is_free {
            self.taken = taken;
        }
        is_free
    }

    /// Grants so many bytes more.
    ///
    /// # Errors
    /// [`Trouble::Overflow`]; nothing was changed.
    pub fn grant(&mut self, bytes: u64) -> Result<(), Trouble> {
        self.granted = self.granted.checked_add(bytes).ok_or(Trouble::Overflow)?;
        Ok(())
    }

    /// Bytes come back.
    ///
    /// # Errors
    /// [`Trouble::NotTaken`]: more than are under way; nothing was changed.
    pub fn give_back(&mut self, bytes: u64) -> Result<(), Trouble> {
        let under_way = self.under_way();
        if bytes > under_way {
            return Err(Trouble::NotTaken { bytes, under_way });
        }
        self.returned += bytes;
        Ok(())
    }
}

/// What is wrong with credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// The counter is at its end.
    #[error("so much credit cannot be counted: the peer grants without end")]
    Overflow,
    /// More came back than was taken.
    #[error("{bytes} bytes of credit came back, and {under_way} were taken: the peer counts wrongly; connect again")]
    NotTaken {
        /// Bytes that came back.
        bytes: u64,
        /// Bytes that were under way.
        under_way: u64,
    },
    /// There was not enough in time.
    #[error("waited {} ms for credit for {bytes} bytes; {counts}", waited.as_millis())]
    Timeout {
        /// Bytes that were wanted.
        bytes: u64,
        /// For how long.
        waited: Duration,
        /// What there is.
        counts: Counts,
    },
    /// The connection has ended.
    #[error("there will be no credit any more: the connection has ended")]
    Closed,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the peer granted {} bytes, and has not said of {} that it has them", self.granted, self.under_way())
    }
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    /// Who waits, in the order in which they came, so that many small ones do not keep a large one waiting for ever.
    queue: VecDeque<u64>,
    next: u64,
    is_closed: bool,
}

/// [`Counts`] that threads share, and wait for.
#[derive(Debug, Default)]
pub struct Credit {
    state: Mutex<State>,
    changed: Condvar,
}

impl Credit {
    /// Credit of so many bytes to begin with.
    pub fn new(granted: u64) -> Credit {
        let credit = Credit::default();
        credit.lock().counts.granted = granted;
        credit
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is now.
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    fn change(&self, change: impl FnOnce(&mut Counts) -> Result<(), Trouble>) -> Result<(), Trouble> {
        let done = change(&mut self.lock().counts);
        self.changed.notify_all();
        done
    }

    /// Grants so many bytes more.
    ///
    /// # Errors
    /// [`Trouble::Overflow`].
    pub fn grant(&self, bytes: u64) -> Result<(), Trouble> {
        self.change(|counts| counts.grant(bytes))
    }

    /// Bytes come back.
    ///
    /// # Errors
    /// [`Trouble::NotTaken`].
    pub fn give_back(&self, bytes: u64) -> Result<(), Trouble> {
        self.change(|counts| counts.give_back(bytes))
    }

    /// Nobody will grant any more: all who wait are told so.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Takes bytes when they are free, and whoever came first has been served.
    ///
    /// # Errors
    /// [`Trouble::Timeout`], [`Trouble::Closed`]; nothing was taken.
    pub fn take(&self, bytes: u64, limit: Duration) -> Result<(), Trouble> {
        let deadline = Deadline::after(limit);
        let mut state = self.lock();
        let place = state.next;
        state.next += 1;
        state.queue.push_back(place);
        let done = loop {
            if state.is_closed {
                break Err(Trouble::Closed);
            }
            if state.queue.front() == Some(&place) && state.counts.take(bytes) {
                break Ok(());
            }
            state = match deadline.left() {
                Some(left) if left.is_zero() => {
                    let (waited, counts) = (deadline.waited(), state.counts);
                    break Err(Trouble::Timeout { bytes, waited, counts });
                }
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        };
        state.queue.retain(|other| *other != place);
        drop(state);
        // There may be enough for whoever is the first now.
        self.changed.notify_all();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Debug, Clone)]
    enum Step {
        Grant(u64),
        Take(u64),
        Return(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let bytes = || prop_oneof![8 => 0..1000_u64, 1 => Just(u64::MAX), 1 => Just(u64::MAX / 2)];
        let step =
            prop_oneof![bytes().prop_map(Step::Grant), bytes().prop_map(Step::Take), bytes().prop_map(Step::Return)];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        /// The model: what may be taken, and a list of what was.
        #[test]
        fn counts_are_those_of_a_plain_model(steps in steps()) {
            let credit = Credit::new(0);
            let (mut granted, mut under_way, mut taken) = (0_u128, 0_u128, 0_u128);
            let whole = u128::from(u64::MAX);
            for step in steps {
                match step {
                    Step::Grant(bytes) => {
                        let may = granted + u128::from(bytes) <= whole;
                        prop_assert_eq!(credit.grant(bytes).is_ok(), may);
                        granted += if may { u128::from(bytes) } else { 0 };
                    }
                    Step::Take(bytes) => {
                        let may = under_way + u128::from(bytes) <= granted && taken + u128::from(bytes) <= whole;
                        prop_assert_eq!(credit.take(bytes, Duration::ZERO).is_ok(), may);
                        if may {
                            under_way += u128::from(bytes);
                            taken += u128::from(bytes);
                        }
                    }
                    Step::Return(bytes) => {
                        let may = u128::from(bytes) <= under_way;
                        prop_assert_eq!(credit.give_back(bytes).is_ok(), may);
                        under_way -= if may { u128::from(bytes) } else { 0 };
                    }
                }
                let counts = credit.counts();
                prop_assert_eq!(u128::from(counts.under_way()), under_way);
                prop_assert_eq!(u128::from(counts.free()), granted - under_way);
            }
        }
    }

    #[test]
    fn many_threads_never_have_more_under_way_than_was_granted() {
        let credit = Arc::new(Credit::new(100));
        let under_way = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..4_u64)
            .map(|thread| {
                let (credit, under_way) = (Arc::clone(&credit), Arc::clone(&under_way));
                std::thread::spawn(move || {
                    for round in 0..500 {
                        let bytes = 1 + (thread * 37 + round * 11) % 100;
                        credit.take(bytes, Duration::from_secs(60)).unwrap();
                        assert!(under_way.fetch_add(bytes, Ordering::SeqCst) + bytes <= 100);
                        under_way.fetch_sub(bytes, Ordering::SeqCst);
                        credit.give_back(bytes).unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(credit.counts().free(), 100);
    }

    #[test]
    fn who_waits_is_told_of_the_end_and_what_was_missing() {
        let credit = Arc::new(Credit::new(5));
        let waits = Arc::clone(&credit);
        let thread = std::thread::spawn(move || waits.take(6, Duration::MAX));
        assert!(matches!(credit.take(7, Duration::from_millis(5)), Err(Trouble::Timeout { bytes: 7, .. })));
        credit.close();
        assert_eq!(thread.join().unwrap(), Err(Trouble::Closed));
    }
}
