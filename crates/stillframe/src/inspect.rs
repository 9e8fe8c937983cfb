//! Looking at regions from outside: which exist, who holds what, what is damaged, what can go.

use crate::directory::{self, Directory, Obstacle};
use crate::files::{self, LeaseFile, plane_file};
use crate::group::{self, Group, RankInfo, RankState};
use crate::observer::{Observer, VersionInfo};
use crate::staging;
use crate::tracker::TrackerKind;
use crate::{Corrupt, Error, Result};
use std::path::{Path, PathBuf};
use stillframe_kernel::folder::{About, Form};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::trust::{Distrust, Guard, Purpose};
use stillframe_protocol::{Board, Leases};
use stillframe_segment::head::{self, Counter};
use stillframe_segment::{PLANES_MAX, lease};

pub use crate::diagnose::{Diagnosis, Fact, TrackerProbe, diagnose};
pub use crate::files::{aside_of, root};

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
    /// Since when a living producer has been waiting for room, in nanoseconds since 1970. [`holders`] says for whom.
    pub waiting_ns: Option<u64>,
    /// When a living producer left out the first publish since the newest version, in nanoseconds since 1970.
    pub skipping_ns: Option<u64>,
    /// How many it left out since then.
    pub skipping: u64,
}

/// A process, or as much as can be known of it, that holds versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process number; `None` of all that belong to other users, which cannot be told apart.
    pub pid: Option<i32>,
    /// Name of its program.
    pub command: Option<String>,
    /// Its state as the kernel's letter: `T` is stopped, `?` unknown.
    pub state: char,
    /// The oldest version it holds.
    pub version: Option<u64>,
    /// How many it holds.
    pub versions: usize,
    /// For how long it has been holding one, in milliseconds.
    pub age_ms: u64,
}

impl Holder {
    /// Whether it is stopped, as by a debugger or Ctrl-Z, and so will not let go by itself.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let command = self.command.as_deref().unwrap_or("a process");
        let stopped = if self.is_stopped() { ", stopped" } else { "" };
        match self.pid {
            Some(pid) => write!(f, "{command} ({pid}{stopped}) holds ")?,
            None => write!(f, "another user holds ")?,
        }
        match (self.versions, self.version) {
            (1, Some(version)) => write!(f, "version {version}"),
            (1, None) => write!(f, "a version"),
            (count, _) => write!(f, "{count} versions"),
        }
    }
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

/// What a removal gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Bytes of memory, less those that observers still hold.
    pub bytes: u64,
}

/// The directory of regions for who looks, if it is there.
fn look(dir: &Path) -> Result<Option<Directory>> {
    Directory::root(dir, files::looking(dir, None)?)
}

/// The directory of regions for who removes some, if it is there.
fn own(dir: &Path) -> Result<Option<Directory>> {
    Directory::root(dir, Guard::new(files::trust(None)?.unwrap_or_default(), Purpose::Look))
}

