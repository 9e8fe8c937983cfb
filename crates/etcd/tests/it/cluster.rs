//! Nodes, homes and what is told of them, while connections, etcd and nodes fail.

use crate::common::{LONG, at, described, open, signal, start, told_until, until, watchdog};
use crate::proxy::Proxy;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use stillframe_etcd::{Child, Cluster, Error, Etcd, Event, JoinOptions, Shard, Standing, shard_of};
use stillframe_object::Names;

/// A node whose lease does not end while a test runs, however long it gets no processor.
fn join(etcd: &Etcd, name: &str) -> Cluster {
    join_for(etcd, name, Duration::from_secs(600))
}

fn join_for(etcd: &Etcd, name: &str, lease: Duration) -> Cluster {
    Cluster::join(etcd, JoinOptions::new(name, "10.0.0.1:4000").lease(lease)).unwrap()
}

fn shard(number: u32) -> Shard {
    Shard::new(number).unwrap()
}

/// No number, no revision that is told goes down.
fn ascends(told: &[stillframe_etcd::Told]) -> bool {
    told.windows(2).all(|pair| pair[0].revision <= pair[1].revision)
}

#[test]
fn nodes_homes_and_objects_are_told_in_the_order_of_their_revisions() {
    let _watchdog = watchdog(120);
    let child = start();
    let (first, second) = (open(&child), open(&child));
    first.names().put("before", &described("var u [4] float64", 1)).unwrap();
    let one = join(&first, "one");
    let two = join(&second, "two");
    assert!(two.node() > one.node());
    let homes = one.claim(&[shard(3), shard(4)]).unwrap();
    assert!(homes.iter().all(|home| home.node == one.node()));
    assert_eq!(two.claim(&[shard(4)]).unwrap(), homes[1..], "it has a home already");
    assert_eq!((one.acts_as_home(shard(4)), two.acts_as_home(shard(4))), (Some(homes[1].term), None));
    second.names().put("after", &described("var v [4] float64", 2)).unwrap();
    assert!(second.names().remove("before", described("", 1).id).unwrap());
    one.give_up(shard(3)).unwrap();
    let later = two.claim(&[shard(3)]).unwrap()[0];
    assert!(later.node == two.node() && later.term > homes[0].term);
    one.leave().unwrap();

    let told = told_until(&two, |event| matches!(event, Event::NodeLost { .. }));
    assert!(ascends(&told), "{told:#?}");
    let events: Vec<&Event> = told.iter().map(|told| &told.event).collect();
    let at = |wanted: &dyn Fn(&Event) -> bool| events.iter().position(|event| wanted(event)).expect("it is told");
    let created = at(&|event| matches!(event, Event::ObjectCreated { name, .. } if name == "after"));
    let claimed = at(&|event| matches!(event, Event::HomeChanged { home: Some(home), .. } if *home == homes[1]));
    let claimed_later = at(&|event| matches!(event, Event::HomeChanged { home: Some(home), .. } if *home == later));
    let removed = at(&|event| matches!(event, Event::ObjectRemoved { name, .. } if name == "before"));
    assert!(claimed < created && created < removed && removed < claimed_later);
    at(&|event| matches!(event, Event::ObjectCreated { name, .. } if name == "before"));
    // With the lease of a node goes what it was home of. Whoever claims that has to have heard of the loss.
    let gone = |event: &Event| *event == Event::HomeChanged { shard: shard(4), home: None };
    assert!(!events.iter().any(|event| gone(event)));
    told_until(&two, gone);
    assert_eq!(two.home(shard(4)), None);
}

#[test]
fn of_two_nodes_that_want_a_home_one_gets_it() {
    let _watchdog = watchdog(120);
    let child = start();
    let (first, second) = (open(&child), open(&child));
    let (one, two) = (join(&first, "one"), join(&second, "two"));
    let all: Vec<Shard> = Shard::all().collect();
    let homes = std::thread::scope(|scope| {
        let claims = [&one, &two].map(|cluster| scope.spawn(|| cluster.claim(&all).unwrap()));
        claims.map(|claim| claim.join().unwrap())
    });
    assert_eq!(homes[0], homes[1]);
    for (shard, home) in all.iter().zip(&homes[0]) {
        let acting = [&one, &two].map(|cluster| cluster.acts_as_home(*shard));
        let is_one = home.node == one.node();
        assert_eq!(acting, [is_one.then_some(home.term), (!is_one).then_some(home.term)]);
    }
}

#[test]
fn a_node_gives_up_many_shards_at_once_and_none_of_another() {
    let _watchdog = watchdog(120);
    let child = start();
    let (first, second) = (open(&child), open(&child));
    let (one, two) = (join(&first, "one"), join(&second, "two"));
    let before = one.claim(&[shard(3), shard(4), shard(5)]).unwrap();
    let theirs = two.claim(&[shard(6)]).unwrap()[0];
    one.give_up_all(&[shard(3), shard(4), shard(6), shard(7)]).unwrap();
    assert_eq!([3, 4, 5].map(|number| one.acts_as_home(shard(number))), [None, None, Some(before[2].term)]);
    let after = two.claim(&[shard(3), shard(4), shard(5), shard(6)]).unwrap();
    assert!((0..2).all(|at| after[at].node == two.node() && after[at].term > before[at].term), "{after:?}");
    assert_eq!(after[2..], [before[2], theirs]);
}

