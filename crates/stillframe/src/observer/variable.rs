//! A variable as it is in one version.

use crate::element;
use crate::variable::Attributes;
use std::sync::{Arc, OnceLock};
use stillframe_kernel::map::Mapping;
use stillframe_segment::{DType, Extent, Order};

/// A variable as it is in one version.
#[derive(Debug)]
pub struct VariableView {
    /// Name.
    pub name: String,
    /// Type of the elements.
    pub dtype: DType,
    /// Order of the elements in memory.
    pub order: Order,
    /// Unit of measurement, empty if there is none.
    pub units: String,
    /// The variable's attributes.
    pub attributes: Attributes,
    /// The shape in this version.
    pub shape: Vec<usize>,
    /// Number of bytes.
    pub bytes: usize,
    pub(crate) extent: Extent,
    pub(crate) contiguous: OnceLock<Contiguous>,
}

impl VariableView {
    /// Distance in bytes between neighbours along each dimension.
    pub fn strides(&self) -> Vec<usize> {
        element::strides(&self.dtype, &self.shape, self.order)
    }
}

/// All bytes of a variable at neighbouring addresses: in a map of a plane, in one made of pieces of several, or in a copy.
#[derive(Debug)]
pub(crate) struct Contiguous {
    pub(crate) map: Arc<Mapping>,
    pub(crate) offset: usize,
    /// Whether all of the map is this process's own memory.
    pub(crate) is_copy: bool,
}
