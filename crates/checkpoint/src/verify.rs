//! Whether a checkpoint is what was written.