#[test]
fn shards_of_objects_are_in_use_until_these_are_removed() {
    let _watchdog = watchdog(120);
    let child = start();
    let etcd = open(&child);
    let one = join(&etcd, "one");
    assert!(one.shards_in_use().is_empty());
    for id in [1, 2] {
        etcd.names().put(&format!("u{id}"), &described("var u [4] float64", id)).unwrap();
    }
    until("they are told", || one.shards_in_use().len() == 2);
    assert!(etcd.names().remove("u1", described("", 1).id).unwrap());
    until("one is left", || one.shards_in_use().into_iter().eq([shard_of(described("", 2).id)]));
}

#[test]
fn many_who_join_at_a_time_get_different_numbers() {
    let _watchdog = watchdog(120);
    let child = start();
    let numbers = std::thread::scope(|scope| {
        let joins: Vec<_> = (0..12)
            .map(|number| {
                let child = &child;
                scope.spawn(move || {
                    let etcd = open(child);
                    join(&etcd, &format!("n{number}")).node()
                })
            })
            .collect();
        joins.into_iter().map(|join| join.join().unwrap()).collect::<std::collections::BTreeSet<_>>()
    });
    assert_eq!(numbers.len(), 12);
}

#[test]
fn a_home_that_hears_nothing_steps_down_before_another_gets_its_shard() {
    let _watchdog = watchdog(120);
    let child = start();
    let proxy = Proxy::start(child.endpoint());
    let (cut_off, other) = (at(&proxy.endpoint()), open(&child));
    // Long enough for a node that gets no processor for a while not to lose it before it is cut off.
    let (one, two) = (join_for(&cut_off, "one", Duration::from_secs(10)), join(&other, "two"));
    let home = one.claim(&[shard(0)]).unwrap()[0];
    assert_eq!(one.acts_as_home(shard(0)), Some(home.term));
    proxy.cut();
    until("the other gets the shard", || {
        let acts = one.acts_as_home(shard(0));
        let claimed = two.claim(&[shard(0)]).unwrap()[0];
        let is_others = claimed.node == two.node();
        assert!(!(is_others && acts.is_some() && one.acts_as_home(shard(0)).is_some()), "two homes act at a time");
        is_others
    });
    assert_eq!(one.acts_as_home(shard(0)), None);
    proxy.mend();
    until("it hears that it was lost", || one.standing() == Standing::Lost);
    assert!(matches!(one.claim(&[shard(1)]), Err(Error::Lost { .. })));
    let number = one.node();
    drop(one);
    assert!(join(&cut_off, "one").node() > number, "who comes back is another node");
}

#[test]
fn what_happened_while_a_connection_was_cut_is_told_afterwards() {
    let _watchdog = watchdog(120);
    let child = start();
    let proxy = Proxy::start(child.endpoint());
    let (cut_off, other) = (at(&proxy.endpoint()), open(&child));
    let cluster = Cluster::join(&cut_off, JoinOptions::new("one", "a:1").lease(Duration::from_secs(600))).unwrap();
    for round in 0..3 {
        let is_compacted = round == 2;
        let names = other.names();
        names.put(&format!("stays{round}"), &described("s", 1)).unwrap();
        names.put(&format!("goes{round}"), &described("g", 2)).unwrap();
        told_until(
            &cluster,
            |event| matches!(event, Event::ObjectCreated { name, .. } if *name == format!("goes{round}")),
        );
        proxy.cut();
        assert!(names.remove(&format!("goes{round}"), described("", 2).id).unwrap());
        assert!(names.remove(&format!("stays{round}"), described("", 1).id).unwrap());
        names.put(&format!("stays{round}"), &described("another", 3)).unwrap();
        names.put(&format!("comes{round}"), &described("c", 4)).unwrap();
        if is_compacted {
            other.compact().unwrap();
        }
        proxy.mend();
        let (mut removed, mut created) = (Vec::new(), Vec::new());
        let mut all = Vec::new();
        until("all is told", || {
            if let Some(told) = cluster.next(Duration::from_millis(50)) {
                match &told.event {
                    Event::ObjectRemoved { name, id } => removed.push((name.clone(), id.get())),
                    Event::ObjectCreated { name, description } => created.push((name.clone(), description.id.get())),
                    _ => {}
                }
                all.push(told);
            }
            removed.len() == 2 && created.len() == 2
        });
        assert!(ascends(&all));
        created.sort();
        removed.sort();
        assert_eq!(created, [(format!("comes{round}"), 4), (format!("stays{round}"), 3)]);
        assert_eq!(removed, [(format!("goes{round}"), 2), (format!("stays{round}"), 1)]);
    }
    assert_eq!(cluster.standing(), Standing::Joined);
}

