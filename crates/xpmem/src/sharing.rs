//! Moving memory of this process into files that others can map.
//!
//! The content is copied into a file, and the file is mapped in the place of the memory, in one step for each mapping. So the
//! memory is there, and readable, at all times; what other threads write between the two is lost.
//!
//! # Safety
//! What is replaced is memory that a caller of this library shares, by memory with the same content and protection. From a copy
//! to the exchange nothing is allocated, because memory that is shared may lie beside what the allocator needs.

use crate::areas::{Area, Kind, Unsharable, areas};
use crate::directory::{self, Directory};
use crate::memory::{Where, allocate, map_file, write_memory};
use crate::problem::Problem;
use crate::process::Process;
use crate::record::Piece;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use stillframe_kernel::Failure;
use stillframe_kernel::folder::About;

/// Pieces that a segment may have.
const PIECES_MAX: usize = 4096;

/// A file in which memory of this process lies. It has a name as long as a segment needs it.
#[derive(Debug)]
pub struct PagesFile {
    directory: Directory,
    name: String,
    bytes: u64,
    /// Whom its mode lets read and write: those whom one of its segments does.
    mode: AtomicU32,
}

impl PagesFile {
    /// Whether a mode lets somebody in who could read or write more of it than these pieces.
    fn would_open_more(&self, pieces: &[Piece], mode: u32) -> bool {
        let bytes: u64 = pieces.iter().filter(|piece| piece.file == self.name).map(|piece| piece.bytes).sum();
        mode & !self.mode.load(Ordering::Relaxed) != 0 && bytes < self.bytes
    }

