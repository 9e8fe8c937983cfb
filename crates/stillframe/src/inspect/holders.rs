//! Who holds versions.

use crate::clock;
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::store::lease::RegionLeases;
use std::path::Path;
use stillframe_kernel::disk::{FileSystem, file_system};
use stillframe_kernel::folder::About;
use stillframe_protocol::Board;
use stillframe_segment::{head, lease};

/// A process, or as much as can be known of it, that holds versions; or another enclave, in which somebody does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process number; `None` of all that belong to other users, which cannot be told apart, and of an enclave.
    pub pid: Option<i32>,
    /// Name of the enclave, if it is one: it says which versions are held there, and not by whom.
    pub enclave: Option<String>,
    /// Name of its program.
    pub command: Option<String>,
    /// Its state as the kernel's letter: `T` is stopped, `?` unknown.
    pub state: char,
    /// The oldest version it holds.
    pub version: Option<u64>,
    /// How many it holds.
    pub versions: usize,
    /// For how long it has been holding one, in milliseconds; `None` of an enclave, which does not say that.
    pub age_ms: Option<u64>,
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
        match (&self.enclave, self.pid) {
            (Some(enclave), _) => write!(f, "somebody in enclave {enclave} holds ")?,
            (None, Some(pid)) => write!(f, "{command} ({pid}{stopped}) holds ")?,
            (None, None) => write!(f, "another user holds ")?,
        }
        match (self.versions, self.version) {
            (1, Some(version)) => write!(f, "version {version}"),
            (1, None) => write!(f, "a version"),
            (count, _) => write!(f, "{count} versions"),
        }
    }
}

/// Who holds versions of a region, each process once, longest first, and then other enclaves. Of a region of another enclave these are the
/// processes of this one alone.
///
/// # Errors
/// As [`region`](crate::inspect::region()).
pub fn holders(dir: &Path, name: &str) -> Result<Vec<Holder>> {
    holders_of(&Observer::options().dir(dir).open(name)?)
}

pub(crate) fn holders_of(observer: &Observer) -> Result<Vec<Holder>> {
    let leases = &observer.shared.leases;
    let file = leases.file()?;
    let lease = About::of(file);
    let lease = lease.map_err(|error| Error::io("fstat", &observer.shared.dir.join(lease::FILE), error))?.identity;
    // Others tell users another device than the kernel has.
    let device = matches!(file_system(file), Ok(FileSystem::Tmpfs)).then_some(lease.0);
    let now = clock::monotonic_ms();
    let version = |slot: usize| {
        let stamp = observer.shared.head.stamp(slot);
        (stamp.sequence() > 0).then(|| observer.shared.head.descriptor(slot).version)
    };
    let mut found: Vec<Holder> = Vec::new();
    for (enclave, word) in leases.enclaves()? {
        let slots = (0..head::SLOTS).filter(|slot| word >> slot & 1 == 1);
        let (version, versions) = (slots.filter_map(version).min(), word.count_ones() as usize);
        found.push(Holder {
            pid: None,
            enclave: Some(enclave),
            command: None,
            state: '?',
            version,
            versions,
            age_ms: None,
        });
    }
    let mut add = |pid: Option<i32>, holds: &[(usize, u64)]| {
        let Some(oldest_ms) = holds.iter().map(|hold| hold.1).min() else { return };
        // One slot held through several openings is one version.
        let mut slots: Vec<usize> = holds.iter().map(|hold| hold.0).collect();
        slots.sort_unstable();
        slots.dedup();
        let (command, state) = pid.map_or((None, '?'), process);
        let version = slots.iter().filter_map(|slot| version(*slot)).min();
        let age_ms = Some(now.saturating_sub(oldest_ms));
        found.push(Holder { pid, enclave: None, command, state, version, versions: slots.len(), age_ms });
    };
    // Locks of processes that may not be looked into are known to the kernel's list of locks. While locks come and go it shows some
    // twice, and it is read before or after its processes: somebody else's is only what stands in it both times.
    let mut listed = listed_holds(device, lease.1, leases);
    let mut seen = Vec::new();
    let entries = std::fs::read_dir("/proc").map_err(|error| Error::io("open", Path::new("/proc"), error))?;
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let holds = holds_of(pid, lease, leases);
        add(Some(pid), &holds);
        seen.extend(holds);
    }
    let mut others = listed_holds(device, lease.1, leases);
    others.retain(|hold| take_out(&mut listed, hold) && !take_out(&mut seen, hold));
    add(None, &others);
    found.sort_by_key(|holder| std::cmp::Reverse(holder.age_ms));
    Ok(found)
}

/// Leases that a process has on a file, from what /proc tells of its open files.
fn holds_of(pid: i32, file: (u64, u64), leases: &RegionLeases) -> Vec<(usize, u64)> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return found };
    for entry in entries.flatten() {
        if !About::at(&entry.path(), false).is_ok_and(|about| about.identity == file) {
            continue;
        }
        let info = format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy());
        let text = std::fs::read_to_string(info).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| parse_lock(line.strip_prefix("lock:")?, None, leases)));
    }
    found
}

/// Takes one such item out, and says whether there was any.
fn take_out<T: PartialEq>(items: &mut Vec<T>, item: &T) -> bool {
    let index = items.iter().position(|other| other == item);
    index.map(|index| items.swap_remove(index)).is_some()
}

/// Leases on a file of this number, and of this device if that can be told, whoever has them.
fn listed_holds(device: Option<u64>, inode: u64, leases: &RegionLeases) -> Vec<(usize, u64)> {
    let text = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let device = device.map(|device| (libc::major(device), libc::minor(device)));
    text.lines().filter_map(|line| parse_lock(line, Some((device, inode)), leases)).collect()
}

/// Slot and time of a lease from a line such as `1: OFDLCK  ADVISORY  READ -1 00:19:7 1099511627776 1099511640000`.
/// Those on other files than this one, if one is given, are left out.
fn parse_lock(line: &str, wanted: Option<(Option<(u32, u32)>, u64)>, leases: &RegionLeases) -> Option<(usize, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let kind = words.iter().position(|word| *word == "OFDLCK")?;
    let [mode, _pid, file, start, end] = words.get(kind + 2..kind + 7)? else { return None };
    if *mode != "READ" {
        return None;
    }
    let mut numbers = file.split(':');
    let mut device = || u32::from_str_radix(numbers.next()?, 16).ok();
    let device = (device()?, device()?);
    let inode: u64 = numbers.next()?.parse().ok()?;
    if wanted.is_some_and(|wanted| wanted.1 != inode || wanted.0.is_some_and(|wanted| wanted != device)) {
        return None;
    }
    leases.decode_lock(start.parse().ok()?, end.parse().ok()?)
}

fn process(pid: i32) -> (Option<String>, char) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parts = text.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
    match parts {
        Some((command, rest)) => (Some(command.to_string()), rest.trim_start().chars().next().unwrap_or('?')),
        None => (None, '?'),
    }
}
