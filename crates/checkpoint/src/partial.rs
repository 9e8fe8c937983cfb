//! A checkpoint while it is written, aside from the others.
//!
//! Chunks are checked against the checkpoint before by their checksums. A snapshot of that version would tell more cheaply
//! which pages changed, but to keep one means that its producer keeps the memory of all that changed since; and its tables
//! alone would prove nothing, because slots that were let go are used again.

use crate::codec;
use crate::digest::{Digest, Digester, Digests};
use crate::directory::sync_dir;
use crate::layout::Grid;
use crate::manifest::{CodecName, Variable};
use crate::{Checkpoint, Codec, Error, Result};
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{ErrorKind, IoSlice, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use stillframe::{Chunk, PAGE_BYTES, Snapshot};
use stillframe_kernel::disk::{self, FileSystem};
use stillframe_kernel::{Failure, points, space};

/// Pieces that one system call writes (`IOV_MAX`).
const SLICES_MAX: usize = 1024;
/// Fewest bytes of a file that are worth a way past the kernel's cache.
const DIRECT_MIN: usize = 1 << 16;
/// Files are for reading only, because several checkpoints may share them.
const FILE_MODE: u32 = 0o444;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// A chunk in its file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    /// The checksum of the file.
    digest: Digest,
    /// The checksum of what it unpacks to, if that is known.
    content: Option<Digest>,
    /// Bytes of the file.
    bytes: u64,
}

/// A checkpoint that unchanged chunks can be shared with.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) version: u64,
    /// The directory itself, whatever its name becomes meanwhile.
    dir: File,
    variables: HashMap<String, (Variable, Vec<Stored>)>,
}

impl Base {
    /// A checkpoint of which no more is known than its files say.
    pub(crate) fn of(checkpoint: &Checkpoint) -> Result<Base> {
        let (path, digests) = (checkpoint.path(), checkpoint.digests()?);
        let mut variables = HashMap::new();
        for (variable, grid) in checkpoint.manifest().variables.iter().zip(checkpoint.grids()) {
            let plain = variable.codec == CodecName::Bytes;
            let chunk = |index| {
                let file = variable.chunk_path(grid, index);
                let digest = digests.get(&file).copied()?;
                let bytes = if plain { grid.chunk_bytes() as u64 } else { fs::metadata(path.join(file)).ok()?.len() };
                Some(Stored { digest, content: plain.then_some(digest), bytes })
            };
            if let Some(chunks) = (0..grid.chunks()).map(chunk).collect() {
                variables.insert(variable.path.clone(), (variable.clone(), chunks));
            }
        }
        let dir = File::open(path).map_err(|error| Error::io("open", path, error))?;
        Ok(Base { version: checkpoint.version(), dir, variables })
    }

    /// The chunks of a variable, if it was cut and stored alike.
    fn chunks(&self, like: &Variable) -> Option<&[Stored]> {
        let (variable, chunks) = self.variables.get(&like.path)?;
        let alike = variable.shape == like.shape
            && variable.chunk_shape == like.chunk_shape
            && variable.order == like.order
            && variable.dtype == like.dtype
            && variable.codec == like.codec;
        alike.then_some(chunks)
    }

    /// Makes a file of the checkpoint visible at `to` too, if it still has the size it had.
    fn link(&self, file: &str, bytes: u64, to: &Path) -> bool {
        let from = PathBuf::from(format!("/proc/self/fd/{}/{file}", self.dir.as_raw_fd()));
        if fs::hard_link(from, to).is_err() {
            return false;
        }
        let whole = fs::metadata(to).is_ok_and(|data| data.len() == bytes);
        if !whole {
            let _ = fs::remove_file(to);
        }
        whole
    }
}

/// A variable that is saved: where its bytes are, and how they are cut.
pub(crate) struct Subject<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) variable: Variable,
    pub(crate) grid: Grid,
}

/// What was done.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sums {
    pub(crate) written_bytes: u64,
    pub(crate) linked_bytes: u64,
}

/// A checkpoint while it is written.
pub(crate) struct Partial<'a> {
    store: &'a Path,
    path: PathBuf,
    version: u64,
    codec: Codec,
    /// Bytes of all variables.
    bytes: u64,
    /// The store's directory, opened before anything was written, if the file system is synced as a whole.
    whole: Option<File>,
    direct: AtomicBool,
    written_bytes: AtomicU64,
    linked_bytes: AtomicU64,
}

