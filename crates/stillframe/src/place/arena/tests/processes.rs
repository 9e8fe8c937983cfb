//! Arenas among processes: several at once, and some that are killed.

#[path = "../../../../tests/it/common/large_pages.rs"]
mod large_pages;
#[path = "../../../../tests/it/common/tier.rs"]
mod tier;

use super::*;
use large_pages::LargePages;
use std::io::{BufRead, BufReader, Write};
#[cfg(feature = "points")]
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use tier::by_tier;

const ROLE: &str = "STILLFRAME_TEST_ROLE";
const ARGUMENTS: &str = "STILLFRAME_TEST_ARGUMENTS";

/// The roles that this test binary plays when it is started once more.
#[test]
fn helper_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let arguments = std::env::var(ARGUMENTS).unwrap_or_default();
    let arguments: Vec<&str> = arguments.split('\n').collect();
    // SAFETY: prctl with these numbers touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    match role.as_str() {
        "crowd" => crowd(&arguments),
        "life" => life(&arguments),
        "changing" => changing(&arguments),
        "large" => large(&arguments),
        role => panic!("no role {role}"),
    }
    std::process::exit(0);
}

struct Helper(Child);

impl Helper {
    fn command(role: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("/proc/self/exe");
        let name = format!("{}::helper_process", module_path!().split_once("::").unwrap().1);
        command.args([&name, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(ARGUMENTS, arguments.join("\n"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    fn start(role: &str, arguments: &[&str]) -> Helper {
        Helper(Helper::command(role, arguments).spawn().unwrap())
    }

    fn expect(&mut self, text: &str) {
        let lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        let said = lines.map_while(std::result::Result::ok).find(|line| line.contains('@'));
        assert!(said.as_ref().is_some_and(|said| said.ends_with(&format!("@{text}"))), "{said:?}");
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn finish(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "\n@{text}").unwrap();
    out.flush().unwrap();
}

fn wait_for_end() {
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Writes into pages who has them.
fn stamp(arena: &Arena, pages: Range<u32>, mark: u64) {
    for page in pages {
        let word = arena.memory().word64(page as usize * PAGE_BYTES);
        let before = word.swap(mark, Ordering::Relaxed);
        assert_eq!(before, 0, "page {page} is somebody else's");
    }
}

/// Takes the marks away again, which nobody else may have touched.
fn unstamp(arena: &Arena, pages: Range<u32>, mark: u64) {
    for page in pages {
        let word = arena.memory().word64(page as usize * PAGE_BYTES);
        assert_eq!(word.swap(0, Ordering::Relaxed), mark, "page {page} became somebody else's");
    }
}

fn all_pages(chunks: &Range<u32>) -> Range<u32> {
    arena::pages_of(chunks.start).start..arena::pages_of(chunks.end - 1).end
}

/// Makes regions, takes and gives back, and removes them, in a small arena beside others that do the same.
fn crowd(arguments: &[&str]) {
    let [dir, seed, rounds] = arguments else { panic!("{arguments:?}") };
    let numbers = &mut Numbers(seed.parse().unwrap());
    let arena = Arena::options().dir(dir).open("a").unwrap();
    say("ready");
    for round in 0..rounds.parse::<u64>().unwrap() {
        // Some names are everybody's.
        let name = match numbers.below(4) {
            0 => format!("shared{}", numbers.below(3)),
            _ => format!("own{seed}/{}", numbers.below(5)),
        };
        let region = match arena.claim(&name, Duration::ZERO) {
            Ok(region) => region,
            Err(Error::InUse { .. } | Error::ArenaFull { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let mark = (u64::from(region.number() + 1) << 32) | (round + 1);
        let owned = region.owned().unwrap();
        // What a killed one left.
        for chunks in owned.chunks {
            region.give_back_chunks(chunks).unwrap();
        }
        for pages in owned.pages {
            region.give_back_pages(pages).unwrap();
        }
        let (mut chunks, mut pages) = (Vec::new(), Vec::new());
        for _ in 0..numbers.below(12) {
            match numbers.below(4) {
                0 => match region.take_chunks(1 + numbers.below(3) as u32) {
                    Ok(runs) => runs.into_iter().for_each(|run| {
                        stamp(&arena, all_pages(&run), mark);
                        chunks.push(run);
                    }),
                    Err(Error::ArenaFull { .. }) => {}
                    Err(error) => panic!("{error}"),
                },
                1 | 2 => {
                    let most = if numbers.below(9) == 0 { CHUNK_PAGES } else { 40 };
                    match region.take_pages(1 + numbers.below(most) as u32) {
                        Ok(run) => {
                            stamp(&arena, run.clone(), mark);
                            pages.push(run);
                        }
                        Err(Error::ArenaFull { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                _ if chunks.is_empty() => {}
                _ => {
                    let run: Range<u32> = chunks.swap_remove(numbers.below(chunks.len()));
                    unstamp(&arena, all_pages(&run), mark);
                    region.give_back_chunks(run).unwrap();
                }
            }
        }
        for run in chunks {
            unstamp(&arena, all_pages(&run), mark);
        }
        for run in pages {
            unstamp(&arena, run, mark);
        }
        if numbers.below(3) > 0 {
            arena.remove(region).unwrap();
        }
    }
}

#[test]
fn several_processes_take_and_give_back_and_nothing_is_anybodys_twice() {
    let _watchdog = watchdog(600);
    // In few chunks each is small and whole in turns.
    for (chunks, rounds) in [(16, by_tier("200", "800")), (3, by_tier("1000", "4000"))] {
        let dir = Dir::new("crowd");
        let arena = dir.arena(chunks, 16);
        let path = dir.0.to_str().unwrap();
        let seeds = ["1", "2", "3", "4"];
        let helpers: Vec<Helper> = seeds.map(|seed| Helper::start("crowd", &[path, seed, rounds])).into();
        // Threads of one process share an opening.
        std::thread::scope(|scope| {
            for seed in ["5", "6"] {
                scope.spawn(move || crowd(&[path, seed, rounds]));
            }
        });
        helpers.into_iter().for_each(Helper::finish);
        check_nothing_lost(&arena);
    }
}

#[test]
fn processes_that_are_killed_at_any_instant_leave_nothing_behind() {
    let _watchdog = watchdog(900);
    let dir = Dir::new("killed");
    let arena = dir.arena(16, 16);
    let path = dir.0.to_str().unwrap();
    let numbers = &mut Numbers(3);
    for round in 0..20 {
        let seeds: Vec<String> = (0..3).map(|index| (round * 3 + index + 1).to_string()).collect();
        let mut helpers: Vec<Helper> =
            seeds.iter().map(|seed| Helper::start("crowd", &[path, seed, "1000000"])).collect();
        for helper in &mut helpers {
            helper.expect("ready");
        }
        std::thread::sleep(Duration::from_micros(numbers.below(30_000) as u64));
        // One after the other: those who live go on beside what the dead left.
        for mut helper in helpers {
            helper.kill();
            std::thread::sleep(Duration::from_micros(numbers.below(3_000) as u64));
        }
        if round % 4 == 3 {
            check_nothing_lost(&arena);
        }
    }
}

/// All that can happen to regions, once.
fn life(arguments: &[&str]) {
    let [dir] = arguments else { panic!("{arguments:?}") };
    let arena = Arena::options().dir(dir).bytes(8 * CHUNK_BYTES as u64).regions(8).create("a").unwrap();
    rename_group(&arena);
    for round in 0..3 {
        let first = arena.claim("first", Duration::ZERO).unwrap();
        let second = arena.claim("second", Duration::ZERO).unwrap();
        let pages = first.take_pages(100).unwrap();
        first.set_head(pages.start).unwrap();
        second.take_pages(200).unwrap();
        first.take_chunks(2).unwrap();
        let chunks = second.take_chunks(1).unwrap();
        second.give_back_chunks(chunks[0].clone()).unwrap();
        first.give_back_pages(pages).unwrap();
        drop(first);
        let first = arena.claim("first", Duration::ZERO).unwrap();
        let owned = first.owned().unwrap();
        owned.chunks.into_iter().for_each(|run| first.give_back_chunks(run).unwrap());
        arena.remove(second).unwrap();
        // Takes small chunks that are empty, too.
        first.take_chunks(7).unwrap();
        if round < 2 {
            arena.remove(first).unwrap();
        }
    }
}

/// Makes two ranks and gives them the name of a region and of two ranks that are there.
fn rename_group(arena: &Arena) {
    let made = ["g/0", "g/1"].map(|name| {
        let region = claim(arena, name);
        if region.owned().unwrap() == Owned::default() {
            let page = region.take_pages(1).unwrap().start;
            arena.memory().write(page as usize * PAGE_BYTES, name.as_bytes());
        }
        region
    });
    let replaced = ["h/1", "h/2", "h"].map(|name| claim(arena, name));
    arena.rename("g", "h", &made, replaced.into()).unwrap();
    drop(made);
    check_renamed(arena);
    for (name, _) in arena.family("h").unwrap() {
        arena.remove(claim(arena, &name)).unwrap();
    }
}

/// All ranks have the old name or the new one, and what they own is theirs.
fn check_renamed(arena: &Arena) {
    let names = |group: &str| arena.family(group).unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let owner = |name: &str| {
        let pages = claim(arena, name).owned().unwrap().pages;
        let mut bytes = [0; 3];
        if let Some(run) = pages.first() {
            arena.memory().read(run.start as usize * PAGE_BYTES, &mut bytes);
        }
        bytes
    };
    if names("h").iter().any(|name| name != "h" && owner(name)[0] == b'g') {
        assert_eq!((names("g"), names("h")), (vec![], vec!["h/0".into(), "h/1".into()]));
        assert_eq!([owner("h/0"), owner("h/1")], [*b"g/0", *b"g/1"]);
    }
}

/// What must be so after a death: the arena is there or half made, and nothing of it is lost.
fn check_after_death(dir: &Dir) {
    match dir.options().look("a") {
        Ok(_) | Err(Error::NoArena { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let arena = dir.options().bytes(8 * CHUNK_BYTES as u64).regions(8).create("a").unwrap();
    for name in ["first", "second"] {
        let found = arena.find(name).unwrap();
        let region = claim(&arena, name);
        assert!(found.is_none_or(|found| found.generation == region.generation()));
        let owned = region.owned().unwrap();
        // Nothing is owned twice, not even as a chunk and as its pages.
        let chunks: Vec<u32> = owned.chunks.iter().cloned().flatten().collect();
        assert!(owned.pages.iter().cloned().flatten().all(|page| !chunks.contains(&arena::chunk_of(page))));
        assert!(found.is_some() || owned == Owned::default(), "a new region has {owned:?}");
    }
    check_nothing_lost(&arena);
    let names: Vec<String> = arena.family("h").unwrap().into_iter().map(|(name, _)| name).collect();
    if names == ["h/0", "h/1"] {
        check_renamed(&arena);
    }
    for (name, _) in arena.family("g").unwrap().into_iter().chain(arena.family("h").unwrap()) {
        let region = claim(&arena, &name);
        assert_eq!(region.name(), name);
        arena.remove(region).unwrap();
    }
    // And life goes on.
    life(&[dir.0.to_str().unwrap()]);
}

#[test]
fn a_life_leaves_nothing_behind() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("life");
    life(&[dir.0.to_str().unwrap()]);
    check_after_death(&dir);
}

#[cfg(feature = "points")]
#[test]
fn a_process_may_die_at_every_point() {
    let _watchdog = watchdog(900);
    let counted = Dir::new("count");
    let log = counted.0.join("points");
    let mut command = Helper::command("life", &[counted.0.to_str().unwrap()]);
    Helper(command.env("STILLFRAME_COUNT_POINTS", &log).spawn().unwrap()).finish();
    let mut counts = BTreeMap::<String, usize>::new();
    for point in std::fs::read_to_string(&log).unwrap().lines() {
        *counts.entry(point.to_string()).or_default() += 1;
    }
    let expected = [
        "arena.make.dir",
        "arena.make.locked",
        "arena.make.length",
        "arena.make.tables",
        "arena.make.done",
        "arena.create.begin",
        "arena.create.pending",
        "arena.create.named",
        "arena.create.making",
        "arena.create.indexed",
        "arena.create.used",
        "arena.create.done",
        "arena.claim.done",
        "arena.take.begin",
        "arena.take.chunk",
        "arena.take.pages",
        "arena.take.opening",
        "arena.take.opened",
        "arena.give.cleared",
        "arena.close.pages",
        "arena.close.chunk",
        "arena.remove.begin",
        "arena.remove.marked",
        "arena.remove.bucket",
        "arena.remove.unlisted",
        "arena.remove.given",
        "arena.remove.done",
        "arena.rename.begin",
        "arena.rename.replaced",
        "arena.rename.noted",
        "arena.rename.one",
        "arena.rename.hidden",
        "arena.rename.named",
        "arena.rename.listed",
        "arena.rename.done",
    ];
    for point in expected {
        assert!(counts.contains_key(point), "a life does not pass {point}: {counts:?}");
    }
    for (point, count) in counts {
        let mut occurrences = vec![1, 2, count / 2, count];
        occurrences.retain(|occurrence| (1..=count).contains(occurrence));
        occurrences.sort();
        occurrences.dedup();
        for occurrence in occurrences {
            eprintln!("{point}:{occurrence} of {count}");
            let dir = Dir::new("die");
            let mut command = Helper::command("life", &[dir.0.to_str().unwrap()]);
            let mut helper = Helper(command.env("STILLFRAME_DIE_AT", format!("{point}:{occurrence}")).spawn().unwrap());
            let status = helper.0.wait().unwrap();
            assert_eq!(status.signal(), Some(libc::SIGKILL), "{point}:{occurrence} ended with {status}");
            check_after_death(&dir);
        }
    }
}

/// Has the right to change records until it is killed.
fn changing(arguments: &[&str]) {
    let arena = Arena::options().dir(arguments[0]).open("a").unwrap();
    let never: Result<()> = arena.shared.change(|_| {
        say("changing");
        wait_for_end();
        Ok(())
    });
    never.unwrap();
}

#[test]
fn who_changes_records_for_too_long_is_named() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("busy");
    let arena = dir.arena(4, 4);
    let region = claim(&arena, "r");
    let mut helper = Helper::start("changing", &[dir.0.to_str().unwrap()]);
    helper.expect("changing");
    // Nothing else waits for it.
    region.take_chunks(1).unwrap();
    region.take_pages(1).unwrap();
    drop(region);
    let region = claim(&arena, "r");
    let Err(error @ Error::ArenaBusy { pid, .. }) = arena.claim("s", Duration::ZERO) else { panic!() };
    assert_eq!((pid, error.code()), (helper.0.id(), 123));
    assert!(error.to_string().contains(&format!("it said it was {pid}")), "{error}");
    helper.kill();
    drop((claim(&arena, "s"), region));
    check_nothing_lost(&arena);
}

const LARGE_CHUNKS: u64 = 6;

/// Uses an arena of large pages: all of it, and what was given back is empty.
fn use_large(arena: &Arena) {
    assert!(arena.is_hugetlb());
    let region = claim(arena, "r");
    let run = region.take_pages(7).unwrap();
    stamp(arena, run.clone(), 5);
    region.give_back_pages(run.clone()).unwrap();
    let again = region.take_pages(7).unwrap();
    assert_eq!(again, run);
    stamp(arena, again, 6);
    let all = arena.shared.geometry.free_chunks();
    let chunks = region.take_chunks(all.len() as u32 - 1).unwrap();
    chunks.iter().for_each(|run| stamp(arena, all_pages(run), 7));
    assert!(matches!(region.take_chunks(1), Err(Error::ArenaFull { .. })));
    drop(region);
    check_nothing_lost(arena);
    let region = claim(arena, "r");
    let chunks = region.take_chunks(all.len() as u32).unwrap();
    chunks.iter().for_each(|run| stamp(arena, all_pages(run), 8));
    drop(region);
    check_nothing_lost(arena);
}

/// In a process of its own, whose mounts nobody else sees.
fn large(arguments: &[&str]) {
    let path = Path::new(arguments[0]);
    let target = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the texts end with a zero byte, and the calls touch no other memory.
    let is_mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(c"none".as_ptr(), target.as_ptr(), c"hugetlbfs".as_ptr(), 0, c"pagesize=2M".as_ptr().cast())
                == 0
    };
    if !is_mounted {
        eprintln!("skipped: hugetlbfs cannot be mounted here ({})", std::io::Error::last_os_error());
        return;
    }
    let bytes = LARGE_CHUNKS * CHUNK_BYTES as u64;
    let options = || Arena::options().dir(path).regions(8);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    use_large(&options().bytes(bytes).create("a").unwrap());
    assert_eq!(options().look("a").unwrap().regions().unwrap(), []);
    std::fs::remove_dir_all(path.join("a")).unwrap();
    // More than the machine has: an error, and no signal.
    let arena = options().bytes(bytes + 64 * CHUNK_BYTES as u64).create("b").unwrap();
    let region = claim(&arena, "r");
    let Err(error) = region.take_chunks(60) else { panic!() };
    assert!(matches!(error, Error::NoSpace { .. }) && error.is_want_of_room(), "{error}");
    assert_eq!(region.owned().unwrap(), Owned::default());
    region.take_chunks(2).unwrap();
}

#[test]
fn an_arena_may_consist_of_large_pages() {
    let _watchdog = watchdog(300);
    let Some(_pages) = LargePages::take(LARGE_CHUNKS) else {
        eprintln!("skipped: the machine gives no large pages");
        return;
    };
    let dir = Dir::new("large");
    if let Some(handed) = memory_file(libc::MFD_HUGETLB | libc::MFD_HUGE_2MB) {
        let bytes = LARGE_CHUNKS * CHUNK_BYTES as u64;
        let arena = dir.options().bytes(bytes).regions(8).from_descriptor(handed, "vm").unwrap();
        use_large(&arena);
    }
    Helper::start("large", &[dir.0.to_str().unwrap()]).finish();
}
