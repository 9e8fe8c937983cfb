//! Making and opening arenas.

use super::changing::Changing;
use super::filling::is_filled;
use super::openings::{Key, known, remember};
use super::others::{Sharing, has_area};
use super::{Arena, Shared};
use crate::error::{Error, Result};
use crate::place::directory::{self, Directory, Unopened};
use crate::place::files::{Files, Located, Root};
use crate::{clock, place, place::names};
use once_cell::race::OnceBox;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use stillframe_kernel::folder::{self, About, Access, Form};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::trust::{Distrust, Guard, Purpose, Trust};
use stillframe_kernel::{points, space};
use stillframe_segment::Corrupt;
use stillframe_segment::arena::{self, CHUNK_BYTES, Geometry, Unfit};
use stillframe_segment::enclave::{self, AREA_BYTES};
use stillframe_segment::{head, lease};

/// Options for making or opening an arena.
#[derive(Debug, Clone)]
pub struct ArenaOptions {
    dir: PathBuf,
    bytes: u64,
    regions: u32,
    mode: u32,
    large_pages: bool,
    trust: Option<Trust>,
}

/// How often others may remove an arena while it is made or opened before it is no coincidence.
const ATTEMPTS: usize = 100;

/// Regions that an arena can have, unless told otherwise.
const REGIONS_DEFAULT: u32 = 4096;

impl Default for ArenaOptions {
    fn default() -> Self {
        let dir = names::root();
        ArenaOptions { dir, bytes: 0, regions: REGIONS_DEFAULT, mode: 0o700, large_pages: false, trust: None }
    }
}

