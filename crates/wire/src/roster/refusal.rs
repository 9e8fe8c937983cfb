//! Stages that do not count, and why.

use stillframe_roster::{
    message::Refused,
    refusal::{Overlap, Refusal},
};

use crate::{fault::Fault, item::Item, reader::Reader, writer::Writer};

impl Item for Overlap {
    const LEAST_BYTES: usize = 46;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.version);
        to.item(&self.first);
        to.item(&self.first_elements);
        to.item(&self.second);
        to.item(&self.second_elements);
        to.item(&self.elements);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self {
            version: from.item()?,
            first: from.item()?,
            first_elements: from.item()?,
            second: from.item()?,
            second_elements: from.item()?,
            elements: from.item()?,
        })
    }
}

const OVERLAP: u8 = 0;
const OUTSIDE: u8 = 1;
const LATE: u8 = 2;
const ORDER: u8 = 3;
const SCATTERED: u8 = 4;
const UNKNOWN: u8 = 5;
const NOT_NEXT: u8 = 6;

impl Item for Refusal {
    const LEAST_BYTES: usize = 1;

    fn write(&self, to: &mut Writer<'_>) {
        let (tag, one, other) = match self {
            Refusal::Overlap(overlap) => {
                to.item(&OVERLAP);
                return to.item(overlap);
            }
            Refusal::Outside { part, shape } => {
                to.item(&OUTSIDE);
                to.item(part);
                return to.item(shape);
            }
            Refusal::Scattered => return to.item(&SCATTERED),
            Refusal::Unknown => return to.item(&UNKNOWN),
            Refusal::Late { from, settled } => (LATE, from, settled),
            Refusal::Order { from, last } => (ORDER, from, last),
            Refusal::NotNext { version, newest } => (NOT_NEXT, version, newest),
        };
        to.item(&tag);
        to.item(one);
        to.item(other);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let offset = from.at();
        match from.item::<u8>()? {
            OVERLAP => from.item().map(Refusal::Overlap),
            OUTSIDE => Ok(Refusal::Outside { part: from.item()?, shape: from.item()? }),
            LATE => Ok(Refusal::Late { from: from.item()?, settled: from.item()? }),
            ORDER => Ok(Refusal::Order { from: from.item()?, last: from.item()? }),
            SCATTERED => Ok(Refusal::Scattered),
            UNKNOWN => Ok(Refusal::Unknown),
            NOT_NEXT => Ok(Refusal::NotNext { version: from.item()?, newest: from.item()? }),
            _ => Err(from.invalid(offset, "no such refusal")),
        }
    }
}

impl Item for Refused {
    const LEAST_BYTES: usize = 21;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.writer);
        to.item(&self.number);
        to.item(&self.refusal);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { writer: from.item()?, number: from.item()?, refusal: from.item()? })
    }
}
