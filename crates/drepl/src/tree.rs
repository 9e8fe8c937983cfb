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
pub struct Tree<T> {
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items, in an order of the tree's own.
    pub fn items(&self) -> &[T] {
        &self.items
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
        let place = number * self.width;
        self.node_bounds.extend((0..self.width / 2).flat_map(|_| [u64::MAX, 0]));
        if order.len() <= FEW {
            for item in order.iter() {
                let bounds = &self.bounds[*item as usize * self.width..][..self.width];
                widen(&mut self.node_bounds[place..], bounds);
            }
        } else {
            let middle = order.len() / 2;
            if let Some(axis) = self.widest(order) {
                order.select_nth_unstable_by_key(middle, |item| self.centre(*item, axis));
            }
            let (below, above) = order.split_at_mut(middle);
            for (half, first) in [(below, first), (above, first + middle as u32)] {
                let child = self.nodes.len() * self.width;
                self.node(half, first);
                let (before, after) = self.node_bounds.split_at_mut(child);
                widen(&mut before[place..], &after[..self.width]);
            }
        }
        self.nodes[number].skip = self.nodes.len() as u32;
    }

    /// The axis on which the centres of the items are spread most; `None` where they all lie at one place.
    fn widest(&self, items: &[u32]) -> Option<usize> {
        let spread = |axis: usize| {
            let (nearest, farthest) = items.iter().fold((u64::MAX, 0), |(nearest, farthest), item| {
                let centre = self.centre(*item, axis);
                (centre.min(nearest), centre.max(farthest))
            });
            farthest - nearest
        };
        (0..self.width / 2).map(|axis| (spread(axis), axis)).max().filter(|widest| widest.0 > 0).map(|widest| widest.1)
    }

    fn centre(&self, item: u32, axis: usize) -> u64 {
        let at = item as usize * self.width + 2 * axis;
        self.bounds[at].midpoint(self.bounds[at + 1])
    }
}

/// Widens bounds to those of what lies within.
fn widen(bounds: &mut [u64], within: &[u64]) {
    for (own, other) in bounds.chunks_exact_mut(2).zip(within.chunks_exact(2)) {
        own[0] = own[0].min(other[0]);
        own[1] = own[1].max(other[1]);
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
