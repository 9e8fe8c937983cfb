//! # Safety
//!
//! A forked child calls only what may be called after fork(2), and is ended and waited for by its parent. A thread that becomes another
//! user's does so by calls of the system that change that thread alone, and ends as that user's.
#![allow(unsafe_code)]

use super::*;
use crate::object::Object;
use crate::objects::Objects;
use crate::runtime::{self, RuntimeLock};
use std::os::unix::fs::PermissionsExt;
use stillframe_kernel::lock::Kind;
use stillframe_kernel::user_id;

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
        assert_eq!(news.stability, Stability::Settled, "written anew: {is_rewritten}");
    }
}

/// The locks of a program that may only read, on whatever it can open.
fn lock_to_read(path: &std::path::Path) -> File {
    let file = File::open(path).unwrap();
    assert!(lock::try_lock(&file, Kind::Read, 0, 2).unwrap());
    file
}

/// The user and the group that nobody uses.
const NOBODY: u32 = 65534;

/// Does something as another user; `None` where this one is not root, who alone can.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    if user_id() != 0 {
        eprintln!("skipped: only root can become another user");
        return None;
    }
    let become_nobody = || {
        let calls =
            [(libc::SYS_setgroups, [0; 3]), (libc::SYS_setresgid, [NOBODY; 3]), (libc::SYS_setresuid, [NOBODY; 3])];
        for (call, [first, second, third]) in calls {
            // SAFETY: numbers of users, and no list of groups; unlike those of libc these calls are about this thread alone.
            assert_eq!(unsafe { libc::syscall(call, first, second, third) }, 0);
        }
        assert_eq!(user_id(), NOBODY);
        work()
    };
    Some(std::thread::scope(|scope| scope.spawn(become_nobody).join().unwrap()))
}

/// An object that others may read, with a complete version 1 and a writer that lives.
fn readable() -> (tempfile::TempDir, Object, crate::write::WriteFragment) {
    let place = tempfile::Builder::new().prefix("stillframe-test-others-").tempdir_in("/dev/shm").unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let objects = Objects::options().dir(place.path().join("o")).mode(0o755).as_runtime().open().unwrap();
    let object = objects.create("u", "var u [8] int32").create().unwrap();
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    (place, object, writer)
}

#[test]
fn who_may_only_read_reads_while_a_board_is_locked_or_a_lock_feigned_and_while_there_is_a_runtime() {
    let (place, object, mut writer) = readable();
    let dir = place.path().join("o");
    let read = || {
        let objects = Objects::options().dir(&dir).look().unwrap().expect("there are objects");
        let newest = objects.object_named("u").unwrap().newest().unwrap();
        (newest, runtime::is_running(objects.directory()).unwrap())
    };
    let (board, shown) = (object.shared().board.path(), dir.join(".objects").join(runtime::LOCK));
    let Some(first) = as_nobody(read) else { return };
    assert_eq!(first, (1, false));
    let locked = object.shared().board.lock().unwrap();
    assert_eq!(as_nobody(read), Some((1, false)), "the board is locked");
    drop(locked);
    let running = RuntimeLock::take(&Objects::options().dir(&dir).mode(0o755).as_runtime().open().unwrap()).unwrap();
    assert!(running.is_some());
    assert_eq!(as_nobody(read), Some((1, true)), "there is a runtime");
    drop(running);
    // Of its own they keep no other user from anything.
    let feigned = as_nobody(|| [lock_to_read(&board), lock_to_read(&shown)]);
    assert_eq!(as_nobody(read).map(|(newest, _)| newest), Some(1), "both are feigned");
    let of_writers = ["locks", "locks/u", "locks/.runtime", "hints"].map(|name| dir.join(".objects").join(name));
    let opened = |path: &PathBuf| File::open(path).map_err(|error| error.kind());
    for path in &of_writers {
        assert!(opened(path).is_ok(), "{}", path.display());
        assert_eq!(as_nobody(|| opened(path).err()), Some(Some(ErrorKind::PermissionDenied)), "{}", path.display());
    }
    writer.publish(2).unwrap();
    assert_eq!(as_nobody(read).map(|(newest, _)| newest), Some(2));
    let running = RuntimeLock::take(&Objects::options().dir(&dir).mode(0o755).as_runtime().open().unwrap()).unwrap();
    assert!(running.is_some(), "it is feigned");
    drop((feigned, running));
    writer.detach().unwrap();
}

