//! Sets of elements and of nodes. Those that a message has several times are written out once.

use std::{collections::BTreeSet, sync::Arc};

use drepl::{IndexBox, IndexSet, Progression, index_set::NotDisjoint};
use stillframe_roster::writer::{Elements, Node};

use crate::{fault::Fault, item::Item, reader::Reader, writer::Writer};

/// The empty set.
const EMPTY: u32 = 0;
/// A set that is written out here.
const HERE: u32 = 1;
/// The first set that was written out before; the others follow.
const BEFORE: u32 = 2;

/// What telling boxes apart takes besides the boxes, at most: for each, and for each of its axes.
const TREE_BYTES: usize = 96;
const TREE_AXIS_BYTES: usize = 80;

impl Item for Elements {
    const LEAST_BYTES: usize = 4;

    fn write(&self, to: &mut Writer<'_>) {
        if self.is_empty() {
            return to.item(&EMPTY);
        }
        if let Some(number) = to.known_set(self) {
            return to.item(&number.saturating_add(BEFORE));
        }
        to.item(&HERE);
        let rank = self.boxes()[0].rank();
        // Boxes of another rank would be of another leaf.
        let same = || self.boxes().iter().filter(|one| one.rank() == rank);
        to.count(same().count());
        to.item(&u8::try_from(rank).unwrap_or(u8::MAX));
        for axis in same().flat_map(IndexBox::axes) {
            [axis.start(), axis.step(), axis.count()].iter().for_each(|number| to.item(number));
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let offset = from.at();
        match from.item::<u32>()? {
            EMPTY => {
                if from.no_elements.is_none() {
                    from.charge(size_of::<IndexSet>() + 16, offset)?;
                }
                Ok(from.no_elements.get_or_insert_default().clone())
            }
            HERE => {
                from.charge(3 * size_of::<Elements>() + size_of::<IndexSet>() + 16, offset)?;
                let elements = Elements::from(read_set(from)?);
                from.sets.push(elements.clone());
                Ok(elements)
            }
            number => {
                let known = from.sets.get((number - BEFORE) as usize).cloned();
                known.ok_or_else(|| from.invalid(offset, "a set is named that was not written out before"))
            }
        }
    }
}

fn read_set(from: &mut Reader<'_>) -> Result<IndexSet, Fault> {
    let offset = from.at();
    let count = from.count(0)?;
    let rank = usize::from(from.item::<u8>()?);
    from.check(count > 0, offset, "an empty set is written out")?;
    from.check(rank > 0 || count == 1, offset, "boxes without axes share their element")?;
    let axis_bytes = 3 * size_of::<u64>();
    let missing = count.saturating_mul(rank * axis_bytes).saturating_sub(from.left());
    from.check(missing == 0, offset, "a set has more boxes than bytes are left for")?;
    let mut boxes = from.room(count, offset)?;
    for _ in 0..count {
        boxes.push(read_box(from, rank)?);
    }
    let scratch = if count > 1 { count * (TREE_BYTES + rank * TREE_AXIS_BYTES) } else { 0 };
    from.charge(scratch, offset)?;
    let set = IndexSet::from_disjoint(boxes, &mut from.comparisons).map_err(|error| {
        let what = match error {
            NotDisjoint::Ranks { .. } => "boxes of one set have different numbers of axes",
            NotDisjoint::Overlap { .. } => "boxes of one set share elements",
            NotDisjoint::TooScattered => "the boxes of the sets lie too scattered to be told apart",
        };
        from.invalid(offset, what)
    })?;
    from.refund(scratch);
    Ok(set)
}

fn read_box(from: &mut Reader<'_>, rank: usize) -> Result<IndexBox, Fault> {
    /// Axes of a box that lie in the box itself.
    const INLINE: usize = 4;
    let offset = from.at();
    if rank > INLINE {
        // It grows by doubling, and the former half is there until the latter is.
        from.charge(rank * 3 * size_of::<Progression>(), offset)?;
    }
    let mut fault = None;
    let axes = (0..rank).map_while(|_| read_axis(from).map_err(|error| fault = Some(error)).ok());
    let made = IndexBox::new(axes);
    match fault {
        Some(fault) => Err(fault),
        None => made.ok_or_else(|| from.invalid(offset, "a box has more elements than 64 bits count")),
    }
}

#[inline]
fn read_axis(from: &mut Reader<'_>) -> Result<Progression, Fault> {
    let offset = from.at();
    let (start, step, count) = (from.item()?, from.item()?, from.item()?);
    let made = Progression::new(start, step, count).filter(|made| made.step() == step);
    made.ok_or_else(|| from.invalid(offset, "an axis is no progression: it is empty, or leaves 64 bits"))
}

impl Item for Node {
    const LEAST_BYTES: usize = 4;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.0);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        from.item().map(Node)
    }
}

/// What a tree of numbers takes at most for each, and for the smallest: leaves have 11 places, and half of them may be free.
pub(crate) const fn tree_bytes(count: usize, size: usize) -> usize {
    if count == 0 { 0 } else { 11 * size + 16 + count * (2 * size + 8) }
}

impl Item for Arc<BTreeSet<Node>> {
    const LEAST_BYTES: usize = 4;

    fn write(&self, to: &mut Writer<'_>) {
        if self.is_empty() {
            return to.item(&EMPTY);
        }
        if let Some(number) = to.known_nodes(self) {
            return to.item(&number.saturating_add(BEFORE));
        }
        to.item(&HERE);
        to.count(self.len());
        self.iter().for_each(|node| to.item(node));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let offset = from.at();
        match from.item::<u32>()? {
            EMPTY => {
                if from.no_nodes.is_none() {
                    from.charge(size_of::<BTreeSet<Node>>() + 16, offset)?;
                }
                Ok(from.no_nodes.get_or_insert_default().clone())
            }
            HERE => {
                let offset = from.at();
                let nodes: Vec<Node> = from.ascending(|node| *node, "nodes do not ascend")?;
                from.check(!nodes.is_empty(), offset, "an empty set of nodes is written out")?;
                let own = 3 * size_of::<Self>() + size_of::<BTreeSet<Node>>() + 16;
                from.charge(own + tree_bytes(nodes.len(), size_of::<Node>()), offset)?;
                let nodes = Arc::new(BTreeSet::from_iter(nodes));
                from.nodes.push(nodes.clone());
                Ok(nodes)
            }
            number => {
                let known = from.nodes.get((number - BEFORE) as usize).cloned();
                known.ok_or_else(|| from.invalid(offset, "nodes are named that were not written out before"))
            }
        }
    }
}
