//! Connections over TCP (tcp(7), sendfile(2), splice(2), poll(2)).
//!
//! All calls are `rustix`'s, and safe. They are for sockets that do not block: what cannot be done now is no error but [`None`], and [`wait`] sleeps until it can be.
//! So each wait has a limit, and none is stretched by a peer that takes or gives a byte now and then.

use crate::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, sockopt};
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Bytes that one call moves from a file at most, so that a deadline is looked at now and then.
const CALL_BYTES: usize = 8 << 20;

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Bytes have come, or the connection has ended.
    Readable,
    /// There is room for bytes, or the connection has ended.
    Writable,
}

/// Sets a connection up: nothing blocks, small messages go at once (`TCP_NODELAY`), and a peer that says nothing is noticed.
///
/// The connection ends with `ETIMEDOUT` when, for `silence`, what was sent is not acknowledged, or the peer's window stays closed
/// (`TCP_USER_TIMEOUT`). One on which nothing is sent is asked after half of that time, and then each tenth of it (`SO_KEEPALIVE`).
///
/// # Errors
/// As setsockopt(2).
pub fn set_up(socket: impl AsFd, silence: Duration) -> Result<(), Failure> {
    let socket = socket.as_fd();
    let set =
        |name: &'static str, done: rustix::io::Result<()>| done.map_err(|error| Failure::of("setsockopt", name, error));
    let second = Duration::from_secs(1);
    let limit_ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX).max(1);
    rustix::io::ioctl_fionbio(socket, true).map_err(|error| Failure::of("ioctl", "FIONBIO", error))?;
    set("TCP_NODELAY", sockopt::set_tcp_nodelay(socket, true))?;
    set("SO_KEEPALIVE", sockopt::set_socket_keepalive(socket, true))?;
    set("TCP_KEEPIDLE", sockopt::set_tcp_keepidle(socket, (silence / 2).max(second)))?;
    set("TCP_KEEPINTVL", sockopt::set_tcp_keepintvl(socket, (silence / 10).max(second)))?;
    set("TCP_KEEPCNT", sockopt::set_tcp_keepcnt(socket, 5))?;
    set("TCP_USER_TIMEOUT", sockopt::set_tcp_user_timeout(socket, limit_ms))
}

/// Sleeps until the socket is ready, or for `limit`; whether it is. `None` is without limit.
///
/// Where there is no room and the peer has ended its own direction, nothing is waited for: a peer that does not receive any more,
/// and whose window is closed, would say so only by saying nothing.
///
/// # Errors
/// As poll(2), and `EPIPE` when there will be no room.
pub fn wait(socket: impl AsFd, ready: Ready, limit: Option<Duration>) -> Result<bool, Failure> {
    let flags = match ready {
        Ready::Readable => PollFlags::IN,
        Ready::Writable => PollFlags::OUT | PollFlags::RDHUP,
    };
    let limit = limit.map(|limit| Timespec {
        tv_sec: limit.as_secs().min(i64::MAX as u64) as i64,
        tv_nsec: limit.subsec_nanos().into(),
    });
    let mut sockets = [PollFd::new(&socket, flags)];
    match poll(&mut sockets, limit.as_ref()) {
        Ok(_) if ready == Ready::Writable => match sockets[0].revents() {
            come if come.contains(PollFlags::RDHUP) && !come.contains(PollFlags::OUT) => {
                Err(Failure::of("poll", "the peer has ended the connection", Errno::PIPE))
            }
            come => Ok(!come.is_empty()),
        },
        Ok(count) => Ok(count > 0),
        // Whoever waits looks at its deadline, and waits again.
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(Failure::of("poll", format!("{ready:?}"), error)),
    }
}

/// Whether the peer has ended its direction of a connection, or the connection has failed. Bytes that came before may still be there.
pub fn has_hung_up(socket: impl AsFd) -> bool {
    let mut sockets = [PollFd::new(&socket, PollFlags::RDHUP)];
    match poll(&mut sockets, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(count) => count > 0,
        // Whoever waits asks again.
        Err(Errno::INTR) => false,
        Err(_) => true,
    }
}