/// The regions below a directory, by name. Those that cannot be read, or are somebody else's where that matters, are among
/// them.
///
/// # Errors
/// Environment if the directory cannot be read; a directory that is not there has no regions.
pub fn regions(dir: &Path) -> Result<Vec<RegionInfo>> {
    let mut names = Vec::new();
    if let Some(root) = look(dir)? {
        find(&root, "", 0, &mut names)?;
    }
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

fn find(directory: &Directory, prefix: &str, depth: usize, names: &mut Vec<String>) -> Result<()> {
    let device = |about: About| about.identity.0;
    let own = directory.folder().about().map(device).ok();
    let entries = match directory.names() {
        // A directory of another user inside one's own is not one's own business.
        Err(_) if depth > 0 => return Ok(()),
        entries => entries?,
    };
    for entry in entries.into_iter().filter_map(|entry| entry.into_string().ok()) {
        let name = format!("{prefix}{entry}");
        if files::region_dir(Path::new(""), &name).is_err() {
            continue;
        }
        let Some(about) = directory.about(&entry) else { continue };
        if about.form == Form::Link {
            // It is not followed, but who finds no region under its name is to know why.
            let there = directory.path().join(&entry);
            let leads_to = |file| About::at(&there.join(file), false).is_ok();
            names.extend((leads_to(lease::FILE) || leads_to(head::FILE)).then_some(name));
            continue;
        }
        // Regions of a directory lie in its file system; what is mounted below has its own.
        if about.form != Form::Folder || Some(device(about)) != own {
            continue;
        }
        match directory.below(&entry) {
            Ok(None) => {}
            Ok(Some(below)) if !(below.has(lease::FILE) || below.has(head::FILE) || below.names().is_err()) => {
                if depth < 8 {
                    find(&below, &format!("{name}/"), depth + 1, names)?;
                }
            }
            _ => names.push(name),
        }
    }
    Ok(())
}

/// What can be said of one group; `None` if there is none of this name.
///
/// # Errors
/// As [`Group::open`](crate::Group::open).
pub fn group(dir: &Path, name: &str) -> Result<Option<GroupInfo>> {
    let group = match Group::options().dir(dir).open(name) {
        Ok(group) => group,
        Err(Error::NoRegion { .. } | Error::NotGroup { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let ranks = group.ranks()?;
    let mut regions = Vec::with_capacity(ranks.len());
    for rank in ranks.iter().filter(|rank| rank.state != RankState::Absent) {
        regions.push(region(dir, &files::rank_name(name, rank.rank))?);
    }
    Ok(Some(GroupInfo { name: name.into(), ranks, versions: group.versions()?, regions }))
}

/// The group that a region of this name would be a rank of.
fn group_of(info: &RegionInfo) -> Option<&str> {
    info.rank?;
    info.name.rsplit_once('/').map(|(group, _)| group)
}

/// What can be said of a region before it is opened.
fn unread(name: &str, path: PathBuf, directory: Option<&Directory>) -> RegionInfo {
    RegionInfo {
        name: name.into(),
        path,
        state: State::Incomplete,
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
    let path = files::region_dir(dir, name)?;
    let missing = || Error::NoRegion { region: name.into(), dir: dir.to_path_buf() };
    let directory = match look(dir)?.ok_or_else(missing)?.below(name) {
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
    Ok(info)
}

fn planes(directory: &Directory) -> Vec<PlaneInfo> {
    let plane = |index: usize| {
        let allocated_bytes = directory.about(&plane_file(index))?.allocated_bytes;
        Some(PlaneInfo { index, allocated_bytes })
    };
    (0..PLANES_MAX).map_while(plane).collect()
}

fn allocated_bytes(directory: &Directory) -> u64 {
    directory.texts().iter().filter_map(|name| directory.about(name)).map(|about| about.allocated_bytes).sum()
}

/// Who holds versions of a region, each process once, longest first.
///
/// # Errors
/// As [`region`].
pub fn holders(dir: &Path, name: &str) -> Result<Vec<Holder>> {
    holders_of(&Observer::options().dir(dir).open(name)?)
}

pub(crate) fn holders_of(observer: &Observer) -> Result<Vec<Holder>> {
    let lease = About::of(observer.shared.leases.file()?);
    let lease = lease.map_err(|error| Error::io("fstat", &observer.shared.dir.join(lease::FILE), error))?.identity;
    let now = files::monotonic_ms();
    let version = |slot: usize| {
        let stamp = observer.shared.head.stamp(slot);
        (stamp.sequence() > 0).then(|| observer.shared.head.descriptor(slot).version)
    };
    let mut found: Vec<Holder> = Vec::new();
    let mut add = |pid: Option<i32>, holds: &[(usize, u64)]| {
        let Some(oldest_ms) = holds.iter().map(|hold| hold.1).min() else { return };
        // One slot held through several openings is one version.
        let mut slots: Vec<usize> = holds.iter().map(|hold| hold.0).collect();
        slots.sort_unstable();
        slots.dedup();
        let (command, state) = pid.map_or((None, '?'), process);
        let version = slots.iter().filter_map(|slot| version(*slot)).min();
        let age_ms = now.saturating_sub(oldest_ms);
        found.push(Holder { pid, command, state, version, versions: slots.len(), age_ms });
    };
    let mut seen = Vec::new();
    let entries = std::fs::read_dir("/proc").map_err(|error| Error::io("open", Path::new("/proc"), error))?;
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let holds = holds_of(pid, lease);
        add(Some(pid), &holds);
        seen.extend(holds);
    }
    // Locks of processes that may not be looked into are known to the kernel's list of locks.
    let mut others = listed_holds(lease.1);
    others.retain(|hold| match seen.iter().position(|seen| seen == hold) {
        Some(index) => {
            seen.swap_remove(index);
            false
        }
        None => true,
    });
    add(None, &others);
    found.sort_by_key(|holder| std::cmp::Reverse(holder.age_ms));
    Ok(found)
}

/// Leases that a process has on a file, from what /proc tells of its open files.
fn holds_of(pid: i32, file: (u64, u64)) -> Vec<(usize, u64)> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return found };
    for entry in entries.flatten() {
        if !About::at(&entry.path(), false).is_ok_and(|about| about.identity == file) {
            continue;
        }
        let info = format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy());
        let text = std::fs::read_to_string(info).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| parse_lock(line.strip_prefix("lock:")?, None)));
    }
    found
}

