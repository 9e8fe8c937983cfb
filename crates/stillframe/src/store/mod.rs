//! What lies in shared memory, and how a version comes and goes there.
//!
//! A [`Store`] is one region's, and alone knows where its bytes lie. A version is made as a [`Draft`](draft::Draft): it takes
//! frames of planes and blocks of tables, gives all of them back if it is dropped, and becomes visible in one way only,
//! [`commit`](draft::Draft::commit). Nothing else writes tables.

#[cfg(feature = "points")]
mod accounts;
pub(crate) mod draft;
pub(crate) mod entries;
pub(crate) mod head;
pub(crate) mod lease;
pub(crate) mod ownership;
pub(crate) mod plane;
pub(crate) mod planes;
pub(crate) mod recovery;
pub(crate) mod regions;
pub(crate) mod retirement;
pub(crate) mod schemas;
pub(crate) mod space;
pub(crate) mod tables;
pub(crate) mod turn;
pub(crate) mod unit;
pub(crate) mod version;

use crate::clock;
use crate::error::{Error, Result};
use crate::list;
use crate::place::Place;
use crate::place::arena::index::SchemaEntry;
use crate::place::names::schema_file;
use crate::store::draft::Spare;
use crate::store::head::Head;
use crate::store::lease::RegionLeases;
use crate::store::planes::{Assignment, Planes};
use crate::store::schemas::read_entry;
use crate::store::space::{Allocation, Space};
use crate::store::tables::{BLOCKS_MAX, Tables};
use crate::store::version::{Subtable, Version, expand_window};
use std::borrow::Cow;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use stillframe_kernel::points;
use stillframe_protocol::{Board, State};
use stillframe_segment::head::Counter;
use stillframe_segment::table::ZERO_PLANE;
use stillframe_segment::{self as segment, BLOCK_BYTES, Corrupt, Extent, Schema, manifest, schema, table};

/// The part of a region that lies in shared memory, as its producer has it.
#[derive(Debug)]
pub(crate) struct Store {
    /// The region's name.
    pub(crate) name: String,
    pub(crate) place: Place,
    bound_bytes: Option<u64>,
    pub(crate) head: Head,
    /// With the producer's lock. Loans have it, too: nobody takes the region over while somebody may write frames of it.
    pub(crate) leases: Arc<RegionLeases>,
    tables: Tables,
    planes: Planes,
    space: Space,
    /// In the order of their publishing; the last is the newest.
    versions: Vec<Version>,
    /// The window table with which the next version begins: the newest version's, less what was given up since.
    base: Arc<Vec<u32>>,
    /// Allocations given up, which go with the next version that does not show them.
    leaving: Vec<(u32, u32)>,
    sequence: u64,
    /// Number of the schema of the versions to come.
    schema: u32,
    /// The run that publishes the versions to come; 0 until that is found out.
    run: u64,
    /// Highest number that a schema of the region ever had. It stands in the head, too.
    schemas: u32,
    /// Above the ids of all variables that the region ever had. It stands in the head, too.
    next_id: u32,
    next_serial: u64,
    /// Bytes to be written, reused by every commit.
    buffer: Vec<u8>,
    spare: Spare,
    /// What a former run left, until its memory is found out to be of use or given back.
    former: Option<Former>,
}

/// The memory that the run before had, as the producer that recovered the region looks after it.
#[derive(Debug, Default)]
struct Former {
    /// Sequence number of the first version that this producer published.
    first_own: Option<u64>,
    /// How often all windows were visited since the run before has no version left, and with which one this visit goes on.
    visits: usize,
    next_window: usize,
}

/// What a producer says of itself in the head.
pub(crate) struct Beginning {
    pub(crate) keep: u32,
    pub(crate) tracker: u32,
    /// Rank and number of ranks; zeros if the region is of no group.
    pub(crate) rank: (u32, u32),
    pub(crate) run: NonZeroU64,
}

/// What to do when numbers are used up.
const MAKE_ANEW: &str = "remove the region and make it anew ('still rm', or the option 'fresh')";

