//! Connections for streams of bytes that forked children do not have: whoever is at the other end sees the end of one when the process that
//! opened it lets go of it, whether or not that has children.

use crate::Failure;
use crate::fork::Unforked;
use crate::local::{self, Kind};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, RecvFlags, SendFlags, Shutdown};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A connection to whoever listens for streams on this machine. Reads and writes wait, unless told otherwise.
#[derive(Debug)]
pub struct Stream {
    socket: Unforked,
}

impl Stream {
    /// Connects to whoever listens at a path, or gives up at `deadline`.
    ///
    /// # Errors
    /// As [`local::connect_as`].
    pub fn connect(path: &Path, deadline: Instant) -> Result<Stream, Failure> {
        // A fork waits until there is a socket, but for nobody who listens.
        let stream = Stream { socket: Unforked::open(|| local::socket(Kind::Stream).map(File::from))? };
        let failed = |call| move |source| Failure { call, detail: path.display().to_string(), source };
        local::connect_socket(stream.file().map_err(failed("connect"))?, path, deadline)?;
        stream.set_nonblocking(false).map_err(failed("ioctl"))?;
        Ok(stream)
    }

    /// The socket.
    ///
    /// # Errors
    /// `NotConnected` in a forked child.
    pub fn file(&self) -> io::Result<&File> {
        self.socket.get().ok_or_else(|| io::Error::new(ErrorKind::NotConnected, "it was opened before fork"))
    }

    /// Whether reads and writes fail with `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// As ioctl(2); as [`file`](Stream::file).
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(self.file()?, is_nonblocking)?)
    }

    /// Lets whoever is at the other end read that nothing more comes. What it still writes can be read, and its end.
    ///
    /// # Errors
    /// As shutdown(2); as [`file`](Stream::file).
    pub fn end_writing(&self) -> io::Result<()> {
        Ok(net::shutdown(self.file()?, Shutdown::Write)?)
    }

    /// How long a read waits; for ever without a limit.
    ///
    /// # Errors
    /// As setsockopt(2), and of a limit of zero; as [`file`](Stream::file).
    pub fn set_read_timeout(&self, longest: Option<Duration>) -> io::Result<()> {
        Ok(set_socket_timeout(self.file()?, Timeout::Recv, longest)?)
    }

    /// How long a write waits; for ever without a limit.
    ///
    /// # Errors
    /// As [`set_read_timeout`](Stream::set_read_timeout).
    pub fn set_write_timeout(&self, longest: Option<Duration>) -> io::Result<()> {
        Ok(set_socket_timeout(self.file()?, Timeout::Send, longest)?)
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (_, bytes) = net::recv(self.file()?, into, RecvFlags::empty())?;
        Ok(bytes)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(net::send(self.file()?, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // A child that is about to start another program has the socket, too, until it does.
        if let Ok(file) = self.file() {
            let _ = net::shutdown(file, Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_child_has_no_stream_of_its_parent_and_ends_none() {
        let path = std::env::temp_dir().join(format!("stillframe-stream-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let mut stream = Stream::connect(&path, Instant::now() + Duration::from_secs(60)).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        std::fs::remove_file(&path).unwrap();
        let descriptor = stream.file().unwrap().as_raw_fd();
        // SAFETY: the child looks at what it has, and ends without running what belongs to the parent.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the call only asks.
            let is_open = unsafe { libc::fcntl(descriptor, libc::F_GETFD) } >= 0;
            let is_used = stream.read(&mut [0]).is_ok() || stream.write(&[0]).is_ok();
            drop(stream);
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(is_open || is_used)) };
        }
        let mut status = 0;
        // SAFETY: the pointer is to a live number, and the child is one of this process.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        let mut bytes = [0; 4];
        stream.write_all(b"word").unwrap();
        other.read_exact(&mut bytes).unwrap();
        other.write_all(&bytes).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"word");
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(stream.read(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(stream);
        assert_eq!(other.read(&mut bytes).unwrap(), 0);
    }

    #[test]
    fn who_has_ended_writing_reads_what_the_other_end_still_writes() {
        let path = std::env::temp_dir().join(format!("stillframe-stream-{}-half", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let mut stream = Stream::connect(&path, Instant::now() + Duration::from_secs(60)).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        std::fs::remove_file(&path).unwrap();
        stream.write_all(b"last").unwrap();
        stream.end_writing().unwrap();
        let mut all = Vec::new();
        other.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"last");
        other.write_all(b"word").unwrap();
        drop(other);
        all.clear();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"word");
    }

    #[test]
    fn a_stream_that_is_let_go_of_ends_also_where_somebody_else_has_its_socket() {
        let path = std::env::temp_dir().join(format!("stillframe-stream-{}-copy", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let mut stream = Stream::connect(&path, Instant::now() + Duration::from_secs(60)).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        std::fs::remove_file(&path).unwrap();
        let _copy = stream.file().unwrap().try_clone().unwrap();
        stream.write_all(b"last").unwrap();
        drop(stream);
        let mut all = Vec::new();
        other.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"last");
    }
}
