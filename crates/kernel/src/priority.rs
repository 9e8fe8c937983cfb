//! How much of the processors a thread asks for (sched_setscheduler(2), setpriority(2)).

use crate::Failure;

/// The highest nice value, which asks for least.
pub const NICE_MAX: u32 = 19;

/// Makes this thread, and those that it starts from then on, step back behind others that want the processor: its nice value
/// becomes `nice`, if it is not higher already, and when it wakes it does not take the processor from whoever has it
/// (`SCHED_BATCH`). No privilege is needed; to take it back, one is.
pub fn step_back(nice: u32) -> Result<(), Failure> {
    let nice = nice.min(NICE_MAX) as i32;
    // SAFETY: the calls take numbers, and 0 is this thread. A nice value may be -1, so only errno tells an error, and there is
    // none about this thread.
    let present = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // SAFETY: as above.
    if present < nice && unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } != 0 {
        return Err(Failure::last("setpriority", nice.to_string()));
    }
    // Whoever chose another policy, for the idle or for real time, had a reason.
    // SAFETY: as above.
    if unsafe { libc::sched_getscheduler(0) } != libc::SCHED_OTHER {
        return Ok(());
    }
    // SAFETY: `sched_param` is plain data, valid when zeroed.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is this thread, and the pointer refers to a live `sched_param`, which the call only reads.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameters) } {
        0 => Ok(()),
        _ => Err(Failure::last("sched_setscheduler", "SCHED_BATCH")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nice value and the policy of this thread.
    fn own() -> (i32, i32) {
        // SAFETY: the calls take numbers, and 0 is this thread.
        unsafe { (libc::getpriority(libc::PRIO_PROCESS, 0), libc::sched_getscheduler(0)) }
    }

    #[test]
    fn a_thread_steps_back_with_those_it_starts_and_never_forward() {
        let before = own();
        std::thread::spawn(|| {
            step_back(NICE_MAX - 1).unwrap();
            assert_eq!(own(), (NICE_MAX as i32 - 1, libc::SCHED_BATCH));
            step_back(3).unwrap();
            assert_eq!(std::thread::spawn(own).join().unwrap(), (NICE_MAX as i32 - 1, libc::SCHED_BATCH));
        })
        .join()
        .unwrap();
        assert_eq!(own(), before, "other threads stay as they are");
    }
}
