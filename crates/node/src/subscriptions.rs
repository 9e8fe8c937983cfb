//! Fragments of other nodes to which an object's writers of this node send versions.

use crate::diagnostics;
use crate::error::Result;
use crate::known::{Known, numbers};
use crate::sending::{self, Cargo, Held, Job, Planned, Snapshots, Subscription};
use crate::surroundings::Surroundings;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stillframe_kernel::points;
use stillframe_object::Cause;
use stillframe_roster::writer::{Node, Record, Who, Writer};
use stillframe_wire::Message;
use stillframe_wire::data::{Lost, Subscribe};

/// All of them, by their node and its number for each.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    all: BTreeMap<(Node, u64), Subscription>,
}

impl Subscriptions {
    /// A fragment of another node waits for a version.
    pub(crate) fn subscribe(
        &mut self,
        known: &mut Known,
        from: Node,
        subscribe: Subscribe,
        around: &mut Surroundings,
    ) -> Result<()> {
        let Subscribe { subscription, fragment: layout, writers, version, has, .. } = subscribe;
        let key = (from, subscription);
        // What was asked for before is held no more.
        let before = self.all.remove(&key).filter(|before| before.layout == layout);
        let (fragment, planned) = match before {
            Some(before) => {
                // Who asks again for the same version has lost something of it, perhaps also where the pieces go. Who asks for an older
                // one is told anew, for what was told holds from a version on.
                if before.version >= version {
                    before.forget_told();
                }
                (before.fragment, before.planned)
            }
            None => match known.relay.fragment(&layout.text, &numbers(&layout)) {
                Ok((view, _)) => (view.fragment, None),
                Err(_) => {
                    let lost = Lost { subscription, version, cause: Cause::Unwritten, who: None };
                    around.send(from, Message::Lost(lost));
                    return Ok(());
                }
            },
        };
        let (is_served, held) = (false, Held::default());
        let subscription = Subscription { layout, fragment, version, has, writers, is_served, planned, held };
        self.all.insert(key, subscription);
        self.serve(known, around)
    }

    /// Sends what subscribers wait for and what all of their writers have.
    pub(crate) fn serve(&mut self, known: &mut Known, around: &mut Surroundings) -> Result<()> {
        for ((to, number), subscription) in self.all.iter_mut().filter(|(_, one)| !one.is_served) {
            let (to, number, version) = (*to, *number, subscription.version);
            let lost = |writer: Writer| {
                let who = Some(Who { writer, rank: None });
                Message::Lost(Lost { subscription: number, version, cause: Cause::Gone, who })
            };
            let is_lost = |writer: Writer| {
                let Known { protocol, .. } = &*known;
                let has_gone = |record: &Record| record.has_reached(version) && !protocol.has(writer, version);
                protocol.record(writer).is_none_or(has_gone)
            };
            if let Some(writer) = subscription.writers.iter().find(|writer| is_lost(**writer)) {
                subscription.is_served = true;
                around.send(to, lost(*writer));
                continue;
            }
            if !subscription.writers.iter().all(|writer| known.protocol.has(*writer, version)) {
                continue;
            }
            let Some(planned) = plan_of(subscription, known, to).filter(|planned| !planned.is_too_long) else {
                subscription.is_served = true;
                around.send(to, Message::Lost(Lost { subscription: number, version, cause: Cause::Gone, who: None }));
                continue;
            };
            let writers = || planned.cargo.iter().map(Cargo::writer);
            // Where there is no memory for it now, it is served later.
            let held = known.hold_all(writers(), version)?;
            subscription.is_served = true;
            match held {
                Ok(new) => {
                    points::hit("send.held");
                    let older = match subscription.has {
                        // Without it all is sent.
                        Some(has) => known.hold_all(writers(), has).ok().and_then(Result::ok),
                        None => None,
                    };
                    subscription.held = Held::new(Snapshots { new, older });
                    around.jobs.push((to, Job::new(number, version, planned, &subscription.held)));
                }
                Err(writer) => around.send(to, lost(writer)),
            }
        }
        Ok(())
    }

    /// A fragment waits no more.
    pub(crate) fn unsubscribe(&mut self, from: Node, subscription: u64) {
        self.all.remove(&(from, subscription));
    }

    /// A node may have missed what it was sent. It asks again for what it waits for, perhaps before this is known here.
    pub(crate) fn tell_again(&mut self, node: Node) {
        let of_node = self.all.iter_mut().filter(|((from, _), _)| *from == node);
        of_node.for_each(|(_, one)| one.forget_told());
    }

    /// A node does not live any more.
    pub(crate) fn forget(&mut self, node: Node) {
        self.all.retain(|(from, _), _| *from != node);
    }
}

impl Subscription {
    /// The other node may not know any more where the pieces go.
    fn forget_told(&self) {
        self.planned.iter().for_each(|(_, planned)| planned.is_told.store(false, Ordering::SeqCst));
    }
}

/// What is sent of a subscription's writers to a node.
fn plan_of(subscription: &mut Subscription, known: &Known, to: Node) -> Option<Arc<Planned>> {
    if let Some((writers, planned)) = &subscription.planned
        && *writers == subscription.writers
    {
        return Some(planned.clone());
    }
    let ways = sending::plan(&subscription.fragment, &known.origins(&subscription.writers)?).ok()?;
    let planned = Arc::new(Planned::new(ways));
    if planned.is_too_long {
        diagnostics::report(format!(
            "node {}: a fragment there is made of more parts of this node's than a message says, and its versions are not sent: \
             attach several fragments with fewer elements each, or in a layout that is more like the writers'",
            to.0
        ));
    }
    subscription.planned = Some((subscription.writers.clone(), planned.clone()));
    Some(planned)
}