fn listed_holds(inode: u64) -> Vec<(usize, u64)> {
    let text = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    text.lines().filter_map(|line| parse_lock(line, Some(inode))).collect()
}

/// Slot and time of a lease from a line such as `1: OFDLCK  ADVISORY  READ -1 00:19:7 1099511627776 1099511640000`.
fn parse_lock(line: &str, inode: Option<u64>) -> Option<(usize, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let kind = words.iter().position(|word| *word == "OFDLCK")?;
    let [mode, _pid, file, start, end] = words.get(kind + 2..kind + 7)? else { return None };
    if *mode != "READ" {
        return None;
    }
    let found: u64 = file.rsplit(':').next()?.parse().ok()?;
    if inode.is_some_and(|inode| inode != found) {
        return None;
    }
    lease::decode_lock(start.parse().ok()?, end.parse().ok()?)
}

fn process(pid: i32) -> (Option<String>, char) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parts = text.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
    match parts {
        Some((command, rest)) => (Some(command.to_string()), rest.trim_start().chars().next().unwrap_or('?')),
        None => (None, '?'),
    }
}

/// Removes a region, or all ranks of a group. Observers keep what they hold. With `force`, a living producer loses its
/// files too: it goes on into files that nobody can open any more. What a library keeps beside a group in [`Hidden`] files
/// stays; `stillframe_checkpoint::removal` removes its own, too.
///
/// # Errors
/// [`Error::InUse`] while a producer lives, without `force`; of a group nothing is removed then.
pub fn remove(dir: &Path, name: &str, force: bool) -> Result<Removed> {
    files::region_dir(dir, name)?;
    let root = own(dir)?.ok_or_else(|| Error::NoRegion { region: name.into(), dir: dir.to_path_buf() })?;
    remove_from(&root, name, force)
}

