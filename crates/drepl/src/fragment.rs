//! What lies where in one buffer.

use std::{ops::Range, sync::Arc};

use smallvec::SmallVec;

use crate::{
    dataset::{Dataset, LeafId},
    index_box::IndexBox,
    tree::each_overlap,
    types::{ByteOrder, Layout, Type},
};

/// A buffer's content: which elements of a dataset's objects lie in it, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    dataset: Arc<Dataset>,
    /// What the buffer is to a program, in the order of the bytes; for `numpy.dtype` and for drawings.
    variables: Vec<Variable>,
    /// What the buffer is to the planner: sorted by leaf.
    parts: Vec<Part>,
    size_bytes: u64,
    /// One per object that it has elements of, sorted by object.
    reaches: SmallVec<[Reach; 1]>,
}

/// The range of indices that a fragment has of one object, along those axes that all its parts of the object have. It
/// tells at a glance that two fragments have nothing in common, however many fields the object has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reach {
    object: u32,
    /// First and last index.
    bounds: SmallVec<[(u64, u64); 4]>,
}

/// A typed array or record at a constant place of a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// What it is called in the fragment.
    pub name: Arc<str>,
    /// Where it begins, in bytes from the beginning of the fragment.
    pub offset_bytes: u64,
    /// Its type in the fragment: local extents, fields in local order.
    pub kind: Type,
    /// Order of the axes, packing and byte order.
    pub layout: Layout,
}

/// Elements of one leaf that lie in a fragment at constant distances. Bytes of a fragment that belong to no part (holes
/// of a stride, padding of records) are never read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Whose elements they are.
    pub leaf: LeafId,
    /// Which elements, in the index space of the leaf: one progression per axis.
    pub elements: IndexBox,
    /// Where the first of them lies, that with the lowest index along every axis of the leaf.
    pub offset_bytes: u64,
    /// Distance from one element of the progression to the next, per axis of the leaf; 0 where there is but one. It is
    /// negative where the fragment runs against the leaf (`d[i] = data[99 - i]`).
    pub strides_bytes: SmallVec<[i64; 4]>,
    /// The order of the bytes of each number.
    pub byte_order: ByteOrder,
}

/// Why parts make no fragment. `part` is the position in the list that was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FragmentError {
    /// More bytes than offsets can be computed with.
    #[error("a fragment of {size_bytes} bytes is too large: at most {} can be addressed", i64::MAX)]
    TooLarge {
        /// The size that was given.
        size_bytes: u64,
    },
    /// No such leaf in the dataset.
    #[error("part {part} holds elements of leaf {}, but the dataset has only {leaves}", leaf.0)]
    NoSuchLeaf {
        /// Position of the part.
        part: usize,
        /// What it named.
        leaf: LeafId,
        /// How many leaves there are.
        leaves: usize,
    },
    /// The number of progressions or strides is not the leaf's number of axes.
    #[error("part {part} has {axes} progressions and {strides} strides, but its leaf has {rank} axes")]
    Rank {
        /// Position of the part.
        part: usize,
        /// How many progressions it has.
        axes: usize,
        /// How many strides it has.
        strides: usize,
        /// How many axes the leaf has.
        rank: usize,
    },
    /// An index leaves the leaf.
    #[error("part {part} reaches index {last} along axis {axis}, where the leaf has {extent} elements")]
    OutsideLeaf {
        /// Position of the part.
        part: usize,
        /// Which axis.
        axis: usize,
        /// The highest index along it.
        last: u64,
        /// How many elements the leaf has there.
        extent: u64,
    },
    /// Bytes before the fragment's first or after its last.
    #[error("part {part} reaches beyond the fragment's {size_bytes} bytes")]
    OutsideFragment {
        /// Position of the part.
        part: usize,
        /// Size of the fragment.
        size_bytes: u64,
    },
    /// Two elements of a part would share bytes.
    #[error("elements of part {part} overlap: a stride of {stride_bytes} bytes where each step holds {span_bytes}")]
    Overlap {
        /// Position of the part.
        part: usize,
        /// The stride that is too short.
        stride_bytes: i64,
        /// What lies within one step of it.
        span_bytes: u64,
    },
}

/// Elements that lie in a fragment more than once: see [`Fragment::repeated`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// Position of one part that holds them.
    pub first: usize,
    /// Position of the other.
    pub second: usize,
    /// Which elements.
    pub elements: IndexBox,
}

