//! Doorbells: who waits in another enclave is woken at once. The server is tried by a client that is written here as QEMU's document says
//! (docs/specs/ivshmem-spec), and agents with two directories of one kernel.
#![allow(unsafe_code)]

use crate::common;
use crate::pair;

use crate::common::watchdog;
use crate::helper::{Helper, Play, check_play, enter, say, until, wait_for_word};
use crate::pair::{Pair, be_agent};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stillframe::{Observer, Region, Rule};
use stillframe_kernel::local;
use stillframe_segment::bell;
use stillframe_segment::enclave::{DOORBELL, IDENTITY_AT, produced_at, rung_at};

const LONG: Duration = Duration::from_secs(60);

/// What the document calls version, and what it sends with the memory.
const VERSION: i64 = 0;
const MEMORY: i64 = -1;
/// Which of those that are connected the agent is.
const AGENT: i64 = 0;

/// Most that are connected at a time.
const CLIENTS_MAX: usize = 16;

#[test]
fn helper_process() {
    enter(&[("agent", be_agent), ("wait", wait), ("follow", follow), ("play", play)]);
}

/// Waits for version after version, each time when told, without holding one.
fn wait(arguments: &[String]) {
    let [dir, name] = arguments else { panic!("wait DIR NAME") };
    let observer = Observer::options().dir(dir).wait(LONG).open(name).unwrap();
    let mut seen = observer.wait_newer(None, Some(LONG)).unwrap();
    loop {
        say("waits");
        seen = observer.wait_newer(Some(seen), None).unwrap();
        say("came");
        wait_for_word();
    }
}

/// Publishes until a version has this number, with a pause before each.
fn play(arguments: &[String]) {
    let [dir, name, last] = arguments else { panic!("play DIR NAME LAST") };
    let mut play = Play::open(Region::options().dir(dir).rule(Rule::Wait { timeout: None }), name);
    while play.version < last.parse().unwrap() {
        std::thread::sleep(Duration::from_millis(2));
        play.step();
    }
}

/// Looks at versions as they come, and checks each, until the last of them.
fn follow(arguments: &[String]) {
    let [dir, name, last] = arguments else { panic!("follow DIR NAME LAST") };
    let observer = Observer::options().dir(dir).wait(LONG).open(name).unwrap();
    let mut seen = None;
    while seen != Some(last.parse().unwrap()) {
        let snapshot = observer.newest_after(seen, Some(LONG)).unwrap();
        check_play(&snapshot);
        seen = Some(snapshot.version());
    }
    say("saw all");
}

/// Somebody who is connected, as the document says.
struct Connected {
    socket: UnixStream,
    id: i64,
    memory: File,
    /// By which others are rung.
    others: BTreeMap<i64, File>,
    /// Rung by others.
    own: File,
}

/// The next message, which is waited for; `None` at the end.
fn next(socket: &UnixStream) -> Option<(i64, Option<File>)> {
    let mut number = [0; 8];
    local::wait_any(&[socket.as_fd()], None).unwrap();
    let mut message = local::receive(socket, &mut number).ok().flatten().filter(|message| message.bytes > 0)?;
    assert!(message.bytes == 8 && message.files.len() <= 1 && !message.lacks_files, "{message:?}");
    Some((i64::from_le_bytes(number), message.files.pop()))
}

impl Connected {
    fn new(path: &Path) -> Connected {
        Connected::try_new(path).expect("a server that takes one more")
    }

    /// `None` if nothing is said.
    fn try_new(path: &Path) -> Option<Connected> {
        let socket = UnixStream::connect(path).unwrap();
        let (version, file) = next(&socket)?;
        assert!(version == VERSION && file.is_none());
        let (id, file) = next(&socket).unwrap();
        assert!((0..=65535).contains(&id) && file.is_none());
        let (number, memory) = next(&socket).unwrap();
        assert_eq!(number, MEMORY);
        let mut others = BTreeMap::new();
        loop {
            let (number, file) = next(&socket).unwrap();
            let file = file.expect("a counter");
            if number == id {
                return Some(Connected { socket, id, memory: memory.expect("the memory"), others, own: file });
            }
            assert!((0..=65535).contains(&number));
            assert!(others.insert(number, file).is_none(), "one counter for each");
        }
    }

