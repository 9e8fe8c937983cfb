//! What both sides say first, inside TLS, and how a connection for bulk proves that it belongs to one in TLS.
//!
//! Each side says its version, how it sends bulk, and 32 random bytes. The key of both sides' random bytes never travels in the
//! clear, and is for one connection. Whoever connects opens the second connection to the same port, and names the first by a ticket
//! made from the key. Then each proves to the other, by an HMAC over the ticket, random bytes of both for this purpose, and who it
//! is, that it has the key. The ticket is good until one proof was right.
//!
//! With a [`Fabric`] there is no second connection. Behind its greeting each side says, inside TLS, the name of the fabric and the
//! address of its end: a byte and so many of the name, two and so many of the address.

use crate::bulk::{ADDRESS_BYTES_MAX, Bulk, Fabric, Means, NAME_BYTES_MAX, Place};
use crate::deadline::Deadline;
use crate::error::{Error, Refusal, Result};
use crate::frame::VERSION;
use crate::socket::Socket;
use crate::stream::{Incoming, Outgoing};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const GREETING: [u8; 4] = *b"SFLH";
const GREETING_BYTES: usize = 40;
/// What a connection for bulk begins with; TLS begins otherwise.
pub(crate) const BULK: [u8; 4] = *b"SFLB";
const TICKET_BYTES: usize = 16;
const RANDOM_BYTES: usize = 32;
/// Bytes of what follows [`BULK`]: version, ticket and random bytes.
pub(crate) const CLAIM_BYTES: usize = 2 + TICKET_BYTES + RANDOM_BYTES;
const PROOF_BYTES: usize = 32;

pub(crate) type Random = [u8; RANDOM_BYTES];
pub(crate) type Ticket = [u8; TICKET_BYTES];

/// Random bytes.
pub(crate) fn random() -> Result<Random> {
    let mut bytes = [0; RANDOM_BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error::NoMemory { what: "random bytes (getrandom)".into() })?;
    Ok(bytes)
}

/// What two sides of a connection share, and nobody else.
#[derive(Clone)]
pub(crate) struct Secret {
    key: hmac::Key,
}

impl Secret {
    /// The secret of the random bytes of both sides' greetings.
    pub(crate) fn of_connection(connects: &Random, accepts: &Random) -> Secret {
        Secret { key: hmac::Key::new(hmac::HMAC_SHA256, &[connects.as_slice(), accepts].concat()) }
    }

    /// Names the connection, and tells nothing of the key.
    pub(crate) fn ticket(&self) -> Ticket {
        let tag = hmac::sign(&self.key, b"stillframe bulk: ticket");
        let mut ticket = [0; TICKET_BYTES];
        ticket.copy_from_slice(&tag.as_ref()[..TICKET_BYTES]);
        ticket
    }

    fn claim(&self, role: &str, connects: &Random, accepts: &Random) -> Vec<u8> {
        [b"stillframe bulk: ", role.as_bytes(), &self.ticket(), connects, accepts].concat()
    }

    fn prove(&self, role: &str, connects: &Random, accepts: &Random) -> [u8; PROOF_BYTES] {
        let tag = hmac::sign(&self.key, &self.claim(role, connects, accepts));
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(tag.as_ref());
        proof
    }

    fn is_proved(&self, role: &str, connects: &Random, accepts: &Random, proof: &[u8]) -> bool {
        hmac::verify(&self.key, &self.claim(role, connects, accepts), proof).is_ok()
    }
}

/// Who says something, so that no proof can be sent back to whom it came from.
const CONNECTS: &str = "connects";
const ACCEPTS: &str = "accepts";

/// Sends this side's greeting.
pub(crate) fn greet(out: &mut Outgoing, means: &Means, random: &Random, deadline: Deadline) -> Result<()> {
    let [low, high] = VERSION.to_le_bytes();
    out.send(&[&GREETING, &[low, high, means.number(), 0], random], deadline)
}

