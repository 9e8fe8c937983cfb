//! What processes of `libstillframe-xpmem` have in a directory of regions: files whose names begin with `.xpmem-`, and a region.
//!
//! A process that makes segments has a number, and a file of that number on which it holds a lock as long as it lives. The names of all
//! its other files begin with that one's. The kernel drops the lock when the process ends, however it does; so what is the dead's is
//! known, and whoever makes or looks up a segment later removes it, or who collects what nobody needs.

use super::removal;
use crate::error::{Error, Result};
use crate::inspect::region::{RegionInfo, unread};
use crate::place::directory::{Directory, Unopened};
use std::collections::BTreeMap;
use std::path::Path;
use stillframe_kernel::folder::{Access, Form};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::lock::{self, Kind};

/// Begins the names of all these files.
pub const PREFIX: &str = ".xpmem-";

/// The file that stands for a process.
pub fn process_file(process: u32) -> String {
    format!("{PREFIX}{process:08x}")
}

/// The file with what others need to know of a segment. Its number begins with that of the process.
pub fn record_file(segid: i64) -> String {
    format!("{PREFIX}{segid:016x}")
}

/// A file with pages of a process.
pub fn pages_file(process: u32, number: u32) -> String {
    format!("{PREFIX}{process:08x}-{number}{PAGES_END}")
}

/// A file of a process that nobody is shown yet.
pub fn new_file(process: u32) -> String {
    format!("{PREFIX}{process:08x}{NEW_END}")
}

const PAGES_END: &str = ".pages";
const NEW_END: &str = "-new";

/// A number of eight digits with which a text begins, and the rest.
fn number(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(8)?;
    let is_number = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_number.then(|| u32::from_str_radix(digits, 16).ok()).flatten().map(|number| (number, rest))
}

