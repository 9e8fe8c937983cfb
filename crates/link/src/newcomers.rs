//! Connections whose first words have not come: a descriptor each, and no thread.
//!
//! Anybody who reaches the port may connect, on this machine every user, and say nothing. So nobody is waited for here that has a
//! rival: where there are too many, the one goes that has been silent longest, of the address that has most of them. A runtime says its
//! first words at once, and needs a place for no longer than they are on their way.

use crate::error::{Error, Os, Refusal, Result};
use crate::greeting::{BULK, CLAIM_BYTES};
use crate::record::{HEAD_BYTES, RECORD_BYTES_MAX};
use crate::socket::Socket;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, TcpListener};
use std::time::{Duration, Instant};
use stillframe_kernel::Failure;
use stillframe_kernel::readiness::Readiness;

/// Connections at once whose first words are waited for.
pub(crate) const NEWCOMERS_MAX: usize = 256;

/// The number of the listener; connections have those from 0 on.
const LISTENER: u64 = u64::MAX;

/// What a record of TLS that shakes hands begins with.
const HANDSHAKE: u8 = 22;

/// Connections whose first words are waited for, by the order in which they came.
pub(crate) struct Newcomers {
    readiness: Readiness,
    all: BTreeMap<u64, Newcomer>,
    next: u64,
    patience: Duration,
    come: Vec<u8>,
}

struct Newcomer {
    socket: Socket,
    since: Instant,
}

impl Newcomers {
    /// None yet, each of which has this time for its first words. Beside them a listener is waited for.
    pub(crate) fn new(listener: &TcpListener, patience: Duration) -> Result<Newcomers, Failure> {
        let readiness = Readiness::new()?;
        readiness.add(listener, LISTENER)?;
        Ok(Newcomers { readiness, all: BTreeMap::new(), next: 0, patience, come: vec![0; RECORD_BYTES_MAX] })
    }

    /// Waits until something comes of one of them, or to the listener, or one was silent for too long, and at most so long; the numbers
    /// of those of which something came.
    pub(crate) fn wait(&self, longest: Option<Duration>) -> Result<Vec<u64>, Failure> {
        let first = self.all.first_key_value();
        let left = first.map(|(_, first)| self.patience.saturating_sub(first.since.elapsed()));
        self.readiness.wait(left.into_iter().chain(longest).min())
    }

    /// One more.
    ///
    /// # Errors
    /// This one, or another one for which there is no room any more, is given up.
    pub(crate) fn add(&mut self, socket: Socket) -> Result<()> {
        let (number, peer) = (self.next, socket.peer());
        let added = self.readiness.add(&socket, number);
        added.map_err(|failure| Error::Broken { peer, call: failure.call, source: Os::from(&failure) })?;
        self.next += 1;
        self.all.insert(number, Newcomer { socket, since: Instant::now() });
        let others = self.all.len() - 1;
        let displaced = (others >= NEWCOMERS_MAX)
            .then(|| first_of_most(self.all.iter().map(|(number, one)| (*number, one.socket.peer().ip()))))
            .flatten();
        match displaced.and_then(|number| self.all.remove(&number)) {
            Some(one) => Err(Error::Refused { peer: one.socket.peer(), why: Refusal::Silent { others } }),
            None => Ok(()),
        }
    }

    /// One to which something came, if those are its first words, or it has ended.
    pub(crate) fn take(&mut self, number: u64) -> Option<Socket> {
        let one = self.all.get(&number)?;
        let has_begun = match one.socket.peek(&mut self.come) {
            Ok(Some(bytes)) => bytes == 0 || is_whole(&self.come[..bytes]) || one.socket.has_hung_up(),
            Ok(None) => false,
            // Whoever meets it finds that out.
            Err(_) => true,
        };
        if !has_begun {
            return None;
        }
        let one = self.all.remove(&number)?;
        let _ = self.readiness.remove(&one.socket);
        Some(one.socket)
    }

    /// Gives up those that have been silent for too long.
    pub(crate) fn expire(&mut self) -> Vec<Error> {
        let mut expired = Vec::new();
        while let Some(first) = self.all.first_entry() {
            let waited = first.get().since.elapsed();
            if waited < self.patience {
                break;
            }
            let peer = first.remove().socket.peer();
            expired.push(Error::Timeout { peer, what: "receiving from", waited, is_intact: false });
        }
        expired
    }
}

/// Whether all is there that somebody says before it waits for an answer: a record of TLS, the claim of a connection for bulk, or what is
/// neither, and refused by whoever reads it.
fn is_whole(come: &[u8]) -> bool {
    let bytes = match *come {
        [HANDSHAKE, _, _, high, low, ..] => HEAD_BYTES + usize::from(u16::from_be_bytes([high, low])),
        [HANDSHAKE, ..] => HEAD_BYTES,
        _ if come.starts_with(&BULK) => BULK.len() + CLAIM_BYTES,
        _ if BULK.starts_with(come) => BULK.len(),
        _ => 0,
    };
    bytes > RECORD_BYTES_MAX || come.len() >= bytes
}

/// The number of the one that came first, of the address of which there are most.
pub(crate) fn first_of_most(all: impl Iterator<Item = (u64, IpAddr)>) -> Option<u64> {
    let mut counts: HashMap<IpAddr, (usize, std::cmp::Reverse<u64>)> = HashMap::new();
    for (number, address) in all {
        let (count, first) = counts.entry(address).or_insert((0, std::cmp::Reverse(number)));
        *count += 1;
        first.0 = first.0.min(number);
    }
    counts.into_values().max().map(|(_, first)| first.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_in_a_crowd_displaces_its_own() {
        let [here, there] = [[127, 0, 0, 1], [10, 0, 0, 7]].map(IpAddr::from);
        assert_eq!(first_of_most([].into_iter()), None);
        assert_eq!(first_of_most([(3, here), (4, there)].into_iter()), Some(3));
        assert_eq!(first_of_most([(3, here), (4, there), (5, there)].into_iter()), Some(4));
        let crowd = (0..100).map(|number| (number, if number % 2 == 0 { there } else { here }));
        assert_eq!(first_of_most(crowd.chain([(100, here)])), Some(1));
    }

    #[test]
    fn first_words_are_waited_for_until_they_are_whole() {
        let hello = [HANDSHAKE, 3, 1, 0, 2, 7, 7];
        let claim = [&BULK[..], &[0; CLAIM_BYTES]].concat();
        for whole in [&hello[..], &claim] {
            assert!((1..whole.len()).all(|bytes| !is_whole(&whole[..bytes])));
            assert!(is_whole(whole));
        }
        // What is no beginning of these is not waited for.
        for other in [&b"GET"[..], b"SFLX", &[HANDSHAKE, 3, 1, 0xff, 0xff]] {
            assert!(is_whole(other));
        }
    }
}
