//! What goes between this node and the others of its job.

use crate::object::list::describe_link;
use crate::table::sanitize;
use crate::units;
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;
use stillframe_object::Objects;
use stillframe_object::runtime::NodeSummary;

/// A node at one time.
#[derive(Debug, Clone, Serialize)]
pub struct NodeSample {
    pub number: u32,
    pub name: String,
    pub address: String,
    pub is_own: bool,
    pub is_connected: bool,
    /// Bytes that were sent to it per second of the interval.
    pub sent_bytes_per_s: Option<f64>,
    /// Bytes that came from it per second of the interval.
    pub received_bytes_per_s: Option<f64>,
}

/// Looks at the nodes again and again.
#[derive(Debug, Default)]
pub struct Traffic {
    before: HashMap<u32, (u64, u64)>,
}

impl Traffic {
    /// Looks at the nodes now. There are none where no runtime runs, or where it does not answer.
    pub fn sample(&mut self, dir: &Path, interval_ns: Option<u64>) -> Vec<NodeSample> {
        // To watch a directory makes nothing in it: what a job makes there later would have the mode of that.
        let opened = Objects::options().dir(dir).look().ok().flatten();
        let nodes = opened.and_then(|objects| objects.nodes().ok().flatten()).unwrap_or_default();
        let before = std::mem::take(&mut self.before);
        nodes.into_iter().map(|node| self.compare(node, &before, interval_ns)).collect()
    }

    fn compare(
        &mut self,
        node: NodeSummary,
        before: &HashMap<u32, (u64, u64)>,
        interval_ns: Option<u64>,
    ) -> NodeSample {
        let NodeSummary { number, name, address, is_own, is_connected, sent_bytes, received_bytes } = node;
        self.before.insert(number, (sent_bytes, received_bytes));
        let known = before.get(&number).copied();
        // A runtime that was started again counts anew.
        let rate = |now: u64, before: Option<u64>| {
            let gained = now.checked_sub(before?)?;
            interval_ns.map(|interval_ns| gained as f64 * 1e9 / interval_ns as f64)
        };
        NodeSample {
            number,
            name,
            address,
            is_own,
            is_connected,
            sent_bytes_per_s: rate(sent_bytes, known.map(|known| known.0)),
            received_bytes_per_s: rate(received_bytes, known.map(|known| known.1)),
        }
    }
}

/// The columns that describe a node, and whether they are flush on the right.
pub const COLUMNS: [(&str, bool); 5] =
    [("NODE", true), ("NAME", false), ("STATE", false), ("SENT", true), ("RECEIVED", true)];

/// A node in those columns.
pub fn describe(node: &NodeSample) -> [String; COLUMNS.len()] {
    let rate = |rate: Option<f64>| match rate.filter(|_| !node.is_own) {
        Some(bytes) => format!("{}/s", units::format_bytes(bytes as u64)),
        None => "-".into(),
    };
    [
        node.number.to_string(),
        sanitize(&node.name),
        describe_link(node.is_own, node.is_connected).into(),
        rate(node.sent_bytes_per_s),
        rate(node.received_bytes_per_s),
    ]
}
