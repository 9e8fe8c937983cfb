//! Names of objects in etcd.

use crate::error::{Error, Result};
use crate::gather::{Create, Created};
use crate::keys::{Key, shown};
use crate::message::{Compare, KeyValue, RangeRequest, Response, TxnRequest, delete};
use crate::pages::Pages;
use crate::shared::Shared;
use crate::values::{read_description, write_description};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use stillframe_object::{Description, Names};

/// The shortest deadline of a look: a wait of no time is still told what is there.
const LOOK: Duration = Duration::from_secs(1);

/// How long all names may take to be read: each page has a deadline of its own.
const LIST_LIMIT: Duration = Duration::from_secs(3600);

/// The names of objects of a job, which etcd keeps. Copies are the same.
#[derive(Debug, Clone)]
pub struct EtcdNames {
    shared: Arc<Shared>,
}

impl EtcdNames {
    pub(crate) fn new(shared: Arc<Shared>) -> EtcdNames {
        EtcdNames { shared }
    }

    /// Gives many names their descriptions, unless they have some; what they have then, in the order given. They go to etcd in
    /// transactions of up to 100, which is much faster than one after the other.
    pub fn put_all(&self, wanted: &[(String, Description)]) -> Vec<Result<Description, stillframe_object::Error>> {
        let (sender, receiver) = sync_channel(wanted.len().max(1));
        let mut results: Vec<Option<Result<Description, stillframe_object::Error>>> =
            wanted.iter().map(|_| None).collect();
        let mut asked = 0;
        for (number, (name, description)) in wanted.iter().enumerate() {
            match write_description(name, description) {
                Ok(value) => {
                    let create = Create { key: self.shared.keys.object(name), value, number, answer: sender.clone() };
                    asked += usize::from(self.shared.create(create));
                }
                Err(mistakes) => {
                    let what = "the description";
                    let error = stillframe_object::Error::Text { name: name.clone(), what, mistakes };
                    results[number] = Some(Err(error));
                }
            }
        }
        drop(sender);
        // Each transaction has a deadline of its own; it is the silence between two answers that is limited.
        let limit = self.shared.limit();
        for _ in 0..asked {
            let Ok((number, created)) = receiver.recv_timeout(limit) else { break };
            let described = created.and_then(|created| match created {
                Created::New => Ok(wanted[number].1.clone()),
                Created::There(kv) => read(&kv),
            });
            results[number] = Some(described.map_err(Into::into));
        }
        let gone = || Err(Error::Gone { call: "create" }.into());
        results.into_iter().map(|result| result.unwrap_or_else(gone)).collect()
    }

    /// The ids of all objects by their names, as they were at one time; none of one whose value nobody healthy wrote.
    ///
    /// # Errors
    /// Those of etcd.
    pub fn ids(&self) -> Result<BTreeMap<String, Option<NonZeroU64>>> {
        let (client, keys) = (self.shared.client.clone(), self.shared.keys.clone());
        self.shared.reactor.wait("list", LIST_LIMIT, async move {
            let (mut ids, mut pages) = (BTreeMap::new(), Pages::new(keys.objects(), 0, false));
            while let Some(page) = pages.next(&client).await? {
                for kv in page {
                    if let Ok(Key::Object(name)) = keys.read(&kv.key) {
                        ids.insert(name, read(&kv).ok().map(|described| described.id));
                    }
                }
            }
            Ok(ids)
        })
    }

    /// Whether etcd takes an object of this name and description.
    pub fn is_fit(name: &str, description: &Description) -> bool {
        write_description(name, description).is_ok()
    }

    /// Whether an object cannot be put there, now or later: for what it is, or for what somebody has put in its place.
    pub fn is_unfit(error: &stillframe_object::Error) -> bool {
        use std::error::Error as _;
        let of_etcd = || error.source().and_then(|source| source.downcast_ref::<Error>());
        matches!(error, stillframe_object::Error::Text { .. }) || matches!(of_etcd(), Some(Error::Hostile { .. }))
    }

    fn look(&self, name: &str, deadline: Duration) -> Result<Option<KeyValue>> {
        let (client, key) = (self.shared.client.clone(), self.shared.keys.object(name));
        self.shared.reactor.wait("get", deadline, async move {
            let request = RangeRequest { key, ..RangeRequest::default() };
            Ok(client.range_within(&request, deadline).await?.kvs.pop())
        })
    }
}

