//! What no message goes beyond.

/// The longest body, in bytes.
pub const BODY_BYTES_MAX: usize = 16 << 20;
/// The longest text of a fragment, in bytes: as of an object's.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// The longest name of an object, a job, a host or a number of a text, and the longest reason for people, in bytes.
pub const NAME_BYTES_MAX: usize = 4096;
/// The most axes that a box or a move has. Layouts of more cannot be written down: types nest 64 deep.
pub const AXES_MAX: usize = u8::MAX as usize;
/// The most ranks that a group has.
pub const RANKS_MAX: u32 = 1 << 16;
/// Comparisons of boxes that the sets of one message may take, some tenths of a second's work. Boxes that are blocks take one each.
pub const COMPARISONS_MAX: u64 = 1 << 24;
/// Bytes of memory that decoding takes at most, for each byte of the body.
pub const MEMORY_FACTOR: usize = 16;
