//! Pools of a real kernel, which takes root and large pages that can be gathered; elsewhere each test says that it was skipped and why.

use crate::support::{MIB, Made, beside, give_back_unused, had, is_free, own, request, skip, until};
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use stillframe_kernel::map::Mapping;
use stillframe_kernel::user_id;
use stillframe_pages::holders::holders;
use stillframe_pages::reserve::{Access, Request, Step, find_same, give_back, reserve};
use stillframe_pages::supply::System;
use stillframe_pages::{Error, Page, Pool};

const NOBODY: u32 = 65534;

#[test]
fn what_a_process_has_of_a_pool_is_shown_and_free_again_afterwards() {
    let _beside = beside();
    let system = System::default();
    let Some(made) = Made::new("held", 15 * MIB, own()) else { return };
    let pool = &made.0;
    assert_eq!(pool.size(&system).unwrap().bytes, Some(16 * MIB), "whole pages");
    is_free(pool, 16 * MIB);
    let file = pool.file().unwrap();
    file.set_len(6 * MIB).unwrap();
    let mapping = Mapping::shared(&file, 0, 6 << 20, true).unwrap();
    mapping.populate_for_writing(0, 6 << 20);
    mapping.write(5 << 20, b"here");
    assert_eq!(pool.size(&system).unwrap().free_bytes, 10 * MIB);
    let all = holders(&system, pool);
    let own = all.iter().find(|holder| holder.pid == std::process::id()).unwrap();
    assert_eq!(own.bytes, 6 * MIB, "{all:?}");
    match give_back(&system, &pool.name, false) {
        Err(Error::Busy { holders, .. }) => assert!(holders.contains(&std::process::id().to_string()), "{holders}"),
        other => panic!("{other:?}"),
    }
    drop((mapping, file));
    is_free(pool, 16 * MIB);
    until("a pool without holders", || holders(&system, pool).is_empty());
}

#[test]
fn a_pool_is_found_by_its_name_until_it_is_given_back_and_then_the_kernel_has_its_pages() {
    let _beside = beside();
    let system = System::default();
    let before = || system.supply(Page::Large, None).unwrap();
    let Some(made) = Made::new("name", 8 * MIB, own()) else { return };
    let name = made.0.name.clone();
    assert!(before().promised.unwrap() >= 4, "nobody else gets them");
    assert_eq!(Pool::find(&system, &name).unwrap(), made.0);
    assert_eq!(Pool::find(&system, made.0.mount.path.to_str().unwrap()).unwrap().name, name);
    let again = reserve(&system, &request(&name, MIB, own()), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(again, Err(Error::Exists { .. })));
    assert_eq!(find_same(&system, &request(&name, 7 * MIB, own())).unwrap(), made.0, "as many pages");
    let others = [
        request(&name, 9 * MIB, own()),
        request(&name, 8 * MIB, Access { user: NOBODY, ..own() }),
        request(&name, 8 * MIB, Access { mode: 0o770, ..own() }),
        Request { page: Page::Gigantic, ..request(&name, 8 * MIB, own()) },
    ];
    for other in others {
        assert!(matches!(find_same(&system, &other), Err(Error::Exists { .. })), "{other:?}");
    }
    give_back_unused(&name, false).unwrap();
    match Pool::find(&system, &name) {
        Err(Error::NoPool { found, .. }) => assert!(!found.contains(&name)),
        other => panic!("{other:?}"),
    }
    assert!(!made.0.mount.path.exists());
    assert!(matches!(give_back(&system, &name, false), Err(Error::NoPool { .. })));
}

