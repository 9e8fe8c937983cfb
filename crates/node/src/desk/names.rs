//! Names of objects, as the desk knows them.

use super::Desk;
use super::descriptions::Descriptions;
use crate::error::Result;
use crate::known::numbers;
use crate::surroundings::Unknown;
use crate::watched::Watched;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::time::Duration;
use stillframe_object::hints::bit_of;
use stillframe_object::{Description, bindings as bindings_of};
use stillframe_roster::writer::Node;
use stillframe_wire::data::FragmentText;
use stillframe_wire::roster::{self as wire, Describe};
use stillframe_wire::{Message, ObjectId};

/// How long who has the board of an object is waited for that is to be removed: others wait for the desk meanwhile.
const BOARD_LIMIT: Duration = Duration::from_millis(10);

/// What is known of a name.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Named {
    /// The object that is watched.
    watched: Option<ObjectId>,
    /// The object that was created, whether this node's directory has it already or not yet.
    created: Option<NonZeroU64>,
    /// Whether the directory has it.
    is_kept: bool,
}

/// All names that this node has heard of.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By their bits among the hints.
    by_bit: BTreeMap<usize, BTreeMap<String, Named>>,
    /// How many objects it was told of that they are removed.
    removals: u64,
    /// Objects that others spoke of before their names came to this node.
    awaited: BTreeMap<String, ObjectId>,
    /// Objects whose names the directory could not take: for want of room, say, or because another object has the name there.
    missing: BTreeMap<String, Description>,
    /// Objects that were removed and that the directory still has: a program that is stopped may have the lock of the board.
    unremoved: BTreeMap<NonZeroU64, String>,
    /// Objects of all nodes whose names went from the directory, though nobody told that they are removed.
    discarded: BTreeSet<ObjectId>,
    /// Objects that others spoke of, while the directory or who keeps the names could not be asked.
    unasked: BTreeMap<ObjectId, Unknown>,
    /// What was asked of objects to which no names lead where they are kept.
    descriptions: Descriptions,
}

impl Desk {
    /// Looks at objects whose bits were set.
    pub(crate) fn look_at(&mut self, bits: &[usize]) {
        for bit in bits {
            let of_bit = self.names.by_bit.get(bit);
            let known: Vec<ObjectId> =
                of_bit.into_iter().flat_map(BTreeMap::values).filter_map(|named| named.watched).collect();
            known.iter().for_each(|id| self.look(*id));
            // It is new, or the one before was just found removed, or may be: nobody writes that, and nobody told of its end yet.
            let has_writers = |id: ObjectId| self.watched.get(&id).is_some_and(Watched::has_writers);
            let is_new = |named: &Named| !named.watched.is_some_and(has_writers);
            let names = self.names.by_bit.get(bit).into_iter().flatten();
            let new: Vec<String> = names.filter(|(_, named)| is_new(named)).map(|(name, _)| name.clone()).collect();
            for name in new {
                match self.watch(&name) {
                    Ok(id) if known.contains(&id) => {}
                    Ok(id) => self.look(id),
                    Err(crate::Error::Object(stillframe_object::Error::NoObject { .. })) => self.note_no_name(&name),
                    // What is damaged now hurts no other.
                    Err(_) => {}
                }
            }
        }
    }

    pub(super) fn watch(&mut self, name: &str) -> Result<ObjectId> {
        let object = self.objects.object_named(name)?;
        let id = ObjectId(object.description().id);
        match self.watched.get_mut(&id) {
            Some(one) => one.note_name()?,
            None => _ = self.watched.insert(id, Watched::new(&object, self.node)?),
        }
        self.forget_discarded(id);
        let former = self.note_name(name).watched.replace(id).filter(|former| *former != id);
        former.into_iter().for_each(|former| self.forget(former));
        Ok(id)
    }

    /// Keeps a name in mind.
    pub(super) fn note_name(&mut self, name: &str) -> &mut Named {
        self.names.by_bit.entry(bit_of(name)).or_default().entry(name.into()).or_default()
    }

    /// Whether an object that has a name here is that of all nodes: this one was told that it was created, and of no end of it.
    pub(crate) fn is_shared(&self, name: &str, id: NonZeroU64) -> bool {
        let named = self.names.by_bit.get(&bit_of(name)).and_then(|of_bit| of_bit.get(name));
        named.is_some_and(|named| named.created == Some(id))
    }

