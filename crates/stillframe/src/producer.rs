//! The state of a producer, and how it begins: creating a region, or recovering one.

use crate::files::{self, Directory, Head, LeaseFile, plane_file, schema_file};
use crate::loan::{LoanMap, OpenLoan};
use crate::managed::{Managed, Subtable};
use crate::mask::Mask;
use crate::place::{Place, Source, Space, Working};
use crate::planes::Planes;
use crate::tables::Tables;
use crate::tracker::Tracker;
use crate::{Declaration, Error, Kind, RegionOptions, Result, element};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stillframe_kernel::copy::{Copier, PageCopy};
use stillframe_kernel::points;
use stillframe_protocol::{self as protocol, Board, Leased, State};
use stillframe_segment::head::{self, Counter};
use stillframe_segment::table::{self, Entry, ZERO_PLANE};
use stillframe_segment::{
    BLOCK_BYTES, Corrupt, Extent, Manifest, PLANES_MAX, Schema, Variable, WINDOW_BYTES, WINDOW_PAGES, lease, manifest,
    schema,
};

/// Pages compared at once, one byte each.
const EIGHT: usize = 8;

/// A version that exists.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) leased: Leased,
    pub(crate) number: u64,
    pub(crate) state: State,
    pub(crate) table: Arc<Vec<u32>>,
    pub(crate) manifest: (u32, usize),
    pub(crate) table_block: u32,
    pub(crate) schema: u32,
}

/// A variable of the region.
#[derive(Debug)]
pub(crate) struct VariableState {
    pub(crate) meta: Variable,
    pub(crate) kind: Kind,
    pub(crate) shape: Vec<usize>,
    pub(crate) order: crate::Order,
    pub(crate) sources: Vec<Source>,
    /// The source whose content the next version shows, unless the variable is tracked and left out of it.
    pub(crate) current: Option<usize>,
    /// Where the newest version of this producer has a tracked variable.
    pub(crate) shown: Option<Extent>,
    pub(crate) loans: Vec<OpenLoan>,
    pub(crate) loan_maps: Vec<Arc<LoanMap>>,
}

/// A variable of the recovered version that the new program has not declared yet.
#[derive(Debug)]
pub(crate) struct Dormant {
    pub(crate) meta: Variable,
    pub(crate) extent: Extent,
}

/// Everything a producer knows.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) directory: Directory,
    pub(crate) options: RegionOptions,
    pub(crate) head: Head,
    pub(crate) leases: LeaseFile,
    pub(crate) tables: Tables,
    pub(crate) planes: Planes,
    pub(crate) space: Space,
    pub(crate) tracker: Tracker,
    pub(crate) copier: Copier,
    pub(crate) variables: BTreeMap<u32, VariableState>,
    pub(crate) dormant: Vec<Dormant>,
    /// Windows of sources that are no more, which go with the next version that does not show them.
    pub(crate) leaving: Vec<(u32, u32)>,
    /// In the order of their publishing; the last is the newest.
    pub(crate) versions: Vec<Version>,
    /// Window table of the newest version.
    pub(crate) table: Arc<Vec<u32>>,
    pub(crate) sequence: u64,
    pub(crate) recovered: Option<u64>,
    pub(crate) schema: u32,
    pub(crate) schema_changed: bool,
    pub(crate) next_id: u32,
    pub(crate) next_serial: u64,
    /// Windows of managed variables that show a plane.
    pub(crate) shared_windows: usize,
    pub(crate) statistics: crate::Statistics,
    /// Lists reused by every publish.
    pub(crate) copies: Vec<PageCopy>,
    pub(crate) bytes: Vec<u8>,
}

fn open(path: &Path, mode: u32) -> Result<File> {
    files::create_file(path, mode).map_err(|error| Error::io("open", path, error))
}

