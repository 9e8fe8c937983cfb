//! Observers: those who look.

use crate::files::{self, Head, LeaseFile, plane_file};
use crate::producer::read_schema;
use crate::snapshot::Snapshot;
use crate::{Error, Result};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use stillframe_kernel::{futex, map::Mapping};
use stillframe_protocol::{self as protocol, Board, Leased, State};
use stillframe_segment::head::{self, Counter};
use stillframe_segment::{Corrupt, PLANES_MAX, Schema, WINDOW_BYTES, lease, table};

/// Longest sleep before a waiting observer looks whether the producer still lives.
const WAIT_SLICE: Duration = Duration::from_millis(50);

/// Options for opening an observer.
#[derive(Debug, Clone)]
pub struct ObserverOptions {
    dir: PathBuf,
    wait: Duration,
}

impl ObserverOptions {
    /// The directory that holds the region's own; by default `$STILLFRAME_DIR`, else `/dev/shm/stillframe-<uid>`.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = dir.into();
        self
    }

    /// How long to wait for the region to appear and to have a first version; not at all by default.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Opens an observer on a region.
    ///
    /// # Errors
    /// [`Error::NoRegion`], or with a wait [`Error::Timeout`]; [`Error::Denied`] if it is another user's;
    /// [`Error::Corrupt`] if its head is damaged.
    pub fn open(self, name: &str) -> Result<Observer> {
        let dir = files::region_dir(&self.dir, name)?;
        let begin = Instant::now();
        let deadline = begin.checked_add(self.wait);
        let mut pause = Duration::from_micros(200);
        let observer = loop {
            match Shared::open(&self.dir, &dir, name) {
                Ok(shared) => break Observer { shared: Arc::new(shared) },
                Err(error @ Error::NoRegion { .. }) => {
                    let left =
                        deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
                    if self.wait.is_zero() {
                        return Err(error);
                    }
                    if left.is_zero() {
                        return Err(Error::Timeout {
                            region: name.into(),
                            what: "the region to appear",
                            waited: self.wait,
                        });
                    }
                    // Nothing can be waited on in a directory that may not exist yet, so this polls.
                    std::thread::sleep(pause.min(left));
                    pause = (pause * 2).min(Duration::from_millis(5));
                }
                Err(error) => return Err(error),
            }
        };
        if !self.wait.is_zero() {
            let left = self.wait.saturating_sub(begin.elapsed());
            match observer.newest_after(None, Some(left)) {
                // A region that nobody will fill can still be looked at.
                Ok(_) | Err(Error::ProducerGone { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(observer)
    }
}

/// A look at a region. Many may exist, in any process, and come and go as they like.
///
/// It holds nothing writable, and nothing at all but its snapshots. It can be used from several threads.
#[derive(Debug, Clone)]
pub struct Observer {
    pub(crate) shared: Arc<Shared>,
}

/// What an observer and its snapshots have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) head: Head,
    pub(crate) leases: LeaseFile,
    tables: File,
    /// Device and inode of the head.
    identity: (u64, u64),
    caches: Mutex<Caches>,
}

#[derive(Debug, Default)]
struct Caches {
    schemas: HashMap<u32, Arc<Schema>>,
    /// The planes there were when a version was last held. They are opened with the hold, because their names may be gone,
    /// or those of another region, when they are first read.
    planes: Vec<PlaneMap>,
}

#[derive(Debug, Clone)]
struct PlaneMap {
    file: Arc<File>,
    map: Option<Arc<Mapping>>,
}

/// A version that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionInfo {
    /// The producer's number of the version.
    pub version: u64,
    /// Time of publishing in nanoseconds since 1970.
    pub published_ns: u64,
    /// Pages that were dirty.
    pub dirty_pages: u64,
    /// Pages of all variables.
    pub total_pages: u64,
    /// Whether it is on its way out: those who hold it keep it, but nobody else can get it.
    pub retiring: bool,
}

impl Shared {
    fn open(root: &Path, dir: &Path, name: &str) -> Result<Shared> {
        files::check_pages()?;
        let missing = || Error::NoRegion { region: name.into(), dir: root.to_path_buf() };
        let open = |file: &str| {
            let path = dir.join(file);
            File::open(&path).map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => missing(),
                _ => Error::io("open", &path, error),
            })
        };
        let corrupt = |corrupt| Error::Corrupt { dir: dir.to_path_buf(), corrupt };
        let head_file = open(head::FILE)?;
        let mut begin = [0; 64];
        let length =
            head_file.read_at(&mut begin, 0).map_err(|error| Error::io("read", &dir.join(head::FILE), error))?;
        if !head::check_geometry(&begin[..length]).map_err(corrupt)? {
            return Err(missing());
        }
        check_length(&head_file, dir, head::FILE, head::HEAD_BYTES as u64)?;
        let head = Head::map(&head_file, &dir.join(head::FILE), false)?;
        let meta = head_file.metadata().map_err(|error| Error::io("fstat", &dir.join(head::FILE), error))?;
        let identity = (meta.dev(), meta.ino());
        let is_there =
            || std::fs::metadata(dir.join(head::FILE)).is_ok_and(|meta| (meta.dev(), meta.ino()) == identity);
        // A finished head has the other files beside it, unless the region is just being removed, the head first.
        let beside = |file: &str| match open(file) {
            Err(Error::NoRegion { .. }) if is_there() => Err(corrupt(Corrupt::new(file, 0, "a file", "no such file"))),
            other => other,
        };
        let tables = beside(table::FILE)?;
        let leases = LeaseFile::new(beside(lease::FILE)?, dir.join(lease::FILE), name);
        let caches = Mutex::new(Caches::default());
        let shared = Shared { name: name.into(), dir: dir.to_path_buf(), head, leases, tables, identity, caches };
        // A region that was replaced while its files were opened is opened anew, or waited for.
        shared.check_names().map_err(|_| missing())?;
        Ok(shared)
    }

    fn caches(&self) -> MutexGuard<'_, Caches> {
        self.caches.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    pub(crate) fn corrupt(&self, corrupt: Corrupt) -> Error {
        Error::Corrupt { dir: self.dir.clone(), corrupt }
    }

    pub(crate) fn schema(&self, number: u32) -> Result<Arc<Schema>> {
        if let Some(schema) = self.caches().schemas.get(&number) {
            return Ok(schema.clone());
        }
        let schema = read_schema(&self.dir, number);
        self.check_names()?;
        let schema = Arc::new(schema?);
        let mut caches = self.caches();
        // Old schemas are read again if they are ever needed again.
        if caches.schemas.len() >= 64 {
            caches.schemas.clear();
        }
        caches.schemas.insert(number, schema.clone());
        Ok(schema)
    }

    /// Reads bytes of the `tables` file.
    pub(crate) fn read_tables(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.tables.read_exact_at(out, offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                let expected = format!("{} bytes", out.len());
                self.corrupt(Corrupt::new(table::FILE, offset as usize, expected, "the end of the file"))
            }
            _ => Error::io("read", &self.dir.join(table::FILE), error),
        })
    }

    pub(crate) fn table_blocks(&self) -> Result<u32> {
        let meta = self.tables.metadata().map_err(|error| Error::io("fstat", &self.dir.join(table::FILE), error))?;
        Ok((meta.len() / stillframe_segment::BLOCK_BYTES as u64).min(u64::from(u32::MAX >> 1)) as u32)
    }

    /// A map of a whole plane that reaches at least to `end`, and its file.
    pub(crate) fn plane(&self, plane: u8, end: u64) -> Result<(Arc<Mapping>, Arc<File>)> {
        let mut caches = self.caches();
        if let Some(PlaneMap { file, map: Some(map) }) = caches.planes.get(plane as usize)
            && map.bytes() as u64 >= end
        {
            return Ok((map.clone(), file.clone()));
        }
        let name = plane_file(plane as usize);
        let path = self.dir.join(&name);
        let Some(known) = caches.planes.get_mut(plane as usize) else {
            return Err(self.corrupt(Corrupt::missing(&name)));
        };
        let file = known.file.clone();
        // Bytes past the end of the file would be a fatal signal at the first touch.
        let length = check_length(&file, &self.dir, &name, end)?;
        let bytes = length / WINDOW_BYTES as u64 * WINDOW_BYTES as u64;
        let map = Mapping::shared(&file, 0, bytes.max(end) as usize, false)
            .map_err(|failure| Error::system(&path, failure))?;
        let map = Arc::new(map);
        known.map = Some(map.clone());
        Ok((map, file))
    }

    /// Opens the planes that came since the last call. All that a version uses exist when it is held.
    pub(crate) fn open_planes(&self) -> Result<()> {
        let mut caches = self.caches();
        let known = caches.planes.len();
        let count = self.head.counter(Counter::Planes).min(PLANES_MAX as u64) as usize;
        while caches.planes.len() < count {
            let name = plane_file(caches.planes.len());
            let path = self.dir.join(&name);
            match File::open(&path) {
                Ok(file) => caches.planes.push(PlaneMap { file: Arc::new(file), map: None }),
                Err(error) => {
                    caches.planes.truncate(known);
                    self.check_names()?;
                    return Err(match error.kind() {
                        std::io::ErrorKind::NotFound => self.corrupt(Corrupt::missing(&name)),
                        _ => Error::io("open", &path, error),
                    });
                }
            }
        }
        if caches.planes.len() > known
            && let Err(error) = self.check_names()
        {
            caches.planes.truncate(known);
            return Err(error);
        }
        Ok(())
    }

    /// Whether the files opened by name before this call are of this region, rather than of none or of a later one of the
    /// same name: of all names the head's goes first and comes first.
    fn check_names(&self) -> Result<()> {
        let there = std::fs::metadata(self.dir.join(head::FILE));
        if there.is_ok_and(|there| (there.dev(), there.ino()) == self.identity) {
            return Ok(());
        }
        Err(Error::NoRegion { region: self.name.clone(), dir: self.dir.parent().unwrap_or(&self.dir).to_path_buf() })
    }
}

