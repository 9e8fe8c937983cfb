//! Who carries messages to other nodes.

use crate::message::{Message, ObjectId};
use std::fmt::Debug;
use stillframe_roster::writer::Node;

/// Carries messages. What comes in is given to [`Runtime::receive`](crate::Runtime::receive).
pub trait Network: Send + Sync + Debug {
    /// Sends a message, without waiting for anything. It arrives behind those that were sent to the node before, or the
    /// connection ends: then [`Runtime::connected`](crate::Runtime::connected) is called when there is another.
    fn send(&self, to: Node, object: ObjectId, message: Message);
}
