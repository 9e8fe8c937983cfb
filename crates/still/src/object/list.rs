//! The objects in `still ls`.

use super::summary::Summary;
use crate::context::Context;
use crate::failure::Failure;
use crate::table::{Align, Table, sanitize};
use crate::units;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use stillframe::inspect::RegionInfo;
use stillframe_object::runtime::{GroupSummary, NodeSummary};

/// The objects of a directory, and what could not be looked at.
#[derive(Default)]
pub struct Listing {
    pub objects: Vec<Summary>,
    /// Why objects cannot be looked at: the name of one, or none for all of them.
    pub faults: Vec<(Option<String>, String)>,
    /// The nodes of which this one is one, if its runtime runs.
    pub nodes: Vec<NodeSummary>,
    /// Groups with ranks on other nodes.
    pub groups: Vec<GroupSummary>,
    names: HashSet<String>,
}

impl Listing {
    /// Looks at all objects. What is wrong with one of them keeps nobody from the others, nor from the regions.
    pub fn new(context: &Context, regions: &[RegionInfo]) -> Listing {
        let mut listing = Listing::default();
        let found = super::look(context).and_then(|objects| {
            let names = objects.as_ref().map_or(Ok(Vec::new()), |objects| objects.list())?;
            Ok((objects, names))
        });
        let (objects, names) = match found {
            Ok((Some(objects), names)) => (objects, names),
            Ok((None, _)) => return listing,
            Err(failure) => {
                listing.faults.push((None, failure.to_string()));
                return listing;
            }
        };
        match objects.nodes() {
            Ok(nodes) => listing.nodes = nodes.unwrap_or_default(),
            Err(error) => listing.faults.push((None, error.to_string())),
        }
        if listing.nodes.len() > 1 {
            let own = listing.nodes.iter().find(|node| node.is_own).map(|node| node.number);
            match objects.groups() {
                Ok(groups) => listing.groups = groups.unwrap_or_default(),
                Err(error) => listing.faults.push((None, error.to_string())),
            }
            listing.groups.retain(|group| group.nodes.keys().any(|node| Some(*node) != own));
        }
        let known: HashMap<&str, &RegionInfo> = regions.iter().map(|info| (info.name.as_str(), info)).collect();
        for name in &names {
            let summary = objects.object_named(name).map_err(Failure::from);
            match summary.and_then(|object| Summary::new(&object, &context.dir, &known)) {
                Ok(summary) => listing.objects.push(summary),
                // It went away after it was found.
                Err(Failure::Object(
                    stillframe_object::Error::NoObject { .. } | stillframe_object::Error::Removed { .. },
                )) => {}
                Err(failure) => listing.faults.push((Some(name.clone()), failure.to_string())),
            }
        }
        listing.names = names.into_iter().collect();
        listing
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.faults.is_empty() && self.nodes.is_empty()
    }

    /// Whether a region is a fragment of one of these.
    pub fn owns(&self, region: &str) -> bool {
        stillframe_object::owner_of(region).is_some_and(|owner| self.names.contains(owner))
    }

    /// Writes the objects as a table, and notes below it.
    pub fn write(&self, now_ns: u64, out: &mut dyn Write) -> Result<(), Failure> {
        if !self.objects.is_empty() {
            let mut table = Table::new(&[
                ("OBJECT", Align::Left),
                ("STATE", Align::Left),
                ("NEWEST", Align::Right),
                ("VERSIONS", Align::Right),
                ("MEMORY", Align::Right),
                ("WRITERS", Align::Left),
                ("AGE", Align::Right),
                ("VARIABLES", Align::Left),
            ]);
            self.objects.iter().for_each(|object| table.push(row(object, now_ns)));
            table.write(out)?;
        }
        for object in &self.objects {
            if let Some(next) = &object.next {
                writeln!(out, "{}: {}", sanitize(&object.name), describe(object, &next.text()))?;
            }
        }
        for (name, fault) in &self.faults {
            let name = name.as_deref().map_or("objects".into(), sanitize);
            writeln!(out, "{name}: {}", sanitize(&fault.replace('\n', " ")))?;
        }
        if !self.nodes.is_empty() {
            if !self.objects.is_empty() || !self.faults.is_empty() {
                writeln!(out)?;
            }
            if !self.groups.is_empty() {
                write_groups(&self.groups, &self.nodes, out)?;
                writeln!(out)?;
            }
            write_nodes(&self.nodes, out)?;
        }
        Ok(())
    }
}

