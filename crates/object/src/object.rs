//! An object, as one process knows it.

use crate::attach::WriteOptions;
use crate::collection::{self, Patience};
use crate::description::Description;
use crate::error::{Result, Writer};
use crate::home;
use crate::member::{Members, Standing};
use crate::read::ReadOptions;
use crate::shared::Shared;
use crate::waiting::{self, Deadline};
use drepl::{Fragment, Schema};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An object. Copies are the same one, and it can be used from several threads.
#[derive(Debug, Clone)]
pub struct Object {
    shared: Arc<Shared>,
    members: Arc<Mutex<Members>>,
}

/// One writer of an object.
#[derive(Debug, Clone)]
pub struct WriterInfo {
    /// Its number, which no other fragment of the object has or had.
    pub number: u32,
    /// The process, and its rank if it said so.
    pub who: Writer,
    /// Whether it lives and has its fragment attached.
    pub is_alive: bool,
    /// The first version that it writes.
    pub from: u64,
    /// The first version that it does not write any more, if it detached.
    pub left: Option<u64>,
    /// Its newest version.
    pub newest: Option<u64>,
    /// The versions of it that can be had, ascending.
    pub versions: Vec<u64>,
    /// The text of its fragment, and the numbers of the names that it leaves open.
    pub text: String,
    /// See `text`.
    pub bindings: BTreeMap<String, i64>,
    /// What lies where in it.
    pub fragment: Arc<Fragment>,
    /// The name of its region.
    pub region: String,
}

impl WriterInfo {
    /// Whether it is gone, and no version from this complete one on needs anything of it: [`Object::collect`] removes it if this
    /// is the newest.
    pub fn is_unneeded(&self, complete: u64) -> bool {
        !self.is_alive && collection::is_unneeded(self.from, self.left, self.newest, complete)
    }
}

impl Object {
    pub(crate) fn new(shared: Shared) -> Object {
        Object { shared: Arc::new(shared), members: Arc::default() }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// What it was created with.
    pub fn description(&self) -> &Description {
        &self.shared.description
    }

    /// Its variables.
    pub fn schema(&self) -> &Schema {
        &self.shared.schema
    }

    /// Attaches a fragment to write: `{ var g [x:16,y:32] = grid[x+xmin,y+ymin] }`, or with `view` and a name before the
    /// brace, any view of the layout language.
    pub fn write(&self, text: &str) -> WriteOptions {
        WriteOptions::new(&self.shared, text)
    }

    /// Attaches a fragment to read. What lies beyond the rim of the object is zero, or what the text says by `fill`.
    pub fn read(&self, text: &str) -> ReadOptions {
        ReadOptions::new(&self.shared, text)
    }

    /// Waits until the runtime of this node has heard what is complete on other nodes, at most so long; not at all where none runs.
    /// [`Objects::wait`](crate::Objects::wait) has waited for it already.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn wait_heard(&self, timeout: Duration) -> Result<()> {
        home::wait_heard(&self.shared, Deadline::after(timeout))
    }

    /// The newest complete version: one that all writers published, and of which the object's home has said so, if this node has or had
    /// a runtime. The initial version, which is zeros, is complete from the beginning. A version stays complete where this node lost its
    /// part of it, whose runtime was killed; so does the highest one that a home may have completed which was lost together with all
    /// writers. Who reads it then is told so.
    ///
    /// # Errors
    /// [`Error::Removed`](crate::Error::Removed); those of reading the object's files.
    pub fn newest(&self) -> Result<u64> {
        waiting::newest_known(&self.shared, &mut self.members())
    }

    /// The complete versions that can be had, ascending, without the initial one.
    ///
    /// # Errors
    /// As [`newest`](Object::newest).
    pub fn versions(&self) -> Result<Vec<u64>> {
        waiting::complete(&self.shared, &mut self.members())
    }

    /// Waits for a complete version above `after`, at most so long, and returns the newest.
    ///
    /// # Errors
    /// [`Error::NoNewer`](crate::Error::NoNewer) when the time is over, with whom was waited for; [`Error::Ended`](crate::Error::Ended) if
    /// all writers have left;
    /// [`Error::Lost`](crate::Error::Lost) if those that it needs died; [`Error::Removed`](crate::Error::Removed).
    pub fn wait_newer(&self, after: u64, timeout: Duration) -> Result<u64> {
        let mut members = Members::default();
        waiting::wait_newer(&self.shared, &mut members, after, Deadline::after(timeout))
    }

    /// Waits until a version is complete, at most so long.
    ///
    /// # Errors
    /// As [`ReadFragment::reattach`](crate::ReadFragment::reattach), of a fragment that wants all elements.
    pub fn wait_for(&self, version: u64, timeout: Duration) -> Result<()> {
        let shape = self.shared.space.shape().map_err(self.shared.scattered())?;
        let mut members = Members::default();
        let deadline = Deadline::after(timeout);
        waiting::wait(&self.shared, &mut members, version, &shape, deadline, |_, _, _| false)?;
        waiting::wait_counted(&self.shared, &mut members, version, deadline)
    }

    /// The fragments to write that are or were attached, in the order in which they were attached. Those of which no complete
    /// version needs anything are forgotten in time.
    ///
    /// # Errors
    /// As [`newest`](Object::newest).
    pub fn writers(&self) -> Result<Vec<WriterInfo>> {
        let mut members = self.members();
        let standings = members.look(&self.shared)?;
        let has_versions = |standing: &Standing| standing.is_alive || standing.newest.is_some();
        waiting::check_kept(&self.shared, !standings.values().any(has_versions))?;
        let info = |(number, member): (&u32, &crate::member::Member)| {
            let standing = standings.get(number).cloned().unwrap_or_default();
            WriterInfo {
                number: *number,
                who: Writer(member.who()),
                is_alive: standing.is_alive && (member.left.is_none() || member.is_kept()),
                from: member.attached.from,
                left: member.left.filter(|_| !member.is_kept()),
                newest: standing.newest,
                versions: standing.present.into_iter().collect(),
                text: member.attached.text.clone(),
                bindings: member.attached.bindings.clone(),
                fragment: member.fragment.clone(),
                region: format!("{}/{}", crate::shared::ARENA, self.shared.region(*number)),
            }
        };
        Ok(members.list.iter().map(info).collect())
    }

    /// Whether any writer lives.
    ///
    /// # Errors
    /// As [`newest`](Object::newest).
    pub fn is_alive(&self) -> Result<bool> {
        Ok(self.writers()?.iter().any(|writer| writer.is_alive))
    }

    /// Removes what no complete version needs any more of writers that left or died. Writers do so by themselves.
    ///
    /// # Errors
    /// As [`newest`](Object::newest).
    pub fn collect(&self) -> Result<()> {
        let shared = self.shared.writing()?;
        let mut board = shared.board.lock()?;
        let unneeded = collection::find_unneeded(&shared, &mut board)?;
        drop(board);
        collection::remove(&shared, &unneeded, Patience::Waits)
    }
}
