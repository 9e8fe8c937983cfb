//! Waiting for bytes of many connections with one thread (epoll(7)).

use crate::Failure;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use std::mem::MaybeUninit;
use std::time::Duration;

/// Sockets that are told of at a time; more are told of with the next wait.
const EVENTS: usize = 64;

/// Sockets of which is told when something came. A socket that is closed is none of them any more.
#[derive(Debug)]
pub struct Readiness {
    epoll: OwnedFd,
}

impl Readiness {
    /// None yet.
    ///
    /// # Errors
    /// As epoll_create1(2).
    pub fn new() -> Result<Readiness, Failure> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| Failure::of("epoll_create1", "", error))?;
        Ok(Readiness { epoll })
    }

    /// From now on it is told of by this number each time that something comes, be it a connection, a byte or an end, and at first if
    /// something is there. What is not taken then is not told of again.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn add(&self, socket: impl AsFd, number: u64) -> Result<(), Failure> {
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        let added = epoll::add(&self.epoll, &socket, EventData::new_u64(number), flags);
        added.map_err(|error| Failure::of("epoll_ctl", "a socket", error))
    }

    /// It is told of no more.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn remove(&self, socket: impl AsFd) -> Result<(), Failure> {
        epoll::delete(&self.epoll, &socket).map_err(|error| Failure::of("epoll_ctl", "a socket", error))
    }

    /// The numbers of those to which something came; waits for one at most so long, `None` is without end.
    ///
    /// # Errors
    /// As epoll_wait(2).
    pub fn wait(&self, longest: Option<Duration>) -> Result<Vec<u64>, Failure> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let limit = longest.map(|longest| rustix::time::Timespec {
            tv_sec: longest.as_secs().min(1 << 30) as i64,
            tv_nsec: longest.subsec_nanos().into(),
        });
        match epoll::wait(&self.epoll, &mut events, limit.as_ref()) {
            Ok((ready, _)) => Ok(ready.iter().map(|event| event.data.u64()).collect()),
            Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(Failure::of("epoll_wait", "", error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn each_arrival_is_told_once() {
        let readiness = Readiness::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        readiness.add(&listener, 1).unwrap();
        assert!(readiness.wait(Some(Duration::ZERO)).unwrap().is_empty());
        let mut there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(readiness.wait(None).unwrap(), [1]);
        let here = listener.accept().unwrap().0;
        readiness.add(&here, 2).unwrap();
        for _ in 0..2 {
            there.write_all(b"a").unwrap();
            assert_eq!(readiness.wait(None).unwrap(), [2]);
            assert!(readiness.wait(Some(Duration::ZERO)).unwrap().is_empty(), "what lies there is not told of again");
        }
        readiness.remove(&here).unwrap();
        there.write_all(b"a").unwrap();
        drop(there);
        assert!(readiness.wait(Some(Duration::from_millis(5))).unwrap().is_empty());
    }
}
