//! Trees of bounding boxes: which of many boxes meet one.
//!
//! They are built by splitting at the median along the axis on which the centres of the boxes are spread most. The crate
//! `rstar` was looked at for it: its points have a rank that is fixed when it is compiled, where leaves have any, and its
//! bulk load divides along all axes in turn, also those on which all boxes lie at the same place. Arrays that are
//! decomposed along one or two of their axes are what simulations have.

use crate::index_box::IndexBox;

/// Boxes in a leaf of the tree.
const FEW: usize = 8;

/// A tree of bounding boxes over items with a box each.
#[derive(Debug)]
pub(crate) struct Tree<T> {
    rank: usize,
    /// In the order of the tree's leaves, so that those of a leaf lie together.
    items: Vec<T>,
    /// First and last index along each axis, for each item.
    item_bounds: Vec<u64>,
    /// Depth first: the first child of a node follows it.
    nodes: Vec<Node>,
    /// First and last index along each axis, for each node.
    node_bounds: Vec<u64>,
}

#[derive(Debug)]
struct Node {
    /// Where its items begin and end.
    first: u32,
    end: u32,
    /// The node that follows when nothing below this one is of interest.
    skip: u32,
}

impl<T> Tree<T> {
    /// A tree over items whose boxes are all of one rank.
    pub fn new<'a>(items: impl Iterator<Item = (T, &'a IndexBox)>) -> Self {
        let mut bounds = Vec::new();
        let mut rank = 0;
        let given: Vec<T> = items
            .map(|(item, elements)| {
                rank = elements.rank();
                bounds.extend(elements.axes().iter().flat_map(|axis| [axis.start(), axis.last()]));
                item
            })
            .collect();
        let width = 2 * rank;
        let mut builder = Builder { width, bounds: &bounds, nodes: Vec::new(), node_bounds: Vec::new() };
        let mut order: Vec<u32> = (0..given.len() as u32).collect();
        if !order.is_empty() {
            builder.node(&mut order, 0);
        }
        let Builder { nodes, node_bounds, .. } = builder;
        let item_bounds = order.iter().flat_map(|i| &bounds[*i as usize * width..][..width]).copied().collect();
        let mut given: Vec<Option<T>> = given.into_iter().map(Some).collect();
        let items = order.iter().filter_map(|i| given[*i as usize].take()).collect();
        Self { rank, items, item_bounds, nodes, node_bounds }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// The items, to make another tree of.
    pub fn into_items(self) -> Vec<T> {
        self.items
    }

    /// Calls `found` for each item whose range of indices meets that of `elements`.
    pub fn search(&self, elements: &IndexBox, mut found: impl FnMut(&T)) {
        if elements.rank() != self.rank {
            return;
        }
        let width = 2 * self.rank;
        let meets = |bounds: &[u64]| {
            let axes = elements.axes().iter().zip(bounds.chunks_exact(2));
            axes.fold(true, |all, (axis, bounds)| all & (axis.start() <= bounds[1]) & (bounds[0] <= axis.last()))
        };
        let mut next = 0;
        while let Some(node) = self.nodes.get(next) {
            if !meets(&self.node_bounds[next * width..][..width]) {
                next = node.skip as usize;
                continue;
            }
            next += 1;
            if node.skip as usize == next {
                for i in node.first as usize..node.end as usize {
                    if meets(&self.item_bounds[i * width..][..width]) {
                        found(&self.items[i]);
                    }
                }
            }
        }
    }
}

struct Builder<'a> {
    width: usize,
    bounds: &'a [u64],
    nodes: Vec<Node>,
    node_bounds: Vec<u64>,
}

impl Builder<'_> {
    /// Appends the tree over the items in `order`, the first of which is to come at the position `first`.
    fn node(&mut self, order: &mut [u32], first: u32) {
        let number = self.nodes.len();
        let end = first + order.len() as u32;
        self.nodes.push(Node { first, end, skip: 0 });
        let mut widest = (0, 0);
        for axis in 0..self.width / 2 {
            let mut low = u64::MAX;
            let mut last = 0;
            let (mut nearest, mut farthest) = (u64::MAX, 0);
            for i in order.iter() {
                let (item_low, item_last) = self.along(*i, axis);
                low = low.min(item_low);
                last = last.max(item_last);
                let centre = item_low.midpoint(item_last);
                nearest = nearest.min(centre);
                farthest = farthest.max(centre);
            }
            self.node_bounds.extend([low, last]);
            widest = widest.max((farthest - nearest, axis));
        }
        if order.len() > FEW {
            let axis = widest.1;
            let middle = order.len() / 2;
            if widest.0 > 0 {
                order.select_nth_unstable_by_key(middle, |i| {
                    let (low, last) = self.along(*i, axis);
                    low.midpoint(last)
                });
            }
            let (below, above) = order.split_at_mut(middle);
            self.node(below, first);
            self.node(above, first + middle as u32);
        }
        self.nodes[number].skip = self.nodes.len() as u32;
    }

    fn along(&self, item: u32, axis: usize) -> (u64, u64) {
        let at = item as usize * self.width + 2 * axis;
        (self.bounds[at], self.bounds[at + 1])
    }
}

/// Calls `found` with each two boxes that share elements, once, and with these elements, until it returns an error.
pub(crate) fn each_overlap<E>(
    boxes: &[&IndexBox],
    mut found: impl FnMut(usize, usize, IndexBox) -> Result<(), E>,
) -> Result<(), E> {
    let tree = Tree::new(boxes.iter().enumerate().map(|(i, one)| (i, *one)));
    for (i, one) in boxes.iter().enumerate() {
        let mut outcome = Ok(());
        tree.search(one, |j| {
            if outcome.is_ok()
                && i < *j
                && let Some(common) = one.intersection(boxes[*j])
            {
                outcome = found(i, *j, common);
            }
        });
        outcome?;
    }
    Ok(())
}