impl<'a> Partial<'a> {
    /// Begins a checkpoint in a directory of its own.
    pub(crate) fn begin(store: &'a Path, version: u64, codec: Codec, bytes: u64) -> Result<Partial<'a>> {
        let path = store.join(crate::layout::partial_dir(version));
        let dir = File::open(store).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::Vanished { dir: store.into(), version },
            _ => Error::io("open", store, error),
        })?;
        let kind = disk::file_system(&dir).unwrap_or(FileSystem::Other(0));
        // Elsewhere, over a network say, neither is known to mean what it means on a disk of this machine.
        let local = matches!(kind, FileSystem::Ext | FileSystem::Xfs | FileSystem::Btrfs | FileSystem::Tmpfs);
        let direct = matches!(kind, FileSystem::Ext | FileSystem::Xfs);
        let partial = Partial {
            store,
            path,
            version,
            codec,
            bytes,
            whole: (local && disk::reports_lost_writes()).then_some(dir),
            direct: direct.into(),
            written_bytes: 0.into(),
            linked_bytes: 0.into(),
        };
        crate::directory::remove_tree(&partial.path)?;
        fs::create_dir(&partial.path).map_err(|error| partial.fail("mkdir", &partial.path, error))?;
        points::hit("save.begun");
        Ok(partial)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn sums(&self) -> Sums {
        Sums {
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            linked_bytes: self.linked_bytes.load(Ordering::Relaxed),
        }
    }

    /// The error of a call about a file of the checkpoint.
    pub(crate) fn fail(&self, call: &'static str, path: &Path, source: std::io::Error) -> Error {
        let (dir, version) = (self.store.to_path_buf(), self.version);
        match source.raw_os_error().unwrap_or(0) {
            libc::ENOSPC | libc::EDQUOT => {
                let free_bytes = File::open(&dir).ok().and_then(|dir| space::free_bytes(&dir).ok()).unwrap_or(0);
                let needed_bytes = self.bytes.saturating_sub(self.sums().linked_bytes + self.sums().written_bytes);
                Error::NoSpace { dir, version, needed_bytes, free_bytes }
            }
            libc::ENOENT | libc::ENOTDIR | libc::ESTALE => Error::Vanished { dir, version },
            libc::EIO => {
                let failure = Failure { call, detail: path.display().to_string(), source };
                Error::NotSynced { dir, version, failure }
            }
            _ => Error::io(call, path, source),
        }
    }

    /// Makes the directories of all ranks, if there are any, and of all chunks.
    pub(crate) fn make_dirs(&self, ranks: Option<u32>, subjects: &[Subject]) -> Result<()> {
        let mut made = BTreeSet::new();
        for rank in 0..ranks.unwrap_or(0) {
            self.make_dir(&mut made, &rank.to_string())?;
        }
        for subject in subjects {
            self.make_dir(&mut made, &subject.variable.path)?;
            for index in 0..subject.grid.chunks() {
                let chunk = subject.variable.chunk_path(&subject.grid, index);
                self.make_dir(&mut made, chunk.rsplit_once('/').map_or("", |(dir, _)| dir))?;
            }
        }
        Ok(())
    }

