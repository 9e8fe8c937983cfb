//! Objects that are saved over several runs, restored, and meant by a name.

use crate::support::{Guard, Scene, until};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use stillframe_object::Objects;

fn objects(scene: &Scene) -> Objects {
    Objects::options().dir(scene.dir()).open().expect("objects")
}

/// Creates an object, and publishes its number in all elements of each version.
fn publish_all(scene: &Scene, name: &str, versions: impl IntoIterator<Item = u64>) {
    let object = objects(scene).create(name, "var u [6] int64").create().unwrap();
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    for version in versions {
        writer.variable_mut::<i64>("v").unwrap().fill(version as i64);
        writer.publish(version).unwrap();
    }
    writer.detach().unwrap();
}

fn is_safe(store: &Path, version: u64) -> bool {
    store.join(format!("v{version:012}.zarr")).is_dir()
}

#[test]
fn who_saves_an_object_follows_the_next_one_of_its_name() {
    let scene = Scene::new();
    publish_all(&scene, "heat", [9]);
    let store = scene.file("store");
    let args = ["checkpoint", "heat", "--to", store.to_str().unwrap(), "--every", "1", "--follow", "600", "--json"];
    let mut saver = Guard(scene.command(&args).stdout(Stdio::piped()).spawn().unwrap());
    until("a version of the first run is safe", || is_safe(&store, 9));
    scene.ok(&["rm", "heat"]);
    publish_all(&scene, "heat", [3]);
    until("a version of the next run is safe", || is_safe(&store, 3));
    assert!(!is_safe(&store, 9), "those of the first run are set aside");
    // Ctrl-C ends it, wherever it waits.
    interrupt(&saver.0);
    until("it ends", || saver.0.try_wait().unwrap().is_some());
    let said = std::io::read_to_string(saver.0.stdout.take().unwrap()).unwrap();
    assert!(saver.0.wait().unwrap().success(), "{said}");
    assert!(said.lines().any(|line| line.contains("\"new-run\"")), "{said}");
    let ended = said.lines().last().unwrap();
    assert!(ended.contains("\"ended\"") && ended.contains("\"saved\":2"), "both runs count: {ended}");
}

fn interrupt(child: &std::process::Child) {
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
}

/// The run of which nobody writes a part is told of, and the next one, which was mended, is saved.
#[test]
fn who_saves_an_object_follows_one_of_which_nobody_writes_a_part_to_the_next() {
    let scene = Scene::new();
    let object = objects(&scene).create("heat", "var u [6] int64").create().unwrap();
    let mut writer = object.write("{ var v [x:4] = u[x] }").writers(1).attach().unwrap();
    writer.publish(9).unwrap();
    let store = scene.file("store");
    let args = ["checkpoint", "heat", "--to", store.to_str().unwrap(), "--every", "1", "--follow", "600", "--json"];
    let mut saver = Guard(scene.command(&args).stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(saver.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said = Arc::new(Mutex::new(Vec::new()));
    let saying = said.clone();
    let reading = std::thread::spawn(move || {
        lines.for_each(|line| saying.lock().unwrap().push(line));
    });
    let has_told =
        |what: &[&str]| said.lock().unwrap().iter().any(|line: &String| what.iter().all(|word| line.contains(word)));
    until("it says which part nobody writes", || has_told(&["\"failed\"", "\"version\":9", "u[4..6]"]));
    writer.detach().unwrap();
    scene.ok(&["rm", "heat"]);
    publish_all(&scene, "heat", [3]);
    until("a version of the next run is safe", || is_safe(&store, 3));
    interrupt(&saver.0);
    assert!(saver.0.wait().unwrap().success(), "{said:?}");
    reading.join().unwrap();
    assert!(has_told(&["\"new-run\""]), "{said:?}");
}

#[test]
fn who_saves_an_object_of_which_nobody_writes_a_part_is_told_so() {
    let scene = Scene::new();
    let object = objects(&scene).create("mesh", "var u [6] int64").create().unwrap();
    let mut writers =
        [0, 2].map(|at| object.write("{ var v [x:2] = u[x+at] }").bind("at", at).writers(2).attach().unwrap());
    for version in 1..=3 {
        writers.iter_mut().for_each(|writer| _ = writer.publish(version).unwrap());
    }
    assert_eq!(object.newest().unwrap(), 3);
    writers.into_iter().for_each(|writer| writer.detach().unwrap());
    let store = scene.file("store");
    for rule in ["--once", "--at-end"] {
        let complaint = scene.complaint(1, &["checkpoint", "mesh", "--to", store.to_str().unwrap(), rule]);
        assert!(complaint.contains("u[4..6]"), "{rule}: {complaint}");
    }
}

#[test]
fn a_version_that_was_restored_is_the_one_that_was_saved() {
    let scene = Scene::new();
    publish_all(&scene, "heat", [5]);
    let store = scene.file("store");
    let save = ["checkpoint", "heat", "--to", store.to_str().unwrap(), "--once"];
    scene.ok(&save);
    scene.ok(&["rm", "heat"]);
    scene.ok(&["restore", store.to_str().unwrap()]);
    let said = scene.ok(&save);
    assert!(said.contains("version 5 was safe before"), "{said}");
    let earlier = std::fs::read_dir(&store).unwrap().flatten();
    let earlier: Vec<_> = earlier.filter(|entry| entry.file_name().to_string_lossy().contains("earlier")).collect();
    assert!(earlier.is_empty(), "{earlier:?}");
}

#[test]
fn an_initial_version_of_any_size_comes_back() {
    let scene = Scene::new();
    let create = |initial| objects(&scene).create("big", "var u [6] int64").initial(initial).create();
    let initial = (1 << 63) + 5;
    let mut writer = create(initial).unwrap().write("{ var v = u }").attach().unwrap();
    writer.publish(initial + 1).unwrap();
    writer.detach().unwrap();
    let store = scene.file("store");
    scene.ok(&["checkpoint", "big", "--to", store.to_str().unwrap(), "--once"]);
    scene.ok(&["rm", "big"]);
    scene.ok(&["restore", store.to_str().unwrap()]);
    // The program that goes on creates it as it was.
    assert_eq!(create(initial).unwrap().newest().unwrap(), initial + 1);
}

#[test]
fn a_name_means_the_object_that_is_called_so() {
    let scene = Scene::new();
    publish_all(&scene, "x", [1]);
    assert_eq!(scene.ok(&["get", "objects/x", "u[0]"]), "1\n");
    publish_all(&scene, "objects/x", [2]);
    assert_eq!(scene.ok(&["get", "objects/x", "u[0]"]), "2\n");
    assert_eq!(scene.json(&["show", "objects/x", "--json"])["object"]["name"], "objects/x");
    scene.ok(&["rm", "objects/x"]);
    assert_eq!(objects(&scene).list().unwrap(), ["x"]);
    // One that cannot be understood is meant, too.
    publish_all(&scene, "objects/x", [2]);
    let names = scene.dir().join(".objects/names");
    let damaged = std::fs::read_dir(&names).unwrap().flatten().map(|entry| entry.path());
    let damaged = damaged.max_by_key(|path| path.file_name().unwrap().len()).unwrap();
    std::fs::write(&damaged, "{").unwrap();
    scene.ok(&["rm", "--force", "objects/x"]);
    assert_eq!(objects(&scene).list().unwrap(), ["x"]);
}