impl Producer {
    pub(crate) fn open(options: RegionOptions, name: &str) -> Result<Producer> {
        files::check_pages()?;
        let dir = files::region_dir(&options.dir, name)?;
        check_neighbours(&options.dir, &dir, name)?;
        let tracker = Tracker::open(options.tracker)?;
        make_dir(&dir, options.mode)?;
        points::hit("create.dir");
        let leases = lock_region(&dir, name, options.mode)?;
        points::hit("create.locked");
        let directory = Directory::open(&dir)?;
        let head_path = dir.join(head::FILE);
        let head_file = open(&head_path, options.mode)?;
        let mut begin = vec![0; head::HEAD_BYTES];
        let length = read_begin(&head_file, &mut begin).map_err(|error| Error::io("read", &head_path, error))?;
        let corrupt = |corrupt| Error::Corrupt { dir: dir.clone(), corrupt };
        let finished = head::check_geometry(&begin[..length]).map_err(corrupt)?;
        if finished && length < head::HEAD_BYTES {
            // The magic is written last, so a head that has it was whole once, and its versions may still be there.
            let (expected, found) = (format!("{} bytes", head::HEAD_BYTES), "the end of the file");
            return Err(corrupt(Corrupt::new(head::FILE, length, expected, found)));
        }
        if !finished {
            clear_dir(&dir)?;
            // The head is written where observers may already wait for its magic, so it keeps its place.
            take_head(&head_file, &head_path)?;
            points::hit("create.head");
        }
        let tables_path = dir.join(table::FILE);
        let tables_file = open(&tables_path, options.mode)?;
        check_blocks(&tables_file, &tables_path).and_then(|found| found.map_err(corrupt))?;
        let tables = Tables::open(tables_file, tables_path)?;
        let head = Head::map(&head_file, &head_path, true)?;
        let mut producer = Producer {
            name: name.to_string(),
            planes: Planes::new(&dir, directory.clone(), options.mode),
            directory,
            copier: Copier::new(options.threads),
            options,
            head,
            leases,
            tables,
            space: Space::default(),
            tracker,
            variables: BTreeMap::new(),
            dormant: Vec::new(),
            leaving: Vec::new(),
            versions: Vec::new(),
            table: Arc::new(Vec::new()),
            sequence: 0,
            recovered: None,
            schema: 0,
            schema_changed: true,
            next_id: 0,
            next_serial: 1,
            shared_windows: 0,
            statistics: crate::Statistics::default(),
            copies: Vec::new(),
            bytes: Vec::new(),
            dir,
        };
        if finished {
            points::hit("recover.begin");
            producer.recover()?;
            points::hit("recover.done");
        } else {
            points::hit("create.tables");
            producer.head.set_number64(head::MAGIC_AT, head::MAGIC);
        }
        producer.head.set_number32(head::KEEP_AT, producer.options.keep as u32);
        producer.head.set_number64(head::BOUND_BYTES_AT, producer.options.bound_bytes.unwrap_or(0));
        producer.head.set_number32(head::PRODUCER_PID_AT, std::process::id());
        producer.head.set_number32(head::TRACKER_AT, producer.tracker.kind().code());
        producer.head.ring();
        points::hit("create.done");
        Ok(producer)
    }

