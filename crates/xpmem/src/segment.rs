//! Segments: made, looked up and removed.

use crate::directory::{self, Directory};
use crate::memory::is_whole_pages;
use crate::problem::Problem;
use crate::process;
use crate::record::{Content, Record};
use crate::sharing::{self, PagesFile, Shared};
use crate::state::State;
use std::ops::Range;
use std::sync::Arc;
use stillframe::Snapshot;
use stillframe::inspect::xpmem;

/// A segment of this process, and what keeps what it shows.
#[derive(Debug)]
pub enum Segment {
    Live { _files: Vec<Arc<PagesFile>> },
    Version { _snapshot: Snapshot },
}

/// Whom a segment is for.
#[derive(Debug, Clone, Copy)]
pub enum Permit {
    /// Those whom a mode lets read and write.
    Mode(u32),
    /// Those who may use the directory of regions, as far as they may.
    Common,
}

/// Makes a segment of a range of this process's memory.
pub fn make(state: &mut State, start: usize, bytes: usize, permit: Permit, name: Option<&str>) -> Result<i64, Problem> {
    let range = check_range(start, bytes)?;
    let process = state.process()?;
    let (directory, number) = (process.directory.clone(), process.number);
    xpmem::sweep(directory::path(), Some(number))?;
    let segid = process.next_segid()?;
    let mode = match permit {
        Permit::Mode(mode) => mode & 0o666,
        Permit::Common => directory.common_mode()?,
    };
    let version = match &state.space {
        Some(space) => space.export(&range)?,
        None => None,
    };
    let (content, segment) = match version {
        Some((content, snapshot)) => (content, Segment::Version { _snapshot: snapshot }),
        None => {
            let Shared { pieces, files } = share(state, &range, mode)?;
            (Content::Live { pieces }, Segment::Live { _files: files })
        }
    };
    let made_ns = stillframe_kernel::boot_ns();
    let record = Record { name: name.map(String::from), bytes: bytes as u64, made_ns, content };
    record.write(&directory, segid, mode)?;
    state.segments.insert(segid, segment);
    Ok(segid)
}

fn share(state: &mut State, range: &Range<usize>, mode: u32) -> Result<Shared, Problem> {
    if let Some((start, _)) = state.occupied(range) {
        let end = state.attachments.get(&start).map_or(range.end, |attachment| start + attachment.bytes);
        return Err(Problem::Unsharable { start, end, why: crate::areas::Unsharable::Attached });
    }
    // Both are this process's, and in two places of the state.
    let mut files = std::mem::replace(&mut state.files, sharing::Files::new());
    let shared = state.process().and_then(|process| sharing::share(process, &mut files, range, mode));
    state.files = files;
    shared
}

/// The range of addresses, if it is one of whole pages.
fn check_range(start: usize, bytes: usize) -> Result<Range<usize>, Problem> {
    if bytes == usize::MAX {
        return Err(Problem::Everything);
    }
    if bytes == 0 || !is_whole_pages(bytes) {
        return Err(Problem::argument("size", format!("{bytes} bytes are no whole pages of 4096")));
    }
    if start == 0 || !is_whole_pages(start) {
        return Err(Problem::argument("vaddr", format!("no page begins at {start:#x}")));
    }
    let end = start.checked_add(bytes).filter(|end| isize::try_from(*end).is_ok());
    Ok(start..end.ok_or_else(|| Problem::argument("size", format!("there are no {bytes} bytes at {start:#x}")))?)
}

/// Removes a segment that this process made. Attachments stay.
pub fn remove(state: &mut State, segid: i64) -> Result<(), Problem> {
    check_segid(segid)?;
    let directory = state.directory()?.ok_or(Problem::NoSegment { segid })?;
    if !state.segments.contains_key(&segid) {
        // Whether it may be read is no matter.
        let maker = process::maker_of(segid).ok_or(Problem::NoSegment { segid })?;
        let is_there = directory.folder.has(directory::record_file(segid)) && process::is_alive(&directory, maker)?;
        return Err(if is_there { Problem::NotMade { segid } } else { Problem::NoSegment { segid } });
    }
    // Whoever finds the record after he has locked a version relies on this process's hold, which therefore goes later.
    directory.remove(&directory::record_file(segid))?;
    state.segments.remove(&segid);
    Ok(())
}

/// Refuses what is no segid.
pub fn check_segid(segid: i64) -> Result<(), Problem> {
    match segid > 0 {
        true => Ok(()),
        false => Err(Problem::argument("segid", format!("{segid} is none: they are above 0"))),
    }
}

/// The newest segment of a name.
pub fn look_up(state: &State, name: &str) -> Result<i64, Problem> {
    let missing = || Problem::NoName { name: name.into() };
    let directory = state.directory()?.ok_or_else(missing)?;
    xpmem::sweep(directory::path(), state.process_number())?;
    let mut newest: Option<(u64, i64)> = None;
    for segid in directory.names()?.iter().filter_map(|file| directory::segid_of(file)) {
        let Some(made_ns) = made_ns(&directory, segid, name) else { continue };
        newest = newest.max(Some((made_ns, segid)));
    }
    Ok(newest.ok_or_else(missing)?.1)
}

/// When a segment was made, if it has this name, its maker lives, and this process may read it.
fn made_ns(directory: &Directory, segid: i64, name: &str) -> Option<u64> {
    let maker = process::maker_of(segid)?;
    let record = Record::read(directory, segid, maker).ok()??;
    let is_it = record.name.as_deref() == Some(name) && process::is_alive(directory, maker).unwrap_or(false);
    is_it.then_some(record.made_ns)
}
