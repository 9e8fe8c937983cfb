//! Publishing beside another enclave: which system calls it takes, and that no version is torn.

use super::roles::MARK;
use crate::common::{self, watchdog};
use crate::helper::{self, Helper, until};
use crate::pair::Pair;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The thread that says where a publish begins, in what strace wrote.
fn thread(text: &str) -> &str {
    let line = text.lines().find(|line| line.contains(&format!("close({MARK}"))).unwrap();
    line.split_whitespace().next().unwrap()
}

/// Asking another enclave for what it holds takes loads of words, and no call of the kernel more than without it.
#[test]
fn a_publish_makes_no_system_call_more_for_another_enclave() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("calls") else { return };
    let traced = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if !traced.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: strace is missing, or may trace nobody");
    }
    let log = pair.dirs[0].join("calls");
    let mut host = pair.agent(0);
    let inner = helper::command("mark", &[pair.dirs[0].to_str().unwrap(), "host/r"]);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(&log).arg(std::env::current_exe().unwrap()).args(inner.get_args());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut producer = Helper::start(command);
    producer.expect("published");
    let mut seen = 0;
    let mut calls = |producer: &mut Helper| {
        producer.tell();
        producer.expect("published");
        let text = std::fs::read_to_string(&log).unwrap();
        // A call that another thread's comes between is written in two parts.
        let parts: Vec<&str> = text.split(&format!("close({MARK}")).collect();
        // Those of the thread that publishes, whose number begins each of its lines.
        let own = |part: &&str| {
            let line = |line: &&str| line.starts_with(&format!("{} ", thread(&text))) && !line.contains("resumed>");
            part.lines().skip(1).filter(line).count()
        };
        // Of each publish but the first ones, in which what changed since the last measurement is noticed. Versions differ in what
        // they take, and a call that waited is made twice: the least is what a publish takes.
        let counts: Vec<usize> = parts[seen + 1..parts.len() - 1].iter().skip(5).map(own).collect();
        seen = parts.len() - 1;
        assert!(counts.len() > 30);
        counts.into_iter().min().unwrap()
    };
    let alone = calls(&mut producer);
    let mut guest = pair.agent(1);
    until("the agents to meet", || [0, 1].iter().all(|side| pair.admits(*side)));
    let asked = calls(&mut producer);
    let mut observer = pair.observe(1);
    let held = calls(&mut producer);
    assert!(pair.is_held(0));
    eprintln!(
        "system calls of a publish: {alone} alone, {asked} with another enclave, {held} while that holds a version"
    );
    assert!(alone > 0 && asked <= alone && held <= alone, "{alone}, {asked}, {held}");
    observer.kill();
    producer.kill();
    host.kill();
    guest.kill();
}

#[test]
fn none_of_many_versions_is_torn() {
    let _watchdog = watchdog(600);
    let Some(pair) = Pair::new("many") else { return };
    let _agents = pair.agents();
    let mut play = pair.produce();
    let last = common::versions() * 20;
    let mut followers = [0, 0].map(|_| pair.start(1, "check", &["host/r", "11", &last.to_string()]));
    // Until both have seen that many, however few come by while one has a processor.
    for follower in &mut followers {
        loop {
            play.step();
            match follower.try_hear_end(Duration::ZERO) {
                Some(None) => {}
                said => break assert_eq!(said.flatten().as_deref(), Some("checked")),
            }
        }
    }
}