fn check_length(file: &File, dir: &Path, name: &str, bytes: u64) -> Result<u64> {
    let length = file.metadata().map_err(|error| Error::io("fstat", &dir.join(name), error))?.len();
    if length < bytes {
        let corrupt = Corrupt::new(name, length as usize, format!("{bytes} bytes"), "the end of the file");
        return Err(Error::Corrupt { dir: dir.to_path_buf(), corrupt });
    }
    Ok(length)
}

impl Observer {
    /// Options for opening an observer.
    pub fn options() -> ObserverOptions {
        ObserverOptions { dir: files::root(), wait: Duration::ZERO }
    }

    /// Opens an observer on a region that exists, with default options.
    ///
    /// # Errors
    /// As [`ObserverOptions::open`].
    pub fn open(name: &str) -> Result<Observer> {
        Observer::options().open(name)
    }

    /// The region's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Whether the region has a living producer.
    pub fn producer_alive(&self) -> bool {
        self.shared.leases.is_produced().unwrap_or(false)
    }

    /// Holds the newest version.
    ///
    /// # Errors
    /// [`Error::NoVersion`] if nothing was published yet.
    pub fn newest(&self) -> Result<Snapshot> {
        let leased = protocol::lease_newest(&self.shared.head, &self.shared.leases)?;
        let Some(leased) = leased else {
            self.shared.head.check_newest().map_err(|corrupt| self.shared.corrupt(corrupt))?;
            return Err(Error::NoVersion { region: self.shared.name.clone() });
        };
        Snapshot::open(self.shared.clone(), leased)
    }

