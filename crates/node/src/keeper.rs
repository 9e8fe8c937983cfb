//! The etcd that this node starts for all, and starts again when it has ended.

use crate::error::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use stillframe_etcd::{Child, ChildOptions};
use stillframe_kernel::points;

/// How often it is looked whether it runs, and how long to wait before it is started once more.
const LOOK: Duration = Duration::from_millis(50);

/// How long an etcd that ends with its runtime may keep the port that the next one is to have.
const PORT_LIMIT: Duration = Duration::from_secs(30);

/// An etcd that goes on at one address, with what it keeps in memory, until this is dropped.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    address: String,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    options: ChildOptions,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    child: Option<Child>,
    has_ended: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self) {
        let mut state = self.state();
        while !state.has_ended {
            let is_on = |state: &mut State| !state.has_ended;
            let waited = self.changed.wait_timeout_while(state, LOOK, is_on);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if !state.has_ended && !state.child.as_ref().is_some_and(Child::is_running) {
                state.child = None;
                drop(state);
                points::hit("keeper.ended");
                // Where it cannot be started now, perhaps it can be in a moment.
                let started = self.options.clone().start().ok();
                points::hit("keeper.again");
                state = self.state();
                state.child = started;
            }
        }
        state.child = None;
    }
}

impl Keeper {
    /// Starts one, where another one ran `before` at the same port if that is said.
    ///
    /// # Errors
    /// Those of the etcd, and of a thread that is started.
    pub(crate) fn start(options: ChildOptions, before: Option<u16>) -> Result<Keeper> {
        let begin = Instant::now();
        let options = before.into_iter().fold(options, ChildOptions::port);
        let child = loop {
            match options.clone().start() {
                Err(_) if before.is_some() && begin.elapsed() < PORT_LIMIT => thread::sleep(LOOK),
                started => break started?,
            }
        };
        let address = child.endpoint().to_owned();
        let options = port_of(&address).into_iter().fold(options, ChildOptions::port);
        let state = Mutex::new(State { child: Some(child), has_ended: false });
        let shared = Arc::new(Shared { options, state, changed: Condvar::new() });
        let keep = {
            let shared = shared.clone();
            move || shared.keep()
        };
        let named = thread::Builder::new().name("stillframe-keeper".into()).spawn(keep);
        let thread = Some(named.map_err(Error::io("clone", "keeper"))?);
        Ok(Keeper { shared, address, thread })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The number of its process, while it runs.
    pub(crate) fn process(&self) -> Option<u32> {
        self.shared.state().child.as_ref().map(Child::process)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.state().has_ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The port of an address with a scheme.
pub(crate) fn port_of(address: &str) -> Option<u16> {
    address.rsplit(':').next()?.trim_end_matches('/').parse().ok()
}
