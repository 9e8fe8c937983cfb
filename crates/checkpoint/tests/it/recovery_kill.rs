//! Ranks in processes of their own, killed at random instants and begun again in any number and order: they go on from the
//! same version, it has in all of them what was published as that version, and nothing is lost that all ranks had.
//!
//! `STILLFRAME_TEST_SEED` plays one seed alone: a number, or `random`.

use crate::reading::{Numbers, Place, watchdog};
use crate::seed::Seed;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stillframe::{Declaration, Element, Group, Kind, Part, Region};
use stillframe_checkpoint::{Recovery, SaveOptions, Saver};

/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// Elements of the global array: a few pages for each rank.
const ELEMENTS: usize = 5000;

fn value(index: usize, version: u64) -> u64 {
    (index as u64 + 1).wrapping_mul(version.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
}

fn part(rank: u32, ranks: u32) -> (usize, usize) {
    let start = |rank: u32| ELEMENTS * rank as usize / ranks as usize;
    (start(rank), start(rank + 1) - start(rank))
}

/// What a rank does until it is killed.
#[test]
fn helper_process() {
    let Ok(arguments) = std::env::var("STILLFRAME_TEST_RANK") else { return };
    let _watchdog = watchdog(60);
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let (rank, ranks): (u32, u32) = (arguments[2].parse().unwrap(), arguments[3].parse().unwrap());
    let region = Region::options().dir(arguments[0]).rank(rank, ranks);
    let options = Recovery::options().region(region).checkpoints(arguments[1]);
    let mut region = options.open("g").unwrap_or_else(|error| panic!("rank {rank}: {error}"));
    let (offset, count) = part(rank, ranks);
    let declaration = Declaration::new("u", u64::dtype(), Kind::Managed { shape: vec![count] });
    let part = Part { offset: vec![offset], global_shape: vec![ELEMENTS] };
    let u = region.declare(declaration.part(part)).unwrap();
    region.fill(u).unwrap();
    let expected = |version: u64| (offset..offset + count).map(|index| value(index, version)).collect::<Vec<_>>();
    if let Some(version) = region.version() {
        let found: &[u64] = bytemuck::cast_slice(region.bytes_mut(u).unwrap());
        assert!(found == expected(version), "rank {rank} of {ranks} has something else as version {version}");
    }
    println!("\nbegun {}", region.version().unwrap_or(0));
    let numbers = &mut Numbers(arguments[4].parse().unwrap());
    for version in region.version().unwrap_or(0) + 1.. {
        region.bytes_mut(u).unwrap().copy_from_slice(bytemuck::cast_slice(&expected(version)));
        region.publish(version).commit().unwrap();
        std::thread::sleep(Duration::from_micros(numbers.below(2000) as u64));
    }
}

fn spawn(place: &Place, rank: u32, ranks: u32, seed: u64) -> Child {
    let arguments = format!("{} {} {rank} {ranks} {seed}", place.shm().display(), place.store().display());
    Command::new(std::env::current_exe().unwrap())
        .args(["recovery_kill::helper_process", "--exact", "--nocapture"])
        .env("STILLFRAME_TEST_RANK", arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills a rank and returns the version it began with, if it came so far.
fn kill(mut child: Child, seed: u64, round: usize) -> Option<u64> {
    let ended = child.try_wait().unwrap();
    let _ = child.kill();
    let (mut out, mut errors) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    child.wait().unwrap();
    assert!(ended.is_none(), "seed {seed}, round {round}: a rank ended by itself: {out}{errors}");
    out.lines().find_map(|line| line.strip_prefix("begun ")).map(|version| version.parse().unwrap())
}

fn save(place: &Place) -> Option<u64> {
    let newest = Group::options().dir(place.shm()).open("g").ok()?.newest().ok()?;
    let saver = Saver::open(place.store(), SaveOptions::default().chunk_bytes(4096)).unwrap();
    saver.save(&newest, &|_| {}).unwrap();
    Some(newest.version())
}

fn play(seed: u64, rounds: usize) {
    let place = Place::new("kill");
    let numbers = &mut Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    // The least version that must not be lost: of memory, and of the checkpoints.
    let (mut least, mut saved) = (0, 0);
    let mut ranks = 3;
    for round in 0..rounds {
        if numbers.below(3) == 0 {
            ranks = 1 + numbers.below(4) as u32;
        }
        let mut order: Vec<u32> = (0..ranks).collect();
        (1..order.len()).rev().for_each(|index| order.swap(index, numbers.below(index + 1)));
        let mut children = Vec::new();
        for rank in order {
            children.push(spawn(&place, rank, ranks, numbers.next()));
            std::thread::sleep(Duration::from_micros([0, 500, 20_000][numbers.below(3)]));
        }
        // While they begin, or when all are at work.
        let is_early = numbers.below(2) == 0;
        if is_early {
            std::thread::sleep(Duration::from_micros(numbers.below(30_000) as u64));
        } else {
            let begin = Instant::now();
            let is_whole = || {
                let group = Group::options().dir(place.shm()).open("g").ok()?;
                let is_new = group.size() == ranks as usize && group.newest().ok()?.version() > least;
                (is_new && group.ranks().ok()?.iter().all(|rank| rank.state == stillframe::RankState::Live))
                    .then_some(())
            };
            while is_whole().is_none() && begin.elapsed() < LONG {
                std::thread::sleep(Duration::from_millis(2));
            }
            if numbers.below(2) == 0 {
                saved = save(&place).unwrap_or(saved);
            }
            std::thread::sleep(Duration::from_micros(numbers.below(10_000) as u64));
        }
        let begun: Vec<u64> = children.into_iter().filter_map(|child| kill(child, seed, round)).collect();
        assert!(begun.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}, round {round}: {begun:?} of one run");
        if let Some(begun) = begun.first() {
            assert!(*begun >= least, "seed {seed}, round {round}: {begun} although there was {least}");
        }
        assert!(is_early || begun.len() == ranks as usize, "seed {seed}, round {round}: {begun:?} of {ranks}");
        let newest = Group::options().dir(place.shm()).open("g").ok().and_then(|group| group.newest().ok());
        least = newest.map_or(least, |newest| newest.version().max(least));
        if numbers.below(6) == 0 {
            // The node is gone.
            let gone: PathBuf = place.shm();
            std::fs::remove_dir_all(&gone).unwrap();
            std::fs::create_dir(&gone).unwrap();
            least = saved;
        }
    }
    assert!(least > 0, "seed {seed}: nothing was ever published by all");
}

#[test]
fn all_ranks_go_on_from_the_same_version_whenever_they_are_killed() {
    if std::env::var("STILLFRAME_TEST_RANK").is_ok() {
        return;
    }
    let _watchdog = watchdog(600);
    let seeds = match Seed::asked() {
        Seed::Usual => vec![1, 2],
        Seed::Given(seed) | Seed::Random(seed) => vec![seed],
    };
    println!("seeds {seeds:?}");
    std::thread::scope(|scope| {
        for seed in seeds {
            scope.spawn(move || play(seed, 60));
        }
    });
}
