//! What a runtime says of fragments of its node: whether they count on all nodes.

use stillframe_roster::refusal::Refusal;
use stillframe_roster::writer::Version;

/// Whether a fragment counts on all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    Refused(FragmentRefusal),
}

/// Why a fragment of this node does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentRefusal {
    /// The reason, for people.
    pub why: String,
    /// The first number from which on it may count, where it came too late.
    pub next: Option<Version>,
}

impl From<&str> for FragmentRefusal {
    fn from(why: &str) -> FragmentRefusal {
        FragmentRefusal { why: why.into(), next: None }
    }
}

impl From<&Refusal> for FragmentRefusal {
    fn from(refusal: &Refusal) -> FragmentRefusal {
        let next = match refusal {
            Refusal::Late { settled, .. } => settled.checked_add(1),
            _ => None,
        };
        FragmentRefusal { why: refusal.to_string(), next }
    }
}