    /// Makes a directory in the checkpoint, and those it is in. The checkpoint's own is not made again if somebody took it.
    fn make_dir(&self, made: &mut BTreeSet<String>, name: &str) -> Result<()> {
        if made.contains(name) {
            return Ok(());
        }
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.make_dir(made, parent)?;
        }
        let path = self.path.join(name);
        fs::create_dir(&path).map_err(|error| self.fail("mkdir", &path, error))?;
        made.insert(name.into());
        Ok(())
    }

    /// Writes a file that is not a chunk.
    pub(crate) fn put(&self, name: &str, text: &[u8]) -> Result<Digest> {
        let path = self.path.join(name);
        let mut file = self.create(&path)?;
        file.write_all(text).map_err(|error| self.fail("write", &path, error))?;
        self.finish(&path, &file)?;
        self.written_bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
        Ok(Digest::of(text))
    }

    fn create(&self, path: &Path) -> Result<File> {
        let opened = File::options().write(true).create_new(true).mode(FILE_MODE).open(path);
        opened.map_err(|error| self.fail("open", path, error))
    }

    /// Brings a file on its way to disk.
    fn finish(&self, path: &Path, file: &File) -> Result<()> {
        if self.whole.is_some() {
            disk::begin_writeback(file);
            return Ok(());
        }
        file.sync_all().map_err(|error| self.fail("fsync", path, error))
    }

    /// Writes or links all chunks, and returns what they are, each subject's in order. `go_on` is asked before each and
    /// told how many bytes of the variables are done.
    pub(crate) fn store(
        &self,
        subjects: &[Subject],
        base: Option<&Base>,
        threads: usize,
        go_on: &(dyn Fn(u64) -> Result<()> + Sync),
    ) -> Result<Vec<Vec<Stored>>> {
        let tasks: usize = subjects.iter().map(|subject| subject.grid.chunks()).sum();
        // The first task of each subject.
        let mut firsts = Vec::with_capacity(subjects.len());
        let mut count = 0;
        for subject in subjects {
            firsts.push(count);
            count += subject.grid.chunks();
        }
        let bases: Vec<_> = subjects.iter().map(|subject| Some((base?, base?.chunks(&subject.variable)?))).collect();
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        let stored: Mutex<Vec<(usize, Stored)>> = Mutex::new(Vec::with_capacity(tasks));
        let work = || {
            let mut scratch = Scratch::default();
            let mut own = Vec::new();
            let result = loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    break Ok(());
                }
                // Subjects without chunks begin where the next one does, which is the one that has the task.
                let at = firsts.partition_point(|first| *first <= task) - 1;
                let subject = &subjects[at];
                let result = go_on(done.load(Ordering::Relaxed))
                    .and_then(|()| self.store_chunk(subject, task - firsts[at], bases[at], &mut scratch));
                match result {
                    Ok(chunk) => own.push((task, chunk)),
                    Err(error) => break Err(error),
                }
                done.fetch_add(subject.grid.range(task - firsts[at]).len() as u64, Ordering::Relaxed);
            };
            if let Err(error) = result {
                // The others find nothing left to do.
                next.store(tasks, Ordering::Relaxed);
                failure.lock().unwrap_or_else(|poison| poison.into_inner()).get_or_insert(error);
            }
            stored.lock().unwrap_or_else(|poison| poison.into_inner()).append(&mut own);
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(tasks) {
                // A thread that cannot be had is one less.
                let _ = std::thread::Builder::new().name("checkpoint".into()).spawn_scoped(scope, work);
            }
            work();
        });
        if let Some(error) = failure.into_inner().unwrap_or_else(|poison| poison.into_inner()) {
            return Err(error);
        }
        let mut stored = stored.into_inner().unwrap_or_else(|poison| poison.into_inner());
        stored.sort_unstable_by_key(|(task, _)| *task);
        let mut chunks = stored.into_iter().map(|(_, chunk)| chunk);
        Ok(subjects.iter().map(|subject| chunks.by_ref().take(subject.grid.chunks()).collect()).collect())
    }

    fn store_chunk(
        &self,
        subject: &Subject,
        index: usize,
        base: Option<(&Base, &[Stored])>,
        scratch: &mut Scratch,
    ) -> Result<Stored> {
        let Subject { snapshot, variable, grid } = subject;
        let range = grid.range(index);
        let bytes = grid.chunk_bytes();
        let pieces: Vec<Chunk> = snapshot.chunks_in(&variable.name, range.clone())?.collect();
        let content = digest(&pieces, bytes);
        let file = variable.chunk_path(grid, index);
        let path = self.path.join(&file);
        let link = |stored: &Stored| {
            let linked = base.is_some_and(|(base, _)| base.link(&file, stored.bytes, &path));
            if linked {
                self.linked_bytes.fetch_add(stored.bytes, Ordering::Relaxed);
                points::hit("save.linked");
            }
            linked
        };
        let before = base.and_then(|(_, chunks)| chunks.get(index)).copied();
        if let Some(stored) = before.filter(|stored| stored.content == Some(content) && link(stored)) {
            return Ok(stored);
        }
        if self.codec == Codec::Plain {
            let mut opened = self.create(&path)?;
            let written = self.write_pieces(&path, &mut opened, &pieces, range.start, bytes, &mut scratch.chunk)?;
            self.finish(&path, &opened)?;
            self.written_bytes.fetch_add(written, Ordering::Relaxed);
            points::hit("save.chunk");
            return Ok(Stored { digest: content, content: Some(content), bytes: bytes as u64 });
        }
        let whole = whole(&mut scratch.chunk, &pieces, range.start, bytes);
        let encoded = codec::encode(self.codec, variable.dtype.bytes(), whole, &mut scratch.encoded);
        encoded.map_err(|why| self.fail("compress", &path, std::io::Error::other(why)))?;
        let encoded = &scratch.encoded;
        let stored = Stored { digest: Digest::of(encoded), content: Some(content), bytes: encoded.len() as u64 };
        if before.is_some_and(|before| before.digest == stored.digest) && link(&stored) {
            return Ok(stored);
        }
        let mut opened = self.create(&path)?;
        opened.write_all(encoded).map_err(|error| self.fail("write", &path, error))?;
        self.finish(&path, &opened)?;
        self.written_bytes.fetch_add(stored.bytes, Ordering::Relaxed);
        points::hit("save.chunk");
        Ok(stored)
    }

    /// Writes pieces, of which the first is at `start` of the variable, into a file that becomes `bytes` long, and returns
    /// how much was written. Pieces of zeros are left out: they read as zeros all the same.
    fn write_pieces(
        &self,
        path: &Path,
        file: &mut File,
        pieces: &[Chunk],
        start: usize,
        bytes: usize,
        memory: &mut Vec<u8>,
    ) -> Result<u64> {
        let fail = |call, error| self.fail(call, path, error);
        let is_zeros = |bytes: &[u8]| bytes.chunks(ZEROS.len()).all(|part| part == &ZEROS[..part.len()]);
        let mut runs: Vec<(usize, Vec<&[u8]>)> = Vec::new();
        for piece in pieces.iter().filter(|piece| !is_zeros(piece.bytes)) {
            let at = piece.offset - start;
            match runs.last_mut() {
                Some((from, run)) if *from + length(run) == at => run.push(piece.bytes),
                _ => runs.push((at, vec![piece.bytes])),
            }
        }
        let end = runs.last().map_or(0, |(at, run)| at + length(run));
        // Arrays of the application's own do not begin where pages do. A copy in this thread's memory lets them past the cache,
        // which would have been a copy as well, and one that takes memory, and others to write it.
        if end >= DIRECT_MIN && self.direct.load(Ordering::Relaxed) && !runs.iter().all(|(at, run)| is_direct(*at, run))
        {
            runs = vec![(0, vec![gather(memory, pieces, start, end)])];
        }
        let mut written = 0;
        for (at, run) in &runs {
            file.seek(SeekFrom::Start(*at as u64)).map_err(|error| fail("lseek", error))?;
            let all = length(run);
            let direct_bytes = if self.direct.load(Ordering::Relaxed) { direct_bytes(*at, run) } else { 0 };
            let (head, tail) = split(run, direct_bytes);
            if direct_bytes > 0 {
                self.write_direct(file, &head).map_err(|error| fail("write", error))?;
            }
            write_all(file, &tail).map_err(|error| fail("write", error))?;
            written += all as u64;
        }
        if end < bytes {
            file.set_len(bytes as u64).map_err(|error| fail("ftruncate", error))?;
        }
        Ok(written)
    }

    /// Writes whole pages past the cache, which costs the processors the simulation runs on a quarter of the time. What
    /// cannot be written so is written through the cache.
    fn write_direct(&self, file: &mut File, slices: &[&[u8]]) -> std::io::Result<()> {
        let begin = file.stream_position()?;
        let direct = disk::set_direct(file, true).map_err(|failure| failure.source);
        match direct.and_then(|()| write_all(file, slices)) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.direct.store(false, Ordering::Relaxed);
                let _ = disk::set_direct(file, false);
                file.seek(SeekFrom::Start(begin))?;
                write_all(file, slices)
            }
            Err(error) => Err(error),
            Ok(()) => disk::set_direct(file, false).map_err(|failure| failure.source),
        }
    }

    /// Brings all of it to disk.
    pub(crate) fn sync(&self) -> Result<()> {
        let Some(dir) = &self.whole else { return self.sync_tree(&self.path, false) };
        match disk::sync_file_system(dir) {
            Ok(()) => Ok(()),
            // It may have been anybody's write that was lost; each file knows of its own.
            Err(_) => self.sync_tree(&self.path, true),
        }
    }

    /// Brings a directory to disk with those in it, and their files if they were not when they were written.
    fn sync_tree(&self, dir: &Path, files: bool) -> Result<()> {
        let fail = |call, path: &Path, error| self.fail(call, path, error);
        for entry in fs::read_dir(dir).map_err(|error| fail("readdir", dir, error))? {
            let entry = entry.map_err(|error| fail("readdir", dir, error))?;
            let path = entry.path();
            if entry.file_type().map_err(|error| fail("stat", &path, error))?.is_dir() {
                self.sync_tree(&path, files)?;
            } else if files {
                let synced = File::open(&path).and_then(|file| file.sync_all());
                synced.map_err(|error| fail("fsync", &path, error))?;
            }
        }
        sync_dir(dir).map_err(|error| fail("fsync", dir, error))
    }

    /// What the next checkpoint can share chunks with, once this one is at `path`.
    pub(crate) fn into_base(self, path: &Path, subjects: Vec<Subject>, stored: Vec<Vec<Stored>>) -> Option<Base> {
        let variables = subjects.into_iter().zip(stored);
        let variables =
            variables.map(|(subject, chunks)| (subject.variable.path.clone(), (subject.variable, chunks))).collect();
        Some(Base { version: self.version, dir: File::open(path).ok()?, variables })
    }
}

