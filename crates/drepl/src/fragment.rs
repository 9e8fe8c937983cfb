//! What lies where in one buffer.

use std::{ops::Range, sync::Arc};

use smallvec::SmallVec;

use crate::{
    conversion::is_convertible,
    dataset::{Dataset, LeafId},
    fill::{Fill, put},
    index_box::IndexBox,
    tree::each_overlap,
    types::{ByteOrder, Layout, Primitive, Type},
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
    /// What holes have in memory that begins.
    fill: Option<Fill>,
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
    /// What they are here: what the leaf's are, or floating-point numbers into which those are converted.
    pub primitive: Primitive,
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
    /// Elements that are not converted.
    #[error(
        "part {part} is of {held}, into which no {elements} is converted: floating-point numbers are, and complex ones"
    )]
    Type {
        /// Position of the part.
        part: usize,
        /// What the leaf's elements are.
        elements: Primitive,
        /// What the part's are.
        held: Primitive,
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
    /// Strides for another number of axes than those of one variable.
    #[error("{strides} strides, for a fragment of {variables} variables: give one for each axis of the only one")]
    Strides {
        /// How many variables there are.
        variables: usize,
        /// How many strides were given.
        strides: usize,
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

/// The axes of an array and of the arrays that are its elements.
struct Axes {
    extents: Vec<u64>,
    strides_bytes: Vec<u64>,
}

impl Axes {
    fn of(variable: &Variable) -> Option<Self> {
        let mut axes = Self { extents: Vec::new(), strides_bytes: Vec::new() };
        let mut kind = &variable.kind;
        while let Type::Array(array) = kind {
            axes.extents.extend(&array.extents);
            axes.strides_bytes.extend(variable.layout.strides_bytes(array)?);
            kind = &array.element;
        }
        Some(axes)
    }

    /// The place of a byte along each axis, and what is left of it within an element.
    fn place(&self, mut byte: u64) -> (Vec<u64>, u64) {
        let mut order: Vec<usize> = (0..self.extents.len()).filter(|axis| self.extents[*axis] > 1).collect();
        order.sort_by_key(|axis| std::cmp::Reverse(self.strides_bytes[*axis]));
        let mut places = vec![0; self.extents.len()];
        for axis in order {
            places[axis] = byte / self.strides_bytes[axis];
            byte %= self.strides_bytes[axis];
        }
        (places, byte)
    }
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
        Ok(Self { dataset, variables, parts, size_bytes, fill: None, reaches })
    }

    /// The same, with a value for holes.
    pub fn with_fill(self, fill: Option<Fill>) -> Self {
        Self { fill, ..self }
    }

    /// What its text says that holes have.
    pub fn fill(&self) -> Option<Fill> {
        self.fill
    }

    /// Makes memory of the fragment begin: with zeros, and in holes with what its text says that they have. Elements are zero until
    /// they are moved here. Bytes behind the fragment's stay as they are.
    ///
    /// A view that says `fill`, with places that have no element, is gone through twice; of others all bytes are set to zero.
    pub fn clear(&self, buffer: &mut [u8]) {
        self.clear_from(0, buffer);
    }

    /// Makes a piece of the fragment's memory begin, from its byte `begin` on, as [`clear`](Self::clear) does with all of it. A file
    /// need not be held in memory to begin like that: it is written piece by piece.
    pub fn clear_from(&self, begin: u64, piece: &mut [u8]) {
        let left = self.size_bytes.saturating_sub(begin);
        let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        let piece = &mut piece[..bytes];
        piece.fill(0);
        let Some(fill) = self.fill.filter(|_| self.has_holes()) else { return };
        for variable in &self.variables {
            let at = i128::from(variable.offset_bytes) - i128::from(begin);
            // Variables of a fragment have a size.
            let _ = put(fill, &variable.kind, &variable.layout, at, piece);
        }
        for (position, elements) in self.touched(begin..begin.saturating_add(bytes as u64)) {
            let part = &self.parts[position];
            part.section(elements).make_zero(begin, piece);
        }
    }

    /// Whether each byte of it belongs to one element.
    pub fn is_full(&self) -> bool {
        let bytes = self.parts.iter().map(|part| {
            let element_bytes = part.primitive.size_bytes();
            u128::from(part.elements.count()) * u128::from(element_bytes)
        });
        // No two parts share bytes, and none leaves the fragment.
        bytes.fold(0, u128::saturating_add) == u128::from(self.size_bytes)
    }

    /// Whether it has holes, and its text says what they have.
    pub fn fills(&self) -> bool {
        self.fill.is_some() && self.has_holes()
    }

    /// Whether some places of its variables have no element.
    fn has_holes(&self) -> bool {
        let places = self.variables.iter().map(|variable| variable.kind.places()).fold(0, u128::saturating_add);
        let elements: u128 = self.parts.iter().map(|part| u128::from(part.elements.count())).sum();
        elements < places
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
            let element_bytes = part.primitive.size_bytes();
            let (low, end) = part.span();
            if bytes.start < bytes.end && low < bytes.end && bytes.start < end {
                let mut axes: SmallVec<[usize; 4]> = (0..part.elements.rank()).collect();
                axes.sort_by_key(|axis| std::cmp::Reverse(part.strides_bytes[*axis].unsigned_abs()));
                let touch = Touch { part, bytes: bytes.clone(), element_bytes, axes: &axes };
                touch.collect(0, low, &part.elements, &mut |elements| found.push((position, elements)));
            }
        }
        found
    }

    /// The same elements in an array that lies otherwise: that of the only variable, with these distances between neighbours
    /// along its axes and those of the arrays that are its elements. The array's lowest byte is the fragment's first.
    ///
    /// # Errors
    ///
    /// [`FragmentError::Strides`] where there are several variables, or axes without a stride; [`FragmentError::Overlap`] where
    /// two elements would share bytes.
    pub fn with_strides(&self, strides_bytes: &[i64]) -> Result<Self, FragmentError> {
        let refused = || FragmentError::Strides { variables: self.variables.len(), strides: strides_bytes.len() };
        let [variable] = &self.variables[..] else { return Err(refused()) };
        let axes = Axes::of(variable).filter(|axes| axes.extents.len() == strides_bytes.len()).ok_or_else(refused)?;
        let large = || FragmentError::TooLarge { size_bytes: u64::MAX };
        let along = |places: &mut dyn Iterator<Item = u64>, strides: &mut dyn Iterator<Item = i64>| {
            places.zip(strides).map(|(place, stride)| i128::from(place) * i128::from(stride)).sum::<i128>()
        };
        let last = |axis: &u64| *axis - 1;
        let below =
            -along(&mut axes.extents.iter().map(last), &mut strides_bytes.iter().map(|stride| (*stride).min(0)));
        let above = along(&mut axes.extents.iter().map(last), &mut strides_bytes.iter().map(|stride| (*stride).max(0)));
        let whole = variable.layout.size_bytes(&variable.kind).ok_or_else(large)?;
        let element_bytes = whole / axes.extents.iter().product::<u64>();
        let size_bytes = u64::try_from(below + above + i128::from(element_bytes)).map_err(|_| large())?;
        let moved = |part: usize, byte: u64| {
            let outside = FragmentError::OutsideFragment { part, size_bytes };
            let (places, within) = axes.place(byte.checked_sub(variable.offset_bytes).ok_or(outside)?);
            Ok(below + along(&mut places.into_iter(), &mut strides_bytes.iter().copied()) + i128::from(within))
        };
        let parts = self.parts.iter().enumerate().map(|(position, part)| {
            let first = moved(position, part.offset_bytes)?;
            let strides = part.elements.axes().iter().zip(&part.strides_bytes).map(|(axis, stride)| {
                if axis.count() == 1 {
                    return Ok(0);
                }
                let next = moved(position, part.offset_bytes.wrapping_add_signed(*stride))?;
                i64::try_from(next - first).map_err(|_| large())
            });
            let strides_bytes = strides.collect::<Result<_, FragmentError>>()?;
            let offset_bytes = u64::try_from(first).map_err(|_| large())?;
            Ok(Part { offset_bytes, strides_bytes, ..part.clone() })
        });
        let parts = parts.collect::<Result<_, FragmentError>>()?;
        // What it is to a program is not described by a layout any more.
        Self::new(self.dataset.clone(), Vec::new(), parts, size_bytes)
    }

    /// The variable that a part lies in.
    pub fn variable_of(&self, part: &Part) -> Option<&Variable> {
        let lowest = part.span().0;
        self.variables.iter().filter(|variable| variable.offset_bytes <= lowest).max_by_key(|v| v.offset_bytes)
    }
}

