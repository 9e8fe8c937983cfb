//! The server of doorbells, beside the arena of a machine: whoever connects gets the arena, and counters by which he rings the agent and is
//! rung by it.
//!
//! That is QEMU, which maps the arena to be written by its machine; so who may connect is who may write to the file. Nobody is waited for. Who
//! says something, of which the protocol knows nothing, is let go, and so is who takes nothing of what he is told. By a full counter nobody
//! but the thread is held up that rings it.

use super::message::{ID_MAX, MEMORY, VERSION, send};
use super::{AGENT, Line, PAUSE, Ringer};
use crate::admission::{Admission, Allow};
use crate::agent::AgentOptions;
use crate::closing::Closing;
use crate::error::{Error, Result};
use crate::socket::{Options, Socket, explain, system};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stillframe_kernel::event::Event;
use stillframe_kernel::folder::{Access, Folder};
use stillframe_kernel::local::{self, Kind};
use stillframe_kernel::trust::Guard;
use stillframe_kernel::{Failure, points};
use stillframe_segment::arena;
use stillframe_segment::enclave::DOORBELL;

/// Most that are connected at a time.
const CLIENTS_MAX: usize = 16;

/// How long one that has come may take for the first messages.
const SILENCE: Duration = Duration::from_secs(2);

/// How often it is looked whether somebody has taken what he was told, as long as there is somebody who has not.
const LOOK: Duration = Duration::from_millis(100);

/// How long nothing is taken where there are no descriptors left.
const EXHAUSTED: Duration = Duration::from_millis(10);

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    socket: Socket,
    closing: Closing,
    admission: Admission,
    /// The arena, to be written.
    memory: File,
    path: PathBuf,
}

/// Somebody who is connected.
#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    since: Instant,
    /// Whether he has taken the first messages.
    is_settled: bool,
    own: Own,
    /// Of whom he knows that they are connected, each with the counter by which he is rung.
    told: Vec<(u16, Arc<Event>)>,
}

/// What somebody has who is connected.
#[derive(Debug)]
struct Own {
    id: u16,
    /// By which he is rung.
    bell: Arc<Event>,
    /// By which he rings the agent.
    rings: Event,
    ringer: Ringer,
}

/// Who is there while a server serves.
#[derive(Debug, Default)]
struct Hall {
    clients: Vec<Client>,
    /// Threads that still ring somebody who has gone, and whom.
    left: Vec<(Ringer, Arc<Event>)>,
    /// The number that was given last.
    last: u16,
    /// Whether there was no descriptor for who came last.
    is_exhausted: bool,
}

/// Opens the arena of a machine to be handed out, and makes the file if there is none.
fn open_memory(options: &AgentOptions, guard: Guard, folder: &Folder, dir: &Path) -> Result<File> {
    let path = dir.join(arena::FILE);
    let opened = guard.open(folder, arena::FILE, Access::CreateExact(options.mode & 0o666));
    let (file, about) = opened.map_err(|refused| explain(&path, refused))?;
    let bytes = if about.bytes > 0 { about.bytes } else { options.bytes };
    if !bytes.is_power_of_two() {
        let why = format!("it has {bytes} bytes, and a device's memory has a power of two");
        return Err(Error::NotShared { path, why });
    }
    if about.bytes == 0 {
        file.set_len(bytes).map_err(|error| system(&path, "ftruncate", error))?;
    }
    Ok(file)
}

impl Server {
    /// Listens beside the arena of a peer, in its directory, which is there.
    pub(crate) fn begin(options: &AgentOptions, guard: Guard, peer: &str) -> Result<Server> {
        let dir = options.dir.join(peer);
        let folder = guard.open_root(&dir).map_err(|refused| explain(&dir, refused))?;
        let memory = open_memory(options, guard, &folder, &dir)?;
        let path = dir.join(DOORBELL);
        // Who connects may write to the arena: only those may whom its own mode lets.
        let others = options.mode & 0o022;
        let admission = match others {
            0 => Admission([guard.user(), 0].map(Allow::User).into()),
            _ => Admission::default(),
        };
        let listens = Options { socket: path.clone(), mode: 0o600 | others, trust: options.trust, stays: false };
        let socket = Socket::begin(&listens, Kind::Stream)?;
        let closing = Closing::of(&socket.listener).map_err(|error| system(&path, "pthread_create", error))?;
        Ok(Server { socket, closing, admission, memory, path })
    }

