//! What can go wrong with checkpoints, and what to do about it.

use std::path::{Path, PathBuf};
use stillframe::Family;
use stillframe_kernel::Failure;
use stillframe_kernel::trust::Refused;

/// A result whose error is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong. No error leaves a checkpoint half written under its name, or a good one damaged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the region or group.
    #[error(transparent)]
    Engine(#[from] stillframe::Error),
    /// An option with a value that makes no sense.
    #[error("option {option}: {why}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A condition on versions that makes no sense, or none for a version.
    #[error("the condition {}: {why}", marked(.text, .at))]
    Expression {
        /// The condition.
        text: String,
        /// The character at which it goes wrong, if it is at one.
        at: Option<usize>,
        /// What is wrong.
        why: String,
    },
    /// The directory has checkpoints of another region.
    #[error(
        "{} has checkpoints of '{found}', not of '{expected}': use a directory for each region or group", dir.display()
    )]
    OtherRegion {
        /// The store.
        dir: PathBuf,
        /// What was to be saved.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A box of a global array that was not stored whole.
    #[error(
        "variable '{name}': elements {missing} of {wanted} are in no part that was stored; there are {}: read what is there, \
         and set the rest", parts.join(", ")
    )]
    Uncovered {
        /// The variable.
        name: String,
        /// The box that was to be read, as a slice.
        wanted: String,
        /// A box of it that nobody stored.
        missing: String,
        /// What is stored.
        parts: Vec<String>,
    },
    /// There is nothing to read: the run begins with nothing.
    #[error("variable '{name}': nothing was recovered, so there is nothing to read; ask for the origin first")]
    NothingRecovered {
        /// The variable.
        name: String,
    },
    /// Each rank had its own content of a variable, and there are other ranks.
    #[error(
        "variable '{name}' is no part of a global array, and differs between the {stored} ranks that stored it, so none of \
         the {ranks} ranks of this run can have it: declare it with its part, or begin with as many ranks"
    )]
    PerRank {
        /// The variable.
        name: String,
        /// Ranks of the run that stored it; 1 for a single region.
        stored: u32,
        /// Ranks of this run.
        ranks: u32,
    },
    /// Somebody else writes checkpoints into the directory.
    #[error(
        "process {pid} on {host} ({command}) writes checkpoints into {}: end it, or use another directory", dir.display()
    )]
    Locked {
        /// The store.
        dir: PathBuf,
        /// Its process number, as it said.
        pid: u32,
        /// Its host.
        host: String,
        /// Its command line.
        command: String,
    },
    /// The file system is full, or the user's share of it.
    #[error("no space left in {}: {}", dir.display(), lack(*version, *needed_bytes, *free_bytes, *lacks_inodes))]
    NoSpace {
        /// The store.
        dir: PathBuf,
        /// The version that was to be saved.
        version: u64,
        /// Bytes it may take, of those not linked.
        needed_bytes: u64,
        /// Bytes that are free, if the file system says so.
        free_bytes: Option<u64>,
        /// Whether the file system has no room for one more file.
        lacks_inodes: bool,
    },
    /// The directory may not be written to, or cannot be made.
    #[error(
        "{} cannot be written to ({failure}): give this user the right to, or use another directory", path.display()
    )]
    ReadOnly {
        /// The directory or file.
        path: PathBuf,
        /// The call.
        failure: Failure,
    },
    /// The directory, or one in it, went away while it was written to.
    #[error(
        "{} was removed or renamed while version {version} was being saved: that version is not saved; make the directory again \
         and save the next one", dir.display()
    )]
    Vanished {
        /// The store.
        dir: PathBuf,
        /// The version that was to be saved.
        version: u64,
    },
    /// The disk did not take what was written.
    #[error(
        "version {version} could not be brought to disk in {} ({failure}): it is not saved; look at the kernel's log and the \
         disk's health, and use another directory", dir.display()
    )]
    NotSynced {
        /// The store.
        dir: PathBuf,
        /// The version that was to be saved.
        version: u64,
        /// The call.
        failure: Failure,
    },
    /// A checkpoint of this version is there already that a later run published, or another program wrote.
    #[error(
        "{} is a checkpoint of version {version} that a later run published, or another program wrote: move it, or use another \
         directory", path.display()
    )]
    Contradicts {
        /// The checkpoint that is there.
        path: PathBuf,
        /// The version.
        version: u64,
    },
    /// The saving was cancelled.
    #[error("the saving of version {version} was cancelled; nothing of it is left")]
    Cancelled {
        /// The version.
        version: u64,
    },
    /// The version is being saved by another thread.
    #[error("version {version} is being saved already")]
    Saving {
        /// The version.
        version: u64,
    },
    /// The file system has no locks.
    #[error(
        "{} is on a file system without locks ({failure}), so nobody could keep two writers apart: mount it with them (Lustre: \
         -o flock), or use another directory", dir.display()
    )]
    NoLocks {
        /// The store.
        dir: PathBuf,
        /// The call.
        failure: Failure,
    },
    /// There is no good checkpoint.
    #[error("{} has no good checkpoint{}", dir.display(), damaged(.skipped))]
    NoCheckpoint {
        /// The store.
        dir: PathBuf,
        /// Those that are damaged, and how.
        skipped: Vec<String>,
    },
    /// There is no checkpoint of the version.
    #[error("{} has no checkpoint of version {version}; it has {}", dir.display(), list(.known))]
    NoSuchVersion {
        /// The store.
        dir: PathBuf,
        /// The version.
        version: u64,
        /// Those it has.
        known: Vec<u64>,
    },
    /// There is no directory of checkpoints, or no checkpoint, where one was named.
    #[error("{} {why}: name the directory that 'still checkpoint --to' was given, or one of the checkpoints in it", path.display())]
    NoStore {
        /// Where it was looked for.
        path: PathBuf,
        /// What is there instead.
        why: String,
    },
    /// A file may not be read by this user, or the disk does not give it.
    #[error("{} cannot be read ({failure}): give this user the right to, or see whether the disk is well", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The call.
        failure: Failure,
    },
    /// The directory is gone, and so is the file system it was on.
    #[error(
        "{} was removed, or its file system unmounted, and another one is in its place: bring it back, or save into another \
         directory", dir.display()
    )]
    Removed {
        /// The store.
        dir: PathBuf,
    },
    /// Any other system call that failed.
    #[error("{}: {failure}", path.display())]
    System {
        /// The file it was about.
        path: PathBuf,
        /// The call.
        failure: Failure,
    },
    /// The manifest was written by a program that knows another format.
    #[error(
        "{} is of format {found}, and this program reads format {known}: use the Stillframe that wrote it, or a newer one",
        path.display()
    )]
    ForeignFormat {
        /// The manifest.
        path: PathBuf,
        /// Its format and version.
        found: String,
        /// Those that can be read.
        known: String,
    },
    /// A file of a checkpoint is damaged.
    #[error("{} is damaged: {why}; 'still verify' says how far, and an older checkpoint may be whole", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

