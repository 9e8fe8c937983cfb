//! The agent of an enclave: it says who the enclave is, whose leases count, and which versions of others are held here.
//!
//! There is one in each enclave, above memory that the enclaves share: each has an arena of its own, which it alone writes, and reads
//! those of the others. All lie beside each other in the directory of regions, each under the name of its enclave. What was said
//! stands in memory, and who holds what is known by the kernel's locks, so that an agent that is started anew goes on where the last
//! one was.

mod area;
mod peer;

use crate::admission::Admission;
use crate::doorbell::device::Device;
use crate::doorbell::server::Server;
use crate::doorbell::{self, Bell, Doorbell, Line, Way};
use crate::error::{Error, Result};
use crate::folder::{check_name, make_folder};
use crate::service::Service;
use crate::socket::{self, explain};
use area::Area;
use peer::Peer;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stillframe::Arena;
use stillframe_kernel::folder::{Access, Folder};
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::trust::{Guard, Purpose, Trust};
use stillframe_kernel::{local, points, space};
use stillframe_segment::arena::{self, CHUNK_BYTES};
use stillframe_segment::enclave::{self, Enclave};
use stillframe_segment::lease;

/// How often an agent looks at what changed while something is shown, and otherwise.
const BUSY: Duration = Duration::from_millis(1);
const IDLE: Duration = Duration::from_millis(10);

/// The file whose lock an agent has, in the directory of its arena.
const LOCK: &str = "agent.lock";

/// What an agent is for.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// The directory of regions in which the arenas of all enclaves lie.
    pub dir: PathBuf,
    /// The name of this enclave, and of its arena.
    pub name: String,
    /// Length in bytes of the memory that it shares, unless that is there already: its arena, and a chunk for what the agent says.
    pub bytes: u64,
    /// The names of the others.
    pub peers: Vec<String>,
    /// The names of others that an earlier agent named, and that have ended: what they held is held no more.
    pub forgotten: Vec<String>,
    /// Whether the others are trusted to name no place of their arenas where they wrote nothing. Else memory is taken for all of them.
    pub sparse: bool,
    /// How they are woken, and wake: at most one for each. Without one, those who wait look each millisecond.
    pub doorbells: Vec<Doorbell>,
    /// Mode of the arenas' directories, and of the sockets by which observers ask.
    pub mode: u32,
    /// Whose directories are taken for good, besides those of the process's user and of root.
    pub trust: Trust,
}

/// An agent.
#[derive(Debug)]
pub struct Agent {
    options: AgentOptions,
    state: Arc<Mutex<State>>,
    doorbells: Vec<(Arc<Line>, Ready)>,
}

/// A doorbell that was looked at.
#[derive(Debug)]
enum Ready {
    /// It is at a socket, of this agent or of another one.
    Socket,
    Device(Box<Device>),
}

/// What an agent has open. One thread at a time works with it.
#[derive(Debug)]
pub(crate) struct State {
    own: Area,
    said: Enclave,
    /// With the signs of producers that live.
    leases: std::fs::File,
    _lock: std::fs::File,
    peers: Vec<Peer>,
}

fn random() -> u64 {
    // The keys of the standard library's hasher are random numbers of the system.
    RandomState::new().build_hasher().finish().max(1)
}

/// What tells this start of the kernel from others (random(4)).
fn boot() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| (byte as char).to_digit(16)).map(|digit| digit as u8).collect();
    std::array::from_fn(|at| digits.get(2 * at..2 * at + 2).map_or(0, |pair| pair[0] << 4 | pair[1]))
}

