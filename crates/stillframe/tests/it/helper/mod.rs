//! What the tests of failures share: helper processes, and content that tells whether it is whole.
//!
//! A helper process is this test binary started once more, with the name of a role in its environment. Each module of tests
//! that starts some has a test `helper_process` that hands over to the role, and does nothing otherwise.
#![allow(dead_code, unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use stillframe::{Array, Loaned, Observer, Region, RegionOptions, Snapshot, Tracked};

const ROLE: &str = "STILLFRAME_TEST_ROLE";
const ARGUMENTS: &str = "STILLFRAME_TEST_ARGUMENTS";

/// A part that a helper process plays: its name and what it does with its arguments.
pub type Role<'a> = (&'a str, fn(&[String]));

/// Plays a role and ends the process, if this process was started for one.
pub fn enter(roles: &[Role]) {
    let Ok(role) = std::env::var(ROLE) else { return };
    let arguments: Vec<String> =
        std::env::var(ARGUMENTS).unwrap_or_default().split('\n').filter(|s| !s.is_empty()).map(String::from).collect();
    let (_, play) = roles.iter().find(|(name, _)| *name == role).expect("a role of this file");
    // SAFETY: prctl with these numbers touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    play(&arguments);
    // Dropped values of a role are gone by now; what the test harness would still print is of no use to anybody.
    std::process::exit(0);
}