/// Bytes that were moved, or that nothing could be moved now.
fn moved(call: &'static str, bytes: usize, done: rustix::io::Result<usize>) -> Result<Option<usize>, Failure> {
    match done {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(Failure::of(call, format!("{bytes} bytes"), error)),
    }
}

/// Sends what there is room for; how many bytes that was.
///
/// # Errors
/// As sendmsg(2), and never a signal.
pub fn send(socket: impl AsFd, pieces: &[IoSlice<'_>]) -> Result<Option<usize>, Failure> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let done = retry_on_intr(|| rustix::net::sendmsg(&socket, pieces, &mut SendAncillaryBuffer::default(), flags));
    moved("sendmsg", pieces.iter().map(|piece| piece.len()).sum(), done)
}

/// Receives what has come, as far as there is place for it; 0 is the end of the stream.
///
/// # Errors
/// As recv(2).
pub fn receive(socket: impl AsFd, into: &mut [u8]) -> Result<Option<usize>, Failure> {
    let bytes = into.len();
    let done = retry_on_intr(|| rustix::net::recv(&socket, &mut *into, RecvFlags::DONTWAIT));
    moved("recv", bytes, done.map(|(count, _)| count))
}

/// Receives what has come into several places, one after the other; 0 is the end of the stream.
///
/// # Errors
/// As readv(2).
pub fn receive_pieces(socket: impl AsFd, into: &mut [IoSliceMut<'_>]) -> Result<Option<usize>, Failure> {
    let bytes = into.iter().map(|piece| piece.len()).sum();
    moved("readv", bytes, retry_on_intr(|| rustix::io::readv(&socket, into)))
}

/// Ends a connection in both directions: whoever waits for it, in any thread, is woken. One that has ended already stays so.
pub fn shut_down(socket: impl AsFd) {
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

/// How bytes get from a file into a socket.
#[derive(Debug, Default)]
pub enum FileRoute {
    /// In one call.
    #[default]
    SendFile,
    /// Through a pipe, for files of which sendfile(2) wants to know nothing.
    Pipe(Pipe),
}

/// A pipe between a file and a socket, and how much lies in it.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    bytes: usize,
}

impl FileRoute {
    /// Sends up to `bytes` of `file`, from `at` on, without copying them into this process; how many were sent, 0 if the file ends
    /// there. Of pages that the file shares with memory the connection keeps a reference for as long as they are in flight: whoever
    /// writes them before the peer has them, changes what the peer gets.
    ///
    /// A peer that has gone is a signal (`SIGPIPE`), unless the process ignores it, as Rust's programs do.
    ///
    /// # Errors
    /// As sendfile(2) and splice(2).
    pub fn send(&mut self, socket: impl AsFd, file: impl AsFd, at: u64, bytes: u64) -> Result<Option<usize>, Failure> {
        let bytes = bytes.min(CALL_BYTES as u64) as usize;
        loop {
            match self {
                FileRoute::SendFile => {
                    let mut from = at;
                    match retry_on_intr(|| rustix::fs::sendfile(&socket, &file, Some(&mut from), bytes)) {
                        Err(Errno::INVAL | Errno::NOSYS) => *self = FileRoute::through_pipe()?,
                        done => return moved("sendfile", bytes, done),
                    }
                }
                FileRoute::Pipe(pipe) => return pipe.send(&socket, &file, at, bytes),
            }
        }
    }

    /// The second way, also where the first works.
    ///
    /// # Errors
    /// As pipe2(2).
    pub fn through_pipe() -> Result<FileRoute, Failure> {
        let pipe = rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
        let (read, write) = pipe.map_err(|error| Failure::of("pipe2", "to splice", error))?;
        // A short one takes more calls.
        let _ = rustix::pipe::fcntl_setpipe_size(&write, 1 << 20);
        Ok(FileRoute::Pipe(Pipe { read, write, bytes: 0 }))
    }
}

impl Pipe {
    /// What lies in the pipe already is what comes at `at`, because no more is taken from the file before all of it was sent.
    fn send(&mut self, socket: impl AsFd, file: impl AsFd, at: u64, bytes: usize) -> Result<Option<usize>, Failure> {
        if self.bytes == 0 {
            let mut from = at;
            let flags = SpliceFlags::MOVE;
            let taken = retry_on_intr(|| rustix::pipe::splice(&file, Some(&mut from), &self.write, None, bytes, flags));
            self.bytes = taken.map_err(|error| Failure::of("splice", format!("{bytes} bytes of a file"), error))?;
            if self.bytes == 0 {
                return Ok(Some(0));
            }
        }
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let done = retry_on_intr(|| rustix::pipe::splice(&self.read, None, &socket, None, self.bytes, flags));
        let sent = moved("splice", self.bytes, done)?;
        self.bytes -= sent.unwrap_or(0);
        Ok(sent)
    }
}

/// Reads of a file at an offset, for whoever sends it another way; fewer bytes than asked for only at its end.
///
/// # Errors
/// As pread(2).
pub fn read_at(file: impl AsFd, into: &mut [u8], at: u64) -> Result<usize, Failure> {
    let mut count = 0;
    while count < into.len() {
        let from = at.saturating_add(count as u64);
        match retry_on_intr(|| rustix::io::pread(&file, &mut into[count..], from)) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) => return Err(Failure::of("pread", format!("at {from}"), error)),
        }
    }
    Ok(count)
}

