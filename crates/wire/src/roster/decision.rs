//! Decisions, from a home to a runtime.

use stillframe_roster::{
    message::{Decision, Ended, Proposal, Refused, Unpinned},
    readiness::Readiness,
    writer::{Node, Writer as Name},
};

use crate::{fault::Fault, item::Item, object::ObjectId, reader::Reader, writer::Writer};

/// What the home of one object decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectDecision {
    /// The object.
    pub object: ObjectId,
    /// Serial of the roster that the node has to know before its programs hear what became complete.
    pub roster: u64,
    /// What it decided for the node.
    pub decision: Decision,
}

impl Item for ObjectDecision {
    const LEAST_BYTES: usize = 8 + 8 + Decision::LEAST_BYTES;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.object);
        to.item(&self.roster);
        to.item(&self.decision);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { object: from.item()?, roster: from.item()?, decision: from.item()? })
    }
}

/// What one reader is told.
type Answer = (u64, Readiness);

impl Item for Answer {
    const LEAST_BYTES: usize = 8 + Readiness::LEAST_BYTES;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.0);
        to.item(&self.1);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok((from.item()?, from.item()?))
    }
}

impl Item for Ended {
    const LEAST_BYTES: usize = Name::LEAST_BYTES + 8;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.writer);
        to.item(&self.from);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { writer: from.item()?, from: from.item()? })
    }
}

impl Item for Decision {
    const LEAST_BYTES: usize = 4 + 3 * 8 + 20 + 12 + 8 + 4 + 1 + 4 + 4 + 4;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.node);
        [self.revision, self.serial, self.declared].iter().for_each(|number| to.item(number));
        to.item(&self.announced);
        to.item(&self.ceiling);
        to.item(&self.run_floor);
        to.item(&self.unpinned);
        to.item(&self.proposed.is_some());
        if let Some((proposal, writers)) = &self.proposed {
            to.item(proposal);
            to.item(writers);
        }
        to.item(&self.refused);
        to.item(&self.ended);
        to.item(&self.answers);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let node = from.item()?;
        let (revision, serial, declared) = (from.item()?, from.item()?, from.item()?);
        Ok(Self {
            node,
            revision,
            serial,
            declared,
            announced: from.item()?,
            ceiling: from.item()?,
            run_floor: from.item()?,
            unpinned: from.ascending(|one: &Unpinned| one.node, "nodes that do not pin do not ascend")?,
            proposed: read_proposed(from, node)?,
            refused: read_refused(from, node)?,
            ended: read_ended(from, node)?,
            answers: from.ascending(|answer: &Answer| answer.0, "numbers of wants do not ascend")?,
        })
    }
}

fn read_proposed(from: &mut Reader<'_>, node: Node) -> Result<Option<(Proposal, Vec<Name>)>, Fault> {
    if !from.item::<bool>()? {
        return Ok(None);
    }
    let proposal = from.item()?;
    let offset = from.at();
    let writers: Vec<Name> = from.ascending(|writer| *writer, "writers do not ascend")?;
    let is_own = |writer: &Name| writer.node == node;
    from.check(writers.iter().all(is_own), offset, "a decision names a writer of another node")?;
    Ok(Some((proposal, writers)))
}

fn read_refused(from: &mut Reader<'_>, node: Node) -> Result<Vec<Refused>, Fault> {
    let offset = from.at();
    let refused: Vec<Refused> = from.list()?;
    let is_own = |one: &Refused| one.writer.node == node;
    from.check(refused.iter().all(is_own), offset, "a decision refuses a writer of another node")?;
    Ok(refused)
}

fn read_ended(from: &mut Reader<'_>, node: Node) -> Result<Vec<Ended>, Fault> {
    let offset = from.at();
    let ended: Vec<Ended> = from.ascending(|one: &Ended| one.writer, "writers that have ended do not ascend")?;
    let is_own = |one: &Ended| one.writer.node == node;
    from.check(ended.iter().all(is_own), offset, "a decision ends a writer of another node")?;
    Ok(ended)
}
