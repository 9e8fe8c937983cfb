//! Reports, from a runtime to a home.

use stillframe_roster::message::{Proposal, Report, Want};

use super::record::read_told;
use crate::{bounds::NAME_BYTES_MAX, fault::Fault, item::Item, object::ObjectId, reader::Reader, writer::Writer};

/// What a node says of one object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectReport {
    /// The object.
    pub object: ObjectId,
    /// Its name, for a home that does not know it yet.
    pub name: String,
    /// What its runtime reports.
    pub report: Report,
}

impl Item for ObjectReport {
    const LEAST_BYTES: usize = 8 + 5 + Report::LEAST_BYTES;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.object);
        to.text(&self.name);
        to.item(&self.report);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let object = from.item()?;
        let name = from.text("an object's name", 1, NAME_BYTES_MAX)?;
        Ok(Self { object, name, report: from.item()? })
    }
}

impl Item for Report {
    const LEAST_BYTES: usize = 4 + 4 * 8 + 4 + 4 + 20 + 1 + 12 + 8 + 8 + 4;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.node);
        [self.revision, self.serial, self.heard, self.declared].iter().for_each(|number| to.item(number));
        to.item(&self.writers);
        to.item(&self.pins);
        to.item(&self.announced);
        to.item(&self.yielded);
        to.item(&self.ceiling);
        to.item(&self.floor);
        to.item(&self.run_floor);
        to.item(&self.wants);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let node = from.item()?;
        let (revision, serial, heard, declared) = (from.item()?, from.item()?, from.item()?, from.item()?);
        Ok(Self {
            node,
            revision,
            serial,
            heard,
            declared,
            writers: read_told(from, node, declared)?,
            pins: read_pins(from)?,
            announced: from.item()?,
            yielded: from.item()?,
            ceiling: from.item()?,
            floor: from.item()?,
            run_floor: from.item()?,
            wants: read_wants(from)?,
        })
    }
}

pub(super) fn read_pins(from: &mut Reader<'_>) -> Result<Vec<Proposal>, Fault> {
    from.ascending(|pin: &Proposal| pin.version, "pins do not ascend")
}

pub(super) fn read_wants(from: &mut Reader<'_>) -> Result<Vec<Want>, Fault> {
    from.ascending(|want: &Want| want.number, "numbers of wants do not ascend")
}