fn read(kv: &KeyValue) -> Result<Description> {
    read_description(&kv.value).map_err(|why| Error::Hostile { key: shown(&kv.key), why })
}

impl Names for EtcdNames {
    fn put(&self, name: &str, description: &Description) -> stillframe_object::Result<Description> {
        let all = self.put_all(&[(name.to_owned(), description.clone())]);
        all.into_iter().next().unwrap_or_else(|| Err(Error::Gone { call: "create" }.into()))
    }

    fn get(&self, name: &str) -> stillframe_object::Result<Option<Description>> {
        let found = self.look(name, self.shared.client.deadline)?;
        Ok(found.as_ref().map(read).transpose()?)
    }

    fn wait(&self, name: &str, timeout: Duration) -> stillframe_object::Result<Option<Description>> {
        let begin = Instant::now();
        let deadline = || {
            let left = timeout.saturating_sub(begin.elapsed());
            self.shared.client.deadline.min(left.max(LOOK))
        };
        // One that is put from here on wakes this thread, even before it is waited for.
        let watch = (!timeout.is_zero()).then(|| self.shared.watch());
        let waiter = watch.as_ref().map(|watch| watch.waiter(name));
        if let Some(kv) = self.look(name, deadline())? {
            return Ok(Some(read(&kv)?));
        }
        let Some(waiter) = waiter else { return Ok(None) };
        match waiter.woken.recv_timeout(timeout.saturating_sub(begin.elapsed())) {
            Ok(described) => Ok(Some(described?)),
            // What the watch may have missed is still found; and whether etcd answers at all is told.
            Err(RecvTimeoutError::Timeout) => Ok(self.look(name, deadline())?.as_ref().map(read).transpose()?),
            Err(RecvTimeoutError::Disconnected) => Err(Error::Gone { call: "wait" }.into()),
        }
    }

    fn remove(&self, name: &str, id: NonZeroU64) -> stillframe_object::Result<bool> {
        let (client, key) = (self.shared.client.clone(), self.shared.keys.object(name));
        let limit = self.shared.client.deadline.saturating_mul(2);
        Ok(self.shared.reactor.wait("remove", limit, async move {
            loop {
                let request = RangeRequest { key: key.clone(), ..RangeRequest::default() };
                let Some(kv) = client.range(&request).await?.kvs.pop() else { return Ok(false) };
                if read(&kv)?.id != id {
                    return Ok(false);
                }
                let request = TxnRequest {
                    compare: vec![Compare::unchanged(&key, kv.mod_revision)],
                    success: vec![delete(&key)],
                    failure: Vec::new(),
                };
                // Where the key changed in between it is looked at once more: it may still have this id.
                if client.txn(&request).await?.succeeded {
                    return Ok(true);
                }
            }
        })?)
    }

    fn discard(&self, name: &str) -> stillframe_object::Result<bool> {
        let (client, key) = (self.shared.client.clone(), self.shared.keys.object(name));
        Ok(self.shared.reactor.wait("remove", client.deadline, async move {
            let request = TxnRequest { success: vec![delete(&key)], ..TxnRequest::default() };
            let answers = client.txn(&request).await?.responses;
            let deleted = answers.into_iter().map(|answer| match answer.response {
                Some(Response::Delete(deleted)) => deleted.deleted,
                _ => 0,
            });
            Ok(deleted.sum::<i64>() > 0)
        })?)
    }

    fn list(&self) -> stillframe_object::Result<Vec<String>> {
        let (client, keys) = (self.shared.client.clone(), self.shared.keys.clone());
        let mut names = self.shared.reactor.wait("list", LIST_LIMIT, async move {
            let (mut names, mut pages) = (Vec::new(), Pages::new(keys.objects(), 0, true));
            while let Some(page) = pages.next(&client).await? {
                for kv in page {
                    match keys.read(&kv.key) {
                        Ok(Key::Object(name)) => names.push(name),
                        Ok(_) => {}
                        Err(why) => return Err(Error::Hostile { key: shown(&kv.key), why }),
                    }
                }
            }
            Ok(names)
        })?;
        names.sort();
        Ok(names)
    }
}
