//! What is wrong with a message.

use stillframe_roster::writer::Node;

use crate::{bounds::BODY_BYTES_MAX, hello::Protocols, kind::Kind};

/// Why bytes are no message, or two runtimes cannot talk. Offsets are in bytes from the begin of the body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A kind that this version does not know. A newer one may: the message is to be left aside, and the conversation goes on.
    #[error("messages of {kind} are not known here; a newer runtime sends them, and they can be left aside")]
    UnknownKind {
        /// Its number.
        kind: Kind,
    },
    /// A body that is longer than any.
    #[error("a body of {kind} has {bytes} bytes, and at most {BODY_BYTES_MAX} are read; send less at a time")]
    Long {
        /// Of what.
        kind: Kind,
        /// How long it is.
        bytes: usize,
    },
    /// The body ends before it is complete.
    #[error("{kind} at byte {offset}: {missing} bytes are missing at its end; the sender writes another format")]
    Short {
        /// Of what.
        kind: Kind,
        /// Where the bytes that are missing would belong to something.
        offset: usize,
        /// At least so many.
        missing: usize,
    },
    /// Bytes follow the message.
    #[error("{kind} at byte {offset}: {bytes} bytes follow its end; the sender writes another format")]
    Rest {
        /// Of what.
        kind: Kind,
        /// Where the message ends.
        offset: usize,
        /// How many follow.
        bytes: usize,
    },
    /// A text that is longer than any.
    #[error("{kind} at byte {offset}: {what} of {found} bytes, and at most {most} are read")]
    Bound {
        /// Of what.
        kind: Kind,
        /// Where it says so.
        offset: usize,
        /// What it is.
        what: &'static str,
        /// How long it is, in bytes.
        found: u64,
        /// How long it may be, in bytes.
        most: u64,
    },
    /// A value that is none, or that does not go with others.
    #[error("{kind} at byte {offset}: {what}")]
    Invalid {
        /// Of what.
        kind: Kind,
        /// Where.
        offset: usize,
        /// What is wrong, as a sentence.
        what: &'static str,
    },
    /// There is no memory for it.
    #[error("{kind} at byte {offset}: there is no memory for {bytes} bytes")]
    Memory {
        /// Of what.
        kind: Kind,
        /// Where the number is that asks for so much.
        offset: usize,
        /// How much it would take.
        bytes: usize,
    },
    /// A change of another report than the one that is known.
    #[error("a change follows report {base} of node {}, but {known} is known; send the whole report", node.0)]
    Base {
        /// Whose.
        node: Node,
        /// The serial of the report that it follows.
        base: u64,
        /// The serial of the one that is known.
        known: u64,
    },
    /// Two runtimes that speak no common protocol.
    #[error("here protocols {own} are spoken, there {theirs}; install versions that have one in common")]
    Protocols {
        /// What is spoken here.
        own: Protocols,
        /// What is spoken there.
        theirs: Protocols,
    },
    /// Two runtimes of different jobs.
    #[error("here runs job {own:?}, there {theirs:?}; give the runtimes of one job one name")]
    Job {
        /// The job here.
        own: String,
        /// The job there.
        theirs: String,
    },
    /// Two runtimes that both say that they are one node.
    #[error("{theirs:?} says that it is node {}, which {own:?} is; let one of them join again", node.0)]
    Node {
        /// Which.
        node: Node,
        /// The host here.
        own: String,
        /// The host there.
        theirs: String,
    },
    /// Two runtimes whose regions differ.
    #[error("here regions have the format {own}, there {theirs}; install the same version on all nodes")]
    Abi {
        /// The format here.
        own: u32,
        /// The format there.
        theirs: u32,
    },
}

impl Fault {
    /// Whether the message is of a kind that a newer version has, and is to be left aside.
    pub fn is_unknown_kind(&self) -> bool {
        matches!(self, Self::UnknownKind { .. })
    }
}
