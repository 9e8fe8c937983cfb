//! What lies where in one buffer.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    dataset::{Dataset, LeafId},
    index_box::IndexBox,
    types::{ByteOrder, Layout, Type},
};

/// A buffer's content: which elements of a dataset's objects lie in it, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    dataset: Arc<Dataset>,
    /// What the buffer is to a program, in the order of the bytes; for `numpy.dtype` and for drawings.
    variables: Vec<Variable>,
    /// What the buffer is to the planner.
    parts: Vec<Part>,
    size_bytes: u64,
}

/// A typed array or record at a constant place of a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: Arc<str>,
    pub offset_bytes: u64,
    /// Its type in the fragment: local extents, fields in local order.
    pub kind: Type,
    pub layout: Layout,
}

/// Elements of one leaf that lie in a fragment at constant distances. Bytes of a fragment that belong to no part (holes
/// of a stride, padding of records) are never read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub leaf: LeafId,
    /// Which elements, in the index space of the leaf: one progression per axis.
    pub elements: IndexBox,
    /// Where the first of them lies, that with the lowest index along every axis of the leaf.
    pub offset_bytes: u64,
    /// Distance from one element of the progression to the next, per axis of the leaf; 0 where there is but one. It is
    /// negative where the fragment runs against the leaf (`d[i] = data[99 - i]`).
    pub strides_bytes: SmallVec<[i64; 4]>,
    pub byte_order: ByteOrder,
}
