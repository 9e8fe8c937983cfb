//! `manifest.json`: what restoring a checkpoint needs to know.

use crate::layout::Grid;
use crate::{Error, Result, layout};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use std::path::Path;
use stillframe::{Attributes, DType, Order, Part};

/// What the manifest says that it is.
pub const FORMAT: &str = "stillframe-checkpoint";
/// The version of the format that this program writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// The manifest of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The region or group.
    pub region: String,
    /// Number of ranks, if it is a group.
    pub ranks: Option<u32>,
    /// The version.
    pub version: u64,
    /// The run that published it, which no other has the number of; `None` if that is not known.
    #[serde(default)]
    pub run: Option<NonZeroU64>,
    /// When it was published, in nanoseconds since 1970; of a group, when the last rank did.
    pub published_ns: u64,
    /// When it was saved, in nanoseconds since 1970.
    pub saved_ns: u64,
    /// The version's attributes; of a group, those of rank 0.
    #[serde(with = "attributes")]
    pub attributes: Attributes,
    /// The version's attributes by rank, if it is a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "attributes_list")]
    pub rank_attributes: Vec<Attributes>,
    /// When each rank published it, in nanoseconds since 1970, if it is a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rank_published_ns: Vec<u64>,
    /// Inode of the checkpoint's directory, and when that was made in nanoseconds since 1970, if the file system knows. Where they
    /// are others, it is a copy, of which nobody knows whether it is on disk.
    #[serde(default)]
    pub directory: Option<(u64, u64)>,
    /// The version of the checkpoint that unchanged chunks are shared with.
    pub previous: Option<u64>,
    /// Bytes of all variables.
    pub bytes: u64,
    /// Bytes of the files that are hard links to those of the checkpoint before.
    pub linked_bytes: u64,
    /// Number of files, without the manifest and its checksum.
    pub files: u64,
    /// The checksums of these files.
    pub checksums: Checksums,
    /// The variables, in the order of ranks and of their declaration.
    pub variables: Vec<Variable>,
}

/// Where the checksums of a checkpoint are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checksums {
    /// `xxh128`.
    pub algorithm: String,
    /// The file.
    pub file: String,
    /// The checksum of that file, as hexadecimal digits.
    pub digest: String,
}

/// A variable of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    /// The rank, if it is a group's.
    pub rank: Option<u32>,
    /// The name.
    pub name: String,
    /// The array's directory in the checkpoint.
    pub path: String,
    /// Type of the elements.
    #[serde(with = "dtype")]
    pub dtype: DType,
    /// Order of the elements.
    pub order: Order,
    /// Unit of measurement, empty if there is none.
    pub units: String,
    /// The variable's attributes.
    #[serde(with = "attributes")]
    pub attributes: Attributes,
    /// Extents.
    pub shape: Vec<usize>,
    /// Extents of a chunk.
    pub chunk_shape: Vec<usize>,
    /// How chunks are stored.
    pub codec: CodecName,
    /// Which part of a global array it is, if it is one.
    #[serde(with = "part")]
    pub part: Option<Part>,
}

/// How the chunks of a variable are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodecName {
    /// As they are in memory.
    Bytes,
    /// Zarr's codec `zstd`.
    Zstd,
    /// Zarr's codec `blosc` with lz4.
    Lz4,
}

impl Variable {
    /// How the array is cut into chunks.
    ///
    /// # Errors
    /// What is wrong with the extents, if they cannot be.
    pub fn grid(&self) -> Result<Grid, String> {
        let grid = Grid::of(&self.shape, &self.chunk_shape, self.order, self.dtype.bytes());
        grid.ok_or_else(|| format!("chunks of {:?} do not cut {:?} into runs", self.chunk_shape, self.shape))
    }

    /// The file of chunk `index`, in the checkpoint.
    pub fn chunk_path(&self, grid: &Grid, index: usize) -> String {
        format!("{}/{}", self.path, grid.key(index))
    }
}

