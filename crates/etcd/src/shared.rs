//! What all handles of an etcd have together.

use crate::client::Client;
use crate::error::Result;
use crate::gather::{self, Create};
use crate::keys::Keys;
use crate::options::Options;
use crate::reactor::Reactor;
use crate::watch::Watch;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stillframe_kernel::fork;
use tokio::sync::mpsc;

#[derive(Debug)]
pub(crate) struct Shared {
    pub reactor: Reactor,
    pub client: Arc<Client>,
    pub keys: Keys,
    /// Whether a node has joined by it.
    pub has_node: AtomicBool,
    creates: mpsc::UnboundedSender<Create>,
    watch: Mutex<Option<Arc<Watch>>>,
    grace: Duration,
    generation: u32,
}

impl Shared {
    pub fn new(options: &Options) -> Result<Shared> {
        options.check()?;
        let (reactor, client) = (Reactor::start()?, Arc::new(Client::new(options)?));
        let (creates, arriving) = mpsc::unbounded_channel();
        reactor.spawn(gather::run(client.clone(), arriving));
        Ok(Shared {
            reactor,
            client,
            keys: Keys::new(&options.prefix),
            has_node: AtomicBool::new(false),
            creates,
            watch: Mutex::default(),
            grace: options.grace,
            generation: fork::generation(),
        })
    }

    /// Has something created; whether anybody is there to do it.
    pub fn create(&self, create: Create) -> bool {
        fork::generation() == self.generation && self.creates.send(create).is_ok()
    }

    /// How long an answer to that may take: those before it are asked for, too, and some are asked for twice.
    pub fn limit(&self) -> Duration {
        self.client.deadline.saturating_mul(5)
    }

    /// The one watch of this handle, begun when somebody first needs it.
    pub fn watch(&self) -> Arc<Watch> {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = || Watch::start(&self.reactor, self.client.clone(), self.keys.clone(), self.grace);
        watch.get_or_insert_with(begin).clone()
    }
}
