//! A version of ranks of this node, on its way to another one.

use crate::groups::content::Content;
use crate::network::{Outgoing, Transmission};
use crate::sending::make_room;
use std::io;
use stillframe::Snapshot;
use stillframe_wire::Message;
use stillframe_wire::bounds::TEXT_BYTES_MAX;
use stillframe_wire::group::{GroupLost, GroupPiece, GroupRank, GroupSent};

/// Bytes that are sent at once.
const PIECE_BYTES: usize = 4 << 20;

/// A version of ranks, held until it was sent.
#[derive(Debug)]
pub(super) struct Ranks {
    pub(super) fetch: u64,
    pub(super) ranks: Vec<(u32, Snapshot)>,
}

impl Transmission for Ranks {
    /// What cannot be read is told to who waits.
    fn run(self: Box<Self>, to: &mut dyn Outgoing) -> io::Result<()> {
        let Ranks { fetch, ranks } = *self;
        for (rank, snapshot) in ranks {
            match send(to, fetch, rank, &snapshot)? {
                Ok(()) => to.send(Message::GroupSent(GroupSent { fetch, rank }), &[])?,
                Err(why) => to.send(Message::GroupLost(GroupLost { fetch, rank, why }), &[])?,
            }
        }
        Ok(())
    }
}

/// Sends a rank; why that cannot be, unless it is the connection that ended.
fn send(to: &mut dyn Outgoing, fetch: u64, rank: u32, snapshot: &Snapshot) -> io::Result<Result<(), String>> {
    let content = match serde_json::to_string(&Content::of(snapshot)) {
        Ok(content) if content.len() <= TEXT_BYTES_MAX => content,
        Ok(content) => return Ok(Err(format!("its variables take {} bytes to describe", content.len()))),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let published_ns = snapshot.published_ns();
    to.send(Message::GroupRank(GroupRank { fetch, rank, published_ns, content }), &[])?;
    for (number, variable) in snapshot.variables().iter().enumerate() {
        // Another user could cut the file short meanwhile: of his only copies are read.
        let view = match snapshot.is_foreign() {
            true => None,
            false => match snapshot.view(&variable.name) {
                Ok(view) => Some(view),
                Err(error) => return Ok(Err(error.to_string())),
            },
        };
        let mut copy = Vec::new();
        for begin in (0..variable.bytes).step_by(PIECE_BYTES) {
            let end = variable.bytes.min(begin + PIECE_BYTES);
            let bytes = match &view {
                Some(view) => &view[begin..end],
                None => {
                    let read = make_room(&mut copy, (end - begin) as u64).and_then(|()| {
                        snapshot.read(&variable.name, begin, &mut copy).map_err(|error| error.to_string())
                    });
                    if let Err(why) = read {
                        return Ok(Err(why));
                    }
                    &copy
                }
            };
            let piece = GroupPiece { fetch, rank, variable: number as u32, offset: begin as u64 };
            to.send(Message::GroupPiece(piece), bytes)?;
        }
    }
    Ok(Ok(()))
}
