//! This process's own node: its lease, and what it holds by it.

use crate::client::Client;
use crate::epoch;
use crate::event::{Event, Home, Told};
use crate::keys::Keys;
use crate::shard::Shard;
use crate::values::{Epoch, NodeInfo};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stillframe_kernel::boot_ns;
use stillframe_roster::writer::{Node, Revision};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How soon a keep-alive that failed is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// How this node stands in etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is a node.
    Joined,
    /// etcd lost its data, and this node with them; [`Cluster::rebuild`](crate::Cluster::rebuild) puts it there again.
    Forgotten,
    /// It is no node any more: its lease ended, or others were told that it is lost.
    Lost,
}

/// What a node is by its lease.
#[derive(Debug)]
pub(crate) struct State {
    pub standing: Standing,
    pub lease: i64,
    pub seconds: i64,
    pub epoch: Epoch,
    /// The revision at which the node's key was made.
    pub created: i64,
    held: BTreeMap<Shard, Revision>,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub node: Node,
    pub info: NodeInfo,
    state: Mutex<State>,
    /// On this machine's own clock, in nanoseconds: when the lease may end unless it is heard that it goes on.
    ends_ns: AtomicU64,
}

impl Member {
    /// `sent_ns` is when the lease was asked for, so that etcd's own count of its time began no earlier.
    pub fn new(node: Node, info: NodeInfo, granted: Granted, epoch: Epoch, created: i64) -> Member {
        let Granted { lease, seconds, sent_ns } = granted;
        let held = BTreeMap::new();
        let state = State { standing: Standing::Joined, lease, seconds, epoch, created, held };
        Member { node, info, state: Mutex::new(state), ends_ns: AtomicU64::new(end_ns(sent_ns, seconds)) }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The term of a shard whose home this node is at this instant, as far as it can know.
    pub fn acts_as_home(&self, shard: Shard) -> Option<Revision> {
        let term = self.term_held(shard)?;
        // Last, for this thread may be stopped at any point before.
        self.is_in_time().then_some(term)
    }

    /// The term of a shard that this node has claimed and not given up, though its lease may be over.
    pub fn term_held(&self, shard: Shard) -> Option<Revision> {
        let state = self.state();
        state.held.get(&shard).copied().filter(|_| state.standing == Standing::Joined)
    }

    pub fn is_in_time(&self) -> bool {
        boot_ns() < self.ends_ns.load(Ordering::Acquire)
    }

    /// It is the home of a shard by this lease.
    pub fn hold(&self, shard: Shard, home: Home, lease: i64) {
        let mut state = self.state();
        if state.lease != lease {
            return;
        }
        let term = state.held.entry(shard).or_insert(home.term);
        *term = home.term.max(*term);
    }

    pub fn let_go(&self, shard: Shard) {
        self.state().held.remove(&shard);
    }

    pub fn held(&self) -> Vec<Shard> {
        self.state().held.keys().copied().collect()
    }

    /// It is in the data of a new epoch.
    pub fn reenter(&self, granted: Granted, epoch: Epoch, created: i64) {
        let Granted { lease, seconds, sent_ns } = granted;
        let held = BTreeMap::new();
        *self.state() = State { standing: Standing::Joined, lease, seconds, epoch, created, held };
        self.ends_ns.store(end_ns(sent_ns, seconds), Ordering::Release);
    }

    pub fn end(&self, standing: Standing) {
        let mut state = self.state();
        state.standing = standing;
        state.held.clear();
        self.ends_ns.store(0, Ordering::Release);
    }

    /// Sees what is told of others, some of which concerns this node.
    pub fn see(&self, told: &Told, epoch: Option<Epoch>) {
        let Some(epoch) = epoch else { return };
        match &told.event {
            Event::NamesLost if self.state().epoch.id != epoch.id => self.end(Standing::Forgotten),
            Event::NodeLost { node } if *node == self.node && self.state().epoch.id == epoch.id => {
                self.end(Standing::Lost);
            }
            Event::HomeChanged { shard, home } => {
                let mut state = self.state();
                let Some(term) = state.held.get_mut(shard) else { return };
                match home {
                    Some(home) if home.node == self.node => *term = home.term.max(*term),
                    // What is told may be older than what this node has since claimed.
                    _ if epoch.base.saturating_add(told.revision) > *term => drop(state.held.remove(shard)),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// A lease that etcd gave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Granted {
    pub lease: i64,
    pub seconds: i64,
    pub sent_ns: u64,
}

/// When a lease that was asked for then ends for whoever has it: an eighth earlier than for etcd, whose clock may be the faster
/// one, and who gives keys away at its own end.
fn end_ns(sent_ns: u64, seconds: i64) -> u64 {
    let lasts_ns = u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000);
    sent_ns.saturating_add(lasts_ns - lasts_ns / 8)
}

/// Keeps the lease of a node alive until it is told to end, or there is none to keep.
pub(crate) async fn keep(client: Arc<Client>, keys: Keys, member: Arc<Member>, mut end: oneshot::Receiver<()>) {
    let mut pause = Duration::ZERO;
    loop {
        if timeout(pause, &mut end).await.is_ok() {
            return;
        }
        let (standing, lease, seconds) = {
            let state = member.state();
            (state.standing, state.lease, state.seconds)
        };
        let third = Duration::from_secs(u64::try_from(seconds).unwrap_or(0).max(1)) / 3;
        pause = third;
        match standing {
            Standing::Lost => return,
            Standing::Forgotten => continue,
            Standing::Joined => {}
        }
        let sent_ns = boot_ns();
        match client.keep_alive(lease, third).await {
            Ok(0) => {
                // The lease ended, or etcd has lost its data, of which there is more to be saved.
                match epoch::look(&client, &keys).await {
                    Ok((Some(kv), _)) if epoch::read(&kv).is_ok_and(|epoch| epoch.id == member.state().epoch.id) => {
                        if member.state().lease == lease {
                            member.end(Standing::Lost);
                        }
                    }
                    Ok(_) if member.state().lease == lease => member.end(Standing::Forgotten),
                    Ok(_) | Err(_) => {}
                }
            }
            Ok(seconds) if member.state().lease == lease => {
                member.ends_ns.fetch_max(end_ns(sent_ns, seconds), Ordering::AcqRel);
            }
            Ok(_) => {}
            Err(_) => pause = AGAIN,
        }
    }
}
