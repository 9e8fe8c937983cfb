//! Making a pool, and giving it back.

use crate::error::{Error, Result};
use crate::holders::holders;
use crate::page::Page;
use crate::pool::{PLACE, Pool, place};
use crate::supply::System;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What a pool is to be.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its name.
    pub name: String,
    /// Its bytes, rounded up to whole pages.
    pub bytes: u64,
    /// Of which pages.
    pub page: Page,
    /// Whether each memory node gives the same part.
    pub by_node: bool,
    /// Who may use it.
    pub access: Access,
}

/// Who may use a pool, as of a directory: its owner, group and mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The owner.
    pub user: u32,
    /// The group.
    pub group: u32,
    /// Bits of the mode; 0o1777 lets everybody use it.
    pub mode: u32,
}

/// What was gathered for a pool, and goes back with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Gathered {
    page_bytes: u64,
    parts: Vec<Part>,
}

/// Pages of a memory node, or of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    node: Option<u32>,
    count: u64,
    /// How many there were before, as long as it is not known whether the others came.
    before: Option<u64>,
}

/// The file that says it, beside the pool.
fn note(path: &Path) -> PathBuf {
    path.with_extension("gathered")
}

/// One reservation at a time: each reads how many pages there are before it changes that.
fn lock() -> Result<File> {
    for path in [Path::new(PLACE).parent().unwrap_or(Path::new("/")), Path::new(PLACE)] {
        make_folder(path)?;
    }
    let path = Path::new(PLACE).join(".lock");
    // Who may open it could keep others waiting for ever.
    let mut options = File::options();
    let file =
        options.create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(Error::io("open", &path))?;
    file.lock().map_err(Error::io("flock", &path))?;
    Ok(file)
}

/// Makes a directory through which users come to their pools, whatever the caller's umask says.
fn make_folder(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(Error::io("chmod", path)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::io("mkdir", path)(error)),
    }
}

/// Takes memory from the kernel, and makes a pool of it. Pages that are reserved already and that nobody has are used first.
///
/// # Errors
/// [`Error::Name`], [`Error::Exists`], [`Error::NoSuchPage`], [`Error::TooFew`]; [`Error::NotPermitted`] for whoever is not root.
/// Where there is an error everything is as it was.
pub fn reserve(system: &System, request: &Request) -> Result<Pool> {
    let path = place(&request.name)?;
    let supply = system.supply(request.page, None)?;
    let _lock = lock()?;
    if Pool::all(system)?.iter().any(|pool| pool.mount.path == path) {
        return Err(Error::Exists { name: request.name.clone(), path });
    }
    undo_left(system, &path)?;
    make_folder(&path)?;
    let mut gathered = Gathered { page_bytes: request.page.bytes(), parts: Vec::new() };
    let made = make(system, request, &path, &mut gathered, supply.spare());
    match made {
        Ok(()) => Pool::find(system, &request.name),
        Err(error) => {
            // What cannot be given back now stays reserved, as `still pages` shows.
            let _ = scatter(system, request.page, &gathered);
            unmake(&path);
            Err(error)
        }
    }
}

/// Gives back what a reservation gathered that was killed, or a pool's that ended half way, and removes what it left.
fn undo_left(system: &System, path: &Path) -> Result<()> {
    if let Some(left) = noted(path)
        && let Some(page) = Page::of_bytes(left.page_bytes)
    {
        scatter(system, page, &left)?;
    }
    unmake(path);
    Ok(())
}

/// What a note says, if there is one that can be read.
fn noted(path: &Path) -> Option<Gathered> {
    serde_json::from_slice(&fs::read(note(path)).ok()?).ok()
}

/// Gathers the pages and mounts them.
fn make(system: &System, request: &Request, path: &Path, gathered: &mut Gathered, spare: u64) -> Result<()> {
    let count = request.page.count(request.bytes);
    for (node, count) in wanted(system, request, count, spare) {
        gather(system, request.page, path, gathered, (node, count))?;
    }
    let mounted = mount_it(path, request, count);
    // Pages that a process copies after a fork come from what is spare, though it has a pool, so there may be fewer by now.
    let missing = count - gathered.parts.iter().map(|part| part.count).sum::<u64>().min(count);
    match mounted {
        Err(error) if missing > 0 && is_no_memory(&error) => {
            if gather(system, request.page, path, gathered, (None, missing)).is_err() {
                return Err(error);
            }
            mount_it(path, request, count)
        }
        mounted => mounted,
    }
}

fn is_no_memory(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::OutOfMemory)
}

/// Removes what was made for a pool that could not be mounted.
fn unmake(path: &Path) {
    let _ = fs::remove_file(note(path));
    let _ = fs::remove_dir(path);
}

/// What is to be gathered: what is missing, or of several memory nodes each its part, whatever is there already.
fn wanted(system: &System, request: &Request, count: u64, spare: u64) -> Vec<(Option<u32>, u64)> {
    let nodes = system.nodes();
    let mut wanted: Vec<(Option<u32>, u64)> = match request.by_node && nodes.len() > 1 {
        true => {
            let (each, more) = (count / nodes.len() as u64, count % nodes.len() as u64);
            let parts = nodes.iter().enumerate();
            parts.map(|(index, node)| (Some(*node), each + u64::from((index as u64) < more))).collect()
        }
        false => vec![(None, count.saturating_sub(spare))],
    };
    wanted.retain(|(_, count)| *count > 0);
    wanted
}

