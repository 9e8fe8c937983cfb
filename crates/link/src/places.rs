//! Places for those who show who they are, each with a thread of its own.
//!
//! Who has said its first words, and then nothing more, has a place until it is wanted: where all are taken, the one has to leave that has
//! had its place longest, of the address that has most of them. Who has shown a certificate of the job needs no place.

use crate::newcomers::first_of_most;
use crate::socket::Socket;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Connections that may be showing who they are at once.
pub(crate) const PLACES_MAX: usize = 64;

/// Places, and who has them.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: Mutex<Taken>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Taken {
    by: BTreeMap<u64, Arc<Socket>>,
    next: u64,
    is_closed: bool,
}

/// One of [`PLACES_MAX`] places, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().by.remove(&self.number);
        self.places.freed.notify_one();
    }
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection. Where there is none, the connection of another one is ended, which then leaves at once: it can only wait
    /// for its peer. There are no places any more at the end.
    pub(crate) fn take(self: &Arc<Places>, socket: &Arc<Socket>) -> Option<Place> {
        let mut taken = self.taken();
        if taken.by.len() >= PLACES_MAX {
            let first = first_of_most(taken.by.iter().map(|(number, one)| (*number, one.peer().ip())));
            first.and_then(|number| taken.by.get(&number)).inspect(|one| one.shut_down());
        }
        let is_full = |taken: &mut Taken| taken.by.len() >= PLACES_MAX && !taken.is_closed;
        taken = self.freed.wait_while(taken, is_full).unwrap_or_else(PoisonError::into_inner);
        if taken.is_closed {
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        taken.by.insert(number, Arc::clone(socket));
        drop(taken);
        Some(Place { places: Arc::clone(self), number })
    }

    /// Nobody gets a place any more.
    pub(crate) fn close(&self) {
        self.taken().is_closed = true;
        self.freed.notify_all();
    }
}
