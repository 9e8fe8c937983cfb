//! From tokens to the syntax tree.

use super::{diagnostic::Diagnostics, loader::Loader, syntax::Syntax};

/// Reads a text and what it includes.
pub fn parse(name: &str, text: &str, loader: &mut dyn Loader) -> Result<Syntax, Diagnostics> {
    let _ = (name, text, loader);
    todo!()
}
