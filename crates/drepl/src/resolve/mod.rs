//! From a syntax tree and numbers for its names to objects, fragments and replicas.

use crate::{
    bindings::Bindings,
    schema::{Schema, View},
    text::{diagnostic::Diagnostics, syntax::Syntax},
};

/// Everything a text describes.
pub fn schema(syntax: &Syntax, bindings: &Bindings) -> Result<Schema, Diagnostics> {
    let _ = (syntax, bindings);
    todo!()
}

/// One more view of a schema's objects, from a text of its own.
pub fn view(schema: &Schema, text: &str, bindings: &Bindings) -> Result<View, Diagnostics> {
    let _ = (schema, text, bindings);
    todo!()
}
