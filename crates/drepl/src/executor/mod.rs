//! Executes transfers: moves bytes between buffers, memory or files.
//!
//! Nothing is moved before all lengths are known to suffice, and bytes of the destination that no move names are never
//! written, not even with the value they have: others may be writing them.

mod batch;
mod file;
mod memory;
mod reach;
mod thread;

use std::{fs::File, io, path::Path, path::PathBuf};

use smallvec::SmallVec;

use self::memory::{Readable, Writable, run_divided};
use crate::transfer::{Side, Transfer};

/// Executes transfers, on a number of threads and with a bound on the memory that files are staged in.
#[derive(Debug, Clone)]
pub struct Executor {
    threads: usize,
    staging_bytes: usize,
}

/// What bytes are taken from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// A buffer.
    Memory(&'a [u8]),
    /// A buffer's bytes in a file.
    File(FileRange<'a>),
}

/// Where bytes go.
#[derive(Debug)]
pub enum Destination<'a> {
    /// A buffer.
    Memory(&'a mut [u8]),
    /// A buffer's bytes in a file.
    File(FileRange<'a>),
}

/// Bytes of a file that are the buffer of a fragment. They are read and written with `pread` and `pwrite`; the file's
/// position stays where it is.
#[derive(Debug, Clone, Copy)]
pub struct FileRange<'a> {
    /// The file, open for what is to be done.
    pub file: &'a File,
    /// What errors call the file.
    pub path: &'a Path,
    /// Where in the file the buffer begins.
    pub offset: u64,
    /// How long the buffer is. The file has to be at least as long; a destination is not extended.
    pub bytes: u64,
}

/// Why a transfer was not executed, or not to its end. Lengths are compared before the first byte is moved; after any
/// other error the destination holds some of what was to be moved, and nothing beside it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// A source that is shorter than what is read of it.
    #[error(
        "source {position} has {bytes} bytes, and the transfer reads up to byte {needed_bytes}: \
         pass the buffer whose layout the transfer was planned from"
    )]
    SourceLength {
        /// Which of the sources.
        position: usize,
        /// Its length.
        bytes: u64,
        /// The length that the transfer needs.
        needed_bytes: u64,
    },
    /// A destination that is shorter than what is written of it.
    #[error(
        "the destination has {bytes} bytes, and the transfer writes up to byte {needed_bytes}: \
         pass the buffer whose layout the transfer was planned for"
    )]
    DestinationLength {
        /// Its length.
        bytes: u64,
        /// The length that the transfer needs.
        needed_bytes: u64,
    },
    /// A file that ends before its buffer does.
    #[error(
        "{}: the file has {file_bytes} bytes, and the {side} is bytes {offset} to {end} of it: {}",
        path.display(), length_help(*side)
    )]
    FileLength {
        /// What the caller calls the file.
        path: PathBuf,
        /// What it was to be.
        side: Side,
        /// Its length.
        file_bytes: u64,
        /// Where the buffer begins in it.
        offset: u64,
        /// Where the buffer ends.
        end: u64,
    },
    /// A file that became shorter while it was read.
    #[error(
        "{}: pread at byte {offset}: the file ended while {missing_bytes} more bytes were to be read: \
         another process shortened it meanwhile; restore the file and repeat",
        path.display()
    )]
    ShortRead {
        /// What the caller calls the file.
        path: PathBuf,
        /// Where it ended.
        offset: u64,
        /// What was still to be read.
        missing_bytes: u64,
    },
    /// A destination that lies among bytes of the same file that are read: they could be written before they are read.
    #[error(
        "{}: bytes {begin} to {end} of it are to be read as well as written: \
         use another file, another place of this one, or a buffer in memory between them",
        path.display()
    )]
    SameFile {
        /// What the caller calls the file.
        path: PathBuf,
        /// The first byte of the file that lies between those that are read, and those that are written.
        begin: u64,
        /// Where these end.
        end: u64,
    },
    /// A call on a file that failed; `source` has the `errno`.
    #[error("{}: {call} at byte {offset}, {bytes} bytes: {source}{}", path.display(), file_help(call, source))]
    File {
        /// What the caller calls the file.
        path: PathBuf,
        /// Name of the call, as in its manual page.
        call: &'static str,
        /// Where in the file.
        offset: u64,
        /// How much.
        bytes: u64,
        /// The error it reported.
        source: io::Error,
    },
    /// No memory for windows of files.
    #[error("{bytes} bytes to stage a file in cannot be had: allow fewer, or free some memory")]
    Staging {
        /// What was asked for.
        bytes: usize,
    },
    /// A fault of this crate.
    #[error("a move left the buffers after it was checked; this is a fault of drepl, please report it")]
    Inconsistent,
}

fn length_help(side: Side) -> &'static str {
    match side {
        Side::Source => "it is another file, or was not written to its end",
        Side::Destination => "extend it first (File::set_len, truncate)",
    }
}

