//! One object: its writers of this node, its home if that is here, and what follows from what both say.

use crate::error::Result;
use crate::filling::Filling;
use crate::home::Home;
use crate::known::Known;
use crate::readers::{Asked, Readers};
use crate::reporting::Reporting;
use crate::roster::Heard;
use crate::subscriptions::Subscriptions;
use crate::surroundings::Surroundings;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use stillframe_object::Object;
use stillframe_object::relay::FragmentRefusal;
use stillframe_roster::runtime::Runtime;
use stillframe_roster::writer::{Node, Revision, Version, Writer};
use stillframe_wire::ObjectId;
use stillframe_wire::data::FragmentText;

/// An object.
#[derive(Debug)]
pub(crate) struct Watched {
    known: Known,
    /// Whether this node's programs can find it. Else none has a fragment of it, and there is nothing to look at, nor anybody to tell.
    has_name: bool,
    /// Where its files on this node were removed, though it is there on others: the first number of a fragment that none of them had.
    removed: Option<u32>,
    home: Option<Home>,
    /// Layouts of other nodes' writers that came before the names told that the home is here, and the term that they told of then: the
    /// reports that follow may come after that.
    early_layouts: (Revision, BTreeMap<Writer, FragmentText>),
    /// Whether no home acts, so that what is new here could not be told.
    is_homeless: bool,
    decided: BTreeSet<u32>,
    /// What this node's writers have still to be told of their fragments.
    verdicts: BTreeMap<u32, Result<(), FragmentRefusal>>,
    /// Fragments of this node whose places others took, and of which its programs have still to be told that.
    ended: BTreeMap<u32, Version>,
    /// What the home was told last.
    reporting: Reporting,
    /// Of which writers which home knows the layouts.
    told_layouts: (Option<(Node, Revision)>, BTreeSet<Writer>),
    /// Whether this node's programs have still to be told.
    is_untold: bool,
    /// Whether a home was heard, and this node's programs were told then what is complete.
    has_heard: bool,
    has_told: bool,
    /// Whether programs still know fragments of which the home speaks no more, for what is complete consists of them.
    keeps_former: bool,
    /// Whether a decision was left, of a home that the names did not tell of yet.
    has_missed: bool,
    /// The term and the serial of the roster that the newest decision needs.
    needed_roster: (Revision, u64),
    /// Versions that are to be pinned and could not be, for want of something.
    unpinned: Vec<(Version, Vec<Writer>)>,
    subscriptions: Subscriptions,
    readers: Readers,
}

impl Watched {
    pub(crate) fn new(object: &Object, node: Node) -> Result<Watched> {
        let relay = object.relay();
        let mut protocol = Runtime::new(node, relay.initial());
        protocol.set_floor(relay.newest_complete()?, relay.run_floor()?);
        let (local, pins, lost) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let (id, roster) = (ObjectId(relay.id()), Heard::default());
        let restarted = BTreeMap::new();
        let known = Known { id, relay, protocol, roster, local, pins, lost, restarted };
        Ok(Watched {
            known,
            has_name: true,
            removed: None,
            home: None,
            early_layouts: (0, BTreeMap::new()),
            is_homeless: false,
            decided: BTreeSet::new(),
            verdicts: BTreeMap::new(),
            ended: BTreeMap::new(),
            reporting: Reporting::default(),
            told_layouts: (None, BTreeSet::new()),
            is_untold: false,
            has_heard: false,
            has_told: false,
            keeps_former: false,
            has_missed: false,
            needed_roster: (0, 0),
            unpinned: Vec::new(),
            subscriptions: Subscriptions::default(),
            readers: Readers::default(),
        })
    }

    /// One whose name this node's directory does not have: other nodes are told that nobody here writes it, and its home can be here.
    pub(crate) fn without_name(object: &Object, node: Node) -> Result<Watched> {
        Ok(Watched { has_name: false, ..Watched::new(object, node)? })
    }

