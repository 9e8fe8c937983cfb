//! Ranges of addresses that are this library's, and what each window of them is.
//!
//! They are found without a lock, because `free` asks of every block whose it is. What their windows are is read and
//! changed by who has the lock of `windows`.

use crate::kernel::{Errno, WINDOW_BYTES, map, unmap};
use crate::lock::Lock;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// What a window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Window {
    /// Addresses, and no memory.
    Reserved = 0,
    /// Ordinary memory.
    Plain = 1,
    /// A page of the pool, or a part of one.
    Pool = 2,
}

/// Of a window's state: the program changed how some of it is mapped.
const CUT: u8 = 16;

/// What a range of addresses is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The allocator shares it out among small blocks.
    Heap = 1,
    /// Large blocks lie there.
    Block = 2,
    /// The program was loaded there.
    Loaded = 3,
}

/// Purpose, first window and count of windows in one word, so that who reads it without a lock finds them whole.
struct Slot {
    place: AtomicU64,
    states: AtomicUsize,
}

const SLOTS: usize = 512;
const COUNT_BITS: u32 = 31;
const FIRST_BITS: u32 = 31;

static SLOTS_OF_ALL: [Slot; SLOTS] = [const { Slot { place: AtomicU64::new(0), states: AtomicUsize::new(0) } }; SLOTS];
/// As many slots as were ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
static CHANGE: Lock = Lock::new();

/// A range of addresses.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    pub purpose: Purpose,
    pub address: usize,
    pub windows: usize,
    slot: usize,
}

impl Piece {
    fn read(slot: usize) -> Option<Piece> {
        let word = SLOTS_OF_ALL[slot].place.load(Ordering::Acquire);
        let purpose = match word >> (COUNT_BITS + FIRST_BITS) {
            1 => Purpose::Heap,
            2 => Purpose::Block,
            3 => Purpose::Loaded,
            _ => return None,
        };
        let windows = word as usize & ((1 << COUNT_BITS) - 1);
        let first = (word >> COUNT_BITS) as usize & ((1 << FIRST_BITS) - 1);
        Some(Piece { purpose, address: first * WINDOW_BYTES, windows, slot })
    }

    pub fn bytes(&self) -> usize {
        self.windows * WINDOW_BYTES
    }

    pub fn end(&self) -> usize {
        self.address + self.bytes()
    }

    /// The windows that a range of addresses touches.
    pub fn touched(&self, range: &Range<usize>) -> Range<usize> {
        let (start, end) = (range.start.max(self.address), range.end.min(self.end()));
        if start >= end {
            return 0..0;
        }
        (start - self.address) / WINDOW_BYTES..(end - self.address).div_ceil(WINDOW_BYTES)
    }

    pub fn address_of(&self, window: usize) -> usize {
        self.address + window * WINDOW_BYTES
    }

    fn states(&self) -> &[AtomicU8] {
        let at = SLOTS_OF_ALL[self.slot].states.load(Ordering::Acquire) as *const AtomicU8;
        // SAFETY: `add` mapped as many before it made the piece known, and they go only with the piece.
        unsafe { std::slice::from_raw_parts(at, self.windows) }
    }

    pub fn window(&self, window: usize) -> Window {
        match self.states()[window].load(Ordering::Acquire) & !CUT {
            1 => Window::Plain,
            2 => Window::Pool,
            _ => Window::Reserved,
        }
    }

    /// Says what windows are, once they are that. What the program changed in memory is changed in what replaces it.
    pub fn set(&self, windows: Range<usize>, is: Window) {
        let kept = if is == Window::Reserved { 0 } else { CUT };
        let next = |state: u8| Some(state & kept | is as u8);
        self.states()[windows].iter().for_each(|state| {
            let _ = state.fetch_update(Ordering::Release, Ordering::Relaxed, next);
        });
    }

