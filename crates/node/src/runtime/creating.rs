//! Creating objects for programs of this node.

use super::{AGAIN, Inner};
use std::thread;
use std::time::{Duration, Instant};
use stillframe_kernel::points;
use stillframe_object::{Description, Error, Result};

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
            let removal = self.removal_of(name, &there);
            let is_over = begin.elapsed() >= TOLD || self.has_ended();
            match removal {
                None => return Ok(Some(there)),
                // Who keeps the names may have lost them.
                Some(Removal::Unknown) if is_over => return Ok(Some(there)),
                Some(Removal::Known) if is_over => return Err(Error::Removed { name: name.into() }),
                Some(_) => thread::sleep(AGAIN),
            }
        }
        Ok(None)
    }

    /// Whether an object of this node's directory was removed on another node, as far as this node or who keeps the names knows.
    fn removal_of(&self, name: &str, there: &Description) -> Option<Removal> {
        let (is_shared, is_unremoved) = {
            let desk = self.desk();
            (desk.is_shared(name, there.id), desk.is_unremoved(name, there.id))
        };
        if is_unremoved {
            return Some(Removal::Known);
        }
        // One of this node alone nobody else removes. While who keeps the names does not answer, what this node has is there.
        match is_shared.then(|| self.cluster.names().get(name))?.ok()? {
            Some(now) => (now.id != there.id).then_some(Removal::Known),
            None => Some(Removal::Unknown),
        }
    }
}

/// What is known of the removal of an object.
enum Removal {
    /// It was removed.
    Known,
    /// Who keeps the names has no object of the name: it was removed, or they were lost.
    Unknown,
}