    /// Takes over what a dead producer left: the versions that exist, their slots and their blocks.
    fn recover(&mut self) -> Result<()> {
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
        points::hit("recover.planes");
        // Versions that were being retired may be free by now, and older ones than are kept may go.
        self.retire_old(self.options.keep)?;
        if let Some(newest) = self.versions.last().cloned() {
            let manifest = self.read_manifest(&newest)?;
            let schema = read_schema(&self.dir, newest.schema)?;
            self.table = newest.table.clone();
            self.schema = newest.schema;
            self.recovered = Some(newest.number);
            self.next_id = schema.variables.iter().map(|variable| variable.id + 1).max().unwrap_or(0);
            for (index, extent) in manifest.extents.into_iter().enumerate() {
                let at =
                    newest.manifest.0 as usize * BLOCK_BYTES + manifest::HEADER_BYTES + index * manifest::EXTENT_BYTES;
                let meta = find_meta(&schema, &extent, at).map_err(corrupt)?;
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

    fn read_version(&mut self, leased: Leased, state: State) -> Result<Version> {
        let descriptor = self.head.descriptor(leased.slot);
        let dir = self.dir.clone();
        let corrupt = |corrupt| Error::Corrupt { dir: dir.clone(), corrupt };
        descriptor.check(leased.slot).map_err(corrupt)?;
        let at = head::descriptor_at(leased.slot);
        let blocks = self.tables.blocks();
        let table_bytes = descriptor.windows as usize * 4;
        let span = |block: u32, bytes: usize| u64::from(block) + (bytes.div_ceil(BLOCK_BYTES)) as u64;
        if span(descriptor.table_block, table_bytes) > u64::from(blocks)
            || span(descriptor.manifest_block, descriptor.manifest_bytes as usize) > u64::from(blocks)
        {
            let found = format!("{descriptor:?}");
            return Err(corrupt(Corrupt::new(head::FILE, at, format!("{blocks} blocks"), found)));
        }
        let read = |block: u32, bytes: usize, crc: u32| {
            let mut buffer = vec![0; bytes];
            self.tables.read(block, &mut buffer);
            match table::checksum(&buffer) {
                found if found == crc => Ok(buffer),
                found => {
                    let (expected, found) = (format!("checksum {crc:#010x}"), format!("{found:#010x}"));
                    Err(corrupt(Corrupt::new(table::FILE, block as usize * BLOCK_BYTES, expected, found)))
                }
            }
        };
        read(descriptor.manifest_block, descriptor.manifest_bytes as usize, descriptor.manifest_crc)?;
        let bytes = read(descriptor.table_block, table_bytes, descriptor.table_crc)?;
        let words: Vec<u32> = bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        for (index, word) in words.iter().enumerate() {
            let at = descriptor.table_block as usize * BLOCK_BYTES + index * 4;
            if let Entry::Mixed(block) = Entry::decode(*word, at, blocks, PLANES_MAX).map_err(corrupt)? {
                let subtable = self.tables.subtable(block);
                table::check_subtable(block, &subtable, PLANES_MAX).map_err(corrupt)?;
                self.tables.retain(block, WINDOW_PAGES);
            }
        }
        self.tables.retain(descriptor.table_block, table_bytes);
        self.tables.retain(descriptor.manifest_block, descriptor.manifest_bytes as usize);
        Ok(Version {
            leased,
            number: descriptor.version,
            state,
            table: Arc::new(words),
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
            let path = self.dir.join(plane_file(plane));
            let bytes = match std::fs::metadata(&path) {
                Ok(meta) => meta.len(),
                Err(error) if error.kind() == ErrorKind::NotFound => 0,
                Err(error) => return Err(Error::io("stat", &path, error)),
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

    fn read_manifest(&self, version: &Version) -> Result<Manifest> {
        let (block, bytes) = version.manifest;
        let mut buffer = vec![0; bytes];
        self.tables.read(block, &mut buffer);
        Manifest::decode(table::FILE, block as usize * BLOCK_BYTES, &buffer, version.table.len() as u32)
            .map_err(|corrupt| Error::Corrupt { dir: self.dir.clone(), corrupt })
    }

    /// The plane of each page of a window in the newest version.
    pub(crate) fn subtable(&self, window: usize) -> Subtable {
        expand(&self.tables, self.table.get(window).copied().unwrap_or(u32::from(ZERO_PLANE)))
    }

    /// Adds a variable, or takes up the one of this name that the recovered version has.
    pub(crate) fn declare(&mut self, declaration: Declaration) -> Result<u32> {
        check_variable_name(&declaration.name)?;
        declaration
            .dtype
            .check()
            .map_err(|error| Error::WrongShape { name: declaration.name.clone(), why: error.to_string() })?;
        if self.variables.values().any(|state| state.meta.name == declaration.name) {
            return Err(Error::VariableExists { region: self.name.clone(), name: declaration.name });
        }
        let shape = declaration.kind.shape().unwrap_or(&[]).to_vec();
        let bytes = element::array_bytes(&declaration.dtype, &shape)
            .map_err(|why| Error::WrongShape { name: declaration.name.clone(), why })?;
        let dormant = self.dormant.iter().position(|dormant| dormant.meta.name == declaration.name);
        let matches = dormant.map(|index| &self.dormant[index]).is_some_and(|dormant| {
            dormant.meta.dtype == declaration.dtype
                && (declaration.kind.is_tracked()
                    || dormant.extent.order == declaration.order
                        && dormant.extent.page_offset == 0
                        && dormant.extent.shape.iter().map(|n| *n as usize).eq(shape.iter().copied()))
        });
        let found = dormant.map(|index| self.dormant.remove(index));
        let id = match (&found, matches) {
            (Some(dormant), true) => dormant.meta.id,
            _ => {
                self.next_id += 1;
                self.next_id - 1
            }
        };
        let meta = Variable {
            id,
            name: declaration.name,
            dtype: declaration.dtype,
            order: declaration.order,
            units: declaration.units,
            attributes: declaration.attributes,
        };
        let mut state = VariableState {
            order: meta.order,
            meta,
            kind: declaration.kind,
            shape,
            sources: Vec::new(),
            current: None,
            shown: None,
            loans: Vec::new(),
            loan_maps: Vec::new(),
        };
        match found {
            Some(dormant) if matches && !state.kind.is_tracked() => self.adopt(&mut state, &dormant.extent, bytes)?,
            Some(dormant) => {
                self.clear_windows(dormant.extent.window, dormant.extent.windows().max(1) as u32);
                self.space.give_back(dormant.extent.window, dormant.extent.windows() as u32);
                if !state.kind.is_tracked() {
                    self.furnish(&mut state, bytes)?;
                }
            }
            None if !state.kind.is_tracked() => self.furnish(&mut state, bytes)?,
            None => {}
        }
        self.variables.insert(id, state);
        self.schema_changed = true;
        Ok(id)
    }

    fn working(&self, kind: &Kind, windows: usize) -> Result<Working> {
        match kind {
            Kind::Managed { .. } => Managed::new(windows, self.options.large_pages)
                .map(Working::Managed)
                .map_err(|failure| Error::system(&self.dir, failure)),
            Kind::Tracked => Ok(Working::Tracked),
            Kind::Loaned { .. } => Ok(Working::Loaned),
        }
    }

    /// Gives a managed or loaned variable a new place, and memory if it is managed.
    pub(crate) fn furnish(&mut self, state: &mut VariableState, bytes: usize) -> Result<()> {
        let windows = bytes.div_ceil(WINDOW_BYTES).max(1);
        let working = self.working(&state.kind, windows)?;
        let place = self.new_place(windows as u32)?;
        let mut source = Source::new(place, working);
        source.memory.owned = true;
        let address = match &source.working {
            Working::Managed(managed) => managed.address(),
            _ => 0,
        };
        source.set_memory(address, bytes);
        state.loan_maps.clear();
        state.sources.push(source);
        state.current = Some(state.sources.len() - 1);
        Ok(())
    }

    fn adopt(&mut self, state: &mut VariableState, extent: &Extent, bytes: usize) -> Result<()> {
        let windows = extent.windows().max(1) as usize;
        let mut working = self.working(&state.kind, windows)?;
        if let Working::Managed(managed) = &mut working {
            for index in 0..extent.windows() as usize {
                let subtable = self.subtable(extent.window as usize + index);
                managed.adopt(index, extent.window, &subtable, &self.planes)?;
            }
            self.shared_windows += managed.shared_windows();
        }
        let mut source = Source::new(Place::new(extent.place, extent.window, windows as u32), working);
        source.memory.owned = true;
        let address = match &source.working {
            Working::Managed(managed) => managed.address(),
            _ => 0,
        };
        source.set_memory(address, bytes);
        state.sources.push(source);
        state.current = Some(0);
        Ok(())
    }

    pub(crate) fn new_place(&mut self, windows: u32) -> Result<Place> {
        let window = self.space.take(windows);
        if let Err(error) = self.planes.grow(self.space.windows()) {
            self.space.give_back(window, windows);
            return Err(error);
        }
        self.next_serial += 1;
        Ok(Place::new(self.next_serial - 1, window, windows))
    }

    /// Lets go of a source. The versions that exist keep its pages.
    pub(crate) fn drop_source(&mut self, source: Source) {
        if let Working::Managed(managed) = &source.working {
            self.shared_windows = self.shared_windows.saturating_sub(managed.shared_windows());
        }
        self.tracker.unwatch(&source.memory, source.watch);
        let (window, windows) = (source.place.window, source.place.windows);
        self.clear_windows(window, windows);
        self.space.give_back(window, windows);
    }

    /// Leaves windows out of the versions to come.
    pub(crate) fn clear_windows(&mut self, window: u32, windows: u32) {
        let table = Arc::make_mut(&mut self.table);
        let end = (window as usize + windows as usize).min(table.len());
        // Blocks of sub-tables belong to versions, which keep their own table; this one is only the next one's draft.
        table[(window as usize).min(end)..end].fill(u32::from(ZERO_PLANE));
    }

    /// Lets go of a source of a tracked variable when the next version is there. Until then the newest may be all there is
    /// of its content.
    pub(crate) fn leave_source(&mut self, source: Source) {
        self.tracker.unwatch(&source.memory, source.watch);
        self.leaving.push((source.place.window, source.place.windows));
    }

    /// The windows that a version with these extents leaves out: of sources that are no more or will be copied whole when
    /// they are used again, and of variables of the recovered version that were not declared again.
    pub(crate) fn left_windows(&self, extents: &[Extent]) -> Vec<(u32, u32)> {
        let stale = self.variables.values().flat_map(|state| &state.sources).filter(|source| source.stale);
        let dormant = self.dormant.iter().map(|dormant| &dormant.extent);
        let mut left = self.leaving.clone();
        left.extend(stale.map(|source| (source.place.window, source.place.windows)));
        left.extend(dormant.map(|extent| (extent.window, extent.windows().max(1) as u32)));
        left.retain(|(window, _)| extents.iter().all(|extent| extent.window != *window));
        left
    }

    /// Gives back what the version just committed left out for good.
    pub(crate) fn drop_left(&mut self, extents: &[Extent]) {
        let Producer { leaving, dormant, space, .. } = self;
        leaving.retain(|(window, windows)| {
            let stays = extents.iter().any(|extent| extent.window == *window);
            if !stays {
                space.give_back(*window, *windows);
            }
            stays
        });
        for dormant in dormant.drain(..) {
            space.give_back(dormant.extent.window, dormant.extent.windows() as u32);
        }
    }

    /// Retires versions until at most `keep` are live, and asks again for those that were held.
    pub(crate) fn retire_old(&mut self, keep: usize) -> Result<()> {
        let mut live = self.versions.iter().filter(|version| version.state == State::Live).count();
        let mut index = 0;
        while index + 1 < self.versions.len() {
            let is_live = self.versions[index].state == State::Live;
            if is_live && live <= keep {
                index += 1;
                continue;
            }
            live -= usize::from(is_live);
            if !self.retire(index)? {
                index += 1;
            }
        }
        Ok(())
    }

    /// Retires the oldest live version, if there is another; true if there was one to retire.
    pub(crate) fn retire_oldest(&mut self) -> Result<bool> {
        let oldest = self.versions.iter().position(|version| version.state == State::Live);
        match oldest {
            Some(index) if index + 1 < self.versions.len() => self.retire(index).map(|_| true),
            _ => Ok(false),
        }
    }

    /// Retires one version that is not the newest; true if nobody holds it, and it is gone.
    fn retire(&mut self, index: usize) -> Result<bool> {
        points::hit("retire.begin");
        let gone = protocol::retire(&self.head, &self.leases, self.versions[index].leased)?;
        points::hit("retire.asked");
        if !gone {
            self.versions[index].state = State::Retiring;
            return Ok(false);
        }
        let version = self.versions.remove(index);
        let before = index.checked_sub(1).map(|before| self.versions[before].table.clone());
        let after = self.versions.get(index).map(|version| version.table.clone());
        self.free_slots(&version.table, before.as_deref(), after.as_deref());
        for word in version.table.iter().filter(|word| **word & table::SUBTABLE != 0) {
            self.tables.release(word & !table::SUBTABLE, WINDOW_PAGES);
        }
        self.tables.release(version.manifest.0, version.manifest.1);
        self.tables.release(version.table_block, version.table.len() * 4);
        if self.versions.iter().all(|other| other.schema != version.schema) && version.schema != self.schema {
            // A schema file that stays behind is found by the next recovery.
            let _ = std::fs::remove_file(self.directory.join(&schema_file(version.schema)));
        }
        points::hit("retire.done");
        Ok(true)
    }

    /// Frees the slots that only the version with this table used. A page keeps its slot from one version to the next
    /// until it is written again, so a slot neither neighbour uses is used by no version.
    fn free_slots(&mut self, gone: &[u32], before: Option<&Vec<u32>>, after: Option<&Vec<u32>>) {
        let entry = |table: Option<&Vec<u32>>, window: usize| {
            table.and_then(|table| table.get(window)).copied().unwrap_or(u32::from(ZERO_PLANE))
        };
        for (window, word) in gone.iter().enumerate() {
            let (left, right) = (entry(before, window), entry(after, window));
            if *word == right || *word == left || *word == u32::from(ZERO_PLANE) {
                continue;
            }
            let pages = expand(&self.tables, *word);
            let (left, right) = (expand(&self.tables, left), expand(&self.tables, right));
            let mut by_plane: Vec<(u8, Mask)> = Vec::new();
            for first in (0..WINDOW_PAGES).step_by(EIGHT) {
                let eight = first..first + EIGHT;
                // Most pages kept their slot; eight of them are compared at once.
                if pages[eight.clone()] == right[eight.clone()] {
                    continue;
                }
                for page in eight {
                    let plane = pages[page];
                    if plane == ZERO_PLANE || plane == left[page] || plane == right[page] {
                        continue;
                    }
                    match by_plane.iter_mut().find(|(number, _)| *number == plane) {
                        Some((_, mask)) => mask.insert(page),
                        None => {
                            let mut mask = Mask::EMPTY;
                            mask.insert(page);
                            by_plane.push((plane, mask));
                        }
                    }
                }
            }
            for (plane, mask) in by_plane {
                self.planes.unmark(plane as usize, window, mask);
            }
        }
    }

    /// Versions held by observers although they are not wanted any more.
    pub(crate) fn held(&self) -> usize {
        self.versions.iter().filter(|version| version.state == State::Retiring).count()
    }

    /// Writes the schema file for the variables as they are now.
    pub(crate) fn write_schema(&mut self) -> Result<()> {
        let number = (self.versions.iter().map(|version| version.schema).max().unwrap_or(0)).max(self.schema) + 1;
        let schema = Schema { variables: self.variables.values().map(|state| state.meta.clone()).collect() };
        let path = self.dir.join(schema_file(number));
        let file = files::create_file(&self.directory.join(&schema_file(number)), self.options.mode);
        let mut file = file.map_err(|error| Error::io("open", &path, error))?;
        file.set_len(0).map_err(|error| Error::io("ftruncate", &path, error))?;
        let text = schema.encode();
        file.write_all(&text).map_err(|error| Error::io("write", &path, error).needing(text.len() as u64))?;
        points::hit("publish.schema");
        let old = std::mem::replace(&mut self.schema, number);
        if old != 0 && self.versions.iter().all(|version| version.schema != old) {
            let _ = std::fs::remove_file(self.directory.join(&schema_file(old)));
        }
        self.schema_changed = false;
        Ok(())
    }

    /// The variables' names, for error messages.
    pub(crate) fn names(&self) -> Vec<String> {
        self.variables.values().map(|state| state.meta.name.clone()).collect()
    }

    pub(crate) fn update_counters(&mut self) {
        let private: u64 = self.variables.values().flat_map(|state| &state.sources).map(private_bytes).sum();
        self.statistics.plane_bytes = self.planes.present_bytes();
        self.statistics.working_bytes = private;
        self.head.set(Counter::PlaneBytes, self.statistics.plane_bytes);
        self.head.set(Counter::WorkingBytes, private);
        self.head.set(Counter::Planes, self.planes.count() as u64);
    }
}

fn private_bytes(source: &Source) -> u64 {
    match &source.working {
        Working::Managed(managed) => managed.private_bytes(),
        _ => 0,
    }
}

/// The plane of each page of a window with this entry.
pub(crate) fn expand(tables: &Tables, word: u32) -> Subtable {
    if word & table::SUBTABLE == 0 { [word as u8; WINDOW_PAGES] } else { tables.subtable(word & !table::SUBTABLE) }
}

/// Marks the slots of a window that a version uses.
fn mark_used(planes: &mut Planes, tables: &Tables, window: usize, word: u32) {
    if word == u32::from(ZERO_PLANE) {
        return;
    }
    if word & table::SUBTABLE == 0 {
        return planes.mark(word as usize, window, Mask::FULL);
    }
    for (page, plane) in tables.subtable(word & !table::SUBTABLE).into_iter().enumerate() {
        if plane != ZERO_PLANE {
            let mut mask = Mask::EMPTY;
            mask.insert(page);
            planes.mark(plane as usize, window, mask);
        }
    }
}

fn check_variable_name(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > 200 {
        "it is longer than 200 bytes"
    } else if name.chars().any(|c| c.is_control() || c.is_whitespace() || "[]:/".contains(c)) {
        "it has a blank, a control character, or one of [ ] : /"
    } else {
        return Ok(());
    };
    Err(Error::BadName { name: name.into(), what: "variable", why })
}

/// Refuses to put a region inside another, where nobody would find it.
fn check_neighbours(root: &Path, dir: &Path, name: &str) -> Result<()> {
    let fail = |why| Err(Error::BadName { name: name.into(), what: "region", why });
    let above = dir.ancestors().skip(1).take_while(|above| *above != root && above.starts_with(root));
    if above.into_iter().any(|above| above.join(stillframe_segment::lease::FILE).exists()) {
        return fail("it lies inside another region; choose a name beside it");
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_region = |entry: std::fs::DirEntry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir()) && !files::is_own_file(&entry.file_name().to_string_lossy())
    };
    if entries.into_iter().any(is_region) {
        return fail("other regions lie below it; choose a name beside them");
    }
    Ok(())
}

/// Makes a directory and those above it, as far as they are not there.
fn make_dir(dir: &Path, mode: u32) -> Result<()> {
    let mut failure = ErrorKind::NotFound.into();
    for _ in 0..100 {
        if dir.is_dir() {
            return Ok(());
        }
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            make_dir(parent, mode)?;
        }
        match std::fs::DirBuilder::new().mode(mode).create(dir) {
            Ok(()) => {
                // The process's umask took bits away that were asked for; a group's bit that the directory inherited stays.
                let fail = |error| Error::io("chmod", dir, error);
                let inherited = std::fs::metadata(dir).map_err(fail)?.permissions().mode() & 0o7000;
                return std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode | inherited)).map_err(fail);
            }
            // Another process made it, or removed the one above it together with its last region.
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => failure = error,
            Err(error) => return Err(Error::io("open", dir, error)),
        }
    }
    Err(Error::io("open", dir, failure))
}

/// Opens the lease file and takes the producer's lock in it.
fn lock_region(dir: &Path, name: &str, mode: u32) -> Result<LeaseFile> {
    let path = dir.join(lease::FILE);
    for _ in 0..1000 {
        let file = match files::create_file(&path, mode) {
            // The directory went away because the region was removed at this moment.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                make_dir(dir, mode)?;
                continue;
            }
            other => other.map_err(|error| Error::io("open", &path, error))?,
        };
        let leases = LeaseFile::new(file, path.clone(), name);
        if !leases.try_produce()? {
            let mut pid = [0; 4];
            let read =
                File::open(dir.join(head::FILE)).and_then(|f| f.read_exact_at(&mut pid, head::PRODUCER_PID_AT as u64));
            let pid = read.map_or(0, |()| u32::from_le_bytes(pid));
            return Err(Error::InUse { region: name.into(), pid });
        }
        // A file that was removed between opening and locking protects nothing.
        let ours = leases.file()?.metadata().map_err(|error| Error::io("fstat", &path, error))?;
        match std::fs::metadata(&path) {
            Ok(there) if there.ino() == ours.ino() => return Ok(leases),
            _ => continue,
        }
    }
    Err(Error::InUse { region: name.into(), pid: 0 })
}

fn read_begin(file: &File, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64)? {
            0 => break,
            count => length += count,
        }
    }
    Ok(length)
}

