//! Schema files, and what they say of the variables of a version.

use crate::element;
use crate::error::{Error, Result};
use crate::place::directory::Directory;
use crate::place::names::schema_file;
use std::io::Read;
use stillframe_segment::{Corrupt, Extent, Schema, Variable, manifest, schema, table};

/// Reads a schema file.
pub(crate) fn read_schema(directory: &Directory, number: u32) -> Result<Schema> {
    let name = schema_file(number);
    let path = directory.path().join(&name);
    let corrupt = |corrupt| Error::Corrupt { dir: directory.path().into(), corrupt };
    let opened = directory.file(&name)?;
    let (file, about) = opened.ok_or_else(|| corrupt(Corrupt::new(&name, 0, "a schema", "no such file")))?;
    let mut bytes = Vec::with_capacity((about.bytes as usize).min(schema::BYTES_MAX) + 1);
    let mut limited = file.take(schema::BYTES_MAX as u64 + 1);
    limited.read_to_end(&mut bytes).map_err(|error| Error::io("read", &path, error))?;
    if bytes.len() > schema::BYTES_MAX {
        let expected = format!("at most {} bytes", schema::BYTES_MAX);
        return Err(corrupt(Corrupt::new(&name, schema::BYTES_MAX, expected, "more")));
    }
    Schema::decode(&name, &bytes).map_err(corrupt)
}

/// What the schema says of the variable whose record lies at byte `at` of `tables`, if the two fit together.
pub(crate) fn find_meta<'a>(schema: &'a Schema, extent: &Extent, at: usize) -> Result<&'a Variable, Corrupt> {
    let meta = schema.variables.iter().find(|variable| variable.id == extent.variable);
    let meta = meta.ok_or_else(|| Corrupt::new(table::FILE, at, "a variable of the schema", extent.variable))?;
    let shape: Vec<usize> = extent.shape.iter().map(|n| *n as usize).collect();
    if element::array_bytes(&meta.dtype, &shape) != Ok(extent.bytes as usize) {
        let expected = format!("the bytes of {shape:?} elements of {}", meta.dtype);
        return Err(Corrupt::new(table::FILE, at + manifest::BYTES_AT, expected, extent.bytes));
    }
    Ok(meta)
}
