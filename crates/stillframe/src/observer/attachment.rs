//! What an observer has open: the files of a region, and the holds that keep versions alive.

use crate::clock;
use crate::error::{Error, Result};
use crate::group::elsewhere::Elsewhere;
use crate::observer::polite::Pace;
use crate::place::Place;
use crate::place::arena::index::Index;
use crate::place::arena::{Arena, Attached};
use crate::place::check_pages;
use crate::place::directory::Unopened;
use crate::place::files::{Files, Located, Root};
use crate::place::names::{plane_file, schema_file};
use crate::store::head::Head;
use crate::store::lease::{LeaseFile, RegionLeases};
use crate::store::schemas::read_entry;
use ::stillframe_protocol as protocol;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use stillframe_kernel::folder::About;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::workers::Workers;
use stillframe_protocol::Leased;
use stillframe_segment::description::{self, Blocks};
use stillframe_segment::head::{self, Counter};
use stillframe_segment::{
    BLOCK_BYTES, Corrupt, PAGE_BYTES, PLANES_MAX, Schema, WINDOW_BYTES, WINDOW_PAGES, lease, table,
};

/// What an observer and its snapshots have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    source: Source,
    pub(crate) head: Head,
    pub(crate) leases: RegionLeases,
    /// Tells the region from others that have its name later.
    identity: (u64, u64),
    /// User whose the files are.
    owner: u32,
    caches: Mutex<Caches>,
    /// Blocks that the tables had when they were last counted. They become no fewer, unless somebody cuts the file; then what is
    /// read of it is found missing.
    blocks: AtomicU32,
    /// Since when those who wait see no producer, on the monotonic clock; zero if they see one.
    gone_ms: AtomicU64,
    /// Who makes page-table entries of variables that are seen whole, unless each page is left to the first that reads it.
    pub(crate) workers: Option<Arc<Workers>>,
    /// How fast a polite observer goes on.
    pub(crate) pace: Option<Arc<Pace>>,
    /// Who brings the region here, if it is of a rank on another node.
    pub(crate) elsewhere: Option<Elsewhere>,
}

/// Where a region lies, for who looks.
#[derive(Debug)]
enum Source {
    Files { files: Files, tables: File },
    Arena { arena: Arena, index: Index, _attached: Attached },
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

impl Shared {
    /// The region of a name below a directory; `None` if there is none, or it is not whole.
    pub(crate) fn open(root: &Root, name: &str) -> Result<Option<Shared>> {
        check_pages()?;
        match root.locate(name)? {
            Some(Located::Region { files, head: (head, about) }) => Shared::in_files(files, head, &about, name),
            Some(Located::Arena { files, called, leads, region }) => {
                Shared::in_arena(&Arena::located(root, &files, &called, &leads)?, &region, name)
            }
            None => Ok(None),
        }
    }

    fn in_files(files: Files, head_file: File, about: &About, name: &str) -> Result<Option<Shared>> {
        let dir = files.path().to_path_buf();
        let corrupt = |corrupt| Error::Corrupt { dir: dir.clone(), corrupt };
        let Some(head) = Head::open(&head_file, &dir)? else { return Ok(None) };
        let (identity, owner) = (about.identity, about.owner);
        // A finished head has the other files beside it, unless the region is just being removed, the head first.
        let beside = |file: &str| match files.is(head::FILE, identity) {
            true => Err(corrupt(Corrupt::new(file, 0, "a file", "no such file"))),
            false => Ok(None),
        };
        let Some((tables, _)) = files.file(table::FILE)? else { return beside(table::FILE) };
        let leases = match LeaseFile::open(&files, name) {
            Ok(leases) => leases,
            Err(Unopened::Missing) => return beside(lease::FILE),
            Err(Unopened::Failed(error)) => return Err(error),
        };
        let (leases, caches) = (RegionLeases::File(leases.into()), Mutex::new(Caches::default()));
        let (name, source) = (name.into(), Source::Files { files, tables });
        let (blocks, workers, pace) = (AtomicU32::new(0), None, None);
        let (gone_ms, elsewhere) = (AtomicU64::new(0), None);
        let shared = Shared {
            name,
            dir,
            source,
            head,
            leases,
            identity,
            owner,
            caches,
            blocks,
            gone_ms,
            workers,
            pace,
            elsewhere,
        };
        // A region that was replaced while its files were opened is opened anew, or waited for.
        Ok(shared.check_names().is_ok().then_some(shared))
    }