/// The checksums of all chunks, by their files.
pub(crate) fn digests(subjects: &[Subject], stored: &[Vec<Stored>]) -> Digests {
    let mut digests = Digests::new();
    for (subject, chunks) in subjects.iter().zip(stored) {
        for (index, chunk) in chunks.iter().enumerate() {
            digests.insert(subject.variable.chunk_path(&subject.grid, index), chunk.digest);
        }
    }
    digests
}

/// Memory of a thread, for chunks that cannot be written from where they lie.
#[derive(Default)]
struct Scratch {
    chunk: Vec<u8>,
    encoded: Vec<u8>,
}

/// A chunk in one piece, filled up with zeros: what codecs take. It is put together in `memory` if it is not one already.
fn whole<'a>(memory: &'a mut Vec<u8>, pieces: &[Chunk<'a>], start: usize, bytes: usize) -> &'a [u8] {
    if let [piece] = pieces
        && piece.bytes.len() == bytes
    {
        return piece.bytes;
    }
    memory.clear();
    memory.resize(bytes, 0);
    for piece in pieces {
        let at = piece.offset - start;
        memory[at..at + piece.bytes.len()].copy_from_slice(piece.bytes);
    }
    memory
}

/// The checksum of pieces that follow each other, and of zeros up to `bytes`.
fn digest(pieces: &[Chunk], bytes: usize) -> Digest {
    if let [piece] = pieces
        && piece.bytes.len() == bytes
    {
        return Digest::of(piece.bytes);
    }
    let mut digester = Digester::new();
    pieces.iter().for_each(|piece| digester.update(piece.bytes));
    let mut rest = bytes - pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>();
    while rest > 0 {
        let some = rest.min(ZEROS.len());
        digester.update(&ZEROS[..some]);
        rest -= some;
    }
    digester.finish()
}

fn length(slices: &[&[u8]]) -> usize {
    slices.iter().map(|slice| slice.len()).sum()
}

/// Whether a run, which goes to `at` in its file, lies where pages do, so that all but what follows its last whole page can
/// be written past the cache.
fn is_direct(at: usize, run: &[&[u8]]) -> bool {
    let is_page = |number: usize| number.is_multiple_of(PAGE_BYTES);
    let inner = run.split_last().map_or(run, |(_, inner)| inner);
    is_page(at)
        && run.iter().all(|slice| is_page(slice.as_ptr() as usize))
        && inner.iter().all(|slice| is_page(slice.len()))
}

/// How many bytes of a run are written past the cache: whole pages, and not so few that it is not worth it.
fn direct_bytes(at: usize, run: &[&[u8]]) -> usize {
    let whole = length(run) / PAGE_BYTES * PAGE_BYTES;
    if whole < DIRECT_MIN || !is_direct(at, run) { 0 } else { whole }
}

/// The first `bytes` of a chunk in one piece that begins where a page does, put together in `memory`.
fn gather<'a>(memory: &'a mut Vec<u8>, pieces: &[Chunk], start: usize, bytes: usize) -> &'a [u8] {
    memory.resize(bytes + PAGE_BYTES, 0);
    let skip = memory.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
    let whole = &mut memory[skip..skip + bytes];
    for piece in pieces.iter().filter(|piece| piece.offset - start < bytes) {
        let at = piece.offset - start;
        let end = (at + piece.bytes.len()).min(bytes);
        whole[at..end].copy_from_slice(&piece.bytes[..end - at]);
    }
    whole
}

/// The first `bytes` of a run, and the rest.
fn split<'a>(run: &[&'a [u8]], bytes: usize) -> (Vec<&'a [u8]>, Vec<&'a [u8]>) {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let mut left = bytes;
    for slice in run {
        let (first, second) = slice.split_at(left.min(slice.len()));
        left -= first.len();
        head.extend(Some(first).filter(|first| !first.is_empty()));
        tail.extend(Some(second).filter(|second| !second.is_empty()));
    }
    (head, tail)
}

/// Writes all slices where the file is at.
fn write_all(file: &mut File, slices: &[&[u8]]) -> std::io::Result<()> {
    for some in slices.chunks(SLICES_MAX) {
        let mut buffers: Vec<IoSlice> = some.iter().map(|slice| IoSlice::new(slice)).collect();
        let mut left = &mut buffers[..];
        while !left.is_empty() {
            match file.write_vectored(left) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => IoSlice::advance_slices(&mut left, bytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