    /// Serves until something comes by `stop`.
    pub(crate) fn serve(&self, stop: BorrowedFd<'_>, line: &Line) -> Result<()> {
        let mut hall = Hall::default();
        let done = loop {
            match self.turn(&mut hall, stop, line) {
                Ok(false) => line.set(!hall.clients.is_empty(), !hall.clients.is_empty()),
                Ok(true) => break Ok(()),
                Err(failure) => break Err(Error::System { path: self.path.clone(), failure }),
            }
        };
        line.set(false, false);
        hall.clients.into_iter().for_each(|client| self.closing.close(client.socket));
        done
    }

    /// Waits for something, and does what there is to do; whether it is to stop.
    fn turn(&self, hall: &mut Hall, stop: BorrowedFd<'_>, line: &Line) -> Result<bool, Failure> {
        let first = [(stop, true), (self.socket.listener.as_fd(), !hall.is_exhausted)];
        let of_clients =
            hall.clients.iter().flat_map(|client| [(client.socket.as_fd(), true), (client.own.rings.as_fd(), true)]);
        let watched: Vec<_> = first.into_iter().chain(of_clients).collect();
        let signs = local::watch(&watched, hall.limit())?;
        if signs[0].is_any() {
            return Ok(true);
        }
        let (mut has_rung, mut stays) = (false, Vec::new());
        for (client, signs) in hall.clients.iter_mut().zip(signs[2..].chunks(2)) {
            // One who rings all the time is in nobody's way, if he is heard now and then.
            has_rung |= signs[1].is_any();
            let is_there = !signs[0].is_any() && (!signs[1].is_any() || client.own.rings.take().is_ok());
            stays.push(is_there && client.settle());
        }
        if has_rung {
            line.heard();
        }
        self.keep(hall, &stays);
        hall.is_exhausted = signs[1].is_any() && self.take(hall, line);
        hall.left.retain(|(ringer, event)| {
            // A thread goes on when the counter has room.
            !ringer.is_finished() && event.take().is_ok()
        });
        let known = hall.known();
        let stays: Vec<bool> = hall.clients.iter_mut().map(|client| client.tell(&known)).collect();
        self.keep(hall, &stays);
        if has_rung {
            std::thread::sleep(PAUSE);
        }
        Ok(false)
    }

    /// Ends the connections of those who may not stay.
    fn keep(&self, hall: &mut Hall, stays: &[bool]) {
        for (client, stays) in std::mem::take(&mut hall.clients).into_iter().zip(stays) {
            if *stays {
                hall.clients.push(client);
                continue;
            }
            let Own { bell, ringer, .. } = client.own;
            ringer.end();
            self.closing.close(client.socket);
            hall.left.push((ringer, bell));
        }
    }

    /// Takes connections that wait; whether there are no descriptors left for one that does.
    fn take(&self, hall: &mut Hall, line: &Line) -> bool {
        loop {
            let socket = match local::accept(&self.socket.listener) {
                Ok(Some(socket)) => socket,
                Ok(None) => return false,
                Err(_) => return true,
            };
            points::hit("doorbell.accepted");
            let is_admitted = local::peer(&socket).is_ok_and(|peer| self.admission.admits(&peer));
            // Threads of those who left count: who left one behind may come again.
            let has_room = hall.clients.len() + hall.left.len() < CLIENTS_MAX;
            if !is_admitted || !has_room {
                self.closing.close(socket);
                continue;
            }
            match self.greet(&socket, hall, line) {
                Ok(Some(own)) => {
                    let (since, told) = (Instant::now(), hall.known());
                    hall.clients.push(Client { socket, since, is_settled: false, own, told });
                }
                Ok(None) => self.closing.close(socket),
                Err(_) => {
                    self.closing.close(socket);
                    return true;
                }
            }
        }
    }

