//! Versions that are held over there: they stay for as long as they are held, and no longer.

use crate::common::watchdog;
use crate::enclosure::NOBODY;
use crate::helper::{Helper, check_play, until};
use crate::pair::{BYTES, NAMES, Pair};
use std::os::unix::fs::FileExt;
use stillframe::Observer;
use stillframe_segment::arena::{self, CHUNK_BYTES};
use stillframe_segment::enclave;

#[test]
fn a_version_that_another_enclave_holds_stays_and_goes_when_it_lets_go() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("stays") else { return };
    let _agents = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    play.steps(200);
    assert!(pair.is_held(0));
    play.step_until_heard(&mut observer);
    observer.tell();
    observer.wait();
    until("what was shown to be hidden", || !pair.is_held(0));
}

/// Versions of a producer on this side, which stay for an observer on the other one. Returns the producer.
fn go_across(pair: &Pair, side: usize) -> Helper {
    let mut producer = pair.start(side, "produce", &[&format!("{}/r", NAMES[side])]);
    producer.expect("published");
    let mut observer = pair.observe(1 - side);
    producer.tell();
    producer.expect("more");
    assert!(pair.is_held(side));
    observer.tell();
    producer.tell();
    observer.expect("followed");
    observer.tell();
    observer.wait();
    until("what was shown to be hidden", || !pair.is_held(side));
    producer
}

/// Where an enclave's files lie is known for good when they are opened.
#[test]
fn who_named_the_directory_by_a_relative_path_may_go_elsewhere() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("relative") else { return };
    let _agents = pair.agents();
    let mut producer = pair.start(0, "produce", &["host/r", "wanders"]);
    producer.expect("published");
    let mut observer = pair.start(1, "observe", &["host/r", "wanders"]);
    observer.expect("holds");
    producer.tell();
    producer.expect("more");
    assert!(pair.is_held(0));
}

/// The same from the other side, on which the producer lives.
#[test]
fn versions_go_either_way() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("either") else { return };
    let _agents = pair.agents();
    let mut producer = go_across(&pair, 1);
    // The dead producer is no longer said to live.
    producer.kill();
    let observer = Observer::options().dir(&pair.dirs[0]).open("guest/r").unwrap();
    until("its end to be seen", || !observer.producer_alive());
    check_play(&observer.newest().unwrap());
}

#[test]
fn an_ordinary_user_has_agents_producers_and_observers() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::of("user", Some(NOBODY)) else { return };
    let _agents = pair.agents();
    let _producers = [0, 1].map(|side| go_across(&pair, side));
}

/// An agent that cannot make the files of a peer's leases says so, and shows and counts nothing until it can.
#[test]
fn a_peer_whose_leases_cannot_be_known_is_listened_to_once_they_can() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("leases") else { return };
    let obstacle = pair.dirs[0].join("guest").join(arena::lease_file(0));
    std::fs::create_dir_all(&obstacle).unwrap();
    let _agents = [0, 1].map(|side| pair.agent(side));
    until("the guest to count the host", || pair.admits(1));
    pair.let_host_look();
    assert_eq!(pair.word(0, enclave::admitted_at(0)), 0);
    std::fs::remove_dir(&obstacle).unwrap();
    pair.meet();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let mut observer = pair.observe(0);
    producer.tell();
    producer.expect("more");
    assert!(pair.is_held(1));
    observer.tell();
    producer.tell();
    observer.expect("followed");
}

#[test]
fn who_is_not_counted_gets_no_version() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("alone") else { return };
    let mut host = pair.agent(0);
    let _play = pair.produce();
    let mut guest = pair.start(1, "agent", &["guest", "host"]);
    guest.expect("runs");
    until("the guest to count", || pair.admits(0));
    let admitted = BYTES - CHUNK_BYTES as u64 + stillframe_segment::enclave::admitted_at(0) as u64;
    host.kill();
    pair.area(0).write_all_at(&[0; 8], admitted).unwrap();
    let said = pair.start(1, "say", &["host/r"]).hear().unwrap();
    assert!(said.contains("is not seen"), "{said}");
}

/// A machine that is paused holds what it holds, for as long as it likes, and then goes on.
#[test]
fn an_enclave_that_is_paused_holds_what_it_held() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("paused") else { return };
    let [_host, guest] = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    observer.stop();
    guest.stop();
    play.steps(300);
    assert!(pair.is_held(0) && pair.admits(0));
    observer.signal(libc::SIGCONT);
    guest.signal(libc::SIGCONT);
    play.step_until_heard(&mut observer);
    observer.tell();
    observer.wait();
    until("what was shown to be hidden", || !pair.is_held(0));
}