/// Length of a file, now.
///
/// # Errors
/// As fstat(2).
pub fn file_bytes(file: impl AsFd) -> Result<u64, Failure> {
    let stat = rustix::fs::fstat(file).map_err(|error| Failure::of("fstat", "", error))?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::FileExt;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let two = listener.accept().unwrap().0;
        set_up(&one, Duration::from_secs(60)).unwrap();
        (one, two)
    }

    fn file(bytes: &[u8]) -> File {
        let path = format!("/dev/shm/stillframe-socket-{}-{:p}", std::process::id(), bytes);
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    #[test]
    fn a_file_goes_through_either_route_as_it_is() {
        let bytes: Vec<u8> = (0..5_000_001_u32).map(|number| (number / 7) as u8).collect();
        let file = file(&bytes);
        for mut route in [FileRoute::SendFile, FileRoute::through_pipe().unwrap()] {
            let (sends, mut receives) = pair();
            let reading = std::thread::spawn(move || {
                let mut all = Vec::new();
                receives.read_to_end(&mut all).unwrap();
                all
            });
            let mut at = 1234;
            loop {
                match route.send(&sends, &file, at, bytes.len() as u64 - at).unwrap() {
                    Some(0) => break,
                    Some(count) => at += count as u64,
                    None => while !wait(&sends, Ready::Writable, None).unwrap() {},
                }
            }
            assert_eq!(at, bytes.len() as u64, "the file ends there");
            drop(sends);
            assert!(reading.join().unwrap() == bytes[1234..]);
        }
    }

    #[test]
    fn nothing_blocks_but_a_wait_which_ends() {
        let (one, two) = pair();
        assert_eq!(receive(&one, &mut [0; 10]).unwrap(), None);
        assert!(!wait(&one, Ready::Readable, Some(Duration::from_millis(5))).unwrap());
        assert!(wait(&one, Ready::Writable, Some(Duration::from_secs(60))).unwrap());
        while send(&one, &[IoSlice::new(&[1; 65_536])]).unwrap().is_some() {}
        assert!(!wait(&one, Ready::Writable, Some(Duration::from_millis(5))).unwrap());
        shut_down(&one);
        assert!(wait(&one, Ready::Readable, None).unwrap(), "the end can be read");
        assert_eq!(send(&one, &[IoSlice::new(&[1])]).unwrap_err().errno(), Errno::PIPE.raw_os_error());
        drop(two);
    }

    #[test]
    fn a_silent_peer_is_noticed_after_the_time_that_was_said() {
        let (one, _two) = pair();
        set_up(&one, Duration::from_secs(20)).unwrap();
        assert_eq!(sockopt::tcp_user_timeout(&one).unwrap(), 20_000);
        assert_eq!(sockopt::tcp_keepidle(&one).unwrap(), Duration::from_secs(10));
        assert_eq!(sockopt::tcp_keepintvl(&one).unwrap(), Duration::from_secs(2));
        assert!(sockopt::tcp_nodelay(&one).unwrap() && sockopt::socket_keepalive(&one).unwrap());
    }
}
