//! This enclave beside one that writes whatever bytes spell to its own memory: for tests and for a fuzzer.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use stillframe::{Array, Observer, Outcome, Region, RegionOptions, Rule, Snapshot};
use stillframe_enclave::{Agent, AgentOptions};
use stillframe_kernel::trust::Trust;
use stillframe_segment::arena::{self, CHUNK_BYTES};
use stillframe_segment::enclave::{self, AREA_BYTES};

/// Of what each enclave shares: an arena, and a chunk for what its agent says.
const BYTES: u64 = 32 << 20;
const AREA_AT: u64 = BYTES - CHUNK_BYTES as u64;
/// Elements of the array: several pages.
const LENGTH: usize = 5000;
/// Versions for which there is room: the newest, one that is held, the next one, and one more.
const VERSIONS: u64 = 4;
/// Bytes of a command: what is done, where, and with what.
const COMMAND_BYTES: usize = 14;

/// What came of some bytes.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    /// Versions that were published.
    pub published: u64,
    /// Versions that were left out, as the rule of the region says where an enclave claims to hold all.
    pub skipped: u64,
    /// Versions of the other enclave that could be opened.
    pub opened: u64,
}

pub struct World {
    dir: PathBuf,
    agent: Arc<Agent>,
    region: Region,
    array: Array<u64>,
    version: u64,
    /// The other enclave's memory, what was there when all was well, and where something else was written.
    other: File,
    image: Vec<u8>,
    written: Vec<(u64, usize)>,
    end: Option<UnixStream>,
    serving: Option<JoinHandle<()>>,
    pub totals: Totals,
}

fn options(dir: &Path, name: &str, peer: &str) -> AgentOptions {
    let (name, peers) = (name.into(), vec![peer.into()]);
    AgentOptions {
        dir: dir.into(),
        name,
        bytes: BYTES,
        peers,
        forgotten: Vec::new(),
        sparse: false,
        doorbells: Vec::new(),
        mode: 0o700,
        trust: Trust::Own,
    }
}

fn region_options(dir: &Path) -> RegionOptions {
    Region::options().dir(dir).rule(Rule::Skip).bound_bytes(VERSIONS * (8 * LENGTH as u64).next_multiple_of(4096))
}

impl World {
    /// Below a directory of this process's own.
    pub fn new(dir: &Path) -> World {
        let [dir, aside] = ["own", "aside"].map(|side| dir.join(side));
        // What the other enclave writes as long as it means well: an arena with a region, by an agent that knows this one.
        let agent = Agent::begin(options(&aside, "guest", "host")).unwrap();
        agent.look().unwrap();
        let mut theirs = region_options(&aside).create("guest/r").unwrap();
        let array = theirs.array::<u64>("u", &[LENGTH]).unwrap();
        theirs.slice_mut(&array).fill(1);
        theirs.publish(1).commit().unwrap();
        let mut image = std::fs::read(aside.join("guest").join(arena::FILE)).unwrap();
        drop((theirs, agent));
        let agent = Arc::new(Agent::begin(options(&dir, "host", "guest")).unwrap());
        // It counts this one, and can say what it holds of its arena.
        let own = File::open(dir.join("host").join(arena::FILE)).unwrap();
        for (from, to) in [(enclave::IDENTITY_AT, enclave::admitted_at(0)), (enclave::ARENA_AT, enclave::subject_at(0))]
        {
            let word = &mut image[AREA_AT as usize + to..][..8];
            own.read_exact_at(word, AREA_AT + from as u64).unwrap();
        }
        let path = dir.join("guest").join(arena::FILE);
        let other = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        other.write_all_at(&image, 0).unwrap();
        let (stop, end) = UnixStream::pair().unwrap();
        let serving = {
            let agent = agent.clone();
            std::thread::spawn(move || agent.serve(stop.as_fd()).unwrap())
        };
        agent.look().unwrap();
        let mut region = region_options(&dir).create("host/r").unwrap();
        let array = region.array::<u64>("u", &[LENGTH]).unwrap();
        let (end, serving, totals) = (Some(end), Some(serving), Totals::default());
        World { dir, agent, region, array, version: 0, other, image, written: Vec::new(), end, serving, totals }
    }

