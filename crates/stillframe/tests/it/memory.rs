//! Programs without memory for what they ask for: an error, never an abort, and the region goes on. Of the large pieces of memory
//! that an operation takes, each is the first to be refused in a child process of its own.
//!
//! # Safety
//!
//! The allocator is the system's, which refuses what it is told to. Children are forked by `child`.
#![allow(unsafe_code)]

use crate::child::{in_child, reap};
use crate::common::{Dir, watchdog};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use stillframe::{Array, Loaned, Publication, Region, RegionOptions, Rule, Tracked};

/// The system's memory, of which a child refuses what is large.
struct Scarce;

/// What is large, and how many large pieces there are before no other is given. Only a child that has no other threads sets them.
static LARGE_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);
static LEFT: AtomicUsize = AtomicUsize::new(0);

fn is_refused(bytes: usize) -> bool {
    bytes >= LARGE_BYTES.load(Ordering::Relaxed)
        && LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
}

// SAFETY: all is left to the system's allocator, or refused as the trait allows.
unsafe impl GlobalAlloc for Scarce {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what the caller promises is what the system's allocator asks for.
        if is_refused(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        if is_refused(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as for `alloc`.
        if is_refused(bytes) { std::ptr::null_mut() } else { unsafe { System.realloc(old, layout, bytes) } }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as for `alloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static SCARCE: Scarce = Scarce;

/// What a child says of an operation that it had too little memory for.
const FAILED: i32 = 3;

/// How memory is short in one child after the other, and how it is there again.
struct Shortage<'a> {
    begin: &'a dyn Fn(usize),
    end: &'a dyn Fn(),
}

/// Runs `act` in a child with a shortage, whose number is `turn`, and `after` when there is memory again, whatever became of
/// `act`. Says whether that had enough.
fn run_short<T>(
    turn: usize,
    shortage: &Shortage,
    begin: &impl Fn() -> T,
    act: &impl Fn(&mut T) -> stillframe::Result<()>,
    after: &impl Fn(T),
) -> bool {
    let child = in_child(|| {
        let mut subject = begin();
        (shortage.begin)(turn);
        let acted = act(&mut subject);
        (shortage.end)();
        after(subject);
        if let Err(error) = acted {
            assert!(error.to_string().contains("memory"), "turn {turn}: {error}");
            // SAFETY: the call ends the process without running what belongs to the parent.
            unsafe { libc::_exit(FAILED) }
        }
    });
    let status = reap(child);
    assert!(libc::WIFEXITED(status), "turn {turn}: the process was ended by {}", libc::WTERMSIG(status));
    let status = libc::WEXITSTATUS(status);
    assert!(status == 0 || status == FAILED, "turn {turn}: {status}");
    status == 0
}

/// Runs `act` in one child after the other, the first without any memory of `large_bytes` or more, and each with one such piece
/// more than the one before, until all are enough.
fn refuse_each<T>(
    large_bytes: usize,
    begin: impl Fn() -> T,
    act: impl Fn(&mut T) -> stillframe::Result<()>,
    after: impl Fn(T),
) {
    let shortage = Shortage {
        begin: &|pieces| {
            LEFT.store(pieces, Ordering::Relaxed);
            LARGE_BYTES.store(large_bytes, Ordering::Relaxed);
        },
        end: &|| LARGE_BYTES.store(usize::MAX, Ordering::Relaxed),
    };
    let enough = (0..1000).find(|pieces| run_short(*pieces, &shortage, &begin, &act, &after));
    assert!(enough.is_some_and(|pieces| pieces > 0), "{enough:?} pieces are enough");
}

/// Runs `act` in one child after the other, each of which may have more addresses than the one before: none to some MiB more
/// than it has when it begins, and as many more than the array has.
fn limit_each<T>(
    array_bytes: usize,
    begin: impl Fn() -> T,
    act: impl Fn(&mut T) -> stillframe::Result<()>,
    after: impl Fn(T),
) {
    let limits: Vec<usize> =
        [0, array_bytes].iter().flat_map(|base| (0..12).map(move |step| base + step * MIB / 3)).collect();
    let shortage = Shortage { begin: &|turn| bound_addresses(Some(limits[turn])), end: &|| bound_addresses(None) };
    for turn in 0..limits.len() {
        run_short(turn, &shortage, &begin, &act, &after);
    }
}

/// Lets the process have so many bytes of addresses more than it has, or as many as it was allowed to have.
fn bound_addresses(more: Option<usize>) {
    let own = std::fs::read_to_string("/proc/self/statm").unwrap();
    let own_pages: usize = own.split(' ').next().unwrap().parse().unwrap();
    // SAFETY: `rlimit` is plain data, and the pointers are to a live one.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut limit), 0);
        limit.rlim_cur = more.map_or(limit.rlim_max, |more| (own_pages * PAGE + more) as u64);
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0);
    }
}

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
const PAGE: usize = 4096;

fn options(dir: &Dir) -> RegionOptions {
    dir.options().rule(Rule::Fail).threads(1)
}

/// A region with a small array, whose next version shows what is in it.
fn small(dir: &Dir) -> (Region, Array<u64>) {
    let mut region = options(dir).fresh(true).create("r").unwrap();
    let small = region.array::<u64>("small", &[1000]).unwrap();
    region.publish(1).commit().unwrap();
    (region, small)
}

/// Publishes the small array, and looks at it.
fn go_on(dir: &Dir, region: &mut Region, small: &Array<u64>) {
    region.slice_mut(small).fill(7);
    region.publish(10).commit().unwrap();
    let snapshot = dir.observe("r").newest().unwrap();
    assert_eq!(snapshot.version(), 10);
    assert!(snapshot.slice::<u64>("small").unwrap().iter().all(|element| *element == 7));
}

/// A region with a bound, so that no loan takes more, with a small array.
fn bounded(dir: &Dir) -> (Region, Array<u64>) {
    let mut region = options(dir).fresh(true).bound_bytes(64 << 20).create("r").unwrap();
    let small = region.array::<u64>("small", &[1000]).unwrap();
    (region, small)
}

/// Declares an array for loans and goes as far as the bound, which is memory of another kind.
fn lend_to_the_bound(region: &mut Region, bytes: usize) -> stillframe::Result<()> {
    let loaned = region.loaned::<u8>("large", &[bytes])?;
    match region.loan(&loaned) {
        Err(stillframe::Error::Bound { .. }) => Ok(()),
        loan => loan.map(drop),
    }
}

/// Declares an array, writes some of its pages and publishes, twice.
fn publish_array(region: &mut Region, bytes: usize) -> stillframe::Result<()> {
    let large = region.array::<u8>("large", &[bytes])?;
    for page in [0, 1000, bytes / PAGE - 1] {
        region.slice_mut(&large)[page * PAGE] = 1;
    }
    region.publish(2).commit()?;
    region.slice_mut(&large)[bytes / 2] = 1;
    region.publish(3).commit().map(drop)
}

#[test]
fn arrays_that_are_too_large_to_be_kept_account_of_are_errors() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("memory-array");
    let act = |(region, _): &mut (Region, Array<u64>)| publish_array(region, 2 * GIB);
    let after = |(mut region, small): (Region, Array<u64>)| go_on(&dir, &mut region, &small);
    // Of 1024 windows a word for each takes that much.
    refuse_each(4 * 1024, || small(&dir), act, after);
    limit_each(2 * GIB, || small(&dir), act, after);
}

#[test]
fn loans_that_are_too_large_to_be_kept_account_of_are_errors() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("memory-loan");
    let begin = || {
        let (mut region, small) = small(&dir);
        let loaned = region.loaned::<u8>("large", &[256 * MIB]).unwrap();
        (region, small, loaned)
    };
    let act = |(region, _, loaned): &mut (Region, Array<u64>, Loaned<u8>)| {
        let mut loan = region.loan(loaned)?;
        loan[100 * MIB] = 1;
        loan.submit();
        region.publish(2).commit().map(drop)
    };
    // Of 128 windows a set of pages for each takes that much.
    refuse_each(8 * 1024, begin, act, |(mut region, small, _)| go_on(&dir, &mut region, &small));
}

#[test]
fn variables_for_loans_that_are_too_large_to_be_kept_account_of_are_errors() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("memory-loaned");
    let act = |(region, _): &mut (Region, Array<u64>)| lend_to_the_bound(region, 64 * GIB);
    let after = |(mut region, small): (Region, Array<u64>)| go_on(&dir, &mut region, &small);
    // Of 32 768 windows a byte for each takes that much.
    refuse_each(32 * 1024, || bounded(&dir), act, after);
    limit_each(64 * GIB, || bounded(&dir), act, after);
}

#[test]
fn tracked_arrays_that_are_too_large_to_be_kept_account_of_are_errors() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("memory-tracked");
    let begin = |bytes: usize| {
        let (mut region, small) = small(&dir);
        let tracked = region.track::<u64>("large").unwrap();
        (region, small, tracked, vec![1u64; bytes / 8])
    };
    let act = |(region, _, tracked, array): &mut (Region, Array<u64>, Tracked<u64>, Vec<u64>)| {
        region.publish(2).tracked(tracked, array, &[array.len()]).commit()?;
        array[7] = 2;
        region.publish(3).tracked(tracked, array, &[array.len()]).commit()?;
        array[8] = 2;
        let publication = region.publish(4).tracked(tracked, array, &[array.len()]);
        publication.commit_while(|| ()).map(drop)
    };
    let after = |(mut region, small, tracked, array): (Region, Array<u64>, Tracked<u64>, Vec<u64>)| {
        region.publish(9).tracked(&tracked, &array, &[array.len()]).commit().unwrap();
        let snapshot = dir.observe("r").newest().unwrap();
        assert!(snapshot.slice::<u64>("large").unwrap() == array);
        drop(snapshot);
        go_on(&dir, &mut region, &small);
    };
    // Of 64 windows a set of pages for each takes that much.
    refuse_each(4 * 1024, || begin(128 * MIB), act, after);
    limit_each(16 * MIB, || begin(16 * MIB), act, after);
}

#[test]
fn publishes_in_the_background_that_are_too_large_to_be_kept_account_of_are_errors() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("memory-background");
    for check in [false, true] {
        let begin = || {
            let mut region = options(&dir).fresh(true).check_writes(check).create("r").unwrap();
            let small = region.array::<u64>("small", &[1000]).unwrap();
            let tracked = region.track::<u64>("large").unwrap();
            region.publish(1).commit().unwrap();
            (region, small, tracked, vec![1u64; 80 * MIB / 8])
        };
        let act = |(region, _, tracked, array): &mut (Region, Array<u64>, Tracked<u64>, Vec<u64>)| {
            // Where nobody copies in the background, all of it is left to the end.
            region.publish(2).tracked(tracked, array, &[array.len()]).commit_while(|| ())?;
            // Of every other page, so that each is copied by itself.
            array.iter_mut().step_by(2 * PAGE / 8).for_each(|word| *word = 2);
            region.publish(3).tracked(tracked, array, &[array.len()]).commit_while(|| ())?;
            array[8] = 3;
            // SAFETY: nothing is written, and the memory stays.
            unsafe { region.publish(4).tracked(tracked, array, &[array.len()]).start() }?;
            region.publish_finish().map(drop)
        };
        let after = |(mut region, small, tracked, array): (Region, Array<u64>, Tracked<u64>, Vec<u64>)| {
            region.publish(9).tracked(&tracked, &array, &[array.len()]).commit().unwrap();
            let snapshot = dir.observe("r").newest().unwrap();
            assert!(snapshot.slice::<u64>("large").unwrap() == array);
            drop(snapshot);
            go_on(&dir, &mut region, &small);
        };
        // Of 320 items, of 256 KiB each, half a word for each takes that much.
        refuse_each(320 * 4, begin, act, after);
    }
}

#[test]
fn publishes_in_the_background_of_too_many_arrays_are_errors() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("memory-inputs");
    const ARRAYS: usize = 500;
    let begin = || {
        let (mut region, small) = small(&dir);
        let tracked: Vec<_> = (0..ARRAYS).map(|n| region.track::<u64>(&format!("t{n}")).unwrap()).collect();
        let words = vec![1u64; ARRAYS];
        // What is made once for all publishes.
        give(&mut region, 2, &tracked, &words).commit().unwrap();
        (region, small, tracked, words)
    };
    // What the caller has made of them is not the region's.
    let act = |(region, _, tracked, words): &mut (Region, Array<u64>, Vec<Tracked<u64>>, Vec<u64>)| {
        LARGE_BYTES.store(usize::MAX, Ordering::Relaxed);
        let publication = give(region, 3, tracked, words);
        LARGE_BYTES.store(INPUTS_BYTES, Ordering::Relaxed);
        publication.commit_while(|| ()).map(drop)
    };
    let after = |(mut region, small, tracked, words): (Region, Array<u64>, Vec<Tracked<u64>>, Vec<u64>)| {
        give(&mut region, 9, &tracked, &words).commit().unwrap();
        go_on(&dir, &mut region, &small);
    };
    refuse_each(INPUTS_BYTES, begin, act, after);
}

/// Of so many inputs, as a list.
const INPUTS_BYTES: usize = 32 * 1024;

fn give<'a>(region: &'a mut Region, version: u64, tracked: &[Tracked<u64>], words: &'a [u64]) -> Publication<'a> {
    let give = |publication: Publication<'a>, (tracked, word): (&Tracked<u64>, &'a u64)| {
        publication.tracked(tracked, std::slice::from_ref(word), &[1])
    };
    tracked.iter().zip(words).fold(region.publish(version), give)
}
