//! One checkpoint, opened.
