//! Which version of a group is brought: one that all of its ranks have, on whatever nodes they are, and that one run of the program
//! published.
//!
//! Ranks of one node agree on the run that they are of. Those of other nodes do not hear of it, so that each node calls the same
//! run otherwise. Runs of two nodes are taken for one if the ranks were there at the same time: longer than with any other run of
//! the other node, seen from both sides. Clocks need not agree, for all times are counted back from when they were told. What took
//! long on its way says that all was later than it was, so that a run which was there for a short time only may seem to have missed
//! its other half: nodes are then asked again, and of what they said the earliest counts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use stillframe_roster::writer::Node;
use stillframe_wire::group::{GroupRanks, RankTold, RunTold};

/// Runs of a node that are remembered.
const RUNS_MAX: usize = 16;

/// When a run was there, by this node's clock; it still is if there is no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    begin: Time,
    end: Option<Time>,
    /// How long it was as it was told last, if it had ended.
    length_ns: Option<Time>,
}

impl Span {
    /// The same run, told of once more.
    fn hear(&mut self, told: Span) {
        let is_unchanged = self.length_ns == told.length_ns;
        self.length_ns = told.length_ns;
        self.end = match (self.end, told.end) {
            // One of the two was longer on its way.
            (Some(former), Some(end)) if is_unchanged => Some(end.min(former)),
            // One that ended goes on when a rank of it begins again.
            (former, end) => end.map(|end| former.map_or(end, |former| former.max(end))),
        };
        self.begin = self.begin.min(told.begin);
    }
}

/// Nanoseconds since this list of nodes was made; before it, if negative.
type Time = i128;

/// What nodes said of their ranks of a group.
#[derive(Debug)]
pub(super) struct Told {
    epoch: Instant,
    nodes: BTreeMap<Node, GroupRanks>,
    /// When each node said it.
    heard: BTreeMap<Node, Time>,
    spans: BTreeMap<Node, BTreeMap<u64, Span>>,
}

/// A version that all ranks have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) version: u64,
    /// The run that published it, as each node with ranks calls it.
    pub(super) runs: BTreeMap<Node, u64>,
    /// Of the node by which the others are compared.
    pub(super) run: u64,
}

impl Told {
    pub(super) fn new() -> Told {
        let (nodes, heard, spans) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Told { epoch: Instant::now(), nodes, heard, spans }
    }

    /// A node says how its ranks are.
    pub(super) fn hear(&mut self, node: Node, ranks: GroupRanks) {
        let now = self.epoch.elapsed().as_nanos() as Time;
        let spans = self.spans.entry(node).or_default();
        for RunTold { run, begun_ago_ns, seen_ago_ns } in &ranks.runs {
            let begin = now - Time::from(*begun_ago_ns);
            let end = (*seen_ago_ns > 0).then(|| now - Time::from(*seen_ago_ns));
            let told = Span { begin, end, length_ns: end.map(|end| end - begin) };
            spans.entry(*run).or_insert(told).hear(told);
        }
        // One that is told of no more lives no more.
        let told = |run: &u64| ranks.runs.iter().any(|told| told.run == *run);
        spans.iter_mut().filter(|(run, _)| !told(run)).for_each(|(_, span)| _ = span.end.get_or_insert(now));
        while spans.len() > RUNS_MAX {
            let oldest =
                spans.iter().min_by_key(|(_, span)| (span.end.unwrap_or(now), span.begin)).map(|(run, _)| *run);
            oldest.into_iter().for_each(|run| _ = spans.remove(&run));
        }
        self.heard.insert(node, now);
        self.nodes.insert(node, ranks);
    }

    /// A node is not there any more; its ranks.
    pub(super) fn forget(&mut self, node: Node) -> Vec<u32> {
        self.heard.remove(&node);
        self.spans.remove(&node);
        self.nodes.remove(&node).map_or(Vec::new(), |ranks| ranks.ranks.iter().map(|told| told.rank).collect())
    }

