//! Where the elements of a version come from: from another reader of this node that has the same, or from other nodes.

use super::{Place, Readers, index_of, reader_of};
use crate::error::Result;
use crate::filling::Filling;
use crate::known::Known;
use crate::sending::Way;
use crate::surroundings::{OwnJob, Surroundings};
use drepl::transfer::{Move, Transfer};
use std::collections::BTreeMap;
use stillframe::Snapshot;
use stillframe_kernel::points;
use stillframe_roster::writer::{Node, Writer};
use stillframe_wire::Message;
use stillframe_wire::data::Subscribe;

/// What another reader of this node has of a version that is to be filled.
enum Beside {
    /// All of it, as this variable.
    Has(Snapshot, String),
    /// It is just brought all of it.
    Awaits,
    Nothing,
}

impl Readers {
    /// Lets a version come. However many programs of a node read one fragment, it comes to the node once.
    pub(super) fn bring(&mut self, known: &mut Known, number: u64, around: &mut Surroundings) -> Result<()> {
        let Some((one, index)) = self.place(number) else { return Ok(()) };
        let (Some(filling), size_bytes) = (one.places[index].filling.clone(), one.receiver.fragment().size_bytes())
        else {
            return Ok(());
        };
        let beside = self.find_beside(number, &filling);
        let Some((one, index)) = self.place(number) else { return Ok(()) };
        let place = &mut one.places[index];
        place.is_shared = matches!(beside, Beside::Awaits);
        match beside {
            Beside::Has(snapshot, variable) => {
                place.has_own = true;
                let (ways, snapshots) = all_of(&filling, snapshot, &variable, size_bytes);
                let subscription = place.subscription(number);
                around.own.push(OwnJob { subscription, filling, ways: ways.into(), snapshots });
                Ok(())
            }
            Beside::Awaits => Ok(()),
            Beside::Nothing => {
                self.subscribe(known, number, &filling, around);
                self.fill_own(known, number, around)
            }
        }
    }

    /// Looks again after those who waited for another reader, which may have it now or never will.
    pub(crate) fn bring_shared(&mut self, known: &mut Known, around: &mut Surroundings) -> Result<()> {
        let shared = |number: &u64| self.all[&reader_of(*number)].places[index_of(*number)].is_shared;
        let left: Vec<u64> = self.numbers().into_iter().filter(shared).collect();
        left.into_iter().try_for_each(|number| self.bring(known, number, around))
    }

    /// Asks all nodes that have elements of a version for them.
    fn subscribe(&mut self, known: &Known, number: u64, filling: &Filling, around: &mut Surroundings) {
        let Some((one, index)) = self.place(number) else { return };
        let place = &mut one.places[index];
        let mut by_node: BTreeMap<Node, Vec<Writer>> = BTreeMap::new();
        for writer in &filling.writers {
            by_node.entry(writer.node).or_default().push(*writer);
        }
        by_node.remove(&around.node);
        for (node, writers) in by_node {
            place.note_asked(node, filling.version);
            let subscribe = Subscribe {
                subscription: place.subscription(number),
                object: known.id,
                name: known.relay.name().into(),
                fragment: one.layout.clone(),
                elements: one.receiver.elements().clone().into(),
                writers,
                version: filling.version,
                has: place.has,
            };
            around.send(node, Message::Subscribe(Box::new(subscribe)));
        }
        points::hit("fill.asked");
    }

    /// Looks for another reader of the same fragment that has a version of the same writers.
    fn find_beside(&mut self, number: u64, filling: &Filling) -> Beside {
        let Some(layout) = self.all.get(&reader_of(number)).map(|one| one.layout.clone()) else {
            return Beside::Nothing;
        };
        let mut beside = Beside::Nothing;
        for (reader, other) in &mut self.all {
            if *reader == reader_of(number) || other.layout != layout {
                continue;
            }
            if other.newest_of == filling.writers && other.receiver.newest() == Some(filling.version) {
                // One that cannot be seen is brought once more.
                if let Ok(Some((snapshot, variable))) = other.receiver.newest_held() {
                    return Beside::Has(snapshot, variable);
                }
            }
            let is_same = |there: &Filling| there.version == filling.version && there.writers == filling.writers;
            let awaits = |place: &Place| !place.is_shared && place.filling.as_deref().is_some_and(is_same);
            if other.places.iter().any(awaits) {
                beside = Beside::Awaits;
            }
        }
        beside
    }
}

/// All bytes of a fragment, of all its writers.
fn all_of(filling: &Filling, snapshot: Snapshot, variable: &str, size_bytes: u64) -> (Vec<Way>, Vec<Snapshot>) {
    let run = Move { from: 0, to: 0, run_bytes: size_bytes, swap_bytes: 1, axes: Default::default() };
    let mut whole = Transfer::new(vec![run]).unwrap_or_default();
    let way =
        |writer: &Writer| Way { writer: *writer, variable: variable.into(), transfer: std::mem::take(&mut whole) };
    let ways: Vec<Way> = filling.writers.iter().map(way).collect();
    let snapshots = vec![snapshot; ways.len()];
    (ways, snapshots)
}