impl ArenaOptions {
    /// The directory that holds the arena's own; by default `$STILLFRAME_DIR`, else `/dev/shm/stillframe-<uid>`. In a
    /// directory on hugetlbfs the arena consists of large pages of 2 MiB.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = dir.into();
        self
    }

    /// Length of the arena, rounded up to whole chunks of 2 MiB; its own tables are part of it. Memory is taken as regions
    /// need it, on hugetlbfs chunk by chunk.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// The most regions that it can have at a time; 4096 by default, at most 524 288.
    pub fn regions(mut self, regions: u32) -> Self {
        self.regions = regions;
        self
    }

    /// Access mode of the arena's directory; 0o700 by default. With 0o750 the group may observe all its regions, with 0o770
    /// it may also make some.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Whether to ask for large pages where the file system has small ones; false by default. Small regions then take more.
    pub fn large_pages(mut self, large_pages: bool) -> Self {
        self.large_pages = large_pages;
        self
    }

    /// Whose directories and files are taken for good, as [`RegionOptions::trust`](crate::RegionOptions::trust).
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = Some(trust);
        self
    }

    fn guard(&self) -> Result<Guard> {
        let trust = names::trust(self.trust)?.unwrap_or_default();
        Ok(Guard::new(trust, Purpose::Write { granted: self.mode }))
    }

    /// Makes the arena and opens it for writing, or opens the one that is there.
    ///
    /// # Errors
    /// [`Error::BadOption`] if it is there with another length or for another number of regions, or there cannot be such an
    /// arena; [`Error::Untrusted`] if somebody else made what is there; [`Error::Corrupt`] if it is damaged or of another
    /// format; [`Error::NoSpace`] if there is no memory for its tables.
    pub fn create(self, name: &str) -> Result<Arena> {
        place::check_pages()?;
        let wanted = self.wanted()?;
        if self.mode & 0o700 != 0o700 || self.mode > 0o777 {
            let why = format!("{:#o} locks the owner out", self.mode);
            return Err(Error::BadOption { option: "mode", why });
        }
        let path = names::new_region_dir(&self.dir, name)?;
        let guard = self.guard()?;
        if let Some(root) = Directory::root(&self.dir, guard)? {
            directory::check_neighbours(&root, name)?;
        }
        let root = Directory::make_root(&self.dir, self.mode, guard)?;
        for _ in 0..ATTEMPTS {
            match self.try_create(&root, name, &path, wanted) {
                Ok(arena) => return Ok(arena),
                // Another process removed an arena of the name.
                Err(Unopened::Missing) => {}
                Err(Unopened::Failed(error)) => return Err(error),
            }
        }
        Err(Error::io("open", &path, ErrorKind::NotFound.into()))
    }

    /// Makes the arena, or opens the one that is there, unless one is just removed.
    fn try_create(&self, root: &Directory, name: &str, path: &Path, wanted: Geometry) -> Result<Arena, Unopened> {
        let directory = root.make_below(name, self.mode)?;
        if directory.has(head::FILE) {
            let why = "there is a region of that name; choose another";
            return Err(Error::BadName { name: name.into(), what: "arena", why: why.into() }.into());
        }
        points::hit("arena.make.dir");
        check_own(&directory, name)?;
        check_locks(&directory)?;
        let producer = Unforked::open(|| directory.try_create(lease::PRODUCER_FILE, producer_mode(self.mode)))?;
        let lease = Unforked::open(|| directory.try_create(lease::FILE, self.mode))?;
        let file = directory.try_create(arena::FILE, self.mode)?;
        let make_further = |directory: &Directory| {
            let mut numbers = 1..arena::lease_files(wanted.regions());
            numbers.try_for_each(|number| directory.create(&arena::lease_file(number), self.mode).map(drop))
        };
        let further_in = directory.clone();
        let parts = Parts {
            name: name.into(),
            path: path.into(),
            files: Some(directory.into()),
            file,
            lease: lease.into(),
            producer: Some(producer.into()),
        };
        let geometry = parts.make(|| make_further(&further_in).map(|()| wanted))?.ok_or(Unopened::Missing)?;
        if geometry != wanted {
            let why = format!(
                "arena '{name}' is there already, with {} bytes and for {} regions: ask for as many, open it, or remove it",
                geometry.bytes(),
                geometry.regions()
            );
            return Err(Error::BadOption { option: "bytes", why }.into());
        }
        Ok(parts.open(geometry, self.large_pages)?)
    }

    fn wanted(&self) -> Result<Geometry> {
        Geometry::new(self.bytes.div_ceil(CHUNK_BYTES as u64), self.regions).map_err(|unfit| match unfit {
            Unfit::Regions { found } => {
                let why = format!("{found} is not between 1 and {}", arena::REGIONS_MAX);
                Error::BadOption { option: "regions", why }
            }
            Unfit::Chunks { least, .. } => {
                let chunk_bytes = CHUNK_BYTES as u64;
                let (least, most) = (u64::from(least) * chunk_bytes, u64::from(arena::CHUNKS_MAX) * chunk_bytes);
                let why = format!("{} is not between {least} and {most}", self.bytes);
                Error::BadOption { option: "bytes", why }
            }
        })
    }

    /// Opens an arena that is there, to make regions in it.
    ///
    /// # Errors
    /// [`Error::NoArena`] if there is none, or it was never finished; those of [`create`](ArenaOptions::create).
    pub fn open(self, name: &str) -> Result<Arena> {
        self.open_for(name, true)
    }

    /// Opens an arena that is there, to look at it: this takes no right to write.
    ///
    /// # Errors
    /// As [`open`](ArenaOptions::open).
    pub fn look(self, name: &str) -> Result<Arena> {
        self.open_for(name, false)
    }

    fn open_for(self, name: &str, is_writing: bool) -> Result<Arena> {
        place::check_pages()?;
        names::region_dir(&self.dir, name)?;
        let guard = if is_writing { self.guard()? } else { names::looking(&self.dir, self.trust)? };
        let none = |half_made| Error::NoArena { arena: name.into(), dir: self.dir.clone(), half_made };
        let files = match Root::open(&self.dir, guard)? {
            Some(Root::Directory(root)) => root.below(name)?.ok_or_else(|| none(false))?.into(),
            Some(Root::Broker(_)) if is_writing => return Err(Error::only_to_look(&self.dir)),
            // It knows arenas by the names of regions in them.
            Some(root @ Root::Broker(_)) => match root.locate_arena(&format!("{name}/any"))? {
                Some(Located::Arena { files, leads, .. }) if leads == name => files,
                _ => return Err(none(false)),
            },
            None => return Err(none(false)),
        };
        self.open_in(&files, name, is_writing)
    }

    /// Opens the arena of these files, to look at it.
    pub(super) fn look_in(self, files: &Files, name: &str) -> Result<Arena> {
        self.open_in(files, name, false)
    }

    /// Opens the arena in a directory, to make and remove regions.
    pub(crate) fn write_in(self, directory: &Directory, name: &str) -> Result<Arena> {
        self.open_in(&directory.clone().into(), name, true)
    }

    fn open_in(self, files: &Files, name: &str, is_writing: bool) -> Result<Arena> {
        for _ in 0..ATTEMPTS {
            if let Some(arena) = self.try_open_in(files, name, is_writing)? {
                return Ok(arena);
            }
        }
        Err(no_arena(files, name, false))
    }

    /// As `open_in`; `None` if another arena got the name meanwhile.
    fn try_open_in(&self, files: &Files, name: &str, is_writing: bool) -> Result<Option<Arena>> {
        let none = |half_made| no_arena(files, name, half_made);
        let fail = |unopened| match unopened {
            Unopened::Missing => none(files.directory().is_some_and(|directory| directory.has(arena::FILE))),
            Unopened::Failed(error) => error,
        };
        let open = |file: &str| match files.directory() {
            Some(directory) => directory.open(file, Access::Write).map(|(file, _)| file).map_err(fail),
            None => Err(Error::only_to_look(files.path())),
        };
        if let Some(directory) = files.directory().filter(|_| is_writing) {
            check_own(directory, name)?;
        }
        let file = match is_writing {
            true => open(arena::FILE)?,
            false => files.file(arena::FILE)?.ok_or_else(|| fail(Unopened::Missing))?.0,
        };
        let lease = files.locks(lease::FILE).map_err(fail)?;
        let producer = match is_writing {
            true => Some(Unforked::open(|| open(lease::PRODUCER_FILE))?.into()),
            false => None,
        };
        // The first file of an arena goes first, and another's is made last.
        let about = About::of(&file).map_err(|error| Error::io("fstat", &files.path().join(arena::FILE), error))?;
        if !files.is(arena::FILE, about.identity) {
            return Ok(None);
        }
        let path = files.path().to_path_buf();
        let files = Some(files.clone());
        let parts = Parts { name: name.into(), path, files, file, lease: lease.into(), producer };
        let geometry = parts.geometry()?.ok_or_else(|| none(true))?;
        parts.open(geometry, self.large_pages).map(Some)
    }

    /// Opens an arena over a file that was handed in as a descriptor, or makes one there if it has no content and can be written:
    /// a regular file or memory file (memfd_create(2)), also of large pages. A file that has a length keeps it. Who can only
    /// read by the descriptor can only look. `name` is what messages and regions call it.
    ///
    /// All locks are on the file itself, on an opening of its own. So whoever has a descriptor of it may keep producers out.
    ///
    /// # Errors
    /// As [`create`](ArenaOptions::create); [`Error::NoArena`] if it is not finished and cannot be written;
    /// [`Error::BadOption`] if the file has another content, or is that of an arena with a directory.
    pub fn from_descriptor(self, descriptor: OwnedFd, name: &str) -> Result<Arena> {
        place::check_pages()?;
        names::region_dir(&self.dir, name)?;
        let path = PathBuf::from(format!("descriptor of '{name}'"));
        let file = File::from(descriptor);
        let fail = |call, error| Error::io(call, &path, error);
        let about = About::of(&file).map_err(|error| fail("fstat", error))?;
        if about.form != Form::File {
            let distrust = Distrust::Form { found: about.form, expected: Form::File };
            return Err(Error::Untrusted { path, distrust });
        }
        let is_writing = folder::is_writable(&file).map_err(|error| fail("fcntl", error))?;
        let lease = Unforked::open(|| folder::reopen(&file, is_writing)).map_err(|error| fail("open", error))?;
        let lease = Arc::new(lease);
        let producer = is_writing.then(|| lease.clone());
        let parts = Parts { name: name.into(), path, files: None, file, lease, producer };
        let wanted = || {
            parts.check_empty()?;
            match about.bytes / CHUNK_BYTES as u64 {
                0 => self.wanted(),
                chunks => self.clone().bytes(chunks * CHUNK_BYTES as u64).wanted(),
            }
        };
        let geometry = match is_writing {
            true => parts.make(|| Ok(wanted()?.handed_in(true)))?,
            false => parts.geometry()?,
        };
        let none = || Error::NoArena { arena: name.into(), dir: parts.path.clone(), half_made: true };
        let geometry = geometry.ok_or_else(none)?;
        parts.open(geometry, self.large_pages)
    }
}

