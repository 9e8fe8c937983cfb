//! Where things lie: the names in a store, and the chunks of an array.

use std::ops::Range;
use stillframe::{Order, PAGE_BYTES};

/// The file that carries the lock of whoever writes into a store.
pub const LOCK: &str = "lock";
/// What a checkpointer says of itself.
pub const STATUS: &str = "status.json";
/// A symbolic link to the newest checkpoint.
pub const LATEST: &str = "latest.zarr";
/// That link while it is made.
pub const LATEST_NEW: &str = ".latest.zarr.new";
/// What restoring needs to know, in each checkpoint.
pub const MANIFEST: &str = "manifest.json";
/// The checksum of the manifest, written last of all.
pub const MANIFEST_CHECKSUM: &str = "manifest.xxh128";
/// The checksums of all other files of a checkpoint.
pub const CHECKSUMS: &str = "checksums.xxh128";
/// Zarr's metadata of a group or array.
pub const METADATA: &str = "zarr.json";

const SUFFIX: &str = ".zarr";
/// Least digits of a version in a name.
const DIGITS: usize = 12;
const PARTIAL: &str = ".zarr.partial";
const REMOVING: &str = ".zarr.removing";

/// The directory of a checkpoint, in its store.
pub fn checkpoint_dir(version: u64) -> String {
    format!("v{version:0DIGITS$}{SUFFIX}")
}

/// The directory of a checkpoint while it is written.
pub fn partial_dir(version: u64) -> String {
    format!(".v{version:0DIGITS$}{PARTIAL}")
}

/// The directory that an earlier run's checkpoints go into of which this is the highest version, in their store: the first
/// such, or the second, and so on.
pub fn earlier_dir(last: u64, number: u32) -> String {
    match number {
        0 | 1 => format!("earlier-{last}"),
        _ => format!("earlier-{last}-{number}"),
    }
}

/// The highest version of the checkpoints that go into a directory of this name.
pub fn earlier_version(name: &str) -> Option<u64> {
    let rest = name.strip_prefix("earlier-")?;
    rest.split_once('-').map_or(rest, |(last, _)| last).parse().ok()
}

/// The directory of a checkpoint while it is deleted.
pub fn removing_dir(version: u64) -> String {
    format!(".v{version:0DIGITS$}{REMOVING}")
}

/// The version of the checkpoint in a directory of this name.
pub fn checkpoint_version(name: &str) -> Option<u64> {
    number(name.strip_prefix('v')?.strip_suffix(SUFFIX)?)
}

/// The version of the checkpoint that is written in a directory of this name.
pub fn partial_version(name: &str) -> Option<u64> {
    number(name.strip_prefix(".v")?.strip_suffix(PARTIAL)?)
}

/// Whether a directory of this name is what a writer leaves that is killed.
pub fn is_left_over(name: &str) -> bool {
    let version = name.strip_prefix(".v").and_then(|rest| rest.strip_suffix(PARTIAL).or(rest.strip_suffix(REMOVING)));
    version.is_some_and(|version| number(version).is_some())
}

fn number(digits: &str) -> Option<u64> {
    // The one way to write it, so that no two directories have the same version.
    let is_padded = digits.len() == DIGITS || digits.len() > DIGITS && !digits.starts_with('0');
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_padded && is_number)
}

/// The name of a variable's directory. Names that Zarr or a checkpoint takes for something else get their first character
/// as `%` and two digits, and so does `%` itself there; all others are as they are, but for those with a backslash, which Zarr's
/// readers take for a slash. These begin with `%5C`, and have `%5C` for each, and `%25` for `%`.
pub fn escape(name: &str) -> String {
    if name.contains('\\') {
        return format!("%5C{}", name.replace('%', "%25").replace('\\', "%5C"));
    }
    let taken = [METADATA, MANIFEST, MANIFEST_CHECKSUM, CHECKSUMS].contains(&name);
    match name.chars().next() {
        Some(first) if taken || name.starts_with("__") || first == '.' || first == '%' => {
            format!("%{:02X}{}", first as u32, &name[first.len_utf8()..])
        }
        _ => name.into(),
    }
}

/// Chunks that a checkpoint is cut into, at least, if they are of neither the smallest nor the largest size.
const CHUNKS: u64 = 2048;
/// Most bytes of a chunk that may be asked for, unless it is one element.
pub(crate) const CHUNK_BYTES_LIMIT: usize = 1 << 30;
const CHUNK_BYTES_MIN: usize = 1 << 19;
const CHUNK_BYTES_MAX: usize = 1 << 25;

