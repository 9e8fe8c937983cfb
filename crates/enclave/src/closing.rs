//! How connections are closed that may have files in them.
//!
//! Where the kernel lets clients send files, the last close of one may wait for as long as who sent it likes (`SO_LINGER`), and closing a
//! connection closes the files that nobody took out of it. So threads do that for which nobody waits.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use stillframe_kernel::local::{self, Listener};

/// The threads that close connections. Where all of them wait, further connections stay open, and take a descriptor each.
const THREADS: usize = 16;

/// Closes the connections of one listener.
#[derive(Debug)]
pub(crate) struct Closing {
    /// Where nobody can send files, there is nothing to wait for.
    queue: Option<Arc<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<(VecDeque<OwnedFd>, bool)>,
    changed: Condvar,
}

impl Closing {
    /// # Errors
    /// As pthread_create(3).
    pub(crate) fn of(listener: &Listener) -> io::Result<Closing> {
        let closing = Closing { queue: (!listener.refuses_files).then(Arc::default) };
        if let Some(queue) = &closing.queue {
            for _ in 0..THREADS {
                let queue = queue.clone();
                thread::Builder::new().name("close".into()).stack_size(64 << 10).spawn(move || queue.close_all())?;
            }
        }
        Ok(closing)
    }

    /// Whether clients can send files.
    pub(crate) fn may_wait(&self) -> bool {
        self.queue.is_some()
    }

    /// Closes a connection, at once or by a thread. Who connected can take what was sent to him.
    pub(crate) fn close(&self, socket: OwnedFd) {
        if let Some(queue) = &self.queue {
            local::end(&socket);
            queue.state.lock().unwrap_or_else(PoisonError::into_inner).0.push_back(socket);
            queue.changed.notify_one();
        }
    }
}

impl Queue {
    /// Closes what comes, until nothing more will.
    fn close_all(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match state.0.pop_front() {
                Some(socket) => {
                    drop(state);
                    drop(socket);
                    state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                }
                None if state.1 => return,
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            queue.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
            queue.changed.notify_all();
        }
    }
}
