//! Reading a selection out of a snapshot, without reading much else.
//!
//! Elements come in the order in which they lie in memory, the slowest axis first. What is contiguous is read in long
//! runs; elements that lie closer together than a page share the reading of that page; lonely elements are read alone.

use crate::failure::Failure;
use crate::selection::Selection;
use crate::value::{Value, decode};
use stillframe::{DType, Order, Snapshot};

/// Bytes that are read together when single elements lie close to each other.
const PAGE_BYTES: usize = 4096;
/// The most that is held before it is passed on.
const PIECE_BYTES: usize = 1 << 20;

/// Where selected elements come from.
pub trait Source {
    /// Hands the selected elements to `sink` piece by piece, packed, in the order of the variable.
    fn stream(&self, selection: &Selection, sink: &mut Sink) -> Result<(), Failure>;
}

/// What takes the pieces. Each is a power of two long, but for the last one.
pub type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), Failure> + 'a;

/// What fills memory from a byte of a variable on.
type Read<'a> = dyn Fn(usize, &mut [u8]) -> Result<(), Failure> + 'a;

/// A variable of a snapshot.
pub struct SnapshotSource<'a> {
    /// The version that is read.
    pub snapshot: &'a Snapshot,
    /// The name of the variable.
    pub variable: &'a str,
}

impl Source for SnapshotSource<'_> {
    fn stream(&self, selection: &Selection, sink: &mut Sink) -> Result<(), Failure> {
        let read = |offset: usize, into: &mut [u8]| Ok(self.snapshot.read(self.variable, offset, into)?);
        stream(&read, selection, sink)
    }
}

/// Selected elements that were read before, packed, in the order of the variable.
pub struct Packed<'a>(pub &'a [u8]);

impl Source for Packed<'_> {
    fn stream(&self, selection: &Selection, sink: &mut Sink) -> Result<(), Failure> {
        let bytes = selection.count() * selection.dtype.bytes();
        self.0.get(..bytes).unwrap_or(self.0).chunks(PIECE_BYTES).try_for_each(sink)
    }
}

