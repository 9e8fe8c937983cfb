//! From the planes into a file, past the kernel's cache where the file system allows that.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use stillframe::{Chunk, PAGE_BYTES};
use stillframe_kernel::disk;
use stillframe_kernel::witness::{self, Call};

/// Pieces that one system call writes (`IOV_MAX`).
const SLICES_MAX: usize = 1024;
/// Bytes that are put together at once, where pieces have to be: they are still in the cache when they are written.
const COALESCE_BYTES: usize = 1 << 20;
/// Fewest bytes of a file that are worth a way past the kernel's cache.
const DIRECT_MIN: usize = 1 << 16;

pub(crate) static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Writes pages.
pub(crate) struct PageWriter {
    /// Whether the file system takes pages past the cache, as far as is known.
    direct: AtomicBool,
}

impl PageWriter {
    pub fn new(direct: bool) -> PageWriter {
        PageWriter { direct: direct.into() }
    }

    /// Writes pieces, of which the first is at `start` of the variable, into a file that becomes `bytes` long, and returns
    /// how much was written. Pieces of zeros are left out: they read as zeros all the same. `memory` is for pieces that have
    /// to be put together.
    ///
    /// # Errors
    /// The call that failed, and how.
    pub fn write(
        &self,
        file: &mut File,
        pieces: &[Chunk],
        start: usize,
        bytes: usize,
        memory: &mut Vec<u8>,
    ) -> Result<u64, (&'static str, std::io::Error)> {
        let is_zeros = |bytes: &[u8]| bytes.chunks(ZEROS.len()).all(|part| part == &ZEROS[..part.len()]);
        let mut runs: Vec<(usize, Vec<&[u8]>)> = Vec::new();
        let mut end = 0;
        for piece in pieces.iter().filter(|piece| !is_zeros(piece.bytes)) {
            let at = piece.offset - start;
            match runs.last_mut() {
                Some((_, run)) if at == end => run.push(piece.bytes),
                _ => runs.push((at, vec![piece.bytes])),
            }
            end = at + piece.bytes.len();
        }
        // Arrays of the application's own do not begin where pages do. A copy in this thread's memory lets them past the cache,
        // which would have been a copy as well, and one that takes memory, and others to write it.
        let is_past = self.direct.load(Ordering::Relaxed) && end >= DIRECT_MIN;
        let mut written = 0;
        if is_past && !runs.iter().all(|(at, run)| is_direct(*at, run)) {
            for at in (0..end).step_by(COALESCE_BYTES) {
                let block = start + at..start + end.min(at + COALESCE_BYTES);
                written += self.write_run(file, at, &[coalesce(memory, pieces, block)])?;
            }
        } else {
            for (at, run) in &runs {
                written += self.write_run(file, *at, run)?;
            }
        }
        if end < bytes {
            file.set_len(bytes as u64).map_err(|error| ("ftruncate", error))?;
        }
        Ok(written)
    }

    /// Writes slices that follow each other to `at` of a file, and returns how much that was.
    fn write_run(&self, file: &mut File, at: usize, run: &[&[u8]]) -> Result<u64, (&'static str, std::io::Error)> {
        file.seek(SeekFrom::Start(at as u64)).map_err(|error| ("lseek", error))?;
        let direct_bytes = if self.direct.load(Ordering::Relaxed) { direct_bytes(at, run) } else { 0 };
        let (head, tail) = split(run, direct_bytes);
        if direct_bytes > 0 {
            self.write_direct(file, &head).map_err(|error| ("write", error))?;
        }
        write_all(file, &tail).map_err(|error| ("write", error))?;
        Ok(length(run) as u64)
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

/// So many bytes of `memory` that begin where a page does.
pub(crate) fn aligned(memory: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    memory.resize(bytes + PAGE_BYTES, 0);
    let skip = memory.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
    &mut memory[skip..skip + bytes]
}

/// These bytes of the variable in one piece that begins where a page does, put together in `memory`.
fn coalesce<'a>(memory: &'a mut Vec<u8>, pieces: &[Chunk], range: Range<usize>) -> &'a [u8] {
    let whole = aligned(memory, range.len());
    for piece in pieces {
        let (from, to) = (piece.offset.max(range.start), (piece.offset + piece.bytes.len()).min(range.end));
        if from < to {
            whole[from - range.start..to - range.start]
                .copy_from_slice(&piece.bytes[from - piece.offset..to - piece.offset]);
        }
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
pub(crate) fn write_all(file: &mut File, slices: &[&[u8]]) -> std::io::Result<()> {
    witness::call(Call::Write(file), || write_each(file, slices))
}

fn write_each(mut file: &File, slices: &[&[u8]]) -> std::io::Result<()> {
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
