//! What etcd is known to hold, and what a change of it means. Neither input nor output, nor a clock.

use crate::event::{Event, Home};
use crate::keys::{Key, Keys, shown};
use crate::lost::Unmarked;
use crate::message::KeyValue;
use crate::shard::{SHARDS, Shard, shard_of};
use crate::values::{Epoch, NodeInfo, TERM_MAX, read_description, read_epoch, read_home, read_node};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU64;
use stillframe_roster::writer::{Node, Revision};

/// Something that is known to be there.
#[derive(Debug, Clone)]
struct Known<T> {
    what: T,
    /// The reading of all in which it was seen last, or since which it was told.
    round: u64,
    /// Whether it was seen since etcd lost its data.
    is_confirmed: bool,
}

/// What is read one after the other when all is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Lost,
    Nodes,
    Homes,
    Objects,
}

/// What etcd is known to hold.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    pub epoch: Option<Epoch>,
    /// The revision up to which all is known.
    pub revision: u64,
    nodes: BTreeMap<Node, Known<NodeInfo>>,
    homes: BTreeMap<Shard, Known<Home>>,
    objects: HashMap<String, Known<NonZeroU64>>,
    /// Numbers that were told as lost: nobody has one of them again.
    lost: BTreeSet<Node>,
    /// Nodes that are known only from what a former runtime wrote down: whoever has the number by now has it rightly.
    remembered: BTreeSet<Node>,
    /// Those of which etcd has still to be told, since it lost its data, and those that are to be lost then.
    unmarked: BTreeMap<Node, Unmarked>,
    round: u64,
    floor: Revision,
    /// The incarnation of the node that is told; 0 before there is one.
    pub reader: u64,
}

impl Mirror {
    pub fn nodes(&self) -> Vec<(Node, NodeInfo)> {
        self.nodes.iter().map(|(node, known)| (*node, known.what.clone())).collect()
    }

    pub fn node(&self, node: Node) -> Option<&NodeInfo> {
        self.nodes.get(&node).map(|known| &known.what)
    }

    /// Nodes that are not in etcd since it lost its data.
    pub fn missing(&self) -> BTreeSet<Node> {
        self.nodes.iter().filter(|(_, known)| !known.is_confirmed).map(|(node, _)| *node).collect()
    }

    /// The object of a name.
    pub fn object(&self, name: &str) -> Option<NonZeroU64> {
        self.objects.get(name).map(|known| known.what)
    }

    pub fn home(&self, shard: Shard) -> Option<Home> {
        self.homes.get(&shard).map(|known| known.what)
    }

    pub fn homes(&self) -> Vec<(Shard, Home)> {
        self.homes.iter().map(|(shard, known)| (*shard, known.what)).collect()
    }

    /// The shards of objects that there are.
    pub fn shards_in_use(&self) -> BTreeSet<Shard> {
        let mut shards = BTreeSet::new();
        for known in self.objects.values() {
            shards.insert(shard_of(known.what));
            // Of many objects there are some of each.
            if shards.len() == SHARDS as usize {
                break;
            }
        }
        shards
    }

    /// Forgets all but which data they were, so that it is told once more, to another reader.
    pub fn forget(&mut self, reader: u64) {
        let Mirror { epoch, revision, round, floor, .. } = *self;
        *self = Mirror { epoch, revision, round, floor, reader, ..Mirror::default() };
    }

    /// Numbers that etcd has still to be told that they are lost.
    pub fn unmarked(&self) -> Vec<(Node, Unmarked)> {
        self.unmarked.iter().map(|(node, unmarked)| (*node, *unmarked)).collect()
    }

    /// A number that no term of the lives before exceeds.
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// A number that no term that was ever heard of exceeds.
    pub fn highest_term(&self) -> Revision {
        self.epoch.map_or(0, |epoch| epoch.base.saturating_add(self.revision))
    }

    /// Begins to read all. Whether the data are others than before: then what is known is not taken for removed.
    pub fn begin(&mut self, epoch: Epoch, revision: u64) -> Vec<Event> {
        self.round += 1;
        let highest = self.highest_term();
        let before = self.epoch.replace(epoch);
        // Data that went back were put there from a copy.
        let is_lost = before.is_some_and(|before| before.id != epoch.id || revision < self.revision);
        self.revision = revision;
        if !is_lost {
            return Vec::new();
        }
        self.floor = self.floor.max(highest);
        // Who was told as lost may not have heard so, and would be the first to come back.
        self.unmarked = self.lost.iter().map(|node| (*node, Unmarked::Told)).collect();
        self.nodes.values_mut().for_each(|known| known.is_confirmed = false);
        self.objects.values_mut().for_each(|known| known.is_confirmed = false);
        let homes = std::mem::take(&mut self.homes);
        let over = homes.into_keys().map(|shard| Event::HomeChanged { shard, home: None });
        [Event::NamesLost].into_iter().chain(over).collect()
    }

