//! Versions with the nodes that have to pin them, and what readers wait for.

use stillframe_roster::message::{Ceiling, Proposal, Unpinned, Want};

use crate::{fault::Fault, item::Item, reader::Reader, writer::Writer};

impl Item for Proposal {
    const LEAST_BYTES: usize = 20;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.version);
        to.item(&self.epoch);
        to.item(&self.nodes);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let offset = from.at();
        let made = Self { version: from.item()?, epoch: from.item()?, nodes: from.item()? };
        from.check(made.epoch <= made.version, offset, "a version lies below the first of its epoch")?;
        Ok(made)
    }
}

impl Item for Ceiling {
    const LEAST_BYTES: usize = 12;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.version);
        to.item(&self.nodes);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { version: from.item()?, nodes: from.item()? })
    }
}

impl Item for Unpinned {
    const LEAST_BYTES: usize = 5;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.node);
        to.item(&self.is_lost);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { node: from.item()?, is_lost: from.item()? })
    }
}

impl Item for Want {
    const LEAST_BYTES: usize = 20;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.number);
        to.item(&self.version);
        to.item(&self.elements);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { number: from.item()?, version: from.item()?, elements: from.item()? })
    }
}
