//! Pools that tests make, unless this machine lets nobody have one.

#[path = "../../../../stillframe/tests/it/common/machine.rs"]
mod machine;

use machine::lock_machine;
use std::ops::ControlFlow;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use stillframe_kernel::user_id;
use stillframe_pages::reserve::{Access, Request, give_back, reserve};
use stillframe_pages::supply::System;
use stillframe_pages::{Error, Page, Pool};

pub const MIB: u64 = 1 << 20;

/// How long something may take before it counts as not coming about.
const PATIENCE: Duration = Duration::from_secs(120);

/// A mount namespace keeps whatever is mounted while it begins. So tests that make some are apart from all others.
static APART: RwLock<()> = RwLock::new(());

/// For a test that makes mount namespaces.
pub fn apart() -> RwLockWriteGuard<'static, ()> {
    lock_machine();
    APART.write().unwrap_or_else(PoisonError::into_inner)
}

/// For any other test.
pub fn beside() -> RwLockReadGuard<'static, ()> {
    lock_machine();
    APART.read().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until something is so. Whoever looks at what another process has may keep that for a moment after its end, and so do
/// programs that another test just starts.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until so much of a pool is free.
#[track_caller]
pub fn is_free(pool: &Pool, bytes: u64) {
    let free_bytes = || pool.size(&System::default()).unwrap().free_bytes;
    until(&format!("{bytes} free bytes of {}", pool.name), || free_bytes() == bytes);
}

/// Gives a pool back that nobody has anything of, as soon as that is seen.
pub fn give_back_unused(name: &str, is_forced: bool) -> Result<(), Error> {
    let end = Instant::now() + PATIENCE;
    loop {
        match give_back(&System::default(), name, is_forced) {
            Err(Error::Busy { .. }) if Instant::now() < end && !std::thread::panicking() => {
                std::thread::sleep(Duration::from_millis(2));
            }
            given => return given,
        }
    }
}

/// A pool that is given back at the end.
pub struct Made(pub Pool);

impl Made {
    pub fn new(name: &str, bytes: u64, access: Access) -> Option<Made> {
        let name = format!("test-{name}-{}", std::process::id());
        let made = reserve(&System::default(), &request(&name, bytes, access), &mut |_| ControlFlow::Continue(()));
        had(made).map(Made)
    }
}

pub fn request(name: &str, bytes: u64, access: Access) -> Request {
    Request { name: name.into(), bytes, page: Page::Large, by_node: false, is_filled: true, access }
}

/// Says why a test does nothing.
pub fn skip(why: impl std::fmt::Display) {
    eprintln!("SKIPPED: {why}");
}

/// A pool, unless this machine lets nobody have one.
pub fn had(made: Result<Pool, Error>) -> Option<Pool> {
    match made {
        Ok(pool) => Some(pool),
        Err(error @ (Error::NotPermitted { .. } | Error::NoSuchPage { .. } | Error::TooFew { .. })) => {
            skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let given = give_back_unused(&self.0.name, true);
        assert!(matches!(given, Ok(()) | Err(Error::NoPool { .. })) || std::thread::panicking(), "{given:?}");
    }
}

pub fn own() -> Access {
    Access { user: user_id(), group: 0, mode: 0o700 }
}
