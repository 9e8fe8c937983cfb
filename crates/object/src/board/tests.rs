//! # Safety
//!
//! A forked child calls only what may be called after fork(2), and is ended and waited for by its parent.
#![allow(unsafe_code)]

use super::*;
use crate::object::Object;
use crate::objects::Objects;

/// An object in a directory of the test's own.
fn object() -> (tempfile::TempDir, Object) {
    let place = tempfile::Builder::new().prefix("stillframe-test-board-").tempdir_in("/dev/shm").unwrap();
    let objects = Objects::options().dir(place.path()).open().unwrap();
    let object = objects.create("u", "var u [8] int32").create().unwrap();
    (place, object)
}

/// An entry that is long enough for a few of them to have the board written anew.
fn attach(number: u32) -> Entry {
    let text = format!("{{ var v = u{} }}", " ".repeat(6000));
    let (bindings, takes) = (BTreeMap::new(), Vec::new());
    let (process, rank, from, writers, remote) = (1, None, 1, None, None);
    Entry::Attach(Attached { number, process, rank, from, text, bindings, writers, remote, takes })
}

/// Adds fragments until the board is long, and forgets all but the last; that one.
fn fill(locked: &mut LockedBoard<'_>) -> u32 {
    let first = locked.next_number().unwrap();
    let last = first + 12;
    (first..=last).for_each(|number| locked.add(attach(number)).unwrap());
    (first..last).for_each(|number| locked.add(Entry::Forget { number }).unwrap());
    last
}

fn read(board: &Board, position: &mut Position) -> News {
    // File systems give the number of a file that was removed to the next one: here each has the same.
    const IDENTITY: (u64, u64) = (1, 1);
    let file = File::open(board.path()).unwrap();
    board.read_from(&file, IDENTITY, position).unwrap().0
}

#[test]
fn a_board_that_was_written_anew_is_told_from_the_one_before_also_where_the_file_has_the_number_of_that() {
    // Shorter than what was read, as long, and longer.
    for more in [0, 20, 40] {
        let (_place, object) = object();
        let board = &object.shared().board;
        let mut locked = board.lock().unwrap();
        let kept = fill(&mut locked);
        let mut position = Position::default();
        assert!(!read(board, &mut position).entries.is_empty());
        locked.compact().unwrap();
        (kept + 1..=kept + more).for_each(|number| locked.add(attach(number)).unwrap());
        let news = read(board, &mut position);
        let wanted: Vec<Entry> = (kept..=kept + more).map(attach).collect();
        assert!(news.is_anew && news.entries == wanted, "{more} more: {} entries", news.entries.len());
        // And what is added then is all that is new.
        locked.add(attach(kept + more + 1)).unwrap();
        let news = read(board, &mut position);
        assert!(!news.is_anew && news.entries == [attach(kept + more + 1)], "{more} more");
    }
}

/// A forked child that does nothing, and is ended with this.
struct Idle(i32);

impl Idle {
    fn fork() -> Idle {
        // SAFETY: the child only waits until it is ended.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: as above. It ends with the test, however that ends.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    libc::pause();
                }
            }
        }
        Idle(child)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // SAFETY: the child is this process's own, and was not waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

#[test]
fn a_child_that_was_forked_while_a_board_was_locked_keeps_it_from_nobody() {
    for is_rewritten in [false, true] {
        let (_place, object) = object();
        let board = &object.shared().board;
        let mut locked = board.lock().unwrap();
        if is_rewritten {
            fill(&mut locked);
            locked.compact().unwrap();
        }
        let _idle = Idle::fork();
        assert!(board.try_lock().unwrap().is_none(), "who forked has it still");
        locked.add(attach(locked.next_number().unwrap())).unwrap();
        drop(locked);
        assert!(board.try_lock().unwrap().is_some(), "written anew: {is_rewritten}");
        let news = board.read(&mut Position::default()).unwrap();
        assert!(news.is_settled, "written anew: {is_rewritten}");
    }
}

/// Read locks of a program that may only read: on a board, or on what shows that there is a runtime.
fn lock_to_read(path: &std::path::Path) -> File {
    let file = File::open(path).unwrap();
    assert!(lock::try_lock(&file, Kind::Read, 0, 2).unwrap());
    file
}

#[test]
fn a_program_that_may_only_read_keeps_nobody_from_a_board() {
    let (_place, object) = object();
    let board = &object.shared().board;
    let attached = object.write("{ var v = u }").attach().unwrap();
    let _lock = lock_to_read(&board.path());
    let mut locked = board.try_lock().unwrap().expect("a lock to read is none of a board");
    let number = locked.next_number().unwrap();
    locked.claim(5).unwrap();
    assert_eq!(board.read(&mut Position::default()).unwrap().claimed, Some(5));
    locked.add(attach(number)).unwrap();
    let news = board.read(&mut Position::default()).unwrap();
    assert_eq!((news.claimed, news.is_settled), (None, false), "the claim has ended, and the board is locked");
    drop(locked);
    let news = board.read(&mut Position::default()).unwrap();
    assert_eq!((news.claimed, news.is_settled), (None, true), "who may write knows whether it is locked");
    attached.detach().unwrap();
}

#[test]
fn a_claim_of_who_died_is_none_though_a_program_that_may_only_read_feigns_its_lock() {
    let (_place, object) = object();
    let board = &object.shared().board;
    let mut locked = board.lock().unwrap();
    locked.claim(5).unwrap();
    // As of a process that dies.
    drop(locked);
    let _lock = lock_to_read(&board.path());
    let locked = board.lock().unwrap();
    let news = board.read(&mut Position::default()).unwrap();
    assert_eq!((news.claimed, news.is_settled), (None, false));
    drop(locked);
}

#[test]
fn the_lock_of_a_board_goes_with_it() {
    let (place, object) = object();
    object.write("{ var v = u }").attach().unwrap().detach().unwrap();
    let locks = || std::fs::read_dir(place.path().join(".objects/locks")).unwrap().count();
    assert_eq!(locks(), 1);
    Objects::options().dir(place.path()).open().unwrap().remove("u", false).unwrap();
    assert_eq!(locks(), 0);
}
