//! Taking over what a dead producer left.

use crate::error::{Error, Result};
use crate::mask::Mask;
use crate::place::Place;
use crate::store::Store;
use crate::store::draft::Content;
use crate::store::planes::Planes;
use crate::store::tables::Tables;
use crate::store::version::{Asking, Version};
use std::collections::BTreeSet;
use std::sync::Arc;
use stillframe_kernel::points;
use stillframe_protocol::{self as protocol, Board, Leased, State};
use stillframe_segment::head::{self, Descriptor};
use stillframe_segment::table::{self, Entry, ZERO_PLANE};
use stillframe_segment::{
    Corrupt, Description, Extent, Manifest, PLANES_MAX, Schema, Variable, WINDOW_PAGES, description, schema,
};

/// What the newest version shows, as its variables and where they lie.
#[derive(Debug)]
pub(crate) struct Newest {
    pub(crate) number: u64,
    pub(crate) variables: Vec<(Variable, Extent)>,
}

impl Store {
    /// Takes over what a dead producer left: the versions that exist, their frames and their blocks. With `rollback` that version
    /// becomes the newest. Versions that are not wanted are still there.
    pub(crate) fn recover(&mut self, rollback: Option<u64>) -> Result<()> {
        if let Place::Arena(region) = &self.place {
            region.check_index()?;
        }
        let newest = self.head.newest();
        if newest.sequence() >= head::SEQUENCE_END {
            let expected = format!("a sequence number below {}", head::SEQUENCE_END);
            return Err(self.corrupt(Corrupt::new(head::FILE, head::NEWEST_AT, expected, newest.sequence())));
        }
        self.head.check_newest().map_err(|corrupt| self.corrupt(corrupt))?;
        let found = protocol::recover(&self.head);
        points::hit("recover.board");
        if let Some(pair) = found.windows(2).find(|pair| pair[0].version.sequence == pair[1].version.sequence) {
            let Leased { slot, sequence } = pair[1].version;
            let at = head::descriptor_at(slot);
            return Err(self.corrupt(Corrupt::new(head::FILE, at, "a sequence number of its own", sequence)));
        }
        self.sequence = newest.sequence();
        let mut windows = 0;
        for recovered in found {
            let version = self.read_version(recovered.version, recovered.state)?;
            windows = windows.max(version.table.len());
            self.next_serial = self.next_serial.max(version.leased.sequence << 20);
            self.versions.push(version);
        }
        self.check_planes()?;
        self.planes.recover(windows)?;
        for version in &self.versions {
            for (window, word) in version.table.iter().enumerate() {
                mark_used(&mut self.planes, &self.tables, window, *word);
            }
        }
        self.recover_arena()?;
        self.planes.assume_residency()?;
        if self.bound_bytes.is_some_and(|bound| self.planes.present_bytes() > bound) {
            self.planes.cool(true);
        }
        points::hit("recover.planes");
        self.recover_numbers().map_err(|corrupt| self.corrupt(corrupt))?;
        if let Some(number) = rollback {
            self.return_to(number)?;
        }
        self.retire_returned_from()
    }

    /// In an arena, keeps the blocks of schemas that versions name, and gives back what a producer that died had taken and noted
    /// nowhere.
    fn recover_arena(&mut self) -> Result<()> {
        let Place::Arena(region) = &self.place else { return Ok(()) };
        let index = region.index()?;
        for entry in index.schemas() {
            match self.versions.iter().any(|version| version.schema == entry.number) {
                true => self.tables.retain(entry.block, entry.bytes as usize),
                false => drop(index.remove_schema(entry.number)),
            }
        }
        let mut chunks = Vec::new();
        for plane in 0..PLANES_MAX {
            for window in 0..index.capacity(plane)?.0 {
                match index.chunk(plane, window)? {
                    Some(chunk) if window < self.planes.windows() => chunks.push(chunk),
                    // No version has a window there, and a chunk that is given back must not be found there again.
                    Some(_) => index.set_chunk(plane, window, None)?,
                    None => {}
                }
            }
        }
        region.give_back_rest(&chunks)
    }

