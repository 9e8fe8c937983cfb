//! An etcd of this process's own, with its data in memory, where nobody runs one.
//!
//! Its directory lies below `/dev/shm` and is this user's alone. It goes with the value, or, if this process is killed, when the next
//! etcd is started so. What else comes from a directory that somebody died in is told by a lock that died with him.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::options::{Options, Tls};
use crate::reactor::Reactor;
use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stillframe_kernel::dependent::dies_with_thread;
use stillframe_kernel::points;
use stillframe_kernel::thread::Thread;

/// Where directories of data in memory lie, and how their names begin.
const PLACE: &str = "/dev/shm";
const BEGIN: &str = "stillframe-etcd-";

/// Lines of its log that are kept, and bytes of one.
const LINES: usize = 20;
const LINE_BYTES: u64 = 600;

/// How often it is looked whether it answers.
const LOOK: Duration = Duration::from_millis(20);

/// How many ports are tried: one that was free may be taken by the time etcd binds it.
const PORTS: usize = 5;

/// How long to wait for the last lines of an etcd that has ended, which what it started could keep open.
const LOG_LIMIT: Duration = Duration::from_secs(5);

/// The lowest port that is tried.
const PORT_MIN: u16 = 10_000;

/// Bytes of data that it keeps, at most. They are memory.
const QUOTA_BYTES: u64 = 1 << 30;

/// How much it may leave lying about before it cleans up, in percent of what it uses; and from how much memory on, beside its data,
/// it cleans up more often all the same.
const GARBAGE_PERCENT: u32 = 800;
const MEMORY_BYTES: u64 = QUOTA_BYTES;

/// Options for starting an etcd.
#[derive(Debug, Clone)]
pub struct ChildOptions {
    program: PathBuf,
    address: IpAddr,
    port: Option<u16>,
    tls: Option<Tls>,
    deadline: Duration,
}