/// A helper process that says something line by line and can be told to go on. It is killed when dropped.
pub struct Helper {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

/// The command for a helper process of the module that calls this, to be changed before it is started.
#[track_caller]
pub fn command(role: &str, arguments: &[&str]) -> Command {
    // The link works for users who cannot reach the directory of the test binary.
    let mut command = Command::new("/proc/self/exe");
    let module = module(std::panic::Location::caller().file());
    command.args([&format!("{module}::helper_process"), "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(ARGUMENTS, arguments.join("\n"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// The module of tests a file belongs to: its own, or, where tests share it, that of the test that runs, by which its thread is named.
fn module(file: &'static str) -> String {
    let file = Path::new(file);
    let thread = std::thread::current();
    match thread.name().and_then(|name| name.split_once("::")) {
        Some((module, _)) if !file.parent().is_some_and(|folder| folder.ends_with("it")) => module.to_string(),
        _ => file.file_stem().unwrap().display().to_string(),
    }
}

#[track_caller]
pub fn start(role: &str, arguments: &[&str]) -> Helper {
    Helper::start(command(role, arguments))
}

/// Runs a role to its end, which must be a good one.
#[track_caller]
pub fn run(role: &str, arguments: &[&str]) -> Vec<String> {
    start(role, arguments).finish()
}

impl Helper {
    pub fn start(mut command: Command) -> Helper {
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let lines = read_lines(child.stdout.take().unwrap());
        Helper { child, stdin, lines }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The next thing it says, or `None` if it says nothing more.
    pub fn hear(&mut self) -> Option<String> {
        self.lines.recv().ok()
    }

    /// The next thing it says, if it does so in this time.
    pub fn try_hear(&mut self, timeout: Duration) -> Option<String> {
        match self.lines.recv_timeout(timeout) {
            Ok(text) => Some(text),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("helper process {} ended without a word", self.pid()),
        }
    }

    /// The next thing it says in this time, if anything; `None` once it has ended.
    pub fn try_hear_end(&mut self, timeout: Duration) -> Option<Option<String>> {
        match self.lines.recv_timeout(timeout) {
            Ok(text) => Some(Some(text)),
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Waits until it says this.
    pub fn expect(&mut self, text: &str) {
        assert_eq!(self.hear().as_deref(), Some(text), "helper process {}", self.pid());
    }

    /// Lets a helper that waits in [`wait_for_word`] go on.
    pub fn tell(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the number is that of a child that was not waited for yet, so it is nobody else's.
        unsafe { libc::kill(self.pid(), signal) };
    }

    /// Stops it and waits until it stands still.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        self.wait_stopped();
    }

    /// Waits until it stands still, as one does that stops at a point.
    pub fn wait_stopped(&self) {
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        until("a helper to stop", || {
            state().rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
        });
    }

    /// Kills it and waits until it is gone. Returns what it said last, before that.
    pub fn kill(&mut self) -> Vec<String> {
        self.signal(libc::SIGKILL);
        self.wait().1
    }

    pub fn wait(&mut self) -> (ExitStatus, Vec<String>) {
        drop(self.stdin.take());
        let status = self.child.wait().unwrap();
        (status, self.lines.iter().collect())
    }

    /// Waits for its good end.
    pub fn finish(mut self) -> Vec<String> {
        let (status, lines) = self.wait();
        assert!(status.success(), "the helper process ended with {status}");
        lines
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // What the test harness prints goes between.
            if let Some((_, said)) = line.split_once('@') {
                let _ = sender.send(said.to_string());
            }
        }
    });
    receiver
}

/// Says something to the process that started this helper.
pub fn say(text: &str) {
    let line = format!("\n@{text}\n");
    let mut out = std::io::stdout();
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Waits for [`Helper::tell`].
pub fn wait_for_word() {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).unwrap_or(0) == 0 {
        std::process::exit(0);
    }
}

/// Waits until something is so. The watchdog ends what never will be.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    let mut told = false;
    while !is_so() {
        std::thread::sleep(Duration::from_millis(1));
        if !std::mem::replace(&mut told, begin.elapsed() > Duration::from_secs(60)) && told {
            eprintln!("still waiting for {what}");
        }
    }
}

/// Bytes of memory behind all files below a directory.
pub fn allocated_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => allocated_bytes(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

pub const PAGE_WORDS: usize = 512;

/// The version up to `version` that wrote a page last: each page has a period of its own, and some are written once.
pub fn last_written(version: u64, page: usize) -> u64 {
    let page = page as u64;
    let period = match page % 32 {
        0..4 => 1,
        4..8 => 2,
        8..15 => 5,
        15 => 23,
        // Written by the first version alone, and never.
        16..28 => return 1.min(version),
        _ => return 0,
    };
    version - ((version + page * 7) % period).min(version)
}

fn word(variable: u64, page: u64, stamp: u64, index: u64) -> u64 {
    if stamp == 0 {
        return 0;
    }
    ((variable << 56) | (page << 40) | (stamp << 16)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index
}

/// Writes what a version writes: all pages that are due, word by word their version, number and variable.
pub fn write_version(memory: &mut [u64], variable: u64, version: u64) {
    for (page, words) in memory.chunks_mut(PAGE_WORDS).enumerate() {
        if last_written(version, page) == version {
            write_page(words, variable, page, version);
        }
    }
}

/// Writes everything as it is in a version.
pub fn write_all(memory: &mut [u64], variable: u64, version: u64) {
    for (page, words) in memory.chunks_mut(PAGE_WORDS).enumerate() {
        write_page(words, variable, page, last_written(version, page));
    }
}

fn write_page(words: &mut [u64], variable: u64, page: usize, stamp: u64) {
    for (index, element) in words.iter_mut().enumerate() {
        *element = word(variable, page as u64, stamp, index as u64);
    }
}

/// Checks every word of a variable in a version.
pub fn check_version(memory: &[u64], variable: u64, version: u64) {
    check(memory, variable, version, last_written);
}

fn check(memory: &[u64], variable: u64, version: u64, stamp: impl Fn(u64, usize) -> u64) {
    for (page, words) in memory.chunks(PAGE_WORDS).enumerate() {
        let stamp = stamp(version, page);
        for (index, found) in words.iter().enumerate() {
            let expected = word(variable, page as u64, stamp, index as u64);
            assert_eq!(
                *found, expected,
                "variable {variable} of version {version}: word {index} of page {page}, last written by {stamp}"
            );
        }
    }
}

const MANAGED: u64 = 1;
const TRACKED: u64 = 2;
const LOANED: u64 = 3;
const EXTRA: u64 = 4;
/// One window and a bit.
const MANAGED_WORDS: usize = 600 * PAGE_WORDS;
const TRACKED_WORDS: usize = 40 * PAGE_WORDS + 100;
const LOANED_WORDS: usize = 20 * PAGE_WORDS;
const EXTRA_WORDS: usize = 5 * PAGE_WORDS;
/// Where the tracked array begins in its memory, so that it shares its first and last page with something else.
const TRACKED_OFFSET: usize = 77;

/// Bytes of all variables of a [`Play`].
pub const PLAY_BYTES: u64 = 8 * (MANAGED_WORDS + TRACKED_WORDS + LOANED_WORDS + EXTRA_WORDS) as u64 + 4 * 4096;

/// The last version up to `version` that had a loan.
fn last_loan(version: u64) -> u64 {
    version - version % 3
}

/// Whether a version has the variable that comes and goes, so that schemas change.
fn has_extra(version: u64) -> bool {
    version / 6 % 2 == 1
}

/// A producer of versions whose content follows from their number: managed, tracked, loaned, and one that comes and goes.
pub struct Play {
    pub region: Region,
    managed: Array<u64>,
    pub tracked: Tracked<u64>,
    loaned: Loaned<u64>,
    extra: Option<Array<u64>>,
    buffer: Vec<u64>,
    pub version: u64,
}

impl Play {
    /// Creates the region or goes on with what a dead producer left, whose managed content is checked.
    pub fn open(options: RegionOptions, name: &str) -> Play {
        Play::try_open(options, name).unwrap()
    }

    pub fn try_open(options: RegionOptions, name: &str) -> stillframe::Result<Play> {
        let mut region = options.create(name)?;
        let version = region.recovered().unwrap_or(0);
        let managed = region.array("managed", &[MANAGED_WORDS])?;
        let tracked = region.track("tracked")?;
        let loaned = region.loaned("loaned", &[LOANED_WORDS])?;
        let extra = if has_extra(version) { Some(region.array("extra", &[EXTRA_WORDS])?) } else { None };
        check_version(region.slice(&managed), MANAGED, version);
        if let Some(extra) = &extra {
            check(region.slice(extra), EXTRA, version, |version, _| version);
        }
        let mut buffer = vec![0; TRACKED_OFFSET + TRACKED_WORDS + 50];
        write_all(&mut buffer[TRACKED_OFFSET..TRACKED_OFFSET + TRACKED_WORDS], TRACKED, version);
        Ok(Play { region, managed, tracked, loaned, extra, buffer, version })
    }

    /// Plays versions while an observer elsewhere holds one, is woken by others, and holds the last. `holders` says how many hold
    /// some, which is to be seen from here.
    pub fn step_beside(&mut self, observer: &mut Helper, holders: impl Fn() -> usize) {
        observer.expect("holds");
        assert_eq!(holders(), 1, "its lock is seen from here");
        self.steps(100);
        self.step_until_heard(observer);
        assert_eq!(holders(), 1);
    }

    /// Tells an observer to go on, and publishes until it says something.
    pub fn step_until_heard(&mut self, observer: &mut Helper) {
        observer.tell();
        while observer.try_hear(Duration::from_millis(2)).is_none() {
            self.step();
        }
    }

    /// Writes and publishes so many versions.
    pub fn steps(&mut self, count: usize) {
        (0..count).for_each(|_| self.step());
    }

    /// Writes and publishes the next version.
    pub fn step(&mut self) {
        self.write().unwrap();
        let published = self.publish().unwrap();
        assert_eq!(published.outcome, stillframe::Outcome::Published);
    }

    /// Writes the next version, but for the loan, which [`publish`](Play::publish) makes. May be tried again after an
    /// error.
    pub fn write(&mut self) -> stillframe::Result<()> {
        let version = self.version + 1;
        if has_extra(version) != self.extra.is_some() {
            match self.extra.take() {
                Some(_) => self.region.remove("extra")?,
                None => self.extra = Some(self.region.array("extra", &[EXTRA_WORDS])?),
            }
        }
        self.version = version;
        write_version(self.region.slice_mut(&self.managed), MANAGED, version);
        write_version(&mut self.buffer[TRACKED_OFFSET..TRACKED_OFFSET + TRACKED_WORDS], TRACKED, version);
        if let Some(extra) = &self.extra {
            for (page, words) in self.region.slice_mut(extra).chunks_mut(PAGE_WORDS).enumerate() {
                write_page(words, EXTRA, page, version);
            }
        }
        Ok(())
    }

    /// Publishes what was written. May be tried again after an error.
    pub fn publish(&mut self) -> stillframe::Result<stillframe::Published> {
        if last_loan(self.version) == self.version {
            let mut loan = self.region.loan(&self.loaned)?;
            for (page, words) in loan.chunks_mut(PAGE_WORDS).enumerate() {
                write_page(words, LOANED, page, self.version);
            }
            loan.submit();
        }
        let slice = &self.buffer[TRACKED_OFFSET..TRACKED_OFFSET + TRACKED_WORDS];
        let publication = self.region.publish(self.version).tracked(&self.tracked, slice, &[slice.len()]);
        let publication = publication.attr("version", self.version as i64);
        match self.version % 4 {
            0 => publication.commit_while(|| {}).map(|((), published)| published),
            _ => publication.commit(),
        }
    }
}

/// Checks every word of a snapshot of a [`Play`].
pub fn check_play(snapshot: &Snapshot) {
    let version = snapshot.version();
    assert_eq!(snapshot.attributes().get("version"), Some(&stillframe::Scalar::Int(version as i64)));
    check_version(snapshot.slice("managed").unwrap(), MANAGED, version);
    check_version(snapshot.slice("tracked").unwrap(), TRACKED, version);
    check(snapshot.slice("loaned").unwrap(), LOANED, version, |version, _| last_loan(version));
    let names: Vec<&str> = snapshot.variables().iter().map(|variable| variable.name.as_str()).collect();
    assert_eq!(names.contains(&"extra"), has_extra(version), "version {version} has {names:?}");
    if has_extra(version) {
        check(snapshot.slice("extra").unwrap(), EXTRA, version, |version, _| version);
    }
}

/// Checks what a snapshot shows through pieces rather than one slice.
pub fn check_play_in_pieces(snapshot: &Snapshot) {
    let mut words = Vec::new();
    for chunk in snapshot.chunks("managed").unwrap() {
        words.extend(chunk.bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())));
    }
    check_version(&words, MANAGED, snapshot.version());
}

/// Attaches to a region that may be about to be created, and to be taken away again.
pub fn attach(dir: &Path, name: &str, wait: Duration) -> Option<Observer> {
    match Observer::options().dir(dir).wait(wait).open(name) {
        Ok(observer) => Some(observer),
        Err(stillframe::Error::Timeout { .. } | stillframe::Error::NoRegion { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}
