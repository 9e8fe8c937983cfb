//! Observers: those who look.
//!
//! # Safety
//! Nothing here touches memory; the names of exported functions are this library's own.
#![allow(unsafe_code)]

use crate::arena::{self, stillframe_arena};
use crate::call::{Call, run};
use crate::failure::Failure;
use crate::handle::{self, Handled, Table};
use crate::kind::Kind;
use crate::snapshot::{self, stillframe_snapshot};
use crate::status::stillframe_status;
use engine::{Arena, NoTrust, Observer, Polite, Snapshot, Trust};
use std::ffi::c_char;
use std::path::PathBuf;
use std::time::Duration;

/// A look at a region. It holds nothing but what its snapshots hold, and can be used from several threads.
pub struct stillframe_observer(());

/// How an observer is opened. A member that is 0 or NULL is the default; set all of it to 0 first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_observer_options {
    /// Directory of the regions; NULL: $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>.
    pub dir: *const c_char,
    /// How long to wait for the region to appear and to have a version, in milliseconds; 0: not at all.
    pub wait_ms: u64,
    /// Threads, the calling one included, that enter all pages of a variable in the page tables when it is first viewed, and
    /// take them out in the end: for programs that read all of a large variable. 0: pages are entered as they are first read.
    /// Not for groups.
    pub populate_threads: u64,
    /// Whose directories and files are taken for good, besides those of the process's user and of root: "own", "user:NUMBER",
    /// "group:NUMBER" or "any"; NULL: $STILLFRAME_TRUST, else "own" in the directory that is the user's by default, and "any"
    /// in one that is named.
    pub trust: *const c_char,
    /// An arena that this process has open, in which the name is that of a region or group within it. It is needed for arenas
    /// that were handed in as descriptors; what lies in others is found by names as ARENA/REGION and ARENA/GROUP.
    pub arena: *mut stillframe_arena,
    /// What it takes of the machine while others want it; NULL: what it gets, as any program. It is of the whole process, which is
    /// to look and do nothing else, and lasts until its end.
    pub polite: *const stillframe_polite,
    /// 0.
    pub reserved: [u64; 1],
}

/// What a polite observer takes of the machine, at most: only what others leave (all threads of the process become of the
/// class SCHED_IDLE), and its share where nothing is left over. It sleeps for that between versions. What the kernel does not
/// permit is said once on standard error; the share holds all the same. A member that is 0 or NULL is the default; set all of
/// it to 0 first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_polite {
    /// How much of one processor it takes where nothing is left over, above 0 and at most 1; 0: 0.02. Where processors stay
    /// idle it takes more.
    pub share: f64,
    /// How many bytes of variables it reads in a second; 0: as many as it likes.
    pub bytes_per_s: u64,
    /// The processors it uses, such as "60-63,127"; NULL: all that the process was given.
    pub processors: *const c_char,
    /// 0.
    pub reserved: [u64; 2],
}

/// A version that exists.
#[repr(C)]
pub struct stillframe_version_info {
    /// The producer's number.
    pub version: u64,
    /// Time of publishing in nanoseconds since 1970.
    pub published_ns: u64,
    /// Pages of 4 KiB that had been written.
    pub dirty_pages: u64,
    /// Pages of all variables.
    pub total_pages: u64,
    /// 1 if it is on its way out: those who hold it keep it, but nobody else can get it.
    pub retiring: u32,
    /// 0.
    pub reserved: u32,
}

impl Handled for Observer {
    type Opaque = stillframe_observer;
    const KIND: Kind = Kind::Observer;
    fn table() -> &'static Table<Observer> {
        static TABLE: Table<Observer> = Table::new();
        &TABLE
    }
}

/// The observer itself, so that a thread that waits keeps no other from using it.
fn get(observer: *mut stillframe_observer) -> Result<Observer, Failure> {
    handle::with(observer, |observer: &mut Observer| Ok(observer.clone()))
}

