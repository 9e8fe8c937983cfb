//! Fragments that programs of this node read and that the runtime fills.

mod bringing;
mod early;
mod place;

use crate::error::{Error, Result};
use crate::filling::Filling;
use crate::known::{Known, numbers};
use crate::memory::Charge;
use crate::roster::Heard;
use crate::sending::{self, Way};
use crate::surroundings::{OwnJob, Surroundings};
use drepl::Fragment;
use early::Early;
use place::{Place, number_of};
pub(crate) use place::{index_of, reader_of, subscriptions_of_place};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stillframe_kernel::points;
use stillframe_object::Parts;
use stillframe_object::bindings as bindings_of;
use stillframe_object::receiver::Receiver;
use stillframe_object::runtime::Reply;
use stillframe_roster::readiness::{Loss, Readiness};
use stillframe_roster::writer::{Node, Version, Writer};
use stillframe_wire::data::FragmentText;

/// How many versions of a fragment may be in memory: two that are there, and one that comes.
const VERSIONS: u64 = 3;

/// What the process of a reader asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// The number of the request.
    pub(crate) number: u64,
    pub(crate) version: Version,
    /// What it will want next.
    pub(crate) next: Option<Version>,
}

/// A fragment of a process of this node that this runtime fills.
#[derive(Debug)]
struct Reader {
    layout: FragmentText,
    receiver: Receiver,
    /// Versions that were filled before an older one was wanted: its process may still read them.
    former: Option<Receiver>,
    /// Memory of both.
    _charges: Vec<Charge>,
    /// Whether elements fill all of its bytes.
    is_full: bool,
    /// What its process waits for, and the number of the request.
    asked: Option<Version>,
    number: u64,
    /// What it will wait for next, if it has said so.
    next: Option<Version>,
    /// Whose elements it had last.
    writers: Vec<Writer>,
    /// Whose elements its newest version consists of.
    newest_of: BTreeSet<Writer>,
    /// Those of versions that were not complete when they came.
    early: Early,
    /// How elements of these writers of this node come into it.
    planned: Option<(Vec<Writer>, Arc<Vec<Way>>)>,
    /// What is filled now, and what is filled while the process works with that.
    places: [Place; 2],
}

