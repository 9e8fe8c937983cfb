//! The messages of an ivshmem server to those that connect to it (docs/specs/ivshmem-spec of QEMU): a number of 8 bytes, the lowest
//! first, and with some of them a file. Nobody says anything to the server.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use stillframe_kernel::Failure;
use stillframe_kernel::local;

/// Bytes of a message.
const BYTES: usize = 8;

/// The number of the protocol's version.
pub(super) const VERSION: i64 = 0;
/// What comes with the memory, in the place of somebody's number.
pub(super) const MEMORY: i64 = -1;
/// Numbers of those that are connected are at most this.
pub(super) const ID_MAX: i64 = u16::MAX as i64;

/// Sends a message; `false` if there is no room for it now. As it is shorter than what the kernel divides, it goes whole or not at all.
pub(super) fn send(socket: impl AsFd, number: i64, file: Option<BorrowedFd<'_>>) -> Result<bool, Failure> {
    local::send(socket, &number.to_le_bytes(), file.as_slice())
}

/// What has come of a message.
#[derive(Debug, Default)]
pub(super) struct Reader {
    bytes: [u8; BYTES],
    filled: usize,
    file: Option<File>,
}

/// What a look for a message shows.
#[derive(Debug)]
pub(super) enum Read {
    /// There is none yet.
    Nothing,
    /// There will be none.
    End,
    /// What comes is none.
    Garbage,
    /// One.
    Message(i64, Option<File>),
}

impl Reader {
    /// Takes what has come of a message, and no more.
    pub(super) fn read(&mut self, socket: impl AsFd) -> Result<Read, Failure> {
        while self.filled < BYTES {
            let Some(message) = local::receive(&socket, &mut self.bytes[self.filled..])? else {
                return Ok(Read::Nothing);
            };
            if message.bytes == 0 {
                return Ok(if self.filled == 0 { Read::End } else { Read::Garbage });
            }
            self.filled += message.bytes;
            for file in message.files {
                if self.file.replace(file).is_some() {
                    return Ok(Read::Garbage);
                }
            }
            if message.lacks_files {
                return Ok(Read::Garbage);
            }
        }
        self.filled = 0;
        Ok(Read::Message(i64::from_le_bytes(self.bytes), self.file.take()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn messages_come_as_they_were_sent_also_in_pieces() {
        let (mut one, two) = UnixStream::pair().unwrap();
        let (mut reader, file) = (Reader::default(), File::open("/").unwrap());
        assert!(matches!(reader.read(&two), Ok(Read::Nothing)));
        for (number, file) in [(VERSION, None), (MEMORY, Some(file.as_fd())), (ID_MAX, None)] {
            assert!(send(&one, number, file).unwrap());
        }
        assert!(matches!(reader.read(&two), Ok(Read::Message(VERSION, None))));
        assert!(matches!(reader.read(&two), Ok(Read::Message(MEMORY, Some(_)))));
        assert!(matches!(reader.read(&two), Ok(Read::Message(ID_MAX, None))));
        one.write_all(&[1, 2, 3]).unwrap();
        assert!(matches!(reader.read(&two), Ok(Read::Nothing)));
        one.write_all(&[0; 5]).unwrap();
        assert!(matches!(reader.read(&two), Ok(Read::Message(0x03_0201, None))));
        drop(one);
        assert!(matches!(reader.read(&two), Ok(Read::End)));
    }

    #[test]
    fn half_a_message_and_more_files_than_one_are_none() {
        let (mut one, two) = UnixStream::pair().unwrap();
        let (mut reader, file) = (Reader::default(), File::open("/").unwrap());
        local::send(&one, &[0; 8], &[file.as_fd(), file.as_fd()]).unwrap();
        assert!(matches!(reader.read(&two), Ok(Read::Garbage)));
        let mut reader = Reader::default();
        one.write_all(&[1]).unwrap();
        drop(one);
        assert!(matches!(reader.read(&two), Ok(Read::Garbage)));
    }
}
