//! The handshake of TLS: `rustls` says what to send and what to wait for.

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::record::{HEAD_BYTES, Keys, Opener, RECORD_BYTES_MAX, Sealer, SharedKeys};
use crate::refusal;
use crate::socket::Socket;
use crate::stream::{Incoming, Outgoing};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets, SupportedCipherSuite};
use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// More than any handshake has that the other side may send at once.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;

/// What both sides of a handshake have in common.
trait Side {
    type Data;
    fn process<'c, 'i>(&'c mut self, received: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn finish(self) -> Result<(ExtractedSecrets, Box<dyn Keys>, SupportedCipherSuite), rustls::Error>;
}

struct Generations<Data>(KernelConnection<Data>);

impl<Data: Send> Keys for Generations<Data> {
    fn next_to_send(&mut self) -> Result<ConnectionTrafficSecrets, rustls::Error> {
        Ok(self.0.update_tx_secret()?.1)
    }

    fn next_to_receive(&mut self) -> Result<ConnectionTrafficSecrets, rustls::Error> {
        Ok(self.0.update_rx_secret()?.1)
    }
}

macro_rules! side {
    ($connection:ty, $data:ty) => {
        impl Side for $connection {
            type Data = $data;

            fn process<'c, 'i>(&'c mut self, received: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, $data> {
                self.process_tls_records(received)
            }

            fn finish(self) -> Result<(ExtractedSecrets, Box<dyn Keys>, SupportedCipherSuite), rustls::Error> {
                let (secrets, connection) = self.dangerous_into_kernel_connection()?;
                let suite = connection.negotiated_cipher_suite();
                Ok((secrets, Box::new(Generations(connection)), suite))
            }
        }
    };
}

side!(UnbufferedClientConnection, ClientConnectionData);
side!(UnbufferedServerConnection, ServerConnectionData);

/// The first bytes of whoever connects.
#[cfg(test)]
pub(crate) fn first_bytes(identity: &Identity) -> Vec<u8> {
    let mut side = UnbufferedClientConnection::new(Arc::clone(&identity.client), identity.name.clone()).unwrap();
    let mut bytes = Vec::new();
    while let Ok(ConnectionState::EncodeTlsData(mut data)) = side.process(&mut []).state {
        encode(&mut |into| data.encode(into), &mut bytes).unwrap();
    }
    bytes
}

/// What comes out of one call of `rustls`.
enum Next {
    Send,
    Receive,
    Again,
    Finished,
}

/// Shakes hands as the one who connected.
pub(crate) fn connect(socket: &Arc<Socket>, identity: &Identity, deadline: Deadline) -> Result<(Outgoing, Incoming)> {
    let side = UnbufferedClientConnection::new(Arc::clone(&identity.client), identity.name.clone());
    run(socket, side.map_err(|error| refusal::here(socket.peer(), identity.job(), &error))?, identity, deadline)
}

/// Shakes hands as the one who was connected to.
pub(crate) fn accept(socket: &Arc<Socket>, identity: &Identity, deadline: Deadline) -> Result<(Outgoing, Incoming)> {
    let side = UnbufferedServerConnection::new(Arc::clone(&identity.server));
    run(socket, side.map_err(|error| refusal::here(socket.peer(), identity.job(), &error))?, identity, deadline)
}

/// Bytes of a stranger reach `rustls` only here. Should it panic over them, the connection is lost and nothing else.
fn run<S: Side>(
    socket: &Arc<Socket>,
    side: S,
    identity: &Identity,
    deadline: Deadline,
) -> Result<(Outgoing, Incoming)> {
    let shaken = catch_unwind(AssertUnwindSafe(|| shake(socket, side, identity, deadline)));
    let what = "what the library of TLS fails over";
    shaken.unwrap_or_else(|_| Err(Error::Malformed { peer: socket.peer(), what: what.into() }))
}

fn shake<S: Side>(
    socket: &Arc<Socket>,
    mut side: S,
    identity: &Identity,
    deadline: Deadline,
) -> Result<(Outgoing, Incoming)> {
    let peer = socket.peer();
    let mut received = vec![0; HANDSHAKE_BYTES_MAX];
    // Of what was received `rustls` sees one record more each time: behind its last one may lie the peer's first words to this crate,
    // sealed with keys that `rustls` has handed out by then.
    let (mut filled, mut shown, mut to_send) = (0, 0, Vec::new());
    loop {
        let UnbufferedStatus { discard, state, .. } = side.process(&mut received[..shown]);
        let next = match state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                let encoded = encode(&mut |into| data.encode(into), &mut to_send);
                encoded.map(|()| Next::Again).map_err(|why| Error::Ended { peer, why })?
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                Next::Send
            }
            Ok(ConnectionState::BlockedHandshake) => Next::Receive,
            Ok(ConnectionState::WriteTraffic(_)) => Next::Finished,
            Ok(_) => return Err(Error::Closed { peer, missing_bytes: 0 }),
            Err(error) => {
                received.copy_within(discard..filled, 0);
                say_why(socket, &mut side, &mut received[..shown - discard], to_send, deadline);
                return Err(refusal::here(peer, identity.job(), &error));
            }
        };
        received.copy_within(discard..filled, 0);
        (filled, shown) = (filled - discard, shown - discard);
        match next {
            Next::Again => {}
            Next::Send => {
                socket.send(&mut [IoSlice::new(&to_send)], deadline)?;
                to_send.clear();
            }
            Next::Receive if let_in(&received[..filled], &mut shown) => {}
            Next::Receive => {
                if filled == received.len() {
                    return Err(Error::Malformed { peer, what: "a handshake that is too long".into() });
                }
                match socket.receive(&mut received[filled..], deadline)? {
                    0 => return Err(Error::Closed { peer, missing_bytes: 0 }),
                    count => filled += count,
                }
            }
            Next::Finished => break,
        }
    }
    split(socket, side, &received[..filled]).map_err(|error| refusal::here(peer, identity.job(), &error))
}

