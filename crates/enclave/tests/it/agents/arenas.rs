//! Arenas of enclaves: who may change what lies in them, and what memory they have.

use crate::common::{Dir, watchdog};
use crate::enclosure::may_enclose;
use crate::helper::{self, Helper, check_play, until};
use crate::pair::{BYTES, Pair};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use stillframe::enclave::Handout;
use stillframe::{Arena, Observer, Region, Trust, inspect};
use stillframe_enclave::{Admission, Agent, AgentOptions, Options, Service};
use stillframe_segment::arena::CHUNK_BYTES;
use stillframe_segment::enclave::AGENT;

/// Who holds what in another enclave's arena is known by that one's locks. So nobody else makes or removes anything there.
#[test]
fn nothing_is_made_or_removed_in_the_arena_of_another_enclave() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("foreign") else { return };
    let _agents = pair.agents();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    // Of a producer that is dead, as what `still gc` removes.
    producer.kill();
    let mut observer = pair.start(1, "observe", &["guest/r"]);
    observer.expect("holds");
    let dir = &pair.dirs[0];
    let seen = Observer::options().dir(dir).open("guest/r").unwrap();
    until("the end of the producer to be seen", || !seen.producer_alive());
    assert!(inspect::collect(dir).unwrap().is_empty());
    let refused = |result: Result<(), stillframe::Error>| {
        let said = result.unwrap_err().to_string();
        assert!(said.contains("of another enclave"), "{said}");
    };
    for name in ["guest/r", "guest/s"] {
        refused(pair.options().create(name).map(drop));
    }
    for force in [false, true] {
        for name in ["guest/r", "guest"] {
            refused(inspect::remove(dir, name, force).map(drop));
        }
    }
    check_play(&seen.newest().unwrap());
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    observer.tell();
    observer.expect("followed");
}

/// Whoever has files from a broker asks no agent: what he held, the enclave's producers would not see.
#[test]
fn a_broker_hands_out_no_arena_of_another_enclave() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("handed-out") else { return };
    let [_host, _guest] = pair.agents();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let _own = Arena::options().dir(&pair.dirs[0]).open("host").unwrap();
    let mut own = Region::options().dir(&pair.dirs[0]).create("host/r").unwrap();
    own.publish(1).commit().unwrap();
    let socket = pair.dirs[0].join("broker");
    let options = Options { socket: socket.clone(), mode: 0o600, trust: Trust::Own, stays: false };
    let handout = Handout::new(&pair.dirs[0], None, &[]).unwrap().accept_plain(true);
    let service = Service::begin(&options, handout, Admission::default()).unwrap();
    let (stop, stops) = std::os::unix::net::UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| service.serve(std::os::fd::AsFd::as_fd(&stops)).unwrap());
        let open = |name: &str| Observer::options().open(&format!("unix:{}#{name}", socket.display()));
        assert_eq!(open("host/r").unwrap().newest().unwrap().version(), 1);
        let error = open("guest/r").unwrap_err().to_string();
        assert!(error.contains("another enclave's"), "{error}");
        drop(stop);
    });
    check_play(&Observer::options().dir(&pair.dirs[0]).open("guest/r").unwrap().newest().unwrap());
}

/// Holes in an enclave's memory take memory when they are read, and where there is none nobody is ended by that.
#[test]
fn an_enclave_that_leaves_holes_ends_nobody_where_memory_is_used_up() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    let dir = Dir::plain("holes");
    let inner = helper::command("fill", &[dir.path().to_str().unwrap()]);
    let mut small = Command::new("unshare");
    let user: &[&str] = if stillframe_kernel::user_id() == 0 { &[] } else { &["-r"] };
    small.args(user).args(["-m", "--propagation", "private", "sh", "-c"]);
    small.arg("mount -t tmpfs -o size=16m,mode=755 none \"$1\" && shift && exec \"$@\"").arg("sh").arg(dir.path());
    small.arg(std::env::current_exe().unwrap()).args(inner.get_args());
    small.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    small.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut helper = Helper::start(small);
    assert_eq!(helper.hear().as_deref(), Some("lives"));
}

/// Places of an enclave's arena where it wrote nothing, which it may name as a version's, have memory before anybody here reads them.
#[test]
fn the_arena_of_an_enclave_has_memory_before_anybody_reads_it() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("memory") else { return };
    let [_host, _guest] = pair.agents();
    let _play = pair.produce();
    pair.observe(1).kill();
    let about = pair.area(0).metadata().unwrap();
    assert!(about.blocks() * 512 >= BYTES - CHUNK_BYTES as u64, "{} of {BYTES}", about.blocks() * 512);
}

#[test]
fn names_and_memory_that_cannot_be_shared_are_refused() {
    let _watchdog = watchdog(300);
    let dir = Dir::plain("refused");
    let begin = |name: &str, bytes: u64, peers: &[&str]| {
        let peers = peers.iter().map(|name| name.to_string()).collect();
        let (dir, trust) = (dir.path().to_path_buf(), Trust::Own);
        let doorbells = Vec::new();
        Agent::begin(AgentOptions {
            dir,
            name: name.into(),
            bytes,
            peers,
            forgotten: Vec::new(),
            sparse: false,
            doorbells,
            mode: 0o755,
            trust,
        })
        .map(drop)
        .map_err(|error| error.to_string())
    };
    for (name, peers) in [("", &[][..]), ("a/b", &[]), ("..", &[]), ("a", &["a"]), ("a", &["b c"])] {
        assert!(begin(name, BYTES, peers).is_err(), "{name}");
    }
    assert!(begin("small", 1 << 20, &[]).unwrap_err().contains("too few"));
    begin("fine", BYTES, &["other"]).unwrap();
    begin("fine", BYTES, &["other"]).unwrap();
    assert!(!dir.path().join("other").join(AGENT).exists());
    // Another arena is there, which has no room behind it.
    stillframe::Arena::options().dir(dir.path()).bytes(BYTES).create("full").unwrap();
    assert!(begin("full", BYTES, &[]).is_err());
}
