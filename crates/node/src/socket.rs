//! The socket on which this node's programs ask the runtime.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stillframe_kernel::folder::Folder;
use stillframe_kernel::{descriptors, local, socket, user_id};
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
        let may_ask = may_ask(&stream);
        let client = Arc::new(Client { stream, out: Mutex::default() });
        if !may_ask {
            let why = format!("this runtime answers programs of user {} and root alone", user_id());
            line_of(&Reply::Failed(why)).map(|line| client.try_write(&line));
            return None;
        }
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

/// The name of the socket until it listens.
const MADE_AS: &str = ".runtime.new";

/// Connections that wait until they are taken.
const QUEUE: i32 = 128;

/// Listens under a name in a directory, where nobody listens any more. Who may enter the directory is its mode's affair; who may ask is
/// this one's: before the socket has its mode it does not listen, and nobody can connect to it.
pub(crate) fn listen(dir: &Path, name: &str) -> Result<UnixListener> {
    let folder = Folder::open(dir, true).map_err(Error::io("open", dir))?;
    let made = local::listen(local::Kind::Stream, &folder, name, MADE_AS, 0o600, QUEUE);
    let listener = made.map_err(|failure| Error::io(failure.call, dir.join(name))(failure.source))?;
    let listener = UnixListener::from(OwnedFd::from(listener));
    listener.set_nonblocking(false).map_err(Error::io("ioctl", dir.join(name)))?;
    Ok(listener)
}

/// Whether somebody may ask who reached the socket, whatever became of its mode: its own user, and root.
fn may_ask(stream: &UnixStream) -> bool {
    local::peer(stream).is_ok_and(|peer| peer.user == 0 || peer.user == user_id())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    const NAME: &str = "runtime";

    fn place() -> tempfile::TempDir {
        tempfile::Builder::new().prefix("stillframe-test-socket-").tempdir_in("/dev/shm").unwrap()
    }

    #[cfg(feature = "points")]
    fn mode_of(path: &Path) -> Option<u32> {
        Some(path.metadata().ok()?.permissions().mode() & 0o777)
    }

    /// Wherever the thread dies, also where the socket is bound and its mode is that of the umask.
    #[cfg(feature = "points")]
    #[test]
    fn a_socket_has_its_name_when_it_has_its_mode() {
        use stillframe_kernel::points::{Fate, set_fate};

        let place = place();
        let (name, made_as) = (place.path().join(NAME), place.path().join(MADE_AS));
        let mut was_bound = false;
        for after in 0.. {
            set_fate(Some((Fate::Dies, after)));
            let died = std::panic::catch_unwind(|| listen(place.path(), NAME).map(drop));
            if set_fate(None).is_some() {
                died.unwrap().unwrap();
                break;
            }
            was_bound |= made_as.exists() && mode_of(&name).is_none();
            assert!(mode_of(&name).is_none_or(|mode| mode == 0o600), "{after}");
        }
        assert!(was_bound && !made_as.exists());
        assert_eq!(mode_of(&name), Some(0o600));
        let listener = listen(place.path(), NAME).unwrap();
        UnixStream::connect(&name).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn another_user_is_told_that_it_may_not_ask_whatever_the_mode_became() {
        let place = place();
        let listener = listen(place.path(), NAME).unwrap();
        let own = UnixStream::connect(place.path().join(NAME)).unwrap();
        assert!(Clients::default().add(1, listener.accept().unwrap().0).is_some());
        drop(own);
        // Only root makes processes of others.
        if user_id() != 0 {
            eprintln!("skipped: only root can be another user");
            return;
        }
        for (path, mode) in [(place.path().into(), 0o755), (place.path().join(NAME), 0o666)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let asks = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.makefile().readline())";
        let path = place.path().join(NAME);
        let mut other = Command::new("python3");
        let other =
            other.args(["-c", asks]).arg(path).uid(65534).current_dir("/").stdout(Stdio::piped()).spawn().unwrap();
        assert!(Clients::default().add(1, listener.accept().unwrap().0).is_none());
        let told = String::from_utf8(other.wait_with_output().unwrap().stdout).unwrap();
        assert!(told.contains("failed") && told.contains("root alone"), "{told}");
    }
}
