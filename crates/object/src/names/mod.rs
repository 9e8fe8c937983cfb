//! Where the names of objects are kept.
//!
//! On one machine that is a directory. What keeps them for many nodes implements the same trait, and passes the same tests
//! (`tests/it/names.rs`).

pub mod directory;
pub mod node;

use crate::description::Description;
use crate::error::Result;
use std::fmt::Debug;
use std::time::Duration;

/// What keeps the names of objects. All calls may be made from any thread and process at any time.
pub trait Names: Send + Sync + Debug {
    /// Gives a name its description, unless it has one; what it has then. Of several who try at a time all get the same, and
    /// once the call has returned everybody finds it.
    ///
    /// # Errors
    /// Those of the keeper. A description that is too long is refused.
    fn put(&self, name: &str, description: &Description) -> Result<Description>;

    /// The description of a name.
    ///
    /// # Errors
    /// Those of the keeper.
    fn get(&self, name: &str) -> Result<Option<Description>>;

    /// As [`get`](Names::get), and waits for it to be there, at most so long.
    ///
    /// # Errors
    /// Those of the keeper.
    fn wait(&self, name: &str, timeout: Duration) -> Result<Option<Description>>;

    /// Takes away a name that has the description with this id; whether it did.
    ///
    /// # Errors
    /// Those of the keeper.
    fn remove(&self, name: &str, id: std::num::NonZeroU64) -> Result<bool>;

    /// Takes away a name whatever its description, and also if that cannot be understood; whether there was one. A keeper
    /// whose descriptions cannot be damaged need not do more than this.
    ///
    /// # Errors
    /// Those of the keeper.
    fn discard(&self, name: &str) -> Result<bool> {
        match self.get(name)? {
            Some(there) => self.remove(name, there.id),
            None => Ok(false),
        }
    }

    /// All names, sorted.
    ///
    /// # Errors
    /// Those of the keeper.
    fn list(&self) -> Result<Vec<String>>;
}
