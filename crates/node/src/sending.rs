//! Versions of this node's writers, for fragments that processes of other nodes read.

use crate::network::{Bulk, Network};
use drepl::executor::Executor;
use drepl::transfer::Transfer;
use drepl::{Fragment, Source, Wanted};
use std::ops::Range;
use std::sync::Arc;
use stillframe::Snapshot;
use stillframe_roster::readiness::Cause;
use stillframe_roster::writer::{Node, Version, Who, Writer};
use stillframe_wire::Message;
use stillframe_wire::data::{FragmentText, Lost, Piece, Sent, SourceShare, Sources};

/// A fragment of another node, and what it waits for.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) layout: FragmentText,
    pub(crate) fragment: Arc<Fragment>,
    pub(crate) version: Version,
    pub(crate) writers: Vec<Writer>,
    /// Whether the version was sent.
    pub(crate) is_served: bool,
    /// How elements of these writers come into the fragment, once it is known.
    pub(crate) planned: Option<(Vec<Writer>, Arc<Vec<Way>>)>,
    /// Whether the other node knows the ways.
    pub(crate) is_told: bool,
}

/// How a writer's elements come into a fragment.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) writer: Writer,
    /// What the writer's region calls its bytes.
    pub(crate) variable: String,
    pub(crate) transfer: Transfer,
    /// Its first half, which the sender does, and how many bytes that makes.
    pack: Transfer,
    bytes: u64,
}

impl Way {
    fn new(writer: Writer, variable: String, transfer: Transfer) -> Way {
        let (pack, bytes) = (transfer.pack(), transfer.moved_bytes());
        Way { writer, variable, transfer, pack, bytes }
    }

    /// Where all of its bytes lie together in the source.
    fn together(&self) -> Option<Range<usize>> {
        let [one] = self.pack.moves() else { return None };
        let (begin, length) = (usize::try_from(one.from).ok()?, usize::try_from(one.run_bytes).ok()?);
        one.axes.is_empty().then_some(begin..begin + length)
    }
}

/// A writer, its fragment, and what its region calls the bytes.
pub(crate) type Origin = (Writer, Arc<Fragment>, String);

/// Plans how elements of writers' fragments come into another: a way for each of them, also for one that has nothing to give, for
/// somebody waits for it.
pub(crate) fn plan(wanted: &Fragment, origins: &[Origin]) -> Result<Vec<Way>, drepl::PlanError> {
    let source = |(_, fragment, _): &Origin| Source { fragment: fragment.clone(), version: 0, cost: 0, readable: true };
    let sources: Vec<Source> = origins.iter().map(source).collect();
    let mut plan = drepl::plan(&Wanted { fragment: wanted, versions: 0..=0 }, &sources)?;
    let mut take = |position: usize| {
        let found = plan.transfers.iter_mut().find(|(source, _)| *source == position);
        found.map(|(_, transfer)| std::mem::take(transfer)).unwrap_or_default()
    };
    let ways = origins.iter().enumerate();
    Ok(ways.map(|(position, (writer, _, variable))| Way::new(*writer, variable.clone(), take(position))).collect())
}

/// A version that is held and that has to be sent.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) to: Node,
    pub(crate) subscription: u64,
    pub(crate) version: Version,
    pub(crate) ways: Arc<Vec<Way>>,
    /// Of each way.
    pub(crate) snapshots: Vec<Snapshot>,
    /// Whether the ways have to be told first.
    pub(crate) is_new: bool,
}

impl Job {
    /// Packs and sends all shares. What fails is told to who waits.
    pub(crate) fn run(self, network: &dyn Network, executor: &Executor) {
        let Job { to, subscription, version, ways, snapshots, is_new } = self;
        if is_new {
            let share =
                |way: &Way| SourceShare { writer: way.writer, transfer: way.transfer.unpack(), bytes: way.bytes };
            let shares = ways.iter().map(share).collect();
            network.send(to, Message::Sources(Sources { subscription, epoch: version, shares }), Bulk::None);
        }
        let published_ns = snapshots.iter().map(Snapshot::published_ns).max().unwrap_or(0);
        for (share, (way, snapshot)) in ways.iter().zip(snapshots).enumerate() {
            if way.bytes == 0 {
                continue;
            }
            let Ok(bulk) = pack(snapshot, way, executor) else {
                let who = Some(Who { writer: way.writer, rank: None });
                let lost = Lost { subscription, version, cause: Cause::Gone, who };
                return network.send(to, Message::Lost(lost), Bulk::None);
            };
            let piece = Piece { subscription, version, share: share as u32, offset: 0 };
            network.send(to, Message::Piece(piece), bulk);
        }
        network.send(to, Message::Sent(Sent { subscription, version, published_ns }), Bulk::None);
    }
}

/// The bytes of a share: where they lie, if they lie together, else in the compact form.
fn pack(snapshot: Snapshot, way: &Way, executor: &Executor) -> Result<Bulk, String> {
    let pack = |source: &[u8]| {
        let mut bytes = zeros(way.bytes)?;
        executor.run(&way.pack, source, &mut bytes).map_err(|error| error.to_string())?;
        Ok(Bulk::Bytes(bytes))
    };
    if snapshot.is_foreign() {
        // Of another user, who could cut the file short meanwhile.
        let mut copy = zeros(way.pack.source_bytes())?;
        snapshot.read(&way.variable, 0, &mut copy).map_err(|error| error.to_string())?;
        return pack(&copy);
    }
    let view = snapshot.view(&way.variable).map_err(|error| error.to_string())?;
    match way.together().filter(|range| range.end <= view.len()) {
        Some(range) => Ok(Bulk::View(view, range)),
        None => pack(&view),
    }
}

/// Memory of a length that somebody else decides.
pub(crate) fn zeros(bytes: u64) -> Result<Vec<u8>, String> {
    let mut zeros = Vec::new();
    let length = usize::try_from(bytes).map_err(|error| error.to_string())?;
    zeros.try_reserve_exact(length).map_err(|_| format!("there is no memory for {length} bytes"))?;
    zeros.resize(length, 0);
    Ok(zeros)
}
