//! Creating objects for programs of this node.

use super::{AGAIN, Inner};
use std::thread;
use std::time::{Duration, Instant};
use stillframe_kernel::points;
use stillframe_object::{Description, Result};

/// How long it may take until this node is told of a removal of which who keeps the names knows. Longer it takes only where he has lost
/// what he knew, and will be told again of what the nodes have.
const TOLD: Duration = Duration::from_secs(5);

impl Inner {
    /// Creates an object on all nodes, unless there is one; what there is then.
    pub(super) fn create(&self, name: &str, description: &Description) -> Result<Description> {
        if let Some(there) = self.find_current(name)? {
            return Ok(there);
        }
        let there = self.cluster.names().put(name, description)?;
        points::hit("name.put");
        self.note_created(name, &there)?;
        points::hit("name.noted");
        Ok(there)
    }

    /// The object that this node has by a name. One that was removed on another node is none, and gives way to what is created next, once
    /// this node is told of its removal.
    fn find_current(&self, name: &str) -> Result<Option<Description>> {
        let (names, begin) = (self.objects.names(), Instant::now());
        while let Some(there) = names.get(name)? {
            // One of this node alone nobody else removes.
            let is_shared = self.desk().is_shared(name, there.id);
            let is_removed = is_shared && self.is_removed(name, &there);
            if !is_removed || begin.elapsed() >= TOLD {
                return Ok(Some(there));
            }
            thread::sleep(AGAIN);
        }
        Ok(None)
    }

    /// Whether who keeps the names knows that the name is not this object's any more. While he does not answer, what this node has is there.
    fn is_removed(&self, name: &str, there: &Description) -> bool {
        self.cluster.names().get(name).is_ok_and(|now| now.is_none_or(|now| now.id != there.id))
    }
}