    /// Whether a node has said anything.
    pub(super) fn has_heard(&self, node: Node) -> bool {
        self.heard.contains_key(&node)
    }

    /// How many ranks the group has, as the node says whose rank lives and began last; 0 if there are none.
    pub(super) fn size(&self) -> u32 {
        let newest = self.nodes.iter().flat_map(|(node, ranks)| {
            ranks.ranks.iter().map(move |told| ((told.lives, self.begun(*node, told)), ranks.size))
        });
        newest.max_by_key(|(order, _)| *order).map_or(0, |(_, size)| size)
    }

    fn begun(&self, node: Node, told: &RankTold) -> Time {
        self.heard.get(&node).copied().unwrap_or(0) - Time::from(told.begun_ago_ns)
    }

    /// Which node has each rank, and how it is there: a rank of this node comes first, for its name is taken; of others the one that
    /// lives, or that began last.
    pub(super) fn places(&self, own: Node) -> BTreeMap<u32, (Node, RankTold)> {
        let size = self.size();
        let mut places = BTreeMap::new();
        for (node, ranks) in self.nodes.iter().filter(|(_, ranks)| ranks.size == size) {
            for told in &ranks.ranks {
                let order = |(node, told): &(Node, RankTold)| (*node == own, told.lives, self.begun(*node, told));
                let place = (*node, *told);
                let best = places.entry(told.rank).or_insert(place);
                if order(&place) > order(best) {
                    *best = place;
                }
            }
        }
        places
    }

    /// The newest version of all ranks at these places that is newer than one that is here, if there is one: of the same run by its
    /// number, or of a run that began later.
    pub(super) fn choose(
        &self,
        places: &BTreeMap<u32, (Node, RankTold)>,
        present: Option<(u64, u64)>,
    ) -> Option<Choice> {
        // Ranks of the lowest node are compared with, whatever node looks: all call the run the same.
        let nodes = self.nodes_of(places);
        let (first, others) = nodes.split_first()?;
        let begun = |run: u64| self.spans.get(first).and_then(|spans| spans.get(&run)).map(|span| span.begin);
        let is_newer = |run: u64, version: u64| match present {
            Some((present, newest)) if present == run => version > newest,
            Some((present, _)) => begun(run) > begun(present),
            None => true,
        };
        let versions = &self.nodes.get(first)?.versions;
        let mut found: Vec<Choice> = Vec::new();
        for one in versions.iter().filter(|one| is_newer(one.run, one.version)) {
            let same = |node: &Node| {
                let all = &self.nodes.get(node)?.versions;
                let found = all.iter().find(|other| other.version == one.version)?;
                self.is_one_run((*first, one.run), (*node, found.run)).then_some((*node, found.run))
            };
            let runs: Option<BTreeMap<Node, u64>> = others.iter().map(same).collect();
            if let Some(mut runs) = runs {
                runs.insert(*first, one.run);
                found.push(Choice { version: one.version, runs, run: one.run });
            }
        }
        found.into_iter().max_by_key(|choice| (begun(choice.run), choice.version))
    }

    /// Whether all ranks have a version of one number, which is of different runs as it seems.
    pub(super) fn is_in_doubt(&self, places: &BTreeMap<u32, (Node, RankTold)>) -> bool {
        let nodes = self.nodes_of(places);
        let has = |node: &Node, version: u64| {
            self.nodes.get(node).is_some_and(|ranks| ranks.versions.iter().any(|one| one.version == version))
        };
        let Some(first) = nodes.first().and_then(|first| self.nodes.get(first)) else { return false };
        let is_there = first.versions.iter().any(|one| nodes.iter().all(|node| has(node, one.version)));
        is_there && self.choose(places, None).is_none()
    }

