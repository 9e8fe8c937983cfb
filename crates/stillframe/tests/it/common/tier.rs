//! The tier in which tests run: the short one of `make test`, or the long one of `make test-long`.
#![allow(dead_code)]

/// `short` in the short tier; `long` where nextest runs a profile of the long one (`.config/nextest.toml`).
pub fn by_tier<T>(short: T, long: T) -> T {
    match std::env::var("NEXTEST_PROFILE").as_deref() {
        Err(_) | Ok("default") => short,
        Ok(_) => long,
    }
}
