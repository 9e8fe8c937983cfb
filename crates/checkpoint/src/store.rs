//! The checkpoints of a directory.
