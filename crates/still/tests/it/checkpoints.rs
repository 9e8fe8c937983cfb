//! Commands about checkpoints, against checkpoints of a real region.

use crate::support::Scene;
use std::path::PathBuf;
use stillframe::Observer;
use stillframe_checkpoint::{Keep, SaveOptions, Saver};

/// Saves versions of a region, which then goes.
fn save(scene: &Scene, name: &str, versions: &[u64]) -> PathBuf {
    let (mut region, u) = scene.region(name, &[64, 100]);
    let store = scene.file("ckpt");
    for version in versions {
        region.slice_mut(&u)[7] = *version as f64;
        region.publish(*version).attr("time", 0.5 * *version as f64).commit().unwrap();
        let snapshot = Observer::options().dir(scene.dir()).open(name).unwrap().newest().unwrap();
        let saver = Saver::open(&store, SaveOptions::new().chunk_bytes(8192)).unwrap();
        saver.save(&snapshot, &|_| {}).unwrap();
    }
    region.unlink().unwrap();
    store
}

fn damage(chunk: PathBuf) {
    let mut bytes = std::fs::read(&chunk).unwrap();
    bytes[11] ^= 1;
    // Not into the file that the checkpoint before may have, too.
    std::fs::remove_file(&chunk).unwrap();
    std::fs::write(&chunk, bytes).unwrap();
}

