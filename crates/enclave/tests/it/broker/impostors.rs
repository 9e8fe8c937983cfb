//! Impostors: listeners that stand still, lie, or are not to be trusted.

use super::{LONG, Place, as_user, lingering};
use crate::child::{in_child, reap};
use crate::common::watchdog;
use crate::enclosure::{NOBODY, may_enclose};
use crate::helper::{Play, until};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use stillframe::{Error, Observer, Trust, inspect};
use stillframe_kernel::local;
use stillframe_segment::broker::{ANSWER_BYTES_MAX, Answer};

/// Answers each client of a listener by what `answer` makes of the number of clients before it, until it makes nothing.
fn lie(listener: &local::Listener, answer: impl Fn(usize) -> Option<(Vec<u8>, Vec<OwnedFd>)>) {
    for number in 0.. {
        until("a client", || local::wait_any(&[listener.as_fd()], Some(LONG)).unwrap()[0]);
        let client = local::accept(listener).unwrap().unwrap();
        // What is closed with a question in it takes the answer with it.
        until("a question", || local::wait_any(&[client.as_fd()], Some(LONG)).unwrap()[0]);
        local::receive(&client, &mut [0; 4096]).unwrap();
        let Some((bytes, files)) = answer(number) else { return };
        let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        // One who asks no more takes nothing.
        let _ = local::send(&client, &bytes, &borrowed);
    }
}

fn listen(place: &Place) -> local::Listener {
    let folder = stillframe_kernel::folder::Folder::open(&place.sockets(), false).unwrap();
    local::listen(local::Kind::Messages, &folder, "sock", ".new", 0o666, 64).unwrap()
}

#[test]
fn a_broker_that_is_stopped_is_given_up_and_one_that_lies_is_not_believed() {
    let _watchdog = watchdog(300);
    let place = Place::new("lies", false);
    let broker = place.serve();
    let mut play = Play::open(place.options(), "r");
    play.step();
    broker.stop();
    let error = place.open("r").unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
    drop(broker);
    let folder = stillframe_kernel::folder::Folder::open(&place.sockets(), false).unwrap();
    let listener = local::listen(local::Kind::Messages, &folder, "sock", ".new", 0o600, 8).unwrap();
    let answer_with = |bytes: &[u8], files: &[&Path]| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                lie(&listener, |number| {
                    let files = files.iter().map(|path| File::open(path).unwrap().into()).collect();
                    (number == 0).then(|| (bytes.to_vec(), files))
                })
            });
            let error = place.open("r").unwrap_err();
            drop(place.connect());
            error
        })
    };
    let region =
        |files: &[&str]| Answer::Region { files: files.iter().map(|file| file.to_string()).collect() }.encode();
    let head = place.regions().join("r/head");
    let plane = place.regions().join("r/plane.0");
    let three = ["head", "tables", "lease"];
    for (bytes, files) in [
        (b"hello".to_vec(), vec![]),
        (region(&three), vec![]),
        (region(&[]), vec![head.as_path()]),
        (region(&["tables"]), vec![head.as_path()]),
        (region(&three), vec![Path::new("/dev/null"); 3]),
        (region(&three), vec![Path::new("/"); 3]),
        (region(&three), vec![plane.as_path(); 3]),
        (Answer::Names { regions: Vec::new(), arenas: Vec::new(), next: None }.encode(), vec![]),
        (Answer::Arena { leads: "elsewhere".into(), files: vec![] }.encode(), vec![]),
        (
            Answer::Arena { leads: String::new(), files: vec!["arena".into(), "lease".into()] }.encode(),
            vec![plane.as_path(); 2],
        ),
    ] {
        let error = answer_with(&bytes, &files);
        let is_told = matches!(error.code(), 101 | 102 | 120 | 122 | 126 | 127 | 200);
        assert!(is_told, "{}: {error}", String::from_utf8_lossy(&bytes));
    }
    assert!(own_files_are_closed(&place.regions()));
}

