//! Where the nodes of a job find its names, if nobody tells them: a file beside the job's certificate.
//!
//! The node that writes it first starts an etcd and puts the address there. It alone does so again when it was started anew:
//! two etcds would be two jobs.

use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stillframe_kernel::points;

/// The file, in the directory of the job's certificate.
const FILE: &str = "names.json";

/// How often a node looks whether the first one has put the address there.
const LOOK: Duration = Duration::from_millis(50);

/// How long an etcd may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// More than a machine's name and a path have.
const BYTES_MAX: u64 = 16 << 10;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    host: String,
    dir: PathBuf,
    /// The number of those regions, which another machine's of the same path do not have.
    memory: Option<u64>,
    address: Option<String>,
}

/// Who keeps the names.
#[derive(Debug)]
pub(crate) enum Keeper {
    /// This node, which did so before at this address, if at any.
    Own(Option<String>),
    /// Another one, at this address.
    Other(String),
}

/// The file of a job, for a node.
#[derive(Debug)]
pub(crate) struct Meeting {
    path: PathBuf,
    host: String,
    dir: PathBuf,
    memory: u64,
}

impl Meeting {
    /// For a node of this name with these regions, of this number, of which it is the only runtime.
    pub(crate) fn new(certificate: &Path, host: &str, dir: &Path, memory: u64) -> Meeting {
        Meeting { path: certificate.join(FILE), host: host.into(), dir: dir.into(), memory }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Who keeps the names: this node, if nobody else does. Waits for an address.
    ///
    /// # Errors
    /// [`Error::Meeting`] if none comes in time, another machine of this one's name keeps them, or the file holds something else; those of
    /// the system.
    pub(crate) fn join(&self, limit: Duration) -> Result<Keeper> {
        let begin = Instant::now();
        loop {
            match self.read()? {
                Some(entry) if self.is_own(&entry) => {
                    // With another number, this machine has lost its memory, and its etcd with it; or it is not this machine.
                    let is_same = entry.memory.is_none_or(|memory| memory == self.memory);
                    return match &entry.address {
                        Some(address) if !is_same && answers(address) => {
                            let why = format!(
                                "another machine that is called '{}', too, keeps the names at {address}; give each node a name of its own",
                                self.host
                            );
                            Err(self.wrong(why))
                        }
                        // The first of two of that name may be starting its etcd.
                        None if !is_same && begin.elapsed() < limit => {
                            std::thread::sleep(LOOK);
                            continue;
                        }
                        _ => Ok(Keeper::Own(entry.address)),
                    };
                }
                Some(Entry { address: Some(address), .. }) => return Ok(Keeper::Other(address)),
                Some(Entry { host, .. }) if begin.elapsed() >= limit => {
                    let why = format!("node {host} has said no address for {} s", limit.as_secs());
                    return Err(self.wrong(why));
                }
                Some(_) => std::thread::sleep(LOOK),
                None if self.write(None, true)? => {
                    points::hit("meeting.first");
                    return Ok(Keeper::Own(None));
                }
                None => {}
            }
        }
    }

    /// Tells the others an address.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn tell(&self, address: &str) -> Result<()> {
        self.write(Some(address), false).map(drop)
    }

    /// Lets another node be the first.
    pub(crate) fn end(&self) {
        if matches!(self.read(), Ok(Some(entry)) if self.is_own(&entry)) {
            let _ = fs::remove_file(&self.path);
        }
    }

    fn is_own(&self, entry: &Entry) -> bool {
        entry.host == self.host && entry.dir == self.dir
    }

