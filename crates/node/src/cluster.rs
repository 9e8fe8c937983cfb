//! Which nodes there are, which is the home of an object, and who keeps the names.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use stillframe_object::Names;
use stillframe_roster::writer::{Node, Revision};
use stillframe_wire::ObjectId;

/// What a runtime knows of the others.
pub trait Cluster: Send + Sync + Debug {
    /// The nodes that live, this one among them.
    fn nodes(&self) -> Vec<Node>;

    /// What a node is called.
    fn host(&self, node: Node) -> String;

    /// Where its runtime listens.
    fn address(&self, node: Node) -> String;

    /// The home of an object and its term; `None` while nobody is.
    fn home(&self, object: ObjectId) -> Option<(Node, Revision)>;

    /// Numbers that living nodes had before their runtimes were started again, as far as this one has heard: each with the number of now.
    fn replaced(&self) -> Vec<(Node, Node)>;

    /// After how long a node that is not heard of counts as lost.
    fn lease(&self) -> Duration;

    /// Who keeps the names of objects for all nodes.
    fn names(&self) -> Arc<dyn Names>;
}
