//! All messages, and their kinds.

use crate::{
    bounds::BODY_BYTES_MAX,
    data::{Lost, Piece, Sent, Sources, Subscribe, Unchanged, Unsubscribe},
    fault::Fault,
    group::{GroupGet, GroupList, GroupListed, GroupLost, GroupName, GroupPiece, GroupRank, GroupRanks, GroupSent},
    hello::{Hello, Refuse},
    kind::Kind,
    liveness::Bye,
    reader::Reader,
    roster::{Ask, Describe, Description, Layouts, ObjectChange, ObjectDecision, ObjectReport, Roster, RosterChange},
    writer::Writer,
};

macro_rules! messages {
    ($($(#[$about:meta])* $name:ident($body:ty) = $kind:ident;)*) => {
        /// A message between two runtimes.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Message {
            $($(#[$about])* $name($body),)*
        }

        impl Message {
            /// Its kind.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$name(_) => Kind::$kind,)*
                }
            }

            /// Appends its body. A body that is longer than [`BODY_BYTES_MAX`] is not read: whoever sends many reports or
            /// decisions looks at the length, and sends them in several messages.
            ///
            /// What is encoded keeps the promises of its types; what does not is refused by whoever decodes it.
            pub fn encode(&self, body: &mut Vec<u8>) -> Kind {
                let mut to = Writer::new(body);
                match self {
                    $(Self::$name(body) => to.item(body),)*
                }
                self.kind()
            }

            /// What [`encode`](Self::encode) wrote. It encodes to the same bytes again.
            ///
            /// # Errors
            ///
            /// See [`Fault`]. Messages of [unknown kinds](Fault::UnknownKind) are to be left aside; after any other fault
            /// the two sides do not understand each other.
            pub fn decode(kind: Kind, body: &[u8]) -> Result<Self, Fault> {
                if kind.name().is_none() {
                    return Err(Fault::UnknownKind { kind });
                }
                if body.len() > BODY_BYTES_MAX {
                    return Err(Fault::Long { kind, bytes: body.len() });
                }
                let mut from = Reader::new(kind, body);
                let message = match kind {
                    $(Kind::$kind => Self::$name(from.item()?),)*
                    _ => return Err(Fault::UnknownKind { kind }),
                };
                from.end()?;
                Ok(message)
            }
        }
    };
}

messages! {
    /// Who begins, and what it speaks.
    Hello(Hello) = HELLO;
    /// Why there will be no conversation.
    Refuse(Refuse) = REFUSE;
    /// Asks whether the other side is there; it answers with the same number.
    Ping(u64) = PING;
    /// The answer.
    Pong(u64) = PONG;
    /// The last message, where there is time for one.
    Bye(Bye) = BYE;
    /// What a node says of its writers, whole, for many objects.
    Reports(Vec<ObjectReport>) = REPORTS;
    /// What is new since reports that were sent before.
    Changes(Vec<ObjectChange>) = CHANGES;
    /// What homes decided for the node.
    Decisions(Vec<ObjectDecision>) = DECISIONS;
    /// A new home asks for a report.
    Ask(Ask) = ASK;
    /// How fragments of a node's writers lie.
    Layouts(Layouts) = LAYOUTS;
    /// Who writes an object, on all nodes.
    Roster(Roster) = ROSTER;
    /// What is new since a roster.
    RosterChange(RosterChange) = ROSTER_CHANGE;
    /// Asks what an object is that the other side spoke of.
    Describe(Describe) = DESCRIBE;
    /// The answer.
    Description(Description) = DESCRIPTION;
    /// Asks for elements of a version.
    Subscribe(Box<Subscribe>) = SUBSCRIBE;
    /// Asks for them no more.
    Unsubscribe(Unsubscribe) = UNSUBSCRIBE;
    /// What will be sent per version, and where it goes.
    Sources(Sources) = SOURCES;
    /// Bytes of a version: the frame's bulk.
    Piece(Piece) = PIECE;
    /// All of a version was sent.
    Sent(Sent) = SENT;
    /// A version cannot be had.
    Lost(Lost) = LOST;
    /// Bytes of a version that the receiver has already.
    Unchanged(Unchanged) = UNCHANGED;
    /// Asks a node to tell of its ranks of a group from now on.
    GroupFollow(GroupName) = GROUP_FOLLOW;
    /// Asks to be told of them no more.
    GroupLeave(GroupName) = GROUP_LEAVE;
    /// What a node says of its ranks of a group, whole.
    GroupRanks(GroupRanks) = GROUP_RANKS;
    /// Asks for a version of ranks.
    GroupGet(GroupGet) = GROUP_GET;
    /// What a version of a rank consists of.
    GroupRank(GroupRank) = GROUP_RANK;
    /// Bytes of it: the frame's bulk.
    GroupPiece(GroupPiece) = GROUP_PIECE;
    /// All of a rank's version was sent.
    GroupSent(GroupSent) = GROUP_SENT;
    /// A version of a rank cannot be had.
    GroupLost(GroupLost) = GROUP_LOST;
    /// Asks a node which groups it has ranks of.
    GroupList(GroupList) = GROUP_LIST;
    /// The answer.
    GroupListed(GroupListed) = GROUP_LISTED;
}
