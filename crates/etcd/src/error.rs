//! What can go wrong with etcd, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;
use stillframe_roster::writer::Node;

/// A result whose error is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No etcd answered in time.
    #[error(
        "etcd: {call}: none of {endpoints} answered in {} ms; the last said: {last}; see that etcd runs there, and that this \
         machine reaches it",
        waited.as_millis()
    )]
    Unreachable {
        /// What was asked.
        call: &'static str,
        /// All addresses that were tried.
        endpoints: String,
        /// For how long.
        waited: Duration,
        /// What the last attempt said.
        last: String,
    },
    /// etcd refused a call.
    #[error("etcd at {endpoint}: {call}: {message} (code {code}); {}", advice(*code, message))]
    Refused {
        /// Who refused it.
        endpoint: String,
        /// What was asked.
        call: &'static str,
        /// The number that gRPC gives the reason.
        code: i32,
        /// The reason, as etcd says it.
        message: String,
    },
    /// A key or its value is nothing that a healthy process puts there.
    #[error("etcd: the key '{key}' is not as it should be: {why}; remove it ('etcdctl del'), or find out who wrote it")]
    Hostile {
        /// The key, with what cannot be shown in it replaced.
        key: String,
        /// What was expected, and what was found.
        why: String,
    },
    /// Something of the caller's that cannot be kept.
    #[error("etcd: {what} cannot be kept: {why}")]
    Unfit {
        /// What it is.
        what: String,
        /// What stands against it.
        why: String,
    },
    /// An address, a certificate or another option is wrong.
    #[error("etcd: {what}: {why}")]
    Option {
        /// Which one.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The lease of this node ended, or others gave it up when etcd had lost its data: it is no node any more.
    #[error(
        "etcd: node {} was lost, for its lease ended or others had not heard of it for too long: join again, which makes it \
         another node",
        node.0
    )]
    Lost {
        /// The number that it had.
        node: Node,
    },
    /// While etcd's data were lost, another node got the number of this one.
    #[error("etcd: the number of node {} was given to '{other}' when etcd had lost its data: join again", node.0)]
    Taken {
        /// The number.
        node: Node,
        /// The name of the node that has it now.
        other: String,
    },
    /// An etcd that was to be started does not answer.
    #[error("etcd: {program} did not start within {} ms: {why}{}", waited.as_millis(), lines(log))]
    Child {
        /// What was started.
        program: String,
        /// For how long it was waited for.
        waited: Duration,
        /// What is wrong.
        why: String,
        /// The last lines that it wrote.
        log: Vec<String>,
    },
    /// A system call failed.
    #[error("{call} {}: {why}", path.display())]
    Io {
        /// The call.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The thread that speaks to etcd is not there: this process was forked from the one that opened it.
    #[error("etcd: {call}: nobody in this process speaks to etcd; it was opened before fork: open it in the child")]
    Gone {
        /// What was asked.
        call: &'static str,
    },
}

impl Error {
    pub(crate) fn io(call: &'static str, path: impl Into<PathBuf>, error: &io::Error) -> Error {
        Error::Io { call, path: path.into(), why: error.to_string() }
    }

    pub(crate) fn option(what: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Option { what: what.into(), why: why.into() }
    }

    /// Whether asking again later may help.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::Unreachable { .. })
    }

    pub(crate) fn is_compacted(&self) -> bool {
        matches!(self, Error::Refused { code: OUT_OF_RANGE, message, .. } if message.contains("compacted"))
    }

    /// Whether an answer was longer than what is read.
    pub(crate) fn is_too_long(&self) -> bool {
        matches!(self, Error::Refused { code: OUT_OF_RANGE, message, .. } if message.contains("message length too large"))
    }
}

impl From<Error> for stillframe_object::Error {
    fn from(error: Error) -> Self {
        stillframe_object::Error::Keeper { is_timeout: error.is_timeout(), source: Box::new(error) }
    }
}

pub(crate) const INVALID: i32 = 3;
pub(crate) const NOT_FOUND: i32 = 5;
pub(crate) const DENIED: i32 = 7;
pub(crate) const EXHAUSTED: i32 = 8;
pub(crate) const OUT_OF_RANGE: i32 = 11;
pub(crate) const UNIMPLEMENTED: i32 = 12;
pub(crate) const UNAUTHENTICATED: i32 = 16;

/// Words of etcd, and of what takes its messages in, by which reasons are told apart that have the same number.
const FULL: &str = "database space exceeded";
const TOO_LARGE: [&str; 2] = ["request is too large", "message larger than max"];
const TOO_MANY: &str = "too many requests";

fn advice(code: i32, message: &str) -> &'static str {
    match code {
        INVALID | EXHAUSTED if TOO_LARGE.iter().any(|words| message.contains(words)) => {
            "what is to be put there is too large for it alone: make that smaller, as a text of an object, or raise --max-request-bytes"
        }
        EXHAUSTED if message.contains(FULL) => {
            "etcd is full: compact and defragment it, or raise --quota-backend-bytes, and then take its alarm away ('etcdctl alarm disarm')"
        }
        EXHAUSTED if message.contains(TOO_MANY) => "it has more to do than it comes to: ask again later",
        EXHAUSTED => "a limit of etcd, or of what lies between, is reached: its log says more",
        INVALID => "its limits may be lower than etcd's own: see --max-request-bytes and --max-txn-ops",
        NOT_FOUND => "what was asked for is not there any more",
        DENIED | UNAUTHENTICATED => "give this process a certificate or role that may use the prefix",
        OUT_OF_RANGE => "what was asked for was compacted: read all anew",
        UNIMPLEMENTED => "it is no etcd of version 3.4 or later",
        _ => "its log says more",
    }
}

fn lines(log: &[String]) -> String {
    if log.is_empty() { "; it wrote nothing".into() } else { format!("; its last lines:\n  {}", log.join("\n  ")) }
}
