//! Where the pages of a held version lie, and mapping them.
//!
//! # Safety
//!
//! This module makes slices of pages that another process wrote. Its invariant: a slice is made only of pages that the
//! snapshot's version shows, and lives no longer than the snapshot's hold, because until then the producer writes none of
//! their frames. Lengths and plane numbers come from the shared files and are checked against the files' sizes first. A copy is
//! written only before a snapshot has it (`copies`).
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use crate::observer::attachment::Hold;
use crate::observer::variable::{Contiguous, VariableView};
use crate::variable::Attributes;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use stillframe_kernel::map::Mapping;
use stillframe_segment::head::Descriptor;
use stillframe_segment::table::{Entry, ZERO_PLANE};
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES, description};

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) hold: Hold,
    pub(crate) descriptor: Descriptor,
    pub(crate) attributes: Attributes,
    pub(crate) variables: Vec<VariableView>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) subtables: Mutex<HashMap<u32, Arc<[u8; WINDOW_PAGES]>>>,
    /// Maps of planes that pieces were handed out of.
    pub(crate) maps: Mutex<HashMap<u8, Vec<Arc<Mapping>>>>,
}

/// Pages side by side in one plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) plane: u8,
    /// First page, counted from the first page of the variable.
    pub(crate) page: usize,
    pub(crate) pages: usize,
    /// Offset of the first page in the plane's file; 0 of zeros, which lie in none.
    pub(crate) at: u64,
}

impl Piece {
    /// Offset of its end in the plane's file.
    pub(crate) fn end(&self) -> u64 {
        self.at + (self.pages * PAGE_BYTES) as u64
    }

    /// The bytes of a variable that lie in it, of those in a range.
    pub(crate) fn bytes_in(&self, variable: &VariableView, range: &Range<usize>) -> Range<usize> {
        let offset = variable.extent.page_offset as usize;
        let start = (self.page * PAGE_BYTES).saturating_sub(offset).max(range.start);
        start..((self.page + self.pages) * PAGE_BYTES - offset).min(range.end).max(start)
    }
}

/// Above this many pieces a window's odd pages are copied rather than mapped.
pub(crate) const WINDOW_PIECES_MAX: usize = 64;

/// Pieces of one view for which maps are made without looking at the window's own number of pieces.
pub(crate) fn pieces_easy() -> usize {
    stillframe_kernel::mappings_max() / 4
}

impl Inner {
    pub(crate) fn variable(&self, name: &str) -> Result<(usize, &VariableView)> {
        // The hold of a process that forked is not its child's.
        self.hold.shared.leases.file()?;
        let found = self.variables.iter().enumerate().find(|(_, variable)| variable.name == name);
        found.ok_or_else(|| Error::UnknownVariable {
            region: self.hold.shared.name.clone(),
            name: name.into(),
            known: self.variables.iter().map(|variable| variable.name.clone()).collect(),
        })
    }

    /// The plane of each page of a window.
    pub(crate) fn planes(&self, entry: Entry) -> Result<Arc<[u8; WINDOW_PAGES]>> {
        let block = match entry {
            Entry::Uniform(plane) => return Ok(Arc::new([plane; WINDOW_PAGES])),
            Entry::Mixed(block) => block,
        };
        let mut cache = self.subtables.lock().unwrap_or_else(|poison| poison.into_inner());
        if let Some(known) = cache.get(&block) {
            return Ok(known.clone());
        }
        let subtable = Arc::new(description::read_subtable(&*self.hold.shared, block)?);
        cache.insert(block, subtable.clone());
        Ok(subtable)
    }

    /// A map of a plane that reaches at least to `end` and that this snapshot keeps.
    pub(crate) fn plane_map(&self, plane: u8, end: u64) -> Result<Arc<Mapping>> {
        let mut maps = self.maps.lock().unwrap_or_else(|poison| poison.into_inner());
        let known = maps.entry(plane).or_default();
        if let Some(map) = known.iter().find(|map| map.bytes() as u64 >= end) {
            return Ok(map.clone());
        }
        let (map, _) = self.hold.shared.plane(plane, end)?;
        known.push(map.clone());
        Ok(map)
    }

    /// The pieces in which pages of a variable lie.
    pub(crate) fn runs(&self, variable: &VariableView, pages: Range<usize>) -> Result<Vec<Piece>> {
        let shared = &self.hold.shared;
        if let Some(pace) = &shared.pace {
            pace.count_bytes(pages.len() * PAGE_BYTES);
        }
        let first = variable.extent.window as usize * WINDOW_PAGES;
        let mut runs: Vec<Piece> = Vec::new();
        let mut add = |plane: u8, page: usize, pages: usize| -> Result<()> {
            let at = if plane == ZERO_PLANE { 0 } else { shared.page_at(plane, first + page)? };
            match runs.last_mut() {
                Some(run)
                    if run.plane == plane
                        && run.page + run.pages == page
                        && (plane == ZERO_PLANE || run.end() == at) =>
                {
                    run.pages += pages;
                }
                _ => {
                    shared.make_room(&mut runs, 1)?;
                    runs.push(Piece { plane, page, pages, at });
                }
            }
            Ok(())
        };
        let mut page = pages.start;
        while page < pages.end {
            let window = page / WINDOW_PAGES;
            let end = pages.end.min((window + 1) * WINDOW_PAGES);
            match self.entries[variable.extent.window as usize + window] {
                Entry::Uniform(plane) => add(plane, page, end - page)?,
                entry => {
                    let planes = self.planes(entry)?;
                    let mut page = page;
                    for run in planes[page % WINDOW_PAGES..][..end - page].chunk_by(|left, right| left == right) {
                        add(run[0], page, run.len())?;
                        page += run.len();
                    }
                }
            }
            page = end;
        }
        Ok(runs)
    }

