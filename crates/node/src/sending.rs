//! Versions of this node's writers, for fragments that processes of other nodes read.

use crate::message::{Layout, Message, ObjectId};
use crate::network::Network;
use drepl::executor::Executor;
use drepl::transfer::Transfer;
use drepl::{Fragment, Source, Wanted};
use std::sync::Arc;
use stillframe::Snapshot;
use stillframe_roster::writer::{Node, Version, Writer};

/// A fragment of another node, and what it waits for.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) layout: Layout,
    pub(crate) fragment: Arc<Fragment>,
    pub(crate) version: Version,
    pub(crate) writers: Vec<Writer>,
    /// Whether the version was sent.
    pub(crate) is_served: bool,
    /// How elements of these writers come into the fragment, once it is known.
    pub(crate) planned: Option<(Vec<Writer>, Vec<Way>)>,
}

/// How a writer's elements come into a fragment.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) writer: Writer,
    /// What the writer's region calls its bytes.
    pub(crate) variable: String,
    pub(crate) transfer: Transfer,
}

/// Plans how elements of writers' fragments come into another.
pub(crate) fn plan(
    wanted: &Fragment,
    writers: &[(Writer, Arc<Fragment>, String)],
) -> Result<Vec<Way>, drepl::PlanError> {
    let source = |(_, fragment, _): &(Writer, Arc<Fragment>, String)| Source {
        fragment: fragment.clone(),
        version: 0,
        cost: 0,
        readable: true,
    };
    let sources: Vec<Source> = writers.iter().map(source).collect();
    let plan = drepl::plan(&Wanted { fragment: wanted, versions: 0..=0 }, &sources)?;
    let way = |(source, transfer): (usize, Transfer)| {
        let (writer, _, variable) = &writers[source];
        Way { writer: *writer, variable: variable.clone(), transfer }
    };
    Ok(plan.transfers.into_iter().map(way).collect())
}

/// A version that is held and that has to be sent.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) to: Node,
    pub(crate) object: ObjectId,
    pub(crate) subscription: u64,
    pub(crate) version: Version,
    pub(crate) parts: Vec<(Way, Snapshot)>,
}

impl Job {
    /// Packs and sends all parts. What fails is told to who waits.
    pub(crate) fn run(self, network: &dyn Network, executor: &Executor) {
        let Job { to, object, subscription, version, parts } = self;
        for (Way { writer, variable, transfer }, snapshot) in parts {
            let message = match pack(&snapshot, &variable, &transfer, executor) {
                Ok(bytes) => {
                    let (published_ns, transfer) = (snapshot.published_ns(), transfer.unpack());
                    Message::Piece { subscription, version, writer, published_ns, transfer, bytes }
                }
                Err(why) => Message::Gone { subscription, version, why },
            };
            network.send(to, object, message);
        }
    }
}

fn pack(snapshot: &Snapshot, variable: &str, transfer: &Transfer, executor: &Executor) -> Result<Vec<u8>, String> {
    let length = transfer.moved_bytes() as usize;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| format!("this node has no memory for {length} bytes"))?;
    bytes.resize(length, 0);
    let pack = transfer.pack();
    let view;
    let read;
    let source: &[u8] = if snapshot.is_foreign() {
        // Of another user, who could cut the file short meanwhile.
        let mut copy = Vec::new();
        let wanted = pack.source_bytes() as usize;
        copy.try_reserve_exact(wanted).map_err(|_| format!("this node has no memory for {wanted} bytes"))?;
        copy.resize(wanted, 0);
        snapshot.read(variable, 0, &mut copy).map_err(|error| error.to_string())?;
        read = copy;
        &read
    } else {
        view = snapshot.view(variable).map_err(|error| error.to_string())?;
        &view
    };
    executor.run(&pack, source, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}
