//! Machines that end and begin again: an enclave that is dead holds nothing.

use super::LONG;
use crate::common::watchdog;
use crate::helper::{Helper, check_play, until};
use crate::pair::{BYTES, Pair};
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::{Duration, Instant};
use stillframe::Observer;
use stillframe_kernel::lock::{self, Kind};
use stillframe_segment::arena::{CHUNK_BYTES, FILE};
use stillframe_segment::enclave::{self, IDENTITY_AT, MACHINE, MACHINE_LOCK};

/// A machine that is gone holds nothing, though its words still stand there.
#[test]
fn an_enclave_that_is_dead_is_waited_for_no_longer() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("dead") else { return };
    let mut machine = pair.machine();
    assert!(pair.start(0, "machine", &["guest"]).hear().unwrap().contains("in use"));
    let [mut host, mut guest] = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    guest.kill();
    observer.kill();
    assert!(pair.is_held(0) && pair.admits(0));
    machine.kill();
    until("the host to count it no more", || !pair.admits(0));
    play.steps(100);
    assert!(pair.is_held(0));
    // Another agent of the host knows as well.
    host.kill();
    let _host = pair.agent(0);
    pair.let_host_look();
    assert!(!pair.admits(0));
}

/// What other machines see is memory, and no locks of the host's kernel.
#[test]
fn an_enclave_that_is_dead_is_known_to_those_who_do_not_see_its_lock() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("unseen") else { return };
    let dir = pair.third();
    let third = |role, arguments: &[&str]| Helper::start(pair.command_in(&dir, &["guest"], role, arguments));
    let mut machine = pair.machine();
    let [host, guest] = pair.agents();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let mut agent = third("agent", &["third", "guest"]);
    agent.expect("runs");
    let counts = || {
        let mut word = [0; 8];
        let at = BYTES - CHUNK_BYTES as u64 + enclave::admitted_at(0) as u64;
        File::open(dir.join("third").join(FILE)).unwrap().read_exact_at(&mut word, at).unwrap();
        u64::from_le_bytes(word) != 0
    };
    let listed = || third("list", &[]).hear().unwrap();
    until("the third one to count the guest", counts);
    until("the producer to be seen", || listed().contains("guest/r: live"));
    guest.finish();
    machine.kill();
    producer.kill();
    until("its end to be recorded", || pair.word(1, IDENTITY_AT) == 0);
    until("the third one to count it no more", || !counts());
    assert!(listed().contains("guest/r: dead"), "{}", listed());
    // An agent of the host that never saw the lock of that machine knows as well.
    host.finish();
    std::fs::remove_file(pair.dirs[0].join("guest").join(MACHINE)).unwrap();
    let _host = pair.agent(0);
    pair.let_host_look();
    assert_eq!(pair.word(0, enclave::admitted_at(0)), 0);
    // And it begins anew.
    let _guest = pair.agent(1);
    pair.meet();
    until("the third one to count it again", counts);
}

/// How long who starts a machine waits for the lock.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// Who starts a machine waits until nobody records the end of the last one any more: else that would end this one for all others.
#[test]
fn the_end_of_a_machine_is_recorded_before_the_next_one_begins_or_not_at_all() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("record") else { return };
    let mut machine = pair.machine();
    let [_host, mut guest] = pair.agents();
    guest.kill();
    let identity = pair.word(1, IDENTITY_AT);
    let path = pair.dirs[0].join("guest").join(MACHINE_LOCK);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    assert!(lock::try_lock(&file, Kind::Write, 0, 1).unwrap());
    machine.kill();
    until("the host to count it no more", || !pair.admits(0));
    let begun = Instant::now();
    let mut next = pair.start(0, "machine", &["guest"]);
    // It waits by now, or has nothing to wait for when it comes.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(pair.word(1, IDENTITY_AT), identity, "somebody else records just now");
    lock::unlock(&file, 0, 1).unwrap();
    let said = next.hear().unwrap();
    let _next = match said.as_str() {
        "runs" => next,
        // It gives up after a while, in which this process may have had no processor.
        _ if said.contains("in use") && begun.elapsed() >= GIVEN_UP => pair.machine(),
        _ => panic!("{said}"),
    };
    // Whether the end was recorded in between or not, nobody does so while this one runs.
    let identity = pair.word(1, IDENTITY_AT);
    pair.let_host_look();
    assert_eq!(pair.word(1, IDENTITY_AT), identity);
}

