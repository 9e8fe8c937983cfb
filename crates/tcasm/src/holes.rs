//! Holes of sparse files.
//!
//! To read a hole of a file in memory through a mapping takes room in its file system, and is a signal where there is none.
//! So holes are found by asking, and their zeros are known without looking.

use crate::file::Working;
use crate::kernel::PAGE_BYTES;
use crate::report::Problem;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use stillframe_kernel::Failure;
use stillframe_kernel::memory;
use stillframe_kernel::pagemap::{Bare, Pagemap, bareness};
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

/// The pages that a range of a mapping touches, of `bytes` bytes of its file, which are holes of that and of which it has none
/// of its own.
pub fn of_mapping(
    working: &Working,
    file: &File,
    bytes: usize,
    range: Range<usize>,
) -> Result<Vec<Range<usize>>, Problem> {
    let bare = bare_pages(working, range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES))?;
    let (Some(first), Some(last)) = (bare.first(), bare.last()) else { return Ok(Vec::new()) };
    // The file is asked once, and of no more than what counts: to find where data ends takes as long as there is data.
    let (start, end) = (first.start, last.end.min(bytes));
    let holes = of_file(file, working.offset + start as u64, end - start)?;
    let holes = holes.into_iter().map(|hole| start + hole.start..start + hole.end);
    let data = without(std::iter::once(start..end), holes.collect());
    Ok(without(bare, data))
}

/// Those of some pages of a mapping, as bytes, that are not in memory nor swapped out.
fn bare_pages(working: &Working, pages: Range<usize>) -> Result<Vec<Range<usize>>, Problem> {
    let mut bare: Vec<Range<usize>> = Vec::new();
    // Where something is swapped out, what may be is taken to be.
    let mut is_swap_used = None;
    let note = |page: usize, entry: u64| {
        let start = (pages.start + page) * PAGE_BYTES;
        let is_bare = match bareness(entry) {
            Bare::Unknown => !*is_swap_used.get_or_insert_with(memory::is_swap_used),
            known => known == Bare::Yes,
        };
        match bare.last_mut() {
            _ if !is_bare => {}
            Some(last) if last.end == start => last.end += PAGE_BYTES,
            _ => bare.push(start..start + PAGE_BYTES),
        }
    };
    let address = working.address + pages.start * PAGE_BYTES;
    Pagemap::open().and_then(|mut map| map.entries(address, pages.len(), note)).map_err(fail)?;
    Ok(bare)
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