impl Agent {
    /// Says who this enclave is, and makes its arena if there is none.
    ///
    /// # Errors
    /// [`Error::InUse`] if another agent runs for the name; [`Error::NotShared`] if a name cannot be an enclave's, or what is there is no
    /// such arena; others of the files.
    pub fn begin(options: AgentOptions) -> Result<Agent> {
        for name in options.peers.iter().chain([&options.name]) {
            check_name(&options.dir, name)?;
        }
        if options.peers.len() > enclave::PEERS_MAX || options.peers.contains(&options.name) {
            let why = format!("at most {} others can be named, and not this one", enclave::PEERS_MAX);
            return Err(Error::NotShared { path: options.dir, why });
        }
        let guard = Guard::new(options.trust, Purpose::Write { granted: options.mode });
        let path = options.dir.join(&options.name);
        let bell = Arc::new(make_arena(&options, guard)?);
        let folder = guard.open_root(&path).map_err(|refused| explain(&path, refused))?;
        let opened = |name: &str, access| {
            let opened = guard.open(&folder, name, access);
            opened.map(|(file, _)| file).map_err(|refused| explain(&path.join(name), refused))
        };
        let lock = opened(LOCK, Access::Create(0o600))?;
        let locked = lock::try_lock(&lock, Kind::Write, 0, 1);
        if !locked.map_err(|failure| Error::System { path: path.join(LOCK), failure })? {
            return Err(Error::InUse { path: path.join(LOCK) });
        }
        points::hit("agent.locked");
        doorbell::check(&options.doorbells, &options.peers, &options.dir)?;
        let leases = opened(lease::FILE, Access::Read)?;
        let no_room = || Error::NotShared {
            path: path.join(arena::FILE),
            why: format!("there is no room behind the arena: it takes {} bytes", enclave::AREA_BYTES),
        };
        let own = Area::open(&folder, &path, guard, true)?.ok_or_else(no_room)?;
        let said = introduce(&own, &options.name);
        points::hit("agent.introduced");
        let ready = |doorbell: &Doorbell| {
            let ready = match &doorbell.way {
                Way::Serve | Way::Socket(_) => Ready::Socket,
                Way::Device(address) => Ready::Device(Box::new(Device::open(address)?)),
            };
            Ok((Arc::new(Line::new(&bell)), ready))
        };
        let doorbells: Vec<_> = options.doorbells.iter().map(ready).collect::<Result<_>>()?;
        let line_to = |name: &String| {
            let mut lines = options.doorbells.iter().zip(&doorbells);
            lines.find(|(doorbell, _)| doorbell.peer == *name).map(|(_, (line, _))| line.clone())
        };
        forget(&own, &options)?;
        let peers = options.peers.iter().map(|name| Peer::begin(&options, guard, name, &own, line_to(name)));
        let peers = peers.collect::<Result<_>>()?;
        let state = State { own, said, leases, _lock: lock, peers };
        Ok(Agent { options, state: Arc::new(Mutex::new(state)), doorbells })
    }

    /// The addresses of devices by which this enclave rings, and is not rung: no driver hands their interrupts out.
    pub fn deaf_devices(&self) -> impl Iterator<Item = &str> {
        self.options.doorbells.iter().zip(&self.doorbells).filter_map(|(doorbell, (_, ready))| {
            match (&doorbell.way, ready) {
                (Way::Device(address), Ready::Device(device)) if !device.hears() => Some(address.as_str()),
                _ => None,
            }
        })
    }

