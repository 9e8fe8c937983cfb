//! Names of objects, as the runtime has them kept: with whoever keeps them for all nodes, and in this node's directory. What takes long is
//! done without the desk.

use super::{Inner, Runtime};
use crate::surroundings::Unknown;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::mpsc::Receiver;
use stillframe_kernel::points;
use stillframe_object::Description;
use stillframe_wire::ObjectId;

impl Runtime {
    /// Somebody created an object, on any node.
    pub fn created(&self, name: &str, description: &Description) {
        self.created_all(&[(name.to_owned(), description.clone())]);
    }

    /// The same of several objects, in the order in which they were created.
    pub fn created_all(&self, all: &[(String, Description)]) {
        for (name, description) in all {
            // What cannot be kept here now is tried again.
            let _ = self.inner.note_created(name, description);
        }
    }

    /// Somebody removed an object, on any node.
    pub fn removed(&self, name: &str, object: ObjectId) {
        self.inner.change(|desk| _ = desk.note_removed(name, object));
    }

    /// Objects that were removed and that this node's directory still has, for it could not be changed.
    pub(crate) fn unremoved(&self) -> BTreeSet<NonZeroU64> {
        self.inner.desk().unremoved().into_iter().map(|(_, id)| id).collect()
    }

    /// Nobody has an object any more that etcd has lost, this node's directory neither.
    pub fn given_up(&self, name: &str, object: ObjectId) {
        self.inner.change(|desk| desk.note_given_up(name, object));
    }
}

impl Inner {
    /// Makes an object known to this node's programs that was created on any. Who creates it is told so by its own thread and by that
    /// which follows the names; the second finds it done.
    pub(super) fn note_created(&self, name: &str, description: &Description) -> stillframe_object::Result<()> {
        if self.desk().expect_name(name, description.id) {
            return Ok(());
        }
        self.put_name(name, description)
    }

    /// Puts an object into the directory that is expected there.
    fn put_name(&self, name: &str, description: &Description) -> stillframe_object::Result<()> {
        // Without the desk, for which others would wait as long as files are written.
        let names = self.objects.names();
        let put = names.put(name, description);
        let mut is_expected = true;
        self.change(|desk| is_expected = desk.note_put(name, description, &put));
        put?;
        if !is_expected {
            // It was removed meanwhile.
            names.remove(name, description.id)?;
        }
        Ok(())
    }

    /// Tries once more what could not be removed, kept, found or answered before: nobody says once more of an object that he waits for this
    /// node.
    pub(super) fn keep_again(&self) {
        let unremoved = self.desk().unremoved();
        for (name, id) in unremoved {
            // One after the other: others may have the desk in between.
            self.change(|desk| desk.remove_again(&name, id));
        }
        let missing = self.desk().missing();
        for (name, description) in missing {
            if self.has_ended() {
                return;
            }
            let _ = self.put_name(&name, &description);
        }
        self.change(|desk| {
            desk.find_again();
            desk.answer_late();
        });
    }

    /// Who asks has locked the object's board, for which the desk may be waiting: what is to be done here is done when it is told that
    /// the name is gone.
    pub(super) fn remove(&self, name: &str, id: NonZeroU64) -> stillframe_object::Result<bool> {
        let is_removed = self.cluster.names().remove(name, id)?;
        points::hit("name.removed");
        Ok(is_removed)
    }

    /// The same of an object that this node cannot say what it is.
    pub(super) fn discard(&self, name: &str) -> stillframe_object::Result<bool> {
        let id = self.desk().id_of(name);
        id.map_or(Ok(false), |id| self.remove(name, id))
    }

    /// Asks who keeps the names for objects that others speak of, as long as that takes.
    pub(super) fn ask_names(&self, unknown: &Receiver<Vec<Unknown>>) {
        while let Ok(first) = unknown.recv() {
            // Many may have spoken of one meanwhile.
            let all = first.into_iter().chain(unknown.try_iter().flatten());
            let all: BTreeMap<ObjectId, Unknown> = all.map(|unknown| (unknown.id, unknown)).collect();
            for unknown in all.into_values() {
                if self.has_ended() {
                    return;
                }
                let removals = self.desk().removals();
                match self.cluster.names().get(&unknown.name) {
                    Ok(there) => self.change(|desk| desk.take_found(unknown, there.as_ref(), removals)),
                    Err(_) => self.desk().find_later(unknown),
                }
            }
        }
    }
}
