//! `still stats` against regions and groups of a real producer.

use crate::support::{Guard, Scene, until};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use stillframe::{Array, DType, Declaration, Kind, Part, Region, VariableId};

fn numbers(text: &str) -> Vec<Vec<String>> {
    text.lines().map(|line| line.split_whitespace().map(str::to_string).collect()).collect()
}

fn close(found: &serde_json::Value, expected: f64) -> bool {
    (found.as_f64().unwrap() - expected).abs() <= 1e-12 * expected.abs().max(1.0)
}

/// A region that keeps five versions, in which `u` is `version + place`.
fn published(scene: &Scene, versions: std::ops::RangeInclusive<u64>) -> (Region, Array<f64>) {
    let mut region = Region::options().dir(scene.dir()).keep(8).create("heat").unwrap();
    let u = region.array::<f64>("u", &[100, 30]).unwrap();
    for version in versions {
        publish(&mut region, &u, version);
    }
    (region, u)
}

fn publish(region: &mut Region, u: &Array<f64>, version: u64) {
    let write = |(place, value): (usize, &mut f64)| *value = version as f64 + place as f64;
    region.slice_mut(u).iter_mut().enumerate().for_each(write);
    region.publish(version).attr("time", version as f64 / 2.0).commit().unwrap();
}

#[test]
fn stats_follows_versions_until_the_producer_ends() {
    let scene = Scene::new();
    let (mut region, u) = published(&scene, 1..=2);
    let mut command = scene.command(&["stats", "heat", "u", "--every"]);
    let mut child = Guard(command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "u of heat: float64 (100, 30)");
    let heading = lines.next().unwrap();
    assert_eq!(
        heading.split_whitespace().collect::<Vec<_>>(),
        ["VERSION", "TIME", "MIN", "MAX", "MEAN", "STD", "NANS"]
    );
    for version in 1..=5u64 {
        if version > 2 {
            publish(&mut region, &u, version);
        }
        // Each line is there before the next version is.
        let line = lines.next().unwrap();
        let expected =
            [version as f64, version as f64 / 2.0, version as f64, version as f64 + 2999.0, version as f64 + 1499.5];
        let found: Vec<f64> = line.split_whitespace().take(5).map(|word| word.parse().unwrap()).collect();
        assert_eq!(found, expected, "{line}");
        assert_eq!(line.len(), heading.len(), "columns line up");
    }
    drop(region);
    assert_eq!(lines.next(), None);
    assert!(child.0.wait().unwrap().success());
    assert_eq!(
        numbers(&scene.ok(&["stats", "heat", "u", "--every", "3"]))[2..]
            .iter()
            .map(|row| row[0].as_str())
            .collect::<Vec<_>>(),
        ["1", "3"]
    );
    assert_eq!(numbers(&scene.ok(&["stats", "heat", "u"])).len(), 3, "the newest version");
}

#[test]
fn stats_takes_slices_and_every_type_of_number() {
    let scene = Scene::new();
    let mut region = Region::options().dir(scene.dir()).create("museum").unwrap();
    let types = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"];
    let mut declare = |name: &str, dtype: DType, bytes: Vec<u8>| {
        let shape = vec![bytes.len() / dtype.bytes()];
        let id = region.declare(Declaration::new(name, dtype, Kind::Managed { shape })).unwrap();
        fill(&mut region, id, &bytes);
    };
    for name in types {
        let dtype: DType = name.parse().unwrap();
        let place = |place: u8| match &dtype {
            DType::Float(4) => f32::from(place).to_ne_bytes().to_vec(),
            DType::Float(_) => f64::from(place).to_ne_bytes().to_vec(),
            whole => u64::from(place).to_le_bytes()[..whole.bytes()].to_vec(),
        };
        declare(name, dtype.clone(), (0..100).flat_map(place).collect());
    }
    declare("flags", DType::Bool, vec![1, 0, 0, 1]);
    declare("waves", DType::Complex(8), [3f32, 4.0, 0.0, 0.0].iter().flat_map(|part| part.to_ne_bytes()).collect());
    let cell = DType::packed([("tag", DType::Bytes(3)), ("rho", DType::Float(8))]).unwrap();
    let cells = (0..5u8).flat_map(|place| [b"abc".to_vec(), f64::from(place).to_ne_bytes().to_vec()].concat());
    declare("cells", cell, cells.collect());
    region.publish(7).commit().unwrap();

    for name in types {
        let told = scene.json(&["stats", "museum", name, "--json", "--once"]);
        assert_eq!((told["count"].as_u64(), told["version"].as_u64()), (Some(100), Some(7)), "{name}");
        assert!(close(&told["mean"], 49.5) && close(&told["std"], (9999f64 / 12.0).sqrt()), "{name}: {told}");
        assert!(close(&told["min"], 0.0) && close(&told["max"], 99.0) && close(&told["sum"], 4950.0), "{name}");
        assert_eq!(told["min"].is_i64(), name.contains("int"), "{name}: whole numbers stay whole");
        let told = scene.json(&["stats", "museum", &format!("{name}[90:10:-20]"), "--json", "--once"]);
        assert!(close(&told["sum"], 240.0) && told["count"] == 4, "{name}: {told}");
    }
    assert!(close(&scene.json(&["stats", "museum", "flags", "--json", "--once"])["mean"], 0.5));
    assert!(close(&scene.json(&["stats", "museum", "waves", "--json", "--once"])["max"], 5.0));
    assert!(close(&scene.json(&["stats", "museum", "cells.rho", "--json", "--once"])["mean"], 2.0));
    let none = scene.json(&["stats", "museum", "int8[5:5]", "--json", "--once"]);
    assert_eq!((none["count"].as_u64(), none["mean"].as_str()), (Some(0), Some("nan")));
    for wrong in ["cells", "cells.tag", "nothing", "int8[1,2]", "int8[100]", "cells.phi"] {
        scene.complaint(2, &["stats", "museum", wrong, "--once"]);
    }
    assert!(scene.complaint(2, &["stats", "museum", "cells"]).contains("name a field of numbers"));
    scene.complaint(1, &["stats", "nobody", "u"]);
    scene.complaint(1, &["stats", "nobody", "u", "--wait", "0.1"]);
    scene.complaint(1, &["stats", "museum", "int8", "--version", "6"]);
    assert!(numbers(&scene.ok(&["stats", "museum", "int8", "--timeout", "0.1"])).len() == 3);
}