impl ChildOptions {
    /// The program; by default the `etcd` that `PATH` leads to.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
    }

    /// Where it listens; by default 127.0.0.1, where only this machine's processes reach it. All its users' do: use
    /// [`tls`](ChildOptions::tls) where others are not to be trusted.
    pub fn address(mut self, address: IpAddr) -> Self {
        self.address = address;
        self
    }

    /// The port; by default one that is free.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Its certificate and key, and who may sign those of others: nobody else is heard. The certificate has to be one for servers and
    /// for clients, of this address.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// How long it may take until it answers; 20 s by default.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Starts it, and waits until it answers.
    ///
    /// # Errors
    /// [`Error::Child`] with the last lines of its log; [`Error::Option`] for an address that needs certificates; those of the system.
    pub fn start(self) -> Result<Child> {
        if self.tls.is_none() && !self.address.is_loopback() {
            let why = "other machines reach it, and there are no certificates: give some";
            return Err(Error::option(format!("the address {} of etcd", self.address), why));
        }
        let begin = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            match self.attempt(begin) {
                Err(Error::Child { log, .. }) if self.port.is_none() && tries < PORTS && is_in_use(&log) => {}
                started => return started,
            }
        }
    }

    fn attempt(&self, begin: Instant) -> Result<Child> {
        let directory = Directory::make()?;
        let port = match self.port {
            Some(port) => port,
            None => free_port(self.address)?,
        };
        let name = format!("{:x}", crate::epoch::random());
        let command = self.command(&name, port, &directory);
        let process = Process::start(command, &self.program).map_err(|error| match error {
            Error::Child { why, log, .. } => self.failed(begin, &why, log),
            other => other,
        })?;
        let child = Child { endpoint: self.endpoint(port), process, directory };
        points::hit("etcd.spawned");
        self.wait_for(&child, &name, begin)?;
        Ok(child)
    }

    fn endpoint(&self, port: u16) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", SocketAddr::new(self.address, port))
    }

    fn command(&self, name: &str, port: u16, directory: &Directory) -> Command {
        let client = self.endpoint(port);
        // Its peers, of which there are none, would come by a socket in its directory, where nobody else comes.
        let peer = "unix://localhost:1";
        let mut command = Command::new(&self.program);
        command
            .args(["--name", name, "--data-dir"])
            .arg(directory.path.join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
            .args(["--initial-cluster", &format!("{name}={peer}")])
            .args(["--initial-cluster-token", name])
            .args(["--auto-compaction-mode", "periodic", "--auto-compaction-retention", "5m"])
            .args(["--quota-backend-bytes", &QUOTA_BYTES.to_string()])
            // What is not committed is copied for each transaction, and to commit costs nothing in memory.
            .args(["--backend-batch-limit", "100"])
            .args(["--snapshot-count", "10000", "--max-snapshots", "1", "--max-wals", "1"])
            // It has nobody to wait for before it elects itself.
            .args(["--heartbeat-interval", "20", "--election-timeout", "200"])
            .args(["--logger", "zap", "--log-level", "warn", "--log-outputs", "stderr"]);
        if let Some(tls) = &self.tls {
            command.arg("--client-cert-auth");
            // It runs in a directory of its own.
            let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.into());
            command.arg("--trusted-ca-file").arg(whole(&tls.ca));
            command.arg("--cert-file").arg(whole(&tls.certificate)).arg("--key-file").arg(whole(&tls.key));
            // An authority of a site signs for many jobs, and all nodes of one have certificates for its name.
            if let Some(name) = &tls.name {
                command.args(["--client-cert-allowed-hostname", name]);
            }
        }
        // Variables with this beginning would be options, too.
        let own = std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("ETCD_"));
        for name in own {
            command.env_remove(name);
        }
        // Else it takes up to a third of its time to look for memory that it does not need any more.
        command.env("GOGC", GARBAGE_PERCENT.to_string()).env("GOMEMLIMIT", MEMORY_BYTES.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).current_dir(&directory.path);
        dies_with_thread(&mut command);
        command
    }

    fn wait_for(&self, child: &Child, name: &str, begin: Instant) -> Result<()> {
        let mut options = Options::default().endpoint(&child.endpoint);
        if let Some(tls) = &self.tls {
            options = options.tls(tls.clone());
        }
        let (reactor, client) = (Reactor::start()?, Arc::new(Client::new(&options)?));
        loop {
            let left = self.deadline.saturating_sub(begin.elapsed());
            if let Some(status) = child.process.ended() {
                return Err(self.failed(begin, &format!("it ended ({status})"), child.process.whole_log()));
            }
            let (asking, limit) = (client.clone(), left.min(Duration::from_millis(500)));
            match reactor.wait("start", limit, async move { asking.members(limit).await }) {
                Ok(members) if members.iter().any(|member| member == name) => return Ok(()),
                // Another one has the port, which this one says in a moment.
                Ok(_) if left.is_zero() => return Err(self.failed(begin, "another etcd answers there", child.log())),
                Ok(_) => std::thread::sleep(LOOK),
                Err(error) if left.is_zero() => {
                    return Err(self.failed(begin, &format!("it does not answer: {error}"), child.log()));
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    fn failed(&self, begin: Instant, why: &str, log: Vec<String>) -> Error {
        let program = self.program.display().to_string();
        Error::Child { program, waited: begin.elapsed(), why: why.into(), log }
    }
}

/// An etcd that was started, and ends with this value, or with this process.
#[derive(Debug)]
pub struct Child {
    endpoint: String,
    // Dropped in this order: nothing writes to the directory when it is removed.
    process: Process,
    directory: Directory,
}

impl Child {
    /// Options for starting one.
    pub fn options() -> ChildOptions {
        ChildOptions {
            program: "etcd".into(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: None,
            tls: None,
            deadline: Duration::from_secs(20),
        }
    }

    /// Its address, for [`Options::endpoint`].
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.process.number
    }

    /// Where its data lie.
    pub fn directory(&self) -> &Path {
        &self.directory.path
    }

    /// Whether it still runs.
    pub fn is_running(&self) -> bool {
        self.process.ended().is_none()
    }

    /// The last lines that it wrote.
    pub fn log(&self) -> Vec<String> {
        self.process.log().iter().cloned().collect()
    }
}

/// A process, and the thread with which it ends.
#[derive(Debug)]
struct Process {
    child: Arc<Mutex<std::process::Child>>,
    number: u32,
    log: Arc<Mutex<VecDeque<String>>>,
    // Dropped, it ends the thread.
    end: Option<Sender<()>>,
    thread: Option<Thread>,
}

impl Process {
    fn start(mut command: Command, program: &Path) -> Result<Process> {
        let (sender, receiver) = channel();
        let (end, ended) = channel::<()>();
        let start = move || {
            let started = command.spawn();
            let is_started = started.is_ok();
            if sender.send(started).is_ok() && is_started {
                let _ = ended.recv();
            }
        };
        let thread = Thread::start("stillframe-etcd", start);
        let thread = thread.map_err(|error| Error::io("pthread_create", program, &error))?;
        let started = receiver.recv().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()));
        let mut child = started.map_err(|error| {
            let why = format!("{error}; install it (Debian: etcd-server), or name one that runs");
            Error::Child { program: program.display().to_string(), waited: Duration::ZERO, why, log: Vec::new() }
        })?;
        let (number, log) = (child.id(), Arc::new(Mutex::default()));
        if let Some(stderr) = child.stderr.take() {
            let into = log.clone();
            let read = move || keep_lines(stderr, &into);
            Thread::start("stillframe-etcd", read).map_err(|error| Error::io("pthread_create", program, &error))?;
        }
        Ok(Process { child: Arc::new(Mutex::new(child)), number, log, end: Some(end), thread: Some(thread) })
    }

    fn ended(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait().ok().flatten()
    }

    /// The last lines of one that has ended: those that it wrote right before are waited for.
    fn whole_log(&self) -> Vec<String> {
        let begin = Instant::now();
        // The thread that reads them has it, too.
        while Arc::strong_count(&self.log) > 1 && begin.elapsed() < LOG_LIMIT {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.log().iter().cloned().collect()
    }

    fn log(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        {
            let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
            // Its data go anyway: nothing is lost by ending it at once.
            let _ = child.kill();
            let _ = child.wait();
        }
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}

/// Keeps the last lines of a log, each up to a length.
fn keep_lines(stderr: ChildStderr, log: &Mutex<VecDeque<String>>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while matches!(reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line), Ok(1..)) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() == LINES {
            log.pop_front();
        }
        log.push_back(text);
    }
}

fn is_in_use(log: &[String]) -> bool {
    log.iter().any(|line| line.contains("address already in use"))
}

/// A port that is free. If possible it is one that the system gives nobody who asks for any: when this etcd has ended, the next one is to
/// find it free, and an outgoing connection of anybody else might have got it.
fn free_port(address: IpAddr) -> Result<u16> {
    if let Some(given_from) = given_from().filter(|from| *from > PORT_MIN) {
        let number = |_| PORT_MIN + (crate::epoch::random() % u64::from(given_from - PORT_MIN)) as u16;
        if let Some(port) = (0..PORTS).map(number).find(|port| TcpListener::bind((address, *port)).is_ok()) {
            return Ok(port);
        }
    }
    let bound = TcpListener::bind((address, 0)).and_then(|listener| listener.local_addr());
    let why = |error: std::io::Error| Error::option(format!("the address {address} of etcd"), error.to_string());
    bound.map(|bound| bound.port()).map_err(why)
}

/// The first of the ports that the system gives to those who ask for any.
fn given_from() -> Option<u16> {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?.split_whitespace().next()?.parse().ok()
}

/// A directory with data in memory.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    // Whoever can lock it knows that nobody uses the directory any more.
    _lock: File,
}