#[test]
fn files_that_lie_in_a_pool_are_not_lost_unless_somebody_says_so() {
    let _beside = beside();
    let system = System::default();
    let Some(made) = Made::new("files", 4 * MIB, Access { mode: 0o750, ..own() }) else { return };
    let (name, path) = (&made.0.name, &made.0.mount.path);
    for number in 0..7 {
        fs::write(path.join(format!("result-{number}")), []).unwrap();
    }
    match give_back(&system, name, false) {
        Err(Error::Files { files, .. }) => {
            assert!(files.contains("result-0, ") && files.ends_with("2 more"), "{files}")
        }
        other => panic!("{other:?}"),
    }
    assert!(path.join("result-6").exists());
    // Nor does a program that has it open shut others out.
    let folder = fs::File::open(path).unwrap();
    assert!(matches!(give_back(&system, name, true), Err(Error::Busy { .. })));
    assert_eq!(mode(&made.0), 0o750);
    drop(folder);
    give_back_unused(name, true).unwrap();
    assert!(matches!(Pool::find(&system, name), Err(Error::NoPool { .. })));
}

#[test]
fn a_pool_takes_no_more_than_its_bound() {
    let _beside = beside();
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
    let _beside = beside();
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
    let _beside = beside();
    let system = System::default();
    if user_id() != 0 {
        skip("not root");
        return;
    }
    let name = format!("test-much-{}", std::process::id());
    // 64 TiB.
    match reserve(&system, &request(&name, 1 << 46, own()), &mut |_| ControlFlow::Continue(())) {
        Err(Error::TooFew { wanted, found, .. }) => assert!(found < wanted),
        Err(error @ Error::NoSuchPage { .. }) => return skip(error),
        other => panic!("{other:?}"),
    }
    assert!(matches!(Pool::find(&system, &name), Err(Error::NoPool { .. })));
}

#[test]
fn all_pages_are_filled_before_anybody_gets_one_and_are_free_then() {
    let _beside = beside();
    let system = System::default();
    let name = format!("test-filled-{}", std::process::id());
    let (mut steps, mut least_free, mut modes) = (Vec::new(), u64::MAX, Vec::new());
    let access = Access { user: user_id(), group: 0, mode: 0o750 };
    let made = reserve(&system, &request(&name, 200 * MIB, access), &mut |step| {
        steps.push(step);
        if let Step::Filling { .. } = step {
            let pool = Pool::find(&system, &name).unwrap();
            least_free = least_free.min(pool.size(&system).unwrap().free_bytes);
            modes.push(mode(&pool));
        }
        ControlFlow::Continue(())
    });
    let Some(made) = had(made).map(Made) else { return };
    let filling: Vec<u64> = steps.iter().filter_map(|step| done_bytes(*step)).collect();
    assert!(filling.is_sorted() && filling.last() == Some(&(200 * MIB)), "{filling:?}");
    assert_eq!(least_free, 0, "all of them at once, so that each was");
    assert!(modes.iter().all(|mode| *mode == 0o700), "{modes:?}");
    is_free(&made.0, 200 * MIB);
    assert_eq!(mode(&made.0), 0o750);
    let bare = Request { is_filled: false, ..request(&format!("{name}-bare"), 4 * MIB, own()) };
    let mut has_filled = false;
    let bare = reserve(&system, &bare, &mut |step| {
        has_filled |= done_bytes(step).is_some();
        ControlFlow::Continue(())
    });
    let Some(_bare) = had(bare).map(Made) else { return };
    assert!(!has_filled);
}

fn mode(pool: &Pool) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(&pool.mount.path).unwrap().permissions().mode() & 0o7777
}

fn done_bytes(step: Step) -> Option<u64> {
    match step {
        Step::Filling { done_bytes, .. } => Some(done_bytes),
        _ => None,
    }
}

