//! What readers are told.

use stillframe_roster::readiness::{Cause, Loss, Readiness, Share};

use crate::{fault::Fault, item::Item, reader::Reader, writer::Writer};

impl Item for Share {
    const LEAST_BYTES: usize = 5;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.who);
        to.item(&self.elements);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { who: from.item()?, elements: from.item()? })
    }
}

impl Item for Cause {
    const LEAST_BYTES: usize = 1;

    fn write(&self, to: &mut Writer<'_>) {
        let tag: u8 = match self {
            Cause::Died => 0,
            Cause::NodeLost => 1,
            Cause::Gone => 2,
            Cause::Unwritten => 3,
        };
        to.item(&tag);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let offset = from.at();
        match from.item::<u8>()? {
            0 => Ok(Cause::Died),
            1 => Ok(Cause::NodeLost),
            2 => Ok(Cause::Gone),
            3 => Ok(Cause::Unwritten),
            _ => Err(from.invalid(offset, "no such cause of a loss")),
        }
    }
}

impl Item for Loss {
    const LEAST_BYTES: usize = 1 + Share::LEAST_BYTES;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.cause);
        to.item(&self.share);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { cause: from.item()?, share: from.item()? })
    }
}

const READY: u8 = 0;
const WAITING: u8 = 1;
const LOST: u8 = 2;

impl Item for Readiness {
    const LEAST_BYTES: usize = 5;

    fn write(&self, to: &mut Writer<'_>) {
        match self {
            Readiness::Ready(shares) => {
                to.item(&READY);
                to.item(shares);
            }
            Readiness::Waiting(shares) => {
                to.item(&WAITING);
                to.item(shares);
            }
            Readiness::Lost(losses) => {
                to.item(&LOST);
                to.item(losses);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let offset = from.at();
        match from.item::<u8>()? {
            READY => from.item().map(Readiness::Ready),
            WAITING => from.item().map(Readiness::Waiting),
            LOST => from.item().map(Readiness::Lost),
            _ => Err(from.invalid(offset, "elements are ready, waited for or lost")),
        }
    }
}
