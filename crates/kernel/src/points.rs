//! Named points of the protocol at which tests kill the process, and calls that they let fail.
//!
//! With the feature `points`, the environment variable `STILLFRAME_DIE_AT=name:n` ends the process with `SIGKILL` when it
//! passes the point `name` for the `n`-th time, and `STILLFRAME_COUNT_POINTS=file` writes there each point as it is
//! passed. A thread can also be given a [`Fate`], at its n-th point or call from then on: a simulated death, which unwinds it
//! with [`Death`], or the failure of a call. Without the feature, [`hit`] and [`fails`] are empty.

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
}

/// Gives this thread a fate at the `after`-th point or call from now on, or none. Returns the one that did not come.
#[cfg(feature = "points")]
pub fn set_fate(fate: Option<(Fate, u64)>) -> Option<(Fate, u64)> {
    FATE.replace(fate)
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

#[cfg(feature = "points")]
fn die_if_due() {
    if is_due(Fate::Dies) {
        // Not as a panic: nobody needs to read of it.
        std::panic::resume_unwind(Box::new(Death));
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
        die_at: Option<(String, Mutex<u64>)>,
        log: Option<Mutex<std::fs::File>>,
    }
    static PLAN: OnceLock<Plan> = OnceLock::new();
    let plan = PLAN.get_or_init(|| Plan {
        die_at: std::env::var("STILLFRAME_DIE_AT").ok().and_then(|text| {
            let (point, count) = text.rsplit_once(':')?;
            Some((point.to_string(), Mutex::new(count.parse().ok()?)))
        }),
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
    if let Some((point, count)) = &plan.die_at
        && point == name
        && let Ok(mut count) = count.lock()
    {
        *count = count.saturating_sub(1);
        if *count == 0 {
            // SAFETY: kill with a signal number and our own pid touches no memory.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }
}
