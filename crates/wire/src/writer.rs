//! Values into bytes.

use std::{collections::HashMap, sync::Arc};

use drepl::IndexSet;
use stillframe_roster::writer::{Elements, Node};

use crate::item::Item;

/// Appends values to a body. What is written out once is named after that.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Sets that were written out, by where they lie, and their numbers. All are borrowed by the message as long as this lives, so
    /// that no other lies there.
    sets: HashMap<*const IndexSet, u32>,
    nodes: HashMap<*const std::collections::BTreeSet<Node>, u32>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, sets: HashMap::new(), nodes: HashMap::new() }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(crate) fn item(&mut self, item: &impl Item) {
        item.write(self);
    }

    /// A number of items, and the items. No body that is read has more than a `u32` counts.
    pub(crate) fn count(&mut self, count: usize) {
        self.item(&u32::try_from(count).unwrap_or(u32::MAX));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.count(text.len());
        self.bytes(text.as_bytes());
    }

    /// The number of a set that was written out before; `None` where it is to be written out now.
    pub(crate) fn known_set(&mut self, elements: &Elements) -> Option<u32> {
        known(&mut self.sets, std::ptr::from_ref::<IndexSet>(elements))
    }

    pub(crate) fn known_nodes(&mut self, nodes: &Arc<std::collections::BTreeSet<Node>>) -> Option<u32> {
        known(&mut self.nodes, Arc::as_ptr(nodes))
    }
}

fn known<T>(all: &mut HashMap<*const T, u32>, place: *const T) -> Option<u32> {
    let next = u32::try_from(all.len()).unwrap_or(u32::MAX);
    match all.entry(place) {
        std::collections::hash_map::Entry::Occupied(entry) => Some(*entry.get()),
        std::collections::hash_map::Entry::Vacant(entry) => {
            entry.insert(next);
            None
        }
    }
}
