//! Whether the other side is there.

use crate::{bounds::NAME_BYTES_MAX, fault::Fault, item::Item, reader::Reader, writer::Writer};

/// The last message of a conversation that went well.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bye {
    /// Why it ends, for people: at most [`NAME_BYTES_MAX`] bytes.
    pub why: String,
}

impl Item for Bye {
    const LEAST_BYTES: usize = 4;

    fn write(&self, to: &mut Writer<'_>) {
        to.text(&self.why);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { why: from.text("a reason", 0, NAME_BYTES_MAX)? })
    }
}
