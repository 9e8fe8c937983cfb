//! Enclaves whose memory is damaged or lies: they harm nobody but themselves.

use crate::common::watchdog;
use crate::helper::{Play, check_play, until};
use crate::pair::{BYTES, Pair};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use stillframe::{Observer, Outcome, Rule};
use stillframe_segment::arena::{CHUNK_BYTES, FILE};
use stillframe_segment::enclave::{self, ABI_AT, AREA_BYTES, ARENA_AT, Enclave, IDENTITY_AT};

/// Whoever is not counted holds nothing, though an enclave that is says that it is the same one.
#[test]
fn an_enclave_that_claims_anothers_identity_has_nobody_counted() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("claim") else { return };
    let mut guest = pair.agent(1);
    // The host listens to a third enclave alone.
    let evil = pair.dirs[0].join("evil");
    std::fs::create_dir(&evil).unwrap();
    std::fs::copy(pair.dirs[0].join("guest").join(FILE), evil.join(FILE)).unwrap();
    let identity = pair.word(1, IDENTITY_AT);
    let said = Enclave { name: "evil".into(), identity, arena: 7, boot: [7; 16] };
    let at = BYTES - CHUNK_BYTES as u64 + stillframe_segment::enclave::ABI_AT as u64;
    File::options().write(true).open(evil.join(FILE)).unwrap().write_all_at(&said.encode(), at).unwrap();
    let mut host = pair.start(0, "agent", &["host", "evil"]);
    host.expect("runs");
    let _play = pair.produce();
    let admitted = stillframe_segment::enclave::admitted_at(0);
    until("the third one to count", || pair.word(0, admitted) == identity);
    let subject = || pair.word(1, enclave::subject_at(0));
    until("the second one to know the arena", || subject() == pair.word(0, ARENA_AT));
    let said = pair.start(1, "say", &["host/r"]).hear().unwrap();
    assert!(said.contains("is not seen"), "{said}");
    guest.kill();
}

/// Whatever an enclave writes to its memory, the other's versions stay what they are, and its producer goes on.
#[test]
fn an_enclave_that_writes_garbage_harms_nobody_but_itself() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("garbage") else { return };
    let [mut host, mut guest] = pair.agents();
    let mut play = Play::open(pair.options().rule(Rule::default()), "host/r");
    play.step();
    guest.kill();
    let (area, mut state) = (pair.area(1), 7u64);
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 11
    };
    for round in 0..300 {
        for _ in 0..100 {
            let at = match round % 3 {
                0 => random() % BYTES,
                1 => BYTES - CHUNK_BYTES as u64 + random() % AREA_BYTES as u64,
                _ => random() % 4096,
            };
            let word = [0, u64::MAX, random(), random() << 40][random() as usize % 4];
            area.write_all_at(&word.to_le_bytes()[..(BYTES - at).min(8) as usize], at).unwrap();
        }
        play.write().unwrap();
        assert_eq!(play.publish().unwrap().outcome, Outcome::Published);
        let own = Observer::options().dir(&pair.dirs[0]).open("host/r").unwrap();
        check_play(&own.newest().unwrap());
    }
    assert!(host.try_hear_end(Duration::from_millis(50)).is_some(), "the agent of the host has ended");
}

/// Producers that come, and agents that are started anew, while the other enclave's words are damaged go on as if it had none, and
/// listen to it when it has.
#[test]
fn who_comes_while_the_other_enclave_is_damaged_goes_on() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("damaged") else { return };
    let [host, _guest] = pair.agents();
    let write = |at: u64, bytes: &[u8]| pair.area(1).write_all_at(bytes, at).unwrap();
    let mut header = vec![0; 4096];
    pair.area(1).read_exact_at(&mut header, 0).unwrap();
    write(0, &[0xa5; 4096]);
    let mut play = pair.produce();
    play.steps(20);
    drop(host);
    let mut host = pair.agent(0);
    play.steps(20);
    // The other one's name is not what it was called.
    let area = BYTES - CHUNK_BYTES as u64;
    let own = Enclave { name: "host".into(), identity: 5, arena: 6, boot: [0; 16] };
    let mut said = vec![0; own.encode().len()];
    pair.area(1).read_exact_at(&mut said, area + ABI_AT as u64).unwrap();
    write(0, &header);
    // Its own agent puts that right again.
    until("it to count no more", || {
        write(area + ABI_AT as u64, &own.encode());
        pair.word(0, enclave::admitted_at(0)) == 0
    });
    play.steps(20);
    write(area + ABI_AT as u64, &said);
    until("it to count again", || pair.admits(0));
    assert!(host.try_hear_end(Duration::from_millis(50)).is_some(), "the agent of the host has ended");
    let mut observer = pair.observe(1);
    play.steps(200);
    play.step_until_heard(&mut observer);
}
