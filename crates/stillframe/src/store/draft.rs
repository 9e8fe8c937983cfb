//! Drafts: versions being made.

use crate::clock;
use crate::error::{Error, Result};
use crate::list;
use crate::mask::Mask;
use crate::store::Store;
use crate::store::entries::{self, EntryMaker};
use crate::store::planes::{Assignment, Planes};
use crate::store::unit::MemoryUnit;
use crate::store::version::{Asking, Version};
use crate::variable::Attributes;
use std::borrow::Cow;
use std::sync::Arc;
use stillframe_kernel::points;
use stillframe_protocol::{self as protocol, Leased, State};
use stillframe_segment::head::{Counter, Descriptor};
use stillframe_segment::table::{self, ZERO_PLANE};
use stillframe_segment::{Extent, Manifest, PAGE_BYTES, Schema, manifest};

/// A version being made. It takes frames of planes and blocks of tables, and is the only one to do so. Dropped before it is
/// committed, it gives back what it took, and the store is as it was.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    store: &'a mut Store,
    frames: Vec<Assignment>,
    /// Whether the frames stay taken if the draft does not become a version.
    keeps_frames: bool,
    /// The window table, of whose sub-tables each is counted once for the draft; empty until it is made.
    words: Vec<u32>,
    /// Other runs of blocks, by their first and their bytes.
    blocks: Vec<(u32, usize)>,
}

/// Lists that are of no use any more but for their memory, which the next version takes.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    frames: Vec<Assignment>,
    blocks: Vec<(u32, usize)>,
    /// The window table of a version that is gone.
    pub(crate) words: Vec<u32>,
}

/// What is said of a version.
#[derive(Debug)]
pub(crate) struct Description<'a> {
    pub(crate) number: u64,
    /// Nanoseconds since 1970; the time of the commit if there are none.
    pub(crate) published_ns: Option<u64>,
    pub(crate) attributes: &'a Attributes,
    pub(crate) extents: &'a [Cow<'a, Extent>],
    pub(crate) dirty_pages: u64,
    pub(crate) total_pages: u64,
}