    /// Serves until something comes by `stop`. Everybody may ask whom the sockets' modes let.
    ///
    /// # Errors
    /// Those of the sockets, and of this enclave's own files.
    pub fn serve(&self, stop: BorrowedFd<'_>) -> Result<()> {
        let services = self.options.peers.iter().enumerate().map(|(number, name)| {
            let socket = self.options.dir.join(name).join(enclave::AGENT);
            // Who may look may hold: the same whom the directory lets in.
            let mode = self.options.mode & 0o777 | (self.options.mode & 0o444) >> 1;
            // By the name observers know that the arena is another enclave's, whether an agent runs or not. Who took it for this
            // one's would hold versions that the other one's producers do not see to be held.
            let options = socket::Options { socket, mode, trust: self.options.trust, stays: true };
            let desk = peer::Desk { state: self.state.clone(), number };
            Ok(Service::begin(&options, desk, Admission::default())?.one_of(self.options.peers.len()))
        });
        let services: Vec<Service<peer::Desk>> = services.collect::<Result<_>>()?;
        let guard = Guard::new(self.options.trust, Purpose::Write { granted: self.options.mode });
        let server = |doorbell: &Doorbell| match &doorbell.way {
            Way::Serve => Server::begin(&self.options, guard, &doorbell.peer).map(Some),
            Way::Device(_) | Way::Socket(_) => Ok(None),
        };
        let servers: Vec<Option<Server>> = self.options.doorbells.iter().map(server).collect::<Result<_>>()?;
        // Closed by this thread, so that all others end.
        let pair = std::os::unix::net::UnixStream::pair();
        let (end, ends) = pair.map_err(|error| socket::system(&self.options.dir, "socketpair", error))?;
        std::thread::scope(|scope| {
            let mut threads: Vec<_> =
                services.iter().map(|service| scope.spawn(|| service.serve(ends.as_fd()))).collect();
            for ((doorbell, (line, ready)), server) in self.options.doorbells.iter().zip(&self.doorbells).zip(&servers)
            {
                let ends = ends.as_fd();
                threads.push(scope.spawn(move || match (ready, server, &doorbell.way) {
                    (Ready::Device(device), ..) => device.serve(ends, line),
                    (_, Some(server), _) => server.serve(ends, line),
                    (.., Way::Socket(path)) => doorbell::client::serve(path, guard, ends, line),
                    _ => Ok(()),
                }));
            }
            let done = self.look_until(stop, || threads.iter().any(|thread| thread.is_finished()));
            drop(end);
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))?;
            done
        })
    }

    fn look_until(&self, stop: BorrowedFd<'_>, is_over: impl Fn() -> bool) -> Result<()> {
        loop {
            let is_busy = self.look()?;
            let limit = if is_busy { BUSY } else { IDLE };
            let ready = local::wait_any(&[stop], Some(limit));
            let ready = ready.map_err(|failure| Error::System { path: self.options.dir.clone(), failure })?;
            if ready[0] || is_over() {
                // What ended just before this agent, a producer above all, would be said to live until there is another one.
                return self.look().map(drop);
            }
        }
    }

    /// Looks once at what changed; whether something is shown.
    ///
    /// # Errors
    /// As [`serve`](Agent::serve).
    pub fn look(&self) -> Result<bool> {
        let mut state = lock_state(&self.state);
        let State { own, said, leases, peers, .. } = &mut *state;
        own.word(enclave::HEARTBEAT_AT).fetch_add(1, AcqRel);
        if own.load(enclave::IDENTITY_AT) != said.identity {
            // Somebody took the machine for one that has ended.
            own.say(said);
        }
        say_produced(own, leases).map_err(|failure| Error::System { path: self.options.dir.clone(), failure })?;
        let mut is_busy = false;
        for peer in peers {
            is_busy |= peer.look(own, said);
        }
        Ok(is_busy)
    }
}