impl Fragment {
    /// A fragment of `size_bytes` bytes with these parts.
    ///
    /// # Errors
    ///
    /// Every part has to name a leaf of the dataset and elements within its extents, with a stride per axis, and to lie
    /// within the fragment without overlapping itself. That parts do not overlap each other is for who lays them out.
    pub fn new(
        dataset: Arc<Dataset>,
        variables: Vec<Variable>,
        mut parts: Vec<Part>,
        size_bytes: u64,
    ) -> Result<Self, FragmentError> {
        if i64::try_from(size_bytes).is_err() {
            return Err(FragmentError::TooLarge { size_bytes });
        }
        for (position, part) in parts.iter_mut().enumerate() {
            check(&dataset, position, part, size_bytes)?;
        }
        parts.sort_by_key(|part| part.leaf);
        let reaches = reaches(&dataset, &parts);
        Ok(Self { dataset, variables, parts, size_bytes, reaches })
    }

    /// The dataset that the elements belong to.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// What the buffer is to a program, in the order of the bytes.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Which elements lie where, sorted by leaf.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The parts that hold elements of one leaf: the position of the first of them, and all of them.
    pub fn parts_of(&self, leaf: LeafId) -> (usize, &[Part]) {
        let first = self.parts.partition_point(|part| part.leaf < leaf);
        let count = self.parts[first..].partition_point(|part| part.leaf == leaf);
        (first, &self.parts[first..first + count])
    }

    /// The leaves that the fragment has elements of, each once, and their parts.
    pub fn leaves(&self) -> impl Iterator<Item = (LeafId, &[Part])> {
        self.parts.chunk_by(|a, b| a.leaf == b.leaf).map(|parts| (parts[0].leaf, parts))
    }

    /// Whether the two may have elements in common: what is cheap to know before their parts are looked at.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.reaches.iter().any(|own| {
            other.reaches.iter().any(|reach| {
                let mut bounds = own.bounds.iter().zip(&reach.bounds);
                own.object == reach.object && bounds.all(|(own, other)| own.0 <= other.1 && other.0 <= own.1)
            })
        })
    }

    /// The length of the buffer.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Elements that lie in the fragment at two places, if there are any. Who writes to such a fragment may leave them
    /// different; only fragments that are read alone may be like that.
    pub fn repeated(&self) -> Option<Repeated> {
        let mut before = 0;
        for (_, parts) in self.leaves() {
            let boxes: Vec<&IndexBox> = parts.iter().map(|part| &part.elements).collect();
            let found = each_overlap(&boxes, |i, j, elements| {
                Err(Repeated { first: before + i, second: before + j, elements })
            });
            if let Err(repeated) = found {
                return Some(repeated);
            }
            before += parts.len();
        }
        None
    }

    /// The elements of which at least one byte lies in a range of bytes: for each the position of its part, and boxes
    /// that share no element. There are at most two boxes more than twice the rank for each part.
    pub fn touched(&self, bytes: Range<u64>) -> Vec<(usize, IndexBox)> {
        let bytes = bytes.start..bytes.end.min(self.size_bytes);
        let mut found = Vec::new();
        for (position, part) in self.parts.iter().enumerate() {
            let element_bytes = self.dataset.leaves()[part.leaf.0 as usize].primitive.size_bytes();
            let (low, end) = part.span(element_bytes);
            if bytes.start < bytes.end && low < bytes.end && bytes.start < end {
                let mut axes: SmallVec<[usize; 4]> = (0..part.elements.rank()).collect();
                axes.sort_by_key(|axis| std::cmp::Reverse(part.strides_bytes[*axis].unsigned_abs()));
                let touch = Touch { part, bytes: bytes.clone(), element_bytes, axes: &axes };
                touch.collect(0, low, &part.elements, &mut |elements| found.push((position, elements)));
            }
        }
        found
    }

    /// The variable that a part lies in.
    pub fn variable_of(&self, part: &Part) -> Option<&Variable> {
        let lowest = part.span(0).0;
        self.variables.iter().filter(|variable| variable.offset_bytes <= lowest).max_by_key(|v| v.offset_bytes)
    }
}

impl Part {
    /// The first byte that a part of elements of `element_bytes` bytes uses, and that after its last. Holds for parts of
    /// a fragment, which are known to lie within it.
    pub(crate) fn span(&self, element_bytes: u64) -> (u64, u64) {
        let (mut low, mut high) = (self.offset_bytes, self.offset_bytes);
        for (axis, stride) in self.elements.axes().iter().zip(&self.strides_bytes) {
            let reach = stride.unsigned_abs() * (axis.count() - 1);
            if *stride < 0 { low -= reach } else { high += reach }
        }
        (low, high + element_bytes)
    }
}

/// Parts are sorted by leaf, and leaves are numbered object by object.
fn reaches(dataset: &Dataset, parts: &[Part]) -> SmallVec<[Reach; 1]> {
    let mut found: SmallVec<[Reach; 1]> = SmallVec::new();
    for part in parts {
        let object = dataset.leaves()[part.leaf.0 as usize].object;
        let bounds = part.elements.axes().iter().map(|axis| (axis.start(), axis.last()));
        match found.last_mut() {
            Some(reach) if reach.object == object => {
                reach.bounds.truncate(part.elements.rank());
                for (own, other) in reach.bounds.iter_mut().zip(bounds) {
                    *own = (own.0.min(other.0), own.1.max(other.1));
                }
            }
            _ => found.push(Reach { object, bounds: bounds.collect() }),
        }
    }
    found
}

