//! The loop that takes connections, and answers one question on each.
//!
//! One thread answers all: an answer takes some microseconds. Nothing here waits for a client. Users take turns, by one answer each. A
//! client that says nothing is in nobody's way, and is let go after a while, or earlier if there are many; one that has gone is not
//! answered; one whose answer finds no room has lost it; one that does not take its files has them counted.

use crate::admission::Admission;
use crate::closing::Closing;
use crate::crowd::{Client, Crowd, SILENCE};
use crate::error::{Error, Result};
use crate::socket::{Options, Socket, system};
use crate::untaken::Untaken;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stillframe::enclave::{Handout, Reply};
use stillframe_kernel::local::{self, Kind, Peer, Sign};
use stillframe_kernel::{Failure, descriptors, points};
use stillframe_segment::broker::QUESTION_BYTES_MAX;

/// Most clients that have no answer yet, if there are descriptors for as many.
const CLIENTS_MAX: u64 = 4096;

/// Connections that are taken before somebody is answered.
const TAKEN_MAX: usize = 1024;

/// How long answers are given before it is looked who else has come.
const TURN: Duration = Duration::from_millis(1);

/// How long nothing is taken where there are no descriptors left. A client that came earlier than this has had time to speak.
const EXHAUSTED: Duration = Duration::from_millis(10);

/// How long a client waits whose user has left too many files untaken.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked whether answers were taken while somebody waits for that, and while nobody does.
const TAKEN: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(100)];

/// Who answers what is asked at a socket.
pub trait Desk {
    /// The answer to a message of somebody.
    fn answer(&self, bytes: &[u8], peer: &Peer) -> Reply;
}

impl Desk for Handout {
    fn answer(&self, bytes: &[u8], _: &Peer) -> Reply {
        self.answer(bytes)
    }
}

/// A broker at a socket, or an agent.
#[derive(Debug)]
pub struct Service<D = Handout> {
    desk: D,
    admission: Admission,
    socket: Socket,
    closing: Closing,
    path: PathBuf,
    clients_max: usize,
}

/// Who is there while a service serves.
struct Hall {
    crowd: Crowd,
    untaken: Untaken,
    /// Whether there was no descriptor for who came last.
    is_exhausted: bool,
}

impl Hall {
    /// How long nothing happens by itself.
    fn limit(&self) -> Option<Duration> {
        let mut limit = self.is_exhausted.then_some(EXHAUSTED);
        let mut at_most = |most: Duration| limit = Some(limit.map_or(most, |limit| limit.min(most)));
        if !self.untaken.is_empty() {
            at_most(TAKEN[1]);
        }
        for client in self.crowd.iter() {
            at_most(match client.asked {
                None => SILENCE.saturating_sub(client.since.elapsed()),
                Some(_) if is_next(&self.untaken, client) => Duration::ZERO,
                Some(_) => TAKEN[0],
            });
        }
        limit
    }
}

/// Whether a client's turn may come: to be answered, or, after a while, to be told that there is no room.
fn is_next(untaken: &Untaken, client: &Client) -> bool {
    untaken.has_room(client.peer.user) || client.asked.is_some_and(|asked| asked.elapsed() >= PATIENCE)
}

impl<D: Desk> Service<D> {
    /// Listens at a socket.
    ///
    /// # Errors
    /// [`Error::InUse`] if somebody listens there; [`Error::NoSocket`] and [`Error::Untrusted`] if what is there is not a dead broker's.
    pub fn begin(options: &Options, desk: D, admission: Admission) -> Result<Service<D>> {
        let socket = Socket::begin(options, Kind::Messages)?;
        let closing =
            Closing::of(&socket.listener).map_err(|error| system(&options.socket, "pthread_create", error))?;
        // Answers need some for the files, and so does everything else.
        let clients_max = (descriptors::limit() / 2).min(CLIENTS_MAX) as usize;
        Ok(Service { desk, admission, socket, closing, path: options.socket.clone(), clients_max })
    }

    /// The same, as one of several that share what this process may have open.
    pub(crate) fn one_of(self, services: usize) -> Service<D> {
        let share = descriptors::limit() / 2 / services.max(1) as u64;
        Service { clients_max: self.clients_max.min(share as usize), ..self }
    }

    /// Who answers.
    pub fn desk(&self) -> &D {
        &self.desk
    }

    /// Answers until something comes by `stop`.
    ///
    /// # Errors
    /// [`Error::System`] if nothing can be waited for.
    pub fn serve(&self, stop: BorrowedFd<'_>) -> Result<()> {
        let mut hall = Hall { crowd: Crowd::default(), untaken: Untaken::new(), is_exhausted: false };
        let done = loop {
            match self.turn(&mut hall, stop) {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(failure) => break Err(Error::System { path: self.path.clone(), failure }),
            }
        };
        hall.crowd.into_clients().for_each(|client| self.closing.close(client.socket));
        hall.untaken.into_sockets().for_each(|socket| self.closing.close(socket));
        done
    }