    /// Holds a given version.
    ///
    /// # Errors
    /// [`Error::VersionGone`] if it is not, or no longer, there.
    pub fn version(&self, version: u64) -> Result<Snapshot> {
        self.shared.leases.file()?;
        let listed = self.listed();
        let found = listed.iter().find(|(_, number)| *number == version);
        if let Some((leased, _)) = found
            && let Some(snapshot) = self.hold(*leased, version)?
        {
            return Ok(snapshot);
        }
        let (oldest, newest) = (listed.first().map(|first| first.1), listed.last().map(|last| last.1));
        Err(Error::VersionGone { region: self.shared.name.clone(), version, oldest, newest })
    }

    /// Holds the smallest version above `version` (any, for `None`), waiting for it at most `timeout` (for ever, for
    /// `None`).
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::ProducerGone`] if nobody will publish it.
    pub fn next_after(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<Snapshot> {
        self.wait_for("the next version", timeout, |observer| {
            for (leased, number) in observer.listed() {
                if version.is_none_or(|version| number > version)
                    && let Some(snapshot) = observer.hold(leased, number)?
                {
                    return Ok(Some(snapshot));
                }
            }
            Ok(None)
        })
    }

    /// Holds the newest version above `version` (any, for `None`), skipping those in between; waits as
    /// [`next_after`](Observer::next_after) does.
    ///
    /// # Errors
    /// As [`next_after`](Observer::next_after).
    pub fn newest_after(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<Snapshot> {
        self.wait_for("a newer version", timeout, |observer| {
            // A look at the number before the lease keeps idle waiting from holding anything.
            if observer.newer(version).is_none() {
                return Ok(None);
            }
            match observer.newest() {
                Ok(snapshot) if version.is_none_or(|version| snapshot.version() > version) => Ok(Some(snapshot)),
                Ok(_) | Err(Error::NoVersion { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Waits until the newest version is above `version` (any, for `None`) and returns its number, without holding it;
    /// waits as [`next_after`](Observer::next_after) does.
    ///
    /// # Errors
    /// As [`next_after`](Observer::next_after).
    pub fn wait_newer(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<u64> {
        self.wait_for("a newer version", timeout, |observer| Ok(observer.newer(version)))
    }

    /// The number of the newest version, if it is above `version`.
    fn newer(&self, version: Option<u64>) -> Option<u64> {
        let head = &self.shared.head;
        loop {
            let newest = head.newest();
            if newest.sequence() == 0 || newest.slot() >= head::SLOTS {
                return None;
            }
            let number = head.descriptor(newest.slot()).version;
            std::sync::atomic::fence(Ordering::Acquire);
            // A slot is reused only after a newer version was committed, so its number holds if this does.
            if head.newest() == newest {
                return version.is_none_or(|version| number > version).then_some(number);
            }
        }
    }

    /// Goes through versions as they come. With `every` each version that still exists comes in turn, else always the
    /// newest. Ends when the producer is gone, or nothing came for `timeout`.
    pub fn snapshots(&self, every: bool, timeout: Option<Duration>) -> Snapshots {
        Snapshots { observer: self.clone(), every, timeout, last: None }
    }

    /// The versions that exist, ascending.
    pub fn versions(&self) -> Vec<VersionInfo> {
        let head = &self.shared.head;
        let newest = head.newest().sequence();
        let mut found = Vec::new();
        for slot in 0..head.slots() {
            let stamp = head.stamp(slot);
            let descriptor = head.descriptor(slot);
            std::sync::atomic::fence(Ordering::Acquire);
            // A slot that changed meanwhile belongs to no version that is worth listing.
            if head.stamp(slot) != stamp || stamp.sequence() > newest || stamp.sequence() == 0 {
                continue;
            }
            let retiring = match stamp.state() {
                Some(State::Live) => false,
                Some(State::Retiring) => true,
                _ => continue,
            };
            found.push(VersionInfo {
                version: descriptor.version,
                published_ns: descriptor.published_ns,
                dirty_pages: descriptor.dirty_pages,
                total_pages: descriptor.total_pages,
                retiring,
            });
        }
        found.sort_by_key(|info| info.version);
        found
    }

    /// The versions that can be leased, with the numbers they had when looked at.
    fn listed(&self) -> Vec<(Leased, u64)> {
        let list = protocol::list(&self.shared.head);
        list.into_iter().map(|leased| (leased, self.shared.head.descriptor(leased.slot).version)).collect()
    }

    fn hold(&self, leased: Leased, number: u64) -> Result<Option<Snapshot>> {
        if !protocol::lease(&self.shared.head, &self.shared.leases, leased)? {
            return Ok(None);
        }
        let snapshot = Snapshot::open(self.shared.clone(), leased)?;
        Ok((snapshot.version() == number).then_some(snapshot))
    }

    fn wait_for<T>(
        &self,
        what: &'static str,
        timeout: Option<Duration>,
        mut look: impl FnMut(&Observer) -> Result<Option<T>>,
    ) -> Result<T> {
        let begin = Instant::now();
        let shared = &self.shared;
        shared.leases.file()?;
        loop {
            let seen = shared.head.bell().load(Ordering::Acquire);
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if !self.producer_alive() {
                // It may have published and ended since the look.
                return look(self)?.ok_or_else(|| Error::ProducerGone { region: shared.name.clone() });
            }
            let mut sleep = WAIT_SLICE;
            if let Some(timeout) = timeout {
                let waited = begin.elapsed();
                if waited >= timeout {
                    return Err(Error::Timeout { region: shared.name.clone(), what, waited });
                }
                sleep = sleep.min(timeout - waited);
            }
            futex::wait(shared.head.bell(), seen, Some(sleep));
        }
    }
}

/// Versions as they come; see [`Observer::snapshots`].
#[derive(Debug)]
pub struct Snapshots {
    observer: Observer,
    every: bool,
    timeout: Option<Duration>,
    last: Option<u64>,
}

impl Iterator for Snapshots {
    type Item = Result<Snapshot>;

    fn next(&mut self) -> Option<Result<Snapshot>> {
        let next = match self.every {
            true => self.observer.next_after(self.last, self.timeout),
            false => self.observer.newest_after(self.last, self.timeout),
        };
        match next {
            Ok(snapshot) => {
                self.last = Some(snapshot.version());
                Some(Ok(snapshot))
            }
            Err(Error::Timeout { .. } | Error::ProducerGone { .. }) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// A lease that ends with the value.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) shared: Arc<Shared>,
    pub(crate) leased: Leased,
}

impl Drop for Hold {
    fn drop(&mut self) {
        protocol::release(&self.shared.leases, self.leased);
    }
}
