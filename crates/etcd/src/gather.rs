//! Creates that are gathered: what arrives during a round trip goes to etcd in one transaction.
//!
//! It puts all of them if none is there. Where one is, each becomes a transaction of its own within another, so that a key that is
//! there already fails no other member.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::keys::shown;
use crate::message::{KeyValue, Response, TxnRequest, txn};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Members of a transaction; etcd's default is to take at most 128.
const MEMBERS_MAX: usize = 100;

/// Bytes of a transaction's keys and values. etcd's default limit is half as much again, and one value may have nearly that.
const BYTES_MAX: usize = 1 << 20;

/// How long those are waited for who got their last answer together, and are likely to ask again: few large transactions cost
/// etcd much less than many small ones, each of which copies what it has not committed yet.
const LINGER: Duration = Duration::from_micros(300);

/// A key to be put if it is not there.
#[derive(Debug)]
pub(crate) struct Create {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// Who asks, and how it is told there.
    pub number: usize,
    pub answer: SyncSender<(usize, Result<Created>)>,
}

/// What has become of it.
#[derive(Debug, Clone)]
pub(crate) enum Created {
    /// It was put.
    New,
    /// There was one already.
    There(KeyValue),
}

/// Those who want the same key: the first one's value is put, if any.
type Members = Vec<(Vec<u8>, Vec<Create>)>;

/// Takes creates for as long as anybody can send some.
pub(crate) async fn run(client: Arc<Client>, mut creates: mpsc::UnboundedReceiver<Create>) {
    let (mut arrived, mut together) = (Vec::new(), 0_usize);
    loop {
        if arrived.is_empty() && creates.recv_many(&mut arrived, MEMBERS_MAX).await == 0 {
            return;
        }
        linger(together.saturating_sub(arrived.len()), &creates).await;
        while arrived.len() < MEMBERS_MAX
            && let Ok(create) = creates.try_recv()
        {
            arrived.push(create);
        }
        // It goes down slowly, so that one who comes late does not part the others.
        together = arrived.len().max(together * 7 / 8);
        put(&client, select(&mut arrived)).await;
    }
}

/// Waits until so many more have arrived, but not long.
async fn linger(missing: usize, creates: &mpsc::UnboundedReceiver<Create>) {
    let begin = Instant::now();
    while creates.len() < missing && begin.elapsed() < LINGER {
        // They need a processor to ask.
        std::thread::yield_now();
        tokio::task::yield_now().await;
    }
}

/// Takes out the first ones that fit into one transaction.
fn select(arrived: &mut Vec<Create>) -> Members {
    let (mut members, mut positions, mut bytes, mut count) = (Members::new(), HashMap::new(), 0, 0);
    for create in arrived.iter() {
        bytes += create.key.len() * 2 + create.value.len();
        if count > 0 && bytes > BYTES_MAX {
            break;
        }
        count += 1;
    }
    for create in arrived.drain(..count) {
        let position = *positions.entry(create.key.clone()).or_insert(members.len());
        if position == members.len() {
            members.push((create.key.clone(), Vec::new()));
        }
        members[position].1.push(create);
    }
    members
}

/// Puts all; where that is refused, one by one, so that nobody suffers from another's.
async fn put(client: &Client, members: Members) {
    let requests: Vec<TxnRequest> = members
        .iter()
        .map(|(key, wanted)| TxnRequest::put_new(key, wanted.first().map_or(&[][..], |create| &create.value), 0))
        .collect();
    let created = match all_new(client, &requests).await {
        Ok(true) => Ok(vec![Created::New; requests.len()]),
        // Also where the answer to an attempt before was lost: then they are there, and the same.
        Ok(false) => together(client, &requests).await,
        Err(error) => Err(error),
    };
    match created {
        Ok(created) => members.into_iter().zip(created).for_each(|((_, wanted), created)| answer(wanted, Ok(created))),
        Err(error) if error.is_timeout() || members.len() == 1 => {
            members.into_iter().for_each(|(_, wanted)| answer(wanted, Err(error.clone())));
        }
        Err(_) => {
            for ((_, wanted), request) in members.into_iter().zip(requests) {
                let alone = together(client, &[request]).await;
                answer(wanted, alone.and_then(|mut created| created.pop().ok_or_else(|| unlike("nothing"))));
            }
        }
    }
}

/// Puts all if none is there; whether it did. etcd has about a third less to do than with transactions within one.
async fn all_new(client: &Client, requests: &[TxnRequest]) -> Result<bool> {
    let compare = requests.iter().flat_map(|request| request.compare.clone()).collect();
    let success = requests.iter().flat_map(|request| request.success.clone()).collect();
    Ok(client.txn(&TxnRequest { compare, success, failure: Vec::new() }).await?.succeeded)
}

async fn together(client: &Client, requests: &[TxnRequest]) -> Result<Vec<Created>> {
    let success = requests.iter().cloned().map(txn).collect();
    let response = client.txn(&TxnRequest { success, ..TxnRequest::default() }).await?;
    if response.responses.len() != requests.len() {
        return Err(unlike(&format!("{} answers for {} members", response.responses.len(), requests.len())));
    }
    let one = |(answer, request): (crate::message::ResponseOp, &TxnRequest)| match answer.response {
        Some(Response::Txn(one)) if one.succeeded => Ok(Created::New),
        Some(Response::Txn(one)) => {
            let found = one.responses.first().and_then(|answer| answer.found());
            let key = request.compare.first().map_or(&[][..], |compare| &compare.key);
            match found {
                Some(kv) if kv.key == key => Ok(Created::There(kv.clone())),
                _ => Err(unlike(&format!("another key than '{}'", shown(key)))),
            }
        }
        _ => Err(unlike("no transaction")),
    };
    response.responses.into_iter().zip(requests).map(one).collect()
}

fn unlike(what: &str) -> Error {
    Error::Unfit { what: "what was to be created".into(), why: format!("etcd answered with {what}") }
}

/// Tells all who wanted this key. Whoever came behind the first finds the first one's there.
fn answer(wanted: Vec<Create>, created: Result<Created>) {
    let first = wanted.first().map(|first| (first.key.clone(), first.value.clone()));
    for (position, create) in wanted.into_iter().enumerate() {
        let told = match (&created, &first) {
            (Ok(Created::New), Some((key, value))) if position > 0 => {
                let (key, value) = (key.clone(), value.clone());
                Ok(Created::There(KeyValue { key, value, ..KeyValue::default() }))
            }
            _ => created.clone(),
        };
        // Whoever asked may have given up.
        let _ = create.answer.try_send((create.number, told));
    }
}
