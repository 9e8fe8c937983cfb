//! The one watch of a process: it keeps a mirror of what etcd holds, wakes those who wait for a name, and tells of changes.

use crate::client::Client;
use crate::epoch;
use crate::error::{Error, Result};
use crate::event::{Event, Told};
use crate::keys::{Key, Keys, shown};
use crate::lost::{self, Unmarked};
use crate::member::Member;
use crate::message::{KeyValue, WatchCreate, WatchRequest, WatchResponse};
use crate::mirror::{Mirror, Part};
use crate::pages::Pages;
use crate::queue::Queue;
use crate::reactor::Reactor;
use crate::values::{NodeInfo, read_description};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stillframe_object::Description;
use stillframe_roster::writer::Node;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// How long to wait before etcd is asked again after a failure; doubled each time. A call has tried all addresses by then.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// How soon etcd is told once more that nodes are lost.
const AGAIN: Duration = Duration::from_secs(1);

/// Who is told of changes.
pub(crate) struct Subscriber {
    pub queue: Arc<Queue>,
    /// Its node, which sees each change before it is told.
    pub member: Arc<Member>,
    /// Nodes that it knows of data that etcd has lost.
    pub missing: Vec<(Node, NodeInfo)>,
}

type Waiters = HashMap<String, Vec<(u64, SyncSender<Result<Description>>)>>;

/// What the watch knows, for all threads.
pub(crate) struct Watch {
    mirror: Mutex<Mirror>,
    waiters: Mutex<Waiters>,
    subscribers: mpsc::UnboundedSender<Subscriber>,
    /// Changes when the mirror has.
    changed: watch::Sender<()>,
    /// Since when everything that this process knows is back in etcd, after a loss of etcd's data; none before that.
    rebuilt: watch::Sender<Option<Instant>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("mirror", &self.mirror).finish_non_exhaustive()
    }
}

/// Somebody who waits for a name.
pub(crate) struct Waiter<'a> {
    watch: &'a Watch,
    name: &'a str,
    number: u64,
    pub woken: Receiver<Result<Description>>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiters = self.watch.waiters();
        if let Some(of_name) = waiters.get_mut(self.name) {
            of_name.retain(|(number, _)| *number != self.number);
            if of_name.is_empty() {
                waiters.remove(self.name);
            }
        }
    }
}

impl Watch {
    pub fn start(reactor: &Reactor, client: Arc<Client>, keys: Keys, grace: Duration) -> Arc<Watch> {
        let (sender, subscribers) = mpsc::unbounded_channel();
        let watch = Arc::new(Watch {
            mirror: Mutex::default(),
            waiters: Mutex::default(),
            subscribers: sender,
            changed: watch::Sender::new(()),
            rebuilt: watch::Sender::new(None),
        });
        let watcher = Watcher {
            client,
            keys,
            watch: watch.clone(),
            subscribers,
            subscriber: None,
            grace,
            give_up_at: None,
            rebuilt: watch.rebuilt.subscribe(),
            mark_at: None,
            refused: None,
        };
        reactor.spawn(watcher.run());
        watch
    }

    pub fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether everything that this process knows is back in etcd, from now on. Objects that others know have a grace from then to come
    /// back, too: before that, those that are missing may be this process's own.
    pub fn note_rebuilt(&self, is_rebuilt: bool) {
        self.rebuilt.send_replace(is_rebuilt.then(Instant::now));
    }

    /// Is told of everything that is there, and of all changes after that.
    pub fn subscribe(&self, subscriber: Subscriber) {
        // The watch ends with the reactor, in which nobody waits then.
        let _ = self.subscribers.send(subscriber);
    }