/// Options that were given, or left at their defaults.
#[derive(Default)]
pub struct Options {
    pub dir: Option<PathBuf>,
    pub wait: Duration,
    pub populate: Option<usize>,
    pub trust: Option<Trust>,
    pub arena: Option<Arena>,
    pub polite: Option<Polite>,
}

/// What is taken of the machine, if that was said.
fn polite_of(call: &Call, given: *const stillframe_polite) -> Result<Option<Polite>, Failure> {
    let Some(given) = call.read("options.polite", given)? else { return Ok(None) };
    if given.reserved != [0; 2] {
        return Err(Failure::argument("options.polite.reserved", "it is not 0: set the whole structure to 0 first"));
    }
    let mut polite = Polite::new();
    if given.share != 0.0 {
        polite = polite.share(given.share);
    }
    if given.bytes_per_s != 0 {
        polite = polite.bytes_per_s(given.bytes_per_s);
    }
    if let Some(list) = call.text_or_null("options.polite.processors", given.processors)? {
        polite = polite.processors_listed(list)?;
    }
    Ok(Some(polite))
}

/// The options as they were given.
pub fn options(call: &Call, given: *const stillframe_observer_options) -> Result<Options, Failure> {
    let Some(given) = call.read("options", given)? else { return Ok(Options::default()) };
    if given.reserved != [0; 1] {
        return Err(Failure::argument("options.reserved", "it is not 0: set the whole structure to 0 first"));
    }
    let dir = call.text_or_null("options.dir", given.dir)?.map(PathBuf::from);
    let populate = (given.populate_threads != 0).then(|| usize::try_from(given.populate_threads).unwrap_or(usize::MAX));
    let trust = call.text_or_null("options.trust", given.trust)?.map(str::parse).transpose();
    let trust = trust.map_err(|error: NoTrust| engine::Error::from(error))?;
    let arena = arena::chosen(given.arena, given.dir)?;
    let polite = polite_of(call, given.polite)?;
    Ok(Options { dir, wait: Duration::from_millis(given.wait_ms), populate, trust, arena, polite })
}

/// A version, of which negative numbers mean none.
pub fn version_of(after: i64) -> Option<u64> {
    u64::try_from(after).ok()
}

/// A limit in milliseconds, of which negative numbers mean none.
pub fn timeout_of(timeout_ms: i64) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

/// Opens an observer on a region.
///
/// options: NULL for all defaults. observer: the handle; NULL on errors.
///
/// Errors: NO_REGION, or with a wait TIMEOUT; IS_GROUP if the name is a group's; DENIED if it is another user's; BAD_OPTION;
/// CORRUPT; where the name begins with a broker's address, as in "unix:/run/sock#plate", NO_BROKER and BROKER.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_open(
    name: *const c_char,
    options: *const stillframe_observer_options,
    observer: *mut *mut stillframe_observer,
) -> stillframe_status {
    run("stillframe_open", |call| {
        let out = call.out_pointer("observer", observer)?;
        let name = call.text("name", name)?;
        let given = self::options(call, options)?;
        let mut options = Observer::options().wait(given.wait);
        if let Some(dir) = given.dir {
            options = options.dir(dir);
        }
        if let Some(threads) = given.populate {
            options = options.populate(threads);
        }
        if let Some(trust) = given.trust {
            options = options.trust(trust);
        }
        if let Some(arena) = given.arena {
            options = options.arena(&arena);
        }
        if let Some(polite) = given.polite {
            options = options.polite(polite);
        }
        out.put(handle::insert(options.open(name)?));
        Ok(())
    })
}

/// Ends an observer. Its snapshots stay. NULL is nothing to do.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_observer_close(observer: *mut stillframe_observer) -> stillframe_status {
    run("stillframe_observer_close", |_| handle::remove_or_null::<Observer>(observer).map(drop))
}

