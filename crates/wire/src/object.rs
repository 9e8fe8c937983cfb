//! Which object is meant.

use std::num::NonZeroU64;

use crate::{fault::Fault, item::Item, reader::Reader, writer::Writer};

/// An object, whatever it is called: the number that its description has. Another object of the same name has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub NonZeroU64);

impl Item for ObjectId {
    const LEAST_BYTES: usize = 8;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.0.get());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let offset = from.at();
        NonZeroU64::new(from.item()?).map(Self).ok_or_else(|| from.invalid(offset, "no object has the number 0"))
    }
}