/// `still node` and `still gc` ask for the mode that is their user's alone.
#[test]
fn who_may_read_or_write_a_directory_may_do_so_whatever_mode_the_next_program_asks_for() {
    for (of_first, wanted, of_writers) in [(0o770, 0o660, 0o660), (0o755, 0o644, 0o600), (0o775, 0o664, 0o660)] {
        let place = tempfile::Builder::new().prefix("stillframe-test-group-").tempdir_in("/dev/shm").unwrap();
        let dir = place.path().join("o");
        let options = || Objects::options().dir(&dir).as_runtime().trust(stillframe::Trust::Any);
        drop(options().mode(of_first).open().unwrap());
        let objects = options().open().unwrap();
        let object = objects.create("u", "var u [8] int32").create().unwrap();
        object.write("{ var v = u }").attach().unwrap().detach().unwrap();
        drop(RuntimeLock::take(&objects).unwrap().expect("there is no other"));
        let check = |name: &str, wanted: u32| {
            let mode = std::fs::metadata(dir.join(".objects").join(name)).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, wanted, "{name} in {of_first:o}");
        };
        ["bell", "runtime.lock", "names/u", "boards/u"].iter().for_each(|name| check(name, wanted));
        ["hints", "locks/u", "locks/.runtime"].iter().for_each(|name| check(name, of_writers));
        let mut locked = object.shared().board.lock().unwrap();
        fill(&mut locked);
        locked.compact().unwrap();
        check("boards/u", wanted);
    }
}

#[test]
fn what_root_makes_in_the_directory_of_another_user_shuts_him_out_of_nothing() {
    let place = tempfile::Builder::new().prefix("stillframe-test-root-").tempdir_in("/dev/shm").unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let dir = place.path().join("o");
    let open = || Objects::options().dir(&dir).as_runtime().trust(stillframe::Trust::User(NOBODY)).open().unwrap();
    let create = |name: &str| open().create(name, "var u [8] int32").create().unwrap();
    if as_nobody(|| drop(create("u"))).is_none() {
        return;
    }
    // As before there were locks, and where root comes first.
    for name in ["locks", "hints", "bell"] {
        let path = dir.join(".objects").join(name);
        let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
    }
    let object = open().object_named("u").unwrap();
    drop(object.shared().board.lock().unwrap());
    drop(RuntimeLock::take(&open()).unwrap().expect("there is no other"));
    drop(create("v"));
    let attach = |name: &str| {
        let mut writer = open().object_named(name).unwrap().write("{ var v = u }").attach().unwrap();
        writer.publish(1).unwrap();
        writer.detach().unwrap();
    };
    as_nobody(|| {
        attach("u");
        attach("v");
        assert!(RuntimeLock::take(&open()).unwrap().is_some());
        open().remove("u", false).unwrap();
    });
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
    assert_eq!(
        (news.claimed, news.stability),
        (None, Stability::Changing),
        "the claim has ended, and the board is locked"
    );
    drop(locked);
    let news = board.read(&mut Position::default()).unwrap();
    assert_eq!((news.claimed, news.stability), (None, Stability::Settled), "who may write knows whether it is locked");
    attached.detach().unwrap();
}

#[test]
fn a_claim_of_who_died_is_none_though_a_program_that_may_only_read_feigns_its_lock() {
    let (_place, object) = object();
    let board = &object.shared().board;
    let mut locked = board.lock().unwrap();
    locked.add(attach(locked.next_number().unwrap())).unwrap();
    drop(locked);
    // As a process leaves it that is killed with a claim.
    let file = File::options().read(true).write(true).open(board.path()).unwrap();
    let mut bytes = [0; HEADER_BYTES];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let of_killed = Header::decode(&bytes).unwrap().encode_claim(Some(5));
    file.write_all_at(&of_killed, CLAIM_AT as u64).unwrap();
    drop(file);
    assert_eq!(board.read(&mut Position::default()).unwrap().claimed, None, "nobody has its lock");
    let _lock = lock_to_read(&board.path());
    let locked = board.lock().unwrap();
    let news = board.read(&mut Position::default()).unwrap();
    assert_eq!((news.claimed, news.stability, news.entries.len()), (None, Stability::Changing, 1));
    drop(locked);
}

#[test]
fn half_of_a_claim_is_none() {
    let header = Header::new(1, HEADER_BYTES as u64, 0);
    let mut bytes = header.encode();
    assert_eq!(header::claim(&bytes), Ok(None));
    bytes[CLAIM_AT..].copy_from_slice(&header.encode_claim(Some(5)));
    assert_eq!(header::claim(&bytes), Ok(Some(5)));
    bytes[CLAIM_AT] = 6;
    assert!(header::claim(&bytes).is_err() && Header::decode(&bytes).unwrap().has_claim);
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