    /// The nodes at which ranks are, lowest first; none if a rank is nowhere.
    fn nodes_of(&self, places: &BTreeMap<u32, (Node, RankTold)>) -> Vec<Node> {
        if places.len() < self.size() as usize {
            return Vec::new();
        }
        let mut nodes: Vec<Node> = places.values().map(|(node, _)| *node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Whether two nodes mean the same run.
    fn is_one_run(&self, one: (Node, u64), other: (Node, u64)) -> bool {
        // A rank that began where ranks of others are shown already is of their run.
        one.1 == other.1
            || (self.companion(one, other.0) == Some(other.1) && self.companion(other, one.0) == Some(one.1))
    }

    /// The run of another node that was there longest together with a run.
    fn companion(&self, (node, run): (Node, u64), other: Node) -> Option<u64> {
        let now = self.epoch.elapsed().as_nanos() as Time;
        let own = self.spans.get(&node)?.get(&run)?;
        let together = |span: &Span| {
            let end = own.end.unwrap_or(now).min(span.end.unwrap_or(now));
            end - own.begin.max(span.begin)
        };
        let all = self.spans.get(&other)?.iter().map(|(run, span)| (together(span), *run));
        all.filter(|(together, _)| *together >= 0).max().map(|(_, run)| run)
    }
}

/// Versions worth holding for who asks for them a little later: the newest two, and of those before them the ones that a node
/// with other numbers would hold as well, as their numbers are round.
pub(super) fn worth_holding(numbers: &[u64]) -> Vec<u64> {
    const HELD_MAX: usize = 6;
    let mut worth: Vec<u64> = numbers.iter().rev().take(2).copied().collect();
    let round = |bits: u32| numbers.iter().rev().find(move |number| number.trailing_zeros() >= bits).copied();
    worth.extend((1..u64::BITS).filter_map(round));
    worth.sort_unstable_by(|one, other| other.cmp(one));
    worth.dedup();
    worth.truncate(HELD_MAX);
    worth
}

/// Nanoseconds from then to now, by a clock that may have been set meanwhile.
pub(super) fn ago_ns(then_ns: u64, now_ns: u64) -> u64 {
    now_ns.saturating_sub(then_ns)
}

/// How often nodes are asked again whose runs do not seem to be one.
pub(super) const ASKED_AGAIN_MAX: u32 = 10;

/// How long to wait for nodes that have said nothing yet before a group counts as known. A node that lives answers in less, on a
/// machine with much else to do, too; one that does not is lost soon.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use stillframe_wire::group::RankVersion;

    const SECOND: u64 = 1_000_000_000;

    fn told(ranks: &[u32], runs: &[(u64, u64, u64)], versions: &[(u64, u64)]) -> GroupRanks {
        let rank = |rank: &u32| RankTold { rank: *rank, lives: true, ended: false, begun_ago_ns: 1, newest: None };
        let run = |&(run, begun, seen)| RunTold { run, begun_ago_ns: begun * SECOND, seen_ago_ns: seen * SECOND };
        GroupRanks {
            group: "g".into(),
            size: 4,
            ranks: ranks.iter().map(rank).collect(),
            runs: runs.iter().map(run).collect(),
            versions: versions.iter().map(|&(version, run)| RankVersion { version, run }).collect(),
        }
    }

    fn choose(told: &Told, present: Option<(u64, u64)>) -> Option<(u64, u64)> {
        let choice = told.choose(&told.places(Node(9)), present)?;
        Some((choice.run, choice.version))
    }

    #[test]
    fn the_newest_version_is_chosen_that_all_have() {
        let mut all = Told::new();
        all.hear(Node(1), told(&[0, 1], &[(10, 5, 0)], &[(3, 10), (4, 10), (6, 10)]));
        assert_eq!(choose(&all, None), None);
        all.hear(Node(2), told(&[2, 3], &[(20, 6, 0)], &[(3, 20), (4, 20), (5, 20)]));
        assert_eq!(choose(&all, None), Some((10, 4)));
        assert_eq!(choose(&all, Some((10, 3))), Some((10, 4)));
        assert_eq!(choose(&all, Some((10, 4))), None);
        all.forget(Node(2));
        assert_eq!(choose(&all, None), None);
    }

    #[test]
    fn versions_of_runs_that_were_not_there_together_are_never_one() {
        let mut all = Told::new();
        // The second node still has what ended before the first one's run began.
        all.hear(Node(1), told(&[0, 1], &[(11, 5, 0)], &[(3, 11)]));
        all.hear(Node(2), told(&[2, 3], &[(20, 60, 10)], &[(3, 20)]));
        assert_eq!(choose(&all, None), None);
        // Then its ranks begin again.
        all.hear(Node(2), told(&[2, 3], &[(20, 60, 10), (21, 4, 0)], &[(3, 21)]));
        assert_eq!(choose(&all, None), Some((11, 3)));
    }

    #[test]
    fn a_short_run_is_one_although_a_node_was_heard_late() {
        let mut all = Told::new();
        let places = |all: &Told| all.places(Node(9));
        all.hear(Node(1), told(&[0, 1], &[(10, 5, 4)], &[(3, 10)]));
        // Four seconds on its way.
        all.hear(Node(2), told(&[2, 3], &[(20, 1, 0)], &[(3, 20)]));
        all.hear(Node(2), told(&[2, 3], &[(20, 2, 1)], &[(3, 20)]));
        assert_eq!((choose(&all, None), all.is_in_doubt(&places(&all))), (None, true));
        // Asked again it is as late as before, and then not.
        all.hear(Node(2), told(&[2, 3], &[(20, 2, 1)], &[(3, 20)]));
        assert!(all.is_in_doubt(&places(&all)));
        all.hear(Node(2), told(&[2, 3], &[(20, 5, 4)], &[(3, 20)]));
        assert_eq!((choose(&all, None), all.is_in_doubt(&places(&all))), (Some((10, 3)), false));
        // Late again, it does not get worse.
        all.hear(Node(2), told(&[2, 3], &[(20, 2, 1)], &[(3, 20)]));
        assert_eq!(choose(&all, None), Some((10, 3)));
        // Without a version of one number there is no doubt.
        all.hear(Node(2), told(&[2, 3], &[(20, 2, 1)], &[(4, 20)]));
        assert_eq!((choose(&all, None), all.is_in_doubt(&places(&all))), (None, false));
    }

    #[test]
    fn a_run_that_overlaps_the_next_one_a_little_is_not_taken_for_it() {
        let mut all = Told::new();
        all.hear(Node(1), told(&[0, 1], &[(10, 60, 9), (11, 8, 0)], &[(3, 11)]));
        // The end of its ranks was noticed late.
        all.hear(Node(2), told(&[2, 3], &[(20, 60, 7)], &[(3, 20)]));
        assert_eq!(choose(&all, None), None);
    }

    #[test]
    fn a_later_run_replaces_a_former_one_and_never_the_reverse() {
        let mut all = Told::new();
        all.hear(Node(1), told(&[0, 1], &[(10, 60, 9), (11, 8, 0)], &[(2, 11), (50, 10)]));
        all.hear(Node(2), told(&[2, 3], &[(20, 60, 9), (21, 8, 0)], &[(2, 21), (50, 20)]));
        assert_eq!(choose(&all, Some((10, 40))), Some((11, 2)));
        assert_eq!(choose(&all, Some((11, 2))), None);
    }

    #[test]
    fn of_what_ranks_at_different_numbers_hold_some_is_the_same() {
        for behind in 0..40_u64 {
            let (far, near): (Vec<u64>, Vec<u64>) = ((0..1000).collect(), (0..1000 - behind).collect());
            // What a node holds was the newest once.
            let (far, near) = (worth_holding(&far), worth_holding(&near));
            assert!(far.iter().any(|number| near.contains(number)), "{far:?} {near:?}");
        }
        assert_eq!(worth_holding(&[]), [0; 0]);
        assert_eq!(worth_holding(&[7]), [7]);
    }
}
