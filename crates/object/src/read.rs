//! Fragments to read.

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::layout::{self, Array};
use crate::member::Members;
use crate::shared::Shared;
use crate::source::Sources;
use crate::waiting::{self, Deadline};
use drepl::executor::Executor;
use drepl::{Bindings, Fragment, IndexSet, View};
use std::sync::Arc;
use std::time::Duration;
use stillframe::{Element, Snapshot};
use stillframe_roster::writer::Version;

/// How often writers may let a version go while it is about to be held, before that is no coincidence.
const ATTEMPTS: usize = 1000;

/// Options for attaching a fragment to read; see [`Object::read`](crate::Object::read).
#[derive(Debug, Clone)]
pub struct ReadOptions {
    shared: Arc<Shared>,
    text: String,
    bindings: Bindings,
    threads: usize,
}

impl ReadOptions {
    pub(crate) fn new(shared: &Arc<Shared>, text: &str) -> ReadOptions {
        ReadOptions { shared: shared.clone(), text: text.into(), bindings: Bindings::new(), threads: 0 }
    }

    /// The number of a name that the text leaves open.
    pub fn bind(mut self, name: &str, value: i64) -> Self {
        self.bindings.set(name, value);
        self
    }

    /// Threads that copy, the caller's among them; 0, which is the default, for one on each processor. More than one copy where
    /// there is much to copy.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Attaches the fragment. It shows the initial version, which is zeros, until [`ReadFragment::reattach`] fills it.
    ///
    /// # Errors
    /// [`Error::Text`] with all mistakes of the text; environment if there is no memory for it.
    pub fn attach(self) -> Result<ReadFragment> {
        let shared = self.shared.clone();
        let view = shared.view(&self.text, &self.bindings)?;
        let wanted = shared.space.elements(&view.fragment).map_err(shared.scattered())?;
        let buffer = Buffer::new(view.fragment.size_bytes())?;
        let (executor, members) = (Executor::new(self.threads), Members::default());
        let version = shared.description.initial;
        Ok(ReadFragment { shared, view, wanted, buffer, version, published_ns: 0, members, sources: None, executor })
    }
}

fn newest_ns(held: &[Snapshot]) -> u64 {
    held.iter().map(Snapshot::published_ns).max().unwrap_or(0)
}

/// A fragment that is read: memory at one address, in the layout that was asked for, with the elements of one version.
#[derive(Debug)]
pub struct ReadFragment {
    shared: Arc<Shared>,
    view: View,
    wanted: IndexSet,
    buffer: Buffer,
    version: Version,
    /// When the version that was held last was published, by the last of its writers.
    published_ns: u64,
    members: Members,
    sources: Option<Sources>,
    executor: Executor,
}

impl ReadFragment {
    /// The name of its object.
    pub fn object(&self) -> &str {
        &self.shared.name
    }

    /// What lies where in it.
    pub fn fragment(&self) -> &Arc<Fragment> {
        &self.view.fragment
    }

    /// The version that it shows.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// When the version that was read last was published, in nanoseconds since 1970: by the last of its writers. 0 of the initial
    /// version.
    pub fn published_ns(&self) -> u64 {
        self.published_ns
    }

    /// Fills it with a version, at the same address: waits at most so long until all wanted elements were published, and only
    /// those. Beyond the rim of the object all is zero.
    ///
    /// Where the elements lie together in the memory of one writer, and are many, its pages are shown and nothing is copied.
    /// Then the version is held until the next reattach.
    ///
    /// # Errors
    /// [`Error::Timeout`], which says whom was waited for; [`Error::Lost`] if an element cannot be had, because its writer died
    /// or let the version go. The fragment shows what it showed before, or the initial version if the system took that away.
    pub fn reattach(&mut self, version: u64, timeout: Duration) -> Result<()> {
        if version == self.shared.description.initial {
            self.buffer.clear()?;
            self.published_ns = 0;
        } else {
            let held = self.hold(version, timeout)?;
            let published_ns = newest_ns(&held);
            let Self { shared, buffer, sources, executor, .. } = self;
            if let Some(sources) = sources
                && let Err(error) = sources.fill(shared, held, buffer, executor)
            {
                if buffer.is_zero() {
                    // Pages could be neither shown nor left as they were.
                    (self.version, self.published_ns) = (shared.description.initial, 0);
                }
                return Err(error);
            }
            self.published_ns = published_ns;
        }
        self.version = version;
        Ok(())
    }

