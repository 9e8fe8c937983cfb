//! Names of a node: those of this machine's directory, or with a runtime those of all nodes, which it keeps there too.

use super::Names;
use super::directory::DirectoryNames;
use crate::description::Description;
use crate::directory::Directory;
use crate::error::Result;
use crate::runtime::{self, Connection, Reply, Request};
use std::num::NonZeroU64;
use std::time::Duration;

/// Names that a node's programs use.
#[derive(Debug)]
pub struct NodeNames {
    directory: Directory,
    local: DirectoryNames,
}

impl NodeNames {
    pub(crate) fn new(directory: Directory, local: DirectoryNames) -> NodeNames {
        NodeNames { directory, local }
    }

    /// Asks the runtime, if this node ever had one: what it does not know of would be two objects of one name.
    fn ask(&self, request: &Request) -> Result<Option<(Reply, Connection)>> {
        if !runtime::is_expected(&self.directory)? {
            return Ok(None);
        }
        let mut connection = Connection::open(&self.directory)?;
        Ok(Some((connection.ask(request)?, connection)))
    }
}

impl Names for NodeNames {
    fn put(&self, name: &str, description: &Description) -> Result<Description> {
        if let Some(there) = self.local.get(name)? {
            return Ok(there);
        }
        let request = Request::Create { name: name.into(), description: description.clone() };
        match self.ask(&request)? {
            None => self.local.put(name, description),
            Some((Reply::Created(there), _)) => Ok(there),
            Some((other, connection)) => Err(connection.failed(format!("it answered {other:?}"))),
        }
    }

    fn get(&self, name: &str) -> Result<Option<Description>> {
        self.local.get(name)
    }

    fn wait(&self, name: &str, timeout: Duration) -> Result<Option<Description>> {
        self.local.wait(name, timeout)
    }

    fn remove(&self, name: &str, id: NonZeroU64) -> Result<bool> {
        match self.ask(&Request::Remove { name: name.into(), id })? {
            None => self.local.remove(name, id),
            Some((Reply::Removed(removed), _)) => Ok(self.local.remove(name, id)? || removed),
            Some((other, connection)) => Err(connection.failed(format!("it answered {other:?}"))),
        }
    }

    fn discard(&self, name: &str) -> Result<bool> {
        self.local.discard(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.local.list()
    }
}
