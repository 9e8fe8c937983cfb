use super::*;
use crate::object::Object;
use crate::objects::Objects;
use crate::runtime::RuntimeLock;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// An object in a directory of the test's own, whose runtime runs and answers whoever asks it; and what has to stay for that.
fn object(answer: Option<&'static str>) -> (tempfile::TempDir, Object, RuntimeLock) {
    let place = tempfile::Builder::new().prefix("stillframe-test-home-").tempdir_in("/dev/shm").unwrap();
    let objects = Objects::options().dir(place.path()).open().unwrap();
    let object = objects.create("u", "var u [8] int32").create().unwrap();
    let own = place.path().join(".objects");
    let held = RuntimeLock::take(&objects).unwrap().expect("there is no other runtime");
    let listener = UnixListener::bind(own.join(runtime::SOCKET)).unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            assert!(line.contains("heard"), "{line}");
            if let Some(answer) = answer {
                writeln!(stream, "{answer}").unwrap();
            }
            kept.push(stream);
        }
    });
    (place, object, held)
}

fn check(object: &Object, limit: Duration) -> Result<()> {
    check_unused(object.shared(), Deadline::after(limit))
}

#[test]
fn an_object_of_whose_home_nothing_is_heard_is_not_known_to_be_unused() {
    let (_place, object, _held) = object(None);
    let limit = Duration::from_millis(30);
    let unheard = check(&object, limit);
    assert!(matches!(unheard, Err(Error::Unheard { .. })), "{unheard:?}");
    wait_heard(object.shared(), Deadline::after(limit)).unwrap();
    assert!(matches!(check(&object, Duration::ZERO), Err(Error::Unheard { .. })));
}

#[test]
fn an_object_whose_home_was_heard_is_unused_if_nobody_writes_it() {
    let (_place, object, _held) = object(Some("\"heard\""));
    check(&object, Duration::from_secs(600)).unwrap();
}

#[test]
fn what_the_runtime_cannot_say_is_an_error() {
    for answer in ["{\"failed\":\"it is damaged\"}", "{\"removed\":true}", "?"] {
        let (_place, object, _held) = object(Some(answer));
        let failed = check(&object, Duration::from_secs(600));
        assert!(matches!(failed, Err(Error::NoRuntime { .. })), "{answer}: {failed:?}");
        wait_heard(object.shared(), Deadline::after(Duration::from_secs(600))).unwrap();
    }
}
