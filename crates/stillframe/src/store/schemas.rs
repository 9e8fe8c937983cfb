//! Schema files.

use crate::error::{Error, Result};
use crate::place::directory::Directory;
use crate::place::names::schema_file;
use std::io::Read;
use stillframe_segment::{Corrupt, Schema, schema};

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
