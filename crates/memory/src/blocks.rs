//! Large blocks: first fit over ranges of addresses of their own.
//!
//! An allocator for small blocks rounds large ones up, to the next of a few sizes or to whole parts of its ranges. Of a
//! pool that would be half for some sizes. Here a block takes its bytes, rounded up to small pages. What is freed stays
//! the process's.
//!
//! What lies where is noted apart from the blocks, so that a program that writes past the end of one does not change it.

use crate::bits::Bits;
use crate::cuts;
use crate::kernel::{self, Errno, PAGE_BYTES, READ_WRITE, WINDOW_BYTES, map, unmap};
use crate::lock::Lock;
use crate::pieces::{self, Piece, Purpose};
use crate::pool;
use crate::signals;
use crate::windows::{self, Want};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, Ordering::Relaxed, compiler_fence};

/// No block is smaller, so that at most one begins in each cell of so many bytes.
pub const LEAST_BYTES: usize = 1 << 20;
/// Arrays of a power of two would else begin at the same set of the caches.
const COLOUR_BYTES: usize = 512;
const COLOURS: usize = 61;
/// The first range, where a program may have only so many addresses.
const BOUNDED_BYTES: usize = 64 << 20;
/// The most that numbers of small pages count.
const RANGE_BYTES_MOST: usize = 8 << 40;
/// Each but the first is as large as all before.
const RANGES: usize = 32;

/// The block that begins in a cell: which small pages of the range it has. None if it has no page.
struct Begun {
    first: AtomicU32,
    pages: AtomicU32,
}

/// A range. Blocks lie in the order of their cells, and what is between them is free.
#[derive(Clone, Copy)]
struct Range {
    piece: Piece,
    cells: &'static [Begun],
    /// Which cells have a block, and which of these the program mapped.
    used: Bits,
    mapped: Bits,
    /// In the cells before it there is no room for any block.
    first_cell: usize,
    /// Nobody ever had pages from here on.
    top: u32,
}

struct Ranges {
    ranges: [Option<Range>; RANGES],
    colour: usize,
}

struct Shared(UnsafeCell<Ranges>);

// SAFETY: read and written by who has `CHANGE` alone.
unsafe impl Sync for Shared {}

static CHANGE: Lock = Lock::new();
static SHARED: Shared = Shared(UnsafeCell::new(Ranges { ranges: [None; RANGES], colour: 0 }));

/// Held across `fork`.
pub fn lock() -> &'static Lock {
    &CHANGE
}

