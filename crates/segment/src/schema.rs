//! The `schema.N` files: what the variables of a region mean.
//!
//! A schema changes only when a variable is added or removed; shapes and places may change with every version and live
//! in its [manifest](crate::manifest). Each version names the schema it was published under.

use crate::{Corrupt, DType, Order, Scalar};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Start of the files' names; the schema's number in decimal follows.
pub const FILE_PREFIX: &str = "schema.";
/// Largest schema file a reader accepts.
pub const BYTES_MAX: usize = 64 << 20;
/// Numbers of schemas and of variables are below this, so that a producer can count on from any it finds.
pub const ID_END: u32 = 1 << 31;

/// The variables a version was published with.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Schema {
    /// In the order in which they were added.
    pub variables: Vec<Variable>,
}

/// What a variable means, whatever its shape and content are in a version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    /// Number of the variable in its region, never given again.
    pub id: u32,
    /// Name, unique among the variables of a schema.
    pub name: String,
    /// Type of the elements.
    pub dtype: DType,
    /// Order of the elements in memory.
    pub order: Order,
    /// Unit of measurement, as free text; empty when there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub units: String,
    /// Anything else the program wants to say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Scalar>,
}

impl Schema {
    /// The schema as the JSON text of its file.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    /// Reads the text of the schema file called `file`.
    pub fn decode(file: &str, bytes: &[u8]) -> Result<Schema, Corrupt> {
        let schema: Schema = serde_json::from_slice(bytes).map_err(|error| {
            let offset = line_start(bytes, error.line()) + error.column().saturating_sub(1);
            Corrupt::new(file, offset, "a schema in JSON", error)
        })?;
        let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
        for variable in &schema.variables {
            if !ids.insert(variable.id) || !names.insert(&variable.name) {
                return Err(Corrupt::new(file, 0, "variables with names and ids of their own", &variable.name));
            }
            if variable.id >= ID_END {
                return Err(Corrupt::new(file, 0, format!("an id below {ID_END}"), variable.id));
            }
        }
        Ok(schema)
    }

    /// The variable called `name`.
    pub fn find(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|variable| variable.name == name)
    }
}

fn line_start(bytes: &[u8], line: usize) -> usize {
    let newlines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| index + 1);
    newlines.take(line.saturating_sub(1)).last().unwrap_or(0)
}