    /// The object that the directory has by a name, or was to have, whatever is there: the one that was put there, or another one that this
    /// node watches, or the one that was created.
    pub(crate) fn id_of(&self, name: &str) -> Option<NonZeroU64> {
        let named = self.names.by_bit.get(&bit_of(name))?.get(name)?;
        let watched = named.watched.filter(|id| !named.is_kept && self.watched.contains_key(id));
        watched.map(|id| id.0).or(named.created)
    }

    /// Whether an object was removed that the directory still has.
    pub(crate) fn is_unremoved(&self, name: &str, id: NonZeroU64) -> bool {
        self.names.unremoved.get(&id).is_some_and(|of| of == name)
    }

    /// The directory has no object of a name.
    fn note_no_name(&mut self, name: &str) {
        let named = self.names.by_bit.get(&bit_of(name)).and_then(|of_bit| of_bit.get(name));
        let watched = named.and_then(|named| named.watched);
        if !watched.is_some_and(|id| self.lose_name_of(id)) {
            self.forget_name(name);
        }
    }

    /// An object of which this node watches that it is there went from the directory; whether it may be there on other nodes all the same,
    /// as where somebody removed what was damaged on this one. Then its home goes on if it is here, and who keeps the names is asked: either
    /// the directory gets it back, or this node is told that it is removed.
    pub(super) fn lose_name_of(&mut self, id: ObjectId) -> bool {
        let Some(name) = self.watched.get(&id).map(|one| one.name().to_owned()) else { return false };
        let is_coming =
            !self.names.by_bit.get(&bit_of(&name)).and_then(|of| of.get(&name)).is_some_and(|of| of.is_kept);
        if !self.is_shared(&name, id.0) || is_coming && !self.names.discarded.contains(&id) {
            return false;
        }
        match self.objects.names().get(&name) {
            Ok(None) => {}
            // A program has put it back meanwhile.
            Ok(Some(there)) if there.id == id.0 && self.names.discarded.contains(&id) => return true,
            Ok(Some(_)) | Err(_) => return false,
        }
        self.note_name(&name).is_kept = false;
        self.names.awaited.insert(name.clone(), id);
        self.names.discarded.insert(id);
        self.watched.get_mut(&id).into_iter().for_each(Watched::lose_name);
        self.todo.unknown.push(Unknown { id, name, from: self.node });
        true
    }

    /// The directory has an object again, or is not to have it any more.
    pub(super) fn forget_discarded(&mut self, id: ObjectId) {
        self.names.discarded.remove(&id);
    }

    /// Whether this node knows an object, and its directory has the name if it ever had.
    fn has(&self, id: ObjectId) -> bool {
        self.watched.contains_key(&id) && !self.names.discarded.contains(&id)
    }

    /// A name that no object has. One that is just being put there stays: whoever finds it may hint at it at once.
    fn forget_name(&mut self, name: &str) {
        if let Some(of_bit) = self.names.by_bit.get_mut(&bit_of(name)) {
            let is_coming = of_bit.get(name).is_some_and(|named| named.created.is_some() && !named.is_kept);
            if !is_coming {
                of_bit.remove(name);
            }
        }
    }

