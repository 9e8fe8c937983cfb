//! Where the files of regions lie: the storage backends.

pub(crate) mod arena;
pub(crate) mod broker;
pub(crate) mod directory;
pub(crate) mod files;
pub(crate) mod hidden;
pub(crate) mod names;
pub(crate) mod plane_file;
pub(crate) mod stretch;
pub(crate) mod table_memory;

use crate::error::{Error, Result};
use crate::place::arena::Bell;
use crate::place::arena::index::SchemaEntry;
use crate::place::arena::region::ArenaRegion;
use crate::place::directory::Directory;
use crate::place::files::Files;
use crate::place::names::{is_numbered, plane_file, schema_file};
use crate::place::plane_file::PlaneFile;
use crate::place::stretch::Stretch;
use crate::place::table_memory::TableMemory;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use stillframe_kernel::folder::Form;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::space::read_begin;
use stillframe_segment::{Corrupt, PLANES_MAX, WINDOW_BYTES, head, schema, table};

/// Refuses pages of another size than the format's.
pub(crate) fn check_pages() -> Result<()> {
    match stillframe_kernel::system_page_bytes() {
        stillframe_kernel::PAGE_BYTES => Ok(()),
        found_bytes => Err(Error::ForeignPages { found_bytes }),
    }
}

/// Where the bytes of one region lie, as its producer has them. Nothing else differs between regions.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// In files of a directory of its own.
    Directory { directory: Directory, mode: u32 },
    /// In chunks and pages of an arena.
    Arena(Arc<ArenaRegion>),
}