/// Receives the other side's.
pub(crate) fn be_greeted(incoming: &mut Incoming, means: &Means, deadline: Deadline) -> Result<Random> {
    let peer = incoming.socket().peer();
    let mut bytes = [0; GREETING_BYTES];
    if incoming.receive(&mut bytes, deadline)? < GREETING_BYTES {
        return Err(Error::Closed { peer, missing_bytes: 0 });
    }
    let [g0, g1, g2, g3, low, high, number, _, random @ ..] = bytes;
    if [g0, g1, g2, g3] != GREETING {
        return Err(Error::Malformed { peer, what: "something else than a greeting".into() });
    }
    let (theirs, ours) = (u16::from_le_bytes([low, high]), VERSION);
    if theirs != ours {
        return Err(Error::Refused { peer, why: Refusal::OtherVersion { theirs, ours } });
    }
    if number != means.number() {
        let (theirs, ours) = (Means::name_of(number), means.to_string());
        return Err(Error::Refused { peer, why: Refusal::OtherBulk { theirs, ours } });
    }
    Ok(random)
}

/// Makes a way for bulk on a fabric, whose name both sides have to give it. On both sides the greetings were exchanged.
pub(crate) fn join(
    out: &mut Outgoing,
    incoming: &mut Incoming,
    fabric: &dyn Fabric,
    silence: Duration,
    deadline: Deadline,
) -> Result<Box<dyn Bulk>> {
    let socket = out.socket();
    let (local, peer) = (socket.local()?.ip(), socket.peer());
    let mut bytes = [0; 2 * RANDOM_BYTES];
    bytes[..RANDOM_BYTES].copy_from_slice(&random()?);
    bytes[RANDOM_BYTES..].copy_from_slice(&random()?);
    let end = fabric.open(&Place { local, peer, silence, random: bytes })?;
    introduce(out, fabric.name(), end.address(), deadline)?;
    end.join(&be_introduced(incoming, fabric.name(), deadline)?)
}

/// Says which fabric it is, and where this side's end is.
fn introduce(out: &mut Outgoing, name: &str, address: &[u8], deadline: Deadline) -> Result<()> {
    let name = &name.as_bytes()[..name.len().min(NAME_BYTES_MAX)];
    if address.len() > ADDRESS_BYTES_MAX {
        let (bytes, max_bytes) = (address.len() as u64, ADDRESS_BYTES_MAX as u64);
        return Err(Error::TooLarge { part: "address", bytes, max_bytes });
    }
    out.send(&[&[name.len() as u8], name, &(address.len() as u16).to_le_bytes(), address], deadline)
}

/// Receives the other side's address.
fn be_introduced(incoming: &mut Incoming, name: &str, deadline: Deadline) -> Result<Vec<u8>> {
    let peer = incoming.socket().peer();
    let mut take = |bytes: usize| {
        let mut all = vec![0; bytes];
        match incoming.receive(&mut all, deadline)? == bytes {
            true => Ok(all),
            false => Err(Error::Closed { peer, missing_bytes: 0 }),
        }
    };
    let name_bytes = take(1)?[0];
    let theirs = take(name_bytes.into())?;
    let length = take(2)?;
    let bytes = usize::from(u16::from_le_bytes([length[0], length[1]]));
    if bytes > ADDRESS_BYTES_MAX {
        return Err(Error::Malformed { peer, what: format!("an address of {bytes} bytes") });
    }
    let address = take(bytes)?;
    if theirs != name.as_bytes() {
        let (theirs, ours) = (String::from_utf8_lossy(&theirs).escape_default().to_string(), name.to_owned());
        return Err(Error::Refused { peer, why: Refusal::OtherBulk { theirs, ours } });
    }
    Ok(address)
}

