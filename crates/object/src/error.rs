//! What can go wrong with objects, and what to do about it.

mod writers;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stillframe_kernel::Failure;
use stillframe_kernel::trust::{Distrust, Refused};
use stillframe_roster::refusal::Refusal;

pub use writers::{Overlap, Part, Parts, Writer};

/// A result whose error is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong. No error leaves a fragment half changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name has another text already.
    #[error(
        "object '{name}' is there already, with another text, bindings or initial version:\n  there: {}\n  asked: {}\n\
         create it with the same, choose another name, or remove it first ('still rm {name}')",
        there.replace('\n', " "), asked.replace('\n', " ")
    )]
    OtherText {
        /// The object.
        name: String,
        /// What it was created with.
        there: String,
        /// What was asked for.
        asked: String,
    },
    /// Nobody created an object of this name.
    #[error(
        "there is no object '{name}' in {}{}: create it first, or name the right directory",
        dir.display(), after(*waited)
    )]
    NoObject {
        /// The name.
        name: String,
        /// Where it was looked for.
        dir: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Somebody removed the object, whose name may be another one's by now.
    #[error(
        "object '{name}' was removed, and nothing is attached to it any more: create it anew, or open what has its name now"
    )]
    Removed {
        /// The object.
        name: String,
    },
    /// The text of an object or a fragment has mistakes.
    #[error("the text of {what} of object '{name}' has mistakes:\n{mistakes}")]
    Text {
        /// The object.
        name: String,
        /// Whose text it is.
        what: &'static str,
        /// All of them, each shown where it is.
        mistakes: String,
    },
    /// A fragment that cannot be written.
    #[error("the fragment of object '{name}' cannot be attached to be written: {why}")]
    NotWritable {
        /// The object.
        name: String,
        /// What stands against it.
        why: String,
    },
    /// Two fragments have elements in common.
    #[error("object '{name}': {overlap}; attach fragments that share no element, or detach the first one")]
    Overlap {
        /// The object.
        name: String,
        /// Who wants what.
        overlap: Box<Overlap>,
    },
    /// A fragment that does not count for another reason.
    #[error("object '{name}': {refusal}")]
    Refused {
        /// The object.
        name: String,
        /// Why.
        refusal: Refusal,
    },
    /// A fragment to which those of other nodes stand in the way.
    #[error("object '{name}': the fragment counts on no node: {why}; detach it, and attach one that shares no element")]
    NotAccepted {
        /// The object.
        name: String,
        /// Whose elements it shares, as the object's home says.
        why: String,
        /// The first number from which on it may count, where it came too late.
        next: Option<u64>,
    },
    /// This node has a runtime, which does not answer.
    #[error("{}: {why}; the runtime of this node may have ended: start it again ('still node')", path.display())]
    NoRuntime {
        /// Its socket.
        path: PathBuf,
        /// What it said, or the system.
        why: String,
    },
    /// The runtime of this node has no memory for what other nodes have of a fragment.
    #[error(
        "object '{name}': versions of other nodes may take {bound_bytes} bytes of memory on this one, {taken_bytes} are taken, and this \
         fragment takes {bytes}; {}start the runtime with more (`still node run --memory-mib`)",
        if bytes > bound_bytes { "read it in smaller parts, or " } else { "detach another one first, or " }
    )]
    NoMemory {
        /// The object.
        name: String,
        /// What the fragment takes.
        bytes: u64,
        /// What all take.
        taken_bytes: u64,
        /// How much there may be.
        bound_bytes: u64,
    },
    /// A version that a writer cannot publish.
    #[error(
        "version {version} of the fragment of object '{name}' does not follow {newest}: publish a higher number; the \
         fragment was attached at a version that is there already"
    )]
    NotIncreasing {
        /// The object.
        name: String,
        /// The number given.
        version: u64,
        /// The newest of this fragment, or the version at which it was attached.
        newest: u64,
    },
    /// The greatest number, which no version can have.
    #[error(
        "object '{name}': no version can have the number {}, for nobody could publish above it: choose a smaller one, {} at most",
        u64::MAX,
        u64::MAX - 1
    )]
    GreatestNumber {
        /// The object.
        name: String,
    },
    /// What is wanted was not there in time.
    #[error("object '{name}': waited {} ms for version {version}: {}", waited.as_millis(), awaited(waiting))]
    Timeout {
        /// The object.
        name: String,
        /// The version.
        version: u64,
        /// For how long.
        waited: Duration,
        /// Which elements are still to be published, and by whom.
        waiting: Vec<Part>,
    },
    /// What is wanted of other nodes was not there in time.
    #[error("object '{name}': waited {} ms for version {version}: {why}", waited.as_millis())]
    TimeoutElsewhere {
        /// The object.
        name: String,
        /// The version.
        version: u64,
        /// For how long.
        waited: Duration,
        /// Whom the runtime of this node waits for.
        why: String,
    },
    /// What is wanted of other nodes cannot be had, or not any more.
    #[error("object '{name}': version {version} cannot be had: {why}; read the newest complete version instead")]
    LostElsewhere {
        /// The object.
        name: String,
        /// The version.
        version: u64,
        /// Whose elements, and why not, as the runtime of this node says.
        why: String,
    },
    /// A fragment cannot begin with the content of the version that it is attached at.
    #[error(
        "object '{name}': the fragment cannot begin with version {version}: {}; attach it with `zeros` to begin without \
         content, and put there what the program kept itself",
        .lost
    )]
    ContentLost {
        /// The object.
        name: String,
        /// The version.
        version: u64,
        /// Whose elements cannot be had, and why not.
        lost: String,
    },
    /// No complete version came in time.
    #[error(
        "object '{name}': waited {} ms for a complete version above {after}: {}",
        waited.as_millis(),
        match whole {
            Some(whole) => format!("version {whole} is there, and {HOME}"),
            None if waiting.is_empty() => "nobody writes it".to_owned(),
            None => awaited(waiting),
        }
    )]
    NoNewer {
        /// The object.
        name: String,
        /// The version above which one was waited for.
        after: u64,
        /// For how long.
        waited: Duration,
        /// Which elements of the next version are still to be published, and by whom.
        waiting: Vec<Part>,
        /// A version that all its writers have, and of which the object's home has still to say that it is complete.
        whole: Option<u64>,
    },
    /// What is wanted cannot be had, or not any more.
    #[error("object '{name}': version {version} cannot be had: {}; read the newest complete version instead{}", Parts(losses), newest_of(*complete))]
    Lost {
        /// The object.
        name: String,
        /// The version.
        version: u64,
        /// Which elements, whose they are, and why.
        losses: Vec<Part>,
        /// The newest complete version.
        complete: Option<u64>,
    },
    /// Nobody writes the object any more.
    #[error("object '{name}': all writers have left; its last complete version {} can still be read", number(*complete))]
    Ended {
        /// The object.
        name: String,
        /// The newest complete version.
        complete: Option<u64>,
    },
    /// No complete version is there.
    #[error("object '{name}' has no complete version: {}", Parts(waiting))]
    NoVersion {
        /// The object.
        name: String,
        /// Which elements are still to be published, and by whom.
        waiting: Vec<Part>,
    },
    /// The fragment has no variable of this name, or of this type.
    #[error("the fragment of object '{name}' has {found}, not {wanted}")]
    Variable {
        /// The object.
        name: String,
        /// What it has.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// An object that others use is to be removed.
    #[error("object '{name}' is written by {who}: end it, or remove the object by force")]
    InUse {
        /// The object.
        name: String,
        /// A writer that lives.
        who: String,
    },
    /// An object is to be removed, and it is not known whether others use it.
    #[error(
        "object '{name}': for {} ms this node's runtime has not heard from the object's home whether somebody writes it on another node: \
         see which nodes are connected ('still ls') and try again, or remove the object by force",
        waited.as_millis()
    )]
    Unheard {
        /// The object.
        name: String,
        /// For how long it was waited for.
        waited: Duration,
    },
    /// An object is to be put where another one is, whose content would be lost.
    #[error(
        "object '{name}' is still in memory, at version {newest}: programs that attach to it go on from there; to put \
         another version in its place, ask for it to be replaced ('still restore --replace'), or remove it first ('still rm')"
    )]
    Survives {
        /// The object.
        name: String,
        /// Its newest complete version.
        newest: u64,
    },
    /// Another process keeps others from a board.
    #[error("{}: another process has had its lock for {} ms; it may be stopped: let it go on, or end it", path.display(), waited.as_millis())]
    Locked {
        /// The board.
        path: PathBuf,
        /// For how long it was waited for.
        waited: Duration,
    },
    /// A wait ended early, as [`ObjectsOptions::interrupt`](crate::ObjectsOptions::interrupt) wanted.
    #[error("a wait for object '{name}' was interrupted")]
    Interrupted {
        /// The object.
        name: String,
    },
    /// The fragment was attached by the process that forked this one.
    #[error("this fragment of object '{name}' was attached before fork: attach one in the child")]
    Forked {
        /// The object.
        name: String,
    },
    /// Shared files hold something that no healthy process writes.
    #[error("{} is damaged at byte {offset}: {why}; remove the object ('still rm') and create it anew", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What was expected, and what was found.
        why: String,
    },
    /// A directory or file that somebody else made, or could change.
    #[error("{} {distrust}", path.display())]
    Untrusted {
        /// The directory or file.
        path: PathBuf,
        /// What is wrong with it.
        distrust: Distrust,
    },
    /// What the engine says of a fragment's region, and of every file, memory and limit of the machine.
    #[error(transparent)]
    Region(#[from] stillframe::Error),
    /// What keeps the names of objects elsewhere ([`Names`](crate::Names)) did not do what it was asked.
    #[error("names of objects: {source}")]
    Keeper {
        /// What went wrong there.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// Whether asking again later may help.
        is_timeout: bool,
    },
    /// No plan, or it could not be carried out.
    #[error("object '{name}': {why}")]
    Plan {
        /// The object.
        name: String,
        /// What the planner or the executor said.
        why: String,
        /// Whether asking again later may help.
        is_timeout: bool,
    },
}

