//! What a reader's runtime asks for.

use drepl::Bindings;
use stillframe_roster::writer::{Elements, Version, Writer as Name};

use crate::{
    bounds::{NAME_BYTES_MAX, TEXT_BYTES_MAX},
    fault::Fault,
    item::Item,
    object::ObjectId,
    reader::Reader,
    writer::Writer,
};

/// A fragment, as the program described it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FragmentText {
    /// In the layout language.
    pub text: String,
    /// Numbers of the names that the text leaves open.
    pub bindings: Bindings,
}

/// Asks the runtime of writers for elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribe {
    /// How both sides call it from now on: the asking side has no other of this number.
    pub subscription: u64,
    /// The object.
    pub object: ObjectId,
    /// Its name.
    pub name: String,
    /// The fragment that they are for.
    pub fragment: FragmentText,
    /// Which elements are wanted, in the object's indices.
    pub elements: Elements,
    /// Of which of the node's writers, ascending: those that have them, as the home says.
    pub writers: Vec<Name>,
    /// Of which version. Memory for it waits at the asking side.
    pub version: Version,
    /// The version of which the fragment has the elements of these writers already: what has not changed since need not be sent.
    pub has: Option<Version>,
}

/// Asks for them no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unsubscribe {
    /// Which.
    pub subscription: u64,
}

/// What a number of a text takes in memory besides its name: a place of a tree, of which half may be free, and of a list.
const BINDING_BYTES: usize = 3 * size_of::<(String, i64)>();

impl Item for FragmentText {
    const LEAST_BYTES: usize = 8;

    fn write(&self, to: &mut Writer<'_>) {
        to.text(&self.text);
        to.count(self.bindings.iter().count());
        for (name, value) in self.bindings.iter() {
            to.text(name);
            to.item(&value);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let text = from.text("a fragment's text", 0, TEXT_BYTES_MAX)?;
        let mut offset = from.at();
        // A name has one character at least.
        let count = from.count(4 + 1 + 8)?;
        from.charge(count * BINDING_BYTES, offset)?;
        let (mut bindings, mut last) = (Bindings::new(), None);
        for _ in 0..count {
            offset = from.at();
            let name = from.text("a number's name", 1, NAME_BYTES_MAX)?;
            from.check(last.is_none_or(|last| last < name), offset, "names of numbers do not ascend")?;
            bindings.set(name.clone(), from.item()?);
            last = Some(name);
        }
        Ok(Self { text, bindings })
    }
}

impl Item for Subscribe {
    const LEAST_BYTES: usize = 46;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.subscription);
        to.item(&self.object);
        to.text(&self.name);
        to.item(&self.fragment);
        to.item(&self.elements);
        to.item(&self.writers);
        to.item(&self.version);
        to.item(&self.has);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let (subscription, object) = (from.item()?, from.item()?);
        Ok(Self {
            subscription,
            object,
            name: from.text("an object's name", 1, NAME_BYTES_MAX)?,
            fragment: from.item()?,
            elements: from.item()?,
            writers: from.ascending(|writer: &Name| *writer, "writers do not ascend")?,
            version: from.item()?,
            has: from.item()?,
        })
    }
}

impl Item for Unsubscribe {
    const LEAST_BYTES: usize = 8;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.subscription);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { subscription: from.item()? })
    }
}
