//! Who owns a region: taking the producer's lock, and removing what only its owner may.

use crate::error::{Error, Result};
use crate::place::directory::{Directory, Unopened, ranks_below};
use crate::place::names::{self, is_numbered};
use crate::store::head::{head_word, producer_pid};
use crate::store::lease::LeaseFile;
use std::ffi::OsString;
use std::time::{Duration, Instant};
use stillframe_kernel::folder::{About, Form};
use stillframe_kernel::trust::Distrust;
use stillframe_segment::{head, lease, table};

/// Longest time between the lock of whoever removes a region and the end of its head, and until all of it is gone: giving
/// memory back takes the kernel a second for each few GiB.
///
/// The first is an instant, in which whoever removes may have no turn on a machine with much to do. Who asks for a region that
/// is another's waits for as long until he is refused.
pub(crate) const REMOVAL_BEGINS: Duration = Duration::from_millis(200);

pub(crate) const REMOVAL: Duration = Duration::from_secs(10);

/// Longest time in which whoever puts a region in the place of one that has ended has its lock. Whoever still has a loan of the ended
/// one has the lock, too, for longer: who asks for the region meanwhile is refused after this time.
const REPLACEMENT: Duration = Duration::from_secs(1);

/// Why a region's lock was not to be had.
pub(crate) enum Obstacle {
    /// Somebody else has it.
    Held,
    /// The lease file was removed between opening and locking, and protects nothing.
    Removed,
    /// There is no directory.
    NoDirectory,
}

/// Opens the lease file of a region, makes it if it is missing, and takes the producer's lock in it if nobody has it. Whoever
/// produces and whoever removes does this first, so that only one of them goes on.
pub(crate) fn try_lock(root: &Directory, name: &str, mode: u32) -> Result<Result<(Directory, LeaseFile), Obstacle>> {
    let Some(directory) = root.below(name)? else { return Ok(Err(Obstacle::NoDirectory)) };
    let leases = match LeaseFile::create(&directory, name, mode) {
        Err(Unopened::Missing) => return Ok(Err(Obstacle::NoDirectory)),
        Err(Unopened::Failed(error)) => return Err(error),
        Ok(leases) => leases,
    };
    if !leases.try_produce()? {
        return Ok(Err(Obstacle::Held));
    }
    let ours = About::of(leases.file()?).map_err(|error| Error::io("fstat", directory.path(), error))?;
    // By its name, which may be that of another directory by now.
    let there = root.below(name)?.and_then(|directory| directory.about(lease::FILE));
    let is_there = there.is_some_and(|there| there.identity == ours.identity);
    Ok(if is_there { Ok((directory, leases)) } else { Err(Obstacle::Removed) })
}

/// Takes the producer's lock, and makes the directory again if the region is just being removed.
pub(crate) fn lock(root: &Directory, name: &str, mode: u32) -> Result<(Directory, LeaseFile)> {
    let begin = Instant::now();
    loop {
        match try_lock(root, name, mode)? {
            Ok(locked) => return Ok(locked),
            Err(Obstacle::NoDirectory) if begin.elapsed() < REMOVAL => drop(root.make_below(name, mode)?),
            Err(Obstacle::Removed) if begin.elapsed() < REMOVAL => {}
            Err(Obstacle::NoDirectory | Obstacle::Removed) => return Err(Error::in_use(name, 0)),
            Err(Obstacle::Held) => {
                let directory = root.below(name)?;
                // Whoever removes a region has the lock, too, and takes the head away first; whoever puts another in its place
                // leaves it.
                let patience = match &directory {
                    Some(directory) if !directory.has(head::FILE) => REMOVAL,
                    Some(directory) if head_word(directory, head::ENDED_NS_AT) != 0 => REPLACEMENT,
                    Some(_) => REMOVAL_BEGINS,
                    None => REMOVAL,
                };
                if begin.elapsed() >= patience {
                    let pid = directory.map_or(0, |directory| producer_pid(&directory));
                    return Err(Error::in_use(name, pid));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Whether a directory has nothing but what an unfinished creation leaves. Without a head that says so, it may as well be
/// somebody's own with a file called `lease` or `head` in it.
pub(crate) fn is_unfinished(directory: &Directory) -> bool {
    let is_ours = |name: &OsString| match name.to_str() {
        Some(lease::FILE) => {
            directory.about(lease::FILE).is_some_and(|about| about.form == Form::File && about.bytes == 0)
        }
        Some(head::FILE | table::FILE | lease::PRODUCER_FILE) => true,
        name => name.is_some_and(is_numbered),
    };
    directory.names().is_ok_and(|names| names.iter().all(is_ours))
}

/// Removes a region's files, the lease last, and the directories that are then empty.
pub(crate) fn remove(root: &Directory, directory: &Directory, name: &str) -> Result<()> {
    let names = directory.names()?;
    // The head first: without it nobody takes the rest for a region.
    directory.unlink(head::FILE)?;
    for name in names.iter().filter_map(|name| name.to_str()) {
        if name == table::FILE || is_numbered(name) {
            directory.unlink(name)?;
        }
    }
    directory.unlink(lease::FILE)?;
    // Who finds a lease must find what its locks go with.
    directory.unlink(lease::PRODUCER_FILE)?;
    root.remove_empty(name)
}

/// Refuses to take away what is neither a region's nor a rank's; `false` if there is no directory.
pub(crate) fn check_entries(root: &Directory, name: &str) -> Result<bool> {
    let why = "what lies below it is not only its own, and would be lost; move that away, or choose another name";
    let stranger = || Error::BadName { name: name.into(), what: "region", why: why.into() };
    let directory = match root.below(name) {
        Ok(Some(directory)) => directory,
        Ok(None) => return Ok(false),
        Err(Error::Untrusted { distrust: Distrust::Form { .. }, .. }) => return Err(stranger()),
        Err(error) => return Err(error),
    };
    let ranks = ranks_below(root, name)?;
    for entry in directory.names()? {
        let text = entry.to_str().ok_or_else(stranger)?;
        let is_folder = directory.about(text).is_some_and(|about| about.form == Form::Folder);
        let is_rank = ranks.iter().any(|rank| text == rank.to_string());
        match is_folder {
            true if is_rank => check_entries(root, &format!("{name}/{text}")).map(drop)?,
            false if names::is_own_file(text) => {}
            _ => return Err(stranger()),
        }
    }
    Ok(true)
}
