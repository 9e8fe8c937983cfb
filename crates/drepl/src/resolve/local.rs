//! What lies in a view, leaf by leaf: how large it is, and where.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{affine::Link, left::LeftAxis};
use crate::{
    dataset::LeafId,
    fragment::Part,
    index_box::IndexBox,
    types::{ByteOrder, Field, Layout, Placement, Primitive, Record, Type, strides},
};

/// What lies in the view.
#[derive(Debug)]
pub enum Local {
    Array { axes: SmallVec<[usize; 4]>, element: Box<Self> },
    Record { name: Option<Arc<str>>, fields: Vec<(Arc<str>, Self)>, offsets: Vec<u64> },
    Leaf(usize, Primitive),
}

/// Elements of one leaf, and along which axes of the variable they lie.
#[derive(Debug)]
pub struct LocalLeaf {
    pub leaf: LeafId,
    /// For each axis of the leaf.
    pub links: SmallVec<[(Link, Option<usize>); 4]>,
    /// Axes of the variable that are constant.
    pub fixed: SmallVec<[(usize, u64); 2]>,
    /// All of it is a hole.
    pub empty: bool,
}

impl Local {
    /// The type, size and alignment; notes strides and offsets down. `None` where they do not fit an `i64`.
    pub fn measure(&mut self, axes: &mut [LeftAxis<'_>], layout: Layout) -> Option<(Type, u64, u64)> {
        match self {
            Self::Array { axes: own, element } => {
                let (kind, size, alignment) = element.measure(axes, layout)?;
                let extents: Vec<u64> = own.iter().map(|axis| axes[*axis].extent).collect();
                let strides = strides(layout.order, extents.iter().copied(), size)?;
                for (axis, stride) in own.iter().zip(strides) {
                    axes[*axis].stride = stride;
                }
                let size = extents.iter().try_fold(size, |size, extent| size.checked_mul(*extent))?;
                (size <= i64::MAX as u64).then_some((Type::array(extents, kind), size, alignment))
            }
            Self::Record { name, fields, offsets } => {
                let mut place = Placement::new(layout.packing);
                let mut kinds = Vec::with_capacity(fields.len());
                for (name, field) in fields {
                    let (kind, size, alignment) = field.measure(axes, layout)?;
                    offsets.push(place.add(size, alignment)?);
                    kinds.push(Field { name: name.clone(), kind });
                }
                let kind = Type::Record(Arc::new(Record { name: name.clone(), fields: kinds }));
                Some((kind, place.size_bytes()?, place.alignment_bytes()))
            }
            Self::Leaf(_, primitive) => {
                let alignment = layout.alignment_bytes(&Type::Primitive(*primitive));
                Some((Type::Primitive(*primitive), primitive.size_bytes(), alignment))
            }
        }
    }

    /// Where the elements of all leaves lie.
    pub fn parts(
        &self,
        offset: u64,
        axes: &[LeftAxis<'_>],
        leaves: &[LocalLeaf],
        byte_order: ByteOrder,
        parts: &mut Vec<Part>,
    ) -> Option<()> {
        match self {
            Self::Array { element, .. } => element.parts(offset, axes, leaves, byte_order, parts),
            Self::Record { fields, offsets, .. } => {
                for ((_, field), inside) in fields.iter().zip(offsets) {
                    field.parts(offset.checked_add(*inside)?, axes, leaves, byte_order, parts)?;
                }
                Some(())
            }
            Self::Leaf(position, _) => {
                let leaf = leaves.get(*position)?;
                if leaf.empty {
                    return Some(());
                }
                let mut offset_bytes = offset;
                for (axis, place) in &leaf.fixed {
                    offset_bytes = offset_bytes.checked_add(axes[*axis].stride.checked_mul(*place)?)?;
                }
                let mut strides_bytes = SmallVec::with_capacity(leaf.links.len());
                for (link, axis) in &leaf.links {
                    let stride = axis.map_or(0, |axis| axes[axis].stride);
                    offset_bytes = offset_bytes.checked_add(stride.checked_mul(link.place)?)?;
                    let alone = link.elements.count() == 1;
                    strides_bytes.push(if alone { 0 } else { i64::try_from(stride).ok()?.checked_mul(link.step)? });
                }
                let elements = IndexBox::new(leaf.links.iter().map(|(link, _)| link.elements))?;
                parts.push(Part { leaf: leaf.leaf, elements, offset_bytes, strides_bytes, byte_order });
                Some(())
            }
        }
    }
}
