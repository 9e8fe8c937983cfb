//! What a node says and sends of groups, to nodes and of nodes that are only played.

mod played;

use super::*;
use crate::network::Nothing;
use played::{LARGE, LONG, OTHER, OWN, Played, Rank, SMALL, THIRD, asked, follow, leave, run, wait};
use std::time::{Duration, Instant};
use stillframe_wire::group::GroupRank;

#[test]
fn what_a_node_waits_for_no_more_is_not_sent() {
    let played = Played::new();
    let (_rank, get) = asked(&played);
    let fetches = |messages: &[Message]| messages.iter().filter_map(fetch_of).collect::<Vec<u64>>();
    // Another is asked for in its place.
    played.hear(OTHER, get(1, &[0]));
    played.hear(OTHER, get(2, &[0]));
    assert_eq!(run(played.post.take(), &mut || ()), []);
    assert_eq!(fetches(&run(played.post.take(), &mut || ())), [2; 5]);
    // It is called off, and what was asked for since is not.
    played.hear(OTHER, get(3, &[0]));
    played.hear(OTHER, get(3, &[]));
    assert_eq!(run(played.post.take(), &mut || ()), []);
    played.hear(OTHER, get(4, &[0]));
    played.hear(OTHER, get(3, &[]));
    assert_eq!(fetches(&run(played.post.take(), &mut || ())), [4; 5]);
    // On a connection that ended, what was said before comes after what was said since.
    played.hear(OTHER, get(6, &[0]));
    played.hear(OTHER, get(5, &[0]));
    assert_eq!(fetches(&run(played.post.take(), &mut || ())), [6; 5]);
    played.hear(OTHER, get(7, &[]));
    played.hear(OTHER, get(7, &[0]));
    played.hear(OTHER, get(8, &[0]));
    assert_eq!(fetches(&run(played.post.take(), &mut || ())), [8; 5]);
    // Nobody wants the group there, or the node is lost.
    played.hear(OTHER, get(9, &[0]));
    played.hear(OTHER, leave("heat"));
    assert_eq!(run(played.post.take(), &mut || ()), []);
    let told = |said: &[(Node, Message, Instant)]| {
        said.iter().filter(|(_, message, _)| matches!(message, Message::GroupRanks(_))).count()
    };
    let before = told(&played.post.said.lock().unwrap());
    played.hear(OTHER, follow("heat"));
    played.post.wait("it is told again", |said| (told(said) > before).then_some(()));
    played.hear(OTHER, get(10, &[0]));
    played.groups.lose(OTHER, false);
    assert_eq!(run(played.post.take(), &mut || ()), []);
}

#[test]
fn what_is_waited_for_no_more_ends_with_the_piece_that_is_sent() {
    let played = Played::new();
    let (_rank, get) = asked(&played);
    played.hear(OTHER, get(1, &[0]));
    let job = played.post.take();
    let sent = run(job, &mut || played.hear(OTHER, leave("heat")));
    let kinds: Vec<_> = sent.iter().map(Message::kind).collect();
    assert!(matches!(sent[..], [Message::GroupRank(_), Message::GroupPiece(_)]), "{kinds:?}");
}

#[test]
fn what_nobody_can_send_is_told_to_who_waits() {
    let played = Played::new();
    let get = GroupGet { fetch: 9, group: "none".into(), version: 1, run: 7, ranks: vec![4] };
    played.hear(OTHER, Message::GroupGet(get));
    let is_told = |(node, message, _): &(Node, Message, Instant)| {
        *node == OTHER && matches!(message, Message::GroupLost(lost) if (lost.fetch, lost.rank) == (9, 4))
    };
    assert!(played.post.said.lock().unwrap().iter().any(is_told));
}

#[test]
fn a_version_without_room_is_called_off_and_asked_for_less_and_less_often() {
    let played = Played::new();
    played.want();
    played.tell_ranks(1);
    let mut times = Vec::new();
    for n in 0..5 {
        let (get, at) = played.post.get(n);
        assert_eq!(get.ranks, [0, 1]);
        times.push(at);
        // Each time it is another version.
        played.tell_ranks(2 + n as u64);
        played.describe(get.fetch, 0, LARGE);
        played.post.wait("it is called off", |said| {
            let is_called_off = |message: &Message| match message {
                Message::GroupGet(off) => off.fetch == get.fetch && off.ranks.is_empty(),
                _ => false,
            };
            said.iter().any(|(_, message, _)| is_called_off(message)).then_some(())
        });
    }
    // However slow this machine is.
    for (n, least) in [50, 100, 200, 400].into_iter().enumerate() {
        assert!(times[n + 1] - times[n] >= Duration::from_millis(least), "{n}");
    }
}

