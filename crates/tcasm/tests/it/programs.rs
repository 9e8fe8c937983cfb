//! Programs written for TCASM's interface, in C and Fortran, run as they are.

use crate::compiled::is_current;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use stillframe::Observer;

/// How long any program may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// The folder of the build that this test is part of, with `still` and the library in it.
fn build() -> &'static Path {
    static BUILD: OnceLock<PathBuf> = OnceLock::new();
    BUILD.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        let folder = own.parent().unwrap().parent().unwrap().to_path_buf();
        // A library of this kind is not built for the tests that run it.
        let library = folder.join("libstillframe_tcasm.so");
        assert!(library.exists(), "{} is missing: `make test-build` builds it", library.display());
        folder
    })
}

/// A program built from sources in `tests/programs`.
fn program(name: &str, compiler: &[&str], sources: &[&str]) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let programs = build().join("tcasm-programs");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let sources: Vec<PathBuf> = sources.iter().map(|source| here.join(source)).collect();
    if is_current(&programs.join(name), &sources.iter().map(PathBuf::as_path).collect::<Vec<_>>()) {
        return programs.join(name);
    }
    let folder = programs.join(format!("{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).current_dir(&folder).arg("-o").arg(name);
    command.args(sources);
    let status = command.status().unwrap_or_else(|error| panic!("{}: {error}; scripts/setup.sh tcasm", compiler[0]));
    assert!(status.success(), "{command:?}");
    // Moved in one step, because another run of these tests may use the program that it replaces.
    std::fs::rename(folder.join(name), programs.join(name)).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    programs.join(name)
}

const C: [&str; 4] = ["cc", "-O1", "-Wall", "-pthread"];

fn scenes() -> &'static Path {
    static SCENES: OnceLock<PathBuf> = OnceLock::new();
    SCENES.get_or_init(|| program("scenes", &C, &["scenes.c"]))
}

fn producer() -> &'static Path {
    static PRODUCER: OnceLock<PathBuf> = OnceLock::new();
    PRODUCER.get_or_init(|| program("producer", &C, &["producer.c"]))
}

fn observer() -> &'static Path {
    static OBSERVER: OnceLock<PathBuf> = OnceLock::new();
    OBSERVER.get_or_init(|| program("observer", &C, &["observer.c"]))
}

fn fortran(name: &str) -> PathBuf {
    program(&format!("{name}-fortran"), &["gfortran", "-O1", "-Wall"], &["tcasm_calls.f90", &format!("{name}.f90")])
}

/// A directory of regions and a name of shared memory of one test's own, both removed at its end.
struct Place {
    dir: PathBuf,
    name: String,
}

impl Place {
    fn new(test: &str) -> Place {
        let own = format!("{}-{test}", std::process::id());
        // The end of the name is no other test's begin: all that begins with it is removed.
        Place { dir: format!("/dev/shm/stillframe-tcasm-{own}").into(), name: format!("/tcasm-{own}-0") }
    }

    /// `still run --tcasm` of a program.
    fn run(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(build().join("still"));
        command.arg("--dir").arg(&self.dir).args(["run", "--tcasm", "--"]).arg(program).args(arguments);
        command
    }

    fn region(&self) -> String {
        format!("tcasm{}", self.name)
    }

