//! `docs/checkpoint-format.md` says what is written, no more and no less.

use std::collections::BTreeSet;
use std::path::Path;
use stillframe::{DType, Declaration, Group, Kind, Observer, Part, Region};
use stillframe_checkpoint::{SaveOptions, Saver, layout};

/// The names in the first column of the table under a comment.
fn table(name: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/checkpoint-format.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once(&format!("<!-- {name} -->")).expect(name);
    let rows = rest.trim_start().lines().take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.split('`').nth(1).unwrap_or_else(|| panic!("{row}")).to_string()).collect()
}

fn keys(value: &serde_json::Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

fn files(dir: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        match path.is_dir() {
            true => all.extend(files(&path).into_iter().map(|below| format!("{name}/{below}"))),
            false => all.extend([name]),
        }
    }
    all
}

fn declaration() -> Declaration {
    let part = Part { offset: vec![0, 0], global_shape: vec![3, 5] };
    Declaration::new("u", DType::Float(8), Kind::Managed { shape: vec![3, 5] }).part(part)
}

#[test]
fn the_documented_files_are_those_that_are_written() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut region = Region::options().dir(dir.path()).create("r").unwrap();
    region.declare(declaration()).unwrap();
    region.publish(120).commit().unwrap();
    let snapshot = Observer::options().dir(dir.path()).open("r").unwrap().newest().unwrap();
    let store = dir.path().join("store");
    let saver = Saver::open(&store, SaveOptions::new()).unwrap();
    let saved = saver.save(&snapshot, &|_| {}).unwrap();
    assert_eq!(files(&saved.path), table("checkpoint"));
    let names = std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.collect::<BTreeSet<_>>(), table("store"));
    let own = [layout::LOCK, layout::LATEST].map(String::from);
    assert!(own.iter().all(|name| table("store").contains(name)));
}

#[test]
fn the_documented_fields_are_those_of_manifests() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut region = Region::options().dir(dir.path()).rank(0, 1).create("g").unwrap();
    region.declare(declaration()).unwrap();
    region.publish(1).attr("t", 0.5).commit().unwrap();
    let snapshot = Group::options().dir(dir.path()).open("g").unwrap().newest().unwrap();
    let saver = Saver::open(dir.path().join("store"), SaveOptions::new()).unwrap();
    let saved = saver.save(&snapshot, &|_| {}).unwrap();
    let text = std::fs::read(saved.path.join(layout::MANIFEST)).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(keys(&manifest), table("manifest"));
    assert_eq!(keys(&manifest["checksums"]), table("checksums"));
    assert_eq!(keys(&manifest["variables"][0]), table("variable"));
    assert_eq!(keys(&manifest["variables"][0]["part"]), ["global_shape", "offset"].map(String::from).into());
    let group: serde_json::Value =
        serde_json::from_slice(&std::fs::read(saved.path.join(layout::METADATA)).unwrap()).unwrap();
    assert_eq!(
        keys(&group["attributes"]),
        ["attributes", "published_ns", "ranks", "region", "version"].map(String::from).into()
    );
    assert!(saved.path.join("0/u/c.0.0").is_file());
}