impl Store {
    /// Opens what lies in a place of which the producer's lock is had, or makes it. Whether it was whole already, so that it has
    /// to be recovered, is the second value.
    pub(crate) fn open(
        place: Place,
        leases: RegionLeases,
        name: &str,
        bound_bytes: Option<u64>,
    ) -> Result<(Store, bool)> {
        let corrupt = |corrupt| Error::Corrupt { dir: place.path().into(), corrupt };
        let begin = place.read_head()?;
        let is_whole = segment::head::check_geometry(&begin).map_err(corrupt)?;
        if is_whole && begin.len() < segment::head::HEAD_BYTES {
            // The magic is written last, so a head that has it was whole once, and its versions may still be there.
            let bytes = segment::head::HEAD_BYTES as u64;
            return Err(corrupt(Corrupt::cut(segment::head::FILE, begin.len() as u64, bytes)));
        }
        if !is_whole {
            place.make_head(&segment::head::encode_geometry(clock::unix_ns()))?;
            points::hit("create.head");
        }
        let tables = Tables::new(place.open_tables(BLOCKS_MAX * BLOCK_BYTES as u64)?, name);
        let head = Head::at(place.map_head()?).with_bell(place.bell());
        head.set_tentative(0);
        head.set_lapsed(0);
        // Of a producer that was killed.
        head.set_waiting(false);
        head.set_skipping(0);
        head.set_number64(segment::head::RUN_AT, 0);
        let store = Store {
            name: name.into(),
            planes: Planes::new(place.clone()),
            place,
            bound_bytes,
            head,
            leases: leases.into(),
            tables,
            space: Space::default(),
            versions: Vec::new(),
            base: Arc::new(Vec::new()),
            leaving: Vec::new(),
            sequence: 0,
            schema: 0,
            run: 0,
            schemas: 0,
            next_id: 0,
            next_serial: 1,
            buffer: Vec::new(),
            spare: Spare::default(),
            former: is_whole.then(Former::default),
        };
        Ok((store, is_whole))
    }

    /// Sets the most bytes that the planes may have from here on, for all to see.
    pub(crate) fn set_bound_bytes(&mut self, bytes: Option<u64>) {
        self.bound_bytes = bytes;
        self.head.set_number64(segment::head::BOUND_BYTES_AT, bytes.unwrap_or(0));
    }

    /// Says in the head who produces. With it a region that was not whole is.
    pub(crate) fn begin(&mut self, beginning: &Beginning, is_whole: bool) {
        self.run = beginning.run.get();
        let head = &self.head;
        head.set_number64(segment::head::RUN_AT, self.run);
        head.set_number32(segment::head::KEEP_AT, beginning.keep);
        head.set_number64(segment::head::BOUND_BYTES_AT, self.bound_bytes.unwrap_or(0));
        head.set_number32(segment::head::PRODUCER_PID_AT, std::process::id());
        head.set_number32(segment::head::TRACKER_AT, beginning.tracker);
        let (rank, ranks) = beginning.rank;
        head.set_number32(segment::head::RANK_AT, rank);
        head.set_number32(segment::head::RANKS_AT, ranks);
        head.set_number64(segment::head::BEGUN_NS_AT, clock::unix_ns());
        head.set_ended(false);
        if !is_whole {
            points::hit("create.tables");
            head.set_number64(segment::head::MAGIC_AT, segment::head::MAGIC);
        }
    }

    /// After a publish: gives back memory that is not needed. Of what a former run left that is in the first publishes after its
    /// last version is gone: in windows that are nobody's any more at once, as those of an array that is smaller now, and elsewhere in
    /// the next publish, if that did not write it. A program that runs once per version finds the memory that it writes. No publish
    /// gives back more than takes it some ten milliseconds: those that follow go on.
    pub(crate) fn cool(&mut self) {
        const VISITS: usize = 2;
        const PAGES: u64 = (256 << 20) / stillframe_segment::PAGE_BYTES as u64;
        let Store { former: left, versions, space, planes, sequence, .. } = self;
        let Some(former) = left else { return planes.cool(false) };
        let first_own = *former.first_own.get_or_insert(*sequence);
        if versions.iter().any(|version| version.leased.sequence < first_own) {
            return planes.cool(false);
        }
        if let Some(window) = planes.cool_windows(former.next_window, PAGES, |window| space.is_taken(window)) {
            former.next_window = window;
            return;
        }
        former.next_window = 0;
        former.visits += 1;
        if former.visits == VISITS {
            *left = None;
        }
    }