/// The mode of the file with the producers' locks: those may open it who may write to the arena.
fn producer_mode(mode: u32) -> u32 {
    let writers = mode & 0o022;
    0o600 | writers | writers << 1
}

/// Whether a file, which was opened by this name, still has it.
fn is_there(directory: &Directory, name: &str, file: &File) -> Result<bool> {
    let ours = About::of(file).map_err(|error| Error::io("fstat", &directory.path().join(name), error))?;
    Ok(directory.about(name).is_some_and(|there| there.identity == ours.identity))
}

/// The files are those of no arena. It is looked for in the directory in which theirs lies.
fn no_arena(files: &Files, name: &str, half_made: bool) -> Error {
    let path = files.path();
    Error::NoArena { arena: name.into(), dir: path.parent().unwrap_or(path).into(), half_made }
}

/// Refuses another enclave's arena to who writes: its kernel has the locks of those who make, hold and remove what is in it.
fn check_own(directory: &Directory, name: &str) -> Result<()> {
    if !directory.has(enclave::AGENT) {
        return Ok(());
    }
    let why = format!(
        "'{name}' is the arena of another enclave, whose programs alone make and remove regions in it: do that there, or, if \
         it is no more, remove {} first",
        directory.path().join(enclave::AGENT).display()
    );
    Err(Error::BadOption { option: "arena", why })
}