/// As [`remove`], for who has the directory of regions open.
pub(crate) fn remove_from(root: &Directory, name: &str, force: bool) -> Result<Removed> {
    let ranks = ranks(root, name)?;
    if ranks.iter().all(|info| info.rank.is_none()) {
        return remove_region(root, name, force);
    }
    if let Some(info) = ranks.iter().find(|info| info.state == State::Live && !force) {
        return Err(Error::InUse { region: info.name.clone(), pid: info.producer_pid });
    }
    let mut bytes = 0;
    for info in ranks {
        match remove_region(root, &info.name, force) {
            Ok(removed) => bytes += removed.bytes,
            // Somebody else removed it meanwhile.
            Err(Error::NoRegion { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Removed { bytes })
}

/// Bytes of memory or disk behind a directory and all below it.
pub(crate) fn allocated_below(root: &Directory, name: &str) -> u64 {
    root.folder().folder(name).map_or(0, |folder| folder.allocated_bytes())
}

/// What other libraries keep in a directory of regions beside these: files and directories with hidden names.
#[derive(Debug)]
pub struct Hidden {
    root: Directory,
}

/// The lock of a hidden file, for as long as it lives.
#[derive(Debug)]
pub struct HiddenLock {
    _file: Unforked,
}

impl Hidden {
    /// Opens a directory of regions for who removes what is hidden in it; `None` if there is none.
    ///
    /// # Errors
    /// As [`collect`].
    pub fn open(dir: &Path) -> Result<Option<Hidden>> {
        Ok(own(dir)?.map(|root| Hidden { root }))
    }

    /// The hidden names.
    pub fn names(&self) -> Vec<String> {
        self.root.texts().into_iter().filter(|name| name.starts_with('.')).collect()
    }

    /// Whether anything has this name.
    pub fn has(&self, name: &str) -> bool {
        self.root.has(name)
    }

    /// Bytes of memory or disk behind a file, or behind all that is in a directory; 0 if there is none.
    pub fn allocated_bytes(&self, name: &str) -> u64 {
        match self.root.about(name) {
            Some(about) if about.form == Form::Folder => allocated_below(&self.root, name),
            about => about.map_or(0, |about| about.allocated_bytes),
        }
    }

    /// Locks a file as flock(2) does, if it is there and nobody else has it locked. A child that is forked has no lock.
    pub fn try_lock(&self, name: &str) -> Option<HiddenLock> {
        let file = Unforked::open(|| self.root.file(name).ok().flatten().map(|(file, _)| file).ok_or(())).ok()?;
        file.get()?.try_lock().ok()?;
        Some(HiddenLock { _file: file })
    }

    /// Removes a file, or a directory with all that is in it; one that is not there is not missed.
    ///
    /// # Errors
    /// Environment.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.root.remove_all(name)
    }
}

/// The regions that are ranks of a group of this name, those left over from other runs too.
fn ranks(root: &Directory, name: &str) -> Result<Vec<RegionInfo>> {
    let mut found = Vec::new();
    for rank in group::ranks_below(root, name)? {
        match region(root.path(), &files::rank_name(name, rank)) {
            // One that cannot be read, or was never finished, goes with the others.
            Ok(info) if info.rank.is_some() || !matches!(info.state, State::Live | State::Dead) => found.push(info),
            Ok(_) | Err(Error::NoRegion { .. } | Error::IsGroup { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn remove_region(root: &Directory, name: &str, force: bool) -> Result<Removed> {
    let missing = || Error::NoRegion { region: name.into(), dir: root.path().into() };
    let directory = root.below(name)?.ok_or_else(missing)?;
    let bytes = allocated_bytes(&directory);
    // The lock is kept while the files go, so that no producer can begin among them.
    let (directory, _leases) = loop {
        match directory::try_lock(root, name, 0o600) {
            Ok(Ok((directory, leases))) => break (directory, Some(leases)),
            Ok(Err(Obstacle::Held)) if force => break (directory, None),
            Ok(Err(Obstacle::Held)) => {
                return Err(Error::InUse { region: name.into(), pid: directory::producer_pid(&directory) });
            }
            Ok(Err(Obstacle::Removed)) => {}
            Ok(Err(Obstacle::NoDirectory)) => return Err(missing()),
            // Nobody can lock what is no file.
            Err(Error::Untrusted { path, distrust: Distrust::Form { .. } })
                if force && path == directory.path().join(lease::FILE) =>
            {
                break (directory, None);
            }
            Err(error) => return Err(error),
        }
    };
    directory::remove(root, &directory, name)?;
    Ok(Removed { bytes })
}

/// Removes every region whose producer is gone and that nobody holds; ranks of a group only when that is so of all of
/// them; and what a restore that was killed left. Returns each with what came of it.
///
/// # Errors
/// As [`regions`].
pub fn collect(dir: &Path) -> Result<Vec<(String, Result<Removed>)>> {
    let mut done = Vec::new();
    let Some(root) = own(dir)? else { return Ok(done) };
    for info in collectable(dir)? {
        let removed = match staging::is_staged(&info.name) {
            true => staging::remove(&root, &info.name).map(|bytes| Removed { bytes }),
            false => remove_region(&root, &info.name, false),
        };
        match removed {
            // Somebody else removed it meanwhile.
            Err(Error::NoRegion { .. }) => {}
            result => done.push((info.name, result)),
        }
    }
    Ok(done)
}

/// The regions that [`collect`] would remove.
///
/// # Errors
/// As [`regions`].
pub fn collectable(dir: &Path) -> Result<Vec<RegionInfo>> {
    let Some(root) = own(dir)? else { return Ok(Vec::new()) };
    let all = regions(dir)?;
    let is_own = |info: &RegionInfo| matches!(root.below(&info.name), Ok(Some(_)));
    let free: Vec<bool> = all.iter().map(|info| is_free(dir, info) && is_own(info)).collect();
    // The last version of a rank that died is part of what its group can still show.
    let wanted: Vec<(String, u32)> = std::iter::zip(&all, &free)
        .filter(|(_, free)| !**free)
        .filter_map(|(info, _)| Some((group_of(info)?.to_string(), info.rank?.1)))
        .collect();
    let is_wanted = |info: &RegionInfo| {
        wanted
            .iter()
            .any(|(group, ranks)| group_of(info) == Some(group) && info.rank.is_some_and(|rank| rank.1 == *ranks))
    };
    let going = std::iter::zip(all, free).filter(|(info, free)| *free && !is_wanted(info)).map(|(info, _)| info);
    let staged = staging::left_over(&root).into_iter().map(|name| {
        let path = root.path().join(&name);
        RegionInfo { allocated_bytes: allocated_below(&root, &name), ..unread(&name, path, None) }
    });
    Ok(going.chain(staged).collect())
}

/// Whether nobody produces a region and nobody holds a version of it.
fn is_free(dir: &Path, info: &RegionInfo) -> bool {
    match info.state {
        State::Dead => !is_held(dir, &info.name),
        State::Incomplete => {
            let directory = look(dir).ok().flatten().and_then(|root| root.below(&info.name).ok().flatten());
            directory
                .is_some_and(|directory| directory::is_unfinished(&directory) && !is_produced(&directory, &info.name))
        }
        _ => false,
    }
}

fn is_held(dir: &Path, name: &str) -> bool {
    let observer = Observer::options().dir(dir).open(name);
    observer.is_ok_and(|observer| (0..head::SLOTS).any(|slot| observer.shared.leases.is_held(slot).unwrap_or(true)))
}

fn is_produced(directory: &Directory, name: &str) -> bool {
    LeaseFile::open(directory, name).is_ok_and(|leases| leases.is_produced().unwrap_or(true))
}

/// Looks for damage in a region: reads all that describes the versions of a region. No finding means that all of it is sound.
///
/// # Errors
/// Environment if the region cannot be opened for another reason than damage.
pub fn verify(dir: &Path, name: &str) -> Result<Vec<Corrupt>> {
    let mut findings = Vec::new();
    let observer = match Observer::options().dir(dir).open(name) {
        Ok(observer) => observer,
        Err(Error::Corrupt { corrupt, .. }) => return Ok(vec![corrupt]),
        Err(error) => return Err(error),
    };
    let mut check = |result: Result<()>| match result {
        Err(Error::Corrupt { corrupt, .. }) => {
            if !findings.contains(&corrupt) {
                findings.push(corrupt);
            }
            Ok(())
        }
        other => other,
    };
    check(observer.shared.head.check_newest().map_err(|corrupt| observer.shared.corrupt(corrupt)))?;
    for version in observer.versions().iter().filter(|version| !version.retiring) {
        match observer.version(version.version) {
            Err(Error::VersionGone { .. }) => {}
            Err(error) => check(Err(error))?,
            Ok(snapshot) => {
                for variable in snapshot.variables() {
                    check(snapshot.chunks(&variable.name).map(drop))?;
                }
            }
        }
    }
    Ok(findings)
}