    /// A region of an arena, of which observers are told the name `shown`; `None` if there is none, or it is not whole.
    pub(crate) fn in_arena(arena: &Arena, name: &str, shown: &str) -> Result<Option<Shared>> {
        let Some(found) = arena.find(name)? else { return Ok(None) };
        let Some(head_at) = found.head_at else { return Ok(None) };
        let leases = arena.leases(name, &found);
        let Some(_attached) = leases.attach()? else { return Ok(None) };
        let index = Index::new(arena, head_at)?;
        let dir = arena.path().join(name);
        let mut begin = [0; 64];
        index.head().read(0, &mut begin);
        let corrupt = |corrupt| Error::Corrupt { dir: dir.clone(), corrupt };
        if !head::check_geometry(&begin).map_err(corrupt)? {
            return Ok(None);
        }
        let about = arena.about();
        Ok(Some(Shared {
            name: shown.into(),
            dir,
            head: Head::at(index.head()).with_bell(arena.bell(found.number)),
            source: Source::Arena { arena: arena.clone(), index, _attached },
            leases: RegionLeases::Arena(leases),
            identity: (about.identity.1, u64::from(found.number) << 32 | u64::from(found.generation)),
            owner: about.owner,
            caches: Mutex::new(Caches::default()),
            blocks: AtomicU32::new(0),
            gone_ms: AtomicU64::new(0),
            workers: None,
            pace: None,
            elsewhere: None,
        }))
    }

    /// Whether no producer has been seen for so long, since this was asked first: in this wait, or in those before, each of which may be
    /// shorter.
    pub(crate) fn is_gone_for(&self, time: Duration) -> bool {
        let now = clock::monotonic_ms().max(1);
        let first = self.gone_ms.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        let since = first.map_or_else(|since| since, |_| now);
        u128::from(now.saturating_sub(since)) >= time.as_millis()
    }

    /// Forgets since when no producer was seen.
    pub(crate) fn forget_gone(&self) {
        self.gone_ms.store(0, Ordering::Relaxed);
    }

    /// Whether the region lies in large pages.
    pub(crate) fn is_hugetlb(&self) -> bool {
        matches!(&self.source, Source::Arena { arena, .. } if arena.is_hugetlb())
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
        let text = self.schema_text(number);
        self.check_names()?;
        let schema = Schema::decode(&schema_file(number), &text?).map_err(|corrupt| self.corrupt(corrupt))?;
        let schema = Arc::new(schema);
        let mut caches = self.caches();
        // Old schemas are read again if they are ever needed again.
        if caches.schemas.len() >= 64 {
            caches.schemas.clear();
        }
        caches.schemas.insert(number, schema.clone());
        Ok(schema)
    }

    fn schema_text(&self, number: u32) -> Result<Vec<u8>> {
        match &self.source {
            Source::Files { files, .. } => Place::read_schema(files, number),
            Source::Arena { index, .. } => {
                let found = index.schemas().into_iter().find(|entry| entry.number == number);
                let missing = || self.corrupt(Corrupt::new(&schema_file(number), 0, "a schema", "no such entry"));
                read_entry(self, Some(found.ok_or_else(missing)?))
            }
        }
    }

    /// Offset in its file of a page of a plane that a held version shows.
    pub(crate) fn page_at(&self, plane: u8, page: usize) -> Result<u64> {
        let Source::Arena { index, .. } = &self.source else { return Ok((page * PAGE_BYTES) as u64) };
        let chunk = index.chunk(plane as usize, page / WINDOW_PAGES)?;
        let chunk = chunk.ok_or_else(|| self.corrupt(Corrupt::missing(&plane_file(plane as usize))))?;
        Ok(u64::from(chunk) * WINDOW_BYTES as u64 + (page % WINDOW_PAGES * PAGE_BYTES) as u64)
    }