/// Who may read the file that tells whether a machine runs can lock it, and keeps no machine alive by that.
#[test]
fn an_enclave_that_is_dead_is_known_whoever_has_its_file_locked() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("locked") else { return };
    let mut machine = pair.machine();
    let [_host, mut guest] = pair.agents();
    guest.kill();
    machine.kill();
    let file = File::open(pair.dirs[0].join("guest").join(MACHINE)).unwrap();
    assert!(lock::try_lock(&file, Kind::Read, 0, 0).unwrap());
    until("the host to count it no more", || !pair.admits(0));
    until("its end to be recorded", || pair.word(1, IDENTITY_AT) == 0);
    // Nor does he keep it from starting again.
    let _next = pair.machine();
    let _guest = pair.agent(1);
    pair.meet();
    let of_owner = std::fs::metadata(pair.dirs[0].join("guest").join(MACHINE_LOCK)).unwrap();
    assert_eq!(of_owner.permissions().mode() & 0o777, 0o600);
}

/// Whoever saw that a machine ended sees that it has started again.
#[test]
fn a_machine_that_was_started_again_runs() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("again") else { return };
    let mut machine = pair.machine();
    let [_host, mut guest] = pair.agents();
    let open = || Observer::options().dir(&pair.dirs[0]).open("guest/r").unwrap();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let observer = open();
    until("the producer to live", || observer.producer_alive());
    producer.kill();
    guest.kill();
    machine.kill();
    until("it to have ended", || !observer.producer_alive());
    let _machine = pair.machine();
    let _guest = pair.agent(1);
    pair.meet();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let again = open();
    until("the next producer to live", || again.producer_alive());
    drop(observer);
}

/// It was started without its lock, which somebody else had for a moment.
#[test]
fn a_machine_that_runs_is_not_taken_for_one_that_has_ended() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("unlocked") else { return };
    let [_host, _guest] = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    let identity = pair.word(1, IDENTITY_AT);
    pair.machine().kill();
    for _ in 0..20 {
        play.steps(20);
        pair.let_host_look();
    }
    assert!(pair.admits(0) && pair.is_held(0));
    assert_eq!(pair.word(1, IDENTITY_AT), identity);
    play.step_until_heard(&mut observer);
}

/// Its agent cannot say so any more.
#[test]
fn a_producer_ends_with_its_machine_or_before_its_agent() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("gone") else { return };
    let mut machine = pair.machine();
    let [_host, guest] = pair.agents();
    let observer = Observer::options().dir(&pair.dirs[0]).wait(LONG);
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let seen = observer.open("guest/r").unwrap();
    until("it to be said to live", || seen.producer_alive());
    producer.kill();
    guest.finish();
    assert!(!seen.producer_alive());

    let mut guest = pair.agent(1);
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    until("it to be said to live", || seen.producer_alive());
    guest.kill();
    producer.kill();
    assert!(seen.producer_alive());
    machine.kill();
    until("its end to be seen", || !seen.producer_alive());
    let newest = seen.newest().unwrap();
    check_play(&newest);
    // Also by who waits again and again for less time than an agent may come late.
    let wait = || seen.newest_after(Some(newest.version()), Some(Duration::from_millis(20)));
    until("who waits to be told", || matches!(wait(), Err(stillframe::Error::ProducerGone { .. })));
}

#[test]
fn a_machine_that_starts_anew_is_another_one_and_holds_nothing() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("anew") else { return };
    let [_host, mut guest] = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    guest.kill();
    observer.kill();
    let before = pair.word(1, IDENTITY_AT);
    // As it is after a start of the kernel.
    let at = BYTES - CHUNK_BYTES as u64 + stillframe_segment::enclave::MAGIC_AT as u64;
    pair.area(1).write_all_at(&[0; 8], at).unwrap();
    let _guest = pair.agent(1);
    until("the host to count the new one", || pair.admits(0));
    assert_ne!(pair.word(1, IDENTITY_AT), before);
    assert!(!pair.is_held(0));
    let mut observer = pair.observe(1);
    play.steps(100);
    play.step_until_heard(&mut observer);
}