    /// Notes that the program changed how some of a window is mapped.
    pub fn set_cut(&self, windows: Range<usize>, is_cut: bool) {
        self.states()[windows].iter().for_each(|state| {
            match is_cut {
                true => state.fetch_or(CUT, Ordering::Relaxed),
                false => state.fetch_and(!CUT, Ordering::Relaxed),
            };
        });
    }

    pub fn is_cut(&self, window: usize) -> bool {
        self.states()[window].load(Ordering::Relaxed) & CUT != 0
    }

    /// The first run of windows of a kind among some.
    pub fn run(&self, among: Range<usize>, kind: Window) -> Option<Range<usize>> {
        let first = among.clone().find(|window| self.window(*window) == kind)?;
        let end = (first..among.end).find(|window| self.window(*window) != kind).unwrap_or(among.end);
        Some(first..end)
    }
}

/// All of them.
pub fn all() -> impl Iterator<Item = Piece> {
    (0..USED.load(Ordering::Acquire)).filter_map(Piece::read)
}

/// The one that an address is in.
#[inline]
pub fn find(address: usize) -> Option<Piece> {
    all().find(|piece| address.wrapping_sub(piece.address) < piece.bytes())
}

/// Makes a range of addresses known, all of whose windows are `Reserved`.
pub fn add(purpose: Purpose, address: usize, bytes: usize) -> Result<Piece, Errno> {
    let windows = bytes / WINDOW_BYTES;
    let states = map(windows, crate::kernel::READ_WRITE, libc::MAP_PRIVATE)?;
    let _held = CHANGE.hold();
    let free = (0..SLOTS).find(|slot| Piece::read(*slot).is_none());
    let Some(slot) = free else {
        // SAFETY: just mapped, and nobody knows it.
        unsafe { unmap(states, windows) };
        return Err(libc::ENOMEM);
    };
    SLOTS_OF_ALL[slot].states.store(states, Ordering::Release);
    let word = (purpose as u64) << (COUNT_BITS + FIRST_BITS) | ((address / WINDOW_BYTES) as u64) << COUNT_BITS;
    SLOTS_OF_ALL[slot].place.store(word | windows as u64, Ordering::Release);
    USED.fetch_max(slot + 1, Ordering::Release);
    Ok(Piece { purpose, address, windows, slot })
}

/// Reserves addresses without memory, at a multiple of `align` (a power of two, of at least a window).
pub fn reserve(purpose: Purpose, bytes: usize, align: usize) -> Result<Piece, Errno> {
    let bytes = bytes.checked_next_multiple_of(WINDOW_BYTES).ok_or(libc::ENOMEM)?;
    let more = bytes.checked_add(align).ok_or(libc::ENOMEM)?;
    // What cannot be written counts for nothing in the kernel's account of memory; what is made to be written later
    // does.
    let at = map(more, libc::PROT_NONE, libc::MAP_PRIVATE)?;
    let address = at.next_multiple_of(align);
    // SAFETY: these are the edges of what was just mapped.
    unsafe {
        if address > at {
            unmap(at, address - at);
        }
        if at + more > address + bytes {
            unmap(address + bytes, at + more - address - bytes);
        }
    }
    add(purpose, address, bytes).inspect_err(|_| {
        // SAFETY: just mapped, and nobody knows it.
        unsafe { unmap(address, bytes) }
    })
}

/// Has a piece end behind so many of its windows, and gives back the addresses that it had behind them, in which is no memory.
pub fn shrink(piece: &mut Piece, windows: usize) {
    let (end, bytes) = (piece.address_of(windows), (piece.windows - windows) * WINDOW_BYTES);
    let _held = CHANGE.hold();
    let place = &SLOTS_OF_ALL[piece.slot].place;
    place.store(place.load(Ordering::Relaxed) - (piece.windows - windows) as u64, Ordering::Release);
    piece.windows = windows;
    // SAFETY: the addresses were the piece's, and nobody has anything there.
    unsafe { unmap(end, bytes) };
}

/// Held across `fork`, so that the child finds the table whole.
pub fn lock() -> &'static Lock {
    &CHANGE
}
