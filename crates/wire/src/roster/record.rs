//! Writers, and what they declared and published.

use std::collections::BTreeSet;

use stillframe_roster::{
    message::Told,
    writer::{Node, Published, Record, Role, Stage, Version, Who, Writer as Name},
};

use crate::{elements::tree_bytes, fault::Fault, item::Item, reader::Reader, writer::Writer};

impl Item for Name {
    const LEAST_BYTES: usize = 12;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.node);
        to.item(&self.process);
        to.item(&self.serial);
    }

    #[inline]
    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { node: from.item()?, process: from.item()?, serial: from.item()? })
    }
}

impl Item for Who {
    const LEAST_BYTES: usize = 13;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.writer);
        to.item(&self.rank);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { writer: from.item()?, rank: from.item()? })
    }
}

const MEMBER: u8 = 0;
const LEFT: u8 = 1;
const DIED: u8 = 2;

impl Item for Role {
    const LEAST_BYTES: usize = 1;

    fn write(&self, to: &mut Writer<'_>) {
        match self {
            Role::Member { elements, expected } => {
                to.item(&MEMBER);
                to.item(elements);
                to.item(expected);
            }
            Role::Left => to.item(&LEFT),
            Role::Died { elements } => {
                to.item(&DIED);
                to.item(elements);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let offset = from.at();
        match from.item::<u8>()? {
            MEMBER => Ok(Role::Member { elements: from.item()?, expected: from.item()? }),
            LEFT => Ok(Role::Left),
            DIED => Ok(Role::Died { elements: from.item()? }),
            _ => Err(from.invalid(offset, "a writer is a member, left or died")),
        }
    }
}

/// The least length of a stage with its number.
const STAGE_BYTES: usize = 17;

impl Item for Told {
    const LEAST_BYTES: usize = 27;

    fn write(&self, to: &mut Writer<'_>) {
        let Record { writer, rank, stages, published } = &self.record;
        to.item(writer);
        to.item(rank);
        to.item(&published.newest);
        to.count(published.present.len());
        published.present.iter().for_each(|version| to.item(version));
        // Without a number there is no stage, and without a stage no number.
        to.count(stages.len().min(self.numbers.len()));
        for (stage, number) in stages.iter().zip(&self.numbers) {
            to.item(number);
            to.item(&stage.from);
            to.item(&stage.role);
        }
        to.count(self.accepted);
        to.item(&self.is_restored);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let (writer, rank) = (from.item()?, from.item()?);
        let published = read_published(from)?;
        let (stages, numbers) = read_stages(from)?;
        let offset = from.at();
        let accepted = from.item::<u32>()? as usize;
        from.check(accepted <= stages.len(), offset, "more stages are accepted than there are")?;
        let record = Record { writer, rank, stages, published };
        Ok(Told { record, numbers, accepted, is_restored: from.item()? })
    }
}

fn read_published(from: &mut Reader<'_>) -> Result<Published, Fault> {
    let newest: Option<Version> = from.item()?;
    let offset = from.at();
    let count = from.count(Version::LEAST_BYTES)?;
    from.charge(tree_bytes(count, size_of::<Version>()), offset)?;
    let mut present = BTreeSet::new();
    for _ in 0..count {
        let offset = from.at();
        let version: Version = from.item()?;
        from.check(present.last().is_none_or(|last| *last < version), offset, "present versions do not ascend")?;
        present.insert(version);
    }
    from.check(present.last().copied() <= newest, offset, "a version is present above the newest")?;
    Ok(Published { newest, present })
}

fn read_stages(from: &mut Reader<'_>) -> Result<(Vec<Stage>, Vec<u64>), Fault> {
    let offset = from.at();
    let count = from.count(STAGE_BYTES)?;
    let mut stages: Vec<Stage> = from.room(count, offset)?;
    let mut numbers: Vec<u64> = from.room(count, offset)?;
    for _ in 0..count {
        let offset = from.at();
        let number = from.item()?;
        from.check(numbers.last().is_none_or(|last| *last < number), offset, "numbers of stages do not ascend")?;
        let stage = Stage { from: from.item()?, role: from.item()? };
        if let Some(last) = stages.last() {
            from.check(last.from < stage.from, offset, "stages do not ascend")?;
            from.check(!matches!(last.role, Role::Died { .. }), offset, "a stage follows a death")?;
        }
        numbers.push(number);
        stages.push(stage);
    }
    Ok((stages, numbers))
}

/// Writers of one node, each once, in the order of their names.
pub(super) fn read_told(from: &mut Reader<'_>, node: Node, declared: u64) -> Result<Vec<Told>, Fault> {
    let offset = from.at();
    let writers: Vec<Told> = from.ascending(|told: &Told| told.record.writer, "writers do not ascend")?;
    let is_own = |told: &Told| told.record.writer.node == node;
    from.check(writers.iter().all(is_own), offset, "a report tells of a writer of another node")?;
    let is_declared = |told: &Told| told.numbers.last().is_none_or(|last| *last <= declared);
    from.check(writers.iter().all(is_declared), offset, "a stage has a larger number than the largest")?;
    Ok(writers)
}
