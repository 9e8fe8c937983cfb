//! Children that are forked while other threads execute transfers: whatever those were doing, the children can, too.
#![allow(unsafe_code)]

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use drepl::{
    executor::Executor,
    transfer::{Move, Transfer},
};

/// As few as two threads share: what matters is how often they are started.
const BYTES: usize = 1 << 20;
const CHILDREN: usize = 600;
/// A child needs milliseconds.
const WATCHDOG: Duration = Duration::from_secs(120);

fn execute(transfer: &Transfer, destination: &mut [u8], value: u8) -> bool {
    let source = vec![value; BYTES];
    Executor::new(4).run(transfer, &source, destination).is_ok() && destination.iter().all(|byte| *byte == value)
}

/// Waits for a child, and ends it when it takes too long.
fn wait(child: libc::pid_t) -> i32 {
    let deadline = Instant::now() + WATCHDOG;
    let mut status = 0;
    // SAFETY: the pointer is to a live number, and the child is one of this process.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if Instant::now() > deadline {
            // SAFETY: the child was not waited for yet, so the number is still its.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    status
}

#[test]
fn a_child_forked_while_other_threads_execute_executes_too() {
    let all = Move { from: 0, to: 0, run_bytes: BYTES as u64, swap_bytes: 1, axes: Default::default() };
    let transfer = &Transfer::new(vec![all]).unwrap();
    let over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for value in 1..3 {
            scope.spawn(move || {
                let (source, mut destination) = (vec![value; BYTES], vec![0; BYTES]);
                while !over.load(Ordering::Relaxed) {
                    Executor::new(4).run(transfer, &source, &mut destination).unwrap();
                }
            });
        }
        // More, or fewer, with `STILLFRAME_TEST_RUNS`.
        let children = std::env::var("STILLFRAME_TEST_RUNS").ok().and_then(|number| number.parse().ok());
        let statuses: Vec<i32> = (0..children.unwrap_or(CHILDREN))
            .map(|_| {
                // SAFETY: the child does what the test is about, and ends without running anything of its parent's.
                match unsafe { libc::fork() } {
                    0 => {
                        let is_done = execute(transfer, &mut vec![0; BYTES], 9);
                        // SAFETY: ends the process.
                        unsafe { libc::_exit(i32::from(!is_done)) }
                    }
                    child => wait(child),
                }
            })
            .collect();
        over.store(true, Ordering::Relaxed);
        assert!(statuses.iter().all(|status| *status == 0), "a child hung or died: {statuses:?}");
    });
}