/// Whether the region has a living producer.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_producer_alive(observer: *mut stillframe_observer, alive: *mut bool) -> stillframe_status {
    run("stillframe_producer_alive", |call| {
        call.out("alive", alive)?.put(get(observer)?.producer_alive());
        Ok(())
    })
}

fn hold(
    function: &'static str,
    observer: *mut stillframe_observer,
    snapshot: *mut *mut stillframe_snapshot,
    look: impl FnOnce(&Observer) -> engine::Result<Snapshot>,
) -> stillframe_status {
    run(function, |call| {
        let out = call.out_pointer("snapshot", snapshot)?;
        out.put(snapshot::insert(look(&get(observer)?)?));
        Ok(())
    })
}

/// Holds the newest version. snapshot: the handle, to be ended by stillframe_release; NULL on errors.
///
/// Errors: NO_VERSION if nothing was published yet; CORRUPT; those of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_newest(
    observer: *mut stillframe_observer,
    snapshot: *mut *mut stillframe_snapshot,
) -> stillframe_status {
    hold("stillframe_newest", observer, snapshot, Observer::newest)
}

/// Holds a given version.
///
/// Errors: VERSION_GONE if it is not, or no longer, there; else as stillframe_newest.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_version(
    observer: *mut stillframe_observer,
    version: u64,
    snapshot: *mut *mut stillframe_snapshot,
) -> stillframe_status {
    hold("stillframe_version", observer, snapshot, |observer| observer.version(version))
}

/// Holds the smallest version above after, waiting for it at most timeout_ms milliseconds. after below 0: any version.
/// timeout_ms below 0: for ever, or until the producer ends.
///
/// Errors: TIMEOUT; PRODUCER_GONE if nobody will publish it; else as stillframe_newest.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_next_after(
    observer: *mut stillframe_observer,
    after: i64,
    timeout_ms: i64,
    snapshot: *mut *mut stillframe_snapshot,
) -> stillframe_status {
    hold("stillframe_next_after", observer, snapshot, |observer| {
        observer.next_after(version_of(after), timeout_of(timeout_ms))
    })
}

/// Holds the newest version above after, skipping those in between; waits as stillframe_next_after does.
///
/// Errors: as stillframe_next_after.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_newest_after(
    observer: *mut stillframe_observer,
    after: i64,
    timeout_ms: i64,
    snapshot: *mut *mut stillframe_snapshot,
) -> stillframe_status {
    hold("stillframe_newest_after", observer, snapshot, |observer| {
        observer.newest_after(version_of(after), timeout_of(timeout_ms))
    })
}

/// Waits, as stillframe_next_after does, until the newest version is above after, without holding it. version: its number.
///
/// Errors: as stillframe_next_after.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_wait_newer(
    observer: *mut stillframe_observer,
    after: i64,
    timeout_ms: i64,
    version: *mut u64,
) -> stillframe_status {
    run("stillframe_wait_newer", |call| {
        let out = call.out_or_null("version", version)?;
        out.put(get(observer)?.wait_newer(version_of(after), timeout_of(timeout_ms))?);
        Ok(())
    })
}

/// The versions that exist, ascending. out: filled with the first capacity of them; NULL if capacity is 0. count: all that
/// there are.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_versions(
    observer: *mut stillframe_observer,
    out: *mut stillframe_version_info,
    capacity: usize,
    count: *mut usize,
) -> stillframe_status {
    run("stillframe_versions", |call| {
        let (to, count) = (call.slice_mut("out", out, capacity)?, call.out("count", count)?);
        let found = get(observer)?.versions();
        for (to, info) in to.iter().zip(&found) {
            to.set(std::mem::MaybeUninit::new(stillframe_version_info {
                version: info.version,
                published_ns: info.published_ns,
                dirty_pages: info.dirty_pages,
                total_pages: info.total_pages,
                retiring: u32::from(info.retiring),
                reserved: 0,
            }));
        }
        count.put(found.len());
        Ok(())
    })
}
