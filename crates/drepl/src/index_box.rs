//! Sets of elements of one leaf: boxes with strides, and their unions.

use smallvec::SmallVec;

use crate::progression::Progression;

/// The product of one progression per axis of a leaf. Without axes it is the one element of a scalar.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct IndexBox {
    axes: SmallVec<[Progression; 4]>,
}

/// A set of elements of one leaf: boxes that share no element.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct IndexSet {
    boxes: Vec<IndexBox>,
}
