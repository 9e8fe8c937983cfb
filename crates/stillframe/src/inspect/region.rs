//! Which regions and groups there are, and what can be said of them.

use crate::error::{Error, Result};
use crate::group::{Group, RankInfo, RankState};
use crate::observer::{Observer, VersionInfo};
use crate::place::arena::{Arena, EnclaveInfo};
use crate::place::broker::addressed;
use crate::place::directory::Directory;
use crate::place::files::Root;
use crate::place::names::{self, plane_file};
use crate::working::tracker::kind::TrackerKind;
use std::path::{Path, PathBuf};
use stillframe_kernel::folder::{About, Form};
use stillframe_segment::head::{self, Counter};
use stillframe_segment::{PLANES_MAX, lease};

/// Whether a region has a producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Its producer lives.
    Live,
    /// Its producer is gone; the next one of the name recovers it.
    Dead,
    /// Its creation was never finished.
    Incomplete,
    /// It cannot be read, for the reason given.
    Unreadable(String),
}

/// The memory of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneInfo {
    /// Number of the plane.
    pub index: usize,
    /// Bytes of memory behind it.
    pub allocated_bytes: u64,
}

/// What can be said of a region from outside.
#[derive(Debug, Clone)]
pub struct RegionInfo {
    /// Name.
    pub name: String,
    /// Directory.
    pub path: PathBuf,
    /// Whether it has a producer.
    pub state: State,
    /// The enclave that produces it, if it lies in the arena of one.
    pub enclave: Option<EnclaveInfo>,
    /// Its rank, and the number of ranks, if it is of a group.
    pub rank: Option<(u32, u32)>,
    /// The newest version.
    pub newest: Option<u64>,
    /// The versions that exist, ascending.
    pub versions: Vec<VersionInfo>,
    /// Time of creation in nanoseconds since 1970.
    pub created_ns: u64,
    /// Bytes of memory behind all of its files.
    pub allocated_bytes: u64,
    /// The planes.
    pub planes: Vec<PlaneInfo>,
    /// Bytes of working memory of managed variables that exist beside the planes, as far as the producer says.
    pub working_bytes: u64,
    /// What the last producer wrote as its process number.
    pub producer_pid: u32,
    /// Versions kept though nobody holds them.
    pub keep: u32,
    /// Bound on plane bytes.
    pub bound_bytes: Option<u64>,
    /// The last producer's tracker.
    pub tracker: Option<TrackerKind>,
    /// Versions published.
    pub published: u64,
    /// Publishes left out.
    pub skipped: u64,
    /// Pages found dirty, over all publishes.
    pub dirty_pages: u64,
    /// Pages copied, over all publishes.
    pub copied_pages: u64,
    /// Time spent in publish, in nanoseconds.
    pub publish_ns: u64,
    /// Since when a living producer has been waiting for room, in nanoseconds since 1970. [`holders`](crate::inspect::holders()) says for whom.
    pub waiting_ns: Option<u64>,
    /// When a living producer left out the first publish since the newest version, in nanoseconds since 1970.
    pub skipping_ns: Option<u64>,
    /// How many it left out since then.
    pub skipping: u64,
}

/// What can be said of a group from outside.
#[derive(Debug, Clone)]
pub struct GroupInfo {
    /// Name.
    pub name: String,
    /// How its ranks are doing.
    pub ranks: Vec<RankInfo>,
    /// The versions that all ranks have, ascending.
    pub versions: Vec<u64>,
    /// The regions of the ranks that have begun, by rank.
    pub regions: Vec<RegionInfo>,
}

/// The directory of regions for who looks, if it is there.
pub(crate) fn look(dir: &Path) -> Result<Option<Root>> {
    Root::open(dir, names::looking(dir, None)?)
}

/// The regions below a directory, by name. Those that cannot be read, or are somebody else's where that matters, are among
/// them.
///
/// # Errors
/// Environment if the directory cannot be read; a directory that is not there has no regions.
pub fn regions(dir: &Path) -> Result<Vec<RegionInfo>> {
    let mut names = find(dir)?.regions;
    names.sort();
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        match region(dir, &name) {
            Ok(info) => found.push(info),
            // It went away after it was found.
            Err(Error::NoRegion { .. }) => {}
            // A directory that has a file of a region, and regions below it.
            Err(error) => {
                let state = State::Unreadable(error.to_string());
                found.push(RegionInfo { state, ..unread(&name, dir.join(&name), None) });
            }
        }
    }
    Ok(found)
}

/// The directory of the arena to which a region's name leads; `None` if it leads to a directory of its own.
///
/// # Errors
/// As [`region`].
pub fn arena_of(dir: &Path, name: &str) -> Result<Option<PathBuf>> {
    let (dir, name) = &addressed(dir, name);
    let Some(root) = look(dir)? else { return Ok(None) };
    Ok(Arena::of_region(&root, name)?.map(|(arena, _)| arena.path().into()))
}

