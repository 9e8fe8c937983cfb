//! Where a region's files lie, and the shared head and lease files seen through the protocol's eyes.

use crate::directory::{Directory, Unopened};
use crate::{Corrupt, Error, Result};
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock};
use stillframe_kernel::folder::{About, Access};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::map::Mapping;
use stillframe_kernel::trust::{Guard, Purpose, Trust};
use stillframe_protocol::{Board, Leases, Newest, Stamp, State};
use stillframe_segment::head::{self, Counter, Descriptor};
use stillframe_segment::{lease, schema, table};

/// The directory that holds regions: `$STILLFRAME_DIR`, else `/dev/shm/stillframe-<uid>`.
pub fn root() -> PathBuf {
    match std::env::var_os("STILLFRAME_DIR") {
        Some(dir) if !dir.is_empty() => dir.into(),
        _ => own_root(),
    }
}

fn own_root() -> PathBuf {
    PathBuf::from(format!("/dev/shm/stillframe-{}", stillframe_kernel::user_id()))
}

/// Whose directories and files are believed: what the option says, else `$STILLFRAME_TRUST`; `None` if nothing does.
pub(crate) fn trust(option: Option<Trust>) -> Result<Option<Trust>> {
    match std::env::var("STILLFRAME_TRUST") {
        Ok(text) if option.is_none() && !text.is_empty() => Ok(Some(text.parse()?)),
        _ => Ok(option),
    }
}

/// How somebody looks at what lies in a directory. Who names one that is not his own by default has said whose it is: what
/// its files tell is checked in any case.
pub(crate) fn looking(dir: &Path, option: Option<Trust>) -> Result<Guard> {
    let by_dir = if dir == own_root() { Trust::Own } else { Trust::Any };
    Ok(Guard::new(trust(option)?.unwrap_or(by_dir), Purpose::Look))
}

/// Ends the name of what a run that did not end by itself left, once it is set aside: of a region, or of a group. Regions that
/// are made have no such name.
pub(crate) const ASIDE: &str = "~1";

/// Checks the name of a region that is made, and returns its directory.
pub(crate) fn new_region_dir(root: &Path, name: &str) -> Result<PathBuf> {
    let dir = region_dir(root, name)?;
    match name.contains(ASIDE) {
        true => {
            let why = "it is that of what a run that did not end by itself left; rename its directory to go on from it";
            Err(Error::BadName { name: name.into(), what: "region", why })
        }
        false => Ok(dir),
    }
}

/// The name that a region or group had before it was set aside; `None` if this is not such a name.
pub fn aside_of(name: &str) -> Option<String> {
    if let Some(former) = name.strip_suffix(ASIDE) {
        return Some(former.into());
    }
    let (group, rank) = name.rsplit_once('/')?;
    Some(format!("{}/{rank}", group.strip_suffix(ASIDE)?))
}

/// Checks a region's name and returns its directory.
pub(crate) fn region_dir(root: &Path, name: &str) -> Result<PathBuf> {
    let given = name;
    let former = aside_of(name);
    let name = former.as_deref().unwrap_or(name);
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > 200 {
        "it is longer than 200 bytes"
    } else if name.starts_with(['.', '/']) || name.ends_with('/') {
        "it starts with '.' or '/', or ends with '/'"
    } else if name.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
        "a part of it is empty or starts with '.'"
    } else if name.split('/').any(is_own_file) {
        "a part of it is what a region calls its own files: head, tables, lease, lease.producer, plane.N or schema.N"
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c)) {
        "only letters, digits, '.', '_', '-' and '/' are allowed"
    } else {
        return Ok(root.join(given));
    };
    Err(Error::BadName { name: given.into(), what: "region", why })
}

/// Whether a region calls one of its files so.
pub(crate) fn is_own_file(name: &str) -> bool {
    let numbered = [table::PLANE_PREFIX, schema::FILE_PREFIX];
    [head::FILE, table::FILE, lease::FILE, lease::PRODUCER_FILE].contains(&name)
        || numbered.iter().any(|prefix| name.starts_with(prefix))
}

/// Refuses pages of another size than the format's.
pub(crate) fn check_pages() -> Result<()> {
    match stillframe_kernel::system_page_bytes() {
        stillframe_kernel::PAGE_BYTES => Ok(()),
        found_bytes => Err(Error::ForeignPages { found_bytes }),
    }
}

/// Gives a file all the access that `mode` grants: the process's umask takes bits away that were asked for.
pub(crate) fn permit(file: &File, about: &About, mode: u32) -> std::io::Result<()> {
    let wanted = mode & 0o666;
    if about.mode & wanted != wanted {
        file.set_permissions(Permissions::from_mode(wanted))?;
    }
    Ok(())
}

