//! Programs of this node that wait until the home of an object was heard.

use std::collections::BTreeMap;
use stillframe_wire::ObjectId;

/// All of them, by the numbers of their connections.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    all: BTreeMap<u64, ObjectId>,
}

impl Listening {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A program waits for the home of an object.
    pub(crate) fn begin(&mut self, client: u64, object: ObjectId) {
        self.all.insert(client, object);
    }

    /// A program waits no more.
    pub(crate) fn close(&mut self, client: u64) {
        self.all.remove(&client);
    }

    /// Those who waited for this home, which wait no more.
    pub(crate) fn end(&mut self, object: ObjectId) -> impl Iterator<Item = u64> + use<> {
        let (ended, all) = std::mem::take(&mut self.all).into_iter().partition(|(_, of)| *of == object);
        self.all = all;
        let ended: BTreeMap<u64, ObjectId> = ended;
        ended.into_keys()
    }
}
