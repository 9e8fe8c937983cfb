//! A process that makes segments, as others see it: a number, and a file of that number on which it holds a lock.
//!
//! A process that ends by itself removes what is its own, and the next that makes or looks up a segment what is the dead's
//! (`stillframe::inspect::xpmem`).

use crate::directory::{self, Directory};
use crate::problem::Problem;
use std::fs::{File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::PermissionsExt;
use stillframe::inspect::xpmem;
use stillframe_kernel::exit::ShutdownHook;
use stillframe_kernel::folder::{About, Access};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::lock::{self, Kind};

/// How often a number may be taken, or its file be removed, before it is no coincidence.
const ATTEMPTS: usize = 100;

/// What this process is to others.
#[derive(Debug)]
pub struct Process {
    /// Unique in the directory of regions.
    pub number: u32,
    pub directory: Directory,
    /// Numbers given out, of segments and files.
    given: u32,
    _lock: Unforked,
    _end: ShutdownHook,
}

impl Process {
    /// Takes a number.
    pub fn begin() -> Result<Process, Problem> {
        let directory = Directory::make()?;
        for _ in 0..ATTEMPTS {
            // Nobody is to foresee it, who could take names away before they are used.
            let number = (RandomState::new().hash_one(std::process::id()) as u32) >> 1;
            if number == 0 || directory.folder.has(directory::process_file(number)) {
                continue;
            }
            if let Some(lock) = claim(&directory, number)? {
                let _end = ShutdownHook::new(move || {
                    let _ = xpmem::remove(directory::path(), number);
                });
                return Ok(Process { number, directory, given: 0, _lock: lock, _end });
            }
        }
        Err(Problem::file("open", directory::path(), std::io::ErrorKind::AlreadyExists.into()))
    }

    /// A number that nothing else of this process has.
    pub fn next(&mut self) -> Result<u32, Problem> {
        self.given = self.given.checked_add(1).ok_or_else(|| {
            Problem::argument("segid", "this process has made as many segments as it can have numbers for")
        })?;
        Ok(self.given)
    }

    /// The number of a segment of this process.
    pub fn next_segid(&mut self) -> Result<i64, Problem> {
        Ok(i64::from(self.number) << 32 | i64::from(self.next()?))
    }
}

/// The process whose segment this is.
pub fn maker_of(segid: i64) -> Option<u32> {
    u32::try_from(segid >> 32).ok().filter(|number| *number != 0)
}

/// Makes and locks the file of a number; `None` if somebody else was faster, or swept it away before it was locked.
fn claim(directory: &Directory, number: u32) -> Result<Option<Unforked>, Problem> {
    let name = directory::process_file(number);
    let lock = Unforked::open(|| directory.create(&name))?;
    let Some(file) = lock.get() else { return Ok(None) };
    if !lock::try_lock(file, Kind::Write, 0, 1)? || !is_named(directory, &name, file) {
        return Ok(None);
    }
    // Others need only read it to ask for the lock.
    let permitted = file.set_permissions(Permissions::from_mode(0o644));
    permitted.map_err(|error| Problem::file("chmod", directory::path().join(&name), error))?;
    Ok(Some(lock))
}

/// Whether a file has this name still.
fn is_named(directory: &Directory, name: &str, file: &File) -> bool {
    match (About::of(file), directory.folder.about_name(name)) {
        (Ok(file), Ok(named)) => file.identity == named.identity,
        _ => false,
    }
}

/// Whether the process of this number lives.
pub fn is_alive(directory: &Directory, number: u32) -> Result<bool, Problem> {
    match directory.open(&directory::process_file(number), Access::Read) {
        Ok((file, _)) => Ok(lock::is_held(&file, Kind::Read, 0, 1)?),
        Err(problem) if problem.is_missing() => Ok(false),
        Err(problem) => Err(problem),
    }
}