    /// Says all to somebody that he is told first; `None` if he does not take it.
    fn greet(&self, socket: &OwnedFd, hall: &mut Hall, line: &Line) -> Result<Option<Own>, Failure> {
        let (bell, rings) = (Arc::new(Event::new()?), Event::new()?);
        let id = hall.next_id();
        let number = i64::from(id);
        let first = [
            (VERSION, None),
            (number, None),
            (MEMORY, Some(self.memory.as_fd())),
            (i64::from(AGENT), Some(rings.as_fd())),
        ];
        let others = hall.clients.iter().map(|other| (i64::from(other.own.id), Some(other.own.bell.as_fd())));
        for (number, file) in first.into_iter().chain(others).chain([(number, Some(bell.as_fd()))]) {
            if !send(socket, number, file).unwrap_or(false) {
                return Ok(None);
            }
        }
        let rung = bell.clone();
        let fail = |source| Failure { call: "pthread_create", detail: "a doorbell's".into(), source };
        let ringer = Ringer::start(&line.own, move || rung.ring()).map_err(fail)?;
        Ok(Some(Own { id, bell, rings, ringer }))
    }
}

impl Hall {
    /// Who is connected, and by which counters they are rung.
    fn known(&self) -> Vec<(u16, Arc<Event>)> {
        self.clients.iter().map(|client| (client.own.id, client.own.bell.clone())).collect()
    }

    /// How long nothing happens by itself.
    fn limit(&self) -> Option<Duration> {
        let known = self.known();
        let is_waited_for = |client: &Client| !client.is_settled || !client.news(&known).is_empty();
        let waits = self.clients.iter().any(is_waited_for) || !self.left.is_empty();
        let exhausted = self.is_exhausted.then_some(EXHAUSTED);
        exhausted.or(waits.then_some(LOOK))
    }

    /// A number that nobody has, and that had nobody for long.
    fn next_id(&mut self) -> u16 {
        loop {
            self.last = self.last.checked_add(1).filter(|id| i64::from(*id) <= ID_MAX).unwrap_or(AGENT + 1);
            if self.clients.iter().all(|client| client.own.id != self.last) {
                return self.last;
            }
        }
    }
}

impl Client {
    /// Whether he may stay: he has taken the first messages, or has time left for them.
    fn settle(&mut self) -> bool {
        self.is_settled |= local::is_taken(&self.socket);
        self.is_settled || self.since.elapsed() < SILENCE
    }

    /// Who has gone of whom he was told, and who has come, with a counter.
    fn news<'a>(&self, known: &'a [(u16, Arc<Event>)]) -> Vec<(u16, Option<&'a Event>)> {
        let is_gone = |(id, bell): &&(u16, Arc<Event>)| !knows(known, *id, bell);
        let gone = self.told.iter().filter(is_gone).map(|(id, _)| (*id, None));
        let is_new = |(id, bell): &&(u16, Arc<Event>)| *id != self.own.id && !knows(&self.told, *id, bell);
        let come = known.iter().filter(is_new).map(|(id, bell)| (*id, Some(&**bell)));
        gone.chain(come).collect()
    }

    /// Tells him who has come and who has gone, once he has taken what he was told before: what nobody takes has a bound. Whether he
    /// may stay.
    fn tell(&mut self, known: &[(u16, Arc<Event>)]) -> bool {
        let news = self.news(known);
        if news.is_empty() || !local::is_taken(&self.socket) {
            return true;
        }
        for (id, bell) in news {
            if !send(&self.socket, id.into(), bell.map(AsFd::as_fd)).unwrap_or(false) {
                return false;
            }
        }
        self.told = known.iter().filter(|(id, _)| *id != self.own.id).cloned().collect();
        true
    }
}

/// Whether a list has somebody, and not another one of the same number.
fn knows(list: &[(u16, Arc<Event>)], id: u16, bell: &Arc<Event>) -> bool {
    list.iter().any(|(known, its)| *known == id && Arc::ptr_eq(its, bell))
}