/// Refuses a finished arena that lacks a file with locks: in a new one nobody would find the locks that others have.
fn check_locks(directory: &Directory) -> Result<()> {
    let Some((file, about)) = directory.file(arena::FILE)? else { return Ok(()) };
    let mut magic = [0; 8];
    let read = space::read_begin(&file, &mut magic);
    read.map_err(|error| Error::io("read", &directory.path().join(arena::FILE), error))?;
    if u64::from_le_bytes(magic) != arena::MAGIC || about.form != Form::File {
        return Ok(());
    }
    let lacks = [lease::PRODUCER_FILE, lease::FILE].into_iter().find(|name| !directory.has(name));
    match lacks {
        // Who removes an arena begins with this file.
        Some(name) if is_there(directory, arena::FILE, &file)? => {
            let corrupt = Corrupt::new(name, 0, "a file with the arena's locks", "no such file");
            Err(Error::Corrupt { dir: directory.path().into(), corrupt })
        }
        _ => Ok(()),
    }
}

/// What an arena is opened from.
struct Parts {
    name: String,
    path: PathBuf,
    files: Option<Files>,
    file: File,
    lease: Arc<Unforked>,
    producer: Option<Arc<Unforked>>,
}

impl Parts {
    fn fail(&self, call: &'static str, error: std::io::Error) -> Error {
        Error::io(call, &self.path.join(arena::FILE), error)
    }

    /// The geometry of what is there; `None` if it is not finished.
    fn geometry(&self) -> Result<Option<Geometry>> {
        let mut header = vec![0; arena::HEADER_BYTES];
        // Reading a hole through a map would take memory, and end the process where there is none.
        let length = space::read_begin(&self.file, &mut header).map_err(|error| self.fail("read", error))?;
        let bytes = About::of(&self.file).map_err(|error| self.fail("fstat", error))?.bytes;
        Geometry::decode(&header[..length], bytes).map_err(|corrupt| Error::Corrupt { dir: self.path.clone(), corrupt })
    }

