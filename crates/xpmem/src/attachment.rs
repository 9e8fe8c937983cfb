//! Attachments: segments of others, and of this process itself, in its memory.
//!
//! # Safety
//! What is mapped over is either reserved a moment before, or a range of which a caller wants an attachment in its place.
//! Attachments are this library's own until they are ended, which callers ask for.

use crate::access::{self, Access};
use crate::directory::{self, Directory};
use crate::memory::{self, PAGE_BYTES, Where, is_whole_pages, whole_pages};
use crate::problem::Problem;
use crate::record::{Content, Piece};
use crate::state::State;
use std::fs::File;
use std::ops::Range;
use stillframe::{Error, Observer, Snapshot};

/// A part of a segment in the memory of this process.
#[derive(Debug)]
pub struct Attachment {
    /// Its length.
    pub bytes: usize,
    /// What was granted for it.
    pub apid: i64,
    /// What holds the version that it shows. A forked child has it, too.
    _hold: Option<File>,
}

/// What is to be attached.
struct Wanted {
    access: Access,
    /// Of the first page in the segment, and of the first byte in that page.
    offset: u64,
    in_page: usize,
    /// Of whole pages.
    bytes: usize,
}

/// Attaches so many bytes of what was granted, from an offset on. Without an address there is one chosen.
pub fn attach(state: &mut State, apid: i64, offset: i64, bytes: usize, address: usize) -> Result<usize, Problem> {
    let access = access::granted(state, apid)?;
    let (directory, record) = access.record(state)?;
    let wanted = want(access, offset, bytes, record.bytes)?;
    let place = place(state, address, wanted.bytes)?;
    // First, for what is there now is gone once anything is mapped over it.
    let ready = match &record.content {
        Content::Live { pieces } => {
            each_piece(&directory, pieces, &wanted, |_, _| Ok(()))?;
            Ready::Live(pieces)
        }
        Content::Version { region, version, variable, offset } => {
            // The record goes before its maker lets go of the version.
            let is_held = || access.record(state).is_ok();
            let snapshot = version_held(region, *version, is_held).map_err(|problem| gone(access, problem))?;
            Ready::Version(hold(snapshot, variable, *offset, &wanted).map_err(|problem| gone(access, problem))?)
        }
    };
    // SAFETY: the caller wants what is there replaced, and it is neither an attachment nor a backed region.
    let at = unsafe { memory::reserve(place, wanted.bytes)? };
    let shown = match ready {
        Ready::Live(pieces) => show_pieces(&directory, pieces, &wanted, at).map(|()| None),
        Ready::Version(held) => show_version(held, &wanted, at).map(Some),
    };
    match shown {
        Ok(hold) => {
            state.attachments.insert(at, Attachment { bytes: wanted.bytes, apid, _hold: hold });
            Ok(at + wanted.in_page)
        }
        Err(problem) => {
            // SAFETY: the range was reserved above.
            let _ = unsafe { memory::unmap(at, wanted.bytes) };
            Err(gone(access, problem))
        }
    }
}

/// What went wrong; the maker may have removed the segment meanwhile.
fn gone(access: Access, problem: Problem) -> Problem {
    let is_gone = problem.is_missing() || problem.errno() == libc::ENOENT;
    if is_gone { Problem::NoSegment { segid: access.segid } } else { problem }
}

/// The whole pages in which the bytes lie.
fn want(access: Access, offset: i64, bytes: usize, segment_bytes: u64) -> Result<Wanted, Problem> {
    let beyond = || Problem::Beyond { offset, bytes, segment_bytes };
    if bytes == 0 {
        return Err(Problem::argument("size", "nothing can be attached of 0 bytes"));
    }
    let first = u64::try_from(offset).map_err(|_| beyond())?;
    let in_page = (first % PAGE_BYTES as u64) as usize;
    let pages = in_page.checked_add(bytes).and_then(whole_pages).ok_or_else(beyond)?;
    let first = first - in_page as u64;
    let is_there = first.checked_add(pages as u64).is_some_and(|end| end <= segment_bytes);
    is_there.then_some(Wanted { access, offset: first, in_page, bytes: pages }).ok_or_else(beyond)
}

/// Where an attachment goes.
fn place(state: &State, address: usize, bytes: usize) -> Result<Where, Problem> {
    if address == 0 {
        return Ok(Where::Anywhere);
    }
    let end = address.checked_add(bytes).filter(|_| is_whole_pages(address));
    let Some(end) = end else {
        return Err(Problem::argument(
            "vaddr",
            format!("no page begins at {address:#x}, or there are no {bytes} bytes"),
        ));
    };
    match state.occupied(&(address..end)) {
        Some((address, by)) => Err(Problem::Occupied { address, by }),
        None => Ok(Where::Over(address)),
    }
}

/// Part of a file with pages that is wanted.
struct Part {
    file: File,
    offset: u64,
    bytes: usize,
}

