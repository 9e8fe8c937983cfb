//! Pools that tests make, unless this machine lets nobody have one.

use std::ops::ControlFlow;
use stillframe_kernel::user_id;
use stillframe_pages::reserve::{Access, Request, give_back, reserve};
use stillframe_pages::supply::System;
use stillframe_pages::{Error, Page, Pool};

pub const MIB: u64 = 1 << 20;

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
        let given = give_back(&System::default(), &self.0.name, true);
        assert!(matches!(given, Ok(()) | Err(Error::NoPool { .. })) || std::thread::panicking(), "{given:?}");
    }
}

pub fn own() -> Access {
    Access { user: user_id(), group: 0, mode: 0o700 }
}
