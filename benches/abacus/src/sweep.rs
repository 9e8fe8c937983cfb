//! The computation of a step: every number of the state is read, and every number of the next one written.

use crate::Told;
use crate::usage::thread_ms;
use std::time::Instant;

/// Makes the next state of a state.
pub fn advance(read: &[f64], write: &mut [f64]) {
    for (write, read) in write.iter_mut().zip(read) {
        *write = read + 1.0;
    }
}

/// Does so on memory that is mapped and was touched, and notes the time it takes.
pub fn compute(read: &[f64], write: &mut [f64], told: &mut Told) {
    let used = thread_ms();
    let ((), ms) = timed(|| advance(read, write));
    (told.compute, told.compute_cpu) = (ms, thread_ms() - used);
}

/// Whether a state is that of a step.
pub fn check(state: &[f64], number: u64) -> Result<(), String> {
    let step = (state.len() / 64).max(1);
    match state.iter().step_by(step).chain(state.last()).find(|value| **value != number as f64) {
        None => Ok(()),
        Some(found) => Err(format!("state {number} has {found} in it")),
    }
}

/// Runs and times; in milliseconds.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begin = Instant::now();
    let result = work();
    (result, begin.elapsed().as_secs_f64() * 1e3)
}
