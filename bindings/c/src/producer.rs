//! What a region's handle stands for.

use crate::beginning::Beginning;
use crate::handle::{self, Handled, Table};
use crate::kind::Kind;
use crate::variables::Variables;
use engine::{Attributes, Region};

/// A region, by its producer. The files it names are observed by others.
pub struct stillframe_region(());

/// What a handle of a region stands for.
pub struct Producer {
    pub region: Region,
    pub variables: Variables,
    /// Of the next version.
    pub attributes: Attributes,
    /// What it begins with, if it was recovered.
    pub beginning: Option<Beginning>,
    /// Handles of loans that may be open, as numbers.
    pub loans: Vec<usize>,
}

impl Handled for Producer {
    type Opaque = stillframe_region;
    const KIND: Kind = Kind::Region;
    fn table() -> &'static Table<Producer> {
        static TABLE: Table<Producer> = Table::new();
        &TABLE
    }
}

/// The handle of a region that was made just now.
pub fn insert(region: Region, beginning: Option<Beginning>) -> *mut stillframe_region {
    let (variables, attributes, loans) = (Variables::default(), Attributes::new(), Vec::new());
    handle::insert(Producer { region, variables, attributes, beginning, loans })
}
