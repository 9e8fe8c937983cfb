//! Making a pool, and giving it back.

use crate::error::{Error, Result};
use crate::holders::holders;
use crate::page::Page;
use crate::pool::{PLACE, Pool, place};
use crate::supply::System;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
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

/// What was gathered for a pool, and goes back with it: pages of each memory node, or of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Gathered {
    parts: Vec<(Option<u32>, u64)>,
}

/// The file that says it, beside the pool.
fn note(path: &Path) -> PathBuf {
    path.with_extension("gathered")
}

/// One reservation at a time: each reads how many pages there are before it changes that.
fn lock() -> Result<File> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o755);
    builder.create(PLACE).map_err(Error::io("mkdir", Path::new(PLACE)))?;
    let path = Path::new(PLACE).join(".lock");
    let file =
        File::options().create(true).truncate(false).write(true).open(&path).map_err(Error::io("open", &path))?;
    file.lock().map_err(Error::io("flock", &path))?;
    Ok(file)
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
    let count = request.page.count(request.bytes);
    let mut gathered = gather(system, request, count, supply.spare())?;
    let mut mounted = mount_it(&path, request, count, &gathered);
    // Pages that a process copies after a fork come from what is spare, though it has a pool, so there may be fewer by now.
    let missing = count - gathered.parts.iter().map(|(_, count)| count).sum::<u64>().min(count);
    if missing > 0 && mounted.as_ref().is_err_and(is_no_memory) && system.gather(request.page, None, missing).is_ok() {
        gathered.parts.push((None, missing));
        unmake(&path);
        mounted = mount_it(&path, request, count, &gathered);
    }
    match mounted {
        Ok(()) => Pool::find(system, &request.name),
        Err(error) => {
            unmake(&path);
            scatter(system, request.page, &gathered);
            Err(error)
        }
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

/// Gathers what is missing; of several memory nodes each its part, whatever is there already.
fn gather(system: &System, request: &Request, count: u64, spare: u64) -> Result<Gathered> {
    let nodes = system.nodes();
    let wanted: Vec<(Option<u32>, u64)> = match request.by_node && nodes.len() > 1 {
        true => {
            let (each, more) = (count / nodes.len() as u64, count % nodes.len() as u64);
            let parts = nodes.iter().enumerate();
            parts.map(|(index, node)| (Some(*node), each + u64::from((index as u64) < more))).collect()
        }
        false => vec![(None, count.saturating_sub(spare))],
    };
    let mut gathered = Gathered::default();
    for (node, count) in wanted.into_iter().filter(|(_, count)| *count > 0) {
        if let Err(error) = system.gather(request.page, node, count) {
            scatter(system, request.page, &gathered);
            return Err(error);
        }
        gathered.parts.push((node, count));
    }
    Ok(gathered)
}

/// What cannot be given back now stays reserved, as `still pages` shows.
fn scatter(system: &System, page: Page, gathered: &Gathered) {
    for (node, count) in &gathered.parts {
        let _ = system.scatter(page, *node, *count);
    }
}

fn mount_it(path: &Path, request: &Request, count: u64, gathered: &Gathered) -> Result<()> {
    DirBuilder::new().mode(0o755).create(path).map_err(Error::io("mkdir", path))?;
    let text = serde_json::to_vec(gathered).unwrap_or_default();
    let noted = note(path);
    fs::write(&noted, text).map_err(Error::io("write", &noted))?;
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
    let pool = Pool::find(system, name)?;
    let _lock = lock()?;
    let noted = note(&path);
    let gathered: Gathered = match fs::read(&noted) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(_) => Gathered::default(),
    };
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
    for (node, count) in &gathered.parts {
        system.scatter(pool.page(), *node, *count)?;
    }
    let _ = fs::remove_file(noted);
    let _ = fs::remove_dir(path);
    Ok(())
}