    /// Where the region lies, for messages.
    pub(crate) fn dir(&self) -> &Path {
        self.place.path()
    }

    fn corrupt(&self, corrupt: Corrupt) -> Error {
        Error::Corrupt { dir: self.dir().into(), corrupt }
    }

    pub(crate) fn planes(&self) -> &Planes {
        &self.planes
    }

    /// The planes, to be looked into or cooled. Frames are taken by drafts.
    pub(crate) fn planes_mut(&mut self) -> &mut Planes {
        &mut self.planes
    }

    /// The versions that exist, in the order of their publishing.
    pub(crate) fn versions(&self) -> &[Version] {
        &self.versions
    }

    pub(crate) fn newest_number(&self) -> Option<u64> {
        self.versions.last().map(|version| version.number)
    }

    /// Sequence number of the newest version.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The plane of each page of a window in the version with which the next one begins.
    pub(crate) fn subtable(&self, window: usize) -> Subtable {
        expand_window(&self.tables, &self.base, window)
    }

    /// The plane of each page of a window with this entry.
    pub(crate) fn expand(&self, word: u32) -> Subtable {
        version::expand(&self.tables, word)
    }

    /// Number of ring slots.
    pub(crate) fn slots(&self) -> usize {
        self.head.slots()
    }

    pub(crate) fn free_slot(&self) -> Option<usize> {
        (0..self.slots()).find(|slot| self.versions.iter().all(|version| version.leased.slot != *slot))
    }

    /// Versions that observers hold, but for the newest: those on their way out, and with `all` also those still wanted.
    pub(crate) fn held(&self, all: bool) -> usize {
        let older = self.versions.len().saturating_sub(1);
        let is_held = |index: &usize| match self.versions[*index].state {
            State::Retiring => true,
            _ => all && self.is_held(*index).unwrap_or(false),
        };
        (0..older).filter(is_held).count()
    }

    /// Refuses what no reader of the region would accept.
    pub(crate) fn check_limit(&self, what: &'static str, needed: u64, most: u64, advice: &'static str) -> Result<()> {
        match needed <= most {
            true => Ok(()),
            false => Err(Error::Limit { region: self.name.clone(), what, needed, most, advice }),
        }
    }

    /// The sequence number of the version to come.
    pub(crate) fn next_sequence(&self) -> Result<u64> {
        let next = self.sequence + 1;
        self.check_limit("the sequence number of its next version", next, segment::head::SEQUENCE_END - 1, MAKE_ANEW)?;
        Ok(next)
    }

    /// A number that no variable of the region ever had.
    pub(crate) fn new_id(&mut self) -> Result<u32> {
        let id = self.next_id;
        self.check_limit("the number of its next variable", id.into(), (schema::ID_END - 1).into(), MAKE_ANEW)?;
        self.next_id += 1;
        self.head.set_number32(segment::head::IDS_AT, self.next_id);
        Ok(id)
    }

    /// Takes windows of the page space.
    pub(crate) fn allocate(&mut self, windows: u32) -> Result<Allocation> {
        self.check_limit(
            "the serial number of its next allocation",
            self.next_serial,
            manifest::ALLOCATION_END - 1,
            MAKE_ANEW,
        )?;
        let window = self.space.take(windows).map_err(|failure| Error::system(self.place.path(), failure))?;
        let fits = self
            .check_limit(
                "the number of its windows of 2 MiB",
                self.space.windows() as u64,
                segment::head::WINDOWS_MAX.into(),
                "remove variables, or make them smaller",
            )
            .and_then(|()| self.planes.grow(self.space.windows()));
        if let Err(error) = fits {
            self.space.give_back(window, windows);
            return Err(error);
        }
        self.next_serial += 1;
        Ok(Allocation { serial: self.next_serial - 1, window, windows })
    }

