//! The commands that know objects, against writers in this process.

use crate::support;

use crate::support::{Guard, Scene, until};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use stillframe_object::relay::{Relay, Remote, RemoteFragment};
use stillframe_object::{Assembly, Object, Objects, WriteFragment};

fn objects(scene: &Scene) -> Objects {
    Objects::options().dir(scene.dir()).open().expect("objects")
}

/// An object with two variables, one of them of records.
fn mesh(scene: &Scene) -> Object {
    let text = "type Cell struct { rho float64; id int32 }\nvar u [8,6] float64\nvar cells [4]Cell";
    objects(scene).create("mesh", text).create().expect("an object")
}

/// The upper and the lower half of both variables, written by two ranks.
fn half(object: &Object, rank: u32) -> WriteFragment {
    let text = "{ var u [x:4,y:6] = u[x+row,y]; var cells [i:2] = cells[i+cell] }";
    let (row, cell) = (4 * i64::from(rank), 2 * i64::from(rank));
    object.write(text).bind("row", row).bind("cell", cell).rank(rank).attach().expect("a fragment")
}

/// Element (x, y) of u is 1000 times the version, and 10 x + y; rho of cell i is the version, and i / 2.
fn publish(fragment: &mut WriteFragment, rank: usize, version: u64) {
    let bytes = fragment.bytes_mut().unwrap();
    for at in 0..24 {
        let value = version as f64 * 1000.0 + ((at / 6 + 4 * rank) * 10 + at % 6) as f64;
        bytes[8 * at..8 * at + 8].copy_from_slice(&value.to_ne_bytes());
    }
    for at in 0..2 {
        let cell = &mut bytes[192 + 12 * at..192 + 12 * at + 12];
        let number = 2 * rank + at;
        cell[..8].copy_from_slice(&(version as f64 + number as f64 / 2.0).to_ne_bytes());
        cell[8..].copy_from_slice(&(number as i32).to_ne_bytes());
    }
    fragment.publish(version).unwrap();
}

fn both(scene: &Scene, version: u64) -> (Object, WriteFragment, WriteFragment) {
    let object = mesh(scene);
    let (mut upper, mut lower) = (half(&object, 0), half(&object, 1));
    publish(&mut upper, 0, version);
    publish(&mut lower, 1, version);
    (object, upper, lower)
}

