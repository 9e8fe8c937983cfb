//! What runtimes and homes of objects tell each other: the messages of `stillframe-roster`, for many objects at once.

mod change;
mod decision;
mod declared;
mod description;
mod proposal;
mod readiness;
mod record;
mod refusal;
mod report;

pub use change::ObjectChange;
pub use decision::ObjectDecision;
pub use declared::{Ask, Declared, Layouts, Roster, RosterChange};
pub use description::{Describe, Description};
pub use report::ObjectReport;
