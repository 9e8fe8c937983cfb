//! Holes of sparse files.
//!
//! To read a hole of a file in memory through a mapping takes room in its file system, and is a signal where there is none.
//! So holes are found by asking, and their zeros are known without looking.

use crate::file::Working;
use crate::kernel::{PAGE_BYTES, whole_pages};
use crate::report::Problem;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use stillframe_kernel::Failure;
use stillframe_kernel::pagemap::{ENTRY_POPULATED, Pagemap};
use stillframe_kernel::space::data_ranges;

/// Bytes of the blocks that `st_blocks` counts (stat(3type)).
const BLOCK_BYTES: u64 = 512;

/// Whether a file may have holes. The answer costs nothing more.
pub fn may_be_sparse(meta: &Metadata) -> bool {
    meta.blocks().saturating_mul(BLOCK_BYTES) < meta.len().next_multiple_of(PAGE_BYTES as u64)
}

/// The holes of a file in `bytes` bytes from `offset` on, counted from there; a file that is shorter ends with one.
pub fn of_file(file: &File, offset: u64, bytes: usize) -> Result<Vec<Range<usize>>, Problem> {
    let data = data_ranges(file, offset, offset.saturating_add(bytes as u64)).map_err(fail)?;
    let data = data.into_iter().map(|range| (range.start - offset) as usize..(range.end - offset) as usize);
    Ok(without(std::iter::once(0..bytes), data.collect()))
}

/// The pages of a mapping, of so many bytes of its file, that are holes of that and of which it has none of its own.
pub fn of_mapping(working: &Working, bytes: usize, holes: &[Range<usize>]) -> Result<Vec<Range<usize>>, Problem> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut pages = Pagemap::open().map_err(fail)?;
    for hole in holes {
        let end = if hole.end == bytes { whole_pages(bytes) } else { hole.end };
        let (first, end) = (hole.start.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        if first >= end {
            continue;
        }
        let note = |page: usize, entry: u64| {
            let start = (first + page) * PAGE_BYTES;
            match found.last_mut() {
                _ if entry & ENTRY_POPULATED != 0 => {}
                Some(last) if last.end == start => last.end += PAGE_BYTES,
                _ => found.push(start..start + PAGE_BYTES),
            }
        };
        pages.entries(working.address + first * PAGE_BYTES, end - first, note).map_err(fail)?;
    }
    Ok(found)
}

/// The parts of ranges that lie in `bounds`, counted from its begin.
pub fn within(ranges: &[Range<usize>], bounds: &Range<usize>) -> Vec<Range<usize>> {
    let part = |range: &Range<usize>| range.start.max(bounds.start)..range.end.min(bounds.end);
    let parts = ranges.iter().map(part).filter(|part| part.start < part.end);
    parts.map(|part| part.start - bounds.start..part.end - bounds.start).collect()
}

/// The parts of ranges that lie in none of `others`; both ascending and apart.
pub fn without(ranges: impl IntoIterator<Item = Range<usize>>, others: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut left = Vec::new();
    for range in ranges {
        let mut at = range.start;
        let first = others.partition_point(|other| other.end <= range.start);
        for other in others[first..].iter().take_while(|other| other.start < range.end) {
            if at < other.start {
                left.push(at..other.start);
            }
            at = at.max(other.end);
        }
        if at < range.end {
            left.push(at..range.end);
        }
    }
    left
}

fn fail(failure: Failure) -> Problem {
    Problem::new(failure.errno(), format!("the file's holes cannot be found: {failure}"))
}