#[test]
fn the_newest_checkpoint_comes_back_under_its_name() {
    let scene = Scene::new();
    save(&scene, "heat", &[10, 20]);
    let said = scene.ok(&["restore", "ckpt"]);
    assert!(said.starts_with("restored heat at version 20 from ckpt/v000000000020.zarr: 50.0 KiB in"), "{said}");
    assert_eq!(scene.ok(&["get", "heat", "u[0, 7]"]).trim(), "20.0");
    let complaint = scene.complaint(1, &["restore", "ckpt"]);
    assert!(complaint.contains("still in memory, at version 20") && complaint.contains("still rm"), "{complaint}");
    let told = scene.json(&["restore", "ckpt", "--version", "10", "--replace", "--json"]);
    assert_eq!((&told["region"], &told["version"], &told["bytes"]), (&"heat".into(), &10.into(), &51_200.into()));
    assert_eq!(scene.ok(&["get", "heat", "u[0, 7]"]).trim(), "10.0");
    scene.ok(&["restore", "ckpt/v000000000020.zarr", "--as", "run/again", "--threads", "1"]);
    assert_eq!(scene.ok(&["get", "run/again", "u[0, 7]"]).trim(), "20.0");
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_is_used() {
    let scene = Scene::new();
    let store = save(&scene, "heat", &[10, 20]);
    damage(store.join("v000000000020.zarr/u/c.0.0"));
    let told = scene.still(&["restore", "ckpt"]);
    assert_eq!((told.code, told.out.contains("at version 10")), (0, true), "{} {}", told.out, told.err);
    assert!(told.err.contains("still: skipped: ") && told.err.contains("chunk [0, 0] of variable 'u'"), "{}", told.err);
    let complaint = scene.complaint(1, &["restore", "ckpt", "--version", "20", "--as", "other"]);
    assert!(complaint.contains("v000000000020.zarr/u/c.0.0 is damaged"), "{complaint}");
    damage(store.join("v000000000010.zarr/manifest.json"));
    let complaint = scene.complaint(1, &["restore", "ckpt", "--as", "other"]);
    assert!(complaint.contains("no good checkpoint") && complaint.contains("manifest.json"), "{complaint}");
    assert_eq!(complaint.matches("still verify").count(), 1, "advice is given once: {complaint}");
    assert!(!scene.ok(&["ls"]).contains("other"));
}

#[test]
fn a_damaged_description_for_other_programs_is_named_and_the_arrays_are_restored() {
    let scene = Scene::new();
    let store = save(&scene, "heat", &[10, 20]);
    damage(store.join("v000000000020.zarr/u/zarr.json"));
    std::fs::remove_file(store.join("v000000000020.zarr/zarr.json")).unwrap();
    let told = scene.still(&["restore", "ckpt"]);
    assert_eq!((told.code, told.out.contains("at version 20")), (0, true), "{} {}", told.out, told.err);
    assert!(told.err.contains("v000000000020.zarr/u/zarr.json: its content has changed"), "{}", told.err);
    assert!(told.err.contains("v000000000020.zarr/zarr.json: it is missing"), "{}", told.err);
    assert_eq!(told.err.matches("still verify").count(), 1, "{}", told.err);
    let told = scene.still(&["restore", "ckpt", "--as", "other", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(
        (json["skipped"].as_array().unwrap().len(), json["damaged"].as_array().unwrap().len()),
        (0, 2),
        "{json}"
    );
}

#[test]
fn verify_names_what_is_damaged() {
    let scene = Scene::new();
    let store = save(&scene, "heat", &[10, 20]);
    assert_eq!(scene.ok(&["verify", "ckpt"]), "version 10 is healthy\nversion 20 is healthy\n");
    damage(store.join("v000000000020.zarr/u/c.1.0"));
    std::fs::write(store.join("v000000000020.zarr/notes"), "mine").unwrap();
    let told = scene.still(&["verify", "./ckpt"]);
    let lines: Vec<&str> = told.out.lines().collect();
    assert_eq!((told.code, lines.len()), (1, 4), "{}", told.out);
    assert_eq!(lines[0], "version 10 is healthy");
    assert!(lines[1].starts_with("./ckpt/v000000000020.zarr/notes: it is no file of this checkpoint"), "{}", lines[1]);
    assert!(lines[2].contains("/u/c.1.0, chunk [1, 0] of variable 'u': its content has changed"), "{}", lines[2]);
    assert_eq!(lines[3], "2 findings in version 20");
    scene.ok(&["verify", "ckpt", "--version", "10"]);
    scene.ok(&["verify", "ckpt/v000000000010.zarr"]);
    let told = scene.still(&["verify", "ckpt", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(told["checkpoints"][1]["findings"][1]["chunk"], serde_json::json!([1, 0]));
    assert_eq!(told["checkpoints"][0]["findings"], serde_json::json!([]));
    let complaint = scene.complaint(1, &["verify", "ckpt", "--version", "11"]);
    assert!(complaint.contains("it has 10, 20"), "{complaint}");
    // A region of the same name comes first; its directory is said with a dot.
    let (mut region, _) = scene.region("ckpt", &[3]);
    region.publish(1).commit().unwrap();
    assert_eq!(scene.ok(&["verify", "ckpt"]), "ckpt is healthy\n");
    assert!(scene.complaint(2, &["verify", "ckpt", "--version", "1"]).contains("no directory of checkpoints"));
}

#[test]
fn a_store_is_listed_with_what_is_wrong_in_it() {
    let scene = Scene::new();
    let store = save(&scene, "heat", &[10, 20]);
    let listed = scene.ok(&["ls", "--store", "ckpt"]);
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["VERSION", "REGION", "SIZE", "SHARED", "FILES", "AGE", "ATTRIBUTES"]);
    assert_eq!((lines[1][0], lines[1][1], lines[2][0], *lines[2].last().unwrap()), ("10", "heat", "20", "time=10"));
    let told = scene.json(&["ls", "--store", "ckpt", "--json"]);
    assert_eq!(told["checkpoints"][1]["attributes"]["time"], 10.0);
    assert!(told["checkpoints"][1]["linked_bytes"].as_u64() > Some(0));
    damage(store.join("v000000000020.zarr/manifest.json"));
    let told = scene.still(&["ls", "--store", "ckpt"]);
    assert_eq!(told.code, 1);
    assert!(
        told.out.contains("20  damaged")
            && told.out.contains("20: ckpt/v000000000020.zarr/manifest.json")
            && !told.out.contains("may be whole"),
        "{}",
        told.out
    );
    assert!(scene.complaint(1, &["ls", "--store", "absent"]).contains("absent is not there"));
    std::fs::create_dir(scene.file("empty")).unwrap();
    assert_eq!(scene.ok(&["ls", "--store", "empty"]), "no checkpoints in empty\n");
    assert_eq!(scene.still(&["verify", "empty"]).code, 1);
}

#[test]
fn what_makes_no_sense_is_misuse() {
    let scene = Scene::new();
    save(&scene, "heat", &[10]);
    for arguments in [
        &["restore"][..],
        &["restore", "ckpt", "--as", "a b"],
        &["restore", "ckpt", "--threads", "0"],
        &["restore", "ckpt", "--version", "ten"],
        &["verify", "ckpt", "--threads", "0"],
        &["ls", "--store", "ckpt", "--ranks"],
    ] {
        scene.complaint(2, arguments);
    }
    assert!(scene.complaint(1, &["restore", "absent"]).contains("absent is not there"));
    assert!(scene.complaint(1, &["restore", "."]).contains("no good checkpoint"));
}

#[test]
fn a_store_may_have_more_checkpoints_than_a_process_may_have_files() {
    let scene = Scene::new();
    let (mut region, u) = scene.region("heat", &[8]);
    let saver = Saver::open(scene.file("ckpt"), SaveOptions::new().keep(Keep { newest: 400, every: None })).unwrap();
    let observer = Observer::options().dir(scene.dir());
    for version in 0..300 {
        region.slice_mut(&u)[7] = version as f64;
        region.publish(version).commit().unwrap();
        let snapshot = observer.clone().open("heat").unwrap().newest().unwrap();
        saver.save(&snapshot, &|_| {}).unwrap();
    }
    drop(saver);
    region.unlink().unwrap();
    let limited = |args: &[&str]| {
        let still = env!("CARGO_BIN_EXE_still");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -n 100; exec \"$0\" \"$@\"", still]).args(args);
        command.env("STILLFRAME_DIR", scene.dir()).current_dir(scene.file(""));
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {told}{}", String::from_utf8_lossy(&output.stderr));
        told
    };
    assert!(limited(&["restore", "ckpt"]).starts_with("restored heat at version 299 "));
    scene.ok(&["rm", "heat"]);
    assert_eq!(limited(&["ls", "--store", "ckpt"]).lines().count(), 301);
    assert_eq!(limited(&["verify", "./ckpt"]).lines().count(), 300);
    assert!(limited(&["safe", "ckpt"]).contains("299"));
    let step = ["step", "--state", "heat", "--to", "ckpt", "--until", "299", "--json", "--", "false"];
    let told = limited(&step);
    let begun: serde_json::Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    assert_eq!((&begun["origin"], &begun["version"]), (&"checkpoint".into(), &299.into()), "{told}");
}