fn lack(version: u64, needed_bytes: u64, free_bytes: Option<u64>, lacks_inodes: bool) -> String {
    let advice = "keep fewer checkpoints, compress them, or use another directory; those that were there are untouched";
    match free_bytes.filter(|free_bytes| *free_bytes < needed_bytes) {
        None if lacks_inodes => format!(
            "no inode is free for a file of the checkpoint of version {version}: remove files there, have fewer and larger chunks, {advice}"
        ),
        None => format!("the checkpoint of version {version} takes up to {needed_bytes} bytes: free some, {advice}"),
        Some(free_bytes) => format!(
            "{free_bytes} bytes are free and the checkpoint of version {version} takes up to {needed_bytes}: free some, {advice}"
        ),
    }
}

fn list(versions: &[u64]) -> String {
    if versions.is_empty() {
        return "none".into();
    }
    versions.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

fn damaged(skipped: &[String]) -> String {
    if skipped.is_empty() {
        String::new()
    } else {
        format!("; damaged are {}; 'still verify' names all that is", skipped.join("; "))
    }
}

/// The text, with the place marked in the line itself, because messages are of one line.
fn marked(text: &str, at: &Option<usize>) -> String {
    let Some(at) = at else { return format!("\"{text}\"") };
    let (before, after): (String, String) = (text.chars().take(*at).collect(), text.chars().skip(*at).collect());
    format!("\"{}\"", format!("{} <-- HERE {after}", before.trim_end()).trim())
}

impl Error {
    /// Which of three things happened.
    pub fn family(&self) -> Family {
        match self {
            Error::Engine(error) => error.family(),
            own => match own.code() % 1000 {
                ..100 => Family::Misuse,
                100..200 => Family::Environment,
                _ => Family::Corrupt,
            },
        }
    }

    /// The error's number in every language that has numbers for errors; it never changes. What the engine has too has the
    /// engine's number, all others are above 1000: misuse below 1100, the environment below 1200, corruption below 1300.
    pub fn code(&self) -> i32 {
        match self {
            Error::Engine(error) => error.code(),
            Error::BadOption { .. } => 11,
            Error::NoSpace { .. } => 107,
            Error::System { .. } => 114,
            Error::OtherRegion { .. } => 1010,
            Error::Saving { .. } => 1011,
            Error::Expression { .. } => 1012,
            Error::Uncovered { .. } => 1013,
            Error::NothingRecovered { .. } => 1014,
            Error::PerRank { .. } => 1015,
            Error::Locked { .. } => 1100,
            Error::Contradicts { .. } => 1101,
            Error::ReadOnly { .. } => 1102,
            Error::Vanished { .. } => 1103,
            Error::NotSynced { .. } => 1104,
            Error::Cancelled { .. } => 1105,
            Error::NoCheckpoint { .. } => 1106,
            Error::NoSuchVersion { .. } => 1107,
            Error::NoLocks { .. } => 1108,
            Error::NoStore { .. } => 1109,
            Error::Unreadable { .. } => 1110,
            Error::Removed { .. } => 1112,
            Error::ForeignFormat { .. } => 1200,
            Error::Damaged { .. } => 1201,
        }
    }

    /// What is wrong, where several errors are told and what can be done about them is said once.
    pub fn finding(&self) -> String {
        match self {
            Error::Damaged { path, why } => format!("{} is damaged: {why}", path.display()),
            error => error.to_string(),
        }
    }

    /// The error of a system call about `path`, with the causes told apart that a user can do something about.
    pub(crate) fn system(path: &Path, failure: Failure) -> Error {
        let path = path.to_path_buf();
        match failure.errno() {
            libc::EACCES | libc::EPERM | libc::EROFS => Error::ReadOnly { path, failure },
            _ => Error::System { path, failure },
        }
    }

    /// The error of a call that was to read `path`.
    pub(crate) fn reading(call: &'static str, path: &Path, source: std::io::Error) -> Error {
        let path = path.to_path_buf();
        match source.kind() {
            std::io::ErrorKind::NotFound => Error::NoStore { path, why: "is not there".into() },
            std::io::ErrorKind::NotADirectory => Error::NoStore { path, why: "is no directory".into() },
            _ => Error::Unreadable { path, failure: Failure { call, detail: String::new(), source } },
        }
    }

    /// Why what is at `path` was not opened to be written.
    pub(crate) fn refused(path: &Path, refused: Refused) -> Error {
        match refused {
            Refused::System(error) => Error::io("open", path, error),
            Refused::Distrust(distrust) => stillframe::Error::Untrusted { path: path.into(), distrust }.into(),
        }
    }

    /// The error of a standard library call about `path`.
    pub(crate) fn io(call: &'static str, path: &Path, source: std::io::Error) -> Error {
        Error::system(path, Failure { call, detail: String::new(), source })
    }
}
