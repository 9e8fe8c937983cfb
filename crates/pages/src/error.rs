//! What can go wrong with pools, and what to do about it.

use crate::page::Page;
use std::io;
use std::path::{Path, PathBuf};

/// A result whose error is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong. Each text says what happened, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This is no name of a pool.
    #[error("'{name}' is no name of a pool: it has 1 to 64 letters, digits, - and _")]
    Name {
        /// What was given.
        name: String,
    },
    /// There is such a pool already.
    #[error("there is a pool '{name}' already, at {}: give it back first, or choose another name", path.display())]
    Exists {
        /// Its name.
        name: String,
        /// Where it is mounted.
        path: PathBuf,
    },
    /// There is no such pool.
    #[error(
        "there is no pool '{name}'; there are: {}; `still pages reserve SIZE` makes one",
        if found.is_empty() { "none".into() } else { found.join(", ") }
    )]
    NoPool {
        /// What was asked for.
        name: String,
        /// Those that there are.
        found: Vec<String>,
    },
    /// The kernel or the processor has no pages of this size.
    #[error("this machine has no pages of {page}: {} is not there", path.display())]
    NoSuchPage {
        /// The size.
        page: Page,
        /// What was looked for.
        path: PathBuf,
    },
    /// Memory lies too scattered, or is used.
    #[error(
        "only {found} of {wanted} pages of {page} could be gathered: memory is used, or lies scattered; reserve them sooner after \
         the machine was started, or fewer"
    )]
    TooFew {
        /// The size.
        page: Page,
        /// How many were wanted.
        wanted: u64,
        /// How many there were.
        found: u64,
    },
    /// The kernel refuses pages that it has promised.
    #[error(
        "the pages of {page} of pool '{name}' are there, but the kernel gives this process too few to fill them: a cgroup of it bounds \
         them (hugetlb.{page}B.max); reserve outside of it, or use --no-fill; everything is as it was"
    )]
    Fill {
        /// The pool.
        name: String,
        /// Its pages.
        page: Page,
    },
    /// Whoever asked for it does not want it any more.
    #[error("the reservation of pool '{name}' was interrupted; everything is as it was")]
    Interrupted {
        /// The pool.
        name: String,
    },
    /// Nobody would make the pool again.
    #[error(
        "systemd does not run this machine, so nothing was reserved: have whatever starts the machine, such as /etc/rc.local, run \
         `{command}` early, and reserve without --persist now"
    )]
    NoSystemd {
        /// What makes it.
        command: String,
    },
    /// A command that does not go into a unit.
    #[error(
        "'{word}' has characters that systemd would read in another way: install the program in a path of letters, digits and \
         /._-+=; nothing was reserved"
    )]
    Program {
        /// Part of the command.
        word: String,
    },
    /// Somebody still uses the pool.
    #[error("pool '{name}' is used by {holders}: end them first")]
    Busy {
        /// Its name.
        name: String,
        /// Who uses it.
        holders: String,
    },
    /// Files lie in the pool.
    #[error(
        "in pool '{name}' lie {files}: remove them (regions and arenas by `still --dir {} rm NAME`), or let them be lost by --force",
        path.display()
    )]
    Files {
        /// Its name.
        name: String,
        /// Where it is.
        path: PathBuf,
        /// What lies there.
        files: String,
    },
    /// A pool is given back, but another mount of it is somewhere.
    #[error(
        "pool '{name}' is given back, but {count} of its pages of {page} are still in use in another mount namespace, such as a \
         container's, where the pool is still mounted: the kernel has them when that ends"
    )]
    Kept {
        /// Its name.
        name: String,
        /// Its pages.
        page: Page,
        /// How many are still in use.
        count: u64,
    },
    /// Only root may do this.
    #[error("{call} {}: {source}; only root may reserve pages, once for all users", path.display())]
    NotPermitted {
        /// The call.
        call: &'static str,
        /// What it was called on.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A call failed.
    #[error("{call} {}: {source}", path.display())]
    Io {
        /// The call.
        call: &'static str,
        /// What it was called on.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Error {
    /// A call that failed on a path.
    pub(crate) fn io(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::NotPermitted { call, path, source }
            }
            _ => Error::Io { call, path, source },
        }
    }
}
