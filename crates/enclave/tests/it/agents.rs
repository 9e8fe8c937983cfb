//! Enclaves that share memory: two directories of regions with locks of their own, as two kernels have them, over the same files.
#![allow(unsafe_code)]

mod arenas;
mod damage;
mod leases;
mod lists;
mod machines;
mod publishing;
mod restarts;
mod roles;

use crate::helper::enter;
use crate::pair::be_agent;
use roles::*;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn helper_process() {
    enter(&[
        ("agent", be_agent),
        ("machine", be_machine),
        ("observe", observe),
        ("follow", follow),
        ("check", check),
        ("fill", fill),
        ("crowd", crowd),
        ("hold", hold),
        ("list", list),
        ("play", play),
        ("produce", produce),
        ("mark", mark),
        ("say", say_what_comes),
        ("ask", ask),
        ("answer", answer),
        ("rest", rest),
    ]);
}