/// Selected elements in memory, packed, in the order of the variable.
pub struct Block {
    /// Type of the elements.
    pub dtype: DType,
    /// Which index runs fastest.
    pub order: Order,
    /// Shape without the dropped axes.
    pub shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Block {
    /// Reads the whole selection.
    pub fn load(source: &dyn Source, selection: &Selection) -> Result<Block, Failure> {
        let mut bytes = Vec::new();
        let size = selection.count().saturating_mul(selection.dtype.bytes());
        bytes.try_reserve_exact(size).map_err(|_| {
            Failure::Problem(format!(
                "there is no memory for {size} bytes: take a smaller slice of '{}'",
                selection.label
            ))
        })?;
        source.stream(selection, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(Block { dtype: selection.dtype.clone(), order: selection.order, shape: selection.shape(), bytes })
    }

    /// How many elements there are.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// The element at `index`, one number per axis of the shape.
    pub fn at(&self, index: &[usize]) -> Value {
        let axes = index.iter().zip(&self.shape);
        let fold = |place: usize, (index, length): (&usize, &usize)| place * length + index;
        let place = match self.order {
            Order::C => axes.fold(0, fold),
            Order::Fortran => axes.rev().fold(0, fold),
        };
        let size = self.dtype.bytes();
        decode(&self.dtype, self.bytes.get(place * size..).unwrap_or_default())
    }

    /// Every index, the last axis running fastest whatever the order in memory is.
    pub fn indices(&self) -> Indices {
        Indices { next: (self.count() > 0).then(|| vec![0; self.shape.len()]), shape: self.shape.clone() }
    }
}

/// Walks over every index of a shape, the last axis fastest.
pub struct Indices {
    next: Option<Vec<usize>>,
    shape: Vec<usize>,
}

impl Iterator for Indices {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let index = self.next.take()?;
        let mut following = index.clone();
        for axis in (0..self.shape.len()).rev() {
            following[axis] += 1;
            if following[axis] < self.shape[axis] {
                self.next = Some(following);
                break;
            }
            following[axis] = 0;
        }
        Some(index)
    }
}

/// Reads the selected elements of a variable, in the order in which they lie in memory.
fn stream(read: &Read, selection: &Selection, sink: &mut Sink) -> Result<(), Failure> {
    if selection.count() == 0 {
        return Ok(());
    }
    let plan = Plan::new(selection);
    let mut reader = Reader { read, page: Vec::new(), page_offset: 0, end: plan.end };
    let mut piece: Vec<u8> = Vec::new();
    let mut places = vec![0; plan.outer.len()];
    loop {
        let mut offset = plan.base;
        for (place, (axis, stride)) in places.iter().zip(&plan.outer) {
            offset += axis.index(*place) * stride;
        }
        let mut left = plan.run_bytes;
        while left > 0 {
            let count = left.min(PIECE_BYTES - piece.len());
            let from = piece.len();
            piece.resize(from + count, 0);
            reader.fill(offset, &mut piece[from..], plan.dense)?;
            (offset, left) = (offset + count, left - count);
            if piece.len() == PIECE_BYTES {
                sink(&piece)?;
                piece.clear();
            }
        }
        let more = (0..places.len()).rev().any(|axis| {
            places[axis] += 1;
            let within = places[axis] < plan.outer[axis].0.count;
            if !within {
                places[axis] = 0;
            }
            within
        });
        if !more {
            return if piece.is_empty() { Ok(()) } else { sink(&piece) };
        }
    }
}

/// The selection as runs of bytes: where the first begins, how long they are, and which axes lead from one to the next.
struct Plan {
    base: usize,
    run_bytes: usize,
    /// Axes that lead to other runs with the bytes between their elements, the slowest first.
    outer: Vec<(crate::slice::Axis, usize)>,
    /// Whether neighbouring runs lie so close that reading whole pages pays.
    dense: bool,
    /// Bytes of the whole variable.
    end: usize,
}

impl Plan {
    fn new(selection: &Selection) -> Plan {
        let mut stride = selection.stride_bytes;
        let mut fastest_first: Vec<_> = match selection.order {
            Order::C => selection.axes.iter().rev().collect(),
            Order::Fortran => selection.axes.iter().collect(),
        };
        let mut outer: Vec<_> = fastest_first
            .drain(..)
            .map(|axis| {
                let this = (*axis, stride);
                stride *= axis.length;
                this
            })
            .collect();
        let mut base = selection.field_bytes;
        let mut run_bytes = selection.dtype.bytes();
        // While elements lie side by side they join the run, up to the first axis that is taken only in part.
        while let Some((axis, stride)) = outer.first().copied() {
            if run_bytes != stride || !axis.is_run() {
                break;
            }
            base += axis.start * stride;
            run_bytes *= axis.count;
            outer.remove(0);
            if !axis.is_whole() {
                break;
            }
        }
        let pace =
            outer.iter().find(|(axis, _)| axis.count > 1).map(|(axis, stride)| axis.step.unsigned_abs() * stride);
        let dense = run_bytes < PAGE_BYTES && pace.is_some_and(|pace| pace < PAGE_BYTES);
        outer.reverse();
        Plan { base, run_bytes, outer, dense, end: stride }
    }
}

/// Reads runs, keeping the last page when runs are dense.
struct Reader<'a> {
    read: &'a Read<'a>,
    page: Vec<u8>,
    page_offset: usize,
    end: usize,
}