    pub(crate) fn contiguous_bytes<'a>(&'a self, variable: &'a VariableView) -> Result<&'a [u8]> {
        if variable.bytes == 0 {
            return Ok(&[]);
        }
        let contiguous = match variable.contiguous.get() {
            Some(known) => known,
            None => {
                let made = self.make_contiguous(variable)?;
                if let Some(workers) = &self.hold.shared.workers {
                    let first = made.offset - variable.extent.page_offset as usize;
                    made.map.populate_by(first, variable.extent.pages() as usize * PAGE_BYTES, workers);
                }
                variable.contiguous.get_or_init(|| made)
            }
        };
        // SAFETY: the map shows pages of the version that the hold of `self` keeps, checked to be there, or is a copy of them.
        Ok(unsafe { contiguous.map.bytes_at(contiguous.offset, variable.bytes) })
    }

    fn make_contiguous(&self, variable: &VariableView) -> Result<Contiguous> {
        let extent = &variable.extent;
        let shared = &self.hold.shared;
        let pages = extent.pages() as usize;
        let runs = self.runs(variable, 0..pages)?;
        if let [run] = runs[..]
            && run.plane != ZERO_PLANE
        {
            let (map, _) = shared.plane(run.plane, run.end())?;
            let offset = run.at as usize + extent.page_offset as usize;
            return Ok(Contiguous { map, offset, is_copy: false });
        }
        let fail = |failure| Error::system(&shared.dir, failure);
        let mut map = Mapping::reserve(pages * PAGE_BYTES).map_err(fail)?;
        if let Some(workers) = &shared.workers {
            map.unmap_by(workers);
        }
        let most = if runs.len() <= pieces_easy() { usize::MAX } else { WINDOW_PIECES_MAX };
        self.lay_all(&map, &runs, 0, most)?;
        Ok(Contiguous { map: Arc::new(map), offset: extent.page_offset as usize, is_copy: false })
    }

    /// Fills a map, which begins with page `first` of a variable, with these pieces of it. Windows of more than `most`
    /// pieces are copied.
    pub(crate) fn lay_all(&self, map: &Mapping, runs: &[Piece], first: usize, most: usize) -> Result<()> {
        // Of large pages parts cannot be mapped.
        let most = if self.hold.shared.is_hugetlb() { 0 } else { most };
        let mut rest = runs;
        while let Some(run) = rest.first() {
            let window_end = (run.page / WINDOW_PAGES + 1) * WINDOW_PAGES;
            let in_window = rest.iter().take_while(|run| run.page + run.pages <= window_end).count();
            let (now, later) = rest.split_at(in_window.max(1));
            if in_window <= most {
                self.lay_runs(map, now, first)?;
            } else {
                self.copy_runs(map, now, first)?;
            }
            rest = later;
        }
        Ok(())
    }

    fn lay_runs(&self, map: &Mapping, runs: &[Piece], first: usize) -> Result<()> {
        let shared = &self.hold.shared;
        for run in runs {
            let (offset, bytes) = (run.page * PAGE_BYTES, run.pages * PAGE_BYTES);
            let at = offset - first * PAGE_BYTES;
            let laid = if run.plane == ZERO_PLANE {
                map.lay_zeros(at, bytes)
            } else {
                let (_, file) = shared.plane(run.plane, run.end())?;
                map.lay(at, &file, run.at, bytes)
            };
            laid.map_err(|failure| Error::system(&shared.dir, failure))?;
        }
        Ok(())
    }

    /// Fills part of a window with copies, where mapping each piece would use up the process's mappings.
    fn copy_runs(&self, map: &Mapping, runs: &[Piece], first_page: usize) -> Result<()> {
        let shared = &self.hold.shared;
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Ok(()) };
        let start = first.page * PAGE_BYTES;
        let bytes = (last.page + last.pages) * PAGE_BYTES - start;
        // Windows begin where large pages may, so that a copied one takes a single page fault.
        let copy = Mapping::private(bytes, true).map_err(|failure| Error::system(&shared.dir, failure))?;
        for run in runs.iter().filter(|run| run.plane != ZERO_PLANE) {
            let (offset, bytes) = (run.page * PAGE_BYTES, run.pages * PAGE_BYTES);
            let (plane, _) = shared.plane(run.plane, run.end())?;
            copy.copy_from(offset - start, &plane, run.at as usize, bytes);
        }
        let at = start - first_page * PAGE_BYTES;
        copy.make_read_only().and_then(|()| map.replace(at, copy)).map_err(|f| Error::system(&shared.dir, f))
    }
}