impl Place {
    /// Where it is, for messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Place::Directory { directory, .. } => directory.path(),
            Place::Arena(region) => region.path(),
        }
    }

    fn corrupt(&self, corrupt: Corrupt) -> Error {
        Error::Corrupt { dir: self.path().into(), corrupt }
    }

    /// The bytes of the head, as far as there are any.
    pub(crate) fn read_head(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; head::HEAD_BYTES];
        match self {
            Place::Directory { directory, mode } => {
                let file = directory.create(head::FILE, *mode)?;
                let read = read_begin(&file, &mut bytes);
                let length = read.map_err(|error| Error::io("read", &directory.path().join(head::FILE), error))?;
                bytes.truncate(length);
            }
            Place::Arena(region) if region.has_head() => region.index()?.head().read(0, &mut bytes),
            Place::Arena(_) => bytes.clear(),
        }
        Ok(bytes)
    }

    /// Removes what an unfinished creation left, and gives the head memory and these bytes. Observers may already wait for its
    /// magic, so it keeps its place.
    pub(crate) fn make_head(&self, bytes: &[u8]) -> Result<()> {
        match self {
            Place::Directory { directory, mode } => {
                let is_left = |name: &&String| *name == table::FILE || is_numbered(name);
                directory.texts().iter().filter(is_left).try_for_each(|name| directory.unlink(name))?;
                let (file, path) = (directory.create(head::FILE, *mode)?, directory.path().join(head::FILE));
                file.set_len(0).map_err(|error| Error::io("ftruncate", &path, error))?;
                // Writing takes the space, so that the mapping of a full file system's head never faults.
                let written = file.write_all_at(bytes, 0);
                written.map_err(|error| Error::io("write", &path, error).needing(bytes.len() as u64))
            }
            Place::Arena(region) => region.make_head(bytes),
        }
    }

    /// The head, mapped to be written.
    pub(crate) fn map_head(&self) -> Result<Stretch> {
        match self {
            Place::Directory { directory, mode } => {
                let (file, path) = (directory.create(head::FILE, *mode)?, directory.path().join(head::FILE));
                let map = Mapping::shared(&file, 0, head::HEAD_BYTES, true);
                Ok(Stretch::new(map.map_err(|failure| Error::system(&path, failure))?.into(), 0))
            }
            Place::Arena(region) => Ok(region.index()?.head()),
        }
    }

    /// Who wakes those that wait for versions.
    pub(crate) fn bell(&self) -> Bell {
        match self {
            Place::Directory { .. } => Bell::None,
            Place::Arena(region) => region.arena().bell(region.claimed().number()),
        }
    }

    /// The memory of the tables, of which there may be at most so many bytes.
    pub(crate) fn open_tables(&self, most_bytes: u64) -> Result<TableMemory> {
        match self {
            Place::Directory { directory, mode } => {
                let file = directory.create(table::FILE, *mode)?;
                TableMemory::file(file, directory.path().join(table::FILE), most_bytes)
            }
            Place::Arena(region) => TableMemory::arena(region.clone()),
        }
    }

    /// Number of planes that a producer before this one left.
    pub(crate) fn planes_there(&self) -> Result<usize> {
        match self {
            Place::Directory { directory, .. } => {
                Ok((0..PLANES_MAX).take_while(|plane| directory.has(&plane_file(*plane))).count())
            }
            Place::Arena(region) => region.planes_there(),
        }
    }

    /// Opens a plane, or makes it.
    pub(crate) fn open_plane(&self, plane: usize) -> Result<PlaneFile> {
        match self {
            Place::Directory { directory, mode } => {
                let name = plane_file(plane);
                Ok(PlaneFile::sparse(directory.create(&name, *mode)?, directory.path().join(name)))
            }
            Place::Arena(region) => Ok(PlaneFile::in_arena(region, plane)),
        }
    }

    /// Fails if a plane does not have a window that a version shows: it would read as zeros once the plane is made longer.
    pub(crate) fn check_window(&self, plane: usize, window: usize) -> Result<()> {
        let needed = ((window + 1) * WINDOW_BYTES) as u64;
        let bytes = match self {
            Place::Directory { directory, .. } => match directory.folder().about_name(plane_file(plane)) {
                Ok(about) if about.form == Form::File => about.bytes,
                // That it is no file is said when it is opened.
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NotFound => 0,
                Err(error) => return Err(Error::io("stat", &self.path().join(plane_file(plane)), error)),
            },
            Place::Arena(region) => region.index()?.chunk(plane, window)?.map_or(0, |_| needed),
        };
        if bytes < needed {
            return Err(self.corrupt(Corrupt::cut(&plane_file(plane), bytes, needed)));
        }
        Ok(())
    }

    /// Writes a schema into a file; in an arena schemas lie in the tables.
    pub(crate) fn write_schema(directory: &Directory, mode: u32, number: u32, text: &[u8]) -> Result<()> {
        let name = schema_file(number);
        let path = directory.path().join(&name);
        let mut file = directory.create(&name, mode)?;
        // One of this name was left by a producer that died before a version named it.
        file.set_len(0).map_err(|error| Error::io("ftruncate", &path, error))?;
        let written = file.write_all(text);
        written.map_err(|error| Error::io("write", &path, error).needing(text.len() as u64)).inspect_err(|_| {
            let _ = directory.unlink(&name);
        })
    }

    /// Reads a schema from its file.
    pub(crate) fn read_schema(files: &Files, number: u32) -> Result<Vec<u8>> {
        let name = schema_file(number);
        let corrupt = |corrupt| Error::Corrupt { dir: files.path().into(), corrupt };
        let opened = files.file(&name)?;
        let (file, about) = opened.ok_or_else(|| corrupt(Corrupt::new(&name, 0, "a schema", "no such file")))?;
        if about.bytes > schema::BYTES_MAX as u64 {
            let expected = format!("at most {} bytes", schema::BYTES_MAX);
            return Err(corrupt(Corrupt::new(&name, schema::BYTES_MAX, expected, "more")));
        }
        // A version names a schema when its file is whole.
        let mut bytes = vec![0; about.bytes as usize];
        let read = read_begin(&file, &mut bytes);
        let length = read.map_err(|error| Error::io("read", &files.path().join(&name), error))?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Where a schema lies in the tables, if that is where schemas are.
    pub(crate) fn schema_entry(&self, number: u32) -> Result<Option<SchemaEntry>> {
        match self {
            Place::Directory { .. } => Ok(None),
            Place::Arena(region) => {
                let found = region.index()?.schemas().into_iter().find(|entry| entry.number == number);
                let missing = || Corrupt::new(&schema_file(number), 0, "a schema", "no such entry");
                found.map(Some).ok_or_else(|| self.corrupt(missing()))
            }
        }
    }
}