/// The name of a region that is a rank of a group.
pub(crate) fn rank_name(group: &str, rank: u32) -> String {
    format!("{group}/{rank}")
}

pub(crate) fn plane_file(plane: usize) -> String {
    format!("{}{plane}", table::PLANE_PREFIX)
}

pub(crate) fn schema_file(number: u32) -> String {
    format!("{}{number}", schema::FILE_PREFIX)
}

/// The shared head of a region.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    map: std::sync::Arc<Mapping>,
}

impl Head {
    pub(crate) fn map(file: &File, path: &Path, writable: bool) -> Result<Head> {
        let map = Mapping::shared(file, 0, head::HEAD_BYTES, writable).map_err(|f| Error::system(path, f))?;
        Ok(Head { map: map.into() })
    }

    pub(crate) fn bell(&self) -> &std::sync::atomic::AtomicU32 {
        self.map.word32(head::BELL_AT)
    }

    /// Lets everybody who waits look again.
    pub(crate) fn ring(&self) {
        self.bell().fetch_add(1, Ordering::Release);
        stillframe_kernel::futex::wake_all(self.bell());
    }

    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.map.word64(head::COUNTERS_AT + 8 * counter as usize).load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        let word = self.map.word64(head::COUNTERS_AT + 8 * counter as usize);
        word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, counter: Counter, value: u64) {
        self.map.word64(head::COUNTERS_AT + 8 * counter as usize).store(value, Ordering::Relaxed);
    }

    pub(crate) fn number32(&self, at: usize) -> u32 {
        self.map.word32(at).load(Ordering::Relaxed)
    }

    pub(crate) fn set_number32(&self, at: usize, value: u32) {
        self.map.word32(at).store(value, Ordering::Relaxed);
    }

    pub(crate) fn number64(&self, at: usize) -> u64 {
        self.map.word64(at).load(Ordering::Relaxed)
    }

    pub(crate) fn set_number64(&self, at: usize, value: u64) {
        self.map.word64(at).store(value, Ordering::Relaxed);
    }

    /// When the last producer ended by itself, in nanoseconds since 1970; 0 if it lives or was killed.
    pub(crate) fn ended_ns(&self) -> u64 {
        self.number64(head::ENDED_NS_AT)
    }

    pub(crate) fn set_ended(&self, ended: bool) {
        self.set_number64(head::ENDED_NS_AT, if ended { unix_ns() } else { 0 });
    }

    /// Shows that the producer begins to wait for room, or that it does not wait.
    pub(crate) fn set_waiting(&self, waiting: bool) {
        self.set_number64(head::WAITING_NS_AT, if waiting { unix_ns() } else { 0 });
    }

    /// Shows how many publishes were left out since the newest version, the last of them just now.
    pub(crate) fn set_skipping(&self, skipped: u64) {
        match skipped {
            0 => self.set_number64(head::SKIPPING_NS_AT, 0),
            1 => self.set_number64(head::SKIPPING_NS_AT, unix_ns()),
            _ => {}
        }
        self.set_number64(head::SKIPPING_AT, skipped);
    }

    /// A time that the producer which began last wrote; `None` if there is none, or it is a former one's.
    pub(crate) fn time_of_producer(&self, at: usize) -> Option<u64> {
        let (time_ns, begun_ns) = (self.number64(at), self.number64(head::BEGUN_NS_AT));
        Some(time_ns).filter(|time_ns| *time_ns != 0 && *time_ns >= begun_ns)
    }

    /// Whether the newest word names a version that can be leased.
    pub(crate) fn check_newest(&self) -> Result<(), Corrupt> {
        let newest = self.newest();
        if newest.sequence() == 0 {
            return Ok(());
        }
        if newest.slot() >= head::SLOTS {
            let expected = format!("a slot below {}", head::SLOTS);
            return Err(Corrupt::new(head::FILE, head::NEWEST_AT, expected, newest.slot()));
        }
        let stamp = self.stamp(newest.slot());
        // Between reading the two, a living producer may have gone on.
        if stamp != Stamp::new(newest.sequence(), State::Live) && self.newest() == newest {
            let (at, expected) = (head::descriptor_at(newest.slot()), format!("version {} live", newest.sequence()));
            return Err(Corrupt::new(head::FILE, at, expected, format!("{stamp:?}")));
        }
        Ok(())
    }

    pub(crate) fn descriptor(&self, slot: usize) -> Descriptor {
        let at = head::descriptor_at(slot) + 8;
        Descriptor::decode(std::array::from_fn(|word| self.map.word64(at + 8 * word).load(Ordering::Relaxed)))
    }

    /// The number of the version in a slot.
    pub(crate) fn number_at(&self, slot: usize) -> u64 {
        self.map.word64(head::descriptor_at(slot) + head::descriptor::VERSION_AT).load(Ordering::Relaxed)
    }

    /// Sequence number of the version that the producer doubts, or 0.
    pub(crate) fn doubt(&self) -> u64 {
        self.map.word64(head::DOUBT_AT).load(Ordering::Acquire)
    }

    pub(crate) fn set_doubt(&self, sequence: u64) {
        self.map.word64(head::DOUBT_AT).store(sequence, Ordering::Release);
    }

    pub(crate) fn set_descriptor(&self, slot: usize, descriptor: &Descriptor) {
        let at = head::descriptor_at(slot) + 8;
        for (word, value) in descriptor.encode().into_iter().enumerate() {
            self.map.word64(at + 8 * word).store(value, Ordering::Relaxed);
        }
    }
}

