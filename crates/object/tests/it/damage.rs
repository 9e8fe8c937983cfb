//! Objects whose files are damaged, or were written by somebody who means no good.

use crate::common::{Dir, watchdog};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use stillframe_object::{Error, Object, Objects};

fn create(dir: &Dir, name: &str, text: &str) -> Object {
    dir.objects().create(name, text).create().unwrap()
}

/// A board as somebody could write it who means no good.
fn board(id: u64, counts: u64, next: u64, entries: &[u8]) -> Vec<u8> {
    let mut bytes = b"STLBOARD".to_vec();
    for word in [4, id, counts, next, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(entries);
    bytes
}

#[test]
fn a_board_that_says_it_is_long_takes_no_memory() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("long-board");
    let object = create(&dir, "u", "var u [8] int32");
    let id = object.description().id.get();
    std::fs::write(dir.path().join(".objects/boards/u"), board(id, (1 << 30) - 8, 1, b"")).unwrap();
    // Who believed it would ask for memory first.
    let error = object.newest().unwrap_err();
    assert!(matches!(error, Error::Corrupt { offset: 64, .. }), "{error}");
}

#[test]
fn a_former_board_with_a_great_number_keeps_nobody() {
    let _watchdog = watchdog(20);
    let dir = Dir::new("former");
    let object = create(&dir, "u", "var u [8] int32");
    std::fs::write(dir.path().join(".objects/boards/u"), board(77, 64, u64::from(u32::MAX), b"")).unwrap();
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    assert_eq!(object.newest().unwrap(), 1);
}

#[test]
fn what_could_not_be_understood_is_not_passed_over() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("passed-over");
    let object = create(&dir, "u", "var u [8] int32");
    let mut half = object.write("{ var v [x:4] = u[x] }").attach().unwrap();
    half.publish(1).unwrap();
    let id = object.description().id.get();
    let path = dir.path().join(".objects/boards/u");
    let good = std::fs::read(&path).unwrap();
    let bad = br#"{"attach":{"number":1,"process":1,"from":1,"text":"{ var v = w }"}}"#;
    let mut entries = good[64..].to_vec();
    entries.extend(bad);
    entries.push(b'\n');
    std::fs::write(&path, board(id, 64 + entries.len() as u64, 2, &entries)).unwrap();
    let other = dir.objects().object_named("u").unwrap();
    for _ in 0..3 {
        assert!(other.newest().is_err());
    }
    // Neither does a region that cannot be looked at once let a writer publish without regard to others.
    let mut reader = other.read("{ var v = u }").attach().unwrap();
    for _ in 0..3 {
        let error = reader.reattach(1, Duration::from_millis(1)).unwrap_err();
        assert!(matches!(error, Error::Text { .. }), "{error}");
    }
}

#[test]
fn a_damaged_object_can_be_removed() {
    let _watchdog = watchdog(120);
    for (name, file) in [("board", ".objects/boards/u"), ("name", ".objects/names/u")] {
        let dir = Dir::new(name);
        let objects = dir.objects();
        let object = create(&dir, "u", "var u [8] int32");
        let mut writer = object.write("{ var v = u }").attach().unwrap();
        writer.publish(1).unwrap();
        writer.detach().unwrap();
        let path = dir.path().join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 10;
        bytes[..8].fill(0x41);
        bytes[last..].fill(0xff);
        std::fs::write(&path, bytes).unwrap();
        // The error says that it is to be removed.
        objects.remove("u", true).unwrap_or_else(|error| panic!("{name}: {error}"));
        let new = create(&dir, "u", "var u [9] int32");
        let mut writer = new.write("{ var v = u }").attach().unwrap();
        writer.publish(5).unwrap();
        assert_eq!(new.newest().unwrap(), 5);
    }
}

#[test]
fn files_of_random_bytes_are_errors() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("random");
    let objects = dir.objects();
    let object = create(&dir, "u", "var u [8] int32");
    let mut writer = object.write("{ var v [x:n] = u[x] }").bind("n", 4).rank(3).attach().unwrap();
    writer.publish(1).unwrap();
    let files = [".objects/boards/u", ".objects/names/u"].map(|file| dir.path().join(file));
    let good = files.clone().map(|file| std::fs::read(file).unwrap());
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let rounds = 2000;
    for round in 0..rounds {
        let which = (round % 2) as usize;
        let mut bytes = good[which].clone();
        for _ in 0..=random(4) {
            let at = random(bytes.len() as u64) as usize;
            match random(6) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = b'9',
                2 => bytes.insert(at, b'0' + random(10) as u8),
                3 => bytes[at] ^= 1 << random(8),
                4 => {
                    let more: Vec<u8> = bytes[at..].to_vec();
                    bytes.extend(more);
                }
                _ => bytes[at] = random(256) as u8,
            }
        }
        if which == 0 && bytes.len() > 64 {
            // So that entries are looked at.
            let length = bytes.len() as u64;
            bytes[24..32].copy_from_slice(&length.to_le_bytes());
        }
        std::fs::write(&files[which], &bytes).unwrap();
        if let Ok(found) = dir.objects().object_named("u") {
            let _ = found.newest();
            let _ = found.writers();
            let _ = found.read("{ var v = u }").attach().map(|mut all| all.reattach(1, Duration::ZERO));
            if round % 10 < 2 {
                let _ = found.write("{ var v [x:4] = u[x+4] }").wait(Duration::ZERO).attach();
                let _ = found.collect();
            }
        }
        std::fs::write(&files[which], &good[which]).unwrap();
    }
    let _ = objects.remove("u", true);
}

/// Whoever makes it gives it its length and its memory one after the other, and may have died in between, or found no memory: a page
/// that is missing is taken when it is read, and where there is none that ends the process.
#[test]
fn words_to_sleep_on_that_are_still_being_made_are_neither_damage_nor_touched() {
    let dir = Dir::new("bell");
    let objects = dir.path().join(".objects");
    let look = || Objects::options().dir(dir.path()).look().unwrap();
    drop(dir.objects());
    assert!(look().is_some());
    let bell = objects.join("bell");
    let made_bytes = std::fs::metadata(&bell).unwrap().len();
    for bytes in [0, 100, made_bytes] {
        std::fs::remove_file(&bell).unwrap();
        std::fs::File::create(&bell).unwrap().set_len(bytes).unwrap();
        assert!(look().is_none(), "{bytes} bytes, none of them with memory");
        assert_eq!(std::fs::metadata(&bell).unwrap().blocks(), 0);
    }
    drop(dir.objects());
    assert!(look().is_some());
}