/// What a draft becomes.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// A version that was not there before.
    New(Description<'a>),
    /// A version that is there, once more: with the same number and content, in other places.
    Again(&'a Version),
}

/// Names of the points before and behind a commit at which tests end the process.
pub(crate) type Points = [&'static str; 2];

impl Store {
    /// Begins a version. There has to be a [free slot](Store::free_slot) for it to be committed.
    pub(crate) fn draft(&mut self) -> Draft<'_> {
        let Spare { frames, blocks, .. } = &mut self.spare;
        let (frames, blocks) = (std::mem::take(frames), std::mem::take(blocks));
        Draft { store: self, frames, keeps_frames: false, words: Vec::new(), blocks }
    }
}

impl Draft<'_> {
    /// What the draft is made in.
    pub(crate) fn store(&self) -> &Store {
        self.store
    }

    pub(crate) fn planes(&self) -> &Planes {
        &self.store.planes
    }

    /// The frames that were taken, in the order in which they were.
    pub(crate) fn frames(&self) -> &[Assignment] {
        &self.frames
    }

    /// Takes frames for pages of a window, if it can be in the plane `hint`. Returns the plane that took the last of them.
    pub(crate) fn take_frames(&mut self, window: usize, pages: Mask, hint: usize) -> Result<usize> {
        self.store.planes.assign(window, pages, hint, &mut self.frames)?;
        Ok(self.frames.last().map_or(0, |part| part.plane))
    }

    /// Takes frames of one plane for so many pages from the begin of a window on, and returns the plane.
    pub(crate) fn take_in_one_plane(&mut self, window: usize, pages: usize) -> Result<usize> {
        self.store.planes.assign_whole(window, pages, &mut self.frames)
    }

    /// Takes frames that are known to be free.
    pub(crate) fn take(&mut self, frames: Vec<Assignment>) {
        frames.iter().for_each(|part| self.store.planes.mark(part.plane, part.window, part.pages));
        self.frames.extend(frames);
    }

    /// Takes memory for the frames that have none, if the bound allows it; `all_held` as for [`Store::held`].
    pub(crate) fn take_memory(&mut self, all_held: bool) -> Result<()> {
        match self.take_memory_in(self.store.planes.unit(), all_held) {
            // There may be room for the pages themselves.
            Err(error) if error.is_want_of_room() && self.store.planes.unit() == MemoryUnit::Large => {
                self.take_memory_in(MemoryUnit::Small, all_held)
            }
            taken => taken,
        }
    }

    fn take_memory_in(&mut self, unit: MemoryUnit, all_held: bool) -> Result<()> {
        let Store { planes, bound_bytes, .. } = &*self.store;
        let missing: usize = self.frames.iter().map(|part| planes.missing(part, unit).count()).sum();
        if missing == 0 {
            return Ok(());
        }
        let needed_bytes = (missing * PAGE_BYTES) as u64;
        let used_bytes = planes.present_bytes();
        if let Some(bound_bytes) = *bound_bytes
            && used_bytes + needed_bytes > bound_bytes
        {
            let (region, held) = (self.store.name.clone(), self.store.held(all_held));
            let enclaves = Vec::new();
            return Err(Error::Bound { region, used_bytes, needed_bytes, bound_bytes, held, enclaves });
        }
        points::hit("publish.allocate");
        self.store.planes.allocate(&self.frames, unit)
    }

    /// Notes that the frames have memory because they were written, or with `false` that some of them may.
    pub(crate) fn note_residency(&mut self, is_written: bool) -> Result<()> {
        self.store.planes.note_residency(if is_written { &self.frames } else { &[] })
    }

    /// Keeps the frames without a version: they are free again when [`Store::free_frames_of`] is told so.
    pub(crate) fn lend(mut self) -> Vec<Assignment> {
        std::mem::take(&mut self.frames)
    }

    /// Uses frames that were taken and [lent](Draft::lend) before. They stay taken if no version comes of the draft.
    pub(crate) fn adopt(&mut self, frames: Vec<Assignment>) {
        self.frames = frames;
        self.keeps_frames = true;
    }

    /// The window table with which the version begins: the newest's, less what was given up since.
    pub(crate) fn base(&mut self) -> Result<Vec<u32>> {
        let windows = self.store.space.windows();
        let mut words = std::mem::take(&mut self.store.spare.words);
        words.clear();
        let more = list::make_room(&mut words, windows.max(self.store.base.len()));
        more.map_err(|failure| Error::system(self.store.dir(), failure))?;
        words.extend_from_slice(&self.store.base);
        words.resize(windows, u32::from(ZERO_PLANE));
        Ok(words)
    }

    /// Makes the window table: `words`, changed to the frames of the draft and to these others.
    pub(crate) fn tabulate(&mut self, words: Vec<u32>, others: &[Assignment]) -> Result<()> {
        self.release_table();
        let Draft { store, frames, .. } = self;
        let mut all: Vec<(usize, &Assignment)> = Vec::new();
        let room = list::make_room(&mut all, frames.len() + others.len());
        room.map_err(|failure| Error::system(store.dir(), failure))?;
        all.extend(frames.iter().chain(others).enumerate());
        // In place, because a sort that keeps the order of equals by itself takes memory.
        all.sort_unstable_by_key(|(index, part)| (part.window, *index));
        let tables = &mut store.tables;
        words.iter().for_each(|word| entries::retain(*word, tables));
        self.words = words;
        let mut maker = EntryMaker::new();
        for parts in all.chunk_by(|(_, left), (_, right)| left.window == right.window) {
            let window = parts[0].1.window;
            let old = self.words[window];
            let new = maker.make(old, parts.iter().map(|(_, part)| *part), tables)?;
            entries::release(old, tables);
            self.words[window] = new;
        }
        Ok(())
    }

    /// Writes the schema of the versions to come. It stays if the draft does not.
    pub(crate) fn write_schema(&mut self, schema: &Schema) -> Result<()> {
        self.store.write_schema(schema)
    }

    /// Makes the version visible: the one way a version becomes so. On an error there is none.
    pub(crate) fn commit(mut self, content: Content, points: Points) -> Result<()> {
        let sequence = self.store.next_sequence()?;
        // Whoever begins a draft makes sure of a slot, and nothing takes it since.
        let slot = self.store.free_slot().ok_or_else(|| self.no_slot())?;
        let mut descriptor = match &content {
            Content::New(description) => self.describe(description)?,
            Content::Again(version) => {
                let (block, bytes) = version.manifest;
                self.store.tables.retain(block, bytes);
                self.blocks.push((block, bytes));
                self.store.head.descriptor(version.leased.slot)
            }
        };
        match content {
            Content::Again(version) if *version.table == self.words => {
                let (block, bytes) = (version.table_block, version.table.len() * 4);
                self.store.tables.retain(block, bytes);
                self.blocks.push((block, bytes));
            }
            _ => (descriptor.table_block, descriptor.table_crc) = self.write_table()?,
        }
        descriptor.windows = self.words.len() as u32;
        let store = &mut *self.store;
        store.head.set_descriptor(slot, &descriptor);
        points::hit(points[0]);
        store.head.set(Counter::Planes, store.planes.count() as u64);
        protocol::commit(&store.head, slot, sequence);
        points::hit(points[1]);
        if let Content::New(_) = &content {
            // Whoever waits gets to work while the rest is done here.
            store.head.notify();
        }
        store.sequence = sequence;
        // What was taken is the version's from here on.
        let table = Arc::new(std::mem::take(&mut self.words));
        self.keeps_frames = true;
        self.blocks.clear();
        match content {
            Content::New(Description { extents, .. }) => {
                store.base = table.clone();
                store.give_back_left(extents);
            }
            Content::Again(_) => {
                // What was given up since stays so.
                let base = Arc::make_mut(&mut store.base);
                self.frames.iter().for_each(|part| base[part.window] = table[part.window]);
            }
        }
        store.versions.push(Version {
            leased: Leased { slot, sequence },
            number: descriptor.version,
            state: State::Live,
            table,
            manifest: (descriptor.manifest_block, descriptor.manifest_bytes as usize),
            table_block: descriptor.table_block,
            schema: descriptor.schema,
            run: descriptor.run,
            asking: Asking::default(),
        });
        Ok(())
    }

    fn no_slot(&self) -> Error {
        let (region, held) = (self.store.name.clone(), self.store.held(true));
        Error::NoSlot { region, slots: self.store.slots(), held, enclaves: Vec::new() }
    }

    /// Writes the manifest. Where the window table lies is said later.
    fn describe(&mut self, description: &Description) -> Result<Descriptor> {
        let mut bytes = std::mem::take(&mut self.store.buffer);
        bytes.clear();
        Manifest::encode(description.extents, description.attributes, &mut bytes);
        self.store.tables.seek([bytes.len(), self.words.len() * size_of::<u32>()]);
        let written = self.write_blocks(
            &bytes,
            "the bytes of the version's manifest",
            manifest::BYTES_MAX as u64,
            "publish with fewer or shorter attributes, or remove variables",
        );
        self.store.buffer = bytes;
        let (manifest_block, manifest_bytes, manifest_crc) = written?;
        Ok(Descriptor {
            version: description.number,
            manifest_block,
            manifest_bytes: manifest_bytes as u32,
            table_block: 0,
            windows: 0,
            manifest_crc,
            table_crc: 0,
            published_ns: description.published_ns.unwrap_or_else(clock::unix_ns),
            dirty_pages: description.dirty_pages,
            total_pages: description.total_pages,
            schema: self.store.schema,
            run: self.store.run,
        })
    }

    /// Writes the window table, and returns its block and checksum.
    fn write_table(&mut self) -> Result<(u32, u32)> {
        let mut bytes = std::mem::take(&mut self.store.buffer);
        bytes.clear();
        if let Err(failure) = list::make_room(&mut bytes, self.words.len() * 4) {
            return Err(Error::system(self.store.dir(), failure));
        }
        self.words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        let written = self.write_blocks(&bytes, "the bytes of the version's window table", u64::MAX, "");
        self.store.buffer = bytes;
        written.map(|(block, _, crc)| (block, crc))
    }

    fn write_blocks(
        &mut self,
        bytes: &[u8],
        what: &'static str,
        most: u64,
        advice: &'static str,
    ) -> Result<(u32, usize, u32)> {
        self.store.check_limit(what, bytes.len() as u64, most, advice)?;
        let block = self.store.tables.take(bytes.len())?;
        self.blocks.push((block, bytes.len()));
        self.store.tables.write(block, bytes);
        Ok((block, bytes.len(), table::checksum(bytes)))
    }

    fn release_table(&mut self) {
        for word in std::mem::take(&mut self.words) {
            entries::release(word, &mut self.store.tables);
        }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        self.release_table();
        let Draft { store, frames, blocks, .. } = self;
        for (block, bytes) in blocks.drain(..) {
            store.tables.release(block, bytes);
        }
        if !self.keeps_frames {
            store.free_frames_of(frames);
        }
        frames.clear();
        (store.spare.frames, store.spare.blocks) = (std::mem::take(frames), std::mem::take(blocks));
    }
}
