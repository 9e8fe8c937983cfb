//! How it stands with a group, as those are told who want it.

use super::{Bringing, Failure, SILENCE, Tell, Work, lock};
use std::collections::{BTreeMap, BTreeSet};
use stillframe_object::runtime::Reply;
use stillframe_roster::writer::Node;
use stillframe_wire::group::RankTold;

/// How it stands with the group, for who wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) is_here: bool,
    pub(super) why: String,
}

impl Bringing {
    /// Shows that ranks ended from which nothing will come any more; those of nodes that were lost once observers were told of that.
    pub(super) fn end_ranks(&self, work: &mut Work, places: &BTreeMap<u32, (Node, RankTold)>, is_said: bool) {
        let is_lost = |rank: &u32| is_said && self.state().lost.values().any(|ranks| ranks.contains(rank));
        for (rank, region) in &work.ranks {
            let ended = match places.get(rank) {
                Some((_, told)) if told.lives => None,
                Some((_, told)) => {
                    let is_past = |(_, other): &(Node, RankTold)| !other.lives || other.newest >= told.newest;
                    places.values().all(is_past).then_some(told.ended)
                }
                None => is_lost(rank).then_some(false),
            };
            if let Some(by_itself) = ended {
                lock(region).end(by_itself);
            }
        }
    }

    /// How it stands now, if that can be said.
    pub(super) fn standing(&self, work: &Work, places: &BTreeMap<u32, (Node, RankTold)>) -> Option<Standing> {
        let state = self.state();
        let is_here = work.present.is_some();
        let mut nodes = self.cluster.nodes().into_iter().filter(|node| *node != self.node);
        let has_silent = nodes.any(|node| !state.told.has_heard(node)) && work.begun.elapsed() < SILENCE;
        // What was heard since the last choice may be enough for the next one.
        let may_come = || state.told.choose(&state.told.places(self.node), None).is_some() && work.failed.is_none();
        if !is_here && (has_silent || state.fetch.is_some() || may_come()) {
            return None;
        }
        let mut why = Vec::new();
        for (node, ranks) in &state.lost {
            why.push(format!("node {} is lost, which had {}", self.called(*node), listed(ranks)));
        }
        let mut by_node: BTreeMap<Node, Vec<u32>> = BTreeMap::new();
        for (rank, (node, _)) in places.iter().filter(|(_, (node, _))| *node != self.node) {
            by_node.entry(*node).or_default().push(*rank);
        }
        for (node, ranks) in by_node {
            let verb = if ranks.len() == 1 { "is" } else { "are" };
            why.push(format!("{} {verb} on node {}", listed(&ranks), self.called(node)));
        }
        let lost: BTreeSet<u32> = state.lost.values().flatten().copied().collect();
        let missing = (0..state.told.size()).filter(|rank| !places.contains_key(rank) && !lost.contains(rank));
        let missing: Vec<u32> = missing.collect();
        if !missing.is_empty() {
            why.push(format!("{} began on no node", listed(&missing)));
        }
        if let Some(Failure { loss, .. }) = &work.failed {
            why.push(format!("a version could not be brought here: {}", loss.why));
        }
        Some(Standing { is_here, why: why.join("; ") })
    }

    fn called(&self, node: Node) -> String {
        let host = self.cluster.host(node);
        if host.is_empty() { node.0.to_string() } else { format!("{} ({host})", node.0) }
    }

    /// Tells those who want the group how it stands, if they do not know.
    pub(super) fn answer(&self, standing: Option<Standing>, tell: &Tell) {
        let Some(standing) = standing else { return };
        let mut told = Vec::new();
        for (client, last) in &mut self.state().clients {
            if last.as_ref() != Some(&standing) {
                *last = Some(standing.clone());
                told.push(*client);
            }
        }
        let Standing { is_here, why } = standing;
        let reply = Reply::Ranks { is_here, why };
        told.into_iter().for_each(|client| tell(client, &reply));
    }
}

/// Ranks, for people.
fn listed(ranks: &[u32]) -> String {
    const SHOWN: usize = 8;
    let all: Vec<String> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    let more = ranks.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} {}{more}", if ranks.len() == 1 { "rank" } else { "ranks" }, all.join(", "))
}
