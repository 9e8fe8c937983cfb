//! Row-major arrays cut into boxes that are runs of their bytes, so that no more than one of them is in memory.

/// A box of an array, and where its bytes are.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Index of the first element.
    pub start: Vec<usize>,
    /// Elements along each dimension.
    pub count: Vec<usize>,
    /// Offset of the first byte.
    pub offset: usize,
    /// Number of bytes.
    pub bytes: usize,
}

/// The shape of the largest box that takes at most `bytes_max` (or is one element) and is a run of bytes: ones, then a
/// part of a dimension, then whole dimensions.
pub fn box_shape(shape: &[usize], element_bytes: usize, bytes_max: usize) -> Vec<usize> {
    let mut count = vec![1; shape.len()];
    let mut bytes = element_bytes.max(1);
    for axis in (0..shape.len()).rev() {
        count[axis] = shape[axis].min(bytes_max / bytes).max(1);
        if count[axis] < shape[axis] {
            break;
        }
        bytes *= count[axis];
    }
    count
}

/// All pieces of an array, ascending; none if it is empty.
pub fn pieces(shape: &[usize], element_bytes: usize, bytes_max: usize) -> impl Iterator<Item = Piece> {
    let most = box_shape(shape, element_bytes, bytes_max);
    let shape = shape.to_vec();
    let mut start = shape.iter().all(|length| *length > 0).then(|| vec![0; shape.len()]);
    let mut offset = 0;
    std::iter::from_fn(move || {
        let here = start.take()?;
        let count: Vec<usize> =
            here.iter().zip(&most).zip(&shape).map(|((at, most), end)| *most.min(&(end - at))).collect();
        let piece =
            Piece { bytes: count.iter().product::<usize>() * element_bytes, start: here.clone(), count, offset };
        offset += piece.bytes;
        // The next box, as a number is counted up whose last digit goes by the box's length.
        let mut next = here;
        start = (0..shape.len()).rev().find_map(|axis| {
            next[axis] += piece.count[axis];
            if next[axis] < shape[axis] {
                return Some(next.clone());
            }
            next[axis] = 0;
            None
        });
        Some(piece)
    })
}

/// The runs of bytes of which a box of an array consists, ascending, as offset and length; as few as there can be.
pub fn runs(shape: &[usize], start: &[usize], count: &[usize], element_bytes: usize) -> Vec<(usize, usize)> {
    if count.contains(&0) {
        return Vec::new();
    }
    // From this axis on a run has all that the box has: the axes behind it are whole.
    let whole = (0..shape.len()).rev().find(|axis| count[*axis] != shape[*axis]).unwrap_or(0);
    let length: usize = count[whole..].iter().product::<usize>() * element_bytes;
    let number: usize = count[..whole].iter().product();
    let offset_of = |mut index: usize| {
        let mut at = start.to_vec();
        for axis in (0..whole).rev() {
            at[axis] += index % count[axis];
            index /= count[axis];
        }
        at.iter().zip(shape).fold(0, |offset, (at, length)| offset * length + at) * element_bytes
    };
    (0..number).map(|index| (offset_of(index), length)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_is_one_piece_and_an_empty_array_none() {
        let number: Vec<Piece> = pieces(&[], 8, 100).collect();
        assert_eq!(number, [Piece { start: vec![], count: vec![], offset: 0, bytes: 8 }]);
        assert_eq!(pieces(&[3, 0, 2], 8, 100).count(), 0);
    }

    #[test]
    fn boxes_are_as_large_as_allowed() {
        assert_eq!(box_shape(&[10, 20, 30], 8, 2 * 30 * 8), [1, 2, 30]);
        assert_eq!(box_shape(&[10, 20, 30], 8, usize::MAX), [10, 20, 30]);
        assert_eq!(box_shape(&[10, 20, 30], 8, 1), [1, 1, 1], "one element whatever it takes");
    }

    #[test]
    fn a_box_is_read_in_as_few_runs_as_there_can_be() {
        assert_eq!(runs(&[4, 5], &[0, 0], &[4, 5], 8), [(0, 160)]);
        assert_eq!(runs(&[4, 5], &[1, 0], &[2, 5], 8), [(40, 80)]);
        assert_eq!(runs(&[4, 5], &[1, 1], &[2, 3], 8), [(48, 24), (88, 24)]);
        assert_eq!(runs(&[2, 3, 4], &[0, 1, 0], &[2, 2, 4], 1), [(4, 8), (16, 8)]);
        assert_eq!(runs(&[], &[], &[], 8), [(0, 8)]);
    }

    proptest! {
        /// Laid out at their indices, the pieces are the array, byte for byte.
        #[test]
        fn pieces_are_runs_that_cover_the_array(
            shape in proptest::collection::vec(1usize..6, 0..4), element in 1usize..5, most in 1usize..200,
        ) {
            let mut end = 0;
            for piece in pieces(&shape, element, most) {
                prop_assert_eq!(piece.offset, end);
                prop_assert!(piece.bytes <= most || piece.bytes == element);
                let first = piece.start.iter().zip(&shape).fold(0, |index, (at, length)| index * length + at);
                prop_assert_eq!(first * element, piece.offset);
                let last: Vec<usize> = piece.start.iter().zip(&piece.count).map(|(at, count)| at + count - 1).collect();
                let last = last.iter().zip(&shape).fold(0, |index, (at, length)| index * length + at);
                prop_assert_eq!((last + 1) * element, piece.offset + piece.bytes);
                end += piece.bytes;
            }
            prop_assert_eq!(end, shape.iter().product::<usize>() * element);
        }
    }
}