/// Which elements of a part a range of bytes touches.
struct Touch<'a> {
    part: &'a Part,
    bytes: Range<u64>,
    element_bytes: u64,
    /// Those of the longest strides first.
    axes: &'a [usize],
}

impl Touch<'_> {
    /// For the elements of the box, of one index along each of the first `depth` axes, which lie from `low` on.
    fn collect(&self, depth: usize, low: u64, elements: &IndexBox, found: &mut impl FnMut(IndexBox)) {
        let Some(axis) = self.axes.get(depth).copied() else { return found(elements.clone()) };
        let (count, stride) = self.along(axis);
        if count == 1 {
            return self.collect(depth + 1, low, elements, found);
        }
        let step = stride.unsigned_abs();
        // What lies along the shorter strides fits into a step.
        let inner = self.axes[depth + 1..].iter().fold(self.element_bytes, |bytes, axis| {
            let (count, stride) = self.along(*axis);
            bytes + stride.unsigned_abs() * (count - 1)
        });
        // Steps that begin before the range ends and end after it begins, and of these the ones within the range.
        let (begin, end) = (self.bytes.start, self.bytes.end);
        let last = |reach: Option<u64>| reach.map_or(0, |reach| (reach / step + 1).min(count));
        let first_touched = last(begin.checked_sub(low + inner));
        let end_touched = end.saturating_sub(low).div_ceil(step).min(count).max(first_touched);
        let first_within = begin.saturating_sub(low).div_ceil(step).clamp(first_touched, end_touched);
        let end_within = last(end.checked_sub(low + inner)).clamp(first_within, end_touched);
        let narrowed = |first: u64, end: u64| {
            let (first, end) = if stride < 0 { (count - end, count - first) } else { (first, end) };
            self.part.elements.axes()[axis].section(first, end).map(|along| elements.with(axis, along))
        };
        for step_number in (first_touched..first_within).chain(end_within..end_touched) {
            if let Some(one) = narrowed(step_number, step_number + 1) {
                self.collect(depth + 1, low + step_number * step, &one, found);
            }
        }
        if let Some(whole) = narrowed(first_within, end_within) {
            found(whole);
        }
    }

    fn along(&self, axis: usize) -> (u64, i64) {
        (self.part.elements.axes()[axis].count(), self.part.strides_bytes[axis])
    }
}

fn check(dataset: &Dataset, position: usize, part: &mut Part, size_bytes: u64) -> Result<(), FragmentError> {
    let leaves = dataset.leaves().len();
    let leaf = dataset.leaf(part.leaf).ok_or(FragmentError::NoSuchLeaf { part: position, leaf: part.leaf, leaves })?;
    let (rank, axes, strides) = (leaf.extents.len(), part.elements.rank(), part.strides_bytes.len());
    if axes != rank || strides != rank {
        return Err(FragmentError::Rank { part: position, axes, strides, rank });
    }
    let outside = FragmentError::OutsideFragment { part: position, size_bytes };
    let (mut low, mut high) = (i128::from(part.offset_bytes), i128::from(part.offset_bytes));
    let mut nested: SmallVec<[(u64, u64, i64); 4]> = SmallVec::new();
    for (axis, (progression, stride)) in part.elements.axes().iter().zip(&mut part.strides_bytes).enumerate() {
        let extent = leaf.extents[axis];
        if progression.last() >= extent {
            return Err(FragmentError::OutsideLeaf { part: position, axis, last: progression.last(), extent });
        }
        if progression.count() == 1 {
            *stride = 0;
            continue;
        }
        let reach = i128::from(*stride) * i128::from(progression.count() - 1);
        if *stride < 0 {
            low += reach
        } else {
            high += reach
        }
        if low < 0 || high > i128::from(size_bytes) {
            return Err(outside);
        }
        nested.push((stride.unsigned_abs(), progression.count(), *stride));
    }
    let element_bytes = leaf.primitive.size_bytes();
    if high + i128::from(element_bytes) > i128::from(size_bytes) {
        return Err(outside);
    }
    // Layouts nest: whatever lies along the shorter strides fits into one step of the next longer one.
    nested.sort_unstable();
    let mut span_bytes = element_bytes;
    for (stride, count, signed) in nested {
        if stride < span_bytes {
            return Err(FragmentError::Overlap { part: position, stride_bytes: signed, span_bytes });
        }
        span_bytes += stride * (count - 1);
    }
    Ok(())
}
