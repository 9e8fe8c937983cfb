//! Messages at random, and one of each kind that is always the same.
#![allow(dead_code)]

pub mod maker;
pub mod samples;
