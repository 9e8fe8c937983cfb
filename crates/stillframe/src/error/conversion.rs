//! Errors of what the library calls, as its own.

use super::{Error, text};
use crate::place::names;
use std::path::Path;
use stillframe_kernel::trust::{NoTrust, Refused};
use stillframe_kernel::{Failure, space};
use stillframe_segment::PAGE_BYTES;

impl From<NoTrust> for Error {
    fn from(error: NoTrust) -> Error {
        Error::BadOption { option: "trust", why: error.to_string() }
    }
}

impl Error {
    /// The error of a system call about `path`, with the causes told apart that a user can do something about.
    pub fn system(path: &Path, failure: Failure) -> Error {
        let path = path.to_path_buf();
        match failure.errno() {
            libc::EMFILE | libc::ENFILE => Error::NoFiles { path, failure },
            libc::ENOMEM if failure.call == "mmap" || failure.call == "mremap" => Error::NoMappings { failure },
            libc::EACCES | libc::EPERM if failure.call == "open" => Error::Denied { path },
            libc::ENOSPC => Error::no_space(&path, PAGE_BYTES as u64),
            _ => Error::System { path, failure },
        }
    }

    /// A producer of this process number has the region.
    pub(crate) fn in_use(region: impl Into<String>, pid: u32) -> Error {
        Error::InUse { region: region.into(), pid, rank: None }
    }

    /// The same error, telling which rank of its program this process is for its MPI launcher if it is that the region is in use, and
    /// was asked for as that of another rank, or of none; or that it is the name of a group whose other ranks said which they are.
    pub(crate) fn of_rank(mut self, asked: Option<(u32, u32)>, launched: Option<(u32, u32)>) -> Error {
        let told = launched.filter(|(own, _)| asked.is_none_or(|(asked, _)| asked != *own));
        match &mut self {
            Error::InUse { rank, .. } => *rank = told,
            Error::BadName { name, why, .. } if asked.is_none() && *why == names::ABOVE_RANKS => {
                if let Some(told) = told {
                    *why = text::is_forgotten(name, told).into();
                }
            }
            _ => {}
        }
        self
    }

    /// Whether there is no room for a version, which may change when observers let go.
    pub(crate) fn is_want_of_room(&self) -> bool {
        matches!(self, Error::NoSpace { .. } | Error::Bound { .. } | Error::NoSlot { .. } | Error::ArenaFull { .. })
    }

    /// The file system of `path` does not have this many bytes.
    pub(crate) fn no_space(path: &Path, needed_bytes: u64) -> Error {
        let (free_bytes, lacks_inodes) = room(path);
        Error::NoSpace { path: path.to_path_buf(), needed_bytes, free_bytes, lacks_inodes }
    }

    /// The same error, telling how many bytes were needed if it is that there is no space for them.
    pub fn needing(self, bytes: u64) -> Error {
        match self {
            Error::NoSpace { path, free_bytes, lacks_inodes, .. } => {
                Error::NoSpace { path, free_bytes, needed_bytes: bytes, lacks_inodes }
            }
            other => other,
        }
    }

    /// The same error, telling in which other enclaves versions are held if it is that they are in the way.
    pub(crate) fn held_in(mut self, names: impl FnOnce() -> Vec<String>) -> Error {
        if let Error::Bound { held: 1.., enclaves, .. } | Error::NoSlot { held: 1.., enclaves, .. } = &mut self {
            *enclaves = names();
        }
        self
    }

    /// There is no memory for this many bytes of what is at `path`.
    pub(crate) fn no_memory(path: &Path, bytes: usize) -> Error {
        Error::system(path, Failure::no_memory(bytes))
    }

    /// Why what is at `path` was not opened.
    pub(crate) fn refused(path: &Path, refused: Refused) -> Error {
        match refused {
            Refused::System(error) => Error::io("open", path, error),
            Refused::Distrust(distrust) => Error::Untrusted { path: path.into(), distrust },
        }
    }

    /// The error of a standard library call about `path`.
    pub(crate) fn io(call: &'static str, path: &Path, source: std::io::Error) -> Error {
        Error::system(path, Failure { call, detail: String::new(), source })
    }
}

/// Free bytes of the file system of `path`, if it says so, and whether it has no inode left.
fn room(path: &Path) -> (Option<u64>, bool) {
    let dir = path.ancestors().find(|path| path.is_dir());
    let Some(Ok(dir)) = dir.map(std::fs::File::open) else { return (None, false) };
    (space::free_bytes(&dir), space::lacks_inodes(&dir))
}

/// What is said of a file system that is full: of bytes, or of files where it has as many bytes as are needed.
pub(super) fn no_space_text(path: &Path, needed_bytes: u64, free_bytes: Option<u64>, lacks_inodes: bool) -> String {
    let path = path.display();
    // What is free and would do was taken or promised to somebody else.
    let too_few_bytes = free_bytes.filter(|free_bytes| *free_bytes < needed_bytes);
    if lacks_inodes && too_few_bytes.is_none() {
        return format!(
            "the file system of {path} has no inode free, and this needs one for a file: remove files there, give it more \
             (mount -o remount,nr_inodes=…), or choose another directory"
        );
    }
    let lack = match too_few_bytes {
        Some(free_bytes) => format!("has {free_bytes} bytes free and this needs {needed_bytes} more"),
        None => format!("has no room for the {needed_bytes} bytes that this needs"),
    };
    format!(
        "the file system of {path} {lack}: free some, make it larger (mount -o remount,size=…), let go of old snapshots, keep \
         fewer versions, or choose another directory"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_be_free_is_known_and_too_little() {
        let text = |free_bytes, lacks_inodes| no_space_text(Path::new("/dev/shm/d"), 8192, free_bytes, lacks_inodes);
        assert!(text(Some(4096), false).contains("/dev/shm/d has 4096 bytes free and this needs 8192 more"));
        assert!(text(Some(4096), true).contains("4096 bytes free"));
        for free_bytes in [None, Some(54 << 20)] {
            let told = text(free_bytes, false);
            assert!(told.contains("no room for the 8192 bytes") && !told.contains("bytes free"), "{told}");
            assert!(text(free_bytes, true).contains("no inode free"));
        }
    }
}

#[cfg(test)]
mod rank_tests {
    use super::*;

    #[test]
    fn a_rank_that_forgets_its_number_among_others_that_say_theirs_is_told() {
        let told = names::above_ranks("heat").of_rank(None, Some((2, 4))).to_string();
        for words in [
            "'heat'",
            "this process is rank 2 of 4",
            "rank=2, ranks=4",
            "stillframe_begin(name, 2, 4)",
            "'still rm heat'",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        // Who is alone, or said it, meant the name.
        for error in [
            names::above_ranks("heat").of_rank(None, None),
            names::above_ranks("heat").of_rank(Some((2, 4)), Some((2, 4))),
        ] {
            assert!(error.to_string().contains(names::ABOVE_RANKS), "{error}");
        }
        // What lies below may be no rank's.
        let error = names::above_others("heat").of_rank(None, Some((2, 4)));
        assert!(error.to_string().contains(names::ABOVE_OTHERS), "{error}");
    }

    #[test]
    fn a_rank_that_says_its_number_is_told_that_another_did_not() {
        let told = names::inside("runs/heat/2", "runs/heat").to_string();
        for words in ["a rank of the group 'runs/heat'", "did not say which rank it is", "'still rm runs/heat'"] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert!(names::inside("runs/heat/2", "runs").to_string().contains("lies inside another region"));
        assert!(names::inside("runs/heat", "runs").to_string().contains("lies inside another region"));
    }
}
