//! Calls that take addresses away from those that have them, or the right to read there.
//!
//! What is known of the addresses is changed before the call is made and put back if it fails, so that nobody who gets them
//! next meets what was known of them. Whoever publishes from them ends first. The state is not locked during the call: it may
//! run other libraries' hooks, which wait for what they like.

use crate::file::{Publishing, SharedFile};
use crate::fork::state;
use crate::inside::quietly;
use crate::kernel::whole_pages;
use crate::lock::Kept;
use crate::state::Taken;
use std::sync::Arc;

/// The producers of files, each of which waits meanwhile.
struct Quiet {
    producers: Vec<Kept<SharedFile, Option<Publishing>>>,
}

impl Quiet {
    /// Waits for those that publish from these ranges of addresses.
    fn new(ranges: &[(usize, usize)]) -> Quiet {
        loop {
            let files = state().published_in(ranges);
            let producers = files.iter().map(|file| Kept::new(file.clone(), |file| &file.producer)).collect();
            let now = state().published_in(ranges);
            if now.iter().map(Arc::as_ptr).eq(files.iter().map(Arc::as_ptr)) {
                return Quiet { producers };
            }
        }
    }

    /// Lets go of the regions of files that no mapping is left of: another process may go on with them.
    fn end_unpublished(mut self) {
        let mut ended = Vec::new();
        for producer in &mut self.producers {
            if !state().is_published(producer.whole()) {
                ended.extend(producer.take());
            }
        }
        drop(self);
        drop(ended);
    }
}

/// The addresses of so many bytes.
fn addresses((start, bytes): (usize, usize)) -> (usize, usize) {
    (start, start.saturating_add(whole_pages(bytes)))
}

/// Runs a call that takes a range of addresses, of so many bytes, away from those that had them, unless it fails.
pub fn taking<T>(range: (usize, usize), real: impl FnOnce() -> T, is_done: impl FnOnce(&T) -> bool) -> T {
    let ranges = [addresses(range)];
    // What lies between the program's mappings is often unmapped by the allocator, which must not be asked for memory then.
    if !state().has_any(&ranges) {
        return real();
    }
    changing(&ranges, Quiet::new(&ranges), real, is_done, |_, _| {})
}

/// As [`taking`], for a call that moves what has a range of addresses to others, which may have been somebody's. `moved` is
/// told what there was before others may publish it.
pub fn moving(
    range: (usize, usize),
    replaced: Option<(usize, usize)>,
    real: impl FnOnce() -> usize,
    is_done: impl FnOnce(&usize) -> bool,
    moved: impl FnOnce(&usize, &Taken),
) -> usize {
    let ranges = [addresses(range), addresses(replaced.unwrap_or((0, 0)))];
    let mut quiet = Quiet::new(&ranges);
    // What the region watches is not one piece to the kernel, and only one piece can be moved.
    let files = state().published_in(&ranges[..1]);
    let is_moved = |file: &Arc<SharedFile>| files.iter().any(|moved| Arc::ptr_eq(moved, file));
    let moved_producers = quiet.producers.iter_mut().filter(|producer| is_moved(producer.whole()));
    let ended = moved_producers.map(|producer| producer.take());
    quietly(|| drop(ended.collect::<Vec<_>>()));
    changing(&ranges, quiet, real, is_done, moved)
}

/// Runs a call that takes ranges of addresses away, unless it fails. `done` is told what there was.
fn changing<T>(
    ranges: &[(usize, usize)],
    quiet: Quiet,
    real: impl FnOnce() -> T,
    is_done: impl FnOnce(&T) -> bool,
    done: impl FnOnce(&T, &Taken),
) -> T {
    let taken = state().take(ranges);
    let result = real();
    quietly(|| match is_done(&result) {
        true => {
            done(&result, &taken);
            quiet.end_unpublished();
            drop(taken);
        }
        false => {
            let displaced = state().put_back(taken);
            drop(displaced);
        }
    });
    result
}

/// Runs a call that says whether these bytes may be read.
pub fn protecting(address: usize, bytes: usize, readable: bool, real: impl FnOnce() -> i32) -> i32 {
    let (start, end) = addresses((address, bytes));
    if readable {
        let result = real();
        // One that fails may have changed some of the pages; that they can be read is not known.
        if result == 0 {
            quietly(|| state().set_readable(start, end, true));
        }
        return result;
    }
    let _quiet = Quiet::new(&[(start, end)]);
    let result = real();
    // A call that has an end it cannot reach has changed what lies before.
    if result == 0 || crate::kernel::errno() != libc::EINVAL {
        quietly(|| state().set_readable(start, end, false));
    }
    result
}
