//! Named points of the protocol at which tests kill the process, and calls that they let fail.
//!
//! With the feature `points`, the environment variable `STILLFRAME_DIE_AT=name:n` ends the process with `SIGKILL` when it
//! passes the point `name` for the `n`-th time, `STILLFRAME_STOP_AT=name:n` stops it there with `SIGSTOP`, and
//! `STILLFRAME_COUNT_POINTS=file` writes there each point as it is passed. A thread can also be given a fate, at its n-th point, call or write from then on: a simulated death, which unwinds
//! it, or the failure of a call. A death in a write leaves any of its parts done: they may be done in any order. Without the
//! feature, [`hit`], [`before_write`], [`fails`] and [`torn`] are empty.

/// A duration, or in programs for tests as many milliseconds as a variable of the environment has.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub fn duration(_variable: &str, default: std::time::Duration) -> std::time::Duration {
    default
}

/// A duration, or in programs for tests as many milliseconds as a variable of the environment has.
#[cfg(feature = "points")]
pub fn duration(variable: &str, default: std::time::Duration) -> std::time::Duration {
    let ms = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    ms.map_or(default, std::time::Duration::from_millis)
}

/// Passes the point `name`.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub fn hit(_name: &'static str) {}

/// The error that a call is to fail with instead of being made, by its errno.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub fn fails(_errno: i32) -> Option<std::io::Error> {
    None
}

/// Passes by just before one word is written, where a thread may die.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub fn before_write() {}

/// The parts of a write, by their places, that are done by a thread which dies of it. Whoever asks does those, and then
/// [`die`]s.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub fn torn(_parts: usize) -> Option<Vec<usize>> {
    None
}

/// Dies after a write that was [`torn`].
#[cfg(not(feature = "points"))]
#[inline(always)]
pub fn die() {}

/// What is to happen to a thread.
#[cfg(feature = "points")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It unwinds with [`Death`], at a point or before a call.
    Dies,
    /// A call fails, if one comes: points are passed over.
    Fails,
}

/// With what a thread unwinds that dies.
#[cfg(feature = "points")]
#[derive(Debug)]
pub struct Death;

#[cfg(feature = "points")]
thread_local! {
    /// What happens to the thread, and after how many points and calls.
    static FATE: std::cell::Cell<Option<(Fate, u64)>> = const { std::cell::Cell::new(None) };
    /// From what the parts of a torn write are chosen.
    static SEED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Gives this thread a fate at the `after`-th point or call from now on, or none. Returns the one that did not come.
#[cfg(feature = "points")]
pub fn set_fate(fate: Option<(Fate, u64)>) -> Option<(Fate, u64)> {
    SEED.set(fate.map_or(0, |(_, after)| after));
    FATE.replace(fate)
}

/// The parts of a write, by their places, that are done by a thread which dies of it. Whoever asks does those, and then
/// [`die`]s.
#[cfg(feature = "points")]
pub fn torn(parts: usize) -> Option<Vec<usize>> {
    is_due(Fate::Dies).then(|| {
        let mut seed = SEED.get();
        // Each part is done or not, whatever became of its neighbours (splitmix64).
        let is_done = |_: &usize| {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 63 == 1
        };
        (0..parts).filter(is_done).collect()
    })
}

/// Dies after a write that was [`torn`].
#[cfg(feature = "points")]
pub fn die() {
    // Not as a panic: nobody needs to read of it.
    std::panic::resume_unwind(Box::new(Death));
}

/// Whether what this thread comes to next is what its fate waits for.
#[cfg(feature = "points")]
fn is_due(fate: Fate) -> bool {
    match FATE.get() {
        Some((known, after)) if known == fate && !std::thread::panicking() => {
            FATE.set((after > 0).then(|| (known, after - 1)));
            after == 0
        }
        _ => false,
    }
}

/// The error that a call is to fail with instead of being made, by its errno.
#[cfg(feature = "points")]
pub fn fails(errno: i32) -> Option<std::io::Error> {
    die_if_due();
    is_due(Fate::Fails).then(|| std::io::Error::from_raw_os_error(errno))
}

/// Passes by just before one word is written, where a thread may die.
#[cfg(feature = "points")]
pub fn before_write() {
    die_if_due();
}

#[cfg(feature = "points")]
fn die_if_due() {
    if is_due(Fate::Dies) {
        die();
    }
}

/// Passes the point `name`.
#[cfg(feature = "points")]
pub fn hit(name: &'static str) {
    die_if_due();
    pass(name);
}

/// Does what the environment says.
#[cfg(feature = "points")]
fn pass(name: &'static str) {
    use std::io::Write;
    use std::sync::Mutex;
    use std::sync::OnceLock;

    struct Plan {
        /// With which signal, at which point, and how often it is still to be passed.
        signals: Vec<(i32, String, Mutex<u64>)>,
        log: Option<Mutex<std::fs::File>>,
    }
    static PLAN: OnceLock<Plan> = OnceLock::new();
    let plan = PLAN.get_or_init(|| Plan {
        signals: [("STILLFRAME_DIE_AT", libc::SIGKILL), ("STILLFRAME_STOP_AT", libc::SIGSTOP)]
            .into_iter()
            .filter_map(|(variable, signal)| {
                let text = std::env::var(variable).ok()?;
                let (point, count) = text.rsplit_once(':')?;
                Some((signal, point.to_string(), Mutex::new(count.parse().ok()?)))
            })
            .collect(),
        log: std::env::var("STILLFRAME_COUNT_POINTS")
            .ok()
            .and_then(|path| std::fs::OpenOptions::new().append(true).create(true).open(path).ok())
            .map(Mutex::new),
    });
    if let Some(log) = &plan.log
        && let Ok(mut file) = log.lock()
    {
        let _ = writeln!(file, "{name}");
    }
    for (signal, _, count) in plan.signals.iter().filter(|(_, point, _)| point == name) {
        let Ok(mut count) = count.lock() else { continue };
        let is_due = *count == 1;
        *count = count.saturating_sub(1);
        if is_due {
            // To this thread: another one of the process would take it while this one goes on.
            // SAFETY: raise with a signal number touches no memory.
            unsafe { libc::raise(*signal) };
        }
    }
}