    /// Copies the elements of a version into memory of the caller's, as long as the fragment, which itself stays as it is. Bytes
    /// that belong to no element stay as they are.
    ///
    /// # Errors
    /// As [`reattach`](ReadFragment::reattach).
    pub fn fill(&mut self, version: u64, timeout: Duration, out: &mut [u8]) -> Result<()> {
        if version == self.shared.description.initial {
            out.fill(0);
            self.published_ns = 0;
            return Ok(());
        }
        let held = self.hold(version, timeout)?;
        if let Some(sources) = &self.sources {
            sources.copy(&self.shared, &held, out, &self.executor)?;
        }
        self.published_ns = newest_ns(&held);
        Ok(())
    }

    /// Holds a version of all writers that have wanted elements, and says when the last of them published it.
    pub(crate) fn hold_at(&mut self, version: u64, timeout: Duration) -> Result<(Vec<Snapshot>, u64)> {
        if version == self.shared.description.initial {
            return Ok((Vec::new(), 0));
        }
        let held = self.hold(version, timeout)?;
        let published_ns = newest_ns(&held);
        Ok((held, published_ns))
    }

    /// Holds a version of all writers that have wanted elements, and knows then where these come from.
    fn hold(&mut self, version: u64, timeout: Duration) -> Result<Vec<Snapshot>> {
        let deadline = Deadline::after(timeout);
        let Self { shared, view, wanted, members, sources, .. } = self;
        for _ in 0..ATTEMPTS {
            if members.refresh(shared)? {
                *sources = None;
            }
            let planned = match sources {
                Some(planned) if planned.has(version) => planned,
                _ => {
                    let numbers = waiting::wait(shared, members, version, wanted, deadline)?;
                    sources.insert(Sources::plan(shared, members, &view.fragment, wanted, version, &numbers)?)
                }
            };
            if let Some(held) = planned.hold(version, deadline)? {
                return Ok(held);
            }
            // What can be had, and what is in the way, is looked for from the beginning.
            *sources = None;
            shared.check_interrupt()?;
        }
        Err(Error::Plan { name: shared.name.clone(), why: format!("version {version} went away again and again") })
    }

    /// Fills it with the newest complete version above `after`, waiting for one at most so long, and returns its number.
    ///
    /// # Errors
    /// As [`Object::wait_newer`](crate::Object::wait_newer), and as [`reattach`](ReadFragment::reattach).
    pub fn reattach_newer(&mut self, after: u64, timeout: Duration) -> Result<u64> {
        let deadline = Deadline::after(timeout);
        loop {
            let version = waiting::wait_newer(&self.shared, &mut self.members, after, deadline)?;
            self.sources = None;
            match self.reattach(version, deadline.left().max(waiting::LOOK)) {
                Ok(()) => return Ok(version),
                // Writers went on meanwhile, and there is a newer one.
                Err(Error::Lost { complete: Some(complete), .. }) if complete > version => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// All its bytes, which no reattach moves.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// The address of its first byte, for bindings: it stays until the fragment is dropped.
    pub fn address(&mut self) -> *const u8 {
        self.buffer.address() as *const u8
    }

    /// Whether it shows pages of a writer rather than a copy.
    pub fn is_shown(&self) -> bool {
        self.buffer.shown().is_some()
    }

    /// One of its variables as an array, for bindings: what lies where, and of which type. Without a name, the only one.
    ///
    /// # Errors
    /// [`Error::Variable`] if there is no such variable, or it is none whose numbers lie together.
    pub fn array(&self, name: Option<&str>) -> Result<Array> {
        layout::array(&self.shared.name, &self.view.fragment, name)
    }

    /// The elements of one of its variables, in their order in memory.
    ///
    /// # Errors
    /// [`Error::Variable`] if there is no such variable, or its elements are others or lie apart.
    pub fn variable<T: Element>(&self, name: &str) -> Result<&[T]> {
        let range = layout::range::<T>(&self.shared.name, &self.view.fragment, name)?;
        layout::cast(&self.shared.name, &self.bytes()[range])
    }

    /// Lets go of it.
    pub fn detach(self) {}
}