/// The names of the arenas below a directory.
///
/// # Errors
/// As [`regions`].
pub fn arenas(dir: &Path) -> Result<Vec<String>> {
    let mut names = find(dir)?.arenas;
    names.sort();
    Ok(names)
}

/// Names below a directory.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) regions: Vec<String>,
    pub(crate) arenas: Vec<String>,
}

fn find(dir: &Path) -> Result<Names> {
    match look(dir)? {
        Some(Root::Directory(root)) => find_in(&root, Links::Told),
        Some(Root::Broker(broker)) => broker.names().map(|(regions, arenas)| Names { regions, arenas }),
        None => Ok(Names::default()),
    }
}

/// What is done with links, which lead to no regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// One that leads to something like a region is told as one, so that who opens it hears why that cannot be.
    Told,
    /// It is not even looked where they lead.
    Ignored,
}

/// The regions and arenas in a directory.
pub(crate) fn find_in(root: &Directory, links: Links) -> Result<Names> {
    let mut names = Names::default();
    match Arena::is_in(root) {
        // Whoever names the directory of an arena means its regions.
        true => {
            let arena = Arena::in_directory(root, "")?;
            names.regions = arena.regions()?.into_iter().map(|(region, _)| region).collect();
        }
        false => find_below(root, "", 0, links, &mut names)?,
    }
    Ok(names)
}

fn find_below(directory: &Directory, prefix: &str, depth: usize, links: Links, found: &mut Names) -> Result<()> {
    let device = |about: About| about.identity.0;
    let own = directory.folder().about().map(device).ok();
    let entries = match directory.names() {
        // A directory of another user inside one's own is not one's own business.
        Err(_) if depth > 0 => return Ok(()),
        entries => entries?,
    };
    for entry in entries.into_iter().filter_map(|entry| entry.into_string().ok()) {
        let name = format!("{prefix}{entry}");
        if names::region_dir(Path::new(""), &name).is_err() {
            continue;
        }
        let Some(about) = directory.about(&entry) else { continue };
        if about.form == Form::Link && links == Links::Told {
            // It is not followed, but who finds no region under its name is to know why.
            let there = directory.path().join(&entry);
            let leads_to = |file| About::at(&there.join(file), false).is_ok();
            found.regions.extend((leads_to(lease::FILE) || leads_to(head::FILE)).then_some(name));
            continue;
        }
        // Regions of a directory lie in its file system; what is mounted below has its own.
        if about.form != Form::Folder || Some(device(about)) != own {
            continue;
        }
        match directory.below(&entry) {
            Ok(None) => {}
            Ok(Some(below)) if Arena::is_in(&below) => {
                found.arenas.push(name.clone());
                // One that cannot be opened has no regions that could be listed.
                let regions = Arena::in_directory(&below, &name).and_then(|arena| arena.regions());
                found
                    .regions
                    .extend(regions.unwrap_or_default().into_iter().map(|(region, _)| format!("{name}/{region}")));
            }
            Ok(Some(below)) if !(below.has(lease::FILE) || below.has(head::FILE) || below.names().is_err()) => {
                if depth < 8 {
                    find_below(&below, &format!("{name}/"), depth + 1, links, found)?;
                }
            }
            _ => found.regions.push(name),
        }
    }
    Ok(())
}

