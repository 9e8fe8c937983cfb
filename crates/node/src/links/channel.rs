//! What waits to be sent to another node on one connection.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stillframe_link::Cut;

/// Messages that wait for a connection, and about how many bytes these have. Those of a node that does not take them would fill the
/// memory.
const WAITING_MAX: usize = 1 << 16;
const WAITING_BYTES_MAX: usize = 256 << 20;

/// Among how many of them one is looked for that a newer one replaces.
const SEARCHED_MAX: usize = 1 << 10;

/// One connection to another node, and what is to go on it.
#[derive(Debug)]
pub(super) struct Channel<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Condvar,
}

#[derive(Debug)]
pub(super) struct Waiting<T> {
    all: VecDeque<T>,
    bytes: usize,
    /// What ends the connection; none while there is none.
    pub(super) cut: Option<Cut>,
    /// Whether its thread sleeps until there is something to send.
    is_idle: bool,
    has_ended: bool,
}

impl<T> Waiting<T> {
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.bytes = 0;
    }
}

impl<T> Channel<T> {
    pub(super) fn new() -> Channel<T> {
        let waiting = Waiting { all: VecDeque::new(), bytes: 0, cut: None, is_idle: false, has_ended: false };
        let waiting = Mutex::new(waiting);
        Channel { waiting, changed: Condvar::new() }
    }

    pub(super) fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, more: impl IntoIterator<Item = T>, bytes: usize) {
        let mut waiting = self.waiting();
        waiting.bytes += bytes;
        if waiting.all.len() >= WAITING_MAX || waiting.bytes > WAITING_BYTES_MAX && !waiting.all.is_empty() {
            // The other side is told all anew when there is another connection.
            waiting.clear();
            if let Some(cut) = &waiting.cut {
                cut.cut();
            }
            return;
        }
        waiting.all.extend(more);
        // To wake who is awake takes a call of the system, too.
        if std::mem::take(&mut waiting.is_idle) {
            self.changed.notify_one();
        }
    }

    /// Takes the last of a kind away that waits, if not too many others came after it; `bytes` says whether one is of the kind, and how many
    /// bytes it was said to have.
    pub(super) fn withdraw(&self, bytes: impl Fn(&T) -> Option<usize>) {
        let mut waiting = self.waiting();
        let last = waiting.all.iter().enumerate().rev().take(SEARCHED_MAX);
        let found = last.filter_map(|(place, one)| Some((place, bytes(one)?))).next();
        if let Some((place, bytes)) = found {
            waiting.all.remove(place);
            waiting.bytes = waiting.bytes.saturating_sub(bytes);
        }
    }

    pub(super) fn end(&self) {
        let mut waiting = self.waiting();
        waiting.has_ended = true;
        if let Some(cut) = &waiting.cut {
            cut.cut();
        }
        self.changed.notify_all();
    }

    /// What waits, all at once, or nothing if nothing comes in time; `None` at the end.
    pub(super) fn take(&self, longest: Duration) -> Option<VecDeque<T>> {
        let mut waiting = self.waiting();
        if waiting.all.is_empty() && !waiting.has_ended {
            waiting.is_idle = true;
            let is_idle = |waiting: &mut Waiting<T>| waiting.all.is_empty() && !waiting.has_ended;
            let waited = self.changed.wait_timeout_while(waiting, longest, is_idle);
            (waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
            waiting.is_idle = false;
        }
        if waiting.has_ended {
            return None;
        }
        waiting.bytes = 0;
        Some(std::mem::take(&mut waiting.all))
    }

    /// Sleeps before another attempt; whether there is to be one.
    pub(super) fn pause(&self, pause: Duration) -> bool {
        let waiting = self.waiting();
        let is_on = |waiting: &mut Waiting<T>| !waiting.has_ended;
        let (waiting, _) =
            self.changed.wait_timeout_while(waiting, pause, is_on).unwrap_or_else(PoisonError::into_inner);
        !waiting.has_ended
    }
}
