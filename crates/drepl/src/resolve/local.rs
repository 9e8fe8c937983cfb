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
    Array {
        axes: SmallVec<[usize; 4]>,
        element: Box<Self>,
    },
    Record {
        name: Option<Arc<str>>,
        fields: Vec<(Arc<str>, Self)>,
        /// Bytes that are left out before each field and behind the last one; empty for none.
        gaps: Vec<u64>,
        offsets: Vec<u64>,
    },
    Leaf(usize, Primitive),
}

/// An axis of an object, linked.
#[derive(Debug)]
pub struct LinkedAxis {
    /// Nearly always one; several where an index wraps around, where indices are listed, and along a diagonal.
    pub links: SmallVec<[Link; 1]>,
    /// The axis of the variable.
    pub place: Option<usize>,
    /// In how many parts following each other the same one of the links holds. Axes of one diagonal go on together.
    pub each: usize,
}

/// Elements of one leaf, and along which axes of the variable they lie.
#[derive(Debug)]
pub struct LocalLeaf {
    pub leaf: LeafId,
    /// For each axis of the leaf.
    pub links: SmallVec<[LinkedAxis; 4]>,
    /// How many parts they make.
    pub parts: usize,
    /// Axes of the variable that are constant.
    pub fixed: SmallVec<[(usize, u64); 2]>,
    /// All of it is a hole.
    pub empty: bool,
}

impl LocalLeaf {
    pub fn new(leaf: LeafId) -> Self {
        Self { leaf, links: SmallVec::new(), parts: 1, fixed: SmallVec::new(), empty: false }
    }

    /// Links the next axis, each link with all parts of the axes before.
    pub fn link(&mut self, links: SmallVec<[Link; 1]>, place: Option<usize>) {
        let each = self.parts;
        self.parts = self.parts.saturating_mul(links.len());
        self.links.push(LinkedAxis { links, place, each });
    }
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
            Self::Record { name, fields, gaps, offsets } => {
                let mut place = Placement::new(layout.packing);
                let mut kinds = Vec::with_capacity(fields.len());
                let mut skipped = gaps.iter().copied();
                for (name, field) in fields {
                    place.skip(skipped.next().unwrap_or(0))?;
                    let (kind, size, alignment) = field.measure(axes, layout)?;
                    offsets.push(place.add(size, alignment)?);
                    kinds.push(Field { name: name.clone(), kind });
                }
                place.skip(skipped.next().unwrap_or(0))?;
                let record = Record::new(name.clone(), kinds).with_gaps(gaps.clone());
                let kind = Type::Record(Arc::new(record));
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
            Self::Leaf(position, primitive) => {
                let leaf = leaves.get(*position)?;
                if leaf.empty {
                    return Some(());
                }
                let mut offset_bytes = offset;
                for (axis, place) in &leaf.fixed {
                    offset_bytes = offset_bytes.checked_add(axes[*axis].stride.checked_mul(*place)?)?;
                }
                for number in 0..leaf.parts {
                    let chosen = leaf.links.iter().map(|LinkedAxis { links, place, each }| {
                        (&links[number / each % links.len()], place.map_or(0, |axis| axes[axis].stride))
                    });
                    parts.push(part(leaf.leaf, *primitive, offset_bytes, byte_order, chosen)?);
                }
                Some(())
            }
        }
    }
}

/// Elements that lie at constant distances, from a link and a stride for each axis of the leaf.
fn part<'l>(
    leaf: LeafId,
    primitive: Primitive,
    mut offset_bytes: u64,
    byte_order: ByteOrder,
    links: impl Iterator<Item = (&'l Link, u64)>,
) -> Option<Part> {
    let (mut strides_bytes, mut elements) = (SmallVec::new(), SmallVec::<[_; 4]>::new());
    for (link, stride) in links {
        offset_bytes = offset_bytes.checked_add(stride.checked_mul(link.place)?)?;
        let alone = link.elements.count() == 1;
        strides_bytes.push(if alone { 0 } else { i64::try_from(stride).ok()?.checked_mul(link.step)? });
        elements.push(link.elements);
    }
    Some(Part { leaf, primitive, elements: IndexBox::new(elements)?, offset_bytes, strides_bytes, byte_order })
}