    /// Waits for a name; whoever does looks whether it is there afterwards.
    pub fn waiter<'a>(&'a self, name: &'a str) -> Waiter<'a> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (number, (sender, woken)) = (NUMBER.fetch_add(1, Ordering::Relaxed), sync_channel(1));
        self.waiters().entry(name.to_owned()).or_default().push((number, sender));
        Waiter { watch: self, name, number, woken }
    }

    /// Waits until the mirror is so.
    pub async fn until(&self, deadline: Duration, is_so: impl Fn(&Mirror) -> bool) -> bool {
        let mut changed = self.changed.subscribe();
        let so = async {
            while !is_so(&self.mirror()) {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        timeout(deadline, so).await.is_ok()
    }

    fn wake(&self, keys: &Keys, kv: &KeyValue) {
        let mut waiters = self.waiters();
        if waiters.is_empty() {
            return;
        }
        let Ok(Key::Object(name)) = keys.read(&kv.key) else { return };
        for (_, sender) in waiters.remove(&name).into_iter().flatten() {
            let described = read_description(&kv.value).map_err(|why| Error::Hostile { key: shown(&kv.key), why });
            // Whoever waited may have gone.
            let _ = sender.try_send(described);
        }
    }
}

async fn sleep_or_never(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Why a stream of changes ended.
enum End {
    /// It can be gone on with where it stopped.
    Broken,
    /// All has to be read again.
    Anew,
}

struct Watcher {
    client: Arc<Client>,
    keys: Keys,
    watch: Arc<Watch>,
    subscribers: mpsc::UnboundedReceiver<Subscriber>,
    subscriber: Option<Subscriber>,
    grace: Duration,
    /// When nodes that did not come back after a loss are given up.
    give_up_at: Option<Instant>,
    /// As the watch's, from which the grace of objects counts.
    rebuilt: watch::Receiver<Option<Instant>>,
    /// When etcd is to be told which nodes are lost.
    mark_at: Option<Instant>,
    /// What kept all from being read the last time: it is told once.
    refused: Option<Event>,
}

impl Watcher {
    async fn run(mut self) {
        let (mut pause, mut is_current) = (PAUSE_MIN, false);
        loop {
            let end = if is_current { self.resume().await } else { self.read_all().await };
            let end = match end {
                Ok(true) => {
                    pause = PAUSE_MIN;
                    self.follow().await
                }
                Ok(false) => Ok(End::Anew),
                Err(error) => Err(error),
            };
            match end {
                Ok(End::Anew) => is_current = false,
                Ok(End::Broken) => is_current = true,
                // What was read page by page was compacted meanwhile.
                Err(error) if error.is_compacted() => is_current = false,
                Err(error) => {
                    is_current &= error.is_timeout();
                    if let Error::Hostile { key, why } = error {
                        let refused = Event::Refused { key, why };
                        if self.refused.as_ref() != Some(&refused) {
                            self.refused = Some(refused.clone());
                            let revision = self.watch.mirror().revision;
                            self.tell(revision, vec![refused]).await;
                        }
                    }
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Whether etcd still has the data that were read, so that only changes are missing.
    async fn resume(&mut self) -> Result<bool> {
        let (found, revision) = epoch::look(&self.client, &self.keys).await?;
        let mirror = self.watch.mirror();
        Ok(found.is_some_and(|kv| !mirror.is_other_epoch(&self.keys, &kv)) && revision >= mirror.revision)
    }

    /// Reads all anew, and tells what is different.
    async fn read_all(&mut self) -> Result<bool> {
        while let Ok(subscriber) = self.subscribers.try_recv() {
            self.take(subscriber);
        }
        let highest = self.watch.mirror().highest_term();
        let (epoch, revision) = epoch::ensure(&self.client, &self.keys, highest).await?;
        let mut events = self.watch.mirror().begin(epoch, revision);
        let missing =
            self.subscriber.as_mut().map(|subscriber| std::mem::take(&mut subscriber.missing)).unwrap_or_default();
        if !missing.is_empty() || events.contains(&Event::NamesLost) {
            self.give_up_at = Some(Instant::now() + self.grace);
        }
        if events.contains(&Event::NamesLost) {
            self.watch.note_rebuilt(false);
        }
        events.extend(self.watch.mirror().expect(missing));
        self.tell(revision, events).await;
        let parts = [
            (Part::Lost, self.keys.all_lost()),
            (Part::Nodes, self.keys.nodes()),
            (Part::Homes, self.keys.homes()),
            (Part::Objects, self.keys.objects()),
        ];
        for (part, range) in parts {
            let (mut pages, mut nodes) = (Pages::new(range, revision as i64, false), Vec::new());
            while let Some(page) = pages.next(&self.client).await? {
                match part {
                    Part::Nodes => nodes.extend(page),
                    Part::Lost | Part::Homes | Part::Objects => {
                        for kv in page {
                            self.put(revision, &kv).await;
                        }
                    }
                }
            }
            // As they joined, which is not the order of their keys: of two nodes of a machine the later one is there.
            nodes.sort_by_key(|kv| kv.create_revision);
            for kv in nodes {
                self.put(revision, &kv).await;
            }
            let events = self.watch.mirror().end(part);
            self.tell(revision, events).await;
            // Objects may be more than whoever joins is told before it asks.
            self.watch.changed.send_replace(());
        }
        Ok(true)
    }

    /// From now on somebody else is told, and from the beginning.
    fn take(&mut self, subscriber: Subscriber) {
        self.watch.mirror().forget(subscriber.member.info.incarnation);
        self.subscriber = Some(subscriber);
    }

    /// Takes changes until the stream ends.
    async fn follow(&mut self) -> Result<End> {
        let mut connection = self.client.connection();
        connection.mark_unchanged();
        let known = self.watch.mirror().revision;
        let (key, range_end) = self.keys.all();
        // What was known last is asked for again: of its revision some may be missing.
        let create = WatchCreate { key, range_end, start_revision: known as i64, fragment: true };
        let mut stream = self.client.watch(&WatchRequest { create: Some(create) }).await?;
        loop {
            self.mark_at = (!self.unmarked().is_empty()).then(|| self.mark_at.unwrap_or_else(Instant::now));
            let rebuilt = *self.rebuilt.borrow_and_update();
            let give_up_objects = sleep_or_never(rebuilt.map(|at| at + self.grace));
            let (give_up, mark) = (sleep_or_never(self.give_up_at), sleep_or_never(self.mark_at));
            tokio::select! {
                answer = stream.message() => match answer {
                    Ok(Some(answer)) => {
                        if let Some(end) = self.take_answer(answer, known).await? {
                            return Ok(end);
                        }
                    }
                    Ok(None) => return Ok(End::Broken),
                    Err(status) => {
                        let error = self.client.ended(&status);
                        return if error.is_timeout() { Ok(End::Broken) } else { Err(error) };
                    }
                },
                Some(subscriber) = self.subscribers.recv() => {
                    self.take(subscriber);
                    return Ok(End::Anew);
                }
                _ = connection.changed() => return Ok(End::Broken),
                () = give_up => {
                    self.give_up_at = None;
                    self.watch.mirror().give_up_nodes();
                }
                // The sender is this watch's own.
                Ok(()) = self.rebuilt.changed() => {}
                () = give_up_objects => {
                    // Unless they are being put there once more.
                    let is_due = self.watch.rebuilt.send_if_modified(|now| *now == rebuilt && now.take().is_some());
                    if is_due {
                        let (revision, events) = {
                            let mut mirror = self.watch.mirror();
                            (mirror.revision, mirror.give_up_objects())
                        };
                        self.tell(revision, events).await;
                    }
                }
                () = mark => {
                    // What etcd has of them by then, this watch tells. Where it cannot be told now, it is tried again.
                    self.mark_at = Some(Instant::now() + AGAIN);
                    let _ = lost::mark(&self.client, &self.keys, &self.unmarked()).await;
                }
            }
        }
    }

    /// Numbers that etcd has still to be told that they are lost; none where nobody is told. Whether its own is, a node learns from others.
    fn unmarked(&self) -> Vec<(Node, Unmarked)> {
        let Some(subscriber) = &self.subscriber else { return Vec::new() };
        let mut unmarked = self.watch.mirror().unmarked();
        unmarked.retain(|(node, _)| *node != subscriber.member.node);
        unmarked
    }

    async fn take_answer(&mut self, answer: WatchResponse, known: u64) -> Result<Option<End>> {
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        if answer.canceled {
            return if answer.compact_revision > 0 {
                Ok(Some(End::Anew))
            } else {
                let endpoint = self.client.shown();
                Err(Error::Refused { endpoint, call: "watch", code: 0, message: answer.cancel_reason })
            };
        }
        // It may have been asked for of an etcd that has lost its data since: what it tells from now on is of those that it has now.
        if answer.created && (u64::try_from(revision).is_ok_and(|revision| revision < known) || !self.resume().await?) {
            return Ok(Some(End::Anew));
        }
        let mut events = answer.events;
        // etcd deletes the keys of a lease in their order, at one revision: who hears that a shard is free has to have heard which node
        // was lost.
        events.sort_by_key(|event| event.kv.as_ref().map(|kv| (kv.mod_revision, !self.is_loss(event.kind, &kv.key))));
        for event in events {
            let Some(kv) = event.kv else { continue };
            let revision = u64::try_from(kv.mod_revision).unwrap_or(0);
            if event.kind == 0 {
                self.put(revision, &kv).await;
            } else {
                let events = self.watch.mirror().delete(&self.keys, &kv.key);
                self.tell(revision, events).await;
            }
            let is_other = {
                let mut mirror = self.watch.mirror();
                mirror.revision = mirror.revision.max(revision);
                let has_gone = event.kind != 0 && kv.key == self.keys.epoch();
                has_gone || event.kind == 0 && mirror.is_other_epoch(&self.keys, &kv)
            };
            if is_other {
                return Ok(Some(End::Anew));
            }
        }
        self.watch.changed.send_replace(());
        Ok(None)
    }

    fn is_loss(&self, kind: i32, key: &[u8]) -> bool {
        kind != 0 && matches!(self.keys.read(key), Ok(Key::Node(_)))
    }

    async fn put(&mut self, revision: u64, kv: &KeyValue) {
        let events = self.watch.mirror().put(&self.keys, kv);
        self.watch.wake(&self.keys, kv);
        self.tell(revision, events).await;
    }

    async fn tell(&mut self, revision: u64, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let epoch = self.watch.mirror().epoch;
        for event in events {
            let Some(subscriber) = &self.subscriber else { return };
            let told = Told { revision, event };
            subscriber.member.see(&told, epoch);
            if !subscriber.queue.push(told).await {
                self.subscriber = None;
            }
        }
    }
}
