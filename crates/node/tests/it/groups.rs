//! Groups of regions over several nodes: each is a directory with a runtime of its own, in this process.

use crate::common::watchdog;
use crate::places::Nodes;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use stillframe::{
    Array, Attributes, DType, Declaration, Element, Error, Group, GroupSnapshot, Kind, Observer, Order, Part, Region,
    Scalar, inspect,
};
use stillframe_roster::writer::Node;
use stillframe_wire::Message;
use stillframe_wire::group::{
    GroupGet, GroupName, GroupPiece, GroupRank, GroupRanks, GroupSent, RankTold, RankVersion, RunTold,
};

const LONG: Duration = Duration::from_secs(60);

fn value(version: u64, rank: u32, index: usize) -> i64 {
    version as i64 * 1_000_003 + i64::from(rank) * 10_007 + index as i64
}

/// A rank of four, with one variable.
struct Rank {
    rank: u32,
    region: Region,
    u: Array<i64>,
}

impl Rank {
    fn begin(dir: &Path, rank: u32) -> Rank {
        let mut region = Region::options().dir(dir).rank(rank, 4).create("heat").unwrap();
        let u = region.array::<i64>("u", &[37, 11]).unwrap();
        Rank { rank, region, u }
    }

    fn publish(&mut self, version: u64) {
        let values = self.region.slice_mut(&self.u);
        values.iter_mut().enumerate().for_each(|(index, one)| *one = value(version, self.rank, index));
        self.region.publish(version).attr("step", version as i64).commit().unwrap();
    }
}

/// Ranks 0 and 1 on the first node, 2 and 3 on the second.
fn begin(nodes: &Nodes) -> Vec<Rank> {
    (0..4).map(|rank| Rank::begin(&nodes.dir(rank as usize / 2), rank)).collect()
}

fn open(nodes: &Nodes, node: usize) -> Group {
    Group::options().dir(nodes.dir(node)).wait(LONG).open("heat").unwrap()
}

/// Each element of each rank is of the version.
fn check(snapshot: &GroupSnapshot) {
    assert_eq!(snapshot.ranks().len(), 4);
    for (rank, part) in snapshot.ranks().iter().enumerate() {
        assert_eq!(part.version(), snapshot.version());
        assert_eq!(part.attributes()["step"], Scalar::Int(snapshot.version() as i64));
        let values = part.slice::<i64>("u").unwrap();
        assert_eq!(values.len(), 37 * 11);
        for (index, one) in values.iter().enumerate() {
            assert_eq!(*one, value(snapshot.version(), rank as u32, index), "rank {rank} of {}", snapshot.version());
        }
    }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn observers_on_every_node_see_versions_of_all_ranks() {
    const LAST: u64 = 300;
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("group", 3);
    let mut ranks = begin(&nodes);
    ranks.iter_mut().for_each(|rank| rank.publish(1));
    let all_look = Barrier::new(ranks.len() + 3);
    let all_end = Barrier::new(ranks.len());
    let (all_look, all_end) = (&all_look, &all_end);
    std::thread::scope(|scope| {
        for mut rank in ranks {
            scope.spawn(move || {
                all_look.wait();
                for version in 2..=LAST {
                    rank.publish(version);
                    std::thread::sleep(Duration::from_millis(2 + u64::from(rank.rank)));
                }
                // Observers are to see that they end, as ranks of one program do.
                all_end.wait();
                drop(rank);
            });
        }
        for node in 0..3 {
            let nodes = &nodes;
            scope.spawn(move || {
                let group = open(nodes, node);
                assert_eq!(group.size(), 4);
                check(&group.newest().unwrap());
                all_look.wait();
                let mut last = 0;
                for snapshot in group.snapshots(true, Some(LONG)) {
                    let snapshot = snapshot.unwrap();
                    assert!(snapshot.version() > last);
                    check(&snapshot);
                    last = snapshot.version();
                }
                assert_eq!(last, LAST);
            });
        }
    });
}

#[test]
fn who_comes_late_sees_what_the_ranks_left() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("late", 3);
    let mut ranks = begin(&nodes);
    for version in [10, 20, 30] {
        ranks.iter_mut().for_each(|rank| rank.publish(version));
    }
    drop(ranks);
    // Without a word of waiting, too.
    let group = Group::options().dir(nodes.dir(2)).open("heat").unwrap();
    let snapshot = group.newest().unwrap();
    assert_eq!(snapshot.version(), 30);
    check(&snapshot);
    let error = group.next_after(Some(30), Some(LONG)).unwrap_err();
    assert!(matches!(error, Error::ProducerGone { .. }), "{error}");
    let any = Observer::options().dir(nodes.dir(2)).open_any("heat").unwrap();
    assert_eq!((any.size(), any.newest().unwrap().version()), (Some(4), 30));
}

