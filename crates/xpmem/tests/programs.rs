//! Programs written for XPMEM, for XEMEM and for the XASM paper's interface, in C, against the headers and the libraries.

#[path = "../../stillframe/tests/it/common/compiled.rs"]
mod compiled;

use compiled::is_current;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};
use stillframe::Observer;
use stillframe::inspect::{self, State};
use stillframe_kernel::lock::{self, Kind};

/// How long any program may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(120);
const SONAME: &str = "libstillframe-xpmem.so.0";
const SHARED: &str = "libstillframe_xpmem.so";
const STATIC: &str = "libstillframe_xpmem.a";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the build that this test is part of, with the libraries in it.
fn build() -> &'static Path {
    static BUILD: OnceLock<PathBuf> = OnceLock::new();
    BUILD.get_or_init(|| {
        // Tests of a library of this kind are built without it.
        let profile = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_path_buf();
        let library = profile.join(SHARED);
        assert!(library.exists(), "{} is missing: `make test-build` builds it", library.display());
        profile
    })
}

/// A program built from a source in `tests/programs`. The shared library is looked for beside it.
fn program(name: &str, library: &str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<(String, String), PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap();
    let key = (name.into(), library.into());
    if let Some(binary) = built.get(&key) {
        return binary.clone();
    }
    let folder = build().join("xpmem-programs");
    let (binary, library) = (folder.join(format!("{name}-{library}")), build().join(library));
    let source = root().join("tests/programs").join(name).with_extension("c");
    let mut made_of = vec![source.clone(), source.with_file_name("check.h"), library.clone()];
    made_of.extend(["xpmem.h", "xemem.h", "xasm.h"].map(|header| root().join("include").join(header)));
    if is_current(&binary, &made_of.iter().map(PathBuf::as_path).collect::<Vec<_>>()) && folder.join(SONAME).exists() {
        built.insert(key, binary.clone());
        return binary;
    }
    let own = binary.with_extension(std::process::id().to_string());
    std::fs::create_dir_all(&folder).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-pthread", "-I"]).arg(root().join("include"));
    cc.arg(source).arg("-o").arg(&own).arg(library);
    let out = cc.args(["-ldl", "-lm", "-Wl,-rpath,$ORIGIN"]).output().unwrap();
    assert!(out.status.success(), "{name}.c: {}", String::from_utf8_lossy(&out.stderr));
    // Both in one step, because another run of these tests may use what they replace.
    let link = folder.join(format!("{}-{SONAME}-{name}", std::process::id()));
    std::os::unix::fs::symlink(build().join(SHARED), &link).unwrap();
    std::fs::rename(link, folder.join(SONAME)).unwrap();
    std::fs::rename(own, &binary).unwrap();
    built.insert(key, binary.clone());
    binary
}

/// The scenes, linked against the shared library.
fn scenes() -> PathBuf {
    program("scenes", SHARED)
}

/// A place of one test's own, for programs and regions, removed at its end.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// Every user may step into it; its regions are in a directory of the mode.
    fn new(mode: u32) -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("stillframe-xpmem-{}-{count}-", std::process::id());
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in("/dev/shm").unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let place = Place { dir };
        std::fs::create_dir(place.regions()).unwrap();
        std::fs::set_permissions(place.regions(), Permissions::from_mode(mode)).unwrap();
        place
    }

    fn regions(&self) -> PathBuf {
        self.dir.path().join("regions")
    }

    /// What is in the directory of regions.
    fn left(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.regions()).unwrap().flatten();
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// The scenes, where every user may read and run them.
    fn scenes_for_all(&self) -> PathBuf {
        // By a process of its own: what this one has open for writing a child of another test has, too, until it is a program.
        let put = |from: PathBuf, name: &str| {
            let to = self.dir.path().join(name);
            let copied = Command::new("install").args(["-m", "755"]).arg(from).arg(&to).status().unwrap();
            assert!(copied.success());
            to
        };
        put(build().join(SHARED), SONAME);
        put(scenes(), "scenes")
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments);
        self.settle(&mut command);
        command
    }

    /// The same as another user, who has no rights here but those that modes give to all.
    fn run_as_nobody(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program).args(arguments);
        self.settle(&mut command);
        command
    }

    fn settle(&self, command: &mut Command) {
        command.env("STILLFRAME_DIR", self.regions()).env_remove("STILLFRAME_TRUST").stdin(Stdio::piped());
    }
}

