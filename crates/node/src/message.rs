//! What runtimes send each other.
//!
//! Messages from one node to another arrive in order, or the connection ends. When there is a new one, both sides send again
//! what the other has to know: reports, decisions, rosters and subscriptions say all that counts, so that it does no harm to
//! get them twice.

use drepl::transfer::Transfer;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use stillframe_object::Description;
use stillframe_roster::message::{Decision, Report};
use stillframe_roster::writer::{Revision, Version, Writer};

/// Tells an object from all others, also from former ones of its name.
pub type ObjectId = NonZeroU64;

/// The layout of a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// In the layout language.
    pub text: String,
    /// Numbers of the names that the text leaves open.
    pub bindings: BTreeMap<String, i64>,
}

/// A fragment that somebody writes, as all nodes know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Whose.
    pub writer: Writer,
    /// Its rank in a parallel program, if it said so.
    pub rank: Option<u32>,
    /// Its layout.
    pub layout: Layout,
    /// The first version that it writes.
    pub from: Version,
    /// The first that it does not write any more.
    pub left: Option<Version>,
    /// Whether its process died, or its node was lost.
    pub died: bool,
    /// How many writers the program said there are.
    pub expected: Option<u32>,
}

/// A message, of an object that it names.
#[derive(Debug, Clone)]
pub enum Message {
    /// From the home, to one that has not reported: report.
    Ask {
        /// The object's name.
        name: String,
        /// The home's term.
        revision: Revision,
    },
    /// To the home: all that a node knows of its writers.
    Report {
        /// The object's name.
        name: String,
        /// What roster's protocol has.
        report: Report,
        /// The layouts of the node's writers.
        layouts: Vec<(Writer, Layout)>,
    },
    /// From the home.
    Decision(Decision),
    /// From the home: who writes the object, on all nodes.
    Roster {
        /// The home's term.
        revision: Revision,
        /// Which of the home's rosters is newer.
        serial: u64,
        /// The fragments.
        declared: Arc<Vec<Declared>>,
    },
    /// To a node of writers: send a version of these to a fragment, as soon as all have it.
    Subscribe {
        /// The fragment, of those of the asking node.
        subscription: u64,
        /// Its layout.
        layout: Layout,
        /// The version.
        version: Version,
        /// Who has elements of the fragment.
        writers: Vec<Writer>,
    },
    /// To the same: send no more.
    Unsubscribe {
        /// The fragment.
        subscription: u64,
    },
    /// Elements of a writer, for a fragment.
    Piece {
        /// The fragment.
        subscription: u64,
        /// The version.
        version: Version,
        /// Whose.
        writer: Writer,
        /// When it was published.
        published_ns: u64,
        /// Where the bytes belong in the fragment.
        transfer: Transfer,
        /// The bytes, in the compact form of the transfer.
        bytes: Vec<u8>,
    },
    /// A version cannot be sent.
    Gone {
        /// The fragment.
        subscription: u64,
        /// The version.
        version: Version,
        /// Why.
        why: String,
    },
    /// Somebody created the object.
    Created {
        /// Its name.
        name: String,
        /// What with.
        description: Description,
    },
}