#[test]
fn a_name_that_no_node_has_is_told_of_at_once() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("none", 2);
    let error = Group::options().dir(nodes.dir(0)).open("heat").unwrap_err();
    assert!(matches!(error, Error::NoRegion { .. }), "{error}");
}

#[test]
fn what_was_brought_goes_with_the_last_who_wants_it() {
    let _watchdog = watchdog(60);
    let mut nodes = Nodes::new("goes", 3);
    let mut ranks = begin(&nodes);
    ranks.iter_mut().for_each(|rank| rank.publish(1));
    let regions = |nodes: &Nodes| inspect::regions(&nodes.dir(2)).unwrap().len();
    let group = open(&nodes, 2);
    let held = group.newest().unwrap();
    assert_eq!(regions(&nodes), 4);
    drop(group);
    eventually("regions stay", || regions(&nodes) == 0);
    // What is held stays readable.
    check(&held);
    let again = open(&nodes, 2);
    check(&again.newest().unwrap());
    nodes.stop(2);
    assert_eq!(regions(&nodes), 0);
    // A runtime that is started again is asked again.
    nodes.start(2);
    ranks.iter_mut().for_each(|rank| rank.publish(2));
    check(&again.next_after(Some(1), Some(LONG)).unwrap());
}

#[test]
fn a_node_that_is_lost_is_named_with_its_ranks() {
    let _watchdog = watchdog(60);
    let mut nodes = Nodes::new("lost", 3);
    let mut ranks = begin(&nodes);
    ranks.iter_mut().for_each(|rank| rank.publish(1));
    let group = open(&nodes, 2);
    ranks[0].publish(2);
    ranks[1].publish(2);
    let waiting = {
        let group = group.clone();
        std::thread::spawn(move || group.next_after(Some(1), Some(LONG)))
    };
    nodes.stop(1);
    nodes.lose(1);
    let error = waiting.join().unwrap().unwrap_err();
    assert!(matches!(error, Error::RankGone { rank: 2 | 3, newest: Some(1), .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("node 2 (n2) is lost, which had ranks 2, 3"), "{said}");
    // What all had stays, and goes on when the node is back.
    check(&group.newest().unwrap());
    nodes.start(1);
    ranks[2].publish(2);
    ranks[3].publish(2);
    eventually("the group does not go on", || group.newest().is_ok_and(|newest| newest.version() == 2));
    check(&group.newest().unwrap());
}

#[test]
fn declarations_come_along_as_they_change() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("declared", 2);
    let mut ranks: Vec<Region> = (0..2)
        .map(|rank: u32| Region::options().dir(nodes.dir(rank as usize)).rank(rank, 2).create("flow").unwrap())
        .collect();
    let declaration = |rank: usize, rows: usize| {
        let kind = Kind::Managed { shape: vec![rows, 3] };
        let attributes = Attributes::from([("long_name".into(), Scalar::Text(format!("of rank {rank}")))]);
        let mut declaration = Declaration::new("p", f32::dtype(), kind);
        (declaration.order, declaration.units, declaration.attributes) = (Order::Fortran, "Pa".into(), attributes);
        declaration.part(Part { offset: vec![rank * rows, 0], global_shape: vec![2 * rows, 3] })
    };
    let mut ids = Vec::new();
    for (rank, region) in ranks.iter_mut().enumerate() {
        ids.push(region.declare(declaration(rank, 4)).unwrap());
        region.array::<u8>("empty", &[0]).unwrap();
        region.publish(1).attr("time", 0.5).attr("name", "begin").commit().unwrap();
    }
    let group = Group::options().dir(nodes.dir(0)).wait(LONG).open("flow").unwrap();
    let look = |version: u64, rows: usize, names: &[&str]| {
        let snapshot = group.next_after(Some(version - 1), Some(LONG)).unwrap();
        assert_eq!(snapshot.version(), version);
        for (rank, part) in snapshot.ranks().iter().enumerate() {
            let all: Vec<&str> = part.variables().iter().map(|variable| &variable.name[..]).collect();
            assert_eq!(all, names);
            let p = part.variable("p").unwrap();
            let expected = declaration(rank, rows);
            assert_eq!((&p.dtype, p.order, &p.units), (&expected.dtype, expected.order, &expected.units));
            assert_eq!((&p.attributes, &p.shape), (&expected.attributes, &vec![rows, 3]));
        }
        snapshot
    };
    let snapshot = look(1, 4, &["p", "empty"]);
    assert_eq!(snapshot.rank(1).attributes()["name"], Scalar::Text("begin".into()));
    assert_eq!(snapshot.rank(1).attributes()["time"], Scalar::Float(0.5));
    for (rank, region) in ranks.iter_mut().enumerate() {
        let part = Part { offset: vec![rank * 9, 0], global_shape: vec![18, 3] };
        region.repart(ids[rank], &[9, 3], &part).unwrap();
        region.bytes_mut(ids[rank]).unwrap().fill(7 + rank as u8);
        region.publish(2).commit().unwrap();
    }
    let snapshot = look(2, 9, &["p", "empty"]);
    assert_eq!(*snapshot.rank(1).view("p").unwrap(), [8; 9 * 3 * 4]);
    for region in &mut ranks {
        region.remove("empty").unwrap();
        let record = DType::packed([("a", DType::Int(4)), ("b", DType::Float(8))]).unwrap();
        region.declare(Declaration::new("r", record, Kind::Managed { shape: vec![5] })).unwrap();
        region.publish(3).commit().unwrap();
    }
    let snapshot = look(3, 9, &["p", "r"]);
    assert_eq!(snapshot.rank(1).variable("r").unwrap().shape, [5]);
    assert_eq!(*snapshot.rank(1).view("p").unwrap(), [8; 9 * 3 * 4]);
    // Only a shape is another.
    for (rank, region) in ranks.iter_mut().enumerate() {
        let r = region.array::<i32>("s", &[rank + 1]).unwrap();
        region.slice_mut(&r).fill(1);
        region.publish(4).commit().unwrap();
        region.resize(r.id(), &[6]).unwrap();
        region.slice_mut(&r).fill(2);
        region.publish(5).commit().unwrap();
    }
    let snapshot = group.newest_after(Some(4), Some(LONG)).unwrap();
    assert_eq!(snapshot.rank(1).slice::<i32>("s").unwrap(), [2; 6]);
}

#[test]
fn versions_of_different_runs_are_never_one() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("runs", 3);
    let mut ranks = begin(&nodes);
    ranks.iter_mut().for_each(|rank| rank.publish(5));
    let group = open(&nodes, 2);
    check(&group.newest().unwrap());
    drop(ranks);
    drop(group);
    // What was brought is a whole version of the former run, and would do.
    eventually("regions stay", || inspect::regions(&nodes.dir(2)).unwrap().is_empty());
    // The ranks of the first node begin anew. The second one has what its ranks left.
    let anew = |rank: u32| {
        let dir = nodes.dir(rank as usize / 2);
        let mut region = Region::options().dir(dir).rank(rank, 4).fresh(true).create("heat").unwrap();
        let u = region.array::<i64>("u", &[37, 11]).unwrap();
        Rank { rank, region, u }
    };
    let mut ranks: Vec<Rank> = (0..2).map(anew).collect();
    ranks.iter_mut().for_each(|rank| rank.publish(5));
    let error = Group::options().dir(nodes.dir(2)).wait(Duration::from_millis(1500)).open("heat");
    let error = error.and_then(|group| group.newest()).unwrap_err();
    assert!(!matches!(error, Error::BadOption { .. }), "{error}");
    ranks.extend((2..4).map(anew));
    ranks[2].publish(5);
    ranks[3].publish(5);
    check(&open(&nodes, 2).newest().unwrap());
}