    /// Begins with what the newest version shows, if there is one: its windows are allocated, and it is what the next version
    /// begins with.
    pub(crate) fn take_up_newest(&mut self) -> Result<Option<Newest>> {
        let Some(newest) = self.versions.last().cloned() else {
            self.head.set_newest(protocol::Newest(0));
            self.sequence = 0;
            return Ok(None);
        };
        let slot = newest.leased.slot;
        let (block, bytes) = newest.manifest;
        // The head may have been written to since the version was read; the manifest has to be of that table.
        let descriptor = Descriptor {
            manifest_block: block,
            manifest_bytes: bytes as u32,
            windows: newest.table.len() as u32,
            ..self.head.descriptor(slot)
        };
        let manifest = Description::new(&self.tables, descriptor, slot)?.manifest()?;
        let schema = self.read_schema(newest.schema)?;
        let metas = description::find_variables(&manifest, block, &schema).map_err(|corrupt| self.corrupt(corrupt))?;
        self.base = Arc::new(shown_windows(&newest.table, &manifest));
        self.schema = newest.schema;
        let mut variables = Vec::with_capacity(manifest.extents.len());
        for (extent, meta) in manifest.extents.into_iter().zip(metas) {
            let claimed = self.space.claim(extent.window, extent.windows() as u32);
            claimed.map_err(|failure| Error::system(self.place.path(), failure))?;
            self.next_serial = self.next_serial.max(extent.allocation + 1);
            variables.push((meta.clone(), extent));
        }
        Ok(Some(Newest { number: newest.number, variables }))
    }

    /// Finds the numbers that were given to schemas and variables, and has the head tell them, before versions go that tell
    /// them. Versions that were dropped before tell none.
    fn recover_numbers(&mut self) -> Result<(), Corrupt> {
        let (told_schemas, told_ids) = (self.head.number32(head::SCHEMAS_AT), self.head.number32(head::IDS_AT));
        head::check_given(told_schemas, told_ids)?;
        let mut numbers: Vec<u32> = self.versions.iter().map(|version| version.schema).collect();
        numbers.dedup();
        self.schemas = numbers.iter().copied().fold(told_schemas, u32::max);
        self.next_id = told_ids;
        if told_schemas == 0 {
            // Descriptors stay when their slot is free, until another version has it.
            let described = (0..head::SLOTS).map(|slot| self.head.descriptor(slot).schema);
            self.schemas = described.filter(|number| *number < schema::ID_END).fold(self.schemas, u32::max);
        }
        // What cannot be read of the newest version is an error later, of another it is to whoever reads that.
        let known: Vec<Schema> = numbers.into_iter().filter_map(|number| self.read_schema(number).ok()).collect();
        for variable in known.into_iter().flat_map(|schema| schema.variables) {
            self.next_id = self.next_id.max(variable.id + 1);
        }
        self.head.set_number32(head::SCHEMAS_AT, self.schemas);
        self.head.set_number32(head::IDS_AT, self.next_id);
        Ok(())
    }

    /// Makes an earlier version the newest, if there are newer ones: commits it once more, so that what is the newest and what
    /// was ever given out in a slot stay as they are told everywhere else.
    fn return_to(&mut self, number: u64) -> Result<()> {
        if self.newest_number().is_none_or(|newest| newest <= number) {
            return Ok(());
        }
        let is_it = |version: &&Version| version.number == number && version.state == State::Live;
        let Some(version) = self.versions.iter().rfind(is_it).cloned() else {
            let (oldest, newest) = (self.versions.first().map(|version| version.number), self.newest_number());
            return Err(Error::VersionGone { region: self.name.clone(), version: number, oldest, newest });
        };
        let mut draft = self.draft();
        draft.tabulate(Vec::clone(&version.table), &[])?;
        draft.commit(Content::Again(&version), ["rollback.described", "rollback.committed"])
    }

