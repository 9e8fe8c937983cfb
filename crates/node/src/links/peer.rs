//! Another node: the connections to it, and when it was last heard.

use super::channel::Channel;
use super::frames::ITEM_BYTES;
use crate::diagnostics;
use crate::network::Transmission;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stillframe_etcd::NodeInfo;
use stillframe_kernel::boot_ns;
use stillframe_roster::writer::Node;
use stillframe_wire::Message;
use stillframe_wire::hello::Hello;

/// How often another node is asked whether it is there, and for how long an answer counts.
///
/// Both are parts of the lease. Who is cut off from all others sent its last keep-alive up to a third of a lease before: what counts for
/// two thirds counts no more when etcd takes the lease away, which may be a lease after that keep-alive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pulse {
    pub(super) every: Duration,
    pub(super) counts: Duration,
}

impl Pulse {
    /// Of nodes with this lease.
    pub(super) fn of(lease: Duration) -> Pulse {
        Pulse { every: lease / 4, counts: lease * 2 / 3 }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().min(u64::MAX.into()) as u64
}

/// Another node. Times are of this machine's clock ([`boot_ns`]), 0 for never.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) node: Node,
    pub(super) info: NodeInfo,
    pub(super) messages: Channel<Message>,
    pub(super) versions: Channel<Box<dyn Transmission>>,
    /// What was said of it on standard error; empty after it was heard.
    said: Mutex<String>,
    pub(super) sent_bytes: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    since_ns: u64,
    /// When it was asked last, which also is the number of that ping.
    pinged_ns: AtomicU64,
    /// When the newest ping was sent that it answered: then, or later, it counted this node as one.
    heard_ns: AtomicU64,
    /// When its newest ping was answered: it may count on this node from then on.
    answered_ns: AtomicU64,
}

impl Peer {
    pub(super) fn new(node: Node, info: &NodeInfo) -> Peer {
        Peer {
            node,
            info: info.clone(),
            messages: Channel::new(),
            versions: Channel::new(),
            said: Mutex::default(),
            sent_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            since_ns: boot_ns(),
            pinged_ns: AtomicU64::new(0),
            heard_ns: AtomicU64::new(0),
            answered_ns: AtomicU64::new(0),
        }
    }

    /// Whether this is the runtime that greets so, and not another one with its number or at its address.
    pub(super) fn is_who(&self, hello: &Hello) -> bool {
        hello.node == self.node && hello.incarnation == u128::from(self.info.incarnation)
    }

    pub(super) fn end(&self) {
        self.messages.end();
        self.versions.end();
    }

    /// Asks it, on a new connection in either direction: an answer may have been lost with the one before.
    pub(super) fn ask(&self) {
        self.messages.push([self.ping()], ITEM_BYTES);
    }

    /// What asks it.
    pub(super) fn ping(&self) -> Message {
        let now_ns = boot_ns();
        self.pinged_ns.fetch_max(now_ns, Ordering::Relaxed);
        Message::Ping(now_ns)
    }

    /// How long until it is to be asked once more.
    pub(super) fn next_ping(&self, pulse: Pulse) -> Duration {
        let since_ns = boot_ns().saturating_sub(self.pinged_ns.load(Ordering::Relaxed));
        pulse.every.saturating_sub(Duration::from_nanos(since_ns))
    }

    /// Answers its ping of a number.
    pub(super) fn answer(&self, number: u64) {
        self.answered_ns.store(boot_ns(), Ordering::Relaxed);
        self.messages.push([Message::Pong(number)], ITEM_BYTES);
    }

    /// Until when it may count on this node, whose clock may be an eighth faster than its own.
    pub(super) fn counts_until_ns(&self, pulse: Pulse) -> u64 {
        let counts_ns = nanoseconds(pulse.counts);
        self.answered_ns.load(Ordering::Relaxed).saturating_add(counts_ns + counts_ns / 8)
    }

    /// It answered the ping of a number.
    pub(super) fn hear(&self, number: u64) {
        if number <= self.pinged_ns.load(Ordering::Relaxed) {
            self.heard_ns.fetch_max(number, Ordering::Relaxed);
        }
    }

    /// Whether it answered lately.
    pub(super) fn is_heard(&self, pulse: Pulse) -> bool {
        let heard_ns = self.heard_ns.load(Ordering::Relaxed);
        heard_ns > 0 && boot_ns().saturating_sub(heard_ns) < nanoseconds(pulse.counts)
    }

    /// Whether messages to it arrive, and answers come back.
    pub(super) fn is_connected(&self, pulse: Pulse) -> bool {
        self.has_connection() && self.is_heard(pulse)
    }

    /// Whether there is a connection for messages to it, as far as this side knows.
    pub(super) fn has_connection(&self) -> bool {
        let cut = self.messages.waiting().cut.clone();
        cut.is_some_and(|cut| !cut.has_ended())
    }

    /// Says that it is silent, once each time, unless there is more to be said of it.
    pub(super) fn note_silence(&self, pulse: Pulse) {
        if self.is_heard(pulse) {
            return self.said().clear();
        }
        let last_ns = self.since_ns.max(self.heard_ns.load(Ordering::Relaxed));
        let is_long = boot_ns().saturating_sub(last_ns) >= nanoseconds(pulse.counts);
        if is_long && self.said().is_empty() {
            self.say(format!("it has not answered for {:.1} s", pulse.counts.as_secs_f64()));
        }
    }

    fn said(&self) -> MutexGuard<'_, String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something once, for whoever looks why nodes do not find each other.
    pub(super) fn say(&self, why: String) {
        let mut said = self.said();
        if *said != why {
            diagnostics::report(format!("node {} at {}: {why}", self.node.0, self.info.address));
            *said = why;
        }
    }
}