#[test]
fn a_region_of_this_node_is_never_overwritten() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("own", 2);
    let mut former = Rank::begin(&nodes.dir(1), 1);
    former.publish(77);
    drop(former);
    std::thread::sleep(Duration::from_millis(20));
    // The ranks of the next run are all on the other node.
    let mut ranks: Vec<Rank> = (0..4).map(|rank| Rank::begin(&nodes.dir(0), rank)).collect();
    ranks.iter_mut().for_each(|rank| rank.publish(1));
    let group = Group::options().dir(nodes.dir(1)).open("heat").unwrap();
    assert!(group.newest().is_err());
    let own = Observer::options().dir(nodes.dir(1)).open("heat/1").unwrap();
    assert_eq!(own.newest().unwrap().version(), 77);
    inspect::remove(&nodes.dir(1), "heat/1", false).unwrap();
    check(&group.newest_after(None, Some(LONG)).unwrap());
}

#[test]
fn all_groups_are_listed_on_every_node() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("listed", 3);
    let mut ranks = begin(&nodes);
    ranks.iter_mut().for_each(|rank| rank.publish(7));
    ranks[0].publish(8);
    drop(ranks.pop());
    for node in 0..3 {
        let groups = nodes.objects(node).groups().unwrap().unwrap();
        assert_eq!(groups.len(), 1);
        assert_eq!((&groups[0].name[..], groups[0].ranks, groups[0].living, groups[0].newest), ("heat", 4, 3, Some(7)));
        assert_eq!(groups[0].nodes, [(1, vec![0, 1]), (2, vec![2, 3])].into());
    }
    // Nothing was brought anywhere.
    assert!(inspect::regions(&nodes.dir(2)).unwrap().is_empty());
}