/// A process that is killed if the test ends before it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // With those that it started.
            let _ = Command::new("kill").args(["-KILL", "--"]).arg(format!("-{}", self.0.id())).status();
            let _ = self.0.wait();
        }
    }
}

fn start(mut command: Command) -> Process {
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    loop {
        match command.spawn() {
            // A child that another test has just forked has the program's file open for writing still.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => sleep(Duration::from_millis(10)),
            child => return Process(child.unwrap()),
        }
    }
}

impl Process {
    /// The next line that it says.
    fn line(&mut self) -> String {
        let mut line = Vec::new();
        let out = self.0.stdout.as_mut().unwrap();
        let mut byte = [0];
        while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    /// Lets it go on that waits for a byte.
    fn go_on(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Its end, and what it said since.
    #[track_caller]
    fn finish(mut self) -> (ExitStatus, String, String) {
        drop(self.0.stdin.take());
        let end = Instant::now() + PATIENCE;
        let status = loop {
            match self.0.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < end, "a program hangs"),
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let (mut said, mut complained) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut complained).unwrap();
        (status, said, complained)
    }

    #[track_caller]
    fn succeed(self) -> String {
        let (status, said, complained) = self.finish();
        assert!(status.success(), "{status}: {said}{complained}");
        said
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Plays a scene, and expects it to leave nothing.
#[track_caller]
fn play_with(scene: &str, tracker: Option<&str>) {
    let place = Place::new(0o700);
    let mut command = place.run(&scenes(), &[scene]);
    command.env_remove("STILLFRAME_TRACKER");
    if let Some(tracker) = tracker {
        command.env("STILLFRAME_TRACKER", tracker);
    }
    start(command).succeed();
    sweep(&place);
    assert_eq!(place.left(), [""; 0]);
}

/// Has what killed processes left removed by the next that looks a segment up.
fn sweep(place: &Place) {
    assert_eq!(start(place.run(&scenes(), &["looking"])).succeed(), "snapshot: none\nshared: none\n");
}

#[track_caller]
fn play(scene: &str) {
    play_with(scene, None);
}

fn is_root() -> bool {
    let is_root =
        Command::new("setpriv").args(["--reuid=nobody", "--clear-groups", "true"]).stderr(Stdio::null()).status();
    let is_root = is_root.is_ok_and(|status| status.success());
    if !is_root {
        eprintln!("skipped: only root can be another user");
    }
    is_root
}

#[test]
fn another_process_reads_and_writes_what_was_made() {
    play("sharing");
}

#[test]
fn both_sides_see_at_once_what_the_other_writes() {
    play("talking");
}

#[test]
fn memory_of_the_allocator_and_of_the_program_is_shared_where_it_is() {
    play("kinds_of_memory");
}

#[test]
fn attachments_are_where_and_as_long_as_was_asked_for() {
    play("places");
}

#[test]
fn arguments_that_cannot_be_are_errors() {
    play("arguments");
}

#[test]
fn a_segment_is_there_until_it_is_removed() {
    play("removing");
}

#[test]
fn segments_of_the_same_pages_are_each_for_themselves() {
    play("overlapping");
}

#[test]
fn a_permit_for_some_pages_opens_no_others() {
    play("permits");
}

#[test]
fn a_forked_child_shares_with_its_parent_and_makes_segments_of_its_own() {
    play("forking");
}

#[test]
fn a_segment_goes_with_its_maker_though_a_child_lives_on() {
    play("left_by_its_maker");
}

#[test]
fn threads_share_attach_and_fork_beside_each_other() {
    play("threads");
}

#[test]
fn a_signal_handler_in_the_middle_of_a_call_waits_for_nothing() {
    play("interrupted");
}

#[test]
fn a_name_leads_to_the_newest_segment() {
    play("names");
}

#[test]
fn a_snapshot_stays_as_it_is_whatever_is_copied_later() {
    for tracker in [None, Some("private_cow"), Some("full_copy")] {
        play_with("snapshots", tracker);
    }
}

#[test]
fn memory_is_taken_by_the_policy_of_its_region() {
    play("page_policies");
}

#[test]
fn a_snapshot_is_a_version_of_a_region_for_all_that_look_at_regions() {
    let place = Place::new(0o700);
    let mut maker = start(place.run(&scenes(), &["making_all"]));
    assert_eq!(maker.line(), "ready");
    let regions = inspect::regions(&place.regions()).unwrap();
    assert_eq!(regions.len(), 1, "files of segments are no regions");
    assert_eq!(regions[0].state, State::Live);
    let snapshot = Observer::options().dir(place.regions()).open(&regions[0].name).unwrap().newest().unwrap();
    let bytes = snapshot.slice::<u8>("all").unwrap();
    assert_eq!(bytes.len(), 4 * 4096);
    assert_eq!((bytes[0], bytes[1], bytes[4096]), (1, 32, 8), "the program's pattern");
    assert!(inspect::collect(&place.regions()).unwrap().is_empty(), "nobody needs what is in use");
    maker.succeed();
    assert_eq!(place.left(), [""; 0]);
    assert_eq!(bytes[1], 32);
}

#[test]
fn a_copy_is_one_version_of_all_regions() {
    play("one_version_of_all");
}

#[test]
fn a_copy_without_room_is_an_error_that_loses_nothing() {
    play("backing_runs_out");
    play("versions_run_out");
}

#[test]
fn arguments_of_snapshots_that_cannot_be_are_errors() {
    play("arguments_of_snapshots");
}

#[test]
fn the_static_library_serves_as_well() {
    let place = Place::new(0o700);
    let program = program("scenes", STATIC);
    for scene in ["sharing", "forking", "snapshots"] {
        start(place.run(&program, &[scene])).succeed();
        assert_eq!(place.left(), [""; 0], "{scene}");
    }
}

#[test]
fn figures_3_and_4_of_the_paper_run_as_they_are() {
    let place = Place::new(0o700);
    let (simulation, analysis) = (program("figure3", SHARED), program("figure4", SHARED));
    let mut simulating = start(place.run(&simulation, &["flux", "25"]));
    assert_eq!(simulating.line(), "exported 25");
    for _ in 0..2 {
        assert_eq!(start(place.run(&analysis, &["flux"])).succeed(), "mean 25\n");
    }
    assert_eq!(simulating.succeed(), "");
    let (status, _, complained) = start(place.run(&analysis, &["flux"])).finish();
    assert_eq!(status.code(), Some(1));
    assert!(complained.contains("there is no segment 'flux'"), "{complained}");
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn who_looks_sees_exactly_a_snapshot_while_the_simulation_goes_on() {
    let place = Place::new(0o700);
    let (simulation, watcher) = (program("figure3", SHARED), program("watcher", SHARED));
    let early = start(place.run(&watcher, &["flux", "400"]));
    let mut simulating = start(place.run(&simulation, &["flux", "400"]));
    let late = start(place.run(&watcher, &["flux", "400"]));
    assert_eq!(simulating.line(), "exported 400");
    for watching in [early, late] {
        let said = watching.succeed();
        assert!(said.ends_with(" looks\n") && said != "0 looks\n", "{said}");
    }
    simulating.succeed();
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn what_a_killed_maker_left_is_gone_and_the_next_look_removes_it() {
    let place = Place::new(0o700);
    let scenes = scenes();
    for _ in 0..3 {
        let mut maker = start(place.run(&scenes, &["making_all"]));
        assert_eq!(maker.line(), "ready");
        let there = start(place.run(&scenes, &["looking"])).succeed();
        assert_eq!(there, "snapshot: there\nshared: there\n");
        assert!(!place.left().is_empty());
        maker.kill();
        assert!(!place.left().is_empty());
        sweep(&place);
        assert_eq!(place.left(), [""; 0]);
    }
    // The next maker does it too, and nothing of who lives goes.
    let mut living = start(place.run(&scenes, &["making_all"]));
    assert_eq!(living.line(), "ready");
    let living_has = place.left();
    let mut maker = start(place.run(&scenes, &["making", "0600"]));
    maker.line();
    maker.kill();
    assert!(place.left().len() > living_has.len());
    let mut next = start(place.run(&scenes, &["making", "0600"]));
    next.line();
    next.succeed();
    let (mut now, mut before) = (place.left(), living_has);
    now.sort();
    before.sort();
    assert_eq!(now, before);
    living.succeed();
    assert_eq!(place.left(), [""; 0]);
}

/// Who may read the files can lock them, and keeps nothing of the dead by that.
#[test]
fn what_a_killed_maker_left_is_removed_whoever_has_its_file_locked() {
    let place = Place::new(0o700);
    let mut maker = start(place.run(&scenes(), &["making_all"]));
    assert_eq!(maker.line(), "ready");
    let locked: Vec<std::fs::File> = place
        .left()
        .iter()
        .filter(|name| name.len() == ".xpmem-00000000".len())
        .map(|name| {
            let file = std::fs::File::open(place.regions().join(name)).unwrap();
            assert!(!lock::try_lock(&file, Kind::Read, 0, 1).unwrap(), "its maker lives");
            file
        })
        .collect();
    assert_eq!(locked.len(), 1);
    maker.kill();
    assert!(lock::try_lock(&locked[0], Kind::Read, 0, 0).unwrap());
    sweep(&place);
    assert_eq!(place.left(), [""; 0]);
}

/// As by `still gc`.
#[test]
fn who_collects_what_nobody_needs_removes_what_killed_makers_left_and_nothing_of_who_lives() {
    let place = Place::new(0o700);
    let scenes = scenes();
    let mut living = start(place.run(&scenes, &["making_all"]));
    assert_eq!(living.line(), "ready");
    let left = || {
        let mut left = place.left();
        left.sort();
        left
    };
    let before = left();
    let makers = [0, 0].map(|_| {
        let mut maker = start(place.run(&scenes, &["making_all"]));
        assert_eq!(maker.line(), "ready");
        maker
    });
    assert_eq!(inspect::collectable(&place.regions()).unwrap().len(), 0);
    makers.into_iter().for_each(Process::kill);
    let foreseen = inspect::collectable(&place.regions()).unwrap();
    let foreseen: Vec<(&str, bool)> =
        foreseen.iter().map(|info| (&info.name[..info.name.len() - 8], info.allocated_bytes > 0)).collect();
    assert_eq!(foreseen, [("xasm-", true), ("xasm-", true), (".xpmem-", true), (".xpmem-", true)]);
    let removed = inspect::collect(&place.regions()).unwrap();
    assert!(removed.len() == 4 && removed.iter().all(|(_, removed)| removed.is_ok()), "{removed:?}");
    assert_eq!(left(), before);
    assert_eq!(start(place.run(&scenes, &["looking"])).succeed(), "snapshot: there\nshared: there\n");
    living.succeed();
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn many_makers_begin_and_are_killed_beside_each_other() {
    let place = Place::new(0o700);
    let scenes = scenes();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (place, scenes) = (&place, &scenes);
            scope.spawn(move || {
                for round in 0..12 {
                    let mut maker = start(place.run(scenes, &["making", "0600"]));
                    if (thread + round) % 3 == 0 {
                        // At any instant of its beginning.
                        std::thread::sleep(Duration::from_micros(500 * (round as u64 + 1)));
                        maker.kill();
                        continue;
                    }
                    let segid = maker.line();
                    let peer = start(place.run(scenes, &["peer", "trying", &segid])).succeed();
                    assert_eq!(peer, "writes\n");
                    maker.go_on();
                    assert_eq!(maker.succeed(), "written\n");
                }
            });
        }
    });
    sweep(&place);
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn other_users_may_what_the_permit_says() {
    if !is_root() {
        return;
    }
    let place = Place::new(0o755);
    let scenes = place.scenes_for_all();
    for (mode, allowed) in [("0600", "none"), ("0640", "none"), ("0644", "reads"), ("0666", "writes"), ("0622", "none")]
    {
        let mut maker = start(place.run(&scenes, &["making", mode]));
        let segid = maker.line();
        let peer = start(place.run_as_nobody(&scenes, &["peer", "trying", &segid])).succeed();
        assert_eq!(peer.trim_end(), allowed, "{mode}");
        maker.go_on();
        assert_eq!(maker.succeed().trim_end(), if allowed == "writes" { "written" } else { "as it was" }, "{mode}");
    }
    // A directory that others may not step into shows them nothing.
    std::fs::set_permissions(place.regions(), Permissions::from_mode(0o700)).unwrap();
    let mut maker = start(place.run(&scenes, &["making", "0666"]));
    let segid = maker.line();
    assert_eq!(start(place.run_as_nobody(&scenes, &["peer", "trying", &segid])).succeed(), "none\n");
    maker.go_on();
    maker.succeed();
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn what_has_no_permit_is_for_those_who_may_use_the_directory() {
    if !is_root() {
        return;
    }
    for (mode, expected) in [(0o755, "snapshot: there\nshared: there\n"), (0o700, "snapshot: none\nshared: none\n")] {
        let place = Place::new(mode);
        let scenes = place.scenes_for_all();
        let mut maker = start(place.run(&scenes, &["making_all"]));
        assert_eq!(maker.line(), "ready");
        let (status, said, complained) = start(place.run_as_nobody(&scenes, &["looking"])).finish();
        if mode == 0o755 {
            assert!(status.success(), "{complained}");
            assert_eq!(said, expected);
        } else {
            assert!(complained.contains("Permission denied"), "{said}{complained}");
        }
        // Another user removes nothing of a maker that died.
        let left = place.left();
        maker.kill();
        start(place.run_as_nobody(&scenes, &["looking"])).finish();
        assert_eq!(place.left().len(), left.len());
        sweep(&place);
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn all_scenes_are_any_users() {
    if !is_root() {
        return;
    }
    let place = Place::new(0o777);
    std::fs::set_permissions(place.regions(), Permissions::from_mode(0o1777)).unwrap();
    let scenes = place.scenes_for_all();
    for scene in ["sharing", "removing", "forking", "names", "snapshots"] {
        start(place.run_as_nobody(&scenes, &[scene])).succeed();
        assert_eq!(place.left(), [""; 0], "{scene}");
    }
    // Whom to believe who writes into others' memory, is theirs to say, root among them.
    let mut maker = start(place.run_as_nobody(&scenes, &["making", "0666"]));
    let segid = maker.line();
    assert_eq!(start(place.run(&scenes, &["peer", "trying", &segid])).succeed(), "reads\n");
    let mut trusting = place.run(&scenes, &["peer", "trying", &segid]);
    trusting.env("STILLFRAME_TRUST", "any");
    assert_eq!(start(trusting).succeed(), "writes\n");
    maker.go_on();
    assert_eq!(maker.succeed(), "written\n");
}

#[test]
fn a_full_file_system_is_an_error_and_no_signal() {
    let probe = ["-m", "mount", "-t", "tmpfs", "none", "/dev/shm"];
    let may = Command::new("unshare").args(probe).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: only root can mount a small file system");
        return;
    }
    let place = Place::new(0o700);
    let scenes = scenes();
    let script = r#"mount -t tmpfs -o size=4m,mode=700 none "$1" && exec "$0" no_room"#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(&scenes).arg(place.regions());
    place.settle(&mut command);
    start(command).succeed();
}

#[test]
fn damaged_records_are_errors() {
    let place = Place::new(0o700);
    let scenes = scenes();
    let mut maker = start(place.run(&scenes, &["making", "0600"]));
    let segid = maker.line();
    let record = place.regions().join(format!(".xpmem-{:016x}", segid.parse::<i64>().unwrap()));
    let whole = std::fs::read_to_string(&record).unwrap();
    let pages = place.left().into_iter().find(|name| name.ends_with(".pages")).unwrap();
    for text in [
        String::new(),
        "[]".into(),
        whole[..whole.len() / 2].into(),
        whole.replace(&pages, "../../etc/passwd"),
        whole.replace("\"offset\":0", "\"offset\":4096"),
        whole.replace("\"bytes\":16384", "\"bytes\":0"),
    ] {
        std::fs::write(&record, &text).unwrap();
        let (status, _, complained) = start(place.run(&scenes, &["peer", "trying", &segid])).finish();
        assert_eq!(status.code(), Some(1), "{text}");
        assert!(complained.contains("damaged"), "{text}: {complained}");
    }
    std::fs::write(&record, &whole).unwrap();
    assert_eq!(start(place.run(&scenes, &["peer", "trying", &segid])).succeed(), "writes\n");
    // What lies where an attachment was to go stays, where there is none in the end.
    let mut over = start(place.run(&scenes, &["peer", "trying over", &segid]));
    assert_eq!(over.line(), "granted");
    std::fs::write(&record, whole.replace("\"offset\":0", "\"offset\":4096")).unwrap();
    over.go_on();
    over.succeed();
    std::fs::write(&record, &whole).unwrap();
    maker.succeed();
}

#[test]
fn what_lies_where_nothing_of_a_version_can_be_attached_stays() {
    let place = Place::new(0o700);
    let scenes = scenes();
    let mut maker = start(place.run(&scenes, &["making_all"]));
    assert_eq!(maker.line(), "ready");
    let read = |name: &String| std::fs::read_to_string(place.regions().join(name)).unwrap_or_default();
    let name = place.left().into_iter().find(|name| read(name).contains("\"version\":{")).unwrap();
    let segid = i64::from_str_radix(name.strip_prefix(".xpmem-").unwrap(), 16).unwrap().to_string();
    let whole = read(&name);
    for text in
        [whole.replace("\"variable\":\"", "\"variable\":\"no"), whole.replace("\"offset\":0", "\"offset\":1048576")]
    {
        assert_ne!(text, whole);
        let mut over = start(place.run(&scenes, &["peer", "trying over", &segid]));
        assert_eq!(over.line(), "granted");
        std::fs::write(place.regions().join(&name), text).unwrap();
        over.go_on();
        over.succeed();
        std::fs::write(place.regions().join(&name), &whole).unwrap();
    }
    maker.succeed();
}

#[test]
fn compilers_take_the_headers_without_a_word() {
    let place = Place::new(0o700);
    for header in ["xpmem.h", "xemem.h", "xasm.h"] {
        for (compiler, standard, ending) in [("cc", "c99", "c"), ("cc", "c11", "c"), ("c++", "c++17", "cpp")] {
            let source = place.dir.path().join(format!("empty.{ending}"));
            std::fs::write(&source, format!("#include <{header}>\nint main(void) {{ return 0; }}\n")).unwrap();
            let mut command = Command::new(compiler);
            command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_DEFAULT_SOURCE", "-fsyntax-only"]);
            command.arg(format!("-std={standard}")).arg("-I").arg(root().join("include")).arg(&source);
            let out = command.output().unwrap();
            assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
        }
    }
}

#[test]
fn the_page_shows_the_programs_that_are_tested() {
    let page = std::fs::read_to_string(root().join("../../docs/xpmem.md")).unwrap();
    for program in ["figure3.c", "figure4.c"] {
        let text = std::fs::read_to_string(root().join("tests/programs").join(program)).unwrap();
        assert!(page.contains(&format!("```c\n{text}```\n")), "docs/xpmem.md does not have {program} as it is");
    }
}

#[test]
fn the_library_exports_what_the_headers_declare() {
    let out = Command::new("nm").args(["-D", "--defined-only"]).arg(build().join(SHARED)).output();
    let out = String::from_utf8(out.unwrap().stdout).unwrap();
    let mut exported: Vec<&str> = out.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    exported.sort();
    let mut declared = Vec::new();
    for header in ["xpmem.h", "xemem.h", "xasm.h"] {
        let file = std::fs::File::open(root().join("include").join(header)).unwrap();
        for line in BufReader::new(file).lines().map(Result::unwrap) {
            let is_call = !line.starts_with(['#', ' ', '/', '}']) && line.contains('(');
            let name = line.split('(').next().unwrap_or("").rsplit([' ', '*']).next().unwrap_or("").to_string();
            declared.extend(is_call.then_some(name));
        }
    }
    declared.sort();
    assert_eq!(exported, declared);
}
