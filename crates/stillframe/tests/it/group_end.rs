//! How an observer of a group tells the end of a run from an accident.

use crate::common::{Dir, watchdog};
use std::time::Duration;
use stillframe::{Error, Group, Region};

struct Run {
    dir: Dir,
    ranks: Vec<Option<Region>>,
    group: Group,
}

impl Run {
    fn new(ranks: u32) -> Run {
        let dir = Dir::new("group-end");
        let begin = |rank| {
            let mut region = dir.options().keep(2).rank(rank, ranks).create("run").unwrap();
            region.array::<u64>("a", &[100]).unwrap();
            Some(region)
        };
        let ranks = (0..ranks).map(begin).collect();
        let group = Group::options().dir(dir.path()).open("run").unwrap();
        Run { dir, ranks, group }
    }

    fn publish(&mut self, rank: usize, version: u64) {
        self.ranks[rank].as_mut().unwrap().publish(version).commit().unwrap();
    }

    fn end(&mut self, rank: usize) {
        self.ranks[rank] = None;
    }
}

#[test]
fn ranks_that_end_one_after_another_at_the_same_version_have_ended_their_run() {
    let _watchdog = watchdog(60);
    let mut run = Run::new(3);
    for rank in 0..3 {
        run.publish(rank, 7);
    }
    run.end(1);
    let group = run.group.clone();
    let waiting = std::thread::spawn(move || group.newest_after(Some(7), None).map(|snapshot| snapshot.version()));
    std::thread::sleep(Duration::from_millis(100));
    run.end(0);
    run.end(2);
    assert!(matches!(waiting.join().unwrap(), Err(Error::ProducerGone { .. })));
    let seen: Vec<_> = run.group.snapshots(false, None).map(|snapshot| snapshot.unwrap().version()).collect();
    assert_eq!(seen, [7]);
    // Its last version stays to be read.
    let late = Group::options().dir(run.dir.path()).wait(Duration::from_secs(5)).open("run").unwrap();
    assert_eq!(late.newest().unwrap().version(), 7);
}

#[test]
fn a_rank_that_is_gone_behind_others_is_named_at_once_and_after_all_are_gone() {
    let _watchdog = watchdog(60);
    let mut run = Run::new(3);
    for (rank, version) in [(0, 4), (1, 4), (2, 4), (0, 5), (2, 5)] {
        run.publish(rank, version);
    }
    run.end(1);
    let is_named = |error: Error| matches!(error, Error::RankGone { rank: 1, newest: Some(4), .. });
    assert!(is_named(run.group.newest_after(Some(4), None).unwrap_err()));
    run.end(0);
    run.end(2);
    assert!(is_named(run.group.newest_after(Some(4), None).unwrap_err()));
    let mut seen = run.group.snapshots(false, None);
    assert_eq!(seen.next().unwrap().unwrap().version(), 4);
    assert!(is_named(seen.next().unwrap().unwrap_err()));
    assert!(seen.next().is_none());
}

#[test]
fn a_rank_that_is_gone_while_others_neither_publish_nor_end_is_named() {
    let _watchdog = watchdog(60);
    let mut run = Run::new(2);
    run.publish(0, 1);
    run.publish(1, 1);
    run.end(0);
    assert!(matches!(run.group.newest_after(Some(1), None), Err(Error::RankGone { rank: 0, .. })));
}

#[test]
fn a_rank_that_is_started_again_in_time_goes_on_unnoticed() {
    let _watchdog = watchdog(60);
    let mut run = Run::new(2);
    run.publish(0, 1);
    run.publish(1, 1);
    run.end(0);
    let group = run.group.clone();
    let waiting = std::thread::spawn(move || group.newest_after(Some(1), None).map(|snapshot| snapshot.version()));
    std::thread::sleep(Duration::from_millis(100));
    let mut again = run.dir.options().rank(0, 2).create("run").unwrap();
    again.array::<u64>("a", &[100]).unwrap();
    run.ranks[0] = Some(again);
    run.publish(0, 2);
    run.publish(1, 2);
    assert_eq!(waiting.join().unwrap().unwrap(), 2);
}

#[test]
fn ranks_share_the_threads_that_copy_unless_told_otherwise() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("group-threads");
    let threads = |options: stillframe::RegionOptions| options.create("run").unwrap().threads();
    assert_eq!(threads(dir.options().rank(0, 1000)), 1);
    assert_eq!(threads(dir.options().rank(1, 1000).threads(3)), 3);
    let dir = Dir::new("group-threads");
    assert_eq!(threads(dir.options().rank(0, 1)), threads(Dir::new("alone").options()));
}
