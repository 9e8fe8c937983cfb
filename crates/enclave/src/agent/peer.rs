//! Another enclave, as the agent of this one sees it.

use super::area::{Area, Words};
use super::{AgentOptions, State, lock_state};
use crate::doorbell::{Bell, Line};
use crate::error::{Error, Result};
use crate::folder::make_folder;
use crate::machine;
use crate::service;
use crate::socket::explain;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stillframe::enclave::Reply;
use stillframe_kernel::folder::{Access, Folder};
use stillframe_kernel::local::Peer as Client;
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::map::Mapping;
use stillframe_kernel::trust::Guard;
use stillframe_kernel::{Failure, points, remark};
use stillframe_protocol::Leases;
use stillframe_protocol::shown;
use stillframe_segment::broker::{Answer, Question};
use stillframe_segment::enclave::{self, Enclave, PEERS_MAX};
use stillframe_segment::{arena, head};

/// How long it takes until something wrong with a peer is said again: one that is hostile does not fill a log.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// How much of another enclave's arena is given memory before anything else is done, and how long it takes until that is tried again
/// where there was none.
const TAKEN_BYTES: usize = 16 << 20;
const TAKEN_AGAIN: Duration = Duration::from_secs(1);
/// How long another enclave's agent may stand still before nobody relies on it that it rings. It does something each 10 ms.
const STILL: Duration = Duration::from_millis(200);
/// The same before its machine has ended for good, where nobody has that one's lock: an agent may get no processor for long.
const ENDED: Duration = Duration::from_secs(5);

/// Another enclave.
#[derive(Debug)]
pub(super) struct Peer {
    name: String,
    path: PathBuf,
    folder: Folder,
    guard: Guard,
    mode: u32,
    /// Where it has its words in this enclave's area.
    place: usize,
    /// What it says; `None` until it has an arena.
    area: Option<Area>,
    /// Whether all places of that have memory, so that versions in it may be held here; the work until then, and when it was
    /// refused last.
    has_memory: bool,
    taking: Option<Taking>,
    refused: Option<Instant>,
    /// The files in which observers here lock its versions.
    leases: Vec<File>,
    /// The identity whose machine has ended.
    dead: u64,
    /// Since when nobody has the lock of its machine.
    unlocked: Option<Instant>,
    /// When it was said last that it is not listened to.
    said: Option<Instant>,
    /// On which those sleep here who wait for its versions; `None` until it has an arena.
    bell: Option<Arc<Bell>>,
    /// Whether this agent has shown there that it lives.
    is_seen: bool,
    /// The doorbell to it, if there is one.
    line: Option<Arc<Line>>,
    /// What its heartbeat was, and since when.
    beat: (u64, Instant),
}

/// An arena whose places are given memory.
#[derive(Debug)]
struct Taking {
    arena: Mapping,
    taken_bytes: usize,
}

/// Makes zeros of all that is shown at a place.
pub(super) fn clear(own: &Area, place: usize) {
    own.word(enclave::subject_at(place)).store(0, Release);
    for region in 0..enclave::REGIONS_MAX {
        own.word(enclave::shown_at(place, region)).store(0, Release);
    }
}

impl Peer {
    pub(super) fn begin(
        options: &AgentOptions,
        guard: Guard,
        name: &str,
        own: &Area,
        line: Option<Arc<Line>>,
    ) -> Result<Peer> {
        let path = options.dir.join(name);
        let folder = make_folder(&options.dir, name, options.mode, guard)?;
        let is_known = |place: &usize| own.name_at(*place).as_deref() == Some(name);
        let is_others = |place: &usize| own.name_at(*place).is_some_and(|there| options.peers.contains(&there));
        // What somebody here may hold of who had the place before stays shown.
        let is_free = |place: &usize| !is_others(place) && own.shown(*place).next().is_none();
        let place = (0..PEERS_MAX).find(is_known).or_else(|| (0..PEERS_MAX).find(is_free));
        let place =
            place.ok_or_else(|| Error::NotShared { path: path.clone(), why: "there is no place left".into() })?;
        if !is_known(&place) {
            own.word(enclave::admitted_at(place)).store(0, Release);
            clear(own, place);
            own.write(enclave::name_at(place), &enclave::encode_name(name));
        }
        // The last agent may have rung.
        own.word(enclave::rung_at(place)).store(0, Release);
        Ok(Peer {
            name: name.into(),
            path,
            folder,
            guard,
            mode: options.mode,
            place,
            area: None,
            has_memory: options.sparse,
            taking: None,
            refused: None,
            leases: Vec::new(),
            dead: 0,
            unlocked: None,
            said: None,
            bell: None,
            is_seen: false,
            line,
            beat: (0, Instant::now()),
        })
    }

