//! Fragments that programs of this node read and that the runtime fills.

use crate::error::Result;
use crate::filling::Filling;
use crate::known::Known;
use crate::sending;
use crate::surroundings::{OwnJob, Surroundings};
use drepl::Fragment;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stillframe_kernel::points;
use stillframe_object::bindings as bindings_of;
use stillframe_object::relay::Receiver;
use stillframe_object::runtime::Reply;
use stillframe_roster::readiness::{Loss, Readiness};
use stillframe_roster::writer::{Node, Version, Writer};
use stillframe_wire::Message;
use stillframe_wire::data::{FragmentText, Subscribe, Unsubscribe, Which};

/// A fragment of a process of this node that this runtime fills.
#[derive(Debug)]
struct Reader {
    layout: FragmentText,
    receiver: Receiver,
    /// Whether elements fill all of its bytes.
    is_full: bool,
    wanted: Option<Version>,
    /// Whose elements it had last.
    writers: Vec<Writer>,
    filling: Option<Arc<Filling>>,
    /// Whether elements of this node's own writers were put into it.
    has_own: bool,
    /// Of the version that is wanted, whose elements it consists of, as the home says.
    confirmed: Option<BTreeSet<Writer>>,
    /// Nodes that were asked to send.
    subscribed: BTreeSet<Node>,
}

/// All of them, by the numbers of their programs' connections.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    all: BTreeMap<u64, Reader>,
}

impl Readers {
    /// Begins to fill a fragment of this node; the region that its versions are published in.
    pub(crate) fn read(
        &mut self,
        known: &mut Known,
        reader: u64,
        text: String,
        bindings: &BTreeMap<String, i64>,
    ) -> Result<String> {
        let receiver = known.relay.receive(&text, bindings)?;
        points::hit("read.begun");
        let layout = FragmentText { text, bindings: bindings_of(bindings) };
        let region = receiver.name().to_owned();
        let (wanted, writers, filling, has_own, confirmed) = (None, Vec::new(), None, false, None);
        let subscribed = BTreeSet::new();
        let is_full = is_full(receiver.fragment());
        let one = Reader { layout, receiver, is_full, wanted, writers, filling, has_own, confirmed, subscribed };
        self.all.insert(reader, one);
        Ok(region)
    }

    /// A reader wants a version.
    pub(crate) fn want(
        &mut self,
        known: &mut Known,
        reader: u64,
        version: Version,
        around: &mut Surroundings,
    ) -> Result<()> {
        let Some(one) = self.all.get_mut(&reader) else { return Ok(()) };
        (one.wanted, one.filling, one.confirmed) = (Some(version), None, None);
        known.protocol.want(reader, version, one.receiver.elements().clone());
        // Whoever had the elements of the version before mostly has those of this one: they are asked at once, and what they send
        // counts if the home says the same.
        if !one.writers.is_empty() {
            let writers = one.writers.clone();
            self.fill(known, reader, version, &writers, around)?;
        }
        Ok(())
    }

    /// A reader is gone.
    pub(crate) fn leave(&mut self, known: &mut Known, reader: u64, around: &mut Surroundings) -> Result<()> {
        known.protocol.unwant(reader);
        if let Some(one) = self.all.remove(&reader) {
            for node in one.subscribed {
                around.send(node, Message::Unsubscribe(Unsubscribe { subscription: reader }));
            }
            one.receiver.remove()?;
        }
        Ok(())
    }

    /// Hears what the home says of what a reader wants.
    pub(crate) fn answer(
        &mut self,
        known: &mut Known,
        reader: u64,
        readiness: Readiness,
        around: &mut Surroundings,
    ) -> Result<()> {
        let Some(one) = self.all.get_mut(&reader) else { return Ok(()) };
        let Some(version) = one.wanted else { return Ok(()) };
        match readiness {
            Readiness::Waiting(shares) => {
                let why = format!("still to come are {}", known.shown(&shares));
                around.replies.push((reader, Reply::Waiting { version, why }));
            }
            Readiness::Lost(losses) => {
                let parts = losses.iter().map(|Loss { share, cause }| known.part(share, Some(*cause)).to_string());
                let why = parts.collect::<Vec<_>>().join("; ");
                self.end(known, reader);
                around.replies.push((reader, Reply::Lost { version, why }));
            }
            Readiness::Ready(shares) => {
                let writers: Vec<Writer> = shares.iter().filter_map(|share| Some(share.who?.writer)).collect();
                one.confirmed = Some(writers.iter().copied().collect());
                let is_current =
                    one.filling.as_ref().is_some_and(|filling| Some(&filling.writers) == one.confirmed.as_ref());
                if !is_current {
                    self.fill(known, reader, version, &writers, around)?;
                }
                self.finish(known, reader)?;
            }
        }
        Ok(())
    }

    /// Asks all nodes that have elements of a fragment for a version of these writers.
    fn fill(
        &mut self,
        known: &mut Known,
        reader: u64,
        version: Version,
        writers: &[Writer],
        around: &mut Surroundings,
    ) -> Result<()> {
        let Some(one) = self.all.get_mut(&reader) else { return Ok(()) };
        let loan = one.receiver.loan()?;
        let filling = Arc::new(Filling::new(version, writers.iter().copied().collect(), loan, one.is_full));
        (one.filling, one.has_own) = (Some(filling.clone()), false);
        one.writers = writers.to_vec();
        let mut by_node: BTreeMap<Node, Vec<Writer>> = BTreeMap::new();
        for writer in writers {
            by_node.entry(writer.node).or_default().push(*writer);
        }
        for (node, writers) in by_node {
            if node == around.node {
                continue;
            }
            one.subscribed.insert(node);
            let subscribe = Subscribe {
                subscription: reader,
                object: known.id,
                name: known.relay.name().into(),
                fragment: one.layout.clone(),
                elements: one.receiver.elements().clone().into(),
                writers,
                which: Which::One(version),
                credit_bytes: u64::MAX,
            };
            around.send(node, Message::Subscribe(Box::new(subscribe)));
        }
        points::hit("fill.asked");
        self.fill_own(known, reader, around)
    }

