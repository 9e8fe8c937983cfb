//! Sockets: which a broker takes over, and which it leaves alone.

use super::Place;
use crate::common::watchdog;
use crate::enclosure::{NOBODY, may_enclose};
use crate::helper::{Helper, Play, check_play};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn a_dead_brokers_socket_is_taken_over_and_a_living_ones_is_not() {
    let _watchdog = watchdog(300);
    let place = Place::new("taken", false);
    let mut play = Play::open(place.options(), "r");
    play.step();
    let first = place.serve();
    let inode = || std::fs::metadata(place.socket()).unwrap().ino();
    let own = inode();
    let said = place.start("666", &[]).hear().unwrap();
    assert!(said.contains("is in use"), "{said}");
    assert_eq!(inode(), own);
    // Also one that answers nobody.
    first.stop();
    let said = place.start("666", &[]).hear().unwrap();
    assert!(said.contains("is in use"), "{said}");
    first.signal(libc::SIGCONT);
    let mut first = first;
    first.kill();
    let second = place.serve();
    check_play(&place.open("r").unwrap().newest().unwrap());
    assert_eq!(std::fs::metadata(place.socket()).unwrap().mode() & 0o777, 0o666);
    // Many at once: one serves.
    second.finish();
    assert!(std::fs::read_dir(place.sockets()).unwrap().next().is_none(), "one that ends leaves nothing");
    let mut all: Vec<Helper> = (0..6).map(|_| place.start("600", &[])).collect();
    let said: Vec<String> = all.iter_mut().map(|broker| broker.hear().unwrap()).collect();
    assert_eq!(said.iter().filter(|said| *said == "serves").count(), 1, "{said:?}");
    check_play(&place.open("r").unwrap().newest().unwrap());
}

#[test]
fn what_is_no_dead_brokers_socket_is_left_alone() {
    let _watchdog = watchdog(300);
    let place = Place::new("alone", false);
    let says = |word: &str| {
        let said = place.start("600", &[]).hear().unwrap();
        assert!(said.contains(word), "'{word}' is not in: {said}");
    };
    // Another program's socket, a file, a link to a file.
    let listener = std::os::unix::net::UnixListener::bind(place.socket()).unwrap();
    says("is in use");
    drop(listener);
    std::fs::remove_file(place.socket()).unwrap();
    std::fs::write(place.socket(), "content").unwrap();
    says("is no socket");
    assert_eq!(std::fs::read(place.socket()).unwrap(), b"content");
    std::fs::rename(place.socket(), place.sockets().join("other")).unwrap();
    std::os::unix::fs::symlink(place.sockets().join("other"), place.socket()).unwrap();
    says("is no socket");
    std::fs::remove_file(place.socket()).unwrap();
    // A link where the lock should be, and a directory that others can write to.
    let lock = place.sockets().join(".sock.lock");
    std::fs::remove_file(&lock).ok();
    std::os::unix::fs::symlink(place.sockets().join("other"), &lock).unwrap();
    says("symbolic link");
    assert_eq!(std::fs::read(place.sockets().join("other")).unwrap(), b"content");
    std::fs::remove_file(&lock).unwrap();
    std::fs::set_permissions(place.sockets(), Permissions::from_mode(0o777)).unwrap();
    says("can be written to by everybody");
    std::fs::set_permissions(place.sockets(), Permissions::from_mode(0o755)).unwrap();
    if may_enclose() {
        std::os::unix::fs::chown(place.sockets(), Some(NOBODY), None).unwrap();
        says("belongs to user 65534");
    }
}