    /// A map of a whole plane that reaches at least to the offset `end` of its file, and the file.
    pub(crate) fn plane(&self, plane: u8, end: u64) -> Result<(Arc<Mapping>, Arc<File>)> {
        if let Source::Arena { arena, .. } = &self.source {
            return Ok((arena.map(), arena.file().clone()));
        }
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
        let length = About::of(&file).map_err(|error| Error::io("fstat", &path, error))?.bytes;
        if length < end {
            return Err(self.corrupt(Corrupt::cut(&name, length, end)));
        }
        let bytes = length / WINDOW_BYTES as u64 * WINDOW_BYTES as u64;
        let mut map = Mapping::shared(&file, 0, bytes.max(end) as usize, false)
            .map_err(|failure| Error::system(&path, failure))?;
        if let Some(workers) = &self.workers {
            map.unmap_by(workers);
        }
        let map = Arc::new(map);
        known.map = Some(map.clone());
        Ok((map, file))
    }

    /// The file of a plane that a held version uses.
    pub(crate) fn plane_file(&self, plane: u8) -> Result<Arc<File>> {
        if let Source::Arena { arena, .. } = &self.source {
            return Ok(arena.file().clone());
        }
        let known = self.caches().planes.get(plane as usize).map(|known| known.file.clone());
        known.ok_or_else(|| self.corrupt(Corrupt::missing(&plane_file(plane as usize))))
    }

