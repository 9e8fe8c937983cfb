//! Fragments to read.

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::layout::{self, Array};
use crate::reading::Reading;
use crate::relief::{NoRelief, Relief};
use crate::shared::{self, Shared};
use crate::waiting::{self, Deadline};
use drepl::executor::Executor;
use drepl::{Fragment, View};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stillframe::{Element, Snapshot};
use stillframe_roster::writer::Version;

/// How long it may take until a newer complete version is announced to this node.
const SOON: Duration = Duration::from_secs(10);

/// Options for attaching a fragment to read; see [`Object::read`](crate::Object::read).
#[derive(Debug, Clone)]
pub struct ReadOptions {
    shared: Arc<Shared>,
    text: String,
    bindings: BTreeMap<String, i64>,
    threads: usize,
    prefetches: bool,
}

impl ReadOptions {
    pub(crate) fn new(shared: &Arc<Shared>, text: &str) -> ReadOptions {
        ReadOptions {
            shared: shared.clone(),
            text: text.into(),
            bindings: BTreeMap::new(),
            threads: 0,
            prefetches: false,
        }
    }

    /// The number of a name that the text leaves open.
    pub fn bind(mut self, name: &str, value: i64) -> Self {
        self.bindings.insert(name.into(), value);
        self
    }

    /// Threads that copy, the caller's among them; 0, which is the default, for one on each processor. More than one copy where
    /// there is much to copy.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Lets the runtime of this node fetch the next version from other nodes while the program works with one: that which is as far
    /// above it as it is above the one before. For programs that read version after version. It takes memory for one version more,
    /// and what is not read then was sent for nothing. On one machine nothing is fetched.
    pub fn prefetch(mut self) -> Self {
        self.prefetches = true;
        self
    }

    /// Attaches the fragment. It shows the initial version, which is zeros, until [`ReadFragment::reattach`] fills it.
    ///
    /// # Errors
    /// [`Error::Text`] with all mistakes of the text; environment if there is no memory for it.
    pub fn attach(self) -> Result<ReadFragment> {
        let shared = self.shared.clone();
        let view = shared.view(&self.text, &shared::bindings(&self.bindings))?;
        let mut reading = Reading::new(&shared, &view.fragment, &self.text, self.bindings)?;
        reading.prefetch(self.prefetches);
        let mut buffer = Buffer::new(shared.board.path(), view.fragment.size_bytes())?;
        begin(&mut buffer, &view)?;
        let (executor, version) = (Executor::new(self.threads), shared.description.initial);
        Ok(ReadFragment { shared, view, reading, buffer, version, published_ns: 0, executor })
    }
}