    fn read(&self) -> Result<Option<Entry>> {
        let bytes = match fs::metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            meta => meta.map_err(Error::io("stat", &self.path))?.len(),
        };
        if bytes > BYTES_MAX {
            return Err(self.wrong(format!("it has {bytes} bytes")));
        }
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.map_err(Error::io("read", &self.path))?,
        };
        let value: Value = serde_json::from_str(&text).map_err(|error| self.wrong(error.to_string()))?;
        let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        let (Some(host), Some(dir)) = (text("host"), text("dir")) else {
            return Err(self.wrong("it names no node".into()));
        };
        let memory = value.get("memory").and_then(Value::as_u64);
        Ok(Some(Entry { host, dir: dir.into(), memory, address: text("address") }))
    }

    /// Writes the file as a whole; whether it did, where it is to be `new`.
    fn write(&self, address: Option<&str>, is_new: bool) -> Result<bool> {
        let name = format!(".{FILE}.{}.{}", self.host.replace('/', "_"), std::process::id());
        let aside = self.path.with_file_name(name);
        let text = json!({ "host": self.host, "dir": self.dir, "memory": self.memory, "address": address }).to_string();
        let put = || {
            let mut file = fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            match is_new {
                // Unlike a file that is created, it is never seen empty.
                true => fs::hard_link(&aside, &self.path),
                false => fs::rename(&aside, &self.path),
            }
        };
        let done = put();
        let _ = fs::remove_file(&aside);
        match done {
            Ok(()) => Ok(true),
            Err(error) if is_new && error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(source) => Err(Error::Io { call: "write", path: self.path.clone(), source }),
        }
    }

    fn wrong(&self, why: String) -> Error {
        Error::Meeting { path: self.path.clone(), why }
    }
}

/// Whether somebody listens at the address of an etcd.
fn answers(address: &str) -> bool {
    let (_, authority) = address.split_once("://").unwrap_or(("", address));
    let sockets = authority.to_socket_addrs().into_iter().flatten();
    sockets.into_iter().any(|socket| TcpStream::connect_timeout(&socket, ANSWER_LIMIT).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meeting(dir: &tempfile::TempDir, host: &str) -> Meeting {
        Meeting::new(dir.path(), host, Path::new("/dev/shm/stillframe"), 7)
    }

    #[test]
    fn another_machine_of_the_same_name_is_refused_while_the_first_one_lives() {
        let dir = tempfile::tempdir().unwrap();
        let etcd = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://{}", etcd.local_addr().unwrap());
        let own = meeting(&dir, "a");
        assert!(matches!(own.join(Duration::ZERO).unwrap(), Keeper::Own(None)));
        own.tell(&address).unwrap();
        let other = Meeting { memory: 8, ..meeting(&dir, "a") };
        let error = other.join(Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("'a'") && error.contains(&address), "{error}");
        assert!(matches!(own.join(Duration::ZERO).unwrap(), Keeper::Own(Some(_))), "its runtime was started again");
        drop(etcd);
        let again = other.join(Duration::ZERO).unwrap();
        assert!(matches!(&again, Keeper::Own(Some(before)) if *before == address), "it has lost its memory: {again:?}");
    }

    #[test]
    fn of_many_nodes_that_begin_at_once_one_is_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let join = |number: usize| {
            let own = meeting(&dir, &format!("node{number}"));
            match own.join(Duration::from_secs(60)).unwrap() {
                Keeper::Own(before) => {
                    assert_eq!(before, None);
                    own.tell(&format!("https://node{number}")).unwrap();
                    (true, format!("https://node{number}"))
                }
                Keeper::Other(address) => (false, address),
            }
        };
        let all: Vec<(bool, String)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || join(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(all.iter().filter(|(is_own, _)| *is_own).count(), 1, "{all:?}");
        assert!(all.iter().all(|(_, address)| *address == all[0].1), "{all:?}");
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [FILE], "nothing else lies there");
    }

    #[test]
    fn the_first_one_is_it_again_at_its_address_until_it_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let own = meeting(&dir, "a");
        assert!(matches!(own.join(Duration::ZERO).unwrap(), Keeper::Own(None)));
        own.tell("https://a").unwrap();
        let again = own.join(Duration::ZERO).unwrap();
        assert!(matches!(&again, Keeper::Own(Some(address)) if address == "https://a"), "{again:?}");
        meeting(&dir, "b").end();
        assert!(matches!(meeting(&dir, "b").join(Duration::ZERO).unwrap(), Keeper::Other(_)));
        own.end();
        assert!(matches!(meeting(&dir, "b").join(Duration::ZERO).unwrap(), Keeper::Own(None)));
    }

    #[test]
    fn who_waits_in_vain_is_told_for_whom_and_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(meeting(&dir, "a").join(Duration::ZERO).unwrap(), Keeper::Own(None)));
        let error = meeting(&dir, "b").join(Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("node a") && error.contains("remove"), "{error}");
        for text in ["", "{}", "[1]", "{\"host\":1}", &"x".repeat(20_000)] {
            fs::write(dir.path().join(FILE), text).unwrap();
            let error = meeting(&dir, "b").join(Duration::ZERO).unwrap_err();
            assert!(matches!(error, Error::Meeting { .. }), "{text}: {error}");
        }
    }
}