impl Board for Head {
    fn newest(&self) -> Newest {
        Newest(self.map.word64(head::NEWEST_AT).load(Ordering::Acquire))
    }

    fn set_newest(&self, newest: Newest) {
        self.map.word64(head::NEWEST_AT).store(newest.0, Ordering::Release);
    }

    fn stamp(&self, slot: usize) -> Stamp {
        Stamp(self.map.word64(head::descriptor_at(slot)).load(Ordering::Acquire))
    }

    fn set_stamp(&self, slot: usize, stamp: Stamp) {
        self.map.word64(head::descriptor_at(slot)).store(stamp.0, Ordering::Release);
    }

    fn slots(&self) -> usize {
        head::SLOTS
    }
}

/// The lease file of a region, through one opening of it.
#[derive(Debug)]
pub(crate) struct LeaseFile {
    file: Unforked,
    directory: Directory,
    region: String,
    /// The file whose lock a producer has instead, if readers keep it from the one in this file.
    beside: OnceLock<Unforked>,
    /// How many snapshots of this opening hold each slot. Locks of one opening merge, so they are counted here.
    holds: Mutex<[u32; head::SLOTS]>,
}

impl LeaseFile {
    /// Opens the one in a region's directory, to read.
    pub(crate) fn open(directory: &Directory, region: &str) -> Result<LeaseFile, Unopened> {
        LeaseFile::open_by(directory, region, || directory.open(lease::FILE, Access::Read).map(|(file, _)| file))
    }

    /// Opens the one in a region's directory for writing, and makes it if need be, as [`Directory::create`].
    pub(crate) fn create(directory: &Directory, region: &str, mode: u32) -> Result<LeaseFile, Unopened> {
        LeaseFile::open_by(directory, region, || directory.try_create(lease::FILE, mode))
    }

    fn open_by(
        directory: &Directory,
        region: &str,
        open: impl FnOnce() -> Result<File, Unopened>,
    ) -> Result<LeaseFile, Unopened> {
        let file = Unforked::open(open)?;
        let holds = Mutex::new([0; head::SLOTS]);
        Ok(LeaseFile { file, directory: directory.clone(), region: region.into(), beside: OnceLock::new(), holds })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(lease::FILE)
    }

    pub(crate) fn file(&self) -> Result<&File> {
        self.file.get().ok_or_else(|| Error::Forked { region: self.region.clone() })
    }

    fn gone(&self) -> Error {
        let dir = self.directory.path();
        Error::NoRegion { region: self.region.clone(), dir: dir.parent().unwrap_or(dir).into() }
    }

    /// Takes the producer's lock, which it keeps for life; `false` if another producer has it.
    ///
    /// Whoever may read a region may lock what it likes for reading, the producer's byte too, and the kernel does not tell who
    /// does. So that readers keep no producer out, one that finds only readers in its way has its lock beside. Those with the
    /// one lock and those with the other first take theirs and then look for the other: at least one sees the other.
    pub(crate) fn try_produce(&self) -> Result<bool> {
        let file = self.file()?;
        let fail = |failure| Error::system(&self.path(), failure);
        if lock::try_lock(file, Kind::Write, lease::LIVENESS_AT, 1).map_err(fail)? {
            let is_free = !self.is_produced_beside()?;
            if !is_free {
                lock::unlock(file, lease::LIVENESS_AT, 1).map_err(fail)?;
            }
            return Ok(is_free);
        }
        let has_writer = || lock::is_held(file, Kind::Read, lease::LIVENESS_AT, 1).map_err(fail);
        if has_writer()? {
            return Ok(false);
        }
        let own = match Unforked::open(|| self.directory.try_create(lease::PRODUCER_FILE, 0o600)) {
            // The directory is gone.
            Err(Unopened::Missing) => return Ok(false),
            Err(Unopened::Failed(error)) => return Err(error),
            Ok(own) => own,
        };
        let is_first = match own.get() {
            Some(own) => lock::try_lock(own, Kind::Write, 0, 1).map_err(fail)?,
            None => false,
        };
        if !is_first || has_writer()? || !lock::try_lock(file, Kind::Read, lease::BESIDE_AT, 1).map_err(fail)? {
            return Ok(false);
        }
        Ok(self.beside.set(own).is_ok())
    }

