//! The memory behind the blocks of `tables`, as a producer has it.

use crate::error::{Error, Result};
use crate::place::arena::region::ArenaRegion;
use crate::place::stretch::Stretch;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::space;
use stillframe_segment::{Corrupt, PAGE_BYTES, table};

/// The memory behind the blocks of `tables`.
#[derive(Debug)]
pub(crate) enum TableMemory {
    /// A file of its own.
    File { file: File, path: PathBuf, map: Option<Mapping> },
    /// Pages of an arena, in runs: each with the offset at which it begins.
    Arena { region: Arc<ArenaRegion>, runs: Vec<(usize, Stretch)>, bytes: usize },
}

impl TableMemory {
    /// That of a file, which may have at most so many bytes.
    pub(crate) fn file(file: File, path: PathBuf, most_bytes: u64) -> Result<TableMemory> {
        let bytes = file.metadata().map_err(|error| Error::io("fstat", &path, error))?.len();
        if bytes > most_bytes {
            let corrupt =
                Corrupt::new(table::FILE, most_bytes as usize, "the end of the file", format!("{bytes} bytes"));
            return Err(Error::Corrupt { dir: path.parent().unwrap_or(&path).into(), corrupt });
        }
        let mut memory = TableMemory::File { file, path, map: None };
        if bytes > 0 {
            memory.remap(bytes as usize)?;
        }
        Ok(memory)
    }

    /// That of a region of an arena.
    pub(crate) fn arena(region: Arc<ArenaRegion>) -> Result<TableMemory> {
        let mut memory = TableMemory::Arena { region, runs: Vec::new(), bytes: 0 };
        memory.remap(0)?;
        Ok(memory)
    }

    fn remap(&mut self, new_bytes: usize) -> Result<()> {
        match self {
            TableMemory::File { file, path, map } => {
                *map = Some(Mapping::shared(file, 0, new_bytes, true).map_err(|f| Error::system(path, f))?);
            }
            TableMemory::Arena { region, runs, bytes } => {
                (*bytes, *runs) = (0, Vec::new());
                for pages in region.index()?.extents()? {
                    runs.push((*bytes, Stretch::new(region.arena().map(), pages.start as usize * PAGE_BYTES)));
                    *bytes += pages.len() * PAGE_BYTES;
                }
            }
        }
        Ok(())
    }

    /// Where it lies, for messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            TableMemory::File { path, .. } => path,
            TableMemory::Arena { region, .. } => region.path(),
        }
    }

    /// Number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            TableMemory::File { map, .. } => map.as_ref().map_or(0, Mapping::bytes),
            TableMemory::Arena { bytes, .. } => *bytes,
        }
    }

    /// Makes it so many bytes long, all of them with memory.
    pub(crate) fn grow(&mut self, new_bytes: usize) -> Result<()> {
        let old = self.bytes();
        match self {
            TableMemory::File { file, path, .. } => {
                let grown = (new_bytes - old) as u64;
                // The space is taken before the length is set, so that no block of the file can lack memory behind it.
                space::take(file, old as u64, grown).map_err(|failure| Error::system(path, failure).needing(grown))?;
                file.set_len(new_bytes as u64).map_err(|error| Error::io("ftruncate", path, error))?;
            }
            TableMemory::Arena { region, .. } => {
                let pages = region.take_pages((new_bytes - old).div_ceil(PAGE_BYTES) as u32)?;
                region.index()?.add_extent(&pages)?;
            }
        }
        self.remap(new_bytes)
    }

    pub(crate) fn write(&self, mut offset: usize, mut bytes: &[u8]) {
        match self {
            TableMemory::File { map: Some(map), .. } => map.write(offset, bytes),
            TableMemory::File { .. } => {}
            TableMemory::Arena { .. } => {
                while let Some((stretch, at, left)) = self.find(offset).filter(|_| !bytes.is_empty()) {
                    let (now, later) = bytes.split_at(left.min(bytes.len()));
                    stretch.write(at, now);
                    (offset, bytes) = (offset + now.len(), later);
                }
            }
        }
    }

    pub(crate) fn read(&self, mut offset: usize, mut out: &mut [u8]) {
        match self {
            TableMemory::File { map: Some(map), .. } => map.read(offset, out),
            TableMemory::File { .. } => {}
            TableMemory::Arena { .. } => {
                while let Some((stretch, at, left)) = self.find(offset).filter(|_| !out.is_empty()) {
                    let (now, later) = out.split_at_mut(left.min(out.len()));
                    stretch.read(at, now);
                    (offset, out) = (offset + now.len(), later);
                }
            }
        }
    }

    /// The run in which an offset lies, the offset in it, and how many bytes are left of it.
    fn find(&self, offset: usize) -> Option<(&Stretch, usize, usize)> {
        let TableMemory::Arena { runs, bytes, .. } = self else { return None };
        let index = runs.partition_point(|(begin, _)| *begin <= offset).checked_sub(1)?;
        let end = runs.get(index + 1).map_or(*bytes, |(begin, _)| *begin);
        let (begin, stretch) = &runs[index];
        (offset < end).then(|| (stretch, offset - begin, end - offset))
    }
}
