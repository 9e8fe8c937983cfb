//! What fragments mean, element by element: slow, and simple enough to be believed. And fragments made at random.

#![allow(dead_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::numbers;
use drepl::{
    Dataset, Fragment, IndexBox, Part, Progression, Source,
    dataset::{LeafId, Object},
    transfer::{Float, Transfer},
    types::{ByteOrder, Primitive, Type},
};

pub use crate::dice::Dice;

/// Indices of one element, outermost first.
pub type Element = Vec<u64>;

pub fn elements(of: &IndexBox) -> Vec<Element> {
    let mut found = vec![Vec::new()];
    for axis in of.axes() {
        found = found
            .iter()
            .flat_map(|head| axis.iter().map(move |index| head.iter().copied().chain([index]).collect()))
            .collect();
    }
    found
}

/// The elements of boxes, which have to share none.
pub fn disjoint<'a>(boxes: impl IntoIterator<Item = &'a IndexBox>) -> BTreeSet<Element> {
    let mut all = BTreeSet::new();
    for one in boxes {
        for element in elements(one) {
            assert!(all.insert(element.clone()), "{element:?} is in two boxes");
        }
    }
    all
}

/// One or two objects with leaves of ranks 0 to 5 and of some hundred elements at most.
pub fn dataset(dice: &mut Dice) -> Arc<Dataset> {
    let objects = (0..dice.roll(1, 2)).map(|number| {
        let rank = dice.roll(0, 5);
        let largest = [1, 60, 14, 7, 5, 4][rank as usize];
        let inner = dice.roll(0, rank);
        let extents: Vec<u64> = (0..rank).map(|_| dice.roll(1, largest)).collect();
        let array = |extents: &[u64], element| match extents.is_empty() {
            true => element,
            false => Type::array(extents.to_vec(), element),
        };
        let leaf = array(&extents[inner as usize..], primitive(dice));
        let kind = match dice.one_in(2) {
            true => array(&extents[..inner as usize], leaf),
            false => {
                let record = Type::record([("first", leaf), ("second", primitive(dice))]);
                array(&extents[..inner as usize], record)
            }
        };
        Object { name: format!("object{number}").into(), kind }
    });
    Arc::new(Dataset::new(objects.collect()).unwrap())
}

fn primitive(dice: &mut Dice) -> Type {
    use Primitive::*;
    Type::Primitive(*dice.pick(&[
        Bool,
        Int8,
        UInt16,
        Bfloat16,
        Float32,
        Int64,
        Float16,
        Float64,
        Complex64,
        Complex128,
        Text(3),
    ]))
}

pub fn progression(dice: &mut Dice, extent: u64) -> Progression {
    if dice.one_in(3) {
        return Progression::all(extent).unwrap();
    }
    let start = dice.roll(0, extent - 1);
    let step = if dice.one_in(2) { 1 } else { dice.roll(1, 5) };
    let count = dice.roll(1, (extent - 1 - start) / step + 1);
    Progression::new(start, step, count).unwrap()
}

pub fn index_box(dice: &mut Dice, extents: &[u64]) -> IndexBox {
    let axes: Vec<Progression> = extents.iter().map(|extent| progression(dice, *extent)).collect();
    IndexBox::new(axes).unwrap()
}

/// What elements are in a fragment: now and then floating-point numbers of another type.
fn held(dice: &mut Dice, of: Primitive) -> Primitive {
    use Primitive::*;
    let others: &[Primitive] = match Float::of(of) {
        Some((_, 1)) => &[Float16, Bfloat16, Float32, Float64],
        Some(_) => &[Complex64, Complex128],
        None => return of,
    };
    if dice.one_in(3) { *dice.pick(others) } else { of }
}

/// A fragment of up to `parts` parts, each with its axes in any order and direction, with holes and either byte order.
/// Parts may have elements in common, unless `once`.
pub fn fragment(dice: &mut Dice, dataset: &Arc<Dataset>, parts: u64, once: bool) -> Fragment {
    let mut end = dice.roll(0, 9);
    let mut made: Vec<Part> = Vec::new();
    for _ in 0..dice.roll(1, parts) {
        let leaf = LeafId(dice.roll(0, dataset.leaves().len() as u64 - 1) as u32);
        let own = &dataset.leaves()[leaf.0 as usize];
        let primitive = held(dice, own.primitive);
        let elements = index_box(dice, &own.extents);
        if once && made.iter().any(|part| part.leaf == leaf && part.elements.intersection(&elements).is_some()) {
            continue;
        }
        let mut order: Vec<usize> = (0..elements.rank()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, dice.roll(0, i as u64) as usize);
        }
        let mut offset_bytes = end;
        let mut strides_bytes: smallvec::SmallVec<[i64; 4]> = smallvec::smallvec![0; elements.rank()];
        let mut block = primitive.size_bytes();
        for axis in order {
            let count = elements.axes()[axis].count();
            let stride = block + if dice.one_in(3) { dice.roll(1, 5) } else { 0 };
            let reach = stride * (count - 1);
            strides_bytes[axis] = if count == 1 { 0 } else { stride as i64 };
            if count > 1 && dice.one_in(4) {
                strides_bytes[axis] = -(stride as i64);
                offset_bytes += reach;
            }
            block += reach;
        }
        end += block + if dice.one_in(3) { dice.roll(1, 7) } else { 0 };
        let byte_order = *dice.pick(&[ByteOrder::LittleEndian, ByteOrder::BigEndian]);
        made.push(Part { leaf, primitive, elements, offset_bytes, strides_bytes, byte_order });
    }
    Fragment::new(dataset.clone(), Vec::new(), made, end).unwrap()
}

