//! Bugs that the model checker is tried on. Outside of this crate's own tests there are none.

/// One rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Bug {
    /// A roster counts as closed whatever its members cover.
    OpenRosters,
    /// A version counts as published that members have still to publish.
    Unpublished,
    /// Elements count as ready if their writer has published anything.
    StaleElements,
    /// Rosters of versions that are fixed are changed.
    LateChanges,
    /// What a dead writer published counts although another has its place.
    DeadStay,
    /// Who takes a dead writer's place takes versions away that may be complete.
    Robbed,
    /// A new home does not know that a writer took the place of a dead one.
    Disinherited,
    /// Fragments may overlap.
    Overlaps,
    /// A home announces before all nodes pin.
    Unpinned,
    /// A home takes older reports for newer ones.
    OldReports,
    /// A new home does not wait until all nodes have reported.
    HastyHome,
    /// A new home does not look at what nodes have pinned and heard of its predecessor.
    ForgetfulHome,
    /// A home announces versions of which other nodes need not have heard.
    Boundless,
    /// A home counts as retired before all nodes know that it announces nothing any more.
    HastyLeave,
    /// Programs of a node call a version complete that all writers of the node have.
    LoneBoards,
    /// A runtime obeys former homes.
    NoFence,
    /// A runtime takes older decisions for newer ones.
    OldDecisions,
    /// A runtime lets go of the version before as soon as it pins the next.
    EarlyUnpin,
    /// A runtime pins versions anew that it gave up.
    PinAnew,
    /// A runtime lets the versions that it pinned go without saying so.
    SilentYield,
    /// A runtime does not say that it heard of a ceiling, nor, where it has pinned the version already, of a proposal.
    SilentPin,
}

/// The bug that is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Planted {
    #[cfg(test)]
    pub bug: Option<Bug>,
}

impl Planted {
    /// Whether a rule is broken.
    #[cfg(test)]
    pub fn has(self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether a rule is broken: none is.
    #[cfg(not(test))]
    pub const fn has(self, _: Bug) -> bool {
        false
    }
}
