//! Memory that a program fills by itself when it is touched first, by userfaultfd(2).
//!
//! What this library filled beforehand would never be asked for, and the program would read zeros. So before the kernel watches memory for
//! missing pages, those are given up that nobody has written, and what the memory grows by is not filled any more. A page in which the
//! program wrote nothing but zeros before cannot be told from them: it is asked for, too.

use crate::calls;
use crate::cuts;
use crate::kernel::{PAGE_BYTES, READ_WRITE, map, quietly, read_own, resident, set_errno, unmap};
use crate::next;
use crate::windows;
use libc::{c_int, c_ulong, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// `UFFDIO_API` of linux/userfaultfd.h, whose argument begins with a version and features, and some of these.
const API: c_ulong = 0xc018_aa3f;
const API_BYTES: usize = 16;
const EVENT_REMAP: u64 = 1 << 2;
const EVENT_UNMAP: u64 = 1 << 6;
/// `UFFDIO_REGISTER`, whose argument begins with a range, its length and a mode.
const REGISTER: c_ulong = 0xc020_aa00;
const REGISTER_BYTES: usize = 24;
const MODE_MISSING: u64 = 1;

/// The descriptors that ask to hear what is unmapped, a bit for each of the first. Each asks once, before all else.
static MONITORS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// Pages that are looked at together.
const PAGES: usize = 64;

/// See ioctl(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(file: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if request == API {
        quietly(|| note_monitor(file, argument as usize));
    }
    if request == REGISTER
        && !is_monitor(file)
        && let Some(range) = quietly(|| missing_range(argument as usize))
    {
        if windows::soften(range.start, range.len()).is_err() {
            set_errno(libc::ENOMEM);
            return -1;
        }
        // Who gets this memory next is not to wait for the program to fill it.
        cuts::note_cut(range.start, range.len());
        quietly(|| give_up(range));
    }
    next::ioctl(file, request, argument as usize)
}

/// The bit of a descriptor; those after the first are no monitors.
fn monitor_bit(file: c_int) -> Option<(&'static AtomicU64, u64)> {
    let file = usize::try_from(file).ok()?;
    Some((MONITORS.get(file / 64)?, 1 << (file % 64)))
}

fn is_monitor(file: c_int) -> bool {
    monitor_bit(file).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Notes whether a descriptor asks to hear what is unmapped, which those do not that fill memory.
fn note_monitor(file: c_int, argument: usize) {
    let (Some((word, bit)), Some([_, features])) = (monitor_bit(file), read_words::<2, API_BYTES>(argument)) else {
        return;
    };
    match features & (EVENT_REMAP | EVENT_UNMAP) {
        0 => word.fetch_and(!bit, Ordering::Relaxed),
        _ => word.fetch_or(bit, Ordering::Relaxed),
    };
}

/// The first words of a call's argument.
fn read_words<const WORDS: usize, const BYTES: usize>(argument: usize) -> Option<[u64; WORDS]> {
    let mut bytes = [0; BYTES];
    read_own(argument, &mut bytes).ok()?;
    let (words, _) = bytes.as_chunks::<8>();
    Some(std::array::from_fn(|number| u64::from_ne_bytes(words[number])))
}

/// The range that is to be watched for missing pages, if the call asks for that. What is wrong with it the kernel says.
fn missing_range(argument: usize) -> Option<Range<usize>> {
    let [begin, length, mode] = read_words::<3, REGISTER_BYTES>(argument)?;
    let (begin, length) = (usize::try_from(begin).ok()?, usize::try_from(length).ok()?);
    let is_whole = begin.is_multiple_of(PAGE_BYTES) && length.is_multiple_of(PAGE_BYTES) && length > 0;
    let end = begin.checked_add(length)?;
    (is_whole && mode & MODE_MISSING != 0).then_some(begin..end)
}

/// Gives up the pages of a range that nobody has written.
fn give_up(range: Range<usize>) {
    let Ok(buffer) = map(PAGES * PAGE_BYTES, READ_WRITE, libc::MAP_PRIVATE) else { return };
    // SAFETY: just mapped, as long, and nobody else's.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer as *mut u8, PAGES * PAGE_BYTES) };
    if cuts::is_of_heap(range.start, range.len()) {
        give_up_zeros(range.clone(), bytes);
    }
    calls::forget_within(range, |filled| give_up_zeros(filled, bytes));
    // SAFETY: mapped above.
    unsafe { unmap(buffer, PAGES * PAGE_BYTES) };
}

fn give_up_zeros(range: Range<usize>, buffer: &mut [u8]) {
    for at in range.clone().step_by(PAGES * PAGE_BYTES) {
        let count = PAGES.min((range.end - at) / PAGE_BYTES);
        let mut there = [0; PAGES];
        // What is not there is not touched: the kernel may watch it already.
        if resident(at, count * PAGE_BYTES, &mut there).is_err() {
            continue;
        }
        for page in (0..count).filter(|page| there[*page] & 1 == 1) {
            let (address, page) = (at + page * PAGE_BYTES, &mut buffer[..PAGE_BYTES]);
            if read_own(address, page).is_ok() && page.iter().all(|byte| *byte == 0) {
                next::madvise(address, PAGE_BYTES, libc::MADV_DONTNEED);
            }
        }
    }
}