    /// Waits for something, and does for a while what there is to do; whether it is to stop.
    fn turn(&self, hall: &mut Hall, stop: BorrowedFd<'_>) -> Result<bool, Failure> {
        let first = [(stop, true), (self.socket.listener.as_fd(), !hall.is_exhausted)];
        let watched: Vec<_> = first.into_iter().chain(hall.crowd.watched()).chain(hall.untaken.watched()).collect();
        let signs = local::watch(&watched, hall.limit())?;
        if signs[0].is_any() {
            return Ok(true);
        }
        let (of_crowd, of_untaken) = signs[2..].split_at(hall.crowd.len());
        hall.untaken.note(of_untaken).into_iter().for_each(|socket| self.closing.close(socket));
        hall.crowd.note(of_crowd).into_iter().for_each(|client| self.closing.close(client.socket));
        hall.is_exhausted = signs[1].is_any() && self.take(&mut hall.crowd);
        let begin = Instant::now();
        while begin.elapsed() < TURN {
            let Hall { crowd, untaken, .. } = &mut *hall;
            let Some(client) = crowd.next(|client| is_next(untaken, client)) else { break };
            self.answer(client, hall);
            if local::wait_any(&[stop], Some(Duration::ZERO))?[0] {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes connections that wait; whether there are no descriptors left for one that does.
    fn take(&self, crowd: &mut Crowd) -> bool {
        for _ in 0..TAKEN_MAX {
            let socket = match local::accept(&self.socket.listener) {
                Ok(Some(socket)) => socket,
                Ok(None) => return false,
                Err(_) => return self.make_room(crowd),
            };
            points::hit("broker.accepted");
            let Ok(peer) = local::peer(&socket) else {
                self.closing.close(socket);
                continue;
            };
            // Most have spoken by now.
            let now = Instant::now();
            let asked = has_come(&socket).then_some(now);
            if crowd.len() >= self.clients_max
                && let Some(client) = crowd.most_silent(Duration::ZERO)
            {
                self.closing.close(client.socket);
            }
            crowd.push(Client { socket, peer, since: now, asked });
        }
        false
    }

    /// There are no descriptors left: who has said nothing for longest goes, if somebody waits for the place; whether nobody went.
    /// accept(2) fails where nobody waits, too.
    fn make_room(&self, crowd: &mut Crowd) -> bool {
        if !has_come(&self.socket.listener) {
            return false;
        }
        match crowd.most_silent(EXHAUSTED) {
            Some(client) => {
                self.closing.close(client.socket);
                false
            }
            None => true,
        }
    }

    /// Answers what a client asks.
    fn answer(&self, client: Client, hall: &mut Hall) {
        let Client { socket, peer, .. } = &client;
        // One that went meanwhile needs none. Files that somebody sends stay in the connection, which is closed where that may wait.
        let is_over = local::watch(&[(socket.as_fd(), false)], Some(Duration::ZERO)).is_ok_and(|signs| signs[0].ended);
        if is_over || self.closing.may_wait() && local::brings_files(socket).unwrap_or(true) {
            return self.closing.close(client.socket);
        }
        let mut bytes = [0; QUESTION_BYTES_MAX];
        let message = match local::receive(socket, &mut bytes) {
            Ok(None) => return hall.crowd.push(Client { asked: None, ..client }),
            Ok(Some(message)) if message.bytes > 0 => message,
            Ok(Some(_)) | Err(_) => return self.closing.close(client.socket),
        };
        let reply = if !self.admission.admits(peer) {
            Reply::refusal(format!("it does not serve user {} of group {}", peer.user, peer.group))
        } else if !hall.untaken.has_room(peer.user) {
            Reply::refusal("too many answers to this user were not taken: their files are still open".into())
        } else if message.is_cut {
            // What is cut is no question.
            self.desk.answer(b"", peer)
        } else {
            self.desk.answer(&bytes[..message.bytes], peer)
        };
        points::hit("broker.opened");
        // One that takes nothing gets nothing.
        match local::send(socket, &reply.bytes, &reply.descriptors()) {
            Ok(true) if !reply.files.is_empty() => {
                hall.untaken.push(client.socket, client.peer.user, reply.files.len());
            }
            sent => {
                if let Err(failure) = sent
                    && failure.errno() == libc::ETOOMANYREFS
                {
                    let refusal = Reply::refusal("too many files were sent and not taken (ETOOMANYREFS)".into());
                    let _ = local::send(socket, &refusal.bytes, &[]);
                }
                self.closing.close(client.socket);
            }
        }
        points::hit("broker.answered");
    }
}

fn has_come(socket: impl AsFd) -> bool {
    local::watch(&[(socket.as_fd(), true)], Some(Duration::ZERO)).is_ok_and(|signs: Vec<Sign>| signs[0].came)
}
