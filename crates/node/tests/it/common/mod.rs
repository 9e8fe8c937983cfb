//! What the tests have in common.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Ends the process if a test hangs. A busy machine needs many times as long as one that has nothing else to do, and no test waits
/// for this unless it hangs.
pub fn watchdog(seconds: u64) -> impl Drop {
    let seconds = seconds.max(60) * 10;
    struct Watchdog(Arc<Mutex<bool>>);
    impl Drop for Watchdog {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = true;
        }
    }
    let is_over = Arc::new(Mutex::new(false));
    let watched = is_over.clone();
    std::thread::spawn(move || {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(seconds) {
            if *watched.lock().unwrap() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        eprintln!("a test hangs");
        std::process::exit(70);
    });
    Watchdog(is_over)
}

/// Looks until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(600), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