    /// Looks once at what the peer says and what is held of it here; whether anything is. What is wrong with one peer is said, now and
    /// then, and harms no other one: a peer may write whatever it likes.
    pub(super) fn look(&mut self, own: &Area, this: &Enclave) -> bool {
        match self.try_look(own, this) {
            Ok(is_busy) => is_busy,
            Err(error) => {
                if self.said.is_none_or(|said| said.elapsed() > SAID_AGAIN) {
                    let text = format!("the enclave '{}' is not listened to: {error}", self.name);
                    remark::say(|| text);
                    self.said = Some(Instant::now());
                }
                false
            }
        }
    }

    fn try_look(&mut self, own: &Area, this: &Enclave) -> Result<bool> {
        if self.area.is_none() {
            self.open(own)?;
        }
        let Some(area) = &self.area else { return Ok(false) };
        let identity = area.load(enclave::IDENTITY_AT);
        let is_unlocked = machine::has_ended(&self.folder, &self.path, self.guard.looking())?;
        self.unlocked = is_unlocked.then(|| self.unlocked.unwrap_or_else(Instant::now));
        let beat = area.load(enclave::HEARTBEAT_AT);
        if beat != self.beat.0 {
            self.beat = (beat, Instant::now());
        }
        // A machine whose memory changes runs, whoever has the lock: it was started without, or by who did not pass it on.
        let has_ended = self.unlocked.is_some_and(|since| since.max(self.beat.1).elapsed() > ENDED);
        if !has_ended {
            self.dead = 0;
        } else if identity != 0 {
            self.dead = identity;
            // Where that is another user's to record, at least this agent knows it.
            let place = (area.identity, area.geometry.bytes());
            let _ = machine::record_end(&self.folder, &self.path, self.guard, place, || area.said());
        }
        let Some(said) = area.said() else {
            if has_ended || identity == 0 {
                self.admit(own, 0);
            }
            return Ok(false);
        };
        if said.name != self.name {
            own.word(enclave::admitted_at(self.place)).store(0, Release);
            let why = format!("the enclave there is '{}', and not '{}'", said.name, self.name);
            return Err(Error::NotShared { path: self.path.clone(), why });
        }
        let subject = own.word(enclave::subject_at(self.place));
        if subject.load(Relaxed) != said.arena {
            clear(own, self.place);
            subject.store(said.arena, Release);
        }
        self.admit(own, said.identity);
        self.ring(own, said.identity, this.identity)?;
        let is_shown = self.clean(own, this)?;
        // Last, for all else is done also where there is no memory.
        Ok(self.take_memory()? || is_shown)
    }

    /// Opens the peer's arena, once there is one: all that belongs to it, or nothing. Without the files of its leases nobody here would
    /// seem to hold anything.
    fn open(&mut self, own: &Area) -> Result<()> {
        // Not before there is an arena: without one the directory would seem to be that of a region.
        let Some(area) = Area::open(&self.folder, &self.path, self.guard.looking(), false)? else { return Ok(()) };
        // Before the leases, so that nobody opens the arena who would not be woken.
        let bell = Arc::new(Bell::make(&self.folder, &self.path, self.guard, self.mode & 0o644)?);
        bell.set_sure(false);
        let leases = self.make_leases(arena::lease_files(area.geometry.regions()))?;
        if let Some(line) = &self.line {
            line.foreign.get_or_init(|| bell.clone());
        }
        own.word(enclave::area_at(self.place)).store(area.geometry.bytes(), Release);
        (self.area, self.bell, self.leases) = (Some(area), Some(bell), leases);
        Ok(())
    }

    /// Takes memory for places of the peer's arena where nothing was written, part by part; whether there is more to do. It may name them as
    /// a version's, and reading one where there is no memory would end an observer here.
    fn take_memory(&mut self) -> Result<bool> {
        let Some(area) = self.area.as_ref().filter(|_| !self.has_memory) else { return Ok(false) };
        if self.refused.is_some_and(|refused| refused.elapsed() < TAKEN_AGAIN) {
            return Ok(false);
        }
        let mut taking = match self.taking.take() {
            Some(taking) => taking,
            None => Taking { arena: area.open_arena(&self.folder, &self.path, self.guard.looking())?, taken_bytes: 0 },
        };
        let all_bytes = area.geometry.bytes() as usize;
        let next_bytes = TAKEN_BYTES.min(all_bytes - taking.taken_bytes);
        let taken = taking.arena.take_to_read(taking.taken_bytes, next_bytes);
        if taken.is_ok() {
            taking.taken_bytes += next_bytes;
        }
        self.has_memory = taking.taken_bytes == all_bytes;
        self.refused = taken.is_err().then(Instant::now);
        self.taking = Some(taking).filter(|_| !self.has_memory);
        taken.map_err(|failure| Error::NotShared {
            path: self.path.join(arena::FILE),
            why: format!(
                "nobody here may hold anything of it: places where it wrote nothing take memory when they are read, and there is \
                 none: {failure}"
            ),
        })?;
        Ok(!self.has_memory)
    }