fn write_groups(groups: &[GroupSummary], nodes: &[NodeSummary], out: &mut dyn Write) -> Result<(), Failure> {
    let mut table =
        Table::new(&[("GROUP", Align::Left), ("STATE", Align::Left), ("NEWEST", Align::Right), ("RANKS", Align::Left)]);
    for group in groups {
        let called = |number: u32| {
            let node = nodes.iter().find(|node| node.number == number);
            node.map_or_else(|| format!("node {number}"), |node| sanitize(&node.name))
        };
        let on = |(node, ranks): (&u32, &Vec<u32>)| format!("{} on {}", spans(ranks), called(*node));
        let places: Vec<String> = group.nodes.iter().map(on).collect();
        table.push(vec![
            sanitize(&group.name),
            format!("{}/{} live", group.living, group.ranks),
            group.newest.map_or("-".into(), |newest| newest.to_string()),
            places.join(", "),
        ]);
    }
    Ok(table.write(out)?)
}

/// Numbers that ascend, those that follow each other as one: `0-3 7`.
fn spans(numbers: &[u32]) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match spans.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => spans.push((*number, *number)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    spans.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// How this node and another one stand to each other.
pub fn describe_link(is_own: bool, is_connected: bool) -> &'static str {
    match (is_own, is_connected) {
        (true, _) => "this one",
        (false, true) => "connected",
        (false, false) => "apart",
    }
}

fn write_nodes(nodes: &[NodeSummary], out: &mut dyn Write) -> Result<(), Failure> {
    let mut table = Table::new(&[
        ("NODE", Align::Right),
        ("NAME", Align::Left),
        ("ADDRESS", Align::Left),
        ("STATE", Align::Left),
        ("SENT", Align::Right),
        ("RECEIVED", Align::Right),
    ]);
    for node in nodes {
        let bytes = |bytes: u64| if node.is_own { "-".into() } else { units::format_bytes(bytes) };
        let state = describe_link(node.is_own, node.is_connected);
        let (name, address) = (sanitize(&node.name), sanitize(&node.address));
        table.push(vec![
            node.number.to_string(),
            name,
            address,
            state.into(),
            bytes(node.sent_bytes),
            bytes(node.received_bytes),
        ]);
    }
    Ok(table.write(out)?)
}

/// `version 7 is complete; 8 waits for rank 3 (process 4711)`.
pub fn describe(object: &Summary, next: &str) -> String {
    match object.newest {
        newest if newest == object.initial => format!("no version is complete but the initial one, {newest}; {next}"),
        newest => format!("version {newest} is complete; {next}"),
    }
}

/// Variables that a row names.
const NAMED_MAX: usize = 3;

fn row(object: &Summary, now_ns: u64) -> Vec<String> {
    let variables = object.variables.iter().take(NAMED_MAX);
    let mut variables: Vec<String> = variables
        .map(|variable| format!("{} {} {}", variable.name, sanitize(&variable.kind), variable.shape()))
        .collect();
    if let more @ 1.. = object.variables.len().saturating_sub(NAMED_MAX) {
        variables.push(format!("{more} more"));
    }
    vec![
        sanitize(&object.name),
        object.state.into(),
        object.newest.to_string(),
        object.versions.len().to_string(),
        units::format_bytes(object.memory_bytes),
        object.describe_writers(),
        object.age_ms(now_ns).map_or_else(|| "-".into(), |age_ms| units::format_ms(age_ms as f64)),
        variables.join(", "),
    ]
}
