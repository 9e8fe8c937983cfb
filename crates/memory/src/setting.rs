//! What the launcher said, in variables of the environment.
//!
//! | variable | |
//! |---|---|
//! | `STILLFRAME_PAGES` | the directory of the pool |
//! | `STILLFRAME_PAGES_MAPPINGS` | that what the program maps comes from the pool, too, from so many bytes on |
//! | `STILLFRAME_PAGES_STRICT` | that nothing that the pool has not is served from ordinary memory |
//! | `STILLFRAME_PAGES_REPORT` | the process that reports at its end, as do its children that had something of the pool |

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

const PATH_BYTES: usize = libc::PATH_MAX as usize;

/// The directory's path, which is written once, before [`IS_KNOWN`] is set.
struct Path(std::cell::UnsafeCell<[u8; PATH_BYTES]>);

// SAFETY: written once, by the only thread that there is, before `IS_KNOWN` says that it can be read.
unsafe impl Sync for Path {}

static PATH: Path = Path(std::cell::UnsafeCell::new([0; PATH_BYTES]));
static IS_KNOWN: AtomicBool = AtomicBool::new(false);
static REPORTER: AtomicU32 = AtomicU32::new(0);
static IS_STRICT: AtomicBool = AtomicBool::new(false);
static MAPPINGS_LEAST_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// A variable of an environment.
///
/// # Safety
/// The environment is a list that ends with null, of texts that end with a zero and stay.
pub unsafe fn variable(mut environment: *const *const c_char, name: &CStr) -> Option<&'static CStr> {
    if environment.is_null() {
        return None;
    }
    loop {
        // SAFETY: as said.
        let text = unsafe {
            let at = *environment;
            if at.is_null() {
                return None;
            }
            environment = environment.add(1);
            CStr::from_ptr::<'static>(at)
        };
        let found = text.to_bytes_with_nul().strip_prefix(name.to_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        if let Some(value) = found {
            return CStr::from_bytes_with_nul(value).ok();
        }
    }
}

/// Reads them: once, before the program does anything.
///
/// # Safety
/// As of [`variable`].
pub unsafe fn read(environment: *const *const c_char) {
    // SAFETY: the caller's.
    let of = |name| unsafe { variable(environment, name) };
    let Some(path) = of(c"STILLFRAME_PAGES").map(CStr::to_bytes) else { return };
    if path.is_empty() || path.len() >= PATH_BYTES {
        return;
    }
    // SAFETY: nobody reads it before `IS_KNOWN` is set, and this is the only thread.
    unsafe { (&mut *PATH.0.get())[..path.len()].copy_from_slice(path) };
    let reporter = of(c"STILLFRAME_PAGES_REPORT").and_then(|text| crate::files::number(text.to_bytes()));
    REPORTER.store(reporter.unwrap_or(0) as u32, Ordering::Relaxed);
    IS_STRICT.store(of(c"STILLFRAME_PAGES_STRICT").is_some(), Ordering::Relaxed);
    let least = of(c"STILLFRAME_PAGES_MAPPINGS").and_then(|text| crate::files::number(text.to_bytes()));
    MAPPINGS_LEAST_BYTES.store(if is_strict() { 0 } else { least.unwrap_or(usize::MAX) }, Ordering::Relaxed);
    IS_KNOWN.store(true, Ordering::Release);
}

/// The pool's directory, once it is known, if there is one.
pub fn pool() -> Option<&'static CStr> {
    // SAFETY: nothing changes it once it is known.
    IS_KNOWN.load(Ordering::Acquire).then(|| unsafe { CStr::from_ptr(PATH.0.get().cast()) })
}

/// Whether memory that the pool has not is refused.
pub fn is_strict() -> bool {
    IS_STRICT.load(Ordering::Relaxed)
}

/// From how many bytes on what the program maps is to come from the pool.
pub fn mappings_least_bytes() -> usize {
    MAPPINGS_LEAST_BYTES.load(Ordering::Relaxed)
}

/// The process that reports in any case, if there is to be a report.
pub fn reporter() -> Option<u32> {
    Some(REPORTER.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
}