thread_local! {
    static IS_CHANGING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread has the lock, or is about to: who asks is the handler of a signal then, and would wait for it for good.
pub fn is_changing() -> bool {
    IS_CHANGING.try_with(Cell::get).unwrap_or(false)
}

/// Runs `work` on the ranges, with the lock. Handlers of signals may run meanwhile: to block them takes two system calls, more
/// than all the rest.
fn change<T>(work: impl FnOnce(&mut Ranges) -> T) -> T {
    let note = |is_changing| {
        // What a handler of this thread sees is in this order.
        compiler_fence(Ordering::SeqCst);
        let _ = IS_CHANGING.try_with(|noted| noted.set(is_changing));
        compiler_fence(Ordering::SeqCst);
    };
    note(true);
    let held = CHANGE.hold();
    // SAFETY: this thread has the lock, and nothing that is called here comes back.
    let result = work(unsafe { &mut *SHARED.0.get() });
    drop(held);
    note(false);
    result
}

/// Where a block is to begin.
#[derive(Debug, Clone, Copy)]
pub enum Begin {
    /// Each at another line of the caches.
    Coloured,
    /// At a multiple of this power of two.
    Aligned(usize),
    /// At a window, of memory that the program maps.
    Window,
}

/// A block, and whether it is zeros because nobody ever had it, or its memory was given up.
pub struct Block {
    pub address: usize,
    pub is_fresh: bool,
}

/// A block of at least so many bytes. `None`: there is no memory.
pub fn allocate(bytes: usize, begin: Begin) -> Option<Block> {
    let bytes = bytes.max(LEAST_BYTES);
    let block = change(|ranges| {
        let (align, offset) = match begin {
            Begin::Coloured => (PAGE_BYTES, ranges.next_offset()),
            Begin::Aligned(align) => (align.max(PAGE_BYTES), 0),
            Begin::Window => (WINDOW_BYTES, 0),
        };
        let pages = u32::try_from(bytes.checked_add(offset)?.div_ceil(PAGE_BYTES)).ok()?;
        let found = ranges.ranges.iter_mut().flatten().find_map(|range| range.take(pages, align, offset));
        // A fork wants the lock of what this changes, too.
        let block =
            found.or_else(|| signals::blocked(|| ranges.grow(bytes.checked_add(align)?))?.take(pages, align, offset));
        if let (Some(block), Begin::Window) = (&block, begin) {
            ranges.with(block.address, |range, cell| range.mapped.set(cell, true));
        }
        block
    })?;
    // Without the lock: others may take blocks while this one is filled.
    let is_fresh = block.is_fresh || windows::is_reserved(block.address, bytes);
    if fill(block.address, bytes) {
        return Some(Block { is_fresh, ..block });
    }
    free(block.address);
    None
}

fn fill(address: usize, bytes: usize) -> bool {
    let is_done = windows::fill(address, bytes, Want::Large);
    pool::complain();
    is_done
}

/// Frees a block. What is none changes nothing.
pub fn free(block: usize) {
    let free = |range: &mut Range, cell: usize| {
        let (begin, bytes) = (range.begin_address(cell), range.end_address(cell) - range.begin_address(cell));
        // What cannot be made memory again is nobody's for good.
        if cuts::renew(begin, bytes) {
            range.set(cell, 0);
        }
    };
    let changed = change(|ranges| {
        ranges.with(block, |range, cell| {
            let (begin, end) = (range.begin_address(cell), range.end_address(cell));
            let is_cut = cuts::is_cut(begin, end - begin);
            if !is_cut {
                free(range, cell);
            }
            is_cut.then_some(begin..end)
        })
    });
    if let Some(changed) = changed.flatten() {
        cuts::announce_loss(changed.start, changed.len());
        change(|ranges| ranges.with(block, free));
    }
}

/// Whether an address is of a block that the program mapped.
pub fn is_mapped(address: usize) -> bool {
    change(|ranges| {
        let Some(range) = ranges.ranges.iter().flatten().find(|range| range.has(address)) else { return false };
        range.cell_with(address).is_some_and(|cell| range.mapped.has(cell) && address < range.end_address(cell))
    })
}

/// Bytes of a block that the program mapped and that begins there.
pub fn mapped_bytes(address: usize) -> Option<usize> {
    change(|ranges| {
        let range = ranges.ranges.iter().flatten().find(|range| range.has(address))?;
        let cell = range.cell_with(address).filter(|cell| range.mapped.has(*cell))?;
        (range.begin_address(cell) == address).then(|| range.end_address(cell) - address)
    })
}

/// Has blocks that the program mapped no longer have pages at their begin or end, which it unmapped. One of which less than the least block would
/// be left keeps all, and so does one that has others before and behind: the program may map something there again.
pub fn cut_out(address: usize, bytes: usize) {
    if is_changing() {
        return;
    }
    let cut = |ranges: &mut Ranges| {
        let Some(range) = ranges.ranges.iter_mut().flatten().find(|range| range.has(address)) else { return };
        let piece = range.piece;
        let cell_of = |address: usize| (address - piece.address) / LEAST_BYTES;
        let end = (address + bytes).min(piece.end());
        let first = range.cell_with(address).unwrap_or(cell_of(address));
        for cell in first..=cell_of(end - 1) {
            let (begin, last) = (range.begin_address(cell), range.end_address(cell));
            if !range.mapped.has(cell) || last <= address || begin >= end {
                continue;
            }
            let (before, behind) = (address.saturating_sub(begin), last.saturating_sub(end));
            let is_small = [before, behind].into_iter().any(|rest| rest > 0 && rest < LEAST_BYTES);
            let is_left = is_small || before > 0 && behind > 0;
            let (from, to) = (begin.max(address), last.min(end));
            // What cannot be made memory again is nobody's for good.
            if is_left || !cuts::renew(from, to - from) {
                continue;
            }
            range.set(cell, (before / PAGE_BYTES) as u32);
            if behind > 0 {
                let rest = cell_of(end);
                range.cells[rest].first.store(((end - piece.address) / PAGE_BYTES) as u32, Relaxed);
                range.set(rest, (behind / PAGE_BYTES) as u32);
                range.mapped.set(rest, true);
            }
        }
    };
    signals::blocked(|| change(cut));
}

/// Has addresses that no block has, and at which the program maps something itself, be a block: nobody else is to get them. All windows that they
/// touch are, as far as no other block has a part.
pub fn occupy(address: usize, bytes: usize) {
    if is_changing() {
        return;
    }
    let occupy = |ranges: &mut Ranges| {
        for range in ranges.ranges.iter_mut().flatten() {
            let piece = range.piece;
            let (begin, end) = (address.max(piece.address), (address + bytes).min(piece.end()));
            if begin < end {
                range.occupy(begin, end);
            }
        }
    };
    signals::blocked(|| change(occupy));
}

/// Gives back the addresses behind all that any block ever had, before the program bounds how many it may have.
pub fn shrink() {
    signals::blocked(|| {
        change(|ranges| {
            for range in ranges.ranges.iter_mut().flatten() {
                let used = (range.top as usize * PAGE_BYTES).div_ceil(WINDOW_BYTES);
                windows::shrink(&mut range.piece, used);
            }
        });
    });
}

/// Frees a block, and gives up the windows that it has as a whole.
pub fn give_up(block: usize) {
    change(|ranges| {
        ranges.with(block, |range, cell| {
            let (begin, end) = (range.begin_address(cell), range.end_address(cell));
            windows::give_up(begin, end - begin);
            if cuts::renew(begin, end - begin) {
                range.set(cell, 0);
            }
        })
    });
}

/// Whether any block has some of these addresses of a range of blocks. Who asks has the lock.
pub fn has_any(address: usize, bytes: usize) -> bool {
    // SAFETY: as the caller has the lock, nobody else reads or writes.
    let ranges = unsafe { &*SHARED.0.get() };
    let Some(range) = ranges.ranges.iter().flatten().find(|range| range.has(address)) else { return true };
    let cell = (address - range.piece.address) / LEAST_BYTES;
    let before = range.used.before(cell + 1).is_some_and(|cell| range.end_address(cell) > address);
    before || range.used.after(cell + 1).is_some_and(|cell| range.begin_address(cell) < address + bytes)
}

/// Bytes that a block has, from its address on. None if it is not a block.
pub fn usable_bytes(block: usize) -> usize {
    change(|ranges| ranges.with(block, |range, cell| range.end_address(cell) - block)).unwrap_or(0)
}

/// Has a block have so many bytes where it is, if it can.
pub fn resize(block: usize, bytes: usize) -> bool {
    let had = change(|ranges| {
        ranges.with(block, |range, cell| {
            let had = range.end_address(cell) - block;
            let bytes = bytes.max(LEAST_BYTES);
            if bytes < had {
                let end = (block + bytes).next_multiple_of(PAGE_BYTES);
                if !cuts::renew(end, block + had - end) {
                    return None;
                }
            }
            range.resize(cell, block, bytes).then_some(had)
        })
    });
    match had.flatten() {
        None => false,
        Some(had) if bytes <= had || fill(block + had, bytes - had) => true,
        Some(had) => {
            change(|ranges| ranges.with(block, |range, cell| range.resize(cell, block, had)));
            false
        }
    }
}

impl Ranges {
    fn next_offset(&mut self) -> usize {
        self.colour = (self.colour + 1) % COLOURS;
        self.colour * COLOUR_BYTES
    }

    /// Runs `work` on the range and the cell of a block.
    fn with<T>(&mut self, block: usize, work: impl FnOnce(&mut Range, usize) -> T) -> Option<T> {
        let range = self.ranges.iter_mut().flatten().find(|range| range.has(block))?;
        let cell = (block - range.piece.address) / LEAST_BYTES;
        // What a program frees that is no block, or no longer, is none of anybody's.
        let offset = block.checked_sub(range.begin_address(cell))?;
        (range.pages_of(cell) > 0 && offset < COLOURS * COLOUR_BYTES).then(|| work(range, cell))
    }

    /// Another range, which has room for so many bytes.
    fn grow(&mut self, bytes: usize) -> Option<&mut Range> {
        let place = self.ranges.iter().position(Option::is_none)?;
        let had: usize = self.ranges.iter().flatten().map(|range| range.piece.bytes()).sum();
        // Addresses cost nothing unless they are counted. Then one range holds whatever there is memory for.
        let usual = if kernel::has_address_limit() { BOUNDED_BYTES } else { kernel::memory_bytes() };
        let whole = |bytes: usize| bytes.checked_next_multiple_of(pool::page_bytes());
        let needed = whole(bytes).filter(|needed| *needed <= RANGE_BYTES_MOST)?;
        let wanted = whole(usual.max(had).min(RANGE_BYTES_MOST))?.max(needed);
        // As large as it can be: there can be only so many.
        let sizes =
            std::iter::successors(Some(wanted), |wanted| Some(whole(wanted / 2)?).filter(|half| *half > needed));
        let range = sizes.chain([needed]).find_map(|bytes| Range::new(bytes).ok())?;
        Some(self.ranges[place].insert(range))
    }
}

impl Range {
    fn new(bytes: usize) -> Result<Range, Errno> {
        let count = bytes / LEAST_BYTES;
        let words = count.div_ceil(Bits::IN_WORD);
        let notes_bytes = count * size_of::<Begun>() + 2 * words * size_of::<AtomicU64>();
        let cells = map(notes_bytes, READ_WRITE, libc::MAP_PRIVATE | libc::MAP_NORESERVE)?;
        let piece = pieces::reserve(Purpose::Block, bytes, pool::page_bytes()).inspect_err(|_| {
            // SAFETY: just mapped, and nobody knows it.
            unsafe { unmap(cells, notes_bytes) }
        })?;
        // SAFETY: just mapped, zeros, and never given back. Both have words of eight bytes.
        let (cells, used, mapped) = unsafe {
            let cells = std::slice::from_raw_parts(cells as *const Begun, count);
            let used = std::slice::from_raw_parts(cells.as_ptr_range().end.cast::<AtomicU64>(), words);
            (cells, used, std::slice::from_raw_parts(used.as_ptr_range().end, words))
        };
        Ok(Range { piece, cells, used: Bits(used), mapped: Bits(mapped), first_cell: 0, top: 0 })
    }

    fn has(&self, address: usize) -> bool {
        (self.piece.address..self.piece.end()).contains(&address)
    }

    /// Makes blocks of the gaps between blocks in a range of addresses.
    fn occupy(&mut self, begin: usize, end: usize) {
        let whole = begin / WINDOW_BYTES * WINDOW_BYTES..end.next_multiple_of(WINDOW_BYTES).min(self.piece.end());
        let mut at = whole.start.max(self.piece.address);
        while at < whole.end {
            let cell = (at - self.piece.address) / LEAST_BYTES;
            let before = self.cell_with(at).map_or(self.piece.address, |cell| self.end_address(cell));
            if before > at {
                at = before;
                continue;
            }
            let here = [cell.checked_sub(1), Some(cell)].into_iter().flatten().filter(|cell| self.used.has(*cell));
            let next = here.chain(self.used.after(cell + 1)).filter(|next| self.begin_address(*next) > at);
            let next = next.min_by_key(|next| self.begin_address(*next));
            let gap_end = next.map_or(whole.end, |next| self.begin_address(next)).min(whole.end);
            // Where another block begins in the same cell, behind this gap, this one is noted in the cell before. Where one begins there, too, the
            // gap is less than the least block, which nobody gets.
            let free = [Some(cell), cell.checked_sub(1)].into_iter().flatten().find(|cell| self.pages_of(*cell) == 0);
            if let Some(cell) = free.filter(|_| gap_end - at >= PAGE_BYTES) {
                self.cells[cell].first.store(((at - self.piece.address) / PAGE_BYTES) as u32, Relaxed);
                self.set(cell, ((gap_end - at) / PAGE_BYTES) as u32);
                self.mapped.set(cell, true);
            }
            at = gap_end;
        }
    }

    /// The cell of the last block that begins at an address or before it.
    fn cell_with(&self, address: usize) -> Option<usize> {
        let mut before = self.used.before((address - self.piece.address) / LEAST_BYTES + 1)?;
        // Few begin in the same cell, behind the address.
        while self.begin_address(before) > address {
            before = self.used.before(before)?;
        }
        Some(before)
    }

    fn address_of(&self, page: u32) -> usize {
        self.piece.address + page as usize * PAGE_BYTES
    }

    fn pages_of(&self, cell: usize) -> u32 {
        self.cells[cell].pages.load(Relaxed)
    }

    fn begin_address(&self, cell: usize) -> usize {
        self.address_of(self.cells[cell].first.load(Relaxed))
    }

    fn end_of(&self, cell: usize) -> u32 {
        self.cells[cell].first.load(Relaxed) + self.pages_of(cell)
    }

    fn end_address(&self, cell: usize) -> usize {
        self.address_of(self.end_of(cell))
    }

    /// Says how many pages the block of a cell has from now on.
    fn set(&mut self, cell: usize, pages: u32) {
        let had = self.cells[cell].pages.swap(pages, Relaxed);
        self.used.set(cell, pages > 0);
        if pages == 0 {
            self.mapped.set(cell, false);
        }
        self.top = self.top.max(self.end_of(cell));
        if pages < had {
            self.first_cell = self.first_cell.min(cell);
        }
    }

    /// Takes a block of so many pages, which begins `offset` bytes behind the first.
    fn take(&mut self, pages: u32, align: usize, offset: usize) -> Option<Block> {
        let least = (LEAST_BYTES / PAGE_BYTES) as u32;
        let all = (self.piece.bytes() / PAGE_BYTES) as u32;
        // The block before the first that may have room behind it.
        let (mut from, mut cell) = match self.used.before(self.first_cell) {
            Some(before) => (self.end_of(before), before + 1),
            None => (0, 0),
        };
        let mut is_first = true;
        loop {
            let next = self.used.after(cell);
            let end = next.map_or(all, |next| self.cells[next].first.load(Relaxed));
            if is_first && end - from >= least {
                is_first = false;
                self.first_cell = cell;
            }
            let begin = self.address_of(from).checked_next_multiple_of(align)?;
            let first = u32::try_from((begin - self.piece.address) / PAGE_BYTES).ok()?;
            if first.checked_add(pages).is_some_and(|last| last <= end) {
                let is_fresh = first >= self.top;
                let address = begin + offset;
                let cell = (address - self.piece.address) / LEAST_BYTES;
                self.cells[cell].first.store(first, Relaxed);
                self.set(cell, pages);
                return Some(Block { address, is_fresh });
            }
            let next = next?;
            (from, cell) = (self.end_of(next), next + 1);
        }
    }

    /// Has a block have so many bytes from its address on, if there is room behind it.
    fn resize(&mut self, cell: usize, block: usize, bytes: usize) -> bool {
        let end = self.used.after(cell + 1).map_or(self.piece.end(), |next| self.begin_address(next));
        if bytes > end - block {
            return false;
        }
        let last = (block - self.piece.address + bytes).div_ceil(PAGE_BYTES) as u32;
        self.set(cell, last - self.cells[cell].first.load(Relaxed));
        true
    }
}
