//! A checkpoint put back into memory.
