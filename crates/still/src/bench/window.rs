//! From a publish to an observer in another enclave that waits for it: two directories of one kernel, each with an agent, as a machine and
//! its host have them.

use super::notify::{Waiter, Wake};
use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::host::{Pin, monotonic_ns};
use crate::trial::{Child, Error, Result};
use measure::{MIB, PAGE_BYTES, median, p99};
use serde_json::json;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;
use stillframe::Region;

/// Name of the benchmark.
const NAME: &str = "enclave";

/// The enclaves; the first one publishes.
const NAMES: [&str; 2] = ["host", "guest"];

/// What each of them shares.
const BYTES: usize = 16 * MIB;

/// What a process of the second enclave does before it becomes one: the files of the first one's directory are in its own, as a machine
/// has devices.
const ENTER: &str = "mount --bind \"$1/host/arena\" \"$2/host/arena\"; mount --bind \"$1/guest/arena\" \"$2/guest/arena\"; \
                     shift 2; exec \"$@\"";

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    for (wakes, is_rung) in [("polling", false), ("doorbell", true)] {
        let dirs = NAMES.map(|name| setting.root().join(format!("{wakes}-{name}")));
        let done = measure(setting, report, wakes, is_rung, &dirs);
        // A region here would be another one's, for the agent's words stay.
        dirs.iter().for_each(|dir| drop(fs::remove_dir_all(dir)));
        done?;
    }
    Ok(())
}

fn measure(setting: &Setting, report: &mut Report, wakes: &str, is_rung: bool, dirs: &[PathBuf; 2]) -> Result<()> {
    for (dir, name) in dirs.iter().flat_map(|dir| NAMES.map(|name| (dir.join(name), name))) {
        fs::create_dir_all(&dir).map_err(Error::system(format!("mkdir of {name}")))?;
        let made = File::create(dir.join("arena")).and_then(|file| file.set_len(BYTES as u64));
        made.map_err(Error::system(format!("making the arena of {name}")))?;
    }
    let [host, guest] = dirs.each_ref().map(|dir| dir.display().to_string());
    let enter =
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", ENTER, "sh", host.as_str(), guest.as_str()];
    let doorbell = format!("host={host}/guest/doorbell");
    let agent = |own: &'static str, other: &'static str, doorbell: &str| {
        let mut words =
            vec!["enclave", "agent", own, "--peer", other].into_iter().map(String::from).collect::<Vec<_>>();
        if is_rung {
            words.extend(["--doorbell".into(), doorbell.into()]);
        }
        words
    };
    let words = agent("host", "guest", "guest");
    let own = Child::start(&dirs[0], &words.iter().map(String::as_str).collect::<Vec<_>>())?;
    own.hear()?;
    let words = agent("guest", "host", &doorbell);
    let other = Child::start_in(&enter, &dirs[1], &words.iter().map(String::as_str).collect::<Vec<_>>())?;
    other.hear()?;

    let mut region = Region::options().dir(&dirs[0]).keep(1).threads(1).create("host/wake")?;
    let array = region.array::<u8>("data", &[PAGE_BYTES])?;
    region.publish(1).commit()?;
    let last = std::thread::available_parallelism().map_or(1, |processors| processors.get().min(2)) - 1;
    let boards = NAMES.map(|name| setting.root().join(format!("{wakes}-{name}-board")));
    // Those who wait may use no processor that their parent may not, so they are started first.
    let mut here = Waiter::start(&boards[0], &[], &dirs[0], "host/wake", last)?;
    let mut there = Waiter::start(&boards[1], &enter, &dirs[1], "host/wake", last)?;
    let _pin = Pin::to(0);
    let (mut local, mut remote, mut version) = (Vec::new(), Vec::new(), 1);
    let warming = 20;
    for round in 0..warming + setting.repetitions(1000, 50) {
        for (waiter, times) in [(&mut here, &mut local), (&mut there, &mut remote)] {
            // At no fixed distance from when somebody looks.
            std::thread::sleep(Duration::from_micros(round as u64 * 377 % 1000));
            waiter.wait_for_sleep(Wake::Version)?;
            version += 1;
            region.slice_mut(&array).fill(version as u8);
            let start = monotonic_ns();
            region.publish(version).commit()?;
            let ns = waiter.wait_for_waking(start)?;
            if round >= warming {
                times.push(ns / 1e6);
            }
        }
    }
    let case = json!({"what": "from a publish to who waits in another enclave", "wakes": wakes});
    let detail = json!({"p99_ms": p99(&mut remote), "baseline_p99_ms": p99(&mut local)});
    report.add(Row::new(NAME, case, median(&mut remote), "ms", median(&mut local)).with(detail))
}
