//! The C programs in `programs/`, compiled against the header and the libraries and run: as they are, under valgrind, with the
//! sanitizers of the compiler, and linked to the static library.
//!
//! A program prints the name of each of its tests; with names as arguments it runs those only.

use crate::common::{SONAME, libraries, regions, root};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAMS: [&str; 12] = [
    "producer",
    "observer",
    "misuse",
    "threads",
    "followed",
    "processes",
    "groups",
    "looking_after",
    "checkpoints",
    "layouts",
    "arenas",
    "objects",
];
/// Seconds after which a program hangs.
const TIMEOUT: &str = "240";

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Compiles a program, with these options and this library, into the directory.
fn compile(program: &str, into: &Path, options: &[&str], library: &str) -> PathBuf {
    let binary = into.join(program);
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-pthread"]);
    cc.args(options).arg("-I").arg(root().join("include"));
    cc.arg(root().join("tests/programs").join(program).with_extension("c")).arg("-o").arg(&binary);
    cc.arg(libraries().join(library)).args(["-ldl", "-lm"]).arg(format!("-Wl,-rpath,{}", libraries().display()));
    let out = run(&mut cc);
    assert!(out.status.success(), "{program}.c: {}", String::from_utf8_lossy(&out.stderr));
    binary
}

/// Runs a program behind `before`, and expects it to end well and leave nothing.
fn check(binary: &Path, before: &[&str], tracker: Option<&str>) {
    let regions = regions();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", TIMEOUT]).args(before).arg(binary);
    command.env("STILLFRAME_DIR", regions.path()).env_remove("STILLFRAME_TRACKER");
    if let Some(tracker) = tracker {
        command.env("STILLFRAME_TRACKER", tracker);
    }
    let out = run(&mut command);
    let printed = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{} {}: {printed}", binary.display(), out.status);
    let left: Vec<_> = std::fs::read_dir(regions.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{} leaves {left:?}", binary.display());
}

fn is_installed(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|out| out.status.success());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

#[test]
fn c_programs_see_what_the_header_says() {
    let into = tempfile::tempdir().unwrap();
    for program in PROGRAMS {
        check(&compile(program, into.path(), &[], SONAME), &[], None);
    }
}

#[test]
fn c_programs_see_the_same_with_other_trackers() {
    let into = tempfile::tempdir().unwrap();
    for program in ["producer", "observer", "misuse", "arenas"] {
        let binary = compile(program, into.path(), &[], SONAME);
        for tracker in ["private_cow", "full_copy"] {
            check(&binary, &[], Some(tracker));
        }
    }
}

/// Not beside the others: it has allocations of its own, which valgrind and the sanitizers have too.
#[test]
fn a_signal_handler_does_not_wait_for_the_texts_that_it_interrupted() {
    let into = tempfile::tempdir().unwrap();
    check(&compile("texts", into.path(), &[], SONAME), &[], None);
}

#[test]
fn a_program_may_unload_the_library_in_the_middle() {
    let (into, regions) = (tempfile::tempdir().unwrap(), regions());
    let binary = compile("loaded", into.path(), &["-Wl,--as-needed"], SONAME);
    let mut command = Command::new("timeout");
    command.arg(TIMEOUT).arg(binary).arg(libraries().join(SONAME)).env("STILLFRAME_DIR", regions.path());
    let out = run(&mut command);
    assert!(out.status.success(), "{}: {}", out.status, String::from_utf8_lossy(&out.stderr));
}

#[test]
fn copy_threads_run_where_the_process_may_wherever_its_threads_are_bound() {
    let into = tempfile::tempdir().unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let given = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let ends = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        from.parse::<usize>().unwrap()..to.parse::<usize>().unwrap() + 1
    };
    let numbers: Vec<usize> = given.split(',').flat_map(ends).collect();
    let first = numbers[0].to_string();
    for library in [SONAME, "libstillframe.a"] {
        let binary = compile("bound", into.path(), &["-fopenmp", "-Wl,--no-as-needed"], library);
        // The process's own set, and one that it was given by whoever started it.
        for (before, given, count) in [(vec![], given, numbers.len()), (vec!["taskset", "-c", &first], &*first, 1)] {
            for binding in [None, Some("OMP_PROC_BIND=true")] {
                let regions = regions();
                let mut command = Command::new("timeout");
                command
                    .arg(TIMEOUT)
                    .args(&before)
                    .args(["env", "-u", "OMP_PLACES", "-u", "OMP_PROC_BIND"])
                    .args(binding)
                    .arg(&binary);
                command.arg(given).arg(count.to_string()).env("STILLFRAME_DIR", regions.path());
                let out = run(&mut command);
                let printed = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
                assert!(out.status.success(), "{command:?}: {printed}");
            }
        }
    }
}

