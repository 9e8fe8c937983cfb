//! What a publish is given: the version's name, and where tracked variables are.

use crate::variable::Attributes;
use crate::working::dirty::{Subrange, Zeros};
use crate::working::layout::Placed;
use crate::working::tracked::Given;
use stillframe_segment::Order;

/// What a version is called, and what is said of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Label {
    pub(crate) number: u64,
    /// Nanoseconds since 1970; the time of the commit if there are none.
    pub(crate) published_ns: Option<u64>,
    pub(crate) attributes: Attributes,
}

/// Where a tracked variable is this time.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) id: u32,
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) shape: Vec<usize>,
    pub(crate) order: Order,
    /// Of a section: where its elements lie. The address is that of the lowest.
    pub(crate) section: Option<Placed>,
    pub(crate) subrange: Option<Subrange>,
    /// What is known to be zeros, if the caller knows.
    pub(crate) zeros: Option<Zeros>,
}

impl Input {
    pub(crate) fn given(&self) -> Given<'_> {
        Given { address: self.address, bytes: self.bytes, section: self.section.as_ref() }
    }

    /// Bytes of memory from the first that is read to the last.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.section.as_ref().map_or(self.bytes, |placed| placed.layout.span_bytes())
    }
}
