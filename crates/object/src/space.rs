//! One space of indices for all elements of an object, whatever its variables and fields.
//!
//! Each leaf of the dataset is one index along a first axis; leaves with fewer axes than others have further ones of extent 1.

use drepl::index_box::TooScattered;
use drepl::{Dataset, Fragment, IndexBox, IndexSet, Progression};
use std::fmt::Write as _;
use std::sync::Arc;

/// The space of a dataset.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    dataset: Arc<Dataset>,
    axes: usize,
}

fn single(index: u64) -> Progression {
    // A progression of one index ends before any number does.
    Progression::range(index, index + 1).unwrap_or_else(|| unreachable!("one index is a progression"))
}

impl Space {
    pub(crate) fn new(dataset: &Arc<Dataset>) -> Space {
        let axes = dataset.leaves().iter().map(|leaf| leaf.extents.len()).max().unwrap_or(0);
        Space { dataset: dataset.clone(), axes }
    }

    fn boxed(&self, leaf: u32, elements: &IndexBox) -> Option<IndexBox> {
        let own = elements.axes().iter().copied();
        let padding = std::iter::repeat_n(single(0), self.axes - elements.rank());
        IndexBox::new(std::iter::once(single(leaf.into())).chain(own).chain(padding))
    }

    /// All elements of the object.
    pub(crate) fn shape(&self) -> Result<IndexSet, TooScattered> {
        let leaves = self.dataset.leaves().iter().enumerate();
        let boxes = leaves.filter_map(|(leaf, about)| self.boxed(leaf as u32, &IndexBox::all(&about.extents)?));
        IndexSet::of(boxes.collect::<Vec<_>>())
    }

    /// The elements of a fragment.
    pub(crate) fn elements(&self, fragment: &Fragment) -> Result<IndexSet, TooScattered> {
        let parts = fragment.parts().iter();
        IndexSet::of(parts.filter_map(|part| self.boxed(part.leaf.0, &part.elements)).collect::<Vec<_>>())
    }

    /// Elements as people write them: `grid[0..4, 0..8]`. Of many boxes the first ones.
    pub(crate) fn shown(&self, elements: &IndexSet) -> String {
        const SHOWN_MAX: usize = 3;
        let mut text = String::new();
        for (position, one) in elements.boxes().iter().take(SHOWN_MAX).enumerate() {
            let (leaf, indices) = match one.axes().split_first() {
                Some((leaf, indices)) => (leaf.start(), indices),
                None => continue,
            };
            let about = &self.dataset.leaves()[leaf as usize];
            let own = IndexBox::new(indices[..about.extents.len()].iter().copied());
            let name = self.dataset.leaf_name(drepl::dataset::LeafId(leaf as u32));
            let _ = write!(text, "{}{name}", if position == 0 { "" } else { ", " });
            if let Some(own) = own.filter(|own| own.rank() > 0) {
                let _ = write!(text, "[{own}]");
            }
        }
        match elements.boxes().len().saturating_sub(SHOWN_MAX) {
            0 if text.is_empty() => text.push_str("no elements"),
            0 => {}
            more => {
                let _ = write!(text, " and {more} more boxes");
            }
        }
        text
    }
}
