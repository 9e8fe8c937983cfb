//! A limit to what a test may take.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A test that is watched until this is dropped.
#[must_use]
pub struct Watchdog(#[allow(dead_code, reason = "its end is what tells that the test ended")] Sender<()>);

/// Least seconds: this is for what hangs, and how slowly a busy machine goes on is nobody's fault.
const LEAST: u64 = 300;

/// Ends the whole test process if the test that holds the answer hangs. In an emulated machine everything takes longer, and
/// that many times as long with `STILLFRAME_TEST_PATIENCE`.
pub fn watchdog(seconds: u64) -> Watchdog {
    let patience = std::env::var("STILLFRAME_TEST_PATIENCE").ok().and_then(|number| number.parse().ok());
    let seconds = seconds.max(LEAST).saturating_mul(patience.unwrap_or(1));
    let (sender, receiver) = channel::<()>();
    std::thread::spawn(move || {
        if receiver.recv_timeout(Duration::from_secs(seconds)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("the watchdog ends this test process after {seconds} s");
            std::process::abort();
        }
    });
    Watchdog(sender)
}