#[test]
fn a_reservation_that_is_interrupted_leaves_nothing() {
    let _beside = beside();
    let system = System::default();
    let name = format!("test-ended-{}", std::process::id());
    let request = request(&name, 256 * MIB, own());
    for is_filling in [false, true] {
        let made = reserve(&system, &request, &mut |step| match step {
            Step::Filling { .. } => ControlFlow::Break(()),
            Step::Gathering if !is_filling => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        match made {
            Err(Error::Interrupted { .. }) => {}
            // There was so much spare, or so easily to be had, that nobody was asked before it was there.
            Ok(pool) => {
                drop(Made(pool));
                assert!(!is_filling, "it was not interrupted");
            }
            other => drop(had(other)),
        }
        assert!(matches!(Pool::find(&system, &name), Err(Error::NoPool { .. })));
        let place = stillframe_pages::pool::place(&name).unwrap();
        assert!(!place.exists() && !place.with_extension("gathered").exists());
    }
}

/// The name of the pool whose reservation the next test kills.
const TO_KILL: &str = "STILLFRAME_TEST_POOL_TO_KILL";

/// Not a test of its own: what the test below starts and kills.
#[test]
fn reserve_and_stay() {
    let Ok(name) = std::env::var(TO_KILL) else { return };
    let made = reserve(&System::default(), &request(&name, 64 * MIB, own()), &mut |step| {
        if let Step::Filling { .. } = step {
            println!("\nfilling");
            // It is killed; should its parent be, it ends by itself.
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
        ControlFlow::Continue(())
    });
    println!("\n{:?}", had(made).map(Made).map(|made| made.0.name.clone()));
}

/// Starts the reservation of a name in a process of its own and kills it while it fills; `false` if nothing can be reserved here.
fn kill_filling(name: &str) -> bool {
    let mut own_program = Command::new(std::env::current_exe().unwrap());
    own_program.args(["pools::reserve_and_stay", "--exact", "--nocapture"]).env(TO_KILL, name).stdout(Stdio::piped());
    let mut child = own_program.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let is_filling = lines.into_iter().any(|line| line == "filling");
    child.kill().unwrap();
    child.wait().unwrap();
    if !is_filling {
        eprintln!("skipped: nothing can be reserved here");
    }
    is_filling
}

/// Unmounts what a killed reservation left, as soon as nobody has anything of it; returns where that was.
fn unmount(name: &str) -> PathBuf {
    let place = stillframe_pages::pool::place(name).unwrap();
    until("the end of the killed reservation", || {
        let unmounted = rustix::mount::unmount(&place, rustix::mount::UnmountFlags::empty());
        assert!(matches!(unmounted, Ok(()) | Err(rustix::io::Errno::BUSY)), "{unmounted:?}");
        unmounted.is_ok()
    });
    place
}

#[test]
fn what_a_reservation_left_that_was_killed_while_it_filled_goes_back_with_the_next_of_its_name() {
    let _beside = beside();
    let system = System::default();
    let name = format!("test-killed-{}", std::process::id());
    if !kill_filling(&name) {
        return;
    }
    let left = Pool::find(&system, &name).unwrap();
    is_free(&left, 64 * MIB);
    assert_eq!(mode(&left), 0o700, "not its user's yet");
    let made = reserve(&system, &request(&name, 8 * MIB, own()), &mut |_| ControlFlow::Continue(()));
    let Some(made) = had(made).map(Made) else { return };
    assert_eq!(made.0.size(&system).unwrap().bytes, Some(8 * MIB));
    // One that is whole stays.
    let again = reserve(&system, &request(&name, 8 * MIB, own()), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(again, Err(Error::Exists { .. })));
}

#[test]
fn what_a_reservation_left_that_was_killed_before_there_was_a_pool_is_given_back() {
    let _beside = beside();
    let system = System::default();
    let name = format!("test-gathered-{}", std::process::id());
    if !kill_filling(&name) {
        return;
    }
    // As if it had been killed before it was mounted: the note is there, and the folder.
    let place = unmount(&name);
    assert!(matches!(Pool::find(&system, &name), Err(Error::NoPool { .. })));
    // Another test may have done it by whatever it did.
    let given = give_back(&system, &name, false);
    assert!(matches!(given, Ok(()) | Err(Error::NoPool { .. })), "{given:?}");
    assert!(!place.exists() && !place.with_extension("gathered").exists());
    assert!(matches!(give_back(&system, &name, false), Err(Error::NoPool { .. })));
}

#[test]
fn what_a_killed_reservation_left_goes_back_before_another_pool_does() {
    let _beside = beside();
    let name = format!("test-left-{}", std::process::id());
    let Some(made) = Made::new("beside", 4 * MIB, own()) else { return };
    if !kill_filling(&name) {
        return;
    }
    let place = unmount(&name);
    give_back_unused(&made.0.name, false).unwrap();
    assert!(!place.exists() && !place.with_extension("gathered").exists());
}