impl Error {
    /// The error of a system call about `path`, as it is of one about a region.
    pub(crate) fn system(path: impl AsRef<Path>, failure: Failure) -> Error {
        Error::Region(stillframe::Error::system(path.as_ref(), failure))
    }

    /// The error of a standard library call about `path`.
    pub(crate) fn io(call: &'static str, path: impl AsRef<Path>, source: io::Error) -> Error {
        Error::system(path, Failure { call, detail: String::new(), source })
    }

    /// The same error, telling how many bytes were needed if it is that there is no space for them.
    pub(crate) fn needing(self, bytes: usize) -> Error {
        match self {
            Error::Region(error) => Error::Region(error.needing(bytes as u64)),
            other => other,
        }
    }

    pub(crate) fn refused(path: impl Into<PathBuf>, refused: Refused) -> Error {
        let path = path.into();
        match refused {
            Refused::Distrust(distrust) => Error::Untrusted { path, distrust },
            Refused::System(source) => Error::io("open", path, source),
        }
    }

    /// The error's number in every language that has numbers for errors; it never changes. What the engine or the layout
    /// language has too has their number, all others are above 3000: misuse below 3100, the environment below 3200.
    pub fn code(&self) -> i32 {
        match self {
            Error::Region(error) => error.code(),
            Error::NotIncreasing { .. } => 12,
            Error::Forked { .. } => 20,
            Error::InUse { .. } => 100,
            Error::NoVersion { .. } => 103,
            Error::Timeout { .. } | Error::NoNewer { .. } | Error::TimeoutElsewhere { .. } | Error::Unheard { .. } => {
                105
            }
            Error::NoObject { waited, .. } if !waited.is_zero() => 105,
            Error::Keeper { .. } => 114,
            Error::Survives { .. } => 118,
            Error::Untrusted { .. } => 120,
            Error::Corrupt { .. } => 200,
            Error::Text { .. } => 2010,
            Error::Plan { .. } => 2013,
            Error::OtherText { .. } => 3010,
            Error::NotWritable { .. } => 3011,
            Error::Overlap { .. } => 3012,
            Error::Refused { .. } => 3013,
            Error::Variable { .. } => 3014,
            Error::NoObject { .. } => 3100,
            Error::Lost { .. } | Error::LostElsewhere { .. } | Error::ContentLost { .. } => 3101,
            Error::Ended { .. } => 3102,
            Error::Locked { .. } => 3103,
            Error::GreatestNumber { .. } => 3015,
            Error::NotAccepted { .. } => 3016,
            Error::NoRuntime { .. } => 3106,
            Error::NoMemory { .. } => 3107,
            Error::Interrupted { .. } => 3104,
            Error::Removed { .. } => 3105,
        }
    }

