//! What can go wrong between two runtimes, and what to do about it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use stillframe_kernel::Failure;

/// A result whose error is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong. Each text says what happened, with whom, and what to do.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing answers, or there is no way to it.
    #[error(
        "cannot connect to {peer}: {call}: {source}; see that a runtime listens there ('still node'), and that the network lets \
         this port through"
    )]
    Connect {
        /// Whom to.
        peer: SocketAddr,
        /// The system call.
        call: &'static str,
        /// Its error.
        source: Os,
    },
    /// This address cannot be listened on.
    #[error(
        "cannot listen on {address}: {call}: {source}; choose another port, 0 for any that is free, or another address"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system call.
        call: &'static str,
        /// Its error.
        source: Os,
    },
    /// A system call on a connection failed. The connection has ended.
    #[error("the connection to {peer} ended: {call}: {source}; connect again")]
    Broken {
        /// Whom to.
        peer: SocketAddr,
        /// The system call.
        call: &'static str,
        /// Its error; `ETIMEDOUT` is a peer that was silent for too long.
        source: Os,
    },
    /// The library of another network than TCP failed. The connection has ended, or was not made.
    #[error(
        "bulk cannot go to {peer} by {fabric}: {call}: {why}; see that {fabric} works between the two nodes, or start all runtimes of \
         the job without it"
    )]
    Fabric {
        /// Whom to.
        peer: SocketAddr,
        /// The name of the network.
        fabric: String,
        /// The call.
        call: &'static str,
        /// What the library says.
        why: String,
    },
    /// The peer ended the connection.
    #[error("{peer} ended the connection{}; connect again, and see there why", during(*missing_bytes))]
    Closed {
        /// The peer.
        peer: SocketAddr,
        /// Bytes of a frame that were still to come; 0 is between two frames.
        missing_bytes: u64,
    },
    /// This side cut the connection ([`Cut`](crate::Cut)), or a call before this one ended it.
    #[error("the connection to {peer} was ended here: {why}; connect again")]
    Ended {
        /// The peer.
        peer: SocketAddr,
        /// What ended it.
        why: String,
    },
    /// A deadline passed. Unless `is_intact`, the connection has ended, for the peer cannot know where the next frame begins.
    #[error(
        "{what} {peer} took longer than {} ms{}", waited.as_millis(),
        if *is_intact { "; the connection is intact" } else { "; the connection is ended: connect again, and see what keeps the peer" }
    )]
    Timeout {
        /// The peer.
        peer: SocketAddr,
        /// What was to be done with it.
        what: &'static str,
        /// For how long it was tried.
        waited: Duration,
        /// Whether the connection can be used on.
        is_intact: bool,
    },
    /// This side does not take the peer for one of its job, or cannot speak with it.
    #[error("{peer} is refused: {why}")]
    Refused {
        /// The peer.
        peer: SocketAddr,
        /// Why, and what to do.
        why: Refusal,
    },
    /// The peer does not take this side for one of its job.
    #[error("{peer} refuses this runtime ({alert}): {advice}")]
    RefusedThere {
        /// The peer.
        peer: SocketAddr,
        /// The alert of TLS that it sent.
        alert: String,
        /// What to do.
        advice: &'static str,
    },
    /// What came is not what a runtime sends. The connection has ended.
    #[error("{peer} sent {what}: it is no runtime of this version of Stillframe, or the network changes bytes")]
    Malformed {
        /// The peer.
        peer: SocketAddr,
        /// What was wrong.
        what: String,
    },
    /// A frame that is larger than any may be. Nothing was sent.
    #[error("a frame has at most {max_bytes} bytes of {part}, not {bytes}: send it in parts")]
    TooLarge {
        /// "body" or "bulk".
        part: &'static str,
        /// Its length.
        bytes: u64,
        /// The longest.
        max_bytes: u64,
    },
    /// A file has less than was to be sent of it. If it was so from the begin, nothing was sent and the connection is intact;
    /// otherwise it has ended.
    #[error(
        "the file ends after {found_bytes} bytes of the {promised_bytes} that were to be sent of it to {peer}{}: somebody made it \
         shorter", if *is_intact { "; nothing was sent" } else { "; the connection is ended" }
    )]
    ShortFile {
        /// To whom it was to be sent.
        peer: SocketAddr,
        /// Bytes that were to be sent.
        promised_bytes: u64,
        /// Bytes there are.
        found_bytes: u64,
        /// Whether the connection can be used on.
        is_intact: bool,
    },
    /// A file cannot be read.
    #[error(
        "cannot send a file to {peer}: {call}: {source}; {}",
        if *is_intact { "nothing was sent" } else { "the connection is ended" }
    )]
    File {
        /// To whom it was to be sent.
        peer: SocketAddr,
        /// The system call.
        call: &'static str,
        /// Its error.
        source: Os,
        /// Whether the connection can be used on.
        is_intact: bool,
    },
    /// More was asked for than the frame has. The connection is intact.
    #[error("{wanted_bytes} bytes were asked for of a frame that has {left_bytes} left: read at most these")]
    PastEnd {
        /// Bytes asked for.
        wanted_bytes: u64,
        /// Bytes that are left.
        left_bytes: u64,
    },
    /// There is no memory for what came, or no thread.
    #[error("there is no memory for {what}: give the runtime more, or ask for less at once")]
    NoMemory {
        /// What it was for.
        what: String,
    },
    /// Certificate or key cannot be used.
    #[error("{}: {why}", path.display())]
    Identity {
        /// The file or directory.
        path: PathBuf,
        /// What stands against it, and what to do.
        why: String,
    },
}