    /// Takes nodes that were there before etcd lost its data for nodes, until they are back or [given up](Mirror::give_up_nodes).
    pub fn expect(&mut self, nodes: Vec<(Node, NodeInfo)>) -> Vec<Event> {
        let mut events = Vec::new();
        for (node, info) in nodes.into_iter().filter(|(node, _)| !self.lost.contains(node)) {
            self.nodes.entry(node).or_insert_with(|| {
                self.remembered.insert(node);
                events.push(Event::NodeJoined { node, info: info.clone() });
                Known { what: info, round: self.round, is_confirmed: false }
            });
        }
        events
    }

    /// What was there, is not there any more, and was not found while all of this part was read.
    pub fn end(&mut self, part: Part) -> Vec<Event> {
        let round = self.round;
        match part {
            Part::Lost => Vec::new(),
            Part::Nodes => {
                let events = gone(&mut self.nodes, |known| known.is_confirmed && known.round != round, lost);
                self.note_lost(events)
            }
            Part::Homes => gone(&mut self.homes, |known| known.round != round, homeless),
            Part::Objects => gone(&mut self.objects, |known| known.is_confirmed && known.round != round, removed),
        }
    }

    /// Gives up nodes that did not come back, once etcd has [marks](Mirror::unmarked) of them, so that they cannot any more.
    pub fn give_up_nodes(&mut self) {
        let missing = self.nodes.iter().filter(|(_, known)| !known.is_confirmed);
        self.unmarked.extend(missing.map(|(node, _)| (*node, Unmarked::Missing)));
    }

    /// Gives up objects that did not come back.
    pub fn give_up_objects(&mut self) -> Vec<Event> {
        gone(&mut self.objects, |known| !known.is_confirmed, |name, id| Event::ObjectMissing { name, id })
    }

    fn note_lost(&mut self, events: Vec<Event>) -> Vec<Event> {
        let lost = events.iter().filter_map(|event| match event {
            Event::NodeLost { node } => Some(*node),
            _ => None,
        });
        self.lost.extend(lost);
        events
    }

    /// A key has this value now.
    pub fn put(&mut self, keys: &Keys, kv: &KeyValue) -> Vec<Event> {
        let refused = |why| vec![Event::Refused { key: shown(&kv.key), why }];
        let key = match keys.read(&kv.key) {
            Ok(key) => key,
            Err(why) => return refused(why),
        };
        let put = match key {
            Key::Object(name) => self.put_object(name, kv),
            Key::Node(node) => self.put_node(node, kv),
            Key::Lost(node) => Ok(self.put_lost(node)),
            Key::Home(shard) => self.put_home(shard, kv),
            Key::Epoch | Key::Counter => Ok(Vec::new()),
        };
        put.unwrap_or_else(refused)
    }

    fn put_object(&mut self, name: String, kv: &KeyValue) -> Result<Vec<Event>, String> {
        let description = read_description(&kv.value)?;
        let known = Known { what: description.id, round: self.round, is_confirmed: true };
        let before = self.objects.insert(name.clone(), known);
        let mut events = Vec::new();
        if before.as_ref().is_some_and(|before| before.what == description.id) {
            return Ok(events);
        }
        // Nobody has removed what etcd has lost: somebody who had another one of that name was quicker to put his.
        let removed = before.filter(|before| before.is_confirmed);
        events.extend(removed.map(|before| Event::ObjectRemoved { name: name.clone(), id: before.what }));
        events.push(Event::ObjectCreated { name, description });
        Ok(events)
    }

    fn put_node(&mut self, node: Node, kv: &KeyValue) -> Result<Vec<Event>, String> {
        let info = read_node(&kv.value)?;
        if self.lost.contains(&node) {
            self.unmarked.insert(node, Unmarked::Told);
            return Ok(Vec::new());
        }
        self.unmarked.remove(&node);
        let known = Known { what: info.clone(), round: self.round, is_confirmed: true };
        match self.nodes.get(&node) {
            Some(before) if before.what.incarnation != info.incarnation && !self.remembered.contains(&node) => {
                // Where etcd lost its count another got the number. For whoever is told that the one before is lost it is nobody's.
                self.nodes.remove(&node);
                self.unmarked.insert(node, Unmarked::Told);
                Ok(self.note_lost(vec![Event::NodeLost { node }]))
            }
            before => {
                let is_new = before.is_none_or(|before| before.what.incarnation != info.incarnation);
                self.remembered.remove(&node);
                self.nodes.insert(node, known);
                Ok(is_new.then_some(Event::NodeJoined { node, info }).into_iter().collect())
            }
        }
    }

