//! The index of a region of an arena: the page behind its head that says where its tables, schemas and planes lie.
//!
//! In a directory files have names. In an arena the index says which pages the blocks of `tables` lie in, which blocks hold
//! a schema, and which chunk holds a window of a plane. All numbers are little-endian.

use crate::PAGE_BYTES;

/// Length of the index.
pub const INDEX_BYTES: usize = PAGE_BYTES;
/// Offset of the number of extents of the tables, 4 bytes, *changing*.
pub const EXTENTS_AT: usize = 0;
/// Offset of the first extent: 4 bytes for its first page in the arena, 4 for the number of pages.
pub const EXTENT_AT: usize = 8;
/// Most extents. Each is at least half as long as all before it, so that they suffice.
pub const EXTENTS_MAX: usize = 127;
/// Offset of the first schema.
pub const SCHEMAS_AT: usize = 1024;
/// Bytes of a schema's entry: number, first block, length in bytes and CRC-32, 4 bytes each. Number 0 is none.
pub const SCHEMA_BYTES: usize = 16;
/// Most schemas at once: one for each version, and the next one's.
pub const SCHEMAS_MAX: usize = 96;
/// Offset of the planes' maps: for each plane 4 bytes, the first page of its map, or 0.
pub const PLANES_AT: usize = 2560;
/// Offset of the maps of planes that have none of their own: 4 bytes for each of the first windows of the first planes.
pub const INLINE_AT: usize = 3576;
/// Planes that have a map inside the index at first.
pub const INLINE_PLANES: usize = 8;
/// Windows of such a map.
pub const INLINE_WINDOWS: usize = 16;

/// Offset of the word that says in which chunk a window of a plane lies (the chunk's number + 1, or 0), in the index.
pub const fn inline_at(plane: usize, window: usize) -> usize {
    INLINE_AT + 4 * (plane * INLINE_WINDOWS + window)
}
