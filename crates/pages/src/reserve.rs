//! Making a pool, and giving it back.

use crate::error::{Error, Result};
use crate::fill::{fill, shares};
use crate::holders::{Holder, holders};
use crate::note::{self, Gathered, Part};
use crate::page::Page;
use crate::pool::{PLACE, Pool, place};
use crate::supply::System;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

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
    /// Whether its pages are filled once before anybody gets one.
    pub is_filled: bool,
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

/// What a reservation does that may take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Another one is made or given back just now.
    Waiting,
    /// The kernel gathers pages.
    Gathering,
    /// Pages are filled.
    Filling {
        /// So many bytes of them are.
        done_bytes: u64,
        /// All of them.
        bytes: u64,
    },
}

/// Is told what a reservation does, several times in a second, and says whether it is to go on.
pub type Watch<'w> = &'w mut dyn FnMut(Step) -> ControlFlow<()>;

/// How often it is looked whether another reservation has ended.
const LOCK_PERIOD: Duration = Duration::from_millis(50);

/// One reservation at a time: each reads how many pages there are before it changes that. `None` where `go_on` says no.
fn lock(mut go_on: impl FnMut() -> bool) -> Result<Option<File>> {
    for path in [Path::new(PLACE).parent().unwrap_or(Path::new("/")), Path::new(PLACE)] {
        make_folder(path)?;
    }
    let path = Path::new(PLACE).join(".lock");
    // Who may open it could keep others waiting for ever.
    let mut options = File::options();
    let file =
        options.create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(Error::io("open", &path))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(error)) => return Err(Error::io("flock", &path)(error)),
            Err(TryLockError::WouldBlock) if !go_on() => return Ok(None),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PERIOD),
        }
    }
}

/// Makes a directory through which users come to their pools, whatever the caller's umask says.
fn make_folder(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(Error::io("chmod", path)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::io("mkdir", path)(error)),
    }
}

/// Takes memory from the kernel, and makes a pool of it. Pages that are reserved already and that nobody has are used first. Nobody
/// but root gets pages of it before it is whole.
///
/// # Errors
/// [`Error::Name`], [`Error::Exists`], [`Error::NoSuchPage`], [`Error::TooFew`], [`Error::Fill`]; [`Error::Interrupted`] where `watch`
/// says so; [`Error::NotPermitted`] for whoever is not root. Where there is an error everything is as it was.
pub fn reserve(system: &System, request: &Request, watch: Watch) -> Result<Pool> {
    let path = place(&request.name)?;
    let interrupted = || Error::Interrupted { name: request.name.clone() };
    // Pages that the machine has not are said before anybody is waited for.
    system.supply(request.page, None)?;
    let _lock = lock(|| watch(Step::Waiting).is_continue())?.ok_or_else(interrupted)?;
    if Pool::all(system)?.iter().any(|pool| pool.mount.path == path) && !unmount_unfinished(&path) {
        return Err(Error::Exists { name: request.name.clone(), path });
    }
    undo_left(system, &path)?;
    undo_others(system, Path::new(PLACE))?;
    // Others took or left some as long as they had the lock.
    let supply = system.supply(request.page, None)?;
    make_folder(&path)?;
    let mut gathered = Gathered { page_bytes: request.page.bytes(), parts: Vec::new(), is_unfinished: true };
    let made = make(system, request, &path, &mut gathered, (supply.spare(), watch));
    let made = made.and_then(|()| Pool::find(system, &request.name));
    if made.is_err() && unmount_made(&path) {
        // What cannot be given back now stays noted, for the next reservation.
        if gathered.scatter(system, &path).is_ok() {
            unmake(&path);
        }
    }
    made
}

