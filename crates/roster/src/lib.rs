//! Who writes what of an object that many processes hold, and which of its versions are complete.
//!
//! An *object* has a global space of indices. *Writers* attach *fragments* of it, each a set of boxes, on any *nodes*. This
//! crate decides, and does nothing: no input, no output, no clock. Boxes and sets of them are those of `drepl`.
//!
//! # The rules
//!
//! * **Stages.** A writer says from which version on it writes what, or nothing: a [`Stage`](writer::Stage). Stages of a
//!   writer ascend, and lie above what it published. The **roster** of a version is all writers with elements in it. An
//!   **epoch** begins with each stage. Neither is kept: both follow from the stages ([`Ledger`](ledger::Ledger)).
//! * **Overlap.** Two fragments with common elements from the same version on are an error that names both. If one was
//!   there before, it may still be changed until its writer publishes a version that both have: then the younger one is
//!   refused. Until it is settled neither is ready, and nothing is complete. *Replicas* are not members: who keeps a copy
//!   does not attach it as a fragment.
//! * **Closed.** A roster is closed when its members cover the object, or when there are as many as the program said. A
//!   version whose roster was proposed is fixed: a fragment that would change it is refused as too late. So the
//!   writers that make up the first version attach before their elements are covered by others.
//! * **Whole, complete.** A version is *whole* when its roster is closed and all members have it. It is *complete* when,
//!   besides, all nodes of its members pin it, and the home has announced so. The initial version is complete at once.
//! * **Pins.** A runtime keeps the pins of the newest decision that it heard: the announced version and the proposed one.
//!   So the pin before is let go only when a newer version was announced. A pin counts only in a report that answers the
//!   proposal. A pin that was given up for want of memory is not taken again; all nodes are told.
//! * **Homes.** Each message has the revision of a home. A runtime that knows of a newer home obeys no former one; a former
//!   home that sees a newer revision decides no more. A new home decides nothing until all nodes have reported to it or
//!   are said to be lost. It goes on from the newest version that they know to be complete, or all pin.
//! * **Ceilings.** A home announces only what lies below a [ceiling](message::Ceiling) that all nodes which report to it have
//!   acknowledged, and nothing without a node that the ceiling names, until that one has acknowledged another. So a new home knows:
//!   where a node that reports is named by the ceiling that it heard last, nothing was announced that it has not pinned; else, if
//!   that names a lost node, versions up to there may have been complete. It takes the highest for one that was, and is gone: no
//!   number is given once more. What nodes pin of the version before stays. A node that joins counts from its first
//!   acknowledgement on; a lost one does not.
//! * **Readers** wait for elements of one version: they are ready when the members that have them published that version.
//! * **Death.** A writer that died is a member of no version above its newest. Its elements of later versions are lost
//!   ([`Cause`](readiness::Cause)) until another writer attaches them. With a node goes what its writers published. A node that
//!   comes back is another node.
//! * **Heirs.** What a writer published that left or died stays until another one attaches some of its elements. That one, the
//!   heir, may begin with any version that was not proposed: so it goes on from the newest complete one. From there on the
//!   dead one is a member of no version, and what it published counts for nothing; its node is told.
//! * **Returns.** A machine that was lost and comes back has no part in versions that were proposed without it, whoever has
//!   written them: its writers end before these, or are refused if they live. What it had a part in stays.
//! * **Runs.** Where all runtimes of a job were started again, what their nodes remember as complete stays the newest version. Where a
//!   part of it is not there it is announced as gone, until a machine that was late has that part; nobody begins with its number.
//!
//! # Inputs and outputs
//!
//! | machine | input | output |
//! |---|---|---|
//! | [`Runtime`](runtime::Runtime), of a node | `declare`, `publish`, `drop`, `die`, `end`; `want`, `unwant`; `hold`, `give_up`; `follow`; `hear(Decision)` | `report()`, [`Event`](runtime::Event)s |
//! | [`Home`](home::Home), of an object | `admit`, `lose`; `receive(Report)` | `decision(node)` |
//! | [`Ledger`](ledger::Ledger), without messages | `declare`, `note`, `die`, `forget`, `lose`, `settle`, `unsettle` | `roster`, `is_whole`, `newest_whole`, `readiness`, `holes` |
//!
//! | state of a version | until |
//! |---|---|
//! | open | its roster is closed and all members have it: whole |
//! | whole | the home proposes it: proposed, its roster fixed |
//! | proposed | all nodes of its members pin it: announced; or one cannot: given up |
//! | announced | a newer one is announced; or a node gives up its pin or is lost: unpinned, and told |
//!
//! [Messages](message) say all that their sender knows, and a serial says which is newer. So whoever sends may send again
//! at any time, and whoever receives may lose some, get some twice, and in any order.
//!
//! On one machine without a server each process makes a ledger of what lies in shared files, and declares under the
//! lock of the object. `newest_whole` is then the newest complete version: what the engine calls the common version of a
//! group, whose rule of retention keeps one at all times.
//!
//! Small worlds of all this are explored to their last state by the model checker in `src/model`.
#![forbid(unsafe_code)]

mod derived;
mod floors;
mod heirs;
pub mod home;
pub mod ledger;
pub mod message;
#[cfg(test)]
mod model;
mod near;
mod planted;
pub mod readiness;
pub mod refusal;
pub mod roster;
pub mod runtime;
mod tally;
pub mod writer;
