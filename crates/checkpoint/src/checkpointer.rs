//! The running observer that saves versions as they come.