/// Bytes of a chunk in a checkpoint of so many bytes, if nobody asks for another size: a power of two, so that a variable
/// that grows a little leaves the chunks of the others as they are.
pub fn chunk_bytes(checkpoint_bytes: u64) -> usize {
    let share = 1u64 << (checkpoint_bytes / CHUNKS).max(1).ilog2();
    usize::try_from(share).unwrap_or(CHUNK_BYTES_MAX).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
}

/// How an array is cut into chunks, each of which is a run of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    shape: Vec<usize>,
    chunk_shape: Vec<usize>,
    order: Order,
    element_bytes: usize,
}

impl Grid {
    /// Chunks of about `chunk_bytes` for an array of this shape: full along the axes that run fastest, some of the next,
    /// and one of all others. They begin where pages do, if some that do are not larger.
    pub fn new(shape: &[usize], order: Order, element_bytes: usize, chunk_bytes: usize) -> Grid {
        let mut slow_first: Vec<usize> = shape.to_vec();
        if order == Order::Fortran {
            slow_first.reverse();
        }
        let mut chunk = vec![1; slow_first.len()];
        let mut inner = element_bytes;
        for axis in (0..slow_first.len()).rev() {
            // Zarr has no chunks of no elements, even in arrays that have none.
            let extent = slow_first[axis].max(1);
            let whole = inner.saturating_mul(extent);
            if whole <= chunk_bytes {
                chunk[axis] = extent;
                inner = whole;
                continue;
            }
            let most = (chunk_bytes / inner).max(1);
            let step = PAGE_BYTES / gcd(inner, PAGE_BYTES);
            let most = if step <= most { most - most % step } else { most };
            // As many as need be, of about the same size, so that little of the last reaches over the edge.
            let even = extent.div_ceil(extent.div_ceil(most));
            chunk[axis] = even.next_multiple_of(step).min(most);
            break;
        }
        if order == Order::Fortran {
            chunk.reverse();
        }
        Grid { shape: shape.to_vec(), chunk_shape: chunk, order, element_bytes }
    }

    /// The chunks that a manifest tells of. `None` if they are not runs of the array's bytes, or too large to be counted.
    pub fn of(shape: &[usize], chunk_shape: &[usize], order: Order, element_bytes: usize) -> Option<Grid> {
        let grid = Grid { shape: shape.to_vec(), chunk_shape: chunk_shape.to_vec(), order, element_bytes };
        let product = |of: &[usize]| of.iter().try_fold(element_bytes, |all, n| all.checked_mul(*n));
        let fits = shape.len() == chunk_shape.len()
            && shape.iter().zip(chunk_shape).all(|(extent, k)| (1..=(*extent).max(1)).contains(k));
        if !fits || product(shape).is_none() || product(chunk_shape).is_none() {
            return None;
        }
        // From the fastest axis on: whole ones, then at most one that is cut, then single ones.
        let (extents, chunk) = (grid.slow_first(&grid.shape), grid.slow_first(&grid.chunk_shape));
        let mut axes = extents.iter().zip(&chunk).rev().skip_while(|(extent, k)| **k == (**extent).max(1));
        axes.next();
        axes.all(|(_, k)| *k == 1).then_some(grid)
    }

    /// Extents of the array.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Extents of a chunk, along the array's axes.
    pub fn chunk_shape(&self) -> &[usize] {
        &self.chunk_shape
    }