impl Directory {
    fn make() -> Result<Directory> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        sweep();
        loop {
            let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
            let path =
                Path::new(PLACE).join(format!("{BEGIN}{}-{serial}-{:x}", std::process::id(), crate::epoch::random()));
            fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| Error::io("mkdir", &path, &error))?;
            let file = path.join("lock");
            let lock = File::create_new(&file).map_err(|error| Error::io("open", &file, &error))?;
            if lock_own(&lock).map_err(|error| Error::io("flock", &file, &error))? {
                return Ok(Directory { path, _lock: lock });
            }
        }
    }
}

/// Locks a file that was just made; or somebody took its directory for one that was left, and removes it or has done so.
fn lock_own(lock: &File) -> std::io::Result<bool> {
    match lock.try_lock() {
        Ok(()) => Ok(lock.metadata()?.nlink() > 0),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes what processes left that were killed. Where that cannot be done nothing is lost but memory.
fn sweep() {
    let Ok(entries) = fs::read_dir(PLACE) else { return };
    let own = stillframe_kernel::user_id();
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_one = name.to_string_lossy().starts_with(BEGIN) && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_one || entry.metadata().is_ok_and(|about| about.uid() != own) {
            continue;
        }
        if let Ok(lock) = File::open(path.join("lock"))
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_was_taken_for_one_that_was_left_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let (lock, other) = (File::create_new(&path).unwrap(), File::open(&path).unwrap());
        other.try_lock().unwrap();
        assert!(!lock_own(&lock).unwrap(), "it is being removed");
        fs::remove_file(&path).unwrap();
        drop(other);
        assert!(!lock_own(&lock).unwrap(), "it was removed");

        let lock = File::create_new(&path).unwrap();
        assert!(lock_own(&lock).unwrap());
    }
}
