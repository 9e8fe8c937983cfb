//! The state of a producer: how it begins, its variables, and the places they have.

use crate::aside::{End, Run};
use crate::companions::{self, Companions};
use crate::directory::{self, Directory};
use crate::files::{self, Head, LeaseFile, schema_file};
use crate::loan::{LoanMap, OpenLoan};
use crate::managed::{Managed, Subtable};
use crate::place::{Place, Source, Space, Working};
use crate::planes::Planes;
use crate::publish::shared_windows_max;
use crate::room::Patience;
use crate::tables::Tables;
use crate::tracker::Tracker;
use crate::{Declaration, Error, Kind, Part, RegionOptions, Result};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use stillframe_kernel::copy::{Copier, PageCopy};
use stillframe_kernel::exit::LastWords;
use stillframe_kernel::maps::Maps;
use stillframe_kernel::points;
use stillframe_protocol::{Leased, State};
use stillframe_segment::head::{self, Counter};
use stillframe_segment::table::{self, ZERO_PLANE};
use stillframe_segment::{Corrupt, Extent, Schema, Variable, WINDOW_BYTES, WINDOW_PAGES, manifest, schema};

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
    /// What its attributes tell of a global array.
    pub(crate) part: Option<Part>,
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
    /// What is done when the producer ends by itself.
    pub(crate) end: Arc<End>,
    /// Does it at the process's end.
    _last_words: LastWords,
    /// With the producer's lock. Loans have it, too: nobody takes the region over while somebody may write slots of it.
    pub(crate) leases: Arc<LeaseFile>,
    pub(crate) tables: Tables,
    pub(crate) planes: Planes,
    pub(crate) space: Space,
    pub(crate) tracker: Tracker,
    pub(crate) maps: Maps,
    pub(crate) copier: Copier,
    /// The other ranks, if the region is of a group.
    pub(crate) companions: Option<Companions>,
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
    /// Number of the schema of the variables as they were when they last changed.
    pub(crate) schema: u32,
    pub(crate) schema_changed: bool,
    /// Highest number that a schema of the region ever had. It stands in the head, too.
    pub(crate) schemas: u32,
    /// Above the ids of all variables that the region ever had. It stands in the head, too.
    pub(crate) next_id: u32,
    pub(crate) next_serial: u64,
    /// Windows of managed variables that show a plane.
    pub(crate) shared_windows: usize,
    pub(crate) statistics: crate::Statistics,
    pub(crate) patience: Patience,
    /// Lists reused by every publish.
    pub(crate) copies: Vec<PageCopy>,
    pub(crate) bytes: Vec<u8>,
}

/// What to do when numbers are used up.
const MAKE_ANEW: &str = "remove the region and make it anew ('still rm', or the option 'fresh')";

impl Producer {
    /// Begins as the producer of a region, or of that of a rank of the group that has this name.
    pub(crate) fn open(options: RegionOptions, given: &str) -> Result<Producer> {
        match Producer::begin(options.clone(), given) {
            Err(Error::NoSpace { .. }) if Run::new(&options, given)?.make_room() => Producer::begin(options, given),
            other => other,
        }
    }

