//! The one thread of this crate: it does all that waits for etcd. Callers wait for what it brings, at most until their deadline.

use crate::error::{Error, Result};
use std::future::Future;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use stillframe_kernel::{fork, thread::Thread};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How much longer than its deadline a call is waited for: it ends by itself unless its thread is stopped.
const SPARE: Duration = Duration::from_secs(2);

/// The thread, which ends with this value, and with it whatever it was doing.
#[derive(Debug)]
pub(crate) struct Reactor {
    handle: Handle,
    generation: u32,
    end: Option<(oneshot::Sender<()>, Thread)>,
}

impl Reactor {
    pub fn start() -> Result<Reactor> {
        let io = |call, error: std::io::Error| Error::io(call, "stillframe-etcd", &error);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| io("epoll_create", error))?;
        let (handle, (end, ended)) = (runtime.handle().clone(), oneshot::channel());
        let run = move || drop(runtime.block_on(ended));
        let thread = Thread::start("stillframe-etcd", run).map_err(|error| io("pthread_create", error))?;
        Ok(Reactor { handle, generation: fork::generation(), end: Some((end, thread)) })
    }

    /// Does `work` beside whatever else there is.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Does `work` and waits for it. It has a deadline of its own, which is `limit`.
    pub fn wait<T: Send + 'static>(
        &self,
        call: &'static str,
        limit: Duration,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        if fork::generation() != self.generation {
            return Err(Error::Gone { call });
        }
        let (sender, receiver) = sync_channel(1);
        self.handle.spawn(async move {
            // Whoever asked may have given up.
            let _ = sender.send(work.await);
        });
        receiver.recv_timeout(limit.saturating_add(SPARE)).unwrap_or(Err(Error::Gone { call }))
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        let Some((end, thread)) = self.end.take() else { return };
        // In a forked child the thread is the parent's, and is not there.
        if fork::generation() == self.generation && end.send(()).is_ok() {
            thread.join();
        }
    }
}