/// The pool that is there already, if it is whole, and as large, of such pages and for those users as is asked for.
///
/// # Errors
/// [`Error::Exists`] if it is another; [`Error::NoPool`].
pub fn find_same(system: &System, request: &Request) -> Result<Pool> {
    let pool = Pool::find(system, &request.name)?;
    let path = &pool.mount.path;
    let about = fs::metadata(path).map_err(Error::io("stat", path))?;
    let access = Access { user: about.uid(), group: about.gid(), mode: about.mode() & 0o7777 };
    let bytes = request.page.count(request.bytes) * request.page.bytes();
    let is_whole = !Gathered::read(path).is_some_and(|note| note.is_unfinished);
    let is_same = pool.page() == request.page && pool.size(system)?.bytes == Some(bytes) && access == request.access;
    match is_whole && is_same {
        true => Ok(pool),
        false => Err(Error::Exists { name: pool.name, path: pool.mount.path }),
    }
}

/// Unmounts what was made, unless somebody is in it. Then it stays as it is, root's and noted, until it is given back or reserved anew.
fn unmount_made(path: &Path) -> bool {
    matches!(unmount(path, UnmountFlags::empty()), Ok(()) | Err(Errno::INVAL | Errno::NOENT))
}

/// Unmounts a pool that was being made when its reservation was killed. Whoever has the lock knows that nobody makes it now.
fn unmount_unfinished(path: &Path) -> bool {
    Gathered::read(path).is_some_and(|note| note.is_unfinished) && unmount(path, UnmountFlags::empty()).is_ok()
}

/// Gives back what a reservation gathered that was killed, or a pool's that ended half way, and removes what it left.
fn undo_left(system: &System, path: &Path) -> Result<()> {
    if let Some(mut left) = Gathered::read(path) {
        left.scatter(system, path)?;
    }
    unmake(path);
    Ok(())
}

/// As `undo_left`, of all that are not mounted: else nobody would know of their pages who does not name that pool.
fn undo_others(system: &System, folder: &Path) -> Result<()> {
    let pools = Pool::all(system)?;
    let is_mounted = |path: &Path| pools.iter().any(|pool| pool.mount.path == path);
    for path in note::places(folder).iter().filter(|path| !is_mounted(path)) {
        // What cannot go back now stays noted, and is in nobody's way.
        let _ = undo_left(system, path);
    }
    Ok(())
}

/// Gathers the pages, mounts them, fills them, and lets users come.
fn make(
    system: &System,
    request: &Request,
    path: &Path,
    gathered: &mut Gathered,
    (spare, watch): (u64, Watch),
) -> Result<()> {
    let count = request.page.count(request.bytes);
    let before = system.by_node(request.page);
    // What nothing is gathered for is noted, too: it may be killed before it is whole.
    gathered.write(path)?;
    for (node, count) in wanted(system, request, count, spare) {
        gather(system, request, path, gathered, (node, count, &mut *watch))?;
    }
    let mounted = mount_it(path, request.page, count);
    // Pages that a process copies after a fork come from what is spare, though it has a pool, so there may be fewer by now.
    let missing = count - gathered.parts.iter().map(|part| part.count).sum::<u64>().min(count);
    match mounted {
        Err(error) if missing > 0 && is_no_memory(&error) => {
            if gather(system, request, path, gathered, (None, missing, &mut *watch)).is_err() {
                return Err(error);
            }
            mount_it(path, request.page, count)?;
        }
        mounted => mounted?,
    }
    if request.is_filled {
        let (pool, bytes) = (Pool::find(system, &request.name)?, count * request.page.bytes());
        let shares = shares(&before, &system.by_node(request.page), count);
        fill(system, &pool, &shares, &mut |done_bytes| watch(Step::Filling { done_bytes, bytes }))?;
    }
    open(path, request.access)?;
    gathered.is_unfinished = false;
    gathered.write(path)
}

/// Lets those come who may use it.
fn open(path: &Path, access: Access) -> Result<()> {
    chown(path, Some(access.user), Some(access.group)).map_err(Error::io("chown", path))?;
    fs::set_permissions(path, Permissions::from_mode(access.mode)).map_err(Error::io("chmod", path))
}

fn is_no_memory(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::OutOfMemory)
}