/// All of them, by the numbers of their programs' connections. Their places have numbers of their own: for the home each is a reader.
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
        around: &Surroundings,
    ) -> Result<String> {
        let (view, _) = known.relay.fragment(&text, bindings)?;
        let charge = around.memory.charge(bytes_of(&view.fragment))?;
        let receiver = known.relay.receive(&text, bindings)?;
        points::hit("read.begun");
        let layout = FragmentText { text, bindings: bindings_of(bindings) };
        let region = receiver.name().to_owned();
        let is_full = receiver.fragment().is_full();
        let one = Reader {
            layout,
            receiver,
            former: None,
            _charges: vec![charge],
            is_full,
            asked: None,
            number: 0,
            next: None,
            writers: Vec::new(),
            newest_of: BTreeSet::new(),
            early: Early::default(),
            planned: None,
            places: Default::default(),
        };
        self.all.insert(reader, one);
        Ok(region)
    }

    /// A place, whatever its turn.
    fn place(&mut self, number: u64) -> Option<(&mut Reader, usize)> {
        self.all.get_mut(&reader_of(number)).map(|one| (one, index_of(number)))
    }

    /// A reader wants a version, and then perhaps another one: which one it gets then. What it has of a version that was written anew since
    /// counts as nothing.
    pub(crate) fn want(
        &mut self,
        known: &mut Known,
        reader: u64,
        Asked { number, version, next }: Asked,
        around: &mut Surroundings,
    ) -> Result<Option<Version>> {
        let Some(one) = self.all.get_mut(&reader) else { return Ok(None) };
        let next = next.filter(|next| *next > version && one.early.counts(*next, &known.roster));
        (one.asked, one.number, one.next) = (Some(version), number, next);
        let counts = one.early.counts(version, &known.roster);
        self.want_asked(known, reader, (version, counts), around)?;
        Ok(next)
    }

    /// Lets a version come that a reader has asked for, unless it has one that counts.
    fn want_asked(
        &mut self,
        known: &mut Known,
        reader: u64,
        (version, counts): (Version, bool),
        around: &mut Surroundings,
    ) -> Result<()> {
        let Some(one) = self.all.get_mut(&reader) else { return Ok(()) };
        for (index, place) in one.places.iter_mut().enumerate() {
            if place.wanted.is_some_and(|wanted| wanted != version) {
                place.end(known, number_of(reader, index));
            }
        }
        if counts && one.receiver.has(version)? {
            return self.want_next(known, reader, around);
        }
        if one.receiver.newest().is_some_and(|newest| newest >= version) {
            one.begin_anew(known, reader, around)?;
        }
        if let Some(place) = one.places.iter().find(|place| place.wanted.is_some()) {
            // It is on its way already.
            let (number, why) = (one.number, place.waiting.clone());
            around.replies.extend(why.map(|why| (reader, Reply::Waiting { version, number, why })));
            return Ok(());
        }
        let place = number_of(reader, 0);
        self.start(known, place, version, around)
    }

    /// Begins with what a reader will want next, if it has said so.
    fn want_next(&mut self, known: &mut Known, reader: u64, around: &mut Surroundings) -> Result<()> {
        let Some(one) = self.all.get_mut(&reader) else { return Ok(()) };
        let Some(next) = one.next.take() else { return Ok(()) };
        if one.receiver.newest().is_some_and(|newest| newest >= next) {
            return Ok(());
        }
        match one.places.iter().position(|place| place.wanted.is_none()) {
            Some(index) => {
                let place = number_of(reader, index);
                self.start(known, place, next, around)
            }
            None => Ok(()),
        }
    }

    /// Fills a place with a version.
    fn start(&mut self, known: &mut Known, place: u64, version: Version, around: &mut Surroundings) -> Result<()> {
        let Some((one, index)) = self.place(place) else { return Ok(()) };
        one.places[index].wanted = Some(version);
        known.protocol.want(place, version, one.receiver.elements().clone());
        // Whoever had the elements of the version before mostly has those of this one: they are asked at once, and what they send
        // counts if the home says the same.
        match one.writers.clone() {
            writers if writers.is_empty() => Ok(()),
            writers => self.fill(known, place, version, &writers, around),
        }
    }

    /// A reader is gone.
    pub(crate) fn leave(&mut self, known: &mut Known, reader: u64, around: &mut Surroundings) -> Result<()> {
        let Some(mut one) = self.all.remove(&reader) else { return Ok(()) };
        one.end_turns(known, reader, around);
        one.former.map_or(Ok(()), Receiver::remove)?;
        Ok(one.receiver.remove()?)
    }

    /// The object was removed.
    pub(crate) fn remove_all(self) {
        // What cannot be removed goes with the next object of the name.
        let receivers = self.all.into_values().flat_map(|one| [Some(one.receiver), one.former]);
        receivers.flatten().for_each(|receiver| _ = receiver.remove());
    }

    /// Hears what the home says of what a reader wants.
    pub(crate) fn answer(
        &mut self,
        known: &mut Known,
        number: u64,
        readiness: Readiness,
        around: &mut Surroundings,
    ) -> Result<()> {
        let Some((one, index)) = self.place(number) else { return Ok(()) };
        let (place, request) = (&mut one.places[index], one.number);
        let Some(version) = place.wanted else { return Ok(()) };
        let is_asked = one.asked == Some(version);
        let mut reply = |reply| around.replies.extend(is_asked.then(|| (reader_of(number), reply)));
        match readiness {
            Readiness::Waiting(shares) => {
                let losses = known.lost_of(version, &shares);
                if !losses.is_empty() {
                    return self.answer(known, number, Readiness::Lost(losses), around);
                }
                let why = format!("still to come are {}", known.shown(&shares));
                // Those who had the elements may have lost their places.
                (place.waiting, place.confirmed) = (Some(why.clone()), None);
                place.unattached = shares.into_iter().filter(|share| share.who.is_none()).collect();
                reply(Reply::Waiting { version, number: request, why });
            }
            Readiness::Lost(losses) => {
                let part = |Loss { share, cause }: &Loss| known.part(share, Some(*cause));
                let why = Parts(&losses.iter().map(part).collect::<Vec<_>>()).to_string();
                place.end(known, number);
                reply(Reply::Lost { version, number: request, why });
            }
            Readiness::Ready(shares) => {
                let writers: Vec<Writer> = shares.iter().filter_map(|share| Some(share.who?.writer)).collect();
                (place.confirmed, place.waiting) = (Some(writers.iter().copied().collect()), None);
                let is_current =
                    place.filling.as_ref().is_some_and(|filling| Some(&filling.writers) == place.confirmed.as_ref());
                let filled = if is_current { Ok(()) } else { self.fill(known, number, version, &writers, around) };
                return match filled {
                    Ok(()) => self.finish(known, number, around),
                    Err(error) => self.fail(known, number, error, around),
                };
            }
        }
        Ok(())
    }

    /// Writers were lost: whoever waits for elements that nobody has attached may have waited for theirs.
    pub(crate) fn look_again(&mut self, known: &mut Known, around: &mut Surroundings) -> Result<()> {
        for number in self.numbers() {
            let Some((one, index)) = self.place(number) else { continue };
            let place = &one.places[index];
            let losses = place.wanted.map(|version| known.lost_of(version, &place.unattached)).unwrap_or_default();
            if !losses.is_empty() {
                self.answer(known, number, Readiness::Lost(losses), around)?;
            }
        }
        Ok(())
    }

    /// A version cannot be put together here. The home does not say once more that it is there: the program asks again, as long as it
    /// wants to wait.
    fn fail(&mut self, known: &mut Known, number: u64, error: Error, around: &mut Surroundings) -> Result<()> {
        if let Some((one, index)) = self.place(number) {
            if one.asked.is_some() && one.asked == one.places[index].wanted {
                around.replies.push((reader_of(number), error.reply()));
            }
            one.places[index].end(known, number);
        }
        Err(error)
    }

    /// Begins to fill a fragment with a version of these writers.
    fn fill(
        &mut self,
        known: &mut Known,
        number: u64,
        version: Version,
        writers: &[Writer],
        around: &mut Surroundings,
    ) -> Result<()> {
        let Some((one, index)) = self.place(number) else { return Ok(()) };
        let set: BTreeSet<Writer> = writers.iter().copied().collect();
        // Without what it had before, all of it comes.
        let base = if one.newest_of == set { one.receiver.base().unwrap_or(None) } else { None };
        let (has, base) = base.unzip();
        let loan = one.receiver.loan()?;
        let filling = Filling::new(version, set, base, loan, one.receiver.fragment(), one.is_full);
        one.writers = writers.to_vec();
        one.places[index].fill(number, filling, has, around);
        self.bring(known, number, around)
    }

    /// Puts elements of this node's own writers into a fragment.
    fn fill_own(&mut self, known: &mut Known, number: u64, around: &mut Surroundings) -> Result<()> {
        let Some((one, index)) = self.place(number) else { return Ok(()) };
        let place = &mut one.places[index];
        let Some(filling) = place.filling.clone().filter(|_| !place.has_own) else { return Ok(()) };
        let own: Vec<Writer> = filling.writers.iter().copied().filter(|writer| writer.node == around.node).collect();
        if own.is_empty() || !own.iter().all(|writer| known.protocol.has(*writer, filling.version)) {
            return Ok(());
        }
        let before = one.planned.take().filter(|(writers, _)| *writers == own);
        let made = || Arc::new(sending::plan(one.receiver.fragment(), &known.origins(&own)?).ok()?).into();
        let Some(ways) = before.map(|(_, ways)| ways).or_else(made) else { return Ok(()) };
        one.planned = Some((own, ways.clone()));
        // If one of them has let it go, the home will say so, too.
        let writers = ways.iter().map(|way| way.writer);
        let Ok(snapshots) = known.hold_all(writers, filling.version)? else { return Ok(()) };
        place.has_own = true;
        let subscription = place.subscription(number);
        around.own.push(OwnJob { subscription, filling, ways, snapshots });
        Ok(())
    }

    /// What a piece of a fragment is to be put into.
    pub(crate) fn filling(&self, subscription: u64, version: Version) -> Option<Arc<Filling>> {
        let filling = self.of_turn(subscription)?.filling.as_ref()?;
        (filling.version == version).then(|| filling.clone())
    }

    /// Whether what is sent for a subscription still is waited for, whatever the version.
    pub(crate) fn subscribes(&self, subscription: u64) -> bool {
        self.of_turn(subscription).is_some()
    }

    /// The place of a subscription, unless that was one of a former turn.
    fn of_turn(&self, subscription: u64) -> Option<&Place> {
        let place = &self.all.get(&reader_of(subscription))?.places[index_of(subscription)];
        place.is_turn_of(subscription).then_some(place)
    }

    /// Publishes a fragment that has all elements, if the home says that they are the right ones; and begins with the next.
    pub(crate) fn finish(&mut self, known: &mut Known, number: u64, around: &mut Surroundings) -> Result<()> {
        let Some((one, index)) = self.place(number) else { return Ok(()) };
        let place = &mut one.places[index];
        let Some(filling) = &place.filling else { return Ok(()) };
        if place.confirmed.as_ref() != Some(&filling.writers) || place.wanted != Some(filling.version) {
            return Ok(());
        }
        let version = filling.version;
        if filling.writers.iter().any(|writer| known.roster.has_left(*writer, version)) {
            // The home says next whose they are.
            return Ok(());
        }
        let Some((loan, published_ns)) = filling.finish() else { return Ok(()) };
        let of = filling.writers.clone();
        points::hit("fill.filled");
        if let Err(error) = one.receiver.publish(version, published_ns, loan) {
            return self.fail(known, number, error.into(), around);
        }
        points::hit("fill.published");
        if version > known.protocol.announced().version {
            let receiver = &mut one.receiver;
            one.early.note(version, of.clone(), |version| receiver.has(version).unwrap_or(true));
        }
        one.newest_of = of;
        place.end(known, number);
        match one.asked == Some(version) {
            true => self.want_next(known, reader_of(number), around),
            false => Ok(()),
        }
    }

    /// Versions up to one are complete.
    pub(crate) fn settle(&mut self, roster: &Heard, complete: Version) {
        self.all.values_mut().for_each(|one| one.early.settle(roster, complete));
    }

    /// Whether elements of a writer are to come into a version of a fragment.
    pub(crate) fn waits_for(&self, subscription: u64, version: Version, writer: Writer) -> bool {
        self.filling(subscription, version).is_some_and(|filling| filling.writers.contains(&writer))
    }

    /// What a reader wants was lost on its way: asked of others, or given up if the home has said that there are none.
    pub(crate) fn lose_version(
        &mut self,
        known: &mut Known,
        subscription: u64,
        version: Version,
        why: &str,
        around: &mut Surroundings,
    ) {
        if self.filling(subscription, version).is_none() {
            return;
        }
        let Some((one, index)) = self.place(subscription) else { return };
        let place = &mut one.places[index];
        let is_confirmed = place.confirmed.is_some();
        // Others may have the elements of this version. What the home says counts.
        (place.filling, place.is_shared) = (None, false);
        (one.writers, one.newest_of) = (Vec::new(), BTreeSet::new());
        if is_confirmed {
            place.end(known, subscription);
            if one.asked == Some(version) {
                let (number, why) = (one.number, why.into());
                around.replies.push((reader_of(subscription), Reply::Lost { version, number, why }));
            }
        }
    }

    /// Puts what this node's writers have by now into what waits for it.
    pub(crate) fn fill_all_own(&mut self, known: &mut Known, around: &mut Surroundings) -> Result<()> {
        self.numbers().into_iter().try_for_each(|number| self.fill_own(known, number, around))
    }

    /// The numbers of all places.
    fn numbers(&self) -> Vec<u64> {
        self.all.keys().flat_map(|reader| [0, 1].map(|index| number_of(*reader, index))).collect()
    }

    /// What is on its way from a node may be lost.
    pub(crate) fn ask_again(&mut self, known: &mut Known, node: Node, around: &mut Surroundings) -> Result<()> {
        let mut done = Ok(());
        for number in self.numbers() {
            let Some((one, index)) = self.place(number) else { continue };
            let Some(filling) = one.places[index].filling.clone() else { continue };
            if filling.writers.iter().any(|writer| writer.node == node) {
                let writers: Vec<Writer> = filling.writers.iter().copied().collect();
                // One whose fragment cannot be filled keeps nobody else from being asked for.
                let filled = match self.fill(known, number, filling.version, &writers, around) {
                    Ok(()) => Ok(()),
                    Err(error) => self.fail(known, number, error, around),
                };
                done = done.and(filled);
            }
        }
        done
    }

    /// The runtime of a machine was started again, as another node. The same elements will come from that one, when the home says so.
    pub(crate) fn replace(&mut self, known: &mut Known, former: Node) {
        let of_former = |writer: &Writer| writer.node == former;
        for (reader, one) in &mut self.all {
            if one.writers.iter().any(of_former) {
                one.writers.clear();
            }
            for (index, place) in one.places.iter_mut().enumerate() {
                place.forget(former);
                if !place.filling.as_ref().is_some_and(|filling| filling.writers.iter().any(of_former)) {
                    continue;
                }
                (place.filling, place.confirmed, place.is_shared) = (None, None, false);
                if let Some(version) = place.wanted {
                    known.protocol.want(number_of(*reader, index), version, one.receiver.elements().clone());
                }
            }
        }
    }
}

