//! What can go wrong with a runtime.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use stillframe_object::runtime::Reply;
use stillframe_roster::writer::Node;

/// A result whose error is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This node has a runtime already.
    #[error("{} is locked: this node's objects have a runtime already; end that one first, or leave it", path.display())]
    Running {
        /// The file.
        path: PathBuf,
    },
    /// The file by which the nodes of a job find its names does not lead there.
    #[error(
        "{}: {why}; if the node that it names is gone, remove the file, and the next node that starts keeps the names; or give \
         their address with --names",
        path.display()
    )]
    Meeting {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// What programs of this node read of other nodes would take too much memory.
    #[error(
        "versions of other nodes may take {bound_bytes} bytes of memory on this one, {taken_bytes} are taken, and this fragment takes \
         {bytes}; detach another one first, or start the runtime with more (`still node run --memory-mib`)"
    )]
    Memory {
        /// What is wanted.
        bytes: u64,
        /// What is taken.
        taken_bytes: u64,
        /// How much there may be.
        bound_bytes: u64,
    },
    /// Another node of the job that lives has the name of this one.
    #[error("node {} at {address} is called '{name}', too: give this one another name with --name, or end that one", node.0)]
    Namesake {
        /// What both are called.
        name: String,
        /// The other one.
        node: Node,
        /// Where it answers.
        address: SocketAddr,
    },
    /// Who listens where a node of the job with the name of this one does, as it says, is none that this one can speak with. It may be a node
    /// that lives, or one whose place somebody else has by now.
    #[error(
        "node {} at {address} is called '{name}', too, and who listens there cannot be asked whether it lives ({why}); if that node has \
         ended, wait until its lease has, too; else give this one another name with --name", node.0
    )]
    Stranger {
        /// What both are called.
        name: String,
        /// The other one.
        node: Node,
        /// Where it is to answer.
        address: SocketAddr,
        /// What stands between the two.
        why: Box<stillframe_link::Error>,
    },
    /// A system call failed.
    #[error("{call} {}: {source}", path.display())]
    Io {
        /// The call.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Memory, descriptors or another limit of the machine.
    #[error(transparent)]
    System(#[from] stillframe_kernel::Failure),
    /// Connections to other nodes.
    #[error(transparent)]
    Link(#[from] stillframe_link::Error),
    /// Names in etcd.
    #[error(transparent)]
    Names(#[from] stillframe_etcd::Error),
    /// This node's objects.
    #[error(transparent)]
    Object(#[from] stillframe_object::Error),
}

impl Error {
    pub(crate) fn io(call: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { call, path, source }
    }

    /// What a program is told whose request failed so.
    pub(crate) fn reply(&self) -> Reply {
        match self {
            Error::Memory { bytes, taken_bytes, bound_bytes } => {
                Reply::NoMemory { bytes: *bytes, taken_bytes: *taken_bytes, bound_bytes: *bound_bytes }
            }
            Error::Object(stillframe_object::Error::Text { .. }) => Reply::Refused(self.to_string()),
            other => Reply::Failed(other.to_string()),
        }
    }
}