#[test]
fn ls_lists_objects_and_not_their_fragments() {
    let scene = Scene::new();
    let (_object, mut upper, _lower) = both(&scene, 7);
    let (mut region, _) = scene.region("heat", &[10]);
    region.publish(1).commit().unwrap();
    objects(&scene).create("fresh", "var w [3] int16").create().unwrap();
    publish(&mut upper, 0, 8);

    let listed = scene.json(&["ls", "--json"]);
    let names: Vec<_> = listed["regions"].as_array().unwrap().iter().map(|region| region["name"].clone()).collect();
    assert_eq!(names, ["heat"]);
    let [fresh, mesh] = &listed["objects"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!((&fresh["name"], &fresh["state"], &fresh["newest"]), (&"fresh".into(), &"unwritten".into(), &0.into()));
    assert_eq!((&mesh["state"], &mesh["writers_alive"]), (&"live".into(), &2.into()));
    assert_eq!(mesh["variables"][1], serde_json::json!({"name": "cells", "type": "Cell", "extents": [4], "bytes": 48}));
    assert_eq!(mesh["bytes"], 8 * 6 * 8 + 48);
    assert_eq!(mesh["next"]["version"], 8);
    assert_eq!(mesh["next"]["waiting"][0]["number"], 1);

    let table = scene.ok(&["ls"]);
    assert!(!table.contains("objects/mesh/0"), "{table}");
    assert!(table.contains("u float64 (8, 6), cells Cell (4,)"), "{table}");
    let pid = std::process::id();
    assert!(table.contains(&format!("8 waits for rank 1 (process {pid})\n")), "{table}");
    assert!(scene.ok(&["ls", "--all"]).contains("objects/mesh/0"));
}

#[test]
fn ls_without_objects_is_as_ever() {
    let scene = Scene::new();
    let (mut region, _) = scene.region("heat", &[10]);
    region.publish(1).commit().unwrap();
    assert_eq!(scene.ok(&["ls"]).lines().count(), 2);
    assert_eq!(scene.json(&["ls", "--json"])["objects"], serde_json::json!([]));
}

#[test]
fn show_tells_who_has_what_and_whose_version_is_missing() {
    let scene = Scene::new();
    let (object, mut upper, lower) = both(&scene, 7);
    publish(&mut upper, 0, 8);
    let text = scene.ok(&["show", "mesh"]);
    let pid = std::process::id();
    for part in [
        "mesh: object, live, writers: 2 alive".to_owned(),
        format!("8 waits for rank 1 (process {pid})"),
        "still to come: ".to_owned(),
        "  var u [8,6] float64".to_owned(),
        "u[0..4, 0..6], cells[0..2]".to_owned(),
        format!("A  rank 0 (process {pid})"),
        "u[0..8, 0..6]: 8 × 6".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("missing"), "all of it is there\n{text}");

    let shown = scene.json(&["show", "mesh", "--json"]);
    assert_eq!(shown["writers"][1]["rank"], 1);
    assert_eq!(shown["writers"][1]["elements"], "u[4..8, 0..6], cells[2..4]");
    assert_eq!(shown["missing"], serde_json::json!([]));

    // Who has left has nothing of what comes, and had a part of what came.
    lower.detach().unwrap();
    let svg = scene.file("mesh.svg");
    let text = scene.ok(&["show", "objects/mesh", "--svg", svg.to_str().unwrap()]);
    assert!(text.contains("left before 8") && text.contains("24 missing") || text.contains("missing"), "{text}");
    assert!(std::fs::read_to_string(&svg).unwrap().contains("url(#missing)"), "holes are hatched");
    let former = scene.file("former.svg");
    std::fs::hard_link(&svg, &former).unwrap();
    let text = scene.ok(&["show", "mesh", "--version", "7", "--svg", svg.to_str().unwrap()]);
    let [old, new] = [&former, &svg].map(|file| std::fs::read(file).unwrap());
    assert!(old != new, "who has the former picture open goes on reading that");
    assert!(!text.contains("missing  ") && text.contains("rank 1") && text.contains(", left"), "{text}");
    assert_eq!(object.newest().unwrap(), 7);
    scene.complaint(1, &["show", "nobody"]);
    let (mut region, _) = scene.region("heat", &[10]);
    region.publish(1).commit().unwrap();
    scene.complaint(2, &["show", "heat", "--svg", svg.to_str().unwrap()]);
}

#[test]
fn an_object_of_three_axes_is_drawn_as_planes() {
    let scene = Scene::new();
    let object = objects(&scene).create("cube", "var c [4,4,4] int8").create().unwrap();
    let text = "{ var c [x:2,y:4,z:4] = c[x+first,y,z] }";
    let _first = object.write(text).bind("first", 0).attach().unwrap();
    let shown = scene.ok(&["show", "cube"]);
    assert!(shown.contains("[0..2, …]") && shown.contains("[2..4, …]") && shown.contains("32 missing"), "{shown}");
}

#[test]
fn get_reads_what_the_slice_selects_from_whoever_has_it() {
    let scene = Scene::new();
    let _writers = both(&scene, 2);
    assert_eq!(scene.ok(&["get", "mesh", "u[3, -1]"]), "2035.0\n");
    assert_eq!(scene.ok(&["get", "mesh", "cells.id[3]"]), "3\n");
    let text = scene.ok(&["get", "mesh", "u[3:5, ::2]"]);
    assert_eq!(text, "u[3:5, ::2] of mesh, version 2: float64 (2, 3)\n[[2030. 2032. 2034.]\n [2040. 2042. 2044.]]\n");
    let text = scene.ok(&["get", "mesh", "u[::-3, 0]"]);
    assert_eq!(text, "u[::-3, 0] of mesh, version 2: float64 (3,)\n[2070. 2040. 2010.]\n");
    let text = scene.ok(&["get", "mesh", "cells[1:3]"]);
    assert!(text.contains("i0  rho  id\n") && text.contains(" 2  3.    2\n"), "{text}");
    assert_eq!(scene.ok(&["get", "mesh", "u[5:5]"]).lines().last(), Some("[]"));

    let told = scene.json(&["get", "mesh", "u[7, 4:]", "--json"]);
    assert_eq!(told["values"], serde_json::json!([2074.0, 2075.0]));
    assert_eq!((&told["object"], &told["version"]), (&"mesh".into(), &2.into()));
    assert!(told["published_ns"].is_u64() && told["region"].is_null());

    let csv = scene.file("u.csv");
    scene.ok(&["get", "mesh", "u[:2, :2]", "-o", csv.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&csv).unwrap(), "2000.0,2001.0\n2010.0,2011.0\n");
    let npy = scene.file("u.npy");
    scene.ok(&["get", "mesh", "u", "-o", npy.to_str().unwrap()]);
    let bytes = std::fs::read(&npy).unwrap();
    assert!(String::from_utf8_lossy(&bytes[..128]).contains("'shape': (8, 6)"));
    assert_eq!(bytes[bytes.len() - 8..], 2075.0f64.to_ne_bytes());
    let png = scene.file("u.png");
    scene.ok(&["get", "mesh", "u", "-o", png.to_str().unwrap()]);
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn get_says_what_is_wrong() {
    let scene = Scene::new();
    let _writers = both(&scene, 2);
    for (slice, part) in [
        ("w", "it has u, cells"),
        ("u[8, 0]", "outside axis 0"),
        ("u[0, 0, 0]", "3 indices for 2 axes"),
        ("cells.e", "no field 'e'"),
        ("u.x", "no field 'x'"),
    ] {
        let told = scene.complaint(2, &["get", "mesh", slice]);
        assert!(told.contains(part), "{slice}: {told}");
    }
    let told = scene.complaint(1, &["get", "mesh", "u", "--version", "3"]);
    assert!(told.contains("still to come") && told.contains("rank 0"), "{told}");
    scene.complaint(1, &["get", "mesh", "u", "--version", "1"]);
    let text = "type P struct { x [3]float64; id int8 }\nvar p [5]P\nconst i0 = 3";
    objects(&scene).create("points", text).create().unwrap();
    let told = scene.complaint(2, &["get", "points", "p"]);
    assert!(told.contains("'p.x'"), "{told}");
    // A name that the object's text has for a number is none for an index.
    assert_eq!(scene.ok(&["get", "points", "p.x[1, 2]"]), "0.0\n", "the initial version is zeros");
}

/// An object whose newest complete version is 3, of which this node has nothing left, and its lower half is written elsewhere.
fn lost(scene: &Scene) -> (Object, Relay, RemoteFragment, WriteFragment) {
    let object = mesh(scene);
    let mut upper = half(&object, 0);
    let mut relay = object.relay();
    let elsewhere = RemoteFragment {
        remote: Remote { node: 1, host: "node1".into(), number: 0 },
        process: 1,
        rank: Some(1),
        from: 1,
        left: None,
        died: false,
        text: "{ var u [x:4,y:6] = u[x+4,y]; var cells [i:2] = cells[i+2] }".into(),
        bindings: Default::default(),
        writers: None,
    };
    relay.tell(std::slice::from_ref(&elsewhere)).unwrap();
    relay.decide(upper.number(), Ok(())).unwrap();
    publish(&mut upper, 0, 1);
    relay.complete(1).unwrap();
    publish(&mut upper, 0, 4);
    relay.complete(3).unwrap();
    (5..=7).for_each(|version| publish(&mut upper, 0, version));
    assert_eq!((object.newest().unwrap(), object.versions().unwrap()), (3, vec![]));
    (object, relay, elsewhere, upper)
}

#[test]
fn get_says_which_version_is_lost() {
    let scene = Scene::new();
    let _lost = lost(&scene);
    let told = scene.complaint(1, &["get", "mesh", "u[0, 0]"]);
    assert!(told.contains("version 3 cannot be had") && told.contains("rank 0"), "{told}");
    assert!(!told.contains("instead, 0"), "the initial version is zeros: {told}");
}

#[test]
fn who_saves_the_last_version_says_that_it_is_lost() {
    let rules: [(&[&str], i32); 8] = [
        (&["--every", "100", "--at-end"], 1),
        (&["--once"], 1),
        (&["--every", "2"], 1),
        (&["--every-seconds", "600"], 1),
        (&["--all"], 1),
        (&[], 1),
        // It is not due, or nobody knows whether it was.
        (&["--every", "100"], 0),
        (&["--when", "true"], 0),
    ];
    for (rules, code) in rules {
        let scene = Scene::new();
        let (_object, mut relay, mut elsewhere, upper) = lost(&scene);
        let store = scene.file("store");
        let mut command = scene.command(&[&["checkpoint", "mesh", "--to", store.to_str().unwrap()], rules].concat());
        let saver = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        upper.detach().unwrap();
        elsewhere.left = Some(8);
        relay.tell(&[elsewhere]).unwrap();
        let output = support::wait(saver);
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(told.contains("missed version 3"), rules != ["--every", "100"], "{rules:?}: {told}");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{rules:?}: {complaint}");
        assert_eq!(complaint.contains("version 3 is not saved"), code == 1, "{rules:?}: {complaint}");
    }
}

#[test]
fn a_long_array_is_abbreviated_and_both_ends_are_right() {
    let scene = Scene::new();
    let object = objects(&scene).create("long", "var w [100,200] int32").create().unwrap();
    for rank in 0..2 {
        let text = "{ var w [x:50,y:200] = w[x+first,y] }";
        let mut half = object.write(text).bind("first", 50 * rank).attach().unwrap();
        let values = half.variable_mut::<i32>("w").unwrap().iter_mut().enumerate();
        values.for_each(|(at, value)| *value = at as i32 + 10_000 * rank as i32);
        half.publish(1).unwrap();
        half.detach().unwrap();
    }
    let text = scene.ok(&["get", "long", "w"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "[[    0     1     2 ...   197   198   199]", "{text}");
    assert_eq!(lines.last(), Some(&" [19800 19801 19802 ... 19997 19998 19999]]"), "{text}");
}

#[test]
fn get_waits_for_elements_and_not_for_the_rest() {
    let scene = Scene::new();
    let dir = scene.dir();
    let command = ["get", "mesh", "u[0, 0]", "--version", "5", "--wait", "60"];
    let child = scene.command(&command).stdout(Stdio::piped()).spawn().unwrap();
    // It waits for the object, and then for the rows of one of the writers.
    std::thread::sleep(Duration::from_millis(100));
    assert!(!dir.exists() || objects(&scene).list().unwrap().is_empty());
    let object = mesh(&scene);
    let (mut upper, _lower) = (half(&object, 0), half(&object, 1));
    publish(&mut upper, 0, 5);
    let output = support::wait(child);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "5000.0\n");
}

#[test]
fn a_region_comes_before_an_object_of_its_name() {
    let scene = Scene::new();
    let _writers = both(&scene, 7);
    let (mut region, u) = scene.region("mesh", &[3]);
    region.slice_mut(&u).fill(0.5);
    region.publish(1).commit().unwrap();
    assert_eq!(scene.ok(&["get", "mesh", "u[0]"]), "0.5\n");
    assert_eq!(scene.ok(&["get", "objects/mesh", "u[0, 0]"]), "7000.0\n");
    assert!(scene.ok(&["show", "mesh"]).contains("tracker"));
    assert!(scene.ok(&["show", "objects/mesh"]).contains("mesh: object"));
    assert!(scene.ok(&["show", "objects/mesh/0"]).contains("tracker"));
}

#[test]
fn watch_has_a_line_for_each_version() {
    let scene = Scene::new();
    let (_object, mut upper, mut lower) = both(&scene, 1);
    let mut child = scene.command(&["watch", "mesh", "--impolite", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let _guard = Guard(child);
    let mut next = || serde_json::from_str::<serde_json::Value>(&lines.next().unwrap().unwrap()).unwrap();
    // When a version takes long, a line says whose part is missing.
    let version = |next: &mut dyn FnMut() -> serde_json::Value| loop {
        let line = next();
        if line["next"].is_null() {
            return line;
        }
    };
    assert_eq!(next()["version"], 1);
    publish(&mut upper, 0, 2);
    publish(&mut lower, 1, 2);
    let line = version(&mut next);
    assert_eq!((&line["version"], &line["writers_alive"]), (&2.into(), &2.into()));
    publish(&mut upper, 0, 3);
    // On a busy machine there may be one before the first half is published, too.
    let line = loop {
        let line = next();
        assert_eq!(line["next"]["version"], 3, "{line}");
        if line["next"]["waiting"].as_array().unwrap().len() == 1 {
            break line;
        }
    };
    assert_eq!(line["next"]["waiting"][0]["number"], 1);
    publish(&mut lower, 1, 3);
    assert_eq!(version(&mut next)["version"], 3);
    upper.detach().unwrap();
    lower.detach().unwrap();
    until("watch ends", || lines.next().is_none());
}

#[test]
fn watch_once_shows_what_is_complete() {
    let scene = Scene::new();
    let _writers = both(&scene, 4);
    let text = scene.ok(&["watch", "mesh", "--once", "--impolite"]);
    assert!(text.starts_with("mesh: version 4, writers: 2 alive, "), "{text}");
}

/// Not a test of its own: another process, which writes the lower half of the mesh and waits to be killed.
#[test]
fn a_writer_for_other_tests() {
    let Some(dir) = std::env::var_os("STILL_TEST_WRITER") else { return };
    let object = Objects::options().dir(dir).open().unwrap().object_named("mesh").unwrap();
    let mut lower = half(&object, 1);
    publish(&mut lower, 1, 7);
    std::thread::sleep(Duration::from_secs(60));
}

fn other_writer(scene: &Scene) -> Guard {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "objects::a_writer_for_other_tests"])
        .env("STILL_TEST_WRITER", scene.dir())
        .stdout(Stdio::null());
    Guard(command.spawn().unwrap())
}

#[test]
fn a_writer_that_died_is_named_and_what_it_left_stays_as_long_as_it_is_needed() {
    let scene = Scene::new();
    let object = mesh(&scene);
    let mut upper = half(&object, 0);
    publish(&mut upper, 0, 7);
    let writer = other_writer(&scene);
    let pid = writer.0.id();
    until("version 7", || object.newest().unwrap() == 7);
    publish(&mut upper, 0, 8);
    drop(writer);

    let text = scene.ok(&["ls"]);
    let note = format!("mesh: version 7 is complete; 8 waits for rank 1 (process {pid}), which died\n");
    assert!(text.contains("partial") && text.contains("1 alive, 1 died") && text.contains(&note), "{text}");
    let text = scene.ok(&["show", "mesh"]);
    assert!(text.contains(&note[6..note.len() - 1]) && text.contains(&format!("(process {pid}), died")), "{text}");
    let shown = scene.json(&["show", "mesh", "--json"]);
    assert_eq!((&shown["object"]["state"], &shown["writers"][1]["state"]), (&"partial".into(), &"died".into()));
    assert_eq!(shown["object"]["next"]["waiting"][0]["died"], true);

    // Version 7 needs it.
    assert!(scene.ok(&["gc"]).starts_with("nothing to remove"));
    assert_eq!(scene.ok(&["get", "mesh", "u[7, 0]"]), "7070.0\n");
    let mut lower = half(&object, 1);
    publish(&mut lower, 1, 8);
    assert!(scene.ok(&["gc"]).starts_with("removed objects/mesh/1, "));
    assert_eq!(scene.ok(&["get", "mesh", "u[7, 0]"]), "8070.0\n");
}

#[test]
fn rm_removes_an_object_that_nobody_writes() {
    let scene = Scene::new();
    let (_object, upper, lower) = both(&scene, 7);
    let told = scene.complaint(1, &["rm", "mesh"]);
    assert!(told.contains("rank 0"), "{told}");
    for part in ["objects/mesh/0", "objects"] {
        let told = scene.complaint(1, &["rm", part]);
        assert!(told.contains("mesh"), "{told}");
    }
    upper.detach().unwrap();
    lower.detach().unwrap();
    let told = scene.json(&["rm", "mesh", "--json"]);
    assert!(told["freed_bytes"].as_u64().unwrap() > 0 && told["object"] == "mesh", "{told}");
    assert!(scene.ok(&["ls"]).starts_with("no regions in "), "{}", scene.ok(&["ls"]));

    let (_object, _upper, _lower) = both(&scene, 7);
    scene.ok(&["rm", "mesh", "--force"]);
    scene.complaint(1, &["show", "mesh"]);
}

#[test]
fn gc_keeps_what_a_complete_version_needs() {
    let scene = Scene::new();
    let (object, upper, mut lower) = both(&scene, 7);
    upper.detach().unwrap();
    // The version is complete, and half of it is of a writer that is gone.
    assert_eq!(scene.json(&["gc", "--json"]), serde_json::json!({"dry_run": false, "regions": [], "objects": []}));
    assert_eq!(scene.ok(&["get", "mesh", "u[0, 0]"]), "7000.0\n");

    // Another one writes that half from now on, so that what the first one left is needed no more.
    let mut upper = half(&object, 0);
    publish(&mut upper, 0, 8);
    publish(&mut lower, 1, 8);
    let dry = scene.json(&["gc", "--dry-run", "--json"]);
    assert_eq!(dry["regions"][0]["region"], "objects/mesh/0", "{dry}");
    assert!(scene.ok(&["ls", "--all"]).contains("objects/mesh/0"));
    assert!(scene.ok(&["gc"]).starts_with("removed objects/mesh/0, "));
    assert!(!scene.ok(&["ls", "--all"]).contains("objects/mesh/0"));
    assert_eq!(scene.ok(&["get", "mesh", "u[0, 0]"]), "8000.0\n");

    // As a region: once nobody writes it and nobody holds it, all of it goes.
    upper.detach().unwrap();
    lower.detach().unwrap();
    let region = &object.writers().unwrap()[0].region;
    let held = stillframe::Observer::options().dir(scene.dir()).open(region).unwrap().newest().unwrap();
    assert!(scene.ok(&["gc"]).starts_with("nothing to remove"), "somebody holds a part of it");
    drop(held);
    assert!(scene.ok(&["gc", "--dry-run"]).starts_with("would remove object mesh, "));
    assert!(scene.ok(&["gc"]).starts_with("removed object mesh, "));
    scene.complaint(1, &["show", "mesh"]);
}

#[test]
fn gc_leaves_an_object_that_nobody_has_written_yet() {
    let scene = Scene::new();
    let _object = mesh(&scene);
    assert!(scene.ok(&["gc"]).starts_with("nothing to remove"));
    assert!(scene.ok(&["show", "mesh"]).contains("mesh: object, unwritten"));
}

#[test]
fn what_is_wrong_with_an_object_is_told_beside_the_others() {
    let scene = Scene::new();
    let _writers = both(&scene, 7);
    let other = objects(&scene).create("other", "var w [3] int16").create().unwrap();
    let _writer = other.write("{ var w = w }").attach().unwrap();
    let board = scene.dir().join(".objects/boards/other");
    std::fs::write(&board, vec![7; 100]).unwrap();
    let table = scene.ok(&["ls"]);
    assert!(table.lines().nth(1).is_some_and(|line| line.starts_with("mesh ")), "{table}");
    assert!(table.contains("other: ") && table.contains("damaged at byte 0"), "{table}");
    let listed = scene.json(&["ls", "--json"]);
    assert_eq!(listed["faults"][0]["name"], "other");
    let told = scene.complaint(1, &["show", "other"]);
    assert!(told.contains("damaged at byte 0"), "{told}");
    let told = scene.still(&["gc"]);
    assert!(told.code == 1 && told.out.contains("left object other: "), "{}", told.out);
    assert_eq!(scene.ok(&["get", "mesh", "u[0, 0]"]), "7000.0\n");
    // Its writer lives, as far as can be seen.
    scene.complaint(1, &["rm", "other"]);
    scene.ok(&["rm", "other", "--force"]);
    std::fs::write(scene.dir().join(".objects/names/third"), "{").unwrap();
    scene.complaint(1, &["show", "third"]);
    scene.ok(&["rm", "third"]);
    let table = scene.ok(&["ls"]);
    assert!(!table.contains("other") && !table.contains("third"), "{table}");
}

/// One variable may take as many, so that all are counted in as many bits.
#[test]
fn variables_that_take_more_bytes_than_can_be_counted_are_no_object_and_hide_no_other() {
    let scene = Scene::new();
    let _writers = both(&scene, 7);
    let text = "var a [n] int8; var b [2] int8";
    let create = |name: &str, text: &str, n: i64| objects(&scene).create(name, text).bind("n", n).create();
    let large = create("large", text, i64::MAX - 2).unwrap();
    assert!(Assembly::new(&large, 2).is_err());
    let eighth = (1 << 60) - 1;
    for (text, n) in [
        (text, i64::MAX - 1),
        ("var a [n] float64; var b [n] float64; var c [n] float64", eighth),
        ("type Pair struct { x float64; y float64 }; var a [n] Pair; var b [n] Pair", eighth / 2),
    ] {
        let error = create("many", text, n).unwrap_err().to_string();
        assert!(error.contains("bytes together") && error.contains(&i64::MAX.to_string()), "{error}");
    }
    // As it may have come from elsewhere.
    let names = scene.dir().join(".objects/names");
    let described = std::fs::read_to_string(names.join("large")).unwrap();
    std::fs::write(names.join("many"), described.replace("b [2]", "b [n] int8; var c [n]")).unwrap();
    let table = scene.ok(&["ls"]);
    for name in ["mesh ", "large ", "many: "] {
        assert!(table.lines().any(|line| line.starts_with(name)), "{table}");
    }
    scene.ok(&["show", "large"]);
    for args in
        [&["show", "many"][..], &["checkpoint", "many", "--to", scene.file("store").to_str().unwrap(), "--once"]]
    {
        assert!(scene.complaint(1, args).contains("bytes together"));
    }
    scene.ok(&["rm", "many"]);
    assert!(!scene.ok(&["ls"]).contains("many"));
}

#[test]
fn checkpoints_of_an_object_have_each_variable_as_one_array_and_bring_it_back() {
    let scene = Scene::new();
    let (object, mut upper, mut lower) = both(&scene, 7);
    let store = scene.dir().join("store");
    let store = store.to_str().unwrap();
    let said = scene.ok(&["checkpoint", "mesh", "--to", store, "--once"]);
    for array in ["u", "cells.rho", "cells.id"] {
        let file = format!("v000000000007.zarr/{array}/zarr.json");
        assert!(std::path::Path::new(store).join(&file).is_file(), "{file}: {said}");
    }
    // Multiples of 4 as they come, and the last one when all writers have left.
    let mut command = scene.command(&["checkpoint", "mesh", "--to", store, "--every", "4", "--at-end", "--keep", "9"]);
    let mut saver = Guard(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(saver.0.stdout.take().unwrap()).lines();
    let safe = |version: u64| std::path::Path::new(store).join(format!("v{version:012}.zarr")).is_dir();
    for version in 8..=14 {
        publish(&mut upper, 0, version);
        publish(&mut lower, 1, version);
        if version % 4 == 0 {
            until("a multiple of 4 is safe", || safe(version));
        }
    }
    drop((upper, lower));
    until("it ends with its writers", || saver.0.try_wait().unwrap().is_some());
    let said: Vec<String> = lines.by_ref().map_while(Result::ok).collect();
    assert!(saver.0.wait().unwrap().success(), "{said:?}");
    assert!(safe(14) && !safe(9) && !safe(13));

    let expected = scene.ok(&["get", "mesh", "u"]);
    scene.ok(&["rm", "mesh"]);
    assert!(object.newest().is_err() || object.versions().unwrap().is_empty());
    scene.ok(&["restore", store]);
    assert_eq!(scene.ok(&["get", "mesh", "u"]), expected);
    let again = objects(&scene).object_named("mesh").unwrap();
    assert_eq!(again.newest().unwrap(), 14);
    // Any number of writers goes on from there.
    let mut whole = again.write("{ var u = u; var c = cells }").attach().unwrap();
    assert_eq!(whole.variable_mut::<f64>("u").unwrap()[9], 14013.0);
    whole.publish(15).unwrap();
    assert_eq!(again.newest().unwrap(), 15);
    scene.ok(&["restore", store, "--as", "other", "--version", "12"]);
    assert_eq!(objects(&scene).object_named("other").unwrap().newest().unwrap(), 12);
    scene.complaint(1, &["restore", store]);
}

/// Memory of a process that has a name and no file.
fn memory_bytes(process: u32, name: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
    let is_named = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains(&format!("memfd:{name}")))
    };
    let found = descriptors.map(|entry| entry.path()).filter(is_named);
    found.filter_map(|path| std::fs::metadata(path).ok()).map(|about| about.blocks() * 512).max().unwrap_or(0)
}

#[test]
fn who_saves_an_object_keeps_one_version_of_it() {
    const BYTES: u64 = 32 << 20;
    let scene = Scene::new();
    let text = format!("var u [{}] float64", BYTES / 8);
    let object = objects(&scene).create("large", &text).create().unwrap();
    let mut writer = object.write("{ var u = u }").attach().unwrap();
    let store = scene.file("store");
    let args = ["checkpoint", "large", "--to", store.to_str().unwrap(), "--every", "1"];
    let mut saver = Guard(scene.command(&args).stdout(Stdio::null()).spawn().unwrap());
    until("it begins", || store.is_dir());
    for version in 1..=4 {
        writer.variable_mut::<f64>("u").unwrap().fill(version as f64);
        writer.publish(version).unwrap();
        until("the version is safe", || store.join(format!("v{version:012}.zarr")).is_dir());
    }
    // Its memory, and that of the next.
    until("only the newest is there", || {
        let bytes = memory_bytes(saver.0.id(), "stillframe-object");
        (BYTES..BYTES * 5 / 2).contains(&bytes)
    });
    drop(writer);
    until("it ends with its writers", || saver.0.try_wait().unwrap().is_some());
}

#[test]
fn an_object_may_come_after_who_saves_it() {
    let scene = Scene::new();
    let store = scene.dir().join("store");
    let mut command = scene.command(&["checkpoint", "mesh", "--to", store.to_str().unwrap(), "--wait", "60", "--once"]);
    let mut saver = Guard(command.stdout(Stdio::null()).spawn().unwrap());
    until("it waits", || store.is_dir());
    let (_object, _upper, _lower) = both(&scene, 3);
    until("it ends", || saver.0.try_wait().unwrap().is_some());
    assert!(saver.0.wait().unwrap().success());
    assert!(store.join("v000000000003.zarr/u/zarr.json").is_file());
}

#[test]
fn a_condition_leaves_versions_of_an_object_out_and_goes_on() {
    let scene = Scene::new();
    let (_object, mut upper, mut lower) = both(&scene, 7);
    let store = scene.dir().join("store");
    let store = store.to_str().unwrap();
    let mut command = scene.command(&["checkpoint", "mesh", "--to", store, "--when", "version % 3 == 0", "--impolite"]);
    let mut saver = Guard(command.stdout(Stdio::null()).spawn().unwrap());
    let safe = |version: u64| std::path::Path::new(store).join(format!("v{version:012}.zarr")).is_dir();
    let mut version = 7;
    until("a version for which it holds is safe", || {
        version += 1;
        publish(&mut upper, 0, version);
        publish(&mut lower, 1, version);
        std::thread::sleep(Duration::from_millis(100));
        (7..=version).any(safe)
    });
    drop((upper, lower));
    until("it ends with its writers", || saver.0.try_wait().unwrap().is_some());
    assert!((7..=version).filter(|version| safe(*version)).all(|version| version % 3 == 0));
}

#[test]
fn who_saves_an_object_ends_when_that_is_removed() {
    let scene = Scene::new();
    let (_object, upper, lower) = both(&scene, 7);
    let store = scene.dir().join("store");
    let command = &["checkpoint", "mesh", "--to", store.to_str().unwrap(), "--every", "7"];
    let mut saver = Guard(scene.command(command).stdout(Stdio::null()).spawn().unwrap());
    until("the version is safe", || store.join("v000000000007.zarr").is_dir());
    scene.ok(&["rm", "mesh", "--force"]);
    until("it ends with its object", || saver.0.try_wait().unwrap().is_some());
    assert!(saver.0.wait().unwrap().success());
    drop((upper, lower));
}

/// A region in an arena, as those that are made of objects to be saved, with attributes of versions.
fn like_an_object(scene: &Scene, name: &str, version: u64, text: &str, initial: i64) {
    let own = scene.dir().join("object");
    if !own.is_dir() {
        stillframe::Arena::options().dir(scene.dir()).bytes(1 << 28).regions(4).create("object").unwrap();
    }
    let mut region = stillframe::Region::options().dir(own).create(name).unwrap();
    let array = region.array::<f64>("u", &[8, 6]).unwrap();
    region.slice_mut(&array).fill(1.0);
    region.publish(version).attr("object", text).attr("object_initial", initial).commit().unwrap();
}

#[test]
fn what_cannot_be_restored_replaces_nothing() {
    let scene = Scene::new();
    let (_object, upper, lower) = both(&scene, 7);
    drop((upper, lower));
    let expected = scene.ok(&["get", "mesh", "u"]);
    // No text, one of another object, and one whose version is not above the initial one.
    let texts = [("var u [8,6 float64", 0), ("var u [8,7] float64", 0), ("var u [8,6] float64", 9)];
    for (number, (text, initial)) in texts.into_iter().enumerate() {
        let (name, store) = (format!("m{number}"), scene.file(&format!("store-{number}")));
        like_an_object(&scene, &name, 9, text, initial);
        scene.ok(&["checkpoint", &format!("object/{name}"), "--to", store.to_str().unwrap(), "--once"]);
        let told = scene.still(&["restore", store.to_str().unwrap(), "--as", "mesh", "--replace"]);
        assert_ne!(told.code, 0, "{}", told.out);
        assert_eq!(scene.ok(&["get", "mesh", "u"]), expected, "{}", told.err);
    }
    like_an_object(&scene, "good", 9, "var u [8,6] float64", 0);
    let store = scene.file("store");
    scene.ok(&["checkpoint", "object/good", "--to", store.to_str().unwrap(), "--once"]);
    scene.ok(&["restore", store.to_str().unwrap(), "--as", "mesh", "--replace"]);
    assert_eq!(scene.ok(&["get", "mesh", "u[0, 0]"]), "1.0\n");
}

#[test]
fn what_anybody_wrote_of_an_object_stays_where_it_is_not_to_be_replaced() {
    let scene = Scene::new();
    let store = scene.file("store");
    let store = store.to_str().unwrap();
    drop(both(&scene, 9));
    scene.ok(&["checkpoint", "mesh", "--to", store, "--once"]);
    type Leave = fn(WriteFragment, WriteFragment) -> Vec<WriteFragment>;
    let leaves: [(&str, Leave); 4] = [
        ("all-left", |_, _| Vec::new()),
        ("one-lives", |upper, _| vec![upper]),
        ("one-never-published", |_, lower| vec![lower]),
        ("a-newer-one", |mut upper, mut lower| {
            publish(&mut upper, 0, 12);
            publish(&mut lower, 1, 12);
            Vec::new()
        }),
    ];
    for (name, leave) in leaves {
        scene.ok(&["rm", "mesh"]);
        let object = mesh(&scene);
        let (mut upper, mut lower) = (half(&object, 0), half(&object, 1));
        publish(&mut upper, 0, 2);
        if name != "one-never-published" {
            publish(&mut lower, 1, 2);
        }
        let living = leave(upper, lower);
        let about = || (scene.json(&["show", "mesh", "--json"])["writers"].clone(), object.newest().unwrap());
        let before = about();
        let complaint = scene.complaint(1, &["restore", store]);
        let says = format!("'mesh' is still in memory, at version {}", before.1);
        assert!(complaint.contains(&says) && complaint.contains("--replace"), "{name}: {complaint}");
        assert_eq!(about(), before, "{name}");
        drop(living);
    }
    scene.ok(&["restore", store, "--replace"]);
    assert_eq!(scene.ok(&["get", "mesh", "u[0, 0]"]), "9000.0\n");
    // Nobody wrote it yet.
    scene.ok(&["rm", "mesh"]);
    drop(half(&mesh(&scene), 0));
    scene.ok(&["restore", store]);
    assert_eq!(scene.ok(&["get", "mesh", "u[0, 0]"]), "9000.0\n");
}

#[test]
fn a_region_that_says_something_of_an_object_is_restored_as_a_region() {
    let scene = Scene::new();
    let (mut region, array) = scene.region("heat", &[10]);
    region.slice_mut(&array).fill(1.0);
    region.publish(3).attr("object", "airfoil").commit().unwrap();
    let store = scene.file("store");
    scene.ok(&["checkpoint", "heat", "--to", store.to_str().unwrap(), "--once"]);
    scene.ok(&["restore", store.to_str().unwrap(), "--as", "again"]);
    assert_eq!(scene.ok(&["get", "again", "u[0]"]), "1.0\n");
}

#[test]
fn of_several_rules_for_versions_of_an_object_each_is_enough() {
    let scene = Scene::new();
    let (_object, mut upper, mut lower) = both(&scene, 1);
    let store = scene.file("store");
    let text = store.to_str().unwrap();
    let rules = ["--every", "4", "--every-seconds", "600", "--keep", "9"];
    let mut saver = Guard(
        scene
            .command(&[&["checkpoint", "mesh", "--to", text][..], &rules].concat())
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let safe = |version: u64| store.join(format!("v{version:012}.zarr")).is_dir();
    until("the first is safe", || safe(1));
    for version in 2..=8 {
        publish(&mut upper, 0, version);
        publish(&mut lower, 1, version);
        if version % 4 == 0 {
            until("a multiple of 4 is safe", || safe(version));
        }
    }
    drop((upper, lower));
    until("it ends with its writers", || saver.0.try_wait().unwrap().is_some());
    assert!(!safe(2) && !safe(3) && !safe(5));
}

#[test]
fn all_versions_of_an_object_are_those_that_the_rules_name() {
    let scene = Scene::new();
    let (_object, mut upper, mut lower) = both(&scene, 1);
    let store = scene.file("store");
    let text = store.to_str().unwrap();
    let rules = ["--all", "--every", "3", "--when", "version == 5", "--keep", "9"];
    let mut saver = Guard(
        scene
            .command(&[&["checkpoint", "mesh", "--to", text][..], &rules].concat())
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let safe = |version: u64| store.join(format!("v{version:012}.zarr")).is_dir();
    until("it begins", || store.is_dir());
    for version in 2..=7 {
        publish(&mut upper, 0, version);
        publish(&mut lower, 1, version);
        // A writer waits for nobody.
        if [3, 5, 6].contains(&version) {
            until("a version that a rule names is safe", || safe(version));
        }
    }
    drop((upper, lower));
    until("it ends with its writers", || saver.0.try_wait().unwrap().is_some());
    let saved: Vec<u64> = (1..=7).filter(|version| safe(*version)).collect();
    assert_eq!(saved, [3, 5, 6]);
}

#[test]
fn who_saves_all_versions_of_an_object_keeps_to_the_memory_it_was_given() {
    const BYTES: u64 = 8 << 20;
    let scene = Scene::new();
    let text = format!("var u [{}] float64", BYTES / 8);
    let object = objects(&scene).create("large", &text).create().unwrap();
    let mut writer = object.write("{ var u = u }").attach().unwrap();
    let store = scene.file("store");
    let args = ["checkpoint", "large", "--to", store.to_str().unwrap(), "--all", "--held", "1", "--held-bytes", "8M"];
    let mut saver = Guard(scene.command(&args).stdout(Stdio::null()).spawn().unwrap());
    until("it begins", || store.is_dir());
    for version in 1..=8 {
        writer.variable_mut::<f64>("u").unwrap().fill(version as f64);
        writer.publish(version).unwrap();
        until("the version is safe", || store.join(format!("v{version:012}.zarr")).is_dir());
    }
    let bytes = memory_bytes(saver.0.id(), "stillframe-object");
    assert!(bytes <= 3 * BYTES, "{bytes} bytes");
    drop(writer);
    until("it ends with its writers", || saver.0.try_wait().unwrap().is_some());
}

/// A `still checkpoint --all` of an object, whose first version is safe, and which can save nothing more until somebody mends its store.
struct StuckSaver {
    saver: Guard,
    lines: Box<dyn Iterator<Item = String>>,
    writer: WriteFragment,
    first: u64,
    store: PathBuf,
    away: PathBuf,
}

impl StuckSaver {
    fn new(scene: &Scene, elements: usize, first: u64, rules: &[&str]) -> StuckSaver {
        let object = objects(scene).create("heat", &format!("var u [{elements}] int64")).create().unwrap();
        let mut writer = object.write("{ var u = u }").keep(16).attach().unwrap();
        let (store, away) = (scene.file("store"), scene.file("away"));
        std::fs::create_dir(&store).unwrap();
        let args = [&["checkpoint", "heat", "--to", store.to_str().unwrap(), "--all", "--json"][..], rules].concat();
        let mut command = scene.command(&args);
        // It does not pause for long.
        let command = command.env("STILLFRAME_PAUSE_MS", "100").stdout(Stdio::piped());
        let mut saver = Guard(command.spawn().unwrap());
        let lines = BufReader::new(saver.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        _ = writer.publish(first).unwrap();
        let lines = Box::new(lines);
        let mut stuck = StuckSaver { saver, lines, writer, first, store, away };
        stuck.await_line("\"saved\"");
        // Nothing can be saved in a file.
        std::fs::rename(&stuck.store, &stuck.away).unwrap();
        std::fs::write(&stuck.store, "").unwrap();
        stuck
    }

    fn await_line(&mut self, words: &str) {
        assert!(self.lines.any(|line| line.contains(words)), "it ended before {words}");
    }

    fn publish_until(&mut self, last: u64) {
        (self.first + 1..=last).for_each(|version| _ = self.writer.publish(version).unwrap());
    }

    fn mend(&self) {
        // In one step: a save that finds nothing makes a new one.
        renameat_with(CWD, &self.away, CWD, &self.store, RenameFlags::EXCHANGE).unwrap();
    }

    /// Leaves as its writer; the exit code, and the last line.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.writer);
        let last = self.lines.last().unwrap_or_default();
        (self.saver.0.wait().unwrap().code(), last)
    }
}

/// What the writers keep is saved, however long that takes, and nothing of it is left out.
#[test]
fn all_versions_that_writers_keep_are_saved_in_the_end_though_nothing_can_be_for_a_while() {
    for (elements, rules) in [(6, &["--held", "2"][..]), (2 << 20, &["--keep", "1"])] {
        let scene = Scene::new();
        let mut stuck = StuckSaver::new(&scene, elements, 1, rules);
        stuck.publish_until(16);
        (0..4).for_each(|_| stuck.await_line("\"failed\""));
        stuck.mend();
        stuck.await_line("\"version\":16");
        let (code, last) = stuck.end();
        assert_eq!(code, Some(0), "{last}");
        assert!(last.contains("\"saved\":16") && last.contains("\"missed\":0"), "{elements}: {last}");
    }
}

/// Something could not be saved for a while, and what is behind it waits when all writers have left.
#[test]
fn versions_that_wait_when_the_writers_leave_are_saved_once_that_can_be() {
    let scene = Scene::new();
    let mut stuck = StuckSaver::new(&scene, 6, 1, &["--held", "16"]);
    stuck.publish_until(16);
    // Before the next try there is time for all others to end.
    (0..3).for_each(|_| stuck.await_line("\"failed\""));
    stuck.mend();
    let (code, last) = stuck.end();
    assert_eq!(code, Some(0), "{last}");
    assert!(last.contains("\"saved\":16") && last.contains("\"missed\":0"), "{last}");
}

#[test]
fn who_can_save_nothing_ends_with_the_writers() {
    let multiples = &["--held", "1", "--every", "2"];
    for (first, last, rules, unsaved) in
        [(1, 5, &["--held", "1"][..], "[2,3,4,5]"), (2, 5, multiples, "[4]"), (2, 7, multiples, "[4,6]")]
    {
        let scene = Scene::new();
        let mut stuck = StuckSaver::new(&scene, 6, first, rules);
        stuck.publish_until(last);
        stuck.await_line("\"failed\"");
        let (code, last) = stuck.end();
        assert_eq!(code, Some(1), "{last}");
        assert!(last.contains(&format!("\"unsaved\":{unsaved}")), "{rules:?}: {last}");
    }
}

/// What waits for room, and was not read.
#[test]
fn versions_that_go_with_their_object_before_there_is_room_for_them_are_not_saved() {
    let scene = Scene::new();
    let mut stuck = StuckSaver::new(&scene, 6, 1, &["--held", "1"]);
    stuck.publish_until(4);
    (0..3).for_each(|_| stuck.await_line("\"failed\""));
    scene.ok(&["rm", "--force", "heat"]);
    stuck.await_line("\"version\":4");
    stuck.mend();
    let (code, last) = stuck.end();
    assert_eq!(code, Some(1), "{last}");
    assert!(last.contains("3,4]"), "{last}");
}

#[test]
fn no_fewer_than_one_version_is_held() {
    let scene = Scene::new();
    let _object = both(&scene, 1);
    for held in ["0", "33"] {
        let told = scene.complaint(2, &["checkpoint", "mesh", "--to", "store", "--all", "--held", held]);
        assert!(told.contains("1..=32"), "{told}");
    }
}
