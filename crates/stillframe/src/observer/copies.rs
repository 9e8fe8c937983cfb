//! Views that are copies, brought from version to version.
//!
//! Pages that are written here and there lie in more pieces with each version, and a map of them all takes longer than a copy of
//! the array. What changed from one version to the next is little then. So a variable that is viewed in version after version is
//! copied once, and then only what changed.

use crate::error::{Error, Result};
use crate::observer::pieces::Inner;
use crate::observer::variable::{Contiguous, VariableView};
use std::ops::Range;
use std::sync::Arc;
use stillframe_kernel::map::Mapping;
use stillframe_segment::table::{Entry, ZERO_PLANE};
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

/// About what it takes to map a piece: the call, its page fault, and to unmap it.
const PIECE_NS: usize = 2000;
/// About what it takes to copy a range, besides its bytes.
const RANGE_NS: usize = 800;
/// About how many bytes are copied in that time.
const BYTES_PER_NS: usize = 5;
/// In how many versions a first copy has to have paid for itself.
const VERSIONS: usize = 16;
/// How many times cheaper one way has to be before it takes the place of the other: to change costs a copy of everything.
const CHEAPER: usize = 4;

impl Inner {
    /// Brings along what was viewed of an older version of the region, which ends.
    pub(crate) fn take_copies(&self, older: Arc<Inner>) {
        // Nobody else may see what is written; and whoever keeps one version after the other would have a copy made of each.
        let Ok(mut older) = Arc::try_unwrap(older) else { return };
        for new in self.variables.iter().filter(|new| new.contiguous.get().is_none()) {
            let is_viewed = |old: &VariableView| old.name == new.name && old.contiguous.get().is_some();
            let Some(index) = older.variables.iter().position(is_viewed) else { continue };
            let Ok(changed) = self.changed(&older, new) else { continue };
            let taken = older.variables[index].contiguous.take().filter(|taken| taken.is_copy);
            let bytes = new.extent.pages() as usize * PAGE_BYTES;
            let copy = taken.and_then(|taken| Arc::into_inner(taken.map)).filter(|copy| copy.bytes() == bytes);
            // What does not come along is mapped anew when it is asked for, which says what is wrong.
            if let Ok(Some(brought)) = self.bring(new, copy, &changed) {
                let _ = new.contiguous.set(brought);
            }
        }
    }

    /// Makes a copy of a variable of what an older version had there, if there is one, by what changed. `None` if it is better
    /// mapped.
    fn bring(
        &self,
        variable: &VariableView,
        copy: Option<Mapping>,
        changed: &[Range<usize>],
    ) -> Result<Option<Contiguous>> {
        let changed_bytes: usize = changed.iter().map(|range| range.len()).sum();
        let update_ns = changed.len() * RANGE_NS + changed_bytes / BYTES_PER_NS;
        let pieces_max = match &copy {
            Some(_) => update_ns / PIECE_NS / CHEAPER,
            None => (update_ns * CHEAPER).max(variable.bytes / BYTES_PER_NS / VERSIONS) / PIECE_NS,
        };
        if !self.has_more_pieces(variable, pieces_max.max(1))? {
            return Ok(None);
        }
        let fail = |failure| Error::system(&self.hold.shared.dir, failure);
        let map = match copy {
            Some(mut map) => {
                map.make_writable().map_err(fail)?;
                self.copy_ranges(variable, &map, changed, false)?;
                map
            }
            None => {
                let bytes = variable.extent.pages() as usize * PAGE_BYTES;
                let map = Mapping::private(bytes, true).map_err(fail)?;
                self.copy_ranges(variable, &map, std::slice::from_ref(&(0..variable.bytes)), true)?;
                map
            }
        };
        map.make_read_only().map_err(fail)?;
        let offset = variable.extent.page_offset as usize;
        Ok(Some(Contiguous { map: Arc::new(map), offset, is_copy: true }))
    }

    /// Copies the pages that have these bytes of a variable, through the files: of those that were cut short that is an error.
    /// What is zero takes no memory in a map `is_fresh`.
    fn copy_ranges(
        &self,
        variable: &VariableView,
        map: &Mapping,
        ranges: &[Range<usize>],
        is_fresh: bool,
    ) -> Result<()> {
        let shared = &self.hold.shared;
        let offset = variable.extent.page_offset as usize;
        for range in ranges {
            let pages = (offset + range.start) / PAGE_BYTES..(offset + range.end).div_ceil(PAGE_BYTES);
            for run in self.runs(variable, pages)? {
                let (at, bytes) = (run.page * PAGE_BYTES, run.pages * PAGE_BYTES);
                if run.plane == ZERO_PLANE {
                    if !is_fresh {
                        (at..at + bytes).step_by(PAGE_BYTES).for_each(|at| map.write(at, &[0; PAGE_BYTES]));
                    }
                    continue;
                }
                let file = shared.plane_file(run.plane)?;
                let read = map.read_from(at, &file, run.at, bytes);
                read.map_err(|failure| Error::system(&shared.dir, failure))?;
            }
        }
        Ok(())
    }

    /// Whether a variable lies in more pieces than `most`.
    fn has_more_pieces(&self, variable: &VariableView, most: usize) -> Result<bool> {
        let pages = variable.extent.pages() as usize;
        let first = variable.extent.window as usize;
        let (mut pieces, mut last) = (0, None);
        for (index, entry) in self.entries[first..first + variable.extent.windows() as usize].iter().enumerate() {
            let end = (pages - index * WINDOW_PAGES).min(WINDOW_PAGES);
            match entry {
                Entry::Uniform(plane) => {
                    pieces += usize::from(last != Some(*plane));
                    last = Some(*plane);
                }
                entry => {
                    let planes = self.planes(*entry)?;
                    for run in planes[..end].chunk_by(|left, right| left == right) {
                        pieces += usize::from(last != Some(run[0]));
                        last = Some(run[0]);
                    }
                }
            }
            if pieces > most {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