fn file_help(call: &str, error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => "; make room on its file system and repeat",
        Some(libc::EDQUOT) => "; its owner's quota is used up: make room and repeat",
        Some(libc::EFBIG) => "; raise the limit on the size of files (ulimit -f) or use another file system",
        Some(libc::EBADF) if call == "pwrite" => "; open the file for writing",
        Some(libc::EBADF) => "; open the file for reading",
        Some(libc::EISDIR) => "; pass a file",
        Some(libc::ESPIPE) => "; pass a file, not a pipe or socket",
        Some(libc::EIO) => "; the device failed: see the kernel's log, and use another one",
        _ => "",
    }
}

impl Executor {
    /// An executor of `threads` threads, the caller's among them; 0 is one for each processor that there is when
    /// a process first moves so much that it matters. More than one are started
    /// where there is enough to move.
    pub fn new(threads: usize) -> Executor {
        Executor { threads, staging_bytes: 8 << 20 }
    }

    /// Memory that bytes of files may take on their way, in bytes; 8 MiB unless told, and at least 64 KiB.
    pub fn staging_bytes(self, staging_bytes: usize) -> Executor {
        Executor { staging_bytes: staging_bytes.max(64 << 10), ..self }
    }

    /// Moves what `transfer` says from `source` into `destination`.
    ///
    /// ```
    /// # use drepl::{executor::Executor, transfer::{Axis, Move, Transfer}};
    /// // Every second byte, in the opposite order.
    /// let axis = Axis { count: 3, from_bytes: 2, to_bytes: -1 };
    /// let all = Move { from: 0, to: 2, run_bytes: 1, swap_bytes: 1, axes: [axis].into_iter().collect() };
    /// let mut destination = [0; 3];
    /// Executor::new(1).run(&Transfer::new(vec![all])?, b"a-b-c", &mut destination)?;
    /// assert_eq!(&destination, b"cba");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(&self, transfer: &Transfer, source: &[u8], destination: &mut [u8]) -> Result<(), ExecuteError> {
        self.run_all(&[(transfer, source)], destination)
    }

    /// Moves what several transfers say, each from its own source, into one destination. A byte that two of them write
    /// has the value of either.
    pub fn run_all(&self, transfers: &[(&Transfer, &[u8])], destination: &mut [u8]) -> Result<(), ExecuteError> {
        for (position, (transfer, source)) in transfers.iter().enumerate() {
            check_source(position, transfer, source.len() as u64)?;
            check_destination(transfer, destination.len() as u64)?;
        }
        let work: SmallVec<[_; 4]> =
            transfers.iter().map(|(transfer, source)| (transfer.schedule(), Readable::new(source))).collect();
        run_divided(self.threads, &work, Writable::new(destination))
    }

    /// As [`run_all`](Self::run_all), where each side may be a file.
    pub fn run_stored(
        &self,
        transfers: &[(&Transfer, Source<'_>)],
        destination: Destination<'_>,
    ) -> Result<(), ExecuteError> {
        self.run_stored_watched(transfers, destination, &mut |_| ())
    }

    /// As [`run_stored`](Self::run_stored); says from time to time before which byte of a file everything is written.
    pub fn run_stored_watched(
        &self,
        transfers: &[(&Transfer, Source<'_>)],
        destination: Destination<'_>,
        watch: &mut dyn FnMut(u64),
    ) -> Result<(), ExecuteError> {
        let destination_bytes = match &destination {
            Destination::Memory(bytes) => bytes.len() as u64,
            Destination::File(range) => range.checked_bytes(Side::Destination)?,
        };
        for (position, (transfer, source)) in transfers.iter().enumerate() {
            let source_bytes = match source {
                Source::Memory(bytes) => bytes.len() as u64,
                Source::File(range) => range.checked_bytes(Side::Source)?,
            };
            check_source(position, transfer, source_bytes)?;
            check_destination(transfer, destination_bytes)?;
        }
        match destination {
            Destination::Memory(bytes) => file::into_memory(self, transfers, bytes),
            Destination::File(range) => {
                file::check_apart(transfers, &range)?;
                file::into_file(self, transfers, range, watch)
            }
        }
    }

    fn threads(&self) -> usize {
        self.threads
    }
}

fn check_source(position: usize, transfer: &Transfer, bytes: u64) -> Result<(), ExecuteError> {
    let needed_bytes = transfer.source_bytes();
    if bytes < needed_bytes {
        return Err(ExecuteError::SourceLength { position, bytes, needed_bytes });
    }
    Ok(())
}

fn check_destination(transfer: &Transfer, bytes: u64) -> Result<(), ExecuteError> {
    let needed_bytes = transfer.destination_bytes();
    if bytes < needed_bytes {
        return Err(ExecuteError::DestinationLength { bytes, needed_bytes });
    }
    Ok(())
}