/// What can be said of one group; `None` if there is none of this name.
///
/// # Errors
/// As [`Group::open`](crate::Group::open).
pub fn group(dir: &Path, name: &str) -> Result<Option<GroupInfo>> {
    let (dir, name) = &addressed(dir, name);
    let group = match Group::options().dir(dir).here().open(name) {
        Ok(group) => group,
        Err(Error::NoRegion { .. } | Error::NotGroup { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let ranks = group.ranks()?;
    let mut regions = Vec::with_capacity(ranks.len());
    for rank in ranks.iter().filter(|rank| rank.state != RankState::Absent) {
        regions.push(region(dir, &names::rank_name(name, rank.rank))?);
    }
    Ok(Some(GroupInfo { name: (*name).into(), ranks, versions: group.versions()?, regions }))
}

/// What can be said of a region before it is opened.
pub(crate) fn unread(name: &str, path: PathBuf, directory: Option<&Directory>) -> RegionInfo {
    RegionInfo {
        name: name.into(),
        path,
        state: State::Incomplete,
        enclave: None,
        rank: None,
        newest: None,
        versions: Vec::new(),
        created_ns: 0,
        allocated_bytes: directory.map_or(0, allocated_bytes),
        planes: directory.map_or(Vec::new(), planes),
        working_bytes: 0,
        producer_pid: 0,
        keep: 0,
        bound_bytes: None,
        tracker: None,
        published: 0,
        skipped: 0,
        dirty_pages: 0,
        copied_pages: 0,
        publish_ns: 0,
        waiting_ns: None,
        skipping_ns: None,
        skipping: 0,
    }
}

/// What can be said of one region. One that is damaged or another user's is described as far as possible.
///
/// # Errors
/// [`Error::NoRegion`] if there is none of this name, [`Error::IsGroup`] if it is a group's.
pub fn region(dir: &Path, name: &str) -> Result<RegionInfo> {
    let (dir, name) = addressed(dir, name);
    let dir = dir.as_path();
    let path = names::region_dir(dir, name)?;
    let missing = || Error::NoRegion { region: name.into(), dir: dir.to_path_buf() };
    let root = look(dir)?.ok_or_else(missing)?;
    if let Some((arena, region)) = Arena::of_region(&root, name)? {
        return in_arena(dir, name, &arena, &region);
    }
    let Some(root) = root.directory() else {
        let observer = Observer::options().dir(dir).open(name)?;
        let mut info = unread(name, path, None);
        let files = observer.shared.files()?;
        info.allocated_bytes = files.iter().map(|(_, about)| about.allocated_bytes).sum();
        let planes = files.iter().filter_map(|(plane, about)| Some(((*plane)?, about.allocated_bytes)));
        info.planes = planes.map(|(index, allocated_bytes)| PlaneInfo { index, allocated_bytes }).collect();
        describe(&mut info, &observer);
        return Ok(info);
    };
    let directory = match root.below(name) {
        Ok(directory) => directory.ok_or_else(missing)?,
        Err(error) => {
            let state = State::Unreadable(error.to_string());
            return Ok(RegionInfo { state, ..unread(name, path, None) });
        }
    };
    let mut info = unread(name, path, Some(&directory));
    let observer = match Observer::options().dir(dir).open(name) {
        Ok(observer) => observer,
        Err(Error::NoRegion { .. }) if directory.names().is_ok() => return Ok(info),
        Err(error @ Error::IsGroup { .. }) => return Err(error),
        Err(error) => {
            info.state = State::Unreadable(error.to_string());
            return Ok(info);
        }
    };
    describe(&mut info, &observer);
    Ok(info)
}

/// What can be said of a region of an arena.
fn in_arena(dir: &Path, name: &str, arena: &Arena, region: &str) -> Result<RegionInfo> {
    let missing = || Error::NoRegion { region: name.into(), dir: dir.to_path_buf() };
    let found = arena.find(region)?.ok_or_else(missing)?;
    let mut info = unread(name, arena.path().join(region), None);
    info.enclave = arena.enclave();
    info.allocated_bytes = arena.bytes_of(&found)?;
    let planes = arena.plane_bytes(&found)?.into_iter().enumerate();
    info.planes = planes.map(|(index, allocated_bytes)| PlaneInfo { index, allocated_bytes }).collect();
    match Observer::options().dir(dir).open(name) {
        Ok(observer) => describe(&mut info, &observer),
        Err(Error::NoRegion { .. }) => {}
        Err(error) => info.state = State::Unreadable(error.to_string()),
    }
    Ok(info)
}

/// Adds what the head of a region says.
fn describe(info: &mut RegionInfo, observer: &Observer) {
    let shared = &observer.shared.head;
    info.state = if observer.producer_alive() { State::Live } else { State::Dead };
    info.rank = Some((shared.number32(head::RANK_AT), shared.number32(head::RANKS_AT))).filter(|(_, ranks)| *ranks > 0);
    info.versions = observer.versions();
    info.newest = info.versions.iter().rev().find(|version| !version.retiring).map(|version| version.version);
    info.created_ns = shared.number64(head::CREATED_NS_AT);
    info.producer_pid = shared.number32(head::PRODUCER_PID_AT);
    info.keep = shared.number32(head::KEEP_AT);
    info.bound_bytes = Some(shared.number64(head::BOUND_BYTES_AT)).filter(|bytes| *bytes != 0);
    info.tracker = TrackerKind::from_code(shared.number32(head::TRACKER_AT));
    info.published = shared.counter(Counter::Published);
    info.skipped = shared.counter(Counter::Skipped);
    info.dirty_pages = shared.counter(Counter::DirtyPages);
    info.copied_pages = shared.counter(Counter::CopiedPages);
    info.publish_ns = shared.counter(Counter::PublishNs);
    info.working_bytes = shared.counter(Counter::WorkingBytes);
    if info.state == State::Live {
        info.waiting_ns = shared.time_of_producer(head::WAITING_NS_AT);
        info.skipping_ns = shared.time_of_producer(head::SKIPPING_NS_AT);
        info.skipping = info.skipping_ns.map_or(0, |_| shared.number64(head::SKIPPING_AT));
    }
}

fn planes(directory: &Directory) -> Vec<PlaneInfo> {
    let plane = |index: usize| {
        let allocated_bytes = directory.about(&plane_file(index))?.allocated_bytes;
        Some(PlaneInfo { index, allocated_bytes })
    };
    (0..PLANES_MAX).map_while(plane).collect()
}

pub(crate) fn allocated_bytes(directory: &Directory) -> u64 {
    directory.texts().iter().filter_map(|name| directory.about(name)).map(|about| about.allocated_bytes).sum()
}
