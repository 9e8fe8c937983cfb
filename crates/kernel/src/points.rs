//! Named points of the protocol at which tests kill the process.
//!
//! With the feature `points`, the environment variable `STILLFRAME_DIE_AT=name:n` ends the process with `SIGKILL` when it
//! passes the point `name` for the `n`-th time, and `STILLFRAME_COUNT_POINTS=file` writes there each point as it is
//! passed. Without the feature, [`hit`] is empty.

/// Passes the point `name`.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub fn hit(_name: &'static str) {}

/// Passes the point `name`.
#[cfg(feature = "points")]
pub fn hit(name: &'static str) {
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
