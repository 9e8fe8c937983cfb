//! The socket on which this node's programs ask the runtime.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stillframe_kernel::{descriptors, socket};
use stillframe_object::runtime::{LINE_BYTES_MAX, Reply, Request};

/// How long a program may take to read a reply before its connection ends.
const SLOW: Duration = Duration::from_secs(5);

/// Of how many descriptors one may be a program's: the others are for other nodes and for regions.
const OWN_SHARE: u64 = 2;

/// Bytes of replies that wait at most while its own thread gives a program a long one.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// The connections that are open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clients(Arc<Mutex<BTreeMap<u64, Arc<Client>>>>);

/// A connection. Its own thread waits until its program has read what it asked for; others, which have more to do, wait for no program.
#[derive(Debug)]
pub(crate) struct Client {
    stream: UnixStream,
    out: Mutex<Out>,
}

#[derive(Debug, Default)]
struct Out {
    /// Whether its own thread writes just now.
    is_busy: bool,
    /// What it writes then: whole lines.
    waiting: Vec<u8>,
}

impl Client {
    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line, and what others had to say meanwhile. Only its own thread does.
    fn write(&self, line: Vec<u8>) -> std::io::Result<()> {
        let mut waiting = line;
        self.out().is_busy = true;
        loop {
            (&self.stream).write_all(&waiting)?;
            let mut out = self.out();
            waiting = std::mem::take(&mut out.waiting);
            if waiting.is_empty() {
                out.is_busy = false;
                return Ok(());
            }
        }
    }

    /// Writes a line if there is room for it now; whether there was.
    fn try_write(&self, line: &[u8]) -> bool {
        let mut out = self.out();
        if out.is_busy {
            out.waiting.extend_from_slice(line);
            return out.waiting.len() <= WAITING_BYTES_MAX;
        }
        matches!(socket::send(&self.stream, &[IoSlice::new(line)]), Ok(Some(bytes)) if bytes == line.len())
    }

    fn end(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn line_of(reply: &Reply) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(reply).ok()?;
    line.push(b'\n');
    Some(line)
}

impl Clients {
    /// Tells a program something, from any thread. One that has not read what it was told before, and for which there is no more room,
    /// loses its connection.
    pub(crate) fn tell(&self, client: u64, reply: &Reply) {
        let Some(client) = self.get(client) else { return };
        if line_of(reply).is_none_or(|line| !client.try_write(&line)) {
            client.end();
        }
    }

    /// Answers a program, from the thread that serves it. One that does not read it loses its connection.
    pub(crate) fn answer(&self, client: u64, reply: &Reply) {
        let Some(client) = self.get(client) else { return };
        if line_of(reply).is_none_or(|line| client.write(line).is_err()) {
            client.end();
        }
    }

    fn get(&self, client: u64) -> Option<Arc<Client>> {
        self.lock().get(&client).cloned()
    }

    /// Takes a program's connection, unless there are too many already: then it is told so.
    pub(crate) fn add(&self, number: u64, stream: UnixStream) -> Option<Arc<Client>> {
        stream.set_write_timeout(Some(SLOW)).ok()?;
        let client = Arc::new(Client { stream, out: Mutex::default() });
        let mut all = self.lock();
        let limit = descriptors::limit();
        if all.len() as u64 >= limit / OWN_SHARE {
            let why = format!(
                "programs of this node have {} connections to its runtime, which may have {limit} descriptors: end some, or start it \
                 where 'ulimit -n' says more",
                all.len()
            );
            line_of(&Reply::Failed(why)).map(|line| client.try_write(&line));
            return None;
        }
        all.insert(number, client.clone());
        Some(client)
    }

    pub(crate) fn remove(&self, client: u64) {
        self.lock().remove(&client);
    }

    /// Ends all connections.
    pub(crate) fn close(&self) {
        self.lock().values().for_each(|client| client.end());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens at a path, where nobody listens any more.
pub(crate) fn listen(path: &Path) -> Result<UnixListener> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).map_err(Error::io("bind", path))?;
    // Who may enter the directory is its mode's affair; who may ask is this one's.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(Error::io("chmod", path))?;
    Ok(listener)
}

/// Takes what a program asks, until its connection ends.
pub(crate) fn serve(client: &Client, mut ask: impl FnMut(Request) -> Option<Reply>, answer: impl Fn(&Reply)) {
    let mut lines = BufReader::new(&client.stream);
    loop {
        let mut line = Vec::new();
        match (&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(length) if length > 0 && line.ends_with(b"\n") => {}
            _ => return,
        }
        let reply = match serde_json::from_slice(&line) {
            Ok(request) => ask(request),
            Err(error) => Some(Reply::Failed(format!("no request: {error}"))),
        };
        if let Some(reply) = reply {
            answer(&reply);
        }
    }
}
