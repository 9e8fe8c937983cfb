//! Leases: the locks that keep versions alive, and the producer's own.

use crate::clock::monotonic_ms;
use crate::error::{Error, Result};
use crate::place::arena::ArenaLeases;
use crate::place::arena::region::ArenaRegion;
use crate::place::directory::{Directory, Unopened};
use crate::place::files::Files;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use stillframe_kernel::folder::About;
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::lock::{self, Kind};
use stillframe_protocol::Leases;
use stillframe_segment::{Corrupt, arena, head, lease};

/// The lease file of a region, through one opening of it.
#[derive(Debug)]
pub(crate) struct LeaseFile {
    file: Unforked,
    files: Files,
    region: String,
    /// The file whose lock a producer has instead, if readers keep it from the one in this file.
    beside: OnceLock<Unforked>,
    /// How many snapshots of this opening hold each slot. Locks of one opening merge, so they are counted here.
    holds: Mutex<[u32; head::SLOTS]>,
}

impl LeaseFile {
    /// Opens the one among a region's files, to read.
    pub(crate) fn open(files: &Files, region: &str) -> Result<LeaseFile, Unopened> {
        Ok(LeaseFile::new(files.locks(lease::FILE)?, files, region))
    }

    /// Opens the one in a region's directory for writing, and makes it if need be, as [`Directory::create`].
    pub(crate) fn create(directory: &Directory, region: &str, mode: u32) -> Result<LeaseFile, Unopened> {
        let file = Unforked::open(|| directory.try_create(lease::FILE, mode))?;
        Ok(LeaseFile::new(file, &directory.clone().into(), region))
    }

    fn new(file: Unforked, files: &Files, region: &str) -> LeaseFile {
        let holds = Mutex::new([0; head::SLOTS]);
        LeaseFile { file, files: files.clone(), region: region.into(), beside: OnceLock::new(), holds }
    }

    fn path(&self) -> PathBuf {
        self.files.path().join(lease::FILE)
    }

    pub(crate) fn file(&self) -> Result<&File> {
        self.file.get().ok_or_else(|| Error::Forked { region: self.region.clone() })
    }

    fn gone(&self) -> Error {
        let dir = self.files.path();
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
        // Who produces has a directory.
        let Some(directory) = self.files.directory() else { return Ok(false) };
        let own = match Unforked::open(|| directory.try_create(lease::PRODUCER_FILE, 0o600)) {
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
        let Some(directory) = self.files.directory() else { return Ok(false) };
        let Some((own, _)) = directory.file(lease::PRODUCER_FILE)? else { return Ok(false) };
        lock::is_held(&own, Kind::Read, 0, 1).map_err(|failure| Error::system(&self.path(), failure))
    }

    /// Gives the producer's lock back.
    pub(crate) fn end_producing(&self) {
        // The locks go with the files anyway; this only makes them go before observers are notified.
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
        let opened = self.files.kept(lease::FILE)?;
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
            return Err(Error::Corrupt { dir: self.files.path().into(), corrupt });
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

/// The leases of a region, wherever it lies.
#[derive(Debug)]
pub(crate) enum RegionLeases {
    /// Locks in a file of its own.
    File(Box<LeaseFile>),
    /// Locks in an arena's file, as who looks at a region has them.
    Arena(ArenaLeases),
    /// As its producer has them, whose lock goes with this.
    Produced(Arc<ArenaRegion>),
}

impl RegionLeases {
    fn arena(&self) -> Option<&ArenaLeases> {
        match self {
            RegionLeases::File(_) => None,
            RegionLeases::Arena(leases) => Some(leases),
            RegionLeases::Produced(region) => Some(region.claimed().leases()),
        }
    }

    /// The file with the locks; an error in a forked child.
    pub(crate) fn file(&self) -> Result<&File> {
        match self {
            RegionLeases::File(leases) => leases.file(),
            _ => self.arena().map_or(Err(Error::Forked { region: String::new() }), ArenaLeases::file),
        }
    }

    /// Gives the producer's lock back, so that it goes before observers are notified. That of an arena goes with the value.
    pub(crate) fn end_producing(&self) {
        if let RegionLeases::File(leases) = self {
            leases.end_producing();
        }
    }

    /// A lease of its own on a slot that somebody holds already: it ends when the last copy of the file is closed.
    pub(crate) fn keep(&self, slot: usize) -> Result<File> {
        match (self, self.arena()) {
            (RegionLeases::File(leases), _) => leases.keep(slot),
            (_, Some(leases)) => leases.keep(slot),
            (_, None) => Err(Error::Forked { region: String::new() }),
        }
    }

    /// Whether a producer lives.
    pub(crate) fn is_produced(&self) -> Result<bool> {
        match self {
            RegionLeases::File(leases) => leases.is_produced(),
            _ => self.arena().map_or(Ok(false), ArenaLeases::is_produced),
        }
    }

    /// The other enclaves that hold versions of the region: the name of each, and a bit for each slot.
    pub(crate) fn enclaves(&self) -> Result<Vec<(String, u64)>> {
        self.arena().map_or(Ok(Vec::new()), ArenaLeases::enclaves)
    }

    /// Slot and time of taking of a lock on this region from byte `first` to byte `last`; `None` if it is no lease of it.
    pub(crate) fn decode_lock(&self, first: u64, last: u64) -> Option<(usize, u64)> {
        match self.arena() {
            None => lease::decode_lock(first, last),
            Some(leases) => {
                let (region, slot, taken_ms) = arena::decode_lock(first, last)?;
                (region == leases.number()).then_some((slot, taken_ms))
            }
        }
    }
}

impl Leases for RegionLeases {
    type Error = Error;

    fn hold(&self, slot: usize) -> Result<()> {
        match (self, self.arena()) {
            (RegionLeases::File(leases), _) => leases.hold(slot),
            (_, leases) => leases.map_or(Ok(()), |leases| leases.hold(slot)),
        }
    }

    fn release(&self, slot: usize) {
        match (self, self.arena()) {
            (RegionLeases::File(leases), _) => leases.release(slot),
            (_, Some(leases)) => leases.release(slot),
            (_, None) => {}
        }
    }

    fn is_held(&self, slot: usize) -> Result<bool> {
        match (self, self.arena()) {
            (RegionLeases::File(leases), _) => leases.is_held(slot),
            (_, leases) => leases.map_or(Ok(true), |leases| leases.is_held(slot)),
        }
    }
}