/// Why a peer is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Another authority signed its certificate.
    #[error(
        "its certificate is not signed by this job's authority: give all runtimes of the job the same files, those of one run of \
         'still node certificate'"
    )]
    OtherAuthority,
    /// Its certificate is too old.
    #[error("its certificate has expired: make a new one ('still node certificate'), or set the clock of this node")]
    Expired,
    /// Its certificate is not valid yet.
    #[error("its certificate is not valid yet: set the clocks of both nodes")]
    NotYetValid,
    /// It said nothing, or not enough, while many others connected.
    #[error(
        "it had not said who it is when {others} others had connected that had not either: it may connect again; if it is a runtime, \
         see who connects to this port without end"
    )]
    Silent {
        /// How many others.
        others: usize,
    },
    /// It belongs to another job.
    #[error(
        "its certificate is not that of job '{job}': it belongs to another job; see which address it was found under"
    )]
    OtherJob {
        /// This job.
        job: String,
    },
    /// It has no certificate.
    #[error("it shows no certificate: start it with those of the job ('still node certificate')")]
    NoCertificate,
    /// It does not speak TLS 1.3.
    #[error("it does not speak TLS 1.3 as runtimes do ({detail}): see what listens or connects there")]
    NotTls {
        /// What TLS says.
        detail: String,
    },
    /// It is of another version.
    #[error(
        "it speaks version {theirs} of the protocol, and this runtime {ours}: run the same Stillframe on all nodes"
    )]
    OtherVersion {
        /// Its version.
        theirs: u16,
        /// This one's.
        ours: u16,
    },
    /// It was told to send bulk another way.
    #[error("it sends bulk by {theirs}, and this runtime by {ours}: start all runtimes of a job with the same choice")]
    OtherBulk {
        /// Its choice.
        theirs: String,
        /// This one's.
        ours: String,
    },
    /// A connection for bulk that does not belong to a connection of this job.
    #[error("it cannot prove that this connection for bulk belongs to a connection of the job: it is cut off")]
    NoProof,
}

/// The error of a system call. A copy of it is kept for all who use the connection later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Os {
    /// Its number, 0 if there is none.
    pub errno: i32,
    /// Its kind.
    pub kind: io::ErrorKind,
}

impl fmt::Display for Os {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            0 => write!(f, "{}", self.kind),
            errno => write!(f, "{}", io::Error::from_raw_os_error(errno)),
        }
    }
}

impl std::error::Error for Os {}

impl From<&io::Error> for Os {
    fn from(error: &io::Error) -> Os {
        Os { errno: error.raw_os_error().unwrap_or(0), kind: error.kind() }
    }
}

impl From<&Failure> for Os {
    fn from(failure: &Failure) -> Os {
        Os::from(&failure.source)
    }
}

fn during(missing_bytes: u64) -> String {
    if missing_bytes == 0 {
        return String::new();
    }
    format!(" in the middle of a frame, of which {missing_bytes} bytes were still to come")
}