/// Removes what an unfinished creation left, except for the files observers may have open already.
fn clear_dir(dir: &Path) -> Result<()> {
    let entries = std::fs::read_dir(dir).map_err(|error| Error::io("readdir", dir, error))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == table::FILE || name.starts_with("schema.") || name.starts_with("plane.") {
            std::fs::remove_file(entry.path()).map_err(|error| Error::io("unlink", &entry.path(), error))?;
        }
    }
    Ok(())
}

/// Gives the head its space and its geometry, all but the magic.
fn take_head(file: &File, path: &Path) -> Result<()> {
    file.set_len(0).map_err(|error| Error::io("ftruncate", path, error))?;
    let bytes = head::encode_geometry(files::unix_ns());
    // Writing takes the space, so that the mapping of a full file system's head never faults.
    file.write_all_at(&bytes, 0).map_err(|error| Error::io("write", path, error).needing(head::HEAD_BYTES as u64))
}

/// Reads a schema file.
pub(crate) fn read_schema(dir: &Path, number: u32) -> Result<Schema> {
    let name = schema_file(number);
    let path = dir.join(&name);
    let corrupt = |corrupt| Error::Corrupt { dir: dir.to_path_buf(), corrupt };
    let file = File::open(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => corrupt(Corrupt::new(&name, 0, "a schema", "no such file")),
        _ => Error::io("open", &path, error),
    })?;
    let mut bytes = Vec::new();
    let mut limited = file.take(schema::BYTES_MAX as u64 + 1);
    limited.read_to_end(&mut bytes).map_err(|error| Error::io("read", &path, error))?;
    if bytes.len() > schema::BYTES_MAX {
        let expected = format!("at most {} bytes", schema::BYTES_MAX);
        return Err(corrupt(Corrupt::new(&name, schema::BYTES_MAX, expected, "more")));
    }
    Schema::decode(&name, &bytes).map_err(corrupt)
}

