//! Files as source or destination: windows of them are staged in memory of bounded size. They are not mapped, because a
//! file that another process shortens has to be an error and not a signal.

use std::{
    io,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
};

use super::{
    ExecuteError, Executor, FileRange, Source,
    memory::{Readable, Writable, run_divided},
};
use crate::clip::parts;
use crate::transfer::{Axes, Axis, Schedule, Side, Transfer, span};

/// Bytes that are rather read than skipped: about what a call costs.
const GAP_BYTES: u64 = 16 << 10;

/// Everything into memory.
pub(super) fn into_memory(
    executor: &Executor,
    transfers: &[(&Transfer, Source<'_>)],
    destination: &mut [u8],
) -> Result<(), ExecuteError> {
    let mut staging = Staging::new(executor.staging_bytes);
    for (transfer, source) in transfers {
        match source {
            Source::Memory(bytes) => executor.run(transfer, bytes, destination)?,
            Source::File(range) => staging.read(transfer.schedule(), range, executor.threads(), destination)?,
        }
    }
    Ok(())
}

/// Everything into a file, window by window.
pub(super) fn into_file(
    executor: &Executor,
    transfers: &[(&Transfer, Source<'_>)],
    destination: FileRange<'_>,
    watch: &mut dyn FnMut(u64),
) -> Result<(), ExecuteError> {
    let half_bytes = executor.staging_bytes / 2;
    let mut staging = Staging::new(half_bytes);
    let mut block = zeroed(half_bytes)?;
    let mut written = Coverage::new(half_bytes)?;
    let all = || transfers.iter().flat_map(|(transfer, _)| transfer.schedule().extents(Side::Destination));
    let mut begin = 0;
    while let Some(window) = next_window(all(), begin, half_bytes as u64) {
        for (transfer, source) in transfers {
            let parts = parts(transfer.schedule(), Side::Destination, &window);
            parts.moves().iter().for_each(|part| written.add(part.to, part.run_bytes, &part.axes));
            parts.conversions().iter().for_each(|part| written.add(part.to, part.written_bytes(), &part.axes));
            match source {
                Source::Memory(bytes) => {
                    let work = [(&parts, Readable::new(bytes))];
                    run_divided(executor.threads(), &work, Writable::new(&mut block))?;
                }
                Source::File(range) => staging.read(&parts, range, executor.threads(), &mut block)?,
            }
        }
        written.take(|range| {
            let offset = window.start + range.start as u64;
            destination.write(offset, &block[range])
        })?;
        begin = window.end;
        watch(begin);
    }
    Ok(())
}

/// Refuses a destination that is the file of a source and reaches into what is read of it.
pub(super) fn check_apart(
    transfers: &[(&Transfer, Source<'_>)],
    destination: &FileRange<'_>,
) -> Result<(), ExecuteError> {
    let touched = |extents: &mut dyn Iterator<Item = (u64, u64)>, range: &FileRange<'_>| {
        let bytes = next_window(extents, 0, u64::MAX).unwrap_or(0..0);
        range.offset + bytes.start..range.offset + bytes.end
    };
    let all = &mut transfers.iter().flat_map(|(transfer, _)| transfer.schedule().extents(Side::Destination));
    let written = touched(all, destination);
    let file = destination.identity()?;
    for (transfer, source) in transfers {
        let Source::File(source) = source else { continue };
        let read = touched(&mut transfer.schedule().extents(Side::Source), source);
        let (begin, end) = (read.start.max(written.start), read.end.min(written.end));
        if begin < end && source.identity()? == file {
            return Err(ExecuteError::SameFile { path: destination.path.to_path_buf(), begin, end });
        }
    }
    Ok(())
}

/// The window of at most `bytes` bytes from where something lies at or after `begin`.
fn next_window(extents: impl Iterator<Item = (u64, u64)>, begin: u64, bytes: u64) -> Option<Range<u64>> {
    let extents = extents.filter(|(_, end)| *end > begin);
    let (first, last) = extents.fold((u64::MAX, 0), |(first, last), extent| (first.min(extent.0), last.max(extent.1)));
    let first = first.max(begin);
    (first < last).then(|| first..last.min(first.saturating_add(bytes)))
}

/// So many bytes a number may have behind the window of the source in which it begins, and more.
const NUMBER_BYTES: usize = 8;

/// Memory for windows of sources.
struct Staging {
    /// Those of a window.
    bytes: usize,
    /// With what numbers need that begin in a window.
    block: Vec<u8>,
}

impl Staging {
    fn new(bytes: usize) -> Staging {
        Staging { bytes, block: Vec::new() }
    }

    /// Executes moves and conversions from a file.
    fn read(
        &mut self,
        all: &Schedule,
        source: &FileRange<'_>,
        threads: usize,
        destination: &mut [u8],
    ) -> Result<(), ExecuteError> {
        if self.block.is_empty() {
            self.block = zeroed(self.bytes + NUMBER_BYTES)?;
        }
        let mut begin = 0;
        let mut needed = Vec::new();
        while let Some(window) = next_window(all.extents(Side::Source), begin, self.bytes as u64) {
            let parts = parts(all, Side::Source, &window);
            needed.clear();
            for part in parts.moves() {
                collect_spans(part.from, part.run_bytes, &part.axes, &mut needed);
            }
            for part in parts.conversions() {
                collect_spans(part.from, part.source.float.size_bytes(), &part.axes, &mut needed);
            }
            needed.sort_unstable();
            let mut spans = needed.iter().copied().peekable();
            while let Some((first, mut end)) = spans.next() {
                while let Some((_, next_end)) = spans.next_if(|(next, _)| *next <= end + GAP_BYTES) {
                    end = end.max(next_end);
                }
                source.read(window.start + first, &mut self.block[first as usize..end as usize])?;
            }
            let work = [(&parts, Readable::new(&self.block))];
            run_divided(threads, &work, Writable::new(destination))?;
            begin = window.end;
        }
        Ok(())
    }
}

/// The bytes of the source at which blocks lie along axes, as spans with what is cheaper to read than to skip.
fn collect_spans(from: u64, block_bytes: u64, axes: &Axes, spans: &mut Vec<(u64, u64)>) {
    let mut axes = axes.clone();
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.from_bytes.unsigned_abs()));
    // Axes before this one leave gaps that are worth skipping.
    let sparse = (0..axes.len())
        .rev()
        .find(|at| {
            let (below, above) = span(&axes[at + 1..], Side::Source);
            let inner_bytes = (above - below) as u64 + block_bytes;
            axes[*at].from_bytes.unsigned_abs() > inner_bytes + GAP_BYTES
        })
        .map_or(0, |at| at + 1);
    let (below, above) = span(&axes[sparse..], Side::Source);
    let mut index = vec![0u64; sparse];
    loop {
        let first = axes.iter().zip(&index).fold(from as i64, |at, (axis, i)| at + axis.from_bytes * *i as i64);
        spans.push(((first + below) as u64, (first + above) as u64 + block_bytes));
        let Some(at) = (0..sparse).rev().find(|at| index[*at] + 1 < axes[*at].count) else { return };
        index[at] += 1;
        index[at + 1..].fill(0);
    }
}

/// Which bytes of a window are to be written: a bit for each.
struct Coverage {
    words: Vec<u64>,
}

impl Coverage {
    fn new(bytes: usize) -> Result<Coverage, ExecuteError> {
        let mut words = Vec::new();
        let count = bytes.div_ceil(64);
        words.try_reserve_exact(count).map_err(|_| ExecuteError::Staging { bytes: count * 8 })?;
        words.resize(count, 0);
        Ok(Coverage { words })
    }

    /// Adds blocks of bytes along axes.
    fn add(&mut self, to: u64, mut block_bytes: u64, mut axes: &[Axis]) {
        // Numbers that are converted lie back to back as well as moved ones, whose runs say so.
        while let Some((inner, outer)) = axes.split_last()
            && inner.to_bytes as u64 == block_bytes
        {
            (block_bytes, axes) = (block_bytes * inner.count, outer);
        }
        let mut index = vec![0u64; axes.len()];
        loop {
            let begin = axes.iter().zip(&index).fold(to, |at, (axis, i)| at + axis.to_bytes as u64 * i);
            self.add_run(begin as usize, (begin + block_bytes) as usize);
            let Some(at) = (0..index.len()).rev().find(|at| index[*at] + 1 < axes[*at].count) else { return };
            index[at] += 1;
            index[at + 1..].fill(0);
        }
    }

    fn add_run(&mut self, begin: usize, end: usize) {
        let (first, last) = (begin / 64, (end - 1) / 64);
        let low = !0 << (begin % 64);
        let high = !0 >> (63 - (end - 1) % 64);
        if first == last {
            self.words[first] |= low & high;
            return;
        }
        self.words[first] |= low;
        self.words[first + 1..last].fill(!0);
        self.words[last] |= high;
    }

    /// Passes the ranges of bytes that were added to `each`, upwards, and forgets them.
    fn take(&mut self, mut each: impl FnMut(Range<usize>) -> Result<(), ExecuteError>) -> Result<(), ExecuteError> {
        let mut begin = None;
        for (at, word) in self.words.iter().enumerate() {
            match (begin, *word) {
                (None, 0) | (Some(_), u64::MAX) => {}
                (None, u64::MAX) => begin = Some(at * 64),
                (_, word) => {
                    for bit in 0..64 {
                        let place = at * 64 + bit;
                        match (begin, word >> bit & 1) {
                            (None, 1) => begin = Some(place),
                            (Some(first), 0) => {
                                each(first..place)?;
                                begin = None;
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
        if let Some(first) = begin {
            each(first..self.words.len() * 64)?;
        }
        self.words.fill(0);
        Ok(())
    }
}

fn zeroed(bytes: usize) -> Result<Vec<u8>, ExecuteError> {
    let mut block = Vec::new();
    block.try_reserve_exact(bytes).map_err(|_| ExecuteError::Staging { bytes })?;
    block.resize(bytes, 0);
    Ok(block)
}

impl FileRange<'_> {
    /// The length of the buffer, if the file is long enough for it.
    pub(super) fn checked_bytes(&self, side: Side) -> Result<u64, ExecuteError> {
        let metadata = self.file.metadata().map_err(|source| self.failure("fstat", 0, 0, source))?;
        let end = self.offset.saturating_add(self.bytes);
        if metadata.len() < end {
            let (path, file_bytes) = (self.path.to_path_buf(), metadata.len());
            return Err(ExecuteError::FileLength { path, side, file_bytes, offset: self.offset, end });
        }
        Ok(self.bytes)
    }

    /// Device and inode: what two files that are one have in common.
    fn identity(&self) -> Result<(u64, u64), ExecuteError> {
        let metadata = self.file.metadata().map_err(|source| self.failure("fstat", 0, 0, source))?;
        Ok((metadata.dev(), metadata.ino()))
    }

    fn read(&self, offset: u64, mut into: &mut [u8]) -> Result<(), ExecuteError> {
        let mut offset = self.offset + offset;
        while !into.is_empty() {
            match self.file.read_at(into, offset) {
                Ok(0) => {
                    let (path, missing_bytes) = (self.path.to_path_buf(), into.len() as u64);
                    return Err(ExecuteError::ShortRead { path, offset, missing_bytes });
                }
                Ok(count) => {
                    into = &mut into[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure("pread", offset, into.len(), error)),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, mut from: &[u8]) -> Result<(), ExecuteError> {
        let mut offset = self.offset + offset;
        while !from.is_empty() {
            match self.file.write_at(from, offset) {
                Ok(0) => return Err(self.failure("pwrite", offset, from.len(), io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    from = &from[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure("pwrite", offset, from.len(), error)),
            }
        }
        Ok(())
    }

    fn failure(&self, call: &'static str, offset: u64, bytes: usize, source: io::Error) -> ExecuteError {
        ExecuteError::File { path: self.path.to_path_buf(), call, offset, bytes: bytes as u64, source }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, path::Path};

    use super::{super::ExecuteError, FileRange};

    #[test]
    fn a_file_that_is_shortened_while_it_is_read_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100).unwrap();
        let range = FileRange { file: &file, path: Path::new("shortened"), offset: 10, bytes: 90 };
        range.checked_bytes(crate::transfer::Side::Source).unwrap();
        file.set_len(50).unwrap();
        let error = range.read(20, &mut [0; 70]).unwrap_err();
        assert!(matches!(error, ExecuteError::ShortRead { offset: 50, missing_bytes: 50, .. }), "{error}");
        assert!(error.to_string().contains("shortened: pread at byte 50"), "{error}");
    }

    #[test]
    fn a_full_disk_is_an_error_that_says_where_and_what_to_do() {
        let file = File::options().write(true).open("/dev/full").unwrap();
        let range = FileRange { file: &file, path: Path::new("/dev/full"), offset: 10, bytes: 90 };
        let text = range.write(5, &[0; 20]).unwrap_err().to_string();
        assert!(text.starts_with("/dev/full: pwrite at byte 15, 20 bytes: No space left"), "{text}");
        assert!(text.ends_with("(os error 28); make room on its file system and repeat"), "{text}");
    }
}