/// Opens the connection for bulk.
pub(crate) fn connect_bulk(socket: &Socket, secret: &Secret, deadline: Deadline) -> Result<()> {
    let peer = socket.peer();
    let own = random()?;
    let ticket = secret.ticket();
    let version = VERSION.to_le_bytes();
    let mut pieces = [&BULK[..], &version, &ticket, &own].map(IoSlice::new);
    socket.send(&mut pieces, deadline)?;
    let mut answer = [0; RANDOM_BYTES + PROOF_BYTES];
    if socket.receive_all(&mut answer, deadline)? < answer.len() {
        return Err(Error::Closed { peer, missing_bytes: 0 });
    }
    let (theirs, proof) = answer.split_at(RANDOM_BYTES);
    let mut other = [0; RANDOM_BYTES];
    other.copy_from_slice(theirs);
    if !secret.is_proved(ACCEPTS, &own, &other, proof) {
        return Err(Error::Refused { peer, why: Refusal::NoProof });
    }
    socket.send(&mut [IoSlice::new(&secret.prove(CONNECTS, &own, &other))], deadline)
}

struct Expected {
    secret: Secret,
    arrived: SyncSender<Arc<Socket>>,
}

/// Connections in TLS that wait for theirs for bulk.
#[derive(Default)]
pub(crate) struct Tickets {
    expected: Mutex<HashMap<Ticket, Expected>>,
}

/// A connection for bulk that is waited for.
pub(crate) struct Waiting<'t> {
    tickets: &'t Tickets,
    ticket: Ticket,
    arrives: Receiver<Arc<Socket>>,
    peer: SocketAddr,
}

impl Tickets {
    /// From now on, the connection for bulk of this secret is let in.
    pub(crate) fn expect(&self, secret: Secret, peer: SocketAddr) -> Waiting<'_> {
        let ticket = secret.ticket();
        let (arrived, arrives) = sync_channel(1);
        self.lock().insert(ticket, Expected { secret, arrived });
        Waiting { tickets: self, ticket, arrives, peer }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Ticket, Expected>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a connection for bulk in, whose first bytes were [`BULK`], if it proves whose it is. `proved` is called before it is
    /// anybody's.
    pub(crate) fn admit(&self, socket: &Arc<Socket>, deadline: Deadline, proved: impl FnOnce()) -> Result<()> {
        let peer = socket.peer();
        let refused = || Error::Refused { peer, why: Refusal::NoProof };
        let mut claim = [0; CLAIM_BYTES];
        if socket.receive_all(&mut claim, deadline)? < CLAIM_BYTES {
            return Err(Error::Closed { peer, missing_bytes: 0 });
        }
        let [low, high, rest @ ..] = claim;
        let theirs = u16::from_le_bytes([low, high]);
        if theirs != VERSION {
            return Err(Error::Refused { peer, why: Refusal::OtherVersion { theirs, ours: VERSION } });
        }
        let (mut ticket, mut other) = ([0; TICKET_BYTES], [0; RANDOM_BYTES]);
        ticket.copy_from_slice(&rest[..TICKET_BYTES]);
        other.copy_from_slice(&rest[TICKET_BYTES..]);
        let secret = self.lock().get(&ticket).map(|expected| expected.secret.clone()).ok_or_else(refused)?;
        let own = random()?;
        socket.send(&mut [IoSlice::new(&own), IoSlice::new(&secret.prove(ACCEPTS, &other, &own))], deadline)?;
        let mut proof = [0; PROOF_BYTES];
        if socket.receive_all(&mut proof, deadline)? < PROOF_BYTES {
            return Err(Error::Closed { peer, missing_bytes: 0 });
        }
        if !secret.is_proved(CONNECTS, &other, &own, &proof) {
            return Err(refused());
        }
        proved();
        // Good for one use.
        let expected = self.lock().remove(&ticket).ok_or_else(refused)?;
        expected.arrived.try_send(Arc::clone(socket)).map_err(|_| refused())
    }
}

impl Waiting<'_> {
    /// The connection for bulk.
    pub(crate) fn arrive(self, deadline: Deadline) -> Result<Arc<Socket>> {
        let arrived = match deadline.left() {
            Some(left) => self.arrives.recv_timeout(left),
            None => self.arrives.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        arrived.map_err(|_| Error::Timeout {
            peer: self.peer,
            what: "the connection for bulk from",
            waited: deadline.waited(),
            is_intact: false,
        })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.tickets.lock().remove(&self.ticket);
    }
}
