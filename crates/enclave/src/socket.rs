//! The socket under its path: made, taken over from a broker that died, and taken away.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stillframe_kernel::folder::{About, Access, Folder, Form};
use stillframe_kernel::local::Listener;
use stillframe_kernel::lock;
use stillframe_kernel::trust::{Guard, Purpose, Refused, Trust};
use stillframe_kernel::{Failure, local, points};

/// Connections that may wait to be taken; the kernel takes less as its own limit (`net.core.somaxconn`).
const QUEUE: i32 = 4096;

/// How often others may make and remove the lock at the same time before it is no coincidence.
const ATTEMPTS: usize = 100;

/// Where a broker listens.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path of the socket. Its directory has to be there.
    pub socket: PathBuf,
    /// Its mode: who may write to it may connect.
    pub mode: u32,
    /// Whose directories are taken for good, besides those of the process's user and of root.
    pub trust: Trust,
    /// Whether the name stays when nobody listens there any more, as where it says more than whom to ask.
    pub stays: bool,
}

/// A socket that listens under a name of this broker's own. The name goes with it, unless it is to stay.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) listener: Listener,
    folder: Folder,
    name: String,
    identity: (u64, u64),
    stays: bool,
    lock: Lock,
}

/// The lock of a path: who has it is the one broker there. The kernel drops it when that dies.
#[derive(Debug)]
struct Lock {
    _file: File,
    name: String,
}

impl Socket {
    pub(crate) fn begin(options: &Options, kind: local::Kind) -> Result<Socket> {
        let path = &options.socket;
        let bad = |why| Error::BadPath { path: path.clone(), why };
        let name =
            path.file_name().and_then(|name| name.to_str()).ok_or_else(|| bad("it has no last name that is a text"))?;
        // The lock and the name that it is made under are longer.
        if name.len() > 64 || name.contains('#') {
            return Err(bad("its last name is longer than 64 bytes, or has a '#'"));
        }
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let guard = Guard::new(options.trust, Purpose::Write { granted: 0 });
        let folder = guard.open_root(parent).map_err(|refused| explain(parent, refused))?;
        let lock = Lock::take(&folder, guard, name, path)?;
        points::hit("broker.locked");
        check_dead(&folder, guard, name, path)?;
        let listener = local::listen(kind, &folder, name, &format!(".{name}.new"), options.mode, QUEUE);
        let listener = listener.map_err(|failure| Error::System { path: path.clone(), failure })?;
        points::hit("broker.listening");
        let about = folder.about_name(name).map_err(|error| system(path, "stat", error))?;
        Ok(Socket { listener, folder, name: name.into(), identity: about.identity, stays: options.stays, lock })
    }
}

pub(crate) fn system(path: &Path, call: &'static str, source: std::io::Error) -> Error {
    Error::System { path: path.into(), failure: Failure { call, detail: String::new(), source } }
}

pub(crate) fn explain(path: &Path, refused: Refused) -> Error {
    match refused {
        Refused::System(error) => system(path, "open", error),
        Refused::Distrust(distrust) => Error::Untrusted { path: path.into(), distrust },
    }
}

impl Lock {
    fn take(folder: &Folder, guard: Guard, name: &str, path: &Path) -> Result<Lock> {
        let name = format!(".{name}.lock");
        for _ in 0..ATTEMPTS {
            let opened = guard.open(folder, &name, Access::Create(0o600));
            let (file, about) = opened.map_err(|refused| explain(&path.with_file_name(&name), refused))?;
            let locked = lock::try_lock(&file, lock::Kind::Write, 0, 1);
            if !locked.map_err(|failure| Error::System { path: path.into(), failure })? {
                return Err(Error::InUse { path: path.into() });
            }
            // A broker that ends takes the name away, and its lock with it.
            if folder.about_name(&name).is_ok_and(|there| there.identity == about.identity) {
                return Ok(Lock { _file: file, name });
            }
        }
        Err(Error::InUse { path: path.into() })
    }
}

/// Refuses a name that is anybody's but a dead broker's.
fn check_dead(folder: &Folder, guard: Guard, name: &str, path: &Path) -> Result<()> {
    let Some((is_socket, about)) = local::about_socket(folder, name) else { return Ok(()) };
    if !is_socket {
        return Err(Error::NoSocket { path: path.into() });
    }
    let is_own = guard.looking().check(&About { form: Form::Other, ..about }, Form::Other);
    is_own.map_err(|distrust| Error::Untrusted { path: path.into(), distrust })?;
    // Another program may listen there, which knows nothing of the lock.
    match local::connect(path, Instant::now() + Duration::from_millis(100)) {
        Err(failure) if matches!(failure.source.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => Ok(()),
        Err(failure) if failure.call == "socket" => Err(Error::System { path: path.into(), failure }),
        _ => Err(Error::InUse { path: path.into() }),
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let is_own = |about: About| about.identity == self.identity;
        if !self.stays && self.folder.about_name(&self.name).is_ok_and(is_own) {
            let _ = self.folder.remove_file(&self.name);
        }
        // The lock is still held, so that nobody has taken the name yet.
        let _ = self.folder.remove_file(&self.lock.name);
    }
}
