//! Names of a node: those of this machine's directory, or with a runtime those of all nodes, which it keeps there too.

use super::Names;
use super::directory::DirectoryNames;
use crate::description::Description;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::runtime::{self, Connection, Reply, Request};
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use stillframe_kernel::fork;

/// Names that a node's programs use.
#[derive(Debug)]
pub struct NodeNames {
    directory: Directory,
    local: DirectoryNames,
    /// Asked while the runtime is waited for.
    interrupt: Interrupt,
    /// A connection for the next create, as the runtime has a thread for each; and of which fork the process is that opened it.
    spare: Mutex<Option<(u32, Connection)>>,
}

impl NodeNames {
    pub(crate) fn new(directory: Directory, local: DirectoryNames, interrupt: Interrupt) -> NodeNames {
        NodeNames { directory, local, interrupt, spare: Mutex::default() }
    }

    /// Asks the runtime, if this node ever had one: what it does not know of would be two objects of one name.
    fn ask(&self, name: &str, request: &Request) -> Result<Option<(Reply, Connection)>> {
        if !runtime::is_expected(&self.directory)? {
            return Ok(None);
        }
        let mut connection = Connection::open(&self.directory)?;
        match connection.exchange(request, &|| self.interrupt.check(name))? {
            Reply::Failed(why) => Err(connection.failed(why)),
            reply => Ok(Some((reply, connection))),
        }
    }

    /// The same of a create, by a connection that is kept. Asking twice does no harm: whoever comes second finds what he created.
    fn ask_create(&self, name: &str, request: &Request) -> Result<Option<Reply>> {
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = fork::generation();
        // That of a parent brings what the parent asked.
        let mut kept = spare().take().filter(|(opened, _)| *opened == generation).map(|(_, connection)| connection);
        // Whoever has a connection has a runtime.
        if kept.is_none() && !runtime::is_expected(&self.directory)? {
            return Ok(None);
        }
        loop {
            let is_kept = kept.is_some();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => Connection::open(&self.directory)?,
            };
            match connection.exchange(request, &|| self.interrupt.check(name)) {
                Ok(Reply::Failed(why)) => return Err(connection.failed(why)),
                Ok(reply) => {
                    *spare() = Some((generation, connection));
                    return Ok(Some(reply));
                }
                // The runtime that it led to has ended, and there may be another.
                Err(_) if is_kept && connection.has_ended() => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Names for NodeNames {
    fn put(&self, name: &str, description: &Description) -> Result<Description> {
        // Beside a runtime that runs, others may have removed what is still there: it knows, or finds out.
        if let Some(there) = self.local.get(name)?
            && !runtime::is_running(&self.directory)?
        {
            return Ok(there);
        }
        let request = Request::Create { name: name.into(), description: description.clone() };
        match self.ask_create(name, &request)? {
            None => self.local.put(name, description),
            Some(Reply::Created(there)) => Ok(there),
            Some(other) => Err(runtime::failed(&self.directory, format!("it answered {other:?}"))),
        }
    }

    fn get(&self, name: &str) -> Result<Option<Description>> {
        self.local.get(name)
    }

    fn wait(&self, name: &str, timeout: Duration) -> Result<Option<Description>> {
        self.local.wait(name, timeout)
    }

    fn remove(&self, name: &str, id: NonZeroU64) -> Result<bool> {
        match self.ask(name, &Request::Remove { name: name.into(), id })? {
            None => self.local.remove(name, id),
            Some((Reply::Removed(removed), _)) => Ok(self.local.remove(name, id)? || removed),
            Some((other, connection)) => Err(connection.failed(format!("it answered {other:?}"))),
        }
    }

    fn discard(&self, name: &str) -> Result<bool> {
        // Who repairs a directory that keeps its runtime from starting has none that he could ask.
        if !runtime::is_running(&self.directory)? {
            return self.local.discard(name);
        }
        match self.local.get(name) {
            // Never the next one of that name, which another node may create meanwhile.
            Ok(Some(there)) => self.remove(name, there.id),
            Ok(None) => Ok(false),
            Err(Error::Corrupt { .. }) => match self.ask(name, &Request::Discard { name: name.into() })? {
                None => self.local.discard(name),
                Some((Reply::Removed(removed), _)) => Ok(self.local.discard(name)? || removed),
                Some((other, connection)) => Err(connection.failed(format!("it answered {other:?}"))),
            },
            Err(error) => Err(error),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        self.local.list()
    }
}
