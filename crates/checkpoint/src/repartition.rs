//! Restart with another number of ranks.