    /// Nobody has this number any more.
    fn put_lost(&mut self, node: Node) -> Vec<Event> {
        self.unmarked.remove(&node);
        self.lost.insert(node);
        self.nodes.remove(&node).map(|known| lost(node, known.what)).into_iter().collect()
    }

    fn put_home(&mut self, shard: Shard, kv: &KeyValue) -> Result<Vec<Event>, String> {
        let node = read_home(&kv.value)?;
        let term = self.epoch.and_then(|epoch| term(&epoch, kv.create_revision)).ok_or("it has no term")?;
        let home = Home { node, term };
        let known = Known { what: home, round: self.round, is_confirmed: true };
        let before = self.homes.insert(shard, known).map(|known| known.what);
        let changed = Event::HomeChanged { shard, home: Some(home) };
        Ok(if before == Some(home) { Vec::new() } else { vec![changed] })
    }

    /// A key is not there any more.
    pub fn delete(&mut self, keys: &Keys, key: &[u8]) -> Vec<Event> {
        let event = match keys.read(key) {
            Ok(Key::Object(name)) => self.objects.remove(&name).map(|known| removed(name, known.what)),
            Ok(Key::Node(node)) => self.nodes.remove(&node).map(|known| lost(node, known.what)),
            Ok(Key::Home(shard)) => self.homes.remove(&shard).map(|known| homeless(shard, known.what)),
            // What was refused when it came is not told when it goes.
            Ok(Key::Lost(_) | Key::Epoch | Key::Counter) | Err(_) => None,
        };
        self.note_lost(event.into_iter().collect())
    }

    /// Whether this is another epoch than the one that is known, so that all has to be read anew.
    pub fn is_other_epoch(&self, keys: &Keys, kv: &KeyValue) -> bool {
        let own = self.epoch.as_ref();
        kv.key == keys.epoch() && read_epoch(&kv.value).is_ok_and(|epoch| own != Some(&epoch))
    }
}

/// The term of a home whose key was made at this revision; `None` where the numbers are none that etcd gives.
pub(crate) fn term(epoch: &Epoch, create_revision: i64) -> Option<Revision> {
    let revision = u64::try_from(create_revision).ok().filter(|revision| (1..TERM_MAX).contains(revision))?;
    Some(epoch.base + revision)
}

fn lost(node: Node, _: NodeInfo) -> Event {
    Event::NodeLost { node }
}

fn homeless(shard: Shard, _: Home) -> Event {
    Event::HomeChanged { shard, home: None }
}

fn removed(name: String, id: NonZeroU64) -> Event {
    Event::ObjectRemoved { name, id }
}

