//! Copying memory of the process through a pipe, in which the kernel puts references to pages (vmsplice(2)) and copies them once, to
//! where they are read.
//!
//! Whoever copies for the idle may wait for a processor for seconds, whatever it holds. process_vm_readv(2) holds the
//! process's mmap lock while it takes references, some pages at a time, and is mostly interrupted there: meanwhile nobody maps
//! or frees memory. With three busy threads on two processors an mmap took 0.5 s to 2.8 s beside such a copy in most runs of a
//! second, with pieces of one page and of 64, and with nice 19 in the place of the class for the idle, too; and at most 48 ms
//! beside this one, and 32 ms without any. vmsplice takes references to pages that are present without the lock, and
//! read(2) enters what is missing under the lock of one mapping.
//!
//! # Safety
//!
//! What is put into the pipe is read from it at once, all of it, to where it belongs. After an error in between, the pipe is
//! not used any more. Who calls vouches for the targets.

use crate::copy::Piece;
use crate::{Failure, PAGE_BYTES};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Pieces that one call copies at most, of which a thread has room for a list.
const CALL_PIECES: usize = 64;

/// Pages in the pipe at most; as many as the system lets it have, if that are fewer.
const PIPE_PAGES: usize = 64;

/// A pipe that nothing is in.
#[derive(Debug)]
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    is_broken: bool,
}

/// Parts of memory, and which of them is next.
struct Parts {
    list: [libc::iovec; CALL_PIECES],
    begin: usize,
    end: usize,
}

impl Parts {
    fn new(pieces: &[Piece], address: impl Fn(&Piece) -> usize) -> Parts {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut list = [none; CALL_PIECES];
        for (part, piece) in list.iter_mut().zip(pieces) {
            *part = libc::iovec { iov_base: address(piece) as *mut libc::c_void, iov_len: piece.bytes };
        }
        Parts { list, begin: 0, end: pieces.len().min(CALL_PIECES) }
    }

    fn left(&self) -> &[libc::iovec] {
        &self.list[self.begin..self.end]
    }

    /// Leaves out bytes at the begin.
    fn skip(&mut self, mut bytes: usize) {
        while let Some(part) = self.list[self.begin..self.end].first_mut() {
            if bytes < part.iov_len {
                part.iov_base = part.iov_base.wrapping_byte_add(bytes);
                part.iov_len -= bytes;
                break;
            }
            bytes -= part.iov_len;
            self.begin += 1;
        }
    }
}

impl Pipe {
    pub(super) fn new() -> Result<Pipe, Failure> {
        let mut ends = [-1; 2];
        // SAFETY: the call writes two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return Err(Failure::last("pipe2", "to copy"));
        }
        // SAFETY: the call made them, and nobody else has them.
        let [read, write] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        // A short one takes more calls.
        // SAFETY: the call takes numbers.
        unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, (PIPE_PAGES * PAGE_BYTES) as libc::c_int) };
        Ok(Pipe { read, write, is_broken: false })
    }

    /// Has the kernel copy; `false` if it did not copy all.
    ///
    /// # Safety
    /// The targets may be written.
    pub(super) unsafe fn copy(&mut self, pieces: &[Piece]) -> bool {
        // SAFETY: as the caller vouches.
        pieces.chunks(CALL_PIECES).all(|pieces| unsafe { self.copy_some(pieces) })
    }

    /// # Safety
    /// As [`copy`](Pipe::copy).
    unsafe fn copy_some(&mut self, pieces: &[Piece]) -> bool {
        let mut from = Parts::new(pieces, |piece| piece.from);
        let mut to = Parts::new(pieces, |piece| piece.to);
        while !self.is_broken && !from.left().is_empty() {
            let (parts, flags) = (from.left(), libc::SPLICE_F_NONBLOCK);
            // SAFETY: the list lives until the call returns, and the kernel checks what it points to. Without SPLICE_F_GIFT the
            // pages stay the process's.
            let put = unsafe { libc::vmsplice(self.write.as_raw_fd(), parts.as_ptr(), parts.len(), flags) };
            let Ok(put @ 1..) = usize::try_from(put) else { return false };
            from.skip(put);
            let mut left = put;
            while left > 0 {
                let parts = to.left();
                // SAFETY: the list lives until the call returns, and the caller vouched for what it points to.
                let got = unsafe { libc::readv(self.read.as_raw_fd(), parts.as_ptr(), parts.len() as libc::c_int) };
                let Ok(got @ 1..) = usize::try_from(got) else {
                    self.is_broken = true;
                    return false;
                };
                to.skip(got);
                left = left.saturating_sub(got);
            }
        }
        !self.is_broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Mapping;

    #[test]
    fn parts_of_pages_and_many_of_them_are_copied_also_through_a_short_pipe() {
        const BYTES: usize = 300 * PAGE_BYTES;
        let (from, to) = (Mapping::private(BYTES, false).unwrap(), Mapping::private(BYTES, false).unwrap());
        let content: Vec<u8> = (0..BYTES).map(|at| ((at / 7) ^ (at >> 12)) as u8).collect();
        from.write(0, &content);
        for (pipe_pages, steps) in
            [(64, [4096; 3]), (1, [4096, 1, 70_000]), (16, [13, 9000, 300_000]), (64, [7, 5000, 1])]
        {
            let mut pipe = Pipe::new().unwrap();
            // SAFETY: the call takes numbers.
            unsafe { libc::fcntl(pipe.write.as_raw_fd(), libc::F_SETPIPE_SZ, pipe_pages * PAGE_BYTES as libc::c_int) };
            let (mut pieces, mut at) = (Vec::new(), 0);
            while at < BYTES {
                let bytes = steps[pieces.len() % steps.len()].min(BYTES - at);
                pieces.push(Piece { from: from.address() + at, to: to.address() + at, bytes });
                at += bytes;
            }
            to.write(0, &vec![0; BYTES]);
            // SAFETY: the targets are the test's own.
            assert!(unsafe { pipe.copy(&pieces) });
            let mut found = vec![0; BYTES];
            to.read(0, &mut found);
            assert!(found == content, "{pipe_pages} pages, {steps:?}");
        }
    }

    #[test]
    fn memory_that_may_not_be_read_in_the_middle_leaves_nothing_in_the_pipe() {
        let pages = 10 * PAGE_BYTES;
        let (from, to) = (Mapping::private(pages, false).unwrap(), Mapping::private(pages, false).unwrap());
        from.write(0, &vec![1; pages]);
        let hole = from.address() + 5 * PAGE_BYTES;
        // SAFETY: the page is the test's own.
        assert_eq!(unsafe { libc::mprotect(hole as *mut libc::c_void, PAGE_BYTES, libc::PROT_NONE) }, 0);
        let mut pipe = Pipe::new().unwrap();
        // SAFETY: the targets are the test's own.
        assert!(!unsafe { pipe.copy(&[Piece { from: from.address(), to: to.address(), bytes: pages }]) });
        let two = Piece { from: from.address(), to: to.address() + 8 * PAGE_BYTES, bytes: 2 * PAGE_BYTES };
        from.write(0, &[2; 2 * PAGE_BYTES]);
        // SAFETY: as above.
        assert!(unsafe { pipe.copy(&[two]) });
        let mut found = [0; 2 * PAGE_BYTES];
        to.read(8 * PAGE_BYTES, &mut found);
        assert_eq!(found, [2; 2 * PAGE_BYTES]);
    }
}
