//! How long versions of an object are waited for, and when what failed is tried again.

use std::time::Duration;
use stillframe_kernel::points;

/// Longest wait before the thread looks whether it is to end.
pub const LOOK: Duration = Duration::from_millis(50);

/// How long it sleeps where something is to be tried later.
pub const NAP: Duration = Duration::from_millis(5);

/// How long there may be no writer before that is the end: writers may leave and attach anew between two versions.
pub const GRACE: Duration = Duration::from_secs(1);

/// How often a version is tried again once nobody writes any more.
pub const LAST_TRIES: u32 = 2;

/// After how many of those tries, with `--all`, the versions after it are read first: a minute or so.
pub const PUT_OFF_TRIES: u32 = 12;

/// How long a version may take until all of it was read: its writers have published it.
pub fn read_limit() -> Duration {
    points::duration("STILLFRAME_READ_MS", Duration::from_secs(60))
}

/// How long nothing is tried after a version could not be read; twice as long after each further time, up to [`pause_max`].
pub fn pause() -> Duration {
    points::duration("STILLFRAME_PAUSE_MS", Duration::from_secs(1))
}

pub fn pause_max() -> Duration {
    pause() * 60
}

/// The longest pause once nobody writes any more.
pub fn last_pause_max() -> Duration {
    pause() * 5
}