pub fn sources(dice: &mut Dice, dataset: &Arc<Dataset>, most: u64) -> Vec<Source> {
    let count = dice.roll(0, most);
    (0..count)
        .map(|_| Source {
            fragment: Arc::new(fragment(dice, dataset, 3, false)),
            version: dice.roll(1, 3),
            cost: dice.roll(0, 2),
            readable: !dice.one_in(5),
        })
        .collect()
}

/// Where each byte of an element lies in a fragment, in the order from the most significant byte of each word.
pub fn bytes_of(part: &Part, element: &[u64]) -> Vec<usize> {
    let primitive = part.primitive;
    let mut offset = part.offset_bytes as i64;
    for (axis, index) in element.iter().enumerate() {
        let position = part.elements.axes()[axis].iter().position(|held| held == *index).unwrap();
        offset += position as i64 * part.strides_bytes[axis];
    }
    let word = primitive.word_bytes() as usize;
    let bytes: Vec<usize> = (0..primitive.size_bytes() as usize).map(|byte| offset as usize + byte).collect();
    match part.byte_order {
        ByteOrder::BigEndian => bytes,
        ByteOrder::LittleEndian => bytes.chunks(word).flat_map(|word| word.iter().rev().copied()).collect(),
    }
}

/// Version and cost of a source: the least is the best.
type Rank = (std::cmp::Reverse<u64>, u64);

/// Which source part each element of each wanted part comes from, if any: `(part, element) -> (source, part)`.
pub fn assignment(
    wanted: &Fragment,
    versions: std::ops::RangeInclusive<u64>,
    sources: &[Source],
) -> BTreeMap<(usize, Element), Option<(usize, usize)>> {
    let mut all = BTreeMap::new();
    for (number, part) in wanted.parts().iter().enumerate() {
        for element in elements(&part.elements) {
            let mut best: Option<(Rank, (usize, usize))> = None;
            for (position, source) in sources.iter().enumerate() {
                if !source.readable || !versions.contains(&source.version) {
                    continue;
                }
                for (own, held) in source.fragment.parts().iter().enumerate() {
                    let rank = (std::cmp::Reverse(source.version), source.cost);
                    let has = held.leaf == part.leaf && held.elements.contains(&element);
                    if has && best.as_ref().is_none_or(|(least, _)| rank < *least) {
                        best = Some((rank, (position, own)));
                    }
                }
            }
            all.insert((number, element), best.map(|found| found.1));
        }
    }
    all
}

/// Copies one element, and converts it where the parts are of different types.
pub fn copy(element: &[u64], from: &Part, source: &[u8], to: &Part, destination: &mut [u8]) {
    let (read, written) = (bytes_of(from, element), bytes_of(to, element));
    if from.primitive == to.primitive {
        return read.into_iter().zip(written).for_each(|(read, written)| destination[written] = source[read]);
    }
    let float = |primitive| Float::of(primitive).unwrap().0;
    let (old, new) = (float(from.primitive), float(to.primitive));
    let words = read.chunks(old.size_bytes() as usize).zip(written.chunks(new.size_bytes() as usize));
    for (read, written) in words {
        let bits = read.iter().fold(0, |bits, place| bits << 8 | u64::from(source[*place]));
        let bits = numbers::converted(bits, old, new);
        written.iter().rev().zip(bits.to_le_bytes()).for_each(|(place, byte)| destination[*place] = byte);
    }
}

/// The destination after each element was copied by itself.
pub fn convert(
    wanted: &Fragment,
    assignment: &BTreeMap<(usize, Element), Option<(usize, usize)>>,
    sources: &[Source],
    buffers: &[Vec<u8>],
    destination: &mut [u8],
) {
    for ((number, element), found) in assignment {
        let Some((source, part)) = *found else { continue };
        let held = &sources[source].fragment.parts()[part];
        copy(element, held, &buffers[source], &wanted.parts()[*number], destination);
    }
}

/// Carries out a transfer run by run, byte by byte.
pub fn interpret(transfer: &Transfer, source: &[u8], destination: &mut [u8]) {
    numbers::interpret(transfer.conversions(), source, destination);
    for one in transfer.moves() {
        let mut runs = vec![(one.from as i64, one.to as i64)];
        for axis in &one.axes {
            runs = runs
                .iter()
                .flat_map(|(from, to)| {
                    (0..axis.count as i64).map(move |i| (from + i * axis.from_bytes, to + i * axis.to_bytes))
                })
                .collect();
        }
        for (from, to) in runs {
            let swap = u64::from(one.swap_bytes);
            for byte in 0..one.run_bytes {
                let turned = byte / swap * swap + (swap - 1 - byte % swap);
                destination[(to as u64 + byte) as usize] = source[(from as u64 + turned) as usize];
            }
        }
    }
}