#[test]
fn who_waits_for_a_name_is_woken_after_a_connection_was_cut() {
    let _watchdog = watchdog(120);
    let child = start();
    let proxy = Proxy::start(child.endpoint());
    let (cut_off, other) = (at(&proxy.endpoint()), open(&child));
    std::thread::scope(|scope| {
        let waiting: Vec<_> =
            (0..8).map(|_| scope.spawn(|| cut_off.names().wait("u", LONG).unwrap().unwrap())).collect();
        std::thread::sleep(Duration::from_millis(300));
        proxy.cut();
        other.names().put("u", &described("text", 1)).unwrap();
        proxy.mend();
        waiting.into_iter().for_each(|waiting| assert_eq!(waiting.join().unwrap(), described("text", 1)));
    });
}

#[test]
fn etcd_that_lost_its_data_is_filled_again_by_those_who_know() {
    let _watchdog = watchdog(120);
    let child = start();
    // Nobody is given it who asks for any port.
    let port = child.endpoint().rsplit_once(':').unwrap().1.parse().unwrap();
    let (first, second) = (open(&child), open(&child));
    let (one, two) = (join(&first, "one"), join(&second, "two"));
    let objects: Vec<_> = (1..=300).map(|id| (format!("u{id}"), described("var u [4] float64", id))).collect();
    first.names().put_all(&objects).into_iter().for_each(|put| drop(put.unwrap()));
    let last = |event: &Event| matches!(event, Event::ObjectCreated { name, .. } if name == "u300");
    told_until(&one, last);
    told_until(&two, last);
    let before = one.claim(&[shard(9)]).unwrap()[0];

    signal(child.process(), libc::SIGKILL);
    drop(child);
    let begin = Instant::now();
    let child = Child::options().port(port).deadline(LONG).start().unwrap();
    // One that knows nothing comes first.
    let newcomer = open(&child);
    let three = join(&newcomer, "three");
    let told = [&one, &two].map(|cluster| told_until(cluster, |event| *event == Event::NamesLost));
    assert!(
        told.iter().flatten().all(|told| !matches!(told.event, Event::ObjectRemoved { .. } | Event::NodeLost { .. }))
    );
    assert_eq!(one.acts_as_home(shard(9)), None);
    let rebuilt = [&one, &two].map(|cluster| cluster.rebuild(&objects, None));
    let mut nodes = BTreeMap::new();
    for (cluster, rebuilt) in [&one, &two].iter().zip(rebuilt) {
        match rebuilt {
            Ok(there) => {
                assert!(there.into_iter().zip(&objects).all(|(there, (_, own))| there.unwrap() == *own));
                assert_eq!(cluster.standing(), Standing::Joined);
                nodes.insert(cluster.node(), ());
            }
            // The newcomer got its number, which the other may have taken from it by now.
            Err(Error::Taken { node, .. } | Error::Lost { node }) => assert_eq!(node, three.node()),
            Err(error) => panic!("{error}"),
        }
    }
    println!("all is there again {} ms after etcd was started", begin.elapsed().as_millis());
    assert_eq!(newcomer.names().list().unwrap().len(), objects.len());
    let (after, fourth) = (two.claim(&[shard(9)]).unwrap()[0], open(&child));
    assert!(after.term > before.term, "terms go on");
    let four = join(&fourth, "four");
    assert!(four.node() > two.node(), "numbers go on");
    // Who did not come back is given up, and nothing else.
    let told =
        told_until(&two, |event| *event == Event::NodeJoined { node: four.node(), info: info(&four, four.node()) });
    assert!(told.iter().all(|told| !matches!(told.event, Event::ObjectRemoved { .. })));
}

fn info(cluster: &Cluster, node: stillframe_roster::writer::Node) -> stillframe_etcd::NodeInfo {
    let mut info = None;
    until("the node is known", || {
        info = cluster.nodes().into_iter().find(|(other, _)| *other == node).map(|(_, info)| info);
        info.is_some()
    });
    info.unwrap()
}

#[test]
fn an_object_has_one_shard() {
    assert_eq!(shard_of(described("", 1).id), shard_of(described("other", 1).id));
}

/// A machine that comes again and again has numbers of one and of two digits, whose keys are not in their order.
#[test]
fn of_nodes_that_are_there_those_are_told_first_that_joined_first() {
    let _watchdog = watchdog(120);
    let child = start();
    let all: Vec<(Etcd, Cluster)> = (0..12)
        .map(|_| {
            let etcd = open(&child);
            let cluster = join(&etcd, "one");
            (etcd, cluster)
        })
        .collect();
    let last = &all[11].1;
    let is_last = |event: &Event| matches!(event, Event::NodeJoined { node, .. } if *node == last.node());
    let told = told_until(last, is_last);
    let joined = told.iter().filter_map(|told| match &told.event {
        Event::NodeJoined { node, .. } => Some(*node),
        _ => None,
    });
    assert_eq!(joined.collect::<Vec<_>>(), all.iter().map(|(_, cluster)| cluster.node()).collect::<Vec<_>>());
}