    /// Refuses a file with anything but zeros in it, unless somebody began to make an arena there.
    fn check_empty(&self) -> Result<()> {
        let mut magic = [0; 8];
        space::read_begin(&self.file, &mut magic).map_err(|error| self.fail("read", error))?;
        if u64::from_le_bytes(magic) == arena::MAKING {
            return Ok(());
        }
        match space::first_content(&self.file).map_err(|failure| Error::system(&self.path, failure))? {
            None => Ok(()),
            Some(at) => {
                let why =
                    format!("{} is no arena, and has a content, at byte {at}: hand in a new file", self.path.display());
                Err(Error::BadOption { option: "descriptor", why })
            }
        }
    }

    /// Makes an arena, unless there is one; one that was not finished is begun anew. Returns the geometry of what is there then;
    /// `None` if the files were removed since they were opened, so that others would not find the locks in them.
    fn make(&self, wanted: impl FnOnce() -> Result<Geometry>) -> Result<Option<Geometry>> {
        let producers = self.producer.as_ref().and_then(|producer| producer.get());
        let producers = producers.ok_or_else(|| Error::Forked { region: self.name.clone() })?;
        let changing = Changing::begin(producers, &self.name, &self.path, || 0)?;
        if let Some(directory) = self.files.as_ref().and_then(Files::directory) {
            let lease = self.lease.get().ok_or_else(|| Error::Forked { region: self.name.clone() })?;
            for (name, file) in [(lease::PRODUCER_FILE, producers), (lease::FILE, lease), (arena::FILE, &self.file)] {
                if !is_there(directory, name, file)? {
                    return Ok(None);
                }
            }
        }
        points::hit("arena.make.locked");
        let geometry = match self.geometry()? {
            Some(geometry) => geometry,
            None => {
                let wanted = wanted()?;
                self.write(&wanted)?;
                wanted
            }
        };
        drop(changing);
        Ok(Some(geometry))
    }

    fn write(&self, geometry: &Geometry) -> Result<()> {
        let is_large = self.check_large()?;
        let length = About::of(&self.file).map_err(|error| self.fail("fstat", error))?.bytes;
        if length < geometry.bytes() {
            self.file.set_len(geometry.bytes()).map_err(|error| self.fail("ftruncate", error))?;
        }
        let system = |failure| Error::system(&self.path.join(arena::FILE), failure);
        // What was begun and not finished, if anything.
        match space::is_device(&self.file) {
            true => self.write_zeros(geometry)?,
            false => space::give_back(&self.file, 0, geometry.bytes()).map_err(system)?,
        }
        points::hit("arena.make.length");
        let begin_bytes = geometry.begin_bytes() as u64;
        if !is_large && !space::may_take(&self.file, begin_bytes) {
            return Err(Error::no_space(&self.path, begin_bytes));
        }
        space::take(&self.file, 0, begin_bytes).map_err(|failure| system(failure).needing(begin_bytes))?;
        let map = Mapping::shared(&self.file, 0, geometry.bytes() as usize, true).map_err(system)?;
        // Before there is anything else: what it is that another process finds if this one dies.
        map.word64(arena::MAGIC_AT).store(arena::MAKING, Ordering::Release);
        points::hit("arena.make.begun");
        for chunk in 0..geometry.free_chunks().start {
            map.word32(geometry.chunk_owner_at(chunk)).store(arena::TABLES, Ordering::Relaxed);
        }
        map.write(arena::ABI_AT, &geometry.encode(clock::unix_ns())[arena::ABI_AT..]);
        points::hit("arena.make.tables");
        map.word64(arena::MAGIC_AT).store(arena::MAGIC, Ordering::Release);
        points::hit("arena.make.done");
        Ok(())
    }

    /// Makes the whole of an arena read as zeros, in a device's memory: nothing of it can be given back.
    fn write_zeros(&self, geometry: &Geometry) -> Result<()> {
        let map = Mapping::shared(&self.file, 0, geometry.bytes() as usize, true)
            .map_err(|failure| Error::system(&self.path.join(arena::FILE), failure))?;
        let zeros = vec![0; CHUNK_BYTES];
        (0..map.bytes()).step_by(CHUNK_BYTES).for_each(|at| map.write(at, &zeros));
        Ok(())
    }

