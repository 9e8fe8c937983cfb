//! Which groups there are on all nodes, without bringing anything here.

use crate::cluster::Cluster;
use crate::groups::choosing::{SILENCE, Told};
use crate::groups::local::{LocalRanks, Shown};
use crate::network::Network;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use stillframe::inspect;
use stillframe_object::runtime::GroupSummary;
use stillframe_roster::writer::Node;
use stillframe_wire::Message;
use stillframe_wire::group::{GroupList, GroupListed, GroupRanks};

/// Questions that were asked, and what nodes answered by now.
#[derive(Debug, Default)]
pub(super) struct Listing {
    asked: Mutex<BTreeMap<u64, BTreeMap<Node, Vec<GroupRanks>>>>,
    answered: Condvar,
}

impl Listing {
    fn asked(&self) -> MutexGuard<'_, BTreeMap<u64, BTreeMap<Node, Vec<GroupRanks>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all nodes, and waits a little for those that do not answer at once.
    pub(super) fn ask(
        &self,
        number: u64,
        own: (Node, Vec<GroupRanks>),
        cluster: &dyn Cluster,
        network: &dyn Network,
    ) -> Vec<GroupSummary> {
        let others: Vec<Node> = cluster.nodes().into_iter().filter(|node| *node != own.0).collect();
        self.asked().insert(number, BTreeMap::new());
        others.iter().for_each(|node| network.send(*node, vec![Message::GroupList(GroupList { number })]));
        let is_waiting = |asked: &mut BTreeMap<u64, BTreeMap<Node, Vec<GroupRanks>>>| {
            asked.get(&number).is_some_and(|answers| answers.len() < others.len())
        };
        let waited = self.answered.wait_timeout_while(self.asked(), SILENCE, is_waiting);
        let (mut asked, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut answers = asked.remove(&number).unwrap_or_default();
        drop(asked);
        answers.insert(own.0, own.1);
        summarize(own.0, answers)
    }

    /// A node has answered.
    pub(super) fn hear(&self, from: Node, listed: GroupListed) {
        if let Some(answers) = self.asked().get_mut(&listed.number) {
            answers.insert(from, listed.groups);
        }
        self.answered.notify_all();
    }
}

fn summarize(own: Node, answers: BTreeMap<Node, Vec<GroupRanks>>) -> Vec<GroupSummary> {
    let mut groups: BTreeMap<String, Told> = BTreeMap::new();
    for (node, ranks) in answers.into_iter().flat_map(|(node, all)| all.into_iter().map(move |ranks| (node, ranks))) {
        groups.entry(ranks.group.clone()).or_insert_with(Told::new).hear(node, ranks);
    }
    let summary = |(name, told): (String, Told)| {
        let places = told.places(own);
        let mut nodes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        places.iter().for_each(|(rank, (node, _))| nodes.entry(node.0).or_default().push(*rank));
        let living = places.values().filter(|(_, told)| told.lives).count() as u32;
        let newest = told.choose(&places, None).map(|choice| choice.version);
        GroupSummary { name, ranks: told.size(), living, newest, nodes }
    };
    groups.into_iter().map(summary).collect()
}

/// The groups of which programs of this node have ranks.
pub(super) fn own(dir: &Path, shown: &Shown) -> Vec<GroupRanks> {
    let regions = inspect::regions(dir).unwrap_or_default();
    let of_ranks = regions.iter().filter(|region| region.rank.is_some());
    let names: BTreeSet<&str> = of_ranks.filter_map(|region| Some(region.name.rsplit_once('/')?.0)).collect();
    let all = names.into_iter().map(|name| LocalRanks::new(dir, name, shown).look());
    all.filter(|ranks| ranks.size > 0).collect()
}