/// Fills a managed variable for which there is no typed handle.
#[allow(unsafe_code)]
pub fn fill(region: &mut Region, id: VariableId, bytes: &[u8]) {
    let (start, length) = region.managed_bytes(id).unwrap();
    assert_eq!(length, bytes.len());
    // SAFETY: the region owns `length` bytes at `start`, it is borrowed mutably here, and both ranges are of that length.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, length) };
}

#[test]
fn a_file_of_stats_goes_on_where_a_killed_run_stopped() {
    let scene = Scene::new();
    let (mut region, u) = published(&scene, 1..=3);
    let file = scene.file("u.csv");
    let path = file.to_str().unwrap();
    let args = ["stats", "heat", "u", "--every", "--csv", path, "--histogram", "4", "--timeout", "0"];
    scene.ok(&args);
    let text = std::fs::read_to_string(&file).unwrap();
    let heading = "version,time,count,nans,min,max,mean,std,sum,below,above,1.0:750.75,750.75:1500.5,1500.5:2250.25,2250.25:3000.0";
    assert_eq!(text.lines().next(), Some(heading));
    assert!(text.lines().nth(3).unwrap().starts_with("3,1.5,3000,0,3.0,3002.0,1502.5,"), "{text}");
    assert!(
        text.lines().nth(3).unwrap().ends_with(",0,2,748,750,750,750"),
        "bins are those of the first version: {text}"
    );
    assert_eq!(text.lines().count(), 4);

    // What a killed run leaves of a line.
    std::fs::write(&file, format!("{text}4,2.0,30")).unwrap();
    publish(&mut region, &u, 4);
    publish(&mut region, &u, 5);
    scene.ok(&args);
    scene.ok(&args);
    let text = std::fs::read_to_string(&file).unwrap();
    let versions: Vec<_> = text.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(versions, ["1", "2", "3", "4", "5"]);
    assert!(text.lines().all(|line| line.split(',').count() == 15), "{text}");

    let complaint = scene.complaint(2, &["stats", "heat", "u", "--once", "--version", "4", "--csv", path]);
    assert!(complaint.contains("--once"), "{complaint}");
}