    /// Hears of others who come and go.
    fn hear(&mut self) -> i64 {
        let (number, file) = next(&self.socket).unwrap();
        match file {
            Some(file) => assert!(self.others.insert(number, file).is_none()),
            None => assert!(self.others.remove(&number).is_some()),
        }
        number
    }

    /// Waits until it is rung.
    fn wait(&mut self) {
        local::wait_any(&[self.own.as_fd()], None).unwrap();
        let mut count = [0; 8];
        self.own.read_exact(&mut count).unwrap();
    }
}

fn ring(mut counter: &File) {
    counter.write_all(&1u64.to_ne_bytes()).unwrap();
}

/// Fills a counter, and has whoever adds to it wait.
fn fill(mut counter: &File) {
    until("nobody to have rung meanwhile", || {
        let _ = counter.read(&mut [0; 8]);
        counter.write_all(&(u64::MAX - 1).to_ne_bytes()).is_ok()
    });
    // SAFETY: the call takes numbers.
    assert_eq!(unsafe { libc::fcntl(counter.as_raw_fd(), libc::F_SETFL, 0) }, 0);
}

impl Pair {
    fn socket(&self) -> PathBuf {
        self.dirs[0].join("guest").join(DOORBELL)
    }

    /// A number of the bell that this enclave has beside the other one's arena; 0 if there is none yet.
    fn bell(&self, side: usize, at: usize) -> u32 {
        let path = self.dirs[side].join(pair::NAMES[1 - side]).join(bell::FILE);
        let mut number = [0; 4];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut number, at as u64));
        read.map_or(0, |()| u32::from_le_bytes(number))
    }

    /// Whether who waits in this enclave may rely on the other one.
    fn is_sure(&self, side: usize) -> bool {
        self.bell(side, bell::SURE_AT) == 1
    }

    /// The agent of the host, with a doorbell for the guest.
    fn host_agent(&self) -> Helper {
        self.agent_with(0, &["!guest"])
    }

    /// That of the guest, which rings and is rung as the QEMU of a machine does it.
    fn guest_agent(&self) -> Helper {
        self.agent_with(1, &[&format!("!host={}", self.socket().display())])
    }

    /// Both agents, which have seen and heard each other.
    fn ringing_agents(&self) -> [Helper; 2] {
        let agents = [self.host_agent(), self.guest_agent()];
        self.meet();
        until("both to be rung", || self.is_sure(0) && self.is_sure(1));
        agents
    }

    /// Both agents, of which the guest's has no doorbell.
    fn serving_agents(&self) -> [Helper; 2] {
        let agents = [self.host_agent(), self.agent(1)];
        self.meet();
        agents
    }

    /// Waits until somebody is heard who rings the agent of the host.
    fn hears(&self, ring: impl Fn()) {
        let count = self.bell(0, bell::COUNT_AT);
        until("a ring to be heard", || {
            ring();
            self.bell(0, bell::COUNT_AT) != count
        });
    }
}