#[test]
fn a_list_without_order_or_end_is_not_believed() {
    let _watchdog = watchdog(300);
    let place = Place::new("endless", false);
    let listener = listen(&place);
    let dir = PathBuf::from(format!("unix:{}", place.socket().display()));
    let list = |names: &[&str], next: Option<&str>| {
        let regions = names.iter().map(|name| name.to_string()).collect();
        Answer::Names { regions, arenas: Vec::new(), next: next.map(String::from) }.encode()
    };
    for (answers, word) in [
        (vec![list(&["b", "a"], None)], "ascend"),
        (vec![list(&["a", "a"], None)], "ascend"),
        (vec![list(&["b"], Some("b")), list(&["a"], None)], "ascend"),
        (vec![list(&["../a"], None)], "are none"),
        (vec![vec![b'x'; ANSWER_BYTES_MAX + 1]], "has more than"),
    ] {
        std::thread::scope(|scope| {
            scope.spawn(|| lie(&listener, |number| answers.get(number).map(|bytes| (bytes.clone(), Vec::new()))));
            let error = inspect::regions(&dir).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
            drop(place.connect());
        });
    }
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lie(&listener, |number| {
                let names: Vec<String> = (0..1500).map(|name| format!("n{:012}", number * 1500 + name)).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let is_over = is_over.load(std::sync::atomic::Ordering::Relaxed);
                (!is_over).then(|| (list(&names, names.last().copied()), Vec::new()))
            })
        });
        let error = inspect::regions(&dir).unwrap_err();
        assert!(error.to_string().contains("more than 1000000 names"), "{error}");
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(place.connect());
    });
}

#[test]
fn a_listener_that_is_not_trusted_is_neither_asked_nor_heard() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    let place = Place::new("listener", false);
    std::os::unix::fs::chown(place.sockets(), Some(NOBODY), None).unwrap();
    let listener = as_user(NOBODY, || listen(&place));
    let open = |trust: Trust| Observer::options().trust(trust).open(&place.address("r")).unwrap_err();
    for trust in [Trust::Own, Trust::User(NOBODY - 1), Trust::Group(NOBODY)] {
        let error = open(trust);
        assert!(error.to_string().contains("is listened at by user 65534"), "{error}");
        let client = local::accept(&listener).unwrap().unwrap();
        assert_eq!(local::receive(&client, &mut [0; 16]).unwrap().unwrap().bytes, 0);
    }
    for trust in [Trust::User(NOBODY), Trust::Any] {
        std::thread::scope(|scope| {
            let is_over = std::sync::atomic::AtomicBool::new(false);
            let (listener, is_over) = (&listener, std::sync::Arc::new(is_over));
            let over = is_over.clone();
            scope.spawn(move || {
                let is_over = || over.load(std::sync::atomic::Ordering::Relaxed);
                lie(listener, |_| (!is_over()).then(|| (Answer::Missing.encode(), Vec::new())))
            });
            let error = open(trust);
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            drop(place.connect());
            assert!(matches!(error, Error::NoRegion { .. }), "{error}");
        });
    }
}

#[test]
fn what_a_broker_sends_and_nobody_wants_is_closed_where_no_fork_waits_for_it() {
    let _watchdog = watchdog(300);
    let place = Place::new("unwanted", false);
    let mut play = Play::open(place.options(), "r");
    play.step();
    let listener = listen(&place);
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    // Files that no region has are not kept.
    let (kept, told) = (place.dir.path().join("kept"), names(&["head", "tables", "lease", "other"]));
    std::fs::write(&kept, "content").unwrap();
    let observer = std::thread::scope(|scope| {
        scope.spawn(|| {
            lie(&listener, |number| {
                let of_region = told[..3].iter().map(|name| place.regions().join("r").join(name));
                let files = of_region.chain([kept.clone()]).map(|path| File::open(path).unwrap().into()).collect();
                (number == 0).then(|| (Answer::Region { files: told.clone() }.encode(), files))
            })
        });
        let observer = place.open("r");
        drop(place.connect());
        observer.unwrap()
    });
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    assert_eq!(entries.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|path| path == kept)).count(), 0);
    drop(observer);
    // One whose close waits keeps who asked, or who sent it if that one closes it last, and nobody else.
    for bytes in [b"garbage".to_vec(), Answer::Region { files: names(&["lease"]) }.encode()] {
        let (stream, other) = lingering();
        let stream = Mutex::new(Some(stream));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                lie(&listener, |_| {
                    let stream = stream.lock().unwrap().take()?;
                    Some((bytes.clone(), vec![OwnedFd::from(stream)]))
                })
            });
            let asks = scope.spawn(|| place.open("r").unwrap_err());
            // By now the file is being closed. On a machine that is slower than this, there is nothing that could wait.
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(reap(in_child(|| {})), 0);
            drop(other);
            asks.join().unwrap();
            drop(place.connect());
        });
    }
}

/// Whether this process has nothing open of a directory but what its own producer has.
fn own_files_are_closed(dir: &Path) -> bool {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let count = entries.filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|path| path.starts_with(dir) && path.ends_with("head"))
    });
    count.count() <= 1
}