#[test]
fn the_static_library_serves_as_well() {
    let into = tempfile::tempdir().unwrap();
    check(&compile("producer", into.path(), &[], "libstillframe.a"), &[], None);
}

#[test]
fn valgrind_finds_no_error_and_no_leak() {
    if !is_installed("valgrind") {
        return;
    }
    let into = tempfile::tempdir().unwrap();
    let kinds = "definite,indirect,possible";
    let (show, errors) = (format!("--show-leak-kinds={kinds}"), format!("--errors-for-leak-kinds={kinds}"));
    // Threads that wait for each other in turns would starve one another without the fair schedule.
    let known = format!("--suppressions={}", root().join("tests/valgrind.supp").display());
    let valgrind =
        ["valgrind", "-q", "--fair-sched=yes", "--error-exitcode=99", "--leak-check=full", &show, &errors, &known];
    for program in PROGRAMS {
        // The kernel's tracker does not see what a program that is emulated writes.
        check(&compile(program, into.path(), &[], SONAME), &valgrind, Some("full_copy"));
    }
}

#[test]
fn the_sanitizers_find_no_error_and_no_leak() {
    let into = tempfile::tempdir().unwrap();
    let options = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    for program in PROGRAMS {
        check(&compile(program, into.path(), &options, SONAME), &[], None);
    }
}

#[test]
fn only_the_interface_is_exported() {
    let header = std::fs::read_to_string(root().join("include/stillframe.h")).unwrap();
    let out = run(Command::new("nm").args(["-D", "--defined-only"]).arg(libraries().join(SONAME)));
    let listed = String::from_utf8(out.stdout).unwrap();
    let exported: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert!(exported.len() > 50, "{listed}");
    for name in &exported {
        assert!(header.contains(&format!("{name}(")), "{name} is exported and not in the header");
    }
    let declared = header.match_indices(" stillframe_").chain(header.match_indices("*stillframe_"));
    for (at, _) in declared {
        let name = header[at + 1..].split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
        let is_function = header[at + 1 + name.len()..].starts_with('(');
        assert!(!is_function || exported.contains(&name), "{name} is in the header and not exported");
    }
    let out = run(Command::new("readelf").arg("-d").arg(libraries().join(SONAME)));
    assert!(String::from_utf8_lossy(&out.stdout).contains(&format!("soname: [{SONAME}]")));
}

#[test]
fn statuses_have_the_numbers_and_families_of_the_engine() {
    let header = std::fs::read_to_string(root().join("include/stillframe.h")).unwrap();
    let begin = header.find("STILLFRAME_OK = 0").unwrap();
    let constants: Vec<(&str, i32)> = header[begin..header[begin..].find('}').unwrap() + begin]
        .lines()
        .filter_map(|line| line.trim().strip_prefix("STILLFRAME_")?.strip_suffix(',')?.split_once(" = "))
        .map(|(name, number)| (name, number.parse().unwrap()))
        .collect();
    assert!(constants.len() > 50);
    let read =
        |part: &str| std::fs::read_to_string(root().join("../../crates").join(part).join("src/error.rs")).unwrap();
    let sources = read("stillframe") + &read("checkpoint") + &read("object");
    let codes: Vec<(&str, i32)> = sources
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Error::")?.strip_suffix(',')?.split_once(" { .. } => "))
        .filter_map(|(names, number)| Some((names.split(' ').next()?, number.parse().ok()?)))
        .collect();
    assert!(codes.len() > 45, "{codes:?}");
    for (variant, code) in codes {
        let found = constants.iter().find(|(_, number)| *number == code);
        let (constant, _) = found.unwrap_or_else(|| panic!("{variant} gives {code}, which has no constant"));
        let constant = constant.strip_prefix("OBJECT_").unwrap_or(constant);
        let same = constant.replace('_', "").to_lowercase() == variant.to_lowercase();
        assert!(
            same || ["NotMapped", "Unreadable", "Keeper", "Text", "Plan"].contains(&variant),
            "{variant} gives {code}, which is {constant}"
        );
    }
    let mut program = String::from("#include <stillframe.h>\n#include <stdio.h>\nint main(void) {\n");
    for (name, _) in &constants {
        program += &format!("    puts(stillframe_status_name(STILLFRAME_{name}));\n");
    }
    program += "    return 0;\n}\n";
    let dir = tempfile::tempdir().unwrap();
    let (source, binary) = (dir.path().join("names.c"), dir.path().join("names"));
    std::fs::write(&source, program).unwrap();
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(root().join("include")).arg(&source).arg("-o").arg(&binary).arg(libraries().join(SONAME));
    assert!(run(cc.arg(format!("-Wl,-rpath,{}", libraries().display()))).status.success());
    let printed = String::from_utf8(run(&mut Command::new(&binary)).stdout).unwrap();
    assert!(printed.lines().eq(constants.iter().map(|(name, _)| *name)), "{printed}");
}
