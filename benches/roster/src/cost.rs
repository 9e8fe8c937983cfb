//! What is measured.

use std::ops::Sub;
use stillframe_kernel::process_time;

/// What was done and sent since the world began.
#[derive(Debug, Default, Clone, Copy)]
pub struct Cost {
    /// Processor time of the home: decoding, deciding, encoding.
    pub home_ns: u64,
    /// Processor time of all nodes together.
    pub nodes_ns: u64,
    /// Messages to the home.
    pub in_messages: u64,
    /// Their bodies.
    pub in_bytes: u64,
    /// Messages from the home.
    pub out_messages: u64,
    /// Their bodies.
    pub out_bytes: u64,
    /// The bodies of those that say who writes the object.
    pub roster_bytes: u64,
    /// Messages that are longer than any may be.
    pub long_messages: u64,
}

impl Sub for Cost {
    type Output = Cost;

    fn sub(self, before: Cost) -> Cost {
        Cost {
            home_ns: self.home_ns - before.home_ns,
            nodes_ns: self.nodes_ns - before.nodes_ns,
            in_messages: self.in_messages - before.in_messages,
            in_bytes: self.in_bytes - before.in_bytes,
            out_messages: self.out_messages - before.out_messages,
            out_bytes: self.out_bytes - before.out_bytes,
            roster_bytes: self.roster_bytes - before.roster_bytes,
            long_messages: self.long_messages - before.long_messages,
        }
    }
}

/// How much memory is taken for the object.
#[derive(Debug, Default, Clone, Copy)]
pub struct Memory {
    /// By the home.
    pub home_bytes: i64,
    /// By all nodes together, without rosters.
    pub nodes_bytes: i64,
    /// By the roster at each node.
    pub roster_bytes: i64,
}

/// Processor time of what is done from now on.
#[derive(Debug)]
pub struct Meter {
    begin_ns: u64,
}

impl Meter {
    /// Begins.
    pub fn start() -> Self {
        Self { begin_ns: process_ns() }
    }

    /// Nanoseconds since the start.
    pub fn read_ns(&self) -> u64 {
        process_ns() - self.begin_ns
    }
}

/// There is but one thread: what others of the machine do does not count.
fn process_ns() -> u64 {
    process_time().as_nanos().min(u64::MAX.into()) as u64
}