    /// Whether a producer lives whom readers kept from the lock in this file, as it alone can tell.
    fn is_produced_beside(&self) -> Result<bool> {
        let Some((own, _)) = self.directory.file(lease::PRODUCER_FILE)? else { return Ok(false) };
        lock::is_held(&own, Kind::Read, 0, 1).map_err(|failure| Error::system(&self.path(), failure))
    }

    /// Gives the producer's lock back.
    pub(crate) fn end_producing(&self) {
        // The locks go with the files anyway; this only makes them go before the bell is rung.
        if let Ok(file) = self.file() {
            let _ = lock::unlock(file, lease::LIVENESS_AT, 2);
        }
        if let Some(own) = self.beside.get().and_then(Unforked::get) {
            let _ = lock::unlock(own, 0, 1);
        }
    }

    /// A lease of its own on a slot that somebody holds already: it ends when the last copy of the file is closed.
    pub(crate) fn keep(&self, slot: usize) -> Result<File> {
        let identity = |file: &File| About::of(file).map(|about| about.identity).ok();
        let opened = self.directory.file(lease::FILE)?.map(|(file, _)| file);
        // The name may be that of a later region's lease file.
        let own = identity(self.file()?);
        let file = opened.filter(|file| identity(file) == own).ok_or_else(|| self.gone())?;
        self.lock_slot(&file, slot)?;
        Ok(file)
    }

    fn lock_slot(&self, file: &File, slot: usize) -> Result<()> {
        let at = lease::slot_at(slot);
        let locked = lock::try_lock(file, Kind::Read, at, lease::lock_bytes(monotonic_ms()))
            .map_err(|f| Error::system(&self.path(), f))?;
        if !locked {
            // What is not locked must not be read, and nobody who means well locks a slot for writing.
            let corrupt = Corrupt::new(lease::FILE, at as usize, "read locks only", "a write lock");
            return Err(Error::Corrupt { dir: self.directory.path().into(), corrupt });
        }
        Ok(())
    }

    /// Whether a producer lives. A reader that locks the byte beside looks like one.
    pub(crate) fn is_produced(&self) -> Result<bool> {
        let (file, fail) = (self.file()?, |failure| Error::system(&self.path(), failure));
        Ok(lock::is_held(file, Kind::Read, lease::LIVENESS_AT, 1).map_err(fail)?
            || lock::is_held(file, Kind::Write, lease::BESIDE_AT, 1).map_err(fail)?)
    }
}

impl Leases for LeaseFile {
    type Error = Error;

    fn hold(&self, slot: usize) -> Result<()> {
        let file = self.file()?;
        let mut holds = self.holds.lock().unwrap_or_else(|poison| poison.into_inner());
        if holds[slot] == 0 {
            self.lock_slot(file, slot)?;
        }
        holds[slot] += 1;
        Ok(())
    }

    fn release(&self, slot: usize) {
        let Ok(file) = self.file() else { return };
        let mut holds = self.holds.lock().unwrap_or_else(|poison| poison.into_inner());
        holds[slot] = holds[slot].saturating_sub(1);
        if holds[slot] == 0 {
            // An unlock of one's own lock cannot fail in a way that could be mended.
            let _ = lock::unlock(file, lease::slot_at(slot), lease::SLOT_STRIDE);
        }
    }

    fn is_held(&self, slot: usize) -> Result<bool> {
        lock::is_held(self.file()?, Kind::Write, lease::slot_at(slot), 1).map_err(|f| Error::system(&self.path(), f))
    }
}

/// Milliseconds of the machine's monotonic clock, the same in all processes.
pub(crate) fn monotonic_ms() -> u64 {
    stillframe_kernel::monotonic_ns() / 1_000_000
}

/// Nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos().min(u64::MAX as u128) as u64)
}
