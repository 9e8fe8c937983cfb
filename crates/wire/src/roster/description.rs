//! What an object is, from a node that has it.

use stillframe_roster::writer::Version;

use crate::{
    bounds::NAME_BYTES_MAX, data::FragmentText, fault::Fault, item::Item, object::ObjectId, reader::Reader,
    writer::Writer,
};

/// Asks a node what an object is that it spoke of, whose name leads to another object where names are kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Describe {
    /// The object.
    pub object: ObjectId,
    /// Its name.
    pub name: String,
}

/// What an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The object.
    pub object: ObjectId,
    /// Its name.
    pub name: String,
    /// The version that exists at once, and is zeros.
    pub initial: Version,
    /// Its text, and numbers of the names that the text leaves open.
    pub text: FragmentText,
}

impl Item for Describe {
    const LEAST_BYTES: usize = 8 + 5;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.object);
        to.text(&self.name);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let object = from.item()?;
        Ok(Self { object, name: from.text("an object's name", 1, NAME_BYTES_MAX)? })
    }
}

impl Item for Description {
    const LEAST_BYTES: usize = 8 + 5 + 8 + FragmentText::LEAST_BYTES;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.object);
        to.text(&self.name);
        to.item(&self.initial);
        to.item(&self.text);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let object = from.item()?;
        let name = from.text("an object's name", 1, NAME_BYTES_MAX)?;
        Ok(Self { object, name, initial: from.item()?, text: from.item()? })
    }
}
