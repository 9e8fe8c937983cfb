//! Changes on their way from the reactor's thread to whoever asks for them.

use crate::event::Told;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Changes that wait at a time. While there are as many, nothing more is taken from etcd, which keeps it.
const CHANGES_MAX: usize = 4096;

/// Bytes of texts that wait at a time.
const BYTES_MAX: usize = 32 << 20;

#[derive(Debug, Default)]
struct Content {
    changes: VecDeque<Told>,
    bytes: usize,
    is_closed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    content: Mutex<Content>,
    is_filled: Condvar,
    is_drained: Notify,
}

impl Queue {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a change behind the others, once there is room. Whether anybody will ask for it.
    pub async fn push(&self, told: Told) -> bool {
        let bytes = bytes(&told);
        loop {
            let drained = self.is_drained.notified();
            {
                let mut content = self.content();
                if content.is_closed {
                    return false;
                }
                if content.changes.is_empty() || content.changes.len() < CHANGES_MAX && content.bytes < BYTES_MAX {
                    content.changes.push_back(told);
                    content.bytes += bytes;
                    self.is_filled.notify_all();
                    return true;
                }
            }
            drained.await;
        }
    }

    /// Takes the first change, and waits for one at most so long.
    pub fn pop(&self, timeout: Duration) -> Option<Told> {
        self.pop_some(timeout, 1).pop()
    }

    /// Takes the first changes, at most so many, and waits for one at most so long.
    pub fn pop_some(&self, timeout: Duration, most: usize) -> Vec<Told> {
        let begin = Instant::now();
        let mut content = self.content();
        loop {
            if !content.changes.is_empty() {
                let count = content.changes.len().min(most);
                let some: Vec<Told> = content.changes.drain(..count).collect();
                content.bytes -= some.iter().map(bytes).sum::<usize>();
                self.is_drained.notify_one();
                return some;
            }
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() || content.is_closed {
                return Vec::new();
            }
            content = self.is_filled.wait_timeout(content, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nobody asks any more.
    pub fn close(&self) {
        let mut content = self.content();
        *content = Content { is_closed: true, ..Content::default() };
        self.is_drained.notify_one();
    }
}

fn bytes(told: &Told) -> usize {
    match &told.event {
        crate::event::Event::ObjectCreated { name, description } => name.len() + description.text.len(),
        _ => 0,
    }
}