    /// Whether the file consists of large pages, which have to be as large as a chunk.
    fn check_large(&self) -> Result<bool> {
        match space::large_page_bytes(&self.file) {
            None => Ok(false),
            Some(bytes) if bytes == CHUNK_BYTES as u64 => Ok(true),
            Some(bytes) => {
                let why =
                    format!("{} has large pages of {bytes} bytes; arenas need {CHUNK_BYTES}", self.path.display());
                Err(Error::BadOption { option: "arena", why })
            }
        }
    }

    /// The arena as this process has it already, or opened.
    fn open(self, geometry: Geometry, large_pages: bool) -> Result<Arena> {
        if geometry.is_handed_in() != self.files.is_none() {
            let why = match geometry.is_handed_in() {
                true => "was made over a descriptor: open it by one, for its locks lie in it",
                false => "was made in a directory: open it by its name there, for its locks lie beside it",
            };
            let why = format!("the arena at {} {why}", self.path.display());
            return Err(Error::BadOption { option: "arena", why });
        }
        let about_of = |file: &File| About::of(file).map_err(|error| self.fail("fstat", error));
        let about = about_of(&self.file)?;
        // A child that was forked meanwhile has no locks, and finds nothing that is its parent's.
        let locks = self.lease.get().map_or(Ok(about.identity), |file| about_of(file).map(|about| about.identity))?;
        let has_directory = self.files.as_ref().is_some_and(|files| files.directory().is_some());
        let key = Key { identity: about.identity, locks, has_directory, is_writing: self.producer.is_some() };
        if let Some(shared) = known(key) {
            return Ok(Arena { shared });
        }
        let further = match &self.files {
            Some(_) => (1..arena::lease_files(geometry.regions())).map(|_| OnceBox::new()).collect(),
            None => Vec::new(),
        };
        let is_large = self.check_large()?;
        let area_bytes = if has_area(&geometry, about.bytes) { AREA_BYTES } else { 0 };
        let bytes = geometry.bytes() as usize + area_bytes;
        let map = Mapping::shared(&self.file, 0, bytes, key.is_writing);
        let map = Arc::new(map.map_err(|failure| Error::system(&self.path.join(arena::FILE), failure))?);
        if large_pages && !is_large {
            map.prefer_large_pages();
        }
        let Parts { name, path, files, file, lease, producer } = self;
        let directory = files.as_ref().and_then(Files::directory);
        let is_device = space::is_device(&file);
        let is_filled = AtomicBool::new(is_filled(directory) || is_device);
        let sharing = Sharing::of(&map, &geometry, directory, key.is_writing)?;
        let shared = Shared {
            name,
            path,
            files,
            file: file.into(),
            about,
            map,
            geometry,
            is_large,
            is_device,
            is_filled,
            lease,
            further,
            producer,
            holds: Mutex::default(),
            held_slots: AtomicUsize::new(0),
            produced: Mutex::default(),
            changes: Mutex::default(),
            search: Mutex::new(super::Search::new(&geometry)),
            sharing,
        };
        Ok(Arena { shared: remember(key, Arc::new(shared)) })
    }
}

impl Shared {
    /// The directory with its files; `None` if it was handed in, or comes from a broker.
    pub(super) fn directory(&self) -> Option<&Directory> {
        self.files.as_ref().and_then(Files::directory)
    }

    /// Opens a file with leases, which is open as `own`, once more, for a lock of its own.
    pub(super) fn reopen_leases(&self, number: u32, own: &File) -> Result<File> {
        let Some(files) = &self.files else {
            return folder::reopen(own, false).map_err(|error| Error::io("open", &self.path, error));
        };
        let identity = |file: &File| About::of(file).map(|about| about.identity).ok();
        let opened = files.kept(&arena::lease_file(number))?;
        // The name may be that of a later arena's file.
        opened.filter(|file| identity(file) == identity(own)).ok_or_else(|| {
            let dir = self.path.parent().unwrap_or(&self.path).into();
            Error::NoArena { arena: self.name.clone(), dir, half_made: false }
        })
    }

    /// An error of something in the arena that no healthy process writes.
    pub(super) fn not_expected(&self, at: usize, expected: impl ToString, found: impl ToString) -> Error {
        self.corrupt(Corrupt::new(arena::FILE, at, expected, found))
    }
}
