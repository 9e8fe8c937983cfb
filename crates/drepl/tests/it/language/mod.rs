//! The language: what each construct means, and what is said about each mistake.

mod constructs;
mod garbage;
mod mistakes;
mod model;
mod reading;
mod specification;
mod texts;
