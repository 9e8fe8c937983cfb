//! Programs that know nothing of large pages, run as they are with the library and a pool of the test's own.
//!
//! That takes root and large pages that can be gathered. Elsewhere the library and the programs are still built, and each test
//! says that it was skipped and why.

#[path = "programs/calls.rs"]
mod calls;
#[path = "../../stillframe/tests/it/common/compiled.rs"]
mod compiled;
#[path = "../../stillframe/tests/it/common/machine.rs"]
mod machine;

use compiled::is_current;
use machine::lock_machine;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use stillframe_pages::holders::holders;
use stillframe_pages::reserve::{Access, Request, give_back, reserve};
use stillframe_pages::supply::System;
use stillframe_pages::{Error, Page, Pool};

/// How long any program may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(180);
const MIB: u64 = 1 << 20;
const NOBODY: u32 = 65534;

/// The folder with `still` and the library in it: of the build that this test is part of, or what `STILLFRAME_BUILT`
/// names.
fn build() -> &'static Path {
    static BUILD: OnceLock<PathBuf> = OnceLock::new();
    BUILD.get_or_init(|| {
        if let Some(built) = std::env::var_os("STILLFRAME_BUILT") {
            return built.into();
        }
        let own = std::env::current_exe().unwrap();
        let folder = own.parent().unwrap().parent().unwrap().to_path_buf();
        // A library of this kind is not built for the tests that run it.
        let library = folder.join("libstillframe_memory.so");
        assert!(library.exists(), "{} is missing: `make test-build` builds it", library.display());
        folder
    })
}

/// A program built from a source in `tests/programs`.
fn program(name: &str, compiler: &[&str], source: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let programs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memory-programs");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = here.join("tests/programs").join(source);
    let headers = [here.join("tests/programs/scene.h"), here.join("../../bindings/c/include/stillframe.h")];
    if is_current(&programs.join(name), &[&source, &headers[0], &headers[1]]) {
        return programs.join(name);
    }
    let folder = programs.join(format!("{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg(source).arg("-o").arg(folder.join(name));
    let status = command.status().unwrap_or_else(|error| panic!("{}: {error}", compiler[0]));
    assert!(status.success(), "{command:?}");
    // Moved in one step, because another run of these tests may use the program that it replaces.
    std::fs::rename(folder.join(name), programs.join(name)).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    programs.join(name)
}

const C: [&str; 4] = ["cc", "-O1", "-Wall", "-pthread"];

fn scenes() -> &'static Path {
    static SCENES: OnceLock<PathBuf> = OnceLock::new();
    SCENES.get_or_init(|| program("scenes", &C, "scenes.c"))
}

fn random() -> &'static Path {
    static RANDOM: OnceLock<PathBuf> = OnceLock::new();
    RANDOM.get_or_init(|| program("random", &C, "random.c"))
}

/// A pool that is given back at the end.
struct Made(Pool);

impl Made {
    /// `None`, with the reason, where there can be none.
    fn new(test: &str, mib: u64) -> Option<Made> {
        Made::open_to(test, mib, Access { user: 0, group: 0, mode: 0o700 })
    }

