//! Conditions over attributes of versions.