/// Gathers pages. Before they come it is noted that they may, so that they can be given back whenever this process is killed.
fn gather(
    system: &System,
    page: Page,
    path: &Path,
    gathered: &mut Gathered,
    (node, count): (Option<u32>, u64),
) -> Result<()> {
    let before = system.supply(page, node)?.total;
    gathered.parts.push(Part { node, count, before: Some(before) });
    write_note(path, gathered)?;
    if let Err(error) = system.gather(page, node, count) {
        // It gave back what it had found.
        gathered.parts.pop();
        return Err(error);
    }
    if let Some(part) = gathered.parts.last_mut() {
        part.before = None;
    }
    write_note(path, gathered)
}

fn write_note(path: &Path, gathered: &Gathered) -> Result<()> {
    let path = note(path);
    let text = serde_json::to_vec(gathered).unwrap_or_default();
    let mut options = File::options();
    let file = options.create(true).truncate(true).write(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(&text)).map_err(Error::io("write", &path))
}

/// Gives back what was gathered; says the first error, and goes on.
fn scatter(system: &System, page: Page, gathered: &Gathered) -> Result<()> {
    let mut result = Ok(());
    for Part { node, count, before } in &gathered.parts {
        let came = match before {
            Some(before) => system.supply(page, *node).map(|now| now.total.saturating_sub(*before).min(*count)),
            None => Ok(*count),
        };
        result = result.and(came.and_then(|came| system.scatter(page, *node, came)));
    }
    result
}

fn mount_it(path: &Path, request: &Request, count: u64) -> Result<()> {
    let Access { user, group, mode } = request.access;
    let bytes = count * request.page.bytes();
    // The least size is what no other mount can take away.
    let options =
        format!("pagesize={},size={bytes},min_size={bytes},uid={user},gid={group},mode={mode:o}", request.page);
    // Numbers and a name without zeros.
    let options = CString::new(options).unwrap_or_default();
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let mounted = mount(c"stillframe", path, c"hugetlbfs", flags, options.as_c_str());
    mounted.map_err(|error| Error::io("mount", path)(error.into()))
}

/// Gives a pool back to the kernel, with what was gathered for it.
///
/// # Errors
/// [`Error::NoPool`]; [`Error::Busy`] with those who use it; [`Error::NotPermitted`].
pub fn give_back(system: &System, name: &str) -> Result<()> {
    let path = place(name)?;
    // A name that there is not is said without a change of anything.
    Pool::find(system, name)?;
    let _lock = lock()?;
    let pool = Pool::find(system, name)?;
    let gathered = noted(&path);
    match unmount(&path, UnmountFlags::empty()) {
        Ok(()) => {}
        Err(rustix::io::Errno::BUSY) => {
            let all = holders(system, &pool);
            let told: Vec<String> = all.iter().map(|one| format!("{} ({})", one.command, one.pid)).collect();
            let holders = if told.is_empty() { "somebody who has it open".into() } else { told.join(", ") };
            return Err(Error::Busy { name: name.into(), holders });
        }
        Err(error) => return Err(Error::io("umount", &path)(error.into())),
    }
    // What does not go back now stays noted, for the next reservation of this name.
    if let Some(gathered) = gathered {
        scatter(system, pool.page(), &gathered)?;
    }
    unmake(&path);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that has so many pages.
    fn machine(total: u64) -> (tempfile::TempDir, System) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("kernel/mm/hugepages/hugepages-2048kB");
        fs::create_dir_all(&folder).unwrap();
        for (name, count) in [("nr_hugepages", total), ("free_hugepages", total), ("resv_hugepages", 0)] {
            fs::write(folder.join(name), count.to_string()).unwrap();
        }
        let system = System::at(dir.path(), dir.path());
        (dir, system)
    }

    #[test]
    fn what_a_killed_reservation_gathered_goes_back_before_the_next_of_its_name() {
        // It noted that 30 pages might come, and others reserved some meanwhile or not.
        for (total, before, left) in [(42, 12, 12), (20, 12, 12), (12, 12, 12), (50, 12, 20)] {
            let (dir, system) = machine(total);
            let path = dir.path().join("pool");
            fs::create_dir(&path).unwrap();
            let parts = vec![Part { node: None, count: 30, before: Some(before) }];
            write_note(&path, &Gathered { page_bytes: Page::Large.bytes(), parts }).unwrap();
            undo_left(&system, &path).unwrap();
            assert_eq!(system.supply(Page::Large, None).unwrap().total, left);
            assert!(!path.exists() && !note(&path).exists());
        }
    }

    #[test]
    fn what_was_gathered_for_sure_goes_back_whole() {
        let (dir, system) = machine(42);
        let path = dir.path().join("pool");
        let parts = vec![Part { node: None, count: 30, before: None }];
        write_note(&path, &Gathered { page_bytes: Page::Large.bytes(), parts }).unwrap();
        undo_left(&system, &path).unwrap();
        assert_eq!(system.supply(Page::Large, None).unwrap().total, 12);
        // Where nothing is left nothing is done.
        undo_left(&system, &path).unwrap();
        assert_eq!(system.supply(Page::Large, None).unwrap().total, 12);
    }

    #[test]
    fn who_is_let_through_to_a_pool_is_not_the_umasks_to_say() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("place");
        make_folder(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o755);
        make_folder(&path).unwrap();
    }
}