impl Reader {
    /// Begins with another region: versions of one are published in ascending order, and an older one is wanted.
    fn begin_anew(&mut self, known: &mut Known, reader: u64, around: &mut Surroundings) -> Result<()> {
        let bindings = numbers(&self.layout);
        let charge = match self.former {
            None => Some(around.memory.charge(bytes_of(self.receiver.fragment()))?),
            Some(_) => None,
        };
        let receiver = known.relay.receive(&self.layout.text, &bindings)?;
        self._charges.extend(charge);
        self.end_turns(known, reader, around);
        around.replies.push((reader, Reply::Reading(receiver.name().into())));
        let former = self.former.replace(std::mem::replace(&mut self.receiver, receiver));
        self.newest_of.clear();
        self.early.clear();
        former.map_or(Ok(()), |former| Ok(former.remove()?))
    }

    /// Waits for nothing any more, and lets nothing be sent.
    fn end_turns(&mut self, known: &mut Known, reader: u64, around: &mut Surroundings) {
        for (index, place) in self.places.iter_mut().enumerate() {
            let number = number_of(reader, index);
            place.end(known, number);
            place.end_turn(number, around);
        }
    }
}

/// Memory that a fragment takes, however large its text says that it is.
fn bytes_of(fragment: &Fragment) -> u64 {
    fragment.size_bytes().saturating_mul(VERSIONS)
}
