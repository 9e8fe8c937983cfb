//! Objects, and the leaves they consist of.

use std::sync::Arc;

use crate::types::{Primitive, Type};

/// Objects of one namespace: what all fragments that are planned together are subsets of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    objects: Vec<Object>,
    leaves: Vec<Leaf>,
}

/// One variable of a dataset, without a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub name: Arc<str>,
    pub kind: Type,
}

/// Number of a leaf within its dataset, in the order of declaration, depth first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct LeafId(pub u32);

/// All elements of one primitive that an object reaches by one path of fields: `mesh.flux` of
/// `var mesh [N,N]Cell` with `type Cell struct { rho float64; flux [3]float64 }` is a leaf of shape `[N,N,3]`.
///
/// The planner knows nothing but leaves. Arrays of structures, structures of arrays and files differ only in where the
/// elements of their leaves lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Position of its object in the dataset.
    pub object: u32,
    /// Fields from the object down to the leaf; empty where the object has no records.
    pub path: Vec<Arc<str>>,
    pub primitive: Primitive,
    /// Extents of all arrays along the path, outermost first; empty for a scalar.
    pub extents: Vec<u64>,
}