#[test]
fn room_is_asked_for_before_data_where_the_sizes_are_known() {
    let played = Played::new();
    played.want();
    played.tell_ranks(1);
    let (get, _) = played.post.get(0);
    (0..2).for_each(|rank| played.send_rank(get.fetch, rank, SMALL));
    wait("the version is not here", || played.is_here().then_some(()));
    *played.groups.room.free.lock().unwrap() = Some(0);
    let begin = Instant::now();
    played.tell_ranks(2);
    // It may be smaller than the one before: it is asked for a little later.
    let (get, at) = played.post.get(1);
    assert!((get.version, at - begin >= loss::PAUSES[0]) == (2, true), "{:?}", at - begin);
    // With room it comes.
    *played.groups.room.free.lock().unwrap() = None;
    (0..2).for_each(|rank| played.send_rank(get.fetch, rank, SMALL));
    let has_come = |_: &()| {
        stillframe::Observer::options().dir(played.dir.path()).here().open("heat/1").unwrap().newest_number() == Some(2)
    };
    wait("the version is not here", || Some(()).filter(has_come));
}

#[test]
fn a_version_that_is_coming_goes_on_beside_other_connections() {
    let played = Played::new();
    played.want();
    played.tell_ranks(1);
    // Nothing came, and the request may be lost with the connection.
    let (get, _) = played.post.get(0);
    played.groups.connected(OTHER);
    let (next, _) = played.post.get(1);
    assert_ne!(next.fetch, get.fetch);
    // What has begun to come does not depend on another connection, nor does what comes from elsewhere.
    played.send_rank(next.fetch, 0, SMALL);
    for node in [OTHER, THIRD] {
        played.groups.connected(node);
    }
    played.groups.disconnected(OTHER, 5);
    played.send_rank(next.fetch, 1, SMALL);
    let here = || played.is_here().then_some(());
    wait("the version is not here", here);
    played.tell_ranks(2);
    let (get, _) = played.post.get(2);
    played.send_rank(get.fetch, 0, SMALL);
    // That of the rest of it.
    played.groups.disconnected(OTHER, 0);
    let (get, _) = played.post.get(3);
    assert_eq!((get.version, &get.ranks[..]), (2, &[0, 1][..]));
}

#[test]
fn a_node_that_has_sent_nothing_yet_is_waited_for() {
    let played = Played::new();
    let place = Place {
        dir: played.dir.path().into(),
        group: "heat".into(),
        shown: Shown::default(),
        record: played.groups.record.clone(),
        room: played.groups.room.clone(),
    };
    let rank = region::RankRegion::make(&place, (0, 1), std::num::NonZeroU64::MIN).unwrap();
    let rank = Arc::new(Mutex::new(rank));
    let choice = choosing::Choice { version: 1, runs: BTreeMap::from([(OTHER, 7)]), run: 7 };
    let fetch = fetch::Fetch::new(1, choice, [(0, OTHER, rank.clone())], Vec::new());
    thread::sleep(Duration::from_millis(1));
    assert_eq!(fetch.progress(Duration::ZERO), fetch::Progress::Coming);
    let told = GroupRank { fetch: 1, rank: 0, published_ns: 1, content: SMALL.into() };
    fetch.begin(OTHER, told, &Nothing);
    assert_eq!(fetch.progress(LONG), fetch::Progress::Coming);
    thread::sleep(Duration::from_millis(1));
    assert!(matches!(fetch.progress(Duration::ZERO), fetch::Progress::Lost(_)));
    rank.lock().unwrap().remove();
}