/// Removes what was made for a pool that could not be mounted.
fn unmake(path: &Path) {
    note::remove(path);
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
    request: &Request,
    path: &Path,
    gathered: &mut Gathered,
    (node, count, watch): (Option<u32>, u64, Watch),
) -> Result<()> {
    let page = request.page;
    let before = system.supply(page, node)?.total;
    gathered.parts.push(Part { node, count, before: Some(before) });
    gathered.write(path)?;
    let mut is_interrupted = false;
    let go_on = || {
        is_interrupted |= watch(Step::Gathering).is_break();
        !is_interrupted
    };
    if let Err(error) = system.gather(page, node, count, go_on) {
        // It gave back what it had found.
        gathered.parts.pop();
        return Err(if is_interrupted { Error::Interrupted { name: request.name.clone() } } else { error });
    }
    if let Some(part) = gathered.parts.last_mut() {
        part.before = None;
    }
    gathered.write(path)
}

/// Mounts a pool that nobody but root may use yet.
fn mount_it(path: &Path, page: Page, count: u64) -> Result<()> {
    let bytes = count * page.bytes();
    // The least size is what no other mount can take away.
    let options = format!("pagesize={page},size={bytes},min_size={bytes},mode=700");
    // Numbers and a name without zeros.
    let options = CString::new(options).unwrap_or_default();
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let mounted = mount(c"stillframe", path, c"hugetlbfs", flags, options.as_c_str());
    mounted.map_err(|error| Error::io("mount", path)(error.into()))
}

/// Gives a pool back to the kernel, with what was gathered for it.
///
/// What a reservation left that was killed before there was a pool goes back, too.
///
/// What files have is lost: `is_forced` says that it may be.
///
/// # Errors
/// [`Error::NoPool`]; [`Error::Busy`] with those who use it; [`Error::Files`] with what lies in it, unless `is_forced`;
/// [`Error::NotPermitted`]; [`Error::Kept`], after which there is no pool.
pub fn give_back(system: &System, name: &str, is_forced: bool) -> Result<()> {
    let path = place(name)?;
    // A name that there is not is said without a change of anything.
    find_or_left(system, name, &path)?;
    let _lock = lock(|| true)?;
    let found = find_or_left(system, name, &path)?;
    // What others left is noted by a number of pages that changes now.
    undo_others(system, Path::new(PLACE))?;
    let Some(pool) = found else { return undo_left(system, &path) };
    // Those in other mount namespaces do not keep the kernel from unmounting it here.
    refuse_used(&pool, &holders(system, &pool))?;
    refuse_files(&pool, is_forced)?;
    let gathered = Gathered::read(&path);
    unmount_empty(system, &pool, is_forced)?;
    // What does not go back now stays noted, for the next reservation.
    let kept_count = gathered.map_or(Ok(0), |mut gathered| gathered.scatter(system, &path))?;
    unmake(&path);
    match kept_count {
        0 => Ok(()),
        count => Err(Error::Kept { name: name.into(), page: pool.page(), count }),
    }
}

/// Unmounts a pool that nobody has anything of. Nobody but root comes in meanwhile, so that no file is lost that was made since it was
/// looked for some.
fn unmount_empty(system: &System, pool: &Pool, is_forced: bool) -> Result<()> {
    let path = &pool.mount.path;
    let access = fs::metadata(path).map_err(Error::io("stat", path))?.permissions();
    fs::set_permissions(path, Permissions::from_mode(0o000)).map_err(Error::io("chmod", path))?;
    let unmounted = refuse_files(pool, is_forced).and_then(|()| match unmount(path, UnmountFlags::empty()) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => {
            refuse_used(pool, &holders(system, pool))?;
            Err(Error::Busy { name: pool.name.clone(), holders: "somebody who has it open".into() })
        }
        Err(error) => Err(Error::io("umount", path)(error.into())),
    });
    if unmounted.is_err() {
        fs::set_permissions(path, access).map_err(Error::io("chmod", path))?;
    }
    unmounted
}