    /// Puts elements of this node's own writers into a fragment.
    fn fill_own(&mut self, known: &mut Known, reader: u64, around: &mut Surroundings) -> Result<()> {
        let Some(one) = self.all.get_mut(&reader).filter(|one| !one.has_own) else { return Ok(()) };
        let Some(filling) = one.filling.clone() else { return Ok(()) };
        let own: Vec<Writer> = filling.writers.iter().copied().filter(|writer| writer.node == around.node).collect();
        if own.is_empty() || !own.iter().all(|writer| known.protocol.has(*writer, filling.version)) {
            return Ok(());
        }
        let Some(origins) = known.origins(&own) else { return Ok(()) };
        let Ok(ways) = sending::plan(one.receiver.fragment(), &origins) else { return Ok(()) };
        // If one of them has let it go, the home will say so, too.
        let writers = ways.iter().map(|way| way.writer);
        let Ok(snapshots) = known.hold_all(writers, filling.version)? else { return Ok(()) };
        one.has_own = true;
        around.own.push(OwnJob { reader, filling, ways, snapshots });
        Ok(())
    }

    /// What a piece of a fragment is to be put into.
    pub(crate) fn filling(&self, reader: u64, version: Version) -> Option<Arc<Filling>> {
        let filling = self.all.get(&reader)?.filling.as_ref()?;
        (filling.version == version).then(|| filling.clone())
    }

    /// Publishes a fragment that has all elements, if the home says that they are the right ones.
    pub(crate) fn finish(&mut self, known: &mut Known, reader: u64) -> Result<()> {
        let Some(one) = self.all.get_mut(&reader) else { return Ok(()) };
        let Some(filling) = &one.filling else { return Ok(()) };
        if one.confirmed.as_ref() != Some(&filling.writers) || one.wanted != Some(filling.version) {
            return Ok(());
        }
        let version = filling.version;
        if let Some((loan, published_ns)) = filling.finish() {
            points::hit("fill.filled");
            one.receiver.publish(version, published_ns, loan)?;
            points::hit("fill.published");
            self.end(known, reader);
        }
        Ok(())
    }

    fn end(&mut self, known: &mut Known, reader: u64) {
        known.protocol.unwant(reader);
        if let Some(one) = self.all.get_mut(&reader) {
            (one.wanted, one.filling, one.confirmed) = (None, None, None);
        }
    }

    /// What a reader wants was lost on its way: asked of others, or given up if the home has said that there are none.
    pub(crate) fn lose_version(
        &mut self,
        known: &mut Known,
        reader: u64,
        version: Version,
        why: &str,
        around: &mut Surroundings,
    ) {
        let is_wanted = |one: &&mut Reader| one.filling.as_ref().is_some_and(|filling| filling.version == version);
        let Some(one) = self.all.get_mut(&reader).filter(is_wanted) else { return };
        let is_confirmed = one.confirmed.is_some();
        // Others may have the elements of this version. What the home says counts.
        (one.filling, one.writers) = (None, Vec::new());
        if is_confirmed {
            self.end(known, reader);
            around.replies.push((reader, Reply::Lost { version, why: why.into() }));
        }
    }

    /// Puts what this node's writers have by now into what waits for it.
    pub(crate) fn fill_all_own(&mut self, known: &mut Known, around: &mut Surroundings) -> Result<()> {
        let readers: Vec<u64> = self.all.keys().copied().collect();
        readers.into_iter().try_for_each(|reader| self.fill_own(known, reader, around))
    }

    /// What is on its way from a node may be lost.
    pub(crate) fn ask_again(&mut self, known: &mut Known, node: Node, around: &mut Surroundings) -> Result<()> {
        let again = |one: &Reader| one.filling.as_ref().map(|filling| (filling.version, one.writers.clone()));
        let asked: Vec<_> = self.all.iter().filter_map(|(reader, one)| Some((*reader, again(one)?))).collect();
        for (reader, (version, writers)) in asked {
            if writers.iter().any(|writer| writer.node == node) {
                self.fill(known, reader, version, &writers, around)?;
            }
        }
        Ok(())
    }

    /// The runtime of a machine was started again, as another node. The same elements will come from that one, when the home says so.
    pub(crate) fn replace(&mut self, known: &mut Known, former: Node) {
        for (reader, one) in &mut self.all {
            one.subscribed.remove(&former);
            if !one.writers.iter().any(|writer| writer.node == former) {
                continue;
            }
            (one.writers, one.filling, one.confirmed) = (Vec::new(), None, None);
            if let Some(version) = one.wanted {
                known.protocol.want(*reader, version, one.receiver.elements().clone());
            }
        }
    }
}

/// Whether elements fill all bytes of a fragment: then all of it moves into another one of its kind.
fn is_full(fragment: &Arc<Fragment>) -> bool {
    let own = Writer { node: Node(0), process: 0, serial: 0 };
    let ways = sending::plan(fragment, &[(own, fragment.clone(), String::new())]);
    ways.is_ok_and(|ways| ways.iter().map(|way| way.transfer.moved_bytes()).sum::<u64>() == fragment.size_bytes())
}
