//! The files by which those are woken who wait for versions (`stillframe_segment::bell`), and the threads that sleep on them for others.

use super::PAUSE;
use crate::error::{Error, Result};
use crate::socket::{explain, system};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use stillframe_kernel::folder::{Access, Folder};
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::map::Mapping;
use stillframe_kernel::trust::Guard;
use stillframe_kernel::{Failure, futex, space};
use stillframe_segment::bell::{BELL_BYTES, COUNT_AT, FILE, LOCK_AT, SURE_AT};

/// How long a thread sleeps on a bell at a time. The one ring in 2^32 that wakes nobody comes so late.
const SLEEP: Duration = Duration::from_secs(1);

/// The file beside an arena, which is there from now on.
#[derive(Debug)]
pub(crate) struct Bell {
    file: File,
    map: Mapping,
}

impl Bell {
    pub(crate) fn make(folder: &Folder, path: &Path, guard: Guard, mode: u32) -> Result<Bell> {
        let path = path.join(FILE);
        let opened = guard.open(folder, FILE, Access::CreateExact(mode));
        let (file, about) = opened.map_err(|refused| explain(&path, refused))?;
        if about.bytes < BELL_BYTES as u64 {
            file.set_len(BELL_BYTES as u64).map_err(|error| system(&path, "ftruncate", error))?;
        }
        let fail = |failure| Error::System { path: path.clone(), failure };
        // Writing where there is no memory would end the process.
        space::take(&file, 0, BELL_BYTES as u64).map_err(fail)?;
        let map = Mapping::shared(&file, 0, BELL_BYTES, true).map_err(fail)?;
        Ok(Bell { file, map })
    }

    fn count(&self) -> &AtomicU32 {
        self.map.word32(COUNT_AT)
    }

    /// Has everybody look who sleeps on it.
    pub(crate) fn ring(&self) {
        self.count().fetch_add(1, Release);
        futex::wake_all(self.count());
    }

    /// Takes the lock by which others know that the agent lives; `false` if somebody is in the way.
    pub(crate) fn try_lock(&self) -> Result<bool, Failure> {
        lock::try_lock(&self.file, Kind::Write, LOCK_AT, 1)
    }

    /// Says whether it is rung whenever something is published. Those who relied on it look when they no longer can.
    pub(crate) fn set_sure(&self, is_sure: bool) {
        let (word, says) = (self.map.word32(SURE_AT), u32::from(is_sure));
        let said = word.load(Acquire);
        if said != says {
            word.store(says, Release);
        }
        if said == 1 && !is_sure {
            self.ring();
        }
    }
}

/// A thread that rings elsewhere whenever a bell was rung. It has as long as it likes for that: others are not held up by whom it rings.
#[derive(Debug)]
pub(crate) struct Ringer {
    bell: Arc<Bell>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Ringer {
    /// # Errors
    /// As pthread_create(3).
    pub(crate) fn start(
        bell: &Arc<Bell>,
        mut ring: impl FnMut() -> Result<(), Failure> + Send + 'static,
    ) -> io::Result<Ringer> {
        let (bell, is_over) = (bell.clone(), Arc::new(AtomicBool::new(false)));
        let (own, ends) = (bell.clone(), is_over.clone());
        let thread = thread::Builder::new().name("doorbell".into()).stack_size(64 << 10).spawn(move || {
            let mut seen = own.count().load(Acquire);
            // Something may have been published before.
            while !ends.load(Acquire) && ring().is_ok() {
                thread::sleep(PAUSE);
                while own.count().load(Acquire) == seen && !ends.load(Acquire) {
                    futex::wait(own.count(), seen, Some(SLEEP));
                }
                seen = own.count().load(Acquire);
            }
        })?;
        Ok(Ringer { bell, is_over, thread })
    }

    /// Has it ring no more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Release);
        // Whoever else is woken by this looks once for nothing.
        futex::wake_all(self.bell.count());
    }

    /// Whether the thread has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

impl Drop for Ringer {
    fn drop(&mut self) {
        self.end();
    }
}