    fn begin(options: RegionOptions, given: &str) -> Result<Producer> {
        files::check_pages()?;
        let name = &options.rank.map_or(given.into(), |(rank, _)| files::rank_name(given, rank));
        let dir = files::new_region_dir(&options.dir, name)?;
        let guard = options.guard()?;
        if let Some(root) = Directory::root(&options.dir, guard)? {
            directory::check_neighbours(&root, name)?;
        }
        let tracker = Tracker::open(options.tracker)?;
        let root = Directory::make_root(&options.dir, options.mode, guard)?;
        let rank = options.rank;
        let run = Run::new(&options, given)?;
        if options.fresh {
            run.clear(&root)?;
        }
        let companions = rank.map(|(rank, ranks)| Companions::open(&root, given, rank, ranks)).transpose()?;
        root.make_below(name, options.mode)?;
        points::hit("create.dir");
        let (directory, leases) = directory::lock(&root, name, options.mode)?;
        let leases = Arc::new(leases);
        points::hit("create.locked");
        let head_path = dir.join(head::FILE);
        let head_file = directory.create(head::FILE, options.mode)?;
        let mut begin = vec![0; head::HEAD_BYTES];
        let length =
            directory::read_begin(&head_file, &mut begin).map_err(|error| Error::io("read", &head_path, error))?;
        let corrupt = |corrupt| Error::Corrupt { dir: dir.clone(), corrupt };
        let finished = head::check_geometry(&begin[..length]).map_err(corrupt)?;
        if finished && length < head::HEAD_BYTES {
            // The magic is written last, so a head that has it was whole once, and its versions may still be there.
            let (expected, found) = (format!("{} bytes", head::HEAD_BYTES), "the end of the file");
            return Err(corrupt(Corrupt::new(head::FILE, length, expected, found)));
        }
        if !finished {
            directory::clear(&directory)?;
            // The head is written where observers may already wait for its magic, so it keeps its place.
            directory::write_head(&head_file, &head_path)?;
            points::hit("create.head");
        }
        let tables_path = dir.join(table::FILE);
        let tables_file = directory.create(table::FILE, options.mode)?;
        directory::check_blocks(&tables_file, &tables_path).and_then(|found| found.map_err(corrupt))?;
        let tables = Tables::open(tables_file, tables_path, name)?;
        let head = Head::map(&head_file, &head_path, true)?;
        let end = Arc::new(End::new(run, head.clone()));
        let mut producer = Producer {
            name: name.to_string(),
            companions,
            planes: Planes::new(directory.clone(), options.mode),
            directory,
            copier: Copier::new(options.copy_threads()),
            options,
            _last_words: {
                let end = end.clone();
                LastWords::new(move || drop(end.say(true, false)))
            },
            end,
            head,
            leases,
            tables,
            space: Space::default(),
            tracker,
            maps: Maps::default(),
            variables: BTreeMap::new(),
            dormant: Vec::new(),
            leaving: Vec::new(),
            versions: Vec::new(),
            table: Arc::new(Vec::new()),
            sequence: 0,
            recovered: None,
            schema: 0,
            schema_changed: true,
            schemas: 0,
            next_id: 0,
            next_serial: 1,
            shared_windows: 0,
            statistics: crate::Statistics::default(),
            patience: Patience::default(),
            copies: Vec::new(),
            bytes: Vec::new(),
            dir,
        };
        producer.head.set_doubt(0);
        // Of a producer that was killed.
        producer.head.set_waiting(false);
        producer.head.set_skipping(0);
        if finished {
            points::hit("recover.begin");
            producer.recover()?;
            points::hit("recover.done");
        }
        producer.head.set_number32(head::KEEP_AT, producer.options.keep as u32);
        producer.head.set_number64(head::BOUND_BYTES_AT, producer.options.bound_bytes.unwrap_or(0));
        producer.head.set_number32(head::PRODUCER_PID_AT, std::process::id());
        producer.head.set_number32(head::TRACKER_AT, producer.tracker.kind().code());
        let (rank, ranks) = producer.options.rank.unwrap_or((0, 0));
        producer.head.set_number32(head::RANK_AT, rank);
        producer.head.set_number32(head::RANKS_AT, ranks);
        producer.head.set_number64(head::BEGUN_NS_AT, files::unix_ns());
        producer.head.set_ended(false);
        if !finished {
            points::hit("create.tables");
            producer.head.set_number64(head::MAGIC_AT, head::MAGIC);
        }
        if let Some((rank, ranks)) = producer.options.rank {
            // One that began at the same time has seen this one, or is seen by it.
            companions::check_living(&root, given, rank, ranks)?;
        }
        producer.head.ring();
        points::hit("create.done");
        Ok(producer)
    }

    /// The plane of each page of a window in the newest version.
    pub(crate) fn subtable(&self, window: usize) -> Subtable {
        expand_window(&self.tables, &self.table, window)
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
        let bytes = declaration
            .dtype
            .array_bytes(&shape)
            .map_err(|why| Error::WrongShape { name: declaration.name.clone(), why: why.to_string() })?;
        let wrong = |why| Error::WrongShape { name: declaration.name.clone(), why };
        let part = Part::of(&declaration.attributes).map_err(wrong)?;
        if let Some(part) = part.as_ref().filter(|_| !declaration.kind.is_tracked()) {
            part.check(&shape).map_err(wrong)?;
        }
        let dormant = self.dormant.iter().position(|dormant| dormant.meta.name == declaration.name);
        let matches = dormant.map(|index| &self.dormant[index]).is_some_and(|dormant| {
            dormant.meta.dtype == declaration.dtype
                && is_same_part(&dormant.meta.attributes, &part)
                && (declaration.kind.is_tracked()
                    || dormant.extent.order == declaration.order
                        && dormant.extent.page_offset == 0
                        && dormant.extent.shape.iter().map(|n| *n as usize).eq(shape.iter().copied()))
        });
        let id = match dormant.filter(|_| matches) {
            Some(index) => self.dormant[index].meta.id,
            None => self.new_id()?,
        };
        let found = dormant.map(|index| self.dormant.remove(index));
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
            part,
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
        self.check_limit("the sequence number of its next version", next, head::SEQUENCE_END - 1, MAKE_ANEW)?;
        Ok(next)
    }

    /// A number that no variable of the region ever had.
    fn new_id(&mut self) -> Result<u32> {
        let id = self.next_id;
        self.check_limit("the number of its next variable", id.into(), (schema::ID_END - 1).into(), MAKE_ANEW)?;
        self.next_id += 1;
        self.head.set_number32(head::IDS_AT, self.next_id);
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
        source.zero_end = true;
        state.loan_maps.clear();
        state.sources.push(source);
        state.current = Some(state.sources.len() - 1);
        Ok(())
    }

