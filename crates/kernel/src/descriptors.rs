//! How many descriptors this process may have (getrlimit(2)).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many it may have now.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises that to what it may raise it to. What fails leaves it as it was.
///
/// Not for processes that anybody else has a part in: `select` knows no descriptors above 1024.
pub fn raise_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