#[test]
fn who_connects_gets_the_memory_and_rings_and_is_rung_as_the_document_says() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("says") else { return };
    let _agents = pair.serving_agents();
    let mode = std::fs::metadata(pair.socket()).unwrap().mode() & 0o777;
    assert_eq!(mode, 0o600, "who may not write to the arena may not connect");
    assert_eq!(pair.word(0, rung_at(0)), 0, "nobody is connected");
    let mut one = Connected::new(&pair.socket());
    let arena = std::fs::metadata(pair.dirs[0].join("guest/arena")).unwrap();
    let memory = one.memory.metadata().unwrap();
    assert_eq!((memory.dev(), memory.ino(), memory.len()), (arena.dev(), arena.ino(), arena.len()));
    // QEMU maps it to be written.
    one.memory.write_all_at(&[], 0).unwrap();
    assert_ne!(one.id, AGENT);
    assert_eq!(one.others.keys().copied().collect::<Vec<_>>(), [AGENT]);
    until("it to be said who is rung", || pair.word(0, rung_at(0)) == pair.word(1, IDENTITY_AT));
    pair.hears(|| ring(&one.others[&AGENT]));

    let mut play = pair.produce();
    one.wait();
    play.step();
    one.wait();

    let mut two = Connected::new(&pair.socket());
    assert_eq!(two.others.keys().copied().collect::<Vec<_>>(), [AGENT, one.id]);
    assert_eq!(one.hear(), two.id);
    ring(&one.others[&two.id]);
    two.wait();
    ring(&two.others[&one.id]);
    one.wait();
    play.step();
    one.wait();
    two.wait();
    pair.hears(|| ring(&two.others[&AGENT]));
    let two_id = two.id;
    drop(two);
    assert_eq!(one.hear(), two_id);
    assert!(!one.others.contains_key(&two_id));
    // A number is not given again at once: who has it may not have heard yet that the other one is gone.
    assert_ne!(Connected::new(&pair.socket()).id, two_id);
    drop(one);
    until("it to be said that nobody is rung", || pair.word(0, rung_at(0)) == 0);
}

/// The end of a connection, as who is connected sees it.
fn is_ended(socket: &UnixStream) -> bool {
    local::watch(&[(socket.as_fd(), false)], Some(Duration::ZERO)).unwrap()[0].ended
}

#[test]
fn who_says_something_or_takes_nothing_is_let_go_and_nobody_waits_for_him() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("hostile") else { return };
    let [mut host, _guest] = pair.serving_agents();
    let mut play = pair.produce();
    let mut good = Connected::new(&pair.socket());
    let silent: Vec<UnixStream> = (0..3).map(|_| UnixStream::connect(pair.socket()).unwrap()).collect();
    for message in [&[0][..], &[0; 8], &[0xff; 4096]] {
        let mut talks = UnixStream::connect(pair.socket()).unwrap();
        // It may have been let go before all of it was said.
        let _ = talks.write_all(message);
        until("who talks to be let go", || is_ended(&talks));
    }
    for _ in 0..200 {
        drop(UnixStream::connect(pair.socket()).unwrap());
    }
    for _ in 0..20 {
        play.step();
        good.wait();
    }
    pair.hears(|| ring(&good.others[&AGENT]));
    until("who takes nothing to be let go", || silent.iter().all(is_ended));
    host.tell();
    assert!(host.wait().0.success());
}

#[test]
fn there_is_room_for_so_many_and_then_for_the_next_when_one_has_gone() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("many") else { return };
    let _agents = pair.serving_agents();
    let mut all: Vec<Connected> = (0..CLIENTS_MAX).map(|_| Connected::new(&pair.socket())).collect();
    assert!(Connected::try_new(&pair.socket()).is_none());
    drop(all.pop());
    let mut last = None;
    until("there to be room", || {
        last = last.take().or_else(|| Connected::try_new(&pair.socket()));
        last.is_some()
    });
    let mut play = pair.produce();
    all.iter_mut().chain(&mut last).for_each(Connected::wait);
    play.step();
    all.iter_mut().chain(&mut last).for_each(Connected::wait);
}

/// Whoever has a counter can have each one wait who adds to it.
#[test]
fn who_fills_his_counter_keeps_himself_from_being_rung_and_nobody_else() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("full") else { return };
    let [mut host, _guest] = pair.serving_agents();
    let mut play = pair.produce();
    let full: Vec<Connected> = (0..3).map(|_| Connected::new(&pair.socket())).collect();
    for connected in &full {
        fill(&connected.own);
        // The agent takes from this one, and would wait if it were empty when it looks.
        fill(&connected.others[&AGENT]);
    }
    let mut good = Connected::new(&pair.socket());
    for _ in 0..20 {
        play.step();
        good.wait();
    }
    pair.hears(|| ring(&good.others[&AGENT]));
    // Those who have gone and kept their counters take places, and no more than that.
    let counters: Vec<File> = full.into_iter().map(|connected| connected.own).collect();
    for _ in 0..20 {
        play.step();
        good.wait();
    }
    drop(counters);
    let mut all = Vec::new();
    until("all places to be free again", || {
        all.extend(Connected::try_new(&pair.socket()));
        all.len() == CLIENTS_MAX - 1
    });
    host.tell();
    assert!(host.wait().0.success());
}

