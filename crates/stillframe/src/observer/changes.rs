//! What differs between two versions.

use crate::error::{Error, Result};
use crate::observer::pieces::Inner;
use crate::observer::variable::VariableView;
use std::ops::Range;
use stillframe_segment::table::Entry;
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

impl Inner {
    /// Refuses a version of another region.
    pub(crate) fn check_region(&self, other: &Inner) -> Result<()> {
        let (own, others) = (&self.hold.shared, &other.hold.shared);
        if own.dir != others.dir {
            return Err(Error::DifferentRegions { left: own.name.clone(), right: others.name.clone() });
        }
        Ok(())
    }

    /// The ranges of a variable of this version, ascending and apart, that may differ from an older one of the region.
    pub(crate) fn changed(&self, older: &Inner, new: &VariableView) -> Result<Vec<Range<usize>>> {
        let all = || if new.bytes == 0 { Vec::new() } else { std::iter::once(0..new.bytes).collect() };
        // Planes of files that are gone say nothing about those of the same name that came after them.
        if !self.hold.shared.is_same(&older.hold.shared) {
            return Ok(all());
        }
        let Ok((_, old)) = older.variable(&new.name) else { return Ok(all()) };
        let same = old.extent.allocation == new.extent.allocation
            && old.extent.window == new.extent.window
            && old.extent.page_offset == new.extent.page_offset
            && old.extent.bytes == new.extent.bytes
            && old.shape == new.shape
            && old.order == new.order;
        if !same {
            return Ok(all());
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut add = |first: usize, end: usize| -> Result<()> {
            let offset = new.extent.page_offset as usize;
            let start = (first * PAGE_BYTES).saturating_sub(offset);
            let end = (end * PAGE_BYTES - offset).min(new.bytes);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ if start < end => {
                    self.hold.shared.make_room(&mut ranges, 1)?;
                    ranges.push(start..end);
                }
                _ => {}
            }
            Ok(())
        };
        let pages = new.extent.pages() as usize;
        for index in 0..new.extent.windows() as usize {
            let window = new.extent.window as usize + index;
            let (left, right) = (self.entries[window], older.entries[window]);
            if left == right {
                continue;
            }
            let end = ((index + 1) * WINDOW_PAGES).min(pages);
            if let (Entry::Uniform(_), Entry::Uniform(_)) = (left, right) {
                add(index * WINDOW_PAGES, end)?;
                continue;
            }
            let (left, right) = (self.planes(left)?, older.planes(right)?);
            for page in index * WINDOW_PAGES..end {
                if left[page % WINDOW_PAGES] != right[page % WINDOW_PAGES] {
                    add(page, page + 1)?;
                }
            }
        }
        Ok(ranges)
    }
}