impl Manifest {
    /// The text of the manifest's file.
    pub fn encode(&self) -> String {
        // Neither names nor numbers can fail to become JSON.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads the text of the manifest at `file`.
    ///
    /// # Errors
    /// [`Error::ForeignFormat`] if it is of another format; [`Error::Damaged`] with what makes no sense in it.
    pub fn decode(file: &Path, text: &[u8]) -> Result<Manifest> {
        #[derive(Deserialize)]
        struct Kind {
            format: String,
            format_version: u32,
        }
        let damaged = |why: String| Error::Damaged { path: file.into(), why };
        // First what it is, for nothing else can be expected of another format.
        let kind: Kind = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        if kind.format != FORMAT || kind.format_version != FORMAT_VERSION {
            return Err(Error::ForeignFormat {
                path: file.into(),
                found: format!("{} {}", kind.format, kind.format_version),
                known: format!("{FORMAT} {FORMAT_VERSION}"),
            });
        }
        let manifest: Manifest = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        manifest.check().map_err(damaged)?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if self.checksums.algorithm != "xxh128" || self.checksums.file != layout::CHECKSUMS {
            return Err(format!("checksums '{}' in '{}' are unknown", self.checksums.algorithm, self.checksums.file));
        }
        let ranks = self.ranks.map_or(0, |ranks| ranks as usize);
        if self.rank_attributes.len() != ranks || self.rank_published_ns.len() != ranks {
            return Err(format!("it tells of {ranks} ranks, and not of each of them"));
        }
        let mut paths = std::collections::BTreeSet::new();
        for variable in &self.variables {
            let name = &variable.name;
            if variable.rank.is_some() != self.ranks.is_some()
                || variable.rank.is_some_and(|rank| rank as usize >= ranks)
            {
                return Err(format!("variable '{name}' is of a rank that there is not"));
            }
            // A path that is made of the name leads nowhere else.
            let is_its_path =
                variable.path == array_path(variable.rank, name) || variable.path == plain_path(variable.rank, name);
            if name.contains('/') || name.is_empty() || !is_its_path {
                return Err(format!("variable '{name}' cannot be in '{}'", variable.path));
            }
            if !paths.insert(&variable.path) {
                return Err(format!("variable '{name}' is there twice"));
            }
            // No region has it otherwise, and programs in other languages have room for so many dimensions.
            variable.dtype.array_bytes(&variable.shape).map_err(|why| format!("variable '{name}': {why}"))?;
            variable.grid().map_err(|why| format!("variable '{name}': {why}"))?;
            if let Some(part) = &variable.part {
                part.check(&variable.shape).map_err(|why| format!("variable '{name}': {why}"))?;
            }
        }
        Ok(())
    }
}

/// The directory of an array in its checkpoint.
pub fn array_path(rank: Option<u32>, name: &str) -> String {
    path_of(rank, layout::escape(name))
}

/// The directory of an array as older writers called it, where its name has a backslash.
fn plain_path(rank: Option<u32>, name: &str) -> String {
    path_of(rank, if name.contains('\\') { name.into() } else { layout::escape(name) })
}

fn path_of(rank: Option<u32>, directory: String) -> String {
    rank.map_or(directory.clone(), |rank| format!("{rank}/{directory}"))
}

/// A type of elements as its text.
mod dtype {
    use super::*;

    pub fn serialize<S: serde::Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&dtype.to_text())
    }

    pub fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<DType, D::Error> {
        let text = String::deserialize(from)?;
        DType::from_text(&text).map_err(serde::de::Error::custom)
    }
}

/// A part, as an object of its own.
mod part {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Fields {
        offset: Vec<usize>,
        global_shape: Vec<usize>,
    }

    pub fn serialize<S: serde::Serializer>(part: &Option<Part>, to: S) -> Result<S::Ok, S::Error> {
        let fields = |part: &Part| Fields { offset: part.offset.clone(), global_shape: part.global_shape.clone() };
        part.as_ref().map(fields).serialize(to)
    }

    pub fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Part>, D::Error> {
        let fields: Option<Fields> = Option::deserialize(from)?;
        Ok(fields.map(|Fields { offset, global_shape }| Part { offset, global_shape }))
    }
}

