//! Limits of what readers accept: a producer refuses what no reader would, before anybody sees it.

use crate::common::{Dir, HeadFile, is_in_arena, watchdog};
use stillframe::{DType, Declaration, Error, Family, Kind, Region, Scalar};

/// As readers have it, in docs/format.md.
const BYTES_MAX: usize = 64 << 20;
const ID_END: u32 = 1 << 31;
const SEQUENCE_END: u64 = 1 << 43;

fn declaration(name: &str) -> Declaration {
    Declaration::new(name, DType::Float(8), Kind::Managed { shape: vec![3] })
}

/// Checks that it is said what there is too much of, and how much there may be.
fn check(error: Error, expected: &str, expected_most: u64) {
    match &error {
        Error::Limit { what, needed, most, .. } => {
            assert!(what.contains(expected), "{error}");
            assert!(*most == expected_most && needed > most, "{error}");
        }
        _ => panic!("{error}"),
    }
    assert!(error.to_string().contains(&expected_most.to_string()), "{error}");
    assert_eq!(error.family(), Family::Misuse);
}

/// Overwrites words of a region's head.
fn put(dir: &Dir, words: &[(u64, u64, usize)]) {
    let head = HeadFile::open(dir.path(), "r");
    for (at, value, bytes) in words {
        head.write(*at, &value.to_le_bytes()[..*bytes]);
    }
}

fn begin(dir: &Dir) -> Region {
    let mut region = dir.options().create("r").unwrap();
    region.declare(declaration("u")).unwrap();
    region
}

/// Whether all that a reader can do with the newest version works.
fn check_newest(dir: &Dir, version: u64) {
    let snapshot = dir.observe("r").newest().unwrap();
    assert_eq!(snapshot.version(), version);
    assert_eq!(snapshot.slice::<f64>("u").unwrap(), [0.0; 3]);
    assert_eq!(stillframe::inspect::verify(dir.path(), "r").unwrap(), []);
}

#[test]
fn attributes_of_a_version_are_as_long_as_readers_accept() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("attributes");
    let mut region = begin(&dir);
    // What a manifest of one variable and of one attribute called "a" takes beside the text.
    let most = BYTES_MAX - 16 - 104 - 9 - 1;
    for (version, bytes) in [(1, most + 1), (2, most), (3, 2 * BYTES_MAX), (4, 5)] {
        let result = region.publish(version).attr("a", Scalar::Text("x".repeat(bytes))).commit();
        match result {
            Err(error) => {
                check(error, "manifest", BYTES_MAX as u64);
                assert!(bytes > most);
            }
            Ok(_) => {
                assert!(bytes <= most, "{bytes} bytes of a text were published");
                check_newest(&dir, version);
            }
        }
    }
    drop(region);
    assert_eq!(begin(&dir).recovered(), Some(4));
}

#[test]
fn a_schema_is_as_long_as_readers_accept() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("schema");
    let mut region = begin(&dir);
    region.publish(1).commit().unwrap();
    let long = Scalar::Text("x".repeat(BYTES_MAX));
    let attributes = [("long".to_string(), long)].into();
    region.declare(Declaration { attributes, ..declaration("v") }).unwrap();
    for _ in 0..2 {
        check(region.publish(2).commit().unwrap_err(), "schema", BYTES_MAX as u64);
    }
    check_newest(&dir, 1);
    region.remove("v").unwrap();
    region.publish(2).commit().unwrap();
    check_newest(&dir, 2);
    if is_in_arena() {
        return;
    }
    let schemas = std::fs::read_dir(dir.path().join("r")).unwrap().flatten();
    let schemas = schemas.filter(|entry| entry.file_name().to_string_lossy().starts_with("schema."));
    assert_eq!(schemas.count(), 1, "a schema that nobody can read was left");
}

#[test]
fn numbers_of_variables_and_schemas_end_where_readers_say() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("numbers");
    let mut region = begin(&dir);
    region.publish(1).commit().unwrap();
    drop(region);
    put(&dir, &[(272, u64::from(ID_END - 2), 4), (276, u64::from(ID_END - 1), 4)]);
    let mut region = begin(&dir);
    region.declare(declaration("last")).unwrap();
    check(region.declare(declaration("v")).unwrap_err(), "variable", u64::from(ID_END - 1));
    region.publish(2).commit().unwrap();
    check_newest(&dir, 2);
    region.remove("last").unwrap();
    check(region.publish(3).commit().unwrap_err(), "schema", u64::from(ID_END - 1));
    check_newest(&dir, 2);
    drop(region);
    // What is there can still be taken over.
    let mut region = begin(&dir);
    assert_eq!(region.recovered(), Some(2));
    check(region.publish(3).commit().unwrap_err(), "schema", u64::from(ID_END - 1));
}

#[test]
fn sequence_numbers_end_where_readers_say() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("sequence");
    let mut region = begin(&dir);
    region.publish(1).commit().unwrap();
    drop(region);
    // The first version, in the first slot, as if it were the last but two.
    let sequence = SEQUENCE_END - 3;
    put(&dir, &[(64, sequence << 8, 8), (4096, sequence << 8 | 1, 8)]);
    let mut region = begin(&dir);
    for version in 2..4 {
        region.publish(version).commit().unwrap();
        check_newest(&dir, version);
    }
    for _ in 0..2 {
        check(region.publish(4).commit().unwrap_err(), "sequence", SEQUENCE_END - 1);
    }
    drop(region);
    assert_eq!(begin(&dir).recovered(), Some(3));
    check_newest(&dir, 3);
}

#[test]
fn records_are_nested_as_deep_as_readers_accept() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("nested");
    let mut region = begin(&dir);
    let mut dtype = DType::Float(8);
    for depth in 1..60 {
        let field = stillframe::Field { name: "inner".into(), dtype, offset: 0 };
        dtype = DType::Record { fields: vec![field], bytes: 8 };
        let name = format!("r{depth}");
        let declaration = Declaration::new(&name, dtype.clone(), Kind::Managed { shape: vec![2] });
        match region.declare(declaration) {
            Ok(_) => assert!(depth <= 32, "{depth}"),
            Err(error) => assert!(depth > 32 && error.to_string().contains("32 records"), "{depth}: {error}"),
        }
    }
    region.publish(1).commit().unwrap();
    check_newest(&dir, 1);
}
