//! What a publish is given: the version's name, and where tracked variables are.

use crate::producer::numbered::Numbered;
use crate::variable::Attributes;
use crate::working::dirty::{Subrange, Zeros};
use crate::working::layout::Placed;
use crate::working::tracked::Given;
use std::ops::Deref;
use stillframe_segment::Order;

/// What a version is called, and what is said of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Label {
    pub(crate) number: u64,
    /// Nanoseconds since 1970; the time of the commit if there are none.
    pub(crate) published_ns: Option<u64>,
    pub(crate) attributes: Attributes,
}

/// Axes whose lengths take no memory of their own.
const AXES_FEW: usize = 4;

/// The lengths of the axes of what is given: most arrays have few, and then no memory is taken for them.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Few { lengths: [usize; AXES_FEW], axes: usize },
    Many(Box<[usize]>),
}

impl From<&[usize]> for Shape {
    fn from(shape: &[usize]) -> Shape {
        let mut lengths = [0; AXES_FEW];
        match lengths.get_mut(..shape.len()) {
            Some(few) => {
                few.copy_from_slice(shape);
                Shape::Few { lengths, axes: shape.len() }
            }
            None => Shape::Many(shape.into()),
        }
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        match self {
            Shape::Few { lengths, axes } => &lengths[..*axes],
            Shape::Many(lengths) => lengths,
        }
    }
}

/// Where a tracked variable is this time.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) id: u32,
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) shape: Shape,
    pub(crate) order: Order,
    /// Of a section: where its elements lie. The address is that of the lowest.
    pub(crate) section: Option<Box<Placed>>,
    pub(crate) subrange: Option<Box<Subrange>>,
    /// What is known to be zeros, if the caller knows.
    pub(crate) zeros: Option<Box<Zeros>>,
}

impl Input {
    pub(crate) fn given(&self) -> Given<'_> {
        Given { address: self.address, bytes: self.bytes, section: self.section.as_deref() }
    }

    /// Whether all of it is published, and is an array of the variable's own elements one behind the other.
    pub(crate) fn is_plain(&self) -> bool {
        self.section.is_none() && self.subrange.is_none() && self.zeros.is_none()
    }

    /// Bytes of memory from the first that is read to the last.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.section.as_ref().map_or(self.bytes, |placed| placed.layout.span_bytes())
    }
}

/// What is given for one version: at most one input for each variable.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// By the variables' numbers.
    list: Numbered<Input>,
}

impl Inputs {
    /// Nothing, with the room that these had.
    pub(crate) fn emptied(mut self) -> Inputs {
        self.list.clear();
        self
    }

    /// What is given for a variable.
    pub(crate) fn get(&self, id: u32) -> Option<&Input> {
        self.list.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Input> {
        self.list.get_mut(id)
    }

    /// Adds what is given for a variable, in place of what was given for it before.
    pub(crate) fn insert(&mut self, input: Input) {
        self.list.insert(input.id, input);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Input> {
        self.list.values()
    }
}