    /// Does what bytes spell, from a state in which all is well. What must hold then: the agent runs, versions are published or left
    /// out by the rule, and the newest one and one that is held are what was published.
    pub fn play(&mut self, bytes: &[u8]) {
        for (at, length) in std::mem::take(&mut self.written) {
            self.other.write_all_at(&self.image[at as usize..][..length], at).unwrap();
        }
        self.agent.look().unwrap();
        let before = self.version;
        self.publish();
        assert_ne!(self.version, before, "nothing is published though nobody claims to hold anything any more");
        let held = self.own();
        for command in bytes.chunks_exact(COMMAND_BYTES) {
            self.obey(command);
        }
        self.agent.look().unwrap();
        self.publish();
        check(&held);
        check(&self.own());
        assert!(self.serving.as_ref().is_some_and(|serving| !serving.is_finished()), "the agent has ended");
    }

    fn obey(&mut self, command: &[u8]) {
        let place = u64::from(u32::from_le_bytes(command[2..6].try_into().unwrap()));
        let value = &command[6..COMMAND_BYTES];
        match command[0] {
            // Seldom: who is not counted is waited for.
            255 => self.look_there(),
            other => self.harm(other % 8, command[1], place, value),
        }
    }

    fn harm(&mut self, what: u8, which: u8, place: u64, value: &[u8]) {
        let words = [
            enclave::MAGIC_AT,
            enclave::ABI_AT,
            enclave::NAME_AT,
            enclave::IDENTITY_AT,
            enclave::ARENA_AT,
            enclave::CRC_AT,
            enclave::HEARTBEAT_AT,
            enclave::admitted_at(0),
            enclave::subject_at(0),
            enclave::name_at(0),
            enclave::area_at(0),
            enclave::produced_at(0),
            enclave::shown_at(0, 0),
        ];
        match what {
            0 => self.write(AREA_AT + words[place as usize % words.len()] as u64, value),
            1 => self.write(AREA_AT + place % AREA_BYTES as u64, value),
            // Claims to hold what it has never seen.
            2 => self.write(AREA_AT + enclave::shown_at(0, u32::from(which % 4)) as u64, &[0xff; 8]),
            3 => self.write(place % arena::HEADER_BYTES as u64, value),
            4 => self.write(place % BYTES, value),
            5 => self.say(which, place, value),
            6 => self.agent.look().map(drop).unwrap(),
            _ => self.publish(),
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let length = bytes.len().min((BYTES - at) as usize);
        self.written.push((at, length));
        self.other.write_all_at(&bytes[..length], at).unwrap();
    }

    /// Says who it is, well formed, but perhaps somebody else.
    fn say(&mut self, which: u8, place: u64, value: &[u8]) {
        let number = u64::from_le_bytes(value.try_into().unwrap()).max(1);
        let name = ["guest", "host", "other"][usize::from(which) % 3];
        let said = enclave::Enclave { name: name.into(), identity: number, arena: place.max(1), boot: [which; 16] };
        self.write(AREA_AT + enclave::ABI_AT as u64, &said.encode());
    }

    fn publish(&mut self) {
        let version = self.version + 1;
        self.region.slice_mut(&self.array).fill(version);
        match self.region.publish(version).commit().unwrap().outcome {
            Outcome::Published => {
                self.version = version;
                self.totals.published += 1;
            }
            _ => self.totals.skipped += 1,
        }
    }

    /// The newest version of this enclave.
    fn own(&self) -> Snapshot {
        let newest = Observer::options().dir(&self.dir).open("host/r").unwrap().newest().unwrap();
        assert_eq!(newest.version(), self.version);
        newest
    }

    /// Reads what the other one has, whatever that is.
    fn look_there(&mut self) {
        let newest = Observer::options().dir(&self.dir).open("guest/r").and_then(|observer| observer.newest());
        if let Ok(newest) = newest
            && let Ok(values) = newest.slice::<u64>("u")
        {
            std::hint::black_box(values.iter().fold(0, |all, one| all ^ one));
            self.totals.opened += 1;
        }
    }
}

/// All of a version of this enclave is of that version.
fn check(snapshot: &Snapshot) {
    let values = snapshot.slice::<u64>("u").unwrap();
    assert_eq!(values.len(), LENGTH);
    assert!(values.iter().all(|value| *value == snapshot.version()), "version {} is mixed", snapshot.version());
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.end.take());
        self.serving.take().into_iter().for_each(|serving| _ = serving.join());
    }
}
