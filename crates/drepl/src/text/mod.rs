//! From characters to a syntax tree: no name has a meaning here yet.

mod cursor;
pub mod diagnostic;
pub mod loader;
pub(crate) mod parser;
pub(crate) mod source;
pub(crate) mod syntax;
pub(crate) mod token;
