//! Writers and their elements, as errors tell of them.

use super::after;
use std::fmt;
use std::time::Duration;
use stillframe_roster::readiness::Cause;
use stillframe_roster::writer::{Node, Who};

/// Two fragments that have elements in common in one version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{elements} of version {version} would be written twice: {second} wants {second_elements}, and {first} has \
     {first_elements}{}",
    after(*waited)
)]
pub struct Overlap {
    /// The first version that both would write.
    pub version: u64,
    /// What both have.
    pub elements: String,
    /// Who was there before.
    pub first: Writer,
    /// What it has.
    pub first_elements: String,
    /// Who came later.
    pub second: Writer,
    /// What it wants.
    pub second_elements: String,
    /// How long the second waited for the first to go.
    pub waited: Duration,
}

/// A writer as people know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer(pub Who);

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Who { writer, rank } = self.0;
        match rank {
            Some(rank) => write!(f, "rank {rank} (process {}", writer.process)?,
            None => write!(f, "process {} (fragment {}", writer.process, writer.serial)?,
        }
        match writer.node {
            Node(0) => f.write_str(")"),
            Node(node) => write!(f, " on node {node})"),
        }
    }
}

/// Some elements of an object, and who writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The writer; `None`: nobody.
    pub who: Option<Writer>,
    /// Which elements, as `grid[0..4, 0..8]`.
    pub elements: String,
    /// Why they cannot be had; `None`: they are still to come.
    pub cause: Option<Cause>,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Part { who, elements, cause } = self;
        match who {
            Some(who) => write!(f, "{elements} of {who}")?,
            None if self.cause == Some(Cause::NodeLost) => return write!(f, "{elements}, which nobody has any more"),
            None => write!(f, "{elements}, which nobody has attached")?,
        }
        match cause {
            None => Ok(()),
            Some(Cause::Died) => f.write_str(", which died before it published them"),
            Some(Cause::NodeLost) => f.write_str(", whose node was lost"),
            Some(Cause::Gone) => f.write_str(", which let go of the version or left it out"),
            Some(Cause::Unwritten) => f.write_str(" although all writers have attached"),
        }
    }
}

/// Several parts, of which the text names the first ones: an object may have thousands.
pub struct Parts<'a>(pub &'a [Part]);

const SHOWN_MAX: usize = 4;

impl fmt::Display for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing was published");
        }
        for (position, part) in self.0.iter().take(SHOWN_MAX).enumerate() {
            write!(f, "{}{part}", if position == 0 { "" } else { "; " })?;
        }
        match self.0.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