/// Shows one record more, if all of it is there, or what is none, so that `rustls` says so before more comes.
fn let_in(received: &[u8], shown: &mut usize) -> bool {
    let Some(head) = received.get(*shown..*shown + HEAD_BYTES) else { return false };
    let bytes = HEAD_BYTES + usize::from(u16::from_be_bytes([head[3], head[4]]));
    let is_record = (20..=23).contains(&head[0]) && bytes <= RECORD_BYTES_MAX;
    let end = if is_record { *shown + bytes } else { received.len() };
    let is_there = end <= received.len();
    if is_there {
        *shown = end;
    }
    is_there
}

fn split<S: Side>(socket: &Arc<Socket>, side: S, received: &[u8]) -> Result<(Outgoing, Incoming), rustls::Error> {
    let (secrets, keys, suite) = side.finish()?;
    let suite = suite.tls13().ok_or_else(|| rustls::Error::General("a cipher of TLS 1.2".into()))?;
    let keys: SharedKeys = Arc::new(Mutex::new(keys));
    let sealer = Sealer::new(suite, secrets.tx, Arc::clone(&keys))?;
    let opener = Opener::new(suite, secrets.rx, keys)?;
    Ok((Outgoing::new(Arc::clone(socket), sealer), Incoming::new(Arc::clone(socket), opener, received)))
}

fn encode(encode: &mut dyn FnMut(&mut [u8]) -> Result<usize, EncodeError>, out: &mut Vec<u8>) -> Result<(), String> {
    let begin = out.len();
    let mut room = 4 << 10;
    loop {
        out.resize(begin + room, 0);
        match encode(&mut out[begin..]) {
            Ok(count) => {
                out.truncate(begin + count);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(wanted)) => room = wanted.required_size,
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Sends the alert that tells the other side why, if it gets there.
fn say_why<S: Side>(socket: &Socket, side: &mut S, received: &mut [u8], mut to_send: Vec<u8>, deadline: Deadline) {
    // The call gives out what is to be sent before it looks at the buffer again. A second one would look, and `rustls` does not bear
    // to fail twice.
    if let Ok(ConnectionState::EncodeTlsData(mut data)) = side.process(received).state {
        let _ = encode(&mut |into| data.encode(into), &mut to_send);
    }
    let _ = socket.send(&mut [IoSlice::new(&to_send)], deadline);
    linger(socket);
}

/// Takes what the other side still sends, until it has ended the connection: otherwise what it sends would be answered by a reset,
/// which lets it forget the alert before it reads it.
pub(crate) fn linger(socket: &Socket) {
    let deadline = Deadline::after(std::time::Duration::from_secs(3));
    let mut rest = [0; 4 << 10];
    for _ in 0..64 {
        if !matches!(socket.receive(&mut rest, deadline), Ok(1..)) {
            break;
        }
    }
}