    /// Reads bytes of a plane through its file: if it was cut short, that is an error and no signal.
    pub(crate) fn read_plane(&self, plane: u8, file: &File, offset: u64, out: &mut [u8]) -> Result<()> {
        file.read_exact_at(out, offset).map_err(|error| {
            let name = plane_file(plane as usize);
            match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    let length = file.metadata().map_or(0, |meta| meta.len());
                    let expected = format!("{} bytes", out.len());
                    let found = format!("the end of the file, which has {length} bytes");
                    self.corrupt(Corrupt::new(&name, offset as usize, expected, found))
                }
                _ => Error::io("read", &self.dir.join(name), error),
            }
        })
    }

    /// Whether another user owns the files.
    pub(crate) fn is_foreign(&self) -> bool {
        self.owner != stillframe_kernel::user_id()
    }

    /// Opens the planes that came since the last call. All that a version uses exist when it is held.
    pub(crate) fn open_planes(&self) -> Result<()> {
        let Source::Files { files, .. } = &self.source else { return Ok(()) };
        let mut caches = self.caches();
        let known = caches.planes.len();
        let count = self.head.counter(Counter::Planes).min(PLANES_MAX as u64) as usize;
        while caches.planes.len() < count {
            let name = plane_file(caches.planes.len());
            let opened = files.file(&name);
            match opened.and_then(|opened| opened.ok_or_else(|| self.corrupt(Corrupt::missing(&name)))) {
                Ok((file, _)) => caches.planes.push(PlaneMap { file: Arc::new(file), map: None }),
                Err(error) => {
                    caches.planes.truncate(known);
                    self.check_names()?;
                    return Err(error);
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

    /// What is known of the files that are open, and which plane each is; not of an arena's.
    pub(crate) fn files(&self) -> Result<Vec<(Option<usize>, About)>> {
        self.open_planes()?;
        let about = |file: &File| About::of(file).map_err(|error| Error::io("fstat", &self.dir, error));
        let Source::Files { tables, .. } = &self.source else { return Ok(Vec::new()) };
        let mut found = vec![(None, about(tables)?)];
        for (index, plane) in self.caches().planes.iter().enumerate() {
            found.push((Some(index), about(&plane.file)?));
        }
        Ok(found)
    }

    /// Whether both are the same files. Those that are mapped are not reused, so their inodes tell.
    pub(crate) fn is_same(&self, other: &Shared) -> bool {
        self.identity == other.identity
    }

    /// Whether the region's name is still that of these files.
    pub(crate) fn is_named(&self) -> bool {
        match (&self.source, &self.leases) {
            (Source::Arena { arena, .. }, RegionLeases::Arena(leases)) => {
                let found = arena.find(leases.name()).ok().flatten();
                leases.is_current() && found.is_some_and(|found| found.number == leases.number())
            }
            (Source::Files { files, .. }, _) => files.is_current(head::FILE, self.identity),
            _ => false,
        }
    }

    /// Refuses a region of an arena that was removed: its head may be another's by now. Files that are open stay.
    pub(crate) fn check_there(&self) -> Result<()> {
        match &self.leases {
            RegionLeases::Arena(leases) if !leases.is_current() => Err(self.gone()),
            _ => Ok(()),
        }
    }

    /// Makes room for more elements of a list whose length the region decides.
    pub(crate) fn make_room<T>(&self, list: &mut Vec<T>, more: usize) -> Result<()> {
        list.try_reserve(more).map_err(|_| self.no_memory((list.len() + more) * size_of::<T>()))
    }

    fn gone(&self) -> Error {
        Error::NoRegion { region: self.name.clone(), dir: self.dir.parent().unwrap_or(&self.dir).to_path_buf() }
    }

    /// Whether the files opened by name before this call are of this region, rather than of none or of a later one of the
    /// same name: of all names the head's goes first and comes first.
    fn check_names(&self) -> Result<()> {
        let is_same = match &self.source {
            Source::Files { files, .. } => files.is(head::FILE, self.identity),
            // What is held stays.
            Source::Arena { .. } => true,
        };
        if is_same {
            return Ok(());
        }
        Err(self.gone())
    }
}

impl Blocks for Shared {
    type Error = Error;

    fn count(&self) -> Result<u32> {
        let bytes = match &self.source {
            Source::Files { tables, .. } => {
                let meta = tables.metadata();
                meta.map_err(|error| Error::io("fstat", &self.dir.join(table::FILE), error))?.len()
            }
            Source::Arena { index, .. } => {
                index.extents()?.iter().map(|pages| pages.len() as u64 * PAGE_BYTES as u64).sum()
            }
        };
        Ok((bytes / BLOCK_BYTES as u64).min(u64::from(u32::MAX >> 1)) as u32)
    }

    fn count_beyond(&self, block: u32) -> Result<u32> {
        let known = self.blocks.load(Ordering::Relaxed);
        if known > block {
            return Ok(known);
        }
        let count = self.count()?;
        self.blocks.store(count, Ordering::Relaxed);
        Ok(count)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match &self.source {
            Source::Files { tables, .. } => tables.read_exact_at(out, offset).map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    let expected = format!("{} bytes", out.len());
                    self.corrupt(Corrupt::new(table::FILE, offset as usize, expected, "the end of the file"))
                }
                _ => Error::io("read", &self.dir.join(table::FILE), error),
            }),
            Source::Arena { arena, index, .. } => {
                let mut done = 0;
                let mut begin = 0;
                for pages in index.extents()? {
                    let bytes = pages.len() * PAGE_BYTES;
                    let at = offset as usize + done;
                    if done < out.len() && (begin..begin + bytes).contains(&at) {
                        let now = (begin + bytes - at).min(out.len() - done);
                        let from = pages.start as usize * PAGE_BYTES + at - begin;
                        arena.memory().read(from, &mut out[done..done + now]);
                        done += now;
                    }
                    begin += bytes;
                }
                match done == out.len() {
                    true => Ok(()),
                    false => {
                        let blocks = (begin / BLOCK_BYTES) as u32;
                        Err(self.corrupt(description::missing(offset, out.len(), blocks)))
                    }
                }
            }
        }
    }

    fn corrupt(&self, corrupt: Corrupt) -> Error {
        Shared::corrupt(self, corrupt)
    }

    fn no_memory(&self, bytes: usize) -> Error {
        Error::no_memory(&self.dir.join(table::FILE), bytes)
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