pub(crate) fn lock_state(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Who panicked with it had written words, each of which is right by itself.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this enclave's arena, unless it is there, in a file with room behind it from the begin: a producer that opened one without
/// would never look there. A file that is there already has its length. Returns the bell of this enclave's producers.
fn make_arena(options: &AgentOptions, guard: Guard) -> Result<Bell> {
    let path = options.dir.join(&options.name);
    std::fs::create_dir_all(&options.dir).map_err(|error| socket::system(&options.dir, "mkdir", error))?;
    let folder = make_folder(&options.dir, &options.name, options.mode, guard)?;
    let file = guard.open(&folder, arena::FILE, Access::CreateExact(options.mode & 0o666));
    let (file, about) = file.map_err(|refused| explain(&path.join(arena::FILE), refused))?;
    let chunk = CHUNK_BYTES as u64;
    let bytes = if about.bytes > 0 { about.bytes } else { options.bytes };
    let own = (bytes / chunk * chunk).checked_sub(chunk).filter(|own| *own > 0).ok_or_else(|| Error::NotShared {
        path: path.clone(),
        why: format!("{bytes} bytes are too few: an arena, and {chunk} bytes behind it"),
    })?;
    if about.bytes == 0 {
        file.set_len(bytes).map_err(|error| socket::system(&path.join(arena::FILE), "ftruncate", error))?;
    }
    // Writing where there is no memory would end the process.
    space::take(&file, own, enclave::AREA_BYTES as u64)
        .map_err(|failure| Error::System { path: path.join(arena::FILE), failure })?;
    // Before the locks, so that nobody opens the arena who would not ring. Who may write to it may be a producer.
    let bell = Bell::make(&folder, &path, guard, options.mode & 0o666)?;
    make_locks(options, &folder, guard)?;
    let made = Arena::options().dir(&options.dir).mode(options.mode).regions(enclave::REGIONS_MAX).bytes(own);
    made.trust(options.trust).create(&options.name)?;
    Ok(bell)
}

/// Makes the files with locks anew, of an arena that an earlier start of the machine made: its kernel had them, and they went with it.
/// Whoever finds no locks in this one's would else have to take the arena for damaged.
fn make_locks(options: &AgentOptions, folder: &Folder, guard: Guard) -> Result<()> {
    let path = options.dir.join(&options.name);
    let Some(area) = Area::open(folder, &path, guard, false)? else { return Ok(()) };
    if area.said().is_some_and(|before| before.boot == boot()) {
        return Ok(());
    }
    let writers = options.mode & 0o022;
    let own = (lease::PRODUCER_FILE.to_string(), 0o600 | writers | writers << 1);
    let shown =
        (0..arena::lease_files(area.geometry.regions())).map(|number| (arena::lease_file(number), options.mode));
    for (name, mode) in std::iter::once(own).chain(shown) {
        let opened = guard.open(folder, &name, Access::CreateExact(mode & 0o666));
        opened.map_err(|refused| explain(&path.join(&name), refused))?;
    }
    Ok(())
}

/// Counts enclaves no more that are to be forgotten. Who counts and is not named would count for ever, as nobody would hear of his end;
/// and to count him no more by that would take versions away that he holds.
fn forget(own: &Area, options: &AgentOptions) -> Result<()> {
    for place in 0..enclave::PEERS_MAX {
        let Some(name) = own.name_at(place).filter(|name| !options.peers.contains(name)) else { continue };
        let admitted = own.word(enclave::admitted_at(place));
        if admitted.load(Relaxed) == 0 {
            continue;
        }
        if !options.forgotten.contains(&name) {
            let why = format!(
                "'{name}' counts here since an earlier agent, and may hold versions: name it as well (--peer {name}), or say \
                 that it has ended (--forget {name})"
            );
            return Err(Error::NotShared { path: options.dir.join(&options.name), why });
        }
        // What is shown of its arena somebody here may hold still.
        admitted.store(0, Release);
    }
    Ok(())
}

/// Says who this enclave is. A machine that has started anew is another one, which holds nothing; its arena is the same.
fn introduce(own: &Area, name: &str) -> Enclave {
    let before = own.said();
    let boot = boot();
    let is_this = |before: &&Enclave| before.name == name && before.boot == boot && before.identity != 0;
    if let Some(before) = before.as_ref().filter(is_this) {
        return before.clone();
    }
    // It stands there, too, where an agent was killed while it said who it is. With another one the others would give up what they
    // hold of the arena.
    let arena = match own.load(enclave::ARENA_AT) {
        0 => random(),
        arena => arena,
    };
    let said = Enclave { name: name.into(), identity: random(), arena, boot };
    // Who counted goes on counting: what others hold of this arena they hold still.
    (0..enclave::PEERS_MAX).for_each(|place| peer::clear(own, place));
    // Those that lived when the machine ended are not there any more.
    (0..own.geometry.regions()).step_by(64).for_each(|first| own.word(enclave::produced_at(first)).store(0, Release));
    own.say(&said);
    said
}

/// Says of which regions of this enclave producers live.
fn say_produced(own: &Area, leases: &std::fs::File) -> std::result::Result<(), stillframe_kernel::Failure> {
    let regions = own.geometry.regions();
    let live =
        |first: u32, count: u32| lock::is_held(leases, Kind::Write, arena::LIVE_AT + u64::from(first), count.into());
    for first in (0..regions).step_by(64) {
        let count = (regions - first).min(64);
        let mut word = 0;
        if live(first, count)? {
            for region in 0..count {
                word |= u64::from(live(first + region, 1)?) << region;
            }
        }
        let there = own.word(enclave::produced_at(first));
        if there.load(Relaxed) != word {
            there.store(word, Release);
        }
    }
    Ok(())
}