/// A fragment that is read: memory at one address, in the layout that was asked for, with the elements of one version.
#[derive(Debug)]
pub struct ReadFragment {
    shared: Arc<Shared>,
    view: View,
    reading: Reading,
    buffer: Buffer,
    version: Version,
    /// When the version that was held last was published, by the last of its writers.
    published_ns: u64,
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
    /// those. Beyond the rim of the object all is zero, or what the text says by `fill`.
    ///
    /// Where the elements lie together in the memory of one writer, and are many, its pages are shown and nothing is copied.
    /// Then the version is held until the next reattach.
    ///
    /// # Errors
    /// [`Error::Timeout`], which says whom was waited for; [`Error::Lost`] if an element cannot be had, because its writer died
    /// or let the version go; [`Error::NoMemory`] if this node's runtime has none for what others have of the fragment. The
    /// fragment shows what it showed before, or the initial version if the system took that away.
    pub fn reattach(&mut self, version: u64, timeout: Duration) -> Result<()> {
        if version == self.shared.description.initial {
            self.buffer.clear()?;
            begin(&mut self.buffer, &self.view)?;
            self.published_ns = 0;
        } else {
            let Self { shared, reading, buffer, executor, .. } = self;
            let held = reading.hold(shared, version, Deadline::after(timeout))?;
            let published_ns = held.published_ns();
            if let Err(error) = held.fill(buffer, executor) {
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
    /// that belong to no element stay as they are; those of the initial version all begin anew.
    ///
    /// # Errors
    /// As [`reattach`](ReadFragment::reattach).
    pub fn fill(&mut self, version: u64, timeout: Duration, out: &mut [u8]) -> Result<()> {
        self.fill_with(version, timeout, &NoRelief, out)
    }

    /// The same, of a program that keeps other fragments to read them again, and gives them back where the runtime of its node has no
    /// memory for this one.
    ///
    /// # Errors
    /// As [`fill`](ReadFragment::fill); those of `relief`.
    pub fn fill_with(&mut self, version: u64, timeout: Duration, relief: &dyn Relief, out: &mut [u8]) -> Result<()> {
        if version == self.shared.description.initial {
            self.view.fragment.clear(out);
            self.published_ns = 0;
            return Ok(());
        }
        let held = self.reading.hold_with(&self.shared, version, Deadline::after(timeout), relief)?;
        held.copy(out, &self.executor)?;
        self.published_ns = held.published_ns();
        Ok(())
    }

    /// Copies the elements of the newest complete version into memory of the caller's, as [`fill`](ReadFragment::fill)
    /// does, and returns its number. A version that writers let go before it is held is followed by the next one.
    ///
    /// # Errors
    /// As [`reattach`](ReadFragment::reattach), if no version could be held for so long; [`Error::Removed`].
    pub fn fill_newest(&mut self, timeout: Duration, out: &mut [u8]) -> Result<u64> {
        self.fill_newest_with(timeout, &NoRelief, out)
    }

    /// The same, of a program that keeps other fragments, as [`fill_with`](ReadFragment::fill_with).
    ///
    /// # Errors
    /// As [`fill_newest`](ReadFragment::fill_newest); those of `relief`.
    pub fn fill_newest_with(&mut self, timeout: Duration, relief: &dyn Relief, out: &mut [u8]) -> Result<u64> {
        let deadline = Deadline::after(timeout);
        loop {
            let members = self.reading.members();
            let ledger = members.ledger(&self.shared)?;
            let mut version = waiting::newest_complete(&self.shared, members, &ledger)?;
            if version == self.shared.description.initial {
                // Where a newer one is known, nobody means the initial version, which is zeros.
                version = waiting::newest_known(&self.shared, members)?;
            }
            let left = deadline.left();
            match self.fill_with(version, within(deadline), relief, out) {
                Ok(()) => return Ok(version),
                Err(error) if left.is_zero() => return Err(error),
                Err(error) => self.await_successor(version, error, left)?,
            }
        }
    }

    /// Holds a version of all writers that have wanted elements, and says when the last of them published it.
    pub(crate) fn hold_at(&mut self, version: u64, timeout: Duration) -> Result<(Vec<Snapshot>, u64)> {
        if version == self.shared.description.initial {
            return Ok((Vec::new(), 0));
        }
        let held = self.reading.hold(&self.shared, version, Deadline::after(timeout))?;
        let published_ns = held.published_ns();
        Ok((held.into_snapshots(), published_ns))
    }

    /// Fills it with the newest complete version above `after`, waiting for one at most so long, and returns its number. Without a time to
    /// wait, one that is complete is brought all the same if others have it.
    ///
    /// # Errors
    /// As [`Object::wait_newer`](crate::Object::wait_newer), and as [`reattach`](ReadFragment::reattach).
    pub fn reattach_newer(&mut self, after: u64, timeout: Duration) -> Result<u64> {
        let deadline = Deadline::after(timeout);
        loop {
            let version = waiting::wait_newer(&self.shared, self.reading.members(), after, deadline)?;
            match self.reattach(version, within(deadline)) {
                Ok(()) => return Ok(version),
                Err(error) => self.await_successor(version, error, deadline.left())?,
            }
        }
    }

    /// Waits for a version newer than one that could not be read because of an error: there is one, or that is the outcome.
    fn await_successor(&mut self, version: u64, error: Error, left: Duration) -> Result<()> {
        match error {
            // Writers went on meanwhile.
            Error::Lost { complete: Some(complete), .. } if complete > version => Ok(()),
            // Of other nodes' that is heard a little later.
            Error::LostElsewhere { .. } => {
                let soon = Deadline::after(SOON.min(left));
                match waiting::wait_newer(&self.shared, self.reading.members(), version, soon) {
                    Err(interrupted @ Error::Interrupted { .. }) => Err(interrupted),
                    newer => newer.map(drop).map_err(|_| error),
                }
            }
            error => Err(error),
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

    /// Lets go of it, and waits until the runtime of this node has back what it took for it: who reads another fragment then finds that
    /// memory. A runtime that is stopped is waited for ten seconds.
    ///
    /// # Errors
    /// [`Error::Interrupted`]. It is let go of all the same.
    pub fn give_back(self) -> Result<()> {
        self.reading.give_back(&self.shared)
    }
}

/// For how long a complete version may be waited for by who wants the newest one by a deadline. Who waits for nobody has it all the same: it
/// has only to be brought.
fn within(deadline: Deadline) -> Duration {
    if deadline.is_zero() { Duration::ZERO } else { deadline.left().max(waiting::LOOK) }
}

/// Gives the holes of a fragment, whose memory is zeros, what its text says that they have.
fn begin(buffer: &mut Buffer, view: &View) -> Result<()> {
    if view.fragment.fills() {
        view.fragment.clear(buffer.bytes_mut()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Objects;

    #[test]
    fn who_waits_for_the_successor_of_a_lost_version_can_be_interrupted() {
        let place = tempfile::Builder::new().prefix("stillframe-test-read-").tempdir_in("/dev/shm").unwrap();
        // Who is interrupted is so before the time is over, however busy the machine is.
        for (is_interrupted, left) in [(true, Duration::MAX), (false, Duration::from_millis(1))] {
            let objects = Objects::options().dir(place.path()).interrupt(move || is_interrupted).open().unwrap();
            let object = objects.create("u", "var u [8] int32").create().unwrap();
            let mut reader = object.read("{ var v = u }").attach().unwrap();
            let lost = Error::LostElsewhere { name: "u".into(), version: 3, why: "it went".into() };
            let error = reader.await_successor(3, lost, left).unwrap_err();
            let expected = if is_interrupted { 3104 } else { 3101 };
            assert_eq!(error.code(), expected, "{error}");
        }
    }
}