    /// Whether content of a version cannot be had.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Error::Lost { .. } | Error::LostElsewhere { .. })
    }

    /// What cannot be read, of whoever wants it to begin with.
    pub(crate) fn of_content(self) -> Error {
        match self {
            Error::Lost { name, version, losses, .. } => {
                Error::ContentLost { name, version, lost: Parts(&losses).to_string() }
            }
            Error::LostElsewhere { name, version, why } => Error::ContentLost { name, version, lost: why },
            other => other,
        }
    }

    /// Whether waiting longer, or asking again, may help.
    pub fn is_timeout(&self) -> bool {
        matches!(
            self,
            Error::Timeout { .. }
                | Error::NoNewer { .. }
                | Error::Locked { .. }
                | Error::TimeoutElsewhere { .. }
                | Error::Unheard { .. }
        ) || matches!(self, Error::Keeper { is_timeout: true, .. } | Error::Plan { is_timeout: true, .. })
            || matches!(self, Error::NoObject { waited, .. } if !waited.is_zero())
            || matches!(self, Error::NoMemory { bytes, bound_bytes, .. } if bytes <= bound_bytes)
    }
}

/// Why a version does not count that all its writers have.
const HOME: &str = "the object's home has still to say that it is complete: see whether this node's runtime runs and is connected ('still ls')";

/// What is still to come of a version; nothing where all writers have it.
fn awaited(waiting: &[Part]) -> String {
    match waiting.is_empty() {
        true => format!("it is there, and {HOME}"),
        false => format!("still to come are {}", Parts(waiting)),
    }
}

fn after(waited: Duration) -> String {
    if waited.is_zero() { String::new() } else { format!(", after {} ms", waited.as_millis()) }
}

fn number(version: Option<u64>) -> String {
    version.map_or("none".into(), |version| version.to_string())
}

fn newest_of(version: Option<u64>) -> String {
    version.map_or(String::new(), |version| format!(", {version}"))
}
