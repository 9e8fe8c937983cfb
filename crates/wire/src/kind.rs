//! What a message is, beside its body.

use std::fmt;

/// The number of a kind of message. It is never used for anything else; what a later version adds has other numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u16);

macro_rules! kinds {
    ($($name:ident = $number:literal, $about:literal;)*) => {
        impl Kind {
            $(
                #[doc = $about]
                pub const $name: Kind = Kind($number);
            )*

            /// All that this version knows, with what people call them.
            pub const ALL: &'static [(Kind, &'static str)] = &[$((Kind($number), stringify!($name)),)*];
        }
    };
}

kinds! {
    HELLO = 1, "Who begins, and what it speaks.";
    REFUSE = 2, "Why there will be no conversation.";
    PING = 3, "Asks whether the other side is there.";
    PONG = 4, "The answer.";
    BYE = 5, "The last message, where there is time for one.";
    REPORTS = 16, "What a node says of its writers, whole, for many objects.";
    CHANGES = 17, "What is new since a report.";
    DECISIONS = 18, "What homes decided.";
    ASK = 19, "Asks for a report.";
    LAYOUTS = 20, "How fragments of a node's writers lie.";
    ROSTER = 21, "Who writes an object, on all nodes.";
    ROSTER_CHANGE = 22, "Who else writes it since then, and who does no more.";
    DESCRIBE = 23, "Asks what an object is.";
    DESCRIPTION = 24, "The answer.";
    SUBSCRIBE = 32, "Asks for elements of a version.";
    UNSUBSCRIBE = 33, "Asks for them no more.";
    SOURCES = 34, "What will be sent per version, and where it goes.";
    PIECE = 35, "Bytes of a version: the frame's bulk.";
    SENT = 36, "All of a version was sent.";
    LOST = 39, "A version cannot be had.";
    UNCHANGED = 40, "Bytes of a version that the receiver has already.";
    GROUP_FOLLOW = 48, "Asks a node to tell of its ranks of a group.";
    GROUP_LEAVE = 49, "Asks to be told of them no more.";
    GROUP_RANKS = 50, "What a node says of its ranks of a group, whole.";
    GROUP_GET = 51, "Asks for a version of ranks.";
    GROUP_RANK = 52, "What a version of a rank consists of.";
    GROUP_PIECE = 53, "Bytes of it: the frame's bulk.";
    GROUP_SENT = 54, "All of a rank's version was sent.";
    GROUP_LOST = 55, "A version of a rank cannot be had.";
    GROUP_LIST = 56, "Asks a node which groups it has ranks of.";
    GROUP_LISTED = 57, "The answer.";
}

impl Kind {
    /// What people call it; `None` of one that this version does not know.
    pub fn name(self) -> Option<&'static str> {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map(|(_, name)| *name)
    }

    /// Whether bulk follows the body. That of other kinds has no meaning.
    pub fn has_bulk(self) -> bool {
        self == Self::PIECE || self == Self::GROUP_PIECE
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "kind {}", self.0),
        }
    }
}
