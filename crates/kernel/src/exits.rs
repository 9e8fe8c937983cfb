//! Waiting for processes to end, without asking each of them (pidfd_open(2), epoll(7)).

use crate::Failure;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Marks the descriptor that only wakes; no process has this number.
const WAKE: u64 = u64::MAX;

/// Ends that are told at a time; more come with the next wait.
const EVENTS: usize = 64;

/// Processes whose end is waited for. One thread waits; others add and remove.
#[derive(Debug)]
pub struct Exits {
    epoll: OwnedFd,
    wake: OwnedFd,
    processes: Mutex<BTreeMap<u32, OwnedFd>>,
}

impl Exits {
    /// None yet.
    pub fn new() -> Result<Exits, Failure> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| Failure::of("epoll_create1", "", error))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|error| Failure::of("eventfd", "", error))?;
        let added = epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN);
        added.map_err(|error| Failure::of("epoll_ctl", "an eventfd", error))?;
        Ok(Exits { epoll, wake, processes: Mutex::default() })
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<u32, OwnedFd>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of a process from now on. `false` if there is none of this number here: it has ended, or it is one of another
    /// namespace of processes.
    pub fn add(&self, process: u32) -> Result<bool, Failure> {
        let mut processes = self.processes();
        if processes.contains_key(&process) {
            return Ok(true);
        }
        let failed = |call| move |error| Failure::of(call, format!("of process {process}"), error);
        let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return Ok(false) };
        let opened = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(false),
            opened => opened.map_err(failed("pidfd_open"))?,
        };
        let data = epoll::EventData::new_u64(process.into());
        epoll::add(&self.epoll, &opened, data, epoll::EventFlags::IN).map_err(failed("epoll_ctl"))?;
        processes.insert(process, opened);
        Ok(true)
    }

    /// Those that have ended, each once; waits for one at most so long.
    pub fn wait(&self, longest: Duration) -> Vec<u32> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let limit = rustix::time::Timespec {
            tv_sec: longest.as_secs().min(1 << 30) as i64,
            tv_nsec: longest.subsec_nanos().into(),
        };
        let Ok((ready, _)) = epoll::wait(&self.epoll, &mut events, Some(&limit)) else { return Vec::new() };
        let mut ended = Vec::new();
        for event in ready {
            match event.data.u64() {
                WAKE => _ = rustix::io::read(&self.wake, &mut [0_u8; 8]),
                process => ended.push(process as u32),
            }
        }
        let mut processes = self.processes();
        ended.retain(|process| processes.remove(process).is_some());
        ended
    }

    /// Lets who waits return.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn who_ends_is_told_once() {
        let exits = Exits::new().unwrap();
        let mut stays = Command::new("sleep").arg("600").spawn().unwrap();
        let mut goes = Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!([stays.id(), goes.id(), goes.id()].map(|process| exits.add(process).unwrap()), [true; 3]);
        assert!(exits.wait(Duration::ZERO).is_empty());
        goes.kill().unwrap();
        assert_eq!(exits.wait(LONG), [goes.id()]);
        assert!(exits.wait(Duration::from_millis(20)).is_empty());
        stays.kill().unwrap();
        let _ = (stays.wait(), goes.wait());
        assert!(!exits.add(u32::MAX).unwrap());
    }

    #[test]
    fn who_waits_is_woken() {
        let exits = Exits::new().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| exits.wake());
            assert!(exits.wait(LONG).is_empty());
        });
        assert!(exits.wait(Duration::ZERO).is_empty(), "a wake counts once");
    }
}
