//! The values of keys: written, and read as what anybody may have put there.

use crate::keys::NAME_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use stillframe_object::Description;
use stillframe_object::description::TEXT_BYTES_MAX;
use stillframe_roster::writer::Node;

/// The longest value. etcd takes requests of at most 1.5 MiB, in which there is also the key.
pub const VALUE_BYTES_MAX: usize = (3 << 19) - (64 << 10);

/// The longest value of a key that is not an object's.
const SMALL_BYTES_MAX: usize = 4096;

/// Longest name and longest address of a node, in bytes.
pub const NODE_NAME_BYTES_MAX: usize = 255;

/// Most numbers that a node had before. While a home decides, what it says names no node by a number of before for long.
pub const FORMER_MAX: usize = 64;

/// What stands in the first line of an object's value; its text follows as it is.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    id: NonZeroU64,
    #[serde(default)]
    initial: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    bindings: BTreeMap<String, i64>,
}

/// Writes the description of an object: a line of JSON, and its text.
///
/// # Errors
/// Why it cannot be kept.
pub fn write_description(name: &str, description: &Description) -> Result<Vec<u8>, String> {
    let Description { text, bindings, initial, id } = description;
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(format!("its name has {} bytes, and may have 1 to {NAME_BYTES_MAX}", name.len()));
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("it has {} bytes, and at most {TEXT_BYTES_MAX} are read", text.len()));
    }
    let head = Head { id: *id, initial: *initial, bindings: bindings.clone() };
    let mut value = serde_json::to_vec(&head).map_err(|error| error.to_string())?;
    value.push(b'\n');
    value.extend_from_slice(text.as_bytes());
    if value.len() > VALUE_BYTES_MAX {
        return Err(format!("with its bindings it has {} bytes, and at most {VALUE_BYTES_MAX} are kept", value.len()));
    }
    Ok(value)
}

/// Reads the description of an object.
///
/// # Errors
/// What is wrong with it.
pub fn read_description(value: &[u8]) -> Result<Description, String> {
    check_length(value, VALUE_BYTES_MAX)?;
    let end = value.iter().position(|byte| *byte == b'\n').ok_or("it has no first line")?;
    let head: Head = serde_json::from_slice(&value[..end]).map_err(|error| format!("its first line: {error}"))?;
    let text = std::str::from_utf8(&value[end + 1..]).map_err(|error| format!("its text is no UTF-8: {error}"))?;
    check_length(text.as_bytes(), TEXT_BYTES_MAX)?;
    Ok(Description { text: text.into(), bindings: head.bindings, initial: head.initial, id: head.id })
}

/// What others know of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeInfo {
    /// Its name for people, as the machine is called.
    pub name: String,
    /// Where its runtime listens, as it says.
    pub address: String,
    /// A number by chance, which tells one start of a runtime from every other: also from those that etcd gave the same number when it
    /// had lost its data.
    pub incarnation: u64,
    /// A number by chance that belongs to its directory of regions: a node with the same one is this one's runtime, started again. Of a node
    /// of the same name with another one, what this one had in its memory is gone.
    pub memory: u64,
    /// Numbers that earlier runtimes of the same memory had, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<u32>,
}

impl NodeInfo {
    /// What is wrong with it.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (what, text) in [("name", &self.name), ("address", &self.address)] {
            if text.is_empty() || text.len() > NODE_NAME_BYTES_MAX || text.chars().any(char::is_control) {
                let bytes = text.len();
                return Err(format!(
                    "its {what} has {bytes} bytes: it may have 1 to {NODE_NAME_BYTES_MAX}, and no control characters"
                ));
            }
        }
        match self.former.len() {
            many if many > FORMER_MAX => {
                Err(format!("it had {many} numbers before, and at most {FORMER_MAX} are read"))
            }
            _ => Ok(()),
        }
    }
}

/// Writes what others know of a node.
pub fn write_node(info: &NodeInfo) -> Vec<u8> {
    // Strings and a number: it cannot fail.
    serde_json::to_vec(info).unwrap_or_default()
}

/// Reads what a node says of itself.
///
/// # Errors
/// What is wrong with it.
pub fn read_node(value: &[u8]) -> Result<NodeInfo, String> {
    let info: NodeInfo = read_small(value)?;
    info.check()?;
    Ok(info)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HomeValue {
    node: u32,
}

/// Writes who is a home.
pub fn write_home(node: Node) -> Vec<u8> {
    serde_json::to_vec(&HomeValue { node: node.0 }).unwrap_or_default()
}

/// Reads who is a home.
///
/// # Errors
/// What is wrong with it.
pub fn read_home(value: &[u8]) -> Result<Node, String> {
    read_small::<HomeValue>(value).map(|home| Node(home.node))
}

/// One life of etcd's data. Terms are counted from its base, so that those of a later life are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    /// What is added to revisions of etcd to have terms: microseconds since 1970 when the epoch began, or more.
    pub base: u64,
    /// A number by chance.
    pub id: u64,
}

/// Bases and revisions stay below this, so that no sum of them is too large.
pub(crate) const TERM_MAX: u64 = 1 << 62;

/// Writes an epoch.
pub fn write_epoch(epoch: &Epoch) -> Vec<u8> {
    serde_json::to_vec(epoch).unwrap_or_default()
}

/// Reads an epoch.
///
/// # Errors
/// What is wrong with it.
pub fn read_epoch(value: &[u8]) -> Result<Epoch, String> {
    let epoch: Epoch = read_small(value)?;
    if epoch.base >= TERM_MAX {
        return Err(format!("its base is {}, and has to be below {TERM_MAX}", epoch.base));
    }
    Ok(epoch)
}

/// Reads from where on nodes are counted.
///
/// # Errors
/// What is wrong with it.
pub fn read_counter(value: &[u8]) -> Result<u32, String> {
    read_small(value)
}

fn read_small<'a, T: Deserialize<'a>>(value: &'a [u8]) -> Result<T, String> {
    check_length(value, SMALL_BYTES_MAX)?;
    serde_json::from_slice(value).map_err(|error| error.to_string())
}

fn check_length(value: &[u8], limit: usize) -> Result<(), String> {
    match value.len() {
        bytes if bytes > limit => Err(format!("it has {bytes} bytes, and at most {limit} are read")),
        _ => Ok(()),
    }
}