/// Attributes as JSON, which has no numbers that are none or infinite: those are objects, as in `{"float":"nan"}`.
mod attributes {
    use super::*;
    use std::collections::BTreeMap;
    use stillframe::Scalar;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    pub enum Value {
        NotFinite { float: String },
        Plain(Scalar),
    }

    pub fn encode(attributes: &Attributes) -> BTreeMap<&str, Value> {
        let value = |scalar: &Scalar| match scalar {
            Scalar::Float(value) if !value.is_finite() => Value::NotFinite { float: value.to_string() },
            plain => Value::Plain(plain.clone()),
        };
        attributes.iter().map(|(name, scalar)| (name.as_str(), value(scalar))).collect()
    }

    pub fn decode<E: serde::de::Error>(values: BTreeMap<String, Value>) -> Result<Attributes, E> {
        let scalar = |value| match value {
            Value::NotFinite { float } => float.parse().map(Scalar::Float).map_err(E::custom),
            Value::Plain(scalar) => Ok(scalar),
        };
        values.into_iter().map(|(name, value)| Ok((name, scalar(value)?))).collect()
    }

    pub fn serialize<S: serde::Serializer>(attributes: &Attributes, to: S) -> Result<S::Ok, S::Error> {
        encode(attributes).serialize(to)
    }

    pub fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Attributes, D::Error> {
        decode(BTreeMap::deserialize(from)?)
    }
}

/// Attributes of several ranks.
mod attributes_list {
    use super::*;

    pub fn serialize<S: serde::Serializer>(list: &[Attributes], to: S) -> Result<S::Ok, S::Error> {
        list.iter().map(attributes::encode).collect::<Vec<_>>().serialize(to)
    }

    pub fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Attributes>, D::Error> {
        Vec::deserialize(from)?.into_iter().map(attributes::decode).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use stillframe::RANK_MAX;

    /// Reads a manifest of one variable, which is one chunk.
    fn decode(name: &str, path: &str, shape: &[usize]) -> Result<()> {
        let variable = json!({
            "rank": null, "name": name, "path": path, "dtype": "float64", "order": "c", "units": "", "attributes": {},
            "shape": shape, "chunk_shape": shape, "codec": "bytes", "part": null,
        });
        let text = json!({
            "format": FORMAT, "format_version": FORMAT_VERSION, "region": "r", "ranks": null, "version": 1,
            "published_ns": 0, "saved_ns": 0, "attributes": {}, "previous": null, "bytes": 32, "linked_bytes": 0,
            "files": 1, "checksums": { "algorithm": "xxh128", "file": layout::CHECKSUMS, "digest": "" },
            "variables": [variable],
        });
        Manifest::decode(Path::new(layout::MANIFEST), text.to_string().as_bytes()).map(drop)
    }

    #[test]
    fn variables_of_more_dimensions_or_bytes_than_a_region_can_have_are_damages() {
        assert!(decode("u", "u", &[1; RANK_MAX]).is_ok());
        for (shape, why) in [
            (vec![1; RANK_MAX + 1], "variable 'u': 9 dimensions are more than 8"),
            (vec![1 << 50], "variable 'u': [1125899906842624] elements of float64 are too many"),
        ] {
            let refused = decode("u", "u", &shape).unwrap_err();
            assert!(matches!(refused, Error::Damaged { .. }) && refused.to_string().contains(why), "{refused}");
        }
    }

    #[test]
    fn a_variable_lies_where_its_name_leads_in_this_version_or_an_older_one() {
        let decode = |name: &str, path: &str| decode(name, path, &[4]);
        for (name, path) in [("u", "u"), (".x", "%2Ex"), (r"a\b", "%5Ca%5Cb"), (r"a\b", r"a\b")] {
            assert!(decode(name, path).is_ok(), "{name} in {path}: {:?}", decode(name, path));
        }
        for (name, path) in [("u", "v"), (".x", ".x"), (r"..\b", "../b"), (r"a\b", "a%5Cb"), ("a/b", "a/b")] {
            assert!(decode(name, path).is_err(), "{name} in {path}");
        }
    }
}
