//! Whether the machine of another enclave runs: a lock that goes with it.
//!
//! Memory does not tell: a machine that is paused is as silent as one that is dead. So whoever starts a machine takes a lock in the
//! directory of its arena, which the machine's process inherits, and the kernel drops it when that is gone, however it went.
//!
//! Whoever may read a file can lock it so that nobody else gets a write lock. So each start of the machine locks a new file, before it
//! has the name by which others find it; and who starts a machine and who records the end of the last one keep apart by the lock of
//! a file that nobody but its owner opens.

use crate::error::{Error, Result};
use crate::folder::{check_name, make_folder};
use crate::socket::{explain, system};
use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use stillframe_kernel::folder::{Access, Folder};
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::points;
use stillframe_kernel::trust::{Guard, Purpose, Trust};
use stillframe_segment::arena;
use stillframe_segment::enclave::{self, Enclave, MACHINE, MACHINE_LOCK, RUNNING_AT};

/// How long the start of a machine waits for who records the end of the last one, which is a few writes.
const RECORDED: Duration = Duration::from_secs(5);

/// The file of a machine that is being started.
const NEW: &str = "machine.new";

/// Whether the machine of an enclave has ended, as the directory of its arena tells. One of which nobody said that it began may run.
pub(crate) fn has_ended(folder: &Folder, path: &Path, guard: Guard) -> Result<bool> {
    let path = path.join(MACHINE);
    let (file, _) = match guard.open(folder, MACHINE, Access::Read) {
        Ok(opened) => opened,
        Err(refused) if refused.is_missing() => return Ok(false),
        Err(refused) => return Err(explain(&path, refused)),
    };
    lock::has_ended(&file).map_err(|failure| Error::System { path, failure })
}

/// Records in the arena of an enclave that its machine has ended, for those who do not see its lock: other machines, and agents that
/// begin here when the directory is another one. The arena's file has this `identity`; where another one has its name by now, nothing is
/// recorded. `at` is where the enclave says who it is, and `said` what it says, if that is whole.
///
/// # Errors
/// Those of the files: this user may not write to what is another one's.
pub(crate) fn record_end(
    folder: &Folder,
    path: &Path,
    guard: Guard,
    (identity, at): ((u64, u64), u64),
    said: impl FnOnce() -> Option<Enclave>,
) -> Result<()> {
    let opened = |name: &str| {
        let opened = guard.open(folder, name, Access::Write);
        opened.map_err(|refused| explain(&path.join(name), refused))
    };
    let (machine_path, arena_path) = (path.join(MACHINE), path.join(arena::FILE));
    let (lock, _) = opened(MACHINE_LOCK)?;
    // The next start of the machine waits for this lock. So it says who it is after this, or this is left.
    if !try_lock(&lock, path)? {
        return Ok(());
    }
    let (machine, _) = opened(MACHINE)?;
    if !lock::has_ended(&machine).map_err(|failure| Error::System { path: machine_path, failure })? {
        return Ok(());
    }
    points::hit("machine.records");
    let (arena, about) = opened(arena::FILE)?;
    if about.identity != identity {
        return Ok(());
    }
    // Now, as nobody says anything else there meanwhile.
    let written = match said() {
        Some(said) => arena.write_all_at(&Enclave { identity: 0, ..said }.encode(), at + enclave::ABI_AT as u64),
        None => arena.write_all_at(&[0; 8], at + enclave::IDENTITY_AT as u64),
    };
    written.map_err(|error| system(&arena_path, "write", error))
}

/// Takes the lock of an enclave's machine, for the program that is started with the file open.
///
/// # Errors
/// [`Error::InUse`] if a machine of the name runs; [`Error::NotShared`] if it cannot be an enclave's name; others of the files.
pub fn begin_machine(dir: &Path, name: &str, mode: u32, trust: Trust) -> Result<File> {
    check_name(dir, name)?;
    let guard = Guard::new(trust, Purpose::Write { granted: mode });
    let folder = make_folder(dir, name, mode, guard)?;
    let path = dir.join(name);
    let opened = |name: &str, access| {
        let opened = guard.open(&folder, name, access);
        opened.map(|(file, _)| file).map_err(|refused| explain(&path.join(name), refused))
    };
    let lock = opened(MACHINE_LOCK, Access::Create(0o600))?;
    let end = Instant::now() + RECORDED;
    while !try_lock(&lock, &path)? {
        if Instant::now() > end {
            return Err(Error::InUse { path: path.join(MACHINE_LOCK) });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    points::hit("machine.begins");
    if folder.has(MACHINE) {
        let former = guard.looking().open(&folder, MACHINE, Access::Read);
        let (former, _) = former.map_err(|refused| explain(&path.join(MACHINE), refused))?;
        let runs = lock::is_held(&former, Kind::Read, RUNNING_AT, 1);
        if runs.map_err(|failure| Error::System { path: path.join(MACHINE), failure })? {
            return Err(Error::InUse { path: path.join(MACHINE) });
        }
    }
    // Whoever was killed here before has left one.
    if folder.has(NEW) {
        folder.remove_file(NEW).map_err(|error| system(&path.join(NEW), "unlink", error))?;
    }
    // Nobody else opens it before it is locked.
    let file = opened(NEW, Access::New(0o600))?;
    let locked = lock::try_lock(&file, Kind::Write, RUNNING_AT, 1);
    if !locked.map_err(|failure| Error::System { path: path.join(NEW), failure })? {
        return Err(Error::InUse { path: path.join(NEW) });
    }
    // An empty one counts as that of a machine of which nobody said that it began. A length takes no memory, of which there may be none;
    // the number is for people.
    file.set_len(1).map_err(|error| system(&path.join(NEW), "ftruncate", error))?;
    let _ = file.write_all_at(std::process::id().to_string().as_bytes(), 0);
    let permitted = file.set_permissions(Permissions::from_mode(mode & 0o644));
    permitted.map_err(|error| system(&path.join(NEW), "fchmod", error))?;
    points::hit("machine.locked");
    folder.rename(NEW, &folder, MACHINE).map_err(|error| system(&path.join(MACHINE), "rename", error))?;
    Ok(file)
}

/// Keeps starts of a machine in `path` and records of its end apart, as long as the file is open.
fn try_lock(file: &File, path: &Path) -> Result<bool> {
    let locked = lock::try_lock(file, Kind::Write, 0, 1);
    locked.map_err(|failure| Error::System { path: path.join(MACHINE_LOCK), failure })
}