    fn open_to(test: &str, mib: u64, access: Access) -> Option<Made> {
        lock_machine();
        let name = format!("test-memory-{test}-{}", std::process::id());
        let request = Request { name, bytes: mib * MIB, page: Page::Large, by_node: false, is_filled: false, access };
        match reserve(&System::default(), &request, &mut |_| std::ops::ControlFlow::Continue(())) {
            Ok(pool) => Some(Made(pool)),
            Err(error @ (Error::NotPermitted { .. } | Error::NoSuchPage { .. } | Error::TooFew { .. })) => {
                // What takes no pages is to be there.
                build();
                scenes();
                skip(error);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// `still run --pages` of a program.
    fn run(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Command {
        self.run_with(&["--report"], program, arguments)
    }

    fn run_with(&self, options: &[&str], program: impl AsRef<Path>, arguments: &[&str]) -> Command {
        let mut command = Command::new(build().join("still"));
        command.args(["run", &format!("--pages={}", self.0.name)]).args(options).arg("--");
        command.arg(program.as_ref()).args(arguments);
        command
    }

    fn free_mib(&self) -> u64 {
        self.0.size(&System::default()).unwrap().free_bytes / MIB
    }

    /// Waits until so much is free. Who reads what another process has mapped, as a test beside this one may, keeps the memory of
    /// one that ended for a moment.
    #[track_caller]
    fn is_free(&self, mib: u64) {
        let end = Instant::now() + PATIENCE;
        while self.free_mib() != mib {
            assert!(Instant::now() < end, "{} of {mib} MiB are free", self.free_mib());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Says why a test does nothing.
fn skip(why: impl std::fmt::Display) {
    eprintln!("SKIPPED: {why}");
}

impl Drop for Made {
    fn drop(&mut self) {
        let end = Instant::now() + PATIENCE;
        let given = loop {
            match give_back(&System::default(), &self.0.name, true) {
                // As in `is_free`.
                Err(Error::Busy { .. }) if Instant::now() < end && !std::thread::panicking() => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                given => break given,
            }
        };
        // A mount namespace of somebody who tests, too, may have begun meanwhile, and keeps the pages until it ends.
        let is_given = matches!(given, Ok(()) | Err(Error::NoPool { .. } | Error::Kept { .. }));
        assert!(is_given || std::thread::panicking(), "{given:?}");
    }
}

/// A process that is killed if the test ends before it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn start(mut command: Command) -> Process {
    Process(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// The end of a process, and what it said.
fn finish(mut process: Process) -> (ExitStatus, String, String) {
    let mut out = process.0.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        out.read_to_end(&mut said).unwrap();
        String::from_utf8_lossy(&said).into_owned()
    });
    let end = Instant::now() + PATIENCE;
    let status = loop {
        match process.0.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(Instant::now() < end, "a program hangs"),
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut complained = String::new();
    process.0.stderr.take().unwrap().read_to_string(&mut complained).unwrap();
    (status, reader.join().unwrap(), complained)
}

/// What a program said that succeeded, and what it complained of.
#[track_caller]
fn succeed(command: Command) -> (String, String) {
    let (status, said, complained) = finish(start(command));
    assert!(status.success(), "{status}: {said}{complained}");
    (said, complained)
}

/// Waits for a line that a program says.
fn wait_for_line(process: &mut Process) {
    let mut out = process.0.stdout.take().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut byte = [0];
        while byte != *b"\n" && out.read(&mut byte).is_ok_and(|count| count == 1) {}
        let _ = sender.send((byte == *b"\n").then_some(out));
    });
    let out = receiver.recv_timeout(PATIENCE).expect("a program hangs");
    process.0.stdout = Some(out.expect("a program has ended"));
}

/// A scene in a pool, after which everything is free again.
#[track_caller]
fn play(scene: &str, mib: u64) {
    let Some(pool) = Made::new(scene, mib) else { return };
    succeed(pool.run(scenes(), &[scene]));
    pool.is_free(mib);
}

#[test]
fn blocks_are_there_at_once_in_large_pages_and_cost_nothing_when_they_are_asked_for_again() {
    play("heap", 96);
}

#[test]
fn large_blocks_take_what_they_are_and_leave_it_whole() {
    play("tight", 108);
}

#[test]
fn arrays_that_grow_side_by_side_do_not_lie_in_what_the_others_left() {
    play("grow_apart", 100);
}

#[test]
fn a_block_that_grows_stays_where_it_is_or_takes_along_what_it_had() {
    play("grows", 600);
}

#[test]
fn threads_that_take_change_and_free_large_blocks_find_what_they_wrote() {
    play("large", 400);
}

#[test]
fn a_block_that_was_freed_is_memory_again_whatever_was_done_to_it() {
    play("reused", 120);
}

#[test]
fn what_a_block_was_advised_is_not_meant_for_the_next() {
    play("advised", 240);
}

#[test]
fn what_a_child_has_not_got_of_a_block_is_nobodys() {
    play("child_holes", 64);
}

#[test]
fn memory_of_several_large_pages_moves_as_one() {
    play("moves", 256);
}

#[test]
fn nobody_gets_addresses_that_a_block_has_no_memory_at_for_a_moment() {
    play("holes", 96);
}

#[test]
fn what_handlers_of_signals_write_beside_a_cut_is_not_lost() {
    play("ticked", 120);
}

#[test]
fn what_is_written_in_places_takes_memory_in_places() {
    play("sparse", 64);
}

#[test]
fn a_child_copies_nothing_that_was_freed() {
    play("freed_forks", 160);
}

#[test]
fn threads_that_come_and_go_beside_forks_leave_no_lock_taken() {
    play("passing_threads", 64);
}

#[test]
fn what_is_said_to_nobody_ends_no_program() {
    let Some(pool) = Made::new("to-nobody", 32) else { return };
    let mut command = pool.run(scenes(), &["take", "40"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command.stderr(writer).stdout(std::process::Stdio::null()).status().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn odd_sizes_and_alignments_are_answered_as_by_the_c_library() {
    play("odd", 64);
}

#[test]
fn the_kernels_calls_cut_large_pages_and_nothing_is_lost() {
    play("cut", 64);
}

#[test]
fn what_other_threads_write_beside_a_cut_is_not_lost() {
    play("busy_cut", 80);
}

#[test]
fn what_a_program_maps_itself_is_there_at_once_and_the_kernels() {
    play("maps", 64);
}

#[test]
fn what_a_program_was_loaded_with_lies_in_the_pool() {
    play("loaded", 64);
}

#[test]
fn a_program_of_fortran_has_its_common_blocks_and_arrays_there() {
    let Some(pool) = Made::new("fortran", 96) else { return };
    if Command::new("gfortran").arg("--version").output().is_err() {
        skip("there is no gfortran here");
        return;
    }
    let fortran = program("common", &["gfortran", "-O1", "-Wall"], "common.f90");
    let (said, complained) = succeed(pool.run(fortran, &[]));
    assert_eq!(said.trim(), "fine");
    assert!(complained.contains("MiB of that what it was loaded with"), "{complained}");
}

#[test]
fn a_program_that_publishes_arrays_of_the_pool_publishes_what_it_wrote() {
    let Some(pool) = Made::new("publishes", 128) else { return };
    let library = build().join("libstillframe.so");
    let folder = tempfile::Builder::new().prefix("stillframe-memory-").tempdir_in("/dev/shm").unwrap();
    std::os::unix::fs::symlink(&library, folder.path().join("libstillframe.so.0")).unwrap();
    let headers = format!("-I{}/../../bindings/c/include", env!("CARGO_MANIFEST_DIR"));
    let compiler = [&C[..], &[&headers, "-Wl,--no-as-needed", library.to_str().unwrap()]].concat();
    let program = program("publishes", &compiler, "publishes.c");
    for unit in ["learned", "small", "large"] {
        let mut command = pool.run(&program, &[folder.path().to_str().unwrap()]);
        command.env("LD_LIBRARY_PATH", folder.path()).env("STILLFRAME_COPY_UNIT", unit);
        let (said, complained) = succeed(command);
        assert_eq!(said.trim(), "fine", "{unit}: {complained}");
    }
    pool.is_free(128);
}

#[test]
fn stacks_are_there_before_anybody_stands_on_them() {
    play("stack", 64);
}

#[test]
fn a_hundred_threads_allocate_and_end() {
    play("threads", 96);
}

#[test]
fn no_memory_has_to_be_locked() {
    play("locked", 64);
}

#[test]
fn children_have_their_parents_memory_as_it_was() {
    // Once with room for a second of everything, and once with hardly any.
    play("forks", 160);
    let Some(pool) = Made::new("forks-short", 58) else { return };
    succeed(pool.run(scenes(), &["forks"]));
}

#[test]
fn a_fork_beside_threads_that_write_succeeds_or_fails_as_without_memory() {
    for mib in [192, 64] {
        let Some(pool) = Made::new(&format!("busy-{mib}"), mib) else { return };
        let (said, complained) = succeed(pool.run(scenes(), &["busy_forks"]));
        let numbers: Vec<u32> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert_eq!(numbers[0] + numbers[1], 20);
        assert_eq!(numbers[1] > 0, complained.contains("the fork fails"), "{said}{complained}");
    }
}

#[test]
fn threads_that_ask_for_large_blocks_at_the_same_moment_all_get_one() {
    play("together", 16);
}

#[test]
fn a_process_that_has_used_up_its_pool_forks() {
    play("full_forks", 96);
}

#[test]
fn a_thread_with_the_smallest_stack_gets_memory() {
    play("small_stack", 160);
}

#[test]
fn in_a_container_that_refuses_calls_children_are_whole_and_nothing_is_lost() {
    play("confined", 160);
}

#[test]
fn a_thread_on_a_stack_of_the_heap_stands_on_ordinary_memory() {
    play("own_stack", 96);
}

#[test]
fn a_signal_handler_that_asks_for_memory_runs_when_the_fork_is_done() {
    play("rung_at", 160);
}

#[test]
fn fibers_on_stacks_of_the_heap_stand_on_ordinary_memory() {
    play("fibers", 128);
}

#[test]
fn a_signal_handler_forks_whatever_its_thread_was_doing() {
    play("rung_forks", 96);
}

#[test]
fn a_fork_whose_child_could_not_have_all_fails_also_without_descriptors() {
    let Some(pool) = Made::new("full_forks_unseen", 64) else { return };
    let script = format!("ulimit -n 64; exec {} full_forks_unseen", scenes().display());
    succeed(pool.run("sh", &["-c", &script]));
}

#[test]
fn what_a_program_maps_lies_in_the_pool_and_goes_back_to_it() {
    let Some(pool) = Made::new("mapped", 256) else { return };
    let (_, complained) = succeed(pool.run_with(&["--mappings"], scenes(), &["take", "1"]));
    if complained.contains("does not come from the pool") {
        skip(complained);
        return;
    }
    succeed(pool.run_with(&["--mappings"], scenes(), &["mapped"]));
    pool.is_free(256);
}

#[test]
fn the_kernel_writes_for_a_thread_while_another_one_forks() {
    play("reads_and_forks", 128);
}

#[test]
fn a_strict_program_has_what_the_pool_has_and_nothing_else() {
    let Some(pool) = Made::new("strict", 96) else { return };
    let (_, complained) = succeed(pool.run_with(&["--strict"], scenes(), &["strict"]));
    for (line, count) in [("gets no more memory (--strict)", 1), ("cannot fork", 1), ("small pages", 0)] {
        assert_eq!(complained.matches(line).count(), count, "{line}: {complained}");
    }
    // Its static arrays lie there, or it does not begin.
    let Some(pool) = Made::new("strict-small", 8) else { return };
    let (status, said, complained) = finish(start(pool.run_with(&["--strict"], scenes(), &["take", "1"])));
    assert!(
        status.code() == Some(1) && said.is_empty() && complained.contains("gets no more memory (--strict)"),
        "{said}{complained}"
    );
}

#[test]
fn a_child_of_a_process_with_threads_enters_no_allocator_that_may_wait_for_them() {
    play("orphan", 64);
}

#[test]
fn threads_get_memory_while_a_child_copies_its_own() {
    play("stopped_copy", 288);
}

#[test]
fn a_program_fills_its_memory_itself_when_it_is_touched() {
    play("lazy", 96);
}

#[test]
fn threads_read_and_flush_files_while_another_one_forks() {
    play("files_and_forks", 96);
}

#[test]
fn a_thread_that_is_cancelled_gets_its_memory() {
    let Some(pool) = Made::new("cancelled", 64) else { return };
    let (_, complained) = succeed(pool.run(scenes(), &["cancelled"]));
    assert!(complained.contains("is empty"), "{complained}");
}

#[test]
fn who_waits_until_he_is_heard_holds_nobody_up() {
    let Some(pool) = Made::new("unheard", 64) else { return };
    let mut process = start(pool.run(scenes(), &["unheard"]));
    wait_for_line(&mut process);
    let mut complained = String::new();
    process.0.stderr.take().unwrap().read_to_string(&mut complained).unwrap();
    let status = process.0.wait().unwrap();
    assert!(status.success() && complained.contains("is empty"), "{status}: {complained}");
}

#[test]
fn what_is_said_goes_to_nobodys_file() {
    let Some(pool) = Made::new("own-file", 32) else { return };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("own-file-{}", std::process::id()));
    succeed(pool.run(scenes(), &["own_file", file.to_str().unwrap()]));
    std::fs::remove_file(file).unwrap();
}

#[test]
fn settings_for_another_mimalloc_change_nothing() {
    let Some(pool) = Made::new("settings", 96) else { return };
    let mut command = pool.run(scenes(), &["heap"]);
    for setting in ["PAGE_COMMIT_ON_DEMAND", "DISALLOW_ARENA_ALLOC", "DESTROY_ON_EXIT"] {
        command.env(format!("MIMALLOC_{setting}"), "1");
    }
    succeed(command);
}

#[test]
fn children_of_a_process_whose_threads_allocate_allocate_too() {
    play("storm", 160);
}

#[test]
fn a_small_process_takes_nothing_of_the_pool() {
    let Some(pool) = Made::new("small", 16) else { return };
    let (_, complained) = succeed(pool.run("sh", &["-c", "ls / > /dev/null; true"]));
    assert!(complained.contains(": 0 KiB from the pool"), "{complained}");
    assert_eq!(complained.matches("from the pool").count(), 1, "only the program itself reports: {complained}");
}

#[test]
fn two_processes_that_empty_a_pool_go_on_in_small_pages() {
    let Some(pool) = Made::new("two", 96) else { return };
    let both = [(); 2].map(|()| start(pool.run(scenes(), &["take", "80"])));
    let mut lines = 0;
    for process in both {
        let (status, said, complained) = finish(process);
        assert!(status.success() && said == "taken\n", "{status}: {said}{complained}");
        assert!(complained.matches("is empty").count() <= 1, "said once: {complained}");
        lines += complained.matches("is empty").count();
    }
    assert!(lines >= 1, "both have 160 MiB, and 44 of arrays");
    pool.is_free(96);
}

/// A control group of a test's own, which is removed at the end.
struct Group(PathBuf);

impl Group {
    /// `None`, with the reason, where groups do not bound large pages.
    fn new(test: &str) -> Option<Group> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let unified = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"));
        let Some(root) = unified.and_then(|line| line.split(' ').nth(1)).map(PathBuf::from) else {
            skip("there are no unified control groups here");
            return None;
        };
        let group = Group(root.join(format!("stillframe-test-{test}-{}", std::process::id())));
        // Other tests want it as well, so it stays so.
        let made = std::fs::write(root.join("cgroup.subtree_control"), "+hugetlb");
        let made = made.and_then(|()| std::fs::create_dir(&group.0));
        match made {
            Ok(()) if group.0.join(MAX).exists() && group.0.join(PROMISED_MAX).exists() => Some(group),
            made => {
                skip(format!("groups do not bound large pages here: {made:?}"));
                None
            }
        }
    }

    /// One whose processes may have so much memory; `None`, with the reason, where that cannot be said.
    fn of_memory(test: &str, mib: u64) -> Option<Group> {
        let name = format!("stillframe-test-{test}-{}", std::process::id());
        let former = Path::new("/sys/fs/cgroup/memory");
        let (root, file) = match former.join("memory.limit_in_bytes").exists() {
            true => (former, "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let group = Group(root.join(name));
        let made = std::fs::create_dir(&group.0).and_then(|()| {
            std::fs::write(group.0.join(file), (mib * MIB).to_string())?;
            // Nothing goes to a disk instead, where there is one for that.
            let _ = std::fs::write(group.0.join("memory.swap.max"), "0");
            Ok(())
        });
        made.inspect_err(|error| skip(format!("groups do not bound memory here: {error}"))).ok().map(|()| group)
    }

    /// How many processes of it the kernel ended because it had no more memory.
    fn kills(&self) -> u64 {
        let files = ["memory.oom_control", "memory.events"].map(|file| std::fs::read_to_string(self.0.join(file)));
        let text = files.into_iter().find_map(Result::ok).unwrap();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")).unwrap().trim().parse().unwrap()
    }

    /// The same command in this group.
    fn within(&self, command: &Command) -> Command {
        let mut within = Command::new("sh");
        within.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(&self.0);
        within.arg(command.get_program()).args(command.get_args());
        within
    }

    /// Sets a bound of it, when it has nothing of what ended processes had. As in `is_free` that may take a moment.
    fn set(&self, file: &str, value: &str) {
        let has = |file| std::fs::read_to_string(self.0.join(file)).unwrap().trim() != "0";
        let end = Instant::now() + PATIENCE;
        while USED.into_iter().any(has) {
            assert!(Instant::now() < end, "the group has pages of processes that ended");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::fs::write(self.0.join(file), value).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It is busy for a moment longer than the processes were in it.
        let end = Instant::now() + PATIENCE;
        while std::fs::remove_dir(&self.0).is_err_and(|error| error.kind() == ErrorKind::ResourceBusy) {
            if Instant::now() > end || std::thread::panicking() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// What a group may have, and what may be promised to it.
const MAX: &str = "hugetlb.2MB.max";
const PROMISED_MAX: &str = "hugetlb.2MB.rsvd.max";
/// What it has, and what is promised to it.
const USED: [&str; 2] = ["hugetlb.2MB.current", "hugetlb.2MB.rsvd.current"];

#[test]
fn a_process_that_may_have_less_of_the_pool_than_it_wants_goes_on_in_small_pages() {
    let Some(pool) = Made::new("bounded", 160) else { return };
    let Some(group) = Group::new("bounded") else { return };
    for (file, mib) in [(MAX, 0), (MAX, 40), (PROMISED_MAX, 0), (PROMISED_MAX, 40)] {
        group.set(file, &(mib * MIB).to_string());
        let (said, complained) = succeed(group.within(&pool.run(scenes(), &["take", "80"])));
        assert_eq!(said, "taken\n");
        assert_eq!(complained.matches("a cgroup bounds").count(), 1, "{file} {mib}: {complained}");
        assert!(!complained.contains("is empty"), "{complained}");
        group.set(file, "max");
        pool.is_free(160);
    }
}

/// Nothing is filled unasked that a program may need elsewhere.
#[test]
fn programs_that_use_little_of_what_they_ask_for_live_with_the_memory_of_their_group() {
    let Some(pool) = Made::new("limited", 24) else { return };
    let Some(group) = Group::of_memory("limited", 768) else { return };
    // As ranks that begin at once.
    let both = [(); 2].map(|()| start(group.within(&pool.run(scenes(), &["limited"]))));
    for mut process in both {
        assert!(process.0.wait().unwrap().success());
    }
}

#[test]
fn a_process_that_has_used_up_what_its_group_may_have_forks() {
    let Some(pool) = Made::new("bounded-forks", 160) else { return };
    let Some(group) = Group::new("bounded-forks") else { return };
    for file in [MAX, PROMISED_MAX] {
        group.set(file, &(96 * MIB).to_string());
        succeed(group.within(&pool.run(scenes(), &["full_forks"])));
        group.set(file, "max");
        pool.is_free(160);
    }
}

#[test]
fn a_process_is_shown_as_holder_and_one_that_is_killed_leaves_nothing() {
    let Some(pool) = Made::new("kill", 96) else { return };
    let mut process = start(pool.run(scenes(), &["hold", "40"]));
    wait_for_line(&mut process);
    let shown = holders(&System::default(), &pool.0);
    assert_eq!(shown.iter().map(|holder| holder.pid).collect::<Vec<_>>(), [process.0.id()]);
    assert!(shown[0].bytes >= 40 * MIB && pool.free_mib() <= 56, "{shown:?}");
    process.0.kill().unwrap();
    process.0.wait().unwrap();
    pool.is_free(96);
    assert_eq!(holders(&System::default(), &pool.0).len(), 0);
}

#[test]
fn a_pool_that_is_taken_away_is_missed_and_no_more() {
    let Some(pool) = Made::new("away", 96) else { return };
    // With mounts of its own, so that the pool goes away for it alone.
    let mut command = Command::new("unshare");
    command.args(["-m", "--"]).arg(build().join("still")).args(["run", &format!("--pages={}", pool.0.name), "--"]);
    command.arg(scenes()).args(["hold_and_take", "24"]);
    let mut process = start(command);
    wait_for_line(&mut process);
    let mut take = Command::new("nsenter");
    take.args(["-m", "-t", &process.0.id().to_string(), "--", "umount", "-l"]).arg(&pool.0.mount.path);
    assert!(take.status().unwrap().success());
    process.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    let (status, _, complained) = finish(process);
    assert!(status.success(), "{status}: {complained}");
    assert_eq!(complained.matches("is not there any more").count(), 1, "{complained}");
    pool.is_free(96);
}

#[test]
fn a_bound_on_addresses_holds() {
    let Some(pool) = Made::new("limits", 64) else { return };
    let script = format!("ulimit -v 700000; exec {} limits", scenes().display());
    succeed(pool.run("sh", &["-c", &script]));
    let script = format!("ulimit -s unlimited; exec {} stack", scenes().display());
    succeed(pool.run("sh", &["-c", &script]));
}

#[test]
fn a_limit_of_a_process_is_not_taken_for_a_groups() {
    let Some(pool) = Made::new("own-limits", 400) else { return };
    let run = |limit: &str| {
        let script = format!("ulimit {limit}; exec {} limits", scenes().display());
        let (_, complained) = succeed(pool.run("sh", &["-c", &script]));
        assert!(!complained.contains("cgroup"), "{limit}: {complained}");
        complained
    };
    // Addresses run out before pages are asked for, as these are reserved first.
    run("-v 400000");
    let complained = run("-d 250000");
    assert!(complained.contains("is reached (`ulimit -d`)"), "{complained}");
}

#[test]
fn a_core_has_the_large_pages_and_everything_is_free_afterwards() {
    let Some(pool) = Made::new("core", 96) else { return };
    let place = std::env::temp_dir().join(format!("stillframe-memory-core-{}", std::process::id()));
    std::fs::create_dir(&place).unwrap();
    let script = format!("ulimit -c unlimited; exec {} aborts", scenes().display());
    let mut command = pool.run("sh", &["-c", &script]);
    command.current_dir(&place);
    let (status, _, _) = finish(start(command));
    assert_eq!(status.signal(), Some(6));
    pool.is_free(96);
    // Where the kernel writes cores to is the machine's choice.
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim() == "core"
        && let Some(core) = std::fs::read_dir(&place).unwrap().flatten().next()
    {
        let core = std::fs::read(core.path()).unwrap();
        let pages = core.chunks(4096).filter(|page| page.contains(&0x5a)).count();
        assert!(pages >= 4096, "16 MiB have a byte in each page: {pages}");
    }
    std::fs::remove_dir_all(place).unwrap();
}

#[test]
fn other_users_need_a_pool_that_is_theirs() {
    let Some(pool) = Made::new("users", 16) else { return };
    // Where everybody can read what is run.
    let place = std::env::temp_dir().join(format!("stillframe-memory-{}", std::process::id()));
    std::fs::create_dir(&place).unwrap();
    for file in ["still", "libstillframe_memory.so"] {
        std::fs::copy(build().join(file), place.join(file)).unwrap();
    }
    std::fs::copy(scenes(), place.join("scenes")).unwrap();
    std::fs::copy(calls::calls(), place.join("calls")).unwrap();
    let run = |pool: &Made, program: &str, arguments: &[&str]| {
        let mut command = Command::new(place.join("still"));
        command.args(["run", &format!("--pages={}", pool.0.name), "--report", "--"]).arg(place.join(program));
        command.args(arguments).uid(NOBODY).gid(NOBODY).current_dir("/");
        finish(start(command))
    };
    let (status, _, complained) = run(&pool, "scenes", &["take", "1"]);
    assert_eq!((status.code(), complained.contains("belongs to user 0")), (Some(1), true), "{complained}");
    if let Some(theirs) = Made::open_to("theirs", 128, Access { user: NOBODY, group: NOBODY, mode: 0o700 }) {
        // The kernel has writes of its own not wait for such a user.
        for (program, scene) in
            [("scenes", "heap"), ("scenes", "fibers"), ("scenes", "reads_and_forks"), ("calls", "preempted")]
        {
            let (status, _, complained) = run(&theirs, program, &[scene]);
            assert!(status.success(), "{scene}: {complained}");
        }
    }
    std::fs::remove_dir_all(place).unwrap();
}

#[test]
fn programs_that_cannot_have_it_are_refused() {
    let Some(pool) = Made::new("refused", 16) else { return };
    let refused = |program: &Path, text: &str| {
        let (status, _, complained) = finish(start(pool.run(program, &["odd"])));
        assert_eq!((status.code(), complained.contains(text)), (Some(1), true), "{complained}");
    };
    refused(&program("static", &["cc", "-static", "-pthread", "-w"], "random.c"), "linked statically");
    refused(&program("watched", &["cc", "-fsanitize=address", "-pthread", "-w"], "random.c"), "AddressSanitizer");
    let setuid = program("setuid", &C, "random.c");
    let changed = Command::new("chown").arg(NOBODY.to_string()).arg(&setuid).status().unwrap().success()
        && Command::new("chmod").arg("4755").arg(&setuid).status().unwrap().success();
    assert!(changed);
    refused(&setuid, "setuid");
    std::fs::remove_file(setuid).unwrap();
}

#[test]
fn a_program_with_an_allocator_of_its_own_keeps_it() {
    let Some(pool) = Made::new("own", 64) else { return };
    let other = program("libother.so", &["cc", "-O1", "-Wall", "-shared", "-fPIC"], "other.c");
    let mut command = pool.run(scenes(), &["take", "20"]);
    command.env("LD_PRELOAD", &other);
    let (_, complained) = succeed(command);
    assert!(complained.contains("the other allocator gave blocks"), "{complained}");
    assert!(complained.contains("in ordinary memory 0 KiB of the heap"), "{complained}");
}

#[test]
fn functions_that_are_called_for_the_first_time_cost_no_faults() {
    let Some(pool) = Made::new("code", 64) else { return };
    let program = program("code", &["cc", "-O1", "-Wall", "-fno-builtin", "-Wl,--no-as-needed", "-lm"], "code.c");
    // As it is, so that its libraries are in memory, and the test is one.
    let alone = Command::new(&program).output().unwrap();
    assert!(String::from_utf8(alone.stdout).unwrap().trim().parse::<u32>().unwrap() > 0);
    // The kernel may move or take away a page of any process at any time, and then that costs one.
    let run = |_| succeed(pool.run(&program, &[])).0;
    let said: Vec<String> = (0..10).map(run).take_while(|said| said != "0\n").collect();
    assert!(said.len() < 10, "{said:?}");
}

#[test]
fn libraries_can_be_opened_later() {
    let Some(pool) = Made::new("opens", 64) else { return };
    let library = program("liblate.so", &["cc", "-O1", "-Wall", "-shared", "-fPIC"], "late.c");
    succeed(pool.run(scenes(), &["opens", library.to_str().unwrap()]));
}

#[test]
fn a_program_under_valgrind_is_watched_as_ever() {
    let Some(pool) = Made::new("valgrind", 64) else { return };
    if Command::new("valgrind").arg("--version").output().is_err() {
        skip("there is no valgrind here");
        return;
    }
    let arguments = ["-q", "--error-exitcode=9", scenes().to_str().unwrap(), "take", "20"];
    succeed(pool.run("valgrind", &arguments));
}

#[test]
fn processes_of_python_share_out_work() {
    let Some(pool) = Made::new("python", 64) else { return };
    if Command::new("python3").arg("--version").output().is_err() {
        skip("there is no Python here");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/pool.py");
    let (said, _) = succeed(pool.run("python3", &[script.to_str().unwrap()]));
    assert_eq!(said, "fine\n");
}

#[test]
fn ranks_have_it_on_either_side_of_mpiexec() {
    let Some(pool) = Made::new("mpi", 96) else { return };
    let mpiexec = ["mpiexec", "mpiexec.hydra"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok());
    let Some(mpiexec) = mpiexec else {
        skip("there is no MPI here");
        return;
    };
    let program = scenes().to_str().unwrap();
    let (said, complained) = succeed(pool.run(mpiexec, &["-n", "2", program, "take", "16"]));
    assert_eq!(said, "taken\ntaken\n");
    assert!(complained.matches("MiB from the pool").count() >= 2, "{complained}");
    let mut command = Command::new(mpiexec);
    command.args(["-n", "2"]).arg(build().join("still")).args(["run", &format!("--pages={}", pool.0.name), "--report"]);
    command.args(["--", program, "take", "16"]);
    let (said, complained) = succeed(command);
    assert_eq!(said, "taken\ntaken\n");
    assert!(complained.matches("MiB from the pool").count() >= 2, "{complained}");
}

#[test]
fn the_report_says_what_came_from_where() {
    let Some(pool) = Made::new("report", 96) else { return };
    let (_, complained) = succeed(pool.run(scenes(), &["take", "40"]));
    assert!(complained.contains("MiB of that what it was loaded with"), "{complained}");
    assert!(complained.contains("page faults"), "{complained}");
    // 40 MiB of blocks, and static arrays of 24 and 12 MiB as far as they are whole windows.
    let of_kind = |kind: &str| {
        let line = complained.lines().find(|line| line.contains(&format!(": {kind} ")));
        let numbers =
            line.unwrap_or_else(|| panic!("{kind}: {complained}")).split(&format!(": {kind}")).nth(1).unwrap();
        let kib: Vec<u64> = numbers.split("KiB").filter_map(|number| number.trim().parse().ok()).collect();
        (kib[0] >> 10, kib[1] >> 10, kib[2] >> 10)
    };
    assert!(of_kind("blocks").0 >= 40 && of_kind("static data").0 >= 20 && of_kind("files").0 == 0, "{complained}");
    assert!(complained.contains("the kernel could take away or split"), "{complained}");
    assert!(
        complained.contains("loads missed the TLB") || complained.contains("TLB misses not counted"),
        "{complained}"
    );
}

#[test]
fn both_libraries_go_together() {
    let Some(pool) = Made::new("both", 64) else { return };
    let place = format!("/dev/shm/stillframe-memory-{}", std::process::id());
    let mut command = Command::new(build().join("still"));
    command.args(["--dir", &place, "run", "--tcasm", &format!("--pages={}", pool.0.name), "--"]);
    command.arg(scenes()).arg("forks");
    let (status, said, complained) = finish(start(command));
    let _ = std::fs::remove_dir_all(place);
    if complained.contains("libstillframe_tcasm.so is neither") {
        skip(complained);
        return;
    }
    assert!(status.success(), "{status}: {said}{complained}");
}

/// The same random calls with and without the library; `STILLFRAME_TEST_RUNS` says with how many seeds.
#[test]
fn random_calls_are_answered_as_without_the_library() {
    let runs = std::env::var("STILLFRAME_TEST_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(6);
    for mib in [64, 16] {
        let Some(pool) = Made::new(&format!("random-{mib}"), mib) else { return };
        for seed in 1..=runs {
            let arguments = [&*seed.to_string(), "200"];
            let mut plain = Command::new(random());
            plain.args(arguments);
            let (without, _) = succeed(plain);
            // What it maps is the kernel's, or comes from the pool.
            let options: &[&str] = if seed % 2 == 0 { &["--mappings=2M"] } else { &[] };
            let (with, complained) = succeed(pool.run_with(options, random(), &arguments));
            let differs = without.lines().zip(with.lines()).find(|(without, with)| without != with);
            assert_eq!(differs, None, "seed {seed}, {mib} MiB: {complained}");
            assert_eq!(without.lines().count(), with.lines().count(), "seed {seed}");
        }
    }
}
