//! What the program and its libraries were loaded with and only read: code, constants and the linker's tables.
//!
//! They are pages of files, which the kernel enters into the page tables where they are first used. A function that is called for the
//! first time in a time step would cost a fault there. So what is in memory anyway is entered before the program runs; nothing is waited
//! for that a disk would have to read. File systems that do not tell what is in memory (`RWF_NOWAIT`), as NFS, leave it as it is.

use crate::kernel::{Advice, Descriptor, PAGE_BYTES, advise, quietly};
use crate::loaded::{self, Object};
use std::ops::Range;

/// Enters what is in memory of all that is loaded.
pub fn map_all() {
    quietly(|| loaded::each(map_segments));
}

fn map_segments(object: &Object<'_>) {
    let Some(file) = object.open() else { return };
    for header in object.segments(libc::PF_R | libc::PF_W, libc::PF_R) {
        let begin = object.range(header).start;
        // Both begin at the same place of a page.
        let inside = begin % PAGE_BYTES;
        let Some(offset) = header.p_offset.checked_sub(inside as u64) else { continue };
        if !map_segment(&file, begin - inside..begin + header.p_filesz as usize, offset) {
            break;
        }
    }
}

/// Enters a segment of a file, as far as it is in memory; `false` where the file does not say what is.
fn map_segment(file: &Descriptor, segment: Range<usize>, offset: u64) -> bool {
    let mut begin = None;
    for page in segment.clone().step_by(PAGE_BYTES) {
        let Ok(is_there) = file.is_in_memory(offset + (page - segment.start) as u64) else { return false };
        match (begin, is_there) {
            (None, true) => begin = Some(page),
            (Some(first), false) => {
                // Not there any more, it would be read: that is no harm.
                let _ = advise(first, page - first, Advice::Enter);
                begin = None;
            }
            _ => {}
        }
    }
    begin.is_none_or(|first| advise(first, segment.end - first, Advice::Enter).is_ok())
}