    /// Bytes of a whole chunk, and of its file if it is not compressed.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_shape.iter().product::<usize>() * self.element_bytes
    }

    /// Bytes of the array.
    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.element_bytes
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        if self.shape.contains(&0) { 0 } else { self.counts().iter().product() }
    }

    /// The bytes of the array that chunk `index` holds, counting chunks in the order of their bytes. They are fewer than
    /// those of the chunk where it reaches over the array's edge; the rest of the chunk is zeros.
    pub fn range(&self, index: usize) -> Range<usize> {
        let (extents, chunk) = (self.slow_first(&self.shape), self.slow_first(&self.chunk_shape));
        let at = self.position(index);
        let (mut start, mut elements, mut stride) = (0, 1, 1);
        for axis in (0..extents.len()).rev() {
            let first = at[axis] * chunk[axis];
            start += first * stride;
            elements *= chunk[axis].min(extents[axis] - first);
            stride *= extents[axis];
        }
        start * self.element_bytes..(start + elements) * self.element_bytes
    }

    /// Where chunk `index` is among the chunks, along the array's axes.
    pub fn coordinates(&self, index: usize) -> Vec<u64> {
        let at = self.position(index).into_iter().map(|n| n as u64).collect::<Vec<_>>();
        self.slow_first(&at)
    }

    /// The file of chunk `index`, in the array's directory. Zarr's other way to write it, with slashes, takes a directory for
    /// each chunk of an array with several axes, and directories cannot be shared with the checkpoint before.
    pub fn key(&self, index: usize) -> String {
        self.coordinates(index).iter().fold("c".into(), |key, at| format!("{key}.{at}"))
    }

    /// Numbers of the chunks that have some of these bytes of the array.
    pub fn covering(&self, bytes: Range<usize>) -> Range<usize> {
        if bytes.is_empty() || self.chunks() == 0 {
            return 0..0;
        }
        self.holding(bytes.start)..self.holding(bytes.end - 1) + 1
    }

    /// Number of the chunk that has this byte.
    fn holding(&self, byte: usize) -> usize {
        let (extents, chunk) = (self.slow_first(&self.shape), self.slow_first(&self.chunk_shape));
        let mut element = byte / self.element_bytes;
        let mut at = vec![0; extents.len()];
        for axis in (0..extents.len()).rev() {
            at[axis] = element % extents[axis] / chunk[axis];
            element /= extents[axis];
        }
        let counts = self.counts();
        at.iter().zip(&counts).fold(0, |index, (at, count)| index * count + at)
    }

    /// Chunks along each axis, the slowest first.
    fn counts(&self) -> Vec<usize> {
        let (extents, chunk) = (self.slow_first(&self.shape), self.slow_first(&self.chunk_shape));
        extents.iter().zip(&chunk).map(|(extent, k)| extent.div_ceil(*k)).collect()
    }

    /// Where chunk `index` is, along the axes with the slowest first.
    fn position(&self, mut index: usize) -> Vec<usize> {
        let counts = self.counts();
        let mut at = vec![0; counts.len()];
        for axis in (0..counts.len()).rev() {
            at[axis] = index % counts[axis];
            index /= counts[axis];
        }
        at
    }

    /// The same with the slowest axis first, and back again.
    fn slow_first<T: Copy>(&self, along: &[T]) -> Vec<T> {
        match self.order {
            Order::C => along.to_vec(),
            Order::Fortran => along.iter().rev().copied().collect(),
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_directories_read_back() {
        assert_eq!(checkpoint_dir(120), "v000000000120.zarr");
        for version in [0, 7, 999_999_999_999, 1_000_000_000_000, u64::MAX] {
            assert_eq!(checkpoint_version(&checkpoint_dir(version)), Some(version));
            assert!(is_left_over(&partial_dir(version)) && is_left_over(&removing_dir(version)));
            assert!(!is_left_over(&checkpoint_dir(version)));
        }
        for name in ["v12.zarr", "v0000000000012.zarr", "v+00000000012.zarr", "latest.zarr", "v000000000012", "x"] {
            assert_eq!(checkpoint_version(name), None, "{name}");
        }
        for name in [".v12.zarr.partial", ".vx.zarr.removing", ".v000000000012.zarr", ".", ".partial"] {
            assert!(!is_left_over(name), "{name}");
        }
    }

    #[test]
    fn names_that_mean_something_else_are_escaped_and_no_two_meet() {
        let names = ["u", "zarr.json", "%7Aarr.json", "..", "__x", "_x", ".x", "ρ", "a%b", "manifest.json", "%", "%25"];
        let with_backslashes =
            [r"a\b", "a%5Cb", "%5Ca%5Cb", r"\a\b", r"\", r"\\", r"%\", r"__\", "__%5C", r"a\%5C", r"a\\", "ρ\\"];
        let names = [&names[..], &with_backslashes[..]].concat();
        let escaped: Vec<String> = names.iter().map(|name| escape(name)).collect();
        assert!(
            escaped.iter().all(|name| !name.contains(['\\', '/'])),
            "Zarr's readers take both for what parts paths"
        );
        assert_eq!(escaped[1], "%7Aarr.json");
        assert_eq!([&escaped[0], &escaped[5], &escaped[7], &escaped[8]], ["u", "_x", "ρ", "a%b"]);
        assert_eq!(escaped.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len(), "{escaped:?}");
    }

    #[test]
    fn chunks_begin_where_pages_do_when_they_can() {
        let grid = Grid::new(&[1000, 1000], Order::C, 8, 1 << 20);
        assert_eq!(grid.chunk_shape(), [128, 1000]);
        let grid = Grid::new(&[1 << 20], Order::C, 12, 1 << 20);
        assert_eq!(grid.chunk_bytes() % PAGE_BYTES, 0);
        let grid = Grid::new(&[5, 7, 1 << 22], Order::C, 4, 1 << 20);
        assert_eq!(grid.chunk_shape(), [1, 1, 1 << 18]);
        assert_eq!(grid.key(grid.chunks() - 1), "c.4.6.15");
        let grid = Grid::new(&[1 << 22, 7, 5], Order::Fortran, 4, 1 << 20);
        assert_eq!((grid.chunk_shape(), &*grid.key(1)), (&[1 << 18, 1, 1][..], "c.1.0.0"));
    }

    #[test]
    fn the_number_of_chunks_is_bounded_and_changes_are_told_by_shares_of_the_checkpoint() {
        for (gib, expected) in [(0, 1 << 19), (1, 1 << 19), (3, 1 << 20), (100, 1 << 25), (1 << 20, 1 << 25)] {
            assert_eq!(chunk_bytes(gib << 30), expected, "{gib} GiB");
        }
        for bytes in (30..37).flat_map(|power| [1u64 << power, (1 << power) + 7, (2 << power) - 1]) {
            let chunks = bytes.div_ceil(chunk_bytes(bytes) as u64);
            assert!((CHUNKS..=2 * CHUNKS).contains(&chunks), "{bytes} bytes in {chunks} chunks");
        }
    }

    #[test]
    fn arrays_without_axes_have_one_chunk_and_those_without_elements_none() {
        let grid = Grid::new(&[], Order::C, 8, 4096);
        assert_eq!((grid.chunks(), grid.range(0), grid.key(0)), (1, 0..8, "c".into()));
        let grid = Grid::new(&[3, 0, 2], Order::C, 8, 4096);
        assert_eq!((grid.chunks(), grid.chunk_shape(), grid.bytes()), (0, &[3, 1, 2][..], 0));
    }

    #[test]
    fn chunks_that_are_no_runs_are_refused() {
        assert!(Grid::of(&[4, 4], &[2, 2], Order::C, 8).is_none());
        assert!(Grid::of(&[4, 4], &[2, 4], Order::Fortran, 8).is_none());
        assert!(Grid::of(&[4, 4], &[4, 2], Order::Fortran, 8).is_some());
        assert!(Grid::of(&[4, 4], &[0, 4], Order::C, 8).is_none());
        assert!(Grid::of(&[4], &[4, 4], Order::C, 8).is_none());
        assert!(Grid::of(&[4], &[5], Order::C, 8).is_none());
        assert!(Grid::of(&[usize::MAX, 2], &[1, 2], Order::C, 8).is_none());
    }

    proptest! {
        #[test]
        fn chunks_follow_each_other_and_miss_nothing(
            shape in proptest::collection::vec(0usize..20, 0..5),
            fortran in any::<bool>(),
            element_bytes in 1usize..20,
            chunk_bytes in 1usize..10_000,
        ) {
            let order = if fortran { Order::Fortran } else { Order::C };
            let grid = Grid::new(&shape, order, element_bytes, chunk_bytes);
            prop_assert_eq!(Grid::of(&shape, grid.chunk_shape(), order, element_bytes), Some(grid.clone()));
            let mut end = 0;
            for index in 0..grid.chunks() {
                let range = grid.range(index);
                prop_assert_eq!(range.start, end);
                prop_assert!(range.len() <= grid.chunk_bytes() && !range.is_empty());
                prop_assert_eq!(grid.covering(range.clone()), index..index + 1);
                end = range.end;
            }
            prop_assert_eq!(end, grid.bytes());
            prop_assert_eq!(grid.covering(0..end), 0..grid.chunks());
            prop_assert!(grid.chunk_bytes() <= chunk_bytes.max(element_bytes));
        }
    }
}
