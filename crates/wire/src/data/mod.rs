//! Versions on their way from the node of a writer to that of a reader.

mod flow;
mod source;
mod subscription;
mod transfer;

pub use flow::{Lost, Piece, Sent, Unchanged};
pub use source::{SourceShare, Sources};
pub use subscription::{FragmentText, Subscribe, Unsubscribe};
