//! Who writes an object on all nodes, from its home, and how their fragments lie, to the home.

use stillframe_roster::writer::{Revision, Version, Writer as Name};

use crate::{
    bounds::NAME_BYTES_MAX, data::FragmentText, fault::Fault, item::Item, object::ObjectId, reader::Reader,
    writer::Writer,
};

/// Asks a node that has not reported to a new home for a report.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The object.
    pub object: ObjectId,
    /// Its name, for a node that does not know it yet.
    pub name: String,
    /// The home's term.
    pub revision: Revision,
}

/// The layouts of a node's writers. It comes before the first report that tells of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layouts {
    /// The object.
    pub object: ObjectId,
    /// Its name, for a home that does not know it yet.
    pub name: String,
    /// The layouts; writers ascend.
    pub layouts: Vec<(Name, FragmentText)>,
}

/// A fragment that somebody writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Whose.
    pub writer: Name,
    /// Its rank in a parallel program, if it said so.
    pub rank: Option<u32>,
    /// Its layout.
    pub layout: FragmentText,
    /// The first version that it writes.
    pub from: Version,
    /// The first that it does not write any more.
    pub left: Option<Version>,
    /// Whether its process died, or its node was lost.
    pub died: bool,
    /// How many writers the program said there are.
    pub expected: Option<u32>,
}

/// All fragments of an object that are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// The object.
    pub object: ObjectId,
    /// The home's term.
    pub revision: Revision,
    /// Which of that home's rosters is newer.
    pub serial: u64,
    /// The fragments; writers ascend.
    pub declared: Vec<Declared>,
    /// Whether these are all; else more of it follows.
    pub is_last: bool,
}

/// What is new since a roster that was sent before, or more of one that is too long for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RosterChange {
    /// The object.
    pub object: ObjectId,
    /// The home's term, of both rosters.
    pub revision: Revision,
    /// The serial of the roster that it follows.
    pub base: u64,
    /// Which of that home's rosters this makes of it. The same: this is more of that one.
    pub serial: u64,
    /// Fragments that are new, or of which something is; writers ascend.
    pub declared: Vec<Declared>,
    /// Writers of which nothing is left, ascending.
    pub gone: Vec<Name>,
    /// Whether this is all; else more of it follows.
    pub is_last: bool,
}

impl Item for Ask {
    const LEAST_BYTES: usize = 8 + 5 + 8;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.object);
        to.text(&self.name);
        to.item(&self.revision);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let object = from.item()?;
        let name = from.text("an object's name", 1, NAME_BYTES_MAX)?;
        Ok(Self { object, name, revision: from.item()? })
    }
}

/// A writer's layout.
type Layout = (Name, FragmentText);

impl Item for Layout {
    const LEAST_BYTES: usize = Name::LEAST_BYTES + FragmentText::LEAST_BYTES;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.0);
        to.item(&self.1);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok((from.item()?, from.item()?))
    }
}

impl Item for Layouts {
    const LEAST_BYTES: usize = 8 + 5 + 4;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.object);
        to.text(&self.name);
        to.item(&self.layouts);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let object = from.item()?;
        let name = from.text("an object's name", 1, NAME_BYTES_MAX)?;
        let layouts = from.ascending(|layout: &Layout| layout.0, "writers do not ascend")?;
        Ok(Self { object, name, layouts })
    }
}

impl Item for Declared {
    const LEAST_BYTES: usize = Name::LEAST_BYTES + 1 + FragmentText::LEAST_BYTES + 8 + 1 + 1 + 1;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.writer);
        to.item(&self.rank);
        to.item(&self.layout);
        to.item(&self.from);
        to.item(&self.left);
        to.item(&self.died);
        to.item(&self.expected);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let (writer, rank, layout, begin) = (from.item()?, from.item()?, from.item()?, from.item()?);
        let offset = from.at();
        let left: Option<Version> = from.item()?;
        from.check(left.is_none_or(|left| left >= begin), offset, "a fragment ends before it begins")?;
        Ok(Self { writer, rank, layout, from: begin, left, died: from.item()?, expected: from.item()? })
    }
}

impl Item for Roster {
    const LEAST_BYTES: usize = 8 + 8 + 8 + 4 + 1;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.object);
        to.item(&self.revision);
        to.item(&self.serial);
        to.item(&self.declared);
        to.item(&self.is_last);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let (object, revision, serial) = (from.item()?, from.item()?, from.item()?);
        let declared = from.ascending(|one: &Declared| one.writer, "writers do not ascend")?;
        Ok(Self { object, revision, serial, declared, is_last: from.item()? })
    }
}

impl Item for RosterChange {
    const LEAST_BYTES: usize = 8 + 8 + 8 + 8 + 4 + 4 + 1;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.object);
        [self.revision, self.base, self.serial].iter().for_each(|number| to.item(number));
        to.item(&self.declared);
        to.item(&self.gone);
        to.item(&self.is_last);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let (object, revision) = (from.item()?, from.item()?);
        let offset = from.at();
        let (base, serial) = (from.item()?, from.item()?);
        from.check(base <= serial, offset, "a roster is older than the one that it follows")?;
        let declared = from.ascending(|one: &Declared| one.writer, "writers do not ascend")?;
        let offset = from.at();
        let gone: Vec<Name> = from.ascending(|name| *name, "writers do not ascend")?;
        let is_declared = |name: &Name| declared.binary_search_by_key(name, |one: &Declared| one.writer).is_ok();
        from.check(!gone.iter().any(is_declared), offset, "a writer is declared and gone")?;
        Ok(Self { object, revision, base, serial, declared, gone, is_last: from.item()? })
    }
}
