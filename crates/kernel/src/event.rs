//! Counters by which processes wake each other, which go over sockets as files do (eventfd(2)).
//!
//! All calls are `rustix`'s, and safe. What a process sets on such a counter, each one has that has it, so that whoever got one can have
//! it block (`O_NONBLOCK`). [`Event::take`] does not wait even then; [`Event::ring`] does, as long as the counter is full.

use crate::Failure;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, ReadWriteFlags, preadv2, read, retry_on_intr, write};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// What `/proc` says that such a file is.
const KIND: &str = "anon_inode:[eventfd]";

/// A counter.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Event {
    /// A new one, which no program inherits that is started.
    ///
    /// # Errors
    /// As eventfd(2).
    pub fn new() -> Result<Event, Failure> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        made.map(Event).map_err(|error| Failure::of("eventfd", "", error))
    }

    /// One that came from somebody else; `None` if the file is something else.
    pub fn from_descriptor(file: OwnedFd) -> Option<Event> {
        let kind = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        (kind.as_os_str() == KIND).then_some(Event(file))
    }

    /// Adds one, and wakes who waits. Whoever else has the counter can have this wait for him, by filling it.
    ///
    /// # Errors
    /// As write(2).
    pub fn ring(&self) -> Result<(), Failure> {
        match retry_on_intr(|| write(&self.0, &1u64.to_ne_bytes())) {
            // It is full, and nobody has taken it: who looks sees that it was rung.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(Failure::of("write", "an eventfd", error)),
        }
    }

    /// Makes it zero; whether it was rung. It does not wait, whatever others have set.
    ///
    /// # Errors
    /// As read(2).
    pub fn take(&self) -> Result<bool, Failure> {
        let mut count = [0; 8];
        // As if it were set not to wait.
        let taken =
            retry_on_intr(|| preadv2(&self.0, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT));
        let taken = match taken {
            // A kernel before 5.8 can only be asked beforehand.
            Err(Errno::OPNOTSUPP) if self.is_rung()? => retry_on_intr(|| read(&self.0, &mut count)),
            Err(Errno::OPNOTSUPP) => Ok(0),
            taken => taken,
        };
        match taken {
            Ok(bytes) => Ok(bytes > 0),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(Failure::of("read", "an eventfd", error)),
        }
    }

    fn is_rung(&self) -> Result<bool, Failure> {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(Failure::of("poll", "an eventfd", error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};

    #[test]
    fn a_ring_is_taken_once_however_many_there_were() {
        let event = Event::new().unwrap();
        assert!(!event.take().unwrap());
        (0..3).for_each(|_| event.ring().unwrap());
        assert!(event.is_rung().unwrap());
        assert!(event.take().unwrap() && !event.take().unwrap());
        // One that is full was rung.
        write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        event.ring().unwrap();
        assert!(event.take().unwrap());
    }

    #[test]
    fn whoever_lets_it_block_has_nobody_wait_who_takes() {
        let event = Event::new().unwrap();
        fcntl_setfl(&event, OFlags::empty()).unwrap();
        assert!(!event.take().unwrap());
        event.ring().unwrap();
        assert!(event.take().unwrap() && !event.take().unwrap());
    }

    #[test]
    fn another_file_is_no_counter() {
        let dir = std::fs::File::open("/").unwrap();
        assert!(Event::from_descriptor(dir.into()).is_none());
        let (one, _two) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(Event::from_descriptor(one.into()).is_none());
        assert!(Event::from_descriptor(Event::new().unwrap().0).is_some());
    }
}