/// Whether this ends the name of a file with pages.
fn is_pages_end(rest: &str) -> bool {
    let number = rest.strip_prefix('-').and_then(|rest| rest.strip_suffix(PAGES_END));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The process whose file this is; `None` if it is none of these files. What is hidden of a region may have a name much like theirs.
pub fn process_of(name: &str) -> Option<u32> {
    let (process, rest) = number(name.strip_prefix(PREFIX)?)?;
    let is_record = || number(rest).is_some_and(|(_, rest)| rest.is_empty());
    (rest.is_empty() || rest == NEW_END || is_pages_end(rest) || is_record()).then_some(process)
}

/// Whether a file of this name has pages of this process.
pub fn is_pages_file_of(name: &str, process: u32) -> bool {
    name.strip_prefix(&process_file(process)).is_some_and(is_pages_end)
}

/// Whether a file of this name has pages of some process.
pub fn is_pages_file(name: &str) -> bool {
    process_of(name).is_some_and(|process| is_pages_file_of(name, process))
}

/// The segment whose record this is.
pub fn segid_of(name: &str) -> Option<i64> {
    let (process, rest) = number(name.strip_prefix(PREFIX)?)?;
    let (own, rest) = number(rest)?;
    rest.is_empty().then_some(i64::try_from(u64::from(process) << 32 | u64::from(own)).ok()).flatten()
}

/// The region in which a process keeps versions.
pub fn region_name(process: u32) -> String {
    format!("xasm-{process:08x}")
}

/// Removes all that a process made. Attachments and observers keep what they show.
///
/// # Errors
/// Environment.
pub fn remove(dir: &Path, process: u32) -> Result<()> {
    match removal::remove(dir, &region_name(process), true) {
        Ok(_) | Err(Error::NoRegion { .. }) => {}
        Err(error) => return Err(error),
    }
    removal::own(dir)?.map_or(Ok(()), |root| remove_files(&root, process))
}

/// Removes all that processes made that are dead, and are not `own`. What cannot be removed, because it is another user's, stays.
///
/// # Errors
/// Environment, if the directory cannot be read.
pub fn sweep(dir: &Path, own: Option<u32>) -> Result<()> {
    let root = match removal::own(dir) {
        Ok(Some(root)) => root,
        // Nothing in there is this user's.
        Ok(None) | Err(Error::Untrusted { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    for (process, names) in files(&root)?.into_iter().filter(|(process, _)| Some(*process) != own) {
        // The lock is kept while the files go, so that nobody takes the number meanwhile.
        if let Some(_dead) = dead(&root, process, &names) {
            let _ = remove(dir, process);
        }
    }
    Ok(())
}

/// A process that is dead, and left files that this user can remove.
#[derive(Debug)]
struct Dead {
    allocated_bytes: u64,
    /// On its own file, if that is there still.
    _lock: Option<Unforked>,
}

/// The files of each process.
fn files(root: &Directory) -> Result<BTreeMap<u32, Vec<String>>> {
    let mut files: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for name in root.names()?.into_iter().filter_map(|name| name.into_string().ok()) {
        if let Some(process) = process_of(&name) {
            files.entry(process).or_default().push(name);
        }
    }
    Ok(files)
}

/// What is left of the process whose files these are, if it is dead.
fn dead(root: &Directory, process: u32, names: &[String]) -> Option<Dead> {
    let own = process_file(process);
    let lock = lock_dead(root, &own);
    // What has no such file any more was being removed by somebody who died. It is looked for once more, because the list was made
    // while files came and went.
    if lock.is_none() && (names.contains(&own) || root.has(&own)) {
        return None;
    }
    let abouts: Vec<_> = names.iter().filter_map(|name| root.about(name)).collect();
    let is_ours = abouts.iter().all(|about| root.guard().check(about, Form::File).is_ok());
    let allocated_bytes = abouts.iter().map(|about| about.allocated_bytes).sum();
    (is_ours && !abouts.is_empty()).then_some(Dead { allocated_bytes, _lock: lock })
}

/// The file of a process that is dead, locked; `None` if it lives, or this user may not lock it.
fn lock_dead(root: &Directory, name: &str) -> Option<Unforked> {
    let mut mode = 0;
    let open = || {
        root.open(name, Access::Write).map(|(file, about)| {
            mode = about.mode;
            file
        })
    };
    let opened: Result<Unforked, Unopened> = Unforked::open(open);
    let file = opened.ok()?;
    let is_dead = file.get().is_some_and(|file| {
        // Who may read it can lock it against this, for as long as he likes. But others may read it only once its process had the
        // lock, which nobody else ever takes: without that the process is dead.
        lock::try_lock(file, Kind::Write, 0, 1).unwrap_or(false)
            || mode & 0o044 != 0 && lock::is_held(file, Kind::Read, 0, 1).is_ok_and(|lives| !lives)
    });
    is_dead.then_some(file)
}

/// Removes the files of a process, and last the one that says whose they are.
fn remove_files(root: &Directory, process: u32) -> Result<()> {
    let own = process_file(process);
    let names = root.texts().into_iter().filter(|name| process_of(name) == Some(process) && *name != own);
    names.chain([own.clone()]).try_for_each(|name| root.unlink(&name))
}

/// What is left of processes that are dead, each under the name of its file. Their regions are told as any others.
pub(super) fn left_over(root: &Directory) -> Result<Vec<RegionInfo>> {
    let info = |(process, names): (u32, Vec<String>)| {
        let allocated_bytes = dead(root, process, &names)?.allocated_bytes;
        let name = process_file(process);
        Some(RegionInfo { allocated_bytes, ..unread(&name, root.path().join(&name), None) })
    };
    Ok(files(root)?.into_iter().filter_map(info).collect())
}

/// Removes the files of a process if it is dead, and says how many bytes that frees.
pub(super) fn remove_left_over(root: &Directory, process: u32) -> Result<u64> {
    let names = files(root)?.remove(&process).unwrap_or_default();
    match dead(root, process, &names) {
        Some(dead) => remove_files(root, process).map(|()| dead.allocated_bytes),
        None => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names_and_others_are_not_taken_for_them() {
        let (process, segid) = (0x0abc_def0, 0x0abc_def0_0000_0012);
        let own = [process_file(process), record_file(segid), pages_file(process, 7), new_file(process)];
        assert_eq!(own.each_ref().map(|name| process_of(name)), [Some(process); 4]);
        assert_eq!(own.each_ref().map(|name| segid_of(name)), [None, Some(segid), None, None]);
        assert_eq!(own.each_ref().map(|name| is_pages_file_of(name, process)), [false, false, true, false]);
        assert!(is_pages_file(&own[2]) && !is_pages_file_of(&own[2], process + 1));
        // What is hidden while regions with such names are made.
        let staged = own.iter().map(|name| format!("{name}.staged"));
        let others =
            ["", ".xpmem-", ".xpmem-0abcdef", ".xpmem-0ABCDEF0", ".xpmem-0abcdef0-", ".xpmem-0abcdef0-x.pages"];
        for name in staged.chain(others.map(String::from)).chain([format!("{}0", own[1]), own[0][1..].into()]) {
            assert_eq!((process_of(&name), segid_of(&name), is_pages_file(&name)), (None, None, false), "{name}");
        }
        assert_eq!(segid_of(".xpmem-ffffffff00000001"), None);
    }
}
