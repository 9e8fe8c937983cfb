//! The chunks of a checkpoint: written by several threads at once, or linked to those of the checkpoint before.

use crate::base::{Base, StoredChunk};
use crate::codec;
use crate::digest::{Digest, Digester, Digests};
use crate::layout::Grid;
use crate::manifest::Variable;
use crate::pages::{PageWriter, ZEROS, aligned, write_all};
use crate::partial::Partial;
use crate::read_back::ReadBack;
use crate::{Codec, Error, Result};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use stillframe::{Chunk, Snapshot};
use stillframe_kernel::folder::Access;
use stillframe_kernel::{points, thread};

/// A variable that is saved: where its bytes are, and how they are cut.
pub(crate) struct Subject<'a> {
    pub snapshot: &'a Snapshot,
    pub variable: Variable,
    pub grid: Grid,
}

/// Stores the chunks of a checkpoint.
pub(crate) struct ChunkWriter<'a> {
    partial: &'a Partial<'a>,
    codec: Codec,
    pages: PageWriter,
    read_back: &'a ReadBack,
}

impl<'a> ChunkWriter<'a> {
    pub fn new(partial: &'a Partial<'a>, codec: Codec, read_back: &'a ReadBack) -> ChunkWriter<'a> {
        ChunkWriter { partial, codec, pages: PageWriter::new(partial.takes_direct()), read_back }
    }

    /// Writes or links all chunks, and returns what they are, each subject's in order. `go_on` is asked before each and
    /// told how many bytes of the variables are done.
    pub fn store(
        &self,
        subjects: &[Subject],
        base: Option<&Base>,
        threads: usize,
        go_on: &(dyn Fn(u64) -> Result<()> + Sync),
    ) -> Result<Vec<Vec<StoredChunk>>> {
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
        let stored: Mutex<Vec<(usize, StoredChunk)>> = Mutex::new(Vec::with_capacity(tasks));
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
        thread::together("checkpoint", threads.min(tasks), &work);
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
        base: Option<(&Base, &[StoredChunk])>,
        scratch: &mut Scratch,
    ) -> Result<StoredChunk> {
        let Subject { snapshot, variable, grid } = subject;
        let range = grid.range(index);
        let bytes = grid.chunk_bytes();
        let pieces = pieces(snapshot, &variable.name, range.clone(), &mut scratch.copy)?;
        let content = digest(&pieces, bytes);
        let file = variable.chunk_path(grid, index);
        let path = self.partial.path().join(&file);
        let mut has_changed = false;
        let mut link = |stored: StoredChunk| {
            let (base, _) = base.filter(|_| !has_changed)?;
            let (folder, name) = self.partial.place(&file).ok()?;
            if !base.link(&file, stored.bytes, (folder.clone(), name), self.partial.sharing()) {
                return None;
            }
            let Some(stored) = self.read_back.look(&file, stored, || folder.file(name, Access::Read)) else {
                let _ = folder.remove_file(name);
                has_changed = true;
                return None;
            };
            self.partial.add_linked(stored.bytes);
            points::hit("save.linked");
            Some(stored)
        };
        let before = base.and_then(|(_, chunks)| chunks.get(index)).copied();
        if let Some(stored) = before.filter(|stored| stored.content == Some(content)).and_then(&mut link) {
            return Ok(stored);
        }
        let round = self.read_back.round();
        if self.codec == Codec::Plain {
            let mut opened = self.partial.create(&file)?;
            let written = self.pages.write(&mut opened, &pieces, range.start, bytes, &mut scratch.chunk);
            let written = written.map_err(|(call, error)| self.partial.fail(call, &path, error))?;
            self.partial.finish(&path, &opened)?;
            self.partial.add_written(written);
            points::hit("save.chunk");
            return Ok(StoredChunk { digest: content, content: Some(content), bytes: bytes as u64, round });
        }
        let whole = whole(&mut scratch.chunk, &pieces, range.start, bytes);
        let encoded = codec::encode(self.codec, variable.dtype.bytes(), whole, &mut scratch.encoded);
        encoded.map_err(|why| self.partial.fail("compress", &path, std::io::Error::other(why)))?;
        let encoded = &scratch.encoded;
        let stored =
            StoredChunk { digest: Digest::of(encoded), content: Some(content), bytes: encoded.len() as u64, round };
        let same = before.filter(|before| before.digest == stored.digest);
        if let Some(linked) = same.and_then(|before| link(StoredChunk { round: before.round, ..stored })) {
            return Ok(linked);
        }
        let mut opened = self.partial.create(&file)?;
        let written = write_all(&mut opened, &[encoded]);
        written.map_err(|error| self.partial.fail("write", &path, error))?;
        self.partial.finish(&path, &opened)?;
        self.partial.add_written(stored.bytes);
        points::hit("save.chunk");
        Ok(stored)
    }
}

/// The checksums of all chunks, by their files.
pub(crate) fn digests(subjects: &[Subject], stored: &[Vec<StoredChunk>]) -> Digests {
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
    /// Of chunks that are not read where they lie.
    copy: Vec<u8>,
    encoded: Vec<u8>,
}

/// The pieces of a chunk where they lie, or a copy of it in `memory` if they are another user's: he could cut the files short
/// while they are seen, and end this process.
fn pieces<'a>(
    snapshot: &'a Snapshot,
    name: &str,
    range: Range<usize>,
    memory: &'a mut Vec<u8>,
) -> stillframe::Result<Vec<Chunk<'a>>> {
    if !snapshot.is_foreign() {
        return Ok(snapshot.chunks_in(name, range)?.collect());
    }
    let bytes = aligned(memory, range.len());
    snapshot.read(name, range.start, bytes)?;
    Ok(vec![Chunk { offset: range.start, bytes }])
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
