//! Endpoints of one process that talk to each other through shared memory.
//!
//! The provider `shm` gives both of them one mapping, that of the endpoint which is reached, and unmaps it when that is closed. So an
//! endpoint is closed only when no other one of this process uses it any more. Other processes have mappings of their own.

use super::endpoint::Made;
use crate::error::{Error, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Neighbour {
    address: Vec<u8>,
    /// Itself, until it is dropped, and those that reach it.
    users: usize,
    /// What is to be closed.
    made: Made,
}

static ALL: Mutex<Vec<Neighbour>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<Neighbour>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An endpoint is there.
pub(super) fn enter(address: &[u8]) {
    all().push(Neighbour { address: address.to_vec(), users: 1, made: Made::default() });
}

/// An endpoint is to be reached by another one, which `insert` does. Meanwhile none is closed. Whether it is of this process.
///
/// # Errors
/// Those of `insert`, and [`Error::Address`] for one of this process that is closed already.
pub(super) fn reach(address: &[u8], own: &[u8], insert: impl FnOnce() -> Result<()>) -> Result<bool> {
    let mut all = all();
    let found = all.iter_mut().find(|one| one.address == address);
    if found.is_none() && process(address) == process(own) {
        return Err(Error::Address { why: "it is of an end that is gone" });
    }
    insert()?;
    Ok(found.map(|one| one.users += 1).is_some())
}

/// Whose an address is: `fi_shm://PROCESS:…`.
fn process(address: &[u8]) -> Option<&[u8]> {
    address.split(|byte| *byte == b':').nth(1)
}

/// An endpoint, which reached another one perhaps, is used no more. It is closed now or later.
pub(super) fn leave(address: &[u8], reached: Option<&[u8]>, made: Made) {
    let mut all = all();
    if let Some(own) = all.iter_mut().find(|one| one.address == address) {
        own.made = made;
        own.users -= 1;
    }
    if let Some(other) = all.iter_mut().find(|one| Some(one.address.as_slice()) == reached) {
        other.users -= 1;
    }
    all.retain(|one| one.users > 0);
}
