//! Where the memory of the process lies, by kinds: in the pool, in large pages or in small ones (/proc/self/smaps, proc(5)).

use crate::files::{Room, number};
use crate::kernel::Descriptor;
use crate::pieces::{self, Purpose};
use std::ops::Range;

/// What memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Blocks, small and large, and what the program mapped from the pool.
    Blocks,
    /// Static arrays and COMMON blocks of what was loaded, as far as they were moved.
    Static,
    /// The first thread's stack.
    Stack,
    /// Mappings of files: code, constants, small data.
    Files,
    /// Everything else: mappings of the kernel's, stacks of threads among them.
    Others,
}

pub const KINDS: [(Kind, &str); 5] = [
    (Kind::Blocks, "blocks"),
    (Kind::Static, "static data"),
    (Kind::Stack, "the stack"),
    (Kind::Files, "files"),
    (Kind::Others, "other mappings"),
];

/// Bytes of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub pool: usize,
    pub large: usize,
    pub small: usize,
    /// Of the large and small ones, what the kernel could take away, or split: all that is not locked.
    pub reclaimable: usize,
}

impl Amount {
    pub fn all(&self) -> usize {
        self.pool + self.large + self.small
    }

    pub fn plus(self, other: Amount) -> Amount {
        Amount {
            pool: self.pool + other.pool,
            large: self.large + other.large,
            small: self.small + other.small,
            reclaimable: self.reclaimable + other.reclaimable,
        }
    }
}

/// The amounts of all kinds, in the order of [`KINDS`]. `None` where the system does not say.
pub fn measure() -> Option<[Amount; KINDS.len()]> {
    let file = Descriptor::open(c"/proc/self/smaps", libc::O_RDONLY).ok()?;
    let mut amounts = [Amount::default(); KINDS.len()];
    let (mut kind, mut rss, mut large, mut pool, mut locked) = (Kind::Others, 0, 0, 0, 0);
    each_line(&file, |line| {
        if let Some(found) = heading(line) {
            kind = found;
            return;
        }
        let bytes = |name: &[u8]| line.strip_prefix(name).and_then(number).map(|kib| kib << 10);
        match () {
            () if line.starts_with(b"Rss:") => (rss, large, pool, locked) = (bytes(b"Rss:").unwrap_or(0), 0, 0, 0),
            () if line.starts_with(b"AnonHugePages:") => large = bytes(b"AnonHugePages:").unwrap_or(0),
            () if line.starts_with(b"Private_Hugetlb:") => pool += bytes(b"Private_Hugetlb:").unwrap_or(0),
            () if line.starts_with(b"Shared_Hugetlb:") => pool += bytes(b"Shared_Hugetlb:").unwrap_or(0),
            () if line.starts_with(b"Locked:") => locked = bytes(b"Locked:").unwrap_or(0),
            // The last line of a mapping.
            () if line.starts_with(b"VmFlags:") => {
                let is_locked = line.windows(4).any(|part| part == b" lo ");
                let reclaimable = if is_locked { 0 } else { rss - locked.min(rss) };
                let amount = Amount { pool, large, small: rss.saturating_sub(large), reclaimable };
                // What is kept of the pool for forks is no block yet.
                let kind = if kind == Kind::Files && pool > 0 { Kind::Blocks } else { kind };
                let place = KINDS.iter().position(|(known, _)| *known == kind).unwrap_or(KINDS.len() - 1);
                amounts[place] = amounts[place].plus(amount);
            }
            () => {}
        }
    })?;
    Some(amounts)
}

/// Calls a function with each line of a file, of which only so much is read as one reading gives: the end of a longer one is another.
fn each_line(file: &Descriptor, mut visit: impl FnMut(&[u8])) -> Option<()> {
    let mut room = Room::new()?;
    let buffer = room.all_mut();
    let mut used = 0;
    loop {
        let count = file.read(&mut buffer[used..]).ok()?;
        used += count;
        let mut begin = 0;
        while let Some(end) = buffer[begin..used].iter().position(|byte| *byte == b'\n') {
            visit(&buffer[begin..begin + end]);
            begin += end + 1;
        }
        if begin == 0 && used == buffer.len() {
            begin = used;
        }
        buffer.copy_within(begin..used, 0);
        used -= begin;
        if count == 0 {
            return Some(());
        }
    }
}

/// The kind of a mapping, of which this is the first line: two addresses, and a path at the end.
fn heading(line: &[u8]) -> Option<Kind> {
    let range = range(line)?;
    let is_named = |name: &[u8]| line.ends_with(name);
    Some(match pieces::find(range.start) {
        Some(piece) if piece.purpose == Purpose::Loaded => Kind::Static,
        Some(_) => Kind::Blocks,
        None if is_named(b"[stack]") => Kind::Stack,
        None if line.iter().any(|byte| *byte == b'/') => Kind::Files,
        None => Kind::Others,
    })
}

fn range(line: &[u8]) -> Option<Range<usize>> {
    let text = std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?;
    let (begin, end) = text.split_once('-')?;
    Some(usize::from_str_radix(begin, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}
