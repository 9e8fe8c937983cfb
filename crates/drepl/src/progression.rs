//! Indices along one axis: arithmetic progressions, which are all that affine index expressions can name.

/// The indices `start`, `start + step`, ... of which there are `count`.
///
/// In canonical form `step >= 1`, `count >= 1`, and `step` is 1 where `count` is; equal sets are then equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Progression {
    start: u64,
    step: u64,
    count: u64,
}
