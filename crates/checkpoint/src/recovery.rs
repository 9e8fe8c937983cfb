//! Create or recover.