/// What the schema says of the variable whose record lies at byte `at` of `tables`, if the two fit together.
pub(crate) fn find_meta<'a>(schema: &'a Schema, extent: &Extent, at: usize) -> Result<&'a Variable, Corrupt> {
    let meta = schema.variables.iter().find(|variable| variable.id == extent.variable);
    let meta = meta.ok_or_else(|| Corrupt::new(table::FILE, at, "a variable of the schema", extent.variable))?;
    let shape: Vec<usize> = extent.shape.iter().map(|n| *n as usize).collect();
    if element::array_bytes(&meta.dtype, &shape) != Ok(extent.bytes as usize) {
        let expected = format!("the bytes of {shape:?} elements of {}", meta.dtype);
        return Err(Corrupt::new(table::FILE, at + manifest::BYTES_AT, expected, extent.bytes));
    }
    Ok(meta)
}

/// Most blocks the `tables` file may have: 64 GiB. What is in use is counted for each block of it.
const BLOCKS_MAX: u64 = 1 << 27;

fn check_blocks(file: &File, path: &Path) -> Result<Result<(), Corrupt>> {
    let bytes = file.metadata().map_err(|error| Error::io("fstat", path, error))?.len();
    let most = BLOCKS_MAX * BLOCK_BYTES as u64;
    Ok(match bytes <= most {
        true => Ok(()),
        false => Err(Corrupt::new(table::FILE, most as usize, "the end of the file", format!("{bytes} bytes"))),
    })
}
