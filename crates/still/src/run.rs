//! `still run`: a program with a library of Stillframe's preloaded.

use crate::context::{Context, Verdict};
use crate::failure::Failure;
use crate::pages::ordinary;
use crate::units::parse_bytes;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use stillframe_pages::Pool;
use stillframe_pages::supply::System;

/// Run a program in large pages, or as one that was written for TCASM
///
/// With --pages the program gets its memory in large pages of a pool, all at once where it asks for it, so that neither
/// first touches nor the kernel's gathering and taking away of pages cost time later. It is neither changed nor built
/// anew. `still pages reserve` makes the pool.
///
/// With --tcasm a program publishes as TCASM does: a private mapping of a file below /dev/shm with `msync(address,
/// length, MS_SYNC | 8)`, of which others read the newest publication through a read-only mapping of the file. TCASM
/// has a kernel changed for it; here each publication becomes a version of the region tcasm/FILE, on any kernel.
///
/// The program ends with its own exit code. Both may be asked for together.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo still pages reserve 16G                     once: the pool 'default'
  still run --pages -- ./simulation input.txt     its memory comes from it
  still run --pages=big --report -- python3 run.py
  mpiexec -n 4 still run --pages -- ./simulation  or still run --pages -- mpiexec -n 4 ./simulation
  still pages                                     who has what of the pools

  still run --tcasm -- ./simulation input.txt     it publishes /dev/shm/snap_0.shm
  still run --tcasm -- ./observer snap_0.shm      it maps that, beside it, whenever it likes
  still ls                                        both see the region tcasm/snap_0.shm
  still get tcasm/snap_0.shm 'data[:16]'         its bytes; types are the program's own

Whatever the program starts runs so too. A pool that is empty is no error: the program goes on in
small pages, and says so once, unless --strict is given. STILLFRAME_VERBOSE=1 says on standard error what is published.