/// Takes out of a map what has gone.
fn gone<K, T>(
    map: &mut (impl Default + Extend<(K, Known<T>)> + IntoIterator<Item = (K, Known<T>)>),
    has_gone: impl Fn(&Known<T>) -> bool,
    event: impl Fn(K, T) -> Event,
) -> Vec<Event> {
    let mut events = Vec::new();
    let stays = std::mem::take(map).into_iter().filter_map(|(key, known)| {
        if has_gone(&known) {
            events.push(event(key, known.what));
            return None;
        }
        Some((key, known))
    });
    let stays: Vec<_> = stays.collect();
    map.extend(stays);
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{write_description, write_home, write_node};
    use stillframe_object::Description;

    fn epoch(id: u64) -> Epoch {
        Epoch { base: 1000 * id, id }
    }

    fn kv(key: Vec<u8>, value: Vec<u8>, revision: i64) -> KeyValue {
        KeyValue { key, value, create_revision: revision, mod_revision: revision, ..KeyValue::default() }
    }

    fn object(keys: &Keys, name: &str, id: u64) -> KeyValue {
        let id = NonZeroU64::new(id).unwrap();
        let described = Description { text: "text".into(), bindings: BTreeMap::new(), initial: 0, id };
        kv(keys.object(name), write_description(name, &described).unwrap(), 5)
    }

    fn node(keys: &Keys, number: u32, incarnation: u64) -> KeyValue {
        let info = NodeInfo { name: "n".into(), address: "a".into(), incarnation, memory: 1, former: Vec::new() };
        kv(keys.node(Node(number)), write_node(&info), 5)
    }

    fn mark(keys: &Keys, number: u32) -> KeyValue {
        kv(keys.lost(Node(number)), b"{}".to_vec(), 5)
    }

    /// Reads all, of which these are.
    fn read(mirror: &mut Mirror, keys: &Keys, epoch: Epoch, revision: u64, all: &[KeyValue]) -> Vec<Event> {
        let mut events = mirror.begin(epoch, revision);
        events.extend(all.iter().flat_map(|kv| mirror.put(keys, kv)));
        events.extend(
            [Part::Lost, Part::Nodes, Part::Homes, Part::Objects].into_iter().flat_map(|part| mirror.end(part)),
        );
        events
    }

    #[test]
    fn what_is_the_same_is_not_told_and_what_has_gone_is() {
        let (keys, mut mirror) = (Keys::new("job"), Mirror::default());
        let all = [node(&keys, 1, 7), object(&keys, "u", 1), object(&keys, "v", 2)];
        assert_eq!(read(&mut mirror, &keys, epoch(1), 5, &all).len(), 3);
        assert_eq!(read(&mut mirror, &keys, epoch(1), 6, &all), []);
        let events = read(&mut mirror, &keys, epoch(1), 7, &[object(&keys, "u", 3)]);
        let removed = |name: &str, id| Event::ObjectRemoved { name: name.into(), id: NonZeroU64::new(id).unwrap() };
        assert_eq!(events[0], removed("u", 1));
        assert!(matches!(&events[1], Event::ObjectCreated { description, .. } if description.id.get() == 3));
        assert_eq!(events[2..], [Event::NodeLost { node: Node(1) }, removed("v", 2)]);
    }

    #[test]
    fn after_a_loss_only_what_does_not_come_back_is_told_and_terms_go_on() {
        let (keys, mut mirror) = (Keys::new("job"), Mirror::default());
        let shard = Shard::new(2).unwrap();
        let home = kv(keys.home(shard), write_home(Node(1)), 9);
        let all = [node(&keys, 1, 7), node(&keys, 2, 8), home, object(&keys, "u", 1), object(&keys, "v", 2)];
        read(&mut mirror, &keys, epoch(1), 10, &all);
        assert_eq!(mirror.home(shard), Some(Home { node: Node(1), term: 1009 }));
        let events = read(&mut mirror, &keys, epoch(2), 3, &[node(&keys, 1, 99)]);
        assert_eq!(events[..2], [Event::NamesLost, Event::HomeChanged { shard, home: None }]);
        assert_eq!(events[2..], [Event::NodeLost { node: Node(1) }], "its number is another's, who is none");
        assert_eq!(mirror.floor(), 1010);
        assert_eq!(mirror.put(&keys, &object(&keys, "u", 1)), [], "it came back");
        mirror.give_up_nodes();
        let missing = Event::ObjectMissing { name: "v".into(), id: NonZeroU64::new(2).unwrap() };
        assert_eq!(mirror.give_up_objects(), [missing], "nobody removed it");
        assert_eq!(mirror.give_up_objects(), []);
        let again = mirror.put(&keys, &object(&keys, "v", 2));
        assert!(matches!(again[..], [Event::ObjectCreated { .. }]), "somebody was late: {again:?}");
        assert_eq!(mirror.unmarked(), [(Node(1), Unmarked::Told), (Node(2), Unmarked::Missing)]);
        assert_eq!(mirror.put(&keys, &mark(&keys, 2)), [Event::NodeLost { node: Node(2) }]);
        assert_eq!(mirror.unmarked(), [(Node(1), Unmarked::Told)]);
    }

    /// Who has another object of a name may be quicker than those who have lost theirs with etcd's data.
    #[test]
    fn what_etcd_has_lost_is_not_removed_because_another_object_has_its_name() {
        let (keys, mut mirror) = (Keys::new("job"), Mirror::default());
        read(&mut mirror, &keys, epoch(1), 10, &[object(&keys, "u", 2)]);
        let events = read(&mut mirror, &keys, epoch(2), 3, &[object(&keys, "u", 1)]);
        let created =
            |event: &Event| matches!(event, Event::ObjectCreated { description, .. } if description.id.get() == 1);
        assert!(matches!(&events[..], [Event::NamesLost, event] if created(event)), "{events:?}");
        let events = mirror.put(&keys, &object(&keys, "u", 3));
        assert!(
            matches!(&events[..], [Event::ObjectRemoved { .. }, Event::ObjectCreated { .. }]),
            "that one was removed"
        );
    }

    /// A runtime that was started again knows them of the one before.
    #[test]
    fn nodes_that_are_expected_are_nodes_until_they_are_back_or_given_up() {
        let (keys, mut mirror) = (Keys::new("job"), Mirror::default());
        mirror.begin(epoch(2), 3);
        let info = |number, incarnation| read_node(&node(&keys, number, incarnation).value).unwrap();
        let events = mirror.expect([(1, 7), (2, 8), (3, 9)].map(|(node, of)| (Node(node), info(node, of))).into());
        assert!(matches!(events[..], [Event::NodeJoined { .. }, Event::NodeJoined { .. }, Event::NodeJoined { .. }]));
        assert_eq!(mirror.end(Part::Nodes), [], "they are missed, and not lost");
        assert_eq!(mirror.put(&keys, &node(&keys, 1, 7)), [], "it is back");
        // What was written down may be of another job: no node loses its number for that.
        let another = mirror.put(&keys, &node(&keys, 2, 99));
        assert!(matches!(&another[..], [Event::NodeJoined { info, .. }] if info.incarnation == 99), "{another:?}");
        assert_eq!((mirror.nodes().len(), mirror.missing()), (3, BTreeSet::from([Node(3)])));
        mirror.give_up_nodes();
        assert_eq!(mirror.unmarked(), [(Node(3), Unmarked::Missing)]);
        assert_eq!(mirror.put(&keys, &mark(&keys, 3)), [Event::NodeLost { node: Node(3) }]);
    }

    #[test]
    fn who_comes_back_until_it_is_marked_is_not_lost() {
        let (keys, mut mirror) = (Keys::new("job"), Mirror::default());
        let all = [node(&keys, 1, 7)];
        read(&mut mirror, &keys, epoch(1), 10, &all);
        read(&mut mirror, &keys, epoch(2), 3, &[]);
        mirror.give_up_nodes();
        assert_eq!(mirror.unmarked(), [(Node(1), Unmarked::Missing)]);
        assert_eq!(mirror.put(&keys, &all[0]), []);
        assert_eq!(mirror.unmarked(), []);
    }

    #[test]
    fn who_was_told_as_lost_is_told_no_more_in_whatever_data() {
        let keys = Keys::new("job");
        for is_by_mark in [false, true] {
            let mut mirror = Mirror::default();
            let all = [node(&keys, 1, 7), node(&keys, 2, 8)];
            read(&mut mirror, &keys, epoch(1), 10, &all);
            let lost = match is_by_mark {
                true => mirror.put(&keys, &mark(&keys, 1)),
                false => mirror.delete(&keys, &keys.node(Node(1))),
            };
            assert_eq!(lost, [Event::NodeLost { node: Node(1) }]);
            assert_eq!(mirror.unmarked(), []);
            assert_eq!(read(&mut mirror, &keys, epoch(2), 3, &all), [Event::NamesLost]);
            assert_eq!(mirror.unmarked(), [(Node(1), Unmarked::Told)]);
            assert_eq!(mirror.put(&keys, &mark(&keys, 1)), []);
            assert_eq!(mirror.delete(&keys, &keys.node(Node(1))), []);
            // And once more, where another was quicker.
            let marked = [mark(&keys, 1), node(&keys, 2, 8)];
            assert_eq!(read(&mut mirror, &keys, epoch(3), 3, &marked), [Event::NamesLost]);
            assert_eq!(mirror.unmarked(), []);
            assert_eq!(mirror.nodes().len(), 1);
        }
    }

    #[test]
    fn data_that_went_back_are_taken_for_lost() {
        let (keys, mut mirror) = (Keys::new("job"), Mirror::default());
        read(&mut mirror, &keys, epoch(1), 10, &[object(&keys, "u", 1)]);
        assert_eq!(read(&mut mirror, &keys, epoch(1), 9, &[]), [Event::NamesLost]);
    }

    #[test]
    fn a_home_without_a_possible_term_is_refused() {
        let (keys, mut mirror) = (Keys::new("job"), Mirror::default());
        mirror.begin(epoch(1), 10);
        for revision in [0, -1, i64::MIN, i64::MAX] {
            let home = kv(keys.home(Shard::new(2).unwrap()), write_home(Node(1)), revision);
            assert!(matches!(mirror.put(&keys, &home)[..], [Event::Refused { .. }]), "{revision}");
        }
    }
}
