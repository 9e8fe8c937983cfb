//! What is told about an object, in `ls` and `show` alike.

use super::drawing;
use super::next::Next;
use crate::failure::Failure;
use crate::slice::format_shape;
use crate::units;
use ::drepl::types::Type;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use stillframe::inspect::{self, RegionInfo};
use stillframe_object::{Object, WriterInfo};

/// An object in a few values. This is an entry of `still ls --json`.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// `live` if all who write it live, `partial` if some died, `dead` if none lives, `unwritten` if nobody wrote it yet.
    pub state: &'static str,
    /// Its variables.
    pub variables: Vec<VariableSummary>,
    /// Bytes of one version.
    pub bytes: u64,
    /// The version that exists at once, and is zeros.
    pub initial: u64,
    /// The newest complete version.
    pub newest: u64,
    /// The complete versions that can be had, without the initial one.
    pub versions: Vec<u64>,
    /// When the last writer published the newest of them, in nanoseconds since 1970.
    pub published_ns: Option<u64>,
    /// Memory behind the regions of all fragments.
    pub memory_bytes: u64,
    /// Writers by what became of them.
    pub writers_alive: usize,
    pub writers_died: usize,
    pub writers_left: usize,
    /// What comes next, if a writer has begun it or is needed for it.
    pub next: Option<Next>,
    /// Who attached fragments to write; not in `ls`.
    #[serde(skip)]
    pub writers: Vec<WriterSummary>,
    /// The fragments, as they are drawn.
    #[serde(skip)]
    pub infos: Vec<WriterInfo>,
}

/// A variable of an object.
#[derive(Debug, Serialize)]
pub struct VariableSummary {
    pub name: String,
    /// Of each element, in the layout language.
    #[serde(rename = "type")]
    pub kind: String,
    /// Empty for a single element.
    pub extents: Vec<u64>,
    pub bytes: u64,
}

/// Who attached a fragment to write.
#[derive(Debug, Serialize)]
pub struct WriterSummary {
    /// The number of the fragment.
    pub number: u32,
    pub rank: Option<u32>,
    pub pid: u32,
    /// `alive`, `left` or `died`.
    pub state: &'static str,
    /// The first version that it writes.
    pub from: u64,
    /// The first that it does not write any more.
    pub left: Option<u64>,
    pub newest: Option<u64>,
    /// The versions of it that can be had.
    pub versions: Vec<u64>,
    /// Which elements it writes.
    pub elements: String,
    /// Memory behind its region.
    pub memory_bytes: u64,
    pub region: String,
    /// What it was attached with.
    pub text: String,
    pub bindings: BTreeMap<String, i64>,
}

impl Summary {
    /// Looks at an object. `regions` are those that are known already; the others are looked at.
    pub fn new(object: &Object, dir: &Path, regions: &HashMap<&str, &RegionInfo>) -> Result<Summary, Failure> {
        let infos = object.writers()?;
        let (newest, versions) = (object.newest()?, object.versions()?);
        let mut published_ns = None;
        let mut writers = Vec::with_capacity(infos.len());
        for info in &infos {
            // Who is gone may have been collected meanwhile, with the region.
            let looked;
            let region = match regions.get(info.region.as_str()) {
                Some(region) => Some(*region),
                None => {
                    looked = inspect::region(dir, &info.region).ok();
                    looked.as_ref()
                }
            };
            let mine = region.and_then(|region| region.versions.iter().find(|version| version.version == newest));
            published_ns = published_ns.max(mine.map(|version| version.published_ns));
            writers.push(WriterSummary::new(info, region.map_or(0, |region| region.allocated_bytes)));
        }
        let count = |state| writers.iter().filter(|writer| writer.state == state).count();
        let (alive, died, left) = (count("alive"), count("died"), count("left"));
        let variables: Vec<VariableSummary> = variables(object);
        let next = Next::of(object, newest, &writers)?.filter(|next| next.version.is_some() || died > 0);
        Ok(Summary {
            name: object.name().into(),
            state: match (alive, died, left) {
                (0, 0, 0) => "unwritten",
                (0, _, _) => "dead",
                (_, 0, _) => "live",
                _ => "partial",
            },
            bytes: variables.iter().map(|variable| variable.bytes).sum(),
            variables,
            initial: object.description().initial,
            newest,
            versions,
            published_ns,
            memory_bytes: writers.iter().map(|writer| writer.memory_bytes).sum(),
            writers_alive: alive,
            writers_died: died,
            writers_left: left,
            next,
            writers,
            infos,
        })
    }

    /// How many writers there are, for people.
    pub fn describe_writers(&self) -> String {
        let counts = [(self.writers_alive, "alive"), (self.writers_died, "died"), (self.writers_left, "left")];
        let texts: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if texts.is_empty() { "none".into() } else { texts.join(", ") }
    }

    /// Milliseconds since the newest complete version was published.
    pub fn age_ms(&self, now_ns: u64) -> Option<u64> {
        self.published_ns.map(|then_ns| units::elapsed_ms(then_ns, now_ns))
    }
}

impl VariableSummary {
    /// Its extents, as Python writes a shape.
    pub fn shape(&self) -> String {
        format_shape(&self.extents.iter().map(|extent| *extent as usize).collect::<Vec<_>>())
    }
}

impl WriterSummary {
    fn new(info: &WriterInfo, memory_bytes: u64) -> WriterSummary {
        let who = info.who.0;
        WriterSummary {
            number: info.number,
            rank: who.rank,
            pid: who.writer.process,
            state: state(info),
            from: info.from,
            left: info.left,
            newest: info.newest,
            versions: info.versions.clone(),
            elements: drawing::elements(&info.fragment),
            memory_bytes,
            region: info.region.clone(),
            text: info.text.clone(),
            bindings: info.bindings.clone(),
        }
    }
}

/// What became of a writer.
pub fn state(info: &WriterInfo) -> &'static str {
    match (info.left, info.is_alive) {
        (Some(_), _) => "left",
        (None, true) => "alive",
        (None, false) => "died",
    }
}

fn variables(object: &Object) -> Vec<VariableSummary> {
    let dataset = object.schema().dataset();
    let describe = |(number, variable): (usize, &::drepl::dataset::Object)| {
        let (kind, extents) = match &variable.kind {
            Type::Array(array) => (array.element.to_string(), array.extents.clone()),
            kind => (kind.to_string(), Vec::new()),
        };
        let leaves = dataset.leaves_of(number as u32);
        let bytes = leaves.map(|(_, leaf)| leaf.elements() * leaf.primitive.size_bytes()).sum();
        VariableSummary { name: variable.name.to_string(), kind, extents, bytes }
    };
    dataset.objects().iter().enumerate().map(describe).collect()
}