    /// The directory has its name. Where that was gone, programs of this node know nothing any more.
    ///
    /// # Errors
    /// Those of the object's files.
    pub(crate) fn note_name(&mut self) -> Result<()> {
        if let Some(first) = self.removed {
            self.known.relay.begin_anew(first)?;
            (self.removed, self.is_untold, self.keeps_former) = (None, true, false);
        }
        self.has_name = true;
        Ok(())
    }

    /// Goes on without the files of this node, which somebody removed because they were damaged: the object is there on other nodes, and what
    /// its home here knows and decided holds.
    pub(crate) fn lose_name(&mut self) {
        let known = self.known.local.keys().map(|writer| writer.serial).chain(self.decided.last().copied());
        self.removed = known.map(|number| number.saturating_add(1)).chain(self.removed).max().or(Some(0));
        (self.has_name, self.has_told) = (false, false);
        self.verdicts.clear();
        self.ended.clear();
    }

    /// The object was removed: fragments of it are filled no more.
    pub(crate) fn end(self) {
        self.readers.remove_all();
    }

    pub(crate) fn id(&self) -> ObjectId {
        self.known.id
    }

    pub(crate) fn name(&self) -> &str {
        self.known.relay.name()
    }

    /// Whether it has to be looked at again, for there was no home to tell what is new, or it could not be told.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_homeless || self.known.relay.is_unfollowed()
    }

    /// Whether this node's programs know what a home said, since this runtime runs.
    pub(crate) fn has_told_programs(&self) -> bool {
        self.has_told && !self.is_untold
    }

    /// Whether it has to be looked at now and then, although nobody says anything of it.
    pub(crate) fn is_open(&self) -> bool {
        self.is_waiting() || self.home.as_ref().is_some_and(Home::is_waiting)
    }

    /// Whether the board tells of writers of this node.
    pub(crate) fn has_writers(&self) -> bool {
        !self.known.local.is_empty()
    }

    /// What is known of it, but for the home.
    pub(crate) fn known(&mut self) -> &mut Known {
        &mut self.known
    }

    /// Looks at the writers of this node, and does what follows.
    pub(crate) fn look(&mut self, around: &mut Surroundings) -> Result<()> {
        if self.has_name
            && let Some(fragments) = self.known.relay.look()?
        {
            self.note_fragments(fragments, around)?;
        }
        if let Some(home) = &mut self.home {
            home.look(Instant::now());
        }
        // First, for what was complete until now is held still, and only what changed since has to be sent.
        let served = self.subscriptions.serve(&mut self.known, around);
        let told = self.tell_writers();
        let unpinned = std::mem::take(&mut self.unpinned);
        let pinned = unpinned.into_iter().map(|(version, writers)| self.pin(version, &writers));
        let pinned = pinned.collect::<Vec<_>>().into_iter().collect::<Result<()>>();
        // While somebody has the board, or a version cannot be held, other nodes are told all the same.
        let told = told.and_then(|()| self.tell_programs(around));
        self.settle(around).and(told).and(pinned)?;
        self.readers.fill_all_own(&mut self.known, around)?;
        served
    }

    /// A home has to be told all again.
    fn forget_told(&mut self) {
        self.reporting.forget();
        self.told_layouts = (None, BTreeSet::new());
    }

    /// Begins to fill a fragment of this node; the region that its versions are published in.
    pub(crate) fn read(
        &mut self,
        reader: u64,
        text: String,
        bindings: &BTreeMap<String, i64>,
        around: &Surroundings,
    ) -> Result<String> {
        self.readers.read(&mut self.known, reader, text, bindings, around)
    }

    /// A reader wants a version, and then perhaps another one: which one it gets then.
    pub(crate) fn want(&mut self, reader: u64, asked: Asked, around: &mut Surroundings) -> Result<Option<Version>> {
        let wanted = self.readers.want(&mut self.known, reader, asked, around);
        self.settle(around).and(wanted)
    }

    /// A reader is gone.
    pub(crate) fn leave(&mut self, reader: u64, around: &mut Surroundings) -> Result<()> {
        let left = self.readers.leave(&mut self.known, reader, around);
        self.settle(around).and(left)
    }

    /// What a piece of a fragment is to be put into.
    pub(crate) fn filling(&self, subscription: u64, version: Version) -> Option<Arc<Filling>> {
        self.readers.filling(subscription, version)
    }

    /// Whether a fragment of this node is filled by what others send for this subscription.
    pub(crate) fn subscribes(&self, subscription: u64) -> bool {
        self.readers.subscribes(subscription)
    }

    /// Publishes a fragment that has all elements, if the home says that they are the right ones; and begins with the next.
    pub(crate) fn finish(&mut self, subscription: u64, around: &mut Surroundings) -> Result<()> {
        let done = self.readers.finish(&mut self.known, subscription, around);
        // Others may wait for what came here, or for what will not.
        self.settle(around).and(done)
    }

    /// What a reader wants was lost on its way.
    pub(crate) fn lose_version(
        &mut self,
        subscription: u64,
        version: Version,
        why: &str,
        around: &mut Surroundings,
    ) -> Result<()> {
        self.readers.lose_version(&mut self.known, subscription, version, why, around);
        self.readers.bring_shared(&mut self.known, around)
    }

    /// There is a new connection to a node: what was sent to it may be lost.
    pub(crate) fn reconnect(&mut self, node: Node, around: &mut Surroundings) -> Result<()> {
        self.subscriptions.tell_again(node);
        if let Some(home) = &mut self.home {
            // One whose lease has ended may not know that yet. It would be waited for, and nobody would say once more that it is lost.
            if around.cluster.nodes().contains(&node) {
                home.learn_replaced(around.cluster.replaced());
                home.admit(node);
            }
            home.forget_told(node);
            let revision = home.revision();
            around.send(node, self.ask(revision));
        }
        if around.cluster.home(self.known.id).is_some_and(|(home, _)| home == node) {
            self.forget_told();
        }
        self.readers.ask_again(&mut self.known, node, around)?;
        self.settle(around)
    }

    /// The runtime of a machine was started again, as another node.
    pub(crate) fn replace(&mut self, former: Node, node: Node, around: &mut Surroundings) -> Result<()> {
        self.subscriptions.forget(former);
        self.known.replace(former, node);
        if let Some(home) = &mut self.home {
            home.replace(former, node);
        }
        self.readers.replace(&mut self.known, former);
        self.settle(around)
    }

    /// A node was lost.
    pub(crate) fn lose(&mut self, node: Node, around: &mut Surroundings) -> Result<()> {
        self.subscriptions.forget(node);
        self.known.lose(node);
        let looked = self.readers.look_again(&mut self.known, around);
        if let Some(home) = &mut self.home {
            home.lose(node);
        }
        self.settle(around).and(looked)
    }

    /// Lets the home announce nothing any more, if it is here: this node is about to leave.
    pub(crate) fn retire(&mut self, around: &mut Surroundings) -> Result<()> {
        if let Some(home) = &mut self.home {
            home.retire();
        }
        self.settle(around)
    }

    /// Whether no home is here that announces anything.
    pub(crate) fn is_retiring(&self) -> bool {
        self.home.as_ref().is_none_or(|home| home.protocol().is_retiring())
    }

    /// Whether no home is here, or all nodes know that it announces nothing any more.
    pub(crate) fn has_retired(&self) -> bool {
        self.home.as_ref().is_none_or(|home| home.protocol().has_retired())
    }

    /// The home may be another one.
    pub(crate) fn change_home(&mut self, around: &mut Surroundings) -> Result<()> {
        self.settle(around)
    }
}

mod decisions;
mod exchange;
mod messages;
mod programs;
mod writers;