#[test]
fn a_rank_of_another_node_is_opened_as_a_region() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("rank", 3);
    let mut ranks = begin(&nodes);
    ranks.iter_mut().for_each(|rank| rank.publish(1));
    let observer = Observer::options().dir(nodes.dir(2)).open("heat/3").unwrap();
    assert_eq!(observer.newest().unwrap().slice::<i64>("u").unwrap()[5], value(1, 3, 5));
    // It stays for as long as somebody looks.
    std::thread::sleep(Duration::from_secs(3));
    ranks.iter_mut().for_each(|rank| rank.publish(2));
    let next = observer.next_after(Some(1), Some(LONG)).unwrap();
    assert_eq!(next.slice::<i64>("u").unwrap()[5], value(2, 3, 5));
}

#[test]
fn what_a_hostile_node_says_is_not_shown() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("hostile", 2);
    let hostile = Node(99);
    let mut ranks: Vec<Rank> = (0..4).map(|rank| Rank::begin(&nodes.dir(0), rank)).collect();
    ranks.iter_mut().for_each(|rank| rank.publish(1));
    let opening = {
        let dir = nodes.dir(1);
        std::thread::spawn(move || Group::options().dir(dir).wait(LONG).open("heat"))
    };
    let told = |rank| RankTold { rank, lives: true, ended: false, begun_ago_ns: 0, newest: Some(u64::MAX) };
    let claim = GroupRanks {
        group: "heat".into(),
        size: 4,
        ranks: (0..4).map(told).collect(),
        runs: vec![RunTold { run: 7, begun_ago_ns: u64::MAX, seen_ago_ns: 0 }],
        versions: vec![RankVersion { version: 3, run: 7 }, RankVersion { version: u64::MAX, run: 7 }],
    };
    let variable = |name: &str, dtype: &str, shape: &str| {
        let meta = format!(r#"{{"id":0,"name":"{name}","dtype":"{dtype}","order":"c"}}"#);
        format!(r#"{{"attributes":{{}},"variables":[{{"meta":{meta},"shape":{shape}}}]}}"#)
    };
    let contents = [
        variable("u", "float64", "[70368744177664]"),
        variable("u", "float64", "[18446744073709551615,18446744073709551615]"),
        variable("u", "float64", "[-4]"),
        variable("", "float64", "[4]"),
        variable("u", "complex3", "[4]"),
        "{".into(),
        variable("u", "float64", "[4]"),
    ];
    for group in ["../heat", "/etc", ".objects", "", "heat/../../x"] {
        nodes.say(1, hostile, Some(Message::GroupFollow(GroupName { group: group.into() })), &[]);
        let get = GroupGet { fetch: 1, group: group.into(), version: 1, run: 7, ranks: vec![0] };
        nodes.say(1, hostile, Some(Message::GroupGet(get)), &[]);
    }
    for round in 0..40 {
        // Only who is asked is heard.
        nodes.runtime(1).connected(hostile);
        nodes.say(1, hostile, Some(Message::GroupRanks(claim.clone())), &[]);
        std::thread::sleep(Duration::from_millis(10));
        for fetch in 1..40 {
            let content = contents[(round + fetch as usize) % contents.len()].clone();
            let rank = (round % 4) as u32;
            let begin = GroupRank { fetch, rank, published_ns: u64::MAX, content };
            nodes.say(1, hostile, Some(Message::GroupRank(begin)), &[]);
            for (variable, offset, bytes) in [(0, 8, 8), (1, 0, 8), (0, 0, 33), (u32::MAX, u64::MAX, 1)] {
                let piece = GroupPiece { fetch, rank, variable, offset };
                nodes.say(1, hostile, Some(Message::GroupPiece(piece)), &vec![1; bytes]);
            }
            nodes.say(1, hostile, Some(Message::GroupSent(GroupSent { fetch, rank })), &[]);
        }
        for rank in 0..4 {
            let name = format!("heat/{rank}");
            let shown = Observer::options().dir(nodes.dir(1)).here().open(&name).and_then(|shown| shown.newest());
            assert!(shown.is_err() || shown.is_ok_and(|shown| shown.version() == 1));
        }
    }
    nodes.say(1, hostile, None, &[]);
    check(&opening.join().unwrap().unwrap().newest_after(None, Some(LONG)).unwrap());
}
