//! The socket on which this node's programs ask the runtime.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stillframe_object::runtime::{LINE_BYTES_MAX, Reply, Request};

/// How long a program may take to read a reply before its connection ends.
const SLOW: Duration = Duration::from_secs(5);

/// The connections that are open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clients(Arc<Mutex<BTreeMap<u64, Arc<UnixStream>>>>);

impl Clients {
    /// Sends a reply. One whose program does not read it loses its connection.
    pub(crate) fn reply(&self, client: u64, reply: &Reply) {
        let Some(stream) = self.lock().get(&client).cloned() else { return };
        let Ok(mut line) = serde_json::to_vec(reply) else { return };
        line.push(b'\n');
        if (&*stream).write_all(&line).is_err() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    pub(crate) fn add(&self, client: u64, stream: &UnixStream) -> std::io::Result<()> {
        stream.set_write_timeout(Some(SLOW))?;
        self.lock().insert(client, Arc::new(stream.try_clone()?));
        Ok(())
    }

    pub(crate) fn remove(&self, client: u64) {
        self.lock().remove(&client);
    }

    /// Ends all connections.
    pub(crate) fn close(&self) {
        self.lock().values().for_each(|stream| _ = stream.shutdown(std::net::Shutdown::Both));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<UnixStream>>> {
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
pub(crate) fn serve(stream: UnixStream, mut ask: impl FnMut(Request) -> Option<Reply>, answer: impl Fn(&Reply)) {
    let mut lines = BufReader::new(stream);
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