impl Part {
    /// The first byte that a part uses, and that after its last. Holds for parts of a fragment, which are known to lie within it.
    pub(crate) fn span(&self) -> (u64, u64) {
        let (mut low, mut high) = (self.offset_bytes, self.offset_bytes);
        for (axis, stride) in self.elements.axes().iter().zip(&self.strides_bytes) {
            let reach = stride.unsigned_abs() * (axis.count() - 1);
            if *stride < 0 { low -= reach } else { high += reach }
        }
        (low, high + self.primitive.size_bytes())
    }

    /// Some of the elements, at the same places: a box of those that a range of bytes touches.
    fn section(&self, elements: IndexBox) -> Self {
        let mut offset_bytes = self.offset_bytes;
        for ((axis, own), stride) in elements.axes().iter().zip(self.elements.axes()).zip(&self.strides_bytes) {
            let before = (axis.start() - own.start()) / own.step();
            offset_bytes = offset_bytes.wrapping_add_signed(stride * before as i64);
        }
        Self { elements, offset_bytes, ..self.clone() }
    }

    /// Makes the elements zero in a piece of the fragment's memory from byte `begin` on, as far as they lie in it.
    fn make_zero(&self, begin: u64, piece: &mut [u8]) {
        let strides = self.strides_bytes.iter().map(|stride| stride.unsigned_abs());
        let axes = self.elements.axes().iter().zip(strides).map(|(axis, stride)| (stride, axis.count()));
        let mut axes: SmallVec<[(u64, u64); 4]> = axes.filter(|(_, count)| *count > 1).collect();
        axes.sort_unstable();
        // Whatever lies back to back is one run.
        let (mut run_bytes, mut inner) = (self.primitive.size_bytes(), 0);
        while let Some((_, count)) = axes.get(inner).filter(|(stride, _)| *stride == run_bytes) {
            (run_bytes, inner) = (run_bytes * count, inner + 1);
        }
        let outer = &axes[inner..];
        let mut places: SmallVec<[u64; 4]> = outer.iter().map(|_| 0).collect();
        let (mut offset, _) = self.span();
        loop {
            let (first, end) = (offset.max(begin) - begin, (offset + run_bytes).saturating_sub(begin));
            let run = first as usize..piece.len().min(end as usize);
            piece.get_mut(run).into_iter().for_each(|run| run.fill(0));
            let next = places.iter_mut().zip(outer).find_map(|(place, (stride, count))| {
                (*place, offset) = (*place + 1, offset + stride);
                if *place < *count {
                    return Some(());
                }
                (*place, offset) = (0, offset - stride * count);
                None
            });
            if next.is_none() {
                return;
            }
        }
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
    if part.primitive != leaf.primitive && !is_convertible(leaf.primitive, part.primitive) {
        let (elements, held) = (leaf.primitive, part.primitive);
        return Err(FragmentError::Type { part: position, elements, held });
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
    let element_bytes = part.primitive.size_bytes();
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
