//! Files of a region that somebody cuts short while they are looked at.

use crate::common;
use crate::helper;

use crate::common::{Dir, watchdog};
use std::os::unix::process::ExitStatusExt;
use stillframe::{Error, Family, Observer, Region, Snapshot};

const WORDS: usize = 2 << 20;

fn publish(dir: &Dir) -> Region {
    let mut region = dir.options().create("r").unwrap();
    let array = region.array::<u64>("a", &[WORDS]).unwrap();
    region.slice_mut(&array).fill(7);
    region.publish(1).commit().unwrap();
    region
}

fn cut(dir: &Dir, bytes: u64) {
    std::fs::File::options().write(true).open(dir.path().join("r/plane.0")).unwrap().set_len(bytes).unwrap();
}

fn read(snapshot: &Snapshot, offset: usize, words: usize) -> Result<Vec<u64>, Error> {
    let mut out = vec![0; words];
    snapshot.read("a", offset, bytemuck::cast_slice_mut(&mut out)).map(|()| out)
}

/// Looks at the variable in the way that its argument says, and once more when it is told to.
fn look(arguments: &[String]) {
    let [dir, way] = arguments else { panic!("{arguments:?}") };
    let snapshot = Observer::options().dir(dir).open("r").unwrap().newest().unwrap();
    let last = || match way.as_str() {
        "slice" => snapshot.slice::<u64>("a").unwrap()[WORDS - 1].to_string(),
        "chunks" => snapshot.chunks("a").unwrap().last().unwrap().bytes.last().unwrap().to_string(),
        _ => match read(&snapshot, WORDS * 8 - 8, 1) {
            Ok(words) => words[0].to_string(),
            Err(error) => error.to_string(),
        },
    };
    last();
    helper::say("looked");
    helper::wait_for_word();
    helper::say(&last());
}

#[test]
fn helper_process() {
    helper::enter(&[("look", look)]);
}

#[test]
fn reading_what_was_cut_off_is_an_error_that_says_where() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(120);
    let dir = Dir::new("error");
    let _region = publish(&dir);
    let snapshot = dir.observe("r").newest().unwrap();
    assert!(read(&snapshot, 0, WORDS).unwrap().iter().all(|word| *word == 7));
    cut(&dir, 1 << 20);
    assert_eq!(read(&snapshot, 0, 1 << 17).unwrap(), [7; 1 << 17]);
    let error = read(&snapshot, (1 << 20) - 8, 2).unwrap_err();
    assert_eq!((error.family(), error.code()), (Family::Corrupt, 200));
    let text = error.to_string();
    for part in ["plane.0", &((1 << 20) - 8).to_string(), "16 bytes", "1048576 bytes"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Nor is it mapped any more by whoever comes then.
    let other = dir.observe("r").newest().unwrap();
    for error in [other.slice::<u64>("a").map(drop), other.chunks("a").map(drop), read(&other, 0, WORDS).map(drop)] {
        assert!(matches!(error, Err(Error::Corrupt { .. })), "{error:?}");
    }
}

#[test]
fn only_memory_that_shows_the_files_ends_by_a_signal() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(120);
    let dir = Dir::new("signal");
    let _region = publish(&dir);
    let path = dir.path().to_str().unwrap();
    let ways = ["slice", "chunks", "read"];
    let mut looking = ways.map(|way| helper::start("look", &[path, way]));
    looking.iter_mut().for_each(|helper| helper.expect("looked"));
    cut(&dir, 1 << 20);
    for (way, mut helper) in ways.into_iter().zip(looking) {
        helper.tell();
        let (status, said) = helper.wait();
        if way == "read" {
            assert!(status.success(), "{status}");
            assert!(said[0].contains("plane.0") && said[0].contains("the end of the file"), "{said:?}");
        } else {
            assert_eq!((status.signal(), said.len()), (Some(libc::SIGBUS), 0), "{way}");
        }
    }
}
