//! Why calls fail.

use crate::areas::Unsharable;
use std::fmt;
use std::path::PathBuf;
use stillframe::Error;
use stillframe_kernel::Failure;
use stillframe_kernel::trust::{Distrust, Refused};

/// Why a call fails.
#[derive(Debug)]
pub enum Problem {
    /// An argument that cannot be.
    Argument { name: &'static str, why: String },
    /// All memory of the process was to be shared.
    Everything,
    /// Memory that cannot be shared.
    Unsharable { start: usize, end: usize, why: Unsharable },
    /// A range that has a part of a backed region, and more.
    NotBacked { start: usize, bytes: usize },
    /// A backed region of which nothing was copied yet.
    NotCopied { start: usize },
    /// No copy of this process has the number.
    NoCopy { id: u32 },
    /// The process has no backed region.
    NothingBacked,
    /// Nobody has a segment of this number, or its maker is dead.
    NoSegment { segid: i64 },
    /// No segment has this name.
    NoName { name: String },
    /// The segment is another process's.
    NotMade { segid: i64 },
    /// The process was not granted this.
    NoAccess { apid: i64 },
    /// Bytes that a segment does not have.
    Beyond { offset: i64, bytes: usize, segment_bytes: u64 },
    /// No attachment has this address.
    NoAttachment { address: usize },
    /// Something is there that an attachment must not replace.
    Occupied { address: usize, by: &'static str },
    /// What is in the directory of regions is not as this library writes it.
    Damaged { path: PathBuf, why: String },
    /// Somebody's directory or file, who is not believed.
    Distrusted { path: PathBuf, distrust: Distrust },
    /// A call for a file failed.
    File { call: &'static str, path: PathBuf, source: std::io::Error },
    /// Another call failed.
    System(Failure),
    /// The engine says so.
    Engine(Box<Error>),
    /// A defect of this library.
    Panic(String),
}

impl Problem {
    pub fn argument(name: &'static str, why: impl fmt::Display) -> Problem {
        Problem::Argument { name, why: why.to_string() }
    }

    pub fn file(call: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Problem {
        Problem::File { call, path: path.into(), source }
    }

    pub fn refused(path: impl Into<PathBuf>, refused: Refused) -> Problem {
        let path = path.into();
        match refused {
            Refused::Distrust(distrust) => Problem::Distrusted { path, distrust },
            Refused::System(source) => Problem::File { call: "open", path, source },
        }
    }

    /// Whether a file is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Problem::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }

    /// What goes into `errno`.
    pub fn errno(&self) -> i32 {
        match self {
            Problem::Argument { .. }
            | Problem::Everything
            | Problem::Unsharable { .. }
            | Problem::NotBacked { .. }
            | Problem::NotCopied { .. }
            | Problem::NoCopy { .. }
            | Problem::NothingBacked
            | Problem::Beyond { .. }
            | Problem::NoAttachment { .. } => libc::EINVAL,
            Problem::NoSegment { .. } | Problem::NoName { .. } | Problem::NoAccess { .. } => libc::ENOENT,
            Problem::NotMade { .. } | Problem::Distrusted { .. } => libc::EACCES,
            Problem::Occupied { .. } => libc::ENOMEM,
            Problem::Damaged { .. } | Problem::Panic(_) => libc::EIO,
            Problem::File { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            Problem::System(failure) => failure.source.raw_os_error().unwrap_or(libc::EIO),
            Problem::Engine(error) => errno_of(error),
        }
    }
}

fn errno_of(error: &Error) -> i32 {
    match error {
        Error::InUse { .. } => libc::EBUSY,
        Error::NoSpace { .. } | Error::Bound { .. } | Error::NoSlot { .. } | Error::ArenaFull { .. } => libc::ENOSPC,
        Error::Denied { .. } | Error::Untrusted { .. } => libc::EACCES,
        Error::NoRegion { .. } | Error::NoVersion { .. } | Error::VersionGone { .. } => libc::ENOENT,
        Error::NoFiles { .. } => libc::EMFILE,
        Error::NoMappings { .. } => libc::ENOMEM,
        Error::NotMapped { .. } => libc::EFAULT,
        Error::System { failure, .. } => failure.source.raw_os_error().unwrap_or(libc::EIO),
        Error::NoTracker { .. } | Error::ForeignPages { .. } => libc::ENOSYS,
        Error::Corrupt { .. } => libc::EIO,
        _ => libc::EINVAL,
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem::Engine(Box::new(error))
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        Problem::System(failure)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Argument { name, why } => write!(f, "argument {name}: {why}"),
            Problem::Everything => write!(
                f,
                "all memory of a process cannot be shared without a kernel module: share the ranges that others need, each by \
                 a call"
            ),
            Problem::Unsharable { start, end, why } => write!(f, "the memory from {start:#x} to {end:#x} {why}"),
            Problem::NotBacked { start, bytes } => write!(
                f,
                "of the {bytes} bytes at {start:#x} some are a backed region's and some are not: export what lies in one region"
            ),
            Problem::NotCopied { start } => {
                write!(f, "nothing of the backed region at {start:#x} can be exported yet: call aspace_copy first")
            }
            Problem::NoCopy { id } => write!(f, "this process has no copy {id}: aspace_copy gives their numbers"),
            Problem::NothingBacked => {
                write!(
                    f,
                    "this process has no backed region that could be copied: map one with arena_map_backed_region"
                )
            }
            Problem::NoSegment { segid } => {
                write!(
                    f,
                    "there is no segment {segid:#x} in this directory of regions ({}); it was removed, or its maker has ended",
                    root()
                )
            }
            Problem::NoName { name } => {
                write!(f, "there is no segment '{name}' in this directory of regions ({})", root())
            }
            Problem::NotMade { segid } => {
                write!(f, "segment {segid:#x} is another process's, which alone can remove it")
            }
            Problem::NoAccess { apid } => {
                write!(f, "this process was not granted {apid}, or has released it: xpmem_get gives these numbers")
            }
            Problem::Beyond { offset, bytes, segment_bytes } => {
                write!(f, "{bytes} bytes at {offset} of a segment that has {segment_bytes}")
            }
            Problem::NoAttachment { address } => write!(f, "nothing is attached at {address:#x}"),
            Problem::Occupied { address, by } => write!(f, "{address:#x} is an address of {by}"),
            Problem::Damaged { path, why } => write!(f, "{} is damaged: {why}", path.display()),
            Problem::Distrusted { path, distrust } => write!(f, "{} {distrust}", path.display()),
            Problem::File { call, path, source } => write!(f, "{call} {}: {source}", path.display()),
            Problem::System(failure) => write!(f, "{failure}"),
            Problem::Engine(error) => write!(f, "{error}"),
            Problem::Panic(text) => write!(f, "a defect of Stillframe, please report it: {text}"),
        }
    }
}

fn root() -> String {
    crate::directory::path().display().to_string()
}