#[test]
fn a_version_is_here_only_once_it_was_published() {
    let played = Played::new();
    played.want();
    played.tell_ranks(1);
    let (get, _) = played.post.get(0);
    played.send_rank(get.fetch, 0, SMALL);
    // With attributes that are longer than a region can have.
    let long = format!(r#"{{"attributes":{{"name":"{}"}},"#, "u".repeat(65 << 20));
    played.send_rank(get.fetch, 1, &SMALL.replace(r#"{"attributes":{},"#, &long));
    // What could be published of it is not asked for again.
    let (get, _) = played.post.get(1);
    assert_eq!((get.version, &get.ranks[..], played.is_here()), (1, &[1][..], false));
    played.send_rank(get.fetch, 1, SMALL);
    wait("the version is not here", || played.is_here().then_some(()));
}

/// Whatever node had it before, and was lost.
#[test]
fn a_rank_whose_runtime_is_started_again_has_not_ended() {
    let played = Played::new();
    let (fourth, fifth) = (Node(4), Node(5));
    let join = |node| {
        played.cluster.0.lock().unwrap().push(node);
        played.groups.connected(node);
    };
    let bring = |node, version, count| {
        played.tell_ranks_of(OTHER, &[0], version);
        played.tell_ranks_of(node, &[1], version);
        let (first, _) = played.post.get(count);
        let (second, _) = played.post.get(count + 1);
        assert_eq!((first.fetch, first.version, second.version), (second.fetch, version, version));
        played.send_rank(first.fetch, 0, SMALL);
        played.send_rank_of(node, first.fetch, 1, SMALL);
    };
    let observe = || stillframe::Observer::options().dir(played.dir.path()).open("heat/1");
    let newest = || observe().ok()?.newest_number();
    played.want();
    join(THIRD);
    bring(THIRD, 1, 0);
    wait("the version is not here", || (newest() == Some(1)).then_some(()));
    played.groups.lose(THIRD, false);
    join(fourth);
    bring(fourth, 2, 2);
    wait("the next version is not here", || (newest() == Some(2)).then_some(()));
    let rank = observe().unwrap();
    let told = played.told.lock().unwrap().len();
    played.groups.lose(fourth, true);
    wait("nothing is said of it", || (played.told.lock().unwrap().len() > told).then_some(()));
    let said = played.told.lock().unwrap()[told..].to_vec();
    assert!(!format!("{said:?}").contains("is lost"), "{said:?}");
    join(fifth);
    bring(fifth, 3, 4);
    wait("the last version is not here", || (newest() == Some(3)).then_some(()));
    assert!(rank.producer_alive());
}

#[test]
fn nothing_is_said_of_a_group_that_nobody_wants_any_more() {
    let played = Played::new();
    played.want();
    // A node that joins is left, too, also if it is not among the nodes any more by then.
    played.cluster.0.lock().unwrap().push(THIRD);
    played.groups.connected(THIRD);
    assert_eq!(played.post.count(&follow("heat")), 2);
    played.cluster.0.lock().unwrap().retain(|node| *node == OWN);
    played.close();
    let left = |node| move |(to, message, _): &&(Node, Message, Instant)| *to == node && *message == leave("heat");
    for node in [OTHER, THIRD] {
        assert_eq!(played.post.said.lock().unwrap().iter().filter(left(node)).count(), 1, "{node:?}");
    }
    played.groups.connected(OTHER);
    assert_eq!(played.post.count(&follow("heat")), 2);
    // Who tells of it all the same has missed that.
    played.tell_ranks(1);
    assert_eq!(played.post.said.lock().unwrap().iter().filter(left(OTHER)).count(), 2);
}

#[test]
fn who_tells_of_a_group_that_is_all_here_is_left() {
    let played = Played::new();
    let mut rank = Rank::begin(played.dir.path());
    rank.publish(1);
    played.groups.want(1, "heat").unwrap();
    wait("the group is not here", || played.is_here().then_some(()));
    played.groups.connected(OTHER);
    assert_eq!(played.post.count(&follow("heat")), 0);
    played.tell_ranks(1);
    assert_eq!(played.post.count(&leave("heat")), 1);
}

#[test]
fn it_is_said_once_that_no_more_groups_are_told_of() {
    let played = Played::new();
    for group in 0..GROUPS_MAX {
        played.hear(OTHER, follow(&format!("heat{group}")));
    }
    assert!(!played.groups.state().has_said_full);
    for group in 0..2 {
        played.hear(OTHER, follow(&format!("flow{group}")));
    }
    let state = played.groups.state();
    assert!(state.has_said_full && state.told.len() == GROUPS_MAX);
}