    /// Says whether this agent rings the peer, and to those who wait here whether it rings this one.
    fn ring(&mut self, own: &Area, of_peer: u64, identity: u64) -> Result<()> {
        let (Some(area), Some(bell)) = (&self.area, &self.bell) else { return Ok(()) };
        let line = self.line.as_deref();
        let rung = own.word(enclave::rung_at(self.place));
        let says = if line.is_some_and(Line::rings) { of_peer } else { 0 };
        if rung.load(Relaxed) != says {
            rung.store(says, Release);
        }
        if !self.is_seen {
            // Somebody who looks may be in the way, by a lock of his own. He is nobody's agent.
            self.is_seen = bell.try_lock().map_err(|failure| Error::System { path: self.path.clone(), failure })?;
        }
        bell.set_sure(line.is_some_and(Line::hears) && area.rings(identity) && self.beat.1.elapsed() < STILL);
        Ok(())
    }

    /// The files in which observers here lock the peer's versions.
    fn make_leases(&self, count: u32) -> Result<Vec<File>> {
        let make = |number| {
            let file = arena::lease_file(number);
            let opened = self.guard.open(&self.folder, &file, Access::CreateExact(self.mode & 0o666));
            opened.map(|(file, _)| file).map_err(|refused| explain(&self.path.join(&file), refused))
        };
        (0..count).map(make).collect()
    }

    /// Has the peer's leases count as long as its machine runs. It may be paused, and silent, for as long as it likes.
    fn admit(&self, own: &Area, identity: u64) {
        let counts = if identity == self.dead { 0 } else { identity };
        let admitted = own.word(enclave::admitted_at(self.place));
        if admitted.load(Relaxed) != counts {
            points::hit("agent.admits");
            admitted.store(counts, Release);
        }
    }

    /// Hides what nobody here holds any more; whether something is still shown.
    fn clean(&self, own: &Area, said: &Enclave) -> Result<bool> {
        let Some(peer) = &self.area else { return Ok(false) };
        let mut is_busy = false;
        for (region, word) in own.shown(self.place) {
            let words = Words { own, peer, place: self.place, region, said };
            let locks = Locks { files: &self.leases, region };
            for slot in (0..head::SLOTS).filter(|slot| word >> slot & 1 == 1) {
                let is_hidden = shown::hide_unheld(&words, &locks, slot);
                is_busy |= !is_hidden.map_err(|failure| Error::System { path: self.path.clone(), failure })?;
            }
        }
        Ok(is_busy)
    }

    /// Shows that a slot is held here.
    fn show(&self, own: &Area, said: &Enclave, arena: u64, region: u32, slot: u32) -> Answer {
        let refused = |why: &str| Answer::Refused { why: why.into() };
        let Some(peer) = self.area.as_ref().filter(|_| self.has_memory) else { return Answer::Unseen };
        if region >= peer.geometry.regions() || slot as usize >= head::SLOTS {
            return refused("there is no such version");
        }
        if own.load(enclave::subject_at(self.place)) != arena {
            // The peer may have said so since the last look.
            let is_said = peer.said().is_some_and(|said| said.arena == arena);
            return if is_said { Answer::Unseen } else { Answer::Gone };
        }
        let words = Words { own, peer, place: self.place, region, said };
        match shown::show(&words, slot as usize) {
            true => Answer::Shown,
            false => Answer::Unseen,
        }
    }
}

/// The locks on one region of the peer.
struct Locks<'a> {
    files: &'a [File],
    region: u32,
}

impl Leases for Locks<'_> {
    type Error = Failure;

    fn hold(&self, _: usize) -> std::result::Result<(), Failure> {
        Ok(())
    }

    fn release(&self, _: usize) {}

    fn is_held(&self, slot: usize) -> std::result::Result<bool, Failure> {
        match self.files.get(arena::lease_number(self.region) as usize) {
            Some(file) => lock::is_held(file, Kind::Write, arena::slot_at(self.region, slot), 1),
            None => Ok(false),
        }
    }
}

/// Where observers ask for what is shown of one peer.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) number: usize,
}

impl service::Desk for Desk {
    fn answer(&self, bytes: &[u8], _: &Client) -> Reply {
        let answer = match Question::decode(bytes) {
            Ok(Question::Show { identity, region, slot }) => {
                let state = lock_state(&self.state);
                match state.peers.get(self.number) {
                    Some(peer) => peer.show(&state.own, &state.said, identity, region, slot),
                    None => Answer::Gone,
                }
            }
            Ok(_) => Answer::Refused { why: "an agent hands out no regions: open them by their names".into() },
            Err(garbled) => Answer::Refused { why: format!("that is no question: {garbled}") },
        };
        Reply { bytes: answer.encode(), files: Vec::new() }
    }
}