impl Reader<'_> {
    fn fill(&mut self, offset: usize, into: &mut [u8], dense: bool) -> Result<(), Failure> {
        if !dense {
            return (self.read)(offset, into);
        }
        let last = offset + into.len();
        if offset < self.page_offset || last > self.page_offset + self.page.len() {
            let from = offset / PAGE_BYTES * PAGE_BYTES;
            let to = last.next_multiple_of(PAGE_BYTES).min(self.end);
            self.page.resize(to - from, 0);
            self.page_offset = from;
            (self.read)(from, &mut self.page)?;
        }
        into.copy_from_slice(&self.page[offset - self.page_offset..last - self.page_offset]);
        Ok(())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::slice::{Index, select};
    use proptest::prelude::*;
    use std::cell::RefCell;

    /// Bytes in memory that note what was read of them.
    pub struct Memory {
        pub bytes: Vec<u8>,
        pub reads: RefCell<Vec<(usize, usize)>>,
    }

    impl Memory {
        pub fn new(bytes: Vec<u8>) -> Memory {
            Memory { bytes, reads: RefCell::default() }
        }
    }

    impl Source for Memory {
        fn stream(&self, selection: &Selection, sink: &mut Sink) -> Result<(), Failure> {
            let read = |offset: usize, into: &mut [u8]| {
                self.reads.borrow_mut().push((offset, into.len()));
                into.copy_from_slice(&self.bytes[offset..offset + into.len()]);
                Ok(())
            };
            stream(&read, selection, sink)
        }
    }

    pub fn selection(dtype: DType, order: Order, shape: &[usize], indices: &[Index]) -> Selection {
        Selection {
            variable: "u".into(),
            label: "u".into(),
            units: String::new(),
            stride_bytes: dtype.bytes(),
            field_bytes: 0,
            dtype,
            order,
            axes: select(indices, shape).unwrap(),
        }
    }

    fn index() -> impl Strategy<Value = Index> {
        let bound = || proptest::option::of(-8i64..8);
        prop_oneof![
            (bound(), bound(), proptest::option::of(prop_oneof![-3i64..0, 1i64..4]))
                .prop_map(|(start, stop, step)| Index::Span { start, stop, step }),
            (-2i64..2).prop_map(Index::At),
        ]
    }

    proptest! {
        /// The model: look up every element by its index in the source.
        #[test]
        fn a_block_holds_what_indexing_element_by_element_finds(
            shape in proptest::collection::vec(2usize..7, 0..4),
            indices in proptest::collection::vec(index(), 0..4),
            fortran: bool,
            field: bool,
            edge in proptest::option::of(1usize..3),
        ) {
            let indices = &indices[..indices.len().min(shape.len())];
            let order = if fortran { Order::Fortran } else { Order::C };
            let record = DType::packed([("a", DType::Int(2)), ("b", DType::Uint(4))]).unwrap();
            let count: usize = shape.iter().product();
            let bytes: Vec<u8> = (0..count as u32).flat_map(|place| {
                let mut element = vec![0xee; 2];
                element.extend(place.to_ne_bytes());
                element
            }).collect();
            let mut wanted = selection(record.clone(), order, &shape, indices);
            if field {
                wanted.dtype = DType::Uint(4);
                wanted.field_bytes = 2;
            }
            if let Some(edge) = edge {
                wanted = wanted.abbreviate(edge);
            }
            let block = Block::load(&Memory::new(bytes), &wanted).unwrap();
            prop_assert_eq!(block.indices().count(), block.count());
            for index in block.indices() {
                let mut rest = index.iter();
                let source: Vec<usize> = wanted.axes.iter()
                    .map(|axis| axis.index(if axis.dropped { 0 } else { *rest.next().unwrap() }))
                    .collect();
                let pairs: Vec<(usize, usize)> = source.into_iter().zip(shape.iter().copied()).collect();
                let place = match order {
                    Order::C => pairs.iter().fold(0, |place, (index, length)| place * length + index),
                    Order::Fortran => pairs.iter().rev().fold(0, |place, (index, length)| place * length + index),
                };
                let found = match block.at(&index) {
                    Value::Record(fields) => fields[1].1.clone(),
                    plain => plain,
                };
                prop_assert_eq!(found, Value::Uint(place as u64));
            }
        }
    }

    #[test]
    fn only_what_the_slice_needs_is_read() {
        let memory = Memory::new(vec![0; 1 << 20]);
        let read = |shape: &[usize], indices: &[Index]| {
            memory.reads.take();
            memory.stream(&selection(DType::Float(8), Order::C, shape, indices), &mut |_| Ok(())).unwrap();
            memory.reads.take()
        };
        let all = Index::Span { start: None, stop: None, step: None };
        assert_eq!(read(&[128, 1024], &[Index::At(3)]), [(3 * 8192, 8192)], "a row is one run");
        assert_eq!(read(&[128, 1024], &[all, Index::At(5)]).len(), 128, "a column is one element per row");
        assert!(read(&[128, 1024], &[all, Index::At(5)]).iter().all(|(_, bytes)| *bytes == 8));
        let even = Index::Span { start: None, stop: Some(2048), step: Some(2) };
        assert_eq!(read(&[1 << 17], &[even]), [0, 1, 2, 3].map(|page| (page * 4096, 4096)), "close ones share pages");
        assert_eq!(read(&[128, 1024], &[]), [(0, 1 << 20)], "the whole is read in long pieces");
        assert_eq!(read(&[0, 7], &[]), [], "nothing is nothing");
    }
}
