//! What is new since a report: a node of many writers of which few published has not to tell of the others again.

use stillframe_roster::{
    message::{Ceiling, Proposal, Report, Told, Want},
    writer::{Node, Revision, Version, Writer as Name},
};

use super::{
    record::read_told,
    report::{read_pins, read_wants},
};
use crate::{fault::Fault, item::Item, object::ObjectId, reader::Reader, writer::Writer};

/// What makes a report of one object out of an older one of the same node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectChange {
    /// The object.
    pub object: ObjectId,
    /// The serial of the older report.
    pub base: u64,
    /// Whose runtime.
    pub node: Node,
    /// The home that it is for.
    pub revision: Revision,
    /// The serial of the newer report.
    pub serial: u64,
    /// Serial of the newest decision that the runtime heard.
    pub heard: u64,
    /// The largest number of a stage.
    pub declared: u64,
    /// Writers that are new, or of which something is; ascending.
    pub writers: Vec<Told>,
    /// Writers that are gone; ascending.
    pub gone: Vec<Name>,
    /// What the node pins.
    pub pins: Vec<Proposal>,
    /// The newest version that it knows to be complete.
    pub announced: Proposal,
    /// The newest version of which it gave up the pin.
    pub yielded: Option<Proposal>,
    /// The newest ceiling that it has heard of.
    pub ceiling: Ceiling,
    /// The newest version that was complete before the present run of the job, as far as the node knows.
    pub run_floor: Version,
    /// What the node's readers wait for.
    pub wants: Vec<Want>,
}

impl ObjectChange {
    /// What makes `after` out of `before`, which is an older report of the same node. The writers of both ascend.
    pub fn between(object: ObjectId, before: &Report, after: &Report) -> Self {
        let find = |report: &Report, name: Name| report.writers.binary_search_by_key(&name, |told| told.record.writer);
        let is_new = |told: &&Told| find(before, told.record.writer).map_or(true, |at| before.writers[at] != **told);
        let names = before.writers.iter().map(|told| told.record.writer);
        Self {
            object,
            base: before.serial,
            node: after.node,
            revision: after.revision,
            serial: after.serial,
            heard: after.heard,
            declared: after.declared,
            writers: after.writers.iter().filter(is_new).cloned().collect(),
            gone: names.filter(|name| find(after, *name).is_err()).collect(),
            pins: after.pins.clone(),
            announced: after.announced.clone(),
            yielded: after.yielded.clone(),
            ceiling: after.ceiling.clone(),
            run_floor: after.run_floor,
            wants: after.wants.clone(),
        }
    }

    /// Makes the newer report of the older one, which is left as it is if this change is not one of it.
    ///
    /// # Errors
    ///
    /// [`Fault::Base`]: the sender has to send the whole report.
    pub fn apply(self, report: &mut Report) -> Result<(), Fault> {
        if report.node != self.node || report.serial != self.base {
            return Err(Fault::Base { node: self.node, base: self.base, known: report.serial });
        }
        if !self.gone.is_empty() {
            report.writers.retain(|told| self.gone.binary_search(&told.record.writer).is_err());
        }
        let mut is_ordered = true;
        let known = report.writers.len();
        for told in self.writers {
            let name = told.record.writer;
            match report.writers[..known].binary_search_by_key(&name, |told| told.record.writer) {
                Ok(at) => report.writers[at] = told,
                Err(_) => {
                    is_ordered &= report.writers.last().is_none_or(|last| last.record.writer < name);
                    report.writers.push(told);
                }
            }
        }
        if !is_ordered {
            report.writers.sort_by_key(|told| told.record.writer);
        }
        *report = Report {
            node: self.node,
            revision: self.revision,
            serial: self.serial,
            heard: self.heard,
            declared: self.declared,
            writers: std::mem::take(&mut report.writers),
            pins: self.pins,
            announced: self.announced,
            yielded: self.yielded,
            ceiling: self.ceiling,
            floor: report.floor,
            run_floor: self.run_floor,
            wants: self.wants,
        };
        Ok(())
    }
}

impl Item for ObjectChange {
    const LEAST_BYTES: usize = 8 + 4 + 5 * 8 + 4 + 4 + 4 + 20 + 1 + 12 + 8 + 4;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.object);
        to.item(&self.base);
        to.item(&self.node);
        [self.revision, self.serial, self.heard, self.declared].iter().for_each(|number| to.item(number));
        to.item(&self.writers);
        to.item(&self.gone);
        to.item(&self.pins);
        to.item(&self.announced);
        to.item(&self.yielded);
        to.item(&self.ceiling);
        to.item(&self.run_floor);
        to.item(&self.wants);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let (object, base, node) = (from.item()?, from.item()?, from.item()?);
        let offset = from.at();
        let (revision, serial, heard, declared) = (from.item()?, from.item()?, from.item()?, from.item()?);
        from.check(base < serial, offset, "a change is not newer than the report that it follows")?;
        let writers = read_told(from, node, declared)?;
        let offset = from.at();
        let gone: Vec<Name> = from.ascending(|name| *name, "writers do not ascend")?;
        let is_told = |name: &Name| writers.binary_search_by_key(name, |told| told.record.writer).is_ok();
        from.check(!gone.iter().any(is_told), offset, "a writer is told of and gone")?;
        let (pins, announced) = (read_pins(from)?, from.item()?);
        let (yielded, ceiling, run_floor) = (from.item()?, from.item()?, from.item()?);
        let wants = read_wants(from)?;
        Ok(Self {
            object,
            base,
            node,
            revision,
            serial,
            heard,
            declared,
            writers,
            gone,
            pins,
            announced,
            yielded,
            ceiling,
            run_floor,
            wants,
        })
    }
}