    /// Gives windows back, which the versions to come leave out. The versions that exist keep their pages.
    pub(crate) fn free(&mut self, window: u32, windows: u32) {
        if Arc::get_mut(&mut self.base).is_none() {
            match list::copied(&self.base, self.base.len()) {
                Ok(own) => self.base = Arc::new(own),
                // Without memory for a table of its own it is left out when the version to come has one.
                Err(_) => return self.leave(window, windows),
            }
        }
        let Some(table) = Arc::get_mut(&mut self.base) else { return self.leave(window, windows) };
        let end = (window as usize + windows as usize).min(table.len());
        // Blocks of sub-tables belong to versions, which keep their own table.
        table[(window as usize).min(end)..end].fill(u32::from(ZERO_PLANE));
        self.space.give_back(window, windows);
    }

    /// Gives windows back when the next version is there. Until then the newest may be all there is of their content.
    pub(crate) fn leave(&mut self, window: u32, windows: u32) {
        self.leaving.push((window, windows));
    }

    /// Windows given up whose content the newest version may still show.
    pub(crate) fn leaving(&self) -> &[(u32, u32)] {
        &self.leaving
    }

    /// Gives back the windows given up that the version just committed does not show.
    fn give_back_left(&mut self, extents: &[Cow<'_, Extent>]) {
        let Store { leaving, space, .. } = self;
        leaving.retain(|(window, windows)| {
            let stays = extents.iter().any(|extent| extent.window == *window);
            if !stays {
                space.give_back(*window, *windows);
            }
            stays
        });
    }

    /// Frees frames that belonged to no version, as those of a loan that nobody will see.
    pub(crate) fn free_frames_of(&mut self, assignments: &[Assignment]) {
        for part in assignments {
            self.planes.unmark(part.plane, part.window, part.pages);
        }
    }

    /// Writes the schema of the versions to come, under a number that no version ever named.
    pub(crate) fn write_schema(&mut self, schema: &Schema) -> Result<()> {
        let number = self.schemas + 1;
        self.check_limit("the number of its next schema", number.into(), (schema::ID_END - 1).into(), MAKE_ANEW)?;
        let text = schema.encode();
        self.check_limit(
            "the bytes of its schema",
            text.len() as u64,
            schema::BYTES_MAX as u64,
            "remove variables, or say less in their attributes, units and names",
        )?;
        match &self.place {
            Place::Directory { directory, mode } => Place::write_schema(directory, *mode, number, &text)?,
            Place::Arena(region) => {
                let index = region.index()?;
                let block = self.tables.take(text.len())?;
                self.tables.write(block, &text);
                let entry = SchemaEntry { number, block, bytes: text.len() as u32, crc: table::checksum(&text) };
                if !index.add_schema(entry) {
                    self.tables.release(block, text.len());
                    let most = segment::index::SCHEMAS_MAX as u64;
                    self.check_limit("its schemas at once", most + 1, most, "let observers go of old versions")?;
                }
            }
        }
        points::hit("publish.schema");
        self.schemas = number;
        self.head.set_number32(segment::head::SCHEMAS_AT, number);
        let old = std::mem::replace(&mut self.schema, number);
        if old != 0 && self.versions.iter().all(|version| version.schema != old) {
            self.remove_schema(old);
        }
        Ok(())
    }

    /// Removes a schema that no version names. One that stays behind is found by the next recovery.
    fn remove_schema(&mut self, number: u32) {
        match &self.place {
            Place::Directory { directory, .. } => {
                let _ = directory.unlink(&schema_file(number));
            }
            Place::Arena(region) => {
                let Ok(index) = region.index() else { return };
                if let Some(entry) = index.remove_schema(number) {
                    self.tables.release(entry.block, entry.bytes as usize);
                }
            }
        }
    }

    /// Reads a schema.
    fn read_schema(&self, number: u32) -> Result<Schema> {
        let text = match &self.place {
            Place::Directory { directory, .. } => Place::read_schema(&directory.clone().into(), number)?,
            Place::Arena(_) => read_entry(&self.tables, self.place.schema_entry(number)?)?,
        };
        Schema::decode(&schema_file(number), &text).map_err(|corrupt| self.corrupt(corrupt))
    }

    /// Shows in the head how much memory and how many planes there are.
    pub(crate) fn count_planes(&self) {
        self.head.set(Counter::PlaneBytes, self.planes.present_bytes());
        self.head.set(Counter::Planes, self.planes.count() as u64);
    }
}