/// Names of what lies in a pool that are said.
const NAMES_MAX: usize = 5;

/// An error if there are files in the pool, unless they may be lost.
fn refuse_files(pool: &Pool, is_forced: bool) -> Result<()> {
    let path = &pool.mount.path;
    let entries = fs::read_dir(path).map_err(Error::io("open", path))?;
    let mut names: Vec<String> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into()).collect();
    if is_forced || names.is_empty() {
        return Ok(());
    }
    names.sort();
    let count = names.len();
    names.truncate(NAMES_MAX);
    if count > NAMES_MAX {
        names.push(format!("{} more", count - NAMES_MAX));
    }
    Err(Error::Files { name: pool.name.clone(), path: path.clone(), files: names.join(", ") })
}

/// An error if somebody has something of the pool.
fn refuse_used(pool: &Pool, holders: &[Holder]) -> Result<()> {
    let told: Vec<String> = holders.iter().map(|one| format!("{} ({})", one.command, one.pid)).collect();
    match told.is_empty() {
        true => Ok(()),
        false => Err(Error::Busy { name: pool.name.clone(), holders: told.join(", ") }),
    }
}

/// The pool of a name; `None` if something is left of one.
fn find_or_left(system: &System, name: &str, path: &Path) -> Result<Option<Pool>> {
    match Pool::find(system, name) {
        Err(Error::NoPool { .. }) if note::is_left(path) => Ok(None),
        found => found.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::tests::machine_with;

    #[test]
    fn what_a_killed_reservation_gathered_goes_back_before_the_next_of_its_name() {
        // It noted that 30 pages might come, and others reserved some meanwhile or not.
        for (total, before, left) in [(42, 12, 12), (20, 12, 12), (12, 12, 12), (50, 12, 20)] {
            let (dir, system) = machine_with(total);
            let path = dir.path().join("pool");
            fs::create_dir(&path).unwrap();
            let parts = vec![Part { node: None, count: 30, before: Some(before) }];
            Gathered { page_bytes: Page::Large.bytes(), parts, is_unfinished: true }.write(&path).unwrap();
            undo_left(&system, &path).unwrap();
            assert_eq!(system.supply(Page::Large, None).unwrap().total, left);
            assert!(!path.exists() && !note::file(&path).exists());
        }
    }

    #[test]
    fn what_was_gathered_for_sure_goes_back_whole() {
        let (dir, system) = machine_with(42);
        let path = dir.path().join("pool");
        let parts = vec![Part { node: None, count: 30, before: None }];
        Gathered { page_bytes: Page::Large.bytes(), parts, is_unfinished: false }.write(&path).unwrap();
        undo_left(&system, &path).unwrap();
        assert_eq!(system.supply(Page::Large, None).unwrap().total, 12);
        // Where nothing is left nothing is done.
        undo_left(&system, &path).unwrap();
        assert_eq!(system.supply(Page::Large, None).unwrap().total, 12);
    }

    #[test]
    fn what_killed_reservations_of_other_names_left_goes_back_with_the_next_of_any() {
        let (dir, system) = machine_with(42);
        fs::create_dir(dir.path().join("self")).unwrap();
        let (mounted, left) = (dir.path().join("mounted"), dir.path().join("left"));
        let line = format!("42 29 0:38 / {} rw - hugetlbfs none rw,pagesize=2M\n", mounted.display());
        fs::write(dir.path().join("self/mountinfo"), line).unwrap();
        for path in [&mounted, &left] {
            fs::create_dir(path).unwrap();
            let parts = vec![Part { node: None, count: 10, before: None }];
            Gathered { page_bytes: Page::Large.bytes(), parts, is_unfinished: path == &left }.write(path).unwrap();
        }
        undo_others(&system, dir.path()).unwrap();
        assert_eq!(system.supply(Page::Large, None).unwrap().total, 32, "what is mounted is somebody's");
        assert!(!note::is_left(&left) && note::is_left(&mounted));
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