Exit codes: the program's own; 1 when it cannot be run, 2 when there is no such program.")]
pub struct Args {
    /// Load the library that takes memory from a pool
    #[arg(long, value_name = "POOL", num_args = 0..=1, require_equals = true, default_missing_value = POOL)]
    pages: Option<String>,
    /// Say at the end what came from the pool, and how many page faults and TLB misses there were. A program that is killed,
    /// calls _exit, quick_exit or abort, or has a runtime that does, says nothing
    #[arg(long, requires = "pages")]
    report: bool,
    /// Have what the program maps itself (mmap) come from the pool, too, from this size on: 16M unless said. Stacks of threads and fibers are
    /// smaller, and little of them is used
    #[arg(long, value_name = "SIZE", requires = "pages", num_args = 0..=1, require_equals = true, default_missing_value = "16M", value_parser = parse_bytes)]
    mappings: Option<u64>,
    /// Refuse memory that the pool has not (ENOMEM, and a line says so), instead of ordinary memory; mappings from 2 MiB on, too. A process whose memory lies in the pool
    /// cannot fork then; what it starts by posix_spawn or system runs. Stacks, code and the first 8 MiB are ordinary memory as ever
    #[arg(long, requires = "pages")]
    strict: bool,
    /// Load the library that publishes and observes through TCASM's calls
    #[arg(long)]
    tcasm: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

const TCASM_LIBRARY: &str = "libstillframe_tcasm.so";
const PAGES_LIBRARY: &str = "libstillframe_memory.so";

/// What is said before a program begins that is to report: it does so itself, and only in an end that others hear of.
const REPORT: &str = "the report comes when the program returns from main or calls exit; one that is killed, calls _exit, quick_exit or \
    abort, or has a runtime that does, gives none";

/// The pool that is meant where nobody names one.
const POOL: &str = "default";

pub fn run(context: &mut Context, args: &Args) -> Verdict {
    if !args.tcasm && args.pages.is_none() {
        let text =
            "say how the program is to be run: `still run --pages -- PROGRAM`, or `still run --tcasm -- PROGRAM`";
        return Err(Failure::Misuse(text.into()));
    }
    let Some((program, rest)) = args.command.split_first() else {
        return Err(Failure::Misuse("there is no program to run".into()));
    };
    let program = find_program(program)?;
    check(&program)?;
    let mut command = std::process::Command::new(&program);
    command.args(rest);
    let mut libraries = Vec::new();
    if args.tcasm {
        let dir = std::path::absolute(&context.dir).map_err(|error| Failure::file(&context.dir, error))?;
        command.env("STILLFRAME_DIR", dir);
        libraries.push(find_library(TCASM_LIBRARY)?);
    }
    if let Some(name) = &args.pages {
        refuse_watched(&program)?;
        command.env("STILLFRAME_PAGES", pool(context, name)?.mount.path);
        match args.report {
            true => command.env("STILLFRAME_PAGES_REPORT", std::process::id().to_string()),
            false => command.env_remove("STILLFRAME_PAGES_REPORT"),
        };
        match args.mappings {
            Some(bytes) => command.env("STILLFRAME_PAGES_MAPPINGS", bytes.to_string()),
            None => command.env_remove("STILLFRAME_PAGES_MAPPINGS"),
        };
        match args.strict {
            true => command.env("STILLFRAME_PAGES_STRICT", "1"),
            false => command.env_remove("STILLFRAME_PAGES_STRICT"),
        };
        if args.report {
            // Where nobody reads it the program begins all the same.
            let _ = writeln!(std::io::stderr(), "still: {REPORT}");
        }
        libraries.push(find_library(PAGES_LIBRARY)?);
    }
    let error = command.env("LD_PRELOAD", preloaded(&libraries)?).exec();
    // The program itself is there; what it asks for to be run may not be.
    let whose = if error.kind() == std::io::ErrorKind::NotFound { "its interpreter: " } else { "" };
    Err(Failure::Problem(format!("{} cannot be run: {whose}{error}", program.display())))
}

/// The pool of a name, which this user may use.
fn pool(context: &Context, name: &str) -> Result<Pool, Failure> {
    let found = Pool::find(&System::default(), name);
    if found.is_err() && ordinary::find(&context.dir, name).is_some() {
        let text = "is of ordinary large pages, for regions and arenas: a program's own memory cannot lie there, because after a \
                    fork parent and child would write into the same; `sudo still pages reserve` makes one for programs";
        return Err(Failure::Problem(format!("pool '{name}' {text}")));
    }
    let pool = found?;
    match pool.file() {
        Ok(_) => Ok(pool),
        Err(stillframe_pages::Error::NotPermitted { .. }) => {
            let owner = pool
                .mount
                .path
                .metadata()
                .map_or_else(|_| "another user".into(), |meta| format!("user {}", meta.uid()));
            let text =
                "and is not open to this one: `still pages reserve --group` or `--all` makes one for several users";
            Err(Failure::Problem(format!("pool '{name}' belongs to {owner} {text}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// The library, which lies beside this program or in the `lib` folder of the same installation.
fn find_library(name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::Problem(format!("/proc/self/exe: {error}")))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(name), folder.join("../lib").join(name), folder.join("../lib64").join(name)];
    let found = places.iter().find_map(|place| place.canonicalize().ok());
    found.ok_or_else(|| {
        let folder = folder.display();
        Failure::Problem(format!("{name} is neither in {folder} nor in {folder}/../lib: build or install it"))
    })
}

/// The libraries before those that are to be loaded anyway.
fn preloaded(libraries: &[PathBuf]) -> Result<OsString, Failure> {
    let mut list = OsString::new();
    for library in libraries {
        if library.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte)) {
            let text = "has a blank or a colon in its path, at which the system would split it: install it elsewhere";
            return Err(Failure::Problem(format!("{} {text}", library.display())));
        }
        if !list.is_empty() {
            list.push(":");
        }
        list.push(library);
    }
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    Ok(list)
}

/// Where a program is, if it is not a path already.
pub fn find_program(name: &OsStr) -> Result<PathBuf, Failure> {
    let path = Path::new(name);
    if path.components().count() > 1 || name.as_encoded_bytes().contains(&b'/') {
        return Ok(path.into());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|place| is_executable(place));
    found.ok_or_else(|| Failure::Misuse(format!("there is no program '{}' in $PATH", path.display())))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
}

/// Refuses programs into which nothing can be loaded, which would run as if nothing had been asked for.
fn check(program: &Path) -> Result<(), Failure> {
    let meta = program.metadata().map_err(|error| Failure::Misuse(format!("{}: {error}", program.display())))?;
    let (user, group) = (effective_user(), effective_group());
    let changes_user = meta.mode() & 0o4000 != 0 && Some(meta.uid()) != user;
    let changes_group = meta.mode() & 0o2010 == 0o2010 && Some(meta.gid()) != group;
    if changes_user || changes_group {
        let text =
            "runs with the rights of another user or group (setuid), so that the system preloads nothing into it";
        return Err(Failure::Problem(format!("{} {text}: run a copy without that bit", program.display())));
    }
    // As the kernel does it for all but root: capabilities(7), "Safety checking for capability-dumb binaries".
    if user != Some(0) && has_capabilities(program) {
        let text = "has capabilities of its own (setcap), so that the system preloads nothing into it: run a copy without them";
        return Err(Failure::Problem(format!("{} {text}", program.display())));
    }
    let mut begin = Vec::new();
    // Whether the program can be read at all is the system's to say when it is run.
    let Ok(file) = File::open(program) else { return Ok(()) };
    if file.take(1 << 16).read_to_end(&mut begin).is_err() {
        return Ok(());
    }
    let text = match kind(&begin) {
        Kind::Static => "is linked statically, so that nothing can be loaded into it: link it without -static",
        Kind::Foreign => "is a program of 32 bits, into which the library cannot be loaded: build it for 64 bits",
        Kind::Dynamic | Kind::Script => return Ok(()),
    };
    Err(Failure::Problem(format!("{} {text}", program.display())))
}

fn has_capabilities(program: &Path) -> bool {
    rustix::fs::getxattr(program, c"security.capability", &mut [0u8; 64][..]).is_ok()
}

/// Refuses programs that were built with a sanitizer, which has to have the allocator for itself. The names that a
/// program asks of others stand at its begin.
fn refuse_watched(program: &Path) -> Result<(), Failure> {
    const BEGIN_BYTES: u64 = 4 << 20;
    const SANITIZERS: [(&[u8], &str); 4] = [
        (b"__asan_init", "AddressSanitizer"),
        (b"__hwasan_init", "HWAddressSanitizer"),
        (b"__msan_init", "MemorySanitizer"),
        (b"__tsan_init", "ThreadSanitizer"),
    ];
    let mut begin = Vec::new();
    let Ok(file) = File::open(program) else { return Ok(()) };
    if file.take(BEGIN_BYTES).read_to_end(&mut begin).is_err() || !begin.starts_with(b"\x7fELF") {
        return Ok(());
    }
    let has = |name: &[u8]| begin.windows(name.len()).any(|part| part == name);
    match SANITIZERS.into_iter().find(|(name, _)| has(name)) {
        None => Ok(()),
        Some((_, which)) => {
            let text = "which has to have the program's memory for itself: run it without --pages, or build it without";
            Err(Failure::Problem(format!("{} was built with {which}, {text}", program.display())))
        }
    }
}

fn id_of(line: &str) -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let found = status.lines().find_map(|found| found.strip_prefix(line))?;
    found.split_whitespace().nth(1)?.parse().ok()
}

fn effective_user() -> Option<u32> {
    id_of("Uid:")
}

fn effective_group() -> Option<u32> {
    id_of("Gid:")
}

/// What kind of program a file is, as far as loading libraries goes.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// Asks for a dynamic linker.
    Dynamic,
    /// Does not.
    Static,
    /// Has addresses of another size.
    Foreign,
    /// Anything that the system runs in another way.
    Script,
}

fn kind(begin: &[u8]) -> Kind {
    const CLASS_64: u8 = 2;
    if begin.get(..4) != Some(b"\x7fELF") {
        return Kind::Script;
    }
    if begin.get(4) != Some(&CLASS_64) {
        return Kind::Foreign;
    }
    match has_linker(begin) {
        Some(false) => Kind::Static,
        // A header that cannot be understood is the system's to judge.
        Some(true) | None => Kind::Dynamic,
    }
}

/// Whether one of the program headers (elf(5)) names an interpreter.
fn has_linker(begin: &[u8]) -> Option<bool> {
    const INTERPRETER: u64 = 3;
    let number = |at: usize, bytes: usize| {
        let found = begin.get(at..at.checked_add(bytes)?)?;
        Some(found.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    let (first, bytes, count) = (number(32, 8)? as usize, number(54, 2)? as usize, number(56, 2)? as usize);
    let header = |index: usize| number(first.checked_add(index.checked_mul(bytes)?)?, 4);
    let kinds: Option<Vec<u64>> = (0..count).map(header).collect();
    Some(kinds?.contains(&INTERPRETER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_is_told_from_other_files() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(kind(&own), Kind::Dynamic);
        assert_eq!(kind(b"#!/bin/sh\n"), Kind::Script);
        assert_eq!(kind(b"\x7fELF\x01"), Kind::Foreign);
        assert_eq!(kind(b"\x7fELF\x02"), Kind::Dynamic);
        // The same program without its wish for a linker.
        let mut without = own.clone();
        let first = u64::from_le_bytes(own[32..40].try_into().unwrap()) as usize;
        let bytes = u16::from_le_bytes(own[54..56].try_into().unwrap()) as usize;
        let count = u16::from_le_bytes(own[56..58].try_into().unwrap()) as usize;
        for index in 0..count {
            let at = first + index * bytes;
            if own[at..at + 4] == [3, 0, 0, 0] {
                without[at] = 0;
            }
        }
        assert_eq!(kind(&without), Kind::Static);
    }
}