    /// Makes an object known to this node that another one speaks of.
    pub(super) fn find(&mut self, id: ObjectId, name: &str, from: Node) -> Result<()> {
        if self.has(id) {
            return Ok(());
        }
        match self.objects.names().get(name) {
            Ok(Some(there)) if ObjectId(there.id) == id => self.note_found(id, name, &there),
            // Its name may not have come to this node yet, or the one before may still be there. Who keeps the names may be slow: he is
            // asked without the desk's lock.
            Ok(_) => {
                self.names.awaited.insert(name.into(), id);
                self.todo.unknown.push(Unknown { id, name: name.into(), from });
            }
            Err(error) => {
                let until = "until this node can say what it has of the object, nothing new of it becomes complete";
                let advice = format!("where it stays so, remove the object: still rm --force '{name}'");
                self.say(id, name, format!("{error}; {until}; {advice}"));
                self.find_later(Unknown { id, name: name.into(), from });
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Others speak of an object, and whoever knows of it cannot be asked now. A home that waits for this node says nothing once more.
    pub(crate) fn find_later(&mut self, unknown: Unknown) {
        self.names.unasked.insert(unknown.id, unknown);
    }

    /// Looks once more for what could not be asked for.
    pub(crate) fn find_again(&mut self) {
        for Unknown { id, name, from } in std::mem::take(&mut self.names.unasked).into_values() {
            // What fails again is kept in mind again.
            let _ = self.find(id, &name, from);
        }
    }

    /// How many objects it was told of that they are removed.
    pub(crate) fn removals(&self) -> u64 {
        self.names.removals
    }

    /// What was asked for without the lock is taken if nothing was removed meanwhile. Else it is asked for again.
    pub(crate) fn take_found(&mut self, unknown: Unknown, there: Option<&Description>, removals: u64) {
        let Unknown { id, name, from } = unknown;
        if self.names.removals != removals {
            self.todo.unknown.push(Unknown { id, name, from });
        } else if let Some(there) = there.filter(|there| ObjectId(there.id) == id) {
            self.note_found(id, &name, there);
        } else if !self.watched.contains_key(&id) {
            // It is one of that node alone: two were created apart from each other, and only one of them has the name, or it was removed
            // elsewhere while a program of that node wrote it. Its home goes on to ask this node, which knows what it is from nobody else.
            // Or it was just removed, and that node has still to be told: then it answers nothing.
            self.names.descriptions.expect(id);
            self.outbox.push(from, Message::Describe(Describe { object: id, name }));
        }
    }

    /// Takes a message that is about what objects are.
    pub(super) fn receive_of_names(&mut self, from: Node, message: &Message) {
        match message {
            Message::Describe(asked) => self.answer(from, asked.object),
            Message::Description(described) => self.note_description(described),
            _ => {}
        }
    }

    /// Answers what an object of this node is. Who asks has found that it has no name where names are kept. One that this node takes for
    /// an object of all nodes was just removed, or the names were lost: he is answered unless this node is told of its removal within a
    /// lease. Else others would have the object for good, and nobody would tell them that it is removed.
    fn answer(&mut self, to: Node, id: ObjectId) {
        let Some(name) = self.watched.get(&id).map(Watched::name) else { return };
        match self.is_shared(name, id.0) {
            true => self.names.descriptions.owe(id, to),
            false => self.describe(to, id),
        }
    }

    /// Answers those who have waited for a lease.
    pub(crate) fn answer_late(&mut self) {
        let due = self.names.descriptions.due(self.cluster.lease());
        due.into_iter().for_each(|(id, to)| self.describe(to, id));
    }

    fn describe(&mut self, to: Node, id: ObjectId) {
        let Some(one) = self.watched.get_mut(&id) else { return };
        let name = one.name().to_owned();
        let Description { text, bindings, initial, .. } = one.known().relay.description().clone();
        // What was removed and is still in the directory goes as soon as it can be removed there.
        if !self.is_unremoved(&name, id.0) {
            let text = FragmentText { text, bindings: bindings_of(&bindings) };
            self.outbox.push(to, Message::Description(wire::Description { object: id, name, initial, text }));
        }
    }

    /// A node does not live any more: it is answered nothing.
    pub(super) fn forget_node_of_names(&mut self, node: Node) {
        self.names.descriptions.forget_node(node);
    }

    /// Another node said what an object is that it spoke of.
    fn note_description(&mut self, described: &wire::Description) {
        if self.names.descriptions.accept(described.object) {
            let wire::Description { object, name, initial, text } = described;
            let (bindings, text) = (numbers(text), text.text.clone());
            self.watch_without_name(name, &Description { id: object.0, text, bindings, initial: *initial });
        }
    }

    /// Begins to watch an object that others spoke of, if it is the one of that name. What they said before is asked for again: by a home
    /// that begins, and by what this node reports to it.
    fn note_found(&mut self, id: ObjectId, name: &str, there: &Description) {
        if ObjectId(there.id) == id && !self.has(id) {
            self.names.awaited.insert(name.into(), id);
            self.expect_name(name, there.id);
            let put = self.objects.names().put(name, there);
            self.note_put(name, there, &put);
        }
    }

    /// Somebody created an object, on any node, and the directory is going to have it; whether it has it already.
    pub(crate) fn expect_name(&mut self, name: &str, id: NonZeroU64) -> bool {
        // Somebody who had not heard that it is removed may have put it back.
        if self.is_unremoved(name, id) {
            self.names.unremoved.remove(&id);
        }
        let named = self.note_name(name);
        if named.created != Some(id) {
            *named = Named { created: Some(id), is_kept: false, ..*named };
        }
        named.is_kept
    }

    /// An object that was expected was put into the directory, which has that one now, or another one; whether the object was not removed
    /// meanwhile.
    pub(crate) fn note_put(
        &mut self,
        name: &str,
        wanted: &Description,
        put: &stillframe_object::Result<Description>,
    ) -> bool {
        let named = self.note_name(name);
        if named.created != Some(wanted.id) {
            return false;
        }
        match put {
            Ok(there) if there.id == wanted.id => {
                named.is_kept = true;
                let is_awaited = self.names.awaited.get(name) == Some(&ObjectId(wanted.id));
                if is_awaited || self.names.missing.contains_key(name) {
                    self.take_name(name, wanted);
                }
            }
            Ok(_) => self.miss(name, wanted, None),
            Err(error) => self.miss(name, wanted, Some(error.to_string())),
        }
        true
    }

    /// The directory has an object of which others spoke, or that it could not take before.
    fn take_name(&mut self, name: &str, wanted: &Description) {
        match self.watch(name) {
            Ok(id) => {
                self.names.awaited.remove(name);
                if self.names.missing.remove(name).is_some() {
                    self.said.remove(&id);
                }
                self.look(id);
            }
            Err(error) => self.miss(name, wanted, Some(error.to_string())),
        }
    }

    /// The directory does not have an object now that others have, and is to have it later. Where no program of this node can have it
    /// meanwhile, others need not wait: the object is watched without its name.
    fn miss(&mut self, name: &str, wanted: &Description, why: Option<String>) {
        let id = ObjectId(wanted.id);
        let is_known =
            self.names.missing.insert(name.into(), wanted.clone()).is_some_and(|known| known.id == wanted.id);
        match why {
            Some(why) => self.say(id, name, format!("this node cannot keep it, and tries again: {why}")),
            // The one before may just be going.
            None if is_known => {
                let why = "programs of this node have another object of that name, which was created apart from the other nodes";
                let advice = format!("to have that of the others, remove it here: still rm '{name}'");
                self.say(id, name, format!("{why}; {advice}"));
            }
            None => {}
        }
        self.watch_without_name(name, wanted);
    }

    /// Watches an object that no program of this node can have, as its name leads to another one here: others need not wait for it.
    fn watch_without_name(&mut self, name: &str, wanted: &Description) {
        let id = ObjectId(wanted.id);
        let is_another = match self.objects.names().get(name) {
            Ok(there) => there.is_none_or(|there| there.id != wanted.id),
            Err(_) => false,
        };
        if is_another
            && !self.watched.contains_key(&id)
            && let Ok(object) = self.objects.object_described(name, wanted)
            && let Ok(one) = Watched::without_name(&object, self.node)
        {
            self.watched.insert(id, one);
            self.look(id);
        }
    }

    /// Objects that the directory is to have and could not take.
    pub(crate) fn missing(&self) -> Vec<(String, Description)> {
        self.names.missing.iter().map(|(name, described)| (name.clone(), described.clone())).collect()
    }

    /// Nobody has an object any more that etcd has lost, this node's directory neither.
    pub(crate) fn note_given_up(&mut self, name: &str, id: ObjectId) {
        if self.names.awaited.get(name) == Some(&id) {
            self.names.awaited.remove(name);
        }
        if self.names.missing.get(name).is_some_and(|missing| missing.id == id.0) {
            self.names.missing.remove(name);
        }
        self.names.unasked.remove(&id);
        self.names.descriptions.forget(id);
        self.forget(id);
        let named = self.note_name(name);
        if named.created == Some(id.0) {
            *named = Named { created: None, is_kept: false, ..*named };
        }
    }

    /// Somebody removed an object, on any node.
    pub(crate) fn note_removed(&mut self, name: &str, id: ObjectId) -> Result<()> {
        self.names.removals += 1;
        self.note_given_up(name, id);
        if let Err(error) = self.objects.remove_id(name, id.0, BOARD_LIMIT) {
            self.names.unremoved.insert(id.0, name.into());
            return Err(error.into());
        }
        // Somebody has created the next one already, and perhaps hinted at it while this one was looked at.
        if self.objects.names().get(name)?.is_some() {
            let id = self.watch(name)?;
            self.look(id);
        }
        Ok(())
    }

    /// Objects that were removed and that the directory still has.
    pub(crate) fn unremoved(&self) -> Vec<(String, NonZeroU64)> {
        self.names.unremoved.iter().map(|(id, name)| (name.clone(), *id)).collect()
    }

    /// Tries once more to remove an object from the directory.
    pub(crate) fn remove_again(&mut self, name: &str, id: NonZeroU64) {
        if !self.is_unremoved(name, id) {
            return;
        }
        self.names.unremoved.remove(&id);
        match self.objects.remove_id(name, id, BOARD_LIMIT) {
            // Programs may have hinted at it meanwhile.
            Ok(()) => self.forget(ObjectId(id)),
            Err(error) => {
                self.names.unremoved.insert(id, name.to_owned());
                let why = "it was removed, and this node cannot remove it, and tries again";
                self.say(ObjectId(id), name, format!("{why}: {error}"));
            }
        }
    }
}