    fn adopt(&mut self, state: &mut VariableState, extent: &Extent, bytes: usize) -> Result<()> {
        let windows = extent.windows().max(1) as usize;
        let mut place = Place::new(extent.place, extent.window, windows as u32);
        let mut working = self.working(&state.kind, windows)?;
        if let Working::Managed(managed) = &mut working {
            self.gather(&mut place)?;
            let first = extent.window as usize;
            let table = |index: usize| {
                let mut table = self.subtable(first + index);
                let pages = (extent.pages() as usize).saturating_sub(index * WINDOW_PAGES);
                table[pages.min(WINDOW_PAGES)..].fill(ZERO_PLANE);
                table
            };
            let pieces_max = shared_windows_max().saturating_sub(self.shared_windows);
            let workers = self.copier.workers();
            let copied = managed.adopt(extent.window, table, &self.planes, &self.tracker, workers, pieces_max)?;
            self.shared_windows += managed.shared_windows();
            for run in copied.chunk_by(|index, next| index + 1 == *next) {
                // What cannot be watched yet counts as written.
                let _ = self.tracker.rewatch(managed.address() + run[0] * WINDOW_BYTES, run.len() * WINDOW_BYTES);
            }
        }
        let mut source = Source::new(place, working);
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
        self.check_limit("the serial number of its next place", self.next_serial, manifest::PLACE_END - 1, MAKE_ANEW)?;
        let window = self.space.take(windows);
        let fits = self.check_limit(
            "the number of its windows of 2 MiB",
            self.space.windows() as u64,
            head::WINDOWS_MAX.into(),
            "remove variables, or make them smaller",
        );
        if let Err(error) = fits {
            self.space.give_back(window, windows);
            return Err(error);
        }
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

    /// Versions held by observers although they are not wanted any more, or no more than anything else when there is no
    /// room.
    pub(crate) fn held(&self) -> usize {
        let older = self.versions.len().saturating_sub(1);
        let is_held = |index: &usize| match self.versions[*index].state {
            State::Retiring => true,
            _ => self.companions.is_some() && self.is_held(*index).unwrap_or(false),
        };
        (0..older).filter(is_held).count()
    }

    /// Writes the schema file for the variables as they are now, under a number that no version ever named.
    pub(crate) fn write_schema(&mut self) -> Result<()> {
        let number = self.schemas + 1;
        self.check_limit("the number of its next schema", number.into(), (schema::ID_END - 1).into(), MAKE_ANEW)?;
        let schema = Schema { variables: self.variables.values().map(|state| state.meta.clone()).collect() };
        let (name, text) = (schema_file(number), schema.encode());
        self.check_limit(
            "the bytes of its schema",
            text.len() as u64,
            schema::BYTES_MAX as u64,
            "remove variables, or say less in their attributes, units and names",
        )?;
        if let Err(error) = self.write_schema_file(&name, &text) {
            let _ = self.directory.unlink(&name);
            return Err(error);
        }
        points::hit("publish.schema");
        self.schemas = number;
        self.head.set_number32(head::SCHEMAS_AT, number);
        let old = std::mem::replace(&mut self.schema, number);
        if old != 0 && self.versions.iter().all(|version| version.schema != old) {
            let _ = self.directory.unlink(&schema_file(old));
        }
        self.schema_changed = false;
        Ok(())
    }

    fn write_schema_file(&self, name: &str, text: &[u8]) -> Result<()> {
        let path = self.dir.join(name);
        let mut file = self.directory.create(name, self.options.mode)?;
        // One of this name was left by a producer that died before a version named it.
        file.set_len(0).map_err(|error| Error::io("ftruncate", &path, error))?;
        file.write_all(text).map_err(|error| Error::io("write", &path, error).needing(text.len() as u64))
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

/// Whether what a variable held may be taken up by one of this part: another box of the global array is other content.
fn is_same_part(recovered: &crate::Attributes, part: &Option<Part>) -> bool {
    match (Part::of(recovered), part) {
        (Ok(Some(recovered)), Some(part)) => recovered == *part,
        _ => true,
    }
}

fn private_bytes(source: &Source) -> u64 {
    match &source.working {
        Working::Managed(managed) => managed.private_bytes(),
        _ => 0,
    }
}

/// The plane of each page of a window in a version with this table, which may end before the window.
pub(crate) fn expand_window(tables: &Tables, table: &[u32], window: usize) -> Subtable {
    expand(tables, table.get(window).copied().unwrap_or(u32::from(ZERO_PLANE)))
}

/// The plane of each page of a window with this entry.
pub(crate) fn expand(tables: &Tables, word: u32) -> Subtable {
    if word & table::SUBTABLE == 0 { [word as u8; WINDOW_PAGES] } else { tables.subtable(word & !table::SUBTABLE) }
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
