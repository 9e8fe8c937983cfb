//! Another node, as the connections to it know it.

use super::channel::Channel;
use crate::network::Transmission;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use stillframe_roster::writer::Node;
use stillframe_wire::Message;

/// Another node.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) node: Node,
    pub(super) address: String,
    pub(super) messages: Channel<Message>,
    pub(super) versions: Channel<Box<dyn Transmission>>,
    /// Why it did not want this node, as was said on standard error.
    pub(super) said: Mutex<String>,
    pub(super) sent_bytes: AtomicU64,
    pub(super) received_bytes: AtomicU64,
}

impl Peer {
    pub(super) fn end(&self) {
        self.messages.end();
        self.versions.end();
    }

    /// Says something once, for whoever looks why nodes do not find each other.
    pub(super) fn say(&self, why: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said != why {
            eprintln!("still node: node {} at {}: {why}", self.node.0, self.address);
            *said = why;
        }
    }
}
