//! Where the memory of the process lies, by kinds: in the pool, in large pages or in small ones (/proc/self/smaps, proc(5)).

use crate::files::{addresses, each_line, number};
use crate::pieces::{self, Purpose};

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
    let mut amounts = [Amount::default(); KINDS.len()];
    let (mut kind, mut rss, mut large, mut pool, mut locked) = (Kind::Others, 0, 0, 0, 0);
    each_line(c"/proc/self/smaps", |line| {
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

/// The kind of a mapping, of which this is the first line: two addresses, and a path at the end.
fn heading(line: &[u8]) -> Option<Kind> {
    let range = addresses(line)?;
    let is_named = |name: &[u8]| line.ends_with(name);
    Some(match pieces::find(range.start) {
        Some(piece) if piece.purpose == Purpose::Loaded => Kind::Static,
        Some(_) => Kind::Blocks,
        None if is_named(b"[stack]") => Kind::Stack,
        None if line.contains(&b'/') => Kind::Files,
        None => Kind::Others,
    })
}
