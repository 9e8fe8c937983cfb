//! How much of the processors a thread asks for (sched_setscheduler(2), setpriority(2)).

use crate::Failure;
use std::fs;
use std::io;

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

/// What a kernel with autogroups (`sched_autogroup_enabled`) counts for a session, whatever the class of its threads.
const AUTOGROUP: &str = "/proc/self/autogroup";
const THREADS: &str = "/proc/self/task";

/// Makes all threads of this process, and those that they start from then on, take only what others leave: class
/// `SCHED_IDLE`, and if the process leads its session (setsid(2)), the least weight for its autogroup (sched(7)), without
/// which the class counts among the threads of the session alone. No privilege is needed; to take it back, one is.
pub fn go_idle() -> Result<(), Failure> {
    // Threads that others start meanwhile come after these in the directory, or inherit the class.
    let threads = fs::read_dir(THREADS).map_err(|source| failure("readdir", THREADS, source))?;
    for thread in threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()) {
        set_idle(thread)?;
    }
    weigh_session(NICE_MAX)
}

/// Gives the autogroup of this process's session the weight of a nice value, if the process leads the session. The kernel
/// shares out time among sessions first; the threads' own values only count within one (sched(7), "The autogroup feature").
pub fn weigh_session(nice: u32) -> Result<(), Failure> {
    // The leader may be outside of the process's PID namespace, and the answer 0 then.
    // SAFETY: the calls take numbers and cannot fail for the process itself.
    let leads = unsafe { libc::getsid(0) == libc::getpid() };
    if !leads || weighs(nice) {
        return Ok(());
    }
    match fs::write(AUTOGROUP, nice.to_string()) {
        // A kernel without autogroups.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written.map_err(|source| failure("write", AUTOGROUP, source)),
    }
}

/// Makes this thread one of class `SCHED_IDLE`. No privilege is needed; to take it back, one is.
pub fn idle_thread() -> Result<(), Failure> {
    set_idle(0)
}

/// Whether the autogroup has this weight already. The kernel refuses to be told too often.
fn weighs(nice: u32) -> bool {
    fs::read_to_string(AUTOGROUP).is_ok_and(|text| text.trim_end().ends_with(&format!("nice {nice}")))
}

fn failure(call: &'static str, path: &str, source: io::Error) -> Failure {
    Failure { call, detail: path.into(), source }
}

fn set_idle(thread: libc::pid_t) -> Result<(), Failure> {
    // SAFETY: `sched_param` is plain data, valid when zeroed.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the number is of a thread of this process or of none, 0 is this one, and the pointer refers to a live `sched_param`.
    match unsafe { libc::sched_setscheduler(thread, libc::SCHED_IDLE, &parameters) } {
        0 => Ok(()),
        // It ended since it was listed.
        _ if io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) => Ok(()),
        _ => Err(Failure::last("sched_setscheduler", "SCHED_IDLE")),
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