/// How often a process has gone to sleep.
fn sleeps(pid: i32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let texts = tasks.map(|task| std::fs::read_to_string(task.path().join("status")).unwrap_or_default());
    let count = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    texts.filter_map(count).sum()
}

/// Whether a process sleeps for long each time, rather than to look again after a millisecond. Who sleeps for 50 ms does so twenty times
/// in a second at most, however slow the machine is; who looks may do so less often where he gets no processor, and is asked about again.
fn rests(pid: i32) -> bool {
    let (before, begin) = (sleeps(pid), Instant::now());
    std::thread::sleep(Duration::from_millis(500));
    u128::from(sleeps(pid) - before) < begin.elapsed().as_millis() / 10
}

#[test]
fn who_waits_behind_a_doorbell_is_woken_and_need_not_look() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("woken") else { return };
    let _agents = pair.ringing_agents();
    let mut play = pair.produce();
    let mut observer = pair.start(1, "wait", &["host/r"]);
    observer.expect("waits");
    until("it to sleep for long", || rests(observer.pid()));
    for _ in 0..20 {
        play.step();
        observer.expect("came");
        observer.tell();
        observer.expect("waits");
    }
}

#[test]
fn versions_are_followed_both_ways_by_doorbell() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("both") else { return };
    let _agents = pair.ringing_agents();
    let last = common::versions().to_string();
    let mut both: Vec<Helper> = [0, 1]
        .into_iter()
        .flat_map(|side| {
            let [own, other] = [side, 1 - side].map(|side| format!("{}/r", pair::NAMES[side]));
            [pair.start(side, "play", &[&own, &last]), pair.start(side, "follow", &[&other, &last])]
        })
        .collect();
    for followers in both.iter_mut().skip(1).step_by(2) {
        followers.expect("saw all");
    }
}

#[test]
fn who_waits_looks_by_himself_when_an_agent_is_gone_or_stands_still() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("gone") else { return };
    let [mut host, mut guest] = pair.ringing_agents();
    let mut play = pair.produce();
    let mut observer = pair.start(1, "wait", &["host/r"]);
    observer.expect("waits");
    until("its producer to be told of", || pair.word(0, produced_at(0)) != 0);
    let mut comes = |observer: &mut Helper| {
        play.step();
        observer.expect("came");
        observer.tell();
        observer.expect("waits");
    };
    // One that stands still may not ring, or ring late.
    host.stop();
    until("it to be relied on no more", || !pair.is_sure(1));
    until("the observer to look", || !rests(observer.pid()));
    comes(&mut observer);
    host.signal(libc::SIGCONT);
    until("it to be relied on again", || pair.is_sure(1));
    until("the observer to sleep", || rests(observer.pid()));
    comes(&mut observer);
    // Another agent of the host is connected to anew.
    host.kill();
    until("it to be relied on no more", || !pair.is_sure(1));
    comes(&mut observer);
    let _host = pair.host_agent();
    until("the next one to be relied on", || pair.is_sure(1) && pair.is_sure(0));
    comes(&mut observer);
    // What the guest's own agent said last still stands there. It says so as long as it hears the other one in time.
    until("the guest's agent to stand still while it relies on the other one", || {
        guest.stop();
        pair.is_sure(1) || {
            guest.signal(libc::SIGCONT);
            false
        }
    });
    guest.kill();
    assert!(pair.is_sure(1));
    until("the observer to look", || !rests(observer.pid()));
    comes(&mut observer);
    until("nothing of the guest to be relied on", || !pair.is_sure(0));
}