    fn observe(&self) -> Observer {
        Observer::options().dir(&self.dir).wait(PATIENCE).open(&self.region()).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
        for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&self.name[1..]) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
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
    Process(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// The end of a process, and what it said.
fn finish(mut process: Process) -> (ExitStatus, String, String) {
    let end = Instant::now() + PATIENCE;
    let status = loop {
        match process.0.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(Instant::now() < end, "a program hangs"),
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let (mut said, mut complained) = (String::new(), String::new());
    process.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    process.0.stderr.take().unwrap().read_to_string(&mut complained).unwrap();
    (status, said, complained)
}

#[track_caller]
fn succeed(command: Command) -> String {
    let (status, said, complained) = finish(start(command));
    assert!(status.success(), "{status}: {said}{complained}");
    said
}

#[track_caller]
fn play(scene: &str) {
    let place = Place::new(scene);
    succeed(place.run(scenes(), &[scene, &place.name]));
}

#[test]
fn a_view_stays_until_it_is_unmapped_and_the_next_one_is_the_newest() {
    play("first_publish");
}

#[test]
fn a_program_that_never_unmaps_keeps_every_version_and_stops_nobody() {
    play("never_unmapping");
}

#[test]
fn only_pages_that_the_range_touches_are_published_and_the_others_are_remembered() {
    play("parts");
}

#[test]
fn a_view_is_where_and_as_long_as_the_kernel_would_have_it() {
    play("ways_of_mapping");
}

#[test]
fn a_version_is_let_go_with_the_last_piece_of_its_view() {
    play("unmapping_in_pieces");
}

#[test]
fn threads_map_and_unmap_while_another_publishes_and_forks() {
    play("many_threads");
}

#[test]
fn a_mapping_may_be_unmapped_while_another_thread_publishes_it() {
    play("unmapped_while_publishing");
}

#[test]
fn a_forked_child_keeps_its_parents_views() {
    play("fork_keeps_views");
}

#[test]
fn a_child_keeps_nothing_of_what_another_thread_first_publishes_during_the_fork() {
    play("forked_while_first_publishing");
}

#[test]
fn a_child_complains_while_another_thread_of_its_parent_does() {
    play("complaints_of_a_child");
}

#[test]
fn each_file_of_a_process_has_versions_of_its_own() {
    play("several_files");
}

#[test]
fn mappings_of_parts_of_a_file_are_published_each_for_itself() {
    play("pieces_of_a_file");
}

#[test]
fn the_next_producer_finds_what_the_last_one_published() {
    play("the_next_producer");
}

#[test]
fn a_file_that_is_renamed_is_published_by_its_new_name_from_a_new_mapping() {
    play("renamed_files");
}

#[test]
fn a_file_that_is_removed_takes_its_region_along() {
    play("removed_files");
    let place = Place::new("unlinked");
    succeed(place.run(producer(), &[&place.name, "1000", "3"]));
    let region = place.dir.join(place.region());
    assert!(region.exists());
    succeed(place.run(Path::new("rm"), &[&format!("/dev/shm{}", place.name)]));
    assert!(!region.exists());
}

#[test]
fn nothing_is_kept_of_files_that_are_mapped_no_more() {
    play("files_that_come_and_go");
}

#[test]
fn of_regions_that_were_looked_at_the_last_ones_stay_open() {
    play("many_published_files");
}

#[test]
fn a_file_that_gets_a_name_after_it_was_mapped_can_be_published() {
    play("a_name_for_a_mapped_file");
}

#[test]
fn children_that_are_forked_while_files_come_and_go_use_the_library() {
    play("forked_beside_new_files");
}

#[test]
fn what_cannot_be_published_is_an_error_and_ends_nothing() {
    play("errors");
}

#[test]
fn whatever_is_done_in_whatever_order_every_memory_holds_what_it_should() {
    for (seed, tracker) in [("a", "wp_async"), ("b", "wp_async"), ("c", "private_cow"), ("d", "full_copy")] {
        let place = Place::new(&format!("anything-{seed}"));
        let mut command = place.run(scenes(), &["anything", &place.name]);
        // The trackers that only compare work everywhere, and the best one is chosen where it does.
        if tracker != "wp_async" {
            command.env("STILLFRAME_TRACKER", tracker);
        }
        succeed(command);
    }
}

#[test]
fn programs_that_do_not_publish_see_no_difference() {
    let place = Place::new("plain");
    let with = succeed(place.run(scenes(), &["plain", &place.name]));
    let mut bare = Command::new(scenes());
    bare.args(["plain", &place.name]);
    let without = succeed(bare);
    assert!(without.lines().count() > 20, "{without}");
    assert_eq!(with, without);
    assert!(!place.dir.exists(), "nothing was published");
}

/// Runs a producer and two observers beside it, one that starts before it and one after.
fn compose(test: &str, producer: &Path, observer: &Path, elements: &str, steps: &str) {
    let place = Place::new(test);
    let early = start(place.run(observer, &[&place.name, elements, steps]));
    let source = start(place.run(producer, &[&place.name, elements, steps]));
    let late = start(place.run(observer, &[&place.name, elements, steps]));
    for process in [source, early, late] {
        let (status, said, complained) = finish(process);
        assert!(status.success(), "{status}: {said}{complained}");
        assert!(said.is_empty() || said.trim_end() == format!("saw {steps} in order"), "{said}");
    }
    let newest = place.observe().newest().unwrap();
    assert_eq!(newest.version().to_string(), steps);
    assert_eq!(newest.variable("data").unwrap().bytes, 8 * elements.parse::<usize>().unwrap());
}

#[test]
fn algorithms_1_and_2_of_the_paper_run_in_c() {
    compose("c", producer(), observer(), "200000", "300");
}

#[test]
fn algorithms_1_and_2_of_the_paper_run_in_fortran() {
    compose("fortran", &fortran("producer"), &fortran("observer"), "200000", "200");
}

#[test]
fn observers_never_see_a_mixture_however_fast_is_published() {
    compose("fast", producer(), observer(), "1000", "20000");
}

#[test]
fn a_c_observer_reads_what_fortran_publishes() {
    compose("mixed", &fortran("producer"), observer(), "5000", "500");
}

#[test]
fn a_killed_producer_leaves_its_last_version_and_a_killed_observer_nothing() {
    let place = Place::new("kill");
    let endless = ["100000", "1000000"];
    let producing = || start(place.run(producer(), &[&place.name, endless[0], endless[1]]));
    let mut source = producing();
    let region = place.observe();
    let observing = || start(place.run(observer(), &[&place.name, endless[0], endless[1]]));
    for round in 0..10u64 {
        let mut watcher = observing();
        let newest = region.newest().unwrap().version();
        let after = region.newest_after(Some(newest + 20 + round), Some(PATIENCE)).unwrap();
        watcher.0.kill().unwrap();
        watcher.0.wait().unwrap();
        drop(after);
        source.0.kill().unwrap();
        source.0.wait().unwrap();
        let last = region.newest().unwrap();
        let data = last.slice::<u8>("data").unwrap();
        assert!(data.chunks(8).all(|element| element == &data[..8]), "version {} is a mixture", last.version());
        let number = last.version();
        drop(last);
        source = producing();
        // Until its first publish the region has no producer to wait for.
        let end = Instant::now() + PATIENCE;
        while region.newest().unwrap().version() <= number {
            assert!(Instant::now() < end, "nobody goes on after version {number}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(region.versions().len() <= 3, "nobody holds anything: {:?}", region.versions());
}

#[test]
fn a_publish_without_room_fails_and_loses_nothing() {
    let place = Place::new("room");
    let source = place.run(scenes(), &["without_room", &place.name]);
    let mut source = start({
        let mut source = source;
        source.stdin(Stdio::piped());
        source
    });
    let region = place.observe();
    // All slots but those that the producer needs are held from here.
    let mut held = vec![region.newest().unwrap()];
    while held.len() < 64 {
        match region.newest_after(held.last().map(|last| last.version()), Some(PATIENCE)) {
            Ok(snapshot) => held.push(snapshot),
            Err(stillframe::Error::Timeout { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(held.len(), 64);
    let mut word = [0; 5];
    source.0.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
    assert_eq!(&word, b"full\n");
    drop(held);
    drop(source.0.stdin.take());
    let (status, said, complained) = finish(source);
    assert!(status.success(), "{status}: {said}{complained}");
    assert_eq!(complained.lines().count(), 1, "each cause is told once: {complained}");
    assert!(complained.contains("has all 64 versions"), "{complained}");
    let newest = region.newest().unwrap();
    assert!(newest.slice::<u8>("data").unwrap().iter().all(|byte| *byte == 77));
}

#[test]
fn a_full_file_system_is_an_error_that_goes_when_there_is_room() {
    let may = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: only root can mount a small file system");
        return;
    }
    let place = Place::new("small");
    std::fs::create_dir_all(&place.dir).unwrap();
    let mut command = Command::new("unshare");
    let script =
        r#"mount -t tmpfs -o size=4m none "$1" && exec "$0" --dir "$1" run --tcasm -- "$2" a_small_file_system "$3""#;
    command.args(["-m", "sh", "-c", script]).arg(build().join("still")).arg(&place.dir);
    let (status, said, complained) = finish(start({
        command.arg(scenes()).arg(&place.name);
        command
    }));
    assert!(status.success(), "{status}: {said}{complained}");
    assert_eq!(complained.lines().count(), 2, "one line for each file: {complained}");
    assert!(complained.contains("bytes free and this needs"), "{complained}");
}

/// Plays a scene where a file system of so many MiB is mounted at a directory; `false` where only root could.
#[track_caller]
fn play_mounted(place: &Place, directory: &str, mib: u32, scene: &str) -> bool {
    let may = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: only root can mount a small file system");
        return false;
    }
    std::fs::create_dir_all(directory).unwrap();
    let mut command = Command::new("unshare");
    let script = r#"mount -t tmpfs -o size="$5"m none "$1" && exec "$0" --dir "$2" run --tcasm -- "$3" "$6" "$4""#;
    command.args(["-m", "sh", "-c", script]).arg(build().join("still")).arg(directory).arg(&place.dir);
    command.arg(scenes()).arg(&place.name).arg(mib.to_string()).arg(scene);
    succeed(command);
    true
}

#[test]
fn a_publish_without_room_changes_nothing_of_what_the_next_one_shows() {
    let place = Place::new("unchanged");
    play_mounted(&place, place.dir.to_str().unwrap(), 4, "a_publish_that_fails_changes_nothing");
}

#[test]
fn a_sparse_file_in_a_full_shared_memory_is_an_error_and_no_signal() {
    play_mounted(&Place::new("full"), "/dev/shm", 16, "a_full_shared_memory");
}

#[test]
fn device_and_inode_of_a_file_may_be_used_again() {
    let mut place = Place::new("again");
    // The regions stay when the file system at /dev/shm is another one.
    place.dir = std::env::temp_dir().join(format!("stillframe-tcasm-{}-again", std::process::id()));
    play_mounted(&place, "/dev/shm", 16, "numbers_used_again");
}

#[test]
fn holes_of_a_file_are_never_read() {
    for tracker in ["wp_async", "full_copy"] {
        let place = Place::new(&format!("holes-{tracker}"));
        let mut command = place.run(scenes(), &["holes_of_a_file", &place.name]);
        if tracker != "wp_async" {
            command.env("STILLFRAME_TRACKER", tracker);
        }
        succeed(command);
        // Of 2001 pages that it maps, it wrote 203, some of them twice.
        let files = std::fs::read_dir(place.dir.join(place.region())).unwrap().flatten();
        let planes = files.filter(|entry| entry.file_name().to_string_lossy().starts_with("plane."));
        let pages: u64 = planes.map(|entry| entry.metadata().unwrap().blocks() / 8).sum();
        assert!((200..1000).contains(&pages), "{tracker}: the region has {pages} pages");
    }
}

#[test]
fn what_is_written_into_a_hole_beside_a_publish_is_never_lost() {
    play("holes_written_beside_a_publish");
}

#[test]
fn mappings_that_are_moved_together_stay_what_they_are() {
    play("mappings_moved_together");
}

#[test]
fn holes_stay_holes_in_what_is_left_of_a_mapping() {
    play("holes_of_what_is_left_of_a_mapping");
}

#[test]
fn what_may_be_read_is_known_page_by_page() {
    play("unreadable_pages");
}

#[test]
fn libraries_that_follow_a_process_s_memory_see_every_call() {
    let hooks = program("libhooks.so", &["cc", "-O1", "-Wall", "-shared", "-fPIC"], &["hooks.c"]);
    let place = Place::new("hooks");
    let mut command = place.run(scenes(), &["hooked_calls", &place.name]);
    command.env("LD_PRELOAD", hooks);
    succeed(command);
}

#[test]
fn a_signal_handler_may_remove_files_an_allocator_unmap_and_no_publish_looks_at_the_environment() {
    let handlers = program("handlers", &C, &["handlers.c"]);
    for way in ["defer", "nodefer"] {
        let place = Place::new(&format!("handlers-{way}"));
        assert_eq!(succeed(place.run(&handlers, &[&place.name, way])), "done\n");
        assert!(!place.dir.join(place.region()).exists(), "the region of a file that was removed");
    }
}

#[test]
fn a_damaged_region_is_an_error_and_no_signal() {
    for file in ["head", "tables", "plane.0"] {
        let place = Place::new(&format!("damaged-{file}"));
        succeed(place.run(producer(), &[&place.name, "100000", "3"]));
        let path = place.dir.join(place.region()).join(file);
        std::fs::File::options().write(true).open(path).unwrap().set_len(100).unwrap();
        let (status, said, complained) = finish(start(place.run(observer(), &[&place.name, "100000", "3"])));
        assert_eq!(status.code(), Some(1), "{file}: {status}: {said}{complained}");
        assert!(complained.contains("the region is damaged"), "{file}: {complained}");
    }
}

#[test]
fn two_processes_cannot_publish_one_file() {
    let place = Place::new("two");
    let source = start(place.run(producer(), &[&place.name, "1000000", "1000000"]));
    place.observe();
    let (status, _, complained) = finish(start(place.run(producer(), &[&place.name, "1000000", "1"])));
    assert!(!status.success());
    assert!(complained.contains("has a living producer") && complained.contains("busy"), "{complained}");
    drop(source);
}

#[test]
fn programs_into_which_nothing_can_be_loaded_are_refused() {
    let place = Place::new("static");
    let fixed = program("fixed", &["cc", "-static"], &["observer.c"]);
    let (status, _, complained) = finish(start(place.run(&fixed, &[])));
    assert_eq!((status.code(), complained.contains("linked statically")), (Some(1), true), "{complained}");
    let (status, _, complained) = finish(start(place.run(Path::new("no-such-program"), &[])));
    assert_eq!((status.code(), complained.contains("no program")), (Some(2), true), "{complained}");
    let (status, said, _) = finish(start(place.run(Path::new("sh"), &["-c", "echo $LD_PRELOAD; exit 7"])));
    assert_eq!(status.code(), Some(7));
    assert!(said.contains("libstillframe_tcasm.so"), "{said}");
    let mut command = place.run(Path::new("sh"), &["-c", "echo $LD_PRELOAD"]);
    command.env("LD_PRELOAD", "libm.so.6");
    assert!(succeed(command).trim_end().ends_with("libstillframe_tcasm.so:libm.so.6"));
}

#[test]
fn ranks_of_an_mpi_program_publish_a_file_each() {
    let place = Place::new("mpi");
    let mpiexec = ["mpiexec", "mpiexec.hydra"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok());
    let Some(mpiexec) = mpiexec else {
        eprintln!("skipped: there is no MPI");
        return;
    };
    let script = format!("exec {} {}.${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}} 50000 50", producer().display(), place.name);
    let mut command = Command::new(mpiexec);
    // Open MPI starts nothing as root, and no more ranks than there are processors, unless told so.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1");
    command.args(["-n", "4"]).arg(build().join("still")).arg("--dir").arg(&place.dir);
    command.args(["run", "--tcasm", "--", "sh", "-c", &script]);
    // It hands its input on, and waits for one that nobody writes to.
    command.stdin(Stdio::null());
    succeed(command);
    for rank in 0..4 {
        let region = format!("{}.{rank}", place.region());
        let observer = Observer::options().dir(&place.dir).open(&region).unwrap();
        assert_eq!(observer.newest().unwrap().version(), 50);
    }
}