#[test]
fn a_file_of_stats_is_not_mistaken_for_another() {
    let scene = Scene::new();
    let (mut region, u) = published(&scene, 1..=5);
    let file = scene.file("u.csv");
    let path = file.to_str().unwrap();
    scene.ok(&["stats", "heat", "u", "--csv", path, "--once"]);
    publish(&mut region, &u, 6);
    let complaint = scene.complaint(1, &["stats", "heat", "u", "--csv", path, "--once", "--histogram", "3"]);
    assert!(complaint.contains("other columns"), "{complaint}");
    scene.complaint(1, &["stats", "heat", "u", "--csv", path, "--version", "2"]);
    for others in ["a,b\n1,2\n", "a letter, without an end", "v\u{e4}rsion,time"] {
        std::fs::write(&file, others).unwrap();
        let complaint = scene.complaint(1, &["stats", "heat", "u", "--csv", path, "--once"]);
        assert!(complaint.contains("no file of `still stats`"), "{complaint}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), others, "what is no file of ours stays as it is");
    }
    // Part of the heading is what a process leaves that is killed.
    std::fs::write(&file, "version,ti").unwrap();
    scene.ok(&["stats", "heat", "u", "--csv", path, "--once"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 2);
    drop(region);
    std::fs::remove_file(&file).unwrap();
    scene.ok(&["stats", "heat", "u", "--csv", path, "--once"]);
    scene.ok(&["rm", "heat"]);
    let (_region, _) = published(&scene, 1..=2);
    let complaint = scene.complaint(1, &["stats", "heat", "u", "--csv", path, "--timeout", "0"]);
    assert!(complaint.contains("goes to version 6") && complaint.contains("another file"), "{complaint}");
    assert_eq!(scene.ok(&["stats", "heat", "u", "--csv", "-", "--once"]).lines().count(), 2);
}

#[test]
fn histograms_are_bars_on_a_terminal_and_numbers_in_json() {
    let scene = Scene::new();
    let (_region, _) = published(&scene, 1..=1);
    let text = scene.ok(&["stats", "heat", "u", "--histogram", "8", "--range", "-1499:4501", "--once"]);
    assert!(text.lines().nth(1).unwrap().ends_with("-1499 to 4501"), "{text}");
    assert!(text.lines().nth(2).unwrap().ends_with("  ████  "), "{text}");
    let told = scene.json(&["stats", "heat", "u", "--histogram", "3", "--range", "0:1500", "--once", "--json"]);
    assert_eq!(told["histogram"]["counts"], serde_json::json!([499, 500, 501]));
    assert_eq!((&told["histogram"]["below"], &told["histogram"]["above"]), (&0.into(), &1500.into()));
    assert_eq!(told["attributes"]["time"], 0.5);
    scene.complaint(2, &["stats", "heat", "u", "--range", "0:1"]);
    scene.complaint(2, &["stats", "heat", "u", "--histogram", "0"]);
    scene.complaint(2, &["stats", "heat", "u", "--histogram", "4", "--range", "2:1"]);
}

#[test]
fn stats_of_a_group_are_of_the_whole_array() {
    let scene = Scene::new();
    let mut ranks = Vec::new();
    for rank in 0..3 {
        let mut region = Region::options().dir(scene.dir()).rank(rank, 3).create("heat").unwrap();
        // Four rows of six cells, and a border of one that others compute, in an array of 14 × 8.
        let part = Part { offset: vec![4 * rank as usize, 0], global_shape: vec![14, 8] };
        let shape = vec![6, 8];
        let u = region.declare(Declaration::new("u", DType::Float(8), Kind::Managed { shape }).part(part)).unwrap();
        let cell = |place: usize| {
            let (row, column) = (place / 8, place % 8);
            let stale = (row == 0 && rank > 0) || (row == 5 && rank < 2);
            if stale { -1e9 } else { ((4 * rank as usize + row) * 8 + column) as f64 }
        };
        fill(&mut region, u, &(0..48).flat_map(|place| cell(place).to_ne_bytes()).collect::<Vec<u8>>());
        let n = region.array::<i32>("n", &[2]).unwrap();
        region.slice_mut(&n).fill(rank as i32);
        ranks.push(region);
    }
    for region in &mut ranks {
        region.publish(3).attr("time", 1.5).commit().unwrap();
    }
    let all: Vec<f64> = (0..112).map(f64::from).collect();
    let told = scene.json(&["stats", "heat", "u", "--once", "--json"]);
    assert_eq!((told["count"].as_u64(), told["version"].as_u64()), (Some(112), Some(3)));
    assert!(close(&told["sum"], all.iter().sum()) && close(&told["min"], 0.0) && close(&told["max"], 111.0), "{told}");
    for (slice, sum, count) in [
        ("u[5, :]", (40..48).sum::<i32>(), 8),
        ("u[-1]", (104..112).sum(), 8),
        ("u[::5, 3]", 3 + 43 + 83, 3),
        ("u[12:3:-4, ::7]", 96 + 103 + 64 + 71 + 32 + 39, 6),
        ("u[4:4]", 0, 0),
    ] {
        let told = scene.json(&["stats", "heat", slice, "--once", "--json"]);
        assert_eq!((told["sum"].as_f64(), told["count"].as_u64()), (Some(f64::from(sum)), Some(count)), "{slice}");
    }
    assert!(scene.ok(&["stats", "heat", "u", "--once"]).starts_with("u of heat: float64 (14, 8)\n"));
    assert!(scene.ok(&["stats", "heat", "n", "--once"]).starts_with("n of heat: int32 of all ranks\n"));
    assert_eq!(scene.json(&["stats", "heat", "n", "--once", "--json"])["sum"], 6.0);
    assert!(scene.complaint(2, &["stats", "heat", "n[0]", "--once"]).contains("does not tell its part"));
    scene.complaint(2, &["stats", "heat", "nothing", "--once"]);
    assert_eq!(scene.json(&["stats", "heat/1", "n", "--once", "--json"])["sum"], 2.0);
    drop(ranks);
    assert_eq!(numbers(&scene.ok(&["stats", "heat", "u", "--every"])).len(), 3, "it ends with the group");
}

#[test]
fn an_element_that_two_ranks_have_counts_once() {
    let scene = Scene::new();
    // Two bars that cross in an array of 6 × 6: neither's edge lies where the other's overlap could be split.
    let bars = [(vec![2, 0], vec![2, 6]), (vec![0, 2], vec![6, 2])];
    let ranks = bars.into_iter().zip(0..).map(|((offset, shape), rank)| {
        let mut region = Region::options().dir(scene.dir()).rank(rank, 2).create("cross").unwrap();
        let part = Part { offset, global_shape: vec![6, 6] };
        let u = region.declare(Declaration::new("u", DType::Float(8), Kind::Managed { shape }).part(part)).unwrap();
        fill(&mut region, u, &1.0f64.to_ne_bytes().repeat(12));
        region.publish(1).commit().unwrap();
        region
    });
    let ranks: Vec<Region> = ranks.collect();
    let told = scene.json(&["stats", "cross", "u", "--once", "--json"]);
    assert_eq!((told["count"].as_u64(), told["sum"].as_f64()), (Some(20), Some(20.0)));
    let row = scene.json(&["stats", "cross", "u[2]", "--once", "--json"]);
    assert_eq!(row["count"].as_u64(), Some(6));
    drop(ranks);
}

/// The scheduling class of a process (proc(5), `stat`).
fn class(pid: u32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(38)?.parse().ok()
}

#[test]
fn what_looks_is_of_the_idle_class_unless_it_is_to_take_what_it_needs() {
    let scene = Scene::new();
    let _region = published(&scene, 1..=2);
    let own = class(std::process::id());
    for args in [&["stats", "heat", "u", "--every"][..], &["watch", "heat", "--json", "--interval", "0.05"]] {
        let looks = |args: &[&str]| Guard(scene.as_it_is(args).stdout(Stdio::piped()).spawn().unwrap());
        let polite = looks(args);
        until("the idle class", || class(polite.0.id()) == Some(libc::SCHED_IDLE));
        let mut impolite = looks(&[args, &["--impolite"]].concat());
        let mut lines = BufReader::new(impolite.0.stdout.take().unwrap()).lines();
        lines.next().unwrap().unwrap();
        assert_eq!(class(impolite.0.id()), own, "{args:?}");
    }
}

#[test]
fn bins_hold_whatever_finite_numbers_the_first_version_has() {
    let scene = Scene::new();
    let mut region = Region::options().dir(scene.dir()).keep(8).create("heat").unwrap();
    let u = region.array::<f64>("u", &[4]).unwrap();
    let firsts = [
        [1e20; 4],
        [0.0, 0.0, 5e-324, 5e-324],
        [-1.7e308, 0.0, 1.0, 1.7e308],
        [f64::NEG_INFINITY, 1.0, f64::NAN, 2.0],
        [f64::INFINITY; 4],
    ];
    for (version, numbers) in (1..).zip(firsts) {
        region.slice_mut(&u).copy_from_slice(&numbers);
        region.publish(version).commit().unwrap();
        let version = version.to_string();
        let args = ["stats", "heat", "u", "--histogram", "64", "--version", &version];
        let told = scene.json(&[&args[..], &["--json"]].concat());
        let counted: u64 = told["histogram"]["counts"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
        let finite = numbers.iter().filter(|number| number.is_finite()).count() as u64;
        assert_eq!(counted, finite, "{numbers:?}: {told}");
        let infinite = numbers.iter().filter(|number| number.is_infinite()).count() as u64;
        let beside = &told["histogram"];
        assert_eq!(beside["below"].as_u64().unwrap() + beside["above"].as_u64().unwrap(), infinite, "{told}");
        assert_eq!(told["nans"].as_u64(), Some(4 - finite - infinite));
        // A second run goes on with the bins that the file names.
        let file = scene.file("u.csv");
        scene.ok(&[&args[..], &["--csv", file.to_str().unwrap()]].concat());
        let args = ["stats", "heat", "u", "--histogram", "64", "--timeout", "0", "--csv", file.to_str().unwrap()];
        scene.ok(&args);
        std::fs::remove_file(&file).unwrap();
    }
    let args = ["stats", "heat", "u", "--histogram", "2", "--range", "-1.7e308:1.7e308", "--version", "3", "--json"];
    assert_eq!(scene.json(&args)["histogram"]["counts"], serde_json::json!([1, 3]));
}