    /// Lets go of the versions that this producer returned from, or one that died before it was done.
    fn retire_returned_from(&mut self) -> Result<()> {
        while let Some(index) = self.versions.iter().enumerate().position(|(index, version)| {
            version.state == State::Live
                && self.versions[index + 1..].iter().any(|later| later.number <= version.number)
        }) {
            self.retire(index)?;
        }
        Ok(())
    }

    fn read_version(&mut self, leased: Leased, state: State) -> Result<Version> {
        let descriptor = self.head.descriptor(leased.slot);
        let description = Description::new(&self.tables, descriptor, leased.slot)?;
        description.check_manifest()?;
        let entries = description.entries()?;
        for entry in &entries {
            if let Entry::Mixed(block) = *entry {
                description::read_subtable(&self.tables, block)?;
                self.tables.retain(block, WINDOW_PAGES);
            }
        }
        self.tables.retain(descriptor.table_block, entries.len() * 4);
        self.tables.retain(descriptor.manifest_block, descriptor.manifest_bytes as usize);
        Ok(Version {
            leased,
            number: descriptor.version,
            state,
            table: Arc::new(entries.into_iter().map(Entry::encode).collect()),
            manifest: (descriptor.manifest_block, descriptor.manifest_bytes as usize),
            table_block: descriptor.table_block,
            schema: descriptor.schema,
            run: descriptor.run,
            asking: Asking::default(),
        })
    }

    /// Whether the planes are there, and as long as the versions need them: pages that are missing would read as zeros
    /// once the planes are made long enough for new versions.
    fn check_planes(&self) -> Result<()> {
        let mut ends = [0; PLANES_MAX];
        // In an arena each window has a place of its own.
        let is_scattered = matches!(self.place, Place::Arena(_));
        let mut used = BTreeSet::new();
        for version in &self.versions {
            for (window, word) in version.table.iter().enumerate() {
                let mut mark = |plane: u8| {
                    if plane != ZERO_PLANE && is_scattered {
                        used.insert((plane as usize, window));
                    } else if plane != ZERO_PLANE {
                        ends[plane as usize] = ends[plane as usize].max(window + 1);
                    }
                };
                match word & table::SUBTABLE {
                    0 => mark(*word as u8),
                    _ => self.tables.subtable(word & !table::SUBTABLE).into_iter().for_each(&mut mark),
                }
            }
        }
        used.extend(ends.into_iter().enumerate().filter(|(_, end)| *end > 0).map(|(plane, end)| (plane, end - 1)));
        used.into_iter().try_for_each(|(plane, window)| self.place.check_window(plane, window))
    }
}

/// The window table of a version without the windows that none of its variables shows. They hold what a tracked variable
/// was published from before, and whoever takes them next begins with zeros.
fn shown_windows(table: &[u32], manifest: &Manifest) -> Vec<u32> {
    let mut shown = vec![u32::from(ZERO_PLANE); table.len()];
    for extent in &manifest.extents {
        let windows = extent.window as usize..extent.window as usize + extent.windows() as usize;
        shown[windows.clone()].copy_from_slice(&table[windows]);
    }
    shown
}

/// Marks the frames of a window that a version uses.
fn mark_used(planes: &mut Planes, tables: &Tables, window: usize, word: u32) {
    if word == u32::from(ZERO_PLANE) {
        return;
    }
    if word & table::SUBTABLE == 0 {
        return planes.mark(word as usize, window, Mask::FULL);
    }
    let subtable = tables.subtable(word & !table::SUBTABLE);
    let mut page = 0;
    for run in subtable.chunk_by(|left, right| left == right) {
        if run[0] != ZERO_PLANE {
            let mut mask = Mask::EMPTY;
            mask.insert_run(page, page + run.len());
            planes.mark(run[0] as usize, window, mask);
        }
        page += run.len();
    }
}
