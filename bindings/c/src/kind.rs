//! What handles stand for, and what is found in their place.

/// What a handle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Region = 1,
    Loan,
    Kept,
    Observer,
    Snapshot,
    Group,
    Checkpointer,
    Schema,
    Fragment,
    Plan,
    Arena,
    Object,
    /// A fragment of an object.
    Attached,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Region => "region",
            Kind::Loan => "loan",
            Kind::Kept => "kept memory",
            Kind::Observer => "observer",
            Kind::Snapshot => "snapshot",
            Kind::Group => "group",
            Kind::Checkpointer => "checkpointer",
            Kind::Schema => "schema",
            Kind::Fragment => "fragment",
            Kind::Plan => "plan",
            Kind::Arena => "arena",
            Kind::Object => "object",
            Kind::Attached => "attached fragment",
        })
    }
}

/// What was given for a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    Null,
    /// It was a handle of the right kind.
    Ended,
    /// A handle of another kind, that may have ended.
    Other(Kind),
    /// Something else.
    Foreign(u64),
}
