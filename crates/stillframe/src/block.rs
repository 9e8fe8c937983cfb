//! Boxes of arrays.

/// A box of an array: the index of its first element, and its extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Index of the first element, for each dimension.
    pub offset: Vec<usize>,
    /// Extents.
    pub shape: Vec<usize>,
}

impl Block {
    /// The box of this shape at this index.
    pub fn new(offset: &[usize], shape: &[usize]) -> Block {
        Block { offset: offset.to_vec(), shape: shape.to_vec() }
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|extent| *extent as u64).product()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    fn end(&self, dimension: usize) -> usize {
        self.offset[dimension] + self.shape[dimension]
    }

    /// Whether both have something of the same array.
    pub(crate) fn meets(&self, other: &Block) -> bool {
        let common = |d: usize| self.offset[d].max(other.offset[d]) < self.end(d).min(other.end(d));
        (0..self.shape.len()).all(common)
    }

    /// What both have of the same array, if there is anything.
    pub fn overlap(&self, other: &Block) -> Option<Block> {
        if !self.meets(other) {
            return None;
        }
        let dimensions = 0..self.shape.len();
        let offset: Vec<usize> = dimensions.clone().map(|d| self.offset[d].max(other.offset[d])).collect();
        let shape = dimensions.map(|d| self.end(d).min(other.end(d)) - offset[d]).collect();
        Some(Block { offset, shape })
    }

    /// What is left of it without another, as boxes: for each dimension what lies before and behind, and of the rest the
    /// same for the next dimension.
    pub fn without(&self, other: &Block) -> Vec<Block> {
        let Some(common) = self.overlap(other) else { return vec![self.clone()] };
        let (mut rest, mut left) = (self.clone(), Vec::new());
        for d in 0..self.shape.len() {
            for (start, end) in [(rest.offset[d], common.offset[d]), (common.end(d), rest.end(d))] {
                if start < end {
                    let mut piece = rest.clone();
                    (piece.offset[d], piece.shape[d]) = (start, end - start);
                    left.push(piece);
                }
            }
            (rest.offset[d], rest.shape[d]) = (common.offset[d], common.shape[d]);
        }
        left
    }
}

impl std::fmt::Display for Block {
    /// As a slice is written: `[0:512, 7:8]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranges: Vec<String> =
            (0..self.shape.len()).map(|d| format!("{}:{}", self.offset[d], self.end(d))).collect();
        write!(f, "[{}]", ranges.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_box_and_what_is_taken_from_it_are_all_of_it_and_apart() {
        let whole = Block::new(&[2, 3], &[5, 6]);
        for (offset, shape) in
            [([4, 4], [2, 2]), ([0, 0], [4, 20]), ([2, 3], [5, 6]), ([6, 8], [9, 9]), ([0, 4], [9, 1])]
        {
            let other = Block::new(&offset, &shape);
            let mut blocks = whole.without(&other);
            blocks.extend(whole.overlap(&other));
            assert_eq!(blocks.iter().map(Block::elements).sum::<u64>(), 30, "{other}");
            for (index, block) in blocks.iter().enumerate() {
                assert_eq!(block.overlap(&whole).as_ref(), Some(block), "{other}");
                assert!(blocks[..index].iter().all(|before| before.overlap(block).is_none()), "{other}");
            }
        }
        assert_eq!(whole.without(&Block::new(&[7, 3], &[1, 6])), std::slice::from_ref(&whole), "beside it");
        let number = Block::new(&[], &[]);
        assert_eq!(
            (number.elements(), number.overlap(&number), number.without(&number)),
            (1, Some(number.clone()), vec![])
        );
    }
}
