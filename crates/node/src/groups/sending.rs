//! A version of ranks of this node, on its way to another one.

use crate::groups::content::Content;
use crate::network::{Outgoing, Transmission};
use crate::sending::make_room;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use stillframe::Snapshot;
use stillframe_wire::Message;
use stillframe_wire::bounds::TEXT_BYTES_MAX;
use stillframe_wire::group::{GroupLost, GroupPiece, GroupRank, GroupSent};

/// Bytes that are sent at once.
const PIECE_BYTES: usize = 4 << 20;

/// Ranks with a version of each.
type Snapshots = Mutex<Vec<(u32, Snapshot)>>;

/// A version of ranks, held until it is sent or until this is dropped, for nobody waits for it any more: a slow link keeps nothing else
/// of a rank, and of what is being sent only the piece that is on its way goes on.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) fetch: u64,
    snapshots: Arc<Snapshots>,
}

/// The sending of what is held.
#[derive(Debug)]
pub(super) struct Job {
    fetch: u64,
    snapshots: Weak<Snapshots>,
}

impl Held {
    pub(super) fn new(fetch: u64, snapshots: Vec<(u32, Snapshot)>) -> Held {
        Held { fetch, snapshots: Arc::new(Mutex::new(snapshots)) }
    }

    /// What sends it.
    pub(super) fn job(&self) -> Job {
        Job { fetch: self.fetch, snapshots: Arc::downgrade(&self.snapshots) }
    }
}

impl Job {
    fn is_wanted(&self) -> bool {
        self.snapshots.strong_count() > 0
    }

    /// Sends a rank, and whether that was wanted to its end; why it cannot be, unless it is the connection that ended.
    fn send(&self, to: &mut dyn Outgoing, rank: u32, snapshot: &Snapshot) -> io::Result<Result<bool, String>> {
        let fetch = self.fetch;
        let content = match serde_json::to_string(&Content::of(snapshot)) {
            Ok(content) if content.len() <= TEXT_BYTES_MAX => content,
            Ok(content) => return Ok(Err(format!("its variables take {} bytes to describe", content.len()))),
            Err(error) => return Ok(Err(error.to_string())),
        };
        if !self.is_wanted() {
            return Ok(Ok(false));
        }
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
                if !self.is_wanted() {
                    return Ok(Ok(false));
                }
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
        Ok(Ok(true))
    }
}

impl Transmission for Job {
    /// What cannot be read is told to who waits.
    fn run(self: Box<Self>, to: &mut dyn Outgoing) -> io::Result<()> {
        let fetch = self.fetch;
        let Some(held) = self.snapshots.upgrade() else { return Ok(()) };
        let snapshots = std::mem::take(&mut *held.lock().unwrap_or_else(PoisonError::into_inner));
        // Whether it is wanted counts who else has it.
        drop(held);
        for (rank, snapshot) in snapshots {
            match self.send(to, rank, &snapshot)? {
                Ok(true) => to.send(Message::GroupSent(GroupSent { fetch, rank }), &[])?,
                Ok(false) => return Ok(()),
                // Without it the others are of no use.
                Err(why) => return to.send(Message::GroupLost(GroupLost { fetch, rank, why }), &[]),
            }
        }
        Ok(())
    }
}