    /// Lets those read and write, too, whom a mode does.
    fn permit(&self, mode: u32) -> Result<(), Problem> {
        let all = self.mode.load(Ordering::Relaxed) | mode;
        self.directory.permit(&self.name, all)?;
        self.mode.store(all, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for PagesFile {
    fn drop(&mut self) {
        // A name that stays goes at the end of the process.
        let _ = self.directory.remove(&self.name);
    }
}

/// The files of this process that have names, by device and inode.
#[derive(Debug)]
pub struct Files(BTreeMap<(u64, u64), Weak<PagesFile>>);

impl Files {
    pub const fn new() -> Files {
        Files(BTreeMap::new())
    }

    fn get(&self, identity: (u64, u64)) -> Option<Arc<PagesFile>> {
        self.0.get(&identity).and_then(Weak::upgrade)
    }
}

/// Memory that lies in files by now.
#[derive(Debug)]
pub struct Shared {
    pub pieces: Vec<Piece>,
    /// What keeps the names of the files.
    pub files: Vec<Arc<PagesFile>>,
}

/// Memory that is to be moved into a file, from an offset on.
struct Move {
    area: Area,
    offset: u64,
}

/// Moves what of a range does not lie in files yet into a new one, and lets those use the files whom a mode does.
pub fn share(process: &mut Process, files: &mut Files, range: &Range<usize>, mode: u32) -> Result<Shared, Problem> {
    let found = areas(range)?;
    check(&found, range)?;
    files.0.retain(|_, file| file.strong_count() > 0);
    let mut shared = Shared { pieces: Vec::new(), files: Vec::new() };
    let mut moves: Vec<Move> = Vec::new();
    let mut moved_bytes = 0;
    // Decided first, because a file is made as long as it has to be.
    let known: Vec<Option<Arc<PagesFile>>> = found
        .iter()
        .map(|area| match area.kind {
            Kind::Pages { identity, .. } => files.get(identity),
            _ => None,
        })
        .collect();
    let new = match known.iter().any(Option::is_none) {
        true => Some(directory::pages_file(process.number, process.next()?)),
        false => None,
    };
    for (area, known) in found.into_iter().zip(known) {
        let bytes = (area.end - area.start) as u64;
        match (known, area.kind.clone()) {
            (Some(file), Kind::Pages { offset, .. }) => {
                push(&mut shared.pieces, Piece { file: file.name.clone(), offset, bytes });
                shared.files.push(file);
            }
            _ => {
                let file = new.clone().unwrap_or_default();
                push(&mut shared.pieces, Piece { file, offset: moved_bytes, bytes });
                moves.push(Move { area, offset: moved_bytes });
                moved_bytes += bytes;
            }
        }
    }
    if shared.pieces.len() > PIECES_MAX {
        let why = Unsharable::Pieces(shared.pieces.len());
        return Err(Problem::Unsharable { start: range.start, end: range.end, why });
    }
    // Modes are those of files, and what is attached must stay in the file in which it is.
    if let Some(file) = shared.files.iter().find(|file| file.would_open_more(&shared.pieces, mode)) {
        let why = Unsharable::Kept(file.mode.load(Ordering::Relaxed), mode);
        return Err(Problem::Unsharable { start: range.start, end: range.end, why });
    }
    for file in &shared.files {
        file.permit(mode)?;
    }
    if let Some(name) = new {
        let (file, made) = make(&process.directory, name, moved_bytes, mode)?;
        files.0.insert(made.0, Arc::downgrade(&made.1));
        shared.files.push(made.1);
        move_all(&file, &moves)?;
    }
    Ok(shared)
}

/// Refuses a range that cannot be shared.
fn check(found: &[Area], range: &Range<usize>) -> Result<(), Problem> {
    let refuse = |start, end, why| Err(Problem::Unsharable { start, end, why });
    let mut at = range.start;
    for area in found {
        if area.start > at {
            return refuse(at, area.start, Unsharable::Missing);
        }
        if let Kind::Other(why) = &area.kind {
            return refuse(area.start, area.end, why.clone());
        }
        at = area.end;
    }
    if at < range.end {
        return refuse(at, range.end, Unsharable::Missing);
    }
    // The stack of a thread is memory like any other to the kernel.
    let here = std::ptr::from_ref(&at) as usize;
    match range.contains(&here) {
        true => refuse(range.start, range.end, Unsharable::Stack),
        false => Ok(()),
    }
}

/// Adds a piece, or makes the last one longer.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match pieces.last_mut() {
        Some(last) if last.file == piece.file && last.offset + last.bytes == piece.offset => last.bytes += piece.bytes,
        _ => pieces.push(piece),
    }
}

/// A new file with memory for so many bytes: open, and what keeps its name, by device and inode.
#[allow(clippy::type_complexity)]
fn make(
    directory: &Directory,
    name: String,
    bytes: u64,
    mode: u32,
) -> Result<(File, ((u64, u64), Arc<PagesFile>)), Problem> {
    let file = directory.create(&name)?;
    let kept = Arc::new(PagesFile { directory: directory.clone(), name, bytes, mode: AtomicU32::new(0o600 & mode) });
    let about = About::of(&file).map_err(|error| Problem::file("stat", directory::path().join(&kept.name), error))?;
    allocate(&file, bytes)?;
    // Its maker has it open, whatever the mode is.
    kept.permit(mode)?;
    Ok((file, (about.identity, kept)))
}

/// Copies memory into a file and maps that in its place.
fn move_all(file: &File, moves: &[Move]) -> Result<(), Problem> {
    for Move { area, offset } in moves {
        let bytes = area.end - area.start;
        let moved = match write_memory(file, *offset, area.start, bytes) {
            // SAFETY: the range was found to be memory of the program's own, which its caller shares; it is replaced by its
            // content.
            Ok(()) => unsafe { map_file(Where::Over(area.start), bytes, area.protection, file, *offset) },
            Err(number) => {
                let source = std::io::Error::from_raw_os_error(number);
                Err(Failure { call: "pwrite", detail: format!("{bytes} bytes from {:#x}", area.start), source })
            }
        };
        moved?;
    }
    Ok(())
}
