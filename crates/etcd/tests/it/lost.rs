//! Nodes that were told as lost, where etcd loses its data before they hear so.

use crate::common::{LONG, at, described, signal, start, told_until, until, watchdog};
use crate::proxy::Proxy;
use std::time::Duration;
use stillframe_etcd::{Child, Cluster, Error, Etcd, Event, JoinOptions, Shard, Standing, Told};
use stillframe_object::Names;
use stillframe_roster::writer::Node;

/// A node whose lease does not end while a test runs, however long it gets no processor.
fn join(etcd: &Etcd, name: &str) -> Cluster {
    join_for(etcd, name, Duration::from_secs(600))
}

fn join_for(etcd: &Etcd, name: &str, lease: Duration) -> Cluster {
    Cluster::join(etcd, JoinOptions::new(name, "10.0.0.1:4000").lease(lease)).unwrap()
}

/// Another etcd without data, where this one was.
fn lose_data(child: Child) -> Child {
    let port = child.endpoint().rsplit_once(':').unwrap().1.parse().unwrap();
    signal(child.process(), libc::SIGKILL);
    drop(child);
    Child::options().port(port).deadline(LONG).start().unwrap()
}

fn has_joined(event: &Event, wanted: Node) -> bool {
    matches!(event, Event::NodeJoined { node, .. } if *node == wanted)
}

/// All that is told a node until it hears of an object that is created now.
fn told_by_now(cluster: &Cluster, etcd: &Etcd, name: &str) -> Vec<Told> {
    etcd.names().put(name, &described("var u [4] float64", 1)).unwrap();
    told_until(cluster, |event| matches!(event, Event::ObjectCreated { name: created, .. } if created == name))
}

#[test]
fn a_node_that_was_given_up_when_names_were_lost_comes_back_as_another() {
    let _watchdog = watchdog(120);
    let child = start();
    let proxy = Proxy::start(child.endpoint());
    // It gives up at once what does not come back.
    let near = Etcd::options().endpoint(child.endpoint()).deadline(LONG).grace(Duration::ZERO).open().unwrap();
    let far = at(&proxy.endpoint());
    let (one, two) = (join(&near, "one"), join(&far, "two"));
    let number = two.node();
    told_until(&one, |event| has_joined(event, number));

    proxy.cut();
    let _child = lose_data(child);
    told_until(&one, |event| *event == Event::NamesLost);
    one.rebuild(&[], None).unwrap();
    told_until(&one, |event| *event == Event::NodeLost { node: number });
    assert_eq!(one.standing(), Standing::Joined);

    proxy.mend();
    told_until(&two, |event| *event == Event::NamesLost);
    let rebuilt = two.rebuild(&[], None);
    assert!(matches!(rebuilt, Err(Error::Lost { node }) if node == number), "{:?}", rebuilt.map(drop));
    assert_eq!(two.standing(), Standing::Lost);
    drop(two);
    let again = join(&far, "two");
    assert!(again.node() > number);
    let told = told_until(&one, |event| has_joined(event, again.node()));
    assert!(!told.iter().any(|told| has_joined(&told.event, number)), "{told:#?}");
}

