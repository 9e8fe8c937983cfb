//! Creating objects in etcd beside plain puts of the same texts by as many callers, in turns, over an etcd with its data in memory.

use clap::Parser;
use serde_json::json;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;
use stillframe_etcd::{Child, Etcd, EtcdNames};
use stillframe_object::{Description, Names};

/// Creating objects in etcd, gathered, beside plain puts.
#[derive(Parser)]
struct Arguments {
    /// Callers at a time, each a thread.
    #[arg(long, default_value_t = 16)]
    callers: usize,
    /// Objects that each caller creates in a turn.
    #[arg(long, default_value_t = 1000)]
    objects: usize,
    /// Turns of each kind; the median is told.
    #[arg(long, default_value_t = 7)]
    turns: usize,
    /// Lines of JSON, one for each turn.
    #[arg(long)]
    json: bool,
}

/// What is compared; puts are the yardstick.
const KINDS: [&str; 5] = ["put", "put, own connections", "create", "create, own connections", "create many"];

/// Objects that a caller hands over together in the last kind.
const TOGETHER: usize = 100;

const TEXT: &str = "var grid [100,100] float64\nvar velocity [100,100,3] float32";

fn main() -> stillframe_etcd::Result<()> {
    let Arguments { callers, objects, turns, json } = Arguments::parse();
    let child = Child::options().start()?;
    let open = || Etcd::options().endpoint(child.endpoint()).open();
    let (shared, own) = (open()?, (0..callers).map(|_| open()).collect::<stillframe_etcd::Result<Vec<_>>>()?);
    let mut rates = vec![Vec::new(); KINDS.len()];
    for turn in 0..=turns {
        for (position, kind) in KINDS.iter().enumerate() {
            let handles: Vec<&Etcd> =
                (0..callers).map(|caller| if kind.contains("own") { &own[caller] } else { &shared }).collect();
            let rate = measure(&handles, objects, &format!("{turn}/{position}"), kind);
            // The first turn makes connections.
            if turn > 0 {
                rates[position].push(rate);
                if json {
                    println!("{}", json!({ "bench": "etcd", "kind": kind, "callers": callers, "per_second": rate }));
                }
            }
        }
    }
    if !json {
        let medians: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
        let yardstick = medians[0].max(medians[1]);
        println!(
            "{callers} callers, {objects} objects each, {turns} turns; median per second, and ratio to the faster puts"
        );
        for (kind, rate) in KINDS.iter().zip(medians) {
            println!("{kind:24} {rate:9.0} {:6.2}", rate / yardstick);
        }
    }
    Ok(())
}

/// Calls a second of all callers.
fn measure(handles: &[&Etcd], objects: usize, turn: &str, kind: &str) -> f64 {
    let barrier = Barrier::new(handles.len() + 1);
    thread::scope(|scope| {
        let work = |(caller, etcd): (usize, &&Etcd)| {
            let (names, barrier, etcd) = (etcd.names(), &barrier, (*etcd).clone());
            let all: Vec<(String, Description)> =
                (0..objects).map(|object| (format!("{turn}/{caller}/{object}"), described(caller, object))).collect();
            scope.spawn(move || {
                barrier.wait();
                work(&etcd, &names, &all, kind);
                barrier.wait();
            });
        };
        handles.iter().enumerate().for_each(work);
        barrier.wait();
        let begin = Instant::now();
        barrier.wait();
        (handles.len() * objects) as f64 / begin.elapsed().as_secs_f64()
    })
}

fn work(etcd: &Etcd, names: &EtcdNames, all: &[(String, Description)], kind: &str) {
    if kind.starts_with("put") {
        return all.iter().for_each(|(name, description)| etcd.put_plain(name, description).expect("a put"));
    }
    if kind.ends_with("many") {
        let created = |some: &[(String, Description)]| {
            names.put_all(some).into_iter().for_each(|one| drop(one.expect("created")))
        };
        return all.chunks(TOGETHER).for_each(created);
    }
    all.iter().for_each(|(name, description)| drop(names.put(name, description).expect("created")));
}

fn described(caller: usize, object: usize) -> Description {
    let id = NonZeroU64::MIN.saturating_add((caller << 32 | object) as u64);
    Description { text: TEXT.into(), bindings: BTreeMap::new(), initial: 0, id }
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