/// Maps memory of a segment's maker over what was reserved.
fn show_pieces(directory: &Directory, pieces: &[Piece], wanted: &Wanted, at: usize) -> Result<(), Problem> {
    let writable = if wanted.access.writing { libc::PROT_WRITE } else { 0 };
    each_piece(directory, pieces, wanted, |part, place| {
        let (to, protection) = (Where::Over(at + place), libc::PROT_READ | writable);
        // SAFETY: the range was reserved for this.
        unsafe { memory::map_file(to, part.bytes, protection, &part.file, part.offset)? };
        Ok(())
    })
}

/// Opens what is wanted of each piece, and looks whether it is there: each with its place in the attachment.
fn each_piece(
    directory: &Directory,
    pieces: &[Piece],
    wanted: &Wanted,
    mut each: impl FnMut(Part, usize) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let (mut first, end) = (0, wanted.offset + wanted.bytes as u64);
    for piece in pieces {
        let (start, stop) = (first.max(wanted.offset), (first + piece.bytes).min(end));
        if start < stop {
            let (file, about) = directory.open(&piece.file, wanted.access.files())?;
            let offset = piece.offset + (start - first);
            if about.bytes < offset + (stop - start) {
                let why = format!("it ends at {}, before {}", about.bytes, offset + (stop - start));
                return Err(Problem::Damaged { path: directory::path().join(&piece.file), why });
            }
            each(Part { file, offset, bytes: (stop - start) as usize }, (start - wanted.offset) as usize)?;
        }
        first += piece.bytes;
    }
    Ok(())
}

/// What an attachment shows, of which everything is there that is to be mapped.
enum Ready<'r> {
    Live(&'r [Piece]),
    Version(Held<'r>),
}

/// A version that is held, and the bytes of a variable in it that are wanted.
struct Held<'r> {
    snapshot: Snapshot,
    hold: File,
    variable: &'r str,
    bytes: Range<usize>,
}

/// A version of a region, as long as somebody else holds it.
fn version_held(region: &str, version: u64, is_held: impl FnOnce() -> bool) -> Result<Snapshot, Problem> {
    Ok(Observer::options().dir(directory::path()).here().open(region)?.version_held(version, is_held)?)
}

/// Holds what is wanted of a version's variable, if it has that.
fn hold<'r>(snapshot: Snapshot, variable: &'r str, offset: u64, wanted: &Wanted) -> Result<Held<'r>, Problem> {
    let there = snapshot.variable(variable)?.bytes;
    let first = offset.checked_add(wanted.offset).and_then(|first| usize::try_from(first).ok());
    let end = first.and_then(|first| first.checked_add(wanted.bytes));
    // Its last page is there whole.
    let is_there = |end: &usize| whole_pages(there).is_some_and(|pages| *end <= pages);
    let (Some(first), Some(end)) = (first, end.filter(is_there)) else {
        let (start, end) = (first.unwrap_or(usize::MAX), end.unwrap_or(usize::MAX));
        return Err(Error::OutOfRange { name: variable.into(), start, end, bytes: there }.into());
    };
    let hold = snapshot.keep()?;
    Ok(Held { snapshot, hold, variable, bytes: first..end })
}

/// Maps pages of a version over what was reserved, and returns what holds the version. Who may write gets copies of the pages
/// that he writes.
fn show_version(held: Held, wanted: &Wanted, at: usize) -> Result<File, Problem> {
    let Held { snapshot, hold, variable, bytes } = held;
    // SAFETY: the range was reserved for this.
    unsafe { snapshot.lay(variable, bytes.start / PAGE_BYTES..bytes.end / PAGE_BYTES, at as *mut u8)? };
    if wanted.access.writing {
        // SAFETY: as above; the pages are private.
        unsafe { memory::let_write(at, wanted.bytes)? };
    }
    Ok(hold)
}

/// Ends the attachment in which an address lies.
pub fn detach(state: &mut State, address: usize) -> Result<(), Problem> {
    let found = state.attachments.range(..=address).next_back();
    let found = found.filter(|(start, attachment)| address - *start < attachment.bytes);
    let start = found.map(|(start, _)| *start).ok_or(Problem::NoAttachment { address })?;
    end(state, start)
}

fn end(state: &mut State, start: usize) -> Result<(), Problem> {
    if let Some(attachment) = state.attachments.get(&start) {
        // SAFETY: it is this library's until it is ended, which the caller asks for.
        unsafe { memory::unmap(start, attachment.bytes)? };
        state.attachments.remove(&start);
    }
    Ok(())
}

/// Gives back what was granted, and ends all attachments that were made with it.
pub fn release(state: &mut State, apid: i64) -> Result<(), Problem> {
    access::granted(state, apid)?;
    let of_it = |attachment: &Attachment| attachment.apid == apid;
    let starts = state.attachments.iter().filter(|(_, attachment)| of_it(attachment)).map(|(start, _)| *start);
    for start in starts.collect::<Vec<_>>() {
        end(state, start)?;
    }
    state.granted.remove(&apid);
    Ok(())
}
