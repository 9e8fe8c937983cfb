//! Agents that end, are killed, and begin again: what was held stays held.

use crate::common::watchdog;
use crate::helper::{self, Helper, until};
use crate::pair::{BYTES, Pair};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use stillframe_segment::arena::CHUNK_BYTES;
use stillframe_segment::enclave::{AGENT, HEARTBEAT_AT, IDENTITY_AT};

#[test]
fn an_agent_may_die_and_another_one_goes_on() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("agent") else { return };
    let [_host, mut guest] = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    guest.kill();
    play.steps(100);
    assert!(pair.is_held(0));
    // Nobody shows what is to be held now.
    let said = pair.start(1, "say", &["host/r"]).hear().unwrap();
    assert!(said.contains("no broker answers"), "{said}");
    let _guest = pair.agent(1);
    play.steps(100);
    play.step_until_heard(&mut observer);
    observer.kill();
    until("the dead to hold nothing", || !pair.is_held(0));
}

/// That an arena is another enclave's is known as well when its agent has ended by itself, and was not killed.
#[test]
fn an_agent_that_has_ended_lets_nobody_hold_what_is_not_shown() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("ended") else { return };
    let [_host, guest] = pair.agents();
    let mut play = pair.produce();
    guest.finish();
    let said = pair.start(1, "say", &["host/r"]).hear().unwrap();
    assert!(said.contains("no broker answers"), "{said}");
    let _guest = pair.agent(1);
    let mut observer = pair.observe(1);
    play.steps(100);
    assert!(pair.is_held(0));
    play.step_until_heard(&mut observer);
}

/// Whoever finds the end recorded while it runs says once more who it is.
#[test]
fn an_agent_that_was_taken_for_ended_says_who_it_is() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("mistaken") else { return };
    let [_host, _guest] = pair.agents();
    let identity = pair.word(1, IDENTITY_AT);
    let at = BYTES - CHUNK_BYTES as u64 + IDENTITY_AT as u64;
    pair.area(1).write_all_at(&[0; 8], at).unwrap();
    until("it to say so", || pair.word(1, IDENTITY_AT) == identity);
    pair.meet();
}

/// Who counted would count for ever, if the agent that comes next did not know of him.
#[test]
fn an_enclave_that_counts_is_named_again_or_forgotten() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("named-again") else { return };
    let [host, mut guest] = pair.agents();
    let mut play = pair.produce();
    let mut observer = pair.observe(1);
    host.finish();
    let told = pair.start(0, "agent", &["host"]).hear().unwrap();
    assert!(told.contains("--peer guest") && told.contains("--forget guest"), "{told}");
    assert!(pair.admits(0) && pair.is_held(0));
    observer.kill();
    guest.kill();
    let mut host = pair.start(0, "agent", &["host", "-guest"]);
    host.expect("runs");
    assert!(!pair.admits(0));
    play.steps(100);
}

/// What others hold of an arena they hold still when an agent was killed while it said who it is.
#[test]
fn an_arena_stays_the_same_whenever_its_agent_is_killed() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("same") else { return };
    let [_host, mut guest] = pair.agents();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    let mut observer = pair.observe(0);
    guest.kill();
    let before = pair.word(1, IDENTITY_AT);
    // The magic goes first and comes last.
    let at = BYTES - CHUNK_BYTES as u64 + stillframe_segment::enclave::MAGIC_AT as u64;
    pair.area(1).write_all_at(&[0; 8], at).unwrap();
    let _guest = pair.agent(1);
    until("the two to meet again", || {
        pair.word(1, IDENTITY_AT) != before && [0, 1].iter().all(|side| pair.admits(*side))
    });
    assert!(pair.is_held(1));
    producer.tell();
    producer.expect("more");
    observer.tell();
    producer.tell();
    observer.expect("followed");
}

/// Whoever may connect may do so as often as he likes, and the agent has files to open all the same.
#[test]
fn clients_that_say_nothing_leave_an_agent_its_files() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("crowd") else { return };
    let _guest = pair.agent(1);
    let inner = helper::command("agent", &[pair.dirs[0].to_str().unwrap(), "host", "guest", "second", "third"]);
    let mut few = Command::new("sh");
    few.args(["-c", "ulimit -n 96; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap()).args(inner.get_args());
    few.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut host = Helper::start({
        few.stdin(Stdio::piped()).stdout(Stdio::piped());
        few
    });
    host.expect("runs");
    until("the agents to meet", || [0, 1].iter().all(|side| pair.admits(*side)));
    let mut clients = Vec::new();
    for _ in 0..20 {
        for name in ["guest", "second", "third"] {
            let socket = pair.dirs[0].join(name).join(AGENT);
            clients.extend((0..50).map_while(|_| {
                stillframe_kernel::local::connect(&socket, Instant::now() + Duration::from_secs(1)).ok()
            }));
        }
        clients.drain(..clients.len().saturating_sub(300));
        let before = pair.word(0, HEARTBEAT_AT);
        until("the agent to look, or to end", || {
            pair.word(0, HEARTBEAT_AT) > before + 10 || !matches!(host.try_hear_end(Duration::ZERO), Some(None))
        });
        assert!(pair.word(0, HEARTBEAT_AT) > before + 10, "the agent has ended");
    }
    drop(clients);
    let _play = pair.produce();
    pair.observe(1).kill();
}
