//! Answers with files that were sent and not taken yet.
//!
//! Files in a message that nobody takes stay open, and count as the broker's (`ETOOMANYREFS`, unix(7)). They cannot be called back. So each
//! user may leave some, and all together some more; whoever asks beyond that waits until others have taken theirs.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use stillframe_kernel::descriptors;
use stillframe_kernel::local::{self, Sign};

/// One answer.
#[derive(Debug)]
struct Sent {
    socket: OwnedFd,
    user: u32,
    files: u64,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Untaken {
    sent: Vec<Sent>,
    /// Files of each user.
    users: BTreeMap<u32, u64>,
    user_max: u64,
    all_max: u64,
}

impl Untaken {
    /// Leaves the better part of what this process may have open to everything else.
    pub(crate) fn new() -> Untaken {
        let limit = descriptors::limit();
        Untaken { sent: Vec::new(), users: BTreeMap::new(), user_max: limit / 8, all_max: limit / 2 }
    }

    /// Whether a user may get files. With nothing left he always may.
    pub(crate) fn has_room(&self, user: u32) -> bool {
        let is_below = |files: u64, most: u64| files == 0 || files < most;
        let own = self.users.get(&user).copied().unwrap_or(0);
        is_below(own, self.user_max) && is_below(self.users.values().sum(), self.all_max)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// An answer, with its connection; that takes a descriptor, too.
    pub(crate) fn push(&mut self, socket: OwnedFd, user: u32, files: usize) {
        let files = files as u64 + 1;
        *self.users.entry(user).or_default() += files;
        self.sent.push(Sent { socket, user, files });
    }

    /// What there is to watch: whether the other end is still there.
    pub(crate) fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        self.sent.iter().map(|sent| (sent.socket.as_fd(), false))
    }

    /// Takes note of those that ended, in the order of [`watched`](Untaken::watched), and of those that were taken. Their connections
    /// are returned.
    pub(crate) fn note(&mut self, signs: &[Sign]) -> Vec<OwnedFd> {
        let mut done = Vec::new();
        let sent = std::mem::take(&mut self.sent);
        for (number, sent) in sent.into_iter().enumerate() {
            let is_over = signs.get(number).is_some_and(|sign| sign.ended) || local::is_taken(&sent.socket);
            if !is_over {
                self.sent.push(sent);
                continue;
            }
            if let Some(files) = self.users.get_mut(&sent.user) {
                *files -= sent.files;
            }
            done.push(sent.socket);
        }
        self.users.retain(|_, files| *files > 0);
        done
    }

    pub(crate) fn into_sockets(self) -> impl Iterator<Item = OwnedFd> {
        self.sent.into_iter().map(|sent| sent.socket)
    }
}
