//! Pools of a real kernel, which takes root and large pages that can be gathered; elsewhere each test says that it was skipped and why.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::user_id;
use stillframe_pages::holders::holders;
use stillframe_pages::reserve::{Access, Request, give_back, reserve};
use stillframe_pages::supply::System;
use stillframe_pages::{Error, Page, Pool};

const MIB: u64 = 1 << 20;
const NOBODY: u32 = 65534;

/// Says why a test does nothing.
fn skip(why: impl std::fmt::Display) {
    eprintln!("SKIPPED: {why}");
}

/// A pool that is given back at the end.
struct Made(Pool);

impl Made {
    fn new(name: &str, bytes: u64, access: Access) -> Option<Made> {
        let name = format!("test-{name}-{}", std::process::id());
        let request = Request { name, bytes, page: Page::Large, by_node: false, access };
        match reserve(&System::default(), &request) {
            Ok(pool) => Some(Made(pool)),
            Err(error @ (Error::NotPermitted { .. } | Error::NoSuchPage { .. } | Error::TooFew { .. })) => {
                skip(error);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let given = give_back(&System::default(), &self.0.name);
        assert!(matches!(given, Ok(()) | Err(Error::NoPool { .. })) || std::thread::panicking(), "{given:?}");
    }
}

fn own() -> Access {
    Access { user: user_id(), group: 0, mode: 0o700 }
}

#[test]
fn what_a_process_has_of_a_pool_is_shown_and_free_again_afterwards() {
    let system = System::default();
    let Some(made) = Made::new("held", 15 * MIB, own()) else { return };
    let pool = &made.0;
    let size = pool.size(&system).unwrap();
    assert_eq!((size.bytes, size.free_bytes), (Some(16 * MIB), 16 * MIB), "whole pages");
    let file = pool.file().unwrap();
    file.set_len(6 * MIB).unwrap();
    let mapping = Mapping::shared(&file, 0, 6 << 20, true).unwrap();
    mapping.populate_for_writing(0, 6 << 20);
    mapping.write(5 << 20, b"here");
    assert_eq!(pool.size(&system).unwrap().free_bytes, 10 * MIB);
    let all = holders(&system, pool);
    let own = all.iter().find(|holder| holder.pid == std::process::id()).unwrap();
    assert_eq!(own.bytes, 6 * MIB, "{all:?}");
    match give_back(&system, &pool.name) {
        Err(Error::Busy { holders, .. }) => assert!(holders.contains(&std::process::id().to_string()), "{holders}"),
        other => panic!("{other:?}"),
    }
    drop((mapping, file));
    assert_eq!(pool.size(&system).unwrap().free_bytes, 16 * MIB);
    assert_eq!(holders(&system, pool), []);
}

#[test]
fn a_pool_is_found_by_its_name_until_it_is_given_back_and_then_the_kernel_has_its_pages() {
    let system = System::default();
    let before = || system.supply(Page::Large, None).unwrap();
    let Some(made) = Made::new("name", 8 * MIB, own()) else { return };
    let name = made.0.name.clone();
    assert!(before().promised.unwrap() >= 4, "nobody else gets them");
    assert_eq!(Pool::find(&system, &name).unwrap(), made.0);
    assert_eq!(Pool::find(&system, made.0.mount.path.to_str().unwrap()).unwrap().name, name);
    let again = Request { name: name.clone(), bytes: MIB, page: Page::Large, by_node: false, access: own() };
    assert!(matches!(reserve(&system, &again), Err(Error::Exists { .. })));
    give_back(&system, &name).unwrap();
    match Pool::find(&system, &name) {
        Err(Error::NoPool { found, .. }) => assert!(!found.contains(&name)),
        other => panic!("{other:?}"),
    }
    assert!(!made.0.mount.path.exists());
    assert!(matches!(give_back(&system, &name), Err(Error::NoPool { .. })));
}

#[test]
fn a_pool_takes_no_more_than_its_bound() {
    let Some(made) = Made::new("bound", 4 * MIB, own()) else { return };
    let file = made.0.file().unwrap();
    file.set_len(6 * MIB).unwrap();
    let error = Mapping::shared(&file, 0, 6 << 20, true).map(drop);
    // Shared mappings are made without a promise; what is missing shows when it is touched, and not by a signal.
    if error.is_ok() {
        let whole = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 6 * MIB);
        assert_eq!(whole, Err(rustix::io::Errno::NOSPC));
    }
}

#[test]
fn other_users_have_nothing_of_a_pool_that_is_not_theirs() {
    let Some(made) = Made::new("users", 4 * MIB, own()) else { return };
    if user_id() != 0 {
        return skip("not root");
    }
    let create = |made: &Made| {
        let file = made.0.mount.path.join("file");
        let written =
            Command::new("sh").args(["-c", &format!(": > {}", file.display())]).uid(NOBODY).gid(NOBODY).output();
        let _ = fs::remove_file(file);
        written.unwrap().status.success()
    };
    assert!(!create(&made));
    let Some(theirs) = Made::new("theirs", 4 * MIB, Access { user: NOBODY, group: NOBODY, mode: 0o700 }) else {
        return;
    };
    assert!(create(&theirs));
}

#[test]
fn what_cannot_be_gathered_leaves_everything_as_it_was() {
    let system = System::default();
    if user_id() != 0 {
        skip("not root");
        return;
    }
    let name = format!("test-much-{}", std::process::id());
    // 64 TiB.
    let request = Request { name: name.clone(), bytes: 1 << 46, page: Page::Large, by_node: false, access: own() };
    match reserve(&system, &request) {
        Err(Error::TooFew { wanted, found, .. }) => assert!(found < wanted),
        Err(error @ Error::NoSuchPage { .. }) => return skip(error),
        other => panic!("{other:?}"),
    }
    assert!(matches!(Pool::find(&system, &name), Err(Error::NoPool { .. })));
}
