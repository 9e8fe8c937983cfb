//! Objects, and the leaves they consist of.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::types::{DEPTH_MAX, Layout, Packing, Primitive, Type};

/// Objects of one namespace: what all fragments that are planned together are subsets of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dataset {
    objects: Vec<Object>,
    leaves: Vec<Leaf>,
    /// Positions of the objects.
    names: HashMap<Arc<str>, u32>,
}

/// One variable of a dataset, without a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// No other object of the dataset has it.
    pub name: Arc<str>,
    /// What it consists of.
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
    /// What each element is.
    pub primitive: Primitive,
    /// Extents of all arrays along the path, outermost first; empty for a scalar.
    pub extents: Vec<u64>,
}

/// A dataset of more leaves than this is refused: a few nested records can multiply to any number.
pub const LEAVES_MAX: u32 = 1 << 16;

/// Why objects are no dataset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatasetError {
    /// Two objects have one name.
    #[error("two objects are named `{name}`; give one of them another name")]
    TwoNames {
        /// Its name.
        name: Arc<str>,
    },
    /// Two fields of one record have one name.
    #[error("two fields of a record in `{object}` are named `{field}`; give one of them another name")]
    TwoFields {
        /// Name of the object.
        object: Arc<str>,
        /// Name of the field.
        field: Arc<str>,
    },
    /// An array of no elements, a string of no bytes, or a record of no fields.
    #[error("`{object}` has an array of no elements or a record of no fields; each needs at least one")]
    Empty {
        /// Name of the object.
        object: Arc<str>,
    },
    /// Arrays and records in each other deeper than [`DEPTH_MAX`].
    #[error("`{object}` nests arrays and records deeper than {DEPTH_MAX}")]
    TooDeep {
        /// Name of the object.
        object: Arc<str>,
    },
    /// More bytes than offsets can be computed with.
    #[error("`{object}` takes more than 2^63 - 1 bytes")]
    TooLarge {
        /// Name of the object.
        object: Arc<str>,
    },
    /// More leaves than [`LEAVES_MAX`].
    #[error("up to `{object}` the dataset has more than {LEAVES_MAX} leaves; split it")]
    TooManyLeaves {
        /// Name of the object.
        object: Arc<str>,
    },
}

impl Dataset {
    /// A dataset of these objects; their leaves are numbered in this order.
    pub fn new(objects: Vec<Object>) -> Result<Self, DatasetError> {
        let mut dataset = Self { objects: Vec::new(), leaves: Vec::new(), names: HashMap::new() };
        for object in objects {
            dataset.add(object)?;
        }
        Ok(dataset)
    }

    fn add(&mut self, object: Object) -> Result<(), DatasetError> {
        let name = || object.name.clone();
        let position = self.objects.len() as u32;
        if self.names.contains_key(&object.name) {
            return Err(DatasetError::TwoNames { name: name() });
        }
        let mut leaves_left = LEAVES_MAX - self.leaves.len() as u32;
        check(&object.name, &object.kind, DEPTH_MAX, &mut leaves_left)?;
        // Aligned records are the largest, and every layout of an object has to have a size.
        let largest = Layout { packing: Packing::Aligned, ..Layout::default() };
        largest.size_bytes(&object.kind).ok_or_else(|| DatasetError::TooLarge { object: name() })?;
        collect(&object.kind, position, &mut Vec::new(), &mut Vec::new(), &mut self.leaves);
        self.names.insert(object.name.clone(), position);
        self.objects.push(object);
        Ok(())
    }

    /// All objects, as they were declared.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The object of a name, and its position.
    pub fn object(&self, name: &str) -> Option<(u32, &Object)> {
        let position = *self.names.get(name)?;
        Some((position, &self.objects[position as usize]))
    }

    /// All leaves; `LeafId(n)` is the n-th.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The leaf of a number, if there are so many.
    pub fn leaf(&self, id: LeafId) -> Option<&Leaf> {
        self.leaves.get(id.0 as usize)
    }

    /// The leaves of an object, by its position.
    pub fn leaves_of(&self, object: u32) -> impl DoubleEndedIterator<Item = (LeafId, &Leaf)> + ExactSizeIterator {
        let start = self.leaves.partition_point(|leaf| leaf.object < object);
        let end = self.leaves.partition_point(|leaf| leaf.object <= object);
        (start..end).map(|leaf| (LeafId(leaf as u32), &self.leaves[leaf]))
    }

    /// What people call a leaf: `mesh.rho`.
    pub fn leaf_name(&self, id: LeafId) -> String {
        let Some(leaf) = self.leaf(id) else { return format!("leaf {}", id.0) };
        let mut name = self.objects[leaf.object as usize].name.to_string();
        for field in &leaf.path {
            name.push('.');
            name.push_str(field);
        }
        name
    }
}

impl Leaf {
    /// How many elements it has. A dataset holds no leaf whose bytes would not fit an `i64`.
    pub fn elements(&self) -> u64 {
        self.extents.iter().product()
    }
}

/// Refuses what is no type of an object. It ends early where there are too many leaves: types that share their parts can
/// have more of them than anybody can count.
fn check(object: &Arc<str>, kind: &Type, depth_left: usize, leaves_left: &mut u32) -> Result<(), DatasetError> {
    let empty = || DatasetError::Empty { object: object.clone() };
    let deeper = || depth_left.checked_sub(1).ok_or_else(|| DatasetError::TooDeep { object: object.clone() });
    match kind {
        Type::Primitive(primitive) if primitive.size_bytes() == 0 => Err(empty()),
        Type::Primitive(_) => {
            *leaves_left =
                leaves_left.checked_sub(1).ok_or_else(|| DatasetError::TooManyLeaves { object: object.clone() })?;
            Ok(())
        }
        Type::Array(array) if array.extents.is_empty() || array.extents.contains(&0) => Err(empty()),
        Type::Array(array) => check(object, &array.element, deeper()?, leaves_left),
        Type::Record(record) if record.fields().is_empty() => Err(empty()),
        Type::Record(record) => {
            let mut names = HashSet::new();
            for field in record.fields() {
                if !names.insert(&field.name) {
                    return Err(DatasetError::TwoFields { object: object.clone(), field: field.name.clone() });
                }
                check(object, &field.kind, deeper()?, leaves_left)?;
            }
            Ok(())
        }
    }
}

fn collect(kind: &Type, object: u32, path: &mut Vec<Arc<str>>, extents: &mut Vec<u64>, leaves: &mut Vec<Leaf>) {
    match kind {
        Type::Primitive(primitive) => {
            leaves.push(Leaf { object, path: path.clone(), primitive: *primitive, extents: extents.clone() });
        }
        Type::Array(array) => {
            extents.extend(&array.extents);
            collect(&array.element, object, path, extents, leaves);
            extents.truncate(extents.len() - array.extents.len());
        }
        Type::Record(record) => {
            for field in record.fields() {
                path.push(field.name.clone());
                collect(&field.kind, object, path, extents, leaves);
                path.pop();
            }
        }
    }
}
