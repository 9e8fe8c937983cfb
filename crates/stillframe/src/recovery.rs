//! Taking over what a dead producer left.

use crate::files::plane_file;
use crate::mask::Mask;
use crate::planes::Planes;
use crate::producer::{Dormant, Producer, Version};
use crate::schemas::read_schema;
use crate::tables::Tables;
use crate::{Error, Result};
use std::io::ErrorKind;
use std::sync::Arc;
use stillframe_kernel::folder::Form;
use stillframe_kernel::points;
use stillframe_protocol::{self as protocol, Board, Leased, State};
use stillframe_segment::head::{self, Descriptor};
use stillframe_segment::table::{self, Entry, ZERO_PLANE};
use stillframe_segment::{Corrupt, Description, Manifest, PLANES_MAX, WINDOW_BYTES, WINDOW_PAGES, description, schema};

impl Producer {
    /// Takes over what a dead producer left: the versions that exist, their slots and their blocks.
    pub(crate) fn recover(&mut self) -> Result<()> {
        let dir = self.dir.clone();
        let corrupt = |corrupt| Error::Corrupt { dir: dir.clone(), corrupt };
        let newest = self.head.newest();
        if newest.sequence() >= head::SEQUENCE_END {
            let expected = format!("a sequence number below {}", head::SEQUENCE_END);
            return Err(corrupt(Corrupt::new(head::FILE, head::NEWEST_AT, expected, newest.sequence())));
        }
        self.head.check_newest().map_err(corrupt)?;
        let found = protocol::recover(&self.head);
        points::hit("recover.board");
        if let Some(pair) = found.windows(2).find(|pair| pair[0].version.sequence == pair[1].version.sequence) {
            let at = head::descriptor_at(pair[1].version.slot);
            return Err(corrupt(Corrupt::new(
                head::FILE,
                at,
                "a sequence number of its own",
                pair[1].version.sequence,
            )));
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
        self.planes.settle()?;
        if self.options.bound_bytes.is_some_and(|bound| self.planes.present_bytes() > bound) {
            self.planes.cool(true);
        }
        points::hit("recover.planes");
        self.recover_numbers().map_err(corrupt)?;
        // Versions that were being retired may be free by now, and older ones than are kept may go.
        self.return_to_earlier()?;
        self.retire_unwanted()?;
        if let Some(newest) = self.versions.last().cloned() {
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
            let schema = read_schema(&self.directory, newest.schema)?;
            let metas = description::find_variables(&manifest, block, &schema).map_err(corrupt)?;
            self.table = Arc::new(shown_windows(&newest.table, &manifest));
            self.schema = newest.schema;
            self.recovered = Some(newest.number);
            for (extent, meta) in manifest.extents.into_iter().zip(metas) {
                self.space.claim(extent.window, extent.windows() as u32);
                self.next_serial = self.next_serial.max(extent.place + 1);
                self.dormant.push(Dormant { meta: meta.clone(), extent });
            }
        } else {
            self.head.set_newest(protocol::Newest(0));
            self.sequence = 0;
        }
        Ok(())
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
        let known = numbers.into_iter().filter_map(|number| read_schema(&self.directory, number).ok());
        for variable in known.flat_map(|schema| schema.variables) {
            self.next_id = self.next_id.max(variable.id + 1);
        }
        self.head.set_number32(head::SCHEMAS_AT, self.schemas);
        self.head.set_number32(head::IDS_AT, self.next_id);
        Ok(())
    }

    /// Makes the version that the options name the newest, if there are newer ones: commits it once more, so that what is
    /// the newest and what was ever given out in a slot stay as they are told everywhere else, and lets go of those.
    fn return_to_earlier(&mut self) -> Result<()> {
        if let Some(number) = self.options.rollback
            && self.newest_number().is_some_and(|newest| newest > number)
        {
            let is_it = |version: &&Version| version.number == number && version.state == State::Live;
            let Some(version) = self.versions.iter().rfind(is_it).cloned() else {
                let (oldest, newest) = (self.versions.first().map(|version| version.number), self.newest_number());
                return Err(Error::VersionGone { region: self.name.clone(), version: number, oldest, newest });
            };
            let Some(slot) = self.free_slot() else {
                let (region, slots) = (self.name.clone(), self.head.slots());
                return Err(Error::NoSlot { region, slots, held: self.held() });
            };
            let leased = Leased { slot, sequence: self.next_sequence()? };
            for word in version.table.iter().filter(|word| **word & table::SUBTABLE != 0) {
                self.tables.retain(word & !table::SUBTABLE, WINDOW_PAGES);
            }
            self.tables.retain(version.table_block, version.table.len() * 4);
            self.tables.retain(version.manifest.0, version.manifest.1);
            self.head.set_descriptor(slot, &self.head.descriptor(version.leased.slot));
            points::hit("rollback.described");
            self.sequence = leased.sequence;
            protocol::commit(&self.head, slot, self.sequence);
            points::hit("rollback.committed");
            self.versions.push(Version { leased, ..version });
        }
        // This producer's, or one's that died before it was done.
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
        })
    }

    /// Whether the planes are there, and as long as the versions need them: pages that are missing would read as zeros
    /// once the planes are made long enough for new versions.
    fn check_planes(&self) -> Result<()> {
        let mut ends = [0; PLANES_MAX];
        for version in &self.versions {
            for (window, word) in version.table.iter().enumerate() {
                let mut mark = |plane: u8| {
                    if plane != ZERO_PLANE {
                        ends[plane as usize] = ends[plane as usize].max(window + 1);
                    }
                };
                match word & table::SUBTABLE {
                    0 => mark(*word as u8),
                    _ => self.tables.subtable(word & !table::SUBTABLE).into_iter().for_each(&mut mark),
                }
            }
        }
        for (plane, end) in ends.into_iter().enumerate().filter(|(_, end)| *end > 0) {
            let bytes = match self.directory.folder().about_name(plane_file(plane)) {
                Ok(about) if about.form == Form::File => about.bytes,
                // That it is no file is said when it is opened.
                Ok(_) => continue,
                Err(error) if error.kind() == ErrorKind::NotFound => 0,
                Err(error) => return Err(Error::io("stat", &self.dir.join(plane_file(plane)), error)),
            };
            let needed = (end * WINDOW_BYTES) as u64;
            if bytes < needed {
                let (expected, found) = (format!("{needed} bytes"), "the end of the file");
                let corrupt = Corrupt::new(&plane_file(plane), bytes as usize, expected, found);
                return Err(Error::Corrupt { dir: self.dir.clone(), corrupt });
            }
        }
        Ok(())
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

/// Marks the slots of a window that a version uses.
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