/// Whichever of the two is first in the data that begin anew.
#[test]
fn a_node_whose_lease_had_ended_before_names_were_lost_comes_back_as_another() {
    let _watchdog = watchdog(240);
    for is_first in [false, true] {
        let child = start();
        let proxies = [Proxy::start(child.endpoint()), Proxy::start(child.endpoint())];
        let [near, far] = [at(&proxies[0].endpoint()), at(&proxies[1].endpoint())];
        let (one, two) = (join(&near, "one"), join_for(&far, "two", Duration::from_secs(2)));
        let number = two.node();
        proxies[1].cut();
        told_until(&one, |event| *event == Event::NodeLost { node: number });

        proxies[0].cut();
        let child = lose_data(child);
        let come_back = |at: usize, cluster: &Cluster| {
            proxies[at].mend();
            told_until(cluster, |event| *event == Event::NamesLost);
            cluster.rebuild(&[], None)
        };
        let shard = Shard::new(9).unwrap();
        if is_first {
            come_back(1, &two).unwrap();
            assert_eq!(two.claim(&[shard]).unwrap()[0].node, number);
            come_back(0, &one).unwrap();
        } else {
            come_back(0, &one).unwrap();
            // It may be quicker than the other one, which then takes its number from it.
            let _ = come_back(1, &two);
        }
        until("it is no node any more", || two.standing() == Standing::Lost);
        until("what it was the home of has another", || one.claim(&[shard]).unwrap()[0].node == one.node());
        let told = told_by_now(&one, &at(child.endpoint()), "u");
        assert!(!told.iter().any(|told| has_joined(&told.event, number)), "{told:#?}");
        drop(two);
        let again = join(&far, "two");
        assert!(again.node() > number);
        told_until(&one, |event| has_joined(event, again.node()));
    }
}

/// However long that takes, and whoever else has put his there before.
#[test]
fn an_object_is_missing_once_this_node_has_put_there_what_it_knows_and_is_removed_never() {
    let _watchdog = watchdog(120);
    let child = start();
    // It gives up at once what does not come back.
    let near = Etcd::options().endpoint(child.endpoint()).deadline(LONG).grace(Duration::ZERO).open().unwrap();
    let one = join(&near, "one");
    let all = [("u", 1), ("v", 2)].map(|(name, id)| (name.to_owned(), described("var u [4] float64", id)));
    near.names().put_all(&all).into_iter().for_each(|put| drop(put.unwrap()));
    told_until(&one, |event| matches!(event, Event::ObjectCreated { name, .. } if name == "v"));

    let child = lose_data(child);
    told_until(&one, |event| *event == Event::NamesLost);
    let is_gone = |told: &Told| matches!(told.event, Event::ObjectRemoved { .. } | Event::ObjectMissing { .. });
    for name in ["w", "x", "y"] {
        let told = told_by_now(&one, &at(child.endpoint()), name);
        assert!(!told.iter().any(is_gone), "{told:#?}");
    }
    one.rebuild(&all[..1], None).unwrap();
    let missing = Event::ObjectMissing { name: "v".into(), id: all[1].1.id };
    let mut told = told_until(&one, |event| *event == missing);
    told.pop();
    assert!(!told.iter().any(is_gone), "{told:#?}");
    assert_eq!((one.object("u"), one.object("v")), (Some(all[0].1.id), None));
    // Who has it still may come even later.
    one.rebuild(&all, None).unwrap();
    let told = told_until(&one, |event| matches!(event, Event::ObjectCreated { name, .. } if name == "v"));
    assert!(!told.iter().any(is_gone), "{told:#?}");
}

/// It may be one that lives still, and has not put itself there again.
#[test]
fn a_number_that_was_given_twice_is_nobodys() {
    let _watchdog = watchdog(120);
    let child = start();
    let proxy = Proxy::start(child.endpoint());
    let (near, far) = (at(child.endpoint()), at(&proxy.endpoint()));
    let (two, one) = (join(&far, "two"), join(&near, "one"));
    let number = two.node();
    proxy.cut();
    let child = lose_data(child);
    // One that knows nothing is the first there, and has the first number.
    let newcomer = at(child.endpoint());
    let three = join(&newcomer, "three");
    assert_eq!(three.node(), number);
    told_until(&one, |event| *event == Event::NamesLost);
    one.rebuild(&[], None).unwrap();
    until("it is no node any more", || three.standing() == Standing::Lost);
    proxy.mend();
    told_until(&two, |event| *event == Event::NamesLost);
    assert!(two.rebuild(&[], None).is_err());
    let told = told_by_now(&one, &near, "u");
    assert!(told.iter().any(|told| told.event == Event::NodeLost { node: number }));
    drop(three);
    let again = join(&newcomer, "three");
    assert!(again.node() > one.node());
}
